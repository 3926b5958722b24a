//! One stream in one direction, as its thread writes it and the sampler reads it.

use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use crate::measure::arrivals::ArrivalCounts;
use crate::measure::flow::{UdpEnd, Way};
use crate::net::sys::{self, TcpInfo, ThreadClock};

/// A UDP receiver's counts so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct UdpTotals {
    /// From the ids.
    pub(super) counts: ArrivalCounts,
    /// Datagrams that the sender has sent, as the ids tell.
    pub(super) expected: u64,
    /// Dropped by the socket's buffer.
    pub(super) dropped: u64,
}

/// What is known of a flow.
pub(super) struct Flow {
    /// From 1.
    pub(super) stream: u32,
    pub(super) way: Way,
    pub(super) local: Option<SocketAddr>,
    pub(super) remote: OnceLock<SocketAddr>,
    socket: Option<Arc<TcpStream>>,
    /// Acknowledged before the first byte of the test.
    base_acked: u64,
    bytes: AtomicU64,
    datagrams: AtomicU64,
    /// Instants in ns since the start, one added; 0 = none.
    first: AtomicU64,
    last: AtomicU64,
    clock: OnceLock<ThreadClock>,
    cpu_nanos: AtomicU64,
    info: Mutex<Option<TcpInfo>>,
    udp: Mutex<Option<UdpTotals>>,
    ended: AtomicBool,
    /// Why it failed.
    pub(super) failed: OnceLock<String>,
    /// Bytes that the peer counted.
    pub(super) peer_bytes: OnceLock<u64>,
    /// What the peer counted of our datagrams.
    pub(super) peer_udp: OnceLock<UdpEnd>,
    /// Segments that the peer sent again.
    pub(super) peer_retransmits: OnceLock<u64>,
}

impl Flow {
    /// A flow over a TCP connection.
    pub(super) fn tcp(stream: u32, way: Way, socket: &Arc<TcpStream>) -> Self {
        let mut flow = Self::new(stream, way);
        flow.local = socket.local_addr().ok();
        if let Ok(remote) = socket.peer_addr() {
            let _ = flow.remote.set(remote);
        }
        flow.base_acked = sys::tcp_info(&**socket)
            .ok()
            .and_then(|info| info.bytes_acked)
            .unwrap_or(0);
        flow.socket = Some(Arc::clone(socket));
        flow
    }

    /// A flow of datagrams.
    pub(super) fn udp(
        stream: u32,
        way: Way,
        local: Option<SocketAddr>,
        remote: Option<SocketAddr>,
    ) -> Self {
        let mut flow = Self::new(stream, way);
        flow.local = local;
        if let Some(remote) = remote {
            let _ = flow.remote.set(remote);
        }
        flow
    }

    /// A flow that never came to be.
    pub(super) fn failed(stream: u32, way: Way, remote: SocketAddr, why: String) -> Self {
        let flow = Self::new(stream, way);
        let _ = flow.remote.set(remote);
        let _ = flow.failed.set(why);
        flow.ended.store(true, Ordering::Release);
        flow
    }

    fn new(stream: u32, way: Way) -> Self {
        Self {
            stream,
            way,
            local: None,
            remote: OnceLock::new(),
            socket: None,
            base_acked: 0,
            bytes: AtomicU64::new(0),
            datagrams: AtomicU64::new(0),
            first: AtomicU64::new(0),
            last: AtomicU64::new(0),
            clock: OnceLock::new(),
            cpu_nanos: AtomicU64::new(0),
            info: Mutex::new(None),
            udp: Mutex::new(None),
            ended: AtomicBool::new(false),
            failed: OnceLock::new(),
            peer_bytes: OnceLock::new(),
            peer_udp: OnceLock::new(),
            peer_retransmits: OnceLock::new(),
        }
    }

    /// Runs `work` as this flow's thread; what it says is why the flow failed.
    pub(super) fn run(&self, work: impl FnOnce() -> Result<(), String>) {
        let clock = ThreadClock::current();
        if let Some(clock) = clock {
            let _ = self.clock.set(clock);
        }
        if let Err(why) = work() {
            let _ = self.failed.set(why);
        }
        // The connection may be closed soon, and the thread's clock ends with it.
        let info = self.fresh_info();
        *self.info.lock().unwrap_or_else(PoisonError::into_inner) = info;
        if let Some(time) = clock.and_then(ThreadClock::time) {
            self.cpu_nanos.store(nanos(time), Ordering::Relaxed);
        }
        self.ended.store(true, Ordering::Release);
    }

    /// Ends a flow that has no thread of its own.
    pub(super) fn end(&self, why: Option<String>) {
        if let Some(why) = why {
            let _ = self.failed.set(why);
        }
        self.ended.store(true, Ordering::Release);
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Bytes were sent or came.
    pub(super) fn count(&self, bytes: u64, datagrams: u64, now: Duration) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if datagrams > 0 {
            self.datagrams.fetch_add(datagrams, Ordering::Relaxed);
        }
        let stamp = nanos(now) + 1;
        if self.first.load(Ordering::Relaxed) == 0 {
            self.first.store(stamp, Ordering::Relaxed);
        }
        self.last.store(stamp, Ordering::Relaxed);
    }

    /// Nothing after this instant belongs to the flow.
    pub(super) fn ends_at(&self, now: Duration) {
        if self.first.load(Ordering::Relaxed) != 0 {
            self.last.store(nanos(now) + 1, Ordering::Relaxed);
        }
    }

    pub(super) fn set_udp(&self, totals: UdpTotals) {
        *self.udp.lock().unwrap_or_else(PoisonError::into_inner) = Some(totals);
    }

    pub(super) fn udp_totals(&self) -> Option<UdpTotals> {
        *self.udp.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(super) fn datagrams(&self) -> u64 {
        self.datagrams.load(Ordering::Relaxed)
    }

    pub(super) fn first(&self) -> Option<Duration> {
        instant(&self.first)
    }

    pub(super) fn last(&self) -> Option<Duration> {
        instant(&self.last)
    }

    /// CPU time of its thread so far.
    pub(super) fn cpu(&self) -> Duration {
        let kept = Duration::from_nanos(self.cpu_nanos.load(Ordering::Relaxed));
        if self.has_ended() {
            return kept;
        }
        let clock = self.clock.get().copied();
        clock.and_then(ThreadClock::time).unwrap_or(kept)
    }

    /// The kernel's figures of a TCP sender.
    pub(super) fn info(&self) -> Option<TcpInfo> {
        if self.way == Way::Receive {
            return None;
        }
        if self.has_ended() {
            return *self.info.lock().unwrap_or_else(PoisonError::into_inner);
        }
        self.fresh_info()
    }

    fn fresh_info(&self) -> Option<TcpInfo> {
        sys::tcp_info(&**self.socket.as_ref()?).ok()
    }

    /// Bytes of the test that the peer's kernel acknowledged by these figures; SYN and FIN do not count.
    pub(super) fn acked(&self, info: &TcpInfo) -> Option<u64> {
        let acked = info.bytes_acked?.saturating_sub(self.base_acked);
        Some(acked.min(self.bytes()))
    }

    /// The same now; what was written where the kernel does not tell.
    pub(super) fn acked_now(&self) -> u64 {
        self.info()
            .and_then(|info| self.acked(&info))
            .unwrap_or_else(|| self.bytes())
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX - 1)
}

fn instant(stamp: &AtomicU64) -> Option<Duration> {
    let stamp = stamp.load(Ordering::Relaxed);
    stamp.checked_sub(1).map(Duration::from_nanos)
}
