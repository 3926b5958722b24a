//! Who may ask the dashboard for what, and where tests may be sent.

mod access;
mod book;
pub mod cidr;
mod deadline;
mod headers;
mod host;
mod origin;
mod sanity;
pub mod target;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use tower_http::catch_panic::CatchPanicLayer;

pub use self::access::{Access, Concerns, Opened, Visitor, secret};
pub use self::book::{Denied, Scope};
pub use self::host::Hosts;

/// What [`secure`] needs to know.
#[derive(Clone, Debug)]
pub struct GuardConfig {
    /// The host names that the dashboard answers to.
    pub hosts: Hosts,
    /// Who may do what.
    pub access: Arc<Access>,
    /// From a request's head to the head of its reply, its body included; what streams afterwards may take its time.
    pub handler_limit: Duration,
}

impl GuardConfig {
    /// The guard of a dashboard that is bound at these addresses.
    pub fn new(
        bound: &[SocketAddr],
        allow_hosts: &[String],
        public_url: Option<&url::Url>,
    ) -> Self {
        Self {
            hosts: Hosts::new(bound, allow_hosts, public_url),
            access: Access::open(),
            handler_limit: Duration::from_secs(10),
        }
    }
}

/// Puts the dashboard's rules around a router; the first layer here is the last to see a request.
///
/// `/healthz` answers whatever host it is asked for, without login, and says nothing but `ok`.
pub fn secure(router: Router, config: GuardConfig) -> Router {
    let config = Arc::new(config);
    router
        .layer(from_fn_with_state(Arc::clone(&config), deadline::bound))
        .layer(from_fn_with_state(Arc::clone(&config), origin::same_site))
        .layer(from_fn_with_state(Arc::clone(&config), access::check))
        .layer(CatchPanicLayer::custom(panicked))
        .layer(from_fn(deadline::limit_body))
        .layer(from_fn_with_state(config, host::known))
        .layer(from_fn(sanity::check))
        .layer(from_fn(headers::add))
}

/// Puts the one rule of the workload's port around its router: exactly one Host.
pub fn one_host(router: Router) -> Router {
    router.layer(from_fn(sanity::check_host))
}

/// The largest request body.
pub const BODY_LIMIT: usize = 64 * 1024;

/// The largest text of another tool that can be imported.
pub const IMPORT_LIMIT: usize = 8 * 1024 * 1024;

/// A request that the guard refuses; the sentence says what would pass.
fn refuse(status: StatusCode, sentence: &str, request: &HeaderMap, path: &str) -> Response {
    let wants_json = path.starts_with("/api/")
        || request
            .get(header::ACCEPT)
            .is_some_and(|accept| accept.as_bytes().starts_with(b"application/"));
    let mut response = if wants_json {
        let problem = serde_json::json!({
            "type": "about:blank",
            "title": status.canonical_reason(),
            "status": status.as_u16(),
            "detail": sentence,
        });
        (
            status,
            [(header::CONTENT_TYPE, "application/problem+json")],
            problem.to_string(),
        )
            .into_response()
    } else {
        (status, format!("{sentence}\n")).into_response()
    };
    if status == StatusCode::METHOD_NOT_ALLOWED {
        response
            .headers_mut()
            .insert(header::ALLOW, HeaderValue::from_static(sanity::METHODS));
    }
    response
}

/// The same, for a request after which the connection cannot be trusted to be in step.
fn refuse_and_close(
    status: StatusCode,
    sentence: &str,
    request: &HeaderMap,
    path: &str,
) -> Response {
    let mut response = refuse(status, sentence, request, path);
    response
        .headers_mut()
        .insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// The panic itself is in the log; the person gets a way on.
fn panicked(_: Box<dyn std::any::Any + Send>) -> Response {
    (
        StatusCode::INTERNAL_SERVER_ERROR,
        "Something went wrong inside; the log on standard error says where. Other pages still work.\n",
    )
        .into_response()
}
