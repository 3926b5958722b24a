//! A capacity search from JSON: everything that is wrong is found at once, each fault on its field.

use serde_json::{Map, Value};

use super::super::design::Arm;
use super::super::read::{MAX_TIME_S, base};
use super::{CapacitySpec, refusal};
use crate::measure::plan::{Caps, FieldError, Plan};
use crate::measure::search::{Arrival, Goal, LossSettings, SHARES, Settings};

const KEYS: [&str; 9] = [
    "base",
    "goal",
    "width",
    "budget_s",
    "step_s",
    "max_rate",
    "arrival",
    "clean_rate",
    "max_users",
];
const GOAL_KEYS: [&str; 4] = ["quantile", "latency_ms", "error_share", "loss_share"];

/// The fields of a plan that a step decides.
const REPLACED: [&str; 6] = [
    "rate",
    "num_conns",
    "duration_s",
    "schedule",
    "bytes",
    "bandwidth_bits_per_second",
];

struct Reader<'a> {
    object: &'a Map<String, Value>,
    /// What stands before the names of its fields.
    path: &'static str,
    errors: Vec<FieldError>,
}

impl CapacitySpec {
    /// Reads what stands under `capacity`.
    ///
    /// # Errors
    /// One entry for each field that is at fault; never empty.
    pub(in crate::measure::experiment) fn read(
        value: &Value,
        caps: &Caps,
    ) -> Result<Self, Vec<FieldError>> {
        let empty = Map::new();
        let mut all = Reader::new(value.as_object().unwrap_or(&empty), "capacity", &KEYS);
        if !value.is_object() {
            all.refuse("", "capacity is an object such as {\"base\": …}.");
        }
        let goal_value = all.given("goal");
        let mut goal = Reader::new(
            goal_value.and_then(Value::as_object).unwrap_or(&empty),
            "capacity.goal",
            &GOAL_KEYS,
        );
        if goal_value.is_some_and(|value| !value.is_object()) {
            all.refuse(
                "goal",
                "The goal is an object such as {\"quantile\": 0.95, \"latency_ms\": 500}.",
            );
        }
        let arm = all.arm(caps);
        let is_loss = arm
            .as_ref()
            .is_some_and(|arm| matches!(arm.plan, Plan::Throughput(_)));
        let settings = settings(&mut all, &mut goal, caps, is_loss);
        let mut errors = all.errors;
        errors.append(&mut goal.errors);
        match arm {
            Some(arm) if errors.is_empty() => Ok(Self {
                base: value["base"].clone(),
                arm,
                settings,
            }),
            _ => Err(errors),
        }
    }
}

fn settings(all: &mut Reader<'_>, goal: &mut Reader<'_>, caps: &Caps, is_loss: bool) -> Settings {
    let defaults = Settings::default();
    let quantile = goal.quantile();
    let latency_ms = goal.number("latency_ms", "The latency in ms", 0.001, 3_600_000.0);
    let error_share = goal.number("error_share", "The share of errors", 0.0, 0.5);
    let loss_share = goal.number("loss_share", "The share that may be lost", 0.0, 0.5);
    if is_loss {
        for (key, given) in [
            ("quantile", quantile.is_some()),
            ("latency_ms", latency_ms.is_some()),
            ("error_share", error_share.is_some()),
        ] {
            if given {
                goal.refuse(key, "Datagrams are searched for by their loss alone: set loss_share, and leave this out.");
            }
        }
    } else if loss_share.is_some() {
        goal.refuse("loss_share", "Requests are not lost but fail: set error_share, or search with a throughput plan over UDP.");
    }
    let arrival = match all.given("arrival").map(Value::as_str) {
        None | Some(Some("deterministic")) => Arrival::Deterministic,
        Some(Some("exponential")) => Arrival::Exponential,
        Some(_) => {
            all.refuse(
                "arrival",
                "Requests arrive deterministic (evenly) or exponential (at random).",
            );
            Arrival::Deterministic
        }
    };
    let most_rate = if is_loss { 1e12 } else { caps.max_rate };
    let most_time = caps.max_duration_s.min(MAX_TIME_S);
    let max_users = all.number(
        "max_users",
        "The number of users",
        4.0,
        f64::from(caps.max_users),
    );
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to lie between 4 and a 32-bit number"
    )]
    let max_users = max_users.map_or_else(
        || defaults.max_users.min(caps.max_users.into()),
        |users| users as u64,
    );
    Settings {
        goal: Goal {
            quantile,
            latency_s: latency_ms.map(|ms| ms / 1e3),
            error_share,
        },
        arrival,
        width: all
            .number("width", "The width", 0.01, 0.5)
            .unwrap_or(defaults.width),
        budget_s: all.number("budget_s", "The budget in s", 5.0, most_time),
        step_s: all
            .number("step_s", "The length of a step in s", 0.5, 600.0)
            .unwrap_or(defaults.step_s),
        max_rate_per_s: all
            .number("max_rate", "The highest rate", 0.1, most_rate)
            .or_else(|| Some(caps.max_rate).filter(|rate| rate.is_finite() && !is_loss)),
        clean_rate_per_s: all.number("clean_rate", "The clean rate", 1.0, 1e9),
        max_users,
        loss: is_loss.then(|| LossSettings {
            share: loss_share.unwrap_or(0.0),
        }),
        ..defaults
    }
}

impl<'a> Reader<'a> {
    fn new(object: &'a Map<String, Value>, path: &'static str, keys: &[&str]) -> Self {
        let mut reader = Self {
            object,
            path,
            errors: Vec::new(),
        };
        for key in object.keys().filter(|key| !keys.contains(&key.as_str())) {
            let shown: String = key.chars().take(64).collect();
            reader.refuse(
                &shown,
                &format!("{path} has no field {shown}; it has {}.", keys.join(", ")),
            );
        }
        reader
    }

    fn given(&self, key: &str) -> Option<&'a Value> {
        self.object.get(key).filter(|value| !value.is_null())
    }

    fn refuse(&mut self, key: &str, message: &str) {
        let field = if key.is_empty() {
            self.path.to_owned()
        } else {
            format!("{}.{key}", self.path)
        };
        self.errors.push(FieldError {
            field,
            message: message.to_owned(),
        });
    }

    fn number(&mut self, key: &str, name: &str, least: f64, most: f64) -> Option<f64> {
        let value = self.given(key)?;
        let number = value
            .as_f64()
            .filter(|number| (least..=most).contains(number));
        if number.is_none() {
            self.refuse(
                key,
                &format!("{name} is a number from {least} to {most}, or null."),
            );
        }
        number
    }

    fn quantile(&mut self) -> Option<f64> {
        let value = self.given("quantile")?;
        if value == "auto" {
            return None;
        }
        let share = value.as_f64().and_then(|given| {
            SHARES
                .into_iter()
                .find(|share| (share - given).abs() < 1e-9)
        });
        if share.is_none() {
            self.refuse(
                "quantile",
                "The quantile is \"auto\", or one of 0.5, 0.9, 0.95, 0.99 and 0.999.",
            );
        }
        share
    }

    /// The plan, with a rate and an end in place of those that each step decides.
    fn arm(&mut self, caps: &Caps) -> Option<Arm> {
        let given = match base(self.given("base")) {
            Ok(given) => given,
            Err(messages) => {
                for message in messages {
                    self.refuse("base", &message);
                }
                return None;
            }
        };
        let mut object = given.as_object().cloned().unwrap_or_default();
        for key in REPLACED {
            object.remove(key);
        }
        let placeholder = match object.get("kind").and_then(Value::as_str) {
            Some("rate") => [("rate", 1), ("num_conns", 1)],
            _ => [("duration_s", 1), ("bandwidth_bits_per_second", 1_000_000)],
        };
        if matches!(
            object.get("kind").and_then(Value::as_str),
            Some("rate" | "throughput")
        ) {
            for (key, value) in placeholder {
                object.insert(key.to_owned(), value.into());
            }
        }
        match Plan::from_json(&Value::Object(object), caps) {
            Ok(plan) => {
                if let Some((key, message)) = refusal(&plan) {
                    self.refuse(&format!("base.{key}"), message);
                    return None;
                }
                Some(Arm {
                    point: Map::new(),
                    plan,
                })
            }
            Err(errors) => {
                for error in errors {
                    self.refuse(&format!("base.{}", error.field), &error.message);
                }
                None
            }
        }
    }
}
