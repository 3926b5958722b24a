//! What was answered well by what was offered, against the diagonal on which all of it is.

use crate::chart::axis::Axis;
use crate::chart::canvas::{Anchor, Canvas};
use crate::chart::experiment::Study;
use crate::chart::panel::{Frame, Panel};
use crate::chart::text::{self, figure as number, rate};
use crate::chart::theme::{Manner, Pen, Role};
use crate::chart::{Figure, Form, Parts, Table, finish};

pub(crate) const NAME: &str = "offered-vs-achieved";

/// Below this share of the offered rate the server is said not to keep up.
const KEEPS_UP: f64 = 0.95;

pub(crate) fn figure(study: &Study<'_>) -> Figure {
    let points = points(study);
    let parts = Parts {
        name: NAME,
        title: title(&points),
        subtitle: "Answered with 2xx or 3xx per second of the whole run, by offered rate"
            .to_owned(),
        desc: "Achieved rate by offered rate, and the diagonal on which both are the same."
            .to_owned(),
        table: Table::new(
            &["offered, per s", "achieved, per s", "share"],
            points.iter().map(|(offered, achieved)| {
                vec![
                    number(*offered),
                    number(*achieved),
                    text::percent(achieved / offered),
                ]
            }),
        ),
        empty: study.nothing().or_else(|| {
            points
                .is_empty()
                .then(|| "No run says what it offered and achieved.".to_owned())
        }),
        pair: true,
    };
    finish(parts, |form| draw(form, &points))
}

fn points(study: &Study<'_>) -> Vec<(f64, f64)> {
    study
        .levels
        .iter()
        .filter_map(|level| Some((level.x?, level.achieved_per_s?)))
        .filter(|(offered, achieved)| *offered > 0.0 && achieved.is_finite())
        .collect()
}

fn title(points: &[(f64, f64)]) -> String {
    let most = points.iter().map(|point| point.1).fold(0.0, f64::max);
    let behind = points
        .iter()
        .find(|(offered, achieved)| achieved / offered < KEEPS_UP);
    match (behind, points.last()) {
        (Some((offered, achieved)), _) => format!(
            "Of {} a second offered it answers {}; it never answers more than {}",
            rate(*offered),
            rate(*achieved),
            rate(most)
        ),
        (None, Some((offered, _))) => {
            format!(
                "All that was offered is answered, up to {} a second",
                rate(*offered)
            )
        }
        (None, None) => "Achieved by offered rate".to_owned(),
    }
}

fn draw(form: Form, points: &[(f64, f64)]) -> Canvas {
    let frame = Frame {
        left: 50.0,
        top: 28.0,
        right: f64::from(form.width()) - 24.0,
        bottom: 226.0,
    };
    let canvas = Canvas::new(form.width(), 268);
    let most = points
        .iter()
        .map(|(offered, achieved)| offered.max(*achieved))
        .fold(0.0, f64::max);
    let axis = Axis::from_zero(most * 1.08);
    let panel = Panel::new(&canvas, frame, form.text_size(), axis, axis);
    panel.grid_y(&panel.y.number_ticks(5));
    panel.line(
        &[(0.0, 0.0), (most, most)],
        Pen::line(Role::Axis, 12).manner(Manner::Dotted),
    );
    canvas.text(
        (panel.at_x(most * 0.62) - 8.0, panel.at_y(most * 0.72)),
        Anchor::End,
        Role::Muted,
        "all answered",
    );
    panel.line(points, Pen::line(Role::S1, 20));
    for point in points {
        panel.dot(*point, 38, Pen::fill(Role::S1));
    }
    if let Some((offered, achieved)) = points.last() {
        let y = panel.at_y(*achieved);
        let y = if frame.bottom - y < 30.0 {
            y - 10.0
        } else {
            y + 20.0
        };
        canvas.strong(
            (panel.at_x(*offered), y),
            Anchor::End,
            Role::S1,
            &format!("{} of {}", rate(*achieved), rate(*offered)),
        );
    }
    panel.name_y("achieved, per second");
    panel.axis_x(&panel.x.number_ticks(5), "offered, per second");
    canvas
}
