//! The pages in a real Chromium: launched, watched, stopped, read and downloaded as a person does it.

use fantoccini::Locator;

use crate::support::browser::{Browser, Setup};
use crate::support::process::{Program, TempFolder};

/// A program, a browser and the folder that its downloads go to.
struct Desk {
    program: Program,
    browser: Browser,
    _folder: TempFolder,
}

impl Desk {
    async fn open(setup: Setup) -> Self {
        let folder = TempFolder::new();
        let program = Program::start(&[]);
        let browser = Browser::start(setup, folder.path()).await;
        Self {
            program,
            browser,
            _folder: folder,
        }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.program.dashboard())
    }

    async fn go(&self, path: &str) {
        self.browser.client.goto(&self.url(path)).await.unwrap();
    }

    async fn click(&self, selector: &str) {
        let found = self.browser.client.find(Locator::Css(selector)).await;
        let element = found.unwrap_or_else(|error| panic!("{selector}: {error}"));
        element.click().await.unwrap();
    }

    async fn fill(&self, selector: &str, text: &str) {
        let found = self.browser.client.find(Locator::Css(selector)).await;
        let element = found.unwrap_or_else(|error| panic!("{selector}: {error}"));
        element.clear().await.unwrap();
        element.send_keys(text).await.unwrap();
    }

    /// Nothing was written to the console, refused by the policy, or missing.
    async fn assert_quiet(&self, page: &str) {
        let complaints = self.browser.complaints().await;
        assert!(complaints.is_empty(), "{page}: {complaints:#?}");
    }

    /// The page fits its window: nobody has to scroll sideways to read it.
    async fn assert_fits(&self, page: &str) {
        let wide = self
            .browser
            .client
            .execute(
                "return [document.documentElement.scrollWidth, innerWidth]",
                vec![],
            )
            .await
            .unwrap();
        let numbers: Vec<f64> = serde_json::from_value(wide).unwrap();
        assert!(numbers[0] <= numbers[1] + 1.0, "{page}: {numbers:?}");
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

#[test]
fn a_pasted_command_is_read_run_watched_and_downloaded() {
    runtime().block_on(async {
        let desk = Desk::open(Setup::default()).await;
        let browser = &desk.browser;
        desk.go("/").await;
        desk.assert_quiet("home").await;
        browser.picture("home-empty").await;
        let workload = desk.program.workload();
        let line = format!(
            "httperf --server 127.0.0.1 --port {} --uri /?work=light --num-conns 60 --rate 15 --hog",
            workload.port()
        );
        desk.fill("form.paste input[name=command]", &line).await;
        desk.click("form.paste button").await;
        // Every word is shown as it was read, also the one that is not needed.
        let text = browser
            .wait_for_words("not needed: ports are chosen here")
            .await;
        assert!(text.contains("--num-conns 60"), "{text}");
        desk.assert_quiet("launch").await;
        browser.picture("launch").await;
        desk.click("button[value=start]").await;
        browser.wait_for_words("so far").await;
        browser.picture("live").await;
        // The page becomes the report by itself, without a reload by hand.
        let text = browser.wait_for_words("Do it again").await;
        assert!(text.contains("httperf"), "{text}");
        for words in ["Outcomes", "planned", "Environment", "report.txt"] {
            assert!(text.contains(words), "{words}: {text}");
        }
        desk.assert_quiet("report").await;
        desk.assert_fits("report").await;
        browser.picture("report").await;

        desk.click("a[href$='requests.csv']").await;
        let csv = browser.downloaded("tidemark-run-1-requests.csv").await;
        let mut reader = csv::Reader::from_reader(csv.as_bytes());
        let outcome = reader
            .headers()
            .unwrap()
            .iter()
            .position(|name| name == "outcome")
            .unwrap();
        let rows: Vec<_> = reader.records().map(Result::unwrap).collect();
        assert_eq!(rows.len(), 60);
        assert!(rows.iter().all(|row| &row[outcome] == "ok"));

        desk.go("/runs").await;
        let text = browser.text().await;
        assert!(text.contains("finished"), "{text}");
        desk.assert_quiet("history").await;
        desk.browser.close().await;
    });
}

#[test]
fn a_form_starts_a_run_that_can_be_stopped() {
    runtime().block_on(async {
        let desk = Desk::open(Setup::default()).await;
        desk.go("/runs/new?kind=users").await;
        let url = format!("http://{}/?work=light", desk.program.workload());
        desk.fill("[name=url]", &url).await;
        desk.fill("[name=concurrent]", "2").await;
        desk.fill("[name=reps]", "").await;
        desk.fill("[name=duration_s]", "60").await;
        desk.click("button[value=check]").await;
        desk.browser.wait_for_words("siege").await;
        desk.click("button[value=start]").await;
        desk.browser.wait_for_words("so far").await;
        desk.click("#stop").await;
        let text = desk.browser.wait_for_words("cancelled").await;
        assert!(text.contains("Do it again"), "{text}");
        desk.assert_quiet("cancelled").await;
        desk.browser.picture("cancelled").await;

        // A field at fault is named, and the form keeps what was typed.
        desk.go("/runs/new?kind=rate").await;
        desk.fill("[name=rate]", "250000").await;
        desk.click("button[value=start]").await;
        let text = desk.browser.wait_for_words("--max-rate").await;
        assert!(text.contains("limit"), "{text}");
        let rate = desk
            .browser
            .client
            .find(Locator::Css("[name=rate]"))
            .await
            .unwrap();
        assert_eq!(rate.prop("value").await.unwrap().as_deref(), Some("250000"));
        desk.browser.picture("form-error").await;
        desk.browser.close().await;
    });
}

#[test]
fn every_page_fits_a_phone_and_follows_the_dark_scheme() {
    runtime().block_on(async {
        let desk = Desk::open(Setup::default()).await;
        desk.go("/runs/new").await;
        let url = format!("http://{}/?work=light", desk.program.workload());
        desk.fill("[name=url]", &url).await;
        desk.fill("[name=num_conns]", "10").await;
        desk.fill("[name=rate]", "20").await;
        desk.click("button[value=start]").await;
        desk.browser.wait_for_words("Do it again").await;
        let ground = "return getComputedStyle(document.documentElement).backgroundColor";
        for path in ["/", "/runs", "/runs/new", "/runs/1", "/peers", "/api"] {
            let mut grounds = Vec::new();
            for scheme in ["light", "dark"] {
                desk.browser.prefer_scheme(scheme).await;
                for width in [1440, 768, 390] {
                    desk.browser.viewport(width, 900).await;
                    desk.go(path).await;
                    desk.assert_fits(&format!("{path} {scheme} {width}")).await;
                    let name = path.replace('/', "_");
                    desk.browser
                        .picture(&format!("page{name}-{scheme}-{width}"))
                        .await;
                }
                grounds.push(
                    desk.browser
                        .client
                        .execute(ground, vec![])
                        .await
                        .unwrap()
                        .to_string(),
                );
            }
            assert_ne!(grounds[0], grounds[1], "{path}");
            desk.assert_quiet(path).await;
        }
        desk.browser.close().await;
    });
}

#[test]
fn everything_works_without_javascript() {
    runtime().block_on(async {
        let desk = Desk::open(Setup {
            javascript: false,
            ..Setup::default()
        })
        .await;
        desk.go("/runs/new").await;
        let url = format!("http://{}/?work=light", desk.program.workload());
        desk.fill("[name=url]", &url).await;
        desk.fill("[name=num_conns]", "40").await;
        desk.fill("[name=rate]", "10").await;
        desk.click("button[value=start]").await;
        desk.browser.wait_for_words("so far").await;
        // The page loads itself anew until the run has ended.
        let text = desk.browser.wait_for_words("Do it again").await;
        assert!(text.contains("finished"), "{text}");
        let charts = desk
            .browser
            .client
            .find_all(Locator::Css("figure svg"))
            .await
            .unwrap();
        assert!(charts.len() >= 3, "{}", charts.len());

        desk.go("/runs/new").await;
        desk.fill("[name=url]", &url).await;
        desk.fill("[name=num_conns]", "6000").await;
        desk.fill("[name=rate]", "100").await;
        desk.click("button[value=start]").await;
        desk.browser.wait_for_words("so far").await;
        desk.click("#stop").await;
        desk.browser.wait_for_words("cancelled").await;

        // A note, then the end of the run for good.
        desk.click("details.edit summary").await;
        desk.fill("[name=note]", "stopped on purpose").await;
        desk.click("details.edit button").await;
        desk.browser.wait_for_words("stopped on purpose").await;
        desk.go("/runs/2/delete").await;
        desk.click("form[action='/runs/2/delete'] button").await;
        desk.go("/runs").await;
        let text = desk.browser.text().await;
        assert!(!text.contains("#2"), "{text}");
        desk.browser.close().await;
    });
}
