//! Reachability of ports: real iperf and our own receiver behind them, nobody, and firewalls before them.

use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidemark::measure::flow::Way;
use tidemark::measure::plan::throughput::Protocol;
use tidemark::measure::reach::{Listener, Port, Reach, Reached};
use tidemark::runner::Stop;
use tidemark::runner::reach::check;
use tidemark::wire::iperf2::datagram::DatagramHead;
use tidemark::wire::iperf2::header::{Amount, ClientHeader, flag};
use tidemark::wire::own::Own;

use crate::support::netns::{Namespace, Pair, Routed, serve};
use crate::support::throughput::{PATIENCE, Served, go};

fn reach(address: SocketAddr, protocol: Protocol, listener: Listener) -> Reach {
    let port = Port {
        host: address.ip().to_string(),
        number: address.port(),
        protocol,
        listener,
    };
    check(&port, address, &Stop::new())
}

/// Runs inside a namespace: a check.
#[test]
fn inside() {
    serve(|input| {
        let address = input["address"].as_str().unwrap().parse().unwrap();
        let protocol = match input["protocol"].as_str().unwrap() {
            "tcp" => Protocol::Tcp,
            _ => Protocol::Udp,
        };
        json!(reach(address, protocol, Listener::Iperf2))
    });
}

fn reach_in(namespace: &Namespace, address: &str, protocol: &str) -> Value {
    namespace.inside(
        "reach::inside",
        &json!({"address": address, "protocol": protocol}),
    )
}

/// A real iperf server; it ends with the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn is_installed(program: &str) -> bool {
    let found = Command::new(program).arg("-v").output().is_ok();
    if !found {
        crate::support::skip(&format!("{program} is not installed"));
    }
    found
}

fn start(program: &str, arguments: &[&str]) -> Server {
    let child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    Server(child.unwrap())
}

/// A port that nothing listens on, neither TCP nor UDP, at this moment.
fn free_port(ip: IpAddr) -> SocketAddr {
    loop {
        let listener = TcpListener::bind((ip, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        if UdpSocket::bind(address).is_ok() {
            return address;
        }
    }
}

/// Checks again until it is open, as a server that was just started becomes soon.
fn becomes_open(address: SocketAddr, protocol: Protocol) -> Reach {
    let until = Instant::now() + Duration::from_mins(1);
    loop {
        let found = reach(address, protocol, Listener::Iperf2);
        if found.result == Reached::Open {
            return found;
        }
        assert!(Instant::now() < until, "{found:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

const LOOPBACK: [&str; 2] = ["127.0.0.1", "::1"];

#[test]
fn real_iperf_is_open_by_its_protocol_and_refused_by_the_other() {
    if !is_installed("iperf") {
        return;
    }
    for host in LOOPBACK {
        for udp in [false, true] {
            let address = free_port(host.parse().unwrap());
            let port = address.port().to_string();
            let mut arguments = vec!["-s", "-p", &port, "-B", host];
            arguments.extend(address.is_ipv6().then_some("-V"));
            arguments.extend(udp.then_some("-u"));
            let server = start("iperf", &arguments);
            let (its, other) = if udp {
                (Protocol::Udp, Protocol::Tcp)
            } else {
                (Protocol::Tcp, Protocol::Udp)
            };
            let found = becomes_open(address, its);
            assert_eq!((found.advice.as_str(), found.rules.len()), ("", 0));
            // It notices nothing of TCP checks, so it goes on serving; of UDP flows in a row some are lost on it.
            for _ in 0..if udp { 0 } else { 10 } {
                let found = reach(address, its, Listener::Iperf2);
                assert_eq!(found.result, Reached::Open, "{found:?}");
            }
            let found = reach(address, other, Listener::Iperf2);
            assert_eq!(found.result, Reached::Refused, "{found:?}");
            assert!(found.advice.contains("iperf -s"), "{found:?}");
            drop(server);
        }
    }
}

#[test]
fn real_iperf3_is_open_and_serves_a_test_afterwards() {
    if !is_installed("iperf3") {
        return;
    }
    let address = free_port([127, 0, 0, 1].into());
    let port = address.port().to_string();
    let _server = start("iperf3", &["-s", "-p", &port, "-B", "127.0.0.1"]);
    becomes_open(address, Protocol::Tcp);
    let until = Instant::now() + Duration::from_mins(1);
    loop {
        let client = Command::new("iperf3")
            .args(["-c", "127.0.0.1", "-p", &port, "-n", "1K"])
            .output()
            .unwrap();
        if client.status.success() {
            break;
        }
        assert!(Instant::now() < until, "{client:?}");
    }
    // Its UDP port is there only while a test runs.
    let found = reach(address, Protocol::Udp, Listener::Iperf3);
    assert_eq!(found.result, Reached::Refused, "{found:?}");
    assert!(found.advice.contains("only while a test runs"), "{found:?}");
}

#[test]
fn our_own_receiver_is_open_and_keeps_no_test_of_a_check() {
    let served = Served::iperf2();
    let address = served.receiver.local_addr();
    for _ in 0..3 {
        let found = reach(address, Protocol::Udp, Listener::Iperf2);
        assert_eq!(found.result, Reached::Open, "{found:?}");
        let found = reach(address, Protocol::Tcp, Listener::Iperf2);
        assert_eq!(found.result, Reached::Open, "{found:?}");
    }
    assert_eq!(served.settled().begun, 0);
    // A test that follows is one, though the checks came just before.
    let plan = json!({"protocol": "udp", "bytes": 20_000, "bandwidth_bits_per_second": 8e6});
    let done = go(address, &plan);
    assert!(done.failures().is_empty(), "{:?}", done.end);
    let test = served.test(1);
    assert_eq!(test.bytes(Way::Receive), done.streams(Way::Send)[0].bytes);
    assert_eq!(served.settled().begun, 1);
}

#[test]
fn one_port_of_ours_serves_a_check_and_a_test_from_the_same_source() {
    // Whoever checks and then tests may get the same port for both.
    let served = Served::iperf2();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.connect(served.receiver.local_addr()).unwrap();
    let send = |id: i64, probe: bool, seconds: u32| {
        let mut datagram = vec![0; 512];
        let mut header = ClientHeader::plain(1, 5001, Amount::Bytes(1_024));
        header.flags |= flag::SEQNO_64;
        header.own = probe.then_some(Own {
            probe: true,
            ..Own::default()
        });
        header.write_udp(&mut datagram);
        DatagramHead::write(&mut datagram, id, seconds, 0);
        socket.send(&datagram).unwrap();
    };
    let mut answer = [0; 2_048];
    // The end alone is answered too: its first datagram may be lost.
    send(-2, true, 100);
    assert!(socket.recv(&mut answer).unwrap() >= 128);
    send(-3, true, 100);
    assert!(socket.recv(&mut answer).unwrap() >= 128);
    send(1, false, 101);
    send(-2, false, 102);
    assert!(socket.recv(&mut answer).unwrap() >= 128);
    let test = served.test(1);
    assert_eq!(test.bytes(Way::Receive), 1_024);
}

#[test]
fn what_does_not_answer_as_a_receiver_is_said_honestly() {
    // A socket that never says anything: nobody can tell it from a firewall.
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let found = reach(
        silent.local_addr().unwrap(),
        Protocol::Udp,
        Listener::Iperf2,
    );
    assert_eq!(found.result, Reached::NoAnswer);
    assert!(found.sentence.contains("No refusal was seen"), "{found:?}");
    assert!(found.rules[0].command.contains("--allow=udp:"), "{found:?}");
    assert!(
        found.rules[1]
            .command
            .contains("ip saddr 127.0.0.1 udp dport"),
        "{found:?}"
    );
}

#[test]
fn closed_ports_are_refused_at_once() {
    for host in LOOPBACK {
        let address = free_port(host.parse().unwrap());
        for protocol in [Protocol::Tcp, Protocol::Udp] {
            let found = reach(address, protocol, Listener::Iperf2);
            assert_eq!(found.result, Reached::Refused, "{found:?}");
            assert!(found.sentence.contains("nothing listens"), "{found:?}");
            assert!(found.rules.is_empty());
        }
    }
}

#[test]
fn firewalls_that_drop_are_told_from_nobody_listening() {
    let Some(pair) = Pair::new(1_500) else { return };
    let far = &pair.far;
    far.run("nft add table inet t");
    far.run("nft add chain inet t in { type filter hook input priority 0 ; }");
    for protocol in ["tcp", "udp"] {
        far.run(&format!("nft add rule inet t in {protocol} dport 81 drop"));
        far.run(&format!(
            "nft add rule inet t in {protocol} dport 82 reject with icmpx type admin-prohibited"
        ));
    }
    for (host, source) in [
        ("10.77.0.2", "ip saddr 10.77.0.1"),
        ("[fd77::2]", "ip6 saddr fd77::1"),
    ] {
        for protocol in ["tcp", "udp"] {
            let found = reach_in(&pair.near, &format!("{host}:80"), protocol);
            assert_eq!(found["result"], "refused", "{found}");
            let found = reach_in(&pair.near, &format!("{host}:81"), protocol);
            assert_eq!(found["result"], "no_answer", "{found}");
            let rule = found["rules"][1]["command"].as_str().unwrap();
            assert!(
                rule.contains(&format!("{source} {protocol} dport 81 accept")),
                "{rule}"
            );
            let found = reach_in(&pair.near, &format!("{host}:82"), protocol);
            assert_eq!(found["result"], "no_answer", "{found}");
            let sentence = found["sentence"].as_str().unwrap();
            assert!(sentence.contains("reports"), "{found}");
        }
    }
    // The rule that is offered lets it through.
    far.run("nft flush chain inet t in");
    far.run("nft add chain inet t in { policy drop ; }");
    far.run("nft add table inet filter");
    far.run("nft flush chain inet t in");
    far.run("nft delete table inet t");
    far.run(
        "nft add chain inet filter input { type filter hook input priority 0 ; policy drop ; }",
    );
    let found = reach_in(&pair.near, "10.77.0.2:83", "tcp");
    assert_eq!(found["result"], "no_answer", "{found}");
    let rules = found["rules"].as_array().unwrap();
    let rule = rules.iter().find(|rule| rule["for"] == "nftables").unwrap();
    far.run("nft add rule inet filter input meta l4proto icmp accept");
    far.run(rule["command"].as_str().unwrap());
    let found = reach_in(&pair.near, "10.77.0.2:83", "tcp");
    assert_eq!(found["result"], "refused", "{found}");
}

#[test]
fn without_a_way_the_sentence_says_who_says_so() {
    let Some(routed) = Routed::new(1_500, 1_500) else {
        return;
    };
    routed.router.run("sysctl -q -w net.ipv4.icmp_ratelimit=0");
    routed.router.ip("route add unreachable 10.99.0.0/16");
    for protocol in ["tcp", "udp"] {
        let found = reach_in(&routed.near, "10.99.0.1:80", protocol);
        assert_eq!(found["result"], "no_answer", "{found}");
        let sentence = found["sentence"].as_str().unwrap();
        assert!(sentence.contains("cannot be reached"), "{found}");
    }
    routed.near.ip("route del default");
    for protocol in ["tcp", "udp"] {
        let found = reach_in(&routed.near, "10.99.0.1:80", protocol);
        assert_eq!(found["result"], "no_answer", "{found}");
        let sentence = found["sentence"].as_str().unwrap();
        assert!(sentence.contains("no route from this machine"), "{found}");
    }
}
