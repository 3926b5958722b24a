//! Login in a real Chromium, and what pages of other sites can do there: nothing.

use axum::Router;
use axum::response::Html;
use axum::routing::get;
use serde_json::Value;
use tidemark::serve::ServeLimits;

use crate::browser::{Desk, runtime};
use crate::support::browser::Setup;
use crate::support::raw;
use crate::support::server::Server;

#[test]
fn a_person_comes_in_by_the_link_or_the_token_and_leaves() {
    const TOKEN: &str = "c0ffee00c0ffee00c0ffee00";
    runtime().block_on(async {
        let desk = Desk::open_with(Setup::default(), &["--token", TOKEN]).await;
        let browser = &desk.browser;
        desk.go("/peers").await;
        browser.wait_for_words("asks who you are").await;
        desk.assert_quiet("login").await;
        desk.assert_fits("login").await;
        browser.picture("login").await;
        desk.fill("#token", "a guess").await;
        desk.click("form[action='/login'] button").await;
        browser
            .wait_for_words("not a token of this dashboard")
            .await;
        desk.fill("#token", TOKEN).await;
        desk.click("form[action='/login'] button").await;
        // Where the person wanted to go in the first place.
        browser.wait_for_words("Log out").await;
        let place = browser.client.current_url().await.unwrap();
        assert_eq!(place.path(), "/peers");
        desk.click("form[action='/logout'] button").await;
        browser.wait_for_words("asks who you are").await;

        let errors = desk.program.errors();
        let (_, link) = errors.split_once("/login?code=").unwrap();
        let code = link.split_whitespace().next().unwrap();
        desk.go(&format!("/login?code={code}")).await;
        browser.wait_for_words("Log out").await;
        desk.go("/audit").await;
        let text = browser.wait_for_words("as admin").await;
        assert!(text.contains("not logged in"), "{text}");
        desk.assert_fits("audit").await;
        browser.picture("audit").await;
        browser.viewport(390, 800).await;
        desk.assert_fits("audit on a phone").await;
        desk.browser.close().await;
    });
}

/// A page that tries everything that a page of another site can try.
fn hostile(dashboard: &str) -> String {
    format!(
        r#"<!doctype html><title>hostile</title><p id="said">waits</p>
<img src="http://{dashboard}/runs/1/cancel"><img src="http://{dashboard}/api/runs/1/cancel">
<iframe name="hole" src="http://{dashboard}/"></iframe>
<form id="launch" method="post" target="hole" action="http://{dashboard}/runs/new">
<input name="kind" value="ping"><input name="host" value="127.0.0.1"><input name="action" value="start"></form>
<form id="peer" method="post" target="hole" action="http://{dashboard}/peers">
<input name="name" value="evil"><input name="internal_address" value="127.0.0.9"></form>
<script>
const plan = '{{"command": "ping -c 1 127.0.0.1"}}';
const tries = ["text/plain", "application/json"].map(type => fetch("http://{dashboard}/api/runs",
    {{method: "POST", mode: type === "text/plain" ? "no-cors" : "cors", credentials: "include",
      headers: {{"Content-Type": type}}, body: plan}}).then(() => "sent", () => "refused"));
const reading = fetch("http://{dashboard}/api/node").then(reply => reply.text()).then(() => "read", () => "unread");
document.getElementById("launch").submit();
setTimeout(() => document.getElementById("peer").submit(), 300);
Promise.all([...tries, reading]).then(said => setTimeout(
    () => {{ document.getElementById("said").textContent = "tried: " + said.join(" "); }}, 1000));
</script>"#
    )
}

#[test]
fn a_page_of_another_site_starts_reads_and_changes_nothing() {
    runtime().block_on(async {
        let desk = Desk::open(Setup::default()).await;
        let dashboard = desk.program.dashboard();
        let page = hostile(&dashboard.to_string());
        let router = Router::new().route("/", get(async move || Html(page.clone())));
        let evil = Server::start(router, ServeLimits::dashboard(), None);
        let port = evil.address.port();
        let client = &desk.browser.client;
        client
            .goto(&format!("http://evil.example:{port}/"))
            .await
            .unwrap();
        let text = desk.browser.wait_for_words("tried:").await;
        assert!(text.contains("unread"), "{text}");

        let call = |path: &str| -> Value { raw::json(dashboard, "GET", path, None) };
        assert_eq!(call("/api/runs")["runs"].as_array().unwrap().len(), 0);
        assert_eq!(call("/api/peers")["peers"].as_array().unwrap().len(), 0);

        // The same name pointed at the dashboard itself: same origin to the browser, and a stranger to us.
        client
            .goto(&format!("http://evil.example:{}/", dashboard.port()))
            .await
            .unwrap();
        let text = desk.browser.text().await;
        assert!(text.contains("does not answer for"), "{text}");
        assert!(!text.contains("New run"), "{text}");
        desk.browser.close().await;
    });
}
