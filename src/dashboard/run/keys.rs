//! The key figures of a report: six at most, the bad news marked.

use crate::dashboard::words::{self, Measure};
use crate::measure::outcome::Outcome;
use crate::measure::plan::Plan;
use crate::measure::summary::{Distribution, FetchSummary, RateSummary, Summary, UsersSummary};

/// One key figure.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Key {
    /// What it is.
    pub name: String,
    /// The figure.
    pub value: Measure,
    /// n, unit or source.
    pub sub: String,
    /// Whether it carries the bad news.
    pub hot: bool,
}

/// The key figures of an HTTP run's summary, whole or so far; those of other kinds have files of their own.
pub fn keys(plan: &Plan, summary: &Summary, live: bool) -> Vec<Key> {
    match summary {
        Summary::Rate(figures) if live => {
            // Shares are of what has ended, not of what is still to come.
            let ended = figures.outcomes.values().sum();
            rate(plan, figures, ended, "ended so far")
        }
        Summary::Rate(figures) => rate(plan, figures, figures.planned, "planned"),
        Summary::Users(figures) => users(plan, figures),
        Summary::Fetch(figures) => fetch(figures),
        Summary::Throughput(_) | Summary::Ping(_) | Summary::Path(_) | Summary::Imported(_) => {
            Vec::new()
        }
    }
}

fn rate(plan: &Plan, figures: &RateSummary, whole: u64, what: &str) -> Vec<Key> {
    let ok = figures.outcomes.get("ok").copied().unwrap_or(0);
    let mut keys = vec![
        key(
            "Offered",
            Measure::per_s(figures.offered_per_s),
            format!("over {}", words::seconds(figures.send_window_s)),
        ),
        key(
            "Answered well",
            Measure::per_s(figures.achieved_per_s),
            format!(
                "{} of {} {what}",
                words::percent(ok, whole),
                words::count(whole)
            ),
        ),
        troubles(whole, figures.unsent, &figures.outcomes, ok),
    ];
    keys.extend(latency(
        "Latency",
        plan,
        &figures.latency_ms,
        figures.censored,
    ));
    keys.push(tail(
        "Lateness",
        &figures.lateness_ms,
        "of our own sends".to_owned(),
    ));
    keys
}

fn users(plan: &Plan, figures: &UsersSummary) -> Vec<Key> {
    let ok = figures.successful;
    let tried = ok + figures.failed;
    let asked = match plan {
        Plan::Users(plan) => format!(
            "of {} users, on average",
            words::count(plan.concurrent.into())
        ),
        _ => String::new(),
    };
    let mut keys = vec![
        key(
            "Transactions",
            Measure::per_s(figures.transaction_rate_per_s),
            format!(
                "{} in {}",
                words::count(figures.transactions),
                words::seconds(figures.elapsed_s)
            ),
        ),
        key(
            "Availability",
            match figures.availability_percent {
                Some(_) => split_percent(&words::percent(ok, tried)),
                None => Measure::missing(),
            },
            format!("{} of {} tried", words::count(ok), words::count(tried)),
        ),
        troubles(
            figures.planned.unwrap_or(tried),
            figures.unsent,
            &figures.outcomes,
            ok,
        ),
    ];
    keys[1].hot = ok < tried;
    keys.extend(latency(
        "Response",
        plan,
        &figures.latency_ms,
        figures.censored,
    ));
    keys.push(key(
        "Concurrency",
        match figures.concurrency {
            Some(value) => Measure {
                number: words::digits(value),
                unit: "",
            },
            None => Measure::missing(),
        },
        asked,
    ));
    keys
}

fn fetch(figures: &FetchSummary) -> Vec<Key> {
    let phase = |name: &str, value, sub: &str| key(name, Measure::ms(value), sub.to_owned());
    let mut keys = vec![
        phase("Total", figures.total_ms, "start to last byte"),
        phase(
            "First byte",
            figures.first_byte_ms,
            "counted from the start",
        ),
        phase("Lookup", figures.lookup_ms, "none for an address"),
        phase("Connect", figures.connect_ms, "TCP"),
        phase("TLS", figures.tls_ms, "none over plain http"),
    ];
    if figures.lookup_ms.is_some() {
        "resolving the name".clone_into(&mut keys[2].sub);
    }
    if figures.tls_ms.is_some() {
        "handshake".clone_into(&mut keys[4].sub);
    }
    let mut status = key(
        "Status",
        Measure {
            number: figures
                .status
                .map_or_else(|| words::DASH.to_owned(), |status| status.to_string()),
            unit: "",
        },
        match figures.size_bytes {
            Some(size) => words::bytes(size as f64),
            None => "no reply".to_owned(),
        },
    );
    status.hot = figures.outcome != Outcome::Ok.key();
    keys.push(status);
    keys
}

/// What went otherwise than well, by its most frequent kind.
fn troubles(
    planned: u64,
    unsent: u64,
    outcomes: &std::collections::BTreeMap<String, u64>,
    ok: u64,
) -> Key {
    // What a stop cut off is no fault of anybody's.
    let cut_off = outcomes.get(Outcome::AbortedAtStop.key()).copied();
    let tried = outcomes.values().sum::<u64>() - cut_off.unwrap_or(0);
    let bad = tried.saturating_sub(ok) + unsent;
    let timeouts: u64 = Outcome::ALL
        .into_iter()
        .filter(|outcome| outcome.is_timeout())
        .filter_map(|outcome| outcomes.get(outcome.key()))
        .sum();
    let (name, sub) = if bad == 0 {
        ("Errors", format!("of {}", words::count(planned)))
    } else if timeouts == bad {
        ("Timeouts", share_of(bad, planned))
    } else if unsent == bad {
        ("Unsent", share_of(bad, planned))
    } else {
        ("Errors", share_of(bad, planned))
    };
    let mut out = key(name, Measure::count(bad), sub);
    out.hot = bad > 0;
    out
}

fn share_of(part: u64, whole: u64) -> String {
    format!("{} of {}", words::percent(part, whole), words::count(whole))
}

/// The median and the tail, with the mark of censored values.
fn latency(name: &str, plan: &Plan, figures: &Distribution, censored: u64) -> [Key; 2] {
    let limit = plan.timeout_s() * 1000.0;
    let of = if censored > 0 {
        format!(
            "of {}, {} cut off",
            words::count(figures.count),
            words::plural(censored, "timeout", "timeouts")
        )
    } else {
        format!("of {}", words::plural(figures.count, "reply", "replies"))
    };
    let mut median = key(&format!("{name} p50"), Measure::ms(figures.p50), of.clone());
    let mut tail = tail(name, figures, of);
    for (key, value) in [
        (&mut median, figures.p50),
        (&mut tail, tail_value(figures).1),
    ] {
        if censored > 0 && value.is_some_and(|value| value >= limit * 0.999) {
            key.value.number = format!(
                "≥\u{a0}{}",
                words::digits_short(limit / if limit >= 1000.0 { 1000.0 } else { 1.0 })
            );
            key.value.unit = if limit >= 1000.0 { "s" } else { "ms" };
            "at the timeout, so censored".clone_into(&mut key.sub);
            key.hot = true;
        }
    }
    [median, tail]
}

/// The highest percentile that this many values support.
fn tail(name: &str, figures: &Distribution, sub: String) -> Key {
    let (which, value) = tail_value(figures);
    key(&format!("{name} {which}"), Measure::ms(value), sub)
}

fn tail_value(figures: &Distribution) -> (&'static str, Option<f64>) {
    match figures.count {
        100.. => ("p99", figures.p99),
        20..100 => ("p95", figures.p95),
        _ => ("longest", figures.max),
    }
}

fn split_percent(text: &str) -> Measure {
    Measure {
        number: text.trim_end_matches("\u{a0}%").to_owned(),
        unit: "%",
    }
}

pub(super) fn key(name: &str, value: Measure, sub: String) -> Key {
    Key {
        name: name.to_owned(),
        value,
        sub,
        hot: false,
    }
}
