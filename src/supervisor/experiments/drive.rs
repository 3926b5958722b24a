//! The task that drives experiments, one at a time: asks the driver, puts its run in line as any other, waits for the
//! end, asks again. Nothing here knows kinds of experiments.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::super::launch::{Launch, LaunchError};
use super::super::{Supervisor, now};
use super::course::Course;
use super::{nothing_found, told};
use crate::measure::command_line;
use crate::measure::experiment::{Driver, Experiment, ExperimentState, Finding, Key, Next, Step};
use crate::measure::rows;
use crate::measure::run::{Origin, Run, State};
use crate::measure::search::Seen;
use crate::store::{ExperimentEnd, Finish, Inserted, Member, NewRun, Store, StoreError};

/// How long to wait before asking again for a place in a full queue.
const FULL: Duration = Duration::from_millis(500);

/// Why an experiment does not go on.
enum Halt {
    /// All runs are made.
    Done,
    /// A person asked.
    Cancelled,
    /// The program ends; it goes on after the next start.
    Shutdown,
    /// It cannot go on.
    Failed(String),
    /// This program does not know how.
    Unknown,
}

/// Drives what the process before left open, then all that comes, until the program ends.
pub(in crate::supervisor) async fn drive_all(supervisor: Supervisor) {
    let core = Arc::clone(&supervisor.core);
    match core.store.open_experiments().await {
        Ok(open) => {
            let mut line = core.courses.line();
            for id in open.into_iter().rev() {
                if !line.waiting.iter().any(|course| course.id == id) {
                    line.waiting.push_front(Arc::new(Course::new(id)));
                }
            }
        }
        Err(error) => tracing::error!(%error, "experiments that were left open could not be read"),
    }
    core.courses.taken_up.send_replace(true);
    loop {
        let next = {
            let mut line = core.courses.line();
            let next = line.waiting.pop_front();
            line.running.clone_from(&next);
            next
        };
        let Some(course) = next else {
            tokio::select! {
                () = core.courses.wake.notified() => continue,
                () = supervisor.draining() => return,
            }
        };
        let halt = drive(&supervisor, &course).await;
        let going_down = matches!(halt, Ok(Halt::Shutdown));
        if !going_down {
            let halt = halt.unwrap_or_else(|error| Halt::Failed(error.to_string()));
            conclude(&supervisor, &course, halt).await;
        }
        core.courses.line().running = None;
        course.tell();
        if going_down {
            return;
        }
    }
}

/// One experiment from where it stands to its end.
async fn drive(supervisor: &Supervisor, course: &Course) -> Result<Halt, StoreError> {
    let store = &supervisor.core.store;
    let Some(experiment) = store.experiment(course.id).await? else {
        return Ok(Halt::Unknown);
    };
    let Some(spec) = experiment.design() else {
        return Ok(Halt::Unknown);
    };
    store.start_experiment(course.id, now()).await?;
    course.tell();
    let mut stored: HashMap<Key, i64> = store.keys_of_runs(course.id).await?.into_iter().collect();
    let mut driver = spec.driver();
    let mut last: Option<Run> = None;
    loop {
        if course.is_cancelled() {
            return Ok(Halt::Cancelled);
        }
        if supervisor.is_draining() {
            return Ok(Halt::Shutdown);
        }
        let next = driver.next(last.take().as_ref());
        let made_already = match &next {
            Next::Run(step) => stored.remove(&step.key()),
            Next::Pause(_) if !stored.is_empty() => continue,
            _ => None,
        };
        if let Some(run) = made_already {
            last = store.run(run).await?;
            hand_over(store, driver.as_mut(), last.as_ref()).await?;
            continue;
        }
        if let Some(found) = driver.found() {
            store.keep_found(course.id, found).await?;
        }
        match next {
            Next::Done => return Ok(Halt::Done),
            Next::Pause(pause) => tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = course.cancelled() => {}
                () = supervisor.draining() => {}
            },
            Next::Run(step) => match run(supervisor, course, &experiment, *step).await? {
                Ok(run) => {
                    last = run;
                    hand_over(store, driver.as_mut(), last.as_ref()).await?;
                }
                Err(halt) => return Ok(halt),
            },
        }
    }
}

/// Each request of a run to a driver that wants to see them.
async fn hand_over(
    store: &Store,
    driver: &mut dyn Driver,
    run: Option<&Run>,
) -> Result<(), StoreError> {
    let Some(run) = run.filter(|_| driver.wants_requests()) else {
        return Ok(());
    };
    let mut requests: Vec<Seen> = Vec::new();
    let mut from = Some(0);
    while let Some(second) = from {
        let chunk = store.rows(run.id, second).await?;
        from = chunk.next;
        let decoded = tokio::task::spawn_blocking(move || {
            let rows = chunk.rows.iter().flat_map(|blob| rows::decode(blob));
            // A row that cannot be read ends its second: the step is judged by the others.
            rows.map_while(Result::ok)
                .map(|row| Seen::from(&row))
                .collect::<Vec<Seen>>()
        });
        requests.append(&mut decoded.await.unwrap_or_default());
    }
    driver.requests(requests);
    Ok(())
}

/// One run of it, from its place in the queue to its end; a run that may not be started is stored as failed. `None`
/// when somebody deleted it the moment it had ended.
async fn run(
    supervisor: &Supervisor,
    course: &Course,
    experiment: &Experiment,
    step: Step,
) -> Result<Result<Option<Run>, Halt>, StoreError> {
    let launch = Launch {
        plan: step.plan,
        command: None,
        note: experiment.note.clone(),
        tags: experiment.tags.clone(),
        objectives: experiment.objective.clone(),
        actor: experiment.actor.clone(),
        origin: Origin::Local,
        form_token: None,
        member: Some(Member {
            experiment: course.id,
            point: step.point,
            repeat: step.repeat,
        }),
    };
    let id = loop {
        match supervisor.launch(launch.clone()).await {
            Ok(run) => break run.id,
            Err(LaunchError::QueueFull) => tokio::select! {
                () = tokio::time::sleep(FULL) => {}
                () = course.cancelled() => return Ok(Err(Halt::Cancelled)),
                () = supervisor.draining() => return Ok(Err(Halt::Shutdown)),
            },
            Err(LaunchError::Draining) => return Ok(Err(Halt::Shutdown)),
            Err(error @ (LaunchError::Refused { .. } | LaunchError::Invalid(_))) => {
                break gap(supervisor, launch, error.to_string()).await?;
            }
            Err(error) => return Ok(Err(Halt::Failed(error.to_string()))),
        }
    };
    if let (Some(watch), Some(live)) = (step.watch, supervisor.find(id)) {
        live.watch(watch);
    }
    course.begin_run(id);
    if course.is_cancelled() {
        // The person asked between the launch and its announcement.
        let _ = supervisor.cancel(id).await;
    }
    let ended = until_ended(supervisor, course, id).await?;
    course.end_run();
    let cut_off = ended
        .as_ref()
        .is_some_and(|run| run.state == State::Interrupted);
    if cut_off && supervisor.is_draining() {
        return Ok(Err(Halt::Shutdown));
    }
    Ok(Ok(ended))
}

/// Stores a run that could not even be put in line.
async fn gap(supervisor: &Supervisor, launch: Launch, why: String) -> Result<i64, StoreError> {
    let core = &supervisor.core;
    let inserted = core
        .store
        .insert_run(NewRun {
            command: command_line::write(&launch.plan),
            plan: launch.plan,
            origin: launch.origin,
            actor: launch.actor,
            node: core.settings.node.clone(),
            note: launch.note,
            tags: launch.tags,
            objective: launch.objectives,
            form_token: None,
            member: launch.member,
            created_at: now(),
        })
        .await?;
    let (Inserted::New(id) | Inserted::Before(id)) = inserted;
    let end = Finish::bare(State::Failed, now(), Some(why));
    core.store.finish_run(id, end).await?;
    Ok(id)
}

/// The run once it has ended; tells those who watch the experiment of each change meanwhile.
async fn until_ended(
    supervisor: &Supervisor,
    course: &Course,
    id: i64,
) -> Result<Option<Run>, StoreError> {
    loop {
        let Some(live) = supervisor.find(id) else {
            return supervisor.core.store.run(id).await;
        };
        let mut changed = live.subscribe();
        let run = live.bare_run();
        if run.state.is_final() {
            return Ok(Some(run));
        }
        // The run keeps its sender as long as it is held here.
        let _ = changed.changed().await;
        course.tell();
    }
}

/// Writes the end of an experiment.
async fn conclude(supervisor: &Supervisor, course: &Course, halt: Halt) {
    let store = &supervisor.core.store;
    let experiment = match store.experiment(course.id).await {
        Ok(Some(experiment)) => experiment,
        Ok(None) => return,
        Err(error) => {
            tracing::error!(experiment = course.id, %error, "the experiment could not be read at its end");
            return;
        }
    };
    let end = end_of(&experiment, halt);
    if let Err(error) = store.finish_experiment(course.id, end).await {
        tracing::error!(experiment = course.id, %error, "the end of the experiment could not be stored");
    }
}

fn end_of(experiment: &Experiment, halt: Halt) -> ExperimentEnd {
    let points = &experiment.points;
    let found = experiment
        .design()
        .filter(|_| !points.is_empty())
        .map_or_else(Finding::default, |spec| told(&spec, experiment));
    let reach = match experiment.runs_planned {
        Some(planned) => format!("after {} of {planned} runs", experiment.runs_done),
        None => format!("after {} runs", experiment.runs_done),
    };
    let (state, error) = match halt {
        Halt::Done | Halt::Shutdown => match nothing_found(experiment) {
            Some(why) => (ExperimentState::Failed, Some(why)),
            None => (ExperimentState::Finished, None),
        },
        Halt::Cancelled => (
            ExperimentState::Cancelled,
            Some(format!("Cancelled {reach}; what was measured is kept.")),
        ),
        Halt::Failed(why) => (
            ExperimentState::Failed,
            Some(format!("Stopped {reach}. {why}")),
        ),
        Halt::Unknown => (
            ExperimentState::Interrupted,
            Some("This version of the program does not know this kind of experiment.".to_owned()),
        ),
    };
    ExperimentEnd {
        state,
        finished_at: now(),
        title: Some(found.title).filter(|text| !text.is_empty()),
        verdict: Some(found.verdict).filter(|text| !text.is_empty()),
        error,
    }
}
