//! `tidemark run …`: one test without a dashboard, or a receiver in the foreground, printed as the tool prints it whose
//! line was given.

mod client;
mod interrupt;
mod notebook;
mod print;
mod request;
mod screen;
mod selftest;
mod serve;
mod targets;
mod urls;

use std::net::IpAddr;

use tokio::runtime::Runtime;

use self::request::Asked;
pub use self::selftest::self_test;
use crate::config::RunOptions;
use crate::measure::objective::Objectives;
use crate::measure::plan::Plan;
use crate::measure::run::{Origin, Progress, Run, State};
use crate::measure::summary::Summary;
use crate::net::{clock, environment};

/// Ran, and met every stated objective.
const RAN: u8 = 0;
/// Could not run, or nothing got through.
const NOTHING: u8 = 1;
/// The line or a flag cannot be used.
const USAGE: u8 = 2;
/// A stated objective was missed.
const MISSED: u8 = 3;

/// Why there is no report.
#[derive(Debug)]
struct Refused {
    sentences: Vec<String>,
    status: u8,
}

impl Refused {
    fn usage(sentence: impl Into<String>) -> Self {
        Self {
            sentences: vec![sentence.into()],
            status: USAGE,
        }
    }

    fn nothing(sentence: impl Into<String>) -> Self {
        Self {
            sentences: vec![sentence.into()],
            status: NOTHING,
        }
    }
}

/// Runs the line of the options and prints the report; returns the exit status.
pub fn run(options: &RunOptions) -> u8 {
    attempt(options).unwrap_or_else(|refused| {
        for sentence in &refused.sentences {
            print::complain(sentence);
        }
        refused.status
    })
}

fn attempt(options: &RunOptions) -> Result<u8, Refused> {
    let asked = request::read(&options.words, &options.limits.caps)?;
    let rules = options.objective.as_deref().unwrap_or_default();
    Objectives::parse(rules).map_err(Refused::usage)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Refused::nothing(format!("No thread could be started: {error}.")))?;
    match asked {
        Asked::Test(request) => client::run(&runtime, options, &request),
        Asked::Receiver(request) => serve::run(&runtime, options, &request),
    }
}

/// What every run here is made with.
struct Shell<'r> {
    runtime: &'r Runtime,
    options: &'r RunOptions,
}

impl Shell<'_> {
    /// A run before its first packet.
    fn unmeasured(
        &self,
        plan: &Plan,
        command: String,
        (origin, actor): (Origin, String),
        towards: Option<IpAddr>,
    ) -> Run {
        Run {
            id: 0,
            kind: plan.kind(),
            state: State::Running,
            origin,
            command,
            plan: plan.clone(),
            node: self.options.name.clone(),
            from: None,
            experiment: None,
            point: None,
            repeat: None,
            created_at: clock::wall(),
            started_at: None,
            finished_at: None,
            progress: Progress::default(),
            queue_place: None,
            summary: None,
            checks: Vec::new(),
            limits: Vec::new(),
            title: None,
            verdict: None,
            objectives: Vec::new(),
            environment: environment::environment(towards),
            error: None,
            note: String::new(),
            tags: Vec::new(),
            baseline: false,
            actor,
        }
    }

    fn objective(&self) -> &str {
        self.options.objective.as_deref().unwrap_or_default()
    }
}

/// The exit status for a run that has ended.
fn status(run: &Run) -> u8 {
    let got_through = match &run.summary {
        Some(Summary::Rate(summary)) => summary.replies > 0,
        Some(Summary::Users(summary)) => {
            let status = &summary.status;
            summary.transactions + status.c4xx + status.c5xx + status.c1xx > 0
        }
        Some(Summary::Fetch(summary)) => summary.total_ms.is_some(),
        Some(Summary::Throughput(summary)) => {
            let mut streams = summary.streams.iter().filter(|it| it.failed.is_none());
            run.state != State::Failed
                && streams.any(|it| it.bytes > 0 || it.bytes_sent.is_some_and(|sent| sent > 0))
        }
        Some(Summary::Ping(summary)) => summary.received > 0,
        Some(Summary::Path(summary)) => summary.path_mtu.is_some(),
        Some(Summary::Imported(_)) | None => false,
    };
    let missed = run.objectives.iter().any(|rule| rule.ok == Some(false));
    match (got_through, missed) {
        (false, _) => NOTHING,
        (true, true) => MISSED,
        (true, false) => RAN,
    }
}
