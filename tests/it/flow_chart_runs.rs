//! Throughput runs and pings to draw: intervals made up by rule, folded by the real fold.

use std::time::Duration;

use serde_json::{Value, json};
use tidemark::chart::{FlowChartInput, FlowRun};
use tidemark::measure::flow::{
    Echo, FlowBatch, FlowEnd, StreamTick, TcpTick, UdpEnd, UdpTick, Way,
};
use tidemark::measure::flow_series::FlowSeries;
use tidemark::measure::plan::Caps;
use tidemark::measure::plan::ping::{self, PingPlan};
use tidemark::measure::plan::throughput::{self, ThroughputPlan};
use tidemark::measure::run::State;
use tidemark::measure::summary::flow::{PingSummary, ThroughputSummary};
use tidemark::measure::summary::ping::PingFold;
use tidemark::measure::summary::throughput::ThroughputFold;

use crate::chart_runs::Dice;

/// A run that can lend a chart its input.
pub struct Flowed {
    pub what: What,
    pub series: FlowSeries,
    pub state: State,
}

pub enum What {
    Throughput(ThroughputPlan, Box<ThroughputSummary>),
    Ping(PingPlan, Box<PingSummary>),
}

impl Flowed {
    pub fn input(&self) -> FlowChartInput<'_> {
        FlowChartInput {
            run: match &self.what {
                What::Throughput(plan, summary) => FlowRun::Throughput(plan, summary),
                What::Ping(plan, summary) => FlowRun::Ping(plan, summary),
            },
            series: &self.series,
            state: self.state,
            when: Some("2026-11-30T16:12:04Z".parse().unwrap()),
        }
    }
}

fn s(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds.max(0.0))
}

pub fn plan(more: &Value) -> ThroughputPlan {
    let mut object = serde_json::Map::from_iter([("host".to_owned(), json!("10.128.0.10"))]);
    object.extend(more.as_object().unwrap().clone());
    throughput::from_json(&object, &Caps::default()).unwrap()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "made-up numbers, small and positive"
)]
fn whole(value: f64) -> u64 {
    value.max(0.0) as u64
}

/// What one second of one stream moves, in bit/s.
type Rate<'a> = &'a dyn Fn(Way, u32, u32) -> f64;

/// Folds `seconds` intervals of a plan; the load begins 2 s after the probe.
pub fn throughput(
    plan_of: &Value,
    seconds: std::ops::Range<u32>,
    rate: Rate<'_>,
    finish: impl Fn(&mut FlowEnd),
) -> Flowed {
    let plan = plan(plan_of);
    let udp = plan.protocol == throughput::Protocol::Udp;
    let ways: &[Way] = match plan.direction {
        throughput::Direction::Send => &[Way::Send],
        throughput::Direction::Receive => &[Way::Receive],
        _ => &[Way::Send, Way::Receive],
    };
    let in_turn = plan.direction == throughput::Direction::InTurn;
    let mut dice = Dice::new(11);
    let mut fold = ThroughputFold::new(&plan);
    let echoes = (0..40).map(|seq| idle(seq, &mut dice)).collect();
    fold.push(&FlowBatch {
        echoes,
        ..FlowBatch::default()
    });
    let mut seq = 40;
    for second in seconds.clone() {
        let mut ticks = Vec::new();
        for way in ways {
            let shift = if in_turn && *way == Way::Receive {
                f64::from(seconds.end)
            } else {
                0.0
            };
            let from = shift + f64::from(second);
            for stream in 1..=plan.streams {
                let noise = 0.98 + dice.roll() * 0.04;
                let bits = rate(*way, stream, second);
                if bits < 0.0 {
                    continue; // No data.
                }
                let bytes = whole(bits * noise / 8.0);
                let datagrams = bytes / 1470;
                let lost = if second % 7 == 3 { datagrams / 40 } else { 0 };
                ticks.push(StreamTick {
                    stream,
                    way: Some(*way),
                    from: s(from),
                    to: s(from + 1.0),
                    bytes,
                    tcp: (!udp && *way == Way::Send).then(|| TcpTick {
                        acked_bytes: bytes,
                        retransmits: if second == 3 {
                            40
                        } else {
                            u64::from(second % 3 == 0)
                        },
                        rtt: s(0.0018),
                        cwnd_bytes: 1_590_000,
                        mss_bytes: 8844,
                        busy: s(1.0),
                        ..TcpTick::default()
                    }),
                    udp: (udp && *way == Way::Receive).then(|| UdpTick {
                        received: datagrams - lost,
                        lost: i64::try_from(lost).unwrap(),
                        jitter: Some(s(0.000_04)),
                        ..UdpTick::default()
                    }),
                    datagrams_sent: if udp && *way == Way::Send {
                        datagrams
                    } else {
                        0
                    },
                    cpu: s(0.4),
                });
            }
        }
        let echoes = (0..20)
            .map(|index| {
                let at = f64::from(second) + f64::from(index) * 0.05;
                let rise = (f64::from(second) + f64::from(index) / 20.0).min(1.0);
                let mut one = echo(seq, at, 0.22 + rise * (1.3 + dice.roll() * 0.8), true);
                if seq % 173 == 0 {
                    one.rtt = None;
                }
                seq += 1;
                one
            })
            .collect();
        fold.push(&FlowBatch {
            until: s(1.0 + f64::from(second)),
            ticks,
            echoes,
            ..FlowBatch::default()
        });
    }
    let mut end = fold.so_far();
    finish(&mut end);
    Flowed {
        series: fold.series(&end),
        what: What::Throughput(plan, Box::new(fold.summary(&end))),
        state: State::Finished,
    }
}

/// Forty of them from 2 s before the load on.
fn idle(seq: u32, dice: &mut Dice) -> Echo {
    let before = 2.0 - f64::from(seq) * 0.05;
    echo(seq, before, 0.2 + dice.roll() * 0.04, false)
}

fn echo(seq: u32, at: f64, rtt_ms: f64, loaded: bool) -> Echo {
    Echo {
        seq: seq + 1,
        at: s(at),
        rtt: Some(s(rtt_ms / 1e3)),
        ttl: None,
        duplicates: 0,
        loaded,
    }
}

/// Rates of the `TIER_1` lab's sixteen streams, in Gbit/s.
const SIXTEEN: [f64; 16] = [
    2.51, 5.43, 2.10, 12.6, 9.57, 3.80, 2.66, 3.19, 5.07, 2.19, 6.76, 5.62, 3.58, 2.62, 5.02, 2.19,
];

/// The `TIER_1` lab: sixteen streams under a cap of 75 Gbit/s.
pub fn tier_1() -> Flowed {
    throughput(
        &json!({"streams": 16, "duration_s": 30}),
        0..30,
        &|_, stream, second| {
            let ramp = if second == 0 { 0.96 } else { 1.0 };
            SIXTEEN[stream as usize - 1] * 1e9 * ramp
        },
        |end| end.egress_cap = Some((75e9, "TIER_1 lab".to_owned())),
    )
}

/// One stream, `seconds` long.
pub fn single(seconds: u32) -> Flowed {
    throughput(
        &json!({"duration_s": seconds.max(1)}),
        0..seconds,
        &|_, _, _| 954e6,
        |_| {},
    )
}

/// A stream that stopped, a hole in the data, and a run that ended early.
pub fn stopped(state: State) -> Flowed {
    let mut flowed = throughput(
        &json!({"streams": 2, "duration_s": 30}),
        0..12,
        &|_, stream, second| match (stream, second) {
            (2, 5 | 6) => 0.0,
            (_, 8 | 9) => -1.0,
            _ => 2e9,
        },
        |end| end.stopped = true,
    );
    flowed.state = state;
    flowed
}

/// Both directions, at once or in turn.
pub fn two_ways(direction: &str) -> Flowed {
    throughput(
        &json!({"streams": 2, "direction": direction, "duration_s": 10}),
        0..10,
        &|way, stream, _| match way {
            Way::Send => 3e9 + f64::from(stream) * 2e8,
            Way::Receive => 2e9 - f64::from(stream) * 1e8,
        },
        |_| {},
    )
}

/// UDP, received here or sent from here.
pub fn udp(direction: &str) -> Flowed {
    throughput(
        &json!({"protocol": "udp", "direction": direction, "bandwidth_bits_per_second": 100_000_000}),
        0..10,
        &|_, _, _| 100e6,
        |end| {
            for stream in &mut end.streams {
                if stream.way == Some(Way::Send) {
                    stream.udp = Some(UdpEnd {
                        datagrams: 85_000,
                        lost: 210,
                        ..UdpEnd::default()
                    });
                }
            }
        },
    )
}

/// Streams that could not connect.
pub fn failed(of: u32) -> Flowed {
    throughput(
        &json!({"streams": of, "duration_s": 6}),
        0..if of > 1 { 6 } else { 0 },
        &|_, stream, _| if stream == 1 { 1e9 } else { -1.0 },
        |end| {
            for stream in if of > 1 { 2 } else { 1 }..=of {
                end.streams.push(tidemark::measure::flow::StreamEnd {
                    stream,
                    way: Some(Way::Send),
                    failed: Some("connection refused".to_owned()),
                    ..tidemark::measure::flow::StreamEnd::default()
                });
            }
        },
    )
}

/// Many streams over a long time.
pub fn crowd() -> Flowed {
    throughput(
        &json!({"streams": 64, "duration_s": 400}),
        0..400,
        &|_, stream, _| 1e8 + f64::from(stream * 37 % 64) * 1e6,
        |_| {},
    )
}

/// A ping of so many probes.
pub fn pings(count: u32, lost_every: u32) -> Flowed {
    let object = json!({"host": "10.128.0.10", "count": count.max(1), "interval_s": 0.5});
    let plan = ping::from_json(object.as_object().unwrap(), &Caps::default()).unwrap();
    let mut dice = Dice::new(5);
    let mut fold = PingFold::new(&plan);
    for seq in 0..count {
        let roll = dice.roll();
        let slow = if seq == 0 { 1.6 } else { 0.0 };
        let mut one = echo(
            seq,
            f64::from(seq) * 0.5,
            0.35 + roll * roll * 0.3 + slow,
            false,
        );
        if lost_every > 0 && seq % lost_every == lost_every - 1 {
            one.rtt = None;
        }
        fold.push(&FlowBatch {
            until: one.at,
            echoes: vec![one],
            ..FlowBatch::default()
        });
    }
    let end = fold.so_far();
    Flowed {
        series: fold.series(&end),
        what: What::Ping(plan, Box::new(fold.summary(&end))),
        state: State::Finished,
    }
}
