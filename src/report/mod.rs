//! What leaves the program as text: the report forms of httperf, siege and curl, CSV, and percentile files.

pub mod csv;
mod curl;
mod flat;
mod hgrm;
mod httperf;
mod siege;

pub use curl::{Expanded, FETCH_REPORT, expand, fetch_text};
pub use flat::flatten;
pub use hgrm::hgrm;
pub use httperf::httperf_text;
pub use siege::{siege_json, siege_text};

use crate::measure::run::Run;
use crate::measure::summary::Summary;

/// The run's figures in the text form of the tool that it is like; `None` until there are figures.
pub fn text(run: &Run) -> Option<String> {
    run.summary.as_ref().and_then(|summary| match summary {
        Summary::Rate(summary) => Some(httperf_text(run, summary)),
        Summary::Users(summary) => Some(siege_text(run, summary)),
        Summary::Fetch(summary) => Some(fetch_text(run, summary)),
        Summary::Throughput(_) | Summary::Ping(_) | Summary::Path(_) => None,
    })
}
