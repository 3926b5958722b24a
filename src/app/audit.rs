//! Writes the audit log: every request that changes something, and every one that was refused to, whatever served it.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use http::{Method, header};

use crate::guard::{Concerns, Visitor};
use crate::net::clock;
use crate::store::{Deed, Store};

/// Refused requests that are written down within [`WINDOW`]: nobody can fill the log with them.
const REFUSED: u32 = 60;
const WINDOW: Duration = Duration::from_mins(1);

#[derive(Clone)]
struct Log {
    store: Store,
    refused: Arc<Mutex<(Instant, u32)>>,
}

/// Puts the log around everything, the guard included.
pub(super) fn around(router: Router, store: Store) -> Router {
    let refused = Arc::new(Mutex::new((clock::now(), 0)));
    router.layer(from_fn_with_state(Log { store, refused }, note))
}

impl Log {
    fn may_write_refusal(&self) -> bool {
        let mut counted = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let now = clock::now();
        if now.saturating_duration_since(counted.0) >= WINDOW {
            *counted = (now, 0);
        }
        counted.1 += 1;
        counted.1 <= REFUSED
    }
}

async fn note(State(log): State<Log>, request: Request, next: Next) -> Response {
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let entered = path == "/login" && request.uri().query().is_some_and(|it| it.contains("code="));
    let response = next.run(request).await;
    let reads = matches!(method, Method::GET | Method::HEAD);
    if reads && !entered || path == "/theme" {
        return response;
    }
    // Refused before anybody looked who asks: no host of ours, or no request at all.
    let Some(visitor) = response.extensions().get::<Visitor>().copied() else {
        return response;
    };
    let status = response.status();
    if status.is_client_error() && !log.may_write_refusal() {
        return response;
    }
    let made = response
        .headers()
        .get(header::LOCATION)
        .and_then(|place| place.to_str().ok())
        .unwrap_or_default();
    let deed = Deed {
        id: 0,
        at: clock::wall(),
        who: visitor.who(),
        address: visitor.address.to_string(),
        action: action(&method, &path, made),
        target: match response.extensions().get::<Concerns>() {
            Some(Concerns(target)) => target.chars().take(300).collect(),
            None => String::new(),
        },
        status: status.as_u16(),
    };
    if let Err(error) = log.store.add_deed(deed).await {
        tracing::error!(%error, "the audit log could not be written");
    }
    response
}

/// What was done, in words, with the number of what it made.
fn action(method: &Method, path: &str, made: &str) -> String {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let parts = match parts.as_slice() {
        ["api", rest @ ..] => rest,
        all => all,
    };
    let number = |kind: &str| {
        made.rsplit_once(&format!("/{kind}/"))
            .map(|(_, id)| id)
            .filter(|id| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit()))
            .map(|id| format!(" {id}"))
            .unwrap_or_default()
    };
    let cut: String = path.chars().take(100).collect();
    match (method.as_str(), parts) {
        (_, ["login"]) => "log in".to_owned(),
        (_, ["logout"]) => "log out".to_owned(),
        ("POST", ["runs"] | ["runs", "new"]) => format!("start run{}", number("runs")),
        ("POST", ["import"] | ["runs", "import"]) => format!("import run{}", number("runs")),
        ("POST", ["experiments"] | ["experiments", "new"]) => {
            format!("start experiment{}", number("experiments"))
        }
        ("POST", ["runs", id, "prove"]) => {
            format!("prove run {id}: experiment{}", number("experiments"))
        }
        ("POST", [kind @ ("runs" | "experiments"), id, "cancel"]) => {
            format!("stop {} {id}", kind.trim_end_matches('s'))
        }
        ("DELETE", [kind @ ("runs" | "experiments"), id])
        | ("POST", [kind @ ("runs" | "experiments"), id, "delete"]) => {
            format!("delete {} {id}", kind.trim_end_matches('s'))
        }
        ("PATCH", ["runs", id]) | ("POST", ["runs", id, "edit" | "baseline"]) => {
            format!("change run {id}")
        }
        ("POST", ["peers"]) => "register peer".to_owned(),
        ("POST", ["peers", name, "check"]) => format!("check peer {name}"),
        ("DELETE", ["peers", name]) | ("POST", ["peers", name, "delete"]) => {
            format!("forget peer {name}")
        }
        ("PATCH" | "POST", ["peers", name]) => format!("change peer {name}"),
        ("POST", ["receivers", "allow"]) => "allow a source at the receivers".to_owned(),
        ("POST", ["receivers", dialect, action]) => format!("{action} receiver {dialect}"),
        ("POST", ["selftest"]) => "start self-test".to_owned(),
        ("POST", ["selftest", "cancel"]) => "stop self-test".to_owned(),
        ("POST", ["first-minute"]) => "start first minute".to_owned(),
        ("POST", ["first-minute", "cancel"]) => "stop first minute".to_owned(),
        (method, _) => format!("{method} {cut}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_read_as_words() {
        for (method, path, made, words) in [
            (Method::POST, "/api/runs", "/api/runs/12", "start run 12"),
            (Method::POST, "/runs/new", "/runs/12", "start run 12"),
            (Method::POST, "/runs/new", "", "start run"),
            (
                Method::POST,
                "/api/experiments",
                "/api/experiments/3",
                "start experiment 3",
            ),
            (Method::DELETE, "/api/runs/4", "", "delete run 4"),
            (
                Method::POST,
                "/experiments/4/delete",
                "/experiments",
                "delete experiment 4",
            ),
            (Method::POST, "/runs/4/cancel", "/runs/4", "stop run 4"),
            (Method::POST, "/peers/b", "/peers", "change peer b"),
            (
                Method::POST,
                "/api/receivers/iperf2/stop",
                "",
                "stop receiver iperf2",
            ),
            (Method::GET, "/login", "/", "log in"),
            (Method::POST, "/guides/x/start", "", "POST /guides/x/start"),
        ] {
            assert_eq!(action(&method, path, made), words);
        }
    }
}
