//! The figures of a test of streams under the names of a throughput run of ours, its rows, and what charts show.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::agree::sum;
use super::flow::{Draft, FlowRow, Key, Of};
use super::iperf_row::Whose;
use super::scan::{Number, whole};
use crate::measure::flow::Way;
use crate::measure::flow_series::{FlowLine, FlowPoint, FlowSeries, MOST_LINES, MOST_POINTS};
use crate::measure::fold::Closed;
use crate::measure::plan::Kind;
use crate::measure::summary::Imported;
use crate::measure::summary::flow::FlowInterval;

/// The totals of a stream or sum, by whose count they are.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals<'a> {
    pub(super) sender: Option<&'a FlowRow>,
    pub(super) receiver: Option<&'a FlowRow>,
}

impl<'a> Totals<'a> {
    /// The receiver's where it is known.
    fn best(self) -> Option<&'a FlowRow> {
        self.receiver
            .filter(|row| row.rate.is_some())
            .or(self.sender)
            .or(self.receiver)
    }
}

/// Marks the rows that are totals: what says whose it is, and of iperf 2 the last that spans all others of its stream.
pub(super) fn mark_totals(draft: &mut Draft, is_3: bool) {
    let mut groups: BTreeMap<Key, Vec<usize>> = BTreeMap::new();
    for (index, row) in draft.rows.iter_mut().enumerate() {
        row.total = row.whose.is_some();
        draft.by.entry((row.of, row.way)).or_default().push(index);
        if !row.total && !is_3 {
            groups.entry((row.of, row.way)).or_default().push(index);
        }
    }
    for rows in groups.into_values() {
        let (Some(first), Some(last)) = (
            rows.iter()
                .map(|row| draft.rows[*row].start_s.value)
                .min_by(f64::total_cmp),
            rows.iter()
                .map(|row| draft.rows[*row].end_s.value)
                .max_by(f64::total_cmp),
        ) else {
            continue;
        };
        let spans = |row: &&usize| {
            let row = &draft.rows[**row];
            row.start_s.value <= first + 1e-9 && row.end_s.value >= last - 1e-3
        };
        let total = rows.iter().rev().find(spans).copied();
        if let Some(total) = total.filter(|total| rows.len() == 1 || *total != rows[0]) {
            draft.rows[total].total = true;
        }
    }
}

/// The totals of this stream or sum in this direction.
pub(super) fn totals(draft: &Draft, of: Of, way: Option<Way>) -> Totals<'_> {
    let mut totals = Totals::default();
    for row in draft.rows_of((of, way)).filter(|row| row.total) {
        let received = match row.whose {
            Some(whose) => whose == Whose::Receiver,
            None => way == Some(Way::Receive),
        };
        if received {
            totals.receiver = Some(row);
        } else {
            totals.sender = Some(row);
        }
    }
    totals
}

/// The figures.
pub(super) fn summary(draft: &Draft) -> Imported {
    let ways: Vec<Way> = [Way::Send, Way::Receive]
        .into_iter()
        .filter(|way| {
            draft.streams.iter().any(|stream| stream.way == Some(*way))
                || draft.rows.iter().any(|row| row.way == Some(*way))
        })
        .collect();
    let mut all = match ways[..] {
        [one] => direction(draft, one),
        _ => Imported::new(Kind::Throughput),
    };
    if let [_, _] = ways[..] {
        let mut rate = totals(draft, Of::Sum, None)
            .best()
            .and_then(|row| row.rate)
            .and_then(Number::figure);
        let mut parts = Vec::new();
        for way in &ways {
            let part = direction(draft, *way);
            parts.extend(part.number("bits_per_second"));
            all.set(
                &format!("directions.{}", way.word()),
                Value::Object(part.figures().clone()),
            );
        }
        if rate.is_none() && parts.len() == 2 {
            rate = Some(parts.iter().sum());
        }
        if let Some(rate) = rate.filter(|_| !draft.in_turn) {
            all.set("bits_per_second", rate);
        }
        set_streams(draft, None, &mut all);
        set_time(draft, None, &mut all);
        if draft.is_udp {
            set_datagrams(
                draft,
                None,
                Totals {
                    sender: None,
                    receiver: totals(draft, Of::Sum, None).best(),
                },
                &mut all,
            );
        }
    }
    all.set("role", if draft.is_server { "server" } else { "client" });
    let window = [("asked", draft.window_asked), ("got", draft.window_got)];
    for (name, size) in window {
        if let Some(size) = size {
            all.set(&format!("window_bytes.{name}"), size);
        }
    }
    if let Some([user, system, both]) = draft.cpu {
        for (name, share) in [
            ("user_percent", user),
            ("system_percent", system),
            ("percent", both),
        ] {
            if let Some(share) = share {
                all.set(&format!("cpu.{name}"), share);
            }
        }
    }
    for (name, text) in [
        ("congestion", &draft.congestion),
        ("peer", &draft.peer),
        ("tool_version", &draft.version),
    ] {
        if let Some(text) = text {
            all.set(name, text.as_str());
        }
    }
    let printed: Vec<Value> = draft
        .rows
        .iter()
        .filter(|row| row.total)
        .map(|row| printed(draft, row))
        .collect();
    all.set("totals", printed);
    all
}

/// The figures of one direction.
fn direction(draft: &Draft, way: Way) -> Imported {
    let mut part = Imported::new(Kind::Throughput);
    let own: Vec<Totals<'_>> = draft
        .streams
        .iter()
        .enumerate()
        .filter(|(_, stream)| stream.way == Some(way))
        .map(|(index, _)| totals(draft, Of::Stream(index), Some(way)))
        .collect();
    let mut of_all = totals(draft, Of::Sum, Some(way));
    if let [one] = own[..] {
        of_all.sender = of_all.sender.or(one.sender);
        of_all.receiver = of_all.receiver.or(one.receiver);
    }
    let added = |pick: fn(&Totals<'_>) -> Option<Number>| {
        let parts: Vec<Number> = own.iter().filter_map(pick).collect();
        (parts.len() == own.len() && parts.len() > 1).then(|| sum(parts.into_iter()))
    };
    let received = of_all
        .receiver
        .and_then(|row| row.rate)
        .or_else(|| added(|one| one.receiver?.rate));
    let sent = of_all
        .sender
        .and_then(|row| row.rate)
        .or_else(|| added(|one| one.sender?.rate));
    let figures = [
        ("bits_per_second", received.or(sent)),
        ("receiver_bits_per_second", received),
        ("sender_bits_per_second", sent),
    ];
    for (name, rate) in figures {
        if let Some(rate) = rate.and_then(Number::figure) {
            part.set(name, rate);
        }
    }
    let received = of_all
        .receiver
        .and_then(|row| row.bytes)
        .or_else(|| added(|one| one.receiver?.bytes));
    let sent = of_all
        .sender
        .and_then(|row| row.bytes)
        .or_else(|| added(|one| one.sender?.bytes));
    for (name, bytes) in [("bytes_received", received), ("bytes_sent", sent)] {
        if let Some(bytes) = bytes.and_then(Number::count) {
            part.set(name, bytes);
        }
    }
    if let Some(retransmits) = of_all
        .sender
        .and_then(|row| row.retransmits)
        .or_else(|| of_all.receiver?.retransmits)
    {
        part.set("retransmits", retransmits);
    }
    set_streams(draft, Some(way), &mut part);
    set_time(draft, Some(way), &mut part);
    if draft.is_udp {
        set_datagrams(draft, Some(way), of_all, &mut part);
    }
    part
}

/// Seconds from the first to the last byte.
fn set_time(draft: &Draft, way: Option<Way>, part: &mut Imported) {
    let rows = draft
        .rows
        .iter()
        .filter(|row| way.is_none() || row.way == way);
    let (first, last) = rows.fold((f64::INFINITY, 0.0_f64), |(first, last), row| {
        (first.min(row.start_s.value), last.max(row.end_s.value))
    });
    if first.is_finite() {
        part.set("duration_s", tidy(last - first));
    }
}

/// Without the dust that a difference of decimals leaves.
fn tidy(seconds: f64) -> f64 {
    (seconds * 1e9).round() / 1e9
}

/// Every stream, and how even they are.
fn set_streams(draft: &Draft, way: Option<Way>, part: &mut Imported) {
    let mut streams = Vec::new();
    let mut rates = Vec::new();
    for (index, stream) in draft.streams.iter().enumerate() {
        if way.is_some() && stream.way != way {
            continue;
        }
        let Totals { sender, receiver } = totals(draft, Of::Stream(index), stream.way);
        let best = Totals { sender, receiver }.best();
        let bytes = |row: Option<&FlowRow>| row.and_then(|row| row.bytes).and_then(Number::count);
        rates.extend(best.and_then(|row| row.rate).and_then(Number::figure));
        let mut figures = json!({
            "id": stream.number,
            "label": stream.label,
            "local": stream.local,
            "remote": stream.remote,
            "direction": stream.way.map(Way::word),
            "bytes": bytes(best),
            "duration_s": best.map(|row| tidy(row.end_s.value - row.start_s.value)),
            "bits_per_second": best.and_then(|row| row.rate).and_then(Number::figure),
            "retransmits": sender.and_then(|row| row.retransmits).or_else(|| receiver?.retransmits),
            "rtt_ms": sender.and_then(|row| row.rtt_ms),
            "failed": stream.failed,
            "bytes_sent": bytes(sender),
            "bytes_received": bytes(receiver),
            "connect_ms": stream.connect_ms,
        });
        if draft.is_udp {
            let told = receiver
                .filter(|row| row.lost.is_some())
                .or(sender.filter(|row| row.lost.is_some()));
            let lost = told.and_then(|row| row.lost);
            figures["datagrams"] = json!({
                "sent": stream.sent.or_else(|| sender?.datagrams),
                "received": lost.and_then(received),
                "lost": lost.map(|(lost, _)| lost),
                "total": lost.map(|(_, all)| all),
                "out_of_order": told.and_then(|row| row.out_of_order),
                "jitter_ms": told.and_then(|row| row.jitter_ms),
            });
        }
        streams.push(figures);
    }
    if !streams.is_empty() {
        part.set("streams_asked", streams.len());
    }
    part.set("streams", streams);
    // Jain's index: (Σx)² / (n Σx²).
    let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    if rates.len() > 1 && squares > 0.0 {
        let all: f64 = rates.iter().sum();
        part.set("fairness", all * all / (rates.len() as f64 * squares));
        let slowest = rates.iter().copied().fold(f64::INFINITY, f64::min);
        let fastest = rates.iter().copied().fold(0.0, f64::max);
        if slowest > 0.0 {
            part.set("fastest_to_slowest", fastest / slowest);
        }
    }
}

/// Datagrams that arrived; `None` where more are called lost than there were.
fn received((lost, all): (i64, u64)) -> Option<u64> {
    all.checked_sub(u64::try_from(lost).ok()?)
}

/// Datagrams of one direction, or of both.
fn set_datagrams(draft: &Draft, way: Option<Way>, of_all: Totals<'_>, part: &mut Imported) {
    let sent: Vec<u64> = draft
        .streams
        .iter()
        .filter(|stream| way.is_none() || stream.way == way)
        .filter_map(|stream| stream.sent)
        .collect();
    let told = of_all
        .sender
        .and_then(|row| row.datagrams.or_else(|| row.lost.map(|(_, all)| all)));
    let sent = draft
        .sent
        .map(|(_, sent)| sent)
        .or_else(|| (!sent.is_empty()).then(|| sent.iter().sum()))
        .or(told);
    let row = of_all
        .receiver
        .filter(|row| row.lost.is_some())
        .or(of_all.sender.filter(|row| row.lost.is_some()));
    let lost = row.and_then(|row| row.lost);
    let figures = [
        ("datagrams_sent", sent.map(Value::from)),
        (
            "datagrams_received",
            lost.and_then(received).map(Value::from),
        ),
        ("datagrams_lost", lost.map(|(lost, _)| lost.into())),
        ("datagrams_total", lost.map(|(_, all)| all.into())),
        (
            "datagrams_out_of_order",
            row.and_then(|row| row.out_of_order).map(Value::from),
        ),
        (
            "lost_percent",
            row.and_then(|row| row.lost_percent?.figure())
                .map(Value::from),
        ),
        (
            "jitter_ms",
            row.and_then(|row| row.jitter_ms).map(Value::from),
        ),
    ];
    for (name, value) in figures {
        part.set(name, value.unwrap_or(Value::Null));
    }
}

/// A total as it was printed.
fn printed(draft: &Draft, row: &FlowRow) -> Value {
    let mut figures = Map::new();
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            figures.insert(name.to_owned(), value);
        }
    };
    put("line", Some(row.line.into()));
    put("stream", Some(label(draft, row.of).into()));
    put("direction", row.way.map(|way| way.word().into()));
    put(
        "counted_by",
        row.whose.map(|whose| match whose {
            Whose::Sender => "sender".into(),
            Whose::Receiver => "receiver".into(),
        }),
    );
    put("start_s", Some(row.start_s.value.into()));
    put("end_s", Some(row.end_s.value.into()));
    put("bytes", row.bytes.and_then(Number::count).map(Value::from));
    put(
        "bits_per_second",
        row.rate.and_then(Number::figure).map(Value::from),
    );
    put("retransmits", row.retransmits.map(Value::from));
    put("rtt_ms", row.rtt_ms.map(Value::from));
    put("cwnd_bytes", row.cwnd_bytes.map(Value::from));
    put("jitter_ms", row.jitter_ms.map(Value::from));
    put("lost", row.lost.map(|(lost, _)| lost.into()));
    put(
        "datagrams",
        row.lost
            .map(|(_, all)| all)
            .or(row.datagrams)
            .map(Value::from),
    );
    put(
        "lost_percent",
        row.lost_percent.and_then(Number::figure).map(Value::from),
    );
    Value::Object(figures)
}

fn label(draft: &Draft, of: Of) -> String {
    match of {
        Of::Sum => "SUM".to_owned(),
        Of::Stream(index) => draft
            .streams
            .get(index)
            .map_or_else(String::new, |stream| stream.label.clone()),
    }
}

/// The rows that are no totals; a stream or sum of which only the total is there has that as its one interval.
fn over_time(draft: &Draft) -> Vec<&FlowRow> {
    let mut alone: BTreeMap<Key, Option<usize>> = BTreeMap::new();
    for key in draft.by.keys() {
        let is_alone = draft.rows_of(*key).all(|row| row.total);
        let best = totals(draft, key.0, key.1).best().filter(|_| is_alone);
        alone.insert(*key, best.map(|row| row.line));
    }
    let shown = |row: &&FlowRow| {
        !row.total || alone.get(&(row.of, row.way)).copied().flatten() == Some(row.line)
    };
    draft.rows.iter().filter(shown).collect()
}

/// The rows of `intervals.csv`.
pub(super) fn rows(draft: &Draft) -> Vec<Closed> {
    over_time(draft)
        .into_iter()
        .map(|row| {
            Closed::Flow(FlowInterval {
                run: 0,
                stream: label(draft, row.of),
                direction: row.way.map_or("both", Way::word).to_owned(),
                start_s: row.start_s.value,
                end_s: row.end_s.value,
                bytes: row.bytes.and_then(Number::count).unwrap_or_default(),
                bits_per_second: row.rate.and_then(Number::figure),
                retransmits: row.retransmits,
                rtt_ms: row.rtt_ms,
                cwnd_bytes: row.cwnd_bytes,
                lost: row.lost.map(|(lost, _)| lost),
                datagrams: row.lost.map(|(_, all)| all).or(row.datagrams),
                jitter_ms: row.jitter_ms,
            })
        })
        .collect()
}

/// What charts are drawn from; `None` where nothing is over time.
pub(super) fn series(draft: &Draft) -> Option<FlowSeries> {
    let rows = over_time(draft);
    let mut by: BTreeMap<Key, Vec<&FlowRow>> = BTreeMap::new();
    for row in &rows {
        by.entry((row.of, row.way)).or_default().push(row);
    }
    let mut lines: Vec<FlowLine> = Vec::new();
    let mut sums: Vec<FlowLine> = Vec::new();
    for way in [Way::Send, Way::Receive] {
        let of_way: Vec<usize> = (0..draft.streams.len())
            .filter(|index| draft.streams[*index].way == Some(way))
            .collect();
        for index in &of_way {
            let line = points(by.get(&(Of::Stream(*index), Some(way))));
            if !line.is_empty() {
                lines.push(FlowLine {
                    way,
                    stream: draft.streams[*index].number,
                    points: line,
                });
            }
        }
        let mut sum = points(by.get(&(Of::Sum, Some(way))));
        if sum.is_empty() {
            sum = added(&lines, way);
        }
        if !sum.is_empty() {
            sums.push(FlowLine {
                way,
                stream: 0,
                points: sum,
            });
        }
    }
    if sums.is_empty() {
        return None;
    }
    let covers_s = rows.iter().map(|row| row.end_s.value).fold(0.0, f64::max);
    if lines.len() > MOST_LINES {
        let step = lines.len().div_ceil(MOST_LINES);
        lines = lines.into_iter().step_by(step).collect();
    }
    Some(FlowSeries {
        sums,
        lines,
        covers_s,
        ..FlowSeries::default()
    })
}

/// The points of these rows, neighbours put together where there are too many.
fn points(rows: Option<&Vec<&FlowRow>>) -> Vec<FlowPoint> {
    let mut found: Vec<FlowPoint> = rows
        .into_iter()
        .flatten()
        .filter(|row| row.end_s.value > row.start_s.value)
        .map(|row| FlowPoint {
            from_s: row.start_s.value,
            to_s: row.end_s.value,
            bytes: row
                .rate
                .and_then(Number::figure)
                .and_then(|rate| whole(rate / 8.0 * (row.end_s.value - row.start_s.value)))
                .or_else(|| row.bytes?.count())
                .unwrap_or_default(),
            retransmits: row.retransmits,
            cwnd_bytes: row.cwnd_bytes,
            rtt_ms: row.rtt_ms,
            received: row.lost.and_then(received),
            lost: row.lost.map(|(lost, _)| lost),
            jitter_ms: row.jitter_ms,
        })
        .collect();
    found.sort_by(|a, b| a.from_s.total_cmp(&b.from_s));
    if found.len() <= MOST_POINTS {
        return found;
    }
    let step = found.len().div_ceil(MOST_POINTS);
    found.chunks(step).map(together).collect()
}

fn together(points: &[FlowPoint]) -> FlowPoint {
    let mut whole = points[0].clone();
    for point in &points[1..] {
        whole.to_s = whole.to_s.max(point.to_s);
        whole.bytes = whole.bytes.saturating_add(point.bytes);
        let both = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_add(b?));
        whole.retransmits = both(whole.retransmits, point.retransmits);
        whole.received = both(whole.received, point.received);
        whole.lost = whole.lost.zip(point.lost).map(|(a, b)| a.saturating_add(b));
        whole.cwnd_bytes = point.cwnd_bytes;
        whole.rtt_ms = point.rtt_ms;
        whole.jitter_ms = point.jitter_ms;
    }
    whole
}

/// The sum of the streams of this way, step by step, where the text prints none.
fn added(lines: &[FlowLine], way: Way) -> Vec<FlowPoint> {
    let mut of_way = lines.iter().filter(|line| line.way == way);
    let Some(first) = of_way.next() else {
        return Vec::new();
    };
    let mut sum = first.points.clone();
    for line in of_way {
        for (into, point) in sum.iter_mut().zip(&line.points) {
            into.bytes = into.bytes.saturating_add(point.bytes);
            into.to_s = into.to_s.max(point.to_s);
            into.retransmits = into
                .retransmits
                .zip(point.retransmits)
                .map(|(a, b)| a.saturating_add(b));
            into.received = into
                .received
                .zip(point.received)
                .map(|(a, b)| a.saturating_add(b));
            into.lost = into.lost.zip(point.lost).map(|(a, b)| a.saturating_add(b));
            (into.cwnd_bytes, into.rtt_ms, into.jitter_ms) = (None, None, None);
        }
    }
    sum
}
