//! What leaves the program as text: the report forms of iperf, httperf, siege, ping and curl, CSV, and percentile files.

pub mod csv;
mod curl;
mod flat;
mod flow_csv;
mod flow_tail;
mod hgrm;
mod httperf;
mod iperf;
mod iperf3;
mod iperf3_json;
mod iperf_units;
mod path;
mod ping;
mod selftest;
mod siege;

pub use curl::{Expanded, FETCH_REPORT, expand, fetch_text};
pub use flat::flatten;
pub use flow_csv::{
    IperfCsv, echoes_csv, echoes_row, flow_intervals_csv, flow_intervals_row, iperf_csv, path_csv,
};
pub use hgrm::hgrm;
pub use httperf::httperf_text;
pub use iperf::{IperfWriter, Side, iperf_text};
pub use iperf3::{Iperf3Writer, iperf3_text};
pub use iperf3_json::iperf3_json;
pub use path::path_text;
pub use ping::{PingWriter, Print, ping_text};
pub use selftest::{
    SelfTestRow, self_test_json, self_test_rows, self_test_sentence, self_test_text,
};
pub use siege::{siege_json, siege_text};

use crate::measure::fold::Interval;
use crate::measure::plan::Plan;
use crate::measure::plan::throughput::Dialect;
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

/// `intervals.csv` of a run of any kind but HTTP; `None` for those, and for a path run without figures.
pub fn flow_rows_csv(run: &Run, rows: &[Interval], options: csv::Options) -> Option<String> {
    match (&run.plan, &run.summary) {
        (Plan::Throughput(_), _) => Some(flow_intervals_csv(&flow_rows(rows), options)),
        (Plan::Ping(_), _) => Some(echoes_csv(&echo_rows(rows), options)),
        (Plan::Path(_), Some(Summary::Path(summary))) => Some(path_csv(run.id, summary, options)),
        _ => None,
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
