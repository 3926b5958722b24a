//! Lines of iperf 2 and 3 as people paste them, and throughput plans as lines.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::{Reading, UNLIMITED, WordNote, read, written};
use crate::measure::plan::Plan;
use crate::measure::plan::throughput::Dialect;

fn plan_of(reading: &Reading) -> Option<Plan> {
    Plan::from_json(reading.plan.as_ref()?, &UNLIMITED).ok()
}

/// A throughput plan with these fields.
fn throughput(fields: &Value) -> Plan {
    let mut fields = fields.clone();
    fields["kind"] = json!("throughput");
    Plan::from_json(&fields, &UNLIMITED).unwrap_or_else(|errors| panic!("{fields}: {errors:?}"))
}

/// The line must be read without a problem to a valid plan with these fields.
fn check(line: &str, expected: &Value) -> Reading {
    let reading = read(line);
    assert_eq!(reading.problems, Vec::<String>::new(), "{line}");
    let plan = Plan::from_json(reading.plan.as_ref().expect(line), &UNLIMITED)
        .unwrap_or_else(|errors| panic!("{line}: {errors:?}"))
        .to_json();
    for (key, value) in expected.as_object().expect("an object") {
        assert_eq!(
            plan.get(key).unwrap_or(&Value::Null),
            value,
            "{line}: {key}"
        );
    }
    reading
}

/// The line must be refused with a sentence that holds these words.
fn refused(line: &str, words: &str) {
    let reading = read(line);
    assert_eq!(reading.plan, None, "{line}");
    assert!(
        reading.problems.iter().any(|one| one.contains(words)),
        "{line}: {:?} lack {words:?}",
        reading.problems
    );
    for problem in &reading.problems {
        assert!(problem.ends_with(['.', ')']), "{problem}");
    }
}

#[test]
fn each_word_of_an_iperf_line_is_explained() {
    use WordNote::{Added, Ignored, Understood};
    let reading = check(
        "iperf -c 10.0.0.2 -P 16 -t 30 -e",
        &json!({"host": "10.0.0.2", "port": 5001, "protocol": "tcp", "streams": 16, "duration_s": 30,
            "length_bytes": 131_072, "interval_s": 1, "direction": "send", "dialect": "iperf2",
            "bandwidth_bits_per_second": null, "window_bytes": null}),
    );
    let words: Vec<(&str, WordNote)> = reading
        .words
        .iter()
        .map(|word| (word.text.as_str(), word.note))
        .collect();
    assert_eq!(
        words,
        [
            ("iperf", Understood),
            ("-c 10.0.0.2", Understood),
            ("-P 16", Understood),
            ("-t 30", Understood),
            ("-e", Ignored),
            ("no -p", Added),
            ("no -l", Added),
        ]
    );
    assert!(reading.words.iter().all(|word| !word.meaning.is_empty()));
}

#[test]
fn iperf_2_lines_are_read_with_its_suffixes() {
    for (line, expected) in [
        ("iperf -c h", json!({"duration_s": 10, "streams": 1})),
        (
            "iperf -ch -t5 -P4 -p5002",
            json!({"duration_s": 5, "streams": 4, "port": 5002}),
        ),
        (
            "iperf --client h --time 5 --parallel 2 --format m",
            json!({"duration_s": 5, "streams": 2}),
        ),
        (
            "iperf -c h -n 100M",
            json!({"bytes": 104_857_600, "duration_s": null}),
        ),
        ("iperf -c h -n 100m", json!({"bytes": 100_000_000})),
        (
            "iperf -c h -w 256K -l 1400",
            json!({"window_bytes": 262_144, "length_bytes": 1400}),
        ),
        ("iperf -c h -w 256k", json!({"window_bytes": 256_000})),
        (
            "iperf -c h -b 100m",
            json!({"bandwidth_bits_per_second": 100_000_000, "protocol": "tcp"}),
        ),
        (
            "iperf -c h -b 100M",
            json!({"bandwidth_bits_per_second": 104_857_600}),
        ),
        (
            "iperf -c h -b 0",
            json!({"bandwidth_bits_per_second": null}),
        ),
        (
            "iperf -u -c h",
            json!({"protocol": "udp", "length_bytes": 1470, "bandwidth_bits_per_second": 1_048_576}),
        ),
        (
            "iperf -u -c ::1",
            json!({"length_bytes": 1450, "host": "::1"}),
        ),
        (
            "iperf -u -c h -V",
            json!({"length_bytes": 1450, "ip_version": 6}),
        ),
        (
            "iperf -c [::1] -u -b 50m -l 1400",
            json!({"host": "::1", "length_bytes": 1400}),
        ),
        ("iperf -c fe80::1%eth0", json!({"host": "fe80::1%eth0"})),
        ("iperf -c h -R", json!({"direction": "receive"})),
        ("iperf -c h -d", json!({"direction": "both"})),
        (
            "iperf -c h -d -u",
            json!({"direction": "both", "protocol": "udp"}),
        ),
        ("iperf -c h --full-duplex", json!({"direction": "both"})),
        ("iperf -c h -r", json!({"direction": "in_turn"})),
        (
            "iperf -c h -t 5 -n 1M",
            json!({"duration_s": null, "bytes": 1_048_576}),
        ),
        (
            "iperf -c h -n 1M -t 5",
            json!({"duration_s": 5, "bytes": null}),
        ),
        (
            "iperf -c h -Z bbr -M 1400 -S 0x20 -B 10.0.0.9",
            json!({"congestion": "bbr", "mss_bytes": 1400, "tos": 32, "bind": "10.0.0.9"}),
        ),
        (
            "iperf -c h -P 4 -B 10.0.0.9:6001 --incr-srcport",
            json!({"bind": "10.0.0.9", "cport": 6001, "streams": 4}),
        ),
        (
            "iperf -c h -B 0.0.0.0:6001",
            json!({"bind": null, "cport": 6001}),
        ),
        ("iperf3 -c h --cport 6001", json!({"cport": 6001})),
        (
            "iperf -c h -S ef -i 0.5",
            json!({"tos": 184, "interval_s": 0.5}),
        ),
        ("iperf -c h -4", json!({"ip_version": 4})),
        (
            "iperf -c h -e -m -N -C -X -z --trip-times -T 5 -F",
            json!(null),
        ),
        (
            "iperf -c h -L 5010 -e -m -N -C -X -z --trip-times -T 5 -o f.txt -x CDMSV --no-connect-sync",
            json!({"streams": 1}),
        ),
    ] {
        if expected.is_null() {
            refused(line, "needs a value");
        } else {
            check(line, &expected);
        }
    }
}

#[test]
fn iperf_3_lines_are_read_with_its_suffixes() {
    for (line, expected) in [
        (
            "iperf3 -c h",
            json!({"dialect": "iperf3", "port": 5201, "length_bytes": 131_072, "duration_s": 10}),
        ),
        (
            "iperf3 -c h -b 100m",
            json!({"bandwidth_bits_per_second": 100_000_000}),
        ),
        (
            "iperf3 -c h -b 100M",
            json!({"bandwidth_bits_per_second": 100_000_000}),
        ),
        (
            "iperf3 -c h -n 100m -w 256k",
            json!({"bytes": 104_857_600, "window_bytes": 262_144}),
        ),
        (
            "iperf3 -c h -k 10 -l 1K",
            json!({"bytes": 10_240, "length_bytes": 1024}),
        ),
        ("iperf3 -c h -k 10", json!({"bytes": 1_310_720})),
        (
            "iperf3 -c h -u",
            json!({"protocol": "udp", "length_bytes": 1460, "bandwidth_bits_per_second": 1_048_576}),
        ),
        (
            "iperf3 -c h -R -O 2 -P 4",
            json!({"direction": "receive", "omit_s": 2, "streams": 4}),
        ),
        (
            "iperf3 -c h --bidir -C cubic -M 1400",
            json!({"direction": "both", "congestion": "cubic", "mss_bytes": 1400}),
        ),
        (
            "iperf3 -c ::1 -6 --dscp ef",
            json!({"ip_version": 6, "tos": 184}),
        ),
        (
            "iperf3 -c h -V -d --get-server-output --forceflush -T run --timestamps --connect-timeout 500",
            json!({"direction": "send"}),
        ),
    ] {
        check(line, &expected);
    }
    let reading = check("iperf3 -c h -J -i 0 -f M", &json!({"interval_s": 1}));
    assert!(reading.output.json);
    assert_eq!(reading.output.iperf.interval_lines, Some(false));
    assert_eq!(reading.output.iperf.unit, Some('M'));
    let reading = check("iperf -c h -y C -i 1 -f k --sum-only", &json!({}));
    assert!(reading.output.iperf.csv && reading.output.iperf.sum_only);
    assert_eq!(reading.output.iperf.interval_lines, Some(true));
}

#[test]
fn the_same_letters_mean_what_each_tool_means() {
    check("iperf -c h -Z cubic -C", &json!({"congestion": "cubic"}));
    check("iperf3 -c h -C cubic", &json!({"congestion": "cubic"}));
    refused("iperf3 -c h -Z", "zero copy");
    check("iperf -c h -V", &json!({"ip_version": 6}));
    check("iperf3 -c h -V", &json!({"ip_version": null}));
    check("iperf -c h -d", &json!({"direction": "both"}));
    check("iperf3 -c h -d", &json!({"direction": "send"}));
}

#[test]
fn what_cannot_be_honoured_is_refused_by_name() {
    for (line, words) in [
        ("iperf -t 5", "-c HOST"),
        ("iperf -c h -s", "both -c and -s"),
        ("iperf -c h:5002", "-c h -p 5002"),
        ("iperf -c 127.0.0.1%lo", "device lo"),
        ("iperf -c h -t 0", "bounded"),
        ("iperf -c h -t inf", "needs a number"),
        ("iperf -c h -b 1000pps -u", "packets per second"),
        ("iperf -c h -u -b 10m,1m", "varying rates"),
        ("iperf -c h -u -b 0", "UDP without a rate"),
        ("iperf -c h -b fast", "bit/s"),
        ("iperf -c h -n lots", "size in bytes"),
        ("iperf -c h -p 5001-5005", "range of ports"),
        ("iperf -c h -p 0", "1 to 65535"),
        ("iperf -c h -R -r", "several directions"),
        ("iperf -c h -r -L 5010", "-L is not supported"),
        ("iperf -c h -B 10.0.0.1:0", "source port"),
        ("iperf -c h -B 10.0.0.1:lots", "source port"),
        ("iperf -s -B 10.0.0.1:6001", "with -p"),
        ("iperf -c h --cport 6001", "-B ADDRESS:PORT"),
        ("iperf3 -c h -B 10.0.0.1:6001", "with --cport"),
        ("iperf -c h -F data.bin", "-F, -I"),
        ("iperf -c h --bounceback", "--bounceback"),
        ("iperf -c h --isochronous 60:1m", "--isochronous"),
        ("iperf -c h --permit-key k", "--permit-key"),
        ("iperf -c h --incr-dstport", "differ by stream"),
        ("iperf -c h --connect-only", "tcp"),
        ("iperf -c h --bidir", "--full-duplex"),
        ("iperf -c h -O 2", "iperf 2 has no -O"),
        ("iperf -c h -k 5", "iperf 2 has no -k"),
        ("iperf -c h -J", "--format json"),
        ("iperf -c h -q", "no option -q"),
        ("iperf -c h -y x", "-y takes C"),
        ("iperf -c h -S teapot", "-S takes"),
        ("iperf -c h 5", "belongs to no option"),
        ("iperf -v", "-c HOST"),
        ("iperf3 -c h -t 0", "bounded"),
        ("iperf3 -c h -t 0.5", "whole seconds"),
        ("iperf3 -c h -t 5 -n 1M", "more than one of"),
        ("iperf3 -c h -b 10m/20", "bursts"),
        ("iperf3 -c h -r", "iperf 3 has no -r"),
        ("iperf3 -c h --full-duplex", "--bidir"),
        ("iperf3 -c h -y C", "--format csv"),
        ("iperf3 -c h --cport 0", "--cport takes a port"),
        ("iperf3 -c h --sctp", "SCTP"),
        ("iperf3 -c h -A 1,2", "-A"),
        ("iperf3 -c h -R --bidir", "-R and --bidir"),
        ("iperf3 -c h -L 5", "flow label"),
        ("iperf3 -c h --fq-rate 1g", "-b"),
        ("iperf3 -c h --username u", "login"),
        ("iperf3 -c h -F f", "-F"),
        ("iperf3 -c h --dont-fragment -u", "tracepath"),
    ] {
        refused(line, words);
    }
}

#[test]
fn lines_that_start_a_receiver_say_what_they_start() {
    let reading = read("iperf -s -u -p 5010 -i 1 -B 127.0.0.1 -D -w 256K -e");
    let server = reading.server.expect("a receiver");
    assert_eq!(
        (server.dialect, server.udp, server.port, server.interval_s),
        (Dialect::Iperf2, true, 5010, Some(1.0))
    );
    assert_eq!(server.bind, Some("127.0.0.1".parse().unwrap()));
    assert_eq!((reading.plan, reading.draft), (None, None));
    assert_eq!(reading.problems.len(), 1);
    assert!(reading.problems[0].contains("start the built-in receiver"));

    let server = read("iperf3 -s -1").server.expect("a receiver");
    assert_eq!(
        (server.dialect, server.port, server.tests, server.interval_s),
        (Dialect::Iperf3, 5201, Some(1), Some(1.0))
    );
    let server = read("iperf -s -t 60 -P 2 -V").server.expect("a receiver");
    assert_eq!(
        (
            server.listen_s,
            server.tests,
            server.ipv6,
            server.interval_s
        ),
        (Some(60.0), Some(2), true, None)
    );
    for (line, words) in [
        ("iperf -s --permit-key k", "--permit-key"),
        ("iperf -s -p 5001-5003", "range of ports"),
        ("iperf -s -B eth0", "an IP address"),
        ("iperf3 -s --authorized-users-path f", "login"),
        ("iperf3 -s --server-bitrate-limit 1G", "-b"),
        ("iperf -s now", "belongs to no option"),
        ("iperf -s -o report.txt", "> FILE"),
        ("iperf -s -i 0.01", "0.1 to 3600 s"),
        ("iperf3 -s --logfile f", "> FILE"),
        ("iperf3 -s --json-stream", "-J"),
        ("iperf3 -s -R", "belongs to a client"),
    ] {
        refused(line, words);
        assert_eq!(read(line).server, None, "{line}");
    }
}

#[test]
fn plans_are_written_as_people_would() {
    for (fields, expected) in [
        (
            json!({"host": "10.0.0.2", "streams": 16, "duration_s": 30}),
            "iperf -c 10.0.0.2 -P 16 -t 30 -i 1 -l 1M",
        ),
        (
            json!({"host": "10.0.0.2", "length_bytes": 131_072}),
            "iperf -c 10.0.0.2 -t 10 -i 1",
        ),
        (
            json!({"host": "h", "bytes": 104_857_600, "direction": "receive", "port": 5002}),
            "iperf -c h -p 5002 -n 100M -i 1 -R -l 1M",
        ),
        (
            json!({"host": "::1", "protocol": "udp", "bandwidth_bits_per_second": 100_000_000}),
            "iperf -c ::1 -u -t 10 -i 1 -l 1470 -b 100m",
        ),
        (
            json!({"host": "h", "protocol": "udp"}),
            "iperf -c h -u -t 10 -i 1 -l 1470",
        ),
        (
            json!({"host": "fe80::1%eth0", "direction": "both", "congestion": "bbr", "window_bytes": 262_144}),
            "iperf -c 'fe80::1%eth0' -t 10 -i 1 --full-duplex -Z bbr -l 1M -w 256K",
        ),
        (
            json!({"host": "h", "direction": "in_turn", "mss_bytes": 1400, "tos": 32, "ip_version": 6, "bind": "::1"}),
            "iperf -c h -t 10 -i 1 -r -l 1M -M 1400 -S 0x20 -6 -B ::1",
        ),
        (
            json!({"host": "h", "streams": 4, "bind": "10.0.0.9", "cport": 6001}),
            "iperf -c h -P 4 -t 10 -i 1 -l 1M -B 10.0.0.9:6001",
        ),
        (
            json!({"host": "h", "cport": 6001, "ip_version": 6}),
            "iperf -c h -t 10 -i 1 -l 1M -6 -B '[::]:6001'",
        ),
        (
            json!({"host": "h", "dialect": "iperf3", "bind": "10.0.0.9", "cport": 6001}),
            "iperf3 -c h -t 10 -l 1M -B 10.0.0.9 --cport 6001",
        ),
        (
            json!({"host": "h", "dialect": "iperf3", "omit_s": 2, "direction": "both"}),
            "iperf3 -c h -t 10 -O 2 --bidir -l 1M",
        ),
        (
            json!({"host": "h", "dialect": "iperf3", "interval_s": 0.5, "congestion": "cubic", "length_bytes": 131_072}),
            "iperf3 -c h -t 10 -i 0.5 -C cubic",
        ),
    ] {
        let plan = throughput(&fields);
        let written = written(&plan);
        assert_eq!(written.line, expected);
        assert!(written.exact, "{expected}: {:?}", written.differs);
        assert_eq!(plan_of(&read(&written.line)), Some(plan));
    }
}

#[test]
fn what_the_line_cannot_say_is_said() {
    for (fields, words) in [
        (
            json!({"host": "h", "receive": "discard"}),
            "discards it in the kernel",
        ),
        (
            json!({"host": "h", "protocol": "udp", "offload": true}),
            "segmentation offload",
        ),
        (json!({"host": "h", "omit_s": 2}), "no omitted start"),
        (
            json!({"host": "h", "dialect": "iperf3", "duration_s": 2.5}),
            "whole seconds",
        ),
    ] {
        let plan = throughput(&fields);
        let written = written(&plan);
        assert!(!written.exact);
        assert!(
            written.differs.iter().any(|one| one.contains(words)),
            "{:?}",
            written.differs
        );
        let again = read(&written.tidemark);
        assert_eq!(plan_of(&again), Some(plan), "{}", written.tidemark);
    }
}

fn any_throughput() -> impl Strategy<Value = Value> {
    let numbers = (
        1_u32..=64,
        prop_oneof![Just(None), (1_u64..1 << 40).prop_map(Some)],
        1_u32..3_600,
        prop::sample::select(vec![0.5, 1.0, 2.0, 0.1, 10.0]),
        prop_oneof![Just(None), (18_u32..65_000).prop_map(Some)],
        prop_oneof![Just(None), (1_024_u64..1 << 30).prop_map(Some)],
        prop_oneof![Just(None), (1_u64..10_000_000_000).prop_map(Some)],
    );
    let words = (
        prop::sample::select(vec!["10.0.0.2", "::1", "fe80::1%eth0", "node-a.example"]),
        any::<bool>(),
        prop::sample::select(vec!["send", "receive", "both", "in_turn"]),
        prop::option::of(prop::sample::select(vec!["cubic", "bbr"])),
        prop::option::of(88_u32..9_000),
        prop::option::of(any::<u8>()),
        prop::option::of(prop::sample::select(vec![4, 6])),
        prop::option::of(prop::sample::select(vec!["127.0.0.1", "fd00::1"])),
        any::<bool>(),
        0_u32..4,
    );
    (numbers, words).prop_map(|(numbers, words)| {
        let (streams, bytes, seconds, interval, length, window, rate) = numbers;
        let (host, udp, direction, congestion, mss, tos, version, bind, three, omit) = words;
        let mut plan = json!({
            "host": host, "streams": streams, "interval_s": interval, "direction": direction,
            "window_bytes": window, "bandwidth_bits_per_second": rate, "tos": tos,
            "ip_version": version, "bind": bind, "length_bytes": length,
        });
        let mut set = |key: &str, value: Value| {
            plan[key] = value;
        };
        match bytes {
            Some(bytes) => set("bytes", json!(bytes)),
            None => set("duration_s", json!(seconds)),
        }
        if udp {
            set("protocol", json!("udp"));
        } else {
            set("congestion", json!(congestion));
            set("mss_bytes", json!(mss));
        }
        if three {
            set("dialect", json!("iperf3"));
            if direction == "in_turn" {
                set("direction", json!("send"));
            }
            if bytes.is_none() {
                set("omit_s", json!(omit));
            }
        }
        plan
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(plan in any_throughput()) {
        let plan = throughput(&plan);
        let written = written(&plan);
        prop_assert!(written.exact, "{}: {:?}", written.line, written.differs);
        let reading = read(&written.line);
        prop_assert_eq!(plan_of(&reading), Some(plan.clone()), "{}", written.line);
        let reading = read(&written.tidemark);
        prop_assert_eq!(plan_of(&reading), Some(plan), "{}", written.tidemark);
    }
}
