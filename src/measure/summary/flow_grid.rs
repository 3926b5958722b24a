//! Steps of time that double in width when there are too many: bounded memory for runs of any length.

use std::collections::BTreeMap;

use crate::measure::flow::StreamTick;
use crate::measure::flow_series::{CpuPoint, FlowPoint, MOST_POINTS};

/// What can be joined with its neighbour.
pub(super) trait Cell: Default {
    /// Takes in the cell that follows.
    fn absorb(&mut self, later: Self);
}

/// Cells by step of time.
#[derive(Clone, Debug)]
pub(super) struct Grid<T> {
    width_s: f64,
    cells: BTreeMap<u64, T>,
}

impl<T: Cell> Grid<T> {
    /// An empty grid whose steps have this width in s, at first.
    pub(super) fn new(width_s: f64) -> Self {
        Self {
            width_s: width_s.max(1e-3),
            cells: BTreeMap::new(),
        }
    }

    /// The cell in which this instant in s lies.
    pub(super) fn at(&mut self, at_s: f64) -> &mut T {
        let index = self.index(at_s);
        if self.cells.len() >= MOST_POINTS && !self.cells.contains_key(&index) {
            self.double();
            return self.at(at_s);
        }
        self.cells.entry(index).or_default()
    }

    /// All cells, ascending.
    pub(super) fn cells(&self) -> impl Iterator<Item = &T> {
        self.cells.values()
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative, and a run is no longer than days"
    )]
    fn index(&self, at_s: f64) -> u64 {
        (at_s.max(0.0) / self.width_s + 1e-9) as u64
    }

    fn double(&mut self) {
        self.width_s *= 2.0;
        for (index, cell) in std::mem::take(&mut self.cells) {
            match self.cells.get_mut(&(index / 2)) {
                Some(earlier) => earlier.absorb(cell),
                None => {
                    self.cells.insert(index / 2, cell);
                }
            }
        }
    }
}

/// What one stream or a sum moved in one step.
#[derive(Clone, Debug, Default)]
pub(super) struct FlowCell {
    seen: bool,
    point: FlowPoint,
}

impl FlowCell {
    /// The step.
    pub(super) fn point(&self) -> &FlowPoint {
        &self.point
    }

    /// Adds a stream's interval of which these bytes count.
    pub(super) fn add(&mut self, tick: &StreamTick, bytes: u64) {
        let (from_s, to_s) = (tick.from.as_secs_f64(), tick.to.as_secs_f64());
        self.absorb(Self {
            seen: true,
            point: FlowPoint {
                from_s,
                to_s,
                bytes,
                retransmits: tick.tcp.map(|tcp| tcp.retransmits),
                cwnd_bytes: tick.tcp.map(|tcp| tcp.cwnd_bytes),
                rtt_ms: tick.tcp.map(|tcp| tcp.rtt.as_secs_f64() * 1e3),
                received: tick.udp.map(|udp| udp.received),
                lost: tick.udp.map(|udp| udp.lost),
                jitter_ms: tick
                    .udp
                    .and_then(|udp| udp.jitter)
                    .map(|jitter| jitter.as_secs_f64() * 1e3),
            },
        });
    }

    /// The same as part of a sum, in which windows and round trips of one stream mean nothing.
    pub(super) fn add_to_sum(&mut self, tick: &StreamTick, bytes: u64) {
        self.add(tick, bytes);
        self.point.cwnd_bytes = None;
        self.point.rtt_ms = None;
        self.point.jitter_ms = None;
    }
}

impl Cell for FlowCell {
    fn absorb(&mut self, later: Self) {
        if !later.seen {
            return;
        }
        if !self.seen {
            *self = later;
            return;
        }
        let (point, next) = (&mut self.point, later.point);
        point.from_s = point.from_s.min(next.from_s);
        point.to_s = point.to_s.max(next.to_s);
        point.bytes = point.bytes.saturating_add(next.bytes);
        point.retransmits = both(point.retransmits, next.retransmits, u64::saturating_add);
        point.received = both(point.received, next.received, u64::saturating_add);
        point.lost = both(point.lost, next.lost, i64::saturating_add);
        point.cwnd_bytes = next.cwnd_bytes.or(point.cwnd_bytes);
        point.rtt_ms = next.rtt_ms.or(point.rtt_ms);
        point.jitter_ms = next.jitter_ms.or(point.jitter_ms);
    }
}

/// What both have, joined; what only one has, as it is.
pub(super) fn both<T>(a: Option<T>, b: Option<T>, join: fn(T, T) -> T) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(join(a, b)),
        (a, b) => a.or(b),
    }
}

/// The machine in one step: sums, with how many went into them.
#[derive(Clone, Debug, Default)]
pub(super) struct CpuCell {
    n: u32,
    sums: CpuPoint,
}

impl CpuCell {
    /// Adds one sample.
    pub(super) fn add(&mut self, sample: CpuPoint) {
        self.absorb(Self { n: 1, sums: sample });
    }

    /// The means.
    pub(super) fn point(&self) -> CpuPoint {
        let n = f64::from(self.n.max(1));
        CpuPoint {
            at_s: self.sums.at_s,
            busy: self.sums.busy / n,
            steal: self.sums.steal / n,
            busiest: self.sums.busiest / n,
            softirq_busiest: self.sums.softirq_busiest / n,
            throttled: self.sums.throttled.map(|sum| sum / n),
        }
    }
}

impl Cell for CpuCell {
    fn absorb(&mut self, later: Self) {
        self.n += later.n;
        let (sums, next) = (&mut self.sums, later.sums);
        sums.at_s = sums.at_s.max(next.at_s);
        sums.busy += next.busy;
        sums.steal += next.steal;
        sums.busiest += next.busiest;
        sums.softirq_busiest += next.softirq_busiest;
        sums.throttled = both(sums.throttled, next.throttled, |a, b| a + b);
    }
}
