//! The JSON API, called as a script calls it.

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};
use tidemark::measure::plan::{Caps, Plan};
use tidemark::measure::reach::{Reach, Reached};
use tidemark::measure::summary::flow::{
    PathSummary, StreamDatagrams, StreamFigures, ThroughputSummary, UdpFigures,
};
use tidemark::supervisor::PeerCheck;
use tower::ServiceExt;

use crate::support::notebook::{Notebook, Reply, Step};

fn plan() -> Value {
    json!({"kind": "rate", "url": "http://127.0.0.1:8000/", "rate": 5, "duration_s": 30})
}

async fn finished(notebook: &Notebook, body: Value) -> i64 {
    notebook.tell(Step::Second);
    notebook.tell(Step::Finish);
    let reply = notebook.call("POST", "/api/runs", Some(body)).await;
    assert_eq!(reply.status, 201, "{}", reply.text);
    let id = reply.json()["id"].as_i64().unwrap();
    assert_eq!(reply.header("location"), format!("/api/runs/{id}"));
    notebook.ended(id).await;
    id
}

#[tokio::test]
async fn a_run_is_started_shown_annotated_listed_and_deleted() {
    let notebook = Notebook::open();
    let body = json!({
        "plan": plan(), "note": "first", "tags": ["a", "b"], "objective": "p99<500ms,errors<0.1%"
    });
    let id = finished(&notebook, body).await;
    let path = format!("/api/runs/{id}");
    let run = notebook.call("GET", &path, None).await.json();
    assert_eq!(run["state"], "finished");
    assert_eq!(run["kind"], "rate");
    assert_eq!(run["plan"]["rate"], 5.0);
    assert_eq!(run["summary"]["replies"], 5);
    assert_eq!(run["objectives"].as_array().unwrap().len(), 2);
    assert_eq!(run["progress"]["done"], 1.0);
    assert!(run["command"].as_str().unwrap().contains("httperf"));
    assert!(run["created_at"].as_str().unwrap().ends_with('Z'));
    for key in [
        "verdict",
        "checks",
        "limits",
        "environment",
        "node",
        "origin",
        "point",
        "repeat",
    ] {
        assert!(run.get(key).is_some(), "{key}");
    }
    let change = json!({"note": "second", "tags": ["c"], "baseline": true});
    let changed = notebook.call("PATCH", &path, Some(change)).await.json();
    assert_eq!(changed["note"], "second");
    assert_eq!(changed["tags"], json!(["c"]));
    assert_eq!(changed["baseline"], true);
    for (query, found) in [
        ("kind=rate&state=finished&tag=c&limit=1", 1),
        ("target=127.0.0.1:8000&text=seco", 1),
        ("kind=users", 0),
        ("state=&kind=", 1),
        ("until=2001-01-01T00:00:00Z", 0),
    ] {
        let list = notebook
            .call("GET", &format!("/api/runs?{query}"), None)
            .await
            .json();
        assert_eq!(list["runs"].as_array().unwrap().len(), found, "{query}");
        assert_eq!(list["next"], Value::Null, "{query}");
    }
    assert_eq!(notebook.call("DELETE", &path, None).await.status, 204);
    notebook
        .call("GET", &path, None)
        .await
        .is_problem(404, "no run");
    notebook
        .call("DELETE", &path, None)
        .await
        .is_problem(404, "no run");
    notebook.close().await;
}

#[tokio::test]
async fn pages_of_the_list_join_without_gap_or_repetition() {
    let notebook = Notebook::open();
    for _ in 0..5 {
        finished(&notebook, json!({ "plan": plan() })).await;
    }
    let (mut ids, mut before) = (Vec::new(), String::new());
    loop {
        let path = format!("/api/runs?limit=2{before}");
        let list = notebook.call("GET", &path, None).await.json();
        ids.extend(
            list["runs"]
                .as_array()
                .unwrap()
                .iter()
                .map(|run| run["id"].as_i64().unwrap()),
        );
        match list["next"].as_i64() {
            Some(next) => before = format!("&before={next}"),
            None => break,
        }
    }
    assert_eq!(ids, [5, 4, 3, 2, 1]);
    notebook.close().await;
}

#[tokio::test]
async fn a_pasted_line_runs_and_one_that_is_not_understood_names_the_word() {
    let notebook = Notebook::open();
    let line = "httperf --server 127.0.0.1 --port 8000 --num-conns 10 --rate 5";
    let id = finished(&notebook, json!({ "command": line })).await;
    let run = notebook
        .call("GET", &format!("/api/runs/{id}"), None)
        .await
        .json();
    assert_eq!(run["command"], line);
    assert_eq!(run["plan"]["num_conns"], 10);
    for (line, named) in [
        (
            "httperf --server 127.0.0.1 --num-conns 10 --frobnicate 3",
            "--frobnicate",
        ),
        ("siege http://127.0.0.1/", "-t"),
        ("rm -rf /", "rm"),
        ("", "."),
    ] {
        let reply = notebook
            .call("POST", "/api/runs", Some(json!({ "command": line })))
            .await;
        reply.is_problem(422, named);
        assert_eq!(reply.json()["errors"][0]["field"], "command", "{line}");
    }
    notebook.close().await;
}

#[tokio::test]
async fn bodies_that_are_not_as_they_must_be_are_refused_with_a_reason() {
    let notebook = Notebook::open();
    let post = async |body: Value| notebook.call("POST", "/api/runs", Some(body)).await;
    let check = async |body: Value, field: &str, text: &str| {
        let reply = post(body).await;
        reply.is_problem(422, text);
        let errors = reply.json()["errors"].as_array().unwrap().clone();
        assert!(
            errors.iter().any(|error| error["field"] == field),
            "{field}: {errors:?}"
        );
    };
    check(json!({}), "command", "or a plan").await;
    check(
        json!({"plan": plan(), "command": "x"}),
        "command",
        "not both",
    )
    .await;
    check(
        json!({"plan": plan(), "colour": 1}),
        "colour",
        "no field called colour",
    )
    .await;
    check(
        json!({"plan": plan(), "from": "west"}),
        "from",
        "not built into this version",
    )
    .await;
    check(
        json!({"plan": plan(), "across": ["a"]}),
        "across",
        "not built into this version",
    )
    .await;
    check(json!({"plan": plan(), "note": 5}), "note", "must be a text").await;
    check(
        json!({"plan": plan(), "note": "x".repeat(2001)}),
        "note",
        "2000",
    )
    .await;
    check(
        json!({"plan": plan(), "tags": "a"}),
        "tags",
        "list of texts",
    )
    .await;
    check(
        json!({"plan": plan(), "tags": ["a\u{202e}b"]}),
        "tags",
        "direction",
    )
    .await;
    check(
        json!({"plan": plan(), "objective": "p99<"}),
        "objective",
        "",
    )
    .await;
    check(json!({"plan": {"kind": "rate", "url": "http://127.0.0.1/", "rate": 200_000, "num_conns": 1}}), "rate", "--max-rate").await;
    check(
        json!({"plan": {"kind": "flood", "host": "a"}}),
        "kind",
        "flood",
    )
    .await;
    for (url, text) in [
        ("http://outside.example/", "peer"),
        ("http://metadata.example/", "169.254.169.254"),
        ("http://192.0.2.7/", "--allow"),
        ("http://127.0.0.1:8080/", "dashboard"),
        ("http://nowhere.example/", "could not be resolved"),
    ] {
        let body = json!({"plan": {"kind": "fetch", "url": url}});
        check(body, "url", text).await;
    }
    // The field at fault is the one that names the target in this kind of plan.
    for kind in ["throughput", "ping", "path"] {
        let body = json!({"plan": {"kind": kind, "host": "192.0.2.7"}});
        check(body, "host", "--allow").await;
        let body = json!({"plan": {"kind": kind, "host": "nowhere.example"}});
        check(body, "host", "could not be resolved").await;
    }
    check(json!({"command": "iperf -c 192.0.2.7"}), "host", "--allow").await;
    let several = json!([{"url": "http://127.0.0.1:8000/"}, {"url": "http://192.0.2.7/"}]);
    let body = json!({"plan": {"kind": "users", "urls": several, "reps": 1}});
    check(body, "urls", "--allow").await;
    let outside = json!({"plan": {"kind": "fetch", "url": "http://outside.example/"}});
    assert_eq!(post(outside).await.json()["registrable"], "192.0.2.1");
    assert_eq!(
        notebook.call("GET", "/api/runs", None).await.json()["runs"],
        json!([])
    );
    notebook.close().await;
}

#[tokio::test]
async fn bodies_that_are_no_json_object_are_refused_before_they_are_understood() {
    let notebook = Notebook::open();
    for (kind, body, status, text) in [
        ("application/json", "{", 400, "not valid JSON"),
        ("application/json", "[1]", 400, "object"),
        ("application/json", "", 400, "not valid JSON"),
        (
            "application/json",
            "{\"note\":\"a\",\"note\":\"b\"}",
            422,
            "twice",
        ),
        (
            "application/json",
            "{\"plan\":{\"rate\":1e309}}",
            422,
            "too large",
        ),
        (
            "application/x-www-form-urlencoded",
            "a=b",
            415,
            "application/json",
        ),
        ("", "{}", 415, "application/json"),
    ] {
        notebook
            .send("POST", "/api/runs", kind, body)
            .await
            .is_problem(status, text);
    }
    let long = format!("{{\"note\":\"{}\"}}", "x".repeat(70_000));
    notebook
        .send("POST", "/api/runs", "application/json", long)
        .await
        .is_problem(413, "64 KiB");
    assert_eq!(
        notebook.call("GET", "/api/runs", None).await.json()["runs"],
        json!([])
    );
    notebook.close().await;
}

#[tokio::test]
async fn queries_paths_and_methods_that_do_not_exist_are_problems() {
    let notebook = Notebook::open();
    for (query, text) in [
        ("limit=0", "1 to 500"),
        ("limit=501", "1 to 500"),
        ("limit=x", "1 to 500"),
        ("before=-1", "id of a run"),
        ("kind=foo", "kinds are"),
        ("state=foo", "states are"),
        ("from=yesterday", "written like"),
        ("colour=red", "no such parameter"),
        ("kind=rate&kind=users", "given twice"),
    ] {
        let reply = notebook
            .call("GET", &format!("/api/runs?{query}"), None)
            .await;
        reply.is_problem(422, text);
    }
    for path in [
        "/api/runs/7",
        "/api/runs/x",
        "/api/runs/-1",
        "/api/runs/99999999999999999999",
        "/api/peers/x",
    ] {
        notebook
            .call("GET", path, None)
            .await
            .is_problem(404, "There is no");
    }
    for path in ["/api/nonsense", "/api/nothing/at/all", "/api/runs/1/2/3"] {
        notebook
            .call("GET", path, None)
            .await
            .is_problem(404, "/api/openapi.json");
    }
    for (method, path, allow) in [
        ("PUT", "/api/runs", "GET, HEAD, POST"),
        ("DELETE", "/metrics", "GET, HEAD"),
        ("GET", "/api/runs/1/cancel", "POST"),
    ] {
        let reply = notebook.call(method, path, None).await;
        reply.is_problem(405, allow);
        assert_eq!(reply.header("allow"), allow);
    }
    notebook.close().await;
}

#[tokio::test]
async fn a_running_run_cannot_be_deleted_and_a_token_starts_one_run_only() {
    let notebook = Notebook::open();
    let body = json!({"plan": plan(), "form_token": "abc"});
    let first = notebook
        .call("POST", "/api/runs", Some(body.clone()))
        .await
        .json();
    let second = notebook.call("POST", "/api/runs", Some(body)).await.json();
    assert_eq!(first["id"], second["id"]);
    let path = format!("/api/runs/{}", first["id"]);
    notebook
        .call("DELETE", &path, None)
        .await
        .is_problem(409, "cancel it first");
    let live = notebook
        .call("PATCH", &path, Some(json!({"note": "while it runs"})))
        .await
        .json();
    assert_eq!(live["note"], "while it runs");
    notebook.tell(Step::Second);
    notebook.tell(Step::Finish);
    notebook.ended(first["id"].as_i64().unwrap()).await;
    assert_eq!(
        notebook.call("GET", &path, None).await.json()["note"],
        "while it runs"
    );
    notebook.close().await;
}

#[tokio::test]
async fn events_carry_the_run_so_far_resume_and_end_with_its_state() {
    let notebook = Notebook::open();
    notebook.tell(Step::Second);
    let id = finished(&notebook, json!({ "plan": plan() })).await;
    let path = format!("/api/runs/{id}/events");
    let reply = notebook.call("GET", &path, None).await;
    assert_eq!(reply.header("content-type"), "text/event-stream");
    let names: Vec<&str> = reply
        .text
        .lines()
        .filter_map(|line| line.strip_prefix("event: "))
        .collect();
    assert_eq!(names, ["interval", "interval", "state"]);
    let data = reply
        .text
        .lines()
        .find_map(|line| line.strip_prefix("data: "))
        .unwrap();
    let interval: Value = serde_json::from_str(data).unwrap();
    assert_eq!(
        (&interval["run"], &interval["replies"]),
        (&json!(id), &json!(5))
    );
    let resume = async |after: &str| {
        let request = Request::get(&path)
            .header("last-event-id", after)
            .body(Body::empty());
        Reply::read(
            notebook
                .router
                .clone()
                .oneshot(request.unwrap())
                .await
                .unwrap(),
        )
        .await
    };
    assert_eq!(resume("1").await.text.matches("event: interval").count(), 1);
    assert_eq!(
        resume("3").await.status,
        204,
        "the end was seen: a browser must not come again"
    );
    assert_eq!(
        resume("junk").await.text.matches("event: interval").count(),
        2
    );
    notebook
        .call("GET", "/api/runs/99/events", None)
        .await
        .is_problem(404, "no run");
    notebook.close().await;
}

#[tokio::test]
async fn sixty_four_live_views_are_open_at_most_and_a_closed_one_makes_room() {
    let notebook = Notebook::open();
    let id = notebook.launch(plan()).await;
    let path = format!("/api/runs/{id}/events");
    let open = async || {
        let request = Request::get(&path).body(Body::empty()).unwrap();
        notebook.router.clone().oneshot(request).await.unwrap()
    };
    let mut views = Vec::new();
    for _ in 0..64 {
        let view = open().await;
        assert_eq!(view.status(), 200);
        views.push(view);
    }
    Reply::read(open().await)
        .await
        .is_problem(503, "64 live views");
    views.pop();
    assert_eq!(open().await.status(), 200);
    notebook.close().await;
}

#[tokio::test]
async fn peers_are_registered_changed_and_forgotten_and_open_their_addresses_to_tests() {
    let notebook = Notebook::open();
    let record = json!({
        "name": "west 1", "internal_address": "10.0.0.2", "ports": {"workload": 81}, "vcpus": 2,
        "region": "us-west1", "internal_cap_bits_per_second": 4e9, "price_per_hour": 0.05, "tags": ["lab"]
    });
    let reply = notebook
        .call("POST", "/api/peers", Some(record.clone()))
        .await;
    assert_eq!(
        (reply.status, reply.header("location")),
        (201, "/api/peers/west%201")
    );
    let peer = notebook
        .call("GET", "/api/peers/WEST%201", None)
        .await
        .json();
    assert_eq!(
        peer["ports"],
        json!({"throughput": 5001, "workload": 81, "dashboard": 8080})
    );
    assert!(peer.get("token").is_none());
    let again = notebook.call("POST", "/api/peers", Some(record)).await;
    again.is_problem(409, "this name");
    let target = json!({"plan": {"kind": "fetch", "url": "http://10.0.0.2/"}});
    assert_eq!(
        notebook
            .call("POST", "/api/runs", Some(target.clone()))
            .await
            .status,
        201
    );
    let change = json!({"region": null, "vcpus": 4});
    let peer = notebook
        .call("PATCH", "/api/peers/west%201", Some(change))
        .await
        .json();
    assert_eq!((&peer["region"], &peer["vcpus"]), (&Value::Null, &json!(4)));
    let list = notebook.call("GET", "/api/peers", None).await.json();
    assert_eq!(list["peers"].as_array().unwrap().len(), 1);
    assert_eq!(
        notebook
            .call("DELETE", "/api/peers/west%201", None)
            .await
            .status,
        204
    );
    notebook
        .call("DELETE", "/api/peers/west%201", None)
        .await
        .is_problem(404, "no peer");
    notebook
        .call("POST", "/api/runs", Some(target))
        .await
        .is_problem(422, "peer");
    notebook.close().await;
}

#[tokio::test]
async fn peer_records_that_are_not_as_they_must_be_are_refused() {
    let notebook = Notebook::open();
    let with = |key: &str, value: Value| {
        let mut record = json!({"name": "a", "internal_address": "10.0.0.2"});
        record[key] = value;
        record
    };
    let cases = [
        (json!({"internal_address": "10.0.0.2"}), "name"),
        (json!({"name": "a"}), "internal_address"),
        (with("name", json!("")), "name"),
        (with("name", json!("x".repeat(65))), "name"),
        (with("name", json!("a\u{202e}")), "name"),
        (with("name", json!(7)), "name"),
        (
            with("internal_address", json!("0x7f.1")),
            "internal_address",
        ),
        (with("internal_address", json!("127.1")), "internal_address"),
        (
            with("internal_address", json!("host.example")),
            "internal_address",
        ),
        (
            with("internal_address", json!("169.254.169.254")),
            "internal_address",
        ),
        (
            with("internal_address", json!("::ffff:169.254.169.254")),
            "internal_address",
        ),
        (
            with("external_address", json!("0.0.0.0")),
            "external_address",
        ),
        (
            with("external_address", json!("fe80::1")),
            "external_address",
        ),
        (with("external_address", json!("8.8.8.8")), "confirm_public"),
        (with("confirm_public", json!("yes")), "confirm_public"),
        (with("ports", json!({"workload": 0})), "ports.workload"),
        (with("ports", json!({"workload": 65_536})), "ports.workload"),
        (with("ports", json!({"ssh": 22})), "ports.ssh"),
        (with("ports", json!(80)), "ports"),
        (with("vcpus", json!(0)), "vcpus"),
        (with("vcpus", json!(1.5)), "vcpus"),
        (with("memory_bytes", json!(-1)), "memory_bytes"),
        (
            with("internal_cap_bits_per_second", json!(0)),
            "internal_cap_bits_per_second",
        ),
        (
            with("external_cap_bits_per_second", json!("fast")),
            "external_cap_bits_per_second",
        ),
        (with("price_per_hour", json!(-0.1)), "price_per_hour"),
        (with("region", json!("a\nb")), "region"),
        (with("tags", json!([1])), "tags"),
        (
            with("metrics_url", json!("file:///etc/passwd")),
            "metrics_url",
        ),
        (with("token", json!("secret")), "token"),
        (with("colour", json!("red")), "colour"),
    ];
    for (record, field) in cases {
        let reply = notebook
            .call("POST", "/api/peers", Some(record.clone()))
            .await;
        assert_eq!(reply.status, 422, "{record}");
        let errors = reply.json()["errors"].clone();
        let fields: Vec<&str> = errors
            .as_array()
            .unwrap()
            .iter()
            .map(|error| error["field"].as_str().unwrap())
            .collect();
        assert!(fields.contains(&field), "{record}: {errors}");
    }
    let public = json!({"name": "a", "external_address": "8.8.8.8", "confirm_public": true});
    assert_eq!(
        notebook
            .call("POST", "/api/peers", Some(public))
            .await
            .status,
        201
    );
    notebook.close().await;
}

#[tokio::test]
async fn the_description_names_every_call_that_is_answered_and_no_other() {
    let notebook = Notebook::open();
    let document = notebook.call("GET", "/api/openapi.json", None).await.json();
    assert_eq!(document["openapi"], "3.1.0");
    let mut described = Vec::new();
    for (path, calls) in document["paths"].as_object().unwrap() {
        for (method, call) in calls.as_object().unwrap() {
            assert!(
                call["responses"]
                    .as_object()
                    .is_some_and(|all| !all.is_empty())
            );
            described.push((method.to_uppercase(), path.clone()));
        }
    }
    let answered: Vec<_> = tidemark::api::calls()
        .map(|(m, p)| (m.to_owned(), p.to_owned()))
        .collect();
    assert_eq!(described.len(), answered.len());
    for (method, path) in answered {
        assert!(
            described.contains(&(method.clone(), path.clone())),
            "{method} {path}"
        );
        let concrete = path.replace("{id}", "1").replace("{name}", "x");
        let reply = notebook.call(&method, &concrete, Some(json!({}))).await;
        assert_ne!(reply.status, 405, "{method} {path}");
        assert!(!reply.text.contains("There is no call"), "{method} {path}");
        let expected = &document["paths"][&path][method.to_lowercase()]["responses"];
        assert!(
            expected.get(reply.status.to_string()).is_some(),
            "{method} {path}: {}",
            reply.status
        );
    }
    let text = document.to_string();
    for part in text.split("\"$ref\":\"#/components/schemas/").skip(1) {
        let name = part.split('"').next().unwrap();
        assert!(
            document["components"]["schemas"].get(name).is_some(),
            "{name}"
        );
    }
    notebook.close().await;
}

#[tokio::test]
async fn the_described_run_has_every_key_of_a_real_one() {
    let notebook = Notebook::open();
    let id = finished(&notebook, json!({ "plan": plan() })).await;
    let run = notebook
        .call("GET", &format!("/api/runs/{id}"), None)
        .await
        .json();
    let document = notebook.call("GET", "/api/openapi.json", None).await.json();
    let schemas = &document["components"]["schemas"];
    for (schema, value) in [
        ("Run", &run),
        ("RateSummary", &run["summary"]),
        ("RatePlan", &run["plan"]),
    ] {
        let known = schemas[schema]["properties"].as_object().unwrap();
        for key in value.as_object().unwrap().keys() {
            assert!(known.contains_key(key), "{schema} lacks {key}");
        }
    }
    let figures = StreamFigures {
        datagrams: Some(StreamDatagrams::default()),
        ..StreamFigures::default()
    };
    let plan_of = |plan: Value| json!(Plan::from_json(&plan, &Caps::default()).unwrap());
    let reach = Reach {
        port: 1,
        protocol: "tcp".into(),
        result: Reached::Open,
        sentence: String::new(),
        advice: String::new(),
        rules: Vec::new(),
        rtt_ms: None,
    };
    let peer_check = PeerCheck {
        peer: "a".into(),
        at: "2026-11-30T17:44:35Z".parse().unwrap(),
        ports: Vec::new(),
        not_checked: Vec::new(),
    };
    for (schema, value) in [
        ("StreamFigures", json!(figures)),
        (
            "ThroughputSummary",
            json!(ThroughputSummary {
                udp: Some(UdpFigures::default()),
                directions: [("send".to_owned(), ThroughputSummary::default())].into(),
                ..ThroughputSummary::default()
            }),
        ),
        ("PathSummary", json!(PathSummary::default())),
        ("PeerCheck", json!(peer_check)),
        (
            "ThroughputPlan",
            plan_of(json!({
                "kind": "throughput", "host": "127.0.0.1", "bind": "127.0.0.1", "cport": 6001, "mss_bytes": 1400,
                "tos": 1, "ip_version": 4, "window_bytes": 65_536, "congestion": "cubic",
                "bandwidth_bits_per_second": 1e6,
            })),
        ),
        (
            "PingPlan",
            plan_of(json!({"kind": "ping", "host": "127.0.0.1"})),
        ),
        (
            "PathPlan",
            plan_of(json!({"kind": "path", "host": "127.0.0.1", "expect_mtu": 1500})),
        ),
    ] {
        let known = schemas[schema]["properties"].as_object().unwrap();
        for key in value.as_object().unwrap().keys() {
            assert!(known.contains_key(key), "{schema} lacks {key}");
        }
    }
    for (list, value) in [
        (&schemas["PeerCheck"]["properties"]["ports"], json!(reach)),
        (
            &schemas["StreamFigures"]["properties"]["datagrams"],
            json!(StreamDatagrams::default()),
        ),
    ] {
        let known = list.get("items").unwrap_or(list)["properties"].as_object();
        for key in value.as_object().unwrap().keys() {
            assert!(known.unwrap().contains_key(key), "{list} lacks {key}");
        }
    }
    for (schema, path) in [("Node", "/api/node"), ("Capabilities", "/api/capabilities")] {
        let value = notebook.call("GET", path, None).await.json();
        let known = schemas[schema]["properties"].as_object().unwrap();
        for key in value.as_object().unwrap().keys() {
            assert!(known.contains_key(key), "{schema} lacks {key}");
        }
    }
    notebook.close().await;
}

#[tokio::test]
async fn metrics_are_in_the_form_that_prometheus_reads() {
    let notebook = Notebook::open();
    finished(&notebook, json!({ "plan": plan() })).await;
    let reply = notebook.call("GET", "/metrics", None).await;
    assert!(
        reply
            .header("content-type")
            .starts_with("text/plain; version=0.0.4")
    );
    assert!(
        reply
            .text
            .contains("\ntidemark_runs{state=\"finished\"} 1\n")
    );
    assert!(reply.text.contains("\ntidemark_queue_waiting 0\n"));
    for line in reply.text.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').unwrap();
        assert!(value.parse::<f64>().unwrap().is_finite(), "{line}");
        let family = name.split('{').next().unwrap();
        assert!(reply.text.contains(&format!("# TYPE {family} ")), "{line}");
    }
    notebook.close().await;
}

#[tokio::test]
async fn hostile_numbers_are_refused_and_nothing_panics() {
    let notebook = Notebook::open();
    let good = [
        ("rate", "1"),
        ("num_conns", "1"),
        ("num_calls", "1"),
        ("timeout_s", "1"),
    ];
    for number in [
        "-1",
        "1e308",
        "1e309",
        "18446744073709551616",
        "9223372036854775808",
        "\"\"",
        "true",
        "[]",
    ] {
        for field in good.map(|(name, _)| name) {
            let rest: Vec<String> = good
                .iter()
                .filter(|(name, _)| *name != field)
                .map(|(name, value)| format!(",\"{name}\":{value}"))
                .collect();
            let rest = rest.concat();
            let body = format!(
                "{{\"plan\":{{\"kind\":\"rate\",\"url\":\"http://127.0.0.1:9/\",\"{field}\":{number}{rest}}}}}"
            );
            let reply = notebook
                .send("POST", "/api/runs", "application/json", body)
                .await;
            assert_eq!(reply.status, 422, "{field} {number}: {}", reply.text);
        }
    }
    notebook.close().await;
}
