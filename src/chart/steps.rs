//! Questions about steps of time: where a line must break, where failures begin, which marks fit.

use crate::chart::facts::{self, Facts};
use crate::chart::text;
use crate::measure::series::{BandMs, Bin};

/// One unbroken stretch of steps that have a latency: (middle in s, band).
pub(crate) type Stretch = Vec<(f64, BandMs)>;

/// Splits the steps where the line must break: a step whose requests have no latency, or steps without any request
/// where chance alone would not leave them empty.
pub(crate) fn stretches(facts: &Facts<'_>) -> Vec<Stretch> {
    let width = facts.series.bin_width_s;
    let filled = facts
        .series
        .bins
        .iter()
        .filter(|bin| bin.requests > 0)
        .count();
    let usual = facts.n as f64 / filled.max(1) as f64;
    let bridge = if usual >= 4.0 { 1.5 } else { 4.5 };
    let mut all: Vec<Stretch> = Vec::new();
    let mut open: Option<f64> = None;
    for bin in &facts.series.bins {
        let band = bin.latency_ms.filter(is_drawable);
        let Some(band) = band else {
            if bin.requests > 0 {
                open = None;
            }
            continue;
        };
        let joins = open.is_some_and(|last| bin.start_s - last <= width * bridge);
        let point = (bin.start_s + width / 2.0, band);
        match all.last_mut() {
            Some(stretch) if joins => stretch.push(point),
            _ => all.push(vec![point]),
        }
        open = Some(bin.start_s);
    }
    all
}

fn is_drawable(band: &BandMs) -> bool {
    [band.min, band.p5, band.p50, band.p95, band.p99, band.max]
        .iter()
        .all(|value| value.is_finite())
}

/// Where requests failed, as spans in s; short interruptions are bridged.
pub(crate) fn failing_spans(facts: &Facts<'_>) -> Vec<(f64, f64)> {
    let width = facts.series.bin_width_s;
    let mut spans: Vec<(f64, f64)> = Vec::new();
    for bin in &facts.series.bins {
        if facts::sum(bin, facts::is_lost) == 0 {
            continue;
        }
        let end = bin.start_s + width;
        match spans.last_mut() {
            Some(last) if bin.start_s - last.1 <= width * 2.5 => last.1 = end,
            _ => spans.push((bin.start_s, end)),
        }
    }
    spans
}

/// The one span in which nearly every request was lost while before and after it they were answered.
pub(crate) fn outage(facts: &Facts<'_>) -> Option<(f64, f64)> {
    let spans = failing_spans(facts);
    let [(from, to)] = spans.as_slice() else {
        return None;
    };
    let inside = |bin: &&Bin| bin.start_s >= *from && bin.start_s < *to;
    let bins = &facts.series.bins;
    let requests: u64 = bins.iter().filter(inside).map(|bin| bin.requests).sum();
    let lost: u64 = bins
        .iter()
        .filter(inside)
        .map(|bin| facts::sum(bin, facts::is_lost))
        .sum();
    let answered =
        |keep: &dyn Fn(&Bin) -> bool| bins.iter().any(|bin| keep(bin) && bin.replies > 0);
    let around = answered(&|bin| bin.start_s < *from) && answered(&|bin| bin.start_s >= *to);
    (around && lost >= 5 && lost * 10 >= requests * 9).then_some((*from, *to))
}

/// Time in s from which on failures never cease, with the share of the requests that failed from there on and
/// before it; `None` unless there is such a turning point inside the run.
pub(crate) fn onset(facts: &Facts<'_>) -> Option<(f64, f64)> {
    let bins: Vec<&Bin> = facts
        .series
        .bins
        .iter()
        .filter(|bin| bin.requests > 0)
        .collect();
    let failed = |bin: &&Bin| facts::sum(bin, facts::is_lost);
    let first = bins.iter().position(|bin| failed(bin) > 0)?;
    let (before, after) = bins.split_at(first);
    if before.len() < 5 || after.len() < 5 {
        return None;
    }
    let hit = after.iter().filter(|bin| failed(bin) > 0).count();
    let requests: u64 = after.iter().map(|bin| bin.requests).sum();
    let lost: u64 = after.iter().map(failed).sum();
    (hit * 10 >= after.len() * 8)
        .then(|| (bins[first].start_s, lost as f64 / requests.max(1) as f64))
}

/// How many steps make one column: at most so many columns, of a length that clocks like where there is one.
pub(crate) fn joined(width: f64, end: f64, most: f64) -> usize {
    const NICE: [f64; 16] = [
        0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0,
        3600.0,
    ];
    if !(width > 0.0 && width.is_finite() && end.is_finite()) {
        return 1;
    }
    let least = (end / most / width).ceil().max(1.0);
    let join = NICE
        .into_iter()
        .map(|nice| nice / width)
        .find(|join| *join >= least - 1e-9 && (join - join.round()).abs() < 1e-6)
        .unwrap_or(least);
    usize::try_from(text::whole(join))
        .unwrap_or(1)
        .clamp(1, 250)
}

/// Keeps marks at least this far apart.
pub(crate) fn thin(mut marks: Vec<f64>, apart: f64) -> Vec<f64> {
    marks.sort_by(f64::total_cmp);
    let mut kept: Vec<f64> = Vec::new();
    for mark in marks {
        if kept.last().is_none_or(|last| mark - last >= apart) {
            kept.push(mark);
        }
    }
    kept
}
