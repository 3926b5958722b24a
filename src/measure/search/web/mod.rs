//! The search for the rate of requests that a server holds: unloaded time, ceiling, bracket, confirmation, overload,
//! random arrivals.

mod beyond;
mod unloaded;

use super::bracket::{self, Bracket, Course, Ledger, Said, Trials};
use super::judge::{self, Yardstick};
use super::replay::{Halt, Replay, Went};
use super::result::{Label, LimitedBy, Trial, Verdict};
use super::{Arrival, Purpose, Sequential, Step};

/// The part of this machine's clean rate up to which it is used.
const CLEAN_SHARE: f64 = 0.7;
/// Restarts after the target has changed.
const MOST_RESTARTS: usize = 2;
/// Looks at half the ceiling for errors that come at any load.
const MOST_ERROR_FLOORS: u32 = 3;
/// Timeout before the unloaded time is known, in s.
const FIRST_TIMEOUT_S: f64 = 30.0;

/// The whole search, from its start.
pub(super) fn search(replay: &mut Replay<'_>) -> Went<()> {
    for restart in 0.. {
        match Web::new(replay).go() {
            Err(Halt::Changed) if restart < MOST_RESTARTS => {
                replay.finding.capacity.label(Label::ServerChanged);
                forget(replay);
            }
            Err(Halt::Changed) => {
                replay.finding.capacity.label(Label::ServerChanged);
                forget(replay);
                replay.finding.capacity.notes.push(
                    "The target did not recover after a step, three times: no capacity is stated."
                        .to_owned(),
                );
                return Ok(());
            }
            went => return went,
        }
    }
    Ok(())
}

/// What was found of a target that has changed since.
fn forget(replay: &mut Replay<'_>) {
    let capacity = &mut replay.finding.capacity;
    capacity.lower_per_s = None;
    capacity.upper_per_s = None;
    capacity.ceiling_per_s = None;
    capacity.poisson_lower_per_s = None;
    capacity.suggested_max_rate_per_instance = None;
    capacity.suggested_share = None;
    capacity.limited_by = None;
    capacity.resource = None;
}

/// One go through the procedure.
struct Web<'r, 'a> {
    replay: &'r mut Replay<'a>,
    yard: Yardstick,
    timeout_s: f64,
    budget_s: f64,
    /// The 90th percentile of the unloaded time in s.
    p90_s: f64,
    /// Whether the unloaded time is spread.
    spread: bool,
    width: f64,
    /// Answers per second when there is always work, as far as is known.
    ceiling: f64,
    /// Users and answers per second of the last level.
    users: u64,
    level_rate: f64,
    /// The most answers per second of a level that was not saturated.
    best: f64,
    climbs: u32,
    error_floors: u32,
    ledger: Ledger,
    /// How requests arrive now, and whether that is the second, random phase.
    arrival: Arrival,
    random_phase: bool,
    /// Judged requests of the last step.
    last_requests: u64,
}

impl<'r, 'a> Web<'r, 'a> {
    fn new(replay: &'r mut Replay<'a>) -> Self {
        let goal = replay.settings.goal;
        Self {
            yard: Yardstick {
                quantile: goal.quantile.unwrap_or(0.90),
                latency_s: f64::INFINITY,
                error_share: goal.error_share,
                error_floor: None,
                median_s: 0.0,
                mean_s: 0.0,
            },
            timeout_s: FIRST_TIMEOUT_S,
            budget_s: f64::INFINITY,
            p90_s: 0.0,
            spread: false,
            width: replay.settings.width,
            ceiling: 0.0,
            users: 1,
            level_rate: 0.0,
            best: 0.0,
            climbs: 0,
            error_floors: 0,
            ledger: Ledger::default(),
            arrival: replay.settings.arrival,
            random_phase: false,
            last_requests: 0,
            replay,
        }
    }

    fn go(&mut self) -> Went<()> {
        self.unloaded()?;
        let course = self.course();
        let bracket = bracket::hunt(self, course, Bracket::default())?;
        self.note(bracket);
        let bracket = bracket::confirm(self, course, bracket)?;
        self.note(bracket);
        let bracket = self.settle_bounds(bracket)?;
        self.note(bracket);
        let Some(lower) = bracket.lower else {
            return Ok(());
        };
        let ceiling = self.ceiling_step(&bracket)?;
        if let (Some(upper), Some(ceiling)) = (bracket.upper, ceiling) {
            self.overload(upper, ceiling)?;
        }
        self.random_arrivals(lower)
    }

    /// The highest rate that may be tried, and why.
    fn cap(&self) -> (f64, Option<LimitedBy>) {
        let settings = self.replay.settings;
        let clean = settings
            .clean_rate_per_s
            .map_or(f64::INFINITY, |rate| CLEAN_SHARE * rate);
        let asked = settings.max_rate_per_s.unwrap_or(f64::INFINITY);
        if asked <= clean {
            (asked, Some(LimitedBy::MaxRate))
        } else {
            (clean, Some(LimitedBy::Generator))
        }
    }

    /// Requests that give the quantile ten values beyond it.
    fn fewest(&self) -> f64 {
        (10.0 / (1.0 - self.yard.quantile)).round()
    }

    /// Warm-up in s and judged requests of a step at this rate.
    fn size(&self, rate: f64) -> (f64, u64) {
        let step_s = self.replay.step_s;
        let wanted = self
            .fewest()
            .max(self.replay.scaled(5.0) * rate)
            .max((step_s * rate).min(20_000.0));
        let wanted = if self.spread { 1.5 * wanted } else { wanted };
        let requests = wanted.min(2.5 * step_s * rate).max(50.0).floor();
        let warm_up = self
            .replay
            .short(2.0)
            .max(2.0 * self.yard.median_s)
            .max(0.2 * requests / rate);
        (warm_up, whole(requests))
    }

    /// An open loop without a verdict.
    fn open(
        &mut self,
        purpose: Purpose,
        rate: f64,
        (warm_up, requests): (u64, u64),
        in_flight: Option<f64>,
    ) -> Went<(Step, super::StepFigures)> {
        let number = self.replay.finding.capacity.steps.len() as u64;
        let step = Step {
            purpose,
            rate,
            arrival: self.arrival,
            warm_up,
            requests,
            in_flight: in_flight.map(|limit| whole(limit.max(50.0))),
            refused_s: in_flight.map(|_| 3.0),
            timeout_s: self.timeout_s,
            seed: self.replay.settings.seed.wrapping_add(number),
        };
        let figures = self.replay.step(step)?;
        self.last_requests = figures.requests;
        Ok((step, figures))
    }

    fn course(&self) -> Course<'static> {
        let (cap, cap_by) = self.cap();
        let start = match self.arrival {
            Arrival::Deterministic => 0.95 * self.ceiling,
            Arrival::Exponential => self.random_share() * self.ceiling,
        };
        Course {
            purpose: Purpose::Search,
            start,
            down: &[0.85, 0.8, 0.7, 0.6],
            up: &[1.1, 1.2, 1.3],
            width: self.width,
            cap,
            cap_by,
            stop_when_split: true,
            share: 0.55,
        }
    }

    /// Requests at once when there is always work.
    fn slots(&self) -> f64 {
        (self.ceiling * self.yard.mean_s).max(1.0)
    }

    /// Where a search with random arrivals begins, as a share: the fewer slots, the lower.
    fn random_share(&self) -> f64 {
        (1.0 - 0.6 / self.slots().sqrt()).max(0.3)
    }

    /// Writes the bounds so far into the result; what this machine could not offer is no bound of the target.
    fn note(&mut self, bracket: Bracket) {
        let by_generator = bracket.limited_by == Some(LimitedBy::Generator);
        let capacity = &mut self.replay.finding.capacity;
        capacity.lower_per_s = bracket.lower;
        capacity.upper_per_s = bracket.upper.filter(|_| !by_generator);
        capacity.limited_by = bracket.limited_by;
        if !by_generator {
            capacity.resource = None;
        } else if capacity.resource.is_none() {
            capacity.resource =
                Some("a higher rate is above what it was measured to send on schedule".to_owned());
        }
        if bracket.noisy {
            capacity.label(Label::Noisy);
        }
    }

    /// The bounds that all steps together support.
    fn settle_bounds(&mut self, bracket: Bracket) -> Went<Bracket> {
        if matches!(
            bracket.limited_by,
            Some(LimitedBy::Generator | LimitedBy::MaxRate)
        ) {
            return Ok(bracket);
        }
        let (mut lower, mut upper) = self.ledger.bounds();
        let mut rate = self.ledger.lowest().unwrap_or(self.ceiling);
        for _ in 0..3 {
            if lower.is_some() || !self.fits(0.85 * rate, 0.85) {
                break;
            }
            rate *= 0.85;
            self.step(Purpose::Lower, rate)?;
            if self.fits(rate, 0.85) {
                self.step(Purpose::Lower, rate)?;
            }
            (lower, upper) = self.ledger.bounds();
        }
        Ok(Bracket {
            lower,
            upper,
            ..bracket
        })
    }

    /// A rest after a step; where it did not hold, until a request takes its unloaded time again.
    fn settle(&mut self, verdict: Verdict) -> Went<()> {
        if verdict == Verdict::Pass {
            let rest = self.replay.short(0.5);
            return self.replay.pause(rest);
        }
        let rest = self.replay.short(1.0);
        let median = self.yard.median_s;
        for miss in 0..4 {
            self.replay
                .pause(if miss == 0 { rest } else { rest.max(median) })?;
            let one = self.probe(1)?;
            if one <= 1.5 * median {
                return Ok(());
            }
            let five = self.probe(5)?;
            if five <= 1.5 * median || self.p90_s > 2.0 * median && five <= 2.5 * median {
                return Ok(());
            }
        }
        Err(Halt::Changed)
    }

    /// The median time of a few requests, one after another, in s; infinite where most failed.
    fn probe(&mut self, requests: u64) -> Went<f64> {
        let figures = self.replay.sequential(Sequential {
            purpose: Purpose::Probe,
            seconds: 0.0,
            at_least: requests,
            at_most: requests,
            timeout_s: self.timeout_s,
        })?;
        Ok(if 2 * figures.failed() >= requests {
            f64::INFINITY
        } else {
            figures.answers.at(0.5)
        })
    }
}

impl Trials for Web<'_, '_> {
    fn fits(&self, rate: f64, share: f64) -> bool {
        let (warm_up, requests) = self.size(rate);
        let cost =
            warm_up + requests as f64 / rate + 2.0 * self.yard.median_s + self.replay.short(1.5);
        self.replay.now_s + cost <= self.budget_s * share
    }

    fn step(&mut self, purpose: Purpose, rate: f64) -> Went<Said> {
        let (warm_up, requests) = self.size(rate);
        let limit = 3.0 * rate * self.yard.latency_s;
        let counts = (whole(warm_up * rate).max(1), requests);
        let (step, figures) = self.open(purpose, rate, counts, Some(limit))?;
        let mut judged = judge::judge(&step, &figures, &self.yard);
        let place = self.replay.finding.capacity.steps.len();
        let trial = Trial::of(&step, &figures, self.yard.quantile);
        self.replay.finding.capacity.steps.push(trial);
        if judged.by_errors
            && self.yard.error_floor.is_none()
            && self.error_floors < MOST_ERROR_FLOORS
            && rate > 0.5 * self.ceiling
        {
            let trial = &mut self.replay.finding.capacity.steps[place];
            trial.verdict = judged.verdict;
            trial.reason.clone_from(&judged.reason);
            self.look_for_floor(figures.failed(), figures.requests)?;
            judged = judge::judge(&step, &figures, &self.yard);
        }
        let quantile = self.yard.quantile;
        let trial = &mut self.replay.finding.capacity.steps[place];
        *trial = Trial {
            verdict: judged.verdict,
            reason: judged.reason,
            ..Trial::of(&step, &figures, quantile)
        };
        if judged.resource.is_some() {
            self.replay.finding.capacity.resource = judged.resource;
        }
        if judged.verdict != Verdict::Invalid && !self.random_phase {
            self.ledger.add(rate, judged.verdict == Verdict::Pass);
            // What a search that is stopped here has found.
            let (lower, upper) = self.ledger.bounds();
            self.replay.finding.capacity.lower_per_s = lower;
            self.replay.finding.capacity.upper_per_s = upper;
        }
        self.settle(judged.verdict)?;
        Ok(Said {
            verdict: judged.verdict,
            clear: judged.clear,
        })
    }

    fn held(&mut self, rate: f64) -> Went<Option<f64>> {
        if self.random_phase || rate <= 1.02 * self.ceiling || self.climbs >= 2 {
            return Ok(None);
        }
        self.climbs += 1;
        let before = self.ceiling;
        self.best = before;
        self.climb(4)?;
        let rest = self.replay.short(1.0);
        self.replay.pause(rest)?;
        Ok((self.ceiling > 1.15 * before).then_some(0.95 * self.ceiling))
    }
}

/// A positive number of requests or users.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts are not negative, and a float too large saturates"
)]
fn whole(number: f64) -> u64 {
    number as u64
}
