//! The figures of a throughput run: what the receiver got while all streams were active, and how evenly they shared it.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::measure::flow::{FlowEnd, StreamEnd, UdpEnd, UdpTick, Way};
use crate::measure::plan::throughput::{Direction, Protocol, Receive, ThroughputPlan};
use crate::measure::summary::Cpu;
use crate::measure::summary::flow::{
    IdleLoaded, StreamDatagrams, StreamFigures, ThroughputSummary, UdpFigures, Window,
};
use crate::measure::summary::throughput::{Stream, ThroughputFold, of};

/// The figures of the whole run.
pub(super) fn summary(fold: &ThroughputFold, end: &FlowEnd) -> ThroughputSummary {
    let ways = fold.ways();
    if let [way] = ways {
        return direction(fold, end, *way);
    }
    let directions: BTreeMap<String, ThroughputSummary> = ways
        .iter()
        .map(|way| (way.word().to_owned(), direction(fold, end, *way)))
        .collect();
    together(fold, end, &directions)
}

/// Both directions: their sum where they ran at once, no sum where they ran in turn.
fn together(
    fold: &ThroughputFold,
    end: &FlowEnd,
    directions: &BTreeMap<String, ThroughputSummary>,
) -> ThroughputSummary {
    let parts: Vec<&ThroughputSummary> = ["send", "receive"]
        .iter()
        .filter_map(|word| directions.get(*word))
        .collect();
    let sum = |of: fn(&ThroughputSummary) -> Option<u64>| -> Option<u64> {
        parts.iter().map(|part| of(part)).sum()
    };
    let at_once = fold.plan.direction == Direction::Both;
    let streams: Vec<StreamFigures> = parts
        .iter()
        .flat_map(|part| part.streams.iter().cloned())
        .collect();
    let flows: Vec<Flow<'_>> = fold
        .ways()
        .iter()
        .flat_map(|way| flows(fold, end, *way))
        .collect();
    let span = span(&flows);
    let seconds = span.map_or(0.0, |(from, to)| to - from);
    let bytes: f64 = flows
        .iter()
        .filter_map(|flow| flow.best)
        .map(|n| n as f64)
        .sum();
    let any = flows.iter().any(|flow| flow.best.is_some());
    ThroughputSummary {
        bits_per_second: parts
            .iter()
            .map(|part| part.bits_per_second)
            .sum::<Option<f64>>()
            .filter(|_| at_once),
        bits_per_second_whole: (at_once && any && seconds > 0.0).then(|| bytes * 8.0 / seconds),
        bytes_sent: sum(|part| part.bytes_sent),
        bytes_received: sum(|part| part.bytes_received),
        bytes_acknowledged: parts.iter().find_map(|part| part.bytes_acknowledged),
        duration_s: seconds,
        streams,
        streams_asked: parts.iter().map(|part| part.streams_asked).sum(),
        fairness: None,
        fastest_to_slowest: None,
        retransmits: parts.iter().find_map(|part| part.retransmits),
        udp: udp_together(&parts),
        directions: directions.clone(),
        ..common(fold, end)
    }
}

/// What is the same for the run and each of its directions.
fn common(fold: &ThroughputFold, end: &FlowEnd) -> ThroughputSummary {
    let (user, system) = (end.cpu.0.as_secs_f64(), end.cpu.1.as_secs_f64());
    let duration = end.duration.as_secs_f64();
    ThroughputSummary {
        cpu: Cpu {
            user_s: user,
            system_s: system,
            percent: (duration > 0.0).then(|| (user + system) / duration * 100.0),
        },
        receive: match fold.plan.receive {
            Receive::Copy => "copy".to_owned(),
            Receive::Discard => "discard".to_owned(),
        },
        offload: fold.plan.offload,
        congestion: end
            .congestion
            .clone()
            .or_else(|| fold.plan.congestion.clone()),
        window_bytes: window(end, fold.ways()[0]),
        rtt_ms: IdleLoaded {
            idle: fold.echoes.idle.distribution(),
            loaded: fold.echoes.loaded.distribution(),
        },
        peer: end.peer.clone(),
        egress_cap_bits_per_second: end.egress_cap.as_ref().map(|cap| cap.0),
        ..ThroughputSummary::default()
    }
}

fn window(end: &FlowEnd, way: Way) -> Window {
    let (asked, got) = match way {
        Way::Send => end.send_buffer,
        Way::Receive => end.receive_buffer,
    };
    Window { asked, got }
}

/// One stream that did not fail, with what is known of it.
struct Flow<'a> {
    end: &'a StreamEnd,
    fold: Option<&'a Stream>,
    /// From its first to its last byte, in s.
    span: Option<(f64, f64)>,
    /// The receiver's bytes, else acknowledged ones; `None` where nobody tells.
    best: Option<u64>,
    /// From when on our own count counts, in s.
    counts_from_s: f64,
}

fn flows<'a>(fold: &'a ThroughputFold, end: &'a FlowEnd, way: Way) -> Vec<Flow<'a>> {
    end.streams
        .iter()
        .filter(|one| of(one).0 == way && one.failed.is_none())
        .map(|one| {
            let fold_of = fold.streams.get(&of(one));
            let span = span_of(&fold.plan, one, fold_of);
            Flow {
                end: one,
                fold: fold_of,
                span,
                best: received(&fold.plan, one),
                counts_from_s: span
                    .filter(|_| fold.plan.peer_omits())
                    .map_or(f64::NEG_INFINITY, |(from, _)| from),
            }
        })
        .collect()
}

/// The receiver's own count of a stream, else what its kernel acknowledged; a UDP sender alone knows neither.
pub(in crate::measure) fn received(plan: &ThroughputPlan, end: &StreamEnd) -> Option<u64> {
    match (end.way.unwrap_or(Way::Send), plan.protocol) {
        (Way::Receive, _) => Some(end.bytes),
        (Way::Send, Protocol::Tcp) => end.peer_bytes.or(end.acked_bytes),
        (Way::Send, Protocol::Udp) => end.peer_bytes.or_else(|| {
            let udp = end.udp?;
            Some(udp.datagrams.saturating_sub(udp.lost) * u64::from(plan.length_bytes))
        }),
    }
}

/// What an end says of its bytes, best first.
pub(super) fn known_bytes(end: &StreamEnd) -> u64 {
    match end.way {
        Some(Way::Receive) => end.bytes,
        _ => end.peer_bytes.or(end.acked_bytes).unwrap_or(end.bytes),
    }
}

/// Time between two instants in s; 0 where one is unknown.
pub(super) fn length(first: Option<Duration>, last: Option<Duration>) -> f64 {
    first.zip(last).map_or(0.0, |(first, last)| {
        last.saturating_sub(first).as_secs_f64()
    })
}

/// From the first to the last byte of a stream. Where acknowledgements came in an interval after the stated end,
/// they were still on their way then, and the span reaches to them.
fn span_of(plan: &ThroughputPlan, end: &StreamEnd, fold: Option<&Stream>) -> Option<(f64, f64)> {
    let seconds = |at: Duration| at.as_secs_f64();
    let first = end
        .first
        .map(seconds)
        .or_else(|| fold.and_then(|fold| fold.first_s))?;
    let moved = fold.and_then(|fold| fold.last_s);
    let last = end.last.map(seconds).or(moved.map(|(_, to)| to))?;
    let drained = moved
        .filter(|_| plan.protocol == Protocol::Tcp && end.way != Some(Way::Receive))
        .filter(|(from, _)| *from >= last - 1e-6)
        .map_or(last, |(_, to)| to);
    Some((first, last.max(drained)))
}

/// Earliest start to latest end.
fn span(flows: &[Flow<'_>]) -> Option<(f64, f64)> {
    flows
        .iter()
        .filter_map(|flow| flow.span)
        .reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
}

/// The time in which all streams were active.
fn overlap(flows: &[Flow<'_>]) -> Option<(f64, f64)> {
    flows
        .iter()
        .filter_map(|flow| flow.span)
        .reduce(|a, b| (a.0.max(b.0), a.1.min(b.1)))
}

fn direction(fold: &ThroughputFold, end: &FlowEnd, way: Way) -> ThroughputSummary {
    let plan = &fold.plan;
    let flows = flows(fold, end, way);
    let whole = span(&flows);
    let seconds = whole.map_or(0.0, |(from, to)| to - from);
    let omit_s = if plan.peer_omits() { 0.0 } else { plan.omit_s };
    let omitted_to = whole.map_or(0.0, |(from, _)| from + omit_s);
    let window = overlap(&flows)
        .map(|(from, to)| (from.max(omitted_to), to))
        .filter(|(from, to)| to > from);
    let rates: Vec<f64> = flows
        .iter()
        .filter_map(|flow| flow.rate_in(window.or(flow.span)?))
        .collect();
    let best: Option<u64> = sum_of(&flows, |flow| flow.best);
    let bits_per_second_whole = best
        .filter(|_| seconds > 0.0)
        .map(|bytes| bytes as f64 * 8.0 / seconds);
    let complete = !flows.is_empty() && rates.len() == flows.len();
    let bits_per_second = match window {
        Some(_) if complete => Some(rates.iter().sum()),
        // Streams that were never active together have no such time.
        None => bits_per_second_whole,
        Some(_) => None,
    };
    let sender = way == Way::Send;
    let tcp = plan.protocol == Protocol::Tcp;
    ThroughputSummary {
        bits_per_second,
        bits_per_second_whole,
        bytes_sent: sum_of(&flows, |flow| {
            if sender {
                Some(flow.end.bytes)
            } else {
                flow.end.peer_bytes
            }
        }),
        bytes_received: sum_of(&flows, |flow| {
            if sender && tcp {
                flow.end.peer_bytes
            } else {
                flow.best
            }
        }),
        bytes_acknowledged: sum_of(&flows, |flow| flow.end.acked_bytes),
        duration_s: seconds,
        streams: end
            .streams
            .iter()
            .filter(|one| of(one).0 == way)
            .map(|one| figures(fold, one))
            .collect(),
        streams_asked: if sender {
            plan.flows().0
        } else {
            plan.flows().1
        },
        fairness: jain(&rates),
        fastest_to_slowest: spread(&rates),
        retransmits: sum_of(&flows, |flow| flow.end.retransmits),
        udp: (!tcp).then(|| udp(&flows, sender)),
        window_bytes: self::window(end, way),
        ..common(fold, end)
    }
}

/// The sum over all flows; `None` where one does not know, and over nothing.
fn sum_of(flows: &[Flow<'_>], of: impl Fn(&Flow<'_>) -> Option<u64>) -> Option<u64> {
    if flows.is_empty() {
        return None;
    }
    flows
        .iter()
        .map(of)
        .try_fold(0_u64, |sum, part| Some(sum.saturating_add(part?)))
}

impl Flow<'_> {
    /// Rate in bit/s inside this time.
    fn rate_in(&self, (from, to): (f64, f64)) -> Option<f64> {
        let bytes = self.best? as f64;
        (to > from).then(|| bytes * self.share_in((from, to)) * 8.0 / (to - from))
    }

    /// Which share of the bytes moved inside this time, by our own intervals; evenly in time where there are none.
    fn share_in(&self, window: (f64, f64)) -> f64 {
        let Some(span) = self.span else {
            return 0.0;
        };
        let inside = |(from, to): (f64, f64), (low, high): (f64, f64)| {
            if to > from {
                ((to.min(high) - from.max(low)) / (to - from)).clamp(0.0, 1.0)
            } else {
                f64::from(u8::from(from >= low && from <= high))
            }
        };
        let (mut all, mut within) = (0.0, 0.0);
        for cell in self.fold.iter().flat_map(|fold| fold.cells.cells()) {
            let point = cell.point();
            let counted = (self.counts_from_s, f64::INFINITY);
            let bytes = point.bytes as f64 * inside((point.from_s, point.to_s), counted);
            if bytes <= 0.0 {
                continue;
            }
            let cut = (point.from_s.max(span.0), point.to_s.min(span.1));
            all += bytes;
            within += bytes * inside(cut, window);
        }
        if all > 0.0 {
            within / all
        } else {
            inside(span, window)
        }
    }
}

fn figures(fold: &ThroughputFold, end: &StreamEnd) -> StreamFigures {
    let span = span_of(&fold.plan, end, fold.streams.get(&of(end)));
    let duration_s = span.map_or(0.0, |(from, to)| to - from);
    let best = received(&fold.plan, end);
    let sender = of(end).0 == Way::Send;
    let tcp = fold.plan.protocol == Protocol::Tcp;
    StreamFigures {
        id: end.stream,
        local: end.local.map(|address| address.to_string()),
        remote: end.remote.map(|address| address.to_string()),
        direction: of(end).0.word().to_owned(),
        bytes: best.unwrap_or(0),
        duration_s,
        bits_per_second: best
            .filter(|_| duration_s > 0.0 && end.failed.is_none())
            .map(|bytes| bytes as f64 * 8.0 / duration_s),
        retransmits: end.retransmits,
        rtt_ms: end.rtt.map(|rtt| rtt.as_secs_f64() * 1e3),
        failed: end.failed.clone(),
        bytes_sent: if sender {
            Some(end.bytes)
        } else {
            end.peer_bytes
        },
        bytes_received: if sender && tcp { end.peer_bytes } else { best },
        datagrams: (!tcp).then(|| StreamDatagrams {
            sent: if sender {
                end.datagrams_sent
            } else {
                end.udp.map(|udp| udp.datagrams)
            },
            received: end.udp.map(|udp| udp.datagrams.saturating_sub(udp.lost)),
            lost: end.udp.map(|udp| udp.lost),
            out_of_order: end.udp.map(|udp| udp.out_of_order),
            jitter_ms: end
                .udp
                .and_then(|udp| udp.jitter)
                .map(|jitter| jitter.as_secs_f64() * 1e3),
        }),
    }
}

/// Jain's index, (Σx)² / (n·Σx²): 1 when all are the same, 1/n when one has it all; `None` below two.
fn jain(rates: &[f64]) -> Option<f64> {
    let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    let sum: f64 = rates.iter().sum();
    (rates.len() > 1 && squares > 0.0).then(|| sum * sum / (rates.len() as f64 * squares))
}

/// Fastest over slowest; `None` below two and where one had nothing.
fn spread(rates: &[f64]) -> Option<f64> {
    let slowest = rates.iter().copied().min_by(f64::total_cmp)?;
    let fastest = rates.iter().copied().max_by(f64::total_cmp)?;
    (rates.len() > 1 && slowest > 0.0).then(|| fastest / slowest)
}

fn udp(flows: &[Flow<'_>], sender: bool) -> UdpFigures {
    let of_report = |of: fn(&UdpEnd) -> Option<u64>| sum_of(flows, |flow| of(&flow.end.udp?));
    let understood = of_report(|udp| Some(udp.datagrams));
    let sent = if sender {
        sum_of(flows, |flow| flow.end.datagrams_sent)
    } else {
        understood
    };
    let lost = of_report(|udp| Some(udp.lost));
    let jitters: Vec<f64> = flows
        .iter()
        .filter_map(|flow| Some(flow.end.udp?.jitter?.as_secs_f64() * 1e3))
        .collect();
    UdpFigures {
        datagrams_sent: sent,
        datagrams_received: of_report(|udp| Some(udp.datagrams.saturating_sub(udp.lost))),
        datagrams_lost: lost,
        datagrams_out_of_order: of_report(|udp| Some(udp.out_of_order)),
        datagrams_duplicated: of_report(|udp| udp.duplicated),
        lost_percent: lost_percent(lost, understood),
        jitter_ms: (!jitters.is_empty())
            .then(|| jitters.iter().sum::<f64>() / jitters.len() as f64),
        dropped_by_receiver: of_report(|udp| udp.dropped_by_receiver),
    }
}

fn lost_percent(lost: Option<u64>, of: Option<u64>) -> Option<f64> {
    let (lost, of) = lost.zip(of).filter(|(_, of)| *of > 0)?;
    Some(lost as f64 / of as f64 * 100.0)
}

fn udp_together(parts: &[&ThroughputSummary]) -> Option<UdpFigures> {
    let parts: Vec<&UdpFigures> = parts.iter().filter_map(|part| part.udp.as_ref()).collect();
    if parts.is_empty() {
        return None;
    }
    let sum = |of: fn(&UdpFigures) -> Option<u64>| -> Option<u64> {
        parts.iter().map(|part| of(part)).sum()
    };
    let (received, lost) = (
        sum(|part| part.datagrams_received),
        sum(|part| part.datagrams_lost),
    );
    let jitters: Vec<f64> = parts.iter().filter_map(|part| part.jitter_ms).collect();
    Some(UdpFigures {
        datagrams_sent: sum(|part| part.datagrams_sent),
        datagrams_received: received,
        datagrams_lost: lost,
        datagrams_out_of_order: sum(|part| part.datagrams_out_of_order),
        datagrams_duplicated: sum(|part| part.datagrams_duplicated),
        lost_percent: lost_percent(lost, received.zip(lost).map(|(got, lost)| got + lost)),
        jitter_ms: (!jitters.is_empty())
            .then(|| jitters.iter().sum::<f64>() / jitters.len() as f64),
        dropped_by_receiver: sum(|part| part.dropped_by_receiver),
    })
}

/// A UDP receiver's counts so far as an end's.
pub(super) fn udp_so_far(tick: &UdpTick) -> UdpEnd {
    let lost = u64::try_from(tick.lost).unwrap_or(0);
    UdpEnd {
        datagrams: tick.received + lost,
        lost,
        out_of_order: tick.out_of_order,
        duplicated: Some(tick.duplicated),
        jitter: tick.jitter,
        dropped_by_receiver: Some(tick.dropped_by_receiver),
    }
}
