//! What held a run back, with its share and what shows it.

use crate::measure::outcome::Outcome;
use crate::measure::run::Limit;
use crate::measure::series::{HttpSeries, SplitMeans};
use crate::measure::summary::FetchSummary;
use crate::measure::verdict::facts::Facts;
use crate::measure::verdict::failures::kind_words;
use crate::measure::verdict::words;

/// Smaller shares than this are not worth a line.
const SMALLEST: f64 = 0.005;

/// Causes by their share, largest first: phases as shares of the mean latency of replies, failures as shares of
/// the requests, the generator as a share of what it should have done.
pub(super) fn of_load(facts: &Facts<'_>, series: &HttpSeries) -> Vec<Limit> {
    let mut limits = generator(facts);
    failures(facts, &mut limits);
    phases(&together(series), &mut limits);
    sorted(limits)
}

/// The phases of a single request.
pub(super) fn of_fetch(summary: &FetchSummary) -> Vec<Limit> {
    let Some(total) = summary.total_ms.filter(|total| *total > 0.0) else {
        return Vec::new();
    };
    let connect = summary.connect_ms.unwrap_or(0.0);
    let tls = summary.tls_ms.unwrap_or(0.0);
    let transfer = summary.first_byte_ms.map_or(0.0, |first| total - first);
    let timing = summary.server_timing_ms.as_ref();
    let queue = timing.and_then(|timing| timing.queue.avg);
    let compute =
        timing.map(|timing| timing.compute.avg.unwrap_or(0.0) + timing.encode.avg.unwrap_or(0.0));
    let stated = queue.unwrap_or(0.0) + compute.unwrap_or(0.0);
    let split = SplitMeans {
        replies: 1,
        connect_ms: connect,
        tls_ms: tls,
        queue_ms: queue,
        compute_ms: compute,
        transfer_ms: transfer,
        rest_ms: (total - connect - tls - transfer - stated).max(0.0),
        ..SplitMeans::default()
    };
    let mut limits = Vec::new();
    phases(&split, &mut limits);
    sorted(limits)
}

fn sorted(mut limits: Vec<Limit>) -> Vec<Limit> {
    limits.retain(|limit| limit.share >= SMALLEST);
    limits.sort_by(|a, b| b.share.total_cmp(&a.share));
    limits
}

fn limit(cause: &str, share: f64, evidence: String) -> Limit {
    Limit {
        cause: cause.to_owned(),
        share: share.clamp(0.0, 1.0),
        evidence,
    }
}

fn generator(facts: &Facts<'_>) -> Vec<Limit> {
    let planned = facts.planned.unwrap_or(facts.all() + facts.unsent).max(1) as f64;
    let mut limits = Vec::new();
    let held_back = facts.held_back();
    if held_back > 0 {
        let sent = planned - held_back as f64;
        let evidence = format!(
            "{} of {} were sent, the rest found too many in flight",
            words::percent(sent / planned),
            words::counted(facts.planned.unwrap_or(0), "request", "requests")
        );
        limits.push(limit("generator", held_back as f64 / planned, evidence));
    } else if facts.too_busy() {
        let busiest = words::percent(facts.busiest());
        let evidence = format!("its busiest thread used {busiest} of a core");
        limits.push(limit("generator", facts.busiest(), evidence));
    }
    let descriptors = facts.of(Outcome::FdExhausted) + facts.of(Outcome::FtabFull);
    for (cause, n, what) in [
        (
            "descriptors",
            descriptors,
            "no file descriptor was left for",
        ),
        (
            "local_ports",
            facts.of(Outcome::PortExhausted),
            "no local port was left for",
        ),
    ] {
        let evidence = format!("{what} {}", words::counted(n, "request", "requests"));
        limits.push(limit(cause, n as f64 / planned, evidence));
    }
    limits
}

fn failures(facts: &Facts<'_>, limits: &mut Vec<Limit>) {
    let tried = facts.tried();
    let mut add = |cause: &str, outcomes: &[Outcome]| {
        let n: u64 = outcomes.iter().map(|outcome| facts.of(*outcome)).sum();
        if n == 0 {
            return;
        }
        let kinds: Vec<_> = outcomes
            .iter()
            .filter(|outcome| facts.of(**outcome) > 0)
            .map(|outcome| kind_words(*outcome, facts.of(*outcome)))
            .collect();
        let evidence = format!(
            "{} of {}: {}",
            words::percent(n as f64 / tried as f64),
            words::counted(tried, "request", "requests"),
            kinds.join(", ")
        );
        limits.push(limit(cause, n as f64 / tried as f64, evidence));
    };
    add(
        "timeouts",
        &[
            Outcome::ConnectTimeout,
            Outcome::ConnectTimeoutKernel,
            Outcome::SendTimeout,
            Outcome::TtfbTimeout,
            Outcome::TotalTimeout,
        ],
    );
    add("refused", &[Outcome::ConnectRefused]);
    add(
        "resets",
        &[
            Outcome::ResetBeforeReply,
            Outcome::ResetInBody,
            Outcome::EmptyReply,
            Outcome::Truncated,
        ],
    );
    add("server_errors", &[Outcome::Http5xx]);
    add("client_errors", &[Outcome::Http4xx]);
    add(
        "network",
        &[Outcome::Unreachable, Outcome::DnsFailed, Outcome::TlsFailed],
    );
    add(
        "other_failures",
        &[Outcome::HttpOther, Outcome::InvalidReply, Outcome::Other],
    );
}

/// The parts of the latency over all backends.
fn together(series: &HttpSeries) -> SplitMeans {
    let mut sum = SplitMeans::default();
    let mut add = |split: &SplitMeans, weight: f64| {
        sum.lateness_ms += split.lateness_ms * weight;
        sum.connect_ms += split.connect_ms * weight;
        sum.tls_ms += split.tls_ms * weight;
        sum.transfer_ms += split.transfer_ms * weight;
        sum.rest_ms += split.rest_ms * weight;
        for (sum, part) in [
            (&mut sum.queue_ms, split.queue_ms),
            (&mut sum.compute_ms, split.compute_ms),
        ] {
            if let Some(part) = part {
                *sum = Some(sum.unwrap_or(0.0) + part * weight);
            }
        }
    };
    let replies: u64 = series.split.values().map(|split| split.replies).sum();
    for split in series.split.values() {
        add(split, split.replies as f64 / replies as f64);
    }
    sum.replies = replies;
    sum
}

fn phases(split: &SplitMeans, limits: &mut Vec<Limit>) {
    let queue = split.queue_ms.unwrap_or(0.0);
    let compute = split.compute_ms.unwrap_or(0.0);
    let connect = split.connect_ms + split.tls_ms;
    let total = split.lateness_ms + connect + queue + compute + split.transfer_ms + split.rest_ms;
    if split.replies == 0 || total <= 0.0 {
        return;
    }
    let mut add = |cause: &str, part: f64, what: &str| {
        let evidence = format!(
            "{} of {} on average: {what}",
            words::time(part),
            words::time(total)
        );
        limits.push(limit(cause, part / total, evidence));
    };
    add("lateness", split.lateness_ms, "our own lateness");
    add("connect", connect, "setting up the connection");
    add(
        "transfer",
        split.transfer_ms,
        "receiving the reply after its first byte",
    );
    if split.queue_ms.is_some() || split.compute_ms.is_some() {
        add(
            "target_queue",
            queue,
            "waiting in the target's queue, as it says itself",
        );
        add(
            "target_compute",
            compute,
            "computing in the target, as it says itself",
        );
        add(
            "network",
            split.rest_ms,
            "network, and what the target does not account for",
        );
    } else {
        add(
            "target",
            split.rest_ms,
            "waiting for the first byte: target and network, which a reply without Server-Timing does not tell apart",
        );
    }
}
