//! The login page: a token, or the link that the start printed, for a session's cookie.

use askama::Template;
use axum::Form;
use axum::extract::State as Shared;
use axum::extract::rejection::FormRejection;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};

use crate::dashboard::context::Visit;
use crate::dashboard::frame::{Frame, Place, page};
use crate::dashboard::launch;
use crate::dashboard::theme::local;
use crate::guard::{Concerns, Denied, Opened};
use crate::state::AppState;

#[derive(Template)]
#[template(path = "login.html")]
struct LoginPage {
    frame: Frame,
    /// Why the last try did not work; empty at the first.
    wrong: &'static str,
    /// Where the person wanted to go.
    next: String,
}

/// Answers `GET /login`; with `?code=` of the link it logs in.
pub async fn show(visit: Visit, Shared(state): Shared<AppState>) -> Response {
    let asked = |wanted: &str| {
        url::form_urlencoded::parse(visit.query().as_bytes())
            .find(|(name, _)| name == wanted)
            .map(|(_, value)| value.into_owned())
    };
    let next = asked("next").unwrap_or_else(|| "/".to_owned());
    if !state.access.is_needed() || visit.visitor().scope.is_some() {
        return Redirect::to(known(&next)).into_response();
    }
    let Some(code) = asked("code") else {
        return answer(&visit, StatusCode::OK, "", next);
    };
    match state.access.by_code(&code) {
        Ok(opened) => welcome(&visit, &opened, &next),
        Err(_) => answer(
            &visit,
            StatusCode::UNAUTHORIZED,
            "This link has been used, or is older than ten minutes.",
            next,
        ),
    }
}

/// Answers `POST /login`.
pub async fn submit(
    visit: Visit,
    Shared(state): Shared<AppState>,
    form: Result<Form<Vec<(String, String)>>, FormRejection>,
) -> Response {
    let values = match launch::read(form) {
        Ok(values) => values,
        Err(trouble) => return trouble.answer(visit.frame()),
    };
    let text = |name: &str| values.get(name).cloned().unwrap_or_default();
    let next = text("next");
    if !state.access.is_needed() {
        return Redirect::to(known(&next)).into_response();
    }
    let address = visit.visitor().address;
    match state.access.by_token(&text("token"), address) {
        Ok(opened) => welcome(&visit, &opened, &next),
        Err(Denied::Wrong) => {
            tracing::warn!(%address, "a token was not accepted");
            let wrong = "This is not a token of this dashboard.";
            answer(&visit, StatusCode::UNAUTHORIZED, wrong, next)
        }
        Err(Denied::TooMany(wait)) => {
            let wrong = "Too many wrong tokens within a minute: wait and try again.";
            let mut response = answer(&visit, StatusCode::TOO_MANY_REQUESTS, wrong, next);
            let seconds = HeaderValue::from(wait.as_secs().max(1));
            response.headers_mut().insert(header::RETRY_AFTER, seconds);
            response
        }
    }
}

/// Answers `POST /logout`.
pub async fn leave(Shared(state): Shared<AppState>, headers: HeaderMap) -> Response {
    let mut response = Redirect::to("/login").into_response();
    if let Some(cookie) = state.access.leave(&headers) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}

fn welcome(visit: &Visit, opened: &Opened, next: &str) -> Response {
    tracing::info!(
        address = %visit.visitor().address,
        scope = opened.scope.word(),
        "logged in"
    );
    let mut response = Redirect::to(known(next)).into_response();
    let cookie = opened.cookie.clone();
    response.headers_mut().insert(header::SET_COOKIE, cookie);
    Concerns::mark(format!("as {}", opened.scope.word()), response)
}

/// A page of this server to go on to; never out of it, and not straight out again.
fn known(next: &str) -> &str {
    match local(next) {
        out if out.starts_with("/login") || out.starts_with("/logout") => "/",
        page => page,
    }
}

fn answer(visit: &Visit, status: StatusCode, wrong: &'static str, next: String) -> Response {
    let mut response = page(
        status,
        &LoginPage {
            frame: visit.frame().at(Place::Nowhere, "Log in"),
            wrong,
            next,
        },
    );
    if status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(
            header::WWW_AUTHENTICATE,
            HeaderValue::from_static("Bearer realm=\"tidemark\""),
        );
    }
    response
}
