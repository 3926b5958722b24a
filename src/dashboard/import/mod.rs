//! Pasting or uploading what another tool printed.

mod form;

use askama::Template;
use axum::extract::{Request, State as Shared};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};

use crate::dashboard::context::Visit;
use crate::dashboard::error::Trouble;
use crate::dashboard::frame::{Frame, Place, page};
use crate::dashboard::launch;
use crate::report::import::{self, Import};
use crate::state::AppState;
use crate::store::Importer;
use crate::supervisor::LaunchError;

/// What a form may hold: the text, and what stands around it.
pub const LONGEST_FORM: usize = import::LONGEST + (64 << 10);
/// The longest text that is shown again beside an error.
const SHOWN_AGAIN: usize = 200_000;

#[derive(Template)]
#[template(path = "import.html")]
struct ImportPage {
    frame: Frame,
    text: String,
    tags: String,
    note: String,
    wrong: Vec<String>,
    not_shown: bool,
}

/// Answers `GET /runs/import`.
pub async fn show(visit: Visit) -> Response {
    answer(&visit, StatusCode::OK, form::Filled::default(), Vec::new())
}

/// Answers `POST /runs/import`: keeps each report of the text as a run.
pub async fn submit(visit: Visit, Shared(state): Shared<AppState>, request: Request) -> Response {
    let kind = request
        .headers()
        .get(header::CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok())
        .unwrap_or_default()
        .to_owned();
    let actor = visit.actor();
    let Ok(body) = axum::body::to_bytes(request.into_body(), LONGEST_FORM).await else {
        let wrong = "The text is longer than 8 MiB, or ended early.".to_owned();
        return answer(
            &visit,
            StatusCode::PAYLOAD_TOO_LARGE,
            form::Filled::default(),
            vec![wrong],
        );
    };
    let reading = tokio::task::spawn_blocking(move || {
        let filled = form::read(&kind, &body);
        let imports = filled
            .as_ref()
            .map_err(Clone::clone)
            .and_then(|filled| import::read(&filled.text).map_err(|error| error.message));
        (filled.unwrap_or_default(), imports)
    });
    let (filled, imports) = match reading.await {
        Ok(read) => read,
        Err(error) => return Trouble::storage(&error).answer(visit.frame()),
    };
    match imports {
        Ok(imports) => keep(&visit, &state, filled, imports, actor).await,
        Err(wrong) => answer(
            &visit,
            StatusCode::UNPROCESSABLE_ENTITY,
            filled,
            vec![wrong],
        ),
    }
}

async fn keep(
    visit: &Visit,
    state: &AppState,
    filled: form::Filled,
    imports: Vec<Import>,
    actor: String,
) -> Response {
    let by = Importer {
        actor,
        note: filled.note.clone(),
        tags: launch::tags(&filled.tags),
        ..Importer::default()
    };
    match state.supervisor.import(imports, by).await {
        Ok(runs) => match runs.as_slice() {
            [run] => Redirect::to(&format!("/runs/{}", run.id)).into_response(),
            // Several reports: the newest stand on top of the history.
            _ => Redirect::to("/runs?state=imported").into_response(),
        },
        Err(LaunchError::Invalid(errors)) => {
            let wrong = errors.into_iter().map(|error| error.message).collect();
            answer(visit, StatusCode::UNPROCESSABLE_ENTITY, filled, wrong)
        }
        Err(error) => Trouble::storage(&error).answer(visit.frame()),
    }
}

fn answer(visit: &Visit, status: StatusCode, filled: form::Filled, wrong: Vec<String>) -> Response {
    let not_shown = filled.text.len() > SHOWN_AGAIN;
    page(
        status,
        &ImportPage {
            frame: visit.frame().at(Place::Runs, "Import"),
            text: if not_shown {
                String::new()
            } else {
                filled.text
            },
            tags: filled.tags,
            note: filled.note,
            wrong,
            not_shown,
        },
    )
}
