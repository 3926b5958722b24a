//! An experiment's page, its live part, and what a person may do with it.

use std::collections::BTreeMap;

use askama::Template;
use axum::extract::{Path, State as Shared};
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Redirect, Response};

use super::find;
use super::view::{self, ExperimentView};
use crate::chart;
use crate::dashboard::context::Visit;
use crate::dashboard::error::Trouble;
use crate::dashboard::frame::{Frame, Place, page};
use crate::measure::experiment::{Experiment, Spec};
use crate::measure::fold::Series;
use crate::state::AppState;
use crate::supervisor::NotRunning;

#[derive(Template)]
#[template(path = "experiment/page.html")]
struct ExperimentPage {
    frame: Frame,
    one: ExperimentView,
}

#[derive(Template)]
#[template(path = "experiment/live.html")]
struct LivePart {
    one: ExperimentView,
}

#[derive(Template)]
#[template(path = "experiment/delete.html")]
struct DeletePage {
    frame: Frame,
    id: i64,
    state: &'static str,
    title: String,
    runs: u64,
}

/// What its charts need of single runs.
pub async fn series(
    state: &AppState,
    experiment: &Experiment,
    spec: Option<&Spec>,
) -> Result<BTreeMap<i64, Series>, Trouble> {
    let mut found = BTreeMap::new();
    let Some(spec) = spec else { return Ok(found) };
    for run in chart::wanted_series(experiment, spec) {
        let series = state.store.series(run).await;
        if let Some(series) = series.map_err(|error| Trouble::storage(&error))? {
            found.insert(run, series);
        }
    }
    Ok(found)
}

async fn shown(state: &AppState, id: &str) -> Result<ExperimentView, Trouble> {
    let experiment = find(state, id).await?;
    let spec = experiment.design();
    let series = series(state, &experiment, spec.as_ref()).await?;
    let current = state.supervisor.run_of_experiment(experiment.id);
    let peers = state.store.peers().await;
    let peers = peers.map_err(|error| Trouble::storage(&error))?;
    // Drawing takes CPU, so it is done beside the pages.
    tokio::task::spawn_blocking(move || {
        view::view(&experiment, spec.as_ref(), &series, current, &peers)
    })
    .await
    .map_err(|error| Trouble::storage(&error))
}

/// Answers `GET /experiments/{id}`.
pub async fn show(
    visit: Visit,
    Shared(state): Shared<AppState>,
    Path(id): Path<String>,
) -> Response {
    match shown(&state, &id).await {
        Ok(one) => {
            let mut frame = visit.frame().at(Place::Experiments, one.tab.clone());
            frame.reloads = one.live;
            page(StatusCode::OK, &ExperimentPage { frame, one })
        }
        Err(trouble) => trouble.answer(visit.frame()),
    }
}

/// Answers `GET /experiments/{id}/live`: the part of the page that changes; 204 once it has ended.
pub async fn live(
    visit: Visit,
    Shared(state): Shared<AppState>,
    Path(id): Path<String>,
) -> Response {
    match shown(&state, &id).await {
        Ok(one) if !one.live => StatusCode::NO_CONTENT.into_response(),
        Ok(one) => match (LivePart { one }).render() {
            Ok(html) => ([(header::CACHE_CONTROL, "no-store")], Html(html)).into_response(),
            Err(error) => Trouble::storage(&error).answer(visit.frame()),
        },
        Err(trouble) => trouble.answer(visit.frame()),
    }
}

/// Answers `POST /experiments/{id}/cancel`.
pub async fn cancel(
    visit: Visit,
    Shared(state): Shared<AppState>,
    Path(id): Path<String>,
) -> Response {
    let experiment = match find(&state, &id).await {
        Ok(experiment) => experiment,
        Err(trouble) => return trouble.answer(visit.frame()),
    };
    let way = format!("/experiments/{}", experiment.id);
    match state.supervisor.cancel_experiment(experiment.id).await {
        Ok(()) => Redirect::to(&way).into_response(),
        Err(NotRunning) => Trouble::conflict(
            format!("Experiment {} has ended already", experiment.id),
            way,
            "Its report",
        )
        .answer(visit.frame()),
    }
}

/// Answers `GET /experiments/{id}/delete`: asks first.
pub async fn ask_delete(
    visit: Visit,
    Shared(state): Shared<AppState>,
    Path(id): Path<String>,
) -> Response {
    match find(&state, &id).await {
        Ok(one) if !one.state.is_final() => still_open(&visit, &one),
        Ok(one) => page(
            StatusCode::OK,
            &DeletePage {
                frame: visit
                    .frame()
                    .at(Place::Experiments, format!("Delete experiment {}?", one.id)),
                id: one.id,
                state: one.state.word(),
                title: one.title.clone().unwrap_or_else(|| view::about(&one)),
                runs: one.points.len() as u64,
            },
        ),
        Err(trouble) => trouble.answer(visit.frame()),
    }
}

/// Answers `POST /experiments/{id}/delete`.
pub async fn delete(
    visit: Visit,
    Shared(state): Shared<AppState>,
    Path(id): Path<String>,
) -> Response {
    let one = match find(&state, &id).await {
        Ok(one) => one,
        Err(trouble) => return trouble.answer(visit.frame()),
    };
    if !one.state.is_final() {
        return still_open(&visit, &one);
    }
    match state.store.delete_experiment(one.id).await {
        Ok(true) => Redirect::to("/experiments").into_response(),
        Ok(false) => Trouble::no_experiment(&id).answer(visit.frame()),
        Err(error) => Trouble::storage(&error).answer(visit.frame()),
    }
}

fn still_open(visit: &Visit, one: &Experiment) -> Response {
    Trouble::conflict(
        format!(
            "Experiment {} is {}: stop it before it is deleted",
            one.id,
            one.state.word()
        ),
        format!("/experiments/{}", one.id),
        "Back to it",
    )
    .answer(visit.frame())
}
