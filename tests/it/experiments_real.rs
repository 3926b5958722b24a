//! Experiments against real servers: the shape of an overload, a gap, a pair, a crash in the middle.

use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::crash::call;
use crate::support::process::{Program, TempFolder};

fn ask(address: SocketAddr, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let text = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    let (status, answer) = call(address, method, path, &text);
    (status, serde_json::from_str(&answer).unwrap_or(Value::Null))
}

fn start(address: SocketAddr, body: &Value) -> i64 {
    let (status, answer) = ask(address, "POST", "/api/experiments", body);
    assert_eq!(status, 201, "{answer}");
    answer["id"].as_i64().unwrap()
}

/// Waits until what is shown at this path is as asked for.
fn until(address: SocketAddr, path: &str, met: impl Fn(&Value) -> bool) -> Value {
    let most = Instant::now() + Duration::from_mins(2);
    loop {
        let (status, shown) = ask(address, "GET", path, &Value::Null);
        assert_eq!(status, 200, "{path}: {shown}");
        if met(&shown) {
            return shown;
        }
        assert!(Instant::now() < most, "{path} does not go on: {shown}");
        std::thread::sleep(Duration::from_millis(25));
    }
}

fn has_ended(shown: &Value) -> bool {
    !matches!(shown["state"].as_str(), Some("queued" | "running"))
}

fn ended(address: SocketAddr, id: i64) -> Value {
    until(address, &format!("/api/experiments/{id}"), has_ended)
}

fn medians(experiment: &Value) -> Vec<f64> {
    experiment["points"]
        .as_array()
        .unwrap()
        .iter()
        .map(|point| point["summary"]["latency_ms"]["median"].as_f64().unwrap())
        .collect()
}

/// As the lab's: flat at a third and at a half of what the server can do, an order of magnitude up at twice that.
#[test]
fn a_sweep_over_the_tutorials_server_is_flat_flat_and_far_up() {
    let program = Program::start(&["--workload-preset", "tutorial"]);
    let address = program.dashboard();
    let url = format!(
        "http://{}/?width=300&height=240&max_iter=400",
        program.workload()
    );
    let (status, run) = ask(
        address,
        "POST",
        "/api/runs",
        &json!({"plan": {"kind": "users", "url": url, "concurrent": 2, "duration_s": 1.5}}),
    );
    assert_eq!(status, 201, "{run}");
    let ceiling = until(address, &format!("/api/runs/{}", run["id"]), has_ended);
    let ceiling = ceiling["summary"]["transaction_rate_per_s"]
        .as_f64()
        .unwrap();
    let rates: Vec<f64> = [0.3, 0.45, 2.2]
        .iter()
        .map(|share| (share * ceiling * 10.0).round() / 10.0)
        .collect();
    let id = start(
        address,
        &json!({
            "base": {"kind": "rate", "url": url, "duration_s": 2, "timeout_s": 20},
            "vary": {"rate": rates},
        }),
    );
    let experiment = ended(address, id);
    assert_eq!(experiment["state"], "finished", "{experiment}");
    let found = medians(&experiment);
    let flat = found[0].max(found[1]);
    assert!(found[2] > flat * 4.0, "{found:?} at {rates:?}");
    let (_, page) = call(address, "GET", &format!("/experiments/{id}"), "");
    assert!(
        page.contains("latency-vs-rate") && page.contains("Does not hold"),
        "{page}"
    );
}

#[test]
fn a_target_that_is_down_in_the_middle_is_a_gap_and_the_rest_goes_on() {
    let program = Program::start(&[]);
    let address = program.dashboard();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap();
    let nowhere = format!("http://{}/", closed.local_addr().unwrap());
    drop(closed);
    let up = |path: &str| format!("http://{}{path}", program.workload());
    let id = start(
        address,
        &json!({
            "base": {"kind": "rate", "rate": 50, "num_conns": 10},
            "vary": {"url": [up("/?work=light"), nowhere, up("/health-check")]},
        }),
    );
    let experiment = ended(address, id);
    assert_eq!(experiment["state"], "finished");
    let states: Vec<&str> = experiment["points"]
        .as_array()
        .unwrap()
        .iter()
        .map(|point| point["state"].as_str().unwrap())
        .collect();
    assert_eq!(states, ["finished", "failed", "finished"]);
    assert!(
        experiment["points"][1]["error"]
            .as_str()
            .unwrap()
            .contains("connect_refused")
    );
}

#[test]
fn of_two_plans_in_turn_the_slower_one_is_told() {
    let program = Program::start(&[]);
    let address = program.dashboard();
    let plan = |work: &str| {
        let url = format!("http://{}/?{work}", program.workload());
        json!({"kind": "rate", "url": url, "rate": 10, "num_conns": 5})
    };
    let id = start(
        address,
        &json!({
            "paired": {"a": plan("work=light"), "b": plan("width=300&height=240&max_iter=1000")},
            "repeat": 4,
        }),
    );
    let experiment = ended(address, id);
    let arms: Vec<&str> = experiment["points"]
        .as_array()
        .unwrap()
        .iter()
        .map(|point| point["point"]["arm"].as_str().unwrap())
        .collect();
    assert_eq!(arms, ["a", "b", "a", "b", "a", "b", "a", "b"]);
    assert_eq!(experiment["ratio"]["pairs"], 4);
    assert!(
        experiment["ratio"]["b_to_a"].as_f64().unwrap() > 1.0,
        "{}",
        experiment["ratio"]
    );
    let ratio = &experiment["ratio"];
    assert!(ratio["low"].as_f64() <= ratio["b_to_a"].as_f64());
    assert!(ratio["b_to_a"].as_f64() <= ratio["high"].as_f64());
}

#[test]
fn a_killed_program_goes_on_with_its_experiment_and_makes_no_run_twice() {
    let folder = TempFolder::new();
    let program = Program::start_in(folder.path(), &[]);
    let closed = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = closed.local_addr().unwrap();
    let id = start(
        program.dashboard(),
        &json!({
            // Nobody accepts, so that each run lasts as long as its timeout, on any machine.
            "base": {"kind": "rate", "url": format!("http://{silent}/"), "rate": 10, "num_conns": 3, "timeout_s": 0.5},
            "repeat": 6,
        }),
    );
    until(
        program.dashboard(),
        &format!("/api/experiments/{id}"),
        |shown| shown["runs_done"].as_u64() >= Some(2),
    );
    program.crash();

    let program = Program::start_in(folder.path(), &[]);
    let experiment = ended(program.dashboard(), id);
    let repeats: Vec<i64> = experiment["points"]
        .as_array()
        .unwrap()
        .iter()
        .map(|point| point["repeat"].as_i64().unwrap())
        .collect();
    assert_eq!(repeats, [1, 2, 3, 4, 5, 6]);
    let (_, all) = ask(
        program.dashboard(),
        "GET",
        "/api/runs?limit=50",
        &Value::Null,
    );
    let runs = all["runs"].as_array().unwrap();
    let cut_off = runs
        .iter()
        .filter(|run| run["state"] == "interrupted")
        .count();
    assert!(cut_off <= 1, "only the run that was under way");
    assert_eq!(runs.len(), 6 + cut_off);
    drop(closed);
}
