//! What charts are drawn from: bounded, computed once when a run ends (and from time to time while it lives).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::measure::outcome::Outcome;

/// Everything that the charts of one HTTP run show; at most some hundred values each, whatever the run's size.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HttpSeries {
    /// Steps of planned send time, at most 250.
    pub bins: Vec<Bin>,
    /// Width of one step in s.
    pub bin_width_s: f64,
    /// Every request, where there are at most 400.
    pub dots: Option<Vec<Dot>>,
    /// Latency in ms at shares of all requests; a timeout counts at its age and every other failure as longer than all.
    pub percentiles_all: Vec<PercentilePoint>,
    /// Latency in ms at shares of the complete replies alone.
    pub percentiles_replies: Vec<PercentilePoint>,
    /// Counts of latencies (replies and timeouts) in buckets that touch, at most 60.
    pub histogram: Vec<HistogramBucket>,
    /// Where the time goes, by backend; the name is empty where replies name none.
    pub split: BTreeMap<String, SplitMeans>,
    /// Requests that got no complete reply.
    pub no_reply: u64,
    /// How far the data reaches, in s since the start.
    pub covers_s: f64,
    /// How far the plan would have reached, in s, where that is known.
    pub planned_s: Option<f64>,
}

/// One step of planned send time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bin {
    /// Start in s since the run's start.
    pub start_s: f64,
    /// Requests planned in it that have ended.
    pub requests: u64,
    /// Complete replies among them.
    pub replies: u64,
    /// Requests by outcome; absent where 0.
    pub outcomes: BTreeMap<Outcome, u64>,
    /// Complete replies by backend.
    pub served_by: BTreeMap<String, u64>,
    /// Complete replies by region.
    pub regions: BTreeMap<String, u64>,
    /// Latency in ms of replies and timeouts: min, p5, p50, p95, p99, max; `None` where there were none.
    pub latency_ms: Option<BandMs>,
    /// Median and 99th percentile of the lateness in ms.
    pub lateness_ms: Option<(f64, f64)>,
    /// Replies that ended in this step of the clock (not of the planned time).
    pub ended_replies: u64,
    /// Failures that ended in this step of the clock, replies with another status than 2xx or 3xx among them.
    pub ended_errors: u64,
    /// Requests without a complete reply that ended in this step of the clock.
    #[serde(default)]
    pub ended_lost: u64,
}

/// A band of percentiles in ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BandMs {
    /// Smallest.
    pub min: f64,
    /// 5th percentile.
    pub p5: f64,
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Largest.
    pub max: f64,
}

/// One request as a mark.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Dot {
    /// Planned send time in s since the run's start.
    pub at_s: f64,
    /// Latency in ms.
    pub latency_ms: f64,
    /// How it ended.
    pub outcome: Outcome,
}

/// Latency at a share of the requests.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PercentilePoint {
    /// Share from 0 to 1.
    pub share: f64,
    /// Latency in ms; `None` where the request at this rank failed without a latency.
    pub latency_ms: Option<f64>,
    /// Whether the true value is larger (a timeout).
    pub censored: bool,
}

/// One bucket of the latency histogram.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct HistogramBucket {
    /// Lower edge in ms.
    pub from_ms: f64,
    /// Upper edge in ms.
    pub to_ms: f64,
    /// Latencies in it.
    pub count: u64,
}

/// Mean parts of the latency of complete replies, in ms; they sum to the mean latency.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SplitMeans {
    /// Replies.
    pub replies: u64,
    /// Our own lateness.
    pub lateness_ms: f64,
    /// TCP connect.
    pub connect_ms: f64,
    /// TLS handshake.
    pub tls_ms: f64,
    /// The server's queue, where it says so.
    pub queue_ms: Option<f64>,
    /// The server's computing and encoding, where it says so.
    pub compute_ms: Option<f64>,
    /// First byte → last byte.
    pub transfer_ms: f64,
    /// What is left: network and the part of the server that is not accounted for.
    pub rest_ms: f64,
}
