//! What the ids and send times of a UDP flow say: lost, late, twice, jitter. Pure.

use std::time::Duration;

use crate::measure::flow::UdpTick;

/// Ids below the highest whose arrival is remembered one by one.
const WINDOW: u64 = 16_384;

/// The account of one flow's datagrams.
#[derive(Clone, Debug)]
pub(super) struct Sequence {
    /// First id that the sender uses.
    base: u64,
    /// Highest id that came.
    highest: Option<u64>,
    /// One bit for each of the last ids, at `id % WINDOW`.
    seen: Vec<u64>,
    /// Datagrams, duplicates not counted.
    pub(super) received: u64,
    pub(super) out_of_order: u64,
    pub(super) duplicated: u64,
    /// Dropped by this machine's socket buffer.
    pub(super) dropped: u64,
    transit_micros: Option<i64>,
    jitter_micros: f64,
    /// Whether the kernel may stamp several datagrams as one.
    joined: bool,
}

impl Sequence {
    /// An empty account of a flow whose first id is `base`.
    pub(super) fn new(base: u64) -> Self {
        Self {
            base,
            highest: None,
            seen: vec![0; usize::try_from(WINDOW / 64).unwrap_or(0)],
            received: 0,
            out_of_order: 0,
            duplicated: 0,
            dropped: 0,
            transit_micros: None,
            jitter_micros: 0.0,
            joined: false,
        }
    }

    /// The same for datagrams that may come joined: their stamps say nothing of each.
    pub(super) const fn joined(mut self, joined: bool) -> Self {
        self.joined = joined;
        self
    }

    /// Takes a datagram's id; `false` if it had come before.
    pub(super) fn arrive(&mut self, id: u64) -> bool {
        self.base = self.base.min(id);
        let Some(highest) = self.highest else {
            self.highest = Some(id);
            self.mark(id);
            self.received += 1;
            return true;
        };
        if id > highest {
            // Bits of ids that are passed over belong to ids of a window ago.
            let passed = (id - highest - 1).min(WINDOW);
            for gone in id - passed..id {
                self.clear(gone);
            }
            self.highest = Some(id);
            self.mark(id);
            self.received += 1;
            return true;
        }
        // What is older than the window cannot be told from a duplicate; datagrams that late are rarer.
        if highest - id < WINDOW && self.is_marked(id) {
            self.duplicated += 1;
            return false;
        }
        if highest - id < WINDOW {
            self.mark(id);
        }
        self.received += 1;
        self.out_of_order += 1;
        true
    }

    /// Takes the time that a datagram was under way, by two clocks whose offset cancels out:
    /// J += (|D| − J) / 16 with D the difference to the datagram before (RFC 1889, A.8). The first one gives none.
    pub(super) fn transit(&mut self, micros: i64) {
        if let Some(before) = self.transit_micros {
            let difference = micros.abs_diff(before) as f64;
            self.jitter_micros += (difference - self.jitter_micros) / 16.0;
        }
        self.transit_micros = Some(micros);
    }

    /// Highest id so far.
    pub(super) const fn highest(&self) -> Option<u64> {
        self.highest
    }

    /// Datagrams that the sender sent, as far as is known.
    pub(super) fn expected(&self) -> u64 {
        self.highest.map_or(0, |highest| highest - self.base + 1)
    }

    /// Datagrams that are missing.
    pub(super) fn lost(&self) -> u64 {
        self.expected().saturating_sub(self.received)
    }

    /// Smoothed variation of the transit time; `None` before the second datagram, and where they come joined.
    pub(super) fn jitter(&self) -> Option<Duration> {
        (self.received > 1 && !self.joined)
            .then(|| Duration::from_secs_f64(self.jitter_micros / 1e6))
    }

    /// Counts so far, for differences between two instants.
    pub(super) fn counts(&self) -> UdpTick {
        UdpTick {
            received: self.received,
            lost: i64::try_from(self.lost()).unwrap_or(i64::MAX),
            out_of_order: self.out_of_order,
            duplicated: self.duplicated,
            dropped_by_receiver: self.dropped,
            jitter: self.jitter(),
        }
    }

    fn place(id: u64) -> (usize, u64) {
        let place = id % WINDOW;
        (usize::try_from(place / 64).unwrap_or(0), 1 << (place % 64))
    }

    fn mark(&mut self, id: u64) {
        let (word, bit) = Self::place(id);
        self.seen[word] |= bit;
    }

    fn clear(&mut self, id: u64) {
        let (word, bit) = Self::place(id);
        self.seen[word] &= !bit;
    }

    fn is_marked(&self, id: u64) -> bool {
        let (word, bit) = Self::place(id);
        self.seen[word] & bit != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(ids: &[u64]) -> (u64, u64, u64, u64) {
        let mut sequence = Sequence::new(1);
        for id in ids {
            sequence.arrive(*id);
        }
        (
            sequence.received,
            sequence.lost(),
            sequence.out_of_order,
            sequence.duplicated,
        )
    }

    #[test]
    fn lost_late_and_repeated_datagrams_are_told_apart() {
        // ids; received, lost, out of order, twice
        for (ids, expected) in [
            (&[][..], (0, 0, 0, 0)),
            (&[1, 2, 3], (3, 0, 0, 0)),
            (&[1, 3], (2, 1, 0, 0)),
            (&[3], (1, 2, 0, 0)),
            (&[1, 3, 2], (3, 0, 1, 0)),
            (&[1, 2, 2, 4], (3, 1, 0, 1)),
            (&[1, 5, 5, 2, 2], (3, 2, 1, 2)),
            (&[1, 40_000, 23_616, 40_000, 1], (4, 39_996, 2, 1)),
        ] {
            assert_eq!(after(ids), expected, "{ids:?}");
        }
    }

    #[test]
    fn any_order_of_arrival_gives_the_same_loss() {
        let mut ids: Vec<u64> = (1..=2_000).filter(|id| id % 7 != 0).collect();
        for turn in 0..50 {
            let length = ids.len() - 1;
            ids[..length].rotate_left(turn * 13 + 1);
            let (received, lost, _, twice) = after(&ids);
            assert_eq!((received, lost, twice), (2_000 - 285, 285, 0));
        }
    }

    #[test]
    fn jitter_ignores_the_offset_of_the_clocks_and_the_first_datagram() {
        let jitter = |offset: i64| {
            let mut sequence = Sequence::new(1);
            for (id, transit) in [(1, 100), (2, 116), (3, 100)] {
                sequence.arrive(id);
                sequence.transit(transit + offset);
            }
            sequence.jitter()
        };
        // 16/16 = 1, then 1 + (16 − 1)/16 = 1.9375 µs.
        assert_eq!(jitter(0), Some(Duration::from_nanos(1_938)));
        assert_eq!(jitter(1_000_000_000_000_000), jitter(0));
        assert_eq!(jitter(-5_000_000_000), jitter(0));
    }

    #[test]
    fn a_clock_that_is_set_in_the_middle_of_a_test_is_forgotten_by_its_end() {
        let jitter = |step: i64| {
            let mut sequence = Sequence::new(1);
            for id in 1..=1_000 {
                sequence.arrive(id);
                let offset = if id > 300 { step } else { 0 };
                sequence.transit(if id % 2 == 0 { 116 } else { 100 } + offset);
            }
            sequence.jitter().unwrap()
        };
        let steady = jitter(0);
        for step in [3_600_000_000, -3_600_000_000] {
            assert!(jitter(step).abs_diff(steady) < Duration::from_nanos(10));
        }
    }
}
