//! What throughput, ping and path runners hand over; all instants count from the run's start.

use std::net::SocketAddr;
use std::time::Duration;

/// Which way a flow's bytes go, seen from this node.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// From here.
    Send,
    /// To here.
    Receive,
}

impl Way {
    /// The word in JSON and CSV.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Receive => "receive",
        }
    }
}

/// What one stream moved in one interval; counters are differences, not totals.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StreamTick {
    /// The stream, from 1; both ways of a full-duplex stream have the same number.
    pub stream: u32,
    /// Which way.
    pub way: Option<Way>,
    /// Start of the interval.
    pub from: Duration,
    /// Its end.
    pub to: Duration,
    /// Payload bytes sent (acknowledged or written) or received.
    pub bytes: u64,
    /// Kernel's view of a TCP sender; `None` for receivers and UDP.
    pub tcp: Option<TcpTick>,
    /// Counts of a UDP receiver; `None` elsewhere.
    pub udp: Option<UdpTick>,
    /// Datagrams sent by a UDP sender.
    pub datagrams_sent: u64,
    /// CPU time of the stream's thread.
    pub cpu: Duration,
}

/// `TCP_INFO` of a sender over one interval; times and counts are differences, the rest is the last value.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TcpTick {
    /// Bytes acknowledged by the peer.
    pub acked_bytes: u64,
    /// Segments sent again.
    pub retransmits: u64,
    /// Bytes sent again.
    pub retransmitted_bytes: u64,
    /// Smoothed round-trip time.
    pub rtt: Duration,
    /// Smallest round-trip time seen.
    pub min_rtt: Duration,
    /// Congestion window in bytes.
    pub cwnd_bytes: u64,
    /// Segment size in bytes.
    pub mss_bytes: u32,
    /// Time with data to send or unacknowledged; jiffy resolution; includes the two below.
    pub busy: Duration,
    /// Time limited by the peer's window.
    pub rwnd_limited: Duration,
    /// Time limited by the send buffer.
    pub sndbuf_limited: Duration,
    /// Peer's window in bytes, last seen; `None` where the kernel does not tell.
    pub peer_window_bytes: Option<u64>,
}

/// A UDP receiver's counts over one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct UdpTick {
    /// Datagrams that arrived, duplicates not counted.
    pub received: u64,
    /// Datagrams that the ids say are missing; may be negative when late ones arrive.
    pub lost: i64,
    /// Datagrams that arrived after one with a higher id.
    pub out_of_order: u64,
    /// Datagrams that arrived twice.
    pub duplicated: u64,
    /// Dropped by this machine's socket buffer.
    pub dropped_by_receiver: u64,
    /// Smoothed variation of the transit time (RFC 1889, A.8), last value; `None` with offload.
    pub jitter: Option<Duration>,
}

/// One round trip of the probe beside a run, or of a ping.
///
/// A throughput run begins with its load, so that its intervals begin at 0 as iperf's do; the idle path is probed
/// before that. An idle echo (`loaded` false) of such a run therefore says how long *before* the run's start it was
/// sent, and the fold places it at minus that time. All echoes of a ping count from its start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Echo {
    /// Number from 1; they may be handed over in another order.
    pub seq: u32,
    /// When it was sent: since the run's start, or, of an idle echo beside a throughput run, before it.
    pub at: Duration,
    /// How long the answer took; `None` = lost.
    pub rtt: Option<Duration>,
    /// Time to live of the answer, where it is known.
    pub ttl: Option<u8>,
    /// Further answers to the same probe.
    pub duplicates: u32,
    /// Whether load ran beside it.
    pub loaded: bool,
}

/// CPU of the machine over one interval, as shares of all its CPUs from 0 to 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CpuTick {
    /// Everything but idle.
    pub busy: f64,
    /// Taken by the hypervisor.
    pub steal: f64,
    /// Busiest CPU.
    pub busiest: f64,
    /// Highest share of software interrupts on one CPU.
    pub softirq_busiest: f64,
    /// Share of cgroup periods that were throttled; `None` without a quota.
    pub throttled: Option<f64>,
}

/// A stream whose two ends are known: it is about to move something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The stream, from 1.
    pub stream: u32,
    /// Which way.
    pub way: Way,
    /// This end of it.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
}

/// What a throughput, ping or path runner produced since the batch before.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowBatch {
    /// Up to which instant this batch is complete.
    pub until: Duration,
    /// Streams that were opened; each is told once, before its first interval.
    pub opened: Vec<Opened>,
    /// Intervals of streams.
    pub ticks: Vec<StreamTick>,
    /// Round trips.
    pub echoes: Vec<Echo>,
    /// The machine meanwhile.
    pub cpu: Option<CpuTick>,
}

/// One stream at its end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StreamEnd {
    /// The stream, from 1.
    pub stream: u32,
    /// Which way.
    pub way: Option<Way>,
    /// This end of it.
    pub local: Option<SocketAddr>,
    /// The other end.
    pub remote: Option<SocketAddr>,
    /// When its first byte was sent or came; of an iperf 3 test with omitted time, when that was over. All counts
    /// are without it then, as the peer's are.
    pub first: Option<Duration>,
    /// When its last byte was acknowledged (TCP sender), sent (UDP sender) or came.
    pub last: Option<Duration>,
    /// Bytes that this end sent (handed to the kernel) or received.
    pub bytes: u64,
    /// Bytes of a sender that the peer's kernel acknowledged.
    pub acked_bytes: Option<u64>,
    /// What the peer counted of this stream, where it tells.
    pub peer_bytes: Option<u64>,
    /// Segments sent again.
    pub retransmits: Option<u64>,
    /// Smoothed round-trip time at the end.
    pub rtt: Option<Duration>,
    /// Datagrams sent by this end.
    pub datagrams_sent: Option<u64>,
    /// The UDP receiver's counts (ours or the peer's report).
    pub udp: Option<UdpEnd>,
    /// Why it failed; a failed stream is not in the sum.
    pub failed: Option<String>,
}

/// The UDP receiver's counts of a whole stream.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct UdpEnd {
    /// Datagrams that the sender sent, as the receiver understood.
    pub datagrams: u64,
    /// Missing.
    pub lost: u64,
    /// Came late.
    pub out_of_order: u64,
    /// Came twice; `None` where the peer does not count them.
    pub duplicated: Option<u64>,
    /// Jitter; `None` with offload.
    pub jitter: Option<Duration>,
    /// Dropped by the receiver's socket buffer; `None` where the peer does not tell.
    pub dropped_by_receiver: Option<u64>,
}

/// What is known only at the end of a throughput run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowEnd {
    /// From the start to the end of everything.
    pub duration: Duration,
    /// Every stream, failed ones too.
    pub streams: Vec<StreamEnd>,
    /// Socket buffer that was asked for and that the kernel gave, of a sender, in bytes.
    pub send_buffer: (Option<u64>, Option<u64>),
    /// The same of a receiver.
    pub receive_buffer: (Option<u64>, Option<u64>),
    /// Congestion control in use.
    pub congestion: Option<String>,
    /// User and system CPU time of this end.
    pub cpu: (Duration, Duration),
    /// How far the wall clock stepped against the steady clock, in s.
    pub clock_step_s: f64,
    /// CPU time of the peer's process over the duration, as a share of one core, where the peer tells (iperf 3).
    pub peer_cpu: Option<f64>,
    /// Whether a person or a shutdown ended it before its plan did.
    pub stopped: bool,
    /// Whether the peer is this machine.
    pub same_host: bool,
    /// What the other end is, where it said so ("iperf 2.1.8", "iperf 3.12", "tidemark").
    pub peer: Option<String>,
    /// Why it ended early or what could not be measured, in sentences.
    pub remarks: Vec<String>,
    /// Documented egress cap of the sending side in bit/s, where it is known, with its source.
    pub egress_cap: Option<(f64, String)>,
    /// Further answers to pings that came after their echoes had been handed over.
    pub late_duplicates: u64,
}
