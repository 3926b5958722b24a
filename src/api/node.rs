//! What this node is, and what it can do.

use std::net::SocketAddr;

use axum::Json;
use axum::extract::State as Shared;
use serde_json::{Value, json};

use super::Api;
use crate::measure::plan::Kind;
use crate::measure::plan::throughput::Dialect;
use crate::net::{clock, environment, icmp, interfaces};
use crate::supervisor::{MIN_FREE_BYTES, QUEUE_PLACES};

/// `GET /api/node`
pub(super) async fn node(Shared(api): Shared<Api>) -> Json<Value> {
    let node = &api.state.node;
    let machine = environment::environment(None);
    let interfaces: Vec<Value> = interfaces::interfaces()
        .into_iter()
        .map(|found| json!({"name": found.name, "mtu": found.mtu, "addresses": found.addresses}))
        .collect();
    let uptime = clock::now().saturating_duration_since(api.state.started);
    Json(json!({
        "name": node.name,
        "region": node.region,
        "zone": node.zone,
        "machine_type": node.machine_type,
        "vcpus": node.vcpus,
        "egress_cap_bits_per_second": node.egress_cap_bits_per_second,
        "cpus": machine.cpus,
        "cpu_model": machine.cpu_model,
        "memory_bytes": machine.memory_bytes,
        "interfaces": interfaces,
        "versions": {
            "tidemark": env!("CARGO_PKG_VERSION"),
            "sqlite": crate::store::sqlite_version(),
            "kernel": machine.kernel,
        },
        "listeners": {
            "dashboard": node.dashboard,
            "workload": node.workload,
            "receiver": listening(&api, Dialect::Iperf2),
            "receiver3": listening(&api, Dialect::Iperf3),
        },
        "uptime_s": uptime.as_secs_f64(),
    }))
}

/// `GET /api/capabilities`
pub(super) async fn capabilities(Shared(api): Shared<Api>) -> Json<Value> {
    let caps = api.state.supervisor.caps();
    let node = &api.state.node;
    let open = api.state.supervisor.open_runs();
    let waiting = open.iter().filter(|run| run.queue_place.is_some()).count();
    Json(json!({
        "kinds": Kind::ALL,
        "commands": ["iperf", "iperf3", "httperf", "siege", "ping", "curl", "tracepath"],
        "ping": { "icmp": icmp::icmp_allowed().is_ok(), "tcp": true },
        "receivers": api.state.supervisor.receivers().iter().filter(|view| view.running).map(|view| match view.dialect {
            Dialect::Iperf2 => "iperf2",
            Dialect::Iperf3 => "iperf3",
        }).collect::<Vec<_>>(),
        "fleet": false,
        "login": false,
        "caps": {
            "max_rate_per_s": caps.max_rate,
            "max_users": caps.max_users,
            "max_streams": caps.max_streams,
            "max_duration_s": caps.max_duration_s,
            "max_connections": caps.max_connections,
        },
        "queue": { "places": QUEUE_PLACES, "waiting": waiting },
        "min_free_bytes": MIN_FREE_BYTES,
        "targets": { "loopback": true, "registered_peers": true, "networks": node.allow },
        "identity_header": node.identity_header,
        "region_header": node.region_header,
    }))
}

/// Where the receiver of this dialect listens now.
fn listening(api: &Api, dialect: Dialect) -> Vec<SocketAddr> {
    api.state
        .supervisor
        .receivers()
        .into_iter()
        .filter(|view| view.dialect == dialect && view.running)
        .flat_map(|view| view.addresses)
        .collect()
}
