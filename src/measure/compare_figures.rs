//! The figures by which runs are compared, and how much each of them moves by chance.

use crate::measure::flow_series::FlowSeries;
use crate::measure::fold::Series;
use crate::measure::series::HttpSeries;

/// A figure's unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Milliseconds.
    Ms,
    /// Seconds.
    Seconds,
    /// Requests, replies or connections per second.
    PerSecond,
    /// Bits per second.
    BitsPerSecond,
    /// Percent.
    Percent,
    /// A bare count.
    Count,
    /// A ratio.
    Ratio,
    /// Bytes.
    Bytes,
}

/// Which way a figure improves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// More is better.
    More,
    /// Less is better.
    Less,
    /// It is what was asked for, or it depends.
    Neither,
}

/// Where the noise of a figure is told from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noise {
    /// Steps of time inside each run: twice the standard error of their mean.
    Windows(Window),
    /// No steps tell it: 5 % of the larger.
    Share,
    /// A count of chance events: twice the root of the sum of both.
    Count,
    /// None: it is exact.
    Exact,
}

/// What is looked at in each step of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// Median latency.
    Median,
    /// 99th percentile of the latency.
    Tail,
    /// Replies, or bits, per second.
    Rate,
    /// Round trips.
    RoundTrip,
}

/// One figure of summaries.
pub(super) struct Figure {
    pub(super) name: &'static str,
    pub(super) place: &'static str,
    pub(super) unit: Unit,
    pub(super) better: Better,
    pub(super) noise: Noise,
}

const fn figure(
    name: &'static str,
    place: &'static str,
    unit: Unit,
    better: Better,
    noise: Noise,
) -> Figure {
    Figure {
        name,
        place,
        unit,
        better,
        noise,
    }
}

use Better::{Less, More, Neither};

const MEDIAN: Noise = Noise::Windows(Window::Median);
const TAIL: Noise = Noise::Windows(Window::Tail);
const RATE: Noise = Noise::Windows(Window::Rate);
const TRIP: Noise = Noise::Windows(Window::RoundTrip);

/// All of them, the most telling first; runs have those of their kind.
pub(super) const FIGURES: [Figure; 41] = [
    figure(
        "throughput",
        "bits_per_second",
        Unit::BitsPerSecond,
        More,
        RATE,
    ),
    figure(
        "sent",
        "directions.send.bits_per_second",
        Unit::BitsPerSecond,
        More,
        RATE,
    ),
    figure(
        "received",
        "directions.receive.bits_per_second",
        Unit::BitsPerSecond,
        More,
        RATE,
    ),
    figure("sent again", "retransmits", Unit::Count, Less, Noise::Count),
    figure("lost", "lost_percent", Unit::Percent, Less, Noise::Share),
    figure("jitter", "jitter_ms", Unit::Ms, Less, Noise::Share),
    figure("fairness", "fairness", Unit::Ratio, More, Noise::Share),
    figure(
        "fastest to slowest stream",
        "fastest_to_slowest",
        Unit::Ratio,
        Less,
        Noise::Share,
    ),
    figure(
        "round trip, idle",
        "rtt_ms.idle.median",
        Unit::Ms,
        Less,
        TRIP,
    ),
    figure(
        "round trip, loaded",
        "rtt_ms.loaded.median",
        Unit::Ms,
        Less,
        TRIP,
    ),
    figure("offered", "offered_per_s", Unit::PerSecond, Neither, RATE),
    figure(
        "answered well",
        "achieved_per_s",
        Unit::PerSecond,
        More,
        RATE,
    ),
    figure(
        "transactions",
        "transaction_rate_per_s",
        Unit::PerSecond,
        More,
        RATE,
    ),
    figure(
        "availability",
        "availability_percent",
        Unit::Percent,
        More,
        Noise::Share,
    ),
    figure("failed", "failed", Unit::Count, Less, Noise::Count),
    figure("errors", "errors.total", Unit::Count, Less, Noise::Count),
    figure("unsent", "unsent", Unit::Count, Less, Noise::Count),
    figure("timeouts", "censored", Unit::Count, Less, Noise::Count),
    figure("latency p50", "latency_ms.p50", Unit::Ms, Less, MEDIAN),
    figure("latency p90", "latency_ms.p90", Unit::Ms, Less, TAIL),
    figure("latency p95", "latency_ms.p95", Unit::Ms, Less, TAIL),
    figure("latency p99", "latency_ms.p99", Unit::Ms, Less, TAIL),
    figure("latency max", "latency_ms.max", Unit::Ms, Less, TAIL),
    figure("latency mean", "latency_ms.avg", Unit::Ms, Less, MEDIAN),
    figure(
        "connection time, median",
        "connection_time_ms.median",
        Unit::Ms,
        Less,
        MEDIAN,
    ),
    figure(
        "connection time, mean",
        "connection_time_ms.avg",
        Unit::Ms,
        Less,
        MEDIAN,
    ),
    figure(
        "connection time, max",
        "connection_time_ms.max",
        Unit::Ms,
        Less,
        TAIL,
    ),
    figure(
        "connect, mean",
        "connect_time_ms.avg",
        Unit::Ms,
        Less,
        MEDIAN,
    ),
    figure("lateness p99", "lateness_ms.p99", Unit::Ms, Less, TAIL),
    figure(
        "concurrency",
        "concurrency",
        Unit::Ratio,
        Neither,
        Noise::Share,
    ),
    figure("round trip, median", "rtt_ms.median", Unit::Ms, Less, TRIP),
    figure("round trip, mean", "rtt_ms.avg", Unit::Ms, Less, TRIP),
    figure("round trip, p99", "rtt_ms.p99", Unit::Ms, Less, TRIP),
    figure("round trip, max", "rtt_ms.max", Unit::Ms, Less, TRIP),
    figure(
        "packets lost",
        "loss_percent",
        Unit::Percent,
        Less,
        Noise::Share,
    ),
    figure("lookup", "lookup_ms", Unit::Ms, Less, MEDIAN),
    figure("connect", "connect_ms", Unit::Ms, Less, MEDIAN),
    figure("first byte", "first_byte_ms", Unit::Ms, Less, MEDIAN),
    figure("total", "total_ms", Unit::Ms, Less, MEDIAN),
    figure("path MTU", "path_mtu", Unit::Bytes, More, Noise::Exact),
    figure("took", "duration_s", Unit::Seconds, Neither, Noise::Share),
];

impl Window {
    /// The standard error of the mean over the steps as a share of that mean; `None` below three of them.
    pub(super) fn relative_error(self, series: &Series) -> Option<f64> {
        let values = match series {
            Series::Http(series) => self.of_http(series),
            Series::Flow(series) => self.of_flow(series),
        };
        let n = values.len() as f64;
        if values.len() < 3 {
            return None;
        }
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values
            .iter()
            .map(|value| (value - mean) * (value - mean))
            .sum();
        let share = (squares / (n - 1.0) / n).sqrt() / mean.abs();
        share.is_finite().then_some(share)
    }

    fn of_http(self, series: &HttpSeries) -> Vec<f64> {
        let bins = series.bins.iter();
        match self {
            Self::Median | Self::RoundTrip => {
                bins.filter_map(|bin| Some(bin.latency_ms?.p50)).collect()
            }
            Self::Tail => bins.filter_map(|bin| Some(bin.latency_ms?.p99)).collect(),
            Self::Rate if series.bin_width_s > 0.0 => bins
                .map(|bin| bin.ended_replies as f64 / series.bin_width_s)
                .collect(),
            Self::Rate => Vec::new(),
        }
    }

    fn of_flow(self, series: &FlowSeries) -> Vec<f64> {
        match self {
            Self::Rate => series
                .sums
                .first()
                .into_iter()
                .flat_map(|line| &line.points)
                .filter_map(crate::measure::flow_series::FlowPoint::bits_per_second)
                .collect(),
            _ if series.echoes.is_empty() => series
                .echo_bins
                .iter()
                .filter_map(|bin| Some(bin.rtt_ms?.p50))
                .collect(),
            _ => series
                .echoes
                .iter()
                .filter_map(|echo| echo.rtt_ms)
                .collect(),
        }
    }
}
