//! Replies and failures per second as they ended, on the clock, beside what the plan offers.

use crate::chart::axis::{Axis, safe_range};
use crate::chart::canvas::Canvas;
use crate::chart::facts::Facts;
use crate::chart::labels::{EndLabel, write_end_labels};
use crate::chart::panel::{Frame, Panel};
use crate::chart::text::{self, count, percent, rate, seconds};
use crate::chart::theme::{Manner, Pen, Role};
use crate::chart::{Figure, Form, Parts, Table, finish, steps as chart_steps};
use crate::measure::run::State;
use crate::measure::series::Bin;

pub(crate) const NAME: &str = "replies-over-time";

/// What ended in one step.
#[derive(Clone, Copy, Debug)]
struct Step {
    from: f64,
    to: f64,
    /// 2xx and 3xx replies per second.
    replies: f64,
    /// Everything else per second.
    errors: f64,
}

pub(crate) fn figure(facts: &Facts<'_>) -> Figure {
    let steps = steps(facts);
    let width = steps.first().map_or(0.0, |step| step.to - step.from);
    let parts = Parts {
        name: NAME,
        title: title(facts, &steps),
        subtitle: format!(
            "Replies and failures by the second in which they ended, in steps of {}. {}",
            seconds(width),
            facts.n_in_words()
        ),
        desc: "Replies and failed requests per second over the time at which they ended."
            .to_owned(),
        table: table(facts),
        empty: too_few(facts),
        pair: false,
    };
    finish(parts, |form| draw(facts, form, &steps))
}

/// Why no rate is drawn.
fn too_few(facts: &Facts<'_>) -> Option<String> {
    match facts.n {
        0 => facts.nothing(),
        1..5 => Some(format!(
            "{}: too few for a rate.",
            text::counted(facts.n, "request")
        )),
        _ => None,
    }
}

/// The steps as rates, joined until there are at most 50; the last one counts only as long as the data reaches.
fn steps(facts: &Facts<'_>) -> Vec<Step> {
    let width = facts.series.bin_width_s;
    let bins: Vec<&Bin> = facts
        .series
        .bins
        .iter()
        .filter(|bin| bin.start_s.is_finite())
        .collect();
    if !width.is_finite() || width <= 0.0 {
        return Vec::new();
    }
    let end = facts.series.covers_s;
    let join =
        chart_steps::joined(width, bins.len() as f64 * width, 50.0).max(bins.len().div_ceil(60));
    let mut parts: Vec<&[&Bin]> = bins.chunks(join).collect();
    // A sliver at the end would turn one reply into a peak: it goes with the step before it.
    if let [.., before, last] = parts.as_slice()
        && end > last[0].start_s
        && end - last[0].start_s < width * join as f64 * 0.5
    {
        let both = before.len() + last.len();
        parts.truncate(parts.len() - 2);
        parts.push(&bins[bins.len() - both..]);
    }
    parts
        .into_iter()
        .map(|part| {
            let from = part[0].start_s;
            let full = part[part.len() - 1].start_s + width;
            // The last reply comes before the last gap is over: a step as good as whole counts as whole.
            let short = end > from && full - end > width * 0.2;
            let to = if short { end } else { full };
            let length = (to - from).max(width * 0.5);
            let per_second =
                |of: fn(&Bin) -> u64| part.iter().map(|bin| of(bin)).sum::<u64>() as f64 / length;
            Step {
                from,
                to,
                replies: per_second(|bin| {
                    (bin.ended_replies + bin.ended_lost).saturating_sub(bin.ended_errors)
                }),
                errors: per_second(|bin| bin.ended_errors),
            }
        })
        .collect()
}

fn draw(facts: &Facts<'_>, form: Form, steps: &[Step]) -> Canvas {
    let (height, frame) = match form {
        Form::Phone | Form::Pair => (
            240,
            Frame {
                left: 44.0,
                top: 28.0,
                right: 312.0,
                bottom: 198.0,
            },
        ),
        Form::Wide => (
            250,
            Frame {
                left: 52.0,
                top: 28.0,
                right: 776.0,
                bottom: 208.0,
            },
        ),
    };
    let canvas = Canvas::new(form.width(), height);
    let offered = facts.offered();
    let end = facts.span(|bin| bin.ended_replies + bin.ended_errors > 0);
    let (_, end) = safe_range(0.0, end);
    let most = steps
        .iter()
        .map(|step| step.replies + step.errors)
        .chain(offered.iter().map(|step| step.1))
        .fold(0.0, f64::max);
    let panel = Panel::new(
        &canvas,
        frame,
        form.text_size(),
        Axis::Linear(0.0, end),
        Axis::from_zero(if most > 0.0 { most * 1.1 } else { 1.0 }),
    );
    if let Some((from, to, words)) = facts.not_measured(0.0) {
        panel.not_measured(from, to, &words);
    }
    panel.grid_y(&panel.y.number_ticks(5));
    areas(&panel, steps);
    let sending_end = facts.span(|bin| bin.requests > 0);
    dotted(&panel, &offered, sending_end);
    let ticks = if form.is_narrow() { 4 } else { 6 };
    panel.axis_x(&panel.x.clock_ticks(ticks), "time of the end since start");
    let dotted_words = if offered.is_empty() {
        ""
    } else {
        "; dotted: offered"
    };
    panel.name_y(&format!("ended per second{dotted_words}"));
    let x = frame.right + 9.0;
    let room = f64::from(form.width()) - x;
    write_end_labels(
        &canvas,
        x,
        room,
        (frame.top, frame.bottom + 8.0),
        form.text_size(),
        labels(facts, &panel, steps, &offered),
    );
    canvas
}

/// Replies as an area, failures hatched on top of it, both as steps: a count per step has no slope.
fn areas(panel: &Panel, steps: &[Step]) {
    for stretch in steps.chunk_by(|a, b| (b.from - a.to).abs() < 1e-6) {
        let zero = level(stretch, |_| 0.0);
        let replies = level(stretch, |step| step.replies);
        panel.band(&replies, &zero, Pen::fill(Role::S1).opacity(0.17));
        panel.line(&replies, Pen::line(Role::S1, 18));
        for failing in stretch
            .split(|step| step.errors <= 0.0)
            .filter(|part| !part.is_empty())
        {
            let base = level(failing, |step| step.replies);
            let top = level(failing, |step| step.replies + step.errors);
            panel.band(&top, &base, Pen::hatch(Role::Bad));
            panel.line(&top, Pen::line(Role::Bad, 14));
        }
    }
}

/// Corners of a line that is level over each step.
fn level(steps: &[Step], value: impl Fn(&Step) -> f64) -> Vec<(f64, f64)> {
    steps
        .iter()
        .flat_map(|step| [(step.from, value(step)), (step.to, value(step))])
        .collect()
}

fn dotted(panel: &Panel, offered: &[(f64, f64)], end: f64) {
    let mut points: Vec<(f64, f64)> = Vec::new();
    for (index, (from, rate)) in offered.iter().enumerate() {
        let to = offered.get(index + 1).map_or(end, |next| next.0).min(end);
        if to > *from {
            points.extend([(*from, *rate), (to, *rate)]);
        }
    }
    panel.line(&points, Pen::line(Role::S2, 16).manner(Manner::Dotted));
}

fn labels(
    facts: &Facts<'_>,
    panel: &Panel,
    steps: &[Step],
    offered: &[(f64, f64)],
) -> Vec<EndLabel> {
    let Some(last) = steps
        .iter()
        .rev()
        .find(|step| step.replies + step.errors > 0.0)
    else {
        return Vec::new();
    };
    let answered = facts.n - facts.failed;
    // A reply with an error status is a reply too, so where there are some the word would mislead.
    let word = if facts.failed > facts.no_reply {
        "ok"
    } else {
        "replies"
    };
    let mut labels = vec![EndLabel::new(
        panel.at_y(last.replies / 2.0),
        Role::S1,
        format!("{word} {}", count(answered)),
    )];
    if facts.failed > 0 {
        let y = panel.at_y(last.replies + last.errors / 2.0);
        let words = format!("failed {}", count(facts.failed));
        labels.push(EndLabel::new(y, Role::Bad, words));
    }
    if let Some((_, rate_per_s)) = offered.last() {
        let y = panel.at_y(*rate_per_s);
        labels.push(EndLabel::new(
            y,
            Role::S2,
            format!("offered {}/s", rate(*rate_per_s)),
        ));
    }
    labels
}

fn title(facts: &Facts<'_>, steps: &[Step]) -> String {
    const NEUTRAL: &str = "Replies over time";
    if facts.state == State::Running {
        return "Replies so far".to_owned();
    }
    if facts.n > 0 && facts.replies == 0 {
        return format!("No reply to any of {}", text::counted(facts.n, "request"));
    }
    if facts.n < 50 {
        return NEUTRAL.to_owned();
    }
    if let Some((from, to)) = chart_steps::outage(facts).or_else(|| silence(facts, steps)) {
        return format!("No reply arrives from {} to {}", seconds(from), seconds(to));
    }
    let answered = facts.replies as f64 / facts.n as f64;
    let offered = facts.offered();
    match offered.as_slice() {
        [(_, rate_per_s)] if facts.no_reply > 0 => format!(
            "{} of the {} requests offered per second are answered",
            percent(answered),
            rate(*rate_per_s)
        ),
        [(_, rate_per_s)] if facts.is_even() && facts.failed == 0 => {
            let keeps = steady(facts, steps, *rate_per_s);
            if keeps {
                format!(
                    "Replies keep up with the {} requests offered per second",
                    rate(*rate_per_s)
                )
            } else {
                NEUTRAL.to_owned()
            }
        }
        _ if facts.no_reply > 0 => format!("{} of the requests are answered", percent(answered)),
        _ if !facts.is_open_loop() && facts.series.covers_s > 0.0 => format!(
            "{} replies per second on average",
            rate(facts.replies as f64 / facts.series.covers_s)
        ),
        _ => NEUTRAL.to_owned(),
    }
}

/// Whether replies came at the offered rate within a tenth, in each quarter of the sending time.
fn steady(facts: &Facts<'_>, steps: &[Step], offered: f64) -> bool {
    // Of a run that was stopped, only the time that it measured.
    let end = facts
        .span(|bin| bin.requests > 0)
        .min(facts.series.covers_s);
    (0..4).all(|quarter| {
        let (from, to) = (
            end * f64::from(quarter) / 4.0,
            end * f64::from(quarter + 1) / 4.0,
        );
        let part = steps
            .iter()
            .filter(|step| step.from >= from && step.to <= to);
        let (ended, length) = part.fold((0.0, 0.0), |(ended, length), step| {
            let long = step.to - step.from;
            (ended + step.replies * long, length + long)
        });
        length <= 0.0 || (ended / length / offered - 1.0).abs() < 0.1
    })
}

/// The longest silence inside the run, where replies come often enough for it to mean something.
fn silence(facts: &Facts<'_>, steps: &[Step]) -> Option<(f64, f64)> {
    let first = steps.iter().position(|step| step.replies > 0.0)?;
    let last = steps.iter().rposition(|step| step.replies > 0.0)?;
    let width = steps.first()?.to - steps.first()?.from;
    let usual = facts.replies as f64 / (last - first + 1) as f64;
    let longest = steps[first..=last]
        .chunk_by(|a, b| (a.replies > 0.0) == (b.replies > 0.0))
        .filter(|part| part[0].replies <= 0.0)
        .max_by_key(|part| part.len())?;
    (longest.len() >= 2 && usual >= 4.0 && width > 0.0)
        .then(|| (longest[0].from, longest[longest.len() - 1].to))
}

fn table(facts: &Facts<'_>) -> Table {
    Table::new(
        &[
            "from, s",
            "planned in it",
            "replies ended",
            "failures ended",
        ],
        facts.series.bins.iter().map(|bin| {
            vec![
                text::figure(bin.start_s),
                count(bin.requests),
                count(bin.ended_replies),
                count(bin.ended_errors),
            ]
        }),
    )
}
