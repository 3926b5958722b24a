//! One fold for every kind of run: what a runner hands over, what is stored of it, and what it comes to.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::measure::flow::{Echo, FlowBatch, FlowEnd};
use crate::measure::flow_series::FlowSeries;
use crate::measure::plan::Plan;
use crate::measure::sample::{Batch, Ended};
use crate::measure::series::HttpSeries;
use crate::measure::summary::flow::{EchoRow, FlowInterval, PathSummary};
use crate::measure::summary::http::{ClosedSecond, HttpFold};
use crate::measure::summary::ping::PingFold;
use crate::measure::summary::throughput::ThroughputFold;
use crate::measure::summary::{HttpInterval, Summary};

/// What a runner produced since the batch before.
#[derive(Clone, Debug)]
pub enum Measured {
    /// Requests.
    Http(Batch),
    /// Intervals of streams, and round trips.
    Flow(FlowBatch),
}

impl From<Batch> for Measured {
    fn from(batch: Batch) -> Self {
        Self::Http(batch)
    }
}

impl From<FlowBatch> for Measured {
    fn from(batch: FlowBatch) -> Self {
        Self::Flow(batch)
    }
}

impl Measured {
    /// Up to which instant since the run's start it is complete.
    pub const fn until(&self) -> Duration {
        match self {
            Self::Http(batch) => batch.until,
            Self::Flow(batch) => batch.until,
        }
    }

    /// Requests or probes that came to their end in it.
    pub const fn ended(&self) -> u64 {
        match self {
            Self::Http(batch) => batch.requests.len() as u64 + batch.unsent,
            Self::Flow(batch) => batch.echoes.len() as u64,
        }
    }
}

/// What is known only when a run is over.
#[derive(Clone, Debug)]
pub enum End {
    /// Of an HTTP run.
    Http(Ended),
    /// Of a throughput or ping run.
    Flow(FlowEnd),
    /// All that a path run found.
    Path(PathSummary),
}

impl From<Ended> for End {
    fn from(ended: Ended) -> Self {
        Self::Http(ended)
    }
}

impl From<FlowEnd> for End {
    fn from(end: FlowEnd) -> Self {
        Self::Flow(end)
    }
}

impl From<PathSummary> for End {
    fn from(path: PathSummary) -> Self {
        Self::Path(path)
    }
}

impl End {
    /// From the start to the end of everything; 0 for a path run, which is not counted in time.
    pub const fn duration(&self) -> Duration {
        match self {
            Self::Http(ended) => ended.duration,
            Self::Flow(end) => end.duration,
            Self::Path(_) => Duration::ZERO,
        }
    }
}

/// What charts are drawn from.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Series {
    /// Of an HTTP run.
    Http(HttpSeries),
    /// Of a throughput or ping run; empty for a path run, which has no chart.
    Flow(FlowSeries),
}

impl Series {
    /// The one of a run of this plan in which nothing has happened yet.
    pub fn empty(plan: &Plan) -> Self {
        if plan.kind().is_http() {
            Self::Http(HttpSeries::default())
        } else {
            Self::Flow(FlowSeries::default())
        }
    }

    /// The series of an HTTP run.
    pub const fn http(&self) -> Option<&HttpSeries> {
        match self {
            Self::Http(series) => Some(series),
            Self::Flow(_) => None,
        }
    }

    /// The series of a throughput or ping run.
    pub const fn flow(&self) -> Option<&FlowSeries> {
        match self {
            Self::Flow(series) => Some(series),
            Self::Http(_) => None,
        }
    }
}

/// One row of `intervals.csv`, and an `interval` event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Interval {
    /// One second of an HTTP run.
    Http(HttpInterval),
    /// One interval of a stream, or of the sum.
    Flow(FlowInterval),
    /// One round trip of a ping.
    Echo(EchoRow),
}

/// What is complete and can be stored.
#[derive(Clone, Debug)]
pub enum Closed {
    /// A second of an HTTP run with its requests.
    Second(ClosedSecond),
    /// An interval of a stream, or of the sum.
    Flow(FlowInterval),
    /// A round trip: of a ping, or of the probe beside a throughput run.
    Echo(EchoRow),
}

impl From<ClosedSecond> for Closed {
    fn from(second: ClosedSecond) -> Self {
        Self::Second(second)
    }
}

impl Closed {
    /// Writes the run's number into it.
    pub const fn number(&mut self, run: i64) {
        match self {
            Self::Second(second) => second.interval.run = run,
            Self::Flow(interval) => interval.run = run,
            Self::Echo(echo) => echo.run = run,
        }
    }

    /// About how much memory it takes.
    pub fn weight(&self) -> usize {
        match self {
            Self::Second(second) => second.rows.len() + second.histogram.len() + 200,
            Self::Flow(_) | Self::Echo(_) => 200,
        }
    }
}

/// A run of any kind so far.
#[derive(Clone, Debug)]
pub enum Fold {
    /// Requests.
    Http(Box<HttpFold>),
    /// Streams.
    Throughput(Box<ThroughputFold>),
    /// Round trips.
    Ping(Box<PingFold>),
    /// A path run says all at its end.
    Path,
}

impl Fold {
    /// Nothing measured yet.
    pub fn new(plan: &Plan) -> Self {
        match plan {
            Plan::Throughput(plan) => Self::Throughput(Box::new(ThroughputFold::new(plan))),
            Plan::Ping(plan) => Self::Ping(Box::new(PingFold::new(plan))),
            // What a text tells is whole when it is read.
            Plan::Path(_) | Plan::Imported(_) => Self::Path,
            Plan::Rate(_) | Plan::Users(_) | Plan::Fetch(_) => {
                Self::Http(Box::new(HttpFold::new(plan)))
            }
        }
    }

    /// Takes a batch in; returns what is complete now.
    pub fn push(&mut self, measured: &Measured) -> Vec<Closed> {
        match (self, measured) {
            (Self::Http(fold), Measured::Http(batch)) => {
                fold.push(batch).into_iter().map(Closed::Second).collect()
            }
            (Self::Throughput(fold), Measured::Flow(batch)) => fold
                .push(batch)
                .into_iter()
                .map(Closed::Flow)
                .chain(batch.echoes.iter().map(beside).map(Closed::Echo))
                .collect(),
            (Self::Ping(fold), Measured::Flow(batch)) => {
                fold.push(batch);
                batch.echoes.iter().map(row).map(Closed::Echo).collect()
            }
            // A path run hands over nothing before its end, and no runner hands over another's batches.
            _ => Vec::new(),
        }
    }

    /// All that is left at the end.
    pub fn finish(&mut self, end: &End) -> Vec<Closed> {
        match self {
            Self::Http(fold) => fold
                .finish_seconds(end.duration())
                .into_iter()
                .map(Closed::Second)
                .collect(),
            Self::Throughput(fold) => fold
                .finish_intervals()
                .into_iter()
                .map(Closed::Flow)
                .collect(),
            Self::Ping(_) | Self::Path => Vec::new(),
        }
    }

    /// The figures of a run that ended like this, before they are judged; `None` where plan and end are of two kinds.
    pub fn summary(&self, end: &End) -> Option<Summary> {
        Some(match (self, end) {
            (Self::Http(fold), End::Http(ended)) => fold.summary(ended),
            (Self::Throughput(fold), End::Flow(end)) => {
                Summary::Throughput(Box::new(fold.summary(end)))
            }
            (Self::Ping(fold), End::Flow(end)) => Summary::Ping(Box::new(fold.summary(end))),
            (Self::Path, End::Path(found)) => Summary::Path(Box::new(found.clone())),
            _ => return None,
        })
    }

    /// What charts are drawn from.
    pub fn series(&self, end: &End) -> Series {
        match (self, end) {
            (Self::Http(fold), End::Http(ended)) => Series::Http(fold.series(ended)),
            (Self::Http(_), _) => Series::Http(HttpSeries::default()),
            (Self::Throughput(fold), End::Flow(end)) => Series::Flow(fold.series(end)),
            (Self::Ping(fold), End::Flow(end)) => Series::Flow(fold.series(end)),
            _ => Series::Flow(FlowSeries::default()),
        }
    }

    /// An end made of what is known while the run still runs, or when its end was lost;
    /// `None` where nothing can be said before the end.
    pub fn so_far(&self, plan: &Plan) -> Option<End> {
        match self {
            Self::Http(fold) => Some(End::Http(fold.so_far(plan.planned_requests()))),
            Self::Throughput(fold) => Some(End::Flow(fold.so_far())),
            Self::Ping(fold) => Some(End::Flow(fold.so_far())),
            Self::Path => None,
        }
    }
}

/// The row of a round trip beside a throughput run: idle ones were sent before its start.
fn beside(echo: &Echo) -> EchoRow {
    let row = row(echo);
    EchoRow {
        sent_s: if echo.loaded { row.sent_s } else { -row.sent_s },
        ..row
    }
}

/// The row of a ping's round trip; its run is left 0.
fn row(echo: &Echo) -> EchoRow {
    EchoRow {
        run: 0,
        seq: echo.seq,
        sent_s: echo.at.as_secs_f64(),
        rtt_ms: echo.rtt.map(|rtt| rtt.as_secs_f64() * 1e3),
        ttl: echo.ttl,
        duplicates: echo.duplicates,
        loaded: echo.loaded,
    }
}

/// The round trip of a stored row, as a runner hands it over.
pub fn echo(row: &EchoRow) -> Echo {
    let seconds = |s: f64| Duration::try_from_secs_f64(s).unwrap_or_default();
    Echo {
        seq: row.seq,
        at: seconds(row.sent_s.abs()),
        rtt: row.rtt_ms.map(|ms| seconds(ms / 1e3)),
        ttl: row.ttl,
        duplicates: row.duplicates,
        loaded: row.loaded,
    }
}
