//! What several parts of a throughput report say: who counted, what was cut short, how the streams share.

use crate::dashboard::words;
use crate::measure::plan::throughput::{Protocol, Receive, ThroughputPlan};
use crate::measure::summary::flow::ThroughputSummary;

/// `receive: discard` and `offload`, which are said beside every figure; `None` where neither holds.
pub(super) fn short_cuts(plan: &ThroughputPlan) -> Option<String> {
    let mut parts = Vec::new();
    if plan.receive == Receive::Discard {
        parts.push("receive: discard");
    }
    if plan.offload {
        parts.push("offload");
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Who counted the bytes of one direction.
pub(super) fn counted(plan: &ThroughputPlan, way: &str, part: &ThroughputSummary) -> &'static str {
    match (way, plan.protocol) {
        ("receive", _) => "counted here by the receiver",
        _ if part.bytes_received.is_some() => "counted by the receiver",
        (_, Protocol::Tcp) => "acknowledged by the receiver’s kernel",
        (_, Protocol::Udp) => "not confirmed by the receiver",
    }
}

/// Jain's index and the ratio of the fastest to the slowest in a sentence; `None` for one stream.
pub(super) fn spread(part: &ThroughputSummary) -> Option<String> {
    let fairness = part.fairness?;
    Some(match part.fastest_to_slowest {
        Some(ratio) => format!(
            "Jain’s fairness {}; the fastest has {}\u{a0}× the slowest.",
            words::digits(fairness),
            words::digits(ratio)
        ),
        None => format!("Jain’s fairness {}.", words::digits(fairness)),
    })
}

/// By how much load lengthens the median round trip, in ms; `None` where one of them was not measured.
pub(super) fn queue_ms(summary: &ThroughputSummary) -> Option<f64> {
    let rtt = &summary.rtt_ms;
    Some(rtt.loaded.median? - rtt.idle.median?)
}

/// The bandwidth that all streams of one direction were asked for together, in bit/s.
pub(super) fn asked(plan: &ThroughputPlan) -> Option<f64> {
    plan.bandwidth_bits_per_second
        .map(|each| each * f64::from(plan.streams))
}

/// The directions of a run with their figures and their words, send first.
pub(super) fn ways<'a>(
    plan: &ThroughputPlan,
    summary: &'a ThroughputSummary,
) -> Vec<(&'static str, &'a ThroughputSummary)> {
    if summary.directions.is_empty() {
        let way = if plan.flows().0 > 0 {
            "send"
        } else {
            "receive"
        };
        return vec![(way, summary)];
    }
    ["send", "receive"]
        .into_iter()
        .filter_map(|way| Some((way, summary.directions.get(way)?)))
        .collect()
}
