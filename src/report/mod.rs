//! What leaves the program as text: the report forms of iperf, httperf, siege, ping and curl, CSV, and percentile files.

mod allowed;
mod balancer;
mod commands;
pub mod csv;
mod curl;
mod flat;
mod flow_csv;
mod flow_tail;
mod hgrm;
mod httperf;
pub mod import;
mod iperf;
mod iperf3;
mod iperf3_json;
mod iperf_units;
mod path;
mod ping;
mod points;
mod selftest;
mod siege;

pub use allowed::Allowed;
pub use balancer::{Backend, Balancer, Held, balancer_text};
pub use commands::{Commands, Lab, Wanted};
pub use curl::{Expanded, FETCH_REPORT, expand, fetch_text};
pub use flat::flatten;
pub use flow_csv::{
    IperfCsv, echoes_header, echoes_row, flow_intervals_header, flow_intervals_row, iperf_csv,
    path_csv,
};
pub use flow_tail::flow_findings;
pub use hgrm::hgrm;
pub use httperf::httperf_text;
pub use iperf::{IperfWriter, Side, iperf_listening, iperf_text};
pub use iperf3::{Iperf3Writer, iperf3_listening, iperf3_text};
pub use iperf3_json::iperf3_json;
pub use path::path_text;
pub use ping::{PingWriter, Print, ping_text};
pub use points::points_csv;
pub use selftest::{
    SelfTestRow, self_test_json, self_test_rows, self_test_sentence, self_test_text,
};
pub use siege::{siege_json, siege_text};

use crate::measure::fold::Interval;
use crate::measure::plan::throughput::Dialect;
use crate::measure::plan::{Kind, Plan};
use crate::measure::run::Run;
use crate::measure::summary::Summary;
use crate::measure::summary::flow::{EchoRow, FlowInterval};

/// The run's figures in the text form of the tool that it is like, without lines of intervals; `None` until there are
/// figures.
pub fn text(run: &Run) -> Option<String> {
    text_with_rows(run, &[])
}

/// The same with its stored rows where the form has a line for each (those of HTTP runs have not).
pub fn text_with_rows(run: &Run, rows: &[Interval]) -> Option<String> {
    let summary = run.summary.as_ref()?;
    Some(match (&run.plan, summary) {
        (_, Summary::Rate(summary)) => httperf_text(run, summary),
        (_, Summary::Users(summary)) => siege_text(run, summary),
        (_, Summary::Fetch(summary)) => fetch_text(run, summary),
        (Plan::Throughput(plan), Summary::Throughput(summary)) => {
            let rows = flow_rows(rows);
            match plan.dialect {
                Dialect::Iperf2 => iperf_text(run, plan, summary, &rows),
                Dialect::Iperf3 => iperf3_text(run, plan, summary, &rows),
            }
        }
        (Plan::Ping(plan), Summary::Ping(summary)) => {
            ping_text(run, plan, summary, &echo_rows(rows))
        }
        (Plan::Path(plan), Summary::Path(summary)) => path_text(run, plan, summary),
        // A run's figures are of its plan's kind.
        _ => return None,
    })
}

/// `intervals.csv` of a run with these rows, header first; `None` for a path run without figures.
pub fn intervals_csv(run: &Run, rows: &[Interval], options: csv::Options) -> Option<String> {
    let header = match (run.kind, &run.summary) {
        (Kind::Throughput, _) => flow_intervals_header(options),
        (Kind::Ping, _) => echoes_header(options),
        (Kind::Path, Some(Summary::Path(summary))) => {
            return Some(path_csv(run.id, summary, options));
        }
        (Kind::Path, _) => return None,
        (Kind::Rate | Kind::Users | Kind::Fetch, _) => csv::intervals_header(options),
    };
    let rows = rows.iter().map(|row| intervals_row(row, options));
    Some(std::iter::once(header).chain(rows).collect())
}

/// One row of it.
pub fn intervals_row(row: &Interval, options: csv::Options) -> String {
    match row {
        Interval::Http(second) => csv::intervals_row(second, options),
        Interval::Flow(row) => flow_intervals_row(row, options),
        Interval::Echo(row) => echoes_row(row, options),
    }
}

fn flow_rows(rows: &[Interval]) -> Vec<FlowInterval> {
    rows.iter()
        .filter_map(|row| match row {
            Interval::Flow(row) => Some(row.clone()),
            _ => None,
        })
        .collect()
}

fn echo_rows(rows: &[Interval]) -> Vec<EchoRow> {
    rows.iter()
        .filter_map(|row| match row {
            Interval::Echo(row) => Some(row.clone()),
            _ => None,
        })
        .collect()
}
