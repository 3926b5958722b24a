//! What the charts and the verdict of throughput and ping runs are made from: bounded, whatever the run's size.

use serde::{Deserialize, Serialize};

use crate::measure::flow::Way;
use crate::measure::series::{BandMs, HistogramBucket};

/// Most points of one line.
pub const MOST_POINTS: usize = 250;
/// Most streams that have a line of their own.
pub const MOST_LINES: usize = 16;
/// Up to so many round trips are kept one by one.
pub const MOST_ECHOES: usize = 1_000;

/// Everything that the charts of one throughput or ping run show.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowSeries {
    /// The sum of the streams that count, one line for each direction.
    pub sums: Vec<FlowLine>,
    /// Single streams, at most 16; the slowest and the fastest of each direction are always among them.
    pub lines: Vec<FlowLine>,
    /// Every stream over its whole time.
    pub streams: Vec<StreamTotals>,
    /// Round trips one by one, where there are at most 1000.
    pub echoes: Vec<EchoPoint>,
    /// Round trips in steps, where there are more; ascending, at most 250 of each kind, idle and loaded.
    pub echo_bins: Vec<EchoBin>,
    /// Answered round trips in buckets that touch, at most 40.
    pub echo_histogram: Vec<HistogramBucket>,
    /// The machine meanwhile.
    pub cpu: Vec<CpuPoint>,
    /// When the first stream began, in s since the run's start; the probe saw an idle path before it.
    pub load_start_s: Option<f64>,
    /// Seconds at the start of each direction that do not count.
    pub omit_s: f64,
    /// How far the data reaches, in s since the run's start.
    pub covers_s: f64,
    /// How long the load (or the probing) was planned to take, in s.
    pub planned_s: Option<f64>,
    /// Documented egress cap of the sending side in bit/s.
    pub cap_bits_per_second: Option<f64>,
}

/// One line over time; where two points do not touch there is no data between them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowLine {
    /// Which way.
    pub way: Way,
    /// The stream, from 1; 0 is the sum.
    pub stream: u32,
    /// At most 250, ascending.
    pub points: Vec<FlowPoint>,
}

/// One step of a line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowPoint {
    /// Start in s since the run's start.
    pub from_s: f64,
    /// End.
    pub to_s: f64,
    /// Acknowledged, received, or (UDP senders) sent.
    pub bytes: u64,
    /// Segments sent again; TCP senders only.
    pub retransmits: Option<u64>,
    /// Congestion window at its end.
    pub cwnd_bytes: Option<u64>,
    /// Smoothed round-trip time at its end, in ms.
    pub rtt_ms: Option<f64>,
    /// Datagrams that arrived; UDP receivers only.
    pub received: Option<u64>,
    /// Datagrams missing; UDP receivers only.
    pub lost: Option<i64>,
    /// Jitter at its end, in ms.
    pub jitter_ms: Option<f64>,
}

impl FlowPoint {
    /// Rate in bit/s; `None` where the step has no length.
    pub fn bits_per_second(&self) -> Option<f64> {
        let length = self.to_s - self.from_s;
        (length > 0.0 && length.is_finite()).then(|| self.bytes as f64 * 8.0 / length)
    }
}

/// One stream over its whole time, the omitted start left out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamTotals {
    /// Which way.
    pub way: Way,
    /// The stream, from 1.
    pub stream: u32,
    /// Acknowledged, received, or (UDP senders) sent.
    pub bytes: u64,
    /// Time that was measured, in s.
    pub wall_s: f64,
    /// CPU time of its thread, in s.
    pub cpu_s: f64,
    /// TCP sender's own account; `None` for receivers, UDP, and where the kernel does not tell.
    pub tcp: Option<TcpTotals>,
    /// Longest time in which nothing moved, from and to in s; `None` below a second.
    pub silence_s: Option<(f64, f64)>,
    /// Whether it failed.
    pub failed: bool,
}

/// `TCP_INFO` of a sender over the whole time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TcpTotals {
    /// Time with data to send or unacknowledged, in s; includes the two below.
    pub busy_s: f64,
    /// Time limited by the peer's window, in s.
    pub rwnd_limited_s: f64,
    /// Time limited by the send buffer, in s.
    pub sndbuf_limited_s: f64,
    /// Segments sent again.
    pub retransmits: u64,
    /// Bytes sent again.
    pub retransmitted_bytes: u64,
    /// Segment size in bytes, last seen.
    pub mss_bytes: u32,
    /// Smoothed round-trip time, last seen, in ms.
    pub rtt_ms: f64,
    /// Smallest round-trip time, in ms.
    pub min_rtt_ms: f64,
    /// Peer's window, last seen and largest, in bytes.
    pub peer_window_bytes: Option<(u64, u64)>,
}

/// One round trip.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct EchoPoint {
    /// Number from 1.
    pub seq: u32,
    /// When it was sent, in s since the run's start; below 0 on the idle path before the load.
    pub at_s: f64,
    /// How long it took in ms; `None` = lost.
    pub rtt_ms: Option<f64>,
    /// Further answers to the same probe.
    pub duplicates: u32,
    /// Whether load ran beside it.
    pub loaded: bool,
}

/// Round trips of one step of time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EchoBin {
    /// When the first was sent, in s; below 0 on the idle path before the load.
    pub from_s: f64,
    /// When the last was sent.
    pub to_s: f64,
    /// Probes sent.
    pub sent: u64,
    /// Without an answer.
    pub lost: u64,
    /// Whether load ran beside the last.
    pub loaded: bool,
    /// Of the answered ones; `None` where none was.
    pub rtt_ms: Option<BandMs>,
}

/// The machine in one step of time: means of shares from 0 to 1, except where said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuPoint {
    /// When, in s.
    pub at_s: f64,
    /// Everything but idle, of all CPUs.
    pub busy: f64,
    /// Taken by the hypervisor.
    pub steal: f64,
    /// Busiest CPU.
    pub busiest: f64,
    /// Software interrupts on the CPU that had most of them.
    pub softirq_busiest: f64,
    /// Share of cgroup periods that were throttled; `None` without a quota.
    pub throttled: Option<f64>,
}
