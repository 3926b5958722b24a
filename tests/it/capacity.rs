//! The capacity search from outside: against servers of known capacity, one that fails now and then, and a generator
//! that runs out.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::crash::call;
use crate::support::process::Program;
use crate::support::skip;

/// So many slots, each busy for a fixed time with a request: it can never serve more than slots / time.
struct Known {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
}

impl Known {
    /// Every `fails`-th request gets a 500; 0 = none.
    fn start(slots: usize, busy: Duration, fails: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (give, take) = mpsc::channel::<(TcpStream, Instant)>();
        let take = Arc::new(Mutex::new(take));
        let stop = Arc::new(AtomicBool::new(false));
        let count = Arc::new(AtomicU64::new(0));
        for _ in 0..slots {
            let take = Arc::clone(&take);
            let count = Arc::clone(&count);
            std::thread::spawn(move || {
                let mut free = Instant::now();
                loop {
                    // Ends when the listener's thread is gone.
                    let Ok((mut stream, came)) = take.lock().unwrap().recv() else {
                        return;
                    };
                    // Begun when it came or when the slot was free, whichever was later: so a late wake-up of this
                    // thread does not lower the capacity.
                    free = free.max(came) + busy;
                    let _ = stream.set_read_timeout(Some(Duration::from_secs(1)));
                    let mut head = [0; 2048];
                    let _ = stream.read(&mut head);
                    std::thread::sleep(free.saturating_duration_since(Instant::now()));
                    let number = count.fetch_add(1, Ordering::Relaxed) + 1;
                    let status = if fails > 0 && number.is_multiple_of(fails) {
                        "500 Internal Server Error"
                    } else {
                        "200 OK"
                    };
                    let _ = write!(
                        stream,
                        "HTTP/1.1 {status}\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"
                    );
                }
            });
        }
        let stopped = Arc::clone(&stop);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                if let Ok(stream) = stream {
                    let _ = give.send((stream, Instant::now()));
                }
            }
        });
        Self { address, stop }
    }

    fn base(&self) -> Value {
        json!({"kind": "rate", "url": format!("http://{}/", self.address)})
    }
}

impl Drop for Known {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Wakes the listener's thread.
        let _ = TcpStream::connect(self.address);
    }
}

fn ask(address: SocketAddr, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let text = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    let (status, answer) = call(address, method, path, &text);
    (status, serde_json::from_str(&answer).unwrap_or(Value::Null))
}

fn start(address: SocketAddr, capacity: &Value) -> i64 {
    let body = json!({ "capacity": capacity });
    let (status, answer) = ask(address, "POST", "/api/experiments", &body);
    assert_eq!(status, 201, "{answer}");
    assert_eq!(answer["kind"], "capacity");
    answer["id"].as_i64().unwrap()
}

fn until(address: SocketAddr, id: i64, met: impl Fn(&Value) -> bool) -> Value {
    let most = Instant::now() + Duration::from_mins(4);
    loop {
        let (_, shown) = ask(
            address,
            "GET",
            &format!("/api/experiments/{id}"),
            &Value::Null,
        );
        if met(&shown) {
            return shown;
        }
        assert!(
            Instant::now() < most,
            "experiment {id} does not go on: {shown}"
        );
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn ended(address: SocketAddr, id: i64) -> Value {
    until(address, id, |shown| {
        shown.is_object() && !matches!(shown["state"].as_str(), Some("queued" | "running"))
    })
}

/// What holds for every result, however noisy the machine: no bound above what the server can do at all.
fn never_above(capacity: &Value, truth: f64) {
    for key in ["lower_per_s", "ceiling_per_s", "poisson_lower_per_s"] {
        if let Some(rate) = capacity[key].as_f64() {
            assert!(rate <= truth * 1.06, "{key} {rate} of {truth}: {capacity}");
        }
    }
    if let (Some(lower), Some(upper)) = (
        capacity["lower_per_s"].as_f64(),
        capacity["upper_per_s"].as_f64(),
    ) {
        assert!(lower < upper, "{capacity}");
    }
    let steps = capacity["steps"].as_array().unwrap();
    assert_eq!(capacity["trials"], steps.len());
    let invalid = steps.iter().filter(|step| step["verdict"] == "INVALID");
    assert_eq!(capacity["invalid_trials"], invalid.count());
    for step in steps {
        assert!(step["reason"].as_str().unwrap().ends_with('.'), "{step}");
        assert!(step["run"].is_i64(), "{step}");
    }
}

#[test]
fn the_capacity_of_a_known_server_is_found_and_told() {
    let program = Program::start(&[]);
    let server = Known::start(8, Duration::from_millis(20), 0);
    let id = start(
        program.dashboard(),
        &json!({"base": server.base(), "step_s": 0.5, "budget_s": 60}),
    );
    let experiment = ended(program.dashboard(), id);
    assert_eq!(experiment["state"], "finished", "{experiment}");
    let capacity = &experiment["capacity"];
    never_above(capacity, 400.0);
    assert_eq!(
        capacity["labels"].as_array().unwrap().last().unwrap(),
        "shared_host"
    );
    assert!(capacity["baseline_ms"].as_f64() >= Some(19.0), "{capacity}");
    let steps = capacity["steps"].as_array().unwrap();
    let verdicts: Vec<&str> = steps
        .iter()
        .map(|s| s["verdict"].as_str().unwrap())
        .collect();
    // Either both bounds around what it can do, or why the upper one is missing.
    if capacity["regular"] == true {
        assert!(
            capacity["upper_per_s"].as_f64() >= Some(400.0 * 0.7),
            "{capacity}"
        );
        assert!(verdicts.contains(&"PASS") && verdicts.contains(&"FAIL"));
    } else {
        assert!(capacity["limited_by"].is_string() || capacity["lower_per_s"].is_null());
    }
    // Every step is a run of the experiment.
    let points = experiment["points"].as_array().unwrap();
    assert!(points.len() > steps.len());
    let searched = points
        .iter()
        .filter(|p| p["point"]["step"] == "search")
        .count();
    assert!(searched > 0);
    assert!(
        experiment["title"]
            .as_str()
            .is_some_and(|title| !title.is_empty())
    );
    page_tells(program.dashboard(), id, capacity);
}

/// The report shows every trial with its reason; the settings are those that follow, as far as any do.
fn page_tells(address: SocketAddr, id: i64, capacity: &Value) {
    let (status, page) = call(address, "GET", &format!("/experiments/{id}"), "");
    assert_eq!(status, 200);
    for step in capacity["steps"].as_array().unwrap() {
        let run = step["run"].as_i64().unwrap();
        assert!(page.contains(&format!("href=\"/runs/{run}\"")), "run {run}");
    }
    assert!(page.contains("latency-vs-rate") && page.contains("id=\"trials\""));
    for balancer in ["gcloud", "haproxy", "nginx"] {
        let path = format!("/experiments/{id}/balancer?for={balancer}");
        let (status, text) = call(address, "GET", &path, "");
        match capacity["suggested_max_rate_per_instance"].as_f64() {
            Some(rate) => {
                assert_eq!(status, 200, "{text}");
                assert!(
                    text.contains(&format!("{rate} requests a second")),
                    "{text}"
                );
                assert!(page.contains(&path), "{path}");
            }
            None => assert_eq!(status, 422, "{text}"),
        }
    }
    let (status, text) = call(
        address,
        "GET",
        &format!("/experiments/{id}/balancer?for=f5"),
        "",
    );
    assert_eq!(status, 422);
    assert!(text.contains("gcloud, haproxy, nginx"), "{text}");
    let path = format!("/experiments/{id}/balancer?for=nginx&peers=nobody");
    assert_eq!(call(address, "GET", &path, "").0, 422);
    let (status, rows) = call(address, "GET", &format!("/experiments/{id}/points.csv"), "");
    assert_eq!(status, 200);
    assert!(
        rows.contains("confirm_lower") || rows.contains("search"),
        "{rows}"
    );
}

#[test]
fn errors_at_any_load_are_told_against_a_real_server() {
    let program = Program::start(&[]);
    let server = Known::start(8, Duration::from_millis(20), 50);
    let id = start(
        program.dashboard(),
        &json!({"base": server.base(), "step_s": 0.5, "budget_s": 40}),
    );
    let experiment = ended(program.dashboard(), id);
    let capacity = &experiment["capacity"];
    never_above(capacity, 400.0);
    let labels = capacity["labels"].as_array().unwrap();
    assert!(labels.contains(&json!("errors_at_any_load")), "{capacity}");
}

#[test]
fn a_generator_without_file_descriptors_is_named_and_no_capacity_claimed() {
    let program = Program::start(&[]);
    // Far more at once than descriptors will be left.
    let server = Known::start(300, Duration::from_millis(300), 0);
    let open = std::fs::read_dir(format!("/proc/{}/fd", program.pid())).map_or(0, Iterator::count);
    let limit = open + 40;
    let limited = Command::new("prlimit")
        .args([
            "--pid",
            &program.pid().to_string(),
            &format!("--nofile={limit}:{limit}"),
        ])
        .status();
    if !limited.is_ok_and(|status| status.success()) {
        skip("prlimit cannot lower the limit of open files");
        return;
    }
    let id = start(
        program.dashboard(),
        &json!({"base": server.base(), "step_s": 0.5, "budget_s": 45}),
    );
    let experiment = ended(program.dashboard(), id);
    let capacity = &experiment["capacity"];
    never_above(capacity, 1_000.0);
    assert_eq!(capacity["limited_by"], "generator", "{capacity}");
    assert!(capacity["invalid_trials"].as_u64() > Some(0));
    assert_eq!(
        (&capacity["upper_per_s"], &capacity["ceiling_per_s"]),
        (&Value::Null, &Value::Null)
    );
    let resource = capacity["resource"].as_str().unwrap();
    assert!(resource.contains("fd_exhausted"), "{resource}");
}

#[test]
fn a_stopped_search_keeps_what_is_done_and_a_restarted_one_goes_on() {
    let folder = crate::support::process::TempFolder::new();
    let program = Program::start_in(folder.path(), &[]);
    let server = Known::start(8, Duration::from_millis(20), 0);
    let capacity = json!({"base": server.base(), "step_s": 0.5, "budget_s": 60});
    let id = start(program.dashboard(), &capacity);
    let trials = |shown: &Value| shown["capacity"]["trials"].as_u64().unwrap_or(0);
    until(program.dashboard(), id, |shown| trials(shown) >= 2);
    program.crash();
    let program = Program::start_in(folder.path(), &[]);
    let going = until(program.dashboard(), id, |shown| trials(shown) >= 4);
    // Nothing that had ended was done again.
    let points = going["points"].as_array().unwrap();
    let mut repeats: Vec<u64> = points
        .iter()
        .map(|p| p["repeat"].as_u64().unwrap())
        .collect();
    let all = repeats.len();
    repeats.dedup();
    assert_eq!(repeats.len(), all, "{repeats:?}");
    let path = format!("/api/experiments/{id}/cancel");
    assert_eq!(ask(program.dashboard(), "POST", &path, &Value::Null).0, 202);
    let stopped = ended(program.dashboard(), id);
    assert_eq!(stopped["state"], "cancelled");
    assert!(trials(&stopped) >= 4);
    never_above(&stopped["capacity"], 400.0);
}
