//! What a run comes to: the figures of the JSON API, one type per kind of plan.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

mod answerers;
mod counts;
mod curves;
mod fetch;
pub mod flow;
mod flow_echoes;
mod flow_figures;
mod flow_grid;
mod flow_rows;
pub mod http;
mod imported;
pub mod names;
pub mod ping;
mod rate;
mod seconds;
mod stored;
pub mod texts;
pub mod throughput;
pub mod timeline;
mod users;

pub use imported::Imported;

/// Figures of one distribution; every figure `None` when nothing was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// Smallest value.
    pub min: Option<f64>,
    /// Arithmetic mean.
    pub avg: Option<f64>,
    /// Largest value.
    pub max: Option<f64>,
    /// The 50th percentile.
    pub median: Option<f64>,
    /// Sample standard deviation (n − 1); `None` below two values.
    pub stddev: Option<f64>,
    /// The 50th percentile again, under its other name.
    pub p50: Option<f64>,
    /// The 90th percentile.
    pub p90: Option<f64>,
    /// The 95th percentile.
    pub p95: Option<f64>,
    /// The 99th percentile.
    pub p99: Option<f64>,
    /// The 99.9th percentile.
    pub p99_9: Option<f64>,
    /// How many values there were.
    pub count: u64,
}

/// Mean and tail of one phase that servers report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AvgP99 {
    /// Arithmetic mean in ms.
    pub avg: Option<f64>,
    /// The 99th percentile in ms.
    pub p99: Option<f64>,
}

/// `Server-Timing` over all replies that carried it, in ms.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerTimingFigures {
    /// Waiting for a thread.
    pub queue: AvgP99,
    /// Computing.
    pub compute: AvgP99,
    /// Encoding.
    pub encode: AvgP99,
}

/// What one backend or region answered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServedBy {
    /// Complete replies.
    pub replies: u64,
    /// Median latency of its replies in ms.
    pub latency_p50_ms: Option<f64>,
    /// 99th percentile of its replies' latency in ms.
    pub latency_p99_ms: Option<f64>,
}

/// httperf's reply rate: samples over five-second windows (a shorter run is one sample).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReplyRate {
    /// Smallest sample.
    pub min: Option<f64>,
    /// Replies over the whole time.
    pub avg: Option<f64>,
    /// Largest sample.
    pub max: Option<f64>,
    /// Sample standard deviation; `None` below two samples.
    pub stddev: Option<f64>,
    /// How many samples.
    pub samples: u64,
}

/// Mean size of a reply by part, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReplySize {
    /// Head, interim replies included.
    pub header: Option<f64>,
    /// Content.
    pub content: Option<f64>,
    /// Trailer section.
    pub footer: Option<f64>,
    /// All of it.
    pub total: Option<f64>,
}

/// Replies by class of status.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StatusClasses {
    /// Informational; only where one ended an exchange.
    #[serde(rename = "1xx")]
    pub c1xx: u64,
    /// Successful.
    #[serde(rename = "2xx")]
    pub c2xx: u64,
    /// Redirection.
    #[serde(rename = "3xx")]
    pub c3xx: u64,
    /// Client error.
    #[serde(rename = "4xx")]
    pub c4xx: u64,
    /// Server error.
    #[serde(rename = "5xx")]
    pub c5xx: u64,
}

/// httperf's eight names of errors, filled from the outcomes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HttperfErrors {
    /// Sum of the others.
    pub total: u64,
    /// Our own timeout.
    pub client_timo: u64,
    /// The kernel's timeout.
    pub socket_timo: u64,
    /// Refused.
    pub connrefused: u64,
    /// Reset, or ended before a complete reply.
    pub connreset: u64,
    /// No file descriptor in this process.
    pub fd_unavail: u64,
    /// No local port.
    pub addrunavail: u64,
    /// No file descriptor in this machine.
    pub ftab_full: u64,
    /// Everything else.
    pub other: u64,
}

/// CPU time of the generator over the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// User seconds.
    pub user_s: f64,
    /// System seconds.
    pub system_s: f64,
    /// Both, as a share of the run's duration times 100 (one core busy = 100).
    pub percent: Option<f64>,
}

/// An open-loop run (httperf's kind).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RateSummary {
    /// Requests planned: connections × calls.
    pub planned: u64,
    /// Planned and never begun.
    pub unsent: u64,
    /// Connections begun.
    pub connections: u64,
    /// Requests completely written.
    pub requests: u64,
    /// Complete replies.
    pub replies: u64,
    /// Requests by how they ended; every key present.
    pub outcomes: BTreeMap<String, u64>,
    /// Requests sent a second time because a kept connection had been closed.
    pub stale_keepalive_retried: u64,
    /// The time over which the load was offered, in s.
    pub send_window_s: f64,
    /// From the start to the end of the last request, in s.
    pub duration_s: f64,
    /// Requests begun over the send window.
    pub offered_per_s: Option<f64>,
    /// 2xx and 3xx replies over the duration.
    pub achieved_per_s: Option<f64>,
    /// End − planned start, in ms; a timeout counts at its age.
    pub latency_ms: Distribution,
    /// How many of `latency_ms` are timeouts, so at least as long as stated.
    pub censored: u64,
    /// End − actual start, in ms.
    pub service_time_ms: Distribution,
    /// Actual start − planned start, in ms.
    pub lateness_ms: Distribution,
    /// Connections begun over the duration.
    pub connection_rate_per_s: Option<f64>,
    /// Requests written over the duration.
    pub request_rate_per_s: Option<f64>,
    /// Replies over time.
    pub reply_rate_per_s: ReplyRate,
    /// Lifetime of connections with at least one reply, in ms.
    pub connection_time_ms: Distribution,
    /// TCP connect, in ms.
    pub connect_time_ms: Distribution,
    /// TLS handshake, in ms.
    pub tls_time_ms: Distribution,
    /// Replies per connection that had at least one.
    pub connection_length_replies: Option<f64>,
    /// Most connections open at once.
    pub concurrent_max: u64,
    /// Most connects begun in one pass.
    pub connect_burst_length: u64,
    /// Mean size of a request, in bytes.
    pub request_size_bytes: Option<f64>,
    /// Request written → first byte of the reply, in ms.
    pub reply_response_ms: Distribution,
    /// First byte → last byte of the reply, in ms.
    pub reply_transfer_ms: Distribution,
    /// Mean size of a reply.
    pub reply_size_bytes: ReplySize,
    /// Replies by class.
    pub status: StatusClasses,
    /// Bytes sent and received over the duration.
    pub net_io_bytes_per_s: Option<f64>,
    /// httperf's errors.
    pub errors: HttperfErrors,
    /// CPU time of the generator.
    pub cpu: Cpu,
    /// The server's own account; absent where no reply carried it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_timing_ms: Option<ServerTimingFigures>,
    /// By backend.
    pub served_by: BTreeMap<String, ServedBy>,
    /// By region.
    pub regions: BTreeMap<String, ServedBy>,
    /// Failure texts, most frequent first, at most 20.
    pub failures: Vec<FailureText>,
    /// Failures whose text is not among `failures`.
    pub failures_not_listed: u64,
}

/// One text that failures carried, with how often.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FailureText {
    /// The outcome's key.
    pub outcome: String,
    /// The error's name or the first bytes.
    pub text: String,
    /// How often.
    pub count: u64,
}

/// A closed-loop run (siege's kind).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UsersSummary {
    /// Requests planned; `None` for a run by time.
    pub planned: Option<u64>,
    /// Planned and never begun (a run stopped early).
    pub unsent: u64,
    /// Complete replies with 2xx or 3xx.
    pub transactions: u64,
    /// Requests by how they ended; every key present.
    pub outcomes: BTreeMap<String, u64>,
    /// Requests sent a second time because a kept connection had been closed.
    pub stale_keepalive_retried: u64,
    /// Transactions over all that were tried (without those cut off by a stop), times 100.
    pub availability_percent: Option<f64>,
    /// Start to the end of the last request, in s.
    pub elapsed_s: f64,
    /// Content bytes received.
    pub data_transferred_bytes: u64,
    /// Equal to the service time in a closed loop, in ms; a timeout counts at its age.
    pub latency_ms: Distribution,
    /// How many of `latency_ms` are timeouts.
    pub censored: u64,
    /// Transactions over the elapsed time.
    pub transaction_rate_per_s: Option<f64>,
    /// Content bytes over the elapsed time.
    pub throughput_bytes_per_s: Option<f64>,
    /// Mean number of requests in flight: their integral over time divided by the elapsed time.
    pub concurrency: Option<f64>,
    /// Equal to `transactions`.
    pub successful: u64,
    /// Every other outcome, except requests cut off because the run was stopped.
    pub failed: u64,
    /// Longest latency, in s.
    pub longest_s: Option<f64>,
    /// Shortest latency, in s.
    pub shortest_s: Option<f64>,
    /// TCP connect, in ms.
    pub connect_time_ms: Distribution,
    /// TLS handshake, in ms.
    pub tls_time_ms: Distribution,
    /// Request written → first byte of the reply, in ms.
    pub reply_response_ms: Distribution,
    /// First byte → last byte of the reply, in ms.
    pub reply_transfer_ms: Distribution,
    /// Connections begun.
    pub connections: u64,
    /// Replies by class.
    pub status: StatusClasses,
    /// httperf's names for the errors.
    pub errors: HttperfErrors,
    /// CPU time of the generator.
    pub cpu: Cpu,
    /// The server's own account; absent where no reply carried it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_timing_ms: Option<ServerTimingFigures>,
    /// By backend.
    pub served_by: BTreeMap<String, ServedBy>,
    /// By region.
    pub regions: BTreeMap<String, ServedBy>,
    /// Failure texts, most frequent first, at most 20.
    pub failures: Vec<FailureText>,
    /// Failures whose text is not among `failures`.
    pub failures_not_listed: u64,
}

/// One request in its phases (curl's kind).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FetchSummary {
    /// Resolving the name; `None` for an address.
    pub lookup_ms: Option<f64>,
    /// TCP connect.
    pub connect_ms: Option<f64>,
    /// TLS handshake; `None` without TLS.
    pub tls_ms: Option<f64>,
    /// From the start to the first byte of the reply.
    pub first_byte_ms: Option<f64>,
    /// From the start to the last byte of the reply.
    pub total_ms: Option<f64>,
    /// Status of the reply.
    pub status: Option<u16>,
    /// Content bytes.
    pub size_bytes: Option<u64>,
    /// Which backend answered.
    pub served_by: Option<String>,
    /// Which region answered.
    pub region: Option<String>,
    /// All addresses of the name, the one used first.
    pub addresses: Vec<String>,
    /// How it ended (an outcome's key).
    pub outcome: String,
    /// The failure's text.
    pub detail: Option<String>,
    /// The server's own account.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_timing_ms: Option<ServerTimingFigures>,
}

/// The figures of a run of any kind; in JSON just the object, since the run names its kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Summary {
    /// Open loop.
    Rate(Box<RateSummary>),
    /// Closed loop.
    Users(Box<UsersSummary>),
    /// One request.
    Fetch(Box<FetchSummary>),
    /// Parallel streams.
    Throughput(Box<flow::ThroughputSummary>),
    /// Round trips.
    Ping(Box<flow::PingSummary>),
    /// Interfaces and path MTU.
    Path(Box<flow::PathSummary>),
    /// What the text of another tool holds.
    Imported(Box<Imported>),
}

/// One second of an HTTP run: a row of `intervals.csv` and an `interval` event.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HttpInterval {
    /// The run.
    pub run: i64,
    /// Start of the second since the run's start.
    pub start_s: f64,
    /// Its end.
    pub end_s: f64,
    /// Requests begun in it.
    pub requests: u64,
    /// Complete replies that ended in it.
    pub replies: u64,
    /// Requests that ended in it otherwise than with 2xx or 3xx.
    pub errors: u64,
    /// Replies over its length.
    pub reply_rate_per_s: f64,
    /// Mean latency of what ended in it, replies and timeouts.
    pub latency_avg_ms: Option<f64>,
    /// Median.
    pub latency_p50_ms: Option<f64>,
    /// 99th percentile.
    pub latency_p99_ms: Option<f64>,
    /// Largest.
    pub latency_max_ms: Option<f64>,
    /// Requests under way at its end.
    pub in_flight: u64,
}
