//! Beyond the bracket: the ceiling, overload, random arrivals, and errors that come at any load.

use super::{Web, whole};
use crate::measure::search::bracket::{self, Bracket, Course, Trials};
use crate::measure::search::judge;
use crate::measure::search::replay::Went;
use crate::measure::search::result::{Label, LimitedBy, Trial, Verdict, suggested};
use crate::measure::search::{Arrival, Purpose};
use crate::measure::units;

/// How far apart the bounds with random arrivals may be.
const POISSON_WIDTH: f64 = 0.10;
/// Judged requests below which a larger margin is kept.
const FEW_FOR_MARGIN: u64 = 200;

impl Web<'_, '_> {
    /// Answers per second with twice as many users as are served at once; `None` where this machine or the rate that
    /// was allowed would be measured instead.
    pub(super) fn ceiling_step(&mut self, bracket: &Bracket) -> Went<Option<f64>> {
        if matches!(
            bracket.limited_by,
            Some(LimitedBy::Generator | LimitedBy::MaxRate)
        ) {
            return Ok(None);
        }
        let median = self.yard.median_s;
        let step_s = self.replay.step_s;
        let seconds = self
            .replay
            .short(10.0)
            .max(4.0 * median)
            .max(step_s.min(100.0 / self.ceiling));
        let seconds = if median > 0.5 {
            (seconds / median).ceil() * median
        } else {
            seconds
        };
        let users = whole((2.0 * self.slots()).round())
            .max(2)
            .min(self.replay.settings.max_users);
        let figures = self.closed(Purpose::Ceiling, users, seconds)?;
        let rest = self.replay.short(1.0);
        self.replay.pause(rest)?;
        if judge::exhausted_in(&figures.failures).is_some() {
            return Ok(None);
        }
        let rate = Some(figures.rate_per_s()).filter(|rate| *rate > 0.0);
        self.replay.finding.capacity.ceiling_per_s = rate;
        Ok(rate)
    }

    /// Far too much for a while: does it still answer as many as it can?
    pub(super) fn overload(&mut self, upper: f64, ceiling: f64) -> Went<()> {
        let rate = 1.3 * upper;
        if rate > self.cap().0 || !self.fits(rate, 0.9) {
            return Ok(());
        }
        let seconds = self.replay.short(10.0).max(3.0 * self.yard.median_s);
        let arrival = std::mem::take(&mut self.arrival);
        let counts = (1, whole(seconds * rate).max(50));
        let (step, figures) = self.open(Purpose::Overload, rate, counts, None)?;
        self.arrival = arrival;
        let mut trial = Trial::of(&step, &figures, self.yard.quantile);
        if let Some(resource) = judge::exhausted(&figures) {
            trial.verdict = Verdict::Invalid;
            trial.reason = judge::own_limit(&resource);
        } else {
            trial.verdict = judge::judge(&step, &figures, &self.yard).verdict;
            let answered = figures.middle_rate_per_s;
            let degrades = answered.is_some_and(|rate| rate < 0.8 * ceiling);
            let answered = answered.map_or_else(|| "few".to_owned(), units::significant);
            trial.reason = format!(
                "Overloaded on purpose: {answered} answers a second of a ceiling of {}{}.",
                units::significant(ceiling),
                if degrades {
                    ", so it degrades under overload"
                } else {
                    ", so it does not collapse"
                }
            );
            if degrades {
                self.replay.finding.capacity.label(Label::Degrades);
            }
        }
        self.replay.finding.capacity.steps.push(trial);
        self.settle(Verdict::Fail)
    }

    /// The highest rate that holds with random arrivals, and what to set in a balancer.
    pub(super) fn random_arrivals(&mut self, lower: f64) -> Went<()> {
        if self.arrival == Arrival::Exponential {
            self.suggest(lower);
            return Ok(());
        }
        self.arrival = Arrival::Exponential;
        self.random_phase = true;
        let course = Course {
            purpose: Purpose::Poisson,
            start: lower * self.random_share(),
            down: &[0.85, 0.75, 0.6],
            up: &[1.15],
            width: POISSON_WIDTH,
            cap: lower,
            cap_by: None,
            stop_when_split: false,
            share: 1.0,
        };
        let bracket = bracket::hunt(self, course, Bracket::default())?;
        if let Some(bound) = bracket.lower {
            self.suggest(bound);
        }
        Ok(())
    }

    fn suggest(&mut self, bound: f64) {
        let capacity = &mut self.replay.finding.capacity;
        let requests = capacity
            .steps
            .iter()
            .filter(|trial| {
                trial.arrival == Arrival::Exponential && trial.rate.total_cmp(&bound).is_eq()
            })
            .map(|trial| trial.requests)
            .min();
        let share = if requests.unwrap_or(0) < FEW_FOR_MARGIN {
            0.8
        } else {
            0.9
        };
        capacity.poisson_lower_per_s = Some(bound);
        capacity.suggested_share = Some(share);
        capacity.suggested_max_rate_per_instance = suggested(bound, share);
    }

    /// Whether the errors of a step come at half the ceiling too; then they are part of the yardstick.
    pub(super) fn look_for_floor(&mut self, failed: u64, requests: u64) -> Went<()> {
        self.error_floors += 1;
        let rate = 0.5 * self.ceiling;
        let requests_here = whole((2.0 * self.fewest()).max(100.0));
        let arrival = std::mem::take(&mut self.arrival);
        let (step, figures) = self.open(Purpose::ErrorFloor, rate, (1, requests_here), None)?;
        self.arrival = arrival;
        let mut trial = Trial::of(&step, &figures, self.yard.quantile);
        if let Some(resource) = judge::exhausted(&figures) {
            trial.verdict = Verdict::Invalid;
            trial.reason = judge::own_limit(&resource);
            self.replay.finding.capacity.steps.push(trial);
            return Ok(());
        }
        let here = figures.failed();
        let share_here = here as f64 / figures.requests.max(1) as f64;
        let share_there = failed as f64 / requests.max(1) as f64;
        let floor = here >= 2 || here == 1 && 3.0 * share_here >= share_there;
        if floor {
            let pooled = (failed + here) as f64 / (requests + figures.requests).max(1) as f64;
            self.errors_at_any_load(pooled);
            self.choose_quantile();
            self.say();
        }
        trial.verdict = judge::judge(&step, &figures, &self.yard).verdict;
        trial.reason = if floor {
            format!(
                "{here} of {} requests failed at half the ceiling too: errors come at any load.",
                figures.requests
            )
        } else {
            format!(
                "{here} of {} requests failed at half the ceiling: the errors come with the load.",
                figures.requests
            )
        };
        self.replay.finding.capacity.steps.push(trial);
        Ok(())
    }
}
