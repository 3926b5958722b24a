//! Throughput runs against the real iperf and iperf3, whose own counts must agree with ours, and against servers
//! that are old or that misbehave.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tidemark::measure::flow::{StreamEnd, Way};
use tidemark::runner::Stop;
use tidemark::wire::iperf2::ack;
use tidemark::wire::iperf2::datagram::Generation;
use tidemark::wire::iperf2::report::UdpReport;
use tidemark::wire::iperf3::{Params, Results, StreamResult, frame};

use crate::support::throughput::{Done, PATIENCE, Server, fake, free_port, go, go_until};

/// The bytes that `iperf -s -f B -i …` printed in its final lines, by stream.
fn iperf2_bytes(printed: &str) -> Vec<u64> {
    printed
        .lines()
        .filter(|line| line.contains("Bytes") && line.contains("sec") && !line.contains("SUM"))
        .filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let at = words.iter().position(|word| *word == "Bytes")?;
            words[at - 1].parse().ok()
        })
        .collect()
}

fn iperf2(host: &str, arguments: &[&str]) -> Option<Server> {
    let arguments = [&["-f", "B"], arguments].concat();
    Server::start("iperf", host, &arguments)
}

/// A run against a real server of its own, and what that printed once it had counted as many flows: 2.1.8 may lock
/// up when a test begins while it is not yet done with the one before.
fn with_iperf2(
    host: &str,
    server_arguments: &[&str],
    plan: &Value,
    flows: usize,
) -> Option<(Done, String)> {
    let server = iperf2(host, server_arguments)?;
    let done = go(server.address, plan);
    let printed = server.printed(|text| iperf2_bytes(text).len() >= flows);
    Some((done, printed))
}

#[test]
fn real_iperf_counts_every_byte_that_was_sent() {
    for (host, arguments, plan, streams) in [
        (
            "127.0.0.1",
            &[][..],
            json!({"duration_s": 0.6, "interval_s": 0.2}),
            1,
        ),
        (
            "127.0.0.1",
            &[],
            json!({"duration_s": 0.6, "streams": 4, "length_bytes": 131_072}),
            4,
        ),
        ("127.0.0.1", &[], json!({"bytes": 12_345_678}), 1),
        (
            "127.0.0.1",
            &[],
            json!({"bytes": 3_000_000, "streams": 2}),
            2,
        ),
        (
            "127.0.0.1",
            &[],
            json!({"bytes": 2_000_000, "mss_bytes": 1_000, "tos": 16}),
            1,
        ),
        (
            "127.0.0.1",
            &[],
            json!({"duration_s": 0.4, "congestion": "reno"}),
            1,
        ),
        ("::1", &["-V"], json!({"bytes": 1_000_000}), 1),
    ] {
        let Some((done, printed)) = with_iperf2(host, arguments, &plan, streams) else {
            return;
        };
        done.assert_clean();
        let counted: u64 = iperf2_bytes(&printed).iter().sum();
        let ends = done.streams(Way::Send);
        assert_eq!(ends.len(), streams, "{plan}");
        let bytes: u64 = ends.iter().map(|end| end.bytes).sum();
        assert!(bytes > 0);
        assert_eq!(bytes, counted, "{plan} {printed}\n{:?}", done.end);
        for end in ends {
            assert_eq!(end.acked_bytes, Some(end.bytes));
            assert_eq!(end.peer_bytes, Some(end.bytes));
            assert!(end.first < end.last && end.local.is_some() && end.remote.is_some());
        }
        assert_eq!(done.ticked(Way::Send), bytes);
        assert_eq!(done.end.peer.as_deref(), Some("iperf 2.1.8"));
        assert!(done.end.same_host && !done.end.stopped && done.end.congestion.is_some());
        if let Some(congestion) = plan["congestion"].as_str() {
            assert_eq!(done.end.congestion.as_deref(), Some(congestion));
        }
        assert!(done.batches.iter().any(|batch| batch.cpu.is_some()));
        // Which member of a bond a stream took is told by its ports.
        let mut ports: Vec<u16> = done
            .streams(Way::Send)
            .iter()
            .map(|end| end.local.unwrap().port())
            .collect();
        ports.dedup();
        assert!(ports.len() == streams && !ports.contains(&0), "{ports:?}");
    }
}

#[test]
fn real_iperf_takes_a_test_of_less_than_a_header() {
    let Some(server) = iperf2("127.0.0.1", &[]) else {
        return;
    };
    let done = go(server.address, &json!({"bytes": 40}));
    done.assert_clean();
    let end = done.streams(Way::Send)[0];
    assert_eq!((end.bytes, end.peer_bytes), (40, Some(40)));
    let printed = server.printed(|text| text.contains("Bytes/sec"));
    assert!(printed.contains("Bytes/sec"), "{printed}");
}

#[test]
fn real_iperf_sends_in_reverse_until_its_time_is_over() {
    for (plan, streams) in [
        (json!({"duration_s": 0.6, "direction": "receive"}), 1),
        (
            json!({"duration_s": 0.6, "direction": "receive", "streams": 2}),
            2,
        ),
        (json!({"bytes": 2_000_000, "direction": "receive"}), 1),
        (
            json!({"duration_s": 0.5, "direction": "receive", "bandwidth_bits_per_second": 8e6}),
            1,
        ),
        (
            json!({"duration_s": 0.3, "direction": "receive", "receive": "discard"}),
            1,
        ),
    ] {
        let Some((done, printed)) = with_iperf2("127.0.0.1", &[], &plan, streams) else {
            return;
        };
        done.assert_clean();
        let ends = done.streams(Way::Receive);
        assert_eq!(ends.len(), streams);
        let bytes: u64 = ends.iter().map(|end| end.bytes).sum();
        assert_eq!(
            iperf2_bytes(&printed).iter().sum::<u64>(),
            bytes,
            "{printed}"
        );
        assert!(bytes > 0 && done.ticked(Way::Receive) == bytes);
    }
}

#[test]
fn real_iperf_sends_both_ways_on_one_connection() {
    let plan = json!({"duration_s": 0.6, "direction": "both"});
    let Some((done, printed)) = with_iperf2("127.0.0.1", &[], &plan, 2) else {
        return;
    };
    done.assert_clean();
    let (sent, received) = (done.streams(Way::Send), done.streams(Way::Receive));
    assert_eq!((sent.len(), received.len()), (1, 1));
    assert_eq!(sent[0].local, received[0].local);
    let counted = iperf2_bytes(&printed);
    assert!(counted.contains(&sent[0].bytes), "{printed}\n{sent:?}");
    assert!(
        counted.contains(&received[0].bytes),
        "{printed}\n{received:?}"
    );
}

#[test]
fn real_iperf_sends_back_in_turn() {
    let plan = json!({"duration_s": 0.5, "direction": "in_turn"});
    let Some((done, printed)) = with_iperf2("127.0.0.1", &[], &plan, 2) else {
        return;
    };
    done.assert_clean();
    let (sent, received) = (done.streams(Way::Send), done.streams(Way::Receive));
    assert!(sent[0].bytes > 0 && received[0].bytes > 0);
    assert!(received[0].first > sent[0].last);
    assert_eq!(
        iperf2_bytes(&printed),
        [sent[0].bytes, received[0].bytes],
        "{printed}"
    );
}

#[test]
fn a_closed_port_is_a_failure_of_every_stream() {
    let done = go(free_port("127.0.0.1"), &json!({"streams": 3}));
    assert_eq!(done.failures().len(), 3);
    assert!(
        done.failures()[0].contains("refused"),
        "{:?}",
        done.failures()
    );
    assert_eq!(done.ticked(Way::Send), 0);
}

#[test]
fn real_iperf_reports_every_datagram() {
    for (host, arguments, length) in [
        ("127.0.0.1", &["-u"][..], 1_000),
        ("127.0.0.1", &["-u"], 40),
        ("127.0.0.1", &["-u", "-l", "8000"], 8_000),
        ("::1", &["-u", "-V"], 1_000),
    ] {
        let Some(server) = iperf2(host, arguments) else {
            return;
        };
        let plan = json!({"protocol": "udp", "duration_s": 0.5, "bandwidth_bits_per_second": 500.0 * 8.0 * f64::from(length), "length_bytes": length});
        let done = go(server.address, &plan);
        done.assert_clean();
        let end = done.streams(Way::Send)[0];
        let udp = end.udp.unwrap();
        assert_eq!(Some(udp.datagrams), end.datagrams_sent);
        assert_eq!((udp.lost, udp.out_of_order), (0, 0));
        assert_eq!(end.peer_bytes, Some(end.bytes));
        assert!(udp.jitter.is_some_and(|jitter| jitter < PATIENCE));
        let told = format!("0/{}", udp.datagrams);
        let printed = server.printed(|text| text.contains(&told));
        assert!(printed.contains(&told), "{printed}\n{end:?}");
        let ticks = done.batches.iter().flat_map(|batch| &batch.ticks);
        let sent: u64 = ticks.map(|tick| tick.datagrams_sent).sum();
        assert_eq!(Some(sent), end.datagrams_sent);
        // No more than asked for: 0.5 s at 500 datagrams a second, the first at once, and the last one.
        assert!(sent <= 252, "{sent}");
    }
}

#[test]
fn a_server_that_reads_less_than_a_datagram_is_named() {
    let Some(server) = iperf2("127.0.0.1", &["-u"]) else {
        return;
    };
    let plan = json!({"protocol": "udp", "duration_s": 0.3, "bandwidth_bits_per_second": 6.4e6, "length_bytes": 8_000});
    let done = go(server.address, &plan);
    assert!(done.failures().is_empty(), "{:?}", done.end);
    let said = &done.end.remarks[0];
    assert!(
        said.contains("only 1470 bytes") && said.contains("-l 8000"),
        "{said}"
    );
    // What it understood of the datagrams stands.
    let end = done.streams(Way::Send)[0];
    assert_eq!(end.peer_bytes, None);
    assert_eq!(end.udp.map(|udp| udp.datagrams), end.datagrams_sent);
}

#[test]
fn real_iperf_reports_two_streams_of_datagrams() {
    let Some(server) = iperf2("127.0.0.1", &["-u", "-w", "4M"]) else {
        return;
    };
    // Long enough for a server whose threads are kept waiting to take in both.
    let plan = json!({"protocol": "udp", "duration_s": 2, "bandwidth_bits_per_second": 100e6, "streams": 2});
    let done = go(server.address, &plan);
    assert!(done.failures().is_empty(), "{:?}", done.end);
    let ends = done.streams(Way::Send);
    assert_eq!(ends.len(), 2);
    let reports: Vec<_> = ends.iter().filter_map(|end| end.udp).collect();
    let silent = done
        .end
        .remarks
        .iter()
        .filter(|remark| remark.contains("no server report"));
    // A stream that the server has not taken in is said to be without a report, and has no figures of it.
    assert_eq!(reports.len() + silent.count(), 2, "{:?}", done.end);
    if reports.len() < 2 {
        return;
    }
    // What came for the second before it was taken in is counted as the first's; nothing is counted twice.
    let sum = |of: fn(&StreamEnd) -> u64| -> u64 { ends.iter().map(|end| of(end)).sum() };
    let (sent, received) = (sum(|end| end.bytes), sum(|end| end.peer_bytes.unwrap()));
    assert!(sent >= received, "{:?}", done.end);
    let lost: u64 = reports.iter().map(|udp| udp.lost).sum();
    assert!((sent - received) / 1_470 <= lost, "{:?}", done.end);
    for (end, udp) in ends.iter().zip(&reports) {
        assert!(
            udp.datagrams.abs_diff(end.datagrams_sent.unwrap()) <= 1,
            "{end:?}"
        );
        assert!(end.bytes > 0);
    }
}

#[test]
fn real_iperf_sends_datagrams_in_reverse_in_turn_and_both_ways() {
    let plan = |direction: &str| json!({"protocol": "udp", "duration_s": 0.5, "bandwidth_bits_per_second": 3e6, "direction": direction});
    let run = |direction: &str| {
        let server = iperf2("127.0.0.1", &["-u"])?;
        Some(go(server.address, &plan(direction)))
    };
    let Some(done) = run("receive") else {
        return;
    };
    done.assert_clean();
    let end = done.streams(Way::Receive)[0];
    let udp = end.udp.unwrap();
    assert!(end.bytes > 0 && udp.datagrams > 0, "{end:?}");
    assert_eq!((udp.lost, udp.duplicated), (0, Some(0)));
    assert_eq!(end.bytes, udp.datagrams * 1_470);
    let done = run("in_turn").unwrap();
    done.assert_clean();
    let (sent, received) = (done.streams(Way::Send)[0], done.streams(Way::Receive)[0]);
    assert_eq!(sent.udp.unwrap().lost, 0);
    assert!(
        received.bytes > 0 && received.remote.is_some(),
        "{received:?}"
    );
    assert_eq!(received.udp.unwrap().lost, 0);
    let done = run("both").unwrap();
    assert!(done.failures().is_empty(), "{:?}", done.end);
    assert!(done.streams(Way::Receive)[0].bytes > 0);
    assert_eq!(done.streams(Way::Send)[0].udp, None);
}

#[test]
fn offload_sends_trains_that_real_iperf_counts_by_datagrams() {
    let Some(server) = iperf2("127.0.0.1", &["-u", "-w", "4M"]) else {
        return;
    };
    let plan = json!({"protocol": "udp", "bytes": 300_000, "offload": true, "length_bytes": 1_000});
    let done = go(server.address, &plan);
    assert!(done.failures().is_empty(), "{:?}", done.end);
    let end = done.streams(Way::Send)[0];
    assert_eq!(end.datagrams_sent, Some(301));
    let udp = end.udp.unwrap();
    assert_eq!((udp.datagrams, udp.jitter), (301, None));
}

#[test]
fn a_bandwidth_is_never_exceeded() {
    let Some(server) = iperf2("127.0.0.1", &[]) else {
        return;
    };
    let plan = json!({"duration_s": 0.5, "bandwidth_bits_per_second": 8e6, "interval_s": 0.1});
    let done = go(server.address, &plan);
    done.assert_clean();
    let bytes = done.streams(Way::Send)[0].bytes;
    assert!(bytes > 0 && bytes <= 500_000 + 1_448 + 60, "{bytes}");
}

#[test]
fn the_omitted_start_is_in_every_count_of_an_iperf_2_test() {
    let plan = json!({"duration_s": 0.4, "omit_s": 0.3, "interval_s": 0.25});
    let Some((done, printed)) = with_iperf2("127.0.0.1", &[], &plan, 1) else {
        return;
    };
    done.assert_clean();
    let end = done.streams(Way::Send)[0];
    // The fold leaves the start out of the headline.
    assert!(
        end.bytes > 0 && end.first < Some(Duration::from_millis(300)),
        "{end:?}"
    );
    assert_eq!(end.bytes, done.ticked(Way::Send));
    assert_eq!(
        (end.acked_bytes, end.peer_bytes),
        (Some(end.bytes), Some(end.bytes))
    );
    assert_eq!(iperf2_bytes(&printed), [end.bytes]);
    // An interval ends where the omitted time does.
    let ticks = done.batches.iter().flat_map(|batch| &batch.ticks);
    assert!(
        ticks
            .clone()
            .any(|tick| tick.to >= Duration::from_millis(300))
    );
}

/// What a real `iperf3 -s -J` counted in its last test.
fn iperf3_counted(server: &Server) -> Value {
    let printed = server.printed(|text| serde_json::from_str::<Value>(text).is_ok());
    serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}: {printed}"))
}

/// A test with a real iperf3, and its own account of it.
fn with_iperf3(plan: &Value) -> Option<(Done, Value)> {
    let server = Server::start("iperf3", "127.0.0.1", &["-J"])?;
    let mut plan = plan.clone();
    plan["dialect"] = json!("iperf3");
    let done = go(server.address, &plan);
    done.assert_clean();
    assert_eq!(done.end.peer.as_deref(), Some("iperf 3"));
    Some((done, iperf3_counted(&server)))
}

/// The server's bytes of every stream, of those that it sent or that it received.
fn counted_bytes(account: &Value, sender: bool) -> Vec<u64> {
    let side = if sender { "sender" } else { "receiver" };
    let streams = account["end"]["streams"].as_array().unwrap();
    streams
        .iter()
        .map(|stream| &stream[side])
        .filter(|stream| stream["sender"] == json!(sender))
        .filter_map(|stream| stream["bytes"].as_u64())
        .collect()
}

#[test]
fn real_iperf3_counts_what_was_sent() {
    for streams in [1, 4] {
        let plan = json!({"duration_s": 0.6, "streams": streams, "length_bytes": 131_072});
        let Some((done, account)) = with_iperf3(&plan) else {
            return;
        };
        let ends = done.streams(Way::Send);
        assert_eq!(ends.len(), streams);
        let told: Vec<u64> = ends.iter().filter_map(|end| end.peer_bytes).collect();
        assert_eq!(told, counted_bytes(&account, false), "{account}");
        for end in ends {
            assert!(end.bytes >= end.peer_bytes.unwrap() && end.retransmits.is_some());
        }
    }
}

#[test]
fn real_iperf3_sends_in_reverse_and_both_ways() {
    let Some((done, account)) = with_iperf3(&json!({"duration_s": 0.6, "direction": "receive"}))
    else {
        return;
    };
    let end = done.streams(Way::Receive)[0];
    assert!(
        end.bytes > 0 && end.bytes <= end.peer_bytes.unwrap(),
        "{end:?}"
    );
    assert_eq!(
        end.peer_bytes,
        counted_bytes(&account, true).first().copied()
    );
    let plan = json!({"duration_s": 0.6, "direction": "both", "streams": 2});
    let Some((done, account)) = with_iperf3(&plan) else {
        return;
    };
    let told = |way| -> Vec<u64> {
        let ends = done.streams(way).into_iter();
        ends.filter_map(|end| end.peer_bytes).collect()
    };
    assert_eq!(told(Way::Send), counted_bytes(&account, false), "{account}");
    assert_eq!(
        told(Way::Receive),
        counted_bytes(&account, true),
        "{account}"
    );
    assert!(done.end.streams.iter().all(|end| end.bytes > 0));
}

#[test]
fn real_iperf3_ends_a_test_by_bytes_of_all_streams_together() {
    let plan = json!({"bytes": 3_000_000, "streams": 2, "length_bytes": 100_000});
    let Some((done, _)) = with_iperf3(&plan) else {
        return;
    };
    let bytes: u64 = done.streams(Way::Send).iter().map(|end| end.bytes).sum();
    assert_eq!(bytes, 3_000_000);
}

#[test]
fn real_iperf3_counts_datagrams_both_ways() {
    let plan = |direction: &str| json!({"protocol": "udp", "duration_s": 0.5, "bandwidth_bits_per_second": 4e6, "direction": direction});
    let Some((done, account)) = with_iperf3(&plan("send")) else {
        return;
    };
    let end = done.streams(Way::Send)[0];
    let udp = end.udp.unwrap();
    assert_eq!(
        json!(udp.datagrams),
        account["end"]["streams"][0]["udp"]["packets"],
        "{account}"
    );
    assert!(
        udp.lost == 0 && udp.datagrams.abs_diff(end.datagrams_sent.unwrap()) <= 1,
        "{end:?}"
    );
    let Some((done, _)) = with_iperf3(&plan("receive")) else {
        return;
    };
    let end = done.streams(Way::Receive)[0];
    let udp = end.udp.unwrap();
    assert!(
        end.bytes > 0 && udp.lost == 0 && udp.duplicated == Some(0),
        "{end:?}"
    );
    assert_eq!(end.bytes, udp.datagrams * 1_470);
}

#[test]
fn real_iperf3_leaves_the_omitted_start_out_of_its_counts() {
    let plan = |protocol: &str, direction: &str| json!({"protocol": protocol, "duration_s": 1, "omit_s": 1, "bandwidth_bits_per_second": 8e6, "length_bytes": 1_000, "direction": direction});
    for protocol in ["tcp", "udp"] {
        for direction in ["send", "receive"] {
            let Some((done, account)) = with_iperf3(&plan(protocol, direction)) else {
                return;
            };
            let end = &done.end.streams[0];
            let (bytes, peer) = (end.bytes, end.peer_bytes.unwrap());
            // A second of two, at both ends.
            let whole = done.ticked(end.way.unwrap());
            assert!(
                peer > 0 && bytes > 0 && peer < whole && bytes < whole,
                "{end:?}"
            );
            assert_eq!(end.first, Some(Duration::from_secs(1)));
            if protocol == "udp" && direction == "send" {
                let udp = end.udp.unwrap();
                let sent = end.datagrams_sent.unwrap();
                // Of the start both ends may put a few down to either side of its end.
                assert!(
                    sent < whole / 1_000 && udp.datagrams < whole / 1_000,
                    "{end:?}"
                );
                assert!(udp.lost <= udp.datagrams, "{end:?}");
            }
            // The server has believed what we counted.
            let theirs = &account["end"]["streams"][0];
            let told = theirs["sender"]["bytes"]
                .as_u64()
                .or(theirs["udp"]["bytes"].as_u64());
            assert!(told.is_some_and(|told| told < whole), "{account}");
        }
    }
}

#[test]
fn a_busy_iperf3_says_so() {
    let Some(server) = Server::start("iperf3", "127.0.0.1", &[]) else {
        return;
    };
    let (stop, address) = (Stop::new(), server.address);
    let (begun, waits) = std::sync::mpsc::channel();
    let stopping = stop.clone();
    let first = thread::spawn(move || {
        let plan = json!({"dialect": "iperf3", "duration_s": 60, "interval_s": 0.1, "bandwidth_bits_per_second": 1e6});
        go_until(address, &plan, &stopping, |_| {
            let _ = begun.send(());
        })
    });
    waits.recv_timeout(PATIENCE).unwrap();
    let done = go(address, &json!({"dialect": "iperf3", "direction": "both"}));
    stop.stop();
    assert!(first.join().unwrap().end.stopped);
    assert_eq!(done.failures().len(), 2);
    assert!(done.failures()[0].contains("busy"), "{:?}", done.failures());
}

#[test]
fn the_other_iperf_on_a_port_is_named() {
    for direction in ["send", "receive", "both"] {
        // A server for each: one that was spoken to wrongly listens anew.
        if let Some(server) = Server::start("iperf3", "127.0.0.1", &[]) {
            let done = go(server.address, &json!({"direction": direction}));
            assert!(
                done.failures()
                    .iter()
                    .any(|why| why.contains("iperf 3 server")),
                "{direction}: {:?}",
                done.failures()
            );
        }
    }
    if let Some(server) = iperf2("127.0.0.1", &[]) {
        let done = go(server.address, &json!({"dialect": "iperf3"}));
        assert!(
            done.failures()[0].contains("iperf 2 server"),
            "{:?}",
            done.failures()
        );
    }
}

#[test]
fn other_servers_on_a_port_are_named() {
    let http = fake(|mut socket| {
        let _ = socket.read(&mut [0; 1_000]);
        let _ = socket.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    });
    let ssh = fake(|mut socket| {
        let _ = socket.write_all(b"SSH-2.0-OpenSSH_9.2p1\r\n");
        let _ = std::io::copy(&mut socket, &mut std::io::sink());
    });
    for (address, said) in [(http, "web server"), (ssh, "SSH server")] {
        for plan in [
            json!({}),
            json!({"direction": "receive"}),
            json!({"dialect": "iperf3"}),
        ] {
            let done = go(address, &plan);
            assert!(
                done.failures()[0].contains(said),
                "{plan}: {:?}",
                done.failures()
            );
        }
    }
}

#[test]
fn a_server_that_does_not_know_reverse_is_not_waited_for() {
    let old = fake(|mut socket| {
        let _ = socket.read(&mut [0; 60]);
        let _ = socket.write_all(&ack::encode());
        let _ = std::io::copy(&mut socket, &mut std::io::sink());
    });
    let done = go(old, &json!({"direction": "receive", "duration_s": 30}));
    assert!(
        done.failures()[0].contains("does not support reverse"),
        "{:?}",
        done.failures()
    );
    assert_eq!(done.ticked(Way::Receive), 0);
}

#[test]
fn a_reset_is_a_failure_of_its_stream_alone() {
    let count = Mutex::new(0);
    let half = fake(move |mut socket| {
        let number = {
            let mut count = count.lock().unwrap();
            *count += 1;
            *count
        };
        let _ = socket.read(&mut [0; 60]);
        if number % 2 == 0 {
            let _ = socket2::SockRef::from(&socket).set_linger(Some(Duration::ZERO));
            return;
        }
        let _ = std::io::copy(&mut socket, &mut std::io::sink());
    });
    let done = go(half, &json!({"bytes": 3_000_000, "streams": 4}));
    let failures = done.failures();
    assert_eq!(failures.len(), 2, "{:?}", done.end);
    assert!(
        failures.iter().all(|why| why.contains("reset")),
        "{failures:?}"
    );
    let good: Vec<_> = done
        .end
        .streams
        .iter()
        .filter(|end| end.failed.is_none())
        .collect();
    assert!(good.iter().all(|end| end.peer_bytes == Some(3_000_000)));
}

#[test]
fn a_stopped_run_keeps_what_it_has() {
    let sink = fake(|mut socket| {
        let _ = std::io::copy(&mut socket, &mut std::io::sink());
    });
    let stop = Stop::new();
    let plan = json!({"duration_s": 600, "interval_s": 0.1, "streams": 2});
    let done = go_until(sink, &plan, &stop, |batch| {
        if batch.ticks.iter().any(|tick| tick.bytes > 0) {
            stop.stop();
        }
    });
    assert!(
        done.end.stopped && done.failures().is_empty(),
        "{:?}",
        done.end
    );
    assert!(done.ticked(Way::Send) > 0);
}

/// A server of datagrams whose answers are made by `answer` from what came, until it says that it is done.
fn fake_udp(
    mut answer: impl FnMut(usize, &[u8]) -> Option<Vec<u8>> + Send + 'static,
) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    thread::spawn(move || {
        let mut buffer = vec![0; 65_535];
        let mut count = 0;
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            count += 1;
            if let Some(reply) = answer(count, &buffer[..length]) {
                let _ = socket.send_to(&reply, from);
            }
        }
    });
    address
}

fn is_last(datagram: &[u8]) -> bool {
    datagram[0] & 0x80 != 0
}

fn report(datagrams: usize) -> UdpReport {
    let datagrams = u64::try_from(datagrams).unwrap();
    UdpReport {
        bytes: (datagrams - 3) * 500,
        duration: Duration::from_millis(200),
        lost: 3,
        out_of_order: 1,
        datagrams,
        jitter: Duration::from_micros(250),
    }
}

const UDP: &str =
    r#"{"protocol": "udp", "bytes": 20000, "bandwidth_bits_per_second": 1e6, "length_bytes": 500}"#;

fn udp_plan() -> Value {
    serde_json::from_str(UDP).unwrap()
}

#[test]
fn reports_of_all_generations_are_read() {
    for generation in [Generation::Old, Generation::Middle, Generation::New] {
        let server = fake_udp(move |count, datagram| {
            is_last(datagram).then(|| report(count).encode(generation, datagram))
        });
        let done = go(server, &udp_plan());
        done.assert_clean();
        let end = done.streams(Way::Send)[0];
        let udp = end.udp.unwrap();
        assert_eq!(
            (udp.datagrams, udp.lost, udp.out_of_order),
            (41, 3, 1),
            "{generation:?}"
        );
        assert_eq!(
            udp.jitter,
            Some(Duration::from_micros(250)),
            "{generation:?}"
        );
        assert_eq!(
            (end.datagrams_sent, end.peer_bytes),
            (Some(41), Some(38 * 500))
        );
    }
}

#[test]
fn an_early_ack_is_no_report_and_tells_how_to_spell_the_end() {
    let lasts = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&lasts);
    let server = fake_udp(move |count, datagram| {
        if count == 1 {
            let mut early = ack::encode();
            early[12..20].copy_from_slice(&[0, 2, 0, 0, 0, 13, 0, 0]);
            return Some(early.to_vec());
        }
        if !is_last(datagram) {
            return None;
        }
        seen.lock().unwrap().push(datagram[..4].to_vec());
        Some(report(count).encode(Generation::Middle, datagram))
    });
    let done = go(server, &udp_plan());
    done.assert_clean();
    assert_eq!(lasts.lock().unwrap()[0], [0x80, 0, 0, 41]);
    assert_eq!(done.streams(Way::Send)[0].udp.unwrap().lost, 3);
    assert_eq!(done.end.peer.as_deref(), Some("iperf 2.0.13"));
}

#[test]
fn without_a_believable_report_there_are_senders_figures_only() {
    let silent = fake_udp(|_, _| None);
    let boasting = fake_udp(|count, datagram| {
        is_last(datagram).then(|| {
            let mut report = report(count);
            report.bytes = 1 << 48;
            report.encode(Generation::New, datagram)
        })
    });
    for server in [silent, boasting] {
        let done = go(server, &udp_plan());
        assert!(done.failures().is_empty());
        assert_eq!(
            done.end.remarks,
            ["No server report; sender-side numbers only."]
        );
        let end = done.streams(Way::Send)[0];
        assert_eq!((end.udp, end.peer_bytes), (None, None));
        assert_eq!(end.datagrams_sent, Some(41));
    }
}

#[test]
fn a_receiver_that_got_nothing_is_told_apart_from_the_sender() {
    let server = fake_udp(|count, datagram| {
        let report = UdpReport {
            datagrams: u64::try_from(count).unwrap(),
            lost: u64::try_from(count).unwrap(),
            ..UdpReport::default()
        };
        is_last(datagram).then(|| report.encode(Generation::New, datagram))
    });
    let done = go(server, &udp_plan());
    let end = done.streams(Way::Send)[0];
    assert_eq!((end.peer_bytes, end.udp.unwrap().lost), (Some(0), 41));
    assert!(end.bytes > 0);
}

#[test]
fn a_port_without_udp_server_is_one_clear_failure() {
    let nobody = UdpSocket::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    for direction in ["send", "receive"] {
        let mut plan = udp_plan();
        plan["direction"] = json!(direction);
        let done = go(nobody, &plan);
        assert_eq!(done.failures().len(), 1);
        assert!(
            done.failures()[0].contains("refused"),
            "{:?}",
            done.failures()
        );
    }
}

#[test]
fn a_reset_after_the_results_is_no_failure() {
    let is_first = AtomicBool::new(true);
    let server = fake(move |mut socket| {
        let mut first = vec![0; 37];
        if socket.read_exact(&mut first).is_err() {
            return;
        }
        // The first connection of a test is the control one.
        if !is_first.swap(false, Ordering::Relaxed) {
            let _ = std::io::copy(&mut socket, &mut std::io::sink());
            return;
        }
        let json = |socket: &mut TcpStream| {
            let mut length = [0; 4];
            socket.read_exact(&mut length).unwrap();
            let mut text = vec![0; u32::from_be_bytes(length) as usize];
            socket.read_exact(&mut text).unwrap();
            text
        };
        socket.write_all(&[9]).unwrap();
        assert_eq!(Params::parse(&json(&mut socket)).unwrap().streams, 1);
        socket.write_all(&[10]).unwrap();
        socket.write_all(&[1, 2]).unwrap();
        let mut end = [0];
        socket.read_exact(&mut end).unwrap();
        assert_eq!(end, [4]);
        socket.write_all(&[13]).unwrap();
        let theirs = Results::parse(&json(&mut socket)).unwrap();
        let stream = StreamResult {
            id: 1,
            bytes: theirs.streams[0].bytes,
            ..StreamResult::default()
        };
        let results = Results {
            streams: vec![stream],
            ..Results::default()
        };
        let mut answer = frame(&results.encode());
        answer.push(14);
        socket.write_all(&answer).unwrap();
        let _ = socket2::SockRef::from(&socket).set_linger(Some(Duration::ZERO));
    });
    let done = go(server, &json!({"dialect": "iperf3", "bytes": 500_000}));
    done.assert_clean();
    assert_eq!(done.streams(Way::Send)[0].peer_bytes, Some(500_000));
}
