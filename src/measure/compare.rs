//! Several runs side by side: which figures differ by more than noise, which settings differ, and whether the runs can
//! be compared at all.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::measure::compare_figures::{Better, FIGURES, Noise, Unit};
use crate::measure::fold::Series;
use crate::measure::plan::{Kind, Plan, Rate};
use crate::measure::run::{Run, Severity, State};

/// A run with what its noise is told from.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The run.
    pub run: &'a Run,
    /// Its figures over time, where there are some.
    pub series: Option<&'a Series>,
}

/// Runs against one of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparison {
    /// The place of the run with which the others are compared.
    pub base: usize,
    /// Figures that at least one run has.
    pub figures: Vec<FigureRow>,
    /// Settings that are not the same in all.
    pub settings: Vec<SettingRow>,
    /// How many settings are the same in all.
    pub same_settings: usize,
    /// What speaks against the comparison, each with its evidence.
    pub warnings: Vec<(&'static str, String)>,
}

/// One figure of each run.
#[derive(Clone, Debug, PartialEq)]
pub struct FigureRow {
    /// What it is.
    pub name: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// One for each run; `None` where a run has it not.
    pub cells: Vec<Option<FigureCell>>,
}

/// A figure of a run, and how it stands to the base's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FigureCell {
    /// The figure.
    pub value: f64,
    /// Itself less the base's.
    pub difference: Option<f64>,
    /// What that means; `None` for the base itself, or where it has no such figure.
    pub reading: Option<Reading>,
}

/// What a difference means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// There is none.
    Same,
    /// No more than chance makes.
    WithinNoise,
    /// More, for the better.
    Better,
    /// More, for the worse.
    Worse,
    /// More, and neither good nor bad.
    Different,
}

/// One setting of each run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingRow {
    /// Its name in the plan or the environment.
    pub name: String,
    /// Whether it is of the machine rather than of the plan.
    pub machine: bool,
    /// One for each run; `None` where it is not set or not known.
    pub values: Vec<Option<String>>,
}

/// Compares the runs with the one at this place.
pub fn compare(subjects: &[Subject<'_>], base: usize) -> Comparison {
    let base = base.min(subjects.len().saturating_sub(1));
    let (settings, same_settings) = settings(subjects);
    Comparison {
        base,
        figures: figures(subjects, base),
        warnings: warnings(subjects),
        settings,
        same_settings,
    }
}

impl Comparison {
    /// Whether no run differs from the base in any figure or setting.
    pub fn is_all_the_same(&self) -> bool {
        self.settings.is_empty()
            && self
                .figures
                .iter()
                .flat_map(|row| row.cells.iter())
                .all(|cell| {
                    cell.is_none_or(|cell| matches!(cell.reading, None | Some(Reading::Same)))
                })
    }
}

fn figures(subjects: &[Subject<'_>], base: usize) -> Vec<FigureRow> {
    let summaries: Vec<Value> = subjects
        .iter()
        .map(|subject| serde_json::to_value(&subject.run.summary).unwrap_or_default())
        .collect();
    let mut rows = Vec::new();
    for figure in FIGURES {
        let values: Vec<Option<f64>> = summaries
            .iter()
            .map(|summary| at(summary, figure.place))
            .collect();
        if values.iter().all(Option::is_none) {
            continue;
        }
        let of_base = values.get(base).copied().flatten();
        let cells = values
            .iter()
            .enumerate()
            .map(|(place, value)| {
                let value = (*value)?;
                let other = of_base.filter(|_| place != base);
                Some(FigureCell {
                    value,
                    difference: other.map(|of_base| value - of_base),
                    reading: other.map(|of_base| {
                        let noise = figure.noise.of(
                            (value, subjects[place].series),
                            (of_base, subjects[base].series),
                        );
                        read(value - of_base, noise, figure.better)
                    }),
                })
            })
            .collect();
        rows.push(FigureRow {
            name: figure.name,
            unit: figure.unit,
            cells,
        });
    }
    rows
}

/// The number at a place such as `latency_ms.p99`.
fn at(summary: &Value, place: &str) -> Option<f64> {
    let mut value = summary;
    for name in place.split('.') {
        value = value.get(name)?;
    }
    value.as_f64().filter(|value| value.is_finite())
}

fn read(difference: f64, noise: f64, better: Better) -> Reading {
    if difference == 0.0 {
        return Reading::Same;
    }
    if difference.abs() <= noise {
        return Reading::WithinNoise;
    }
    match (better, difference > 0.0) {
        (Better::Neither, _) => Reading::Different,
        (Better::More, true) | (Better::Less, false) => Reading::Better,
        (Better::More, false) | (Better::Less, true) => Reading::Worse,
    }
}

impl Noise {
    /// How far two figures can be apart by chance: never less than 1 % of the larger, unless they are exact.
    fn of(self, a: (f64, Option<&Series>), b: (f64, Option<&Series>)) -> f64 {
        let larger = a.0.abs().max(b.0.abs());
        let spread = match self {
            Self::Exact => return 0.0,
            // Counts of chance events: their standard deviation is their root.
            Self::Count => 2.0 * (a.0.abs() + b.0.abs()).sqrt(),
            // A single figure says nothing of its own spread.
            Self::Share => 0.05 * larger,
            Self::Windows(window) => {
                let errors = [a, b].map(|(value, series)| {
                    let share = series.and_then(|series| window.relative_error(series))?;
                    Some(value.abs() * share)
                });
                match errors {
                    [Some(a), Some(b)] => 2.0 * a.hypot(b),
                    _ => 0.05 * larger,
                }
            }
        };
        spread.max(0.01 * larger)
    }
}

/// Every setting of plan and machine: those that differ, and how many do not.
fn settings(subjects: &[Subject<'_>]) -> (Vec<SettingRow>, usize) {
    let mut all: BTreeMap<(bool, String), Vec<Option<String>>> = BTreeMap::new();
    for (place, subject) in subjects.iter().enumerate() {
        let mut put = |machine: bool, name: &str, value: &Value| {
            let values = all
                .entry((machine, name.to_owned()))
                .or_insert_with(|| vec![None; subjects.len()]);
            values[place] = shown(value);
        };
        if let Value::Object(plan) = subject.run.plan.to_json() {
            for (name, value) in &plan {
                put(false, name, value);
            }
        }
        put(true, "node", &Value::from(subject.run.node.as_str()));
        put(
            true,
            "origin",
            &serde_json::to_value(subject.run.origin).unwrap_or_default(),
        );
        // The machine of an imported run is not the one that keeps it.
        let known = subject.run.state != State::Imported;
        let environment = serde_json::to_value(&subject.run.environment).unwrap_or_default();
        for (name, value) in environment
            .as_object()
            .into_iter()
            .flatten()
            .filter(|_| known)
        {
            put(true, name, value);
        }
    }
    let mut same = 0;
    let mut differ = Vec::new();
    for ((machine, name), values) in all {
        let first = values.first().cloned().flatten();
        if values.iter().all(|value| *value == first) {
            same += usize::from(first.is_some());
        } else {
            differ.push(SettingRow {
                name,
                machine,
                values,
            });
        }
    }
    (differ, same)
}

fn shown(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => (!text.is_empty()).then(|| text.clone()),
        Value::Array(list) if list.is_empty() => None,
        Value::Object(parts) if parts.is_empty() => None,
        other => Some(other.to_string()),
    }
}

/// Open loop, closed loop, or neither.
fn model(run: &Run) -> Option<&'static str> {
    match (&run.plan, run.kind) {
        (Plan::Rate(plan), _) if plan.rate == Rate::Constant(0.0) => {
            Some("one request after another")
        }
        (_, Kind::Rate) => Some("open loop"),
        (_, Kind::Users) => Some("closed loop"),
        _ => None,
    }
}

/// Connections or users at once, where the plan says so.
fn connections(run: &Run) -> Option<String> {
    let plan = run.plan.to_json();
    let name = match run.kind {
        Kind::Throughput => "streams",
        Kind::Users => "concurrent",
        Kind::Rate => "num_calls",
        _ => return None,
    };
    shown(&plan[name])
}

fn warnings(subjects: &[Subject<'_>]) -> Vec<(&'static str, String)> {
    let mut out = Vec::new();
    let distinct = |of: &dyn Fn(&Run) -> Option<String>| -> Vec<String> {
        let found: BTreeSet<String> = subjects
            .iter()
            .filter_map(|subject| of(subject.run))
            .collect();
        found.into_iter().collect()
    };
    let kinds = distinct(&|run| Some(run.kind.word().to_owned()));
    if kinds.len() > 1 {
        out.push((
            "Different kinds",
            format!(
                "{}: only figures that both have say something",
                kinds.join(", ")
            ),
        ));
    }
    let models = distinct(&|run| model(run).map(str::to_owned));
    if models.len() > 1 {
        out.push((
            "Different models of load",
            format!(
                "{}: an overloaded server shows as latency where requests go by a schedule, and as fewer requests where users wait",
                models.join(" and ")
            ),
        ));
    }
    let counts = distinct(&connections);
    if counts.len() > 1 && kinds.len() == 1 {
        let what = match subjects[0].run.kind {
            Kind::Throughput => "Different numbers of streams",
            Kind::Users => "Different numbers of users",
            _ => "Different calls per connection",
        };
        out.push((
            what,
            format!("{}: the load itself is another", counts.join(", ")),
        ));
    }
    let ids = |pass: &dyn Fn(&Run) -> bool| -> Vec<String> {
        let mut ids: Vec<i64> = subjects
            .iter()
            .filter(|subject| pass(subject.run))
            .map(|subject| subject.run.id)
            .collect();
        ids.dedup();
        ids.iter().map(|id| format!("#{id}")).collect()
    };
    let unbelievable = ids(&|run| {
        run.checks
            .iter()
            .any(|check| check.ok == Some(false) && check.severity == Severity::Fail)
    });
    if !unbelievable.is_empty() {
        out.push((
            "A check failed",
            format!("{}: its report says which", unbelievable.join(", ")),
        ));
    }
    let partial = ids(&|run| !matches!(run.state, State::Finished | State::Imported));
    if !partial.is_empty() {
        out.push(("Not carried out to the end", partial.join(", ")));
    }
    let imported = ids(&|run| run.state == State::Imported);
    if !imported.is_empty() && imported.len() < subjects.len() {
        out.push((
            "Printed by another tool",
            format!(
                "{}: measured by its rules, on a machine that is not known",
                imported.join(", ")
            ),
        ));
    }
    out
}
