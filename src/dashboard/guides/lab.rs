//! The load-balanced lab as the guides see it: whether it runs, what of it answers, and its servers as peers.

use axum::extract::State as Shared;
use axum::response::{IntoResponse, Redirect, Response};
use serde_json::json;

use crate::dashboard::context::Visit;
use crate::dashboard::error::Trouble;
use crate::measure::guide::Guide;
use crate::state::AppState;
use crate::store::Peer;
use crate::supervisor::{PeerError, Server};

/// The tag of the lab's servers and fronts among the peers.
pub const LAB: &str = "lab";
/// The tag of its fronts.
const FRONT: &str = "front";

/// The lab of `scripts/lab.sh` unless its settings say otherwise: name, address, port, region (empty for a front).
const USUAL: [(&str, &str, u16, &str); 8] = [
    ("r1a", "127.0.1.1", 8080, "region1"),
    ("r1b", "127.0.1.2", 8080, "region1"),
    ("r1c", "127.0.1.3", 8080, "region1"),
    ("r2a", "127.0.2.1", 8080, "region2"),
    ("r2b", "127.0.2.2", 8080, "region2"),
    ("r2c", "127.0.2.3", 8080, "region2"),
    ("regional", "127.0.0.1", 8101, ""),
    ("global", "127.0.0.1", 8102, ""),
];

/// What the page says of it.
pub struct LabView {
    /// Class of the state.
    pub class: &'static str,
    /// The state in words.
    pub text: String,
    /// Its servers: name, class, and what came of asking.
    pub servers: Vec<(String, &'static str, String)>,
    /// Whether its servers can be registered here in one click.
    pub can_register: bool,
    /// Whether they are.
    pub registered: bool,
}

fn is(peer: &Peer, tag: &str) -> bool {
    peer.tags.iter().any(|known| known == tag)
}

/// A server or front, and whether it is a front.
fn servers(peers: &[Peer]) -> (bool, Vec<(Server, bool)>) {
    let known: Vec<_> = peers
        .iter()
        .filter(|peer| is(peer, LAB))
        .filter_map(|peer| Some((Server::of(peer)?, is(peer, FRONT))))
        .collect();
    if !known.is_empty() {
        return (true, known);
    }
    let usual = USUAL
        .iter()
        .filter_map(|(name, ip, port, region)| {
            let server = Server {
                name: (*name).to_owned(),
                region: Some((*region).to_owned()).filter(|region| !region.is_empty()),
                address: std::net::SocketAddr::new(ip.parse().ok()?, *port),
            };
            Some((server, region.is_empty()))
        })
        .collect();
    (false, usual)
}

/// Asks every server of the lab once.
pub async fn view(state: &AppState, peers: &[Peer]) -> LabView {
    let (registered, all) = servers(peers);
    let asked: Vec<Server> = all.iter().map(|(server, _)| server.clone()).collect();
    let checks = state.supervisor.ask_health(&asked).await;
    let count = |front: bool| {
        let of = || all.iter().zip(&checks).filter(|((_, is), _)| *is == front);
        (of().filter(|(_, check)| check.up).count(), of().count())
    };
    let ((up, servers), (open, fronts)) = (count(false), count(true));
    let (class, text) = if up + open == servers + fronts {
        (
            "ok",
            format!("✓ the lab runs: all {servers} servers and {fronts} fronts answer"),
        )
    } else if up + open > 0 {
        (
            "warntext",
            format!("! {up} of {servers} servers and {open} of {fronts} fronts answer"),
        )
    } else {
        ("muted", "○ no lab answers".to_owned())
    };
    LabView {
        class,
        text,
        can_register: !registered && up > 0,
        registered,
        servers: all
            .iter()
            .zip(&checks)
            .map(|((server, _), check)| {
                let name = format!("{} {}", server.name, server.address);
                let class = if check.up { "ok" } else { "bad" };
                let mark = if check.up { "✓" } else { "✕" };
                (name, class, format!("{mark} {}", check.says()))
            })
            .collect(),
    }
}

/// Answers `POST /guides/lab`: registers the lab's servers at their usual addresses as peers.
pub async fn register(visit: Visit, Shared(state): Shared<AppState>) -> Response {
    for (name, address, port, region) in USUAL {
        let front = region.is_empty();
        let mut record = json!({
            "name": name, "internal_address": address, "ports": {"workload": port},
            "tags": if front { vec![LAB, FRONT] } else { vec![LAB] },
        });
        if !front {
            record["region"] = region.into();
        }
        match state
            .supervisor
            .register_peer(&record, &visit.actor())
            .await
        {
            // Somebody's own peer of this name stays as it is.
            Ok(_) | Err(PeerError::NameTaken | PeerError::Missing) => {}
            Err(PeerError::Invalid(errors)) => {
                let why = errors
                    .first()
                    .map_or_else(String::new, |error| error.message.clone());
                return Trouble::unusable(why, "/peers", "Peers").answer(visit.frame());
            }
            Err(PeerError::Storage(error)) => {
                return Trouble::storage(&error).answer(visit.frame());
            }
        }
    }
    let back = format!("/guides/{}", Guide::RegionalOverload.slug());
    Redirect::to(&back).into_response()
}
