//! The runs of an experiment by what was varied: one level for each value, its repeats together.

use serde_json::Value;

use super::capacity::{search_knee, search_levels, searched};
use super::design::{Spec, label_of};
use super::figure::figure;
use super::record::{Experiment, Point};
use crate::measure::plan::Plan;
use crate::measure::run::State;
use crate::measure::summary::{Distribution, Summary};

/// A level answers well while its median is at most this many times that of the lowest level.
const TWICE: f64 = 2.0;

/// All repeats of one value. Figures of several repeats: the median of theirs, for the largest the largest.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Level {
    /// The value of the first varied field, where it is a number.
    pub x: Option<f64>,
    /// The value or values in words: `7`, `a`, `4, 65536`.
    pub label: String,
    /// Runs, those that failed included.
    pub repeats: u32,
    /// The one figure of each run that has one, in the order in which they ran.
    pub values: Vec<f64>,
    /// Latency or round trip in ms.
    pub min_ms: Option<f64>,
    /// Mean of it.
    pub avg_ms: Option<f64>,
    /// Median of it.
    pub p50_ms: Option<f64>,
    /// 90th percentile of it.
    pub p90_ms: Option<f64>,
    /// 99th percentile of it.
    pub p99_ms: Option<f64>,
    /// Largest of it.
    pub max_ms: Option<f64>,
    /// Requests begun per second.
    pub offered_per_s: Option<f64>,
    /// Requests answered well per second.
    pub achieved_per_s: Option<f64>,
    /// Median lateness of the sends in ms.
    pub lateness_p50_ms: Option<f64>,
    /// 99th percentile of it.
    pub lateness_p99_ms: Option<f64>,
    /// Requests or probes planned, over all repeats.
    pub requests: u64,
    /// Those of them that were not answered well.
    pub failed: u64,
    /// Documented egress cap of the sending side in bit/s.
    pub cap_bits_per_second: Option<f64>,
    /// Why a run of it has no figures.
    pub reason: Option<String>,
}

impl Level {
    /// Share of failed requests; `None` where none was made.
    pub fn failed_share(&self) -> Option<f64> {
        (self.requests > 0).then(|| self.failed as f64 / self.requests as f64)
    }
}

/// One level for each point, in the order of their first runs; sorted by value where all are numbers.
pub fn levels(points: &[Point]) -> Vec<Level> {
    let mut groups: Vec<(String, Vec<&Point>)> = Vec::new();
    for point in points.iter().filter(|point| point.state.is_final()) {
        let key = point.point.to_string();
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, group)) => group.push(point),
            None => groups.push((key, vec![point])),
        }
    }
    let mut levels: Vec<Level> = groups.iter().map(|(_, group)| level(group)).collect();
    if levels.iter().all(|level| level.x.is_some()) {
        levels.sort_by(|a, b| a.x.partial_cmp(&b.x).unwrap_or(std::cmp::Ordering::Equal));
    }
    levels
}

fn level(group: &[&Point]) -> Level {
    let point = group.first().and_then(|point| point.point.as_object());
    let mut level = Level {
        x: point.and_then(|point| point.values().next()?.as_f64()),
        label: point.map(values_of).unwrap_or_default(),
        repeats: u32::try_from(group.len()).unwrap_or(u32::MAX),
        reason: group
            .iter()
            .filter(|point| point.summary.is_none() || point.state == State::Failed)
            .find_map(|point| point.error.clone()),
        ..Level::default()
    };
    // A run that failed measured nothing useful, whatever it counted.
    let summaries: Vec<&Summary> = group
        .iter()
        .filter(|point| point.state != State::Failed)
        .filter_map(|point| point.summary.as_ref())
        .collect();
    level.values = summaries.iter().copied().filter_map(figure).collect();
    let times: Vec<&Distribution> = summaries.iter().copied().filter_map(times).collect();
    let middle = |of: fn(&Distribution) -> Option<f64>| {
        median(times.iter().filter_map(|figures| of(figures)).collect())
    };
    level.min_ms = times.iter().filter_map(|f| f.min).reduce(f64::min);
    level.max_ms = times.iter().filter_map(|f| f.max).reduce(f64::max);
    level.avg_ms = middle(|figures| figures.avg);
    level.p50_ms = middle(|figures| figures.p50);
    level.p90_ms = middle(|figures| figures.p90);
    level.p99_ms = middle(|figures| figures.p99);
    let of_all = |of: fn(&Summary) -> Option<f64>| {
        median(summaries.iter().filter_map(|summary| of(summary)).collect())
    };
    level.offered_per_s = of_all(offered);
    level.achieved_per_s = of_all(achieved);
    level.lateness_p50_ms = of_all(|summary| lateness(summary)?.p50);
    level.lateness_p99_ms = of_all(|summary| lateness(summary)?.p99);
    level.cap_bits_per_second = of_all(|summary| match summary {
        Summary::Throughput(flow) => flow.egress_cap_bits_per_second,
        _ => None,
    });
    for summary in group.iter().filter_map(|point| point.summary.as_ref()) {
        let (requests, failed) = counts(summary);
        level.requests += requests;
        level.failed += failed;
    }
    level
}

/// The values alone: the field's name stands at the axis.
fn values_of(point: &serde_json::Map<String, Value>) -> String {
    if point.len() == 1
        && let Some(value) = point.values().next()
    {
        return super::design::plain(value);
    }
    label_of(point)
}

/// The times that a run of this kind is about.
const fn times(summary: &Summary) -> Option<&Distribution> {
    match summary {
        Summary::Rate(rate) => Some(&rate.latency_ms),
        Summary::Users(users) => Some(&users.latency_ms),
        Summary::Ping(ping) => Some(&ping.rtt_ms.figures),
        Summary::Fetch(_) | Summary::Throughput(_) | Summary::Path(_) | Summary::Imported(_) => {
            None
        }
    }
}

fn offered(summary: &Summary) -> Option<f64> {
    match summary {
        Summary::Rate(rate) => rate.offered_per_s,
        _ => None,
    }
}

fn achieved(summary: &Summary) -> Option<f64> {
    match summary {
        Summary::Rate(rate) => rate.achieved_per_s,
        Summary::Users(users) => users.transaction_rate_per_s,
        _ => None,
    }
}

fn lateness(summary: &Summary) -> Option<&Distribution> {
    match summary {
        Summary::Rate(rate) => Some(&rate.lateness_ms),
        _ => None,
    }
}

/// Planned, and not answered well; those cut off by a stop count as neither.
pub fn counts(summary: &Summary) -> (u64, u64) {
    let of = |outcomes: &std::collections::BTreeMap<String, u64>, unsent: u64| {
        let stopped = outcomes.get("aborted_at_stop").copied().unwrap_or(0);
        let all: u64 = outcomes.values().sum::<u64>() - stopped + unsent;
        let ok = outcomes.get("ok").copied().unwrap_or(0);
        (all, all.saturating_sub(ok))
    };
    match summary {
        Summary::Rate(rate) => of(&rate.outcomes, rate.unsent),
        Summary::Users(users) => of(&users.outcomes, 0),
        Summary::Fetch(fetch) => (1, u64::from(fetch.outcome != "ok")),
        Summary::Ping(ping) => (
            ping.transmitted,
            ping.transmitted.saturating_sub(ping.received),
        ),
        Summary::Throughput(_) | Summary::Path(_) | Summary::Imported(_) => (0, 0),
    }
}

/// The middle value, the mean of the two middle ones for an even number; `None` of nothing.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.retain(|value| value.is_finite());
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() {
        0 => None,
        n if n % 2 == 1 => Some(values[half]),
        _ => Some(f64::midpoint(values[half - 1], values[half])),
    }
}

/// The levels of an experiment and where they bend: of a search by its own verdicts, of a sweep over rates by the rule
/// of [`knee`].
pub fn curve(experiment: &Experiment, spec: &Spec) -> (Vec<Level>, Option<Knee>) {
    if let Spec::Capacity(search) = spec {
        let Some(found) = searched(experiment.capacity.as_ref()) else {
            return (Vec::new(), None);
        };
        let levels = search_levels(&found, search.settings().arrival);
        let bend = search_knee(&found, &levels);
        return (levels, bend);
    }
    let levels = levels(&experiment.points);
    let is_rate = spec
        .arms()
        .first()
        .is_some_and(|arm| matches!(arm.plan, Plan::Rate(_)));
    let bend = (is_rate && spec.fields() == ["rate"])
        .then(|| knee(&levels))
        .flatten();
    (levels, bend)
}

/// Between which two values a server stops keeping up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Knee {
    /// The highest value below which, and at which, all answered well.
    pub holds: f64,
    /// The next one, which did not.
    pub fails: f64,
    /// Median at the lowest value, in ms.
    pub base_ms: f64,
    /// Median at `fails` over the one at the lowest value; `None` where it has none.
    pub times: Option<f64>,
    /// Share of failed requests at `fails`.
    pub failed_share: f64,
}

/// Where it begins to bend: a level answers well when its median is at most twice that of the lowest level and none
/// of its requests failed. `None` where all do, or where not even the lowest does.
pub fn knee(levels: &[Level]) -> Option<Knee> {
    let base_ms = levels.first()?.p50_ms.filter(|base| *base > 0.0)?;
    let is_good = |level: &Level| {
        level.failed == 0 && level.p50_ms.is_some_and(|median| median <= TWICE * base_ms)
    };
    let bad = levels.iter().position(|level| !is_good(level))?;
    let (good, bad) = (levels.get(bad.checked_sub(1)?)?, &levels[bad]);
    Some(Knee {
        holds: good.x?,
        fails: bad.x?,
        base_ms,
        times: bad.p50_ms.map(|median| median / base_ms),
        failed_share: bad.failed_share().unwrap_or(0.0),
    })
}
