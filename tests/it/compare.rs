//! Runs side by side: differences that are more than noise, what was set differently, and what speaks against comparing.

use std::fmt::Write as _;

use serde_json::{Value, json};
use tidemark::chart::{self, CompareInput, CompareLine, CompareUnit, Theme};
use tidemark::measure::compare::{self, Reading, Subject};
use tidemark::measure::fold::Series;
use tidemark::measure::run::Run;
use tidemark::report::import;
use tidemark::store::Importer;

use crate::chart::golden;
use crate::support::pages::Pages;

fn rate(per_s: f64) -> Value {
    json!({"kind": "rate", "url": "http://127.0.0.1:8000/", "rate": per_s, "num_conns": 60})
}

/// The run of this number with what it is drawn from.
async fn stored(pages: &Pages, id: i64) -> (Run, Option<Series>) {
    let run = pages.state.store.run(id).await.unwrap().unwrap();
    (run, pages.state.store.series(id).await.unwrap())
}

/// Keeps these texts as runs.
async fn imported(pages: &Pages, texts: &[&str]) -> Vec<i64> {
    let mut ids = Vec::new();
    for text in texts {
        let imports = import::read(text).unwrap();
        let runs = pages
            .state
            .supervisor
            .import(imports, Importer::default())
            .await
            .unwrap();
        ids.extend(runs.iter().map(|run| run.id));
    }
    ids
}

fn iperf(streams: usize, gbit: f64) -> String {
    let mut text =
        "Client connecting to 10.0.0.2, TCP port 5001\nTCP window size: 45.0 KByte (default)\n"
            .to_owned();
    for stream in 1..=streams {
        writeln!(
            text,
            "[{stream:3}] local 10.0.0.1 port {stream} connected with 10.0.0.2 port 5001"
        )
        .unwrap();
    }
    for second in 0..4 {
        for stream in 1..=streams {
            writeln!(
                text,
                "[{stream:3}] {second}.0-{}.0 sec  {:.2} MBytes  {gbit:.2} Gbits/sec",
                second + 1,
                gbit * 119.21
            )
            .unwrap();
        }
    }
    for stream in 1..=streams {
        writeln!(
            text,
            "[{stream:3}] 0.0-4.0 sec  {:.2} MBytes  {gbit:.2} Gbits/sec",
            gbit * 476.84
        )
        .unwrap();
    }
    text
}

#[tokio::test]
async fn a_run_compared_with_itself_shows_no_difference_anywhere() {
    let pages = Pages::new();
    let id = pages.ended(rate(20.0), "").await.id;
    let text = include_str!("fixtures/import/labs/004-iperf-tier1-P16.txt");
    let other = imported(&pages, &[text]).await[0];
    for id in [id, other] {
        let (run, series) = stored(&pages, id).await;
        let subject = Subject {
            run: &run,
            series: series.as_ref(),
        };
        for count in [2, 5, 20] {
            let comparison = compare::compare(&vec![subject; count], 0);
            assert!(comparison.is_all_the_same());
            assert!(comparison.figures.len() >= 3, "{:?}", comparison.figures);
            assert!(comparison.settings.is_empty(), "{:?}", comparison.settings);
            assert!(comparison.same_settings >= 5);
            for cell in comparison
                .figures
                .iter()
                .flat_map(|row| &row.cells)
                .flatten()
            {
                assert!(matches!(cell.reading, None | Some(Reading::Same)));
                assert!(cell.difference.is_none_or(|difference| difference == 0.0));
            }
        }
        let page = pages.get(&format!("/compare?runs={id},{id}")).await;
        page.says(&["No difference between these 2 runs", "Nothing:", "<svg"]);
        for reading in ["✓ better", "✕ worse", ">within noise", ">different"] {
            assert!(!page.text.contains(reading), "{reading}");
        }
    }
}

#[tokio::test]
async fn what_differs_is_named_with_what_it_means() {
    let pages = Pages::new();
    let slow = iperf(2, 1.0);
    let fast = iperf(2, 2.0);
    let close = iperf(2, 2.01);
    let ids = imported(&pages, &[&slow, &fast, &close]).await;
    let loaded = [
        stored(&pages, ids[0]).await,
        stored(&pages, ids[1]).await,
        stored(&pages, ids[2]).await,
    ];
    let subjects: Vec<Subject<'_>> = loaded
        .iter()
        .map(|(run, series)| Subject {
            run,
            series: series.as_ref(),
        })
        .collect();
    let comparison = compare::compare(&subjects, 1);
    let throughput = comparison
        .figures
        .iter()
        .find(|row| row.name == "throughput")
        .unwrap();
    let readings: Vec<Option<Reading>> = throughput
        .cells
        .iter()
        .map(|cell| cell.unwrap().reading)
        .collect();
    assert_eq!(
        readings,
        [Some(Reading::Worse), None, Some(Reading::WithinNoise)]
    );
    assert!(comparison.warnings.is_empty(), "{:?}", comparison.warnings);
    let list = ids
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(",");
    let page = pages
        .get(&format!("/compare?runs={list}&base={}", ids[1]))
        .await;
    page.says(&[
        "✕ worse",
        "within noise",
        "4.00\u{a0}Gbit/s",
        "−2.00",
        "id=\"compare\"",
        "/compare/charts/compare.svg?runs=",
    ]);
    // A ratio has no steps of its own: 30 % is more than 5 %, 2 % is not.
    let uneven = include_str!("fixtures/import/iperf2/c_P4_i1.txt");
    let even = include_str!("fixtures/import/iperf2/c_enhanced_e_P4_i1.txt");
    let pair = imported(&pages, &[uneven, even]).await;
    let (a, b) = (stored(&pages, pair[0]).await, stored(&pages, pair[1]).await);
    let subjects = [&a, &b].map(|(run, series)| Subject {
        run,
        series: series.as_ref(),
    });
    let comparison = compare::compare(&subjects, 0);
    let reading = |name: &str| {
        let row = comparison.figures.iter().find(|row| row.name == name);
        row.unwrap().cells[1].unwrap().reading.unwrap()
    };
    assert_eq!(reading("fairness"), Reading::WithinNoise);
    assert_eq!(reading("fastest to slowest stream"), Reading::Better);
    // Other streams are another load.
    let wide = imported(&pages, &[&iperf(4, 1.0)]).await[0];
    let page = pages.get(&format!("/compare?runs={},{wide}", ids[0])).await;
    page.says(&["Different numbers of streams", "2, 4", "<th>streams</th>"]);
}

#[tokio::test]
async fn open_and_closed_loops_and_other_plans_are_warned_of() {
    let pages = Pages::new();
    let open = pages.ended(rate(20.0), "").await.id;
    let faster = pages.ended(rate(40.0), "").await.id;
    let users =
        json!({"kind": "users", "url": "http://127.0.0.1:8000/", "concurrent": 4, "reps": 10});
    let closed = pages.ended(users, "").await.id;
    let page = pages.get(&format!("/compare?runs={open},{faster}")).await;
    page.says(&[
        "<th>rate</th>",
        "20.0",
        "40.0",
        "settings are the same",
        "offered",
    ]);
    let page = pages.get(&format!("/compare?runs={open},{closed}")).await;
    page.says(&[
        "Different models of load",
        "closed loop and open loop",
        "Different kinds",
        "Compare with care",
    ]);
    // A person's baseline is what others are compared with.
    pages
        .post(&format!("/runs/{faster}/baseline"), &[("baseline", "yes")])
        .await;
    let page = pages.get(&format!("/compare?runs={open},{faster}")).await;
    page.says(&[&format!("<option value=\"{faster}\" selected>"), "baseline"]);
    let page = pages
        .get(&format!(
            "/compare?runs={open},{faster}&base={open}&metric=p99"
        ))
        .await;
    page.says(&[
        &format!("<option value=\"{open}\" selected>"),
        "99th percentile of the latency",
    ]);
}

#[tokio::test]
async fn two_five_and_twenty_runs_are_chosen_on_the_history_and_drawn() {
    let pages = Pages::new();
    let texts: Vec<String> = (0..20)
        .map(|run| iperf(1, 1.0 + f64::from(run) / 10.0))
        .collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let ids = imported(&pages, &texts).await;
    pages.get("/runs").await.says(&[
        "action=\"/compare\"",
        "type=\"checkbox\"",
        "name=\"run\"",
        "Compare selected",
    ]);
    let ticked = pages.get("/compare?run=3&run=1").await;
    assert_eq!(
        (ticked.status.as_u16(), ticked.header("location")),
        (303, "/compare?runs=3,1")
    );
    for count in [2, 5, 20] {
        let list = ids
            .iter()
            .take(count)
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(",");
        let page = pages.get(&format!("/compare?runs={list}")).await;
        assert_eq!(page.status, 200);
        page.says(&["✓ better", &format!("<span>{count} runs</span>")]);
        let svg = pages
            .get(&format!("/compare/charts/compare.svg?runs={list}"))
            .await;
        roxmltree::Document::parse(&svg.text).unwrap();
        assert_eq!(svg.header("content-type"), "image/svg+xml");
    }
    let all = ids
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(",");
    for (query, status, words) in [
        (format!("runs={all},1"), 422, "At most 20"),
        ("runs=1,x".to_owned(), 422, "x is none"),
        ("runs=1,999".to_owned(), 404, "no run 999"),
        ("runs=1,2&base=7".to_owned(), 422, "not among"),
        ("runs=1,2&metric=mean".to_owned(), 422, "p50 or p99"),
        (String::new(), 422, "Name the runs"),
        ("experiments=5".to_owned(), 404, "no experiment 5"),
    ] {
        let answer = pages.get(&format!("/compare?{query}")).await;
        assert_eq!(answer.status, status, "{query}: {}", answer.text);
        answer.says(&[words]);
    }
}

fn drawn(count: usize, unit: CompareUnit) -> CompareInput {
    let scale = if unit == CompareUnit::Ms { 1.0 } else { 1e8 };
    let lines = (0..count).map(|line| CompareLine {
        label: format!("A #{}", line + 1),
        points: (0..30)
            .map(|step| {
                let at = f64::from(step);
                (
                    at,
                    scale * (20.0 + line as f64 * 4.0 + (at / 3.0 + line as f64).sin() * 3.0),
                )
            })
            .collect(),
    });
    CompareInput {
        title: "latency p50: 20 ms in run 1, 24 ms in run 2, worse".to_owned(),
        what: "Median latency in steps of time".to_owned(),
        unit,
        lines: lines.collect(),
        base: 0,
    }
}

#[test]
fn the_overlay_is_drawn_as_it_was() {
    for (name, count, unit) in [
        ("compare-two", 2, CompareUnit::Ms),
        ("compare-four", 4, CompareUnit::BitsPerSecond),
        ("compare-twenty", 20, CompareUnit::Ms),
        ("compare-none", 0, CompareUnit::Ms),
    ] {
        let input = drawn(count, unit);
        let file = chart::compare_file(&input, Theme::Light);
        roxmltree::Document::parse(&file).unwrap();
        golden(&format!("{name}.svg"), &file);
        let figure = chart::compare_figure(&input);
        assert_eq!(figure.empty.is_some(), count == 0);
        assert!(figure.table.rows.len() <= 250);
    }
    golden(
        "compare-two-dark.svg",
        &chart::compare_file(&drawn(2, CompareUnit::Ms), Theme::Dark),
    );
    // One point, no length, figures that are none: nothing breaks.
    let mut odd = drawn(2, CompareUnit::Ms);
    odd.lines[0].points = vec![(0.0, 0.0)];
    odd.lines[1].points = vec![(0.0, f64::NAN), (1e12, f64::INFINITY), (1.0, -5.0)];
    roxmltree::Document::parse(&chart::compare_file(&odd, Theme::Light)).unwrap();
}
