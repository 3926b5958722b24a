//! Reads all flows at the same instants, on the caller's thread, and hands over what happened in between.

use std::sync::Arc;
use std::time::Duration;

use super::Beside;
use super::flow::{Flow, UdpTotals};
use crate::measure::flow::{
    Echo, FlowBatch, Opened, StreamEnd, StreamTick, TcpTick, UdpEnd, UdpTick, Way,
};
use crate::measure::plan::throughput::ThroughputPlan;
use crate::net::clock::Epoch;
use crate::net::machine::CpuMeter;
use crate::net::sys::TcpInfo;

/// The caller looks at least so often for flows that have ended.
const LOOK: Duration = Duration::from_millis(50);
/// Round trips of the probe wait no longer than this.
const HEARTBEAT: Duration = Duration::from_millis(250);

/// All flows of a run and what was last seen of them.
pub(super) struct Sampler<'s> {
    epoch: Epoch,
    interval: Duration,
    omit: Duration,
    /// Whether the peer's counts begin when the omitted time is over.
    peer_omits: bool,
    /// Start of the interval under way.
    from: Duration,
    /// Number of the interval under way, from 1.
    number: u32,
    tracks: Vec<Track>,
    cpu: CpuMeter,
    probe: Option<&'s mut dyn Beside>,
    heard: Duration,
    sink: &'s mut dyn FnMut(FlowBatch),
}

struct Track {
    flow: Arc<Flow>,
    /// When it was added: its first interval begins there.
    since: Duration,
    seen: Seen,
    /// What was seen at the end of the omitted time.
    omitted: Option<Seen>,
    /// Whether its addresses are told.
    introduced: bool,
    /// Its last tick is out.
    done: bool,
}

/// What an iperf 3 peer wants to know of a flow: without the omitted start.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counted {
    /// Bytes since then.
    pub(super) bytes: u64,
    /// Segments sent again since then.
    pub(super) retransmits: Option<u64>,
    /// Datagrams sent, or expected where they are received, in the omitted time.
    pub(super) omitted_datagrams: u64,
    /// Datagrams lost in it.
    pub(super) omitted_lost: u64,
}

/// Counters at one instant.
#[derive(Clone, Copy, Default)]
struct Seen {
    bytes: u64,
    acked: u64,
    datagrams: u64,
    cpu: Duration,
    info: Option<TcpInfo>,
    udp: Option<UdpTotals>,
}

impl<'s> Sampler<'s> {
    pub(super) fn new(
        epoch: Epoch,
        plan: &ThroughputPlan,
        probe: Option<&'s mut dyn Beside>,
        sink: &'s mut dyn FnMut(FlowBatch),
    ) -> Self {
        let duration = |seconds| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::ZERO);
        Self {
            epoch,
            interval: duration(plan.interval_s).max(Duration::from_millis(10)),
            omit: duration(plan.omit_s),
            peer_omits: plan.peer_omits(),
            from: Duration::ZERO,
            number: 1,
            tracks: Vec::new(),
            cpu: CpuMeter::new(),
            probe,
            heard: Duration::ZERO,
            sink,
        }
    }

    /// Follows a flow that begins at `since`.
    pub(super) fn add(&mut self, flow: &Arc<Flow>, since: Duration) {
        let done = flow.failed.get().is_some() && flow.has_ended();
        self.tracks.push(Track {
            flow: Arc::clone(flow),
            since,
            seen: look(flow),
            omitted: self.omit.is_zero().then(Seen::default),
            introduced: done,
            done,
        });
    }

    /// How long the caller may wait until it looks again.
    pub(super) fn pause(&self) -> Duration {
        self.next()
            .saturating_sub(self.epoch.elapsed())
            .clamp(Duration::from_micros(100), LOOK)
    }

    /// End of the interval under way: by the plan, or where omitted time ends.
    fn next(&self) -> Duration {
        let omits = self
            .tracks
            .iter()
            .filter(|track| track.omitted.is_none() && !track.done)
            .map(|track| track.since + self.omit);
        omits.fold(self.interval * self.number, Duration::min)
    }

    /// Takes a sample if one is due, and hands on what the probe has heard.
    pub(super) fn step(&mut self) {
        let now = self.epoch.elapsed();
        if now >= self.next() {
            self.sample(now);
            return;
        }
        let opened = self.opened();
        let mut echoes = Vec::new();
        if now >= self.heard + HEARTBEAT {
            self.heard = now;
            echoes = self.echoes();
        }
        if !opened.is_empty() || !echoes.is_empty() {
            (self.sink)(FlowBatch {
                until: self.from,
                opened,
                echoes,
                ..FlowBatch::default()
            });
        }
    }

    /// The flows whose ends have become known.
    fn opened(&mut self) -> Vec<Opened> {
        let tracks = self.tracks.iter_mut();
        tracks.filter_map(Track::introduce).collect()
    }

    /// Takes the last sample, of an interval that may be shorter, and returns its instant.
    pub(super) fn finish(&mut self) -> Duration {
        let now = self.epoch.elapsed();
        self.sample(now);
        now
    }

    /// What the probe has heard; once all flows have ended the path is idle again, and that is not asked for.
    fn echoes(&mut self) -> Vec<Echo> {
        let Some(probe) = &mut self.probe else {
            return Vec::new();
        };
        let mut echoes = probe.take();
        if self.tracks.iter().all(|track| track.flow.has_ended()) {
            let last = self.tracks.iter().filter_map(|track| track.flow.last());
            let last = last.max().unwrap_or_default();
            echoes.retain(|echo| !echo.loaded || echo.at <= last);
        }
        echoes
    }

    fn sample(&mut self, now: Duration) {
        let mut ticks = Vec::with_capacity(self.tracks.len());
        for track in &mut self.tracks {
            if let Some(tick) = track.tick(self.from, now) {
                ticks.push(tick);
            }
            if track.omitted.is_none() && now >= track.since + self.omit {
                track.omitted = Some(track.seen);
            }
        }
        self.from = now;
        self.heard = now;
        // An interval that was slept through does not come back.
        while self.interval * self.number <= now {
            self.number += 1;
        }
        let batch = FlowBatch {
            until: now,
            opened: self.opened(),
            ticks,
            echoes: self.echoes(),
            cpu: self.cpu.tick(),
        };
        (self.sink)(batch);
    }

    /// Every flow at its end; without its omitted start where the peer leaves that out too.
    pub(super) fn ends(&self) -> Vec<StreamEnd> {
        let end = |track: &Track| {
            if self.peer_omits {
                track.end_counted(self.omit)
            } else {
                track.end()
            }
        };
        let mut ends: Vec<StreamEnd> = self.tracks.iter().map(end).collect();
        ends.sort_by_key(|end| (end.way, end.stream));
        ends
    }

    /// A flow at its end, with its omitted start.
    pub(super) fn whole(&self, flow: &Arc<Flow>) -> Option<StreamEnd> {
        let is_it = |track: &&Track| Arc::ptr_eq(&track.flow, flow);
        self.tracks.iter().find(is_it).map(Track::end)
    }

    /// A flow without its omitted start.
    pub(super) fn counted(&self, flow: &Arc<Flow>) -> Option<Counted> {
        let is_it = |track: &&Track| Arc::ptr_eq(&track.flow, flow);
        self.tracks.iter().find(is_it).map(Track::counted)
    }
}

impl Track {
    /// Its ends, once, as soon as both are known.
    fn introduce(&mut self) -> Option<Opened> {
        if self.introduced {
            return None;
        }
        let opened = Opened {
            stream: self.flow.stream,
            way: self.flow.way,
            local: self.flow.local?,
            remote: self.flow.remote.get().copied()?,
        };
        self.introduced = true;
        Some(opened)
    }

    fn tick(&mut self, from: Duration, to: Duration) -> Option<StreamTick> {
        let from = from.max(self.since);
        if self.done || to <= from {
            return None;
        }
        // Asked before the counters are read: they are final then.
        self.done = self.flow.has_ended();
        let (before, after) = (self.seen, look(&self.flow));
        self.seen = after;
        let sends = self.flow.way == Way::Send;
        let bytes = match after
            .info
            .filter(|info| sends && info.bytes_acked.is_some())
        {
            Some(_) => after.acked.saturating_sub(before.acked),
            None => after.bytes.saturating_sub(before.bytes),
        };
        let mut to = to;
        if self.done {
            // Its own end, not that of the others.
            to = self.flow.last().unwrap_or(from).min(to);
            if to <= from && bytes == 0 && after.bytes == before.bytes {
                return None;
            }
            to = to.max(from + Duration::from_nanos(1));
        }
        Some(StreamTick {
            stream: self.flow.stream,
            way: Some(self.flow.way),
            from,
            to,
            bytes,
            tcp: after
                .info
                .map(|info| tcp_tick(before.info.as_ref(), &info, bytes)),
            udp: after
                .udp
                .map(|totals| udp_tick(&before.udp.unwrap_or_default(), &totals)),
            datagrams_sent: if sends {
                after.datagrams.saturating_sub(before.datagrams)
            } else {
                0
            },
            cpu: after.cpu.saturating_sub(before.cpu),
        })
    }

    fn end(&self) -> StreamEnd {
        let flow = &self.flow;
        let now = look(flow);
        let sends = flow.way == Way::Send;
        StreamEnd {
            stream: flow.stream,
            way: Some(flow.way),
            local: flow.local,
            remote: flow.remote.get().copied(),
            first: flow.first(),
            last: flow.last(),
            bytes: now.bytes,
            acked_bytes: now
                .info
                .filter(|info| info.bytes_acked.is_some())
                .map(|_| now.acked),
            peer_bytes: flow.peer_bytes.get().copied(),
            retransmits: now
                .info
                .as_ref()
                .map(|info| u64::from(info.total_retrans))
                .or_else(|| flow.peer_retransmits.get().copied()),
            rtt: now.info.map(|info| info.rtt),
            datagrams_sent: (sends && now.datagrams > 0).then_some(now.datagrams),
            udp: match now.udp {
                Some(totals) => Some(udp_end(&totals)),
                None => flow.peer_udp.get().copied(),
            },
            failed: flow.failed.get().cloned(),
        }
    }

    fn end_counted(&self, omit: Duration) -> StreamEnd {
        let whole = self.end();
        let counted = self.counted();
        let before = self.omitted.unwrap_or_else(|| look(&self.flow));
        let begin = self.since + omit;
        let lasts = whole.last.is_some_and(|last| last > begin);
        let own = before.udp.unwrap_or_default();
        StreamEnd {
            first: lasts.then_some(begin),
            last: whole.last.filter(|_| lasts),
            bytes: counted.bytes,
            acked_bytes: whole
                .acked_bytes
                .map(|bytes| bytes.saturating_sub(before.acked)),
            // The peer's count of a flow that it sent is without the omitted time already.
            retransmits: counted.retransmits.or(whole.retransmits),
            datagrams_sent: whole
                .datagrams_sent
                .map(|sent| sent.saturating_sub(before.datagrams)),
            udp: whole.udp.map(|udp| match before.udp {
                Some(_) => UdpEnd {
                    datagrams: udp.datagrams.saturating_sub(own.expected),
                    lost: udp.lost.saturating_sub(own.counts.lost),
                    out_of_order: udp.out_of_order.saturating_sub(own.counts.out_of_order),
                    duplicated: udp
                        .duplicated
                        .map(|count| count.saturating_sub(own.counts.duplicated)),
                    dropped_by_receiver: udp
                        .dropped_by_receiver
                        .map(|count| count.saturating_sub(own.dropped)),
                    jitter: udp.jitter,
                },
                None => udp,
            }),
            ..whole
        }
    }

    fn counted(&self) -> Counted {
        let now = look(&self.flow);
        // A flow that ended before the omitted time did has nothing that counts.
        let before = self.omitted.unwrap_or(now);
        let retransmits = |seen: &Seen| seen.info.map(|info| u64::from(info.total_retrans));
        let udp = before.udp.unwrap_or_default();
        Counted {
            bytes: now.bytes.saturating_sub(before.bytes),
            retransmits: retransmits(&now)
                .map(|count| count.saturating_sub(retransmits(&before).unwrap_or(0))),
            omitted_datagrams: match self.flow.way {
                Way::Send => before.datagrams,
                Way::Receive => udp.expected,
            },
            omitted_lost: udp.counts.lost,
        }
    }
}

fn look(flow: &Flow) -> Seen {
    let info = flow.info();
    Seen {
        bytes: flow.bytes(),
        acked: info.and_then(|info| flow.acked(&info)).unwrap_or(0),
        datagrams: flow.datagrams(),
        cpu: flow.cpu(),
        info,
        udp: flow.udp_totals(),
    }
}

fn tcp_tick(before: Option<&TcpInfo>, after: &TcpInfo, acked_bytes: u64) -> TcpTick {
    let nothing = TcpInfo::default();
    let before = before.unwrap_or(&nothing);
    let time = |read: fn(&TcpInfo) -> Option<Duration>| {
        read(after)
            .unwrap_or_default()
            .saturating_sub(read(before).unwrap_or_default())
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

fn udp_tick(before: &UdpTotals, after: &UdpTotals) -> UdpTick {
    let (earlier, later) = (before.counts, after.counts);
    UdpTick {
        received: later.received - earlier.received,
        lost: later.lost.cast_signed() - earlier.lost.cast_signed(),
        out_of_order: later.out_of_order - earlier.out_of_order,
        duplicated: later.duplicated - earlier.duplicated,
        dropped_by_receiver: after.dropped - before.dropped,
        jitter: later.jitter,
    }
}

fn udp_end(totals: &UdpTotals) -> UdpEnd {
    let counts = totals.counts;
    UdpEnd {
        datagrams: totals.expected,
        lost: counts.lost,
        out_of_order: counts.out_of_order,
        duplicated: Some(counts.duplicated),
        jitter: counts.jitter,
        dropped_by_receiver: Some(totals.dropped),
    }
}
