//! What is common to every report that was read: its words, the check of its lines, and what stands in its summary
//! beside the figures.

use super::blocks::Block;
use super::flow::{Draft, Unknown};
use super::{Further, Import, ImportError, Tool, flow_checks, flow_figures};
use crate::measure::flow::Way;
use crate::measure::fold::Series;
use crate::measure::plan::ImportedPlan;
use crate::measure::run::{Check, Severity};
use crate::measure::summary::Imported;
use crate::measure::units::{bits_per_second_text, share_text};
use std::fmt::Write;

/// A report's parts, before they are put together.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) plan: ImportedPlan,
    pub(super) command: String,
    pub(super) summary: Imported,
    pub(super) checks: Vec<Check>,
    pub(super) said: String,
    pub(super) errors: Vec<String>,
    pub(super) further: Vec<Further>,
    pub(super) further_left_out: u64,
    pub(super) unknown: Unknown,
    pub(super) started_at: Option<jiff::Timestamp>,
}

impl Parts {
    /// The report, without rows or charts.
    pub(super) fn import(mut self) -> Import {
        let mut checks = self.checks;
        checks.extend(lines_read(&self.unknown));
        self.summary.set("tool", self.plan.tool());
        let further: Vec<serde_json::Value> = self.further.iter().map(Further::value).collect();
        self.summary.set("further", further);
        if self.further_left_out > 0 {
            self.summary.set("further_left_out", self.further_left_out);
        }
        let against = checks
            .iter()
            .filter(|check| check.ok == Some(false) && check.severity == Severity::Fail)
            .count();
        let verdict = match against {
            0 => format!(
                "Read from what {} printed; what it did not print is left blank, and its figures do not contradict each other.",
                self.plan.tool()
            ),
            _ => format!(
                "Read from what {} printed, and its figures contradict each other: the checks say where.",
                self.plan.tool()
            ),
        };
        let error = match self.errors.len() {
            0 => None,
            1 => self.errors.pop(),
            more => Some(format!("{} ({more} lines like this)", self.errors[0])),
        };
        Import {
            command: self.command,
            summary: self.summary,
            series: None,
            rows: Vec::new(),
            checks,
            title: title(&self.said),
            verdict,
            error,
            started_at: self.started_at,
            text: String::new(),
            plan: self.plan,
        }
    }
}

/// At most 100 characters.
fn title(said: &str) -> String {
    if said.chars().count() <= 100 {
        return said.to_owned();
    }
    let start: String = said.chars().take(99).collect();
    format!("{start}…")
}

/// Whether every line was understood.
fn lines_read(unknown: &Unknown) -> Option<Check> {
    if unknown.count == 0 {
        return None;
    }
    let shown: Vec<String> = unknown
        .first
        .iter()
        .take(5)
        .map(|(line, text)| format!("line {line} ({text})"))
        .collect();
    let more = unknown.count - shown.len();
    let mut detail = format!("Not understood and left out: {}", shown.join(", "));
    if more > 0 {
        // Writing to a string does not fail.
        let _ = write!(detail, ", and {more} more");
    }
    Some(Check {
        name: "lines_understood".to_owned(),
        ok: Some(false),
        severity: Severity::Warn,
        detail: format!("{detail}."),
    })
}

/// The error of a block that holds nothing that could be shown.
pub(super) fn nothing(block: &Block<'_>, unknown: &Unknown, tool: &str) -> ImportError {
    let (line, text) = match unknown.first.first() {
        Some((line, text)) => (
            Some(*line),
            format!("line {line} is not understood: {text}"),
        ),
        None => (
            block.lines.first().map(|line| line.number),
            format!(
                "lines {} to {} hold no figure",
                block.lines.first().map_or(1, |line| line.number),
                block.lines.last().map_or(1, |line| line.number)
            ),
        ),
    };
    ImportError {
        line,
        message: format!("There is no report of {tool} in this text; {text}."),
    }
}

/// A test of streams as a report.
pub(super) fn flow(mut draft: Draft, block: &Block<'_>) -> Result<Import, ImportError> {
    let is_3 = matches!(block.tool, Tool::Iperf3 | Tool::Iperf3Json);
    let tool = draft.plan.tool().to_owned();
    if draft.rows.is_empty() && draft.streams.is_empty() && draft.errors.is_empty() {
        return Err(nothing(block, &draft.unknown, &tool));
    }
    flow_figures::mark_totals(&mut draft, is_3);
    let summary = flow_figures::summary(&draft);
    let checks = flow_checks::checks(&draft);
    let series = flow_figures::series(&draft);
    let rows = flow_figures::rows(&draft);
    draft
        .plan
        .set("protocol", if draft.is_udp { "udp" } else { "tcp" });
    draft
        .plan
        .note("dialect", if is_3 { "iperf3" } else { "iperf2" });
    if !draft.streams.is_empty() {
        let ways = (
            draft.streams.iter().any(|s| s.way == Some(Way::Send)),
            draft.streams.iter().any(|s| s.way == Some(Way::Receive)),
        );
        let streams = draft
            .streams
            .iter()
            .filter(|s| s.way == draft.streams[0].way)
            .count();
        draft.plan.set("streams", streams);
        draft.plan.set(
            "direction",
            match ways {
                (true, true) if draft.in_turn => "in_turn",
                (true, true) => "both",
                (false, _) => "receive",
                _ => "send",
            },
        );
    }
    let said = said(&draft, &summary, &tool);
    let mut errors = draft.errors;
    errors.extend(draft.warnings);
    let parts = Parts {
        plan: draft.plan,
        command: draft.command,
        summary,
        checks,
        said,
        errors,
        further: draft.further,
        further_left_out: draft.further_left_out,
        unknown: draft.unknown,
        started_at: draft.started_at,
    };
    Ok(Import {
        series: series.map(Series::Flow),
        rows,
        ..parts.import()
    })
}

/// What the tool said, in a line.
fn said(draft: &Draft, summary: &Imported, tool: &str) -> String {
    let rate = |place: &str| summary.number(place).map(bits_per_second_text);
    let streams = draft.streams.len();
    let two = (
        rate("directions.send.bits_per_second"),
        rate("directions.receive.bits_per_second"),
    );
    let mut text = match (rate("bits_per_second"), two) {
        (_, (Some(send), Some(receive))) => format!("{tool} said {send} out and {receive} back"),
        (Some(rate), _) if streams > 1 => format!("{tool} said {rate} over {streams} streams"),
        (Some(rate), _) => format!("{tool} said {rate}"),
        (None, _) => match draft.errors.first().filter(|_| draft.rows.is_empty()) {
            Some(error) => return format!("{tool} printed no figures: {error}"),
            None if draft.rows.is_empty() => return format!("{tool} printed no rate"),
            None => return format!("{tool} said nothing of its {streams} streams together"),
        },
    };
    if let Some(lost) = summary.number("lost_percent").filter(|lost| *lost > 0.0) {
        let _ = write!(text, ", {} lost", share_text(lost / 100.0));
    }
    text
}
