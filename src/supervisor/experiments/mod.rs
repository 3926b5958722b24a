//! Experiments: their line, one at a time, and what may be asked of them.

mod course;
mod drive;
mod prove;
mod watch;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

pub(super) use drive::drive_all;
pub use prove::NoProof;
pub use watch::{ExperimentEvent, ExperimentEventKind};

use super::launch::{Launch, LaunchError};
use super::{NotRunning, Supervisor, now};
use crate::measure::experiment::{Experiment, ExperimentState, Finding, Point, Spec, finding};
use crate::measure::run::{Origin, State};
use crate::store::{ExperimentEnd, ExperimentFilter, Inserted, NewExperiment, StoreError};
use course::Course;

/// Experiments that may wait for the one before them.
pub const EXPERIMENT_PLACES: usize = 20;

/// An experiment as it is asked for.
#[derive(Clone, Debug)]
pub struct ExperimentLaunch {
    /// What it is to do.
    pub spec: Spec,
    /// A person's note, on it and on each run.
    pub note: String,
    /// A person's tags, on it and on each run.
    pub tags: Vec<String>,
    /// Stated objectives of each run; empty = none.
    pub objectives: String,
    /// Who asks.
    pub actor: String,
    /// Marks one sending of a form.
    pub form_token: Option<String>,
}

/// Experiments that wait, and the one that runs.
#[derive(Default)]
pub(super) struct Courses {
    line: Mutex<CourseLine>,
    /// Wakes the task that drives them.
    wake: Notify,
    /// Whether those that the last program left open stand in line.
    taken_up: tokio::sync::watch::Sender<bool>,
}

#[derive(Default)]
struct CourseLine {
    waiting: VecDeque<Arc<Course>>,
    running: Option<Arc<Course>>,
}

impl Courses {
    fn line(&self) -> MutexGuard<'_, CourseLine> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, id: i64) -> Option<Arc<Course>> {
        let line = self.line();
        line.running
            .iter()
            .chain(&line.waiting)
            .find(|course| course.id == id)
            .map(Arc::clone)
    }

    /// The numbers of all, the running one last, so that stopping one after another starts none.
    pub(super) fn all(&self) -> Vec<i64> {
        let line = self.line();
        let waiting = line.waiting.iter();
        waiting.chain(&line.running).map(|it| it.id).collect()
    }

    fn add(&self, course: Arc<Course>) {
        self.line().waiting.push_back(course);
        self.wake.notify_one();
    }
}

impl Supervisor {
    /// Waits until the experiments that the last program left open stand in line again.
    pub async fn taken_up(&self) {
        let mut told = self.core.courses.taken_up.subscribe();
        // An error is the end of the program, for which nobody waits here.
        let _ = told.wait_for(|is| *is).await;
    }

    /// Says whether an experiment could be started now, without starting it: its texts, and where each plan goes.
    ///
    /// # Errors
    /// When it would be refused, and why.
    pub async fn check_experiment(&self, launch: &ExperimentLaunch) -> Result<(), LaunchError> {
        let mut seen = Vec::new();
        for arm in launch.spec.arms() {
            let who = (arm.plan.endpoints(), arm.plan.ip_version());
            if seen.contains(&who) {
                continue;
            }
            self.check(&Launch {
                plan: arm.plan.clone(),
                command: None,
                note: launch.note.clone(),
                tags: launch.tags.clone(),
                objectives: launch.objectives.clone(),
                actor: launch.actor.clone(),
                origin: Origin::Local,
                form_token: None,
                member: None,
            })
            .await?;
            seen.push(who);
        }
        Ok(())
    }

    /// Checks an experiment, stores it and puts it in line.
    ///
    /// # Errors
    /// When it is refused, and why.
    pub async fn launch_experiment(
        &self,
        mut launch: ExperimentLaunch,
    ) -> Result<Experiment, LaunchError> {
        let core = &self.core;
        if let Spec::Capacity(search) = &mut launch.spec
            && let Some(last) = core.store.last_self_test().await?
        {
            // Stored with what is asked for, so that a later self-test does not change a search on its way.
            search.know_generator(last.figures.new_per_s(), last.figures.kept_per_s());
        }
        if let Some(token) = &launch.form_token
            && let Some(id) = core.store.experiment_of_token(token.clone()).await?
        {
            return self.launched(id).await;
        }
        self.check_experiment(&launch).await?;
        core.check_disk()?;
        let _one_at_a_time = core.launching.lock().await;
        if core.line().draining {
            return Err(LaunchError::Draining);
        }
        if core.courses.line().waiting.len() >= EXPERIMENT_PLACES {
            return Err(LaunchError::TooManyExperiments);
        }
        let inserted = core
            .store
            .insert_experiment(NewExperiment {
                kind: launch.spec.kind(),
                target: launch.spec.target(),
                spec: launch.spec.to_json(),
                objective: launch.objectives.trim().to_owned(),
                note: launch.note,
                tags: launch.tags,
                actor: launch.actor,
                form_token: launch.form_token,
                created_at: now(),
            })
            .await?;
        match inserted {
            Inserted::Before(id) => self.launched(id).await,
            Inserted::New(id) => {
                core.courses.add(Arc::new(Course::new(id)));
                self.launched(id).await
            }
        }
    }

    async fn launched(&self, id: i64) -> Result<Experiment, LaunchError> {
        self.experiment(id)
            .await?
            .ok_or_else(|| LaunchError::Storage(format!("Experiment {id} was deleted at once.")))
    }

    /// One experiment with its runs; the one that runs shows its figures so far.
    ///
    /// # Errors
    /// When the notebook could not be read.
    pub async fn experiment(&self, id: i64) -> Result<Option<Experiment>, StoreError> {
        let Some(mut experiment) = self.core.store.experiment(id).await? else {
            return Ok(None);
        };
        if experiment.state.is_final() {
            return Ok(Some(experiment));
        }
        let course = self.core.courses.find(id);
        if let Some(live) = course
            .and_then(|course| course.current())
            .and_then(|run| self.find(run))
        {
            let run = live.run();
            if let Some(point) = experiment.points.iter_mut().find(|p| p.run == run.id) {
                point.state = run.state;
                point.summary.clone_from(&run.summary);
                point.error.clone_from(&run.error);
            }
            if let (Some(planned), false) = (experiment.runs_planned, run.state.is_final()) {
                let share = run.progress.done / planned.max(1) as f64;
                experiment.progress.done = (experiment.progress.done + share).min(0.999);
                let saved = run.plan.expected_duration_s().unwrap_or(0.0) * run.progress.done;
                experiment.progress.eta_s = experiment
                    .progress
                    .eta_s
                    .map(|eta| (eta - saved).max(run.progress.eta_s.unwrap_or(0.0)));
            }
        }
        if let Some(spec) = experiment.design() {
            let found = told(&spec, &experiment);
            experiment.title = Some(found.title);
            experiment.verdict = Some(found.verdict).filter(|text| !text.is_empty());
        }
        Ok(Some(experiment))
    }

    /// Experiments that pass the filter, newest first; their points carry no figures.
    ///
    /// # Errors
    /// When the notebook could not be read.
    pub async fn experiments(
        &self,
        filter: ExperimentFilter,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<Experiment>, StoreError> {
        let mut found = self.core.store.experiments(filter, before, limit).await?;
        for experiment in found.iter_mut().filter(|one| !one.state.is_final()) {
            let Some(run) = self
                .core
                .courses
                .find(experiment.id)
                .and_then(|course| course.current())
                .and_then(|run| self.find(run))
                .map(|live| live.bare_run())
            else {
                continue;
            };
            if let Some(point) = experiment.points.iter_mut().find(|p| p.run == run.id) {
                point.state = run.state;
            }
        }
        Ok(found)
    }

    /// Which run of an experiment runs or waits now; `None` between two runs.
    pub fn run_of_experiment(&self, id: i64) -> Option<i64> {
        self.core.courses.find(id)?.current()
    }

    /// Stops an experiment that waits or runs; it ends `cancelled` with the runs that it has.
    ///
    /// # Errors
    /// When it does neither.
    pub async fn cancel_experiment(&self, id: i64) -> Result<(), NotRunning> {
        let core = &self.core;
        let course = core.courses.find(id).ok_or(NotRunning)?;
        let waited = {
            let mut line = core.courses.line();
            let before = line.waiting.len();
            line.waiting.retain(|other| other.id != id);
            line.waiting.len() < before
        };
        course.cancel();
        if waited {
            let end = ExperimentEnd {
                state: ExperimentState::Cancelled,
                finished_at: now(),
                title: None,
                verdict: None,
                error: Some("Cancelled before it began; nothing was sent.".into()),
            };
            if let Err(error) = core.store.finish_experiment(id, end).await {
                tracing::error!(experiment = id, %error, "the end of the experiment could not be stored");
            }
            course.tell();
        } else if let Some(run) = course.current() {
            // It may have ended by itself meanwhile.
            let _ = self.cancel(run).await;
        }
        Ok(())
    }
}

/// What an experiment shows so far.
fn told(spec: &Spec, experiment: &Experiment) -> Finding {
    match spec {
        Spec::Capacity(search) => search.finding(experiment.capacity.as_ref()),
        _ => finding(spec, &experiment.points),
    }
}

/// Why an experiment that has come to its end found nothing at all; `None` where it did.
fn nothing_found(experiment: &Experiment) -> Option<String> {
    let searched = experiment.capacity.as_ref();
    match searched.and_then(|found| found["error"].as_str()) {
        Some(why) => Some(why.to_owned()),
        None => nothing_measured(&experiment.points),
    }
}

/// What a point comes to when all of them have ended: whether anything was measured, and if not, why.
fn nothing_measured(points: &[Point]) -> Option<String> {
    let useful = points
        .iter()
        .any(|point| point.state != State::Failed && point.summary.is_some());
    if useful {
        return None;
    }
    let why = points.iter().find_map(|point| point.error.as_deref());
    Some(match why {
        Some(why) => format!("No run measured anything. The first said: {why}"),
        None => "No run measured anything.".to_owned(),
    })
}
