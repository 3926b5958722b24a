//! Real tools on the other end: httperf, siege, wrk, curl and HAProxy against the workload, and the same figures from us.

use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::process::{Program, TempFolder};
use crate::support::raw::{Raw, exchange, status_of};

/// Runs a real tool to its end and gives what it printed, both streams.
fn tool(line: &str) -> String {
    let words = shell_words::split(line).unwrap();
    let output = Command::new(&words[0])
        .args(&words[1..])
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}; scripts/test.sh installs it", words[0]));
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// A server process that is ended by its pid.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn wait_until(what: &str, mut reached: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_mins(1);
    while !reached() {
        assert!(Instant::now() < until, "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

fn get(address: SocketAddr, path: &str) -> String {
    exchange(
        address,
        format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"),
    )
}

/// Starts a run through the API and waits for its end.
fn run(program: &Program, body: &Value) -> Value {
    let address = program.dashboard();
    let body = body.to_string();
    let reply = exchange(
        address,
        format!(
            "POST /api/runs HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ),
    );
    assert_eq!(status_of(&reply), 201, "{reply}");
    let json_of = |reply: &str| -> Value {
        serde_json::from_str(reply.split_once("\r\n\r\n").unwrap().1).unwrap()
    };
    let id = json_of(&reply)["id"].clone();
    let until = Instant::now() + Duration::from_mins(10);
    loop {
        let run = json_of(&get(address, &format!("/api/runs/{id}")));
        if !matches!(run["state"].as_str(), Some("queued" | "running")) {
            return run;
        }
        assert!(Instant::now() < until, "never ended: {run}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// The line of `text` that begins with `start`.
fn line<'a>(text: &'a str, start: &str) -> &'a str {
    text.lines()
        .find(|line| line.trim_start().starts_with(start))
        .unwrap_or_else(|| panic!("no line {start}: {text}"))
}

#[test]
fn httperf_by_the_api_gives_the_counts_of_the_real_httperf() {
    let program = Program::start(&[]);
    let port = program.workload().port();
    let command = format!(
        "httperf --server 127.0.0.1 --port {port} --uri '/?work=light' --num-conns 200 --rate 50"
    );
    let ours = run(&program, &json!({ "command": command }));
    let theirs = tool(&command);
    assert_eq!(ours["state"], "finished");
    let summary = &ours["summary"];
    let counts = [
        ("connections", 200),
        ("requests", 200),
        ("replies", 200),
        ("unsent", 0),
    ];
    for (key, count) in counts {
        assert_eq!(summary[key], count, "{key}: {summary}");
    }
    assert_eq!(summary["status"]["2xx"], 200);
    assert_eq!(summary["errors"]["total"], 0);
    assert!(
        line(&theirs, "Total:").contains("connections 200 requests 200 replies 200"),
        "{theirs}"
    );
    assert!(line(&theirs, "Reply status:").contains("2xx=200"));
    assert!(line(&theirs, "Errors: total").contains("total 0"));

    // The same lines in our own text form, where a script looks for them.
    let report = get(
        program.dashboard(),
        &format!("/runs/{}/report.txt", ours["id"]),
    );
    assert!(line(&report, "Total:").contains("connections 200 requests 200 replies 200"));
    assert!(line(&report, "Connection time [ms]: min").contains("median"));
    assert!(line(&report, "Errors: total").contains("total 0 client-timo 0"));
}

#[test]
fn siege_by_the_api_gives_the_transactions_of_the_real_siege() {
    let program = Program::start(&[]);
    let url = format!("http://{}/?work=light", program.workload());
    let command = format!("siege -c 4 -r 20 '{url}'");
    let ours = run(&program, &json!({ "command": command }));
    let summary = &ours["summary"];
    assert_eq!(summary["transactions"], 80, "{summary}");
    assert_eq!(summary["availability_percent"], 100.0);
    // Little's law: requests in flight = rate × time in flight, and never more than the users.
    let figure = |key: &str| summary[key].as_f64().unwrap();
    let little =
        figure("transaction_rate_per_s") * summary["latency_ms"]["avg"].as_f64().unwrap() / 1000.0;
    let concurrency = figure("concurrency");
    assert!(concurrency > 0.0 && concurrency <= 4.0, "{concurrency}");
    assert!(
        (concurrency - little).abs() <= 0.05 * concurrency + 0.01,
        "{concurrency} {little}"
    );

    let home = TempFolder::new();
    let output = Command::new("siege")
        .args(["-c", "4", "-r", "20", "-b", &url])
        .env("HOME", home.path())
        .output()
        .expect("scripts/test.sh installs siege");
    let theirs = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    let hits = theirs
        .lines()
        .find(|line| line.to_lowercase().contains("transactions\""))
        .or_else(|| {
            theirs
                .lines()
                .find(|line| line.starts_with("Transactions:"))
        })
        .unwrap_or_else(|| panic!("{theirs}"));
    assert!(hits.contains("80"), "{theirs}");
}

#[test]
fn the_workload_serves_curl_wrk_and_a_load_balancer() {
    let program = Program::start(&["--name", "web-a1", "--region", "eu"]);
    let workload = program.workload();
    let folder = TempFolder::new();
    let picture = folder.path().join("set.png");
    let head = tool(&format!(
        "curl -sS -D - -o {} -H 'X-Request-Id: abc-1' http://{workload}/?work=light",
        picture.display()
    ))
    .to_lowercase();
    for words in [
        "200 ok",
        "content-type: image/png",
        "cache-control: no-store",
        "x-served-by: web-a1",
        "x-region: eu",
        "x-iterations: 448896",
        "server-timing: queue;dur=",
        "x-request-id: abc-1",
    ] {
        assert!(head.contains(words), "{words}: {head}");
    }
    assert!(std::fs::read(&picture).unwrap().starts_with(b"\x89PNG\r\n"));
    for (arguments, status) in [
        ("-I", "200"),
        ("-X OPTIONS", "200"),
        ("-0", "200"),
        ("-X DELETE", "405"),
    ] {
        let answer = tool(&format!(
            "curl -sS -o /dev/null -w %{{http_code}} {arguments} http://{workload}/?work=light"
        ));
        assert_eq!(answer, status, "{arguments}");
    }

    let wrk = tool(&format!("wrk -t1 -c4 -d1s http://{workload}/?work=light"));
    assert!(
        !wrk.contains("Non-2xx") && !wrk.contains("Socket errors"),
        "{wrk}"
    );
    assert!(line(&wrk, "Requests/sec").split_whitespace().count() == 2);

    let front = free_port();
    let configuration = folder.path().join("haproxy.cfg");
    std::fs::write(
        &configuration,
        format!(
            "global\n  log stderr format raw local0 emerg\ndefaults\n  mode http\n  timeout connect 2s\n  timeout client 20s\n  timeout server 20s\n\
             frontend front\n  bind 127.0.0.1:{front}\n  default_backend web\n\
             backend web\n  option httpchk GET /health-check\n  default-server check inter 100ms\n  server a1 {workload}\n"
        ),
    )
    .unwrap();
    let balancer = Command::new("haproxy")
        .args(["-db", "-f"])
        .arg(&configuration)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("scripts/test.sh installs haproxy");
    let _balancer = Server(balancer);
    let front: SocketAddr = ([127, 0, 0, 1], front).into();
    wait_until("HAProxy listens", || {
        std::net::TcpStream::connect(front).is_ok()
    });
    let through = run(
        &program,
        &json!({ "plan": { "kind": "rate", "url": format!("http://{front}/?work=light"), "rate": 50, "num_conns": 40 } }),
    );
    assert_eq!(through["summary"]["outcomes"]["ok"], 40, "{through}");
    assert_eq!(through["summary"]["served_by"]["web-a1"]["replies"], 40);
    assert_eq!(through["summary"]["regions"]["eu"]["replies"], 40);
}

#[test]
fn with_every_thread_busy_and_the_queue_full_health_is_still_answered() {
    let program = Program::start(&["--workload-threads", "1", "--workload-queue", "1"]);
    let workload = program.workload();
    // One picture in service and one waiting, both far from done.
    let slow = |_| {
        let mut connection = Raw::connect(workload);
        connection.send(format!(
            "GET /?work=heavy HTTP/1.1\r\nHost: {workload}\r\n\r\n"
        ));
        connection
    };
    let _held: Vec<Raw> = (0..2).map(slow).collect();
    let mut full = String::new();
    wait_until("the queue is full", || {
        full = get(workload, "/?work=light");
        status_of(&full) == 503
    });
    assert!(full.to_lowercase().contains("retry-after: 1"), "{full}");
    assert_eq!(status_of(&get(workload, "/health-check")), 200);
}

/// Peak memory of a process in KiB.
fn peak_memory_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM:"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_million_requests_stay_small_on_the_page_and_whole_in_the_file() {
    let program = Program::start(&[]);
    let million = 1_000_000_u64;
    let ended = run(
        &program,
        &json!({ "plan": {
            "kind": "users", "url": format!("http://{}/health-check", program.workload()),
            "concurrent": 20, "reps": million / 20, "keep_alive": true,
        }}),
    );
    assert_eq!(
        ended["summary"]["transactions"], million,
        "{}",
        ended["error"]
    );
    let page = get(program.dashboard(), &format!("/runs/{}", ended["id"]));
    assert_eq!(status_of(&page), 200);
    assert!(page.len() < 300_000, "the page has {} bytes", page.len());

    // The file comes in pieces and is counted as it comes.
    let mut download = Command::new("curl")
        .args([
            "-sSN",
            &format!(
                "http://{}/runs/{}/requests.csv",
                program.dashboard(),
                ended["id"]
            ),
        ])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut reader = csv::Reader::from_reader(download.stdout.take().unwrap());
    let columns = reader.headers().unwrap().len();
    let mut record = csv::StringRecord::new();
    let mut rows = 0;
    while reader.read_record(&mut record).unwrap() {
        assert_eq!(record.len(), columns);
        rows += 1;
    }
    assert!(download.wait().unwrap().success());
    assert_eq!(rows, million);
    let peak = peak_memory_kib(program.pid());
    assert!(peak < 200 * 1024, "{peak} KiB");
}
