//! CSV of throughput, ping and path runs: `intervals.csv`, and iperf 2's `-y C`.

use jiff::{SignedDuration, Timestamp};

use crate::measure::plan::ThroughputPlan;
use crate::measure::plan::throughput::Protocol;
use crate::measure::run::Run;
use crate::measure::summary::flow::{
    EchoRow, FlowInterval, PathSummary, StreamFigures, ThroughputSummary,
};
use crate::report::csv::{Cell, Options};
use crate::report::flow_tail::address_and_port;
use crate::report::iperf::rate;

const INTERVALS: [&str; 13] = [
    "run",
    "stream",
    "direction",
    "start_s",
    "end_s",
    "bytes",
    "bits_per_second",
    "retransmits",
    "rtt_ms",
    "cwnd_bytes",
    "lost",
    "datagrams",
    "jitter_ms",
];

/// The header of a throughput run's `intervals.csv`, which has one row for each interval and stream, and `SUM`.
pub fn flow_intervals_header(options: Options) -> String {
    options.header(&INTERVALS)
}

/// One row of it.
pub fn flow_intervals_row(row: &FlowInterval, options: Options) -> String {
    options.row(&[
        Cell::Id(row.run),
        row.stream
            .parse()
            .map_or_else(|_| Cell::Text(row.stream.clone()), Cell::Count),
        Cell::Text(row.direction.clone()),
        Cell::Figure(row.start_s),
        Cell::Figure(row.end_s),
        Cell::Count(row.bytes),
        figure(row.bits_per_second),
        count(row.retransmits),
        figure(row.rtt_ms),
        count(row.cwnd_bytes),
        row.lost.map_or(Cell::Missing, Cell::Id),
        count(row.datagrams),
        figure(row.jitter_ms),
    ])
}

const ECHOES: [&str; 7] = [
    "run",
    "seq",
    "sent_s",
    "rtt_ms",
    "ttl",
    "duplicates",
    "lost",
];

/// The header of a ping's `intervals.csv`, which has one row for each probe.
pub fn echoes_header(options: Options) -> String {
    options.header(&ECHOES)
}

/// One row of it.
pub fn echoes_row(row: &EchoRow, options: Options) -> String {
    options.row(&[
        Cell::Id(row.run),
        Cell::Count(u64::from(row.seq)),
        Cell::Figure(row.sent_s),
        figure(row.rtt_ms),
        count(row.ttl.map(u64::from)),
        Cell::Count(u64::from(row.duplicates)),
        Cell::Flag(row.rtt_ms.is_none()),
    ])
}

const PROBES: [&str; 5] = ["run", "size_bytes", "result", "rtt_ms", "named_mtu"];

/// `intervals.csv` of a path run: one row for each size that was tried.
pub fn path_csv(run: i64, summary: &PathSummary, options: Options) -> String {
    let mut text = options.header(&PROBES);
    for probe in &summary.probes {
        text.push_str(&options.row(&[
            Cell::Id(run),
            Cell::Count(u64::from(probe.size_bytes)),
            Cell::Text(probe.result.clone()),
            figure(probe.rtt_ms),
            count(probe.named_mtu.map(u64::from)),
        ]));
    }
    text
}

fn figure(figure: Option<f64>) -> Cell {
    figure.map_or(Cell::Missing, Cell::Figure)
}

fn count(count: Option<u64>) -> Cell {
    count.map_or(Cell::Missing, Cell::Count)
}

/// Rows as iperf 2 prints them with `-y C`: no header, a line feed at the end, nine columns for TCP and fourteen for
/// UDP, in one order whatever the version that reads them expects.
///
/// Time (UTC, of the row's end), the sender's address and port, the receiver's, stream, interval, bytes, bit/s; for UDP
/// then jitter in ms, lost, total, lost in percent, out of order. The sum of the streams has the number −1 and port 0 at
/// the end that opened them. A figure that does not exist is an empty cell. A UDP stream has one total: the receiver's
/// report, or the sender's count with nothing said of losses.
#[derive(Clone, Debug)]
pub struct IperfCsv {
    plan: ThroughputPlan,
    began: Timestamp,
    origins: std::collections::BTreeMap<String, f64>,
}

/// The whole of it.
pub fn iperf_csv(
    run: &Run,
    plan: &ThroughputPlan,
    summary: &ThroughputSummary,
    intervals: &[FlowInterval],
) -> String {
    let mut writer = IperfCsv::new(plan, run.started_at.unwrap_or(run.created_at));
    let mut text = String::new();
    for row in intervals {
        text.push_str(&writer.interval(row, &summary.streams));
    }
    text.push_str(&writer.end(summary));
    text
}

/// Sender and receiver of a row.
struct Ends {
    sender: (String, u16),
    receiver: (String, u16),
}

impl IperfCsv {
    /// A run that began at this instant.
    pub fn new(plan: &ThroughputPlan, began: Timestamp) -> Self {
        Self {
            plan: plan.clone(),
            began,
            origins: std::collections::BTreeMap::new(),
        }
    }

    /// One interval of a stream or of the sum; `streams` hold the addresses.
    pub fn interval(&mut self, row: &FlowInterval, streams: &[StreamFigures]) -> String {
        let origin = *self
            .origins
            .entry(row.direction.clone())
            .or_insert(row.start_s);
        let id = row.stream.parse().ok();
        let mut cells = self.cells(
            &ends(id, &row.direction, streams),
            row.end_s,
            id,
            (row.start_s - origin, row.end_s - origin),
            Some(row.bytes),
        );
        if self.plan.protocol == Protocol::Udp {
            let share = row
                .lost
                .zip(row.datagrams)
                .filter(|(_, all)| *all > 0)
                .map(|(lost, all)| lost as f64 / all as f64 * 100.0);
            cells.extend([
                three(row.jitter_ms),
                text(row.lost),
                text(row.datagrams),
                three(share),
                String::new(),
            ]);
        }
        line(&cells)
    }

    /// The totals of all streams that did not fail, and of each direction together.
    pub fn end(&self, summary: &ThroughputSummary) -> String {
        let parts: Vec<&ThroughputSummary> = if summary.directions.is_empty() {
            vec![summary]
        } else {
            ["send", "receive"]
                .iter()
                .filter_map(|way| summary.directions.get(*way))
                .collect()
        };
        let mut out = String::new();
        for part in parts {
            let good: Vec<&StreamFigures> =
                part.streams.iter().filter(|s| s.failed.is_none()).collect();
            for stream in &good {
                out.push_str(&self.total(stream));
            }
            if let Some(first) = good.first() {
                out.push_str(&self.sum(part, &first.direction, &good));
            }
        }
        out
    }

    fn total(&self, stream: &StreamFigures) -> String {
        let udp = self.plan.protocol == Protocol::Udp;
        let bytes = if udp {
            stream.bytes_received.or(stream.bytes_sent)
        } else {
            Some(stream.bytes)
        };
        let origin = self.origins.get(&stream.direction).copied().unwrap_or(0.0);
        let mut cells = self.cells(
            &ends(
                Some(stream.id),
                &stream.direction,
                std::slice::from_ref(stream),
            ),
            origin + stream.duration_s,
            Some(stream.id),
            (0.0, stream.duration_s),
            bytes,
        );
        if udp {
            let datagrams = stream.datagrams.clone().unwrap_or_default();
            let all = datagrams
                .received
                .zip(datagrams.lost)
                .map(|(a, b)| a.saturating_add(b));
            cells.extend([
                three(datagrams.jitter_ms),
                text(datagrams.lost),
                text(all.or(datagrams.sent)),
                three(share(datagrams.lost, all)),
                text(datagrams.out_of_order),
            ]);
        }
        line(&cells)
    }

    fn sum(&self, part: &ThroughputSummary, direction: &str, good: &[&StreamFigures]) -> String {
        let udp = part
            .udp
            .as_ref()
            .filter(|_| self.plan.protocol == Protocol::Udp);
        let bytes = match udp {
            Some(_) => part.bytes_received.or(part.bytes_sent),
            None => Some(
                good.iter()
                    .fold(0, |all: u64, stream| all.saturating_add(stream.bytes)),
            ),
        };
        let origin = self.origins.get(direction).copied().unwrap_or(0.0);
        let mut cells = self.cells(
            &ends(None, direction, &part.streams),
            origin + part.duration_s,
            None,
            (0.0, part.duration_s),
            bytes,
        );
        if let Some(udp) = udp {
            let all = udp
                .datagrams_received
                .zip(udp.datagrams_lost)
                .map(|(a, b)| a.saturating_add(b));
            cells.extend([
                three(udp.jitter_ms),
                text(udp.datagrams_lost),
                text(all.or(udp.datagrams_sent)),
                three(share(udp.datagrams_lost, all)),
                text(udp.datagrams_out_of_order),
            ]);
        }
        line(&cells)
    }

    /// The nine columns of TCP.
    fn cells(
        &self,
        ends: &Ends,
        at_s: f64,
        id: Option<u32>,
        (from, to): (f64, f64),
        bytes: Option<u64>,
    ) -> Vec<String> {
        let after = SignedDuration::try_from_secs_f64(at_s).unwrap_or(SignedDuration::ZERO);
        let at = self.began.checked_add(after).unwrap_or(self.began);
        let rate = rate(bytes, to - from).filter(|rate| rate.is_finite());
        vec![
            at.strftime("%Y%m%d%H%M%S").to_string(),
            ends.sender.0.clone(),
            ends.sender.1.to_string(),
            ends.receiver.0.clone(),
            ends.receiver.1.to_string(),
            id.map_or_else(|| "-1".to_owned(), |id| id.to_string()),
            format!("{from:.1}-{to:.1}"),
            text(bytes),
            rate.map_or_else(String::new, |rate| format!("{rate:.0}")),
        ]
    }
}

/// Sender and receiver of a stream, or of the sum: then the port of the end that opened the streams is 0.
fn ends(id: Option<u32>, direction: &str, streams: &[StreamFigures]) -> Ends {
    let mut of_direction = streams.iter().filter(|s| s.direction == direction);
    let stream = match id {
        Some(id) => of_direction.find(|stream| stream.id == id),
        None => of_direction.find(|stream| stream.failed.is_none()),
    };
    let end = |address: Option<&String>| {
        address
            .and_then(|address| address_and_port(address))
            .unwrap_or_default()
    };
    let mut local = end(stream.and_then(|stream| stream.local.as_ref()));
    let remote = end(stream.and_then(|stream| stream.remote.as_ref()));
    if id.is_none() {
        local.1 = 0;
    }
    let (sender, receiver) = if direction == "send" {
        (local, remote)
    } else {
        (remote, local)
    };
    Ends { sender, receiver }
}

fn line(cells: &[String]) -> String {
    cells.join(",") + "\n"
}

fn three(figure: Option<f64>) -> String {
    figure
        .filter(|figure| figure.is_finite())
        .map_or_else(String::new, |figure| format!("{figure:.3}"))
}

fn text(count: Option<impl ToString>) -> String {
    count.map_or_else(String::new, |count| count.to_string())
}

fn share(lost: Option<u64>, of: Option<u64>) -> Option<f64> {
    let (lost, of) = lost.zip(of).filter(|(_, of)| *of > 0)?;
    Some(lost as f64 / of as f64 * 100.0)
}
