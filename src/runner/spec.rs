//! What generator threads need to know of a job, worked out once: request bytes, addresses, trust, limits.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use url::Url;

use crate::measure::plan::{Plan, Tls};
use crate::net::stream::TlsTarget;
use crate::net::{connect, tls};
use crate::runner::{Job, RunError};
use crate::wire::http1::{Connection, Naming, Request};

/// One URL of the plan, ready to be asked for.
#[derive(Debug)]
pub(super) struct Site {
    /// Sites of the same scheme, host and port share connections.
    pub(super) origin: u32,
    pub(super) address: SocketAddr,
    /// The address as a backend's name.
    pub(super) address_name: Arc<str>,
    pub(super) tls: Option<TlsTarget>,
    /// The request when more may follow on its connection.
    pub(super) kept: Box<[u8]>,
    /// The request when it is the connection's last.
    pub(super) last: Box<[u8]>,
}

/// What all threads share and none changes.
#[derive(Debug)]
pub(super) struct Spec {
    pub(super) plan: Plan,
    pub(super) sites: Vec<Site>,
    /// All sites have the same origin, so that every connection can ask for every URL.
    pub(super) one_origin: bool,
    pub(super) method: String,
    /// Sending it twice does what sending it once does (RFC 9110 section 9.2.2).
    pub(super) idempotent: bool,
    pub(super) timeout: Duration,
    pub(super) bind: Option<IpAddr>,
    pub(super) identity: Naming,
    pub(super) region: Naming,
}

/// What the kinds of plans have in common.
struct Common<'a> {
    urls: Vec<&'a Url>,
    method: &'a str,
    version: &'a str,
    headers: &'a BTreeMap<String, String>,
    body: Option<&'a str>,
    timeout_s: f64,
    bind: Option<IpAddr>,
    tls: &'a Tls,
}

impl Spec {
    pub(super) fn new(job: &Job) -> Result<Self, RunError> {
        let common = common(&job.plan).ok_or(RunError::Targets)?;
        if common.urls.is_empty() || common.urls.len() != job.targets.len() {
            return Err(RunError::Targets);
        }
        if let Some(bind) = common.bind.filter(|bind| !connect::is_own_address(*bind)) {
            return Err(RunError::Bind(bind));
        }
        let encrypted = common.urls.iter().any(|url| url.scheme() == "https");
        let trust = if encrypted {
            let trust = tls::client(common.tls.ca.as_deref(), common.tls.insecure);
            Some(trust.map_err(RunError::Tls)?)
        } else {
            None
        };
        let mut origins: Vec<(url::Origin, SocketAddr)> = Vec::new();
        let mut sites = Vec::with_capacity(common.urls.len());
        for (url, target) in common.urls.iter().zip(&job.targets) {
            let key = (url.origin(), target.address);
            let origin = origins.iter().position(|known| *known == key);
            let origin = origin.unwrap_or_else(|| {
                origins.push(key);
                origins.len() - 1
            });
            let tls = match &trust {
                Some(config) if url.scheme() == "https" => Some(TlsTarget {
                    config: Arc::clone(config),
                    name: tls::server_name(url.host_str().unwrap_or_default())
                        .map_err(|_| RunError::Targets)?,
                }),
                _ => None,
            };
            let request = Request {
                method: common.method,
                url,
                version: common.version,
                headers: common.headers,
                body: common.body,
            };
            sites.push(Site {
                origin: u32::try_from(origin).unwrap_or(u32::MAX),
                address: target.address,
                address_name: target.address.to_string().into(),
                tls,
                kept: request.encode(Connection::KeepAlive).into(),
                last: request.encode(Connection::Close).into(),
            });
        }
        Ok(Self {
            plan: job.plan.clone(),
            one_origin: origins.len() == 1,
            sites,
            idempotent: matches!(
                common.method,
                "GET" | "HEAD" | "OPTIONS" | "TRACE" | "PUT" | "DELETE"
            ),
            method: common.method.to_owned(),
            timeout: Duration::try_from_secs_f64(common.timeout_s).unwrap_or(Duration::MAX),
            bind: common.bind,
            identity: job.identity.clone(),
            region: job.region.clone(),
        })
    }
}

/// `None` for plans that send no HTTP.
fn common(plan: &Plan) -> Option<Common<'_>> {
    Some(match plan {
        Plan::Rate(plan) => Common {
            urls: plan.urls.iter().map(|one| &one.url).collect(),
            method: &plan.method,
            version: &plan.http,
            headers: &plan.headers,
            body: plan.body.as_deref(),
            timeout_s: plan.timeout_s,
            bind: plan.bind,
            tls: &plan.tls,
        },
        Plan::Users(plan) => Common {
            urls: plan.urls.iter().map(|one| &one.url).collect(),
            method: &plan.method,
            version: &plan.http,
            headers: &plan.headers,
            body: plan.body.as_deref(),
            timeout_s: plan.timeout_s,
            bind: None,
            tls: &plan.tls,
        },
        Plan::Fetch(plan) => Common {
            urls: vec![&plan.url],
            method: &plan.method,
            version: "1.1",
            headers: &plan.headers,
            body: plan.body.as_deref(),
            timeout_s: plan.timeout_s,
            bind: None,
            tls: &plan.tls,
        },
        Plan::Throughput(_) | Plan::Ping(_) | Plan::Path(_) | Plan::Imported(_) => return None,
    })
}
