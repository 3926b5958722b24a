//! What the first bytes of a connection or flow say: which client, which test. Pure.

use std::net::SocketAddr;
use std::time::Duration;

use super::desk::Group;
use crate::measure::plan::throughput::{
    Dialect, Direction, Protocol, Receive, ThroughputPlan, UDP_DATAGRAM,
};
use crate::wire::iperf2::header::{Amount, ClientHeader, Mode, Parsed, upper};

/// What iperf writes at once where its line does not say.
const BLOCK: u32 = 128 << 10;
/// The most that is believed of a block's length.
const LARGEST_BLOCK: u32 = 64 << 20;
/// What our own clients are called.
pub(super) const OURS: &str = "tidemark";
/// Digits in a row that are taken for a client without a header.
const DIGITS: usize = 12;

/// What a connection turned out to be.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Opening {
    /// Not enough bytes to tell.
    More,
    /// An iperf 2 client, with its header and the header's length.
    Headed(Box<ClientHeader>, usize),
    /// An iperf 2 client that sends no header.
    Plain,
    /// Something else: what.
    Foreign(&'static str),
}

/// Reads the first bytes of a TCP connection; `ended` when no more will come.
pub(super) fn read(bytes: &[u8], ended: bool) -> Opening {
    match ClientHeader::parse_tcp(bytes) {
        Parsed::Header(header, length) => Opening::Headed(Box::new(header), length),
        Parsed::NeedMore(_) if !ended => match foreign(bytes) {
            Some(what) => Opening::Foreign(what),
            None => Opening::More,
        },
        Parsed::NeedMore(_) | Parsed::NoHeader => headerless(bytes, ended),
    }
}

/// Without a header the payload tells: digits (`-C`), or a first word of zero before digits or fields.
fn headerless(bytes: &[u8], ended: bool) -> Opening {
    let start = &bytes[..bytes.len().min(DIGITS)];
    let zeros = start.iter().take(4).take_while(|byte| **byte == 0).count();
    if zeros == start.len().min(4) {
        return if start.len() >= 4 || ended {
            Opening::Plain
        } else {
            Opening::More
        };
    }
    if start.iter().all(u8::is_ascii_digit) {
        return if start.len() == DIGITS || ended {
            Opening::Plain
        } else {
            Opening::More
        };
    }
    Opening::Foreign(foreign(bytes).unwrap_or("something that is no iperf 2 client"))
}

/// Which well-known program these bytes come from.
fn foreign(bytes: &[u8]) -> Option<&'static str> {
    const METHODS: [&[u8]; 9] = [
        b"GET ",
        b"HEAD ",
        b"POST ",
        b"PUT ",
        b"DELETE ",
        b"OPTIONS ",
        b"CONNECT ",
        b"PATCH ",
        b"PRI ",
    ];
    if METHODS.iter().any(|method| bytes.starts_with(method)) {
        return Some("an HTTP client");
    }
    if bytes.starts_with(&[0x16, 0x03]) {
        return Some("a TLS client");
    }
    if bytes.starts_with(b"SSH-") {
        return Some("an SSH client");
    }
    let letters = bytes
        .iter()
        .take(36)
        .take_while(|byte| byte.is_ascii_lowercase() || matches!(byte, b'2'..=b'7'));
    if bytes.len() >= 37 && bytes[36] == 0 && letters.count() == 36 {
        return Some("an iperf 3 client, which has a port of its own");
    }
    None
}

/// The test that a client with this header asks for; `datagram` is the length of its first one, for UDP.
pub(super) fn group(
    header: Option<&ClientHeader>,
    from: SocketAddr,
    port: u16,
    datagram: Option<usize>,
    longest: Duration,
) -> Group {
    let length_bytes = match datagram {
        Some(length) => u32::try_from(length).unwrap_or(UDP_DATAGRAM),
        None => header
            .map(|header| header.block_bytes)
            .filter(|block| *block > 0)
            .unwrap_or(BLOCK)
            .min(LARGEST_BLOCK),
    };
    let (duration_s, bytes) = match header.map(|header| header.amount) {
        Some(Amount::Time(time)) => (Some(time.min(longest).as_secs_f64()), None),
        Some(Amount::Bytes(bytes)) => (None, Some(bytes)),
        None => (None, None),
    };
    let direction = match header.map(ClientHeader::mode) {
        None | Some(Mode::Plain) => Direction::Receive,
        Some(Mode::Reverse) => Direction::Send,
        Some(Mode::FullDuplex | Mode::Dual) => Direction::Both,
        Some(Mode::Tradeoff) => Direction::InTurn,
    };
    let announced = header.map(|header| header.streams);
    let own = header.and_then(|header| header.own).unwrap_or_default();
    let ip = from.ip().to_canonical();
    Group {
        announced,
        peer: header.and_then(version),
        plan: ThroughputPlan {
            host: ip.to_string(),
            port,
            protocol: if datagram.is_some() {
                Protocol::Udp
            } else {
                Protocol::Tcp
            },
            streams: announced.unwrap_or(1),
            duration_s,
            bytes,
            omit_s: 0.0,
            interval_s: 1.0,
            length_bytes,
            window_bytes: None,
            bandwidth_bits_per_second: header
                .map(|header| rate(header, length_bytes))
                .filter(|rate| *rate > 0.0),
            direction,
            congestion: None,
            mss_bytes: None,
            tos: header
                .and_then(|header| u8::try_from(header.tos).ok())
                .filter(|tos| *tos > 0),
            ip_version: Some(if ip.is_ipv4() { 4 } else { 6 }),
            bind: None,
            cport: None,
            dialect: Dialect::Iperf2,
            receive: if own.discard && datagram.is_none() {
                Receive::Discard
            } else {
                Receive::Copy
            },
            offload: own.offload && datagram.is_some(),
        },
    }
}

/// Rate asked for in bit/s; 0 where none was.
fn rate(header: &ClientHeader, length_bytes: u32) -> f64 {
    let rate = header.rate as f64;
    if header.upper & upper::RATE_IS_PACKETS != 0 {
        rate * f64::from(length_bytes) * 8.0
    } else {
        rate
    }
}

/// "iperf 2.1.8": the upper word holds the first two numbers, the lower one the third and the stage.
fn version(header: &ClientHeader) -> Option<String> {
    if header.own.is_some() {
        return Some(OURS.to_owned());
    }
    let (high, low) = header.version?;
    (high >> 16 == 2).then(|| format!("iperf 2.{}.{}", high & 0xFFFF, low >> 16))
}
