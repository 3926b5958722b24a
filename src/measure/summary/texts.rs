//! The texts that failures carried, counted in bounded memory.

use std::collections::HashMap;
use std::sync::Arc;

use crate::measure::outcome::Outcome;
use crate::measure::summary::FailureText;

/// How many texts a summary lists.
const LISTED: usize = 20;

/// How many distinct texts are counted at once.
const KEPT: usize = 1000;

/// The longest text that is kept, in characters.
const LONGEST: usize = 120;

/// Counts of failure texts.
///
/// When more than 1000 distinct texts are there, the rarer half is forgotten and counted as not listed:
/// a text that keeps coming stays.
#[derive(Clone, Debug, Default)]
pub struct Texts {
    counts: HashMap<(Outcome, Arc<str>), u64>,
    failures: u64,
}

impl Texts {
    /// Counts one failure and its text, if it has one.
    pub fn push(&mut self, outcome: Outcome, text: Option<&Arc<str>>) {
        self.failures += 1;
        if let Some(text) = text {
            self.add(outcome, text, 1);
        }
    }

    /// Adds all that the other has counted.
    pub fn merge(&mut self, other: &Self) {
        self.failures += other.failures;
        for ((outcome, text), count) in &other.counts {
            self.add(*outcome, text, *count);
        }
    }

    /// The most frequent texts, most frequent first, and how many failures are not among them.
    pub fn listed(&self) -> (Vec<FailureText>, u64) {
        let mut all: Vec<_> = self
            .counts
            .iter()
            .map(|((outcome, text), count)| (*count, *outcome, text))
            .collect();
        all.sort_unstable_by(|a, b| b.0.cmp(&a.0).then_with(|| (a.1, a.2).cmp(&(b.1, b.2))));
        let listed: Vec<_> = all
            .into_iter()
            .take(LISTED)
            .map(|(count, outcome, text)| FailureText {
                outcome: outcome.key().to_owned(),
                text: text.to_string(),
                count,
            })
            .collect();
        let told: u64 = listed.iter().map(|text| text.count).sum();
        (listed, self.failures.saturating_sub(told))
    }

    fn add(&mut self, outcome: Outcome, text: &Arc<str>, count: u64) {
        let text = match text.char_indices().nth(LONGEST) {
            Some((end, _)) => Arc::from(&text[..end]),
            None => Arc::clone(text),
        };
        *self.counts.entry((outcome, text)).or_default() += count;
        if self.counts.len() > KEPT {
            self.forget_the_rarer_half();
        }
    }

    fn forget_the_rarer_half(&mut self) {
        let mut all: Vec<_> = self.counts.drain().collect();
        all.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        all.truncate(KEPT / 2);
        self.counts = all.into_iter().collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundred_thousand_distinct_texts_stay_bounded_and_the_frequent_one_stays() {
        let mut texts = Texts::default();
        let frequent: Arc<str> = Arc::from("connection reset by peer");
        for i in 0..100_000 {
            texts.push(
                Outcome::InvalidReply,
                Some(&Arc::from(format!("garbage {i}"))),
            );
            if i % 10 == 0 {
                texts.push(Outcome::ResetBeforeReply, Some(&frequent));
            }
        }
        assert!(texts.counts.len() <= KEPT);
        let (listed, rest) = texts.listed();
        assert_eq!(listed.len(), 20);
        assert_eq!(listed[0].text, "connection reset by peer");
        assert_eq!(listed[0].count, 10_000);
        assert_eq!(
            listed.iter().map(|text| text.count).sum::<u64>() + rest,
            110_000
        );
    }

    #[test]
    fn a_failure_without_a_text_is_counted_as_not_listed() {
        let mut texts = Texts::default();
        texts.push(Outcome::TtfbTimeout, None);
        assert_eq!(texts.listed(), (Vec::new(), 1));
    }
}
