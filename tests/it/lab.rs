//! The load-balanced lab as the dashboard sees it: recognised, measured by its guides, watched, and broken on purpose.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::fronts::Script;
use crate::guides::form_of;

/// The lab, up, and its dashboard.
struct Lab {
    script: Script,
}

impl Lab {
    fn up() -> Self {
        Self::up_with(&[])
    }

    fn up_with(settings: &[(&'static str, &'static str)]) -> Self {
        let mut script = Script::new();
        script.settings.extend(settings);
        let (up, said) = script.run("up");
        assert!(up, "{said}");
        Self { script }
    }

    fn drill(&self, words: &str) {
        let (done, said) = self.script.run(words);
        assert!(done, "{words}: {said}");
    }

    fn curl(&self, path: &str, more: &[&str]) -> String {
        let url = format!("http://{}{path}", self.script.fronts[2]);
        let output = Command::new("curl")
            .args(["-sS", "-m", "60"])
            .args(more)
            .arg(&url)
            .output()
            .unwrap();
        assert!(output.status.success(), "{path}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn page(&self, path: &str) -> String {
        self.curl(path, &[])
    }

    /// Waits until the page says so.
    fn until_page(&self, path: &str, words: &str) -> String {
        let most = Instant::now() + Duration::from_mins(2);
        loop {
            let page = self.page(path);
            if page.contains(words) {
                return page;
            }
            assert!(Instant::now() < most, "{path} never says {words:?}: {page}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn json(&self, path: &str) -> Value {
        serde_json::from_str(&self.page(path)).unwrap()
    }

    /// Sends a form as a browser would, and gives where it leads.
    fn post(&self, path: &str, fields: &[(String, String)]) -> String {
        let pairs: Vec<String> = fields
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let mut words = vec![
            "-X",
            "POST",
            "-o",
            "/dev/null",
            "-w",
            "%{http_code} %{redirect_url}",
        ];
        for pair in &pairs {
            words.extend(["--data-urlencode", pair]);
        }
        let said = self.curl(path, &words);
        let (code, at) = said.split_once(' ').unwrap();
        assert_eq!(code, "303", "{path} {fields:?}");
        let own = format!("http://{}", self.script.fronts[2]);
        at.trim_start_matches(&own).to_owned()
    }

    /// Starts a step of a guide with these changes to its form; gives the address of what it started.
    fn start(&self, guide: &str, step: &str, changes: &[(&str, &str)]) -> String {
        let page = self.page(&format!("/guides/{guide}"));
        let fields = form_of(&page, step, changes);
        let is_run = fields.iter().any(|(name, _)| name == "quick");
        self.post(
            if is_run {
                "/runs/new"
            } else {
                "/experiments/new"
            },
            &fields,
        )
    }

    /// Waits until it has finished.
    fn finished(&self, at: &str) -> Value {
        let most = Instant::now() + Duration::from_mins(3);
        loop {
            let shown = self.json(&format!("/api{at}"));
            match shown["state"].as_str() {
                Some("queued" | "running") => {}
                Some("finished") => return shown,
                _ => panic!("{shown:#}"),
            }
            assert!(Instant::now() < most, "{at} never ends");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Starts a drill's step, waits until it is under way, does this to the lab, and waits for its end.
    fn under_load(&self, step: &str, words: &str) -> Value {
        let few = [("rate", "10"), ("num_conns", "80")];
        let at = self.start("region-failure", step, &few);
        let most = Instant::now() + Duration::from_mins(1);
        while self.json(&format!("/api{at}"))["progress"]["done"].as_f64() < Some(0.1) {
            assert!(Instant::now() < most, "{at} never gets under way");
            std::thread::sleep(Duration::from_millis(50));
        }
        self.drill(words);
        self.finished(&at)
    }
}

fn ok(run: &Value) -> u64 {
    run["summary"]["outcomes"]["ok"].as_u64().unwrap_or(0)
}

#[test]
fn a_lab_that_runs_is_recognised_and_its_global_guide_shows_the_overflow() {
    let lab = Lab::up();
    let page = lab.page("/guides/global-overflow");
    assert!(
        page.contains("the lab runs: all 6 servers and 2 fronts answer"),
        "{page}"
    );
    // The forms go to where this lab's front really is.
    assert!(page.contains(&format!("http://{}/?work=light", lab.script.fronts[1])));
    // So few that even those that a busy machine sends together stay below the cap of 10 a second.
    let few = [("num_conns", "20"), ("rate", "4")];
    let run = lab.start("global-overflow", "below", &few);
    let run = lab.finished(&run);
    assert_eq!(
        run["summary"]["regions"]["region1"]["replies"], 20,
        "{run:#}"
    );
    let front = &lab.script.fronts[1];
    let (host, port) = front.split_once(':').unwrap();
    let line = format!(
        "httperf --server {host} --port {port} --uri /?work=light --num-conns 60 --rate 20"
    );
    let series = lab.start(
        "global-overflow",
        "series",
        &[("base", &line), ("repeat", "2")],
    );
    lab.finished(&series);
    let page = lab.page("/guides/global-overflow");
    for words in [
        "✓ done",
        "answered by other regions, repeat by repeat",
        "yours",
        "settled at repeat",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    let shown = lab.json(&format!("/api{series}"));
    let last = &shown["points"][1]["summary"]["regions"];
    let far = last["region2"]["replies"].as_u64().unwrap_or(0);
    assert!(far >= 15, "about half spills: {last}");

    // The same rates to one region and to both stand in one chart.
    for (guide, front) in [("regional-overload", 0), ("global-overflow", 1)] {
        let (host, port) = lab.script.fronts[front].split_once(':').unwrap();
        let line =
            format!("httperf --server {host} --port {port} --uri /?work=light --num-conns 8");
        let few = [("base", line.as_str()), ("values", "4 8"), ("pause_s", "0")];
        lab.finished(&lab.start(guide, "sweep", &few));
    }
    let page = lab.page("/guides/global-overflow");
    for words in [
        "✓ done, against",
        "id=\"both-table\"",
        ">one region<",
        "by one region, ",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }

    // The region alone: what one backend holds, then rates that follow from it.
    let backend = page_host(&lab.page("/guides/regional-overload"), "search-base");
    assert!(backend.contains("127.0.1.1"), "{backend}");
    let search = backend.replace(" --num-conns", " --uri /?work=light --num-conns");
    let short = [
        ("base", search.as_str()),
        ("step_s", "0.5"),
        ("budget_s", "15"),
    ];
    let search = lab.start("regional-overload", "search", &short);
    let found = lab.finished(&search);
    let of = |name: &str| found["capacity"][name].as_f64();
    // On a busy machine its time may be over before the ceiling's step, or before any.
    let held = of("ceiling_per_s")
        .or(of("upper_per_s"))
        .or(of("lower_per_s"));
    let page = lab.page("/guides/regional-overload");
    let values = page_host(&page, "sweep-values");
    let Some(held) = held else {
        assert_eq!(values, "5 8 10 12 13 15 17 20");
        return;
    };
    assert!(
        page.contains("in the same shares of what one backend answers"),
        "{page}"
    );
    let values: Vec<f64> = values
        .split(' ')
        .map(|word| word.parse().unwrap())
        .collect();
    assert_eq!(values.len(), 8);
    // The last one is 1.2 times what three of them answer.
    assert!(
        (values[7] / (3.6 * held) - 1.0).abs() < 0.02,
        "{values:?} of {held}"
    );
}

/// The value of the field with this id.
fn page_host(page: &str, id: &str) -> String {
    let input = page.split(&format!("id=\"{id}\"")).nth(1).unwrap();
    let value = input.split("value=\"").nth(1).unwrap();
    value.split('"').next().unwrap().to_owned()
}

#[test]
fn the_monitor_sees_a_region_die_and_come_back_and_the_drills_are_told() {
    let lab = Lab::up();
    let page = lab.page("/monitor");
    assert!(page.contains("Nothing is watched"), "{page}");
    assert_eq!(page_host(&page, "peers"), "r1a, r1b, r1c, r2a, r2b, r2c");
    let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let wanted = [
        field("peers", &page_host(&page, "peers")),
        field("interval_s", "0.5"),
    ];
    assert_eq!(lab.post("/monitor", &wanted), "/monitor");
    lab.until_page("/monitor", "All 6 servers are up");

    let run = lab.under_load("kill", "kill region1");
    // A few are lost before HAProxy knows.
    assert!(ok(&run) >= 72, "{run:#}");
    let page = lab.until_page("/monitor", "3 of 6 servers are up; 3 are down");
    assert!(page.contains("✕ "), "{page}");
    let page = lab.page("/guides/region-failure");
    for words in [
        "3 of 6 servers and 1 of 2 fronts answer",
        "time to recover",
        "region2 100",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }

    lab.drill("start region1");
    let page = lab.until_page("/monitor", "All 6 servers are up");
    assert!(page.contains("down for"), "the gap stays: {page}");
    // HAProxy asks twice before it takes a backend back.
    lab.until_page("/guides/region-failure", "the lab runs");

    let run = lab.under_load("drain", "drain r1a");
    assert_eq!(ok(&run), 80, "{run:#}");
    let page = lab.page("/guides/region-failure");
    assert!(page.contains("failed while a backend drained"), "{page}");
    assert!(page.contains("0 of 80"), "{page}");
    assert_eq!(lab.post("/monitor/stop", &[]), "/monitor");
    lab.until_page("/monitor", "does not run");
}

#[test]
fn only_registered_servers_are_watched() {
    let program = crate::support::process::Program::start(&[]);
    let ask = |more: &[&str], path: &str| {
        let url = format!("http://{}{path}", program.dashboard());
        let output = Command::new("curl")
            .args(["-sS"])
            .args(more)
            .arg(url)
            .output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    for (form, words) in [
        ("peers=nobody&interval_s=5", "There is no peer"),
        ("peers=&interval_s=5", "No server is registered"),
        ("peers=&interval_s=x", "Write a number of seconds"),
    ] {
        let page = ask(&["-d", form], "/monitor");
        assert!(page.contains(words), "{form}: {page}");
    }
    // A lab that is not there is said to be none.
    let page = ask(&[], "/guides/region-failure");
    assert!(page.contains("scripts/lab.sh up"), "{page}");
}

#[test]
fn a_front_that_learns_slowly_settles_run_after_run() {
    let lab = Lab::up_with(&[("LAB_OVERFLOW", "settling"), ("LAB_CAP", "2")]);
    let page = lab.page("/guides/global-overflow");
    // Cap and rates are those of this lab; nothing says that it overflows at once.
    assert!(
        page.contains("The first region takes 2 requests a second."),
        "{page}"
    );
    assert!(page.contains("--num-conns 40 --rate 4 "), "{page}");
    assert!(!page.contains("overflows at once"), "{page}");
    let front = &lab.script.fronts[1];
    let (host, port) = front.split_once(':').unwrap();
    let line = format!(
        "httperf --server {host} --port {port} --uri /?work=light --num-conns 60 --rate 20"
    );
    let series = lab.start(
        "global-overflow",
        "series",
        &[("base", &line), ("repeat", "3")],
    );
    let shown = lab.finished(&series);
    let near: Vec<u64> = (0..3)
        .map(|repeat| {
            let regions = &shown["points"][repeat]["summary"]["regions"];
            regions["region1"]["replies"].as_u64().unwrap_or(0)
        })
        .collect();
    // The first 40 of 20 s all go to the near region, then only what has left the meter's 20 s.
    assert!(near[0] >= 36 && near[2] <= 24, "{near:?}");

    let mut script = Script::new();
    script.settings.push(("LAB_CAP", "many"));
    let (up, said) = script.run("up");
    assert!(!up && said.contains("LAB_CAP is 'many'"), "{said}");
}
