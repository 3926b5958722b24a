//! Requests per step of planned send time by who answered them, stacked; those without a reply hatched on top.

use std::collections::BTreeMap;

use crate::chart::axis::{Axis, safe_range};
use crate::chart::canvas::Canvas;
use crate::chart::facts::{self, Facts};
use crate::chart::labels::{EndLabel, write_end_labels};
use crate::chart::panel::{Frame, Panel};
use crate::chart::text::{self, count, percent, rate, seconds};
use crate::chart::theme::{Manner, Pen, Role};
use crate::chart::{Figure, Form, Parts, Table, finish, steps};
use crate::measure::run::State;

pub(crate) const NAME: &str = "backends";

/// Most backends with a colour of their own.
const MOST_COLOURS: usize = 5;

const COLOURS: [Pen; MOST_COLOURS + 1] = [
    Pen::fill(Role::S1),
    Pen::fill(Role::Sky).outline(Role::S1),
    Pen::fill(Role::S3),
    Pen::fill(Role::Orange).outline(Role::Ink),
    Pen::fill(Role::S4),
    Pen::fill(Role::Wash).outline(Role::Axis),
];

/// Steps joined to a width that can be seen, and the backends in the order in which they are stacked.
struct Stack {
    names: Vec<String>,
    totals: Vec<u64>,
    columns: Vec<Column>,
    width: f64,
    /// How many backends the last name stands for; 0 where each has its own.
    others: usize,
}

struct Column {
    from: f64,
    to: f64,
    counts: Vec<u64>,
    no_reply: u64,
}

/// Whether any reply says who sent it.
pub(crate) fn are_named(facts: &Facts<'_>) -> bool {
    facts
        .series
        .bins
        .iter()
        .flat_map(|bin| bin.served_by.keys().chain(bin.regions.keys()))
        .any(|name| !name.is_empty())
}

pub(crate) fn figure(facts: &Facts<'_>) -> Figure {
    let stack = stack(facts);
    let empty = facts.nothing().or_else(|| {
        if !are_named(facts) {
            return Some("No reply names its backend (X-Served-By).".to_owned());
        }
        (facts.n < 5).then(|| format!("{}: too few for a rate.", text::counted(facts.n, "request")))
    });
    let parts = Parts {
        name: NAME,
        title: title(facts, &stack),
        subtitle: format!(
            "Requests in each {} of {}, by who answered. {}",
            seconds(stack.width),
            if facts.is_open_loop() { "planned send time" } else { "send time" },
            facts.n_in_words()
        ),
        desc: "Requests per second over time, stacked by the backend that answered; requests without a reply are hatched.".to_owned(),
        table: table(&stack),
        empty,
        pair: false,
    };
    finish(parts, |form| draw(facts, form, &stack))
}

fn stack(facts: &Facts<'_>) -> Stack {
    let bins = &facts.series.bins;
    let by_region = bins
        .iter()
        .all(|bin| bin.served_by.keys().all(String::is_empty));
    let counts = |index: usize| -> &BTreeMap<String, u64> {
        if by_region {
            &bins[index].regions
        } else {
            &bins[index].served_by
        }
    };
    let mut totals: BTreeMap<&str, u64> = BTreeMap::new();
    for index in 0..bins.len() {
        for (name, number) in counts(index) {
            *totals.entry(name).or_default() += number;
        }
    }
    let mut ranked: Vec<(&str, u64)> = totals.into_iter().collect();
    ranked.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    let own = if ranked.len() > MOST_COLOURS + 1 {
        MOST_COLOURS
    } else {
        ranked.len()
    };
    let others = ranked.split_off(own);
    ranked.sort_unstable();
    let place: BTreeMap<&str, usize> = ranked
        .iter()
        .enumerate()
        .map(|(place, (name, _))| (*name, place))
        .collect();

    let mut names: Vec<String> = ranked
        .iter()
        .map(|(name, _)| {
            if name.is_empty() {
                "unnamed".to_owned()
            } else {
                text::clean(name)
            }
        })
        .collect();
    let mut sums: Vec<u64> = ranked.iter().map(|(_, total)| *total).collect();
    if !others.is_empty() {
        names.push(format!("{} others", others.len()));
        sums.push(others.iter().map(|(_, total)| total).sum());
    }

    let end = facts.span(|bin| bin.requests > 0);
    let join = steps::joined(facts.series.bin_width_s, end, 24.0).max(bins.len().div_ceil(60));
    let width = facts.series.bin_width_s * join as f64;
    let columns = (0..bins.len())
        .step_by(join.max(1))
        .map(|first| {
            let last = (first + join).min(bins.len());
            let mut column = Column {
                from: bins[first].start_s,
                to: (bins[first].start_s + width).min(end),
                counts: vec![0; names.len()],
                no_reply: 0,
            };
            for (index, bin) in bins.iter().enumerate().take(last).skip(first) {
                column.no_reply += facts::sum(bin, facts::is_lost);
                for (name, number) in counts(index) {
                    let place = place.get(name.as_str()).copied().unwrap_or(names.len() - 1);
                    column.counts[place] += number;
                }
            }
            column
        })
        .filter(|column| {
            column.to > column.from && column.to.is_finite() && column.from.is_finite()
        })
        .collect();
    Stack {
        names,
        totals: sums,
        columns,
        width,
        others: others.len(),
    }
}

fn draw(facts: &Facts<'_>, form: Form, stack: &Stack) -> Canvas {
    let (height, frame) = match form {
        Form::Phone | Form::Pair => (
            244,
            Frame {
                left: 40.0,
                top: 28.0,
                right: 300.0,
                bottom: 200.0,
            },
        ),
        Form::Wide => (
            254,
            Frame {
                left: 48.0,
                top: 28.0,
                right: 752.0,
                bottom: 210.0,
            },
        ),
    };
    let canvas = Canvas::new(form.width(), height);
    let offered = facts.offered();
    let most = stack
        .columns
        .iter()
        .map(|column| {
            (column.counts.iter().sum::<u64>() + column.no_reply) as f64
                / length(column, stack.width)
        })
        .chain(offered.iter().map(|step| step.1))
        .fold(0.0, f64::max);
    let (_, end) = safe_range(0.0, facts.span(|bin| bin.requests > 0));
    let panel = Panel::new(
        &canvas,
        frame,
        form.text_size(),
        Axis::Linear(0.0, end),
        Axis::from_zero(most * 1.06),
    );
    if let Some((from, to, words)) = facts.not_measured(0.0) {
        panel.not_measured(from, to, &words);
    }
    panel.grid_y(&panel.y.number_ticks(5));
    if let [(_, rate_per_s)] = offered.as_slice() {
        let y = panel.at_y(*rate_per_s);
        canvas.line(
            (frame.left, y),
            (frame.right, y),
            Pen::line(Role::Axis, 10).manner(Manner::Dotted),
        );
    }
    for column in &stack.columns {
        draw_column(&panel, column, stack);
    }
    let ticks = if form.is_narrow() { 4 } else { 6 };
    panel.axis_x(&panel.x.clock_ticks(ticks), facts.send_axis());
    let named = match offered.as_slice() {
        [(_, rate_per_s)] if !form.is_narrow() => {
            format!(
                "requests per second, by who answered; dotted: {} offered",
                rate(*rate_per_s)
            )
        }
        _ => "requests per second, by who answered".to_owned(),
    };
    panel.name_y(&named);
    let x = frame.right + 9.0;
    let room = f64::from(form.width()) - x;
    write_end_labels(
        &canvas,
        x,
        room,
        (frame.top, frame.bottom + 8.0),
        form.text_size(),
        labels(facts, &panel, stack),
    );
    canvas
}

/// The time over which a column counts; a sliver at the end would turn one request into a peak.
fn length(column: &Column, width: f64) -> f64 {
    let length = column.to - column.from;
    // The last request goes out before the last gap is over: a column as good as whole counts as whole.
    let length = if length > width * 0.8 { width } else { length };
    length.max(width * 0.25).max(1e-9)
}

fn draw_column(panel: &Panel, column: &Column, stack: &Stack) {
    let (left, right) = (panel.at_x(column.from), panel.at_x(column.to));
    let gap = if right - left > 12.0 { 2.0 } else { 0.5 };
    let (x, wide) = (left + gap, right - left - 2.0 * gap);
    let per_second = |number: u64| number as f64 / length(column, stack.width);
    let mut below = 0_u64;
    let mut block = |number: u64, pen: Pen| {
        if number == 0 {
            return;
        }
        let (bottom, top) = (
            panel.at_y(per_second(below)),
            panel.at_y(per_second(below + number)),
        );
        below += number;
        // A hair of paper between blocks tells them apart without colour.
        let high = (bottom - top - 1.0).max(0.8);
        panel.canvas.rect(x, bottom - high, wide, high, pen);
    };
    for (place, number) in column.counts.iter().enumerate() {
        block(*number, COLOURS[place.min(MOST_COLOURS)]);
    }
    block(column.no_reply, Pen::hatch(Role::Bad).outline(Role::Bad));
}

/// Names beside the last column that is whole, in the order of the stack.
fn labels(facts: &Facts<'_>, panel: &Panel, stack: &Stack) -> Vec<EndLabel> {
    let Some(last) = stack
        .columns
        .iter()
        .rev()
        .find(|column| column.to - column.from > stack.width * 0.5)
        .or_else(|| stack.columns.last())
    else {
        return Vec::new();
    };
    let length = length(last, stack.width);
    let mut below = 0.0;
    let mut middle = |number: u64| {
        let at = below + number as f64 / length / 2.0;
        below += number as f64 / length;
        panel.at_y(at)
    };
    let mut labels: Vec<EndLabel> = Vec::new();
    for (place, (name, total)) in stack.names.iter().zip(&stack.totals).enumerate() {
        let y = middle(last.counts[place]);
        let role = match place {
            0 => Role::S1,
            2 => Role::S3,
            4 => Role::S4,
            _ => Role::Ink,
        };
        labels.push(EndLabel::new(
            y,
            role,
            format!("{} {}", text::shorten(name, 20), count(*total)),
        ));
    }
    if facts.no_reply > 0 {
        labels.push(EndLabel::new(
            middle(last.no_reply),
            Role::Bad,
            format!("no reply {}", count(facts.no_reply)),
        ));
    }
    labels
}

/// Names a backend that falls silent, else says how evenly they share.
fn title(facts: &Facts<'_>, stack: &Stack) -> String {
    const NEUTRAL: &str = "Who answered";
    let total: u64 = stack.totals.iter().sum();
    if total == 0 || facts.state == State::Running || facts.n < 20 {
        return NEUTRAL.to_owned();
    }
    if let Some((silent, from)) = falls_silent(stack) {
        let name = text::shorten(&stack.names[silent], 24);
        let others: Vec<&String> = stack
            .names
            .iter()
            .enumerate()
            .filter(|(place, _)| *place != silent)
            .map(|(_, name)| name)
            .collect();
        return match others.as_slice() {
            [one, two] => format!(
                "{name} stops answering; {} and {} never notice",
                text::shorten(one, 24),
                text::shorten(two, 24)
            ),
            [one] => format!("{name} stops answering; {} goes on", text::shorten(one, 24)),
            _ => format!("{name} stops answering at {}", seconds(from)),
        };
    }
    if stack.others > 0 {
        let own = stack.totals.len() - 1;
        let most = stack.totals.iter().take(own).max().copied().unwrap_or(0);
        return format!(
            "{} backends answer, none more than {} of the requests",
            own + stack.others,
            percent(most as f64 / total as f64)
        );
    }
    let most = stack
        .totals
        .iter()
        .enumerate()
        .max_by_key(|(_, total)| **total);
    let least = stack.totals.iter().min();
    match (most, least) {
        (Some((only, answered)), _) if stack.names.len() == 1 && facts.no_reply > 0 => format!(
            "{} answers {} of the requests, nobody the others",
            text::shorten(&stack.names[only], 40),
            percent(*answered as f64 / facts.n.max(1) as f64)
        ),
        (Some((only, _)), _) if stack.names.len() == 1 => format!(
            "{} answers everything",
            text::shorten(&stack.names[only], 40)
        ),
        (Some((_, most)), Some(least)) if *most as f64 <= *least as f64 * 1.1 => {
            format!("{} backends share the replies evenly", stack.names.len())
        }
        (Some((place, most)), _) => format!(
            "{} answers most: {} of the replies",
            text::shorten(&stack.names[place], 40),
            percent(*most as f64 / total as f64)
        ),
        _ => NEUTRAL.to_owned(),
    }
}

/// A backend that had its share of the first half and nothing of the last quarter, with the time of its last reply.
fn falls_silent(stack: &Stack) -> Option<(usize, f64)> {
    let columns = stack.columns.len();
    if columns < 8 || stack.names.len() < 2 {
        return None;
    }
    (0..stack.names.len()).find_map(|place| {
        let early: u64 = stack.columns[..columns / 2]
            .iter()
            .map(|column| column.counts[place])
            .sum();
        let last = stack
            .columns
            .iter()
            .rposition(|column| column.counts[place] > 0)?;
        let others_go_on = stack.columns[columns - 1]
            .counts
            .iter()
            .any(|number| *number > 0);
        (early >= 10 && last < columns * 3 / 4 && others_go_on)
            .then(|| (place, stack.columns[last].to))
    })
}

fn table(stack: &Stack) -> Table {
    let mut head: Vec<&str> = vec!["from, s", "to, s"];
    head.extend(stack.names.iter().map(String::as_str));
    head.push("no reply");
    Table::new(
        &head,
        stack.columns.iter().map(|column| {
            let mut row = vec![text::figure(column.from), text::figure(column.to)];
            row.extend(column.counts.iter().map(|number| count(*number)));
            row.push(count(column.no_reply));
            row
        }),
    )
}
