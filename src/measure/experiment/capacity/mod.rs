//! A capacity search as an experiment: what is asked for, and the plans that its steps become.

mod driver;
mod levels;
mod read;
#[cfg(test)]
mod tests;

pub use levels::{search_knee, search_levels, searched};
use serde_json::{Map, Value, json};

use super::design::Arm;
use super::driver::Driver;
use super::finding::Finding;
use crate::measure::plan::Plan;
use crate::measure::search::{Settings, headline};

/// A search that is valid and bounded in time.
#[derive(Clone, Debug, PartialEq)]
pub struct CapacitySpec {
    /// The plan as it was given: its JSON, or a tool's line.
    base: Value,
    /// The plan whose rate, number and duration each step replaces.
    arm: Arm,
    settings: Settings,
}

impl CapacitySpec {
    /// The plan as it was given: its JSON, or a tool's line.
    pub const fn base(&self) -> &Value {
        &self.base
    }

    /// The plan that is varied.
    pub const fn arm(&self) -> &Arm {
        &self.arm
    }

    /// Takes the highest rate that this machine sends on schedule from its self-test, unless one was stated.
    pub const fn know_generator(&mut self, new_per_s: Option<f64>, kept_per_s: Option<f64>) {
        if let Plan::Rate(plan) = &self.arm.plan
            && self.settings.clean_rate_per_s.is_none()
        {
            self.settings.clean_rate_per_s = if plan.reuse { kept_per_s } else { new_per_s };
        }
    }

    /// What is searched for.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What decides run by run.
    pub(super) fn driver(&self) -> Box<dyn Driver> {
        Box::new(driver::Searching::new(
            self.arm.plan.clone(),
            self.settings.clone(),
        ))
    }

    /// As the JSON API takes and shows it, with what was left open decided.
    pub(super) fn to_json(&self) -> Value {
        let settings = &self.settings;
        let goal = json!({
            "quantile": settings.goal.quantile.map_or_else(|| json!("auto"), Into::into),
            "latency_ms": settings.goal.latency_s.map(|s| s * 1e3),
            "error_share": settings.goal.error_share,
            "loss_share": settings.loss.map(|loss| loss.share),
        });
        let mut object = Map::new();
        object.insert("base".to_owned(), self.base.clone());
        object.insert("goal".to_owned(), goal);
        for (key, value) in [
            ("width", json!(settings.width)),
            ("budget_s", json!(settings.budget_s)),
            ("step_s", json!(settings.step_s)),
            ("max_rate", json!(settings.max_rate_per_s)),
            ("arrival", json!(settings.arrival)),
            ("clean_rate", json!(settings.clean_rate_per_s)),
            ("max_users", json!(settings.max_users)),
        ] {
            object.insert(key.to_owned(), value);
        }
        json!({ "capacity": object })
    }

    /// The finding in words, from what the driver has found.
    pub fn finding(&self, found: Option<&Value>) -> Finding {
        let capacity = searched(found).unwrap_or_default();
        let endpoint = self.arm.plan.endpoints().into_iter().next();
        let target = endpoint.map_or_else(|| self.arm.plan.target(), |one| one.to_string());
        let words = headline(&capacity, &target, self.settings.arrival);
        Finding {
            title: words.title,
            verdict: words.meaning,
        }
    }
}

/// Whether a search can be made with this plan: the reason where not.
fn refusal(plan: &Plan) -> Option<(&'static str, &'static str)> {
    use crate::measure::plan::throughput::{Direction, Protocol};
    match plan {
        Plan::Rate(plan) if plan.num_calls != 1 => Some((
            "num_calls",
            "A step judges each connection by its one request: leave num_calls out.",
        )),
        Plan::Throughput(plan) if plan.protocol != Protocol::Udp => Some((
            "protocol",
            "Loss is told of datagrams: set protocol to udp, or search with a rate plan.",
        )),
        Plan::Throughput(plan) if plan.direction != Direction::Send => Some((
            "direction",
            "The rate that is searched for is the one that is sent: set direction to send.",
        )),
        Plan::Throughput(plan) if plan.offload => Some((
            "offload",
            "Without a bandwidth there is no rate to search: leave offload out.",
        )),
        Plan::Rate(_) | Plan::Throughput(_) => None,
        _ => Some((
            "kind",
            "A capacity is searched with a rate plan (requests), or with a throughput plan over UDP (datagrams).",
        )),
    }
}
