//! One UDP stream that this end sends: numbered, stamped, evenly spaced datagrams, and the report at their end.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use super::context::Context;
use super::flow::Flow;
use super::tcp::is_turn;
use super::{pattern, peer};
use crate::measure::flow::UdpEnd;
use crate::net::clock;
use crate::net::connect::{describe, is_out_of_buffers, is_refused};
use crate::net::pace::Pace;
use crate::net::sys::{self, Outlet, Ready, SEND_BATCH};
use crate::net::tcp_flow::TURN;
use crate::wire::iperf2::ack;
use crate::wire::iperf2::datagram::DatagramHead;
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
const REPORT_LIMIT: Duration = Duration::from_secs(6);
const FIRST_REPEAT: Duration = Duration::from_millis(20);
const LAST_REPEAT: Duration = Duration::from_millis(250);
/// After a stop there is not that much time.
const STOPPED_LIMIT: Duration = Duration::from_millis(80);
/// A refusal is believed when it comes later than this, or when nothing else follows.
const REFUSAL_GRACE: Duration = Duration::from_millis(250);
/// The same for one of several streams: iperf 2.1.8 has no socket for the moment in which it hands one stream on and
/// waits for the next, and a busy machine makes such a moment long.
const REFUSAL_GRACE_OF_SEVERAL: Duration = Duration::from_millis(2_500);

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
        while context.elapsed() < self.begin && !context.is_over() {
            std::thread::sleep(self.begin.saturating_sub(context.elapsed()).min(TURN));
        }
        // A thread that the machine let wait sends for its whole time all the same.
        let begin = self.begin.max(context.elapsed());
        let length = context.plan.length_bytes as usize;
        let segment = context.plan.offload.then(|| self.segment(length)).flatten();
        let room = if segment.is_some() {
            LARGEST_TRAIN
        } else {
            SEND_ROOM
        };
        let slots = (room / length).clamp(1, SEND_BATCH);
        let mut buffer = self.template(length).repeat(slots);
        let mut pace = match context.plan.bandwidth_bits_per_second {
            Some(rate) => {
                let pace = Pace::new(context.epoch, begin, rate, length as u64);
                Some(pace.map_err(|error| format!("no timer ({})", describe(&error)))?)
            }
            None => None,
        };
        let end = context.lasting().map(|lasting| begin + lasting);
        let is_late = |now: Duration| end.is_some_and(|end| now >= end) || context.is_over();
        let mut allowance = context.allowance();
        let mut next = 1_u64;
        let mut next_look = begin + TURN / 2;
        let outlet = Outlet::connected(self.socket, segment);
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
            let sent = outlet.send(&buffer, context.plan.length_bytes as usize, count);
            let took = match sent {
                Ok(took) => took as u64,
                Err(error) if is_turn(&error) || is_out_of_buffers(&error) => 0,
                Err(_) if context.is_over() => return Ok(next),
                Err(error) if self.is_excused(&error) => 0,
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

    /// The length into which the kernel cuts trains; `None`, and a remark, where it does not.
    fn segment(&self, length: usize) -> Option<u16> {
        let on = u16::try_from(length)
            .map_err(|_| io::Error::from(ErrorKind::InvalidInput))
            .and_then(|length| sys::segments(self.socket).map(|()| length));
        if let Err(error) = &on {
            self.context.remark(format!(
                "Segmentation offload was asked for, but this system does not offer it ({}): datagrams were sent one by one.",
                describe(error)
            ));
        }
        on.ok()
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

    /// Older servers answer the first datagram at once, and a host without a server says so.
    fn listen(&self, heard: &mut Early) -> Result<(), String> {
        let mut buffer = [0; 2_048];
        loop {
            match sys::receive_now(self.socket, &mut buffer) {
                Ok(count) => self.take(heard, &buffer[..count]),
                Err(error) if is_turn(&error) => return Ok(()),
                Err(error) if self.is_excused(&error) => return Ok(()),
                Err(error) => return Err(self.why(&error)),
            }
        }
    }

    fn take(&self, heard: &mut Early, bytes: &[u8]) {
        if let Some((upper, lower)) =
            ack::version(bytes).filter(|_| bytes.len() <= ack::LONG_LENGTH)
        {
            self.context.set_peer(peer::iperf2_name(upper, lower), None);
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
            if let Some(own) = UdpReport::own(bytes) {
                self.context.set_peer(peer::OURS.to_owned(), Some(own));
            }
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
                context.remark(self.no_report());
                return Ok(());
            }
            let last = self.last_datagram(number, heard.wants_sign_bit);
            match self.socket.send(&last) {
                Ok(_) => {}
                Err(error) if is_turn(&error) || is_out_of_buffers(&error) => {}
                Err(error) if self.is_excused(&error) => {}
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
            self.keep_bytes(&report);
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

    /// The server's count of bytes, unless it read only the beginning of each datagram: what came is counted by
    /// datagrams then.
    fn keep_bytes(&self, report: &UdpReport) {
        let length = u64::from(self.context.plan.length_bytes);
        let came = report.datagrams.saturating_sub(report.lost).max(1);
        let each = (report.bytes + came / 2) / came;
        let is_cut = each > 0 && each < length && report.bytes.abs_diff(each * came) <= 2 * each;
        if is_cut {
            self.context.remark(format!(
                "The server read only {each} bytes of each datagram of {length}: start it with -l {length}. Its count of bytes is left out."
            ));
        } else {
            let _ = self.flow.peer_bytes.set(report.bytes);
        }
    }

    fn is_excused(&self, error: &io::Error) -> bool {
        let since = self.context.elapsed().saturating_sub(self.begin);
        is_excused(self.context, error, since)
    }

    fn no_report(&self) -> String {
        if self.context.plan.streams == 1 {
            return "No server report; sender-side numbers only.".to_owned();
        }
        format!(
            "Stream {}: no server report; sender-side numbers only. An iperf 2 server that is slow to take a stream in counts the next one's datagrams as that one's.",
            self.flow.stream
        )
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

/// The wall clock as datagrams carry it.
pub(super) fn stamp() -> (u32, u32) {
    let micros = clock::wall().as_microsecond().max(0).unsigned_abs();
    (
        ((micros / 1_000_000) & 0xFFFF_FFFF) as u32,
        (micros % 1_000_000) as u32,
    )
}

/// Whether this is a refusal that may be a passing one, so long after the start of its stream.
pub(super) fn is_excused(context: &Context<'_>, error: &io::Error, since: Duration) -> bool {
    let grace = if context.plan.streams > 1 {
        REFUSAL_GRACE_OF_SEVERAL
    } else {
        REFUSAL_GRACE
    };
    is_refused(error) && since < grace
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
