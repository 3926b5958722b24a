//! Seconds, intervals and round trips on their way to the notebook: the run never waits for the disk.

use tokio::task::JoinHandle;

use crate::measure::fold::Closed;
use crate::store::{Store, StoreError};

/// Bytes of seconds that may wait in memory for a locked database.
const MAX_WAITING_BYTES: usize = 64 << 20;

/// Hands closed seconds to the notebook, one write at a time, and keeps them until they are on disk.
pub(super) struct Pump {
    runtime: tokio::runtime::Handle,
    store: Store,
    run: i64,
    waiting: Vec<Closed>,
    writing: Option<Writing>,
    given_up: bool,
}

struct Writing {
    seconds: Vec<Closed>,
    task: JoinHandle<Result<(), StoreError>>,
}

impl Pump {
    pub(super) fn new(runtime: tokio::runtime::Handle, store: Store, run: i64) -> Self {
        Self {
            runtime,
            store,
            run,
            waiting: Vec::new(),
            writing: None,
            given_up: false,
        }
    }

    /// Takes seconds and begins a write when none is under way; never blocks.
    /// `false` when nothing can be stored any more.
    pub(super) fn offer(&mut self, seconds: Vec<Closed>) -> bool {
        self.waiting.extend(seconds);
        if self
            .writing
            .as_ref()
            .is_some_and(|writing| writing.task.is_finished())
        {
            self.settle();
        }
        if self.writing.is_none() && !self.waiting.is_empty() && !self.given_up {
            let seconds = std::mem::take(&mut self.waiting);
            let store = self.store.clone();
            let (run, copy) = (self.run, seconds.clone());
            let task = self
                .runtime
                .spawn(async move { store.append(run, copy).await });
            self.writing = Some(Writing { seconds, task });
        }
        let held: usize = self.waiting.iter().map(Closed::weight).sum();
        self.given_up |= held > MAX_WAITING_BYTES;
        !self.given_up
    }

    /// The seconds that are not on disk yet, after the write under way has ended.
    pub(super) fn rest(mut self) -> Vec<Closed> {
        self.settle();
        self.waiting
    }

    /// Waits for the write under way; what it could not store waits again, in its order.
    fn settle(&mut self) {
        let Some(Writing { mut seconds, task }) = self.writing.take() else {
            return;
        };
        match self.runtime.block_on(task) {
            Ok(Ok(())) => return,
            Ok(Err(error)) => {
                self.given_up |= !matches!(error, StoreError::Locked { .. });
                tracing::warn!(run = self.run, %error, "seconds wait for the database");
            }
            Err(error) => tracing::warn!(run = self.run, %error, "a write was lost"),
        }
        seconds.append(&mut self.waiting);
        self.waiting = seconds;
    }
}
