//! Latency by share of the requests, and the latency histogram: at most some dozen points each.

use crate::measure::series::{HistogramBucket, PercentilePoint};
use crate::measure::stats::spread::Spread;

/// Shares that every curve shows where it has that many requests.
const SHARES: [f64; 26] = [
    0.0, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7,
    0.75, 0.8, 0.825, 0.85, 0.87, 0.88, 0.89, 0.9, 0.91,
];

/// Within each further nine: how much of the distance to one is still left.
const LEFT: [f64; 9] = [0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.15, 0.1];

/// The most buckets of a histogram.
const MAX_BUCKETS: usize = 60;

/// A histogram is drawn on a logarithmic scale when its largest value is more than this times its smallest.
const LOG_FROM: f64 = 20.0;

/// Latency at shares of all requests: timeouts count at their age, other failures as longer than all.
pub(super) fn of_all(replied: &Spread, timed_out: &Spread, requests: u64) -> Vec<PercentilePoint> {
    let mut timed = replied.clone();
    timed.merge(timed_out);
    let shortest_timeout = timed_out.min_ms();
    points(requests, |rank| {
        let latency_ms = timed.at_rank_ms(rank);
        PercentilePoint {
            share: 0.0,
            latency_ms,
            // A timeout ranked below could in truth stand above: from there on a value is a lower bound.
            censored: latency_ms
                .zip(shortest_timeout)
                .is_some_and(|(latency, timeout)| latency >= timeout),
        }
    })
}

/// Latency at shares of the complete replies.
pub(super) fn of_replies(replied: &Spread) -> Vec<PercentilePoint> {
    points(replied.count(), |rank| PercentilePoint {
        share: 0.0,
        latency_ms: replied.at_rank_ms(rank),
        censored: false,
    })
}

/// Points up to the share 1 − 1/n, beyond which n requests tell nothing.
fn points(n: u64, at_rank: impl Fn(u64) -> PercentilePoint) -> Vec<PercentilePoint> {
    if n == 0 {
        return Vec::new();
    }
    let last = 1.0 - 1.0 / n as f64;
    let mut shares: Vec<f64> = SHARES.into();
    let mut distance = 0.1;
    while distance * n as f64 > 1.0 {
        shares.extend(LEFT.iter().map(|left| 1.0 - distance * left));
        distance /= 10.0;
    }
    shares.retain(|share| *share < last - 1e-12);
    shares.push(last);
    shares
        .into_iter()
        .map(|share| PercentilePoint {
            share,
            ..at_rank(rank(share, n))
        })
        .collect()
}

/// The nearest rank, from 1.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "between 0 and n"
)]
fn rank(share: f64, n: u64) -> u64 {
    // A hair less, so that 0.9 · 10 is rank 9 and not 10.
    ((share * n as f64 - 1e-6).ceil() as u64).clamp(1, n)
}

/// Counts in buckets that touch: linear with round edges, or growing by a constant factor where the spread is wide.
pub(super) fn histogram(latency: &Spread) -> Vec<HistogramBucket> {
    let Some((min, max)) = latency.min_ms().zip(latency.max_ms()) else {
        return Vec::new();
    };
    let mut buckets = if min > 0.0 && max / min > LOG_FROM {
        growing(min, max)
    } else {
        even(min, max)
    };
    let mut index = 0;
    latency.for_each_bucket(|value, count| {
        while index + 1 < buckets.len() && value >= buckets[index].to_ms {
            index += 1;
        }
        buckets[index].count += count;
    });
    buckets
}

fn growing(min: f64, max: f64) -> Vec<HistogramBucket> {
    // Ten or more to a decade where that fits.
    let decades = (max / min).log10();
    let wanted = (decades * 10.0).ceil().clamp(12.0, MAX_BUCKETS as f64);
    let factor = (max / min).powf(1.0 / wanted);
    let mut edges = Vec::new();
    let mut edge = min;
    while (edges.len() as f64) < wanted {
        edges.push(edge);
        edge *= factor;
    }
    edges.push(max);
    between(&edges)
}

fn even(min: f64, max: f64) -> Vec<HistogramBucket> {
    let width = round_width((max - min).max(max * 0.01).max(1e-6) / 40.0);
    let first = (min / width).floor();
    let mut edges = Vec::new();
    let mut step = first;
    while edges.len() <= MAX_BUCKETS {
        edges.push(step * width);
        if step * width > max {
            break;
        }
        step += 1.0;
    }
    between(&edges)
}

/// The next larger of 1, 2 and 5 times a power of ten.
fn round_width(width: f64) -> f64 {
    let power = 10.0_f64.powf(width.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|step| step * power)
        .find(|step| *step >= width * 0.999_999)
        .unwrap_or(power * 10.0)
}

fn between(edges: &[f64]) -> Vec<HistogramBucket> {
    edges
        .windows(2)
        .map(|pair| HistogramBucket {
            from_ms: pair[0],
            to_ms: pair[1],
            count: 0,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(millis: impl IntoIterator<Item = u64>) -> Spread {
        let mut spread = Spread::fine();
        for ms in millis {
            spread.push_nanos(ms * 1_000_000, 1);
        }
        spread
    }

    #[test]
    fn a_curve_ends_where_its_requests_end() {
        let points = of_replies(&of(1..=1000));
        let last = points.last().unwrap();
        assert!((last.share - 0.999).abs() < 1e-9);
        assert!((last.latency_ms.unwrap() / 999.0 - 1.0).abs() < 0.001);
        assert!(points.len() < 80);
        assert!(
            points
                .windows(2)
                .all(|p| p[0].share < p[1].share && p[0].latency_ms <= p[1].latency_ms)
        );
        let one = of_replies(&of([7]));
        assert_eq!(
            (one.len(), one[0].share, one[0].latency_ms),
            (1, 0.0, Some(7.0))
        );
        assert!(of_replies(&of([])).is_empty());
    }

    #[test]
    fn timeouts_are_lower_bounds_and_other_failures_are_longer_than_all() {
        // 60 replies of 10 ms, 20 timeouts at 300 ms, 20 resets.
        let points = of_all(&of([10; 60]), &of([300; 20]), 100);
        let at = |share: f64| {
            points
                .iter()
                .find(|p| (p.share - share).abs() < 1e-9)
                .unwrap()
        };
        assert_eq!((at(0.5).latency_ms, at(0.5).censored), (Some(10.0), false));
        assert_eq!((at(0.7).latency_ms, at(0.7).censored), (Some(300.0), true));
        assert_eq!((at(0.9).latency_ms, at(0.9).censored), (None, false));
    }

    #[test]
    fn buckets_touch_cover_and_count_everything() {
        for values in [
            vec![5; 3],
            (1..=900).collect(),
            vec![1, 100_000],
            vec![0, 0],
            vec![0, 400],
        ] {
            let n = values.len() as u64;
            let spread = of(values.iter().copied());
            let buckets = histogram(&spread);
            assert!(buckets.len() <= MAX_BUCKETS, "{}", buckets.len());
            assert_eq!(buckets.iter().map(|b| b.count).sum::<u64>(), n);
            assert!(buckets[0].from_ms <= spread.min_ms().unwrap());
            assert!(buckets[buckets.len() - 1].to_ms >= spread.max_ms().unwrap());
            assert!(
                buckets
                    .windows(2)
                    .all(|b| (b[0].to_ms - b[1].from_ms).abs() < 1e-12)
            );
        }
    }
}
