//! The API reference for people: calls, plans, downloads, and lines that work as they stand.

use askama::Template;
use axum::extract::State as Shared;
use axum::http::StatusCode;
use axum::response::Response;

use crate::dashboard::context::{self, Visit};
use crate::dashboard::frame::{Frame, Place, page};
use crate::dashboard::words;
use crate::measure::plan::Caps;
use crate::state::AppState;

#[derive(Template)]
#[template(path = "api.html")]
struct ApiPage {
    frame: Frame,
    base: String,
    target: String,
    calls: &'static [Row],
    files: &'static [Row],
    caps: Vec<(&'static str, String)>,
}

/// A call or file, and what it does.
struct Row {
    name: &'static str,
    does: &'static str,
}

/// Answers `GET /api`.
pub async fn show(visit: Visit, Shared(state): Shared<AppState>) -> Response {
    let base = state.node.dashboard.first().map_or_else(
        || "http://127.0.0.1:8080".to_owned(),
        |address| format!("http://{address}"),
    );
    page(
        StatusCode::OK,
        &ApiPage {
            frame: visit.frame().at(Place::Api, "API"),
            base,
            target: context::workload_url(&state.node)
                .unwrap_or_else(|| "http://127.0.0.1:8000/".to_owned()),
            calls: CALLS,
            files: FILES,
            caps: caps(state.supervisor.caps()),
        },
    )
}

fn caps(caps: &Caps) -> Vec<(&'static str, String)> {
    vec![
        (
            "--max-rate",
            format!("{} per s", words::digits_short(caps.max_rate)),
        ),
        ("--max-users", words::count(caps.max_users.into())),
        ("--max-streams", words::count(caps.max_streams.into())),
        ("--max-duration", words::seconds(caps.max_duration_s)),
        ("--max-connections", words::count(caps.max_connections)),
    ]
}

const CALLS: &[Row] = &[
    Row {
        name: "POST /api/runs",
        does: "starts a run: {\"command\": \"httperf …\"} or {\"plan\": {…}}, and note, tags, objective beside it; 201 with Location",
    },
    Row {
        name: "GET /api/runs?kind=&state=&tag=&target=&limit=&before=",
        does: "lists runs, newest first: {\"runs\": […], \"next\": id or null}",
    },
    Row {
        name: "GET /api/runs/{id}",
        does: "one run: plan, figures, checks, verdict, objectives, environment",
    },
    Row {
        name: "POST /api/runs/{id}/cancel",
        does: "stops it; it ends cancelled with what it has; 202, or 409 when it has ended",
    },
    Row {
        name: "PATCH /api/runs/{id}",
        does: "changes note, tags, baseline",
    },
    Row {
        name: "DELETE /api/runs/{id}",
        does: "deletes it with its samples; 204, or 409 while it runs",
    },
    Row {
        name: "GET /api/runs/{id}/events",
        does: "server-sent events: interval, progress, and state at the end; Last-Event-ID resumes",
    },
    Row {
        name: "POST /api/import?note=&tags=",
        does: "makes runs of what iperf, iperf3 (-J too), httperf, siege or ping printed: the text is the body, up to 8 MiB; 201 with Location",
    },
    Row {
        name: "GET, POST /api/peers",
        does: "lists peers, registers one",
    },
    Row {
        name: "GET, PATCH, DELETE /api/peers/{name}",
        does: "shows, changes, forgets a peer",
    },
    Row {
        name: "POST /api/peers/{name}/check",
        does: "probes each port of a peer, TCP and UDP: open, refused or no_answer, with what to do and the firewall rules; takes some seconds",
    },
    Row {
        name: "GET /api/peers/{name}/check",
        does: "the last check since the program started; 404 before the first, and once the peer was changed",
    },
    Row {
        name: "GET /api/receivers",
        does: "the iperf 2 and iperf 3 receivers: where they listen, what they serve, whom they turned away",
    },
    Row {
        name: "POST /api/receivers/{iperf2|iperf3}/start, …/stop",
        does: "starts or stops one; 409 where its flag says off",
    },
    Row {
        name: "GET, POST /api/selftest",
        does: "the last self-test and how far one is that runs; makes one (202; {\"quick\": true} for 5 s instead of 25 s; 409 while one runs)",
    },
    Row {
        name: "POST /api/selftest/cancel, GET /api/selftest/events",
        does: "stops it; its progress as server-sent events",
    },
    Row {
        name: "GET, POST /api/first-minute",
        does: "the last first minute and how far one is that runs; begins one (202; {\"step_s\": 2} makes it shorter; 409 while one runs)",
    },
    Row {
        name: "POST /api/first-minute/cancel, GET /api/first-minute/events",
        does: "stops it and keeps what it has; where it stands as server-sent events",
    },
    Row {
        name: "GET /api/node",
        does: "this node: name, CPUs, interfaces, listeners, version",
    },
    Row {
        name: "GET /api/capabilities",
        does: "what this node may do: kinds of runs, limits, allowed targets",
    },
    Row {
        name: "GET /api/openapi.json",
        does: "all of this for machines, OpenAPI 3.1",
    },
    Row {
        name: "GET /metrics",
        does: "counters and gauges in Prometheus' text format",
    },
];

const FILES: &[Row] = &[
    Row {
        name: "summary.csv, summary.json",
        does: "one row: the run, then every figure, such as latency_ms_p99",
    },
    Row {
        name: "intervals.csv, intervals.json",
        does: "one row a second of an HTTP run; of throughput one for each interval and stream, and SUM; of a ping one for each packet, of a path one for each size that was tried",
    },
    Row {
        name: "requests.csv, requests.json",
        does: "HTTP: one row a request: the first 1 000 000 and every failure; X-Total-Rows says how many there were",
    },
    Row {
        name: "report.txt",
        does: "the text that the tool would print whose kind it is, so that scripts that read it go on working",
    },
    Row {
        name: "iperf.csv",
        does: "throughput: the columns of iperf 2's -y C",
    },
    Row {
        name: "histogram.hgrm",
        does: "HTTP and ping: HdrHistogram's percentile text, in ms",
    },
    Row {
        name: "charts/{name}.svg",
        does: "each chart of the report; ?theme=dark",
    },
    Row {
        name: "report.html",
        does: "the report as one file",
    },
];
