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
use crate::measure::experiment::{Experiment, ExperimentKind, ExperimentState};
use crate::state::AppState;
use crate::store::{ExperimentFilter, StoreError};

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
    filtered: bool,
    /// Word, name, and whether it is chosen.
    kinds: [(&'static str, &'static str, bool); ExperimentKind::ALL.len()],
    states: [(&'static str, bool); ExperimentState::ALL.len()],
    lines: Vec<Line>,
    older: Option<String>,
    newest: Option<String>,
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
    let (mut filter, mut before) = (ExperimentFilter::default(), None);
    for (name, value) in url::form_urlencoded::parse(visit.query().as_bytes()) {
        // What is not known here is as if it were not asked for, and the form shows that.
        match &*name {
            "kind" => filter.kind = ExperimentKind::from_word(&value),
            "state" => filter.state = ExperimentState::from_word(&value),
            "before" => before = value.parse().ok(),
            _ => {}
        }
    }
    let count = state.store.count_experiments(filter);
    let all = count.await.map_err(read)?;
    let mut found = state
        .supervisor
        .experiments(filter, before, PAGE + 1)
        .await
        .map_err(read)?;
    let more = found.len() > PAGE;
    found.truncate(PAGE);
    let kind = filter.kind.map_or("", ExperimentKind::word);
    let in_state = filter.state.map_or("", ExperimentState::word);
    let older = found.last().filter(|_| more).map(|last| {
        let id = last.id.to_string();
        let pairs = [("kind", kind), ("state", in_state), ("before", &id)];
        context::query("/experiments", &pairs)
    });
    Ok(ListPage {
        frame: visit.frame().at(Place::Experiments, "Experiments"),
        counted: words::plural(all, "experiment", "experiments"),
        filtered: filter != ExperimentFilter::default(),
        kinds: ExperimentKind::ALL.map(|it| (it.word(), kind_words(it), Some(it) == filter.kind)),
        states: ExperimentState::ALL.map(|it| (it.word(), Some(it) == filter.state)),
        lines: found.iter().map(line).collect(),
        older,
        newest: before
            .map(|_: i64| context::query("/experiments", &[("kind", kind), ("state", in_state)])),
    })
}

/// The lines of what runs or waits, for the home page.
pub async fn open(state: &AppState) -> Result<Vec<Line>, StoreError> {
    let mut lines = Vec::new();
    for word in [ExperimentState::Running, ExperimentState::Queued] {
        let filter = ExperimentFilter {
            state: Some(word),
            ..ExperimentFilter::default()
        };
        let found = state.supervisor.experiments(filter, None, PAGE).await?;
        lines.extend(found.iter().map(line));
    }
    Ok(lines)
}
