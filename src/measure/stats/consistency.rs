//! Whether figures that belong together agree: sums, rates, and Little's law.

/// Whether a stated rate is what count over time gives, within a share of it.
///
/// 80 transactions in 14.45 s are 5.54 a second; a text that says 5.05 contradicts itself.
pub fn rate_agrees(count: u64, seconds: f64, stated_per_s: f64, tolerance: f64) -> bool {
    if seconds <= 0.0 {
        return count == 0 || !stated_per_s.is_finite();
    }
    close(count as f64 / seconds, stated_per_s, tolerance)
}

/// Whether parts sum to a whole.
pub fn parts_agree(parts: impl IntoIterator<Item = u64>, whole: u64) -> bool {
    parts.into_iter().sum::<u64>() == whole
}

/// Little's law, L = λ·W, as request-seconds: what was in flight over time is the sum of all times in the system.
///
/// Below one request-second nothing is concluded.
pub fn little_agrees(in_flight_seconds: f64, count: u64, mean_ms: f64, tolerance: f64) -> bool {
    let summed = count as f64 * mean_ms / 1000.0;
    (in_flight_seconds < 1.0 && summed < 1.0) || close(summed, in_flight_seconds, tolerance)
}

/// Whether two figures differ by at most this share of the larger.
pub fn close(a: f64, b: f64, tolerance: f64) -> bool {
    (a - b).abs() <= tolerance * a.abs().max(b.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_samples_that_contradict_themselves_are_found() {
        assert!(!rate_agrees(80, 14.45, 5.05, 0.02));
        assert!(rate_agrees(80, 14.45, 5.54, 0.02));
        assert!(!parts_agree([0, 100, 0, 0, 0], 500));
        assert!(parts_agree([0, 499, 0, 1, 0], 500));
    }

    #[test]
    fn littles_law_holds_or_not() {
        // 4 in flight over 10 s, 20 requests of 2 s each.
        assert!(little_agrees(40.0, 20, 2000.0, 0.05));
        assert!(!little_agrees(40.0, 20, 1000.0, 0.05));
        assert!(little_agrees(0.2, 1, 900.0, 0.05));
    }

    #[test]
    fn nothing_in_no_time_is_no_contradiction() {
        assert!(rate_agrees(0, 0.0, f64::NAN, 0.1));
    }
}
