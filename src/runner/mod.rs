//! A plan and its targets become a stream of samples, sent from threads of its own.

mod collect;
mod echo;
mod load;
pub mod path;
pub mod ping;
mod preflight;
pub mod probe;
mod rate;
pub mod reach;
mod record;
mod spec;
mod stop;
pub mod throughput;
mod users;
mod waiting;
mod worker;

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use crate::measure::plan::Plan;
use crate::measure::sample::{Batch, Ended};
use crate::net::clock::Epoch;
use crate::net::icmp::ProbeError;
use crate::net::tls::TlsError;
use crate::net::{connect, sys};
pub use crate::wire::http1::Naming;
use load::Load;
pub use preflight::preflight;
use record::{Gauges, Record};
use spec::Spec;
pub use stop::Stop;
use worker::{Wakes, Worker};

/// Where a URL leads.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// The URL as the plan names it.
    pub url: url::Url,
    /// The address that is used: resolved once, checked once.
    pub address: SocketAddr,
    /// All addresses of the name.
    pub all: Vec<SocketAddr>,
    /// How long resolving took; `None` for an address.
    pub lookup: Option<Duration>,
}

/// A run to be made.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// What to do.
    pub plan: Plan,
    /// One for each URL of the plan, in its order.
    pub targets: Vec<Target>,
    /// What names the backend in a reply.
    pub identity: Naming,
    /// What names the region in a reply.
    pub region: Naming,
    /// Generator threads; `None` = as many as the plan needs.
    pub threads: Option<usize>,
}

/// Why a run could not start at all.
#[derive(Debug)]
pub enum RunError {
    /// Plan and targets do not fit together.
    Targets,
    /// The address to send from is not one of this machine.
    Bind(IpAddr),
    /// TLS could not be set up.
    Tls(TlsError),
    /// No probe can be sent to the address.
    Probe(ProbeError),
    /// The system gave no thread, poll or timer.
    System(std::io::Error),
}

impl std::fmt::Display for RunError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Targets => {
                f.write_str("The plan's URLs and their addresses do not fit together.")
            }
            Self::Bind(address) => write!(
                f,
                "{address} is not an address of this machine: set bind to one that is."
            ),
            Self::Tls(error) => error.fmt(f),
            Self::Probe(error) => error.fmt(f),
            Self::System(error) => write!(f, "The generator could not start: {error}."),
        }
    }
}

impl std::error::Error for RunError {}

/// Time for all threads to be ready before the first request is due.
const LEAD: Duration = Duration::from_millis(2);

/// Makes the run, on threads of its own, and returns once its last request has ended.
///
/// Calls `sink` on this thread about every 250 ms and once more at the end.
pub fn run(job: &Job, stop: &Stop, sink: &mut dyn FnMut(Batch)) -> Result<Ended, RunError> {
    // Without the right to raise the limit the run goes on; requests beyond it are counted as such.
    let _ = sys::raise_open_files();
    let spec = Spec::new(job)?;
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = load::threads(&job.plan, cpus, job.threads);
    let wakes: Vec<Wakes> = (0..threads)
        .map(|_| Wakes::new())
        .collect::<Result<_, _>>()
        .map_err(RunError::System)?;
    for wakes in &wakes {
        stop.wakes(wakes.waker());
    }
    let (sender, receiver) = mpsc::channel();
    let gauges = Arc::new(Gauges::default());
    let epoch = Epoch::after(LEAD);
    let mut workers = Vec::with_capacity(threads);
    for (index, wakes) in wakes.into_iter().enumerate() {
        let record = Record::new(index, sender.clone(), Arc::clone(&gauges));
        let load = Load::new(&job.plan, index, threads);
        let worker = Worker::new(&spec, stop, load, epoch, wakes, record);
        workers.push(worker.map_err(RunError::System)?);
    }
    drop(sender);
    let totals = std::thread::scope(|scope| {
        for (index, worker) in workers.into_iter().enumerate() {
            std::thread::Builder::new()
                .name(format!("generator-{index}"))
                .spawn_scoped(scope, move || worker.run())
                // Those that run already must not be waited for in vain.
                .inspect_err(|_| stop.stop())?;
        }
        Ok(collect::collect(&receiver, threads, sink))
    });
    stop.forget();
    let totals = totals.map_err(RunError::System)?;
    let mut ended = collect::ended(&job.plan, &totals);
    ended.clock_step_s = epoch.wall_step_s();
    let mut addresses: Vec<SocketAddr> = Vec::new();
    for target in &job.targets {
        if !addresses.contains(&target.address) {
            addresses.push(target.address);
        }
    }
    ended.same_host = addresses.iter().all(|address| connect::is_local(*address));
    ended.addresses = addresses;
    Ok(ended)
}
