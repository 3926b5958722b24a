//! Each cause, check and title of throughput runs on a course whose truth is known.
use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::measure::flow::{CpuTick, Echo, FlowBatch, StreamTick, TcpTick, UdpEnd};
use crate::measure::plan::{Caps, throughput};
use crate::measure::summary::throughput::ThroughputFold;

/// A run of ten seconds of one or more streams, with knobs for what limits it.
struct Made {
    plan: Value,
    /// Bytes of each stream in each second.
    rate: u64,
    /// Rate of second `s` as a share of `rate`.
    shape: fn(u32) -> f64,
    tcp: TcpTick,
    cpu: f64,
    machine: CpuTick,
    idle_ms: f64,
    /// Loaded round trip in second `s`, in ms.
    loaded_ms: fn(u32) -> f64,
    end: FlowEnd,
}

impl Default for Made {
    fn default() -> Self {
        Self {
            plan: json!({}),
            rate: 100_000_000,
            shape: |_| 1.0,
            tcp: TcpTick {
                busy: s(1.0),
                mss_bytes: 1448,
                rtt: ms(1.0),
                min_rtt: ms(1.0),
                ..TcpTick::default()
            },
            cpu: 0.1,
            machine: CpuTick::default(),
            idle_ms: 1.0,
            loaded_ms: |_| 1.0,
            end: FlowEnd::default(),
        }
    }
}

fn s(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

fn ms(ms: f64) -> Duration {
    s(ms / 1e3)
}

fn plan_of(more: &Value) -> ThroughputPlan {
    let mut object = serde_json::Map::from_iter([("host".to_owned(), json!("10.0.0.2"))]);
    if let Value::Object(more) = more {
        object.extend(more.clone());
    }
    throughput::from_json(&object, &Caps::default()).unwrap()
}

impl Made {
    fn fold(&self) -> (ThroughputPlan, ThroughputFold, FlowEnd) {
        let plan = plan_of(&self.plan);
        let tcp = plan.protocol == Protocol::Tcp;
        let way = match plan.direction {
            Direction::Receive => Way::Receive,
            _ => Way::Send,
        };
        let mut fold = ThroughputFold::new(&plan);
        fold.push(&FlowBatch {
            echoes: (0..20)
                .map(|seq| echo(seq, 0.0, self.idle_ms, false))
                .collect(),
            ..FlowBatch::default()
        });
        for second in 0..10 {
            let from = f64::from(second);
            let bytes = (self.rate as f64 * (self.shape)(second)).round();
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "small"
            )]
            let bytes = bytes as u64;
            let ticks = (1..=plan.streams)
                .map(|stream| StreamTick {
                    stream,
                    way: Some(way),
                    from: s(from),
                    to: s(from + 1.0),
                    bytes,
                    tcp: (tcp && way == Way::Send).then_some(TcpTick {
                        acked_bytes: bytes,
                        ..self.tcp
                    }),
                    datagrams_sent: if tcp { 0 } else { bytes / 1470 },
                    cpu: s(self.cpu),
                    ..StreamTick::default()
                })
                .collect();
            fold.push(&FlowBatch {
                opened: Vec::new(),
                until: s(from + 1.0),
                ticks,
                echoes: (0..10)
                    .map(|index| {
                        let at = from + f64::from(index) / 10.0;
                        echo(20 + second * 10 + index, at, (self.loaded_ms)(second), true)
                    })
                    .collect(),
                cpu: Some(self.machine.clone()),
            });
        }
        let mut end = fold.so_far();
        let known = self.end.clone();
        for (one, given) in end.streams.iter_mut().zip(&known.streams) {
            one.udp = given.udp;
            one.peer_bytes = given.peer_bytes;
            one.failed.clone_from(&given.failed);
        }
        end = FlowEnd {
            duration: end.duration,
            streams: end.streams,
            ..known
        };
        (plan, fold, end)
    }

    fn judged(&self) -> (ThroughputSummary, Judgement) {
        let (plan, fold, end) = self.fold();
        let mut summary = fold.summary(&end);
        let series = fold.series(&end);
        let judgement = settle_flow(&plan, &mut summary, &series, &end, &Environment::default());
        assert!(
            judgement.title.chars().count() <= 100,
            "{}",
            judgement.title
        );
        assert_eq!(judgement.checks.len(), 8);
        let shares = judgement.limits.iter().map(|limit| limit.share);
        assert!(shares.into_iter().all(|share| (0.0..=1.0).contains(&share)));
        (summary, judgement)
    }

    /// Asserts the first cause and words of its evidence or of the verdict.
    fn limited_by(&self, cause: &str, says: &str) {
        let (summary, judgement) = self.judged();
        assert_eq!(summary.limited_by.as_deref(), Some(cause), "{judgement:?}");
        let all = format!(
            "{} {} {}",
            judgement.limits[0].evidence, judgement.title, judgement.verdict
        );
        let plain = all.replace(['\u{a0}', '\u{202f}'], " ");
        assert!(plain.contains(says), "{says:?} is not in {plain:?}");
    }
}

fn echo(seq: u32, at: f64, rtt_ms: f64, loaded: bool) -> Echo {
    Echo {
        seq: seq + 1,
        at: s(at),
        rtt: Some(ms(rtt_ms)),
        ttl: None,
        duplicates: 0,
        loaded,
    }
}

fn plain(text: &str) -> String {
    text.replace(['\u{a0}', '\u{202f}'], " ")
}

fn check_of<'a>(judgement: &'a Judgement, name: &str) -> &'a crate::measure::run::Check {
    judgement
        .checks
        .iter()
        .find(|check| check.name == name)
        .unwrap()
}

#[test]
fn the_peer_is_named_with_its_port() {
    assert_eq!(peer_name(&plan_of(&json!({"host": "::1"}))), "[::1]:5001");
}

#[test]
fn nothing_acknowledged_is_failed_with_its_reason() {
    let plan = plan_of(&json!({}));
    let fold = ThroughputFold::new(&plan);
    let end = FlowEnd {
        streams: vec![StreamEnd {
            stream: 1,
            failed: Some("connection refused".to_owned()),
            ..StreamEnd::default()
        }],
        ..FlowEnd::default()
    };
    let (mut summary, series) = (fold.summary(&end), fold.series(&end));
    let judgement = settle_flow(&plan, &mut summary, &series, &end, &Environment::default());
    assert_eq!(summary.limited_by.as_deref(), Some("failed"));
    assert_eq!(
        judgement.title,
        "No stream reached 10.0.0.2:5001: connection refused"
    );
    assert_eq!(check_of(&judgement, "complete").ok, Some(false));
}

#[test]
fn a_bandwidth_that_was_asked_for_and_reached_is_the_limit() {
    Made {
        plan: json!({"bandwidth_bits_per_second": 800_000_000}),
        tcp: TcpTick {
            busy: s(0.1),
            ..Made::default().tcp
        },
        ..Made::default()
    }
    .limited_by("bandwidth_asked", "As asked.");
    // 2.1 % short of it is not reached: then the sender had nothing to send.
    Made {
        plan: json!({"bandwidth_bits_per_second": 818_000_000}),
        tcp: TcpTick {
            busy: s(0.1),
            ..Made::default().tcp
        },
        ..Made::default()
    }
    .limited_by("application", "nothing to send for 90 %");
}

#[test]
fn a_throttled_process_is_named() {
    Made {
        machine: CpuTick {
            throttled: Some(0.6),
            ..CpuTick::default()
        },
        ..Made::default()
    }
    .limited_by("cgroup", "CPU quota");
}

#[test]
fn a_documented_cap_is_held_against_the_rate_on_the_wire() {
    // 800 Mbit/s of goodput at MSS 1448 are 828.7 Mbit/s on the wire.
    let cap = |bits: f64| Made {
        end: FlowEnd {
            egress_cap: Some((bits, "the lab's rule".to_owned())),
            ..FlowEnd::default()
        },
        loaded_ms: |_| 3.0,
        ..Made::default()
    };
    cap(850e6).limited_by("egress_cap", "1 stream reaches the documented cap");
    cap(850e6).limited_by("egress_cap", "97.5 % of the documented cap of 850 Mbit/s");
    cap(850e6).limited_by("egress_cap", "fills a queue of 2 ms");
    let (summary, _) = cap(900e6).judged();
    assert_ne!(summary.limited_by.as_deref(), Some("egress_cap"));
}

#[test]
fn the_tier_1_lab_reads_as_it_should() {
    // 74.9 Gbit/s of goodput at MSS 8844 under a cap of 75.
    let (summary, judgement) = Made {
        plan: json!({"streams": 16}),
        rate: 585_156_250,
        tcp: TcpTick {
            mss_bytes: 8844,
            ..Made::default().tcp
        },
        idle_ms: 0.22,
        loaded_ms: |_| 1.83,
        end: FlowEnd {
            egress_cap: Some((75e9, "TIER_1 lab".to_owned())),
            ..FlowEnd::default()
        },
        ..Made::default()
    }
    .judged();
    assert_eq!(summary.limited_by.as_deref(), Some("egress_cap"));
    assert_eq!(
        plain(&judgement.title),
        "16 streams reach the documented cap: 74.9 of 75 Gbit/s, at a cost of 1.61 ms of queue"
    );
    assert!(judgement.verdict.starts_with("The cap is what stops it"));
}

#[test]
fn a_full_thread_is_the_senders_cpu_and_only_one_may_be_helped_by_more_streams() {
    let busy = |streams: u32| Made {
        plan: json!({"streams": streams}),
        cpu: 0.97,
        ..Made::default()
    };
    busy(1).limited_by("sender_cpu", "more streams may go faster");
    let (_, judgement) = busy(2).judged();
    assert!(!judgement.limits[0].evidence.contains("more streams"));
    assert_eq!(
        check_of(&judgement, "generator_not_limited").ok,
        Some(false)
    );
    for (machine, says) in [
        (
            CpuTick {
                softirq_busiest: 0.99,
                ..CpuTick::default()
            },
            "software interrupts",
        ),
        (
            CpuTick {
                busy: 0.99,
                ..CpuTick::default()
            },
            "all cores",
        ),
        (
            CpuTick {
                steal: 0.2,
                ..CpuTick::default()
            },
            "hypervisor",
        ),
    ] {
        Made {
            machine,
            ..Made::default()
        }
        .limited_by("sender_cpu", says);
    }
}

#[test]
fn a_peer_that_reports_its_cpu_is_the_receivers_cpu() {
    Made {
        end: FlowEnd {
            peer_cpu: Some(0.98),
            ..FlowEnd::default()
        },
        ..Made::default()
    }
    .limited_by("receiver_cpu", "peer says");
    // In the other direction our own thread is the receiver's.
    Made {
        plan: json!({"direction": "receive"}),
        cpu: 0.97,
        ..Made::default()
    }
    .limited_by("receiver_cpu", "thread used 97 % of a core");
}

#[test]
fn a_full_window_is_told_from_a_slow_reader() {
    let held = |last: u64, largest: u64| {
        let grow = Made {
            rate: 4_000_000,
            tcp: TcpTick {
                busy: s(1.0),
                rwnd_limited: s(0.8),
                rtt: ms(100.0),
                mss_bytes: 1448,
                peer_window_bytes: Some(last),
                ..TcpTick::default()
            },
            ..Made::default()
        };
        let (plan, fold, end) = grow.fold();
        let mut series = fold.series(&end);
        if let Some(tcp) = &mut series.streams[0].tcp {
            tcp.peer_window_bytes = Some((last, largest));
        }
        let mut summary = fold.summary(&end);
        settle_flow(&plan, &mut summary, &series, &end, &Environment::default());
        summary.limited_by.unwrap()
    };
    // 4 MB/s at 100 ms are 400 kB in flight: a window of 416 kB is full.
    assert_eq!(held(416_000, 416_000), "receiver_window");
    // It was 4 MB and has shrunk: the program does not read.
    assert_eq!(held(20_000, 4_000_000), "receiver_application");
    // It is 4 MB all the time and far from full.
    assert_eq!(held(4_000_000, 4_000_000), "receiver_application");
}

#[test]
fn a_full_send_buffer_is_named_with_what_was_got() {
    Made {
        tcp: TcpTick {
            busy: s(1.0),
            sndbuf_limited: s(0.9),
            ..Made::default().tcp
        },
        end: FlowEnd {
            send_buffer: (Some(100_000_000), Some(425_984)),
            ..FlowEnd::default()
        },
        ..Made::default()
    }
    .limited_by("send_buffer", "asked 100 MB, got 426 kB");
}

#[test]
fn a_flat_rate_with_a_standing_queue_is_a_shaper() {
    let made = Made {
        rate: 119_250_000,
        loaded_ms: |_| 49.0,
        ..Made::default()
    };
    made.limited_by("shaper", "Something on the path holds it at 954 Mbit/s.");
    made.limited_by("shaper", "It fills a queue of 48 ms.");
    // Without the queue there is nothing to conclude it from.
    Made::default().limited_by("unknown", "does not show");
}

#[test]
fn loss_or_a_growing_round_trip_is_congestion() {
    let lossy = |congestion: &str| Made {
        shape: |second| if second % 2 == 0 { 1.0 } else { 0.7 },
        tcp: TcpTick {
            retransmits: 700,
            retransmitted_bytes: 1_000_000,
            ..Made::default().tcp
        },
        end: FlowEnd {
            congestion: Some(congestion.to_owned()),
            ..FlowEnd::default()
        },
        ..Made::default()
    };
    lossy("cubic").limited_by("congestion", "was sent again");
    lossy("bbr").limited_by("unknown", "does not show");
    Made {
        shape: |second| 1.0 - f64::from(second) / 20.0,
        ..lossy("bbr")
    }
    .limited_by("congestion", "was sent again");
    Made {
        shape: |second| if second % 2 == 0 { 1.0 } else { 0.7 },
        loaded_ms: |second| 5.0 + f64::from(second) * 20.0,
        ..Made::default()
    }
    .limited_by("congestion", "without settling");
}

#[test]
fn a_receiver_cannot_know_what_held_the_sender() {
    Made {
        plan: json!({"direction": "receive"}),
        ..Made::default()
    }
    .limited_by("unknown", "the sender is the other end");
}

#[test]
fn causes_are_listed_strongest_first() {
    let (_, judgement) = Made {
        cpu: 0.95,
        tcp: TcpTick {
            busy: s(1.0),
            sndbuf_limited: s(0.4),
            ..Made::default().tcp
        },
        ..Made::default()
    }
    .judged();
    let causes: Vec<&str> = judgement
        .limits
        .iter()
        .map(|limit| limit.cause.as_str())
        .collect();
    assert_eq!(causes, ["sender_cpu", "send_buffer"]);
    assert!((judgement.limits[1].share - 0.4).abs() < 1e-9);
}

fn udp(datagrams: u64, lost: u64, dropped: Option<u64>) -> FlowEnd {
    FlowEnd {
        streams: vec![StreamEnd {
            udp: Some(UdpEnd {
                datagrams,
                lost,
                dropped_by_receiver: dropped,
                ..UdpEnd::default()
            }),
            ..StreamEnd::default()
        }],
        ..FlowEnd::default()
    }
}

#[test]
fn datagrams_dropped_by_the_receiver_are_told_from_those_lost_on_the_way() {
    let made = |bandwidth: u64, end: FlowEnd| Made {
        plan: json!({"protocol": "udp", "bandwidth_bits_per_second": bandwidth}),
        // 1000 datagrams a second.
        rate: 1_470_000,
        end,
        ..Made::default()
    };
    made(11_760_000, udp(10_000, 0, Some(0)))
        .limited_by("bandwidth_asked", "all 10 000 datagrams arrived");
    made(11_760_000, udp(10_000, 1_000, Some(1_000)))
        .limited_by("receiver_drops", "dropped by the receiving socket");
    made(11_760_000, udp(10_000, 1_000, Some(0)))
        .limited_by("congestion", "10 % of 10 000 datagrams lost");
    let (_, judgement) = made(11_760_000, udp(10_000, 1_000, None)).judged();
    assert_eq!(check_of(&judgement, "ends_agree").ok, Some(true));
    // L9: no report.
    let (summary, judgement) = made(11_760_000, FlowEnd::default()).judged();
    assert_eq!(summary.bits_per_second, None);
    assert_eq!(check_of(&judgement, "ends_agree").ok, Some(false));
    assert!(
        judgement.title.contains("nobody confirmed"),
        "{}",
        judgement.title
    );
}

#[test]
fn ends_must_be_equal_to_the_byte_in_iperf_2_and_close_in_iperf_3() {
    let made = |dialect: &str, off: u64| Made {
        plan: json!({"dialect": dialect}),
        end: FlowEnd {
            streams: vec![StreamEnd {
                peer_bytes: Some(1_000_000_000 - off),
                ..StreamEnd::default()
            }],
            ..FlowEnd::default()
        },
        ..Made::default()
    };
    for (dialect, off, expected) in [
        ("iperf2", 0, true),
        ("iperf2", 1, false),
        ("iperf3", 0, true),
        ("iperf3", 2_000_000, true),
        ("iperf3", 50_000_000, false),
    ] {
        let (_, judgement) = made(dialect, off).judged();
        let check = check_of(&judgement, "ends_agree");
        assert_eq!(
            check.ok,
            Some(expected),
            "{dialect} {off}: {}",
            check.detail
        );
        assert_eq!(check_of(&judgement, "sums_agree").ok, Some(true));
    }
    let (_, judgement) = Made::default().judged();
    assert_eq!(check_of(&judgement, "ends_agree").ok, None);
    assert_eq!(check_of(&judgement, "on_schedule").ok, None);
}

#[test]
fn a_stream_that_stood_still_for_two_seconds_is_named() {
    let plan = plan_of(&json!({"streams": 3}));
    let mut fold = ThroughputFold::new(&plan);
    for second in 0..10 {
        let from = f64::from(second);
        let ticks = (1..=3)
            .map(|stream| {
                let still = stream == 2 && (second == 4 || second == 5);
                StreamTick {
                    stream,
                    way: Some(Way::Send),
                    from: s(from),
                    to: s(from + 1.0),
                    tcp: Some(TcpTick {
                        acked_bytes: if still { 0 } else { 10_000_000 },
                        busy: s(1.0),
                        ..TcpTick::default()
                    }),
                    ..StreamTick::default()
                }
            })
            .collect();
        fold.push(&FlowBatch {
            until: s(from + 1.0),
            ticks,
            ..FlowBatch::default()
        });
    }
    let end = fold.so_far();
    let (summary, series) = (fold.summary(&end), fold.series(&end));
    let judgement = judge_flow(&plan, &summary, &series, &end, &Environment::default());
    let title = plain(&judgement.title);
    assert!(
        title.contains("stream 2 stood still from 4 s to 6 s"),
        "{title}"
    );
}

#[test]
fn a_peer_that_vanished_is_named_with_the_time() {
    let plan = plan_of(&json!({"duration_s": 30}));
    let mut fold = ThroughputFold::new(&plan);
    for second in 0..10 {
        let from = f64::from(second);
        fold.push(&FlowBatch {
            until: s(from + 1.0),
            ticks: vec![StreamTick {
                stream: 1,
                way: Some(Way::Send),
                from: s(from),
                to: s(from + 1.0),
                tcp: Some(TcpTick {
                    acked_bytes: if second < 3 { 1_000_000 } else { 0 },
                    ..TcpTick::default()
                }),
                ..StreamTick::default()
            }],
            ..FlowBatch::default()
        });
    }
    let mut end = fold.so_far();
    for failed in [None, Some("no answer for 7 s".to_owned())] {
        end.streams[0].failed = failed;
        let (summary, series) = (fold.summary(&end), fold.series(&end));
        let judgement = judge_flow(&plan, &summary, &series, &end, &Environment::default());
        let title = plain(&judgement.title);
        assert!(
            title.starts_with("10.0.0.2:5001 vanished after 3 s of 30 s"),
            "{title}"
        );
        assert_eq!(check_of(&judgement, "complete").ok, Some(false));
    }
}

#[test]
fn streams_that_did_not_overlap_are_named() {
    let plan = plan_of(&json!({"streams": 2}));
    let mut fold = ThroughputFold::new(&plan);
    for second in 0..10 {
        let from = f64::from(second);
        let ticks = (1..=2)
            .filter(|stream| *stream == 1 || second > 0)
            .map(|stream| StreamTick {
                stream,
                way: Some(Way::Send),
                from: s(from),
                to: s(from + 1.0),
                tcp: Some(TcpTick {
                    acked_bytes: 1_000_000,
                    ..TcpTick::default()
                }),
                ..StreamTick::default()
            })
            .collect();
        fold.push(&FlowBatch {
            until: s(from + 1.0),
            ticks,
            ..FlowBatch::default()
        });
    }
    let mut end = fold.so_far();
    let (summary, series) = (fold.summary(&end), fold.series(&end));
    let judge = |end: &FlowEnd| judge_flow(&plan, &summary, &series, end, &Environment::default());
    let judgement = judge(&end);
    let check = check_of(&judgement, "streams_overlap");
    assert_eq!(check.ok, Some(false));
    assert_eq!(
        plain(&check.detail),
        "stream 2 began 1 s late; all 2 active for 9 s of 10 s"
    );
    end.streams[1].first = Some(s(0.01));
    let judgement = judge(&end);
    assert_eq!(check_of(&judgement, "streams_overlap").ok, Some(true));
}

#[test]
fn two_directions_have_one_sentence_and_each_its_own_cause() {
    for (direction, start, says) in [
        ("both", 0.0, "160 Mbit/s in both directions together"),
        (
            "in_turn",
            10.0,
            "80 Mbit/s to 10.0.0.2:5001, then 80 Mbit/s from it",
        ),
    ] {
        let plan = plan_of(&json!({"direction": direction}));
        let mut fold = ThroughputFold::new(&plan);
        for second in 0..10 {
            let from = f64::from(second);
            let tick = |way, from: f64| StreamTick {
                stream: 1,
                way: Some(way),
                from: s(from),
                to: s(from + 1.0),
                bytes: 10_000_000,
                tcp: (way == Way::Send).then_some(TcpTick {
                    acked_bytes: 10_000_000,
                    busy: s(0.2),
                    ..TcpTick::default()
                }),
                ..StreamTick::default()
            };
            fold.push(&FlowBatch {
                until: s(start + from + 1.0),
                ticks: vec![tick(Way::Send, from), tick(Way::Receive, start + from)],
                ..FlowBatch::default()
            });
        }
        let end = fold.so_far();
        let (mut summary, series) = (fold.summary(&end), fold.series(&end));
        let judgement = settle_flow(&plan, &mut summary, &series, &end, &Environment::default());
        let title = plain(&judgement.title);
        assert!(title.starts_with(says), "{title}");
        let by = |word: &str| summary.directions[word].limited_by.clone().unwrap();
        assert_eq!(
            (by("send").as_str(), by("receive").as_str()),
            ("application", "unknown")
        );
    }
}

#[test]
fn hostile_figures_never_break_a_judgement() {
    let worst = [f64::NAN, f64::INFINITY, -1.0, 0.0, 1e300];
    let (plan, fold, end) = Made::default().fold();
    for number in worst {
        let mut series = fold.series(&end);
        for stream in &mut series.streams {
            (stream.wall_s, stream.cpu_s) = (number, number);
            stream.silence_s = Some((number, number));
            if let Some(tcp) = &mut stream.tcp {
                (tcp.busy_s, tcp.rwnd_limited_s, tcp.rtt_ms) = (number, number, number);
            }
        }
        for point in series.sums.iter_mut().flat_map(|line| &mut line.points) {
            point.to_s = number;
        }
        for echo in &mut series.echoes {
            echo.rtt_ms = Some(number);
        }
        series.covers_s = number;
        let mut summary = fold.summary(&end);
        summary.bits_per_second = Some(number);
        summary.duration_s = number;
        let judgement = judge_flow(&plan, &summary, &series, &end, &Environment::default());
        assert!(!judgement.title.contains("NaN") && !judgement.verdict.contains("NaN"));
        assert!(judgement.limits.iter().all(|limit| limit.share.is_finite()));
    }
}
