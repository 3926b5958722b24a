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
mod selftest;
mod titles;
pub(in crate::measure) mod words;

use crate::measure::fold::{End, Series};
use crate::measure::plan::Plan;
use crate::measure::run::{Check, Environment, Limit};
use crate::measure::sample::Ended;
use crate::measure::series::HttpSeries;
use crate::measure::summary::Summary;

pub use flow::{judge_flow, live_flow_title, settle_flow};
pub use flow_probe::{judge_path, judge_ping};
pub use live::live_title;
pub use selftest::{self_test_check, self_test_words};

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

/// Judges a run of any kind that has ended, and fills in what its figures take from the judgement
/// (`limited_by`).
pub fn settle(
    plan: &Plan,
    summary: &mut Summary,
    series: &Series,
    end: &End,
    environment: &Environment,
) -> Judgement {
    match (plan, summary, series, end) {
        (
            Plan::Throughput(plan),
            Summary::Throughput(summary),
            Series::Flow(series),
            End::Flow(end),
        ) => settle_flow(plan, summary, series, end, environment),
        (Plan::Ping(plan), Summary::Ping(summary), Series::Flow(series), End::Flow(end)) => {
            judge_ping(plan, summary, series, end, environment)
        }
        (Plan::Path(plan), Summary::Path(summary), _, _) => judge_path(plan, summary),
        (plan, summary, Series::Http(series), End::Http(ended)) => {
            judge(plan, summary, series, ended, environment)
        }
        // A plan, its figures and its end are of one kind: they are made from each other.
        _ => Judgement {
            checks: Vec::new(),
            limits: Vec::new(),
            title: "Nothing was measured".to_owned(),
            verdict: "Nothing was measured.".to_owned(),
        },
    }
}

/// Judges an HTTP run that has ended.
pub fn judge(
    plan: &Plan,
    summary: &Summary,
    series: &HttpSeries,
    ended: &Ended,
    environment: &Environment,
) -> Judgement {
    let (title, verdict, checks, limits) = if let Summary::Fetch(summary) = summary {
        let (title, verdict) = titles::of_fetch(plan, summary);
        let checks = checks::of_fetch(summary, ended);
        (title, verdict, checks, limits::of_fetch(summary))
    } else {
        let facts = facts::Facts::new(plan, summary, ended);
        let patterns = patterns::Patterns::find(&facts, series);
        let (title, verdict) = titles::of_load(&facts, &patterns);
        let checks = checks::of_load(&facts, environment);
        (title, verdict, checks, limits::of_load(&facts, series))
    };
    Judgement {
        checks,
        limits,
        title,
        verdict,
    }
}
