//! The procedure from its start through all answers, up to the first that is missing.

use super::result::{Finding, Label};
use super::{
    Action, Answer, Came, Closed, ClosedFigures, Look, Sequential, SequentialFigures, Settings,
    Step, StepFigures, loss, web,
};

/// Why the procedure does not go on.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Halt {
    /// This must be done first.
    Ask(Action),
    /// The target is not what it was: from the start.
    Changed,
    /// Nothing can be found, with the reason.
    Hopeless(String),
}

/// What a part of the procedure comes to, unless it halts.
pub(super) type Went<T> = Result<T, Halt>;

/// The answers so far, and what they have led to.
#[derive(Debug)]
pub(super) struct Replay<'a> {
    pub(super) settings: &'a Settings,
    answers: std::slice::Iter<'a, Answer>,
    /// When the last answer taken had come, in s of the search.
    pub(super) now_s: f64,
    /// How long a step sends, in s.
    pub(super) step_s: f64,
    pub(super) finding: Finding,
}

/// The next action, and what is known so far.
pub(super) fn replay(settings: &Settings, answers: &[Answer]) -> Look {
    let mut replay = Replay {
        settings,
        answers: answers.iter(),
        now_s: 0.0,
        step_s: settings.step_s,
        finding: Finding::default(),
    };
    if settings.shared_host {
        replay.finding.capacity.label(Label::SharedHost);
    }
    let went = match settings.loss {
        Some(loss) => loss::search(&mut replay, loss),
        None => web::search(&mut replay),
    };
    let mut finding = replay.finding;
    let next = match went {
        Err(Halt::Ask(action)) => Some(action),
        Err(Halt::Hopeless(sentence)) => {
            finding.capacity.error = Some(sentence);
            None
        }
        Ok(()) | Err(Halt::Changed) => None,
    };
    let capacity = &mut finding.capacity;
    capacity.elapsed_s = replay.now_s;
    capacity.trials = capacity.steps.len() as u64;
    capacity.invalid_trials = capacity
        .steps
        .iter()
        .filter(|trial| trial.verdict == super::Verdict::Invalid)
        .count() as u64;
    capacity.regular = capacity.lower_per_s.is_some() && capacity.upper_per_s.is_some();
    finding.doing = next;
    Look { next, finding }
}

impl Replay<'_> {
    /// The answer to an action; halts where there is none yet.
    pub(super) fn ask(&mut self, action: Action) -> Went<Came> {
        let Some(answer) = self.answers.next() else {
            return Err(Halt::Ask(action));
        };
        self.now_s = answer.at_s;
        match &answer.came {
            Came::Failed(sentence) => Err(Halt::Hopeless(sentence.clone())),
            came => Ok(came.clone()),
        }
    }

    /// Requests one after another.
    pub(super) fn sequential(&mut self, action: Sequential) -> Went<SequentialFigures> {
        match self.ask(Action::Sequential(action))? {
            Came::Sequential(figures) => Ok(figures),
            _ => Err(confused()),
        }
    }

    /// A closed loop.
    pub(super) fn closed(&mut self, action: Closed) -> Went<ClosedFigures> {
        match self.ask(Action::Closed(action))? {
            Came::Closed(figures) => Ok(figures),
            _ => Err(confused()),
        }
    }

    /// An open loop.
    pub(super) fn step(&mut self, action: Step) -> Went<StepFigures> {
        match self.ask(Action::Step(action))? {
            Came::Step(figures) => Ok(*figures),
            _ => Err(confused()),
        }
    }

    /// A rest.
    pub(super) fn pause(&mut self, seconds: f64) -> Went<()> {
        self.ask(Action::Pause(seconds)).map(|_| ())
    }

    /// A length that shrinks with steps shorter than 20 s, in s.
    pub(super) fn short(&self, seconds: f64) -> f64 {
        seconds * (self.step_s / 20.0).min(1.0)
    }

    /// A length that is in proportion to the step, in s.
    pub(super) fn scaled(&self, seconds: f64) -> f64 {
        seconds * self.step_s / 20.0
    }
}

/// Stored answers of another version of the procedure.
pub(super) fn confused() -> Halt {
    Halt::Hopeless(
        "The stored answers do not fit this version of the search: start it again.".to_owned(),
    )
}
