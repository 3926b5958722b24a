//! One request in its phases, as one bar: lookup, connect, TLS, waiting for the first byte, transfer.

use crate::chart::axis::Axis;
use crate::chart::canvas::{Anchor, Canvas};
use crate::chart::facts::Facts;
use crate::chart::latency_split::{NAME, flow, write_legend};
use crate::chart::panel::{Frame, Panel};
use crate::chart::text::{self, ms, percent};
use crate::chart::theme::{Pen, Role};
use crate::chart::{Figure, Form, Parts, Table, finish};
use crate::measure::summary::FetchSummary;

/// Name, pen and length in ms of each phase that took place.
type Phases = Vec<(&'static str, Pen, f64)>;

pub(crate) fn figure(facts: &Facts<'_>, summary: &FetchSummary) -> Figure {
    let phases = phases(summary);
    let total: f64 = phases.iter().map(|phase| phase.2).sum();
    let empty = (phases.is_empty() || total <= 0.0).then(|| {
        facts
            .nothing()
            .unwrap_or_else(|| "No phase was completed, so there is nothing to draw.".to_owned())
    });
    let parts = Parts {
        name: NAME,
        title: title(&phases, total, summary),
        subtitle: "The phases of the one request, in the order in which they happened".to_owned(),
        desc: "One bar from the start of the request to the last byte of its reply, split into phases.".to_owned(),
        table: Table::new(
            &["phase", "time, ms", "share"],
            phases.iter().map(|(name, _, length)| {
                vec![(*name).to_owned(), text::figure(*length), percent(length / total.max(1e-9))]
            }),
        ),
        empty,
        pair: false,
    };
    finish(parts, |form| draw(form, &phases, total))
}

fn phases(summary: &FetchSummary) -> Phases {
    let before = [summary.lookup_ms, summary.connect_ms, summary.tls_ms];
    let until_sent: f64 = before.iter().flatten().sum();
    let wait = summary.first_byte_ms.map(|first| first - until_sent);
    let transfer = summary
        .total_ms
        .zip(summary.first_byte_ms)
        .map(|(total, first)| total - first);
    [
        (
            "name lookup",
            Pen::fill(Role::Wash).outline(Role::Axis),
            summary.lookup_ms,
        ),
        ("connect", Pen::fill(Role::S4), summary.connect_ms),
        ("TLS", Pen::fill(Role::S3), summary.tls_ms),
        ("waiting for the first byte", Pen::fill(Role::S1), wait),
        ("transfer", Pen::fill(Role::Sky).outline(Role::S1), transfer),
    ]
    .into_iter()
    .filter_map(|(name, pen, length)| {
        let length = length.filter(|length| length.is_finite())?;
        Some((name, pen, length.clamp(0.0, 1e9)))
    })
    .collect()
}

fn draw(form: Form, phases: &Phases, total: f64) -> Canvas {
    let size = form.text_size();
    let width = f64::from(form.width());
    let legend = flow(phases.iter().map(|phase| (phase.0, phase.1)), width, size);
    let top = 22.0 + legend.last().map_or(0.0, |entry| entry.1) * 18.0 + 26.0;
    let frame = Frame {
        left: 16.0,
        top,
        right: width - 40.0,
        bottom: top + 52.0,
    };
    let canvas = Canvas::new(
        form.width(),
        u32::try_from(text::whole(frame.bottom + 42.0)).unwrap_or(160),
    );
    let panel = Panel::new(
        &canvas,
        frame,
        size,
        Axis::from_zero(total),
        Axis::Linear(0.0, 1.0),
    );
    let ticks = panel.x.latency_ticks(if form.is_narrow() { 4 } else { 6 });
    panel.grid_x(&ticks);
    write_legend(&canvas, &legend);
    let mut sum = 0.0;
    let mut free = f64::NEG_INFINITY;
    for (_, pen, length) in phases {
        let (from, to) = (panel.at_x(sum), panel.at_x(sum + length));
        sum += length;
        canvas.rect(from, top + 8.0, (to - from).max(0.8), 34.0, *pen);
        let words = ms(*length);
        let half = text::width(&words, size) / 2.0;
        let middle = f64::midpoint(from, to).max(half);
        // Short phases stand side by side; a value is written only where it does not touch the one before.
        if middle - half > free {
            canvas.strong((middle, top + 2.0), Anchor::Middle, Role::Ink, &words);
            free = middle + half + 8.0;
        }
    }
    panel.axis_x(&ticks, "time since the start");
    canvas
}

fn title(phases: &Phases, total: f64, summary: &FetchSummary) -> String {
    const NEUTRAL: &str = "The phases of one request";
    let Some((name, _, length)) = phases.iter().max_by(|a, b| a.2.total_cmp(&b.2)) else {
        return NEUTRAL.to_owned();
    };
    let share = length / total.max(1e-9);
    if summary.total_ms.is_none() || share <= 0.5 {
        return NEUTRAL.to_owned();
    }
    let phrase = match *name {
        "connect" => "connecting",
        "transfer" => "the transfer",
        "name lookup" => "the name lookup",
        "TLS" => "the TLS handshake",
        other => other,
    };
    format!("{} of {} is {phrase}", percent(share), ms(total))
}
