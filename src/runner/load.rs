//! When a thread begins the next session of calls: the kinds of plans, told apart in one place.
//!
//! A session is what goes over connections one call after another: a connection of an open-loop plan with its
//! calls, or a user of a closed-loop plan.

use std::time::Duration;

use crate::measure::plan::{FetchPlan, Plan, Rate, RatePlan, UsersPlan};
use crate::measure::schedule::{Arrivals, ThinkTimes, UrlChoice};
use crate::runner::rate::{self, RateLoad};
use crate::runner::users::{self, UsersLoad};

/// A session that is due.
#[derive(Debug)]
pub(super) struct Due {
    /// Since when.
    pub(super) at: Duration,
    /// Its number in the plan.
    pub(super) number: u64,
    /// Its calls at most.
    pub(super) calls: u64,
    /// The pauses between its calls.
    pub(super) pauses: Option<ThinkTimes>,
    /// The URLs that it asks for, by the number of its call; `None`: by the plan's numbers.
    pub(super) choice: Option<UrlChoice>,
}

/// What becomes of a session's further calls when one fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterFailure {
    /// They are lost with their connection.
    Lose,
    /// They go over a new connection.
    GoOn,
}

/// One thread's share of a plan.
#[derive(Debug)]
pub(super) enum Load {
    /// Sessions at planned instants.
    Open(RateLoad),
    /// A fixed number of sessions from the start.
    Closed(UsersLoad),
}

impl Load {
    /// Thread number `index` of `of`.
    pub(super) fn new(plan: &Plan, index: usize, of: usize) -> Self {
        match plan {
            Plan::Rate(plan) => Self::Open(RateLoad::new(plan, index as u64, of as u64)),
            Plan::Users(plan) => Self::Closed(UsersLoad::new(plan, index, of)),
            _ => Self::Open(RateLoad::once()),
        }
    }

    /// When the next session is due; `None` when none is, for now or for good.
    pub(super) fn next_due(&self) -> Option<Duration> {
        match self {
            Self::Open(load) => load.next_due(),
            Self::Closed(load) => load.next_due(),
        }
    }

    /// Whether each call waits for the one before, so that it is due when it is sent: its latency is its service time.
    pub(super) const fn is_paced_by_replies(&self) -> bool {
        match self {
            Self::Open(load) => load.is_chained(),
            Self::Closed(_) => true,
        }
    }

    /// The next session if it is due at `now`.
    pub(super) fn take(&mut self, now: Duration) -> Option<Due> {
        match self {
            Self::Open(load) => load.take(now),
            Self::Closed(load) => load.take(now),
        }
    }

    /// A session has ended at `now`; `gently` when the next one should not follow at once.
    pub(super) fn session_ended(&mut self, now: Duration, gently: bool) {
        if let Self::Open(load) = self {
            load.session_ended(now, gently);
        }
    }

    /// Whether no session will ever be due again.
    pub(super) fn is_over(&self) -> bool {
        match self {
            Self::Open(load) => load.is_over(),
            Self::Closed(load) => load.is_over(),
        }
    }

    /// Gives up what was not begun and says how many requests that were.
    pub(super) fn give_up(&mut self) -> u64 {
        match self {
            Self::Open(load) => load.give_up(),
            Self::Closed(load) => load.give_up(),
        }
    }

    /// From when on no further call begins.
    pub(super) fn closes_at(&self) -> Option<Duration> {
        match self {
            Self::Open(_) => None,
            Self::Closed(load) => load.until(),
        }
    }

    /// The number in the plan of call `call` of session `number`.
    pub(super) fn seq(&self, number: u64, call: u64) -> u64 {
        match self {
            Self::Open(load) => number * load.calls() + call,
            Self::Closed(load) => call * load.users() + number,
        }
    }

    pub(super) const fn after_failure(&self) -> AfterFailure {
        match self {
            Self::Open(_) => AfterFailure::Lose,
            Self::Closed(_) => AfterFailure::GoOn,
        }
    }

    /// Sessions under way at most; beyond them a due one is not begun.
    pub(super) const fn max_in_flight(&self) -> Option<u32> {
        match self {
            Self::Open(load) => load.max_in_flight(),
            Self::Closed(_) => None,
        }
    }
}

/// How a thread treats connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reuse {
    /// A connection for each call.
    Never,
    /// A session keeps its connection for its next call.
    InSession,
    /// A connection that a session leaves waits for the next session.
    Pool,
}

impl Reuse {
    pub(super) const fn of(plan: &Plan) -> Self {
        match plan {
            Plan::Rate(RatePlan { reuse: true, .. }) => Self::Pool,
            Plan::Users(UsersPlan {
                keep_alive: false, ..
            })
            | Plan::Fetch(FetchPlan { .. })
            | Plan::Throughput(_)
            | Plan::Ping(_)
            | Plan::Path(_)
            | Plan::Imported(_) => Self::Never,
            Plan::Rate(_) | Plan::Users(_) => Self::InSession,
        }
    }
}

/// URLs by the plan's own numbers.
pub(super) fn choice(plan: &Plan) -> UrlChoice {
    match plan {
        Plan::Rate(plan) => UrlChoice::new(&plan.urls, plan.seed),
        Plan::Users(plan) => UrlChoice::new(&plan.urls, plan.seed),
        _ => UrlChoice::new(&[], 0),
    }
}

/// Generator threads for a plan on a machine with `cpus`, unless a number is asked for.
pub(super) fn threads(plan: &Plan, cpus: usize, asked: Option<usize>) -> usize {
    let useful = match plan {
        Plan::Rate(plan) if plan.rate == Rate::Constant(0.0) => 1,
        Plan::Rate(plan) => asked.unwrap_or_else(|| rate::threads(plan).min(cpus)),
        Plan::Users(plan) => asked
            .unwrap_or_else(|| users::threads(plan).min(cpus))
            .min(plan.concurrent as usize),
        _ => 1,
    };
    useful.clamp(1, 64)
}

/// The time over which the plan offers load; `None` when that only shows.
pub(super) fn send_window(plan: &Plan) -> Option<Duration> {
    let seconds = match plan {
        Plan::Rate(plan) => match plan.num_conns {
            // Random gaps: the last one's own time counts, not the mean's.
            Some(connections) if plan.schedule == crate::measure::plan::Schedule::Exponential => {
                let last = Arrivals::new(plan).last()?;
                last.as_secs_f64() * connections as f64 / (connections.max(2) - 1) as f64
            }
            _ => plan.sending_s()?,
        },
        Plan::Users(plan) => plan.duration_s?,
        _ => return None,
    };
    Duration::try_from_secs_f64(seconds).ok()
}
