//! One pair of axes on a canvas: grid, ticks and marks, in the values of the data.

use plotters::coord::Shift;
use plotters::coord::cartesian::Cartesian2d;
use plotters::drawing::{DrawingArea, IntoDrawingArea};
use plotters::element::{Circle, PathElement, Polygon};

use crate::chart::axis::Axis;
use crate::chart::canvas::{Anchor, Canvas, FINE};
use crate::chart::text;
use crate::chart::theme::{Pen, Role};

/// Where the axes stand, in px.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Frame {
    pub(crate) left: f64,
    pub(crate) top: f64,
    pub(crate) right: f64,
    pub(crate) bottom: f64,
}

/// Axes, and what is drawn between them.
pub(crate) struct Panel {
    pub(crate) canvas: Canvas,
    pub(crate) frame: Frame,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    /// Size of the text for which room is kept; the page may show it at this size.
    pub(crate) size: f64,
    area: DrawingArea<Canvas, Cartesian2d<Axis, Axis>>,
}

impl Panel {
    pub(crate) fn new(canvas: &Canvas, frame: Frame, size: f64, x: Axis, y: Axis) -> Self {
        let root: DrawingArea<Canvas, Shift> = canvas.clone().into_drawing_area();
        let spec = Cartesian2d::new(
            x,
            y,
            (
                unit(frame.left)..unit(frame.right),
                unit(frame.bottom)..unit(frame.top),
            ),
        );
        Self {
            canvas: canvas.clone(),
            frame,
            x,
            y,
            size,
            area: root.apply_coord_spec(spec),
        }
    }

    pub(crate) fn at_x(&self, value: f64) -> f64 {
        self.frame.left + (self.frame.right - self.frame.left) * self.x.place(value)
    }

    pub(crate) fn at_y(&self, value: f64) -> f64 {
        self.frame.bottom - (self.frame.bottom - self.frame.top) * self.y.place(value)
    }

    /// Level grid lines with their labels left of them.
    pub(crate) fn grid_y(&self, ticks: &[(f64, String)]) {
        for (value, word) in ticks {
            let y = self.at_y(*value);
            self.canvas.line(
                (self.frame.left, y),
                (self.frame.right, y),
                Pen::line(Role::Grid, 10),
            );
            self.canvas.text(
                (self.frame.left - 8.0, y + 4.1),
                Anchor::End,
                Role::Muted,
                word,
            );
        }
    }

    /// Upright grid lines.
    pub(crate) fn grid_x(&self, ticks: &[(f64, String)]) {
        for (value, _) in ticks {
            let x = self.at_x(*value);
            self.canvas.line(
                (x, self.frame.top),
                (x, self.frame.bottom),
                Pen::line(Role::Grid, 10),
            );
        }
    }

    /// The lower axis: line, ticks, those labels that do not touch the one before, and the name below.
    pub(crate) fn axis_x(&self, ticks: &[(f64, String)], name: &str) {
        let bottom = self.frame.bottom;
        self.canvas.line(
            (self.frame.left, bottom),
            (self.frame.right, bottom),
            Pen::line(Role::Axis, 10),
        );
        let mut free = f64::NEG_INFINITY;
        for (value, word) in ticks {
            let x = self.at_x(*value);
            self.canvas
                .line((x, bottom), (x, bottom + 4.0), Pen::line(Role::Axis, 10));
            let half = text::width(word, self.size) / 2.0;
            if x - half >= free {
                self.canvas
                    .text((x, bottom + 18.0), Anchor::Middle, Role::Muted, word);
                free = x + half + 5.0;
            }
        }
        let middle = f64::midpoint(self.frame.left, self.frame.right);
        self.canvas
            .text((middle, bottom + 34.0), Anchor::Middle, Role::Muted, name);
    }

    /// The name of the upright axis, at the top left and not turned.
    pub(crate) fn name_y(&self, name: &str) {
        self.canvas
            .text((self.frame.left, 14.0), Anchor::Start, Role::Muted, name);
    }

    /// A line through these points.
    pub(crate) fn line(&self, points: &[(f64, f64)], pen: Pen) {
        if points.len() > 1 {
            done(self.area.draw(&PathElement::new(points, pen.style())));
        }
    }

    /// The area between two lines over the same places.
    pub(crate) fn band(&self, upper: &[(f64, f64)], lower: &[(f64, f64)], pen: Pen) {
        if upper.len() > 1 {
            let mut corners = upper.to_vec();
            corners.extend(lower.iter().rev());
            done(self.area.draw(&Polygon::new(corners, pen.style())));
        }
    }

    /// A dot; the radius is in tenths of a pixel.
    pub(crate) fn dot(&self, at: (f64, f64), radius: u32, pen: Pen) {
        done(self.area.draw(&Circle::new(at, radius, pen.style())));
    }

    /// The part of the x axis that was not measured: hatched, with a word where there is room.
    pub(crate) fn not_measured(&self, from: f64, to: f64, words: &str) {
        let (left, right) = (self.at_x(from), self.at_x(to));
        if right - left < 2.0 {
            return;
        }
        let Frame { top, bottom, .. } = self.frame;
        self.canvas.rect(
            left,
            top,
            right - left,
            bottom - top,
            Pen::hatch(Role::Grid),
        );
        let wide = text::width(words, self.size) + 12.0;
        if right - left > wide + 4.0 {
            let middle = f64::midpoint(left, right);
            let y = f64::midpoint(top, bottom);
            self.canvas.rect(
                middle - wide / 2.0,
                y - 12.0,
                wide,
                20.0,
                Pen::fill(Role::Paper),
            );
            self.canvas
                .text((middle, y + 2.0), Anchor::Middle, Role::Ink, words);
        }
    }
}

/// The canvas cannot fail to be written on.
fn done<T, E>(drawn: Result<T, E>) {
    drop(drawn);
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a place inside the drawing"
)]
fn unit(px: f64) -> i32 {
    (px * FINE).round() as i32
}
