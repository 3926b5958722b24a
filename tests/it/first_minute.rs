//! The first minute: from the one button of an empty notebook to its sentence, on small numbers.

use std::time::Duration;

use fantoccini::Locator;
use serde_json::{Value, json};

use crate::support::browser::{Browser, Setup};
use crate::support::pages::Pages;
use crate::support::process::{Program, TempFolder};
use crate::support::raw;

const WITH_RECEIVER: [&str; 2] = ["--receiver", "127.0.0.1:0"];

fn get(program: &Program, path: &str) -> Value {
    raw::json(program.dashboard(), "GET", path, None)
}

fn begin(program: &Program, step_s: f64) -> Value {
    let body = json!({ "step_s": step_s });
    raw::json(
        program.dashboard(),
        "POST",
        "/api/first-minute",
        Some(&body),
    )
}

fn ended(program: &Program) -> Value {
    loop {
        let minute = get(program, "/api/first-minute");
        if minute["state"] != "running" {
            return minute;
        }
        std::thread::sleep(Duration::from_millis(30));
    }
}

#[test]
fn six_ordinary_runs_say_what_the_machine_is_good_for_and_outlive_the_program() {
    let folder = TempFolder::new();
    let program = Program::start_in(folder.path(), &WITH_RECEIVER);
    let begun = begin(&program, 0.5);
    assert_eq!(begun["state"], "running", "{begun}");
    let again = begin(&program, 0.5);
    assert_eq!(again["status"], 409, "{again}");
    let minute = ended(&program);
    assert_eq!(minute["state"], "finished", "{minute}");
    // 0.3 s of 500 sends a second.
    assert_eq!(minute["lateness_ms"]["count"], 150);
    assert!(minute["bits_per_second"].as_f64().unwrap() > 0.0);
    let ceiling = minute["estimated_ceiling_per_s"].as_f64().unwrap();
    assert!(ceiling > 0.0);
    let names: Vec<&str> = minute["parts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| part["part"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        ["clock", "loopback", "ceiling", "below", "at", "above"]
    );
    let mut kinds = Vec::new();
    for part in minute["parts"].as_array().unwrap() {
        let run = get(&program, &format!("/api/runs/{}", part["run"]));
        assert_eq!(run["state"], "finished", "{run}");
        assert_eq!(run["tags"], json!(["first-minute"]));
        kinds.push(run["kind"].as_str().unwrap().to_owned());
        if let Some(share) = [("below", 0.7), ("at", 1.0), ("above", 1.3)]
            .iter()
            .find(|(name, _)| part["part"] == *name)
            .map(|(_, share)| share)
        {
            let rate = run["plan"]["rate"].as_f64().unwrap();
            assert!((rate - ceiling * share).abs() < 1e-6 * rate, "{rate}");
        }
        if part["part"] == "above" {
            // What was answered, the server computed; it has no other client.
            assert_eq!(run["summary"]["replies"], minute["server"]["served"]);
        }
    }
    assert_eq!(
        kinds,
        ["rate", "throughput", "users", "rate", "rate", "rate"]
    );
    for words in [
        "This machine sends within",
        "over loopback",
        "pictures a second",
    ] {
        let sentence = minute["sentence"].as_str().unwrap();
        assert!(sentence.contains(words), "{words}: {sentence}");
    }
    assert!(program.stop().success());
    let program = Program::start_in(folder.path(), &WITH_RECEIVER);
    let after = get(&program, "/api/first-minute");
    assert_eq!(after["sentence"], minute["sentence"]);
    assert_eq!(after["state"], "finished");
}

#[test]
fn a_part_that_cannot_be_made_says_why_and_a_stop_keeps_what_there_is() {
    let program = Program::start(&[]);
    for (body, text) in [
        (json!({"step_s": 0}), "0.2 to 60"),
        (json!({"step_s": "six"}), "number of seconds"),
        (json!({"pace": 1}), "no field called pace"),
    ] {
        let refused = raw::json(
            program.dashboard(),
            "POST",
            "/api/first-minute",
            Some(&body),
        );
        assert_eq!(refused["status"], 422, "{refused}");
        assert!(
            refused["detail"].as_str().unwrap().contains(text),
            "{refused}"
        );
    }
    let nothing = get(&program, "/api/first-minute");
    assert_eq!(nothing["status"], 404, "{nothing}");
    // The steps are long; it is stopped when the closed loop runs.
    begin(&program, 30.0);
    let before = loop {
        let minute = get(&program, "/api/first-minute");
        let loopback = &minute["parts"][1];
        if loopback["over"] == true {
            assert_eq!(loopback["run"], Value::Null);
            let why = loopback["skipped"].as_str().unwrap();
            assert!(why.contains("--receiver"), "{why}");
            break minute;
        }
        if minute["parts"][0]["run"].is_number() && minute["parts"][0]["over"] == false {
            // The grid is 18 s long: its run is stopped by hand, and with it the whole.
            let run = format!("/api/runs/{}/cancel", minute["parts"][0]["run"]);
            raw::json(program.dashboard(), "POST", &run, None);
            break ended(&program);
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(before["state"], "cancelled", "{before}");
    assert!(before["error"].as_str().unwrap().contains("is kept"));
    let none = raw::json(
        program.dashboard(),
        "POST",
        "/api/first-minute/cancel",
        None,
    );
    assert_eq!(none["status"], 409, "{none}");
    // Without a receiver, with short steps: the rest is made.
    begin(&program, 0.3);
    let minute = ended(&program);
    assert_eq!(minute["state"], "finished", "{minute}");
    let why = minute["parts"][1]["skipped"].as_str().unwrap();
    assert!(why.contains("--receiver"), "{why}");
    assert_eq!(minute["bits_per_second"], Value::Null);
    assert!(minute["estimated_ceiling_per_s"].is_number());
}

#[tokio::test]
async fn without_a_server_of_pictures_it_is_refused_with_a_sentence() {
    let pages = Pages::new();
    pages.get("/first-minute").await.says(&[
        "How good is this machine?",
        "How exact is its clock?",
        "What does waiting do beyond that?",
    ]);
    let refused = pages.post("/first-minute", &[("step_s", "")]).await;
    assert_eq!(refused.status.as_u16(), 422);
    refused.says(&["The server of the pictures could not be started"]);
    let refused = pages.post("/first-minute", &[("step_s", "soon")]).await;
    refused.says(&["step_s is soon"]);
    assert_eq!(
        pages
            .post("/first-minute/cancel", &[])
            .await
            .status
            .as_u16(),
        409
    );
    assert_eq!(pages.get("/first-minute/live").await.status.as_u16(), 204);
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

async fn pictures(browser: &Browser, name: &str) {
    for scheme in ["light", "dark"] {
        browser.prefer_scheme(scheme).await;
        for (width, height) in [(1440, 1900), (390, 2600)] {
            browser.viewport(width, height).await;
            browser.picture(&format!("{name}-{scheme}-{width}")).await;
            let wide = "return document.documentElement.scrollWidth - innerWidth";
            let over = browser.client.execute(wide, vec![]).await.unwrap();
            assert!(over.as_f64().unwrap() <= 1.0, "{name} {width}: {over}");
        }
    }
}

#[test]
fn one_press_on_an_empty_home_page_is_watched_to_its_sentence() {
    runtime().block_on(async {
        let folder = TempFolder::new();
        let program = Program::start(&WITH_RECEIVER);
        let browser = Browser::start(Setup::default(), folder.path()).await;
        let client = &browser.client;
        client
            .goto(&format!("http://{}/", program.dashboard()))
            .await
            .unwrap();
        pictures(&browser, "home-first").await;
        let shorten = "document.querySelector('[name=step_s]').value = '1'";
        client.execute(shorten, vec![]).await.unwrap();
        let button = client.find(Locator::Css("#first-minute")).await.unwrap();
        button.click().await.unwrap();
        let text = browser.wait_for_words("% done").await;
        assert!(text.contains("How exact is its clock?"), "{text}");
        // The page goes on by itself: a step is drawn as it runs.
        browser.wait_for_words("0.7 ×").await;
        browser.picture("minute-live").await;
        let text = browser
            .wait_for_words("The same step by the server’s own log")
            .await;
        for words in [
            "This machine sends within",
            "pictures a second",
            "estimate",
            "httperf would have told you",
            "pictures computed",
            "waiting in its queue",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        let svg = client
            .find_all(Locator::Css("#first-minute svg"))
            .await
            .unwrap();
        assert_eq!(svg.len(), 2, "the picture for a desk and for a phone");
        pictures(&browser, "minute").await;
        let complaints = browser.complaints().await;
        assert!(complaints.is_empty(), "{complaints:#?}");
        browser.close().await;
    });
}

#[test]
fn without_javascript_the_page_loads_itself_anew_until_the_sentence() {
    runtime().block_on(async {
        let folder = TempFolder::new();
        let program = Program::start(&WITH_RECEIVER);
        begin(&program, 0.5);
        let setup = Setup {
            javascript: false,
            ..Setup::default()
        };
        let browser = Browser::start(setup, folder.path()).await;
        let url = format!("http://{}/first-minute", program.dashboard());
        browser.client.goto(&url).await.unwrap();
        let text = browser.wait_for_words("This machine").await;
        assert!(text.contains("pictures a second"), "{text}");
        browser.close().await;
    });
}
