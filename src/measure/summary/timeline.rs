//! Steps of time whose width grows with the run: at most 250 of them, whatever the run's length.

use std::time::Duration;

use crate::measure::outcome::Outcome;
use crate::measure::series::{BandMs, Bin};
use crate::measure::stats::spread::{Spread, nanos};
use crate::measure::summary::names::{BySlot, Names, Slot};

/// The most steps that are kept.
const MAX_BINS: usize = 250;

/// Fewer requests than this in a step make no band of percentiles worth drawing.
const WANTED_IN_A_BIN: u64 = 15;

/// Steps are not made wider for that reason once there are only this many.
const FEWEST_BINS: usize = 30;

/// Widths in ms, each a multiple of the one before, so that steps merge exactly.
const WIDTHS_MS: [u64; 12] = [
    10, 20, 100, 200, 1000, 2000, 10_000, 20_000, 60_000, 120_000, 600_000, 1_800_000,
];

/// What one step holds.
#[derive(Clone, Debug, Default)]
struct Step {
    requests: u64,
    outcomes: [u64; Outcome::ALL.len()],
    latency: Option<Box<Spread>>,
    lateness: Option<Box<Spread>>,
    served_by: BySlot<u64>,
    regions: BySlot<u64>,
    ended_replies: u64,
    ended_errors: u64,
    ended_lost: u64,
}

/// One request as the timeline sees it.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    /// Planned send.
    pub scheduled: Duration,
    /// End.
    pub ended: Duration,
    /// How it ended.
    pub outcome: Outcome,
    /// Latency where it has one (replies and timeouts).
    pub latency: Option<Duration>,
    /// Lateness where it was begun.
    pub lateness: Option<Duration>,
    /// Slot of the backend that replied.
    pub served_by: Option<Slot>,
    /// Slot of the region that replied.
    pub region: Option<Slot>,
}

/// Requests by planned send time, and their ends by the clock.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// Index into the widths.
    level: usize,
    steps: Vec<Step>,
}

impl Timeline {
    /// Adds one request.
    pub fn push(&mut self, mark: &Mark) {
        let step = self.step(mark.scheduled);
        step.requests += 1;
        step.outcomes[mark.outcome as usize] += 1;
        if let Some(latency) = mark.latency {
            record(&mut step.latency, latency);
        }
        if let Some(lateness) = mark.lateness {
            record(&mut step.lateness, lateness);
        }
        if let Some(slot) = mark.served_by {
            *step.served_by.at(slot) += 1;
        }
        if let Some(slot) = mark.region {
            *step.regions.at(slot) += 1;
        }
        let end = self.step(mark.ended);
        if mark.outcome.is_reply() {
            end.ended_replies += 1;
        } else {
            end.ended_lost += 1;
        }
        if is_error(mark.outcome) {
            end.ended_errors += 1;
        }
    }

    /// Moves a backend's counts to those of all others.
    pub fn give_up_backend(&mut self, slot: Slot) {
        for step in &mut self.steps {
            step.served_by.give_up(slot);
        }
    }

    /// Moves a region's counts to those of all others.
    pub fn give_up_region(&mut self, slot: Slot) {
        for step in &mut self.steps {
            step.regions.give_up(slot);
        }
    }

    /// Adds the other's requests; the slices say where its slots go.
    pub fn merge(&mut self, mut other: Self, backends: &[Slot], regions: &[Slot]) {
        while self.level < other.level {
            self.widen();
        }
        while other.level < self.level {
            other.widen();
        }
        if self.steps.len() < other.steps.len() {
            self.steps.resize_with(other.steps.len(), Step::default);
        }
        for (mine, theirs) in self.steps.iter_mut().zip(&other.steps) {
            mine.merge(theirs, backends, regions);
        }
    }

    /// The steps for charts, and their width in s: wide enough that most hold several requests.
    pub fn bins(&self, backends: &Names, regions: &Names) -> (Vec<Bin>, f64) {
        let mut level = self.level;
        let mut group = 1;
        let requests: u64 = self.steps.iter().map(|step| step.requests).sum();
        let planned_steps = self
            .steps
            .iter()
            .rposition(|step| step.requests > 0)
            .map_or(0, |last| last + 1);
        let mut steps = planned_steps;
        while steps > FEWEST_BINS
            && requests < WANTED_IN_A_BIN * steps as u64
            && let Some(factor) = factor(level)
        {
            level += 1;
            group *= factor;
            steps = planned_steps.div_ceil(group);
        }
        let width = width_ms(level) as f64 / 1000.0;
        let same: Vec<Slot> = (0..=crate::measure::summary::names::MAX_NAMES).collect();
        let bins = self
            .steps
            .chunks(group)
            .enumerate()
            .map(|(index, steps)| {
                let start_s = index as f64 * width;
                if let [step] = steps {
                    return step.bin(start_s, backends, regions);
                }
                let mut merged = Step::default();
                for step in steps {
                    merged.merge(step, &same, &same);
                }
                merged.bin(start_s, backends, regions)
            })
            .collect();
        (bins, width)
    }

    fn step(&mut self, at: Duration) -> &mut Step {
        loop {
            let index = nanos(at) / (width_ms(self.level) * 1_000_000);
            match usize::try_from(index) {
                Ok(index) if index < MAX_BINS || factor(self.level).is_none() => {
                    // Beyond the widest steps everything counts into the last one.
                    let index = index.min(MAX_BINS - 1);
                    if index >= self.steps.len() {
                        self.steps.resize_with(index + 1, Step::default);
                    }
                    return &mut self.steps[index];
                }
                _ => self.widen(),
            }
        }
    }

    fn widen(&mut self) {
        let Some(factor) = factor(self.level) else {
            return;
        };
        let same: Vec<Slot> = (0..=crate::measure::summary::names::MAX_NAMES).collect();
        let mut wide: Vec<Step> = Vec::with_capacity(MAX_BINS);
        for (index, step) in self.steps.drain(..).enumerate() {
            if index % factor == 0 {
                wide.push(step);
            } else if let Some(last) = wide.last_mut() {
                last.merge(&step, &same, &same);
            }
        }
        self.steps = wide;
        self.level += 1;
    }
}

impl Step {
    fn merge(&mut self, other: &Self, backends: &[Slot], regions: &[Slot]) {
        self.requests += other.requests;
        for (mine, theirs) in self.outcomes.iter_mut().zip(other.outcomes) {
            *mine += theirs;
        }
        merge(&mut self.latency, other.latency.as_deref());
        merge(&mut self.lateness, other.lateness.as_deref());
        self.served_by.merge(&other.served_by, backends);
        self.regions.merge(&other.regions, regions);
        self.ended_replies += other.ended_replies;
        self.ended_errors += other.ended_errors;
        self.ended_lost += other.ended_lost;
    }

    fn bin(&self, start_s: f64, backends: &Names, regions: &Names) -> Bin {
        let by_name = |counts: &BySlot<u64>, names: &Names| {
            names
                .iter()
                .filter(|(name, _)| !name.is_empty())
                .filter_map(|(name, slot)| Some((name.to_owned(), *counts.find(slot)?)))
                .filter(|(_, count)| *count > 0)
                .collect()
        };
        let outcomes = Outcome::ALL.into_iter().zip(self.outcomes);
        Bin {
            start_s,
            requests: self.requests,
            replies: outcomes
                .clone()
                .filter(|(outcome, _)| outcome.is_reply())
                .map(|(_, count)| count)
                .sum(),
            outcomes: outcomes.filter(|(_, count)| *count > 0).collect(),
            served_by: by_name(&self.served_by, backends),
            regions: by_name(&self.regions, regions),
            latency_ms: self.latency.as_deref().and_then(band),
            lateness_ms: self
                .lateness
                .as_deref()
                .and_then(|spread| spread.quantile_ms(0.5).zip(spread.quantile_ms(0.99))),
            ended_replies: self.ended_replies,
            ended_errors: self.ended_errors,
            ended_lost: self.ended_lost,
        }
    }
}

/// Whether an outcome counts as an error: everything but 2xx and 3xx.
pub fn is_error(outcome: Outcome) -> bool {
    outcome != Outcome::Ok
}

fn width_ms(level: usize) -> u64 {
    WIDTHS_MS[level.min(WIDTHS_MS.len() - 1)]
}

/// How many steps of this level make one of the next.
fn factor(level: usize) -> Option<usize> {
    let wider = WIDTHS_MS.get(level + 1)?;
    usize::try_from(wider / width_ms(level)).ok()
}

fn record(spread: &mut Option<Box<Spread>>, value: Duration) {
    spread
        .get_or_insert_with(|| Box::new(Spread::coarse()))
        .push(value);
}

fn merge(mine: &mut Option<Box<Spread>>, theirs: Option<&Spread>) {
    if let Some(theirs) = theirs {
        mine.get_or_insert_with(|| Box::new(Spread::coarse()))
            .merge(theirs);
    }
}

fn band(spread: &Spread) -> Option<BandMs> {
    Some(BandMs {
        min: spread.min_ms()?,
        p5: spread.quantile_ms(0.05)?,
        p50: spread.quantile_ms(0.5)?,
        p95: spread.quantile_ms(0.95)?,
        p99: spread.quantile_ms(0.99)?,
        max: spread.max_ms()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(at_ms: u64, took_ms: u64) -> Mark {
        Mark {
            scheduled: Duration::from_millis(at_ms),
            ended: Duration::from_millis(at_ms + took_ms),
            outcome: Outcome::Ok,
            latency: Some(Duration::from_millis(took_ms)),
            lateness: Some(Duration::ZERO),
            served_by: None,
            region: None,
        }
    }

    fn bins(timeline: &Timeline) -> (Vec<Bin>, f64) {
        timeline.bins(&Names::default(), &Names::default())
    }

    #[test]
    fn widths_nest_so_that_steps_merge_exactly() {
        for pair in WIDTHS_MS.windows(2) {
            assert_eq!(pair[1] % pair[0], 0);
        }
    }

    #[test]
    fn a_day_of_requests_stays_within_250_steps_and_counts_each_once() {
        let mut timeline = Timeline::default();
        for second in 0..86_400 {
            timeline.push(&mark(second * 1000, 30));
        }
        let (bins, width) = bins(&timeline);
        assert!((width - 600.0).abs() < 1e-9);
        assert_eq!(bins.len(), 144);
        assert!(
            bins.iter()
                .all(|bin| bin.requests == 600 && bin.ended_replies == 600)
        );
    }

    #[test]
    fn sparse_requests_get_wider_steps_and_dense_ones_keep_theirs() {
        let mut sparse = Timeline::default();
        (0..14).for_each(|i| sparse.push(&mark(i * 140, 10)));
        let (few, width) = bins(&sparse);
        assert!((width - 0.1).abs() < 1e-9);
        assert_eq!(few.iter().map(|bin| bin.requests).sum::<u64>(), 14);
        let mut dense = Timeline::default();
        (0..4000).for_each(|i| dense.push(&mark(i / 2, 1)));
        assert!((bins(&dense).1 - 0.01).abs() < 1e-9);
    }

    #[test]
    fn merging_two_of_different_length_equals_one() {
        let (mut one, mut short, mut long) = (
            Timeline::default(),
            Timeline::default(),
            Timeline::default(),
        );
        for i in 0..3000 {
            let at = mark(i * 100, i % 70);
            one.push(&at);
            if i < 20 {
                short.push(&at);
            } else {
                long.push(&at);
            }
        }
        short.merge(long, &[0], &[0]);
        assert_eq!(bins(&short), bins(&one));
    }
}
