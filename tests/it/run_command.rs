//! `tidemark run` from outside: the same counts as the real tools, their forms, and the exit statuses.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::support::process::{TempFolder, command};

/// A small web server: `/missing` is 404, `/broken` 503, `/stall` never answers, anything else 200 with 2048 bytes.
struct Server {
    address: SocketAddr,
    requests: Arc<AtomicU64>,
}

impl Server {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&requests);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let requests = Arc::clone(&counted);
                thread::spawn(move || answer(&stream, &requests));
            }
        });
        Self { address, requests }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The words of a line in which PORT and URL stand for this server's.
    fn words(&self, line: &str) -> Vec<String> {
        line.replace("PORT", &self.address.port().to_string())
            .replace("URL", &self.url(""))
            .split(' ')
            .map(str::to_owned)
            .collect()
    }

    fn count(&self) -> u64 {
        self.requests.load(Ordering::SeqCst)
    }
}

fn answer(stream: &TcpStream, requests: &AtomicU64) {
    let mut reader = BufReader::new(stream);
    let mut writer = stream;
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if !matches!(reader.read_line(&mut head), Ok(1..)) {
                return;
            }
        }
        requests.fetch_add(1, Ordering::SeqCst);
        let status = match head.split(' ').nth(1) {
            Some("/missing") => "404 Not Found",
            Some("/broken") => "503 Service Unavailable",
            Some("/stall") => {
                thread::park();
                return;
            }
            _ => "200 OK",
        };
        let close = head.to_lowercase().contains("connection: close");
        let reply = format!(
            "HTTP/1.1 {status}\r\nContent-Length: 2048\r\n\r\n{}",
            "x".repeat(2048)
        );
        if writer.write_all(reply.as_bytes()).is_err() || close {
            return;
        }
    }
}

fn tidemark(options: &[&str], words: &[String]) -> Output {
    command()
        .arg("run")
        .args(options)
        .args(words)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn status(output: &Output) -> i32 {
    output.status.code().unwrap()
}

/// Runs the real tool; `None`, said on the output, where it is not installed.
fn real(words: &[String], home: &TempFolder) -> Option<String> {
    let output = Command::new(&words[0])
        .args(&words[1..])
        .env("HOME", home.path())
        .stdin(Stdio::null())
        .output();
    match output {
        Ok(output) => Some(text(&output.stdout) + &text(&output.stderr)),
        Err(error) => {
            crate::support::skip(&format!("{} cannot be run here ({error})", words[0]));
            None
        }
    }
}

/// The line that begins so.
fn line<'a>(text: &'a str, start: &str) -> &'a str {
    text.lines()
        .find(|line| line.starts_with(start))
        .unwrap_or_else(|| panic!("no line begins with {start:?} in {text}"))
}

#[test]
fn httperf_lines_give_the_counts_of_the_real_httperf() {
    let home = TempFolder::new();
    for path in ["/", "/missing", "/broken"] {
        let server = Server::start();
        let words = server.words(&format!(
            "httperf --server 127.0.0.1 --port PORT --uri {path} --num-conns 10 --num-calls 3 --rate 100"
        ));
        let output = tidemark(&[], &words);
        assert_eq!(status(&output), 0, "{}", text(&output.stderr));
        assert_eq!(server.count(), 30);
        let ours = text(&output.stdout);
        let Some(theirs) = real(&words, &home) else {
            continue;
        };
        let counts = |text: &str| {
            let total = line(text, "Total: ")
                .split(" test-duration")
                .next()
                .unwrap()
                .to_owned();
            [
                total,
                line(text, "Connection length").to_owned(),
                line(text, "Reply size")
                    .split(" content")
                    .nth(1)
                    .unwrap()
                    .split(" footer")
                    .next()
                    .unwrap()
                    .to_owned(),
                line(text, "Reply status").to_owned(),
                line(text, "Errors: total").to_owned(),
                line(text, "Errors: fd-unavail").to_owned(),
            ]
        };
        assert_eq!(counts(&ours), counts(&theirs), "{path}");
    }
}

#[test]
fn siege_lines_give_the_counts_of_the_real_siege() {
    let home = TempFolder::new();
    let server = Server::start();
    let words = server.words("siege -b -c 3 -r 5 URL/");
    let output = tidemark(&[], &words);
    assert_eq!(status(&output), 0, "{}", text(&output.stderr));
    assert_eq!(server.count(), 15);
    let ours = text(&output.stdout);
    assert_eq!(
        line(&ours, "Transactions:"),
        "Transactions:\t\t          15 hits"
    );
    // As Debian configures it siege prints JSON; both know -j.
    let words = server.words("siege -j -b -c 3 -r 5 URL/");
    let ours: serde_json::Value = serde_json::from_slice(&tidemark(&[], &words).stdout).unwrap();
    if let Some(theirs) = real(&words, &home) {
        let object = &theirs[theirs.find('{').unwrap()..=theirs.rfind('}').unwrap()];
        let theirs: serde_json::Value = serde_json::from_str(object).unwrap();
        for key in [
            "transactions",
            "availability",
            "data_transferred",
            "successful_transactions",
            "failed_transactions",
        ] {
            assert_eq!(ours[key], theirs[key], "{key}");
        }
    }
}

#[test]
fn a_file_of_urls_is_walked_through() {
    let server = Server::start();
    let folder = TempFolder::new();
    let file = folder.path().join("urls.txt");
    let list = format!("# two\n{}\n{}\n", server.url("/a"), server.url("/missing"));
    std::fs::write(&file, list).unwrap();
    let words = server.words(&format!("siege -b -c 1 -r 4 -f {}", file.display()));
    let output = tidemark(&["--format", "json"], &words);
    assert_eq!(status(&output), 0, "{}", text(&output.stderr));
    let run: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(run["plan"]["urls"].as_array().unwrap().len(), 2);
    assert_eq!(run["summary"]["outcomes"]["ok"], 2);
    assert_eq!(run["summary"]["outcomes"]["http_4xx"], 2);
}

#[test]
fn curl_lines_print_their_format_alone() {
    let server = Server::start();
    let mut words = server.words("curl -s -o /dev/null URL/ -w");
    words.push(r"%{http_code} %{size_download} %{remote_ip} %{bogus}%%\n".to_owned());
    let output = tidemark(&[], &words);
    assert_eq!(status(&output), 0);
    assert_eq!(text(&output.stdout), "200 2048 127.0.0.1 %\n");
    assert!(text(&output.stderr).contains("unknown --write-out variable: 'bogus'"));
}

#[test]
fn formats_are_data_and_nothing_else() {
    let server = Server::start();
    let words = server.words("httperf --server 127.0.0.1 --port PORT --num-conns 5 --rate 100");
    let json = tidemark(&["--format", "json"], &words);
    let run: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(run["state"], "finished");
    assert_eq!(run["summary"]["replies"], 5);
    let csv = text(&tidemark(&["--format", "csv"], &words).stdout);
    assert_eq!(csv.matches("\r\n").count(), 2);
    assert!(csv.starts_with("id,kind,command,state,"), "{csv}");
}

#[test]
fn exit_statuses_say_how_it_went() {
    let server = Server::start();
    let check = |options: &[&str], line: &str, expected: i32, sentence: &str| {
        let output = tidemark(options, &server.words(line));
        let errors = text(&output.stderr);
        assert_eq!(status(&output), expected, "{line}: {errors}");
        assert!(errors.contains(sentence), "{line}: {errors}");
    };
    let httperf = "httperf --server 127.0.0.1 --port PORT --num-conns 5 --rate 100";
    check(&[], "curl -s -o /dev/null URL/missing", 0, "");
    check(&[], "curl -f -s -o /dev/null URL/", 0, "");
    let missing = "curl -f -s -o /dev/null URL/missing";
    check(&[], missing, 1, "The reply was 404");
    check(&["--objective", "errors<1%"], httperf, 0, "");
    check(&["--objective", "rate>1000000"], httperf, 3, "");
    check(
        &["--objective", "speed<1"],
        httperf,
        2,
        "“speed” is nothing",
    );
    check(&[], "siege -c 2 URL/", 2, "-r");
    check(&[], "frobnicate 1", 2, "frobnicate");
    check(&[], "iperf -c 127.0.0.1 -F data", 2, "-F, -I");
    check(&[], "ping 127.0.0.1", 2, "add -c 5");
    check(
        &["--max-rate", "10"],
        httperf,
        2,
        "above this server's limit",
    );
    check(
        &[],
        "httperf --server 169.254.169.254 --num-conns 1 --rate 1",
        1,
        "no test is ever sent there",
    );
    check(
        &[],
        "siege -b -c 1 -r 1 http://no-such-host.invalid/",
        1,
        "could not be resolved",
    );
    // Nothing listens where a listener was just closed.
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let refused = format!("httperf --server 127.0.0.1 --port {port} --num-conns 3 --rate 100");
    let output = tidemark(&[], &server.words(&refused));
    assert_eq!(status(&output), 1);
    assert!(text(&output.stdout).contains("connrefused 3"));
}

#[test]
fn ctrl_c_prints_what_was_measured() {
    let server = Server::start();
    let words = server.words("httperf --server 127.0.0.1 --port PORT --uri /stall --num-conns 1");
    let child = command()
        .arg("run")
        .args(&words)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    while server.count() == 0 {
        thread::yield_now();
    }
    let signalled = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(signalled.success());
    let output = child.wait_with_output().unwrap();
    let report = text(&output.stdout);
    assert!(
        report.contains("Total: connections 1 requests 1 replies 0"),
        "{report}"
    );
    assert!(report.contains("aborted_at_stop 1"), "{report}");
    assert_eq!(status(&output), 1);
}

#[test]
fn a_saved_run_stands_in_the_notebook() {
    let server = Server::start();
    let folder = TempFolder::new();
    let data = folder.path().join("data");
    let options = [
        "--save",
        "--data",
        data.to_str().unwrap(),
        "--format",
        "json",
    ];
    let words = server.words("httperf --server 127.0.0.1 --port PORT --num-conns 5 --rate 100");
    for number in 1..=2 {
        let output = tidemark(&options, &words);
        assert_eq!(status(&output), 0, "{}", text(&output.stderr));
        let run: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(run["id"], number);
    }
    let store = tidemark::store::Store::open(&data).unwrap();
    let run = tokio::runtime::Runtime::new()
        .unwrap()
        .block_on(store.run(2))
        .unwrap()
        .unwrap();
    assert_eq!(run.state, tidemark::measure::run::State::Finished);
    assert_eq!(serde_json::to_value(run.summary).unwrap()["replies"], 5);
}
