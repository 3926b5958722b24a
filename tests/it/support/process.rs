//! The real program, started on free ports with a data folder of its own, and ended with the test.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use super::netns::Namespace;

/// A folder that is removed with the value, also when the test panics.
pub struct TempFolder(PathBuf);

impl TempFolder {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let path = std::env::temp_dir().join(format!(
            "tidemark-test-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        ));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A command for the real binary that sees nothing of this shell's settings.
pub fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidemark"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("TIDEMARK_") {
            command.env_remove(name);
        }
    }
    command.stdin(Stdio::null());
    command
}

/// A running `tidemark serve`. Dropping it kills it, and removes its data folder if that was made here.
pub struct Program {
    child: Child,
    /// The ready line, whole.
    pub ready: String,
    folder: PathBuf,
    output: BufReader<ChildStdout>,
    errors: Arc<Mutex<String>>,
    own_folder: Option<TempFolder>,
}

impl Program {
    /// Starts with free ports for dashboard and workload, a new data folder, and these further arguments.
    pub fn start(arguments: &[&str]) -> Self {
        let folder = TempFolder::new();
        let path = folder.path().to_owned();
        let mut program = Self::start_in(&path, arguments);
        program.own_folder = Some(folder);
        program
    }

    /// The same in a data folder that outlives the program.
    pub fn start_in(folder: &Path, arguments: &[&str]) -> Self {
        Self::start_with(folder, arguments, &[])
    }

    /// The same in a network namespace, with a new data folder.
    pub fn start_inside(namespace: &Namespace, arguments: &[&str]) -> Self {
        let folder = TempFolder::new();
        let inside = namespace.command(&[env!("CARGO_BIN_EXE_tidemark")]);
        let mut program = Self::spawn(inside, folder.path(), arguments, &[]);
        program.own_folder = Some(folder);
        program
    }

    /// The same with environment variables.
    pub fn start_with(folder: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        Self::spawn(command(), folder, arguments, environment)
    }

    fn spawn(
        mut command: Command,
        folder: &Path,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Self {
        let given = |flag: &str| arguments.contains(&flag);
        command.arg("serve").arg("--data").arg(folder);
        for flag in ["--dashboard", "--workload"] {
            if !given(flag) {
                command.args([flag, "127.0.0.1:0"]);
            }
        }
        for flag in ["--receiver", "--receiver3"] {
            if !given(flag) {
                command.args([flag, "off"]);
            }
        }
        let mut child = command
            .args(arguments)
            .envs(environment.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let errors = Arc::new(Mutex::new(String::new()));
        let (pipe, kept) = (child.stderr.take().unwrap(), Arc::clone(&errors));
        thread::spawn(move || {
            for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                let mut kept = kept.lock().unwrap();
                kept.push_str(&line);
                kept.push('\n');
            }
        });
        let mut ready = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut ready).unwrap();
        let program = Self {
            child,
            ready: ready.trim_end_matches('\n').to_owned(),
            folder: folder.to_owned(),
            output,
            errors,
            own_folder: None,
        };
        assert!(
            program.ready.starts_with("tidemark ready "),
            "no ready line but {ready:?}; standard error: {}",
            program.errors()
        );
        program
    }

    /// What stands behind `dashboard=` or `workload=` in the ready line; several when repeated.
    pub fn addresses(&self, listener: &str) -> Vec<SocketAddr> {
        let words: BTreeMap<&str, &str> = self
            .ready
            .split(' ')
            .filter_map(|word| word.split_once('='))
            .collect();
        words[listener]
            .split(',')
            .filter(|value| *value != "off")
            .map(|value| {
                value
                    .trim_start_matches("http://")
                    .trim_end_matches('/')
                    .parse()
                    .unwrap()
            })
            .collect()
    }

    /// The first dashboard address.
    pub fn dashboard(&self) -> SocketAddr {
        self.addresses("dashboard")[0]
    }

    /// The first workload address.
    pub fn workload(&self) -> SocketAddr {
        self.addresses("workload")[0]
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn data(&self) -> &Path {
        &self.folder
    }

    /// What it has written to standard error so far.
    pub fn errors(&self) -> String {
        self.errors.lock().unwrap().clone()
    }

    /// Sends a signal, such as `TERM`, to this process only.
    pub fn signal(&self, name: &str) {
        let status = Command::new("kill")
            .args([format!("-{name}"), self.pid().to_string()])
            .status()
            .unwrap();
        assert!(status.success());
    }

    /// Waits for its end; panics when that takes longer than `most`.
    pub fn wait(&mut self, most: Duration) -> ExitStatus {
        let until = Instant::now() + most;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < until, "still running; {}", self.errors());
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// SIGTERM, and its exit status.
    pub fn stop(mut self) -> ExitStatus {
        self.signal("TERM");
        self.wait(Duration::from_secs(30))
    }

    /// `kill -9`, as a crash.
    pub fn crash(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Whatever else it wrote to standard output; call it after the end.
    pub fn rest_of_output(&mut self) -> String {
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        rest
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs the program to its end: exit status, standard output, standard error.
pub fn run_to_end(arguments: &[&str]) -> (i32, String, String) {
    let output = command().args(arguments).output().unwrap();
    (
        output.status.code().unwrap_or(-1),
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}
