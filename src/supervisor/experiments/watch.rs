//! What watchers of an experiment receive: each run that has ended, how far it is, and its end.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::Stream;
use futures_util::stream::unfold;
use serde_json::json;
use tokio::sync::watch;

use super::super::Supervisor;
use super::course::Course;
use crate::measure::experiment::Experiment;
use crate::measure::run::State;
use crate::store::StoreError;

/// What an event of an experiment tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExperimentEventKind {
    /// A run has ended.
    Point,
    /// Share done, the run in progress.
    Progress,
    /// The experiment has ended; nothing follows.
    State,
}

impl ExperimentEventKind {
    /// The event's name on the wire.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Point => "point",
            Self::Progress => "progress",
            Self::State => "state",
        }
    }
}

/// One event of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct ExperimentEvent {
    /// The last run that a watcher has after it, one more for the end: what `Last-Event-ID` resumes from.
    pub id: i64,
    /// What it tells.
    pub kind: ExperimentEventKind,
    /// Its data, one line of JSON.
    pub json: String,
}

struct Cursor {
    supervisor: Supervisor,
    id: i64,
    course: Option<(Arc<Course>, watch::Receiver<u64>)>,
    /// The last run that was told.
    seen: i64,
    /// How many runs had ended when they were last read; `None` = never read.
    read_at: Option<u64>,
    progress: String,
    ready: VecDeque<ExperimentEvent>,
    over: bool,
}

impl Supervisor {
    /// The events of an experiment after the one with this id; `None` when there is no such experiment.
    ///
    /// # Errors
    /// When the notebook could not be read.
    pub async fn experiment_events(
        &self,
        id: i64,
        after: Option<i64>,
    ) -> Result<Option<impl Stream<Item = ExperimentEvent> + Send + use<>>, StoreError> {
        let course = self.core.courses.find(id).map(|course| {
            let changed = course.subscribe();
            (course, changed)
        });
        if course.is_none() && self.core.store.experiment(id).await?.is_none() {
            return Ok(None);
        }
        let cursor = Cursor {
            supervisor: self.clone(),
            id,
            course,
            seen: after.unwrap_or(0),
            read_at: None,
            progress: String::new(),
            ready: VecDeque::new(),
            over: false,
        };
        Ok(Some(unfold(cursor, |mut cursor| async move {
            loop {
                if let Some(event) = cursor.ready.pop_front() {
                    return Some((event, cursor));
                }
                if cursor.over {
                    return None;
                }
                if let Err(error) = cursor.advance().await {
                    tracing::warn!(experiment = cursor.id, %error, "a watcher of an experiment is let go");
                    return None;
                }
            }
        })))
    }
}

impl Cursor {
    async fn advance(&mut self) -> Result<(), StoreError> {
        let ended = self.course.as_ref().map(|(course, _)| course.ended());
        let open = self.supervisor.core.courses.find(self.id).is_some();
        if self.read_at.is_none() || self.read_at != ended || !open {
            self.read_at = Some(ended.unwrap_or(0));
            let points = self
                .supervisor
                .core
                .store
                .points_after(self.id, self.seen)
                .await?;
            for point in points {
                if open && point.state == State::Interrupted {
                    continue;
                }
                self.seen = point.run;
                self.put(ExperimentEventKind::Point, json!(point).to_string());
            }
        }
        if !open {
            self.over = true;
            if let Some(experiment) = self.supervisor.core.store.experiment(self.id).await?
                && experiment.state.is_final()
            {
                self.seen += 1;
                self.put(ExperimentEventKind::State, end_of(&experiment));
            }
            return Ok(());
        }
        let progress = self.progress();
        if progress != self.progress {
            self.progress.clone_from(&progress);
            self.put(ExperimentEventKind::Progress, progress);
        }
        if self.ready.is_empty()
            && let Some((_, changed)) = &mut self.course
        {
            let _ = changed.changed().await;
        }
        Ok(())
    }

    /// The run in progress and how far it is.
    fn progress(&self) -> String {
        let run = self
            .course
            .as_ref()
            .and_then(|(course, _)| course.current())
            .and_then(|run| self.supervisor.find(run))
            .map(|live| live.bare_run());
        json!({
            "runs_ended": self.read_at,
            "run": run.as_ref().map(|run| run.id),
            "point": run.as_ref().and_then(|run| run.point.clone()),
            "repeat": run.as_ref().and_then(|run| run.repeat),
            "state": run.as_ref().map(|run| run.state),
            "done": run.as_ref().map(|run| run.progress.done),
            "eta_s": run.as_ref().and_then(|run| run.progress.eta_s),
        })
        .to_string()
    }

    fn put(&mut self, kind: ExperimentEventKind, json: String) {
        self.ready.push_back(ExperimentEvent {
            id: self.seen,
            kind,
            json,
        });
    }
}

fn end_of(experiment: &Experiment) -> String {
    json!({
        "id": experiment.id,
        "state": experiment.state,
        "title": experiment.title,
        "verdict": experiment.verdict,
        "error": experiment.error,
    })
    .to_string()
}
