//! Latency by what was offered: median, p90, p99 and largest, the knee shaded, and the share of failures below.

use crate::chart::axis::{Axis, safe_range};
use crate::chart::canvas::{Anchor, Canvas};
use crate::chart::experiment::Study;
use crate::chart::labels::{EndLabel, write_end_labels};
use crate::chart::panel::{Frame, Panel};
use crate::chart::text::{self, figure as number, ms, percent};
use crate::chart::theme::{Manner, Pen, Role};
use crate::chart::{Figure, Form, Parts, Table, finish};
use crate::measure::experiment::{ExperimentKind, Level};

pub(crate) const NAME: &str = "latency-vs-rate";

type Of = fn(&Level) -> Option<f64>;

/// The lines from the highest to the lowest, each with its word and pen.
const LINES: [(&str, Of, Pen); 3] = [
    (
        "p99",
        |level| level.p99_ms,
        Pen::line(Role::S4, 16).manner(Manner::Dotted),
    ),
    (
        "p90",
        |level| level.p90_ms,
        Pen::line(Role::S2, 16).manner(Manner::Dashed),
    ),
    ("p50", |level| level.p50_ms, Pen::line(Role::S1, 22)),
];

pub(crate) fn figure(study: &Study<'_>) -> Figure {
    let rule = if study.knee.is_none() {
        ""
    } else if study.experiment.kind == ExperimentKind::Capacity {
        " Shaded: between the highest rate that holds and the lowest that does not."
    } else {
        " Shaded: between the last value that is answered well (median at most twice the lowest one's, no failure) and the next."
    };
    let parts = Parts {
        name: NAME,
        title: title(study),
        subtitle: format!(
            "p50 thick, p90 dashed, p99 dotted, ▲ maximum; below, the share that failed. {}.{rule}",
            study.n_in_words()
        ),
        desc: format!(
            "Latency by {}, and the share of failed requests.",
            study.axis()
        ),
        table: table(study),
        empty: study.nothing(),
        pair: false,
    };
    finish(parts, |form| draw(study, form))
}

fn title(study: &Study<'_>) -> String {
    if let Some(knee) = study.knee {
        let flat = study.value(knee.holds);
        return match knee.times.filter(|times| *times > 2.0) {
            Some(times) => format!(
                "Latency holds up to {flat}; at {} the median is {} × as long",
                study.value(knee.fails),
                number(times)
            ),
            None => format!(
                "All is answered up to {flat}; at {} {} fail",
                study.value(knee.fails),
                percent(knee.failed_share)
            ),
        };
    }
    let ends: Vec<&Level> = study.measured().collect();
    if let ([first, .., last], Some(_)) = (ends.as_slice(), ends.first())
        && let (Some(low), Some(high), Some(x)) = (first.p50_ms, last.p50_ms, last.x)
        && low > 0.0
    {
        let times = high / low;
        if (0.5..=2.0).contains(&times) {
            return format!("The median stays near {} up to {}", ms(low), study.value(x));
        }
        return format!(
            "The median goes from {} to {} at {}",
            ms(low),
            ms(high),
            study.value(x)
        );
    }
    "Latency by what was offered".to_owned()
}

fn draw(study: &Study<'_>, form: Form) -> Canvas {
    let narrow = form.is_narrow();
    let (right, bottom, height) = if narrow {
        (312.0, 216.0, 350)
    } else {
        (760.0, 236.0, 366)
    };
    let left = 62.0;
    let frame = Frame {
        left,
        top: 28.0,
        right,
        bottom,
    };
    let below = Frame {
        left,
        top: bottom + 40.0,
        right,
        bottom: bottom + 84.0,
    };
    let canvas = Canvas::new(form.width(), height);
    let x = axis_x(study);
    let values = study
        .levels
        .iter()
        .flat_map(|level| [level.p50_ms, level.p90_ms, level.p99_ms, level.max_ms])
        .flatten();
    let panel = Panel::new(&canvas, frame, form.text_size(), x, Axis::latency(values));
    shade(study, &panel, below.bottom);
    panel.grid_y(&panel.y.latency_ticks(6));
    canvas.line((left, bottom), (right, bottom), Pen::line(Role::Axis, 10));
    panel.name_y(if panel.y.is_log() {
        "latency, log scale"
    } else {
        "latency"
    });
    let labels = lines(study, &panel);
    gaps(study, &panel);
    let at = right + 9.0;
    write_end_labels(
        &canvas,
        at,
        f64::from(form.width()) - at,
        (frame.top - 6.0, bottom + 8.0),
        form.text_size(),
        labels,
    );
    failures(study, &canvas, below, form);
    canvas
}

/// Values at their places, not as categories.
pub(crate) fn axis_x(study: &Study<'_>) -> Axis {
    let most = study
        .levels
        .iter()
        .filter_map(|level| level.x)
        .fold(0.0, f64::max);
    let least = study
        .levels
        .iter()
        .filter_map(|level| level.x)
        .fold(f64::INFINITY, f64::min);
    if least > 0.0 && most / least > 40.0 {
        return Axis::Log(least * 0.8, most * 1.2);
    }
    let room = if most > least {
        (most - least) * 0.06
    } else {
        most.abs().max(1.0) * 0.2
    };
    let from = if least.is_finite() {
        (least - room).max(0.0)
    } else {
        0.0
    };
    let (from, to) = safe_range(from, most + room);
    Axis::Linear(from, to)
}

fn shade(study: &Study<'_>, panel: &Panel, bottom: f64) {
    let Some(knee) = study.knee else { return };
    let (from, to) = (panel.at_x(knee.holds), panel.at_x(knee.fails));
    panel.canvas.rect(
        from,
        panel.frame.top,
        to - from,
        bottom - panel.frame.top,
        Pen::fill(Role::Orange).opacity(0.25),
    );
    let words = format!("{} – {}", number(knee.holds), number(knee.fails));
    let half = text::width(&words, panel.size) * 0.55;
    let middle = f64::midpoint(from, to)
        .min(panel.frame.right - half)
        .max(panel.frame.left + half);
    // Above the shade, unless the axis' name stands there.
    let named = panel.frame.left + text::width("latency, log scale", panel.size) + 8.0;
    let y = if middle - half > named {
        14.0
    } else {
        panel.frame.top + 14.0
    };
    panel
        .canvas
        .strong((middle, y), Anchor::Middle, Role::Ink, &words);
}

fn lines(study: &Study<'_>, panel: &Panel) -> Vec<EndLabel> {
    let mut labels = Vec::new();
    for (word, of, pen) in LINES {
        // A line breaks where a level in between has no figures.
        for stretch in study.levels.split(|level| of(level).is_none()) {
            let points: Vec<(f64, f64)> = stretch
                .iter()
                .filter_map(|level| Some((level.x?, of(level)?)))
                .collect();
            panel.line(&points, pen);
            if word == "p50" {
                for point in points {
                    panel.dot(point, 38, Pen::fill(Role::S1));
                }
            }
        }
        if let Some((level, value)) = study
            .levels
            .iter()
            .rev()
            .find_map(|level| Some((level, of(level)?)))
            && level.x.is_some()
        {
            labels.push(EndLabel::new(
                panel.at_y(value),
                pen.role,
                format!("{word} {}", ms(value)),
            ));
        }
    }
    for level in &study.levels {
        let (Some(x), Some(max)) = (level.x, level.max_ms) else {
            continue;
        };
        let (x, y) = (panel.at_x(x), panel.at_y(max));
        if let Some(median) = level.p50_ms {
            panel.canvas.line(
                (x, panel.at_y(median)),
                (x, y),
                Pen::line(Role::S1, 8).opacity(0.45),
            );
        }
        panel
            .canvas
            .text((x, y + 4.0), Anchor::Middle, Role::S1, "▲");
    }
    if let Some(max) = study.levels.iter().rev().find_map(|level| level.max_ms) {
        labels.push(EndLabel::new(
            panel.at_y(max),
            Role::S1,
            format!("max {}", ms(max)),
        ));
    }
    labels
}

/// Values of which no run has figures: a cross on the lower edge.
fn gaps(study: &Study<'_>, panel: &Panel) {
    let crosses: Vec<(f64, f64)> = study
        .levels
        .iter()
        .filter(|level| level.p50_ms.is_none())
        .filter_map(|level| Some((panel.at_x(level.x?), panel.frame.bottom - 6.0)))
        .collect();
    panel.canvas.crosses(&crosses, Pen::line(Role::Bad, 20));
}

fn failures(study: &Study<'_>, canvas: &Canvas, frame: Frame, form: Form) {
    let most = study
        .levels
        .iter()
        .filter_map(Level::failed_share)
        .fold(0.1, f64::max);
    let panel = Panel::new(
        canvas,
        frame,
        form.text_size(),
        axis_x(study),
        Axis::from_zero(most),
    );
    canvas.text(
        (frame.left, frame.top - 8.0),
        Anchor::Start,
        Role::Muted,
        "failed",
    );
    let mut free = f64::NEG_INFINITY;
    for level in &study.levels {
        let (Some(x), Some(share)) = (level.x, level.failed_share()) else {
            continue;
        };
        let x = panel.at_x(x);
        let y = panel.at_y(share);
        canvas.rect(x - 7.0, y, 14.0, frame.bottom - y, Pen::fill(Role::Bad));
        let words = percent(share);
        let half = text::width(&words, form.text_size()) / 2.0;
        if x - half > free {
            let role = if share > 0.0 { Role::Bad } else { Role::Muted };
            canvas.text((x, y - 4.0), Anchor::Middle, role, &words);
            free = x + half + 4.0;
        }
    }
    panel.axis_x(&value_ticks(study, &panel), &study.axis());
}

/// A tick at each value.
pub(crate) fn value_ticks(study: &Study<'_>, panel: &Panel) -> Vec<(f64, String)> {
    let ticks: Vec<(f64, String)> = study
        .levels
        .iter()
        .filter_map(|level| Some((level.x?, number(level.x?))))
        .collect();
    if ticks.is_empty() {
        panel.x.number_ticks(5)
    } else {
        ticks
    }
}

fn table(study: &Study<'_>) -> Table {
    let value = |of: Option<f64>| of.map(number).unwrap_or_default();
    let head = format!("{}, {}", study.axis(), "value");
    Table::new(
        &[
            head.trim_end_matches(", value"),
            "runs",
            "p50, ms",
            "p90, ms",
            "p99, ms",
            "max, ms",
            "mean, ms",
            "achieved, per s",
            "failed",
        ],
        study.levels.iter().map(|level| {
            vec![
                text::clean(&level.label),
                level.repeats.to_string(),
                value(level.p50_ms),
                value(level.p90_ms),
                value(level.p99_ms),
                value(level.max_ms),
                value(level.avg_ms),
                value(level.achieved_per_s),
                level.failed_share().map(percent).unwrap_or_default(),
            ]
        }),
    )
}
