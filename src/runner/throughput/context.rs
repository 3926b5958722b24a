//! What all threads of a throughput run share.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::measure::plan::throughput::{Dialect, Direction, Receive, ThroughputPlan};
use crate::net::clock::Epoch;
use crate::net::tcp_flow::FlowOptions;
use crate::runner::Stop;
use crate::wire::own::Own;

/// A peer that moves nothing for so long is gone.
pub(super) const NO_PROGRESS: Duration = Duration::from_secs(10);
/// A connection that is not up by then has failed.
pub(super) const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// A run under way.
pub(super) struct Context<'a> {
    pub(super) plan: &'a ThroughputPlan,
    pub(super) address: SocketAddr,
    pub(super) options: FlowOptions,
    stop: &'a Stop,
    pub(super) epoch: Epoch,
    /// Nothing counts any more (iperf 3).
    over: AtomicBool,
    /// Nobody reads or writes any more (iperf 3).
    closing: AtomicBool,
    /// Bytes that all streams together may still send; `None` = each stream by itself.
    shared: Option<AtomicI64>,
    remarks: Mutex<Vec<String>>,
    peer: Mutex<Peer>,
}

/// What the other end says of itself.
#[derive(Clone, Debug, Default)]
struct Peer {
    name: Option<String>,
    own: Option<Own>,
}

impl<'a> Context<'a> {
    /// A run whose instants count from `epoch`.
    pub(super) fn new(
        plan: &'a ThroughputPlan,
        address: SocketAddr,
        options: FlowOptions,
        stop: &'a Stop,
        epoch: Epoch,
    ) -> Self {
        let shared = plan
            .bytes
            .filter(|_| plan.dialect == Dialect::Iperf3)
            .map(|bytes| AtomicI64::new(i64::try_from(bytes).unwrap_or(i64::MAX)));
        Self {
            plan,
            address,
            options,
            stop,
            epoch,
            over: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            shared,
            remarks: Mutex::new(Vec::new()),
            peer: Mutex::default(),
        }
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.epoch.elapsed()
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.is_stopped()
    }

    /// Whether no more bytes count.
    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire) || self.is_stopped()
    }

    pub(super) fn set_over(&self) {
        self.over.store(true, Ordering::Release);
    }

    /// Ends everything: the run could not start whole.
    pub(super) fn give_up(&self) {
        self.stop.stop();
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire) || self.is_stopped()
    }

    pub(super) fn set_closing(&self) {
        self.closing.store(true, Ordering::Release);
    }

    /// How long each direction lasts, omitted time included; `None` when bytes bound it.
    pub(super) fn lasting(&self) -> Option<Duration> {
        let seconds = self.plan.duration_s? + self.plan.omit_s;
        Duration::try_from_secs_f64(seconds).ok()
    }

    /// A sentence for the report, once.
    pub(super) fn remark(&self, sentence: impl Into<String>) {
        let sentence = sentence.into();
        let mut remarks = self.remarks.lock().unwrap_or_else(PoisonError::into_inner);
        if !remarks.contains(&sentence) {
            remarks.push(sentence);
        }
    }

    pub(super) fn take_remarks(&self) -> Vec<String> {
        std::mem::take(&mut *self.remarks.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The peer has said what it is and, where it is one of ours, what it does.
    pub(super) fn set_peer(&self, name: String, own: Option<Own>) {
        let mut peer = self.peer.lock().unwrap_or_else(PoisonError::into_inner);
        peer.name = Some(name);
        peer.own = own.or(peer.own);
    }

    pub(super) fn peer(&self) -> Option<String> {
        let peer = self.peer.lock().unwrap_or_else(PoisonError::into_inner);
        peer.name.clone()
    }

    /// Whether the peer has said that it throws away what it receives.
    pub(super) fn peer_discards(&self) -> bool {
        let peer = self.peer.lock().unwrap_or_else(PoisonError::into_inner);
        peer.own.is_some_and(|own| own.discard)
    }

    /// Whether all bytes that the streams share are spoken for.
    pub(super) fn is_spent(&self) -> bool {
        self.shared
            .as_ref()
            .is_some_and(|left| left.load(Ordering::Acquire) <= 0)
    }

    /// What all streams together may still receive, where they share it (iperf 3 by bytes, the peer sends).
    pub(super) fn received_allowance(&self) -> Option<Allowance<'_>> {
        let left = self.shared.as_ref()?;
        (self.plan.direction == Direction::Receive).then_some(Allowance::Shared(left))
    }

    /// What one stream may send.
    pub(super) fn allowance(&self) -> Allowance<'_> {
        match &self.shared {
            Some(left) => Allowance::Shared(left),
            None => match self.plan.bytes {
                Some(bytes) => Allowance::Own(bytes),
                None => Allowance::Endless,
            },
        }
    }
}

/// What a plan asks of a peer that is one of ours.
pub(super) fn own(plan: &ThroughputPlan) -> Own {
    Own {
        discard: plan.receive == Receive::Discard,
        offload: plan.offload,
        ..Own::default()
    }
}

/// Bytes that a stream may still send.
pub(super) enum Allowance<'a> {
    Endless,
    Own(u64),
    Shared(&'a AtomicI64),
}

impl Allowance<'_> {
    /// Takes up to `most` bytes out of it; 0 when none are left.
    pub(super) fn claim(&mut self, most: u64) -> u64 {
        match self {
            Self::Endless => most,
            Self::Own(left) => {
                let taken = most.min(*left);
                *left -= taken;
                taken
            }
            Self::Shared(left) => {
                let asked = i64::try_from(most).unwrap_or(i64::MAX);
                let before = left.fetch_sub(asked, Ordering::AcqRel);
                let taken = before.clamp(0, asked);
                left.fetch_add(asked - taken, Ordering::AcqRel);
                taken.unsigned_abs()
            }
        }
    }

    /// Gives back what was claimed and not sent.
    pub(super) fn give_back(&mut self, bytes: u64) {
        match self {
            Self::Endless => {}
            Self::Own(left) => *left += bytes,
            Self::Shared(left) => {
                left.fetch_add(i64::try_from(bytes).unwrap_or(0), Ordering::AcqRel);
            }
        }
    }
}

/// Tells a peer that is gone from one that is slow.
pub(super) struct Progress {
    moved: u64,
    at: Duration,
}

impl Progress {
    pub(super) fn new(now: Duration) -> Self {
        Self { moved: 0, at: now }
    }

    /// So much has been moved by now; true when nothing has for too long.
    pub(super) fn is_gone(&mut self, moved: u64, now: Duration) -> bool {
        if moved != self.moved {
            self.moved = moved;
            self.at = now;
        }
        now.saturating_sub(self.at) >= NO_PROGRESS
    }

    /// Nothing was to move until now.
    pub(super) fn rest(&mut self, now: Duration) {
        self.at = now;
    }

    /// When something last moved.
    pub(super) fn at(&self) -> Duration {
        self.at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_allowance_is_given_out_once() {
        let left = AtomicI64::new(250);
        let (mut one, mut other) = (Allowance::Shared(&left), Allowance::Shared(&left));
        assert_eq!(
            (one.claim(100), other.claim(100), one.claim(100)),
            (100, 100, 50)
        );
        assert_eq!(other.claim(100), 0);
        one.give_back(30);
        assert_eq!((other.claim(100), one.claim(1)), (30, 0));
        let mut own = Allowance::Own(5);
        assert_eq!((own.claim(3), own.claim(3), own.claim(3)), (3, 2, 0));
    }

    #[test]
    fn only_standing_still_for_long_is_being_gone() {
        let mut progress = Progress::new(Duration::ZERO);
        assert!(!progress.is_gone(5, Duration::from_secs(9)));
        assert!(!progress.is_gone(6, Duration::from_secs(18)));
        assert!(!progress.is_gone(6, Duration::from_secs(27)));
        assert!(progress.is_gone(6, Duration::from_secs(28)));
        assert_eq!(progress.at(), Duration::from_secs(18));
    }
}
