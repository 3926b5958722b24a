//! What a run's course shows: a queue that grows, a pause in which nobody is answered, a backend that falls silent.

use crate::measure::series::{Bin, HttpSeries};
use crate::measure::verdict::facts::{Facts, Load};

/// Fewer requests than this show no trend.
const FEWEST: u64 = 20;

/// Latency that grows by this share of the time that passes: so much of the load is not served.
const SLOPE: f64 = 0.05;

/// Below this share of what was offered, a target does not keep up.
const KEEPS_UP: f64 = 0.95;

/// A time in which nobody was answered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pause {
    pub(super) from_s: f64,
    pub(super) length_s: f64,
}

/// A backend (or the whole target, with no name) that answers nobody to the end.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Silence {
    pub(super) name: Option<String>,
    pub(super) from_s: f64,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Patterns {
    /// Requests come faster than they are answered.
    pub(super) overloaded: bool,
    /// How fast the latency grows, in s per s, where it does.
    pub(super) growth: Option<f64>,
    pub(super) pause: Option<Pause>,
    pub(super) silence: Option<Silence>,
}

impl Patterns {
    pub(super) fn find(facts: &Facts<'_>, series: &HttpSeries) -> Self {
        if facts.tried() < FEWEST {
            return Self::default();
        }
        let last = series.bins.iter().rposition(|bin| bin.requests > 0);
        let planned = last.map_or(&[][..], |last| &series.bins[..=last]);
        let open = matches!(facts.load, Load::Open { .. });
        let growth = if open { growth(planned) } else { None };
        Self {
            overloaded: open && overloaded(facts, series, growth.is_some()),
            growth,
            pause: pause(facts, series),
            silence: silence(planned, series.bin_width_s),
        }
    }
}

/// Too little is answered, and the reason is waiting: latency grows, or reaches the timeout.
fn overloaded(facts: &Facts<'_>, series: &HttpSeries, grows: bool) -> bool {
    let (Some(offered), Some(achieved)) = (facts.offered, facts.achieved) else {
        return false;
    };
    if achieved >= KEEPS_UP * offered || facts.replies == 0 {
        return false;
    }
    let timeouts = facts.timeouts() as f64 / facts.tried() as f64;
    let slow_replies = series
        .percentiles_replies
        .iter()
        .rfind(|point| point.share <= 0.95)
        .and_then(|point| point.latency_ms)
        .is_some_and(|p95| p95 >= 500.0 * facts.timeout_s);
    grows || (timeouts >= 1.0 - KEEPS_UP && slow_replies)
}

/// The slope of the median or of the 95th percentile between the first and the last third of the send window.
fn growth(planned: &[Bin]) -> Option<f64> {
    let third = planned.len() / 3;
    if third == 0 {
        return None;
    }
    let between = planned[planned.len() - third].start_s - planned[0].start_s;
    let slope = |figure: fn(&Bin) -> Option<f64>| {
        let first = middle(planned[..third].iter().filter_map(figure))?;
        let last = middle(planned[planned.len() - third..].iter().filter_map(figure))?;
        let slope = (last - first) / 1000.0 / between;
        (slope >= SLOPE && last >= 1.5 * first).then_some(slope)
    };
    slope(|bin| bin.latency_ms.map(|band| band.p50))
        .or_else(|| slope(|bin| bin.latency_ms.map(|band| band.p95)))
}

fn middle(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// The longest time without a reply, where far more than one was due.
fn pause(facts: &Facts<'_>, series: &HttpSeries) -> Option<Pause> {
    let width = series.bin_width_s;
    let answered = |bin: &Bin| bin.ended_replies > 0;
    let first = series.bins.iter().position(answered)?;
    let last = series.bins.iter().rposition(answered)?;
    let (mut longest, mut length, mut end) = (0, 0, 0);
    for (index, bin) in series.bins[first..=last].iter().enumerate() {
        length = if answered(bin) { 0 } else { length + 1 };
        if length > longest {
            (longest, end) = (length, first + index + 1);
        }
    }
    let length_s = f64::from(longest) * width;
    let others_s = (last + 1 - first) as f64 * width - length_s;
    let expected = facts.replies as f64 / others_s.max(width) * length_s;
    // With random gaps, or users that fall into step, longer pauses come by chance.
    let enough = match facts.load {
        Load::Open { even: true } => 6.0,
        _ => 12.0,
    };
    let typical_s = facts.latency.median.unwrap_or(0.0) / 1000.0;
    (length_s >= 0.5 && expected >= enough && length_s >= 2.5 * typical_s).then_some(Pause {
        from_s: end as f64 * width - length_s,
        length_s,
    })
}

/// A name (or everybody) with replies first and none in the last fifth of the send window or longer.
fn silence(planned: &[Bin], width: f64) -> Option<Silence> {
    let mut names: Vec<Option<&str>> = vec![None];
    for name in planned.iter().flat_map(|bin| bin.served_by.keys()) {
        if !names.contains(&Some(name.as_str())) {
            names.push(Some(name));
        }
    }
    let mut silent = names.into_iter().filter_map(|name| {
        let replies = |bin: &Bin| match name {
            Some(name) => bin.served_by.get(name).copied().unwrap_or(0),
            None => bin.replies,
        };
        let last = planned.iter().rposition(|bin| replies(bin) > 0)?;
        let before: u64 = planned[..=last].iter().map(replies).sum();
        let quiet = planned.len() - last - 1;
        let expected = before as f64 / (last + 1) as f64 * quiet as f64;
        let asked: u64 = planned[last + 1..].iter().map(|bin| bin.requests).sum();
        let enough = quiet >= 3 && quiet * 5 >= planned.len() && before >= 10 && expected >= 10.0;
        // A step with both holds the moment: the rest of it was not answered either.
        let mixed = name.is_none() && last > 0 && planned[last].requests > planned[last].replies;
        (enough && asked >= 10).then(|| Silence {
            name: name.map(str::to_owned),
            from_s: (last + usize::from(!mixed)) as f64 * width,
        })
    });
    let first = silent.next()?;
    // Everybody comes first; of several backends none is named.
    (first.name.is_none() || silent.next().is_none()).then_some(first)
}
