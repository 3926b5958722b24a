//! The command line and the environment as clap reads them; `Config` is what they mean.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::guard::cidr::Cidr;

use super::parse::{Listen, NameSource, bits_per_second, count, listen, name_source, seconds};

/// Serves a CPU-bound workload, measures web servers, and says what the figures mean.
#[derive(Debug, Parser)]
#[command(
    name = "tidemark",
    version,
    about,
    args_conflicts_with_subcommands = true,
    after_help = "Without a subcommand, `serve` runs. Every listen address takes `off`, port 0 and `[::]:PORT`, and may be repeated."
)]
pub struct CommandLine {
    /// What to do; `serve` when left out.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// The flags of `serve`, which may stand without its name.
    #[command(flatten)]
    pub serve: Box<ServeFlags>,
}

/// What the program can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Dashboard, API and workload in one process (the default).
    Serve(Box<ServeFlags>),
    /// One test without a dashboard: reads a tool's command line, runs it, prints that tool's report.
    Run(Box<RunFlags>),
    /// How exact and how strong this machine's generator is, against truths that it makes itself; 25 s.
    Selftest(SelfTestFlags),
    /// Not built into this version: a node without a dashboard, in a fleet.
    #[command(hide = true)]
    Agent(NotBuilt),
}

/// The arguments of a subcommand that is only refused.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub struct NotBuilt {
    /// Whatever follows.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub rest: Vec<String>,
}

/// How `tidemark selftest` prints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum SelfTestFormat {
    /// A table.
    #[default]
    Text,
    /// Every figure as JSON.
    Json,
}

/// The flags of `tidemark selftest`.
#[derive(Debug, Args)]
pub struct SelfTestFlags {
    /// How to print.
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "text")]
    pub format: SelfTestFormat,
    /// Every part shortened: some 5 s, and less exact.
    #[arg(long)]
    pub quick: bool,
    /// The data folder, in which the result is kept.
    #[arg(long, env = "TIDEMARK_DATA", value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// What this node is called.
    #[arg(long, env = "TIDEMARK_NAME")]
    pub name: Option<String>,
}

/// How `tidemark run` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// In the tool's own form.
    Text,
    /// The summary as JSON.
    Json,
    /// The summary as one CSV row.
    Csv,
}

/// The flags of `tidemark run`.
#[derive(Debug, Args)]
pub struct RunFlags {
    /// How to print; the tool's own form when left out.
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub format: Option<OutputFormat>,
    /// Keep the run in the data folder.
    #[arg(long)]
    pub save: bool,
    /// Objectives such as `p99<500ms,errors<0.1%`; a miss is exit status 3.
    #[arg(long, value_name = "RULES")]
    pub objective: Option<String>,
    /// The data folder for `--save`.
    #[arg(long, env = "TIDEMARK_DATA", value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// What this node is called.
    #[arg(long, env = "TIDEMARK_NAME")]
    pub name: Option<String>,
    /// Who may test against `iperf -s` and `iperf3 -s` [default: everybody, as with the tools].
    #[arg(
        long,
        env = "TIDEMARK_ACCEPT_FROM",
        value_name = "CIDR",
        value_delimiter = ','
    )]
    pub accept_from: Vec<Cidr>,
    /// Largest tests and names in replies.
    #[command(flatten)]
    pub limits: CapFlags,
    /// The tool and its arguments: iperf, iperf3, httperf, siege, ping, tracepath or curl.
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMMAND LINE"
    )]
    pub words: Vec<String>,
}

/// The largest test that may be started, and where replies name their backend.
#[derive(Debug, Args)]
pub struct CapFlags {
    /// Connections per second.
    #[arg(long, env = "TIDEMARK_MAX_RATE", value_name = "PER_S", default_value = "100000", value_parser = count, allow_negative_numbers = true)]
    pub max_rate: u64,
    /// Users at once.
    #[arg(long, env = "TIDEMARK_MAX_USERS", value_name = "N", default_value = "10000", value_parser = count, allow_negative_numbers = true)]
    pub max_users: u64,
    /// Streams at once.
    #[arg(long, env = "TIDEMARK_MAX_STREAMS", value_name = "N", default_value = "256", value_parser = count, allow_negative_numbers = true)]
    pub max_streams: u64,
    /// Sending time, in seconds or with a unit (s, m, h).
    #[arg(long, env = "TIDEMARK_MAX_DURATION", value_name = "SECONDS", default_value = "86400", value_parser = seconds, allow_negative_numbers = true)]
    pub max_duration: f64,
    /// Connections in one test.
    #[arg(long, env = "TIDEMARK_MAX_CONNECTIONS", value_name = "N", default_value = "10000000", value_parser = count, allow_negative_numbers = true)]
    pub max_connections: u64,
    /// What names the backend in a reply: a header, `cookie:NAME` or `address`.
    #[arg(long, env = "TIDEMARK_IDENTITY_HEADER", value_name = "NAME", default_value = "X-Served-By", value_parser = name_source)]
    pub identity_header: NameSource,
    /// What names the region in a reply: a header, `cookie:NAME` or `address`.
    #[arg(long, env = "TIDEMARK_REGION_HEADER", value_name = "NAME", default_value = "X-Region", value_parser = name_source)]
    pub region_header: NameSource,
}

/// In which order renders share the threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DisciplineFlag {
    /// One after another, each to its end.
    Fifo,
    /// All in service take turns, row by row.
    Shared,
}

/// What happens when the workload's queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WhenFullFlag {
    /// 503 at once.
    Refuse,
    /// No further connection is accepted until there is room.
    StopAccepting,
}

/// Ready-made workload settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PresetFlag {
    /// 2 threads, 40 in service, shared, no queue, stop accepting, backlog 5.
    Tutorial,
}

/// The flags of `tidemark serve`.
#[derive(Debug, Args)]
pub struct ServeFlags {
    /// Pages and JSON API.
    #[arg(long, env = "TIDEMARK_DASHBOARD", value_name = "ADDR", default_value = "127.0.0.1:8080", value_delimiter = ',', value_parser = listen)]
    pub dashboard: Vec<Listen>,
    /// The CPU-bound backend.
    #[arg(long, env = "TIDEMARK_WORKLOAD", value_name = "ADDR", default_value = "127.0.0.1:8000", value_delimiter = ',', value_parser = listen)]
    pub workload: Vec<Listen>,
    /// iperf 2 receiver, TCP and UDP.
    #[arg(long, env = "TIDEMARK_RECEIVER", value_name = "ADDR", default_value = "127.0.0.1:5001", value_delimiter = ',', value_parser = listen)]
    pub receiver: Vec<Listen>,
    /// iperf 3 server, TCP and UDP.
    #[arg(long, env = "TIDEMARK_RECEIVER3", value_name = "ADDR", default_value = "127.0.0.1:5201", value_delimiter = ',', value_parser = listen)]
    pub receiver3: Vec<Listen>,
    /// Where results are kept [default: the `tidemark` folder in `$XDG_DATA_HOME`, else in `~/.local/share`].
    #[arg(long, env = "TIDEMARK_DATA", value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// What this node is called [default: the host name].
    #[arg(long, env = "TIDEMARK_NAME")]
    pub name: Option<String>,
    /// Its region.
    #[arg(long, env = "TIDEMARK_REGION")]
    pub region: Option<String>,
    /// Its zone.
    #[arg(long, env = "TIDEMARK_ZONE")]
    pub zone: Option<String>,
    /// Its machine type.
    #[arg(long, env = "TIDEMARK_MACHINE_TYPE", value_name = "TYPE")]
    pub machine_type: Option<String>,
    /// Its virtual CPUs [default: those found].
    #[arg(long, env = "TIDEMARK_VCPUS", value_name = "N", value_parser = count, allow_negative_numbers = true)]
    pub vcpus: Option<u64>,
    /// Its documented egress cap, such as 10G (bit/s).
    #[arg(long, env = "TIDEMARK_EGRESS_CAP", value_name = "RATE", value_parser = bits_per_second, allow_negative_numbers = true)]
    pub egress_cap: Option<f64>,
    /// Renders that run at once [default: CPUs available].
    #[arg(long, env = "TIDEMARK_WORKLOAD_THREADS", value_name = "N", value_parser = count, allow_negative_numbers = true)]
    pub workload_threads: Option<u64>,
    /// Renders begun and not finished [default: the threads].
    #[arg(long, env = "TIDEMARK_WORKLOAD_IN_SERVICE", value_name = "N", value_parser = count, allow_negative_numbers = true)]
    pub workload_in_service: Option<u64>,
    /// How renders share the threads [default: fifo].
    #[arg(long, env = "TIDEMARK_WORKLOAD_DISCIPLINE", value_enum)]
    pub workload_discipline: Option<DisciplineFlag>,
    /// Requests that may wait [default: 512].
    #[arg(
        long,
        env = "TIDEMARK_WORKLOAD_QUEUE",
        value_name = "N",
        allow_negative_numbers = true
    )]
    pub workload_queue: Option<u32>,
    /// What happens when the queue is full [default: refuse].
    #[arg(long, env = "TIDEMARK_WORKLOAD_WHEN_FULL", value_enum)]
    pub workload_when_full: Option<WhenFullFlag>,
    /// Connections that the kernel holds before they are accepted [default: 4096].
    #[arg(long, env = "TIDEMARK_WORKLOAD_BACKLOG", value_name = "N", value_parser = count, allow_negative_numbers = true)]
    pub workload_backlog: Option<u64>,
    /// Ready-made settings instead of the six above.
    #[arg(long, env = "TIDEMARK_WORKLOAD_PRESET", value_enum)]
    pub workload_preset: Option<PresetFlag>,
    /// Login token; with it the dashboard asks for login on loopback too.
    #[arg(long, env = "TIDEMARK_TOKEN", hide_env_values = true)]
    pub token: Option<String>,
    /// File with the login token [default elsewhere than on loopback: `token` in the data folder, made at the first start].
    #[arg(long, env = "TIDEMARK_TOKEN_FILE", value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Token that may read, and start and stop tests, and no more.
    #[arg(
        long,
        env = "TIDEMARK_LAUNCH_TOKEN",
        hide_env_values = true,
        value_name = "TOKEN"
    )]
    pub launch_token: Option<String>,
    /// Token that may only read.
    #[arg(
        long,
        env = "TIDEMARK_VIEW_TOKEN",
        hide_env_values = true,
        value_name = "TOKEN"
    )]
    pub view_token: Option<String>,
    /// Pages readable without login (not built into this version: refused).
    #[arg(long, env = "TIDEMARK_PUBLIC_READ")]
    pub public_read: bool,
    /// Further host names under which the dashboard answers.
    #[arg(
        long,
        env = "TIDEMARK_ALLOW_HOST",
        value_name = "HOST",
        value_delimiter = ','
    )]
    pub allow_host: Vec<String>,
    /// The address that people use when a proxy stands in front.
    #[arg(long, env = "TIDEMARK_PUBLIC_URL", value_name = "URL")]
    pub public_url: Option<url::Url>,
    /// Proxies whose X-Forwarded-For is believed.
    #[arg(
        long,
        env = "TIDEMARK_TRUSTED_PROXY",
        value_name = "CIDR",
        value_delimiter = ','
    )]
    pub trusted_proxy: Vec<Cidr>,
    /// Where tests may be sent, beside loopback and registered peers.
    #[arg(
        long,
        env = "TIDEMARK_ALLOW",
        value_name = "CIDR",
        value_delimiter = ','
    )]
    pub allow: Vec<Cidr>,
    /// Who may test against our receivers beside this machine and registered peers.
    #[arg(
        long,
        env = "TIDEMARK_ACCEPT_FROM",
        value_name = "CIDR",
        value_delimiter = ','
    )]
    pub accept_from: Vec<Cidr>,
    /// Largest tests and names in replies.
    #[command(flatten)]
    pub limits: CapFlags,
    /// Streams that a receiver serves, in all and per source.
    #[arg(long, env = "TIDEMARK_RECEIVER_MAX_STREAMS", value_name = "N", default_value = "256", value_parser = count, allow_negative_numbers = true)]
    pub receiver_max_streams: u64,
    /// Longest test that a receiver serves, in seconds.
    #[arg(long, env = "TIDEMARK_RECEIVER_MAX_DURATION", value_name = "SECONDS", default_value = "86400", value_parser = seconds, allow_negative_numbers = true)]
    pub receiver_max_duration: f64,
    /// NATS server of a fleet (not built into this version: stays off).
    #[arg(long, env = "TIDEMARK_NATS", value_name = "URL")]
    pub nats: Option<String>,
    /// How long connections may finish after SIGTERM, in seconds.
    #[arg(
        long,
        env = "TIDEMARK_DRAIN_SECONDS",
        value_name = "SECONDS",
        default_value = "10"
    )]
    pub drain_seconds: u32,
}
