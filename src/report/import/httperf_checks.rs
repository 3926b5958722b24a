//! Do the lines of httperf agree with each other?

use std::collections::BTreeMap;

use super::agree::{Agreement, exact, product, quotient, sum};
use super::scan::Number;
use crate::measure::run::Check;
use crate::measure::units::significant;

/// The figure at a place of the summary.
type Look<'a> = &'a dyn Fn(&str) -> Option<Number>;

/// The checks that apply to these figures.
pub(super) fn checks(figures: &BTreeMap<&str, Number>) -> Vec<Check> {
    let at = |name: &str| {
        figures
            .get(name)
            .copied()
            .filter(|number| number.value.is_finite())
    };
    [
        counts(&at).check("counts_agree", "Replies, statuses and errors add up."),
        rates(&at).check(
            "rates_agree",
            "Rates are counts over the duration, and CPU shares CPU times over it.",
        ),
        order(&at).check(
            "order_agrees",
            "Average and median lie between minimum and maximum.",
        ),
        little(&at).check(
            "littles_law",
            "Rate times time is no more than the most connections at once.",
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Replies, statuses and errors against each other.
fn counts(at: Look<'_>) -> Agreement {
    let mut counts = Agreement::default();
    let status: Vec<Number> = [
        "status.1xx",
        "status.2xx",
        "status.3xx",
        "status.4xx",
        "status.5xx",
    ]
    .iter()
    .filter_map(|name| at(name))
    .collect();
    if let (Some(replies), 5) = (at("replies"), status.len()) {
        let all: f64 = status.iter().map(|number| number.value).sum();
        counts.holds((all - replies.value).abs() < 0.5, || {
            format!("{} replies, but {all} of them have a status", replies.value)
        });
    }
    if let (Some(requests), Some(replies)) = (at("requests"), at("replies")) {
        counts.holds(replies.value <= requests.value, || {
            format!("{} replies to {} requests", replies.value, requests.value)
        });
    }
    let kinds = [
        "client_timo",
        "socket_timo",
        "connrefused",
        "connreset",
        "fd_unavail",
        "addrunavail",
        "ftab_full",
        "other",
    ];
    let errors: Vec<Number> = kinds
        .iter()
        .filter_map(|kind| at(&format!("errors.{kind}")))
        .collect();
    if let (Some(total), 8) = (at("errors.total"), errors.len()) {
        let all: f64 = errors.iter().map(|number| number.value).sum();
        counts.holds((all - total.value).abs() < 0.5, || {
            format!(
                "{} errors in all, but those of each kind are {all}",
                total.value
            )
        });
    }
    counts
}

/// Rates against counts and the duration, CPU shares against CPU times.
fn rates(at: Look<'_>) -> Agreement {
    let mut rates = Agreement::default();
    let duration = at("duration_s");
    for (count, rate, what) in [
        ("connections", "connection_rate_per_s", "connections"),
        ("requests", "request_rate_per_s", "requests"),
        ("replies", "reply_rate_per_s.avg", "replies"),
    ] {
        if let (Some(count), Some(rate), Some(duration)) = (at(count), at(rate), duration)
            && let Some(worked) = quotient(exact(count.value), duration)
        {
            rates.same(worked, rate, 0.005, || {
                format!(
                    "{} {what} in {} s are {} per second, not {}",
                    count.value,
                    duration.value,
                    significant(worked.value),
                    rate.value
                )
            });
        }
    }
    if let (Some(samples), Some(duration)) = (at("reply_rate_per_s.samples"), duration)
        && duration.value >= 5.0
    {
        let whole = (duration.value / 5.0).floor();
        rates.holds((samples.value - whole).abs() <= 1.5, || {
            format!(
                "{} samples of the reply rate, one every 5 s, cover {} of {} s",
                samples.value,
                samples.value * 5.0,
                duration.value
            )
        });
    }
    if let (Some(user), Some(system), Some(percent), Some(duration)) = (
        at("cpu.user_s"),
        at("cpu.system_s"),
        at("cpu.percent"),
        duration,
    ) && let Some(share) = quotient(sum([user, system].into_iter()), duration)
    {
        rates.same(share.times(100.0), percent, 0.02, || {
            format!(
                "{:.2} s of CPU time in {} s are {:.1} %, not {} %",
                user.value + system.value,
                duration.value,
                share.value * 100.0,
                percent.value
            )
        });
    }
    rates
}

/// Averages against minimum and maximum.
fn order(at: Look<'_>) -> Agreement {
    let mut order = Agreement::default();
    let times =
        ["min", "avg", "max", "median"].map(|name| at(&format!("connection_time_ms.{name}")));
    if let [Some(min), Some(avg), Some(max), Some(median)] = times {
        order.holds(min.value <= avg.value && avg.value <= max.value, || {
            format!(
                "the average {} ms is not between {} and {} ms",
                avg.value, min.value, max.value
            )
        });
        // The median is that of a histogram with buckets of 1 ms, so it may be off by half of one.
        order.holds(
            min.value - 1.0 <= median.value && median.value <= max.value + 1.0,
            || {
                format!(
                    "the median {} ms is not between {} and {} ms",
                    median.value, min.value, max.value
                )
            },
        );
    }
    order
}

/// Little's law.
fn little(at: Look<'_>) -> Agreement {
    let mut little = Agreement::default();
    if let (Some(rate), Some(time), Some(most)) = (
        at("connection_rate_per_s"),
        at("connection_time_ms.avg"),
        at("concurrent_max"),
    ) {
        let mean = product(rate, time).times(1e-3);
        little.holds(mean.value - mean.half <= most.value, || {
            format!(
                "{} connections per second that take {} ms each are {:.1} at once, more than the {} at most",
                rate.value, time.value, mean.value, most.value
            )
        });
    }
    little
}
