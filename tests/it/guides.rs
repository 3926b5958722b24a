//! Guides: what their pages say before and after, and each of them done in a real Chromium on small numbers.

use axum::http::StatusCode;
use fantoccini::Locator;
use serde_json::json;

use crate::browser::{Desk, runtime};
use crate::support::browser::Setup;
use crate::support::pages::Pages;

const SLUGS: [&str; 8] = [
    "connection-test",
    "core-count",
    "internal-external",
    "tier-1",
    "capacity",
    "regional-overload",
    "global-overflow",
    "region-failure",
];

/// The fields of a step's form as the page sends them, hidden ones included, with these changes.
pub(crate) fn form_of(page: &str, step: &str, changes: &[(&str, &str)]) -> Vec<(String, String)> {
    let from = page
        .find(&format!("id=\"{step}-form\""))
        .unwrap_or_else(|| panic!("no form of {step} in {page}"));
    let form = &page[from..];
    let form = &form[..form.find("</form>").unwrap()];
    let mut fields: Vec<(String, String)> = form
        .split("<input ")
        .skip(1)
        .map(|input| {
            let of = |name: &str| {
                let start = input.find(&format!("{name}=\"")).unwrap() + name.len() + 2;
                let end = start + input[start..].find('"').unwrap();
                input[start..end].replace("&#38;", "&")
            };
            (of("name"), of("value"))
        })
        .collect();
    for (name, value) in changes {
        let field = fields.iter_mut().find(|(known, _)| known == name);
        let (_, old) = field.unwrap_or_else(|| panic!("{step} has no field {name}"));
        (*value).clone_into(old);
    }
    fields
}

async fn start(pages: &Pages, slug: &str, step: &str, changes: &[(&str, &str)]) -> String {
    let page = pages.get(&format!("/guides/{slug}")).await;
    let fields = form_of(&page.text, step, changes);
    let pairs: Vec<(&str, &str)> = fields
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    let is_run = fields.iter().any(|(name, _)| name == "quick");
    let path = if is_run {
        "/runs/new"
    } else {
        "/experiments/new"
    };
    let answer = pages.post(path, &pairs).await;
    assert_eq!(answer.status, StatusCode::SEE_OTHER, "{}", answer.text);
    answer.header("location").to_owned()
}

#[test]
fn every_guide_has_a_page_with_forms_and_the_labs_figures() {
    runtime().block_on(async {
        let pages = Pages::new();
        let home = pages.get("/").await;
        let list = pages.get("/guides").await;
        for slug in SLUGS {
            let address = format!("href=\"/guides/{slug}\"");
            home.says(&[&address]);
            list.says(&[&address]);
            let page = pages.get(&format!("/guides/{slug}")).await;
            assert_eq!(page.status, StatusCode::OK);
            page.says(&[
                "○ to do",
                "What to look for",
                "source lab",
                "not measured yet",
            ]);
            page.says(&[&format!("guide:{slug}, guide:{slug}/")]);
        }
        assert_eq!(
            pages.get("/guides/other").await.status,
            StatusCode::NOT_FOUND
        );
        let page = pages.get("/guides/core-count?peer=nobody").await;
        assert_eq!(page.status, StatusCode::NOT_FOUND);
    });
}

#[test]
fn the_forms_are_filled_for_a_registered_peer() {
    runtime().block_on(async {
        let pages = Pages::new();
        let record = json!({"name": "us-b", "internal_address": "10.128.0.10",
            "external_address": "10.9.0.7", "ports": {"throughput": 5055, "workload": 8055}});
        pages
            .state
            .supervisor
            .register_peer(&record, "local")
            .await
            .unwrap();
        let page = pages.get("/guides/internal-external?peer=us-b").await;
        page.says(&["<option value=\"us-b\" selected>", "against us-b"]);
        page.says(&[
            "iperf -c 10.128.0.10 -p 5055 -t 5",
            "iperf -c 10.9.0.7 -p 5055 -t 5",
        ]);
        let page = pages.get("/guides/capacity?peer=us-b").await;
        page.says(&["http://10.128.0.10:8055/", "value=\"4 5 7 10\""]);
    });
}

#[test]
fn what_was_done_is_found_by_its_tag_and_compared() {
    runtime().block_on(async {
        let pages = Pages::new();
        let run = start(&pages, "tier-1", "sixteen", &[("duration_s", "2")]).await;
        let id: i64 = run.rsplit('/').next().unwrap().parse().unwrap();
        let ended = pages.until(id, |run| run.state.is_final()).await;
        assert_eq!(ended.tags, ["guide:tier-1", "guide:tier-1/sixteen"]);
        let page = pages.get("/guides/tier-1").await;
        page.says(&[
            "✓ done",
            "1 of 2 steps done",
            &format!("href=\"/runs/{id}\""),
            "Do it again",
        ]);
        // Another guide knows nothing of it, and the run leads back.
        let other = pages.get("/guides/core-count").await;
        assert!(!other.text.contains("✓ done"));
        pages
            .get(&run)
            .await
            .says(&["Guide: Tier_1 bandwidth", "href=\"/guides/tier-1\""]);
        pages.get("/guides").await.says(&["1 of 2 steps done"]);

        let experiment = start(
            &pages,
            "core-count",
            "streams",
            &[
                ("base", "iperf -c 127.0.0.1 -t 1"),
                ("values", "1 2"),
                ("pause_s", "0"),
            ],
        )
        .await;
        let id: i64 = experiment.rsplit('/').next().unwrap().parse().unwrap();
        for _ in 0..3000 {
            let one = pages
                .state
                .supervisor
                .experiment(id)
                .await
                .unwrap()
                .unwrap();
            if one.state.is_final() {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        let page = pages.get("/guides/core-count").await;
        page.says(&[
            "1 of 3 steps done",
            "-P 2",
            "most streams over one",
            "yours",
        ]);
        pages.get(&experiment).await.says(&["Guide: Core count"]);
    });
}

/// Does one step: fills these fields, starts it, waits for its report, and comes back by its link.
async fn step(desk: &Desk, slug: &str, step: &str, fields: &[(&str, &str)], report: &str) {
    for (name, value) in fields {
        desk.fill(&format!("#{step}-{name}"), value).await;
    }
    desk.click(&format!("#{step}-form button")).await;
    desk.browser.wait_for_words(report).await;
    let link = format!("a[href='/guides/{slug}']");
    let back = desk.browser.client.find(Locator::Css(&link)).await;
    back.unwrap().click().await.unwrap();
    let done = format!("document.querySelector('#{step} h3 .ok')?.textContent === '✓ done'");
    desk.browser.wait_until("the step is done", &done).await;
}

/// The end of a guide: every step done, the own figures drawn, the page quiet and narrow enough.
async fn all_done(desk: &Desk, slug: &str) {
    let text = desk.browser.wait_for_words("✓ done, against").await;
    assert!(text.contains("alike") || text.contains("differs"), "{text}");
    let drawn = "[...document.querySelectorAll('#beside-table td:first-child')].some((cell) => cell.textContent === 'yours')";
    desk.browser.wait_until("own figures drawn", drawn).await;
    desk.assert_quiet(slug).await;
    desk.assert_fits(slug).await;
    desk.browser.picture(&format!("guide-{slug}")).await;
    desk.browser.viewport(390, 844).await;
    desk.assert_fits(&format!("{slug} on a phone")).await;
    desk.browser.picture(&format!("guide-{slug}-phone")).await;
}

const RUN: &str = "Do it again";
const EXPERIMENT: &str = "Run again";

#[test]
fn the_connection_test_is_done_in_a_browser() {
    runtime().block_on(async {
        let desk = Desk::open_with(Setup::default(), &[]).await;
        desk.go("/guides").await;
        desk.assert_quiet("the list").await;
        desk.click("a[href='/guides/connection-test']").await;
        desk.browser.wait_for_words("○ to do").await;
        desk.assert_quiet("the guide").await;
        let slug = "connection-test";
        step(&desk, slug, "ping", &[("interval_s", "0.2")], RUN).await;
        step(&desk, slug, "many", &[("count", "10")], RUN).await;
        all_done(&desk, slug).await;
        desk.browser.close().await;
    });
}

#[test]
fn the_core_count_is_done_in_a_browser() {
    runtime().block_on(async {
        let desk = Desk::open_with(Setup::default(), &["--receiver", "127.0.0.1:0"]).await;
        let slug = "core-count";
        desk.go("/guides/core-count").await;
        let port = desk.program.addresses("receiver")[0].port();
        let line = format!("iperf -c 127.0.0.1 -p {port} -t 1");
        step(&desk, slug, "one", &[("duration_s", "1")], RUN).await;
        let few = [("base", line.as_str()), ("values", "1 2"), ("pause_s", "0")];
        step(&desk, slug, "streams", &few, EXPERIMENT).await;
        step(&desk, slug, "hundred", &[("repeat", "3")], EXPERIMENT).await;
        all_done(&desk, slug).await;
        desk.browser.close().await;
    });
}

#[test]
fn internal_against_external_is_done_in_a_browser() {
    runtime().block_on(async {
        let desk = Desk::open_with(Setup::default(), &["--receiver", "127.0.0.1:0"]).await;
        let slug = "internal-external";
        desk.go("/guides/internal-external").await;
        let port = desk.program.addresses("receiver")[0].port();
        let line = format!("iperf -c 127.0.0.1 -p {port} -t 1");
        step(&desk, slug, "internal", &[("duration_s", "1")], RUN).await;
        step(&desk, slug, "external", &[("duration_s", "1")], RUN).await;
        let pair = [
            ("base", line.as_str()),
            ("b", line.as_str()),
            ("repeat", "2"),
        ];
        step(&desk, slug, "pair", &pair, EXPERIMENT).await;
        all_done(&desk, slug).await;
        desk.browser.close().await;
    });
}

#[test]
fn tier_1_is_done_in_a_browser() {
    runtime().block_on(async {
        let flags = ["--receiver", "127.0.0.1:0", "--egress-cap", "100G"];
        let desk = Desk::open_with(Setup::default(), &flags).await;
        let slug = "tier-1";
        desk.go("/guides/tier-1").await;
        step(&desk, slug, "mtu", &[], RUN).await;
        step(&desk, slug, "sixteen", &[("duration_s", "2")], RUN).await;
        all_done(&desk, slug).await;
        desk.browser.close().await;
    });
}

#[test]
fn the_capacity_is_done_in_a_browser() {
    runtime().block_on(async {
        let desk = Desk::open_with(Setup::default(), &["--workload-threads", "1"]).await;
        let slug = "capacity";
        desk.go("/guides/capacity").await;
        let port = desk.program.workload().port();
        let url = format!("http://127.0.0.1:{port}/?work=light");
        let line =
            format!("httperf --server 127.0.0.1 --port {port} --uri /?work=light --num-conns 30");
        step(&desk, slug, "fetch", &[("url", &url)], RUN).await;
        step(&desk, slug, "users", &[("url", &url), ("reps", "5")], RUN).await;
        let search = [
            ("base", line.as_str()),
            ("step_s", "0.5"),
            ("budget_s", "40"),
        ];
        step(&desk, slug, "search", &search, EXPERIMENT).await;
        let text = desk.browser.text().await;
        assert!(
            text.contains("in the same shares of what this server answers"),
            "{text}"
        );
        // The rates are those that the page scaled to what it found.
        step(
            &desk,
            slug,
            "sweep",
            &[("base", &line), ("pause_s", "0.1")],
            EXPERIMENT,
        )
        .await;
        all_done(&desk, slug).await;
        desk.browser.close().await;
    });
}
