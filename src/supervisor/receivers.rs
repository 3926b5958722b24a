//! The built-in iperf receivers: started and stopped from the page, and every test that they served kept as a run.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::time::{Duration, Instant};

use super::execute::{concluded, egress_cap};
use super::live::{Cause, Live};
use super::pump::Pump;
use super::{Core, Supervisor, now};
use crate::guard::cidr::Cidr;
use crate::measure::flow::{FlowBatch, FlowEnd};
use crate::measure::fold::{End, Measured};
use crate::measure::plan::Plan;
use crate::measure::plan::throughput::{Dialect, Direction, Protocol, ThroughputPlan};
use crate::measure::run::{Origin, State};
use crate::net::clock;
use crate::receiver::{Receiver, ReceiverConfig, ReceiverEvent, ReceiverStatus};
use crate::store::{Finish, Inserted, NewRun, Peer, StoreError};

/// Sources that were turned away and are remembered, for each receiver.
const REMEMBERED: usize = 50;
/// How old the list of peers may be that decides who is let in.
const PEERS_FRESH: Duration = Duration::from_secs(1);

/// How the built-in receivers are set up.
#[derive(Clone, Debug, Default)]
pub struct ReceiverSettings {
    /// Where the iperf 2 receiver listens, TCP and UDP; empty = off for good.
    pub iperf2: Vec<SocketAddr>,
    /// Where the iperf 3 server listens; empty = off for good.
    pub iperf3: Vec<SocketAddr>,
    /// Who may test against them beside this machine and registered peers.
    pub accept_from: Vec<Cidr>,
    /// Streams that each serves at once, in all and from one address.
    pub max_streams: u32,
    /// How long each serves a stream.
    pub max_duration: Duration,
    /// Documented egress cap of this node in bit/s.
    pub egress_cap_bits_per_second: Option<f64>,
}

/// A receiver as pages and API show it.
#[derive(Clone, Debug)]
pub struct ReceiverView {
    /// Whose clients it serves.
    pub dialect: Dialect,
    /// Where it listens, or would; empty = switched off by its flag.
    pub addresses: Vec<SocketAddr>,
    /// Whether it listens now.
    pub running: bool,
    /// What it does and has done since its start, all its addresses together.
    pub status: ReceiverStatus,
    /// Who was turned away, the last one first.
    pub refused: Vec<RefusedSource>,
}

/// A source that a receiver turned away.
#[derive(Clone, Debug, PartialEq)]
pub struct RefusedSource {
    /// Its address.
    pub from: IpAddr,
    /// Why, in a sentence.
    pub why: String,
    /// When, the last time that it was told.
    pub at: jiff::Timestamp,
    /// How often it was told (at most once in 10 s).
    pub count: u64,
}

/// Why a receiver was not started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReceiverError {
    /// Its flag says `off`, or the program is about to end; the sentence says what to change.
    Off(String),
    /// The address cannot be bound; the sentence says why.
    Bind(String),
}

impl std::fmt::Display for ReceiverError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Off(sentence) | Self::Bind(sentence) => f.write_str(sentence),
        }
    }
}

/// Both receivers, and the tests that they serve.
pub(super) struct Receivers {
    iperf2: Mutex<Slot>,
    iperf3: Mutex<Slot>,
    /// Runs that are being received.
    pub(super) live: Mutex<Vec<Arc<Live>>>,
    peers: RwLock<Option<(Instant, Vec<Peer>)>>,
}

#[derive(Default)]
struct Slot {
    addresses: Vec<SocketAddr>,
    running: Vec<Receiver>,
    refused: Vec<RefusedSource>,
    closed: bool,
}

impl Receivers {
    pub(super) fn new(settings: &ReceiverSettings) -> Self {
        let slot = |addresses: &[SocketAddr]| {
            Mutex::new(Slot {
                addresses: addresses.to_vec(),
                ..Slot::default()
            })
        };
        Self {
            iperf2: slot(&settings.iperf2),
            iperf3: slot(&settings.iperf3),
            live: Mutex::default(),
            peers: RwLock::default(),
        }
    }

    fn slot(&self, dialect: Dialect) -> MutexGuard<'_, Slot> {
        let slot = match dialect {
            Dialect::Iperf2 => &self.iperf2,
            Dialect::Iperf3 => &self.iperf3,
        };
        slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn live(&self) -> MutexGuard<'_, Vec<Arc<Live>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The flag that says where a receiver listens.
const fn flag(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Iperf2 => "--receiver",
        Dialect::Iperf3 => "--receiver3",
    }
}

impl Supervisor {
    /// Both receivers, iperf 2 first.
    pub fn receivers(&self) -> Vec<ReceiverView> {
        [Dialect::Iperf2, Dialect::Iperf3]
            .map(|dialect| self.receiver(dialect))
            .into()
    }

    fn receiver(&self, dialect: Dialect) -> ReceiverView {
        let slot = self.core.receivers.slot(dialect);
        let mut status = ReceiverStatus::default();
        for one in slot.running.iter().map(Receiver::status) {
            status.running += one.running;
            status.streams += one.streams;
            status.connections += one.connections;
            status.begun += one.begun;
            status.ended += one.ended;
            status.refused += one.refused;
            status.bytes_received += one.bytes_received;
            status.bytes_sent += one.bytes_sent;
            status.dropped += one.dropped;
        }
        ReceiverView {
            dialect,
            addresses: slot.addresses.clone(),
            running: !slot.running.is_empty(),
            status,
            refused: slot.refused.clone(),
        }
    }

    /// Starts a receiver on its addresses; one that runs is left alone.
    ///
    /// # Errors
    /// When its flag says `off`, or an address cannot be bound.
    pub async fn start_receiver(&self, dialect: Dialect) -> Result<ReceiverView, ReceiverError> {
        let this = self.clone();
        let started = tokio::task::spawn_blocking(move || {
            this.core.start_receiver(dialect)?;
            Ok(this.receiver(dialect))
        });
        started
            .await
            .unwrap_or_else(|_| Err(ReceiverError::Bind("The start broke off.".to_owned())))
    }

    /// Stops a receiver; tests in progress end with what they have.
    ///
    /// # Errors
    /// When its flag says `off`.
    pub async fn stop_receiver(&self, dialect: Dialect) -> Result<ReceiverView, ReceiverError> {
        let this = self.clone();
        let stopped = tokio::task::spawn_blocking(move || {
            if this.receiver(dialect).addresses.is_empty() {
                return Err(switched_off(dialect));
            }
            this.core.stop_receiver(dialect, Cause::Cancel, false);
            Ok(this.receiver(dialect))
        });
        stopped
            .await
            .unwrap_or_else(|_| Err(ReceiverError::Off("The stop broke off.".to_owned())))
    }
}

fn switched_off(dialect: Dialect) -> ReceiverError {
    let flag = flag(dialect);
    ReceiverError::Off(format!(
        "This receiver is switched off: start with {flag} and an address, such as {flag} 127.0.0.1:{}.",
        match dialect {
            Dialect::Iperf2 => 5001,
            Dialect::Iperf3 => 5201,
        }
    ))
}

impl Core {
    fn start_receiver(self: &Arc<Self>, dialect: Dialect) -> Result<(), ReceiverError> {
        let mut slot = self.receivers.slot(dialect);
        if slot.closed {
            return Err(ReceiverError::Off(
                "This server is about to stop and takes no more tests.".to_owned(),
            ));
        }
        if !slot.running.is_empty() {
            return Ok(());
        }
        if slot.addresses.is_empty() {
            return Err(switched_off(dialect));
        }
        let settings = &self.settings.receivers;
        let mut running = Vec::new();
        for (place, address) in slot.addresses.clone().into_iter().enumerate() {
            let door = Arc::downgrade(self);
            let config = ReceiverConfig {
                dialect,
                listen: address,
                accept_from: Arc::new(move |from| {
                    door.upgrade().is_some_and(|core| core.lets_in(from))
                }),
                max_streams: settings.max_streams,
                max_duration: settings.max_duration,
                interval: crate::receiver::INTERVAL,
                name: self.settings.node.clone(),
            };
            let book = Mutex::new(Book {
                core: Arc::downgrade(self),
                dialect,
                place,
                tests: HashMap::new(),
            });
            let events = Arc::new(move |event| {
                book.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .enter(event);
            });
            let receiver = Receiver::start(config, events).map_err(|error| {
                ReceiverError::Bind(format!(
                    "{} {address} cannot be bound ({error}): choose another with {}.",
                    flag(dialect),
                    flag(dialect)
                ))
            })?;
            slot.addresses[place] = receiver.local_addr();
            running.push(receiver);
        }
        slot.running = running;
        Ok(())
    }

    /// Stops it; returns once its tests are in the notebook.
    fn stop_receiver(&self, dialect: Dialect, cause: Cause, for_good: bool) {
        let running = {
            let mut slot = self.receivers.slot(dialect);
            slot.closed |= for_good;
            std::mem::take(&mut slot.running)
        };
        for live in self.receivers.live().iter() {
            if live.is_of(dialect) {
                live.blame(cause);
            }
        }
        // Outside the lock: each waits for its threads, and those may look at the slot.
        drop(running);
    }

    /// Stops both for good at the end of the program.
    pub(super) async fn close_receivers(self: &Arc<Self>) {
        let core = Arc::clone(self);
        let stopped = tokio::task::spawn_blocking(move || {
            for dialect in [Dialect::Iperf2, Dialect::Iperf3] {
                core.stop_receiver(dialect, Cause::Shutdown, true);
            }
        });
        if stopped.await.is_err() {
            tracing::error!("the receivers did not stop in order");
        }
    }

    /// Whether this address may test against us: this machine, `--accept-from`, or a registered peer.
    fn lets_in(&self, from: IpAddr) -> bool {
        let from = from.to_canonical();
        from.is_loopback()
            || self
                .settings
                .receivers
                .accept_from
                .iter()
                .any(|block| block.contains(from))
            || self.known_peers(|peers| {
                peers
                    .iter()
                    .flat_map(Peer::addresses)
                    .any(|address| address.to_canonical() == from)
            })
    }

    /// Looks at the registered peers as they were a second ago at most.
    fn known_peers<T>(&self, look: impl Fn(&[Peer]) -> T) -> T {
        let fresh = |read: &Option<(Instant, Vec<Peer>)>| {
            read.as_ref()
                .filter(|(at, _)| clock::now().saturating_duration_since(*at) < PEERS_FRESH)
                .map(|(_, peers)| look(peers))
        };
        let known = &self.receivers.peers;
        if let Some(seen) = fresh(&known.read().unwrap_or_else(PoisonError::into_inner)) {
            return seen;
        }
        let mut slot = known.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(seen) = fresh(&slot) {
            return seen;
        }
        let peers = self
            .runtime
            .block_on(self.store.peers())
            .unwrap_or_else(|error| {
                tracing::warn!(%error, "the peers cannot be read: none is let in");
                Vec::new()
            });
        let seen = look(&peers);
        *slot = Some((clock::now(), peers));
        seen
    }
}

/// What one receiver told: its tests as runs.
struct Book {
    core: Weak<Core>,
    dialect: Dialect,
    place: usize,
    tests: HashMap<u64, Served>,
}

/// A test under way.
struct Served {
    live: Arc<Live>,
    pump: Pump,
    cap: Option<(f64, String)>,
}

impl Book {
    fn enter(&mut self, event: ReceiverEvent) {
        let Some(core) = self.core.upgrade() else {
            return;
        };
        match event {
            ReceiverEvent::TestBegun { id, from, plan } => {
                match self.begin(&core, id, from, plan) {
                    Ok(served) => {
                        self.tests.insert(id, served);
                    }
                    Err(error) => {
                        tracing::warn!(%from, %error, "a test that a receiver serves is not kept");
                    }
                }
            }
            ReceiverEvent::Batch { id, batch } => {
                if let Some(served) = self.tests.get_mut(&id) {
                    served.take(batch);
                }
            }
            ReceiverEvent::TestEnded { id, end } => {
                if let Some(served) = self.tests.remove(&id) {
                    served.end(&core, end);
                }
            }
            ReceiverEvent::Refused { from, why } => {
                tracing::info!(%from, why, "a receiver turned somebody away");
                core.receivers.slot(self.dialect).note_refusal(from, why);
            }
        }
    }

    fn begin(
        &self,
        core: &Arc<Core>,
        id: u64,
        from: SocketAddr,
        plan: ThroughputPlan,
    ) -> Result<Served, StoreError> {
        let sends = plan.direction != Direction::Receive;
        let cap = if sends {
            let own = core.settings.receivers.egress_cap_bits_per_second;
            own.map(|cap| (cap, "--egress-cap of this node".to_owned()))
        } else {
            core.known_peers(|peers| peers.iter().find_map(|peer| egress_cap(peer, from.ip())))
        };
        let port = core.receivers.slot(self.dialect).addresses[self.place].port();
        let (runtime, store) = (&core.runtime, &core.store);
        let inserted = runtime.block_on(store.insert_run(NewRun {
            command: served_command(&plan, port),
            plan: Plan::Throughput(plan),
            origin: Origin::Received,
            actor: from.ip().to_canonical().to_string(),
            node: core.settings.node.clone(),
            note: String::new(),
            tags: Vec::new(),
            objective: String::new(),
            form_token: None,
            member: None,
            created_at: now(),
        }))?;
        let (Inserted::New(run) | Inserted::Before(run)) = inserted;
        let started_at = now();
        let environment = core.settings.instrument.environment(Some(from.ip()));
        runtime.block_on(store.start_run(run, started_at, environment.clone()))?;
        let stored = runtime
            .block_on(store.run(run))?
            .ok_or(StoreError::Closed)?;
        let live = Arc::new(Live::new(stored, String::new()));
        live.begin(started_at, environment);
        let (door, dialect, place) = (Arc::downgrade(core), self.dialect, self.place);
        live.stop.on_stop(move || {
            if let Some(core) = door.upgrade()
                && let Some(receiver) = core.receivers.slot(dialect).running.get(place)
            {
                receiver.end_test(id);
            }
        });
        core.receivers.live().push(Arc::clone(&live));
        Ok(Served {
            live,
            pump: Pump::new(runtime.clone(), store.clone(), run),
            cap,
        })
    }
}

impl Served {
    fn take(&mut self, batch: FlowBatch) {
        // What cannot be stored now is stored with the end.
        let _ = self.pump.offer(self.live.push(&Measured::Flow(batch)));
    }

    fn end(self, core: &Core, mut end: FlowEnd) {
        let Self { live, pump, cap } = self;
        end.egress_cap = end.egress_cap.or(cap);
        let end = End::Flow(end);
        let finish = match live.fold_up(&end) {
            Some(folded) => concluded(&live, &end, pump, folded, now()),
            None => Finish::bare(State::Failed, now(), Some("Nothing was measured.".into())),
        };
        core.runtime.block_on(core.write_end(&live, finish));
        core.receivers.live().retain(|other| other.id != live.id);
    }
}

impl Slot {
    fn note_refusal(&mut self, from: IpAddr, why: String) {
        let place = self
            .refused
            .iter()
            .position(|known| known.from == from && known.why == why);
        let count = place.map_or(0, |place| self.refused.remove(place).count) + 1;
        self.refused.insert(
            0,
            RefusedSource {
                from,
                why,
                at: now(),
                count,
            },
        );
        self.refused.truncate(REMEMBERED);
    }
}

/// The line of what a receiver on this port did for a test.
pub fn served_command(plan: &ThroughputPlan, port: u16) -> String {
    match plan.dialect {
        Dialect::Iperf2 if plan.protocol == Protocol::Udp => format!("iperf -s -u -p {port}"),
        Dialect::Iperf2 => format!("iperf -s -p {port}"),
        Dialect::Iperf3 => format!("iperf3 -s -p {port}"),
    }
}
