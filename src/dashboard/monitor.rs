//! The monitor's page: which servers answer their health checks, and since when not.

use askama::Template;
use axum::Form;
use axum::extract::State as Shared;
use axum::extract::rejection::FormRejection;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};

use crate::chart::{self, UptimeLine};
use crate::dashboard::context::Visit;
use crate::dashboard::error::Trouble;
use crate::dashboard::fields::{self, ErrorLine, Field, FieldView, Input, Values};
use crate::dashboard::frame::{Frame, Place, page};
use crate::dashboard::launch;
use crate::dashboard::run::figures::{self, FigureView};
use crate::dashboard::words::{self, DASH};
use crate::measure::health::{down_s, spans};
use crate::measure::units;
use crate::state::AppState;
use crate::store::Peer;
use crate::supervisor::{MonitorView, Server};

const PLACE: &str = "/monitor";

#[derive(Template)]
#[template(path = "monitor.html")]
struct MonitorPage {
    frame: Frame,
    running: bool,
    title: String,
    what: String,
    errors: Vec<ErrorLine>,
    fields: Vec<FieldView>,
    figure: Option<FigureView>,
    rows: Vec<Row>,
}

struct Row {
    name: String,
    region: String,
    address: String,
    class: &'static str,
    state: String,
    took: String,
    checks: String,
    down: String,
}

const FIELDS: [Field; 2] = [
    Field {
        name: "peers",
        label: "Servers",
        hint: "Names of registered peers, with commas between; their workload port is asked",
        unit: "",
        class: "c4",
        input: Input::Text("text"),
        mono: false,
        list: "",
    },
    Field {
        name: "interval_s",
        label: "Every",
        hint: "The load-balancing tutorial checks every 60 s",
        unit: "s",
        class: "c2",
        input: Input::Text("decimal"),
        mono: false,
        list: "",
    },
];

/// Answers `GET /monitor`.
pub async fn show(visit: Visit, Shared(state): Shared<AppState>) -> Response {
    answer(&visit, &state, Values::new(), &[]).await
}

/// Answers `POST /monitor`: watches what the form names.
pub async fn start(
    visit: Visit,
    Shared(state): Shared<AppState>,
    sent: Result<Form<Vec<(String, String)>>, FormRejection>,
) -> Response {
    let values = match launch::read(sent) {
        Ok(values) => values,
        Err(trouble) => return trouble.answer(visit.frame()),
    };
    let peers = match state.store.peers().await {
        Ok(peers) => peers,
        Err(error) => return Trouble::storage(&error).answer(visit.frame()),
    };
    let text = |name: &str| values.get(name).map_or("", String::as_str);
    let fault = match (
        named(text("peers"), &peers),
        units::parse_number(text("interval_s")),
    ) {
        (Err(sentence), _) => ("peers", sentence),
        (_, Err(_)) => ("interval_s", "Write a number of seconds.".to_owned()),
        (Ok(servers), Ok(interval)) => match state.supervisor.start_monitor(servers, interval) {
            Ok(()) => return Redirect::to(PLACE).into_response(),
            Err(sentence) if sentence.contains("time between") => ("interval_s", sentence),
            Err(sentence) => ("peers", sentence),
        },
    };
    let faults = [(fault.0.to_owned(), fault.1)];
    answer(&visit, &state, values, &faults).await
}

/// Answers `POST /monitor/stop`.
pub async fn stop(Shared(state): Shared<AppState>) -> Response {
    state.supervisor.stop_monitor();
    Redirect::to(PLACE).into_response()
}

fn named(names: &str, peers: &[Peer]) -> Result<Vec<Server>, String> {
    names
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .map(|name| {
            let shown: String = name.chars().take(60).collect();
            let peer = peers
                .iter()
                .find(|peer| peer.name.eq_ignore_ascii_case(name))
                .ok_or_else(|| format!("There is no peer {shown:?}: register it first."))?;
            Server::of(peer).ok_or_else(|| format!("{shown} has no address."))
        })
        .collect()
}

/// Which peers are proposed: the lab's servers where it is registered, else all.
fn proposed(peers: &[Peer]) -> String {
    let is = |peer: &Peer, word: &str| peer.tags.iter().any(|tag| tag == word);
    let lab = peers.iter().any(|peer| is(peer, "lab"));
    let names: Vec<&str> = peers
        .iter()
        .filter(|peer| !lab || is(peer, "lab") && !is(peer, "front"))
        .filter(|peer| !peer.addresses().is_empty())
        .map(|peer| peer.name.as_str())
        .collect();
    names.join(", ")
}

async fn answer(
    visit: &Visit,
    state: &AppState,
    mut values: Values,
    faults: &[(String, String)],
) -> Response {
    let peers = match state.store.peers().await {
        Ok(peers) => peers,
        Err(error) => return Trouble::storage(&error).answer(visit.frame()),
    };
    let monitor = state.supervisor.monitor();
    let interval = monitor.as_ref().map_or(5.0, |monitor| monitor.interval_s);
    values
        .entry("peers".to_owned())
        .or_insert_with(|| proposed(&peers));
    values
        .entry("interval_s".to_owned())
        .or_insert_with(|| words::plain(interval));
    let running = monitor.as_ref().is_some_and(|monitor| monitor.running);
    let figure = monitor.as_ref().and_then(figure);
    let title = figure.as_ref().map_or_else(
        || "Which servers answer their health checks?".to_owned(),
        |figure| {
            figure
                .title
                .iter()
                .map(|piece| piece.text.as_str())
                .collect()
        },
    );
    let errors = fields::error_lines(&FIELDS, faults);
    let status = if errors.is_empty() {
        StatusCode::OK
    } else {
        StatusCode::UNPROCESSABLE_ENTITY
    };
    let built = MonitorPage {
        frame: visit.frame().at(
            Place::Peers,
            if running {
                format!("{title} · Monitor")
            } else {
                "Monitor".to_owned()
            },
        ),
        running,
        what: monitor.as_ref().map_or_else(
            || {
                "Nothing is watched. It begins when you start it, and ends with the program."
                    .to_owned()
            },
            |monitor| {
                format!(
                    "{} since {}, every {}",
                    if monitor.running {
                        "Watches"
                    } else {
                        "Watched"
                    },
                    words::when(monitor.since),
                    words::seconds(monitor.interval_s)
                )
            },
        ),
        title,
        errors,
        fields: fields::filled(&FIELDS, &values, faults),
        rows: monitor.as_ref().map(rows).unwrap_or_default(),
        figure,
    };
    let mut response = page(status, &built);
    if running && status == StatusCode::OK {
        // The page comes again by itself, with and without JavaScript.
        response
            .headers_mut()
            .insert(header::REFRESH, HeaderValue::from_static("3"));
    }
    response
}

fn figure(monitor: &MonitorView) -> Option<FigureView> {
    let lines: Vec<UptimeLine> = monitor
        .watched
        .iter()
        .map(|watched| UptimeLine {
            name: watched.server.name.clone(),
            spans: spans(watched.checks.iter(), monitor.since),
        })
        .collect();
    let drawn = vec![chart::uptime_figure(&lines)];
    let mut figure = figures::rows("", drawn, &[]).into_iter().flatten().next()?;
    figure.links = false;
    Some(figure)
}

fn rows(monitor: &MonitorView) -> Vec<Row> {
    monitor
        .watched
        .iter()
        .map(|watched| {
            let last = watched.checks.back();
            let good = watched.checks.iter().filter(|check| check.up).count();
            let lost = down_s(&spans(watched.checks.iter(), monitor.since));
            Row {
                name: watched.server.name.clone(),
                region: watched.server.region.clone().unwrap_or_default(),
                address: watched.server.address.to_string(),
                class: match last {
                    None => "muted",
                    Some(check) if check.up => "ok",
                    Some(_) => "bad",
                },
                state: last.map_or_else(
                    || "not checked yet".to_owned(),
                    |check| {
                        let mark = if check.up { "✓" } else { "✕" };
                        format!("{mark} {}", check.says())
                    },
                ),
                took: last
                    .filter(|check| check.status.is_some())
                    .map_or_else(|| DASH.to_owned(), |check| words::ms(Some(check.took_ms))),
                checks: words::percent(good as u64, watched.checks.len() as u64),
                down: if lost > 0.0 {
                    words::seconds(lost)
                } else {
                    DASH.to_owned()
                },
            }
        })
        .collect()
}
