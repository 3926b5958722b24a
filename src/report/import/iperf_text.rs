//! The text of iperf 2 (2.0.x and 2.1.x, `-e` and `--trip-times` too) and of iperf 3.

use super::blocks::Block;
use super::flow::{Draft, FlowRow, Of};
use super::iperf_line::{Bracketed, Connected, Row, Said, bracketed, said};
use super::iperf_row::Whose;
use super::scan::{Scan, named_numbers};
use super::{Import, ImportError, Line, Tool, finish, iperf_settings};
use crate::measure::flow::Way;

/// Lines that our own report adds behind those of the tool.
const OURS: [&str; 14] = [
    "Throughput: ",
    "Throughput, ",
    "Bytes: ",
    "Retransmits: ",
    "Congestion control: ",
    "Round trips ",
    "Dropped by ",
    "Receiver: ",
    "Sender: ",
    "Other end: ",
    "Limited by: ",
    "Check ",
    "Error: ",
    "Verdict: ",
];

/// Lines that say nothing of the figures.
const SILENT: [&str; 9] = [
    "- - - -",
    "-----",
    "iperf Done.",
    "Accepted connection from",
    "Reverse mode, remote host",
    "Waiting for server threads",
    "rc=",
    "exit ",
    "done.",
];

/// What a tool prints when something goes wrong.
const WRONG: [&str; 14] = [
    "connect failed",
    "failed:",
    ") failed",
    "Unknown host",
    "Connection refused",
    "No route to host",
    "timed out",
    "iperf3: ",
    "error - ",
    "unable to connect",
    "WARNING",
    "Broken pipe",
    "reset by peer",
    "Name or service not known",
];

/// Reads the block.
pub(super) fn read(block: &Block<'_>) -> Result<Import, ImportError> {
    let is_3 = block.tool == Tool::Iperf3;
    let mut reader = Reader {
        draft: Draft::new(if is_3 { "iperf3" } else { "iperf" }),
        is_3,
        head: String::new(),
        report_of: None,
        listens_on: None,
        saw_client: false,
        saw_rows: false,
        saw_connection: false,
        reverse: block
            .command
            .as_ref()
            .is_some_and(|command| command.has(Some(false), &["-R", "--reverse"])),
    };
    let told = block
        .is_server
        .or_else(|| block.command.as_ref()?.is_server());
    reader.draft.is_server = told.unwrap_or_else(|| is_server(block));
    let is_server = Some(reader.draft.is_server);
    if let Some(command) = &block.command {
        command
            .line(is_server)
            .clone_into(&mut reader.draft.command);
        reader.draft.in_turn = !is_3 && command.has(is_server, &["-r", "--tradeoff"]);
        reader.draft.is_udp = command.has(is_server, &["-u", "--udp"]);
    }
    if is_3
        && reader.draft.is_server
        && !block.lines.iter().any(|line| line.text.contains("[RX-S]"))
    {
        // A server that sends prints a head with what senders count, or ends with a sender's total alone.
        let heads = |words: &str| {
            block
                .lines
                .iter()
                .any(|line| line.text.contains("Interval") && line.text.contains(words))
        };
        let receives = block
            .lines
            .iter()
            .any(|line| line.text.trim_end().ends_with("receiver"));
        reader.reverse |= !receives
            && (heads("Retr")
                || heads("Total Datagrams") && !heads("Jitter")
                || block
                    .lines
                    .iter()
                    .any(|line| line.text.trim_end().ends_with("sender")));
    }
    for line in &block.lines {
        reader.line(*line)?;
    }
    if let Some(command) = &block.command {
        command.note(&mut reader.draft.plan, is_server);
    }
    finish::flow(reader.draft, block)
}

/// Whether a server printed this: it listened, and was connected to before it connected back anywhere.
fn is_server(block: &Block<'_>) -> bool {
    for line in &block.lines {
        let text = line.text.trim_start();
        if text.starts_with("Client connecting to") || text.starts_with("Connecting to host") {
            return false;
        }
        if text.contains("connected with")
            || text.starts_with("Accepted connection")
            || text.starts_with("[drop]")
        {
            return block
                .lines
                .iter()
                .any(|line| line.text.trim_start().starts_with("Server listening on"));
        }
    }
    block
        .lines
        .iter()
        .any(|line| line.text.trim_start().starts_with("Server listening on"))
}

#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one thing that was seen"
)]
struct Reader {
    draft: Draft,
    is_3: bool,
    /// The names of the columns, as last told.
    head: String,
    /// The label whose rows are the server's.
    report_of: Option<String>,
    /// The port on which this end waits for what the other end sends back.
    listens_on: Option<u16>,
    saw_client: bool,
    saw_rows: bool,
    saw_connection: bool,
    /// Whether the bytes go against the usual way.
    reverse: bool,
}

impl Reader {
    fn line(&mut self, line: Line<'_>) -> Result<(), ImportError> {
        let text = line.text.trim();
        if text.is_empty() || matches!(text, "[client]" | "[server]") {
            return Ok(());
        }
        if super::command::find(text).is_some() {
            return Ok(());
        }
        if let Some(parts) = bracketed(text) {
            if let Some(said) = said(&parts, &self.head) {
                return self.said(line, &parts, said);
            }
            return Err(ImportError::at(
                line,
                "begins as one of iperf's and cannot be read",
            ));
        }
        if self.header(line, text) {
            return Ok(());
        }
        if let Some(of) = iperf_settings::of(text) {
            iperf_settings::note(&mut self.draft, line, text, of);
            return Ok(());
        }
        if SILENT.iter().any(|begins| text.starts_with(begins)) {
            if text.starts_with("Reverse mode") {
                self.reverse = true;
            }
            if text.starts_with("Accepted connection") {
                let figures = text
                    .rsplit_once("port ")
                    .map(|(_, port)| named_numbers(&format!("port {port}")));
                self.draft.keep(
                    line.number,
                    "control connection",
                    figures.unwrap_or_default(),
                );
            }
            return Ok(());
        }
        if OURS.iter().any(|begins| text.starts_with(begins)) {
            let of = text.split(':').next().unwrap_or_default().to_owned();
            self.draft.keep(line.number, &of, named_numbers(text));
            return Ok(());
        }
        if WRONG.iter().any(|part| text.contains(part)) {
            if self.draft.errors.len() < 200 {
                self.draft.errors.push(super::shown(text));
            }
            return Ok(());
        }
        self.draft.unknown.note(line);
        Ok(())
    }

    /// The lines above all others that say where the test goes.
    fn header(&mut self, line: Line<'_>, text: &str) -> bool {
        if let Some(rest) = text.strip_prefix("Client connecting to ") {
            let mut words = rest.split(", ");
            let host = words.next().unwrap_or_default();
            let transport = words.next().unwrap_or_default();
            self.draft.is_udp |= transport.starts_with("UDP");
            let mut scan = Scan::new(transport.rsplit_once("port").map_or("", |(_, rest)| rest));
            let port = scan.number().and_then(super::scan::Number::count);
            if self.draft.is_server {
                // A server that sends back; the test itself came from there.
                self.draft.keep(
                    line.number,
                    "sends back to",
                    named_numbers(&format!("port {}", port.unwrap_or(0))),
                );
            } else {
                self.draft.plan.set("host", host);
                if let Some(port) = port {
                    self.draft.plan.set("port", port);
                }
            }
            self.draft
                .keep(line.number, "process", named_numbers(scan.rest));
            self.saw_client = true;
            return true;
        }
        if let Some(rest) = text.strip_prefix("Connecting to host ") {
            let (host, port) = rest.split_once(", port ").unwrap_or((rest, ""));
            self.draft.plan.set("host", host);
            if let Some(port) = Scan::new(port)
                .number()
                .and_then(super::scan::Number::count)
            {
                self.draft.plan.set("port", port);
            }
            return true;
        }
        if let Some(rest) = text.strip_prefix("Server listening on ") {
            self.draft.is_udp |= rest.starts_with("UDP");
            let digits = rest
                .find(|c: char| c.is_ascii_digit())
                .map_or("", |at| &rest[at..]);
            let mut scan = Scan::new(digits);
            let port = scan.number().and_then(super::scan::Number::count);
            self.listens_on = port.and_then(|port| u16::try_from(port).ok());
            self.draft.keep(
                line.number,
                "listens",
                port.map(|port| ("port".to_owned(), port as f64))
                    .into_iter()
                    .chain(named_numbers(scan.rest))
                    .collect(),
            );
            if self.draft.is_server
                && let Some(port) = port
            {
                self.draft.plan.set("port", port);
            }
            return true;
        }
        false
    }

    fn said(
        &mut self,
        line: Line<'_>,
        parts: &Bracketed<'_>,
        said: Said,
    ) -> Result<(), ImportError> {
        match said {
            Said::Head => {
                line.text.trim().clone_into(&mut self.head);
                Ok(())
            }
            Said::Connected(connected) => self.connected(line, parts, *connected),
            Said::Row(row) => self.row(line, parts, *row),
            Said::ServerReport => {
                self.report_of = Some(parts.label.to_owned());
                Ok(())
            }
            Said::Sent(number) => {
                let sent = number.count().unwrap_or(0);
                if parts.label == "SUM" {
                    self.draft.sent = Some((line.number, sent));
                } else {
                    let way = Way::Send;
                    let stream = match self.draft.labelled(parts.label, way) {
                        Some(stream) => stream,
                        None => self.draft.stream(line, parts.label, way)?,
                    };
                    self.draft.streams[stream].sent = Some(sent);
                }
                self.draft.keep(
                    line.number,
                    parts.label,
                    parts
                        .summed
                        .map(|n| ("streams".to_owned(), n))
                        .into_iter()
                        .collect(),
                );
                Ok(())
            }
            Said::OutOfOrder(end_s, number) => {
                self.out_of_order(parts, end_s.value, number.count());
                let figures = vec![("out_of_order".to_owned(), number.value)];
                self.draft.keep(line.number, parts.label, figures);
                Ok(())
            }
            Said::Figures(figures) => {
                self.draft.keep(line.number, parts.label, figures);
                Ok(())
            }
            Said::Warning(text) => {
                if self.draft.warnings.len() < 50 {
                    self.draft.warnings.push(super::shown(&text));
                }
                self.draft
                    .keep(line.number, "warning", named_numbers(&text));
                Ok(())
            }
        }
    }

    /// Which way a bracketed line's bytes go.
    fn way(&self, parts: &Bracketed<'_>) -> Way {
        match parts.role {
            Some("TX-C" | "TX-S") => return Way::Send,
            Some("RX-C" | "RX-S") => return Way::Receive,
            _ => {}
        }
        let plain = self.draft.plain_way();
        let against = match plain {
            Way::Send => Way::Receive,
            Way::Receive => Way::Send,
        };
        let turned = parts.star || (self.reverse && (self.is_3 || self.draft.is_server));
        let way = if turned { against } else { plain };
        // What came back over a connection that the other end made is named by its label alone.
        match self
            .draft
            .labelled(parts.label, way)
            .and_then(|stream| self.draft.streams[stream].way)
        {
            Some(known) if !parts.star => known,
            _ => way,
        }
    }

    fn connected(
        &mut self,
        line: Line<'_>,
        parts: &Bracketed<'_>,
        connected: Connected,
    ) -> Result<(), ImportError> {
        if parts.label == "drop" {
            self.draft
                .errors
                .push("A connection was dropped: its permit key does not fit.".to_owned());
        }
        let back = self.saw_client
            && !self.draft.is_server
            && self
                .listens_on
                .is_some_and(|port| port == connected.local.1);
        let server_turned = self.draft.is_server && connected.words.contains("(reverse)");
        let way = match (back, server_turned) {
            (true, _) => Way::Receive,
            (_, true) => Way::Send,
            _ if !self.is_3 && !self.draft.is_server && connected.words.contains("(reverse)") => {
                Way::Receive
            }
            _ => match parts.role {
                Some(_) => self.way(parts),
                None if self.is_3 && self.reverse && self.draft.is_server => Way::Send,
                None if self.is_3 && self.reverse => Way::Receive,
                None => self.draft.plain_way(),
            },
        };
        if back && self.saw_rows && self.saw_connection && !self.draft.command.contains(" -d") {
            self.draft.in_turn = true;
        }
        let known = self.draft.labelled(parts.label, way).filter(|stream| {
            let stream = &self.draft.streams[*stream];
            stream.local.is_none() && self.saw_rows
        });
        let index = match known {
            // iperf 2 may print an end's addresses after its figures.
            Some(index) => index,
            None => self.draft.connect(line, parts.label, way)?,
        };
        let address = |(host, port): &(String, u16)| {
            if host.contains(':') {
                format!("[{host}]:{port}")
            } else {
                format!("{host}:{port}")
            }
        };
        let stream = &mut self.draft.streams[index];
        stream.local = Some(address(&connected.local));
        stream.remote = Some(address(&connected.remote));
        stream.connect_ms = connected
            .figures
            .iter()
            .find(|(name, _)| name == "ct")
            .map(|(_, ms)| *ms);
        if let Some((_, peer)) = connected.words.split_once("(peer ") {
            let version = peer.split(')').next().unwrap_or(peer);
            self.draft.peer = Some(format!("iperf {version}"));
        }
        if self.draft.is_server {
            self.draft.plan.note("host", connected.remote.0.clone());
        }
        self.draft.started_at = self.draft.started_at.or(connected.at);
        self.draft.keep(line.number, parts.label, connected.figures);
        self.saw_connection = true;
        Ok(())
    }

    fn row(&mut self, line: Line<'_>, parts: &Bracketed<'_>, row: Row) -> Result<(), ImportError> {
        self.saw_rows = true;
        let is_sum = parts.label == "SUM";
        let way = if is_sum {
            self.way_of_sum(parts)
        } else {
            Some(self.way(parts))
        };
        let of = match (is_sum, way) {
            (false, Some(way)) => Of::Stream(self.draft.stream(line, parts.label, way)?),
            _ => Of::Sum,
        };
        let columns = row.columns;
        let reported = !is_sum && self.report_of.as_deref() == Some(parts.label);
        let count =
            |number: Option<super::scan::Number>| number.and_then(super::scan::Number::count);
        self.draft.is_udp |= columns.lost.is_some();
        let mut figures = columns.more;
        if let Some(percent) = columns.lost_percent.and_then(super::scan::Number::figure) {
            figures.push(("lost_percent".to_owned(), percent));
        }
        if let Some(streams) = parts.summed {
            figures.push(("streams".to_owned(), streams));
        }
        self.draft.keep(line.number, parts.label, figures);
        self.draft.rows.push(FlowRow {
            bytes: row.bytes,
            rate: row.rate,
            retransmits: count(columns.retransmits),
            rtt_ms: columns.rtt_ms,
            cwnd_bytes: columns.cwnd_bytes.and_then(super::scan::whole),
            jitter_ms: columns.jitter_ms.and_then(super::scan::Number::figure),
            lost: columns.lost.and_then(|(lost, total)| {
                Some((i64::try_from(lost.count()?).ok()?, total.count()?))
            }),
            lost_percent: columns.lost_percent,
            datagrams: count(columns.datagrams),
            whose: if reported {
                Some(Whose::Receiver)
            } else {
                columns.whose
            },
            omitted: columns.omitted,
            ..FlowRow::new(line.number, of, way, row.start_s, row.end_s)
        });
        Ok(())
    }

    /// The way of a sum; `None` where streams of both ways are in it.
    fn way_of_sum(&self, parts: &Bracketed<'_>) -> Option<Way> {
        if parts.role.is_some() || self.is_3 {
            return Some(self.way(parts));
        }
        let only = self.draft.only_way();
        // In a test in turn each way has a sum of its own, of the streams last told.
        if only.is_none() && self.draft.in_turn {
            return self
                .draft
                .rows
                .iter()
                .rev()
                .take(100)
                .find_map(|row| row.way);
        }
        only
    }

    fn out_of_order(&mut self, parts: &Bracketed<'_>, end_s: f64, number: Option<u64>) {
        let wanted = if parts.label == "SUM" {
            None
        } else {
            self.draft.labelled(parts.label, self.way(parts))
        };
        let row = self.draft.rows.iter_mut().rev().take(500).find(|row| {
            let of = match (row.of, wanted) {
                (Of::Sum, None) => true,
                (Of::Stream(stream), Some(wanted)) => stream == wanted,
                _ => false,
            };
            of && (row.end_s.value - end_s).abs() < 1e-9
        });
        if let Some(row) = row {
            row.out_of_order = number;
        }
    }
}
