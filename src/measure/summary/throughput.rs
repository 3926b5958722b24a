//! Folds intervals of streams into rows, figures and series of a throughput run.
//!
//! Bytes of a TCP sender are those that the peer's kernel acknowledged, never those merely written.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use crate::measure::flow::{FlowBatch, FlowEnd, StreamEnd, StreamTick, TcpTick, UdpTick, Way};
use crate::measure::flow_series::{
    CpuPoint, FlowLine, FlowSeries, MOST_LINES, StreamTotals, TcpTotals,
};
use crate::measure::plan::throughput::{Direction, Protocol, ThroughputPlan};
use crate::measure::summary::flow::{FlowInterval, ThroughputSummary};
use crate::measure::summary::flow_echoes::Echoes;
use crate::measure::summary::flow_figures;
use crate::measure::summary::flow_grid::{CpuCell, FlowCell, Grid};
use crate::measure::summary::flow_rows::Rows;

/// A stream that moved nothing for less than this is not called silent, in s.
const SILENCE_S: f64 = 1.0;

/// One throughput run so far.
#[derive(Clone, Debug)]
pub struct ThroughputFold {
    pub(super) plan: ThroughputPlan,
    rows: Rows,
    pub(super) streams: BTreeMap<(Way, u32), Stream>,
    sums: BTreeMap<Way, Grid<FlowCell>>,
    /// This end and the other of each stream that was opened.
    addresses: BTreeMap<(Way, u32), (SocketAddr, SocketAddr)>,
    /// When the first interval of each direction began, in s.
    origins: BTreeMap<Way, f64>,
    pub(super) echoes: Echoes,
    cpu: Grid<CpuCell>,
    until: Duration,
}

/// One direction of one stream.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    pub(super) cells: Grid<FlowCell>,
    /// All bytes, the omitted start's too.
    pub(super) bytes: u64,
    /// What the totals count: without the omitted start.
    counted: u64,
    /// Start of the first interval that moved something, in s.
    pub(super) first_s: Option<f64>,
    /// Start and end of the last one that did.
    pub(super) last_s: Option<(f64, f64)>,
    pub(super) datagrams_sent: u64,
    pub(super) udp: Option<UdpTick>,
    /// When the last interval ended, in s.
    reached_s: f64,
    wall: Duration,
    cpu: Duration,
    tcp: Option<TcpSums>,
    silent_since: Option<f64>,
    silence: Option<(f64, f64)>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TcpSums {
    busy: Duration,
    rwnd_limited: Duration,
    sndbuf_limited: Duration,
    pub(super) retransmits: u64,
    retransmitted_bytes: u64,
    last: TcpTick,
    largest_window: Option<u64>,
}

impl ThroughputFold {
    /// Nothing measured yet.
    pub fn new(plan: &ThroughputPlan) -> Self {
        Self {
            plan: plan.clone(),
            rows: Rows::new(plan.interval_s),
            streams: BTreeMap::new(),
            sums: BTreeMap::new(),
            addresses: BTreeMap::new(),
            origins: BTreeMap::new(),
            echoes: Echoes::new(0.25),
            cpu: Grid::new(plan.interval_s),
            until: Duration::ZERO,
        }
    }

    /// Takes in what the runner hands over; returns the rows that are complete now: each stream's and `SUM`,
    /// by direction. The run's number is left 0.
    pub fn push(&mut self, batch: &FlowBatch) -> Vec<FlowInterval> {
        for one in &batch.opened {
            self.addresses
                .insert((one.way, one.stream), (one.local, one.remote));
        }
        for tick in &batch.ticks {
            self.push_tick(tick);
        }
        for echo in &batch.echoes {
            self.echoes.push_beside(echo);
        }
        if let Some(cpu) = &batch.cpu {
            let at_s = batch.until.as_secs_f64();
            self.cpu.at(at_s).add(CpuPoint {
                at_s,
                busy: cpu.busy,
                steal: cpu.steal,
                busiest: cpu.busiest,
                softirq_busiest: cpu.softirq_busiest,
                throttled: cpu.throttled,
            });
        }
        self.until = self.until.max(batch.until);
        self.rows.close(self.until)
    }

    fn push_tick(&mut self, tick: &StreamTick) {
        let way = tick.way.unwrap_or(Way::Send);
        let bytes = match tick.tcp {
            Some(tcp) if way == Way::Send => tcp.acked_bytes,
            _ => tick.bytes,
        };
        self.rows.push(tick, way, bytes);
        let from_s = tick.from.as_secs_f64();
        let origin = *self.origins.entry(way).or_insert(from_s);
        let interval_s = self.plan.interval_s;
        let stream = self
            .streams
            .entry((way, tick.stream))
            .or_insert_with(|| Stream::new(interval_s));
        let counts = from_s >= origin + self.plan.omit_s - 1e-6;
        stream.push(tick, bytes, counts);
        let middle = f64::midpoint(from_s, tick.to.as_secs_f64());
        stream.cells.at(middle - origin).add(tick, bytes);
        self.sums
            .entry(way)
            .or_insert_with(|| Grid::new(interval_s))
            .at(middle - origin)
            .add_to_sum(tick, bytes);
    }

    /// All rows that are left, the last partial interval's too.
    pub fn finish_intervals(&mut self) -> Vec<FlowInterval> {
        self.rows.finish()
    }

    /// The figures; `limited_by` is the verdict's to fill.
    pub fn summary(&self, end: &FlowEnd) -> ThroughputSummary {
        flow_figures::summary(self, end)
    }

    /// What the charts and the verdict are made from.
    pub fn series(&self, end: &FlowEnd) -> FlowSeries {
        let failed = |way: Way, stream: u32| {
            end.streams
                .iter()
                .any(|one| one.failed.is_some() && of(one) == (way, stream))
        };
        let mut series = FlowSeries {
            sums: self
                .sums
                .iter()
                .map(|(way, grid)| line(*way, 0, grid))
                .collect(),
            lines: self.lines(),
            streams: self
                .streams
                .iter()
                .map(|((way, number), stream)| stream.totals(*way, *number, failed(*way, *number)))
                .collect(),
            cpu: self.cpu.cells().map(CpuCell::point).collect(),
            load_start_s: self.origins.values().copied().min_by(f64::total_cmp),
            omit_s: self.plan.omit_s,
            covers_s: self.until.max(end.duration).as_secs_f64(),
            planned_s: self.plan.sending_s(),
            cap_bits_per_second: end.egress_cap.as_ref().map(|cap| cap.0),
            ..FlowSeries::default()
        };
        // A run that an end alone describes has its whole time in that.
        for one in &end.streams {
            let (way, number) = of(one);
            if !self.streams.contains_key(&(way, number)) {
                series.streams.push(StreamTotals {
                    way,
                    stream: number,
                    bytes: flow_figures::known_bytes(one),
                    wall_s: flow_figures::length(one.first, one.last),
                    cpu_s: 0.0,
                    tcp: None,
                    silence_s: None,
                    failed: one.failed.is_some(),
                });
            }
        }
        self.echoes.write(&mut series);
        series
    }

    /// The slowest and the fastest stream of each direction, and others evenly by rank between them.
    fn lines(&self) -> Vec<FlowLine> {
        let ways: Vec<Way> = self.origins.keys().copied().collect();
        let most = MOST_LINES / ways.len().max(1);
        let mut lines = Vec::new();
        for way in ways {
            let mut ranked: Vec<(u32, &Stream)> = self
                .streams
                .iter()
                .filter(|((of, _), _)| *of == way)
                .map(|((_, number), stream)| (*number, stream))
                .collect();
            ranked.sort_by(|a, b| a.1.rate().total_cmp(&b.1.rate()));
            let n = ranked.len();
            let mut kept: Vec<(u32, &Stream)> = if n <= most {
                ranked
            } else {
                (0..most)
                    .map(|index| ranked[index * (n - 1) / (most - 1)])
                    .collect()
            };
            kept.sort_by_key(|(number, _)| *number);
            lines.extend(
                kept.into_iter()
                    .map(|(number, stream)| line(way, number, &stream.cells)),
            );
        }
        lines
    }

    /// An end made from what is known so far, for figures of a run that still sends.
    pub fn so_far(&self) -> FlowEnd {
        let sends = self.plan.protocol == Protocol::Tcp;
        FlowEnd {
            duration: self.until,
            streams: self
                .streams
                .iter()
                .map(|((way, number), stream)| {
                    let seconds = |s: f64| Duration::try_from_secs_f64(s).unwrap_or_default();
                    let sender = *way == Way::Send;
                    let ends = self.addresses.get(&(*way, *number));
                    let (first_s, bytes) = if self.plan.peer_omits() {
                        let origin = self.origins.get(way).copied().unwrap_or_default();
                        let counts_s = origin + self.plan.omit_s;
                        let reached = stream.last_s.is_some_and(|(_, to)| to > counts_s);
                        (reached.then_some(counts_s), stream.counted)
                    } else {
                        (stream.first_s, stream.bytes)
                    };
                    StreamEnd {
                        stream: *number,
                        way: Some(*way),
                        local: ends.map(|ends| ends.0),
                        remote: ends.map(|ends| ends.1),
                        first: first_s.map(seconds),
                        last: stream.last_s.map(|(_, to)| seconds(to)),
                        bytes,
                        acked_bytes: (sends && sender).then_some(bytes),
                        retransmits: stream.tcp.map(|tcp| tcp.retransmits),
                        rtt: stream.tcp.map(|tcp| tcp.last.rtt),
                        datagrams_sent: (!sends && sender).then_some(stream.datagrams_sent),
                        udp: stream.udp.as_ref().map(flow_figures::udp_so_far),
                        ..StreamEnd::default()
                    }
                })
                .collect(),
            ..FlowEnd::default()
        }
    }

    /// The fold as far as the rows of `intervals.csv` tell: good for a partial summary and its series.
    pub fn from_stored(plan: &ThroughputPlan, rows: &[FlowInterval]) -> Self {
        let mut fold = Self::new(plan);
        for row in rows {
            let Ok(stream) = row.stream.parse() else {
                continue; // SUM
            };
            let seconds = |s: f64| Duration::try_from_secs_f64(s).unwrap_or_default();
            let ms = |ms: Option<f64>| ms.map(|ms| seconds(ms / 1e3)).unwrap_or_default();
            let way = if row.direction == Way::Receive.word() {
                Way::Receive
            } else {
                Way::Send
            };
            let lost = row.lost;
            let tick = StreamTick {
                stream,
                way: Some(way),
                from: seconds(row.start_s),
                to: seconds(row.end_s),
                bytes: row.bytes,
                tcp: row.retransmits.map(|retransmits| TcpTick {
                    acked_bytes: row.bytes,
                    retransmits,
                    rtt: ms(row.rtt_ms),
                    cwnd_bytes: row.cwnd_bytes.unwrap_or(0),
                    ..TcpTick::default()
                }),
                udp: lost.map(|lost| UdpTick {
                    received: row
                        .datagrams
                        .unwrap_or(0)
                        .saturating_add_signed(lost.saturating_neg()),
                    lost,
                    jitter: row.jitter_ms.map(|jitter| ms(Some(jitter))),
                    ..UdpTick::default()
                }),
                datagrams_sent: if lost.is_none() {
                    row.datagrams.unwrap_or(0)
                } else {
                    0
                },
                cpu: Duration::ZERO,
            };
            fold.until = fold.until.max(tick.to);
            fold.push_tick(&tick);
        }
        fold.rows = Rows::new(plan.interval_s);
        fold
    }

    /// Directions that the plan has, in the order send, receive.
    pub(super) fn ways(&self) -> &'static [Way] {
        match self.plan.direction {
            Direction::Send => &[Way::Send],
            Direction::Receive => &[Way::Receive],
            Direction::Both | Direction::InTurn => &[Way::Send, Way::Receive],
        }
    }
}

impl Stream {
    fn new(interval_s: f64) -> Self {
        Self {
            cells: Grid::new(interval_s),
            bytes: 0,
            counted: 0,
            first_s: None,
            last_s: None,
            datagrams_sent: 0,
            udp: None,
            reached_s: 0.0,
            wall: Duration::ZERO,
            cpu: Duration::ZERO,
            tcp: None,
            silent_since: None,
            silence: None,
        }
    }

    fn push(&mut self, tick: &StreamTick, bytes: u64, counts: bool) {
        let (from_s, to_s) = (tick.from.as_secs_f64(), tick.to.as_secs_f64());
        self.bytes = self.bytes.saturating_add(bytes);
        self.datagrams_sent += tick.datagrams_sent;
        self.listen(bytes, from_s, to_s);
        if bytes > 0 {
            self.first_s.get_or_insert(from_s);
            self.last_s = Some((from_s, to_s));
        }
        self.reached_s = self.reached_s.max(to_s);
        if let Some(udp) = tick.udp {
            let sums = self.udp.get_or_insert_default();
            sums.received += udp.received;
            sums.lost = sums.lost.saturating_add(udp.lost);
            sums.out_of_order += udp.out_of_order;
            sums.duplicated += udp.duplicated;
            sums.dropped_by_receiver += udp.dropped_by_receiver;
            sums.jitter = udp.jitter.or(sums.jitter);
        }
        if !counts {
            return;
        }
        self.counted = self.counted.saturating_add(bytes);
        self.wall += tick.to.saturating_sub(tick.from);
        self.cpu += tick.cpu;
        if let Some(tcp) = tick.tcp.filter(|_| tick.way != Some(Way::Receive)) {
            let sums = self.tcp.get_or_insert_default();
            sums.busy += tcp.busy;
            sums.rwnd_limited += tcp.rwnd_limited;
            sums.sndbuf_limited += tcp.sndbuf_limited;
            sums.retransmits += tcp.retransmits;
            sums.retransmitted_bytes += tcp.retransmitted_bytes;
            sums.largest_window = sums.largest_window.max(tcp.peer_window_bytes);
            sums.last = tcp;
        }
    }

    /// Keeps the longest stretch of measured intervals in which nothing moved; a gap in the data ends one.
    fn listen(&mut self, bytes: u64, from_s: f64, to_s: f64) {
        let gap = from_s - self.reached_s > (to_s - from_s).max(0.1) * 1.5;
        if bytes > 0 || gap {
            self.silence = self.longest_silence(if gap { self.reached_s } else { from_s });
            self.silent_since = None;
        }
        if bytes == 0 {
            self.silent_since.get_or_insert(from_s);
        }
    }

    fn longest_silence(&self, now_s: f64) -> Option<(f64, f64)> {
        let open = self
            .silent_since
            .map(|since| (since, now_s))
            .filter(|(from, to)| to - from >= SILENCE_S - 0.05);
        [self.silence, open]
            .into_iter()
            .flatten()
            .max_by(|a, b| (a.1 - a.0).total_cmp(&(b.1 - b.0)))
    }

    fn rate(&self) -> f64 {
        let span = self
            .first_s
            .zip(self.last_s)
            .map_or(0.0, |(first, (_, last))| last - first);
        if span > 0.0 {
            self.bytes as f64 / span
        } else {
            0.0
        }
    }

    fn totals(&self, way: Way, stream: u32, failed: bool) -> StreamTotals {
        let ms = |duration: Duration| duration.as_secs_f64() * 1e3;
        // Without any busy time the kernel did not tell.
        let told = self.tcp.filter(|tcp| tcp.busy > Duration::ZERO);
        StreamTotals {
            way,
            stream,
            bytes: self.counted,
            wall_s: self.wall.as_secs_f64(),
            cpu_s: self.cpu.as_secs_f64(),
            tcp: told.map(|tcp| TcpTotals {
                busy_s: tcp.busy.as_secs_f64(),
                rwnd_limited_s: tcp.rwnd_limited.as_secs_f64(),
                sndbuf_limited_s: tcp.sndbuf_limited.as_secs_f64(),
                retransmits: tcp.retransmits,
                retransmitted_bytes: tcp.retransmitted_bytes,
                mss_bytes: tcp.last.mss_bytes,
                rtt_ms: ms(tcp.last.rtt),
                min_rtt_ms: ms(tcp.last.min_rtt),
                peer_window_bytes: tcp.last.peer_window_bytes.zip(tcp.largest_window),
            }),
            silence_s: self.longest_silence(self.reached_s),
            failed,
        }
    }
}

/// Which stream an end is of.
pub(super) fn of(end: &StreamEnd) -> (Way, u32) {
    (end.way.unwrap_or(Way::Send), end.stream)
}

fn line(way: Way, stream: u32, cells: &Grid<FlowCell>) -> FlowLine {
    FlowLine {
        way,
        stream,
        points: cells.cells().map(|cell| cell.point().clone()).collect(),
    }
}

#[cfg(test)]
mod tests;
