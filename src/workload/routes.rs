//! The workload port: `/`, `/health-check`, and the headers that load balancers and their users look for.

use std::convert::Infallible;
use std::fmt::{Display, Write};
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{
    ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HOST, HeaderName, HeaderValue, RETRY_AFTER,
};
use axum::http::{HeaderMap, Method, StatusCode, Version};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::any;

use crate::workload::mandelbrot::{CENTRE, MAX_ITER, SIDE, SPAN, Work};
use crate::workload::pool::Finished;
use crate::workload::{Render, Workload};

const SERVED_BY: HeaderName = HeaderName::from_static("x-served-by");
const REGION: HeaderName = HeaderName::from_static("x-region");
const ITERATIONS: HeaderName = HeaderName::from_static("x-iterations");
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");
const PNG: HeaderValue = HeaderValue::from_static("image/png");
const METHODS: &str = "GET, HEAD, OPTIONS";

pub(super) fn router(workload: Arc<Workload>) -> axum::Router {
    axum::Router::new()
        .route("/", any(picture))
        .route("/health-check", any(health_check))
        .fallback(elsewhere)
        .layer(middleware::from_fn_with_state(
            Arc::clone(&workload),
            identify,
        ))
        .with_state(workload)
}

async fn picture(State(workload): State<Arc<Workload>>, request: Request) -> Response {
    match *request.method() {
        Method::GET | Method::HEAD => {}
        Method::OPTIONS => return options(),
        _ => return not_allowed(),
    }
    let work = match asked(request.uri().query().unwrap_or_default()) {
        Ok(work) => work,
        Err(sentence) => return (StatusCode::BAD_REQUEST, sentence + "\n").into_response(),
    };
    if request.method() == Method::HEAD {
        return ([(CONTENT_TYPE, PNG)], nothing_of_unknown_length()).into_response();
    }
    if is_bare_probe(request.version(), request.headers()) {
        return "A request of HTTP/1.0 without a Host header is taken for a probe and gets no picture.\n"
            .into_response();
    }
    let Ok(ticket) = workload.pool.submit(Render::new(work)) else {
        return (
            StatusCode::SERVICE_UNAVAILABLE,
            [(RETRY_AFTER, "1")],
            "Every place in the queue is taken; try again in a second.\n",
        )
            .into_response();
    };
    // A client that goes away drops this future, and with it the ticket.
    match ticket.finished().await {
        Ok(finished) => delivered(finished),
        Err(_) => (
            StatusCode::INTERNAL_SERVER_ERROR,
            "The picture could not be computed.\n",
        )
            .into_response(),
    }
}

fn delivered(finished: Finished<Render>) -> Response {
    let Finished { task, waited } = finished;
    let mut timing = String::new();
    for (phase, took) in [
        ("queue", waited),
        ("compute", task.compute),
        ("encode", task.encode),
    ] {
        let separator = if timing.is_empty() { "" } else { ", " };
        // Writing to a string does not fail.
        let _ = write!(timing, "{separator}{phase};dur={:.3}", ms(took));
    }
    (
        [
            (CONTENT_TYPE, "image/png".to_owned()),
            (ITERATIONS, task.iterations.to_string()),
            (SERVER_TIMING, timing),
        ],
        task.png,
    )
        .into_response()
}

fn ms(took: Duration) -> f64 {
    took.as_secs_f64() * 1000.0
}

async fn health_check(State(workload): State<Arc<Workload>>, method: Method) -> Response {
    match method {
        Method::GET | Method::HEAD if workload.status().draining => {
            StatusCode::SERVICE_UNAVAILABLE.into_response()
        }
        Method::GET | Method::HEAD => StatusCode::OK.into_response(),
        Method::OPTIONS => options(),
        _ => not_allowed(),
    }
}

async fn elsewhere(request: Request) -> Response {
    if request.method() == Method::OPTIONS && request.uri().path() == "*" {
        return options();
    }
    (
        StatusCode::NOT_FOUND,
        "There are / and /health-check here.\n",
    )
        .into_response()
}

fn options() -> Response {
    [(ALLOW, METHODS)].into_response()
}

fn not_allowed() -> Response {
    (
        StatusCode::METHOD_NOT_ALLOWED,
        [(ALLOW, METHODS)],
        "Ask with GET, HEAD or OPTIONS.\n",
    )
        .into_response()
}

/// An empty body that makes no `Content-Length: 0`: that would say how long the picture is (RFC 9110, 9.3.2).
fn nothing_of_unknown_length() -> Body {
    Body::from_stream(futures_util::stream::empty::<Result<Vec<u8>, Infallible>>())
}

/// Load balancers probe with HTTP/1.0 and no Host; proxies and clients that want a picture over HTTP/1.0 name the host.
fn is_bare_probe(version: Version, headers: &HeaderMap) -> bool {
    version < Version::HTTP_11 && !headers.contains_key(HOST)
}

/// Puts the headers of every reply in.
async fn identify(State(workload): State<Arc<Workload>>, request: Request, next: Next) -> Response {
    let request_id = request
        .headers()
        .get(REQUEST_ID)
        .filter(|id| is_plain_id(id))
        .cloned();
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(SERVED_BY, workload.served_by.clone());
    if let Some(region) = &workload.region {
        headers.insert(REGION, region.clone());
    }
    if let Some(id) = request_id {
        headers.insert(REQUEST_ID, id);
    }
    if workload.places.is_some() {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Visible ASCII of a reasonable length; anything else is not repeated.
fn is_plain_id(id: &HeaderValue) -> bool {
    let bytes = id.as_bytes();
    (1..=128).contains(&bytes.len()) && bytes.iter().all(u8::is_ascii_graphic)
}

/// The picture that a query asks for; a sentence where it cannot be had. Unknown keys are left alone, since clients add
/// such against caches.
fn asked(query: &str) -> Result<Work, String> {
    let mut named = Work::STANDARD;
    let (mut width, mut height, mut max_iter) = (None::<u32>, None::<u32>, None);
    let (mut re, mut im, mut span) = (None, None, None);
    for (key, value) in url::form_urlencoded::parse(query.as_bytes()) {
        match &*key {
            "work" => {
                named = Work::named(&value).ok_or_else(|| {
                    let word = shown(&value);
                    format!("work is {word}; it must be light, standard or heavy.")
                })?;
            }
            "width" => width = Some(number(&key, &value, "a whole number", &SIDE)?),
            "height" => height = Some(number(&key, &value, "a whole number", &SIDE)?),
            "max_iter" => max_iter = Some(number(&key, &value, "a whole number", &MAX_ITER)?),
            "re" => re = Some(number(&key, &value, "a number", &CENTRE)?),
            "im" => im = Some(number(&key, &value, "a number", &CENTRE)?),
            "span" => span = Some(number(&key, &value, "a number", &SPAN)?),
            _ => {}
        }
    }
    // One side alone keeps the shape of 5 : 4.
    let size = match (width, height) {
        (Some(width), Some(height)) => (width, height),
        (Some(width), None) => (width, (width / 5 * 4).max(1)),
        (None, Some(height)) => ((height / 4).saturating_mul(5).max(1), height),
        (None, None) => (named.width(), named.height()),
    };
    let (real, imaginary, wide) = named.view();
    Work::new(
        size,
        max_iter.unwrap_or(named.max_iter()),
        (re.unwrap_or(real), im.unwrap_or(imaginary)),
        span.unwrap_or(wide),
    )
}

fn number<T: FromStr + Display>(
    key: &str,
    value: &str,
    kind: &str,
    limits: &RangeInclusive<T>,
) -> Result<T, String> {
    value.parse().map_err(|_| {
        let (least, most) = (limits.start(), limits.end());
        let word = shown(value);
        format!("{key} is {word}; it must be {kind} from {least} to {most}.")
    })
}

/// The first characters of what came, quoted and harmless.
fn shown(value: &str) -> String {
    let start: String = value.chars().take(40).collect();
    format!("{start:?}")
}

#[cfg(test)]
mod tests;
