//! The first minute's picture: every picture that was asked for as a dot, below, at and above the estimated ceiling.

use crate::chart::axis::Axis;
use crate::chart::canvas::{Anchor, Canvas};
use crate::chart::panel::{Frame, Panel};
use crate::chart::text::{self, count, figure as number, ms};
use crate::chart::theme::{Manner, Pen, Role};
use crate::chart::{Figure, Form, Parts, Table, finish};
use crate::measure::outcome::Outcome;
use crate::measure::series::HttpSeries;

/// One step: what was asked for, for how long, and what became of it so far.
#[derive(Clone, Copy, Debug)]
pub struct MinuteStep<'a> {
    /// How many times the estimate was asked for.
    pub share: f64,
    /// Pictures a second that were asked for.
    pub rate_per_s: f64,
    /// How long, in s.
    pub seconds: f64,
    /// What became of them; `None` before the step has begun.
    pub series: Option<&'a HttpSeries>,
}

/// Dots of one step: when it was planned, in s since the step's start, and its latency in ms; `None` when it failed.
fn dots(series: &HttpSeries) -> Vec<(f64, Option<f64>)> {
    let good = |value: f64| value.is_finite() && value >= 0.0;
    let dots = match &series.dots {
        Some(dots) => dots
            .iter()
            .map(|dot| {
                let answered = dot.outcome == Outcome::Ok;
                (dot.at_s, answered.then_some(dot.latency_ms))
            })
            .collect(),
        // So many that only steps of time are kept: the median of each stands for its requests.
        None => series
            .bins
            .iter()
            .filter(|bin| bin.requests > 0)
            .map(|bin| (bin.start_s, bin.latency_ms.map(|band| band.p50)))
            .collect::<Vec<_>>(),
    };
    dots.into_iter()
        .filter(|(at, _)| good(*at))
        .map(|(at, latency)| (at, latency.filter(|latency| good(*latency))))
        .take(1_000)
        .collect()
}

/// The picture of these steps, in their order.
pub fn first_minute_figure(steps: &[MinuteStep<'_>]) -> Figure {
    let drawn: Vec<Vec<(f64, Option<f64>)>> = steps
        .iter()
        .map(|step| step.series.map(dots).unwrap_or_default())
        .collect();
    let all: usize = drawn.iter().map(Vec::len).sum();
    let answered: Vec<f64> = drawn
        .iter()
        .flatten()
        .filter_map(|(_, latency)| *latency)
        .collect();
    let longest = answered.iter().copied().fold(0.0, f64::max);
    let rows = steps.iter().zip(&drawn).flat_map(|(step, dots)| {
        dots.iter().map(|(at, latency)| {
            vec![
                format!("{} ×", step.share),
                number(*at),
                latency.map(ms).unwrap_or_default(),
            ]
        })
    });
    let parts = Parts {
        name: "first-minute",
        title: if answered.is_empty() {
            "Waiting for a picture, below, at and above the estimate".to_owned()
        } else {
            format!(
                "Beyond the estimate every picture waits longer: up to {}",
                ms(longest)
            )
        },
        subtitle: format!(
            "Time from the planned request to the whole picture, by when it was planned. n = {}",
            count(all as u64)
        ),
        desc:
            "One dot for each picture, in three steps: below, at and above the estimated ceiling."
                .to_owned(),
        table: Table::new(&["step", "planned at s", "latency"], rows),
        empty: (all == 0).then(|| "No picture was asked for yet.".to_owned()),
        pair: false,
    };
    finish(parts, |form| draw(form, steps, &drawn, &answered))
}

const ROLES: [Role; 3] = [Role::S3, Role::S1, Role::S2];

fn draw(
    form: Form,
    steps: &[MinuteStep<'_>],
    drawn: &[Vec<(f64, Option<f64>)>],
    answered: &[f64],
) -> Canvas {
    let narrow = form.is_narrow();
    let height = if narrow { 270 } else { 330 };
    let canvas = Canvas::new(form.width(), height);
    let frame = Frame {
        left: 58.0,
        top: 66.0,
        right: f64::from(form.width()) - 12.0,
        bottom: f64::from(height) - 42.0,
    };
    let whole: f64 = steps.iter().map(|step| step.seconds.max(0.1)).sum();
    let panel = Panel::new(
        &canvas,
        frame,
        form.text_size(),
        Axis::from_zero(whole),
        Axis::latency(answered.iter().copied()),
    );
    panel.grid_y(&panel.y.latency_ticks(5));
    let mut from = 0.0;
    for (index, (step, dots)) in steps.iter().zip(drawn).enumerate() {
        let role = ROLES[index % ROLES.len()];
        let to = from + step.seconds.max(0.1);
        let (left, right) = (panel.at_x(from), panel.at_x(to));
        if index > 0 {
            let pen = Pen::line(Role::Axis, 10).manner(Manner::Dashed);
            canvas.line((left, frame.top - 30.0), (left, frame.bottom), pen);
        }
        let head = format!("{} ×", step.share);
        canvas.strong((left + 8.0, frame.top - 22.0), Anchor::Start, role, &head);
        let rate = if narrow {
            format!("{}/s", number(step.rate_per_s))
        } else {
            format!("{} pictures/s asked for", number(step.rate_per_s))
        };
        let after = text::width(&head, form.text_size()) + 18.0;
        if left + after + text::width(&rate, form.text_size()) < right {
            canvas.text(
                (left + after, frame.top - 22.0),
                Anchor::Start,
                Role::Muted,
                &rate,
            );
        }
        if step.series.is_none() {
            panel.not_measured(from, to, "to come");
        }
        let place = |at: f64| panel.at_x((from + at).min(to));
        let good: Vec<(f64, f64)> = dots
            .iter()
            .filter_map(|(at, latency)| Some((place(*at), panel.at_y((*latency)?))))
            .collect();
        let bad: Vec<(f64, f64)> = dots
            .iter()
            .filter(|(_, latency)| latency.is_none())
            .map(|(at, _)| (place(*at), frame.top + 4.0))
            .collect();
        canvas.dots(&good, if good.len() > 150 { 2.0 } else { 3.0 }, role);
        canvas.crosses(&bad, Pen::line(Role::Bad, 16));
        from = to;
    }
    panel.axis_x(
        &panel.x.clock_ticks(if narrow { 4 } else { 8 }),
        if narrow {
            "planned time, pauses left out"
        } else {
            "planned time since the first step, pauses between them left out"
        },
    );
    canvas.text(
        (frame.left, 14.0),
        Anchor::Start,
        Role::Muted,
        if panel.y.is_log() {
            "latency of each picture, log scale"
        } else {
            "latency of each picture"
        },
    );
    canvas
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::series::Dot;

    #[test]
    fn steps_to_come_are_hatched_and_failures_are_crosses() {
        let series = HttpSeries {
            dots: Some(vec![
                Dot {
                    at_s: 0.1,
                    latency_ms: 120.0,
                    outcome: Outcome::Ok,
                },
                Dot {
                    at_s: 0.4,
                    latency_ms: 60_000.0,
                    outcome: Outcome::TtfbTimeout,
                },
            ]),
            ..HttpSeries::default()
        };
        let step = |share, series| MinuteStep {
            share,
            rate_per_s: 8.0 * share,
            seconds: 6.0,
            series,
        };
        let none = first_minute_figure(&[step(0.7, None), step(1.0, None)]);
        assert!(none.empty.is_some());
        let figure = first_minute_figure(&[step(0.7, Some(&series)), step(1.0, None)]);
        assert!(figure.empty.is_none());
        assert_eq!(figure.table.rows.len(), 2);
        assert_eq!(figure.table.rows[1][2], "");
        let svg = figure.desk.inline();
        assert!(svg.as_str().contains("to come"));
        assert!(figure.title.contains("120"), "{}", figure.title);
    }
}
