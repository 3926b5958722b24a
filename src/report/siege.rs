//! The report in the forms of siege 4.0.7 (`src/main.c`): text, and JSON as `-j` prints it.

use std::fmt::Write;

use crate::measure::plan::Plan;
use crate::measure::run::Run;
use crate::measure::summary::UsersSummary;

/// siege's MB are 2²⁰ bytes.
const MB: f64 = 1_048_576.0;

/// The whole report with siege's opening lines. Where a figure does not exist siege prints 0.00, and so does this form;
/// what siege does not print stands in lines at the end.
pub fn siege_text(run: &Run, summary: &UsersSummary) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write_text(&mut text, run, summary);
    text
}

fn write_text(out: &mut String, run: &Run, summary: &UsersSummary) -> std::fmt::Result {
    if let Plan::Users(plan) = &run.plan {
        writeln!(out, "** SIEGE 4.0.7")?;
        writeln!(
            out,
            "** Preparing {} concurrent users for battle.",
            plan.concurrent
        )?;
        writeln!(out, "The server is now under siege...\n")?;
    }
    let figures = Figures::of(summary);
    for (label, tabs, value, unit) in [
        ("Transactions:", 2, &figures.transactions, " hits"),
        ("Availability:", 2, &figures.availability, " %"),
        ("Elapsed time:", 2, &figures.elapsed, " secs"),
        ("Data transferred:", 1, &figures.data, " MB"),
        ("Response time:", 2, &figures.response, " secs"),
        ("Transaction rate:", 1, &figures.rate, " trans/sec"),
        ("Throughput:", 2, &figures.throughput, " MB/sec"),
        ("Concurrency:", 2, &figures.concurrency, ""),
        ("Successful transactions:", 0, &figures.successful, ""),
        ("Failed transactions:", 1, &figures.failed, ""),
        ("Longest transaction:", 1, &figures.longest, ""),
        ("Shortest transaction:", 1, &figures.shortest, ""),
    ] {
        writeln!(out, "{label}{}{value}{unit}", "\t".repeat(tabs))?;
    }
    writeln!(out, " ")?;
    let latency = &summary.latency_ms;
    if latency.count > 0 {
        writeln!(
            out,
            "Latency [ms]: p50 {:.1} p90 {:.1} p99 {:.1} p99.9 {:.1} max {:.1} (n {}, censored {})",
            shown(latency.p50),
            shown(latency.p90),
            shown(latency.p99),
            shown(latency.p99_9),
            shown(latency.max),
            latency.count,
            summary.censored
        )?;
    }
    super::httperf::write_tail(out, run, &summary.outcomes)
}

/// The report as JSON, with the keys and the spacing of siege 4.0.7.
pub fn siege_json(summary: &UsersSummary) -> String {
    let figures = Figures::of(summary);
    let rows = [
        ("transactions", 3, &figures.transactions),
        ("availability", 3, &figures.availability),
        ("elapsed_time", 3, &figures.elapsed),
        ("data_transferred", 2, &figures.data),
        ("response_time", 2, &figures.response),
        ("transaction_rate", 2, &figures.rate),
        ("throughput", 3, &figures.throughput),
        ("concurrency", 3, &figures.concurrency),
        ("successful_transactions", 1, &figures.successful),
        ("failed_transactions", 2, &figures.failed),
        ("longest_transaction", 2, &figures.longest),
        ("shortest_transaction", 2, &figures.shortest),
    ];
    let lines: Vec<String> = rows
        .into_iter()
        .map(|(key, tabs, value)| format!("\t\"{key}\":{}{value}", "\t".repeat(tabs)))
        .collect();
    format!("{{{}\n}}\n", lines.join(",\n"))
}

/// The twelve figures, twelve characters wide.
struct Figures {
    transactions: String,
    availability: String,
    elapsed: String,
    data: String,
    response: String,
    rate: String,
    throughput: String,
    concurrency: String,
    successful: String,
    failed: String,
    longest: String,
    shortest: String,
}

impl Figures {
    fn of(summary: &UsersSummary) -> Self {
        let count = |count: u64| format!("{count:12}");
        let figure = |figure: f64| format!("{figure:12.2}");
        Self {
            transactions: count(summary.transactions),
            availability: figure(shown(summary.availability_percent)),
            elapsed: figure(summary.elapsed_s),
            data: figure(summary.data_transferred_bytes as f64 / MB),
            response: figure(shown(summary.latency_ms.avg) / 1000.0),
            rate: figure(shown(summary.transaction_rate_per_s)),
            throughput: figure(shown(summary.throughput_bytes_per_s) / MB),
            concurrency: figure(shown(summary.concurrency)),
            successful: count(summary.successful),
            failed: count(summary.failed),
            longest: figure(shown(summary.longest_s)),
            shortest: figure(shown(summary.shortest_s)),
        }
    }
}

fn shown(figure: Option<f64>) -> f64 {
    figure.unwrap_or(0.0)
}
