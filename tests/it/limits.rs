//! What limited a throughput run, in networks that are limited in a known way.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::lab::{B, Lab, Quota};
use crate::support::process::Program;

/// What the cable is held to where it is: low enough for a busy machine to fill.
const HELD: f64 = 200e6;

fn cause(run: &Value) -> &str {
    assert_eq!(run["state"], "finished", "{run:#}");
    run["summary"]["limited_by"].as_str().unwrap_or("nothing")
}

/// Sends for some seconds to the receiver on the other side.
fn plan(more: &Value) -> Value {
    let mut plan = json!({"kind": "throughput", "host": B, "duration_s": 8});
    for (key, value) in more.as_object().unwrap() {
        plan[key] = value.clone();
    }
    plan
}

#[test]
fn a_token_bucket_is_the_documented_cap_where_one_is_known_and_a_shaper_where_none_is() {
    let Some(lab) = Lab::cabled(1500) else { return };
    lab.near
        .run("tc qdisc add dev eth0 root tbf rate 200mbit burst 64kb latency 20ms");
    let _receiver = lab.receiver();
    for (flags, expected) in [
        (&["--egress-cap", "200M"][..], "egress_cap"),
        (&[][..], "shaper"),
    ] {
        let sender = lab.sender(flags);
        let run = lab.measure(&sender, &plan(&json!({})));
        assert_eq!(cause(&run), expected, "{run:#}");
        let rate = run["summary"]["bits_per_second"].as_f64().unwrap();
        assert!(rate < HELD, "more than the bucket lets through: {run:#}");
        assert_eq!(run["limits"][0]["cause"], expected);
        assert!(run["verdict"].as_str().is_some_and(|text| !text.is_empty()));
    }
}

/// Two gigabits a second, as a cloud gives each virtual CPU. Other tests may need the cores for a while, and then
/// they are the limit and rightly named: so the bucket has three chances to be it.
#[test]
fn two_gigabits_a_second_are_reached_and_their_cap_is_named() {
    let Some(lab) = Lab::cabled(1500) else { return };
    lab.near
        .run("tc qdisc add dev eth0 root tbf rate 2gbit burst 4mb latency 20ms");
    let _receiver = lab.receiver();
    for (flags, expected) in [
        (&["--egress-cap", "2G"][..], "egress_cap"),
        (&[][..], "shaper"),
    ] {
        let sender = lab.sender(flags);
        let mut runs = Vec::new();
        let reached = (0..3).any(|_| {
            let run = lab.measure(&sender, &plan(&json!({})));
            let rate = run["summary"]["bits_per_second"].as_f64().unwrap();
            assert!(rate < 2e9, "more than the bucket lets through: {run:#}");
            let as_expected = cause(&run) == expected && rate >= 1.9e9;
            runs.push(run);
            as_expected
        });
        assert!(reached, "never {expected} at 1.9 to 2.0 Gbit/s: {runs:#?}");
    }
}

#[test]
fn a_bandwidth_that_was_asked_for_and_reached_is_named() {
    let Some(lab) = Lab::cabled(1500) else { return };
    let _receiver = lab.receiver();
    let sender = lab.sender(&[]);
    for protocol in ["tcp", "udp"] {
        let run = lab.measure(
            &sender,
            &plan(
                &json!({"protocol": protocol, "bandwidth_bits_per_second": 10e6, "duration_s": 3}),
            ),
        );
        assert_eq!(cause(&run), "bandwidth_asked", "{run:#}");
        let rate = run["summary"]["bits_per_second"].as_f64().unwrap();
        assert!(rate < 11e6, "{run:#}");
        let evidence = run["limits"][0]["evidence"].as_str().unwrap();
        assert!(evidence.contains("asked for"), "{evidence}");
    }
}

#[test]
fn a_cpu_quota_of_the_sender_is_named() {
    // Not in namespaces of their own: inside them the quota's account cannot be read.
    let receiver = Program::start(&["--receiver", "127.0.0.1:0"]);
    let port = receiver.addresses("receiver")[0].port();
    let sender = Program::start(&[]);
    let Some(_quota) = Quota::of(sender.pid(), 10) else {
        eprintln!("note: no CPU quota can be set on this machine");
        return;
    };
    let run =
        crate::received::measured(&sender, &plan(&json!({"host": "127.0.0.1", "port": port})));
    assert_eq!(cause(&run), "cgroup", "{run:#}");
}

#[test]
fn random_loss_under_cubic_is_congestion() {
    let Some(lab) = Lab::cabled(1500) else { return };
    lab.far.run("nft add table inet t");
    let chain = [
        "nft",
        "add",
        "chain",
        "inet",
        "t",
        "i",
        "{ type filter hook input priority 0 ; }",
    ];
    assert!(lab.far.command(&chain).status().unwrap().success());
    lab.far
        .run("nft add rule inet t i tcp dport 5001 numgen random mod 100 < 3 drop");
    let _receiver = lab.receiver();
    let sender = lab.sender(&[]);
    let run = lab.measure(&sender, &plan(&json!({"congestion": "cubic"})));
    assert_eq!(cause(&run), "congestion", "{run:#}");
    assert!(run["summary"]["retransmits"].as_u64() > Some(0), "{run:#}");
}

#[test]
fn a_small_window_over_a_long_way_is_the_window() {
    let Some(lab) = Lab::delayed(Duration::from_millis(25)) else {
        return;
    };
    let _receiver = lab.receiver();
    let sender = lab.sender(&[]);
    let run = lab.measure(
        &sender,
        &plan(&json!({"window_bytes": 16_384, "duration_s": 6})),
    );
    assert!(
        matches!(cause(&run), "receiver_window" | "send_buffer"),
        "{run:#}"
    );
    assert_eq!(run["summary"]["window_bytes"]["asked"], 16_384);
    assert!(
        run["summary"]["rtt_ms"]["idle"]["min"].as_f64() > Some(49.0),
        "{run:#}"
    );
}

#[test]
fn a_program_that_reads_slowly_is_the_receiving_application() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            std::thread::spawn(move || {
                let mut buffer = vec![0; 32 << 10];
                while connection.read(&mut buffer).is_ok_and(|read| read > 0) {
                    std::thread::sleep(Duration::from_millis(5));
                }
                let _ = connection.flush();
            });
        }
    });
    let program = Program::start(&[]);
    let run = crate::received::measured(
        &program,
        &json!({"kind": "throughput", "host": "127.0.0.1", "port": port, "duration_s": 5, "interval_s": 0.5}),
    );
    assert_eq!(cause(&run), "receiver_application", "{run:#}");
}
