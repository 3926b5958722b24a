//! The HTTP engine where this machine is the limit: descriptors, local ports, routes, a full queue of the listener.
//!
//! Limits hold for a whole process, so these tests run themselves again in a process of its own.

use std::process::Command;
use std::time::Duration;

use serde_json::json;
use tidemark::measure::outcome::Outcome;

use crate::support::load::go;
use crate::support::misbehave::Misbehave;

/// Says to the process which part is its.
const PART: &str = "TIDEMARK_TEST_PART";
const URL: &str = "TIDEMARK_TEST_URL";

/// Runs `part` of [`inside`] in a process of its own, started by these shell words.
fn elsewhere(words: &str, part: &str, url: &str) {
    let output = Command::new("sh")
        .args(["-c", words])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "http_machine::inside", "--nocapture"])
        .env(PART, part)
        .env(URL, url)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Starts the process in a network of its own, in which only loopback is up.
const NETWORK: &str = r#"exec unshare --net sh -c 'ip link set lo up && exec "$0" "$@"' "$0" "$@""#;

/// Whether a network namespace can be made here; says why not.
fn namespaces() -> bool {
    let able = Command::new("unshare")
        .args(["--net", "ip", "link", "set", "lo", "up"])
        .output()
        .is_ok_and(|output| output.status.success());
    if !able {
        crate::support::skip("making a network namespace needs root, unshare and ip");
    }
    able
}

/// Does nothing but in the process that one of the tests starts.
#[test]
fn inside() {
    let Ok(part) = std::env::var(PART) else {
        return;
    };
    let url = std::env::var(URL).unwrap();
    match part.as_str() {
        "descriptors" => {
            let done = go(&json!({"kind": "rate", "url": url, "rate": 2000, "num_conns": 200}));
            let outcomes = done.outcomes();
            let ok = outcomes.get("ok").copied().unwrap_or(0);
            let exhausted = outcomes.get("fd_exhausted").copied().unwrap_or(0);
            assert_eq!(ok + exhausted, 200, "{outcomes:?}");
            assert!(ok > 20 && exhausted > 100, "{outcomes:?}");
        }
        "ports" | "ports of one address" => {
            std::fs::write("/proc/sys/net/ipv4/ip_local_port_range", "40000 40007").unwrap();
            let server = Misbehave::on("127.0.0.1:8000");
            let bind = (part != "ports").then_some("127.0.0.1");
            let done = go(&json!({
                "kind": "rate", "url": server.url("/slow?s=0.6"), "rate": 100, "num_conns": 20, "bind": bind,
            }));
            let outcomes = done.outcomes();
            assert_eq!(outcomes.get("ok"), Some(&8), "{outcomes:?}");
            assert_eq!(outcomes.get("port_exhausted"), Some(&12), "{outcomes:?}");
            assert_eq!(done.json()["errors"]["addrunavail"], 12);
            let detail = done.requests.iter().find_map(|one| one.detail.as_deref());
            assert!(detail.unwrap().starts_with("EADDR"), "{detail:?}");
        }
        "routes" => {
            let job = crate::support::load::job(crate::support::load::plan(
                &json!({"kind": "rate", "url": "http://192.0.2.1/", "rate": 100, "num_conns": 3}),
            ));
            let mut outcomes = Vec::new();
            let mut note = |batch: tidemark::measure::sample::Batch| {
                outcomes.extend(batch.requests.into_iter().map(|one| one.outcome));
            };
            let ended =
                tidemark::runner::run(&job, &tidemark::runner::Stop::new(), &mut note).unwrap();
            assert!(!ended.same_host);
            assert_eq!(outcomes, [Outcome::Unreachable; 3]);
        }
        other => panic!("no such part: {other}"),
    }
}

#[test]
fn without_descriptors_requests_end_as_fd_exhausted() {
    let server = Misbehave::start();
    let words = r#"ulimit -n 64; exec "$0" "$@""#;
    elsewhere(words, "descriptors", &server.url("/slow?s=1"));
}

#[test]
fn without_local_ports_requests_end_as_port_exhausted() {
    if namespaces() {
        elsewhere(NETWORK, "ports", "");
        elsewhere(NETWORK, "ports of one address", "");
    }
}

#[test]
fn without_a_route_requests_end_as_unreachable() {
    if namespaces() {
        elsewhere(NETWORK, "routes", "");
    }
}

#[test]
fn a_full_queue_of_the_listener_ends_as_our_connect_timeout() {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let any: std::net::SocketAddr = ([127, 0, 0, 1], 0).into();
    socket.bind(&any.into()).unwrap();
    socket.listen(1).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    let done = go(&json!({
        "kind": "rate", "url": format!("http://{address}/"), "rate": 100, "num_conns": 12, "timeout_s": 0.5,
    }));
    let outcomes = done.outcomes();
    assert!(outcomes["connect_timeout"] > 0, "{outcomes:?}");
    assert!(outcomes["ttfb_timeout"] > 0, "{outcomes:?}");
    for one in &done.requests {
        let connected = one.outcome == Outcome::TtfbTimeout;
        assert_eq!(one.connect.is_some(), connected);
        assert!(one.latency() >= Duration::from_millis(500));
    }
}
