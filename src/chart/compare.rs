//! Runs over each other, each from its own start: at most four have colours of their own; of more, the base is drawn
//! strong and the others in one hue.

use crate::chart::axis::{Axis, safe_range};
use crate::chart::canvas::Canvas;
use crate::chart::labels::{EndLabel, write_end_labels};
use crate::chart::panel::{Frame, Panel};
use crate::chart::text::{figure as number, ms, seconds};
use crate::chart::theme::{Manner, Pen, Role, Theme};
use crate::chart::{Figure, Form, Parts, Table, dress, finish};

const NAME: &str = "compare";

/// What is over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompareUnit {
    /// Latencies and round trips, in ms.
    Ms,
    /// Throughput, in bit/s.
    BitsPerSecond,
}

/// One run's line.
#[derive(Clone, Debug, PartialEq)]
pub struct CompareLine {
    /// What it is called.
    pub label: String,
    /// Seconds since its own start, and the value.
    pub points: Vec<(f64, f64)>,
}

/// Everything that the chart is made from.
#[derive(Clone, Debug)]
pub struct CompareInput {
    /// The finding.
    pub title: String,
    /// What each value is, such as `median latency in steps of time`.
    pub what: String,
    /// Its unit.
    pub unit: CompareUnit,
    /// The lines.
    pub lines: Vec<CompareLine>,
    /// The place of the base among them.
    pub base: usize,
}

/// The chart; a sentence where no run has anything over time.
pub fn compare_figure(input: &CompareInput) -> Figure {
    let drawn = input.lines.iter().any(|line| !line.points.is_empty());
    let word = |value: f64| match input.unit {
        CompareUnit::Ms => ms(value),
        CompareUnit::BitsPerSecond => format!("{} Mbit/s", number(value / 1e6)),
    };
    let rows = input.lines.iter().flat_map(|line| {
        // The table is bounded, so that each of many runs has some of its rows.
        let step = line
            .points
            .len()
            .div_ceil((Table::MOST_ROWS / input.lines.len().max(1)).max(1))
            .max(1);
        line.points
            .iter()
            .step_by(step)
            .map(|(at, value)| vec![line.label.clone(), seconds(*at), word(*value)])
    });
    let parts = Parts {
        name: NAME,
        title: input.title.clone(),
        subtitle: format!("{}. Every run starts at 0 s.", input.what),
        desc: format!(
            "{} of {} runs over the time since the start of each.",
            input.what,
            input.lines.len()
        ),
        table: Table::new(&["run", "since its start", "value"], rows),
        empty: (!drawn)
            .then(|| "None of these runs has anything over time that could be drawn.".to_owned()),
        pair: false,
    };
    finish(parts, |form| draw(form, input))
}

/// The same as a file of its own.
pub fn compare_file(input: &CompareInput, theme: Theme) -> String {
    dress(&compare_figure(input), String::new(), None, theme)
}

/// Colour and manner of the line at this place.
fn pen(place: usize, lines: usize, base: usize) -> Pen {
    if lines > 4 {
        return if place == base {
            Pen::line(Role::S1, 24)
        } else {
            Pen::line(Role::S2, 12).opacity(0.5)
        };
    }
    match place {
        0 => Pen::line(Role::S1, 22),
        1 => Pen::line(Role::S2, 22).manner(Manner::Dashed),
        2 => Pen::line(Role::S3, 22).manner(Manner::Dotted),
        _ => Pen::line(Role::S4, 14),
    }
}

fn draw(form: Form, input: &CompareInput) -> Canvas {
    let width = f64::from(form.width());
    let frame = Frame {
        left: 66.0,
        top: 28.0,
        right: width - if form.is_narrow() { 78.0 } else { 150.0 },
        bottom: 258.0,
    };
    let canvas = Canvas::new(form.width(), 304);
    let values = || {
        input
            .lines
            .iter()
            .flat_map(|line| line.points.iter().map(|point| point.1))
    };
    let last = input
        .lines
        .iter()
        .flat_map(|line| &line.points)
        .map(|point| point.0)
        .fold(0.0, f64::max);
    let (_, end) = safe_range(0.0, last);
    let most = values().fold(0.0, f64::max);
    let (factor, name) = match input.unit {
        CompareUnit::Ms => (1.0, "ms"),
        CompareUnit::BitsPerSecond if most >= 1e9 => (1e9, "Gbit/s"),
        CompareUnit::BitsPerSecond if most >= 1e6 => (1e6, "Mbit/s"),
        CompareUnit::BitsPerSecond => (1e3, "kbit/s"),
    };
    let y = match input.unit {
        CompareUnit::Ms => Axis::latency(values()),
        CompareUnit::BitsPerSecond => Axis::from_zero(most / factor * 1.08),
    };
    let panel = Panel::new(&canvas, frame, form.text_size(), Axis::Linear(0.0, end), y);
    match input.unit {
        CompareUnit::Ms => {
            panel.grid_y(&panel.y.latency_ticks(6));
            panel.name_y(if panel.y.is_log() {
                "log scale"
            } else {
                "time"
            });
        }
        CompareUnit::BitsPerSecond => {
            panel.grid_y(&panel.y.number_ticks(6));
            panel.name_y(name);
        }
    }
    let count = input.lines.len();
    let mut labels = Vec::new();
    // The base is drawn last, so that it lies on top.
    let order = (0..count)
        .filter(|place| *place != input.base)
        .chain([input.base]);
    for place in order {
        let Some(line) = input.lines.get(place) else {
            continue;
        };
        let points: Vec<(f64, f64)> = line
            .points
            .iter()
            .map(|(at, value)| (*at, (value / factor).max(1e-9)))
            .collect();
        let pen = pen(place, count, input.base);
        panel.line(&points, pen);
        if let [only] = points[..] {
            panel.dot(only, 35, Pen::fill(pen.role));
        }
        if let Some((_, value)) = points.last()
            && (count <= 4 || place == input.base)
        {
            labels.push(EndLabel::new(
                panel.at_y(*value),
                pen.role,
                line.label.clone(),
            ));
        }
    }
    if count > 4 {
        let others = format!("{} others", count - 1);
        labels.push(EndLabel::new(frame.top + 12.0, Role::S2, others));
    }
    let x = frame.right + 9.0;
    write_end_labels(
        &canvas,
        x,
        width - x,
        (frame.top - 8.0, frame.bottom + 10.0),
        form.text_size(),
        labels,
    );
    let ticks = panel.x.clock_ticks(if form.is_narrow() { 4 } else { 7 });
    panel.axis_x(&ticks, "time since the start of each run");
    canvas
}
