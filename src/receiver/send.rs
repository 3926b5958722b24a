//! Sending to clients that asked for it, paced, and never more than they asked for.

use std::io::{ErrorKind, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use super::line::Line;
use crate::net::clock;
use crate::wire::iperf2::header::Amount;

/// Bytes handed to the kernel at once.
pub(super) const BLOCK: usize = 128 << 10;
/// A sender that is further behind than this does not catch up.
const DEBT: Duration = Duration::from_millis(100);
/// Nobody sleeps longer without looking whether it is still wanted.
const NAP: Duration = Duration::from_millis(100);
/// Blocks in a second at the least, so that a slow rate is even.
const BLOCKS_PER_S: f64 = 20.0;

/// The payload that iperf sends: digits, over and over.
pub(super) fn payload() -> &'static [u8] {
    static PAYLOAD: OnceLock<Vec<u8>> = OnceLock::new();
    PAYLOAD.get_or_init(|| (b'0'..=b'9').cycle().take(BLOCK).collect())
}

/// Says when the next bytes are due.
struct Pace {
    bits_per_second: f64,
    due: Instant,
}

impl Pace {
    /// Waits until the next bytes are due; `false` once `line` is over or `end` has come.
    fn wait(&mut self, line: &Line, end: Option<Instant>) -> bool {
        loop {
            let now = clock::now();
            if line.is_over() || end.is_some_and(|end| now >= end) {
                return false;
            }
            let early = self.due.saturating_duration_since(now);
            if early.is_zero() {
                if now.saturating_duration_since(self.due) > DEBT {
                    self.due = now;
                }
                return true;
            }
            let left = end.map_or(NAP, |end| end.saturating_duration_since(now));
            thread::sleep(early.min(NAP).min(left));
        }
    }

    fn sent(&mut self, bytes: usize) {
        if self.bits_per_second > 0.0 {
            let took = Duration::try_from_secs_f64(bytes as f64 * 8.0 / self.bits_per_second);
            self.due += took.unwrap_or(Duration::from_hours(1));
        }
    }
}

fn end_of(amount: Option<Amount>, start: Instant) -> (Option<Instant>, u64) {
    match amount {
        Some(Amount::Time(time)) => (Some(start.checked_add(time).unwrap_or(start)), u64::MAX),
        Some(Amount::Bytes(bytes)) => (None, bytes),
        None => (None, u64::MAX),
    }
}

/// Sends a byte stream until the amount, or the line, is over; `bits_per_second` 0 is as fast as it goes.
pub(super) fn stream(
    socket: &mut TcpStream,
    line: &Line,
    amount: Option<Amount>,
    bits_per_second: f64,
    block: usize,
) {
    let start = clock::now();
    let (end, total) = end_of(amount, start);
    let mut left = total;
    let mut pace = Pace {
        bits_per_second,
        due: start,
    };
    let mut block = block.clamp(1, BLOCK);
    if bits_per_second > 0.0 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "positive, and beyond usize it saturates"
        )]
        let even = (bits_per_second / 8.0 / BLOCKS_PER_S) as usize;
        block = block.min(even.max(1));
    }
    while left > 0 && pace.wait(line, end) {
        let size = usize::try_from(left).unwrap_or(block).min(block);
        match socket.write(&payload()[..size]) {
            Ok(written) => {
                line.moved(written, 0);
                pace.sent(written);
                left -= written as u64;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => {
                line.broke(&error);
                return;
            }
        }
    }
}

/// Where datagrams go: through the socket that all share, or one of the flow's own.
pub(super) struct Outlet<'a> {
    pub(super) socket: &'a UdpSocket,
    /// `None` for a connected socket.
    pub(super) to: Option<SocketAddr>,
}

impl Outlet<'_> {
    pub(super) fn send(&self, datagram: &[u8]) -> std::io::Result<usize> {
        match self.to {
            Some(to) => self.socket.send_to(datagram, to),
            None => self.socket.send(datagram),
        }
    }
}

/// Sends datagrams until the amount, or the line, is over. `head` writes each one's number from 1, and the time.
/// The number of the last one is returned.
pub(super) fn datagrams(
    outlet: &Outlet<'_>,
    line: &Line,
    amount: Option<Amount>,
    bits_per_second: f64,
    length: usize,
    head: &dyn Fn(&mut [u8], u64),
) -> u64 {
    let start = clock::now();
    let (end, total) = end_of(amount, start);
    let mut left = total;
    let mut pace = Pace {
        bits_per_second,
        due: start,
    };
    let mut datagram: Vec<u8> = payload()[..length.min(BLOCK)].to_vec();
    let mut number = 0;
    while left > 0 && pace.wait(line, end) {
        head(&mut datagram, number + 1);
        match outlet.send(&datagram) {
            Ok(sent) => {
                number += 1;
                line.moved(sent, 1);
                left = left.saturating_sub(sent as u64);
            }
            // The local queue is full: that one is late, not lost.
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
                    || error.raw_os_error() == Some(NO_BUFFERS) =>
            {
                thread::sleep(Duration::from_micros(200));
            }
            Err(error) => {
                line.broke(&error);
                break;
            }
        }
        pace.sent(datagram.len());
    }
    number
}

/// `ENOBUFS` on Linux.
const NO_BUFFERS: i32 = 105;
