//! Segments sent again over time.

use crate::chart::axis::{Axis, safe_range};
use crate::chart::canvas::Canvas;
use crate::chart::flow::{Flow, joined};
use crate::chart::panel::{Frame, Panel};
use crate::chart::text::{count, counted, figure as number, seconds};
use crate::chart::theme::{Pen, Role};
use crate::chart::{Figure, Form, Parts, Table, finish};
use crate::measure::flow::Way;
use crate::measure::flow_series::FlowPoint;

pub(crate) const NAME: &str = "retransmits";

pub(crate) fn figure(flow: &Flow<'_>) -> Figure {
    let points: Vec<FlowPoint> = flow
        .sum(Way::Send)
        .into_iter()
        .filter(|point| point.retransmits.is_some())
        .collect();
    let all: u64 = points
        .iter()
        .filter_map(|point| point.retransmits)
        .fold(0, u64::saturating_add);
    let empty = if points.is_empty() {
        Some("This kernel or direction does not tell what was sent again.".to_owned())
    } else {
        (all == 0).then(|| "No segment was sent again.".to_owned())
    };
    let parts = Parts {
        name: NAME,
        title: title(&points, all),
        subtitle: "TCP segments of all streams, by the step in which they were sent again"
            .to_owned(),
        desc: "Bars of the number of TCP segments sent again over time.".to_owned(),
        table: Table::new(
            &["from, s", "to, s", "sent again", "bytes"],
            points.iter().map(|point| {
                vec![
                    number(point.from_s),
                    number(point.to_s),
                    point.retransmits.map(count).unwrap_or_default(),
                    count(point.bytes),
                ]
            }),
        ),
        empty,
        pair: true,
    };
    let bars = joined(&points, 60);
    finish(parts, |form| draw(flow, form, &bars))
}

fn draw(flow: &Flow<'_>, form: Form, bars: &[FlowPoint]) -> Canvas {
    let frame = Frame {
        left: 56.0,
        top: 28.0,
        right: f64::from(form.width()) - 20.0,
        bottom: 188.0,
    };
    let canvas = Canvas::new(form.width(), 230);
    let again = |bar: &FlowPoint| bar.retransmits.unwrap_or(0) as f64;
    let most = bars.iter().map(again).fold(1.0, f64::max);
    let drawn = bars.iter().map(|bar| bar.to_s).fold(0.0, f64::max);
    let end = flow
        .not_measured()
        .map_or(drawn, |(_, to, _)| to.max(drawn));
    let (_, end) = safe_range(0.0, end);
    let panel = Panel::new(
        &canvas,
        frame,
        form.text_size(),
        Axis::Linear(0.0, end),
        Axis::from_zero(most * 1.1),
    );
    let mut ticks = panel.y.number_ticks(4);
    ticks.retain(|(value, _)| value.fract() == 0.0);
    panel.grid_y(&ticks);
    if let Some((from, to, words)) = flow.not_measured() {
        panel.not_measured(from, to, &words);
    }
    for bar in bars {
        let (from, to) = (panel.at_x(bar.from_s), panel.at_x(bar.to_s));
        let y = panel.at_y(again(bar));
        let gap = ((to - from) * 0.15).min(2.0);
        canvas.rect(
            from + gap,
            y,
            (to - from - gap * 2.0).max(0.8),
            frame.bottom - y,
            Pen::fill(Role::S1),
        );
    }
    panel.name_y("segments sent again");
    let ticks = panel.x.clock_ticks(4);
    panel.axis_x(&ticks, "time since the load began");
    canvas
}

fn title(points: &[FlowPoint], all: u64) -> String {
    if all == 0 {
        return "No segment was sent again".to_owned();
    }
    let again = counted(all, "segment");
    let verb = if all == 1 { "was" } else { "were" };
    let worst = points.iter().max_by_key(|point| point.retransmits);
    match worst {
        Some(worst) if points.len() >= 3 && worst.retransmits.unwrap_or(0) > all / 2 && all > 1 => {
            format!(
                "{again} {verb} sent again, most from {} to {}",
                seconds(worst.from_s),
                seconds(worst.to_s)
            )
        }
        _ => format!("{again} {verb} sent again"),
    }
}
