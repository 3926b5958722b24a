//! The text of httperf 0.9, whole or what `grep` left of it.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::blocks::Block;
use super::finish::{self, Parts};
use super::flow::Unknown;
use super::scan::{Number, named_numbers};
use super::{Further, Import, ImportError, httperf_checks, template};
use crate::measure::outcome::Outcome;
use crate::measure::plan::{ImportedPlan, Kind};
use crate::measure::summary::Imported;
use crate::measure::units::{ms_text, significant};

/// httperf's lines, each with the place of its figures in a summary; those with `!` have none in ours.
const LINES: [&str; 15] = [
    "Maximum connect burst length: {connect_burst_length}",
    "Total: connections {connections} requests {requests} replies {replies} test-duration {duration_s} s",
    "Connection rate: {connection_rate_per_s} conn/s ({!ms_per_connection} ms/conn, <={concurrent_max} concurrent connections)",
    "Connection time [ms]: min {connection_time_ms.min} avg {connection_time_ms.avg} max {connection_time_ms.max} median {connection_time_ms.median} stddev {connection_time_ms.stddev}",
    "Connection time [ms]: connect {connect_time_ms.avg}",
    "Connection length [replies/conn]: {connection_length_replies}",
    "Request rate: {request_rate_per_s} req/s ({!ms_per_request} ms/req)",
    "Request size [B]: {request_size_bytes}",
    "Reply rate [replies/s]: min {reply_rate_per_s.min} avg {reply_rate_per_s.avg} max {reply_rate_per_s.max} stddev {reply_rate_per_s.stddev} ({reply_rate_per_s.samples} samples)",
    "Reply time [ms]: response {reply_response_ms.avg} transfer {reply_transfer_ms.avg}",
    "Reply size [B]: header {reply_size_bytes.header} content {reply_size_bytes.content} footer {reply_size_bytes.footer} (total {reply_size_bytes.total})",
    "Reply status: 1xx={status.1xx} 2xx={status.2xx} 3xx={status.3xx} 4xx={status.4xx} 5xx={status.5xx}",
    "CPU time [s]: user {cpu.user_s} system {cpu.system_s} (user {!user_percent}% system {!system_percent}% total {cpu.percent}%)",
    "Errors: total {errors.total} client-timo {errors.client_timo} socket-timo {errors.socket_timo} connrefused {errors.connrefused} connreset {errors.connreset}",
    "Errors: fd-unavail {errors.fd_unavail} addrunavail {errors.addrunavail} ftab-full {errors.ftab_full} other {errors.other}",
];

/// The one line whose figures are in units of its own.
const NET: &str = "Net I/O: {kilobytes} KB/s ({megabits}*10^6 bps)";

/// What our own report adds behind httperf's lines.
const OURS: [&str; 3] = [
    "Offered load: {offered_per_s}/s over {send_window_s} s, planned {planned}, unsent {unsent}; answered {achieved_per_s}/s",
    "Latency from planned start [ms]: p50 {latency_ms.p50} p90 {latency_ms.p90} p99 {latency_ms.p99} p99.9 {latency_ms.p99_9} max {latency_ms.max} (n {latency_ms.count}, censored {censored})",
    "Lateness of sends [ms]: p50 {lateness_ms.p50} p99 {lateness_ms.p99} max {lateness_ms.max}",
];

/// Beginnings by which a line is known as httperf's.
const LABELS: [&str; 19] = [
    "Maximum connect burst length:",
    "Total: connections",
    "Connection rate:",
    "Connection time [ms]: min",
    "Connection time [ms]: connect",
    "Connection length [replies/conn]:",
    "Request rate:",
    "Request size [B]:",
    "Reply rate [replies/s]:",
    "Reply time [ms]:",
    "Reply size [B]:",
    "Reply status:",
    "CPU time [s]:",
    "Net I/O:",
    "Errors: total",
    "Errors: fd-unavail",
    "Offered load:",
    "Latency from planned start [ms]:",
    "Lateness of sends [ms]:",
];

/// Lines that hold figures for which a summary has no place, and words.
const OTHERS: [&str; 8] = [
    "httperf: ",
    "Session ",
    "Session:",
    "reply-rate",
    "Outcomes: ",
    "Verdict: ",
    "SSL ",
    "httperf --",
];

/// The beginning by which a line is known as one of figures.
pub(super) fn label(text: &str) -> Option<&'static str> {
    LABELS.into_iter().find(|label| text.starts_with(label))
}

/// Reads the block.
pub(super) fn read(block: &Block<'_>) -> Result<Import, ImportError> {
    let mut plan = ImportedPlan::new(Kind::Rate, "httperf");
    let mut command = String::new();
    if let Some(line) = &block.command {
        line.line(None).clone_into(&mut command);
        line.note(&mut plan, None);
    }
    let mut summary = Imported::new(Kind::Rate);
    let mut figures = BTreeMap::new();
    let mut further = Vec::new();
    let mut unknown = Unknown::default();
    let mut errors = Vec::new();
    for line in &block.lines {
        let text = line.text.trim();
        if text.is_empty() {
            continue;
        }
        if let Some(echo) = super::command::find(text) {
            // httperf repeats its options with every default.
            echo.note(&mut plan, None);
            if command.is_empty() {
                echo.line(None).clone_into(&mut command);
            }
            continue;
        }
        if let Some(found) = templates(text) {
            let (own, rest): (Vec<_>, Vec<_>) = found
                .into_iter()
                .partition(|(name, _)| !name.starts_with('!'));
            for (name, number) in own {
                put(&mut summary, name, number);
                figures.insert(name, number);
            }
            let rest: Vec<(String, f64)> = rest
                .into_iter()
                .filter_map(|(name, number)| {
                    Some((name.trim_start_matches('!').to_owned(), number.figure()?))
                })
                .collect();
            if !rest.is_empty() {
                let of = text.split(':').next().unwrap_or_default();
                further.push(Further::new(line.number, of, rest));
            }
            continue;
        }
        if let Some(found) = template::read(NET, text) {
            let (kilobytes, megabits) = (found[0].1, found[1].1);
            put(&mut summary, "net_io_bytes_per_s", kilobytes.times(1024.0));
            figures.insert("net_io_bytes_per_s", kilobytes.times(1024.0));
            let bits = vec![("bits_per_second".to_owned(), megabits.value * 1e6)];
            further.push(Further::new(line.number, "Net I/O", bits));
            continue;
        }
        if label(text).is_some() {
            return Err(ImportError::at(
                *line,
                "begins as one of httperf's and cannot be read",
            ));
        }
        if let Some(outcomes) = text.strip_prefix("Outcomes: ") {
            set_outcomes(&mut summary, outcomes);
        } else if text.starts_with("httperf: ") && !text.starts_with("httperf: warning") {
            errors.push(super::shown(text));
        }
        if OTHERS.iter().any(|begins| text.starts_with(begins)) {
            let of = text.split(':').next().unwrap_or_default();
            let found = named_numbers(text);
            if !found.is_empty() && further.len() < 2_000 {
                further.push(Further::new(line.number, of, found));
            }
            continue;
        }
        unknown.note(*line);
    }
    if figures.is_empty() && errors.is_empty() {
        return Err(finish::nothing(block, &unknown, "httperf"));
    }
    let facts = plan.facts();
    let count = |name: &str| facts.get(name).and_then(serde_json::Value::as_u64);
    if summary.at("planned").is_none()
        && let (Some(connections), Some(calls)) =
            (count("num_conns"), count("num_calls").or(Some(1)))
    {
        summary.set("planned", connections.saturating_mul(calls));
    }
    errors.truncate(50);
    let parts = Parts {
        checks: httperf_checks::checks(&figures),
        said: said(&summary),
        plan,
        command,
        summary,
        errors,
        further,
        further_left_out: 0,
        unknown,
        started_at: None,
    };
    Ok(parts.import())
}

fn templates(text: &str) -> Option<Vec<(&'static str, Number)>> {
    LINES
        .iter()
        .chain(&OURS)
        .find_map(|line| template::read(line, text))
}

/// A count where it is printed as one.
pub(super) fn put(summary: &mut Imported, place: &str, number: Number) {
    let printed_whole = (number.half - 0.5).abs() < 1e-12;
    match number.count().filter(|_| printed_whole) {
        Some(count) => summary.set(place, count),
        None => {
            if let Some(value) = number.figure() {
                summary.set(place, value);
            }
        }
    }
}

/// `ok 50, connect_refused 3`: our own words alone.
pub(super) fn set_outcomes(summary: &mut Imported, text: &str) {
    for part in text.split(", ") {
        let Some((key, count)) = part.trim().rsplit_once(' ') else {
            continue;
        };
        let known = Outcome::ALL
            .into_iter()
            .find(|outcome| outcome.key() == key);
        if let (Some(outcome), Ok(count)) = (known, count.parse::<u64>()) {
            summary.set(&format!("outcomes.{}", outcome.key()), count);
        }
    }
}

fn said(summary: &Imported) -> String {
    let time = |name: &str| {
        summary
            .number(&format!("connection_time_ms.{name}"))
            .map(ms_text)
    };
    let mut text = match (time("median"), time("avg")) {
        (Some(median), Some(avg)) => format!("httperf said median {median}, average {avg}"),
        _ => match summary.number("reply_rate_per_s.avg") {
            Some(rate) => format!("httperf said {} replies per second", significant(rate)),
            None => "What httperf printed".to_owned(),
        },
    };
    if let Some(rate) = summary.number("connection_rate_per_s") {
        // Writing to a string does not fail.
        let _ = write!(text, " at {} connections per second", significant(rate));
    }
    if let Some(errors) = summary.count("errors.total").filter(|errors| *errors > 0) {
        let _ = write!(text, ", {errors} errors");
    }
    text
}
