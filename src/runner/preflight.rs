//! What can be known before a run to go wrong on this machine.

use crate::measure::plan::{Plan, Rate};
use crate::net::{connect, sys};
use crate::runner::Job;
use crate::runner::load::Reuse;

/// Descriptors that the program keeps for its pages and its notebook.
const RESERVED: u64 = 128;
/// How long a port waits after this side closed first, in s.
const TIME_WAIT_S: f64 = 60.0;

/// Warnings, each a sentence with what to do.
pub fn preflight(job: &Job) -> Vec<String> {
    let mut warnings = Vec::new();
    let limit = sys::raise_open_files().or_else(|_| sys::open_files());
    if let Ok(limit) = limit {
        let needed = connections_at_once(&job.plan);
        let room = limit.saturating_sub(RESERVED);
        if needed > room {
            warnings.push(format!(
                "Up to {needed} connections may be open at once, and this process may open {room}: beyond that requests end as fd_exhausted. Raise the limit (ulimit -n) or lower the number in flight."
            ));
        }
    }
    if let (Some(rate), Some(ports)) = (new_connections_per_s(&job.plan), connect::local_ports()) {
        let needed = rate * TIME_WAIT_S;
        let remote = job
            .targets
            .iter()
            .any(|target| !connect::is_local(target.address));
        if remote && needed > f64::from(ports) {
            warnings.push(format!(
                "{rate:.0} new connections per second need up to {needed:.0} local ports where this side closes first, and there are {ports}: beyond about {:.0}/s requests may end as port_exhausted. Keep connections, widen net.ipv4.ip_local_port_range, or lower the rate.",
                f64::from(ports) / TIME_WAIT_S
            ));
        }
    }
    warnings
}

/// Connections that may be open at once, at worst.
fn connections_at_once(plan: &Plan) -> u64 {
    match plan {
        Plan::Rate(plan) if plan.rate == Rate::Constant(0.0) => 1,
        Plan::Rate(plan) => {
            let within_timeout = plan.peak_rate() * plan.timeout_s;
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "rates are not negative; a float too large saturates"
            )]
            let within_timeout = within_timeout.ceil() as u64;
            let planned = plan.planned_connections().unwrap_or(u64::MAX);
            u64::from(plan.max_in_flight)
                .min(within_timeout)
                .min(planned)
        }
        Plan::Users(plan) => u64::from(plan.concurrent),
        _ => 1,
    }
}

/// Connections begun per second; `None` where they are kept or only the target decides.
fn new_connections_per_s(plan: &Plan) -> Option<f64> {
    match (plan, Reuse::of(plan)) {
        (Plan::Rate(plan), Reuse::Never | Reuse::InSession) => Some(plan.peak_rate()),
        _ => None,
    }
}
