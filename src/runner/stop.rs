//! Ending a run early, from any thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use mio::Waker;

/// Ends a run: requests under way are given up or, when only the sending ends, waited for; what was not sent is
/// counted. Clones mean the same run.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    stopped: AtomicBool,
    sent_enough: AtomicBool,
    wakers: Mutex<Vec<Arc<Waker>>>,
}

impl Stop {
    /// A stop that nobody has used yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends the run, now or as soon as it starts.
    pub fn stop(&self) {
        self.shared.stopped.store(true, Ordering::Release);
        self.wake();
    }

    /// Begins no further request of an open loop; those under way come to their own ends.
    pub fn end_sending(&self) {
        self.shared.sent_enough.store(true, Ordering::Release);
        self.wake();
    }

    fn wake(&self) {
        let wakers = self.shared.wakers.lock();
        for waker in wakers.unwrap_or_else(PoisonError::into_inner).iter() {
            // A thread that cannot be woken sees the flag when its batch is due.
            let _ = waker.wake();
        }
    }

    /// Whether the run is to end.
    pub fn is_stopped(&self) -> bool {
        self.shared.stopped.load(Ordering::Acquire)
    }

    /// Whether no further request is to begin.
    pub fn is_sending_over(&self) -> bool {
        self.shared.sent_enough.load(Ordering::Acquire)
    }

    /// Has `waker` woken by [`Stop::stop`] and [`Stop::end_sending`].
    pub(super) fn wakes(&self, waker: Arc<Waker>) {
        let wakers = self.shared.wakers.lock();
        wakers.unwrap_or_else(PoisonError::into_inner).push(waker);
    }

    /// Forgets the wakers of a run that has ended.
    pub(super) fn forget(&self) {
        let wakers = self.shared.wakers.lock();
        wakers.unwrap_or_else(PoisonError::into_inner).clear();
    }
}
