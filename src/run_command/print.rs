//! What goes to standard output, and what to standard error.

use std::io::Write;

use crate::config::flags::OutputFormat;
use crate::measure::command_line::OutputOptions;
use crate::measure::plan::Plan;
use crate::measure::run::Run;
use crate::measure::summary::Summary;
use crate::report;
use crate::report::csv;

/// The report in the asked format; without one, as the tool of the line prints it.
pub(super) fn report(run: &Run, output: &OutputOptions, format: Option<OutputFormat>) {
    let text = match (format, &run.summary) {
        (Some(OutputFormat::Json), _) => {
            serde_json::to_string_pretty(run).unwrap_or_default() + "\n"
        }
        (Some(OutputFormat::Csv), _) => csv::summary_csv(run, csv::Options::default()),
        (None, Some(Summary::Users(summary))) if output.json => report::siege_json(summary),
        (None, Some(Summary::Fetch(summary))) => match (&output.write_out, &run.plan) {
            (Some(write_out), Plan::Fetch(plan)) => {
                let expanded = report::expand(write_out, plan, summary);
                for name in &expanded.unknown {
                    complain(&format!("unknown --write-out variable: '{name}'"));
                }
                expanded.text
            }
            _ => report::fetch_text(run, summary),
        },
        _ => report::text(run).unwrap_or_default(),
    };
    put(&text);
}

/// Writes to standard output at once.
pub(super) fn put(text: &str) {
    if text.is_empty() {
        return;
    }
    // A reader that has gone away wants no more.
    let mut output = std::io::stdout().lock();
    let _ = output
        .write_all(text.as_bytes())
        .and_then(|()| output.flush());
}

/// Lines for people, on standard error, so that what a script reads stays as its tool prints it.
pub(super) fn add(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// One line on standard error.
pub(super) fn complain(sentence: &str) {
    let _ = writeln!(std::io::stderr(), "tidemark: {sentence}");
}
