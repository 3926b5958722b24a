//! Count, mean and standard deviation from whole nanoseconds: exact, and the same in any order.

/// Sums over values in nanoseconds; merging two equals having seen all values in one.
///
/// The sums are integers, so no rounding depends on the order. Σx² of 10¹⁰ values of a day each still
/// fits into 128 bits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moments {
    count: u64,
    sum: u128,
    squares: u128,
}

impl Moments {
    /// Adds one value in ns.
    pub fn push(&mut self, nanos: u64) {
        self.push_n(nanos, 1);
    }

    /// Adds one value in ns several times.
    pub fn push_n(&mut self, nanos: u64, times: u64) {
        let value = u128::from(nanos);
        let times_wide = u128::from(times);
        self.count += times;
        self.sum += value * times_wide;
        self.squares = self.squares.saturating_add(value * value * times_wide);
    }

    /// Adds all that the other has seen.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.sum += other.sum;
        self.squares = self.squares.saturating_add(other.squares);
    }

    /// How many values there were.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their sum in ns.
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// Σx / n in ns; `None` over nothing.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// Sample standard deviation, √((n·Σx² − (Σx)²) / (n·(n − 1))), in ns; `None` below two values.
    pub fn stddev(&self) -> Option<f64> {
        if self.count < 2 {
            return None;
        }
        let n = self.count as f64;
        let exact = self
            .squares
            .checked_mul(u128::from(self.count))
            .zip(self.sum.checked_mul(self.sum))
            .map(|(all, mean)| all.saturating_sub(mean) as f64);
        let spread = exact.unwrap_or_else(|| {
            let mean = self.sum as f64 / n;
            (self.squares as f64 / n - mean * mean).max(0.0) * n * n
        });
        Some((spread / (n * (n - 1.0))).sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers_worked_by_hand() {
        let mut moments = Moments::default();
        assert_eq!((moments.mean(), moments.stddev()), (None, None));
        moments.push(2);
        assert_eq!((moments.mean(), moments.stddev()), (Some(2.0), None));
        for value in [4, 4, 4, 5, 5, 7, 9] {
            moments.push(value);
        }
        // Mean 5; squared distances 9+1+1+1+0+0+4+16 = 32, over 7.
        assert_eq!(moments.mean(), Some(5.0));
        let stddev = moments.stddev().unwrap();
        assert!((stddev - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12);
    }

    #[test]
    fn a_large_offset_loses_nothing() {
        let mut moments = Moments::default();
        let hour = 3_600_000_000_000;
        for value in [hour - 1, hour, hour + 1] {
            moments.push(value);
        }
        assert_eq!(moments.stddev(), Some(1.0));
    }
}
