//! Judges pings and path checks.

use crate::measure::flow::FlowEnd;
use crate::measure::flow_series::FlowSeries;
use crate::measure::plan::path::PathPlan;
use crate::measure::plan::ping::{PingMethod, PingPlan};
use crate::measure::run::{Check, Environment, Limit, Severity};
use crate::measure::summary::flow::{PathSummary, PingSummary};
use crate::measure::verdict::checks::{check, does_not_apply};
use crate::measure::verdict::{Judgement, flow_checks, words};

/// A first round trip this many times the median is called slow.
const SLOW_FIRST: f64 = 5.0;

/// Judges a ping that has ended.
pub fn judge_ping(
    plan: &PingPlan,
    summary: &PingSummary,
    series: &FlowSeries,
    end: &FlowEnd,
    environment: &Environment,
) -> Judgement {
    let (title, verdict) = ping_words(plan, summary, series, end);
    let sent = summary.transmitted;
    let lost = sent.saturating_sub(summary.received);
    let limits = if sent > 0 && lost > 0 {
        vec![Limit {
            cause: if summary.received == 0 {
                "failed"
            } else {
                "loss"
            }
            .to_owned(),
            share: lost as f64 / sent as f64,
            evidence: format!(
                "{} of {} without an answer within {}",
                words::count(lost),
                words::counted(sent, "probe", "probes"),
                words::seconds(plan.timeout_s)
            ),
        }]
    } else {
        Vec::new()
    };
    let complete = sent >= u64::from(plan.count) && !end.stopped;
    let one = "a probe is one round trip";
    Judgement {
        checks: vec![
            not_applying("on_schedule", "no answer depends on when a probe leaves"),
            not_applying("generator_not_limited", "probes need next to nothing"),
            check(
                "sums_agree",
                Some(summary.rtt_ms.figures.count == summary.received && summary.received <= sent),
                Severity::Fail,
                format!(
                    "{} + {} = {} sent",
                    words::counted(summary.received, "answer", "answers"),
                    words::counted(lost, "loss", "losses"),
                    words::count(sent)
                ),
            ),
            not_applying("ends_agree", "the other end does not count"),
            flow_checks::clock_steady(end),
            not_applying("streams_overlap", one),
            flow_checks::not_shared_host(end, environment),
            check(
                "complete",
                Some(complete),
                Severity::Warn,
                format!(
                    "{} of {} were sent",
                    words::count(sent),
                    words::counted(plan.count.into(), "probe", "probes")
                ),
            ),
        ],
        limits,
        title,
        verdict,
    }
}

fn not_applying(name: &str, why: &str) -> Check {
    check(name, None, Severity::Warn, does_not_apply(why))
}

fn ping_words(
    plan: &PingPlan,
    summary: &PingSummary,
    series: &FlowSeries,
    end: &FlowEnd,
) -> (String, String) {
    let host = words::short(&plan.host, "The peer");
    let sent = summary.transmitted;
    let probes = words::counted(sent, "probe", "probes");
    if sent == 0 {
        let verdict = end
            .remarks
            .first()
            .cloned()
            .unwrap_or_else(|| "It ended before the first one was due.".to_owned());
        return ("No probe was sent".to_owned(), verdict);
    }
    let lost = sent.saturating_sub(summary.received);
    let figures = &summary.rtt_ms.figures;
    let (Some(median), Some(max)) = (figures.median, figures.max) else {
        let hint = match plan.method {
            PingMethod::Icmp => {
                "Many firewalls drop ICMP although other traffic passes: try TCP probes on a port that is in use."
            }
            PingMethod::Tcp => {
                "Neither an open nor a closed port answered: a firewall drops the packets, or nobody is there."
            }
        };
        let title = if sent == 1 {
            format!("{host} does not answer the one probe")
        } else {
            format!("{host} answers none of {probes}")
        };
        // What someone on the way reported says more than a guess.
        let verdict = end.remarks.first().cloned();
        return (
            words::first_that_fits([title], "No answer"),
            verdict.unwrap_or_else(|| hint.to_owned()),
        );
    };
    let of_lost = format!("{} of {} lost", words::count(lost), words::count(sent));
    let title = match (sent, lost) {
        (1, _) => format!("{host} answers in {}", words::time(median)),
        (2..=4, 0) => format!(
            "{host} answers {probes} in {} to {}",
            words::time(figures.min.unwrap_or(median)),
            words::time(max)
        ),
        (_, 0) => format!(
            "{host} answers all {probes}: median {}, slowest {}",
            words::time(median),
            words::time(max)
        ),
        _ => format!(
            "{host}: {of_lost}, the median round trip is {}",
            words::time(median)
        ),
    };
    let mut sentences = Vec::new();
    if lost > 0 {
        sentences.extend(end.remarks.first().cloned());
        sentences.push(if lost * 10 >= sent {
            "So much loss makes TCP crawl: look for a full link or a failing one.".to_owned()
        } else {
            "A lost probe says that packets are dropped on the way, or that answers to pings are limited.".to_owned()
        });
    }
    let first = series.echoes.first().and_then(|echo| echo.rtt_ms);
    if let Some(first) = first.filter(|first| *first > median * SLOW_FIRST && sent >= 5) {
        sentences.push(format!(
            "The first took {}: an address had to be looked up or a path set up. It is in the figures.",
            words::time(first)
        ));
    } else if summary.duplicates > 0 {
        sentences.push(format!(
            "{} came: two machines share the address, or the network copies packets.",
            words::counted(summary.duplicates, "duplicate", "duplicates")
        ));
    } else if lost == 0 {
        sentences.push(if sent < 5 {
            "So few probes show that it answers, not how steady it is.".to_owned()
        } else {
            let mdev = summary.rtt_ms.mdev.unwrap_or(0.0);
            let so = if mdev < median * 0.5 {
                "; nothing queues on the way"
            } else {
                ": something queues or sleeps on the way"
            };
            format!(
                "Round trips vary by {} (mean deviation){so}.",
                words::time(mdev)
            )
        });
    }
    (
        words::first_that_fits([title, of_lost], "Round trips"),
        sentences.join(" "),
    )
}

/// Judges a path check: equal to what was expected, smaller, or a black hole.
pub fn judge_path(plan: &PathPlan, summary: &PathSummary) -> Judgement {
    let (title, verdict, cause) = path_words(plan, summary);
    let evidence = format!(
        "{} tried: {} answered, {} too big, {} without an answer",
        words::counted(summary.probes.len() as u64, "size", "sizes"),
        of_result(summary, "answered"),
        of_result(summary, "too_big"),
        of_result(summary, "no_answer")
    );
    let why = "a path check moves no load";
    Judgement {
        checks: vec![
            not_applying("on_schedule", why),
            not_applying("generator_not_limited", why),
            check(
                "sums_agree",
                monotone(summary),
                Severity::Fail,
                match monotone(summary) {
                    Some(true) => {
                        "every size up to the largest got through, none above it".to_owned()
                    }
                    Some(false) => {
                        "a larger size got through than one that did not: repeat it".to_owned()
                    }
                    None => does_not_apply("no size was tried"),
                },
            ),
            not_applying("ends_agree", "the other end only answers"),
            not_applying("clock_steady", "no figure is a time"),
            not_applying("streams_overlap", why),
            not_applying("not_shared_host", why),
            check(
                "complete",
                Some(summary.path_mtu.is_some()),
                Severity::Fail,
                evidence.clone(),
            ),
        ],
        limits: cause
            .map(|cause| Limit {
                cause: cause.to_owned(),
                share: 1.0,
                evidence,
            })
            .into_iter()
            .collect(),
        title: words::first_that_fits([title], "Path MTU"),
        verdict,
    }
}

/// Title, verdict, and the cause where the path is not as it should be.
fn path_words(plan: &PathPlan, summary: &PathSummary) -> (String, String, Option<&'static str>) {
    let host = words::short(&plan.host, "the peer");
    let expected = summary.expected_mtu.or(plan.expect_mtu);
    let whole = |mtu: u32| words::count(mtu.into());
    let black_hole = summary.black_hole == Some(true);
    match (summary.path_mtu, expected) {
        (None, _) => (
            format!("No probe reached {host}, so its path MTU is unknown"),
            summary.remarks.first().cloned().unwrap_or_else(|| {
                "Nothing answered, not even the smallest probe: look whether ICMP or the port is let through.".to_owned()
            }),
            Some("failed"),
        ),
        (Some(mtu), expected) if black_hole => (
            match expected {
                Some(expected) if expected != mtu => format!(
                    "Packets above {} bytes vanish on the way to {host}; {} were expected",
                    whole(mtu),
                    whole(expected)
                ),
                _ => format!("Packets above {} bytes vanish on the way to {host}", whole(mtu)),
            },
            "A black hole: no router says that they are too big, so connections stall once they send full packets. Let ICMP “fragmentation needed” through, or lower the interface's MTU.".to_owned(),
            Some("black_hole"),
        ),
        (Some(mtu), Some(expected)) if mtu == expected => (
            format!("The path to {host} carries {} bytes, as expected", whole(mtu)),
            "Every hop and both interfaces agree on this size.".to_owned(),
            None,
        ),
        (Some(mtu), Some(expected)) if mtu < expected => (
            format!(
                "The path to {host} carries {} bytes, less than the {} expected",
                whole(mtu),
                whole(expected)
            ),
            smaller(summary, mtu, expected),
            Some("path_mtu"),
        ),
        (Some(mtu), Some(expected)) => (
            format!(
                "The path to {host} carries {} bytes, more than the {} expected",
                whole(mtu),
                whole(expected)
            ),
            "Nothing is cut; the expectation may be of another network.".to_owned(),
            None,
        ),
        (Some(mtu), None) => match summary.interface_mtu {
            // An IPv4 packet cannot be larger than 65,535 bytes, whatever the interface takes.
            Some(own) if mtu < own && mtu < 65_535 => (
                format!(
                    "The path to {host} carries {} bytes, the interface {}",
                    whole(mtu),
                    whole(own)
                ),
                "A hop on the way takes less than this machine's interface, and says so.".to_owned(),
                Some("path_mtu"),
            ),
            _ => (
                format!("The path to {host} carries {} bytes", whole(mtu)),
                "That is as much as this machine's interface sends.".to_owned(),
                None,
            ),
        },
    }
}

fn smaller(summary: &PathSummary, mtu: u32, expected: u32) -> String {
    if summary.interface_mtu == Some(mtu) {
        let interface = summary.interface.as_deref().unwrap_or("the interface");
        return format!(
            "It is this machine's own interface that is smaller: set the MTU of {} to {}.",
            words::short(interface, "the interface"),
            words::count(expected.into())
        );
    }
    "A hop on the way is smaller: every packet holds less, so more of them are needed.".to_owned()
}

fn of_result(summary: &PathSummary, result: &str) -> u64 {
    summary
        .probes
        .iter()
        .filter(|probe| probe.result == result)
        .count() as u64
}

/// Whether no size that failed is smaller than one that got through.
fn monotone(summary: &PathSummary) -> Option<bool> {
    let largest = summary
        .probes
        .iter()
        .filter(|probe| probe.result == "answered")
        .map(|probe| probe.size_bytes)
        .max();
    let smallest_failed = summary
        .probes
        .iter()
        .filter(|probe| probe.result != "answered")
        .map(|probe| probe.size_bytes)
        .min();
    (!summary.probes.is_empty()).then_some(match (largest, smallest_failed) {
        (Some(largest), Some(failed)) => failed > largest,
        _ => true,
    })
}

#[cfg(test)]
mod tests;
