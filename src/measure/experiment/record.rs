//! An experiment as the notebook keeps it and the API shows it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::design::Spec;
use super::estimate::{Estimate, estimate, remaining_s};
use super::figure::figure;
use super::paired::{Ratio, ratio};
use super::prove::Proof;
use super::settle::settled_at;
use crate::measure::plan::Caps;
use crate::measure::run::{Check, Progress, State};
use crate::measure::summary::Summary;

/// The kinds of experiments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExperimentKind {
    /// One or two fields of a plan varied.
    Sweep,
    /// One plan repeated.
    Series,
    /// Two plans in turn.
    Paired,
    /// A cause put to the proof.
    Prove,
    /// A search for the highest rate that holds.
    Capacity,
}

impl ExperimentKind {
    /// Every kind.
    pub const ALL: [Self; 5] = [
        Self::Sweep,
        Self::Series,
        Self::Paired,
        Self::Prove,
        Self::Capacity,
    ];

    /// The word in JSON, forms and the database.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Sweep => "sweep",
            Self::Series => "series",
            Self::Paired => "paired",
            Self::Prove => "prove",
            Self::Capacity => "capacity",
        }
    }

    /// The kind with this word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }
}

/// Where an experiment stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExperimentState {
    /// Waits for the experiment before it.
    Queued,
    /// Runs, or pauses between two runs.
    Running,
    /// Went through all its runs.
    Finished,
    /// Measured nothing useful, or could not go on; its error says why.
    Failed,
    /// Stopped by a person, with what it had.
    Cancelled,
    /// Left open by a program that knew more than this one.
    Interrupted,
}

impl ExperimentState {
    /// Every state.
    pub const ALL: [Self; 6] = [
        Self::Queued,
        Self::Running,
        Self::Finished,
        Self::Failed,
        Self::Cancelled,
        Self::Interrupted,
    ];

    /// The word in JSON, CSV and the database.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Finished => "finished",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Interrupted => "interrupted",
        }
    }

    /// The state with this word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.word() == word)
    }

    /// Whether nothing more will come.
    pub const fn is_final(self) -> bool {
        !matches!(self, Self::Queued | Self::Running)
    }
}

/// One run of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// What was varied: `{"rate": 7}`, `{"arm": "a"}`; empty in a series.
    pub point: Value,
    /// Which repeat of that, from 1.
    pub repeat: u32,
    /// The run.
    pub run: i64,
    /// Where the run stands.
    pub state: State,
    /// Its figures; `None` where there are none.
    pub summary: Option<Summary>,
    /// Why it failed or stopped.
    pub error: Option<String>,
    /// When its first packet could go.
    pub started_at: Option<jiff::Timestamp>,
    /// Those of its checks that do not hold.
    pub doubts: Vec<Check>,
}

/// An experiment, whole, as the API shows it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Experiment {
    /// Its number in this notebook.
    pub id: i64,
    /// Its kind.
    pub kind: ExperimentKind,
    /// Where it stands.
    pub state: ExperimentState,
    /// What it was asked to do.
    pub spec: Value,
    /// The first target.
    pub target: String,
    /// When it was asked for.
    pub created_at: jiff::Timestamp,
    /// When its first run was asked for.
    pub started_at: Option<jiff::Timestamp>,
    /// When it ended.
    pub finished_at: Option<jiff::Timestamp>,
    /// How far it is.
    pub progress: Progress,
    /// Runs in all; `None` where results decide how many.
    pub runs_planned: Option<u64>,
    /// Runs that have ended.
    pub runs_done: u64,
    /// What it takes, as far as it could be told before the start.
    pub estimate: Option<Estimate>,
    /// Its runs so far, in the order in which they ran.
    pub points: Vec<Point>,
    /// The repeat of a series from which on its medians stay within 10 % of each other.
    pub settled_at: Option<u32>,
    /// How b of a pair compares with a.
    pub ratio: Option<Ratio>,
    /// What a proof has answered so far.
    pub proof: Option<Proof>,
    /// What a search has found.
    pub capacity: Option<Value>,
    /// The finding, at most 100 characters.
    pub title: Option<String>,
    /// What the figures mean.
    pub verdict: Option<String>,
    /// Why it failed or stopped.
    pub error: Option<String>,
    /// A person's note; its runs carry it too.
    pub note: String,
    /// A person's tags; its runs carry them too.
    pub tags: Vec<String>,
    /// Stated objectives of each run, as written; empty = none.
    pub objective: String,
    /// Who started it.
    pub actor: String,
}

impl Experiment {
    /// What it was asked to do, read again; `None` where this program knows no such experiment.
    pub fn design(&self) -> Option<Spec> {
        Spec::from_json(self.spec.as_object()?, &Caps::NONE).ok()
    }

    /// Takes in its runs, oldest first, and all that follows from them. Of two runs of one point and repeat the later
    /// one counts; while more will come, a run that a restart cut off counts no more, since it runs again.
    pub fn take_points(&mut self, runs: Vec<Point>) {
        let open = !self.state.is_final();
        let mut points: Vec<Point> = Vec::with_capacity(runs.len());
        let mut places = std::collections::HashMap::new();
        for run in runs {
            if open && run.state == State::Interrupted {
                continue;
            }
            let key = (run.point.to_string(), run.repeat);
            if let Some(place) = places.insert(key, points.len()) {
                // The place stays, so that the others keep theirs; it is dropped below.
                let before: &mut Point = &mut points[place];
                before.run = 0;
            }
            points.push(run);
        }
        points.retain(|point| point.run != 0);
        self.points = points;
        self.runs_done = self
            .points
            .iter()
            .filter(|point| point.state.is_final())
            .count() as u64;
        let design = self.design();
        let listed = self.kind != ExperimentKind::Capacity;
        self.estimate = design.as_ref().filter(|_| listed).map(estimate);
        self.runs_planned = design
            .as_ref()
            .filter(|_| listed)
            .map(|spec| spec.runs() as u64);
        if self.kind == ExperimentKind::Series {
            let ended = self.points.iter().filter(|point| point.state.is_final());
            let medians: Vec<Option<f64>> = ended
                .map(|point| point.summary.as_ref().and_then(figure))
                .collect();
            self.settled_at = settled_at(&medians);
        }
        if self.kind == ExperimentKind::Paired {
            self.ratio = ratio(&self.points);
        }
        if let Some(Spec::Prove(proving)) = &design {
            self.proof = proving.proof(&self.points);
            self.ratio = self.proof.as_ref().and_then(|proof| proof.ratio);
        }
        self.progress = match self.runs_planned {
            _ if self.state == ExperimentState::Finished => Progress {
                done: 1.0,
                eta_s: None,
            },
            Some(planned) if planned > 0 => Progress {
                done: (self.runs_done as f64 / planned as f64).min(1.0),
                eta_s: design
                    .filter(|_| open)
                    .and_then(|spec| remaining_s(&spec, self.runs_done)),
            },
            _ => self
                .capacity
                .as_ref()
                .map(search_progress)
                .unwrap_or_default(),
        };
    }
}

/// How far a search is, of its budget; it may end long before.
fn search_progress(found: &Value) -> Progress {
    let (elapsed, budget) = (found["elapsed_s"].as_f64(), found["budget_s"].as_f64());
    match (elapsed, budget) {
        (Some(elapsed), Some(budget)) if budget > 0.0 => Progress {
            done: (elapsed / budget).clamp(0.0, 0.99),
            eta_s: None,
        },
        _ => Progress::default(),
    }
}
