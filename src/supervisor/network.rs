//! The real instrument: the system's resolver, this machine, and the generator.

use std::net::{IpAddr, SocketAddr};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::instrument::{Found, Instrument, Pinned, StopHandle};
use crate::measure::fold::{End, Measured};
use crate::measure::plan::ping::{PingMethod, PingPlan};
use crate::measure::plan::throughput::{Direction, ThroughputPlan};
use crate::measure::plan::{FieldError, Plan};
use crate::measure::run::Environment;
use crate::measure::selftest::SelfTest;
use crate::net::{environment, icmp, resolve};
use crate::runner::path::{self, PathJob};
use crate::runner::ping::{self, PingJob};
use crate::runner::throughput::{self, FlowJob};
use crate::runner::{self, Job, Naming, Stop, Target};
use crate::selftest::{self, Step};

/// Sends real requests from this machine.
#[derive(Clone, Debug)]
pub struct Network {
    /// What names the backend in a reply.
    pub identity: Naming,
    /// What names the region in a reply.
    pub region: Naming,
    /// Documented egress cap of this node in bit/s.
    pub egress_cap_bits_per_second: Option<f64>,
}

impl Instrument for Network {
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, Result<Found, String>> {
        async move {
            let is_address = host.parse::<IpAddr>().is_ok();
            let mut resolved = resolve::resolve(host, port)
                .await
                .map_err(|error| error.to_string())?;
            prefer_v4_on_loopback(&mut resolved.addresses);
            let took = (!is_address).then_some(resolved.took);
            Ok((resolved.addresses, took))
        }
        .boxed()
    }

    fn permits(&self, plan: &Plan) -> Result<(), FieldError> {
        let Plan::Ping(PingPlan {
            method: PingMethod::Icmp,
            ..
        }) = plan
        else {
            return Ok(());
        };
        icmp::icmp_allowed()
            .map(drop)
            .map_err(|message| FieldError {
                field: "method".to_owned(),
                message,
            })
    }

    fn environment(&self, towards: Option<IpAddr>) -> Environment {
        environment::environment(towards)
    }

    fn run(
        &self,
        plan: &Plan,
        targets: Vec<Pinned>,
        stop: &StopHandle,
        sink: &mut dyn FnMut(Measured),
    ) -> Result<End, String> {
        let stopper = Stop::new();
        let asked = stopper.clone();
        stop.on_stop(move || asked.stop());
        let asked = stopper.clone();
        stop.on_end_sending(move || asked.end_sending());
        let first = targets.first().cloned();
        let missing = || "The plan names nobody to talk to.".to_owned();
        match plan {
            Plan::Throughput(plan) => {
                let job = FlowJob {
                    plan: plan.clone(),
                    egress_cap: self.egress_cap(plan, first.as_ref()),
                    address: first.ok_or_else(missing)?.address,
                };
                throughput::run_with_probe(&job, &stopper, &mut |batch| sink(batch.into()))
                    .map(End::Flow)
                    .map_err(|error| error.to_string())
            }
            Plan::Ping(plan) => {
                let job = PingJob {
                    plan: plan.clone(),
                    address: first.ok_or_else(missing)?.address,
                };
                ping::run(&job, &stopper, &mut |batch| sink(batch.into()))
                    .map(End::Flow)
                    .map_err(|error| error.to_string())
            }
            Plan::Path(plan) => {
                let job = PathJob {
                    plan: plan.clone(),
                    address: first.ok_or_else(missing)?.address,
                };
                path::run(&job, &stopper, &mut |_| {})
                    .map(End::Path)
                    .map_err(|error| error.to_string())
            }
            Plan::Imported(_) => Err("What a text tells cannot be run.".to_owned()),
            Plan::Rate(_) | Plan::Users(_) | Plan::Fetch(_) => {
                let job = self.job(plan, &targets);
                for warning in runner::preflight(&job) {
                    tracing::warn!(warning, "before the run");
                }
                let mut ended = runner::run(&job, &stopper, &mut |batch| sink(batch.into()))
                    .map_err(|error| error.to_string())?;
                ended.lookup = ended.lookup.or(first.and_then(|pinned| pinned.lookup));
                Ok(End::Http(ended))
            }
        }
    }

    fn self_test(
        &self,
        quick: bool,
        stop: &StopHandle,
        tell: &mut dyn FnMut(Step),
    ) -> Result<SelfTest, String> {
        let stopper = Stop::new();
        let asked = stopper.clone();
        stop.on_stop(move || asked.stop());
        selftest::run(quick, &stopper, tell).map_err(|error| error.to_string())
    }
}

impl Network {
    /// What can be known beforehand to go wrong, in sentences.
    pub fn preflight(&self, plan: &Plan, targets: &[Pinned]) -> Vec<String> {
        if plan.kind().is_http() {
            runner::preflight(&self.job(plan, targets))
        } else {
            Vec::new()
        }
    }

    fn job(&self, plan: &Plan, targets: &[Pinned]) -> Job {
        Job {
            plan: plan.clone(),
            targets: plan
                .urls()
                .into_iter()
                .zip(targets)
                .map(|(url, pinned)| target(url, pinned.clone()))
                .collect(),
            identity: self.identity.clone(),
            region: self.region.clone(),
            threads: None,
        }
    }

    /// The documented cap of whoever sends: this node's own, or the peer's where only the peer sends.
    fn egress_cap(&self, plan: &ThroughputPlan, peer: Option<&Pinned>) -> Option<(f64, String)> {
        if plan.direction == Direction::Receive {
            return peer.and_then(|peer| peer.egress_cap.clone());
        }
        self.egress_cap_bits_per_second
            .map(|cap| (cap, "--egress-cap of this node".to_owned()))
    }
}

fn target(url: &url::Url, pinned: Pinned) -> Target {
    Target {
        url: url.clone(),
        address: pinned.address,
        all: pinned.all,
        lookup: pinned.lookup,
    }
}

/// `localhost` has two addresses, and servers of this machine listen on 127.0.0.1 more often than on
/// `::1`; a run uses one address only, so it takes that one.
fn prefer_v4_on_loopback(addresses: &mut [SocketAddr]) {
    if addresses.iter().all(|address| address.ip().is_loopback()) {
        addresses.sort_by_key(SocketAddr::is_ipv6);
    }
}
