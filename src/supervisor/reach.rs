//! Whether a peer's ports can be reached: checked when asked for, the last result kept in memory.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use serde::Serialize;

use super::registry::PeerError;
use super::{Supervisor, now};
use crate::measure::plan::throughput::Protocol;
use crate::measure::reach::{Listener, Port, Reach};
use crate::runner::{Stop, reach};
use crate::store::Peer;

/// Results that are remembered, one a peer.
const REMEMBERED: usize = 1_000;

/// What a check of a peer found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PeerCheck {
    /// The peer's name.
    pub peer: String,
    /// When it was made.
    pub at: jiff::Timestamp,
    /// Each port on each address, internal address first.
    pub ports: Vec<PortCheck>,
    /// Ports that no test may go to, so they were not probed.
    pub not_checked: Vec<PortLeftOut>,
}

/// A port that was not probed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PortLeftOut {
    /// `internal` or `external`.
    pub side: &'static str,
    /// The address.
    pub address: IpAddr,
    /// What should listen there.
    pub service: &'static str,
    /// The port.
    pub port: u16,
    /// Why no test goes there, in a sentence.
    pub why: String,
}

/// What was found of one port at one address.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PortCheck {
    /// `internal` or `external`.
    pub side: &'static str,
    /// The address.
    pub address: IpAddr,
    /// What should listen there: `throughput`, `workload` or `dashboard`.
    pub service: &'static str,
    /// What came back, in words, with what to do.
    #[serde(flatten)]
    pub reach: Reach,
}

impl Supervisor {
    /// Probes each port of a peer, all at once; takes some seconds where nothing answers.
    ///
    /// # Errors
    /// When there is no such peer, or the notebook cannot be read.
    pub async fn check_peer(&self, name: &str) -> Result<PeerCheck, PeerError> {
        let peer = self
            .core
            .store
            .peer(name.to_owned())
            .await?
            .ok_or(PeerError::Missing)?;
        let mut not_checked = Vec::new();
        let mut allowed = Vec::new();
        for probe in probes(&peer) {
            let target = SocketAddr::new(probe.address, probe.port.number);
            match self.core.settings.rule.check(target, &[probe.address]) {
                Ok(()) => allowed.push(probe),
                Err(refusal) => not_checked.push(PortLeftOut {
                    side: probe.side,
                    address: probe.address,
                    service: probe.service,
                    port: probe.port.number,
                    why: refusal.sentence,
                }),
            }
        }
        let found = tokio::task::spawn_blocking(move || {
            std::thread::scope(|scope| {
                let threads: Vec<_> = allowed
                    .into_iter()
                    .map(|probe| scope.spawn(move || probe.make()))
                    .collect();
                threads
                    .into_iter()
                    .filter_map(|thread| thread.join().ok())
                    .collect::<Vec<_>>()
            })
        });
        let check = PeerCheck {
            peer: peer.name,
            at: now(),
            ports: found.await.unwrap_or_default(),
            not_checked,
        };
        let mut checks = self.core.checks();
        checks.retain(|known| known.peer != check.peer);
        checks.push_back(check.clone());
        while checks.len() > REMEMBERED {
            checks.pop_front();
        }
        Ok(check)
    }

    /// The last check of a peer since the program started; `None` once it has other addresses or ports than it had then.
    pub fn last_check(&self, peer: &Peer) -> Option<PeerCheck> {
        let checks = self.core.checks();
        let check = checks
            .iter()
            .find(|check| check.peer.eq_ignore_ascii_case(&peer.name))?;
        let places = probes(peer)
            .into_iter()
            .map(|probe| (probe.address, probe.service, probe.port.number));
        let checked = check
            .ports
            .iter()
            .map(|port| (port.address, port.service, port.reach.port));
        let left_out = check
            .not_checked
            .iter()
            .map(|out| (out.address, out.service, out.port));
        let places: BTreeSet<_> = places.collect();
        (places == checked.chain(left_out).collect()).then(|| check.clone())
    }
}

struct Probe {
    side: &'static str,
    address: IpAddr,
    service: &'static str,
    port: Port,
}

impl Probe {
    fn make(self) -> PortCheck {
        let target = SocketAddr::new(self.address, self.port.number);
        PortCheck {
            side: self.side,
            address: self.address,
            service: self.service,
            reach: reach::check(&self.port, target, &Stop::new()),
        }
    }
}

/// Every port of every address of the peer.
fn probes(peer: &Peer) -> Vec<Probe> {
    let sides = [
        ("internal", &peer.internal_address),
        ("external", &peer.external_address),
    ];
    let addresses = sides.into_iter().filter_map(|(side, text)| {
        let address: IpAddr = text.as_ref()?.parse().ok()?;
        Some((side, address))
    });
    let ports = &peer.ports;
    addresses
        .flat_map(|(side, address)| {
            [
                (
                    "throughput",
                    ports.throughput,
                    Protocol::Tcp,
                    Listener::Iperf2,
                ),
                (
                    "throughput",
                    ports.throughput,
                    Protocol::Udp,
                    Listener::Iperf2,
                ),
                ("workload", ports.workload, Protocol::Tcp, Listener::Web),
                ("dashboard", ports.dashboard, Protocol::Tcp, Listener::Web),
            ]
            .map(|(service, number, protocol, listener)| Probe {
                side,
                address,
                service,
                port: Port {
                    host: address.to_string(),
                    number,
                    protocol,
                    listener,
                },
            })
        })
        .collect()
}
