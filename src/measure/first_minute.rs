//! The first minute: what a machine is good for, from a handful of ordinary runs; what each found, and the sentence.

use serde::{Deserialize, Serialize};

use crate::measure::run::{Run, State};
use crate::measure::summary::{Distribution, RateSummary, Summary};
use crate::measure::units::{bits_per_second_text, ms_text, significant};

/// The tag of its runs.
pub const TAG: &str = "first-minute";

/// One of its runs, in the order in which they are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// How late sends are against a perfect grid.
    Clock,
    /// What one TCP stream moves over loopback, and the round trip beside it.
    Loopback,
    /// How many pictures a second its workload serves when users ask as fast as they are served.
    Ceiling,
    /// Pictures asked for by a schedule, below that rate.
    Below,
    /// At that rate.
    At,
    /// Above it.
    Above,
}

impl Part {
    /// All of them in order.
    pub const ALL: [Self; 6] = [
        Self::Clock,
        Self::Loopback,
        Self::Ceiling,
        Self::Below,
        Self::At,
        Self::Above,
    ];

    /// How many times the estimated ceiling is asked for; `None` for parts that are not a step.
    pub const fn share(self) -> Option<f64> {
        match self {
            Self::Below => Some(0.7),
            Self::At => Some(1.0),
            Self::Above => Some(1.3),
            Self::Clock | Self::Loopback | Self::Ceiling => None,
        }
    }

    /// What it does, in a few words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Clock => "sends on a perfect grid",
            Self::Loopback => "TCP over loopback",
            Self::Ceiling => "pictures as fast as they are served",
            Self::Below => "pictures at 0.7 × that rate",
            Self::At => "pictures at that rate",
            Self::Above => "pictures at 1.3 × that rate",
        }
    }
}

/// How long its parts take.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pace {
    /// The grid.
    pub clock_s: f64,
    /// The stream, after 2 s of idle round trips.
    pub loopback_s: f64,
    /// The closed loop.
    pub ceiling_s: f64,
    /// Each of the three steps.
    pub step_s: f64,
}

impl Default for Pace {
    fn default() -> Self {
        Self::of_steps(6.0)
    }
}

/// Round trips on the idle path before a throughput run.
const IDLE_S: f64 = 2.0;
/// About how long the last step's queue takes to be worked off, as a share of the step.
const DRAIN: f64 = 0.35;

impl Pace {
    /// The pace that a person or a script asks for by the length of a step.
    ///
    /// # Errors
    /// A sentence that names the range.
    pub fn read(step_s: f64) -> Result<Self, String> {
        if (0.2..=60.0).contains(&step_s) {
            Ok(Self::of_steps(step_s))
        } else {
            Err(format!("step_s is {step_s}; it must be from 0.2 to 60 s."))
        }
    }

    /// The pace in which a step takes so long and everything else in proportion.
    pub fn of_steps(step_s: f64) -> Self {
        Self {
            clock_s: step_s * 0.6,
            loopback_s: step_s * 0.5,
            ceiling_s: step_s,
            step_s,
        }
    }

    /// About how long a part takes, in s.
    pub fn of(&self, part: Part) -> f64 {
        match part {
            Part::Clock => self.clock_s,
            Part::Loopback => IDLE_S + self.loopback_s,
            Part::Ceiling => self.ceiling_s,
            Part::Below | Part::At => self.step_s,
            Part::Above => self.step_s * (1.0 + DRAIN),
        }
    }

    /// About how long all of it takes, in s.
    pub fn whole_s(&self) -> f64 {
        Part::ALL.into_iter().map(|part| self.of(part)).sum()
    }
}

/// What became of one part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PartState {
    /// Which.
    pub part: Part,
    /// Its run, once it was launched.
    pub run: Option<i64>,
    /// Whether it is over.
    pub over: bool,
    /// Why there is no run, or none that says anything.
    pub skipped: Option<String>,
}

/// What the server of the pictures counted itself, from the first step to the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerLog {
    /// Pictures computed.
    pub served: u64,
    /// Requests refused because its queue was full.
    pub refused: u64,
    /// Renders not begun, or stopped half-way, because their client had left.
    pub dropped: u64,
}

/// One first minute.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FirstMinute {
    /// Where it stands.
    pub state: State,
    /// When it began.
    pub started_at: jiff::Timestamp,
    /// When it ended.
    pub finished_at: Option<jiff::Timestamp>,
    /// How long its parts take.
    pub pace: Pace,
    /// Render threads of the server of the pictures.
    pub threads: u32,
    /// The picture that is asked for, as path and query.
    pub picture: String,
    /// Its parts in order.
    pub parts: Vec<PartState>,
    /// Pictures a second in a closed loop: an estimate of the most that the machine serves.
    pub ceiling_per_s: Option<f64>,
    /// The server's own count of the step above the ceiling.
    pub server: Option<ServerLog>,
    /// Why it ended early.
    pub error: Option<String>,
}

impl FirstMinute {
    /// The part that is under way.
    pub fn now(&self) -> Option<&PartState> {
        self.parts.iter().find(|part| !part.over)
    }

    /// The state of a part.
    pub fn part(&self, part: Part) -> Option<&PartState> {
        self.parts.iter().find(|state| state.part == part)
    }
}

/// What the runs of a first minute found so far; `None` where a run is missing or says nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MinuteFound {
    /// Lateness of the sends on the grid, in ms.
    pub lateness_ms: Option<Distribution>,
    /// What the stream moved.
    pub bits_per_second: Option<f64>,
    /// Median round trip before and under load, in ms.
    pub rtt_ms: Option<(f64, f64)>,
    /// Pictures a second in a closed loop.
    pub ceiling_per_s: Option<f64>,
    /// Median and largest latency of each step in ms, with the rate that was asked for: below, at, above.
    pub steps: [Option<StepFound>; 3],
}

/// What a step found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepFound {
    /// Offered rate per s.
    pub offered_per_s: f64,
    /// Achieved rate per s.
    pub achieved_per_s: f64,
    /// Median latency in ms.
    pub median_ms: f64,
    /// Largest latency in ms.
    pub max_ms: f64,
}

impl StepFound {
    /// What a run found that was whole enough to have all four figures.
    fn of(rate: &RateSummary) -> Option<Self> {
        Some(Self {
            offered_per_s: rate.offered_per_s?,
            achieved_per_s: rate.achieved_per_s?,
            median_ms: rate.latency_ms.median?,
            max_ms: rate.latency_ms.max?,
        })
    }
}

impl MinuteFound {
    /// Takes in what the run of a part found.
    pub fn take(&mut self, part: Part, run: &Run) {
        match (part, &run.summary) {
            (Part::Clock, Some(Summary::Rate(rate))) => {
                self.lateness_ms = Some(rate.lateness_ms.clone()).filter(|late| late.count > 0);
            }
            (Part::Loopback, Some(Summary::Throughput(flow))) => {
                self.bits_per_second = flow.bits_per_second;
                self.rtt_ms = flow.rtt_ms.idle.median.zip(flow.rtt_ms.loaded.median);
            }
            (Part::Ceiling, Some(Summary::Users(users))) => {
                self.ceiling_per_s = users.transaction_rate_per_s.filter(|rate| *rate > 0.0);
            }
            (Part::Below | Part::At | Part::Above, Some(Summary::Rate(rate))) => {
                self.steps[Self::place(part)] = StepFound::of(rate);
            }
            _ => {}
        }
    }

    const fn place(part: Part) -> usize {
        match part {
            Part::At => 1,
            Part::Above => 2,
            _ => 0,
        }
    }

    /// What a step found.
    pub const fn step(&self, part: Part) -> Option<StepFound> {
        self.steps[Self::place(part)]
    }

    /// All of it in one sentence; `None` when nothing was found.
    pub fn sentence(&self) -> Option<String> {
        let sends = self
            .lateness_ms
            .as_ref()
            .and_then(|late| late.p99)
            .map(|late| format!("sends within {} of its plan", ms_text(late)));
        let moves = self
            .bits_per_second
            .map(|rate| format!("moves {} over loopback", bits_per_second_text(rate)));
        let serves = self
            .ceiling_per_s
            .map(|rate| format!("serves about {}\u{a0}pictures a second", significant(rate)));
        let said: Vec<String> = [sends, moves, serves].into_iter().flatten().collect();
        let (last, first) = said.split_last()?;
        Some(if first.is_empty() {
            format!("This machine {last}")
        } else {
            format!("This machine {} and {last}", first.join(", "))
        })
    }

    /// What waiting does beyond the ceiling, in one sentence; `None` before the last step has found something.
    pub fn waiting(&self) -> Option<String> {
        let above = self.step(Part::Above)?;
        let below = self.step(Part::Below);
        let before = below.map_or_else(String::new, |below| {
            format!(", against {} below it", ms_text(below.median_ms))
        });
        let grew = below.is_none_or(|below| above.median_ms > below.median_ms * 1.5);
        Some(if grew {
            format!(
                "Asked for 1.3 times as many, each picture waits longer than the one before: half of them {} or more, the last ones up to {}{before}.",
                ms_text(above.median_ms),
                ms_text(above.max_ms)
            )
        } else {
            format!(
                "Asked for 1.3 times as many, it did not fall behind: half of the pictures took {} or less{before}, so the estimate is too low.",
                ms_text(above.median_ms)
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(median_ms: f64, max_ms: f64) -> StepFound {
        StepFound {
            offered_per_s: 10.0,
            achieved_per_s: 8.0,
            median_ms,
            max_ms,
        }
    }

    #[test]
    fn the_whole_takes_about_forty_seconds() {
        let pace = Pace::default();
        assert!(
            (34.0..=42.0).contains(&pace.whole_s()),
            "{}",
            pace.whole_s()
        );
        assert!(Pace::of_steps(0.5).whole_s() < 5.0);
        assert!(Pace::read(0.1).is_err() && Pace::read(f64::NAN).is_err());
    }

    #[test]
    fn the_sentence_says_what_was_found_and_nothing_else() {
        let plain =
            |text: Option<String>| text.map(|text| text.replace(['\u{a0}', '\u{202f}'], " "));
        let mut found = MinuteFound::default();
        assert_eq!(found.sentence(), None);
        found.ceiling_per_s = Some(8.123);
        assert_eq!(
            plain(found.sentence()).as_deref(),
            Some("This machine serves about 8.12 pictures a second")
        );
        found.bits_per_second = Some(21e9);
        found.lateness_ms = Some(Distribution {
            p99: Some(0.12),
            ..Distribution::default()
        });
        assert_eq!(
            plain(found.sentence()).as_deref(),
            Some(
                "This machine sends within 0.12 ms of its plan, moves 21 Gbit/s over loopback and serves about 8.12 pictures a second"
            )
        );
    }

    #[test]
    fn waiting_that_did_not_grow_is_not_said_to_have_grown() {
        let mut found = MinuteFound {
            steps: [Some(step(130.0, 200.0)), None, Some(step(1_100.0, 2_300.0))],
            ..MinuteFound::default()
        };
        let said = found.waiting().unwrap();
        assert!(
            said.contains("1.1 s or more") && said.contains("130 ms below"),
            "{said}"
        );
        found.steps[2] = Some(step(140.0, 210.0));
        assert!(found.waiting().unwrap().contains("too low"));
        found.steps[2] = None;
        assert_eq!(found.waiting(), None);
    }
}
