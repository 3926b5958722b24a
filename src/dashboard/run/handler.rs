//! A run's page, its live part, and what a person may do with a run.

use axum::Form;
use axum::extract::rejection::FormRejection;
use axum::extract::{Path, State as Shared};
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Redirect, Response};

use askama::Template;

use crate::dashboard::context::Visit;
use crate::dashboard::error::Trouble;
use crate::dashboard::frame::{Place, page};
use crate::dashboard::launch;
use crate::dashboard::peers;
use crate::dashboard::run::echo_parts::LISTED;
use crate::dashboard::run::old;
use crate::dashboard::run::pages::{DeletePage, LivePart, RunPage};
use crate::dashboard::run::view::{self, Beside, RunView};
use crate::measure::fold::{Interval, Series};
use crate::measure::plan::Kind;
use crate::measure::run::{Run, State};
use crate::measure::summary::flow::EchoRow;
use crate::state::AppState;
use crate::store::{Patch, StoreError};
use crate::supervisor::NotRunning;

/// A run with what its page draws.
pub struct Found {
    /// The run.
    pub run: Run,
    /// What the charts are drawn from.
    pub series: Option<Series>,
    /// The first packets of a ping that still runs.
    pub echoes: Vec<EchoRow>,
}

/// The run of this number as it stands in an address.
pub async fn find(state: &AppState, id: &str) -> Result<Found, Trouble> {
    let Ok(number) = id.parse::<i64>() else {
        return Err(Trouble::no_run(id));
    };
    if let Some(live) = state.supervisor.live(number) {
        let echoes = live.intervals.into_iter().filter_map(|row| match row {
            Interval::Echo(echo) => Some(echo),
            Interval::Http(_) | Interval::Flow(_) => None,
        });
        return Ok(Found {
            echoes: if live.run.kind == Kind::Ping {
                echoes.take(LISTED).collect()
            } else {
                Vec::new()
            },
            run: live.run,
            series: Some(live.series),
        });
    }
    let read = |error| Trouble::storage(&error);
    let run = state
        .supervisor
        .run(number)
        .await
        .map_err(read)?
        .ok_or_else(|| Trouble::no_run(id))?;
    let series = state.store.series(number).await.map_err(read)?;
    Ok(Found {
        run,
        series,
        echoes: Vec::new(),
    })
}

/// The words and charts of a run; drawing takes CPU, so it is done beside the pages.
pub async fn draw(state: &AppState, found: Found) -> Result<RunView, Trouble> {
    let Found {
        run,
        series,
        echoes,
    } = found;
    let beside = beside(state, &run, echoes)
        .await
        .map_err(|error| Trouble::storage(&error))?;
    tokio::task::spawn_blocking(move || {
        let mut view = view::view(&run, series.as_ref(), &beside);
        view.old = old::old(&run);
        view
    })
    .await
    .map_err(|error| Trouble::storage(&error))
}

async fn beside(state: &AppState, run: &Run, echoes: Vec<EchoRow>) -> Result<Beside, StoreError> {
    let mut beside = Beside {
        echoes,
        peer: peers::whose(&state.store.peers().await?, &run.plan),
        ..Beside::default()
    };
    if run.state.is_final() {
        beside.requests = Some(state.store.rows_count(run.id).await?);
        beside.intervals = Some(state.store.intervals_count(run.id).await?);
        if run.kind == Kind::Ping {
            beside.echoes = state.store.echoes(run.id, 0, LISTED).await?;
        }
    }
    Ok(beside)
}

/// Answers `GET /runs/{id}`.
pub async fn show(
    visit: Visit,
    Shared(state): Shared<AppState>,
    Path(id): Path<String>,
) -> Response {
    match shown(&state, &id).await {
        Ok(run) => {
            let mut frame = visit.frame().at(Place::Runs, run.tab.clone());
            frame.reloads = run.live;
            page(StatusCode::OK, &RunPage { frame, run })
        }
        Err(trouble) => trouble.answer(visit.frame()),
    }
}

async fn shown(state: &AppState, id: &str) -> Result<RunView, Trouble> {
    let found = find(state, id).await?;
    draw(state, found).await
}

/// Answers `GET /runs/{id}/live`: the part of the page that changes; 204 once the run has ended
/// (no error: a page learns of the end a moment late).
pub async fn live(
    visit: Visit,
    Shared(state): Shared<AppState>,
    Path(id): Path<String>,
) -> Response {
    let found = match find(&state, &id).await {
        Ok(found) => found,
        Err(trouble) => return trouble.answer(visit.frame()),
    };
    if found.run.state.is_final() {
        return StatusCode::NO_CONTENT.into_response();
    }
    match draw(&state, found)
        .await
        .map(|run| LivePart { run }.render())
    {
        Ok(Ok(html)) => ([(header::CACHE_CONTROL, "no-store")], Html(html)).into_response(),
        Ok(Err(error)) => Trouble::storage(&error).answer(visit.frame()),
        Err(trouble) => trouble.answer(visit.frame()),
    }
}

/// Answers `POST /runs/{id}/cancel`.
pub async fn cancel(
    visit: Visit,
    Shared(state): Shared<AppState>,
    Path(id): Path<String>,
) -> Response {
    let run = match find(&state, &id).await {
        Ok(found) => found.run,
        Err(trouble) => return trouble.answer(visit.frame()),
    };
    match state.supervisor.cancel(run.id).await {
        Ok(()) => back(run.id),
        Err(NotRunning) => Trouble::conflict(
            format!("Run {} has ended already", run.id),
            format!("/runs/{}", run.id),
            "Its report",
        )
        .answer(visit.frame()),
    }
}

/// Answers `POST /runs/{id}/baseline`.
pub async fn baseline(
    visit: Visit,
    Shared(state): Shared<AppState>,
    Path(id): Path<String>,
    form: Result<Form<Vec<(String, String)>>, FormRejection>,
) -> Response {
    let baseline = match launch::read(form) {
        Ok(values) => values.get("baseline").is_some_and(|word| word == "yes"),
        Err(trouble) => return trouble.answer(visit.frame()),
    };
    let patch = Patch {
        baseline: Some(baseline),
        ..Patch::default()
    };
    change(&visit, &state, &id, patch).await
}

/// Answers `POST /runs/{id}/edit`: note and tags.
pub async fn edit(
    visit: Visit,
    Shared(state): Shared<AppState>,
    Path(id): Path<String>,
    form: Result<Form<Vec<(String, String)>>, FormRejection>,
) -> Response {
    let mut values = match launch::read(form) {
        Ok(values) => values,
        Err(trouble) => return trouble.answer(visit.frame()),
    };
    let tags = launch::tags(values.get("tags").map_or("", String::as_str));
    let note = values.remove("note").unwrap_or_default();
    let way = format!("/runs/{id}");
    if note.chars().count() > 4000 {
        return Trouble::unusable(
            "A note has at most 4 000 characters",
            way,
            "Back to the run",
        )
        .answer(visit.frame());
    }
    if tags.len() > 20 || tags.iter().any(|tag| tag.chars().count() > 64) {
        return Trouble::unusable(
            "A run has at most 20 tags of at most 64 characters",
            way,
            "Back to the run",
        )
        .answer(visit.frame());
    }
    let patch = Patch {
        note: Some(note),
        tags: Some(tags),
        ..Patch::default()
    };
    change(&visit, &state, &id, patch).await
}

async fn change(visit: &Visit, state: &AppState, id: &str, patch: Patch) -> Response {
    let Ok(number) = id.parse::<i64>() else {
        return Trouble::no_run(id).answer(visit.frame());
    };
    match state.store.patch_run(number, patch).await {
        Ok(true) => back(number),
        Ok(false) => Trouble::no_run(id).answer(visit.frame()),
        Err(error) => Trouble::storage(&error).answer(visit.frame()),
    }
}

/// Answers `GET /runs/{id}/delete`: asks first.
pub async fn ask_delete(
    visit: Visit,
    Shared(state): Shared<AppState>,
    Path(id): Path<String>,
) -> Response {
    match find(&state, &id).await {
        Ok(found) if !found.run.state.is_final() => still_open(&visit, &found.run),
        Ok(found) => {
            let id = found.run.id;
            page(
                StatusCode::OK,
                &DeletePage {
                    frame: visit.frame().at(Place::Runs, format!("Delete run {id}?")),
                    id,
                    state: found.run.state.word().to_owned(),
                    title: view::title(&found.run),
                },
            )
        }
        Err(trouble) => trouble.answer(visit.frame()),
    }
}

/// Answers `POST /runs/{id}/delete`.
pub async fn delete(
    visit: Visit,
    Shared(state): Shared<AppState>,
    Path(id): Path<String>,
) -> Response {
    let run = match find(&state, &id).await {
        Ok(found) => found.run,
        Err(trouble) => return trouble.answer(visit.frame()),
    };
    if !run.state.is_final() {
        return still_open(&visit, &run);
    }
    match state.store.delete_run(run.id).await {
        Ok(true) => Redirect::to("/runs").into_response(),
        Ok(false) => Trouble::no_run(&id).answer(visit.frame()),
        Err(error) => Trouble::storage(&error).answer(visit.frame()),
    }
}

fn still_open(visit: &Visit, run: &Run) -> Response {
    let what = match run.state {
        State::Queued => "still waits",
        _ => "still runs",
    };
    Trouble::conflict(
        format!("Run {} {what}: stop it before it is deleted", run.id),
        format!("/runs/{}", run.id),
        "Back to the run",
    )
    .answer(visit.frame())
}

fn back(id: i64) -> Response {
    Redirect::to(&format!("/runs/{id}")).into_response()
}
