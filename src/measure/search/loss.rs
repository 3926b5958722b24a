//! The search for the highest rate of datagrams that loses at most a given share: a bracket of rates, as the
//! throughput test of RFC 2544, each judged by repeated steps.

use serde::{Deserialize, Serialize};

use super::bracket::{self, Bracket, Course, Said, Trials};
use super::replay::{Halt, Replay, Went, confused};
use super::result::{Label, LimitedBy, Trial, Verdict};
use super::{Action, Blast, Came, Purpose};
use crate::measure::units;

/// The share of the rate asked for that must really be sent, or the step says nothing about the network.
const SENT: f64 = 0.97;
/// The time for all of it, unless another is asked for, in s.
const BUDGET_S: f64 = 600.0;

/// What a search for a rate of datagrams is asked to do beside the common settings, whose rates are bits per second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LossSettings {
    /// The share that may be lost.
    pub share: f64,
}

/// Datagrams at a rate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LossFigures {
    /// Bits per second really sent; `None` where nothing was.
    pub sent_bits_per_second: Option<f64>,
    /// Bits per second received.
    pub received_bits_per_second: Option<f64>,
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams that did not arrive; `None` where the receiver did not say.
    pub lost: Option<u64>,
    /// Those of them that arrived and were dropped by the receiver's system.
    pub dropped_by_receiver: Option<u64>,
    /// The run that carried it out.
    pub run: Option<i64>,
}

impl LossFigures {
    /// Lost over sent; `None` where that is not known.
    pub fn share(&self) -> Option<f64> {
        let lost = self.lost.filter(|_| self.sent > 0)?;
        Some(lost as f64 / self.sent as f64)
    }
}

/// The whole search, from its start.
pub(super) fn search(replay: &mut Replay<'_>, settings: LossSettings) -> Went<()> {
    let budget_s = replay.settings.budget_s.unwrap_or(BUDGET_S);
    replay.finding.capacity.budget_s = Some(budget_s);
    replay.finding.capacity.loss_share = Some(settings.share);
    let mut search = Datagrams {
        goal: settings.share,
        budget_s,
        replay,
    };
    search.go()
}

struct Datagrams<'r, 'a> {
    replay: &'r mut Replay<'a>,
    goal: f64,
    budget_s: f64,
}

impl Datagrams<'_, '_> {
    fn go(&mut self) -> Went<()> {
        let settings = self.replay.settings;
        let full = self.blast(Purpose::Ceiling, settings.max_rate_per_s)?;
        let (Some(sent), Some(received)) = (
            full.sent_bits_per_second,
            full.received_bits_per_second.filter(|rate| *rate > 0.0),
        ) else {
            return Err(Halt::Hopeless(
                "No datagram arrived at full rate: try one run first.".to_owned(),
            ));
        };
        if full.lost.is_none() {
            return Err(Halt::Hopeless(
                "The receiver did not say how many datagrams arrived, so no loss can be told."
                    .to_owned(),
            ));
        }
        let asked = settings.max_rate_per_s.filter(|rate| sent >= SENT * rate);
        let (cap, cap_by) = asked.map_or((sent, LimitedBy::Generator), |rate| {
            (rate, LimitedBy::MaxRate)
        });
        // What arrives of all that can be sent is what the network carries, but only where something was lost.
        self.replay.finding.capacity.ceiling_per_s =
            (full.share() > Some(self.goal)).then_some(received);
        let course = Course {
            purpose: Purpose::Search,
            start: if full.share() <= Some(self.goal) {
                cap
            } else {
                0.95 * received
            },
            down: &[0.85, 0.8, 0.7, 0.6],
            up: &[1.1, 1.2, 1.3],
            width: settings.width,
            cap,
            cap_by: Some(cap_by),
            stop_when_split: true,
            share: 0.8,
        };
        let bracket = bracket::hunt(self, course, Bracket::default())?;
        self.note(bracket);
        let course = Course {
            share: 1.0,
            ..course
        };
        let bracket = bracket::confirm(self, course, bracket)?;
        self.note(bracket);
        Ok(())
    }

    fn note(&mut self, bracket: Bracket) {
        let by_generator = bracket.limited_by == Some(LimitedBy::Generator);
        let capacity = &mut self.replay.finding.capacity;
        capacity.lower_per_s = bracket.lower;
        capacity.upper_per_s = bracket.upper.filter(|_| !by_generator);
        capacity.limited_by = bracket.limited_by;
        capacity.resource =
            by_generator.then(|| "it cannot send more datagrams than that".to_owned());
        if bracket.noisy {
            capacity.label(Label::Noisy);
        }
    }

    fn blast(&mut self, purpose: Purpose, rate: Option<f64>) -> Went<LossFigures> {
        let action = Action::Blast(Blast {
            purpose,
            bits_per_second: rate,
            seconds: self.replay.step_s,
        });
        match self.replay.ask(action)? {
            Came::Blast(figures) => Ok(figures),
            _ => Err(confused()),
        }
    }

    /// The verdict on a step, whether it alone decides, and the reason.
    fn judge(&self, rate: f64, figures: &LossFigures) -> (Said, String) {
        let said = |verdict, clear| Said { verdict, clear };
        let sent = figures.sent_bits_per_second.unwrap_or(0.0);
        let (Some(share), Some(lost)) = (figures.share(), figures.lost) else {
            return (
                said(Verdict::Invalid, false),
                "Nothing is known of what arrived.".to_owned(),
            );
        };
        if sent < SENT * rate {
            let sentence = format!(
                "This machine, not the network, was the limit: it sent {} of {}.",
                units::bits_per_second_text(sent),
                units::bits_per_second_text(rate)
            );
            return (said(Verdict::Invalid, false), sentence);
        }
        let allowed = units::share_text(self.goal);
        let dropped = figures
            .dropped_by_receiver
            .filter(|count| *count > 0)
            .map_or_else(String::new, |count| {
                format!(", {count} of them in the receiver's own system")
            });
        let text = format!(
            "{lost} of {} datagrams lost ({}){dropped}; {allowed} may be.",
            figures.sent,
            units::share_text(share)
        );
        if share > self.goal {
            return (
                said(Verdict::Fail, share > 2.0 * self.goal && lost >= 10),
                text,
            );
        }
        (
            said(Verdict::Pass, self.goal > 0.0 && share <= 0.5 * self.goal),
            text,
        )
    }
}

impl Trials for Datagrams<'_, '_> {
    fn fits(&self, _rate: f64, share: f64) -> bool {
        let cost = self.replay.step_s + self.replay.short(1.5);
        self.replay.now_s + cost <= self.budget_s * share
    }

    fn step(&mut self, purpose: Purpose, rate: f64) -> Went<Said> {
        let figures = self.blast(purpose, Some(rate))?;
        let (said, reason) = self.judge(rate, &figures);
        self.replay.finding.capacity.steps.push(Trial {
            requests: figures.sent,
            failed: figures.lost.unwrap_or(0),
            answered_per_s: figures.received_bits_per_second,
            loss_share: figures.share(),
            run: figures.run,
            ..Trial::bare(purpose, rate, said.verdict, reason)
        });
        let rest = self.replay.short(1.0);
        self.replay.pause(rest)?;
        Ok(said)
    }
}
