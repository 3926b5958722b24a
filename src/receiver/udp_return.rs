//! Datagrams that we send to an iperf 2 client which asked for them (`-R`, `--full-duplex`, `-d`, `-r`).

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use super::desk::Seat;
use super::iperf2_tcp::{RETURN, stamp};
use super::line::Line;
use super::send::{self, Datagrams};
use crate::measure::flow::{UdpEnd, Way};
use crate::measure::plan::throughput::{ThroughputPlan, UDP_RATE};
use crate::net::connect::is_refused;
use crate::net::sys::{self, Outlet, Ready};
use crate::net::{clock, listening};
use crate::wire::iperf2::datagram::DatagramHead;
use crate::wire::iperf2::header::{Amount, ClientHeader};
use crate::wire::iperf2::report::UdpReport;

/// The smallest datagram with a 64-bit id.
const SMALLEST: usize = 16;
/// The largest that UDP carries.
const LARGEST: usize = 65_507;
/// How often the end is sent again until the client's report comes.
const ENDS: u64 = 30;
/// A refusal of the client's host to the first datagram comes within this, or is taken as it comes.
const KNOCK: Duration = Duration::from_millis(30);
/// How long the client may take until it listens.
const LISTENS: Duration = RETURN;

/// What the client asked for.
pub(super) struct Return {
    client: SocketAddr,
    port: u16,
    amount: Amount,
    bits_per_second: f64,
    length: usize,
    trains: bool,
}

impl Return {
    pub(super) fn new(header: &ClientHeader, plan: &ThroughputPlan, client: SocketAddr) -> Self {
        let asked = header.block_bytes as usize;
        let length = if asked > 0 {
            asked
        } else {
            plan.length_bytes as usize
        };
        let given = plan.bandwidth_bits_per_second;
        Self {
            client,
            port: header.port,
            amount: header.amount,
            // Trains are as fast as they go: nothing spaces them.
            bits_per_second: given.unwrap_or(if plan.offload { 0.0 } else { UDP_RATE }),
            length: length.clamp(SMALLEST, LARGEST),
            trains: plan.offload,
        }
    }

    pub(super) const fn client(&self) -> SocketAddr {
        self.client
    }

    pub(super) const fn planned(&self) -> Option<Duration> {
        match self.amount {
            Amount::Time(time) => Some(time),
            Amount::Bytes(_) => None,
        }
    }

    /// Sends from the socket that the client wrote to. Its end is one datagram, which nobody answers.
    pub(super) fn on(
        &self,
        socket: &UdpSocket,
        local: Option<SocketAddr>,
        seat: &Arc<Seat>,
        planned: Option<Duration>,
    ) {
        let line = line_of(seat, local, self.client, planned);
        let outlet = Outlet::towards(socket, self.client, self.segment(socket));
        let next = self.data(&outlet, &line, 1);
        if !line.is_over() {
            self.end(&outlet, &line, next, next);
        }
        line.end();
    }

    /// Sends to the port on which the client listens, from a socket of its own; the client reports at the end.
    pub(super) fn to_port(&self, seat: &Arc<Seat>, planned: Option<Duration>) {
        let to = SocketAddr::new(self.client.ip(), self.port);
        let socket = match listening::udp_towards(to) {
            Ok(socket) => socket,
            Err(error) => {
                let line = line_of(seat, None, to, planned);
                line.fail(format!("No socket towards the client's port: {error}."));
                return;
            }
        };
        let line = line_of(seat, socket.local_addr().ok(), to, planned);
        let outlet = Outlet::connected(&socket, self.segment(&socket));
        if !self.knock(&socket, &line) {
            line.fail(format!(
                "The client's UDP port {} for the return direction is closed.",
                self.port
            ));
            return;
        }
        let next = self.data(&outlet, &line, 2);
        let mut answer = [0; 2_048];
        for number in next..next + ENDS {
            if line.is_over() {
                break;
            }
            self.end(&outlet, &line, number, next);
            // Waits as long as the socket's timeout says.
            let Ok(length) = socket.recv(&mut answer) else {
                continue;
            };
            if let Some(report) = UdpReport::parse(&answer[..length]) {
                let mut tally = line.tally();
                tally.peer_bytes = Some(report.bytes);
                tally.peer_udp = Some(UdpEnd {
                    datagrams: report.datagrams,
                    lost: report.lost,
                    out_of_order: report.out_of_order,
                    duplicated: None,
                    jitter: Some(report.jitter).filter(|_| !self.trains),
                    dropped_by_receiver: None,
                });
                break;
            }
        }
        line.end();
    }

    /// Sends the first datagram until it is not refused: a client may begin to listen after it has begun to send,
    /// and one that hears nothing but ends waits for ever.
    fn knock(&self, socket: &UdpSocket, line: &Line) -> bool {
        let mut first = send::payload()[..self.length].to_vec();
        let deadline = clock::now() + LISTENS;
        while !line.is_over() && clock::now() < deadline {
            head(&mut first, 1);
            let sent = socket.send(&first);
            let answered = sys::wait(socket, Ready::Read, KNOCK).unwrap_or(false);
            let mut answer = [0; 64];
            let refused = answered
                && sys::receive_now(socket, &mut answer).is_err_and(|error| is_refused(&error));
            match sent {
                Ok(sent) if !refused => {
                    line.moved(sent, 1);
                    return true;
                }
                _ => std::thread::sleep(Duration::from_millis(5)),
            }
        }
        false
    }

    fn segment(&self, socket: &UdpSocket) -> Option<u16> {
        let length = u16::try_from(self.length).ok().filter(|_| self.trains)?;
        sys::segments(socket).ok().map(|()| length)
    }

    /// Sends the data from this number on, and returns the number of the end.
    fn data(&self, outlet: &Outlet<'_>, line: &Line, first: u64) -> u64 {
        let spent = (first - 1) * self.length as u64;
        let datagrams = Datagrams {
            amount: Some(match self.amount {
                Amount::Bytes(bytes) => Amount::Bytes(bytes.saturating_sub(spent)),
                time @ Amount::Time(_) => time,
            }),
            bits_per_second: self.bits_per_second,
            length: self.length,
            first,
            trains: self.trains,
            head: &|datagram, number| head(datagram, i64::try_from(number).unwrap_or(i64::MAX)),
        };
        datagrams.send(outlet, line)
    }

    /// The last datagram: its id is negative. It counts as data when it is the first of its kind, not as a repeat.
    fn end(&self, outlet: &Outlet<'_>, line: &Line, number: u64, first: u64) {
        let mut datagram = send::payload()[..self.length].to_vec();
        head(
            &mut datagram,
            i64::try_from(number).map_or(i64::MIN, |number| -number),
        );
        if let Ok(1) = outlet.send(&datagram, self.length, 1)
            && number == first
        {
            line.moved(self.length, 1);
        }
    }
}

fn line_of(
    seat: &Seat,
    local: Option<SocketAddr>,
    to: SocketAddr,
    planned: Option<Duration>,
) -> Arc<Line> {
    seat.line((seat.stream, Way::Send), (local, to), planned, None, None)
}

fn head(datagram: &mut [u8], id: i64) {
    let (seconds, micros) = stamp(clock::wall());
    DatagramHead::write(datagram, id, seconds, micros);
}
