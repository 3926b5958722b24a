//! The report of a path run: tracepath's lines as far as a path is probed whole, and the interfaces as `ifconfig` has
//! them, so that `grep mtu` finds each.

use std::fmt::Write;

use crate::measure::plan::PathPlan;
use crate::measure::run::Run;
use crate::measure::summary::flow::PathSummary;
use crate::report::flow_tail::write_findings;

/// The whole report.
pub fn path_text(run: &Run, plan: &PathPlan, summary: &PathSummary) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write_report(&mut text, run, plan, summary);
    text
}

fn write_report(
    out: &mut String,
    run: &Run,
    plan: &PathPlan,
    summary: &PathSummary,
) -> std::fmt::Result {
    if let Some(mtu) = summary.interface_mtu {
        writeln!(out, " 1?: [LOCALHOST]                      pmtu {mtu}")?;
    }
    let address = summary.address.as_deref().unwrap_or(&plan.host);
    match summary.path_mtu {
        Some(mtu) => {
            writeln!(out, " 1:  {address:<40} pmtu {mtu}")?;
            writeln!(out, "     Resume: pmtu {mtu}")?;
        }
        None => writeln!(out, " 1:  {address:<40} no reply")?,
    }
    out.push('\n');
    for interface in &summary.interfaces {
        write!(out, "{}:", interface.name)?;
        if let Some(mtu) = interface.mtu {
            write!(out, " mtu {mtu}")?;
        }
        for address in &interface.addresses {
            let family = if address.contains(':') {
                "inet6"
            } else {
                "inet"
            };
            write!(out, " {family} {address}")?;
        }
        out.push('\n');
    }
    out.push('\n');
    if let Some(name) = &summary.interface {
        writeln!(out, "Interface: {name}")?;
    }
    if let Some(expected) = summary.expected_mtu {
        let verdict = match summary.ok {
            Some(true) => "as expected",
            Some(false) => "not as expected",
            None => "not known",
        };
        writeln!(out, "Expected MTU: {expected} ({verdict})")?;
    }
    if summary.black_hole == Some(true) {
        writeln!(out, "Black hole: larger packets vanish without a message")?;
    }
    for probe in &summary.probes {
        write!(out, "Probe of {} bytes: {}", probe.size_bytes, probe.result)?;
        if let Some(mtu) = probe.named_mtu {
            write!(out, ", MTU named {mtu}")?;
        }
        if let Some(ms) = probe.rtt_ms {
            write!(out, ", {ms:.3} ms")?;
        }
        out.push('\n');
    }
    write_findings(out, run)
}
