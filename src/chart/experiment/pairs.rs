//! Two plans in turn: the figures of each pair side by side, and the ratio of b to a with its interval.

use std::collections::BTreeMap;

use crate::chart::axis::{Axis, safe_range};
use crate::chart::canvas::{Anchor, Canvas};
use crate::chart::experiment::Study;
use crate::chart::labels::{EndLabel, write_end_labels};
use crate::chart::panel::{Frame, Panel};
use crate::chart::text::{count, figure as number};
use crate::chart::theme::{Manner, Pen, Role};
use crate::chart::{Figure, Form, Parts, Table, finish};

pub(crate) const NAME: &str = "paired";

/// Figures of a and b by pair.
type Pairs = BTreeMap<u32, [Option<f64>; 2]>;

pub(crate) fn figure(study: &Study<'_>) -> Figure {
    let mut pairs = Pairs::new();
    for point in study.ended() {
        let place = usize::from(point.point["arm"].as_str() == Some("b"));
        pairs.entry(point.repeat).or_default()[place] = Study::figure(point);
    }
    let complete = pairs
        .values()
        .filter(|pair| pair.iter().all(Option::is_some))
        .count();
    let parts = Parts {
        name: NAME,
        title: title(study),
        subtitle: format!(
            "Left: {} of a (●) and b (▲), pair by pair. Right: b ÷ a with its 95 % interval. n = {} of {} pairs",
            study.of.name(),
            count(complete as u64),
            count(pairs.len() as u64)
        ),
        desc: "The figures of both plans pair by pair, and their ratio with its interval."
            .to_owned(),
        table: table(study, &pairs),
        empty: study.nothing(),
        pair: false,
    };
    finish(parts, |form| draw(study, form, &pairs))
}

/// A ratio; small ones with one digit more.
fn times(ratio: f64) -> String {
    if ratio < 0.0995 {
        format!("{ratio:.3}")
    } else {
        number(ratio)
    }
}

fn title(study: &Study<'_>) -> String {
    let Some(ratio) = study.experiment.ratio else {
        return "No pair is complete".to_owned();
    };
    match (ratio.low, ratio.high) {
        (Some(low), Some(high)) if ratio.differs() == Some(true) => format!(
            "b has {} × the {} of a (95 %: {} to {})",
            times(ratio.b_to_a),
            study.of.name(),
            times(low),
            times(high)
        ),
        (Some(low), Some(high)) => format!(
            "No difference is shown: b has {} to {} × the {} of a",
            times(low),
            times(high),
            study.of.name()
        ),
        _ => format!(
            "One pair: b has {} × the {} of a",
            times(ratio.b_to_a),
            study.of.name()
        ),
    }
}

fn draw(study: &Study<'_>, form: Form, pairs: &Pairs) -> Canvas {
    let narrow = form.is_narrow();
    let (left, right) = if narrow { (62.0, 226.0) } else { (70.0, 560.0) };
    let bottom = 226.0;
    let canvas = Canvas::new(form.width(), 268);
    let frame = Frame {
        left,
        top: 28.0,
        right,
        bottom,
    };
    let known = || pairs.values().flatten().filter_map(|value| *value);
    let y = if study.of.is_time() {
        Axis::latency(known())
    } else {
        Axis::from_zero(known().fold(0.0, f64::max) * 1.1)
    };
    let last = pairs.keys().max().copied().unwrap_or(1);
    let x = Axis::Linear(0.4, f64::from(last) + 0.6);
    let panel = Panel::new(&canvas, frame, form.text_size(), x, y);
    panel.grid_y(&study.ticks(y, 5));
    panel.name_y(&study.axis_of_figure(y));
    let step = (right - left) / (f64::from(last) + 0.2);
    let off = (step * 0.18).min(10.0);
    let mut labels = Vec::new();
    for (number, pair) in pairs {
        let at = panel.at_x(f64::from(*number));
        let place = |value: f64, side: f64| (at + side * off, panel.at_y(value));
        if let [Some(a), Some(b)] = *pair {
            canvas.line(place(a, -1.0), place(b, 1.0), Pen::line(Role::Axis, 10));
        }
        if let Some(a) = pair[0] {
            canvas.dots(
                &[place(a, -1.0)],
                if step > 12.0 { 3.6 } else { 1.8 },
                Role::S1,
            );
        }
        if let Some(b) = pair[1] {
            let (x, y) = place(b, 1.0);
            canvas.text((x, y + 4.0), Anchor::Middle, Role::S2, "▲");
        }
        for (value, side) in pair.iter().zip([-1.0, 1.0]) {
            if value.is_none() {
                canvas.crosses(&[(at + side * off, bottom - 6.0)], Pen::line(Role::Bad, 20));
            }
        }
    }
    for (place, (name, role)) in [("a", Role::S1), ("b", Role::S2)].into_iter().enumerate() {
        let last = pairs.values().rev().find_map(|pair| pair[place]);
        if let Some(value) = last {
            labels.push(EndLabel::new(panel.at_y(value), role, name));
        }
    }
    write_end_labels(
        &canvas,
        right + 6.0,
        30.0,
        (frame.top - 8.0, bottom + 8.0),
        form.text_size(),
        labels,
    );
    let mut ticks = panel.x.number_ticks(if narrow { 3 } else { 8 });
    ticks.retain(|(value, _)| value.fract().abs() < 1e-9);
    panel.axis_x(&ticks, "pair");
    ratio(
        study,
        &canvas,
        form,
        if narrow {
            (268.0, 318.0)
        } else {
            (650.0, 760.0)
        },
        bottom,
    );
    canvas
}

/// The ratio on an axis of its own, with the line at 1.
fn ratio(study: &Study<'_>, canvas: &Canvas, form: Form, (left, right): (f64, f64), bottom: f64) {
    let Some(ratio) = study.experiment.ratio else {
        return;
    };
    let (low, high) = (
        ratio.low.unwrap_or(ratio.b_to_a).min(1.0),
        ratio.high.unwrap_or(ratio.b_to_a).max(1.0),
    );
    let room = ((high - low) * 0.15).max(0.02);
    let (from, to) = safe_range((low - room).max(0.0), high.min(1e6) + room);
    let frame = Frame {
        left,
        top: 28.0,
        right,
        bottom,
    };
    let panel = Panel::new(
        canvas,
        frame,
        form.text_size(),
        Axis::Linear(0.0, 1.0),
        Axis::Linear(from, to),
    );
    panel.grid_y(&panel.y.number_ticks(5));
    canvas.line((left, bottom), (right, bottom), Pen::line(Role::Axis, 10));
    canvas.text((left, 14.0), Anchor::Start, Role::Muted, "b ÷ a");
    let one = panel.at_y(1.0);
    canvas.line(
        (left, one),
        (right, one),
        Pen::line(Role::S2, 14).manner(Manner::Dashed),
    );
    let x = f64::midpoint(left, right);
    if let (Some(low), Some(high)) = (ratio.low, ratio.high) {
        let (y1, y2) = (panel.at_y(low), panel.at_y(high));
        canvas.line((x, y1), (x, y2), Pen::line(Role::S1, 22));
        for y in [y1, y2] {
            canvas.line((x - 7.0, y), (x + 7.0, y), Pen::line(Role::S1, 22));
        }
    }
    canvas.dots(&[(x, panel.at_y(ratio.b_to_a))], 4.5, Role::S1);
    let at = right + 6.0;
    write_end_labels(
        canvas,
        at,
        f64::from(form.width()) - at,
        (frame.top - 8.0, bottom + 8.0),
        form.text_size(),
        vec![
            EndLabel::new(
                panel.at_y(ratio.b_to_a),
                Role::S1,
                format!("× {}", times(ratio.b_to_a)),
            ),
            EndLabel::new(one, Role::S2, "1 = same"),
        ],
    );
}

fn table(study: &Study<'_>, pairs: &Pairs) -> Table {
    let unit = match study.of.column() {
        "bits_per_second" => "bit/s",
        "path_mtu" => "bytes",
        _ => "ms",
    };
    let name = |arm: &str| format!("{arm}: {}, {unit}", study.of.name());
    let value = |of: Option<f64>| of.map_or_else(|| "failed".to_owned(), number);
    Table::new(
        &["pair", &name("a"), &name("b"), "b ÷ a"],
        pairs.iter().map(|(pair, [a, b])| {
            let ratio = a
                .zip(*b)
                .filter(|(a, _)| *a > 0.0)
                .map(|(a, b)| times(b / a))
                .unwrap_or_default();
            vec![pair.to_string(), value(*a), value(*b), ratio]
        }),
    )
}
