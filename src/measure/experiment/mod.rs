//! Experiments: several runs of one plan with something varied (sweep), repeated (series), or of two plans in turn
//! (paired); what is asked for, in which order it runs, and what the runs come to together.

mod capacity;
mod design;
mod driver;
mod estimate;
mod figure;
mod finding;
mod paired;
mod prove;
mod read;
mod record;
mod settle;
mod sweep;
#[cfg(test)]
mod tests;
mod watch;

pub use capacity::{CapacitySpec, search_knee, search_levels, searched};
pub use design::{Arm, Order, Paired, Spec, Varied, label_of};
pub use driver::{Driver, Key, Next, Step};
pub use estimate::{Estimate, estimate, planned_bytes};
pub use figure::{Figure, figure, figure_of_kind};
pub use finding::{Finding, finding};
pub use paired::{Ratio, ratio, ratio_of_pairs};
pub use prove::{Answer, Proof, Proving, Question, provable, question};
pub use read::{MAX_ARMS, MAX_PAUSE_S, MAX_RUNS, MAX_TIME_S};
pub use record::{Experiment, ExperimentKind, ExperimentState, Point};
pub use settle::settled_at;
pub use sweep::{Knee, Level, counts, curve, knee, levels, median};
pub use watch::{Watch, Watching};
