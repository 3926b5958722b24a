//! The registry of peers as a page: list, form, and the consent that a public address needs.

mod form;
mod ports;
mod whose;

use std::net::IpAddr;

use askama::Template;
use axum::Form;
use axum::extract::rejection::FormRejection;
use axum::extract::{Path, State as Shared};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use serde_json::Value;

use crate::dashboard::context::{self, Visit};
use crate::dashboard::error::Trouble;
use crate::dashboard::fields::{self, ErrorLine, Field, Group, Input, Values};
use crate::dashboard::frame::{Frame, Place, page};
use crate::dashboard::launch;
use crate::dashboard::words;
use crate::guard::Concerns;
use crate::state::AppState;
use crate::store::{Peer, Ports, Removal};
use crate::supervisor::PeerError;

pub use form::minimal;
use form::{MACHINE, NAMES, values_of};
use ports::Checked;
pub use whose::{known, whose};

#[derive(Template)]
#[template(path = "peers.html")]
struct PeersPage {
    frame: Frame,
    counted: String,
    head: &'static str,
    peers: Vec<PeerLine>,
    checks: Vec<Checked>,
    editing: String,
    action: String,
    errors: Vec<ErrorLine>,
    groups: Vec<Group>,
}

#[derive(Template)]
#[template(path = "peer_delete.html")]
struct DeletePage {
    frame: Frame,
    name: String,
}

struct PeerLine {
    name: String,
    internal: String,
    external: String,
    place: String,
    machine: String,
    size: String,
    caps: String,
    tier: String,
    ports: String,
    /// Where its last check stands, and what it found in a word.
    checked: Option<(String, ports::Found)>,
    tags: Vec<String>,
    target: String,
    starts: Vec<(&'static str, String)>,
}

/// Answers `GET /peers`; `?edit=NAME` fills the form with that peer, `?add=ADDRESS` with that address.
pub async fn show(visit: Visit, Shared(state): Shared<AppState>) -> Response {
    let asked = |wanted: &str| {
        url::form_urlencoded::parse(visit.query().as_bytes())
            .find(|(key, _)| key == wanted)
            .map(|(_, value)| value.into_owned())
            .unwrap_or_default()
    };
    let name = asked("edit");
    if name.is_empty() {
        let shown = Shown {
            values: form::values_for(&asked("add")),
            ..Shown::default()
        };
        return answer(&visit, &state, shown).await;
    }
    match state.store.peer(name.clone()).await {
        Ok(Some(peer)) => {
            let shown = Shown {
                values: values_of(&peer),
                editing: peer.name,
                ..Shown::default()
            };
            answer(&visit, &state, shown).await
        }
        Ok(None) => unknown(&visit, &name),
        Err(error) => Trouble::storage(&error).answer(visit.frame()),
    }
}

/// Answers `POST /peers`.
pub async fn create(
    visit: Visit,
    Shared(state): Shared<AppState>,
    form: Result<Form<Vec<(String, String)>>, FormRejection>,
) -> Response {
    let values = match launch::read(form) {
        Ok(values) => values,
        Err(trouble) => return trouble.answer(visit.frame()),
    };
    let (record, mut faults) = form::record(&values);
    if faults.is_empty() {
        match add(&state, &record, &visit.actor()).await {
            Ok(peer) => {
                return Concerns::mark(peer.title(), Redirect::to("/peers"));
            }
            Err(found) => faults = found,
        }
    }
    answer(
        &visit,
        &state,
        Shown {
            values,
            faults,
            ..Shown::default()
        },
    )
    .await
}

/// Answers `POST /peers/{name}`.
pub async fn change(
    visit: Visit,
    Shared(state): Shared<AppState>,
    Path(name): Path<String>,
    form: Result<Form<Vec<(String, String)>>, FormRejection>,
) -> Response {
    let values = match launch::read(form) {
        Ok(values) => values,
        Err(trouble) => return trouble.answer(visit.frame()),
    };
    let (record, mut faults) = form::record(&values);
    if faults.is_empty() {
        let actor = visit.actor();
        match state.supervisor.change_peer(&name, &record, &actor).await {
            Ok(_) => return Redirect::to("/peers").into_response(),
            Err(PeerError::Missing) => return unknown(&visit, &name),
            Err(PeerError::Storage(error)) => {
                return Trouble::storage(&error).answer(visit.frame());
            }
            Err(PeerError::Invalid(errors)) => faults = form::faults(errors),
            Err(PeerError::NameTaken) => faults = taken(),
        }
    }
    answer(
        &visit,
        &state,
        Shown {
            values,
            faults,
            editing: name,
        },
    )
    .await
}

/// Answers `GET /peers/{name}/delete`.
pub async fn ask_delete(
    visit: Visit,
    Shared(state): Shared<AppState>,
    Path(name): Path<String>,
) -> Response {
    match state.store.peer(name.clone()).await {
        Ok(Some(peer)) => page(
            StatusCode::OK,
            &DeletePage {
                frame: visit
                    .frame()
                    .at(Place::Peers, format!("Forget the peer {}?", peer.name)),
                name: peer.name,
            },
        ),
        Ok(None) => unknown(&visit, &name),
        Err(error) => Trouble::storage(&error).answer(visit.frame()),
    }
}

/// Answers `POST /peers/{name}/delete`.
pub async fn delete(
    visit: Visit,
    Shared(state): Shared<AppState>,
    Path(name): Path<String>,
) -> Response {
    match state.store.delete_peer(name.clone()).await {
        Ok(Removal::Missing) => unknown(&visit, &name),
        Ok(_) => Redirect::to("/peers").into_response(),
        Err(error) => Trouble::storage(&error).answer(visit.frame()),
    }
}

/// Answers `POST /peers/{name}/check`: probes its ports, and shows what came of it.
pub async fn check(
    visit: Visit,
    Shared(state): Shared<AppState>,
    Path(name): Path<String>,
) -> Response {
    match state.supervisor.check_peer(&name).await {
        Ok(check) => Redirect::to(&format!("/peers#{}", anchor(&check.peer))).into_response(),
        Err(PeerError::Storage(error)) => Trouble::storage(&error).answer(visit.frame()),
        Err(_) => unknown(&visit, &name),
    }
}

/// Registers a peer.
///
/// # Errors
/// Field and message where it cannot be registered.
pub async fn add(
    state: &AppState,
    record: &Value,
    actor: &str,
) -> Result<Peer, Vec<(String, String)>> {
    match state.supervisor.register_peer(record, actor).await {
        Ok(peer) => Ok(peer),
        Err(PeerError::Invalid(errors)) => Err(form::faults(errors)),
        Err(PeerError::NameTaken) => Err(taken()),
        Err(PeerError::Missing) => Err(Vec::new()),
        Err(PeerError::Storage(error)) => Err(vec![(String::new(), error.to_string())]),
    }
}

#[derive(Default)]
struct Shown {
    values: Values,
    faults: Vec<(String, String)>,
    editing: String,
}

async fn answer(visit: &Visit, state: &AppState, shown: Shown) -> Response {
    let peers = match state.store.peers().await {
        Ok(peers) => peers,
        Err(error) => return Trouble::storage(&error).answer(visit.frame()),
    };
    let checks: Vec<Checked> = peers
        .iter()
        .filter_map(|peer| state.supervisor.last_check(peer))
        .map(|check| ports::checked(&check, anchor(&check.peer)))
        .collect();
    let mut values = shown.values;
    let usual = Ports::default();
    for (name, port) in [
        ("throughput_port", usual.throughput),
        ("workload_port", usual.workload),
        ("dashboard_port", usual.dashboard),
    ] {
        values
            .entry(name.to_owned())
            .or_insert_with(|| port.to_string());
    }
    let group = |legend, list: &[Field]| Group {
        legend,
        fields: fields::filled(list, &values, &shown.faults),
    };
    let all: Vec<Field> = [&NAMES[..], &MACHINE[..]].concat();
    let status = if shown.faults.is_empty() {
        StatusCode::OK
    } else {
        StatusCode::UNPROCESSABLE_ENTITY
    };
    let built = PeersPage {
        frame: visit.frame().at(Place::Peers, "Peers"),
        counted: words::plural(peers.len() as u64, "peer", "peers"),
        head: if peers.is_empty() {
            "Tests go only to this machine so far"
        } else {
            "Machines that may be tested"
        },
        action: if shown.editing.is_empty() {
            "/peers".to_owned()
        } else {
            format!("/peers/{}", encoded(&shown.editing))
        },
        errors: fields::error_lines(&all, &shown.faults),
        groups: vec![group("Where it is", &NAMES), group("What it is", &MACHINE)],
        peers: peers.iter().map(|peer| line(peer, &checks)).collect(),
        checks,
        editing: shown.editing,
    };
    page(status, &built)
}

fn line(peer: &Peer, checks: &[Checked]) -> PeerLine {
    let text = |value: &Option<String>| value.clone().unwrap_or_else(|| words::DASH.to_owned());
    let target = peer
        .internal_address
        .as_ref()
        .or(peer.external_address.as_ref())
        .cloned()
        .unwrap_or_default();
    let host = match target.parse() {
        Ok(IpAddr::V6(v6)) => format!("[{v6}]"),
        _ => target.clone(),
    };
    let url = format!("http://{host}:{}/", peer.ports.workload);
    let place: Vec<&str> = [&peer.region, &peer.zone]
        .into_iter()
        .flatten()
        .map(String::as_str)
        .collect();
    PeerLine {
        name: peer.name.clone(),
        internal: text(&peer.internal_address),
        external: text(&peer.external_address),
        place: if place.is_empty() {
            words::DASH.to_owned()
        } else {
            place.join(", ")
        },
        machine: text(&peer.machine_type),
        size: size(peer),
        caps: caps(peer),
        tier: peer.egress_tier.clone().unwrap_or_default(),
        ports: format!(
            "{} iperf, {} web, {} pages",
            peer.ports.throughput, peer.ports.workload, peer.ports.dashboard
        ),
        checked: checks
            .iter()
            .find(|check| check.anchor == anchor(&peer.name))
            .map(|check| (check.anchor.clone(), check.all.clone())),
        tags: peer.tags.clone(),
        starts: starts(peer, &target, &url),
        target,
    }
}

/// CPUs, memory and price, as far as they are known.
fn size(peer: &Peer) -> String {
    let parts = [
        peer.vcpus.map(|cpus| format!("{cpus}\u{a0}vCPU")),
        peer.memory_bytes.map(|bytes| {
            format!(
                "{}\u{a0}GiB",
                words::digits_short(bytes as f64 / 1_073_741_824.0)
            )
        }),
        peer.price_per_hour
            .map(|price| format!("{} an hour", words::plain(price))),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// The documented caps, internal and external.
fn caps(peer: &Peer) -> String {
    let parts = [
        (peer.internal_cap_bits_per_second, "internal"),
        (peer.external_cap_bits_per_second, "external"),
    ];
    let parts: Vec<String> = parts
        .into_iter()
        .filter_map(|(cap, which)| Some(format!("{} {which}", words::bits(Some(cap?)))))
        .collect();
    if parts.is_empty() {
        words::DASH.to_owned()
    } else {
        parts.join(", ")
    }
}

/// The runs that can be started against it, each as a filled form.
fn starts(peer: &Peer, target: &str, url: &str) -> Vec<(&'static str, String)> {
    let port = peer.ports.throughput.to_string();
    let host = ("host", target);
    [
        (
            "Throughput",
            vec![("kind", "throughput"), host, ("port", port.as_str())],
        ),
        ("Ping", vec![("kind", "ping"), host]),
        ("Path", vec![("kind", "path"), host]),
        ("HTTP", vec![("kind", "rate"), ("url", url)]),
    ]
    .map(|(word, pairs)| (word, context::query("/runs/new", &pairs)))
    .into_iter()
    .chain(both_ways(peer))
    .collect()
}

/// The internal against the external address of a peer that has both.
fn both_ways(peer: &Peer) -> Option<(&'static str, String)> {
    let line = |address: &str| {
        let port = peer.ports.throughput;
        let version = if address.contains(':') { " -V" } else { "" };
        format!("iperf -c {address} -p {port}{version} -t 10")
    };
    let internal = line(peer.internal_address.as_deref()?);
    let external = line(peer.external_address.as_deref()?);
    let pairs = [("kind", "paired"), ("base", &internal), ("b", &external)];
    Some((
        "Internal against external",
        context::query("/experiments/new", &pairs),
    ))
}

fn taken() -> Vec<(String, String)> {
    vec![(
        "name".to_owned(),
        "Another peer has this name already".to_owned(),
    )]
}

fn unknown(visit: &Visit, name: &str) -> Response {
    let shown: String = name.chars().take(64).collect();
    let mut trouble = Trouble::missing(format!("There is no peer {shown:?}"));
    trouble.ways.clear();
    trouble.way("/peers", "All peers").answer(visit.frame())
}

/// Where the last check of a peer stands on the page.
fn anchor(name: &str) -> String {
    format!("check-{}", encoded(name))
}

/// A name as one segment of an address.
fn encoded(name: &str) -> String {
    url::form_urlencoded::byte_serialize(name.as_bytes())
        .collect::<String>()
        .replace('+', "%20")
}
