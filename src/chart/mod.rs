//! Charts: a run's series and figures become drawings, titles that state the finding, and data tables.
//!
//! One file per chart form; `theme` knows colours and files, `canvas` writes the SVG, `axis` places values.
//! Every drawing comes in two widths, for a desk and for a phone, so that text is never shrunk.

mod axis;
mod backends;
mod canvas;
mod compare;
mod experiment;
mod facts;
mod fetch;
mod first_minute;
mod flow;
mod guide;
mod labels;
mod latency_histogram;
mod latency_over_time;
mod latency_percentiles;
mod latency_split;
mod loss;
mod panel;
mod ping;
mod replies_over_time;
mod retransmits;
mod rtt;
mod selftest;
mod steps;
mod streams;
mod text;
mod theme;
mod throughput;
mod uptime;

pub use compare::{CompareInput, CompareLine, CompareUnit, compare_figure, compare_file};
pub use experiment::{
    ExperimentChartInput, MOST_SERIES, experiment_figure, experiment_figures, experiment_file,
    wanted_series,
};
pub use first_minute::{MinuteStep, first_minute_figure};
pub use flow::{FlowChartInput, FlowRun, flow_figure, flow_figures, flow_file, flow_live};
pub use guide::guide_figure;
pub use selftest::self_test_figures;
pub use text::clean;
pub use theme::{Drawing, Svg, Theme};
pub use uptime::{UptimeLine, uptime_figure};

use canvas::{Anchor, Canvas};
use facts::Facts;
use theme::{Manner, Pen, Role};

use crate::measure::plan::Plan;
use crate::measure::run::{ObjectiveResult, State};
use crate::measure::series::HttpSeries;
use crate::measure::summary::Summary;

/// Everything that the charts of one run are made from.
#[derive(Clone, Copy, Debug)]
pub struct ChartInput<'a> {
    /// What was asked for.
    pub plan: &'a Plan,
    /// What it came to, or so far.
    pub summary: &'a Summary,
    /// What is drawn.
    pub series: &'a HttpSeries,
    /// Whether more will come, and whether the plan was carried out.
    pub state: State,
    /// When the first request could go.
    pub when: Option<jiff::Timestamp>,
    /// Limits that are drawn as lines.
    pub objectives: &'a [ObjectiveResult],
}

/// One chart with its words.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// The name in file addresses, such as `latency-over-time`.
    pub name: &'static str,
    /// The finding, at most 100 characters.
    pub title: String,
    /// What is drawn, and n.
    pub subtitle: String,
    /// For wide pages: 900 px, or 438 px where two stand side by side.
    pub desk: Drawing,
    /// For narrow pages: 400 px.
    pub phone: Drawing,
    /// The values drawn.
    pub table: Table,
    /// The sentence that stands in place of the chart where there is nothing to draw.
    pub empty: Option<String>,
    /// Whether it is half as wide as the page's column, to stand beside another one.
    pub pair: bool,
}

/// The values behind a chart as text, at most 250 rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// Names of the columns, with units.
    pub head: Vec<String>,
    /// The rows; a value that was not measured is empty.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// Most rows of a table.
    pub const MOST_ROWS: usize = 250;

    fn new(head: &[&str], rows: impl Iterator<Item = Vec<String>>) -> Self {
        Self {
            head: head.iter().map(|&name| name.to_owned()).collect(),
            rows: rows.take(Self::MOST_ROWS).collect(),
        }
    }
}

type Maker = fn(&Facts<'_>) -> Figure;

/// The chart forms of HTTP runs, in page order.
const FORMS: [(&str, Maker); 6] = [
    (latency_over_time::NAME, latency_over_time::figure),
    (latency_percentiles::NAME, latency_percentiles::figure),
    (latency_split::NAME, latency_split::figure),
    (backends::NAME, backends::figure),
    (replies_over_time::NAME, replies_over_time::figure),
    (latency_histogram::NAME, latency_histogram::figure),
];

/// The charts that apply to a run, in page order; those with nothing to show yet carry a sentence instead.
pub fn figures(input: &ChartInput<'_>) -> Vec<Figure> {
    let facts = Facts::new(input);
    FORMS
        .iter()
        .filter(|(name, _)| applies(&facts, name))
        .map(|(_, make)| make(&facts))
        .collect()
}

/// The chart with this name; `None` for a name that this kind of run has no chart for.
pub fn figure(input: &ChartInput<'_>, name: &str) -> Option<Figure> {
    let facts = Facts::new(input);
    let (_, make) = FORMS.iter().find(|(known, _)| *known == name)?;
    (!matches!(input.plan, Plan::Fetch(_)) || name == latency_split::NAME).then(|| make(&facts))
}

/// The charts that grow while a run sends: latency and replies over time, with the rest of the plan's time hatched.
pub fn live(input: &ChartInput<'_>) -> Vec<Figure> {
    [latency_over_time::NAME, replies_over_time::NAME]
        .into_iter()
        .filter_map(|name| figure(input, name))
        .collect()
}

/// The chart with this name as a file of its own, with its heading and literal colours.
pub fn file(input: &ChartInput<'_>, name: &str, theme: Theme) -> Option<String> {
    Some(dress(
        &figure(input, name)?,
        target(input),
        input.when,
        theme,
    ))
}

/// A figure as a file: title, subtitle, and where to and when, above the drawing.
fn dress(figure: &Figure, target: String, when: Option<jiff::Timestamp>, theme: Theme) -> String {
    let room = f64::from(figure.desk.width);
    let lines = |words: &str, size: f64| -> Vec<String> {
        text::wrap(words, size, room)
            .iter()
            .map(|line| text::escape(&labels::cut(line, room, size)))
            .collect()
    };
    let mut plain = lines(&figure.subtitle, 12.0);
    plain.extend(lines(&source(target, when), 12.0));
    figure.desk.file(theme, &lines(&figure.title, 17.0), &plain)
}

/// Which charts a page shows: no backends where no reply names one, and one request has its phases only.
fn applies(facts: &Facts<'_>, name: &str) -> bool {
    match facts.plan {
        Plan::Fetch(_) => name == latency_split::NAME,
        _ => name != backends::NAME || backends::are_named(facts),
    }
}

/// The first URL of an HTTP run.
fn target(input: &ChartInput<'_>) -> String {
    let url = match input.plan {
        Plan::Rate(plan) => plan.urls.first().map(|weighted| &weighted.url),
        Plan::Users(plan) => plan.urls.first().map(|weighted| &weighted.url),
        Plan::Fetch(plan) => Some(&plan.url),
        _ => None,
    };
    url.map_or_else(String::new, |url| text::shorten(url.as_str(), 80))
}

/// Where to and when, for a file that leaves its page.
fn source(target: String, when: Option<jiff::Timestamp>) -> String {
    let Some(when) = when else {
        return target;
    };
    let when = when.strftime("%Y-%m-%d %H:%M:%S UTC").to_string();
    if target.is_empty() {
        when
    } else {
        format!("{target} · {when}")
    }
}

/// The two widths in which a chart is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Across the column.
    Wide,
    /// Half a column.
    Pair,
    /// A narrow page.
    Phone,
}

impl Form {
    const fn width(self) -> u32 {
        match self {
            Self::Wide => 900,
            Self::Pair => 438,
            Self::Phone => 400,
        }
    }

    /// Largest size at which a page shows the text of this drawing.
    const fn text_size(self) -> f64 {
        match self {
            Self::Wide => 14.0,
            Self::Pair | Self::Phone => 13.0,
        }
    }

    const fn is_narrow(self) -> bool {
        !matches!(self, Self::Wide)
    }

    fn id(self, name: &str) -> String {
        let form = if matches!(self, Self::Phone) {
            "phone"
        } else {
            "desk"
        };
        format!("{name}-{form}")
    }
}

/// What a chart form hands over; [`finish`] makes the figure of it.
struct Parts {
    name: &'static str,
    title: String,
    subtitle: String,
    /// The accessible description.
    desc: String,
    table: Table,
    empty: Option<String>,
    pair: bool,
}

/// Draws both widths, or the sentence where there is nothing to draw.
fn finish(parts: Parts, draw: impl Fn(Form) -> Canvas) -> Figure {
    let desk_form = if parts.pair { Form::Pair } else { Form::Wide };
    let title: String = text::shorten(&parts.title, 100);
    let drawing = |form: Form| -> Drawing {
        let canvas = match &parts.empty {
            Some(sentence) => draw_sentence(form, sentence),
            None => draw(form),
        };
        canvas.finish(form.id(parts.name), &title, &parts.desc)
    };
    let (desk, phone) = (drawing(desk_form), drawing(Form::Phone));
    Figure {
        name: parts.name,
        desk,
        phone,
        title,
        subtitle: parts.subtitle,
        table: parts.table,
        empty: parts.empty,
        pair: parts.pair,
    }
}

/// A sentence in a dashed frame.
fn draw_sentence(form: Form, sentence: &str) -> Canvas {
    let room = f64::from(form.width()) - 48.0;
    let lines = text::wrap(sentence, form.text_size(), room);
    let height = 32 + 18 * u32::try_from(lines.len()).unwrap_or(1);
    let canvas = Canvas::new(form.width(), height + 8);
    canvas.rect(
        0.5,
        4.5,
        f64::from(form.width()) - 1.0,
        f64::from(height) - 1.0,
        Pen::line(Role::Axis, 10).manner(Manner::Dashed),
    );
    let mut y = 30.0;
    for line in lines {
        canvas.text((24.0, y), Anchor::Start, Role::Muted, &line);
        y += 18.0;
    }
    canvas
}
