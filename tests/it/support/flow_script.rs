//! What the pages' instrument plays for throughput, ping and path plans; the host says how the other end behaves.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::json;
use tidemark::measure::flow::{
    CpuTick, Echo, FlowBatch, FlowEnd, StreamEnd, StreamTick, TcpTick, UdpEnd, UdpTick, Way,
};
use tidemark::measure::fold::{End, Measured};
use tidemark::measure::plan::throughput::{Protocol, ThroughputPlan};
use tidemark::measure::plan::{PathPlan, PingPlan};
use tidemark::measure::summary::flow::PathSummary;
use tidemark::supervisor::StopHandle;

/// Nothing listens there.
pub const REFUSES: &str = "127.0.0.2";
/// Never ends by itself.
pub const FOREVER: &str = "127.0.0.3";
/// Loses datagrams and packets; larger packets vanish.
pub const LOSSY: &str = "127.0.0.4";

/// Plays a throughput plan: stream n moves n MB a second.
pub fn throughput(plan: &ThroughputPlan, stop: &StopHandle, sink: &mut dyn FnMut(Measured)) -> End {
    let refused = plan.host == REFUSES;
    let ways: Vec<(Way, u32)> = [(Way::Send, plan.flows().0), (Way::Receive, plan.flows().1)]
        .into_iter()
        .filter(|(_, streams)| *streams > 0)
        .collect();
    let streams: Vec<(Way, u32)> = ways
        .iter()
        .flat_map(|(way, streams)| (1..=*streams).map(|stream| (*way, stream)))
        .collect();
    let forever = plan.host == FOREVER;
    let seconds = if forever {
        3
    } else {
        plan.duration_s.map_or(3, whole)
    };
    if !refused {
        for second in 0..seconds {
            sink(Measured::Flow(FlowBatch {
                opened: Vec::new(),
                until: Duration::from_secs(second + 1),
                ticks: streams
                    .iter()
                    .map(|(way, stream)| tick(plan, *way, *stream, second))
                    .collect(),
                echoes: echoes(second),
                cpu: Some(CpuTick {
                    busy: 0.4,
                    busiest: 0.6,
                    ..CpuTick::default()
                }),
            }));
        }
    }
    while forever && !stop.is_asked() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let duration = Duration::from_secs(if refused { 0 } else { seconds });
    End::Flow(FlowEnd {
        duration,
        streams: streams
            .iter()
            .map(|(way, stream)| stream_end(plan, *way, *stream, seconds))
            .collect(),
        send_buffer: (plan.window_bytes, Some(2_626_560)),
        congestion: (plan.protocol == Protocol::Tcp).then(|| "cubic".to_owned()),
        cpu: (Duration::from_millis(40), Duration::from_millis(300)),
        stopped: forever,
        peer: (!refused).then(|| "iperf 2.1.8".to_owned()),
        ..FlowEnd::default()
    })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a script plays whole seconds"
)]
fn whole(seconds: f64) -> u64 {
    seconds.ceil() as u64
}

fn bytes_a_second(stream: u32) -> u64 {
    u64::from(stream) * 1_000_000
}

fn tick(plan: &ThroughputPlan, way: Way, stream: u32, second: u64) -> StreamTick {
    let bytes = bytes_a_second(stream);
    let tcp = plan.protocol == Protocol::Tcp;
    StreamTick {
        stream,
        way: Some(way),
        from: Duration::from_secs(second),
        to: Duration::from_secs(second + 1),
        bytes,
        tcp: (tcp && way == Way::Send).then(|| TcpTick {
            acked_bytes: bytes,
            retransmits: 1,
            retransmitted_bytes: 1_448,
            rtt: Duration::from_micros(1_500),
            min_rtt: Duration::from_micros(200),
            cwnd_bytes: 400_000,
            mss_bytes: 1_448,
            busy: Duration::from_millis(950),
            ..TcpTick::default()
        }),
        udp: (!tcp && way == Way::Receive).then(|| UdpTick {
            received: 700,
            lost: 1,
            jitter: Some(Duration::from_micros(20)),
            ..UdpTick::default()
        }),
        datagrams_sent: if tcp { 0 } else { 701 },
        cpu: Duration::from_millis(200),
    }
}

fn echoes(second: u64) -> Vec<Echo> {
    (0..20)
        .map(|index| Echo {
            seq: u32::try_from(second).unwrap() * 20 + index + 1,
            at: Duration::from_millis(second * 1_000 + u64::from(index) * 50),
            rtt: Some(Duration::from_micros(1_500 + u64::from(index) * 7)),
            ttl: None,
            duplicates: 0,
            loaded: true,
        })
        .collect()
}

fn stream_end(plan: &ThroughputPlan, way: Way, stream: u32, seconds: u64) -> StreamEnd {
    if plan.host == REFUSES {
        return StreamEnd {
            stream,
            way: Some(way),
            failed: Some(format!(
                "{} port {} refused the connection: no receiver listens there.",
                plan.host, plan.port
            )),
            ..StreamEnd::default()
        };
    }
    let bytes = bytes_a_second(stream) * seconds;
    let tcp = plan.protocol == Protocol::Tcp;
    let sends = way == Way::Send;
    let lost = if plan.host == LOSSY { 21 } else { 0 };
    StreamEnd {
        stream,
        way: Some(way),
        local: format!("127.0.0.1:{}", 41_000 + stream).parse().ok(),
        remote: format!("{}:{}", plan.host, plan.port)
            .parse::<SocketAddr>()
            .ok(),
        first: Some(Duration::ZERO),
        last: Some(Duration::from_secs(seconds)),
        bytes,
        acked_bytes: (tcp && sends).then_some(bytes),
        peer_bytes: Some(if tcp { bytes } else { bytes / 703 * 682 }),
        retransmits: (tcp && sends).then_some(seconds),
        rtt: (tcp && sends).then(|| Duration::from_micros(1_500)),
        datagrams_sent: (!tcp && sends).then_some(2_103),
        udp: (!tcp).then_some(UdpEnd {
            datagrams: 2_103,
            lost,
            out_of_order: 4,
            duplicated: Some(0),
            jitter: Some(Duration::from_micros(20)),
            dropped_by_receiver: Some(3),
        }),
        failed: None,
    }
}

/// Plays a ping: a slow first packet, then steady ones; every tenth is lost on a lossy path.
pub fn ping(plan: &PingPlan, stop: &StopHandle, sink: &mut dyn FnMut(Measured)) -> End {
    let silent = plan.host == REFUSES;
    let lossy = plan.host == LOSSY;
    let forever = plan.host == FOREVER;
    let count = if forever { 3 } else { plan.count };
    let interval = Duration::from_secs_f64(plan.interval_s);
    let echo = |index: u32| {
        let lost = silent || (lossy && index % 10 == 3);
        let micros = if index == 0 {
            2_400
        } else {
            300 + u64::from(index % 7) * 9
        };
        Echo {
            seq: index + 1,
            at: interval * index,
            rtt: (!lost).then(|| Duration::from_micros(micros)),
            ttl: (!lost).then_some(64),
            duplicates: u32::from(lossy && index == 5),
            loaded: false,
        }
    };
    for index in 0..count {
        sink(Measured::Flow(FlowBatch {
            until: interval * (index + 1),
            echoes: vec![echo(index)],
            ..FlowBatch::default()
        }));
    }
    while forever && !stop.is_asked() {
        std::thread::sleep(Duration::from_millis(5));
    }
    End::Flow(FlowEnd {
        duration: interval * count,
        stopped: forever,
        ..FlowEnd::default()
    })
}

/// Plays a path check: 1460 bytes get through an interface of 8896.
pub fn path(plan: &PathPlan) -> End {
    let hole = plan.host == LOSSY;
    let (large, named) = if hole {
        ("no_answer", None)
    } else {
        ("too_big", Some(1_460))
    };
    let found: PathSummary = serde_json::from_value(json!({
        "interface": "eth0", "interface_mtu": 8896, "path_mtu": 1460,
        "expected_mtu": plan.expect_mtu, "ok": plan.expect_mtu.map(|expected| expected == 1_460),
        "black_hole": hole, "address": plan.host, "method": "icmp",
        "remarks": if hole { vec!["10.0.0.1 reports: host unreachable."] } else { Vec::new() },
        "probes": [
            {"size_bytes": 1460, "result": "answered", "rtt_ms": 0.31, "named_mtu": null},
            {"size_bytes": 1461, "result": large, "rtt_ms": null, "named_mtu": named},
            {"size_bytes": 8896, "result": large, "rtt_ms": null, "named_mtu": named},
        ],
        "interfaces": [
            {"name": "lo", "mtu": 65536, "addresses": ["127.0.0.1", "::1"]},
            {"name": "eth0", "mtu": 8896, "addresses": ["10.128.0.11"]},
        ],
    }))
    .unwrap();
    End::Path(found)
}
