//! Network namespaces of a test's own, joined by virtual cables, and code of this binary that runs inside them.

use std::io::Read;
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

/// Names of ours begin so and go on with the number of the process that made them.
const PREFIX: &str = "tidemark-test-";
/// Carries the input of [`serve`].
const INPUT: &str = "TEST_INSIDE_NAMESPACE";
/// Begins the line with its result.
const RESULT: &str = "result of the inner test: ";
/// The longest that anything inside may take.
const LIMIT: Duration = Duration::from_mins(2);

/// A network namespace with its loopback up; it is removed with the value, also when the test panics.
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// `None` where they cannot be made, and then a line says so.
    pub fn new() -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        static SWEPT: OnceLock<()> = OnceLock::new();
        SWEPT.get_or_init(sweep);
        let name = format!(
            "{PREFIX}{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let made = Command::new("ip").args(["netns", "add", &name]).output();
        match made {
            Ok(output) if output.status.success() => {}
            Ok(output) => {
                super::skip(&format!(
                    "no network namespace can be made here ({})",
                    String::from_utf8_lossy(&output.stderr).trim()
                ));
                return None;
            }
            Err(_) => {
                super::skip("ip is not installed");
                return None;
            }
        }
        let namespace = Self { name };
        namespace.ip("link set lo up");
        Some(namespace)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `ip` on it; the words are parted by spaces.
    pub fn ip(&self, words: &str) {
        let output = Command::new("ip")
            .args(["-n", &self.name])
            .args(words.split(' '))
            .output()
            .unwrap();
        assert!(output.status.success(), "ip {words}: {output:?}");
    }

    /// A command inside it.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", &self.name])
            .args(words)
            .stdin(Stdio::null());
        command
    }

    /// Runs a command inside it to its end; the words are parted by spaces.
    pub fn output(&self, words: &str) -> Output {
        let words: Vec<&str> = words.split(' ').collect();
        let child = self
            .command(&words)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Running(Some(child)).finish()
    }

    /// The same, and it must succeed.
    pub fn run(&self, words: &str) -> String {
        let output = self.output(words);
        assert!(output.status.success(), "{words}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Whether a command succeeds.
    pub fn can(&self, words: &str) -> bool {
        self.output(words).status.success()
    }

    /// Starts the test `name` of this binary inside it, which must call [`serve`].
    pub fn start(&self, name: &str, input: &Value) -> Running {
        let program = std::env::current_exe().unwrap();
        self.start_program(&[program.to_str().unwrap()], name, input)
    }

    /// The same by these words, the last of which is a copy of this binary.
    pub fn start_program(&self, words: &[&str], name: &str, input: &Value) -> Running {
        let words = [words, &[name, "--exact", "--nocapture"]].concat();
        let child = self
            .command(&words)
            .env(INPUT, input.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Running(Some(child))
    }

    /// The same as a user without any privilege.
    pub fn inside_as_nobody(&self, name: &str, input: &Value) -> Value {
        // Nobody may not be able to read where this binary lies.
        let folder = super::process::TempFolder::new();
        let copy = folder.path().join("it");
        std::fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
        let words = [
            "setpriv",
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "--inh-caps=-all",
            "--bounding-set=-all",
            copy.to_str().unwrap(),
        ];
        self.start_program(&words, name, input).result()
    }

    /// Runs the test `name` of this binary inside it and returns its result.
    pub fn inside(&self, name: &str, input: &Value) -> Value {
        self.start(name, input).result()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip")
            .args(["netns", "del", &self.name])
            .output();
    }
}

/// A program that is ended by its number with the value.
pub struct Running(Option<Child>);

impl Running {
    /// Starts it, its output thrown away.
    pub fn new(mut command: Command) -> Self {
        let child = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self(Some(child))
    }

    /// Waits for its end, within bounds.
    fn finish(mut self) -> Output {
        let mut child = self.0.take().unwrap();
        let drain = |pipe: Option<Box<dyn Read + Send>>| {
            thread::spawn(move || {
                let mut bytes = Vec::new();
                if let Some(mut pipe) = pipe {
                    let _ = pipe.read_to_end(&mut bytes);
                }
                bytes
            })
        };
        let stdout = drain(child.stdout.take().map(|pipe| Box::new(pipe) as _));
        let stderr = drain(child.stderr.take().map(|pipe| Box::new(pipe) as _));
        let until = Instant::now() + LIMIT;
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if Instant::now() > until {
                let _ = child.kill();
                let _ = child.wait();
                panic!("still running after {LIMIT:?}");
            }
            thread::sleep(Duration::from_millis(2));
        };
        Output {
            status,
            stdout: stdout.join().unwrap(),
            stderr: stderr.join().unwrap(),
        }
    }

    /// Waits for the result of an inner test.
    pub fn result(self) -> Value {
        let output = self.finish();
        let text = String::from_utf8_lossy(&output.stdout);
        let result = text
            .lines()
            .find_map(|line| Some(line.split_once(RESULT)?.1));
        let Some(result) = result.filter(|_| output.status.success()) else {
            panic!(
                "the inner test failed: {text}{}",
                String::from_utf8_lossy(&output.stderr)
            );
        };
        serde_json::from_str(result).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The body of a test that is meant to be run by [`Namespace::inside`]; by itself it does nothing.
pub fn serve(work: impl FnOnce(&Value) -> Value) {
    if let Ok(input) = std::env::var(INPUT) {
        let result = work(&serde_json::from_str(&input).unwrap());
        println!("\n{RESULT}{result}");
    }
}

/// Two namespaces on one cable: `10.77.0.1` and `fd77::1` at the near end, `.2` and `::2` at the far end; the
/// interfaces are called `eth0`.
pub struct Pair {
    pub near: Namespace,
    pub far: Namespace,
}

impl Pair {
    pub fn new(mtu: u32) -> Option<Self> {
        let pair = Self {
            near: Namespace::new()?,
            far: Namespace::new()?,
        };
        cable((&pair.near, "eth0", 1), (&pair.far, "eth0", 2), 0, mtu);
        Some(pair)
    }
}

/// Two namespaces with a router between them: near `10.77.0.1` — `.2` router `10.77.1.1` — `.2` far, likewise
/// `fd77::1`, `fd77:0:0:1::2`.
pub struct Routed {
    pub near: Namespace,
    pub router: Namespace,
    pub far: Namespace,
}

impl Routed {
    /// The MTU of the near and of the far cable.
    pub fn new(near_mtu: u32, far_mtu: u32) -> Option<Self> {
        let routed = Self {
            near: Namespace::new()?,
            router: Namespace::new()?,
            far: Namespace::new()?,
        };
        let Self { near, router, far } = &routed;
        cable((near, "eth0", 1), (router, "eth0", 2), 0, near_mtu);
        cable((router, "eth1", 1), (far, "eth0", 2), 1, far_mtu);
        router.run("sysctl -q -w net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1");
        near.ip("route add default via 10.77.0.2");
        near.ip("-6 route add default via fd77::2");
        far.ip("route add default via 10.77.1.1");
        far.ip("-6 route add default via fd77:0:0:1::1");
        Some(routed)
    }
}

/// Lays a cable in network `10.77.NET.0/24` and `fd77:0:0:NET::/64` between two namespaces, each with the name of
/// its interface and its number as a host.
pub fn cable(
    (one, one_name, one_host): (&Namespace, &str, u8),
    (other, other_name, other_host): (&Namespace, &str, u8),
    net: u8,
    mtu: u32,
) {
    one.ip(&format!(
        "link add {one_name} type veth peer name {other_name} netns {}",
        other.name
    ));
    for (end, name, host) in [(one, one_name, one_host), (other, other_name, other_host)] {
        end.ip(&format!("link set {name} mtu {mtu} up"));
        end.ip(&format!("addr add 10.77.{net}.{host}/24 dev {name}"));
        if mtu >= 1_280 {
            // Without the check for duplicates the address can be used at once.
            end.ip(&format!(
                "addr add fd77:0:0:{net}::{host}/64 dev {name} nodad"
            ));
        }
    }
}

/// Removes what a killed process left.
fn sweep() {
    let Ok(list) = Command::new("ip").args(["netns", "list"]).output() else {
        return;
    };
    for name in String::from_utf8_lossy(&list.stdout)
        .split_whitespace()
        .filter(|word| word.starts_with(PREFIX))
    {
        let process = name[PREFIX.len()..].split('-').next().unwrap_or_default();
        if !std::path::Path::new("/proc").join(process).exists() {
            let _ = Command::new("ip").args(["netns", "del", name]).output();
        }
    }
}
