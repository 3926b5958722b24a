//! One UDP stream that the peer sends: what the numbers and stamps of its datagrams say.

use std::net::UdpSocket;
use std::time::Duration;

use super::context::{Context, Progress};
use super::flow::{Flow, UdpTotals};
use super::tcp::is_turn;
use super::udp::{is_excused, why};
use crate::measure::arrivals::Arrivals;
use crate::measure::plan::throughput::Dialect;
use crate::net::clock;
use crate::net::sys::{Arrived, ReceiveBatch};
use crate::net::tcp_flow::TURN;
use crate::wire::iperf2::ack;
use crate::wire::iperf2::datagram::{self, DatagramHead, Generation, Id};
use crate::wire::iperf2::report::UdpReport;
use crate::wire::iperf3;

/// A peer that is asked to send and sends nothing is waited for so long.
const FIRST_DATAGRAM_LIMIT: Duration = Duration::from_secs(8);
/// Bytes of datagrams that are read at once.
const RECEIVE_ROOM: usize = 1 << 20;
/// Without a last datagram a flow ends when nothing has come for so long after its time.
const END_LIMIT: Duration = Duration::from_secs(3);

/// A stream that the peer sends on.
pub(super) struct Receiving<'a> {
    pub(super) context: &'a Context<'a>,
    pub(super) flow: &'a Flow,
    pub(super) socket: &'a UdpSocket,
    pub(super) begin: Duration,
    /// What asks the peer to send, repeated until it does; empty where that is done elsewhere.
    pub(super) request: Vec<u8>,
}

impl Receiving<'_> {
    /// Receives until the last datagram (iperf 2) or until the test is over (iperf 3).
    pub(super) fn run(&self) -> Result<(), String> {
        let context = self.context;
        let mut batch = batch(context, self.socket);
        let mut tally = Tally::new(context);
        let begin = self.begin.max(context.elapsed());
        let mut progress = Progress::new(begin);
        let end = context.lasting().map(|lasting| begin + lasting);
        let is_iperf3 = context.plan.dialect == Dialect::Iperf3;
        let mut next_request = Duration::ZERO;
        loop {
            if context.is_closing() {
                return Ok(());
            }
            let now = context.elapsed();
            if tally.bytes == 0 && !self.request.is_empty() && now >= next_request {
                match self.socket.send(&self.request) {
                    Ok(_) => next_request = now + TURN,
                    Err(error) if is_turn(&error) => next_request = now + TURN,
                    Err(error) if is_excused(context, &error, now.saturating_sub(begin)) => {}
                    Err(error) => return Err(why(&error, context.address)),
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
                Err(error) if is_excused(context, &error, now.saturating_sub(begin)) => {}
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
                if now.saturating_sub(begin) >= FIRST_DATAGRAM_LIMIT {
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
    ReceiveBatch::new((RECEIVE_ROOM / size).clamp(8, 64), size)
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
    /// Whether stamps are those of whole trains.
    is_joined: bool,
    generation: Option<Generation>,
    pub(super) bytes: u64,
    pub(super) datagrams: u64,
    dropped_first: Option<u32>,
    dropped: u64,
}

impl Tally {
    pub(super) fn new(context: &Context<'_>) -> Self {
        Self {
            arrivals: Arrivals::new(1),
            is_iperf3: context.plan.dialect == Dialect::Iperf3,
            is_joined: context.plan.offload,
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
        self.bytes += arrived.length as u64;
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
            let mut counts = self.arrivals.counts();
            if self.is_joined {
                counts.jitter = None;
            }
            flow.set_udp(UdpTotals {
                counts,
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
