//! Runs for the tests of the pages: 20 requests, one of them a timeout, two backends; and streams of three seconds.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use crate::measure::flow::{
    CpuTick, Echo, FlowBatch, FlowEnd, StreamEnd, StreamTick, TcpTick, UdpEnd, Way,
};
use crate::measure::flow_series::FlowSeries;
use crate::measure::fold::{Fold, Measured, Series};
use crate::measure::outcome::Outcome;
use crate::measure::plan::throughput::Protocol;
use crate::measure::plan::{Caps, Plan};
use crate::measure::run::{
    Check, Environment, ObjectiveResult, Origin, Progress, Run, Severity, State,
};
use crate::measure::sample::{Batch, Ended, RequestSample};
use crate::measure::series::HttpSeries;
use crate::measure::summary::http::HttpFold;

/// A finished open-loop run with its series.
pub(super) fn rate() -> (Run, HttpSeries) {
    let plan = Plan::from_json(
        &json!({"kind": "rate", "url": "http://127.0.0.1:8000/", "rate": 10, "num_conns": 20, "timeout_s": 1}),
        &Caps::default(),
    )
    .expect("a valid plan");
    let mut fold = HttpFold::new(&plan);
    let requests: Vec<RequestSample> = (0..20).map(sample).collect();
    let until = Duration::from_secs(3);
    fold.push(&Batch {
        until,
        requests,
        sent: 20,
        ..Batch::default()
    });
    fold.finish_seconds(until);
    let ended = Ended {
        duration: Duration::from_millis(2_900),
        send_window: Duration::from_secs(2),
        planned: Some(20),
        threads: 1,
        ..Ended::default()
    };
    let summary = fold.summary(&ended);
    let series = fold.series(&ended);
    let at = |text: &str| text.parse().expect("a time");
    let run = Run {
        id: 41,
        kind: plan.kind(),
        state: State::Finished,
        origin: Origin::Local,
        command:
            "httperf --server 127.0.0.1 --port 8000 --uri / --rate 10 --num-conns 20 --timeout 1"
                .into(),
        plan,
        node: "eu-a".into(),
        from: None,
        experiment: None,
        point: None,
        repeat: None,
        created_at: at("2026-11-30T17:44:34Z"),
        started_at: Some(at("2026-11-30T17:44:35Z")),
        finished_at: Some(at("2026-11-30T17:44:37.9Z")),
        progress: Progress {
            done: 1.0,
            eta_s: None,
        },
        queue_place: None,
        summary: Some(summary),
        checks: vec![Check {
            name: "on_schedule".into(),
            ok: Some(true),
            severity: Severity::Fail,
            detail: "99 % of sends within 0.3 ms of their time".into(),
        }],
        limits: Vec::new(),
        title: Some("web-a answers 9.5 of 10 requests a second".into()),
        verdict: Some("One request ran into the timeout.".into()),
        objectives: vec![ObjectiveResult {
            rule: "errors<0.1%".into(),
            limit: "0.1 %".into(),
            measured: Some("5 %".into()),
            ok: Some(false),
        }],
        environment: Environment::default(),
        error: None,
        note: String::new(),
        tags: vec!["regional".into()],
        baseline: false,
        actor: "local".into(),
    };
    (run, series)
}

fn sample(seq: u64) -> RequestSample {
    let scheduled = Duration::from_millis(seq * 100);
    let lost = seq == 7;
    RequestSample {
        seq,
        url: 0,
        scheduled,
        started: Some(scheduled + Duration::from_micros(200)),
        connect: Some(Duration::from_micros(300)),
        tls: None,
        wrote: Some(Duration::from_micros(350)),
        first_byte: (!lost).then_some(Duration::from_millis(40)),
        ended: scheduled + Duration::from_millis(if lost { 1_000 } else { 41 + seq }),
        status: (!lost).then_some(200),
        header_bytes: 200,
        content_bytes: 9_000,
        footer_bytes: 0,
        sent_bytes: 60,
        outcome: if lost {
            Outcome::TtfbTimeout
        } else {
            Outcome::Ok
        },
        retried_stale: false,
        served_by: (!lost).then(|| {
            Arc::from(if seq.is_multiple_of(2) {
                "web-a"
            } else {
                "web-b"
            })
        }),
        region: None,
        server_timing: None,
        detail: None,
    }
}

/// A finished throughput run of three seconds with its series; `plan` holds what differs from a plain test of
/// one TCP stream to 10.128.0.10. Stream n moves n × 100 MB a second, and the other end counts the same.
pub(super) fn throughput(plan: &serde_json::Value) -> (Run, FlowSeries) {
    let mut object = json!({"kind": "throughput", "host": "10.128.0.10", "duration_s": 3});
    if let (Some(object), Some(more)) = (object.as_object_mut(), plan.as_object()) {
        object.extend(more.clone());
    }
    let plan = Plan::from_json(&object, &Caps::default()).expect("a valid plan");
    let Plan::Throughput(flow) = &plan else {
        unreachable!("its kind says so");
    };
    let tcp = flow.protocol == Protocol::Tcp;
    let ways: Vec<(Way, u32)> = [(Way::Send, flow.flows().0), (Way::Receive, flow.flows().1)]
        .into_iter()
        .filter(|(_, streams)| *streams > 0)
        .collect();
    let mut fold = Fold::new(&plan);
    for second in 0..3 {
        fold.push(&Measured::Flow(FlowBatch {
            opened: Vec::new(),
            until: Duration::from_secs(second + 1),
            ticks: ways
                .iter()
                .flat_map(|(way, streams)| (1..=*streams).map(|n| tick(*way, n, second, tcp)))
                .collect(),
            echoes: echoes(second),
            cpu: Some(CpuTick {
                busy: 0.38,
                busiest: 0.6,
                ..CpuTick::default()
            }),
        }));
    }
    let end = FlowEnd {
        duration: Duration::from_secs(3),
        streams: ways
            .iter()
            .flat_map(|(way, streams)| (1..=*streams).map(|n| stream_end(*way, n, tcp)))
            .collect(),
        send_buffer: (flow.window_bytes, Some(2_626_560)),
        congestion: tcp.then(|| "cubic".to_owned()),
        cpu: (Duration::from_millis(120), Duration::from_millis(900)),
        peer: Some("iperf 2.1.8".to_owned()),
        ..FlowEnd::default()
    }
    .into();
    fold.finish(&end);
    let summary = fold.summary(&end);
    let Series::Flow(series) = fold.series(&end) else {
        unreachable!("of the plan's kind");
    };
    let (mut run, _) = rate();
    run.id = 52;
    run.kind = plan.kind();
    run.command = "iperf -c 10.128.0.10 -t 3".to_owned();
    run.plan = plan;
    run.summary = summary;
    run.objectives = Vec::new();
    run.title = Some("16 streams carry 1.2 Gbit/s to 10.128.0.10:5001".to_owned());
    run.verdict = Some("What limits it the evidence does not show.".to_owned());
    (run, series)
}

fn tick(way: Way, stream: u32, second: u64, tcp: bool) -> StreamTick {
    let bytes = u64::from(stream) * 100_000_000;
    StreamTick {
        stream,
        way: Some(way),
        from: Duration::from_secs(second),
        to: Duration::from_secs(second + 1),
        bytes,
        tcp: (tcp && way == Way::Send).then(|| TcpTick {
            acked_bytes: bytes,
            retransmits: 2,
            retransmitted_bytes: 17_688,
            rtt: Duration::from_micros(1_800),
            min_rtt: Duration::from_micros(200),
            cwnd_bytes: 400_000,
            mss_bytes: 8_844,
            busy: Duration::from_millis(990),
            peer_window_bytes: Some(3_000_000),
            ..TcpTick::default()
        }),
        cpu: Duration::from_millis(200),
        ..StreamTick::default()
    }
}

/// Twenty before the load, then twenty a second beside it.
fn echoes(second: u64) -> Vec<Echo> {
    let probe = |seq: u32, loaded: bool| Echo {
        seq,
        at: Duration::from_millis(u64::from(seq % 20) * 50 + second * 1_000),
        rtt: Some(Duration::from_micros(if loaded { 1_800 } else { 200 })),
        ttl: None,
        duplicates: 0,
        loaded,
    };
    let first = u32::try_from(second * 20).expect("three seconds");
    let idle = (1..=20).map(|seq| probe(seq, false));
    let loaded = (1..=20).map(|seq| probe(20 + first + seq, true));
    idle.filter(|_| second == 0).chain(loaded).collect()
}

fn stream_end(way: Way, stream: u32, tcp: bool) -> StreamEnd {
    let bytes = u64::from(stream) * 300_000_000;
    let sends = way == Way::Send;
    let address = |port: u32| format!("10.128.0.11:{port}").parse().ok();
    StreamEnd {
        stream,
        way: Some(way),
        local: address(41_000 + stream),
        remote: "10.128.0.10:5001".parse().ok(),
        first: Some(Duration::ZERO),
        last: Some(Duration::from_secs(3)),
        bytes,
        acked_bytes: (tcp && sends).then_some(bytes),
        peer_bytes: Some(bytes),
        retransmits: (tcp && sends).then_some(6),
        rtt: (tcp && sends).then(|| Duration::from_micros(1_800)),
        datagrams_sent: (!tcp && sends).then_some(1_000),
        udp: (!tcp).then_some(UdpEnd {
            datagrams: 1_000,
            lost: 2,
            out_of_order: 1,
            duplicated: Some(0),
            jitter: Some(Duration::from_micros(12)),
            dropped_by_receiver: Some(0),
        }),
        failed: None,
    }
}
