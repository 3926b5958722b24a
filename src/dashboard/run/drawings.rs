//! The charts of a run, and the sentence that stands in their place where there is nothing to draw.

use crate::chart::{self, ChartInput, Figure, FlowChartInput, FlowRun};
use crate::dashboard::run::{belief, imported};
use crate::measure::flow_series::FlowSeries;
use crate::measure::fold::Series;
use crate::measure::plan::throughput::{Dialect, Protocol};
use crate::measure::plan::{Kind, Plan};
use crate::measure::run::{Run, State};
use crate::measure::series::HttpSeries;
use crate::measure::summary::Summary;

/// What the charts of an HTTP run are made from; `None` before there are figures.
fn http_input<'a>(run: &'a Run, series: Option<&'a HttpSeries>) -> Option<ChartInput<'a>> {
    Some(ChartInput {
        plan: &run.plan,
        summary: run.summary.as_ref()?,
        series: series?,
        state: run.state,
        when: run.started_at,
        objectives: &run.objectives,
    })
}

/// What the charts of a throughput or ping run are made from; `None` before there are figures.
fn flow_input<'a>(run: &'a Run, series: Option<&'a FlowSeries>) -> Option<FlowChartInput<'a>> {
    let flow = match (&run.plan, run.summary.as_ref()?) {
        (Plan::Throughput(plan), Summary::Throughput(summary)) => {
            FlowRun::Throughput(plan, summary)
        }
        (Plan::Ping(plan), Summary::Ping(summary)) => FlowRun::Ping(plan, summary),
        _ => return None,
    };
    Some(FlowChartInput {
        run: flow,
        series: series?,
        state: run.state,
        when: run.started_at,
    })
}

/// The chart with this name as a file of its own; `None` for a name that this run has no chart for.
pub fn chart_file(
    run: &Run,
    series: Option<&Series>,
    name: &str,
    theme: chart::Theme,
) -> Option<String> {
    if let (State::Imported, Some(Series::Flow(series))) = (run.state, series) {
        return imported::chart_file(run, series, name, theme);
    }
    match series? {
        Series::Http(series) => chart::file(&http_input(run, Some(series))?, name, theme),
        Series::Flow(series) => chart::flow_file(&flow_input(run, Some(series))?, name, theme),
    }
}

/// Whether a run failed before anything moved: then one sentence says more than empty charts and tables.
pub(super) fn nothing_moved(run: &Run, series: Option<&Series>) -> bool {
    if run.state != State::Failed {
        return false;
    }
    match (&run.summary, series) {
        (Some(Summary::Throughput(_)), Some(Series::Flow(series))) => series
            .sums
            .iter()
            .flat_map(|line| &line.points)
            .all(|point| point.bytes == 0),
        (Some(Summary::Throughput(summary)), _) => {
            summary.streams.iter().all(|stream| stream.bytes == 0)
        }
        _ => false,
    }
}

/// All charts of the page, in order.
pub(super) fn charts(run: &Run, series: Option<&Series>) -> Vec<Figure> {
    if run.state == State::Queued || nothing_moved(run, series) {
        return Vec::new();
    }
    if let (State::Imported, Some(Series::Flow(series))) = (run.state, series) {
        return imported::charts(run, series);
    }
    let live = run.state == State::Running;
    let drawn = match series {
        Some(Series::Http(series)) => http_input(run, Some(series)).map(|input| {
            if live {
                chart::live(&input)
            } else {
                chart::figures(&input)
            }
        }),
        Some(Series::Flow(series)) => flow_input(run, Some(series)).map(|input| {
            if live {
                chart::flow_live(&input)
            } else {
                chart::flow_figures(&input)
            }
        }),
        None => None,
    };
    drawn.unwrap_or_default()
}

/// The sentence that stands where the charts would; `None` for a kind that has no chart and something to say.
pub(super) fn nothing(run: &Run) -> Option<String> {
    let http = run.kind.is_http();
    Some(match run.state {
        State::Queued => "Charts stand here once it runs.".to_owned(),
        State::Running if http => "No request has ended yet.".to_owned(),
        State::Running => match run.kind {
            Kind::Throughput => "No interval has ended yet.",
            Kind::Ping => "No probe was answered yet.",
            _ => "Sizes are being tried.",
        }
        .to_owned(),
        State::Failed => match &run.error {
            Some(error) => format!(
                "No samples. {}{}",
                belief::sentence(error),
                advice(&run.plan, error)
            ),
            None => "No samples.".to_owned(),
        },
        State::Imported => {
            "The text holds nothing over time that could be drawn; its figures stand below."
                .to_owned()
        }
        _ if run.kind == Kind::Path => return None,
        _ if http => "No samples: no request has ended.".to_owned(),
        _ => "No samples: nothing was sent.".to_owned(),
    })
}

/// What to do about a throughput test that got nothing through.
fn advice(plan: &Plan, error: &str) -> String {
    let Plan::Throughput(plan) = plan else {
        return String::new();
    };
    let error = error.to_lowercase();
    let port = plan.port;
    if error.contains("refused") {
        let (tool, udp) = match (plan.dialect, plan.protocol) {
            (Dialect::Iperf2, Protocol::Udp) => ("iperf", " -u"),
            (Dialect::Iperf2, Protocol::Tcp) => ("iperf", ""),
            (Dialect::Iperf3, _) => ("iperf3", ""),
        };
        format!(
            " Start a receiver there with {tool} -s{udp} -p {port}, or name the port on which one listens."
        )
    } else if error.contains("answer") || error.contains("timed out") {
        format!(" Let port {port}, TCP and UDP, through the firewall in front of it.")
    } else {
        String::new()
    }
}
