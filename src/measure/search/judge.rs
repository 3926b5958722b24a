//! One step against the goal: PASS or FAIL with the reason in a sentence, or INVALID when this machine was the reason.

use super::figures::{Block, Cut, Failures, StepFigures, Times};
use super::result::Verdict;
use super::{Arrival, Step};
use crate::measure::outcome::Outcome;
use crate::measure::units;

/// Share of the planned answers that must come while the step sends.
const ANSWERED: f64 = 0.97;
/// The slope above which latency climbs, in s per s.
const STEEPEST: f64 = 0.01;
/// Place of the lower bound of the slope among the 190 between 20 blocks (Kendall, 5 %), from 0.
const LOWER_SLOPE: usize = 69;
/// Requests up to which no error is allowed.
const FEW: u64 = 3_000;
/// The share of errors allowed in more.
const SHARE_OF_MANY: f64 = 0.001;

/// What a step is held against.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Yardstick {
    /// The latency quantile.
    pub(super) quantile: f64,
    /// The most that it may be, in s.
    pub(super) latency_s: f64,
    /// The share of errors that was asked for.
    pub(super) error_share: Option<f64>,
    /// The share that fails at any load.
    pub(super) error_floor: Option<f64>,
    /// Unloaded median in s.
    pub(super) median_s: f64,
    /// Unloaded mean in s.
    pub(super) mean_s: f64,
}

/// What a step is found to be.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Judged {
    pub(super) verdict: Verdict,
    /// Whether it alone decides.
    pub(super) clear: bool,
    /// Whether it failed because of errors.
    pub(super) by_errors: bool,
    pub(super) reason: String,
    /// What of this machine ran out, where something did.
    pub(super) resource: Option<String>,
}

/// The first rule that a step breaks.
enum Broken {
    Cut(Cut),
    Errors { allowed: f64 },
    Late { times: f64 },
    Unanswered { wanted: f64 },
    Climbs { slope: f64 },
}

/// The verdict on a step.
pub(super) fn judge(step: &Step, figures: &StepFigures, yard: &Yardstick) -> Judged {
    if let Some(resource) = exhausted(figures) {
        return Judged {
            verdict: Verdict::Invalid,
            clear: false,
            by_errors: false,
            reason: own_limit(&resource),
            resource: Some(resource),
        };
    }
    let broken = broken(
        step,
        figures,
        &figures.latency,
        &figures.latency_blocks,
        yard,
    );
    let Some(broken) = broken else {
        let times = figures.latency.at(yard.quantile) / yard.latency_s;
        return Judged {
            verdict: Verdict::Pass,
            clear: times <= 0.8,
            by_errors: false,
            reason: passed(step, figures, yard),
            resource: None,
        };
    };
    if let Some(sentence) = own_lateness(step, figures, yard) {
        return Judged {
            verdict: Verdict::Invalid,
            clear: false,
            by_errors: false,
            reason: sentence,
            resource: Some("it could not send on schedule".to_owned()),
        };
    }
    Judged {
        verdict: Verdict::Fail,
        clear: match broken {
            Broken::Cut(_) => true,
            Broken::Late { times } => times >= 1.5,
            _ => false,
        },
        by_errors: matches!(broken, Broken::Errors { .. }),
        reason: failed(&broken, figures, yard),
        resource: None,
    }
}

/// How many errors a step of `requests` may have.
pub(super) fn allowed(requests: u64, yard: &Yardstick) -> f64 {
    let n = requests as f64;
    let asked = match yard.error_share {
        Some(share) => share * n,
        None if requests <= FEW => 0.0,
        None => SHARE_OF_MANY * n,
    };
    // Twice what fails anyway, and three standard deviations of that count.
    let floor = yard.error_floor.map_or(0.0, |share| {
        let twice = 2.0 * share * n;
        twice + 3.0 * twice.sqrt()
    });
    asked.max(floor)
}

/// Timed by `times`, from the planned or from the actual start, the first rule that is broken.
fn broken(
    step: &Step,
    figures: &StepFigures,
    times: &Times,
    blocks: &[Block],
    yard: &Yardstick,
) -> Option<Broken> {
    if let Some(cut) = figures.cut {
        return Some(Broken::Cut(cut));
    }
    let allowed = allowed(figures.requests, yard);
    if figures.failed() as f64 > allowed {
        return Some(Broken::Errors { allowed });
    }
    let at = times.at(yard.quantile);
    if at > yard.latency_s {
        return Some(Broken::Late {
            times: at / yard.latency_s,
        });
    }
    if step.arrival == Arrival::Exponential {
        return None;
    }
    let wanted = ANSWERED * figures.requests as f64 - 2.0 * (step.rate * yard.mean_s).sqrt() - 1.0;
    if ((figures.answered_in_window + figures.failed()) as f64) < wanted {
        return Some(Broken::Unanswered { wanted });
    }
    let slope = lower_slope(blocks);
    (slope > STEEPEST).then_some(Broken::Climbs { slope })
}

/// The lower bound of the trend: what 95 of 100 steps without a trend stay below. Infinite where a block has no answer.
fn lower_slope(blocks: &[Block]) -> f64 {
    let Some(points) = blocks
        .iter()
        .map(|block| block.mean_s.map(|mean| (block.at_s, mean)))
        .collect::<Option<Vec<_>>>()
    else {
        return f64::INFINITY;
    };
    let mut slopes: Vec<f64> = points
        .iter()
        .enumerate()
        .flat_map(|(index, a)| {
            points[index + 1..]
                .iter()
                .map(move |b| (b.1 - a.1) / (b.0 - a.0))
        })
        .collect();
    slopes.sort_by(f64::total_cmp);
    slopes.get(LOWER_SLOPE).copied().unwrap_or(0.0)
}

/// The sentence where something of this machine ran out.
pub(super) fn own_limit(resource: &str) -> String {
    format!("This machine, not the target, was the limit: {resource}.")
}

/// What of this machine ran out, with how often.
pub(super) fn exhausted(figures: &StepFigures) -> Option<String> {
    if let Some(resource) = exhausted_in(&figures.failures) {
        return Some(resource);
    }
    (figures.unsent > 0).then(|| {
        format!(
            "{} requests were not begun because too many were in flight (unsent)",
            figures.unsent
        )
    })
}

/// The failure that names a resource of this machine, with how often.
pub(super) fn exhausted_in(failures: &Failures) -> Option<String> {
    Outcome::ALL
        .into_iter()
        .filter(|outcome| outcome.is_generator_limit())
        .find_map(|outcome| {
            let count = failures.get(outcome.key())?;
            let what = match outcome {
                Outcome::FdExhausted => "no file descriptor was left in this process",
                Outcome::FtabFull => "no file descriptor was left in this machine",
                _ => "no local port was left",
            };
            Some(format!("{what} for {count} requests ({})", outcome.key()))
        })
}

/// The sentence where lateness alone made the step fail: the p99 of the lateness is high, and timed from the actual
/// start the step passes, or misses only the answers in time, which late sending moves too.
fn own_lateness(step: &Step, figures: &StepFigures, yard: &Yardstick) -> Option<String> {
    let late = figures.lateness_p99_s?;
    if late <= 0.002_f64.max(0.05 * yard.median_s) {
        return None;
    }
    let otherwise = if figures.cut.is_some() {
        figures.service.at(yard.quantile) <= yard.latency_s
    } else {
        let broken = broken(
            step,
            figures,
            &figures.service,
            &figures.service_blocks,
            yard,
        );
        matches!(broken, None | Some(Broken::Unanswered { .. }))
    };
    otherwise.then(|| {
        format!(
            "This machine was late, not the target: 1 % of the requests left {} or more after their time, and timed from when they left the step holds.",
            time(late)
        )
    })
}

fn passed(step: &Step, figures: &StepFigures, yard: &Yardstick) -> String {
    let errors = match figures.failed() {
        0 => "no errors".to_owned(),
        n => format!("{n} of {} failed, which the goal allows", figures.requests),
    };
    let drift = if step.arrival == Arrival::Exponential {
        ""
    } else {
        ", no drift"
    };
    format!(
        "{} {} is within {}; {errors}{drift}.",
        quantile(yard.quantile),
        time(figures.latency.at(yard.quantile)),
        time(yard.latency_s)
    )
}

fn failed(broken: &Broken, figures: &StepFigures, yard: &Yardstick) -> String {
    match broken {
        Broken::Cut(Cut::InFlight(count)) => format!(
            "Ended early: {count} requests were in flight at once, so the queue grew without end."
        ),
        Broken::Cut(Cut::Refused) => {
            "Ended early: everything was refused in the first seconds.".to_owned()
        }
        Broken::Errors { allowed } => format!(
            "{} of {} requests failed ({}); {} are allowed.",
            figures.failed(),
            figures.requests,
            listed(&figures.failures),
            units::significant(allowed.floor())
        ),
        Broken::Late { .. } => match figures.latency.at(yard.quantile) {
            at if at.is_finite() => format!(
                "{} {} is above {}.",
                quantile(yard.quantile),
                time(at),
                time(yard.latency_s)
            ),
            _ => format!(
                "{} is above {}: too many requests failed to have one.",
                quantile(yard.quantile),
                time(yard.latency_s)
            ),
        },
        Broken::Unanswered { wanted } => format!(
            "Only {} answers came while {} requests were sent; {} were needed.",
            figures.answered_in_window,
            figures.requests,
            units::significant(wanted.ceil())
        ),
        Broken::Climbs { slope } if slope.is_finite() => {
            format!("Latency climbs by {} or more in each second.", time(*slope))
        }
        Broken::Climbs { .. } => "For a while every request failed.".to_owned(),
    }
}

fn listed(failures: &Failures) -> String {
    let texts: Vec<String> = failures
        .iter()
        .map(|(key, count)| format!("{count} {key}"))
        .collect();
    texts.join(", ")
}

/// A quantile's short name: `p95`.
pub(super) fn quantile(share: f64) -> String {
    format!("p{}", units::significant(share * 100.0))
}

/// A time in s with its unit.
pub(super) fn time(seconds: f64) -> String {
    units::ms_text(seconds * 1e3)
}
