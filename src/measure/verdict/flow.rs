//! Judges a throughput run: the facts that its rules share, and what they come to.

use crate::measure::flow::{FlowEnd, StreamEnd, Way};
use crate::measure::flow_series::{FlowPoint, FlowSeries, StreamTotals};
use crate::measure::plan::throughput::{Direction, Protocol, ThroughputPlan};
use crate::measure::run::{Environment, Limit};
use crate::measure::summary::flow::ThroughputSummary;
use crate::measure::verdict::{Judgement, flow_checks, flow_limits, flow_titles, words};

/// Bytes of the IP and TCP headers, the usual time stamps among them; IPv6 has 20 more.
const TCP_HEADERS: f64 = 52.0;
/// Bytes of the IP and UDP headers.
const UDP_HEADERS: f64 = 28.0;

/// Judges a throughput run that has ended.
pub fn judge_flow(
    plan: &ThroughputPlan,
    summary: &ThroughputSummary,
    series: &FlowSeries,
    end: &FlowEnd,
    environment: &Environment,
) -> Judgement {
    let run = Flows {
        plan,
        summary,
        series,
        end,
    };
    let limits = limits(&run);
    let (title, verdict) = flow_titles::of(&run, &limits);
    Judgement {
        checks: flow_checks::of(&run, environment, &limits),
        limits,
        title,
        verdict,
    }
}

/// Judges a run and writes into its summary, and into those of its directions, what limited it.
pub fn settle_flow(
    plan: &ThroughputPlan,
    summary: &mut ThroughputSummary,
    series: &FlowSeries,
    end: &FlowEnd,
    environment: &Environment,
) -> Judgement {
    let judgement = judge_flow(plan, summary, series, end, environment);
    let run = Flows {
        plan,
        summary,
        series,
        end,
    };
    let first = |limits: &[Limit]| limits.first().map(|limit| limit.cause.clone());
    let by_way: Vec<(Way, Option<String>)> = run
        .ways()
        .iter()
        .map(|one| (one.way, first(&flow_limits::of(one))))
        .collect();
    for (way, cause) in by_way {
        if let Some(direction) = summary.directions.get_mut(way.word()) {
            direction.limited_by = cause;
        }
    }
    summary.limited_by = first(&judgement.limits);
    judgement
}

/// The title while a run still sends.
pub fn live_flow_title(plan: &ThroughputPlan, summary: &ThroughputSummary) -> String {
    flow_titles::live(plan, summary)
}

/// The causes of the run: of its one direction, or of both, weighted by their bytes.
fn limits(run: &Flows<'_>) -> Vec<Limit> {
    let ways = run.ways();
    if let [one] = ways.as_slice() {
        return flow_limits::of(one);
    }
    let all: u64 = ways.iter().map(OneWay::bytes).sum();
    let mut limits: Vec<Limit> = Vec::new();
    for one in &ways {
        let weight = if all > 0 {
            one.bytes() as f64 / all as f64
        } else {
            0.5
        };
        let verb = match one.way {
            Way::Send => "sending",
            Way::Receive => "receiving",
        };
        for limit in flow_limits::of(one) {
            let evidence = format!("{verb}: {}", limit.evidence);
            let share = limit.share * weight;
            match limits.iter_mut().find(|known| known.cause == limit.cause) {
                Some(known) => {
                    known.share = (known.share + share).min(1.0);
                    known.evidence = format!("{}; {evidence}", known.evidence);
                }
                None => limits.push(Limit {
                    share,
                    evidence,
                    ..limit
                }),
            }
        }
    }
    // What came to nothing weighs nothing.
    limits.retain(|limit| all == 0 || limit.share > 0.0);
    limits.sort_by(|a, b| b.share.total_cmp(&a.share));
    limits
}

/// A whole run.
#[derive(Clone, Copy)]
pub(super) struct Flows<'a> {
    pub(super) plan: &'a ThroughputPlan,
    pub(super) summary: &'a ThroughputSummary,
    pub(super) series: &'a FlowSeries,
    pub(super) end: &'a FlowEnd,
}

/// One direction of it.
#[derive(Clone, Copy)]
pub(super) struct OneWay<'a> {
    pub(super) run: Flows<'a>,
    pub(super) way: Way,
    pub(super) summary: &'a ThroughputSummary,
}

impl<'a> Flows<'a> {
    /// Its directions, send first.
    pub(super) fn ways(&self) -> Vec<OneWay<'a>> {
        let ways: &[Way] = match self.plan.direction {
            Direction::Send => &[Way::Send],
            Direction::Receive => &[Way::Receive],
            Direction::Both | Direction::InTurn => &[Way::Send, Way::Receive],
        };
        ways.iter()
            .map(|way| OneWay {
                run: *self,
                way: *way,
                summary: self
                    .summary
                    .directions
                    .get(way.word())
                    .unwrap_or(self.summary),
            })
            .collect()
    }

    /// Host and port as titles name them.
    pub(super) fn peer(&self) -> String {
        peer_name(self.plan)
    }

    pub(super) fn is_tcp(&self) -> bool {
        self.plan.protocol == Protocol::Tcp
    }

    /// Streams that failed, of all directions.
    pub(super) fn failed(&self) -> impl Iterator<Item = &'a StreamEnd> {
        self.end
            .streams
            .iter()
            .filter(|stream| stream.failed.is_some())
    }

    /// Median round trips without and with load, in ms, where there are enough of both.
    pub(super) fn round_trips(&self) -> Option<(f64, f64)> {
        let rtt = &self.summary.rtt_ms;
        let enough = rtt.idle.count >= 5 && rtt.loaded.count >= 5;
        rtt.idle.median.zip(rtt.loaded.median).filter(|_| enough)
    }

    /// By how much the load lengthens the median round trip, in ms, where that is worth a word.
    pub(super) fn queue_ms(&self) -> Option<f64> {
        let (idle, loaded) = self.round_trips()?;
        let queue = loaded - idle;
        (queue >= 0.5 && queue > idle * 0.2).then_some(queue)
    }
}

impl<'a> OneWay<'a> {
    /// Streams that did not fail.
    pub(super) fn totals(&self) -> Vec<&'a StreamTotals> {
        self.run
            .series
            .streams
            .iter()
            .filter(|stream| stream.way == self.way && !stream.failed)
            .collect()
    }

    /// The headline, else the rate over the whole span.
    pub(super) fn rate(&self) -> Option<f64> {
        self.summary
            .bits_per_second
            .or(self.summary.bits_per_second_whole)
    }

    /// Bytes of the streams that count.
    pub(super) fn bytes(&self) -> u64 {
        self.summary
            .streams
            .iter()
            .filter(|stream| stream.failed.is_none())
            .map(|stream| stream.bytes)
            .sum()
    }

    /// What a goodput comes to with IP and transport headers.
    pub(super) fn on_the_wire(&self, goodput: f64) -> f64 {
        let more = if self.is_ipv6() { 20.0 } else { 0.0 };
        let (payload, headers) = if self.run.is_tcp() {
            let told = self
                .totals()
                .iter()
                .filter_map(|stream| stream.tcp)
                .map(|tcp| f64::from(tcp.mss_bytes))
                .find(|mss| *mss > 0.0);
            let asked = self.run.plan.mss_bytes.map(f64::from);
            (told.or(asked).unwrap_or(1448.0), TCP_HEADERS)
        } else {
            (f64::from(self.run.plan.length_bytes), UDP_HEADERS)
        };
        goodput * (payload + headers + more) / payload.max(1.0)
    }

    fn is_ipv6(&self) -> bool {
        self.run
            .end
            .streams
            .iter()
            .filter_map(|stream| stream.remote)
            .any(|remote| remote.is_ipv6())
    }

    /// The steps of the sum that are whole: without the omitted start, the first step and a short last one.
    pub(super) fn whole_steps(&self) -> Vec<&'a FlowPoint> {
        let Some(line) = self
            .run
            .series
            .sums
            .iter()
            .find(|line| line.way == self.way)
        else {
            return Vec::new();
        };
        let points = &line.points;
        let longest = points
            .iter()
            .map(|point| point.to_s - point.from_s)
            .fold(0.0, f64::max);
        let start = points.first().map_or(0.0, |point| point.from_s) + self.run.series.omit_s;
        points
            .iter()
            .skip(1)
            .filter(|point| {
                point.from_s >= start - 1e-6 && point.to_s - point.from_s >= longest * 0.9
            })
            .collect()
    }
}

/// Host and port as titles name them.
pub(super) fn peer_name(plan: &ThroughputPlan) -> String {
    let host = if plan.host.contains(':') {
        format!("[{}]", plan.host)
    } else {
        plan.host.clone()
    };
    words::short(&format!("{host}:{}", plan.port), "the peer")
}

#[cfg(test)]
mod tests;
