//! The one figure by which the runs of an experiment are compared.

use crate::measure::plan::Kind;
use crate::measure::summary::Summary;
use crate::measure::verdict::words;

/// What a figure is of, and how it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Median latency in ms; less is better.
    Latency,
    /// Whole time of one request in ms; less is better.
    Total,
    /// Throughput in bit/s; more is better.
    Throughput,
    /// Median round trip in ms; less is better.
    RoundTrip,
    /// Path MTU in bytes; more is better.
    PathMtu,
}

impl Figure {
    /// What it is called inside a sentence.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Latency => "median latency",
            Self::Total => "whole time",
            Self::Throughput => "throughput",
            Self::RoundTrip => "median round trip",
            Self::PathMtu => "path MTU",
        }
    }

    /// Its name in the flattened summary, with its unit.
    pub const fn column(self) -> &'static str {
        match self {
            Self::Latency => "latency_ms_median",
            Self::Total => "total_ms",
            Self::Throughput => "bits_per_second",
            Self::RoundTrip => "rtt_ms_median",
            Self::PathMtu => "path_mtu",
        }
    }

    /// Whether more is better.
    pub const fn more_is_better(self) -> bool {
        matches!(self, Self::Throughput | Self::PathMtu)
    }

    /// Whether it is a time in ms.
    pub const fn is_time(self) -> bool {
        matches!(self, Self::Latency | Self::Total | Self::RoundTrip)
    }

    /// A value of it with its unit.
    pub fn text(self, value: f64) -> String {
        match self {
            Self::Latency | Self::Total | Self::RoundTrip => words::time(value),
            Self::Throughput => words::bits(value),
            Self::PathMtu => format!("{value}\u{a0}bytes"),
        }
    }
}

/// The figure of runs of this kind.
pub const fn figure_of_kind(kind: Kind) -> Figure {
    match kind {
        Kind::Rate | Kind::Users => Figure::Latency,
        Kind::Fetch => Figure::Total,
        Kind::Throughput => Figure::Throughput,
        Kind::Ping => Figure::RoundTrip,
        Kind::Path => Figure::PathMtu,
    }
}

/// A run's figure; `None` where it was not measured.
pub fn figure(summary: &Summary) -> Option<f64> {
    let value = match summary {
        Summary::Rate(rate) => rate.latency_ms.median,
        Summary::Users(users) => users.latency_ms.median,
        Summary::Fetch(fetch) => fetch.total_ms,
        Summary::Throughput(flow) => flow.bits_per_second,
        Summary::Ping(ping) => ping.rtt_ms.figures.median,
        Summary::Path(path) => path.path_mtu.map(f64::from),
        // What a text tells is no run of an experiment.
        Summary::Imported(_) => None,
    };
    value.filter(|value| value.is_finite())
}
