//! The search for the highest rate that is sent on schedule: doubling, then halving the gap, each step short.

use serde::{Deserialize, Serialize};

/// Why a search did not look higher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// A higher rate was tried twice and failed twice.
    Generator,
    /// It did not fail at the highest rate that is tried.
    HighestTried,
    /// The time was up.
    Time,
}

/// Which rate to try next; a rate fails when it failed twice, since another program may have had the core once.
#[derive(Clone, Debug)]
pub struct Search {
    least: f64,
    most: f64,
    /// The gap between a rate that passed and one that failed is small enough below this ratio.
    fine: f64,
    next: Option<f64>,
    passed: Option<f64>,
    failed: Option<f64>,
    /// Whether `next` has failed once.
    again: bool,
}

impl Search {
    /// Begins at `start`, stays between `least` and `most`, and ends when bounds are nearer than the ratio `fine`.
    pub fn new(start: f64, least: f64, most: f64, fine: f64) -> Self {
        Self {
            least,
            most,
            fine,
            next: Some(start.clamp(least, most)),
            passed: None,
            failed: None,
            again: false,
        }
    }

    /// The rate to try now; `None` when the search is over.
    pub const fn next(&self) -> Option<f64> {
        self.next
    }

    /// Says what became of [`Search::next`].
    pub fn record(&mut self, passed: bool) {
        let Some(rate) = self.next else {
            return;
        };
        if passed {
            self.passed = Some(rate);
        } else if !self.again {
            self.again = true;
            return;
        } else {
            self.failed = Some(rate);
        }
        self.again = false;
        self.next = match (self.passed, self.failed) {
            (Some(passed), None) => (passed < self.most).then(|| (passed * 2.0).min(self.most)),
            (None, Some(failed)) => (failed > self.least).then(|| (failed / 2.0).max(self.least)),
            (Some(passed), Some(failed)) => {
                let middle = round((passed * failed).sqrt());
                let between = middle > passed && middle < failed;
                (failed / passed > self.fine && between).then_some(middle)
            }
            (None, None) => None,
        };
    }

    /// The highest rate that passed.
    pub const fn highest(&self) -> Option<f64> {
        self.passed
    }

    /// Why it looked no higher, were it to end now.
    pub fn bound(&self) -> Bound {
        match (self.next, self.failed) {
            (Some(_), _) => Bound::Time,
            (None, Some(_)) => Bound::Generator,
            (None, None) => Bound::HighestTried,
        }
    }
}

/// Two digits: more would say more than short steps can know.
fn round(rate: f64) -> f64 {
    let unit = 10_f64.powf(rate.log10().floor() - 1.0);
    (rate / unit).round() * unit
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the search against a generator that holds what `holds` says; returns what it found, and in how many steps.
    fn run(mut holds: impl FnMut(f64) -> bool) -> (Option<f64>, Bound, usize) {
        let mut search = Search::new(1_000.0, 125.0, 64_000.0, 1.15);
        let mut steps = 0;
        while let Some(rate) = search.next() {
            search.record(holds(rate));
            steps += 1;
            assert!(steps < 40, "it does not end");
        }
        (search.highest(), search.bound(), steps)
    }

    #[test]
    fn the_true_strength_is_within_the_last_gap() {
        for truth in [130.0, 180.0, 999.0, 1_000.0, 3_300.0, 11_000.0, 47_000.0] {
            let (found, bound, steps) = run(|rate| rate <= truth);
            let found = found.unwrap();
            assert!(found <= truth && found * 1.16 >= truth, "{truth}: {found}");
            assert_eq!(bound, Bound::Generator);
            assert!(steps <= 16, "{truth}: {steps} steps");
        }
    }

    #[test]
    fn the_ends_are_said_for_what_they_are() {
        assert_eq!(run(|_| false), (None, Bound::Generator, 8));
        let (found, bound, _) = run(|_| true);
        assert_eq!((found, bound), (Some(64_000.0), Bound::HighestTried));
        let mut search = Search::new(1_000.0, 125.0, 64_000.0, 1.15);
        search.record(true);
        assert_eq!(
            (search.highest(), search.bound()),
            (Some(1_000.0), Bound::Time)
        );
    }

    #[test]
    fn one_hiccup_at_a_rate_is_forgiven() {
        let mut tried = std::collections::BTreeMap::new();
        let (found, _, _) = run(|rate| {
            let times = tried.entry(rate.to_bits()).or_insert(0);
            *times += 1;
            rate <= 8_000.0 && *times > 1
        });
        assert_eq!(found, Some(8_000.0));
    }
}
