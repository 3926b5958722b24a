//! Known answers of throughput runs: sums to the byte, windows, turns and omitted time.

use serde_json::{Value, json};

use super::*;
use crate::measure::flow::{Echo, Opened, UdpEnd};
use crate::measure::plan::Caps;
use crate::measure::plan::throughput;
use crate::measure::units;

fn plan(more: Value) -> ThroughputPlan {
    let mut object = serde_json::Map::from_iter([("host".to_owned(), json!("10.0.0.2"))]);
    if let Value::Object(more) = more {
        object.extend(more);
    }
    throughput::from_json(&object, &Caps::default()).unwrap()
}

fn s(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

fn tcp(stream: u32, from: f64, to: f64, acked: u64) -> StreamTick {
    StreamTick {
        stream,
        way: Some(Way::Send),
        from: s(from),
        to: s(to),
        // More was written than is acknowledged: it must never show.
        bytes: acked + 777,
        tcp: Some(TcpTick {
            acked_bytes: acked,
            retransmits: 1,
            busy: s(to - from),
            ..TcpTick::default()
        }),
        ..StreamTick::default()
    }
}

fn received(stream: u32, from: f64, to: f64, bytes: u64) -> StreamTick {
    StreamTick {
        stream,
        way: Some(Way::Receive),
        from: s(from),
        to: s(to),
        bytes,
        ..StreamTick::default()
    }
}

fn sent(stream: u32, first: f64, last: f64, acked: u64, peer: Option<u64>) -> StreamEnd {
    StreamEnd {
        stream,
        way: Some(Way::Send),
        first: Some(s(first)),
        last: Some(s(last)),
        bytes: acked + 777,
        acked_bytes: Some(acked),
        peer_bytes: peer,
        ..StreamEnd::default()
    }
}

fn batch(until: f64, ticks: Vec<StreamTick>) -> FlowBatch {
    FlowBatch {
        until: s(until),
        ticks,
        ..FlowBatch::default()
    }
}

fn ended(duration: f64, streams: Vec<StreamEnd>) -> FlowEnd {
    FlowEnd {
        duration: s(duration),
        streams,
        ..FlowEnd::default()
    }
}

fn near(found: Option<f64>, expected: f64) {
    let found = found.unwrap_or(f64::NAN);
    assert!(
        (found / expected - 1.0).abs() < 1e-6,
        "{found} is not {expected}"
    );
}

fn sum_of(rows: &[FlowInterval], stream: &str, direction: &str) -> u64 {
    rows.iter()
        .filter(|row| row.stream == stream && row.direction == direction)
        .map(|row| row.bytes)
        .sum()
}

#[test]
fn iperfs_261_gbytes_in_30_s_are_74_7_gigabit_per_second() {
    let bytes = 261_u64 << 30;
    let mut fold = ThroughputFold::new(&plan(json!({"duration_s": 30})));
    for second in 0..30 {
        let share = if second < 29 {
            bytes / 30
        } else {
            bytes - bytes / 30 * 29
        };
        let from = f64::from(second);
        fold.push(&batch(from + 1.0, vec![tcp(1, from, from + 1.0, share)]));
    }
    let end = ended(30.0, vec![sent(1, 0.0, 30.0, bytes, Some(bytes))]);
    let summary = fold.summary(&end);
    near(summary.bits_per_second, bytes as f64 * 8.0 / 30.0);
    let rate = summary.bits_per_second.unwrap();
    assert_eq!(units::bits_per_second_text(rate), "74.7 Gbit/s");
    let received = summary.bytes_received.unwrap();
    assert_eq!(received, bytes);
    assert_eq!(units::volume_text(received as f64), "280.2 GB (261.0 GiB)");
    let json = serde_json::to_value(&summary).unwrap();
    assert_eq!(json["bits_per_second"], json!(rate));
    assert!(json.get("directions").is_none() && json.get("datagrams_sent").is_none());
}

#[test]
fn what_was_written_but_not_acknowledged_is_no_throughput() {
    // T11: 1 Mbit/s of link, 2 s: 250 000 bytes get through while 450 000 more fill the socket buffer.
    let mut fold = ThroughputFold::new(&plan(json!({"duration_s": 2})));
    let mut rows = Vec::new();
    for second in 0..2 {
        let from = f64::from(second);
        let mut tick = tcp(1, from, from + 1.0, 125_000);
        tick.bytes = 350_000;
        rows.extend(fold.push(&batch(from + 1.0, vec![tick])));
    }
    rows.extend(fold.finish_intervals());
    let mut one = sent(1, 0.0, 2.0, 250_000, None);
    one.bytes = 700_000;
    let summary = fold.summary(&ended(2.0, vec![one.clone()]));
    near(summary.bits_per_second, 1e6);
    assert_eq!(summary.bytes_sent, Some(700_000));
    assert_eq!(summary.bytes_acknowledged, Some(250_000));
    assert_eq!(summary.bytes_received, None);
    assert_eq!(sum_of(&rows, "SUM", "send"), 250_000);

    // The buffer drains for 3.6 s after the last write: the receiver's 700 000 bytes took 5.6 s.
    for step in 2..5 {
        let from = f64::from(step);
        fold.push(&batch(from + 1.0, vec![tcp(1, from, from + 1.0, 125_000)]));
    }
    fold.push(&batch(5.6, vec![tcp(1, 5.0, 5.6, 75_000)]));
    one.peer_bytes = Some(700_000);
    let summary = fold.summary(&ended(5.6, vec![one]));
    near(summary.bits_per_second, 1e6);
}

#[test]
fn the_headline_is_of_the_time_in_which_all_streams_were_active() {
    // T15: four streams on a link of 80 Mbit/s; the fourth begins a second late. 10 MB cross each second.
    let mut fold = ThroughputFold::new(&plan(json!({"streams": 4, "duration_s": 5})));
    let mut rows = Vec::new();
    let mut totals = [0_u64; 4];
    for second in 0..5_u32 {
        let active = if second == 0 { 3 } else { 4 };
        let from = f64::from(second);
        let ticks = (1..=active)
            .map(|stream| {
                let share = 10_000_000 / u64::from(active);
                totals[stream as usize - 1] += share;
                tcp(stream, from, from + 1.0, share)
            })
            .collect();
        rows.extend(fold.push(&batch(from + 1.0, ticks)));
    }
    rows.extend(fold.finish_intervals());
    let streams = (1..=4)
        .map(|stream| {
            let total = totals[stream as usize - 1];
            let first = if stream == 4 { 1.0 } else { 0.0 };
            sent(stream, first, 5.0, total, Some(total))
        })
        .collect();
    let summary = fold.summary(&ended(5.0, streams));
    near(summary.bits_per_second, 80e6);
    let all: u64 = totals.iter().sum();
    near(summary.bits_per_second_whole, all as f64 * 8.0 / 5.0);
    assert!(summary.bits_per_second_whole.unwrap() <= 80e6);
    near(summary.fairness, 1.0);
    assert_eq!(sum_of(&rows, "SUM", "send"), all);
    for (stream, total) in (1..).zip(totals) {
        assert_eq!(sum_of(&rows, &stream.to_string(), "send"), total);
    }
    assert_eq!(rows.iter().filter(|row| row.stream == "SUM").count(), 5);
}

#[test]
fn failed_streams_are_counted_and_left_out() {
    let mut fold = ThroughputFold::new(&plan(json!({"streams": 3, "duration_s": 1})));
    fold.push(&batch(
        1.0,
        vec![tcp(1, 0.0, 1.0, 3_000_000), tcp(2, 0.0, 1.0, 1_000_000)],
    ));
    let mut third = sent(3, 0.0, 0.0, 0, None);
    third.failed = Some("connection refused".to_owned());
    let streams = vec![
        sent(1, 0.0, 1.0, 3_000_000, None),
        sent(2, 0.0, 1.0, 1_000_000, None),
        third,
    ];
    let summary = fold.summary(&ended(1.0, streams));
    near(summary.bits_per_second, 32e6);
    assert_eq!((summary.streams.len(), summary.streams_asked), (3, 3));
    assert_eq!(summary.streams[2].bits_per_second, None);
    // (3 + 1)² / (2 · (9 + 1)) = 0.8.
    near(summary.fairness, 0.8);
    near(summary.fastest_to_slowest, 3.0);
    assert_eq!(summary.bytes_acknowledged, Some(4_000_000));
}

#[test]
fn nothing_at_all_is_no_figure() {
    let fold = ThroughputFold::new(&plan(json!({"streams": 2})));
    let mut one = StreamEnd {
        stream: 1,
        failed: Some("refused".to_owned()),
        ..StreamEnd::default()
    };
    let both = ended(0.1, vec![one.clone(), one.clone()]);
    let summary = fold.summary(&both);
    assert_eq!((summary.bits_per_second, summary.bytes_sent), (None, None));
    assert_eq!(fold.summary(&FlowEnd::default()).bits_per_second, None);
    one.failed = None;
    let summary = fold.summary(&ended(0.1, vec![one]));
    assert_eq!(summary.bits_per_second, None);
    let json = serde_json::to_string(&summary).unwrap();
    assert!(!json.contains("NaN"), "{json}");
}

#[test]
fn the_omitted_start_is_in_the_rows_and_not_in_the_figure() {
    let mut fold = ThroughputFold::new(&plan(json!({"omit_s": 2, "duration_s": 3})));
    let mut rows = Vec::new();
    let mut total = 0;
    for second in 0..5 {
        let bytes = if second < 2 { 100_000 } else { 1_000_000 };
        total += bytes;
        let from = f64::from(second);
        rows.extend(fold.push(&batch(from + 1.0, vec![tcp(1, from, from + 1.0, bytes)])));
    }
    rows.extend(fold.finish_intervals());
    let end = ended(5.0, vec![sent(1, 0.0, 5.0, total, Some(total))]);
    let summary = fold.summary(&end);
    near(summary.bits_per_second, 8e6);
    near(summary.bits_per_second_whole, total as f64 * 8.0 / 5.0);
    assert_eq!(sum_of(&rows, "SUM", "send"), total);
    assert_eq!(fold.series(&end).streams[0].bytes, 3_000_000);

    // Neither end of an iperf 3 test has counted it.
    let mut fold3 = ThroughputFold::new(&plan(
        json!({"omit_s": 2, "duration_s": 3, "dialect": "iperf3"}),
    ));
    for second in 0..5 {
        let bytes = if second < 2 { 100_000 } else { 1_000_000 };
        let from = f64::from(second);
        fold3.push(&batch(from + 1.0, vec![tcp(1, from, from + 1.0, bytes)]));
    }
    let summary = fold3.summary(&ended(
        5.0,
        vec![sent(1, 2.0, 5.0, 3_000_000, Some(3_000_000))],
    ));
    near(summary.bits_per_second, 8e6);
    near(summary.bits_per_second_whole, 8e6);
    near(summary.streams[0].bits_per_second, 8e6);
    assert_eq!(summary.bytes_received, Some(3_000_000));
    near(Some(summary.duration_s), 3.0);
    let so_far = fold3.summary(&fold3.so_far());
    near(so_far.bits_per_second, 8e6);
    assert_eq!(so_far.bytes_sent, Some(3_000_000));
}

#[test]
fn both_directions_at_once_have_a_sum_and_in_turn_they_have_none() {
    for (direction, start, headline) in [("both", 0.0, Some(24e6)), ("in_turn", 2.0, None)] {
        let mut fold = ThroughputFold::new(&plan(json!({"direction": direction, "duration_s": 2})));
        let mut rows = Vec::new();
        for second in 0..2 {
            let from = f64::from(second);
            rows.extend(fold.push(&batch(
                from + 1.0,
                vec![
                    tcp(1, from, from + 1.0, 1_000_000),
                    received(1, start + from, start + from + 1.0, 2_000_000),
                ],
            )));
        }
        rows.extend(fold.finish_intervals());
        let back = StreamEnd {
            stream: 1,
            way: Some(Way::Receive),
            first: Some(s(start)),
            last: Some(s(start + 2.0)),
            bytes: 4_000_000,
            ..StreamEnd::default()
        };
        let end = ended(
            start + 2.0,
            vec![sent(1, 0.0, 2.0, 2_000_000, Some(2_000_000)), back],
        );
        let summary = fold.summary(&end);
        assert_eq!(summary.bits_per_second, headline, "{direction}");
        near(summary.directions["send"].bits_per_second, 8e6);
        near(summary.directions["receive"].bits_per_second, 16e6);
        assert_eq!(summary.bytes_received, Some(6_000_000));
        assert_eq!((summary.streams.len(), summary.streams_asked), (2, 2));
        near(Some(summary.duration_s), start + 2.0);
        assert_eq!(sum_of(&rows, "SUM", "send"), 2_000_000);
        assert_eq!(sum_of(&rows, "SUM", "receive"), 4_000_000);
        assert_eq!(fold.series(&end).sums.len(), 2);
    }
}

#[test]
fn udp_figures_are_the_receivers_and_without_them_there_are_none() {
    let mut fold = ThroughputFold::new(&plan(json!({"protocol": "udp", "duration_s": 1})));
    fold.push(&batch(
        1.0,
        vec![StreamTick {
            stream: 1,
            way: Some(Way::Send),
            to: s(1.0),
            bytes: 147_000,
            datagrams_sent: 100,
            ..StreamTick::default()
        }],
    ));
    let mut one = StreamEnd {
        stream: 1,
        way: Some(Way::Send),
        first: Some(s(0.0)),
        last: Some(s(1.0)),
        bytes: 147_000,
        datagrams_sent: Some(100),
        ..StreamEnd::default()
    };
    // L9, T30: the rate of sending is no throughput.
    let summary = fold.summary(&ended(1.0, vec![one.clone()]));
    assert_eq!(
        (summary.bits_per_second, summary.bytes_received),
        (None, None)
    );
    assert_eq!(summary.udp.as_ref().unwrap().datagrams_lost, None);
    assert_eq!(summary.udp.as_ref().unwrap().datagrams_sent, Some(100));

    one.udp = Some(UdpEnd {
        datagrams: 100,
        lost: 10,
        jitter: Some(Duration::from_micros(250)),
        ..UdpEnd::default()
    });
    let summary = fold.summary(&ended(1.0, vec![one]));
    near(summary.bits_per_second, 90.0 * 1470.0 * 8.0);
    let udp = summary.udp.unwrap();
    assert_eq!(udp.lost_percent, Some(10.0));
    assert_eq!(udp.datagrams_received, Some(90));
    assert_eq!(udp.jitter_ms, Some(0.25));
    assert_eq!(udp.dropped_by_receiver, None);
}

#[test]
fn a_late_datagram_may_take_a_loss_back_and_jitter_is_the_streams_own() {
    // T18's part that is ours: jitter comes as it was smoothed, and no clock offset enters it.
    let mut fold = ThroughputFold::new(&plan(
        json!({"protocol": "udp", "duration_s": 2, "direction": "receive"}),
    ));
    let mut rows = Vec::new();
    for (second, lost) in [(0, 3_i64), (1, -2)] {
        let from = f64::from(second);
        let mut tick = received(1, from, from + 1.0, 97 * 1470);
        tick.udp = Some(UdpTick {
            received: 97,
            lost,
            jitter: Some(Duration::from_micros(40)),
            ..UdpTick::default()
        });
        rows.extend(fold.push(&batch(from + 1.0, vec![tick])));
    }
    rows.extend(fold.finish_intervals());
    assert_eq!(rows[0].datagrams, Some(100));
    assert_eq!(rows[2].lost, Some(-2));
    assert!((rows[1].jitter_ms.unwrap() - 0.04).abs() < 1e-9);
    let udp = fold.summary(&fold.so_far()).udp.unwrap();
    assert_eq!(
        (udp.datagrams_lost, udp.datagrams_received),
        (Some(1), Some(194))
    );
}

#[test]
fn intervals_sum_to_the_byte_whatever_their_lengths() {
    let mut dice = 12_345_u64;
    let mut roll = |below: u64| {
        dice = dice
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (dice >> 33) % below
    };
    for _ in 0..50 {
        let mut fold = ThroughputFold::new(&plan(json!({"streams": 3, "interval_s": 0.5})));
        let mut rows = Vec::new();
        let mut totals = [0_u64; 3];
        let mut clocks = [0.0_f64; 3];
        for _ in 0..40 {
            let stream = usize::try_from(roll(3)).unwrap();
            let length = 0.01 + roll(2_000) as f64 / 1_000.0;
            let bytes = roll(1_000_003);
            let from = clocks[stream];
            clocks[stream] += length;
            totals[stream] += bytes;
            let number = u32::try_from(stream).unwrap() + 1;
            rows.extend(fold.push(&batch(
                clocks[stream],
                vec![tcp(number, from, from + length, bytes)],
            )));
        }
        rows.extend(fold.finish_intervals());
        for (stream, total) in (1..).zip(totals) {
            assert_eq!(sum_of(&rows, &stream.to_string(), "send"), total);
        }
        assert_eq!(sum_of(&rows, "SUM", "send"), totals.iter().sum::<u64>());
        let series = fold.series(&fold.so_far());
        let drawn: u64 = series.sums[0].points.iter().map(|point| point.bytes).sum();
        assert_eq!(drawn, totals.iter().sum::<u64>());
        let retransmits: u64 = rows
            .iter()
            .filter(|row| row.stream == "SUM")
            .filter_map(|row| row.retransmits)
            .sum();
        assert_eq!(retransmits, 40);
    }
}

#[test]
fn long_runs_stay_bounded_and_keep_slowest_and_fastest() {
    let mut fold = ThroughputFold::new(&plan(json!({"streams": 40, "duration_s": 1000})));
    for second in 0..1000_u32 {
        let from = f64::from(second);
        let ticks = (1..=40)
            // Stream 23 is the slowest, stream 7 the fastest.
            .map(|stream| {
                let bytes = match stream {
                    23 => 10,
                    7 => 9_000,
                    other => 1_000 + u64::from(other),
                };
                tcp(stream, from, from + 1.0, bytes)
            })
            .collect();
        fold.push(&batch(from + 1.0, ticks));
    }
    let series = fold.series(&fold.so_far());
    assert_eq!(series.lines.len(), MOST_LINES);
    let named: Vec<u32> = series.lines.iter().map(|line| line.stream).collect();
    assert!(named.contains(&23) && named.contains(&7), "{named:?}");
    assert!(series.lines.iter().all(|line| line.points.len() <= 250));
    assert_eq!(series.streams.len(), 40);
    let text = serde_json::to_string(&series).unwrap();
    let back: FlowSeries = serde_json::from_str(&text).unwrap();
    assert_eq!(back, series);
}

#[test]
fn a_gap_in_the_data_stays_a_gap_and_silence_is_measured() {
    let mut fold = ThroughputFold::new(&plan(json!({"streams": 2, "duration_s": 10})));
    for second in [0, 1, 2, 6, 7, 8, 9] {
        let from = f64::from(second);
        let quiet = second == 7 || second == 8;
        fold.push(&batch(
            from + 1.0,
            vec![
                tcp(1, from, from + 1.0, 1_000),
                tcp(2, from, from + 1.0, if quiet { 0 } else { 1_000 }),
            ],
        ));
    }
    let series = fold.series(&fold.so_far());
    assert_eq!(series.sums[0].points.len(), 7);
    assert!((series.sums[0].points[3].from_s - 6.0).abs() < 1e-9);
    assert_eq!(series.streams[0].silence_s, None);
    assert_eq!(series.streams[1].silence_s, Some((7.0, 9.0)));
}

#[test]
fn stored_rows_give_the_same_figures_back() {
    let plan = plan(json!({"streams": 2, "duration_s": 3}));
    let mut fold = ThroughputFold::new(&plan);
    let mut rows = Vec::new();
    for second in 0..3 {
        let from = f64::from(second);
        rows.extend(fold.push(&batch(
            from + 1.0,
            vec![
                tcp(1, from, from + 1.0, 1_000_001),
                tcp(2, from, from + 1.0, 2_000_003),
            ],
        )));
    }
    rows.extend(fold.finish_intervals());
    let again = ThroughputFold::from_stored(&plan, &rows);
    let (a, b) = (fold.summary(&fold.so_far()), again.summary(&again.so_far()));
    assert_eq!(a.bits_per_second, b.bits_per_second);
    assert_eq!(a.bytes_acknowledged, b.bytes_acknowledged);
    assert_eq!(a.retransmits, b.retransmits);
    assert_eq!(
        fold.series(&fold.so_far()).sums,
        again.series(&again.so_far()).sums
    );
    // The kernel's account of what the sender waited for is not in the rows.
    assert_eq!(again.series(&again.so_far()).streams[0].tcp, None);
}

#[test]
fn streams_have_their_addresses_while_they_run() {
    let mut fold = ThroughputFold::new(&plan(json!({})));
    let (local, remote) = ("10.0.0.1:40001", "10.0.0.2:5001");
    fold.push(&FlowBatch {
        opened: vec![Opened {
            stream: 1,
            way: Way::Send,
            local: local.parse().unwrap(),
            remote: remote.parse().unwrap(),
        }],
        ..FlowBatch::default()
    });
    fold.push(&batch(
        1.0,
        vec![tcp(1, 0.0, 1.0, 1_000), tcp(2, 0.0, 1.0, 1_000)],
    ));
    let streams = fold.summary(&fold.so_far()).streams;
    assert_eq!(streams[0].local.as_deref(), Some(local));
    assert_eq!(streams[0].remote.as_deref(), Some(remote));
    assert_eq!((&streams[1].local, &streams[1].remote), (&None, &None));
}

#[test]
fn the_probes_round_trips_are_told_apart_by_load() {
    let mut fold = ThroughputFold::new(&plan(json!({})));
    let echo = |seq, rtt_ms: f64, loaded| Echo {
        seq,
        at: s(f64::from(seq) / 10.0),
        rtt: Some(s(rtt_ms / 1e3)),
        ttl: None,
        duplicates: 0,
        loaded,
    };
    fold.push(&FlowBatch {
        until: s(1.0),
        echoes: vec![
            echo(1, 2.0, false),
            echo(2, 2.0, false),
            echo(3, 50.0, true),
        ],
        ..FlowBatch::default()
    });
    let rtt = fold.summary(&fold.so_far()).rtt_ms;
    assert_eq!((rtt.idle.count, rtt.loaded.count), (2, 1));
    near(rtt.loaded.median, 50.0);
}

#[test]
fn idle_round_trips_lie_before_the_load_whether_few_or_many() {
    for many in [30, 3_000_u32] {
        let mut fold = ThroughputFold::new(&plan(json!({})));
        let echo = |seq, at: f64, loaded| Echo {
            seq,
            at: s(at),
            rtt: Some(s(0.002)),
            ttl: None,
            duplicates: 0,
            loaded,
        };
        // From 2 s before the start on; the last idle one is told after the first loaded one.
        let mut echoes: Vec<Echo> = (1..=40)
            .map(|seq| echo(seq, f64::from(41 - seq) * 0.05, false))
            .collect();
        let last = echoes.pop();
        echoes.extend((0..many).map(|index| echo(41 + index, f64::from(index) * 0.05, true)));
        echoes.extend(last);
        fold.push(&FlowBatch {
            echoes,
            ..FlowBatch::default()
        });
        let series = fold.series(&fold.so_far());
        let times: Vec<(f64, bool)> = series
            .echoes
            .iter()
            .map(|echo| (echo.at_s, echo.loaded))
            .chain(series.echo_bins.iter().map(|bin| (bin.from_s, bin.loaded)))
            .collect();
        assert!(times.is_sorted_by_key(|(at, _)| *at), "{times:?}");
        assert!(times.iter().all(|(at, loaded)| (*at >= 0.0) == *loaded));
        near(Some(times[0].0), -2.0);
        assert_eq!(series.echoes.is_empty(), many > 1_000);
        let idle = series.echo_bins.iter().filter(|bin| !bin.loaded);
        let sent: u64 = idle.map(|bin| bin.sent).sum();
        assert_eq!(sent, if many > 1_000 { 40 } else { 0 });
    }
}
