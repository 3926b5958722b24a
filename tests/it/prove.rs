//! Causes put to the proof with real runs: a right one is confirmed, a wrong suspicion refuted.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::lab::{B, Lab};
use crate::support::process::Program;
use crate::support::raw;

/// How long an experiment may take on a busy machine.
const ENOUGH: Duration = Duration::from_mins(4);

/// Asks until the experiment has ended.
fn ended(ask: impl Fn(&str) -> Value, id: &Value) -> Value {
    let end = Instant::now() + ENOUGH;
    loop {
        let experiment = ask(&format!("/api/experiments/{id}"));
        if !matches!(experiment["state"].as_str(), Some("queued" | "running")) {
            return experiment;
        }
        assert!(Instant::now() < end, "never ended: {experiment:#}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn a_run_that_a_shaper_holds_is_not_limited_by_its_senders_cpu() {
    let Some(lab) = Lab::cabled(1500) else { return };
    lab.near
        .run("tc qdisc add dev eth0 root tbf rate 200mbit burst 64kb latency 20ms");
    let _receiver = lab.receiver();
    let sender = lab.sender(&[]);
    let run = lab.measure(
        &sender,
        &json!({"kind": "throughput", "host": B, "duration_s": 2}),
    );
    assert_eq!(run["state"], "finished", "{run:#}");
    for (cause, answer) in [("sender_cpu", "refuted"), ("shaper", "confirmed")] {
        let asked = json!({"prove": {"run": run["id"], "cause": cause}, "repeat": 3, "pause_s": 0});
        let experiment = lab.ask(&sender, "POST", "/api/experiments", Some(&asked));
        assert_eq!(experiment["kind"], "prove", "{experiment:#}");
        assert_eq!(experiment["runs_planned"], 6);
        let experiment = ended(
            |path| lab.ask(&sender, "GET", path, None),
            &experiment["id"],
        );
        let proof = &experiment["proof"];
        assert_eq!(proof["answer"], answer, "{experiment:#}");
        assert_eq!(proof["cause"], cause);
        assert_eq!(proof["change"], "streams 1 → 2");
        let [low, high] = ["low", "high"].map(|end| proof["ratio"][end].as_f64().unwrap());
        assert!(low > 0.9 && high < 1.1, "{proof}");
        let title = experiment["title"].as_str().unwrap();
        assert!(title.to_lowercase().starts_with(answer), "{title}");
    }
}

#[test]
fn a_bandwidth_that_was_asked_for_is_proved_and_what_cannot_be_is_refused_with_its_reason() {
    let program = Program::start(&["--receiver", "127.0.0.1:0"]);
    let address = program.dashboard();
    let port = program.addresses("receiver")[0].port();
    let plan = json!({
        "kind": "throughput", "host": "127.0.0.1", "port": port, "duration_s": 1,
        "bandwidth_bits_per_second": 20e6
    });
    let run = crate::received::measured(&program, &plan);
    assert_eq!(run["limits"][0]["cause"], "bandwidth_asked", "{run:#}");
    let start = |asked: &Value| raw::json(address, "POST", "/api/experiments", Some(asked));

    for (prove, field, words) in [
        (
            json!({"run": 99, "cause": "shaper"}),
            "prove.run",
            "no run 99",
        ),
        (
            json!({"run": run["id"], "cause": "cgroup"}),
            "prove.cause",
            "counted by the kernel",
        ),
        (
            json!({"run": run["id"], "cause": "target_queue"}),
            "prove.cause",
            "cannot limit",
        ),
        (
            json!({"run": run["id"], "cause": "bad luck"}),
            "prove.cause",
            "bad luck",
        ),
        (json!({"run": run["id"]}), "prove.cause", "missing"),
        (json!({"cause": "shaper"}), "prove.run", "missing"),
        (
            json!({"run": 1, "cause": "shaper", "a": {}}),
            "prove",
            "no field a",
        ),
        (json!(7), "prove", "object"),
    ] {
        let refused = start(&json!({ "prove": prove }));
        let error = &refused["errors"][0];
        assert_eq!(error["field"], field, "{refused}");
        assert!(
            error["message"].as_str().unwrap().contains(words),
            "{refused}"
        );
    }
    let both =
        start(&json!({"prove": {"run": run["id"], "cause": "shaper"}, "base": "ping 127.0.0.1"}));
    assert_eq!(both["errors"][0]["field"], "base", "{both}");

    let asked =
        json!({"prove": {"run": run["id"], "cause": "bandwidth_asked"}, "repeat": 3, "pause_s": 0});
    let experiment = start(&asked);
    let experiment = ended(
        |path| raw::json(address, "GET", path, None),
        &experiment["id"],
    );
    assert_eq!(experiment["proof"]["answer"], "confirmed", "{experiment:#}");
    assert_eq!(experiment["points"].as_array().unwrap().len(), 6);

    // On the page: one click from the cause, and the answer with its pairs.
    let get = |path: &str| {
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        raw::exchange(address, request)
    };
    let report = get(&format!("/runs/{}", run["id"]));
    assert!(
        report.contains("name=\"cause\" value=\"bandwidth_asked\""),
        "{report}"
    );
    assert!(
        report.contains("<option value=\"send_buffer\">"),
        "{report}"
    );
    let page = get(&format!("/experiments/{}", experiment["id"]));
    for words in ["Confirmed", "bandwidth asked", "3 pairs"] {
        assert!(
            page.replace('\u{a0}', " ").contains(words),
            "{words}: {page}"
        );
    }
    // Asked for again it is two plans in turn, both filled in.
    let again = get(&format!("/experiments/new?again={}", experiment["id"]));
    for words in ["20000000", "40000000"] {
        assert!(again.contains(words), "{words}: {again}");
    }
    let form = format!(
        "POST /runs/{}/prove HTTP/1.1\r\nHost: {address}\r\nOrigin: http://{address}\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 21\r\nConnection: close\r\n\r\ncause=bandwidth_asked",
        run["id"]
    );
    let clicked = raw::exchange(address, form);
    assert!(
        clicked.to_lowercase().contains("location: /experiments/2"),
        "{clicked}"
    );
}
