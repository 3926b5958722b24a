//! The image and the lab in containers, built and run with this machine's Docker engine; and the program as it is
//! inside them, without an engine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::fronts::free_port;
use crate::support::process::TempFolder;
use crate::support::skip;

/// How long a part may take on a busy machine.
const ENOUGH: Duration = Duration::from_mins(2);
const USER: &str = "65532";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn unique(what: &str) -> String {
    format!("tidemark-test-{what}-{}", std::process::id())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_owned()
}

/// What the command prints on standard output; it must succeed.
fn printed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}{}",
        text(&output.stdout),
        text(&output.stderr)
    );
    text(&output.stdout)
}

fn docker(words: &[&str]) -> String {
    printed(Command::new("docker").args(words))
}

pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + ENOUGH;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "never {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// One exchange by curl; a body that is no JSON is `null`.
fn ask(url: &str, words: &[&str]) -> (u16, Value) {
    let output = Command::new("curl")
        .args(["-s", "-m", "10", "-w", "\n%{http_code}"])
        .args(words)
        .arg(url)
        .output()
        .expect("scripts/test.sh installs curl");
    let said = text(&output.stdout);
    let (body, status) = said.rsplit_once('\n').unwrap_or(("", &said));
    (
        status.parse().unwrap_or(0),
        serde_json::from_str(body).unwrap_or_default(),
    )
}

/// A dashboard and what shows who asks.
pub struct Dashboard {
    pub address: String,
    /// What curl is told to show.
    pub credentials: Vec<String>,
}

impl Dashboard {
    pub fn ask(&self, path: &str, words: &[&str]) -> (u16, Value) {
        let mut all: Vec<&str> = self.credentials.iter().map(String::as_str).collect();
        all.extend(words);
        ask(&format!("http://{}{path}", self.address), &all)
    }

    /// A page's text.
    pub fn text(&self, path: &str) -> String {
        self.text_of(path, &[])
    }

    /// What curl prints of an exchange.
    pub fn text_of(&self, path: &str, words: &[&str]) -> String {
        let url = format!("http://{}{path}", self.address);
        printed(
            Command::new("curl")
                .args(["-s", "-m", "20"])
                .args(&self.credentials)
                .args(words)
                .arg(url),
        )
    }

    /// Runs this plan to its end.
    pub fn measured(&self, plan: &Value) -> Value {
        let body = json!({ "plan": plan }).to_string();
        let words = ["-H", "Content-Type: application/json", "-d", &body];
        let (status, run) = self.ask("/api/runs", &words);
        assert_eq!(status, 201, "{run}");
        let path = format!("/api/runs/{}", run["id"]);
        until("ended", || {
            let (_, run) = self.ask(&path, &[]);
            (!matches!(run["state"].as_str(), Some("queued" | "running"))).then_some(run)
        })
    }
}

/// The image, and the base images made for it; both go with the value.
struct Image(String);

impl Image {
    fn build() -> Self {
        let script = root().join("scripts/base_images.sh");
        printed(Command::new(script).arg("up"));
        let image = Self(unique("image"));
        // Without a network: the crates come from this machine.
        printed(
            Command::new("docker")
                .args(["build", "--quiet", "--force-rm", "--network", "none"])
                .args(["--build-arg", "PROFILE=quick", "--tag", &image.0])
                .arg(root()),
        );
        image
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let _ = Command::new("docker")
            .args(["image", "rm", "--force", &self.0])
            .output();
        let _ = Command::new(root().join("scripts/base_images.sh"))
            .arg("down")
            .output();
    }
}

/// A container and its volume; both go with the value.
struct Container(String);

impl Drop for Container {
    fn drop(&mut self) {
        for words in [["rm", "--force"], ["volume", "rm"]] {
            let _ = Command::new("docker").args(words).arg(&self.0).output();
        }
    }
}

impl Container {
    fn inspect(&self, what: &str) -> String {
        docker(&["inspect", "--format", what, &self.0])
    }

    fn published(&self, port: &str) -> String {
        docker(&["port", &self.0, port])
    }

    fn logs(&self) -> String {
        let output: Output = Command::new("docker")
            .args(["logs", &self.0])
            .output()
            .unwrap();
        text(&output.stdout) + &text(&output.stderr)
    }

    fn healthy(&self) {
        until("healthy", || {
            let health = self.inspect("{{.State.Health.Status}}");
            (health == "healthy").then_some(())
        });
    }
}

/// What `/proc` says of a process.
fn status_of(pid: &str, what: &str) -> String {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find(|line| line.starts_with(what)).unwrap();
    line[what.len()..].trim().to_owned()
}

/// Nobody's rights, and none to be had.
fn has_no_rights(pid: &str) {
    for id in status_of(pid, "Uid:").split_whitespace() {
        assert_eq!(id, USER);
    }
    assert_eq!(status_of(pid, "CapEff:"), "0000000000000000");
    assert_eq!(status_of(pid, "CapBnd:"), "0000000000000000");
    assert_eq!(status_of(pid, "NoNewPrivs:"), "1");
}

#[test]
fn the_image_and_the_lab_in_containers_are_built_and_measured() {
    let engine = Command::new("docker").arg("version").output();
    if !engine.is_ok_and(|said| said.status.success()) {
        return skip("no Docker engine answers: the image was not built");
    }
    let image = Image::build();
    one_container(&image);
    lab_of_containers(&image);
}

fn one_container(image: &Image) {
    let here = Container(unique("container"));
    let volume = format!("{}:/data", here.0);
    docker(&[
        "run",
        "--detach",
        "--name",
        &here.0,
        "--read-only",
        "--cap-drop",
        "ALL",
        "--security-opt",
        "no-new-privileges",
        "--health-interval",
        "1s",
        "--publish",
        "127.0.0.1::8080",
        "--publish",
        "127.0.0.1::8000",
        "--volume",
        &volume,
        "--env",
        "TIDEMARK_TOKEN=a-token-of-this-test-alone-0123456789",
        &image.0,
        "serve",
        "--dashboard",
        "0.0.0.0:8080",
    ]);
    here.healthy();
    assert_eq!(here.inspect("{{.Config.User}}"), format!("{USER}:{USER}"));
    has_no_rights(&here.inspect("{{.State.Pid}}"));
    assert!(here.logs().contains("/login?code="), "{}", here.logs());

    let (status, _) = ask(
        &format!("http://{}/?work=light", here.published("8000")),
        &["-o", "/dev/null"],
    );
    assert_eq!(status, 200, "the workload answers");
    let mut dashboard = Dashboard {
        address: here.published("8080"),
        credentials: Vec::new(),
    };
    assert_eq!(
        dashboard.ask("/api/runs", &[]).0,
        401,
        "a stranger sees nothing"
    );
    dashboard.credentials = [
        "-H",
        "Authorization: Bearer a-token-of-this-test-alone-0123456789",
    ]
    .map(str::to_owned)
    .to_vec();
    let plan = json!({"kind": "rate", "url": "http://127.0.0.1:8000/?work=light", "rate": 50, "num_conns": 50});
    let run = dashboard.measured(&plan);
    assert_eq!(run["summary"]["outcomes"]["ok"], 50, "{run:#}");

    // The notebook outlives the container's restart, and its end is an orderly one.
    docker(&["stop", &here.0]);
    assert_eq!(here.inspect("{{.State.ExitCode}}"), "0", "{}", here.logs());
    docker(&["start", &here.0]);
    here.healthy();
    dashboard.address = here.published("8080");
    let (status, kept) = dashboard.ask("/api/runs/1", &[]);
    assert_eq!((status, &kept["summary"]), (200, &run["summary"]));
}

/// The compose file's project, ended with its volumes when the value goes.
struct Project {
    name: String,
    program: Vec<&'static str>,
    settings: Vec<(&'static str, String)>,
}

impl Project {
    fn new(image: &Image) -> Option<Self> {
        let program = [vec!["docker-compose"], vec!["docker", "compose"]]
            .into_iter()
            .find(|words| {
                let asked = Command::new(words[0])
                    .args(&words[1..])
                    .arg("version")
                    .output();
                asked.is_ok_and(|said| said.status.success())
            })?;
        let third = std::process::id() % 250;
        Some(Self {
            name: unique("lab"),
            program,
            settings: vec![
                ("TIDEMARK_IMAGE", image.0.clone()),
                ("LAB_SUBNET", format!("172.30.{third}.0/24")),
                ("LAB_REGIONAL_PORT", free_port().to_string()),
                ("LAB_GLOBAL_PORT", free_port().to_string()),
                ("LAB_DASHBOARD_PORT", free_port().to_string()),
            ],
        })
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(self.program[0]);
        command
            .args(&self.program[1..])
            .args(["-p", &self.name, "-f"])
            .arg(root().join("deploy/compose.yaml"))
            .args(["--profile", "global", "--profile", "regional"])
            .args(words)
            .envs(self.settings.iter().map(|(name, value)| (name, value)));
        command
    }

    fn port(&self, of: &str) -> &str {
        let (_, port) = self.settings.iter().find(|(name, _)| *name == of).unwrap();
        port
    }
}

impl Drop for Project {
    fn drop(&mut self) {
        let _ = self
            .command(&["down", "--volumes", "--timeout", "5"])
            .output();
    }
}

fn lab_of_containers(image: &Image) {
    let Some(lab) = Project::new(image) else {
        return skip(
            "neither docker-compose nor docker compose is here: the lab in containers was not started",
        );
    };
    printed(&mut lab.command(&["up", "--detach", "--no-build"]));
    for front in ["LAB_REGIONAL_PORT", "LAB_GLOBAL_PORT"] {
        let url = format!("http://127.0.0.1:{}/?work=light", lab.port(front));
        until("answered by a front", || {
            (ask(&url, &["-o", "/dev/null"]).0 == 200).then_some(())
        });
    }

    // The link in the log is a person's way in.
    let cookies = TempFolder::new();
    let jar: PathBuf = cookies.path().join("cookies");
    let jar = jar.to_str().unwrap();
    let link = until("linked", || {
        let logs = printed(&mut lab.command(&["logs", "--no-color", "tidemark"]));
        let from = logs
            .find("http://127.0.0.1:")
            .filter(|_| logs.contains("/login?code="))?;
        logs[from..].split_whitespace().next().map(str::to_owned)
    });
    let (status, _) = ask(&link, &["-o", "/dev/null", "-c", jar]);
    assert_eq!(status, 303, "{link}");
    let address = format!("127.0.0.1:{}", lab.port("LAB_DASHBOARD_PORT"));
    let origin = format!("Origin: http://{address}");
    let dashboard = Dashboard {
        address,
        credentials: ["-b", jar, "-H", &origin].map(str::to_owned).to_vec(),
    };
    let through = |front: &str, rate: u32, count: u32| {
        let url = format!("http://{front}:8000/?work=light");
        dashboard.measured(&json!({"kind": "rate", "url": url, "rate": rate, "num_conns": count}))
    };

    let run = through("regional", 10, 30);
    for name in ["r1a", "r1b", "r1c"] {
        assert_eq!(run["summary"]["served_by"][name]["replies"], 10, "{run:#}");
    }
    let run = through("global", 20, 100);
    assert_eq!(run["summary"]["outcomes"]["ok"], 100, "{run:#}");
    for region in ["region1", "region2"] {
        let replies = run["summary"]["regions"][region]["replies"].as_u64();
        assert!(replies.is_some_and(|replies| replies >= 25), "{run:#}");
    }
}

/// The program in a file system of its own, ended with the value.
struct Confined {
    child: std::process::Child,
    folder: TempFolder,
}

impl Drop for Confined {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn nobody_on_a_read_only_root_can_serve_measure_and_keep() {
    let folder = TempFolder::new();
    let [program, data, log] = ["program", "data", "log"].map(|name| folder.path().join(name));
    fs::copy(env!("CARGO_BIN_EXE_tidemark"), &program).unwrap();
    fs::create_dir(&data).unwrap();
    // What the engine does for a container: one place to write to, and no right to change that.
    let script = "mount --make-rprivate / && mount -t tmpfs -o mode=700,uid=65532,gid=65532 tmpfs \"$2\" \
        && mount -o remount,bind,ro / && exec setpriv --reuid 65532 --regid 65532 --clear-groups \
        --inh-caps=-all --bounding-set=-all --no-new-privs \"$1\" serve --data \"$2\" \
        --dashboard 127.0.0.1:0 --workload 127.0.0.1:0 --receiver off --receiver3 off";
    let child = Command::new("unshare")
        .args(["--mount", "sh", "-c", script, "sh"])
        .args([&program, &data])
        .stdout(fs::File::create(&log).unwrap())
        .stderr(fs::File::create(folder.path().join("errors")).unwrap())
        .spawn()
        .unwrap();
    let mut confined = Confined { child, folder };
    let errors = confined.folder.path().join("errors");
    let ready = until("ready", || {
        if confined.child.try_wait().unwrap().is_some() {
            let why = fs::read_to_string(&errors).unwrap();
            // Where nobody may mount anything, as without root.
            assert!(why.contains("unshare:") || why.contains("mount:"), "{why}");
            skip("no file system of its own may be made: the unprivileged program was not started");
            return Some(String::new());
        }
        let text = fs::read_to_string(&log).unwrap();
        text.contains("ready").then_some(text)
    });
    let Some((_, after)) = ready.split_once("dashboard=http://") else {
        return;
    };
    has_no_rights(&confined.child.id().to_string());
    let dashboard = Dashboard {
        address: after.split('/').next().unwrap().to_owned(),
        credentials: Vec::new(),
    };
    let (_, rest) = ready.split_once("workload=").unwrap();
    let url = format!("{}?work=light", rest.split(' ').next().unwrap());
    let run = dashboard.measured(&json!({"kind": "rate", "url": url, "rate": 50, "num_conns": 25}));
    assert_eq!(run["summary"]["outcomes"]["ok"], 25, "{run:#}");
}
