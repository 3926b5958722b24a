//! The probe of round trips beside a throughput run: on the idle path before the load, through it, and without harm
//! to the receiver.

use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidemark::measure::plan::{Caps, throughput};
use tidemark::measure::summary::throughput::ThroughputFold;
use tidemark::runner::Stop;
use tidemark::runner::throughput::{FlowJob, run_with_probe};

use crate::support::netns::{Namespace, serve};
use crate::support::skip;

/// Waits until something listens on this TCP port of this namespace.
fn wait_for_listener(port: u64) {
    let word = format!(":{port:04X}");
    let until = Instant::now() + Duration::from_mins(1);
    loop {
        let listens = ["tcp", "tcp6"].iter().any(|table| {
            let text = std::fs::read_to_string(format!("/proc/net/{table}")).unwrap_or_default();
            text.lines().any(|line| {
                let words: Vec<&str> = line.split_whitespace().collect();
                words.len() > 3 && words[1].ends_with(&word) && words[3] == "0A"
            })
        });
        if listens {
            return;
        }
        assert!(Instant::now() < until, "nothing listens on {port}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Runs inside a namespace: a throughput run with its probe, against 127.0.0.1.
#[test]
fn inside() {
    serve(|input| {
        let object = input["plan"].as_object().unwrap();
        let plan = throughput::from_json(object, &Caps::default()).unwrap();
        if input["listens"] != false {
            wait_for_listener(plan.port.into());
        }
        let job = FlowJob {
            address: ([127, 0, 0, 1], plan.port).into(),
            plan,
            egress_cap: None,
        };
        measured(&job, &Stop::new(), input["enough"].as_u64())
    });
}

/// Makes the run, ends it after so many round trips under load, and checks what holds for every one.
fn measured(job: &FlowJob, stop: &Stop, enough: Option<u64>) -> Value {
    let mut fold = ThroughputFold::new(&job.plan);
    let mut numbers = Vec::new();
    let (mut idle, mut loaded, mut lost) = (0_u64, 0_u64, 0_u64);
    let end = run_with_probe(job, stop, &mut |batch| {
        for echo in &batch.echoes {
            numbers.push(echo.seq);
            *(if echo.loaded { &mut loaded } else { &mut idle }) += 1;
            lost += u64::from(echo.rtt.is_none());
        }
        if enough.is_some_and(|enough| loaded >= enough) {
            stop.stop();
        }
        fold.push(&batch);
    })
    .unwrap();
    numbers.sort_unstable();
    assert!(
        numbers.windows(2).all(|pair| pair[0] < pair[1]),
        "{numbers:?}"
    );
    let series = fold.series(&end);
    let start = series.load_start_s.unwrap_or(0.0);
    for echo in &series.echoes {
        // The idle ones lie before the load, the loaded ones within it.
        assert_eq!(echo.at_s < start, !echo.loaded, "{echo:?}");
        assert!(echo.at_s <= end.duration.as_secs_f64());
    }
    let summary = fold.summary(&end);
    json!({
        "idle": idle,
        "loaded": loaded,
        "lost": lost,
        "figures": summary.rtt_ms,
        "bytes": summary.bytes_acknowledged.or(summary.bytes_received),
        "remarks": end.remarks,
        "failed": end.streams.iter().find_map(|stream| stream.failed.clone()),
    })
}

/// A program inside a namespace, ended with the value.
struct Server(Child);

impl Server {
    fn start(namespace: &Namespace, words: &[&str]) -> Option<Self> {
        if Command::new(words[0]).arg("-v").output().is_err() {
            skip(&format!("{} is not installed", words[0]));
            return None;
        }
        let mut command = namespace.command(words);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Some(Self(command.spawn().unwrap()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A run that goes on until five round trips were measured under its load.
fn plan(more: &Value) -> Value {
    let mut plan = json!({"host": "127.0.0.1", "duration_s": 60});
    plan.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    json!({"plan": plan, "enough": 5})
}

fn assert_round_trips(result: &Value) {
    assert_eq!(result["failed"], Value::Null, "{result}");
    assert!(result["bytes"].as_u64().unwrap() > 0, "{result}");
    assert_eq!(result["remarks"], json!([]), "{result}");
    for phase in ["idle", "loaded"] {
        assert!(result[phase].as_u64().unwrap() > 0, "{result}");
        assert!(
            result["figures"][phase]["median"].as_f64().unwrap() > 0.0,
            "{result}"
        );
    }
}

/// Without permission for ICMP, which is what every new namespace is like.
fn as_nobody(namespace: &Namespace, input: &Value) -> Value {
    namespace.inside_as_nobody("probe::inside", input)
}

#[test]
fn round_trips_are_measured_before_and_under_the_load() {
    let Some(namespace) = Namespace::new() else {
        return;
    };
    let Some(_server) = Server::start(&namespace, &["iperf", "-s"]) else {
        return;
    };
    let result = namespace.inside("probe::inside", &plan(&json!({"streams": 2})));
    assert_round_trips(&result);
    // Echoes are answered by the kernel at once, however busy the machine is.
    assert_eq!(result["lost"], 0, "{result}");
}

#[test]
fn an_iperf_3_server_is_probed_by_icmp_only() {
    let Some(namespace) = Namespace::new() else {
        return;
    };
    let Some(_server) = Server::start(&namespace, &["iperf3", "-s"]) else {
        return;
    };
    let input = plan(&json!({"dialect": "iperf3"}));
    assert_round_trips(&namespace.inside("probe::inside", &input));
    let input = plan(&json!({"dialect": "iperf3", "duration_s": 0.5}));
    // Where ICMP is not permitted the run is made all the same, and says what is missing.
    let result = as_nobody(&namespace, &input);
    assert_eq!((&result["idle"], &result["loaded"]), (&json!(0), &json!(0)));
    assert_eq!(result["figures"]["idle"]["median"], Value::Null);
    assert!(result["bytes"].as_u64().unwrap() > 0, "{result}");
    let remark = result["remarks"][0].as_str().unwrap();
    assert!(remark.contains("iperf 3 server's only place"), "{remark}");
    assert!(remark.contains("net.ipv4.ping_group_range"), "{remark}");
    // And where the peer ignores echoes.
    namespace.run("sysctl -q -w net.ipv4.icmp_echo_ignore_all=1");
    let result = namespace.inside("probe::inside", &input);
    assert_eq!((&result["idle"], &result["loaded"]), (&json!(0), &json!(0)));
    let remark = result["remarks"][0].as_str().unwrap();
    assert!(remark.contains("answers no ICMP echoes"), "{remark}");
}

#[test]
fn connects_take_the_place_of_echoes_beside_iperf_2() {
    let Some(namespace) = Namespace::new() else {
        return;
    };
    let Some(server) = Server::start(&namespace, &["iperf", "-s"]) else {
        return;
    };
    assert_round_trips(&as_nobody(&namespace, &plan(&json!({}))));
    namespace.run("sysctl -q -w net.ipv4.icmp_echo_ignore_all=1");
    assert_round_trips(&namespace.inside("probe::inside", &plan(&json!({}))));
    drop(server);
    // A UDP receiver's TCP port is closed, which answers as well.
    let Some(_server) = Server::start(&namespace, &["iperf", "-s", "-u"]) else {
        return;
    };
    let mut input = plan(&json!({"protocol": "udp", "bandwidth_bits_per_second": 1_000_000}));
    input["listens"] = json!(false);
    let until = Instant::now() + Duration::from_mins(1);
    loop {
        let result = as_nobody(&namespace, &input);
        if result["failed"] == Value::Null {
            assert!(result["idle"].as_u64().unwrap() > 0, "{result}");
            assert!(result["loaded"].as_u64().unwrap() > 0, "{result}");
            break;
        }
        assert!(Instant::now() < until, "{result}");
    }
}

#[test]
fn a_stop_while_the_path_is_idle_ends_it() {
    let stop = Stop::new();
    let input = plan(&json!({"port": 9, "duration_s": 60}));
    let object = input["plan"].as_object().unwrap();
    let job = FlowJob {
        plan: throughput::from_json(object, &Caps::default()).unwrap(),
        address: ([127, 0, 0, 1], 9).into(),
        egress_cap: None,
    };
    stop.stop();
    let begun = Instant::now();
    let result = measured(&job, &stop, None);
    assert!(result["failed"].is_string(), "{result}");
    assert!(begun.elapsed() < Duration::from_secs(30));
}
