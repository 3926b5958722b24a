//! The front desk of a receiver: who is let in, which streams are one test, and the thread that tells what happens.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::line::{Limit, Line, canonical};
use super::sequence::Sequence;
use super::{ReceiverConfig, ReceiverEvent, ReceiverStatus};
use crate::measure::flow::{FlowBatch, FlowEnd, Opened, Way};
use crate::measure::plan::throughput::ThroughputPlan;
use crate::net::clock::{self, Epoch};
use crate::net::{connect, interfaces};

/// How long the streams of one test may arrive after its first: a lost first packet costs each a second or two.
const GATHERING: Duration = Duration::from_secs(3);
/// When a test is announced that may still get more streams.
const ANNOUNCE: Duration = Duration::from_secs(1);
/// How often limits are looked at while something runs.
const LOOK: Duration = Duration::from_millis(200);
/// How often the same refusal is told again.
const REFUSAL_PAUSE: Duration = Duration::from_secs(10);
/// Refusals that are remembered so as not to repeat them.
const REFUSALS: usize = 256;
/// How long the threads have to leave when the receiver stops.
const LEAVE: Duration = Duration::from_millis(800);
/// Connections from one address that may be in their first seconds.
const UNKNOWN_EACH: u32 = 256;
/// The same from all addresses.
const UNKNOWN: u32 = 1_024;

/// Where events go.
pub(super) type Events = Arc<dyn Fn(ReceiverEvent) + Send + Sync>;

/// What all threads of one receiver share.
pub(super) struct Desk {
    pub(super) config: ReceiverConfig,
    stop: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    last_id: u64,
    tests: Vec<Test>,
    /// Streams in progress and connections that have not said what they are, by address.
    guests: HashMap<IpAddr, Guests>,
    refusals: HashMap<(IpAddr, String), Instant>,
    untold: Vec<ReceiverEvent>,
    /// Connections let in so far.
    admitted: u64,
    status: ReceiverStatus,
    stopping: Option<Instant>,
}

#[derive(Clone, Copy, Default)]
struct Guests {
    unknown: u32,
    streams: u32,
}

/// What makes streams one test.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Group {
    /// Streams that the client announced; `None` where it did not say.
    pub(super) announced: Option<u32>,
    /// As the client asked.
    pub(super) plan: ThroughputPlan,
    /// What the client is.
    pub(super) peer: Option<String>,
}

struct Test {
    id: u64,
    from: SocketAddr,
    group: Group,
    epoch: Epoch,
    start: Instant,
    begun: bool,
    /// Length of an interval.
    interval: Duration,
    ticks: u32,
    /// Up to which instant its figures were told.
    told_until: Duration,
    lines: Vec<Arc<Line>>,
    /// How many of the lines were told with their addresses.
    introduced: usize,
    joined: u32,
    seats: u32,
    end: FlowEnd,
}

/// A connection that has not yet said what it is.
pub(super) struct Visit {
    desk: Arc<Desk>,
    ip: IpAddr,
    /// Its place in the order in which connections were accepted.
    pub(super) number: u64,
}

/// A place in a test: one stream, or all of them where one connection speaks for them.
pub(super) struct Seat {
    pub(super) desk: Arc<Desk>,
    test: u64,
    ip: IpAddr,
    streams: u32,
    /// The stream's number.
    pub(super) stream: u32,
    /// Start of the test.
    pub(super) start: Instant,
}

impl Desk {
    pub(super) fn new(config: ReceiverConfig) -> Arc<Self> {
        Arc::new(Self {
            config,
            stop: AtomicBool::new(false),
            state: Mutex::default(),
            changed: Condvar::new(),
        })
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Lets a new connection in, or says why not.
    pub(super) fn admit(self: &Arc<Self>, from: SocketAddr) -> Option<Visit> {
        let ip = from.ip().to_canonical();
        if !self.accepts(ip) {
            return None;
        }
        let mut state = self.state();
        let unknown: u32 = state.guests.values().map(|guests| guests.unknown).sum();
        let guests = state.guests.entry(ip).or_default();
        if guests.unknown >= UNKNOWN_EACH || unknown >= UNKNOWN {
            let why = "Too many connections that say nothing.";
            state.refuse(ip, why.to_owned());
            drop(state);
            self.changed.notify_all();
            return None;
        }
        guests.unknown += 1;
        state.admitted += 1;
        Some(Visit {
            desk: Arc::clone(self),
            ip,
            number: state.admitted,
        })
    }

    /// Whether this address may test against us; a refusal is reported.
    pub(super) fn accepts(&self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        let accepted = (self.config.accept_from)(ip);
        if !accepted {
            self.refuse(
                ip,
                "Its address is not among those that may test against this receiver.",
            );
        }
        accepted
    }

    /// Reports that something from this address was turned away.
    pub(super) fn refuse(&self, ip: IpAddr, why: &str) {
        self.state().refuse(ip.to_canonical(), why.to_owned());
        self.changed.notify_all();
    }

    /// Gives a stream its place: in the test that it belongs to, or in one of its own.
    pub(super) fn seat(
        self: &Arc<Self>,
        from: SocketAddr,
        group: &Group,
        streams: u32,
    ) -> Result<Seat, String> {
        let ip = from.ip().to_canonical();
        let now = clock::now();
        let mut state = self.state();
        let state = &mut *state;
        if state.stopping.is_some() {
            return Err("The receiver is stopping.".to_owned());
        }
        let all: u32 = state.guests.values().map(|guests| guests.streams).sum();
        let guests = state.guests.entry(ip).or_default();
        let most = self.config.max_streams;
        if all + streams > most {
            if guests.streams == 0 && guests.unknown == 0 {
                state.guests.remove(&ip);
            }
            let why = format!("This receiver serves {most} streams at most.");
            state.refuse(ip, why.clone());
            self.changed.notify_all();
            return Err(why);
        }
        guests.streams += streams;
        let known = state
            .tests
            .iter()
            .position(|test| test.takes(ip, group, now));
        let place = known.unwrap_or_else(|| {
            state.last_id += 1;
            state.tests.push(Test::new(
                state.last_id,
                canonical(from),
                group,
                &self.config,
                now,
            ));
            state.tests.len() - 1
        });
        let test = &mut state.tests[place];
        let stream = test.joined + 1;
        test.joined += streams;
        test.seats += 1;
        let seat = Seat {
            desk: Arc::clone(self),
            test: test.id,
            ip,
            streams,
            stream,
            start: test.start,
        };
        self.changed.notify_all();
        Ok(seat)
    }

    pub(super) fn status(&self) -> ReceiverStatus {
        let state = self.state();
        ReceiverStatus {
            running: u32::try_from(state.tests.len()).unwrap_or(u32::MAX),
            streams: state.guests.values().map(|guests| guests.streams).sum(),
            connections: state.guests.values().map(|guests| guests.unknown).sum(),
            ..state.status
        }
    }

    /// Ends one test; returns at once.
    pub(super) fn end_test(&self, id: u64) {
        let mut state = self.state();
        if let Some(test) = state.tests.iter_mut().find(|test| test.id == id) {
            test.end.stopped = true;
            for line in &test.lines {
                line.stop(Some("It was stopped from this end."));
            }
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Ends everything; returns at once.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        let mut state = self.state();
        state.stopping.get_or_insert_with(clock::now);
        for test in &mut state.tests {
            test.end.stopped = true;
            for line in &test.lines {
                line.stop(Some("The receiver was stopped."));
            }
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Tells events in their order until the receiver stops; the work of one thread.
    pub(super) fn tell(&self, events: &Events) {
        loop {
            let mut told = Vec::new();
            let mut state = self.state();
            let now = clock::now();
            let left = state
                .stopping
                .is_some_and(|since| now.saturating_duration_since(since) > LEAVE);
            let done = state.advance(now, left, &mut told);
            drop(state);
            for event in told {
                events(event);
            }
            if done {
                return;
            }
            let state = self.state();
            // What came meanwhile has been notified already: look before sleeping.
            if !state.has_news() {
                let pause = state.pause(clock::now());
                let _ = self.changed.wait_timeout(state, pause);
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with_test(&self, id: u64, change: impl FnOnce(&mut Test)) {
        if let Some(test) = self.state().tests.iter_mut().find(|test| test.id == id) {
            change(test);
        }
    }
}

impl State {
    fn refuse(&mut self, ip: IpAddr, why: String) {
        let now = clock::now();
        self.status.refused += 1;
        self.refusals
            .retain(|_, at| now.saturating_duration_since(*at) < REFUSAL_PAUSE);
        let key = (ip, why);
        if self.refusals.contains_key(&key) || self.refusals.len() >= REFUSALS {
            return;
        }
        self.untold.push(ReceiverEvent::Refused {
            from: ip,
            why: key.1.clone(),
        });
        self.refusals.insert(key, now);
    }

    fn has_news(&self) -> bool {
        !self.untold.is_empty()
            || self.tests.iter().any(|test| {
                !test.begun && test.is_complete() || test.seats == 0 && test.is_complete()
            })
    }

    fn pause(&self, now: Instant) -> Duration {
        let ticks = self.tests.iter().map(|test| {
            test.due()
                .saturating_duration_since(now)
                .max(Duration::from_millis(1))
        });
        let look = if self.tests.is_empty() && self.stopping.is_none() {
            Duration::from_hours(1)
        } else {
            LOOK
        };
        ticks.min().map_or(look, |tick| tick.min(look))
    }

    /// Collects what there is to tell; `true` once the receiver has stopped and all is told.
    fn advance(&mut self, now: Instant, left: bool, told: &mut Vec<ReceiverEvent>) -> bool {
        told.append(&mut self.untold);
        let status = &mut self.status;
        self.tests.retain_mut(|test| {
            let age = now.saturating_duration_since(test.start);
            let stopping = test.end.stopped;
            let over =
                test.seats == 0 && (test.is_complete() || age >= ANNOUNCE || stopping) || left;
            if !test.begun && (test.is_complete() || age >= ANNOUNCE || over) {
                test.begun = true;
                status.begun += 1;
                let mut plan = test.group.plan.clone();
                if test.group.announced.is_none() {
                    plan.streams = test.joined;
                }
                told.push(ReceiverEvent::TestBegun {
                    id: test.id,
                    from: test.from,
                    plan,
                });
            }
            for line in &test.lines {
                line.watch(now);
            }
            if test.due() <= now || over {
                let ticks = age.as_nanos() / test.interval.as_nanos();
                test.ticks = u32::try_from(ticks).unwrap_or(u32::MAX);
                let batch = test.batch(now);
                for tick in &batch.ticks {
                    match tick.way {
                        Some(Way::Send) => status.bytes_sent += tick.bytes,
                        _ => status.bytes_received += tick.bytes,
                    }
                    status.dropped += tick.udp.map_or(0, |udp| udp.dropped_by_receiver);
                }
                // A test is announced before its first figures.
                if test.begun {
                    told.push(ReceiverEvent::Batch { id: test.id, batch });
                }
            } else if test.begun && test.introduced < test.lines.len() {
                let batch = FlowBatch {
                    until: test.told_until,
                    opened: test.opened(),
                    ..FlowBatch::default()
                };
                told.push(ReceiverEvent::Batch { id: test.id, batch });
            }
            if over {
                status.ended += 1;
                told.push(ReceiverEvent::TestEnded {
                    id: test.id,
                    end: test.finish(age),
                });
            }
            !over
        });
        self.stopping.is_some() && self.tests.is_empty()
    }
}

impl Test {
    fn new(
        id: u64,
        from: SocketAddr,
        group: &Group,
        config: &ReceiverConfig,
        now: Instant,
    ) -> Self {
        Self {
            id,
            from,
            group: Group {
                plan: ThroughputPlan {
                    // The client may announce anything; more are not served.
                    streams: group.plan.streams.clamp(1, config.max_streams),
                    ..group.plan.clone()
                },
                ..group.clone()
            },
            epoch: Epoch::after(Duration::ZERO),
            start: now,
            begun: false,
            interval: config.interval.max(Duration::from_millis(10)),
            ticks: 0,
            told_until: Duration::ZERO,
            lines: Vec::new(),
            introduced: 0,
            joined: 0,
            seats: 0,
            end: FlowEnd {
                same_host: connect::is_local(from),
                peer: group.peer.clone(),
                ..FlowEnd::default()
            },
        }
    }

    /// Whether a stream with this opening is one of this test's.
    fn takes(&self, ip: IpAddr, group: &Group, now: Instant) -> bool {
        self.from.ip() == ip
            && self.group.announced == group.announced
            && self.group.plan.protocol == group.plan.protocol
            && self.group.plan.direction == group.plan.direction
            && self.group.plan.duration_s == group.plan.duration_s
            && self.group.plan.bytes == group.plan.bytes
            && now.saturating_duration_since(self.start) < GATHERING
            && match self.group.announced {
                Some(announced) => self.joined < announced,
                None => self.seats > 0,
            }
    }

    fn is_complete(&self) -> bool {
        self.group
            .announced
            .map_or(self.seats == 0, |announced| self.joined >= announced)
    }

    /// When its next batch, or its announcement, is due.
    fn due(&self) -> Instant {
        self.start + self.interval * self.ticks.saturating_add(1)
    }

    /// The lines that were opened since the call before, as far as both ends are known.
    fn opened(&mut self) -> Vec<Opened> {
        let new = &self.lines[self.introduced..];
        self.introduced = self.lines.len();
        new.iter().filter_map(|line| line.opened()).collect()
    }

    fn batch(&mut self, now: Instant) -> FlowBatch {
        self.told_until = now.saturating_duration_since(self.start);
        FlowBatch {
            until: self.told_until,
            // A test that is not announced yet tells its lines later.
            opened: if self.begun {
                self.opened()
            } else {
                Vec::new()
            },
            ticks: self
                .lines
                .iter()
                .filter_map(|line| line.tick(now))
                .collect(),
            ..FlowBatch::default()
        }
    }

    fn finish(&mut self, age: Duration) -> FlowEnd {
        let mut end = std::mem::take(&mut self.end);
        end.duration = age;
        end.clock_step_s = self.epoch.wall_step_s();
        for line in &self.lines {
            // After a stop its thread may not have come to it.
            let (stream, remark, cpu) = line.summary();
            end.streams.push(stream);
            end.cpu.0 += cpu.user;
            end.cpu.1 += cpu.system;
            if let Some(remark) = remark.filter(|remark| !end.remarks.contains(remark)) {
                end.remarks.push(remark);
            }
        }
        end
    }
}

impl Seat {
    /// Opens the account of one way of this seat's stream.
    pub(super) fn line(
        &self,
        (stream, way): (u32, Way),
        (local, remote): (Option<SocketAddr>, SocketAddr),
        planned: Option<Duration>,
        socket: Option<&TcpStream>,
        sequence: Option<Sequence>,
    ) -> Arc<Line> {
        let now = clock::now();
        let longest = self.desk.config.max_duration;
        let limit = Limit {
            hard: now.checked_add(longest).unwrap_or(now),
            longest,
            planned_end: planned.and_then(|planned| now.checked_add(planned)),
        };
        let socket = socket.and_then(|socket| socket.try_clone().ok());
        let local = local.map(|local| own_end(local, remote));
        let line = Arc::new(Line::new(
            (stream, way),
            (local, remote),
            self.start,
            limit,
            socket,
            sequence,
        ));
        self.desk.with_test(self.test, |test| {
            test.lines.push(Arc::clone(&line));
        });
        if self.desk.is_stopping() {
            line.stop(Some("The receiver was stopped."));
        }
        line
    }

    /// Adds to what is told at the end of the test.
    pub(super) fn note(&self, change: impl FnOnce(&mut FlowEnd)) {
        self.desk.with_test(self.test, |test| change(&mut test.end));
    }
}

/// This end of a stream: one socket for all datagrams may be bound to every address of this machine.
fn own_end(local: SocketAddr, remote: SocketAddr) -> SocketAddr {
    let known = (!local.ip().is_unspecified()).then_some(local.ip());
    let ip = known.or_else(|| interfaces::source_towards(remote));
    SocketAddr::new(ip.unwrap_or(local.ip()), local.port())
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut state = self.desk.state();
        if let Some(test) = state.tests.iter_mut().find(|test| test.id == self.test) {
            test.seats -= 1;
        }
        state.leave(self.ip, |guests| guests.streams -= self.streams);
        drop(state);
        self.desk.changed.notify_all();
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.desk
            .state()
            .leave(self.ip, |guests| guests.unknown -= 1);
    }
}

impl State {
    fn leave(&mut self, ip: IpAddr, change: impl FnOnce(&mut Guests)) {
        if let Some(guests) = self.guests.get_mut(&ip) {
            change(guests);
            if guests.unknown == 0 && guests.streams == 0 {
                self.guests.remove(&ip);
            }
        }
    }
}
