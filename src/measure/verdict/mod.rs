//! What a run means: whether it may be believed, what held it back, and the finding in a sentence.

mod checks;
mod facts;
mod failures;
mod flow;
mod flow_checks;
mod flow_limits;
mod flow_probe;
mod flow_titles;
pub mod httperf;
mod limits;
mod live;
mod patterns;
mod titles;
mod words;

use crate::measure::plan::Plan;
use crate::measure::run::{Check, Environment, Limit};
use crate::measure::sample::Ended;
use crate::measure::series::HttpSeries;
use crate::measure::summary::Summary;

pub use flow::{judge_flow, live_flow_title, settle_flow};
pub use flow_probe::{judge_path, judge_ping};
pub use live::live_title;

/// All that is concluded from one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// Reasons to believe it or not, in a fixed order.
    pub checks: Vec<Check>,
    /// What held it back, largest share first.
    pub limits: Vec<Limit>,
    /// The finding, at most 100 characters.
    pub title: String,
    /// Cause, then consequence; at most two sentences.
    pub verdict: String,
}

/// Judges a run that has ended.
pub fn judge(
    plan: &Plan,
    summary: &Summary,
    series: &HttpSeries,
    ended: &Ended,
    environment: &Environment,
) -> Judgement {
    let (title, verdict, checks, limits) = match summary {
        Summary::Fetch(summary) => {
            let (title, verdict) = titles::of_fetch(plan, summary);
            let checks = checks::of_fetch(summary, ended);
            (title, verdict, checks, limits::of_fetch(summary))
        }
        Summary::Rate(_) | Summary::Users(_) => {
            let facts = facts::Facts::new(plan, summary, ended);
            let patterns = patterns::Patterns::find(&facts, series);
            let (title, verdict) = titles::of_load(&facts, &patterns);
            let checks = checks::of_load(&facts, environment);
            (title, verdict, checks, limits::of_load(&facts, series))
        }
    };
    Judgement {
        checks,
        limits,
        title,
        verdict,
    }
}
