//! Showing the launch form and taking it in.

use std::hash::{BuildHasher, Hasher, RandomState};

use axum::Form;
use axum::extract::State as Shared;
use axum::extract::rejection::FormRejection;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};

use crate::dashboard::context::{self, Visit};
use crate::dashboard::error::Trouble;
use crate::dashboard::fields::{self, Values};
use crate::dashboard::frame::page;
use crate::dashboard::home;
use crate::dashboard::launch::estimate;
use crate::dashboard::launch::form;
use crate::dashboard::launch::page::{self as launch_page, Asked, Offer, Showing};
use crate::dashboard::launch::presets;
use crate::dashboard::peers;
use crate::dashboard::receivers;
use crate::guard::Concerns;
use crate::measure::command_line;
use crate::measure::objective::Objectives;
use crate::measure::plan::{Kind, Plan};
use crate::measure::run::Origin;
use crate::state::AppState;
use crate::supervisor::{Launch, LaunchError, is_public};

/// What a form is filled with.
struct Filled {
    kind: Kind,
    values: Values,
    pasted: String,
}

/// Answers `GET /runs/new`: empty, from a pasted line (`?command=`), from another run (`?from=`), or from fields in the query.
pub async fn show(visit: Visit, Shared(state): Shared<AppState>) -> Response {
    let pairs = url::form_urlencoded::parse(visit.query().as_bytes())
        .map(|(name, value)| (name.into_owned(), value.into_owned()))
        .collect();
    let mut query = match fields::read_pairs(pairs) {
        Ok(query) => query,
        Err(sentence) => {
            return Trouble::unusable(sentence, "/runs/new", "An empty form").answer(visit.frame());
        }
    };
    let pasted = query.remove("command").unwrap_or_default();
    let from = query.remove("from").unwrap_or_default();
    let kind = query.remove("kind").and_then(|word| form::kind_of(&word));
    let filled = if !pasted.is_empty() {
        from_line(&state, pasted)
    } else if !from.is_empty() {
        let Ok(Some(run)) = find(&state, &from).await else {
            return Trouble::no_run(&from).answer(visit.frame());
        };
        let (kind, mut values) = form::values_of(&run.plan.to_json());
        // Fields that stand beside it change what it did.
        query.remove("preset");
        values.extend(query);
        let rules: Vec<&str> = run.objectives.iter().map(|o| o.rule.as_str()).collect();
        values.insert("objective".to_owned(), rules.join(", "));
        values.insert("tags".to_owned(), run.tags.join(", "));
        Filled {
            kind: kind.unwrap_or(run.kind),
            values,
            pasted: String::new(),
        }
    } else {
        let kind = kind.unwrap_or(Kind::Rate);
        let preset = query.remove("preset").unwrap_or_default();
        query.retain(|_, value| !value.is_empty());
        let mut values = query;
        if let Err(trouble) = complete(&state, kind, &mut values).await {
            return trouble.answer(visit.frame());
        }
        presets::apply(kind, &preset, &mut values);
        Filled {
            kind,
            values,
            pasted: String::new(),
        }
    };
    answer(&visit, &state, filled, Outcome::default()).await
}

/// What a check or a start came to.
struct Outcome {
    status: StatusCode,
    asked: Asked,
    faults: Vec<(String, String)>,
    offer: Option<Offer>,
}

impl Default for Outcome {
    fn default() -> Self {
        Self {
            status: StatusCode::OK,
            asked: Asked::ToShow,
            faults: Vec::new(),
            offer: None,
        }
    }
}

/// Answers `POST /runs/new`: starts the run, checks it, or registers its target and starts it.
pub async fn submit(
    visit: Visit,
    Shared(state): Shared<AppState>,
    form: Result<Form<Vec<(String, String)>>, FormRejection>,
) -> Response {
    let mut values = match read(form) {
        Ok(values) => values,
        Err(trouble) => return trouble.answer(visit.frame()),
    };
    let action = values.remove("do").unwrap_or_default();
    let token = values
        .remove("form_token")
        .filter(|token| !token.is_empty());
    let pasted = values.remove("command").unwrap_or_default();
    let Some(kind) = values.remove("kind").and_then(|word| form::kind_of(&word)) else {
        return Trouble::unusable(
            "The form names no kind of run",
            "/runs/new",
            "An empty form",
        )
        .answer(visit.frame());
    };
    if values.remove("quick").is_some()
        && let Err(trouble) = complete(&state, kind, &mut values).await
    {
        return trouble.answer(visit.frame());
    }
    if let Some(preset) = action.strip_prefix("preset-") {
        presets::apply(kind, preset, &mut values);
        let filled = Filled {
            kind,
            values,
            pasted: String::new(),
        };
        return answer(&visit, &state, filled, Outcome::default()).await;
    }
    let asked = if action == "check" {
        Asked::ToCheck
    } else {
        Asked::ToStart
    };
    let mut outcome = Outcome {
        asked,
        ..Outcome::default()
    };
    let objectives = values.get("objective").cloned().unwrap_or_default();
    if let Err(message) = Objectives::parse(&objectives) {
        outcome.faults.push(("objective".to_owned(), message));
    }
    let plan = launch_page::plan(kind, &values, state.supervisor.caps());
    let filled = Filled {
        kind,
        values,
        pasted,
    };
    let Ok(plan) = plan else {
        outcome.status = StatusCode::UNPROCESSABLE_ENTITY;
        return answer(&visit, &state, filled, outcome).await;
    };
    if !outcome.faults.is_empty() {
        outcome.status = StatusCode::UNPROCESSABLE_ENTITY;
        return answer(&visit, &state, filled, outcome).await;
    }
    let launch = Launch {
        command: same_command(&filled.pasted, &plan, &state),
        note: filled.values.get("note").cloned().unwrap_or_default(),
        tags: tags(filled.values.get("tags").map_or("", String::as_str)),
        objectives,
        actor: visit.actor(),
        origin: Origin::Local,
        form_token: token,
        member: None,
        plan,
    };
    if asked == Asked::ToCheck {
        if let Err(error) = state.supervisor.check(&launch).await {
            refuse(&mut outcome, error, &filled.values);
        }
        return answer(&visit, &state, filled, outcome).await;
    }
    if action == "register"
        && let Err(unregistered) = register(&visit, &state, &filled.values).await
    {
        outcome.status = StatusCode::UNPROCESSABLE_ENTITY;
        outcome.faults.extend(unregistered.fault);
        outcome.offer = Some(unregistered.offer);
        return answer(&visit, &state, filled, outcome).await;
    }
    let target = launch.plan.target();
    let page = match state.supervisor.launch(launch).await {
        Ok(run) => Redirect::to(&format!("/runs/{}", run.id)).into_response(),
        Err(error) => {
            refuse(&mut outcome, error, &filled.values);
            answer(&visit, &state, filled, outcome).await
        }
    };
    Concerns::mark(target, page)
}

/// The pairs of a submitted form.
pub fn read(form: Result<Form<Vec<(String, String)>>, FormRejection>) -> Result<Values, Trouble> {
    match form {
        Ok(Form(pairs)) => {
            fields::read_pairs(pairs).map_err(|sentence| Trouble::unusable(sentence, "/", "Home"))
        }
        Err(rejection) => {
            let mut trouble = Trouble::unusable("The form could not be read", "/", "Home");
            trouble.status = rejection.status();
            trouble.advice = rejection.body_text();
            Err(trouble)
        }
    }
}

/// The tags in a line, without empty ones and repeats.
pub fn tags(line: &str) -> Vec<String> {
    let mut tags: Vec<String> = Vec::new();
    for tag in line.split(',').map(str::trim) {
        if !tag.is_empty() && !tags.iter().any(|known| known == tag) {
            tags.push(tag.to_owned());
        }
    }
    tags
}

fn refuse(outcome: &mut Outcome, error: LaunchError, values: &Values) {
    outcome.status = StatusCode::UNPROCESSABLE_ENTITY;
    match error {
        LaunchError::Refused {
            field,
            sentence,
            registrable,
        } => {
            // The form has one field for the first URL, and one for more of them.
            let field = if field == "urls" { "url" } else { field };
            outcome.faults.push((field.to_owned(), sentence));
            outcome.offer = registrable.map(|host| offer(&host));
        }
        LaunchError::Invalid(errors) => outcome.faults.extend(
            errors
                .into_iter()
                .map(|error| (form::field_for(&error.field, values), error.message)),
        ),
        LaunchError::QueueFull | LaunchError::TooManyExperiments | LaunchError::Draining => {
            outcome.status = StatusCode::SERVICE_UNAVAILABLE;
            outcome.faults.push((String::new(), error.to_string()));
        }
        LaunchError::DiskFull(_) => {
            outcome.status = StatusCode::INSUFFICIENT_STORAGE;
            outcome.faults.push((String::new(), error.to_string()));
        }
        LaunchError::Storage(_) => {
            outcome.status = StatusCode::INTERNAL_SERVER_ERROR;
            outcome.faults.push((String::new(), error.to_string()));
        }
    }
}

fn offer(host: &str) -> Offer {
    let bare = host.trim_matches(['[', ']']);
    Offer {
        host: bare.to_owned(),
        address: bare.to_owned(),
        name: bare.to_owned(),
        public: bare.parse().is_ok_and(is_public),
        unconfirmed: false,
    }
}

/// Why a target was not registered: what to show again, and what is wrong beside the consent.
struct Unregistered {
    offer: Offer,
    fault: Option<(String, String)>,
}

/// Registers the target that the form offers.
async fn register(visit: &Visit, state: &AppState, values: &Values) -> Result<(), Unregistered> {
    let text = |name: &str| values.get(name).cloned().unwrap_or_default();
    let mut offer = offer(&text("peer_address"));
    offer.name = text("peer_name");
    let wanted = peers::minimal(&offer.name, &offer.address, text("confirm_public") == "on");
    match peers::add(state, &wanted, &visit.actor()).await {
        Ok(_) => Ok(()),
        Err(faults) => {
            offer.unconfirmed = faults.iter().any(|(field, _)| field == "confirm_public");
            offer.public |= offer.unconfirmed;
            let fault = faults
                .into_iter()
                .find(|(field, _)| field != "confirm_public")
                .map(|(_, message)| (String::new(), message));
            Err(Unregistered { offer, fault })
        }
    }
}

/// The pasted line, if the form still means the same.
fn same_command(pasted: &str, plan: &Plan, state: &AppState) -> Option<String> {
    if pasted.is_empty() {
        return None;
    }
    let read = command_line::read(pasted).plan?;
    let meant = Plan::from_json(&read, state.supervisor.caps()).ok()?;
    (meant == *plan).then(|| pasted.to_owned())
}

fn from_line(state: &AppState, pasted: String) -> Filled {
    let reading = command_line::read(&pasted);
    let (kind, values) = if let Some(plan) = &reading.plan {
        // The whole plan, so that what the line left open stands in the form too.
        match Plan::from_json(plan, state.supervisor.caps()) {
            Ok(plan) => form::values_of(&plan.to_json()),
            Err(_) => form::values_of(plan),
        }
    } else {
        // What was understood of a line that cannot be run as it stands.
        let (kind, draft) = match &reading.draft {
            Some(draft) => form::values_of(draft),
            None => (None, Values::new()),
        };
        let kind = match (kind, &reading.server) {
            (None, Some(_)) => Kind::Throughput,
            (kind, _) => kind.unwrap_or(Kind::Rate),
        };
        let mut values = defaults(state, kind);
        values.extend(draft);
        (Some(kind), values)
    };
    Filled {
        kind: kind.unwrap_or(Kind::Rate),
        values,
        pasted,
    }
}

async fn find(
    state: &AppState,
    id: &str,
) -> Result<Option<crate::measure::run::Run>, crate::store::StoreError> {
    match id.parse() {
        Ok(id) => state.supervisor.run(id).await,
        Err(_) => Ok(None),
    }
}

/// What an empty form begins with: this node's own workload, and little of it.
fn defaults(state: &AppState, kind: Kind) -> Values {
    let url = context::workload_url(&state.node).unwrap_or_default();
    let pairs: &[(&str, &str)] = match kind {
        Kind::Rate => &[
            ("rate", "5"),
            ("num_conns", "50"),
            ("num_calls", "1"),
            ("timeout_s", "10"),
            ("schedule", "deterministic"),
            ("max_in_flight", "10000"),
            ("method", "GET"),
        ],
        Kind::Users => &[
            ("concurrent", "4"),
            ("reps", "10"),
            ("delay_s", "0"),
            ("timeout_s", "30"),
            ("method", "GET"),
            ("order", "in_turn"),
        ],
        Kind::Fetch => &[("method", "GET"), ("timeout_s", "30")],
        Kind::Throughput => &[
            ("host", "127.0.0.1"),
            ("port", "5001"),
            ("dialect", "iperf2"),
            ("protocol", "tcp"),
            ("direction", "send"),
            ("streams", "1"),
            ("duration_s", "10"),
            ("interval_s", "1"),
            ("receive", "copy"),
        ],
        Kind::Ping => &[
            ("host", "127.0.0.1"),
            ("count", "5"),
            ("interval_s", "1"),
            ("method", "icmp"),
            ("timeout_s", "1"),
        ],
        Kind::Path => &[("host", "127.0.0.1")],
    };
    let mut values: Values = pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    if kind.is_http() {
        values.insert("url".to_owned(), url);
    }
    values
}

/// Fills in what these values leave open: the defaults, and the port on which the host's receiver listens.
async fn complete(state: &AppState, kind: Kind, values: &mut Values) -> Result<(), Trouble> {
    let mut all = defaults(state, kind);
    all.append(&mut values.clone());
    if kind == Kind::Throughput && !values.contains_key("port") {
        let registered = state
            .store
            .peers()
            .await
            .map_err(|error| Trouble::storage(&error))?;
        let host = all.get("host").cloned().unwrap_or_default();
        let port = match peers::known(&registered, &host) {
            Some(known) => Some(known.peer.ports.throughput),
            None if estimate::is_loopback(&host) => receivers::own_port(state),
            None => None,
        };
        if let Some(port) = port {
            all.insert("port".to_owned(), port.to_string());
        }
    }
    *values = all;
    Ok(())
}

async fn answer(visit: &Visit, state: &AppState, filled: Filled, outcome: Outcome) -> Response {
    let registered = match state.store.peers().await {
        Ok(peers) => peers,
        Err(error) => return Trouble::storage(&error).answer(visit.frame()),
    };
    let reading = (!filled.pasted.is_empty()).then(|| command_line::read(&filled.pasted));
    let status = match &reading {
        Some(reading)
            if !reading.problems.is_empty()
                && reading.server.is_none()
                && outcome.status == StatusCode::OK =>
        {
            StatusCode::UNPROCESSABLE_ENTITY
        }
        _ => outcome.status,
    };
    let examples = home::example_lines(state);
    let example = examples
        .iter()
        .find(|(kind, _)| *kind == filled.kind)
        .or(examples.first())
        .map(|(_, line)| line.clone())
        .unwrap_or_default();
    let receiver = reading
        .as_ref()
        .and_then(|reading| reading.server.as_ref())
        .and_then(|server| receivers::asked_for(state, server));
    let built = launch_page::build(Showing {
        frame: visit.frame(),
        kind: filled.kind,
        values: filled.values,
        pasted: filled.pasted,
        example,
        reading,
        faults: outcome.faults,
        asked: outcome.asked,
        offer: outcome.offer,
        token: token(),
        caps: state.supervisor.caps(),
        open_runs: state.supervisor.open_runs().len(),
        open_files: state.open_files(),
        cpus: state.node.vcpus,
        receiver,
        peers: registered,
    });
    page(status, &built)
}

/// Tells one showing of the form from another; it is no secret.
pub fn token() -> String {
    let number = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", number(), number())
}
