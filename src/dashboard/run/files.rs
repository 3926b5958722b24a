//! The downloads of a run as its page lists them.

use crate::dashboard::words;
use crate::measure::plan::{Kind, Plan};
use crate::measure::run::{Run, State};
use crate::measure::summary::Summary;
use crate::report;

/// One download.
#[derive(Clone, Debug, PartialEq)]
pub struct FileLine {
    /// Its name.
    pub name: &'static str,
    /// What is in it.
    pub note: String,
}

/// The files of a run that has ended, with how many rows they have.
pub(super) fn files(run: &Run, intervals: Option<u64>, requests: Option<u64>) -> Vec<FileLine> {
    let file = |name, note: String| FileLine { name, note };
    let counted = |number: Option<u64>| {
        number.map_or_else(String::new, |number| words::plural(number, "row", "rows"))
    };
    if run.state == State::Imported {
        let mut files = vec![file("summary.csv", "1\u{a0}row".to_owned())];
        if has_intervals(run, intervals) {
            files.push(file("intervals.csv", counted(intervals)));
        }
        if run.kind == Kind::Ping && intervals.is_some_and(|rows| rows > 0) {
            files.push(file("histogram.hgrm", "HdrHistogram".to_owned()));
        }
        files.push(file("report.txt", "as it was given".to_owned()));
        files.push(file("report.html", "one file".to_owned()));
        return files;
    }
    let tool = match run.plan {
        Plan::Rate(_) => "as httperf prints",
        Plan::Users(_) => "as siege prints",
        Plan::Fetch(_) => "as curl -w prints",
        Plan::Throughput(_) => "as iperf prints",
        Plan::Ping(_) => "as ping prints",
        Plan::Path(_) => "as tracepath prints",
        Plan::Imported(_) => "as it was given",
    };
    let mut files = vec![file("summary.csv", "1\u{a0}row".to_owned())];
    if has_intervals(run, intervals) {
        files.push(file("intervals.csv", counted(rows(run, intervals))));
    }
    if run.kind.is_http() {
        files.push(file("requests.csv", counted(requests)));
    }
    if has_histogram(run.kind) {
        files.push(file("histogram.hgrm", "HdrHistogram".to_owned()));
    }
    if report::text(run).is_some() {
        files.push(file("report.txt", tool.to_owned()));
    }
    if run.kind == Kind::Throughput && run.summary.is_some() {
        files.push(file("iperf.csv", "as iperf -y C".to_owned()));
    }
    files.push(file("report.html", "one file".to_owned()));
    files
}

/// Rows of `intervals.csv`: of a path run one for each size that was tried.
fn rows(run: &Run, intervals: Option<u64>) -> Option<u64> {
    match &run.summary {
        Some(Summary::Path(summary)) => Some(summary.probes.len() as u64),
        _ => intervals,
    }
}

/// Whether `intervals.csv` has more than a header.
pub(super) fn has_intervals(run: &Run, intervals: Option<u64>) -> bool {
    rows(run, intervals).is_some_and(|rows| rows > 0)
}

/// The same for a spreadsheet: name and word.
pub(super) fn for_excel(run: &Run, intervals: Option<u64>) -> Vec<(&'static str, &'static str)> {
    let word = match run.kind {
        Kind::Rate | Kind::Users | Kind::Fetch | Kind::Throughput => "intervals",
        Kind::Ping => "packets",
        Kind::Path => "sizes",
    };
    let mut files = Vec::new();
    if run.kind.is_http() && run.state != State::Imported {
        files.push(("requests.csv", "requests"));
    }
    if has_intervals(run, intervals) {
        files.push(("intervals.csv", word));
    }
    files
}

/// Whether runs of this kind have a distribution to write as percentiles.
pub const fn has_histogram(kind: Kind) -> bool {
    matches!(kind, Kind::Rate | Kind::Users | Kind::Fetch | Kind::Ping)
}
