//! The table of an experiment's runs.

use super::keys::measure;
use crate::dashboard::words::{self, DASH};
use crate::measure::experiment::{Experiment, Figure, Next, Point, Spec, counts, figure, label_of};
use crate::measure::run::State;
use crate::measure::summary::{Distribution, Summary};

/// Runs in the table; points.csv has all.
const ROWS: usize = 100;

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

/// The runs, the newest ones where there are too many, and those that are still to come where there are few.
pub(super) fn rows(experiment: &Experiment, spec: &Spec, of: Figure) -> (Vec<Row>, Option<String>) {
    let points = &experiment.points;
    let skipped = points.len().saturating_sub(ROWS);
    let mut rows: Vec<Row> = points[skipped..]
        .iter()
        .map(|point| row(point, of))
        .collect();
    let listed = experiment.runs_planned.is_some() && spec.runs() <= ROWS;
    if listed && !experiment.state.is_final() {
        let mut driver = spec.driver();
        loop {
            match driver.next(None) {
                Next::Run(step) => {
                    let key = step.key();
                    let made = points
                        .iter()
                        .any(|one| (one.point.to_string(), one.repeat) == key);
                    if !made {
                        rows.push(to_come(label_of(&step.point), step.repeat));
                    }
                }
                Next::Pause(_) => {}
                Next::Done => break,
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
    let (requests, failed) = point.summary.as_ref().map_or((0, 0), counts);
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
