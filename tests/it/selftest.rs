//! The self-test: against its own truths, in the queue, on its page, and beside later reports.

use serde_json::{Value, json};
use tidemark::measure::run::{Run, State};

use crate::support::browser::{Browser, Setup};
use crate::support::notebook::{Did, Notebook, Step};
use crate::support::pages::Pages;
use crate::support::process::{Program, TempFolder, run_to_end};
use crate::support::raw;

fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn the_shell_measures_known_truths_and_every_later_report_says_so() {
    let folder = TempFolder::new();
    let data = folder.path().to_str().unwrap();
    let (status, output, errors) = run_to_end(&[
        "selftest", "--quick", "--format", "json", "--data", data, "--name", "eu-a",
    ]);
    assert_eq!(status, 0, "{errors}");
    let result: Value = serde_json::from_str(&output).unwrap();
    assert_eq!(
        (&result["id"], &result["node"]),
        (&json!(1), &json!("eu-a"))
    );
    assert_eq!(result["timer"]["lateness_ms"]["count"], 500);
    let delays = result["delays"].as_array().unwrap();
    assert_eq!(delays.len(), 3);
    for (delay, truth) in delays.iter().zip([1.0, 10.0, 100.0]) {
        assert_eq!(delay["asked_ms"], truth);
        assert!(number(&delay["held_ms"]) >= truth, "{delay}");
        // A reply cannot be there before it was sent; a histogram's median is exact to 0.1 %.
        assert!(number(&delay["measured_ms"]) >= truth * 0.998, "{delay}");
        assert!(delay["error_ms"].is_number());
    }
    for kind in ["new_connections", "kept_connections"] {
        let steps = result[kind]["steps"].as_array().unwrap();
        assert!(!steps.is_empty(), "{kind}");
        let highest = steps
            .iter()
            .filter(|step| step["passed"] == true)
            .map(|step| number(&step["rate_per_s"]))
            .fold(f64::NAN, f64::max);
        let said = result[kind]["highest_per_s"].as_f64();
        assert_eq!(said, (!highest.is_nan()).then_some(highest), "{kind}");
    }
    assert!(number(&result["loopback_bits_per_second"]) > 0.0);
    assert!(number(&result["tcp"]["rtt_idle_ms"]["count"]) > 0.0);

    // Another process has the folder: the result is printed, and said not to be kept.
    let program = Program::start_in(folder.path(), &[]);
    let (status, text, errors) = run_to_end(&["selftest", "--quick", "--data", data]);
    assert_eq!(status, 0, "{errors}");
    assert!(errors.contains("will not be kept"), "{errors}");
    for words in [
        "Timer on a perfect grid",
        "Known delay of 10 ms",
        "This generator is exact to",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }

    let get = |path: &str| raw::json(program.dashboard(), "GET", path, None);
    let last = get("/api/selftest");
    assert_eq!(
        (&last["id"], &last["state"]),
        (&json!(1), &json!("finished"))
    );
    assert_eq!(last["exact_to_ms"], result["exact_to_ms"]);
    let line = format!(
        "httperf --server 127.0.0.1 --port {} --uri /health-check --num-conns 20 --rate 40",
        program.workload().port()
    );
    let run = raw::json(
        program.dashboard(),
        "POST",
        "/api/runs",
        Some(&json!({ "command": line })),
    );
    let path = format!("/api/runs/{}", run["id"]);
    let run = loop {
        let run = get(&path);
        if run["state"] == "finished" {
            break run;
        }
        assert!(
            run["state"] == "queued" || run["state"] == "running",
            "{run}"
        );
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    let checks = run["checks"].as_array().unwrap();
    let check = checks
        .iter()
        .find(|check| check["name"] == "selftest")
        .unwrap_or_else(|| panic!("no check by the self-test in {checks:?}"));
    let detail = check["detail"].as_str().unwrap();
    assert!(detail.contains("exact to"), "{detail}");
}

fn to(port: usize) -> Value {
    json!({"kind": "rate", "url": format!("http://127.0.0.1:{port}/"), "rate": 5, "duration_s": 30})
}

async fn post(notebook: &Notebook, path: &str) -> crate::support::notebook::Reply {
    notebook.call("POST", path, Some(json!({}))).await
}

async fn self_test_ends(notebook: &Notebook) -> Value {
    loop {
        let view = notebook.call("GET", "/api/selftest", None).await.json();
        if view["state"] != "queued" && view["state"] != "running" {
            return view;
        }
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn it_takes_its_place_in_the_queue_and_stands_beside_the_runs_after_it() {
    let notebook = Notebook::open();
    notebook
        .call("GET", "/api/selftest", None)
        .await
        .is_problem(404, "POST /api/selftest");
    let place = |run: &Run| run.queue_place;
    let running = notebook.launch(to(100)).await;
    notebook
        .until(running, |run| run.state == State::Running)
        .await;
    let before = notebook.launch(to(101)).await;
    let asked = post(&notebook, "/api/selftest").await;
    assert_eq!(asked.status, 202, "{}", asked.text);
    assert_eq!(asked.header("location"), "/api/selftest");
    assert_eq!(asked.json()["queue_place"], 2);
    post(&notebook, "/api/selftest")
        .await
        .is_problem(409, "one at a time");
    let after = notebook.launch(to(102)).await;
    let run = |id| notebook.state.supervisor.run(id);
    assert_eq!(
        run(before).await.unwrap().as_ref().map(place),
        Some(Some(1))
    );
    assert_eq!(run(after).await.unwrap().as_ref().map(place), Some(Some(3)));
    for _ in 0..2 {
        notebook.tell(Step::Second);
        notebook.tell(Step::Finish);
    }
    // The self-test, then the run after it.
    notebook.tell(Step::Finish);
    notebook.tell(Step::Second);
    notebook.tell(Step::Finish);
    let last = notebook.ended(after).await;
    let names: Vec<String> = notebook
        .log()
        .into_iter()
        .filter_map(|did| match did {
            Did::Begin(name) => Some(name),
            Did::End(_) => None,
        })
        .collect();
    assert_eq!(
        names,
        [
            "http://127.0.0.1:100/",
            "http://127.0.0.1:101/",
            "self-test",
            "http://127.0.0.1:102/"
        ]
    );
    let has = |run: &Run| run.checks.iter().any(|check| check.name == "selftest");
    assert!(!has(&notebook.ended(before).await), "it was made later");
    assert!(has(&last), "{:?}", last.checks);
    let found = self_test_ends(&notebook).await;
    assert_eq!(
        (&found["state"], &found["id"]),
        (&json!("finished"), &json!(1))
    );
    notebook.close().await;
}

#[tokio::test]
async fn it_can_be_stopped_waiting_and_running_and_bad_bodies_are_refused() {
    let notebook = Notebook::open();
    for (body, status, text) in [
        (json!({"quick": "yes"}), 422, "true or false"),
        (json!({"slow": true}), 422, "no field called slow"),
    ] {
        notebook
            .call("POST", "/api/selftest", Some(body))
            .await
            .is_problem(status, text);
    }
    post(&notebook, "/api/selftest/cancel")
        .await
        .is_problem(409, "No self-test");
    let running = notebook.launch(to(100)).await;
    notebook
        .until(running, |run| run.state == State::Running)
        .await;
    assert_eq!(post(&notebook, "/api/selftest").await.status, 202);
    let stopped = post(&notebook, "/api/selftest/cancel").await;
    assert_eq!(stopped.status, 202);
    assert_eq!(stopped.json()["state"], "cancelled");
    assert_eq!(post(&notebook, "/api/selftest").await.status, 202);
    notebook.tell(Step::Finish);
    notebook.ended(running).await;
    while notebook.call("GET", "/api/selftest", None).await.json()["state"] != "running" {
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
    assert_eq!(post(&notebook, "/api/selftest/cancel").await.status, 202);
    assert_eq!(self_test_ends(&notebook).await["state"], "cancelled");
    assert!(
        notebook
            .state
            .store
            .last_self_test()
            .await
            .unwrap()
            .is_none(),
        "nothing of it is kept"
    );
    let events = notebook.call("GET", "/api/selftest/events", None).await;
    assert!(events.text.contains("event: state"), "{}", events.text);
    // A panic is an internal error of the self-test, and the queue goes on.
    notebook.tell(Step::Panic);
    assert_eq!(post(&notebook, "/api/selftest").await.status, 202);
    let failed = self_test_ends(&notebook).await;
    assert_eq!(failed["state"], "failed");
    assert!(failed["error"].as_str().unwrap().contains("internal error"));
    notebook.tell(Step::Finish);
    let next = notebook.launch(to(101)).await;
    notebook.ended(next).await;
    notebook.close().await;
}

#[tokio::test]
async fn its_page_offers_it_shows_its_progress_and_its_figures() {
    let pages = Pages::new();
    pages.get("/selftest").await.says(&[
        "Test this machine",
        "about 25 s",
        "Quick test",
        "against that server’s own log",
    ]);
    let answer = pages.post("/selftest", &[("length", "quick")]).await;
    assert_eq!(
        (answer.status.as_u16(), answer.header("location")),
        (303, "/selftest")
    );
    let page = loop {
        let page = pages.get("/selftest").await;
        if page.text.contains("servers of known delay") {
            break page;
        }
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    };
    page.says(&[
        "<noscript><meta http-equiv=\"refresh\" content=\"2\"></noscript>",
        "data-events=\"/api/selftest/events\"",
        "action=\"/selftest/cancel\"",
    ]);
    let live = pages.get("/selftest/live").await;
    live.says(&["id=\"live\"", "40\u{a0}% done"]);
    // A second press of the button shows the same one.
    assert_eq!(pages.post("/selftest", &[]).await.status.as_u16(), 303);
    assert_eq!(
        pages.post("/selftest/cancel", &[]).await.status.as_u16(),
        303
    );
    while pages.get("/selftest/live").await.status.as_u16() != 204 {
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
    pages.get("/selftest").await.says(&["stopped by the test"]);
    assert_eq!(
        pages.post("/selftest/cancel", &[]).await.status.as_u16(),
        409
    );
}

#[test]
fn a_browser_without_javascript_makes_a_quick_one() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let folder = TempFolder::new();
        let program = Program::start(&[]);
        let setup = Setup {
            javascript: false,
            ..Setup::default()
        };
        let browser = Browser::start(setup, folder.path()).await;
        let url = format!("http://{}/selftest", program.dashboard());
        browser.client.goto(&url).await.unwrap();
        let button = fantoccini::Locator::Css("button[value=quick]");
        let found = browser.client.find(button).await.unwrap();
        found.click().await.unwrap();
        let text = browser.wait_for_words("What it found").await;
        for words in [
            "Known delay of 100 ms",
            "Loopback TCP, one stream",
            "exact to",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        for scheme in ["light", "dark"] {
            browser.prefer_scheme(scheme).await;
            for width in [1440, 390] {
                browser.viewport(width, 900).await;
                browser.picture(&format!("selftest-{scheme}-{width}")).await;
            }
        }
        let complaints = browser.complaints().await;
        assert!(complaints.is_empty(), "{complaints:#?}");
        browser.close().await;
    });
}
