//! A run as the notebook keeps it and the API shows it.

use serde::{Deserialize, Serialize};

use crate::measure::plan::{Kind, Plan};
use crate::measure::summary::Summary;

/// Where a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Waits for its turn.
    Queued,
    /// Sends.
    Running,
    /// Went through its plan.
    Finished,
    /// Measured nothing useful; the run's error says why.
    Failed,
    /// Stopped by a person, with what it had.
    Cancelled,
    /// Stopped by a shutdown or a crash, with what it had.
    Interrupted,
    /// Text of another tool.
    Imported,
}

impl State {
    /// Every state.
    pub const ALL: [Self; 7] = [
        Self::Queued,
        Self::Running,
        Self::Finished,
        Self::Failed,
        Self::Cancelled,
        Self::Interrupted,
        Self::Imported,
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
            Self::Imported => "imported",
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

/// Who caused a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// This dashboard, API or shell.
    Local,
    /// Another node asked for it.
    Remote,
    /// A receiver served it.
    Received,
    /// Text of another tool.
    Imported,
}

/// How bad it is when a check fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The figures must not be believed.
    Fail,
    /// They hold with a reservation.
    Warn,
}

/// One reason to believe a run or not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// `on_schedule`, `generator_not_limited`, `sums_agree`, `ends_agree`, `clock_steady`, `streams_overlap`, `not_shared_host`, `complete`.
    pub name: String,
    /// Whether it holds; `None` when it does not apply.
    pub ok: Option<bool>,
    /// What a miss means.
    pub severity: Severity,
    /// The evidence, with figures.
    pub detail: String,
}

/// One thing that held a run back, with its share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// A stable word, such as `target` or `generator`.
    pub cause: String,
    /// Share of the run, 0 to 1.
    pub share: f64,
    /// What shows it.
    pub evidence: String,
}

/// One stated objective against what was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ObjectiveResult {
    /// As it was written, such as `p99<500ms`.
    pub rule: String,
    /// The limit in words.
    pub limit: String,
    /// What was measured, in words; `None` when it was not.
    pub measured: Option<String>,
    /// Whether it was met; `None` when it could not be told.
    pub ok: Option<bool>,
}

/// How far a running run is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Share done, 0 to 1.
    pub done: f64,
    /// Seconds still to go, where that can be told.
    pub eta_s: Option<f64>,
}

/// The machine and its settings when the run started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// Kernel release.
    pub kernel: Option<String>,
    /// Default TCP congestion control.
    pub congestion: Option<String>,
    /// MTU of the interface towards the target.
    pub mtu: Option<u32>,
    /// Queueing discipline of new interfaces.
    pub qdisc: Option<String>,
    /// CPU model.
    pub cpu_model: Option<String>,
    /// CPUs that this process may use.
    pub cpus: Option<u32>,
    /// Memory of the machine.
    pub memory_bytes: Option<u64>,
    /// One-minute load average before the start.
    pub load_before: Option<f64>,
    /// Open files this process may have.
    pub open_files: Option<u64>,
    /// Local ports from which connections start.
    pub local_ports: Option<(u16, u16)>,
    /// Version of this program.
    pub version: String,
}

/// A run, whole, as the API shows it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Run {
    /// Its number in this notebook.
    pub id: i64,
    /// Its kind of plan.
    pub kind: Kind,
    /// Where it stands.
    pub state: State,
    /// Who caused it.
    pub origin: Origin,
    /// The command line that would repeat it.
    pub command: String,
    /// What it was asked to do.
    pub plan: Plan,
    /// The node that ran it.
    pub node: String,
    /// The peer asked to run it; `None` = this node.
    pub from: Option<String>,
    /// The experiment that it belongs to.
    pub experiment: Option<i64>,
    /// What was varied.
    pub point: Option<serde_json::Value>,
    /// Which repeat.
    pub repeat: Option<u32>,
    /// When it was asked for.
    pub created_at: jiff::Timestamp,
    /// When its first packet could go.
    pub started_at: Option<jiff::Timestamp>,
    /// When it ended.
    pub finished_at: Option<jiff::Timestamp>,
    /// How far it is.
    pub progress: Progress,
    /// Place in the queue, 1 = next; `None` unless queued.
    pub queue_place: Option<u32>,
    /// The figures.
    pub summary: Option<Summary>,
    /// Whether they may be believed.
    pub checks: Vec<Check>,
    /// What held it back.
    pub limits: Vec<Limit>,
    /// The finding, at most 100 characters: the report's headline.
    pub title: Option<String>,
    /// What the figures mean, one sentence.
    pub verdict: Option<String>,
    /// Stated objectives and whether they were met.
    pub objectives: Vec<ObjectiveResult>,
    /// The machine then.
    pub environment: Environment,
    /// Why it failed or stopped.
    pub error: Option<String>,
    /// A person's note.
    pub note: String,
    /// A person's tags.
    pub tags: Vec<String>,
    /// Whether others are compared with it.
    pub baseline: bool,
    /// Who started it.
    pub actor: String,
}
