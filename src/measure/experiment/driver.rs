//! What decides run by run: given the last run, the next one. Every kind of experiment is a driver, so that one that
//! looks at results before it goes on (a search) is driven by the same loop as a list that is known beforehand.

use std::time::Duration;

use serde_json::{Map, Value};

use super::design::Spec;
use super::watch::Watch;
use crate::measure::plan::Plan;
use crate::measure::run::Run;
use crate::measure::search::Seen;

/// One run that a driver asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// What runs.
    pub plan: Plan,
    /// What tells it from others: `{"rate": 7}`.
    pub point: Map<String, Value>,
    /// Which repeat of that point, from 1. No two steps of an experiment have the same point and repeat: after a
    /// restart stored runs are found by them.
    pub repeat: u32,
    /// What ends its sending early.
    pub watch: Option<Watch>,
}

/// What a stored run of an experiment is found by: its point as JSON text, and its repeat.
pub type Key = (String, u32);

impl Step {
    /// What its run is found by.
    pub fn key(&self) -> Key {
        (Value::Object(self.point.clone()).to_string(), self.repeat)
    }
}

/// What is to be done next.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// A run; the driver gets it back once it has ended.
    Run(Box<Step>),
    /// Nothing for a while.
    Pause(Duration),
    /// Nothing more.
    Done,
}

/// Decides what runs next. It is fed with the stored runs again after a restart, so from the same runs it must come to
/// the same steps: no clock, no chance that is not seeded.
pub trait Driver: Send {
    /// What to do next. `last` is the run that the step before asked for, ended in whatever state; `None` at the
    /// beginning, after a pause, and where that run was deleted.
    fn next(&mut self, last: Option<&Run>) -> Next;

    /// Whether it must see each request of a run before it can decide.
    fn wants_requests(&self) -> bool {
        false
    }

    /// The requests of the run that `next` is given right after this.
    fn requests(&mut self, _: Vec<Seen>) {}

    /// How many runs there will be in all; `None` where results decide.
    fn planned(&self) -> Option<usize> {
        None
    }

    /// What it has found so far, as the API shows it under `capacity`; `None` where it searches for nothing.
    fn found(&self) -> Option<Value> {
        None
    }
}

/// A list of runs that is known beforehand.
pub(super) struct Planned {
    spec: Spec,
    /// How many were asked for.
    asked: usize,
    paused: bool,
}

impl Planned {
    pub(super) const fn new(spec: Spec) -> Self {
        Self {
            spec,
            asked: 0,
            paused: true,
        }
    }
}

impl Driver for Planned {
    fn next(&mut self, _: Option<&Run>) -> Next {
        let Some((arm, repeat)) = self.spec.place(self.asked) else {
            return Next::Done;
        };
        if !self.paused && self.spec.pause_s() > 0.0 {
            self.paused = true;
            return Next::Pause(Duration::from_secs_f64(self.spec.pause_s()));
        }
        self.asked += 1;
        self.paused = false;
        let arm = &self.spec.arms()[arm];
        Next::Run(Box::new(Step {
            plan: arm.plan.clone(),
            point: arm.point.clone(),
            repeat,
            watch: None,
        }))
    }

    fn planned(&self) -> Option<usize> {
        Some(self.spec.runs())
    }
}
