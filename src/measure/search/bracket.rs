//! Between which two rates the capacity lies: expand, bisect, confirm; the same for requests and for datagrams.

use super::Purpose;
use super::replay::Went;
use super::result::{LimitedBy, Verdict};

/// Down-steps without a rate that holds, after which there is none.
const MOST_DOWN: usize = 8;

/// What one step says about its rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Said {
    pub(super) verdict: Verdict,
    /// Whether it alone decides.
    pub(super) clear: bool,
}

/// What all steps at a rate say together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) verdict: Verdict,
    /// Whether they disagreed.
    pub(super) split: bool,
}

/// What can be tried.
pub(super) trait Trials {
    /// Whether a step at this rate ends before this share of the budget.
    fn fits(&self, rate: f64, share: f64) -> bool;

    /// One step at this rate.
    fn step(&mut self, purpose: Purpose, rate: f64) -> Went<Said>;

    /// Called when a rate has held while no upper bound is known; the rate from which to start anew, if that is another.
    fn held(&mut self, _rate: f64) -> Went<Option<f64>> {
        Ok(None)
    }
}

/// Where a search goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Course<'a> {
    pub(super) purpose: Purpose,
    pub(super) start: f64,
    /// Factors after a failure while nothing has held; the last one repeats.
    pub(super) down: &'a [f64],
    /// Factors after a success while nothing has failed.
    pub(super) up: &'a [f64],
    /// The bounds may be this far apart.
    pub(super) width: f64,
    /// The highest rate, and why.
    pub(super) cap: f64,
    pub(super) cap_by: Option<LimitedBy>,
    /// Whether a rate at which steps disagree ends the search.
    pub(super) stop_when_split: bool,
    /// The share of the budget that may be used.
    pub(super) share: f64,
}

/// The bounds so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Bracket {
    pub(super) lower: Option<f64>,
    pub(super) upper: Option<f64>,
    /// Why there is no upper bound of the target, or why they are far apart.
    pub(super) limited_by: Option<LimitedBy>,
    /// Whether steps disagreed at a rate between them.
    pub(super) noisy: bool,
}

/// One step decides where it is clear; else two of three. An invalid step is repeated once.
pub(super) fn point<T: Trials>(
    trials: &mut T,
    purpose: Purpose,
    rate: f64,
    share: f64,
) -> Went<Point> {
    let mut said = Vec::new();
    for index in 0..3 {
        // What one unclear step says is not enough to hold.
        if index > 0 && !trials.fits(rate, share) {
            return Ok(Point {
                verdict: Verdict::Fail,
                split: false,
            });
        }
        let one = valid(trials, purpose, rate)?;
        if one.verdict == Verdict::Invalid {
            return Ok(Point {
                verdict: Verdict::Invalid,
                split: false,
            });
        }
        if index == 0 && one.clear || said.first() == Some(&one.verdict) {
            return Ok(Point {
                verdict: one.verdict,
                split: false,
            });
        }
        said.push(one.verdict);
    }
    let passes = said.iter().filter(|one| **one == Verdict::Pass).count();
    Ok(Point {
        verdict: if passes >= 2 {
            Verdict::Pass
        } else {
            Verdict::Fail
        },
        split: true,
    })
}

/// One step, repeated once where it is invalid.
fn valid<T: Trials>(trials: &mut T, purpose: Purpose, rate: f64) -> Went<Said> {
    let first = trials.step(purpose, rate)?;
    if first.verdict == Verdict::Invalid {
        return trials.step(purpose, rate);
    }
    Ok(first)
}

/// Expands from the start until there are two bounds, then bisects.
pub(super) fn hunt<T: Trials>(trials: &mut T, course: Course<'_>, known: Bracket) -> Went<Bracket> {
    let mut bracket = Bracket {
        limited_by: known
            .limited_by
            .filter(|by| *by == LimitedBy::Generator && known.upper.is_some()),
        noisy: false,
        ..known
    };
    let factor = |factors: &[f64], index: usize| factors[index.min(factors.len() - 1)];
    let mut rate = tidy(course.start).min(course.cap);
    let mut moves = 0;
    let (mut lower, mut upper) = loop {
        if let (Some(lower), Some(upper)) = (bracket.lower, bracket.upper) {
            break (lower, upper);
        }
        if !trials.fits(rate, course.share) {
            bracket.limited_by = Some(LimitedBy::Budget);
            return Ok(bracket);
        }
        let found = point(trials, course.purpose, rate, course.share)?;
        if found.verdict == Verdict::Pass {
            bracket.lower = Some(rate);
            if rate >= course.cap && bracket.upper.is_none() {
                bracket.limited_by = course.cap_by;
                return Ok(bracket);
            }
            if let Some(anew) = trials.held(rate)? {
                (rate, moves) = (tidy(anew).min(course.cap), 0);
            } else {
                rate = tidy(rate * factor(course.up, moves)).min(course.cap);
                moves += 1;
            }
        } else {
            bracket.upper = Some(rate);
            bracket.limited_by =
                (found.verdict == Verdict::Invalid).then_some(LimitedBy::Generator);
            if bracket.lower.is_none() {
                rate = tidy(rate * factor(course.down, moves));
                moves += 1;
                if moves > MOST_DOWN {
                    return Ok(bracket);
                }
            }
        }
    };
    // The last bisection may miss the width by a rounding error's worth.
    while upper / lower > 1.0 + course.width * 1.02 {
        let middle = tidy((lower * upper).sqrt());
        if !trials.fits(middle, course.share) {
            bracket.limited_by.get_or_insert(LimitedBy::Budget);
            break;
        }
        let found = point(trials, course.purpose, middle, course.share)?;
        if found.split && course.stop_when_split {
            bracket.noisy = true;
            break;
        }
        if found.verdict == Verdict::Pass {
            lower = middle;
        } else {
            upper = middle;
            bracket.limited_by =
                (found.verdict == Verdict::Invalid).then_some(LimitedBy::Generator);
        }
    }
    bracket.lower = Some(lower);
    bracket.upper = Some(upper);
    Ok(bracket)
}

/// Two further steps at the lower bound and one at the upper; a bound that does not hold is sought anew, three rounds
/// at most.
pub(super) fn confirm<T: Trials>(
    trials: &mut T,
    course: Course<'_>,
    mut bracket: Bracket,
) -> Went<Bracket> {
    const SHARE: f64 = 0.8;
    let again = Course {
        share: 0.75,
        ..course
    };
    for _ in 0..3 {
        let Some(lower) = bracket.lower.filter(|rate| trials.fits(*rate, SHARE)) else {
            return Ok(bracket);
        };
        let mut passes = 0;
        let mut fails = 0;
        for _ in 0..3 {
            if passes == 2 || fails == 2 {
                break;
            }
            match valid(trials, Purpose::ConfirmLower, lower)?.verdict {
                Verdict::Pass => passes += 1,
                Verdict::Fail => fails += 1,
                // Nothing was said about the target.
                Verdict::Invalid => break,
            }
        }
        if fails == 2 {
            let known = Bracket {
                lower: None,
                upper: Some(lower),
                ..Bracket::default()
            };
            let down = Course {
                start: lower * 0.93,
                down: &[0.85, 0.7, 0.5],
                up: &[1.05],
                ..again
            };
            bracket = hunt(trials, down, known)?;
            continue;
        }
        let upper = bracket
            .upper
            .filter(|_| bracket.limited_by != Some(LimitedBy::Generator))
            .filter(|rate| trials.fits(*rate, SHARE));
        if let Some(upper) = upper
            && valid(trials, Purpose::ConfirmUpper, upper)?.verdict == Verdict::Pass
            && trials.fits(upper, SHARE)
            && valid(trials, Purpose::ConfirmUpper, upper)?.verdict == Verdict::Pass
        {
            let known = Bracket {
                lower: Some(upper),
                ..Bracket::default()
            };
            let up = Course {
                start: upper * 1.05,
                down: &[0.97],
                up: &[1.1, 1.2],
                ..again
            };
            bracket = hunt(trials, up, known)?;
            continue;
        }
        return Ok(bracket);
    }
    Ok(bracket)
}

/// A rate with five significant digits: more say nothing, and make tables hard to read.
fn tidy(rate: f64) -> f64 {
    if rate <= 0.0 || !rate.is_finite() {
        return rate;
    }
    let unit = 10.0_f64.powf(rate.log10().floor() - 4.0);
    let rounded = (rate / unit).round() * unit;
    // What is a multiple of the unit but for rounding errors is written without them.
    let digits = 1e9;
    (rounded * digits).round() / digits
}

/// Every verdict at every rate.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    /// Rate, passes, steps.
    rates: Vec<(f64, u32, u32)>,
}

impl Ledger {
    /// Adds a valid step.
    pub(super) fn add(&mut self, rate: f64, passed: bool) {
        let known = self
            .rates
            .iter_mut()
            .find(|(known, _, _)| known.total_cmp(&rate).is_eq());
        match known {
            Some((_, passes, steps)) => {
                *passes += u32::from(passed);
                *steps += 1;
            }
            None => self.rates.push((rate, u32::from(passed), 1)),
        }
    }

    /// The lowest rate that was tried.
    pub(super) fn lowest(&self) -> Option<f64> {
        self.rates
            .iter()
            .map(|(rate, _, _)| *rate)
            .min_by(f64::total_cmp)
    }

    /// The highest rate that passed below all that failed, and the lowest that failed above all that passed. A rate
    /// passes with three quarters of its steps, and fails with a quarter or fewer.
    pub(super) fn bounds(&self) -> (Option<f64>, Option<f64>) {
        let of = |keep: fn(u32, u32) -> bool| {
            self.rates
                .iter()
                .filter(move |(_, passes, steps)| keep(*passes, *steps))
                .map(|(rate, _, _)| *rate)
        };
        let passed = || of(|passes, steps| 4 * passes >= 3 * steps);
        let failed = || of(|passes, steps| 4 * passes <= steps);
        let lowest_failed = failed().fold(f64::INFINITY, f64::min);
        let highest_passed = passed().fold(0.0, f64::max);
        (
            passed()
                .filter(|rate| *rate < lowest_failed)
                .max_by(f64::total_cmp),
            failed()
                .filter(|rate| *rate > highest_passed)
                .min_by(f64::total_cmp),
        )
    }
}
