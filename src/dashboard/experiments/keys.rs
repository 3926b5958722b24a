//! What is said of an experiment in figures: its key figures, and whether they may be believed.

use crate::dashboard::run::keys::Key;
use crate::dashboard::words::{self, Measure};
use crate::measure::experiment::{
    Experiment, Figure, Knee, Level, Point, Spec, figure, median, searched,
};
use crate::measure::run::{Check, Severity, State};

/// What speaks for and against the whole: whether every run measured, and what their own checks say together.
pub(super) fn checks(experiment: &Experiment) -> Vec<Check> {
    let ended: Vec<&Point> = experiment
        .points
        .iter()
        .filter(|point| point.state.is_final())
        .collect();
    if ended.is_empty() {
        return Vec::new();
    }
    let all = ended.len();
    let whole = ended
        .iter()
        .filter(|point| point.state == State::Finished)
        .count();
    let planned = experiment.runs_planned.unwrap_or(all as u64);
    let mut out = vec![Check {
        name: "complete".to_owned(),
        ok: Some(whole as u64 >= planned),
        severity: Severity::Warn,
        detail: format!("{whole} of {planned} runs went through their plan"),
    }];
    for name in [
        "on_schedule",
        "generator_not_limited",
        "sums_agree",
        "ends_agree",
        "clock_steady",
        "streams_overlap",
        "not_shared_host",
    ] {
        let missed: Vec<(&&Point, &Check)> = ended
            .iter()
            .filter_map(|point| {
                Some((point, point.doubts.iter().find(|check| check.name == name)?))
            })
            .collect();
        let Some((first, check)) = missed.first() else {
            continue;
        };
        let severity = if missed
            .iter()
            .any(|(_, check)| check.severity == Severity::Fail)
        {
            Severity::Fail
        } else {
            Severity::Warn
        };
        let detail = if missed.len() == all {
            format!("in every run; {}", check.detail)
        } else {
            format!(
                "in {} of {all} runs, first in run {}: {}",
                missed.len(),
                first.run,
                check.detail
            )
        };
        out.push(Check {
            name: name.to_owned(),
            ok: Some(false),
            severity,
            detail,
        });
    }
    let quiet = ended.iter().filter(|point| point.doubts.is_empty()).count();
    if quiet == all {
        out.push(Check {
            name: "Checks of the runs".to_owned(),
            ok: Some(true),
            severity: Severity::Warn,
            detail: "all that apply hold in every run".to_owned(),
        });
    }
    out
}

fn key(name: &str, value: Measure, sub: impl Into<String>, hot: bool) -> Key {
    Key {
        name: name.to_owned(),
        value,
        sub: sub.into(),
        hot,
    }
}

pub(super) fn measure(of: Figure, value: Option<f64>) -> Measure {
    match of {
        Figure::Throughput => Measure::bits(value),
        Figure::PathMtu => value.map_or_else(Measure::missing, |value| Measure {
            number: words::digits_short(value),
            unit: "bytes",
        }),
        _ => Measure::ms(value),
    }
}

pub(super) fn keys(
    experiment: &Experiment,
    spec: &Spec,
    of: Figure,
    levels: &[Level],
    bend: Option<Knee>,
) -> Vec<Key> {
    let failed = experiment
        .points
        .iter()
        .filter(|point| point.state == State::Failed)
        .count() as u64;
    let gaps = key(
        "Failed runs",
        Measure::count(failed),
        format!("of {}", words::count(experiment.runs_done)),
        failed > 0,
    );
    let known: Vec<f64> = experiment
        .points
        .iter()
        .filter(|point| point.state.is_final() && point.state != State::Failed)
        .filter_map(|point| figure(point.summary.as_ref()?))
        .collect();
    if let Spec::Capacity(_) = spec {
        return of_search(experiment);
    }
    if known.is_empty() {
        return Vec::new();
    }
    match spec {
        Spec::Paired(_) | Spec::Prove(_) => of_pair(experiment, of, levels),
        Spec::Varied(varied) if varied.vary.is_empty() => of_series(experiment, of, &known, gaps),
        Spec::Varied(_) | Spec::Capacity(_) => of_sweep(spec, of, &known, levels, bend, gaps),
    }
}

fn of_pair(experiment: &Experiment, of: Figure, levels: &[Level]) -> Vec<Key> {
    let ratio = experiment.ratio;
    let arm = |name: &str| {
        let level = levels.iter().find(|level| level.label == name);
        level.and_then(|level| median(level.values.clone()))
    };
    vec![
        key(
            "a",
            measure(of, arm("a")),
            format!("{}, middle of its runs", of.name()),
            false,
        ),
        key(
            "b",
            measure(of, arm("b")),
            format!("{}, middle of its runs", of.name()),
            false,
        ),
        key(
            "b ÷ a",
            number(ratio.map(|r| r.b_to_a)),
            "geometric mean",
            false,
        ),
        key(
            "at least",
            number(ratio.and_then(|r| r.low)),
            "95 % interval",
            false,
        ),
        key(
            "at most",
            number(ratio.and_then(|r| r.high)),
            "95 % interval",
            false,
        ),
        key(
            "Pairs",
            Measure::count(ratio.map_or(0, |r| r.pairs.into())),
            "both runs measured",
            false,
        ),
    ]
}

fn of_series(experiment: &Experiment, of: Figure, known: &[f64], gaps: Key) -> Vec<Key> {
    let extreme = |pick: fn(f64, f64) -> f64| known.iter().copied().reduce(pick);
    vec![
        key(
            "Middle",
            measure(of, median(known.to_vec())),
            of.name(),
            false,
        ),
        key(
            "First",
            measure(of, known.first().copied()),
            of.name(),
            false,
        ),
        key("Last", measure(of, known.last().copied()), of.name(), false),
        key(
            "Settled at",
            experiment
                .settled_at
                .map_or_else(Measure::missing, |at| Measure::count(at.into())),
            "repeat; within 10 % from there on",
            false,
        ),
        key(
            "Largest ÷ least",
            number(
                extreme(f64::max)
                    .zip(extreme(f64::min))
                    .filter(|(_, low)| *low > 0.0)
                    .map(|(high, low)| high / low),
            ),
            format!("over {} repeats", known.len()),
            false,
        ),
        gaps,
    ]
}

fn of_sweep(
    spec: &Spec,
    of: Figure,
    known: &[f64],
    levels: &[Level],
    bend: Option<Knee>,
    gaps: Key,
) -> Vec<Key> {
    let extreme = |pick: fn(f64, f64) -> f64| known.iter().copied().reduce(pick);
    let mut out = Vec::new();
    if let Some(bend) = bend {
        out.push(key(
            "Holds",
            Measure::per_s(Some(bend.holds)),
            "median at most twice, no failure",
            false,
        ));
        out.push(key(
            "Does not hold",
            Measure::per_s(Some(bend.fails)),
            "the next rate tried",
            true,
        ));
    }
    let best = if of.more_is_better() {
        extreme(f64::max)
    } else {
        extreme(f64::min)
    };
    let worst = if of.more_is_better() {
        extreme(f64::min)
    } else {
        extreme(f64::max)
    };
    out.push(key("Best", measure(of, best), of.name(), false));
    out.push(key("Worst", measure(of, worst), of.name(), false));
    out.push(key(
        "Values",
        Measure::count(levels.len() as u64),
        spec.fields().join(", "),
        false,
    ));
    out.push(gaps);
    out
}

fn number(value: Option<f64>) -> Measure {
    value
        .filter(|value| value.is_finite())
        .map_or_else(Measure::missing, |value| Measure {
            number: words::digits(value),
            unit: "",
        })
}

/// What a search has found so far.
fn of_search(experiment: &Experiment) -> Vec<Key> {
    let Some(found) = searched(experiment.capacity.as_ref()) else {
        return Vec::new();
    };
    let per_s = Measure::per_s;
    vec![
        key(
            "Holds",
            per_s(found.lower_per_s),
            "keeps to the goal",
            false,
        ),
        key(
            "Does not hold",
            per_s(found.upper_per_s),
            "the lowest rate that misses it",
            found.upper_per_s.is_some(),
        ),
        key(
            "Ceiling",
            per_s(found.ceiling_per_s),
            "answered when more is offered",
            false,
        ),
        key(
            "Random arrivals",
            per_s(found.poisson_lower_per_s),
            "Poisson, same goal",
            false,
        ),
        key(
            "Unloaded",
            Measure::ms(found.baseline_ms),
            "median latency",
            false,
        ),
        key(
            "Setting",
            per_s(found.suggested_max_rate_per_instance),
            "for a balancer, per instance",
            false,
        ),
    ]
}
