//! The figures of an open-loop or a closed-loop run under common names, for rules that hold for both.

use std::collections::BTreeMap;

use crate::measure::outcome::Outcome;
use crate::measure::plan::{Plan, Rate, Schedule};
use crate::measure::sample::Ended;
use crate::measure::summary::{Distribution, StatusClasses, Summary};
use crate::measure::verdict::words;

/// Fewer requests than this have no 99th percentile worth naming.
pub(super) const P99_FROM: u64 = 100;

/// How load arrives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Load {
    /// By a schedule, evenly spaced or not.
    Open { even: bool },
    /// One after another.
    Sequential,
    /// Users that wait for their replies.
    Closed { users: u32 },
}

/// One run's figures.
#[derive(Clone, Debug)]
pub(super) struct Facts<'a> {
    pub(super) load: Load,
    /// Host and port as titles name them.
    pub(super) target: String,
    pub(super) timeout_s: f64,
    pub(super) max_in_flight: Option<u32>,
    pub(super) planned: Option<u64>,
    pub(super) planned_s: Option<f64>,
    pub(super) unsent: u64,
    pub(super) replies: u64,
    pub(super) outcomes: &'a BTreeMap<String, u64>,
    pub(super) status: &'a StatusClasses,
    pub(super) latency: &'a Distribution,
    pub(super) lateness: Option<&'a Distribution>,
    pub(super) offered: Option<f64>,
    /// The highest rate of a plan with several.
    pub(super) peak: Option<f64>,
    pub(super) achieved: Option<f64>,
    pub(super) ended: &'a Ended,
}

impl<'a> Facts<'a> {
    /// The facts of a rate or a users run; of other kinds there are none.
    pub(super) fn new(plan: &Plan, summary: &'a Summary, ended: &'a Ended) -> Self {
        let urls = plan.urls();
        let target = urls.first().map_or_else(
            || "The target".to_owned(),
            |url| words::host(url, "The target"),
        );
        let (load, max_in_flight) = match plan {
            Plan::Rate(plan) => {
                let sequential = matches!(plan.rate, Rate::Constant(rate) if rate <= 0.0);
                let even = plan.schedule == Schedule::Deterministic;
                let load = if sequential {
                    Load::Sequential
                } else {
                    Load::Open { even }
                };
                (load, Some(plan.max_in_flight))
            }
            Plan::Users(plan) => (
                Load::Closed {
                    users: plan.concurrent,
                },
                None,
            ),
            _ => (Load::Sequential, None),
        };
        let peak = match plan {
            Plan::Rate(plan) if matches!(plan.rate, Rate::Steps(_)) => Some(plan.peak_rate()),
            _ => None,
        };
        let common = |outcomes, status, latency| Self {
            load,
            target,
            timeout_s: plan.timeout_s(),
            max_in_flight,
            planned: None,
            planned_s: plan.expected_duration_s(),
            unsent: 0,
            replies: 0,
            outcomes,
            status,
            latency,
            lateness: None,
            offered: None,
            peak,
            achieved: None,
            ended,
        };
        match summary {
            Summary::Rate(rate) => Self {
                planned: Some(rate.planned),
                unsent: rate.unsent,
                replies: rate.replies,
                lateness: Some(&rate.lateness_ms),
                offered: rate.offered_per_s,
                achieved: rate.achieved_per_s,
                ..common(&rate.outcomes, &rate.status, &rate.latency_ms)
            },
            Summary::Users(users) => Self {
                planned: users.planned,
                unsent: users.unsent,
                replies: replies(&users.outcomes),
                achieved: users.transaction_rate_per_s,
                ..common(&users.outcomes, &users.status, &users.latency_ms)
            },
            _ => common(&NO_OUTCOMES, &NO_STATUS, &NO_LATENCY),
        }
    }

    /// Requests that ended with this outcome.
    pub(super) fn of(&self, outcome: Outcome) -> u64 {
        self.outcomes.get(outcome.key()).copied().unwrap_or(0)
    }

    /// Requests that ended.
    pub(super) fn all(&self) -> u64 {
        self.outcomes.values().sum()
    }

    /// Requests that ended otherwise than because the run was stopped.
    pub(super) fn tried(&self) -> u64 {
        self.all() - self.of(Outcome::AbortedAtStop)
    }

    /// Requests that were tried and not answered with 2xx or 3xx.
    pub(super) fn failed(&self) -> u64 {
        self.tried() - self.of(Outcome::Ok)
    }

    pub(super) fn timeouts(&self) -> u64 {
        Outcome::ALL
            .into_iter()
            .filter(|outcome| outcome.is_timeout())
            .map(|outcome| self.of(outcome))
            .sum()
    }

    /// Requests that this machine had no descriptor or port for.
    pub(super) fn out_of_resources(&self) -> u64 {
        Outcome::ALL
            .into_iter()
            .filter(|outcome| outcome.is_generator_limit())
            .map(|outcome| self.of(outcome))
            .sum()
    }

    /// Requests that were due and not sent, other than because the run was stopped.
    pub(super) fn held_back(&self) -> u64 {
        if self.ended.stopped { 0 } else { self.unsent }
    }

    /// The 99th percentile of the lateness and what is allowed, in ms, where sends have a schedule.
    pub(super) fn lateness_p99_and_allowed(&self) -> Option<(f64, f64)> {
        if !matches!(self.load, Load::Open { .. }) {
            return None;
        }
        let found = self.lateness?.p99?;
        let latency = self.latency.median.unwrap_or(0.0);
        Some((found, (0.05 * latency).max(2.0)))
    }

    /// How late sends were, where the 99th percentile of their lateness is this; few sends have none worth naming.
    pub(super) fn late_words(&self, p99: f64) -> String {
        let late = words::time(p99);
        match self.lateness.map_or(0, |lateness| lateness.count) {
            1 => format!("the one send was {late} late"),
            count if count < P99_FROM => format!("the latest of {count} sends was {late} late"),
            _ => format!("1\u{a0}% of sends were {late} late or more"),
        }
    }

    /// Whether late sends cannot be what makes the slowest requests slow.
    pub(super) fn is_lateness_small(&self) -> bool {
        let late = self.lateness.and_then(|lateness| lateness.p99);
        late.zip(self.latency.p99)
            .is_some_and(|(late, latency)| late * 20.0 <= latency)
    }

    /// Whether the end of the run is unknown, as after a crash: nobody counted what its threads used.
    pub(super) fn is_cut_off(&self) -> bool {
        self.ended.stopped && self.ended.threads == 0
    }

    /// The load that was offered, in words.
    pub(super) fn offered_words(&self) -> String {
        match self.peak {
            Some(peak) => format!("up to {}", words::rate(peak)),
            None => words::rate(self.offered.unwrap_or(0.0)),
        }
    }

    /// Share of one core that the busiest generator thread used.
    pub(super) fn busiest(&self) -> f64 {
        let duration = self.ended.duration.as_secs_f64();
        if duration > 0.0 {
            self.ended.cpu_busiest.as_secs_f64() / duration
        } else {
            0.0
        }
    }

    /// Whether the generator was too busy to be exact.
    pub(super) fn too_busy(&self) -> bool {
        self.ended.duration.as_secs_f64() >= 0.5 && self.busiest() > 0.9
    }

    /// Whether so many sends were late that no figure can be believed: more than one in ten.
    ///
    /// When only the last of a hundred are late, the slowest latencies carry that, and the check says so.
    pub(super) fn late(&self) -> bool {
        let most = self.lateness.and_then(|lateness| lateness.p90);
        self.lateness_p99_and_allowed()
            .zip(most)
            .is_some_and(|((_, allowed), most)| most > allowed)
    }
}

fn replies(outcomes: &BTreeMap<String, u64>) -> u64 {
    Outcome::ALL
        .into_iter()
        .filter(|outcome| outcome.is_reply())
        .filter_map(|outcome| outcomes.get(outcome.key()))
        .sum()
}

static NO_OUTCOMES: BTreeMap<String, u64> = BTreeMap::new();
static NO_STATUS: StatusClasses = StatusClasses {
    c1xx: 0,
    c2xx: 0,
    c3xx: 0,
    c4xx: 0,
    c5xx: 0,
};
static NO_LATENCY: Distribution = Distribution {
    min: None,
    avg: None,
    max: None,
    median: None,
    stddev: None,
    p50: None,
    p90: None,
    p95: None,
    p99: None,
    p99_9: None,
    count: 0,
};
