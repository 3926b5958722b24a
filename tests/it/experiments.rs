//! Experiments from outside: order, gaps, stops, restarts; first with an instrument that does what it is told.

use serde_json::{Value, json};

use crate::support::notebook::{Did, Notebook, Reply, Step};

fn base(port: usize) -> Value {
    json!({"kind": "rate", "url": format!("http://127.0.0.1:{port}/"), "num_conns": 5, "rate": 5})
}

async fn start(notebook: &Notebook, body: Value) -> i64 {
    let reply = notebook.call("POST", "/api/experiments", Some(body)).await;
    assert_eq!(reply.status, 201, "{}", reply.text);
    let id = reply.json()["id"].as_i64().unwrap();
    assert_eq!(reply.header("location"), format!("/api/experiments/{id}"));
    id
}

async fn show(notebook: &Notebook, id: i64) -> Value {
    let reply = notebook
        .call("GET", &format!("/api/experiments/{id}"), None)
        .await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.json()
}

/// Waits until the experiment is as asked for.
async fn until(notebook: &Notebook, id: i64, met: impl Fn(&Value) -> bool) -> Value {
    loop {
        let experiment = show(notebook, id).await;
        if met(&experiment) {
            return experiment;
        }
        tokio::time::sleep(std::time::Duration::from_millis(3)).await;
    }
}

async fn ended(notebook: &Notebook, id: i64) -> Value {
    until(notebook, id, |experiment| {
        !matches!(experiment["state"].as_str(), Some("queued" | "running"))
    })
    .await
}

fn points(experiment: &Value) -> Vec<(Value, i64, String)> {
    experiment["points"]
        .as_array()
        .unwrap()
        .iter()
        .map(|point| {
            (
                point["point"].clone(),
                point["repeat"].as_i64().unwrap(),
                point["state"].as_str().unwrap().to_owned(),
            )
        })
        .collect()
}

fn finish_runs(notebook: &Notebook, runs: usize) {
    for _ in 0..runs {
        notebook.tell(Step::Second);
        notebook.tell(Step::Finish);
    }
}

#[tokio::test]
async fn an_interleaved_sweep_runs_each_value_once_and_then_again() {
    let notebook = Notebook::open();
    let body = json!({
        "base": base(100), "vary": {"rate": [4, 7]}, "repeat": 2, "order": "interleaved", "tags": ["lab"],
        "objective": "p99<500ms",
    });
    let id = start(&notebook, body).await;
    finish_runs(&notebook, 4);
    let experiment = ended(&notebook, id).await;
    assert_eq!(experiment["state"], "finished");
    assert_eq!(experiment["kind"], "sweep");
    assert_eq!(experiment["runs_planned"], 4);
    assert_eq!(experiment["progress"]["done"], 1.0);
    let finished = |rate: u32, repeat| (json!({"rate": rate}), repeat, "finished".to_owned());
    assert_eq!(
        points(&experiment),
        [
            finished(4, 1),
            finished(7, 1),
            finished(4, 2),
            finished(7, 2)
        ]
    );
    let run = experiment["points"][3]["run"].as_i64().unwrap();
    let run = notebook
        .call("GET", &format!("/api/runs/{run}"), None)
        .await
        .json();
    assert_eq!(run["experiment"], id);
    assert_eq!(
        (&run["point"], &run["repeat"]),
        (&json!({"rate": 7}), &json!(2))
    );
    assert_eq!(
        (&run["tags"], &run["plan"]["rate"]),
        (&json!(["lab"]), &json!(7))
    );
    assert_eq!(run["objectives"][0]["rule"], "p99<500ms");
    assert!(experiment["points"][0]["summary"]["latency_ms"]["p50"].is_number());
    let list = notebook
        .call("GET", "/api/experiments?kind=sweep", None)
        .await
        .json();
    assert_eq!(list["experiments"][0]["id"], id);
    assert_eq!(
        list["experiments"][0]["points"].as_array().unwrap().len(),
        4
    );
    assert_eq!(list["next"], Value::Null);
    notebook.close().await;
}

#[tokio::test]
async fn a_failed_point_is_a_gap_with_its_reason_and_the_rest_goes_on() {
    let notebook = Notebook::open();
    let id = start(
        &notebook,
        json!({"base": base(100), "vary": {"rate": [4, 5, 7]}}),
    )
    .await;
    finish_runs(&notebook, 1);
    notebook.tell(Step::Refused);
    notebook.tell(Step::Finish);
    finish_runs(&notebook, 1);
    let experiment = ended(&notebook, id).await;
    assert_eq!(experiment["state"], "finished");
    let states: Vec<String> = points(&experiment).into_iter().map(|p| p.2).collect();
    assert_eq!(states, ["finished", "failed", "finished"]);
    let why = experiment["points"][1]["error"].as_str().unwrap();
    assert!(why.contains("connect_refused"), "{why}");
    assert!(experiment["verdict"].as_str().unwrap().contains("is a gap"));
    // All of them failing is a failed experiment.
    let id = start(&notebook, json!({"base": base(100), "repeat": 2})).await;
    for _ in 0..2 {
        notebook.tell(Step::Fail("The CA file cannot be read."));
    }
    let experiment = ended(&notebook, id).await;
    assert_eq!(experiment["state"], "failed");
    assert!(
        experiment["error"]
            .as_str()
            .unwrap()
            .contains("The CA file")
    );
    notebook.close().await;
}

#[tokio::test]
async fn a_stopped_experiment_keeps_what_is_done_and_the_next_one_begins() {
    let notebook = Notebook::open();
    let id = start(&notebook, json!({"base": base(100), "repeat": 10})).await;
    let next = start(&notebook, json!({"base": base(101), "repeat": 1})).await;
    let third = start(&notebook, json!({"base": base(102), "repeat": 1})).await;
    finish_runs(&notebook, 1);
    notebook.tell(Step::Second);
    until(&notebook, id, |experiment| {
        experiment["runs_done"] == 1 && experiment["points"][1]["summary"]["replies"] == 5
    })
    .await;
    assert_eq!(show(&notebook, next).await["state"], "queued");
    let stop = |id: i64| {
        let path = format!("/api/experiments/{id}/cancel");
        let notebook = &notebook;
        async move { notebook.call("POST", &path, None).await }
    };
    assert_eq!(stop(third).await.status, 202);
    let early = notebook
        .call("DELETE", &format!("/api/experiments/{id}"), None)
        .await;
    early.is_problem(409, "cancel it first");
    assert_eq!(stop(id).await.status, 202);
    let experiment = ended(&notebook, id).await;
    assert_eq!(experiment["state"], "cancelled");
    assert_eq!(
        experiment["error"],
        "Cancelled after 2 of 10 runs; what was measured is kept."
    );
    let states: Vec<String> = points(&experiment).into_iter().map(|p| p.2).collect();
    assert_eq!(states, ["finished", "cancelled"]);
    finish_runs(&notebook, 1);
    assert_eq!(ended(&notebook, next).await["state"], "finished");
    assert_eq!(ended(&notebook, third).await["state"], "cancelled");
    assert_eq!(show(&notebook, third).await["points"], json!([]));
    stop(id).await.is_problem(409, "ended already");
    let run = experiment["points"][0]["run"].as_i64().unwrap();
    let gone = notebook
        .call("DELETE", &format!("/api/experiments/{id}"), None)
        .await;
    assert_eq!(gone.status, 204, "{}", gone.text);
    let run = notebook
        .call("GET", &format!("/api/runs/{run}"), None)
        .await;
    run.is_problem(404, "no run");
    notebook
        .call("GET", &format!("/api/experiments/{id}"), None)
        .await
        .is_problem(404, "no experiment");
    notebook.close().await;
}

#[tokio::test]
async fn a_pause_can_be_stopped() {
    let notebook = Notebook::open();
    let id = start(
        &notebook,
        json!({"base": base(100), "repeat": 2, "pause_s": 3600}),
    )
    .await;
    finish_runs(&notebook, 1);
    until(&notebook, id, |experiment| experiment["runs_done"] == 1).await;
    assert_eq!(show(&notebook, id).await["state"], "running");
    let path = format!("/api/experiments/{id}/cancel");
    assert_eq!(notebook.call("POST", &path, None).await.status, 202);
    let experiment = ended(&notebook, id).await;
    assert_eq!(
        experiment["error"],
        "Cancelled after 1 of 2 runs; what was measured is kept."
    );
    notebook.close().await;
}

#[tokio::test]
async fn after_a_restart_it_goes_on_where_it_stopped() {
    let notebook = Notebook::open();
    let body = json!({"base": base(100), "vary": {"rate": [1, 2, 3, 4]}});
    let id = start(&notebook, body).await;
    finish_runs(&notebook, 2);
    notebook.tell(Step::Second);
    until(&notebook, id, |experiment| {
        experiment["points"][2]["summary"]["replies"] == 5
    })
    .await;
    let folder = notebook.close().await;
    let notebook = Notebook::in_folder(folder);
    finish_runs(&notebook, 2);
    let experiment = ended(&notebook, id).await;
    assert_eq!(experiment["state"], "finished");
    let finished = |rate: u32| (json!({"rate": rate}), 1, "finished".to_owned());
    assert_eq!(
        points(&experiment),
        [finished(1), finished(2), finished(3), finished(4)]
    );
    assert_eq!(notebook.log().len(), 4, "two runs were left to do");
    // The run that the shutdown cut off is still in the history.
    let cut = notebook
        .call("GET", "/api/runs?state=interrupted", None)
        .await
        .json();
    assert_eq!(cut["runs"].as_array().unwrap().len(), 1);
    notebook.close().await;
}

#[tokio::test]
async fn what_cannot_run_is_refused_with_the_field_and_nothing_is_kept() {
    let notebook = Notebook::open();
    for (body, field, words) in [
        (json!({}), "base", "base is missing"),
        (
            json!({"base": base(100), "vary": {"nope": [1]}}),
            "vary.nope",
            "has no field nope",
        ),
        (
            json!({"base": base(100), "note": 5}),
            "note",
            "must be a text",
        ),
        (
            json!({"base": base(100), "objective": "fast"}),
            "objective",
            "",
        ),
        (json!({"base": "httperf --server"}), "base", ""),
        (
            json!({"base": {"kind": "rate", "url": "http://192.0.2.1/", "rate": 1, "num_conns": 1}}),
            "base",
            "192.0.2.1",
        ),
    ] {
        let reply = notebook.call("POST", "/api/experiments", Some(body)).await;
        reply.is_problem(422, words);
        assert_eq!(reply.json()["errors"][0]["field"], field, "{}", reply.text);
    }
    let list = notebook.call("GET", "/api/experiments", None).await.json();
    assert_eq!(list["experiments"], json!([]));
    for query in ["kind=odd", "state=odd", "limit=0", "before=x", "other=1"] {
        let reply: Reply = notebook
            .call("GET", &format!("/api/experiments?{query}"), None)
            .await;
        assert_eq!(reply.status, 422, "{query}");
    }
    assert_eq!(notebook.log(), [] as [Did; 0]);
    notebook.close().await;
}

#[tokio::test]
async fn the_same_form_sent_twice_makes_one_experiment() {
    let notebook = Notebook::open();
    let body = json!({"base": base(100), "repeat": 1, "form_token": "once"});
    let first = start(&notebook, body.clone()).await;
    assert_eq!(start(&notebook, body).await, first);
    finish_runs(&notebook, 1);
    ended(&notebook, first).await;
    notebook.close().await;
}

#[tokio::test]
async fn watchers_get_every_point_and_the_end_whenever_they_come() {
    let notebook = Notebook::open();
    let id = start(&notebook, json!({"base": base(100), "repeat": 3})).await;
    let path = format!("/api/experiments/{id}/events");
    let early = notebook.call("GET", &path, None);
    let script = async {
        finish_runs(&notebook, 3);
        ended(&notebook, id).await
    };
    let (early, experiment) = tokio::join!(early, script);
    assert_eq!(early.status, 200, "{}", early.text);
    assert_eq!(
        early.text.matches("event: point").count(),
        3,
        "{}",
        early.text
    );
    assert_eq!(early.text.matches("event: state").count(), 1);
    assert!(early.text.contains("event: progress"));
    let late = notebook.call("GET", &path, None).await;
    assert_eq!(late.text.matches("event: point").count(), 3);
    assert!(late.text.contains("\"state\":\"finished\""));
    let last = experiment["points"][2]["run"].as_i64().unwrap();
    let resumed = notebook.resume(&path, last - 1).await;
    assert_eq!(resumed.text.matches("event: point").count(), 1);
    assert_eq!(notebook.resume(&path, last + 1).await.status, 204);
    notebook.close().await;
}
