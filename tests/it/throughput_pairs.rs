//! Our client against our own receivers: every dialect, transport and direction, and both ends' accounts compared.

use serde_json::{Value, json};
use tidemark::measure::flow::{StreamEnd, Way};
use tidemark::measure::plan::throughput::{Direction, Protocol, Receive};
use tidemark::measure::summary::throughput::ThroughputFold;

use crate::support::throughput::{Done, Served, Test, go, plan_of};

/// Both accounts of one run.
fn pair(served: &Served, number: u64, plan: &Value) -> (Done, Test) {
    let done = go(served.receiver.local_addr(), plan);
    let test = served.test(number);
    println!("{plan}");
    (done, test)
}

/// What one end counted of each flow of one way, by the client's port.
fn by_port(streams: &[&StreamEnd], client: bool) -> Vec<(u16, u64)> {
    let mut counts: Vec<(u16, u64)> = streams
        .iter()
        .map(|end| {
            let port = if client { end.local } else { end.remote };
            (port.unwrap().port(), end.bytes)
        })
        .collect();
    counts.sort_unstable();
    counts
}

fn other(way: Way) -> Way {
    match way {
        Way::Send => Way::Receive,
        Way::Receive => Way::Send,
    }
}

#[test]
fn both_ends_agree_in_every_direction() {
    for dialect in ["iperf2", "iperf3"] {
        let served = match dialect {
            "iperf2" => Served::iperf2(),
            _ => Served::iperf3(),
        };
        let mut number = 0;
        for protocol in ["tcp", "udp"] {
            for direction in ["send", "receive", "both", "in_turn"] {
                if dialect == "iperf3" && direction == "in_turn" {
                    continue;
                }
                number += 1;
                let plan = json!({"dialect": dialect, "protocol": protocol, "direction": direction, "streams": 2,
                    "duration_s": 1, "interval_s": 0.5, "bandwidth_bits_per_second": 20e6});
                let (done, test) = pair(&served, number, &plan);
                test.is_sane();
                agree(&plan, &done, &test);
            }
        }
        assert_eq!(served.refusals(), Vec::<String>::new());
    }
}

fn agree(plan: &Value, done: &Done, test: &Test) {
    let is_udp = plan["protocol"] == json!("udp");
    let ways: &[Way] = match plan["direction"].as_str().unwrap() {
        "send" => &[Way::Send],
        "receive" => &[Way::Receive],
        _ => &[Way::Send, Way::Receive],
    };
    assert!(done.failures().is_empty());
    let unknown =
        is_udp && plan["dialect"] == json!("iperf2") && plan["direction"] == json!("both");
    assert!(
        done.end.remarks.is_empty() || unknown,
        "{:?}",
        done.end.remarks
    );
    let mirrored = match plan["direction"].as_str().unwrap() {
        "send" => Direction::Receive,
        "receive" => Direction::Send,
        "both" => Direction::Both,
        _ => Direction::InTurn,
    };
    assert_eq!(test.plan.direction, mirrored);
    assert_eq!(test.plan.protocol == Protocol::Udp, is_udp);
    assert_eq!(test.plan.streams, 2);
    assert_eq!(test.end.peer.as_deref(), Some("tidemark"));
    for way in ways {
        let (ours, theirs) = (done.streams(*way), test.streams(other(*way)));
        assert_eq!((ours.len(), theirs.len()), (2, 2), "{way:?}");
        let bytes: u64 = ours.iter().map(|end| end.bytes).sum();
        assert_eq!(done.ticked(*way), bytes);
        if plan["dialect"] == json!("iperf3") {
            // It stops counting at the test's end, whatever is on its way.
            continue;
        }
        if is_udp {
            let datagrams =
                |ends: &[&StreamEnd]| -> u64 { ends.iter().map(|end| end.bytes / 1_470).sum() };
            let received = if *way == Way::Send { &theirs } else { &ours };
            let missing: u64 = received.iter().map(|end| end.udp.unwrap().lost).sum();
            assert_eq!(datagrams(&ours).abs_diff(datagrams(&theirs)), missing);
        } else if plan["direction"] != json!("in_turn") {
            assert_eq!(by_port(&ours, true), by_port(&theirs, false), "{way:?}");
        }
    }
}

#[test]
fn what_is_thrown_away_is_said_at_both_ends() {
    for dialect in ["iperf2", "iperf3"] {
        let served = match dialect {
            "iperf2" => Served::iperf2(),
            _ => Served::iperf3(),
        };
        for (number, direction) in (1..).zip(["send", "receive", "both"]) {
            let plan = json!({"dialect": dialect, "direction": direction, "receive": "discard", "duration_s": 1, "bandwidth_bits_per_second": 50e6});
            let (done, test) = pair(&served, number, &plan);
            done.assert_clean();
            test.is_sane();
            assert_eq!(test.plan.receive, Receive::Discard);
            if direction != "receive" {
                assert_eq!(done.end.peer.as_deref(), Some("tidemark"));
            }
            if dialect == "iperf2" {
                for way in [Way::Send, Way::Receive] {
                    let (ours, theirs) = (done.streams(way), test.streams(other(way)));
                    assert_eq!(by_port(&ours, true), by_port(&theirs, false));
                }
            }
        }
        // Where it was not asked for, nothing is thrown away.
        let (_, test) = pair(&served, 4, &json!({"dialect": dialect, "bytes": 100_000}));
        assert_eq!(test.plan.receive, Receive::Copy);
    }
}

#[test]
fn trains_of_datagrams_are_counted_one_by_one_and_without_jitter() {
    for (dialect, direction) in [
        ("iperf2", "send"),
        ("iperf2", "receive"),
        ("iperf3", "send"),
        ("iperf3", "receive"),
    ] {
        let served = match dialect {
            "iperf2" => Served::iperf2(),
            _ => Served::iperf3(),
        };
        let plan = json!({"dialect": dialect, "protocol": "udp", "direction": direction, "offload": true, "bytes": 3_000_000, "length_bytes": 1_000});
        let (done, test) = pair(&served, 1, &plan);
        if !done.end.remarks.is_empty() {
            // This kernel has none.
            assert!(done.end.remarks[0].contains("offload"), "{:?}", done.end);
            continue;
        }
        assert!(done.failures().is_empty());
        assert!(test.plan.offload);
        for udp in done
            .end
            .streams
            .iter()
            .chain(&test.end.streams)
            .filter_map(|end| end.udp)
        {
            assert_eq!(udp.jitter, None, "{dialect} {direction}");
            assert!(
                udp.datagrams > 0 && udp.lost <= udp.datagrams,
                "{dialect} {direction} {udp:?} {:?} {:?}",
                done.end,
                test.end
            );
        }
        // Another test, without offload, has its jitter again.
        let plan = json!({"dialect": dialect, "protocol": "udp", "bytes": 100_000, "bandwidth_bits_per_second": 4e6});
        let (_, test) = pair(&served, 2, &plan);
        assert!(test.end.streams[0].udp.unwrap().jitter.is_some());
    }
}

#[test]
fn sixteen_streams_sum_up_to_the_byte() {
    let served = Served::iperf2();
    let plan = json!({"streams": 16, "duration_s": 2, "interval_s": 0.5, "bandwidth_bits_per_second": 20e6});
    let (done, test) = pair(&served, 1, &plan);
    done.assert_clean();
    test.is_sane();
    assert_eq!((done.end.streams.len(), test.end.streams.len()), (16, 16));
    let mut fold = ThroughputFold::new(&plan_of(served.receiver.local_addr(), &plan));
    let mut rows: Vec<_> = done
        .batches
        .iter()
        .flat_map(|batch| fold.push(batch))
        .collect();
    rows.extend(fold.finish_intervals());
    let of = |sum: bool| -> u64 {
        let rows = rows.iter().filter(|row| (row.stream == "SUM") == sum);
        rows.map(|row| row.bytes).sum()
    };
    let total: u64 = done.end.streams.iter().map(|end| end.bytes).sum();
    assert_eq!((of(true), of(false)), (total, total));
    assert_eq!(test.bytes(Way::Receive), total);
    let summary = fold.summary(&done.end);
    assert_eq!(summary.streams.len(), 16);
    assert_eq!(summary.bytes_received, Some(total));
}

#[test]
fn streams_keep_their_roles_however_they_are_opened() {
    // Eight streams of each way are opened at once, by our client and by the real one, several times.
    let served = Served::iperf3();
    for number in 1..=5 {
        let plan = json!({"dialect": "iperf3", "direction": "both", "streams": 8, "bytes": 4_000_000, "length_bytes": 65_536});
        let (done, test) = pair(&served, number, &plan);
        done.assert_clean();
        assert_eq!(
            (
                test.streams(Way::Send).len(),
                test.streams(Way::Receive).len()
            ),
            (8, 8)
        );
        for (ours, way) in [(Way::Send, Way::Receive), (Way::Receive, Way::Send)] {
            for end in done.streams(ours) {
                let port = end.local.unwrap().port();
                let theirs = test.streams(way);
                let same = theirs
                    .iter()
                    .find(|end| end.remote.unwrap().port() == port)
                    .unwrap();
                assert_eq!(same.stream, end.stream);
            }
        }
    }
}
