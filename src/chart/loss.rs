//! Datagrams that did not arrive, over time.

use crate::chart::axis::{Axis, safe_range};
use crate::chart::canvas::{Anchor, Canvas};
use crate::chart::flow::{Flow, joined};
use crate::chart::panel::{Frame, Panel};
use crate::chart::text::{self, count, counted, figure as number, ms, percent, seconds};
use crate::chart::theme::{Pen, Role};
use crate::chart::{Figure, Form, Parts, Table, finish};
use crate::measure::flow::Way;
use crate::measure::flow_series::FlowPoint;
use crate::measure::summary::flow::UdpFigures;

pub(crate) const NAME: &str = "loss";

pub(crate) fn figure(flow: &Flow<'_>) -> Figure {
    // Only a receiver counts what is missing, step by step.
    let way = [Way::Receive, Way::Send]
        .into_iter()
        .find(|way| flow.sum(*way).iter().any(|point| point.lost.is_some()));
    let points: Vec<FlowPoint> = way.map_or_else(Vec::new, |way| flow.sum(way));
    let lost: u64 = points.iter().map(missing).fold(0, u64::saturating_add);
    let all: u64 = points.iter().map(datagrams).fold(0, u64::saturating_add);
    let udp = flow.summary().and_then(|summary| summary.udp.as_ref());
    let empty = if points.is_empty() {
        Some(total_only(udp))
    } else {
        (lost == 0).then(|| format!("All {} arrived.", counted(all, "datagram")))
    };
    let jitter = udp
        .and_then(|udp| udp.jitter_ms)
        .filter(|jitter| jitter.is_finite())
        .map_or_else(String::new, |jitter| format!(" Jitter {}.", ms(jitter)));
    let parts = Parts {
        name: NAME,
        title: title(&points, lost, all),
        subtitle: format!(
            "Missing datagrams as a share of those sent, by the step in which the gap was seen: {} of {}.{jitter}{}",
            count(lost),
            count(all),
            flow.short_cuts()
        ),
        desc: "Bars of the share of datagrams lost over time.".to_owned(),
        table: Table::new(
            &["from, s", "to, s", "datagrams", "lost", "jitter, ms"],
            points.iter().map(|point| {
                vec![
                    number(point.from_s),
                    number(point.to_s),
                    count(datagrams(point)),
                    point
                        .lost
                        .map(|lost| number(lost as f64))
                        .unwrap_or_default(),
                    point
                        .jitter_ms
                        .filter(|jitter| jitter.is_finite())
                        .map(number)
                        .unwrap_or_default(),
                ]
            }),
        ),
        empty,
        pair: false,
    };
    let bars = joined(&points, 120);
    finish(parts, |form| draw(flow, form, &bars))
}

/// Missing ones; those that came late after all are not.
fn missing(point: &FlowPoint) -> u64 {
    u64::try_from(point.lost.unwrap_or(0)).unwrap_or(0)
}

fn datagrams(point: &FlowPoint) -> u64 {
    point.received.unwrap_or(0).saturating_add(missing(point))
}

fn share(point: &FlowPoint) -> f64 {
    missing(point) as f64 / datagrams(point).max(1) as f64
}

fn total_only(udp: Option<&UdpFigures>) -> String {
    match udp.and_then(|udp| udp.datagrams_lost.zip(udp.datagrams_received)) {
        Some((lost, got)) => format!(
            "The receiver tells its loss only at the end: {} of {}.",
            count(lost),
            counted(lost.saturating_add(got), "datagram")
        ),
        None => "The receiver did not tell what arrived.".to_owned(),
    }
}

fn draw(flow: &Flow<'_>, form: Form, bars: &[FlowPoint]) -> Canvas {
    let narrow = form.is_narrow();
    let frame = Frame {
        left: if narrow { 50.0 } else { 60.0 },
        top: 28.0,
        right: f64::from(form.width()) - if narrow { 12.0 } else { 160.0 },
        bottom: 148.0,
    };
    let canvas = Canvas::new(form.width(), 190);
    let most = bars.iter().map(share).fold(0.0, f64::max);
    let drawn = bars.iter().map(|bar| bar.to_s).fold(0.0, f64::max);
    let end = flow
        .not_measured()
        .map_or(drawn, |(_, to, _)| to.max(drawn));
    let (_, end) = safe_range(0.0, end);
    let panel = Panel::new(
        &canvas,
        frame,
        form.text_size(),
        Axis::Linear(0.0, end),
        // At least to 1 %, so that a trace of loss does not look like a wall.
        Axis::from_zero((most * 110.0).clamp(1.0, 100.0)),
    );
    panel.grid_y(&panel.y.number_ticks(3));
    if let Some((from, to, words)) = flow.not_measured() {
        panel.not_measured(from, to, &words);
    }
    let worst = bars
        .iter()
        .max_by(|a, b| share(a).total_cmp(&share(b)))
        .map(|bar| bar.from_s);
    for bar in bars.iter().filter(|bar| missing(bar) > 0) {
        let (from, to) = (panel.at_x(bar.from_s), panel.at_x(bar.to_s));
        let y = panel.at_y(share(bar) * 100.0);
        let gap = ((to - from) * 0.15).min(2.0);
        let wide = (to - from - gap * 2.0).max(0.8);
        canvas.rect(from + gap, y, wide, frame.bottom - y, Pen::fill(Role::Bad));
        if worst == Some(bar.from_s) && bars.len() > 1 {
            let words = percent(share(bar));
            let half = text::width(&words, panel.size) * 0.53;
            let x = f64::midpoint(from, to).clamp(frame.left + half, frame.right - half);
            let name_end = frame.left + text::width(AXIS, panel.size) + half + 8.0;
            // The axis' name keeps its place.
            let at = if y < 40.0 {
                (x.max(name_end), 14.0)
            } else {
                (x, y - 5.0)
            };
            canvas.strong(at, Anchor::Middle, Role::Bad, &words);
        }
    }
    panel.name_y(AXIS);
    let ticks = panel.x.clock_ticks(if narrow { 4 } else { 6 });
    panel.axis_x(&ticks, "time since the load began");
    canvas
}

/// Name of the upright axis.
const AXIS: &str = "lost, %";

fn title(points: &[FlowPoint], lost: u64, all: u64) -> String {
    if points.is_empty() {
        return "Loss of datagrams".to_owned();
    }
    if lost == 0 {
        return "No datagram was lost".to_owned();
    }
    let share = percent(lost as f64 / all.max(1) as f64);
    let worst = points.iter().max_by_key(|point| missing(point));
    match worst {
        Some(worst) if points.len() >= 3 && missing(worst) > lost / 2 => format!(
            "{share} of {} were lost, most from {} to {}",
            counted(all, "datagram"),
            seconds(worst.from_s),
            seconds(worst.to_s)
        ),
        _ => format!("{share} of {} were lost", counted(all, "datagram")),
    }
}
