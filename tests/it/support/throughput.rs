//! Both ends of throughput tests: real iperf servers and clients, our client, and our receivers with all they told.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidemark::measure::flow::{FlowBatch, FlowEnd, StreamEnd, Way};
use tidemark::measure::plan::throughput::{Dialect, ThroughputPlan};
use tidemark::measure::plan::{Caps, throughput};
use tidemark::receiver::{Receiver, ReceiverConfig, ReceiverEvent, ReceiverStatus};
use tidemark::runner::Stop;
use tidemark::runner::throughput::{FlowJob, run};

/// The longest that anything is waited for.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// A server on a port of its own, real or ours in its place; it ends with the test.
pub struct Server {
    child: Child,
    pub address: SocketAddr,
    printed: Arc<Mutex<String>>,
    errors: Arc<Mutex<String>>,
    readers: Vec<thread::JoinHandle<()>>,
}

impl Server {
    /// Starts the real one and waits until it listens; `None`, and a line that says so, where it is not installed.
    pub fn start(program: &str, host: &str, arguments: &[&str]) -> Option<Self> {
        has(program).then(|| Self::start_as(|| Command::new(program), host, arguments))
    }

    /// Starts what takes the place of the program and waits until it listens.
    pub fn start_as(program: impl Fn() -> Command, host: &str, arguments: &[&str]) -> Self {
        for _ in 0..5 {
            let address = free_port(host);
            let port = address.port().to_string();
            let mut child = program()
                .args(["-s", "-p", &port])
                .args(arguments)
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            let (printed, out) = kept(child.stdout.take().unwrap());
            let (errors, err) = kept(child.stderr.take().unwrap());
            let mut server = Self {
                child,
                address,
                printed,
                errors,
                readers: vec![out, err],
            };
            if server.listens(arguments.contains(&"-u")) {
                return server;
            }
        }
        panic!("{:?} does not listen", program());
    }

    /// Sends a signal to it alone.
    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill")
            .args([&format!("-{name}"), &pid])
            .status();
        assert!(sent.unwrap().success());
    }

    /// Waits for its end: exit status and all that it printed.
    pub fn ended(&mut self) -> (i32, String, String) {
        let until = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            let text = self.printed.lock().unwrap().clone();
            assert!(Instant::now() < until, "still running: {text}");
            thread::sleep(Duration::from_millis(5));
        };
        for reader in self.readers.drain(..) {
            reader.join().unwrap();
        }
        (
            status.code().unwrap_or(-1),
            self.printed.lock().unwrap().clone(),
            self.errors.lock().unwrap().clone(),
        )
    }

    /// Whether its socket is there; asking it by a connection would count as a test.
    fn listens(&mut self, udp: bool) -> bool {
        let port = format!(":{:04X}", self.address.port());
        let tables: &[&str] = if udp {
            &["udp", "udp6"]
        } else {
            &["tcp", "tcp6"]
        };
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until && self.child.try_wait().unwrap().is_none() {
            let own: Vec<String> = std::fs::read_dir(format!("/proc/{}/fd", self.child.id()))
                .into_iter()
                .flatten()
                .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
                .map(|target| target.to_string_lossy().into_owned())
                .collect();
            for table in tables {
                let text =
                    std::fs::read_to_string(format!("/proc/net/{table}")).unwrap_or_default();
                // local address, remote address, state, …, inode
                let here = text.lines().any(|line| {
                    let words: Vec<&str> = line.split_whitespace().collect();
                    words.len() > 9
                        && words[1].ends_with(&port)
                        && matches!(words[3], "0A" | "07")
                        && own.contains(&format!("socket:[{}]", words[9]))
                });
                if here {
                    return true;
                }
            }
            thread::sleep(Duration::from_millis(5));
        }
        false
    }

    /// Waits until what it printed satisfies `enough`.
    pub fn printed(&self, enough: impl Fn(&str) -> bool) -> String {
        let until = Instant::now() + PATIENCE;
        loop {
            let text = self.printed.lock().unwrap().clone();
            if enough(&text) || Instant::now() > until {
                return text;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The lines of a pipe, as they come.
fn kept(pipe: impl Read + Send + 'static) -> (Arc<Mutex<String>>, thread::JoinHandle<()>) {
    let text = Arc::new(Mutex::new(String::new()));
    let kept = Arc::clone(&text);
    let reader = thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            kept.lock().unwrap().push_str(&(line + "\n"));
        }
    });
    (text, reader)
}

/// A port that is free over TCP and UDP, outside the range that the system gives out, and that this process names
/// only once.
pub fn free_port(host: &str) -> SocketAddr {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    for _ in 0..1_000 {
        let offset = std::process::id() % 1_000 * 17 + NEXT.fetch_add(1, Ordering::Relaxed);
        let port = u16::try_from(10_000 + offset % 20_000).unwrap();
        let free = TcpListener::bind((host, port)).and(UdpSocket::bind((host, port)));
        if let Ok(socket) = free {
            return socket.local_addr().unwrap();
        }
    }
    panic!("no free port");
}

/// What a run left behind.
pub struct Done {
    pub end: FlowEnd,
    pub batches: Vec<FlowBatch>,
}

impl Done {
    pub fn streams(&self, way: Way) -> Vec<&StreamEnd> {
        let all = self.end.streams.iter();
        all.filter(|end| end.way == Some(way)).collect()
    }

    /// Bytes of all intervals of one way.
    pub fn ticked(&self, way: Way) -> u64 {
        let ticks = self.batches.iter().flat_map(|batch| &batch.ticks);
        ticks
            .filter(|tick| tick.way == Some(way))
            .map(|tick| tick.bytes)
            .sum()
    }

    pub fn failures(&self) -> Vec<&str> {
        let all = self.end.streams.iter();
        all.filter_map(|end| end.failed.as_deref()).collect()
    }

    pub fn assert_clean(&self) {
        assert!(self.failures().is_empty(), "{:?}", self.end);
        assert!(self.end.remarks.is_empty(), "{:?}", self.end.remarks);
    }
}

/// The plan with its host and port filled in.
pub fn plan_of(address: SocketAddr, plan: &Value) -> ThroughputPlan {
    let mut plan = plan.clone();
    plan["host"] = json!(address.ip().to_string());
    plan["port"] = json!(address.port());
    throughput::from_json(plan.as_object().unwrap(), &Caps::default()).unwrap()
}

/// A server whose every connection is handled by `serve`.
pub fn fake(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let serve = Arc::new(serve);
    thread::spawn(move || {
        for socket in listener.incoming().map_while(Result::ok) {
            let serve = Arc::clone(&serve);
            thread::spawn(move || serve(socket));
        }
    });
    address
}

/// Runs a plan against an address; host and port are filled in.
pub fn go(address: SocketAddr, plan: &Value) -> Done {
    go_until(address, plan, &Stop::new(), |_| ())
}

pub fn go_until(
    address: SocketAddr,
    plan: &Value,
    stop: &Stop,
    mut seen: impl FnMut(&FlowBatch),
) -> Done {
    let job = FlowJob {
        plan: plan_of(address, plan),
        address,
        egress_cap: None,
    };
    let mut batches: Vec<FlowBatch> = Vec::new();
    let end = run(&job, stop, &mut |batch| {
        seen(&batch);
        batches.push(batch);
    })
    .unwrap();
    // Each interval begins where the one before ended.
    for (before, after) in batches.iter().zip(batches.iter().skip(1)) {
        assert!(after.until >= before.until);
        for tick in &after.ticks {
            assert!(tick.from >= before.until && tick.to <= after.until && tick.to > tick.from);
        }
    }
    told_before_they_move(batches.iter());
    Done { end, batches }
}

/// Each stream is told with its addresses once, before it has moved anything or with that.
fn told_before_they_move<'b>(batches: impl Iterator<Item = &'b FlowBatch>) {
    let mut told = Vec::new();
    for batch in batches {
        for one in &batch.opened {
            assert!(!told.contains(&(one.stream, one.way)), "twice: {one:?}");
            assert!(!one.local.ip().is_unspecified(), "{one:?}");
            told.push((one.stream, one.way));
        }
        for tick in batch.ticks.iter().filter(|tick| tick.bytes > 0) {
            let key = (tick.stream, tick.way.unwrap());
            assert!(told.contains(&key), "not told before: {tick:?}");
        }
    }
}

/// A receiver with everything that it told.
pub struct Served {
    pub receiver: Receiver,
    pub told: Arc<(Mutex<Vec<ReceiverEvent>>, Condvar)>,
}

/// One test as it was told.
pub struct Test {
    pub plan: ThroughputPlan,
    /// Sums of all batches, by stream and way.
    pub ticks: BTreeMap<(u32, Way), u64>,
    pub end: FlowEnd,
}

pub fn config(dialect: Dialect, listen: &str) -> ReceiverConfig {
    ReceiverConfig {
        dialect,
        listen: listen.parse().unwrap(),
        accept_from: Arc::new(|_| true),
        max_streams: 64,
        max_duration: Duration::from_mins(1),
        interval: tidemark::receiver::INTERVAL,
        name: "test".to_owned(),
    }
}

impl Served {
    pub fn new(config: ReceiverConfig) -> Self {
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

    pub fn iperf2() -> Self {
        Self::new(config(Dialect::Iperf2, "127.0.0.1:0"))
    }

    pub fn iperf3() -> Self {
        Self::new(config(Dialect::Iperf3, "127.0.0.1:0"))
    }

    pub fn port(&self) -> String {
        self.receiver.local_addr().port().to_string()
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.receiver.local_addr()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Waits until the events so far answer the question.
    pub fn wait<T>(&self, what: &str, question: impl Fn(&[ReceiverEvent]) -> Option<T>) -> T {
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
    pub fn test(&self, number: u64) -> Test {
        self.wait("the end of a test", |told| {
            let end = told.iter().position(
                |event| matches!(event, ReceiverEvent::TestEnded { id, .. } if *id == number),
            )?;
            told_before_they_move(told.iter().filter_map(|event| match event {
                ReceiverEvent::Batch { id, batch } if *id == number => Some(batch),
                _ => None,
            }));
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

    pub fn refusals(&self) -> Vec<String> {
        let told = self.told.0.lock().unwrap();
        told.iter()
            .filter_map(|event| match event {
                ReceiverEvent::Refused { why, .. } => Some(why.clone()),
                _ => None,
            })
            .collect()
    }

    pub fn refused(&self, part: &str) {
        self.wait(part, |told| {
            told.iter().any(
                |event| matches!(event, ReceiverEvent::Refused { why, .. } if why.contains(part)),
            )
            .then_some(())
        });
    }

    /// Waits until nothing runs and nobody is there.
    pub fn settled(&self) -> ReceiverStatus {
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
    pub fn bytes(&self, way: Way) -> u64 {
        self.streams(way).iter().map(|stream| stream.bytes).sum()
    }

    pub fn streams(&self, way: Way) -> Vec<&StreamEnd> {
        let streams = self.end.streams.iter();
        streams.filter(|stream| stream.way == Some(way)).collect()
    }

    /// What must hold of every test that went well.
    /// What its intervals add up to, the omitted start's too.
    pub fn ticked(&self, stream: &StreamEnd) -> u64 {
        self.ticks[&(stream.stream, stream.way.unwrap())]
    }

    pub fn is_sane(&self) {
        for stream in &self.end.streams {
            assert_eq!(stream.failed, None, "{stream:?}");
            assert!(stream.bytes > 0, "{stream:?}");
            assert!(stream.first.unwrap() <= stream.last.unwrap());
            assert!(stream.last.unwrap() <= self.end.duration);
            if self.plan.omit_s > 0.0 {
                assert!(self.ticked(stream) >= stream.bytes, "{stream:?}");
            } else {
                assert_eq!(self.ticked(stream), stream.bytes, "ticks and end differ");
            }
            if let Some(udp) = &stream.udp {
                assert!(udp.lost <= udp.datagrams, "{udp:?}");
            }
        }
        assert_eq!(self.end.remarks, Vec::<String>::new());
        assert!(self.end.same_host && !self.end.stopped);
    }
}

pub fn has(program: &str) -> bool {
    let found = Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok();
    if !found {
        super::skip(&format!("{program} is not installed"));
    }
    found
}

/// Runs a client to its end; its output.
pub fn client(program: &str, arguments: &[&str]) -> String {
    let child = Command::new("timeout")
        .args(["-k", "1", "60", program])
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
