//! Latency by share of the requests, on an axis of nines: over all requests and, where they differ, over the replies alone.

use crate::chart::axis::Axis;
use crate::chart::canvas::{Anchor, Canvas};
use crate::chart::facts::Facts;
use crate::chart::labels::Placer;
use crate::chart::panel::{Frame, Panel};
use crate::chart::text::{self, NARROW, count, ms, percent};
use crate::chart::theme::{Manner, Pen, Role};
use crate::chart::{Figure, Form, Parts, Table, finish};
use crate::measure::series::PercentilePoint;

pub(crate) const NAME: &str = "latency-percentiles";

pub(crate) fn figure(facts: &Facts<'_>) -> Figure {
    let differ = differ(facts);
    let empty = facts.nothing().or_else(|| {
        (curve(&facts.series.percentiles_all, facts.n).len() < 2 || facts.n < 5).then(|| {
            let value = facts.latency().and_then(|latency| latency.median);
            match (facts.n, value) {
                (1, Some(value)) => {
                    format!("1 request: {}. One value has no distribution.", ms(value))
                }
                _ => format!(
                    "{}: too few for a distribution.",
                    text::counted(facts.n, "request")
                ),
            }
        })
    });
    let parts = Parts {
        name: NAME,
        title: title(facts, differ),
        subtitle: subtitle(facts, differ),
        desc: "Latency at or below which each share of the requests stayed; the share is spaced by nines.".to_owned(),
        table: table(facts),
        empty,
        pair: true,
    };
    finish(parts, |form| draw(facts, form, differ))
}

/// The points that n requests can support: finite, and no further than 1 − 1/n.
fn curve(points: &[PercentilePoint], n: u64) -> Vec<(f64, f64)> {
    let most = 1.0 - 1.0 / n.max(2) as f64;
    let mut curve: Vec<(f64, f64)> = Vec::with_capacity(points.len());
    let slowest = points
        .iter()
        .rev()
        .find_map(|point| point.latency_ms.filter(|latency| latency.is_finite()));
    for point in points {
        let Some(latency) = point
            .latency_ms
            .filter(|latency| latency.is_finite() && *latency >= 0.0)
        else {
            continue;
        };
        if !(0.0..=1.0).contains(&point.share) {
            continue;
        }
        let share = point.share.min(most);
        // Past the last share that n supports only the end itself is kept.
        if curve
            .last()
            .is_some_and(|last| share <= last.0 && point.share > most)
        {
            continue;
        }
        curve.push((share, latency));
    }
    // Of n requests only the slowest lies above 1 − 1/n: there the curve rises to it.
    if let (Some(slowest), Some(end)) = (slowest, curve.last().copied())
        && slowest > end.1
        && end.0 >= most - 1e-9
    {
        curve.push((most, slowest));
    }
    curve
}

/// Latency at a share, between the points on both sides.
fn at(curve: &[(f64, f64)], share: f64) -> Option<f64> {
    let after = curve.iter().position(|point| point.0 >= share)?;
    let (high, value) = curve[after];
    let Some((low, before)) = after.checked_sub(1).map(|index| curve[index]) else {
        return Some(value);
    };
    let part = if high > low {
        (share - low) / (high - low)
    } else {
        1.0
    };
    Some(before + (value - before) * part)
}

/// Whether the replies alone look different: somewhere at least 5 % better.
fn differ(facts: &Facts<'_>) -> bool {
    let all = curve(&facts.series.percentiles_all, facts.n);
    let replies = curve(&facts.series.percentiles_replies, facts.replies);
    facts.no_reply > 0
        && replies.len() > 1
        && (all.last().map(|end| end.0) < replies.last().map(|end| end.0)
            || replies.iter().any(|(share, latency)| {
                at(&all, *share).is_none_or(|other| other > latency * 1.05)
            }))
}

fn draw(facts: &Facts<'_>, form: Form, differ: bool) -> Canvas {
    let canvas = Canvas::new(form.width(), 300);
    let right = f64::from(form.width()) - 22.0;
    let frame = Frame {
        left: 58.0,
        top: 26.0,
        right,
        bottom: 250.0,
    };
    let all = curve(&facts.series.percentiles_all, facts.n);
    let replies = if differ {
        curve(&facts.series.percentiles_replies, facts.replies)
    } else {
        Vec::new()
    };
    let values = all.iter().chain(&replies).map(|point| point.1);
    let limits = facts.limits.iter().map(|limit| limit.1);
    let most = values.clone().fold(0.0, f64::max);
    let y = Axis::latency(values.chain(limits.filter(|limit| *limit < most * 2.0)));
    let end = all
        .iter()
        .chain(&replies)
        .map(|point| point.0)
        .fold(0.5, f64::max);
    let panel = Panel::new(&canvas, frame, form.text_size(), Axis::Nines(end), y);
    panel.grid_y(&y.latency_ticks(6));
    let shares = panel.x.share_ticks();
    panel.grid_x(&shares);
    panel.axis_x(&shares, "share of requests at or below");
    panel.name_y(if y.is_log() {
        "latency, log scale"
    } else {
        "latency"
    });

    let mut placer = Placer::new(
        (frame.left, 20.0, f64::from(form.width()), frame.bottom),
        form.text_size(),
    );
    let limits = limits_as_lines(facts, &panel);
    for (_, y) in &limits {
        placer.avoid_line(&[(frame.left, *y), (right, *y)]);
    }
    for (points, pen) in [
        (&replies, Pen::line(Role::S2, 20).manner(Manner::Dashed)),
        (&all, Pen::line(Role::S1, 26)),
    ] {
        panel.line(points, pen);
        if let Some(end) = points.last() {
            panel.dot(*end, 36, Pen::fill(pen.role));
        }
        placer.avoid_line(&in_px(&panel, points));
    }
    name_limits(&panel, &mut placer, &limits);
    name_curve(&panel, &mut placer, &all, Role::S1, &words_for_all(facts));
    if !replies.is_empty() {
        let words = [
            format!("only the {}", count(facts.replies)),
            "that got a reply".to_owned(),
        ];
        name_curve(&panel, &mut placer, &replies, Role::S2, &words);
    }
    canvas
}

/// What the curve over all requests is called, in one line or two.
fn words_for_all(facts: &Facts<'_>) -> Vec<String> {
    let first = format!("all {}", text::counted(facts.n, "request"));
    let without = facts.no_reply.saturating_sub(facts.timeouts);
    if facts.timeouts > 0 {
        vec![
            first,
            format!("a timeout counts as {}", ms(facts.timeout_ms)),
        ]
    } else if without > 0 {
        vec![first, format!("{} never got one", count(without))]
    } else {
        match facts.latency().and_then(|latency| latency.max) {
            Some(most) => vec![first, format!("the slowest {}", ms(most))],
            None => vec![first],
        }
    }
}

/// Draws the stated limits and returns those on the axis, to be named once all lines are known.
fn limits_as_lines<'a>(facts: &'a Facts<'_>, panel: &Panel) -> Vec<(&'a String, f64)> {
    let Frame { left, right, .. } = panel.frame;
    let shown: Vec<(&String, f64)> = facts
        .limits
        .iter()
        .filter(|(_, limit)| (0.001..0.999).contains(&panel.y.place(*limit)))
        .map(|(words, limit)| (words, panel.at_y(*limit)))
        .collect();
    for (_, y) in &shown {
        let pen = Pen::line(Role::S2, 14).manner(Manner::Dashed);
        panel.canvas.line((left, *y), (right, *y), pen);
    }
    shown
}

fn name_limits(panel: &Panel, placer: &mut Placer, limits: &[(&String, f64)]) {
    let Frame { left, right, .. } = panel.frame;
    for (words, y) in limits {
        let above = [(left + 6.0, Anchor::Start), (right - 6.0, Anchor::End)];
        let within = [0.3, 0.5, 0.7].map(|share| (left + (right - left) * share, Anchor::Middle));
        let anchors: Vec<(f64, f64, Anchor)> = above
            .into_iter()
            .chain(within)
            .flat_map(|(x, anchor)| [(x, y - 6.0, anchor), (x, y + 16.0, anchor)])
            .collect();
        placer.write(
            &panel.canvas,
            &anchors,
            Role::S2,
            std::slice::from_ref(*words),
        );
    }
}

fn in_px(panel: &Panel, points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    points
        .iter()
        .map(|point| (panel.at_x(point.0), panel.at_y(point.1)))
        .collect()
}

/// Writes a curve's name beside it, at one of some places along it.
fn name_curve(
    panel: &Panel,
    placer: &mut Placer,
    points: &[(f64, f64)],
    role: Role,
    words: &[String],
) {
    let places = in_px(panel, points);
    let mut anchors: Vec<(f64, f64, Anchor)> = Vec::new();
    let above = 8.0 + 16.0 * (words.len() as f64 - 1.0);
    for share in [0.97, 0.8, 0.65, 0.5, 0.35, 0.2] {
        let x = panel.frame.left + (panel.frame.right - panel.frame.left) * share;
        let Some((_, y)) = places
            .iter()
            .min_by(|a, b| (a.0 - x).abs().total_cmp(&(b.0 - x).abs()))
        else {
            continue;
        };
        anchors.push((x - 10.0, y - above, Anchor::End));
        anchors.push((x + 12.0, y + 22.0, Anchor::Start));
        anchors.push((x - 14.0, y - above - 24.0, Anchor::End));
        anchors.push((x + 16.0, y + 44.0, Anchor::Start));
    }
    placer.write(&panel.canvas, &anchors, role, words);
}

/// The share at which both curves are compared: p90, else p50, else p99, whichever first differs by half.
fn comparison(facts: &Facts<'_>) -> Option<(&'static str, f64, f64)> {
    let all = curve(&facts.series.percentiles_all, facts.n);
    let replies = curve(&facts.series.percentiles_replies, facts.replies);
    [("p90", 0.9), ("p50", 0.5), ("p99", 0.99)]
        .into_iter()
        .filter_map(|(name, share)| Some((name, at(&all, share)?, at(&replies, share)?)))
        .find(|(_, all, replies)| *all >= replies * 1.5)
}

fn title(facts: &Facts<'_>, differ: bool) -> String {
    const NEUTRAL: &str = "Latency by share of requests";
    let without = facts.no_reply.saturating_sub(facts.timeouts);
    if differ && without > facts.timeouts {
        let share = without as f64 / facts.n.max(1) as f64;
        return format!("{} of the requests never got a reply", percent(share));
    }
    if differ {
        return match comparison(facts) {
            Some((_, all, replies)) if all / replies >= 9.5 => {
                "Over the replies alone, the run looks ten times as good as it was".to_owned()
            }
            Some((_, all, replies)) if all / replies >= 1.8 => {
                let times = [
                    "twice",
                    "three times",
                    "four times",
                    "five times",
                    "six times",
                    "seven times",
                    "eight times",
                    "nine times",
                ];
                let index = usize::try_from(text::whole(all / replies))
                    .unwrap_or(2)
                    .clamp(2, 9)
                    - 2;
                format!(
                    "Over the replies alone, the run looks {} as good as it was",
                    times[index]
                )
            }
            _ => "The replies alone look better than all requests together".to_owned(),
        };
    }
    let Some(latency) = facts.latency() else {
        return NEUTRAL.to_owned();
    };
    let (share, bound) = match (latency.p99, latency.p90) {
        (Some(p99), _) if facts.n >= 100 => ("99", p99),
        (_, Some(p90)) if facts.n >= 10 => ("90", p90),
        _ => return NEUTRAL.to_owned(),
    };
    let timeouts = facts.timeouts as f64 / facts.n.max(1) as f64;
    if facts.timeouts > 0 && bound >= facts.timeout_ms * 0.999 {
        return if facts.timeouts == facts.n {
            format!("All {} requests ran into the timeout", count(facts.n))
        } else {
            format!("{} of the requests ran into the timeout", percent(timeouts))
        };
    }
    let tail = match latency.max {
        _ if facts.timeouts > 0 => text::counted(facts.timeouts, "timeout"),
        Some(max) => format!("the slowest {}", ms(max)),
        None => return NEUTRAL.to_owned(),
    };
    format!("{share}{NARROW}% took at most {}, {tail}", ms(bound))
}

fn subtitle(facts: &Facts<'_>, differ: bool) -> String {
    match comparison(facts).filter(|_| differ) {
        Some((name, all, replies)) => {
            let more = if all >= facts.timeout_ms * 0.999 {
                " or more"
            } else {
                ""
            };
            format!(
                "{name} is {} over the replies, {}{more} over all requests",
                ms(replies),
                ms(all)
            )
        }
        None => format!(
            "Share of requests at or below a latency. {}",
            facts.n_in_words()
        ),
    }
}

fn table(facts: &Facts<'_>) -> Table {
    let all = curve(&facts.series.percentiles_all, facts.n);
    let replies = curve(&facts.series.percentiles_replies, facts.replies);
    let cell = |value: Option<f64>| value.map(text::figure).unwrap_or_default();
    let censored = |share: f64| {
        facts
            .series
            .percentiles_all
            .iter()
            .find(|point| point.share >= share)
            .is_some_and(|point| point.censored)
    };
    Table::new(
        &["share, %", "all requests, ms", "at least", "replies, ms"],
        all.iter().map(|(share, latency)| {
            vec![
                trimmed(share * 100.0),
                text::figure(*latency),
                if censored(*share) {
                    "timeout".to_owned()
                } else {
                    String::new()
                },
                cell(at(&replies, *share)),
            ]
        }),
    )
}

/// A share with as many decimals as it needs, four at most.
fn trimmed(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
