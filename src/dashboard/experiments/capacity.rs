//! What a capacity search adds to its experiment's page: checks, every trial with its reason, and what to set in a
//! balancer; and those settings as a file.

use axum::extract::{Path, State as Shared};
use axum::http::header;
use axum::response::{IntoResponse, Response};

use super::find;
use crate::dashboard::context::Visit;
use crate::dashboard::error::Trouble;
use crate::dashboard::run::rail::Fact;
use crate::dashboard::words::{self, DASH, Measure};
use crate::measure::experiment::{Experiment, Spec, searched};
use crate::measure::run::{Check, Severity};
use crate::measure::search::{Arrival, Capacity, Label, LimitedBy, Settings, Trial, Verdict};
use crate::measure::units;
use crate::report::{Backend, Balancer, Held, balancer_text};
use crate::state::AppState;
use crate::store::Peer;

/// One trial in the table.
#[derive(Clone, Debug, PartialEq)]
pub struct TrialRow {
    /// What was offered.
    pub rate: String,
    /// How it arrived.
    pub arrivals: &'static str,
    /// Class and mark of the verdict.
    pub class: &'static str,
    /// The mark.
    pub mark: &'static str,
    /// The verdict's word.
    pub verdict: &'static str,
    /// The goal's quantile, or the loss.
    pub figure: String,
    /// Requests judged.
    pub requests: String,
    /// Why.
    pub reason: String,
    /// The run.
    pub run: Option<i64>,
    /// Whether it is one of the bounds.
    pub bound: bool,
}

/// Settings for one balancer.
#[derive(Clone, Debug, PartialEq)]
pub struct BalancerText {
    /// The word in addresses.
    pub word: &'static str,
    /// Its name.
    pub name: &'static str,
    /// The text.
    pub text: String,
}

/// Everything that a search adds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SearchView {
    /// Head of the table.
    pub head: String,
    /// What its column of figures is called.
    pub figure_name: String,
    /// Every trial.
    pub trials: Vec<TrialRow>,
    /// Settings for balancers.
    pub settings: Vec<BalancerText>,
    /// Why there are none.
    pub no_settings: String,
    /// Requests a second for each instance, as the commands page takes it; empty where none is suggested.
    pub rate: String,
    /// Further sentences.
    pub notes: Vec<String>,
}

/// A rate with its unit, of requests or of bits.
fn rate(capacity: &Capacity, value: Option<f64>) -> Measure {
    if capacity.loss_share.is_some() {
        Measure::bits(value)
    } else {
        Measure::per_s(value)
    }
}

/// What speaks for and against the result.
pub fn checks(capacity: &Capacity) -> Vec<Check> {
    let check = |name: &str, ok: Option<bool>, detail: String| Check {
        name: name.to_owned(),
        ok,
        severity: Severity::Warn,
        detail,
    };
    let limit = match capacity.limited_by {
        Some(LimitedBy::Budget) => "the time was over first",
        Some(LimitedBy::MaxRate) => "no higher rate was allowed",
        Some(LimitedBy::Generator) => "this machine could not offer more",
        None => "no rate held",
    };
    let mut checks = vec![check(
        "regular",
        Some(capacity.regular),
        if capacity.regular {
            "a lower and an upper bound, no contradiction".to_owned()
        } else {
            format!("a bound is missing: {limit}")
        },
    )];
    if let Some(lower) = capacity.lower_per_s {
        let at = |trial: &&Trial| {
            trial.rate.total_cmp(&lower).is_eq() && trial.verdict != Verdict::Invalid
        };
        let all = capacity.steps.iter().filter(at).count();
        let passed = capacity
            .steps
            .iter()
            .filter(at)
            .filter(|trial| trial.verdict == Verdict::Pass)
            .count();
        checks.push(check(
            "confirmed",
            Some(all > 1 && 4 * passed >= 3 * all),
            format!("{passed} of {all} steps at the lower bound passed"),
        ));
    }
    let worst = capacity
        .steps
        .iter()
        .filter(|trial| trial.verdict == Verdict::Pass)
        .filter_map(|trial| trial.lateness_ms)
        .reduce(f64::max);
    if let Some(worst) = worst {
        checks.push(check(
            "on_schedule",
            Some(true),
            format!(
                "p99 lateness {} in the worst step that passed",
                words::ms(Some(worst))
            ),
        ));
    }
    if capacity.invalid_trials > 0 {
        let resource = capacity
            .resource
            .as_deref()
            .map_or_else(String::new, |resource| format!(": {resource}"));
        checks.push(check(
            "generator_not_limited",
            Some(false),
            format!(
                "{} of {} steps say nothing about the target{resource}",
                capacity.invalid_trials, capacity.trials
            ),
        ));
    }
    for label in &capacity.labels {
        let (name, detail) = match label {
            Label::SharedHost => ("not_shared_host", "target and generator share the cores"),
            Label::Noisy => ("steady", "a rate passed and failed by turns"),
            Label::Spread => ("alike", "even unloaded some requests take far longer"),
            Label::ErrorsAtAnyLoad => ("no errors", "some requests fail however low the rate"),
            Label::ServerChanged => ("unchanged", "the target changed, and the search began anew"),
            Label::Degrades => ("no collapse", "overloaded, it answers fewer than it can"),
        };
        checks.push(check(name, Some(false), detail.to_owned()));
    }
    checks
}

/// What was asked for, decided.
pub fn facts(capacity: &Capacity, settings: &Settings) -> Vec<Fact> {
    let fact = |name: &str, value: String| Fact {
        name: name.to_owned(),
        value,
        bad: false,
    };
    let mut facts = Vec::new();
    if let Some(share) = capacity.loss_share {
        facts.push(fact(
            "goal",
            format!("at most {} lost", units::share_text(share)),
        ));
    } else if let (Some(quantile), Some(goal)) = (capacity.quantile, capacity.goal_ms) {
        facts.push(fact(
            "goal",
            format!(
                "p{} ≤ {}",
                units::significant(quantile * 100.0),
                words::ms(Some(goal))
            ),
        ));
        facts.push(fact(
            "errors",
            settings.goal.error_share.map_or_else(
                || "none of 3000 requests, 0.1 % of more".to_owned(),
                |share| format!("at most {}", units::share_text(share)),
            ),
        ));
    }
    let arrivals = match settings.arrival {
        Arrival::Deterministic => "evenly spaced, then random",
        Arrival::Exponential => "random",
    };
    if capacity.loss_share.is_none() {
        facts.push(fact("arrivals", arrivals.to_owned()));
    }
    facts.push(fact("bounds apart", units::share_text(settings.width)));
    facts.push(fact("a step", words::seconds(settings.step_s)));
    facts.push(fact(
        "time",
        match capacity.budget_s {
            Some(budget) => format!(
                "{} of {}",
                words::seconds(capacity.elapsed_s),
                words::seconds(budget)
            ),
            None => words::seconds(capacity.elapsed_s),
        },
    ));
    facts
}

/// The parts of the page that only a search has.
pub fn view(
    experiment: &Experiment,
    capacity: &Capacity,
    peers: &[Peer],
    spec: &Spec,
) -> SearchView {
    let mut head = words::plural(capacity.trials, "trial", "trials");
    if capacity.invalid_trials > 0 {
        head = format!("{head}, {} invalid", words::count(capacity.invalid_trials));
    }
    let is_loss = capacity.loss_share.is_some();
    let mut view = SearchView {
        head,
        figure_name: if is_loss {
            "lost".to_owned()
        } else {
            capacity.quantile.map_or_else(
                || "latency".to_owned(),
                |q| format!("p{}", units::significant(q * 100.0)),
            )
        },
        trials: capacity
            .steps
            .iter()
            .map(|trial| row(capacity, trial))
            .collect(),
        notes: capacity.notes.clone(),
        rate: capacity
            .suggested_max_rate_per_instance
            .map(words::plain)
            .unwrap_or_default(),
        ..SearchView::default()
    };
    if is_loss {
        return view;
    }
    for balancer in Balancer::ALL {
        match settings_text(experiment, capacity, peers, spec, balancer) {
            Ok(text) => view.settings.push(BalancerText {
                word: balancer.word(),
                name: balancer.name(),
                text,
            }),
            Err(why) => view.no_settings = why,
        }
    }
    view
}

fn row(capacity: &Capacity, trial: &Trial) -> TrialRow {
    let (class, mark) = match trial.verdict {
        Verdict::Pass => ("ok", "✓"),
        Verdict::Fail => ("bad", "✕"),
        Verdict::Invalid => ("warn", "!"),
    };
    let is = |bound: Option<f64>| bound.is_some_and(|bound| bound.total_cmp(&trial.rate).is_eq());
    TrialRow {
        rate: rate(capacity, Some(trial.rate)).text(),
        arrivals: match trial.arrival {
            Arrival::Deterministic => "even",
            Arrival::Exponential => "random",
        },
        class,
        mark,
        verdict: trial.verdict.word(),
        figure: match trial.loss_share {
            Some(share) => units::share_text(share),
            None => trial
                .latency_ms
                .map_or_else(|| DASH.to_owned(), |ms| words::ms(Some(ms))),
        },
        requests: words::count(trial.requests),
        reason: trial.reason.clone(),
        run: trial.run,
        bound: is(capacity.lower_per_s) || is(capacity.upper_per_s),
    }
}

/// The servers behind the balancer: the peers at the target's address, else the target itself.
fn backends(spec: &Spec, peers: &[Peer]) -> Vec<Backend> {
    let endpoint = spec
        .arms()
        .first()
        .and_then(|arm| arm.plan.endpoints().into_iter().next());
    let Some(endpoint) = endpoint else {
        return Vec::new();
    };
    let peer = peers.iter().find(|peer| {
        peer.name == endpoint.host
            || [&peer.internal_address, &peer.external_address]
                .into_iter()
                .flatten()
                .any(|address| *address == endpoint.host)
    });
    vec![Backend {
        name: peer.map_or_else(|| "web".to_owned(), |peer| peer.name.clone()),
        address: endpoint.host,
        port: endpoint.port.unwrap_or(80),
        zone: peer.and_then(|peer| peer.zone.clone()),
        cap_bits_per_second: None,
        allowed: None,
    }]
}

/// The peers of these names as servers, with their caps.
pub fn named(names: &str, peers: &[Peer]) -> Result<Vec<Backend>, String> {
    names
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .map(|name| {
            let peer = peers
                .iter()
                .find(|peer| peer.name.eq_ignore_ascii_case(name))
                .ok_or_else(|| {
                    let shown: String = name.chars().take(60).collect();
                    format!("There is no peer {shown:?}: register it first")
                })?;
            let address = peer
                .internal_address
                .as_ref()
                .or(peer.external_address.as_ref());
            Ok(Backend {
                name: peer.name.clone(),
                address: address.cloned().unwrap_or_else(|| peer.name.clone()),
                port: peer.ports.workload,
                zone: peer.zone.clone(),
                cap_bits_per_second: peer
                    .internal_cap_bits_per_second
                    .or(peer.external_cap_bits_per_second),
                allowed: None,
            })
        })
        .collect()
}

fn settings_text(
    experiment: &Experiment,
    capacity: &Capacity,
    peers: &[Peer],
    spec: &Spec,
    balancer: Balancer,
) -> Result<String, String> {
    let source = source(experiment);
    let held = Held::of(capacity);
    balancer_text(balancer, &source, held.as_ref(), &backends(spec, peers))
}

fn source(experiment: &Experiment) -> String {
    format!(
        "From experiment {}, the capacity of {}.",
        experiment.id, experiment.target
    )
}

/// Answers `GET /experiments/{id}/balancer?for=gcloud|haproxy|nginx[&peers=a,b]`: the settings as text.
pub async fn balancer(
    visit: Visit,
    Shared(state): Shared<AppState>,
    Path(id): Path<String>,
) -> Response {
    match make(&visit, &state, &id).await {
        Ok(text) => (
            [
                (header::CONTENT_TYPE, "text/plain; charset=utf-8"),
                (header::CACHE_CONTROL, "no-store"),
            ],
            text,
        )
            .into_response(),
        Err(trouble) => trouble.answer(visit.frame()),
    }
}

async fn make(visit: &Visit, state: &AppState, id: &str) -> Result<String, Trouble> {
    let experiment = find(state, id).await?;
    let way = format!("/experiments/{}", experiment.id);
    let refuse = |why: String| Trouble::unusable(why, way.clone(), "The experiment");
    let value = |key: &str| {
        url::form_urlencoded::parse(visit.query().as_bytes())
            .find(|(name, _)| name == key)
            .map(|(_, value)| value.into_owned())
    };
    let word = value("for").unwrap_or_else(|| Balancer::Haproxy.word().to_owned());
    let Some(balancer) = Balancer::from_word(&word) else {
        let words: Vec<&str> = Balancer::ALL.map(Balancer::word).to_vec();
        return Err(refuse(format!(
            "Settings are written for {}",
            words.join(", ")
        )));
    };
    let spec = experiment.design();
    let capacity = searched(experiment.capacity.as_ref());
    let (Some(spec @ Spec::Capacity(_)), Some(capacity)) = (&spec, &capacity) else {
        return Err(refuse(format!(
            "Experiment {} searched for no capacity",
            experiment.id
        )));
    };
    let peers = state.store.peers().await;
    let peers = peers.map_err(|error| Trouble::storage(&error))?;
    let servers = match value("peers") {
        Some(names) => named(&names, &peers).map_err(refuse)?,
        None => backends(spec, &peers),
    };
    let held = Held::of(capacity);
    balancer_text(balancer, &source(&experiment), held.as_ref(), &servers).map_err(refuse)
}
