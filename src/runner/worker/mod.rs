//! One generator thread: a loop over an edge-triggered poll and an exact timer, with few system calls per request.

mod calls;
mod connections;
mod ends;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};

use crate::measure::schedule::UrlChoice;
use crate::net::clock::Epoch;
use crate::net::sys::{self, Timer};
use crate::runner::load::{Load, Reuse};
use crate::runner::record::{PERIOD, Record};
use crate::runner::spec::Spec;
use crate::runner::stop::Stop;
use crate::runner::waiting::Waiting;
use crate::wire::http1::Names;
use connections::Connection;

/// Events taken from the poll at once.
const EVENTS: usize = 256;
/// Read at once: the usual reply fits.
const BUFFER: usize = 64 * 1024;
/// Sessions begun in one pass: replies must not wait behind a long catching-up.
const BURST: u32 = 16;

const TIMER: Token = Token(usize::MAX);
const WAKER: Token = Token(usize::MAX - 1);

/// What a thread needs from the system; made before the start, where failing can still be told.
pub(super) struct Wakes {
    poll: Poll,
    waker: Arc<Waker>,
}

impl Wakes {
    pub(super) fn new() -> io::Result<Self> {
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        Ok(Self { poll, waker })
    }

    pub(super) fn waker(&self) -> Arc<Waker> {
        Arc::clone(&self.waker)
    }
}

/// A run of calls one after another; its fields speak of the call under way.
#[derive(Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts about a session, not states"
)]
struct Session {
    number: u64,
    /// Calls that have ended.
    call: u64,
    /// Calls at most.
    calls: u64,
    pauses: Option<crate::measure::schedule::ThinkTimes>,
    choice: Option<UrlChoice>,
    connection: Option<u32>,
    /// It has not ended.
    live: bool,
    /// A call is under way.
    under_way: bool,
    seq: u64,
    url: usize,
    scheduled: Duration,
    started: Duration,
    retried: bool,
    /// Its connection was seen closed before the next call, without notice.
    stale: bool,
}

/// One generator thread.
pub(super) struct Worker<'a> {
    spec: &'a Spec,
    stop: &'a Stop,
    load: Load,
    reuse: Reuse,
    choice: UrlChoice,
    epoch: Epoch,
    poll: Poll,
    timer: Timer,
    /// What the timer is set to.
    armed: Duration,
    sessions: Vec<Session>,
    free_sessions: Vec<u32>,
    active: usize,
    connections: Vec<Connection>,
    free_connections: Vec<u32>,
    /// Connections that wait for a session, by origin, the last used last.
    idle: Vec<Vec<u32>>,
    /// Calls by their timeout.
    timeouts: Waiting,
    /// Connections whose last reply is complete and whose server is to close first.
    lingering: Waiting,
    /// Sessions between two calls.
    pausing: BinaryHeap<Reverse<(Duration, u32)>>,
    names: Names,
    record: Record,
    buffer: Box<[u8]>,
    /// Connects begun in this pass.
    burst: u32,
    /// Calls that are being begun inside the end of another.
    depth: u32,
    /// Since when nothing further is begun, where that came before the plan's end.
    sending_over: Option<Duration>,
}

impl<'a> Worker<'a> {
    pub(super) fn new(
        spec: &'a Spec,
        stop: &'a Stop,
        load: Load,
        epoch: Epoch,
        wakes: Wakes,
        record: Record,
    ) -> io::Result<Self> {
        let timer = Timer::new(|| epoch.lead())?;
        wakes.poll.registry().register(
            &mut SourceFd(&std::os::fd::AsRawFd::as_raw_fd(&timer)),
            TIMER,
            Interest::READABLE,
        )?;
        let origins = spec.sites.iter().map(|site| site.origin as usize + 1).max();
        Ok(Self {
            reuse: Reuse::of(&spec.plan),
            choice: crate::runner::load::choice(&spec.plan),
            names: Names::new(spec.identity.clone(), spec.region.clone()),
            spec,
            stop,
            load,
            epoch,
            poll: wakes.poll,
            timer,
            armed: Duration::ZERO,
            sessions: Vec::new(),
            free_sessions: Vec::new(),
            active: 0,
            connections: Vec::new(),
            free_connections: Vec::new(),
            idle: vec![Vec::new(); origins.unwrap_or(1)],
            timeouts: Waiting::default(),
            lingering: Waiting::default(),
            pausing: BinaryHeap::new(),
            record,
            buffer: vec![0; BUFFER].into_boxed_slice(),
            burst: 0,
            depth: 0,
            sending_over: None,
        })
    }

    /// Runs the thread's share of the plan to its end.
    pub(super) fn run(mut self) {
        self.epoch.wait();
        let cpu_before = sys::thread_cpu();
        let mut events = Events::with_capacity(EVENTS);
        let mut next_batch = PERIOD;
        loop {
            let now = self.epoch.elapsed();
            self.burst = 0;
            let more = self.begin_due(now, BURST);
            self.wake_pausing(now);
            self.expire(now);
            if now >= next_batch {
                self.record.hand_over(now);
                next_batch = now + PERIOD;
            }
            if self.stop.is_stopped() {
                self.abort();
                break;
            }
            if self.stop.is_sending_over() {
                self.end_sending(now);
            }
            if self.active == 0 && self.load.is_over() {
                break;
            }
            if self.wait(&mut events, next_batch, more).is_err() {
                // Without a poll nothing can be measured; what was begun is given up and counted.
                self.abort();
                break;
            }
            for event in &events {
                let token = event.token();
                if token == WAKER {
                    continue;
                }
                if token == TIMER {
                    // It will not ring again by itself.
                    self.armed = Duration::ZERO;
                    continue;
                }
                let closed = event.is_read_closed() || event.is_error();
                self.on_event(token, event.is_readable() || closed, closed);
                // One that is due does not wait for the rest of the events.
                let now = self.epoch.elapsed();
                if self.load.next_due().is_some_and(|due| due <= now) {
                    self.begin_due(now, 1);
                }
            }
            let burst = self.burst;
            self.record.totals.burst_max = self.record.totals.burst_max.max(burst);
        }
        self.close_all();
        let cpu = sys::thread_cpu();
        self.record.totals.cpu = sys::CpuTimes {
            user: cpu.user.saturating_sub(cpu_before.user),
            system: cpu.system.saturating_sub(cpu_before.system),
        };
        let now = self.epoch.elapsed();
        self.record.totals.offered_until = self.sending_over.unwrap_or(now);
        self.record.finish(now);
    }

    /// Waits for events until the next thing is due.
    fn wait(&mut self, events: &mut Events, next_batch: Duration, more: bool) -> io::Result<()> {
        let mut next = next_batch;
        for due in [
            self.load.next_due(),
            self.timeouts.due(),
            self.lingering.due(),
            self.pausing.peek().map(|Reverse((due, _))| *due),
        ]
        .into_iter()
        .flatten()
        {
            next = next.min(due);
        }
        let timeout = if more {
            Some(Duration::ZERO)
        } else {
            if next != self.armed {
                self.timer.set(next)?;
                self.armed = next;
            }
            None
        };
        match self.poll.poll(events, timeout) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                events.clear();
                Ok(())
            }
            result => result,
        }
    }

    /// Begins sessions that are due, at most so many; true when more may be due.
    fn begin_due(&mut self, now: Duration, most: u32) -> bool {
        let mut now = now;
        for _ in 0..most {
            let Some(due) = self.load.take(now) else {
                return false;
            };
            if let Some(most) = self.load.max_in_flight()
                && self.record.in_flight_everywhere() >= most
            {
                self.record.unsent(due.calls);
                self.record.totals.planned += due.calls;
                continue;
            }
            self.begin_session(due);
            now = self.epoch.elapsed();
        }
        self.load.next_due().is_some_and(|due| due <= now)
    }

    /// Goes on with sessions whose pause is over.
    fn wake_pausing(&mut self, now: Duration) {
        while let Some(Reverse((due, session))) = self.pausing.peek().copied() {
            if due > now {
                return;
            }
            self.pausing.pop();
            self.next_call(session, due);
        }
    }

    /// Ends calls whose time is up and connections that lingered long enough.
    fn expire(&mut self, now: Duration) {
        while let Some(session) = self.timeouts.pop(now) {
            self.time_out(session);
        }
        while let Some(connection) = self.lingering.pop(now) {
            self.drop_connection(connection);
        }
    }
}
