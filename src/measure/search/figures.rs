//! What a search is told of an action: plain figures, made from the requests of the run that carried it out.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::measure::outcome::Outcome;
use crate::measure::sample::RequestSample;

/// The shares at which times are kept; a goal's quantile is one of them.
pub const SHARES: [f64; 5] = [0.5, 0.9, 0.95, 0.99, 0.999];

/// Blocks of consecutive requests from which a trend is told.
pub const BLOCKS: usize = 20;

/// Requests below which no trend is told: two for each block.
const FEWEST_FOR_TREND: usize = 2 * BLOCKS;

/// One request, in seconds since any fixed instant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seen {
    /// When the schedule wanted it.
    pub planned_s: f64,
    /// When it was really begun; the planned instant where it never was.
    pub started_s: f64,
    /// When it ended.
    pub ended_s: f64,
    /// How it ended.
    pub outcome: Outcome,
}

impl Seen {
    /// Whether it was answered with 2xx or 3xx.
    pub const fn is_answered(&self) -> bool {
        matches!(self.outcome, Outcome::Ok)
    }
}

impl From<&RequestSample> for Seen {
    fn from(sample: &RequestSample) -> Self {
        Self {
            planned_s: sample.scheduled.as_secs_f64(),
            started_s: sample.started.unwrap_or(sample.scheduled).as_secs_f64(),
            ended_s: sample.ended.as_secs_f64(),
            outcome: sample.outcome,
        }
    }
}

/// Failures by the key of their outcome; absent where 0.
pub type Failures = BTreeMap<String, u64>;

/// Times of requests in s, every failure longer than all answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// At each of `SHARES`: the value at rank ⌈share · n⌉; `None` where that request failed, or there was none.
    pub at_shares_s: [Option<f64>; SHARES.len()],
    /// The lower quartile, likewise.
    pub lower_quartile_s: Option<f64>,
    /// The upper quartile, likewise.
    pub upper_quartile_s: Option<f64>,
    /// Mean of the answers; `None` where there were none.
    pub mean_s: Option<f64>,
    /// The longest answer.
    pub max_s: Option<f64>,
}

impl Times {
    /// Of these times and this many failures.
    pub fn of(mut answered: Vec<f64>, failed: usize) -> Self {
        answered.sort_by(f64::total_cmp);
        let all = answered.len() + failed;
        let at = |share: f64| {
            rank(share, all)
                .and_then(|rank| answered.get(rank))
                .copied()
        };
        Self {
            at_shares_s: SHARES.map(at),
            lower_quartile_s: at(0.25),
            upper_quartile_s: at(0.75),
            mean_s: mean(&answered),
            max_s: answered.last().copied(),
        }
    }

    /// The value at one of `SHARES`; infinite where the request at that rank failed.
    pub fn at(&self, share: f64) -> f64 {
        let place = SHARES.iter().position(|one| (one - share).abs() < 1e-9);
        place
            .and_then(|place| self.at_shares_s[place])
            .unwrap_or(f64::INFINITY)
    }
}

/// Index of the value at a share of `all` sorted ones; `None` where there are none.
fn rank(share: f64, all: usize) -> Option<usize> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a count, not negative"
    )]
    let rank = (share * all as f64 - 1e-9).ceil() as usize;
    (all > 0).then(|| rank.clamp(1, all) - 1)
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Requests sent one after another: a baseline or a probe.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SequentialFigures {
    /// Requests that ended.
    pub requests: u64,
    /// Times of the answers alone.
    pub answers: Times,
    /// Everything but 2xx and 3xx.
    pub failures: Failures,
    /// The run that carried it out.
    pub run: Option<i64>,
}

impl SequentialFigures {
    /// Of these requests.
    pub fn of(requests: &[Seen]) -> Self {
        let answered = requests.iter().filter(|one| one.is_answered());
        Self {
            requests: requests.len() as u64,
            answers: Times::of(answered.map(|one| one.ended_s - one.started_s).collect(), 0),
            failures: failures(requests),
            run: None,
        }
    }

    /// How many failed.
    pub fn failed(&self) -> u64 {
        self.failures.values().sum()
    }
}

/// Users who each wait for their reply before they ask again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClosedFigures {
    /// Answers that came in the part that counts.
    pub answered: u64,
    /// Failures in it.
    pub failures: Failures,
    /// Its length in s.
    pub seconds: f64,
    /// The run that carried it out.
    pub run: Option<i64>,
}

impl ClosedFigures {
    /// Of the requests that ended after `skip_s` and within `seconds` from there.
    pub fn of(requests: &[Seen], skip_s: f64, seconds: f64) -> Self {
        let counted: Vec<Seen> = requests
            .iter()
            .filter(|one| one.ended_s > skip_s && one.ended_s <= skip_s + seconds)
            .copied()
            .collect();
        Self {
            answered: counted.iter().filter(|one| one.is_answered()).count() as u64,
            failures: failures(&counted),
            seconds,
            run: None,
        }
    }

    /// Answers per second.
    pub fn rate_per_s(&self) -> f64 {
        if self.seconds > 0.0 {
            self.answered as f64 / self.seconds
        } else {
            0.0
        }
    }
}

/// Why a step was ended before all was sent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cut {
    /// More were in flight than the step allows: how many.
    InFlight(u64),
    /// All that ended in the first seconds had been refused.
    Refused,
}

/// A block of consecutive requests.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Block {
    /// Mean planned instant in s.
    pub at_s: f64,
    /// Mean time of its answers in s; `None` where all failed.
    pub mean_s: Option<f64>,
}

/// Requests at a given rate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepFigures {
    /// Requests judged: those after the warm-up.
    pub requests: u64,
    /// Failures among them.
    pub failures: Failures,
    /// Due and not begun because too many were in flight; not what an early stop left.
    pub unsent: u64,
    /// From the planned start.
    pub latency: Times,
    /// From the actual start.
    pub service: Times,
    /// Latency by blocks, in the order of planning; empty below two requests for each.
    pub latency_blocks: Vec<Block>,
    /// Service time by blocks, likewise.
    pub service_blocks: Vec<Block>,
    /// Actual start − planned start: the median in s.
    pub lateness_p50_s: Option<f64>,
    /// Its 99th percentile in s.
    pub lateness_p99_s: Option<f64>,
    /// Answers, warm-up's included, that came from the first judged planned instant to one gap after the last start.
    pub answered_in_window: u64,
    /// Length of that window in s.
    pub window_s: f64,
    /// Answers per second between 20 % and 90 % of all of them; `None` with 20 or fewer.
    pub middle_rate_per_s: Option<f64>,
    /// Why it was ended early.
    pub cut: Option<Cut>,
    /// The run that carried it out.
    pub run: Option<i64>,
}

impl StepFigures {
    /// Of a step's requests, the first `warm_up` of which are not judged, sent `gap_s` apart on average.
    pub fn of(requests: &[Seen], warm_up: u64, gap_s: f64, unsent: u64, cut: Option<Cut>) -> Self {
        // What a stop cut off says nothing about the server.
        let mut all: Vec<Seen> = requests
            .iter()
            .filter(|one| one.outcome != Outcome::AbortedAtStop)
            .copied()
            .collect();
        all.sort_by(|a, b| a.planned_s.total_cmp(&b.planned_s));
        let skip = usize::try_from(warm_up)
            .unwrap_or(usize::MAX)
            .min(all.len());
        let judged = &all[skip..];
        let window = all.last().map(|last| {
            let from = judged.first().unwrap_or(last).planned_s;
            let to = all.iter().map(|one| one.started_s).fold(0.0, f64::max);
            (from, to + gap_s)
        });
        let (from, to) = window.unwrap_or_default();
        let mut answers: Vec<f64> = all
            .iter()
            .filter(|one| one.is_answered())
            .map(|one| one.ended_s)
            .collect();
        answers.sort_by(f64::total_cmp);
        let latency = |one: &Seen| one.ended_s - one.planned_s;
        let service = |one: &Seen| one.ended_s - one.started_s;
        let lateness = Times::of(
            judged
                .iter()
                .map(|one| one.started_s - one.planned_s)
                .collect(),
            0,
        );
        Self {
            requests: judged.len() as u64,
            failures: failures(judged),
            unsent,
            latency: times(judged, latency),
            service: times(judged, service),
            latency_blocks: blocks(judged, latency),
            service_blocks: blocks(judged, service),
            lateness_p50_s: lateness.at_shares_s[0],
            lateness_p99_s: lateness.at_shares_s[3],
            answered_in_window: answers
                .iter()
                .filter(|at| **at > from && **at <= to)
                .count() as u64,
            window_s: to - from,
            middle_rate_per_s: middle_rate(&answers),
            cut,
            run: None,
        }
    }

    /// How many of the judged requests failed.
    pub fn failed(&self) -> u64 {
        self.failures.values().sum()
    }

    /// Answers per second of the window; `None` without one.
    pub fn answered_per_s(&self) -> Option<f64> {
        (self.window_s > 0.0).then(|| self.answered_in_window as f64 / self.window_s)
    }
}

fn failures(requests: &[Seen]) -> Failures {
    let mut failures = Failures::new();
    for one in requests.iter().filter(|one| !one.is_answered()) {
        *failures.entry(one.outcome.key().to_owned()).or_default() += 1;
    }
    failures
}

fn times(requests: &[Seen], of: impl Fn(&Seen) -> f64) -> Times {
    let answered: Vec<f64> = requests
        .iter()
        .filter(|one| one.is_answered())
        .map(of)
        .collect();
    let failed = requests.len() - answered.len();
    Times::of(answered, failed)
}

fn blocks(requests: &[Seen], of: impl Fn(&Seen) -> f64) -> Vec<Block> {
    if requests.len() < FEWEST_FOR_TREND {
        return Vec::new();
    }
    (0..BLOCKS)
        .map(|block| {
            let bound = |block: usize| block * requests.len() / BLOCKS;
            let part = &requests[bound(block)..bound(block + 1)];
            let planned: Vec<f64> = part.iter().map(|one| one.planned_s).collect();
            let answered: Vec<f64> = part
                .iter()
                .filter(|one| one.is_answered())
                .map(&of)
                .collect();
            Block {
                // No block is empty: there are two requests for each.
                at_s: mean(&planned).unwrap_or_default(),
                mean_s: mean(&answered),
            }
        })
        .collect()
}

/// 70 % of the answers over the time from the one at 20 % to the one at 90 %.
fn middle_rate(sorted: &[f64]) -> Option<f64> {
    if sorted.len() <= 20 {
        return None;
    }
    let at = |share| rank(share, sorted.len()).map(|rank| sorted[rank]);
    let time = at(0.9)? - at(0.2)?;
    (time > 0.0).then(|| 0.7 * sorted.len() as f64 / time)
}
