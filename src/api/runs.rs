//! Runs: start, list, show, annotate, cancel, delete.

use axum::Json;
use axum::extract::{Path, Request, State as Shared};
use axum::http::{StatusCode, header};
use axum::response::Response;
use serde_json::{Map, Value, json};

use super::body;
use super::problem::{Answer, Problem};
use super::{Api, actor};
use crate::guard::Concerns;
use crate::measure::command_line;
use crate::measure::plan::{Caps, FieldError, Plan};
use crate::measure::run::{Origin, Run};
use crate::store::Patch;
use crate::supervisor::{Launch, check_note, check_tags};

const START_KEYS: [&str; 8] = [
    "command",
    "plan",
    "note",
    "tags",
    "objective",
    "form_token",
    "from",
    "across",
];

/// `POST /api/runs`
pub(super) async fn start(Shared(api): Shared<Api>, request: Request) -> Answer<Response> {
    let actor = actor(&request);
    let object = body::read(request).await?;
    let caps = api.state.supervisor.caps();
    let launch = read_launch(&object, caps, actor).map_err(Problem::invalid)?;
    let target = launch.plan.target();
    let answer = api.state.supervisor.launch(launch).await.map(|run| {
        let location = format!("/api/runs/{}", run.id);
        (
            StatusCode::CREATED,
            [(header::LOCATION, location)],
            Json(run),
        )
    });
    Ok(Concerns::mark(target, answer.map_err(Problem::from)))
}

fn read_launch(
    object: &Map<String, Value>,
    caps: &Caps,
    actor: String,
) -> Result<Launch, Vec<FieldError>> {
    let mut errors = body::unknown(object, &START_KEYS);
    for key in ["from", "across"] {
        if object.get(key).is_some_and(|value| !value.is_null()) {
            errors.push(fault(key, "Runs on other nodes are not built into this version: leave this out, and start the run on the node itself."));
        }
    }
    let note = text(object, "note", &mut errors);
    errors.extend(check_note(&note));
    let tags = read_tags(object, &mut errors).unwrap_or_default();
    let objectives = text(object, "objective", &mut errors);
    let form_token = read_token(object, &mut errors);
    let command = object.get("command").filter(|value| !value.is_null());
    let given = object.get("plan").filter(|value| !value.is_null());
    let plan = match (command, given) {
        (Some(Value::String(line)), None) => read_command(line, caps),
        (None, Some(value)) => Plan::from_json(value, caps),
        (Some(_), None) => Err(vec![fault(
            "command",
            "The command must be a text, such as \"siege -c 4 -r 20 http://127.0.0.1:8000/\".",
        )]),
        (Some(_), Some(_)) => Err(vec![fault(
            "command",
            "Give either a command or a plan, not both.",
        )]),
        (None, None) => Err(vec![fault(
            "command",
            "Give a command, such as \"siege -c 4 -r 20 http://127.0.0.1:8000/\", or a plan.",
        )]),
    };
    let plan = match plan {
        Ok(plan) if errors.is_empty() => plan,
        Ok(_) => return Err(errors),
        Err(found) => {
            errors.extend(found);
            return Err(errors);
        }
    };
    Ok(Launch {
        plan,
        command: command
            .and_then(Value::as_str)
            .map(|line| line.trim().to_owned()),
        note,
        tags,
        objectives,
        actor,
        origin: Origin::Local,
        form_token,
        member: None,
    })
}

/// Reads a pasted line; every word that is not understood is named.
fn read_command(line: &str, caps: &Caps) -> Result<Plan, Vec<FieldError>> {
    match command_line::plan_of(line) {
        Ok(plan) => Plan::from_json(&plan, caps),
        Err(problems) => Err(problems
            .into_iter()
            .map(|problem| fault("command", problem))
            .collect()),
    }
}

pub(super) fn fault(field: &str, message: impl Into<String>) -> FieldError {
    FieldError {
        field: field.to_owned(),
        message: message.into(),
    }
}

/// What marks one sending of a form.
pub(super) fn read_token(
    object: &Map<String, Value>,
    errors: &mut Vec<FieldError>,
) -> Option<String> {
    let token = text(object, "form_token", errors);
    if token.len() > 128 {
        errors.push(fault(
            "form_token",
            "A form token has at most 128 characters.",
        ));
    }
    Some(token).filter(|token| !token.is_empty())
}

/// A text that may be absent or null: empty then.
pub(super) fn text(object: &Map<String, Value>, key: &str, errors: &mut Vec<FieldError>) -> String {
    match object.get(key) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(_) => {
            errors.push(fault(key, format!("{key} must be a text.")));
            String::new()
        }
    }
}

pub(super) fn read_tags(
    object: &Map<String, Value>,
    errors: &mut Vec<FieldError>,
) -> Option<Vec<String>> {
    let value = object.get("tags").filter(|value| !value.is_null())?;
    if let Ok(tags) = serde_json::from_value::<Vec<String>>(value.clone()) {
        errors.extend(check_tags(&tags));
        Some(tags)
    } else {
        errors.push(fault("tags", "Tags must be a list of texts."));
        None
    }
}

/// `GET /api/runs`
pub(super) async fn list(Shared(api): Shared<Api>, request: Request) -> Answer<Json<Value>> {
    let page = super::list::read(&request)?;
    let mut runs = api
        .state
        .store
        .runs(page.filter, page.before, page.limit + 1)
        .await?;
    let more = runs.len() > page.limit;
    runs.truncate(page.limit);
    let next = runs.last().filter(|_| more).map(|run| run.id);
    let open = api.state.supervisor.open_runs();
    for run in &mut runs {
        if let Some(live) = open.iter().find(|live| live.id == run.id) {
            run.clone_from(live);
        }
    }
    Ok(Json(json!({ "runs": runs, "next": next })))
}

/// `GET /api/runs/{id}`
pub(super) async fn show(Shared(api): Shared<Api>, Path(id): Path<String>) -> Answer<Json<Run>> {
    find(&api, &id).await.map(Json)
}

/// The run with this id, as it is written in the path.
pub(super) async fn find(api: &Api, id: &str) -> Answer<Run> {
    let number = run_id(id)?;
    let run = api.state.supervisor.run(number).await?;
    run.ok_or_else(|| Problem::no_run(id))
}

pub(super) fn run_id(text: &str) -> Answer<i64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let id = text.parse().ok().filter(|_| digits);
    id.ok_or_else(|| Problem::no_run(text))
}

/// `PATCH /api/runs/{id}`
pub(super) async fn change(
    Shared(api): Shared<Api>,
    Path(id): Path<String>,
    request: Request,
) -> Answer<Json<Run>> {
    let number = run_id(&id)?;
    let object = body::read(request).await?;
    let mut errors = body::unknown(&object, &["note", "tags", "baseline"]);
    let note = object
        .contains_key("note")
        .then(|| text(&object, "note", &mut errors));
    errors.extend(note.as_deref().map(check_note).unwrap_or_default());
    let tags = match object.get("tags") {
        Some(Value::Null) => Some(Vec::new()),
        _ => read_tags(&object, &mut errors),
    };
    let baseline = match object.get("baseline") {
        None => None,
        Some(Value::Bool(value)) => Some(*value),
        Some(_) => {
            errors.push(fault("baseline", "baseline is true or false."));
            None
        }
    };
    if !errors.is_empty() {
        return Err(Problem::invalid(errors));
    }
    let patch = Patch {
        note,
        tags,
        baseline,
    };
    let changed = api.state.supervisor.annotate(number, patch).await?;
    changed.map(Json).ok_or_else(|| Problem::no_run(&id))
}

/// `DELETE /api/runs/{id}`
pub(super) async fn delete(Shared(api): Shared<Api>, Path(id): Path<String>) -> Answer<StatusCode> {
    let number = run_id(&id)?;
    if api.state.store.delete_run(number).await? {
        return Ok(StatusCode::NO_CONTENT);
    }
    let run = find(&api, &id).await?;
    Err(Problem::conflict(format!(
        "Run {id} is {}: cancel it first.",
        run.state.word()
    )))
}

/// `POST /api/runs/{id}/cancel`
pub(super) async fn cancel(
    Shared(api): Shared<Api>,
    Path(id): Path<String>,
) -> Answer<(StatusCode, Json<Run>)> {
    let number = run_id(&id)?;
    if api.state.supervisor.cancel(number).await.is_ok() {
        return Ok((StatusCode::ACCEPTED, Json(find(&api, &id).await?)));
    }
    let run = find(&api, &id).await?;
    Err(Problem::conflict(format!(
        "Run {id} has ended already: it is {}.",
        run.state.word()
    )))
}
