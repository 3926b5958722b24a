//! Spaces what is sent by an absolute schedule: byte `n` of a stream is due at begin + 8n / rate.

use std::io;
use std::time::Duration;

use crate::net::clock::Epoch;
use crate::net::sys::{self, Ready, Timer};
use crate::net::tcp_flow::TURN;

/// Waits shorter than this are left out: the timer is no finer.
const FINEST: Duration = Duration::from_micros(60);
/// What one wake-up sends at most, beyond a single unit, is what is due in this time, twice.
const GRAIN: Duration = Duration::from_millis(1);
/// A sender that is further behind than this gives the rest up: catching up would be a burst.
const MOST_DEBT: Duration = Duration::from_millis(100);

/// The schedule of one stream.
pub(super) struct Pace {
    timer: Timer,
    epoch: Epoch,
    begin: Duration,
    bytes_per_s: f64,
    unit: u64,
    sent: u64,
    /// No earlier than this, so that a backlog is worked off evenly.
    held: Duration,
}

impl Pace {
    /// A schedule from `begin` on, in units of so many bytes.
    pub(super) fn new(
        epoch: Epoch,
        begin: Duration,
        bits_per_s: f64,
        unit: u64,
    ) -> io::Result<Self> {
        Ok(Self {
            timer: Timer::new(|| epoch.lead())?,
            epoch,
            begin,
            bytes_per_s: bits_per_s / 8.0,
            unit,
            sent: 0,
            held: Duration::ZERO,
        })
    }

    /// Bytes of TCP to hand over at once: about a millisecond's worth, not less than a segment.
    pub(super) fn tcp_unit(bits_per_s: f64, block: u64, segment: u64) -> u64 {
        let grain = bits_per_s / 8.0 * GRAIN.as_secs_f64();
        whole(grain).max(segment).min(block)
    }

    /// Waits until something is due and says how many bytes, in whole units; 0 when `give_up` said so first.
    pub(super) fn wait(&mut self, give_up: impl Fn(Duration) -> bool) -> io::Result<u64> {
        loop {
            let now = self.epoch.elapsed();
            if give_up(now) {
                return Ok(0);
            }
            let due = self.due_at(self.sent).max(self.held);
            if due > now + FINEST {
                self.timer.set(due)?;
                sys::wait(&self.timer, Ready::Read, TURN)?;
                continue;
            }
            return Ok(self.allowed(now.max(due)));
        }
    }

    /// So many bytes were sent.
    pub(super) fn sent(&mut self, bytes: u64) {
        self.sent += bytes;
    }

    fn due_at(&self, byte: u64) -> Duration {
        let after = byte as f64 / self.bytes_per_s;
        self.begin + Duration::try_from_secs_f64(after).unwrap_or(Duration::MAX / 4)
    }

    fn allowed(&mut self, now: Duration) -> u64 {
        let mut debt = now.saturating_sub(self.due_at(self.sent));
        if debt > MOST_DEBT {
            self.begin += debt.saturating_sub(MOST_DEBT);
            debt = MOST_DEBT;
        }
        let worth =
            |time: Duration| whole(time.as_secs_f64() * self.bytes_per_s / self.unit as f64);
        let due = worth(debt) + 1;
        let most = (2 * worth(GRAIN)).max(1);
        if due > most {
            let spacing = most as f64 * self.unit as f64 / self.bytes_per_s / 2.0;
            self.held = now + Duration::try_from_secs_f64(spacing).unwrap_or_default();
        }
        due.min(most) * self.unit
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "rates and times are not negative and the cast saturates"
)]
fn whole(value: f64) -> u64 {
    value as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(bits_per_s: f64, unit: u64) -> Pace {
        Pace::new(
            Epoch::after(Duration::ZERO),
            Duration::ZERO,
            bits_per_s,
            unit,
        )
        .unwrap()
    }

    #[test]
    fn units_are_due_one_by_one_and_a_backlog_makes_no_burst() {
        // 1,000 bytes every 10 ms.
        let mut slow = pace(800_000.0, 1_000);
        assert_eq!(slow.due_at(5_000), Duration::from_millis(50));
        assert_eq!(slow.allowed(Duration::ZERO), 1_000);
        slow.sent(1_000);
        // 35 ms late: still one at a time, half a spacing apart.
        assert_eq!(slow.allowed(Duration::from_millis(45)), 1_000);
        assert_eq!(slow.held, Duration::from_millis(50));
        // 10,000 units a second: twenty at once are two milliseconds' worth.
        let mut fast = pace(80_000_000.0, 1_000);
        assert_eq!(fast.allowed(Duration::from_millis(50)), 20_000);
        assert_eq!(fast.allowed(Duration::from_micros(350)), 4_000);
    }

    #[test]
    fn a_large_debt_is_given_up() {
        let mut fast = pace(80_000_000.0, 1_000);
        fast.allowed(Duration::from_secs(5));
        assert_eq!(fast.due_at(0), Duration::from_millis(4_900));
    }

    #[test]
    fn tcp_pieces_are_a_millisecond_or_a_segment() {
        assert_eq!(Pace::tcp_unit(80_000_000.0, 1 << 20, 1_448), 10_000);
        assert_eq!(Pace::tcp_unit(8_000.0, 1 << 20, 1_448), 1_448);
        assert_eq!(Pace::tcp_unit(8_000.0, 100, 1_448), 100);
        assert_eq!(Pace::tcp_unit(1e12, 1 << 20, 1_448), 1 << 20);
    }
}
