//! Datagrams that we send to an iperf 2 client which asked for them (`-R`, `--full-duplex`, `-d`, `-r`).

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use super::desk::Seat;
use super::iperf2_tcp::stamp;
use super::line::Line;
use super::send::{self, Outlet};
use crate::measure::flow::{UdpEnd, Way};
use crate::measure::plan::throughput::{ThroughputPlan, UDP_RATE};
use crate::net::{clock, listening};
use crate::wire::iperf2::datagram::DatagramHead;
use crate::wire::iperf2::header::{Amount, ClientHeader};
use crate::wire::iperf2::report::UdpReport;

/// The smallest datagram with a 64-bit id.
const SMALLEST: usize = 16;
/// The largest that UDP carries.
const LARGEST: usize = 65_507;
/// How often the end is sent again until the client's report comes.
const ENDS: u64 = 10;

/// What the client asked for.
pub(super) struct Return {
    client: SocketAddr,
    port: u16,
    amount: Amount,
    bits_per_second: f64,
    length: usize,
}

impl Return {
    pub(super) fn new(header: &ClientHeader, plan: &ThroughputPlan, client: SocketAddr) -> Self {
        let asked = header.block_bytes as usize;
        let length = if asked > 0 {
            asked
        } else {
            plan.length_bytes as usize
        };
        Self {
            client,
            port: header.port,
            amount: header.amount,
            bits_per_second: plan.bandwidth_bits_per_second.unwrap_or(UDP_RATE),
            length: length.clamp(SMALLEST, LARGEST),
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
        let outlet = Outlet {
            socket,
            to: Some(self.client),
        };
        let last = self.data(&outlet, &line);
        if !line.is_over() {
            self.end(&outlet, &line, last + 1);
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
        let outlet = Outlet {
            socket: &socket,
            to: None,
        };
        let mut last = self.data(&outlet, &line);
        let mut answer = [0; 2_048];
        for _ in 0..ENDS {
            if line.is_over() {
                break;
            }
            last += 1;
            self.end(&outlet, &line, last);
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
                    jitter: Some(report.jitter),
                    dropped_by_receiver: None,
                });
                break;
            }
        }
        line.end();
    }

    fn data(&self, outlet: &Outlet<'_>, line: &Line) -> u64 {
        send::datagrams(
            outlet,
            line,
            Some(self.amount),
            self.bits_per_second,
            self.length,
            &|datagram, number| head(datagram, i64::try_from(number).unwrap_or(i64::MAX)),
        )
    }

    /// The last datagram: its id is negative, and it counts as data once.
    fn end(&self, outlet: &Outlet<'_>, line: &Line, number: u64) {
        let mut datagram = send::payload()[..self.length].to_vec();
        head(
            &mut datagram,
            i64::try_from(number).map_or(i64::MIN, |number| -number),
        );
        if let Ok(sent) = outlet.send(&datagram)
            && line.tally().datagrams_sent + 1 == number
        {
            line.moved(sent, 1);
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
