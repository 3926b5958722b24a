//! The history: filters, newest first, page by page, as a page and as CSV.

use askama::Template;
use axum::extract::State as Shared;
use axum::http::StatusCode;
use axum::response::Response;
use jiff::{SignedDuration, Timestamp};

use crate::dashboard::context::{self, Visit};
use crate::dashboard::error::Trouble;
use crate::dashboard::frame::{Frame, Place, page};
use crate::dashboard::launch::form;
use crate::dashboard::lines::{self, Line};
use crate::dashboard::words;
use crate::measure::plan::Kind;
use crate::measure::run::State;
use crate::state::AppState;
use crate::store::Filter;

/// Runs on one page.
const PAGE: usize = 50;

/// The filter as it was typed.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// Kind.
    pub kind: String,
    /// State.
    pub state: String,
    /// Tag.
    pub tag: String,
    /// Target.
    pub target: String,
    /// Characters anywhere.
    pub text: String,
    /// First day.
    pub from: String,
    /// Last day.
    pub to: String,
    /// Only runs before this one.
    pub before: String,
}

#[derive(Template)]
#[template(path = "runs.html")]
struct RunsPage {
    frame: Frame,
    head: &'static str,
    counted: String,
    query: Query,
    filtered: bool,
    wrong: Vec<String>,
    kinds: Vec<(&'static str, bool)>,
    states: Vec<(&'static str, bool)>,
    lines: Vec<Line>,
    empty: &'static str,
    older: Option<String>,
    newest: Option<String>,
    csv: String,
}

impl Query {
    /// Reads a query string; names that are not known are left out.
    pub fn read(query: &str) -> Self {
        let mut out = Self::default();
        for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
            let value = value.trim().chars().take(200).collect();
            match &*name {
                "kind" => out.kind = value,
                "state" => out.state = value,
                "tag" => out.tag = value,
                "target" => out.target = value,
                "text" => out.text = value,
                "from" => out.from = value,
                "to" => out.to = value,
                "before" => out.before = value,
                _ => {}
            }
        }
        out
    }

    /// The filter that it means, and what was not understood.
    pub fn filter(&self) -> (Filter, Vec<String>) {
        let mut wrong = Vec::new();
        let mut known = |what: &str, value: &str, found: bool| {
            if !value.is_empty() && !found {
                wrong.push(format!("There is no {what} {value:?}."));
            }
        };
        let kind = form::kind_of(&self.kind);
        known("kind", &self.kind, kind.is_some());
        let state = State::from_word(&self.state);
        known("state", &self.state, state.is_some());
        let from = day(&self.from);
        known("day", &self.from, from.is_some());
        let last = day(&self.to);
        known("day", &self.to, last.is_some());
        let until = last.and_then(|day| {
            // A day means all of it; an instant means itself.
            if self.to.len() > 10 {
                Some(day)
            } else {
                day.checked_add(SignedDuration::from_hours(24)).ok()
            }
        });
        let text = |value: &str| (!value.is_empty()).then(|| value.to_owned());
        let filter = Filter {
            kind,
            state,
            tag: text(&self.tag),
            target: text(&self.target),
            text: text(&self.text),
            from,
            until,
            ..Filter::default()
        };
        (filter, wrong)
    }

    /// The run before which the page begins.
    pub fn before(&self) -> Option<i64> {
        self.before.parse().ok()
    }

    /// The address of the same list with another beginning.
    pub fn href(&self, path: &str, before: &str) -> String {
        context::query(
            path,
            &[
                ("kind", &self.kind),
                ("state", &self.state),
                ("tag", &self.tag),
                ("target", &self.target),
                ("text", &self.text),
                ("from", &self.from),
                ("to", &self.to),
                ("before", before),
            ],
        )
    }

    fn is_empty(&self) -> bool {
        self.href("", "").is_empty()
    }
}

/// Answers `GET /runs`.
pub async fn show(visit: Visit, Shared(state): Shared<AppState>) -> Response {
    match make(&visit, &state).await {
        Ok(runs) => page(
            if runs.wrong.is_empty() {
                StatusCode::OK
            } else {
                StatusCode::UNPROCESSABLE_ENTITY
            },
            &runs,
        ),
        Err(trouble) => trouble.answer(visit.frame()),
    }
}

async fn make(visit: &Visit, state: &AppState) -> Result<RunsPage, Trouble> {
    let read = |error| Trouble::storage(&error);
    let query = Query::read(visit.query());
    let (filter, wrong) = query.filter();
    let all = state.store.count(Filter::default()).await.map_err(read)?;
    let (found, mut runs) = if wrong.is_empty() {
        (
            state.store.count(filter.clone()).await.map_err(read)?,
            state
                .store
                .runs(filter, query.before(), PAGE + 1)
                .await
                .map_err(read)?,
        )
    } else {
        (0, Vec::new())
    };
    let more = runs.len() > PAGE;
    runs.truncate(PAGE);
    let open = state.supervisor.open_runs();
    for run in &mut runs {
        if let Some(live) = open.iter().find(|live| live.id == run.id) {
            run.clone_from(live);
        }
    }
    let older = more
        .then(|| {
            runs.last()
                .map(|run| query.href("/runs", &run.id.to_string()))
        })
        .flatten();
    let filtered = !query.is_empty();
    Ok(RunsPage {
        frame: visit.frame().at(Place::Runs, "Runs"),
        head: if filtered {
            "Runs that pass the filter"
        } else {
            "Everything that was measured here"
        },
        counted: if filtered {
            format!("{} of {}", words::count(found), words::count(all))
        } else {
            words::plural(all, "run", "runs")
        },
        kinds: Kind::ALL
            .map(|kind| (kind.word(), kind.word() == query.kind))
            .to_vec(),
        states: State::ALL
            .map(|state| (state.word(), state.word() == query.state))
            .to_vec(),
        lines: runs.iter().map(lines::line).collect(),
        empty: if filtered {
            "No run passes this filter."
        } else {
            "No run yet."
        },
        older,
        newest: query.before().map(|_| query.href("/runs", "")),
        csv: query.href("/runs.csv", ""),
        wrong,
        filtered,
        query,
    })
}

/// A day (`2026-11-30`) or an instant (RFC 3339).
fn day(text: &str) -> Option<Timestamp> {
    if text.len() == 10 {
        format!("{text}T00:00:00Z").parse().ok()
    } else {
        text.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_last_day_is_meant_whole() {
        let (filter, wrong) =
            Query::read("from=2026-11-30&to=2026-11-30&kind=rate&state=").filter();
        assert_eq!(wrong, [""; 0]);
        assert_eq!(filter.from, day("2026-11-30"));
        assert_eq!(filter.until, day("2026-12-01"));
    }

    #[test]
    fn what_is_not_understood_is_said_and_not_ignored() {
        let (_, wrong) = Query::read("kind=iperf&from=yesterday&state=odd").filter();
        assert_eq!(wrong.len(), 3);
    }

    #[test]
    fn the_address_holds_the_whole_filter() {
        let query = Query::read("tag=a%26b&text=x+y&before=9");
        assert_eq!(
            query.href("/runs", "7"),
            "/runs?tag=a%26b&text=x+y&before=7"
        );
        assert_eq!(Query::read("").href("/runs", ""), "/runs");
    }
}
