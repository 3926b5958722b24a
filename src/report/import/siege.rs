//! The text of siege 4 and its JSON.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::agree::{Agreement, exact, product, quotient, sum};
use super::blocks::Block;
use super::finish::{self, Parts};
use super::flow::Unknown;
use super::httperf::{put, set_outcomes};
use super::scan::{Number, Scan, named_numbers};
use super::{Further, Import, ImportError, Line, Tool, template};
use crate::measure::plan::{ImportedPlan, Kind};
use crate::measure::run::Check;
use crate::measure::stats::spread::Spread;
use crate::measure::summary::Imported;
use crate::measure::units::{ms_text, significant};

/// siege's MB are 2²⁰ bytes.
const MB: f64 = 1_048_576.0;

/// A figure: its label, its unit, its key in JSON, its place in a summary, and by how much it is multiplied there.
type Figure = (&'static str, &'static str, &'static str, &'static str, f64);

const FIGURES: [Figure; 12] = [
    ("Transactions:", "hits", "transactions", "transactions", 1.0),
    (
        "Availability:",
        "%",
        "availability",
        "availability_percent",
        1.0,
    ),
    ("Elapsed time:", "secs", "elapsed_time", "elapsed_s", 1.0),
    (
        "Data transferred:",
        "MB",
        "data_transferred",
        "data_transferred_bytes",
        MB,
    ),
    (
        "Response time:",
        "secs",
        "response_time",
        "latency_ms.avg",
        1e3,
    ),
    (
        "Transaction rate:",
        "trans/sec",
        "transaction_rate",
        "transaction_rate_per_s",
        1.0,
    ),
    (
        "Throughput:",
        "MB/sec",
        "throughput",
        "throughput_bytes_per_s",
        MB,
    ),
    ("Concurrency:", "", "concurrency", "concurrency", 1.0),
    (
        "Successful transactions:",
        "",
        "successful_transactions",
        "successful",
        1.0,
    ),
    (
        "Failed transactions:",
        "",
        "failed_transactions",
        "failed",
        1.0,
    ),
    (
        "Longest transaction:",
        "",
        "longest_transaction",
        "longest_s",
        1.0,
    ),
    (
        "Shortest transaction:",
        "",
        "shortest_transaction",
        "shortest_s",
        1.0,
    ),
];

/// What our own report adds.
const OURS: &str = "Latency [ms]: p50 {latency_ms.p50} p90 {latency_ms.p90} p99 {latency_ms.p99} p99.9 {latency_ms.p99_9} max {latency_ms.max} (n {latency_ms.count}, censored {censored})";

/// Lines that say nothing of the figures.
const SILENT: [&str; 7] = [
    "The server is now under siege",
    "Lifting the server siege",
    "LOG FILE:",
    "FILE:",
    "You can disable this log file",
    "done.",
    "Verdict: ",
];

/// Whether a line is one of siege's figures.
pub(super) fn is_figure(text: &str) -> bool {
    // `Throughput:` stands in other reports too.
    FIGURES.iter().any(|(label, unit, ..)| {
        text.strip_prefix(label).is_some_and(|rest| {
            rest.starts_with(char::is_whitespace)
                && rest.trim_end().ends_with(unit)
                && (*label != "Throughput:" || rest.contains("MB/sec"))
        })
    })
}

/// Reads the block.
pub(super) fn read(block: &Block<'_>) -> Result<Import, ImportError> {
    let mut plan = ImportedPlan::new(Kind::Users, "siege");
    let mut command = String::new();
    if let Some(line) = &block.command {
        line.line(None).clone_into(&mut command);
        line.note(&mut plan, None);
    }
    let mut reader = Reader {
        plan,
        summary: Imported::new(Kind::Users),
        figures: BTreeMap::new(),
        further: Vec::new(),
        unknown: Unknown::default(),
        errors: Vec::new(),
        times: Spread::fine(),
        version: None,
        left_out: 0,
    };
    if block.tool == Tool::SiegeJson {
        reader.json(block)?;
    } else {
        for line in &block.lines {
            reader.line(*line)?;
        }
    }
    if reader.figures.is_empty() && reader.errors.is_empty() {
        return Err(finish::nothing(block, &reader.unknown, "siege"));
    }
    let mut summary = reader.summary;
    for (from, to) in [("longest_s", "max"), ("shortest_s", "min")] {
        if let Some(seconds) = summary.number(from) {
            summary.set(&format!("latency_ms.{to}"), seconds * 1e3);
        }
    }
    let one_by_one = reader.times.distribution();
    if one_by_one.count > 0 {
        let figures = [
            ("median", one_by_one.median),
            ("p50", one_by_one.p50),
            ("p90", one_by_one.p90),
            ("p95", one_by_one.p95),
            ("p99", one_by_one.p99),
            ("p99_9", one_by_one.p99_9),
            ("stddev", one_by_one.stddev),
        ];
        for (name, figure) in figures {
            if let Some(figure) = figure {
                summary.set(&format!("latency_ms.{name}"), figure);
            }
        }
        summary.set("latency_ms.count", one_by_one.count);
    }
    if let Some(version) = reader.version {
        summary.set("tool_version", version);
    }
    let users = reader
        .plan
        .facts()
        .get("concurrent")
        .and_then(serde_json::Value::as_u64);
    reader.errors.truncate(200);
    let parts = Parts {
        checks: checks(&reader.figures, users),
        said: said(&summary),
        plan: reader.plan,
        command,
        summary,
        errors: reader.errors,
        further: reader.further,
        further_left_out: reader.left_out,
        unknown: reader.unknown,
        started_at: None,
    };
    Ok(parts.import())
}

struct Reader {
    plan: ImportedPlan,
    summary: Imported,
    figures: BTreeMap<&'static str, Number>,
    further: Vec<Further>,
    unknown: Unknown,
    errors: Vec<String>,
    /// Transactions one by one, as `-v` prints them.
    times: Spread,
    version: Option<String>,
    /// Transactions beyond those that are kept one by one.
    left_out: u64,
}

impl Reader {
    fn line(&mut self, line: Line<'_>) -> Result<(), ImportError> {
        let text = line.text.trim();
        if text.is_empty() || super::command::find(text).is_some() {
            return Ok(());
        }
        if let Some((_, unit, _, place, factor)) =
            FIGURES.iter().find(|(label, ..)| text.starts_with(label))
        {
            let mut scan = Scan::new(text.split_once(':').map_or("", |(_, rest)| rest));
            let number = scan.number().filter(|_| scan.rest.trim() == *unit);
            let number = number.ok_or_else(|| {
                ImportError::at(line, "begins as one of siege's and cannot be read")
            })?;
            self.put(place, number, *factor);
            return Ok(());
        }
        if let Some(version) = text.strip_prefix("** SIEGE ") {
            self.version = Some(super::shown(version));
        } else if text.starts_with("** Preparing ") {
            let found = template::read("** Preparing {n} concurrent users for battle.", text);
            if let Some(users) = found.and_then(|found| found[0].1.count()) {
                self.plan.note("concurrent", users);
            }
        } else if let Some(found) = template::read(OURS, text) {
            for (place, number) in found {
                put(&mut self.summary, place, number);
            }
        } else if let Some(outcomes) = text.strip_prefix("Outcomes: ") {
            set_outcomes(&mut self.summary, outcomes);
        } else if text.starts_with("HTTP/") {
            self.transaction(line, text);
        } else if text.starts_with("[error]")
            || text.starts_with("siege aborted")
            || text.starts_with("[alert]")
        {
            self.errors.push(super::shown(text));
        } else if SILENT.iter().any(|begins| text.starts_with(begins)) {
            let found = named_numbers(text);
            if !found.is_empty() && text.starts_with("Verdict") {
                self.further
                    .push(Further::new(line.number, "Verdict", found));
            }
        } else {
            self.unknown.note(line);
        }
        Ok(())
    }

    fn put(&mut self, place: &'static str, number: Number, factor: f64) {
        self.figures.insert(place, number);
        let scaled = number.times(factor);
        if place == "data_transferred_bytes" {
            if let Some(bytes) = scaled.count() {
                self.summary.set(place, bytes);
            }
        } else if (factor - 1.0).abs() < f64::EPSILON {
            put(&mut self.summary, place, number);
        } else if let Some(value) = scaled.figure() {
            self.summary.set(place, value);
        }
    }

    /// `HTTP/1.1 200     0.52 secs:   24051 bytes ==> GET  /`
    fn transaction(&mut self, line: Line<'_>, text: &str) {
        let mut scan = Scan::new(text);
        let _ = scan.word();
        let read = (|| {
            let status = scan.number()?.count()?;
            let seconds = scan.number()?.figure()?;
            let bytes = scan.then("secs:").then(|| scan.number()).flatten()?;
            Some((status, seconds, bytes.figure()?))
        })();
        let Some((status, seconds, bytes)) = read else {
            self.unknown.note(line);
            return;
        };
        if self.further.len() < 2_000 {
            let figures = [
                ("status", status as f64),
                ("seconds", seconds),
                ("bytes", bytes),
            ];
            let figures = figures.map(|(name, value)| (name.to_owned(), value));
            self.further
                .push(Further::new(line.number, "transaction", figures.into()));
        } else {
            self.left_out += 1;
        }
        if let Some(class @ 1..=5) = status.checked_div(100) {
            let place = format!("status.{class}xx");
            let known = self.summary.count(&place).unwrap_or(0);
            self.summary.set(&place, known + 1);
        }
        self.times
            .push(std::time::Duration::try_from_secs_f64(seconds).unwrap_or_default());
    }

    fn json(&mut self, block: &Block<'_>) -> Result<(), ImportError> {
        let mut inside = false;
        for line in &block.lines {
            let mut text = line.text.trim();
            if !inside && !text.starts_with('{') {
                self.line(*line)?;
                continue;
            }
            text = text.trim_start_matches('{').trim_end_matches('}').trim();
            for part in text
                .split(',')
                .map(str::trim)
                .filter(|part| !part.is_empty())
            {
                let figure = part.split_once(':').and_then(|(key, value)| {
                    let key = key.trim().trim_matches('"');
                    let (.., place, factor) =
                        FIGURES.iter().find(|(_, _, known, ..)| *known == key)?;
                    let mut scan = Scan::new(value);
                    let number = scan.number().filter(|_| scan.rest.trim().is_empty())?;
                    Some((*place, number, *factor))
                });
                match figure {
                    Some((place, number, factor)) => self.put(place, number, factor),
                    None => return Err(ImportError::at(*line, "is none of siege's JSON")),
                }
            }
            inside = !line.text.contains('}');
        }
        Ok(())
    }
}

fn said(summary: &Imported) -> String {
    let mut text = "What siege printed".to_owned();
    if let Some(rate) = summary.number("transaction_rate_per_s") {
        text = format!("siege said {} transactions per second", significant(rate));
    }
    if let Some(time) = summary.number("latency_ms.avg") {
        // Writing to a string does not fail.
        let _ = write!(text, ", {} on average", ms_text(time));
    }
    if let Some(failed) = summary.count("failed").filter(|failed| *failed > 0) {
        let _ = write!(text, ", {failed} failed");
    }
    text
}

/// Little's law: transactions at once are their rate times their time.
fn little(at: &dyn Fn(&str) -> Option<Number>, users: Option<u64>) -> Agreement {
    let mut little = Agreement::default();
    if let (Some(done), Some(time), Some(concurrency), Some(elapsed)) = (
        at("transactions"),
        at("latency_ms.avg"),
        at("concurrency"),
        at("elapsed_s"),
    ) && let Some(rate) = quotient(
        sum([
            exact(done.value),
            exact(at("failed").map_or(0.0, |failed| failed.value)),
        ]
        .into_iter()),
        elapsed,
    ) {
        let worked = product(rate, time);
        little.same(worked, concurrency, 0.02, || {
            format!(
                "{} transactions in {} s of {} s each are {:.2} at once, not {}",
                done.value, elapsed.value, time.value, worked.value, concurrency.value
            )
        });
    }
    if let (Some(concurrency), Some(users)) = (at("concurrency"), users) {
        little.holds(concurrency.value - concurrency.half <= users as f64, || {
            format!("{} at once of {users} users", concurrency.value)
        });
    }
    little
}

/// Do the twelve figures agree with each other?
fn checks(figures: &BTreeMap<&'static str, Number>, users: Option<u64>) -> Vec<Check> {
    let at = |name: &str| {
        figures
            .get(name)
            .copied()
            .filter(|number| number.value.is_finite())
    };
    let mut counts = Agreement::default();
    if let (Some(done), Some(failed), Some(availability)) =
        (at("transactions"), at("failed"), at("availability_percent"))
        && done.value + failed.value > 0.0
    {
        let worked = exact(done.value / (done.value + failed.value) * 100.0);
        counts.same(worked, availability, 0.0, || {
            format!(
                "{} transactions and {} failed are an availability of {:.2} %, not {} %",
                done.value, failed.value, worked.value, availability.value
            )
        });
    }
    let mut rates = Agreement::default();
    let elapsed = at("elapsed_s");
    for (count, rate, what) in [
        ("transactions", "transaction_rate_per_s", "transactions"),
        ("data_transferred_bytes", "throughput_bytes_per_s", "MB"),
    ] {
        if let (Some(count), Some(rate), Some(elapsed)) = (at(count), at(rate), elapsed) {
            let count = if what == "MB" {
                count
            } else {
                exact(count.value)
            };
            if let Some(worked) = quotient(count, elapsed) {
                rates.same(worked, rate, 0.005, || {
                    format!(
                        "{} {what} in {} s are {} per second, not {}",
                        count.value,
                        elapsed.value,
                        significant(worked.value),
                        rate.value
                    )
                });
            }
        }
    }
    let mut order = Agreement::default();
    if let (Some(shortest), Some(time), Some(longest)) =
        (at("shortest_s"), at("latency_ms.avg"), at("longest_s"))
    {
        let within = shortest.value - shortest.half <= time.value + time.half
            && time.value - time.half <= longest.value + longest.half;
        order.holds(within, || {
            format!(
                "the average {} s is not between {} and {} s",
                time.value, shortest.value, longest.value
            )
        });
    }
    [
        counts.check(
            "counts_agree",
            "Availability is transactions over all that were tried.",
        ),
        rates.check("rates_agree", "Rates are counts over the elapsed time."),
        little(&at, users).check(
            "littles_law",
            "Transactions at once are their rate times their time.",
        ),
        order.check(
            "order_agrees",
            "The average lies between shortest and longest.",
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}
