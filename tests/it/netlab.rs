//! `scripts/netlab.sh`: six machines as namespaces, with their caps and packet sizes, each measured from its own node.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::guides::form_of;
use crate::image::{Dashboard, until};
use crate::support::fronts::free_port;
use crate::support::process::TempFolder;
use crate::support::skip;

/// The script with names, networks and a folder of its own; dropping it ends what it started.
struct Script {
    folder: TempFolder,
    settings: Vec<(&'static str, String)>,
}

impl Drop for Script {
    fn drop(&mut self) {
        let _ = self.run("down");
    }
}

impl Script {
    fn new() -> Self {
        let folder = TempFolder::new();
        let own = std::process::id() % 250;
        let settings = vec![
            ("LAB_STATE", folder.path().join("lab").display().to_string()),
            ("NETLAB_NAME", format!("t{own}")),
            ("NETLAB_INTERNAL", format!("10.243.{own}")),
            ("NETLAB_EXTERNAL", format!("10.244.{own}")),
            ("NETLAB_DASHBOARD", format!("127.0.0.1:{}", free_port())),
            // A tenth of a real machine's, which two busy cores can fill.
            ("NETLAB_VCPU_MBIT", "200".to_owned()),
        ];
        Self { folder, settings }
    }

    fn setting(&self, of: &str) -> &str {
        let found = self.settings.iter().find(|(name, _)| *name == of);
        &found.unwrap().1
    }

    fn state(&self) -> PathBuf {
        self.folder.path().join("lab")
    }

    /// Whether the script succeeds, and all that it prints.
    fn run(&self, word: &str) -> (bool, String) {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/netlab.sh");
        // Into a file: what the lab runs on keeps no pipe of this test open.
        let printed = self.folder.path().join("printed");
        let file = fs::File::create(&printed).unwrap();
        let status = Command::new(script)
            .arg(word)
            .env("TIDEMARK_BIN", env!("CARGO_BIN_EXE_tidemark"))
            .envs(self.settings.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .status()
            .unwrap();
        (status.success(), fs::read_to_string(printed).unwrap())
    }

    /// The dashboard of the node with this number, opened with the lab's token.
    fn node(&self, number: u32) -> Dashboard {
        let token = fs::read_to_string(self.state().join("token")).unwrap();
        Dashboard {
            address: format!("{}.{number}:8080", self.setting("NETLAB_INTERNAL")),
            credentials: vec!["-H".to_owned(), format!("Authorization: Bearer {token}")],
        }
    }
}

fn spaces() -> String {
    let listed = Command::new("ip").arg("netns").output().unwrap();
    String::from_utf8_lossy(&listed.stdout).into_owned()
}

#[test]
fn six_machines_have_their_caps_and_packet_sizes_and_leave_nothing() {
    let lab = Script::new();
    let (up, said) = lab.run("up");
    if !up && (said.contains("need root") || said.contains("Operation not permitted")) {
        return skip(
            "no network namespaces may be made here: the lab of six machines was not started",
        );
    }
    assert!(up && said.contains("6 of 6 nodes"), "{said}");
    let (again, said) = lab.run("up");
    assert!(!again && said.contains("already up"), "{said}");

    let [internal, external] = ["NETLAB_INTERNAL", "NETLAB_EXTERNAL"].map(|it| lab.setting(it));
    // From, to, the cap: one core, four cores, and the external way.
    for (from, to, cap) in [
        (11, format!("{internal}.12"), 200e6),
        (13, format!("{internal}.14"), 800e6),
        (11, format!("{external}.12"), 100e6),
    ] {
        let plan = json!({"kind": "throughput", "host": to, "duration_s": 3});
        let run = lab.node(from).measured(&plan);
        let rate = run["summary"]["bits_per_second"].as_f64();
        let fits = rate.is_some_and(|rate| rate > cap * 0.6 && rate < cap * 1.03);
        assert!(fits, "{to}: {rate:?} of {cap}: {run:#}");
    }
    for (network, mtu) in [(internal, 8896), (external, 1460)] {
        let plan = json!({"kind": "path", "host": format!("{network}.12"), "expect_mtu": mtu});
        let run = lab.node(11).measured(&plan);
        assert_eq!(run["summary"]["path_mtu"], mtu, "{run:#}");
        assert_eq!(run["summary"]["ok"], true, "{run:#}");
    }
    let here = Dashboard {
        address: lab.setting("NETLAB_DASHBOARD").to_owned(),
        credentials: Vec::new(),
    };
    let (_, peers) = here.ask("/api/peers", &[]);
    assert_eq!(
        peers["peers"].as_array().map(Vec::len),
        Some(6),
        "{peers:#}"
    );

    the_guides_are_done(&lab, internal, external);

    let (down, said) = lab.run("down");
    assert!(down, "{said}");
    let own = format!("{}-", lab.setting("NETLAB_NAME"));
    assert!(!spaces().contains(&own), "{}", spaces());
    let (left, said) = lab.run("status");
    assert!(!left && said.contains("0 of 6"), "{said}");
}

/// One step of a guide, sent as its form would be, and what its experiment came to.
fn done(node: &Dashboard, guide: &str, peer: &str, step: &str, changes: &[(&str, &str)]) -> Value {
    let page = node.text(&format!("/guides/{guide}?peer={peer}"));
    let mut form = url::form_urlencoded::Serializer::new(String::new());
    form.extend_pairs(form_of(&page, step, changes));
    let place = node.text_of("/experiments/new", &["-i", "-d", &form.finish()]);
    let (_, place) = place
        .split_once("ocation: ")
        .unwrap_or_else(|| panic!("{step} was not started: {place}"));
    let path = format!("/api{}", place.split_whitespace().next().unwrap());
    until("ended", || {
        let (_, experiment) = node.ask(&path, &[]);
        let open = matches!(experiment["state"].as_str(), Some("queued" | "running"));
        (!open).then_some(experiment)
    })
}

/// Core count and internal against external, from the one machine's own page to the other: the lab's two findings.
fn the_guides_are_done(lab: &Script, internal: &str, external: &str) {
    let line = |host: &str| format!("iperf -c {host} -t 1");
    let node = lab.node(13);
    let base = line(&format!("{internal}.14"));
    let changes = [("base", base.as_str()), ("values", "1 4"), ("pause_s", "0")];
    let streams = done(&node, "core-count", "instance-4", "streams", &changes);
    assert_eq!(streams["state"], "finished", "{streams:#}");
    // Four cores' cap holds, however many streams share it.
    for point in streams["points"].as_array().unwrap() {
        let rate = point["summary"]["bits_per_second"].as_f64();
        let fits = rate.is_some_and(|rate| rate > 400e6 && rate < 825e6);
        assert!(fits, "{rate:?}: {streams:#}");
    }
    assert!(node.text("/guides/core-count").contains("done"));

    let node = lab.node(11);
    let (a, b) = (
        line(&format!("{internal}.12")),
        line(&format!("{external}.12")),
    );
    let changes = [("base", a.as_str()), ("b", b.as_str()), ("repeat", "2")];
    let pair = done(&node, "internal-external", "instance-2", "pair", &changes);
    let ratio = pair["ratio"]["b_to_a"].as_f64();
    assert!(
        ratio.is_some_and(|ratio| (0.35..0.65).contains(&ratio)),
        "{pair:#}"
    );
}
