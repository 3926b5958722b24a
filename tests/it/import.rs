//! Texts of real tools become runs: every number that they print is in what was read, and what contradicts itself is told.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use axum::body::Body;
use axum::http::{Request, header};
use serde_json::{Value, json};
use tidemark::measure::run::Check;
use tidemark::report::import::{self, Import, LONGEST};
use tower::ServiceExt;

use crate::support::notebook::Notebook;
use crate::support::pages::Pages;
use crate::support::printed::{self, Read};
use crate::support::process::Program;

fn fixture(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/it")
        .join(path)
}

fn text_of(path: &str) -> String {
    std::fs::read_to_string(fixture(path)).unwrap()
}

fn read(text: &str) -> Vec<Import> {
    import::read(text).unwrap_or_else(|error| panic!("{error} in\n{text}"))
}

fn one(text: &str) -> Import {
    let mut found = read(text);
    assert_eq!(found.len(), 1, "{text}");
    found.remove(0)
}

/// Every number of the text that is not in what was read.
fn lost(text: &str, imports: &[Import]) -> Vec<String> {
    let read = Read::of(imports);
    printed::numbers(text)
        .into_iter()
        .filter(|number| !read.holds(number))
        .map(|number| format!("line {}: {:?}", number.line, number.text))
        .collect()
}

fn check<'a>(import: &'a Import, name: &str) -> &'a Check {
    import
        .checks
        .iter()
        .find(|check| check.name == name)
        .unwrap_or_else(|| panic!("no {name} in {:?}", import.checks))
}

fn files(folder: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(fixture(folder))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|e| e == "txt" || e == "json" || e == "csv")
        })
        .collect();
    found.sort();
    found
}

#[test]
fn every_block_of_tool_output_is_read_without_loss_of_a_figure() {
    let mut blocks = 0;
    let mut numbers = 0;
    for folder in ["labs", "iperf2", "versions", "others"] {
        for path in files(&format!("fixtures/import/{folder}")) {
            let text = std::fs::read_to_string(&path).unwrap();
            let imports = read(&text);
            let lost = lost(&text, &imports);
            assert!(lost.is_empty(), "{}: {lost:#?}", path.display());
            blocks += imports.len();
            numbers += printed::numbers(&text).len();
            for import in &imports {
                assert!(import.title.chars().count() <= 100, "{}", import.title);
                assert!(!import.verdict.is_empty());
            }
        }
    }
    // As many as there are, so that a folder that is not found does not pass.
    assert!(blocks >= 200, "{blocks} reports");
    assert!(numbers >= 6_000, "{numbers} numbers");
}

#[test]
fn json_and_csv_of_real_iperfs_keep_every_figure() {
    for path in files("fixtures/iperf-reports") {
        let text = std::fs::read_to_string(&path).unwrap();
        let imports = read(&text);
        assert_eq!(imports.len(), 1, "{}", path.display());
        if path.extension().is_some_and(|e| e == "json") {
            let summary = serde_json::to_value(&imports[0].summary).unwrap();
            let root: Value = serde_json::from_str(&text).unwrap();
            let sums = &root["end"]["sum_received"];
            let part = if summary["directions"]["send"].is_object() {
                &summary["directions"]["send"]
            } else {
                &summary
            };
            assert_eq!(part["bytes_received"], sums["bytes"], "{}", path.display());
            assert_eq!(
                part["bits_per_second"],
                sums["bits_per_second"],
                "{}",
                path.display()
            );
            assert_eq!(summary["tool_version"], root["start"]["version"]);
            let rows = root["intervals"].as_array().unwrap().len();
            assert!(imports[0].rows.len() > rows, "{}", path.display());
        } else {
            let lost = lost(&text, &imports);
            assert!(lost.is_empty(), "{}: {lost:#?}", path.display());
        }
    }
}

#[test]
fn figures_stand_under_the_names_that_runs_of_ours_have() {
    let tier_1 = one(&text_of("fixtures/import/labs/004-iperf-tier1-P16.txt"));
    let summary = serde_json::to_value(&tier_1.summary).unwrap();
    assert_eq!(summary["bits_per_second"], 74.9e9);
    assert_eq!(summary["streams"].as_array().unwrap().len(), 16);
    assert_eq!(summary["streams"][3]["remote"], "10.128.0.10:5001");
    assert_eq!(summary["retransmits"], Value::Null);
    assert_eq!(summary["cpu"]["user_s"], Value::Null);
    assert!((summary["fastest_to_slowest"].as_f64().unwrap() - 6.0).abs() < 1e-9);
    assert_eq!(tier_1.plan.text("host"), Some("10.128.0.10"));
    assert_eq!(check(&tier_1, "sums_agree").ok, Some(true));

    let udp = one(&text_of("fixtures/import/iperf2/c_udp_b100m_P4_i1.txt"));
    let summary = serde_json::to_value(&udp.summary).unwrap();
    assert_eq!(summary["datagrams_sent"], 102_060);
    assert_eq!(summary["streams"][0]["datagrams"]["lost"], 6);
    assert_eq!(udp.plan.text("protocol"), Some("udp"));
    assert!(udp.command.starts_with("iperf -c 127.0.0.1 -u -b 100m"));

    let both = one(&text_of("fixtures/import/iperf2/c_full_duplex.txt"));
    let summary = serde_json::to_value(&both.summary).unwrap();
    assert_eq!(summary["directions"]["send"]["bits_per_second"], 7.85e9);
    assert_eq!(summary["directions"]["receive"]["bits_per_second"], 8.9e9);

    let rate = one(&text_of(
        "fixtures/import/labs/002-httperf-rate10-grepped.txt",
    ));
    let summary = serde_json::to_value(&rate.summary).unwrap();
    assert_eq!(summary["connection_time_ms"]["median"], 10052.5);
    assert_eq!(summary["connect_time_ms"]["avg"], 181.3);
    assert_eq!(summary["errors"]["connreset"], 32);
    for absent in [
        "planned",
        "replies",
        "duration_s",
        "achieved_per_s",
        "censored",
    ] {
        assert_eq!(summary[absent], Value::Null, "{absent}");
    }
    let several = read(&text_of(
        "fixtures/import/labs/002-httperf-global-20rps-x5-grepped.txt",
    ));
    assert_eq!(several.len(), 5);

    let ping = one(&text_of(
        "fixtures/import/labs/003-ping-instance1-to-instance2.txt",
    ));
    let summary = serde_json::to_value(&ping.summary).unwrap();
    assert_eq!(summary["rtt_ms"]["mdev"], 0.554);
    assert_eq!(summary["ttl"], 76);
    assert_eq!(ping.rows.len(), 5);
    assert_eq!(
        check(&ping, "times_agree").ok,
        Some(true),
        "{:?}",
        ping.checks
    );
}

#[test]
fn texts_that_contradict_themselves_are_read_and_told() {
    let httperf = one(&text_of("fixtures/import/labs/002-httperf-rate4.txt"));
    let counts = check(&httperf, "counts_agree");
    assert_eq!(counts.ok, Some(false));
    assert!(counts.detail.contains("500 replies"), "{}", counts.detail);
    assert!(check(&httperf, "rates_agree").detail.contains("CPU time"));
    assert!(httperf.verdict.contains("contradict"));
    let siege = one(&text_of("fixtures/import/labs/002-siege-c4-r20.txt"));
    assert_eq!(check(&siege, "rates_agree").ok, Some(false));
    let little = check(&siege, "littles_law");
    assert_eq!(little.ok, Some(false));
    assert!(little.detail.contains("3.92"), "{}", little.detail);
    let agrees = one(&text_of("fixtures/import/others/mandel_siege_c4_r20_0.txt"));
    assert_eq!(
        check(&agrees, "littles_law").ok,
        Some(true),
        "{:?}",
        agrees.checks
    );
    let garbled = one(&text_of(
        "fixtures/import/versions/218_to_205srv_udp.client.txt",
    ));
    assert_eq!(check(&garbled, "ends_agree").ok, Some(false));
}

#[test]
fn what_cannot_be_read_is_refused_with_its_line() {
    let tier_1 = text_of("fixtures/import/labs/004-iperf-tier1-P16.txt");
    let ping = text_of("fixtures/import/labs/003-ping-instance1-to-instance2.txt");
    let huge = "9".repeat(400);
    for (text, line, words) in [
        ("no tool says this\n", 1, "no tool says this"),
        (
            &*tier_1.replace("7.63 GBytes", "7.63 GBananas"),
            22,
            "GBananas",
        ),
        (
            &*tier_1.replace("74.9 Gbits/sec", "1e400 Gbits/sec"),
            38,
            "1e400",
        ),
        (
            &*tier_1.replace("74.9 Gbits", &format!("{huge} Gbits")),
            38,
            "[SUM]",
        ),
        (&*ping.replace("time=0.409 ms", "time=soon"), 3, "time=soon"),
        ("Connection time [ms]: min x avg 1\n", 1, "Connection time"),
        ("** SIEGE 4.0.4\nTransactions:\t\t many hits\n", 2, "many"),
        ("{\n\"start\": {\n\"x\": 1e400\n}\n}\n", 3, "Line 3"),
        ("20261130175901,a,b,c,d,e,f,g,h\n", 1, "CSV"),
    ] {
        let error = import::read(text).expect_err(text);
        assert_eq!(error.line, Some(line), "{error}");
        assert!(error.message.contains(words), "{error}");
        assert!(error.message.len() < 400, "{error}");
    }
    let long = "x".repeat(LONGEST + 1);
    assert!(import::read(&long).unwrap_err().message.contains("8 MiB"));
    let help = "Usage: iperf [-s|-c host] [options]\n       iperf [-h|--help]\n";
    assert!(import::read(help).is_err());
}

#[test]
fn unknown_lines_beside_known_ones_are_told_and_hostile_text_is_harmless() {
    let ping = text_of("fixtures/import/labs/003-ping-instance1-to-instance2.txt");
    let with = ping.replace("\n\n---", "\nwhat <b>is</b> this\u{0}\n\n---");
    let import = one(&with);
    let lines = check(&import, "lines_understood");
    assert_eq!(lines.ok, Some(false));
    assert!(lines.detail.contains("line 7"), "{}", lines.detail);
    assert!(!lines.detail.contains('\u{0}'), "{}", lines.detail);
    let coloured = one(&format!("\u{1b}[1;31m{ping}\u{1b}[0m"));
    assert_eq!(coloured.checks.len(), 2, "{:?}", coloured.checks);
    // None of these may panic or take longer than its length.
    let row = "[  3] 0.0-1.0 sec  1.00 MBytes  8.39 Mbits/sec\n";
    let connected = "[  3] local 10.0.0.1 port 9 connected with 10.0.0.2 port 5001\n";
    for hostile in [
        "\u{0}".repeat(10_000),
        "[".repeat(100_000),
        "{".repeat(100_000),
        format!("PING {}", "(".repeat(100_000)),
        format!("Client connecting to {}", ", ".repeat(100_000)),
        format!("{connected}{}", row.repeat(40_000)),
        connected.repeat(20_000),
        "\u{1b}[".repeat(50_000),
        "1,".repeat(100_000),
        format!("20261130175901{}", ",1".repeat(100_000)),
        format!("Transactions: {}", "9".repeat(100_000)),
        "é\u{301}\u{202e} icmp_seq=1 bytes from ".repeat(2_000),
    ] {
        let _ = import::read(&hostile);
    }
    // Every text cut off anywhere, and with any byte of it turned into another.
    for path in [
        "labs/002-httperf-rate4.txt",
        "labs/002-siege-c4-r20.txt",
        "iperf2/s_trip_times.txt",
        "versions/csv2013_udp.txt",
    ] {
        let text = text_of(&format!("fixtures/import/{path}"));
        for at in 0..text.len() {
            let _ = import::read(&text[..at]);
            let mut turned = text.clone().into_bytes();
            turned[at] = b"9x[/\n\0-{"[at % 8];
            let _ = import::read(&String::from_utf8(turned).unwrap());
        }
    }
}

#[test]
fn reports_of_our_own_are_read_back() {
    for name in [
        "iperf.txt",
        "iperf-udp.txt",
        "iperf-reverse.txt",
        "iperf-full-duplex.txt",
        "iperf-in-turn.txt",
        "iperf.csv",
        "iperf-udp.csv",
        "iperf3.txt",
        "iperf3-udp.txt",
        "iperf3-reverse.txt",
        "iperf3-bidir.txt",
        "httperf.txt",
        "siege.txt",
        "ping.txt",
        "ping6.txt",
    ] {
        let text = text_of(&format!("golden/{name}"));
        let import = one(&text);
        let unread = import
            .checks
            .iter()
            .find(|check| check.name == "lines_understood");
        assert!(unread.is_none(), "{name}: {unread:?}");
        let figures: Vec<String> = text
            .lines()
            .filter(|line| !is_sentence(line))
            .map(str::to_owned)
            .collect();
        let lost = lost(&figures.join("\n"), std::slice::from_ref(&import));
        assert!(lost.is_empty(), "{name}: {lost:#?}");
    }
}

/// Lines at the end of our reports that are words rather than figures.
fn is_sentence(line: &str) -> bool {
    [
        "Verdict: ",
        "Limited by: ",
        "Check ",
        "Other end: ",
        "Outcomes: ",
        "Latency",
        "Throughput",
    ]
    .iter()
    .any(|begins| line.starts_with(begins))
}

#[tokio::test]
async fn a_posted_text_becomes_a_run_with_page_charts_and_files() {
    let notebook = Notebook::open();
    let text = text_of("fixtures/import/iperf2/c_enhanced_e_P4_i1.txt");
    let reply = notebook
        .send(
            "POST",
            "/api/import?tags=lab,tcp&note=from+a+lab",
            "text/plain",
            text.clone(),
        )
        .await;
    assert_eq!(reply.status, 201, "{}", reply.text);
    let run = reply.json();
    let id = run["id"].as_i64().unwrap();
    assert_eq!(reply.header("location"), format!("/api/runs/{id}"));
    assert_eq!(
        (&run["state"], &run["origin"]),
        (&json!("imported"), &json!("imported"))
    );
    assert_eq!(run["imported_runs"], json!([id]));
    assert_eq!(
        (&run["kind"], &run["tags"], &run["note"]),
        (
            &json!("throughput"),
            &json!(["lab", "tcp"]),
            &json!("from a lab")
        )
    );
    assert_eq!(run["summary"]["bits_per_second"], 46.5e9);
    assert_eq!(run["summary"]["retransmits"], 43);
    assert_eq!(run["plan"]["streams"], 4);
    assert_eq!(run["started_at"], "2026-11-30T17:58:51Z");
    let again = notebook
        .call("GET", &format!("/api/runs/{id}"), None)
        .await
        .json();
    assert_eq!(again["summary"], run["summary"]);
    let listed = notebook
        .call("GET", "/api/runs?state=imported&kind=throughput", None)
        .await
        .json();
    assert_eq!(listed["runs"].as_array().unwrap().len(), 1);

    // Several reports become several runs.
    let five = text_of("fixtures/import/labs/002-httperf-global-20rps-x5-grepped.txt");
    let reply = notebook
        .send("POST", "/api/import", "text/plain", five)
        .await;
    assert_eq!(reply.json()["imported_runs"].as_array().unwrap().len(), 5);
    // What is refused leaves nothing behind.
    for (body, status, words) in [
        (b"nothing of a tool".to_vec(), 422, "line 1"),
        (b"PING a\n\xff\n".to_vec(), 422, "line 2"),
        (vec![b' '; LONGEST + 1], 413, "8 MiB"),
    ] {
        notebook
            .send("POST", "/api/import", "text/plain", body)
            .await
            .is_problem(status, words);
    }
    let bad = notebook
        .send("POST", "/api/import?tag=x", "text/plain", text)
        .await;
    bad.is_problem(422, "no such parameter");
    let all = notebook.call("GET", "/api/runs", None).await.json();
    assert_eq!(all["runs"].as_array().unwrap().len(), 6);
}

/// A form with a pasted text, as a browser sends it.
async fn paste(pages: &Pages, text: &str) -> (u16, String, String) {
    let body = format!(
        "--edge\r\nContent-Disposition: form-data; name=\"text\"\r\n\r\n{text}\r\n--edge\r\nContent-Disposition: form-data; \
         name=\"file\"; filename=\"\"\r\n\r\n\r\n--edge\r\nContent-Disposition: form-data; name=\"tags\"\r\n\r\nlab\r\n--edge--\r\n"
    );
    let request = Request::builder()
        .method("POST")
        .uri("/runs/import")
        .header(header::CONTENT_TYPE, "multipart/form-data; boundary=edge")
        .body(Body::from(body))
        .unwrap();
    let answer = pages.router().oneshot(request).await.unwrap();
    let (parts, body) = answer.into_parts();
    let bytes = axum::body::to_bytes(body, 1 << 24).await.unwrap();
    let location = parts
        .headers
        .get("location")
        .map_or("", |to| to.to_str().unwrap())
        .to_owned();
    (
        parts.status.as_u16(),
        location,
        String::from_utf8(bytes.to_vec()).unwrap(),
    )
}

#[tokio::test]
async fn a_text_is_pasted_on_a_page_and_its_report_says_what_it_holds() {
    let pages = Pages::new();
    pages.get("/runs").await.says(&["href=\"/runs/import\""]);
    pages
        .get("/runs/new")
        .await
        .says(&["href=\"/runs/import\""]);
    pages
        .get("/runs/import")
        .await
        .says(&["multipart/form-data", "type=\"file\"", "<textarea"]);
    let text = text_of("fixtures/import/iperf2/c_enhanced_e_P4_i1.txt").replace('\n', "\r\n");
    let (status, to, _) = paste(&pages, &text).await;
    assert_eq!((status, to.as_str()), (303, "/runs/1"));
    let page = pages.get("/runs/1").await;
    page.says(&[
        "imported",
        "iperf said 46.5",
        "id=\"throughput\"",
        "id=\"streams\"",
        "id=\"retransmits\"",
        "Totals as they were printed",
        "intervals.csv",
        "report.txt",
        "the text does not tell",
        "net_power",
    ]);
    assert!(!page.text.contains("requests.csv"));
    let intervals = pages.get("/runs/1/intervals.csv").await;
    assert_eq!(intervals.text.lines().count(), 1 + 15);
    intervals.says(&["1,SUM,send,0,1,"]);
    let summary = pages.get("/runs/1/summary.csv").await;
    summary.says(&["bits_per_second", "46500000000"]);
    let report = pages.get("/runs/1/report.txt").await;
    assert_eq!(
        report.text,
        text_of("fixtures/import/iperf2/c_enhanced_e_P4_i1.txt")
    );
    for name in ["throughput", "streams", "retransmits"] {
        pages
            .get(&format!("/runs/1/charts/{name}.svg"))
            .await
            .says(&["<svg", "</svg>"]);
    }
    pages.get("/runs/1/report.html").await.says(&["iperf said"]);

    let (_, to, _) = paste(
        &pages,
        &text_of("fixtures/import/labs/002-siege-c4-r20.txt"),
    )
    .await;
    let page = pages.get(&to).await;
    page.says(&["Rates do not agree", "5.05", "nothing over time"]);
    let (_, to, _) = paste(
        &pages,
        &text_of("fixtures/import/labs/003-ping-instance1-to-instance2.txt"),
    )
    .await;
    pages.get(&to).await.says(&["id=\"ping\"", "ping said"]);
    pages
        .get(&format!("{to}/intervals.csv"))
        .await
        .says(&["1.89"]);
    pages
        .get(&format!("{to}/histogram.hgrm"))
        .await
        .says(&["Percentile"]);
    pages.get("/runs").await.says(&["imported", "siege said"]);
    pages.get("/runs.csv").await.says(&["imported"]);

    // What is wrong stands beside the text, which is kept and cannot do anything.
    let (status, _, page) = paste(&pages, "<script>alert(1)</script>").await;
    assert_eq!(status, 422);
    assert!(page.contains("line 1"), "{page}");
    assert!(
        page.contains("&lt;script&gt;") || page.contains("&#60;script&#62;"),
        "{page}"
    );
    assert!(!page.contains("<script>alert"), "{page}");
    let evil = text_of("fixtures/import/labs/003-ping-instance1-to-instance2.txt")
        .replace("35.194.158.169", "<img/src=x>");
    let (_, to, _) = paste(&pages, &evil).await;
    let page = pages.get(&to).await;
    assert!(!page.text.contains("<img/src"), "{}", page.text);
}

/// Runs a real tool to its end and gives what it printed.
fn tool(line: &str) -> String {
    let words = shell_words::split(line).unwrap();
    let output = Command::new(&words[0])
        .args(&words[1..])
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}; scripts/test.sh installs it", words[0]));
    format!(
        "$ {line}\n{}{}",
        String::from_utf8_lossy(&output.stderr),
        String::from_utf8_lossy(&output.stdout)
    )
}

#[test]
fn what_the_real_tools_print_here_is_read_as_it_says() {
    let program = Program::start(&["--receiver", "127.0.0.1:0", "--receiver3", "127.0.0.1:0"]);
    let port = program.addresses("receiver")[0].port();
    let port3 = program.addresses("receiver3")[0].port();
    let web = program.workload().port();
    let settings = program.data().join("siege.conf");
    std::fs::write(&settings, "json_output = false\nverbose = true\n").unwrap();
    for (line, kind, place) in [
        (
            format!("iperf -c 127.0.0.1 -p {port} -t 1 -P 2 -i 0.5 -b 8m"),
            "throughput",
            "bits_per_second",
        ),
        (
            format!("iperf -c 127.0.0.1 -p {port} -t 1 -e -b 8m"),
            "throughput",
            "bits_per_second",
        ),
        (
            format!("iperf -c 127.0.0.1 -p {port} -u -t 1 -b 1m -i 0.5"),
            "throughput",
            "datagrams_sent",
        ),
        (
            format!("iperf -c 127.0.0.1 -p {port} -t 1 -b 8m -y C"),
            "throughput",
            "bits_per_second",
        ),
        (
            format!("iperf3 -c 127.0.0.1 -p {port3} -t 1 -b 8m -P 2"),
            "throughput",
            "retransmits",
        ),
        (
            format!("iperf3 -c 127.0.0.1 -p {port3} -t 1 -b 8m -J"),
            "throughput",
            "bytes_received",
        ),
        (
            format!(
                "httperf --server 127.0.0.1 --port {web} --uri /?work=light --num-conns 20 --rate 40"
            ),
            "rate",
            "connection_time_ms.median",
        ),
        (
            format!(
                "siege -R {} -c 2 -r 5 http://127.0.0.1:{web}/?work=light",
                settings.display()
            ),
            "users",
            "availability_percent",
        ),
        (
            format!("siege -c 2 -r 5 http://127.0.0.1:{web}/?work=light"),
            "users",
            "transactions",
        ),
        (
            "ping -c 3 -i 0.2 127.0.0.1".to_owned(),
            "ping",
            "rtt_ms.mdev",
        ),
    ] {
        let text = tool(&line);
        let import = one(&text);
        assert_eq!(import.plan.kind().word(), kind, "{text}");
        assert!(import.summary.number(place).is_some(), "{place}: {text}");
        assert!(
            import.command.starts_with(line.split(' ').next().unwrap()),
            "{text}"
        );
        // The figures of JSON have no units beside them; those of real iperfs' JSON have a test of their own.
        if !text.contains("{\n") && !text.contains("{\t") {
            let lost = lost(&text, std::slice::from_ref(&import));
            assert!(lost.is_empty(), "{lost:#?} of\n{text}");
        }
    }
    program.stop();
}
