//! What httperf 0.9.0 would have printed for the same requests, where that differs from the truth.

use serde::Serialize;

use crate::measure::outcome::Outcome;
use crate::measure::summary::{Distribution, RateSummary};
use crate::measure::verdict::words;

/// Figures that differ by less than this share are the same figure.
const SAME: f64 = 0.02;

/// The length of its samples of the reply rate, in s.
const SAMPLE_S: f64 = 5.0;

/// One figure that misleads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Misleading {
    /// Which figure, in httperf's words.
    pub label: String,
    /// As httperf prints it.
    pub httperf: String,
    /// What is true, a short sentence.
    pub truth: String,
    /// Why it differs, a sentence.
    pub why: String,
}

/// httperf's figures for a run, beside ours.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HttperfView {
    /// Connections over a duration that includes the wait for late replies.
    pub connection_rate_per_s: Option<f64>,
    /// Lifetime of the connections that had a reply, in ms; its median is the middle of a bin of 1 ms.
    pub connection_time_ms: Distribution,
    /// Mean of the whole samples of five seconds; 0 where there is none.
    pub reply_rate_avg_per_s: Option<f64>,
    /// Successes as httperf counts them: every reply, also one that was cut off.
    pub replies: u64,
    /// Errors as httperf counts them.
    pub errors_total: u64,
    /// The figures that differ; empty where httperf would have told the truth.
    pub differs: Vec<Misleading>,
}

/// What httperf would have told.
pub fn httperf_view(summary: &RateSummary) -> HttperfView {
    let of = |outcome: Outcome| summary.outcomes.get(outcome.key()).copied().unwrap_or(0);
    let mut connection_time_ms = summary.connection_time_ms.clone();
    connection_time_ms.median = connection_time_ms.median.map(middle_of_bin);
    connection_time_ms.p50 = connection_time_ms.median;
    let truncated = of(Outcome::Truncated);
    let invalid = of(Outcome::InvalidReply);
    let mut view = HttperfView {
        connection_rate_per_s: summary.connection_rate_per_s,
        connection_time_ms,
        reply_rate_avg_per_s: if summary.duration_s < SAMPLE_S {
            Some(0.0)
        } else {
            None
        },
        replies: summary.replies + truncated + invalid,
        errors_total: summary.errors.total - truncated - invalid,
        differs: Vec::new(),
    };
    let differs = [
        connection_rate(summary),
        average(summary),
        median(summary, &view),
        reply_rate(summary),
        cpu(summary),
        cut_off(summary, truncated),
        not_http(summary, invalid),
        ports(summary),
        order(summary),
    ];
    view.differs = differs.into_iter().flatten().collect();
    view
}

/// The middle of the 1 ms bin that holds the value; beyond 100 s the bins end and 0 is printed.
fn middle_of_bin(ms: f64) -> f64 {
    if ms >= 100_000.0 {
        0.0
    } else {
        ms.floor() + 0.5
    }
}

fn connection_rate(summary: &RateSummary) -> Option<Misleading> {
    let printed = summary.connection_rate_per_s?;
    let connections = summary.connections as f64;
    // With several calls, the connections are what is offered.
    let offered = if summary.send_window_s > 0.0 {
        connections / summary.send_window_s
    } else {
        return None;
    };
    (!same(printed, offered) && summary.duration_s > summary.send_window_s).then(|| Misleading {
        label: "Connection rate".to_owned(),
        httperf: format!("{printed:.1} conn/s"),
        truth: format!(
            "{} per second were offered.",
            words::rate(offered).replace("\u{a0}req/s", "")
        ),
        why: format!(
            "httperf divides by a duration that includes the last {} of waiting.",
            words::seconds(summary.duration_s - summary.send_window_s)
        ),
    })
}

fn average(summary: &RateSummary) -> Option<Misleading> {
    let printed = summary.connection_time_ms.avg?;
    let truth = summary.latency_ms.avg?;
    if same(printed, truth) || truth < printed {
        return None;
    }
    let survivors_only = summary.censored > 0;
    Some(Misleading {
        label: "Connection time: avg".to_owned(),
        httperf: format!("avg {printed:.1}"),
        truth: if survivors_only {
            format!("The average is at least {}.", words::time(truth))
        } else {
            format!("The average is {}.", words::time(truth))
        },
        why: if survivors_only {
            format!(
                "The {} that waited longest are left out: the worse it gets, the better the survivors look.",
                words::count(summary.censored)
            )
        } else {
            "httperf counts from the moment it really sent, so the time a request was kept waiting on its own side is missing.".to_owned()
        },
    })
}

fn median(summary: &RateSummary, view: &HttperfView) -> Option<Misleading> {
    let printed = view.connection_time_ms.median?;
    let survivors = &summary.connection_time_ms;
    let truth = &summary.latency_ms;
    let (p50, p90) = truth.p50.zip(truth.p90)?;
    let outside = !same(printed, p50)
        && (survivors.min.is_some_and(|min| printed < min)
            || survivors.max.is_some_and(|max| printed > max));
    let at_least = |ms: f64| {
        if summary.censored > 0 && ms >= truth.max.unwrap_or(f64::MAX) * 0.99 {
            format!("{} or more", words::time(ms))
        } else {
            words::time(ms)
        }
    };
    // Half a millisecond is the best that its bins can do.
    let differs = !same(printed, p50) && (printed - p50).abs() > 0.5;
    let hides = p90 > 3.0 * p50;
    if !(outside || differs || hides) {
        return None;
    }
    Some(Misleading {
        label: "Connection time: median".to_owned(),
        httperf: format!("median {printed:.1}"),
        truth: format!("p50 {}, p90 {}.", words::time(p50), at_least(p90)),
        why: if outside {
            "Its median is the middle of a bin of 1\u{a0}ms, here outside the smallest and largest value."
        } else if hides {
            "A median cannot show what the slowest tenth waits, and there are no percentiles."
        } else {
            "Its median is that of the connections that got a reply, in bins of 1\u{a0}ms."
        }
        .to_owned(),
    })
}

fn reply_rate(summary: &RateSummary) -> Option<Misleading> {
    let truth = summary.reply_rate_per_s.avg.filter(|rate| *rate > 0.0)?;
    (summary.duration_s < SAMPLE_S).then(|| Misleading {
        label: "Reply rate".to_owned(),
        httperf: "min 0.0 avg 0.0 max 0.0 (0 samples)".to_owned(),
        truth: format!(
            "{} per second came back.",
            words::rate(truth).replace("\u{a0}req/s", "")
        ),
        why: "httperf takes a sample every 5\u{a0}s and drops the last, unfinished one.".to_owned(),
    })
}

fn cpu(summary: &RateSummary) -> Option<Misleading> {
    let percent = summary.cpu.percent.filter(|percent| *percent < 80.0)?;
    (summary.duration_s > 0.0).then(|| Misleading {
        label: "CPU time".to_owned(),
        httperf: "total about 100%".to_owned(),
        truth: format!(
            "The generator used {} of a core.",
            words::percent(percent / 100.0)
        ),
        why: "httperf polls without pause, so its figure says nothing about the work.".to_owned(),
    })
}

fn cut_off(summary: &RateSummary, truncated: u64) -> Option<Misleading> {
    (truncated > 0).then(|| Misleading {
        label: "Errors".to_owned(),
        httperf: format!("replies {}", summary.replies + truncated),
        truth: format!(
            "{} ended early.",
            words::counted(truncated, "reply", "replies")
        ),
        why: "httperf takes a body that is shorter than announced for a success.".to_owned(),
    })
}

fn not_http(summary: &RateSummary, invalid: u64) -> Option<Misleading> {
    (invalid > 0).then(|| Misleading {
        label: "Reply status".to_owned(),
        httperf: format!("5xx={}", summary.status.c5xx + invalid),
        truth: format!(
            "{} not HTTP.",
            if invalid == 1 {
                "1 reply is".to_owned()
            } else {
                format!("{} replies are", words::count(invalid))
            }
        ),
        why: "httperf counts what it cannot read as status 599.".to_owned(),
    })
}

fn ports(summary: &RateSummary) -> Option<Misleading> {
    let n = summary.errors.addrunavail;
    (n > 0).then(|| Misleading {
        label: "Errors: addrunavail".to_owned(),
        httperf: format!("addrunavail 0 … other {}", n + summary.errors.other),
        truth: format!(
            "{} found no local port.",
            words::counted(n, "connection", "connections")
        ),
        why: "httperf never counts in that place.".to_owned(),
    })
}

fn order(summary: &RateSummary) -> Option<Misleading> {
    let timeouts = summary.errors.client_timo;
    (timeouts > 0 && summary.served_by.len() > 1).then(|| Misleading {
        label: "Errors: client-timo".to_owned(),
        httperf: format!("client-timo {timeouts}"),
        truth: format!(
            "{} backends answered; the table says how often each.",
            words::count(summary.served_by.len() as u64)
        ),
        why: "httperf does not say who answered and who did not.".to_owned(),
    })
}

fn same(a: f64, b: f64) -> bool {
    crate::measure::stats::consistency::close(a, b, SAME)
}
