//! What a search has found as a sweep would show it: a level for each rate that was tried, and the bracket as its knee.

use serde_json::Value;

use super::super::sweep::{Knee, Level, median};
use crate::measure::search::{Arrival, Capacity, Purpose, Trial, Verdict};

/// What a search has found, as it is kept; `None` where nothing is.
pub fn searched(found: Option<&Value>) -> Option<Capacity> {
    serde_json::from_value(found?.clone()).ok()
}

/// The rates that were tried with the search's own arrivals, from the lowest; steps without a word on the target are
/// left out.
pub fn search_levels(capacity: &Capacity, arrival: Arrival) -> Vec<Level> {
    let mut groups: Vec<(f64, Vec<&Trial>)> = Vec::new();
    for trial in capacity.steps.iter().filter(|trial| {
        trial.arrival == arrival
            && trial.verdict != Verdict::Invalid
            && !matches!(trial.purpose, Purpose::Baseline | Purpose::SecondBaseline)
    }) {
        match groups
            .iter_mut()
            .find(|(rate, _)| rate.total_cmp(&trial.rate).is_eq())
        {
            Some((_, group)) => group.push(trial),
            None => groups.push((trial.rate, vec![trial])),
        }
    }
    groups.sort_by(|a, b| a.0.total_cmp(&b.0));
    groups
        .into_iter()
        .map(|(rate, group)| level(rate, &group))
        .collect()
}

fn level(rate: f64, group: &[&Trial]) -> Level {
    let middle = |of: fn(&Trial) -> Option<f64>| {
        median(group.iter().filter_map(|trial| of(trial)).collect())
    };
    let failing = group.iter().find(|trial| trial.verdict == Verdict::Fail);
    Level {
        x: Some(rate),
        label: crate::measure::units::significant(rate),
        repeats: u32::try_from(group.len()).unwrap_or(u32::MAX),
        values: group.iter().filter_map(|trial| trial.p50_ms).collect(),
        p50_ms: middle(|trial| trial.p50_ms),
        p90_ms: middle(|trial| trial.p90_ms),
        p99_ms: middle(|trial| trial.p99_ms),
        max_ms: group
            .iter()
            .filter_map(|trial| trial.max_ms)
            .reduce(f64::max),
        offered_per_s: Some(rate),
        achieved_per_s: middle(|trial| trial.answered_per_s),
        lateness_p50_ms: middle(|trial| trial.lateness_p50_ms),
        lateness_p99_ms: middle(|trial| trial.lateness_ms),
        requests: group.iter().map(|trial| trial.requests).sum(),
        failed: group.iter().map(|trial| trial.failed).sum(),
        reason: failing.map(|trial| trial.reason.clone()),
        ..Level::default()
    }
}

/// The bracket: where both bounds are known.
pub fn search_knee(capacity: &Capacity, levels: &[Level]) -> Option<Knee> {
    let (holds, fails) = (capacity.lower_per_s?, capacity.upper_per_s?);
    let base_ms = capacity.baseline_ms?;
    let above = levels
        .iter()
        .find(|level| level.x.is_some_and(|x| x.total_cmp(&fails).is_eq()));
    Some(Knee {
        holds,
        fails,
        base_ms,
        times: above
            .and_then(|level| level.p50_ms)
            .filter(|_| base_ms > 0.0)
            .map(|p50| p50 / base_ms),
        failed_share: above.and_then(Level::failed_share).unwrap_or(0.0),
    })
}
