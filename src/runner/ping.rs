//! A ping: round trips by ICMP echo or by TCP connect, sent by an absolute schedule.

use std::net::SocketAddr;
use std::time::Duration;

use super::echo::{Connects, IcmpEchoes, Prober, Round, Timetable, Transport};
use super::{RunError, Stop};
use crate::measure::flow::{Echo, FlowBatch, FlowEnd, StreamEnd};
use crate::measure::plan::ping::{PingMethod, PingPlan};
use crate::net::clock::{self, Epoch};
use crate::net::icmp::ProbeSocket;
use crate::net::{connect, sys};

/// A ping to be made.
#[derive(Clone, Debug, PartialEq)]
pub struct PingJob {
    /// What to do.
    pub plan: PingPlan,
    /// The peer: resolved once, checked once. Its port counts for nothing, the plan's does.
    pub address: SocketAddr,
}

/// A stop is seen within this time.
const TURN: Duration = Duration::from_millis(50);
/// Results wait no longer than this, so that few of them go together.
const TOGETHER: Duration = Duration::from_millis(200);
/// Without results a batch says at least this often how far it is.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// Makes the ping and returns once its last probe was answered or lost; `sink` is called on this thread.
///
/// Every probe is in exactly one batch, as soon as it is settled, so not always in order. A stop leaves out those
/// that are on their way.
pub fn run(
    job: &PingJob,
    stop: &Stop,
    sink: &mut dyn FnMut(FlowBatch),
) -> Result<FlowEnd, RunError> {
    let plan = &job.plan;
    let (transport, local) = transport(job)?;
    let seconds = |s: f64| Duration::try_from_secs_f64(s).unwrap_or(Duration::MAX);
    let epoch = Epoch::after(Duration::ZERO);
    let mut prober = Prober::new(
        transport,
        Timetable {
            first: epoch.start(),
            interval: seconds(plan.interval_s),
            count: Some(plan.count),
            timeout: seconds(plan.timeout_s),
        },
    );
    let mut handed = Duration::ZERO;
    let mut settled: Vec<Round> = Vec::new();
    while !prober.is_done() && !stop.is_stopped() {
        prober.turn(clock::now() + TURN).map_err(RunError::System)?;
        settled.extend(prober.take());
        let now = epoch.elapsed();
        let waits = if settled.is_empty() {
            HEARTBEAT
        } else {
            TOGETHER
        };
        if now >= handed + waits {
            handed = now;
            sink(batch(epoch, std::mem::take(&mut settled)));
        }
    }
    settled.extend(prober.take());
    sink(batch(epoch, settled));
    let mut remarks = prober.remarks();
    match prober.waiting() {
        0 => {}
        1 => remarks.push("1 probe was on its way when it was stopped and does not count.".into()),
        more => remarks.push(format!(
            "{more} probes were on their way when it was stopped and do not count."
        )),
    }
    Ok(FlowEnd {
        duration: epoch.elapsed(),
        streams: vec![StreamEnd {
            stream: 1,
            local,
            remote: Some(job.address),
            ..StreamEnd::default()
        }],
        clock_step_s: epoch.wall_step_s(),
        stopped: stop.is_stopped(),
        same_host: connect::is_local(job.address),
        remarks,
        late_duplicates: prober.late_duplicates(),
        ..FlowEnd::default()
    })
}

type Opened = (Box<dyn Transport + Send>, Option<SocketAddr>);

fn transport(job: &PingJob) -> Result<Opened, RunError> {
    let plan = &job.plan;
    match plan.method {
        PingMethod::Icmp => {
            let echoes = IcmpEchoes::open(job.address, None, plan.size_bytes as usize)
                .map_err(RunError::Probe)?;
            let local = echoes.local();
            Ok((Box::new(echoes), local))
        }
        PingMethod::Tcp => {
            let mut address = job.address;
            if let Some(port) = plan.port {
                address.set_port(port);
            }
            // Each probe that waits holds a descriptor.
            let _ = sys::raise_open_files();
            // Nothing is sent by this: it tells whether there is a route.
            let local = ProbeSocket::udp(address, None)
                .map_err(RunError::Probe)?
                .local();
            Ok((Box::new(Connects::new(address, None)), local))
        }
    }
}

fn batch(epoch: Epoch, settled: Vec<Round>) -> FlowBatch {
    FlowBatch {
        until: epoch.elapsed(),
        echoes: settled
            .into_iter()
            .map(|round| Echo {
                seq: round.number,
                at: epoch.since(round.sent),
                rtt: round.rtt,
                ttl: round.ttl,
                duplicates: round.duplicates,
                loaded: false,
            })
            .collect(),
        ..FlowBatch::default()
    }
}
