//! Charts of throughput and ping runs: their input, which ones apply, and what all of them ask of a run.

use crate::chart::text::{self, NARROW};
use crate::chart::theme::Theme;
use crate::chart::{Figure, dress, loss, ping, retransmits, rtt, streams, throughput};
use crate::measure::flow::Way;
use crate::measure::flow_series::{FlowLine, FlowPoint, FlowSeries};
use crate::measure::plan::ping::PingPlan;
use crate::measure::plan::throughput::{Direction, Protocol, ThroughputPlan};
use crate::measure::run::State;
use crate::measure::summary::flow::{PingSummary, ThroughputSummary};

/// The run that the charts are of: its plan and what it came to, or so far.
#[derive(Clone, Copy, Debug)]
pub enum FlowRun<'a> {
    /// A throughput run.
    Throughput(&'a ThroughputPlan, &'a ThroughputSummary),
    /// A ping.
    Ping(&'a PingPlan, &'a PingSummary),
}

/// Everything that the charts of one throughput or ping run are made from.
#[derive(Clone, Copy, Debug)]
pub struct FlowChartInput<'a> {
    /// What was asked for, and what it came to.
    pub run: FlowRun<'a>,
    /// What is drawn.
    pub series: &'a FlowSeries,
    /// Whether more will come, and whether the plan was carried out.
    pub state: State,
    /// When the first packet could go.
    pub when: Option<jiff::Timestamp>,
}

type Maker = fn(&Flow<'_>) -> Figure;

/// The chart forms, in page order.
const FORMS: [(&str, Maker); 6] = [
    (throughput::NAME, throughput::figure),
    (loss::NAME, loss::figure),
    (rtt::NAME, rtt::figure),
    (streams::NAME, streams::figure),
    (retransmits::NAME, retransmits::figure),
    (ping::NAME, ping::figure),
];

/// The charts that apply to a throughput or ping run, in page order; those with nothing to show carry a sentence.
pub fn flow_figures(input: &FlowChartInput<'_>) -> Vec<Figure> {
    let flow = Flow::new(input);
    FORMS
        .iter()
        .filter(|(name, _)| flow.shows(name))
        .map(|(_, make)| make(&flow))
        .collect()
}

/// The chart with this name; `None` for a name that this kind of run has no chart for.
pub fn flow_figure(input: &FlowChartInput<'_>, name: &str) -> Option<Figure> {
    let (_, make) = FORMS.iter().find(|(known, _)| *known == name)?;
    let is_ping = matches!(input.run, FlowRun::Ping(..));
    (is_ping == (name == ping::NAME)).then(|| make(&Flow::new(input)))
}

/// The charts that grow while a run sends.
pub fn flow_live(input: &FlowChartInput<'_>) -> Vec<Figure> {
    let names: &[&str] = match input.run {
        FlowRun::Throughput(..) => &[throughput::NAME, rtt::NAME],
        FlowRun::Ping(..) => &[ping::NAME],
    };
    names
        .iter()
        .filter_map(|name| flow_figure(input, name))
        .collect()
}

/// The chart with this name as a file of its own, with its heading and literal colours.
pub fn flow_file(input: &FlowChartInput<'_>, name: &str, theme: Theme) -> Option<String> {
    let (host, port) = match input.run {
        FlowRun::Throughput(plan, _) => (&plan.host, Some(plan.port)),
        FlowRun::Ping(plan, _) => (&plan.host, plan.port),
    };
    let mut words = text::shorten(host, 80);
    // A text that was imported need not say where to.
    if let Some(port) = port.filter(|_| !host.is_empty()) {
        words = format!("{words} port {port}");
    }
    Some(dress(&flow_figure(input, name)?, words, input.when, theme))
}

/// The answers.
pub(crate) struct Flow<'a> {
    pub(crate) run: FlowRun<'a>,
    pub(crate) series: &'a FlowSeries,
    pub(crate) state: State,
    /// When the load began, in s since the run's start: 0 on the x axis.
    pub(crate) start_s: f64,
}

impl<'a> Flow<'a> {
    fn new(input: &FlowChartInput<'a>) -> Self {
        let start_s = input.series.load_start_s.unwrap_or(0.0);
        Self {
            run: input.run,
            series: input.series,
            state: input.state,
            start_s: if start_s.is_finite() { start_s } else { 0.0 },
        }
    }

    /// Whether a page shows this chart.
    fn shows(&self, name: &str) -> bool {
        let FlowRun::Throughput(plan, summary) = self.run else {
            return name == ping::NAME;
        };
        let series = self.series;
        let any =
            |of: fn(&FlowPoint) -> bool| series.sums.iter().flat_map(|line| &line.points).any(of);
        match name {
            throughput::NAME => true,
            loss::NAME => plan.protocol == Protocol::Udp && any(|point| point.lost.is_some()),
            rtt::NAME => !series.echoes.is_empty() || !series.echo_bins.is_empty(),
            streams::NAME => summary.streams.len() > 1,
            retransmits::NAME => any(|point| point.retransmits.is_some()),
            _ => false,
        }
    }

    pub(crate) const fn summary(&self) -> Option<&'a ThroughputSummary> {
        match self.run {
            FlowRun::Throughput(_, summary) => Some(summary),
            FlowRun::Ping(..) => None,
        }
    }

    pub(crate) const fn plan(&self) -> Option<&'a ThroughputPlan> {
        match self.run {
            FlowRun::Throughput(plan, _) => Some(plan),
            FlowRun::Ping(..) => None,
        }
    }

    /// The summary of one direction.
    pub(crate) fn direction(&self, way: Way) -> Option<&'a ThroughputSummary> {
        let summary = self.summary()?;
        Some(summary.directions.get(way.word()).unwrap_or(summary))
    }

    /// Whether bytes went both ways.
    pub(crate) fn two_ways(&self) -> bool {
        self.plan()
            .is_some_and(|plan| matches!(plan.direction, Direction::Both | Direction::InTurn))
    }

    /// Points that can be drawn, shifted so that the load begins at 0.
    pub(crate) fn points(&self, line: &'a FlowLine) -> Vec<FlowPoint> {
        let mut points: Vec<FlowPoint> = line
            .points
            .iter()
            .filter(|point| {
                point.from_s.is_finite() && point.to_s.is_finite() && point.to_s > point.from_s
            })
            .map(|point| FlowPoint {
                from_s: (point.from_s - self.start_s).clamp(0.0, 1e9),
                to_s: (point.to_s - self.start_s).clamp(0.0, 1e9),
                ..point.clone()
            })
            .filter(|point| point.to_s > point.from_s)
            .collect();
        points.sort_by(|a, b| a.from_s.total_cmp(&b.from_s));
        points
    }

    /// The sum line of a direction.
    pub(crate) fn sum(&self, way: Way) -> Vec<FlowPoint> {
        self.series
            .sums
            .iter()
            .find(|line| line.way == way)
            .map_or_else(Vec::new, |line| self.points(line))
    }

    /// Directions that have a sum, send first.
    pub(crate) fn ways(&self) -> Vec<Way> {
        [Way::Send, Way::Receive]
            .into_iter()
            .filter(|way| self.series.sums.iter().any(|line| line.way == *way))
            .collect()
    }

    /// How far the data and the plan reach, in s since the load began.
    pub(crate) fn reach(&self) -> (f64, Option<f64>) {
        let tame = |s: f64| {
            if s.is_finite() {
                s.clamp(0.0, 1e9)
            } else {
                0.0
            }
        };
        let covers = tame(self.series.covers_s - self.start_s);
        let planned = self.series.planned_s.filter(|s| s.is_finite()).map(tame);
        (covers, planned)
    }

    /// Where the part that was not measured begins and ends, in s, and the words for it.
    pub(crate) fn not_measured(&self) -> Option<(f64, f64, String)> {
        let (covers, planned) = self.reach();
        let planned = planned?;
        let partial = !matches!(self.state, State::Finished | State::Imported);
        if !partial || planned <= covers * 1.01 + 0.05 {
            return None;
        }
        let words = if self.state.is_final() {
            format!("stopped after {}", text::seconds(covers))
        } else {
            "not yet measured".to_owned()
        };
        Some((covers, planned, words))
    }

    /// Why there is nothing to draw.
    pub(crate) fn nothing(&self) -> String {
        if !self.state.is_final() {
            return "Nothing was measured yet.".to_owned();
        }
        let failed = self.summary().and_then(|summary| {
            let all = summary.streams.len() as u64;
            let why: Vec<&str> = summary
                .streams
                .iter()
                .filter_map(|stream| stream.failed.as_deref())
                .collect();
            let first = why.first()?;
            (why.len() as u64 == all).then(|| match all {
                1 => format!("No samples: the stream failed ({}).", text::clean(first)),
                _ => format!(
                    "No samples: all {} streams failed ({}).",
                    text::count(all),
                    text::clean(first)
                ),
            })
        });
        failed.unwrap_or_else(|| "No samples: nothing got through.".to_owned())
    }

    /// What is said of every figure where the receiver or the sender took a short cut.
    pub(crate) fn short_cuts(&self) -> &'static str {
        match self.summary() {
            Some(summary) if summary.receive == "discard" => {
                " The receiver discards the bytes uncopied."
            }
            Some(summary) if summary.offload => " With segmentation offload.",
            _ => "",
        }
    }
}

/// Factor and name of the unit in which rates up to this one are best read.
pub(crate) fn unit(most: f64) -> (f64, &'static str) {
    [
        (1e12, "Tbit/s"),
        (1e9, "Gbit/s"),
        (1e6, "Mbit/s"),
        (1e3, "kbit/s"),
    ]
    .into_iter()
    .find(|(factor, _)| most >= *factor)
    .unwrap_or((1.0, "bit/s"))
}

/// A rate with its unit.
pub(crate) fn bits(rate: f64) -> String {
    let (factor, unit) = unit(rate * 1.0005);
    format!("{}{NARROW}{unit}", text::figure(rate / factor))
}

/// Splits points where a line must break: where two of them do not touch.
pub(crate) fn stretches(points: &[FlowPoint]) -> impl Iterator<Item = &[FlowPoint]> {
    let longest = points
        .iter()
        .map(|point| point.to_s - point.from_s)
        .fold(0.0, f64::max);
    points.chunk_by(move |a, b| b.from_s - a.to_s <= longest * 0.5)
}

/// Points for a line: a last step shorter than half of the longest is joined with the one before, for a rate over so
/// short a time would draw a plunge or a peak that says nothing.
pub(crate) fn without_stub(mut points: Vec<FlowPoint>) -> Vec<FlowPoint> {
    let length = |point: &FlowPoint| point.to_s - point.from_s;
    let longest = points.iter().map(length).fold(0.0, f64::max);
    if let [.., before, last] = points.as_slice()
        && length(last) < longest * 0.5
        && last.from_s - before.to_s <= longest * 0.5
    {
        let mut whole = joined(&[before.clone(), last.clone()], 1);
        points.truncate(points.len() - 2);
        points.append(&mut whole);
    }
    points
}

/// Neighbours joined until there are at most so many.
pub(crate) fn joined(points: &[FlowPoint], most: usize) -> Vec<FlowPoint> {
    let join = points.len().div_ceil(most.max(1)).max(1);
    points
        .chunks(join)
        .map(|part| {
            let mut sum = part[0].clone();
            for point in &part[1..] {
                sum.to_s = point.to_s;
                sum.bytes = sum.bytes.saturating_add(point.bytes);
                sum.retransmits = add(sum.retransmits, point.retransmits);
                sum.received = add(sum.received, point.received);
                sum.lost = match (sum.lost, point.lost) {
                    (Some(a), Some(b)) => Some(a.saturating_add(b)),
                    (a, b) => a.or(b),
                };
            }
            sum
        })
        .collect()
}

fn add(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.saturating_add(b)),
        (a, b) => a.or(b),
    }
}
