//! Two network namespaces joined by a cable, a program in each, and what a test does to the cable.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::netns::{Namespace, Pair};
use super::process::Program;

/// Address of the sending side.
pub const A: &str = "10.77.0.1";
/// Address of the receiving side.
pub const B: &str = "10.77.0.2";

/// How long a run may take on a busy machine.
const ENOUGH: Duration = Duration::from_mins(2);

/// A near namespace that sends and a far one that receives.
pub struct Lab {
    pub near: Namespace,
    pub far: Namespace,
    relay: Option<Child>,
}

impl Lab {
    /// Joined by a cable of this MTU; `None` where there are no namespaces, and then a line says so.
    pub fn cabled(mtu: u32) -> Option<Self> {
        let Pair { near, far } = Pair::new(mtu)?;
        Some(Self {
            near,
            far,
            relay: None,
        })
    }

    /// Joined by a program that holds every packet back for this long.
    pub fn delayed(one_way: Duration) -> Option<Self> {
        Self::wavering(one_way, Duration::ZERO)
    }

    /// The same with up to so much more by chance, so that packets overtake each other.
    pub fn wavering(one_way: Duration, more: Duration) -> Option<Self> {
        let (near, far) = (Namespace::new()?, Namespace::new()?);
        let mut relay = Command::new("python3")
            .args([
                "-c",
                include_str!("delay.py"),
                near.name(),
                far.name(),
                A,
                B,
            ])
            .arg(one_way.as_secs_f64().to_string())
            .arg(more.as_secs_f64().to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = String::new();
        let output = relay.stdout.take().unwrap();
        let lab = Self {
            near,
            far,
            relay: Some(relay),
        };
        BufReader::new(output).read_line(&mut ready).unwrap();
        assert_eq!(ready, "ready\n");
        Some(lab)
    }

    /// The program on the sending side.
    pub fn sender(&self, arguments: &[&str]) -> Program {
        let mine = ["--workload", "off", "--allow", "10.77.0.0/24"];
        Program::start_inside(&self.near, &[&mine, arguments].concat())
    }

    /// The program on the receiving side: both receivers on their usual ports.
    pub fn receiver(&self) -> Program {
        let (iperf2, iperf3) = (format!("{B}:5001"), format!("{B}:5201"));
        Program::start_inside(
            &self.far,
            &[
                "--workload",
                "off",
                "--receiver",
                &iperf2,
                "--receiver3",
                &iperf3,
                "--accept-from",
                "10.77.0.0/24",
            ],
        )
    }

    /// Runs this plan on the sending side to its end.
    pub fn measure(&self, sender: &Program, plan: &Value) -> Value {
        let id = self.launch(sender, plan);
        let end = Instant::now() + ENOUGH;
        loop {
            let run = self.ask(sender, "GET", &format!("/api/runs/{id}"), None);
            if !matches!(run["state"].as_str(), Some("queued" | "running")) {
                return run;
            }
            assert!(Instant::now() < end, "never ended: {run:#}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Starts this plan on the sending side.
    pub fn launch(&self, sender: &Program, plan: &Value) -> i64 {
        let run = self.ask(sender, "POST", "/api/runs", Some(&json!({ "plan": plan })));
        run["id"].as_i64().unwrap_or_else(|| panic!("{run:#}"))
    }

    /// One call of the sender's API.
    pub fn ask(&self, sender: &Program, method: &str, path: &str, body: Option<&Value>) -> Value {
        let url = format!("http://{}{path}", sender.dashboard());
        let body = body.map(ToString::to_string).unwrap_or_default();
        let mut words = vec![
            "curl",
            "-s",
            "-X",
            method,
            "-H",
            "Content-Type: application/json",
        ];
        if !body.is_empty() {
            words.extend(["-d", &body]);
        }
        words.push(&url);
        let output = self.near.command(&words).output().unwrap();
        let reply = String::from_utf8_lossy(&output.stdout);
        serde_json::from_str(&reply).unwrap_or_else(|why| panic!("{why}: {reply}"))
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if let Some(relay) = &mut self.relay {
            let _ = relay.kill();
            let _ = relay.wait();
        }
    }
}

/// A CPU quota for one process; it goes with the value.
pub struct Quota {
    folder: std::path::PathBuf,
    /// Where its processes go afterwards.
    above: std::path::PathBuf,
}

impl Quota {
    /// Holds the process to this share of one CPU; `None` where no quota can be set.
    pub fn of(pid: u32, percent: u32) -> Option<Self> {
        let name = format!("tidemark-test-{pid}");
        let write = |folder: &std::path::Path, file: &str, text: &str| {
            std::fs::File::options()
                .write(true)
                .open(folder.join(file))
                .and_then(|mut file| file.write_all(text.as_bytes()))
                .is_ok()
        };
        let quota = (percent * 1_000).to_string();
        for above in ["/sys/fs/cgroup", "/sys/fs/cgroup/cpu"].map(std::path::PathBuf::from) {
            let folder = above.join(&name);
            if std::fs::create_dir(&folder).is_err() {
                continue;
            }
            let made = Self { folder, above };
            let set = write(&made.folder, "cpu.max", &format!("{quota} 100000"))
                || write(&made.folder, "cpu.cfs_period_us", "100000")
                    && write(&made.folder, "cpu.cfs_quota_us", &quota);
            if set && write(&made.folder, "cgroup.procs", &pid.to_string()) {
                return Some(made);
            }
        }
        None
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        let procs = std::fs::read_to_string(self.folder.join("cgroup.procs")).unwrap_or_default();
        for pid in procs.split_whitespace() {
            let _ = std::fs::write(self.above.join("cgroup.procs"), pid);
        }
        let _ = std::fs::remove_dir(&self.folder);
    }
}
