//! Whether a run may be believed: one check for each way in which it could mislead.

use crate::measure::outcome::Outcome;
use crate::measure::run::{Check, Environment, Severity};
use crate::measure::sample::Ended;
use crate::measure::stats::consistency;
use crate::measure::summary::FetchSummary;
use crate::measure::verdict::facts::{Facts, Load, P99_FROM};
use crate::measure::verdict::words;

/// How far the sum of all times may be from what was in flight.
const LITTLE_TOLERANCE: f64 = 0.2;

/// A larger step of the wall clock than this makes the labels of a run wrong, in s.
const CLOCK_STEP_S: f64 = 1.0;

/// The checks of an open-loop or closed-loop run.
pub(super) fn of_load(facts: &Facts<'_>, environment: &Environment) -> Vec<Check> {
    vec![
        on_schedule(facts),
        generator_not_limited(facts),
        sums_agree(facts),
        ends_agree(),
        clock_steady(facts.ended),
        streams_overlap(),
        not_shared_host(facts.ended, environment),
        complete(facts),
    ]
}

/// The checks of a single request.
pub(super) fn of_fetch(summary: &FetchSummary, ended: &Ended) -> Vec<Check> {
    let one = "one request has no schedule";
    let phases = [summary.connect_ms, summary.tls_ms]
        .into_iter()
        .flatten()
        .sum::<f64>();
    let sums = summary.total_ms.map(|total| {
        phases <= total + 0.001
            && summary
                .first_byte_ms
                .is_none_or(|first| first <= total + 0.001)
    });
    let done = !summary.outcome.is_empty() && summary.outcome != Outcome::AbortedAtStop.key();
    vec![
        check("on_schedule", None, Severity::Fail, does_not_apply(one)),
        check(
            "generator_not_limited",
            None,
            Severity::Fail,
            does_not_apply("one request needs next to nothing"),
        ),
        check(
            "sums_agree",
            sums,
            Severity::Fail,
            match sums {
                Some(_) => "the phases lie inside the whole time".to_owned(),
                None => does_not_apply("there was no reply"),
            },
        ),
        ends_agree(),
        clock_steady(ended),
        streams_overlap(),
        not_shared_host(ended, &Environment::default()),
        check(
            "complete",
            Some(done),
            Severity::Warn,
            if done {
                "the request ended by itself".to_owned()
            } else {
                "it was stopped before the request ended".to_owned()
            },
        ),
    ]
}

pub(super) fn check(name: &str, ok: Option<bool>, severity: Severity, detail: String) -> Check {
    Check {
        name: name.to_owned(),
        ok,
        severity,
        detail,
    }
}

pub(super) fn does_not_apply(why: &str) -> String {
    format!("does not apply: {why}")
}

fn on_schedule(facts: &Facts<'_>) -> Check {
    let (ok, detail) = match (facts.load, facts.lateness_p99_and_allowed()) {
        (Load::Closed { .. }, _) => (None, does_not_apply("a user sends when the user is ready")),
        (Load::Sequential, _) => (None, does_not_apply("each request follows the one before")),
        (Load::Open { .. }, None) => (None, "nothing was sent".to_owned()),
        (Load::Open { .. }, Some((p99, allowed))) => {
            let max = facts
                .lateness
                .and_then(|lateness| lateness.max)
                .unwrap_or(p99);
            let count = facts.lateness.map_or(0, |lateness| lateness.count);
            let detail = if p99 > allowed {
                format!(
                    "{}, {} is allowed",
                    facts.late_words(p99),
                    words::time(allowed)
                )
            } else if count < P99_FROM {
                format!("every send within {} of its time", words::time(max))
            } else {
                format!(
                    "99\u{a0}% of sends within {} of their time",
                    words::time(p99)
                )
            };
            (Some(p99 <= allowed), detail)
        }
    };
    let severity = if facts.late() {
        Severity::Fail
    } else {
        Severity::Warn
    };
    check("on_schedule", ok, severity, detail)
}

fn generator_not_limited(facts: &Facts<'_>) -> Check {
    let mut reasons = Vec::new();
    let held_back = facts.held_back();
    if held_back > 0 {
        let allowed = facts.max_in_flight.map_or_else(String::new, |most| {
            format!(" ({} in flight allowed)", words::count(most.into()))
        });
        let what = words::counted(held_back, "request", "requests");
        reasons.push(format!("{what} not sent{allowed}"));
    }
    for (outcome, what) in [
        (Outcome::FdExhausted, "without a free file descriptor"),
        (
            Outcome::FtabFull,
            "without a free file in the system's table",
        ),
        (Outcome::PortExhausted, "without a free local port"),
    ] {
        let n = facts.of(outcome);
        if n > 0 {
            reasons.push(format!(
                "{} {what}",
                words::counted(n, "request", "requests")
            ));
        }
    }
    let busiest = match facts.busiest() {
        idle if idle < 0.01 => "less than 1\u{a0}%".to_owned(),
        busy => words::percent(busy),
    };
    if facts.too_busy() {
        reasons.push(format!("its busiest thread used {busiest} of a core"));
    }
    let ok = reasons.is_empty();
    if ok && facts.is_cut_off() {
        let detail = "how busy it was went with the crash; no send was refused".to_owned();
        return check("generator_not_limited", None, Severity::Fail, detail);
    }
    let detail = if ok {
        format!("its busiest thread used {busiest} of a core, no send was refused")
    } else {
        reasons.join("; ")
    };
    check("generator_not_limited", Some(ok), Severity::Fail, detail)
}

fn sums_agree(facts: &Facts<'_>) -> Check {
    let all = facts.all();
    let planned = facts.planned.unwrap_or(all + facts.unsent);
    let whole = consistency::parts_agree([all, facts.unsent], planned);
    let status = facts.status;
    let classes = [
        status.c1xx,
        status.c2xx,
        status.c3xx,
        status.c4xx,
        status.c5xx,
    ];
    // Statuses beyond 599 belong to no class.
    let classed = classes.iter().sum::<u64>();
    let by_status =
        classed <= facts.replies && facts.replies - classed <= facts.of(Outcome::HttpOther);
    let timeouts = facts.timeouts();
    let other = all - facts.replies - timeouts;
    let mut parts = vec![words::counted(facts.replies, "reply", "replies")];
    if timeouts > 0 {
        parts.push(words::counted(timeouts, "timeout", "timeouts"));
    }
    if other > 0 {
        parts.push(words::counted(other, "other end", "other ends"));
    }
    parts.push(format!("{}\u{a0}unsent", words::count(facts.unsent)));
    let sum = parts.join(" + ");
    if !whole {
        let detail = format!(
            "{sum} are not the {} that were planned",
            words::count(planned)
        );
        return check("sums_agree", Some(false), Severity::Fail, detail);
    }
    if !by_status {
        let detail = format!(
            "{} have a status, {} were counted",
            words::counted(classed, "reply", "replies"),
            words::count(facts.replies)
        );
        return check("sums_agree", Some(false), Severity::Fail, detail);
    }
    if let Some(detail) = little_disagrees(facts) {
        return check("sums_agree", Some(false), Severity::Warn, detail);
    }
    let detail = format!("{sum} = {}", words::count(planned));
    check("sums_agree", Some(true), Severity::Fail, detail)
}

/// Little's law, where every request has a time and none waited for its turn.
fn little_disagrees(facts: &Facts<'_>) -> Option<String> {
    let timed = facts.latency.count;
    let in_flight = facts.ended.in_flight_seconds;
    if timed != facts.all() || facts.late() || in_flight <= 0.0 {
        return None;
    }
    let mean = facts.latency.avg?;
    (!consistency::little_agrees(in_flight, timed, mean, LITTLE_TOLERANCE)).then(|| {
        format!(
            "all latencies sum to {}, but what was in flight to {}",
            words::seconds(mean * timed as f64 / 1000.0),
            words::seconds(in_flight)
        )
    })
}

fn ends_agree() -> Check {
    let why = does_not_apply("the target does not report its own count");
    check("ends_agree", None, Severity::Fail, why)
}

fn streams_overlap() -> Check {
    let why = does_not_apply("requests are not streams");
    check("streams_overlap", None, Severity::Fail, why)
}

fn clock_steady(ended: &Ended) -> Check {
    let ok = ended.clock_step_s.abs() <= CLOCK_STEP_S;
    let duration = words::seconds(ended.duration.as_secs_f64());
    let detail = if ok {
        format!("no step in {duration}")
    } else {
        format!(
            "the wall clock stepped by {} in {duration}; latencies do not use it, dates do",
            words::seconds(ended.clock_step_s)
        )
    };
    check("clock_steady", Some(ok), Severity::Warn, detail)
}

fn not_shared_host(ended: &Ended, environment: &Environment) -> Check {
    let detail = if ended.same_host {
        let cores = environment.cpus.map_or_else(
            || "the same cores".to_owned(),
            |cpus| match cpus {
                1 => "the one core of this machine".to_owned(),
                cpus => format!("the {cpus} cores of this machine"),
            },
        );
        format!("target and generator share {cores}")
    } else {
        "target and generator share no core".to_owned()
    };
    check(
        "not_shared_host",
        Some(!ended.same_host),
        Severity::Warn,
        detail,
    )
}

fn complete(facts: &Facts<'_>) -> Check {
    let ended = facts.ended;
    let all = words::count(facts.all());
    let detail = match (ended.stopped, facts.planned) {
        (false, Some(1)) => "the one planned request has an outcome".to_owned(),
        (false, Some(planned)) => {
            format!(
                "all {} planned requests have an outcome",
                words::count(planned)
            )
        }
        (false, None) => format!("all {all} requests have an outcome"),
        (true, planned) => {
            let after = words::instant(ended.duration.as_secs_f64());
            let of = facts.planned_s.map_or_else(String::new, |whole| {
                format!(" of {}", words::instant(whole))
            });
            let of_all = planned.map_or_else(String::new, |n| format!(" of {}", words::count(n)));
            format!("stopped after {after}{of}; {all}{of_all} requests have an outcome")
        }
    };
    check("complete", Some(!ended.stopped), Severity::Warn, detail)
}
