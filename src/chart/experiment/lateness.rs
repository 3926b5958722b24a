//! How late the generator itself was at each value: whether the other charts may be trusted.

use crate::chart::axis::Axis;
use crate::chart::canvas::Canvas;
use crate::chart::experiment::{Study, latency_vs_rate};
use crate::chart::labels::{EndLabel, write_end_labels};
use crate::chart::panel::{Frame, Panel};
use crate::chart::text::{self, figure as number, ms};
use crate::chart::theme::{Manner, Pen, Role};
use crate::chart::{Figure, Form, Parts, Table, finish};

pub(crate) const NAME: &str = "lateness";

pub(crate) fn figure(study: &Study<'_>) -> Figure {
    let known = study
        .levels
        .iter()
        .any(|level| level.lateness_p99_ms.is_some());
    let parts = Parts {
        name: NAME,
        title: title(study),
        subtitle:
            "Actual start − planned start, p50 and p99 at each value: this machine's own delay"
                .to_owned(),
        desc: "Median and 99th percentile of the generator's lateness by what was offered."
            .to_owned(),
        table: Table::new(
            &["value", "lateness p50, ms", "lateness p99, ms"],
            study.levels.iter().map(|level| {
                let value = |of: Option<f64>| of.map(number).unwrap_or_default();
                vec![
                    text::clean(&level.label),
                    value(level.lateness_p50_ms),
                    value(level.lateness_p99_ms),
                ]
            }),
        ),
        empty: study
            .nothing()
            .or_else(|| (!known).then(|| "No run says how late it sent.".to_owned())),
        pair: true,
    };
    finish(parts, |form| draw(study, form))
}

fn title(study: &Study<'_>) -> String {
    let worst = study
        .levels
        .iter()
        .filter_map(|level| Some((level.lateness_p99_ms?, level)))
        .max_by(|a, b| a.0.total_cmp(&b.0));
    let Some((late, level)) = worst else {
        return "Lateness of the sends".to_owned();
    };
    let runs = study.ended().count();
    let doubted = study
        .ended()
        .filter(|point| point.doubts.iter().any(|check| check.name == "on_schedule"))
        .count();
    if doubted > 0 {
        return format!(
            "The generator was late in {doubted} of {}: p99 lateness {} at worst",
            text::counted(runs as u64, "run"),
            ms(late)
        );
    }
    match (level.x, level.p50_ms) {
        (Some(x), Some(median)) if late > median * 0.1 => format!(
            "At {} the generator was {} late (p99): figures there are in doubt",
            study.value(x),
            ms(late)
        ),
        _ => format!(
            "The generator was on time: p99 lateness {} at worst",
            ms(late)
        ),
    }
}

fn draw(study: &Study<'_>, form: Form) -> Canvas {
    let frame = Frame {
        left: 62.0,
        top: 28.0,
        right: f64::from(form.width()) - 100.0,
        bottom: 226.0,
    };
    let canvas = Canvas::new(form.width(), 268);
    let values = study
        .levels
        .iter()
        .flat_map(|level| [level.lateness_p50_ms, level.lateness_p99_ms])
        .flatten();
    let panel = Panel::new(
        &canvas,
        frame,
        form.text_size(),
        latency_vs_rate::axis_x(study),
        Axis::latency(values),
    );
    panel.grid_y(&panel.y.latency_ticks(5));
    let mut labels = Vec::new();
    for (word, p99, pen) in [
        ("p99", true, Pen::line(Role::S2, 18).manner(Manner::Dashed)),
        ("p50", false, Pen::line(Role::S1, 20)),
    ] {
        let points: Vec<(f64, f64)> = study
            .levels
            .iter()
            .filter_map(|level| {
                let late = if p99 {
                    level.lateness_p99_ms
                } else {
                    level.lateness_p50_ms
                };
                Some((level.x?, late?))
            })
            .collect();
        panel.line(&points, pen);
        for point in &points {
            panel.dot(*point, 32, Pen::fill(pen.role));
        }
        if let Some((_, last)) = points.last() {
            labels.push(EndLabel::new(
                panel.at_y(*last),
                pen.role,
                format!("{word} {}", ms(*last)),
            ));
        }
    }
    panel.name_y(if panel.y.is_log() {
        "lateness, log scale"
    } else {
        "lateness"
    });
    panel.axis_x(&latency_vs_rate::value_ticks(study, &panel), &study.axis());
    let x = frame.right + 9.0;
    let room = f64::from(form.width()) - x;
    let bounds = (frame.top - 8.0, frame.bottom + 8.0);
    write_end_labels(&canvas, x, room, bounds, form.text_size(), labels);
    canvas
}
