//! The guides of the servers: one of them, a region, two regions, and a region that fails.

use std::collections::BTreeMap;

use super::source;
use super::{
    Beside, Difference, Evidence, Manner, Stands, alone, compared, share_text, spot, times_text,
    told,
};
use crate::measure::experiment::{Level, curve, levels, median, searched, settled_at};
use crate::measure::summary::{RateSummary, Summary};
use crate::measure::units;
use crate::measure::verdict::words;

/// The step of the regional guide's sweep among the evidence of the global one.
pub const REGIONAL_SWEEP: &str = "regional-sweep";

/// Answers per second when there is always work: of the search, else of the closed loop.
pub(super) fn ceiling(found: &Evidence) -> Option<f64> {
    // A search whose time was over before the ceiling's step still has bounds of what holds.
    let searched = found
        .experiments
        .get("search")
        .and_then(|search| searched(search.capacity.as_ref()))
        .and_then(|found| {
            found
                .ceiling_per_s
                .or(found.upper_per_s)
                .or(found.lower_per_s)
        });
    searched
        .or_else(|| match found.run("users")?.summary.as_ref()? {
            Summary::Users(users) => users.transaction_rate_per_s,
            _ => None,
        })
        .filter(|rate| *rate > 0.0)
}

fn rate<'a>(found: &'a Evidence, step: &str) -> Option<&'a RateSummary> {
    match found.run(step)?.summary.as_ref()? {
        Summary::Rate(rate) => Some(rate),
        _ => None,
    }
}

/// Levels of a sweep over rates as (rate over the ceiling, median over the lowest level's).
fn bent(levels: &[Level], ceiling: Option<f64>) -> Vec<super::Spot> {
    let Some(base) = levels.iter().find_map(|level| level.p50_ms) else {
        return Vec::new();
    };
    // Without a ceiling the highest rate that was answered stands for it.
    let answered = levels.iter().filter_map(|level| level.achieved_per_s);
    let Some(ceiling) = ceiling.or_else(|| answered.reduce(f64::max)) else {
        return Vec::new();
    };
    levels
        .iter()
        .filter_map(|level| Some(spot(level.x? / ceiling, level.p50_ms? / base)))
        .filter(|spot| spot.x.is_finite() && spot.y.is_finite())
        .collect()
}

/// The value at the level that is nearest to this share of the ceiling, if one is near.
fn at(spots: &[super::Spot], x: f64) -> Option<f64> {
    spots
        .iter()
        .filter(|spot| super::near(spot.x, x))
        .min_by(|a, b| (a.x - x).abs().total_cmp(&(b.x - x).abs()))
        .map(|spot| spot.y)
}

pub(super) fn capacity(found: &Evidence) -> Beside {
    let lab_base = source::ONE_SERVER[0].1;
    let lab: Vec<_> = source::ONE_SERVER
        .iter()
        .map(|(rate, median, _)| spot(rate / source::CEILING_PER_S, median / lab_base))
        .collect();
    let ceiling = ceiling(found);
    let sweep = found
        .experiments
        .get("sweep")
        .map(|sweep| levels(&sweep.points))
        .unwrap_or_default();
    let own = bent(&sweep, ceiling);
    let above = own
        .iter()
        .filter(|spot| spot.x > 1.1)
        .map(|spot| spot.y)
        .reduce(f64::max);
    let below = at(&own, lab[1].x);
    let failed = sweep
        .iter()
        .filter(|level| {
            ceiling
                .zip(level.x)
                .is_some_and(|(ceiling, x)| x > 1.1 * ceiling)
        })
        .filter_map(Level::failed_share)
        .reduce(f64::max);
    let errors = source::ONE_SERVER[3].2 as f64 / source::CONNECTIONS;
    let unloaded = found
        .run("fetch")
        .and_then(|run| match run.summary.as_ref()? {
            Summary::Fetch(fetch) => fetch.total_ms,
            _ => None,
        });
    let growth = lab[2].y;
    let rows = vec![
        compared(
            "latency at 0.9 of the ceiling, over the unloaded",
            lab[1].y,
            below,
            times_text,
            "A queue below the ceiling: the work is uneven, or the server shares its cores.",
        ),
        Difference {
            figure: "largest median above the ceiling, over the unloaded",
            lab: times_text(growth),
            own: above.map(times_text).unwrap_or_default(),
            // How long it grows is a matter of the step's length: an order of magnitude is what counts.
            stands: above.map_or(Stands::Open, |own| {
                if own >= 2.0 {
                    Stands::Alike
                } else {
                    Stands::Differs
                }
            }),
            says: match above {
                None => "not measured yet".to_owned(),
                Some(own) if own >= 2.0 => {
                    "it multiplies, as there; by how much depends on how long the load lasts".to_owned()
                }
                Some(_) => "It does not: the rates were not above the ceiling, or the steps too short for a queue.".to_owned(),
            },
        },
        compared(
            "failed above the ceiling",
            errors,
            failed,
            share_text,
            "The lab's server resets when 45 wait; this one queues or refuses, as it is set.",
        ),
        compared(
            "ceiling",
            source::CEILING_PER_S,
            ceiling,
            words::rate,
            "Another machine: the chart is drawn in shares of it.",
        ),
        alone(
            "one request",
            unloaded.map(words::time),
            "the lab's took 395 ms",
        ),
    ];
    Beside {
        title: told(
            &rows,
            "In the source lab the median at 7 a second is 22 times that at 5",
        ),
        what: "Median latency over that at the lowest rate, by offered rate over the ceiling that was found",
        x_name: "offered rate over the ceiling",
        y_name: "times the unloaded",
        manner: Manner::Line,
        lab,
        own,
        rows,
        ..Beside::default()
    }
}

pub(super) fn regional(found: &Evidence) -> Beside {
    let lab_ceiling = source::SERVERS_OF_REGION * source::CEILING_PER_S;
    let lab_base = source::ONE_SERVER[0].1;
    let lab: Vec<_> = source::REGION
        .iter()
        .map(|(rate, latency)| spot(rate / lab_ceiling, latency / lab_base))
        .collect();
    let one = ceiling(found);
    let region = one.map(|one| one * source::SERVERS_OF_REGION);
    let sweep = found.experiments.get("sweep");
    let steps = sweep.map(|sweep| levels(&sweep.points)).unwrap_or_default();
    let own = bent(&steps, region);
    let bend = sweep.and_then(|sweep| curve(sweep, &sweep.design()?).1);
    let knee = bend
        .zip(region)
        .map(|(bend, region)| f64::midpoint(bend.holds, bend.fails) / region);
    let lab_knee = f64::midpoint(source::REGION_KNEE.0, source::REGION_KNEE.1) / lab_ceiling;
    let growth = own
        .iter()
        .map(|spot| spot.y)
        .reduce(f64::max)
        .filter(|_| own.iter().any(|spot| spot.x > 1.05));
    let rows = vec![
        compared(
            "where it bends, over three times one server",
            lab_knee,
            knee,
            units::significant,
            "The lab's servers were uneven; with equal ones it bends close to 1.",
        ),
        compared(
            "largest latency over the unloaded",
            lab[1].y,
            growth,
            times_text,
            "By how much depends on how long the load lasts.",
        ),
        alone(
            "one server's ceiling",
            one.map(words::rate),
            "the lab's holds about 5 a second",
        ),
    ];
    Beside {
        title: told(
            &rows,
            "In the source lab three servers bend at 12 to 13 requests a second",
        ),
        what: "Latency over the unloaded one, by offered rate over three times what one server answers. The lab states averages, yours are medians",
        x_name: "offered rate over three times one server's ceiling",
        y_name: "times the unloaded",
        manner: Manner::Line,
        lab,
        own,
        rows,
        ..Beside::default()
    }
}

/// The median at each rate of a sweep, in ms.
fn medians(found: &Evidence, step: &str) -> Vec<super::Spot> {
    let sweep = found.experiments.get(step);
    sweep
        .map(|sweep| levels(&sweep.points))
        .unwrap_or_default()
        .iter()
        .filter_map(|level| Some(spot(level.x?, level.p50_ms?)))
        .collect()
}

/// At the highest rate that both sweeps tried: the rate, the region's median, that of both regions.
fn apart(found: &Evidence) -> Option<(f64, f64, f64)> {
    let (one, both) = (medians(found, REGIONAL_SWEEP), medians(found, "sweep"));
    one.iter()
        .filter_map(|one| {
            let same = |other: &&super::Spot| (other.x - one.x).abs() < 1e-9 * one.x.max(1.0);
            Some((one.x, one.y, both.iter().find(same)?.y))
        })
        .max_by(|a, b| a.0.total_cmp(&b.0))
}

/// Both sweeps in one chart; `None` until both were made.
pub(super) fn both(found: &Evidence) -> Option<Beside> {
    let (one, two) = (medians(found, REGIONAL_SWEEP), medians(found, "sweep"));
    if one.is_empty() || two.is_empty() {
        return None;
    }
    Some(Beside {
        title: match apart(found) {
            Some((rate, one, two)) => format!(
                "At {}: {} by one region, {} by both",
                words::rate(rate),
                words::time(one),
                words::time(two)
            ),
            None => "One region and both".to_owned(),
        },
        what: "Median latency by offered rate, of the regional sweep and of the one through the global front",
        x_name: "offered requests per second",
        y_name: "median in ms",
        names: ("one region", "both"),
        lab: one,
        own: two,
        ..Beside::default()
    })
}

#[expect(clippy::too_many_lines, reason = "one figure after the other")]
pub(super) fn overflow(found: &Evidence) -> Beside {
    let lab: Vec<_> = source::GLOBAL_MEDIANS_MS
        .iter()
        .enumerate()
        .map(|(place, median)| spot(place as f64 + 1.0, median / source::GLOBAL_BELOW_MS))
        .collect();
    let below = rate(found, "below");
    let base = below.and_then(|below| below.latency_ms.median);
    let series = found.experiments.get("series");
    let medians: Vec<(f64, f64)> = series
        .map(|series| {
            series
                .points
                .iter()
                .filter_map(|point| match point.summary.as_ref()? {
                    Summary::Rate(rate) => Some((f64::from(point.repeat), rate.latency_ms.median?)),
                    _ => None,
                })
                .collect()
        })
        .unwrap_or_default();
    // Without a run below the cap the lowest median of the series stands for it.
    let base = base.or_else(|| medians.iter().map(|(_, median)| *median).reduce(f64::min));
    let own: Vec<_> = base
        .filter(|base| *base > 0.0)
        .map(|base| {
            medians
                .iter()
                .map(|(repeat, median)| spot(*repeat, median / base))
                .collect()
        })
        .unwrap_or_default();
    let settled = series.and_then(|series| series.settled_at);
    let lab_settled = settled_at(&source::GLOBAL_MEDIANS_MS.map(Some)).unwrap_or(0);
    let share = |summary: &RateSummary| {
        let of = |name: &str| summary.regions.get(name).map_or(0, |region| region.replies);
        let all: u64 = summary.regions.values().map(|region| region.replies).sum();
        (all > 0).then(|| (all - of("region1")) as f64 / all as f64)
    };
    let shares: Vec<f64> = series
        .into_iter()
        .flat_map(|series| &series.points)
        .filter_map(|point| match point.summary.as_ref()? {
            Summary::Rate(rate) => share(rate),
            _ => None,
        })
        .collect();
    let each: Vec<String> = shares.iter().map(|part| share_text(*part)).collect();
    let each = (!each.is_empty()).then(|| each.join(", "));
    let rows = vec![
        Difference {
            figure: "settled at repeat",
            lab: lab_settled.to_string(),
            own: settled.map(|at| at.to_string()).unwrap_or_default(),
            stands: match settled {
                None => Stands::Open,
                Some(at) if at == lab_settled => Stands::Alike,
                Some(_) => Stands::Differs,
            },
            says: match (settled, series) {
                (Some(at), _) if at == lab_settled => "as there".to_owned(),
                (Some(at), _) if at < lab_settled => {
                    "Earlier: this balancer acts on the rate at once, the lab's learns over minutes.".to_owned()
                }
                (Some(_), _) => "Later than there: repeat it more often.".to_owned(),
                (None, Some(_)) => "Not settled: the last medians still differ by 10 % or more.".to_owned(),
                (None, None) => "not measured yet".to_owned(),
            },
        },
        compared(
            "last median over the one below the cap",
            lab[4].y,
            own.last().map(|spot| spot.y),
            times_text,
            "What is left is the way to the other region and its own load.",
        ),
        compared(
            "one region over both, at the highest rate",
            source::AT_TWENTY_MS.0 / source::AT_TWENTY_MS.1,
            apart(found)
                .filter(|(.., both)| *both > 0.0)
                .map(|(_, one, both)| one / both),
            times_text,
            "By how much depends on how long the load lasts.",
        ),
        alone(
            "answered by other regions, below the cap",
            below.and_then(share).map(share_text),
            "nothing should spill; the lab could not see it",
        ),
        alone(
            "answered by other regions, repeat by repeat",
            each,
            "about half in the end; the lab could not see it",
        ),
    ];
    Beside {
        title: told(
            &rows,
            "In the source lab the medians fall from 7.4 s to 0.67 s while the balancer learns",
        ),
        what: "Median of each repeat over that below the cap",
        x_name: "repeat",
        y_name: "times the median below the cap",
        manner: Manner::Line,
        lab,
        own,
        rows,
        ..Beside::default()
    }
}

/// Regions with their shares of the replies.
fn regions(replies: &BTreeMap<String, u64>) -> String {
    let all: u64 = replies.values().sum();
    let shares: Vec<String> = replies
        .iter()
        .filter(|(_, replies)| **replies > 0)
        .map(|(region, replies)| {
            let share = share_text(*replies as f64 / all.max(1) as f64);
            format!("{region} {share}")
        })
        .collect();
    shares.join(", ")
}

pub(super) fn failure(found: &Evidence) -> Beside {
    let errors = |step: &str| {
        let rate = rate(found, step)?;
        let ok = rate.outcomes.get("ok").copied().unwrap_or(0);
        Some((rate.planned.saturating_sub(ok), rate.planned))
    };
    let text = |step: &str| {
        errors(step)
            .map(|(failed, all)| format!("{} of {}", words::count(failed), words::count(all)))
    };
    let latencies = ["steady", "kill", "drain"]
        .map(|step| rate(found, step).and_then(|rate| Some((step, rate.latency_ms.median?))));
    let base = median(
        latencies
            .iter()
            .flatten()
            .filter(|(step, _)| *step == "steady")
            .map(|(_, median)| *median)
            .collect(),
    );
    let own = errors("kill")
        .into_iter()
        .chain(errors("drain"))
        .zip(["kill", "drain"])
        .map(|((failed, all), step)| super::bar(step, failed as f64 / all.max(1) as f64 * 100.0))
        .collect();
    let rows = vec![
        alone("failed, everything up", text("steady"), "none should"),
        alone(
            "failed while a region died",
            text("kill"),
            "until the balancer has marked it down",
        ),
        alone(
            "time to recover",
            found.recoveries.get("kill").map(|kill| match kill.took_s {
                Some(took) if took > 0.0 => format!(
                    "{} ± {}",
                    words::seconds(took),
                    words::seconds(kill.exact_s)
                ),
                Some(_) => "nothing failed".to_owned(),
                None => "not before the run ended".to_owned(),
            }),
            "from the first request that failed to the next good one after the last",
        ),
        alone(
            "answered after it by",
            found
                .recoveries
                .get("kill")
                .map(|kill| regions(&kill.after))
                .filter(|text| !text.is_empty()),
            "all of it by the region that is left",
        ),
        alone(
            "failed while a backend drained",
            text("drain"),
            "none should",
        ),
        alone(
            "median latency, everything up",
            base.map(words::time),
            "for comparison",
        ),
    ];
    Beside {
        title: match errors("kill") {
            Some((failed, all)) => format!(
                "The dying region cost {} of {} requests",
                words::count(failed),
                words::count(all)
            ),
            None => "A region dies, and the other one answers".to_owned(),
        },
        what: "Requests that failed, in per cent",
        x_name: "drill",
        y_name: "% failed",
        manner: Manner::Bars,
        lab: Vec::new(),
        own,
        rows,
        ..Beside::default()
    }
}
