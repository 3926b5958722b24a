//! What one connection is doing, as its timers and the caps need to know it.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::ServeLimits;
use crate::net::clock;

/// What one connection is doing. Written by its own task only; read by the caps and the drain.
#[derive(Debug)]
pub(super) struct Activity {
    start: Instant,
    doing: AtomicU8,
    /// Since when, in µs after `start`.
    since: AtomicU64,
    /// Since when the client has taken no byte, in µs after `start` plus one; 0 = it takes them.
    stalled: AtomicU64,
    event_stream: AtomicBool,
    /// Whether bytes of the client may lie unread when the connection ends.
    unread: AtomicBool,
    /// Told to end now.
    pub(super) close: Notify,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Doing {
    /// No byte of a request yet, or none since the last reply.
    Idle,
    /// Part of a head is here.
    Head,
    /// A request is being answered.
    Busy,
    /// The reply is out; what the client still sends is thrown away.
    Lingering,
}

impl Activity {
    pub(super) fn new() -> Self {
        Self {
            start: clock::now(),
            doing: AtomicU8::new(Doing::Idle as u8),
            since: AtomicU64::new(0),
            stalled: AtomicU64::new(0),
            event_stream: AtomicBool::new(false),
            unread: AtomicBool::new(false),
            close: Notify::new(),
        }
    }

    pub(super) fn is_busy(&self) -> bool {
        self.doing() == Doing::Busy
    }

    pub(super) fn is_event_stream(&self) -> bool {
        self.event_stream.load(Relaxed)
    }

    /// Since when nothing is being answered, for eviction: the oldest goes first. `None` while busy.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        (self.doing() != Doing::Busy).then(|| self.instant(self.since.load(Relaxed)))
    }

    pub(super) fn begin(&self, doing: Doing) {
        self.doing.store(doing as u8, Relaxed);
        self.since.store(self.micros(), Relaxed);
        if doing == Doing::Busy {
            self.event_stream.store(false, Relaxed);
        }
    }

    /// Bytes came in.
    pub(super) fn received(&self) {
        if self.doing() == Doing::Idle {
            self.begin(Doing::Head);
        }
    }

    /// The client takes bytes, or takes none.
    pub(super) fn writing(&self, stalled: bool) {
        if !stalled {
            self.stalled.store(0, Relaxed);
        } else if self.stalled.load(Relaxed) == 0 {
            self.stalled.store(self.micros() + 1, Relaxed);
        }
    }

    pub(super) fn mark_event_stream(&self) {
        self.event_stream.store(true, Relaxed);
    }

    pub(super) fn mark_unread(&self, unread: bool) {
        self.unread.store(unread, Relaxed);
    }

    /// Closing while bytes lie unread resets the connection, and the client may never see the reply.
    pub(super) fn must_linger(&self) -> bool {
        self.unread.load(Relaxed) || matches!(self.doing(), Doing::Head | Doing::Lingering)
    }

    /// When the connection has to end unless something happens; `None` = it may take its time.
    pub(super) fn deadline(&self, limits: &ServeLimits) -> Option<Instant> {
        let since = self.instant(self.since.load(Relaxed));
        let doing = match self.doing() {
            Doing::Idle => Some(since + limits.idle),
            Doing::Head => Some(since + limits.head),
            Doing::Lingering => Some(since + LINGER),
            Doing::Busy => None,
        };
        let stalled = match self.stalled.load(Relaxed) {
            0 => None,
            micros => Some(self.instant(micros - 1) + limits.stall),
        };
        match (doing, stalled) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    fn doing(&self) -> Doing {
        match self.doing.load(Relaxed) {
            0 => Doing::Idle,
            1 => Doing::Head,
            2 => Doing::Busy,
            _ => Doing::Lingering,
        }
    }

    fn micros(&self) -> u64 {
        u64::try_from(clock::now().duration_since(self.start).as_micros()).unwrap_or(u64::MAX)
    }

    fn instant(&self, micros: u64) -> Instant {
        self.start + Duration::from_micros(micros)
    }
}

/// How long a client may go on sending after its last reply.
const LINGER: Duration = Duration::from_secs(2);
