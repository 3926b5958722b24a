//! The capacity search: what was measured so far → what to measure next, and what it comes to.
//!
//! The search is a function of its settings and of the answers it has been given. `Search::look` goes through the
//! whole procedure from its start, takes each answer where the procedure asks for it, and stops at the first one
//! that is missing: that is the next action. So the procedure reads from top to bottom, a search that was stopped
//! goes on from its stored answers, and the same answers always lead to the same result.

mod bracket;
mod figures;
mod judge;
mod loss;
mod replay;
mod result;
mod web;
mod words;

use serde::{Deserialize, Serialize};

pub use figures::{
    BLOCKS, Block, ClosedFigures, Cut, Failures, SHARES, Seen, SequentialFigures, StepFigures,
    Times,
};
pub use loss::{LossFigures, LossSettings};
pub use result::{Capacity, Finding, Label, Level, LimitedBy, Trial, Verdict};
pub use words::{Headline, headline};

/// How requests arrive in a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrival {
    /// Evenly spaced.
    #[default]
    Deterministic,
    /// In exponential gaps, as a Poisson process.
    Exponential,
}

/// What a rate must hold; each absent one is derived from the baseline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Goal {
    /// The latency quantile, one of `SHARES`; by default the highest that the rate gives enough requests for.
    pub quantile: Option<f64>,
    /// The most that this quantile may be, in s; by default twice its value unloaded.
    pub latency_s: Option<f64>,
    /// The share that may fail; by default none of 3000 requests, 0.1 % of more.
    pub error_share: Option<f64>,
}

/// What a search is asked to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// What a rate must hold.
    pub goal: Goal,
    /// How requests arrive while the bracket is sought.
    pub arrival: Arrival,
    /// How far apart the bounds may be at the end, as a share.
    pub width: f64,
    /// The time for all of it in s; by default 10 minutes, or 240 times the unloaded mean where that is more.
    pub budget_s: Option<f64>,
    /// How long a step sends, in s; shorter than 20 s, every other length shrinks with it.
    pub step_s: f64,
    /// The highest rate that may be tried.
    pub max_rate_per_s: Option<f64>,
    /// The highest rate that this machine sends on schedule, where that was measured.
    pub clean_rate_per_s: Option<f64>,
    /// The most users of a closed loop.
    pub max_users: u64,
    /// Where random gaps begin.
    pub seed: u64,
    /// Whether the target is this machine.
    pub shared_host: bool,
    /// What is sought where it is a rate of datagrams instead of requests.
    pub loss: Option<LossSettings>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            goal: Goal::default(),
            arrival: Arrival::Deterministic,
            width: 0.05,
            budget_s: None,
            step_s: 20.0,
            max_rate_per_s: None,
            clean_rate_per_s: None,
            max_users: 10_000,
            seed: 1,
            shared_host: false,
            loss: None,
        }
    }
}

/// What an action is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// The unloaded time, for scale.
    Baseline,
    /// More users, until that brings no more answers.
    Level,
    /// The unloaded time, for the goal.
    SecondBaseline,
    /// The spread of the time at half the ceiling.
    Spread,
    /// A rate that may be the bound.
    Search,
    /// Whether requests fail at half the ceiling too.
    ErrorFloor,
    /// The lower bound once more.
    ConfirmLower,
    /// The upper bound once more.
    ConfirmUpper,
    /// A lower rate, since no bound held.
    Lower,
    /// How many answers come when there is always work.
    Ceiling,
    /// What becomes of the answers when far too much is offered.
    Overload,
    /// A rate with random arrivals.
    Poisson,
    /// Whether the target has recovered.
    Probe,
    /// A moment's rest.
    Pause,
}

impl Purpose {
    /// The word in JSON and CSV.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Baseline => "baseline",
            Self::Level => "level",
            Self::SecondBaseline => "second_baseline",
            Self::Spread => "spread",
            Self::Search => "search",
            Self::ErrorFloor => "error_floor",
            Self::ConfirmLower => "confirm_lower",
            Self::ConfirmUpper => "confirm_upper",
            Self::Lower => "lower",
            Self::Ceiling => "ceiling",
            Self::Overload => "overload",
            Self::Poisson => "poisson",
            Self::Probe => "probe",
            Self::Pause => "pause",
        }
    }
}

/// Requests one after another.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sequential {
    /// What for.
    pub purpose: Purpose,
    /// How long, in s; goes on until there are `at_least`.
    pub seconds: f64,
    /// Fewest requests.
    pub at_least: u64,
    /// Most requests.
    pub at_most: u64,
    /// Timeout of each in s.
    pub timeout_s: f64,
}

/// Users who each wait for their reply.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Closed {
    /// What for.
    pub purpose: Purpose,
    /// How many.
    pub users: u64,
    /// They begin evenly over this time, which is not counted, in s.
    pub begin_over_s: f64,
    /// The time that is counted, in s.
    pub seconds: f64,
    /// Timeout of each request in s.
    pub timeout_s: f64,
}

/// Requests at a rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// What for.
    pub purpose: Purpose,
    /// Requests per second.
    pub rate: f64,
    /// How they arrive.
    pub arrival: Arrival,
    /// The first ones, which are not judged.
    pub warm_up: u64,
    /// Those that are.
    pub requests: u64,
    /// Ended early when more than this are in flight; `None`: never.
    pub in_flight: Option<u64>,
    /// Ended early when all that ended in the first so many seconds were refused; `None`: never.
    pub refused_s: Option<f64>,
    /// Timeout of each request in s, from its actual start.
    pub timeout_s: f64,
    /// Where its random gaps begin.
    pub seed: u64,
}

/// Datagrams at a rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Blast {
    /// What for.
    pub purpose: Purpose,
    /// Bits per second of all streams; `None`: as fast as this machine can.
    pub bits_per_second: Option<f64>,
    /// How long, in s.
    pub seconds: f64,
}

/// The next thing to do.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Requests one after another.
    Sequential(Sequential),
    /// A closed loop.
    Closed(Closed),
    /// An open loop.
    Step(Step),
    /// Datagrams.
    Blast(Blast),
    /// Nothing for so many seconds.
    Pause(f64),
}

impl Action {
    /// What it is for.
    pub const fn purpose(&self) -> Purpose {
        match self {
            Self::Sequential(action) => action.purpose,
            Self::Closed(action) => action.purpose,
            Self::Step(action) => action.purpose,
            Self::Blast(action) => action.purpose,
            Self::Pause(_) => Purpose::Pause,
        }
    }

    /// How long it takes at least, without its last replies, in s; `None` where its requests decide.
    pub fn seconds(&self) -> Option<f64> {
        match self {
            Self::Sequential(_) => None,
            Self::Closed(action) => Some(action.begin_over_s + action.seconds),
            Self::Step(action) => Some((action.warm_up + action.requests) as f64 / action.rate),
            Self::Blast(action) => Some(action.seconds),
            Self::Pause(seconds) => Some(*seconds),
        }
    }
}

/// What came of an action.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Came {
    /// Of requests one after another.
    Sequential(SequentialFigures),
    /// Of a closed loop.
    Closed(ClosedFigures),
    /// Of an open loop.
    Step(Box<StepFigures>),
    /// Of datagrams.
    Blast(LossFigures),
    /// The rest is over.
    Rested,
    /// It could not be carried out; the search ends with this sentence.
    Failed(String),
}

/// What came of an action, and when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// When it had ended, in s of the search: its budget counts from 0.
    pub at_s: f64,
    /// What came.
    pub came: Came,
}

/// What follows from the answers so far.
#[derive(Clone, Debug, PartialEq)]
pub struct Look {
    /// The next action; `None` when the search has ended.
    pub next: Option<Action>,
    /// What is known so far.
    pub finding: Finding,
}

/// A search: its settings and the answers so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Search {
    settings: Settings,
    answers: Vec<Answer>,
}

impl Search {
    /// Nothing measured yet.
    pub const fn new(settings: Settings) -> Self {
        Self {
            settings,
            answers: Vec::new(),
        }
    }

    /// What it is asked to do.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// When its last answer came, in s of the search.
    pub fn elapsed_s(&self) -> f64 {
        self.answers.last().map_or(0.0, |answer| answer.at_s)
    }

    /// The target is this machine, as its first run has shown.
    pub const fn share_host(&mut self) {
        self.settings.shared_host = true;
    }

    /// The answer to the action that `look` last named.
    pub fn feed(&mut self, answer: Answer) {
        self.answers.push(answer);
    }

    /// The next action, and what is known so far.
    pub fn look(&self) -> Look {
        replay::replay(&self.settings, &self.answers)
    }
}

#[cfg(test)]
mod tests;
