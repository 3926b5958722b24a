//! Runs, and what else goes on, as server-sent events.

use std::convert::Infallible;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, Request, State as Shared};
use axum::http::{HeaderValue, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use futures_util::{Stream, StreamExt};
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, TryAcquireError, watch};

use super::Api;
use super::problem::{Answer, Problem};
use super::runs::{find, run_id};

/// Streams that may be open at once.
pub(super) const MAX_STREAMS: usize = 64;

/// A comment after this long without an event keeps proxies from closing the stream.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// `GET /api/runs/{id}/events`
pub(super) async fn events(
    Shared(api): Shared<Api>,
    Path(id): Path<String>,
    request: Request,
) -> Answer<Response> {
    let number = run_id(&id)?;
    let after: Option<u64> = last_seen(&request);
    let run = find(&api, &id).await?;
    if let Some(after) = after
        && run.state.is_final()
        && after > api.state.store.intervals_count(number).await?
    {
        // The watcher has seen the end: this status tells a browser not to come again.
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let permit = Arc::clone(&api.streams).try_acquire_owned();
    let Some(events) = api.state.supervisor.events(number, after).await? else {
        return Err(Problem::no_run(&id));
    };
    stream(
        permit,
        events.map(|event| {
            Ok::<_, Infallible>(
                Event::default()
                    .id(event.id.to_string())
                    .event(event.kind.word())
                    .data(event.json),
            )
        }),
    )
}

/// The last event that a watcher saw, where it says so.
pub(super) fn last_seen<T: FromStr>(request: &Request) -> Option<T> {
    request
        .headers()
        .get("last-event-id")
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.trim().parse().ok())
}

/// The events as a reply, with a place among the streams that is free again when the reply ends.
pub(super) fn stream(
    permit: Result<OwnedSemaphorePermit, TryAcquireError>,
    events: impl Stream<Item = Result<Event, Infallible>> + Send + 'static,
) -> Answer<Response> {
    let Ok(permit) = permit else {
        return Err(Problem::busy(format!(
            "{MAX_STREAMS} live views are open already. Close one, or read it without its events."
        )));
    };
    let held = events.map(move |event| {
        let _held = &permit;
        event
    });
    let heartbeat = KeepAlive::new().interval(HEARTBEAT);
    let mut response = Sse::new(held).keep_alive(heartbeat).into_response();
    response
        .headers_mut()
        .insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

/// The events of something whose changes are told: `progress` with what `look` says whenever that is other than
/// before, and `state` with the last of it, once `look` says that nothing more will come.
pub(super) fn follow(
    api: &Api,
    changed: watch::Receiver<u64>,
    look: impl FnMut() -> (Value, bool) + Send + 'static,
) -> Answer<Response> {
    let start = (changed, look, Value::Null, false);
    let events = unfold(start, |(mut changed, mut look, before, over)| async move {
        if over {
            return None;
        }
        loop {
            // Seen before looking: a change in between wakes the next wait.
            changed.mark_unchanged();
            let (told, over) = look();
            if over || told != before {
                let kind = if over { "state" } else { "progress" };
                let event = Event::default().event(kind).data(told.to_string());
                return Some((Ok::<_, Infallible>(event), (changed, look, told, over)));
            }
            // Whoever tells is gone: the next look says how it ended.
            if changed.changed().await.is_err() {
                let (told, _) = look();
                let event = Event::default().event("state").data(told.to_string());
                return Some((Ok(event), (changed, look, told, true)));
            }
        }
    });
    stream(Arc::clone(&api.streams).try_acquire_owned(), events)
}
