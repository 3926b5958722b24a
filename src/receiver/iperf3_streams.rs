//! iperf 3: the data streams of a test, and the one UDP socket that all of them share.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use super::desk::Seat;
use super::iperf2_tcp::{receive, stamp};
use super::iperf2_udp::{arrived_micros, batch, joined};
use super::iperf3::Hall;
use super::line::{Baseline, Line};
use super::send::{self, Datagrams};
use super::sequence::Sequence;
use crate::measure::flow::{UdpEnd, UdpTick, Way};
use crate::net::sys::{self, Arrived, Outlet, ReceiveBatch};
use crate::net::{clock, listening};
use crate::wire::iperf2::header::Amount;
use crate::wire::iperf3::{DatagramHead, Params, Results, StreamResult, hello, stream_id};

/// How long we send beyond the client's time, which it ends itself.
const OVERTIME: Duration = Duration::from_secs(2);
/// The smallest datagram with its counter.
const SMALLEST: usize = 16;
/// The largest that UDP carries.
const LARGEST: usize = 65_507;

/// A data stream that the client opened.
pub(super) enum Arrival {
    /// With its place in the order of all connections.
    Tcp(TcpStream, SocketAddr, u64),
    Udp(SocketAddr),
}

impl Arrival {
    /// Whether it is of the transport that was agreed on.
    pub(super) const fn is_of(&self, params: &Params) -> bool {
        matches!(self, Self::Udp(_)) == params.udp
    }

    /// Its place among those of its test: the threads that read the cookies may be overtaken by each other.
    pub(super) const fn place(&self) -> u64 {
        match self {
            Self::Tcp(_, _, number) => *number,
            // One thread reads all of them, and the client waits for the answer to each.
            Self::Udp(_) => 0,
        }
    }
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
    /// Whether datagrams come by segmentation offload.
    joins: bool,
}

impl Flows {
    pub(super) fn expect(
        &mut self,
        ip: IpAddr,
        params: &Params,
        arrivals: mpsc::SyncSender<Arrival>,
    ) {
        self.known.clear();
        self.client = Some((ip.to_canonical(), arrivals));
        self.wide = params.wide_counters;
        self.joins = params.own.is_some_and(|own| own.offload) && !params.reverse;
    }

    pub(super) fn clear(&mut self) {
        self.known.clear();
        self.client = None;
        self.joins = false;
    }
}

/// Serves the UDP socket until the receiver stops.
pub(super) fn serve_udp(hall: &Arc<Hall>) {
    let mut batch = batch();
    let mut joins: Option<ReceiveBatch> = None;
    while !hall.desk.is_stopping() {
        let mut flows = None;
        let mut strangers = Vec::new();
        let got = joins
            .as_mut()
            .unwrap_or(&mut batch)
            .receive(&*hall.socket, |datagram| {
                // Taken once for all that came together.
                let (flows, now) = flows.get_or_insert_with(|| (hall.flows(), clock::now()));
                if let Some(from) = datagram.from
                    && !flows.take(hall, &datagram, from, *now)
                {
                    strangers.push(from.ip());
                }
            });
        drop(flows);
        match got {
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                hall.empty.fetch_add(1, Ordering::Release);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // Nothing that one client can cause; the socket goes on.
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
        for ip in strangers {
            if hall.desk.accepts(ip) {
                hall.desk.refuse(ip, "Datagrams that belong to no test.");
            }
        }
        let wanted = hall.flows().joins;
        if wanted != joins.is_some() {
            joins = if wanted {
                joined(&hall.socket)
            } else {
                ReceiveBatch::part(&*hall.socket);
                None
            };
            hall.flows().joins = joins.is_some();
        }
    }
}

impl Flows {
    /// Takes a datagram; `false` where it belongs to nothing.
    fn take(
        &mut self,
        hall: &Hall,
        datagram: &Arrived<'_>,
        from: SocketAddr,
        now: Instant,
    ) -> bool {
        let dropped = datagram.dropped.map_or(0, |dropped| {
            let more = dropped.wrapping_sub(self.drops);
            self.drops = dropped;
            more
        });
        match self.known.get(&from) {
            Some(Some(line)) if datagram.length > 4 => {
                let head = DatagramHead::parse(datagram.bytes, self.wide);
                if let Some(head) = head.filter(|_| !line.is_over()) {
                    let mut tally = line.tally();
                    if let Some(sequence) = tally.sequence.as_mut() {
                        sequence.dropped += u64::from(dropped);
                        if sequence.arrive(head.counter) {
                            let arrived = arrived_micros(datagram);
                            sequence.transit(arrived.wrapping_sub(head.sent_micros()));
                            tally.bytes += datagram.length as u64;
                            tally.touch(now);
                        }
                    }
                }
            }
            Some(_) => {
                if let Some(answer) = hello::reply_to(datagram.bytes) {
                    // The answer to it was lost; if this one is too, the client gives up.
                    let _ = hall.socket.send_to(&answer, from);
                }
            }
            None => {
                let Some((client, arrivals)) = &self.client else {
                    return false;
                };
                let answer =
                    hello::reply_to(datagram.bytes).filter(|_| *client == from.ip().to_canonical());
                if let Some(answer) = answer
                    && arrivals.try_send(Arrival::Udp(from)).is_ok()
                {
                    self.known.insert(from, None);
                    // As above.
                    let _ = hall.socket.send_to(&answer, from);
                }
            }
        }
        true
    }
}

/// One data stream.
pub(super) struct Stream {
    pub(super) line: Arc<Line>,
    way: Way,
    carrier: Carrier,
    /// Congestion control of a sender.
    congestion: Option<String>,
}

enum Carrier {
    /// Taken by the thread that serves it, so that it closes with it.
    Tcp(Mutex<Option<TcpStream>>),
    Udp(SocketAddr),
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
            Arrival::Tcp(stream, from, _) if !params.udp => {
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
                let joined = params.own.is_some_and(|own| own.offload);
                let sequence = (way == Way::Receive).then(|| Sequence::new(1).joined(joined));
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
                    let discard = params.own.is_some_and(|own| own.discard);
                    receive(&mut stream, &self.line, discard);
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
                let length = length.clamp(SMALLEST, LARGEST);
                let segment = u16::try_from(length).ok().filter(|_| {
                    params.own.is_some_and(|own| own.offload)
                        && sys::segments(&*hall.socket).is_ok()
                });
                let outlet = Outlet::towards(&*hall.socket, *to, segment);
                let wide = params.wide_counters;
                let datagrams = Datagrams {
                    amount: amount(params, 2),
                    bits_per_second: rate,
                    length,
                    first: 1,
                    trains: segment.is_some(),
                    head: &|datagram, counter| {
                        let (seconds, micros) = stamp(clock::wall());
                        DatagramHead {
                            seconds,
                            micros,
                            counter,
                        }
                        .write(datagram, wide);
                    },
                };
                datagrams.send(&outlet, &self.line);
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
    pub(super) fn learn(&self, params: &Params, result: &StreamResult, before: &Baseline) {
        let mut tally = self.line.tally();
        tally.peer_bytes = Some(result.bytes);
        if params.udp && self.way == Way::Send {
            // The client counts datagrams from the start; older ones leave it to us what to take off.
            let omitted = result.omitted_datagrams.unwrap_or(before.datagrams_sent);
            tally.peer_udp = Some(UdpEnd {
                datagrams: result.datagrams.saturating_sub(omitted),
                lost: result.lost.saturating_sub(result.omitted_lost.unwrap_or(0)),
                out_of_order: 0,
                duplicated: None,
                jitter: Duration::try_from_secs_f64(result.jitter_s)
                    .ok()
                    .filter(|_| params.own.is_none_or(|own| !own.offload)),
                dropped_by_receiver: None,
            });
        }
    }

    /// What this end counted since the omitted time.
    fn result(&self, id: u64, before: &Baseline, seconds: f64) -> StreamResult {
        let now = self.line.baseline();
        let lost = |udp: &UdpTick| u64::try_from(udp.lost).unwrap_or(0);
        let datagrams = |at: &Baseline| {
            if self.way == Way::Send {
                at.datagrams_sent
            } else {
                at.expected
            }
        };
        let is_udp = matches!(self.carrier, Carrier::Udp(_));
        StreamResult {
            id,
            bytes: now.bytes - before.bytes,
            retransmits: now
                .retransmits
                .map(|count| count.saturating_sub(before.retransmits.unwrap_or(0))),
            jitter_s: now.udp.jitter.unwrap_or_default().as_secs_f64(),
            lost: lost(&now.udp),
            omitted_lost: is_udp.then(|| lost(&before.udp)),
            datagrams: datagrams(&now),
            omitted_datagrams: is_udp.then(|| datagrams(before)),
            start_s: 0.0,
            end_s: seconds,
        }
    }

    /// User and system CPU time in s.
    fn cpu(&self) -> (f64, f64) {
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

/// What this end tells the client of its streams at the end of a test.
pub(super) fn our_results(
    params: &Params,
    streams: &[Stream],
    before: &[Baseline],
    took: Duration,
) -> Results {
    let omit = Duration::from_secs(params.omit_s);
    let seconds = took.saturating_sub(omit).as_secs_f64();
    let none = Baseline::default();
    let results: Vec<_> = streams
        .iter()
        .enumerate()
        .map(|(place, stream)| {
            let before = before.get(place).unwrap_or(&none);
            stream.result(stream_id(place as u64), before, seconds)
        })
        .collect();
    let (user, system) = streams
        .iter()
        .map(Stream::cpu)
        .fold((0.0, 0.0), |sum, cpu| (sum.0 + cpu.0, sum.1 + cpu.1));
    let percent = |time: f64| time / took.as_secs_f64().max(1e-3) * 100.0;
    Results {
        cpu_percent: [percent(user + system), percent(user), percent(system)],
        has_retransmits: results.iter().any(|result| result.retransmits.is_some()),
        congestion: streams.iter().find_map(|stream| stream.congestion.clone()),
        own: params.own,
        streams: results,
    }
}
