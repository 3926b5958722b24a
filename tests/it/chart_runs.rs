//! Runs to draw: samples made up by rule, folded by the real fold.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "made-up numbers, small and positive"
)]

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tidemark::chart::ChartInput;
use tidemark::measure::outcome::Outcome;
use tidemark::measure::plan::{Caps, Plan};
use tidemark::measure::run::{ObjectiveResult, State};
use tidemark::measure::sample::{Batch, Ended, RequestSample, ServerTiming};
use tidemark::measure::series::HttpSeries;
use tidemark::measure::summary::http::HttpFold;
use tidemark::measure::summary::{FetchSummary, Summary};

/// A run that can lend a chart its input.
pub struct Drawn {
    pub plan: Plan,
    pub summary: Summary,
    pub series: HttpSeries,
    pub state: State,
    pub objectives: Vec<ObjectiveResult>,
}

impl Drawn {
    pub fn input(&self) -> ChartInput<'_> {
        ChartInput {
            plan: &self.plan,
            summary: &self.summary,
            series: &self.series,
            state: self.state,
            when: Some("2026-11-30T17:44:35Z".parse().unwrap()),
            objectives: &self.objectives,
        }
    }
}

/// One made-up request: planned at, how long, how it ended, who answered.
#[derive(Clone, Debug)]
pub struct Made {
    pub at_s: f64,
    pub latency_ms: f64,
    pub outcome: Outcome,
    pub by: Option<Arc<str>>,
    pub queue_ms: f64,
    pub compute_ms: f64,
}

impl Made {
    pub fn ok(at_s: f64, latency_ms: f64) -> Self {
        Self {
            at_s,
            latency_ms,
            outcome: Outcome::Ok,
            by: None,
            queue_ms: 0.0,
            compute_ms: 0.0,
        }
    }

    pub fn ended(mut self, outcome: Outcome) -> Self {
        self.outcome = outcome;
        self
    }

    fn sample(&self, seq: u64) -> RequestSample {
        let scheduled = Duration::from_secs_f64(self.at_s);
        let started = scheduled + Duration::from_micros(150);
        let latency = Duration::from_secs_f64(self.latency_ms / 1000.0);
        let reply = self.outcome.is_reply();
        RequestSample {
            seq,
            url: 0,
            scheduled,
            started: Some(started),
            connect: reply.then_some(Duration::from_micros(280)),
            tls: None,
            wrote: reply.then_some(Duration::from_micros(300)),
            first_byte: reply.then(|| latency.mul_f64(0.97)),
            ended: scheduled + latency,
            status: reply.then_some(if self.outcome == Outcome::Http5xx {
                503
            } else {
                200
            }),
            header_bytes: 200,
            content_bytes: 3000,
            footer_bytes: 0,
            sent_bytes: 90,
            outcome: self.outcome,
            retried_stale: false,
            served_by: self.by.clone(),
            region: None,
            server_timing: (self.compute_ms > 0.0).then_some(ServerTiming {
                queue_ms: Some(self.queue_ms as f32),
                compute_ms: Some(self.compute_ms as f32),
                encode_ms: None,
            }),
            detail: None,
        }
    }
}

/// Folds requests into a finished run.
pub fn folded(plan: &serde_json::Value, made: &[Made], state: State, lasted_s: f64) -> Drawn {
    let plan = Plan::from_json(plan, &Caps::default()).unwrap();
    let mut fold = HttpFold::new(&plan);
    let mut order: Vec<(u64, &Made)> = (0..).zip(made).collect();
    order.sort_by(|a, b| {
        let end = |made: &Made| made.at_s + made.latency_ms / 1000.0;
        end(a.1).total_cmp(&end(b.1))
    });
    let until = Duration::from_secs_f64(lasted_s);
    fold.push(&Batch {
        until,
        requests: order.iter().map(|(seq, made)| made.sample(*seq)).collect(),
        sent: made.len() as u64,
        ..Batch::default()
    });
    let ended = Ended {
        duration: until,
        send_window: until,
        stopped: state == State::Cancelled,
        ..Ended::default()
    };
    Drawn {
        summary: fold.summary(&ended),
        series: fold.series(&ended),
        plan,
        state,
        objectives: Vec::new(),
    }
}

/// Numbers that look random and are always the same: 0 to 1.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn roll(&mut self) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as f64 / f64::from(1_u32 << 31)
    }

    /// Around 1, with a tail to the right.
    pub fn spread(&mut self, width: f64) -> f64 {
        let normal = (0..6).map(|_| self.roll()).sum::<f64>() - 3.0;
        (normal * width).exp()
    }
}

pub fn rate_plan(rate: f64, connections: u64) -> serde_json::Value {
    json!({"kind": "rate", "urls": [{"url": "http://10.128.0.20/", "weight": 1}], "rate": rate,
        "num_conns": connections.max(1), "timeout_s": 10.0})
}

/// Three backends at 13 req/s; the third serves 3.8 a second and is sent 4.3, until its queue is the timeout long.
pub fn overload() -> Drawn {
    let mut dice = Dice::new(1);
    let mut free_at = 0.0_f64;
    let made: Vec<Made> = (0..2000)
        .map(|index| {
            let at_s = f64::from(index) / 13.0;
            let by = ["web-a1", "web-a2", "web-a3"][index as usize % 3];
            let compute_ms = 380.0 * dice.spread(0.03);
            let mut request = Made {
                by: Some(by.into()),
                compute_ms,
                ..Made::ok(at_s, compute_ms + 20.0)
            };
            if by == "web-a3" {
                let begins = free_at.max(at_s);
                free_at = begins + 0.263;
                request.compute_ms = 520.0;
                request.queue_ms = (begins - at_s) * 1000.0;
                request.latency_ms = request.queue_ms + 540.0;
                if request.latency_ms > 10_000.0 {
                    request = Made::ok(at_s, 10_000.0).ended(Outcome::TtfbTimeout);
                }
            }
            request
        })
        .collect();
    let mut drawn = folded(&rate_plan(13.0, 2000), &made, State::Finished, 163.6);
    drawn.objectives = vec![objective("p95<1s"), objective("errors<0.1%")];
    drawn
}

pub fn objective(rule: &str) -> ObjectiveResult {
    ObjectiveResult {
        rule: rule.to_owned(),
        limit: String::new(),
        measured: None,
        ok: Some(false),
    }
}

/// A quick server that stands still from 20 s to 22 s of 50 s.
pub fn stall(rate: f64) -> Drawn {
    let mut dice = Dice::new(2);
    let number = (rate * 50.0) as u64;
    let made: Vec<Made> = (0..number)
        .map(|index| {
            let at_s = index as f64 / rate;
            let wait = if (20.0..22.0).contains(&at_s) {
                (22.0 - at_s) * 1000.0
            } else {
                0.0
            };
            Made::ok(at_s, 2.1 * dice.spread(0.35) + wait)
        })
        .collect();
    folded(&rate_plan(rate, number), &made, State::Finished, 50.0)
}

/// Every connection refused.
pub fn refused() -> Drawn {
    let made: Vec<Made> = (0..20)
        .map(|index| Made::ok(f64::from(index) / 10.0, 0.2).ended(Outcome::ConnectRefused))
        .collect();
    folded(&rate_plan(10.0, 20), &made, State::Finished, 2.0)
}

/// A steady server and this many requests at 20 a second.
pub fn steady(number: u64) -> Drawn {
    let mut dice = Dice::new(3);
    let made: Vec<Made> = (0..number)
        .map(|index| Made::ok(index as f64 / 20.0, 41.0 * dice.spread(0.2)))
        .collect();
    folded(
        &rate_plan(20.0, number),
        &made,
        State::Finished,
        number as f64 / 20.0 + 0.04,
    )
}

/// 20 req/s of 30 s, stopped after 12.4 s, without an answer from 5 s to 7 s.
pub fn stopped(state: State) -> Drawn {
    let mut dice = Dice::new(4);
    let made: Vec<Made> = (0..1000)
        .map(|index| {
            let at_s = f64::from(index) / 80.0;
            if (5.0..7.0).contains(&at_s) {
                Made::ok(at_s, 3.0).ended(Outcome::ResetBeforeReply)
            } else {
                Made::ok(at_s, 30.0 * dice.spread(0.2))
            }
        })
        .filter(|made| made.at_s < 12.4)
        .collect();
    folded(&rate_plan(80.0, 2400), &made, state, 12.4)
}

/// 25 users for 20 s; one reply in thirty is a 503.
pub fn users() -> Drawn {
    let mut dice = Dice::new(5);
    let mut made = Vec::new();
    for user in 0..25 {
        let mut at_s = f64::from(user) * 0.004;
        while at_s < 20.0 {
            let latency_ms = 180.0 * dice.spread(0.3);
            let outcome = if dice.roll() < 0.033 {
                Outcome::Http5xx
            } else {
                Outcome::Ok
            };
            made.push(Made::ok(at_s, latency_ms).ended(outcome));
            at_s += latency_ms / 1000.0 + 0.001;
        }
    }
    let plan = json!({"kind": "users", "urls": [{"url": "http://10.128.0.20/", "weight": 1}],
        "concurrent": 25, "duration_s": 20.0, "delay_s": 0.0});
    folded(&plan, &made, State::Finished, 20.3)
}

/// One request with TLS in its phases.
pub fn fetch() -> Drawn {
    let plan = json!({"kind": "fetch", "url": "https://example.com/"});
    Drawn {
        plan: Plan::from_json(&plan, &Caps::default()).unwrap(),
        summary: Summary::Fetch(Box::new(FetchSummary {
            lookup_ms: Some(12.4),
            connect_ms: Some(18.1),
            tls_ms: Some(41.0),
            first_byte_ms: Some(312.0),
            total_ms: Some(331.5),
            status: Some(200),
            size_bytes: Some(1256),
            outcome: "ok".to_owned(),
            ..FetchSummary::default()
        })),
        series: HttpSeries::default(),
        state: State::Finished,
        objectives: Vec::new(),
    }
}

/// Twelve backends with long names, of unlike speed, some of which refuse, fail or time out.
pub fn crowd() -> Drawn {
    let mut dice = Dice::new(6);
    let made: Vec<Made> = (0..6000)
        .map(|index| {
            let number = index % 12;
            let name = format!("backend-{number:02}.europe-west4.internal.example.com-very-long-name-indeed-and-more");
            let compute_ms = 20.0 * f64::from(number + 1) * dice.spread(0.3);
            let outcome = match dice.roll() {
                roll if roll < 0.01 => Outcome::Http5xx,
                roll if roll < 0.015 => Outcome::ConnectRefused,
                roll if roll < 0.03 && number > 8 => Outcome::TtfbTimeout,
                _ => Outcome::Ok,
            };
            let latency_ms = match outcome {
                Outcome::TtfbTimeout => 10_000.0,
                Outcome::ConnectRefused => 0.3,
                _ => compute_ms * 1.2 + 3.0,
            };
            Made {
                by: outcome.is_reply().then(|| name.into()),
                compute_ms,
                queue_ms: compute_ms * 0.2,
                ..Made::ok(f64::from(index) * 1.2, latency_ms).ended(outcome)
            }
        })
        .collect();
    let mut drawn = folded(&rate_plan(1.0 / 1.2, 6000), &made, State::Finished, 7203.0);
    drawn.objectives = vec![objective("p95<300ms"), objective("p99<310ms")];
    drawn
}

/// Nothing but timeouts.
pub fn dead() -> Drawn {
    let made: Vec<Made> = (0..50)
        .map(|index| Made::ok(f64::from(index) / 5.0, 10_000.0).ended(Outcome::ConnectTimeout))
        .collect();
    folded(&rate_plan(5.0, 50), &made, State::Finished, 19.8)
}
