//! An experiment as its page shows it: every word, in the order of the page.

use std::collections::BTreeMap;

use super::kind_words;
use super::new::cost;
use crate::chart::{self, ExperimentChartInput};
use crate::dashboard::ruler::{self, Ruler};
use crate::dashboard::run::belief::{Belief, belief};
use crate::dashboard::run::figures::{self, FigureView};
use crate::dashboard::run::keys::Key;
use crate::dashboard::run::rail::Fact;
use crate::dashboard::run::view::{Stopped, wrapped};
use crate::dashboard::words::{self, DASH, Measure};
use crate::measure::experiment::{
    Experiment, ExperimentKind, ExperimentState, Figure, Knee, Level, Point, Spec, figure,
    figure_of_kind, knee, label_of, levels,
};
use crate::measure::fold::Series;
use crate::measure::plan::Kind;
use crate::measure::run::{Check, Severity, State};
use crate::measure::summary::{Distribution, Summary};

/// Runs in the table; points.csv has all.
const ROWS: usize = 100;

/// Everything that the body of an experiment's page says.
#[derive(Clone, Debug, Default)]
pub struct ExperimentView {
    /// Its number.
    pub id: i64,
    /// Its kind in words.
    pub kind: &'static str,
    /// Its state in words.
    pub state: &'static str,
    /// Class of the state.
    pub state_class: &'static str,
    /// Whether more will come.
    pub live: bool,
    /// Its tags.
    pub tags: Vec<String>,
    /// The finding.
    pub title: String,
    /// The browser's tab.
    pub tab: String,
    /// What a screen reader says while it runs.
    pub said: String,
    /// Where it goes.
    pub target: String,
    /// When, how many runs.
    pub what: Vec<String>,
    /// What the figures mean.
    pub meaning: String,
    /// Why it is not whole.
    pub stopped: Option<Stopped>,
    /// How far it is, while it runs.
    pub progress: Option<Progress>,
    /// The tide ruler.
    pub ruler: Option<Ruler>,
    /// The belief strip.
    pub belief: Option<Belief>,
    /// Key figures.
    pub keys: Vec<Key>,
    /// What stands where the charts would.
    pub nothing: Option<String>,
    /// Charts in rows of one or two.
    pub figures: Vec<Vec<FigureView>>,
    /// What the table's figure column is called.
    pub figure_name: String,
    /// Whether the table has columns for p99 and failures.
    pub has_times: bool,
    /// Its runs.
    pub rows: Vec<Row>,
    /// How many runs the table leaves out, in words.
    pub more: Option<String>,
    /// What was asked for, in the words that were used.
    pub lines: Vec<Line>,
    /// The plan of the experiment.
    pub plan: Vec<Fact>,
    /// What it takes.
    pub cost: Vec<Fact>,
    /// A person's note.
    pub note: String,
}

/// A plan as it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// `a`, `b`, or empty.
    pub name: &'static str,
    /// The line in one piece.
    pub text: String,
    /// The same, broken for reading.
    pub wrapped: String,
}

/// How far it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Percent.
    pub done: String,
    /// The run in progress and what is left, in words.
    pub text: String,
}

/// One run in the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// What was varied.
    pub label: String,
    /// Which repeat.
    pub repeat: u32,
    /// The run; `None` for one that is still to come.
    pub run: Option<i64>,
    /// The figure.
    pub figure: String,
    /// The 99th percentile.
    pub p99: String,
    /// Share of failed requests.
    pub failed: String,
    /// Whether some failed.
    pub bad: bool,
    /// The state's word.
    pub state: String,
    /// The state's class.
    pub class: &'static str,
    /// The state's mark.
    pub mark: &'static str,
    /// Why it failed or stopped.
    pub why: String,
}

/// Class and mark of a state.
pub const fn mark(state: ExperimentState) -> (&'static str, &'static str) {
    match state {
        ExperimentState::Finished => ("ok", "✓"),
        ExperimentState::Failed => ("bad", "✕"),
        ExperimentState::Cancelled | ExperimentState::Interrupted => ("warn", "!"),
        ExperimentState::Running => ("live", "●"),
        ExperimentState::Queued => ("muted", "…"),
    }
}

/// Runs made, of runs planned.
pub fn reach(experiment: &Experiment) -> String {
    match experiment.runs_planned {
        Some(planned) if planned != experiment.runs_done => format!(
            "{} of {}",
            words::count(experiment.runs_done),
            words::count(planned)
        ),
        _ => words::count(experiment.runs_done),
    }
}

/// What it is about, before there is a finding.
pub fn about(experiment: &Experiment) -> String {
    let Some(spec) = experiment.design() else {
        return kind_words(experiment.kind).to_owned();
    };
    match experiment.kind {
        ExperimentKind::Sweep => format!("{} varied", spec.fields().join(" and ")),
        ExperimentKind::Series => format!(
            "{} of the same plan",
            words::plural(u64::from(spec.repeat()), "run", "runs")
        ),
        ExperimentKind::Paired => "a and b take turns".to_owned(),
    }
}

/// The page of an experiment; `current` is the run that waits or runs for it now.
pub fn view(
    experiment: &Experiment,
    spec: Option<&Spec>,
    series: &BTreeMap<i64, Series>,
    current: Option<i64>,
) -> ExperimentView {
    let live = !experiment.state.is_final();
    let title = experiment
        .title
        .clone()
        .filter(|_| experiment.runs_done > 0)
        .unwrap_or_else(|| about(experiment));
    let mut out = ExperimentView {
        id: experiment.id,
        kind: kind_words(experiment.kind),
        state: experiment.state.word(),
        state_class: match experiment.state {
            ExperimentState::Running => "live",
            ExperimentState::Failed => "badtext",
            ExperimentState::Cancelled | ExperimentState::Interrupted => "warntext",
            ExperimentState::Queued | ExperimentState::Finished => "",
        },
        live,
        tags: experiment.tags.clone(),
        tab: if live {
            format!(
                "{:.0} % · Experiment {}",
                experiment.progress.done * 100.0,
                experiment.id
            )
        } else {
            format!("{} · Experiment {}", experiment.state.word(), experiment.id)
        },
        title,
        target: experiment.target.clone(),
        what: what(experiment),
        meaning: experiment
            .verdict
            .clone()
            .filter(|_| experiment.runs_done > 0)
            .unwrap_or_default(),
        stopped: experiment.error.clone().map(|text| Stopped {
            bad: experiment.state == ExperimentState::Failed,
            text,
        }),
        note: experiment.note.clone(),
        cost: experiment.estimate.as_ref().map(cost).unwrap_or_default(),
        ..ExperimentView::default()
    };
    let Some(spec) = spec else {
        return out;
    };
    let kind = spec
        .arms()
        .first()
        .map_or(Kind::Rate, |arm| arm.plan.kind());
    let of = figure_of_kind(kind);
    let levels = levels(&experiment.points);
    let bend = (spec.fields() == ["rate"] && kind == Kind::Rate)
        .then(|| knee(&levels))
        .flatten();
    if live {
        let progress = progress(experiment, current);
        out.said = progress.text.clone();
        out.progress = Some(progress);
    }
    out.ruler = bend.map(|bend| {
        ruler::against(
            bend.holds,
            &format!("{} holds", words::per_s(Some(bend.holds))),
            bend.fails,
            &format!("{} does not", words::digits_short(bend.fails)),
        )
    });
    out.belief = (!live).then(|| belief(&checks(experiment))).flatten();
    out.keys = keys(experiment, spec, of, &levels, bend);
    if experiment.runs_done > 0 && experiment.state != ExperimentState::Failed {
        let input = ExperimentChartInput {
            experiment,
            spec,
            series,
        };
        let drawn = chart::experiment_figures(&input);
        out.figures = figures::rows(&format!("/experiments/{}", experiment.id), drawn, &[]);
    } else if live {
        out.nothing = Some("The charts stand here once the first run has ended.".to_owned());
    } else {
        out.nothing = Some("No run has figures to draw.".to_owned());
    }
    out.figure_name = of.name().to_owned();
    out.has_times = matches!(kind, Kind::Rate | Kind::Users | Kind::Ping);
    (out.rows, out.more) = rows(experiment, spec, of);
    out.lines = lines(spec);
    out.plan = plan(spec);
    out
}

fn what(experiment: &Experiment) -> Vec<String> {
    let began = experiment.started_at.unwrap_or(experiment.created_at);
    let mut out = vec![words::when(began)];
    let runs = match experiment.runs_planned {
        Some(1) => "1 run".to_owned(),
        _ => format!("{} runs", reach(experiment)),
    };
    out.push(runs);
    if let (Some(start), Some(end)) = (experiment.started_at, experiment.finished_at) {
        out.push(words::seconds(end.duration_since(start).as_secs_f64()));
    }
    out
}

fn progress(experiment: &Experiment, current: Option<i64>) -> Progress {
    let at = experiment
        .points
        .iter()
        .find(|point| Some(point.run) == current);
    let label = |point: &Point| {
        let label = point.point.as_object().map(label_of).unwrap_or_default();
        if label.is_empty() {
            format!("repeat {}", point.repeat)
        } else {
            format!("{label}, repeat {}", point.repeat)
        }
    };
    let mut text = match (experiment.state, at) {
        (ExperimentState::Queued, _) => "Waits for the experiment before it".to_owned(),
        (_, Some(point)) => format!("Run {} of it: {}", experiment.runs_done + 1, label(point)),
        (_, None) => format!("{} runs made; the next one follows", reach(experiment)),
    };
    if let Some(eta) = experiment.progress.eta_s {
        text.push_str(&format!(", about {} left", words::seconds(eta.ceil())));
    }
    Progress {
        done: format!("{:.0}", experiment.progress.done * 100.0),
        text,
    }
}

/// What speaks for and against the whole: whether every run measured, and what their own checks say together.
fn checks(experiment: &Experiment) -> Vec<Check> {
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

fn measure(of: Figure, value: Option<f64>) -> Measure {
    match of {
        Figure::Throughput => Measure::bits(value),
        Figure::PathMtu => value.map_or_else(Measure::missing, |value| Measure {
            number: words::digits_short(value),
            unit: "bytes",
        }),
        _ => Measure::ms(value),
    }
}

fn keys(
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
    if known.is_empty() {
        return Vec::new();
    }
    let extreme = |pick: fn(f64, f64) -> f64| known.iter().copied().reduce(pick);
    match spec {
        Spec::Paired(_) => {
            let ratio = experiment.ratio;
            let arm = |name: &str| {
                let level = levels.iter().find(|level| level.label == name);
                level.and_then(|level| middle(&level.values))
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
        Spec::Varied(varied) if varied.vary.is_empty() => vec![
            key("Middle", measure(of, middle(&known)), of.name(), false),
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
        ],
        Spec::Varied(_) => {
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
    }
}

fn number(value: Option<f64>) -> Measure {
    value
        .filter(|value| value.is_finite())
        .map_or_else(Measure::missing, |value| Measure {
            number: words::digits(value),
            unit: "",
        })
}

fn middle(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[half]),
        _ => Some(f64::midpoint(sorted[half - 1], sorted[half])),
    }
}

/// The runs, the newest ones where there are too many, and those that are still to come where there are few.
fn rows(experiment: &Experiment, spec: &Spec, of: Figure) -> (Vec<Row>, Option<String>) {
    let points = &experiment.points;
    let skipped = points.len().saturating_sub(ROWS);
    let mut rows: Vec<Row> = points[skipped..]
        .iter()
        .map(|point| row(point, of))
        .collect();
    if !experiment.state.is_final() && spec.runs() <= ROWS {
        let mut driver = spec.driver();
        loop {
            match driver.next(None) {
                crate::measure::experiment::Next::Run(step) => {
                    let (point, repeat) = step.key();
                    let made = points
                        .iter()
                        .any(|one| one.repeat == repeat && one.point.to_string() == point);
                    if !made {
                        rows.push(to_come(label_of(&step.point), step.repeat));
                    }
                }
                crate::measure::experiment::Next::Pause(_) => {}
                crate::measure::experiment::Next::Done => break,
            }
        }
    }
    let more = (skipped > 0).then(|| {
        format!(
            "The last {ROWS} of {} runs;",
            words::count(points.len() as u64)
        )
    });
    (rows, more)
}

fn to_come(label: String, repeat: u32) -> Row {
    Row {
        label,
        repeat,
        run: None,
        figure: DASH.to_owned(),
        p99: DASH.to_owned(),
        failed: DASH.to_owned(),
        bad: false,
        state: "to come".to_owned(),
        class: "muted",
        mark: "…",
        why: String::new(),
    }
}

fn row(point: &Point, of: Figure) -> Row {
    let (class, mark) = match point.state {
        State::Finished | State::Imported => ("ok", "✓"),
        State::Failed => ("bad", "✕"),
        State::Cancelled | State::Interrupted => ("warn", "!"),
        State::Running => ("live", "●"),
        State::Queued => ("muted", "…"),
    };
    let summary = point
        .summary
        .as_ref()
        .filter(|_| point.state != State::Failed);
    let times: Option<&Distribution> = summary.and_then(|summary| match summary {
        Summary::Rate(rate) => Some(&rate.latency_ms),
        Summary::Users(users) => Some(&users.latency_ms),
        Summary::Ping(ping) => Some(&ping.rtt_ms.figures),
        _ => None,
    });
    let (requests, failed) = point
        .summary
        .as_ref()
        .map_or((0, 0), crate::measure::experiment::counts);
    Row {
        label: point.point.as_object().map(label_of).unwrap_or_default(),
        repeat: point.repeat,
        run: Some(point.run),
        figure: summary
            .and_then(figure)
            .map_or_else(|| DASH.to_owned(), |value| measure(of, Some(value)).text()),
        p99: times
            .and_then(|times| times.p99)
            .map_or_else(|| DASH.to_owned(), |value| words::ms(Some(value))),
        failed: if requests > 0 {
            words::percent(failed, requests)
        } else {
            DASH.to_owned()
        },
        bad: failed > 0,
        state: point.state.word().to_owned(),
        class,
        mark,
        why: point
            .error
            .as_deref()
            .map(|why| why.chars().take(160).collect())
            .unwrap_or_default(),
    }
}

fn lines(spec: &Spec) -> Vec<Line> {
    let line = |name: &'static str, given: &serde_json::Value| {
        let text = match given {
            serde_json::Value::String(line) => line.clone(),
            plan => plan.to_string(),
        };
        Line {
            name,
            wrapped: wrapped(&text),
            text,
        }
    };
    match spec {
        Spec::Varied(varied) => vec![line("", &varied.base)],
        Spec::Paired(paired) => vec![line("a", &paired.a), line("b", &paired.b)],
    }
}

fn plan(spec: &Spec) -> Vec<Fact> {
    let fact = |name: &str, value: String| Fact {
        name: name.to_owned(),
        value,
        bad: false,
    };
    let mut out = Vec::new();
    if let Spec::Varied(varied) = spec {
        for (name, values) in &varied.vary {
            let words: Vec<String> = values
                .iter()
                .map(|value| match value {
                    serde_json::Value::String(text) => text.clone(),
                    other => other.to_string(),
                })
                .collect();
            out.push(fact(name, words.join(", ")));
        }
    }
    out.push(fact("repeats", words::count(spec.repeat().into())));
    out.push(fact(
        "pause",
        if spec.pause_s() > 0.0 {
            words::seconds(spec.pause_s())
        } else {
            "none".to_owned()
        },
    ));
    if spec.arms().len() > 1 {
        out.push(fact("order", spec.order().word().to_owned()));
    }
    out
}
