//! What the old tool would have told: its own text with the misleading figures marked, and the truth in the same order.

use std::ops::Range;

use crate::dashboard::words;
use crate::measure::plan::Plan;
use crate::measure::plan::throughput::{Dialect, Direction, Protocol, ThroughputPlan};
use crate::measure::run::{Run, State};
use crate::measure::summary::flow::ThroughputSummary;
use crate::measure::summary::{RateSummary, Summary};
use crate::measure::verdict::httperf::{Misleading, httperf_view};
use crate::report;

/// The panel.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Old {
    /// The headline.
    pub head: String,
    /// What stands left and right.
    pub lead: String,
    /// The tool's name.
    pub tool: &'static str,
    /// Its text, cut at the marks.
    pub text: Vec<Marked>,
    /// The truth, in the order of the marks.
    pub truths: Vec<Truth>,
}

/// A stretch of the tool's text.
#[derive(Clone, Debug, PartialEq)]
pub struct Marked {
    /// The text.
    pub text: String,
    /// The number of its mark.
    pub number: Option<usize>,
}

/// One truth.
#[derive(Clone, Debug, PartialEq)]
pub struct Truth {
    /// The right figure.
    pub fact: String,
    /// Why the old one misleads.
    pub why: String,
}

/// The panel for this run; `None` where there is nothing to compare.
pub fn old(run: &Run) -> Option<Old> {
    if run.state != State::Finished {
        return None;
    }
    match (&run.plan, &run.summary) {
        (Plan::Rate(_), Some(Summary::Rate(summary))) => httperf(run, summary),
        (Plan::Throughput(plan), Some(Summary::Throughput(summary))) => iperf(plan, summary),
        _ => None,
    }
}

/// iperf's own line: the sender's bytes over its time, in its own units.
fn iperf(plan: &ThroughputPlan, summary: &ThroughputSummary) -> Option<Old> {
    let headline = summary.bits_per_second.filter(|rate| *rate > 0.0)?;
    let seconds = summary.duration_s;
    if plan.protocol == Protocol::Udp || !summary.directions.is_empty() || seconds <= 0.0 {
        return None;
    }
    let sends = plan.direction == Direction::Send;
    let bytes = if sends {
        summary.bytes_sent
    } else {
        summary.bytes_received
    }?;
    let rate = bytes as f64 * 8.0 / seconds;
    let (tool, sum) = match plan.dialect {
        Dialect::Iperf2 => ("iperf", if plan.streams > 1 { "[SUM]" } else { "[  1]" }),
        Dialect::Iperf3 => ("iperf3", if plan.streams > 1 { "[SUM]" } else { "[  5]" }),
    };
    let line = format!(
        "{sum} 0.00-{seconds:.2} sec  {}  {}",
        in_units(bytes as f64, 1024.0, "Bytes"),
        in_units(rate, 1000.0, "bits/sec")
    );
    let units = format!("Its bytes are counted by 1024: {}.", words::volume(bytes));
    let same = (rate / headline - 1.0).abs() <= 0.02;
    let said = words::bits(Some(rate));
    Some(if same {
        Old {
            head: format!("{tool} would have told you the same {said}, and nothing else"),
            lead: format!(
                "It prints {line}. {units} It does not say what limited it, what the load did to round trips, or whether both ends counted the same."
            ),
            ..Old::default()
        }
    } else {
        let arrived = summary.bytes_received.or(summary.bytes_acknowledged);
        let why = if sends && arrived.is_some_and(|arrived| arrived < bytes) {
            "It counts what was handed to the kernel, and some of that had not arrived."
        } else {
            "It counts over all of the time, also while not all streams ran."
        };
        Old {
            head: format!(
                "{tool} would have told you {said}; it was {}",
                words::bits(Some(headline))
            ),
            lead: format!("It prints {line}. {units} {why}"),
            ..Old::default()
        }
    })
}

/// A figure as iperf prints it: three digits, and a letter for the unit.
fn in_units(value: f64, step: f64, name: &str) -> String {
    let mut value = value;
    let mut letter = "";
    for next in ["K", "M", "G", "T"] {
        if value < step {
            break;
        }
        value /= step;
        letter = next;
    }
    let places = if value < 9.995 {
        2
    } else {
        usize::from(value < 99.95)
    };
    format!("{value:.places$} {letter}{name}")
}

fn httperf(run: &Run, summary: &RateSummary) -> Option<Old> {
    if summary.replies == 0 {
        return None;
    }
    let view = httperf_view(summary);
    let printed = |ms: Option<f64>| words::ms(ms);
    if view.differs.is_empty() {
        return Some(Old {
            head: "httperf would have told you the same".to_owned(),
            lead: "Its rates, times and errors agree with what is said here. What it cannot say is who answered, how late the sends were, and the percentiles.".to_owned(),
            ..Old::default()
        });
    }
    let (text, truths) = marked(&report::httperf_text(run, summary), view.differs);
    Some(Old {
        head: format!(
            "httperf would have told you: median {}, average {}",
            printed(view.connection_time_ms.median),
            printed(view.connection_time_ms.avg)
        ),
        lead: "Left, what httperf 0.9.0 prints for these same requests. Right, what is true."
            .to_owned(),
        tool: "httperf",
        text,
        truths,
    })
}

/// The tool's own lines with its figures in them, marked in reading order, and the truths in the same order.
fn marked(report: &str, differs: Vec<Misleading>) -> (Vec<Marked>, Vec<Truth>) {
    let own = report
        .split("\nOffered load")
        .next()
        .unwrap_or(report)
        .trim_end();
    let mut found: Vec<(Option<Range<usize>>, Misleading)> = differs
        .into_iter()
        .map(|misleading| (place(own, &misleading.label), misleading))
        .collect();
    // Figures without a place of their own come last.
    found.sort_by_key(|(place, _)| place.as_ref().map_or(usize::MAX, |place| place.start));
    let mut text = Vec::new();
    let mut truths = Vec::new();
    let mut at = 0;
    for (index, (place, misleading)) in found.into_iter().enumerate() {
        if let Some(place) = place.filter(|place| place.start >= at) {
            text.push(Marked {
                text: own[at..place.start].to_owned(),
                number: None,
            });
            text.push(Marked {
                text: misleading.httperf,
                number: Some(index + 1),
            });
            at = place.end;
        }
        truths.push(Truth {
            fact: misleading.truth,
            why: misleading.why,
        });
    }
    text.push(Marked {
        text: own[at..].to_owned(),
        number: None,
    });
    (text, truths)
}

/// Where httperf prints the figure of this label.
fn place(text: &str, label: &str) -> Option<Range<usize>> {
    let (line, from, to) = match label {
        "Connection rate" => ("Connection rate: ", "", " ("),
        "Connection time: avg" => ("Connection time [ms]: min ", "avg ", " max"),
        "Connection time: median" => ("Connection time [ms]: min ", "median ", " stddev"),
        "Reply rate" => ("Reply rate [replies/s]: ", "", "\n"),
        "CPU time" => ("CPU time [s]: ", "total ", ")"),
        "Errors" => ("Total: connections ", "replies ", " test-duration"),
        "Reply status" => ("Reply status: ", "5xx=", "\n"),
        "Errors: addrunavail" => ("Errors: fd-unavail ", "addrunavail ", " ftab-full"),
        _ => return None,
    };
    let line_at = text.find(line)? + line.len();
    let start = line_at + text[line_at..].find(from)?;
    let end = start + text[start..].find(to)?;
    Some(start..end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dashboard::run::fixture;

    #[test]
    fn iperfs_line_is_in_its_own_units_and_its_truth_beside_it() {
        let (run, _) = fixture::throughput(&serde_json::json!({"streams": 4}));
        let old = old(&run).unwrap();
        assert!(
            old.head.contains("the same 8.00\u{a0}Gbit/s"),
            "{}",
            old.head
        );
        assert!(
            old.lead
                .contains("[SUM] 0.00-3.00 sec  2.79 GBytes  8.00 Gbits/sec"),
            "{}",
            old.lead
        );
        assert!(old.lead.contains("3.0\u{a0}GB"), "{}", old.lead);
        let (two, _) = fixture::throughput(&serde_json::json!({"direction": "both"}));
        assert_eq!(super::old(&two), None);
    }

    #[test]
    fn each_misleading_figure_is_marked_where_httperf_prints_it() {
        let (run, _) = fixture::rate();
        let old = old(&run).unwrap();
        let marks: Vec<usize> = old.text.iter().filter_map(|part| part.number).collect();
        assert!(!marks.is_empty());
        assert!(marks.is_sorted());
        assert!(old.truths.len() >= marks.len());
        let text: String = old.text.iter().map(|part| part.text.as_str()).collect();
        assert!(text.starts_with("httperf "), "{text}");
        assert!(!text.contains("Offered load"), "{text}");
    }
}
