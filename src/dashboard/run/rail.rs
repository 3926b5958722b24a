//! The rail beside a report: outcomes, plan and environment as pairs of words.

use crate::dashboard::context;
use crate::dashboard::run::{flow_rail, imported};
use crate::dashboard::words;
use crate::measure::outcome::Outcome;
use crate::measure::plan::{Order, Plan, Rate, RatePlan, Schedule, Tls, UsersPlan};
use crate::measure::run::{Environment, Origin, Run, State};
use crate::measure::summary::Summary;

/// One line of facts.
#[derive(Clone, Debug, PartialEq)]
pub struct Fact {
    /// What it is.
    pub name: String,
    /// The value.
    pub value: String,
    /// Whether it is bad news.
    pub bad: bool,
}

/// How the requests ended; kinds that did not occur are one line.
pub fn outcomes(summary: &Summary) -> Vec<Fact> {
    let (planned, unsent, kinds) = match summary {
        Summary::Rate(figures) => (Some(figures.planned), figures.unsent, &figures.outcomes),
        Summary::Users(figures) => (figures.planned, figures.unsent, &figures.outcomes),
        Summary::Fetch(figures) => {
            return vec![fact("outcome", &figures.outcome, figures.outcome != "ok")];
        }
        Summary::Throughput(_) | Summary::Ping(_) | Summary::Path(_) | Summary::Imported(_) => {
            return Vec::new();
        }
    };
    let mut out = Vec::new();
    if let Some(planned) = planned {
        out.push(fact("planned", &words::count(planned), false));
    }
    for outcome in Outcome::ALL {
        let number = kinds.get(outcome.key()).copied().unwrap_or(0);
        match outcome {
            Outcome::Ok => out.push(fact("ok (2xx, 3xx)", &words::count(number), false)),
            _ if number > 0 => out.push(fact(outcome.key(), &words::count(number), true)),
            _ => {}
        }
    }
    let silent = Outcome::ALL
        .into_iter()
        .filter(|outcome| {
            kinds.get(outcome.key()).copied().unwrap_or(0) == 0 && *outcome != Outcome::Ok
        })
        .count();
    out.push(fact(
        if silent + 1 == Outcome::ALL.len() {
            "every other kind"
        } else {
            "all other kinds"
        },
        "0",
        false,
    ));
    out.push(fact("unsent", &words::count(unsent), unsent > 0));
    let retried = match summary {
        Summary::Rate(figures) => figures.stale_keepalive_retried,
        Summary::Users(figures) => figures.stale_keepalive_retried,
        _ => 0,
    };
    if retried > 0 {
        out.push(fact(
            "sent again (stale connection)",
            &words::count(retried),
            false,
        ));
    }
    out
}

/// The machine of a run.
pub fn environment_of(run: &Run) -> Vec<Fact> {
    match run.state {
        State::Imported => imported::environment(run),
        _ => environment(&run.node, &run.environment),
    }
}

/// Where its figures come from.
pub fn told_by(run: &Run) -> String {
    match &run.plan {
        Plan::Imported(plan) => format!("what {} printed", plan.tool()),
        _ => run.node.clone(),
    }
}

/// Where a person begins to do the same again; empty where that cannot be.
pub fn again(run: &Run, command: &str) -> String {
    match (run.state, run.origin) {
        (State::Imported, _) if command.is_empty() => String::new(),
        (State::Imported, _) => context::query("/runs/new", &[("command", command)]),
        (_, Origin::Received) => String::new(),
        _ => format!("/runs/new?from={}", run.id),
    }
}

/// What stands above the command line.
pub fn command_head(run: &Run) -> &'static str {
    match (run.state, run.origin) {
        (State::Imported, _) => "As the text shows it",
        (State::Queued | State::Running, _) => "The same on the command line",
        (_, Origin::Received) => "As it was served",
        _ => "Do it again",
    }
}

/// What the plan says beyond the command line's obvious.
pub fn plan(plan: &Plan) -> Vec<Fact> {
    match plan {
        Plan::Rate(plan) => rate(plan),
        Plan::Users(plan) => users(plan),
        Plan::Fetch(plan) => {
            let mut out = vec![
                fact("request", &format!("{} once", plan.method), false),
                fact("timeout", &words::seconds(plan.timeout_s), false),
            ];
            out.extend(request(&plan.headers, plan.body.as_deref()));
            out.extend(tls(&plan.tls, plan.url.scheme() == "https"));
            out
        }
        Plan::Throughput(plan) => flow_rail::throughput(plan),
        Plan::Ping(plan) => flow_rail::ping(plan),
        Plan::Path(plan) => flow_rail::of_path(plan),
        Plan::Imported(plan) => imported::plan(plan),
    }
}

fn rate(plan: &RatePlan) -> Vec<Fact> {
    let mut out = vec![fact(
        "rate",
        &match &plan.rate {
            Rate::Constant(0.0) => "one after another".to_owned(),
            Rate::Constant(rate) => format!("{} per s", words::digits_short(*rate)),
            Rate::Steps(steps) => format!("{} steps", steps.len()),
        },
        false,
    )];
    if let Some(number) = plan.num_conns {
        out.push(fact("connections", &words::count(number), false));
    }
    if let Some(seconds) = plan.duration_s {
        out.push(fact("for", &words::seconds(seconds), false));
    }
    out.extend([
        fact(
            "arrivals",
            match plan.schedule {
                Schedule::Deterministic => "evenly spaced",
                Schedule::Exponential => "random (exponential)",
            },
            false,
        ),
        fact(
            "calls per connection",
            &words::count(plan.num_calls.into()),
            false,
        ),
        fact(
            "timeout",
            &format!("{} from the send", words::seconds(plan.timeout_s)),
            false,
        ),
        fact(
            "in flight at most",
            &words::count(plan.max_in_flight.into()),
            false,
        ),
        fact("method", &plan.method, false),
    ]);
    if plan.urls.len() > 1 {
        out.push(fact("URLs", &words::count(plan.urls.len() as u64), false));
    }
    out.extend(request(&plan.headers, plan.body.as_deref()));
    if let Some(bind) = plan.bind {
        out.push(fact("sent from", &bind.to_string(), false));
    }
    out.push(fact("http", &plan.http, false));
    out.extend(tls(
        &plan.tls,
        plan.urls.iter().any(|url| url.url.scheme() == "https"),
    ));
    out
}

fn users(plan: &UsersPlan) -> Vec<Fact> {
    let mut out = vec![fact("users", &words::count(plan.concurrent.into()), false)];
    if let Some(reps) = plan.reps {
        out.push(fact("requests of each", &words::count(reps), false));
    }
    if let Some(seconds) = plan.duration_s {
        out.push(fact("for", &words::seconds(seconds), false));
    }
    out.extend([
        fact(
            "delay",
            &if plan.delay_s == 0.0 {
                "none".to_owned()
            } else {
                format!("0 to {}", words::seconds(plan.delay_s))
            },
            false,
        ),
        fact(
            "connection",
            if plan.keep_alive {
                "kept"
            } else {
                "new each time"
            },
            false,
        ),
        fact("timeout", &words::seconds(plan.timeout_s), false),
        fact("method", &plan.method, false),
    ]);
    if plan.urls.len() > 1 {
        let order = match plan.order {
            Order::InTurn => "in turn",
            Order::Random => "at random",
        };
        out.push(fact(
            "URLs",
            &format!("{}, {order}", plan.urls.len()),
            false,
        ));
    }
    out.extend(request(&plan.headers, plan.body.as_deref()));
    out.push(fact("http", &plan.http, false));
    out.extend(tls(
        &plan.tls,
        plan.urls.iter().any(|url| url.url.scheme() == "https"),
    ));
    out
}

fn request(headers: &std::collections::BTreeMap<String, String>, body: Option<&str>) -> Vec<Fact> {
    let mut out = Vec::new();
    if !headers.is_empty() {
        let names: Vec<&str> = headers.keys().map(String::as_str).collect();
        out.push(fact("headers", &names.join(", "), false));
    }
    if let Some(body) = body {
        out.push(fact("body", &words::bytes(body.len() as f64), false));
    }
    out
}

fn tls(tls: &Tls, used: bool) -> Vec<Fact> {
    if !used {
        return vec![fact("TLS", "none", false)];
    }
    let how = match (&tls.ca, tls.insecure) {
        (_, true) => "any certificate accepted",
        (Some(_), false) => "own authority",
        (None, false) => "certificate checked",
    };
    vec![fact("TLS", how, tls.insecure)]
}

/// The machine that sent.
pub fn environment(node: &str, environment: &Environment) -> Vec<Fact> {
    let mut out = vec![fact("from", node, false)];
    let mut add = |name: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            out.push(fact(name, &value, false));
        }
    };
    add("cpu", environment.cpu_model.clone());
    add("CPUs", environment.cpus.map(|cpus| cpus.to_string()));
    add("kernel", environment.kernel.clone());
    add("congestion", environment.congestion.clone());
    add("MTU", environment.mtu.map(|mtu| mtu.to_string()));
    add("qdisc", environment.qdisc.clone());
    add(
        "load before",
        environment.load_before.map(|load| format!("{load:.2}")),
    );
    add("open files", environment.open_files.map(words::count));
    add(
        "local ports",
        environment
            .local_ports
            .map(|(from, to)| format!("{from} to {to}")),
    );
    add("tidemark", Some(environment.version.clone()));
    out
}

pub(super) fn fact(name: &str, value: &str, bad: bool) -> Fact {
    Fact {
        name: name.to_owned(),
        value: value.to_owned(),
        bad,
    }
}
