//! Who answered: one table by backend and one by region, with what nobody answered and the sum.

use std::collections::BTreeMap;

use crate::dashboard::words;
use crate::measure::outcome::Outcome;
use crate::measure::run::Run;
use crate::measure::series::HttpSeries;
use crate::measure::summary::{Distribution, ServedBy, Summary};

/// The tables by who answered.
#[derive(Clone, Debug, PartialEq)]
pub struct Answered {
    /// By backend, then by region, where replies name them.
    pub parts: Vec<Part>,
}

/// One table.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// Head of the first column.
    pub head: &'static str,
    /// Whether the server's own account is known.
    pub split: bool,
    /// Rows, the sum last.
    pub rows: Vec<Row>,
}

/// One row, in words.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// Who.
    pub name: String,
    /// Complete replies.
    pub replies: String,
    /// Share of all planned requests.
    pub share: String,
    /// Median latency.
    pub p50: String,
    /// 99th percentile.
    pub p99: String,
    /// Mean time in the server's queue.
    pub queue: String,
    /// Mean time of computing and encoding.
    pub compute: String,
    /// Whether it is what nobody answered.
    pub bad: bool,
    /// Whether it is the sum.
    pub sum: bool,
}

/// At most this many rows; the rest is one row.
const MOST: usize = 40;

/// The tables for this summary; `None` where no reply names a backend or region.
pub fn answered(run: &Run, summary: &Summary, series: Option<&HttpSeries>) -> Option<Answered> {
    let (served_by, regions, planned, latency, outcomes, censored) = match summary {
        Summary::Rate(figures) => (
            &figures.served_by,
            &figures.regions,
            figures.planned,
            &figures.latency_ms,
            &figures.outcomes,
            figures.censored,
        ),
        Summary::Users(figures) => (
            &figures.served_by,
            &figures.regions,
            figures
                .planned
                .unwrap_or_else(|| figures.outcomes.values().sum()),
            &figures.latency_ms,
            &figures.outcomes,
            figures.censored,
        ),
        _ => return None,
    };
    let replies = Outcome::ALL
        .into_iter()
        .filter(|outcome| outcome.is_reply())
        .filter_map(|outcome| outcomes.get(outcome.key()))
        .sum();
    let whole = Whole {
        // What has not ended yet is nobody's failure.
        planned: if run.state.is_final() {
            planned
        } else {
            outcomes.values().sum()
        },
        limit_ms: (censored > 0).then(|| run.plan.timeout_s() * 1000.0),
        replies,
        latency,
    };
    let mut parts = Vec::new();
    if !served_by.is_empty() {
        parts.push(part("Answered by", served_by, &whole, series));
    }
    if !regions.is_empty() {
        parts.push(part("Region", regions, &whole, None));
    }
    (!parts.is_empty()).then_some(Answered { parts })
}

/// What the shares are taken of.
struct Whole<'a> {
    planned: u64,
    /// The timeout, where some latencies are cut off at it.
    limit_ms: Option<f64>,
    replies: u64,
    latency: &'a Distribution,
}

impl Whole<'_> {
    /// A latency, or the timeout that it was cut off at.
    fn ms(&self, value: Option<f64>) -> String {
        match (value, self.limit_ms) {
            (Some(value), Some(limit)) if value >= limit * 0.999 => {
                format!("≥\u{a0}{}", words::seconds(limit / 1000.0))
            }
            _ => words::ms(value),
        }
    }
}

fn part(
    head: &'static str,
    by: &BTreeMap<String, ServedBy>,
    whole: &Whole<'_>,
    series: Option<&HttpSeries>,
) -> Part {
    let mut most: Vec<(&String, &ServedBy)> = by.iter().collect();
    if most.len() > MOST {
        most.sort_by_key(|(_, served)| std::cmp::Reverse(served.replies));
    }
    let split = |name: &str| series.and_then(|series| series.split.get(name));
    let mut rows: Vec<Row> = most
        .iter()
        .take(MOST)
        .map(|(name, served)| Row {
            name: (*name).clone(),
            replies: words::count(served.replies),
            share: words::percent(served.replies, whole.planned),
            p50: words::ms(served.latency_p50_ms),
            p99: words::ms(served.latency_p99_ms),
            queue: words::ms(split(name).and_then(|means| means.queue_ms)),
            compute: words::ms(split(name).and_then(|means| means.compute_ms)),
            ..Row::default()
        })
        .collect();
    let line = |name: String, number: u64| Row {
        name,
        replies: words::count(number),
        share: words::percent(number, whole.planned),
        p50: words::DASH.to_owned(),
        p99: words::DASH.to_owned(),
        queue: words::DASH.to_owned(),
        compute: words::DASH.to_owned(),
        ..Row::default()
    };
    if most.len() > MOST {
        let rest = most
            .iter()
            .skip(MOST)
            .map(|(_, served)| served.replies)
            .sum();
        rows.push(line(format!("{} others", most.len() - MOST), rest));
    }
    let named: u64 = by.values().map(|served| served.replies).sum();
    if whole.replies > named {
        rows.push(line(
            "no name in the reply".to_owned(),
            whole.replies - named,
        ));
    }
    if whole.planned > whole.replies {
        rows.push(Row {
            bad: true,
            ..line("nobody: no reply".to_owned(), whole.planned - whole.replies)
        });
    }
    rows.push(Row {
        sum: true,
        p50: whole.ms(whole.latency.p50),
        p99: whole.ms(whole.latency.p99),
        ..line("all".to_owned(), whole.planned)
    });
    Part {
        head,
        split: series.is_some_and(|series| {
            by.keys().any(|name| {
                series
                    .split
                    .get(name)
                    .is_some_and(|means| means.compute_ms.is_some())
            })
        }),
        rows,
    }
}
