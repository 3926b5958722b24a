//! An experiment as its page shows it: every word, in the order of the page.

use std::collections::BTreeMap;

use super::capacity::{self, SearchView};
use super::new::cost;
use super::rows::{self, Row};
use super::{keys, kind_words};
use crate::chart::{self, ExperimentChartInput};
use crate::dashboard::ruler::{self, Ruler};
use crate::dashboard::run::belief::{Belief, belief};
use crate::dashboard::run::figures::{self, FigureView};
use crate::dashboard::run::keys::Key;
use crate::dashboard::run::rail::Fact;
use crate::dashboard::run::view::{Stopped, wrapped};
use crate::dashboard::words;
use crate::measure::experiment::{
    Experiment, ExperimentKind, ExperimentState, Point, Proving, Spec, curve, figure_of_kind,
    label_of, searched,
};
use crate::measure::fold::Series;
use crate::measure::plan::Kind;
use crate::store::Peer;

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
    /// What only a capacity search has.
    pub search: Option<SearchView>,
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
        ExperimentKind::Prove => "A cause is put to the proof".to_owned(),
        ExperimentKind::Capacity => "How much it holds is searched for".to_owned(),
    }
}

/// The page of an experiment; `current` is the run that waits or runs for it now.
pub fn view(
    experiment: &Experiment,
    spec: Option<&Spec>,
    series: &BTreeMap<i64, Series>,
    current: Option<i64>,
    peers: &[Peer],
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
    let (levels, bend) = curve(experiment, spec);
    if live {
        let progress = progress(experiment, current);
        out.said.clone_from(&progress.text);
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
    out.belief = (!live).then(|| belief(&keys::checks(experiment))).flatten();
    out.keys = keys::keys(experiment, spec, of, &levels, bend);
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
    of.name().clone_into(&mut out.figure_name);
    out.has_times = matches!(kind, Kind::Rate | Kind::Users | Kind::Ping);
    (out.rows, out.more) = rows::rows(experiment, spec, of);
    out.lines = lines(spec);
    out.plan = plan(spec);
    if let Spec::Capacity(search) = spec {
        let found = searched(experiment.capacity.as_ref()).unwrap_or_default();
        out.belief = (!live && found.trials > 0)
            .then(|| belief(&capacity::checks(&found)))
            .flatten();
        out.plan = capacity::facts(&found, search.settings());
        out.search = Some(capacity::view(experiment, &found, peers, spec));
    }
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
    let now = match (experiment.state, at) {
        (ExperimentState::Queued, _) => "Waits for the experiment before it".to_owned(),
        (_, Some(point)) => format!("Run {} of it: {}", experiment.runs_done + 1, label(point)),
        (_, None) => format!("{} runs made; the next one follows", reach(experiment)),
    };
    let text = match experiment.progress.eta_s {
        Some(eta) => format!("{now}, about {} left", words::seconds(eta.ceil())),
        None => now,
    };
    Progress {
        done: format!("{:.0}", experiment.progress.done * 100.0),
        text,
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
        Spec::Prove(Proving { pair, .. }) => vec![line("a", &pair.a), line("b", &pair.b)],
        Spec::Capacity(search) => vec![line("", search.base())],
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
