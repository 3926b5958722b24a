//! Closed loop: users who each wait for their reply before they ask again.

use std::time::Duration;

use crate::measure::plan::UsersPlan;
use crate::measure::schedule::{ThinkTimes, UrlChoice};
use crate::runner::load::Due;

/// Users whom one thread serves well.
const PER_THREAD: u32 = 1_000;
/// Users begin one after another, evenly, so that they do not connect in one burst: at most this far apart …
const SPACING: Duration = Duration::from_millis(1);
/// … and all of them within this.
const ALL_WITHIN: Duration = Duration::from_millis(100);

/// One thread's share of a closed-loop plan.
#[derive(Debug)]
pub(super) struct UsersLoad {
    plan: Box<UsersPlan>,
    /// The next user to begin.
    user: u32,
    stride: u32,
    spacing: Duration,
    until: Option<Duration>,
}

impl UsersLoad {
    pub(super) fn new(plan: &UsersPlan, index: usize, of: usize) -> Self {
        Self {
            user: u32::try_from(index).unwrap_or(u32::MAX),
            stride: u32::try_from(of).unwrap_or(u32::MAX),
            spacing: spacing(plan),
            until: plan
                .duration_s
                .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
            plan: Box::new(plan.clone()),
        }
    }

    pub(super) fn next_due(&self) -> Option<Duration> {
        (!self.is_over()).then(|| self.spacing * self.user)
    }

    pub(super) fn take(&mut self, now: Duration) -> Option<Due> {
        let at = self.next_due().filter(|at| *at <= now)?;
        let user = self.user;
        self.user += self.stride;
        Some(Due {
            at,
            number: u64::from(user),
            calls: self.plan.reps.unwrap_or(u64::MAX),
            pauses: (self.plan.delay_s > 0.0).then(|| ThinkTimes::new(&self.plan, user)),
            choice: (self.plan.urls.len() > 1).then(|| UrlChoice::for_user(&self.plan, user)),
        })
    }

    pub(super) fn is_over(&self) -> bool {
        self.user >= self.plan.concurrent
    }

    pub(super) fn give_up(&mut self) -> u64 {
        let mut users = 0;
        while !self.is_over() {
            self.user += self.stride;
            users += 1;
        }
        users * self.plan.reps.unwrap_or(0)
    }

    pub(super) const fn until(&self) -> Option<Duration> {
        self.until
    }

    pub(super) fn users(&self) -> u64 {
        u64::from(self.plan.concurrent)
    }
}

/// Between the beginnings of two users.
fn spacing(plan: &UsersPlan) -> Duration {
    let users = plan.concurrent.max(1);
    match plan.ramp_s {
        Some(seconds) => Duration::try_from_secs_f64(seconds).unwrap_or_default() / users,
        None => SPACING.min(ALL_WITHIN / users),
    }
}

/// Threads that a plan has work for.
pub(super) const fn threads(plan: &UsersPlan) -> usize {
    plan.concurrent.div_ceil(PER_THREAD) as usize
}
