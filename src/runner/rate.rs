//! Open loop: a connection at each planned instant, whatever became of those before it.

use std::time::Duration;

use crate::measure::plan::{Rate, RatePlan};
use crate::measure::schedule::Arrivals;
use crate::runner::load::Due;

/// Rate that one thread holds well, in calls per second of new or kept connections.
const PER_THREAD: f64 = 8_000.0;
/// Pause after a failed connect when one connection follows another for a time: trying at once would only burn CPU.
const GENTLE: Duration = Duration::from_millis(10);

/// One thread's share of an open-loop plan.
#[derive(Debug)]
pub(super) struct RateLoad {
    when: When,
    /// Number of the next connection in the plan.
    number: u64,
    stride: u64,
    calls: u32,
    max_in_flight: Option<u32>,
}

#[derive(Debug)]
enum When {
    Planned {
        next: Option<Duration>,
        arrivals: Box<Arrivals>,
    },
    /// One after another: rate 0.
    Chained {
        next: Option<Duration>,
        left: u64,
        until: Option<Duration>,
    },
}

impl RateLoad {
    pub(super) fn new(plan: &RatePlan, index: u64, of: u64) -> Self {
        let when = if matches!(plan.rate, Rate::Constant(rate) if rate <= 0.0) {
            When::Chained {
                next: Some(Duration::ZERO),
                left: plan.num_conns.unwrap_or(u64::MAX),
                until: plan
                    .duration_s
                    .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
            }
        } else {
            let mut arrivals = Box::new(Arrivals::new(plan).shard(index, of));
            When::Planned {
                next: arrivals.next(),
                arrivals,
            }
        };
        Self {
            when,
            number: index,
            stride: of,
            calls: plan.num_calls,
            max_in_flight: Some(plan.max_in_flight),
        }
    }

    /// One connection with one call.
    pub(super) const fn once() -> Self {
        Self {
            when: When::Chained {
                next: Some(Duration::ZERO),
                left: 1,
                until: None,
            },
            number: 0,
            stride: 1,
            calls: 1,
            max_in_flight: None,
        }
    }

    /// Whether one connection follows the other instead of a plan of instants.
    pub(super) const fn is_chained(&self) -> bool {
        matches!(self.when, When::Chained { .. })
    }

    pub(super) const fn next_due(&self) -> Option<Duration> {
        match &self.when {
            When::Planned { next, .. } | When::Chained { next, .. } => *next,
        }
    }

    pub(super) fn take(&mut self, now: Duration) -> Option<Due> {
        let at = self.next_due().filter(|at| *at <= now)?;
        match &mut self.when {
            When::Planned { next, arrivals } => *next = arrivals.next(),
            When::Chained { next, left, until } => {
                *next = None;
                if *left == 0 || until.is_some_and(|until| at >= until) {
                    *left = 0;
                    return None;
                }
                *left -= 1;
            }
        }
        let number = self.number;
        self.number += self.stride;
        Some(Due {
            at,
            number,
            calls: u64::from(self.calls),
            pauses: None,
            choice: None,
        })
    }

    pub(super) fn session_ended(&mut self, now: Duration, gently: bool) {
        if let When::Chained { next, left, until } = &mut self.when
            && *left > 0
        {
            let at = if gently && until.is_some() {
                now + GENTLE
            } else {
                now
            };
            if until.is_some_and(|until| at >= until) {
                *left = 0;
            } else {
                *next = Some(at);
            }
        }
    }

    pub(super) const fn is_over(&self) -> bool {
        match &self.when {
            When::Planned { next, .. } => next.is_none(),
            When::Chained { left, .. } => *left == 0,
        }
    }

    pub(super) fn give_up(&mut self) -> u64 {
        let connections = match &mut self.when {
            When::Planned { next, arrivals } => next
                .take()
                .map_or(0, |_| 1 + arrivals.by_ref().count() as u64),
            When::Chained { next, left, until } => {
                *next = None;
                let left = std::mem::take(left);
                // Bounded by time, nobody planned a number.
                if until.is_some() { 0 } else { left }
            }
        };
        connections * u64::from(self.calls)
    }

    pub(super) const fn calls(&self) -> u64 {
        self.calls as u64
    }

    pub(super) const fn max_in_flight(&self) -> Option<u32> {
        self.max_in_flight
    }
}

/// Threads that a plan has work for.
pub(super) fn threads(plan: &RatePlan) -> usize {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "rates are not negative and far below the range"
    )]
    let threads = (plan.peak_rate() / PER_THREAD).ceil() as usize;
    threads.max(1)
}
