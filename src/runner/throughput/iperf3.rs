//! iperf 3: a control connection, and streams of TCP or UDP in one direction or (`--bidir`) in both.

use std::io::Write;
use std::net::{TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use super::context::{self, Context};
use super::flow::Flow;
use super::iperf3_control::Control;
use super::peer;
use super::sampler::Sampler;
use super::tcp::{Receiving, Sending, is_turn};
use super::udp::{self, Finish, Form};
use super::udp_receiving;
use super::{Run, RunError, Task, conclude, drive, pattern};
use crate::measure::flow::{FlowEnd, UdpEnd, Way};
use crate::measure::plan::throughput::{Direction, Protocol, ThroughputPlan};
use crate::net::connect::describe;
use crate::net::sys::{self, Ready};
use crate::net::tcp_flow::FlowOptions;
use crate::net::{clock, tcp_flow, udp_flow};
use crate::wire::iperf3::{Params, Results, State, StreamResult, hello, stream_id};

/// A server's answer to the first datagram of a stream is waited for so long.
const HELLO_LIMIT: Duration = Duration::from_secs(10);

/// Makes the run.
pub(super) fn run(run: &mut Run<'_>) -> Result<FlowEnd, RunError> {
    let plan = &run.job.plan;
    let opened = open(run);
    let epoch = run.epoch();
    let context = run.context(epoch);
    let cpu_before = sys::process_cpu();
    let mut sampler = run.sampler(epoch);
    let (mut control, sockets) = match opened {
        Ok(opened) => opened,
        Err(why) => {
            for number in 1..=plan.streams {
                for way in ways(plan) {
                    let flow = Flow::failed(number, *way, context.address, why.clone());
                    sampler.add(&Arc::new(flow), Duration::ZERO);
                }
            }
            return Ok(conclude(&context, &mut sampler, &[]));
        }
    };
    context.set_peer("iperf 3".into(), None);
    let flows: Vec<Arc<Flow>> = places(plan)
        .zip(&sockets)
        .map(|((stream, way), socket)| {
            Arc::new(match socket {
                Data::Tcp(socket) => Flow::tcp(stream, way, socket),
                Data::Udp(socket) => {
                    Flow::udp(stream, way, socket.local_addr().ok(), Some(context.address))
                }
            })
        })
        .collect();
    let block = match plan.protocol {
        Protocol::Tcp => pattern(plan.length_bytes),
        Protocol::Udp => Vec::new(),
    };
    let tasks = flows
        .iter()
        .zip(&sockets)
        .map(|(flow, socket)| {
            sampler.add(flow, Duration::ZERO);
            task(&context, flow, socket, &block)
        })
        .collect();
    let mut course = Course {
        context: &context,
        control: &mut control,
        flows: &flows,
        cpu_before,
        is_told: false,
        peer_cpu: None,
    };
    drive(&context, &mut sampler, tasks, |sampler| {
        course.step(sampler);
    })?;
    // All streams may have ended before the last look.
    course.step(&mut sampler);
    let peer_cpu = course.peer_cpu;
    let tcp: Vec<Arc<TcpStream>> = sockets
        .iter()
        .filter_map(|socket| match socket {
            Data::Tcp(socket) => Some(Arc::clone(socket)),
            Data::Udp(_) => None,
        })
        .collect();
    let mut end = conclude(&context, &mut sampler, &tcp);
    end.peer_cpu = peer_cpu;
    if let Some(Data::Udp(socket)) = sockets.first() {
        super::note_buffers(&mut end, &**socket);
    }
    Ok(end)
}

/// A stream's socket.
enum Data {
    Tcp(Arc<TcpStream>),
    Udp(Arc<UdpSocket>),
}

fn ways(plan: &ThroughputPlan) -> &'static [Way] {
    match plan.direction {
        Direction::Send => &[Way::Send],
        Direction::Receive => &[Way::Receive],
        Direction::Both | Direction::InTurn => &[Way::Send, Way::Receive],
    }
}

/// Streams in the order in which they are opened, which is what gives them their ids: all that send, then all
/// that receive.
fn places(plan: &ThroughputPlan) -> impl Iterator<Item = (u32, Way)> {
    let streams = plan.streams;
    ways(plan)
        .iter()
        .flat_map(move |way| (1..=streams).map(move |stream| (stream, *way)))
}

/// Agrees with the server on everything and opens all streams; the server then says that the test runs.
fn open<'r>(run: &Run<'r>) -> Result<(Control<'r>, Vec<Data>), String> {
    let plan = &run.job.plan;
    let socket = run.open(&run.options).map_err(|error| error.to_string())?;
    let (mut control, cookie) = Control::begin(socket, run.stop, run.job.address.port())?;
    control.send_json(&params(plan).encode())?;
    control.expect(State::CreateStreams, &mut || ())?;
    let mut sockets = Vec::new();
    // One after another, each complete before the next: the server takes their order for their direction.
    for (place, _) in (0..).zip(places(plan)) {
        let options = run.options_of(place);
        sockets.push(match plan.protocol {
            Protocol::Tcp => {
                let socket = run.open(&options).map_err(|error| error.to_string())?;
                (&mut &*socket)
                    .write_all(&cookie)
                    .map_err(|error| format!("opening a stream failed ({})", describe(&error)))?;
                Data::Tcp(socket)
            }
            Protocol::Udp => Data::Udp(open_udp(run, &options)?),
        });
    }
    control.expect(State::TestStart, &mut || ())?;
    control.expect(State::TestRunning, &mut || ())?;
    Ok((control, sockets))
}

fn open_udp(run: &Run<'_>, options: &FlowOptions) -> Result<Arc<UdpSocket>, String> {
    let address = run.job.address;
    let socket = udp_flow::open(address, options).map_err(|error| error.to_string())?;
    socket
        .send(&hello::REQUEST)
        .map_err(|error| udp::why(&error, address))?;
    let end = clock::now() + HELLO_LIMIT;
    loop {
        if run.stop.is_stopped() {
            return Err("stopped".into());
        }
        if clock::now() >= end {
            return Err(format!(
                "the server did not answer the first datagram within {} s: a firewall drops UDP on port {}, or its answer",
                HELLO_LIMIT.as_secs(),
                address.port()
            ));
        }
        let _ = sys::wait(&socket, Ready::Read, tcp_flow::TURN / 2);
        let mut buffer = [0; 64];
        match sys::receive_now(&socket, &mut buffer) {
            Ok(4) => return Ok(Arc::new(socket)),
            Ok(_) => {}
            Err(error) if is_turn(&error) => {}
            Err(error) => return Err(udp::why(&error, address)),
        }
    }
}

fn params(plan: &ThroughputPlan) -> Params {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the plan bounds times and rates"
    )]
    let whole = |value: f64| value.ceil() as u64;
    Params {
        udp: plan.protocol == Protocol::Udp,
        omit_s: whole(plan.omit_s),
        time_s: plan.duration_s.map_or(0, whole),
        bytes: plan.bytes.unwrap_or(0),
        streams: u64::from(plan.streams),
        reverse: plan.direction == Direction::Receive,
        bidirectional: plan.direction == Direction::Both,
        block_bytes: u64::from(plan.length_bytes),
        rate_bits_per_s: plan.bandwidth_bits_per_second.map_or(0, whole),
        mss: plan.mss_bytes.map(u64::from),
        window_bytes: plan.window_bytes,
        tos: plan.tos.map(u64::from),
        congestion: plan.congestion.clone(),
        wide_counters: plan.protocol == Protocol::Udp,
        own: Some(context::own(plan)),
        ..Params::default()
    }
}

fn task<'t>(
    context: &'t Context<'t>,
    flow: &'t Flow,
    socket: &'t Data,
    block: &'t [u8],
) -> Task<'t> {
    let begin = Duration::ZERO;
    match (socket, flow.way) {
        (Data::Tcp(socket), Way::Send) => {
            let sending = Sending {
                context,
                flow,
                socket,
                begin,
                header: &[],
                block,
                is_read_elsewhere: false,
            };
            Box::new(move || flow.run(|| sending.run()))
        }
        (Data::Tcp(socket), Way::Receive) => {
            let receiving = Receiving {
                context,
                flow,
                socket,
                begin,
                request: &[],
                checks_first_bytes: false,
            };
            Box::new(move || flow.run(|| receiving.run()))
        }
        (Data::Udp(socket), Way::Send) => {
            let sending = udp::Sending {
                context,
                flow,
                socket,
                begin,
                form: Form::Iperf3,
                finish: Finish::Elsewhere,
            };
            Box::new(move || flow.run(|| sending.run()))
        }
        (Data::Udp(socket), Way::Receive) => {
            let receiving = udp_receiving::Receiving {
                context,
                flow,
                socket,
                begin,
                request: Vec::new(),
            };
            Box::new(move || flow.run(|| receiving.run()))
        }
    }
}

/// The course of the test on the control connection while the streams run.
struct Course<'c, 's> {
    context: &'c Context<'c>,
    control: &'c mut Control<'s>,
    flows: &'c [Arc<Flow>],
    cpu_before: sys::CpuTimes,
    /// The end has been told, or there is nobody to tell.
    is_told: bool,
    /// CPU time of the server as a share of one core.
    peer_cpu: Option<f64>,
}

impl Course<'_, '_> {
    fn step(&mut self, sampler: &mut Sampler<'_>) {
        let context = self.context;
        if self.is_told {
            return;
        }
        if context.is_stopped() {
            self.is_told = true;
            let _ = self.control.send(State::ClientTerminate);
            return;
        }
        if let Some(why) = self.control.interrupted() {
            self.is_told = true;
            self.lose(&why);
            return;
        }
        let is_late = context
            .lasting()
            .is_some_and(|lasting| context.elapsed() >= lasting);
        let mut senders = self.flows.iter().filter(|flow| flow.way == Way::Send);
        let sends = senders.clone().next().is_some();
        let have_all_ended = senders.all(|flow| flow.has_ended());
        let is_over = if sends {
            have_all_ended
        } else {
            is_late || context.is_spent() || self.flows.iter().all(|flow| flow.has_ended())
        };
        if !is_over {
            return;
        }
        self.is_told = true;
        context.set_over();
        if let Err(why) = self.exchange(sampler) {
            context.remark(format!(
                "The server's results did not come ({why}); these are this end's figures only."
            ));
        }
        context.set_closing();
    }

    /// The server is gone: what was measured until then stays, where there is something.
    fn lose(&self, why: &str) {
        self.context.set_over();
        self.context.set_closing();
        for flow in self.flows {
            if flow.bytes() == 0 {
                let _ = flow.failed.set(why.to_owned());
            }
        }
        self.context.remark(format!("The test ended early: {why}."));
    }

    fn exchange(&mut self, sampler: &mut Sampler<'_>) -> Result<(), String> {
        self.control.send(State::TestEnd)?;
        self.control
            .expect(State::ExchangeResults, &mut || sampler.step())?;
        let ours = self.results(sampler).encode();
        self.control.send_json(&ours)?;
        let theirs = self.control.json(&mut || sampler.step())?;
        let theirs = Results::parse(&theirs).ok_or("its results could not be read")?;
        self.keep(&theirs, sampler);
        // What follows is politeness: everything has been told.
        if self
            .control
            .expect(State::DisplayResults, &mut || sampler.step())
            .is_ok()
        {
            let _ = self.control.send(State::Done);
        }
        Ok(())
    }

    /// Our results, by the ids that both ends give the streams.
    fn results(&self, sampler: &Sampler<'_>) -> Results {
        let elapsed = self.context.elapsed().as_secs_f64().max(1e-9);
        let cpu = sys::process_cpu();
        let percent = |now: Duration, before: Duration| {
            now.saturating_sub(before).as_secs_f64() / elapsed * 100.0
        };
        let user = percent(cpu.user, self.cpu_before.user);
        let system = percent(cpu.system, self.cpu_before.system);
        let streams = (0..).zip(self.flows).filter_map(|(place, flow)| {
            let end = sampler.whole(flow)?;
            let counted = sampler.counted(flow)?;
            let received = end.udp.filter(|_| flow.way == Way::Receive);
            let is_udp = self.context.plan.protocol == Protocol::Udp;
            Some(StreamResult {
                id: stream_id(place),
                bytes: counted.bytes,
                retransmits: counted.retransmits,
                jitter_s: received
                    .and_then(|udp| udp.jitter)
                    .map_or(0.0, |jitter| jitter.as_secs_f64()),
                lost: received.map_or(0, |udp| udp.lost),
                omitted_lost: is_udp.then_some(counted.omitted_lost),
                datagrams: received
                    .map(|udp| udp.datagrams)
                    .or(end.datagrams_sent)
                    .unwrap_or(0),
                omitted_datagrams: is_udp.then_some(counted.omitted_datagrams),
                start_s: 0.0,
                end_s: end.last.map_or(0.0, |last| {
                    (last.as_secs_f64() - self.context.plan.omit_s).max(0.0)
                }),
            })
        });
        Results {
            cpu_percent: [user + system, user, system],
            has_retransmits: self
                .flows
                .iter()
                .any(|flow| flow.way == Way::Send && flow.info().is_some()),
            congestion: None,
            own: None,
            streams: streams.collect(),
        }
    }

    /// What the server counted.
    fn keep(&mut self, theirs: &Results, sampler: &Sampler<'_>) {
        self.peer_cpu = Some(theirs.cpu_percent[0] / 100.0).filter(|share| *share > 0.0);
        if let Some(own) = theirs.own {
            self.context.set_peer(peer::OURS.to_owned(), Some(own));
        }
        for (place, flow) in (0..).zip(self.flows) {
            let id = stream_id(place);
            let Some(result) = theirs.streams.iter().find(|result| result.id == id) else {
                self.context.remark(format!(
                    "The server's results say nothing of stream {}.",
                    flow.stream
                ));
                continue;
            };
            let _ = flow.peer_bytes.set(result.bytes);
            if flow.way == Way::Receive {
                if let Some(retransmits) = result.retransmits {
                    let _ = flow.peer_retransmits.set(retransmits);
                }
            } else if self.context.plan.protocol == Protocol::Udp {
                // The server counts datagrams from the start; older ones leave it to us what to take off.
                let counted = sampler.counted(flow).unwrap_or_default();
                let omitted = result
                    .omitted_datagrams
                    .unwrap_or(counted.omitted_datagrams);
                let _ = flow.peer_udp.set(UdpEnd {
                    datagrams: result.datagrams.saturating_sub(omitted),
                    lost: result.lost.saturating_sub(result.omitted_lost.unwrap_or(0)),
                    out_of_order: 0,
                    duplicated: None,
                    jitter: Duration::try_from_secs_f64(result.jitter_s)
                        .ok()
                        .filter(|_| !self.context.plan.offload),
                    dropped_by_receiver: None,
                });
            }
        }
    }
}
