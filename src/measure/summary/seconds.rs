//! Seconds of a run: each closed once, with its row, its latency histogram and its requests.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};

use crate::measure::rows::Encoder;
use crate::measure::sample::{Batch, RequestSample};
use crate::measure::stats::moments::Moments;
use crate::measure::stats::spread::nanos;
use crate::measure::summary::HttpInterval;
use crate::measure::summary::timeline::is_error;

/// Rows of successful requests beyond this many are counted and not kept.
const KEPT_ROWS: u64 = 1_000_000;

/// One second that is complete.
#[derive(Clone, Debug, PartialEq)]
pub struct ClosedSecond {
    /// Its figures; `run` is 0 until the store fills it in.
    pub interval: HttpInterval,
    /// Latencies in µs (replies and timeouts) as an HdrHistogram, V2 with deflate; empty where there were none.
    pub histogram: Vec<u8>,
    /// Its requests as compact rows; empty where none is kept.
    pub rows: Vec<u8>,
    /// How many rows are in `rows`.
    pub rows_count: u64,
}

/// What is known about a second that may still grow.
#[derive(Clone, Debug, Default)]
struct Second {
    requests: u64,
    replies: u64,
    errors: u64,
    latency_us: Option<Box<Histogram<u64>>>,
    latency: Moments,
    longest: u64,
    rows: Encoder,
}

/// Seconds that are still open.
#[derive(Clone, Debug, Default)]
pub(super) struct Seconds {
    open: BTreeMap<u64, Second>,
    /// The first second that is not closed.
    next: u64,
    /// Up to where batches are complete.
    until: Duration,
    in_flight: u32,
    kept: u64,
}

impl Seconds {
    /// Adds one request that ended; its latency where it has one.
    pub(super) fn push(&mut self, sample: &RequestSample, latency: Option<Duration>) {
        let keep = is_error(sample.outcome) || self.kept < KEPT_ROWS;
        self.kept += u64::from(keep);
        let second = self.second(sample.ended.as_secs());
        second.replies += u64::from(sample.outcome.is_reply());
        second.errors += u64::from(is_error(sample.outcome));
        if keep {
            second.rows.push(sample);
        }
        if let Some(latency) = latency {
            let latency = nanos(latency);
            second.latency.push(latency);
            second.longest = second.longest.max(latency);
            let histogram = second.latency_us.get_or_insert_with(|| {
                // Invariant: the crate refuses only more than five digits.
                Box::new(Histogram::new(3).expect("at most five digits"))
            });
            let micros = (latency + 500) / 1000;
            if histogram.record(micros).is_err() {
                histogram.saturating_record(micros);
            }
        }
    }

    /// Takes over how far the run is, and closes what is complete.
    pub(super) fn advance(&mut self, batch: &Batch) -> Vec<ClosedSecond> {
        self.spread_out(batch.sent, batch.until);
        self.in_flight = batch.in_flight;
        let complete = self.until.as_secs();
        (self.next..complete)
            .map(|second| self.close(second, second as f64 + 1.0))
            .collect()
    }

    /// Closes all that is left; the last second ends where the run does.
    pub(super) fn finish(&mut self, until: Duration) -> Vec<ClosedSecond> {
        self.in_flight = 0;
        let last_open = self.open.keys().next_back().map_or(0, |last| last + 1);
        let partial = u64::from(until.subsec_nanos() > 0);
        let end = last_open.max(until.as_secs() + partial);
        (self.next..end)
            .map(|second| {
                let full = second as f64 + 1.0;
                let cut = until.as_secs() == second && partial == 1;
                let end_s = if cut { until.as_secs_f64() } else { full };
                self.close(second, end_s)
            })
            .collect()
    }

    /// Adds the other's open seconds.
    pub(super) fn merge(&mut self, other: Self) {
        self.next = self.next.min(other.next);
        self.until = self.until.max(other.until);
        self.in_flight += other.in_flight;
        self.kept += other.kept;
        for (at, theirs) in other.open {
            self.open.entry(at).or_default().merge(theirs);
        }
    }

    fn second(&mut self, at: u64) -> &mut Second {
        // What ends in a second that is closed already still counts, in the first that is open.
        self.open.entry(at.max(self.next)).or_default()
    }

    /// Counts requests begun since the batch before in the seconds between, in proportion to time.
    fn spread_out(&mut self, sent: u64, until: Duration) {
        let from = self.until;
        self.until = until.max(from);
        if sent == 0 {
            return;
        }
        let whole = self.until.saturating_sub(from).as_secs_f64();
        let last = last_second_before(self.until, from.as_secs());
        let mut counted = 0;
        for second in from.as_secs()..=last {
            let reached = Duration::from_secs(second + 1).min(self.until);
            let share = reached.saturating_sub(from).as_secs_f64() / whole.max(f64::MIN_POSITIVE);
            let by_now = if second == last {
                sent
            } else {
                whole_count(sent as f64 * share)
            };
            self.second(second).requests += by_now.saturating_sub(counted);
            counted = counted.max(by_now);
        }
    }

    fn close(&mut self, at: u64, end_s: f64) -> ClosedSecond {
        let second = self.open.remove(&at).unwrap_or_default();
        self.next = at + 1;
        let start_s = at as f64;
        let length = (end_s - start_s).max(1e-9);
        let quantile = |share| {
            let histogram = second.latency_us.as_deref()?;
            let micros = histogram.median_equivalent(histogram.value_at_quantile(share));
            Some((micros as f64 / 1e3).min(second.longest as f64 / 1e6))
        };
        ClosedSecond {
            interval: HttpInterval {
                run: 0,
                start_s,
                end_s,
                requests: second.requests,
                replies: second.replies,
                errors: second.errors,
                reply_rate_per_s: second.replies as f64 / length,
                latency_avg_ms: second.latency.mean().map(|mean| mean / 1e6),
                latency_p50_ms: quantile(0.5),
                latency_p99_ms: quantile(0.99),
                latency_max_ms: (second.latency.count() > 0).then(|| second.longest as f64 / 1e6),
                in_flight: u64::from(self.in_flight),
            },
            histogram: second.latency_us.as_deref().map(blob).unwrap_or_default(),
            rows_count: second.rows.rows(),
            rows: second.rows.finish(),
        }
    }
}

impl Second {
    fn merge(&mut self, other: Self) {
        self.requests += other.requests;
        self.replies += other.replies;
        self.errors += other.errors;
        self.latency.merge(&other.latency);
        self.longest = self.longest.max(other.longest);
        match (&mut self.latency_us, other.latency_us) {
            (Some(mine), Some(theirs)) => {
                // Invariant: both grow on demand, so every value fits.
                mine.add(&*theirs).expect("a histogram that grows");
            }
            (mine @ None, theirs) => *mine = theirs,
            (Some(_), None) => {}
        }
        self.rows.append(&other.rows);
    }
}

fn last_second_before(until: Duration, at_least: u64) -> u64 {
    let last = if until.subsec_nanos() == 0 {
        until.as_secs().saturating_sub(1)
    } else {
        until.as_secs()
    };
    last.max(at_least)
}

fn blob(histogram: &Histogram<u64>) -> Vec<u8> {
    let mut bytes = Vec::new();
    match V2DeflateSerializer::new().serialize(histogram, &mut bytes) {
        Ok(_) => bytes,
        // Writing to memory fails only where a count is beyond what the format holds.
        Err(_) => Vec::new(),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a count is a count"
)]
fn whole_count(value: f64) -> u64 {
    value.round() as u64
}
