//! Latency over the planned send time: every request as a dot up to 400 of them, else median and band in steps.

use std::fmt::Write as _;

use crate::chart::axis::{Axis, safe_range};
use crate::chart::canvas::{Anchor, Canvas};
use crate::chart::facts::{self, Facts};
use crate::chart::labels::{EndLabel, write_end_labels};
use crate::chart::panel::{Frame, Panel};
use crate::chart::text::{self, ms, percent, seconds};
use crate::chart::theme::{Manner, Pen, Role};
use crate::chart::{Figure, Form, Parts, Table, finish, steps};
use crate::measure::run::State;
use crate::measure::series::{BandMs, Bin, Dot};
use crate::measure::summary::Distribution;

pub(crate) const NAME: &str = "latency-over-time";

/// Up to this many requests each one is drawn.
const MOST_DOTS: u64 = 400;

pub(crate) fn figure(facts: &Facts<'_>) -> Figure {
    let from = if facts.is_open_loop() {
        "Latency from the planned send time"
    } else {
        "Latency from the send"
    };
    let n = facts.n_in_words();
    let subtitle = if dots(facts).is_some() {
        format!("{from}, every request. {n}")
    } else {
        let width = seconds(facts.series.bin_width_s);
        format!("{from}, in steps of {width}: p50, and the band from p5 to p95. {n}")
    };
    let parts = Parts {
        name: NAME,
        title: title(facts),
        desc: format!("{subtitle}. Failed requests are crosses at the upper edge."),
        subtitle,
        table: table(facts),
        empty: facts.nothing(),
        pair: false,
    };
    finish(parts, |form| draw(facts, form))
}

/// The requests to draw one by one, where they are few enough.
fn dots<'a>(facts: &Facts<'a>) -> Option<&'a [Dot]> {
    facts
        .series
        .dots
        .as_deref()
        .filter(|_| facts.n <= MOST_DOTS)
}

fn draw(facts: &Facts<'_>, form: Form) -> Canvas {
    let (height, frame) = match form {
        Form::Phone | Form::Pair => (
            270,
            Frame {
                left: 54.0,
                top: 26.0,
                right: 326.0,
                bottom: 230.0,
            },
        ),
        Form::Wide => (
            300,
            Frame {
                left: 62.0,
                top: 26.0,
                right: 788.0,
                bottom: 260.0,
            },
        ),
    };
    let canvas = Canvas::new(form.width(), height);
    let panel = axes(facts, &canvas, frame, form);
    wash(facts, &panel);
    if let Some((from, to, words)) = facts.not_measured(0.0) {
        panel.not_measured(from, to, &words);
    }
    let ticks = panel.y.latency_ticks(6);
    panel.grid_y(&ticks);
    let steps = if form.is_narrow() { 4 } else { 6 };
    panel.axis_x(&panel.x.clock_ticks(steps), facts.send_axis());
    panel.name_y(axis_name(&panel));

    let mut labels = limits(facts, &panel);
    match dots(facts) {
        Some(dots) => labels.extend(draw_dots(facts, &panel, dots)),
        None => labels.extend(draw_band(facts, &panel)),
    }
    crosses(facts, &panel, form);
    let x = frame.right + 9.0;
    let room = f64::from(form.width()) - x;
    write_end_labels(
        &canvas,
        x,
        room,
        (frame.top, frame.bottom + 8.0),
        form.text_size(),
        labels,
    );
    canvas
}

fn axes(facts: &Facts<'_>, canvas: &Canvas, frame: Frame, form: Form) -> Panel {
    let mut values: Vec<f64> = match dots(facts) {
        Some(dots) => dots
            .iter()
            .filter(has_latency)
            .map(|dot| dot.latency_ms)
            .collect(),
        None => facts
            .series
            .bins
            .iter()
            .filter_map(|bin| bin.latency_ms)
            .flat_map(|band| [band.p5, band.p50, band.p95, band.max])
            .collect(),
    };
    let most = values
        .iter()
        .copied()
        .filter(|value| value.is_finite())
        .fold(0.0, f64::max);
    // A limit far above the data would flatten it, so it only widens the axis where it is near.
    values.extend(
        facts
            .limits
            .iter()
            .map(|limit| limit.1)
            .filter(|limit| *limit < most * 4.0),
    );
    let (_, to) = safe_range(0.0, span(facts));
    Panel::new(
        canvas,
        frame,
        form.text_size(),
        Axis::Linear(0.0, to),
        Axis::latency(values.into_iter()),
    )
}

/// End of the x axis in s.
fn span(facts: &Facts<'_>) -> f64 {
    match dots(facts) {
        Some(dots) => {
            let last = dots
                .iter()
                .map(|dot| dot.at_s)
                .filter(|at| at.is_finite())
                .fold(0.0, f64::max);
            let last = if last > 0.0 { last * 1.02 } else { 1.0 };
            facts
                .not_measured(last)
                .map_or(last, |(_, planned, _)| planned)
        }
        None => facts.span(|bin| bin.requests > 0),
    }
}

/// Whether the latency is a time: what failed otherwise than by timeout has an age, not a latency.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the form that filters ask for"
)]
fn has_latency(dot: &&Dot) -> bool {
    (dot.outcome.is_reply() || dot.outcome.is_timeout()) && dot.latency_ms.is_finite()
}

/// A red ground where requests were lost, unless that is everywhere in pieces.
fn wash(facts: &Facts<'_>, panel: &Panel) {
    let spans = steps::failing_spans(facts);
    if spans.len() > 12 {
        return;
    }
    let Frame { top, bottom, .. } = panel.frame;
    for (from, to) in spans {
        let (left, right) = (panel.at_x(from), panel.at_x(to));
        panel.canvas.rect(
            left,
            top,
            right - left,
            bottom - top,
            Pen::fill(Role::Bad).opacity(0.09),
        );
    }
}

/// Stated limits as dashed lines.
fn limits(facts: &Facts<'_>, panel: &Panel) -> Vec<EndLabel> {
    let Frame {
        left, right, top, ..
    } = panel.frame;
    facts
        .limits
        .iter()
        .filter(|(_, limit)| (0.001..0.999).contains(&panel.y.place(*limit)))
        .map(|(words, limit)| {
            let y = panel.at_y(*limit);
            panel.canvas.line(
                (left, y),
                (right, y),
                Pen::line(Role::S2, 14).manner(Manner::Dashed),
            );
            EndLabel::new(y.max(top), Role::S2, words.clone())
        })
        .collect()
}

fn draw_dots(facts: &Facts<'_>, panel: &Panel, dots: &[Dot]) -> Vec<EndLabel> {
    let shown: Vec<&Dot> = dots.iter().filter(has_latency).collect();
    let median = facts.latency().and_then(|latency| latency.median);
    let mut labels = Vec::new();
    let is_shown = |median: &f64| {
        let censored = facts.timeouts > 0 && *median >= facts.timeout_ms * 0.999;
        facts.n >= 5 && median.is_finite() && !censored
    };
    if let Some(median) = median.filter(is_shown) {
        let y = panel.at_y(median);
        panel.canvas.line(
            (panel.frame.left, y),
            (panel.at_x(facts.series.covers_s.min(span(facts))), y),
            Pen::line(Role::S1, 12).opacity(0.6),
        );
        labels.push(EndLabel::new(y, Role::S1, format!("p50 {}", ms(median))));
    }
    let radius = if shown.len() > 120 { 2.2 } else { 3.2 };
    let points: Vec<(f64, f64)> = shown
        .iter()
        .filter(|dot| !dot.outcome.is_timeout())
        .map(|dot| (panel.at_x(dot.at_s), panel.at_y(dot.latency_ms)))
        .collect();
    panel.canvas.dots(&points, radius, Role::S1);
    if shown.iter().any(|dot| dot.outcome.is_timeout()) {
        let y = panel.at_y(facts.timeout_ms);
        let words = format!("≥ {}", ms(facts.timeout_ms));
        labels.push(EndLabel::new(y, Role::Bad, words).more(timeout_words(panel)));
    }
    if let ([only], 1) = (shown.as_slice(), facts.n) {
        let (x, y) = (
            panel.at_x(only.at_s) + 8.0,
            panel.at_y(only.latency_ms) + 4.0,
        );
        panel
            .canvas
            .strong((x, y), Anchor::Start, Role::Ink, &ms(only.latency_ms));
    }
    labels
}

/// One figure of a band.
type Of = fn(&BandMs) -> f64;

fn draw_band(facts: &Facts<'_>, panel: &Panel) -> Vec<EndLabel> {
    let stretches = steps::stretches(facts);
    let half = facts.series.bin_width_s / 2.0;
    let with_tail = stretches
        .iter()
        .flatten()
        .any(|(_, band)| band.max > band.p95 * 1.3);
    // A step alone becomes as wide as it is.
    let wide: Vec<steps::Stretch> = stretches
        .iter()
        .map(|stretch| match stretch.as_slice() {
            [(at, band)] => vec![(at - half, *band), (at + half, *band)],
            _ => stretch.clone(),
        })
        .collect();
    let line = |stretch: &steps::Stretch, of: Of| -> Vec<(f64, f64)> {
        stretch.iter().map(|(at, band)| (*at, of(band))).collect()
    };
    for stretch in &wide {
        let (upper, lower) = (
            line(stretch, |band| band.p95),
            line(stretch, |band| band.p5),
        );
        panel.band(&upper, &lower, Pen::fill(Role::S1).opacity(0.17));
    }
    let max = Pen::line(Role::S1, 8).opacity(if with_tail { 0.55 } else { 0.0 });
    let lines: [(Of, Pen); 3] = [
        (|band| band.max, max),
        (|band| band.p95, Pen::line(Role::S1, 15)),
        (|band| band.p50, Pen::line(Role::S1, 26)),
    ];
    for (of, pen) in lines.into_iter().filter(|(_, pen)| pen.opacity > 0.0) {
        for stretch in &wide {
            panel.line(&line(stretch, of), pen);
        }
    }
    let Some((_, last)) = stretches.last().and_then(|stretch| stretch.last()) else {
        return Vec::new();
    };
    let figures = facts.latency();
    let whole = |of: fn(&Distribution) -> Option<f64>| figures.and_then(of);
    let mut labels = vec![
        end_label(facts, panel, "p95", last.p95, whole(|figures| figures.p95)),
        end_label(
            facts,
            panel,
            "p50",
            last.p50,
            whole(|figures| figures.median),
        ),
    ];
    if with_tail && panel.at_y(last.p95) - panel.at_y(last.max) > 12.0 {
        labels.push(end_label(facts, panel, "max", last.max, None));
    }
    labels
}

/// The name of a line with the whole run's figure where the line ends near it, else with its last value, said so.
fn end_label(
    facts: &Facts<'_>,
    panel: &Panel,
    name: &str,
    last: f64,
    whole: Option<f64>,
) -> EndLabel {
    let y = panel.at_y(last);
    let whole = whole.filter(|whole| (0.8..=1.25).contains(&(whole / last)));
    let value = whole.unwrap_or(last);
    let label = EndLabel::new(y, Role::S1, format!("{name} {}", ms(value)));
    if facts.timeouts > 0 && value >= facts.timeout_ms * 0.999 {
        label.more(timeout_words(panel))
    } else if whole.is_none() && panel.frame.right > 400.0 {
        label.more("at the end")
    } else {
        label
    }
}

/// The name of the latency axis.
const fn axis_name(panel: &Panel) -> &'static str {
    if panel.y.is_log() {
        "latency, log scale"
    } else {
        "latency"
    }
}

/// What a value at the timeout is called, where there is little room and where there is more.
fn timeout_words(panel: &Panel) -> &'static str {
    if panel.frame.right < 400.0 {
        "timeout"
    } else {
        "= the timeout"
    }
}

/// Failures on the upper edge, as many as fit, with their number in words.
fn crosses(facts: &Facts<'_>, panel: &Panel, form: Form) {
    let half = facts.series.bin_width_s / 2.0;
    let times: Vec<f64> = match dots(facts) {
        Some(dots) => dots
            .iter()
            .filter(|dot| facts::is_failure(dot.outcome))
            .map(|dot| dot.at_s)
            .collect(),
        None => facts
            .series
            .bins
            .iter()
            .filter(|bin| facts::sum(bin, facts::is_failure) > 0)
            .map(|bin| bin.start_s + half)
            .collect(),
    };
    let marks: Vec<f64> = times
        .iter()
        .filter(|time| time.is_finite())
        .map(|time| panel.at_x(*time))
        .collect();
    let Some(first) = marks.iter().copied().min_by(f64::total_cmp) else {
        return;
    };
    let all = marks.len();
    let kept = steps::thin(marks, if form.is_narrow() { 7.2 } else { 9.0 });
    let y = panel.frame.top + 3.8;
    let points: Vec<(f64, f64)> = kept.iter().map(|x| (*x, y)).collect();
    panel.canvas.crosses(&points, Pen::line(Role::Bad, 18));

    let mut words = facts.failures_in_words();
    if dots(facts).is_none() && kept.len() == all && form == Form::Wide {
        let width = seconds(facts.series.bin_width_s);
        let _ = write!(words, ", one ✕ per {width} that had any");
    }
    let size = form.text_size();
    let wide = text::width(&words, size) * 1.06;
    let free = panel.frame.left + text::width(axis_name(panel), size) + 16.0;
    let most = f64::from(form.width()) - wide;
    let x = (first - 3.0).max(free).min(most).max(0.0);
    panel
        .canvas
        .strong((x, 14.0), Anchor::Start, Role::Bad, &words);
}

/// States the turning point, the slow stretch, the growth or the steadiness of the latency; unsure, it stays neutral.
fn title(facts: &Facts<'_>) -> String {
    const NEUTRAL: &str = "Latency over time";
    if facts.n == 0 {
        return NEUTRAL.to_owned();
    }
    if facts.n == 1 {
        let only = facts.latency().and_then(|latency| latency.median).map(ms);
        return match only {
            Some(value) if facts.failed == 0 => format!("The one request took {value}"),
            _ => "The one request failed".to_owned(),
        };
    }
    if facts.no_reply == facts.n {
        return format!("None of the {} requests was answered", text::count(facts.n));
    }
    if facts.state == State::Running {
        return "Latency so far".to_owned();
    }
    if let Some(words) = stopped(facts) {
        return words;
    }
    if let Some((from, to)) = steps::outage(facts) {
        return format!(
            "Nobody is answered from {} to {}",
            seconds(from),
            seconds(to)
        );
    }
    if let Some((from, share)) = steps::onset(facts) {
        return turning_point(facts, from, share);
    }
    let bins: Vec<(&Bin, BandMs)> = facts
        .series
        .bins
        .iter()
        .filter_map(|bin| Some((bin, bin.latency_ms?)))
        .collect();
    let medians: Vec<f64> = bins.iter().map(|(_, band)| band.p50).collect();
    let Some(overall) = middle(&medians).filter(|overall| *overall > 0.0 && bins.len() >= 8) else {
        return NEUTRAL.to_owned();
    };
    slow_stretch(facts, &bins, overall)
        .or_else(|| growth(&medians))
        .or_else(|| steadiness(facts, &medians, overall))
        .unwrap_or_else(|| NEUTRAL.to_owned())
}

/// A run that ended before its plan did says so first, and where it has a hole.
fn stopped(facts: &Facts<'_>) -> Option<String> {
    let (at, planned, _) = facts.not_measured(0.0)?;
    let after = format!("Stopped after {} of {}", seconds(at), seconds(planned));
    Some(match steps::outage(facts) {
        Some((from, to)) => format!(
            "{after}; no reply from {} to {}",
            seconds(from),
            seconds(to)
        ),
        None => after,
    })
}

/// What happens from the moment on at which failures begin and never cease.
fn turning_point(facts: &Facts<'_>, from: f64, share: f64) -> String {
    let from = seconds(from);
    let (one, many) = if facts.timeouts * 10 >= facts.no_reply * 9 {
        ("runs into the timeout", "run into the timeout")
    } else {
        ("fails", "fail")
    };
    if share > 0.97 {
        format!("From {from} on nobody is answered")
    } else if (0.31..=0.36).contains(&share) {
        format!("From {from} on every third request {one}")
    } else if (0.47..=0.53).contains(&share) {
        format!("From {from} on every second request {one}")
    } else {
        format!("From {from} on {} of the requests {many}", percent(share))
    }
}

/// One stretch, at most a quarter of the run, in which the median is at least five times as long.
fn slow_stretch(facts: &Facts<'_>, bins: &[(&Bin, BandMs)], overall: f64) -> Option<String> {
    let slow: Vec<usize> = (0..bins.len())
        .filter(|&index| bins[index].1.p50 > overall * 5.0)
        .collect();
    let (first, last) = (*slow.first()?, *slow.last()?);
    let length = last - first + 1;
    if length * 4 > bins.len() || slow.len() * 2 < length {
        return None;
    }
    let worst = slow
        .iter()
        .map(|&index| bins[index].1.max)
        .fold(0.0, f64::max);
    let from = bins[first].0.start_s;
    let to = bins[last].0.start_s + facts.series.bin_width_s;
    Some(format!(
        "A stall from {} to {}: up to {} instead of {}",
        seconds(from),
        seconds(to),
        ms(worst),
        ms(overall)
    ))
}

/// A median that at least doubles between the first and the last quarter, and never falls much between.
fn growth(medians: &[f64]) -> Option<String> {
    let quarter = medians.len() / 4;
    let quarters: Vec<f64> = (0..4)
        .filter_map(|index| middle(&medians[index * quarter..(index + 1) * quarter]))
        .collect();
    let [first, second, third, last] = quarters.as_slice() else {
        return None;
    };
    let rises = first * 1.1 < *second && second * 1.05 < *third && *third <= last * 1.05;
    (rises && last / first >= 2.0)
        .then(|| format!("The median grows from {} to {}", ms(*first), ms(*last)))
}

/// Medians of four quarters that agree within a fifth.
fn steadiness(facts: &Facts<'_>, medians: &[f64], overall: f64) -> Option<String> {
    let quarter = medians.len() / 4;
    let steady = (0..4)
        .filter_map(|index| middle(&medians[index * quarter..(index + 1) * quarter]))
        .all(|part| (0.8..=1.2).contains(&(part / overall)));
    let latency = facts.latency()?;
    let p50 = latency.median?;
    let tail = match (latency.p99, latency.max) {
        (Some(p99), _) if facts.n >= 100 => format!("p99 is {}", ms(p99)),
        (_, Some(max)) => format!("the slowest takes {}", ms(max)),
        _ => return None,
    };
    (steady && facts.no_reply == 0).then(|| format!("The median stays at {}; {tail}", ms(p50)))
}

fn middle(values: &[f64]) -> Option<f64> {
    let mut sorted: Vec<f64> = values
        .iter()
        .copied()
        .filter(|value| value.is_finite())
        .collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}

fn table(facts: &Facts<'_>) -> Table {
    let value = |of: Option<f64>| of.map(text::figure).unwrap_or_default();
    Table::new(
        &[
            "from, s", "requests", "replies", "failed", "p5, ms", "p50, ms", "p95, ms", "p99, ms",
            "max, ms",
        ],
        facts
            .series
            .bins
            .iter()
            .filter(|bin| bin.requests > 0)
            .map(|bin| {
                let band = bin.latency_ms;
                vec![
                    text::figure(bin.start_s),
                    text::count(bin.requests),
                    text::count(bin.replies),
                    text::count(facts::sum(bin, facts::is_failure)),
                    value(band.map(|band| band.p5)),
                    value(band.map(|band| band.p50)),
                    value(band.map(|band| band.p95)),
                    value(band.map(|band| band.p99)),
                    value(band.map(|band| band.max)),
                ]
            }),
    )
}
