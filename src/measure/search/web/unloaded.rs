//! Without load and up to the ceiling: what the goal, the budget and the first rate follow from.

use super::{Web, whole};
use crate::measure::search::judge;
use crate::measure::search::replay::{Halt, Went};
use crate::measure::search::result::{Label, Level, LimitedBy, Trial, Verdict};
use crate::measure::search::{Closed, ClosedFigures, Purpose, Sequential, SequentialFigures};

/// The width where the unloaded time is spread.
const SPREAD_WIDTH: f64 = 0.15;

impl Web<'_, '_> {
    /// Baseline, ceiling, second baseline; quantile, goal and budget follow.
    pub(super) fn unloaded(&mut self) -> Went<()> {
        let first = self.sequential(Purpose::Baseline, 3.0, 4, 100)?;
        let mean = first.answers.mean_s.unwrap_or(f64::INFINITY);
        self.timeout_s = (20.0 * first.answers.at(0.5)).max(10.0);
        self.yard.mean_s = mean;
        self.lengthen(mean);
        (self.users, self.level_rate, self.best) = (1, 1.0 / mean, 1.0 / mean);
        self.climb(10)?;
        let rest = self.replay.short(1.0);
        self.replay.pause(rest)?;
        let length = self.replay.scaled(12.0);
        let second = self.sequential(Purpose::SecondBaseline, length, 8, 1000)?;
        self.compare(&first, &second);
        let settings = self.replay.settings;
        let median = second.answers.at(0.5);
        self.yard.median_s = median;
        self.yard.mean_s = second.answers.mean_s.unwrap_or(median);
        self.timeout_s = (20.0 * median).max(10.0);
        self.p90_s = second.answers.at(0.9);
        self.spread = self.p90_s > 1.5 * median;
        self.budget_s = settings
            .budget_s
            .unwrap_or_else(|| (240.0 * self.yard.mean_s).max(600.0));
        let failed = first.failed() + second.failed();
        if failed >= 3 {
            let share = failed as f64 / (first.requests + second.requests) as f64;
            self.errors_at_any_load(share);
        }
        self.choose_quantile();
        self.yard.latency_s = settings
            .goal
            .latency_s
            .unwrap_or_else(|| (2.0 * second.answers.at(self.yard.quantile)).max(median + 0.005));
        if self.spread {
            self.width = self.width.max(SPREAD_WIDTH);
            self.replay.finding.capacity.label(Label::Spread);
            self.say();
            self.spread_step()?;
        }
        self.say();
        Ok(())
    }

    /// A step must be long against the time of a request, or its end comes before its queue shows.
    fn lengthen(&mut self, mean: f64) {
        let asked = self.replay.settings.step_s;
        let needed = (10.0 * mean).min(20.0);
        self.replay.step_s = asked.max(needed);
        if needed > asked {
            let note = format!(
                "Steps of {} are too short for requests of {}: they are {} long.",
                judge::time(asked),
                judge::time(mean),
                judge::time(needed)
            );
            self.replay.finding.capacity.notes.push(note);
        }
    }

    /// Writes what is known of the goal into the result.
    pub(super) fn say(&mut self) {
        let capacity = &mut self.replay.finding.capacity;
        capacity.baseline_ms = Some(self.yard.median_s * 1e3);
        capacity.baseline_mean_ms = Some(self.yard.mean_s * 1e3);
        capacity.goal_ms = Some(self.yard.latency_s * 1e3);
        capacity.quantile = Some(self.yard.quantile);
        capacity.budget_s = Some(self.budget_s);
    }

    fn sequential(
        &mut self,
        purpose: Purpose,
        seconds: f64,
        at_least: u64,
        at_most: u64,
    ) -> Went<SequentialFigures> {
        // The second baseline's length is in proportion to the step already.
        let seconds = if purpose == Purpose::Baseline {
            self.replay.short(seconds)
        } else {
            seconds
        };
        let figures = self.replay.sequential(Sequential {
            purpose,
            seconds,
            at_least,
            at_most,
            timeout_s: self.timeout_s,
        })?;
        if let Some(resource) = judge::exhausted_in(&figures.failures) {
            self.spoilt(purpose, &figures, resource);
            return Err(Halt::Hopeless(
                "This machine could not even send one request after another: see the invalid trial. That says nothing about the target.".to_owned(),
            ));
        }
        if figures.answers.mean_s.is_none() {
            let failures: Vec<&str> = figures.failures.keys().map(String::as_str).collect();
            return Err(Halt::Hopeless(format!(
                "None of {} requests, sent one after another, was answered with 2xx or 3xx ({}): try one request first.",
                figures.requests,
                failures.join(", ")
            )));
        }
        Ok(figures)
    }

    /// A baseline that this machine spoilt.
    fn spoilt(&mut self, purpose: Purpose, figures: &SequentialFigures, resource: String) {
        let capacity = &mut self.replay.finding.capacity;
        let ms = |seconds: Option<f64>| seconds.map(|s| s * 1e3);
        let rate = figures.answers.mean_s.map_or(0.0, |mean| 1.0 / mean);
        capacity.steps.push(Trial {
            p50_ms: ms(figures.answers.at_shares_s[0]),
            p90_ms: ms(figures.answers.at_shares_s[1]),
            p95_ms: ms(figures.answers.at_shares_s[2]),
            p99_ms: ms(figures.answers.at_shares_s[3]),
            max_ms: ms(figures.answers.max_s),
            requests: figures.requests,
            failed: figures.failed(),
            run: figures.run,
            ..Trial::bare(purpose, rate, Verdict::Invalid, judge::own_limit(&resource))
        });
        capacity.limited_by = Some(LimitedBy::Generator);
        capacity.resource = Some(resource);
    }

    /// Notes baselines whose middle halves do not touch and whose medians are far apart.
    fn compare(&mut self, first: &SequentialFigures, second: &SequentialFigures) {
        let (a, b) = (&first.answers, &second.answers);
        let (Some(a_low), Some(a_high), Some(b_low), Some(b_high)) = (
            a.lower_quartile_s,
            a.upper_quartile_s,
            b.lower_quartile_s,
            b.upper_quartile_s,
        ) else {
            return;
        };
        let ratio = a.at(0.5) / b.at(0.5);
        if (b_high < a_low || a_high < b_low) && !(0.8..=1.25).contains(&ratio) {
            let note = format!(
                "The unloaded time moved from {} to {} between the two baselines.",
                judge::time(a.at(0.5)),
                judge::time(b.at(0.5))
            );
            let notes = &mut self.replay.finding.capacity.notes;
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
    }

    /// Four times the users again and again, until that brings no more answers.
    pub(super) fn climb(&mut self, most_levels: u32) -> Went<()> {
        let settings = self.replay.settings;
        let mean = self.yard.mean_s;
        let enough = settings
            .clean_rate_per_s
            .map_or(f64::INFINITY, |rate| 0.9 * rate)
            .min(settings.max_rate_per_s.unwrap_or(f64::INFINITY));
        let mut saturated_before = false;
        let mut rate = self.level_rate;
        for _ in 0..most_levels {
            let users = (self.users * 4).min(settings.max_users);
            let least = self.replay.short(2.0).max(2.0 * mean);
            let seconds = least.max(self.replay.short(8.0).min(50.0 / self.level_rate));
            let figures = self.closed(Purpose::Level, users, seconds)?;
            rate = figures.rate_per_s();
            let grew = rate / self.level_rate;
            let saturated = grew < 2.5 && rate * mean < 0.6 * users as f64;
            let last = users == self.users || users == settings.max_users;
            (self.users, self.level_rate) = (users, rate.max(1e-9));
            self.replay.finding.capacity.levels.push(Level {
                users,
                answered_per_s: rate,
                saturated,
                run: figures.run,
            });
            if !saturated {
                self.best = self.best.max(rate);
            }
            let starved = judge::exhausted_in(&figures.failures).is_some();
            if rate >= enough
                || last
                || starved
                || saturated && (figures.answered >= 30 || saturated_before)
            {
                break;
            }
            saturated_before = saturated;
        }
        self.ceiling = if rate >= 0.8 * self.best {
            rate
        } else {
            self.best
        };
        Ok(())
    }

    pub(super) fn closed(
        &mut self,
        purpose: Purpose,
        users: u64,
        seconds: f64,
    ) -> Went<ClosedFigures> {
        self.replay.closed(Closed {
            purpose,
            users,
            begin_over_s: self.yard.mean_s,
            seconds,
            timeout_s: self.timeout_s,
        })
    }

    /// The largest of .99 and .95 for which there are requests enough and errors few enough, else .90.
    pub(super) fn choose_quantile(&mut self) {
        let settings = self.replay.settings;
        self.yard.quantile = settings.goal.quantile.unwrap_or_else(|| {
            let errors = self.yard.error_floor.unwrap_or(0.0);
            // 22 s at the ceiling with steps of 20 s.
            let enough = 1.1 * self.replay.step_s * self.ceiling;
            [0.99, 0.95]
                .into_iter()
                .find(|quantile| {
                    let beyond = 1.0 - quantile;
                    10.0 / beyond <= enough && beyond >= 3.0 * errors
                })
                .unwrap_or(0.90)
        });
    }

    pub(super) fn errors_at_any_load(&mut self, share: f64) {
        self.yard.error_floor = Some(share);
        self.replay.finding.capacity.label(Label::ErrorsAtAnyLoad);
    }

    /// A step at half the ceiling tells how far the unloaded time is spread; it counts as a pass.
    fn spread_step(&mut self) -> Went<()> {
        let rate = (0.5 * self.ceiling).min(self.cap().0);
        let (_, requests) = self.size(rate);
        let warm_up = self.replay.short(2.0).max(2.0 * self.yard.median_s);
        let limit = 5.0 * self.ceiling * self.yard.mean_s;
        let arrival = std::mem::take(&mut self.arrival);
        let counts = (whole(warm_up * rate).max(1), requests);
        let (step, figures) = self.open(Purpose::Spread, rate, counts, Some(limit))?;
        self.arrival = arrival;
        let rest = self.replay.short(0.5);
        self.replay.pause(rest)?;
        let mut trial = Trial::of(&step, &figures, self.yard.quantile);
        if let Some(resource) = judge::exhausted(&figures) {
            trial.verdict = Verdict::Invalid;
            trial.reason = judge::own_limit(&resource);
        } else if figures.cut.is_some() {
            trial.verdict = Verdict::Fail;
            "Ended early: the queue grew without end.".clone_into(&mut trial.reason);
        } else {
            let at = figures.latency.at(self.yard.quantile);
            if self.replay.settings.goal.latency_s.is_none() && at.is_finite() {
                self.yard.latency_s = (2.0 * at).max(self.yard.median_s + 0.005);
            }
            trial.reason = format!(
                "{} at half the ceiling is {}: the goal is {}.",
                judge::quantile(self.yard.quantile),
                judge::time(at),
                judge::time(self.yard.latency_s)
            );
            self.ledger.add(rate, true);
        }
        self.replay.finding.capacity.steps.push(trial);
        Ok(())
    }
}
