//! The list of experiments, newest first.

use askama::Template;
use axum::extract::State as Shared;
use axum::http::StatusCode;
use axum::response::Response;

use super::kind_words;
use super::view::{mark, reach};
use crate::dashboard::context::{self, Visit};
use crate::dashboard::error::Trouble;
use crate::dashboard::frame::{Frame, Place, page};
use crate::dashboard::words;
use crate::measure::experiment::Experiment;
use crate::state::AppState;
use crate::store::ExperimentFilter;

/// Experiments on one page.
const PAGE: usize = 30;

/// One experiment in the list.
pub struct Line {
    /// Its number.
    pub id: i64,
    /// Its kind.
    pub kind: &'static str,
    /// The finding, or what it is about.
    pub title: String,
    /// Where it goes.
    pub target: String,
    /// When it was asked for.
    pub when: String,
    /// The same for machines.
    pub machine_time: String,
    /// Runs made of runs planned.
    pub runs: String,
    /// Percent done, while it runs.
    pub done: Option<String>,
    /// The state's word.
    pub state: &'static str,
    /// The state's class.
    pub class: &'static str,
    /// The state's mark.
    pub mark: &'static str,
    /// Its tags.
    pub tags: Vec<String>,
}

#[derive(Template)]
#[template(path = "experiment/list.html")]
struct ListPage {
    frame: Frame,
    counted: String,
    lines: Vec<Line>,
    older: Option<String>,
    newest: bool,
}

/// The line of an experiment.
pub fn line(experiment: &Experiment) -> Line {
    let (class, mark) = mark(experiment.state);
    let open = !experiment.state.is_final();
    Line {
        id: experiment.id,
        kind: kind_words(experiment.kind),
        title: match (&experiment.title, open) {
            (Some(title), _) => title.clone(),
            (None, true) => super::view::about(experiment),
            (None, false) => experiment
                .error
                .clone()
                .unwrap_or_else(|| super::view::about(experiment)),
        },
        target: experiment.target.clone(),
        when: words::when(experiment.created_at),
        machine_time: words::machine_time(experiment.created_at),
        runs: reach(experiment),
        done: open.then(|| format!("{:.0}", experiment.progress.done * 100.0)),
        state: experiment.state.word(),
        class,
        mark,
        tags: experiment.tags.clone(),
    }
}

/// Answers `GET /experiments`.
pub async fn show(visit: Visit, Shared(state): Shared<AppState>) -> Response {
    match make(&visit, &state).await {
        Ok(list) => page(StatusCode::OK, &list),
        Err(trouble) => trouble.answer(visit.frame()),
    }
}

async fn make(visit: &Visit, state: &AppState) -> Result<ListPage, Trouble> {
    let read = |error| Trouble::storage(&error);
    let before = url::form_urlencoded::parse(visit.query().as_bytes())
        .find(|(name, _)| name == "before")
        .and_then(|(_, value)| value.parse().ok());
    let all = state
        .store
        .count_experiments(ExperimentFilter::default())
        .await
        .map_err(read)?;
    let mut found = state
        .supervisor
        .experiments(ExperimentFilter::default(), before, PAGE + 1)
        .await
        .map_err(read)?;
    let more = found.len() > PAGE;
    found.truncate(PAGE);
    let older = found.last().filter(|_| more).map(|last| {
        let id = last.id.to_string();
        context::query("/experiments", &[("before", &id)])
    });
    Ok(ListPage {
        frame: visit.frame().at(Place::Experiments, "Experiments"),
        counted: words::plural(all, "experiment", "experiments"),
        lines: found.iter().map(line).collect(),
        older,
        newest: before.is_some(),
    })
}
