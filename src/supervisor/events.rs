//! What watchers of a run receive: the whole run so far, then each second as it closes, then its end.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::Stream;
use futures_util::stream::unfold;
use serde_json::json;
use tokio::sync::watch;

use super::Supervisor;
use super::live::Live;
use crate::measure::run::Run;
use crate::store::{Store, StoreError};

/// Seconds fetched at a time.
const CHUNK: usize = 500;

/// What an event tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A second has closed.
    Interval,
    /// Share done, place in the queue.
    Progress,
    /// The run has ended; nothing follows.
    State,
}

impl EventKind {
    /// The event's name on the wire.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Interval => "interval",
            Self::Progress => "progress",
            Self::State => "state",
        }
    }
}

/// One event of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// How many seconds a watcher has after it, one more for the end: what `Last-Event-ID` resumes from.
    pub id: u64,
    /// What it tells.
    pub kind: EventKind,
    /// Its data, one line of JSON.
    pub json: String,
}

/// A watcher's place in a run. It reads from what the run keeps, so a slow one holds up nobody and misses nothing.
struct Cursor {
    source: Source,
    seen: usize,
    ready: VecDeque<Event>,
    progress: String,
    over: bool,
}

enum Source {
    Live(Arc<Live>, watch::Receiver<u64>),
    Stored(Store, Box<Run>),
}

impl Supervisor {
    /// The events of a run after the one with this id; `None` when there is no such run.
    ///
    /// # Errors
    /// When the notebook could not be read.
    pub async fn events(
        &self,
        id: i64,
        after: Option<u64>,
    ) -> Result<Option<impl Stream<Item = Event> + Send + use<>>, StoreError> {
        let source = match self.find(id) {
            Some(live) => {
                let changed = live.subscribe();
                Source::Live(live, changed)
            }
            None => match self.core.store.run(id).await? {
                Some(run) => Source::Stored(self.core.store.clone(), Box::new(run)),
                None => return Ok(None),
            },
        };
        let cursor = Cursor {
            source,
            seen: after.map_or(0, |id| usize::try_from(id).unwrap_or(usize::MAX)),
            ready: VecDeque::new(),
            progress: String::new(),
            over: false,
        };
        Ok(Some(unfold(cursor, Cursor::next)))
    }
}

impl Cursor {
    async fn next(mut self) -> Option<(Event, Self)> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some((event, self));
            }
            if self.over {
                return None;
            }
            self.fetch().await;
        }
    }

    /// Puts at least one event into `ready`, or waits until something has changed.
    async fn fetch(&mut self) {
        let (run, intervals) = match &mut self.source {
            Source::Live(live, changed) => {
                // Seen before reading: a change in between wakes the next wait.
                changed.mark_unchanged();
                let run = live.bare_run();
                (run, live.intervals(self.seen, CHUNK))
            }
            Source::Stored(store, run) => {
                let found = store.rows_of(run, self.seen, CHUNK).await;
                let found = found.unwrap_or_else(|error| {
                    tracing::warn!(run = run.id, %error, "a watcher gets the end without the seconds");
                    Vec::new()
                });
                ((**run).clone(), found)
            }
        };
        let whole = intervals.len() < CHUNK;
        for interval in intervals {
            self.seen = self.seen.saturating_add(1);
            self.put(EventKind::Interval, json!(interval).to_string());
        }
        if !whole {
            return;
        }
        if run.state.is_final() {
            self.seen = self.seen.saturating_add(1);
            self.put(EventKind::State, end_of(&run));
            self.over = true;
            return;
        }
        let progress = json!({
            "state": run.state,
            "done": run.progress.done,
            "eta_s": run.progress.eta_s,
            "queue_place": run.queue_place,
        })
        .to_string();
        if progress != self.progress {
            self.progress.clone_from(&progress);
            self.put(EventKind::Progress, progress);
        }
        match &mut self.source {
            // The run keeps its sender for as long as this watcher keeps the run.
            Source::Live(_, changed) if self.ready.is_empty() => {
                let _ = changed.changed().await;
            }
            Source::Live(..) => {}
            // Stored and open: it was not in line when this watcher came; it asks again.
            Source::Stored(..) => self.over = true,
        }
    }

    fn put(&mut self, kind: EventKind, json: String) {
        self.ready.push_back(Event {
            id: self.seen as u64,
            kind,
            json,
        });
    }
}

fn end_of(run: &Run) -> String {
    json!({
        "id": run.id,
        "state": run.state,
        "title": run.title,
        "verdict": run.verdict,
        "error": run.error,
    })
    .to_string()
}
