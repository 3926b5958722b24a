//! What held a run back, cause by cause, with the run that would put each to the test.

use crate::dashboard::context;
use crate::dashboard::run::belief;
use crate::measure::experiment::provable;
use crate::measure::flow_series::FlowSeries;
use crate::measure::plan::Plan;
use crate::measure::plan::throughput::{Direction, Protocol, ThroughputPlan};
use crate::measure::run::{Limit, Run};
use crate::measure::units;

/// All causes of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limits {
    /// The heading.
    pub head: String,
    /// How they were found; empty where that goes without saying.
    pub lead: &'static str,
    /// Strongest first.
    pub lines: Vec<LimitLine>,
    /// What was looked for and not found; empty where nothing was.
    pub not_found: String,
    /// Causes that it does not name and that can be put to the proof: word and name.
    pub suspicions: Vec<(&'static str, String)>,
}

/// One cause in words.
#[derive(Clone, Debug, PartialEq)]
pub struct LimitLine {
    /// Share of the run.
    pub share: String,
    /// The cause.
    pub cause: String,
    /// What shows it.
    pub evidence: String,
    /// Whether it is below a tenth.
    pub minor: bool,
    /// A run that would refute it.
    pub test: Option<Test>,
    /// The word by which it is put to the proof; `None` where nothing would prove it.
    pub provable: Option<&'static str>,
}

/// A run that puts a cause to the test, as a filled form.
#[derive(Clone, Debug, PartialEq)]
pub struct Test {
    /// The form's address.
    pub href: String,
    /// What changes.
    pub word: String,
}

/// The causes of this run; `None` where there are none.
pub(super) fn limits(run: &Run, series: Option<&FlowSeries>) -> Option<Limits> {
    let first = run.limits.first()?;
    let flow = match &run.plan {
        Plan::Throughput(plan) => Some(plan),
        _ => None,
    };
    let head = if flow.is_some() {
        format!("What limited it: {}", beginning_small(&cause(&first.cause)))
    } else {
        "What held it back".to_owned()
    };
    Some(Limits {
        head,
        lead: if flow.is_some() {
            "Inferred from TCP_INFO, CPU, caps and round trips in every interval. Shares are weighted by bytes; causes may overlap."
        } else {
            ""
        },
        lines: run
            .limits
            .iter()
            .map(|limit| line(run, flow, limit))
            .collect(),
        not_found: flow
            .map(|plan| not_found(plan, &run.limits, series))
            .unwrap_or_default(),
        suspicions: provable(run)
            .into_iter()
            .filter(|word| !run.limits.iter().any(|limit| limit.cause == *word))
            .map(|word| (word, cause(word)))
            .collect(),
    })
}

fn line(run: &Run, flow: Option<&ThroughputPlan>, limit: &Limit) -> LimitLine {
    LimitLine {
        share: format!("{:.0}\u{a0}%", limit.share * 100.0),
        cause: cause(&limit.cause),
        evidence: if flow.is_some() {
            belief::sentence(&limit.evidence)
        } else {
            limit.evidence.clone()
        },
        minor: limit.share < 0.1,
        test: flow.and_then(|plan| test(run.id, plan, limit)),
        provable: provable(run)
            .into_iter()
            .find(|cause| *cause == limit.cause),
    }
}

/// A cause as people call it.
pub fn cause(word: &str) -> String {
    match word {
        "bandwidth_asked" => "The bandwidth that was asked for",
        "cgroup" => "CPU quota (cgroup)",
        "egress_cap" => "Documented egress cap",
        "sender_cpu" => "Sender’s CPU",
        "receiver_cpu" => "Receiver’s CPU",
        "receiver_window" => "Receiver’s window",
        "receiver_application" => "Receiving program",
        "receiver_drops" => "Receiver’s socket buffer",
        "send_buffer" => "Send buffer",
        "shaper" => "Shaper on the path",
        "congestion" => "Congestion",
        "application" => "Sending program",
        "unknown" => "Not known",
        "failed" => "It failed",
        "black_hole" => "Black hole",
        "path_mtu" => "A smaller hop",
        other => return other.replace('_', " "),
    }
    .to_owned()
}

fn beginning_small(words: &str) -> String {
    // Abbreviations keep their letters.
    if words.starts_with("CPU") {
        return words.to_owned();
    }
    let mut letters = words.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_lowercase().chain(letters).collect()
    })
}

/// The form of a run in which this cause should show, if it is the cause.
fn test(run: i64, plan: &ThroughputPlan, limit: &Limit) -> Option<Test> {
    let from = run.to_string();
    let with = |word: String, fields: &[(&str, &str)]| {
        let mut pairs = vec![("from", from.as_str())];
        pairs.extend(fields);
        Some(Test {
            href: context::query("/runs/new", &pairs),
            word,
        })
    };
    let more = (plan.streams * 2).to_string();
    let twice = || with(format!("Try {more} streams"), &[("streams", &more)]);
    match limit.cause.as_str() {
        "egress_cap" | "shaper" | "congestion" if plan.streams < 128 => twice(),
        // More threads help only where one of them was full and the machine was not.
        "sender_cpu" if limit.evidence.contains("thread") && plan.streams < 128 => twice(),
        "receiver_window" | "send_buffer" => {
            let window = plan
                .window_bytes
                .map_or(4 << 20, |asked| asked.saturating_mul(4))
                .min(1 << 30);
            let text = window.to_string();
            let said = units::bytes_text(window as f64).replace(' ', "\u{a0}");
            with(
                format!("Try a window of {said}"),
                &[("window_bytes", &text)],
            )
        }
        "bandwidth_asked" => {
            let rate = plan.bandwidth_bits_per_second? * 2.0;
            let said = units::bits_per_second_text(rate).replace(' ', "\u{a0}");
            let text = rate.to_string();
            with(
                format!("Try {said} a stream"),
                &[("bandwidth_bits_per_second", &text)],
            )
        }
        "receiver_drops" => {
            let rate = plan.bandwidth_bits_per_second? / 2.0;
            let said = units::bits_per_second_text(rate).replace(' ', "\u{a0}");
            let text = rate.to_string();
            with(
                format!("Try {said} a stream"),
                &[("bandwidth_bits_per_second", &text)],
            )
        }
        _ => None,
    }
}

/// Causes for which there was evidence to look at, and none of it spoke.
fn not_found(plan: &ThroughputPlan, found: &[Limit], series: Option<&FlowSeries>) -> String {
    let Some(series) = series else {
        return String::new();
    };
    let sends = plan.direction != Direction::Receive;
    let told = series.streams.iter().any(|stream| stream.tcp.is_some());
    let tcp = plan.protocol == Protocol::Tcp && told;
    let looked: [(&str, bool, &str); 9] = [
        (
            "cgroup",
            series.cpu.iter().any(|point| point.throttled.is_some()),
            "CPU quota",
        ),
        (
            "egress_cap",
            series.cap_bits_per_second.is_some(),
            "documented cap",
        ),
        (
            "sender_cpu",
            sends && !series.cpu.is_empty(),
            "sender’s CPU",
        ),
        (
            "receiver_cpu",
            !sends && !series.cpu.is_empty(),
            "receiver’s CPU",
        ),
        ("receiver_window", tcp, "receiver’s window"),
        ("receiver_application", tcp, "receiving program"),
        ("send_buffer", tcp, "send buffer"),
        ("congestion", tcp, "congestion"),
        ("application", tcp, "sending program"),
    ];
    let names: Vec<&str> = looked
        .into_iter()
        .filter(|(cause, could, _)| *could && !found.iter().any(|limit| limit.cause == *cause))
        .map(|(_, _, name)| name)
        .collect();
    if names.is_empty() || found.iter().any(|limit| limit.cause == "failed") {
        return String::new();
    }
    format!("Looked for and not found: {}.", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dashboard::run::fixture;
    use serde_json::json;

    fn limit(cause: &str, share: f64) -> Limit {
        Limit {
            cause: cause.to_owned(),
            share,
            evidence: "because".to_owned(),
        }
    }

    #[test]
    fn the_strongest_cause_is_the_heading_and_each_has_a_run_that_would_refute_it() {
        let (mut run, series) = fixture::throughput(&json!({"streams": 4}));
        run.limits = vec![limit("sender_cpu", 0.93), limit("receiver_window", 0.04)];
        run.limits[0].evidence = "the thread of stream 3 used 94 % of a core".to_owned();
        let limits = limits(&run, Some(&series)).unwrap();
        assert_eq!(limits.head, "What limited it: sender’s CPU");
        assert_eq!(limits.lines[0].share, "93\u{a0}%");
        let test = limits.lines[0].test.as_ref().unwrap();
        assert_eq!(test.href, "/runs/new?from=52&streams=8");
        assert!(limits.lines[1].minor);
        let not = &limits.not_found;
        assert!(
            not.contains("send buffer") && !not.contains("sender’s CPU"),
            "{not}"
        );
    }

    #[test]
    fn http_runs_keep_their_words() {
        let (mut run, _) = fixture::rate();
        assert_eq!(limits(&run, None), None);
        run.limits = vec![limit("target_queue", 1.0)];
        let limits = limits(&run, None).unwrap();
        assert_eq!(limits.head, "What held it back");
        assert_eq!(limits.lines[0].cause, "target queue");
        assert_eq!(limits.lines[0].test, None);
    }
}
