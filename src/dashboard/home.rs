//! The home page: the last finding, or this node's own picture where nothing was measured yet.

use askama::Template;
use axum::extract::State as Shared;
use axum::http::StatusCode;
use axum::response::Response;

use crate::dashboard::context::{self, Visit};
use crate::dashboard::error::Trouble;
use crate::dashboard::experiments;
use crate::dashboard::first_minute::{self, Track};
use crate::dashboard::frame::{Frame, Place, page};
use crate::dashboard::guides;
use crate::dashboard::launch;
use crate::dashboard::lines::{self, Line};
use crate::dashboard::picture;
use crate::dashboard::receivers::{self, Panel};
use crate::dashboard::run::view::{self, Beside, RunView};
use crate::dashboard::words;
use crate::measure::first_minute::Pace;
use crate::measure::plan::Kind;
use crate::measure::run::State;
use crate::report;
use crate::state::AppState;
use crate::store::Filter;

/// Findings on the page.
const FINDINGS: usize = 8;

#[derive(Template)]
#[template(path = "home.html")]
struct HomePage {
    frame: Frame,
    last: Option<RunView>,
    workload: String,
    picture: String,
    picture_words: String,
    now: Vec<Line>,
    /// Experiments that run or wait.
    experiments: Vec<experiments::list::Line>,
    findings: Vec<Line>,
    total: String,
    examples: Vec<Example>,
    hosts: Vec<(String, String)>,
    token: String,
    guides: Vec<guides::Line>,
    receivers: Vec<Panel>,
    node: Vec<NodeLine>,
    self_test: String,
    /// Whether the notebook is empty: then the page has one button.
    fresh: bool,
    takes: String,
    will: Vec<(&'static str, &'static str)>,
    track: Track,
}

struct Example {
    line: String,
    href: String,
}

struct NodeLine {
    name: &'static str,
    value: String,
    note: String,
}

/// Answers `GET /`.
pub async fn show(visit: Visit, Shared(state): Shared<AppState>) -> Response {
    match make(&visit, &state).await {
        Ok(home) => page(StatusCode::OK, &home),
        Err(trouble) => trouble.answer(visit.frame()),
    }
}

async fn make(visit: &Visit, state: &AppState) -> Result<HomePage, Trouble> {
    let read = |error| Trouble::storage(&error);
    let runs = state
        .store
        .runs(Filter::default(), None, FINDINGS * 3)
        .await
        .map_err(read)?;
    let total = state.store.count(Filter::default()).await.map_err(read)?;
    let registered = state.store.peers().await.map_err(read)?;
    let peers = registered.len() as u64;
    let ended: Vec<_> = runs.iter().filter(|run| run.state.is_final()).collect();
    let last = ended
        .iter()
        .find(|run| run.state == State::Finished)
        .map(|run| view::view(run, None, &Beside::default()));
    let open = state.supervisor.open_runs();
    let pace = Pace::default();
    let workload = context::workload_url(&state.node).unwrap_or_default();
    let title = if open.is_empty() {
        "tidemark".to_owned()
    } else {
        format!(
            "{} open · tidemark",
            words::plural(open.len() as u64, "run", "runs")
        )
    };
    let mut frame = visit.frame().at(
        Place::Nowhere,
        if total == 0 {
            "tidemark: nothing measured yet".to_owned()
        } else {
            title
        },
    );
    frame.reloads = false;
    Ok(HomePage {
        frame,
        last,
        picture: picture::PATH.to_owned(),
        picture_words: if workload.is_empty() {
            "The workload's picture. This node serves none: its workload is off.".to_owned()
        } else {
            "What the workload computes anew for every request: the Mandelbrot set.".to_owned()
        },
        now: open.iter().map(lines::line).collect(),
        experiments: experiments::list::open(state).await.map_err(read)?,
        findings: ended
            .iter()
            .take(FINDINGS)
            .map(|run| lines::line(run))
            .collect(),
        total: words::count(total),
        examples: examples(state),
        hosts: launch::page::hosts(&registered),
        token: launch::token(),
        guides: guides::lines(),
        receivers: receivers::panels(state),
        node: node(state, peers),
        self_test: state
            .store
            .last_self_test()
            .await
            .map_err(read)?
            .map_or_else(
                || {
                    "How exact and how strong its generator is has not been measured yet."
                        .to_owned()
                },
                |kept| report::self_test_sentence(&kept.figures),
            ),
        workload,
        fresh: total == 0,
        takes: format!(
            "about {}",
            words::seconds((pace.whole_s() / 10.0).ceil() * 10.0)
        ),
        will: first_minute::promises(),
        track: first_minute::track(&pace, None),
    })
}

/// Lines that work on this node as they stand.
fn examples(state: &AppState) -> Vec<Example> {
    example_lines(state)
        .into_iter()
        .map(|(_, line)| Example {
            href: context::query("/runs/new", &[("command", &line)]),
            line,
        })
        .collect()
}

/// A line of each tool, to what this node itself serves, with the kind of run that it asks for.
pub fn example_lines(state: &AppState) -> Vec<(Kind, String)> {
    let workload = context::workload_url(&state.node);
    let url = workload.as_deref().unwrap_or("http://127.0.0.1:8000/");
    let parsed = url::Url::parse(url).ok();
    let host = parsed
        .as_ref()
        .and_then(|url| url.host_str())
        .unwrap_or("127.0.0.1");
    let port = parsed
        .as_ref()
        .and_then(url::Url::port_or_known_default)
        .unwrap_or(8000);
    let mut lines = Vec::new();
    if let Some(own) = receivers::own_port(state) {
        let line = match own {
            5001 => "iperf -c 127.0.0.1 -P 4 -t 5".to_owned(),
            own => format!("iperf -c 127.0.0.1 -p {own} -P 4 -t 5"),
        };
        lines.push((Kind::Throughput, line));
    }
    lines.extend([
        (
            Kind::Rate,
            format!("httperf --server {host} --port {port} --num-conns 50 --rate 5"),
        ),
        (Kind::Users, format!("siege -c 4 -r 5 {url}")),
        (Kind::Ping, "ping -c 5 127.0.0.1".to_owned()),
        (
            Kind::Fetch,
            format!("curl -w '%{{time_total}}\\n' -o /dev/null -s {url}"),
        ),
        (Kind::Path, "tracepath 127.0.0.1".to_owned()),
    ]);
    lines
}

fn node(state: &AppState, peers: u64) -> Vec<NodeLine> {
    let facts = &state.node;
    let join = |addresses: &[std::net::SocketAddr]| {
        addresses
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(", ")
    };
    let local = facts
        .dashboard
        .iter()
        .all(|address| address.ip().is_loopback());
    let mut out = Vec::new();
    if facts.workload.is_empty() {
        out.push(NodeLine {
            name: "Workload",
            value: "off".to_owned(),
            note: "switched off by --workload off".to_owned(),
        });
    } else {
        out.push(NodeLine {
            name: "Workload",
            value: join(&facts.workload),
            note: state.workload_words(),
        });
    }
    out.push(NodeLine {
        name: "This dashboard",
        value: join(&facts.dashboard),
        note: if local {
            "only this machine can reach it".to_owned()
        } else {
            "other machines can reach it".to_owned()
        },
    });
    let mut allowed = vec!["this machine".to_owned()];
    allowed.extend(facts.allow.iter().cloned());
    out.push(NodeLine {
        name: "Tests may go to",
        value: allowed.join(", "),
        note: match peers {
            0 => "and to peers, once one is registered".to_owned(),
            number => format!("and to {}", words::plural(number, "peer", "peers")),
        },
    });
    out.push(NodeLine {
        name: "Answers are told apart by",
        value: facts.identity_header.clone(),
        note: format!("regions by {}", facts.region_header),
    });
    out
}
