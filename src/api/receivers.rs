//! The built-in receivers: what they do, start, stop.

use axum::Json;
use axum::extract::{Path, State as Shared};
use axum::http::StatusCode;
use serde_json::{Value, json};

use super::Api;
use super::problem::{Answer, Problem};
use crate::measure::plan::throughput::Dialect;
use crate::supervisor::{ReceiverError, ReceiverView};

/// `GET /api/receivers`
pub(super) async fn list(Shared(api): Shared<Api>) -> Json<Value> {
    let receivers: Vec<Value> = api.state.supervisor.receivers().iter().map(shown).collect();
    Json(json!({ "receivers": receivers }))
}

/// `POST /api/receivers/{dialect}/start`
pub(super) async fn start(
    Shared(api): Shared<Api>,
    Path(name): Path<String>,
) -> Answer<Json<Value>> {
    let started = api.state.supervisor.start_receiver(dialect(&name)?).await;
    started
        .map(|view| Json(shown(&view)))
        .map_err(|error| refused(&error))
}

/// `POST /api/receivers/{dialect}/stop`
pub(super) async fn stop(
    Shared(api): Shared<Api>,
    Path(name): Path<String>,
) -> Answer<Json<Value>> {
    let stopped = api.state.supervisor.stop_receiver(dialect(&name)?).await;
    stopped
        .map(|view| Json(shown(&view)))
        .map_err(|error| refused(&error))
}

fn dialect(name: &str) -> Answer<Dialect> {
    match name {
        "iperf2" => Ok(Dialect::Iperf2),
        "iperf3" => Ok(Dialect::Iperf3),
        _ => {
            let name: String = name.chars().take(64).collect();
            Err(Problem::new(
                StatusCode::NOT_FOUND,
                format!("There is no receiver called {name}: iperf2 and iperf3 are."),
            ))
        }
    }
}

fn refused(error: &ReceiverError) -> Problem {
    Problem::conflict(error.to_string())
}

fn shown(view: &ReceiverView) -> Value {
    let status = view.status;
    json!({
        "dialect": match view.dialect {
            Dialect::Iperf2 => "iperf2",
            Dialect::Iperf3 => "iperf3",
        },
        "addresses": view.addresses,
        "running": view.running,
        "tests_running": status.running,
        "streams": status.streams,
        "connections": status.connections,
        "tests_begun": status.begun,
        "tests_ended": status.ended,
        "turned_away": status.refused,
        "bytes_received": status.bytes_received,
        "bytes_sent": status.bytes_sent,
        "dropped": status.dropped,
        "refused": view.refused.iter().map(|source| json!({
            "from": source.from,
            "why": source.why,
            "at": source.at,
            "count": source.count,
        })).collect::<Vec<_>>(),
    })
}
