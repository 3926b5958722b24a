//! What a run's tide ruler holds against each other.

use crate::dashboard::ruler::{self, Ruler};
use crate::dashboard::words;
use crate::measure::run::{Run, State};
use crate::measure::series::HttpSeries;
use crate::measure::summary::{FetchSummary, Summary};

/// Fewer requests than this make no rate worth a ruler.
const RATE_FROM: u64 = 20;

/// The ruler of this run: its progress, then what it got against what it was meant to get.
pub(super) fn of(run: &Run, series: Option<&HttpSeries>) -> Option<Ruler> {
    if run.state == State::Queued {
        return None;
    }
    if run.state == State::Running {
        let done = series.map_or(0.0, |series| series.covers_s);
        let of = series
            .and_then(|series| series.planned_s)
            .or_else(|| run.plan.expected_duration_s())
            .filter(|of| *of > 0.0);
        return Some(ruler::progress(done, of));
    }
    match run.summary.as_ref()? {
        // A few requests make no rate: one reply after 268 ms is not 3.7 a second.
        Summary::Rate(figures) if figures.planned < RATE_FROM => {
            let ok = figures.outcomes.get("ok").copied().unwrap_or(0);
            Some(ruler::against(
                ok as f64,
                &format!("{} answered well", words::count(ok)),
                figures.planned as f64,
                &format!(
                    "{} planned",
                    words::plural(figures.planned, "request", "requests")
                ),
            ))
        }
        Summary::Rate(figures) => {
            let (offered, achieved) = (figures.offered_per_s?, figures.achieved_per_s?);
            Some(ruler::against(
                achieved,
                &format!("{} answered well", words::per_s(Some(achieved))),
                offered,
                &format!("{} offered", words::per_s(Some(offered))),
            ))
        }
        Summary::Users(figures) => {
            let tried: u64 = figures.outcomes.values().sum::<u64>();
            if tried == 0 {
                return None;
            }
            Some(ruler::against(
                figures.successful as f64,
                &format!("{} answered well", words::count(figures.successful)),
                tried as f64,
                &format!("{} tried", words::plural(tried, "request", "requests")),
            ))
        }
        Summary::Fetch(figures) => fetch_ruler(figures),
        Summary::Throughput(_) | Summary::Ping(_) | Summary::Path(_) => None,
    }
}

fn fetch_ruler(figures: &FetchSummary) -> Option<Ruler> {
    let total = figures.total_ms?;
    let first = figures.first_byte_ms.unwrap_or(total);
    let lookup = figures.lookup_ms.unwrap_or(0.0);
    let connect = figures.connect_ms.unwrap_or(0.0);
    let tls = figures.tls_ms.unwrap_or(0.0);
    let parts: Vec<(&'static str, f64, &'static str)> = [
        ("lookup", lookup, "var(--s4)"),
        ("connect", connect, "var(--s3)"),
        ("TLS", tls, "var(--s2)"),
        (
            "waiting for the first byte",
            (first - lookup - connect - tls).max(0.0),
            "var(--s1)",
        ),
        ("transfer", (total - first).max(0.0), "var(--axis)"),
    ]
    .into_iter()
    .filter(|(_, ms, _)| *ms > 0.0)
    .collect();
    (!parts.is_empty()).then(|| ruler::phases(&parts))
}
