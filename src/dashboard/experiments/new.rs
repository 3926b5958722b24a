//! The form of a new experiment: what it will take stands beside it before anything is sent.

use askama::Template;
use axum::Form;
use axum::extract::State as Shared;
use axum::extract::rejection::FormRejection;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};

use super::form;
use crate::dashboard::context::{self, Visit};
use crate::dashboard::error::Trouble;
use crate::dashboard::fields::{self, ErrorLine, Field, Group, Input, Values};
use crate::dashboard::frame::{Frame, Place, page};
use crate::dashboard::launch;
use crate::dashboard::run::rail::Fact;
use crate::dashboard::words;
use crate::guard::Concerns;
use crate::measure::experiment::{Estimate, ExperimentKind, Spec, estimate};
use crate::measure::objective::Objectives;
use crate::measure::plan::Kind;
use crate::measure::run::Origin;
use crate::state::AppState;
use crate::store::{Filter, StoreError};
use crate::supervisor::{ExperimentLaunch, LaunchError};

/// Runs that are offered as a base.
const RECENT: usize = 8;

struct KindLink {
    word: &'static str,
    note: &'static str,
    href: String,
    here: bool,
}

#[derive(Template)]
#[template(path = "experiment/new.html")]
struct NewPage {
    frame: Frame,
    kind: &'static str,
    head: String,
    kinds: [KindLink; 4],
    recent: Vec<(i64, String)>,
    varied: &'static [&'static str],
    /// What is often asked: word and address of the filled form.
    often: Vec<(&'static str, String)>,
    errors: Vec<ErrorLine>,
    checked: Option<&'static str>,
    groups: Vec<Group>,
    token: String,
    cost: Vec<Fact>,
    order: Vec<String>,
}

/// What a check or a start came to.
#[derive(Default)]
struct Outcome {
    status: StatusCode,
    /// Whether faults of an untouched form are shown.
    asked: bool,
    checked: bool,
    faults: Vec<(String, String)>,
}

/// Answers `GET /experiments/new`: empty, around a line (`?base=`), or around a run (`?from=`).
pub async fn show(visit: Visit, Shared(state): Shared<AppState>) -> Response {
    let pairs = url::form_urlencoded::parse(visit.query().as_bytes())
        .map(|(name, value)| (name.into_owned(), value.into_owned()))
        .collect();
    let mut query = match fields::read_pairs(pairs) {
        Ok(query) => query,
        Err(sentence) => {
            return Trouble::unusable(sentence, "/experiments/new", "An empty form")
                .answer(visit.frame());
        }
    };
    let again = query.remove("again").unwrap_or_default();
    let (mut kind, mut values) = if again.is_empty() {
        (ExperimentKind::Sweep, None)
    } else {
        match super::find(&state, &again).await {
            Ok(one) => {
                let kind = form::kind_of(one.kind.word()).unwrap_or(one.kind);
                (kind, Some(form::values(kind, &one.spec)))
            }
            Err(trouble) => return trouble.answer(visit.frame()),
        }
    };
    if let Some(asked) = query.remove("kind").and_then(|word| form::kind_of(&word)) {
        kind = asked;
    }
    let mut filled = values.take().unwrap_or_else(|| form::defaults(kind));
    let from = query.remove("from").unwrap_or_default();
    if !from.is_empty() {
        let run = match from.parse() {
            Ok(id) => state.supervisor.run(id).await,
            Err(_) => Ok(None),
        };
        match run {
            Ok(Some(run)) => {
                filled.insert("base".to_owned(), form::line_of(&run.plan));
                if kind == ExperimentKind::Paired {
                    filled.insert("b".to_owned(), form::line_of(&run.plan));
                }
                filled.insert("tags".to_owned(), run.tags.join(", "));
            }
            Ok(None) => return Trouble::no_run(&from).answer(visit.frame()),
            Err(error) => return Trouble::storage(&error).answer(visit.frame()),
        }
    }
    query.retain(|_, value| !value.is_empty());
    filled.extend(query);
    if filled.get("base").is_none_or(String::is_empty) {
        let url = context::workload_url(&state.node);
        filled.insert("base".to_owned(), example(url.as_deref()));
        filled
            .entry("vary".to_owned())
            .or_insert_with(|| "rate".to_owned());
        filled
            .entry("values".to_owned())
            .or_insert_with(|| "2 4 8".to_owned());
    }
    answer(&visit, &state, kind, filled, Outcome::default()).await
}

/// A line that works on this node.
fn example(url: Option<&str>) -> String {
    let Some(url) = url.and_then(|url| url::Url::parse(url).ok()) else {
        return "ping -c 5 127.0.0.1".to_owned();
    };
    format!(
        "httperf --server {} --port {} --num-conns 40 --rate 4 --timeout 10",
        url.host_str().unwrap_or("127.0.0.1"),
        url.port_or_known_default().unwrap_or(80)
    )
}

/// Answers `POST /experiments/new`: checks, or starts.
pub async fn submit(
    visit: Visit,
    Shared(state): Shared<AppState>,
    sent: Result<Form<Vec<(String, String)>>, FormRejection>,
) -> Response {
    let mut values = match launch::read(sent) {
        Ok(values) => values,
        Err(trouble) => return trouble.answer(visit.frame()),
    };
    let action = values.remove("do").unwrap_or_default();
    let form_token = values
        .remove("form_token")
        .filter(|token| !token.is_empty());
    let Some(kind) = values.remove("kind").and_then(|word| form::kind_of(&word)) else {
        return Trouble::unusable(
            "The form names no kind of experiment",
            "/experiments/new",
            "An empty form",
        )
        .answer(visit.frame());
    };
    let mut outcome = Outcome {
        asked: true,
        ..Outcome::default()
    };
    let text = |name: &str| values.get(name).cloned().unwrap_or_default();
    let objectives = text("objective");
    if let Err(message) = Objectives::parse(objectives.trim()) {
        outcome.faults.push(("objective".to_owned(), message));
    }
    let spec = match read(&state, kind, &values) {
        Ok(spec) if outcome.faults.is_empty() => spec,
        _ => {
            outcome.status = StatusCode::UNPROCESSABLE_ENTITY;
            return answer(&visit, &state, kind, values, outcome).await;
        }
    };
    let launch = ExperimentLaunch {
        spec,
        note: text("note"),
        tags: launch::tags(&text("tags")),
        objectives,
        actor: visit.actor(),
        form_token,
    };
    if action == "check" {
        match state.supervisor.check_experiment(&launch).await {
            Ok(()) => outcome.checked = true,
            Err(error) => refuse(&mut outcome, error),
        }
        return answer(&visit, &state, kind, values, outcome).await;
    }
    let target = launch.spec.target();
    let page = match state.supervisor.launch_experiment(launch).await {
        Ok(experiment) => Redirect::to(&format!("/experiments/{}", experiment.id)).into_response(),
        Err(error) => {
            refuse(&mut outcome, error);
            answer(&visit, &state, kind, values, outcome).await
        }
    };
    Concerns::mark(target, page)
}

fn refuse(outcome: &mut Outcome, error: LaunchError) {
    let text = error.to_string();
    let (status, faults) = match error {
        LaunchError::Refused { sentence, .. } => (
            StatusCode::UNPROCESSABLE_ENTITY,
            vec![("base".to_owned(), sentence)],
        ),
        LaunchError::Invalid(errors) => (
            StatusCode::UNPROCESSABLE_ENTITY,
            errors
                .into_iter()
                .map(|error| (error.field, error.message))
                .collect(),
        ),
        LaunchError::QueueFull | LaunchError::TooManyExperiments | LaunchError::Draining => {
            (StatusCode::SERVICE_UNAVAILABLE, vec![(String::new(), text)])
        }
        LaunchError::DiskFull(_) => (
            StatusCode::INSUFFICIENT_STORAGE,
            vec![(String::new(), text)],
        ),
        LaunchError::Storage(_) => (
            StatusCode::INTERNAL_SERVER_ERROR,
            vec![(String::new(), text)],
        ),
    };
    outcome.status = status;
    outcome.faults.extend(faults);
}

/// What the form asks for; all faults at once, each under the name of its field.
fn read(
    state: &AppState,
    kind: ExperimentKind,
    values: &Values,
) -> Result<Spec, Vec<(String, String)>> {
    let (asked, mut faults) = form::asked(kind, values);
    match Spec::from_json(&asked, state.supervisor.caps()) {
        Ok(spec) if faults.is_empty() => return Ok(spec),
        Ok(_) => {}
        Err(errors) => {
            for error in errors {
                let field = form::field_for(&error.field, values);
                // The form's own fault of a field is the reason for the experiment's.
                if !faults.iter().any(|(known, _)| *known == field) {
                    faults.push((field, error.message));
                }
            }
        }
    }
    Err(faults)
}

async fn answer(
    visit: &Visit,
    state: &AppState,
    kind: ExperimentKind,
    values: Values,
    outcome: Outcome,
) -> Response {
    let recent = match recent(state).await {
        Ok(recent) => recent,
        Err(error) => return Trouble::storage(&error).answer(visit.frame()),
    };
    let read = read(state, kind, &values);
    let mut errors = if outcome.asked {
        read.as_ref().err().cloned().unwrap_or_default()
    } else {
        Vec::new()
    };
    errors.extend(outcome.faults);
    let spec = read.ok();
    let groups = form::fields(kind);
    let all: Vec<Field> = groups
        .iter()
        .flat_map(|(_, fields)| fields.clone())
        .collect();
    let lines = fields::error_lines(&all, &errors);
    let plan_kind = spec
        .as_ref()
        .and_then(|spec| Some(spec.arms().first()?.plan.kind()));
    let built = NewPage {
        frame: visit.frame().at(
            Place::Experiments,
            match lines.len() {
                0 => "New experiment".to_owned(),
                number => format!("{number} to mend · New experiment"),
            },
        ),
        kind: kind.word(),
        head: head(kind, spec.as_ref()),
        kinds: kinds(kind, &values),
        recent,
        varied: form::worth_varying(plan_kind.unwrap_or(Kind::Rate)),
        often: plan_kind
            .map(|kind| often(kind, &values))
            .unwrap_or_default(),
        checked: (outcome.checked && lines.is_empty()).then_some(
            "✓ Every field holds, and every target may be tested. Nothing has been sent.",
        ),
        errors: lines,
        groups: groups
            .into_iter()
            .filter(|(_, list)| !list.is_empty())
            .map(|(legend, list)| Group {
                legend,
                fields: fields::filled(&list, &values, &errors),
            })
            .collect(),
        token: launch::token(),
        cost: spec.as_ref().map(cost_of).unwrap_or_default(),
        order: spec.as_ref().map(order).unwrap_or_default(),
    };
    page(outcome.status, &built)
}

async fn recent(state: &AppState) -> Result<Vec<(i64, String)>, StoreError> {
    let runs = state
        .store
        .runs(Filter::default(), None, RECENT * 4)
        .await?;
    Ok(runs
        .into_iter()
        // What a receiver served, this node cannot do again.
        .filter(|run| matches!(run.origin, Origin::Local))
        .take(RECENT)
        .map(|run| {
            let command: String = run.command.chars().take(70).collect();
            (run.id, format!("run {}: {command}", run.id))
        })
        .collect())
}

fn head(kind: ExperimentKind, spec: Option<&Spec>) -> String {
    let Some(spec) = spec else {
        return "What is to be found out?".to_owned();
    };
    let runs = words::plural(spec.runs() as u64, "run", "runs");
    match kind {
        ExperimentKind::Sweep => {
            format!(
                "{runs}: {} by {}",
                spec.target(),
                spec.fields().join(" and ")
            )
        }
        ExperimentKind::Series => format!("{runs} of the same plan"),
        ExperimentKind::Paired | ExperimentKind::Prove => format!("{runs}: a and b take turns"),
        ExperimentKind::Capacity => format!("How much does {} hold?", spec.target()),
    }
}

fn kinds(here: ExperimentKind, values: &Values) -> [KindLink; 4] {
    let base = values.get("base").map_or("", String::as_str);
    [
        (ExperimentKind::Sweep, "one or two fields varied"),
        (ExperimentKind::Series, "the same again and again"),
        (ExperimentKind::Paired, "two plans in turn: a b a b"),
        (ExperimentKind::Capacity, "the highest rate that holds"),
    ]
    .map(|(kind, note)| KindLink {
        word: kind.word(),
        note,
        href: context::query("/experiments/new", &[("kind", kind.word()), ("base", base)]),
        here: kind == here,
    })
}

/// What is often asked of such a plan, each as a filled form.
fn often(kind: Kind, values: &Values) -> Vec<(&'static str, String)> {
    let base = values.get("base").map_or("", String::as_str);
    form::often(kind)
        .iter()
        .map(|(kind, field, list, repeat, word)| {
            let pairs = [
                ("kind", kind.word()),
                ("base", base),
                ("vary", field),
                ("values", list),
                ("repeat", repeat),
            ];
            (*word, context::query("/experiments/new", &pairs))
        })
        .collect()
}

/// What it will take; a search by its budget, where it has one beforehand.
fn cost_of(spec: &Spec) -> Vec<Fact> {
    let Spec::Capacity(_) = spec else {
        return cost(&estimate(spec));
    };
    let budget = spec.to_json()["capacity"]["budget_s"].as_f64();
    vec![Fact {
        name: "Takes".to_owned(),
        value: budget.map_or_else(
            || "10\u{a0}min at most, longer where the target is slow".to_owned(),
            |seconds| format!("{} at most", words::seconds(seconds)),
        ),
        bad: false,
    }]
}

/// What it will take, as far as it can be told.
pub fn cost(found: &Estimate) -> Vec<Fact> {
    let fact = |name: &str, value: String| Fact {
        name: name.to_owned(),
        value,
        bad: false,
    };
    let unknown = found.runs_of_unknown_length;
    let time = match (unknown, found.time_s > 0.0) {
        (0, _) => format!("about {}", words::seconds(found.time_s)),
        (n, true) if n < found.runs || found.time_s > 0.0 => {
            format!("{} and what the target takes", words::seconds(found.time_s))
        }
        _ => "as long as the target takes".to_owned(),
    };
    let mut out = vec![
        fact("Runs", words::count(found.runs as u64)),
        fact("Takes", time),
    ];
    if let Some(requests) = found.requests_at_most {
        out.push(fact(
            "Requests",
            format!("{} at most", words::count(requests)),
        ));
    }
    if let Some(bytes) = found.bytes {
        out.push(fact("Data", words::bytes(bytes)));
    }
    out
}

/// The first runs in their order, in words.
fn order(spec: &Spec) -> Vec<String> {
    const SHOWN: usize = 8;
    if let Spec::Capacity(_) = spec {
        return Vec::new();
    }
    let mut driver = spec.driver();
    let mut out = Vec::new();
    loop {
        match driver.next(None) {
            crate::measure::experiment::Next::Run(step) => {
                if out.len() == SHOWN {
                    out.push(format!(
                        "and {} more",
                        words::count((spec.runs() - SHOWN) as u64)
                    ));
                    return out;
                }
                let point = crate::measure::experiment::label_of(&step.point);
                out.push(match (point.is_empty(), spec.repeat() > 1) {
                    (true, _) => format!("repeat {}", step.repeat),
                    (false, true) => format!("{point}, repeat {}", step.repeat),
                    (false, false) => point,
                });
            }
            crate::measure::experiment::Next::Pause(_) => {}
            crate::measure::experiment::Next::Done => return out,
        }
    }
}
