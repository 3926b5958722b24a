//! Experiments without running them: made-up figures in the notebook, as if they had been measured.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use tidemark::measure::experiment::{Experiment, ExperimentState, Point, Spec, finding};
use tidemark::measure::plan::Caps;
use tidemark::measure::run::{Origin, State};
use tidemark::measure::summary::flow::{PingDistribution, PingSummary, ThroughputSummary};
use tidemark::measure::summary::{Distribution, RateSummary, ServedBy, Summary};
use tidemark::store::{ExperimentEnd, Finish, Inserted, Member, NewExperiment, NewRun, Store};

/// One made-up run: its figures, or why it has none.
pub type Made = Result<Summary, &'static str>;

pub fn spec(asked: &Value) -> Spec {
    Spec::from_json(asked.as_object().unwrap(), &Caps::default())
        .unwrap_or_else(|errors| panic!("{asked}: {errors:?}"))
}

/// Times spread around a median.
fn times(median: f64, count: u64) -> Distribution {
    Distribution {
        min: Some(median * 0.8),
        avg: Some(median * 1.05),
        max: Some(median * 2.5),
        median: Some(median),
        stddev: Some(median * 0.2),
        p50: Some(median),
        p90: Some(median * 1.3),
        p95: Some(median * 1.5),
        p99: Some(median * 2.2),
        p99_9: None,
        count,
    }
}

/// An open-loop run: offered, median, failed of 500, and replies by region.
pub fn rate(offered: f64, median: f64, failed: u64, regions: &[(&str, u64)]) -> Summary {
    let ok = 500 - failed;
    let mut made = RateSummary {
        planned: 500,
        connections: 500,
        requests: 500,
        replies: ok,
        send_window_s: 500.0 / offered,
        duration_s: 500.0 / offered.min(5.3),
        offered_per_s: Some(offered),
        achieved_per_s: Some(offered.min(5.3)),
        latency_ms: times(median, ok),
        service_time_ms: times(median, ok),
        lateness_ms: times(0.1, 500),
        ..RateSummary::default()
    };
    made.outcomes = BTreeMap::from([("ok".to_owned(), ok), ("http_5xx".to_owned(), failed)]);
    made.regions = regions
        .iter()
        .map(|(name, replies)| {
            let served = ServedBy {
                replies: *replies,
                latency_p50_ms: Some(median),
                latency_p99_ms: Some(median * 2.0),
            };
            ((*name).to_owned(), served)
        })
        .collect();
    Summary::Rate(Box::new(made))
}

pub fn ping(median: f64) -> Summary {
    Summary::Ping(Box::new(PingSummary {
        transmitted: 2,
        received: 2,
        loss_percent: Some(0.0),
        rtt_ms: PingDistribution {
            figures: times(median, 2),
            mdev: Some(median * 0.1),
        },
        ttl: Some(64),
        method: "icmp".into(),
        duration_s: 0.1,
        ..PingSummary::default()
    }))
}

pub fn throughput(bits_per_second: f64, cap: Option<f64>) -> Summary {
    Summary::Throughput(Box::new(ThroughputSummary {
        bits_per_second: Some(bits_per_second),
        bits_per_second_whole: Some(bits_per_second),
        duration_s: 10.0,
        streams_asked: 1,
        receive: "copy".into(),
        egress_cap_bits_per_second: cap,
        ..ThroughputSummary::default()
    }))
}

/// The runs of a spec in their order, with these figures.
pub fn points(spec: &Spec, made: &[Made]) -> Vec<Point> {
    let mut driver = spec.driver();
    let mut out = Vec::new();
    for made in made {
        let step = loop {
            match driver.next(None) {
                tidemark::measure::experiment::Next::Run(step) => break step,
                tidemark::measure::experiment::Next::Pause(_) => {}
                tidemark::measure::experiment::Next::Done => panic!("more runs than the spec has"),
            }
        };
        out.push(Point {
            point: Value::Object(step.point),
            repeat: step.repeat,
            run: i64::try_from(out.len()).unwrap() + 1,
            state: if made.is_ok() {
                State::Finished
            } else {
                State::Failed
            },
            summary: made.clone().ok(),
            error: made.as_ref().err().map(|why| (*why).to_owned()),
            started_at: Some("2026-11-30T17:44:35Z".parse().unwrap()),
            doubts: Vec::new(),
        });
    }
    out
}

/// An experiment that never was in a notebook, for charts.
pub fn experiment(asked: &Value, made: &[Made]) -> (Experiment, Spec) {
    let spec = spec(asked);
    let mut experiment = Experiment {
        id: 9,
        kind: spec.kind(),
        state: ExperimentState::Finished,
        spec: spec.to_json(),
        target: spec.target(),
        created_at: "2026-11-30T17:44:35Z".parse().unwrap(),
        started_at: Some("2026-11-30T17:44:35Z".parse().unwrap()),
        finished_at: Some("2026-11-30T17:59:35Z".parse().unwrap()),
        progress: tidemark::measure::run::Progress::default(),
        runs_planned: None,
        runs_done: 0,
        estimate: None,
        points: Vec::new(),
        settled_at: None,
        ratio: None,
        proof: None,
        capacity: None,
        title: None,
        verdict: None,
        error: None,
        note: String::new(),
        tags: Vec::new(),
        objective: String::new(),
        actor: "test".into(),
    };
    experiment.take_points(points(&spec, made));
    (experiment, spec)
}

/// Stores an experiment with its runs, ended.
pub async fn stored(store: &Store, asked: &Value, made: &[Made]) -> i64 {
    let spec = spec(asked);
    let at: jiff::Timestamp = "2026-11-30T17:44:35Z".parse().unwrap();
    let new = NewExperiment {
        kind: spec.kind(),
        target: spec.target(),
        spec: spec.to_json(),
        objective: String::new(),
        note: "made up".into(),
        tags: vec!["lab".into()],
        actor: "test".into(),
        form_token: None,
        created_at: at,
    };
    let (Inserted::New(id) | Inserted::Before(id)) = store.insert_experiment(new).await.unwrap();
    store.start_experiment(id, at).await.unwrap();
    let points = points(&spec, made);
    let plan = spec.arms()[0].plan.clone();
    for point in &points {
        let run = NewRun {
            command: "made up".into(),
            plan: plan.clone(),
            origin: Origin::Local,
            actor: "test".into(),
            node: "eu-a".into(),
            note: String::new(),
            tags: Vec::new(),
            objective: String::new(),
            form_token: None,
            member: Some(Member {
                experiment: id,
                point: point.point.as_object().cloned().unwrap_or_else(Map::new),
                repeat: point.repeat,
            }),
            created_at: at,
        };
        let (Inserted::New(run) | Inserted::Before(run)) = store.insert_run(run).await.unwrap();
        let end = Finish {
            summary: point.summary.clone(),
            ..Finish::bare(point.state, at, point.error.clone())
        };
        store.finish_run(run, end).await.unwrap();
    }
    let found = finding(&spec, &points);
    let end = ExperimentEnd {
        state: ExperimentState::Finished,
        finished_at: at,
        title: Some(found.title),
        verdict: Some(found.verdict),
        error: None,
    };
    store.finish_experiment(id, end).await.unwrap();
    id
}

/// The sweep of the source lab: 378, 384, 8482 and 21000 ms at 4, 5, 7 and 10 a second.
pub fn lab_sweep() -> (Value, Vec<Made>) {
    let asked = json!({
        "base": {"kind": "rate", "url": "http://web-lb/", "num_conns": 500},
        "vary": {"rate": [4, 5, 7, 10]},
    });
    let made = [
        (4.0, 378.0, 0),
        (5.0, 384.0, 0),
        (7.0, 8_482.0, 0),
        (10.0, 21_000.0, 60),
    ]
    .map(|(offered, median, failed)| Ok(rate(offered, median, failed, &[])));
    (asked, made.to_vec())
}

/// The five repeats of the source lab at 20 a second, until the spill to the other region has settled.
pub fn lab_series() -> (Value, Vec<Made>) {
    let asked = json!({
        "base": {"kind": "rate", "url": "http://web-lb/", "rate": 20, "num_conns": 500}, "repeat": 5,
    });
    let made = [
        (7_351.0, 480),
        (3_623.0, 400),
        (705.0, 270),
        (667.0, 260),
        (669.0, 255),
    ]
    .map(|(median, here)| Ok(rate(20.0, median, 0, &[("eu", here), ("us", 500 - here)])));
    (asked, made.to_vec())
}
