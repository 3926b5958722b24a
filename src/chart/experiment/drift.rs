//! Latency within a step: whether it climbs while the same rate is offered. At most four values, so that each has a
//! line of its own: the lowest, the last that is answered well, the next, and the highest.

use crate::chart::axis::{Axis, safe_range};
use crate::chart::canvas::Canvas;
use crate::chart::experiment::Study;
use crate::chart::labels::{EndLabel, write_end_labels};
use crate::chart::panel::{Frame, Panel};
use crate::chart::text::{self, figure as number, ms, seconds};
use crate::chart::theme::{Manner, Pen, Role};
use crate::chart::{Figure, Form, Parts, Table, finish};

pub(crate) const NAME: &str = "drift";

/// One value's latency over its own time.
struct Line {
    label: String,
    /// Middle of a step in s, and the median of what was planned in it.
    points: Vec<(f64, f64)>,
}

const PENS: [Pen; 4] = [
    Pen::line(Role::S1, 20),
    Pen::line(Role::S3, 18).manner(Manner::Dotted),
    Pen::line(Role::S2, 18).manner(Manner::Dashed),
    Pen::line(Role::S4, 18),
];

pub(crate) fn figure(study: &Study<'_>) -> Figure {
    let lines = lines(study);
    let parts = Parts {
        name: NAME,
        title: title(&lines),
        subtitle: "Median latency by planned send time within a run, its first repeat".to_owned(),
        desc: "Latency over time within single runs at different values.".to_owned(),
        table: table(&lines),
        empty: study.nothing().or_else(|| {
            lines
                .is_empty()
                .then(|| "No run has enough steps of time to show a drift.".to_owned())
        }),
        pair: true,
    };
    finish(parts, |form| draw(form, &lines))
}

fn lines(study: &Study<'_>) -> Vec<Line> {
    let places: Vec<f64> = study.measured().filter_map(|level| level.x).collect();
    let mut wanted: Vec<f64> = Vec::new();
    let ends = places.first().into_iter().chain(places.last());
    for x in ends
        .copied()
        .chain(study.knee.iter().flat_map(|k| [k.holds, k.fails]))
    {
        if !wanted.iter().any(|known| (known - x).abs() < 1e-9) {
            wanted.push(x);
        }
    }
    wanted.sort_by(f64::total_cmp);
    wanted
        .into_iter()
        .filter_map(|x| {
            let point = study.ended().find(|point| {
                let value = point
                    .point
                    .as_object()
                    .and_then(|p| p.values().next()?.as_f64());
                value.is_some_and(|value| (value - x).abs() < 1e-9)
                    && study.series_of(point.run).is_some()
            })?;
            let series = study.series_of(point.run)?.http()?;
            let half = series.bin_width_s / 2.0;
            let points: Vec<(f64, f64)> = series
                .bins
                .iter()
                .filter_map(|bin| Some((bin.start_s + half, bin.latency_ms?.p50)))
                .filter(|(at, value)| at.is_finite() && value.is_finite() && *at >= 0.0)
                .take(250)
                .collect();
            (points.len() > 1).then(|| Line {
                label: study.value(x),
                points,
            })
        })
        .collect()
}

/// Mean of the last third over mean of the first: how much it climbs.
fn climb(line: &Line) -> f64 {
    let third = (line.points.len() / 3).max(1);
    let mean = |points: &[(f64, f64)]| {
        points.iter().map(|point| point.1).sum::<f64>() / points.len() as f64
    };
    let first = mean(&line.points[..third]);
    let last = mean(&line.points[line.points.len() - third..]);
    if first > 0.0 { last / first } else { 1.0 }
}

fn title(lines: &[Line]) -> String {
    let climbing = lines.iter().find(|line| climb(line) > 1.5);
    match (climbing, lines.last()) {
        (Some(line), _) => format!(
            "At {} requests wait longer and longer: {} × as long at the end",
            line.label,
            number(climb(line))
        ),
        (None, Some(line)) => format!("No drift within a run, up to {}", line.label),
        (None, None) => "Latency within a run".to_owned(),
    }
}

fn draw(form: Form, lines: &[Line]) -> Canvas {
    let frame = Frame {
        left: 62.0,
        top: 28.0,
        right: f64::from(form.width()) - 106.0,
        bottom: 226.0,
    };
    let canvas = Canvas::new(form.width(), 268);
    let all = || lines.iter().flat_map(|line| &line.points);
    let (_, end) = safe_range(0.0, all().map(|point| point.0).fold(0.0, f64::max) * 1.02);
    let panel = Panel::new(
        &canvas,
        frame,
        form.text_size(),
        Axis::Linear(0.0, end),
        Axis::latency(all().map(|point| point.1)),
    );
    panel.grid_y(&panel.y.latency_ticks(5));
    let mut labels = Vec::new();
    for (line, pen) in lines.iter().zip(PENS) {
        panel.line(&line.points, pen);
        if let Some((_, last)) = line.points.last() {
            labels.push(
                EndLabel::new(panel.at_y(*last), pen.role, line.label.clone()).more(ms(*last)),
            );
        }
    }
    panel.name_y(if panel.y.is_log() {
        "median latency, log scale"
    } else {
        "median latency"
    });
    panel.axis_x(&panel.x.clock_ticks(4), "planned time in the run");
    let x = frame.right + 9.0;
    let room = f64::from(form.width()) - x;
    let bounds = (frame.top - 8.0, frame.bottom + 8.0);
    write_end_labels(&canvas, x, room, bounds, form.text_size(), labels);
    canvas
}

fn table(lines: &[Line]) -> Table {
    Table::new(
        &["value", "begins at, ms", "ends at, ms", "over"],
        lines.iter().map(|line| {
            let end = |point: Option<&(f64, f64)>| point.map(|p| number(p.1)).unwrap_or_default();
            vec![
                text::clean(&line.label),
                end(line.points.first()),
                end(line.points.last()),
                line.points
                    .last()
                    .map(|point| seconds(point.0))
                    .unwrap_or_default(),
            ]
        }),
    )
}
