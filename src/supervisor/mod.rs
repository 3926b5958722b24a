//! The queue: one measuring run at a time, each batch to the fold, to the notebook and to whoever watches.

mod events;
mod execute;
mod experiments;
mod import;
mod instrument;
mod launch;
mod live;
mod monitor;
mod network;
mod pump;
mod reach;
mod receivers;
mod registry;
mod selftest;
mod texts;

use std::collections::VecDeque;
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::guard::target::TargetRule;
use crate::measure::fold::{Interval, Series};
use crate::measure::plan::Caps;
use crate::measure::run::{Run, State};
use crate::net::clock;
use crate::store::{Finish, Patch, Store, StoreError};

pub use events::{Event, EventKind};
pub use execute::{Concluding, conclude};
use experiments::Courses;
pub use experiments::{
    EXPERIMENT_PLACES, ExperimentEvent, ExperimentEventKind, ExperimentLaunch, NoProof,
};
pub use instrument::{Found, Instrument, Pinned, StopHandle, look_up};
pub use launch::{Launch, LaunchError};
pub use live::Cause;
use live::Live;
use monitor::Monitor;
pub use monitor::{INTERVAL_S, MOST_WATCHED, MonitorView, Server, Watched};
pub use network::Network;
pub use reach::{PeerCheck, PortCheck, PortLeftOut};
use receivers::Receivers;
pub use receivers::{ReceiverError, ReceiverSettings, ReceiverView, RefusedSource, served_command};
pub use registry::{PeerError, is_public, read_peer};
use selftest::Trial;
pub use selftest::{SelfTestRefused, SelfTestView};
pub use texts::{check_note, check_tags};

/// Runs that may wait for their turn.
pub const QUEUE_PLACES: usize = 20;
/// Free space on the disk below which no run begins.
pub const MIN_FREE_BYTES: u64 = 64 << 20;

/// What the supervisor needs to know about this node.
pub struct Settings {
    /// The largest run that may be started.
    pub caps: Caps,
    /// This node's name.
    pub node: String,
    /// Where runs may be sent.
    pub rule: TargetRule,
    /// What measures.
    pub instrument: Box<dyn Instrument>,
    /// The built-in receivers.
    pub receivers: ReceiverSettings,
}

/// Cancelling or watching asked for a run that is not waiting and not running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotRunning;

/// A run that waits or runs, as its page shows it.
#[derive(Clone, Debug)]
pub struct LiveView {
    /// The run with the figures so far.
    pub run: Run,
    /// What the charts are drawn from, so far.
    pub series: Series,
    /// Its seconds, intervals or round trips so far.
    pub intervals: Vec<Interval>,
}

/// The queue, the run and the experiment in progress; clones share them.
#[derive(Clone)]
pub struct Supervisor {
    core: Arc<Core>,
}

struct Core {
    store: Store,
    settings: Settings,
    runtime: tokio::runtime::Handle,
    /// Serialises launches, so that the queue cannot be overfilled between the check and the insert.
    launching: tokio::sync::Mutex<()>,
    line: Mutex<Line>,
    /// Wakes the thread that runs.
    wake: Condvar,
    /// Tells `shutdown` that the last run has ended.
    idle: tokio::sync::Notify,
    receivers: Receivers,
    /// Experiments that wait, and the one that runs.
    courses: Courses,
    /// Whether the program is about to end, for those who wait for something else.
    closing: tokio::sync::watch::Sender<bool>,
    /// The last check of each peer.
    checks: Mutex<VecDeque<PeerCheck>>,
    /// The monitor that runs, or the last one.
    monitor: Mutex<Option<Monitor>>,
}

/// Who waits and who runs.
#[derive(Default)]
struct Line {
    waiting: VecDeque<Arc<Live>>,
    running: Option<Arc<Live>>,
    /// The self-test that waits or runs, or the last one.
    trial: Option<Arc<Trial>>,
    draining: bool,
    finished: bool,
}

impl Supervisor {
    /// Starts the thread that runs what is launched; call it inside the runtime that serves pages.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn start(store: Store, settings: Settings) -> std::io::Result<Self> {
        let receivers = Receivers::new(&settings.receivers);
        let core = Arc::new(Core {
            store,
            settings,
            runtime: tokio::runtime::Handle::current(),
            launching: tokio::sync::Mutex::new(()),
            line: Mutex::new(Line::default()),
            wake: Condvar::new(),
            idle: tokio::sync::Notify::new(),
            receivers,
            courses: Courses::default(),
            closing: tokio::sync::watch::Sender::new(false),
            checks: Mutex::default(),
            monitor: Mutex::default(),
        });
        let worker = Arc::clone(&core);
        std::thread::Builder::new()
            .name("runs".into())
            .spawn(move || run_in_turn(&worker))?;
        let supervisor = Self { core };
        tokio::spawn(experiments::drive_all(supervisor.clone()));
        Ok(supervisor)
    }

    /// Where runs may be sent.
    pub fn rule(&self) -> &TargetRule {
        &self.core.settings.rule
    }

    /// The largest run that may be started.
    pub fn caps(&self) -> &Caps {
        &self.core.settings.caps
    }

    /// Stops a run that waits or runs; it ends `cancelled` with what it has.
    ///
    /// # Errors
    /// When it does neither.
    pub async fn cancel(&self, id: i64) -> Result<(), NotRunning> {
        let waiting = {
            let mut line = self.core.line();
            let place = line.waiting.iter().position(|live| live.id == id);
            let live = place.and_then(|place| line.waiting.remove(place));
            if live.is_some() {
                number_places(&line);
            }
            live
        };
        if let Some(live) = waiting {
            let finish = Finish::bare(
                State::Cancelled,
                now(),
                Some("Cancelled before it began; nothing was sent.".into()),
            );
            self.core.write_end(&live, finish).await;
            return Ok(());
        }
        let live = self.find(id).ok_or(NotRunning)?;
        live.ask_to_stop(Cause::Cancel);
        Ok(())
    }

    /// Stops every run and experiment that waits or runs, tests that receivers serve included.
    pub async fn cancel_all(&self) {
        // What has ended by itself meanwhile needs no stop.
        for experiment in self.core.courses.all() {
            let _ = self.cancel_experiment(experiment).await;
        }
        for run in self.open_runs().iter().rev() {
            let _ = self.cancel(run.id).await;
        }
    }

    /// Every run that runs or waits, in the order in which they run.
    pub fn open_runs(&self) -> Vec<Run> {
        let line = self.core.line();
        line.running
            .iter()
            .chain(&line.waiting)
            .chain(self.core.receivers.live().iter())
            .map(|live| live.run())
            .collect()
    }

    /// One run: live with its figures so far, else from the notebook.
    ///
    /// # Errors
    /// When the notebook could not be read.
    pub async fn run(&self, id: i64) -> Result<Option<Run>, StoreError> {
        match self.find(id) {
            Some(live) => Ok(Some(live.run())),
            None => self.core.store.run(id).await,
        }
    }

    /// Changes a run's note, tags or baseline, also while it runs; `None` when there is none.
    ///
    /// # Errors
    /// When it could not be written.
    pub async fn annotate(&self, id: i64, patch: Patch) -> Result<Option<Run>, StoreError> {
        if !self.core.store.patch_run(id, patch).await? {
            return Ok(None);
        }
        let stored = self.core.store.run(id).await?;
        match (self.find(id), stored) {
            (Some(live), Some(run)) => Ok(Some(live.annotate(run))),
            (_, stored) => Ok(stored),
        }
    }

    /// A run that waits or runs, with everything that its page draws; `None` when it has ended.
    pub fn live(&self, id: i64) -> Option<LiveView> {
        self.find(id).map(|live| live.view())
    }

    /// Ends the run in progress, all that wait and all that are received as `interrupted`, and returns when that is
    /// on disk.
    pub async fn shutdown(&self) {
        self.core.line().draining = true;
        self.core.closing.send_replace(true);
        let receivers = self.core.close_receivers();
        tokio::join!(receivers, self.shutdown_line());
    }

    async fn shutdown_line(&self) {
        let waiting = {
            let mut line = self.core.line();
            line.draining = true;
            if let Some(live) = &line.running {
                live.ask_to_stop(Cause::Shutdown);
            }
            line.drain_trial();
            std::mem::take(&mut line.waiting)
        };
        self.core.wake.notify_all();
        for live in waiting {
            let finish = Finish::bare(
                State::Interrupted,
                now(),
                Some("Stopped by a shutdown before it began; nothing was sent.".into()),
            );
            self.core.write_end(&live, finish).await;
        }
        loop {
            let ended = self.core.idle.notified();
            if self.core.line().finished {
                return;
            }
            ended.await;
        }
    }

    fn is_draining(&self) -> bool {
        *self.core.closing.borrow()
    }

    /// Returns when the program is about to end.
    async fn draining(&self) {
        let mut closing = self.core.closing.subscribe();
        // The sender lives as long as this.
        let _ = closing.wait_for(|closing| *closing).await;
    }

    fn find(&self, id: i64) -> Option<Arc<Live>> {
        let line = self.core.line();
        line.running
            .iter()
            .chain(&line.waiting)
            .chain(self.core.receivers.live().iter())
            .find(|live| live.id == id)
            .map(Arc::clone)
    }
}

impl Core {
    fn monitor(&self) -> MutexGuard<'_, Option<Monitor>> {
        self.monitor.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn checks(&self) -> MutexGuard<'_, VecDeque<PeerCheck>> {
        self.checks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All addresses of registered peers.
    async fn peer_addresses(&self) -> Result<Vec<IpAddr>, StoreError> {
        let peers = self.store.peers().await?;
        Ok(peers
            .iter()
            .flat_map(crate::store::Peer::addresses)
            .collect())
    }

    /// Writes a run's end, and tells those who watch; a notebook that cannot be written to is tried
    /// again for a minute, and then the end is kept in memory only.
    async fn write_end(&self, live: &Live, finish: Finish) {
        const TRIES: u32 = 12;
        let mut finish = finish;
        for attempt in 1.. {
            match self.store.finish_run(live.id, finish.clone()).await {
                Ok(()) => break,
                Err(error) if attempt < TRIES && may_pass(&error) => {
                    tracing::warn!(run = live.id, %error, "the end of the run waits for the database");
                    live.wait_to_be_stored(finish.clone());
                    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
                }
                Err(error) => {
                    tracing::error!(run = live.id, %error, "the end of the run could not be stored");
                    finish.state = State::Failed;
                    finish.error = Some(format!("The result could not be stored. {error}"));
                    break;
                }
            }
        }
        live.end(finish);
    }
}

/// The time of day as it is stored: whole milliseconds.
fn now() -> jiff::Timestamp {
    let wall = clock::wall();
    jiff::Timestamp::from_millisecond(wall.as_millisecond()).unwrap_or(wall)
}

/// Whether the fault may go away by itself: another program's lock, a disk on which space is freed.
fn may_pass(error: &StoreError) -> bool {
    matches!(error, StoreError::Locked { .. } | StoreError::Disk { .. })
}

/// Tells each waiting run its place, 1 = next.
fn number_places(line: &Line) {
    for (place, live) in (1..).zip(&line.waiting) {
        live.set_place(place + u32::from(line.trial_is_before(live)));
    }
}

/// Whose turn it is.
enum Turn {
    Run(Arc<Live>),
    SelfTest(Arc<Trial>),
}

/// The thread that runs: takes the first in line, runs it to its end, takes the next.
fn run_in_turn(core: &Core) {
    loop {
        let turn = {
            let mut line = core.line();
            loop {
                if let Some(trial) = line.due_trial() {
                    break Turn::SelfTest(trial);
                }
                if let Some(live) = line.waiting.pop_front() {
                    line.running = Some(Arc::clone(&live));
                    number_places(&line);
                    break Turn::Run(live);
                }
                if line.draining {
                    line.finished = true;
                    drop(line);
                    core.idle.notify_waiters();
                    return;
                }
                line = core.wake.wait(line).unwrap_or_else(PoisonError::into_inner);
            }
        };
        let live = match turn {
            Turn::Run(live) => live,
            Turn::SelfTest(trial) => {
                core.make_self_test(&trial);
                number_places(&core.line());
                continue;
            }
        };
        let outcome = catch_unwind(AssertUnwindSafe(|| execute::execute(core, &live)));
        if let Err(panic) = outcome {
            let text = panic_text(panic.as_ref());
            tracing::error!(run = live.id, text, "a run panicked");
            let finish = Finish::bare(
                State::Failed,
                now(),
                Some(format!(
                    "Ended by an internal error in run {}: {text}. The log says more.",
                    live.id
                )),
            );
            core.runtime.block_on(core.write_end(&live, finish));
        }
        core.line().running = None;
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    text.chars().take(200).collect()
}
