//! Experiments as pages: the list, the form, one experiment while it runs and as a report, and its files.

pub mod capacity;
pub mod files;
pub mod form;
mod keys;
pub mod list;
pub mod new;
mod rows;
pub mod show;
pub mod view;

use serde_json::Value;

use crate::dashboard::error::Trouble;
use crate::measure::experiment::{Experiment, ExperimentKind, label_of};
use crate::measure::run::Run;
use crate::state::AppState;

/// What a kind is called at the top of a page.
pub const fn kind_words(kind: ExperimentKind) -> &'static str {
    match kind {
        ExperimentKind::Sweep => "sweep",
        ExperimentKind::Series => "series",
        ExperimentKind::Paired => "two plans in turn",
        ExperimentKind::Prove => "proof of a cause",
        ExperimentKind::Capacity => "capacity search",
    }
}

/// The experiment of this number as it stands in an address.
pub async fn find(state: &AppState, id: &str) -> Result<Experiment, Trouble> {
    let none = || Trouble::no_experiment(id);
    let number: i64 = id.parse().map_err(|_| none())?;
    state
        .supervisor
        .experiment(number)
        .await
        .map_err(|error| Trouble::storage(&error))?
        .ok_or_else(none)
}

/// The experiment of a run, and its place there in words.
pub fn place_of(run: &Run) -> Option<(i64, String)> {
    let experiment = run.experiment?;
    let point = run.point.as_ref().and_then(Value::as_object);
    let mut words = format!("experiment {experiment}");
    if let Some(label) = point.map(label_of).filter(|label| !label.is_empty()) {
        words = format!("{words}, {label}");
    }
    if let Some(repeat) = run.repeat {
        words = format!("{words}, repeat {repeat}");
    }
    Some((experiment, words))
}
