//! A distribution of durations: histogram with a stated relative error, exact extremes, exact moments.

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::measure::stats::moments::Moments;
use crate::measure::summary::{AvgP99, Distribution};

/// Nanoseconds in a millisecond.
const NANOS_PER_MS: f64 = 1e6;

/// Durations in nanoseconds, folded into bounded memory; merging equals having seen all of them.
#[derive(Clone, Debug)]
pub struct Spread {
    histogram: Histogram<u64>,
    moments: Moments,
    min: u64,
    max: u64,
}

impl Spread {
    /// Percentiles within 0.1 % of the true value; about 200 KiB once it spans minutes.
    pub fn fine() -> Self {
        Self::with_digits(3)
    }

    /// Percentiles within 1 % of the true value; about 25 KiB once it spans minutes.
    pub fn coarse() -> Self {
        Self::with_digits(2)
    }

    fn with_digits(digits: u8) -> Self {
        // Invariant: the crate refuses only more than five digits.
        let histogram = Histogram::new(digits).expect("at most five digits");
        Self {
            histogram,
            moments: Moments::default(),
            min: u64::MAX,
            max: 0,
        }
    }

    /// Adds one duration.
    pub fn push(&mut self, duration: Duration) {
        self.push_nanos(nanos(duration), 1);
    }

    /// Adds one value in ns several times.
    pub fn push_nanos(&mut self, value: u64, times: u64) {
        if times == 0 {
            return;
        }
        if self.histogram.record_n(value, times).is_err() {
            // Only where memory cannot be addressed: counted at the largest value that can be.
            self.histogram.saturating_record_n(value, times);
        }
        self.moments.push_n(value, times);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Adds all that the other has seen.
    pub fn merge(&mut self, other: &Self) {
        if other.is_empty() {
            return;
        }
        if self.histogram.add(&other.histogram).is_err() {
            // The same rare case as in `push_nanos`.
            for step in other.histogram.iter_recorded() {
                self.histogram
                    .saturating_record_n(step.value_iterated_to(), step.count_at_value());
            }
        }
        self.moments.merge(&other.moments);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// How many values there were.
    pub fn count(&self) -> u64 {
        self.moments.count()
    }

    /// Whether nothing was seen.
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// The sums.
    pub fn moments(&self) -> &Moments {
        &self.moments
    }

    /// Smallest value in ms, exact.
    pub fn min_ms(&self) -> Option<f64> {
        (!self.is_empty()).then(|| self.min as f64 / NANOS_PER_MS)
    }

    /// Largest value in ms, exact.
    pub fn max_ms(&self) -> Option<f64> {
        (!self.is_empty()).then(|| self.max as f64 / NANOS_PER_MS)
    }

    /// Arithmetic mean in ms, exact.
    pub fn mean_ms(&self) -> Option<f64> {
        self.moments.mean().map(|mean| mean / NANOS_PER_MS)
    }

    /// The value of which this share of all values is not larger (nearest rank), in ms;
    /// never outside the smallest and the largest.
    pub fn quantile_ms(&self, share: f64) -> Option<f64> {
        if self.is_empty() {
            return None;
        }
        let found = self.histogram.value_at_quantile(share);
        Some(self.inside(found) as f64 / NANOS_PER_MS)
    }

    /// The value at this rank, counted from 1, in ms.
    pub fn at_rank_ms(&self, rank: u64) -> Option<f64> {
        if rank == 0 || rank > self.count() {
            return None;
        }
        if rank == self.count() {
            return self.max_ms();
        }
        // Half a rank below keeps clear of the rounding of the division.
        self.quantile_ms((rank as f64 - 0.5) / self.count() as f64)
    }

    /// Calls with each bucket that holds something: its value in ms and its count, ascending.
    pub fn for_each_bucket(&self, mut see: impl FnMut(f64, u64)) {
        for step in self.histogram.iter_recorded() {
            let value = self.inside(step.value_iterated_to());
            see(value as f64 / NANOS_PER_MS, step.count_at_value());
        }
    }

    /// All figures, in ms.
    pub fn distribution(&self) -> Distribution {
        let median = self.quantile_ms(0.5);
        Distribution {
            min: self.min_ms(),
            avg: self.mean_ms(),
            max: self.max_ms(),
            median,
            stddev: self.moments.stddev().map(|stddev| stddev / NANOS_PER_MS),
            p50: median,
            p90: self.quantile_ms(0.9),
            p95: self.quantile_ms(0.95),
            p99: self.quantile_ms(0.99),
            p99_9: self.quantile_ms(0.999),
            count: self.count(),
        }
    }

    /// Mean and tail, in ms.
    pub fn avg_p99(&self) -> AvgP99 {
        AvgP99 {
            avg: self.mean_ms(),
            p99: self.quantile_ms(0.99),
        }
    }

    /// The middle of the bucket, kept between the extremes that were really seen.
    fn inside(&self, value: u64) -> u64 {
        self.histogram
            .median_equivalent(value)
            .clamp(self.min, self.max)
    }
}

/// Whole nanoseconds; durations beyond 584 years count as that.
pub fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(digits: u8, values: &[u64]) -> Spread {
        let mut spread = Spread::with_digits(digits);
        for &value in values {
            spread.push_nanos(value, 1);
        }
        spread
    }

    #[test]
    fn nothing_measured_is_none_everywhere() {
        assert_eq!(Spread::fine().distribution(), Distribution::default());
    }

    #[test]
    fn median_of_sub_millisecond_values_is_between_min_and_max() {
        // httperf prints "min 0.6 avg 0.8 max 0.9 median 0.5" for such replies.
        let figures = of(3, &[600_000, 800_000, 900_000]).distribution();
        assert_eq!(figures.min, Some(0.6));
        assert_eq!(figures.max, Some(0.9));
        let median = figures.median.unwrap();
        assert!((median - 0.8).abs() < 0.0008, "{median}");
    }

    #[test]
    fn thirty_outliers_in_a_million_are_where_sorting_finds_them() {
        let mut values: Vec<u64> = (0..999_970_u64)
            .map(|i| 1_000_000 + i % 977 * 1000)
            .collect();
        values.extend((0..30_u64).map(|i| 2_000_000_000 + i * 10_000_000));
        let spread = of(3, &values);
        values.sort_unstable();
        for rank in [
            1, 500_000, 999_000, 999_900, 999_970, 999_971, 999_985, 999_999, 1_000_000,
        ] {
            let exact = values[usize::try_from(rank - 1).unwrap()] as f64 / 1e6;
            let found = spread.at_rank_ms(rank).unwrap();
            assert!(
                (found / exact - 1.0).abs() < 0.001,
                "{rank}: {found} {exact}"
            );
        }
    }

    proptest! {
        #[test]
        fn a_bucket_is_within_the_stated_share_of_its_value(value in 1_u64..4_000_000_000_000) {
            for (digits, error) in [(3, 0.001), (2, 0.01)] {
                let mut spread = of(digits, &[value]);
                // Neighbours far away, so that the clamping to the extremes does not help.
                spread.push_nanos(1, 1);
                spread.push_nanos(value * 3, 1);
                let found = spread.at_rank_ms(2).unwrap() * 1e6;
                prop_assert!((found / value as f64 - 1.0).abs() <= error);
            }
        }

        #[test]
        fn merging_equals_seeing_all_in_any_order(
            mut values in prop::collection::vec(0_u64..100_000_000_000, 0..200), cut in 0_usize..200
        ) {
            let whole = of(3, &values).distribution();
            values.reverse();
            let cut = cut.min(values.len());
            let mut left = of(3, &values[..cut]);
            left.merge(&of(3, &values[cut..]));
            prop_assert_eq!(left.distribution(), whole.clone());
            if whole.count > 0 {
                for p in [whole.p50, whole.p90, whole.p95, whole.p99, whole.p99_9, whole.avg] {
                    prop_assert!(p >= whole.min && p <= whole.max);
                }
            }
        }
    }
}
