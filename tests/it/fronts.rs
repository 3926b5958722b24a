//! The configurations of `deploy/haproxy` and `deploy/nginx`: two regions of three real backends behind the real programs.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::received::{ended, launch, measured, until};
use crate::support::fronts::{Front, Regions, free_port, kit};
use crate::support::process::{Program, TempFolder};

/// Replies by region or by backend.
fn replies(run: &Value, by: &str, name: &str) -> u64 {
    run["summary"][by][name]["replies"].as_u64().unwrap_or(0)
}

/// Each region answered this many at least, and both together all.
fn both_regions(run: &Value, least: u64, all: u64) {
    let [near, far] = ["region1", "region2"].map(|region| replies(run, "regions", region));
    assert!(
        near >= least && far >= least && near + far == all,
        "{near} and {far}: {run:#}"
    );
}

fn ok(run: &Value) -> u64 {
    run["summary"]["outcomes"]["ok"].as_u64().unwrap_or(0)
}

#[test]
fn the_real_programs_accept_the_files() {
    for file in [
        "regional.cfg",
        "global.cfg",
        "settling.cfg",
        "waterfall.cfg",
    ] {
        let checked = Command::new("haproxy")
            .args(["-c", "-f"])
            .arg(kit("haproxy").join(file))
            .output()
            .expect("scripts/test.sh installs haproxy");
        let said = String::from_utf8_lossy(&checked.stderr);
        assert!(
            checked.status.success() && !said.contains("WARNING"),
            "{file}: {said}"
        );
    }
    let folder = TempFolder::new();
    let checked = Command::new("nginx")
        .arg("-t")
        .arg("-p")
        .arg(folder.path())
        .arg("-c")
        .arg(kit("nginx/global.conf"))
        .output()
        .expect("scripts/test.sh installs nginx");
    assert!(
        checked.status.success(),
        "{}",
        String::from_utf8_lossy(&checked.stderr)
    );
}

#[test]
fn a_region_overflows_into_the_other_and_a_dead_one_is_left() {
    let regions = Regions::start();
    let here = Program::start(&[]);

    // One region: each of its backends in turn, and one that drains loses nothing.
    let regional = Front::haproxy("regional.cfg", &regions);
    let run = measured(&here, &regional.plan(20, 30));
    assert_eq!(ok(&run), 30, "{run:#}");
    for name in ["r1a", "r1b", "r1c"] {
        assert_eq!(replies(&run, "served_by", name), 10, "{run:#}");
    }
    drop(regional);

    // Slots in order: with one request at a time only the first server has work.
    let waterfall = Front::haproxy("waterfall.cfg", &regions);
    let run = measured(&here, &waterfall.plan(2, 6));
    assert_eq!(replies(&run, "served_by", "r1a"), 6, "{run:#}");
    drop(waterfall);

    // Two regions with a cap of ten: below it nothing spills, at twice the cap about half does.
    let global = Front::haproxy("global.cfg", &regions);
    let run = measured(&here, &global.plan(6, 24));
    assert_eq!(replies(&run, "regions", "region1"), 24, "{run:#}");
    let run = measured(&here, &global.plan(20, 100));
    assert_eq!(ok(&run), 100, "{run:#}");
    both_regions(&run, 30, 100);

    // A backend that is told to end under load finishes what it has.
    let id = launch(&here, &global.plan(8, 48));
    wait_for_progress(&here, id);
    regions.backend("r1b").signal("TERM");
    let run = ended(&here, id);
    assert_eq!(ok(&run), 48, "{run:#}");

    // The rest of the region dies at once: few are lost, the other region takes over.
    let id = launch(&here, &global.plan(20, 160));
    wait_for_progress(&here, id);
    for name in ["r1a", "r1c"] {
        regions.backend(name).signal("KILL");
    }
    let run = ended(&here, id);
    assert!(ok(&run) >= 150, "{run:#}");
    let run = measured(&here, &global.plan(8, 16));
    assert_eq!(replies(&run, "regions", "region2"), 16, "{run:#}");
}

#[test]
fn nginx_spills_above_its_cap_and_leaves_a_dead_region() {
    let regions = Regions::start();
    let here = Program::start(&[]);
    let front = Front::nginx(&regions);
    let run = measured(&here, &front.plan(20, 80));
    assert_eq!(ok(&run), 80, "{run:#}");
    both_regions(&run, 20, 80);
    for name in ["r1a", "r1b", "r1c"] {
        regions.backend(name).signal("KILL");
    }
    let run = measured(&here, &front.plan(8, 24));
    assert_eq!(replies(&run, "regions", "region2"), 24, "{run:#}");
}

/// The lab's script, with ports and a folder of its own; dropping it ends what it started.
pub(crate) struct Script {
    folder: TempFolder,
    port: String,
    /// Regional and global front, dashboard.
    pub(crate) fronts: [String; 3],
    /// Further settings.
    pub(crate) settings: Vec<(&'static str, &'static str)>,
}

impl Drop for Script {
    fn drop(&mut self) {
        let _ = self.run("down");
    }
}

impl Script {
    pub(crate) fn new() -> Self {
        let address = || format!("127.0.0.1:{}", free_port());
        Self {
            folder: TempFolder::new(),
            port: free_port().to_string(),
            fronts: [address(), address(), address()],
            settings: Vec::new(),
        }
    }

    fn state(&self) -> PathBuf {
        self.folder.path().join("lab")
    }

    /// Whether the script succeeds, and all that it prints.
    pub(crate) fn run(&self, words: &str) -> (bool, String) {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/lab.sh");
        // Into a file: what the lab runs on keeps no pipe of this test open.
        let printed = self.folder.path().join("printed");
        let file = fs::File::create(&printed).unwrap();
        let status = Command::new(script)
            .args(words.split(' '))
            .env("TIDEMARK_BIN", env!("CARGO_BIN_EXE_tidemark"))
            .env("LAB_STATE", self.state())
            .env("LAB_PORT", &self.port)
            .env("LAB_REGIONAL", &self.fronts[0])
            .env("LAB_GLOBAL", &self.fronts[1])
            .env("LAB_DASHBOARD", &self.fronts[2])
            .envs(self.settings.iter().copied())
            .stdin(Stdio::null())
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .status()
            .unwrap();
        (status.success(), fs::read_to_string(printed).unwrap())
    }

    /// The processes that it has started.
    fn pids(&self) -> Vec<u32> {
        fs::read_dir(self.state())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|end| end == "pid"))
            .map(|path| {
                let text = fs::read_to_string(path).unwrap();
                text.split(' ').next().unwrap().parse().unwrap()
            })
            .collect()
    }
}

/// Whether a process still runs; one that waits for its parent to ask does not.
fn runs(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap().starts_with(" Z"))
}

#[test]
fn one_command_brings_the_lab_up_and_another_down() {
    let lab = Script::new();
    let (complete, said) = lab.run("status");
    assert!(!complete && said.contains("0 of 6 backends"), "{said}");

    let (up, said) = lab.run("up");
    assert!(
        up && said.contains("6 of 6 backends, 2 of 2 fronts"),
        "{said}"
    );
    let pids = lab.pids();
    assert_eq!(pids.len(), 9, "six backends, two fronts, a dashboard");
    assert!(lab.run("status").0);
    let (again, said) = lab.run("up");
    assert!(!again && said.contains("already up"), "{said}");
    assert!(lab.run("status").0, "a second start leaves the first alone");

    let (down, said) = lab.run("down");
    assert!(down, "{said}");
    assert!(!pids.iter().any(|&pid| runs(pid)), "{pids:?}");
    assert!(!lab.state().exists());
    assert!(!lab.run("status").0);
}

#[test]
fn a_lab_that_cannot_come_up_whole_leaves_nothing_behind() {
    let lab = Script::new();
    let number = lab.port.parse().unwrap();
    let _taken = TcpListener::bind(SocketAddr::from(([127, 0, 2, 2], number))).unwrap();
    let (up, said) = lab.run("up");
    assert!(!up && said.contains("r2b ended"), "{said}");
    assert!(!lab.state().exists());

    let _front = TcpListener::bind(&lab.fronts[0]).unwrap();
    let (up, said) = lab.run("up");
    assert!(
        !up && said.contains(&format!("{} is taken", lab.fronts[0])),
        "{said}"
    );
}

/// Until a tenth of the run is over.
fn wait_for_progress(program: &Program, id: i64) {
    until(program, "under way", |runs| {
        runs.iter()
            .find(|run| run["id"] == id && run["progress"]["done"].as_f64() >= Some(0.1))
            .cloned()
    });
}
