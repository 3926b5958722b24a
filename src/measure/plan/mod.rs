//! What to measure: a plan that exists is valid and bounded in time and count.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use url::Url;

mod cost;
mod fetch;
mod fields;
mod headers;
mod host;
mod imported;
pub mod path;
pub mod ping;
mod rate;
mod target;
#[cfg(test)]
pub(crate) mod tests;
pub mod throughput;
mod users;

pub use cost::Cost;
pub(crate) use fields::tidy;
pub use headers::default_headers_replaced;
pub use host::parse_host;
pub use imported::ImportedPlan;
pub use path::PathPlan;
pub use ping::PingPlan;
pub use target::parse_url;
pub use throughput::ThroughputPlan;

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
    /// Parallel streams, as iperf.
    Throughput,
    /// Round trips, as ping.
    Ping,
    /// Interfaces and path MTU, as tracepath.
    Path,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 6] = [
        Self::Throughput,
        Self::Rate,
        Self::Users,
        Self::Ping,
        Self::Fetch,
        Self::Path,
    ];

    /// The word in JSON, CSV, forms and the database.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Users => "users",
            Self::Fetch => "fetch",
            Self::Throughput => "throughput",
            Self::Ping => "ping",
            Self::Path => "path",
        }
    }

    /// Whether it sends HTTP requests.
    pub const fn is_http(self) -> bool {
        matches!(self, Self::Rate | Self::Users | Self::Fetch)
    }

    /// The kind with this word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }
}

/// The largest plan that a person may start here; set by `--max-rate` and its neighbours.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Caps {
    /// Connections per second.
    pub max_rate: f64,
    /// Users at once.
    pub max_users: u32,
    /// Parallel streams.
    pub max_streams: u32,
    /// Sending time in s.
    pub max_duration_s: f64,
    /// Connections, and requests, in one run.
    pub max_connections: u64,
}

impl Caps {
    /// No limit at all: for what was within the limits when it was stored.
    pub const NONE: Self = Self {
        max_rate: f64::MAX,
        max_users: u32::MAX,
        max_streams: u32::MAX,
        max_duration_s: f64::MAX,
        max_connections: u64::MAX,
    };
}

impl Default for Caps {
    fn default() -> Self {
        Self {
            max_rate: 100_000.0,
            max_users: 10_000,
            max_streams: 256,
            max_duration_s: 86_400.0,
            max_connections: 10_000_000,
        }
    }
}

/// What is wrong with one field of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FieldError {
    /// The field's name in the plan, such as `timeout_s`.
    pub field: String,
    /// A sentence that says what to change.
    pub message: String,
}

/// What one run is asked to do; serialised, it is the plan of the JSON API with every default filled in.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    /// Open loop.
    Rate(RatePlan),
    /// Closed loop.
    Users(UsersPlan),
    /// One request.
    Fetch(FetchPlan),
    /// Parallel streams.
    Throughput(ThroughputPlan),
    /// Round trips.
    Ping(PingPlan),
    /// Interfaces and path MTU.
    Path(PathPlan),
    /// What the text of another tool tells; it cannot be run.
    Imported(ImportedPlan),
}

/// Whom a plan talks to: a host and, where it has one, a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Name or address, IPv6 without brackets.
    pub host: String,
    /// Port; `None` where the protocol has none (ICMP).
    pub port: Option<u16>,
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.port {
            Some(port) if self.host.contains(':') => write!(f, "[{}]:{port}", self.host),
            Some(port) => write!(f, "{}:{port}", self.host),
            None => f.write_str(&self.host),
        }
    }
}

/// The words of [`Kind::ALL`] in a sentence.
const KINDS: &str = "throughput, rate, users, ping, fetch or path";

impl Plan {
    /// Reads a plan from JSON: fills in defaults, refuses unknown fields, and reports all that is wrong at once.
    ///
    /// # Errors
    ///
    /// One entry for each field that is at fault; never empty.
    pub fn from_json(value: &Value, caps: &Caps) -> Result<Self, Vec<FieldError>> {
        let Some(object) = value.as_object() else {
            return Err(kind_error(
                "A plan is a JSON object, such as {\"kind\": \"rate\", \"url\": \"http://127.0.0.1:8000/\", \"rate\": 5, \"num_conns\": 100}.",
            ));
        };
        let word = match object.get("kind") {
            Some(Value::String(word)) => word.as_str(),
            Some(Value::Null) | None => {
                return Err(kind_error(&format!(
                    "The kind of plan is missing: set kind to {KINDS}."
                )));
            }
            Some(_) => {
                return Err(kind_error(&format!(
                    "The kind of plan is a word: set kind to {KINDS}."
                )));
            }
        };
        match Kind::from_word(word) {
            Some(Kind::Rate) => rate::from_json(object, caps).map(Self::Rate),
            Some(Kind::Users) => users::from_json(object, caps).map(Self::Users),
            Some(Kind::Fetch) => fetch::from_json(object).map(Self::Fetch),
            Some(Kind::Throughput) => throughput::from_json(object, caps).map(Self::Throughput),
            Some(Kind::Ping) => ping::from_json(object, caps).map(Self::Ping),
            Some(Kind::Path) => path::from_json(object).map(Self::Path),
            None => Err(kind_error(&format!(
                "There is no kind of plan called {}: set kind to {KINDS}.",
                fields::shown(word)
            ))),
        }
    }

    /// The plan as the JSON API shows it: every default filled in, what is not set left out;
    /// [`Plan::from_json`] reads it back to an equal plan.
    pub fn to_json(&self) -> Value {
        let mut object = Map::new();
        object.insert("kind".to_owned(), self.kind().word().into());
        match self {
            Self::Rate(plan) => rate::fill_json(plan, &mut object),
            Self::Users(plan) => users::fill_json(plan, &mut object),
            Self::Fetch(plan) => fetch::fill_json(plan, &mut object),
            Self::Throughput(plan) => throughput::fill_json(plan, &mut object),
            Self::Ping(plan) => ping::fill_json(plan, &mut object),
            Self::Path(plan) => path::fill_json(plan, &mut object),
            Self::Imported(plan) => plan.fill_json(&mut object),
        }
        Value::Object(object)
    }

    /// Its kind.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Rate(_) => Kind::Rate,
            Self::Users(_) => Kind::Users,
            Self::Fetch(_) => Kind::Fetch,
            Self::Throughput(_) => Kind::Throughput,
            Self::Ping(_) => Kind::Ping,
            Self::Path(_) => Kind::Path,
            Self::Imported(plan) => plan.kind(),
        }
    }

    /// Requests in all (connections × calls, users × repetitions, probes); `None` when only time bounds them.
    pub fn planned_requests(&self) -> Option<u64> {
        match self {
            Self::Rate(plan) => plan
                .planned_connections()
                .map(|connections| connections.saturating_mul(u64::from(plan.num_calls))),
            Self::Users(plan) => plan
                .reps
                .map(|reps| reps.saturating_mul(u64::from(plan.concurrent))),
            Self::Fetch(_) => Some(1),
            Self::Ping(plan) => Some(u64::from(plan.count)),
            Self::Throughput(_) | Self::Path(_) | Self::Imported(_) => None,
        }
    }

    /// How long it sends, in s; `None` when the target's speed decides.
    pub fn expected_duration_s(&self) -> Option<f64> {
        match self {
            Self::Rate(plan) => plan.sending_s(),
            Self::Users(plan) => plan.duration_s,
            Self::Fetch(_) | Self::Path(_) | Self::Imported(_) => None,
            Self::Throughput(plan) => plan.sending_s(),
            Self::Ping(plan) => Some(f64::from(plan.count.saturating_sub(1)) * plan.interval_s),
        }
    }

    /// Whom it talks to, in the plan's order; at least one, except where a text does not tell.
    pub fn endpoints(&self) -> Vec<Endpoint> {
        let bare = |host: &str, port| Endpoint {
            host: host.trim_matches(['[', ']']).to_owned(),
            port,
        };
        match self {
            Self::Rate(_) | Self::Users(_) | Self::Fetch(_) => self
                .urls()
                .into_iter()
                .map(|url| {
                    bare(
                        url.host_str().unwrap_or_default(),
                        url.port_or_known_default(),
                    )
                })
                .collect(),
            Self::Throughput(plan) => vec![bare(&plan.host, Some(plan.port))],
            Self::Ping(plan) => vec![bare(&plan.host, plan.port)],
            Self::Path(plan) => vec![bare(&plan.host, None)],
            Self::Imported(plan) => plan.endpoint().into_iter().collect(),
        }
    }

    /// 4 or 6 where the plan insists on one of them.
    pub const fn ip_version(&self) -> Option<u8> {
        match self {
            Self::Throughput(plan) => plan.ip_version,
            _ => None,
        }
    }

    /// Its URLs, in the plan's order; none where it sends no HTTP.
    pub fn urls(&self) -> Vec<&Url> {
        match self {
            Self::Rate(RatePlan { urls, .. }) | Self::Users(UsersPlan { urls, .. }) => {
                urls.iter().map(|weighted| &weighted.url).collect()
            }
            Self::Fetch(plan) => vec![&plan.url],
            Self::Throughput(_) | Self::Ping(_) | Self::Path(_) | Self::Imported(_) => Vec::new(),
        }
    }

    /// The first URL, or the peer with its port, for titles and the history.
    pub fn target(&self) -> String {
        if let Self::Imported(plan) = self
            && let Some(url) = plan.url()
        {
            return url.to_owned();
        }
        match self.urls().first() {
            Some(url) => url.to_string(),
            None => self
                .endpoints()
                .first()
                .map(ToString::to_string)
                .unwrap_or_default(),
        }
    }

    /// The field of the plan that names its target: `url`, `urls` or `host`.
    pub const fn target_field(&self) -> &'static str {
        match self {
            Self::Rate(RatePlan { urls, .. }) | Self::Users(UsersPlan { urls, .. }) => {
                if urls.len() > 1 { "urls" } else { "url" }
            }
            Self::Fetch(_) => "url",
            Self::Throughput(_) | Self::Ping(_) | Self::Path(_) | Self::Imported(_) => "host",
        }
    }

    /// The longest that one request or probe may take, in s; 0 where nothing is waited for singly.
    pub const fn timeout_s(&self) -> f64 {
        match self {
            Self::Rate(plan) => plan.timeout_s,
            Self::Users(plan) => plan.timeout_s,
            Self::Fetch(plan) => plan.timeout_s,
            Self::Ping(plan) => plan.timeout_s,
            Self::Throughput(_) | Self::Path(_) | Self::Imported(_) => 0.0,
        }
    }

    /// The TLS settings; `None` where it sends no HTTP.
    pub const fn tls(&self) -> Option<&Tls> {
        match self {
            Self::Rate(plan) => Some(&plan.tls),
            Self::Users(plan) => Some(&plan.tls),
            Self::Fetch(plan) => Some(&plan.tls),
            Self::Throughput(_) | Self::Ping(_) | Self::Path(_) | Self::Imported(_) => None,
        }
    }
}

impl Serialize for Plan {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_json().serialize(serializer)
    }
}

fn kind_error(message: &str) -> Vec<FieldError> {
    vec![FieldError {
        field: "kind".to_owned(),
        message: message.to_owned(),
    }]
}

/// A URL with its share of the requests.
#[derive(Clone, Debug, PartialEq)]
pub struct WeightedUrl {
    /// Absolute `http` or `https` URL.
    pub url: Url,
    /// Share in proportion to the others' weights; whole, at least 1.
    pub weight: u32,
}

/// How many connections per second, as a function of time.
#[derive(Clone, Debug, PartialEq)]
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
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tls {
    /// PEM file of the certificate authority to trust instead of the built-in ones.
    pub ca: Option<String>,
    /// Accept any certificate; the report says so.
    pub insecure: bool,
}

/// An open-loop plan (httperf).
#[derive(Clone, Debug, PartialEq)]
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
    /// Calls take kept connections from a pool instead of a new one each; a new one only when none is idle.
    pub reuse: bool,
    /// Local address to send from.
    pub bind: Option<std::net::IpAddr>,
    /// TLS settings.
    pub tls: Tls,
    /// Always `1.1`.
    pub http: String,
}

/// A closed-loop plan (siege).
#[derive(Clone, Debug, PartialEq)]
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
    /// The time over which users begin, evenly, in s; `None`: at most 1 ms apart, and all within 100 ms.
    pub ramp_s: Option<f64>,
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
    pub tls: Tls,
    /// Always `1.1`.
    pub http: String,
}

/// A plan of one request (`curl -w`).
#[derive(Clone, Debug, PartialEq)]
pub struct FetchPlan {
    /// Where to.
    pub url: Url,
    /// Request method.
    pub method: String,
    /// Whole time allowed, in s.
    pub timeout_s: f64,
    /// Further request headers.
    pub headers: BTreeMap<String, String>,
    /// Request body.
    pub body: Option<String>,
    /// TLS settings.
    pub tls: Tls,
}
