//! The reachability check of one port: half a TCP connect, or the shortest iperf 2 test over UDP.
//!
//! The program behind a TCP port notices nothing of it. UDP has no handshake, so only two things are certain: the
//! host's report that nothing listens, and an answer. An iperf 2 receiver answers the end of a test, so one datagram
//! of data and one that ends it are sent. Our own receivers know them by their mark and keep no test of them; a real
//! iperf counts them as a test of two datagrams.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Duration;

use super::Stop;
use crate::measure::plan::throughput::Protocol;
use crate::measure::reach::{Port, Reach, Reached, Seen, describe};
use crate::net::clock;
use crate::net::connect::{self, describe as error_words};
use crate::net::icmp::{ProbeError, ProbeSocket};
use crate::net::sys::{self, Ready};
use crate::wire::icmp::{self, Trouble, Version};
use crate::wire::iperf2::datagram::DatagramHead;
use crate::wire::iperf2::header::{Amount, ClientHeader, flag};
use crate::wire::own::Own;

/// How long an answer is waited for.
pub const WAIT: Duration = Duration::from_secs(3);
/// From one datagram that asks for an answer to the next.
const AGAIN: Duration = Duration::from_millis(250);
/// A stop is seen within this time.
const TURN: Duration = Duration::from_millis(50);
/// After its report iperf 2.1.8 listens for repetitions for 250 ms; a flow that begins meanwhile is lost on it, and
/// all that follow. Whoever is told that the port is open may begin one.
const SETTLE: Duration = Duration::from_millis(500);
/// Length of the datagrams in bytes: more than the report that answers them, and less than any path carries.
const LENGTH: usize = 512;

/// Checks a port at the address that its host was resolved to; blocks for at most [`WAIT`].
pub fn check(port: &Port, address: SocketAddr, stop: &Stop) -> Reach {
    let mut address = address;
    address.set_port(port.number);
    let (reached, seen) = match port.protocol {
        Protocol::Tcp => by_connect(address, stop),
        Protocol::Udp => by_datagrams(address, stop),
    };
    describe(port, reached, &seen)
}

fn by_connect(address: SocketAddr, stop: &Stop) -> (Reached, Seen) {
    let begun = clock::now();
    let mut seen = Seen {
        waited_s: WAIT.as_secs_f64(),
        ..Seen::default()
    };
    match ProbeSocket::udp(address, None) {
        Ok(socket) => seen.source = socket.local().map(|local| local.ip()),
        Err(error) => return unreachable(seen, &error),
    }
    let mut outcome = connect::half_open(address, None);
    if let Ok(stream) = &outcome {
        loop {
            let now = clock::now();
            match decided(stream) {
                None => {}
                Some(Ok(())) => break,
                Some(Err(error)) => {
                    outcome = Err(error);
                    break;
                }
            }
            if now >= begun + WAIT || stop.is_stopped() {
                return (Reached::NoAnswer, seen);
            }
        }
    }
    match outcome {
        Ok(stream) => {
            seen.rtt_ms = sys::tcp_info(&stream)
                .ok()
                .filter(|info| info.total_retrans == 0 && !info.rtt.is_zero())
                .map(|info| info.rtt.as_secs_f64() * 1e3);
            connect::let_go(stream);
            (Reached::Open, seen)
        }
        Err(error) if connect::is_refused(&error) => (Reached::Refused, seen),
        Err(error) => {
            if !connect::is_timed_out(&error) {
                seen.report = Some(format!("The network reports {}", error_words(&error)));
            }
            (Reached::NoAnswer, seen)
        }
    }
}

/// Waits a little until it is clear what becomes of a connection.
fn decided(stream: &mio::net::TcpStream) -> Option<std::io::Result<()>> {
    match sys::wait(stream, Ready::Write, TURN) {
        Ok(false) => None,
        Ok(true) => Some(match stream.take_error() {
            Ok(None) => Ok(()),
            Ok(Some(error)) | Err(error) => Err(error),
        }),
        Err(error) => Some(Err(error)),
    }
}

fn by_datagrams(address: SocketAddr, stop: &Stop) -> (Reached, Seen) {
    let mut seen = Seen {
        waited_s: WAIT.as_secs_f64(),
        ..Seen::default()
    };
    let socket = match ProbeSocket::udp(address, None) {
        Ok(socket) => socket,
        Err(error) => return unreachable(seen, &error),
    };
    seen.source = socket.local().map(|local| local.ip());
    let mut datagram = vec![0; LENGTH];
    let mut header = ClientHeader::plain(1, address.port(), Amount::Bytes(LENGTH as u64));
    header.flags |= flag::SEQNO_64;
    header.own = Some(Own {
        probe: true,
        ..Own::default()
    });
    header.write_udp(&mut datagram);
    let end = clock::now() + WAIT;
    let mut due = clock::now();
    let mut number = 0;
    loop {
        if clock::now() >= due {
            // Data first; then the end, again and again, each with the next number as iperf does.
            number += 1;
            let id = if number == 1 { 1 } else { -number };
            let (seconds, micros) = wall();
            DatagramHead::write(&mut datagram, id, seconds, micros);
            if let Err(error) = socket.send(&datagram) {
                seen.report = Some(format!(
                    "This machine did not send ({})",
                    error_words(&error)
                ));
            }
            if number == 1 {
                continue;
            }
            due = clock::now() + AGAIN;
        }
        let left = due.min(end).saturating_duration_since(clock::now());
        let _ = sys::wait_any(&[(socket.as_fd(), Ready::Read)], left.min(TURN));
        // Read before listening, so that nothing is missed that is there in time.
        let now = clock::now();
        if let Some(reached) = listen(&socket, address, &mut seen) {
            if reached == Reached::Open {
                std::thread::sleep(SETTLE);
            }
            return (reached, seen);
        }
        if now >= end || stop.is_stopped() {
            return (Reached::NoAnswer, seen);
        }
    }
}

/// What came, if it decides.
fn listen(socket: &ProbeSocket, address: SocketAddr, seen: &mut Seen) -> Option<Reached> {
    let mut buffer = [0; 2_048];
    if let Ok(Some(_)) = socket.receive(&mut buffer) {
        return Some(Reached::Open);
    }
    let version = Version::towards(address.ip());
    while let Ok(Some(reported)) = socket.receive_error(&mut buffer) {
        let trouble = reported
            .icmp
            .and_then(|(kind, code)| icmp::trouble(version, kind, code, reported.information));
        let Some(trouble) = trouble else {
            continue;
        };
        if trouble == Trouble::Port && reported.offender == Some(address.ip()) {
            return Some(Reached::Refused);
        }
        let who = reported
            .offender
            .map_or_else(|| "A router".to_owned(), |offender| offender.to_string());
        seen.report = Some(format!("{who} reports: {trouble}"));
        return Some(Reached::NoAnswer);
    }
    None
}

fn unreachable(mut seen: Seen, error: &ProbeError) -> (Reached, Seen) {
    let report = error.to_string();
    seen.report = Some(report.trim_end_matches('.').to_owned());
    (Reached::NoAnswer, seen)
}

/// Seconds and microseconds of the wall clock, as iperf stamps its datagrams.
fn wall() -> (u32, u32) {
    let micros = clock::wall().as_microsecond();
    let part = |value: i64| u32::try_from(value).unwrap_or(0);
    (part(micros / 1_000_000), part(micros % 1_000_000))
}
