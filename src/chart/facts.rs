//! What every chart asks of a run, answered once: how many, how they ended, how far the data reaches.

use std::collections::BTreeMap;

use crate::chart::ChartInput;
use crate::chart::text::{self, count, counted};
use crate::measure::outcome::Outcome;
use crate::measure::plan::{Plan, Rate, Schedule};
use crate::measure::run::State;
use crate::measure::series::{Bin, HttpSeries};
use crate::measure::summary::{Distribution, ServerTimingFigures, Summary};

/// The answers.
pub(crate) struct Facts<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) summary: &'a Summary,
    pub(crate) series: &'a HttpSeries,
    pub(crate) state: State,
    pub(crate) outcomes: BTreeMap<Outcome, u64>,
    /// Requests with an outcome, those cut off at the stop left out.
    pub(crate) n: u64,
    /// Complete replies, whatever their status.
    pub(crate) replies: u64,
    /// Requests that ended otherwise than with 2xx or 3xx.
    pub(crate) failed: u64,
    /// Requests without a complete reply.
    pub(crate) no_reply: u64,
    /// Requests that our own timeout ended.
    pub(crate) timeouts: u64,
    pub(crate) timeout_ms: f64,
    /// Rules on latency, with their limit in ms.
    pub(crate) limits: Vec<(String, f64)>,
}

impl<'a> Facts<'a> {
    pub(crate) fn new(input: &'a ChartInput<'a>) -> Self {
        let outcomes = outcomes(input.summary, input.series);
        let sum = |keep: &dyn Fn(Outcome) -> bool| -> u64 {
            outcomes
                .iter()
                .filter(|(outcome, _)| keep(**outcome))
                .map(|(_, number)| *number)
                .sum()
        };
        let timeout_s = match input.plan {
            Plan::Rate(plan) => plan.timeout_s,
            Plan::Users(plan) => plan.timeout_s,
            other => other.timeout_s(),
        };
        Self {
            plan: input.plan,
            summary: input.summary,
            series: input.series,
            state: input.state,
            n: sum(&counts),
            replies: sum(&Outcome::is_reply),
            failed: sum(&is_failure),
            no_reply: sum(&is_lost),
            timeouts: sum(&Outcome::is_timeout),
            timeout_ms: timeout_s * 1000.0,
            limits: input
                .objectives
                .iter()
                .filter_map(|objective| latency_limit(&objective.rule))
                .take(2)
                .collect(),
            outcomes,
        }
    }

    /// The distribution of latencies, timeouts at their age.
    pub(crate) fn latency(&self) -> Option<&'a Distribution> {
        match self.summary {
            Summary::Rate(summary) => Some(&summary.latency_ms),
            Summary::Users(summary) => Some(&summary.latency_ms),
            _ => None,
        }
    }

    pub(crate) fn server_timing(&self) -> Option<&'a ServerTimingFigures> {
        match self.summary {
            Summary::Rate(summary) => summary.server_timing_ms.as_ref(),
            Summary::Users(summary) => summary.server_timing_ms.as_ref(),
            Summary::Fetch(summary) => summary.server_timing_ms.as_ref(),
            _ => None,
        }
    }

    pub(crate) const fn is_open_loop(&self) -> bool {
        matches!(self.plan, Plan::Rate(_))
    }

    /// Name of the x axis of charts over the planned send time.
    pub(crate) const fn send_axis(&self) -> &'static str {
        if self.is_open_loop() {
            "planned send time since start"
        } else {
            "send time since start"
        }
    }

    /// Whether more may come, or was meant to come and did not.
    pub(crate) const fn is_partial(&self) -> bool {
        !matches!(self.state, State::Finished | State::Imported)
    }

    /// Where the part that was not measured begins and ends, in s, and the words for it.
    pub(crate) fn not_measured(&self, shown_to: f64) -> Option<(f64, f64, String)> {
        let planned = self
            .series
            .planned_s
            .filter(|planned| planned.is_finite())?;
        let covers = self.series.covers_s.max(0.0);
        if !self.is_partial() || !covers.is_finite() || planned <= covers * 1.01 {
            return None;
        }
        let words = if self.state.is_final() {
            format!("stopped after {}", text::seconds(covers))
        } else {
            "not yet measured".to_owned()
        };
        Some((covers, planned.max(shown_to), words))
    }

    /// End of the x axis over these bins, in s: the data's end, or the plan's where the run did not get there.
    pub(crate) fn span(&self, keep: impl Fn(&Bin) -> bool) -> f64 {
        let data = self
            .series
            .bins
            .iter()
            .filter(|bin| keep(bin))
            .map(|bin| bin.start_s + self.series.bin_width_s)
            .filter(|end| end.is_finite())
            .fold(0.0, f64::max);
        // A run shorter than its last step ends where its data does.
        let covers = self.series.covers_s;
        let data = if covers > 0.0 && covers < data {
            covers
        } else {
            data
        };
        match self.not_measured(data) {
            Some((_, planned, _)) => planned,
            None => data,
        }
    }

    /// Requests per second that the plan asks for, as (from s, rate) steps; empty where the plan does not say.
    pub(crate) fn offered(&self) -> Vec<(f64, f64)> {
        let Plan::Rate(plan) = self.plan else {
            return Vec::new();
        };
        let calls = f64::from(plan.num_calls.max(1));
        match &plan.rate {
            Rate::Constant(rate) if *rate > 0.0 => vec![(0.0, rate * calls)],
            Rate::Constant(_) => Vec::new(),
            Rate::Steps(steps) => {
                let mut from = 0.0;
                steps
                    .iter()
                    .take(100)
                    .map(|(rate, seconds)| {
                        let step = (from, rate * calls);
                        from += seconds;
                        step
                    })
                    .collect()
            }
        }
    }

    /// Whether requests were to go out evenly spaced.
    pub(crate) fn is_even(&self) -> bool {
        matches!(self.plan, Plan::Rate(plan) if plan.schedule == Schedule::Deterministic)
    }

    /// `350 timeouts`, `20 refused`, or `370 failed` when there are several kinds.
    pub(crate) fn failures_in_words(&self) -> String {
        in_words(&self.outcomes)
    }

    /// `n = 2 000, 350 timeouts`.
    pub(crate) fn n_in_words(&self) -> String {
        if self.failed == 0 {
            format!("n = {}", count(self.n))
        } else {
            format!("n = {}, {}", count(self.n), self.failures_in_words())
        }
    }

    /// Why nothing can be drawn, where no request has a latency.
    pub(crate) fn nothing(&self) -> Option<String> {
        if self.n == 0 {
            return Some(match self.state {
                State::Queued => "Nothing measured yet: the run waits for its turn.".to_owned(),
                State::Running => "Nothing measured yet: no request has ended.".to_owned(),
                _ => "No samples: no request was sent, or none had ended when the run stopped."
                    .to_owned(),
            });
        }
        if self.replies + self.timeouts > 0 {
            return None;
        }
        let all = if self.n == 1 {
            "the only request".to_owned()
        } else {
            format!("all {}", counted(self.n, "request"))
        };
        let (verb, kind) = match self.only_failure() {
            Some(outcome) => (if self.n == 1 { "was " } else { "were " }, word(outcome)),
            None => ("", "failed"),
        };
        Some(format!("No samples: {all} {verb}{kind}. See Outcomes."))
    }

    fn only_failure(&self) -> Option<Outcome> {
        let mut kinds = self
            .outcomes
            .iter()
            .filter(|(outcome, number)| is_failure(**outcome) && **number > 0);
        match (kinds.next(), kinds.next()) {
            (Some((outcome, _)), None) => Some(*outcome),
            _ => None,
        }
    }
}

/// Requests by outcome, from the summary or, where it does not say, from the bins.
fn outcomes(summary: &Summary, series: &HttpSeries) -> BTreeMap<Outcome, u64> {
    let named: BTreeMap<String, u64> = match summary {
        Summary::Rate(summary) => summary.outcomes.clone(),
        Summary::Users(summary) => summary.outcomes.clone(),
        Summary::Fetch(summary) => BTreeMap::from([(summary.outcome.clone(), 1)]),
        _ => BTreeMap::new(),
    };
    let mut found: BTreeMap<Outcome, u64> = Outcome::ALL
        .into_iter()
        .filter_map(|outcome| Some((outcome, *named.get(outcome.key())?)))
        .filter(|(_, number)| *number > 0)
        .collect();
    if found.is_empty() {
        for (outcome, number) in series.bins.iter().flat_map(|bin| &bin.outcomes) {
            *found.entry(*outcome).or_default() += number;
        }
    }
    found
}

/// Whether it belongs to n: a request cut off at the stop has no outcome of its own.
fn counts(outcome: Outcome) -> bool {
    outcome != Outcome::AbortedAtStop
}

/// Whether it is shown as a failure.
pub(crate) fn is_failure(outcome: Outcome) -> bool {
    counts(outcome) && outcome != Outcome::Ok
}

/// Whether no complete reply came.
pub(crate) fn is_lost(outcome: Outcome) -> bool {
    counts(outcome) && !outcome.is_reply()
}

/// Sum of one step's requests of some outcomes.
pub(crate) fn sum(bin: &Bin, keep: impl Fn(Outcome) -> bool) -> u64 {
    bin.outcomes
        .iter()
        .filter(|(outcome, _)| keep(**outcome))
        .map(|(_, number)| *number)
        .sum()
}

/// Failures in words: their number with the kind, where there is one.
pub(crate) fn in_words(outcomes: &BTreeMap<Outcome, u64>) -> String {
    let failures: Vec<(Outcome, u64)> = outcomes
        .iter()
        .filter(|(outcome, number)| is_failure(**outcome) && **number > 0)
        .map(|(outcome, number)| (*outcome, *number))
        .collect();
    let total: u64 = failures.iter().map(|(_, number)| number).sum();
    if total > 0 && failures.iter().all(|(outcome, _)| outcome.is_timeout()) {
        return counted(total, "timeout");
    }
    match failures.as_slice() {
        [(outcome, _)] => format!("{} {}", count(total), word(*outcome)),
        _ => format!("{} failed", count(total)),
    }
}

/// What happened to a request of this outcome: completes "20 were …".
fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::ConnectRefused => "refused",
        Outcome::ResetBeforeReply | Outcome::ResetInBody => "reset",
        Outcome::Http4xx => "answered with 4xx",
        Outcome::Http5xx => "answered with 5xx",
        Outcome::EmptyReply => "closed without a reply",
        Outcome::Truncated => "cut short",
        Outcome::Unreachable => "without a route",
        Outcome::TlsFailed => "stopped in the TLS handshake",
        Outcome::DnsFailed => "stopped at the name lookup",
        Outcome::FdExhausted | Outcome::FtabFull => "held back for want of file descriptors",
        Outcome::PortExhausted => "held back for want of local ports",
        _ => "lost",
    }
}

/// The limit of a rule on latency, such as `p99<500ms`, as words for a line and ms.
fn latency_limit(rule: &str) -> Option<(String, f64)> {
    let (name, limit) = rule.split_once('<')?;
    let name = name.trim();
    let known = matches!(name, "avg" | "mean" | "median" | "max")
        || name
            .strip_prefix('p')
            .is_some_and(|rest| rest.parse::<f64>().is_ok());
    let limit = limit.trim_start_matches('=').trim();
    let split = limit.find(|letter: char| letter.is_ascii_alphabetic() || letter == 'µ')?;
    let number: f64 = limit.get(..split)?.trim().parse().ok()?;
    let factor = match limit.get(split..)?.trim() {
        "us" | "µs" => 0.001,
        "ms" => 1.0,
        "s" => 1000.0,
        "m" | "min" => 60_000.0,
        _ => return None,
    };
    let limit = number * factor;
    (known && limit.is_finite() && limit > 0.0)
        .then(|| (format!("{name} < {}", text::ms(limit)), limit))
}
