//! Servers up and down over time: a strip for each, with the gaps said in words.

use crate::chart::axis::{Axis, safe_range};
use crate::chart::canvas::{Anchor, Canvas};
use crate::chart::labels::cut;
use crate::chart::panel::{Frame, Panel};
use crate::chart::text::{self, seconds};
use crate::chart::theme::{Pen, Role};
use crate::chart::{Figure, Form, Parts, Table, finish};
use crate::measure::health::{Span, down_s};

const NAME: &str = "uptime";
/// Height of a server's strip in px.
const STRIP: f64 = 26.0;

/// One server.
#[derive(Clone, Debug, PartialEq)]
pub struct UptimeLine {
    /// What it is called.
    pub name: String,
    /// When it was up and down.
    pub spans: Vec<Span>,
}

/// The chart.
pub fn uptime_figure(lines: &[UptimeLine]) -> Figure {
    let checked = lines.iter().filter(|line| !line.spans.is_empty());
    let (mut up, mut down) = (0_usize, Vec::new());
    for line in checked {
        match line.spans.last() {
            Some(last) if last.up => up += 1,
            _ => down.push(text::clean(&line.name)),
        }
    }
    let all = up + down.len();
    let title = match (all, down.as_slice()) {
        (0, _) => "Nothing has been checked yet".to_owned(),
        (1, []) => "The server is up".to_owned(),
        (_, []) => format!("All {all} servers are up"),
        (_, [one]) => format!("{up} of {all} servers are up; {one} is down"),
        (_, down) => format!("{up} of {all} servers are up; {} are down", down.len()),
    };
    let end = lines
        .iter()
        .flat_map(|line| &line.spans)
        .map(|span| span.to_s)
        .fold(0.0, f64::max);
    let rows = lines.iter().flat_map(|line| {
        line.spans.iter().map(|span| {
            vec![
                text::clean(&line.name),
                if span.up { "up" } else { "down" }.to_owned(),
                seconds(span.from_s),
                seconds(span.to_s),
            ]
        })
    });
    let parts = Parts {
        name: NAME,
        title,
        subtitle: "Health checks since the monitor began: low bars up, high ones down".to_owned(),
        desc: "A strip for each server, with the times in which it was down.".to_owned(),
        table: Table::new(&["server", "state", "from", "to"], rows),
        empty: (all == 0).then(|| "The first checks are under way.".to_owned()),
        pair: false,
    };
    finish(parts, |form| draw(form, lines, end))
}

fn draw(form: Form, lines: &[UptimeLine], end: f64) -> Canvas {
    let height = STRIP * lines.len().max(1) as f64;
    let frame = Frame {
        left: if form.is_narrow() { 84.0 } else { 130.0 },
        top: 10.0,
        right: f64::from(form.width()) - if form.is_narrow() { 96.0 } else { 110.0 },
        bottom: 10.0 + height,
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "64 strips at most"
    )]
    let canvas = Canvas::new(form.width(), (height + 56.0) as u32);
    let (_, far) = safe_range(0.0, end);
    let panel = Panel::new(
        &canvas,
        frame,
        form.text_size(),
        Axis::Linear(0.0, far),
        Axis::Linear(0.0, 1.0),
    );
    for (place, line) in lines.iter().enumerate() {
        let top = frame.top + STRIP * place as f64;
        let name = cut(&text::clean(&line.name), frame.left - 12.0, panel.size);
        let base = top + STRIP * 0.66;
        canvas.text((frame.left - 8.0, base), Anchor::End, Role::Ink, &name);
        for span in &line.spans {
            let (from, to) = (panel.at_x(span.from_s), panel.at_x(span.to_s));
            // A single check is a moment, and yet is seen.
            let wide = (to - from).max(2.0);
            if span.up {
                let pen = Pen::fill(Role::S3);
                canvas.rect(from, top + 5.0, wide, STRIP - 10.0, pen);
            } else {
                canvas.rect(from, top + 2.0, wide, STRIP - 4.0, Pen::fill(Role::Bad));
            }
        }
        let lost = down_s(&line.spans);
        let is_down = line.spans.last().is_some_and(|last| !last.up);
        let (role, words) = match (is_down, lost > 0.0) {
            (true, _) => (Role::Bad, format!("✕ down {}", seconds(lost))),
            (false, true) => (Role::Muted, format!("{} down", seconds(lost))),
            (false, false) => (Role::Muted, "✓ up".to_owned()),
        };
        if !line.spans.is_empty() {
            let room = f64::from(form.width()) - frame.right - 10.0;
            let words = cut(&words, room, panel.size);
            canvas.text((frame.right + 8.0, base), Anchor::Start, role, &words);
        }
    }
    let ticks = panel.x.clock_ticks(if form.is_narrow() { 4 } else { 7 });
    panel.axis_x(&ticks, "time since the monitor began");
    canvas
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &str, spans: &[(f64, f64, bool)]) -> UptimeLine {
        UptimeLine {
            name: name.to_owned(),
            spans: spans
                .iter()
                .map(|&(from_s, to_s, up)| Span { from_s, to_s, up })
                .collect(),
        }
    }

    #[test]
    fn who_is_down_stands_in_the_title() {
        let up = line("r1a", &[(0.0, 9.0, true)]);
        let back = line(
            "r1b",
            &[(0.0, 3.0, true), (3.0, 5.0, false), (5.0, 9.0, true)],
        );
        let gone = line("<r1c>", &[(0.0, 3.0, true), (3.0, 9.0, false)]);
        let figure = uptime_figure(&[up.clone(), back, gone]);
        assert_eq!(figure.title, "2 of 3 servers are up; <r1c> is down");
        assert_eq!(figure.table.rows.len(), 6);
        let svg = figure.desk.inline();
        assert!(svg.as_str().contains("✕ down"));
        assert!(!svg.as_str().contains("<r1c>"));
        assert_eq!(uptime_figure(&[up]).title, "The server is up");
        assert!(uptime_figure(&[line("x", &[])]).empty.is_some());
        assert!(uptime_figure(&[]).empty.is_some());
    }
}
