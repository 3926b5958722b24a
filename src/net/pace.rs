//! Spaces what is sent by an absolute schedule: byte `n` of a stream is due at begin + 8n / rate.

use std::io;
use std::time::Duration;

use crate::net::clock::Epoch;
use crate::net::sys::{self, Ready, Timer};
use crate::net::tcp_flow::TURN;

/// Waits shorter than this are left out: setting the timer takes about as long.
const FINEST: Duration = Duration::from_micros(5);
/// Units that are due further apart than this are sent one by one.
const SINGLE: Duration = Duration::from_micros(40);
/// Of a backlog of such units one in so many goes with the next.
const BACKLOG_SHARE: u64 = 8;
/// What one wake-up sends at most of faster ones is what is due in this time, twice.
const GRAIN: Duration = Duration::from_millis(1);
/// A sender that is further behind than this gives the rest up: catching up would be a burst.
const MOST_DEBT: Duration = Duration::from_millis(100);

/// The schedule of one stream.
#[derive(Debug)]
pub struct Pace {
    timer: Timer,
    /// Instant from which the timer counts.
    timer_from: Duration,
    epoch: Epoch,
    begin: Duration,
    bytes_per_s: f64,
    unit: u64,
    sent: u64,
    /// No earlier than this, so that a backlog is worked off evenly.
    held: Duration,
    /// When the last part of a backlog of fast units was let go.
    backlog: Option<Duration>,
}

impl Pace {
    /// A schedule from `begin` on, in units of so many bytes.
    pub fn new(epoch: Epoch, begin: Duration, bits_per_s: f64, unit: u64) -> io::Result<Self> {
        let (timer, timer_from) = timer(&epoch)?;
        Ok(Self {
            timer,
            timer_from,
            epoch,
            begin,
            bytes_per_s: bits_per_s / 8.0,
            unit,
            sent: 0,
            held: Duration::ZERO,
            backlog: None,
        })
    }

    /// Bytes of TCP to hand over at once: about a millisecond's worth, not less than a segment.
    pub fn tcp_unit(bits_per_s: f64, block: u64, segment: u64) -> u64 {
        let grain = bits_per_s / 8.0 * GRAIN.as_secs_f64();
        whole(grain).max(segment).min(block)
    }

    /// Waits until something is due and says how many bytes, in whole units; 0 when `give_up` said so first.
    pub fn wait(&mut self, give_up: impl Fn(Duration) -> bool) -> io::Result<u64> {
        loop {
            let now = self.epoch.elapsed();
            if give_up(now) {
                return Ok(0);
            }
            let due = self.due_at(self.sent).max(self.held);
            if due > now + FINEST {
                self.timer.set(due.saturating_sub(self.timer_from))?;
                sys::wait(&self.timer, Ready::Read, TURN)?;
                continue;
            }
            return Ok(self.allowed(now.max(due)));
        }
    }

    /// So many bytes were sent.
    pub fn sent(&mut self, bytes: u64) {
        self.sent += bytes;
        // By what was sent, not by what was allowed: the sender may take less at once.
        if let Some(from) = self.backlog.take() {
            let spacing = bytes as f64 / self.bytes_per_s / 2.0;
            self.held = from + Duration::try_from_secs_f64(spacing).unwrap_or_default();
        }
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
        let gap = self.unit as f64 / self.bytes_per_s;
        let units = |time: Duration| whole(time.as_secs_f64() / gap);
        let due = units(debt) + 1;
        // At least twice the rate until a backlog is gone.
        if gap >= SINGLE.as_secs_f64() {
            // Of a long one a part at once, or it would never be worked off on a busy machine.
            let most = 1 + (due - 1) / BACKLOG_SHARE;
            if due > most {
                self.held = now + Duration::try_from_secs_f64(gap / 2.0).unwrap_or_default();
            }
            return due.min(most) * self.unit;
        }
        let most = (2 * units(GRAIN)).max(1);
        self.backlog = (due > most).then_some(now);
        due.min(most) * self.unit
    }
}

/// A timer, and the instant since the epoch from which it counts; it is never early.
fn timer(epoch: &Epoch) -> io::Result<(Timer, Duration)> {
    if !epoch.lead().is_zero() {
        return Ok((Timer::new(|| epoch.lead())?, Duration::ZERO));
    }
    let mut best: Option<(Duration, Timer, Duration)> = None;
    for _ in 0..8 {
        let before = epoch.elapsed();
        let timer = Timer::new(|| Duration::ZERO)?;
        let took = epoch.elapsed().saturating_sub(before);
        if best.as_ref().is_none_or(|(least, ..)| took < *least) {
            best = Some((took, timer, before));
        }
    }
    let (_, timer, from) = best.ok_or(io::ErrorKind::Other)?;
    Ok((timer, from))
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
        // 10,000 units a second: one by one too.
        let mut fast = pace(80_000_000.0, 1_000);
        assert_eq!(fast.allowed(Duration::from_micros(350)), 1_000);
        assert_eq!(fast.held, Duration::from_micros(400));
        assert_eq!(fast.allowed(Duration::from_millis(50)), 63_000);
        // 100,000 units a second: two hundred at once are two milliseconds' worth.
        let mut faster = pace(800_000_000.0, 1_000);
        assert_eq!(faster.allowed(Duration::from_millis(50)), 200_000);
        // Who takes only 64 of them waits for these only.
        faster.sent(64_000);
        assert_eq!(faster.held, Duration::from_micros(50_320));
        faster.sent = 0;
        assert_eq!(faster.allowed(Duration::from_micros(35)), 4_000);
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
