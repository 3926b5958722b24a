//! One experiment that waits or runs, shared with everyone who watches it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

/// An experiment that waits or runs.
pub(super) struct Course {
    pub(super) id: i64,
    inner: Mutex<Inner>,
    /// Counts changes, for those who watch.
    changed: watch::Sender<u64>,
    /// Whether a person asked to stop.
    cancelled: watch::Sender<bool>,
}

#[derive(Clone, Copy, Default)]
struct Inner {
    current: Option<i64>,
    ended: u64,
}

impl Course {
    pub(super) fn new(id: i64) -> Self {
        Self {
            id,
            inner: Mutex::default(),
            changed: watch::Sender::new(0),
            cancelled: watch::Sender::new(false),
        }
    }

    /// The run that waits or runs for it now.
    pub(super) fn current(&self) -> Option<i64> {
        self.inner().current
    }

    /// How many of its runs have ended since it was taken up.
    pub(super) fn ended(&self) -> u64 {
        self.inner().ended
    }

    pub(super) fn begin_run(&self, run: i64) {
        self.inner().current = Some(run);
        self.tell();
    }

    pub(super) fn end_run(&self) {
        let mut inner = self.inner();
        inner.current = None;
        inner.ended += 1;
        drop(inner);
        self.tell();
    }

    pub(super) fn cancel(&self) {
        self.cancelled.send_replace(true);
    }

    pub(super) fn is_cancelled(&self) -> bool {
        *self.cancelled.borrow()
    }

    /// Returns when a person asked to stop.
    pub(super) async fn cancelled(&self) {
        let mut cancelled = self.cancelled.subscribe();
        // The sender lives as long as this.
        let _ = cancelled.wait_for(|asked| *asked).await;
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    pub(super) fn tell(&self) {
        self.changed.send_modify(|version| *version += 1);
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
