//! What the notebook has of a guide: each step's newest run or experiment, found by its tag.

use crate::dashboard::words;
use crate::measure::experiment::ExperimentState;
use crate::measure::fold::Series;
use crate::measure::guide::{self, Evidence, Guide, Start};
use crate::measure::plan::Kind;
use crate::measure::run::State;
use crate::state::AppState;
use crate::store::{ExperimentFilter, Filter, StoreError};

/// Runs of one step that are looked at.
const RUNS: usize = 12;
/// Experiments that are looked through.
const EXPERIMENTS: usize = 300;

/// Where a step stands.
#[derive(Clone, Debug, Default)]
pub struct Mark {
    /// Whether it has been done once.
    pub done: bool,
    /// Whether it waits or runs.
    pub live: bool,
    /// Class of its state.
    pub class: &'static str,
    /// Its state in words.
    pub text: String,
    /// What it came to last, and where that is.
    pub last: Option<(String, String)>,
    /// The newest finished experiment.
    finished: Option<i64>,
}

/// Where each step of a guide stands, in their order.
pub async fn marks(state: &AppState, guide: Guide) -> Result<Vec<Mark>, StoreError> {
    let experiments = state
        .supervisor
        .experiments(ExperimentFilter::default(), None, EXPERIMENTS)
        .await?;
    let mut marks = Vec::new();
    for step in guide.steps() {
        let tag = guide.step_tag(step.word);
        marks.push(match step.start {
            Start::Run(_) => of_runs(state, tag).await?,
            Start::Experiment(_) => {
                let all: Vec<_> = experiments
                    .iter()
                    .filter(|one| one.tags.contains(&tag))
                    .collect();
                let finished = all
                    .iter()
                    .find(|one| one.state == ExperimentState::Finished);
                let mut mark = Mark {
                    done: finished.is_some(),
                    finished: finished.map(|one| one.id),
                    ..Mark::default()
                };
                if let Some(newest) = all.first() {
                    let failed = matches!(newest.state, ExperimentState::Failed);
                    mark.live = !newest.state.is_final();
                    mark.tell(newest.state.word(), failed);
                    let says = newest
                        .title
                        .clone()
                        .or_else(|| newest.error.clone())
                        .unwrap_or_else(|| newest.target.clone());
                    mark.last = Some((
                        format!("/experiments/{}", newest.id),
                        format!("Experiment {}: {says}", newest.id),
                    ));
                } else {
                    mark.tell("", false);
                }
                mark
            }
        });
    }
    Ok(marks)
}

async fn of_runs(state: &AppState, tag: String) -> Result<Mark, StoreError> {
    let filter = Filter {
        tag: Some(tag),
        ..Filter::default()
    };
    let runs = state.store.runs(filter, None, RUNS).await?;
    let mut mark = Mark {
        done: runs.iter().any(|run| run.state == State::Finished),
        ..Mark::default()
    };
    let Some(newest) = runs.first() else {
        mark.tell("", false);
        return Ok(mark);
    };
    mark.live = !newest.state.is_final();
    mark.tell(newest.state.word(), newest.state == State::Failed);
    let says = newest
        .title
        .clone()
        .or_else(|| newest.error.clone())
        .unwrap_or_else(|| newest.command.clone());
    mark.last = Some((
        format!("/runs/{}", newest.id),
        format!("Run {}: {says}", newest.id),
    ));
    Ok(mark)
}

impl Mark {
    fn tell(&mut self, newest: &str, failed: bool) {
        (self.class, self.text) = if self.live {
            ("live", format!("● {newest}"))
        } else if failed {
            ("badtext", format!("✕ {newest}"))
        } else if self.done {
            ("ok", "✓ done".to_owned())
        } else if newest.is_empty() {
            ("muted", "○ to do".to_owned())
        } else {
            ("warntext", format!("! {newest}"))
        };
    }
}

/// The figures of all that finished.
pub async fn evidence(
    state: &AppState,
    guide: Guide,
    found_marks: &[Mark],
) -> Result<Evidence, StoreError> {
    let mut found = Evidence::default();
    if guide == Guide::GlobalOverflow {
        // Its sweep is drawn beside the regional one.
        let regional = Guide::RegionalOverload;
        let steps = regional.steps().iter().zip(marks(state, regional).await?);
        let sweep = steps
            .filter(|(step, _)| step.word == "sweep")
            .find_map(|(_, mark)| mark.finished);
        if let Some(id) = sweep
            && let Some(one) = state.supervisor.experiment(id).await?
        {
            found.experiments.insert(guide::REGIONAL_SWEEP, one);
        }
    }
    for (step, mark) in guide.steps().iter().zip(found_marks) {
        match step.start {
            Start::Run(kind) => {
                let filter = Filter {
                    tag: Some(guide.step_tag(step.word)),
                    state: Some(State::Finished),
                    ..Filter::default()
                };
                let runs = state.store.runs(filter, None, RUNS).await?;
                if let (Kind::Ping, Some(newest)) = (kind, runs.first())
                    && let Some(Series::Flow(series)) = state.store.series(newest.id).await?
                {
                    found.echoes.insert(step.word, series.echoes);
                }
                if let (Guide::RegionFailure, Some(newest)) = (guide, runs.first())
                    && let Some(Series::Http(series)) = state.store.series(newest.id).await?
                    && let Some(recovery) = guide::recovery(&series)
                {
                    found.recoveries.insert(step.word, recovery);
                }
                found.runs.insert(step.word, runs);
            }
            Start::Experiment(_) => {
                if let Some(id) = mark.finished
                    && let Some(one) = state.supervisor.experiment(id).await?
                {
                    found.experiments.insert(step.word, one);
                }
            }
        }
    }
    Ok(found)
}

/// A rate as a form takes it: three digits at most.
pub fn typed(rate: f64) -> String {
    let digits = if rate >= 100.0 {
        0
    } else if rate >= 10.0 {
        1
    } else {
        2
    };
    let text = format!("{rate:.digits$}");
    words::plain(text.parse().unwrap_or(rate))
}
