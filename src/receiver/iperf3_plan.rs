//! The test that an iperf 3 client's parameters ask for. Pure.

use std::net::SocketAddr;
use std::time::Duration;

use super::desk::Group;
use super::opening::OURS;
use crate::measure::plan::throughput::{Dialect, Direction, Protocol, Receive, ThroughputPlan};
use crate::wire::iperf3::Params;

/// Block of a TCP test where the client does not say.
const BLOCK: u64 = 128 << 10;
/// Datagram where the client does not say.
const DATAGRAM: u64 = 1_460;

/// The test that these parameters ask for.
pub(super) fn group(params: &Params, from: SocketAddr, port: u16, longest: Duration) -> Group {
    let seconds = |count: u64| Duration::from_secs(count).min(longest).as_secs_f64();
    let ip = from.ip().to_canonical();
    let own = params.own.unwrap_or_default();
    let both = if params.bidirectional { 2 } else { 1 };
    let (default, most) = if params.udp {
        (DATAGRAM, 65_507)
    } else {
        (BLOCK, 1 << 20)
    };
    let length = if params.block_bytes == 0 {
        default
    } else {
        params.block_bytes.min(most)
    };
    let bytes = match (params.bytes, params.blocks) {
        (0, 0) => None,
        (0, blocks) => Some(blocks.saturating_mul(length)),
        (bytes, _) => Some(bytes),
    };
    Group {
        announced: u32::try_from(params.streams * both).ok(),
        peer: Some(match (&params.own, &params.version) {
            (Some(_), _) => OURS.to_owned(),
            (None, Some(version)) => format!("iperf {version}"),
            (None, None) => "iperf 3".to_owned(),
        }),
        plan: ThroughputPlan {
            host: ip.to_string(),
            port,
            protocol: if params.udp {
                Protocol::Udp
            } else {
                Protocol::Tcp
            },
            streams: u32::try_from(params.streams).unwrap_or(u32::MAX),
            duration_s: (params.time_s > 0 && bytes.is_none()).then(|| seconds(params.time_s)),
            bytes,
            omit_s: seconds(params.omit_s),
            interval_s: 1.0,
            length_bytes: u32::try_from(length).unwrap_or(u32::MAX),
            window_bytes: params.window_bytes,
            bandwidth_bits_per_second: (params.rate_bits_per_s > 0)
                .then_some(params.rate_bits_per_s as f64),
            direction: if params.bidirectional {
                Direction::Both
            } else if params.reverse {
                Direction::Send
            } else {
                Direction::Receive
            },
            congestion: params.congestion.clone(),
            mss_bytes: params.mss.and_then(|mss| u32::try_from(mss).ok()),
            tos: params.tos.and_then(|tos| u8::try_from(tos).ok()),
            ip_version: Some(if ip.is_ipv4() { 4 } else { 6 }),
            bind: None,
            cport: None,
            dialect: Dialect::Iperf3,
            receive: if own.discard && !params.udp {
                Receive::Discard
            } else {
                Receive::Copy
            },
            offload: own.offload && params.udp,
        },
    }
}
