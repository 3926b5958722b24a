//! What the numbers and stamps of datagrams say of those that are missing, late, doubled, and of their jitter.

use std::time::Duration;

/// Numbers back from the highest within which doubles are told from late ones.
const WINDOW: u64 = 8_192;

/// A UDP receiver's counts since the flow's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArrivalCounts {
    /// Datagrams that came, doubles not counted.
    pub received: u64,
    /// Missing so far: those that came late are not.
    pub lost: u64,
    /// Came after one with a higher number.
    pub out_of_order: u64,
    /// Came twice.
    pub duplicated: u64,
    /// Smoothed variation of the transit time (RFC 1889, A.8); `None` before the second datagram.
    pub jitter: Option<Duration>,
}

/// Follows one flow of numbered datagrams.
#[derive(Clone, Debug)]
pub struct Arrivals {
    /// The number that must come next: everything below has come or is missing.
    next: u64,
    first: u64,
    /// One bit for each number of the window, by number modulo its size.
    seen: Vec<u64>,
    counts: ArrivalCounts,
    transit_micros: Option<i64>,
    jitter_micros: f64,
}

impl Arrivals {
    /// A flow whose first datagram has this number.
    pub fn new(first: u64) -> Self {
        Self {
            next: first,
            first,
            seen: vec![0; usize::try_from(WINDOW / 64).unwrap_or(0)],
            counts: ArrivalCounts::default(),
            transit_micros: None,
            jitter_micros: 0.0,
        }
    }

    /// The highest number seen; `None` before the first.
    pub fn highest(&self) -> Option<u64> {
        (self.counts.received > 0).then(|| self.next.saturating_sub(1))
    }

    /// Datagrams that the sender has sent, as far as the numbers tell.
    pub fn expected(&self) -> u64 {
        self.next - self.first
    }

    /// The counts so far.
    pub fn counts(&self) -> ArrivalCounts {
        self.counts
    }

    /// A datagram came; the stamps are of the sender's clock and of ours, and only differences of theirs matter.
    ///
    /// Returns whether it is new, not a double.
    pub fn take(&mut self, number: u64, sent_micros: i64, arrived_micros: i64) -> bool {
        if number >= self.next {
            self.counts.lost += number - self.next;
            // Bits of numbers that enter the window still belong to those that leave it.
            if number - self.next >= WINDOW {
                self.seen.fill(0);
            } else {
                for missing in self.next..=number {
                    self.mark(missing, false);
                }
            }
            self.mark(number, true);
            self.next = number.saturating_add(1);
        } else if self.next - number <= WINDOW && self.is_marked(number) {
            self.counts.duplicated += 1;
            return false;
        } else {
            self.mark(number, true);
            self.counts.out_of_order += 1;
            self.counts.lost = self.counts.lost.saturating_sub(1);
        }
        self.counts.received += 1;
        self.time(arrived_micros.wrapping_sub(sent_micros));
        true
    }

    /// J += (|D| − J) / 16, where D is the difference of two transit times.
    fn time(&mut self, transit: i64) {
        if let Some(before) = self.transit_micros.replace(transit) {
            let difference = transit.abs_diff(before) as f64;
            self.jitter_micros += (difference - self.jitter_micros) / 16.0;
            self.counts.jitter = Duration::try_from_secs_f64(self.jitter_micros / 1e6).ok();
        }
    }

    fn place(number: u64) -> (usize, u64) {
        let bit = number % WINDOW;
        (usize::try_from(bit / 64).unwrap_or(0), 1 << (bit % 64))
    }

    fn is_marked(&self, number: u64) -> bool {
        let (word, bit) = Self::place(number);
        self.seen[word] & bit != 0
    }

    fn mark(&mut self, number: u64, came: bool) {
        // Too old for the window: its bit belongs to a younger one.
        if self.next.saturating_sub(number) > WINDOW {
            return;
        }
        let (word, bit) = Self::place(number);
        if came {
            self.seen[word] |= bit;
        } else {
            self.seen[word] &= !bit;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(first: u64, numbers: &[u64], expected: [u64; 4]) {
        let mut arrivals = Arrivals::new(first);
        for number in numbers {
            arrivals.take(*number, 0, 0);
        }
        let counts = arrivals.counts();
        let got = [
            counts.received,
            counts.lost,
            counts.out_of_order,
            counts.duplicated,
        ];
        assert_eq!(got, expected, "{numbers:?}");
        assert_eq!(counts.received + counts.lost, arrivals.expected());
    }

    #[test]
    fn missing_late_and_doubled_datagrams_are_told_apart() {
        check(1, &[1, 2, 3], [3, 0, 0, 0]);
        check(0, &[0, 1, 2], [3, 0, 0, 0]);
        check(1, &[1, 4], [2, 2, 0, 0]);
        check(1, &[1, 4, 2], [3, 1, 1, 0]);
        // A double hides no loss.
        check(1, &[1, 1, 1, 4, 4], [2, 2, 0, 3]);
        check(1, &[1, 4, 2, 2, 3], [4, 0, 2, 1]);
        check(1, &[3], [1, 2, 0, 0]);
        check(1, &[1, 100_000], [2, 99_998, 0, 0]);
        check(1, &[1, 20_000, 20_000 - 8_192], [3, 19_997, 1, 0]);
        check(1, &[], [0, 0, 0, 0]);
    }

    #[test]
    fn any_order_of_all_numbers_loses_none() {
        let mut numbers: Vec<u64> = (1..=20_000).collect();
        for block in numbers.chunks_mut(1_000) {
            block.reverse();
        }
        check(1, &numbers, [20_000, 0, 20_000 - 20, 0]);
    }

    #[test]
    fn jitter_does_not_know_the_offset_of_the_clocks() {
        let run = |offset: i64| {
            let mut arrivals = Arrivals::new(1);
            for number in 1..=50_i64 {
                let late = number % 2 * 160;
                arrivals.take(
                    number.unsigned_abs(),
                    number * 1_000 + offset,
                    number * 1_000 + late,
                );
            }
            arrivals.counts().jitter.unwrap()
        };
        assert_eq!(run(0), run(1_000_000_000_000_000));
        // Every transit differs by 160 µs from the one before: 160 × (1 − (15/16)^49).
        let expected = 160.0 * (1.0 - (15.0_f64 / 16.0).powi(49));
        assert!((run(0).as_secs_f64() * 1e6 - expected).abs() < 0.01);
        let mut arrivals = Arrivals::new(1);
        arrivals.take(1, 0, 5);
        assert_eq!(arrivals.counts().jitter, None);
    }
}
