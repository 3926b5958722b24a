//! A run for the tests of the pages: 20 requests, one of them a timeout, two backends.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use crate::measure::outcome::Outcome;
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
