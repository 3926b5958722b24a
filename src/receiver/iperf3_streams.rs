//! iperf 3: the data streams of a test, and the one UDP socket that all of them share.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use super::desk::Seat;
use super::iperf2_tcp::{receive, stamp};
use super::iperf3::Hall;
use super::line::Line;
use super::send::{self, Outlet};
use super::sequence::Sequence;
use crate::measure::flow::{UdpEnd, UdpTick, Way};
use crate::net::sys::DatagramBatch;
use crate::net::{clock, listening};
use crate::wire::iperf2::header::Amount;
use crate::wire::iperf3::{DatagramHead, Params, StreamResult, hello};

/// How long we send beyond the client's time, which it ends itself.
const OVERTIME: Duration = Duration::from_secs(2);
/// The smallest datagram with its counter.
const SMALLEST: usize = 16;
/// The largest that UDP carries.
const LARGEST: usize = 65_507;

/// A data stream that the client opened.
pub(super) enum Arrival {
    Tcp(TcpStream, SocketAddr),
    Udp(SocketAddr),
}

/// The flows of the test in progress.
#[derive(Default)]
pub(super) struct Flows {
    /// Whose first datagrams are awaited.
    client: Option<(IpAddr, mpsc::SyncSender<Arrival>)>,
    wide: bool,
    /// A line where the client sends.
    known: HashMap<SocketAddr, Option<Arc<Line>>>,
    drops: u32,
}

impl Flows {
    pub(super) fn expect(&mut self, ip: IpAddr, wide: bool, arrivals: mpsc::SyncSender<Arrival>) {
        self.known.clear();
        self.client = Some((ip.to_canonical(), arrivals));
        self.wide = wide;
    }

    pub(super) fn clear(&mut self) {
        self.known.clear();
        self.client = None;
    }
}

/// Serves the UDP socket until the receiver stops.
pub(super) fn serve_udp(hall: &Arc<Hall>) {
    let mut batch = DatagramBatch::new();
    while !hall.desk.is_stopping() {
        match batch.receive(&hall.socket) {
            Ok(_) => {}
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                ) =>
            {
                continue;
            }
            // Nothing that one client can cause; the socket goes on.
            Err(_) => {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            }
        }
        let now = clock::now();
        let mut flows = hall.flows();
        for datagram in batch.iter() {
            let dropped = datagram.dropped.map_or(0, |dropped| {
                let more = dropped.wrapping_sub(flows.drops);
                flows.drops = dropped;
                more
            });
            let wide = flows.wide;
            match flows.known.get(&datagram.from) {
                Some(Some(line)) if datagram.length > 4 => {
                    let head = DatagramHead::parse(datagram.bytes, wide);
                    if let Some(head) = head.filter(|_| !line.is_over()) {
                        let mut tally = line.tally();
                        let Some(sequence) = tally.sequence.as_mut() else {
                            continue;
                        };
                        sequence.dropped += u64::from(dropped);
                        if sequence.arrive(head.counter) {
                            let arrived = datagram
                                .arrived_micros
                                .unwrap_or_else(|| clock::wall().as_microsecond());
                            sequence.transit(arrived.wrapping_sub(head.sent_micros()));
                            tally.bytes += datagram.length as u64;
                            tally.touch(now);
                        }
                    }
                }
                Some(_) => {
                    if let Some(answer) = hello::reply_to(datagram.bytes) {
                        // The answer to it was lost; if this one is too, the client gives up.
                        let _ = hall.socket.send_to(&answer, datagram.from);
                    }
                }
                None => {
                    let ip = datagram.from.ip().to_canonical();
                    let Some((client, arrivals)) = &flows.client else {
                        drop(flows);
                        if hall.desk.accepts(ip) {
                            hall.desk.refuse(ip, "Datagrams that belong to no test.");
                        }
                        flows = hall.flows();
                        continue;
                    };
                    let Some(answer) = hello::reply_to(datagram.bytes).filter(|_| *client == ip)
                    else {
                        continue;
                    };
                    if arrivals.try_send(Arrival::Udp(datagram.from)).is_ok() {
                        flows.known.insert(datagram.from, None);
                        // As above.
                        let _ = hall.socket.send_to(&answer, datagram.from);
                    }
                }
            }
        }
    }
}

/// One data stream.
pub(super) struct Stream {
    pub(super) line: Arc<Line>,
    way: Way,
    carrier: Carrier,
    /// Congestion control of a sender.
    pub(super) congestion: Option<String>,
}

enum Carrier {
    /// Taken by the thread that serves it, so that it closes with it.
    Tcp(Mutex<Option<TcpStream>>),
    Udp(SocketAddr),
}

/// What was counted when the omitted time was over.
#[derive(Default)]
pub(super) struct Baseline {
    bytes: u64,
    datagrams_sent: u64,
    udp: UdpTick,
    expected: u64,
    retransmits: Option<u64>,
}

impl Stream {
    /// Opens the account of a stream that came; `None` where it is not of the kind that was asked for.
    pub(super) fn open(
        hall: &Hall,
        params: &Params,
        seat: &Seat,
        (number, way): (u32, Way),
        planned: Option<Duration>,
        arrival: Arrival,
    ) -> Option<Self> {
        match arrival {
            Arrival::Tcp(stream, from) if !params.udp => {
                // Without it a vanished client is noticed by its silence only.
                let _ = listening::watch_over(&stream);
                stream.set_read_timeout(None).ok()?;
                let refused = listening::grant(
                    &stream,
                    &listening::Wishes {
                        window_bytes: params.window_bytes,
                        congestion: params.congestion.clone(),
                        no_delay: params.no_delay,
                        tos: params.tos.and_then(|tos| u8::try_from(tos).ok()),
                    },
                );
                let congestion = listening::congestion(&stream);
                seat.note(|end| {
                    for sentence in refused {
                        if !end.remarks.contains(&sentence) {
                            end.remarks.push(sentence);
                        }
                    }
                    if way == Way::Send {
                        end.congestion.clone_from(&congestion);
                    }
                });
                let line = seat.line(
                    (number, way),
                    (stream.local_addr().ok(), from),
                    planned,
                    Some(&stream),
                    None,
                );
                Some(Self {
                    line,
                    way,
                    carrier: Carrier::Tcp(Mutex::new(Some(stream))),
                    congestion,
                })
            }
            Arrival::Udp(from) if params.udp => {
                let sequence = (way == Way::Receive).then(|| Sequence::new(1));
                let line = seat.line((number, way), (hall.local, from), planned, None, sequence);
                if way == Way::Receive {
                    hall.flows().known.insert(from, Some(Arc::clone(&line)));
                }
                Some(Self {
                    line,
                    way,
                    carrier: Carrier::Udp(from),
                    congestion: None,
                })
            }
            _ => None,
        }
    }

    /// Whether it needs a thread: received datagrams are counted where they are read.
    pub(super) fn has_work(&self) -> bool {
        matches!(self.carrier, Carrier::Tcp(_)) || self.way == Way::Send
    }

    /// Moves its bytes until the test is over.
    pub(super) fn run(&self, hall: &Hall, params: &Params) {
        let rate = params.rate_bits_per_s as f64;
        match &self.carrier {
            Carrier::Tcp(stream) => {
                let stream = stream.lock().unwrap_or_else(PoisonError::into_inner).take();
                let Some(mut stream) = stream else {
                    return;
                };
                if self.way == Way::Receive {
                    receive(&mut stream, &self.line);
                } else {
                    let block = usize::try_from(params.block_bytes).unwrap_or(0);
                    let block = if block == 0 { send::BLOCK } else { block };
                    let amount = amount(params, 1);
                    send::stream(&mut stream, &self.line, amount, rate, block);
                    self.await_end();
                }
                self.line.end();
            }
            Carrier::Udp(to) => {
                let length = usize::try_from(params.block_bytes).unwrap_or(0);
                let length = if length == 0 { 1_460 } else { length };
                let outlet = Outlet {
                    socket: &hall.socket,
                    to: Some(*to),
                };
                let wide = params.wide_counters;
                send::datagrams(
                    &outlet,
                    &self.line,
                    amount(params, 2),
                    rate,
                    length.clamp(SMALLEST, LARGEST),
                    &|datagram, counter| {
                        let (seconds, micros) = stamp(clock::wall());
                        DatagramHead {
                            seconds,
                            micros,
                            counter,
                        }
                        .write(datagram, wide);
                    },
                );
                self.line.end();
            }
        }
    }

    /// The client ends the test when it has read what it wants; the connection stays open until then.
    fn await_end(&self) {
        while !self.line.is_over() {
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Takes what the client counted of it.
    pub(super) fn learn(&self, params: &Params, result: &StreamResult) {
        let mut tally = self.line.tally();
        tally.peer_bytes = Some(result.bytes);
        if params.udp && self.way == Way::Send {
            tally.peer_udp = Some(UdpEnd {
                datagrams: result.datagrams,
                lost: result.lost,
                out_of_order: 0,
                duplicated: None,
                jitter: Duration::try_from_secs_f64(result.jitter_s).ok(),
                dropped_by_receiver: None,
            });
        }
    }

    pub(super) fn baseline(&self) -> Baseline {
        let tally = self.line.tally();
        Baseline {
            bytes: tally.bytes,
            datagrams_sent: tally.datagrams_sent,
            udp: tally
                .sequence
                .as_ref()
                .map(Sequence::counts)
                .unwrap_or_default(),
            expected: tally.sequence.as_ref().map_or(0, Sequence::expected),
            retransmits: tally.retransmits(),
        }
    }

    /// What this end counted since the omitted time.
    pub(super) fn result(&self, id: u64, before: &Baseline, seconds: f64) -> StreamResult {
        let now = self.baseline();
        let lost = u64::try_from(now.udp.lost - before.udp.lost).unwrap_or(0);
        StreamResult {
            id,
            bytes: now.bytes - before.bytes,
            retransmits: now
                .retransmits
                .map(|count| count.saturating_sub(before.retransmits.unwrap_or(0))),
            jitter_s: now.udp.jitter.unwrap_or_default().as_secs_f64(),
            lost,
            datagrams: if self.way == Way::Send {
                now.datagrams_sent - before.datagrams_sent
            } else {
                now.expected - before.expected
            },
            start_s: 0.0,
            end_s: seconds,
        }
    }

    /// User and system CPU time in s.
    pub(super) fn cpu(&self) -> (f64, f64) {
        let tally = self.line.tally();
        (tally.cpu.user.as_secs_f64(), tally.cpu.system.as_secs_f64())
    }
}

/// The most that we send on one stream; the client ends it before, as soon as it has enough.
fn amount(params: &Params, spare: u64) -> Option<Amount> {
    let bytes = match (params.bytes, params.blocks) {
        (0, blocks) => blocks.saturating_mul(params.block_bytes),
        (bytes, _) => bytes,
    };
    if params.time_s > 0 {
        let time = Duration::from_secs(params.omit_s + params.time_s);
        Some(Amount::Time(time + OVERTIME))
    } else if bytes > 0 && params.omit_s == 0 {
        Some(Amount::Bytes(bytes.saturating_mul(spare)))
    } else {
        None
    }
}
