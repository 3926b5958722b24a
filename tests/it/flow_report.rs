//! Reports and CSV of throughput, ping and path runs, against what the real tools print and against golden files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};
use tidemark::measure::command_line::IperfOutput;
use tidemark::measure::flow::{
    Echo, FlowBatch, FlowEnd, StreamEnd, StreamTick, TcpTick, UdpEnd, UdpTick, Way,
};
use tidemark::measure::fold::{Closed, End, Fold, Interval, Measured};
use tidemark::measure::plan::{Caps, Plan};
use tidemark::measure::run::{Check, Environment, Limit, Origin, Progress, Run, Severity, State};
use tidemark::measure::summary::Summary;
use tidemark::measure::summary::flow::{
    FlowInterval, InterfaceFigures, PathProbe, PathSummary, StreamDatagrams, StreamFigures,
    ThroughputSummary, UdpFigures,
};
use tidemark::report::csv::Options;
use tidemark::report::{self, IperfWriter, Side};

fn fixture(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/fixtures/iperf-reports");
    fs::read_to_string(path.join(name)).unwrap()
}

/// Compares with `tests/it/golden/NAME`; `UPDATE_GOLDEN=1` rewrites it.
fn golden(name: &str, text: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/it/golden")
        .join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, text).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, expected, "UPDATE_GOLDEN=1 rewrites {name}");
}

fn plan(fields: &Value) -> Plan {
    Plan::from_json(fields, &Caps::default()).unwrap_or_else(|errors| panic!("{errors:?}"))
}

fn run(plan: &Plan, summary: Option<Summary>) -> Run {
    let time = |text: &str| text.parse::<jiff::Timestamp>().unwrap();
    Run {
        id: 12,
        kind: plan.kind(),
        state: State::Finished,
        origin: Origin::Local,
        command: tidemark::measure::command_line::write(plan),
        plan: plan.clone(),
        node: "web-a1".into(),
        from: None,
        experiment: None,
        point: None,
        repeat: None,
        created_at: time("2026-11-30T17:44:00Z"),
        started_at: Some(time("2026-11-30T17:44:00.25Z")),
        finished_at: None,
        progress: Progress::default(),
        queue_place: None,
        summary,
        checks: vec![Check {
            name: "ends_agree".into(),
            ok: Some(false),
            severity: Severity::Fail,
            detail: "Sent 10 and received 9 bytes.".into(),
        }],
        limits: vec![Limit {
            cause: "bandwidth_asked".into(),
            share: 0.98,
            evidence: "8\u{202f}Mbit/s were asked for and reached".into(),
        }],
        title: None,
        verdict: Some("The asked rate held.".into()),
        objectives: Vec::new(),
        environment: Environment {
            version: "0.0.0".into(),
            kernel: Some("6.1".into()),
            ..Environment::default()
        },
        error: None,
        note: String::new(),
        tags: Vec::new(),
        baseline: false,
        actor: String::new(),
    }
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// One stream: its number, its way, and its bytes in each interval of a second.
type Flow = (u32, Way, [u64; 2]);

fn tick(plan_is_udp: bool, flow: &Flow, second: usize, begin: u64) -> StreamTick {
    let (stream, way, bytes) = *flow;
    let bytes = bytes[second];
    let at = second as u64 * 1000 + begin;
    let sends = way == Way::Send;
    StreamTick {
        stream,
        way: Some(way),
        from: ms(at),
        to: ms(at + 1000),
        bytes,
        tcp: (!plan_is_udp && sends).then(|| TcpTick {
            acked_bytes: bytes,
            retransmits: second as u64,
            rtt: Duration::from_micros(340),
            cwnd_bytes: 996_147,
            ..TcpTick::default()
        }),
        udp: (plan_is_udp && !sends).then(|| UdpTick {
            received: bytes / 1470,
            lost: i64::from(stream == 2),
            jitter: Some(Duration::from_micros(12)),
            ..UdpTick::default()
        }),
        datagrams_sent: if plan_is_udp && sends {
            bytes / 1470
        } else {
            0
        },
        cpu: Duration::ZERO,
    }
}

fn end_of(plan_is_udp: bool, flow: &Flow, begin: u64) -> StreamEnd {
    let (stream, way, bytes) = *flow;
    let total: u64 = bytes.iter().sum();
    let sends = way == Way::Send;
    let lost = u64::from(stream == 2) * 2;
    let port = 40_000 + u16::try_from(stream).unwrap();
    StreamEnd {
        stream,
        way: Some(way),
        local: Some(SocketAddr::from(([10, 0, 0, 1], port))),
        remote: Some(SocketAddr::from(([10, 0, 0, 2], 5001))),
        first: Some(ms(begin)),
        last: Some(ms(begin + 2000)),
        bytes: total,
        acked_bytes: (!plan_is_udp && sends).then_some(total),
        peer_bytes: match (plan_is_udp, sends) {
            (true, true) => Some(total - lost * 1470),
            (true, false) => None,
            (false, _) => Some(total),
        },
        retransmits: (!plan_is_udp && sends).then_some(1),
        rtt: (!plan_is_udp && sends).then_some(Duration::from_micros(340)),
        datagrams_sent: (plan_is_udp && sends).then_some(total / 1470),
        udp: plan_is_udp.then_some(UdpEnd {
            datagrams: total / 1470 + if sends { 0 } else { lost },
            lost,
            out_of_order: lost,
            duplicated: None,
            jitter: Some(Duration::from_micros(12)),
            dropped_by_receiver: None,
        }),
        failed: None,
    }
}

/// Folds flows that sent for two seconds, as a run of this plan is folded.
fn measured(plan: &Plan, flows: &[Flow]) -> (Run, Vec<Interval>) {
    let Plan::Throughput(flow_plan) = plan else {
        panic!("a throughput plan");
    };
    let udp = flow_plan.protocol == tidemark::measure::plan::throughput::Protocol::Udp;
    let in_turn = flow_plan.direction == tidemark::measure::plan::throughput::Direction::InTurn;
    let begin = |way: Way| {
        if in_turn && way == Way::Receive {
            2_100
        } else {
            0
        }
    };
    let mut fold = Fold::new(plan);
    let mut rows = Vec::new();
    let mut keep = |closed: Vec<Closed>| {
        rows.extend(closed.into_iter().filter_map(|closed| match closed {
            Closed::Flow(row) => Some(Interval::Flow(row)),
            _ => None,
        }));
    };
    for second in 0..2 {
        let batch = FlowBatch {
            until: ms(second as u64 * 1000 + 1000),
            ticks: flows
                .iter()
                .map(|flow| tick(udp, flow, second, begin(flow.1)))
                .collect(),
            ..FlowBatch::default()
        };
        keep(fold.push(&Measured::Flow(batch)));
    }
    let end = End::Flow(FlowEnd {
        duration: ms(if in_turn { 4_100 } else { 2_000 }),
        streams: flows
            .iter()
            .map(|flow| end_of(udp, flow, begin(flow.1)))
            .collect(),
        send_buffer: (None, Some(16_384)),
        receive_buffer: (None, Some(131_072)),
        congestion: (!udp).then(|| "cubic".to_owned()),
        cpu: (ms(120), ms(380)),
        peer: Some("iperf 2.1.8".into()),
        ..FlowEnd::default()
    });
    keep(fold.finish(&end));
    let mut run = run(plan, fold.summary(&end));
    if let Some(Summary::Throughput(summary)) = &mut run.summary {
        summary.limited_by = Some("bandwidth_asked".into());
    }
    (run, rows)
}

const SEND: [Flow; 2] = [
    (1, Way::Send, [1_000_440, 999_600]),
    (2, Way::Send, [1_000_440, 998_130]),
];
const RECEIVE: [Flow; 2] = [
    (1, Way::Receive, [1_000_440, 999_600]),
    (2, Way::Receive, [1_000_440, 998_130]),
];
const BOTH: [Flow; 4] = [SEND[0], SEND[1], RECEIVE[0], RECEIVE[1]];

/// Lines of figures with every number in them made the same, and blanks made one.
fn shapes(text: &str) -> BTreeSet<String> {
    text.lines()
        .map(|line| {
            // What iperf alone knows of a connection's first window, and how it spaces datagrams.
            let line = line.split(" (icwnd").next().unwrap_or(line);
            let line = line.split(" (kalman").next().unwrap_or(line);
            let mut shape = String::new();
            for c in line.chars() {
                let c = if c.is_ascii_digit() || c == '.' {
                    '#'
                } else {
                    c
                };
                if !(matches!(c, '#' | ' ') && shape.ends_with(c)) {
                    shape.push(c);
                }
            }
            for unit in ["K", "M", "G"] {
                for word in ["Bytes", "Byte ", "bits/sec"] {
                    shape = shape.replace(&format!(" {unit}{word}"), &format!(" {word}"));
                }
            }
            shape.trim_end().replace("[#]", "[ #]")
        })
        .filter(|shape| !shape.is_empty())
        .collect()
}

/// The tool's own part of a report: what stands before the first empty line that has our lines behind it.
fn own_part(text: &str) -> &str {
    text.split("\n\nThroughput").next().unwrap_or(text)
}

/// Each line of ours must be one that the real tool prints, apart from its figures.
fn like_the_real(ours: &str, real: &str, also: &[&str]) {
    let known = shapes(&fixture(real));
    for shape in shapes(own_part(ours)) {
        assert!(
            known.contains(&shape) || also.contains(&shape.as_str()),
            "{real} has no line such as {shape:?}; it has {known:#?}"
        );
    }
}

fn report_of(fields: &Value, flows: &[Flow]) -> String {
    let (run, rows) = measured(&plan(fields), flows);
    report::text_with_rows(&run, &rows).unwrap()
}

#[test]
fn reports_have_the_lines_of_iperf_2() {
    for (name, fields, flows, real) in [
        (
            "iperf.txt",
            json!({"kind": "throughput", "host": "10.0.0.2", "streams": 2, "duration_s": 2}),
            &SEND[..],
            "iperf-2.1.8-tcp.txt",
        ),
        (
            "iperf-reverse.txt",
            json!({"kind": "throughput", "host": "10.0.0.2", "streams": 2, "duration_s": 2, "direction": "receive"}),
            &RECEIVE[..],
            "iperf-2.1.8-reverse.txt",
        ),
        (
            "iperf-full-duplex.txt",
            json!({"kind": "throughput", "host": "10.0.0.2", "streams": 2, "duration_s": 2, "direction": "both"}),
            &BOTH[..],
            "iperf-2.1.8-full-duplex.txt",
        ),
        (
            "iperf-udp.txt",
            json!({"kind": "throughput", "host": "10.0.0.2", "streams": 2, "duration_s": 2, "protocol": "udp", "bandwidth_bits_per_second": 8e6}),
            &SEND[..],
            "iperf-2.1.8-udp.txt",
        ),
        (
            "iperf-udp-reverse.txt",
            json!({"kind": "throughput", "host": "10.0.0.2", "duration_s": 2, "protocol": "udp", "bandwidth_bits_per_second": 8e6, "direction": "receive"}),
            &RECEIVE[..1],
            "iperf-2.1.8-udp-reverse.txt",
        ),
    ] {
        let text = report_of(&fields, flows);
        like_the_real(&text, real, &[]);
        golden(name, &text);
    }
}

#[test]
fn a_test_in_turn_numbers_the_way_back_and_has_no_common_sum() {
    let fields = json!({"kind": "throughput", "host": "10.0.0.2", "streams": 2, "duration_s": 2, "direction": "in_turn"});
    let text = report_of(&fields, &BOTH);
    golden("iperf-in-turn.txt", &text);
    for id in ["[  1]", "[  2]", "[  3]", "[  4]"] {
        assert!(text.contains(id), "{text}");
    }
    let sums = text
        .lines()
        .filter(|line| line.starts_with("[SUM] 0.0000-2.0000"));
    assert_eq!(sums.count(), 2, "{text}");
}

#[test]
fn reports_have_the_lines_of_iperf_3() {
    let plan_with = |more: Value| {
        let mut fields = json!({"kind": "throughput", "dialect": "iperf3", "host": "10.0.0.2", "streams": 2,
            "duration_s": 2, "bandwidth_bits_per_second": 8e6});
        for (key, value) in more.as_object().unwrap() {
            fields[key] = value.clone();
        }
        fields
    };
    for (name, more, flows, real) in [
        ("iperf3.txt", json!({}), &SEND[..], "iperf3-3.12-tcp.txt"),
        (
            "iperf3-reverse.txt",
            json!({"direction": "receive"}),
            &RECEIVE[..],
            "iperf3-3.12-reverse.txt",
        ),
        (
            "iperf3-bidir.txt",
            json!({"direction": "both"}),
            &BOTH[..],
            "iperf3-3.12-bidir.txt",
        ),
        (
            "iperf3-udp.txt",
            json!({"protocol": "udp"}),
            &SEND[..],
            "iperf3-3.12-udp.txt",
        ),
    ] {
        let text = report_of(&plan_with(more), flows);
        // A receiver is not told how often the sender sent again.
        let also = [
            "[ #] #-# sec # Bytes # bits/sec sender",
            "[SUM] #-# sec # Bytes # bits/sec sender",
            "[ #][RX-C] #-# sec # Bytes # bits/sec sender",
            "[SUM][RX-C] #-# sec # Bytes # bits/sec sender",
        ];
        like_the_real(&text, real, &also);
        assert!(text.ends_with("\niperf Done.\n"));
        golden(name, &text);
    }
}

/// What mininet looks for: the last rate in the output.
fn mininet(text: &str) -> Option<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    words
        .windows(2)
        .filter(|pair| pair[1].ends_with("/sec") && pair[0].parse::<f64>().is_ok())
        .map(|pair| format!("{} {}", pair[0], pair[1]))
        .next_back()
}

/// What `awk '/SUM/ {print $(NF-1), $NF}'` prints last.
fn awk_sum(text: &str) -> Option<String> {
    let line = text.lines().rfind(|line| line.contains("SUM"))?;
    let words: Vec<&str> = line.split_whitespace().collect();
    Some(words[words.len() - 2..].join(" "))
}

#[test]
fn scripts_find_the_total_where_they_look_for_it() {
    let fields = json!({"kind": "throughput", "host": "10.0.0.2", "streams": 2, "duration_s": 2});
    let text = report_of(&fields, &SEND);
    assert_eq!(mininet(&text).as_deref(), Some("16.0 Mbits/sec"));
    assert_eq!(awk_sum(&text).as_deref(), Some("16.0 Mbits/sec"));
    let one = report_of(
        &json!({"kind": "throughput", "host": "10.0.0.2", "duration_s": 2}),
        &SEND[..1],
    );
    assert_eq!(mininet(&one).as_deref(), Some("8.00 Mbits/sec"));
    assert!(!one.contains("SUM"), "{one}");
}

#[test]
fn printing_follows_the_options_of_the_line() {
    let plan =
        plan(&json!({"kind": "throughput", "host": "10.0.0.2", "streams": 2, "duration_s": 2}));
    let (run, rows) = measured(&plan, &SEND);
    let Plan::Throughput(flow_plan) = &plan else {
        panic!("a throughput plan");
    };
    let Some(Summary::Throughput(summary)) = &run.summary else {
        panic!("a throughput summary");
    };
    let rows: Vec<FlowInterval> = rows
        .into_iter()
        .filter_map(|row| match row {
            Interval::Flow(row) => Some(row),
            _ => None,
        })
        .collect();
    let printed = |output: IperfOutput| {
        let mut writer = IperfWriter::new(flow_plan, Side::Client, output);
        writer.opening(None) + &writer.intervals(&rows) + &writer.end(&run, summary)
    };
    let quiet = printed(IperfOutput {
        interval_lines: Some(false),
        ..IperfOutput::default()
    });
    assert_eq!(quiet.matches(" sec ").count(), 3, "{quiet}");
    let sums = printed(IperfOutput {
        sum_only: true,
        ..IperfOutput::default()
    });
    assert_eq!(sums.matches(" sec ").count(), 3, "{sums}");
    assert!(!sums.contains("[  1]"), "{sums}");
    let kilobytes = printed(IperfOutput {
        unit: Some('K'),
        ..IperfOutput::default()
    });
    assert!(
        kilobytes.contains(" 977 KBytes   977 KBytes/sec"),
        "{kilobytes}"
    );
}

#[test]
fn a_stream_that_failed_is_named_and_not_counted() {
    let plan =
        plan(&json!({"kind": "throughput", "host": "10.0.0.2", "streams": 2, "duration_s": 2}));
    let mut fold = Fold::new(&plan);
    let mut failed = end_of(false, &SEND[1], 0);
    failed.failed = Some("refused: nothing listens there (connection refused)".into());
    (failed.bytes, failed.peer_bytes, failed.acked_bytes) = (0, None, None);
    let batch = FlowBatch {
        until: ms(2_000),
        ticks: vec![tick(false, &SEND[0], 0, 0), tick(false, &SEND[0], 1, 0)],
        ..FlowBatch::default()
    };
    fold.push(&Measured::Flow(batch));
    let end = End::Flow(FlowEnd {
        duration: ms(2_000),
        streams: vec![end_of(false, &SEND[0], 0), failed],
        ..FlowEnd::default()
    });
    let run = run(&plan, fold.summary(&end));
    let text = report::text(&run).unwrap();
    assert!(
        text.contains("[  2] failed: refused: nothing listens there"),
        "{text}"
    );
    assert_eq!(awk_sum(&text).as_deref(), Some("8.00 Mbits/sec"));
}

#[test]
fn json_has_the_keys_of_iperf_3() {
    /// Every path through objects and arrays, positions left out.
    fn paths(value: &Value, at: &str, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(object) => {
                for (key, value) in object {
                    paths(value, &format!("{at}/{key}"), found);
                }
            }
            Value::Array(values) => {
                for value in values {
                    paths(value, at, found);
                }
            }
            _ => {
                found.insert(at.to_owned());
            }
        }
    }
    for (more, flows, real) in [
        (json!({"streams": 2}), &SEND[..], "iperf3-3.12-tcp.json"),
        (
            json!({"protocol": "udp", "bandwidth_bits_per_second": 8e6}),
            &SEND[..1],
            "iperf3-3.12-udp.json",
        ),
        (
            json!({"direction": "both"}),
            &[SEND[0], RECEIVE[0]][..],
            "iperf3-3.12-bidir.json",
        ),
    ] {
        let mut fields =
            json!({"kind": "throughput", "dialect": "iperf3", "host": "10.0.0.2", "duration_s": 2});
        for (key, value) in more.as_object().unwrap() {
            fields[key] = value.clone();
        }
        let plan = plan(&fields);
        let (run, rows) = measured(&plan, flows);
        let (Plan::Throughput(flow_plan), Some(Summary::Throughput(summary))) =
            (&plan, &run.summary)
        else {
            panic!("a throughput run");
        };
        let rows: Vec<FlowInterval> = rows
            .into_iter()
            .filter_map(|row| match row {
                Interval::Flow(row) => Some(row),
                _ => None,
            })
            .collect();
        let text = report::iperf3_json(&run, flow_plan, summary, &rows);
        let ours: Value = serde_json::from_str(&text).unwrap();
        let theirs: Value = serde_json::from_str(&fixture(real)).unwrap();
        let (mut have, mut known) = (BTreeSet::new(), BTreeSet::new());
        paths(&ours, "", &mut have);
        paths(&theirs, "", &mut known);
        let added: Vec<&String> = have
            .iter()
            .filter(|path| !known.contains(*path) && !path.starts_with("/tidemark/"))
            .collect();
        assert_eq!(added, Vec::<&String>::new(), "{real}");
        // Known to a sender's kernel or to the other end's process alone, or of no meaning here.
        let absent = [
            "cookie",
            "tcp_mss_default",
            "snd_wnd",
            "rttvar",
            "pmtu",
            "max_snd_cwnd",
            "max_snd_wnd",
            "max_rtt",
            "min_rtt",
            "remote_total",
            "remote_user",
            "remote_system",
            "receiver_tcp_congestion",
            "rcvbuf_actual",
            "sndbuf_actual",
        ];
        let missing: Vec<&String> = known
            .iter()
            .filter(|path| !have.contains(*path))
            .filter(|path| !absent.iter().any(|key| path.ends_with(&format!("/{key}"))))
            .filter(|path| !(path.starts_with("/end/sum_sent/") && path.ends_with(['s', 't'])))
            .filter(|path| *path != "/end/sum_sent_bidir_reverse/retransmits")
            .collect();
        assert_eq!(missing, Vec::<&String>::new(), "{real}");
        let received = &ours["end"]["sum_received"];
        let bytes: u64 = flows
            .iter()
            .filter(|flow| flow.1 == Way::Send)
            .map(|flow| flow.2.iter().sum::<u64>())
            .sum();
        assert_eq!(received["bytes"], bytes);
        let intervals: u64 = ours["intervals"]
            .as_array()
            .unwrap()
            .iter()
            .map(|step| step["sum"]["bytes"].as_u64().unwrap())
            .sum();
        assert_eq!(intervals, bytes);
    }
}

/// Reads a line as a reader of 9 or 14 columns does: the numbers must be numbers.
fn columns(line: &str) -> Vec<String> {
    let cells: Vec<String> = line.split(',').map(str::to_owned).collect();
    assert!(matches!(cells.len(), 9 | 14), "{line}");
    assert!(
        cells[0].len() == 14 && !cells[0].starts_with("1970"),
        "{line}"
    );
    assert!(cells[0].bytes().all(|byte| byte.is_ascii_digit()), "{line}");
    for at in [2, 4, 5, 7, 8] {
        assert!(cells[at].parse::<i64>().is_ok(), "column {at} of {line}");
    }
    assert!(
        cells[6]
            .split_once('-')
            .is_some_and(|(from, to)| from.parse::<f64>().is_ok() && to.parse::<f64>().is_ok())
    );
    cells
}

fn csv_of(fields: &Value, flows: &[Flow]) -> String {
    let plan = plan(fields);
    let (run, rows) = measured(&plan, flows);
    let (Plan::Throughput(plan), Some(Summary::Throughput(summary))) = (&plan, &run.summary) else {
        panic!("a throughput run");
    };
    let rows: Vec<FlowInterval> = rows
        .into_iter()
        .filter_map(|row| match row {
            Interval::Flow(row) => Some(row),
            _ => None,
        })
        .collect();
    report::iperf_csv(&run, plan, summary, &rows)
}

#[test]
fn csv_rows_have_one_order_and_always_a_sum() {
    let real = fixture("iperf-2.1.8-tcp.csv");
    assert!(real.lines().all(|line| line.split(',').count() == 9));
    for (name, fields, flows, width) in [
        (
            "iperf.csv",
            json!({"kind": "throughput", "host": "10.0.0.2", "streams": 2, "duration_s": 2}),
            &SEND[..],
            9,
        ),
        (
            "iperf-one.csv",
            json!({"kind": "throughput", "host": "10.0.0.2", "duration_s": 2, "direction": "receive"}),
            &RECEIVE[..1],
            9,
        ),
        (
            "iperf-udp.csv",
            json!({"kind": "throughput", "host": "10.0.0.2", "streams": 2, "duration_s": 2, "protocol": "udp", "bandwidth_bits_per_second": 8e6}),
            &SEND[..],
            14,
        ),
        (
            "iperf-udp-reverse.csv",
            json!({"kind": "throughput", "host": "10.0.0.2", "streams": 2, "duration_s": 2, "protocol": "udp", "bandwidth_bits_per_second": 8e6, "direction": "receive"}),
            &RECEIVE[..],
            14,
        ),
    ] {
        let text = csv_of(&fields, flows);
        golden(name, &text);
        let rows: Vec<Vec<String>> = text.lines().map(columns).collect();
        assert!(rows.iter().all(|row| row.len() == width), "{text}");
        let last = rows.last().unwrap();
        assert_eq!(
            (last[5].as_str(), last[6].as_str()),
            ("-1", "0.0-2.0"),
            "{text}"
        );
        // The sum of the intervals equals the total to the byte.
        let bytes = |of: &dyn Fn(&&Vec<String>) -> bool| -> i64 {
            rows.iter()
                .filter(of)
                .map(|row| row[7].parse::<i64>().unwrap())
                .sum()
        };
        let intervals = bytes(&|row| row[5] == "-1" && row[6] != "0.0-2.0");
        let total = bytes(&|row| row[5] == "-1" && row[6] == "0.0-2.0");
        let lost = if name == "iperf-udp.csv" { 2 * 1470 } else { 0 };
        assert_eq!(intervals, total + lost, "{text}");
    }
}

#[test]
fn interval_rows_are_as_the_contract_says() {
    let plan =
        plan(&json!({"kind": "throughput", "host": "10.0.0.2", "streams": 2, "duration_s": 2}));
    let (run, rows) = measured(&plan, &SEND);
    let text = report::intervals_csv(&run, &rows, Options::default()).unwrap();
    golden("flow-intervals.csv", &text);
    let mut lines = text.split("\r\n");
    assert_eq!(
        lines.next(),
        Some(
            "run,stream,direction,start_s,end_s,bytes,bits_per_second,retransmits,rtt_ms,cwnd_bytes,lost,datagrams,jitter_ms"
        )
    );
    assert_eq!(
        text.matches(",SUM,").count() + text.matches("SUM,send").count(),
        2 * 2,
        "{text}"
    );
    let mut by_stream: BTreeMap<&str, u64> = BTreeMap::new();
    for line in lines.filter(|line| !line.is_empty()) {
        let cells: Vec<&str> = line.split(',').collect();
        assert_eq!(cells.len(), 13);
        *by_stream.entry(cells[1]).or_default() += cells[5].parse::<u64>().unwrap();
    }
    assert_eq!(by_stream["SUM"], by_stream["1"] + by_stream["2"]);
}

/// Round trips in ms, of which the third was lost.
fn pinged(fields: &Value, rtts: &[Option<f64>]) -> (Run, Vec<Interval>) {
    let plan = plan(fields);
    let mut fold = Fold::new(&plan);
    let mut rows = Vec::new();
    for (seq, rtt) in (1..).zip(rtts) {
        let batch = FlowBatch {
            until: ms(u64::from(seq) * 200),
            echoes: vec![Echo {
                seq,
                at: ms(u64::from(seq) * 200 - 200),
                rtt: rtt.map(|ms| Duration::from_secs_f64(ms / 1e3)),
                ttl: rtt.map(|_| 64),
                duplicates: u32::from(seq == 2 && rtt.is_some()),
                loaded: false,
            }],
            ..FlowBatch::default()
        };
        rows.extend(fold.push(&Measured::Flow(batch)).into_iter().filter_map(
            |closed| match closed {
                Closed::Echo(row) => Some(Interval::Echo(row)),
                _ => None,
            },
        ));
    }
    let host = fields["host"].as_str().unwrap();
    let end = End::Flow(FlowEnd {
        duration: ms(rtts.len() as u64 * 200),
        streams: vec![StreamEnd {
            stream: 1,
            remote: Some(SocketAddr::new(host.parse().unwrap(), 0)),
            ..StreamEnd::default()
        }],
        ..FlowEnd::default()
    });
    let mut run = run(&plan, fold.summary(&end));
    (run.checks, run.limits) = (Vec::new(), Vec::new());
    (run, rows)
}

#[test]
fn ping_reports_have_the_lines_of_iputils() {
    for (host, real, name) in [
        ("127.0.0.1", "ping-iputils-20221126.txt", "ping.txt"),
        ("::1", "ping6-iputils-20221126.txt", "ping6.txt"),
    ] {
        let fields = json!({"kind": "ping", "host": host, "count": 3, "interval_s": 0.2});
        let (run, rows) = pinged(&fields, &[Some(0.030), Some(0.044), Some(0.050)]);
        let text = report::text_with_rows(&run, &rows).unwrap();
        let own = text
            .split("\n\nMedian")
            .next()
            .unwrap()
            .replace(" +1 duplicates,", "");
        let known = shapes(&fixture(real).replace("::1", "0"));
        for shape in shapes(&own.replace("::1", "0")) {
            let plain = shape.replace(" (DUP!)", "");
            let plain = if shape.ends_with("(DUP!)") {
                format!("{plain} time=# ms")
            } else {
                plain
            };
            assert!(known.contains(&plain), "{plain:?} is not in {known:#?}");
        }
        golden(name, &text);
    }
    let fields = json!({"kind": "ping", "host": "10.0.0.2", "count": 4, "interval_s": 0.2});
    let (run, rows) = pinged(&fields, &[Some(0.5), Some(12.34), None, Some(250.6)]);
    let text = report::text_with_rows(&run, &rows).unwrap();
    for words in [
        "time=0.500 ms\n",
        "time=12.3 ms\n",
        "time=251 ms\n",
        "4 packets transmitted, 3 received, +1 duplicates, 25% packet loss, time ",
        "Lost: 3\n",
        "Verdict: The asked rate held.",
    ] {
        assert!(text.contains(words), "{words:?} is not in {text}");
    }
    let csv = report::intervals_csv(&run, &rows, Options::default()).unwrap();
    golden("ping.csv", &csv);
    let (run, rows) = pinged(&fields, &[None, None]);
    let text = report::text_with_rows(&run, &rows).unwrap();
    assert!(
        text.contains("2 packets transmitted, 0 received, 100% packet loss"),
        "{text}"
    );
    assert!(!text.contains("rtt min"), "{text}");
}

#[test]
fn path_reports_let_grep_find_the_mtu() {
    let plan = plan(&json!({"kind": "path", "host": "10.0.0.2", "expect_mtu": 1500}));
    let summary = PathSummary {
        interface: Some("eth0".into()),
        interface_mtu: Some(8896),
        path_mtu: Some(1460),
        expected_mtu: Some(1500),
        ok: Some(false),
        black_hole: Some(true),
        address: Some("10.0.0.2".into()),
        probes: vec![
            PathProbe {
                size_bytes: 8896,
                result: "no_answer".into(),
                rtt_ms: None,
                named_mtu: None,
            },
            PathProbe {
                size_bytes: 1460,
                result: "answered".into(),
                rtt_ms: Some(0.31),
                named_mtu: None,
            },
        ],
        interfaces: vec![InterfaceFigures {
            name: "eth0".into(),
            mtu: Some(8896),
            addresses: vec!["10.0.0.1".into(), "fe80::1".into()],
        }],
        ..PathSummary::default()
    };
    let run = run(&plan, Some(Summary::Path(Box::new(summary))));
    let text = report::text(&run).unwrap();
    golden("path.txt", &text);
    let found: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("mtu 8896 inet"))
        .collect();
    assert_eq!(found, ["eth0: mtu 8896 inet 10.0.0.1 inet6 fe80::1"]);
    golden(
        "path.csv",
        &report::intervals_csv(&run, &[], Options::default()).unwrap(),
    );
}

fn odd() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.0), Just(-1.0), 0.0_f64..1e15,]
}

fn any_interval() -> impl Strategy<Value = FlowInterval> {
    (
        prop::sample::select(vec!["1", "2", "SUM"]),
        prop::sample::select(vec!["send", "receive"]),
        0.0_f64..10.0,
        0.0_f64..10.0,
        (
            any::<u64>(),
            prop::option::of(odd()),
            prop::option::of(any::<u64>()),
            prop::option::of(any::<i64>()),
        ),
        (prop::option::of(any::<u64>()), prop::option::of(odd())),
    )
        .prop_map(
            |(stream, direction, start_s, length, counts, more)| FlowInterval {
                run: 1,
                stream: stream.to_owned(),
                direction: direction.to_owned(),
                start_s,
                end_s: start_s + length,
                bytes: counts.0,
                bits_per_second: counts.1,
                retransmits: counts.2,
                rtt_ms: more.1,
                cwnd_bytes: counts.2,
                lost: counts.3,
                datagrams: more.0,
                jitter_ms: more.1,
            },
        )
}

fn any_stream() -> impl Strategy<Value = StreamFigures> {
    (
        1_u32..4,
        prop::sample::select(vec!["send", "receive"]),
        any::<u64>(),
        odd(),
        (
            prop::option::of(odd()),
            prop::option::of(any::<u64>()),
            any::<bool>(),
        ),
        prop::option::of((any::<u64>(), any::<u64>(), prop::option::of(odd()))),
    )
        .prop_map(
            |(id, direction, bytes, duration_s, more, datagrams)| StreamFigures {
                id,
                local: Some("[::1]:40000".to_owned()),
                remote: Some("nonsense".to_owned()).filter(|_| more.2),
                direction: direction.to_owned(),
                bytes,
                duration_s,
                bits_per_second: more.0,
                retransmits: more.1,
                failed: more.1.filter(|n| n % 3 == 0).map(|_| "gone".to_owned()),
                bytes_sent: more.1,
                bytes_received: Some(bytes),
                datagrams: datagrams.map(|(lost, received, jitter_ms)| StreamDatagrams {
                    sent: Some(lost),
                    received: Some(received),
                    lost: Some(lost),
                    out_of_order: Some(received),
                    jitter_ms,
                }),
                ..StreamFigures::default()
            },
        )
}

proptest! {
    #[test]
    fn no_figure_is_ever_nan_or_infinite(
        intervals in prop::collection::vec(any_interval(), 0..8),
        streams in prop::collection::vec(any_stream(), 0..4),
        direction in prop::sample::select(vec!["send", "receive", "both", "in_turn"]),
        udp: bool,
        three: bool,
        figure in prop::option::of(odd()),
        duration_s in odd(),
        count in prop::option::of(any::<u64>()),
    ) {
        let three = three && direction != "in_turn";
        let plan = plan(&json!({"kind": "throughput", "host": "::1", "streams": 2, "direction": direction,
            "protocol": if udp { "udp" } else { "tcp" }, "dialect": if three { "iperf3" } else { "iperf2" }}));
        let summary = ThroughputSummary {
            bits_per_second: figure,
            bits_per_second_whole: figure,
            bytes_sent: count,
            bytes_received: count,
            duration_s,
            streams,
            udp: udp.then(|| UdpFigures { datagrams_lost: count, datagrams_received: count, jitter_ms: figure, ..UdpFigures::default() }),
            ..ThroughputSummary::default()
        };
        let mut directions = BTreeMap::new();
        if matches!(direction, "both" | "in_turn") {
            directions.insert("send".to_owned(), summary.clone());
            directions.insert("receive".to_owned(), summary.clone());
        }
        let summary = ThroughputSummary { directions, ..summary };
        let run = run(&plan, Some(Summary::Throughput(Box::new(summary.clone()))));
        let rows: Vec<Interval> = intervals.iter().cloned().map(Interval::Flow).collect();
        let Plan::Throughput(flow_plan) = &plan else {
            return Ok(());
        };
        let mut texts = vec![
            report::text_with_rows(&run, &rows).unwrap(),
            report::iperf_csv(&run, flow_plan, &summary, &intervals),
            report::intervals_csv(&run, &rows, Options::default()).unwrap(),
        ];
        if three {
            let json = report::iperf3_json(&run, flow_plan, &summary, &intervals);
            prop_assert!(serde_json::from_str::<Value>(&json).is_ok(), "{}", json);
            texts.push(json);
        }
        for text in texts {
            let words = text.split(|c: char| !c.is_ascii_alphanumeric()).map(str::to_ascii_lowercase);
            for word in words {
                prop_assert!(word != "nan" && word != "inf" && word != "infinity", "{}", text);
            }
        }
    }
}
