//! One TCP stream: sending by time or bytes until everything is acknowledged, and receiving until the end.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use super::context::{Context, NO_PROGRESS, Progress};
use super::flow::Flow;
use super::peer::{self, Speaks};
use crate::measure::plan::throughput::{Dialect, Direction, Receive};
use crate::net::connect::{describe, is_reset};
use crate::net::pace::Pace;
use crate::net::sys::{self, Ready};
use crate::net::tcp_flow::{TURN, cut_off};

/// A server that has everything and keeps the connection open is waited for so long.
const CLOSE_LIMIT: Duration = Duration::from_secs(8);
/// A peer that is asked to send and sends nothing is waited for so long.
const FIRST_BYTE_LIMIT: Duration = Duration::from_secs(8);
/// The same where it has answered that it reads.
const AFTER_ACK_LIMIT: Duration = Duration::from_secs(4);
/// A peer that sends by time may go on so long beyond it.
const OVERTIME: Duration = Duration::from_secs(10);
/// How long an iperf 3 sender waits for its last acknowledgements.
const SETTLE: Duration = Duration::from_millis(500);
/// The smallest piece that is asked for at once, in bytes.
const SMALLEST_READ: usize = 128 << 10;
/// The largest piece that is read at once, in bytes.
const LARGEST_READ: usize = 4 << 20;

/// A stream that this end sends on.
pub(super) struct Sending<'a> {
    pub(super) context: &'a Context<'a>,
    pub(super) flow: &'a Flow,
    pub(super) socket: &'a TcpStream,
    /// When it begins.
    pub(super) begin: Duration,
    /// What goes before the pattern and counts as traffic.
    pub(super) header: &'a [u8],
    /// The pattern, at least a block long.
    pub(super) block: &'a [u8],
    /// Whether another thread reads what comes back.
    pub(super) is_read_elsewhere: bool,
}

impl Sending<'_> {
    /// Sends everything.
    pub(super) fn run(&self) -> Result<(), String> {
        let mut heard = Heard::default();
        match self.send(&mut heard) {
            Ok(()) => {}
            Err(Broken::Gone(at)) => return self.gone(at),
            Err(Broken::Said(why)) => return Err(why),
            Err(Broken::System(error)) => return Err(self.why(&error, &mut heard)),
        }
        if self.context.plan.dialect == Dialect::Iperf3 {
            self.settle();
            return Ok(());
        }
        self.drain(&mut heard)
    }

    fn send(&self, heard: &mut Heard) -> Result<(), Broken> {
        let context = self.context;
        // A thread that the machine let wait sends for its whole time all the same.
        let begin = self.begin.max(context.elapsed());
        let end = context.lasting().map(|lasting| begin + lasting);
        let mut allowance = context.allowance();
        let mut pace = self.pace(begin)?;
        let is_late = |now: Duration| end.is_some_and(|end| now >= end) || context.is_over();
        let mut progress = Progress::new(begin);
        let mut next_look = begin + TURN / 2;
        let mut is_short = false;
        let mut written = 0_usize;
        loop {
            let mut most = self.block.len() as u64;
            if let Some(pace) = &mut pace {
                most = pace.wait(is_late)?.min(most);
            }
            let now = context.elapsed();
            if is_late(now) {
                return Ok(());
            }
            // What goes first is sent whole, as a piece of its own.
            let piece = if written < self.header.len() {
                &self.header[written..]
            } else {
                self.block
            };
            let claimed = allowance.claim(most.min(piece.len() as u64));
            if claimed == 0 {
                return Ok(());
            }
            if let Some(end) = end.filter(|end| !is_short && *end < now + TURN) {
                let left = end.saturating_sub(now).max(Duration::from_millis(1));
                self.socket.set_write_timeout(Some(left))?;
                is_short = true;
            }
            let piece = &piece[..usize::try_from(claimed).unwrap_or(piece.len())];
            let wrote = match (&mut &*self.socket).write(piece) {
                Ok(wrote) => wrote,
                Err(error) if is_turn(&error) => 0,
                Err(error) => return Err(error.into()),
            };
            let sent = wrote as u64;
            allowance.give_back(claimed - sent);
            let now = context.elapsed();
            if wrote > 0 {
                written = written.saturating_add(wrote);
                self.flow.count(sent, 0, now);
                if let Some(pace) = &mut pace {
                    pace.sent(sent);
                }
            }
            if now >= next_look {
                next_look = now + TURN;
                self.look(&mut progress, heard, now)?;
            }
        }
    }

    /// Looks whether the peer still takes what is sent, and what it says.
    fn look(
        &self,
        progress: &mut Progress,
        heard: &mut Heard,
        now: Duration,
    ) -> Result<(), Broken> {
        let acked = self.flow.acked_now();
        if acked >= self.flow.bytes() {
            progress.rest(now);
        }
        if progress.is_gone(acked, now) {
            return Err(Broken::Gone(progress.at()));
        }
        if self.is_read_elsewhere {
            return Ok(());
        }
        self.listen(heard)
    }

    fn pace(&self, begin: Duration) -> io::Result<Option<Pace>> {
        let context = self.context;
        let Some(rate) = context.plan.bandwidth_bits_per_second else {
            return Ok(None);
        };
        let segment = context.plan.mss_bytes.map_or(1_448, u64::from);
        let unit = Pace::tcp_unit(rate, self.block.len() as u64, segment);
        Pace::new(context.epoch, begin, rate, unit).map(Some)
    }

    /// Looks at what the peer has sent, which is no payload.
    fn listen(&self, heard: &mut Heard) -> Result<(), Broken> {
        match heard.read(self.socket) {
            Ok(_) => {}
            Err(error) if is_turn(&error) => {}
            Err(error) => return Err(error.into()),
        }
        self.judge(heard)
            .map_or(Ok(()), |why| Err(Broken::Said(why)))
    }

    fn judge(&self, heard: &Heard) -> Option<String> {
        if self.context.plan.dialect == Dialect::Iperf3 {
            return None;
        }
        let speaks = peer::recognise(&heard.bytes);
        if let Speaks::Iperf2(ack) = &speaks {
            self.context.set_peer(ack.name.clone(), ack.own);
        }
        peer::not_iperf2(&speaks, self.context.address.port())
    }

    /// Waits until the peer's kernel has everything and the peer has closed.
    fn drain(&self, heard: &mut Heard) -> Result<(), String> {
        let context = self.context;
        if let Err(error) = self.socket.shutdown(Shutdown::Write) {
            return Err(self.why(&error, heard));
        }
        let mut progress = Progress::new(context.elapsed());
        let mut acked_at = None;
        let mut has_closed = self.is_read_elsewhere;
        loop {
            let now = context.elapsed();
            if context.is_stopped() {
                cut_off(self.socket);
                self.flow.ends_at(now);
                return Ok(());
            }
            if acked_at.is_none() {
                let left = sys::unacknowledged_bytes(self.socket).unwrap_or(0);
                if left == 0 {
                    acked_at = Some(now);
                    self.flow.ends_at(now);
                } else if progress.is_gone(self.flow.acked_now(), now) {
                    return self.gone(progress.at());
                }
            }
            if let Some(acked_at) = acked_at {
                if has_closed {
                    // A clean end: what was sent has been read to its end.
                    let _ = self.flow.peer_bytes.set(self.flow.bytes());
                    return Ok(());
                }
                if now >= acked_at + CLOSE_LIMIT {
                    context.remark("The server has acknowledged everything but does not close its connection; that it has read everything is not sure.");
                    return Ok(());
                }
            }
            let turn = if acked_at.is_some() {
                TURN / 2
            } else {
                TURN / 50
            };
            if has_closed {
                std::thread::sleep(turn.min(TURN / 50));
            } else if sys::wait(self.socket, Ready::Read, turn).unwrap_or(false) {
                match heard.read(self.socket) {
                    Ok(0) => has_closed = true,
                    Ok(_) => {
                        if let Some(why) = self.judge(heard) {
                            return Err(why);
                        }
                    }
                    Err(error) if is_turn(&error) => {}
                    Err(error) => return Err(self.why(&error, heard)),
                }
            }
        }
    }

    /// iperf 3: the end is told on the control connection; what is on its way then is not counted.
    fn settle(&self) {
        let until = self.context.elapsed() + SETTLE;
        while self.context.elapsed() < until && !self.context.is_stopped() {
            match sys::unacknowledged_bytes(self.socket) {
                Ok(left) if left > 0 => std::thread::sleep(Duration::from_millis(1)),
                _ => {
                    self.flow.ends_at(self.context.elapsed());
                    return;
                }
            }
        }
    }

    /// The reason in words; what the peer said before it broke off explains most.
    fn why(&self, error: &io::Error, heard: &mut Heard) -> String {
        if !self.is_read_elsewhere {
            while heard.read(self.socket).is_ok_and(|count| count > 0) {}
            if let Some(why) = self.judge(heard) {
                return why;
            }
        }
        broke(error)
    }

    /// A peer that is gone leaves figures of the time before, with a remark, if there was any.
    fn gone(&self, at: Duration) -> Result<(), String> {
        cut_off(self.socket);
        if self.flow.acked_now() == 0 {
            return Err(format!(
                "nothing was acknowledged for {} s: the peer is gone or a firewall drops the packets",
                NO_PROGRESS.as_secs()
            ));
        }
        self.flow.ends_at(at);
        self.context.remark(gone_remark(self.flow.stream, at));
        Ok(())
    }
}

/// A stream that the peer sends on.
pub(super) struct Receiving<'a> {
    pub(super) context: &'a Context<'a>,
    pub(super) flow: &'a Flow,
    pub(super) socket: &'a TcpStream,
    pub(super) begin: Duration,
    /// What asks the peer to send; empty where that has been done.
    pub(super) request: &'a [u8],
    /// Whether the first bytes may be an iperf 2 server's ack, or another protocol.
    pub(super) checks_first_bytes: bool,
}

impl Receiving<'_> {
    /// Receives until the peer closes (iperf 2) or the test is over (iperf 3).
    pub(super) fn run(&self) -> Result<(), String> {
        let context = self.context;
        if !self.request.is_empty() {
            (&mut &*self.socket)
                .write_all(self.request)
                .map_err(|error| broke(&error))?;
        }
        let discards = context.plan.receive == Receive::Discard;
        let size = (context.plan.length_bytes as usize).clamp(SMALLEST_READ, LARGEST_READ);
        let mut buffer = vec![0; size];
        let mut head = self.checks_first_bytes.then(Vec::new);
        let begin = self.begin.max(context.elapsed());
        let mut progress = Progress::new(begin);
        let latest = context.lasting().map(|lasting| begin + lasting + OVERTIME);
        let mut was_acked = false;
        loop {
            if context.is_closing() {
                return Ok(());
            }
            let got = if discards && head.is_none() {
                sys::receive_discarding(self.socket, size)
            } else {
                (&mut &*self.socket).read(&mut buffer)
            };
            let now = context.elapsed();
            let mut count = match got {
                Ok(0) => return self.closed(now),
                Ok(count) => count,
                Err(error) if is_turn(&error) => 0,
                Err(_) if context.is_over() => return Ok(()),
                Err(error) => return Err(broke(&error)),
            };
            if let Some(first) = head.as_mut().filter(|_| count > 0) {
                first.extend_from_slice(&buffer[..count]);
                count = 0;
                let speaks = peer::recognise(first);
                match &speaks {
                    Speaks::Unknown => {}
                    Speaks::Iperf2(ack) => {
                        context.set_peer(ack.name.clone(), ack.own);
                        count = first.len() - ack.length;
                        // Who knows reverse tests does not ack them.
                        was_acked = context.plan.direction == Direction::Receive;
                        head = None;
                    }
                    Speaks::Payload | Speaks::Iperf3 | Speaks::Other(_) => {
                        if let Some(why) = peer::not_iperf2(&speaks, context.address.port()) {
                            return Err(why);
                        }
                        count = first.len();
                        head = None;
                    }
                }
            }
            // iperf 3 stops counting when the time is over, and reads on until it is told.
            let is_late = context.is_over()
                || context.plan.dialect == Dialect::Iperf3
                    && context
                        .lasting()
                        .is_some_and(|lasting| now >= self.begin + lasting);
            if count > 0 && !is_late {
                self.flow.count(count as u64, 0, now);
                if let Some(mut shared) = context.received_allowance() {
                    shared.claim(count as u64);
                }
            }
            if self.flow.bytes() == 0 {
                self.is_silent(now.saturating_sub(begin), was_acked)?;
            } else if progress.is_gone(self.flow.bytes(), now) {
                cut_off(self.socket);
                context.remark(gone_remark(self.flow.stream, progress.at()));
                return Ok(());
            }
            if latest.is_some_and(|latest| now > latest) && !context.is_over() {
                cut_off(self.socket);
                context.remark(format!(
                    "Stream {}: the peer went on sending after the test's time and was cut off.",
                    self.flow.stream
                ));
                return Ok(());
            }
        }
    }

    fn closed(&self, now: Duration) -> Result<(), String> {
        let context = self.context;
        if context.is_over() {
            return Ok(());
        }
        if self.flow.bytes() == 0 {
            return Err("the peer closed the connection without sending".into());
        }
        if context.plan.dialect == Dialect::Iperf3 {
            // A server that has sent all it was asked for may close before it is told to.
            if context.is_spent() {
                return Ok(());
            }
            return Err("the peer closed the connection before the end".into());
        }
        let _ = self.flow.peer_bytes.set(self.flow.bytes());
        if let Some(lasting) = context.lasting()
            && now.saturating_sub(self.begin) < lasting.mul_f64(0.8)
        {
            context.remark(format!(
                "Stream {}: the peer ended {:.1} s early.",
                self.flow.stream,
                (self.begin + lasting).saturating_sub(now).as_secs_f64()
            ));
        }
        Ok(())
    }

    fn is_silent(&self, waited: Duration, was_acked: bool) -> Result<(), String> {
        if was_acked && waited >= AFTER_ACK_LIMIT {
            return Err("the server does not support reverse tests: it reads instead of sending (iperf 2.0.13 and older); use in_turn, or a newer iperf there".into());
        }
        if waited >= FIRST_BYTE_LIMIT && self.context.plan.dialect == Dialect::Iperf2 {
            return Err(format!(
                "the peer sent nothing for {} s: an iperf older than 2.1 does not know reverse tests",
                FIRST_BYTE_LIMIT.as_secs()
            ));
        }
        if waited >= NO_PROGRESS {
            return Err(format!("the peer sent nothing for {} s", waited.as_secs()));
        }
        Ok(())
    }
}

/// What a peer has answered on a connection on which it should only read.
#[derive(Default)]
struct Heard {
    bytes: Vec<u8>,
}

impl Heard {
    /// Reads what is there now; 0 is the end.
    fn read(&mut self, socket: &TcpStream) -> io::Result<usize> {
        let mut buffer = [0; 512];
        let count = sys::receive_now(socket, &mut buffer)?;
        let room = peer::ENOUGH.saturating_sub(self.bytes.len());
        self.bytes.extend_from_slice(&buffer[..count.min(room)]);
        Ok(count)
    }
}

/// Why sending ended early.
enum Broken {
    System(io::Error),
    /// The peer moves nothing since this instant.
    Gone(Duration),
    /// What the peer said does not fit.
    Said(String),
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

/// Whether a read or write has only waited its turn.
pub(super) fn is_turn(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

fn broke(error: &io::Error) -> String {
    if is_reset(error) {
        "the peer broke the connection off before the end (reset)".into()
    } else {
        format!("the connection failed ({})", describe(error))
    }
}

fn gone_remark(stream: u32, at: Duration) -> String {
    format!(
        "Stream {stream}: the peer moved nothing for {} s after {:.1} s; the figures are of the time before.",
        NO_PROGRESS.as_secs(),
        at.as_secs_f64()
    )
}
