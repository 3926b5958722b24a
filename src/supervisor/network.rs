//! The real instrument: the system's resolver, this machine, and the generator.

use std::net::{IpAddr, SocketAddr};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::instrument::{Found, Instrument, Pinned, StopHandle};
use crate::measure::plan::Plan;
use crate::measure::run::Environment;
use crate::measure::sample::{Batch, Ended};
use crate::net::{environment, resolve};
use crate::runner::{self, Job, Naming, Stop, Target};

/// Sends real requests from this machine.
#[derive(Clone, Debug)]
pub struct Network {
    /// What names the backend in a reply.
    pub identity: Naming,
    /// What names the region in a reply.
    pub region: Naming,
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

    fn environment(&self, towards: Option<IpAddr>) -> Environment {
        environment::environment(towards)
    }

    fn run(
        &self,
        plan: &Plan,
        targets: Vec<Pinned>,
        stop: &StopHandle,
        sink: &mut dyn FnMut(Batch),
    ) -> Result<Ended, String> {
        let job = Job {
            plan: plan.clone(),
            targets: targets.into_iter().map(target).collect(),
            identity: self.identity.clone(),
            region: self.region.clone(),
            threads: None,
        };
        for warning in runner::preflight(&job) {
            tracing::warn!(warning, "before the run");
        }
        let stopper = Stop::new();
        let asked = stopper.clone();
        stop.on_stop(move || asked.stop());
        runner::run(&job, &stopper, sink).map_err(|error| error.to_string())
    }
}

fn target(pinned: Pinned) -> Target {
    Target {
        url: pinned.url,
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
