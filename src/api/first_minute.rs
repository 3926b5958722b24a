//! The first minute: begin one, watch it, stop it, read the last one.

use axum::Json;
use axum::extract::{Request, State as Shared};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

use super::body;
use super::events;
use super::problem::{Answer, Problem};
use super::{Api, actor};
use crate::measure::first_minute::{FirstMinute, Pace, Part};
use crate::minute::{MinuteRefused, MinuteView, NothingRuns};

/// `POST /api/first-minute`
pub(super) async fn start(Shared(api): Shared<Api>, request: Request) -> Answer<Response> {
    let actor = actor(&request);
    let object = if request.headers().contains_key(header::CONTENT_TYPE) {
        body::read(request).await?
    } else {
        Map::new()
    };
    let unknown = body::unknown(&object, &["step_s"]);
    if !unknown.is_empty() {
        return Err(Problem::invalid(unknown));
    }
    let pace = match object.get("step_s") {
        None | Some(Value::Null) => Pace::default(),
        Some(value) => value
            .as_f64()
            .ok_or_else(|| "step_s must be a number of seconds.".to_owned())
            .and_then(Pace::read)
            .map_err(|sentence| Problem::field("step_s", sentence))?,
    };
    api.state
        .minute
        .start(pace, actor)
        .await
        .map_err(|refused| match refused {
            MinuteRefused::Busy => Problem::conflict(refused.to_string()),
            MinuteRefused::Pictures(sentence) | MinuteRefused::Storage(sentence) => {
                Problem::busy(sentence)
            }
        })?;
    let shown = shown(&api).await?;
    let place = [(header::LOCATION, "/api/first-minute")];
    Ok((StatusCode::ACCEPTED, place, Json(shown)).into_response())
}

/// `GET /api/first-minute`
pub(super) async fn show(Shared(api): Shared<Api>) -> Answer<Json<Value>> {
    shown(&api).await.map(Json)
}

/// `POST /api/first-minute/cancel`
pub(super) async fn cancel(Shared(api): Shared<Api>) -> Answer<Response> {
    match api.state.minute.cancel().await {
        Ok(()) => Ok((StatusCode::ACCEPTED, Json(shown(&api).await?)).into_response()),
        Err(NothingRuns) => Err(Problem::conflict("No first minute runs.")),
    }
}

/// `GET /api/first-minute/events`
pub(super) async fn watch(Shared(api): Shared<Api>) -> Answer<Response> {
    let minute = api.state.minute.clone();
    if minute.stands().is_none() {
        return Err(nothing());
    }
    let mut looked = 0_u64;
    events::follow(&api, api.state.minute.watch(), move || {
        let Some(stands) = minute.stands() else {
            return (Value::Null, true);
        };
        // Figures change with every look while a run is under way, so each look is told.
        looked += 1;
        let told = json!({
            "state": stands.state,
            "part": stands.now().map(|part| part.part),
            "run": stands.now().and_then(|part| part.run),
            "looked": looked,
        });
        (told, stands.state.is_final())
    })
}

fn nothing() -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        "No first minute has been made here: POST /api/first-minute begins one.",
    )
}

async fn shown(api: &Api) -> Answer<Value> {
    let view = api.state.minute.view().await?.ok_or_else(nothing)?;
    Ok(record(&view))
}

fn record(view: &MinuteView) -> Value {
    let FirstMinute {
        state,
        started_at,
        finished_at,
        threads,
        picture,
        parts,
        server,
        error,
        ..
    } = &view.minute;
    let found = &view.found;
    let step = |part: Part| {
        found.step(part).map(|step| {
            json!({
                "offered_per_s": step.offered_per_s,
                "achieved_per_s": step.achieved_per_s,
                "latency_ms_p50": step.median_ms,
                "latency_ms_max": step.max_ms,
            })
        })
    };
    json!({
        "state": state,
        "progress": {"done": view.done, "eta_s": view.left_s},
        "started_at": started_at,
        "finished_at": finished_at,
        "threads": threads,
        "picture": picture,
        "parts": parts,
        "sentence": found.sentence(),
        "waiting": found.waiting(),
        "lateness_ms": found.lateness_ms,
        "bits_per_second": found.bits_per_second,
        "rtt_idle_ms_p50": found.rtt_ms.map(|rtt| rtt.0),
        "rtt_loaded_ms_p50": found.rtt_ms.map(|rtt| rtt.1),
        "estimated_ceiling_per_s": found.ceiling_per_s,
        "steps": {"below": step(Part::Below), "at": step(Part::At), "above": step(Part::Above)},
        "server": server,
        "error": error,
    })
}
