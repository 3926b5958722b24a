//! Troubles that users of iperf reported, each with what is right: firewalls, shapers, peers that vanish or stall.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidemark::measure::flow::Way;
use tidemark::measure::run::Environment;
use tidemark::measure::summary::throughput::ThroughputFold;
use tidemark::measure::verdict::judge_flow;
use tidemark::runner::Stop;
use tidemark::wire::iperf2::datagram::DatagramHead;
use tidemark::wire::iperf3::{Results, frame};

use crate::support::lab::{B, Lab};
use crate::support::netns::{Namespace, Pair, Running, serve};
use crate::support::throughput::{
    Done, PATIENCE, Served, fake, free_port, go, go_until, has, plan_of,
};

const NEAR: &str = "throughput_cases::a_client_in_a_namespace";

/// Our client, where a test has it run.
#[test]
fn a_client_in_a_namespace() {
    serve(|input| {
        let address: SocketAddr = input["address"].as_str().unwrap().parse().unwrap();
        let done = go(address, &input["plan"]);
        let mut fold = ThroughputFold::new(&plan_of(address, &input["plan"]));
        for batch in &done.batches {
            fold.push(batch);
        }
        let summary = fold.summary(&done.end);
        json!({
            "failures": done.failures(),
            "remarks": done.end.remarks,
            "duration_s": done.end.duration.as_secs_f64(),
            "bits_per_second": summary.bits_per_second,
            "bytes": done.end.streams.iter().map(|end| end.bytes).collect::<Vec<_>>(),
            "reported": done.end.streams.iter().map(|end| end.udp.is_some()).collect::<Vec<_>>(),
        })
    });
}

/// A real server on port 5001 of a namespace, once it listens.
fn listen(far: &Namespace, words: &[&str], table: &str) -> Running {
    listening(far, words, &format!("/proc/net/{table}"), ":1389 ")
}

/// The same on a TCP port, IPv4 or IPv6, that is given in hexadecimal as the system's table has it.
fn listen_on(far: &Namespace, words: &[&str], port: &str) -> Running {
    listening(far, words, "/proc/net/tcp /proc/net/tcp6", port)
}

fn listening(far: &Namespace, words: &[&str], tables: &str, port: &str) -> Running {
    let running = Running::new(far.command(words));
    let until = Instant::now() + PATIENCE;
    while !far.run(&format!("cat {tables}")).contains(port) {
        assert!(Instant::now() < until, "{words:?} does not listen");
        thread::sleep(Duration::from_millis(10));
    }
    running
}

fn input(plan: &Value) -> Value {
    json!({"address": "10.77.0.2:5001", "plan": plan})
}

#[test]
fn a_peer_that_vanishes_ends_the_run_with_what_there_is() {
    if !has("iperf") {
        return;
    }
    for direction in ["send", "receive"] {
        let Some(pair) = Pair::new(1_500) else {
            return;
        };
        let _server = listen(&pair.far, &["iperf", "-s"], "tcp");
        let plan =
            json!({"duration_s": 120, "bandwidth_bits_per_second": 50e6, "direction": direction});
        let client = pair.near.start(NEAR, &input(&plan));
        let until = Instant::now() + PATIENCE;
        let moved = || -> u64 {
            let count = pair.far.run("cat /sys/class/net/eth0/statistics/rx_bytes /sys/class/net/eth0/statistics/tx_bytes");
            count
                .lines()
                .filter_map(|line| line.parse::<u64>().ok())
                .max()
                .unwrap_or(0)
        };
        while moved() < 3_000_000 {
            assert!(Instant::now() < until);
            thread::sleep(Duration::from_millis(50));
        }
        pair.far.ip("link set eth0 down");
        let told = client.result();
        assert_eq!(told["failures"], json!([]), "{direction} {told}");
        let remark = told["remarks"][0].as_str().unwrap();
        assert!(remark.contains("moved nothing for 10 s"), "{told}");
        assert!(told["bytes"][0].as_u64().unwrap() > 1_000_000, "{told}");
        assert!(told["duration_s"].as_f64().unwrap() < 110.0, "{told}");
    }
}

#[test]
fn no_more_is_claimed_than_a_slow_link_carried() {
    if !has("iperf") {
        return;
    }
    let Some(pair) = Pair::new(1_500) else {
        return;
    };
    if !pair
        .near
        .can("tc qdisc add dev eth0 root tbf rate 1mbit burst 3000 latency 200ms")
    {
        crate::support::skip("this kernel has no token bucket");
        return;
    }
    let _server = listen(&pair.far, &["iperf", "-s"], "tcp");
    let told = pair
        .near
        .inside(NEAR, &input(&json!({"duration_s": 3, "interval_s": 0.5})));
    assert_eq!(told["failures"], json!([]), "{told}");
    let rate = told["bits_per_second"].as_f64().unwrap();
    // The buffer of the sending socket alone holds more than the link carries in that time.
    assert!(rate > 0.0 && rate <= 1.05e6, "{told}");
}

#[test]
fn a_blocked_report_is_no_loss() {
    if !has("iperf") {
        return;
    }
    for hook in ["input", "output"] {
        let Some(pair) = Pair::new(1_500) else {
            return;
        };
        let (far, near) = (&pair.far, &pair.near);
        if !far.can("nft add table inet t") {
            crate::support::skip("nft cannot be used here");
            return;
        }
        far.run(&format!(
            "nft add chain inet t c {{ type filter hook {hook} priority 0 ; }}"
        ));
        // What comes is dropped on the way in, or only the report on the way out.
        let port = if hook == "input" { "dport" } else { "sport" };
        far.run(&format!("nft add rule inet t c udp {port} 5001 drop"));
        let _server = listen(far, &["iperf", "-s", "-u"], "udp");
        let plan = json!({"protocol": "udp", "duration_s": 0.5, "bandwidth_bits_per_second": 2e6});
        let told = near.inside(NEAR, &input(&plan));
        assert_eq!(told["failures"], json!([]), "{told}");
        assert_eq!(
            told["remarks"],
            json!(["No server report; sender-side numbers only."]),
            "{told}"
        );
        assert_eq!(told["reported"], json!([false]), "{told}");
        // What only the sender says is no throughput.
        assert_eq!(told["bits_per_second"], Value::Null, "{told}");
    }
}

#[test]
fn a_server_that_cannot_connect_back_is_named() {
    let sink = fake(|mut socket| {
        let _ = std::io::copy(&mut socket, &mut std::io::sink());
    });
    let done = go(sink, &json!({"direction": "in_turn", "bytes": 100_000}));
    assert_eq!(done.streams(Way::Send)[0].failed, None);
    let why = done.streams(Way::Receive)[0].failed.clone().unwrap();
    assert!(why.contains("must be able to reach port"), "{why}");
}

#[test]
fn streams_that_are_not_served_are_failures_beside_the_others() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let mut served = Vec::new();
        for mut socket in listener.incoming().map_while(Result::ok).take(2) {
            served.push(thread::spawn(move || {
                let _ = std::io::copy(&mut socket, &mut std::io::sink());
            }));
        }
        // What waits to be accepted is reset.
        drop(listener);
        for thread in served {
            let _ = thread.join();
        }
    });
    let done = go(address, &json!({"streams": 4, "bytes": 1_000_000}));
    assert_eq!(done.failures().len(), 2, "{:?}", done.end);
    let good: Vec<_> = done
        .end
        .streams
        .iter()
        .filter(|end| end.failed.is_none())
        .collect();
    assert!(
        good.iter().all(|end| end.peer_bytes == Some(1_000_000)),
        "{:?}",
        done.end
    );
    let plan = plan_of(address, &json!({"streams": 4, "bytes": 1_000_000}));
    let mut fold = ThroughputFold::new(&plan);
    for batch in &done.batches {
        fold.push(batch);
    }
    assert_eq!(fold.summary(&done.end).bytes_received, Some(2_000_000));
}

#[test]
fn a_window_that_is_not_granted_is_said_with_its_setting() {
    let sink = fake(|mut socket| {
        let _ = std::io::copy(&mut socket, &mut std::io::sink());
    });
    let asked = 2_000_000_000_u64;
    let done = go(sink, &json!({"bytes": 1_000_000, "window_bytes": asked}));
    let (given, got) = done.end.send_buffer;
    assert_eq!(given, Some(asked));
    assert!(got.is_some_and(|got| got < asked), "{:?}", done.end);
    assert!(
        done.end.remarks[0].contains("net.core.wmem_max"),
        "{:?}",
        done.end.remarks
    );
}

#[test]
fn what_the_receiving_socket_drops_is_told_apart_from_loss_on_the_way() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    thread::spawn(move || {
        let mut buffer = [0; 2_048];
        let Ok((_, from)) = socket.recv_from(&mut buffer) else {
            return;
        };
        // A burst that no small buffer holds, then the end, several times.
        let mut datagram = vec![b'0'; 1_000];
        for id in 1..=2_000_i64 {
            DatagramHead::write(&mut datagram, id, 1, 0);
            let _ = socket.send_to(&datagram, from);
        }
        for _ in 0..50 {
            thread::sleep(Duration::from_millis(100));
            DatagramHead::write(&mut datagram, -2_001, 2, 0);
            let _ = socket.send_to(&datagram, from);
        }
    });
    let plan = json!({"protocol": "udp", "direction": "receive", "window_bytes": 4_096, "length_bytes": 1_000, "duration_s": 5});
    let done = go(address, &plan);
    let udp = done.streams(Way::Receive)[0].udp.unwrap();
    assert_eq!(udp.datagrams, 2_001);
    assert!(udp.lost > 0, "{udp:?}");
    assert_eq!(udp.dropped_by_receiver, Some(udp.lost), "{udp:?}");
}

#[test]
fn a_stream_that_stood_still_is_named_and_does_not_dilute_the_headline() {
    let count = Arc::new(AtomicUsize::new(0));
    let server = fake(move |mut socket| {
        let number = count.fetch_add(1, Ordering::Relaxed);
        let _ = socket2::SockRef::from(&socket).set_recv_buffer_size(32 << 10);
        let begun = Instant::now();
        let mut has_rested = number != 1;
        let mut buffer = [0; 16 << 10];
        while socket.read(&mut buffer).is_ok_and(|count| count > 0) {
            if !has_rested && begun.elapsed() > Duration::from_millis(1_500) {
                has_rested = true;
                thread::sleep(Duration::from_secs(3));
            }
        }
    });
    let plan = json!({"streams": 3, "duration_s": 7, "interval_s": 0.5, "bandwidth_bits_per_second": 80e6, "window_bytes": 65_536});
    let done = go(server, &plan);
    assert!(done.failures().is_empty(), "{:?}", done.end);
    let title = title(server, &plan, &done);
    assert!(title.contains("stood still"), "{title}");
}

/// The run's sentence.
fn title(address: SocketAddr, plan: &Value, done: &Done) -> String {
    let plan = plan_of(address, plan);
    let mut fold = ThroughputFold::new(&plan);
    for batch in &done.batches {
        fold.push(batch);
    }
    let (summary, series) = (fold.summary(&done.end), fold.series(&done.end));
    format!(
        "{:?}",
        judge_flow(&plan, &summary, &series, &done.end, &Environment::default()).title
    )
}

/// The part of an iperf 3 server before the streams: parameters read, streams asked for, test begun.
fn begin_iperf3(socket: &mut std::net::TcpStream) -> Vec<u8> {
    socket.write_all(&[9]).unwrap();
    let text = message(socket);
    socket.write_all(&[10]).unwrap();
    socket.write_all(&[1, 2]).unwrap();
    text
}

fn message(socket: &mut std::net::TcpStream) -> Vec<u8> {
    let mut length = [0; 4];
    socket.read_exact(&mut length).unwrap();
    let mut text = vec![0; u32::from_be_bytes(length) as usize];
    socket.read_exact(&mut text).unwrap();
    text
}

/// An iperf 3 server whose control connection is served by `control`; its streams are read.
fn fake_iperf3(control: impl Fn(std::net::TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let count = AtomicUsize::new(0);
    fake(move |mut socket| {
        let mut cookie = [0; 37];
        if socket.read_exact(&mut cookie).is_err() {
            return;
        }
        if count.fetch_add(1, Ordering::Relaxed) == 0 {
            control(socket);
        } else {
            let _ = std::io::copy(&mut socket, &mut std::io::sink());
        }
    })
}

#[test]
fn a_control_connection_that_dies_leaves_this_ends_figures() {
    // Closed and reset, in the middle of the test and before the results.
    for reset in [false, true] {
        for late in [false, true] {
            let server = fake_iperf3(move |mut socket| {
                begin_iperf3(&mut socket);
                if late {
                    let mut end = [0];
                    socket.read_exact(&mut end).unwrap();
                } else {
                    thread::sleep(Duration::from_millis(700));
                }
                if reset {
                    let _ = socket2::SockRef::from(&socket).set_linger(Some(Duration::ZERO));
                }
            });
            let plan = json!({"dialect": "iperf3", "duration_s": if late { 1 } else { 60 }, "bandwidth_bits_per_second": 8e6});
            let done = go(server, &plan);
            assert!(done.failures().is_empty(), "{:?}", done.end);
            assert_eq!(done.end.remarks.len(), 1, "{:?}", done.end);
            let said = if late {
                "results did not come"
            } else {
                "ended early"
            };
            assert!(done.end.remarks[0].contains(said), "{:?}", done.end.remarks);
            let end = done.streams(Way::Send)[0];
            assert!(end.bytes > 0 && end.peer_bytes.is_none());
        }
    }
}

#[test]
fn the_control_connection_is_kept_alive_through_a_long_test() {
    let port = free_port("127.0.0.1");
    let listener = TcpListener::bind(port).unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    thread::spawn(move || {
        let (mut control, client) = listener.accept().unwrap();
        control.read_exact(&mut [0; 37]).unwrap();
        control.write_all(&[9]).unwrap();
        message(&mut control);
        control.write_all(&[10]).unwrap();
        let (mut data, _) = listener.accept().unwrap();
        data.read_exact(&mut [0; 37]).unwrap();
        control.write_all(&[1, 2]).unwrap();
        data.read_exact(&mut [0; 1_000]).unwrap();
        let mine = format!(
            "0100007F:{:04X} 0100007F:{:04X} 01 ",
            client.port(),
            port.port()
        );
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let line = table
            .lines()
            .find(|line| line.contains(&mine))
            .map(str::to_owned);
        tell.send(line).unwrap();
        let mut end = [0];
        thread::spawn(move || std::io::copy(&mut data, &mut std::io::sink()));
        control.read_exact(&mut end).unwrap();
        control.write_all(&[13]).unwrap();
        message(&mut control);
        let _ = control.write_all(&frame(&Results::default().encode()));
        let _ = control.write_all(&[14]);
        let _ = control.read(&mut end);
    });
    let done = go(
        port,
        &json!({"dialect": "iperf3", "bytes": 100_000, "length_bytes": 10_000}),
    );
    let line = told.recv_timeout(PATIENCE).unwrap().unwrap();
    // Timer 02 is the one of keepalive.
    assert!(
        line.split_whitespace()
            .nth(5)
            .is_some_and(|timer| timer.starts_with("02:")),
        "{line}"
    );
    assert!(
        done.end.remarks[0].contains("say nothing of stream 1"),
        "{:?}",
        done.end.remarks
    );
}

/// So many ports in a row that nobody uses.
fn free_ports(count: u16) -> u16 {
    loop {
        let first = free_port("127.0.0.1").port();
        let is_free = |port| {
            TcpListener::bind(("127.0.0.1", port)).is_ok()
                && UdpSocket::bind(("127.0.0.1", port)).is_ok()
        };
        if (first..first + count).all(is_free) {
            return first;
        }
    }
}

#[test]
fn source_ports_are_those_that_were_asked_for() {
    let (iperf2, iperf3) = (Served::iperf2(), Served::iperf3());
    // The streams of each way of an iperf 3 test have connections of their own.
    for (served, number, plan, count) in [
        (&iperf2, 1, json!({}), 4),
        (&iperf2, 2, json!({"protocol": "udp"}), 4),
        (&iperf2, 3, json!({"direction": "both"}), 4),
        (&iperf2, 4, json!({"bind": "127.0.0.1"}), 4),
        (&iperf3, 1, json!({"direction": "both"}), 8),
        (&iperf3, 2, json!({"protocol": "udp"}), 4),
    ] {
        let first = free_ports(count);
        let mut plan = plan;
        plan["cport"] = json!(first);
        plan["streams"] = json!(4);
        plan["bytes"] = json!(40_000);
        plan["length_bytes"] = json!(1_000);
        plan["bandwidth_bits_per_second"] = json!(8e6);
        if std::ptr::eq(served, &raw const iperf3) {
            plan["dialect"] = json!("iperf3");
        }
        let done = go(served.receiver.local_addr(), &plan);
        assert!(done.failures().is_empty(), "{plan} {:?}", done.end);
        let test = served.test(number);
        let ports = |ends: &mut dyn Iterator<Item = Option<SocketAddr>>| {
            let mut ports: Vec<u16> = ends.map(|end| end.unwrap().port()).collect();
            ports.sort_unstable();
            ports.dedup();
            ports
        };
        let asked: Vec<u16> = (first..first + count).collect();
        let (here, there) = (&done.end.streams, &test.end.streams);
        assert_eq!(
            ports(&mut here.iter().map(|end| end.local)),
            asked,
            "{plan}"
        );
        assert_eq!(
            ports(&mut there.iter().map(|end| end.remote)),
            asked,
            "{plan}"
        );
        // Stream by stream, the first with the first port.
        for end in here.iter().filter(|end| end.way == Some(Way::Send)) {
            let port = first + u16::try_from(end.stream).unwrap() - 1;
            assert_eq!(end.local.unwrap().port(), port, "{plan}");
        }
    }
}

#[test]
fn a_source_port_that_is_taken_is_named_and_the_other_streams_run() {
    let served = Served::iperf2();
    for protocol in ["tcp", "udp"] {
        let first = free_ports(3);
        let _listener = TcpListener::bind(("127.0.0.1", first + 1)).unwrap();
        let _socket = UdpSocket::bind(("127.0.0.1", first + 1)).unwrap();
        let plan = json!({"protocol": protocol, "cport": first, "streams": 3, "bytes": 40_000, "bandwidth_bits_per_second": 8e6});
        let done = go(served.receiver.local_addr(), &plan);
        let failures = done.failures();
        assert_eq!(failures.len(), 1, "{:?}", done.end);
        let named = format!("sending from port {}", first + 1);
        assert!(failures[0].contains(&named), "{failures:?}");
        let moved = |end: &&tidemark::measure::flow::StreamEnd| end.bytes > 0;
        assert_eq!(done.streams(Way::Send).into_iter().filter(moved).count(), 2);
    }
}

#[test]
fn every_stream_has_a_thread_of_its_own_and_says_what_cpu_time_it_took() {
    let served = Served::iperf2();
    let plan = json!({"streams": 4, "bytes": 200_000_000, "interval_s": 0.1});
    let mut threads = std::collections::BTreeSet::new();
    let address = served.receiver.local_addr();
    let done = go_until(address, &plan, &Stop::new(), |_| {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
        threads.extend(names.map(|name| name.trim().to_owned()));
    });
    assert!(done.failures().is_empty(), "{:?}", done.end);
    for stream in 1..=4_u32 {
        assert!(threads.contains(&format!("stream-{stream}")), "{threads:?}");
        let ticks = done.batches.iter().flat_map(|batch| &batch.ticks);
        let cpu: Duration = ticks
            .filter(|tick| tick.stream == stream)
            .map(|tick| tick.cpu)
            .sum();
        assert!(cpu > Duration::ZERO, "stream {stream}: {:?}", done.batches);
    }
    let (user, system) = done.end.cpu;
    assert!(user + system > Duration::ZERO);
}

#[test]
fn roles_hold_where_packets_overtake_each_other() {
    if !has("iperf3") {
        return;
    }
    let lab = Lab::wavering(Duration::from_millis(30), Duration::from_millis(15));
    let Some(lab) = lab else {
        return;
    };
    // Our client against the real server.
    let real = listen_on(&lab.far, &["iperf3", "-s", "-p", "5202"], ":1452 ");
    let sender = lab.sender(&[]);
    for _ in 0..2 {
        let run = lab.measure(
            &sender,
            &json!({
                "kind": "throughput", "host": B, "port": 5202, "dialect": "iperf3", "direction": "both", "streams": 8,
                "duration_s": 1, "bandwidth_bits_per_second": 500_000, "length_bytes": 4_096,
            }),
        );
        assert_eq!(run["state"], "finished", "{run:#}");
        for way in ["send", "receive"] {
            let part = &run["summary"]["directions"][way];
            let streams = part["streams"].as_array().unwrap();
            assert_eq!(streams.len(), 8, "{run:#}");
            for stream in streams {
                assert_eq!(stream["failed"], Value::Null, "{run:#}");
                assert_eq!(stream["direction"], way, "{run:#}");
                assert!(stream["bytes"].as_u64() > Some(0), "{run:#}");
            }
            assert!(part["bytes_received"].as_u64() > Some(0), "{run:#}");
        }
    }
    drop(real);
    // The real client against our server.
    let _receiver = lab.receiver();
    let line = format!("iperf3 -c {B} -P 8 --bidir -t 1 -b 500k -l 4K -J");
    let printed = lab.near.run(&line);
    let told: Value = serde_json::from_str(&printed).unwrap();
    let streams = told["end"]["streams"].as_array().unwrap();
    for sends in [true, false] {
        let same = |stream: &&Value| stream["receiver"]["sender"] == sends;
        let moved = streams.iter().filter(same);
        let moved = moved.filter(|stream| stream["receiver"]["bytes"].as_u64() > Some(0));
        assert_eq!(moved.count(), 8, "{told:#}");
    }
}
