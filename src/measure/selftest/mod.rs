//! What a self-test comes to: how exact and how strong this machine's generator is, against truths of its own making.

mod search;

use serde::{Deserialize, Serialize};

use crate::measure::run::Environment;
use crate::measure::summary::{Distribution, RateSummary};

pub use search::{Bound, Search};

/// A send is exact when it is not later than this, in ms; 99 of 100 must be.
pub const EXACT_MS: f64 = 1.0;

/// One self-test, whole; a part that could not be measured is `None` and has its remark.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SelfTest {
    /// Whether every part was shortened.
    pub quick: bool,
    /// How late sends are on a perfect grid.
    pub timer: Option<Timer>,
    /// How many new connections a second it opens on schedule.
    pub new_connections: Option<Strength>,
    /// How many requests a second it sends on schedule over connections that it keeps.
    pub kept_connections: Option<Strength>,
    /// What it measures of servers whose delay is known.
    pub delays: Vec<Delay>,
    /// What it moves over loopback.
    pub tcp: Option<LoopbackTcp>,
    /// Why something is missing.
    pub remarks: Vec<String>,
    /// The machine.
    pub environment: Environment,
}

/// Sends on a perfect grid.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timer {
    /// Points of the grid per s.
    pub rate_per_s: f64,
    /// Actual start − planned start of every send, in ms.
    pub lateness_ms: Distribution,
}

/// The highest rate that is sent on schedule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Strength {
    /// The highest rate of a step that passed; `None` when none did.
    pub highest_per_s: Option<f64>,
    /// Why the search did not look higher.
    pub ended_by: Bound,
    /// Every step in its order.
    pub steps: Vec<StrengthStep>,
}

/// One step of a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StrengthStep {
    /// Offered rate per s.
    pub rate_per_s: f64,
    /// 99th percentile of the lateness in ms; `None` when nothing was sent.
    pub lateness_p99_ms: Option<f64>,
    /// Requests that were planned and not answered.
    pub failed: u64,
    /// Whether it was sent on schedule and answered whole.
    pub passed: bool,
}

impl StrengthStep {
    /// Judges a step by its figures: everything answered, and 99 of 100 sends not later than [`EXACT_MS`].
    pub fn judge(rate_per_s: f64, summary: &RateSummary) -> Self {
        let answered = summary.outcomes.get("ok").copied().unwrap_or(0);
        let failed = summary.planned.saturating_sub(answered);
        let late = summary.lateness_ms.p99;
        Self {
            rate_per_s,
            lateness_p99_ms: late,
            failed,
            passed: failed == 0 && late.is_some_and(|late| late <= EXACT_MS),
        }
    }
}

/// What was measured of a server that holds every reply for a known time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Delay {
    /// The delay that the server was told, in ms.
    pub asked_ms: f64,
    /// Median time for which it really held its replies, by its own log, in ms.
    pub held_ms: Option<f64>,
    /// Median latency that was measured, in ms.
    pub measured_ms: Option<f64>,
    /// Replies behind both.
    pub replies: u64,
}

impl Delay {
    /// Measured − held, in ms: the way over loopback is in it. `None` when either was not measured.
    pub fn error_ms(&self) -> Option<f64> {
        Some(self.measured_ms? - self.held_ms?)
    }
}

/// One TCP stream over loopback to the built-in receiver.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoopbackTcp {
    /// Received bytes over the time in which the stream was active.
    pub bits_per_second: Option<f64>,
    /// Round trips before the load, in ms.
    pub rtt_idle_ms: Distribution,
    /// Round trips beside the load, in ms.
    pub rtt_loaded_ms: Distribution,
}

impl SelfTest {
    /// Within how many ms its times hold: the larger of the timer's lateness at the 99th percentile and the largest
    /// error against a known delay. `None` when the timer was not measured.
    pub fn exact_to_ms(&self) -> Option<f64> {
        let late = self.timer.as_ref()?.lateness_ms.p99?;
        let errors = self.delays.iter().filter_map(Delay::error_ms);
        Some(errors.map(f64::abs).fold(late, f64::max))
    }

    /// New connections a second that it opens on schedule.
    pub fn new_per_s(&self) -> Option<f64> {
        self.new_connections.as_ref()?.highest_per_s
    }

    /// Requests a second that it sends on schedule over kept connections.
    pub fn kept_per_s(&self) -> Option<f64> {
        self.kept_connections.as_ref()?.highest_per_s
    }

    /// What one stream moves over loopback, in bit/s.
    pub fn loopback_bits_per_second(&self) -> Option<f64> {
        self.tcp.as_ref()?.bits_per_second
    }
}

/// A self-test as the notebook keeps it.
#[derive(Clone, Debug, PartialEq)]
pub struct KeptSelfTest {
    /// Its number.
    pub id: i64,
    /// The node that made it.
    pub node: String,
    /// When it began.
    pub started_at: jiff::Timestamp,
    /// When it ended.
    pub finished_at: jiff::Timestamp,
    /// Its figures.
    pub figures: SelfTest,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(planned: u64, ok: u64, late: Option<f64>) -> RateSummary {
        RateSummary {
            planned,
            outcomes: [("ok".to_owned(), ok)].into(),
            lateness_ms: Distribution {
                p99: late,
                ..Distribution::default()
            },
            ..RateSummary::default()
        }
    }

    #[test]
    fn a_step_passes_only_whole_and_on_schedule() {
        let passed =
            |planned, ok, late| StrengthStep::judge(500.0, &summary(planned, ok, late)).passed;
        assert!(passed(100, 100, Some(1.0)));
        assert!(!passed(100, 100, Some(1.01)));
        assert!(!passed(100, 99, Some(0.1)));
        assert!(!passed(0, 0, None));
    }

    #[test]
    fn exactness_is_the_worst_of_timer_and_known_delays() {
        let delay = |held, measured| Delay {
            asked_ms: 10.0,
            held_ms: held,
            measured_ms: measured,
            replies: 100,
        };
        let mut test = SelfTest::default();
        assert_eq!(test.exact_to_ms(), None);
        test.timer = Some(Timer {
            rate_per_s: 1000.0,
            lateness_ms: Distribution {
                p99: Some(0.2),
                ..Distribution::default()
            },
        });
        assert_eq!(test.exact_to_ms(), Some(0.2));
        test.delays = vec![delay(Some(10.0), Some(10.125)), delay(None, Some(70.0))];
        assert_eq!(test.exact_to_ms(), Some(0.2));
        test.delays.push(delay(Some(100.5), Some(100.0)));
        assert_eq!(test.exact_to_ms(), Some(0.5));
    }
}
