//! The search as a driver: each action becomes a run (or a pause), each run its figures.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::super::driver::{Driver, Next, Step};
use super::super::watch::Watch;
use crate::measure::outcome::Outcome;
use crate::measure::plan::{Order, Plan, Rate, RatePlan, Schedule, UsersPlan};
use crate::measure::run::{Run, State};
use crate::measure::search::{
    self, Action, Answer, Arrival, Came, Capacity, ClosedFigures, Cut, LossFigures, Search, Seen,
    SequentialFigures, Settings, StepFigures,
};
use crate::measure::summary::Summary;

/// The timeout of a plan that names none; a search then sets its own.
const DEFAULT_TIMEOUT_S: f64 = 120.0;

/// A search on its way.
pub(super) struct Searching {
    base: Plan,
    search: Search,
    /// What was asked for last, until its answer is here.
    asked: Option<Action>,
    /// Runs asked for so far.
    runs: u32,
    requests: Vec<Seen>,
    capacity: Option<Capacity>,
}

impl Searching {
    pub(super) const fn new(base: Plan, settings: Settings) -> Self {
        Self {
            base,
            search: Search::new(settings),
            asked: None,
            runs: 0,
            requests: Vec::new(),
            capacity: None,
        }
    }

    fn answer(&mut self, action: &Action, last: Option<&Run>) -> Answer {
        let requests = std::mem::take(&mut self.requests);
        let took = match (action, last) {
            (Action::Pause(seconds), _) => *seconds,
            (_, Some(run)) => lasted_s(run),
            (_, None) => 0.0,
        };
        let came = match (action, last) {
            (Action::Pause(_), _) => Came::Rested,
            (_, None) => Came::Failed("A run of the search was deleted.".to_owned()),
            (_, Some(run)) => {
                let here = |check: &crate::measure::run::Check| {
                    check.name == "not_shared_host" && check.ok == Some(false)
                };
                if run.checks.iter().any(here) {
                    self.search.share_host();
                }
                figures(action, run, &requests)
            }
        };
        Answer {
            at_s: self.search.elapsed_s() + took,
            came,
        }
    }
}

impl Driver for Searching {
    fn next(&mut self, last: Option<&Run>) -> Next {
        if let Some(action) = self.asked.take() {
            let answer = self.answer(&action, last);
            self.search.feed(answer);
        }
        let look = self.search.look();
        self.capacity = Some(look.finding.capacity);
        let Some(action) = look.next else {
            return Next::Done;
        };
        self.asked = Some(action);
        if let Action::Pause(seconds) = action {
            return Next::Pause(Duration::try_from_secs_f64(seconds).unwrap_or_default());
        }
        self.runs += 1;
        Next::Run(Box::new(Step {
            plan: plan(&self.base, &action),
            point: point(&action),
            repeat: self.runs,
            watch: watch(&action),
        }))
    }

    fn wants_requests(&self) -> bool {
        !matches!(self.asked, Some(Action::Blast(_) | Action::Pause(_)) | None)
    }

    fn requests(&mut self, requests: Vec<Seen>) {
        self.requests = requests;
    }

    fn found(&self) -> Option<Value> {
        self.capacity.as_ref().map(|capacity| json!(capacity))
    }
}

/// From the first packet to the end, in s.
fn lasted_s(run: &Run) -> f64 {
    match (run.started_at, run.finished_at) {
        (Some(from), Some(to)) => {
            let ms = to.as_millisecond() - from.as_millisecond();
            ms.max(0) as f64 / 1e3
        }
        _ => 0.0,
    }
}

/// What tells the runs of a search apart.
fn point(action: &Action) -> Map<String, Value> {
    let word = || Value::from(action.purpose().word());
    let step = |key: &str, value: Value| {
        Map::from_iter([("step".to_owned(), word()), (key.to_owned(), value)])
    };
    match action {
        // A rate stands first: by it charts find the runs of a step.
        Action::Step(step) => {
            let mut point = Map::from_iter([
                ("rate".to_owned(), Value::from(step.rate)),
                ("step".to_owned(), word()),
            ]);
            if step.arrival == Arrival::Exponential {
                point.insert("arrival".to_owned(), json!(step.arrival));
            }
            point
        }
        Action::Closed(closed) => step("concurrent", closed.users.into()),
        Action::Blast(blast) => step("bits_per_second", blast.bits_per_second.into()),
        Action::Sequential(_) | Action::Pause(_) => Map::from_iter([("step".to_owned(), word())]),
    }
}

/// What ends the sending of an action early.
fn watch(action: &Action) -> Option<Watch> {
    match action {
        Action::Step(step) if step.in_flight.is_some() || step.refused_s.is_some() => Some(Watch {
            in_flight: step.in_flight,
            refused_s: step.refused_s,
            enough: None,
        }),
        Action::Sequential(action) if action.at_least < action.at_most => Some(Watch {
            enough: Some((action.seconds, action.at_least)),
            ..Watch::default()
        }),
        _ => None,
    }
}

/// The plan that carries an action out.
fn plan(base: &Plan, action: &Action) -> Plan {
    match (base, action) {
        (Plan::Rate(base), Action::Sequential(action)) => Plan::Rate(RatePlan {
            rate: Rate::Constant(0.0),
            num_conns: Some(action.at_most),
            duration_s: None,
            schedule: Schedule::Deterministic,
            timeout_s: timeout_s(base, action.timeout_s),
            ..base.clone()
        }),
        (Plan::Rate(base), Action::Step(step)) => Plan::Rate(RatePlan {
            rate: Rate::Constant(step.rate),
            num_conns: Some(step.warm_up + step.requests),
            duration_s: None,
            schedule: match step.arrival {
                Arrival::Deterministic => Schedule::Deterministic,
                Arrival::Exponential => Schedule::Exponential,
            },
            seed: step.seed,
            timeout_s: timeout_s(base, step.timeout_s),
            ..base.clone()
        }),
        (Plan::Rate(base), Action::Closed(closed)) => Plan::Users(UsersPlan {
            urls: base.urls.clone(),
            method: base.method.clone(),
            concurrent: u32::try_from(closed.users).unwrap_or(u32::MAX),
            reps: None,
            duration_s: Some(closed.begin_over_s + closed.seconds),
            delay_s: 0.0,
            ramp_s: Some(closed.begin_over_s),
            order: Order::InTurn,
            timeout_s: timeout_s(base, closed.timeout_s),
            headers: base.headers.clone(),
            body: base.body.clone(),
            keep_alive: base.reuse,
            seed: base.seed,
            tls: base.tls.clone(),
            http: base.http.clone(),
        }),
        (Plan::Throughput(base), Action::Blast(blast)) => {
            let mut plan = base.clone();
            let each = blast.bits_per_second.unwrap_or(FULL_BITS_PER_S) / f64::from(base.streams);
            plan.bandwidth_bits_per_second = Some(each);
            plan.duration_s = Some(blast.seconds);
            plan.bytes = None;
            Plan::Throughput(plan)
        }
        // A search for datagrams sends no requests, and one for requests no datagrams.
        (base, _) => base.clone(),
    }
}

/// More than any machine sends in datagrams, in bit/s.
const FULL_BITS_PER_S: f64 = 1e12;

/// The base's own timeout where it names one.
fn timeout_s(base: &RatePlan, searched: f64) -> f64 {
    if (base.timeout_s - DEFAULT_TIMEOUT_S).abs() < 1e-9 {
        searched
    } else {
        base.timeout_s
    }
}

/// What a run comes to as the answer to an action.
fn figures(action: &Action, run: &Run, requests: &[Seen]) -> Came {
    if let (Action::Blast(_), Some(Summary::Throughput(flow))) = (action, &run.summary) {
        let Some(udp) = &flow.udp else {
            return unfinished(run);
        };
        let sent = udp.datagrams_sent.unwrap_or(0);
        let seconds = flow.duration_s;
        let rate = |bytes: Option<u64>| {
            bytes
                .filter(|_| seconds > 0.0)
                .map(|bytes| bytes as f64 * 8.0 / seconds)
        };
        return Came::Blast(LossFigures {
            sent_bits_per_second: rate(flow.bytes_sent),
            received_bits_per_second: rate(flow.bytes_received).or(flow.bits_per_second),
            sent,
            lost: udp.datagrams_lost,
            dropped_by_receiver: udp.dropped_by_receiver,
            run: Some(run.id),
        });
    }
    if matches!(run.state, State::Cancelled | State::Interrupted) || requests.is_empty() {
        return unfinished(run);
    }
    match action {
        Action::Sequential(_) => Came::Sequential(SequentialFigures {
            run: Some(run.id),
            ..SequentialFigures::of(requests)
        }),
        Action::Closed(closed) => Came::Closed(ClosedFigures {
            run: Some(run.id),
            ..ClosedFigures::of(requests, closed.begin_over_s, closed.seconds)
        }),
        Action::Step(step) => {
            let cut = cut(step, requests);
            let unsent = match &run.summary {
                Some(Summary::Rate(rate)) if cut.is_none() => rate.unsent,
                _ => 0,
            };
            Came::Step(Box::new(StepFigures {
                run: Some(run.id),
                ..StepFigures::of(requests, step.warm_up, 1.0 / step.rate, unsent, cut)
            }))
        }
        Action::Blast(_) | Action::Pause(_) => unfinished(run),
    }
}

/// A run without the figures that the search needs.
fn unfinished(run: &Run) -> Came {
    let why = run.error.as_deref().unwrap_or("It has no figures.");
    Came::Failed(format!("Run {} of the search gave nothing. {why}", run.id))
}

/// Whether the step's watch ended it, told from its requests.
fn cut(step: &search::Step, requests: &[Seen]) -> Option<Cut> {
    let all = step.warm_up + step.requests;
    if requests.len() as u64 >= all {
        return None;
    }
    if let Some(limit) = step.in_flight {
        let most = most_in_flight(requests);
        if most > limit {
            return Some(Cut::InFlight(most));
        }
    }
    let refused = |one: &Seen| one.outcome == Outcome::ConnectRefused;
    (step.refused_s.is_some() && requests.iter().all(refused)).then_some(Cut::Refused)
}

/// The most requests under way at once.
fn most_in_flight(requests: &[Seen]) -> u64 {
    let mut moves: Vec<(f64, i64)> = requests
        .iter()
        .flat_map(|one| [(one.started_s, 1), (one.ended_s, -1)])
        .collect();
    // An end comes before a beginning at the same instant.
    moves.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let (mut now, mut most) = (0, 0);
    for (_, by) in moves {
        now += by;
        most = most.max(now);
    }
    u64::try_from(most).unwrap_or(0)
}
