//! From what a person asks for to a run that waits: every refusal comes from here.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::instrument::look_up;
use super::live::Live;
use super::texts::{check_note, check_tags};
use super::{
    Core, EXPERIMENT_PLACES, MIN_FREE_BYTES, QUEUE_PLACES, Supervisor, now, number_places,
};
use crate::guard::target::Refusal;
use crate::measure::command_line;
use crate::measure::objective::Objectives;
use crate::measure::plan::{FieldError, Plan};
use crate::measure::run::{Origin, Run, State};
use crate::net::sys;
use crate::store::{Finish, Inserted, Member, NewRun, StoreError};

/// Said of a run whose asker was told "try again" or hung up before it was stored.
const ABANDONED: &str =
    "Cancelled before it began: whoever asked for it was gone before it could be stored.";

/// A run as it is asked for.
#[derive(Clone, Debug)]
pub struct Launch {
    /// What it is to do.
    pub plan: Plan,
    /// The line that was pasted; `None` = the equivalent line is written.
    pub command: Option<String>,
    /// A person's note.
    pub note: String,
    /// A person's tags.
    pub tags: Vec<String>,
    /// Stated objectives, such as `p99<500ms,errors<0.1%`; empty = none.
    pub objectives: String,
    /// Who asks.
    pub actor: String,
    /// From where.
    pub origin: Origin,
    /// Marks one sending of a form: the second with the same one gets the first one's run.
    pub form_token: Option<String>,
    /// The experiment that it belongs to.
    pub member: Option<Member>,
}

/// Why a run was not put into the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LaunchError {
    /// Tests must not go to this target.
    Refused {
        /// The plan's field that names the target.
        field: &'static str,
        /// What a person reads.
        sentence: String,
        /// The address (or, before it is known, the host) to register as a peer, where that would allow it.
        registrable: Option<String>,
    },
    /// Fields are at fault.
    Invalid(Vec<FieldError>),
    /// All places are taken.
    QueueFull,
    /// As many experiments wait as may.
    TooManyExperiments,
    /// The program is about to end.
    Draining,
    /// Too little space on the disk; the sentence says how much.
    DiskFull(String),
    /// The notebook cannot be used.
    Storage(String),
}

impl From<StoreError> for LaunchError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Disk { .. } => Self::DiskFull(error.to_string()),
            other => Self::Storage(other.to_string()),
        }
    }
}

impl std::fmt::Display for LaunchError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Refused { sentence, .. } | Self::DiskFull(sentence) | Self::Storage(sentence) => {
                f.write_str(sentence)
            }
            Self::Invalid(errors) => {
                let messages: Vec<&str> = errors.iter().map(|e| e.message.as_str()).collect();
                f.write_str(&messages.join(" "))
            }
            Self::QueueFull => write!(
                f,
                "The queue is full: {QUEUE_PLACES} runs wait already. Cancel one, or try again when one has ended."
            ),
            Self::TooManyExperiments => write!(
                f,
                "{EXPERIMENT_PLACES} experiments wait already. Cancel one, or try again when one has ended."
            ),
            Self::Draining => f.write_str("This server is about to stop and takes no more runs."),
        }
    }
}

impl Supervisor {
    /// Says whether a run could be started now, without starting it: its texts and where it goes.
    ///
    /// # Errors
    /// When it would be refused, and why.
    pub async fn check(&self, launch: &Launch) -> Result<(), LaunchError> {
        let mut errors = check_note(&launch.note);
        errors.extend(check_tags(&launch.tags));
        if let Err(message) = Objectives::parse(launch.objectives.trim()) {
            errors.push(FieldError {
                field: "objective".into(),
                message,
            });
        }
        if !errors.is_empty() {
            return Err(LaunchError::Invalid(errors));
        }
        self.core
            .settings
            .instrument
            .permits(&launch.plan)
            .map_err(|error| LaunchError::Invalid(vec![error]))?;
        self.core.check_targets(&launch.plan).await
    }

    /// Checks a run, stores it and puts it in line; it is on disk before its first packet can go.
    ///
    /// Dropping the future before that leaves no half of a run behind: one that is stored already is cancelled.
    ///
    /// # Errors
    /// When it is refused, and why.
    pub async fn launch(&self, launch: Launch) -> Result<Run, LaunchError> {
        let (answer, answered) = oneshot::channel();
        let supervisor = self.clone();
        tokio::spawn(async move {
            let result = supervisor.launch_for(launch, &answer).await;
            // Nobody may wait any more.
            let _ = answer.send(result);
        });
        answered
            .await
            .unwrap_or_else(|_| Err(LaunchError::Storage("The launch broke off.".into())))
    }

    async fn launch_for(
        &self,
        launch: Launch,
        answer: &oneshot::Sender<Result<Run, LaunchError>>,
    ) -> Result<Run, LaunchError> {
        let core = &self.core;
        let _one_at_a_time = core.launching.lock().await;
        if let Some(token) = &launch.form_token
            && let Some(id) = core.store.run_of_token(token.clone()).await?
            && let Some(run) = self.run(id).await?
        {
            return Ok(run);
        }
        self.check(&launch).await?;
        {
            let line = core.line();
            if line.draining {
                return Err(LaunchError::Draining);
            }
            if line.taken() >= QUEUE_PLACES {
                return Err(LaunchError::QueueFull);
            }
        }
        core.check_disk()?;
        let objective = launch.objectives.trim().to_owned();
        let inserted = core
            .store
            .insert_run(NewRun {
                command: launch
                    .command
                    .unwrap_or_else(|| command_line::write(&launch.plan)),
                plan: launch.plan,
                origin: launch.origin,
                actor: launch.actor,
                node: core.settings.node.clone(),
                note: launch.note,
                tags: launch.tags,
                objective: objective.clone(),
                form_token: launch.form_token,
                member: launch.member,
                created_at: now(),
            })
            .await?;
        let (Inserted::New(id) | Inserted::Before(id)) = inserted;
        if answer.is_closed() {
            let end = Finish::bare(State::Cancelled, now(), Some(ABANDONED.into()));
            core.store.finish_run(id, end).await?;
            return Err(LaunchError::Storage(ABANDONED.into()));
        }
        let run = core
            .store
            .run(id)
            .await?
            .ok_or_else(|| LaunchError::Storage(format!("Run {id} was deleted at once.")))?;
        let live = Arc::new(Live::new(run, objective));
        {
            let mut line = core.line();
            line.waiting.push_back(Arc::clone(&live));
            number_places(&line);
        }
        core.wake.notify_all();
        Ok(live.run())
    }
}

impl Core {
    /// Looks every host of the plan up and asks whether tests may go to each of its addresses.
    async fn check_targets(&self, plan: &Plan) -> Result<(), LaunchError> {
        let peers = self.peer_addresses().await?;
        let field = plan.target_field();
        let mut seen = Vec::new();
        for endpoint in plan.endpoints() {
            if seen.contains(&endpoint) {
                continue;
            }
            let refuse = |refused: Refusal| LaunchError::Refused {
                field,
                registrable: refused.registrable.then(|| endpoint.host.clone()),
                sentence: refused.sentence,
            };
            self.settings
                .rule
                .check_host(&endpoint.host)
                .map_err(refuse)?;
            let (addresses, _) = look_up(&*self.settings.instrument, plan, &endpoint)
                .await
                .map_err(|sentence| LaunchError::Refused {
                    field,
                    sentence,
                    registrable: None,
                })?;
            seen.push(endpoint);
            for address in addresses {
                self.settings
                    .rule
                    .check(address, &peers)
                    .map_err(|refusal| LaunchError::Refused {
                        field,
                        registrable: refusal.registrable.then(|| address.ip().to_string()),
                        sentence: refusal.sentence,
                    })?;
            }
        }
        Ok(())
    }

    /// A run that could not be stored to its end is not begun.
    pub(super) fn check_disk(&self) -> Result<(), LaunchError> {
        let Ok(free) = sys::free_bytes(self.store.path()) else {
            return Ok(());
        };
        if free >= MIN_FREE_BYTES {
            return Ok(());
        }
        Err(LaunchError::DiskFull(format!(
            "Not enough disk space: {} MiB free, {} needed.",
            free >> 20,
            MIN_FREE_BYTES >> 20
        )))
    }
}
