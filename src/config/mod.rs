//! Flags and environment → one checked [`Config`], or one sentence that names the flag to change.

pub mod flags;
pub mod parse;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use clap::error::ErrorKind;

use self::flags::{
    CapFlags, Command, CommandLine, OutputFormat, RunFlags, SelfTestFlags, SelfTestFormat,
    ServeFlags,
};
use self::parse::{Listen, NameSource};
use crate::guard::cidr::Cidr;
use crate::measure::plan::Caps;

pub use self::flags::{DisciplineFlag as Discipline, WhenFullFlag as WhenFull};

/// What the command line asks for.
#[derive(Debug)]
pub enum Asked {
    /// Serve until a signal comes.
    Serve(Box<Config>),
    /// One test, printed.
    Run(Box<RunOptions>),
    /// The self-test, printed.
    SelfTest(Box<SelfTestOptions>),
}

/// Why there is nothing to start.
#[derive(Debug)]
pub enum Declined {
    /// The text of `--help` or `--version`: standard output, exit status 0.
    Information(String),
    /// One sentence for standard error, exit status 2.
    Usage(String),
}

/// Everything `tidemark serve` was told, checked.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where the dashboard listens; empty = off.
    pub dashboard: Vec<SocketAddr>,
    /// Where the workload listens; empty = off.
    pub workload: Vec<SocketAddr>,
    /// Where the iperf 2 receiver listens; empty = off.
    pub receiver: Vec<SocketAddr>,
    /// Where the iperf 3 server listens; empty = off.
    pub receiver3: Vec<SocketAddr>,
    /// The data folder.
    pub data: PathBuf,
    /// What this node is called.
    pub node: Node,
    /// How the workload works.
    pub workload_settings: WorkloadSettings,
    /// Further host names of the dashboard.
    pub allow_hosts: Vec<String>,
    /// The address that people use when a proxy stands in front.
    pub public_url: Option<url::Url>,
    /// The tokens that open the dashboard.
    pub login: Login,
    /// Proxies whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Vec<Cidr>,
    /// Where tests may be sent beside loopback and peers.
    pub allow: Vec<Cidr>,
    /// Who may test against our receivers beside this machine and registered peers.
    pub accept_from: Vec<Cidr>,
    /// Streams that a receiver serves at once, in all and per source.
    pub receiver_max_streams: u32,
    /// Longest test that a receiver serves.
    pub receiver_max_duration: Duration,
    /// The largest tests, and where replies name their backend.
    pub limits: Limits,
    /// NATS server of a fleet.
    pub nats: Option<String>,
    /// How long connections may finish after SIGTERM.
    pub drain: Duration,
}

impl Config {
    /// The largest tests that a person may start.
    pub const fn caps(&self) -> &Caps {
        &self.limits.caps
    }
}

/// The tokens that open the dashboard, as far as the flags say.
#[derive(Clone, Default)]
pub struct Login {
    /// The one that may do everything.
    pub token: Option<String>,
    /// Where that one is read from.
    pub token_file: Option<PathBuf>,
    /// The one that may start tests.
    pub launch_token: Option<String>,
    /// The one that may read.
    pub view_token: Option<String>,
}

impl std::fmt::Debug for Login {
    /// Nothing of the tokens themselves.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Login")
            .field("token", &self.token.is_some())
            .field("token_file", &self.token_file)
            .field("launch_token", &self.launch_token.is_some())
            .field("view_token", &self.view_token.is_some())
            .finish()
    }
}

impl Login {
    /// Whether the flags ask for login.
    pub const fn is_asked_for(&self) -> bool {
        self.token.is_some()
            || self.token_file.is_some()
            || self.launch_token.is_some()
            || self.view_token.is_some()
    }
}

/// What this node is called in headers, pages and CSV.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its region.
    pub region: Option<String>,
    /// Its zone.
    pub zone: Option<String>,
    /// Its machine type.
    pub machine_type: Option<String>,
    /// Its virtual CPUs.
    pub vcpus: u32,
    /// Its documented egress cap.
    pub egress_cap_bits_per_second: Option<f64>,
}

/// How the workload works.
#[derive(Clone, Debug)]
pub struct WorkloadSettings {
    /// Renders that run at once.
    pub threads: usize,
    /// Renders begun and not finished.
    pub in_service: usize,
    /// How they share the threads.
    pub discipline: Discipline,
    /// Requests that may wait.
    pub queue: usize,
    /// What happens when the queue is full.
    pub when_full: WhenFull,
    /// Connections that the kernel holds before they are accepted.
    pub backlog: u32,
    /// Whether this is the source lab's server.
    pub tutorial: bool,
}

/// The largest tests that may be started, and where replies name their backend.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The largest tests.
    pub caps: Caps,
    /// What names the backend.
    pub identity: NameSource,
    /// What names the region.
    pub region: NameSource,
}

/// Everything `tidemark run` was told.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// How to print; `None` = in the tool's own form.
    pub format: Option<OutputFormat>,
    /// Whether to keep the run.
    pub save: bool,
    /// Stated objectives.
    pub objective: Option<String>,
    /// The data folder.
    pub data: PathBuf,
    /// What this node is called.
    pub name: String,
    /// Who may test against a receiver; empty = everybody.
    pub accept_from: Vec<Cidr>,
    /// The largest tests, and where replies name their backend.
    pub limits: Limits,
    /// The tool and its arguments, untouched.
    pub words: Vec<String>,
}

/// Everything `tidemark selftest` was told.
#[derive(Clone, Debug)]
pub struct SelfTestOptions {
    /// How to print.
    pub format: SelfTestFormat,
    /// Whether every part is shortened.
    pub quick: bool,
    /// The data folder.
    pub data: PathBuf,
    /// What this node is called.
    pub name: String,
}

/// Reads the command line and the environment.
pub fn read(arguments: impl IntoIterator<Item = OsString>) -> Result<Asked, Declined> {
    let line = CommandLine::try_parse_from(arguments).map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            Declined::Information(error.to_string())
        }
        _ => Declined::Usage(one_line(&error.to_string())),
    })?;
    let asked = match line.command {
        None => serve(*line.serve).map(|config| Asked::Serve(Box::new(config))),
        Some(Command::Serve(flags)) => serve(*flags).map(|config| Asked::Serve(Box::new(config))),
        Some(Command::Run(flags)) => run(*flags).map(|options| Asked::Run(Box::new(options))),
        Some(Command::Selftest(flags)) => {
            self_test(flags).map(|options| Asked::SelfTest(Box::new(options)))
        }
        Some(Command::Agent(_)) => Err(
            "`tidemark agent` is not built into this version; `serve`, `run` and `selftest` are."
                .to_owned(),
        ),
    };
    asked.map_err(Declined::Usage)
}

/// The first paragraph of clap's message as one line.
fn one_line(message: &str) -> String {
    let paragraph = message.split("\n\n").next().unwrap_or(message);
    let words: Vec<&str> = paragraph.split_whitespace().collect();
    let line = words.join(" ");
    line.strip_prefix("error: ").unwrap_or(&line).to_owned()
}

fn serve(flags: ServeFlags) -> Result<Config, String> {
    if flags.public_read {
        return Err(
            "--public-read is not built into this version: leave it out, and give readers a --view-token.".to_owned(),
        );
    }
    let dashboard = listeners("--dashboard", &flags.dashboard)?;
    let workload = listeners("--workload", &flags.workload)?;
    let receiver = listeners("--receiver", &flags.receiver)?;
    let receiver3 = listeners("--receiver3", &flags.receiver3)?;
    if dashboard.is_empty() && workload.is_empty() && receiver.is_empty() && receiver3.is_empty() {
        return Err(
            "--dashboard, --workload, --receiver and --receiver3 off together leave nothing to serve.".to_owned(),
        );
    }
    if let Some(url) = &flags.public_url
        && (!matches!(url.scheme(), "http" | "https") || url.host().is_none())
    {
        return Err(format!(
            "--public-url {url} is not an http or https address."
        ));
    }
    let cpus = cpus();
    Ok(Config {
        workload_settings: workload_settings(&flags, cpus)?,
        limits: limits(&flags.limits)?,
        data: data_folder(flags.data)?,
        node: Node {
            name: node_name(flags.name)?,
            region: named("--region", flags.region)?,
            zone: named("--zone", flags.zone)?,
            machine_type: named("--machine-type", flags.machine_type)?,
            vcpus: match flags.vcpus {
                Some(number) => whole("--vcpus", number)?,
                None => u32::try_from(cpus).unwrap_or(u32::MAX),
            },
            egress_cap_bits_per_second: flags.egress_cap,
        },
        dashboard,
        workload,
        receiver,
        receiver3,
        allow_hosts: flags.allow_host,
        public_url: flags.public_url,
        login: login(
            flags.token,
            flags.token_file,
            flags.launch_token,
            flags.view_token,
        )?,
        trusted_proxies: flags.trusted_proxy,
        allow: flags.allow,
        accept_from: flags.accept_from,
        receiver_max_streams: whole("--receiver-max-streams", flags.receiver_max_streams)?,
        receiver_max_duration: Duration::from_secs_f64(flags.receiver_max_duration),
        nats: flags.nats,
        drain: Duration::from_secs(u64::from(flags.drain_seconds)),
    })
}

/// The tokens, each of which must fit into a header.
fn login(
    token: Option<String>,
    token_file: Option<PathBuf>,
    launch_token: Option<String>,
    view_token: Option<String>,
) -> Result<Login, String> {
    if token.is_some() && token_file.is_some() {
        return Err("--token and --token-file are both given: leave one out.".to_owned());
    }
    let given = [
        ("--token", &token),
        ("--launch-token", &launch_token),
        ("--view-token", &view_token),
    ];
    for (flag, value) in given {
        if let Some(value) = value {
            is_token(value).map_err(|why| format!("{flag} {why}."))?;
        }
    }
    Ok(Login {
        token,
        token_file,
        launch_token,
        view_token,
    })
}

/// Whether a header can carry this text as a token.
///
/// # Errors
/// What is wrong with it, to follow the name of where it comes from.
pub fn is_token(text: &str) -> Result<(), &'static str> {
    if text.is_empty() {
        return Err("is empty, and an empty token would let everybody in");
    }
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("has a character that is no visible ASCII one, so no header can carry it");
    }
    Ok(())
}

fn listeners(flag: &str, values: &[Listen]) -> Result<Vec<SocketAddr>, String> {
    let addresses: Vec<SocketAddr> = values
        .iter()
        .filter_map(|value| match value {
            Listen::Off => None,
            Listen::At(address) => Some(*address),
        })
        .collect();
    if !addresses.is_empty() && addresses.len() < values.len() {
        return Err(format!("{flag} is given both `off` and an address."));
    }
    Ok(addresses)
}

fn workload_settings(flags: &ServeFlags, cpus: usize) -> Result<WorkloadSettings, String> {
    if flags.workload_preset.is_some() {
        let own = [
            ("--workload-threads", flags.workload_threads.is_some()),
            ("--workload-in-service", flags.workload_in_service.is_some()),
            ("--workload-discipline", flags.workload_discipline.is_some()),
            ("--workload-queue", flags.workload_queue.is_some()),
            ("--workload-when-full", flags.workload_when_full.is_some()),
            ("--workload-backlog", flags.workload_backlog.is_some()),
        ];
        if let Some((flag, _)) = own.into_iter().find(|(_, given)| *given) {
            return Err(format!(
                "--workload-preset tutorial settles {flag} too: give one or the other."
            ));
        }
        return Ok(WorkloadSettings {
            threads: 2,
            in_service: 40,
            discipline: Discipline::Shared,
            queue: 0,
            when_full: WhenFull::StopAccepting,
            backlog: 5,
            tutorial: true,
        });
    }
    let threads = match flags.workload_threads {
        Some(number) => bounded("--workload-threads", number, 1024)?,
        None => cpus,
    };
    let in_service = match flags.workload_in_service {
        Some(number) => bounded("--workload-in-service", number, 100_000)?,
        None => threads,
    };
    let discipline = flags.workload_discipline.unwrap_or(Discipline::Fifo);
    if discipline == Discipline::Fifo && in_service > threads {
        return Err(format!(
            "--workload-in-service {in_service} is more than the {threads} threads: that needs --workload-discipline shared."
        ));
    }
    Ok(WorkloadSettings {
        threads,
        in_service,
        discipline,
        queue: flags.workload_queue.unwrap_or(512) as usize,
        when_full: flags.workload_when_full.unwrap_or(WhenFull::Refuse),
        backlog: match flags.workload_backlog {
            Some(number) => {
                u32::try_from(bounded("--workload-backlog", number, 65_535)?).unwrap_or(65_535)
            }
            None => 4096,
        },
        tutorial: false,
    })
}

fn limits(flags: &CapFlags) -> Result<Limits, String> {
    Ok(Limits {
        caps: Caps {
            max_rate: flags.max_rate as f64,
            max_users: whole("--max-users", flags.max_users)?,
            max_streams: whole("--max-streams", flags.max_streams)?,
            max_duration_s: flags.max_duration,
            max_connections: flags.max_connections,
        },
        identity: flags.identity_header.clone(),
        region: flags.region_header.clone(),
    })
}

fn run(flags: RunFlags) -> Result<RunOptions, String> {
    Ok(RunOptions {
        format: flags.format,
        save: flags.save,
        objective: flags.objective,
        data: data_folder(flags.data)?,
        name: node_name(flags.name)?,
        accept_from: flags.accept_from,
        limits: limits(&flags.limits)?,
        words: flags.words,
    })
}

fn self_test(flags: SelfTestFlags) -> Result<SelfTestOptions, String> {
    Ok(SelfTestOptions {
        format: flags.format,
        quick: flags.quick,
        data: data_folder(flags.data)?,
        name: node_name(flags.name)?,
    })
}

fn data_folder(given: Option<PathBuf>) -> Result<PathBuf, String> {
    let from = |variable: &str| {
        std::env::var_os(variable)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    match given {
        Some(folder) if folder.as_os_str().is_empty() => Err("--data is empty.".to_owned()),
        Some(folder) => Ok(folder),
        None => from("XDG_DATA_HOME")
            .or_else(|| from("HOME").map(|home| home.join(".local/share")))
            .map(|folder| folder.join("tidemark"))
            .ok_or_else(|| "there is no home folder here: say --data DIR.".to_owned()),
    }
}

fn node_name(given: Option<String>) -> Result<String, String> {
    if let Some(name) = named("--name", given)? {
        return Ok(name);
    }
    let found = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    Ok(match named("--name", Some(found.trim().to_owned())) {
        Ok(Some(name)) => name,
        _ => "tidemark".to_owned(),
    })
}

/// A name stands in a reply header and in CSV: short, and nothing that a header cannot hold.
fn named(flag: &str, text: Option<String>) -> Result<Option<String>, String> {
    match text {
        None => Ok(None),
        Some(text) if text.is_empty() => Ok(None),
        Some(text)
            if text.len() <= 64
                && text.trim() == text
                && text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) =>
        {
            Ok(Some(text))
        }
        Some(_) => Err(format!(
            "{flag} takes at most 64 printable ASCII characters, because it stands in reply headers."
        )),
    }
}

fn whole(flag: &str, number: u64) -> Result<u32, String> {
    u32::try_from(number).map_err(|_| format!("{flag} {number} is above {}.", u32::MAX))
}

fn bounded(flag: &str, number: u64, most: usize) -> Result<usize, String> {
    usize::try_from(number)
        .ok()
        .filter(|number| *number <= most)
        .ok_or_else(|| format!("{flag} {number} is above {most}."))
}

/// CPUs that this process may use: its affinity mask and its control group's quota count.
fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests;
