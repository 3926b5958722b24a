//! Throughput over time: the sum against its cap, and below it each stream.

use crate::chart::axis::{Axis, safe_range};
use crate::chart::canvas::{Anchor, Canvas};
use crate::chart::flow::{self, Flow, bits, stretches, unit, without_stub};
use crate::chart::labels::{EndLabel, write_end_labels};
use crate::chart::panel::{Frame, Panel};
use crate::chart::text::{self, counted, figure as number};
use crate::chart::theme::{Manner, Pen, Role};
use crate::chart::{Figure, Form, Parts, Table, finish};
use crate::measure::flow::Way;
use crate::measure::flow_series::{FlowLine, FlowPoint};
use crate::measure::plan::throughput::{Direction, Protocol};
use crate::measure::run::State;

pub(crate) const NAME: &str = "throughput";

pub(crate) fn figure(flow: &Flow<'_>) -> Figure {
    let empty = flow
        .ways()
        .iter()
        .all(|way| flow.sum(*way).iter().all(|point| point.bytes == 0))
        .then(|| flow.nothing());
    let subtitle = subtitle(flow);
    let parts = Parts {
        name: NAME,
        title: title(flow),
        desc: format!("{subtitle} Above the sum of the streams, below each of them."),
        subtitle,
        table: table(flow),
        empty,
        pair: false,
    };
    finish(parts, |form| draw(flow, form))
}

fn subtitle(flow: &Flow<'_>) -> String {
    let step = flow
        .series
        .sums
        .iter()
        .flat_map(|line| &line.points)
        .map(|point| point.to_s - point.from_s)
        .filter(|step| step.is_finite())
        .fold(0.0, f64::max);
    let whose = match flow.plan().map(|plan| plan.direction) {
        _ if flow.state == State::Imported => "Bytes as the text tells them",
        Some(Direction::Receive) => "Bytes received",
        Some(Direction::Send)
            if flow
                .plan()
                .is_some_and(|plan| plan.protocol == Protocol::Udp) =>
        {
            "Bytes sent"
        }
        Some(Direction::Send) => "Bytes acknowledged by the receiver",
        _ => "Bytes acknowledged or received",
    };
    let omitted = flow.series.omit_s;
    let omit = if omitted > 0.0 && omitted.is_finite() {
        format!(" The first {} do not count.", text::seconds(omitted))
    } else {
        String::new()
    };
    let steps = if step > 0.0 {
        format!(", in steps of {}", text::seconds(step))
    } else {
        String::new()
    };
    format!(
        "{whose}{steps}. Goodput, without headers.{omit}{}",
        flow.short_cuts()
    )
}

/// A line that the sum is held against: the lower one of the documented cap and what was asked for.
struct Reference {
    rate: f64,
    words: &'static str,
    /// The same where there is little room.
    short: &'static str,
}

fn reference(flow: &Flow<'_>) -> Option<Reference> {
    let good = |rate: &f64| rate.is_finite() && *rate > 0.0;
    let cap = flow.series.cap_bits_per_second.filter(good);
    let cap = cap.map(|rate| Reference {
        rate,
        words: "documented cap",
        short: "cap",
    });
    let asked = flow.plan().and_then(|plan| {
        let each = plan.bandwidth_bits_per_second.filter(good)?;
        Some(Reference {
            rate: each * f64::from(plan.streams),
            words: "asked for",
            short: "asked",
        })
    });
    match (cap, asked) {
        (Some(cap), Some(asked)) if asked.rate < cap.rate => Some(asked),
        (cap, asked) => cap.or(asked),
    }
}

fn largest(points: &[FlowPoint]) -> f64 {
    points
        .iter()
        .filter_map(FlowPoint::bits_per_second)
        .fold(0.0, f64::max)
}

/// Role of a direction's lines.
const fn role(way: Way) -> Role {
    match way {
        Way::Send => Role::S1,
        Way::Receive => Role::S3,
    }
}

fn draw(flow: &Flow<'_>, form: Form) -> Canvas {
    let many = flow.series.streams.len() > flow.ways().len().max(1);
    let narrow = form.is_narrow();
    let (left, right) = if narrow { (44.0, 292.0) } else { (52.0, 740.0) };
    let (upper, lower) = if narrow {
        (150.0, 120.0)
    } else {
        (176.0, 124.0)
    };
    let upper = if many { upper } else { upper + 30.0 };
    let top = Frame {
        left,
        top: 28.0,
        right,
        bottom: 28.0 + upper,
    };
    let under = Frame {
        left,
        top: top.bottom + 40.0,
        right,
        bottom: top.bottom + 40.0 + lower,
    };
    let last = if many { under } else { top };
    let height = u32::try_from(text::whole(last.bottom + 42.0)).unwrap_or(300);
    let canvas = Canvas::new(form.width(), height);
    let x = Axis::Linear(0.0, end(flow));
    upper_panel(flow, form, &canvas, top, x, many);
    if many {
        lower_panel(flow, form, &canvas, under, x);
    }
    canvas
}

fn end(flow: &Flow<'_>) -> f64 {
    let drawn = flow
        .ways()
        .iter()
        .flat_map(|way| flow.sum(*way))
        .map(|point| point.to_s)
        .fold(0.0, f64::max);
    let (_, end) = safe_range(
        0.0,
        flow.not_measured()
            .map_or(drawn, |(_, to, _)| to.max(drawn)),
    );
    end
}

fn upper_panel(flow: &Flow<'_>, form: Form, canvas: &Canvas, frame: Frame, x: Axis, many: bool) {
    let sums: Vec<(Way, Vec<FlowPoint>)> = flow
        .ways()
        .into_iter()
        .map(|way| (way, without_stub(flow.sum(way))))
        .collect();
    let most = sums
        .iter()
        .map(|(_, points)| largest(points))
        .fold(0.0, f64::max);
    // A reference far above would press the sum onto the axis.
    let reference = reference(flow).filter(|reference| reference.rate < most * 20.0);
    let high = reference
        .as_ref()
        .map_or(most, |reference| reference.rate.max(most));
    let (factor, name) = unit(high);
    let panel = Panel::new(
        canvas,
        frame,
        form.text_size(),
        x,
        Axis::from_zero(high / factor * 1.12),
    );
    omitted(flow, &panel);
    panel.grid_y(&panel.y.number_ticks(5));
    if let Some((from, to, words)) = flow.not_measured() {
        panel.not_measured(from, to, &words);
    }
    let mut labels = Vec::new();
    if let Some(reference) = &reference {
        let level = reference.rate / factor;
        let pen = Pen::line(Role::S2, 16).manner(Manner::Dashed);
        panel.line(&[(0.0, level), (axis_end(x), level)], pen);
        let name = if form.is_narrow() {
            reference.short
        } else {
            reference.words
        };
        let words = format!("{name} {}", number(level));
        labels.push(EndLabel::new(panel.at_y(level) - 0.5, Role::S2, words));
    }
    for (way, points) in &sums {
        draw_line(&panel, points, factor, Pen::line(role(*way), 22), true);
        let Some(last) = points.last().and_then(FlowPoint::bits_per_second) else {
            continue;
        };
        let whole = flow
            .direction(*way)
            .and_then(|summary| summary.bits_per_second)
            .filter(|rate| rate.is_finite() && flow.state.is_final());
        let value = whole.unwrap_or(last) / factor;
        let words = match (flow.two_ways(), many) {
            (true, _) => format!("{} {}", way.word(), number(value)),
            (false, true) => format!("sum {}", number(value)),
            (false, false) => bits(value * factor),
        };
        let mut label = EndLabel::new(panel.at_y(last / factor), role(*way), words);
        if whole.is_none() && !form.is_narrow() {
            label = label.more("in the last step");
        }
        labels.push(label);
    }
    if many {
        panel.canvas.line(
            (frame.left, frame.bottom),
            (frame.right, frame.bottom),
            Pen::line(Role::Axis, 10),
        );
    } else {
        let ticks = panel.x.clock_ticks(if form.is_narrow() { 4 } else { 6 });
        panel.axis_x(&ticks, "time since the load began");
    }
    let all = flow.series.streams.len() as u64;
    let of = if many {
        format!(", sum of {}", counted(all, "stream"))
    } else {
        String::new()
    };
    panel.name_y(&format!("{name}{of}"));
    write_labels(form, canvas, frame, labels);
}

fn lower_panel(flow: &Flow<'_>, form: Form, canvas: &Canvas, frame: Frame, x: Axis) {
    let lines: Vec<(&FlowLine, Vec<FlowPoint>)> = flow
        .series
        .lines
        .iter()
        .take(16)
        .map(|line| (line, without_stub(flow.points(line))))
        .collect();
    let most = lines
        .iter()
        .map(|(_, points)| largest(points))
        .fold(0.0, f64::max);
    let (factor, name) = unit(most);
    let panel = Panel::new(
        canvas,
        frame,
        form.text_size(),
        x,
        Axis::from_zero(if most > 0.0 { most / factor * 1.1 } else { 1.0 }),
    );
    omitted(flow, &panel);
    panel.grid_y(&panel.y.number_ticks(3));
    let mut ranked: Vec<(f64, usize)> = lines
        .iter()
        .enumerate()
        .filter_map(|(index, (_, points))| Some((mean(points)?, index)))
        .collect();
    ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (slowest, fastest) = (ranked.first().copied(), ranked.last().copied());
    for (line, points) in &lines {
        let pen = Pen::line(role(line.way), 10).opacity(0.45);
        draw_line(&panel, points, factor, pen, false);
    }
    let mut labels = Vec::new();
    for (rate, index) in fastest
        .into_iter()
        .chain(slowest.filter(|_| ranked.len() > 1))
    {
        let (line, points) = &lines[index];
        draw_line(&panel, points, factor, Pen::line(role(line.way), 18), false);
        let Some(last) = points.last().and_then(FlowPoint::bits_per_second) else {
            continue;
        };
        let name = if flow.two_ways() {
            line.way.word()
        } else {
            "stream"
        };
        let words = format!("{name} {}: {}", line.stream, number(rate / factor));
        labels.push(EndLabel::new(
            panel.at_y(last / factor),
            role(line.way),
            words,
        ));
    }
    let shown = lines.len();
    let all = flow.series.streams.len();
    let what = if shown < all {
        format!("{name}, {shown} of {all} streams, slowest and fastest among them")
    } else {
        format!("{name}, each stream")
    };
    let what = if form.is_narrow() && shown < all {
        format!("{name}, {shown} of {all} streams")
    } else {
        what
    };
    canvas.text(
        (frame.left, frame.top - 10.0),
        Anchor::Start,
        Role::Muted,
        &what,
    );
    let ticks = panel.x.clock_ticks(if form.is_narrow() { 4 } else { 6 });
    panel.axis_x(&ticks, "time since the load began");
    write_labels(form, canvas, frame, labels);
}

fn write_labels(form: Form, canvas: &Canvas, frame: Frame, labels: Vec<EndLabel>) {
    let x = frame.right + 9.0;
    // On a phone a wider font than the one that is reckoned with would be cut off.
    let spare = if form.is_narrow() { 10.0 } else { 0.0 };
    write_end_labels(
        canvas,
        x,
        f64::from(form.width()) - x - spare,
        (frame.top - 8.0, frame.bottom + 10.0),
        form.text_size(),
        labels,
    );
}

const fn axis_end(x: Axis) -> f64 {
    match x {
        Axis::Linear(_, to) | Axis::Log(_, to) | Axis::Nines(to) => to,
    }
}

/// The start that does not count: shaded.
fn omitted(flow: &Flow<'_>, panel: &Panel) {
    let omit = flow.series.omit_s;
    if omit > 0.0 && omit.is_finite() {
        let (from, to) = (panel.at_x(0.0), panel.at_x(omit));
        let Frame { top, bottom, .. } = panel.frame;
        panel
            .canvas
            .rect(from, top, to - from, bottom - top, Pen::fill(Role::Wash));
    }
}

/// A line through the middles of the steps, broken where there is no data; fewer than five steps are dots.
fn draw_line(panel: &Panel, points: &[FlowPoint], factor: f64, pen: Pen, values: bool) {
    let place = |point: &FlowPoint| -> Option<(f64, f64)> {
        let rate = point.bits_per_second()?;
        Some((f64::midpoint(point.from_s, point.to_s), rate / factor))
    };
    if points.len() < 5 {
        for at in points.iter().filter_map(place) {
            panel.dot(at, pen.width.max(16) + 12, Pen::fill(pen.role));
            if values && points.len() == 1 {
                let (x, y) = (panel.at_x(at.0), panel.at_y(at.1));
                panel
                    .canvas
                    .strong((x, y + 20.0), Anchor::Middle, pen.role, &number(at.1));
            }
        }
        return;
    }
    for stretch in stretches(points) {
        let places: Vec<(f64, f64)> = stretch.iter().filter_map(place).collect();
        match places.as_slice() {
            [only] => panel.dot(*only, pen.width.max(14), Pen::fill(pen.role)),
            _ => panel.line(&places, pen),
        }
    }
}

fn mean(points: &[FlowPoint]) -> Option<f64> {
    let bytes: f64 = points.iter().map(|point| point.bytes as f64).sum();
    let time: f64 = points.iter().map(|point| point.to_s - point.from_s).sum();
    (time > 0.0).then(|| bytes * 8.0 / time)
}

fn title(flow: &Flow<'_>) -> String {
    const NEUTRAL: &str = "Throughput over time";
    let Some(summary) = flow.summary() else {
        return NEUTRAL.to_owned();
    };
    if flow.state == State::Running {
        return "Throughput so far".to_owned();
    }
    if let Some((at, planned, _)) = flow.not_measured() {
        let after = format!(
            "Stopped after {} of {}",
            text::seconds(at),
            text::seconds(planned)
        );
        return match gap(flow) {
            Some(gap) => format!("{after}; {gap}"),
            None => after,
        };
    }
    if flow.two_ways() {
        return two_ways(flow).unwrap_or_else(|| NEUTRAL.to_owned());
    }
    let Some(rate) = summary
        .bits_per_second
        .filter(|rate| rate.is_finite() && *rate > 0.0)
    else {
        return NEUTRAL.to_owned();
    };
    let several = summary.streams.len() > 1;
    let who = if several { "The sum" } else { "The stream" };
    let holds = if is_steady(flow) { "holds" } else { "averages" };
    let spread = slowest_and_fastest(flow).map_or_else(String::new, |(low, high, unit)| {
        format!("; the streams are {low} to {high} {unit}")
    });
    match flow
        .series
        .cap_bits_per_second
        .filter(|cap| cap.is_finite() && *cap > 0.0)
    {
        // Of a cap far above nothing is to be said.
        Some(cap) if rate < cap / 20.0 => format!("{who} {holds} {}{spread}", bits(rate)),
        Some(cap) if rate <= cap * 1.02 => {
            let (factor, name) = unit(cap);
            format!(
                "{who} {holds} {} of the documented {} {name}{spread}",
                number(rate / factor),
                number(cap / factor)
            )
        }
        Some(cap) => format!(
            "{who} {holds} {}, above the documented cap of {}",
            bits(rate),
            bits(cap)
        ),
        None => format!("{who} {holds} {}{spread}", bits(rate)),
    }
}

/// The first hole in the data of a run that went one way.
fn gap(flow: &Flow<'_>) -> Option<String> {
    let points = flow.sum(*flow.ways().first()?);
    let mut parts = stretches(&points);
    let from = parts.next()?.last()?.to_s;
    let to = parts.next()?.first()?.from_s;
    Some(format!(
        "no data from {} to {}",
        text::seconds(from),
        text::seconds(to)
    ))
}

fn two_ways(flow: &Flow<'_>) -> Option<String> {
    let rate = |way| {
        flow.direction(way)?
            .bits_per_second
            .filter(|rate| rate.is_finite())
    };
    let (send, receive) = (rate(Way::Send)?, rate(Way::Receive)?);
    let when = match flow.plan()?.direction {
        Direction::InTurn => "then",
        _ => "at the same time",
    };
    Some(format!(
        "{} sent, {when} {} received",
        bits(send),
        bits(receive)
    ))
}

/// Rates of the slowest and the fastest stream where they differ by half or more.
fn slowest_and_fastest(flow: &Flow<'_>) -> Option<(String, String, &'static str)> {
    let summary = flow.summary()?;
    summary.fastest_to_slowest.filter(|ratio| *ratio >= 1.5)?;
    let rates: Vec<f64> = summary
        .streams
        .iter()
        .filter_map(|stream| stream.bits_per_second)
        .filter(|rate| rate.is_finite())
        .collect();
    let low = rates.iter().copied().min_by(f64::total_cmp)?;
    let high = rates.iter().copied().max_by(f64::total_cmp)?;
    let (factor, name) = unit(high);
    Some((number(low / factor), number(high / factor), name))
}

/// Whether every whole step but the first is within a tenth of the middle one.
fn is_steady(flow: &Flow<'_>) -> bool {
    let Some(way) = flow.ways().first().copied() else {
        return false;
    };
    let points = flow.sum(way);
    let longest = points
        .iter()
        .map(|point| point.to_s - point.from_s)
        .fold(0.0, f64::max);
    let mut rates: Vec<f64> = points
        .iter()
        .skip(1)
        .filter(|point| point.to_s - point.from_s > longest * 0.9)
        .filter_map(FlowPoint::bits_per_second)
        .collect();
    rates.sort_by(f64::total_cmp);
    let Some(middle) = rates.get(rates.len() / 2).copied() else {
        return false;
    };
    let unbroken = stretches(&points).count() == 1;
    rates.len() >= 4
        && unbroken
        && rates
            .iter()
            .all(|rate| (0.9..=1.1).contains(&(rate / middle)))
}

fn table(flow: &Flow<'_>) -> Table {
    let ways = flow.ways();
    let most = Table::MOST_ROWS / ways.len().max(1);
    let rows = ways.into_iter().flat_map(|way| {
        flow::joined(&flow.sum(way), most)
            .into_iter()
            .map(move |point| {
                let (factor, name) = unit(point.bits_per_second().unwrap_or(0.0));
                vec![
                    number(point.from_s),
                    number(point.to_s),
                    way.word().to_owned(),
                    text::count(point.bytes),
                    point
                        .bits_per_second()
                        .map(|rate| format!("{} {name}", number(rate / factor)))
                        .unwrap_or_default(),
                ]
            })
    });
    Table::new(&["from, s", "to, s", "direction", "bytes", "rate"], rows)
}
