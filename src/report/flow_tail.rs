//! What the reports of iperf do not say, in lines at the end of ours.
//!
//! None of them has `SUM` or a rate as iperf writes it, so that scripts that look for those find iperf's own lines.

use std::fmt::Write;
use std::net::SocketAddr;

use crate::measure::plan::ThroughputPlan;
use crate::measure::plan::throughput::{Direction, Receive};
use crate::measure::run::Run;
use crate::measure::summary::Distribution;
use crate::measure::summary::flow::ThroughputSummary;
use crate::measure::units::{bits_per_second_text, ms_text, share_text};

/// Both ends' counts, what limited the run, its checks and its verdict, with an empty line before them.
pub fn flow_findings(run: &Run, plan: &ThroughputPlan, summary: &ThroughputSummary) -> String {
    let mut out = String::new();
    write_tail(&mut out, run, plan, summary);
    out
}

/// The same behind what is there.
pub(super) fn write_tail(
    out: &mut String,
    run: &Run,
    plan: &ThroughputPlan,
    summary: &ThroughputSummary,
) {
    // Writing to a string does not fail.
    let _ = write_figures(out, plan, summary);
    let _ = write_findings(out, run);
}

fn write_figures(
    out: &mut String,
    plan: &ThroughputPlan,
    summary: &ThroughputSummary,
) -> std::fmt::Result {
    out.push('\n');
    if let Some(rate) = summary.bits_per_second {
        let what = match plan.direction {
            Direction::Both => "both directions together, ",
            _ => "",
        };
        writeln!(
            out,
            "Throughput: {} ({what}while all streams were active)",
            plain(&bits_per_second_text(rate))
        )?;
    }
    for (name, part) in &summary.directions {
        if let Some(rate) = part.bits_per_second {
            writeln!(
                out,
                "Throughput, {name}: {}",
                plain(&bits_per_second_text(rate))
            )?;
        }
    }
    let counts: Vec<String> = [
        ("sent", summary.bytes_sent),
        ("acknowledged", summary.bytes_acknowledged),
        ("received", summary.bytes_received),
    ]
    .iter()
    .filter_map(|(name, bytes)| bytes.map(|bytes| format!("{name} {bytes}")))
    .collect();
    if !counts.is_empty() {
        writeln!(out, "Bytes: {}", counts.join(", "))?;
    }
    if let Some(retransmits) = summary.retransmits {
        writeln!(out, "Retransmits: {retransmits}")?;
    }
    if let Some(name) = &summary.congestion {
        writeln!(out, "Congestion control: {name}")?;
    }
    for (name, times) in [
        ("without load", &summary.rtt_ms.idle),
        ("under load", &summary.rtt_ms.loaded),
    ] {
        if let Some(text) = round_trips(times) {
            writeln!(out, "Round trips {name}: {text}")?;
        }
    }
    if let Some(dropped) = summary.udp.as_ref().and_then(|udp| udp.dropped_by_receiver) {
        writeln!(out, "Dropped by the receiver's buffer: {dropped} datagrams")?;
    }
    if plan.receive == Receive::Discard {
        writeln!(out, "Receiver: discarded in the kernel, not copied")?;
    }
    if plan.offload {
        writeln!(out, "Sender: segmentation offload, so no jitter")?;
    }
    if let Some(peer) = &summary.peer {
        writeln!(out, "Other end: {peer}")?;
    }
    Ok(())
}

fn round_trips(times: &Distribution) -> Option<String> {
    let median = plain(&ms_text(times.median?));
    let p99 = times
        .p99
        .map(|ms| format!(", 99 % within {}", plain(&ms_text(ms))))
        .unwrap_or_default();
    Some(format!("median {median}{p99} (n {})", times.count))
}

/// What is concluded from a run of any kind: limits, checks that failed, the run's error, its verdict.
pub(super) fn write_findings(out: &mut String, run: &Run) -> std::fmt::Result {
    for limit in &run.limits {
        writeln!(
            out,
            "Limited by: {} ({}): {}",
            limit.cause,
            plain(&share_text(limit.share)),
            plain(&limit.evidence)
        )?;
    }
    let failed = run.checks.iter().filter(|check| check.ok == Some(false));
    for check in failed {
        writeln!(out, "Check {} failed: {}", check.name, plain(&check.detail))?;
    }
    if let Some(error) = &run.error {
        writeln!(out, "Error: {}", plain(error))?;
    }
    if let Some(verdict) = &run.verdict {
        writeln!(out, "Verdict: {}", plain(verdict))?;
    }
    Ok(())
}

/// With ordinary spaces, for scripts and old terminals.
pub(super) fn plain(text: &str) -> String {
    text.replace(['\u{202f}', '\u{a0}'], " ")
}

/// `127.0.0.1:5001` or `[::1]:5001` as address and port.
pub(super) fn address_and_port(text: &str) -> Option<(String, u16)> {
    let address: SocketAddr = text.parse().ok()?;
    let ip = match address {
        SocketAddr::V6(v6) if v6.scope_id() != 0 => format!("{}%{}", v6.ip(), v6.scope_id()),
        other => other.ip().to_string(),
    };
    Some((ip, address.port()))
}
