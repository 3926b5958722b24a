//! The program from outside: ready line, exit statuses, signals, one run from request to report.

use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use crate::support::process::{Program, TempFolder, run_to_end};
use crate::support::raw::{Raw, exchange, status_of};

/// How long an ordered end may take on a busy machine.
const ENOUGH: Duration = Duration::from_secs(30);

fn get(address: SocketAddr, path: &str) -> String {
    exchange(
        address,
        format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"),
    )
}

fn post(address: SocketAddr, path: &str, json: &serde_json::Value) -> String {
    let body = json.to_string();
    exchange(
        address,
        format!(
            "POST {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ),
    )
}

fn json_of(reply: &str) -> serde_json::Value {
    let (_, body) = reply.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {reply}"))
}

fn launch(program: &Program, plan: &serde_json::Value) -> i64 {
    let reply = post(
        program.dashboard(),
        "/api/runs",
        &serde_json::json!({ "plan": plan }),
    );
    assert_eq!(status_of(&reply), 201, "{reply}");
    json_of(&reply)["id"].as_i64().unwrap()
}

fn run_when(
    program: &Program,
    id: i64,
    reached: impl Fn(&serde_json::Value) -> bool,
) -> serde_json::Value {
    let until = Instant::now() + ENOUGH;
    loop {
        let run = json_of(&get(program.dashboard(), &format!("/api/runs/{id}")));
        if reached(&run) {
            return run;
        }
        assert!(Instant::now() < until, "never reached: {run}");
    }
}

#[test]
fn the_ready_line_names_what_is_bound_and_stands_alone() {
    let mut program = Program::start(&["--receiver", "127.0.0.1:0", "--receiver3", "127.0.0.1:0"]);
    let receiver = program.addresses("receiver")[0];
    let receiver3 = program.addresses("receiver3")[0];
    assert_eq!(
        program.ready,
        format!(
            "tidemark ready dashboard=http://{}/ workload=http://{}/ receiver={receiver} receiver3={receiver3}",
            program.dashboard(),
            program.workload()
        )
    );
    for address in [program.dashboard(), receiver, receiver3] {
        assert_ne!(address.port(), 0);
    }
    drop(TcpStream::connect(receiver).unwrap());
    assert!(get(program.dashboard(), "/healthz").ends_with("\r\n\r\nok"));
    program.signal("TERM");
    assert!(program.wait(ENOUGH).success());
    assert_eq!(program.rest_of_output(), "");
}

#[test]
fn listeners_can_be_off_repeated_and_dual_stack() {
    let program = Program::start(&["--dashboard", "off", "--receiver", "off"]);
    assert!(
        program.ready.contains(" dashboard=off "),
        "{}",
        program.ready
    );
    assert!(get(program.workload(), "/health-check").starts_with("HTTP/1.1 200"));

    let program = Program::start(&[
        "--workload",
        "off",
        "--dashboard",
        "127.0.0.1:0",
        "--dashboard",
        "127.0.0.1:0",
    ]);
    assert!(
        program.ready.contains(" workload=off "),
        "{}",
        program.ready
    );
    let both = program.addresses("dashboard");
    assert_eq!(both.len(), 2);
    for address in both {
        assert_eq!(status_of(&get(address, "/healthz")), 200);
    }

    let program = Program::start(&["--workload", "[::]:0"]);
    let port = program.workload().port();
    let v4: SocketAddr = ([127, 0, 0, 1], port).into();
    assert_eq!(status_of(&get(v4, "/health-check")), 200);
}

#[test]
fn the_environment_sets_what_flags_do_not() {
    let folder = TempFolder::new();
    let program = Program::start_with(
        folder.path(),
        &[],
        &[("TIDEMARK_NAME", "node-7"), ("TIDEMARK_REGION", "north")],
    );
    let reply = get(program.workload(), "/?work=light");
    assert!(reply.to_lowercase().contains("x-served-by: node-7"));
    assert!(reply.to_lowercase().contains("x-region: north"));
}

#[test]
fn what_cannot_start_says_why_in_one_line_and_by_its_exit_status() {
    let folder = TempFolder::new();
    let data = folder.path().join("data").display().to_string();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let behind_file = file.join("data").display().to_string();
    let open = folder.path().join("open");
    std::fs::create_dir(&open).unwrap();
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o777)).unwrap();
    let open = open.display().to_string();
    let check = |arguments: &[&str], status: i32, words: &[&str]| {
        let (found, output, errors) = run_to_end(arguments);
        assert_eq!(found, status, "{arguments:?}: {errors}");
        assert_eq!(output, "", "{arguments:?}");
        let last = errors.lines().last().unwrap_or_default();
        for word in words {
            assert!(last.contains(word), "{arguments:?}: {errors}");
        }
    };
    let quiet = ["--workload", "127.0.0.1:0", "--data", &data];
    let with = |more: &[&'static str]| [more, &quiet[..]].concat();
    check(&with(&["--token", ""]), 2, &["--token"]);
    check(&with(&["--view-token", "a b"]), 2, &["--view-token"]);
    check(
        &with(&["--token", "abc", "--token-file", "f"]),
        2,
        &["--token", "--token-file"],
    );
    check(
        &with(&["--token-file", "/no/such/file"]),
        2,
        &["--token-file", "no such file"],
    );
    check(&with(&["--public-read"]), 2, &["--public-read"]);
    check(&with(&["--no-such-flag"]), 2, &["--no-such-flag"]);
    check(
        &with(&["--workload-threads", "none"]),
        2,
        &["--workload-threads"],
    );
    check(&["selftest", "--format", "csv"], 2, &["--format"]);
    check(
        &["agent", "--nats", "nats://x"],
        2,
        &["not built into this version"],
    );
    check(
        &[
            "--dashboard",
            "127.0.0.1:0",
            "--workload",
            &taken,
            "--data",
            &data,
        ],
        1,
        &["--workload", &taken, "in use"],
    );
    check(
        &["--dashboard", &taken, "--workload", "off", "--data", &data],
        1,
        &["--dashboard", &taken, "in use"],
    );
    check(
        &[
            "--dashboard",
            "127.0.0.1:0",
            "--workload",
            "off",
            "--data",
            &behind_file,
        ],
        1,
        &["--data", &behind_file],
    );
    check(
        &[
            "--dashboard",
            "127.0.0.1:0",
            "--workload",
            "off",
            "--data",
            &open,
        ],
        2,
        &["--data", &open],
    );
}

#[test]
fn help_and_version_go_to_standard_output() {
    for flag in ["--help", "--version"] {
        let (status, output, errors) = run_to_end(&[flag]);
        assert_eq!((status, errors.as_str()), (0, ""));
        assert!(output.contains("tidemark"));
    }
}

#[test]
fn a_second_instance_leaves_the_first_ones_data_alone() {
    let program = Program::start(&[]);
    let data = program.data().display().to_string();
    let (status, output, errors) = run_to_end(&[
        "--dashboard",
        "127.0.0.1:0",
        "--workload",
        "off",
        "--data",
        &data,
    ]);
    assert_eq!((status, output.as_str()), (1, ""));
    assert!(
        errors.contains(&format!(
            "Another tidemark (pid {}) is using {data}.",
            program.pid()
        )),
        "{errors}"
    );
    assert_eq!(status_of(&get(program.dashboard(), "/healthz")), 200);
}

#[test]
fn the_data_folder_is_private() {
    let program = Program::start(&[]);
    for entry in std::fs::read_dir(program.data()).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{:?}", entry.path());
    }
}

#[test]
fn a_run_goes_from_request_to_report() {
    let program = Program::start(&[]);
    let url = format!("http://{}/?work=light", program.workload());
    let id = launch(
        &program,
        &serde_json::json!({"kind": "rate", "url": url, "rate": 200, "num_conns": 40}),
    );
    let run = run_when(&program, id, |run| run["state"] == "finished");
    assert_eq!(run["summary"]["outcomes"]["ok"], 40, "{run}");
    for page in ["/", "/runs", "/runs/new", &format!("/runs/{id}")] {
        let reply = get(program.dashboard(), page);
        assert_eq!(status_of(&reply), 200, "{page}: {reply}");
        assert!(reply.contains("<h1"), "{page}: {reply}");
    }
}

#[test]
fn tests_are_not_sent_to_strangers_nor_to_the_dashboard() {
    let program = Program::start(&[]);
    let refused = |url: &str| {
        let plan = serde_json::json!({"kind": "fetch", "url": url});
        let reply = post(
            program.dashboard(),
            "/api/runs",
            &serde_json::json!({ "plan": plan }),
        );
        assert_eq!(status_of(&reply), 422, "{url}: {reply}");
        json_of(&reply)["detail"].as_str().unwrap().to_owned()
    };
    assert!(refused("http://203.0.113.1/").contains("--allow"));
    for url in [
        "http://169.254.169.254/",
        "http://[::ffff:169.254.169.254]/",
        "http://[64:ff9b::a9fe:a9fe]/",
        "http://0.0.0.0/",
    ] {
        assert!(refused(url).contains("no test is ever sent"), "{url}");
    }
    for number in ["2852039166", "0xa9fea9fe", "169.254.43518", "0"] {
        refused(&format!("http://{number}/"));
    }
    let own = format!("http://{}/", program.dashboard());
    assert!(refused(&own).contains("dashboard"));
}

#[test]
fn a_signal_ends_the_run_and_the_program_though_clients_stay() {
    let mut program = Program::start(&[]);
    let url = format!("http://{}/?work=light", program.workload());
    let id = launch(
        &program,
        &serde_json::json!({"kind": "rate", "url": url, "rate": 5, "duration_s": 3600}),
    );
    run_when(&program, id, |run| run["state"] == "running");
    let mut idle: Vec<TcpStream> = (0..5)
        .flat_map(|_| [program.dashboard(), program.workload()])
        .map(|address| TcpStream::connect(address).unwrap())
        .collect();
    let mut events: Vec<Raw> = (0..5).map(|_| Raw::connect(program.dashboard())).collect();
    for client in &mut events {
        client.send(format!(
            "GET /api/runs/{id}/events HTTP/1.1\r\nHost: {}\r\n\r\n",
            program.dashboard()
        ));
        assert!(client.0.read(&mut [0; 64]).unwrap() > 0);
    }
    let mut probe = Raw::connect(program.workload());
    let health = "GET /health-check HTTP/1.1\r\nHost: x\r\n\r\n";
    assert_eq!(probe.send(health).reply().status(), 200);
    program.signal("TERM");
    let status = loop {
        let reply = exchange(
            program.workload(),
            "GET /health-check HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        );
        match status_of(&reply) {
            200 => {}
            other => break other,
        }
    };
    assert_eq!(status, 503);
    assert!(program.wait(ENOUGH).success(), "{}", program.errors());
    for client in &mut events {
        assert!(client.until_closed().contains("interrupted"));
    }
    for client in &mut idle {
        assert_eq!(client.read(&mut [0]).unwrap_or(0), 0);
    }
    let again = Program::start_in(program.data(), &[]);
    let run = json_of(&get(again.dashboard(), &format!("/api/runs/{id}")));
    assert_eq!(run["state"], "interrupted", "{run}");
}

#[test]
fn a_second_signal_ends_at_once() {
    let mut program = Program::start(&["--drain-seconds", "3600"]);
    let mut slow = Raw::connect(program.workload());
    slow.send("GET /?work=heavy HTTP/1.1\r\nHost: x\r\n\r\n");
    // Once this answer is here, the earlier connection has been accepted.
    assert_eq!(status_of(&get(program.workload(), "/health-check")), 200);
    program.signal("TERM");
    while !program.errors().contains("stopping") {
        std::thread::yield_now();
    }
    program.signal("INT");
    // The render may have ended in between; then the first signal's end is the one that counts.
    assert!(matches!(program.wait(ENOUGH).code(), Some(0 | 1)));
}

#[test]
fn a_signal_stops_every_test_and_the_program_serves_on() {
    let program = Program::start(&[]);
    let address = program.dashboard();
    let plan = serde_json::json!({"kind": "ping", "host": "127.0.0.1", "method": "tcp",
        "port": program.workload().port(), "count": 3000, "interval_s": 0.2});
    let running = launch(&program, &plan);
    let waiting = launch(&program, &plan);
    let series = serde_json::json!({"base": plan, "repeat": 3});
    let experiment = json_of(&post(address, "/api/experiments", &series));
    run_when(&program, running, |run| run["state"] == "running");
    program.signal("USR1");
    for id in [running, waiting] {
        run_when(&program, id, |run| run["state"] == "cancelled");
    }
    let path = format!("/api/experiments/{}", experiment["id"]);
    let end = Instant::now() + Duration::from_mins(1);
    while json_of(&get(address, &path))["state"] != "cancelled" {
        assert!(Instant::now() < end, "the experiment goes on");
        std::thread::sleep(Duration::from_millis(50));
    }
    let next = serde_json::json!({"kind": "fetch", "url": format!("http://{}/health-check", program.workload())});
    let next = launch(&program, &next);
    run_when(&program, next, |run| run["state"] == "finished");
}
