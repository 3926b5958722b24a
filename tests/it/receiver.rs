//! The receivers against the real `iperf` and `iperf3`, captured bytes of old ones, and clients that misbehave.

#![expect(dead_code, reason = "datagrams and iperf 3 use the rest")]

use std::collections::BTreeMap;
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use tidemark::measure::flow::{FlowEnd, StreamEnd, Way};
use tidemark::measure::plan::throughput::{Dialect, Direction, Protocol, ThroughputPlan};
use tidemark::receiver::{Receiver, ReceiverConfig, ReceiverEvent, ReceiverStatus};

const PATIENCE: Duration = Duration::from_secs(30);

/// A receiver with everything that it told.
struct Served {
    receiver: Receiver,
    told: Arc<(Mutex<Vec<ReceiverEvent>>, Condvar)>,
}

/// One test as it was told.
struct Test {
    plan: ThroughputPlan,
    /// Sums of all batches, by stream and way.
    ticks: BTreeMap<(u32, Way), u64>,
    end: FlowEnd,
}

fn config(dialect: Dialect, listen: &str) -> ReceiverConfig {
    ReceiverConfig {
        dialect,
        listen: listen.parse().unwrap(),
        accept_from: Arc::new(|_| true),
        max_streams: 64,
        max_duration: Duration::from_mins(1),
        name: "test".to_owned(),
    }
}

impl Served {
    fn new(config: ReceiverConfig) -> Self {
        let told = Arc::new((Mutex::new(Vec::new()), Condvar::new()));
        let sink = Arc::clone(&told);
        let receiver = Receiver::start(
            config,
            Arc::new(move |event| {
                sink.0.lock().unwrap().push(event);
                sink.1.notify_all();
            }),
        )
        .unwrap();
        Self { receiver, told }
    }

    fn iperf2() -> Self {
        Self::new(config(Dialect::Iperf2, "127.0.0.1:0"))
    }

    fn iperf3() -> Self {
        Self::new(config(Dialect::Iperf3, "127.0.0.1:0"))
    }

    fn port(&self) -> String {
        self.receiver.local_addr().port().to_string()
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.receiver.local_addr()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Waits until the events so far answer the question.
    fn wait<T>(&self, what: &str, question: impl Fn(&[ReceiverEvent]) -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        let mut told = self.told.0.lock().unwrap();
        loop {
            if let Some(answer) = question(&told) {
                return answer;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "{what} did not come: {told:#?}");
            told = self.told.1.wait_timeout(told, left).unwrap().0;
        }
    }

    /// The test with this number, once it is over.
    fn test(&self, number: u64) -> Test {
        self.wait("the end of a test", |told| {
            let end = told.iter().position(
                |event| matches!(event, ReceiverEvent::TestEnded { id, .. } if *id == number),
            )?;
            let mut test: Option<Test> = None;
            for (place, event) in told.iter().enumerate() {
                match event {
                    ReceiverEvent::TestBegun { id, plan, .. } if *id == number => {
                        test = Some(Test {
                            plan: plan.clone(),
                            ticks: BTreeMap::new(),
                            end: FlowEnd::default(),
                        });
                    }
                    ReceiverEvent::Batch { id, batch } if *id == number => {
                        assert!(place < end, "a batch after the end");
                        for tick in &batch.ticks {
                            assert!(tick.from <= tick.to && tick.to <= batch.until, "{tick:?}");
                            let key = (tick.stream, tick.way.unwrap());
                            let ticks = &mut test.as_mut().expect("begun before").ticks;
                            *ticks.entry(key).or_default() += tick.bytes;
                        }
                    }
                    ReceiverEvent::TestEnded { id, end } if *id == number => {
                        test.as_mut().expect("begun before").end = end.clone();
                    }
                    _ => {}
                }
            }
            test
        })
    }

    fn refusals(&self) -> Vec<String> {
        let told = self.told.0.lock().unwrap();
        told.iter()
            .filter_map(|event| match event {
                ReceiverEvent::Refused { why, .. } => Some(why.clone()),
                _ => None,
            })
            .collect()
    }

    fn refused(&self, part: &str) {
        self.wait(part, |told| {
            told.iter().any(
                |event| matches!(event, ReceiverEvent::Refused { why, .. } if why.contains(part)),
            )
            .then_some(())
        });
    }

    /// Waits until nothing runs and nobody is there.
    fn settled(&self) -> ReceiverStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let status = self.receiver.status();
            if status.running == 0 && status.streams == 0 && status.connections == 0 {
                return status;
            }
            assert!(Instant::now() < deadline, "{status:?}");
            std::thread::yield_now();
        }
    }
}

impl Test {
    fn bytes(&self, way: Way) -> u64 {
        self.streams(way).iter().map(|stream| stream.bytes).sum()
    }

    fn streams(&self, way: Way) -> Vec<&StreamEnd> {
        let streams = self.end.streams.iter();
        streams.filter(|stream| stream.way == Some(way)).collect()
    }

    /// What must hold of every test that went well.
    fn is_sane(&self) {
        for stream in &self.end.streams {
            assert_eq!(stream.failed, None, "{stream:?}");
            assert!(stream.bytes > 0, "{stream:?}");
            assert!(stream.first.unwrap() <= stream.last.unwrap());
            assert!(stream.last.unwrap() <= self.end.duration);
            let key = (stream.stream, stream.way.unwrap());
            assert_eq!(self.ticks[&key], stream.bytes, "ticks and end differ");
            if let Some(udp) = &stream.udp {
                assert!(udp.lost <= udp.datagrams, "{udp:?}");
            }
        }
        assert_eq!(self.end.remarks, Vec::<String>::new());
        assert!(self.end.same_host && !self.end.stopped);
    }
}

fn has(program: &str) -> bool {
    let found = Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok();
    if !found {
        println!("skipped: {program} is not installed");
    }
    found
}

/// Runs a client to its end; its output.
fn client(program: &str, arguments: &[&str]) -> String {
    let child = Command::new("timeout")
        .args(["-k", "1", "30", program])
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&child.stdout).into_owned();
    let errors = String::from_utf8_lossy(&child.stderr);
    assert!(
        child.status.success(),
        "{program} {arguments:?}: {} {output} {errors}",
        child.status
    );
    output
}

/// The byte counts of `iperf -y C`, a row for each stream and way.
fn iperf(served: &Served, arguments: &[&str]) -> Vec<u64> {
    let port = served.port();
    let mut all = vec!["-p", &port, "-y", "C"];
    if !arguments.contains(&"-c") {
        all.extend(["-c", "127.0.0.1"]);
    }
    all.extend(arguments);
    let output = client("iperf", &all);
    let rows = output.lines().filter_map(|line| {
        let cells: Vec<&str> = line.split(',').collect();
        (cells.len() >= 9).then(|| cells[7].parse().unwrap())
    });
    rows.collect()
}

fn free_port() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port().to_string()
}

#[test]
fn plain_tcp_from_a_real_iperf_has_the_same_bytes_at_both_ends() {
    if !has("iperf") {
        return;
    }
    let served = Served::iperf2();
    for (number, arguments) in [
        &["-t", "0.5"][..],
        &["-n", "3M"],
        &["-n", "1000001", "-l", "1000"],
        &["-t", "0.3", "-X"],
        &["-t", "0.3", "-e", "--trip-times"],
        &["-t", "0.3", "-C"],
        &["-t", "0.4", "-b", "20m"],
    ]
    .into_iter()
    .enumerate()
    {
        let rows = iperf(&served, arguments);
        let test = served.test(number as u64 + 1);
        test.is_sane();
        println!("{arguments:?} {rows:?} {:?}", test.plan);
        assert_eq!(test.plan.direction, Direction::Receive);
        assert_eq!(test.plan.protocol, Protocol::Tcp);
        assert_eq!(rows, [test.bytes(Way::Receive)], "{arguments:?}");
    }
    assert_eq!(served.refusals(), Vec::<String>::new());
}

#[test]
fn parallel_streams_of_a_real_iperf_are_one_test() {
    if !has("iperf") {
        return;
    }
    let served = Served::iperf2();
    let mut rows = iperf(&served, &["-P", "4", "-t", "0.5"]);
    let test = served.test(1);
    test.is_sane();
    assert_eq!(test.plan.streams, 4);
    let mut ours: Vec<u64> = test.end.streams.iter().map(|end| end.bytes).collect();
    println!("{rows:?} {ours:?}");
    rows.retain(|bytes| *bytes > 0);
    rows.sort_unstable();
    ours.sort_unstable();
    assert_eq!(rows, ours);
    let numbers: Vec<u32> = test.end.streams.iter().map(|end| end.stream).collect();
    assert_eq!(numbers.len(), 4);
}

#[test]
fn reverse_tcp_of_a_real_iperf_is_served() {
    if !has("iperf") {
        return;
    }
    let served = Served::iperf2();
    for (number, arguments) in [
        &["-R", "-t", "0.5"][..],
        &["-R", "-n", "2M"],
        &["-R", "-t", "0.5", "-P", "2"],
        &["-R", "-t", "0.5", "-b", "8m"],
    ]
    .into_iter()
    .enumerate()
    {
        let rows = iperf(&served, arguments);
        let test = served.test(number as u64 + 1);
        println!("{arguments:?} {rows:?} {:?} {:?}", test.plan, test.end);
        test.is_sane();
        assert_eq!(test.plan.direction, Direction::Send);
        assert_eq!(rows.iter().sum::<u64>(), test.bytes(Way::Send));
        for stream in &test.end.streams {
            assert_eq!(stream.acked_bytes, Some(stream.bytes));
        }
    }
}

#[test]
fn both_ways_of_a_real_iperf_are_served() {
    if !has("iperf") {
        return;
    }
    let served = Served::iperf2();
    let listen = free_port();
    for (number, arguments) in [
        &["--full-duplex", "-t", "0.5"][..],
        &["-d", "-t", "0.5", "-L", &listen],
        &["-r", "-t", "0.5", "-L", &listen],
    ]
    .into_iter()
    .enumerate()
    {
        let rows = iperf(&served, arguments);
        let test = served.test(number as u64 + 1);
        println!("{arguments:?} {rows:?} {:?} {:?}", test.plan, test.end);
        test.is_sane();
        let expected = if arguments.contains(&"-r") {
            Direction::InTurn
        } else {
            Direction::Both
        };
        assert_eq!(test.plan.direction, expected);
        for way in [Way::Receive, Way::Send] {
            assert!(rows.contains(&test.bytes(way)), "{way:?}");
        }
    }
}
