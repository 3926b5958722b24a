//! What ends the sending of a run before its plan does: too many in flight, everything refused, or enough.

use crate::measure::outcome::Outcome;
use crate::measure::sample::Batch;

/// When to begin nothing further.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Watch {
    /// More than this are in flight.
    pub in_flight: Option<u64>,
    /// All that ended in the first so many seconds were refused.
    pub refused_s: Option<f64>,
    /// After so many seconds this many have ended.
    pub enough: Option<(f64, u64)>,
}

/// A watch and what it has seen so far.
#[derive(Clone, Debug)]
pub struct Watching {
    watch: Watch,
    ended: u64,
    refused: u64,
    /// Whether the time of refusals is over.
    past: bool,
}

impl Watching {
    /// Nothing seen yet.
    pub const fn new(watch: Watch) -> Self {
        Self {
            watch,
            ended: 0,
            refused: 0,
            past: false,
        }
    }

    /// Takes a batch in; whether to begin nothing further.
    pub fn push(&mut self, batch: &Batch) -> bool {
        let refused = |outcome: Outcome| outcome == Outcome::ConnectRefused;
        let counted = batch.requests.iter().filter(|one| refused(one.outcome));
        self.ended += batch.requests.len() as u64;
        self.refused += counted.count() as u64;
        let until_s = batch.until.as_secs_f64();
        let crowded = self
            .watch
            .in_flight
            .is_some_and(|limit| u64::from(batch.in_flight) > limit);
        let mut all_refused = false;
        if !self.past
            && self
                .watch
                .refused_s
                .is_some_and(|seconds| until_s >= seconds)
        {
            self.past = true;
            all_refused = self.ended > 0 && self.refused == self.ended;
        }
        let enough = self
            .watch
            .enough
            .is_some_and(|(seconds, least)| until_s >= seconds && self.ended >= least);
        crowded || all_refused || enough
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::measure::sample::RequestSample;

    fn batch(until_ms: u64, in_flight: u32, outcomes: &[Outcome]) -> Batch {
        let request = |outcome: &Outcome| RequestSample {
            seq: 0,
            url: 0,
            scheduled: Duration::ZERO,
            started: None,
            connect: None,
            tls: None,
            wrote: None,
            first_byte: None,
            ended: Duration::from_millis(until_ms),
            status: None,
            header_bytes: 0,
            content_bytes: 0,
            footer_bytes: 0,
            sent_bytes: 0,
            outcome: *outcome,
            retried_stale: false,
            served_by: None,
            region: None,
            server_timing: None,
            detail: None,
        };
        Batch {
            until: Duration::from_millis(until_ms),
            requests: outcomes.iter().map(request).collect(),
            in_flight,
            ..Batch::default()
        }
    }

    #[test]
    fn a_crowd_ends_the_sending() {
        let mut watching = Watching::new(Watch {
            in_flight: Some(50),
            ..Watch::default()
        });
        assert!(!watching.push(&batch(250, 50, &[])));
        assert!(watching.push(&batch(500, 51, &[])));
    }

    #[test]
    fn refusals_count_once_their_time_is_over_and_only_when_they_are_all() {
        let watch = Watch {
            refused_s: Some(3.0),
            ..Watch::default()
        };
        let refused = [Outcome::ConnectRefused; 3];
        let mut all = Watching::new(watch);
        assert!(!all.push(&batch(2_900, 0, &refused)));
        assert!(all.push(&batch(3_100, 0, &refused)));
        let mut mixed = Watching::new(watch);
        assert!(!mixed.push(&batch(2_900, 0, &[Outcome::Ok])));
        assert!(!mixed.push(&batch(3_100, 0, &refused)));
        assert!(!mixed.push(&batch(3_300, 0, &refused)));
    }

    #[test]
    fn enough_needs_time_and_number() {
        let mut watching = Watching::new(Watch {
            enough: Some((3.0, 2)),
            ..Watch::default()
        });
        assert!(!watching.push(&batch(1_000, 0, &[Outcome::Ok; 5])));
        assert!(watching.push(&batch(3_000, 0, &[])));
        let mut slow = Watching::new(Watch {
            enough: Some((3.0, 2)),
            ..Watch::default()
        });
        assert!(!slow.push(&batch(4_000, 1, &[Outcome::Ok])));
        assert!(slow.push(&batch(9_000, 1, &[Outcome::Ok])));
    }
}
