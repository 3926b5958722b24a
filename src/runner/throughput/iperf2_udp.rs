//! iperf 2 over UDP: send with the server's report, receive (`-R`), both (`--full-duplex`), or in turn (`-r`).
//!
//! Both ways at once use one pair of ports, as over TCP; the server then reports nothing, so what it received is
//! not known.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use super::context::{Context, NO_PROGRESS};
use super::flow::Flow;
use super::iperf2_tcp::{client_header, mode};
use super::sampler::Sampler;
use super::udp::{self, Finish, Form, Sending, WITH_HEADER};
use super::udp_receiving::{self, Clock, Receiving, Taken, Tally};
use super::{Run, RunError, Task, conclude, drive, pattern};
use crate::measure::flow::{FlowEnd, Way};
use crate::measure::plan::throughput::{Direction, ThroughputPlan};
use crate::net::udp_flow;
use crate::wire::iperf2::datagram::DatagramHead;
use crate::wire::iperf2::header::{ClientHeader, Mode, flag, upper};

/// Beyond this a server's own datagrams do not reach, in bytes.
const LARGEST_ASKED: u32 = 1_470;
/// Streams begin one after another at this distance: iperf 2.1.8 puts what comes for a second stream before it has
/// taken in the first down to the first.
const STAGGER: Duration = Duration::from_millis(10);
/// All of them have begun by then.
const MOST_STAGGER: Duration = Duration::from_millis(500);
/// Requests for a report that come again are answered for so long.
const LINGER: Duration = Duration::from_millis(250);

/// Makes the run.
pub(super) fn run(run: &mut Run<'_>) -> Result<FlowEnd, RunError> {
    let plan = &run.job.plan;
    let address = run.job.address;
    let sockets: Vec<Result<Arc<UdpSocket>, String>> = (0..plan.streams)
        .map(|place| {
            let socket = udp_flow::open(address, &run.options_of(place));
            socket.map(Arc::new).map_err(|error| error.to_string())
        })
        .collect();
    let near = sockets
        .iter()
        .flatten()
        .find_map(|socket| socket.local_addr().ok());
    let listener = match near {
        Some(near) if plan.direction == Direction::InTurn => {
            udp_flow::bind(SocketAddr::new(near.ip(), 0), &run.options).ok()
        }
        _ => None,
    };
    let port = listener
        .as_ref()
        .and_then(|listener| listener.local_addr().ok())
        .map_or(plan.port, |near| near.port());
    let epoch = run.epoch();
    let context = run.context(epoch);
    let mut sampler = run.sampler(epoch);
    let header = udp_header(plan, port);
    let ways: &[Way] = match plan.direction {
        Direction::Send | Direction::InTurn => &[Way::Send],
        Direction::Receive => &[Way::Receive],
        Direction::Both => &[Way::Send, Way::Receive],
    };
    let mut flows = Vec::new();
    for (number, socket) in (1..).zip(&sockets) {
        for way in ways {
            let flow = Arc::new(match socket {
                Ok(socket) => Flow::udp(number, *way, socket.local_addr().ok(), Some(address)),
                Err(why) => Flow::failed(number, *way, address, why.clone()),
            });
            sampler.add(&flow, Duration::ZERO);
            if let Ok(socket) = socket {
                flows.push((flow, Arc::clone(socket)));
            }
        }
    }
    if plan.direction == Direction::Both {
        context.remark("A full-duplex UDP test of iperf 2 has no server report: for the sent datagrams there are sender-side numbers only.");
    }
    let tasks = flows
        .iter()
        .map(|(flow, socket)| task(&context, flow, socket, &header))
        .collect();
    drive(&context, &mut sampler, tasks, |_| ())?;
    note_mixed_up(&context, &flows);
    if plan.direction == Direction::InTurn {
        let sent: Vec<u32> = flows
            .iter()
            .filter(|(flow, _)| flow.failed.get().is_none())
            .map(|(flow, _)| flow.stream)
            .collect();
        in_turn(&context, &mut sampler, listener.as_ref(), &sent)?;
    }
    let mut end = conclude(&context, &mut sampler, &[]);
    if let Some(socket) = sockets.iter().flatten().next() {
        super::note_buffers(&mut end, &**socket);
    }
    Ok(end)
}

/// Says so where the server's reports look like it counted datagrams of one stream as another's.
fn note_mixed_up(context: &Context<'_>, flows: &[(Arc<Flow>, Arc<UdpSocket>)]) {
    let reports = || flows.iter().filter_map(|(flow, _)| flow.peer_udp.get());
    let lost: u64 = reports().map(|udp| udp.lost).sum();
    let late: u64 = reports().map(|udp| udp.out_of_order).sum();
    if flows.len() > 1 && lost > 0 && late > 0 && context.peer().is_none() {
        context.remark(format!(
            "Up to {} of the datagrams reported lost may have come: an iperf 2 server counts what comes for a stream before it has taken it in as another stream's, out of order.",
            lost.min(late)
        ));
    }
}

fn task<'t>(
    context: &'t Context<'t>,
    flow: &'t Flow,
    socket: &'t UdpSocket,
    header: &'t ClientHeader,
) -> Task<'t> {
    let plan = context.plan;
    if flow.way == Way::Send {
        let sending = Sending {
            context,
            flow,
            socket,
            begin: (STAGGER * (flow.stream - 1)).min(MOST_STAGGER),
            form: Form::Iperf2(header),
            finish: if plan.direction == Direction::Both {
                Finish::LastDatagram
            } else {
                Finish::Report
            },
        };
        return Box::new(move || flow.run(|| sending.run()));
    }
    let receiving = Receiving {
        context,
        flow,
        socket,
        begin: Duration::ZERO,
        request: if plan.direction == Direction::Receive {
            request(plan, header)
        } else {
            Vec::new()
        },
    };
    Box::new(move || flow.run(|| receiving.run()))
}

/// The first datagram of a reverse test, large enough for its header.
fn request(plan: &ThroughputPlan, header: &ClientHeader) -> Vec<u8> {
    let length = plan
        .length_bytes
        .max(u32::try_from(WITH_HEADER).unwrap_or(0));
    let mut datagram = pattern(length);
    header.write_udp(&mut datagram);
    let (seconds, micros) = udp::stamp();
    DatagramHead::write(&mut datagram, 1, seconds, micros);
    datagram
}

fn udp_header(plan: &ThroughputPlan, port: u16) -> ClientHeader {
    let mode = mode(plan);
    let mut header = client_header(plan, mode, port);
    header.flags |= flag::SEQNO_64;
    header.block_bytes = header.block_bytes.min(LARGEST_ASKED);
    if matches!(mode, Mode::Reverse | Mode::FullDuplex) {
        header.flags |= flag::UDP_TESTS;
    }
    if mode == Mode::FullDuplex {
        header.upper |= upper::NO_UDP_FIN;
    }
    header
}

/// The second half of a test in turn: the server sends to a port of ours, each stream from a port of its own, and
/// wants a report of each.
fn in_turn(
    context: &Context<'_>,
    sampler: &mut Sampler<'_>,
    listener: Option<&UdpSocket>,
    streams: &[u32],
) -> Result<(), RunError> {
    let begin = context.elapsed();
    let local = listener.and_then(|listener| listener.local_addr().ok());
    let flows: Vec<Arc<Flow>> = streams
        .iter()
        .map(|stream| Arc::new(Flow::udp(*stream, Way::Receive, local, None)))
        .collect();
    for flow in &flows {
        sampler.add(flow, begin);
    }
    let Some((listener, first)) = listener.zip(flows.first()) else {
        for flow in &flows {
            flow.end(Some("no port to be called back on".into()));
        }
        return Ok(());
    };
    let task: Task<'_> = Box::new(|| {
        first.run(|| {
            receive_all(context, listener, &flows, begin);
            Ok(())
        });
    });
    drive(context, sampler, vec![task], |_| ())
}

/// One flow of a test in turn.
struct Incoming {
    from: SocketAddr,
    tally: Tally,
    began: Duration,
    report: Option<Vec<u8>>,
}

/// Receives all flows on one socket and tells them apart by where they come from.
fn receive_all(context: &Context<'_>, socket: &UdpSocket, flows: &[Arc<Flow>], begin: Duration) {
    let mut batch = udp_receiving::batch(context, socket);
    let mut incoming: Vec<Incoming> = Vec::new();
    let latest = context
        .lasting()
        .map(|lasting| begin + lasting + NO_PROGRESS);
    let mut heard = begin;
    loop {
        let clock = Clock::now(context);
        let now = context.elapsed();
        let before: Vec<(u64, u64)> = incoming
            .iter()
            .map(|one| (one.tally.bytes, one.tally.datagrams))
            .collect();
        let mut answers = Vec::new();
        let got = batch.receive(socket, |arrived| {
            let Some(from) = arrived
                .from
                .filter(|from| from.ip() == context.address.ip())
            else {
                return;
            };
            let known = incoming.iter().position(|one| one.from == from);
            let place = match known {
                Some(place) => place,
                None if incoming.len() < flows.len() => {
                    incoming.push(Incoming {
                        from,
                        tally: Tally::new(context),
                        began: now,
                        report: None,
                    });
                    incoming.len() - 1
                }
                None => return,
            };
            let one = &mut incoming[place];
            if let Some(report) = &one.report {
                answers.push((report.clone(), from));
            } else if one.tally.take(&arrived, &clock) == Taken::End {
                let (report, generation) = one.tally.report(now.saturating_sub(one.began));
                let report = report.encode(generation, arrived.bytes);
                answers.push((report.clone(), from));
                one.report = Some(report);
            }
        });
        let now = context.elapsed();
        if got.is_ok() {
            heard = now;
        }
        for (report, to) in answers {
            let _ = socket.send_to(&report, to);
        }
        for (place, one) in incoming.iter().enumerate() {
            let flow = &flows[place];
            let _ = flow.remote.set(one.from);
            one.tally
                .hand_on(flow, before.get(place).copied().unwrap_or_default(), now);
        }
        let quiet = now.saturating_sub(heard);
        let all_ended =
            incoming.len() == flows.len() && incoming.iter().all(|one| one.report.is_some());
        let is_done = all_ended && quiet >= LINGER
            || quiet >= NO_PROGRESS
            || latest.is_some_and(|latest| now >= latest)
            || context.is_stopped();
        if is_done {
            break;
        }
    }
    for (place, flow) in flows.iter().enumerate() {
        let why = match incoming.get(place) {
            None => Some(format!(
                "the server sent nothing back within {} s: it must be able to reach UDP port {} here, which a firewall or NAT may prevent",
                NO_PROGRESS.as_secs(),
                socket.local_addr().map_or(0, |local| local.port())
            )),
            Some(one) => {
                if one.report.is_none() && !context.is_stopped() {
                    context.remark(format!(
                        "Stream {}: the last datagram did not come, so datagrams lost at the end are not known.",
                        flow.stream
                    ));
                }
                None
            }
        };
        flow.end(why);
    }
}
