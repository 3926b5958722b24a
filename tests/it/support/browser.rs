//! A headless Chromium, driven through chromedriver: its own port, its own profile, ended by its pid.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fantoccini::wd::WebDriverCompatibleCommand;
use fantoccini::{Client, ClientBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);
/// How often it is looked at.
const TURN: Duration = Duration::from_millis(50);

/// How the browser is set up.
pub struct Setup {
    /// Width and height of the window in CSS pixels.
    pub window: (u32, u32),
    /// Whether pages may run scripts.
    pub javascript: bool,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            window: (1440, 1200),
            javascript: true,
        }
    }
}

/// One browser with one window.
pub struct Browser {
    /// The driver's client.
    pub client: Client,
    folder: PathBuf,
    _driver: Driver,
}

struct Driver {
    process: Child,
    /// The profile of its browser, by which that is known.
    profile: PathBuf,
}

impl Drop for Driver {
    /// Ends the driver, and the browser that it leaves behind when a test fails.
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let ours = self.profile.display().to_string();
        for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            if String::from_utf8_lossy(&line).contains(&ours) {
                let _ = Command::new("kill")
                    .arg("-KILL")
                    .arg(entry.file_name())
                    .stderr(Stdio::null())
                    .status();
            }
        }
    }
}

/// A command of Chromium's own that the standard does not have.
#[derive(Debug)]
struct Vendor {
    path: &'static str,
    body: Value,
}

impl WebDriverCompatibleCommand for Vendor {
    fn endpoint(
        &self,
        base: &url::Url,
        session: Option<&str>,
    ) -> Result<url::Url, url::ParseError> {
        base.join(&format!(
            "session/{}/{}",
            session.unwrap_or_default(),
            self.path
        ))
    }

    fn method_and_body(&self, _: &url::Url) -> (http::Method, Option<String>) {
        (http::Method::POST, Some(self.body.to_string()))
    }
}

impl Browser {
    /// Starts chromedriver on a port of its choice and a browser in it.
    pub async fn start(setup: Setup, folder: &Path) -> Self {
        let mut process = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromedriver is installed by scripts/test.sh");
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let driver = Driver {
            process,
            profile: folder.join("profile"),
        };
        let port: u16 = lines
            .map_while(Result::ok)
            .find_map(|line| {
                let rest = line.split("started successfully on port ").nth(1)?;
                rest.trim_end_matches('.').parse().ok()
            })
            .expect("chromedriver says on which port it listens");

        let mut preferences = json!({
            "download.default_directory": folder,
            "download.prompt_for_download": false,
        });
        if !setup.javascript {
            preferences["profile.managed_default_content_settings.javascript"] = json!(2);
        }
        let capabilities = json!({
            "goog:chromeOptions": {
                "args": [
                    "--headless=new",
                    "--no-sandbox",
                    "--disable-gpu",
                    "--disable-dev-shm-usage",
                    "--no-first-run",
                    "--disable-background-networking",
                    // A name that an attacker can point anywhere.
                    "--host-resolver-rules=MAP evil.example 127.0.0.1",
                    format!("--window-size={},{}", setup.window.0, setup.window.1),
                    format!("--user-data-dir={}", folder.join("profile").display()),
                ],
                "prefs": preferences,
            },
            "goog:loggingPrefs": { "browser": "ALL" },
        });
        let Value::Object(capabilities) = capabilities else {
            unreachable!("written as an object above");
        };
        let client = ClientBuilder::new(HttpConnector::new())
            .capabilities(capabilities)
            .connect(&format!("http://127.0.0.1:{port}"))
            .await
            .expect("a browser starts");
        Self {
            client,
            folder: folder.to_owned(),
            _driver: driver,
        }
    }

    /// Ends the browser; the driver ends with this value.
    pub async fn close(self) {
        self.client
            .clone()
            .close()
            .await
            .expect("the browser closes");
    }

    /// Everything that the page complained about: errors, failed loads and policy violations.
    pub async fn complaints(&self) -> Vec<String> {
        let log = self
            .client
            .issue_cmd(Vendor {
                path: "se/log",
                body: json!({ "type": "browser" }),
            })
            .await
            .expect("chromedriver gives its log");
        log.as_array()
            .into_iter()
            .flatten()
            .filter(|entry| entry["level"] == "SEVERE" || entry["level"] == "WARNING")
            .map(|entry| entry["message"].as_str().unwrap_or_default().to_owned())
            .collect()
    }

    /// Makes the page believe that the person prefers this colour scheme, `light` or `dark`.
    pub async fn prefer_scheme(&self, scheme: &str) {
        self.cdp(
            "Emulation.setEmulatedMedia",
            json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] }),
        )
        .await;
    }

    /// Sets the size of the viewport exactly, as a phone has it.
    pub async fn viewport(&self, width: u32, height: u32) {
        self.cdp(
            "Emulation.setDeviceMetricsOverride",
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false }),
        )
        .await;
    }

    /// Keeps a picture of the window in the folder that `TIDEMARK_SCREENSHOTS` names, if it does.
    pub async fn picture(&self, name: &str) {
        if let Some(folder) = std::env::var_os("TIDEMARK_SCREENSHOTS") {
            let png = self.client.screenshot().await.expect("a screenshot");
            std::fs::write(Path::new(&folder).join(format!("{name}.png")), png).unwrap();
        }
    }

    /// Waits until a file with this name has been downloaded whole, and gives its text.
    pub async fn downloaded(&self, name: &str) -> String {
        let path = self.folder.join(name);
        for _ in 0..600 {
            if let Ok(text) = std::fs::read_to_string(&path)
                && !text.is_empty()
            {
                return text;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        panic!("{name} was not downloaded into {}", self.folder.display());
    }

    /// Waits until the page's text contains `words`, and gives that text.
    pub async fn wait_for_words(&self, words: &str) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            let text = self.text().await;
            if text.contains(words) {
                return text;
            }
            // Said first, for whoever reads only the beginning.
            assert!(
                Instant::now() < end,
                "“{words}” does not appear; the page says:\n{text}"
            );
            tokio::time::sleep(TURN).await;
        }
    }

    /// Waits until this expression of the page's script is true.
    pub async fn wait_until(&self, what: &str, expression: &str) {
        let end = Instant::now() + PATIENCE;
        let script = format!("return Boolean({expression})");
        // A page that is being replaced answers nothing for a moment.
        while self.client.execute(&script, vec![]).await.ok() != Some(json!(true)) {
            let text = self.text().await;
            assert!(Instant::now() < end, "never {what}; the page says:\n{text}");
            tokio::time::sleep(TURN).await;
        }
    }

    /// Clicks what this selector finds until the page's text contains `words`, and gives that text: a live page
    /// replaces its buttons, and a click on one that has just gone is lost.
    pub async fn click_for_words(&self, selector: &str, words: &str) -> String {
        let end = Instant::now() + PATIENCE;
        let mut last = String::new();
        while Instant::now() < end {
            let clicked = match self.client.find(fantoccini::Locator::Css(selector)).await {
                Ok(element) => element.click().await,
                Err(error) => Err(error),
            };
            if let Err(error) = clicked {
                last = error.to_string();
            }
            // Time for the answer, before a click that was lost is made again.
            for _ in 0..40 {
                let text = self.text().await;
                if text.contains(words) {
                    return text;
                }
                tokio::time::sleep(TURN).await;
            }
        }
        let text = self.text().await;
        panic!(
            "“{words}” does not appear after {selector} was clicked ({last}); the page says:\n{text}"
        );
    }

    /// The text of the page as a person sees it.
    pub async fn text(&self) -> String {
        // A page that is being replaced has no body for a moment.
        match self.client.find(fantoccini::Locator::Css("body")).await {
            Ok(body) => body.text().await.unwrap_or_default(),
            Err(_) => String::new(),
        }
    }

    async fn cdp(&self, command: &str, parameters: Value) {
        self.client
            .issue_cmd(Vendor {
                path: "goog/cdp/execute",
                body: json!({ "cmd": command, "params": parameters }),
            })
            .await
            .expect("Chromium takes the command");
    }
}
