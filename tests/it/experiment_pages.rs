//! The pages of experiments: the form, what runs, the report, its files.

use axum::http::StatusCode;
use serde_json::{Value, json};

use tidemark::supervisor::ExperimentLaunch;

use crate::support::experiments::{self, lab_series, lab_sweep};
use crate::support::pages::{Answer, Pages};

const LINE: &str = "httperf --server 127.0.0.1 --port 8000 --uri /ok --num-conns 10 --rate 5";

/// The number of the experiment that a form was answered with.
fn started(answer: &Answer) -> i64 {
    assert_eq!(answer.status, StatusCode::SEE_OTHER, "{}", answer.text);
    let place = answer.header("location");
    let number = place.strip_prefix("/experiments/").unwrap_or_default();
    number.parse().unwrap_or_else(|_| panic!("{place}"))
}

async fn ended(pages: &Pages, id: i64) -> Answer {
    loop {
        let answer = pages.get(&format!("/experiments/{id}")).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
        if !answer.text.contains("id=\"stop\"") {
            return answer;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

/// A page without what its policy forbids, and with every block closed.
fn is_clean(answer: &Answer, path: &str) {
    for bad in [
        " style=", "<style", "onclick", "NaN", "Infinity", " inf ", ">None<",
    ] {
        assert!(!answer.text.contains(bad), "{path} has {bad}");
    }
    for tag in ["section", "table", "form", "figure", "div", "ul", "svg"] {
        let (open, close) = (
            answer.text.matches(&format!("<{tag}")).count(),
            answer.text.matches(&format!("</{tag}>")).count(),
        );
        assert_eq!(open, close, "{path}: {tag}");
    }
}

#[tokio::test]
async fn from_the_form_to_the_report() {
    let pages = Pages::new();
    pages
        .get("/experiments")
        .await
        .says(&["No experiment yet", "/experiments/new"]);
    let form = pages.get("/experiments/new").await;
    form.says(&[
        "Start the experiment",
        "httperf --server 127.0.0.1",
        "What it will take",
    ]);
    is_clean(&form, "/experiments/new");
    let fields = [
        ("kind", "sweep"),
        ("base", LINE),
        ("vary", "rate"),
        ("values", "5 10, 20"),
        ("repeat", "2"),
        ("pause_s", "0"),
        ("order", "interleaved"),
        ("tags", "lab"),
        ("note", "where does it bend?"),
        ("objective", ""),
    ];
    let mut check = fields.to_vec();
    check.push(("do", "check"));
    let checked = pages.post("/experiments/new", &check).await;
    assert_eq!(checked.status, StatusCode::OK, "{}", checked.text);
    checked.says(&[
        "Nothing has been sent",
        "60\u{a0}at most".replace('\u{a0}', " ").as_str(),
        "rate 10, repeat 1",
    ]);
    let mut start = fields.to_vec();
    start.push(("do", "start"));
    let id = started(&pages.post("/experiments/new", &start).await);
    let report = ended(&pages, id).await;
    report.says(&[
        "Experiment 1",
        "sweep",
        "finished",
        "latency-vs-rate",
        "offered-vs-achieved",
        "points.csv",
        "where does it bend?",
        "rate 20",
        "<a href=\"/runs/1\">run 1</a>",
        "Run again",
    ]);
    is_clean(&report, "the report");
    assert_eq!(report.text.matches(">run ").count(), 6);
    pages.get("/runs/3").await.says(&[
        "href=\"/experiments/1\"",
        "experiment 1, rate 20, repeat 1",
        "/experiments/new?from=3",
    ]);
    pages
        .get("/experiments")
        .await
        .says(&["href=\"/experiments/1\"", "lab", "✓ finished"]);
    let again = pages.get("/experiments/new?again=1").await;
    again.says(&["value=\"5 10 20\"", "value=\"rate\"", "interleaved"]);
    pages.get("/experiments/1/delete").await.says(&["6 runs"]);
    let gone = pages.post("/experiments/1/delete", &[]).await;
    assert_eq!(gone.header("location"), "/experiments");
    assert_eq!(
        pages.get("/experiments/1").await.status,
        StatusCode::NOT_FOUND
    );
    assert_eq!(pages.get("/runs/1").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn each_wrong_field_says_what_to_change() {
    let pages = Pages::new();
    for (changes, words) in [
        (vec![("values", "")], "a list"),
        (vec![("values", "5 200000")], "With rate 200000"),
        (
            vec![("vary", "")],
            "Name the field that these values are of",
        ),
        (vec![("vary", "speed")], "has no field speed"),
        (vec![("base", "httperf --nonsense")], "--nonsense"),
        (vec![("base", "")], "base is missing"),
        (vec![("repeat", "0")], "whole number from 1"),
        (vec![("pause_s", "-1")], "from 0 to 3600"),
        (vec![("objective", "fast")], "fast"),
        (
            vec![
                ("base", "ping -c 2 192.0.2.1"),
                ("vary", "count"),
                ("values", "1 2"),
            ],
            "192.0.2.1",
        ),
    ] {
        let mut fields = std::collections::BTreeMap::from([
            ("kind", "sweep"),
            ("base", LINE),
            ("vary", "rate"),
            ("values", "5 10"),
            ("repeat", "1"),
            ("pause_s", "0"),
            ("order", "given"),
            ("objective", ""),
            ("do", "start"),
        ]);
        fields.extend(changes.iter().copied());
        let fields: Vec<(&str, &str)> = fields.into_iter().collect();
        let answer = pages.post("/experiments/new", &fields).await;
        assert_eq!(
            answer.status,
            StatusCode::UNPROCESSABLE_ENTITY,
            "{changes:?}"
        );
        let plain = answer.text.replace("&#39;", "'").replace("&#62;", ">");
        assert!(
            plain.contains(words),
            "{changes:?} lacks {words:?}\n{plain}"
        );
        is_clean(&answer, words);
    }
    pages.get("/experiments").await.says(&["No experiment yet"]);
}

#[tokio::test]
async fn a_run_becomes_the_base_and_each_kind_has_its_fields() {
    let pages = Pages::new();
    let plan =
        json!({"kind": "rate", "url": "http://127.0.0.1:8000/ok", "rate": 5, "num_conns": 5});
    let run = pages.ended(plan, "").await;
    let form = pages
        .get(&format!("/experiments/new?from={}&kind=series", run.id))
        .await;
    form.says(&["--rate 5", "--num-conns 5", "name=\"repeat\" value=\"5\""]);
    assert!(!form.text.contains("name=\"vary\""));
    pages
        .get(&format!("/experiments/new?from={}&kind=paired", run.id))
        .await
        .says(&["Plan a", "Plan b", "take turns"]);
    assert_eq!(
        pages.get("/experiments/new?from=99").await.status,
        StatusCode::NOT_FOUND
    );
    let fields = [
        ("kind", "paired"),
        ("base", LINE),
        ("b", LINE),
        ("repeat", "2"),
        ("do", "start"),
    ];
    let id = started(&pages.post("/experiments/new", &fields).await);
    ended(&pages, id)
        .await
        .says(&["b ÷ a", "id=\"paired\"", "two plans in turn"]);
}

#[tokio::test]
async fn a_running_experiment_shows_its_points_and_can_be_stopped() {
    let pages = Pages::new();
    let fields = [
        ("kind", "series"),
        ("base", LINE),
        ("repeat", "3"),
        ("pause_s", "3600"),
        ("do", "start"),
    ];
    let id = started(&pages.post("/experiments/new", &fields).await);
    let path = format!("/experiments/{id}");
    let live = loop {
        let live = pages.get(&path).await;
        if live.text.contains("✓ finished") {
            break live;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    };
    live.says(&[
        "<progress",
        "1 of 3",
        "… to come",
        "data-events=\"/api/experiments/1/events\"",
        "refresh",
    ]);
    is_clean(&live, "the live page");
    let part = pages.get(&format!("{path}/live")).await;
    assert_eq!(part.status, StatusCode::OK);
    assert!(
        part.text.trim_start().starts_with("<div id=\"live\""),
        "{}",
        part.text
    );
    let early = pages.post(&format!("{path}/delete"), &[]).await;
    assert_eq!(early.status, StatusCode::CONFLICT);
    let stopped = pages.post(&format!("{path}/cancel"), &[]).await;
    assert_eq!(stopped.header("location"), path);
    let report = ended(&pages, id).await;
    report.says(&["cancelled", "Cancelled after 1 of 3 runs"]);
    assert_eq!(
        pages.get(&format!("{path}/live")).await.status,
        StatusCode::NO_CONTENT
    );
    let again = pages.post(&format!("{path}/cancel"), &[]).await;
    assert_eq!(again.status, StatusCode::CONFLICT);
}

#[tokio::test]
async fn a_search_is_asked_for_with_goal_and_bounds_of_ones_own() {
    let pages = Pages::new();
    let line = "httperf --server 127.0.0.1 --port 9 --num-conns 10";
    let wrong = pages
        .post(
            "/experiments/new",
            &[
                ("kind", "capacity"),
                ("base", line),
                ("error_share", "0.9"),
                ("width", "narrow"),
                ("action", "check"),
            ],
        )
        .await;
    assert_eq!(wrong.status, StatusCode::UNPROCESSABLE_ENTITY);
    wrong.says(&["share of errors", "“narrow” is no number."]);
    let filled = [
        ("kind", "capacity"),
        ("base", line),
        ("quantile", "0.95"),
        ("latency_ms", "250"),
        ("error_share", "0.02"),
        ("width", "0.1"),
        ("step_s", "1"),
        ("budget_s", "20"),
        ("max_rate", "50"),
        ("arrival", "exponential"),
        ("action", "start"),
    ];
    let started = pages.post("/experiments/new", &filled).await;
    assert_eq!(started.status, StatusCode::SEE_OTHER, "{}", started.text);
    let id: i64 = started
        .header("location")
        .rsplit('/')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    let experiment = pages.state.supervisor.experiment(id).await.unwrap();
    let search = &experiment.unwrap().spec["capacity"];
    for (name, value) in [
        ("width", json!(0.1)),
        ("step_s", json!(1.0)),
        ("budget_s", json!(20.0)),
        ("max_rate", json!(50.0)),
        ("arrival", json!("exponential")),
    ] {
        assert_eq!(search[name], value, "{name}: {search}");
    }
    for (name, value) in [
        ("quantile", 0.95),
        ("latency_ms", 250.0),
        ("error_share", 0.02),
    ] {
        assert_eq!(search["goal"][name], json!(value), "{name}: {search}");
    }
    // Asked for again, the form is filled in the same way.
    let again = pages.get(&format!("/experiments/new?again={id}")).await;
    again.says(&["value=\"250\"", "value=\"0.02\"", "value=\"0.95\" selected"]);
    pages.state.supervisor.cancel_all().await;
    ended(&pages, id).await;
}

#[tokio::test]
async fn the_list_is_filtered_and_what_runs_stands_on_the_home_page() {
    let pages = Pages::new();
    pages.state.supervisor.taken_up().await;
    let (asked, made) = lab_series();
    let series = experiments::stored(&pages.state.store, &asked, &made).await;
    let endless = json!({"base": "ping -c 100 127.0.0.1", "repeat": 2});
    let running = pages.state.supervisor.launch_experiment(ExperimentLaunch {
        spec: experiments::spec(&endless),
        note: String::new(),
        tags: Vec::new(),
        objectives: String::new(),
        actor: "local".to_owned(),
        form_token: None,
    });
    let running = running.await.unwrap().id;
    let href = |id: i64| format!("href=\"/experiments/{id}\"");
    let all = pages.get("/experiments").await;
    all.says(&["2\u{a0}experiments", &href(series), &href(running)]);
    for (query, shown, hidden) in [
        ("state=finished", series, running),
        ("kind=series&state=finished&x=y", series, running),
    ] {
        let list = pages.get(&format!("/experiments?{query}")).await;
        list.says(&["1\u{a0}experiment", "All experiments", &href(shown)]);
        assert!(!list.text.contains(&href(hidden)), "{query}");
    }
    let none = pages.get("/experiments?kind=capacity").await;
    none.says(&["No experiment is of this kind and in this state."]);
    let home = pages.get("/").await;
    home.says(&["What runs now", &href(running)]);
    pages.state.supervisor.cancel_all().await;
    ended(&pages, running).await;
    let home = pages.get("/").await;
    assert!(!home.text.contains(&href(running)));
}

#[tokio::test]
async fn the_source_labs_sweep_and_series_read_as_they_are() {
    let pages = Pages::new();
    pages.state.supervisor.taken_up().await;
    let (asked, mut made) = lab_sweep();
    made[3] = Err("All 500 requests ended as connect_refused.");
    let sweep = experiments::stored(&pages.state.store, &asked, &made).await;
    let (asked, made) = lab_series();
    let series = experiments::stored(&pages.state.store, &asked, &made).await;
    let report = pages.get(&format!("/experiments/{sweep}")).await;
    let plain = report.text.replace(['\u{a0}', '\u{202f}'], " ");
    for words in [
        "web-lb holds 5 req/s; at 7 req/s the median is 22.4 times as long",
        "1 run failed and is a gap.",
        "connect_refused",
        "With one reservation",
        "5.00 req/s holds",
    ] {
        assert!(plain.contains(words), "{words}\n{plain}");
    }
    is_clean(&report, "the sweep");
    let report = pages.get(&format!("/experiments/{series}")).await;
    let plain = report.text.replace(['\u{a0}', '\u{202f}'], " ");
    for words in [
        "Settled at repeat 4: median latency 7.35 s → 669 ms",
        "settled at 4",
        "share of replies",
        "eu",
    ] {
        assert!(plain.contains(words), "{words}");
    }
    let csv = pages.get(&format!("/experiments/{sweep}/points.csv")).await;
    assert_eq!(csv.header("x-total-rows"), "4");
    assert!(
        csv.header("content-disposition")
            .contains("tidemark-experiment-1-points.csv")
    );
    let rows: Vec<&str> = csv.text.split("\r\n").collect();
    assert_eq!(rows.len(), 6, "header, four rows, end");
    let head: Vec<&str> = rows[0].split(',').collect();
    assert_eq!(
        head[..6],
        ["rate", "repeat", "run", "state", "started_at", "error"]
    );
    let median = head
        .iter()
        .position(|name| *name == "latency_ms_median")
        .unwrap();
    let cell = |row: usize, column: usize| rows[row].split(',').nth(column).unwrap();
    assert_eq!((cell(3, 0), cell(3, median)), ("7", "8482"));
    assert_eq!(
        (cell(4, 0), cell(4, 3), cell(4, median)),
        ("10", "failed", "")
    );
    let points: Value = serde_json::from_str(
        &pages
            .get(&format!("/experiments/{sweep}/points.json"))
            .await
            .text,
    )
    .unwrap();
    assert_eq!(points["total_rows"], 4);
    assert_eq!(points["rows"][2]["summary"]["latency_ms"]["median"], 8482.0);
    let excel = pages
        .get(&format!("/experiments/{series}/points.csv?excel=1"))
        .await;
    assert!(excel.text.starts_with("\u{feff}repeat,run,"));
    for name in [
        "latency-vs-rate",
        "offered-vs-achieved",
        "drift",
        "lateness",
    ] {
        let chart = pages
            .get(&format!(
                "/experiments/{sweep}/charts/{name}.svg?theme=dark"
            ))
            .await;
        assert_eq!(chart.header("content-type"), "image/svg+xml", "{name}");
        assert!(chart.text.contains("#15191e"), "{name}");
    }
    for path in [
        "charts/paired.svg",
        "charts/drift",
        "summary.csv",
        "charts/x.png",
    ] {
        let answer = pages.get(&format!("/experiments/{sweep}/{path}")).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{path}");
    }
    for path in [
        "/experiments/99",
        "/experiments/x",
        "/experiments/99/points.csv",
    ] {
        assert_eq!(
            pages.get(path).await.status,
            StatusCode::NOT_FOUND,
            "{path}"
        );
    }
}

#[tokio::test]
async fn a_thousand_repeats_stay_a_small_page() {
    let pages = Pages::new();
    pages.state.supervisor.taken_up().await;
    let asked = json!({
        "base": {"kind": "ping", "host": "127.0.0.1", "count": 2, "interval_s": 0.1}, "repeat": 1_000,
    });
    let made: Vec<experiments::Made> = (0..1_000_usize)
        .map(|repeat| Ok(experiments::ping(0.3 + (repeat * 37 % 23) as f64 * 0.004)))
        .collect();
    let id = experiments::stored(&pages.state.store, &asked, &made).await;
    let report = pages.get(&format!("/experiments/{id}")).await;
    assert!(report.text.len() < 300_000, "{}", report.text.len());
    report.says(&[
        "run-chart",
        "The last 100 of 1\u{202f}000 runs",
        "points.csv",
    ]);
    is_clean(&report, "a thousand repeats");
    let csv = pages.get(&format!("/experiments/{id}/points.csv")).await;
    assert_eq!(csv.text.matches("\r\n").count(), 1_001);
    assert!(pages.get("/experiments").await.text.len() < 50_000);
}
