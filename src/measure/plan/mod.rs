//! What to measure: a plan that exists is valid and bounded in time and count.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The kinds of plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Open loop, as httperf.
    Rate,
    /// Closed loop, as siege.
    Users,
    /// One request, as `curl -w`.
    Fetch,
}

/// What one run is asked to do.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Plan {
    /// Open loop.
    Rate(RatePlan),
    /// Closed loop.
    Users(UsersPlan),
    /// One request.
    Fetch(FetchPlan),
}

/// A URL with its share of the requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WeightedUrl {
    /// Absolute `http` or `https` URL.
    pub url: url::Url,
    /// Share in proportion to the others' weights; whole, at least 1.
    pub weight: u32,
}

/// How many connections per second, as a function of time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Rate {
    /// The same all the time; 0 = one connection after another.
    Constant(f64),
    /// Pairs of rate per second and seconds.
    Steps(Vec<(f64, f64)>),
}

/// How the gaps between arrivals are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Schedule {
    /// Evenly spaced.
    Deterministic,
    /// Poisson arrivals.
    Exponential,
}

/// How users walk through their URLs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// One after another, each user from the first.
    InTurn,
    /// Drawn at random by weight.
    Random,
}

/// How the TLS peer is checked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tls {
    /// PEM file of the certificate authority to trust instead of the built-in ones.
    pub ca: Option<String>,
    /// Accept any certificate; the report says so.
    pub insecure: bool,
}

/// An open-loop plan (httperf).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RatePlan {
    /// Where to; at least one.
    pub urls: Vec<WeightedUrl>,
    /// Request method.
    pub method: String,
    /// Connections per second.
    pub rate: Rate,
    /// Connections in all; `None` when bounded by `duration_s` or by steps.
    pub num_conns: Option<u64>,
    /// Sending time in s; `None` when bounded by `num_conns` or by steps.
    pub duration_s: Option<f64>,
    /// Calls on each connection.
    pub num_calls: u32,
    /// From the actual send to the end of the reply, in s.
    pub timeout_s: f64,
    /// Further request headers.
    pub headers: BTreeMap<String, String>,
    /// Request body.
    pub body: Option<String>,
    /// How gaps are drawn.
    pub schedule: Schedule,
    /// Seed of the random gaps and URL choice.
    pub seed: u64,
    /// Requests under way at most; above it they are counted as unsent.
    pub max_in_flight: u32,
    /// Local address to send from.
    pub bind: Option<std::net::IpAddr>,
    /// TLS settings.
    #[serde(flatten)]
    pub tls: Tls,
    /// Always `1.1` (or `1.0`).
    pub http: String,
}

/// A closed-loop plan (siege).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UsersPlan {
    /// Where to; at least one.
    pub urls: Vec<WeightedUrl>,
    /// Request method.
    pub method: String,
    /// Users at once.
    pub concurrent: u32,
    /// Requests of each user; `None` when bounded by time.
    pub reps: Option<u64>,
    /// Sending time in s; `None` when bounded by `reps`.
    pub duration_s: Option<f64>,
    /// Each user waits a random time from 0 to this after each reply, in s.
    pub delay_s: f64,
    /// How users walk through the URLs.
    pub order: Order,
    /// From the send to the end of the reply, in s.
    pub timeout_s: f64,
    /// Further request headers.
    pub headers: BTreeMap<String, String>,
    /// Request body.
    pub body: Option<String>,
    /// Whether a user keeps its connection.
    pub keep_alive: bool,
    /// Seed of the delays and URL choice.
    pub seed: u64,
    /// TLS settings.
    #[serde(flatten)]
    pub tls: Tls,
    /// Always `1.1`.
    pub http: String,
}

/// A plan of one request (`curl -w`).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FetchPlan {
    /// Where to.
    pub url: url::Url,
    /// Request method.
    pub method: String,
    /// Whole time allowed, in s.
    pub timeout_s: f64,
    /// Further request headers.
    pub headers: BTreeMap<String, String>,
    /// Request body.
    pub body: Option<String>,
    /// TLS settings.
    #[serde(flatten)]
    pub tls: Tls,
}
