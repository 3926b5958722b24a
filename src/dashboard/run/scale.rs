//! What a run's tide ruler holds against each other.

use crate::dashboard::ruler::{self, Ruler};
use crate::dashboard::run::flow_words;
use crate::dashboard::words;
use crate::measure::fold::Series;
use crate::measure::plan::Plan;
use crate::measure::plan::throughput::{Direction, ThroughputPlan};
use crate::measure::run::{Run, State};
use crate::measure::summary::flow::{PathSummary, PingSummary, ThroughputSummary};
use crate::measure::summary::{FetchSummary, Summary};

/// Fewer requests than this make no rate worth a ruler.
const RATE_FROM: u64 = 20;

/// The ruler of this run: its progress, then what it got against what it was meant to get.
pub(super) fn of(run: &Run, series: Option<&Series>) -> Option<Ruler> {
    if run.state == State::Queued {
        return None;
    }
    if run.state == State::Running {
        let (done, planned) = match series {
            Some(Series::Http(series)) => (series.covers_s, series.planned_s),
            Some(Series::Flow(series)) => (series.covers_s, series.planned_s),
            None => (0.0, None),
        };
        let of = planned
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
        Summary::Throughput(figures) => match &run.plan {
            Plan::Throughput(plan) => throughput_ruler(plan, figures),
            _ => None,
        },
        Summary::Ping(figures) => ping_ruler(figures),
        Summary::Path(figures) => path_ruler(figures),
        Summary::Imported(_) => None,
    }
}

/// The headline against the documented cap of the sender or the bandwidth that was asked for, the lower one; of two
/// directions the one that this node sends.
fn throughput_ruler(plan: &ThroughputPlan, figures: &ThroughputSummary) -> Option<Ruler> {
    let ways = flow_words::ways(plan, figures);
    let (way, part) = ways.first()?;
    let rate = part
        .bits_per_second
        .or(part.bits_per_second_whole)
        .filter(|rate| rate.is_finite())?;
    let applies = *way == "send" || plan.direction == Direction::Receive;
    let cap = part
        .egress_cap_bits_per_second
        .filter(|cap| applies && *cap > 0.0);
    let cap = cap.map(|cap| (cap, "documented cap"));
    let asked = flow_words::asked(plan).map(|asked| (asked, "asked for"));
    let (reference, name) = match (cap, asked) {
        (Some(cap), Some(asked)) if asked.0 < cap.0 => asked,
        (cap, asked) => cap.or(asked)?,
    };
    let (factor, unit) = words::bits_unit(rate.max(reference));
    let verb = match (part.bytes_received.is_some(), ways.len()) {
        (_, 2) => "in the direction of sending",
        (true, _) => "received",
        (false, _) => "acknowledged",
    };
    Some(ruler::against(
        rate / factor,
        &format!("{}\u{a0}{unit} {verb}", words::digits(rate / factor)),
        reference / factor,
        &format!(
            "{}\u{a0}{unit} {name}",
            words::digits_short(reference / factor)
        ),
    ))
}

/// From the shortest to the longest round trip.
fn ping_ruler(figures: &PingSummary) -> Option<Ruler> {
    let rtt = &figures.rtt_ms.figures;
    let (low, middle, high) = (rtt.min?, rtt.median?, rtt.max?);
    let factor = match words::Measure::ms(Some(high)).unit {
        "s" => 1e-3,
        "µs" => 1e3,
        _ => 1.0,
    };
    (rtt.count > 1 && high > 0.0).then(|| {
        ruler::spread(
            (low * factor, high * factor),
            &format!("{} longest", words::ms(Some(high))),
            (
                middle * factor,
                &format!("{} median", words::ms(Some(middle))),
            ),
        )
    })
}

/// What gets through against what was expected, else against this machine's interface.
fn path_ruler(figures: &PathSummary) -> Option<Ruler> {
    let mtu = figures.path_mtu?;
    let (reference, name) = match (figures.expected_mtu, figures.interface_mtu) {
        (Some(expected), _) => (expected, "expected"),
        (None, Some(own)) => (own, "MTU of the interface"),
        (None, None) => return None,
    };
    Some(ruler::against(
        f64::from(mtu),
        &format!("{}\u{a0}bytes get through", words::count(mtu.into())),
        f64::from(reference),
        &format!("{} {name}", words::count(reference.into())),
    ))
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
