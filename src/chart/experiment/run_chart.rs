//! A long series: one dot a repeat in the order in which they ran, the median and the band p5 to p95, and how often
//! each value came.

use crate::chart::axis::{Axis, safe_range};
use crate::chart::canvas::{Anchor, Canvas};
use crate::chart::experiment::Study;
use crate::chart::labels::{EndLabel, write_end_labels};
use crate::chart::panel::{Frame, Panel};
use crate::chart::text::{count, figure as number};
use crate::chart::theme::{Pen, Role};
use crate::chart::{Figure, Form, Parts, Table, finish, steps};

pub(crate) const NAME: &str = "run-chart";

/// Buckets of the distribution.
const BUCKETS: usize = 40;

/// Repeats and their figures; `None` where a run failed.
type Values = Vec<(u32, Option<f64>)>;

pub(crate) fn figure(study: &Study<'_>) -> Figure {
    let values: Values = study
        .ended()
        .map(|point| (point.repeat, Study::figure(point)))
        .collect();
    let spread = Spread::of(&values);
    let parts = Parts {
        name: NAME,
        title: title(study, &values, spread),
        subtitle: format!(
            "{} of each repeat in the order in which they ran; shaded p5 to p95, line median; beside it how often each came. {}",
            capital(study.of.name()),
            study.n_in_words()
        ),
        desc: "The figure of each repeat, and its distribution.".to_owned(),
        table: table(study, &values),
        empty: study.nothing(),
        pair: false,
    };
    finish(parts, |form| draw(study, form, &values, spread))
}

fn capital(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

/// Percentiles over the repeats, nearest rank.
#[derive(Clone, Copy)]
struct Spread {
    p5: f64,
    median: f64,
    p95: f64,
    min: f64,
    max: f64,
}

impl Spread {
    fn of(values: &Values) -> Option<Self> {
        let mut sorted: Vec<f64> = values.iter().filter_map(|(_, value)| *value).collect();
        sorted.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let rank = crate::chart::text::whole((share * sorted.len() as f64).ceil().max(1.0));
            sorted.get(usize::try_from(rank).ok()? - 1).copied()
        };
        Some(Self {
            p5: at(0.05)?,
            median: at(0.5)?,
            p95: at(0.95)?,
            min: at(0.0)?,
            max: at(1.0)?,
        })
    }
}

fn title(study: &Study<'_>, values: &Values, spread: Option<Spread>) -> String {
    let failed = values.iter().filter(|(_, value)| value.is_none()).count();
    let Some(spread) = spread else {
        return format!("{} repeat by repeat", capital(study.of.name()));
    };
    let gone = if failed > 0 {
        format!(", {} failed", count(failed as u64))
    } else {
        String::new()
    };
    match values.len() - failed {
        1 => format!("One repeat: {}{gone}", study.text(spread.median)),
        n => format!(
            "{} repeats: median {}, 5–95 %: {} to {}{gone}",
            count(n as u64),
            study.text(spread.median),
            study.text(spread.p5),
            study.text(spread.p95)
        ),
    }
}

fn draw(study: &Study<'_>, form: Form, values: &Values, spread: Option<Spread>) -> Canvas {
    let narrow = form.is_narrow();
    let (left, right, gap, wide) = if narrow {
        (56.0, 226.0, 8.0, 56.0)
    } else {
        (62.0, 620.0, 14.0, 106.0)
    };
    let frame = Frame {
        left,
        top: 28.0,
        right,
        bottom: if narrow { 208.0 } else { 228.0 },
    };
    let canvas = Canvas::new(form.width(), if narrow { 250 } else { 270 });
    let last = values.iter().map(|(repeat, _)| *repeat).max().unwrap_or(1);
    let known = || values.iter().filter_map(|(_, value)| *value);
    let y = if study.of.is_time() {
        Axis::latency(known())
    } else {
        Axis::from_zero(known().fold(0.0, f64::max) * 1.08)
    };
    let (from, to) = safe_range(0.0, f64::from(last) + 1.0);
    let panel = Panel::new(&canvas, frame, form.text_size(), Axis::Linear(from, to), y);
    panel.grid_y(&study.ticks(y, 5));
    if let Some(spread) = spread.filter(|_| values.len() >= 5) {
        let (top, bottom) = (panel.at_y(spread.p95), panel.at_y(spread.p5));
        canvas.rect(
            left,
            top,
            right - left,
            (bottom - top).max(1.0),
            Pen::fill(Role::S1).opacity(0.17),
        );
        let middle = panel.at_y(spread.median);
        canvas.line((left, middle), (right, middle), Pen::line(Role::S1, 14));
    }
    let dots: Vec<(f64, f64)> = values
        .iter()
        .filter_map(|(repeat, value)| Some((panel.at_x(f64::from(*repeat)), panel.at_y((*value)?))))
        .collect();
    let radius = match dots.len() {
        0..30 => 3.5,
        30..200 => 2.4,
        _ => 1.3,
    };
    canvas.dots(&dots, radius, Role::S1);
    let failed: Vec<f64> = values
        .iter()
        .filter(|(_, value)| value.is_none())
        .map(|(repeat, _)| panel.at_x(f64::from(*repeat)))
        .collect();
    let crosses: Vec<(f64, f64)> = steps::thin(failed, 7.2)
        .into_iter()
        .map(|x| (x, frame.bottom - 4.5))
        .collect();
    canvas.crosses(&crosses, Pen::line(Role::Bad, 18));
    if let Some(spread) = spread {
        sideways(
            &canvas,
            &panel,
            (right + gap, right + gap + wide),
            values,
            spread,
        );
        let x = right + gap + wide + 9.0;
        let mut labels = vec![EndLabel::new(
            panel.at_y(spread.median),
            Role::S1,
            format!("median {}", study.text(spread.median)),
        )];
        if values.len() >= 5 {
            for (word, value) in [("p95", spread.p95), ("p5", spread.p5)] {
                let words = format!("{word} {}", study.text(value));
                labels.push(EndLabel::new(panel.at_y(value), Role::Muted, words));
            }
        }
        let room = f64::from(form.width()) - x;
        let bounds = (frame.top - 8.0, frame.bottom + 10.0);
        write_end_labels(&canvas, x, room, bounds, form.text_size(), labels);
    }
    panel.name_y(&study.axis_of_figure(y));
    let mut ticks = panel.x.number_ticks(if narrow { 3 } else { 6 });
    ticks.retain(|(value, _)| value.fract().abs() < 1e-9 && *value >= 1.0);
    panel.axis_x(&ticks, "repeat");
    canvas
}

/// How often each value came, as level bars on the same axis.
fn sideways(
    canvas: &Canvas,
    panel: &Panel,
    (left, right): (f64, f64),
    values: &Values,
    spread: Spread,
) {
    canvas.line(
        (left, panel.frame.top),
        (left, panel.frame.bottom),
        Pen::line(Role::Axis, 10),
    );
    let (low, high) = (panel.at_y(spread.min), panel.at_y(spread.max));
    let step = ((low - high) / BUCKETS as f64).max(3.0);
    let mut counts = [0_u32; BUCKETS + 1];
    for (_, value) in values {
        let Some(value) = value else { continue };
        let place = crate::chart::text::whole(((low - panel.at_y(*value)) / step).floor());
        let place = usize::try_from(place).unwrap_or(BUCKETS).min(BUCKETS);
        counts[place] += 1;
    }
    let most = f64::from(counts.iter().copied().max().unwrap_or(1).max(1));
    for (place, number) in counts.iter().enumerate().filter(|(_, number)| **number > 0) {
        let bottom = low - step * place as f64;
        let long = (right - left) * f64::from(*number) / most;
        canvas.rect(
            left,
            bottom - step + 0.5,
            long.max(1.0),
            step - 1.0,
            Pen::fill(Role::S1).opacity(0.55),
        );
    }
    canvas.text((left, 14.0), Anchor::Start, Role::Muted, "how often");
}

fn table(study: &Study<'_>, values: &Values) -> Table {
    let unit = match study.of.column() {
        "bits_per_second" => "bit/s",
        "path_mtu" => "bytes",
        _ => "ms",
    };
    let name = format!("{}, {unit}", study.of.name());
    if values.len() <= Table::MOST_ROWS {
        return Table::new(
            &["repeat", &name],
            values.iter().map(|(repeat, value)| {
                vec![
                    repeat.to_string(),
                    value.map_or_else(|| "failed".to_owned(), number),
                ]
            }),
        );
    }
    let join = values.len().div_ceil(100);
    Table::new(
        &[
            "repeats",
            "failed",
            &format!("median of {name}"),
            "least",
            "most",
        ],
        values.chunks(join).map(|part| {
            let mut known: Vec<f64> = part.iter().filter_map(|(_, value)| *value).collect();
            known.sort_by(f64::total_cmp);
            let value = |of: Option<&f64>| of.copied().map(number).unwrap_or_default();
            vec![
                format!("{}–{}", part[0].0, part[part.len() - 1].0),
                count((part.len() - known.len()) as u64),
                value(known.get(known.len() / 2)),
                value(known.first()),
                value(known.last()),
            ]
        }),
    )
}
