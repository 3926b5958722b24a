//! The finding in a sentence, by rule; where no rule is sure, the title says what was measured and no more.

use crate::measure::outcome::Outcome;
use crate::measure::plan::Plan;
use crate::measure::summary::FetchSummary;
use crate::measure::verdict::facts::{Facts, Load, P99_FROM};
use crate::measure::verdict::failures::{advice, kinds, listed};
use crate::measure::verdict::patterns::{Patterns, Pause, Silence};
use crate::measure::verdict::words;

/// Fewer than this show no rate that a target keeps up with.
const RATE_FROM: u64 = 20;

/// A generator whose busiest thread used less than this share of a core was not late by its own work.
const IDLE: f64 = 0.5;

/// Below this share of failures the title is about the replies.
const FEW_FAILURES: f64 = 0.01;

/// Title and verdict of an open-loop or closed-loop run; the first rule that applies decides.
pub(super) fn of_load(facts: &Facts<'_>, patterns: &Patterns) -> (String, String) {
    let (titles, verdict) = finding(facts, patterns);
    let title = words::first_that_fits(titles, "Latency and outcomes of this run");
    (title, with_reservation(facts, verdict))
}

/// Titles from the most to the least telling, and the verdict.
type Finding = (Vec<String>, String);

fn finding(facts: &Facts<'_>, patterns: &Patterns) -> Finding {
    if facts.all() == 0 {
        return nothing(facts);
    }
    if facts.tried() == 0 {
        return (
            vec!["Stopped before any request ended".to_owned()],
            "Every request was still under way, so there is no latency to report.".to_owned(),
        );
    }
    if facts.out_of_resources() > 0 || facts.held_back() > 0 {
        return generator_short(facts);
    }
    if facts.of(Outcome::Ok) == 0 {
        return all_failed(facts);
    }
    let troubled = patterns.overloaded || patterns.silence.is_some() || patterns.pause.is_some();
    if facts.too_busy() || (facts.late() && !(troubled && facts.is_lateness_small())) {
        return generator_late(facts);
    }
    if patterns.overloaded {
        return overloaded(facts, patterns);
    }
    if let Some(silence) = &patterns.silence {
        return silent(facts, silence);
    }
    let failed = facts.failed() as f64 / facts.tried() as f64;
    if failed >= FEW_FAILURES {
        return some_failed(facts);
    }
    if let Some(pause) = patterns.pause {
        return paused(facts, pause);
    }
    answered(facts, patterns.growth.is_some())
}

fn nothing(facts: &Facts<'_>) -> Finding {
    if facts.held_back() > 0 {
        return generator_short(facts);
    }
    let (title, verdict) = if facts.ended.stopped {
        (
            "Stopped before any request was sent",
            "There is nothing to report.",
        )
    } else {
        (
            "No request was sent: the plan holds none",
            "A longer time or a higher rate gives the plan at least one request.",
        )
    };
    (vec![title.to_owned()], verdict.to_owned())
}

fn generator_short(facts: &Facts<'_>) -> Finding {
    let planned = facts.planned.unwrap_or(facts.all() + facts.unsent);
    let held_back = facts.held_back();
    let of = words::counted(planned, "request", "requests");
    let (what, verdict) = [
        (
            Outcome::PortExhausted,
            "found no local port",
            "Each connection keeps its port for a minute after its end: send fewer a second, keep connections, or bind a second address.",
        ),
        (
            Outcome::FdExhausted,
            "found no file descriptor",
            "This process may not open more files: raise its limit (ulimit -n) or allow fewer requests in flight.",
        ),
        (
            Outcome::FtabFull,
            "found no free file in the system's table",
            "This machine may not open more files: raise fs.file-max.",
        ),
    ]
    .into_iter()
    .find(|(outcome, _, _)| facts.of(*outcome) > held_back)
    .map_or_else(
        || {
            let allowed = facts.max_in_flight.map_or_else(
                || "as many as allowed".to_owned(),
                |most| format!("the {} that are allowed", words::count(most.into())),
            );
            let what = format!("{} of {of} were not sent", words::count(held_back));
            let verdict = format!(
                "Whenever one was due, {allowed} were already under way. The rate that was planned was not offered, so these figures do not show what it does to the target."
            );
            (what, verdict)
        },
        |(outcome, what, verdict)| {
            let what = format!("{} of {of} {what}", words::count(facts.of(outcome)));
            (what, verdict.to_owned())
        },
    );
    (
        vec![
            format!("The generator was the limit: {what}"),
            "The generator was the limit".to_owned(),
        ],
        verdict,
    )
}

fn generator_late(facts: &Facts<'_>) -> Finding {
    let what = match facts.lateness_p99_and_allowed() {
        Some((p99, allowed)) if p99 > allowed => facts.late_words(p99),
        _ => format!(
            "its busiest thread used {} of a core",
            words::percent(facts.busiest())
        ),
    };
    (
        vec![
            format!("The generator was the limit: {what}"),
            "The generator was the limit".to_owned(),
        ],
        if facts.is_cut_off() {
            "Part of each latency is this machine's own.".to_owned()
        } else if facts.busiest() < IDLE {
            format!(
                "Part of each latency is this machine's own: other work held its cores, since the generator used {} of one. Run it again when the machine is idle, or from another.",
                words::percent(facts.busiest())
            )
        } else {
            "Part of each latency is this machine's own. Run it again at half the rate, or from a machine with free cores."
                .to_owned()
        },
    )
}

fn all_failed(facts: &Facts<'_>) -> Finding {
    let target = &facts.target;
    let kinds = kinds(facts);
    let n = facts.tried();
    let Some(&(most, count)) = kinds.first() else {
        return answered(facts, false);
    };
    let all = match n {
        1 => "The only request".to_owned(),
        n => format!("All {}", words::counted(n, "request", "requests")),
    };
    let (were, they) = if n == 1 {
        ("was", "it")
    } else {
        ("were", "they")
    };
    if count < n {
        let title = format!(
            "{target} answers none of {}",
            words::counted(n, "request", "requests")
        );
        return (
            vec![format!("{title}: {}", listed(&kinds)), title],
            advice(facts, most),
        );
    }
    let after = words::seconds(facts.timeout_s);
    let title = match most {
        Outcome::ConnectRefused => format!("{all} to {target} {were} refused"),
        Outcome::ConnectTimeout => format!("{all} to {target} got no connection within {after}"),
        Outcome::SendTimeout | Outcome::TtfbTimeout | Outcome::TotalTimeout => {
            format!("{all} to {target} timed out after {after}")
        }
        Outcome::Unreachable => format!("{target} cannot be reached from here: no route"),
        Outcome::DnsFailed => format!("The name of {target} has no address"),
        Outcome::TlsFailed => format!("{target}: no TLS handshake succeeded"),
        Outcome::Http4xx | Outcome::Http5xx | Outcome::HttpOther => {
            let class = match most {
                Outcome::Http4xx => "4xx",
                Outcome::Http5xx => "5xx",
                _ => "another status than 2xx to 5xx",
            };
            format!("{all} to {target} {were} answered with {class}")
        }
        Outcome::InvalidReply => format!("What {target} answers is not HTTP"),
        Outcome::Truncated => format!("{target} cuts off every reply"),
        Outcome::EmptyReply => format!("{target} closes every connection without a reply"),
        Outcome::ResetBeforeReply | Outcome::ResetInBody => {
            format!("{target} resets every connection")
        }
        _ => format!("{all} to {target} failed, and {they} all failed alike"),
    };
    (vec![title, format!("{all} failed")], advice(facts, most))
}

fn overloaded(facts: &Facts<'_>, patterns: &Patterns) -> Finding {
    let achieved = facts.achieved.unwrap_or(0.0);
    let median = facts.latency.median.unwrap_or(0.0);
    let silence = patterns.silence.as_ref();
    let subject = subject(facts, silence);
    let at = format!("{subject} is overloaded at {}", facts.offered_words());
    let mut titles = Vec::new();
    if let Some(silence) = silence {
        let from = words::instant(silence.from_s);
        let still_fast = silence.name.is_some() && median < 200.0 * facts.timeout_s;
        if still_fast {
            titles.push(format!(
                "{at}: from {from} on it answers nobody, yet the median stays at {}",
                words::time(median)
            ));
        }
        titles.push(format!("{at}: from {from} on it answers nobody"));
    }
    let longest = match (facts.timeouts(), facts.latency.max) {
        (0, Some(max)) => format!("the wait grows to {}", words::time(max)),
        (n, _) => format!("{} timed out", words::counted(n, "request", "requests")),
    };
    titles.push(format!(
        "{at}: it answers {} in time, {longest}",
        words::rate(achieved)
    ));
    titles.push(format!("{at}: {longest}"));
    titles.push(at);
    let verdict = if silence.is_some() || facts.timeouts() * 20 >= facts.tried() {
        format!(
            "Its queue grows until requests wait longer than the timeout of {}; from then on it works for clients that have left.",
            words::seconds(facts.timeout_s)
        )
    } else {
        let growth = patterns.growth.map_or_else(String::new, |growth| {
            format!(" by {} each second", words::time(growth * 1000.0))
        });
        format!(
            "Requests come faster than they are served, so each waits longer than the one before{growth}. A longer run would show longer latencies: below about {} the queue would not grow.",
            words::rate(achieved)
        )
    };
    (titles, verdict)
}

fn subject(facts: &Facts<'_>, silence: Option<&Silence>) -> String {
    match silence.and_then(|silence| silence.name.as_deref()) {
        Some(name) => words::short(name, "One backend"),
        None => facts.target.clone(),
    }
}

fn silent(facts: &Facts<'_>, silence: &Silence) -> Finding {
    let subject = subject(facts, Some(silence));
    let from = words::instant(silence.from_s);
    let failed = facts.failed();
    let title = format!("From {from} on {subject} answers nobody");
    let verdict = match kinds(facts).first() {
        Some(&(Outcome::ConnectRefused, _)) if silence.name.is_none() => {
            "From then on nothing listens there: the server has stopped, or was taken away."
                .to_owned()
        }
        Some(&(most, _)) if silence.name.is_none() => advice(facts, most),
        _ if failed == 0 => format!(
            "The others took its requests over; {subject} may have been stopped or taken out of the pool."
        ),
        _ => "It may have stopped, or was taken out of the pool after it failed.".to_owned(),
    };
    let count = words::counted(facts.tried(), "request", "requests");
    let with = match failed {
        0 => format!("{title}, and no request failed"),
        failed => format!("{title}: {} of {count} failed", words::count(failed)),
    };
    (vec![with, title], verdict)
}

fn paused(facts: &Facts<'_>, pause: Pause) -> Finding {
    let title = format!(
        "{} answers nobody for {}, from {} on",
        facts.target,
        words::seconds(pause.length_s),
        words::instant(pause.from_s)
    );
    let mut titles = Vec::new();
    if let Some(max) = facts.latency.max {
        titles.push(format!("{title}; the longest wait is {}", words::time(max)));
    }
    titles.push(title);
    let verdict = match facts.load {
        Load::Open { .. } => {
            "Every request that was due in that time waited for its end. A tool that waits for a reply before it sends again would have shown one slow request."
        }
        _ => {
            "All users waited for its end, so few requests show it: a run at a fixed rate would show how many it delays."
        }
    };
    (titles, verdict.to_owned())
}

fn some_failed(facts: &Facts<'_>) -> Finding {
    let kinds = kinds(facts);
    let (failed, tried) = (facts.failed(), facts.tried());
    let all = words::counted(tried, "request", "requests");
    let share = if tried < 20 {
        format!(
            "{} of {all} to {} failed",
            words::count(failed),
            facts.target
        )
    } else {
        format!(
            "{} of {all} to {} failed",
            words::percent(failed as f64 / tried as f64),
            facts.target
        )
    };
    let most = kinds.first().map_or(Outcome::Other, |(most, _)| *most);
    (
        vec![format!("{share}: {}", listed(&kinds)), share],
        advice(facts, most),
    )
}

fn answered(facts: &Facts<'_>, rises: bool) -> Finding {
    let target = &facts.target;
    let n = facts.tried();
    let latency = facts.latency;
    let (Some(median), Some(max)) = (latency.median, latency.max) else {
        return (
            vec![format!(
                "Latency of {}",
                words::counted(n, "request", "requests")
            )],
            "No reply has a latency.".to_owned(),
        );
    };
    if n < RATE_FROM {
        let title = if n == 1 {
            format!("{target} answers in {}", words::time(median))
        } else {
            format!(
                "{target} answers all {n}\u{a0}requests: median {}, slowest {}",
                words::time(median),
                words::time(max)
            )
        };
        let verdict = "So few requests show that it answers, not how much it can take.";
        return (vec![title], verdict.to_owned());
    }
    let tail = if n >= P99_FROM {
        format!("p99 {}", words::time(latency.p99.unwrap_or(max)))
    } else {
        format!("slowest {}", words::time(max))
    };
    let figures = format!("median {}, {tail}", words::time(median));
    let failed = facts.failed();
    let but = match failed {
        0 => String::new(),
        failed => format!("; {} of {} failed", words::count(failed), words::count(n)),
    };
    let achieved = words::rate(facts.achieved.unwrap_or(0.0));
    let (subject, verdict) = match facts.load {
        Load::Open { .. } if rises => (
            format!("{target} answers {}, ever later", facts.offered_words()),
            "Latency rises over the run, so it does not keep up for long. A longer run shows where it ends.".to_owned(),
        ),
        Load::Open { .. } => (
            format!("{target} keeps up with {}", facts.offered_words()),
            "Latency stays level to the end of the run. Where that stops only a higher rate can show.".to_owned(),
        ),
        Load::Sequential => (
            format!("One after another, {target} answers {achieved}"),
            "One request at a time never waits for another: this is the time without any queue."
                .to_owned(),
        ),
        Load::Closed { users } => {
            let users = words::counted(users.into(), "user", "users");
            (
                format!("{users} get {achieved} from {target}"),
                "Users wait for their reply before they ask again, so the target sets this rate. A queue longer than the number of users cannot show here.".to_owned(),
            )
        }
    };
    let subject = subject.replace("1\u{a0}user get ", "1\u{a0}user gets ");
    (
        vec![
            format!("{subject}: {figures}{but}"),
            format!("{subject}: {figures}"),
            subject,
        ],
        verdict,
    )
}

/// Adds what limits the verdict as its second sentence, where it has only one so far.
fn with_reservation(facts: &Facts<'_>, verdict: String) -> String {
    let sentences = verdict.matches(". ").count() + 1;
    if sentences > 1 || facts.all() == 0 {
        return verdict;
    }
    if facts.ended.stopped {
        let after = words::instant(facts.ended.duration.as_secs_f64());
        return format!("{verdict} It was stopped after {after}, so this is only its beginning.");
    }
    if let Some((p99, allowed)) = facts.lateness_p99_and_allowed()
        && p99 > allowed
    {
        let late = facts.late_words(p99);
        let weight = if facts.is_lateness_small() {
            "little against the slowest latency"
        } else {
            "the slowest latencies carry that"
        };
        return format!("{verdict} Here {late}: {weight}.");
    }
    if facts.ended.same_host && facts.replies > 0 {
        return format!(
            "{verdict} Target and generator share this machine, so each slows the other."
        );
    }
    verdict
}

/// Title and verdict of a single request.
pub(super) fn of_fetch(plan: &Plan, summary: &FetchSummary) -> (String, String) {
    let target = plan.urls().first().map_or_else(
        || "The target".to_owned(),
        |url| words::host(url, "The target"),
    );
    let Some((status, total)) = summary.status.zip(summary.total_ms) else {
        let title = if summary.outcome.is_empty() {
            "No request was sent".to_owned()
        } else {
            format!(
                "{target} gave no complete reply: {}",
                summary.outcome.replace('_', " ")
            )
        };
        let verdict = match summary.detail.as_deref() {
            Some(detail) => format!("{}.", detail.trim_end_matches('.')),
            None => "The outcome says where it ended.".to_owned(),
        };
        return (
            words::first_that_fits([title], "No complete reply"),
            verdict,
        );
    };
    let title = format!("{target} answers {status} in {}", words::time(total));
    let parts = [
        (summary.connect_ms, "connecting"),
        (summary.tls_ms, "the TLS handshake"),
        (waiting(summary), "waiting for the first byte"),
        (
            summary.first_byte_ms.map(|first| total - first),
            "receiving",
        ),
    ];
    let largest = parts
        .into_iter()
        .filter_map(|(part, what)| Some((part?, what)))
        .max_by(|a, b| a.0.total_cmp(&b.0));
    let verdict = match largest {
        Some((part, what)) => format!("Most of it, {}, is {what}.", words::time(part)),
        None => "Its phases were not measured.".to_owned(),
    };
    (words::first_that_fits([title], "One reply"), verdict)
}

/// First byte − connect − TLS.
fn waiting(summary: &FetchSummary) -> Option<f64> {
    let before = summary.connect_ms.unwrap_or(0.0) + summary.tls_ms.unwrap_or(0.0);
    summary.first_byte_ms.map(|first| (first - before).max(0.0))
}
