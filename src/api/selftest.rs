//! The self-test: make one, watch it, stop it, read the last one.

use axum::Json;
use axum::extract::{Request, State as Shared};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

use super::Api;
use super::body;
use super::events;
use super::problem::{Answer, Problem};
use crate::measure::run::State;
use crate::measure::selftest::KeptSelfTest;
use crate::report;
use crate::store::StoreError;
use crate::supervisor::{NotRunning, SelfTestView};

/// `POST /api/selftest`
pub(super) async fn start(Shared(api): Shared<Api>, request: Request) -> Answer<Response> {
    // Nothing need be said; a body is read as strictly as any other.
    let object = if request.headers().contains_key(header::CONTENT_TYPE) {
        body::read(request).await?
    } else {
        Map::new()
    };
    let unknown = body::unknown(&object, &["quick"]);
    if !unknown.is_empty() {
        return Err(Problem::invalid(unknown));
    }
    let quick = match object.get("quick") {
        None | Some(Value::Null) => false,
        Some(Value::Bool(quick)) => *quick,
        Some(_) => return Err(Problem::field("quick", "quick must be true or false.")),
    };
    api.state.supervisor.self_test(quick)?;
    let shown = shown(&api).await?.unwrap_or_default();
    let place = [(header::LOCATION, "/api/selftest")];
    Ok((StatusCode::ACCEPTED, place, Json(shown)).into_response())
}

/// `GET /api/selftest`
pub(super) async fn show(Shared(api): Shared<Api>) -> Answer<Json<Value>> {
    shown(&api).await?.map(Json).ok_or_else(nothing)
}

/// `POST /api/selftest/cancel`
pub(super) async fn cancel(Shared(api): Shared<Api>) -> Answer<Response> {
    match api.state.supervisor.cancel_self_test() {
        Ok(()) => {
            let shown = shown(&api).await?.unwrap_or_default();
            Ok((StatusCode::ACCEPTED, Json(shown)).into_response())
        }
        Err(NotRunning) => Err(Problem::conflict("No self-test waits or runs.")),
    }
}

/// `GET /api/selftest/events`
pub(super) async fn watch(Shared(api): Shared<Api>) -> Answer<Response> {
    let Some(changed) = api.state.supervisor.watch_self_test() else {
        return Err(nothing());
    };
    let supervisor = api.state.supervisor.clone();
    events::follow(&api, changed, move || {
        let view = supervisor.self_test_view();
        let over = view.as_ref().is_none_or(|view| view.state.is_final());
        let told = view.map_or(Value::Null, |view| Value::Object(told(&view)));
        (told, over)
    })
}

fn nothing() -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        "No self-test has been made here: POST /api/selftest makes one.",
    )
}

/// The last result, and where a self-test stands that waits, runs or came to nothing; `None` when there is neither.
async fn shown(api: &Api) -> Result<Option<Value>, StoreError> {
    let last = api.state.store.last_self_test().await?;
    let view = api.state.supervisor.self_test_view();
    Ok(match (view, last) {
        (None, None) => None,
        (view, last) => Some(record(view.as_ref(), last.as_ref())),
    })
}

fn record(view: Option<&SelfTestView>, last: Option<&KeptSelfTest>) -> Value {
    let mut record = match view {
        Some(view) => told(view),
        None => Map::from_iter([("state".to_owned(), json!(State::Finished))]),
    };
    if let Some(Value::Object(result)) = last.map(report::self_test_json) {
        record.extend(result);
    }
    Value::Object(record)
}

fn told(view: &SelfTestView) -> Map<String, Value> {
    let mut record = Map::new();
    record.insert("state".to_owned(), json!(view.state));
    record.insert("quick".to_owned(), json!(view.quick));
    record.insert("queue_place".to_owned(), json!(view.queue_place));
    record.insert("doing".to_owned(), json!(view.doing));
    record.insert("progress".to_owned(), json!(view.progress));
    record.insert("error".to_owned(), json!(view.error));
    record
}
