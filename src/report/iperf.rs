//! The report in the form of iperf 2.1: opening, one line for each stream and interval, totals, `[SUM]`.
//!
//! iperf prints a stream's number with a star where it receives what it asked for (`-R`, `--full-duplex`), and so
//! does this form. A figure that does not exist is left out. What iperf does not print stands in lines at the end,
//! none of which looks like one of its own.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::measure::command_line::IperfOutput;
use crate::measure::plan::ThroughputPlan;
use crate::measure::plan::throughput::{Direction, Protocol, Receive};
use crate::measure::run::Run;
use crate::measure::summary::flow::{
    FlowInterval, StreamFigures, ThroughputSummary, UdpFigures, Window,
};
use crate::report::flow_tail::{address_and_port, write_tail};
use crate::report::iperf_units::{Units, percent};

const RULE: &str = "------------------------------------------------------------\n";

/// Which end of the test prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The one that asked for it.
    Client,
    /// The receiver that a client asked.
    Server,
}

/// Writes a report piece by piece, as it comes.
#[derive(Clone, Debug)]
pub struct IperfWriter {
    plan: ThroughputPlan,
    side: Side,
    output: IperfOutput,
    units: Units,
    heading: Option<Heading>,
    /// Numbers that streams of tests before this one have taken.
    numbers_taken: u32,
    /// Streams whose addresses are printed.
    introduced: Vec<(String, u32)>,
    /// Start of the first interval of each direction, in s.
    origins: BTreeMap<String, f64>,
    /// The sum of one direction that waits for the other's.
    sum: Option<FlowInterval>,
}

/// The line above the figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heading {
    Bytes,
    Datagrams,
}

impl Heading {
    const fn line(self) -> &'static str {
        match self {
            Self::Bytes => "[ ID] Interval       Transfer     Bandwidth\n",
            Self::Datagrams => {
                "[ ID] Interval       Transfer     Bandwidth        Jitter   Lost/Total Datagrams\n"
            }
        }
    }
}

/// The block that a server prints before any test. Ours serves both protocols; that of the line is named first, where
/// scripts look for it.
pub fn iperf_listening(protocol: Protocol, port: u16) -> String {
    let (this, other) = match protocol {
        Protocol::Tcp => ("TCP", "UDP"),
        Protocol::Udp => ("UDP", "TCP"),
    };
    format!(
        "{RULE}Server listening on {this} port {port}\n({other} is served on the same port)\n{RULE}"
    )
}

/// The whole report of a run that has ended, with its intervals.
pub fn iperf_text(
    run: &Run,
    plan: &ThroughputPlan,
    summary: &ThroughputSummary,
    intervals: &[FlowInterval],
) -> String {
    let side = match run.origin {
        crate::measure::run::Origin::Received => Side::Server,
        _ => Side::Client,
    };
    let mut writer = IperfWriter::new(plan, side, IperfOutput::default());
    let mut text = writer.opening(Some(&summary.window_bytes));
    text.push_str(&writer.connected(&summary.streams));
    text.push_str(&writer.intervals(intervals));
    text.push_str(&writer.end(run, summary));
    text
}

impl IperfWriter {
    /// Nothing printed yet.
    pub fn new(plan: &ThroughputPlan, side: Side, output: IperfOutput) -> Self {
        Self {
            plan: plan.clone(),
            side,
            output,
            units: Units::iperf2(output.unit),
            heading: None,
            numbers_taken: 0,
            introduced: Vec::new(),
            origins: BTreeMap::new(),
            sum: None,
        }
    }

    /// Numbers the streams on from so many, as a server does from test to test.
    #[must_use]
    pub fn numbered_after(self, numbers_taken: u32) -> Self {
        Self {
            numbers_taken,
            ..self
        }
    }

    /// The block that says what is about to be done; the buffer's size stands in it where it is known.
    pub fn opening(&self, window: Option<&Window>) -> String {
        let plan = &self.plan;
        let udp = plan.protocol == Protocol::Udp;
        let protocol = if udp { "UDP" } else { "TCP" };
        let mut out = RULE.to_owned();
        // Writing to a string does not fail.
        let _ = match self.side {
            Side::Client => writeln!(
                out,
                "Client connecting to {}, {protocol} port {}",
                plan.host, plan.port
            ),
            Side::Server => writeln!(out, "Server listening on {protocol} port {}", plan.port),
        };
        if udp && plan.direction != Direction::Receive && self.side == Side::Client {
            let _ = write!(out, "Sending {} byte datagrams", plan.length_bytes);
            if let Some(rate) = plan.bandwidth_bits_per_second {
                let gap_us = f64::from(plan.length_bytes) * 8.0 / rate * 1e6;
                let _ = write!(out, ", IPG target: {gap_us:.2} us");
            }
            out.push('\n');
        }
        if let Some(mss) = plan.mss_bytes {
            let _ = writeln!(out, "MSS size {mss} bytes");
        }
        if let Some(name) = &plan.congestion {
            let _ = writeln!(out, "TCP congestion control set to {name}");
        }
        if plan.receive == Receive::Discard {
            out.push_str("Receiver discards the data in its kernel (not copied)\n");
        }
        if plan.offload {
            out.push_str(
                "Datagrams are cut by the kernel (segmentation offload), without a rate\n",
            );
        }
        self.window(&mut out, window, udp);
        out.push_str(RULE);
        out
    }

    fn window(&self, out: &mut String, window: Option<&Window>, udp: bool) {
        let name = if udp {
            "UDP buffer size"
        } else {
            "TCP window size"
        };
        let asked = window
            .and_then(|window| window.asked)
            .or(self.plan.window_bytes);
        let got = window.and_then(|window| window.got);
        let _ = match (got, asked) {
            (Some(got), None) => writeln!(out, "{name}: {} (default)", self.units.buffer(got)),
            (Some(got), Some(asked)) if got != asked => writeln!(
                out,
                "{name}: {} (WARNING: requested {})",
                self.units.buffer(got),
                self.units.buffer(asked)
            ),
            (Some(size), Some(_)) | (None, Some(size)) => {
                writeln!(out, "{name}: {}", self.units.buffer(size))
            }
            (None, None) => Ok(()),
        };
    }

    /// One line for each stream with its addresses; those that were printed before are left out.
    pub fn connected(&mut self, streams: &[StreamFigures]) -> String {
        let mut out = String::new();
        if self.output.sum_only {
            return out;
        }
        for stream in streams {
            let known = stream
                .local
                .as_deref()
                .and_then(address_and_port)
                .zip(stream.remote.as_deref().and_then(address_and_port));
            let both = self.plan.direction == Direction::Both;
            let direction = if both { "both" } else { &stream.direction };
            let key = (direction.to_owned(), stream.id);
            let Some((local, remote)) = known.filter(|_| !self.introduced.contains(&key)) else {
                continue;
            };
            self.introduced.push(key);
            let how = match (self.plan.direction, self.side) {
                (Direction::Both, _) => " (full-duplex)",
                (Direction::Receive, Side::Client) | (Direction::Send, Side::Server) => {
                    " (reverse)"
                }
                _ => "",
            };
            // On this line iperf leaves the star away.
            let id = self.number(&stream.direction, stream.id);
            let _ = writeln!(
                out,
                "[{id:>3}] local {} port {} connected with {} port {}{how}",
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
        let sums = self.plan.streams > 1 || self.output.sum_only;
        let at_once = self.plan.direction == Direction::Both;
        for row in rows {
            let half = self.plan.interval_s / 2.0;
            if let Some(sum) = self.sum.take_if(|sum| row.start_s > sum.start_s + half) {
                self.interval(&mut out, &sum);
            }
            match (row.stream.as_str(), self.sum.take()) {
                // iperf has one sum for both directions at once.
                ("SUM", Some(mut sum)) if sum.direction != row.direction => {
                    add_to_sum(&mut sum, row);
                    self.interval(&mut out, &sum);
                }
                ("SUM", _) if at_once && sums => self.sum = Some(row.clone()),
                ("SUM", _) if sums => self.interval(&mut out, row),
                ("SUM", _) => {}
                (_, sum) => {
                    self.sum = sum;
                    if !self.output.sum_only {
                        self.interval(&mut out, row);
                    }
                }
            }
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
        let span = (row.start_s - counted, row.end_s - counted);
        let datagrams = Datagrams::of_interval(row);
        let id = match row.stream.parse::<u32>() {
            Ok(number) => self.id(&row.direction, number),
            Err(_) => row.stream.clone(),
        };
        let rate = row.bits_per_second;
        let mut line = self.figures(&id, span, Some(row.bytes), rate, datagrams.as_ref());
        if omitted {
            line.insert_str(line.len() - 1, " (omitted)");
        }
        out.push_str(&line);
    }

    /// Totals of every stream and of all together, then what iperf does not say.
    pub fn end(&mut self, run: &Run, summary: &ThroughputSummary) -> String {
        let mut out = self.totals(summary);
        write_tail(&mut out, run, &self.plan, summary);
        out
    }

    /// Totals of every stream and of all together.
    pub fn totals(&mut self, summary: &ThroughputSummary) -> String {
        let mut out = String::new();
        if let Some(sum) = self.sum.take() {
            self.interval(&mut out, &sum);
        }
        out.push_str(&self.connected(&summary.streams));
        let udp = self.plan.protocol == Protocol::Udp;
        let good: Vec<&StreamFigures> = summary
            .streams
            .iter()
            .filter(|stream| stream.failed.is_none())
            .collect();
        if !self.output.sum_only {
            for stream in &good {
                self.total(&mut out, stream);
            }
        }
        for stream in summary.streams.iter().filter(|s| s.failed.is_some()) {
            let id = self.id(&stream.direction, stream.id);
            let why = stream.failed.as_deref().unwrap_or_default();
            let _ = writeln!(out, "[{id:>3}] failed: {why}");
        }
        if self.plan.streams > 1 || self.output.sum_only {
            self.sums(&mut out, summary, &good);
        }
        if udp && !self.output.sum_only {
            self.server_reports(&mut out, summary, &good);
        }
        out
    }

    fn total(&mut self, out: &mut String, stream: &StreamFigures) {
        let id = self.id(&stream.direction, stream.id);
        let span = (0.0, stream.duration_s);
        let udp = self.plan.protocol == Protocol::Udp;
        if !udp {
            let line = self.figures(&id, span, Some(stream.bytes), stream.bits_per_second, None);
            out.push_str(&line);
            return;
        }
        if stream.direction == "receive" {
            let datagrams = Datagrams::of_stream(stream);
            let rate = stream.bits_per_second;
            let line = self.figures(&id, span, Some(stream.bytes), rate, datagrams.as_ref());
            out.push_str(&line);
            out_of_order(out, &id, span, datagrams.as_ref());
            return;
        }
        let rate = rate(stream.bytes_sent, stream.duration_s);
        out.push_str(&self.figures(&id, span, stream.bytes_sent, rate, None));
        if let Some(sent) = stream.datagrams.as_ref().and_then(|it| it.sent) {
            let _ = writeln!(out, "[{id:>3}] Sent {sent} datagrams");
        }
    }

    /// `[SUM]`: of each direction by itself in a test in turn, else of all.
    fn sums(&mut self, out: &mut String, summary: &ThroughputSummary, good: &[&StreamFigures]) {
        if self.plan.direction == Direction::InTurn {
            for part in ["send", "receive"] {
                if let Some(part) = summary.directions.get(part) {
                    let good: Vec<&StreamFigures> =
                        part.streams.iter().filter(|s| s.failed.is_none()).collect();
                    self.sum(out, part, &good);
                }
            }
        } else {
            self.sum(out, summary, good);
        }
    }

    fn sum(&mut self, out: &mut String, summary: &ThroughputSummary, good: &[&StreamFigures]) {
        if good.is_empty() {
            return;
        }
        let span = (0.0, summary.duration_s);
        let sends = good.iter().all(|stream| stream.direction == "send");
        let receives = good.iter().all(|stream| stream.direction == "receive");
        let bytes = |stream: &&StreamFigures| match stream.direction.as_str() {
            "send" if self.plan.protocol == Protocol::Udp => stream.bytes_sent.unwrap_or(0),
            _ => stream.bytes,
        };
        let bytes = good.iter().map(bytes).fold(0_u64, u64::saturating_add);
        let counted = if self.plan.protocol == Protocol::Udp && !receives {
            rate(Some(bytes), summary.duration_s)
        } else {
            summary.bits_per_second_whole
        };
        let datagrams = summary
            .udp
            .as_ref()
            .filter(|_| receives && self.plan.protocol == Protocol::Udp)
            .and_then(Datagrams::of_all);
        let line = self.figures("SUM", span, Some(bytes), counted, datagrams.as_ref());
        out.push_str(&line);
        out_of_order(out, "SUM", span, datagrams.as_ref());
        let sent = good.iter().try_fold(0_u64, |all, stream| {
            Some(all.saturating_add(stream.datagrams.as_ref()?.sent?))
        });
        if let Some(sent) = sent.filter(|_| sends) {
            let _ = writeln!(out, "[SUM-{}] Sent {sent} datagrams", good.len());
        }
    }

    /// What the other end counted of each stream that this one sent.
    fn server_reports(
        &mut self,
        out: &mut String,
        summary: &ThroughputSummary,
        good: &[&StreamFigures],
    ) {
        let sent = good.iter().filter(|stream| stream.direction == "send");
        let mut silent = 0;
        for stream in sent {
            let Some(datagrams) = Datagrams::of_stream(stream) else {
                silent += 1;
                continue;
            };
            let id = self.id(&stream.direction, stream.id);
            let span = (0.0, stream.duration_s);
            let _ = writeln!(out, "[{id:>3}] Server Report:");
            let rate = stream.bits_per_second;
            let line = self.figures(&id, span, stream.bytes_received, rate, Some(&datagrams));
            out.push_str(&line);
            out_of_order(out, &id, span, Some(&datagrams));
        }
        if silent > 0 && summary.bytes_sent.is_some() {
            let _ = writeln!(
                out,
                "WARNING: no server report for {silent} of the streams: these figures are the sender's alone, what was lost is not known."
            );
        }
    }

    /// One line of figures, under its heading.
    fn figures(
        &mut self,
        id: &str,
        (from, to): (f64, f64),
        bytes: Option<u64>,
        rate: Option<f64>,
        datagrams: Option<&Datagrams>,
    ) -> String {
        let heading = if datagrams.is_some() {
            Heading::Datagrams
        } else {
            Heading::Bytes
        };
        let mut line = String::new();
        if self.heading != Some(heading) {
            self.heading = Some(heading);
            line.push_str(heading.line());
        }
        let transfer = bytes.map_or_else(|| "   -      ".to_owned(), |n| self.units.transfer(n));
        let _ = write!(line, "[{id:>3}] {from:.4}-{to:.4} sec  {transfer}");
        if let Some(rate) = rate.filter(|rate| rate.is_finite()) {
            let _ = write!(line, "  {}", self.units.rate(rate));
        }
        if let Some(datagrams) = datagrams {
            datagrams.write(&mut line);
        }
        line.push('\n');
        line
    }

    /// The number that iperf gives a stream: in a test in turn the way back has numbers of its own.
    fn number(&self, direction: &str, stream: u32) -> u32 {
        let later = match self.plan.direction {
            Direction::InTurn if direction == "receive" => self.plan.streams,
            _ => 0,
        };
        stream
            .saturating_add(later)
            .saturating_add(self.numbers_taken)
    }

    fn id(&self, direction: &str, stream: u32) -> String {
        let number = self.number(direction, stream);
        let starred = match (self.side, self.plan.direction) {
            (Side::Client, Direction::Receive | Direction::Both) => direction == "receive",
            (Side::Server, Direction::Both) => direction == "send",
            _ => false,
        };
        if starred {
            format!("*{number}")
        } else {
            number.to_string()
        }
    }
}

/// The line that says how many datagrams came late; iperf has none where none did.
fn out_of_order(out: &mut String, id: &str, (from, to): (f64, f64), datagrams: Option<&Datagrams>) {
    if let Some(late) = datagrams.and_then(|it| it.out_of_order).filter(|n| *n > 0) {
        let _ = writeln!(
            out,
            "[{id:>3}] {from:.4}-{to:.4} sec  {late} datagrams received out-of-order"
        );
    }
}

/// The datagrams of one line.
struct Datagrams {
    jitter_ms: Option<f64>,
    lost: u64,
    total: u64,
    out_of_order: Option<u64>,
}

impl Datagrams {
    /// `None` for a sender's interval, which knows nothing of losses.
    fn of_interval(row: &FlowInterval) -> Option<Self> {
        // Late datagrams can make an interval's count of missing ones negative; iperf prints no such number.
        let lost = u64::try_from(row.lost?).unwrap_or(0);
        Some(Self {
            jitter_ms: row.jitter_ms.filter(|_| row.stream != "SUM"),
            lost,
            total: row.datagrams.unwrap_or(0),
            out_of_order: None,
        })
    }

    fn of_stream(stream: &StreamFigures) -> Option<Self> {
        let datagrams = stream.datagrams.as_ref()?;
        let lost = datagrams.lost?;
        Some(Self {
            jitter_ms: datagrams.jitter_ms,
            lost,
            total: datagrams.received?.saturating_add(lost),
            out_of_order: datagrams.out_of_order,
        })
    }

    fn of_all(udp: &UdpFigures) -> Option<Self> {
        let lost = udp.datagrams_lost?;
        Some(Self {
            jitter_ms: None,
            lost,
            total: udp.datagrams_received?.saturating_add(lost),
            out_of_order: udp.datagrams_out_of_order,
        })
    }

    fn write(&self, line: &mut String) {
        match self.jitter_ms.filter(|ms| ms.is_finite()) {
            Some(ms) => {
                let _ = write!(line, "  {ms:6.3} ms ");
            }
            None => line.push_str("   "),
        }
        let share = if self.total > 0 {
            self.lost as f64 / self.total as f64 * 100.0
        } else {
            0.0
        };
        let _ = write!(line, "{}/{} ({}%)", self.lost, self.total, percent(share));
    }
}

/// Puts the other direction's sum of the same interval into this one.
fn add_to_sum(sum: &mut FlowInterval, other: &FlowInterval) {
    sum.bytes = sum.bytes.saturating_add(other.bytes);
    sum.start_s = sum.start_s.min(other.start_s);
    sum.end_s = sum.end_s.max(other.end_s);
    sum.bits_per_second = rate(Some(sum.bytes), sum.end_s - sum.start_s);
    sum.lost = None;
}

/// Bits per second; `None` where no time passed.
pub(super) fn rate(bytes: Option<u64>, seconds: f64) -> Option<f64> {
    bytes
        .filter(|_| seconds > 0.0)
        .map(|bytes| bytes as f64 * 8.0 / seconds)
}
