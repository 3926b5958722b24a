//! Experiments: start, list, show, follow, cancel, delete.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request, State as Shared};
use axum::http::{StatusCode, header};
use axum::response::sse::Event;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use serde_json::{Map, Value, json};

use super::events::{last_seen, stream};
use super::problem::{Answer, Problem};
use super::runs::{fault, read_tags, read_token, text};
use super::{Api, actor, body, list};
use crate::guard::Concerns;
use crate::measure::experiment::{Experiment, ExperimentKind, ExperimentState, Question, Spec};
use crate::measure::objective::Objectives;
use crate::measure::plan::{Caps, FieldError};
use crate::store::ExperimentFilter;
use crate::supervisor::{ExperimentLaunch, NoProof, check_note};

/// The keys that say something about an experiment and not what it does.
const ABOUT: [&str; 4] = ["note", "tags", "objective", "form_token"];

/// Experiments in a list when no limit is given, and at most.
const DEFAULT_LIMIT: usize = 20;
const MAX_LIMIT: usize = 100;

/// `POST /api/experiments`
pub(super) async fn start(Shared(api): Shared<Api>, request: Request) -> Answer<Response> {
    let actor = actor(&request);
    let mut object = body::read(request).await?;
    if let Some(asked) = object.get("prove").filter(|asked| !asked.is_null()) {
        let found = look_up(&api, asked).await?;
        object.remove("prove");
        for (key, value) in found {
            object.entry(key).or_insert(value);
        }
    }
    let launch =
        read_launch(object, api.state.supervisor.caps(), actor).map_err(Problem::invalid)?;
    let target = launch.spec.target();
    let started = api.state.supervisor.launch_experiment(launch).await;
    let answer = started.map(|experiment| {
        let location = format!("/api/experiments/{}", experiment.id);
        (
            StatusCode::CREATED,
            [(header::LOCATION, location)],
            Json(experiment),
        )
    });
    let answer = answer.map_err(|error| Problem::of_launch(error, Some("base")));
    Ok(Concerns::mark(target, answer))
}

/// What proves the cause that is asked about, with the plans that follow from its run.
async fn look_up(api: &Api, asked: &Value) -> Answer<Map<String, Value>> {
    let refused = |field: &str, message: String| Problem::invalid(vec![fault(field, message)]);
    let question = Question::read(asked).map_err(|(field, message)| refused(field, message))?;
    match api.state.supervisor.proof_of(&question).await {
        Ok(found) => Ok(found),
        Err(NoProof::Asked(field, message)) => Err(refused(field, message)),
        Err(NoProof::Storage(error)) => Err(error.into()),
    }
}

fn read_launch(
    object: Map<String, Value>,
    caps: &Caps,
    actor: String,
) -> Result<ExperimentLaunch, Vec<FieldError>> {
    let (about, asked): (Map<_, _>, Map<_, _>) = object
        .into_iter()
        .partition(|(key, _)| ABOUT.contains(&key.as_str()));
    let mut errors = Vec::new();
    let note = text(&about, "note", &mut errors);
    errors.extend(check_note(&note));
    let tags = read_tags(&about, &mut errors).unwrap_or_default();
    let objectives = text(&about, "objective", &mut errors);
    if let Err(message) = Objectives::parse(objectives.trim()) {
        errors.push(fault("objective", message));
    }
    let form_token = read_token(&about, &mut errors);
    match Spec::from_json(&asked, caps) {
        Ok(spec) if errors.is_empty() => Ok(ExperimentLaunch {
            spec,
            note,
            tags,
            objectives,
            actor,
            form_token,
        }),
        Ok(_) => Err(errors),
        Err(found) => {
            errors.extend(found);
            Err(errors)
        }
    }
}

/// `GET /api/experiments`
pub(super) async fn list(Shared(api): Shared<Api>, request: Request) -> Answer<Json<Value>> {
    let mut filter = ExperimentFilter::default();
    let (mut before, mut limit) = (None, DEFAULT_LIMIT);
    let mut errors = Vec::new();
    for (key, value) in body::query(&request, &["kind", "state", "limit", "before"])? {
        let words = |words: Vec<&str>| format!("It is one of {}.", words.join(", "));
        let read = match key.as_str() {
            _ if value.is_empty() => Ok(()),
            "kind" => ExperimentKind::from_word(&value)
                .map(|kind| filter.kind = Some(kind))
                .ok_or_else(|| words(ExperimentKind::ALL.map(ExperimentKind::word).to_vec())),
            "state" => ExperimentState::from_word(&value)
                .map(|state| filter.state = Some(state))
                .ok_or_else(|| words(ExperimentState::ALL.map(ExperimentState::word).to_vec())),
            "limit" => list::limit(&value, MAX_LIMIT).map(|most| limit = most),
            _ => list::before(&value, "an experiment").map(|id| before = Some(id)),
        };
        if let Err(message) = read {
            errors.push(fault(&key, message));
        }
    }
    if !errors.is_empty() {
        return Err(Problem::invalid(errors));
    }
    let supervisor = &api.state.supervisor;
    let mut found = supervisor.experiments(filter, before, limit + 1).await?;
    let more = found.len() > limit;
    found.truncate(limit);
    let next = found.last().filter(|_| more).map(|one| one.id);
    let experiments: Vec<Value> = found.iter().map(without_figures).collect();
    Ok(Json(json!({ "experiments": experiments, "next": next })))
}

/// The experiment as a list shows it: its points without their figures, which were not read.
fn without_figures(experiment: &Experiment) -> Value {
    let mut value = json!(experiment);
    if let Some(points) = value["points"].as_array_mut() {
        for point in points.iter_mut().filter_map(Value::as_object_mut) {
            point.remove("summary");
        }
    }
    if let Some(object) = value.as_object_mut() {
        object.remove("settled_at");
        object.remove("ratio");
        object.remove("proof");
    }
    value
}

/// `GET /api/experiments/{id}`
pub(super) async fn show(
    Shared(api): Shared<Api>,
    Path(id): Path<String>,
) -> Answer<Json<Experiment>> {
    find(&api, &id).await.map(Json)
}

async fn find(api: &Api, id: &str) -> Answer<Experiment> {
    let found = api.state.supervisor.experiment(number(id)?).await?;
    found.ok_or_else(|| Problem::no_experiment(id))
}

fn number(text: &str) -> Answer<i64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let id = text.parse().ok().filter(|_| digits);
    id.ok_or_else(|| Problem::no_experiment(text))
}

/// `POST /api/experiments/{id}/cancel`
pub(super) async fn cancel(
    Shared(api): Shared<Api>,
    Path(id): Path<String>,
) -> Answer<(StatusCode, Json<Experiment>)> {
    let supervisor = &api.state.supervisor;
    if supervisor.cancel_experiment(number(&id)?).await.is_ok() {
        return Ok((StatusCode::ACCEPTED, Json(find(&api, &id).await?)));
    }
    let experiment = find(&api, &id).await?;
    Err(Problem::conflict(format!(
        "Experiment {id} has ended already: it is {}.",
        experiment.state.word()
    )))
}

/// `DELETE /api/experiments/{id}`
pub(super) async fn delete(Shared(api): Shared<Api>, Path(id): Path<String>) -> Answer<StatusCode> {
    if api.state.store.delete_experiment(number(&id)?).await? {
        return Ok(StatusCode::NO_CONTENT);
    }
    let experiment = find(&api, &id).await?;
    Err(Problem::conflict(format!(
        "Experiment {id} is {}: cancel it first.",
        experiment.state.word()
    )))
}

/// `GET /api/experiments/{id}/events`
pub(super) async fn events(
    Shared(api): Shared<Api>,
    Path(id): Path<String>,
    request: Request,
) -> Answer<Response> {
    let number = number(&id)?;
    let after: Option<i64> = last_seen(&request);
    let experiment = find(&api, &id).await?;
    let last = experiment.points.last().map_or(0, |point| point.run);
    if experiment.state.is_final() && after.is_some_and(|after| after > last) {
        // The watcher has seen the end: this status tells a browser not to come again.
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let permit = Arc::clone(&api.streams).try_acquire_owned();
    let Some(events) = api
        .state
        .supervisor
        .experiment_events(number, after)
        .await?
    else {
        return Err(Problem::no_experiment(&id));
    };
    stream(
        permit,
        events.map(|event| {
            Ok::<_, Infallible>(
                Event::default()
                    .id(event.id.to_string())
                    .event(event.kind.word())
                    .data(event.json),
            )
        }),
    )
}
