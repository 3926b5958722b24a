//! Which size to try next, and what the answers come to: the largest packet that gets through, exact to the byte.

use std::collections::BTreeMap;

/// What came of a size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Outcome {
    /// It got through and was answered, after so many ms.
    Answered {
        /// The round trip in ms.
        rtt_ms: f64,
    },
    /// This machine or a router said that it is too big.
    TooBig {
        /// And what would fit, in bytes.
        named: Option<u32>,
    },
    /// Nothing came, however often it was tried.
    NoAnswer,
}

impl Outcome {
    const fn is_answer(self) -> bool {
        matches!(self, Self::Answered { .. })
    }
}

/// What the search has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Not even the smallest packet was answered.
    Nothing,
    /// The largest packet that gets through.
    Mtu {
        /// Its size in bytes.
        bytes: u32,
        /// Larger ones vanish, and nobody says so.
        black_hole: bool,
    },
    /// Sizes up to this one were answered, and then nothing any more, not even they.
    Vanished(u32),
}

/// How often a boundary is crossed again that only silence marks: an answered size may have been lost by chance.
const CONFIRMATIONS: u32 = 2;
/// How often a search may begin anew above a size that was answered after all.
const SURPRISES: u32 = 8;

/// The search between a size that any path must carry and the largest that leaves this machine.
#[derive(Clone, Debug)]
pub(super) struct Search {
    least: u32,
    most: u32,
    /// Likely sizes, best first.
    guesses: Vec<u32>,
    tried: BTreeMap<u32, Outcome>,
    confirmed: u32,
    surprises: u32,
    /// What of the boundary is asked again.
    asks: Asks,
    vanished: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asks {
    /// The larger size, which was silent.
    Failed,
    /// The smaller one, which was answered.
    Answered,
    /// The smallest of all, since now the answered one is silent too.
    Least,
}

impl Search {
    /// Sizes in bytes of whole IP packets; `guesses` are tried before the middle is.
    pub(super) fn new(least: u32, most: u32, guesses: &[u32]) -> Self {
        Self {
            least: least.min(most),
            most,
            guesses: guesses.to_vec(),
            tried: BTreeMap::new(),
            confirmed: 0,
            surprises: 0,
            asks: Asks::Answered,
            vanished: false,
        }
    }

    /// The size to try next; `None` when all is known.
    pub(super) fn next(&self) -> Option<u32> {
        if self.vanished {
            return None;
        }
        let Some(answered) = self.answered() else {
            return (!self.tried.contains_key(&self.least)).then_some(self.least);
        };
        if answered >= self.most {
            return None;
        }
        let Some(failed) = self.failed() else {
            return Some(self.most);
        };
        if failed > answered + 1 {
            return Some(self.between(answered, failed));
        }
        let is_certain = !matches!(self.tried.get(&failed), Some(Outcome::NoAnswer))
            || self.is_named(answered)
            || self.confirmed >= CONFIRMATIONS
            || self.surprises >= SURPRISES;
        (!is_certain).then_some(match self.asks {
            Asks::Failed => failed,
            Asks::Answered => answered,
            Asks::Least => self.least,
        })
    }

    /// Takes in what came of a size, also of one that was not asked for any more.
    pub(super) fn learn(&mut self, size: u32, outcome: Outcome) {
        let boundary = self.answered().zip(self.failed());
        if let Some((answered, failed)) = boundary
            && failed == answered + 1
            && self.confirm((answered, failed), size, outcome)
        {
            return;
        }
        if let Outcome::TooBig { named: Some(named) } = outcome
            && named >= self.least
            && named < size
        {
            self.guesses.retain(|guess| *guess != named);
            self.guesses.insert(0, named);
        }
        if outcome.is_answer() {
            // What was silent although a larger one gets through was lost by chance.
            let lost: Vec<u32> = self
                .tried
                .range(..=size)
                .filter(|(_, outcome)| !outcome.is_answer())
                .map(|(size, _)| *size)
                .collect();
            self.surprises += u32::from(!lost.is_empty());
            for size in lost {
                self.tried.remove(&size);
            }
            self.confirmed = 0;
            self.asks = Asks::Answered;
        } else if self.answered().is_some_and(|answered| size <= answered) {
            return;
        }
        self.tried.insert(size, outcome);
    }

    /// Takes in an answer, or silence, at the boundary; false when it is something else.
    fn confirm(&mut self, (answered, failed): (u32, u32), size: u32, outcome: Outcome) -> bool {
        let is_answer = outcome.is_answer();
        match self.asks {
            Asks::Failed if size == failed && outcome == Outcome::NoAnswer => {
                self.confirmed += 1;
                self.asks = Asks::Answered;
            }
            Asks::Answered if size == answered => {
                self.asks = if is_answer { Asks::Failed } else { Asks::Least };
            }
            Asks::Least if size == self.least => {
                self.vanished = !is_answer;
                self.asks = Asks::Answered;
                if answered != self.least {
                    // One of the two was chance: it is asked anew from further below.
                    self.tried.remove(&answered);
                    self.surprises += 1;
                }
            }
            _ => return false,
        }
        true
    }

    /// What it has come to so far.
    pub(super) fn found(&self) -> Found {
        let Some(bytes) = self.answered() else {
            return Found::Nothing;
        };
        if self.vanished {
            return Found::Vanished(bytes);
        }
        let silent = self
            .failed()
            .is_some_and(|failed| self.tried.get(&failed) == Some(&Outcome::NoAnswer));
        Found::Mtu {
            bytes,
            black_hole: silent && !self.is_named(bytes),
        }
    }

    /// Every size with what came of it, ascending.
    pub(super) fn tried(&self) -> impl Iterator<Item = (u32, Outcome)> {
        self.tried.iter().map(|(size, outcome)| (*size, *outcome))
    }

    /// The largest that was answered.
    fn answered(&self) -> Option<u32> {
        let mut sizes = self.tried.iter().rev();
        sizes
            .find(|(_, outcome)| outcome.is_answer())
            .map(|(size, _)| *size)
    }

    /// The smallest that was not.
    fn failed(&self) -> Option<u32> {
        let mut sizes = self.tried.iter();
        sizes
            .find(|(_, outcome)| !outcome.is_answer())
            .map(|(size, _)| *size)
    }

    fn between(&self, answered: u32, failed: u32) -> u32 {
        for guess in &self.guesses {
            // A guess that fits is the one if a byte more does not fit.
            if *guess == answered {
                return answered + 1;
            }
            if (answered + 1..failed).contains(guess) {
                return *guess;
            }
        }
        u32::midpoint(answered, failed)
    }

    /// Whether someone said that exactly this size would fit.
    fn is_named(&self, size: u32) -> bool {
        let named = Outcome::TooBig { named: Some(size) };
        self.tried.values().any(|outcome| *outcome == named)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_pcg::Pcg32;
    use rand_pcg::rand_core::{Rng, SeedableRng};

    const GUESSES: [u32; 3] = [1_500, 1_460, 8_896];

    /// Searches a path that answers as `path` says; returns what was found and how many sizes were asked for.
    fn search(most: u32, mut path: impl FnMut(u32) -> Outcome) -> (Found, u32) {
        let mut search = Search::new(68, most, &GUESSES);
        let mut asked = 0;
        while let Some(size) = search.next() {
            assert!((68..=most).contains(&size));
            asked += 1;
            assert!(asked < 200, "{search:?}");
            search.learn(size, path(size));
        }
        (search.found(), asked)
    }

    const ANSWERED: Outcome = Outcome::Answered { rtt_ms: 1.0 };

    fn found(bytes: u32, black_hole: bool) -> Found {
        Found::Mtu { bytes, black_hole }
    }

    #[test]
    fn every_mtu_is_found_to_the_byte_whether_named_hidden_or_silent() {
        for most in [1_280, 1_500, 8_896, 65_535] {
            let sizes = (68..100).chain((100..most).step_by(331));
            for mtu in sizes.chain([most - 1, most, 1_460, 1_500]) {
                if mtu > most {
                    continue;
                }
                for (above, black_hole, steps) in [
                    (Outcome::TooBig { named: Some(mtu) }, false, 4),
                    (Outcome::TooBig { named: None }, false, 24),
                    // A router that tells nonsense is not believed.
                    (Outcome::TooBig { named: Some(700) }, false, 26),
                    (Outcome::NoAnswer, true, 28),
                ] {
                    let path = |size| if size <= mtu { ANSWERED } else { above };
                    let (result, asked) = search(most, path);
                    assert_eq!(result, found(mtu, black_hole && mtu < most), "{most} {mtu}");
                    assert!(asked <= steps, "{most} {mtu} {above:?}: {asked}");
                }
            }
        }
    }

    #[test]
    fn silence_everywhere_and_silence_from_then_on_are_no_black_hole() {
        assert_eq!(search(1_500, |_| Outcome::NoAnswer), (Found::Nothing, 1));
        let mut left = 3;
        let (result, _) = search(1_500, |size| {
            if size > 1_460 || left == 0 {
                return Outcome::NoAnswer;
            }
            left -= 1;
            ANSWERED
        });
        assert!(matches!(result, Found::Vanished(_)), "{result:?}");
    }

    #[test]
    fn chance_losses_move_no_boundary() {
        let mut wrong = 0;
        for seed in 0..200 {
            let mut dice = Pcg32::seed_from_u64(seed);
            let (result, _) = search(8_896, |size| {
                // One size in twenty is lost however often it is tried.
                if size > 1_437 || size > 68 && dice.next_u32() < u32::MAX / 20 {
                    Outcome::NoAnswer
                } else {
                    ANSWERED
                }
            });
            wrong += u32::from(result != found(1_437, true));
        }
        assert!(wrong <= 20, "{wrong} of 200");
    }

    #[test]
    fn routers_that_limit_their_reports_are_still_heard() {
        let mut told = false;
        let (result, _) = search(8_896, |size| match size {
            ..=1_460 => ANSWERED,
            _ if std::mem::replace(&mut told, true) => Outcome::NoAnswer,
            _ => Outcome::TooBig { named: Some(1_460) },
        });
        assert_eq!(result, found(1_460, false));
    }

    #[test]
    fn an_answer_that_comes_late_reopens_the_search() {
        let mut search = Search::new(68, 1_500, &[]);
        search.learn(68, ANSWERED);
        search.learn(1_500, Outcome::NoAnswer);
        assert_eq!(search.next(), Some(784));
        search.learn(1_500, ANSWERED);
        assert_eq!((search.next(), search.found()), (None, found(1_500, false)));
        let sizes: Vec<u32> = search.tried().map(|(size, _)| size).collect();
        assert_eq!(sizes, [68, 1_500]);
    }
}
