//! The figures of throughput, ping and path runs in the JSON API.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Cpu, Distribution};
use crate::measure::flow::Opened;

/// A throughput run (iperf's kind), or one of its directions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ThroughputSummary {
    /// The receiver's bytes over the time in which all streams were active; `None` in a test in turn.
    pub bits_per_second: Option<f64>,
    /// The same bytes over latest end − earliest start.
    pub bits_per_second_whole: Option<f64>,
    /// Bytes handed to the kernel by the sender.
    pub bytes_sent: Option<u64>,
    /// The receiver's own count; `None` where the peer cannot tell.
    pub bytes_received: Option<u64>,
    /// Bytes that the peer's kernel acknowledged; TCP senders only.
    pub bytes_acknowledged: Option<u64>,
    /// Latest end − earliest start, in s.
    pub duration_s: f64,
    /// Every stream.
    pub streams: Vec<StreamFigures>,
    /// Streams asked for.
    pub streams_asked: u32,
    /// Jain's index of the streams' rates, 1 = all the same.
    pub fairness: Option<f64>,
    /// Rate of the fastest over that of the slowest.
    pub fastest_to_slowest: Option<f64>,
    /// Segments sent again.
    pub retransmits: Option<u64>,
    /// CPU time of this end.
    pub cpu: Cpu,
    /// The `cause` of the first of the run's limits.
    pub limited_by: Option<String>,
    /// `copy` or `discard`.
    pub receive: String,
    /// Whether segmentation offload was used.
    pub offload: bool,
    /// Congestion control in use.
    pub congestion: Option<String>,
    /// Socket buffer asked for and got.
    pub window_bytes: Window,
    /// Round trips of the probe beside the run, in ms.
    pub rtt_ms: IdleLoaded,
    /// Datagrams; absent for TCP.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub udp: Option<UdpFigures>,
    /// With two directions, one summary each: `send`, `receive`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub directions: BTreeMap<String, ThroughputSummary>,
    /// What the other end is, where it said so.
    pub peer: Option<String>,
    /// Documented egress cap of the sending side in bit/s.
    pub egress_cap_bits_per_second: Option<f64>,
}

/// One stream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamFigures {
    /// Number from 1.
    pub id: u32,
    /// This end.
    pub local: Option<String>,
    /// The other end.
    pub remote: Option<String>,
    /// `send` or `receive`.
    pub direction: String,
    /// The receiver's bytes where known, else acknowledged ones.
    pub bytes: u64,
    /// From its first to its last byte, in s.
    pub duration_s: f64,
    /// `bytes` over `duration_s`.
    pub bits_per_second: Option<f64>,
    /// Segments sent again.
    pub retransmits: Option<u64>,
    /// Smoothed round-trip time at the end, in ms.
    pub rtt_ms: Option<f64>,
    /// Why it failed.
    pub failed: Option<String>,
    /// Bytes that its sender handed to the kernel, where it is known.
    #[serde(default)]
    pub bytes_sent: Option<u64>,
    /// Its receiver's own count.
    #[serde(default)]
    pub bytes_received: Option<u64>,
    /// Its datagrams; absent for TCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datagrams: Option<StreamDatagrams>,
}

impl From<&Opened> for StreamFigures {
    /// A stream that has moved nothing yet.
    fn from(opened: &Opened) -> Self {
        Self {
            id: opened.stream,
            local: Some(opened.local.to_string()),
            remote: Some(opened.remote.to_string()),
            direction: opened.way.word().to_owned(),
            ..Self::default()
        }
    }
}

/// Datagrams of one stream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamDatagrams {
    /// Sent, the last one included; `None` where this end received and nobody told.
    pub sent: Option<u64>,
    /// Received; `None`, like the rest, where no receiver's report came.
    pub received: Option<u64>,
    /// Missing.
    pub lost: Option<u64>,
    /// Came late.
    pub out_of_order: Option<u64>,
    /// Smoothed variation of the transit time, in ms.
    pub jitter_ms: Option<f64>,
}

/// A socket buffer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// Asked for, in bytes.
    pub asked: Option<u64>,
    /// What the kernel gave, in bytes.
    pub got: Option<u64>,
}

/// Round trips without and with load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IdleLoaded {
    /// Before the load.
    pub idle: Distribution,
    /// During it.
    pub loaded: Distribution,
}

/// Datagrams of a UDP run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UdpFigures {
    /// Sent, the last datagram of each stream included.
    pub datagrams_sent: Option<u64>,
    /// Received.
    pub datagrams_received: Option<u64>,
    /// Missing; `None` where no receiver's report came.
    pub datagrams_lost: Option<u64>,
    /// Came late.
    pub datagrams_out_of_order: Option<u64>,
    /// Came twice.
    pub datagrams_duplicated: Option<u64>,
    /// Missing over sent, times 100.
    pub lost_percent: Option<f64>,
    /// Smoothed variation of the transit time, in ms, mean over the streams.
    pub jitter_ms: Option<f64>,
    /// Dropped by the receiving socket's buffer.
    pub dropped_by_receiver: Option<u64>,
}

/// A round-trip run (ping's kind).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PingSummary {
    /// Probes sent.
    pub transmitted: u64,
    /// Answers received.
    pub received: u64,
    /// Missing over sent, times 100.
    pub loss_percent: Option<f64>,
    /// Answers beyond the first to one probe.
    pub duplicates: u64,
    /// Round trips in ms.
    pub rtt_ms: PingDistribution,
    /// Time to live of the last answer.
    pub ttl: Option<u8>,
    /// `icmp` or `tcp`.
    pub method: String,
    /// The address that was probed.
    pub address: Option<String>,
    /// From the first probe to the last answer, in s.
    pub duration_s: f64,
}

/// A distribution with ping's mean deviation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PingDistribution {
    /// The usual figures.
    #[serde(flatten)]
    pub figures: Distribution,
    /// √(mean of squares − square of mean), as iputils prints it.
    pub mdev: Option<f64>,
}

/// A path run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PathSummary {
    /// Interface towards the peer.
    pub interface: Option<String>,
    /// Its MTU in bytes.
    pub interface_mtu: Option<u32>,
    /// Largest packet that reaches the peer whole, in bytes.
    pub path_mtu: Option<u32>,
    /// What was expected.
    pub expected_mtu: Option<u32>,
    /// Whether it is as expected; `None` when nothing was expected, or nothing found.
    pub ok: Option<bool>,
    /// Whether larger packets vanish without an ICMP message (a black hole); `None` when nothing was found.
    pub black_hole: Option<bool>,
    /// The address that was probed.
    pub address: Option<String>,
    /// How it was probed: `icmp` (echoes) or `udp` (datagrams to a port where nothing listens).
    #[serde(default)]
    pub method: Option<String>,
    /// Each size that was tried and what came of it, ascending.
    pub probes: Vec<PathProbe>,
    /// Interfaces of this machine.
    pub interfaces: Vec<InterfaceFigures>,
    /// What was reported on the way, or ended it, in sentences.
    #[serde(default)]
    pub remarks: Vec<String>,
}

/// One don't-fragment probe.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PathProbe {
    /// Size of the IP packet in bytes.
    pub size_bytes: u32,
    /// `answered`, `too_big` or `no_answer`.
    pub result: String,
    /// Round trip in ms.
    pub rtt_ms: Option<f64>,
    /// MTU that a router or this kernel named.
    pub named_mtu: Option<u32>,
}

/// One interface of this machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InterfaceFigures {
    /// Its name.
    pub name: String,
    /// Its MTU in bytes.
    pub mtu: Option<u32>,
    /// Its addresses.
    pub addresses: Vec<String>,
}

/// One interval of a throughput run: a row of `intervals.csv` and an `interval` event.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowInterval {
    /// The run.
    pub run: i64,
    /// Number of the stream, or `SUM`.
    pub stream: String,
    /// `send` or `receive`.
    pub direction: String,
    /// Start since the run's start, in s.
    pub start_s: f64,
    /// Its end, in s.
    pub end_s: f64,
    /// Payload bytes.
    pub bytes: u64,
    /// `bytes` over the interval.
    pub bits_per_second: Option<f64>,
    /// Segments sent again.
    pub retransmits: Option<u64>,
    /// Smoothed round-trip time, in ms.
    pub rtt_ms: Option<f64>,
    /// Congestion window, in bytes.
    pub cwnd_bytes: Option<u64>,
    /// Datagrams missing.
    pub lost: Option<i64>,
    /// Datagrams received and missing.
    pub datagrams: Option<u64>,
    /// Jitter, in ms.
    pub jitter_ms: Option<f64>,
}

/// One round trip of a ping, or of the probe beside a throughput run: a row of its table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EchoRow {
    /// The run.
    pub run: i64,
    /// Number from 1.
    pub seq: u32,
    /// When it was sent since the run's start, in s; negative = on the idle path before the load.
    pub sent_s: f64,
    /// How long the answer took, in ms; `None` = lost.
    pub rtt_ms: Option<f64>,
    /// Time to live of the answer, where it is known.
    pub ttl: Option<u8>,
    /// Further answers to the same probe.
    pub duplicates: u32,
    /// Whether load ran beside it.
    pub loaded: bool,
}
