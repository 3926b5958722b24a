//! Average and largest figure of each value as bars, with how many runs stand behind them and the documented cap.

use crate::chart::axis::Axis;
use crate::chart::canvas::{Anchor, Canvas};
use crate::chart::experiment::Study;
use crate::chart::labels::{EndLabel, cut, write_end_labels};
use crate::chart::panel::{Frame, Panel};
use crate::chart::text::{self, count, figure as number};
use crate::chart::theme::{Manner, Pen, Role};
use crate::chart::{Figure, Form, Parts, Table, finish};
use crate::measure::experiment::Level;

pub(crate) const NAME: &str = "bars";

/// Bars that are drawn; the table has all.
const MOST_BARS: usize = 30;

pub(crate) fn figure(study: &Study<'_>) -> Figure {
    let capped = study
        .levels
        .iter()
        .any(|level| level.cap_bits_per_second.is_some());
    let hidden = study.levels.len().saturating_sub(MOST_BARS);
    let mut subtitle = format!(
        "{} of each value: wide bar the average over its runs, outlined bar the largest. {}",
        study.of.name(),
        study.n_in_words()
    );
    if capped {
        subtitle.push_str(". Dashed: documented cap of the sender");
    }
    if hidden > 0 {
        subtitle = format!(
            "{subtitle}. {} more values are in the table",
            count(hidden as u64)
        );
    }
    let mut letters = subtitle.chars();
    let subtitle: String = letters
        .next()
        .into_iter()
        .flat_map(char::to_uppercase)
        .chain(letters)
        .collect();
    let parts = Parts {
        name: NAME,
        title: title(study),
        subtitle,
        desc: "Bars of the average and the largest figure of each value.".to_owned(),
        table: table(study),
        empty: study.nothing(),
        pair: false,
    };
    finish(parts, |form| draw(study, form))
}

fn average(level: &Level) -> Option<f64> {
    let n = level.values.len();
    (n > 0).then(|| level.values.iter().sum::<f64>() / n as f64)
}

fn largest(level: &Level) -> Option<f64> {
    level.values.iter().copied().reduce(f64::max)
}

fn title(study: &Study<'_>) -> String {
    let means = || study.levels.iter().filter_map(|l| Some((average(l)?, l)));
    let most = means().max_by(|a, b| a.0.total_cmp(&b.0));
    let least = means().min_by(|a, b| a.0.total_cmp(&b.0));
    let (Some((high, most)), Some((low, least))) = (most, least) else {
        return "The figure of each value".to_owned();
    };
    // The label of two fields names them itself.
    let named = |level: &Level| match study.spec.fields().as_slice() {
        [field] => text::shorten(&format!("{field} {}", level.label), 30),
        _ => text::shorten(&level.label, 30),
    };
    if let Some(cap) = most.cap_bits_per_second.filter(|cap| *cap > 0.0) {
        return format!(
            "{} at {}, {} of the documented cap",
            study.text(high),
            named(most),
            text::percent(high / cap)
        );
    }
    if means().count() == 1 {
        return format!("{} at {}", study.text(high), named(most));
    }
    format!(
        "{} at {}, {} at {}",
        study.text(high),
        named(most),
        study.text(low),
        named(least)
    )
}

fn draw(study: &Study<'_>, form: Form) -> Canvas {
    let narrow = form.is_narrow();
    let (left, right) = if narrow { (62.0, 322.0) } else { (70.0, 772.0) };
    let frame = Frame {
        left,
        top: 28.0,
        right,
        bottom: 226.0,
    };
    let canvas = Canvas::new(form.width(), 286);
    let levels = &study.levels[..study.levels.len().min(MOST_BARS)];
    let most = levels
        .iter()
        .flat_map(|level| [largest(level), level.cap_bits_per_second])
        .flatten()
        .filter(|value| value.is_finite())
        .fold(0.0, f64::max);
    let x = Axis::Linear(0.0, levels.len().max(1) as f64);
    let y = Axis::from_zero(most * 1.1);
    let panel = Panel::new(&canvas, frame, form.text_size(), x, y);
    panel.grid_y(&study.ticks(y, 5));
    let step = (right - left) / levels.len().max(1) as f64;
    let (mut free, mut free_below) = (f64::NEG_INFINITY, f64::NEG_INFINITY);
    for (place, level) in levels.iter().enumerate() {
        let middle = panel.at_x(place as f64 + 0.5);
        bar(&panel, level, middle, step);
        let words = cut(&text::clean(&level.label), step.max(54.0) - 4.0, panel.size);
        let half = text::width(&words, panel.size) / 2.0;
        if middle - half >= free {
            canvas.text(
                (middle, frame.bottom + 18.0),
                Anchor::Middle,
                Role::Ink,
                &words,
            );
            free = middle + half + 5.0;
        }
        let n = format!("n={}", level.values.len());
        let half = text::width(&n, panel.size) / 2.0;
        if middle - half >= free_below {
            canvas.text(
                (middle, frame.bottom + 34.0),
                Anchor::Middle,
                Role::Muted,
                &n,
            );
            free_below = middle + half + 5.0;
        }
        if let Some(mean) = average(level).filter(|_| step > 62.0) {
            let top = panel.at_y(largest(level).unwrap_or(mean).max(mean));
            // Where the cap's line would run through the words, they stand above it.
            let cap = level.cap_bits_per_second.map(|cap| panel.at_y(cap));
            let top = cap
                .filter(|cap| (top - 18.0..=top + 2.0).contains(cap))
                .unwrap_or(top);
            canvas.strong(
                (middle, top - 6.0),
                Anchor::Middle,
                Role::Ink,
                &study.text(mean),
            );
        }
    }
    canvas.line(
        (left, frame.bottom),
        (right, frame.bottom),
        Pen::line(Role::Axis, 10),
    );
    canvas.text(
        (f64::midpoint(left, right), frame.bottom + 52.0),
        Anchor::Middle,
        Role::Muted,
        &study.axis(),
    );
    panel.name_y(&study.axis_of_figure(y));
    let cap = levels
        .iter()
        .rev()
        .find_map(|level| level.cap_bits_per_second);
    let labels = cap
        .map(|cap| EndLabel::new(panel.at_y(cap), Role::S2, "cap").more(study.text(cap)))
        .into_iter()
        .collect();
    let at = right + 9.0;
    let room = f64::from(form.width()) - at;
    write_end_labels(
        &canvas,
        at,
        room,
        (frame.top - 8.0, frame.bottom),
        form.text_size(),
        labels,
    );
    canvas
}

fn bar(panel: &Panel, level: &Level, middle: f64, step: f64) {
    let canvas = &panel.canvas;
    let bottom = panel.frame.bottom;
    let wide = (step * 0.36).clamp(2.0, 46.0);
    match (average(level), largest(level)) {
        (Some(mean), Some(most)) => {
            let y = panel.at_y(mean);
            canvas.rect(middle - wide, y, wide, bottom - y, Pen::fill(Role::S1));
            let y = panel.at_y(most);
            let pen = Pen::fill(Role::Sky).outline(Role::S1);
            canvas.rect(middle + 1.0, y, wide * 0.7, bottom - y, pen);
        }
        _ => canvas.text(
            (middle, bottom - 6.0),
            Anchor::Middle,
            Role::Bad,
            "✕ failed",
        ),
    }
    if let Some(cap) = level.cap_bits_per_second {
        let y = panel.at_y(cap);
        canvas.line(
            (middle - step * 0.46, y),
            (middle + step * 0.46, y),
            Pen::line(Role::S2, 18).manner(Manner::Dashed),
        );
    }
}

fn table(study: &Study<'_>) -> Table {
    let unit = match study.of.column() {
        "bits_per_second" => "bit/s",
        "path_mtu" => "bytes",
        _ => "ms",
    };
    Table::new(
        &[
            "value",
            "runs",
            &format!("average {}, {unit}", study.of.name()),
            &format!("largest, {unit}"),
            "documented cap, bit/s",
        ],
        study.levels.iter().map(|level| {
            let value = |of: Option<f64>| of.map(number).unwrap_or_default();
            vec![
                text::clean(&level.label),
                level.values.len().to_string(),
                average(level).map_or_else(|| "failed".to_owned(), number),
                value(largest(level)),
                value(level.cap_bits_per_second),
            ]
        }),
    )
}
