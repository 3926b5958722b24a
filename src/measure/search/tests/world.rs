//! Servers and a generator in virtual time: what a search's actions come to without a network.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

use rand_pcg::Pcg64;
use rand_pcg::rand_core::{Rng, SeedableRng};

use crate::measure::outcome::Outcome;
use crate::measure::search::{
    Action, Answer, Arrival, Blast, Came, Closed, ClosedFigures, Cut, Finding, LossFigures, Search,
    Seen, Sequential, SequentialFigures, Settings, Step, StepFigures,
};

/// SYN retries after which a connection is given up.
const MOST_RETRIES: i32 = 6;

/// An instant as a key of a heap whose smallest comes first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct At(f64, usize);

impl Eq for At {}

impl PartialOrd for At {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for At {
    fn cmp(&self, other: &Self) -> Ordering {
        other.0.total_cmp(&self.0).then(other.1.cmp(&self.1))
    }
}

/// Random numbers of a seed.
#[derive(Clone, Debug)]
pub(super) struct Dice(Pcg64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(Pcg64::seed_from_u64(seed))
    }

    /// From 0 to below 1.
    fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// With this mean.
    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }

    /// With mean 0 and standard deviation 1.
    fn normal(&mut self) -> f64 {
        (-2.0 * (1.0 - self.unit()).ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos()
    }
}

/// How long the work of a request takes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Work {
    /// On average, in s.
    pub(super) seconds: f64,
    /// Standard deviation over mean; 0 = always the same.
    pub(super) noise: f64,
    /// Exponentially distributed instead.
    pub(super) exponential: bool,
}

impl Work {
    fn draw(&self, dice: &mut Dice) -> f64 {
        if self.exponential {
            dice.exponential(self.seconds)
        } else if self.noise > 0.0 {
            (self.seconds * (1.0 + self.noise * dice.normal())).max(0.2 * self.seconds)
        } else {
            self.seconds
        }
    }
}

/// One request that has ended.
pub(super) type End = (usize, f64, Outcome);

/// What answers.
#[derive(Clone, Debug)]
pub(super) enum Server {
    Slots(Slots),
    Shared(Shared),
}

/// First come, first served, by so many at once.
#[derive(Clone, Debug, Default)]
pub(super) struct Slots {
    pub(super) work: Work,
    /// Share of requests that fail after their work.
    pub(super) errors: f64,
    /// From when on it takes twice as long, in s.
    pub(super) halves_at: Option<f64>,
    /// First requests, which take three times as long.
    pub(super) cold: u32,
    pub(super) free: BinaryHeap<At>,
    pub(super) ends: BinaryHeap<At>,
    pub(super) failed: std::collections::HashSet<usize>,
}

impl Slots {
    pub(super) fn new(slots: u32, work: Work) -> Self {
        Self {
            work,
            free: (0..slots).map(|slot| At(0.0, slot as usize)).collect(),
            ..Self::default()
        }
    }

    fn submit(&mut self, at: f64, id: usize, dice: &mut Dice) {
        let slot = self.free.pop().expect("there is at least one slot");
        let begin = slot.0.max(at);
        let mut work = self.work.draw(dice);
        if self.cold > 0 {
            self.cold -= 1;
            work *= 3.0;
        }
        let mut end = begin + work;
        if let Some(halves_at) = self.halves_at
            && end > halves_at
        {
            end = if begin >= halves_at {
                begin + 2.0 * work
            } else {
                halves_at + 2.0 * (end - halves_at)
            };
        }
        self.free.push(At(end, slot.1));
        self.ends.push(At(end, id));
        if self.errors > 0.0 && dice.unit() < self.errors {
            self.failed.insert(id);
        }
    }
}

/// Cores shared by a limited number of requests; a few more wait; the rest are dropped and try again, or are refused.
#[derive(Clone, Debug, Default)]
pub(super) struct Shared {
    pub(super) work: Work,
    pub(super) cores: f64,
    pub(super) slots: usize,
    pub(super) backlog: usize,
    pub(super) refuses: bool,
    /// Work done for each request since the start, in s.
    pub(super) done: f64,
    pub(super) now: f64,
    pub(super) active: BinaryHeap<At>,
    pub(super) waiting: VecDeque<(usize, f64)>,
    pub(super) retries: BinaryHeap<At>,
    pub(super) tries: std::collections::HashMap<usize, (i32, f64)>,
    pub(super) ended: Vec<End>,
}

impl Shared {
    fn speed(&self) -> f64 {
        (self.cores / self.active.len() as f64).min(1.0)
    }

    fn next(&self) -> f64 {
        let active = self.active.peek().map_or(f64::INFINITY, |first| {
            self.now + (first.0 - self.done) / self.speed()
        });
        let retry = self.retries.peek().map_or(f64::INFINITY, |first| first.0);
        active.min(retry)
    }

    fn advance(&mut self, to: f64) {
        loop {
            let next = self.next();
            if next > to || next.is_infinite() {
                break;
            }
            if self.retries.peek().is_some_and(|first| first.0 <= next) {
                if !self.active.is_empty() {
                    self.done += (next - self.now) * self.speed();
                }
                self.now = next;
                let At(_, id) = self.retries.pop().expect("it was looked at");
                let (tries, work) = self.tries[&id];
                self.arrive(id, tries, work);
            } else {
                let At(done, id) = self.active.pop().expect("it was looked at");
                self.done = self.done.max(done);
                self.now = next;
                self.ended.push((id, next, Outcome::Ok));
                if let Some((id, work)) = self.waiting.pop_front() {
                    self.active.push(At(self.done + work, id));
                }
            }
        }
        if to.is_finite() {
            if !self.active.is_empty() {
                self.done += (to - self.now) * self.speed();
            }
            self.now = to;
        }
    }

    fn arrive(&mut self, id: usize, tries: i32, work: f64) {
        if self.active.len() < self.slots {
            self.active.push(At(self.done + work, id));
        } else if self.waiting.len() < self.backlog {
            self.waiting.push_back((id, work));
        } else if self.refuses {
            self.ended.push((id, self.now, Outcome::ConnectRefused));
        } else if tries >= MOST_RETRIES {
            self.ended
                .push((id, self.now, Outcome::ConnectTimeoutKernel));
        } else {
            self.tries.insert(id, (tries + 1, work));
            self.retries.push(At(self.now + 2.0_f64.powi(tries), id));
        }
    }
}

impl Server {
    fn submit(&mut self, at: f64, id: usize, dice: &mut Dice) {
        match self {
            Self::Slots(slots) => slots.submit(at, id, dice),
            Self::Shared(shared) => {
                shared.advance(at);
                let work = shared.work.draw(dice);
                shared.arrive(id, 0, work);
            }
        }
    }

    /// When the next request ends or moves.
    fn next(&self) -> f64 {
        match self {
            Self::Slots(slots) => slots.ends.peek().map_or(f64::INFINITY, |first| first.0),
            Self::Shared(shared) if !shared.ended.is_empty() => 0.0,
            Self::Shared(shared) => shared.next(),
        }
    }

    /// Everything that ends up to this instant.
    fn until(&mut self, to: f64, ended: &mut Vec<End>) {
        match self {
            Self::Slots(slots) => {
                while let Some(At(at, id)) = slots.ends.peek().copied().filter(|one| one.0 <= to) {
                    slots.ends.pop();
                    let failed = slots.errors > 0.0 && slots.failed.remove(&id);
                    let outcome = if failed {
                        Outcome::Http5xx
                    } else {
                        Outcome::Ok
                    };
                    ended.push((id, at, outcome));
                }
            }
            Self::Shared(shared) => {
                shared.advance(to);
                ended.append(&mut shared.ended);
            }
        }
    }
}

/// A target and a generator, with one clock for both.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) server: Server,
    pub(super) dice: Dice,
    pub(super) now: f64,
    /// The most requests, or bits, that the generator can send per second.
    pub(super) sends_per_s: f64,
    /// Local ports before none is left; they come back never.
    pub(super) ports: Option<u64>,
    /// Bits per second of a link.
    pub(super) link_bits_per_s: f64,
    /// One in about so many datagrams is lost anyway.
    pub(super) stray: Option<f64>,
    next_id: usize,
}

impl World {
    pub(super) fn new(server: Server, seed: u64) -> Self {
        Self {
            server,
            dice: Dice::new(seed),
            now: 0.0,
            sends_per_s: f64::INFINITY,
            ports: None,
            link_bits_per_s: f64::INFINITY,
            stray: None,
            next_id: 0,
        }
    }

    /// Goes through a whole search; returns what it found and how often it acted.
    pub(super) fn search(&mut self, settings: Settings) -> (Search, Finding) {
        let mut search = Search::new(settings);
        for _ in 0..2_000 {
            let look = search.look();
            let Some(action) = look.next else {
                return (search, look.finding);
            };
            let came = self.act(&action);
            search.feed(Answer {
                at_s: self.now,
                came,
            });
        }
        panic!("the search does not end");
    }

    /// Carries an action out.
    pub(super) fn act(&mut self, action: &Action) -> Came {
        match action {
            Action::Pause(seconds) => {
                self.now += seconds;
                Came::Rested
            }
            Action::Sequential(action) => Came::Sequential(self.sequential(action)),
            Action::Closed(action) => Came::Closed(self.closed(action)),
            Action::Step(action) => Came::Step(Box::new(self.step(action))),
            Action::Blast(action) => Came::Blast(self.blast(action)),
        }
    }

    /// Datagrams over a link that drops what does not fit, and one in `stray` of the rest.
    fn blast(&mut self, action: &Blast) -> LossFigures {
        const BITS: f64 = 12_000.0;
        self.now += action.seconds;
        let asked = action.bits_per_second.unwrap_or(f64::INFINITY);
        let sent = asked.min(self.sends_per_s) * action.seconds / BITS;
        let fits = sent.min(self.link_bits_per_s * action.seconds / BITS);
        let arrived = match self.stray {
            Some(stray) => fits * (1.0 - self.dice.exponential(1.0 / stray)),
            None => fits,
        };
        let (sent, arrived) = (sent.round(), arrived.round());
        LossFigures {
            sent_bits_per_second: Some(sent * BITS / action.seconds),
            received_bits_per_second: Some(arrived * BITS / action.seconds),
            sent: whole(sent),
            lost: Some(whole(sent - arrived)),
            dropped_by_receiver: None,
            run: None,
        }
    }

    /// A port for a request; `None` when the last one is taken.
    fn port(&mut self) -> Option<()> {
        match &mut self.ports {
            Some(0) => None,
            Some(ports) => {
                *ports -= 1;
                Some(())
            }
            None => Some(()),
        }
    }

    /// How late a request is sent: tens of microseconds, now and then milliseconds.
    fn lateness(&mut self) -> f64 {
        let late = self.dice.exponential(60e-6);
        let rare = self.dice.unit();
        late + if rare < 0.001 {
            4e-3 * self.dice.unit()
        } else if rare < 0.006 {
            1e-3 * self.dice.unit()
        } else {
            0.0
        }
    }

    fn id(&mut self) -> usize {
        self.next_id += 1;
        self.next_id
    }

    fn sequential(&mut self, action: &Sequential) -> SequentialFigures {
        let began = self.now;
        let mut seen = Vec::new();
        let mut ended = Vec::new();
        while (seen.len() as u64) < action.at_least
            || self.now - began < action.seconds && (seen.len() as u64) < action.at_most
        {
            let from = self.now;
            let (end, outcome) = if self.port().is_none() {
                (from, Outcome::PortExhausted)
            } else {
                let id = self.id();
                self.server.submit(from, id, &mut self.dice);
                loop {
                    let next = self.server.next().max(from);
                    self.server.until(next, &mut ended);
                    let own = ended.drain(..).find(|(ended, ..)| *ended == id);
                    if let Some((_, end, outcome)) = own {
                        break capped(from, end, outcome, action.timeout_s);
                    }
                }
            };
            self.now = end;
            seen.push(Seen {
                planned_s: from,
                started_s: from,
                ended_s: end,
                outcome,
            });
        }
        SequentialFigures::of(&seen)
    }

    fn closed(&mut self, action: &Closed) -> ClosedFigures {
        let began = self.now;
        let until = began + action.begin_over_s + action.seconds;
        let mut ready: BinaryHeap<At> = (0..action.users)
            .map(|user| {
                At(
                    began + action.begin_over_s * user as f64 / action.users as f64,
                    0,
                )
            })
            .collect();
        let mut started = std::collections::HashMap::new();
        let mut seen = Vec::new();
        let mut ended = Vec::new();
        let mut sent_last = f64::NEG_INFINITY;
        loop {
            let next_ready = ready.peek().map_or(f64::INFINITY, |first| first.0);
            let next_end = self.server.next();
            if next_ready.is_infinite() && (started.is_empty() || next_end.is_infinite()) {
                break;
            }
            if next_end <= next_ready {
                self.server.until(next_end.max(self.now), &mut ended);
                for (id, at, outcome) in ended.drain(..) {
                    let Some(from) = started.remove(&id) else {
                        continue;
                    };
                    self.now = self.now.max(at);
                    seen.push(Seen {
                        planned_s: from,
                        started_s: from,
                        ended_s: at - began,
                        outcome,
                    });
                    // A refused user asks again after a millisecond.
                    let again = if outcome == Outcome::Ok {
                        at
                    } else {
                        at + 0.001
                    };
                    if again < until {
                        ready.push(At(again, 0));
                    }
                }
                continue;
            }
            ready.pop();
            let at = next_ready.max(sent_last + 1.0 / self.sends_per_s);
            if at >= until {
                continue;
            }
            sent_last = at;
            if self.port().is_none() {
                seen.push(Seen {
                    planned_s: at,
                    started_s: at,
                    ended_s: at - began,
                    outcome: Outcome::PortExhausted,
                });
                continue;
            }
            let id = self.id();
            started.insert(id, at);
            self.server.submit(at, id, &mut self.dice);
        }
        self.now = self.now.max(until);
        ClosedFigures::of(&seen, action.begin_over_s, action.seconds)
    }

    fn step(&mut self, action: &Step) -> StepFigures {
        let began = self.now;
        let total = action.warm_up + action.requests;
        let gap = 1.0 / action.rate;
        let mut seen: Vec<Seen> = Vec::new();
        let mut ended = Vec::new();
        let first_id = self.next_id + 1;
        let mut planned = began;
        let mut generator_free = began;
        let mut open = 0_u64;
        let mut cut = None;
        let take = |ended: &mut Vec<End>, seen: &mut Vec<Seen>, open: &mut u64| {
            for (id, at, outcome) in ended.drain(..) {
                if let Some(one) = id
                    .checked_sub(first_id)
                    .and_then(|place| seen.get_mut(place))
                {
                    (one.ended_s, one.outcome) =
                        capped(one.started_s, at, outcome, action.timeout_s);
                    *open -= 1;
                }
            }
        };
        for index in 0..total {
            if index > 0 {
                planned += match action.arrival {
                    Arrival::Deterministic => gap,
                    Arrival::Exponential => self.dice.exponential(gap),
                };
            }
            let at = (planned + self.lateness()).max(generator_free);
            generator_free = at + 1.0 / self.sends_per_s;
            self.server.until(at, &mut ended);
            take(&mut ended, &mut seen, &mut open);
            if action.in_flight.is_some_and(|limit| open > limit) {
                cut = Some(Cut::InFlight(open));
                break;
            }
            if action
                .refused_s
                .is_some_and(|seconds| at - began > seconds && at - began - gap <= seconds)
                && !seen.is_empty()
                && seen
                    .iter()
                    .all(|one| one.outcome == Outcome::ConnectRefused)
            {
                cut = Some(Cut::Refused);
                break;
            }
            let id = self.id();
            let has_port = self.port().is_some();
            seen.push(Seen {
                planned_s: planned,
                started_s: at,
                ended_s: at,
                outcome: if has_port {
                    Outcome::Other
                } else {
                    Outcome::PortExhausted
                },
            });
            debug_assert_eq!(id - first_id + 1, seen.len());
            if has_port {
                open += 1;
                self.server.submit(at, id, &mut self.dice);
            }
        }
        while open > 0 {
            let next = self.server.next().max(0.0);
            assert!(next.is_finite(), "a request never ends");
            self.server.until(next.max(generator_free), &mut ended);
            take(&mut ended, &mut seen, &mut open);
        }
        let last = seen
            .iter()
            .map(|one| one.ended_s.max(one.started_s))
            .fold(began, f64::max);
        self.now = self.now.max(last);
        StepFigures::of(&seen, action.warm_up, gap, 0, cut)
    }
}

/// A count as it is sent.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts of datagrams, not negative"
)]
fn whole(number: f64) -> u64 {
    number as u64
}

/// A request that its own timeout ends.
fn capped(from: f64, end: f64, outcome: Outcome, timeout_s: f64) -> (f64, Outcome) {
    if end > from + timeout_s {
        (from + timeout_s, Outcome::TtfbTimeout)
    } else {
        (end, outcome)
    }
}
