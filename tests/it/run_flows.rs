//! `tidemark run` with the lines of iperf, iperf3, ping and tracepath, and as a receiver: what scripts cut out of their
//! output, both ends' bytes, and the exit statuses.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::thread;

use serde_json::{Value, json};

use crate::support::process::{TempFolder, command};
use crate::support::throughput::{Served, Server, client, fake, free_port, has};

/// What a run printed.
struct Ran {
    status: i32,
    out: String,
    errors: String,
}

impl Ran {
    /// As `tail -1` has it.
    fn last(&self) -> &str {
        self.out.lines().last().unwrap_or_default()
    }

    /// The lines with this in them, as `grep` has them.
    fn grep(&self, part: &str) -> Vec<&str> {
        self.out
            .lines()
            .filter(|line| line.contains(part))
            .collect()
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|_| panic!("{} {}", self.out, self.errors))
    }
}

/// `tidemark run` with these options and the words of a line in which PORT stands for a port.
fn run_with(options: &[&str], line: &str, port: u16) -> Ran {
    let line = line.replace("PORT", &port.to_string());
    let output = command()
        .arg("run")
        .args(options)
        .args(line.split(' '))
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ran {
        status: output.status.code().unwrap_or(-1),
        out: text(&output.stdout),
        errors: text(&output.stderr),
    }
}

fn run(line: &str, port: u16) -> Ran {
    let ran = run_with(&[], line, port);
    assert_eq!(ran.status, 0, "{line}: {} {}", ran.out, ran.errors);
    ran
}

/// Our receiver in the place of iperf or iperf3.
fn serve(options: &[&str], tool: &str, arguments: &[&str]) -> Server {
    let program = || {
        let mut program = command();
        program.arg("run").args(options).arg(tool);
        program
    };
    let bound = [&["-B", "127.0.0.1"], arguments].concat();
    Server::start_as(program, "127.0.0.1", &bound)
}

/// Lines of figures of one stream or of the sum.
fn figures<'t>(text: &'t str, id: &str) -> Vec<&'t str> {
    let lines = text.lines();
    lines
        .filter(|line| line.starts_with(id) && line.contains(" sec "))
        .collect()
}

/// Whether there are intervals of a stream, then its total.
fn ends_with_total(text: &str, id: &str) -> bool {
    let lines = figures(text, id);
    let total = format!("{id} 0.0000-");
    lines.len() > 1 && lines.last().is_some_and(|line| line.starts_with(&total))
}

/// Bytes of each stream's total in the rows of `-y C`, by the client's port.
fn totals_by_port(csv: &str) -> Vec<(u16, u64)> {
    let mut totals: Vec<(u16, u64)> = csv
        .lines()
        .map(|line| line.split(',').collect::<Vec<_>>())
        .filter(|cells| cells[5] != "-1" && cells[6].starts_with("0.0-"))
        .map(|cells| (cells[2].parse().unwrap(), cells[7].parse().unwrap()))
        .collect();
    totals.sort_unstable();
    totals
}

#[test]
fn scripts_find_the_totals_of_an_iperf_run_where_iperf_has_them() {
    let Some(server) = Server::start("iperf", "127.0.0.1", &[]) else {
        return;
    };
    let port = server.address.port();
    let line = "iperf -c 127.0.0.1 -p PORT -t 1 -P 2 -f m -b 40m";
    let ours = run(line, port);
    let real = client(
        "iperf",
        &line
            .replace("PORT", &port.to_string())
            .split(' ')
            .skip(1)
            .collect::<Vec<_>>(),
    );
    // Without -i: one line for each stream and one for all, and nothing behind it.
    let shape = |text: &str| -> Vec<String> {
        let shown = text.lines().filter(|line| line.starts_with('['));
        let mut ids: Vec<String> = shown
            .map(|line| {
                let what = if line.contains("connected with") {
                    "connected"
                } else {
                    "figures"
                };
                format!("{what} {}", &line[..5])
            })
            .collect();
        ids.sort();
        ids
    };
    assert_eq!(shape(&ours.out), shape(&real));
    assert_eq!(ours.grep("SUM"), [ours.last()]);
    let words: Vec<&str> = ours.last().split_whitespace().collect();
    assert_eq!(words.last(), Some(&"Mbits/sec"), "{}", ours.out);
    assert!(
        words[words.len() - 2].parse::<f64>().unwrap() > 10.0,
        "{}",
        ours.out
    );
    // What iperf does not say is said beside it.
    assert!(ours.errors.contains("Throughput: "), "{}", ours.errors);
    assert!(
        ours.errors.contains("Other end: iperf 2.1.8"),
        "{}",
        ours.errors
    );
    // With -i there are lines of intervals before it, under one heading.
    let intervals = run("iperf -c 127.0.0.1 -p PORT -t 1 -i 0.5 -b 40m", port);
    assert!(intervals.grep(" sec ").len() >= 3, "{}", intervals.out);
    assert!(intervals.grep("SUM").is_empty(), "{}", intervals.out);
    assert_eq!(intervals.grep("[ ID]").len(), 1, "{}", intervals.out);
}

#[test]
fn comma_separated_rows_agree_with_the_real_server_to_the_byte() {
    let Some(server) = Server::start("iperf", "127.0.0.1", &["-y", "C"]) else {
        return;
    };
    let port = server.address.port();
    let ours = run("iperf -c 127.0.0.1 -p PORT -n 1M -P 2 -b 16m -y C", port);
    assert!(
        ours.out.lines().all(|line| line.split(',').count() == 9),
        "{}",
        ours.out
    );
    // Two streams and their sum; no intervals were asked for.
    assert_eq!(ours.out.lines().count(), 3, "{}", ours.out);
    let theirs = server.printed(|text| totals_by_port(text).len() >= 2);
    assert_eq!(totals_by_port(&ours.out), totals_by_port(&theirs));
    let udp = Server::start("iperf", "127.0.0.1", &["-u"]).unwrap();
    let rows = run(
        "iperf -u -c 127.0.0.1 -p PORT -t 1 -i 0.5 -y C -b 1m",
        udp.address.port(),
    );
    assert!(
        rows.out.lines().all(|line| line.split(',').count() == 14),
        "{}",
        rows.out
    );
    assert!(rows.out.lines().count() >= 4, "{}", rows.out);
}

#[test]
fn sixteen_streams_and_their_sum_agree_at_both_ends() {
    let mut server = serve(&["--format", "json"], "iperf", &["-P", "16"]);
    let ours = run_with(
        &["--format", "json"],
        "iperf -c 127.0.0.1 -p PORT -P 16 -n 300K",
        server.address.port(),
    );
    assert_eq!(ours.status, 0, "{}", ours.errors);
    let ours = ours.json();
    // -P of a server: it ends after so many connections.
    let (status, printed, errors) = server.ended();
    assert_eq!(status, 0, "{errors}");
    let theirs: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(ours["summary"]["streams"].as_array().unwrap().len(), 16);
    assert_eq!(theirs["summary"]["streams"].as_array().unwrap().len(), 16);
    let bytes = &ours["summary"]["bytes_received"];
    assert!(bytes.as_u64().unwrap() >= 16 * 300 * 1024);
    assert_eq!(bytes, &theirs["summary"]["bytes_received"]);
    assert_eq!(theirs["origin"], "received");
    let mut server = serve(&[], "iperf", &["-i", "1"]);
    let text = run(
        "iperf -c 127.0.0.1 -p PORT -P 16 -t 1 -b 2m",
        server.address.port(),
    );
    assert_eq!(text.grep("connected with").len(), 16, "{}", text.out);
    assert_eq!(text.grep("[SUM]").len(), 1, "{}", text.out);
    assert_eq!(text.grep(" sec ").len(), 17, "{}", text.out);
    // An interval and the total.
    server.printed(|text| figures(text, "[SUM]").len() >= 2);
    server.signal("INT");
    let (status, printed, errors) = server.ended();
    assert_eq!(status, 0, "{errors}");
    assert_eq!(printed.matches("connected with").count(), 16, "{printed}");
    assert!(printed.contains("[ 16] "), "{printed}");
}

#[test]
fn real_clients_find_a_receiver_that_prints_as_iperf_does() {
    if !has("iperf") {
        return;
    }
    let mut server = serve(&[], "iperf", &["-i", "0.5", "-e"]);
    let port = server.address.port().to_string();
    let to = ["-c", "127.0.0.1", "-p", &port, "-t", "1"];
    client("iperf", &[&to[..], &["-P", "2", "-b", "20m"]].concat());
    let udp = client("iperf", &[&to[..], &["-u", "-b", "1m"]].concat());
    assert!(udp.contains("Server Report"), "{udp}");
    server.printed(|text| figures(text, "[  3]").len() >= 3);
    server.signal("INT");
    let (status, text, errors) = server.ended();
    assert_eq!(status, 0, "{errors}");
    assert!(
        text.contains(&format!("Server listening on TCP port {port}\n")),
        "{text}"
    );
    // Streams are numbered on from test to test.
    let connected: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("connected with"))
        .map(|line| &line[..5])
        .collect();
    assert_eq!(connected, ["[  1]", "[  2]", "[  3]"], "{text}");
    assert!(ends_with_total(&text, "[  1]"), "{}", text);
    assert!(figures(&text, "[SUM]").len() >= 3, "{text}");
    let datagrams: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("[  3] 0."))
        .collect();
    assert!(
        datagrams
            .iter()
            .all(|line| line.contains(" ms ") && line.ends_with("%)")),
        "{text}"
    );
    assert!(errors.contains("-e is ignored"), "{errors}");
}

#[test]
fn an_iperf3_server_in_the_shell_ends_after_one_test() {
    if !has("iperf3") {
        return;
    }
    let mut server = serve(&[], "iperf3", &["-1"]);
    let port = server.address.port().to_string();
    let report = client(
        "iperf3",
        &["-c", "127.0.0.1", "-p", &port, "-n", "4M", "-P", "2", "-J"],
    );
    let report: Value = serde_json::from_str(&report).unwrap();
    let (status, text, errors) = server.ended();
    assert_eq!(status, 0, "{errors}");
    for part in [
        &format!("Server listening on {port} (test #1)"),
        "Accepted connection from 127.0.0.1, port ",
        "[  5] local 127.0.0.1 port ",
        "[SUM]",
        "receiver",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("test #2"), "{text}");
    assert!(report["end"]["sum_received"]["bytes"].as_u64().unwrap() > 0);
    // JSON of each test, as a script takes it.
    let mut server = serve(&[], "iperf3", &["-1", "-J"]);
    let ours = run(
        "iperf3 -c 127.0.0.1 -p PORT -n 4M -J",
        server.address.port(),
    )
    .json();
    let (_, text, _) = server.ended();
    let theirs: Value = serde_json::from_str(&text).unwrap();
    let received = |report: &Value| report["end"]["sum_received"]["bytes"].as_u64().unwrap();
    assert!(received(&ours) > 0);
    assert_eq!(received(&ours), received(&theirs));
}

#[test]
fn iperf3_lines_print_json_and_text_as_iperf3_does() {
    let Some(server) = Server::start("iperf3", "127.0.0.1", &[]) else {
        return;
    };
    let port = server.address.port();
    let json = run(
        "iperf3 -c 127.0.0.1 -p PORT -t 1 -i 0.5 -P 2 -b 20m -J",
        port,
    )
    .json();
    assert!(json["intervals"].as_array().unwrap().len() >= 2, "{json:#}");
    assert_eq!(json["start"]["connected"].as_array().unwrap().len(), 2);
    assert!(
        json["end"]["sum_received"]["bits_per_second"]
            .as_f64()
            .unwrap()
            > 0.0
    );
    let text = run("iperf3 -c 127.0.0.1 -p PORT -t 1 -R -b 20m", port);
    assert_eq!(text.last(), "iperf Done.");
    assert_eq!(text.grep("receiver").len(), 1, "{}", text.out);
    assert!(
        text.out.starts_with("Connecting to host 127.0.0.1, port "),
        "{}",
        text.out
    );
    assert!(
        text.out
            .contains("Reverse mode, remote host 127.0.0.1 is sending"),
        "{}",
        text.out
    );
}

#[test]
fn the_last_line_of_a_ping_has_the_round_trips() {
    let probes = run("ping -c 3 -i 0.05 127.0.0.1", 0);
    assert_eq!(probes.grep("icmp_seq=").len(), 3, "{}", probes.out);
    assert!(
        probes
            .out
            .contains("3 packets transmitted, 3 received, 0% packet loss")
    );
    // tail -1 | cut -d= -f2 | cut -d/ -f2
    let average = probes
        .last()
        .split('=')
        .nth(1)
        .unwrap()
        .split('/')
        .nth(1)
        .unwrap();
    assert!(average.parse::<f64>().unwrap() > 0.0, "{}", probes.out);
    assert!(
        probes.last().starts_with("rtt min/avg/max/mdev = "),
        "{}",
        probes.out
    );
    let quiet = run("ping -q -c 2 -i 0.05 127.0.0.1", 0);
    assert!(quiet.grep("icmp_seq=").is_empty(), "{}", quiet.out);
    let json = run_with(&["--format", "json"], "ping -c 2 -i 0.05 127.0.0.1", 0).json();
    assert_eq!(json["summary"]["received"], 2);
    let path = run("tracepath 127.0.0.1", 0);
    assert_eq!(path.grep("Resume: pmtu ").len(), 1, "{}", path.out);
    assert!(!path.grep("lo: mtu ").is_empty(), "{}", path.out);
}

/// A run that is under way.
struct Running {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
}

impl Running {
    fn start(line: &str, port: u16) -> Self {
        let mut child = command()
            .arg("run")
            .args(line.replace("PORT", &port.to_string()).split(' '))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Self { child, out }
    }

    /// Reads until a line has this in it, then interrupts; all lines and the exit status.
    fn interrupt_at(mut self, part: &str) -> (i32, String) {
        let mut text = String::new();
        let mut seen = 0;
        while !text[seen..].contains(part) {
            seen = text.len();
            assert!(self.out.read_line(&mut text).unwrap() > 0, "{part}: {text}");
        }
        let pid = self.child.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-INT", &pid])
                .status()
                .unwrap()
                .success()
        );
        self.out.read_to_string(&mut text).unwrap();
        (self.child.wait().unwrap().code().unwrap_or(-1), text)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn ctrl_c_prints_what_there_is_of_a_flow() {
    let (two, three) = (Served::iperf2(), Served::iperf3());
    let port = |served: &Served| served.receiver.local_addr().port();
    let (one, other) = thread::scope(|scope| {
        let one = scope.spawn(|| {
            Running::start("iperf -c 127.0.0.1 -p PORT -t 60 -i 0.5 -b 10m", port(&two))
                .interrupt_at(" sec ")
        });
        let other = scope.spawn(|| {
            Running::start(
                "iperf3 -c 127.0.0.1 -p PORT -t 60 -i 0.5 -b 10m",
                port(&three),
            )
            .interrupt_at(" sec ")
        });
        (one.join().unwrap(), other.join().unwrap())
    });
    assert_eq!((one.0, other.0), (0, 0), "{} {}", one.1, other.1);
    let totals = one
        .1
        .lines()
        .filter(|line| line.starts_with("[  1] 0.0000-"));
    assert_eq!(totals.count(), 2, "an interval and the total: {}", one.1);
    assert!(other.1.contains("sender"), "{}", other.1);
    assert!(!other.1.contains("iperf Done."), "{}", other.1);
    let (status, ping) =
        Running::start("ping -c 1000 -i 0.1 127.0.0.1", 0).interrupt_at("icmp_seq=2");
    assert_eq!(status, 0, "{ping}");
    assert!(
        ping.lines().last().unwrap().starts_with("rtt min/"),
        "{ping}"
    );
}

#[test]
fn a_receiver_that_is_interrupted_prints_the_test_in_progress() {
    let mut server = serve(&[], "iperf", &["-i", "0.5"]);
    let running = Running::start(
        "iperf -c 127.0.0.1 -p PORT -t 60 -i 0.5 -b 10m",
        server.address.port(),
    );
    server.printed(|text| figures(text, "[  1]").len() >= 2);
    server.signal("INT");
    let (status, text, errors) = server.ended();
    assert_eq!(status, 0, "{errors}");
    assert!(ends_with_total(&text, "[  1]"), "{}", text);
    drop(running);
}

/// Options, line, port, exit status, and what the sentence on standard error has in it.
type Case = (
    &'static [&'static str],
    &'static str,
    u16,
    i32,
    &'static str,
);

/// Runs them all at once: each waits for its round trips most of the time.
fn check_all(cases: Vec<Case>) {
    thread::scope(|scope| {
        for (options, line, port, status, sentence) in cases {
            scope.spawn(move || {
                let ran = run_with(options, line, port);
                assert_eq!(ran.status, status, "{line}: {} {}", ran.out, ran.errors);
                assert!(ran.errors.contains(sentence), "{line}: {}", ran.errors);
                if status == 1 {
                    assert_eq!(ran.errors.lines().count(), 1, "{line}: {}", ran.errors);
                    assert!(ran.grep(" sec ").is_empty(), "{line}: {}", ran.out);
                }
            });
        }
    });
}

#[test]
fn one_sentence_says_who_answers_instead() {
    let (two, three) = (Served::iperf2(), Served::iperf3());
    let port = |served: &Served| served.receiver.local_addr().port();
    let web = fake(|mut socket| {
        let _ = socket.read(&mut [0; 16]);
        let _ = socket.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        // Closed with bytes unread it would reset the connection, and its answer would be lost.
        let _ = std::io::copy(&mut socket, &mut std::io::sink());
    });
    let closed = free_port("127.0.0.1").port();
    let iperf = "iperf -c 127.0.0.1 -p PORT -t 1";
    let udp = "iperf -u -c 127.0.0.1 -p PORT -t 1";
    let iperf3 = "iperf3 -c 127.0.0.1 -p PORT -t 1";
    check_all(vec![
        (&[], iperf, closed, 1, "nothing listens there"),
        (&[], iperf3, closed, 1, "nothing listens there"),
        (&[], udp, closed, 1, "nothing listens for UDP"),
        (&[], iperf3, port(&two), 1, "An iperf 2 server may do so"),
        (&[], iperf, port(&three), 1, "an iperf 3 server answers"),
        (&[], iperf, web.port(), 1, "a web server (HTTP) answers"),
        (&[], iperf3, web.port(), 1, "a web server (HTTP) answers"),
    ]);
    // iperf 3's JSON says it too, for those who read nothing else.
    let failed = run_with(&[], "iperf3 -c 127.0.0.1 -p PORT -t 1 -J", closed);
    assert_eq!(failed.status, 1);
    let error = failed.json()["error"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    assert!(error.contains("nothing listens"), "{error}");
}

#[test]
fn objectives_caps_and_refusals_have_their_exit_statuses() {
    let (two, three) = (Served::iperf2(), Served::iperf3());
    let port = |served: &Served| served.receiver.local_addr().port();
    let closed = free_port("127.0.0.1").port();
    let iperf = "iperf -c 127.0.0.1 -p PORT -n 10K";
    let iperf3 = "iperf3 -c 127.0.0.1 -p PORT -n 1M";
    let never = "iperf -c 169.254.169.254 -p PORT -t 1";
    let six = "iperf -c 127.0.0.1 -P 6 -t 6 -p PORT";
    let elsewhere = "iperf -s -B 192.0.2.77 -p PORT";
    check_all(vec![
        (&["--objective", "throughput>1T"], iperf, port(&two), 3, ""),
        (
            &["--objective", "throughput>1"],
            iperf3,
            port(&three),
            0,
            "",
        ),
        (&["--max-streams", "5"], six, closed, 2, "limit of 5"),
        (&["--max-duration", "5"], six, closed, 2, "limit of 5 s"),
        (&[], never, 5001, 1, "no test is ever sent there"),
        (
            &[],
            "iperf3 -s -D -p PORT",
            closed,
            2,
            "-D is not supported",
        ),
        (
            &[],
            "iperf3 -s --logfile f",
            closed,
            2,
            "--logfile is not supported",
        ),
        (&[], elsewhere, closed, 1, "choose another port with -p"),
    ]);
}

#[test]
fn both_ends_can_be_kept_in_a_notebook() {
    let folders = [TempFolder::new(), TempFolder::new()];
    let [there, here] = folders.each_ref().map(|folder| folder.path().join("data"));
    let keep = |data: &std::path::Path| {
        [
            "--save".to_owned(),
            "--data".to_owned(),
            data.display().to_string(),
        ]
    };
    let (far, near) = (keep(&there), keep(&here));
    let far: Vec<&str> = far.iter().map(String::as_str).collect();
    let near: Vec<&str> = near.iter().map(String::as_str).collect();
    let mut server = serve(&far, "iperf", &["-P", "1"]);
    let ours = run_with(
        &near,
        "iperf -c 127.0.0.1 -p PORT -n 1M -i 1",
        server.address.port(),
    );
    assert_eq!(ours.status, 0, "{}", ours.errors);
    assert_eq!(server.ended().0, 0);
    let kept = |data: &std::path::Path| {
        let store = tidemark::store::Store::open(data).unwrap();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let run = runtime.block_on(store.run(1)).unwrap().unwrap();
        let summary = serde_json::to_value(&run.summary).unwrap();
        (run.origin, summary["bytes_received"].clone())
    };
    let (origin, received) = kept(&there);
    assert_eq!(origin, tidemark::measure::run::Origin::Received);
    assert!(received.as_u64().unwrap() >= 1 << 20);
    assert_eq!(
        kept(&here),
        (tidemark::measure::run::Origin::Local, json!(received))
    );
}

#[test]
fn a_receiver_lets_in_whom_it_is_told_to() {
    let mut server = serve(&["--accept-from", "192.0.2.0/24"], "iperf", &[]);
    let ran = run_with(
        &[],
        "iperf -c 127.0.0.1 -p PORT -n 1M",
        server.address.port(),
    );
    assert_eq!(ran.status, 1, "{}", ran.out);
    server.signal("TERM");
    let (status, text, errors) = server.ended();
    assert_eq!(status, 0);
    assert!(!text.contains("connected with"), "{text}");
    assert!(errors.contains("not among those that may test"), "{errors}");
}
