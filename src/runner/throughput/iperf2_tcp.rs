//! iperf 2 over TCP: send, receive (`-R`), both on the same connection (`--full-duplex`), or in turn (`-r`).
//!
//! Both ways at once use one connection each, not `-d`: the server need not reach a port of ours, so it works
//! through NAT and firewalls.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use super::context::{self, Context, NO_PROGRESS};
use super::flow::Flow;
use super::sampler::Sampler;
use super::tcp::{Receiving, Sending};
use super::{Run, RunError, Task, conclude, drive, pattern, sort_opened};
use crate::measure::flow::{FlowEnd, Way};
use crate::measure::plan::throughput::{Direction, ThroughputPlan};
use crate::net::tcp_flow::{self, TURN};
use crate::wire::iperf2::header::{Amount, ClientHeader, Mode};

/// Makes the run.
pub(super) fn run(run: &mut Run<'_>) -> Result<FlowEnd, RunError> {
    let plan = &run.job.plan;
    let opened = run.open_all();
    let near = opened
        .iter()
        .flatten()
        .find_map(|socket| socket.local_addr().ok());
    let epoch = run.epoch();
    let context = run.context(epoch);
    let mut sampler = run.sampler(epoch);
    let listener = match near {
        Some(near) if plan.direction == Direction::InTurn => Some(
            tcp_flow::listen(near, &context.options)
                .map_err(|error| format!("no port to be called back on: {error}")),
        ),
        _ => None,
    };
    let port = match &listener {
        Some(Ok(listener)) => listener.local_addr().map_or(plan.port, |near| near.port()),
        _ => plan.port,
    };
    let header = client_header(plan, mode(plan), port).encode_tcp();
    let ways: &[Way] = match plan.direction {
        Direction::Send => &[Way::Send],
        Direction::Receive => &[Way::Receive],
        Direction::Both | Direction::InTurn => &[Way::Send, Way::Receive],
    };
    let good = sort_opened(opened, ways, context.address, &mut sampler);
    let block = pattern(plan.length_bytes);
    let header = header_that_fits(plan, &header);
    let flows: Vec<_> = good
        .iter()
        .flat_map(|(number, socket)| {
            let first: &[Way] = match plan.direction {
                Direction::Send | Direction::InTurn => &[Way::Send],
                Direction::Receive => &[Way::Receive],
                Direction::Both => &[Way::Send, Way::Receive],
            };
            first.iter().map(|way| {
                let flow = Arc::new(Flow::tcp(*number, *way, socket));
                (flow, Arc::clone(socket))
            })
        })
        .collect();
    let tasks = flows
        .iter()
        .map(|(flow, socket)| {
            sampler.add(flow, Duration::ZERO);
            task(&context, flow, socket, header, &block)
        })
        .collect();
    drive(&context, &mut sampler, tasks, |_| ())?;
    let mut sockets: Vec<Arc<TcpStream>> = good.into_iter().map(|(_, socket)| socket).collect();
    if let Some(listener) = listener {
        let sent: Vec<u32> = flows
            .iter()
            .filter(|(flow, _)| flow.failed.get().is_none())
            .map(|(flow, _)| flow.stream)
            .collect();
        for (flow, _) in flows.iter().filter(|(flow, _)| flow.failed.get().is_some()) {
            let why = "its first direction failed".to_owned();
            let flow = Flow::failed(flow.stream, Way::Receive, context.address, why);
            sampler.add(&Arc::new(flow), context.elapsed());
        }
        sockets.extend(receive_in_turn(&context, &mut sampler, listener, &sent)?);
    }
    Ok(conclude(&context, &mut sampler, &sockets))
}

/// A test of fewer bytes than a header goes without: servers take it for payload then.
fn header_that_fits<'h>(plan: &ThroughputPlan, header: &'h [u8]) -> &'h [u8] {
    let fits = plan.bytes.is_none_or(|bytes| bytes >= header.len() as u64);
    if plan.direction == Direction::Send && !fits {
        &[]
    } else {
        header
    }
}

fn task<'t>(
    context: &'t Context<'t>,
    flow: &'t Flow,
    socket: &'t TcpStream,
    header: &'t [u8],
    block: &'t [u8],
) -> Task<'t> {
    let direction = context.plan.direction;
    if flow.way == Way::Send {
        let sending = Sending {
            context,
            flow,
            socket,
            begin: Duration::ZERO,
            header,
            block,
            is_read_elsewhere: direction == Direction::Both,
        };
        return Box::new(move || flow.run(|| sending.run()));
    }
    let receiving = Receiving {
        context,
        flow,
        socket,
        begin: Duration::ZERO,
        request: if direction == Direction::Receive {
            header
        } else {
            &[]
        },
        checks_first_bytes: true,
    };
    Box::new(move || flow.run(|| receiving.run()))
}

/// Who sends, in iperf's words.
pub(super) fn mode(plan: &ThroughputPlan) -> Mode {
    match plan.direction {
        Direction::Send => Mode::Plain,
        Direction::Receive => Mode::Reverse,
        Direction::Both => Mode::FullDuplex,
        Direction::InTurn => Mode::Tradeoff,
    }
}

/// iperf 2's own block, in bytes.
const LARGEST_ASKED: u32 = 128 << 10;

/// The header that tells the server what to do.
pub(super) fn client_header(plan: &ThroughputPlan, mode: Mode, port: u16) -> ClientHeader {
    let amount = match (plan.bytes, plan.duration_s) {
        (Some(bytes), _) => Amount::Bytes(bytes),
        (None, seconds) => Amount::Time(
            Duration::try_from_secs_f64(seconds.unwrap_or(10.0) + plan.omit_s).unwrap_or_default(),
        ),
    };
    let mut header = ClientHeader::plain(plan.streams, port, amount).with_mode(mode);
    header.own = Some(context::own(plan));
    if mode != Mode::Plain {
        // 2.1.8 breaks down when it is asked for larger blocks than the room that it has.
        header.block_bytes = plan.length_bytes.min(LARGEST_ASKED);
    }
    header.tos = u16::from(plan.tos.unwrap_or(0));
    if let Some(rate) = plan.bandwidth_bits_per_second {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the plan bounds the rate between 1 and 10¹³"
        )]
        {
            header.rate = rate.round() as u64;
        }
    }
    header
}

/// The second half of a test in turn: the server connects to us, once for each stream.
fn receive_in_turn(
    context: &Context<'_>,
    sampler: &mut Sampler<'_>,
    listener: Result<TcpListener, String>,
    streams: &[u32],
) -> Result<Vec<Arc<TcpStream>>, RunError> {
    let asked_at = context.elapsed();
    let fail = |sampler: &mut Sampler<'_>, stream: u32, why: String| {
        let flow = Flow::failed(stream, Way::Receive, context.address, why);
        sampler.add(&Arc::new(flow), asked_at);
    };
    let listener = match listener {
        Ok(listener) => listener,
        Err(why) => {
            for stream in streams {
                fail(sampler, *stream, why.clone());
            }
            return Ok(Vec::new());
        }
    };
    let mut flows: Vec<(Arc<Flow>, Arc<TcpStream>, Duration)> = Vec::new();
    while flows.len() < streams.len() {
        let waited = context.elapsed().saturating_sub(asked_at);
        if context.is_stopped() || waited >= NO_PROGRESS {
            break;
        }
        let turn = sampler.pause().min(TURN);
        let accepted = tcp_flow::accept(&listener, context.address.ip(), turn);
        if let Some(socket) = accepted.map_err(RunError::System)? {
            let (socket, begin) = (Arc::new(socket), context.elapsed());
            let flow = Arc::new(Flow::tcp(streams[flows.len()], Way::Receive, &socket));
            sampler.add(&flow, begin);
            flows.push((flow, socket, begin));
        }
        sampler.step();
    }
    for stream in streams.iter().skip(flows.len()) {
        let near: Option<SocketAddr> = listener.local_addr().ok();
        let why = if context.is_stopped() {
            "stopped before its turn".to_owned()
        } else {
            format!(
                "the server did not connect back within {} s: it must be able to reach port {} here, which a firewall or NAT may prevent",
                NO_PROGRESS.as_secs(),
                near.map_or(0, |near| near.port())
            )
        };
        fail(sampler, *stream, why);
    }
    let tasks = flows
        .iter()
        .map(|(flow, socket, begin)| -> Task<'_> {
            let receiving = Receiving {
                context,
                flow,
                socket,
                begin: *begin,
                request: &[],
                checks_first_bytes: false,
            };
            Box::new(move || flow.run(|| receiving.run()))
        })
        .collect();
    drive(context, sampler, tasks, |_| ())?;
    Ok(flows.into_iter().map(|(_, socket, _)| socket).collect())
}
