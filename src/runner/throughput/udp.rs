//! One UDP stream: numbered, stamped, evenly spaced datagrams out, and the account of those that come in.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use super::context::{Context, Progress};
use super::flow::{Flow, UdpTotals};
use super::pace::Pace;
use super::tcp::is_turn;
use super::{pattern, peer};
use crate::measure::arrivals::Arrivals;
use crate::measure::flow::UdpEnd;
use crate::net::clock;
use crate::net::connect::{describe, is_out_of_buffers, is_refused};
use crate::net::sys::{self, Arrived, Ready, ReceiveBatch, SEND_BATCH};
use crate::net::tcp_flow::TURN;
use crate::wire::iperf2::ack;
use crate::wire::iperf2::datagram::{self, DatagramHead, Generation, Id};
use crate::wire::iperf2::header::ClientHeader;
use crate::wire::iperf2::report::UdpReport;
use crate::wire::iperf3;

/// The smallest datagram that holds iperf 2's client header.
pub(super) const WITH_HEADER: usize = 76;
/// Where smaller ones say that they have none.
const SMALL_MARK: [u8; 2] = [0x00, 0x02];
/// Bytes of one thread's datagrams under construction.
const SEND_ROOM: usize = 256 << 10;
/// The largest train that segmentation offload takes, in bytes.
const LARGEST_TRAIN: usize = 65_000;
/// A server's report is waited for so long, its request repeated at growing distances.
const REPORT_LIMIT: Duration = Duration::from_millis(2_500);
const FIRST_REPEAT: Duration = Duration::from_millis(20);
const LAST_REPEAT: Duration = Duration::from_millis(250);
/// After a stop there is not that much time.
const STOPPED_LIMIT: Duration = Duration::from_millis(80);
/// A peer that is asked to send and sends nothing is waited for so long.
const FIRST_DATAGRAM_LIMIT: Duration = Duration::from_secs(5);
/// A refusal is believed when it comes later than this, or when nothing else follows: iperf 2.1.8 has no socket
/// for the moment in which it hands one stream on and waits for the next.
const REFUSAL_GRACE: Duration = Duration::from_millis(250);
/// Without a last datagram a flow ends when nothing has come for so long after its time.
const END_LIMIT: Duration = Duration::from_secs(1);

/// How datagrams are numbered and what else is in them.
#[derive(Clone, Copy)]
pub(super) enum Form<'a> {
    /// iperf 2, with this header where it fits.
    Iperf2(&'a ClientHeader),
    /// iperf 3.
    Iperf3,
}

/// How a sender ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Finish {
    /// A last datagram, then the server's report.
    Report,
    /// A last datagram; nothing is answered.
    LastDatagram,
    /// Elsewhere (iperf 3).
    Elsewhere,
}

/// A stream that this end sends on.
pub(super) struct Sending<'a> {
    pub(super) context: &'a Context<'a>,
    pub(super) flow: &'a Flow,
    pub(super) socket: &'a UdpSocket,
    pub(super) begin: Duration,
    pub(super) form: Form<'a>,
    pub(super) finish: Finish,
}

impl Sending<'_> {
    /// Sends everything.
    pub(super) fn run(&self) -> Result<(), String> {
        let mut heard = Early::default();
        let next = self.send(&mut heard)?;
        match self.finish {
            Finish::Report => self.ask_for_report(next, &mut heard),
            Finish::LastDatagram => {
                let last = self.last_datagram(next, false);
                let _ = self.socket.send(&last);
                self.flow
                    .count(last.len() as u64, 1, self.context.elapsed());
                Ok(())
            }
            Finish::Elsewhere => Ok(()),
        }
    }

    /// Sends the data and returns the number of the datagram that would be next.
    fn send(&self, heard: &mut Early) -> Result<u64, String> {
        let context = self.context;
        let length = context.plan.length_bytes as usize;
        let offloads = context.plan.offload && self.offload(length);
        let room = if offloads { LARGEST_TRAIN } else { SEND_ROOM };
        let slots = (room / length).clamp(1, SEND_BATCH);
        let mut buffer = self.template(length).repeat(slots);
        let mut pace = match context.plan.bandwidth_bits_per_second {
            Some(rate) => {
                let pace = Pace::new(context.epoch, self.begin, rate, length as u64);
                Some(pace.map_err(|error| format!("no timer ({})", describe(&error)))?)
            }
            None => None,
        };
        let end = context.lasting().map(|lasting| self.begin + lasting);
        let is_late = |now: Duration| end.is_some_and(|end| now >= end) || context.is_over();
        let mut allowance = context.allowance();
        let mut next = 1_u64;
        let mut next_look = self.begin + TURN / 2;
        while context.elapsed() < self.begin && !context.is_over() {
            std::thread::sleep(self.begin.saturating_sub(context.elapsed()).min(TURN));
        }
        loop {
            let most = match &mut pace {
                Some(pace) => pace
                    .wait(is_late)
                    .map_err(|error| format!("no timer ({})", describe(&error)))?,
                None => u64::MAX,
            };
            let now = context.elapsed();
            if is_late(now) {
                return Ok(next);
            }
            let length = length as u64;
            let claimed = allowance.claim((most / length).clamp(1, slots as u64) * length);
            // What is left of an amount still fills a datagram.
            let count = usize::try_from(claimed.div_ceil(length)).unwrap_or(0);
            if count == 0 {
                return Ok(next);
            }
            self.stamp(&mut buffer, next, count);
            let took = match self.put(&buffer, count, offloads) {
                Ok(took) => took as u64,
                Err(error) if is_turn(&error) || is_out_of_buffers(&error) => 0,
                Err(_) if context.is_over() => return Ok(next),
                Err(error) if is_refused(&error) && now < self.begin + REFUSAL_GRACE => 0,
                Err(error) => return Err(self.why(&error)),
            };
            let now = context.elapsed();
            if took > 0 {
                self.flow.count(took * length, took, now);
            } else {
                std::thread::sleep(Duration::from_micros(100));
            }
            next += took;
            if let Some(pace) = &mut pace {
                pace.sent(took * length);
            }
            allowance.give_back(claimed.saturating_sub(took * length));
            if now >= next_look && self.finish == Finish::Report {
                next_look = now + TURN;
                self.listen(heard)?;
            }
        }
    }

    fn offload(&self, length: usize) -> bool {
        let on = u16::try_from(length)
            .map_err(|_| io::Error::from(ErrorKind::InvalidInput))
            .and_then(|length| sys::segment_sends(self.socket, length));
        if let Err(error) = &on {
            self.context.remark(format!(
                "Segmentation offload was asked for, but this system does not offer it ({}): datagrams were sent one by one.",
                describe(error)
            ));
        }
        on.is_ok()
    }

    /// A datagram with everything but its number and time.
    fn template(&self, length: usize) -> Vec<u8> {
        let mut datagram = pattern(u32::try_from(length).unwrap_or(u32::MAX));
        if let Form::Iperf2(header) = self.form {
            if length >= WITH_HEADER {
                header.write_udp(&mut datagram);
            } else if length >= 18 {
                datagram[16..18].copy_from_slice(&SMALL_MARK);
            }
        }
        datagram
    }

    fn stamp(&self, buffer: &mut [u8], first: u64, count: usize) {
        let length = self.context.plan.length_bytes as usize;
        let (seconds, micros) = stamp();
        for (number, datagram) in (first..).zip(buffer.chunks_exact_mut(length).take(count)) {
            match self.form {
                Form::Iperf2(_) => {
                    let id = i64::try_from(number).unwrap_or(i64::MAX);
                    DatagramHead::write(datagram, id, seconds, micros);
                }
                Form::Iperf3 => iperf3::DatagramHead {
                    seconds,
                    micros,
                    counter: number,
                }
                .write(datagram, true),
            }
        }
    }

    fn put(&self, buffer: &[u8], count: usize, offloads: bool) -> io::Result<usize> {
        let length = self.context.plan.length_bytes as usize;
        if offloads {
            return self
                .socket
                .send(&buffer[..count * length])
                .map(|sent| sent / length);
        }
        sys::send_batch(self.socket, buffer, length, count)
    }

    /// Older servers answer the first datagram at once, and a host without a server says so.
    fn listen(&self, heard: &mut Early) -> Result<(), String> {
        let mut buffer = [0; 2_048];
        loop {
            match sys::receive_now(self.socket, &mut buffer) {
                Ok(count) => self.take(heard, &buffer[..count]),
                Err(error) if is_turn(&error) => return Ok(()),
                Err(error)
                    if is_refused(&error)
                        && self.context.elapsed() < self.begin + REFUSAL_GRACE
                        && self.flow.datagrams() > 0 =>
                {
                    return Ok(());
                }
                Err(error) => return Err(self.why(&error)),
            }
        }
    }

    fn take(&self, heard: &mut Early, bytes: &[u8]) {
        if let Some((upper, lower)) =
            ack::version(bytes).filter(|_| bytes.len() <= ack::LONG_LENGTH)
        {
            self.context.set_peer(peer::iperf2_name(upper, lower));
            // 2.0.14 and later do not answer here.
            heard.wants_sign_bit = (upper, lower >> 16) < (0x0002_0000, 14);
            return;
        }
        let Some(report) = UdpReport::parse(bytes) else {
            return;
        };
        let flow = self.flow;
        if report.is_plausible(flow.bytes(), flow.datagrams(), self.context.elapsed()) {
            heard.report = Some(report);
        }
    }

    fn last_datagram(&self, number: u64, sign_bit: bool) -> Vec<u8> {
        let mut datagram = self.template(self.context.plan.length_bytes as usize);
        let (seconds, micros) = stamp();
        if sign_bit {
            let number = u32::try_from(number & 0x7FFF_FFFF).unwrap_or(0);
            DatagramHead::write_sign_bit_end(&mut datagram, number, seconds, micros);
        } else {
            let number = i64::try_from(number).unwrap_or(i64::MAX);
            DatagramHead::write(&mut datagram, -number, seconds, micros);
        }
        datagram
    }

    /// Sends the last datagram, with the same number each time, until the server has reported.
    fn ask_for_report(&self, number: u64, heard: &mut Early) -> Result<(), String> {
        let context = self.context;
        let begun = context.elapsed();
        let mut distance = FIRST_REPEAT;
        let length = u64::from(context.plan.length_bytes);
        self.flow.count(length, 1, begun);
        while heard.report.is_none() {
            let now = context.elapsed();
            let limit = if context.is_stopped() {
                STOPPED_LIMIT
            } else {
                REPORT_LIMIT
            };
            if now >= begun + limit {
                context.remark("No server report; sender-side numbers only.");
                return Ok(());
            }
            let last = self.last_datagram(number, heard.wants_sign_bit);
            match self.socket.send(&last) {
                Ok(_) => {}
                Err(error) if is_turn(&error) || is_out_of_buffers(&error) => {}
                Err(error) => return Err(self.why(&error)),
            }
            let until = now + distance;
            distance = (distance * 2).min(LAST_REPEAT);
            while heard.report.is_none() && context.elapsed() < until {
                let left = until.saturating_sub(context.elapsed());
                let turn = left.min(STOPPED_LIMIT / 2);
                if sys::wait(self.socket, Ready::Read, turn).unwrap_or(false) {
                    let knew = heard.wants_sign_bit;
                    self.listen(heard)?;
                    if heard.wants_sign_bit != knew {
                        break;
                    }
                }
            }
        }
        if let Some(report) = heard.report {
            if context.plan.omit_s > 0.0 {
                context.remark("The server's report covers the omitted time too.");
            }
            let _ = self.flow.peer_bytes.set(report.bytes);
            let _ = self.flow.peer_udp.set(UdpEnd {
                datagrams: report.datagrams,
                lost: report.lost,
                out_of_order: report.out_of_order,
                duplicated: None,
                jitter: (!context.plan.offload).then_some(report.jitter),
                dropped_by_receiver: None,
            });
        }
        Ok(())
    }

    fn why(&self, error: &io::Error) -> String {
        why(error, self.context.address)
    }
}

/// What came before the end of a sender.
#[derive(Default)]
struct Early {
    /// 2.0.13 and older want the last datagram in their own spelling.
    wants_sign_bit: bool,
    report: Option<UdpReport>,
}

/// A stream that the peer sends on.
pub(super) struct Receiving<'a> {
    pub(super) context: &'a Context<'a>,
    pub(super) flow: &'a Flow,
    pub(super) socket: &'a UdpSocket,
    pub(super) begin: Duration,
    /// The dialect of what comes.
    pub(super) form: Form<'a>,
    /// What asks the peer to send, repeated until it does; empty where that is done elsewhere.
    pub(super) request: Vec<u8>,
}

impl Receiving<'_> {
    /// Receives until the last datagram (iperf 2) or until the test is over (iperf 3).
    pub(super) fn run(&self) -> Result<(), String> {
        let context = self.context;
        let mut batch = batch(context, self.socket);
        let mut tally = Tally::new(matches!(self.form, Form::Iperf3));
        let mut progress = Progress::new(self.begin);
        let end = context.lasting().map(|lasting| self.begin + lasting);
        let is_iperf3 = matches!(self.form, Form::Iperf3);
        let mut next_request = Duration::ZERO;
        loop {
            if context.is_closing() {
                return Ok(());
            }
            let now = context.elapsed();
            if tally.bytes == 0 && !self.request.is_empty() && now >= next_request {
                match self.socket.send(&self.request) {
                    Err(error) if !is_turn(&error) => return Err(why(&error, context.address)),
                    _ => next_request = now + TURN,
                }
            }
            // iperf 3 stops counting when the time is over, and reads on.
            let counts = !(is_iperf3 && (context.is_over() || end.is_some_and(|end| now >= end)));
            let mut ended = false;
            let before = (tally.bytes, tally.datagrams);
            let clock = Clock::now(context);
            let got = batch.receive(self.socket, |arrived| {
                if counts && !ended {
                    ended = tally.take(&arrived, &clock) == Taken::End;
                }
            });
            match got {
                Ok(_) => {}
                Err(error) if is_turn(&error) => {}
                Err(_) if context.is_over() => return Ok(()),
                Err(error) => return Err(why(&error, context.address)),
            }
            let now = context.elapsed();
            tally.hand_on(self.flow, before, now);
            if let Some(mut shared) = context.received_allowance() {
                shared.claim(tally.bytes - before.0);
            }
            if ended {
                return Ok(());
            }
            if tally.bytes == 0 {
                if now.saturating_sub(self.begin) >= FIRST_DATAGRAM_LIMIT {
                    return Err(format!(
                        "the peer sent nothing for {} s: it does not know this direction, or a firewall or NAT drops its datagrams",
                        FIRST_DATAGRAM_LIMIT.as_secs()
                    ));
                }
                continue;
            }
            let is_gone = progress.is_gone(tally.bytes, now);
            if end.is_some_and(|end| now >= end.max(progress.at()) + END_LIMIT) && !is_iperf3 {
                context.remark(format!(
                    "Stream {}: the last datagram did not come, so datagrams lost at the end are not known.",
                    self.flow.stream
                ));
                return Ok(());
            }
            if is_gone {
                context.remark(format!(
                    "Stream {}: nothing came after {:.1} s; the figures are of the time before.",
                    self.flow.stream,
                    progress.at().as_secs_f64()
                ));
                return Ok(());
            }
        }
    }
}

/// Room for what comes.
pub(super) fn batch(context: &Context<'_>, socket: &UdpSocket) -> ReceiveBatch {
    ReceiveBatch::prepare(socket);
    if context.plan.offload {
        let mut batch = ReceiveBatch::new(16, 65_535);
        if batch.join(socket).is_ok() {
            return batch;
        }
    }
    let size = (context.plan.length_bytes as usize).max(9_216);
    ReceiveBatch::new((SEND_ROOM / size).clamp(4, 64), size)
}

/// Both clocks at one instant: the kernel stamps with the wall clock, which may step; the steady one does not.
pub(super) struct Clock {
    steady_micros: i64,
    wall_micros: i64,
}

impl Clock {
    pub(super) fn now(context: &Context<'_>) -> Self {
        Self {
            steady_micros: i64::try_from(context.elapsed().as_micros()).unwrap_or(0),
            wall_micros: clock::wall().as_microsecond(),
        }
    }

    fn steady(&self, at: Option<Duration>) -> i64 {
        let stamp = at.and_then(|at| i64::try_from(at.as_micros()).ok());
        stamp.map_or(self.steady_micros, |stamp| {
            stamp - self.wall_micros + self.steady_micros
        })
    }
}

/// What a datagram was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// Data.
    Data,
    /// The last one.
    End,
    /// Nothing of the flow.
    Other,
}

/// The account of one flow that comes in.
pub(super) struct Tally {
    arrivals: Arrivals,
    is_iperf3: bool,
    generation: Option<Generation>,
    pub(super) bytes: u64,
    pub(super) datagrams: u64,
    dropped_first: Option<u32>,
    dropped: u64,
}

impl Tally {
    pub(super) fn new(is_iperf3: bool) -> Self {
        Self {
            arrivals: Arrivals::new(1),
            is_iperf3,
            generation: None,
            bytes: 0,
            datagrams: 0,
            dropped_first: None,
            dropped: 0,
        }
    }

    pub(super) fn take(&mut self, arrived: &Arrived<'_>, clock: &Clock) -> Taken {
        let Some((id, sent)) = self.read(arrived.bytes) else {
            return Taken::Other;
        };
        let (number, taken) = match id {
            Id::Data(number) => (number, Taken::Data),
            Id::End(number) => (number, Taken::End),
        };
        self.arrivals.take(number, sent, clock.steady(arrived.at));
        self.bytes += arrived.bytes.len() as u64;
        self.datagrams += 1;
        if let Some(dropped) = arrived.dropped {
            let first = *self.dropped_first.get_or_insert(0);
            self.dropped = u64::from(dropped.wrapping_sub(first));
        }
        taken
    }

    fn read(&mut self, bytes: &[u8]) -> Option<(Id, i64)> {
        if self.is_iperf3 {
            // What opens a stream is shorter than any data.
            let head = iperf3::DatagramHead::parse(bytes, true)?;
            return Some((Id::Data(head.counter), head.sent_micros()));
        }
        if bytes.len() <= ack::LONG_LENGTH && ack::recognise(bytes).is_some() {
            return None;
        }
        let head = DatagramHead::parse(bytes)?;
        let generation = *self.generation.get_or_insert_with(|| {
            let found = first_generation(bytes, &head);
            if found != Generation::New {
                self.arrivals = Arrivals::new(0);
            }
            found
        });
        Some((
            head.id(generation, self.arrivals.highest()),
            head.sent_micros(),
        ))
    }

    /// Shows the flow what came since `before`.
    pub(super) fn hand_on(&self, flow: &Flow, before: (u64, u64), now: Duration) {
        if self.bytes > before.0 {
            flow.count(self.bytes - before.0, 0, now);
            flow.set_udp(UdpTotals {
                counts: self.arrivals.counts(),
                expected: self.arrivals.expected(),
                dropped: self.dropped,
            });
        }
    }

    /// The report that a sender wants, and in which spelling.
    pub(super) fn report(&self, lasted: Duration) -> (UdpReport, Generation) {
        let counts = self.arrivals.counts();
        let report = UdpReport {
            bytes: self.bytes,
            duration: lasted,
            lost: counts.lost,
            out_of_order: counts.out_of_order,
            datagrams: self.arrivals.expected(),
            jitter: counts.jitter.unwrap_or_default(),
        };
        (report, self.generation.unwrap_or(Generation::New))
    }
}

/// Servers send without a header; those of 2.0.14 and later count from 1 with 64 bits.
fn first_generation(bytes: &[u8], head: &DatagramHead) -> Generation {
    if head.low != 0 && head.high == 0 {
        return Generation::New;
    }
    datagram::recognise(bytes).0
}

/// The wall clock as datagrams carry it.
pub(super) fn stamp() -> (u32, u32) {
    let micros = clock::wall().as_microsecond().max(0).unsigned_abs();
    (
        ((micros / 1_000_000) & 0xFFFF_FFFF) as u32,
        (micros % 1_000_000) as u32,
    )
}

/// Why datagrams cannot be sent or received, in words.
pub(super) fn why(error: &io::Error, address: SocketAddr) -> String {
    if is_refused(error) {
        return format!(
            "the peer refused: nothing listens for UDP at {address} (ICMP port unreachable)"
        );
    }
    format!("sending failed ({})", describe(error))
}
