//! Round trips by an absolute schedule: which probes are due, which are on their way, and what came of each.
//!
//! A probe whose answer does not come within the timeout is lost, also if the answer comes afterwards: that is noted
//! and changes no figure. ping itself (iputils) counts such an answer as received as long as it still runs.

mod icmp;
mod tcp;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::time::{Duration, Instant};

use crate::net::clock;
use crate::net::connect::describe;
use crate::wire::icmp::Trouble;
pub(super) use icmp::{IcmpEchoes, LARGEST};
pub(super) use tcp::Connects;

/// How long after its timeout an answer is still recognised as one that came late.
const REMEMBERED: Duration = Duration::from_mins(1);
/// Most different sentences that are kept.
const MOST_SENTENCES: usize = 8;

/// What sends probes and hears answers; probes are told apart by the lower 16 bits of their numbers.
pub(super) trait Transport {
    /// Sends a probe.
    fn send(&mut self, seq: u16) -> io::Result<()>;
    /// Waits until something may have come, at most so long.
    fn wait(&self, most: Duration) -> io::Result<()>;
    /// Everything that has come.
    fn hear(&mut self, heard: &mut Vec<Heard>) -> io::Result<()>;
    /// Whether a program at the other end may have noticed a probe.
    fn is_seen(&self) -> bool {
        false
    }
    /// Nothing is expected any more for this probe.
    fn give_up(&mut self, seq: u16);
}

/// Something that came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// An answer.
    Answer {
        /// To which probe.
        seq: u16,
        /// When it came.
        at: Instant,
        /// How long the kernel says that it took, where it measured that itself.
        took: Option<Duration>,
        /// Its time to live.
        ttl: Option<u8>,
    },
    /// Someone reports that a probe did not get through.
    Trouble {
        /// Which.
        seq: u16,
        /// What a report says; `None` for what the system says.
        trouble: Option<Trouble>,
        /// Who reports what, without a full stop.
        sentence: String,
    },
}

/// What came of one probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Round {
    /// Number from 1.
    pub(super) number: u32,
    /// When it was sent.
    pub(super) sent: Instant,
    /// How long the answer took; `None` = lost.
    pub(super) rtt: Option<Duration>,
    /// Time to live of the answer.
    pub(super) ttl: Option<u8>,
    /// Further answers so far.
    pub(super) duplicates: u32,
}

/// When probes are sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timetable {
    /// The first.
    pub(super) first: Instant,
    /// From one to the next.
    pub(super) interval: Duration,
    /// How many; without an end, those that are missed are left out instead of being sent late.
    pub(super) count: Option<u32>,
    /// How long an answer is waited for.
    pub(super) timeout: Duration,
}

/// Sends probes and keeps account of them.
pub(super) struct Prober {
    transport: Box<dyn Transport + Send>,
    times: Timetable,
    /// The slot of the timetable that is next.
    slot: u32,
    /// Probes sent.
    sent: u32,
    /// Probes answered in time.
    answered: u32,
    /// The last ones sent, without a gap; the number of the first of them is `sent - entries.len() + 1`.
    entries: VecDeque<Entry>,
    /// How many at the end of `entries` may still wait for an answer; the rest are settled.
    open: usize,
    /// Numbers that were settled and not taken yet.
    fresh: Vec<u32>,
    heard: Vec<Heard>,
    late: u32,
    late_duplicates: u64,
    sentences: BTreeMap<String, u32>,
}

struct Entry {
    sent: Instant,
    state: State,
    rtt: Option<Duration>,
    ttl: Option<u8>,
    duplicates: u32,
    taken: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    Answered,
    Lost,
    /// Lost, and its answer came afterwards.
    Late,
}

impl Prober {
    pub(super) fn new(transport: Box<dyn Transport + Send>, times: Timetable) -> Self {
        Self {
            transport,
            times,
            slot: 0,
            sent: 0,
            answered: 0,
            entries: VecDeque::new(),
            open: 0,
            fresh: Vec::new(),
            heard: Vec::new(),
            late: 0,
            late_duplicates: 0,
            sentences: BTreeMap::new(),
        }
    }

    /// Sends what is due and hears what comes, until something came, something is due, or `until`.
    pub(super) fn turn(&mut self, until: Instant) -> io::Result<()> {
        self.send_due();
        let deadline = self
            .entries
            .get(self.entries.len() - self.open)
            .map(|first| first.sent + self.times.timeout);
        let wake = [self.due(), deadline]
            .into_iter()
            .flatten()
            .fold(until, Instant::min);
        self.transport
            .wait(wake.saturating_duration_since(clock::now()))?;
        // Read before listening: what is there by then is heard, however long this thread was held up.
        let now = clock::now();
        self.hear()?;
        self.expire(now);
        Ok(())
    }

    /// Whether every probe was sent and has its result.
    pub(super) fn is_done(&self) -> bool {
        self.due().is_none() && self.waiting() == 0
    }

    /// Probes sent, and how many of them were answered in time.
    pub(super) fn counts(&self) -> (u32, u32) {
        (self.sent, self.answered)
    }

    /// Whether a program at the other end may have noticed a probe.
    pub(super) fn is_seen(&self) -> bool {
        self.transport.is_seen()
    }

    /// Probes that are still on their way.
    pub(super) fn waiting(&self) -> usize {
        let open = self.entries.iter().rev().take(self.open);
        open.filter(|entry| entry.state == State::Waiting).count()
    }

    /// The probes that were settled since the call before, in the order in which that happened.
    pub(super) fn take(&mut self) -> Vec<Round> {
        let fresh = std::mem::take(&mut self.fresh);
        fresh
            .into_iter()
            .filter_map(|number| {
                let place = self.place(number)?;
                let entry = &mut self.entries[place];
                entry.taken = true;
                Some(Round {
                    number,
                    sent: entry.sent,
                    rtt: entry.rtt,
                    ttl: entry.ttl,
                    duplicates: entry.duplicates,
                })
            })
            .collect()
    }

    /// Further answers to probes that were taken before these came.
    pub(super) const fn late_duplicates(&self) -> u64 {
        self.late_duplicates
    }

    /// What was reported, and what came late, in sentences.
    pub(super) fn remarks(&self) -> Vec<String> {
        let mut told: Vec<(&String, u32)> = self
            .sentences
            .iter()
            .map(|(sentence, count)| (sentence, *count))
            .collect();
        told.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let mut remarks: Vec<String> = told
            .into_iter()
            .map(|(sentence, count)| match count {
                1 => format!("{sentence}."),
                _ => format!("{sentence}, {count} times."),
            })
            .collect();
        if self.late > 0 {
            let timeout = self.times.timeout.as_secs_f64();
            let (answers, count) = match self.late {
                1 => ("1 answer".to_owned(), "counts"),
                late => (format!("{late} answers"), "count"),
            };
            remarks.push(format!(
                "{answers} came after the timeout of {timeout} s and {count} as lost; ping would have waited on."
            ));
        }
        remarks
    }

    /// When the next probe is due.
    fn due(&self) -> Option<Instant> {
        let more = self.times.count.is_none_or(|count| self.slot < count);
        let after = self.times.interval.saturating_mul(self.slot);
        self.times.first.checked_add(after).filter(|_| more)
    }

    fn send_due(&mut self) {
        while self.due().is_some_and(|due| due <= clock::now()) {
            if self.times.count.is_none() {
                self.skip_missed();
            }
            self.slot += 1;
            self.sent = self.sent.wrapping_add(1);
            let seq = low(self.sent);
            self.entries.push_back(Entry {
                sent: clock::now(),
                state: State::Waiting,
                rtt: None,
                ttl: None,
                duplicates: 0,
                taken: false,
            });
            self.open += 1;
            if let Err(error) = self.transport.send(seq) {
                self.trouble(
                    seq,
                    format!("This machine did not send ({})", describe(&error)),
                );
            }
        }
        self.forget();
    }

    /// Goes on to the last slot that is due.
    fn skip_missed(&mut self) {
        let interval = self.times.interval.max(Duration::from_millis(1));
        let passed = clock::now().saturating_duration_since(self.times.first);
        let slot = passed.as_nanos() / interval.as_nanos();
        self.slot = self.slot.max(u32::try_from(slot).unwrap_or(u32::MAX - 1));
    }

    fn hear(&mut self) -> io::Result<()> {
        let mut heard = std::mem::take(&mut self.heard);
        let result = self.transport.hear(&mut heard);
        for one in heard.drain(..) {
            match one {
                Heard::Answer { seq, at, took, ttl } => self.answer(seq, at, took, ttl),
                Heard::Trouble { seq, sentence, .. } => self.trouble(seq, sentence),
            }
        }
        self.heard = heard;
        result
    }

    fn answer(&mut self, seq: u16, at: Instant, took: Option<Duration>, ttl: Option<u8>) {
        let timeout = self.times.timeout;
        let Some((number, entry)) = self.latest(seq) else {
            return;
        };
        match entry.state {
            State::Waiting => {
                let measured = at.saturating_duration_since(entry.sent);
                let rtt = took.map_or(measured, |took| took.min(measured));
                if rtt > timeout {
                    entry.state = State::Late;
                    self.late += 1;
                } else {
                    entry.state = State::Answered;
                    entry.rtt = Some(rtt);
                    entry.ttl = ttl;
                    self.answered += 1;
                }
                self.fresh.push(number);
            }
            State::Answered if entry.taken => self.late_duplicates += 1,
            State::Answered => entry.duplicates += 1,
            State::Lost => {
                entry.state = State::Late;
                self.late += 1;
            }
            State::Late => {}
        }
    }

    fn trouble(&mut self, seq: u16, sentence: String) {
        if let Some((number, entry)) = self.latest(seq)
            && entry.state == State::Waiting
        {
            entry.state = State::Lost;
            self.fresh.push(number);
            self.transport.give_up(seq);
        }
        if self.sentences.len() < MOST_SENTENCES || self.sentences.contains_key(&sentence) {
            *self.sentences.entry(sentence).or_insert(0) += 1;
        }
    }

    /// Whoever waits for longer than the timeout is lost.
    fn expire(&mut self, now: Instant) {
        while self.open > 0 {
            let place = self.entries.len() - self.open;
            let number = self.number(place);
            let entry = &mut self.entries[place];
            if entry.state == State::Waiting {
                if now.saturating_duration_since(entry.sent) <= self.times.timeout {
                    return;
                }
                entry.state = State::Lost;
                self.fresh.push(number);
                self.transport.give_up(low(number));
            }
            self.open -= 1;
        }
    }

    /// Forgets probes that nothing more is to come of.
    fn forget(&mut self) {
        let now = clock::now();
        let kept = self.times.timeout + REMEMBERED;
        while self.entries.len() > self.open
            && self.entries.front().is_some_and(|entry| {
                entry.taken && now.saturating_duration_since(entry.sent) > kept
            })
        {
            self.entries.pop_front();
        }
    }

    /// The newest probe with these lower bits in its number.
    fn latest(&mut self, seq: u16) -> Option<(u32, &mut Entry)> {
        let back = u32::from(low(self.sent).wrapping_sub(seq));
        let number = self.sent.checked_sub(back)?;
        let place = self.place(number)?;
        Some((number, &mut self.entries[place]))
    }

    fn place(&self, number: u32) -> Option<usize> {
        let back = usize::try_from(self.sent.checked_sub(number)?).ok()?;
        self.entries.len().checked_sub(back + 1)
    }

    fn number(&self, place: usize) -> u32 {
        let back = self.entries.len() - 1 - place;
        self.sent - u32::try_from(back).unwrap_or(0)
    }
}

fn low(number: u32) -> u16 {
    (number & 0xFFFF) as u16
}

#[cfg(test)]
mod tests;
