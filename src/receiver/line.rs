//! One way of one stream: what was counted of it, how long it may last, and the switch that ends it.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::sequence::Sequence;
use crate::measure::flow::{Opened, StreamEnd, StreamTick, TcpTick, UdpEnd, UdpTick, Way};
use crate::net::sys::{CpuTimes, TcpInfo, tcp_info, thread_cpu, unacknowledged_bytes};
use crate::net::{clock, connect};

/// How long after its planned end a silent line is given up.
const GRACE: Duration = Duration::from_secs(10);
/// How long a line without a planned end may be silent.
const PATIENCE: Duration = Duration::from_mins(1);
/// How often a thread looks at its own CPU time.
const CPU_STEP: Duration = Duration::from_millis(100);

/// One way of one stream.
pub(super) struct Line {
    pub(super) stream: u32,
    pub(super) way: Way,
    local: Option<SocketAddr>,
    remote: SocketAddr,
    start: Instant,
    limit: Limit,
    socket: Mutex<Option<TcpStream>>,
    over: AtomicBool,
    tally: Mutex<Tally>,
}

/// How long a line may last.
#[derive(Clone, Copy)]
pub(super) struct Limit {
    /// When this receiver cuts it.
    pub(super) hard: Instant,
    /// How long this receiver serves a test.
    pub(super) longest: Duration,
    /// When it is to be over by what the client asked; `None` where that is not known.
    pub(super) planned_end: Option<Instant>,
}

/// What was counted so far.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) bytes: u64,
    pub(super) datagrams_sent: u64,
    pub(super) sequence: Option<Sequence>,
    /// What the other end counted of it.
    pub(super) peer_bytes: Option<u64>,
    pub(super) peer_udp: Option<UdpEnd>,
    acked: Option<u64>,
    /// The kernel's view of a sender, last seen.
    info: Option<TcpInfo>,
    /// What was counted when the omitted time was over.
    omitted: Option<Baseline>,
    first: Option<Instant>,
    last: Option<Instant>,
    ended: Option<Instant>,
    failed: Option<String>,
    remark: Option<String>,
    pub(super) cpu: CpuTimes,
    cpu_at: Option<(Instant, CpuTimes)>,
    told: Told,
}

/// What was counted at one instant: when the omitted time of an iperf 3 test was over.
#[derive(Clone, Copy, Default)]
pub(super) struct Baseline {
    at: Option<Instant>,
    pub(super) bytes: u64,
    acked: u64,
    pub(super) datagrams_sent: u64,
    /// Datagrams that the client had sent, as their numbers tell.
    pub(super) expected: u64,
    pub(super) udp: UdpTick,
    pub(super) retransmits: Option<u64>,
}

/// What the ticks so far have told.
#[derive(Default)]
struct Told {
    until: Option<Instant>,
    bytes: u64,
    datagrams_sent: u64,
    cpu: Duration,
    udp: UdpTick,
    acked: u64,
    info: TcpInfo,
    ended: bool,
}

impl Line {
    pub(super) fn new(
        (stream, way): (u32, Way),
        (local, remote): (Option<SocketAddr>, SocketAddr),
        start: Instant,
        limit: Limit,
        socket: Option<TcpStream>,
        sequence: Option<Sequence>,
    ) -> Self {
        let tally = Tally {
            sequence,
            told: Told {
                until: Some(clock::now()),
                ..Told::default()
            },
            ..Tally::default()
        };
        Self {
            stream,
            way,
            local: local.map(canonical),
            remote: canonical(remote),
            start,
            limit,
            socket: Mutex::new(socket),
            over: AtomicBool::new(false),
            tally: Mutex::new(tally),
        }
    }

    /// Its ends; `None` where it never got one of its own.
    pub(super) fn opened(&self) -> Option<Opened> {
        Some(Opened {
            stream: self.stream,
            way: self.way,
            local: self.local?,
            remote: self.remote,
        })
    }

    pub(super) fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts bytes that came or were handed to the kernel just now.
    pub(super) fn moved(&self, bytes: usize, datagrams_sent: u64) {
        let now = clock::now();
        let mut tally = self.tally();
        tally.bytes += bytes as u64;
        tally.datagrams_sent += datagrams_sent;
        tally.touch(now);
        tally.note_cpu(now);
    }

    /// Whether it is to stop, for whatever reason.
    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Stops it: a thread that waits for its socket is woken. `why` is told at the end of the test.
    pub(super) fn stop(&self, why: Option<&str>) {
        if self.over.swap(true, Ordering::AcqRel) {
            return;
        }
        if let Some(why) = why {
            let mut tally = self.tally();
            if tally.ended.is_none() {
                tally.remark = Some(why.to_owned());
            }
        }
        if let Some(socket) = &*self.socket() {
            // A connection that is already gone needs no more.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    /// Says how its connection failed, unless it was stopped from here.
    pub(super) fn broke(&self, error: &io::Error) {
        if self.is_over() {
            return;
        }
        let vanished = matches!(
            error.kind(),
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock
        );
        let why = if vanished {
            "The client vanished: nothing was heard of it any more.".to_owned()
        } else if connect::is_reset(error) {
            "The client broke the connection off.".to_owned()
        } else {
            format!("The connection failed: {error}.")
        };
        self.tally().remark = Some(why);
    }

    /// Says why it never got going; it is not in the sum.
    pub(super) fn fail(&self, why: String) {
        self.tally().failed = Some(why);
        self.end();
    }

    /// What was counted until now.
    pub(super) fn baseline(&self) -> Baseline {
        self.tally().baseline()
    }

    /// Begins the account anew: what came until now is not in the figures at its end.
    pub(super) fn omit(&self, now: Instant) -> Baseline {
        let mut tally = self.tally();
        let baseline = Baseline {
            at: Some(now),
            ..tally.baseline()
        };
        tally.omitted = Some(baseline);
        baseline
    }

    /// Ends the account; nothing is counted after it.
    pub(super) fn end(&self) {
        let socket = self.socket().take();
        let now = clock::now();
        let mut tally = self.tally();
        if tally.ended.is_some() {
            return;
        }
        tally.note_cpu(now.checked_add(CPU_STEP).unwrap_or(now));
        tally.ended = Some(now);
        if self.way == Way::Send
            && let Some(socket) = socket
        {
            tally.ask(&socket);
        }
    }

    /// Ends it if it has lasted too long or fallen silent.
    pub(super) fn watch(&self, now: Instant) {
        if self.is_over() {
            return;
        }
        let (ended, last) = {
            let tally = self.tally();
            (tally.ended.is_some(), tally.last)
        };
        if ended {
            return;
        }
        let silent_since = last.unwrap_or(self.start);
        if now >= self.limit.hard {
            let longest = self.limit.longest.as_secs_f64();
            self.stop(Some(&format!(
                "Cut off: this receiver serves a test for {longest} s at most."
            )));
            return;
        }
        let silence = now.saturating_duration_since(silent_since);
        let given_up = match self.limit.planned_end {
            Some(end) => now.saturating_duration_since(end) > GRACE && silence > GRACE,
            None => silence > PATIENCE,
        };
        if given_up {
            self.stop(Some(
                "The client vanished: nothing was heard of it any more.",
            ));
        }
    }

    /// What it moved since the tick before; `None` once its end was told.
    pub(super) fn tick(&self, now: Instant) -> Option<StreamTick> {
        let socket = self.socket();
        let mut tally = self.tally();
        let tally = &mut *tally;
        if tally.told.ended {
            return None;
        }
        if self.way == Way::Send
            && let Some(socket) = &*socket
        {
            tally.ask(socket);
        }
        let from = tally.told.until.unwrap_or(self.start);
        let to = tally.ended.unwrap_or(now).min(now).max(from);
        let counts = tally.sequence.as_ref().map(Sequence::counts);
        let cpu = tally.cpu.user + tally.cpu.system;
        let told = &tally.told;
        let tick = StreamTick {
            stream: self.stream,
            way: Some(self.way),
            from: from.saturating_duration_since(self.start),
            to: to.saturating_duration_since(self.start),
            bytes: tally.bytes - told.bytes,
            tcp: tally.info.as_ref().map(|info| {
                let acked = tally.acked.unwrap_or(0).saturating_sub(told.acked);
                tcp_tick(&told.info, info, acked)
            }),
            udp: counts.map(|counts| UdpTick {
                received: counts.received - told.udp.received,
                lost: counts.lost - told.udp.lost,
                out_of_order: counts.out_of_order - told.udp.out_of_order,
                duplicated: counts.duplicated - told.udp.duplicated,
                dropped_by_receiver: counts.dropped_by_receiver - told.udp.dropped_by_receiver,
                jitter: counts.jitter,
            }),
            datagrams_sent: tally.datagrams_sent - told.datagrams_sent,
            cpu: cpu.saturating_sub(told.cpu),
        };
        tally.told = Told {
            until: Some(to),
            bytes: tally.bytes,
            datagrams_sent: tally.datagrams_sent,
            cpu,
            udp: counts.unwrap_or_default(),
            acked: tally.acked.unwrap_or(0),
            info: tally.info.unwrap_or_default(),
            ended: tally.ended.is_some(),
        };
        Some(tick)
    }

    /// The account at its end, and a sentence if it did not end as it should.
    pub(super) fn summary(&self) -> (StreamEnd, Option<String>, CpuTimes) {
        let tally = self.tally();
        let since = |at: Instant| at.saturating_duration_since(self.start);
        let before = tally.omitted.unwrap_or_default();
        let udp = match (&tally.sequence, tally.peer_udp) {
            (Some(sequence), _) => Some(UdpEnd {
                datagrams: sequence.expected() - before.expected,
                lost: sequence
                    .lost()
                    .saturating_sub(u64::try_from(before.udp.lost).unwrap_or(0)),
                out_of_order: sequence.out_of_order - before.udp.out_of_order,
                duplicated: Some(sequence.duplicated - before.udp.duplicated),
                jitter: sequence.jitter(),
                dropped_by_receiver: Some(sequence.dropped - before.udp.dropped_by_receiver),
            }),
            (None, peer) => peer,
        };
        let last = tally
            .last
            .filter(|last| before.at.is_none_or(|at| *last > at));
        let first = before
            .at
            .filter(|_| last.is_some())
            .or(tally.first.filter(|_| before.at.is_none()));
        let end = StreamEnd {
            stream: self.stream,
            way: Some(self.way),
            local: self.local,
            remote: Some(self.remote),
            first: first.map(since),
            last: last.map(since),
            bytes: tally.bytes - before.bytes,
            acked_bytes: tally.acked.map(|acked| acked.saturating_sub(before.acked)),
            peer_bytes: tally.peer_bytes,
            retransmits: tally
                .retransmits()
                .map(|count| count.saturating_sub(before.retransmits.unwrap_or(0))),
            rtt: tally.info.map(|info| info.rtt),
            datagrams_sent: (tally.datagrams_sent > 0)
                .then_some(tally.datagrams_sent - before.datagrams_sent),
            udp,
            failed: tally.failed.clone(),
        };
        (end, tally.remark.clone(), tally.cpu)
    }

    fn socket(&self) -> MutexGuard<'_, Option<TcpStream>> {
        self.socket.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tally {
    pub(super) fn touch(&mut self, now: Instant) {
        self.first.get_or_insert(now);
        self.last = Some(now);
    }

    fn baseline(&self) -> Baseline {
        Baseline {
            at: None,
            bytes: self.bytes,
            acked: self.acked.unwrap_or(0),
            datagrams_sent: self.datagrams_sent,
            expected: self.sequence.as_ref().map_or(0, Sequence::expected),
            udp: self
                .sequence
                .as_ref()
                .map(Sequence::counts)
                .unwrap_or_default(),
            retransmits: self.retransmits(),
        }
    }

    /// Asks the kernel how a sender is doing.
    fn ask(&mut self, socket: &TcpStream) {
        if let Ok(waiting) = unacknowledged_bytes(socket) {
            // Bytes that are handed over right now may not be counted yet.
            let acked = self.bytes.saturating_sub(waiting as u64);
            self.acked = Some(self.acked.unwrap_or(0).max(acked));
        }
        if let Ok(info) = tcp_info(socket) {
            self.info = Some(info);
        }
    }

    /// Segments of a sender that were sent again.
    pub(super) fn retransmits(&self) -> Option<u64> {
        self.info.map(|info| u64::from(info.total_retrans))
    }

    /// Time from the first byte to the last.
    pub(super) fn span(&self) -> Duration {
        match (self.first, self.last) {
            (Some(first), Some(last)) => last.saturating_duration_since(first),
            _ => Duration::ZERO,
        }
    }

    /// Adds the CPU time of the calling thread, which must be this line's own, now and then.
    fn note_cpu(&mut self, now: Instant) {
        let Some((at, before)) = self.cpu_at else {
            // A line of many streams on one thread is not the thread's own.
            if self.sequence.is_none() {
                self.cpu_at = Some((now, thread_cpu()));
            }
            return;
        };
        if now.saturating_duration_since(at) < CPU_STEP {
            return;
        }
        let times = thread_cpu();
        self.cpu.user += times.user.saturating_sub(before.user);
        self.cpu.system += times.system.saturating_sub(before.system);
        self.cpu_at = Some((now, times));
    }
}

/// What the kernel's figures say of the interval between two readings.
fn tcp_tick(before: &TcpInfo, after: &TcpInfo, acked_bytes: u64) -> TcpTick {
    let time = |read: fn(&TcpInfo) -> Option<Duration>| {
        let before = read(before).unwrap_or_default();
        read(after).unwrap_or_default().saturating_sub(before)
    };
    TcpTick {
        acked_bytes,
        retransmits: u64::from(after.total_retrans.saturating_sub(before.total_retrans)),
        retransmitted_bytes: after
            .bytes_retrans
            .unwrap_or(0)
            .saturating_sub(before.bytes_retrans.unwrap_or(0)),
        rtt: after.rtt,
        min_rtt: after.min_rtt.unwrap_or_default(),
        cwnd_bytes: u64::from(after.snd_cwnd) * u64::from(after.snd_mss),
        mss_bytes: after.snd_mss,
        busy: time(|info| info.busy),
        rwnd_limited: time(|info| info.rwnd_limited),
        sndbuf_limited: time(|info| info.sndbuf_limited),
        peer_window_bytes: after.snd_wnd.map(u64::from),
    }
}

/// An IPv4 address that came through an IPv6 socket, as IPv4.
pub(super) fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}
