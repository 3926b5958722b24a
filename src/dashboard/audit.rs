//! The audit log as a page and as CSV: who started what against whom, and who was refused.

use askama::Template;
use axum::extract::State as Shared;
use axum::http::StatusCode;
use axum::response::Response;

use crate::dashboard::context::{self, Visit};
use crate::dashboard::download::{self, CSV};
use crate::dashboard::error::Trouble;
use crate::dashboard::frame::{Frame, Place, page};
use crate::dashboard::words;
use crate::report::csv::Cell;
use crate::state::AppState;
use crate::store::Deed;

/// Rows on one page.
const PAGE: usize = 100;
/// Rows of the CSV read at a time.
const AT_A_TIME: usize = 1000;

const COLUMNS: [&str; 7] = ["id", "at", "who", "address", "action", "target", "status"];

#[derive(Template)]
#[template(path = "audit.html")]
struct AuditPage {
    frame: Frame,
    lines: Vec<Line>,
    older: Option<String>,
    newest: bool,
}

struct Line {
    machine_time: String,
    when: String,
    deed: Deed,
    /// `done` or why not.
    outcome: &'static str,
    refused: bool,
}

/// Answers `GET /audit`, with `?before=` for older rows.
pub async fn show(visit: Visit, Shared(state): Shared<AppState>) -> Response {
    let before = url::form_urlencoded::parse(visit.query().as_bytes())
        .find(|(name, _)| name == "before")
        .and_then(|(_, value)| value.parse().ok());
    let deeds = match state.store.deeds(before, PAGE).await {
        Ok(deeds) => deeds,
        Err(error) => return Trouble::storage(&error).answer(visit.frame()),
    };
    let older = deeds
        .last()
        .filter(|_| deeds.len() == PAGE)
        .map(|deed| context::query("/audit", &[("before", &deed.id.to_string())]));
    page(
        StatusCode::OK,
        &AuditPage {
            frame: visit.frame().at(Place::Nowhere, "Audit log"),
            lines: deeds.into_iter().map(line).collect(),
            older,
            newest: before.is_some(),
        },
    )
}

fn line(deed: Deed) -> Line {
    let outcome = match deed.status {
        401 => "not logged in",
        403 => "not allowed",
        429 => "too many tries",
        400..500 => "refused",
        500.. => "failed",
        _ => "done",
    };
    Line {
        machine_time: words::machine_time(deed.at),
        when: words::when(deed.at),
        refused: deed.status >= 400,
        outcome,
        deed,
    }
}

/// Answers `GET /audit.csv`: all rows, newest first.
pub async fn csv(visit: Visit, Shared(state): Shared<AppState>) -> Response {
    let options = download::options(visit.query());
    let (sender, body) = download::requests::channel();
    tokio::spawn(async move {
        let mut text = options.header(&COLUMNS);
        let mut before = None;
        loop {
            let deeds = match state.store.deeds(before, AT_A_TIME).await {
                Ok(deeds) => deeds,
                Err(error) => {
                    let _ = sender.send(Err(std::io::Error::other(error))).await;
                    return;
                }
            };
            before = deeds.last().map(|deed| deed.id);
            text.extend(deeds.iter().map(|deed| {
                options.row(&[
                    Cell::Id(deed.id),
                    Cell::Time(deed.at),
                    Cell::Text(deed.who.clone()),
                    Cell::Text(deed.address.clone()),
                    Cell::Text(deed.action.clone()),
                    Cell::Text(deed.target.clone()),
                    Cell::Count(u64::from(deed.status)),
                ])
            }));
            let more = deeds.len() == AT_A_TIME;
            let part = std::mem::take(&mut text);
            if sender.send(Ok(part.into())).await.is_err() || !more {
                return;
            }
        }
    });
    download::named("tidemark-audit.csv", CSV, body)
}
