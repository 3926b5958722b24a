//! A throughput run: parallel streams to or from an iperf 2 or iperf 3 server, each on a thread of its own.

mod context;
mod flow;
mod iperf2_tcp;
mod iperf2_udp;
mod iperf3;
mod iperf3_control;
mod peer;
mod sampler;
mod tcp;
mod udp;
mod udp_receiving;

use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use super::probe::RttProbe;
use super::{RunError, Stop};
use crate::measure::flow::{Echo, FlowBatch, FlowEnd, StreamEnd, Way};
use crate::measure::plan::throughput::{Dialect, Protocol, Receive, ThroughputPlan};
use crate::net::clock::Epoch;
use crate::net::connect;
use crate::net::sys;
use crate::net::tcp_flow::{self, FlowOptions, OpenError};
use context::{CONNECT_LIMIT, Context};
use flow::Flow;
use sampler::Sampler;

/// A throughput run to be made.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowJob {
    /// What to do.
    pub plan: ThroughputPlan,
    /// The peer: resolved once, checked once.
    pub address: SocketAddr,
    /// Documented egress cap of the sending side in bit/s, with its source.
    pub egress_cap: Option<(f64, String)>,
}

/// What measures round trips beside a run.
pub trait Beside {
    /// Tells when the load begins, before the first call of [`Beside::take`].
    fn begin(&mut self, load: Epoch);
    /// The round trips since the call before.
    fn take(&mut self) -> Vec<Echo>;
}

/// Makes the run and returns once its last stream has ended; `sink` is called on this thread.
pub fn run(
    job: &FlowJob,
    stop: &Stop,
    sink: &mut dyn FnMut(FlowBatch),
) -> Result<FlowEnd, RunError> {
    run_beside(job, stop, None, sink)
}

/// How long round trips are measured on the idle path before the load.
const IDLE: Duration = Duration::from_secs(2);

/// The same with round trips measured for 2 s before it and all through it; where they cannot be had the last
/// remark says why.
pub fn run_with_probe(
    job: &FlowJob,
    stop: &Stop,
    sink: &mut dyn FnMut(FlowBatch),
) -> Result<FlowEnd, RunError> {
    let mut probe = RttProbe::start(&job.plan, job.address);
    if let Ok(probe) = &probe {
        probe.idle(IDLE, stop);
    }
    let beside = probe.as_mut().ok().map(|probe| probe as &mut dyn Beside);
    let mut end = run_beside(job, stop, beside, sink)?;
    end.remarks.extend(match probe {
        Ok(probe) => probe.remark(),
        Err(why) => Some(why),
    });
    Ok(end)
}

/// The same with a probe of round trips beside it.
pub fn run_beside(
    job: &FlowJob,
    stop: &Stop,
    probe: Option<&mut dyn Beside>,
    sink: &mut dyn FnMut(FlowBatch),
) -> Result<FlowEnd, RunError> {
    let plan = &job.plan;
    if let Some(bind) = plan.bind.filter(|bind| !connect::is_own_address(*bind)) {
        return Err(RunError::Bind(bind));
    }
    // Without the right to raise the limit, streams beyond it fail and are counted as such.
    let _ = sys::raise_open_files();
    let options = FlowOptions {
        bind: plan.bind,
        port: None,
        window_bytes: plan.window_bytes,
        mss_bytes: plan.mss_bytes,
        tos: plan.tos,
        congestion: plan.congestion.clone(),
    };
    let cpu_before = sys::process_cpu();
    let mut run = Run {
        job,
        stop,
        options,
        probe: probe.map(|probe| probe as &mut dyn Beside),
        sink,
    };
    let mut end = match (plan.dialect, plan.protocol) {
        (Dialect::Iperf2, Protocol::Tcp) => iperf2_tcp::run(&mut run)?,
        (Dialect::Iperf2, Protocol::Udp) => iperf2_udp::run(&mut run)?,
        (Dialect::Iperf3, _) => iperf3::run(&mut run)?,
    };
    let cpu_after = sys::process_cpu();
    end.cpu = (
        cpu_after.user.saturating_sub(cpu_before.user),
        cpu_after.system.saturating_sub(cpu_before.system),
    );
    end.stopped = stop.is_stopped();
    end.same_host = connect::is_local(job.address);
    end.egress_cap.clone_from(&job.egress_cap);
    note_window(plan, &mut end);
    leave_time(plan, &end);
    Ok(end)
}

/// How long an iperf 2 server is left alone after a test.
///
/// Between the end of a test and the end of its own work on it 2.1.8 has freed what it shares by host: a next test
/// that begins then, from the same host, locks it up for good. Over UDP it waits 250 ms for silence in between.
const AFTER_TCP: Duration = Duration::from_millis(60);
const AFTER_UDP: Duration = Duration::from_millis(600);

/// Gives an iperf 2 server that served this test the time to be done with it.
fn leave_time(plan: &ThroughputPlan, end: &FlowEnd) {
    let is_ours = end.peer.as_deref() == Some(peer::OURS);
    let is_served = end.streams.iter().any(|stream| stream.failed.is_none());
    if plan.dialect == Dialect::Iperf2 && is_served && !is_ours && !end.stopped {
        std::thread::sleep(match plan.protocol {
            Protocol::Tcp => AFTER_TCP,
            Protocol::Udp => AFTER_UDP,
        });
    }
}

/// What every dialect starts from.
struct Run<'r> {
    job: &'r FlowJob,
    stop: &'r Stop,
    options: FlowOptions,
    probe: Option<&'r mut dyn Beside>,
    sink: &'r mut dyn FnMut(FlowBatch),
}

impl<'r> Run<'r> {
    /// Opens one connection to the peer.
    fn open(&self, options: &FlowOptions) -> Result<Arc<TcpStream>, OpenError> {
        let stopped = || self.stop.is_stopped();
        tcp_flow::open(self.job.address, options, CONNECT_LIMIT, &stopped).map(Arc::new)
    }

    /// Options of the flow that is opened as the `place`-th, from 0: its source port is its own.
    fn options_of(&self, place: u32) -> FlowOptions {
        FlowOptions {
            port: self.job.plan.source_port(place),
            ..self.options.clone()
        }
    }

    /// Opens as many connections as the plan has streams, one after another.
    fn open_all(&self) -> Vec<Result<Arc<TcpStream>, String>> {
        let mut opened: Vec<Result<Arc<TcpStream>, String>> = Vec::new();
        // A host that does not answer once is not waited for again.
        let mut silent = None;
        for place in 0..self.job.plan.streams {
            let next = match &silent {
                Some(why) => Err(String::clone(why)),
                None => self.open(&self.options_of(place)).map_err(|error| {
                    let why = error.to_string();
                    if matches!(error, OpenError::NoAnswer(_) | OpenError::Stopped) {
                        silent = Some(why.clone());
                    }
                    why
                }),
            };
            opened.push(next);
        }
        opened
    }

    /// The start of the run, soon enough for all threads to be ready.
    fn epoch(&self) -> Epoch {
        let threads = self.job.plan.streams * 2;
        Epoch::after(Duration::from_millis(2) + Duration::from_micros(100) * threads)
    }

    fn context(&self, epoch: Epoch) -> Context<'r> {
        Context::new(
            &self.job.plan,
            self.job.address,
            self.options.clone(),
            self.stop,
            epoch,
        )
    }

    fn sampler(&mut self, epoch: Epoch) -> Sampler<'_> {
        let mut probe = self.probe.take().map(|probe| probe as &mut dyn Beside);
        if let Some(probe) = &mut probe {
            probe.begin(epoch);
        }
        Sampler::new(epoch, &self.job.plan, probe, self.sink)
    }
}

/// One thread's work.
type Task<'t> = Box<dyn FnOnce() + Send + 't>;

/// Runs the tasks on threads of their own until all have ended, and samples meanwhile.
///
/// `beside` is called at least every 50 ms.
fn drive(
    context: &Context<'_>,
    sampler: &mut Sampler<'_>,
    tasks: Vec<Task<'_>>,
    mut beside: impl FnMut(&mut Sampler<'_>),
) -> Result<(), RunError> {
    std::thread::scope(|scope| {
        let (done, ended) = mpsc::channel();
        let mut left = 0_usize;
        for (index, task) in tasks.into_iter().enumerate() {
            let done = done.clone();
            std::thread::Builder::new()
                .name(format!("stream-{}", index + 1))
                .stack_size(256 * 1024)
                .spawn_scoped(scope, move || {
                    context.epoch.wait();
                    task();
                    let _ = done.send(());
                })
                // Those that run already must not be waited for in vain.
                .inspect_err(|_| context.give_up())
                .map_err(RunError::System)?;
            left += 1;
        }
        drop(done);
        while left > 0 {
            match ended.recv_timeout(sampler.pause()) {
                Ok(()) => left -= 1,
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => left = 0,
            }
            sampler.step();
            beside(sampler);
        }
        Ok(())
    })
}

/// The end of a run as the sampler and the sockets tell it.
fn conclude(
    context: &Context<'_>,
    sampler: &mut Sampler<'_>,
    sockets: &[Arc<TcpStream>],
) -> FlowEnd {
    let duration = sampler.finish();
    let streams = sampler.ends();
    let sends = |end: &StreamEnd| end.way == Some(Way::Send) && end.failed.is_none();
    if context.plan.receive == Receive::Discard
        && streams.iter().any(sends)
        && !context.peer_discards()
    {
        context.remark("Discard was asked for, but only tidemark's own receiver does it: the one at the other end copied what it received.");
    }
    let mut end = FlowEnd {
        duration,
        streams,
        congestion: sockets
            .first()
            .and_then(|socket| tcp_flow::congestion(socket)),
        clock_step_s: context.epoch.wall_step_s(),
        peer: context.peer(),
        remarks: context.take_remarks(),
        send_buffer: (context.plan.window_bytes, None),
        receive_buffer: (context.plan.window_bytes, None),
        ..FlowEnd::default()
    };
    if let Some(socket) = sockets.first() {
        note_buffers(&mut end, &**socket);
    }
    end
}

/// What the kernel gave, of the directions that there were.
fn note_buffers(end: &mut FlowEnd, socket: &impl AsFd) {
    let (send, receive) = tcp_flow::buffers(socket);
    let went = |way| end.streams.iter().any(|end| end.way == Some(way));
    end.send_buffer.1 = send.filter(|_| went(Way::Send));
    end.receive_buffer.1 = receive.filter(|_| went(Way::Receive));
}

/// A buffer that the kernel cut is said.
fn note_window(plan: &ThroughputPlan, end: &mut FlowEnd) {
    let Some(asked) = plan.window_bytes else {
        return;
    };
    for ((_, got), setting) in [
        (end.send_buffer, "net.core.wmem_max"),
        (end.receive_buffer, "net.core.rmem_max"),
    ] {
        if let Some(got) = got.filter(|got| *got < asked) {
            end.remarks.push(format!(
                "A window of {asked} bytes was asked for and the kernel gave {got}: {setting} limits it."
            ));
            return;
        }
    }
}

/// The digits that iperf sends, `length` of them.
fn pattern(length: u32) -> Vec<u8> {
    b"0123456789"
        .iter()
        .copied()
        .cycle()
        .take(length as usize)
        .collect()
}

/// Flows of streams that could not be opened, and the others' sockets with their numbers.
fn sort_opened(
    opened: Vec<Result<Arc<TcpStream>, String>>,
    ways: &[Way],
    address: SocketAddr,
    sampler: &mut Sampler<'_>,
) -> Vec<(u32, Arc<TcpStream>)> {
    let mut good = Vec::new();
    for (number, opened) in (1..).zip(opened) {
        match opened {
            Ok(socket) => good.push((number, socket)),
            Err(why) => {
                for way in ways {
                    let flow = Flow::failed(number, *way, address, why.clone());
                    sampler.add(&Arc::new(flow), Duration::ZERO);
                }
            }
        }
    }
    good
}
