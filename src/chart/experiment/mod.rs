//! Charts of experiments: their input, which ones apply, and what all of them ask of the runs.

mod bars;
mod drift;
mod latency_vs_rate;
mod lateness;
mod offered_vs_achieved;
mod pairs;
mod run_chart;
mod series;

use std::collections::BTreeMap;

use crate::chart::flow::{bits, unit};
use crate::chart::text::{self, NARROW};
use crate::chart::theme::Theme;
use crate::chart::{Figure, dress};
use crate::measure::experiment::{
    Experiment, ExperimentKind, Figure as Quantity, Knee, Level, Point, Spec, curve, figure_of_kind,
};
use crate::measure::fold::Series;
use crate::measure::plan::{Kind, Plan};
use crate::measure::run::State;

/// Runs whose series the charts of an experiment use at most.
pub const MOST_SERIES: usize = 40;

/// Everything that the charts of one experiment are made from.
#[derive(Clone, Copy, Debug)]
pub struct ExperimentChartInput<'a> {
    /// The experiment with its runs.
    pub experiment: &'a Experiment,
    /// What it was asked to do.
    pub spec: &'a Spec,
    /// What the charts of some of its runs are drawn from, by run; see [`wanted_series`].
    pub series: &'a BTreeMap<i64, Series>,
}

type Maker = fn(&Study<'_>) -> Figure;

/// The chart forms, in page order.
const FORMS: [(&str, Maker); 8] = [
    (latency_vs_rate::NAME, latency_vs_rate::figure),
    (pairs::NAME, pairs::figure),
    (series::NAME, series::figure),
    (bars::NAME, bars::figure),
    (offered_vs_achieved::NAME, offered_vs_achieved::figure),
    (drift::NAME, drift::figure),
    (lateness::NAME, lateness::figure),
    (run_chart::NAME, run_chart::figure),
];

/// The charts that apply to an experiment, in page order; those with nothing to show yet carry a sentence instead.
pub fn experiment_figures(input: &ExperimentChartInput<'_>) -> Vec<Figure> {
    let study = Study::new(input);
    FORMS
        .iter()
        .filter(|(name, _)| study.shows(name))
        .map(|(_, make)| make(&study))
        .collect()
}

/// The chart with this name; `None` for a name that this experiment has no chart for.
pub fn experiment_figure(input: &ExperimentChartInput<'_>, name: &str) -> Option<Figure> {
    let study = Study::new(input);
    let (_, make) = FORMS.iter().find(|(known, _)| *known == name)?;
    study.shows(name).then(|| make(&study))
}

/// The chart with this name as a file of its own, with its heading and literal colours.
pub fn experiment_file(
    input: &ExperimentChartInput<'_>,
    name: &str,
    theme: Theme,
) -> Option<String> {
    let target = text::shorten(&input.experiment.target, 80);
    let figure = experiment_figure(input, name)?;
    Some(dress(&figure, target, input.experiment.started_at, theme))
}

/// The runs whose own series the charts need: those of a short series for its boxes, one for each value of a sweep for
/// the drift within a step; at most [`MOST_SERIES`].
pub fn wanted_series(experiment: &Experiment, spec: &Spec) -> Vec<i64> {
    let kind = spec.arms().first().map(|arm| arm.plan.kind());
    let has_steps = matches!(kind, Some(Kind::Rate | Kind::Users));
    let ended = experiment
        .points
        .iter()
        .filter(|point| point.state.is_final() && point.summary.is_some());
    match experiment.kind {
        ExperimentKind::Series if has_steps => {
            ended.map(|point| point.run).take(MOST_SERIES).collect()
        }
        ExperimentKind::Sweep if has_steps => {
            let mut first: Vec<(String, i64)> = Vec::new();
            for point in ended {
                let key = point.point.to_string();
                if first.iter().all(|(known, _)| *known != key) {
                    first.push((key, point.run));
                }
            }
            first
                .into_iter()
                .map(|(_, run)| run)
                .take(MOST_SERIES)
                .collect()
        }
        _ => Vec::new(),
    }
}

/// The answers.
pub(crate) struct Study<'a> {
    pub(crate) experiment: &'a Experiment,
    pub(crate) spec: &'a Spec,
    series: &'a BTreeMap<i64, Series>,
    /// The figure by which runs are compared.
    pub(crate) of: Quantity,
    pub(crate) levels: Vec<Level>,
    pub(crate) knee: Option<Knee>,
}

impl<'a> Study<'a> {
    fn new(input: &ExperimentChartInput<'a>) -> Self {
        let (levels, knee) = curve(input.experiment, input.spec);
        let kind = input.spec.arms().first().map(|arm| arm.plan.kind());
        Self {
            experiment: input.experiment,
            spec: input.spec,
            series: input.series,
            of: kind.map_or(Quantity::Latency, figure_of_kind),
            knee,
            levels,
        }
    }

    fn plan(&self) -> Option<&Plan> {
        self.spec.arms().first().map(|arm| &arm.plan)
    }

    /// Whether one field with numbers is varied in a test of load.
    fn is_curve(&self) -> bool {
        if self.experiment.kind == ExperimentKind::Capacity {
            return matches!(self.plan(), Some(Plan::Rate(_)));
        }
        self.spec.fields().len() == 1
            && self
                .spec
                .arms()
                .iter()
                .all(|arm| arm.point.values().all(|value| value.as_f64().is_some()))
            && matches!(self.plan(), Some(Plan::Rate(_) | Plan::Users(_)))
    }

    fn is_by_rate(&self) -> bool {
        self.spec.fields() == ["rate"] && matches!(self.plan(), Some(Plan::Rate(_)))
    }

    /// Whether a page shows this chart.
    fn shows(&self, name: &str) -> bool {
        let kind = self.experiment.kind;
        let repeats = self.spec.repeat() as usize;
        let by_value = matches!(kind, ExperimentKind::Sweep | ExperimentKind::Capacity);
        match name {
            latency_vs_rate::NAME => by_value && self.is_curve(),
            offered_vs_achieved::NAME => by_value && self.is_by_rate(),
            lateness::NAME => {
                by_value && self.is_curve() && matches!(self.plan(), Some(Plan::Rate(_)))
            }
            drift::NAME => kind == ExperimentKind::Sweep && self.is_curve(),
            bars::NAME => kind == ExperimentKind::Sweep && !self.is_curve(),
            // Lateness, by which a generator is judged, is not what this chart shows.
            pairs::NAME => match &self.experiment.proof {
                Some(proof) => !proof.figure.starts_with("lateness"),
                None => kind == ExperimentKind::Paired,
            },
            series::NAME => {
                kind == ExperimentKind::Series
                    && repeats <= MOST_SERIES
                    && matches!(self.of, Quantity::Latency | Quantity::RoundTrip)
            }
            run_chart::NAME => {
                kind == ExperimentKind::Series
                    && (repeats > 10 || !matches!(self.of, Quantity::Latency | Quantity::RoundTrip))
            }
            _ => false,
        }
    }

    /// The runs that have ended, in the order in which they ran.
    pub(crate) fn ended(&self) -> impl Iterator<Item = &'a Point> {
        self.experiment
            .points
            .iter()
            .filter(|point| point.state.is_final())
    }

    pub(crate) fn series_of(&self, run: i64) -> Option<&'a Series> {
        self.series.get(&run)
    }

    /// Levels that have figures.
    pub(crate) fn measured(&self) -> impl Iterator<Item = &Level> {
        self.levels.iter().filter(|level| !level.values.is_empty())
    }

    /// What is varied, as the axis says it.
    pub(crate) fn axis(&self) -> String {
        match self.spec.fields().as_slice() {
            ["rate"] if self.is_by_rate() => "offered rate, requests per second".to_owned(),
            ["concurrent"] => "users at once".to_owned(),
            ["streams"] => "parallel streams".to_owned(),
            fields => text::shorten(&fields.join(", "), 60),
        }
    }

    /// A value of what is varied, with its unit.
    pub(crate) fn value(&self, x: f64) -> String {
        if self.is_by_rate() {
            format!("{}{NARROW}req/s", text::figure(x))
        } else {
            match self.spec.fields().first() {
                Some(field) => format!("{} {}", text::shorten(field, 30), text::figure(x)),
                None => text::figure(x),
            }
        }
    }

    /// The figure of a run; `None` where it failed or has none.
    pub(crate) fn figure(point: &Point) -> Option<f64> {
        if point.state == State::Failed {
            return None;
        }
        crate::measure::experiment::figure(point.summary.as_ref()?)
            .filter(|value| value.is_finite() && *value >= 0.0)
    }

    /// A figure in the unit that suits it.
    pub(crate) fn text(&self, value: f64) -> String {
        match self.of {
            Quantity::Throughput => bits(value),
            Quantity::PathMtu => format!("{}{NARROW}bytes", text::figure(value)),
            _ => text::ms(value),
        }
    }

    /// Ticks of the figure's axis with their words; the unit stands in the words of a time, else in the name.
    pub(crate) fn ticks(&self, axis: crate::chart::axis::Axis, most: usize) -> Vec<(f64, String)> {
        if self.of.is_time() {
            return axis.latency_ticks(most);
        }
        let crate::chart::axis::Axis::Linear(from, to) = axis else {
            return axis.number_ticks(most);
        };
        let (factor, _) = self.unit(to);
        crate::chart::axis::Axis::Linear(from / factor, to / factor)
            .number_ticks(most)
            .into_iter()
            .map(|(value, word)| (value * factor, word))
            .collect()
    }

    fn unit(&self, most: f64) -> (f64, &'static str) {
        match self.of {
            Quantity::Throughput => unit(most),
            _ => (1.0, "bytes"),
        }
    }

    /// The name of the figure's axis.
    pub(crate) fn axis_of_figure(&self, axis: crate::chart::axis::Axis) -> String {
        let crate::chart::axis::Axis::Linear(_, to) = axis else {
            return format!("{}, log scale", self.of.name());
        };
        if self.of.is_time() {
            self.of.name().to_owned()
        } else {
            format!("{}, {}", self.of.name(), self.unit(to).1)
        }
    }

    /// Why there is nothing to draw; `None` when there is something.
    pub(crate) fn nothing(&self) -> Option<String> {
        if self.levels.iter().any(|level| !level.values.is_empty()) {
            return None;
        }
        if self.experiment.points.iter().all(|p| !p.state.is_final()) {
            return Some("No run has ended yet.".to_owned());
        }
        let why = self.levels.iter().find_map(|level| level.reason.as_deref());
        Some(match why {
            Some(why) => format!("No run has figures: {}", text::shorten(why, 160)),
            None => "No run has figures.".to_owned(),
        })
    }

    /// How many runs, and how many of them failed, in words.
    pub(crate) fn n_in_words(&self) -> String {
        let all = self.ended().count() as u64;
        let failed = self
            .ended()
            .filter(|point| point.state == State::Failed)
            .count() as u64;
        let runs = text::counted(all, "run");
        if failed == 0 {
            format!("n = {runs}")
        } else {
            format!("n = {runs}, {} failed", text::count(failed))
        }
    }
}
