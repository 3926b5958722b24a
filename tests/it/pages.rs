//! The pages as a person meets them: words, links, forms, states, and files that other programs read.

use axum::http::{Method, StatusCode};
use serde_json::json;

use crate::support::pages::{Answer, Pages};

fn overload() -> serde_json::Value {
    json!({"kind": "rate", "url": "http://127.0.0.1:8000/overload", "rate": 13, "num_conns": 2000, "timeout_s": 10})
}

fn small() -> serde_json::Value {
    json!({"kind": "rate", "url": "http://127.0.0.1:8000/ok", "rate": 5, "num_conns": 20, "timeout_s": 10})
}

/// What the policy of this server's pages forbids, found without a browser.
pub fn is_clean(answer: &Answer, path: &str) {
    let html = &answer.text;
    for banned in ["<style", "=\"javascript:", "<iframe", "<object"] {
        assert!(!html.contains(banned), "{path} has {banned}");
    }
    let mut rest = html.as_str();
    while let Some(at) = rest.find("<script") {
        let end = rest[at..].find("</script>").expect("a script ends") + at;
        let open = rest[at..].find('>').unwrap() + at;
        assert_eq!(
            rest[open + 1..end].trim(),
            "",
            "{path} has an inline script"
        );
        assert!(rest[at..open].contains("src=\"/static/"), "{path}");
        rest = &rest[end + 9..];
    }
    for tag in tags(html) {
        for attribute in tag.split_whitespace().skip(1) {
            assert!(
                !(attribute.starts_with("style=")
                    || attribute.starts_with("on") && attribute.contains('=')),
                "{path}: {tag}"
            );
        }
    }
    assert_eq!(html.matches("<h1").count(), 1, "{path} has one h1");
    assert!(html.contains("<title>"), "{path}");
    assert!(html.contains("class=\"skip\""), "{path}");
}

/// The tags of a page, text in quotes left out.
fn tags(html: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut tag = String::new();
    let (mut inside, mut quoted) = (false, false);
    for letter in html.chars() {
        match letter {
            '<' if !inside => inside = true,
            '"' if inside => quoted = !quoted,
            '>' if inside && !quoted => {
                inside = false;
                out.push(std::mem::take(&mut tag));
            }
            _ if inside && !quoted => tag.push(letter),
            _ => {}
        }
    }
    out
}

#[tokio::test]
async fn every_page_and_state_is_clean_and_answers() {
    let pages = Pages::new();
    let failed = pages
        .ended(
            json!({"kind": "fetch", "url": "http://127.0.0.1:8000/broken"}),
            "",
        )
        .await;
    let fetch = pages
        .ended(
            json!({"kind": "fetch", "url": "http://127.0.0.1:8000/ok"}),
            "",
        )
        .await;
    let users = pages
        .ended(
            json!({"kind": "users", "url": "http://127.0.0.1:8000/ok", "concurrent": 4, "reps": 20}),
            "p99<5s",
        )
        .await;
    let rate = pages.ended(overload(), "p95<1s,errors<0.1%").await;
    let refused = pages
        .ended(
            json!({"kind": "rate", "url": "http://127.0.0.1:8000/refused", "rate": 5, "num_conns": 20}),
            "",
        )
        .await;
    let mut paths: Vec<String> = [
        "/",
        "/runs",
        "/runs/new",
        "/runs/new?kind=users",
        "/runs/new?kind=fetch",
        "/experiments",
        "/experiments/new",
        "/experiments/new?kind=paired",
        "/experiments/new?kind=capacity",
        "/peers",
        "/guides",
        "/guides/core-count",
        "/guides/region-failure",
        "/commands",
        "/balancer",
        "/api",
    ]
    .map(str::to_owned)
    .to_vec();
    for run in [&failed, &fetch, &users, &rate, &refused] {
        paths.push(format!("/runs/{}", run.id));
        paths.push(format!("/runs/{}/delete", run.id));
        paths.push(format!("/runs/new?from={}", run.id));
    }
    for path in &paths {
        let answer = pages.get(path).await;
        assert_eq!(answer.status, StatusCode::OK, "{path}");
        assert!(answer.header("content-type").starts_with("text/html"));
        assert!(answer.text.len() < 300_000, "{path}: {}", answer.text.len());
        is_clean(&answer, path);
    }
}

#[tokio::test]
async fn an_empty_notebook_says_what_can_be_measured_at_once() {
    let pages = Pages::new();
    pages.get("/").await.says(&[
        "Nothing has been measured yet",
        "How good is this machine?",
        "action=\"/first-minute\"",
        "How many pictures a second does it serve?",
        "http://127.0.0.1:8000/",
        "siege -c 4 -r 5",
        "<title>tidemark: nothing measured yet</title>",
    ]);
    pages.get("/runs").await.says(&["No run yet."]);
    let home = pages.get("/").await.text;
    for place in ["/experiments", "/compare", "/guides", "/guides/capacity"] {
        assert!(home.contains(&format!("href=\"{place}\"")), "{place}");
    }
    assert!(!home.contains("iperf -c"), "no receiver listens");
}

#[tokio::test]
async fn a_report_says_finding_belief_figures_files_and_what_httperf_would_have_said() {
    let pages = Pages::new();
    let run = pages.ended(overload(), "p95<1s,errors<0.1%").await;
    let report = pages.get(&format!("/runs/{}", run.id)).await;
    report.says(&[
        "Run 1",
        "What was asked for",
        "missed:",
        "class=\"belief",
        "offered",
        "Answered by",
        "web-a3",
        "nobody: no reply",
        "Data table",
        "httperf would have told you",
        "The truth",
        "Do it again",
        "requests.csv",
        "Run again",
        "Set as baseline",
    ]);
    let home = pages.get("/").await;
    home.says(&["last finding", "Read the report", "Last findings"]);
    pages
        .get("/runs")
        .await
        .says(&["finished", "✕ missed 2 of 2", "CSV of this list"]);
}

#[tokio::test]
async fn a_running_run_shows_its_progress_and_can_be_stopped_and_then_deleted() {
    let pages = Pages::new();
    let plan = json!({"kind": "rate", "url": "http://127.0.0.1:8000/forever", "rate": 5, "num_conns": 200});
    let run = pages.started(plan.clone(), "").await;
    let waiting = pages.started(plan, "").await;
    pages
        .until(run.id, |run| {
            run.summary.is_some() && run.progress.done > 0.0
        })
        .await;
    let path = format!("/runs/{}", run.id);
    let page = pages.get(&path).await;
    page.says(&[
        "running",
        "data-run=\"1\"",
        "Stop and keep what there is",
        "<noscript><meta http-equiv=\"refresh\" content=\"2\"></noscript>",
        "aria-live",
    ]);
    is_clean(&page, &path);
    pages
        .get(&format!("{path}/live"))
        .await
        .says(&["id=\"live\"", "data-title="]);
    pages
        .get(&format!("/runs/{}", waiting.id))
        .await
        .says(&["queued, place 1", "Take it out of the queue"]);
    pages.get("/").await.says(&["What runs now"]);
    let early = pages.post(&format!("{path}/delete"), &[]).await;
    assert_eq!(early.status, StatusCode::CONFLICT);
    assert_eq!(
        pages
            .post(&format!("/runs/{}/cancel", waiting.id), &[])
            .await
            .status,
        StatusCode::SEE_OTHER
    );
    let stopped = pages.post(&format!("{path}/cancel"), &[]).await;
    assert_eq!(stopped.status, StatusCode::SEE_OTHER);
    assert_eq!(stopped.header("location"), path);
    pages.until(run.id, |run| run.state.is_final()).await;
    pages
        .get(&path)
        .await
        .says(&["cancelled", "Stopped by a person"]);
    assert_eq!(
        pages.get(&format!("{path}/live")).await.status,
        StatusCode::NO_CONTENT
    );
    let twice = pages.post(&format!("{path}/cancel"), &[]).await;
    assert_eq!(twice.status, StatusCode::CONFLICT);
    let gone = pages.post(&format!("{path}/delete"), &[]).await;
    assert_eq!(gone.status, StatusCode::SEE_OTHER);
    assert_eq!(pages.get(&path).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_form_starts_one_run_however_often_it_is_sent() {
    let pages = Pages::new();
    let form = pages.get("/runs/new?kind=rate").await.text;
    let token = form
        .split("name=\"form_token\" value=\"")
        .nth(1)
        .and_then(|rest| rest.split('"').next())
        .unwrap()
        .to_owned();
    let pairs = [
        ("kind", "rate"),
        ("form_token", &token),
        ("url", "http://127.0.0.1:8000/ok"),
        ("rate", "5"),
        ("num_conns", "10"),
        ("timeout_s", "10"),
        ("tags", "a, b, a"),
        ("note", "first"),
        ("do", "start"),
    ];
    let first = pages.post("/runs/new", &pairs).await;
    let second = pages.post("/runs/new", &pairs).await;
    assert_eq!(first.status, StatusCode::SEE_OTHER, "{}", first.text);
    assert_eq!(first.header("location"), second.header("location"));
    let run = pages.until(1, |run| run.state.is_final()).await;
    assert_eq!(run.tags, ["a", "b"]);
    assert_eq!(run.note, "first");
    assert_eq!(pages.get("/runs/2").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn faults_stand_on_top_and_at_their_fields_and_the_form_is_kept() {
    let pages = Pages::new();
    let answer = pages
        .post(
            "/runs/new",
            &[
                ("kind", "rate"),
                ("url", "http://127.0.0.1:8000/ok"),
                ("rate", "250000"),
                ("num_conns", "many"),
                ("note", "keep me"),
                ("do", "start"),
            ],
        )
        .await;
    assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY);
    answer.says(&[
        "2 things need another value",
        "<a href=\"#rate\">",
        "<a href=\"#num_conns\">",
        "value=\"250000\"",
        "value=\"many\"",
        "value=\"keep me\"",
        "aria-invalid=\"true\"",
    ]);
    assert_eq!(pages.state.supervisor.open_runs().len(), 0);
}

#[tokio::test]
async fn check_only_sends_nothing_and_says_so() {
    let pages = Pages::new();
    let answer = pages
        .post(
            "/runs/new",
            &[
                ("kind", "users"),
                ("url", "http://127.0.0.1:8000/ok"),
                ("concurrent", "4"),
                ("reps", "5"),
                ("do", "check"),
            ],
        )
        .await;
    assert_eq!(answer.status, StatusCode::OK);
    answer.says(&["Nothing has been sent", "siege", "20 at most"]);
    assert_eq!(pages.get("/runs/1").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn an_unknown_target_is_registered_and_run_in_one_click() {
    let pages = Pages::new();
    let form = |action: &'static str, url: &'static str| {
        vec![
            ("kind", "fetch"),
            ("url", url),
            ("timeout_s", "5"),
            ("do", action),
        ]
    };
    let refused = pages
        .post("/runs/new", &form("start", "http://10.9.8.7/ok"))
        .await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY);
    refused.says(&[
        "10.9.8.7",
        "Register as a peer and run",
        "name=\"peer_address\" value=\"10.9.8.7\"",
    ]);
    let never = pages
        .post("/runs/new", &form("start", "http://169.254.169.254/"))
        .await;
    assert!(!never.text.contains("Register as a peer and run"));

    let mut again = form("register", "http://10.9.8.7/ok");
    again.extend([("peer_address", "10.9.8.7"), ("peer_name", "web")]);
    let started = pages.post("/runs/new", &again).await;
    assert_eq!(started.status, StatusCode::SEE_OTHER, "{}", started.text);
    pages.get("/peers").await.says(&["web", "10.9.8.7"]);

    let mut public = form("register", "http://203.0.113.9/ok");
    public.extend([("peer_address", "203.0.113.9"), ("peer_name", "lb")]);
    let unconfirmed = pages.post("/runs/new", &public).await;
    assert_eq!(unconfirmed.status, StatusCode::UNPROCESSABLE_ENTITY);
    unconfirmed.says(&["Confirm this first"]);
    public.push(("confirm_public", "on"));
    let confirmed = pages.post("/runs/new", &public).await;
    assert_eq!(confirmed.status, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn a_pasted_line_is_read_word_by_word() {
    let pages = Pages::new();
    let read = |line: &str| {
        let query = url::form_urlencoded::Serializer::new(String::new())
            .append_pair("command", line)
            .finish();
        format!("/runs/new?{query}")
    };
    let answer = pages
        .get(&read(
            "httperf --server 127.0.0.1 --port 8000 --num-conns 2000 --rate 13 --timeout 10 --hog",
        ))
        .await;
    assert_eq!(answer.status, StatusCode::OK);
    answer.says(&[
        "13 requests a second",
        "value=\"2000\"",
        "<code>--hog</code>",
        "class=\"warn\"",
    ]);
    for (line, kind) in [
        ("iperf -c 10.0.0.2 -P 16", "throughput"),
        ("ping -c 5 10.0.0.2", "ping"),
        ("tracepath 10.0.0.2", "path"),
    ] {
        let answer = pages.get(&read(line)).await;
        assert_eq!(answer.status, StatusCode::OK, "{line}");
        answer.says(&[&format!("aria-current=\"page\"><b>{kind}</b>")]);
    }
    for (line, sentence) in [
        ("ping 10.0.0.2", "add -c 5"),
        (
            "iperf -c 10.0.0.2 --bounceback",
            "--bounceback is not supported",
        ),
    ] {
        let answer = pages.get(&read(line)).await;
        assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY, "{line}");
        answer.says(&["This line cannot be run as it stands", sentence]);
    }
    let server = pages.get(&read("iperf -s")).await;
    assert_eq!(server.status, StatusCode::OK);
    server.says(&[
        "receiver does this, and is switched off",
        "--receiver 0.0.0.0:5001",
        "aria-current=\"page\"><b>throughput</b>",
    ]);
    let answer = pages
        .get(&read("siege -c 4 -r 20 http://127.0.0.1:8000/"))
        .await;
    answer.says(&[
        "4\u{a0}users, 20\u{a0}requests each",
        "aria-current=\"page\"><b>users</b>",
    ]);
}

#[tokio::test]
async fn note_tags_and_baseline_are_changed_by_plain_forms() {
    let pages = Pages::new();
    pages.ended(small(), "").await;
    let edited = pages
        .post("/runs/1/edit", &[("note", "a note"), ("tags", "x, y")])
        .await;
    assert_eq!(edited.status, StatusCode::SEE_OTHER);
    pages.post("/runs/1/baseline", &[("baseline", "yes")]).await;
    pages
        .get("/runs/1")
        .await
        .says(&["a note", "/runs?tag=x", "No longer the baseline"]);
    pages.get("/runs?tag=y").await.says(&["1 of 1"]);
    pages
        .get("/runs?tag=z")
        .await
        .says(&["No run passes this filter."]);
}

#[tokio::test]
async fn what_does_not_exist_has_a_way_out() {
    let pages = Pages::new();
    for path in [
        "/nowhere",
        "/runs/99",
        "/runs/x",
        "/runs/99/summary.csv",
        "/peers/nobody/delete",
    ] {
        let answer = pages.get(path).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{path}");
        answer.says(&["class=\"btn go\""]);
        is_clean(&answer, path);
    }
    let wrong = pages.send(Method::DELETE, "/runs", None, "").await;
    assert_eq!(wrong.status, StatusCode::METHOD_NOT_ALLOWED);
    let unread = pages.get("/runs?kind=iperf").await;
    assert_eq!(unread.status, StatusCode::UNPROCESSABLE_ENTITY);
    unread.says(&["The filter was not understood"]);
}

#[tokio::test]
async fn the_theme_is_a_cookie_and_leads_back() {
    let pages = Pages::new();
    let set = pages
        .post("/theme", &[("theme", "dark"), ("back", "/peers")])
        .await;
    assert_eq!(set.status, StatusCode::SEE_OTHER);
    assert_eq!(set.header("location"), "/peers");
    assert!(set.header("set-cookie").starts_with("theme=dark;"));
    let dark = pages.send(Method::GET, "/", None, "theme=dark").await;
    dark.says(&["data-theme=\"dark\"", "Theme: dark"]);
    let away = pages
        .post("/theme", &[("theme", "dark"), ("back", "//evil.example/")])
        .await;
    assert_eq!(away.header("location"), "/");
}

#[tokio::test]
async fn downloads_are_what_other_programs_read() {
    let pages = Pages::new();
    pages.ended(overload(), "").await;
    for (name, rows) in [("summary.csv", 1), ("requests.csv", 2000)] {
        let answer = pages.get(&format!("/runs/1/{name}")).await;
        assert_eq!(answer.status, StatusCode::OK, "{name}");
        assert_eq!(
            answer.header("content-disposition"),
            format!("attachment; filename=\"tidemark-run-1-{name}\"")
        );
        assert!(!answer.text.starts_with('\u{feff}'));
        let mut reader = csv::Reader::from_reader(answer.text.as_bytes());
        let width = reader.headers().unwrap().len();
        let records: Vec<_> = reader.records().map(Result::unwrap).collect();
        assert_eq!(records.len(), rows, "{name}");
        assert!(records.iter().all(|record| record.len() == width));
        assert!(answer.text.ends_with("\r\n"));
    }
    let requests = pages.get("/runs/1/requests.csv").await;
    assert_eq!(requests.header("x-total-rows"), "2000");
    let json: serde_json::Value =
        serde_json::from_str(&pages.get("/runs/1/requests.json").await.text).unwrap();
    assert_eq!(json["rows"].as_array().unwrap().len(), 2000);
    let intervals = pages.get("/runs/1/intervals.csv").await;
    let seconds = csv::Reader::from_reader(intervals.text.as_bytes())
        .records()
        .count();
    assert_eq!(intervals.header("x-total-rows"), seconds.to_string());
    let head = pages
        .send(Method::HEAD, "/runs/1/requests.csv", None, "")
        .await;
    assert_eq!((head.status, head.text.len()), (StatusCode::OK, 0));
    let excel = pages.get("/runs/1/intervals.csv?excel=1").await;
    assert!(excel.text.starts_with('\u{feff}'));
    let semicolons = pages.get("/runs/1/intervals.csv?delim=semicolon").await;
    assert!(semicolons.text.starts_with("run;start_s;"));
    pages
        .get("/runs/1/report.txt")
        .await
        .says(&["Errors: total", "Connection time [ms]:"]);
    pages
        .get("/runs/1/histogram.hgrm")
        .await
        .says(&["Percentile", "#[Mean"]);
    let history = pages.get("/runs.csv?kind=rate").await;
    assert_eq!(
        csv::Reader::from_reader(history.text.as_bytes())
            .records()
            .count(),
        1
    );
    assert_eq!(
        pages.get("/runs/1/iperf.csv").await.status,
        StatusCode::NOT_FOUND
    );
}

#[tokio::test]
async fn pictures_and_the_report_file_stand_alone() {
    let pages = Pages::new();
    pages.ended(overload(), "").await;
    let svg = pages
        .get("/runs/1/charts/latency-over-time.svg?theme=dark")
        .await;
    assert_eq!(svg.header("content-type"), "image/svg+xml");
    assert!(svg.header("content-security-policy").contains("sandbox"));
    assert!(!svg.text.contains("var(--"), "a file knows no variables");
    assert_eq!(
        pages.get("/runs/1/charts/nothing.svg").await.status,
        StatusCode::NOT_FOUND
    );
    let file = pages.get("/runs/1/report.html").await;
    assert_eq!(file.status, StatusCode::OK);
    file.says(&["<style>", "Answered by"]);
    for absent in ["<script", "<form", "/static/", "<nav", "Run again"] {
        assert!(!file.text.contains(absent), "{absent} works only here");
    }
}

#[tokio::test]
async fn what_people_wrote_is_text_and_nothing_else() {
    let payloads = payloads();
    assert!(payloads.len() >= 40);
    let pages = Pages::new();
    pages.ended(small(), "").await;
    let plain = pages.get("/runs/1").await;
    let shape = |answer: &Answer| -> Vec<String> {
        tags(&answer.text)
            .iter()
            .map(|tag| tag.split_whitespace().next().unwrap_or_default().to_owned())
            .collect()
    };
    pages
        .post("/runs/1/edit", &[("note", "N"), ("tags", "T")])
        .await;
    let expected = shape(&pages.get("/runs/1").await);
    let listed = shape(&pages.get("/runs").await);
    drop(plain);
    for payload in &payloads {
        let tag = payload.replace(',', " ");
        let answer = pages
            .post("/runs/1/edit", &[("note", payload), ("tags", &tag)])
            .await;
        if answer.status != StatusCode::SEE_OTHER {
            assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY, "{payload}");
            is_clean(&answer, payload);
            continue;
        }
        let report = pages.get("/runs/1").await;
        assert_eq!(shape(&report), expected, "{payload}");
        let list = pages.get("/runs").await;
        assert_eq!(shape(&list), listed, "{payload}");
        is_clean(&list, payload);
        let reflected = url::form_urlencoded::Serializer::new(String::new())
            .append_pair("command", payload)
            .append_pair("text", payload)
            .finish();
        for path in ["/runs", "/runs/new"] {
            is_clean(&pages.get(&format!("{path}?{reflected}")).await, payload);
        }
        let peer = pages
            .post(
                "/peers",
                &[
                    ("name", payload),
                    ("internal_address", "10.0.0.1"),
                    ("region", payload),
                ],
            )
            .await;
        if peer.status != StatusCode::SEE_OTHER {
            is_clean(&peer, payload);
        }
    }
    is_clean(&pages.get("/peers").await, "/peers");
}

/// Ways to break out of text, attributes, addresses and comments.
fn payloads() -> Vec<String> {
    let hearts = [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "<svg onload=alert(1)>",
        "<b onmouseover=alert(1)>x</b>",
        "</textarea><script>alert(1)</script>",
        "</title><script>alert(1)</script>",
        "<a href=javascript:alert(1)>x</a>",
        "<iframe src=//evil.example>",
    ];
    let shells = ["{}", "\"{}", "'{}", "\">{}", "-->{}"];
    hearts
        .iter()
        .flat_map(|heart| shells.iter().map(move |shell| shell.replace("{}", heart)))
        .collect()
}
