//! An experiment from JSON: everything that is wrong is found at once, each fault on its field.

use serde_json::{Map, Value};

use super::capacity::CapacitySpec;
use super::design::{Arm, Order, Paired, Spec, Varied, plain};
use super::estimate::estimate;
use super::prove::Proving;
use crate::measure::command_line;
use crate::measure::plan::{Caps, FieldError, Plan};

/// Most combinations of values.
pub const MAX_ARMS: usize = 100;
/// Most runs.
pub const MAX_RUNS: usize = 10_000;
/// Longest pause between runs, in s.
pub const MAX_PAUSE_S: f64 = 3_600.0;
/// Longest experiment, in s, as far as its time can be told before the start: a week.
pub const MAX_TIME_S: f64 = 604_800.0;

/// The keys of an experiment.
const KEYS: [&str; 8] = [
    "base", "vary", "paired", "capacity", "prove", "repeat", "pause_s", "order",
];

/// Fields of a plan that stand for one another: varying one replaces the others.
const INSTEAD: [&[&str]; 2] = [
    &["url", "urls"],
    &["num_conns", "duration_s", "bytes", "reps"],
];

/// What is written where a plan is missing.
const EXAMPLE: &str =
    "a plan, or a line such as \"httperf --server 127.0.0.1 --port 8000 --num-conns 100 --rate 5\"";

impl Spec {
    /// Reads what an experiment is asked to do; each plan that follows from it must be valid and within the caps.
    ///
    /// # Errors
    /// One entry for each field that is at fault; never empty.
    pub fn from_json(object: &Map<String, Value>, caps: &Caps) -> Result<Self, Vec<FieldError>> {
        let mut reader = Reader {
            object,
            caps,
            errors: Vec::new(),
        };
        let spec = reader.spec();
        match spec {
            Some(spec) if reader.errors.is_empty() => Ok(spec),
            _ => Err(reader.errors),
        }
    }
}

struct Reader<'a> {
    object: &'a Map<String, Value>,
    caps: &'a Caps,
    errors: Vec<FieldError>,
}

impl<'a> Reader<'a> {
    fn refuse(&mut self, field: &str, message: impl Into<String>) {
        let error = FieldError {
            field: field.to_owned(),
            message: message.into(),
        };
        if !self.errors.contains(&error) {
            self.errors.push(error);
        }
    }

    fn given(&self, key: &str) -> Option<&'a Value> {
        self.object.get(key).filter(|value| !value.is_null())
    }

    fn spec(&mut self) -> Option<Spec> {
        for key in self.object.keys() {
            if !KEYS.contains(&key.as_str()) {
                let shown: String = key.chars().take(64).collect();
                self.refuse(
                    &shown,
                    format!(
                        "An experiment has no field {shown}; it has {}, note, tags and objective.",
                        KEYS.join(", ")
                    ),
                );
            }
        }
        if let Some(capacity) = self.given("capacity") {
            return self.capacity(capacity);
        }
        if let Some(prove) = self.given("prove") {
            return self.prove(prove);
        }
        let repeat = self.repeat();
        let pause_s = self.pause();
        let spec = match (self.given("base"), self.given("paired")) {
            (Some(_), Some(_)) => {
                self.refuse(
                    "paired",
                    "Give either base, to vary or repeat one plan, or paired, to put two against each other.",
                );
                None
            }
            (None, None) => {
                self.refuse(
                    "base",
                    format!("The base is missing: set base to {EXAMPLE}."),
                );
                None
            }
            (None, Some(paired)) => self.paired(paired, repeat?, pause_s?),
            (Some(base), None) => self.varied(base, repeat?, pause_s?),
        }?;
        self.bounds(&spec);
        Some(spec)
    }

    fn capacity(&mut self, capacity: &Value) -> Option<Spec> {
        for key in KEYS.into_iter().filter(|key| *key != "capacity") {
            if self.given(key).is_some() {
                self.refuse(
                    key,
                    format!("A capacity search decides by itself what runs and when: leave {key} out, or put base inside capacity."),
                );
            }
        }
        match CapacitySpec::read(capacity, self.caps) {
            Ok(spec) => Some(Spec::Capacity(Box::new(spec))),
            Err(errors) => {
                self.errors.extend(errors);
                None
            }
        }
    }

    /// A question whose run has been looked up already, so that both plans are known.
    fn prove(&mut self, prove: &'a Value) -> Option<Spec> {
        for key in ["base", "vary", "paired", "order"] {
            if self.given(key).is_some() {
                self.refuse(
                    key,
                    format!("What proves a cause follows from its run: leave {key} out."),
                );
            }
        }
        let object = prove.as_object().filter(|it| it.contains_key("a"));
        let (Some(run), Some(cause), Some(object)) =
            (prove["run"].as_i64(), prove["cause"].as_str(), object)
        else {
            self.refuse(
                "prove",
                "The run whose cause is to be proved has not been looked up.",
            );
            return None;
        };
        let (repeat, pause_s) = (self.repeat()?, self.pause()?);
        let arms = self.both(object, "prove")?;
        let pair = Paired {
            a: object["a"].clone(),
            b: object.get("b").cloned().unwrap_or_default(),
            repeat,
            pause_s,
            arms,
        };
        let spec = Spec::Prove(Proving {
            run,
            cause: cause.to_owned(),
            pair,
        });
        self.bounds(&spec);
        Some(spec)
    }

    fn repeat(&mut self) -> Option<u32> {
        let Some(value) = self.given("repeat") else {
            return Some(1);
        };
        let whole = value
            .as_f64()
            .filter(|number| number.fract() == 0.0 && (1.0..=MAX_RUNS as f64).contains(number));
        if whole.is_none() {
            self.refuse(
                "repeat",
                format!("The number of repeats is a whole number from 1 to {MAX_RUNS}."),
            );
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "whole, and from 1 to ten thousand"
        )]
        whole.map(|number| number as u32)
    }

    fn pause(&mut self) -> Option<f64> {
        let Some(value) = self.given("pause_s") else {
            return Some(0.0);
        };
        let pause = value
            .as_f64()
            .filter(|pause| (0.0..=MAX_PAUSE_S).contains(pause));
        if pause.is_none() {
            self.refuse(
                "pause_s",
                format!("The pause between runs is a number of seconds from 0 to {MAX_PAUSE_S}."),
            );
        }
        pause
    }

    fn paired(&mut self, paired: &'a Value, repeat: u32, pause_s: f64) -> Option<Spec> {
        if self.given("vary").is_some() {
            self.refuse(
                "vary",
                "Two plans in turn are not varied: leave vary out, or give base in place of paired.",
            );
        }
        if self
            .given("order")
            .is_some_and(|order| order != Order::Interleaved.word())
        {
            self.refuse("order", "Two plans always take turns: leave order out.");
        }
        let Some(object) = paired.as_object() else {
            self.refuse(
                "paired",
                "paired is an object with two plans: {\"a\": …, \"b\": …}.",
            );
            return None;
        };
        for key in object.keys() {
            if key != "a" && key != "b" {
                let shown: String = key.chars().take(64).collect();
                self.refuse(
                    &format!("paired.{shown}"),
                    format!("paired has no plan {shown}: it has a and b."),
                );
            }
        }
        let arms = self.both(object, "paired")?;
        Some(Spec::Paired(Paired {
            a: object.get("a").cloned().unwrap_or_default(),
            b: object.get("b").cloned().unwrap_or_default(),
            repeat,
            pause_s,
            arms,
        }))
    }

    /// The plans a and b of this object, which must be of one kind.
    fn both(&mut self, object: &'a Map<String, Value>, within: &str) -> Option<Vec<Arm>> {
        let mut arms = Vec::new();
        for name in ["a", "b"] {
            let field = format!("{within}.{name}");
            let Some(plan) = self.base(object.get(name), &field) else {
                continue;
            };
            match Plan::from_json(&plan, self.caps) {
                Ok(plan) => arms.push(Arm {
                    point: Map::from_iter([("arm".to_owned(), Value::from(name))]),
                    plan,
                }),
                Err(errors) => {
                    for error in errors {
                        self.refuse(&format!("{field}.{}", error.field), error.message);
                    }
                }
            }
        }
        let [a, b] = arms.as_slice() else {
            return None;
        };
        if a.plan.kind() != b.plan.kind() {
            self.refuse(
                &format!("{within}.b"),
                format!(
                    "The two plans must be of one kind to be put against each other: a is {}, b is {}.",
                    a.plan.kind().word(),
                    b.plan.kind().word()
                ),
            );
            return None;
        }
        Some(arms)
    }

    fn varied(&mut self, given: &'a Value, repeat: u32, pause_s: f64) -> Option<Spec> {
        let base = self.base(Some(given), "base");
        let vary = self.vary();
        let order = match self.given("order") {
            None => Some(Order::Given),
            Some(word) => word.as_str().and_then(Order::from_word),
        };
        if order.is_none() {
            self.refuse(
                "order",
                "The order is given (all repeats of a value in a row) or interleaved (each value once, then all again).",
            );
        }
        let (base, vary, order) = (base?, vary?, order?);
        let arms = self.arms(&base, &vary)?;
        Some(Spec::Varied(Varied {
            base: given.clone(),
            vary,
            repeat,
            pause_s,
            order,
            arms,
        }))
    }

    /// A plan's JSON from JSON or from a tool's line.
    fn base(&mut self, given: Option<&Value>, field: &str) -> Option<Value> {
        match base(given) {
            Ok(plan) => Some(plan),
            Err(problems) => {
                for problem in problems {
                    self.refuse(field, problem);
                }
                None
            }
        }
    }

    /// The fields that vary with their values.
    fn vary(&mut self) -> Option<Vec<(String, Vec<Value>)>> {
        let Some(value) = self.given("vary") else {
            return Some(Vec::new());
        };
        let Some(object) = value.as_object().filter(|object| !object.is_empty()) else {
            self.refuse(
                "vary",
                "vary names one or two fields of the plan with their values, such as {\"rate\": [4, 5, 7, 10]}.",
            );
            return None;
        };
        if object.len() > 2 {
            self.refuse(
                "vary",
                format!(
                    "At most two fields are varied at a time; vary names {}.",
                    object.len()
                ),
            );
            return None;
        }
        let before = self.errors.len();
        let mut vary = Vec::new();
        for (name, values) in object {
            let shown: String = name.chars().take(64).collect();
            let field = format!("vary.{shown}");
            if name == "kind" {
                self.refuse(
                    &field,
                    "The kind of plan cannot be varied: its other fields would not fit.",
                );
                continue;
            }
            let Some(values) = values.as_array().filter(|values| !values.is_empty()) else {
                self.refuse(
                    &field,
                    format!("The values of {shown} are a list, such as [4, 5, 7, 10]."),
                );
                continue;
            };
            for (place, value) in values.iter().enumerate() {
                if !(value.is_number() || value.is_string() || value.is_boolean()) {
                    self.refuse(&field, "Each value is a number, a text, or true or false.");
                } else if values[..place].iter().any(|other| same(other, value)) {
                    self.refuse(
                        &field,
                        format!(
                            "{} stands twice: to run a value several times, set repeat.",
                            plain(value)
                        ),
                    );
                }
            }
            vary.push((name.clone(), values.clone()));
        }
        let combinations: usize = vary.iter().map(|(_, values)| values.len()).product();
        if combinations > MAX_ARMS {
            self.refuse(
                "vary",
                format!(
                    "There are {combinations} combinations of values; at most {MAX_ARMS} are run."
                ),
            );
        }
        (self.errors.len() == before).then_some(vary)
    }

    /// Every combination of the values, each a valid plan.
    fn arms(&mut self, base: &Value, vary: &[(String, Vec<Value>)]) -> Option<Vec<Arm>> {
        let mut points: Vec<Map<String, Value>> = vec![Map::new()];
        for (name, values) in vary {
            points = points
                .iter()
                .flat_map(|point| {
                    values.iter().map(move |value| {
                        let mut point = point.clone();
                        point.insert(name.clone(), value.clone());
                        point
                    })
                })
                .collect();
        }
        let before = self.errors.len();
        let mut arms = Vec::new();
        for point in points {
            match Plan::from_json(&with(base, &point), self.caps) {
                Ok(plan) => arms.push(Arm { point, plan }),
                Err(errors) => {
                    for error in errors {
                        self.refuse_plan(&point, error);
                    }
                }
            }
        }
        (self.errors.len() == before).then_some(arms)
    }

    /// A fault of one combination's plan, on the varied field where it is that field's.
    fn refuse_plan(&mut self, point: &Map<String, Value>, error: FieldError) {
        let stem = error.field.split(['.', '[']).next().unwrap_or_default();
        let varied = point
            .iter()
            .find(|(name, _)| name.chars().take(60).eq(stem.chars().take(60)));
        match varied {
            Some(_) if error.message.contains("has no field") => {
                self.refuse(&format!("vary.{stem}"), error.message);
            }
            Some((_, value)) => {
                let message = format!("With {stem} {}: {}", plain(value), error.message);
                self.refuse(&format!("vary.{stem}"), message);
            }
            None => self.refuse(&format!("base.{}", error.field), error.message),
        }
    }

    fn bounds(&mut self, spec: &Spec) {
        if spec.runs() > MAX_RUNS {
            self.refuse(
                "repeat",
                format!(
                    "{} values run {} times each are {} runs; at most {MAX_RUNS} are made.",
                    spec.arms().len(),
                    spec.repeat(),
                    spec.runs()
                ),
            );
            return;
        }
        let known = estimate(spec).time_s;
        if known > MAX_TIME_S {
            self.refuse(
                "repeat",
                format!(
                    "This takes at least {:.1} days, at most 7 are allowed: repeat less often, or shorten the runs or the pause.",
                    known / 86_400.0
                ),
            );
        }
    }
}

/// A plan's JSON from JSON or from a tool's line; the faults in sentences where it is neither.
pub(super) fn base(given: Option<&Value>) -> Result<Value, Vec<String>> {
    match given {
        Some(Value::String(line)) => command_line::plan_of(line),
        Some(plan @ Value::Object(_)) => Ok(plan.clone()),
        None | Some(Value::Null) => Err(vec![format!("This is missing: give {EXAMPLE}.")]),
        Some(_) => Err(vec![format!("This must be {EXAMPLE}.")]),
    }
}

/// Whether two values mean the same: 5 and 5.0 do.
fn same(a: &Value, b: &Value) -> bool {
    a == b || a.as_f64().is_some() && a.as_f64() == b.as_f64()
}

/// The base with the point's values in it; what a value stands in place of is taken out.
fn with(base: &Value, point: &Map<String, Value>) -> Value {
    let mut plan = base.as_object().cloned().unwrap_or_default();
    for name in point.keys() {
        let group = INSTEAD.iter().find(|group| group.contains(&name.as_str()));
        for other in group.copied().unwrap_or_default() {
            if !point.contains_key(*other) {
                plan.remove(*other);
            }
        }
    }
    for (name, value) in point {
        plan.insert(name.clone(), value.clone());
    }
    Value::Object(plan)
}
