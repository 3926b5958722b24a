//! A plan as the nearest line of its tool, with what that line cannot say.

use super::{UNLIMITED, curl, httperf, iperf_write, path, ping, read, siege};
use crate::measure::plan::Plan;

/// A plan as the nearest line of its tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The tool's own line.
    pub line: String,
    /// Whether the line asks for exactly this plan.
    pub exact: bool,
    /// A sentence for each thing that the tool's line cannot say, or that the tool itself does otherwise.
    pub differs: Vec<String>,
    /// The line for `tidemark run` that always asks for exactly this plan.
    pub tidemark: String,
}

/// The line that repeats a plan: its tool's own where that says all of it, else `tidemark run '{…}'`.
///
/// [`read`] reads it back to a plan that sends the same.
pub fn write(plan: &Plan) -> String {
    let written = written(plan);
    if written.exact {
        written.line
    } else {
        written.tidemark
    }
}

/// The nearest line of the plan's tool, with what it cannot say.
pub fn written(plan: &Plan) -> Written {
    let alone = |(line, differs)| (line, differs, None);
    let (line, mut differs, same) = match plan {
        Plan::Rate(rate) => httperf::write(rate),
        Plan::Users(users) => siege::write(users),
        Plan::Fetch(fetch) => curl::write(fetch),
        Plan::Throughput(throughput) => alone(iperf_write::write(throughput)),
        Plan::Ping(round_trips) => alone(ping::write(round_trips)),
        Plan::Path(to) => alone(path::write(to)),
        // The line that a text shows is the run's command; where it shows none there is none to make up.
        Plan::Imported(_) => (String::new(), Vec::new(), None),
    };
    let exact = read(&line)
        .plan
        .and_then(|value| Plan::from_json(&value, &UNLIMITED).ok())
        .is_some_and(|again| again == *plan || same.as_ref() == Some(&again));
    if !exact && differs.is_empty() {
        differs.push("The tool's line cannot say all of this plan.".to_owned());
    }
    let json = plan.to_json().to_string();
    Written {
        line,
        exact,
        differs,
        tidemark: format!("tidemark run {}", shell_words::quote(&json)),
    }
}
