//! The real program killed in the middle of a run: nothing that was acknowledged is lost.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::process::{Program, TempFolder};

/// One call on a connection of its own; status and body.
pub fn call(address: SocketAddr, method: &str, path: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, unchunked(head, body))
}

fn unchunked(head: &str, mut body: &str) -> String {
    if !head
        .to_ascii_lowercase()
        .contains("transfer-encoding: chunked")
    {
        return body.to_owned();
    }
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            break;
        }
        whole.push_str(&rest[..size]);
        body = &rest[size + 2..];
    }
    whole
}

fn run(address: SocketAddr, id: i64) -> Value {
    let (status, body) = call(address, "GET", &format!("/api/runs/{id}"), "");
    assert_eq!(status, 200, "{body}");
    serde_json::from_str(&body).unwrap()
}

fn launch(program: &Program) -> i64 {
    let url = format!("http://{}/?work=light", program.workload());
    let plan = json!({"kind": "rate", "url": url, "rate": 20, "duration_s": 30});
    let body = json!({ "plan": plan }).to_string();
    let (status, body) = call(program.dashboard(), "POST", "/api/runs", &body);
    assert_eq!(status, 201, "{body}");
    serde_json::from_str::<Value>(&body).unwrap()["id"]
        .as_i64()
        .unwrap()
}

/// Waits until the run has gone on for this many seconds; returns how far it says that it is.
fn wait_for(address: SocketAddr, id: i64, seconds: f64) -> f64 {
    let until = Instant::now() + Duration::from_mins(1);
    loop {
        let elapsed = run(address, id)["progress"]["done"].as_f64().unwrap() * 30.0;
        if elapsed >= seconds {
            return elapsed;
        }
        assert!(Instant::now() < until, "the run does not go on");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_killed_program_finds_its_runs_interrupted_with_every_second_but_the_last() {
    let folder = TempFolder::new();
    let program = Program::start_in(folder.path(), &[]);
    let running = launch(&program);
    let waiting = launch(&program);
    let elapsed = wait_for(program.dashboard(), running, 2.5);
    program.crash();

    let program = Program::start_in(folder.path(), &[]);
    let address = program.dashboard();
    let found = run(address, running);
    assert_eq!(found["state"], "interrupted");
    let error = found["error"].as_str().unwrap();
    assert!(error.starts_with("Stopped by a crash after "), "{error}");
    assert!(error.contains(" of 30 s; figures cover "), "{error}");
    assert!(found["summary"]["replies"].as_u64().unwrap() > 0);
    let (_, events) = call(address, "GET", &format!("/api/runs/{running}/events"), "");
    let seconds = events.matches("event: interval").count() as f64;
    assert!(
        seconds >= (elapsed - 1.0).floor(),
        "{seconds} of {elapsed} s"
    );
    let found = run(address, waiting);
    assert_eq!(found["state"], "interrupted");
    assert_eq!(found["summary"], Value::Null);
    let (_, list) = call(address, "GET", "/api/runs", "");
    let list: Value = serde_json::from_str(&list).unwrap();
    assert_eq!(list["runs"].as_array().unwrap().len(), 2);
    assert!(program.stop().success());

    let file = rusqlite::Connection::open(folder.path().join("tidemark.db")).unwrap();
    let check: String = file
        .query_row("PRAGMA quick_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!(check, "ok");
}

#[test]
fn a_terminated_program_ends_its_run_interrupted_with_what_it_had() {
    let folder = TempFolder::new();
    let program = Program::start_in(folder.path(), &[]);
    let running = launch(&program);
    wait_for(program.dashboard(), running, 1.5);
    assert!(program.stop().success());

    let program = Program::start_in(folder.path(), &[]);
    let found = run(program.dashboard(), running);
    assert_eq!(found["state"], "interrupted");
    let error = found["error"].as_str().unwrap();
    assert!(error.starts_with("Stopped by a shutdown after "), "{error}");
    assert!(found["summary"]["replies"].as_u64().unwrap() > 0);
    assert!(program.stop().success());
}
