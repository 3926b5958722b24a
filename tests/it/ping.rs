//! Pings by ICMP and by TCP connect: against loopback, against namespaces that lose, copy or refuse packets, and
//! beside the real ping.

use std::io::Read;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use serde_json::{Value, json};
use socket2::{Domain, Protocol, Socket, Type};
use tidemark::measure::flow::{FlowBatch, FlowEnd};
use tidemark::measure::plan::{Caps, ping};
use tidemark::measure::run::{Environment, Severity};
use tidemark::measure::summary::flow::PingSummary;
use tidemark::measure::summary::ping::PingFold;
use tidemark::measure::verdict::judge_ping;
use tidemark::net::icmp::{IcmpKind, icmp_allowed};
use tidemark::runner::Stop;
use tidemark::runner::ping::{PingJob, run};
use tidemark::wire::icmp::{self, Version};

use crate::support::netns::{Namespace, Pair, Routed, serve};
use crate::support::skip;

/// What a ping left behind.
struct Done {
    end: FlowEnd,
    summary: PingSummary,
    /// Title and verdict.
    words: String,
}

/// Pings an address by this plan; the host is filled in.
fn go(address: SocketAddr, plan: &Value) -> Result<Done, String> {
    go_until(address, plan, &Stop::new(), |_| ())
}

fn go_until(
    address: SocketAddr,
    plan: &Value,
    stop: &Stop,
    mut seen: impl FnMut(&FlowBatch),
) -> Result<Done, String> {
    let mut plan = plan.clone();
    plan["host"] = json!(address.ip().to_string());
    let plan = ping::from_json(plan.as_object().unwrap(), &Caps::default()).unwrap();
    let job = PingJob {
        plan: plan.clone(),
        address,
    };
    let mut fold = PingFold::new(&plan);
    let mut numbers = Vec::new();
    let mut until = Duration::ZERO;
    let end = run(&job, stop, &mut |batch| {
        assert!(batch.until >= until, "batches go back in time");
        until = batch.until;
        numbers.extend(batch.echoes.iter().map(|echo| echo.seq));
        fold.push(&batch);
        seen(&batch);
    })
    .map_err(|error| error.to_string())?;
    numbers.sort_unstable();
    let each_once = numbers.windows(2).all(|pair| pair[0] < pair[1]);
    assert!(each_once, "{numbers:?}");
    if !end.stopped {
        assert_eq!(numbers.len(), plan.count as usize);
    }
    let summary = fold.summary(&end);
    let series = fold.series(&end);
    assert!(series.echoes.is_sorted_by_key(|echo| echo.seq));
    let judgement = judge_ping(&plan, &summary, &series, &end, &Environment::default());
    for check in &judgement.checks {
        let wrong = check.ok == Some(false) && check.severity == Severity::Fail;
        assert!(!wrong, "{check:?}");
    }
    Ok(Done {
        end,
        summary,
        words: format!("{}. {}", judgement.title, judgement.verdict),
    })
}

impl Done {
    fn counts(&self) -> (u64, u64, u64) {
        let summary = &self.summary;
        (summary.transmitted, summary.received, summary.duplicates)
    }

    fn json(&self) -> Value {
        json!({
            "counts": self.counts(),
            "ttl": self.summary.ttl,
            "address": self.summary.address,
            "remarks": self.end.remarks,
            "words": self.words,
            "kind": icmp_allowed().map(IcmpKind::word),
        })
    }
}

/// Runs inside a namespace: a ping.
#[test]
fn inside() {
    serve(|input| {
        let address = input["address"].as_str().unwrap().parse().unwrap();
        match go(address, &input["plan"]) {
            Ok(done) => done.json(),
            Err(error) => json!({"error": error, "allowed": icmp_allowed().err()}),
        }
    });
}

fn ping_in(namespace: &Namespace, address: &str, plan: &Value) -> Value {
    namespace.inside("ping::inside", &json!({"address": address, "plan": plan}))
}

/// Many probes in little time, none of which may be lost to a busy machine.
fn quick(count: u32) -> Value {
    json!({"count": count, "interval_s": 0.01, "timeout_s": 30})
}

/// The counts that ping prints: transmitted and received.
fn printed(text: &str) -> (u64, u64) {
    let line = text
        .lines()
        .find(|line| line.contains("packets transmitted"))
        .unwrap_or_else(|| panic!("no counts in {text:?}"));
    let number = |part: &str| -> u64 {
        let part = line.split(',').find(|one| one.contains(part)).unwrap();
        part.split_whitespace().next().unwrap().parse().unwrap()
    };
    (number("transmitted"), number("received"))
}

fn icmp_here() -> bool {
    icmp_allowed()
        .inspect_err(|why| skip(&format!("ICMP is not permitted here: {why}")))
        .is_ok()
}

#[test]
fn loopback_answers_every_echo_of_every_size() {
    if !icmp_here() {
        return;
    }
    for address in ["127.0.0.1:0", "[::1]:0"] {
        for size in [0, 1, 56, 1_473, 65_000] {
            let mut plan = quick(4);
            plan["size_bytes"] = json!(size);
            let done = go(address.parse().unwrap(), &plan).unwrap();
            assert_eq!(done.counts(), (4, 4, 0), "{address} {size}");
            assert_eq!(done.summary.ttl, Some(64));
            assert_eq!(done.summary.rtt_ms.figures.count, 4);
            assert!(done.summary.rtt_ms.figures.min.unwrap() > 0.0);
            assert!(done.end.same_host);
            assert_eq!(done.end.remarks, [""; 0]);
        }
    }
}

#[test]
fn a_slow_first_packet_stays_in_the_figures() {
    // The first waits for the neighbour's hardware address, so it cannot be the fastest of a pair's first pings;
    // that it is there and counted is what matters.
    let Some(pair) = Pair::new(1_500) else { return };
    let result = ping_in(&pair.near, "10.77.0.2:0", &quick(20));
    assert_eq!(result["counts"], json!([20, 20, 0]), "{result}");
    assert_eq!(result["ttl"], 64);
    assert_eq!(result["address"], "10.77.0.2");
    let result = ping_in(&pair.near, "[fd77::2]:0", &quick(20));
    assert_eq!(result["counts"], json!([20, 20, 0]), "{result}");
}

#[test]
fn losses_are_those_of_the_real_ping() {
    let Some(pair) = Pair::new(1_500) else { return };
    // The neighbours learn of each other before packets are counted.
    pair.near.run("ping -c 1 -W 30 10.77.0.2");
    pair.near.run("ping -c 1 -W 30 fd77::2");
    pair.far.run("nft add table inet t");
    pair.far
        .run("nft add chain inet t in { type filter hook input priority 0 ; }");
    for (kind, address) in [("icmp", "10.77.0.2"), ("icmpv6", "fd77::2")] {
        pair.far.run("nft flush chain inet t in");
        let rule =
            format!("nft add rule inet t in {kind} type echo-request numgen inc mod 3 == 0 drop");
        if !pair.far.can(&rule) {
            skip("this kernel's nftables cannot count packets (numgen)");
            return;
        }
        let real = pair
            .near
            .output(&format!("ping -c 9 -i 0.01 -W 5 {address}"));
        let real = printed(&String::from_utf8_lossy(&real.stdout));
        assert_eq!(real, (9, 6));
        let plan = json!({"count": 9, "interval_s": 0.01, "timeout_s": 2});
        let target = SocketAddr::new(address.parse().unwrap(), 0).to_string();
        let ours = ping_in(&pair.near, &target, &plan);
        assert_eq!(ours["counts"], json!([9, 6, 0]), "{ours}");
        let words = ours["words"].as_str().unwrap();
        assert!(words.contains("3 of 9 lost"), "{words}");
    }
}

/// Runs inside a namespace: answers every echo request as often as the input says, until it is ended.
#[test]
fn answerer() {
    serve(|input| {
        let times = input["times"].as_u64().unwrap();
        let mut socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4)).unwrap();
        let mut buffer = [0; 2_048];
        loop {
            let Ok(length) = socket.read(&mut buffer) else {
                continue;
            };
            let packet = &buffer[..length];
            let Some(icmp::Packet {
                source,
                message: icmp::Message::Request(echo),
                ..
            }) = icmp::read_packet(packet)
            else {
                continue;
            };
            let mut reply = Vec::new();
            icmp::write_request(Version::V4, echo.id, echo.seq, echo.payload, &mut reply);
            reply[0] = 0;
            reply[2..4].fill(0);
            let sum = icmp::checksum(&reply).to_be_bytes();
            reply[2..4].copy_from_slice(&sum);
            for _ in 0..times {
                let to = SocketAddr::from((source, 0));
                let _ = socket.send_to(&reply, &to.into());
            }
        }
    });
}

#[test]
fn copies_of_an_answer_are_duplicates() {
    let Some(pair) = Pair::new(1_500) else { return };
    pair.far.run("sysctl -q -w net.ipv4.icmp_echo_ignore_all=1");
    let answerer = pair.far.start("ping::answerer", &json!({"times": 3}));
    // It answers as soon as it listens.
    while !pair.near.can("ping -c 1 -W 1 10.77.0.2") {}
    // The answers to the last probe may come when the ping is over; all others are waited for.
    let plan = json!({"count": 4, "interval_s": 1, "timeout_s": 30});
    let result = ping_in(&pair.near, "10.77.0.2:0", &plan);
    drop(answerer);
    assert_eq!(result["counts"][0], 4, "{result}");
    assert_eq!(result["counts"][1], 4, "{result}");
    let duplicates = result["counts"][2].as_u64().unwrap();
    assert!((6..=8).contains(&duplicates), "{result}");
    assert!(
        result["words"].as_str().unwrap().contains("uplicate"),
        "{result}"
    );
}

#[test]
fn who_is_unreachable_is_said_by_whom() {
    let Some(routed) = Routed::new(1_500, 1_500) else {
        return;
    };
    // A router limits such reports; none may be left out here.
    routed
        .router
        .run("sysctl -q -w net.ipv4.icmp_ratelimit=0 net.ipv6.icmp.ratelimit=0");
    routed.router.ip("route add unreachable 10.99.0.0/16");
    routed.router.ip("-6 route add unreachable fd99::/64");
    let plan = json!({"count": 2, "interval_s": 0.01, "timeout_s": 30});
    for (target, router) in [("10.99.0.1:0", "10.77.0.2"), ("[fd99::1]:0", "fd77::2")] {
        let result = ping_in(&routed.near, target, &plan);
        assert_eq!(result["counts"], json!([2, 0, 0]), "{result}");
        let words = result["words"].as_str().unwrap();
        assert!(
            words.contains(router) && words.contains("unreachable"),
            "{result}"
        );
    }
    // A time to live that ends at the router.
    routed.near.run("sysctl -q -w net.ipv4.ip_default_ttl=1");
    let result = ping_in(&routed.near, "10.77.1.2:0", &plan);
    let words = result["words"].as_str().unwrap();
    assert!(
        words.contains("10.77.0.2 reports: time to live exceeded"),
        "{result}"
    );
    routed.near.run("sysctl -q -w net.ipv4.ip_default_ttl=64");
    let result = ping_in(&routed.near, "10.77.1.2:0", &plan);
    assert_eq!(result["ttl"], 63, "{result}");
    // No route at all.
    routed.near.ip("route del default");
    for plan in [
        json!({"count": 1}),
        json!({"count": 1, "method": "tcp", "port": 80}),
    ] {
        let result = ping_in(&routed.near, "10.99.0.1:0", &plan);
        let error = result["error"].as_str().unwrap();
        assert!(
            error.contains("no route from this machine to 10.99.0.1"),
            "{result}"
        );
    }
}

#[test]
fn without_permission_the_sentence_names_the_setting_and_with_it_no_privilege_is_needed() {
    let Some(namespace) = Namespace::new() else {
        return;
    };
    namespace.run("sysctl -q -w net.ipv4.ping_group_range=1\t0");
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let input = json!({"address": address, "plan": quick(3)});
        let refused = namespace.inside_as_nobody("ping::inside", &input);
        let error = refused["error"].as_str().unwrap();
        for words in [
            "net.ipv4.ping_group_range=\"65534 65534\"",
            "CAP_NET_RAW",
            "set method to tcp",
        ] {
            assert!(error.contains(words), "{error}");
        }
        assert_eq!(refused["allowed"], refused["error"]);
    }
    namespace.run("sysctl -q -w net.ipv4.ping_group_range=65534\t65534");
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let input = json!({"address": address, "plan": quick(3)});
        let allowed = namespace.inside_as_nobody("ping::inside", &input);
        assert_eq!(allowed["counts"], json!([3, 3, 0]), "{allowed}");
        assert_eq!(allowed["kind"], json!({"Ok": "datagram"}));
        assert_eq!(allowed["ttl"], 64);
    }
}

#[test]
fn open_and_closed_ports_both_answer_connects() {
    for host in ["127.0.0.1", "::1"] {
        let listener = TcpListener::bind((host, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let mut plan = quick(5);
        plan["method"] = json!("tcp");
        plan["port"] = json!(address.port());
        let done = go(address, &plan).unwrap();
        assert_eq!(done.counts(), (5, 5, 0));
        assert_eq!(done.summary.ttl, None);
        assert_eq!(done.summary.method, "tcp");
        // Whoever listens is not woken for them, unless this thread was held up for long.
        listener.set_nonblocking(true).unwrap();
        while let Ok((mut stream, _)) = listener.accept() {
            stream.set_nonblocking(false).unwrap();
            let mut byte = [0];
            assert!(!matches!(stream.read(&mut byte), Ok(1)));
        }
        drop(listener);
        let done = go(address, &plan).unwrap();
        assert_eq!(done.counts(), (5, 5, 0), "{:?}", done.end.remarks);
    }
}

#[test]
fn connects_that_a_firewall_drops_are_lost() {
    let Some(namespace) = Namespace::new() else {
        return;
    };
    namespace.run("nft add table inet t");
    namespace.run("nft add chain inet t in { type filter hook input priority 0 ; }");
    namespace.run("nft add rule inet t in tcp dport 81 drop");
    let plan =
        json!({"count": 3, "interval_s": 0.01, "timeout_s": 0.3, "method": "tcp", "port": 81});
    let result = ping_in(&namespace, "127.0.0.1:0", &plan);
    assert_eq!(result["counts"], json!([3, 0, 0]), "{result}");
    assert!(
        result["words"]
            .as_str()
            .unwrap()
            .contains("a firewall drops"),
        "{result}"
    );
}

#[test]
fn a_stop_ends_it_with_what_it_has() {
    if !icmp_here() {
        return;
    }
    let stop = Stop::new();
    let plan = json!({"count": 100_000, "interval_s": 0.01, "timeout_s": 30});
    let done = go_until("127.0.0.1:0".parse().unwrap(), &plan, &stop, |batch| {
        if batch.echoes.iter().any(|echo| echo.seq >= 3) {
            stop.stop();
        }
    })
    .unwrap();
    assert!(done.end.stopped);
    let (transmitted, received, _) = done.counts();
    assert!((3..100_000).contains(&transmitted), "{transmitted}");
    assert_eq!(transmitted, received);
    assert!(done.words.contains("answers"), "{}", done.words);
}

#[test]
fn a_sleep_of_the_machine_loses_nothing_that_came() {
    if !icmp_here() {
        return;
    }
    // The answers wait in the socket while the thread that reads them is held up past their timeout.
    let plan = json!({"count": 30, "interval_s": 0.01, "timeout_s": 0.1});
    let mut held = false;
    let done = go_until("127.0.0.1:0".parse().unwrap(), &plan, &Stop::new(), |_| {
        if !std::mem::replace(&mut held, true) {
            std::thread::sleep(Duration::from_millis(300));
        }
    })
    .unwrap();
    assert_eq!(done.counts(), (30, 30, 0));
}
