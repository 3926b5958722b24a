//! The JSON API: one table of calls, from which both the router and its description are made.

mod body;
mod events;
mod experiments;
mod first_minute;
mod import;
mod list;
mod metrics;
mod node;
mod openapi;
mod peers;
mod problem;
mod receivers;
mod runs;
mod selftest;

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::routing::{MethodRouter, any, delete, get, patch, post};
use tokio::sync::Semaphore;

use self::problem::Problem;
use crate::guard::Visitor;
use crate::serve::Peer;
use crate::state::AppState;

/// One call of the API: its place, what it does, what it takes and gives.
pub(crate) struct Call {
    method: &'static str,
    /// As axum and OpenAPI both write it: `/api/runs/{id}`.
    path: &'static str,
    summary: &'static str,
    /// Its parameters, each with what it means.
    query: &'static [(&'static str, &'static str)],
    /// The schema of its body.
    body: Option<&'static str>,
    /// Status, media type and schema of its reply.
    reply: (u16, &'static str, Option<&'static str>),
    /// Other statuses that it may answer.
    faults: &'static [u16],
    handler: fn() -> MethodRouter<Api>,
}

/// What every call has at hand.
#[derive(Clone)]
struct Api {
    state: AppState,
    /// Live views that may still be opened.
    streams: Arc<Semaphore>,
    /// What `/api/openapi.json` says.
    description: Arc<serde_json::Value>,
}

const JSON: &str = "application/json";
const NONE: &str = "";

const CALLS: &[Call] = &[
    Call {
        method: "GET",
        path: "/api/runs",
        summary: "Lists runs, newest first.",
        query: &[
            (
                "kind",
                "Only this kind: throughput, rate, users, ping, fetch or path.",
            ),
            ("state", "Only runs in this state."),
            ("tag", "Only runs with this tag."),
            ("target", "Only runs to this URL, host:port or host."),
            (
                "text",
                "Only runs with these characters in command, target, node, note, title or tags.",
            ),
            (
                "from",
                "Only runs asked for at this time (RFC 3339) or later.",
            ),
            ("until", "Only runs asked for before this time (RFC 3339)."),
            ("baseline", "Only baselines (true) or all others (false)."),
            ("limit", "At most this many, 1 to 500; 50 when not given."),
            (
                "before",
                "Only runs with a smaller id: the `next` of the page before.",
            ),
        ],
        body: None,
        reply: (200, JSON, Some("RunList")),
        faults: &[422],
        handler: || get(runs::list),
    },
    Call {
        method: "POST",
        path: "/api/runs",
        summary: "Starts a run from a plan or a pasted command line; it waits for its turn.",
        query: &[],
        body: Some("NewRun"),
        reply: (201, JSON, Some("Run")),
        faults: &[400, 413, 415, 422, 503, 507],
        handler: || post(runs::start),
    },
    Call {
        method: "GET",
        path: "/api/runs/{id}",
        summary: "Shows a run, with its figures so far while it runs.",
        query: &[],
        body: None,
        reply: (200, JSON, Some("Run")),
        faults: &[404],
        handler: || get(runs::show),
    },
    Call {
        method: "PATCH",
        path: "/api/runs/{id}",
        summary: "Changes a run's note, tags or baseline.",
        query: &[],
        body: Some("RunPatch"),
        reply: (200, JSON, Some("Run")),
        faults: &[400, 404, 413, 415, 422],
        handler: || patch(runs::change),
    },
    Call {
        method: "DELETE",
        path: "/api/runs/{id}",
        summary: "Deletes a run that has ended, with its samples.",
        query: &[],
        body: None,
        reply: (204, NONE, None),
        faults: &[404, 409],
        handler: || delete(runs::delete),
    },
    Call {
        method: "POST",
        path: "/api/runs/{id}/cancel",
        summary: "Stops a run that waits or runs; it ends cancelled with what it has.",
        query: &[],
        body: None,
        reply: (202, JSON, Some("Run")),
        faults: &[404, 409],
        handler: || post(runs::cancel),
    },
    Call {
        method: "GET",
        path: "/api/runs/{id}/events",
        summary: "Sends the run so far and what comes as events: interval, progress, and state at the end. \
                  Last-Event-ID resumes; 204 says that the end was seen before.",
        query: &[],
        body: None,
        reply: (200, "text/event-stream", None),
        faults: &[204, 404, 503],
        handler: || get(events::events),
    },
    Call {
        method: "POST",
        path: "/api/import",
        summary: "Makes runs of what iperf, iperf3 (-J too), httperf, siege or ping printed: text as it is, up to 8 MiB. \
                  Answers the first run, and in imported_runs the ids of all that the text holds.",
        query: &[
            ("note", "A note for each of them."),
            ("tags", "Their tags, separated by commas."),
        ],
        body: Some("ImportedText"),
        reply: (201, JSON, Some("ImportedRun")),
        faults: &[413, 415, 422, 507],
        handler: || post(import::import),
    },
    Call {
        method: "GET",
        path: "/api/experiments",
        summary: "Lists experiments, newest first; their points without figures.",
        query: &[
            ("kind", "Only this kind: sweep, series or paired."),
            ("state", "Only experiments in this state."),
            ("limit", "At most this many, 1 to 100; 20 when not given."),
            (
                "before",
                "Only experiments with a smaller id: the `next` of the page before.",
            ),
        ],
        body: None,
        reply: (200, JSON, Some("ExperimentList")),
        faults: &[422],
        handler: || get(experiments::list),
    },
    Call {
        method: "POST",
        path: "/api/experiments",
        summary: "Starts an experiment: a plan varied (vary), repeated, or two in turn (paired). \
                  Its runs go one after another.",
        query: &[],
        body: Some("NewExperiment"),
        reply: (201, JSON, Some("Experiment")),
        faults: &[400, 413, 415, 422, 503, 507],
        handler: || post(experiments::start),
    },
    Call {
        method: "GET",
        path: "/api/experiments/{id}",
        summary: "Shows an experiment with its runs so far.",
        query: &[],
        body: None,
        reply: (200, JSON, Some("Experiment")),
        faults: &[404],
        handler: || get(experiments::show),
    },
    Call {
        method: "DELETE",
        path: "/api/experiments/{id}",
        summary: "Deletes an experiment that has ended, with all its runs.",
        query: &[],
        body: None,
        reply: (204, NONE, None),
        faults: &[404, 409],
        handler: || delete(experiments::delete),
    },
    Call {
        method: "POST",
        path: "/api/experiments/{id}/cancel",
        summary: "Stops an experiment that waits or runs; it ends cancelled with the runs that it has.",
        query: &[],
        body: None,
        reply: (202, JSON, Some("Experiment")),
        faults: &[404, 409],
        handler: || post(experiments::cancel),
    },
    Call {
        method: "GET",
        path: "/api/experiments/{id}/events",
        summary: "Sends the runs that have ended and what comes as events: point, progress, and state at the end. \
                  Last-Event-ID resumes; 204 says that the end was seen before.",
        query: &[],
        body: None,
        reply: (200, "text/event-stream", None),
        faults: &[204, 404, 503],
        handler: || get(experiments::events),
    },
    Call {
        method: "GET",
        path: "/api/peers",
        summary: "Lists the registered peers by name.",
        query: &[],
        body: None,
        reply: (200, JSON, Some("PeerList")),
        faults: &[],
        handler: || get(peers::list),
    },
    Call {
        method: "POST",
        path: "/api/peers",
        summary: "Registers a peer, so that tests may go to its addresses.",
        query: &[],
        body: Some("Peer"),
        reply: (201, JSON, Some("Peer")),
        faults: &[400, 409, 413, 415, 422],
        handler: || post(peers::register),
    },
    Call {
        method: "GET",
        path: "/api/peers/{name}",
        summary: "Shows a peer.",
        query: &[],
        body: None,
        reply: (200, JSON, Some("Peer")),
        faults: &[404],
        handler: || get(peers::show),
    },
    Call {
        method: "PATCH",
        path: "/api/peers/{name}",
        summary: "Changes the fields of a peer that are named; null clears an optional one.",
        query: &[],
        body: Some("PeerPatch"),
        reply: (200, JSON, Some("Peer")),
        faults: &[400, 404, 409, 413, 415, 422],
        handler: || patch(peers::change),
    },
    Call {
        method: "DELETE",
        path: "/api/peers/{name}",
        summary: "Forgets a peer; tests may no longer go there.",
        query: &[],
        body: None,
        reply: (204, NONE, None),
        faults: &[404],
        handler: || delete(peers::delete),
    },
    Call {
        method: "POST",
        path: "/api/peers/{name}/check",
        summary: "Probes each port of a peer: open, refused or no_answer, with what to do.",
        query: &[],
        body: None,
        reply: (200, JSON, Some("PeerCheck")),
        faults: &[404],
        handler: || post(peers::check),
    },
    Call {
        method: "GET",
        path: "/api/peers/{name}/check",
        summary: "Shows the last check of a peer since the program started.",
        query: &[],
        body: None,
        reply: (200, JSON, Some("PeerCheck")),
        faults: &[404],
        handler: || get(peers::last_check),
    },
    Call {
        method: "GET",
        path: "/api/receivers",
        summary: "Lists the built-in iperf receivers: where they listen, what they serve, whom they turned away.",
        query: &[],
        body: None,
        reply: (200, JSON, Some("ReceiverList")),
        faults: &[],
        handler: || get(receivers::list),
    },
    Call {
        method: "POST",
        path: "/api/receivers/{dialect}/start",
        summary: "Starts a receiver, iperf2 or iperf3; one that runs is left alone.",
        query: &[],
        body: None,
        reply: (200, JSON, Some("Receiver")),
        faults: &[404, 409],
        handler: || post(receivers::start),
    },
    Call {
        method: "POST",
        path: "/api/receivers/{dialect}/stop",
        summary: "Stops a receiver; tests in progress end with what they have.",
        query: &[],
        body: None,
        reply: (200, JSON, Some("Receiver")),
        faults: &[404, 409],
        handler: || post(receivers::stop),
    },
    Call {
        method: "POST",
        path: "/api/selftest",
        summary: "Measures how exact and how strong this node's generator is; it waits for its turn like a run.",
        query: &[],
        body: Some("NewSelfTest"),
        reply: (202, JSON, Some("SelfTest")),
        faults: &[400, 409, 413, 415, 422, 503],
        handler: || post(selftest::start),
    },
    Call {
        method: "GET",
        path: "/api/selftest",
        summary: "Shows the last self-test, and how far one is that waits or runs.",
        query: &[],
        body: None,
        reply: (200, JSON, Some("SelfTest")),
        faults: &[404],
        handler: || get(selftest::show),
    },
    Call {
        method: "POST",
        path: "/api/selftest/cancel",
        summary: "Stops a self-test that waits or runs; nothing of it is kept.",
        query: &[],
        body: None,
        reply: (202, JSON, Some("SelfTest")),
        faults: &[409],
        handler: || post(selftest::cancel),
    },
    Call {
        method: "GET",
        path: "/api/selftest/events",
        summary: "Sends how far the self-test is as events: progress, and state at the end.",
        query: &[],
        body: None,
        reply: (200, "text/event-stream", None),
        faults: &[404, 503],
        handler: || get(selftest::watch),
    },
    Call {
        method: "POST",
        path: "/api/first-minute",
        summary: "Begins the first minute: six ordinary runs that show what this machine is good for.",
        query: &[],
        body: Some("NewFirstMinute"),
        reply: (202, JSON, Some("FirstMinute")),
        faults: &[400, 409, 413, 415, 422, 503],
        handler: || post(first_minute::start),
    },
    Call {
        method: "GET",
        path: "/api/first-minute",
        summary: "Shows the first minute that runs, or the last one.",
        query: &[],
        body: None,
        reply: (200, JSON, Some("FirstMinute")),
        faults: &[404],
        handler: || get(first_minute::show),
    },
    Call {
        method: "POST",
        path: "/api/first-minute/cancel",
        summary: "Stops the first minute; what it has is kept.",
        query: &[],
        body: None,
        reply: (202, JSON, Some("FirstMinute")),
        faults: &[409],
        handler: || post(first_minute::cancel),
    },
    Call {
        method: "GET",
        path: "/api/first-minute/events",
        summary: "Sends where the first minute stands as events: progress, and state at the end.",
        query: &[],
        body: None,
        reply: (200, "text/event-stream", None),
        faults: &[404, 503],
        handler: || get(first_minute::watch),
    },
    Call {
        method: "GET",
        path: "/api/node",
        summary: "Says what this node is: name, machine, interfaces, versions, listeners.",
        query: &[],
        body: None,
        reply: (200, JSON, Some("Node")),
        faults: &[],
        handler: || get(node::node),
    },
    Call {
        method: "GET",
        path: "/api/capabilities",
        summary: "Says what may be started here: kinds, caps, targets.",
        query: &[],
        body: None,
        reply: (200, JSON, Some("Capabilities")),
        faults: &[],
        handler: || get(node::capabilities),
    },
    Call {
        method: "GET",
        path: "/metrics",
        summary: "Counts of workload, runs and process in the Prometheus text format.",
        query: &[],
        body: None,
        reply: (200, "text/plain", None),
        faults: &[],
        handler: || get(metrics::metrics),
    },
    Call {
        method: "GET",
        path: "/api/openapi.json",
        summary: "This description.",
        query: &[],
        body: None,
        reply: (200, JSON, None),
        faults: &[],
        handler: || get(openapi::show),
    },
];

/// Every call, as method and path.
pub fn calls() -> impl Iterator<Item = (&'static str, &'static str)> {
    CALLS.iter().map(|call| (call.method, call.path))
}

/// The routes of the API and `/metrics`; each other path below `/api/` answers 404 as a problem.
pub fn router(state: AppState) -> Router {
    let api = Api {
        state,
        streams: Arc::new(Semaphore::new(events::MAX_STREAMS)),
        description: Arc::new(openapi::describe(CALLS)),
    };
    let mut paths: BTreeMap<&str, (Vec<&str>, MethodRouter<Api>)> = BTreeMap::new();
    for call in CALLS {
        let (methods, routes) = paths.entry(call.path).or_default();
        methods.push(call.method);
        if call.method == "GET" {
            methods.push("HEAD");
        }
        *routes = std::mem::take(routes).merge((call.handler)());
    }
    let mut router = Router::new();
    for (path, (methods, routes)) in paths {
        let allowed = methods.join(", ");
        let other = any(move || {
            let allowed = allowed.clone();
            async move { Problem::method(allowed) }
        });
        router = router.route(path, routes.fallback_service(other.with_state(())));
    }
    router
        .route("/api/{*rest}", any(nothing_here))
        .with_state(api)
}

async fn nothing_here(method: Method, request: Request) -> Problem {
    let path: String = request.uri().path().chars().take(80).collect();
    Problem::new(
        StatusCode::NOT_FOUND,
        format!(
            "There is no call {method} {path} in this version. /api/openapi.json lists those that there are."
        ),
    )
}

/// Who calls: `api 127.0.0.1`, or `api admin at 10.0.0.7` where there is login.
fn actor(request: &Request) -> String {
    let visitor = Visitor::of(request.extensions());
    if visitor.login {
        return format!("api {}", visitor.name());
    }
    match request.extensions().get::<Peer>() {
        Some(Peer(address)) => format!("api {}", address.ip().to_canonical()),
        None => "api".to_owned(),
    }
}
