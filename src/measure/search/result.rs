//! What a search has found: the bounds, every trial with its verdict, and what to set in a balancer.

use serde::{Deserialize, Serialize};

use super::figures::{SHARES, StepFigures};
use super::{Action, Arrival, Purpose};

/// What one trial is found to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Verdict {
    /// The goal held.
    Pass,
    /// It did not.
    Fail,
    /// This machine was the limit: it says nothing about the target.
    Invalid,
}

impl Verdict {
    /// The word in JSON and CSV.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Pass => "PASS",
            Self::Fail => "FAIL",
            Self::Invalid => "INVALID",
        }
    }
}

/// Why a bound is missing or wider than asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitedBy {
    /// The time was over.
    Budget,
    /// No higher rate may be tried.
    MaxRate,
    /// This machine could not offer more.
    Generator,
}

/// Something about a result that a reader must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Label {
    /// Even unloaded, some requests take far longer than others.
    Spread,
    /// A rate passed and failed by turns.
    Noisy,
    /// Some requests fail however low the rate.
    ErrorsAtAnyLoad,
    /// The target did not come back to what it was.
    ServerChanged,
    /// With too much offered it answers fewer than it can.
    Degrades,
    /// The target is this machine: they share the cores.
    SharedHost,
}

/// One step and how it was judged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Requests (bits) per second offered; for a baseline that was spoilt, those answered.
    pub rate: f64,
    /// How they arrived.
    pub arrival: Arrival,
    /// What it was for.
    pub purpose: Purpose,
    /// What it is found to be.
    pub verdict: Verdict,
    /// Why, in a sentence.
    pub reason: String,
    /// The goal's quantile of the latency in ms; `None` where the request at that rank failed.
    pub latency_ms: Option<f64>,
    /// The 99th percentile of the lateness in ms.
    pub lateness_ms: Option<f64>,
    /// The median of the lateness in ms.
    pub lateness_p50_ms: Option<f64>,
    /// Median of the latency in ms.
    pub p50_ms: Option<f64>,
    /// Its 90th percentile in ms.
    pub p90_ms: Option<f64>,
    /// Its 95th percentile in ms.
    pub p95_ms: Option<f64>,
    /// Its 99th percentile in ms.
    pub p99_ms: Option<f64>,
    /// The longest answer in ms.
    pub max_ms: Option<f64>,
    /// Requests judged.
    pub requests: u64,
    /// Failures among them.
    pub failed: u64,
    /// Answers (bits received) per second while it sent.
    pub answered_per_s: Option<f64>,
    /// Share of the datagrams that were lost.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub loss_share: Option<f64>,
    /// The run that carried it out.
    pub run: Option<i64>,
}

impl Trial {
    /// A verdict without figures.
    pub(super) fn bare(purpose: Purpose, rate: f64, verdict: Verdict, reason: String) -> Self {
        Self {
            rate,
            arrival: Arrival::Deterministic,
            purpose,
            verdict,
            reason,
            latency_ms: None,
            lateness_ms: None,
            lateness_p50_ms: None,
            p50_ms: None,
            p90_ms: None,
            p95_ms: None,
            p99_ms: None,
            max_ms: None,
            requests: 0,
            failed: 0,
            answered_per_s: None,
            loss_share: None,
            run: None,
        }
    }

    /// Of a step; verdict and reason are filled in by the judge.
    pub(super) fn of(step: &super::Step, figures: &StepFigures, quantile: f64) -> Self {
        let ms = |seconds: Option<f64>| seconds.map(|s| s * 1e3);
        let at = |place: usize| ms(figures.latency.at_shares_s[place]);
        Self {
            arrival: step.arrival,
            latency_ms: SHARES
                .iter()
                .position(|share| (share - quantile).abs() < 1e-9)
                .and_then(at),
            lateness_ms: ms(figures.lateness_p99_s),
            lateness_p50_ms: ms(figures.lateness_p50_s),
            p50_ms: at(0),
            p90_ms: at(1),
            p95_ms: at(2),
            p99_ms: at(3),
            max_ms: ms(figures.latency.max_s),
            requests: figures.requests,
            failed: figures.failed(),
            answered_per_s: figures.answered_per_s(),
            run: figures.run,
            ..Self::bare(step.purpose, step.rate, Verdict::Pass, String::new())
        }
    }
}

/// One level of the closed loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Level {
    /// Users.
    pub users: u64,
    /// Answers per second.
    pub answered_per_s: f64,
    /// Whether more users would bring no more.
    pub saturated: bool,
    /// The run that carried it out.
    pub run: Option<i64>,
}

/// What a search comes to, as the API shows it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Capacity {
    /// The highest rate that held; bits per second for datagrams.
    pub lower_per_s: Option<f64>,
    /// The lowest rate that did not.
    pub upper_per_s: Option<f64>,
    /// Answers per second when there is always work.
    pub ceiling_per_s: Option<f64>,
    /// The highest rate that held with random arrivals.
    pub poisson_lower_per_s: Option<f64>,
    /// Unloaded median in ms.
    pub baseline_ms: Option<f64>,
    /// Unloaded mean in ms.
    pub baseline_mean_ms: Option<f64>,
    /// The most that the goal's quantile may be, in ms.
    pub goal_ms: Option<f64>,
    /// The goal's quantile, such as 0.95.
    pub quantile: Option<f64>,
    /// The share of the datagrams that may be lost.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub loss_share: Option<f64>,
    /// Steps judged.
    pub trials: u64,
    /// Those of them in which this machine was the limit.
    pub invalid_trials: u64,
    /// Whether there is a lower and an upper bound.
    pub regular: bool,
    /// Why a bound is missing, or wider than asked for.
    pub limited_by: Option<LimitedBy>,
    /// What of this machine was the limit.
    pub resource: Option<String>,
    /// What a reader must know.
    pub labels: Vec<Label>,
    /// Every step, in the order of time.
    pub steps: Vec<Trial>,
    /// The closed loops that led to the ceiling.
    pub levels: Vec<Level>,
    /// What to set in a balancer for each instance, requests per second with one decimal.
    pub suggested_max_rate_per_instance: Option<f64>,
    /// The share of the bound with random arrivals that it is.
    pub suggested_share: Option<f64>,
    /// Why the search could not be made, where it could not.
    pub error: Option<String>,
    /// Further sentences.
    pub notes: Vec<String>,
    /// How long the search has taken, in s.
    pub elapsed_s: f64,
    /// How long it may take, in s; `None` until the unloaded time is known.
    pub budget_s: Option<f64>,
}

impl Capacity {
    /// Adds a label once.
    pub(super) fn label(&mut self, label: Label) {
        if !self.labels.contains(&label) {
            self.labels.push(label);
            self.labels.sort_unstable();
        }
    }
}

/// What is known so far of a search.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Finding {
    /// The result so far.
    pub capacity: Capacity,
    /// What is being done.
    pub doing: Option<Action>,
}

/// A rate for a balancer: the share of the bound, rounded down to one decimal; `None` where that is 0.
pub(super) fn suggested(bound_per_s: f64, share: f64) -> Option<f64> {
    // What is a whole tenth but for rounding errors stays one.
    let rate = (bound_per_s * share * 10.0 + 1e-9).floor() / 10.0;
    (rate > 0.0).then_some(rate)
}
