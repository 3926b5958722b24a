//! A capacity search as an experiment: what is taken and refused, and the runs that it becomes.

use serde_json::{Value, json};

use super::super::design::Spec;
use super::super::driver::{Driver, Next, Step};
use crate::measure::outcome::Outcome;
use crate::measure::plan::{Caps, Plan, Rate};
use crate::measure::run::{Check, Environment, Origin, Progress, Run, Severity, State};
use crate::measure::search::Seen;

fn read(value: &Value) -> Result<Spec, Vec<(String, String)>> {
    Spec::from_json(value.as_object().unwrap(), &Caps::default()).map_err(|errors| {
        errors
            .into_iter()
            .map(|error| (error.field, error.message))
            .collect()
    })
}

fn base() -> Value {
    json!({"kind": "rate", "url": "http://127.0.0.1:8000/"})
}

#[test]
fn what_is_left_open_is_decided_and_shown() {
    let spec = read(&json!({"capacity": {"base": base()}})).unwrap();
    let shown = spec.to_json();
    let capacity = &shown["capacity"];
    assert_eq!(capacity["goal"]["quantile"], "auto");
    assert_eq!(
        (&capacity["width"], &capacity["step_s"]),
        (&json!(0.05), &json!(20.0))
    );
    assert_eq!(capacity["arrival"], "deterministic");
    // What the node allows is part of it, so that a restart under other flags goes on with the same search.
    assert_eq!(capacity["max_rate"], 100_000.0);
    let again = Spec::from_json(shown.as_object().unwrap(), &Caps::NONE).unwrap();
    assert_eq!(again, spec);
    assert_eq!(spec.arms().len(), 1);
    // A tool's line, whose rate and number are replaced.
    let line = "httperf --server 127.0.0.1 --port 8000 --num-conns 5 --rate 2";
    assert!(read(&json!({"capacity": {"base": line}})).is_ok());
    let udp = json!({"kind": "throughput", "host": "127.0.0.1", "protocol": "udp"});
    let spec = read(&json!({"capacity": {"base": udp, "goal": {"loss_share": 0.01}}})).unwrap();
    assert_eq!(spec.to_json()["capacity"]["goal"]["loss_share"], 0.01);
}

#[test]
fn what_cannot_be_searched_is_refused_on_its_field() {
    let tcp = json!({"kind": "throughput", "host": "127.0.0.1"});
    let udp = json!({"kind": "throughput", "host": "127.0.0.1", "protocol": "udp"});
    let ping = json!({"kind": "ping", "host": "127.0.0.1"});
    let mut calls = base();
    calls["num_calls"] = 3.into();
    for (capacity, field, words) in [
        (json!(5), "capacity", "is an object"),
        (json!({}), "capacity.base", "This is missing"),
        (
            json!({"base": base(), "nope": 1}),
            "capacity.nope",
            "has no field nope",
        ),
        (
            json!({"base": base(), "goal": {"p99": 1}}),
            "capacity.goal.p99",
            "has no field",
        ),
        (
            json!({"base": base(), "goal": {"quantile": 0.97}}),
            "capacity.goal.quantile",
            "one of 0.5",
        ),
        (
            json!({"base": base(), "goal": {"loss_share": 0.1}}),
            "capacity.goal.loss_share",
            "not lost but fail",
        ),
        (
            json!({"base": base(), "width": 0}),
            "capacity.width",
            "from 0.01 to 0.5",
        ),
        (
            json!({"base": base(), "step_s": 0.1}),
            "capacity.step_s",
            "from 0.5",
        ),
        (
            json!({"base": base(), "budget_s": 1e9}),
            "capacity.budget_s",
            "from 5",
        ),
        (
            json!({"base": base(), "max_rate": 1e6}),
            "capacity.max_rate",
            "100000",
        ),
        (
            json!({"base": base(), "arrival": "odd"}),
            "capacity.arrival",
            "exponential",
        ),
        (
            json!({"base": calls}),
            "capacity.base.num_calls",
            "one request",
        ),
        (json!({"base": tcp}), "capacity.base.protocol", "udp"),
        (
            json!({"base": udp, "goal": {"quantile": 0.9}}),
            "capacity.goal.quantile",
            "loss alone",
        ),
        (json!({"base": ping}), "capacity.base.kind", "rate plan"),
        (json!({"base": {"kind": "rate"}}), "capacity.base.url", ""),
    ] {
        let errors = read(&json!({ "capacity": capacity })).expect_err(&capacity.to_string());
        assert!(
            errors
                .iter()
                .any(|(name, message)| name == field && message.contains(words)),
            "{capacity}: {errors:?}"
        );
        assert!(
            errors.iter().all(|(_, message)| message.ends_with('.')),
            "{errors:?}"
        );
    }
    let both = json!({"capacity": {"base": base()}, "repeat": 2});
    assert_eq!(read(&both).unwrap_err()[0].0, "repeat");
}

/// A run of this step that went through, lasting so many seconds.
fn run(step: &Step, id: i64, seconds: i64) -> Run {
    let at = |ms: i64| jiff::Timestamp::from_millisecond(1_700_000_000_000 + ms).unwrap();
    Run {
        id,
        kind: step.plan.kind(),
        state: State::Finished,
        origin: Origin::Local,
        command: String::new(),
        plan: step.plan.clone(),
        node: "here".to_owned(),
        from: None,
        experiment: Some(1),
        point: Some(Value::Object(step.point.clone())),
        repeat: Some(step.repeat),
        created_at: at(0),
        started_at: Some(at(0)),
        finished_at: Some(at(1_000 * seconds)),
        progress: Progress::default(),
        queue_place: None,
        summary: None,
        checks: vec![Check {
            name: "not_shared_host".to_owned(),
            ok: Some(false),
            severity: Severity::Warn,
            detail: String::new(),
        }],
        limits: Vec::new(),
        title: None,
        verdict: None,
        objectives: Vec::new(),
        environment: Environment::default(),
        error: None,
        note: String::new(),
        tags: Vec::new(),
        baseline: false,
        actor: String::new(),
    }
}

/// Requests that are answered after 10 ms each, this far apart.
fn answered(count: u32, gap_s: f64) -> Vec<Seen> {
    (0..count)
        .map(|number| {
            let at = f64::from(number) * gap_s;
            Seen {
                planned_s: at,
                started_s: at,
                ended_s: at + 0.01,
                outcome: Outcome::Ok,
            }
        })
        .collect()
}

fn step(next: Next) -> Step {
    match next {
        Next::Run(step) => *step,
        other => panic!("a run was expected, not {other:?}"),
    }
}

/// The driver's next step after this one was answered like this.
fn after(driver: &mut dyn Driver, step: &Step, requests: Vec<Seen>) -> Next {
    assert!(driver.wants_requests());
    driver.requests(requests);
    driver.next(Some(&run(step, i64::from(step.repeat), 1)))
}

#[test]
fn each_action_becomes_its_plan() {
    let spec = read(&json!({"capacity": {"base": base(), "step_s": 2}})).unwrap();
    let mut driver = spec.driver();
    assert_eq!(driver.planned(), None);
    // The baseline: one after another, ended once there are enough.
    let first = step(driver.next(None));
    let Plan::Rate(plan) = &first.plan else {
        panic!("the baseline is a rate plan");
    };
    assert_eq!(
        (&plan.rate, plan.num_conns),
        (&Rate::Constant(0.0), Some(100))
    );
    assert_eq!(first.point["step"], "baseline");
    let watch = first.watch.unwrap();
    assert_eq!(watch.enough.map(|(_, least)| least), Some(4));
    // A level of the closed loop, begun evenly over the unloaded time.
    let level = step(after(driver.as_mut(), &first, answered(20, 0.01)));
    let Plan::Users(plan) = &level.plan else {
        panic!("a level is a users plan");
    };
    assert_eq!((plan.concurrent, plan.reps), (4, None));
    assert!((plan.ramp_s.unwrap() - 0.01).abs() < 1e-9);
    assert_eq!(level.point["concurrent"], 4);
    assert!(level.repeat > first.repeat && level.watch.is_none());
    // The target is this machine, as the first run has shown.
    let found = driver.found().unwrap();
    assert_eq!(found["labels"], json!(["shared_host"]));
    // 100 answers a second with one user and with four: one slot of 10 ms, so there is nothing to climb for.
    let next = after(driver.as_mut(), &level, answered(400, 0.01));
    assert!(matches!(next, Next::Pause(_)), "{next:?}");
    assert!(!driver.wants_requests());
    let baseline = step(driver.next(None));
    let next = after(driver.as_mut(), &baseline, answered(120, 0.01));
    let search = step(next);
    let Plan::Rate(plan) = &search.plan else {
        panic!("a step is a rate plan");
    };
    let Rate::Constant(rate) = plan.rate else {
        panic!("a step has one rate");
    };
    assert!((rate / 95.0 - 1.0).abs() < 0.05, "{rate}");
    assert!(plan.timeout_s <= 10.0 && plan.num_conns > Some(50));
    assert!(search.watch.unwrap().in_flight >= Some(50));
    let baseline = driver.found().unwrap()["baseline_ms"].as_f64().unwrap();
    assert!((baseline - 10.0).abs() < 1e-6, "{baseline}");
    // Cut off by its watch: 60 at once, and the rest was never begun.
    let crowd: Vec<Seen> = answered(60, 0.0001)
        .into_iter()
        .map(|one| Seen {
            ended_s: one.ended_s + 5.0,
            ..one
        })
        .collect();
    let next = after(driver.as_mut(), &search, crowd);
    assert!(matches!(next, Next::Pause(_)));
    let found = driver.found().unwrap();
    assert_eq!(found["steps"][0]["verdict"], "FAIL");
    let reason = found["steps"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("60 requests were in flight"), "{reason}");
    assert_eq!(found["steps"][0]["run"], search.repeat);
}

#[test]
fn a_run_without_figures_ends_the_search_in_words() {
    let spec = read(&json!({"capacity": {"base": base()}})).unwrap();
    for deleted in [true, false] {
        let mut driver = spec.driver();
        let first = step(driver.next(None));
        let mut failed = run(&first, 7, 0);
        failed.state = State::Failed;
        failed.error = Some("The CA file cannot be read.".to_owned());
        let next = driver.next((!deleted).then_some(&failed));
        assert_eq!(next, Next::Done);
        let error = driver.found().unwrap()["error"]
            .as_str()
            .unwrap()
            .to_owned();
        let words = if deleted {
            "deleted"
        } else {
            "Run 7 of the search gave nothing. The CA file"
        };
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn datagrams_are_shared_out_over_the_streams() {
    let udp = json!({"kind": "throughput", "host": "127.0.0.1", "protocol": "udp", "streams": 4});
    let spec = read(&json!({"capacity": {"base": udp, "max_rate": 8e8, "step_s": 1}})).unwrap();
    let first = step(spec.driver().next(None));
    let Plan::Throughput(plan) = &first.plan else {
        panic!("a blast is a throughput plan");
    };
    assert_eq!(plan.bandwidth_bits_per_second, Some(2e8));
    assert_eq!(plan.duration_s, Some(1.0));
}
