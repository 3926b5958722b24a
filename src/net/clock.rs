//! The only clock: steady time for measuring, wall time for labels.

use std::time::{Duration, Instant};

/// The steady clock.
pub fn now() -> Instant {
    Instant::now()
}

/// The wall clock; a label only, since it may step.
pub fn wall() -> jiff::Timestamp {
    jiff::Timestamp::now()
}

/// The start of a run: instants of samples count from here.
#[derive(Clone, Copy, Debug)]
pub struct Epoch {
    start: Instant,
    wall: jiff::Timestamp,
}

impl Epoch {
    /// An epoch that begins after `lead`, so that every thread can be ready for it.
    pub fn after(lead: Duration) -> Self {
        let wall = wall();
        Self {
            start: now() + lead,
            wall: wall
                .saturating_add(jiff::SignedDuration::try_from(lead).unwrap_or_default())
                .unwrap_or(wall),
        }
    }

    /// Time since the start; zero before it.
    pub fn elapsed(&self) -> Duration {
        Instant::now().saturating_duration_since(self.start)
    }

    /// The start itself.
    pub const fn start(&self) -> Instant {
        self.start
    }

    /// The instant counted from the start; zero before it.
    pub fn since(&self, instant: Instant) -> Duration {
        instant.saturating_duration_since(self.start)
    }

    /// How long before the start the instant lies; zero after it.
    pub fn before(&self, instant: Instant) -> Duration {
        self.start.saturating_duration_since(instant)
    }

    /// Time that is still to pass until the start.
    pub fn lead(&self) -> Duration {
        self.start.saturating_duration_since(Instant::now())
    }

    /// Sleeps until the start.
    pub fn wait(&self) {
        std::thread::sleep(self.lead());
    }

    /// How far the wall clock has stepped against the steady one since the start, in seconds (signed).
    pub fn wall_step_s(&self) -> f64 {
        let now = Instant::now();
        let steady = now.saturating_duration_since(self.start).as_secs_f64()
            - self.start.saturating_duration_since(now).as_secs_f64();
        wall().duration_since(self.wall).as_secs_f64() - steady
    }
}
