//! Intervals of streams as they close: one row for each stream and one for the sum, equal to the total to the byte.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::measure::flow::{StreamTick, Way};
use crate::measure::summary::flow::FlowInterval;
use crate::measure::summary::flow_grid::both;

/// A stream's interval may stick out of its step by this share of one and still belongs to it whole.
const STICKS_OUT: f64 = 0.1;

/// Rows that are not complete yet.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    width_s: f64,
    ways: BTreeMap<Way, Steps>,
}

/// The open steps of one direction, counted from the start of its first interval.
#[derive(Clone, Debug, Default)]
struct Steps {
    origin_s: f64,
    /// Steps below are closed.
    closed: u64,
    open: BTreeMap<u64, BTreeMap<u32, Row>>,
}

#[derive(Clone, Debug)]
struct Row {
    from: Duration,
    to: Duration,
    bytes: u64,
    retransmits: Option<u64>,
    rtt: Option<Duration>,
    cwnd_bytes: Option<u64>,
    lost: Option<i64>,
    datagrams: Option<u64>,
    jitter: Option<Duration>,
}

impl Rows {
    pub(super) fn new(interval_s: f64) -> Self {
        Self {
            width_s: interval_s.max(1e-3),
            ways: BTreeMap::new(),
        }
    }

    /// Takes in a stream's interval of which these bytes count. One that spans several steps is spread over them,
    /// its counters go to the last; one that comes after its step was closed goes to the next.
    pub(super) fn push(&mut self, tick: &StreamTick, way: Way, bytes: u64) {
        let width = self.width_s;
        let (from, to) = (tick.from.as_secs_f64(), tick.to.as_secs_f64());
        let steps = self.ways.entry(way).or_insert_with(|| Steps {
            origin_s: from,
            ..Steps::default()
        });
        let first = step((from - steps.origin_s) / width + STICKS_OUT);
        let last = step(((to - steps.origin_s) / width - STICKS_OUT).max(0.0));
        if last <= first {
            let middle = step((f64::midpoint(from, to) - steps.origin_s) / width);
            steps.add(middle, tick, Row::new(tick, bytes));
            return;
        }
        let mut given = 0;
        for index in first..=last {
            let edge = steps.origin_s + (index + 1) as f64 * width;
            let piece_from = if index == first {
                tick.from
            } else {
                seconds(edge - width)
            };
            let (piece_to, until) = if index == last {
                (tick.to, bytes)
            } else {
                let share = ((edge - from) / (to - from)).clamp(0.0, 1.0);
                (seconds(edge), part(bytes, share))
            };
            let mut row = Row::new(tick, until - given);
            given = until;
            (row.from, row.to) = (piece_from, piece_to);
            if index != last {
                row.retransmits = row.retransmits.map(|_| 0);
                row.lost = row.lost.map(|_| 0);
                row.datagrams = row.datagrams.map(|_| 0);
            }
            steps.add(index, tick, row);
        }
    }

    /// The rows of the steps that nothing more can come to.
    pub(super) fn close(&mut self, until: Duration) -> Vec<FlowInterval> {
        let mut rows = Vec::new();
        for (way, steps) in &mut self.ways {
            let done = (until.as_secs_f64() - steps.origin_s) / self.width_s - STICKS_OUT;
            if done > 0.0 {
                steps.close(*way, step(done), &mut rows);
            }
        }
        rows
    }

    /// All other rows.
    pub(super) fn finish(&mut self) -> Vec<FlowInterval> {
        let mut rows = Vec::new();
        for (way, steps) in &mut self.ways {
            let all = steps.open.keys().next_back().map_or(0, |last| last + 1);
            steps.close(*way, all, &mut rows);
        }
        rows
    }
}

impl Steps {
    fn add(&mut self, index: u64, tick: &StreamTick, row: Row) {
        let index = index.max(self.closed);
        let streams = self.open.entry(index).or_default();
        match streams.get_mut(&tick.stream) {
            Some(earlier) => earlier.absorb(&row),
            None => {
                streams.insert(tick.stream, row);
            }
        }
    }

    fn close(&mut self, way: Way, below: u64, rows: &mut Vec<FlowInterval>) {
        let later = self.open.split_off(&below);
        for streams in std::mem::replace(&mut self.open, later).into_values() {
            rows.extend(
                streams
                    .iter()
                    .map(|(stream, row)| row.interval(stream.to_string(), way)),
            );
            if let Some(sum) = Row::sum(streams.values()) {
                rows.push(sum.interval("SUM".to_owned(), way));
            }
        }
        self.closed = self.closed.max(below);
    }
}

impl Row {
    fn new(tick: &StreamTick, bytes: u64) -> Self {
        let received = tick
            .udp
            .map(|udp| udp.received.saturating_add_signed(udp.lost));
        Self {
            from: tick.from,
            to: tick.to,
            bytes,
            retransmits: tick.tcp.map(|tcp| tcp.retransmits),
            rtt: tick.tcp.map(|tcp| tcp.rtt),
            cwnd_bytes: tick.tcp.map(|tcp| tcp.cwnd_bytes),
            lost: tick.udp.map(|udp| udp.lost),
            datagrams: received.or((tick.datagrams_sent > 0).then_some(tick.datagrams_sent)),
            jitter: tick.udp.and_then(|udp| udp.jitter),
        }
    }

    /// Takes in another part of the same stream's step.
    fn absorb(&mut self, later: &Self) {
        self.from = self.from.min(later.from);
        self.to = self.to.max(later.to);
        self.bytes = self.bytes.saturating_add(later.bytes);
        self.retransmits = both(self.retransmits, later.retransmits, u64::saturating_add);
        self.lost = both(self.lost, later.lost, i64::saturating_add);
        self.datagrams = both(self.datagrams, later.datagrams, u64::saturating_add);
        self.rtt = later.rtt.or(self.rtt);
        self.cwnd_bytes = later.cwnd_bytes.or(self.cwnd_bytes);
        self.jitter = later.jitter.or(self.jitter);
    }

    /// The streams of one step together; jitter is their mean.
    fn sum<'a>(mut rows: impl Iterator<Item = &'a Self> + Clone) -> Option<Self> {
        let jitters: Vec<Duration> = rows.clone().filter_map(|row| row.jitter).collect();
        let mut sum = rows.next()?.clone();
        for row in rows {
            sum.absorb(row);
        }
        (sum.rtt, sum.cwnd_bytes) = (None, None);
        sum.jitter = u32::try_from(jitters.len())
            .ok()
            .filter(|n| *n > 0)
            .map(|n| jitters.iter().sum::<Duration>() / n);
        Some(sum)
    }

    fn interval(&self, stream: String, way: Way) -> FlowInterval {
        let length = self.to.saturating_sub(self.from).as_secs_f64();
        let ms = |duration: Duration| duration.as_secs_f64() * 1e3;
        FlowInterval {
            run: 0,
            stream,
            direction: way.word().to_owned(),
            start_s: self.from.as_secs_f64(),
            end_s: self.to.as_secs_f64(),
            bytes: self.bytes,
            bits_per_second: (length > 0.0).then(|| self.bytes as f64 * 8.0 / length),
            retransmits: self.retransmits,
            rtt_ms: self.rtt.map(ms),
            cwnd_bytes: self.cwnd_bytes,
            lost: self.lost,
            datagrams: self.datagrams,
            jitter_ms: self.jitter.map(ms),
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "not negative, and a run is no longer than days"
)]
fn step(steps: f64) -> u64 {
    (steps.max(0.0) + 1e-9) as u64
}

fn seconds(s: f64) -> Duration {
    Duration::try_from_secs_f64(s).unwrap_or_default()
}

/// This share of the bytes, rounded down.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "at most the bytes themselves"
)]
fn part(bytes: u64, share: f64) -> u64 {
    ((bytes as f64 * share) as u64).min(bytes)
}
