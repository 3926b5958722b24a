//! The source lab's figures and the own ones of a guide in one drawing: two lines, or bars side by side.

use crate::chart::axis::Axis;
use crate::chart::canvas::{Anchor, Canvas};
use crate::chart::labels::{EndLabel, cut, write_end_labels};
use crate::chart::panel::{Frame, Panel};
use crate::chart::text::{self, figure as number};
use crate::chart::theme::{Manner as Stroke, Pen, Role};
use crate::chart::{Figure, Form, Parts, Table, finish};
use crate::measure::guide::{Beside, Manner, Spot};

/// Largest over smallest value from which on the axis is logarithmic.
const WIDE: f64 = 20.0;

/// The chart of a guide, under a name that is unique in its page.
pub fn guide_figure(beside: &Beside, name: &'static str) -> Figure {
    let bars = beside.manner == Manner::Bars;
    let place = |spot: &Spot| {
        if bars {
            text::clean(&spot.label)
        } else {
            number(spot.x)
        }
    };
    let rows = [(beside.names.0, &beside.lab), (beside.names.1, &beside.own)]
        .into_iter()
        .flat_map(|(side, spots)| {
            spots
                .iter()
                .map(move |spot| vec![side.to_owned(), place(spot), number(spot.y)])
        });
    let nothing = beside.lab.is_empty() && beside.own.is_empty();
    let parts = Parts {
        name,
        title: beside.title.clone(),
        subtitle: if beside.own.is_empty() {
            format!("{}. Yours stand here once they are measured", beside.what)
        } else {
            beside.what.to_owned()
        },
        desc: format!(
            "{}. {}: {} places; {}: {} places.",
            beside.y_name,
            beside.names.0,
            beside.lab.len(),
            beside.names.1,
            beside.own.len()
        ),
        table: Table::new(&["whose", beside.x_name, beside.y_name], rows),
        empty: nothing.then(|| {
            "The source lab has no figures here; yours stand here once they are measured."
                .to_owned()
        }),
        pair: false,
    };
    finish(parts, |form| {
        if bars {
            draw_bars(form, beside)
        } else {
            draw_lines(form, beside)
        }
    })
}

fn all(beside: &Beside) -> impl Iterator<Item = &Spot> {
    beside
        .lab
        .iter()
        .chain(&beside.own)
        .filter(|spot| spot.x.is_finite() && spot.y.is_finite())
}

fn frame(form: Form) -> Frame {
    Frame {
        left: 58.0,
        top: 28.0,
        right: f64::from(form.width()) - if form.is_narrow() { 84.0 } else { 130.0 },
        bottom: 246.0,
    }
}

fn draw_lines(form: Form, beside: &Beside) -> Canvas {
    let canvas = Canvas::new(form.width(), 292);
    let frame = frame(form);
    let least = all(beside)
        .map(|spot| spot.y)
        .filter(|y| *y > 0.0)
        .fold(f64::INFINITY, f64::min);
    let most = all(beside).map(|spot| spot.y).fold(0.0, f64::max);
    let far = all(beside).map(|spot| spot.x).fold(0.0, f64::max);
    let y = if most > WIDE * least && least.is_finite() {
        Axis::Log(least * 0.72, most * 1.25)
    } else {
        Axis::from_zero(most * 1.12)
    };
    let panel = Panel::new(
        &canvas,
        frame,
        form.text_size(),
        Axis::from_zero(far * 1.04),
        y,
    );
    panel.grid_y(&panel.y.number_ticks(6));
    let mut labels = Vec::new();
    for (word, role, spots) in [
        (beside.names.0, Role::S2, &beside.lab),
        (beside.names.1, Role::S1, &beside.own),
    ] {
        let mut points: Vec<(f64, f64)> = spots
            .iter()
            .filter(|spot| spot.x.is_finite() && spot.y.is_finite())
            .map(|spot| (spot.x, spot.y.max(1e-9)))
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let stroke = if role == Role::S2 {
            Stroke::Dashed
        } else {
            Stroke::Solid
        };
        panel.line(&points, Pen::line(role, 20).manner(stroke));
        let dots: Vec<(f64, f64)> = points
            .iter()
            .map(|(x, y)| (panel.at_x(*x), panel.at_y(*y)))
            .collect();
        canvas.dots(&dots, 3.4, role);
        if let Some((_, last)) = points.last() {
            labels.push(EndLabel::new(panel.at_y(*last), role, word));
        }
    }
    let ticks = panel.x.number_ticks(if form.is_narrow() { 5 } else { 9 });
    panel.axis_x(&ticks, beside.x_name);
    panel.name_y(&if panel.y.is_log() {
        format!("{}, log scale", beside.y_name)
    } else {
        beside.y_name.to_owned()
    });
    let x = frame.right + 9.0;
    write_end_labels(
        &canvas,
        x,
        f64::from(form.width()) - x,
        (frame.top - 8.0, frame.bottom + 10.0),
        form.text_size(),
        labels,
    );
    canvas
}

fn draw_bars(form: Form, beside: &Beside) -> Canvas {
    let canvas = Canvas::new(form.width(), 326);
    let frame = frame(form);
    let most = all(beside).map(|spot| spot.y).fold(0.0, f64::max);
    // An empty place parts the two sides.
    let gap = usize::from(!beside.lab.is_empty() && !beside.own.is_empty());
    let places = (beside.lab.len() + gap + beside.own.len()).max(1);
    let panel = Panel::new(
        &canvas,
        frame,
        form.text_size(),
        Axis::Linear(0.0, places as f64),
        Axis::from_zero(most * 1.14),
    );
    panel.grid_y(&panel.y.number_ticks(5));
    let step = (frame.right - frame.left) / places as f64;
    let sides = [
        (beside.names.0, Role::S2, &beside.lab, 0),
        (
            beside.names.1,
            Role::S1,
            &beside.own,
            beside.lab.len() + gap,
        ),
    ];
    for (word, role, spots, first) in sides {
        for (place, spot) in spots
            .iter()
            .enumerate()
            .filter(|(_, spot)| spot.y.is_finite())
        {
            let middle = panel.at_x((first + place) as f64 + 0.5);
            let wide = (step * 0.62).clamp(3.0, 70.0);
            let top = panel.at_y(spot.y);
            canvas.rect(
                middle - wide / 2.0,
                top,
                wide,
                frame.bottom - top,
                Pen::fill(role),
            );
            if step > 34.0 {
                let figure = number(spot.y);
                canvas.strong((middle, top - 6.0), Anchor::Middle, Role::Ink, &figure);
            }
            let words = text::clean(&spot.label);
            let lines = text::wrap(&words, panel.size, step - 3.0);
            for (line, words) in lines.iter().take(2).enumerate() {
                let words = cut(words, step + 2.0, panel.size);
                let at = (middle, frame.bottom + 18.0 + 15.0 * line as f64);
                canvas.text(at, Anchor::Middle, Role::Ink, &words);
            }
        }
        if !spots.is_empty() {
            let middle = panel.at_x(first as f64 + spots.len() as f64 / 2.0);
            let at = (middle, frame.bottom + 52.0);
            canvas.strong(at, Anchor::Middle, role, word);
        }
    }
    canvas.line(
        (frame.left, frame.bottom),
        (frame.right, frame.bottom),
        Pen::line(Role::Axis, 10),
    );
    let middle = f64::midpoint(frame.left, frame.right);
    let at = (middle, frame.bottom + 70.0);
    canvas.text(at, Anchor::Middle, Role::Muted, beside.x_name);
    panel.name_y(beside.y_name);
    canvas
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::guide::{Evidence, Guide};

    #[test]
    fn every_guide_is_drawn_with_the_labs_figures_before_anything_was_measured() {
        for guide in Guide::ALL {
            let figure = guide_figure(&guide.beside(&Evidence::default()), "beside");
            assert_eq!(figure.empty.is_some(), guide == Guide::RegionFailure);
            let svg = figure.desk.inline();
            assert!(!svg.as_str().contains("NaN"), "{guide:?}");
            assert!(figure.title.chars().count() <= 100, "{}", figure.title);
        }
    }

    #[test]
    fn odd_values_and_only_own_ones_are_drawn() {
        let spot = |x: f64, y: f64| Spot {
            label: "naïve <b>".to_owned(),
            x,
            y,
        };
        for manner in [Manner::Line, Manner::Bars] {
            let beside = Beside {
                manner,
                own: vec![spot(f64::NAN, 1.0), spot(1.0, 0.0), spot(2.0, 4e9)],
                ..Beside::default()
            };
            let figure = guide_figure(&beside, "beside");
            let svg = figure.phone.inline();
            assert!(!svg.as_str().contains("NaN") && !svg.as_str().contains("<b>"));
            assert!(figure.empty.is_none());
        }
    }
}
