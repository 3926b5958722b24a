//! A series repeat by repeat: boxes from real percentiles, where it settles, and who answered.

use std::collections::BTreeMap;

use crate::chart::axis::Axis;
use crate::chart::canvas::{Anchor, Canvas};
use crate::chart::experiment::Study;
use crate::chart::labels::{EndLabel, cut, write_end_labels};
use crate::chart::panel::{Frame, Panel};
use crate::chart::text::{self, count, figure as number, ms, percent};
use crate::chart::theme::{Manner, Pen, Role};
use crate::chart::{Figure, Form, Parts, Table, finish};
use crate::measure::experiment::Point;
use crate::measure::fold::Series;
use crate::measure::summary::{ServedBy, Summary};

pub(crate) const NAME: &str = "series";

/// Fewer values than this make no box.
const BOX_FROM: u64 = 5;

/// Names with a colour of their own.
const COLOURS: [Pen; 5] = [
    Pen::fill(Role::S1),
    Pen::fill(Role::Sky).outline(Role::S1),
    Pen::fill(Role::S3),
    Pen::fill(Role::Orange).outline(Role::Ink),
    Pen::fill(Role::S4),
];

/// One repeat.
struct Repeat {
    number: u32,
    n: u64,
    median: Option<f64>,
    max: Option<f64>,
    /// 5th, 25th, 75th and 95th percentile.
    spread: Option<[f64; 4]>,
    /// Replies by region, or by backend where no region is named.
    by: BTreeMap<String, u64>,
    failed: bool,
}

pub(crate) fn figure(study: &Study<'_>) -> Figure {
    let repeats: Vec<Repeat> = study.ended().map(|point| repeat(study, point)).collect();
    let names = names(&repeats);
    let who = if names.is_empty() {
        ""
    } else {
        " Below, the share of each that answered."
    };
    let parts = Parts {
        name: NAME,
        title: title(study, &repeats),
        subtitle: format!(
            "Box p25 to p75 with the median, whiskers p5 to p95, ▲ maximum. {}.{who}",
            study.n_in_words()
        ),
        desc: "Latency of each repeat as a box, and who answered.".to_owned(),
        table: table(&repeats, &names),
        empty: study.nothing(),
        pair: false,
    };
    finish(parts, |form| draw(study, form, &repeats, &names))
}

fn repeat(study: &Study<'_>, point: &Point) -> Repeat {
    let figures = point.summary.as_ref().and_then(|summary| match summary {
        Summary::Rate(rate) => Some(&rate.latency_ms),
        Summary::Users(users) => Some(&users.latency_ms),
        Summary::Ping(ping) => Some(&ping.rtt_ms.figures),
        _ => None,
    });
    let good = |value: &f64| value.is_finite() && *value >= 0.0;
    let median = Study::figure(point);
    Repeat {
        number: point.repeat,
        n: figures.map_or(0, |figures| figures.count),
        median,
        max: figures
            .filter(|_| median.is_some())
            .and_then(|figures| figures.max)
            .filter(good),
        spread: study
            .series_of(point.run)
            .and_then(spread)
            .filter(|_| median.is_some())
            .filter(|spread| spread.iter().all(good)),
        by: point.summary.as_ref().map(answerers).unwrap_or_default(),
        failed: median.is_none(),
    }
}

/// The 5th, 25th, 75th and 95th percentile, from what was kept of every request.
fn spread(series: &Series) -> Option<[f64; 4]> {
    let shares = [0.05, 0.25, 0.75, 0.95];
    match series {
        Series::Http(series) => {
            let curve = &series.percentiles_replies;
            let at = |share: f64| {
                curve
                    .iter()
                    .find(|point| point.share >= share)
                    .and_then(|point| point.latency_ms)
            };
            let found: Vec<f64> = shares.into_iter().filter_map(at).collect();
            found.try_into().ok()
        }
        Series::Flow(series) => {
            let mut times: Vec<f64> = series.echoes.iter().filter_map(|e| e.rtt_ms).collect();
            times.sort_by(f64::total_cmp);
            let at = |share: f64| {
                let rank = (share * times.len() as f64).ceil().max(1.0);
                times
                    .get(usize::try_from(text::whole(rank)).ok()? - 1)
                    .copied()
            };
            let found: Vec<f64> = shares.into_iter().filter_map(at).collect();
            found.try_into().ok()
        }
    }
}

fn answerers(summary: &Summary) -> BTreeMap<String, u64> {
    let named = |by: &BTreeMap<String, ServedBy>| -> BTreeMap<String, u64> {
        by.iter()
            .filter(|(name, _)| !name.is_empty())
            .map(|(name, served)| (name.clone(), served.replies))
            .collect()
    };
    let (regions, backends) = match summary {
        Summary::Rate(rate) => (named(&rate.regions), named(&rate.served_by)),
        Summary::Users(users) => (named(&users.regions), named(&users.served_by)),
        _ => return BTreeMap::new(),
    };
    if regions.is_empty() {
        backends
    } else {
        regions
    }
}

/// Everyone who answered; the most frequent first, all beyond the colours left to one more.
fn names(repeats: &[Repeat]) -> Vec<String> {
    let mut totals: BTreeMap<&str, u64> = BTreeMap::new();
    for (name, replies) in repeats.iter().flat_map(|repeat| &repeat.by) {
        *totals.entry(name).or_default() += replies;
    }
    let mut ranked: Vec<(&str, u64)> = totals.into_iter().collect();
    ranked.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    let mut names: Vec<String> = ranked
        .into_iter()
        .take(COLOURS.len())
        .map(|(name, _)| name.to_owned())
        .collect();
    names.sort();
    names
}

fn title(study: &Study<'_>, repeats: &[Repeat]) -> String {
    let known: Vec<f64> = repeats.iter().filter_map(|repeat| repeat.median).collect();
    let (Some(first), Some(last)) = (known.first(), known.last()) else {
        return "Latency repeat by repeat".to_owned();
    };
    match (study.experiment.settled_at, known.len()) {
        (_, 1) => format!("One repeat: median {}", ms(*first)),
        (Some(1), _) => format!("Steady from the first repeat: median {}", ms(*first)),
        (Some(at), _) => format!(
            "Settled at repeat {at}: median {} → {}",
            ms(*first),
            ms(*last)
        ),
        (None, n) => format!(
            "Not settled after {n} repeats: median {} → {}",
            ms(*first),
            ms(*last)
        ),
    }
}

fn draw(study: &Study<'_>, form: Form, repeats: &[Repeat], names: &[String]) -> Canvas {
    let narrow = form.is_narrow();
    let (left, right) = if narrow { (56.0, 316.0) } else { (62.0, 760.0) };
    let bottom = if narrow { 206.0 } else { 226.0 };
    let shares = if names.is_empty() { 0.0 } else { 92.0 };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "some hundred px"
    )]
    let canvas = Canvas::new(form.width(), (bottom + shares + 44.0) as u32);
    let frame = Frame {
        left,
        top: 28.0,
        right,
        bottom,
    };
    let last = repeats
        .iter()
        .map(|repeat| repeat.number)
        .max()
        .unwrap_or(1);
    let x = Axis::Linear(0.4, f64::from(last) + 0.6);
    let values = repeats.iter().flat_map(|repeat| {
        let ends = repeat.spread.map(|spread| [spread[0], spread[3]]);
        [repeat.median, repeat.max]
            .into_iter()
            .flatten()
            .chain(ends.into_iter().flatten())
    });
    let panel = Panel::new(&canvas, frame, form.text_size(), x, Axis::latency(values));
    panel.grid_y(&panel.y.latency_ticks(6));
    panel.name_y(if panel.y.is_log() {
        "latency, log scale"
    } else {
        "latency"
    });
    let step = (right - left) / (f64::from(last) + 0.2);
    let half = (step * 0.3).clamp(1.5, 22.0);
    for repeat in repeats {
        mark(&panel, repeat, half);
    }
    settled(study, &panel);
    medians(&panel, repeats, step);
    let ticks: Vec<(f64, String)> = (1..=last)
        .map(|number| (f64::from(number), number.to_string()))
        .collect();
    if names.is_empty() {
        panel.axis_x(&ticks, "repeat");
    } else {
        canvas.line((left, bottom), (right, bottom), Pen::line(Role::Axis, 10));
        who(
            &canvas,
            form,
            (left, right, bottom),
            x,
            repeats,
            names,
            half,
            &ticks,
        );
    }
    canvas
}

/// A box, or a dot where there are too few values for one; a cross where the run failed.
fn mark(panel: &Panel, repeat: &Repeat, half: f64) {
    let x = panel.at_x(f64::from(repeat.number));
    let canvas = &panel.canvas;
    if repeat.failed {
        canvas.crosses(&[(x, panel.frame.bottom - 6.0)], Pen::line(Role::Bad, 20));
        return;
    }
    let Some(median) = repeat.median else { return };
    let y = panel.at_y(median);
    match repeat.spread.filter(|_| repeat.n >= BOX_FROM) {
        Some([p5, p25, p75, p95]) => {
            let pen = Pen::line(Role::S1, 12);
            canvas.line((x, panel.at_y(p5)), (x, panel.at_y(p95)), pen);
            let (top, bottom) = (panel.at_y(p75), panel.at_y(p25));
            canvas.rect(
                x - half,
                top,
                half * 2.0,
                (bottom - top).max(1.0),
                Pen::fill(Role::Sky).outline(Role::S1),
            );
            canvas.line((x - half, y), (x + half, y), Pen::line(Role::S1, 26));
        }
        None => canvas.dots(&[(x, y)], 4.0, Role::S1),
    }
    if let Some(max) = repeat.max {
        canvas.text((x, panel.at_y(max) + 4.0), Anchor::Middle, Role::S1, "▲");
    }
}

/// The medians' values, above their boxes, where there is room.
fn medians(panel: &Panel, repeats: &[Repeat], step: f64) {
    let mut free = f64::NEG_INFINITY;
    for repeat in repeats {
        let Some(median) = repeat.median else {
            continue;
        };
        let words = ms(median);
        let half = text::width(&words, panel.size) * 0.53;
        let x = panel.at_x(f64::from(repeat.number));
        if x - half < free || half * 2.0 > step * 1.6 {
            continue;
        }
        let top = repeat
            .max
            .into_iter()
            .chain(repeat.spread.map(|spread| spread[3]))
            .fold(median, f64::max);
        let y = (panel.at_y(top) - 12.0).max(panel.frame.top + 4.0);
        panel
            .canvas
            .strong((x, y), Anchor::Middle, Role::Ink, &words);
        free = x + half + 4.0;
    }
}

fn settled(study: &Study<'_>, panel: &Panel) {
    let Some(at) = study.experiment.settled_at.filter(|at| *at > 1) else {
        return;
    };
    let x = panel.at_x(f64::from(at) - 0.5);
    panel.canvas.line(
        (x, panel.frame.top - 4.0),
        (x, panel.frame.bottom),
        Pen::line(Role::S3, 14).manner(Manner::Dotted),
    );
    let words = format!("settled at {at}");
    let room = panel.frame.right - x;
    let (x, anchor) = if room > text::width(&words, panel.size) + 12.0 {
        (x + 6.0, Anchor::Start)
    } else {
        (x - 6.0, Anchor::End)
    };
    panel.canvas.strong((x, 14.0), anchor, Role::S3, &words);
}

/// Shares of who answered, stacked to 100 %.
#[expect(clippy::too_many_arguments, reason = "the upper panel's measures")]
fn who(
    canvas: &Canvas,
    form: Form,
    (left, right, above): (f64, f64, f64),
    x: Axis,
    repeats: &[Repeat],
    names: &[String],
    half: f64,
    ticks: &[(f64, String)],
) {
    let frame = Frame {
        left,
        top: above + 32.0,
        right,
        bottom: above + 92.0,
    };
    let panel = Panel::new(canvas, frame, form.text_size(), x, Axis::Linear(0.0, 1.0));
    canvas.text(
        (left, frame.top - 8.0),
        Anchor::Start,
        Role::Muted,
        "share of replies",
    );
    let mut ends: Vec<(usize, f64)> = Vec::new();
    for repeat in repeats {
        let all: u64 = repeat.by.values().sum();
        if all == 0 {
            continue;
        }
        let middle = panel.at_x(f64::from(repeat.number));
        let mut under = 0.0;
        ends.clear();
        for (place, name) in names.iter().enumerate() {
            let share = repeat.by.get(name).copied().unwrap_or(0) as f64 / all as f64;
            let (low, high) = (panel.at_y(under), panel.at_y(under + share));
            canvas.rect(middle - half, high, half * 2.0, low - high, COLOURS[place]);
            ends.push((place, under + share / 2.0));
            under += share;
        }
        if under < 0.999 {
            let (low, high) = (panel.at_y(under), panel.at_y(1.0));
            canvas.rect(
                middle - half,
                high,
                half * 2.0,
                low - high,
                Pen::fill(Role::Wash).outline(Role::Axis),
            );
        }
    }
    panel.axis_x(ticks, "repeat");
    let at = right + 9.0;
    let room = f64::from(form.width()) - at;
    let labels = ends
        .iter()
        .map(|(place, share)| {
            let role = match COLOURS[*place].role {
                Role::Sky | Role::Orange => Role::Ink,
                role => role,
            };
            let name = cut(&text::clean(&names[*place]), room, form.text_size());
            EndLabel::new(panel.at_y(*share), role, name)
        })
        .collect();
    let bounds = (frame.top - 12.0, frame.bottom + 24.0);
    write_end_labels(canvas, at, room, bounds, form.text_size(), labels);
}

fn table(repeats: &[Repeat], names: &[String]) -> Table {
    let mut head: Vec<String> = [
        "repeat",
        "n",
        "p5, ms",
        "p25, ms",
        "median, ms",
        "p75, ms",
        "p95, ms",
        "max, ms",
    ]
    .map(str::to_owned)
    .to_vec();
    head.extend(names.iter().map(|name| text::clean(name)));
    let value = |of: Option<f64>| of.map(number).unwrap_or_default();
    let rows = repeats.iter().take(Table::MOST_ROWS).map(|repeat| {
        let part = |place: usize| value(repeat.spread.map(|spread| spread[place]));
        let all: u64 = repeat.by.values().sum();
        let mut row = vec![
            repeat.number.to_string(),
            count(repeat.n),
            part(0),
            part(1),
            if repeat.failed {
                "failed".to_owned()
            } else {
                value(repeat.median)
            },
            part(2),
            part(3),
            value(repeat.max),
        ];
        row.extend(names.iter().map(|name| {
            let own = repeat.by.get(name).copied().unwrap_or(0);
            if all > 0 {
                percent(own as f64 / all as f64)
            } else {
                String::new()
            }
        }));
        row
    });
    Table {
        rows: rows.collect(),
        head,
    }
}
