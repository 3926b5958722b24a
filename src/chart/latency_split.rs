//! Where the time of the replies goes, by backend: stacked level bars, and a hatched one for requests without a reply.

use crate::chart::axis::Axis;
use crate::chart::canvas::{Anchor, Canvas};
use crate::chart::facts::Facts;
use crate::chart::labels::cut;
use crate::chart::panel::{Frame, Panel};
use crate::chart::text::{self, NARROW, count, ms, percent};
use crate::chart::theme::{Pen, Role};
use crate::chart::{Figure, Form, Parts, Table, fetch, finish};
use crate::measure::series::SplitMeans;
use crate::measure::summary::Summary;

pub(crate) const NAME: &str = "latency-split";

/// Most backends with a bar of their own.
const MOST_BARS: usize = 8;

/// The parts of a latency: name, how it is drawn, and its mean.
type Part = (&'static str, Pen, fn(&SplitMeans) -> f64);

const PARTS: [Part; 7] = [
    (
        "our own lateness",
        Pen::hatch(Role::Axis).outline(Role::Axis),
        |split| split.lateness_ms,
    ),
    ("connect", Pen::fill(Role::S4), |split| split.connect_ms),
    ("TLS", Pen::fill(Role::S3), |split| split.tls_ms),
    ("waiting in the queue", Pen::fill(Role::S1), |split| {
        split.queue_ms.unwrap_or(0.0)
    }),
    (
        "computing",
        Pen::fill(Role::Orange).outline(Role::Ink),
        |split| split.compute_ms.unwrap_or(0.0),
    ),
    (
        "network and rest",
        Pen::fill(Role::Wash).outline(Role::Axis),
        |split| split.rest_ms,
    ),
    (
        "transfer",
        Pen::fill(Role::Sky).outline(Role::S1),
        |split| split.transfer_ms,
    ),
];

/// One bar.
struct Bar {
    name: String,
    replies: u64,
    /// Mean of each of [`PARTS`] in ms.
    means: [f64; 7],
}

impl Bar {
    fn new(name: String, split: &SplitMeans) -> Self {
        Self {
            name,
            replies: split.replies,
            means: PARTS.map(|(_, _, mean)| {
                let mean = mean(split);
                if mean.is_finite() {
                    mean.clamp(0.0, 1e9)
                } else {
                    0.0
                }
            }),
        }
    }

    fn total(&self) -> f64 {
        self.means.iter().sum()
    }
}

pub(crate) fn figure(facts: &Facts<'_>) -> Figure {
    if let Summary::Fetch(summary) = facts.summary {
        return fetch::figure(facts, summary);
    }
    let bars = bars(facts);
    let empty = facts.nothing().or_else(|| {
        bars.is_empty()
            .then(|| "No reply came, so no time can be split.".to_owned())
    });
    let timed = facts.server_timing().is_some();
    let source = if timed {
        "queue and computing as the server says (Server-Timing)"
    } else {
        "the server does not say what it did, so that is in the rest"
    };
    let parts = Parts {
        name: NAME,
        title: title(&bars, timed),
        subtitle: format!(
            "Mean parts of the latency of {}; {source}",
            if facts.replies == 1 {
                "1 reply".to_owned()
            } else {
                format!("{} replies", count(facts.replies))
            }
        ),
        desc: "Mean latency by backend, split into its parts.".to_owned(),
        table: table(&bars),
        empty,
        pair: true,
    };
    finish(parts, |form| draw(facts, form, &bars))
}

/// A bar for each backend, the last one for all others together where there are too many.
fn bars(facts: &Facts<'_>) -> Vec<Bar> {
    let mut bars: Vec<Bar> = facts
        .series
        .split
        .iter()
        .filter(|(_, split)| split.replies > 0)
        .map(|(name, split)| Bar::new(named(name, facts.series.split.len()), split))
        .collect();
    if bars.len() > MOST_BARS {
        bars.sort_by_key(|bar| std::cmp::Reverse(bar.replies));
        let others = bars.split_off(MOST_BARS - 1);
        let replies: u64 = others.iter().map(|bar| bar.replies).sum();
        let mut means = [0.0; 7];
        for bar in &others {
            for (sum, mean) in means.iter_mut().zip(bar.means) {
                *sum += mean * bar.replies as f64 / replies.max(1) as f64;
            }
        }
        bars.sort_by(|a, b| a.name.cmp(&b.name));
        bars.push(Bar {
            name: format!("{} others", others.len()),
            replies,
            means,
        });
    }
    bars
}

/// What a backend is called; replies that name none are called so where others do.
fn named(name: &str, of: usize) -> String {
    match text::clean(name) {
        name if !name.trim().is_empty() => name,
        _ if of == 1 => "replies".to_owned(),
        _ => "unnamed".to_owned(),
    }
}

fn draw(facts: &Facts<'_>, form: Form, bars: &[Bar]) -> Canvas {
    let size = form.text_size();
    let longest = bars.iter().map(Bar::total).fold(0.0, f64::max);
    let shown: Vec<usize> = (0..PARTS.len())
        .filter(|&part| bars.iter().any(|bar| bar.means[part] > longest * 0.006))
        .collect();
    let legend = place_legend(&shown, f64::from(form.width()), size);
    let legend_rows = legend.last().map_or(0.0, |entry| entry.1 + 1.0);
    let top = 12.0 + legend_rows * 18.0;
    let rows = bars.len() + usize::from(facts.no_reply > 0);
    let (step, thick) = if rows > 5 { (38.0, 24.0) } else { (50.0, 34.0) };
    let bottom = top + 6.0 + step * rows as f64;
    let canvas = Canvas::new(
        form.width(),
        u32::try_from(text::whole(bottom + 42.0)).unwrap_or(400),
    );
    let names = bars
        .iter()
        .map(|bar| text::width(&bar.name, size))
        .fold(text::width("no reply", size) * 1.06, f64::max);
    let left = (names + 16.0).clamp(62.0, 128.0);
    let right = f64::from(form.width()) - 26.0;
    let frame = Frame {
        left,
        top,
        right,
        bottom,
    };
    let scale = if facts.timeouts > 0 && facts.timeout_ms <= longest * 2.5 {
        facts.timeout_ms
    } else {
        longest * 1.25
    };
    let panel = Panel::new(
        &canvas,
        frame,
        size,
        Axis::from_zero(scale * 1.02),
        Axis::Linear(0.0, 1.0),
    );
    let ticks = panel.x.latency_ticks(6);
    panel.grid_x(&ticks);
    panel.axis_x(&ticks, "mean latency of the replies");
    write_legend(&canvas, &legend);
    for (row, bar) in bars.iter().enumerate() {
        let y = top + 6.0 + step * row as f64 + (step - thick) / 2.0;
        draw_bar(&panel, bar, y, thick, &shown);
    }
    if facts.no_reply > 0 {
        let y = top + 6.0 + step * bars.len() as f64 + (step - thick) / 2.0;
        draw_no_reply(facts, &panel, y, thick, scale);
    }
    canvas
}

fn draw_bar(panel: &Panel, bar: &Bar, y: f64, thick: f64, shown: &[usize]) {
    let Frame { left, right, .. } = panel.frame;
    let canvas = &panel.canvas;
    let baseline = y + thick / 2.0 + 4.2;
    let name = cut(&bar.name, left - 12.0, panel.size);
    canvas.text((left - 8.0, baseline), Anchor::End, Role::Ink, &name);
    let mut sum = 0.0;
    for &part in shown {
        let (name, pen, _) = PARTS[part];
        let (from, to) = (panel.at_x(sum), panel.at_x(sum + bar.means[part]));
        sum += bar.means[part];
        canvas.rect(from, y, to - from, thick, pen);
        let short = if part == 3 { "queue" } else { name };
        let words = format!("{short} {}", ms(bar.means[part]));
        if matches!(pen.role, Role::S1 | Role::S3 | Role::S4)
            && text::width(&words, panel.size) * 1.06 + 10.0 < to - from
        {
            canvas.strong(
                (f64::midpoint(from, to), baseline),
                Anchor::Middle,
                Role::Paper,
                &words,
            );
        }
    }
    let end = panel.at_x(bar.total()) + 8.0;
    let total = ms(bar.total());
    let words = largest(bar)
        .filter(|(_, share)| *share > 0.5)
        .map(|(part, share)| {
            let short = [
                "lateness",
                "connect",
                "TLS",
                "queue",
                "computing",
                "rest",
                "transfer",
            ][part];
            if share > 0.97 {
                format!(", all of it {short}")
            } else {
                format!(", {} {short}", percent(share))
            }
        })
        .unwrap_or_default();
    let room = right + 22.0 - end;
    let full = text::width(&format!("{total}{words}"), panel.size) * 1.04;
    if full <= room {
        canvas.figure_and_words((end, baseline), &total, &words);
    } else {
        canvas.figure_and_words((end, baseline), &total, "");
    }
}

/// The largest part of a bar and its share.
fn largest(bar: &Bar) -> Option<(usize, f64)> {
    let total = bar.total();
    let (part, mean) = bar
        .means
        .iter()
        .enumerate()
        .max_by(|a, b| a.1.total_cmp(b.1))?;
    (total > 0.0).then(|| (part, mean / total))
}

fn draw_no_reply(facts: &Facts<'_>, panel: &Panel, y: f64, thick: f64, scale: f64) {
    let Frame { left, .. } = panel.frame;
    let canvas = &panel.canvas;
    let wide = panel.at_x(scale) - left;
    let baseline = y + thick / 2.0 + 4.2;
    canvas.strong((left - 8.0, baseline), Anchor::End, Role::Bad, "no reply");
    canvas.rect(left, y, wide, thick, Pen::hatch(Role::Axis).opacity(0.6));
    canvas.rect(left, y + 0.5, wide, thick - 1.0, Pen::line(Role::Muted, 10));
    let long = if facts.timeouts == facts.no_reply {
        format!(
            "{} gave up at {}: no split known",
            count(facts.no_reply),
            ms(facts.timeout_ms)
        )
    } else {
        format!("{} without a reply: no split known", count(facts.no_reply))
    };
    let short = format!("{}: no split known", count(facts.no_reply));
    let words = [long, short, count(facts.no_reply)]
        .into_iter()
        .find(|words| text::width(words, panel.size) + 24.0 < wide)
        .unwrap_or_default();
    let ground = text::width(&words, panel.size) + 10.0;
    let middle = left + wide / 2.0;
    canvas.rect(
        middle - ground / 2.0,
        y + thick / 2.0 - 10.0,
        ground,
        20.0,
        Pen::fill(Role::Paper),
    );
    canvas.text((middle, baseline), Anchor::Middle, Role::Ink, &words);
}

/// Places of the parts' names above the bars: x, row, name, pen.
pub(crate) type Legend = Vec<(f64, f64, &'static str, Pen)>;

fn place_legend(shown: &[usize], room: f64, size: f64) -> Legend {
    flow(
        shown.iter().map(|&part| (PARTS[part].0, PARTS[part].1)),
        room,
        size,
    )
}

/// Sets entries in rows from the left.
pub(crate) fn flow(
    entries: impl Iterator<Item = (&'static str, Pen)>,
    room: f64,
    size: f64,
) -> Legend {
    let (mut x, mut row) = (0.0, 0.0);
    entries
        .map(|(name, pen)| {
            let wide = 17.0 + text::width(name, size) + 16.0;
            if x > 0.0 && x + wide > room {
                x = 0.0;
                row += 1.0;
            }
            let entry = (x, row, name, pen);
            x += wide;
            entry
        })
        .collect()
}

pub(crate) fn write_legend(canvas: &Canvas, legend: &Legend) {
    for (x, row, name, pen) in legend {
        let y = 4.0 + row * 18.0;
        canvas.rect(x + 0.5, y + 0.5, 11.0, 11.0, *pen);
        canvas.text((x + 17.0, y + 10.0), Anchor::Start, Role::Muted, name);
    }
}

/// Names the backend that waits when others do not, else the part that dominates.
fn title(bars: &[Bar], timed: bool) -> String {
    const NEUTRAL: &str = "Where the time goes";
    let replies: u64 = bars.iter().map(|bar| bar.replies).sum();
    let all: f64 = bars
        .iter()
        .map(|bar| bar.total() * bar.replies as f64)
        .sum();
    if replies == 0 || all <= 0.0 {
        return NEUTRAL.to_owned();
    }
    let share = |part: usize| {
        bars.iter()
            .map(|bar| bar.means[part] * bar.replies as f64)
            .sum::<f64>()
            / all
    };
    let worst = bars.iter().max_by(|a, b| a.total().total_cmp(&b.total()));
    if let (Some(worst), true) = (worst, bars.len() > 1) {
        let rest = bars
            .iter()
            .filter(|bar| bar.name != worst.name)
            .map(Bar::total)
            .fold(0.0, f64::max);
        if worst.total() > rest * 2.0 && worst.means[3] > worst.total() * 0.5 {
            return format!(
                "The time goes into waiting at {}, not into the network",
                text::shorten(&worst.name, 24)
            );
        }
        if worst.total() > rest * 2.0 {
            return format!(
                "{} takes {}, the others at most {}",
                text::shorten(&worst.name, 24),
                ms(worst.total()),
                ms(rest)
            );
        }
    }
    let phrases = [
        "our own lateness",
        "connecting",
        "the TLS handshake",
        "waiting in the server's queue",
        "computing",
        if timed {
            "the network and what the server leaves out"
        } else {
            "the server and the network"
        },
        "the transfer of the replies",
    ];
    (0..PARTS.len())
        .map(|part| (part, share(part)))
        .find(|(_, share)| *share > 0.6)
        .map_or_else(
            || NEUTRAL.to_owned(),
            |(part, share)| format!("{} of the time is {}", percent(share), phrases[part]),
        )
}

fn table(bars: &[Bar]) -> Table {
    let mut head = vec!["backend", "replies", "mean, ms"];
    let names: Vec<String> = PARTS
        .iter()
        .map(|(name, _, _)| format!("{name}, ms"))
        .collect();
    head.extend(names.iter().map(String::as_str));
    Table::new(
        &head,
        bars.iter().map(|bar| {
            let mut row = vec![
                bar.name.clone(),
                count(bar.replies),
                text::figure(bar.total()),
            ];
            row.extend(
                bar.means
                    .iter()
                    .map(|mean| text::figure(*mean).replace(NARROW, "")),
            );
            row
        }),
    )
}
