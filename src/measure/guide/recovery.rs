//! How long a failure lasted, by the requests of a run: from the first that failed to the first after the last of them.

use std::collections::BTreeMap;

use crate::measure::outcome::Outcome;
use crate::measure::series::HttpSeries;

/// What a failure cost.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recovery {
    /// From the planned time of the first request that failed to that of the first good one after the last of them, in
    /// s; 0 where none failed, `None` where the run ended before.
    pub took_s: Option<f64>,
    /// How exact that is, in s: the time between two requests, or a step of the series.
    pub exact_s: f64,
    /// Replies by region after it; from the whole run where none failed.
    pub after: BTreeMap<String, u64>,
}

/// The recovery that a run shows; `None` where nothing was asked.
pub fn recovery(series: &HttpSeries) -> Option<Recovery> {
    // Time, and how many failed then.
    let mut times: Vec<(f64, u64)> = match &series.dots {
        Some(dots) => dots
            .iter()
            .map(|dot| (dot.at_s, u64::from(dot.outcome != Outcome::Ok)))
            .collect(),
        None => series
            .bins
            .iter()
            .filter(|bin| bin.requests > 0)
            .map(|bin| {
                let good = bin.outcomes.get(&Outcome::Ok).copied().unwrap_or(0);
                (bin.start_s, bin.outcomes.values().sum::<u64>() - good)
            })
            .collect(),
    };
    times.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (start, end) = (times.first()?.0, times.last()?.0);
    let gap = if times.len() > 1 {
        (end - start) / (times.len() - 1) as f64
    } else {
        series.bin_width_s
    };
    let first = times.iter().position(|(_, failed)| *failed > 0);
    let last = times.iter().rposition(|(_, failed)| *failed > 0);
    let (took_s, from) = match (first, last) {
        (Some(first), Some(last)) => {
            let next = times.get(last + 1).map(|(at, _)| *at);
            (
                next.map(|next| next - times[first].0),
                next.unwrap_or(f64::INFINITY),
            )
        }
        _ => (Some(0.0), start),
    };
    let mut after: BTreeMap<String, u64> = BTreeMap::new();
    for bin in series.bins.iter().filter(|bin| bin.start_s >= from - 1e-9) {
        for (region, replies) in &bin.regions {
            *after.entry(region.clone()).or_default() += replies;
        }
    }
    Some(Recovery {
        took_s,
        exact_s: gap,
        after,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::series::{Bin, Dot};

    /// Ten a second for 10 s; those in these seconds fail.
    fn series(bad: &[usize], with_dots: bool) -> HttpSeries {
        let outcome = |second: usize| {
            if bad.contains(&second) {
                Outcome::ConnectRefused
            } else {
                Outcome::Ok
            }
        };
        HttpSeries {
            bin_width_s: 1.0,
            dots: with_dots.then(|| {
                (0..100)
                    .map(|number| Dot {
                        at_s: number as f64 / 10.0,
                        latency_ms: 1.0,
                        outcome: outcome(number / 10),
                    })
                    .collect()
            }),
            bins: (0..10)
                .map(|second| Bin {
                    start_s: second as f64,
                    requests: 10,
                    outcomes: [(outcome(second), 10)].into(),
                    regions: [(format!("region{}", if second < 5 { 1 } else { 2 }), 10)].into(),
                    ..Bin::default()
                })
                .collect(),
            ..HttpSeries::default()
        }
    }

    #[test]
    fn a_failure_lasts_from_the_first_failed_request_to_the_next_good_one() {
        for with_dots in [true, false] {
            let found = recovery(&series(&[3, 4], with_dots)).unwrap();
            assert!((found.took_s.unwrap() - 2.0).abs() < 1e-9, "{found:?}");
            assert_eq!(found.after, [("region2".to_owned(), 50)].into());
            let none = recovery(&series(&[], with_dots)).unwrap();
            assert_eq!(none.took_s, Some(0.0));
            assert_eq!(none.after.len(), 2);
            let never = recovery(&series(&[8, 9], with_dots)).unwrap();
            assert_eq!(never.took_s, None);
            assert!(never.after.is_empty());
        }
        assert_eq!(recovery(&HttpSeries::default()), None);
    }
}
