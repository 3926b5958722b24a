//! The pages in a real Chromium: launched, watched, stopped, read and downloaded as a person does it.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fantoccini::Locator;

use crate::support::browser::{Browser, Setup};
use crate::support::process::{Program, TempFolder};

/// A program, a browser and the folder that its downloads go to.
pub(crate) struct Desk {
    pub(crate) program: Program,
    pub(crate) browser: Browser,
    _folder: TempFolder,
}

impl Desk {
    pub async fn open(setup: Setup) -> Self {
        Self::open_with(setup, &[]).await
    }

    pub(crate) async fn open_with(setup: Setup, flags: &[&str]) -> Self {
        let folder = TempFolder::new();
        let program = Program::start(flags);
        let browser = Browser::start(setup, folder.path()).await;
        Self {
            program,
            browser,
            _folder: folder,
        }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.program.dashboard())
    }

    pub(crate) async fn go(&self, path: &str) {
        self.browser.client.goto(&self.url(path)).await.unwrap();
    }

    pub(crate) async fn click(&self, selector: &str) {
        let found = self.browser.client.find(Locator::Css(selector)).await;
        let element = found.unwrap_or_else(|error| panic!("{selector}: {error}"));
        element.click().await.unwrap();
    }

    pub(crate) async fn fill(&self, selector: &str, text: &str) {
        let found = self.browser.client.find(Locator::Css(selector)).await;
        let element = found.unwrap_or_else(|error| panic!("{selector}: {error}"));
        element.clear().await.unwrap();
        element.send_keys(text).await.unwrap();
    }

    /// Nothing was written to the console, refused by the policy, or missing.
    pub(crate) async fn assert_quiet(&self, page: &str) {
        let complaints = self.browser.complaints().await;
        assert!(complaints.is_empty(), "{page}: {complaints:#?}");
    }

    /// The page fits its window: nobody has to scroll sideways to read it.
    pub(crate) async fn assert_fits(&self, page: &str) {
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

pub(crate) fn runtime() -> tokio::runtime::Runtime {
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
fn an_experiment_goes_from_its_form_to_its_report() {
    runtime().block_on(async {
        let desk = Desk::open(Setup::default()).await;
        let browser = &desk.browser;
        desk.go("/experiments/new").await;
        browser.picture("experiment-form").await;
        desk.assert_quiet("the form").await;
        let workload = desk.program.workload();
        let line = format!(
            "httperf --server 127.0.0.1 --port {} --uri /?work=light --num-conns 20",
            workload.port()
        );
        desk.fill("textarea[name=base]", &line).await;
        desk.fill("input[name=vary]", "rate").await;
        desk.fill("input[name=values]", "10 20 40").await;
        desk.fill("input[name=pause_s]", "0.1").await;
        desk.click("button[value=check].big").await;
        let text = browser.wait_for_words("Nothing has been sent").await;
        assert!(
            text.contains("60 at most") && text.contains("rate 40"),
            "{text}"
        );
        desk.click("button[value=start]").await;
        browser.wait_for_words("Stop, keep what is done").await;
        browser.picture("experiment-live").await;
        // The page becomes the report by itself.
        let text = browser.wait_for_words("Run again").await;
        for words in ["finished", "rate 10", "rate 40", "points.csv", "Data table"] {
            assert!(text.contains(words), "{words}: {text}");
        }
        desk.assert_quiet("the report").await;
        desk.assert_fits("the report").await;
        browser.picture("experiment-report").await;
        desk.click("a[href$='points.csv']").await;
        let csv = browser.downloaded("tidemark-experiment-1-points.csv").await;
        assert_eq!(csv.lines().count(), 4, "{csv}");
        browser.viewport(390, 844).await;
        desk.assert_fits("the report on a phone").await;
        browser.picture("experiment-report-phone").await;
        desk.go("/experiments/new").await;
        desk.assert_fits("the form on a phone").await;
        desk.browser.close().await;
    });
}

/// A real `iperf -s`, ended with this value.
struct RealIperf {
    child: Child,
    port: u16,
}

impl RealIperf {
    fn start() -> Self {
        // Another program may take the port between the look and the start.
        for _ in 0..5 {
            let port = std::net::TcpListener::bind("127.0.0.1:0")
                .and_then(|socket| socket.local_addr())
                .unwrap()
                .port();
            let child = Command::new("iperf")
                .args(["-s", "-p", &port.to_string()])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("iperf is installed by scripts/test.sh");
            let mut server = Self { child, port };
            if server.listens() {
                return server;
            }
        }
        panic!("iperf -s does not listen");
    }

    /// Whether its socket is there; asking by a connection would count as a test.
    fn listens(&mut self) -> bool {
        let port = format!(":{:04X}", self.port);
        let end = Instant::now() + Duration::from_secs(30);
        while Instant::now() < end && self.child.try_wait().unwrap().is_none() {
            for table in ["tcp", "tcp6"] {
                let text =
                    std::fs::read_to_string(format!("/proc/net/{table}")).unwrap_or_default();
                let here = text.lines().any(|line| {
                    let words: Vec<&str> = line.split_whitespace().collect();
                    words.get(1).is_some_and(|local| local.ends_with(&port))
                        && words.get(3) == Some(&"0A")
                });
                if here {
                    return true;
                }
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        false
    }
}

impl Drop for RealIperf {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Pastes a line on the home page and starts the run that it means.
async fn paste_and_start(desk: &Desk, line: &str, head: &str) {
    desk.go("/").await;
    desk.fill("form.paste input[name=command]", line).await;
    desk.click("form.paste button").await;
    desk.browser.wait_for_words(head).await;
    desk.click("button[value=start]").await;
}

/// Rows of the table of streams.
const STREAM_ROWS: &str = "#streams-table + .lead + .tw tbody tr";

async fn stream_rows(desk: &Desk) -> usize {
    desk.browser
        .client
        .find_all(Locator::Css(STREAM_ROWS))
        .await
        .unwrap()
        .len()
}

#[test]
fn a_pasted_iperf_line_is_run_against_a_real_server_and_against_our_own() {
    runtime().block_on(async {
        let desk = Desk::open_with(Setup::default(), &["--receiver", "127.0.0.1:0"]).await;
        let real = RealIperf::start();
        let own = desk.program.addresses("receiver")[0].port();
        for (run, port) in [(1, real.port), (2, own)] {
            let line = format!("iperf -c 127.0.0.1 -P 16 -t 2 -p {port}");
            paste_and_start(&desk, &line, "16 streams to 127.0.0.1 for 2 s").await;
            // The page becomes the report by itself, without a reload by hand.
            let text = desk.browser.wait_for_words("What both ends counted").await;
            let text = text.replace(['\u{a0}', '\u{202f}'], " ");
            for words in [
                "[SUM]",
                "What limited it",
                "equal to the byte",
                "intervals.csv",
            ] {
                assert!(text.contains(words), "{words}: {text}");
            }
            assert_eq!(stream_rows(&desk).await, 17, "16 streams and their sum");
            desk.assert_quiet("report").await;
            desk.assert_fits("report").await;
            desk.browser.picture(&format!("throughput-{run}")).await;
        }
        // Our own receiver kept the second test as well: runs 1 and 2 were sent, 3 was received.
        desk.go("/runs").await;
        let text = desk.browser.text().await;
        assert!(text.contains("received"), "{text}");
        desk.browser.picture("history").await;
        desk.go("/").await;
        desk.browser.wait_for_words("1 test served").await;
        desk.assert_quiet("home").await;
        desk.browser.picture("home-throughput").await;
        desk.browser.close().await;
    });
}

#[test]
fn a_throughput_run_is_watched_live_and_stopped() {
    runtime().block_on(async {
        let desk = Desk::open_with(Setup::default(), &["--receiver", "127.0.0.1:0"]).await;
        let own = desk.program.addresses("receiver")[0].port();
        let line = format!("iperf -c 127.0.0.1 -P 16 -t 300 -b 1m -p {own}");
        paste_and_start(&desk, &line, "16 streams to 127.0.0.1 for 5 min").await;
        let text = desk.browser.wait_for_words("[SUM]").await;
        assert!(text.contains("so far"), "{text}");
        // On a busy machine the first interval may come before every stream has moved something.
        let rows = format!("document.querySelectorAll('{STREAM_ROWS}').length === 17");
        let browser = &desk.browser;
        browser.wait_until("16 streams and their sum", &rows).await;
        desk.assert_fits("live").await;
        browser.picture("throughput-live").await;
        // Buttons that a swap brings can be used as those before.
        let mark = "document.querySelector('[data-copy]').dataset.old = 'yes'";
        browser.client.execute(mark, vec![]).await.unwrap();
        let swapped = "document.querySelector('[data-copy]:not([data-old]):not([hidden])')";
        browser
            .wait_until("swapped with its buttons", swapped)
            .await;
        // What a page may write to the clipboard is the browser's business; what it would write is kept.
        let copy = "navigator.clipboard.writeText = async (text) => { window.copied = text; }; \
                    document.querySelector('[data-copy]').click()";
        browser.client.execute(copy, vec![]).await.unwrap();
        browser
            .wait_until("copied", "window.copied?.startsWith('iperf -c 127.0.0.1')")
            .await;
        let text = browser
            .click_for_words("#stop", "Stopped by a person")
            .await;
        assert!(text.contains("cancelled"), "{text}");
        desk.assert_quiet("cancelled").await;
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
        let text = desk.browser.click_for_words("#stop", "cancelled").await;
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
fn a_peers_ports_are_checked_with_and_without_javascript() {
    runtime().block_on(async {
        // Takes datagrams and says nothing, as behind a firewall; its TCP port is closed.
        let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let walled = silent.local_addr().unwrap().port().to_string();
        for javascript in [true, false] {
            let setup = Setup {
                javascript,
                ..Setup::default()
            };
            let desk = Desk::open(setup).await;
            let browser = &desk.browser;
            desk.go("/peers").await;
            let workload = desk.program.workload().port().to_string();
            for (name, value) in [
                ("name", "web 1"),
                ("internal_address", "127.0.0.1"),
                ("throughput_port", &walled),
                ("workload_port", &workload),
                ("dashboard_port", &workload),
            ] {
                desk.fill(&format!("[name={name}]"), value).await;
            }
            desk.click("form.mid .btn.go").await;
            browser.wait_for_words("Check ports").await;
            desk.click("form[action='/peers/web%201/check'] button")
                .await;
            let text = browser
                .wait_for_words("What the last checks of ports found")
                .await;
            let text = text.replace(['\u{a0}', '\u{202f}'], " ");
            for words in [
                "✕ 2 of 4 not open",
                "✓ open",
                "✕ refused",
                "✕ no answer",
                "iperf -s -p",
                "For the network’s firewall",
                "--allow=udp:",
                "checked 20",
            ] {
                assert!(text.contains(words), "{words}: {text}");
            }
            // Copying needs a script.
            let copy = desk.browser.client.find(Locator::Css(".rule [data-copy]"));
            let shown = copy.await.unwrap().is_displayed().await.unwrap();
            assert_eq!(shown, javascript);
            for width in [1440, 390] {
                browser.viewport(width, 900).await;
                desk.assert_fits(&format!("peers {width}")).await;
                browser
                    .picture(&format!("ports-{javascript}-{width}"))
                    .await;
            }
            desk.assert_quiet("peers").await;
            desk.browser.close().await;
        }
    });
}

#[test]
fn every_page_fits_a_phone_and_follows_the_dark_scheme() {
    runtime().block_on(async {
        let desk = Desk::open_with(Setup::default(), &["--receiver", "127.0.0.1:0"]).await;
        desk.go("/runs/new").await;
        let url = format!("http://{}/?work=light", desk.program.workload());
        desk.fill("[name=url]", &url).await;
        desk.fill("[name=num_conns]", "10").await;
        desk.fill("[name=rate]", "20").await;
        desk.click("button[value=start]").await;
        desk.browser.wait_for_words("Do it again").await;
        for (kind, fields) in [
            ("throughput", [("streams", "4"), ("duration_s", "1")]),
            ("ping", [("count", "3"), ("interval_s", "0.2")]),
        ] {
            desk.go(&format!("/runs/new?kind={kind}")).await;
            for (name, value) in fields {
                desk.fill(&format!("[name={name}]"), value).await;
            }
            desk.click("button[value=start]").await;
            desk.browser.wait_for_words("Do it again").await;
        }
        let ground = "return getComputedStyle(document.documentElement).backgroundColor";
        for path in [
            "/",
            "/runs",
            "/runs/new",
            "/runs/new?kind=throughput",
            "/runs/1",
            "/runs/2",
            "/runs/4",
            "/peers",
            "/selftest",
            "/first-minute",
            "/api",
        ] {
            let mut grounds = Vec::new();
            for scheme in ["light", "dark"] {
                desk.browser.prefer_scheme(scheme).await;
                for width in [1440, 768, 390] {
                    desk.browser.viewport(width, 900).await;
                    desk.go(path).await;
                    desk.assert_fits(&format!("{path} {scheme} {width}")).await;
                    let name = path.replace(['/', '?', '='], "_");
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
        let setup = Setup {
            javascript: false,
            ..Setup::default()
        };
        let desk = Desk::open_with(setup, &["--receiver", "127.0.0.1:0"]).await;
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
        desk.browser.click_for_words("#stop", "cancelled").await;

        // The same for a line of iperf, against our own receiver.
        let own = desk.program.addresses("receiver")[0].port();
        let line = format!("iperf -c 127.0.0.1 -P 16 -t 2 -p {own}");
        paste_and_start(&desk, &line, "16 streams to 127.0.0.1 for 2 s").await;
        desk.browser.wait_for_words("What both ends counted").await;
        assert_eq!(stream_rows(&desk).await, 17, "16 streams and their sum");
        desk.go("/runs/2").await;

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
