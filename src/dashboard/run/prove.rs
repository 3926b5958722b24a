//! One click from a cause to the experiment that proves or refutes it.

use axum::Form;
use axum::extract::rejection::FormRejection;
use axum::extract::{Path, State as Shared};
use axum::response::{Redirect, Response};

use crate::dashboard::context::Visit;
use crate::dashboard::error::Trouble;
use crate::dashboard::launch;
use crate::guard::Concerns;
use crate::measure::experiment::{Question, Spec};
use crate::state::AppState;
use crate::supervisor::{ExperimentLaunch, NoProof};

/// Answers `POST /runs/{id}/prove` with the word of a cause.
pub async fn start(
    visit: Visit,
    Shared(state): Shared<AppState>,
    Path(id): Path<String>,
    form: Result<Form<Vec<(String, String)>>, FormRejection>,
) -> Response {
    let cause = match launch::read(form) {
        Ok(values) => values.get("cause").cloned().unwrap_or_default(),
        Err(trouble) => return trouble.answer(visit.frame()),
    };
    let Ok(run) = id.parse() else {
        return Trouble::no_run(&id).answer(visit.frame());
    };
    match begin(&visit, &state, Question { run, cause }).await {
        Ok(response) => response,
        Err(trouble) => trouble.answer(visit.frame()),
    }
}

async fn begin(visit: &Visit, state: &AppState, asked: Question) -> Result<Response, Trouble> {
    let report = format!("/runs/{}", asked.run);
    let refused = |sentence: String| Trouble::unusable(sentence, report.clone(), "The report");
    let found = match state.supervisor.proof_of(&asked).await {
        Ok(found) => found,
        Err(NoProof::Asked("prove.run", _)) => return Err(Trouble::no_run(&asked.run.to_string())),
        Err(NoProof::Asked(_, sentence)) => return Err(refused(sentence)),
        Err(NoProof::Storage(error)) => return Err(Trouble::storage(&error)),
    };
    let spec = Spec::from_json(&found, state.supervisor.caps()).map_err(|errors| {
        let sentences: Vec<String> = errors.into_iter().map(|error| error.message).collect();
        refused(sentences.join(" "))
    })?;
    let target = spec.target();
    let launch = ExperimentLaunch {
        spec,
        note: format!("Puts {} of run {} to the proof", asked.cause, asked.run),
        tags: Vec::new(),
        objectives: String::new(),
        actor: visit.actor(),
        form_token: None,
    };
    match state.supervisor.launch_experiment(launch).await {
        Ok(experiment) => {
            let to = Redirect::to(&format!("/experiments/{}", experiment.id));
            Ok(Concerns::mark(target, to))
        }
        Err(error) => Err(refused(error.to_string())),
    }
}
