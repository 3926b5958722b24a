//! Throughput runs through the whole program: sent to receivers, and received from real clients.

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::process::{Program, TempFolder};
use crate::support::raw::{exchange, status_of};

/// How long anything may take on a busy machine.
const ENOUGH: Duration = Duration::from_mins(1);

const BOTH: [&str; 4] = ["--receiver", "127.0.0.1:0", "--receiver3", "127.0.0.1:0"];

fn ask(address: SocketAddr, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
    let body = body.map(ToString::to_string).unwrap_or_default();
    let reply = exchange(
        address,
        format!(
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ),
    );
    let (_, body) = reply.split_once("\r\n\r\n").unwrap();
    (
        status_of(&reply),
        serde_json::from_str(body).unwrap_or_default(),
    )
}

pub fn launch(program: &Program, plan: &Value) -> i64 {
    let (status, run) = ask(
        program.dashboard(),
        "POST",
        "/api/runs",
        Some(&json!({ "plan": plan })),
    );
    assert_eq!(status, 201, "{run}");
    run["id"].as_i64().unwrap()
}

/// The runs, newest first, once one of them fits.
pub fn until(program: &Program, what: &str, fits: impl Fn(&[Value]) -> Option<Value>) -> Value {
    let end = Instant::now() + ENOUGH;
    loop {
        let (_, list) = ask(program.dashboard(), "GET", "/api/runs", None);
        let runs = list["runs"].as_array().unwrap();
        if let Some(found) = fits(runs) {
            return found;
        }
        assert!(Instant::now() < end, "never {what}: {list:#}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Runs this plan to its end.
pub fn measured(program: &Program, plan: &Value) -> Value {
    let id = launch(program, plan);
    ended(program, id)
}

pub fn ended(program: &Program, id: i64) -> Value {
    until(program, "ended", |runs| {
        runs.iter()
            .find(|run| run["id"] == id && !is_open(run))
            .cloned()
    })
}

fn is_open(run: &Value) -> bool {
    matches!(run["state"].as_str(), Some("queued" | "running"))
}

/// The newest run that a receiver served and that has ended.
fn received(program: &Program) -> Value {
    until(program, "received", |runs| {
        runs.iter()
            .find(|run| run["origin"] == "received" && !is_open(run))
            .cloned()
    })
}

#[test]
fn a_run_to_our_own_receiver_is_kept_by_both_ends_and_they_agree() {
    let program = Program::start(&BOTH);
    for (dialect, listener) in [("iperf2", "receiver"), ("iperf3", "receiver3")] {
        let port = program.addresses(listener)[0].port();
        let id = launch(
            &program,
            &json!({"kind": "throughput", "host": "127.0.0.1", "port": port, "dialect": dialect,
                    "bytes": 40_000_000, "streams": 2, "bandwidth_bits_per_second": 400_000_000}),
        );
        let sent = ended(&program, id);
        assert_eq!(sent["state"], "finished", "{sent:#}");
        assert_eq!(sent["origin"], "local");
        let other = received(&program);
        assert_eq!(other["state"], "finished", "{other:#}");
        assert_eq!(other["plan"]["direction"], "receive");
        assert_eq!(other["plan"]["dialect"], dialect);
        assert_eq!(
            sent["summary"]["bytes_received"], other["summary"]["bytes_received"],
            "{sent:#} {other:#}"
        );
        assert!(sent["summary"]["bits_per_second"].as_f64().unwrap() > 0.0);
        assert_eq!(sent["summary"]["streams"].as_array().unwrap().len(), 2);
        let (status, page) = ask(
            program.dashboard(),
            "DELETE",
            &format!("/api/runs/{}", other["id"]),
            None,
        );
        assert_eq!(status, 204, "{page}");
    }
}

#[test]
fn what_a_real_client_sent_is_kept_with_its_intervals() {
    let program = Program::start(&BOTH);
    let port = program.addresses("receiver")[0].port().to_string();
    let client = Command::new("iperf")
        .args([
            "-c",
            "127.0.0.1",
            "-p",
            &port,
            "-n",
            "20000000",
            "-P",
            "2",
            "-f",
            "k",
        ])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(client.status.success(), "{client:?}");
    let run = received(&program);
    assert_eq!(run["state"], "finished", "{run:#}");
    assert_eq!(run["command"], format!("iperf -s -p {port}"));
    let bytes = run["summary"]["bytes_received"].as_u64().unwrap();
    assert!(bytes >= 40_000_000, "{run:#}");
    let id = run["id"].as_i64().unwrap();
    let events = exchange(
        program.dashboard(),
        format!(
            "GET /api/runs/{id}/events HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
            program.dashboard()
        ),
    );
    let sums: u64 = events
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .filter_map(|data| serde_json::from_str::<Value>(data).ok())
        .filter(|row| row["stream"] == "SUM")
        .map(|row| row["bytes"].as_u64().unwrap())
        .sum();
    assert_eq!(sums, bytes, "{events}");
}

#[test]
fn a_receiver_is_stopped_and_started_on_its_port() {
    let program = Program::start(&BOTH);
    let address = program.addresses("receiver")[0];
    let call = |path: &str| ask(program.dashboard(), "POST", path, None);
    let (status, view) = call("/api/receivers/iperf2/stop");
    assert_eq!((status, &view["running"]), (200, &json!(false)), "{view}");
    let id = launch(
        &program,
        &json!({"kind": "throughput", "host": "127.0.0.1", "port": address.port(), "duration_s": 1}),
    );
    let run = ended(&program, id);
    assert_eq!(run["state"], "failed", "{run:#}");
    assert!(
        run["error"].as_str().unwrap().contains("refused"),
        "{run:#}"
    );
    let (status, view) = call("/api/receivers/iperf2/start");
    assert_eq!((status, &view["running"]), (200, &json!(true)), "{view}");
    assert_eq!(view["addresses"], json!([address]));
    let id = launch(
        &program,
        &json!({"kind": "throughput", "host": "127.0.0.1", "port": address.port(), "bytes": 1_000_000}),
    );
    assert_eq!(ended(&program, id)["state"], "finished");
    assert_eq!(call("/api/receivers/iperf9/stop").0, 404);
    let off = Program::start(&[]);
    let (status, problem) = ask(off.dashboard(), "POST", "/api/receivers/iperf3/start", None);
    assert_eq!(status, 409);
    assert!(problem["detail"].as_str().unwrap().contains("--receiver3"));
}

#[test]
fn a_test_in_progress_ends_with_the_program() {
    let folder = TempFolder::new();
    let mut program = Program::start_in(folder.path(), &BOTH);
    let port = program.addresses("receiver")[0].port().to_string();
    let mut client = Command::new("iperf")
        .args([
            "-c",
            "127.0.0.1",
            "-p",
            &port,
            "-t",
            "60",
            "-b",
            "8m",
            "-i",
            "1",
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let running = until(&program, "receiving", |runs| {
        runs.iter()
            .find(|run| {
                run["origin"] == "received" && run["summary"]["bytes_received"].as_u64() > Some(0)
            })
            .cloned()
    });
    assert_eq!(running["state"], "running", "{running:#}");
    program.signal("TERM");
    assert!(program.wait(ENOUGH).success(), "{}", program.errors());
    client.kill().unwrap();
    client.wait().unwrap();
    let again = Program::start_in(folder.path(), &BOTH);
    let (_, run) = ask(
        again.dashboard(),
        "GET",
        &format!("/api/runs/{}", running["id"]),
        None,
    );
    assert_eq!(run["state"], "interrupted", "{run:#}");
    assert!(
        run["summary"]["bytes_received"].as_u64() > Some(0),
        "{run:#}"
    );
}

#[test]
fn a_ping_by_either_method_becomes_a_run_with_a_row_for_each_probe() {
    let program = Program::start(&[]);
    let port = program.workload().port();
    for plan in [
        json!({"kind": "ping", "host": "127.0.0.1", "count": 3, "interval_s": 0.05}),
        json!({"kind": "ping", "host": "127.0.0.1", "count": 3, "interval_s": 0.05, "method": "tcp", "port": port}),
    ] {
        let id = launch(&program, &plan);
        let run = ended(&program, id);
        assert_eq!(run["state"], "finished", "{run:#}");
        let summary = &run["summary"];
        assert_eq!(summary["transmitted"], 3, "{run:#}");
        assert_eq!(summary["received"], 3, "{run:#}");
        assert_eq!(summary["rtt_ms"]["count"], 3);
        let events = exchange(
            program.dashboard(),
            format!(
                "GET /api/runs/{id}/events HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
                program.dashboard()
            ),
        );
        assert_eq!(events.matches("event: interval").count(), 3, "{events}");
    }
}

#[test]
fn a_path_run_names_the_interface_and_the_mtu_of_the_path() {
    let program = Program::start(&[]);
    let run = measured(&program, &json!({"kind": "path", "host": "127.0.0.1"}));
    assert_eq!(run["state"], "finished", "{run:#}");
    let summary = &run["summary"];
    assert_eq!(summary["interface"], "lo", "{run:#}");
    // No packet is longer than its 16-bit length can say, whatever the loopback interface takes.
    let mtu = summary["interface_mtu"].as_u64().unwrap().min(65_535);
    assert_eq!(summary["path_mtu"], mtu, "{run:#}");
    assert!(run["verdict"].as_str().is_some_and(|text| !text.is_empty()));
}

#[test]
fn a_peers_ports_are_open_or_refused_and_it_is_said_what_to_do() {
    let program = Program::start(&BOTH);
    let open = program.addresses("receiver")[0].port();
    let workload = program.workload().port();
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let refused = closed.local_addr().unwrap().port();
    drop(closed);
    let peer = json!({"name": "here", "internal_address": "127.0.0.1",
                      "ports": {"throughput": open, "workload": workload, "dashboard": refused}});
    let (status, reply) = ask(program.dashboard(), "POST", "/api/peers", Some(&peer));
    assert_eq!(status, 201, "{reply}");
    assert_eq!(
        ask(program.dashboard(), "GET", "/api/peers/here/check", None).0,
        404
    );
    let (status, check) = ask(program.dashboard(), "POST", "/api/peers/here/check", None);
    assert_eq!(status, 200, "{check}");
    let result = |service: &str, protocol: &str| {
        let ports = check["ports"].as_array().unwrap();
        let found = ports
            .iter()
            .find(|port| port["service"] == service && port["protocol"] == protocol);
        found.unwrap_or_else(|| panic!("{check:#}")).clone()
    };
    assert_eq!(result("throughput", "tcp")["result"], "open");
    assert_eq!(result("throughput", "udp")["result"], "open");
    assert_eq!(result("workload", "tcp")["result"], "open");
    let no = result("dashboard", "tcp");
    assert_eq!(no["result"], "refused");
    assert!(
        no["advice"].as_str().is_some_and(|text| !text.is_empty()),
        "{no}"
    );
    let again = ask(program.dashboard(), "GET", "/api/peers/here/check", None).1;
    assert_eq!(again, check);
    assert_eq!(check["not_checked"], json!([]));
    // Our own receiver answered the datagrams, and kept no test of them.
    let (_, receivers) = ask(program.dashboard(), "GET", "/api/receivers", None);
    assert_eq!(receivers["receivers"][0]["tests_begun"], 0, "{receivers}");
    let (_, list) = ask(program.dashboard(), "GET", "/api/runs", None);
    assert_eq!(list["runs"], json!([]), "{list}");
    // A dashboard is never a target, so its port is left out by name.
    let change = json!({"ports": {"dashboard": program.dashboard().port()}});
    let (status, reply) = ask(
        program.dashboard(),
        "PATCH",
        "/api/peers/here",
        Some(&change),
    );
    assert_eq!(status, 200, "{reply}");
    let last = |method| ask(program.dashboard(), method, "/api/peers/here/check", None);
    assert_eq!(
        last("GET").0,
        404,
        "a check of other ports is no longer its"
    );
    let (_, check) = last("POST");
    assert_eq!(check["ports"].as_array().unwrap().len(), 3, "{check}");
    let left_out = &check["not_checked"][0];
    assert_eq!(left_out["service"], "dashboard", "{check}");
    assert!(left_out["why"].as_str().unwrap().contains("never a target"));
    assert_eq!(last("GET").1, check);
    assert_eq!(
        ask(program.dashboard(), "POST", "/api/peers/nobody/check", None).0,
        404
    );
}
