//! Sending to clients that asked for it, paced, and never more than they asked for.

use std::io::{self, ErrorKind, Write};
use std::net::TcpStream;
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use super::line::Line;
use crate::net::clock::Epoch;
use crate::net::connect::{is_out_of_buffers, is_refused};
use crate::net::pace::Pace;
use crate::net::sys::{Outlet, SEND_BATCH};
use crate::wire::iperf2::header::Amount;

/// Bytes handed to the kernel at once.
pub(super) const BLOCK: usize = 128 << 10;
/// Bytes of datagrams under construction; a train of segmentation offload must fit into one packet.
const ROOM: usize = 256 << 10;
const TRAIN: usize = 65_000;
/// The smallest piece of a paced byte stream where the client does not say: a segment of Ethernet.
const SEGMENT: u64 = 1_448;
/// A client's port that refuses for so long is closed for good.
const REFUSED: Duration = Duration::from_secs(3);

/// The payload that iperf sends: digits, over and over.
pub(super) fn payload() -> &'static [u8] {
    static PAYLOAD: OnceLock<Vec<u8>> = OnceLock::new();
    PAYLOAD.get_or_init(|| (b'0'..=b'9').cycle().take(BLOCK).collect())
}

/// How long and how much a sender may.
struct Budget<'a> {
    line: &'a Line,
    epoch: Epoch,
    end: Option<Duration>,
    left: u64,
    pace: Option<Pace>,
}

impl<'a> Budget<'a> {
    /// `bits_per_second` 0 is as fast as it goes.
    fn new(
        line: &'a Line,
        amount: Option<Amount>,
        bits_per_second: f64,
        unit: u64,
    ) -> io::Result<Self> {
        let epoch = Epoch::after(Duration::ZERO);
        let pace = if bits_per_second > 0.0 {
            Some(Pace::new(epoch, Duration::ZERO, bits_per_second, unit)?)
        } else {
            None
        };
        let (end, left) = match amount {
            Some(Amount::Time(time)) => (Some(time), u64::MAX),
            Some(Amount::Bytes(bytes)) => (None, bytes),
            None => (None, u64::MAX),
        };
        Ok(Self {
            line,
            epoch,
            end,
            left,
            pace,
        })
    }

    /// Waits until something is due, and says how many bytes; `None` at the end.
    fn next(&mut self) -> io::Result<Option<u64>> {
        let (line, end) = (self.line, self.end);
        let is_over = |now: Duration| line.is_over() || end.is_some_and(|end| now >= end);
        let due = match &mut self.pace {
            Some(pace) => pace.wait(is_over)?,
            None => u64::MAX,
        };
        let goes_on = self.left > 0 && !is_over(self.epoch.elapsed());
        Ok(goes_on.then(|| due.min(self.left)))
    }

    fn sent(&mut self, bytes: u64) {
        self.left = self.left.saturating_sub(bytes);
        if let Some(pace) = &mut self.pace {
            pace.sent(bytes);
        }
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
    let block = block.clamp(1, BLOCK);
    let unit = Pace::tcp_unit(bits_per_second, block as u64, SEGMENT);
    if let Err(error) = Budget::new(line, amount, bits_per_second, unit)
        .and_then(|budget| write_all(socket, budget, block))
    {
        line.broke(&error);
    }
}

fn write_all(socket: &mut TcpStream, mut budget: Budget<'_>, block: usize) -> io::Result<()> {
    while let Some(due) = budget.next()? {
        let size = usize::try_from(due).unwrap_or(block).min(block);
        match socket.write(&payload()[..size]) {
            Ok(written) => {
                budget.line.moved(written, 0);
                budget.sent(written as u64);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The datagrams that a client asked for.
pub(super) struct Datagrams<'a> {
    pub(super) amount: Option<Amount>,
    /// 0 is as fast as it goes.
    pub(super) bits_per_second: f64,
    /// Of each one, in bytes.
    pub(super) length: usize,
    /// Number of the first.
    pub(super) first: u64,
    /// Whether they are sent as trains that the kernel cuts.
    pub(super) trains: bool,
    /// Writes each one's number, and the time.
    pub(super) head: &'a dyn Fn(&mut [u8], u64),
}

impl Datagrams<'_> {
    /// Sends them until the amount, or the line, is over, and returns the number that would be next.
    pub(super) fn send(&self, outlet: &Outlet<'_>, line: &Line) -> u64 {
        let mut next = self.first;
        let budget = Budget::new(line, self.amount, self.bits_per_second, self.length as u64);
        if let Err(error) = budget.and_then(|budget| self.send_all(outlet, budget, &mut next)) {
            line.broke(&error);
        }
        next
    }

    fn send_all(
        &self,
        outlet: &Outlet<'_>,
        mut budget: Budget<'_>,
        next: &mut u64,
    ) -> io::Result<()> {
        let room = if self.trains { TRAIN } else { ROOM };
        let slots = (room / self.length).clamp(1, SEND_BATCH);
        let mut buffer = payload()[..self.length].repeat(slots);
        let mut refused_since = None;
        while let Some(due) = budget.next()? {
            // What is left of an amount still fills a datagram.
            let due = usize::try_from(due.div_ceil(self.length as u64)).unwrap_or(slots);
            let count = due.min(slots);
            for (number, datagram) in
                (*next..).zip(buffer.chunks_exact_mut(self.length).take(count))
            {
                (self.head)(datagram, number);
            }
            let now = budget.epoch.elapsed();
            match outlet.send(&buffer, self.length, count) {
                Ok(sent) => {
                    let bytes = sent * self.length;
                    *next += sent as u64;
                    budget.line.moved(bytes, sent as u64);
                    budget.sent(bytes as u64);
                }
                // The local queue is full: those are late, not lost.
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
                        || is_out_of_buffers(&error) =>
                {
                    thread::sleep(Duration::from_micros(200));
                }
                // The host answers to an earlier one; the port may be open again.
                Err(error) if is_refused(&error) => {
                    let since = *refused_since.get_or_insert(now);
                    if now.saturating_sub(since) >= REFUSED {
                        return Err(error);
                    }
                    thread::sleep(Duration::from_millis(5));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
