//! Text forms of the old tools and CSV, against what the real tools print and against golden files.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::json;
use tidemark::measure::outcome::Outcome;
use tidemark::measure::plan::{Caps, Plan};
use tidemark::measure::run::{Environment, Origin, Progress, Run, State};
use tidemark::measure::sample::RequestSample;
use tidemark::measure::summary::{
    Cpu, Distribution, FetchSummary, HttpInterval, HttperfErrors, RateSummary, ReplyRate,
    ReplySize, ServedBy, StatusClasses, Summary, UsersSummary,
};
use tidemark::report;
use tidemark::report::csv::{self, Cell, Delimiter, Options};

fn fixture(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/fixtures");
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

fn run(plan: &serde_json::Value, command: &str, summary: Summary) -> Run {
    let plan = Plan::from_json(plan, &Caps::default()).unwrap();
    let time = |text: &str| text.parse::<jiff::Timestamp>().unwrap();
    Run {
        id: 12,
        kind: plan.kind(),
        state: State::Finished,
        origin: Origin::Local,
        command: command.into(),
        plan,
        node: "web-a1".into(),
        from: None,
        experiment: Some(3),
        point: None,
        repeat: Some(1),
        created_at: time("2026-11-30T17:44:00Z"),
        started_at: Some(time("2026-11-30T17:44:00.25Z")),
        finished_at: None,
        progress: Progress::default(),
        queue_place: None,
        summary: Some(summary),
        checks: Vec::new(),
        limits: Vec::new(),
        title: Some("=One machine, \"two\" cores".into()),
        verdict: Some("It kept up.".into()),
        objectives: Vec::new(),
        environment: Environment::default(),
        error: None,
        note: "-1".into(),
        tags: vec!["a".into(), "b".into()],
        baseline: false,
        actor: String::new(),
    }
}

fn distribution(min: f64, avg: f64, max: f64, median: f64, stddev: f64) -> Distribution {
    Distribution {
        min: Some(min),
        avg: Some(avg),
        max: Some(max),
        median: Some(median),
        stddev: Some(stddev),
        p50: Some(median),
        p90: Some(max),
        p95: Some(max),
        p99: Some(max),
        p99_9: Some(max),
        count: 50,
    }
}

/// The figures behind the captured report of httperf.
fn captured_rate() -> RateSummary {
    RateSummary {
        planned: 50,
        connections: 50,
        requests: 50,
        replies: 50,
        outcomes: BTreeMap::from([("ok".into(), 50), ("http_4xx".into(), 0)]),
        send_window_s: 6.25,
        duration_s: 6.126,
        offered_per_s: Some(8.0),
        achieved_per_s: Some(8.162),
        latency_ms: distribution(0.8, 0.9, 1.2, 0.9, 0.1),
        lateness_ms: distribution(0.01, 0.02, 0.4, 0.02, 0.0),
        connection_rate_per_s: Some(8.162),
        request_rate_per_s: Some(8.162),
        reply_rate_per_s: ReplyRate {
            min: Some(8.0),
            avg: Some(8.0),
            max: Some(8.0),
            stddev: Some(0.0),
            samples: 1,
        },
        connection_time_ms: distribution(0.7, 0.8, 1.1, 0.5, 0.1),
        connect_time_ms: distribution(0.0, 0.04, 0.1, 0.0, 0.0),
        connection_length_replies: Some(1.0),
        concurrent_max: 1,
        connect_burst_length: 1,
        request_size_bytes: Some(62.0),
        reply_response_ms: distribution(0.7, 0.8, 1.1, 0.8, 0.1),
        reply_transfer_ms: distribution(0.0, 0.04, 0.1, 0.0, 0.0),
        reply_size_bytes: ReplySize {
            header: Some(114.0),
            content: Some(2048.0),
            footer: Some(0.0),
            total: Some(2162.0),
        },
        status: StatusClasses {
            c2xx: 50,
            ..StatusClasses::default()
        },
        net_io_bytes_per_s: Some(18_151.5),
        cpu: Cpu {
            user_s: 0.956,
            system_s: 5.1651,
            percent: Some(99.9),
        },
        served_by: BTreeMap::from([("web-a1".into(), ServedBy::default())]),
        ..RateSummary::default()
    }
}

fn rate_run(summary: RateSummary) -> Run {
    run(
        &json!({"kind": "rate", "url": "http://127.0.0.1:43523/", "rate": 8, "num_conns": 50}),
        "httperf --server 127.0.0.1 --port 43523 --num-conns 50 --rate 8",
        Summary::Rate(Box::new(summary)),
    )
}

#[test]
fn the_httperf_form_is_httperf_s_own_byte_for_byte() {
    let text = report::text(&rate_run(captured_rate())).unwrap();
    let real = fixture("httperf-0.9.0.txt");
    let below_echo = |text: &str| text.split_once('\n').unwrap().1.to_owned();
    let (ours, theirs) = (below_echo(&text), below_echo(&real));
    assert!(ours.starts_with(&theirs), "{ours}\n{theirs}");
    golden("httperf.txt", &text);
}

#[test]
fn a_grep_that_users_of_httperf_know_finds_four_lines() {
    let text = report::text(&rate_run(captured_rate())).unwrap();
    let found: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("Errors") || line.contains("ion time"))
        .collect();
    assert_eq!(found.len(), 4, "{found:?}");
    assert!(found[0].starts_with("Connection time [ms]: min 0.7 avg 0.8"));
    assert!(found[3].starts_with("Errors: fd-unavail 0"));
}

#[test]
fn a_run_without_a_reply_prints_every_line_and_its_errors() {
    let summary = RateSummary {
        planned: 20,
        connections: 20,
        duration_s: 1.5,
        connection_rate_per_s: Some(13.3),
        outcomes: BTreeMap::from([("connect_refused".into(), 20)]),
        errors: HttperfErrors {
            total: 20,
            connrefused: 20,
            ..HttperfErrors::default()
        },
        ..RateSummary::default()
    };
    let text = report::text(&rate_run(summary)).unwrap();
    assert!(!text.contains("NaN"), "{text}");
    golden("httperf-refused.txt", &text);
}

/// The figures behind the captured reports of siege, which differ in the last digit of two.
fn captured_users(avg_ms: f64, concurrency: f64) -> Run {
    let summary = UsersSummary {
        planned: Some(6),
        transactions: 6,
        outcomes: BTreeMap::from([("ok".into(), 6)]),
        availability_percent: Some(100.0),
        elapsed_s: 0.92,
        data_transferred_bytes: 6 * 204_800,
        latency_ms: distribution(300.0, avg_ms, 310.0, 305.0, 3.0),
        transaction_rate_per_s: Some(6.0 / 0.92),
        throughput_bytes_per_s: Some(6.0 * 204_800.0 / 0.92),
        concurrency: Some(concurrency),
        successful: 6,
        longest_s: Some(0.31),
        shortest_s: Some(0.30),
        ..UsersSummary::default()
    };
    run(
        &json!({"kind": "users", "url": "http://127.0.0.1:1/slow", "concurrent": 2, "reps": 3}),
        "siege -c 2 -r 3 http://127.0.0.1:1/slow",
        Summary::Users(Box::new(summary)),
    )
}

#[test]
fn the_siege_forms_are_siege_s_own_byte_for_byte() {
    let run = captured_users(306.0, 2.0);
    let text = report::text(&run).unwrap();
    let real = fixture("siege-4.0.7.txt");
    assert!(text.starts_with(&real), "{text}\n{real}");
    golden("siege.txt", &text);
    let Some(Summary::Users(summary)) = captured_users(303.0, 1.98).summary else {
        unreachable!("a users run");
    };
    let json = report::siege_json(&summary);
    assert_eq!(json, fixture("siege-4.0.7.json"));
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(value["transactions"], 6);
}

fn fetched() -> (Plan, FetchSummary) {
    let plan = json!({"kind": "fetch", "url": "http://localhost:8000/"});
    let summary = FetchSummary {
        lookup_ms: Some(0.5),
        connect_ms: Some(0.25),
        first_byte_ms: Some(1.0),
        total_ms: Some(1.5),
        status: Some(200),
        size_bytes: Some(2048),
        addresses: vec!["127.0.0.1:8000".into()],
        outcome: "ok".into(),
        ..FetchSummary::default()
    };
    (Plan::from_json(&plan, &Caps::default()).unwrap(), summary)
}

#[test]
fn curl_formats_expand_as_curl_expands_them() {
    let (Plan::Fetch(plan), summary) = fetched() else {
        unreachable!("a fetch plan");
    };
    let check = |format: &str, expected: &str| {
        assert_eq!(report::expand(format, &plan, &summary).text, expected);
    };
    check("%{time_namelookup}|%{time_connect}", "0.000500|0.000750");
    check(
        "%{time_appconnect}|%{time_pretransfer}",
        "0.000000|0.000750",
    );
    check("%{time_starttransfer} %{time_total}", "0.001500 0.002000");
    check("%{http_code}%{response_code}", "200200");
    check("%{size_download}/%{speed_download}", "2048/1024000");
    check("%{remote_ip}:%{remote_port}", "127.0.0.1:8000");
    check(
        "%{url_effective} %{num_redirects}",
        "http://localhost:8000/ 0",
    );
    check(r"%%|%x|\n|\t|\r|\q|\\|%", "%|%x|\n|\t|\r|\\q|\\\\|%");
    check("%{unterminated", "%{unterminated");
    check("\\", "\\");
    let unknown = report::expand("a%{bogus}b", &plan, &summary);
    assert_eq!(
        (unknown.text.as_str(), &unknown.unknown[..]),
        ("ab", &["bogus".to_owned()][..])
    );
    let refused = FetchSummary {
        outcome: "connect_refused".into(),
        addresses: vec!["127.0.0.1:1".into()],
        ..FetchSummary::default()
    };
    let text = report::expand("%{http_code}|%{remote_ip}|%{exitcode}", &plan, &refused).text;
    assert_eq!(text, "000||7");
}

#[test]
fn a_fetch_reports_its_phases_one_below_the_other() {
    let (_, summary) = fetched();
    let run = run(
        &json!({"kind": "fetch", "url": "http://localhost:8000/"}),
        "curl http://localhost:8000/",
        Summary::Fetch(Box::new(summary)),
    );
    golden("fetch.txt", &report::text(&run).unwrap());
}

#[test]
fn csv_files_keep_their_form() {
    let run = rate_run(captured_rate());
    let plain = Options::default();
    let summary = csv::summary_csv(&run, plain);
    assert_eq!(summary.matches("\r\n").count(), 2);
    let mut reader = ::csv::Reader::from_reader(summary.as_bytes());
    let header = reader.headers().unwrap().clone();
    let row = reader.records().next().unwrap().unwrap();
    let cell = |name: &str| &row[header.iter().position(|column| column == name).unwrap()];
    assert_eq!(cell("connection_time_ms_median"), "0.5");
    assert_eq!(cell("service_time_ms_median"), "", "not measured is empty");
    assert_eq!(cell("outcomes_ok"), "50");
    assert_eq!(cell("served_by_web-a1_replies"), "0");
    golden("runs.csv", &csv::runs_csv([&run], plain));
    let excel = Options {
        excel: true,
        delimiter: Delimiter::Semicolon,
    };
    golden("runs-excel.csv", &csv::runs_csv([&run], excel));
    let interval = HttpInterval {
        run: 12,
        end_s: 1.0,
        requests: 8,
        replies: 7,
        errors: 1,
        reply_rate_per_s: 7.0,
        latency_avg_ms: Some(380.25),
        in_flight: 1,
        ..HttpInterval::default()
    };
    golden(
        "intervals.csv",
        &(csv::intervals_header(plain) + &csv::intervals_row(&interval, plain)),
    );
}

#[test]
fn requests_of_every_fate_fit_the_columns() {
    let ms = Duration::from_millis;
    let complete = RequestSample {
        seq: 0,
        url: 0,
        scheduled: ms(125),
        started: Some(Duration::from_micros(125_400)),
        connect: Some(Duration::from_micros(50)),
        tls: None,
        wrote: Some(Duration::from_micros(60)),
        first_byte: Some(ms(370)),
        ended: ms(496),
        status: Some(200),
        header_bytes: 117,
        content_bytes: 24_051,
        footer_bytes: 0,
        sent_bytes: 62,
        outcome: Outcome::Ok,
        retried_stale: false,
        served_by: Some("@web, a".into()),
        region: Some("eu-1".into()),
        server_timing: None,
        detail: None,
    };
    let lost = RequestSample {
        seq: 1,
        started: None,
        connect: None,
        wrote: None,
        first_byte: None,
        status: None,
        content_bytes: 0,
        outcome: Outcome::ConnectRefused,
        served_by: None,
        region: None,
        ..complete.clone()
    };
    let options = Options::default();
    let text = [
        csv::requests_header(options),
        csv::requests_row(12, &complete, options),
        csv::requests_row(12, &lost, options),
    ]
    .concat();
    golden("requests.csv", &text);
}

proptest! {
    #[test]
    fn texts_survive_a_csv_reader_and_none_is_a_formula(
        cells in prop::collection::vec("\\PC*|[=+\\-@\t\r\n＝＋－＠].*", 2..5)
    ) {
        let row: Vec<Cell> = cells.iter().cloned().map(Cell::Text).collect();
        let text = Options::default().row(&row);
        let mut reader = ::csv::ReaderBuilder::new().has_headers(false).from_reader(text.as_bytes());
        let read = reader.records().next().unwrap().unwrap();
        prop_assert_eq!(read.len(), cells.len());
        for (read, cell) in read.iter().zip(&cells) {
            prop_assert_eq!(read.strip_prefix('\'').filter(|rest| rest == cell).unwrap_or(read), cell);
            prop_assert!(!read.starts_with(['=', '+', '-', '@', '\t', '\r', '\n', '＝', '＋', '－', '＠']));
        }
    }

    #[test]
    fn figures_stay_figures(figure in prop::num::f64::ANY) {
        let text = Options::default().row(&[Cell::Figure(figure), Cell::Missing]);
        if figure.is_finite() {
            let read: f64 = text.split(',').next().unwrap().parse().unwrap();
            prop_assert_eq!(read.to_bits(), figure.to_bits());
        } else {
            prop_assert_eq!(text, ",\r\n");
        }
    }
}
