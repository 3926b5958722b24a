//! A report that another tool printed, as far as it was read: what becomes an imported run.

use crate::measure::fold::{Closed, Series};
use crate::measure::plan::ImportedPlan;
use crate::measure::run::Check;
use crate::measure::summary::Imported;

/// One report that a text holds.
#[derive(Clone, Debug)]
pub struct Import {
    /// What it tells of the test.
    pub plan: ImportedPlan,
    /// The command line that it shows; empty where it shows none.
    pub command: String,
    /// Its figures.
    pub summary: Imported,
    /// What charts are drawn from, where there is something over time.
    pub series: Option<Series>,
    /// Intervals of streams, or round trips.
    pub rows: Vec<Closed>,
    /// Whether its figures agree with each other.
    pub checks: Vec<Check>,
    /// What the tool said, at most 100 characters.
    pub title: String,
    /// What that is worth.
    pub verdict: String,
    /// The error that the tool printed.
    pub error: Option<String>,
    /// When the test began, where it says.
    pub started_at: Option<jiff::Timestamp>,
    /// The lines of the text that it was read from.
    pub text: String,
}
