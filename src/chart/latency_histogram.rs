//! How many requests took how long, in buckets that touch; what a timeout cut off is hatched.

use crate::chart::axis::Axis;
use crate::chart::canvas::{Anchor, Canvas};
use crate::chart::facts::Facts;
use crate::chart::labels::Placer;
use crate::chart::panel::{Frame, Panel};
use crate::chart::text::{self, count, ms};
use crate::chart::theme::{Pen, Role};
use crate::chart::{Figure, Form, Parts, Table, finish};
use crate::measure::series::HistogramBucket;

pub(crate) const NAME: &str = "latency-histogram";

pub(crate) fn figure(facts: &Facts<'_>) -> Figure {
    let buckets = buckets(facts);
    let total: u64 = buckets.iter().map(|bucket| bucket.count).sum();
    let empty = facts.nothing().or_else(|| {
        (total < 5).then(|| {
            let value = facts.latency().and_then(|latency| latency.median);
            match (total, value) {
                (1, Some(value)) => {
                    format!("1 request: {}. One value has no distribution.", ms(value))
                }
                _ => format!(
                    "{}: too few for a distribution.",
                    text::counted(total, "request")
                ),
            }
        })
    });
    let timeouts = if facts.timeouts > 0 {
        format!(", {} of them timeouts", count(facts.timeouts))
    } else {
        String::new()
    };
    let parts = Parts {
        name: NAME,
        title: title(facts),
        subtitle: format!(
            "Requests by latency, in {}. n = {}{timeouts}",
            text::counted(buckets.len() as u64, "bucket"),
            count(total)
        ),
        desc: "Number of requests in each bucket of latency.".to_owned(),
        table: table(&buckets),
        empty,
        pair: false,
    };
    finish(parts, |form| draw(facts, form, &buckets))
}

/// Buckets whose edges can be drawn.
fn buckets(facts: &Facts<'_>) -> Vec<HistogramBucket> {
    facts
        .series
        .histogram
        .iter()
        .copied()
        .filter(|bucket| {
            bucket.from_ms.is_finite()
                && bucket.to_ms.is_finite()
                && bucket.from_ms >= 0.0
                && bucket.to_ms > bucket.from_ms
        })
        .collect()
}

fn draw(facts: &Facts<'_>, form: Form, buckets: &[HistogramBucket]) -> Canvas {
    let (height, right) = match form {
        Form::Wide => (240, 876.0),
        Form::Pair | Form::Phone => (240, f64::from(form.width()) - 14.0),
    };
    let canvas = Canvas::new(form.width(), height);
    let most = buckets.iter().map(|bucket| bucket.count).max().unwrap_or(1);
    let widest = text::width(&count(most), form.text_size());
    let frame = Frame {
        left: (widest + 14.0).max(40.0),
        top: 44.0,
        right,
        bottom: 190.0,
    };
    let x = x_axis(buckets);
    let panel = Panel::new(
        &canvas,
        frame,
        form.text_size(),
        x,
        Axis::from_zero(most as f64 * 1.04),
    );
    panel.grid_y(&whole_ticks(panel.y));
    let mut left_out = facts.timeouts;
    for bucket in buckets.iter().rev().filter(|bucket| bucket.count > 0) {
        // Timeouts are the longest there are, so they fill buckets from the right.
        let censored = if bucket.to_ms >= facts.timeout_ms * 0.98 {
            left_out.min(bucket.count)
        } else {
            0
        };
        left_out -= censored;
        bar(&panel, bucket, censored);
    }
    let steps = if form.is_narrow() { 4 } else { 8 };
    let name = if x.is_log() {
        "latency, log scale"
    } else {
        "latency"
    };
    panel.axis_x(&x.latency_ticks(steps), name);
    panel.name_y("requests");
    marks(facts, &panel, buckets);
    canvas
}

fn x_axis(buckets: &[HistogramBucket]) -> Axis {
    let lowest = buckets
        .iter()
        .map(|bucket| bucket.from_ms)
        .fold(f64::INFINITY, f64::min);
    let highest = buckets
        .iter()
        .map(|bucket| bucket.to_ms)
        .fold(0.0, f64::max)
        .min(1e9);
    let first = buckets
        .iter()
        .map(|bucket| bucket.to_ms)
        .fold(f64::INFINITY, f64::min)
        .max(1e-3);
    // A first bucket from 0 has no place on a logarithmic axis; it is drawn half as wide as its upper edge.
    let lowest = lowest.min(first);
    let low = if lowest > 0.0 { lowest } else { first / 2.0 };
    if highest / low > 20.0 {
        Axis::Log(low, highest)
    } else {
        let room = (highest - lowest) * 0.03;
        let (from, to) = crate::chart::axis::safe_range((lowest - room).max(0.0), highest + room);
        Axis::Linear(from, to)
    }
}

/// Ticks of a count: whole numbers only.
fn whole_ticks(axis: Axis) -> Vec<(f64, String)> {
    axis.number_ticks(4)
        .into_iter()
        .filter(|(value, _)| value.fract().abs() < 1e-6)
        .collect()
}

fn bar(panel: &Panel, bucket: &HistogramBucket, censored: u64) {
    let (left, right) = (panel.at_x(bucket.from_ms), panel.at_x(bucket.to_ms));
    let wide = right - left;
    let gap = if wide > 6.0 {
        1.0
    } else if wide > 3.0 {
        0.5
    } else {
        0.0
    };
    let base = panel.frame.bottom;
    let top = panel.at_y(bucket.count as f64).min(base - 1.0);
    let replies = bucket.count - censored;
    let middle = if censored == 0 {
        top
    } else if replies == 0 {
        base
    } else {
        panel.at_y(replies as f64).min(base - 1.0)
    };
    let canvas = &panel.canvas;
    canvas.rect(
        left + gap,
        middle,
        wide - 2.0 * gap,
        base - middle,
        Pen::fill(Role::S1),
    );
    if censored > 0 {
        canvas.rect(
            left + gap,
            top,
            (wide - 2.0 * gap).max(2.0),
            middle - top,
            Pen::hatch(Role::Bad).outline(Role::Bad),
        );
    }
}

/// Median and tail as upright lines with their values, and the number of timeouts.
fn marks(facts: &Facts<'_>, panel: &Panel, buckets: &[HistogramBucket]) {
    let Some(latency) = facts.latency() else {
        return;
    };
    let Frame {
        left,
        top,
        right,
        bottom,
    } = panel.frame;
    let mut placer = Placer::new((left, 0.0, right + 10.0, bottom), panel.size);
    placer.avoid_box((
        left,
        0.0,
        left + text::width("requests", panel.size) + 4.0,
        18.0,
    ));
    for bucket in buckets.iter().filter(|bucket| bucket.count > 0) {
        let y = panel.at_y(bucket.count as f64);
        placer.avoid_box((
            panel.at_x(bucket.from_ms),
            y,
            panel.at_x(bucket.to_ms),
            bottom,
        ));
    }
    let p99 = latency.p99.filter(|_| facts.n >= 100);
    for (name, value) in [("p50", latency.median), ("p99", p99)] {
        let Some(value) = value.filter(|value| value.is_finite() && *value > 0.0) else {
            continue;
        };
        let censored = facts.timeouts > 0 && value >= facts.timeout_ms * 0.999;
        let x = panel.at_x(value);
        panel
            .canvas
            .line((x, top - 8.0), (x, bottom), Pen::line(Role::Ink, 10));
        let words = format!("{name} {}{}", if censored { "≥ " } else { "" }, ms(value));
        let anchors = [
            (x, top - 14.0, Anchor::Middle),
            (x - 2.0, top - 14.0, Anchor::End),
            (x + 2.0, top - 14.0, Anchor::Start),
            (x - 6.0, top + 6.0, Anchor::End),
            (x + 6.0, top + 6.0, Anchor::Start),
            (x + 6.0, top + 24.0, Anchor::Start),
        ];
        placer.write(&panel.canvas, &anchors, Role::Ink, &[words]);
    }
    if facts.timeouts > 0 {
        let x = panel.at_x(facts.timeout_ms);
        let words = text::counted(facts.timeouts, "timeout");
        let anchors = [
            (x - 12.0, top + 6.0, Anchor::End),
            (x - 12.0, top + 24.0, Anchor::End),
            (x - 12.0, f64::midpoint(top, bottom), Anchor::End),
            (x + 12.0, top + 24.0, Anchor::Start),
        ];
        placer.write(&panel.canvas, &anchors, Role::Bad, &[words]);
    }
}

fn title(facts: &Facts<'_>) -> String {
    const NEUTRAL: &str = "Requests by latency";
    let Some(latency) = facts.latency() else {
        return NEUTRAL.to_owned();
    };
    let at = |share: f64| {
        facts
            .series
            .percentiles_all
            .iter()
            .find(|point| point.share >= share)
            .filter(|point| !point.censored)
            .and_then(|point| point.latency_ms)
    };
    match (at(0.05), at(0.95), latency.p50) {
        (Some(low), Some(high), _) if facts.n >= 100 && low > 0.0 && high / low < 50.0 => {
            format!(
                "Nine in ten requests take between {} and {}",
                ms(low),
                ms(high)
            )
        }
        (_, _, Some(p50)) if facts.n >= 20 && facts.timeouts * 2 < facts.n => {
            format!("Half of the requests take at most {}", ms(p50))
        }
        _ => NEUTRAL.to_owned(),
    }
}

fn table(buckets: &[HistogramBucket]) -> Table {
    Table::new(
        &["from, ms", "to, ms", "requests"],
        buckets.iter().map(|bucket| {
            vec![
                text::figure(bucket.from_ms),
                text::figure(bucket.to_ms),
                count(bucket.count),
            ]
        }),
    )
}
