//! The report in the form of iputils' ping: a line for each answer, then the statistics with mdev.

use std::fmt::Write;
use std::net::IpAddr;

use crate::measure::plan::PingPlan;
use crate::measure::plan::ping::PingMethod;
use crate::measure::run::Run;
use crate::measure::summary::flow::{EchoRow, PingSummary};
use crate::report::flow_tail::write_findings;

/// Writes a report piece by piece, as it comes.
#[derive(Clone, Debug)]
pub struct PingWriter {
    plan: PingPlan,
    address: Option<IpAddr>,
    quiet: bool,
    lost: Vec<u32>,
}

/// Most lost probes that are named one by one.
const MOST_LOST: usize = 20;

/// The whole report of a run that has ended, with its round trips.
pub fn ping_text(run: &Run, plan: &PingPlan, summary: &PingSummary, rows: &[EchoRow]) -> String {
    let address = summary
        .address
        .as_deref()
        .and_then(|text| text.parse().ok());
    let mut writer = PingWriter::new(plan, address, Print::Each);
    let mut text = writer.opening();
    text.push_str(&writer.answers(rows));
    text.push_str(&writer.end(run, summary));
    text
}

/// What is printed while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Print {
    /// A line for each answer.
    Each,
    /// The summary alone (`-q`).
    SummaryAlone,
}

impl PingWriter {
    /// Nothing printed yet.
    pub fn new(plan: &PingPlan, address: Option<IpAddr>, print: Print) -> Self {
        Self {
            plan: plan.clone(),
            address,
            quiet: print == Print::SummaryAlone,
            lost: Vec::new(),
        }
    }

    fn shown_address(&self) -> String {
        self.address
            .map_or_else(|| self.plan.host.clone(), |address| address.to_string())
    }

    /// The first line.
    pub fn opening(&self) -> String {
        let (host, address) = (&self.plan.host, self.shown_address());
        let size = self.plan.size_bytes;
        match (self.plan.method, self.address) {
            (PingMethod::Tcp, _) => {
                let port = self.plan.port.unwrap_or(0);
                format!("PING {host} ({address}) TCP port {port}.\n")
            }
            (PingMethod::Icmp, Some(IpAddr::V6(_))) => {
                format!("PING {host}({address}) {size} data bytes\n")
            }
            (PingMethod::Icmp, _) => {
                // IPv4's header takes 20 bytes, the echo's 8.
                let whole = size.saturating_add(28);
                format!("PING {host} ({address}) {size}({whole}) bytes of data.\n")
            }
        }
    }

    /// One line for each answer.
    pub fn answers(&mut self, rows: &[EchoRow]) -> String {
        let mut out = String::new();
        for row in rows {
            let Some(rtt_ms) = row.rtt_ms else {
                self.lost.push(row.seq);
                continue;
            };
            if self.quiet {
                continue;
            }
            let from = self.shown_address();
            // Writing to a string does not fail.
            let _ = match self.plan.method {
                PingMethod::Icmp => {
                    let size = self.plan.size_bytes.saturating_add(8);
                    write!(out, "{size} bytes from {from}: icmp_seq={}", row.seq)
                }
                PingMethod::Tcp => {
                    let port = self.plan.port.unwrap_or(0);
                    write!(out, "answer from {from} port {port}: tcp_seq={}", row.seq)
                }
            };
            if let Some(ttl) = row.ttl {
                let _ = write!(out, " ttl={ttl}");
            }
            let line_end = out.len();
            let _ = writeln!(out, " time={} ms", time(rtt_ms));
            let line = out
                .get(line_start(&out, line_end)..line_end)
                .unwrap_or_default()
                .to_owned();
            for _ in 0..row.duplicates.min(MOST_DUPLICATES) {
                let _ = writeln!(out, "{line} (DUP!)");
            }
        }
        out
    }

    /// The statistics, then what ping does not say.
    pub fn end(&self, run: &Run, summary: &PingSummary) -> String {
        self.statistics(summary) + &self.findings(run, summary)
    }

    /// The statistics.
    pub fn statistics(&self, summary: &PingSummary) -> String {
        let mut out = format!("\n--- {} ping statistics ---\n", self.plan.host);
        let _ = statistics(&mut out, summary);
        out
    }

    /// What ping does not say, with an empty line before it.
    pub fn findings(&self, run: &Run, summary: &PingSummary) -> String {
        let mut out = "\n".to_owned();
        let median = summary.rtt_ms.figures.median;
        if let Some(median) = median.filter(|_| summary.received > 0) {
            let _ = writeln!(out, "Median: {} ms", time(median));
        }
        if !self.lost.is_empty() {
            let named: Vec<String> = self
                .lost
                .iter()
                .take(MOST_LOST)
                .map(ToString::to_string)
                .collect();
            let more = self.lost.len().saturating_sub(MOST_LOST);
            let more = if more > 0 {
                format!(" and {more} more")
            } else {
                String::new()
            };
            let _ = writeln!(out, "Lost: {}{more}", named.join(", "));
        }
        let _ = write_findings(&mut out, run);
        out
    }
}

fn statistics(out: &mut String, summary: &PingSummary) -> std::fmt::Result {
    write!(
        out,
        "{} packets transmitted, {} received, ",
        summary.transmitted, summary.received
    )?;
    if summary.duplicates > 0 {
        write!(out, "+{} duplicates, ", summary.duplicates)?;
    }
    if let Some(loss) = summary.loss_percent {
        write!(out, "{}% packet loss, ", six_digits(loss))?;
    }
    writeln!(out, "time {:.0}ms", summary.duration_s * 1e3)?;
    let rtt = &summary.rtt_ms;
    let figures = [rtt.figures.min, rtt.figures.avg, rtt.figures.max, rtt.mdev];
    if let [Some(min), Some(avg), Some(max), Some(mdev)] = figures {
        writeln!(
            out,
            "rtt min/avg/max/mdev = {min:.3}/{avg:.3}/{max:.3}/{mdev:.3} ms"
        )?;
    }
    Ok(())
}

/// Most lines for one probe that came back more than once.
const MOST_DUPLICATES: u32 = 10;

/// Where the line begins that ends at `end`.
fn line_start(text: &str, end: usize) -> usize {
    text.get(..end)
        .and_then(|before| before.rfind('\n'))
        .map_or(0, |at| at + 1)
}

/// Milliseconds with as many decimals as ping prints.
fn time(ms: f64) -> String {
    let decimals = if ms >= 99.95 {
        0
    } else if ms >= 9.995 {
        1
    } else if ms >= 1.0 {
        2
    } else {
        3
    };
    format!("{ms:.decimals$}")
}

/// As C's `%.6g` prints a percentage.
fn six_digits(percent: f64) -> String {
    let decimals = if percent >= 99.99995 {
        3
    } else if percent >= 9.999_995 {
        4
    } else {
        5
    };
    let text = format!("{percent:.decimals$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
