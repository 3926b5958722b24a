//! The self-test in the queue: it takes a place like a run, so that nothing measures beside it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::instrument::StopHandle;
use super::live::Live;
use super::{Core, Line, NotRunning, QUEUE_PLACES, Supervisor, now, number_places, panic_text};
use crate::measure::run::{Check, Progress, State};
use crate::measure::verdict;
use crate::selftest::Step;
use crate::store::Finish;

/// A self-test that waits, runs, or was the last to do so.
#[derive(Clone, Debug, PartialEq)]
pub struct SelfTestView {
    /// Where it stands.
    pub state: State,
    /// Whether every part is shortened.
    pub quick: bool,
    /// Place in the queue, 1 = next; `None` unless queued.
    pub queue_place: Option<u32>,
    /// How far it is.
    pub progress: Progress,
    /// What it does now; empty unless running.
    pub doing: &'static str,
    /// Why there is no result.
    pub error: Option<String>,
}

/// Why no self-test was put into the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelfTestRefused {
    /// One waits or runs already.
    Busy,
    /// All places are taken.
    QueueFull,
    /// The program is about to end.
    Draining,
}

impl std::fmt::Display for SelfTestRefused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Busy => f.write_str("A self-test waits or runs already: one at a time."),
            Self::QueueFull => write!(
                f,
                "The queue is full: {QUEUE_PLACES} runs wait already. Cancel one, or try again when one has ended."
            ),
            Self::Draining => f.write_str("This server is about to stop and measures no more."),
        }
    }
}

/// One self-test from its being asked for to its end.
pub(super) struct Trial {
    /// The last run that waited when it was asked for; it has its turn after that.
    after: i64,
    quick: bool,
    stop: StopHandle,
    seen: Mutex<Seen>,
    changed: watch::Sender<u64>,
}

#[derive(Clone, Debug)]
struct Seen {
    state: State,
    step: Option<Step>,
    error: Option<String>,
}

impl Trial {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_open(&self) -> bool {
        !self.seen().state.is_final()
    }

    fn change(&self, change: impl FnOnce(&mut Seen)) {
        change(&mut self.seen());
        self.changed.send_modify(|version| *version += 1);
    }

    fn end(&self, state: State, error: Option<String>) {
        self.change(|seen| {
            seen.state = state;
            seen.step = None;
            seen.error = error;
        });
    }
}

impl Line {
    /// The self-test that waits, if any.
    fn waiting_trial(&self) -> Option<&Arc<Trial>> {
        self.trial
            .as_ref()
            .filter(|trial| trial.seen().state == State::Queued)
    }

    /// The self-test whose turn it is before the next run's.
    pub(super) fn due_trial(&self) -> Option<Arc<Trial>> {
        let trial = self.waiting_trial()?;
        let first = self
            .waiting
            .front()
            .is_none_or(|live| live.id > trial.after);
        first.then(|| Arc::clone(trial))
    }

    /// Whether a self-test stands before this run.
    pub(super) fn trial_is_before(&self, live: &Live) -> bool {
        self.waiting_trial()
            .is_some_and(|trial| live.id > trial.after)
    }

    /// Places that are taken.
    pub(super) fn taken(&self) -> usize {
        self.waiting.len() + usize::from(self.waiting_trial().is_some())
    }

    /// Ends a self-test because the program ends.
    pub(super) fn drain_trial(&self) {
        let Some(trial) = self.trial.as_ref().filter(|trial| trial.is_open()) else {
            return;
        };
        trial.stop.stop();
        if trial.seen().state == State::Queued {
            trial.end(State::Interrupted, None);
        }
    }
}

impl Supervisor {
    /// Puts a self-test into the queue.
    ///
    /// # Errors
    /// When it is refused, and why.
    pub fn self_test(&self, quick: bool) -> Result<SelfTestView, SelfTestRefused> {
        let core = &self.core;
        {
            let mut line = core.line();
            if line.draining {
                return Err(SelfTestRefused::Draining);
            }
            if line.trial.as_ref().is_some_and(|trial| trial.is_open()) {
                return Err(SelfTestRefused::Busy);
            }
            if line.taken() >= QUEUE_PLACES {
                return Err(SelfTestRefused::QueueFull);
            }
            line.trial = Some(Arc::new(Trial {
                after: line.waiting.back().map_or(0, |live| live.id),
                quick,
                stop: StopHandle::default(),
                seen: Mutex::new(Seen {
                    state: State::Queued,
                    step: None,
                    error: None,
                }),
                changed: watch::Sender::new(0),
            }));
        }
        core.wake.notify_all();
        self.self_test_view().ok_or(SelfTestRefused::Draining)
    }

    /// The self-test that waits or runs, or the last one since the program started.
    pub fn self_test_view(&self) -> Option<SelfTestView> {
        let line = self.core.line();
        let trial = line.trial.as_ref()?;
        let seen = trial.seen().clone();
        let before = line.waiting.iter().filter(|live| live.id <= trial.after);
        let place = u32::try_from(before.count() + 1).unwrap_or(u32::MAX);
        Some(SelfTestView {
            state: seen.state,
            quick: trial.quick,
            queue_place: (seen.state == State::Queued).then_some(place),
            progress: match seen.step {
                Some(step) => Progress {
                    done: step.done.clamp(0.0, 0.99),
                    eta_s: Some(step.left_s),
                },
                None => Progress {
                    done: if seen.state == State::Finished {
                        1.0
                    } else {
                        0.0
                    },
                    eta_s: None,
                },
            },
            doing: seen.step.map_or("", |step| step.doing),
            error: seen.error,
        })
    }

    /// Tells of every change of the last self-test; `None` when there was none since the program started.
    pub fn watch_self_test(&self) -> Option<watch::Receiver<u64>> {
        let line = self.core.line();
        line.trial.as_ref().map(|trial| trial.changed.subscribe())
    }

    /// Stops a self-test that waits or runs; nothing of it is kept.
    ///
    /// # Errors
    /// When none does.
    pub fn cancel_self_test(&self) -> Result<(), NotRunning> {
        let line = self.core.line();
        let trial = line
            .trial
            .as_ref()
            .filter(|trial| trial.is_open())
            .ok_or(NotRunning)?;
        trial.stop.stop();
        if trial.seen().state == State::Queued {
            trial.end(
                State::Cancelled,
                Some("It was stopped before it began.".into()),
            );
            number_places(&line);
        }
        Ok(())
    }
}

impl Core {
    /// Makes the self-test whose turn it is and keeps its result.
    pub(super) fn make_self_test(&self, trial: &Trial) {
        {
            let mut seen = trial.seen();
            // It may have been cancelled between its turn and here.
            if seen.state != State::Queued {
                return;
            }
            seen.state = State::Running;
        }
        let started_at = now();
        let made = catch_unwind(AssertUnwindSafe(|| {
            self.settings
                .instrument
                .self_test(trial.quick, &trial.stop, &mut |step| {
                    trial.change(|seen| seen.step = Some(step));
                })
        }));
        let made = made.unwrap_or_else(|panic| {
            let text = panic_text(panic.as_ref());
            tracing::error!(text, "the self-test panicked");
            Err(format!(
                "The self-test ended by an internal error: {text}. The log says more."
            ))
        });
        let figures = match made {
            Ok(figures) => figures,
            Err(sentence) => {
                let state = match (trial.stop.is_asked(), self.line().draining) {
                    (true, true) => State::Interrupted,
                    (true, false) => State::Cancelled,
                    (false, _) => State::Failed,
                };
                return trial.end(state, Some(sentence));
            }
        };
        let kept = self.runtime.block_on(self.store.insert_self_test(
            self.settings.node.clone(),
            started_at,
            now(),
            figures,
        ));
        match kept {
            Ok(_) => trial.end(State::Finished, None),
            Err(error) => {
                tracing::error!(%error, "the self-test could not be stored");
                trial.end(
                    State::Failed,
                    Some(format!("The result could not be stored. {error}")),
                );
            }
        }
    }

    /// What the last self-test of this node says of a run that has ended.
    pub(super) fn self_test_check(&self, live: &Live, finish: &Finish) -> Option<Check> {
        let summary = finish.summary.as_ref()?;
        let last = self.runtime.block_on(self.store.last_self_test());
        let last = last
            .inspect_err(|error| tracing::warn!(%error, "the last self-test could not be read"))
            .ok()??;
        verdict::self_test_check(&live.plan(), summary, &last.figures, &live.environment())
    }
}
