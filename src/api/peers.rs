//! Peers: the machines that tests may go to.

use axum::Json;
use axum::extract::{Path, Request, State as Shared};
use axum::http::{StatusCode, header};
use axum::response::Response;
use serde_json::{Value, json};

use super::body;
use super::problem::{Answer, Problem};
use super::{Api, actor};
use crate::guard::Concerns;
use crate::store::{Peer, Removal};
use crate::supervisor::PeerCheck;

/// `GET /api/peers`
pub(super) async fn list(Shared(api): Shared<Api>) -> Answer<Json<Value>> {
    let peers = api.state.store.peers().await?;
    Ok(Json(json!({ "peers": peers, "next": null })))
}

/// `POST /api/peers`
pub(super) async fn register(Shared(api): Shared<Api>, request: Request) -> Answer<Response> {
    let actor = actor(&request);
    let record = Value::Object(body::read(request).await?);
    let registered = api.state.supervisor.register_peer(&record, &actor).await;
    let peer = registered.map_err(|error| Problem::of_peer(error, ""))?;
    let about = peer.title();
    let name: String = url::form_urlencoded::byte_serialize(peer.name.as_bytes()).collect();
    let location = format!("/api/peers/{}", name.replace('+', "%20"));
    let answer = (
        StatusCode::CREATED,
        [(header::LOCATION, location)],
        Json(peer),
    );
    Ok(Concerns::mark(about, answer))
}

/// `GET /api/peers/{name}`
pub(super) async fn show(Shared(api): Shared<Api>, Path(name): Path<String>) -> Answer<Json<Peer>> {
    let peer = api.state.store.peer(name.clone()).await?;
    peer.map(Json).ok_or_else(|| Problem::no_peer(&name))
}

/// `PATCH /api/peers/{name}`
pub(super) async fn change(
    Shared(api): Shared<Api>,
    Path(name): Path<String>,
    request: Request,
) -> Answer<Json<Peer>> {
    let actor = actor(&request);
    let record = Value::Object(body::read(request).await?);
    let changed = api
        .state
        .supervisor
        .change_peer(&name, &record, &actor)
        .await;
    changed
        .map(Json)
        .map_err(|error| Problem::of_peer(error, &name))
}

/// `DELETE /api/peers/{name}`
pub(super) async fn delete(
    Shared(api): Shared<Api>,
    Path(name): Path<String>,
) -> Answer<StatusCode> {
    match api.state.store.delete_peer(name.clone()).await? {
        Removal::Done => Ok(StatusCode::NO_CONTENT),
        Removal::Missing | Removal::NameTaken => Err(Problem::no_peer(&name)),
    }
}

/// `POST /api/peers/{name}/check`
pub(super) async fn check(
    Shared(api): Shared<Api>,
    Path(name): Path<String>,
) -> Answer<Json<PeerCheck>> {
    let check = api.state.supervisor.check_peer(&name).await;
    check
        .map(Json)
        .map_err(|error| Problem::of_peer(error, &name))
}

/// `GET /api/peers/{name}/check`
pub(super) async fn last_check(
    Shared(api): Shared<Api>,
    Path(name): Path<String>,
) -> Answer<Json<PeerCheck>> {
    let peer = api.state.store.peer(name.clone()).await?;
    let peer = peer.ok_or_else(|| Problem::no_peer(&name))?;
    api.state.supervisor.last_check(&peer).map(Json).ok_or_else(|| {
        Problem::new(
            StatusCode::NOT_FOUND,
            "This peer has not been checked since the program started, or not since it was changed: POST here to check it.",
        )
    })
}
