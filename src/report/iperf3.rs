//! The report in the form of iperf 3.12: intervals, then each stream's sender and receiver, then `[SUM]`.
//!
//! A figure that does not exist is left out; what iperf 3 does not print stands in lines at the end.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::measure::command_line::IperfOutput;
use crate::measure::plan::ThroughputPlan;
use crate::measure::plan::throughput::{Direction, Protocol};
use crate::measure::run::{Origin, Run};
use crate::measure::summary::flow::{FlowInterval, StreamFigures, ThroughputSummary};
use crate::report::flow_tail::{address_and_port, write_tail};
use crate::report::iperf::{Side, rate};
use crate::report::iperf_units::{Units, percent};

const RULE: &str = "- - - - - - - - - - - - - - - - - - - - - - - - -\n";
const SERVER_RULE: &str = "-----------------------------------------------------------\n";

/// Writes a report piece by piece, as it comes.
#[derive(Clone, Debug)]
pub struct Iperf3Writer {
    plan: ThroughputPlan,
    side: Side,
    output: IperfOutput,
    units: Units,
    headed: bool,
    introduced: Vec<u32>,
    /// Start of the first interval of each direction, in s.
    origins: BTreeMap<String, f64>,
}

/// The whole report of a run that has ended, with its intervals.
pub fn iperf3_text(
    run: &Run,
    plan: &ThroughputPlan,
    summary: &ThroughputSummary,
    intervals: &[FlowInterval],
) -> String {
    let side = match run.origin {
        Origin::Received => Side::Server,
        _ => Side::Client,
    };
    let mut writer = Iperf3Writer::new(plan, side, IperfOutput::default());
    let mut text = writer.opening();
    text.push_str(&writer.connected(&summary.streams));
    text.push_str(&writer.intervals(intervals));
    text.push_str(&writer.end(run, summary));
    text
}

/// The block that a server prints before its `test`-th test.
pub fn iperf3_listening(port: u16, test: u64) -> String {
    format!("{SERVER_RULE}Server listening on {port} (test #{test})\n{SERVER_RULE}")
}

/// The number that an iperf 3 client shows for a stream: those of sockets, in the order in which they are opened.
pub(super) fn socket(plan: &ThroughputPlan, direction: &str, stream: u32) -> u32 {
    let first = match plan.direction {
        Direction::Both | Direction::InTurn if direction == "receive" => plan.streams,
        _ => 0,
    };
    5 + 2 * first.saturating_add(stream.saturating_sub(1))
}

/// Shows a stream's or the sum's line.
#[derive(Clone, Copy)]
struct Row<'r> {
    id: &'r str,
    direction: &'r str,
    span: (f64, f64),
    bytes: Option<u64>,
    rate: Option<f64>,
}

/// What stands behind the rate.
enum Behind {
    Nothing,
    Retransmits(u64, Option<u64>),
    Sent(u64),
    Datagrams(Option<f64>, u64, u64),
}

impl Iperf3Writer {
    /// Nothing printed yet.
    pub fn new(plan: &ThroughputPlan, side: Side, output: IperfOutput) -> Self {
        Self {
            plan: plan.clone(),
            side,
            output,
            units: Units::iperf3(output.unit),
            headed: false,
            introduced: Vec::new(),
            origins: BTreeMap::new(),
        }
    }

    /// The lines before anything is connected.
    pub fn opening(&self) -> String {
        let plan = &self.plan;
        if self.side == Side::Server {
            return format!(
                "{SERVER_RULE}Server listening on {}\n{SERVER_RULE}",
                plan.port
            );
        }
        let reverse = if plan.direction == Direction::Receive {
            format!("Reverse mode, remote host {} is sending\n", plan.host)
        } else {
            String::new()
        };
        format!(
            "Connecting to host {}, port {}\n{reverse}",
            plan.host, plan.port
        )
    }

    /// One line for each stream with its addresses; those that were printed before are left out.
    pub fn connected(&mut self, streams: &[StreamFigures]) -> String {
        let mut out = String::new();
        for stream in streams {
            let known = stream
                .local
                .as_deref()
                .and_then(address_and_port)
                .zip(stream.remote.as_deref().and_then(address_and_port));
            let id = socket(&self.plan, &stream.direction, stream.id);
            let Some((local, remote)) = known.filter(|_| !self.introduced.contains(&id)) else {
                continue;
            };
            self.introduced.push(id);
            // Writing to a string does not fail.
            let _ = writeln!(
                out,
                "[{id:>3}] local {} port {} connected to {} port {}",
                local.0, local.1, remote.0, remote.1
            );
        }
        out
    }

    /// The lines of intervals that are complete, in the order given; `SUM` only where there are several streams.
    pub fn intervals(&mut self, rows: &[FlowInterval]) -> String {
        let mut out = String::new();
        if self.output.interval_lines == Some(false) {
            return out;
        }
        for row in rows {
            if row.stream == "SUM" && self.plan.streams < 2 {
                continue;
            }
            if !self.headed {
                self.headed = true;
                out.push_str(self.heading(true));
            }
            self.interval(&mut out, row);
        }
        out
    }

    fn interval(&mut self, out: &mut String, row: &FlowInterval) {
        let origin = *self
            .origins
            .entry(row.direction.clone())
            .or_insert(row.start_s);
        let omit_s = self.plan.omit_s;
        let omitted = row.start_s - origin < omit_s - 1e-6;
        let counted = if omitted { origin } else { origin + omit_s };
        let behind = if let Some(lost) = row.lost {
            let lost = u64::try_from(lost).unwrap_or(0);
            Behind::Datagrams(row.jitter_ms, lost, row.datagrams.unwrap_or(0))
        } else if let Some(sent) = row.datagrams {
            Behind::Sent(sent)
        } else if let Some(again) = row.retransmits {
            Behind::Retransmits(again, row.cwnd_bytes)
        } else {
            Behind::Nothing
        };
        let id = self.shown(&row.direction, &row.stream);
        let figures = Row {
            id: &id,
            direction: &row.direction,
            span: (row.start_s - counted, row.end_s - counted),
            bytes: Some(row.bytes),
            rate: row.bits_per_second,
        };
        self.line(
            out,
            figures,
            &behind,
            if omitted { "(omitted)" } else { "" },
        );
    }

    /// Sender and receiver of every stream and of all together, then what iperf 3 does not say.
    pub fn end(&mut self, run: &Run, summary: &ThroughputSummary) -> String {
        let mut out = self.totals(summary);
        write_tail(&mut out, run, &self.plan, summary);
        out.push_str(self.farewell(run));
        out
    }

    /// What a client of iperf 3 says last.
    pub fn farewell(&self, run: &Run) -> &'static str {
        if self.side == Side::Client && run.error.is_none() {
            "\niperf Done.\n"
        } else {
            ""
        }
    }

    /// Sender and receiver of every stream and of all together.
    pub fn totals(&mut self, summary: &ThroughputSummary) -> String {
        let mut out = self.connected(&summary.streams);
        out.push_str(RULE);
        out.push_str(self.heading(false));
        let ways = if summary.directions.is_empty() {
            vec![summary]
        } else {
            ["send", "receive"]
                .iter()
                .filter_map(|way| summary.directions.get(*way))
                .collect()
        };
        for part in ways {
            let good: Vec<&StreamFigures> =
                part.streams.iter().filter(|s| s.failed.is_none()).collect();
            for stream in &good {
                self.stream(&mut out, stream);
            }
            if self.plan.streams > 1 && !good.is_empty() {
                self.sum(&mut out, part, &good);
            }
        }
        for stream in summary.streams.iter().filter(|s| s.failed.is_some()) {
            let id = socket(&self.plan, &stream.direction, stream.id);
            let why = stream.failed.as_deref().unwrap_or_default();
            let _ = writeln!(out, "[{id:>3}] failed: {why}");
        }
        out
    }

    fn stream(&self, out: &mut String, stream: &StreamFigures) {
        let id = self.shown(&stream.direction, &stream.id.to_string());
        let datagrams = stream.datagrams.as_ref();
        let lost = datagrams.and_then(|it| Some((it.lost?, it.received?)));
        self.ends(
            out,
            Row {
                id: &id,
                direction: &stream.direction,
                span: (0.0, stream.duration_s),
                bytes: None,
                rate: None,
            },
            (stream.bytes_sent, stream.bytes_received),
            stream.retransmits,
            datagrams.and_then(|it| it.sent),
            lost.map(|(lost, received)| {
                let jitter = datagrams.and_then(|it| it.jitter_ms);
                (jitter, lost, lost.saturating_add(received))
            }),
        );
    }

    fn sum(&self, out: &mut String, part: &ThroughputSummary, good: &[&StreamFigures]) {
        let udp = part.udp.as_ref();
        let lost = udp.and_then(|it| Some((it.datagrams_lost?, it.datagrams_received?)));
        self.ends(
            out,
            Row {
                id: "SUM",
                direction: &good[0].direction,
                span: (0.0, part.duration_s),
                bytes: None,
                rate: None,
            },
            (part.bytes_sent, part.bytes_received),
            part.retransmits,
            udp.and_then(|it| it.datagrams_sent),
            lost.map(|(lost, received)| {
                let jitter = udp.and_then(|it| it.jitter_ms);
                (jitter, lost, lost.saturating_add(received))
            }),
        );
    }

    /// A sender's line and a receiver's, each where its count is known.
    fn ends(
        &self,
        out: &mut String,
        row: Row<'_>,
        (sent, received): (Option<u64>, Option<u64>),
        retransmits: Option<u64>,
        datagrams_sent: Option<u64>,
        datagrams: Option<(Option<f64>, u64, u64)>,
    ) {
        let udp = self.plan.protocol == Protocol::Udp;
        let seconds = row.span.1;
        for (bytes, name) in [(sent, "sender"), (received, "receiver")] {
            let Some(bytes) = bytes else {
                continue;
            };
            let behind = match (udp, name, datagrams) {
                (false, "sender", _) => {
                    retransmits.map_or(Behind::Nothing, |again| Behind::Retransmits(again, None))
                }
                (true, "sender", _) => datagrams_sent.map_or(Behind::Nothing, |sent| {
                    Behind::Datagrams(Some(0.0), 0, sent)
                }),
                (true, _, Some((jitter, lost, total))) => Behind::Datagrams(jitter, lost, total),
                _ => Behind::Nothing,
            };
            let row = Row {
                bytes: Some(bytes),
                rate: rate(Some(bytes), seconds),
                span: (0.0, seconds),
                ..row
            };
            self.line(out, row, &behind, name);
        }
    }

    fn line(&self, out: &mut String, row: Row<'_>, behind: &Behind, name: &str) {
        let role = self.role(row.direction);
        let transfer = self.units.transfer(row.bytes.unwrap_or(0));
        let figure = row.rate.filter(|rate| rate.is_finite()).map_or_else(
            || "   -           ".to_owned(),
            |rate| self.units.rate(rate),
        );
        let _ = write!(
            out,
            "[{:>3}]{role} {:6.2}-{:<6.2} sec  {transfer}  {figure}",
            row.id, row.span.0, row.span.1
        );
        let _ = match behind {
            Behind::Nothing => writeln!(out, "                  {name}"),
            Behind::Retransmits(again, Some(cwnd)) => {
                let cwnd = self.units.transfer(*cwnd);
                writeln!(out, "  {again:3}   {cwnd}       {name}")
            }
            Behind::Retransmits(again, None) => writeln!(out, "  {again:3}             {name}"),
            Behind::Sent(sent) => writeln!(out, "  {sent}  {name}"),
            Behind::Datagrams(jitter, lost, total) => {
                let share = if *total > 0 {
                    *lost as f64 / *total as f64 * 100.0
                } else {
                    0.0
                };
                let jitter = match jitter.filter(|ms| ms.is_finite()) {
                    Some(ms) => format!("{ms:5.3} ms"),
                    None => "        ".to_owned(),
                };
                writeln!(
                    out,
                    "  {jitter}  {lost}/{total} ({}%)  {name}",
                    percent(share)
                )
            }
        };
    }

    fn heading(&self, intervals: bool) -> &'static str {
        let both = self.plan.direction == Direction::Both;
        let udp = self.plan.protocol == Protocol::Udp;
        let sends = self.plan.direction != Direction::Receive;
        match (both, udp, intervals) {
            (false, true, true) if sends => {
                "[ ID] Interval           Transfer     Bitrate         Total Datagrams\n"
            }
            (false, true, _) => {
                "[ ID] Interval           Transfer     Bitrate         Jitter    Lost/Total Datagrams\n"
            }
            (true, true, _) => {
                "[ ID][Role] Interval           Transfer     Bitrate         Jitter    Lost/Total Datagrams\n"
            }
            (false, false, true) if sends => {
                "[ ID] Interval           Transfer     Bitrate         Retr  Cwnd\n"
            }
            (false, false, true) => "[ ID] Interval           Transfer     Bitrate\n",
            (false, false, false) => "[ ID] Interval           Transfer     Bitrate         Retr\n",
            (true, false, true) => {
                "[ ID][Role] Interval           Transfer     Bitrate         Retr  Cwnd\n"
            }
            (true, false, false) => {
                "[ ID][Role] Interval           Transfer     Bitrate         Retr\n"
            }
        }
    }

    fn shown(&self, direction: &str, stream: &str) -> String {
        match stream.parse() {
            Ok(number) => socket(&self.plan, direction, number).to_string(),
            Err(_) => stream.to_owned(),
        }
    }

    fn role(&self, direction: &str) -> &'static str {
        match (self.plan.direction, self.side, direction) {
            (Direction::Both, Side::Client, "send") => "[TX-C]",
            (Direction::Both, Side::Client, _) => "[RX-C]",
            (Direction::Both, Side::Server, "send") => "[TX-S]",
            (Direction::Both, Side::Server, _) => "[RX-S]",
            _ => "",
        }
    }
}
