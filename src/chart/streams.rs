//! The streams against each other: a bar each, the fastest first, and the share that each would have of an even split.

use crate::chart::axis::Axis;
use crate::chart::canvas::{Anchor, Canvas};
use crate::chart::flow::{Flow, unit};
use crate::chart::panel::{Frame, Panel};
use crate::chart::text::{self, count, figure as number};
use crate::chart::theme::{Manner, Pen, Role};
use crate::chart::{Figure, Form, Parts, Table, finish};
use crate::measure::flow::Way;
use crate::measure::summary::flow::StreamFigures;

pub(crate) const NAME: &str = "streams";

/// More streams than this: only the fastest and the slowest half as many are drawn.
const MOST_BARS: usize = 24;

/// One row of the chart.
enum Bar<'a> {
    Stream(&'a StreamFigures, f64),
    Failed(&'a StreamFigures),
    More(usize),
}

pub(crate) fn figure(flow: &Flow<'_>) -> Figure {
    let streams: &[StreamFigures] = flow.summary().map_or(&[], |summary| &summary.streams);
    let mut ranked: Vec<(&StreamFigures, f64)> = streams
        .iter()
        .filter_map(|stream| Some((stream, stream.bits_per_second?)))
        .filter(|(stream, rate)| stream.failed.is_none() && rate.is_finite() && *rate >= 0.0)
        .collect();
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.id.cmp(&b.0.id)));
    let failed: Vec<&StreamFigures> = streams
        .iter()
        .filter(|stream| stream.failed.is_some())
        .collect();
    let most = ranked.first().map_or(0.0, |first| first.1);
    let (factor, name) = unit(most);
    let parts = Parts {
        name: NAME,
        title: title(flow, &ranked, &failed),
        subtitle: format!(
            "{name} of each stream, from its first to its last byte.{}",
            flow.short_cuts()
        ),
        desc: "One bar for each stream, the fastest first; the dashed line is an even share."
            .to_owned(),
        table: Table::new(
            &[
                "stream",
                "direction",
                "bytes",
                "rate",
                "retransmitted",
                "failed",
            ],
            streams.iter().map(|stream| {
                vec![
                    stream.id.to_string(),
                    stream.direction.clone(),
                    count(stream.bytes),
                    stream
                        .bits_per_second
                        .map(|rate| format!("{} {name}", number(rate / factor)))
                        .unwrap_or_default(),
                    stream.retransmits.map(count).unwrap_or_default(),
                    stream
                        .failed
                        .as_deref()
                        .map(text::clean)
                        .unwrap_or_default(),
                ]
            }),
        ),
        empty: (most <= 0.0).then(|| flow.nothing()),
        pair: true,
    };
    let bars = bars(&ranked, &failed);
    let two_ways = flow.two_ways();
    let share = if two_ways || ranked.len() < 2 {
        None
    } else {
        Some(ranked.iter().map(|one| one.1).sum::<f64>() / ranked.len() as f64)
    };
    finish(parts, |form| {
        draw(form, &bars, (factor, name), most, share, two_ways)
    })
}

fn bars<'a>(ranked: &[(&'a StreamFigures, f64)], failed: &[&'a StreamFigures]) -> Vec<Bar<'a>> {
    let bar = |&(stream, rate): &(&'a StreamFigures, f64)| Bar::Stream(stream, rate);
    let mut bars: Vec<Bar<'a>> = if ranked.len() <= MOST_BARS {
        ranked.iter().map(bar).collect()
    } else {
        let half = MOST_BARS / 2;
        let (first, last) = (&ranked[..half], &ranked[ranked.len() - half..]);
        first
            .iter()
            .map(bar)
            .chain([Bar::More(ranked.len() - MOST_BARS)])
            .chain(last.iter().map(bar))
            .collect()
    };
    bars.extend(failed.iter().take(4).map(|stream| Bar::Failed(stream)));
    if failed.len() > 4 {
        bars.push(Bar::More(failed.len() - 4));
    }
    bars
}

fn draw(
    form: Form,
    bars: &[Bar<'_>],
    (factor, name): (f64, &str),
    most: f64,
    share: Option<f64>,
    two_ways: bool,
) -> Canvas {
    const STEP: f64 = 20.0;
    let width = f64::from(form.width());
    let frame = Frame {
        left: if two_ways { 132.0 } else { 84.0 },
        top: 26.0,
        right: width - 56.0,
        bottom: 26.0 + bars.len() as f64 * STEP + 4.0,
    };
    let height = u32::try_from(text::whole(frame.bottom + 42.0)).unwrap_or(200);
    let canvas = Canvas::new(form.width(), height);
    let size = form.text_size();
    let panel = Panel::new(
        &canvas,
        frame,
        size,
        Axis::from_zero(most / factor * 1.02),
        Axis::Linear(0.0, 1.0),
    );
    let ticks = panel.x.number_ticks(4);
    panel.grid_x(&ticks);
    let last = bars.len().saturating_sub(1);
    for (index, bar) in bars.iter().enumerate() {
        let y = frame.top + 4.0 + index as f64 * STEP;
        let base = y + 12.2;
        match bar {
            Bar::Stream(stream, rate) => {
                let to = panel.at_x(rate / factor);
                let ends = index == 0 || index == last;
                let pen = match (stream.direction == Way::Receive.word(), ends) {
                    (true, _) => Pen::fill(Role::S3).opacity(if ends { 1.0 } else { 0.6 }),
                    (false, true) => Pen::fill(Role::S1),
                    (false, false) => Pen::fill(Role::S1).opacity(0.55),
                };
                canvas.rect(frame.left, y + 1.0, (to - frame.left).max(0.8), 14.0, pen);
                canvas.text(
                    (frame.left - 8.0, base),
                    Anchor::End,
                    Role::Ink,
                    &label(stream, two_ways),
                );
                let words = number(rate / factor);
                if ends {
                    canvas.strong((width - 2.0, base), Anchor::End, Role::Ink, &words);
                } else {
                    canvas.text((width - 2.0, base), Anchor::End, Role::Ink, &words);
                }
            }
            Bar::Failed(stream) => {
                canvas.text(
                    (frame.left - 8.0, base),
                    Anchor::End,
                    Role::Ink,
                    &label(stream, two_ways),
                );
                canvas.strong(
                    (frame.left + 4.0, base),
                    Anchor::Start,
                    Role::Bad,
                    "✕ failed",
                );
            }
            Bar::More(more) => {
                let words = format!("… {} more", count(*more as u64));
                canvas.text((frame.left + 4.0, base), Anchor::Start, Role::Muted, &words);
            }
        }
    }
    if let Some(share) = share {
        let x = panel.at_x(share / factor);
        let pen = Pen::line(Role::S2, 16).manner(Manner::Dashed);
        canvas.line((x, frame.top - 4.0), (x, frame.bottom), pen);
        let words = format!("even share {}", number(share / factor));
        let wide = text::width(&words, size) * 1.06;
        let x = x.clamp(frame.left + wide / 2.0, width - wide / 2.0);
        canvas.strong((x, 14.0), Anchor::Middle, Role::S2, &words);
    }
    panel.axis_x(&ticks, name);
    canvas
}

fn label(stream: &StreamFigures, two_ways: bool) -> String {
    if two_ways {
        format!(
            "stream {} {}",
            stream.id,
            text::shorten(&stream.direction, 8)
        )
    } else {
        format!("stream {}", stream.id)
    }
}

fn title(flow: &Flow<'_>, ranked: &[(&StreamFigures, f64)], failed: &[&StreamFigures]) -> String {
    let n = ranked.len();
    if !failed.is_empty() {
        let all = (n + failed.len()) as u64;
        return format!(
            "{} of {} streams failed",
            count(failed.len() as u64),
            count(all)
        );
    }
    let (Some(first), Some(last)) = (ranked.first(), ranked.last()) else {
        return "Streams".to_owned();
    };
    if n < 2 || last.1 <= 0.0 || flow.two_ways() {
        return "Streams, the fastest first".to_owned();
    }
    let ratio = first.1 / last.1;
    if ratio < 1.1 {
        format!("The {n} streams share it evenly")
    } else if ratio < 1000.0 {
        format!(
            "Stream {} takes {ratio:.1} × as much as stream {}",
            first.0.id, last.0.id
        )
    } else {
        format!("Stream {} has next to nothing", last.0.id)
    }
}
