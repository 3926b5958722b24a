//! The lines of iperf 2 and 3 that stand in brackets: who is connected, intervals, totals, counts of datagrams.

use super::iperf_row::{Columns, columns};
use super::scan::{Number, Scan, named_numbers};

/// What is said of one stream, or of their sum.
#[derive(Clone, Debug)]
pub(super) enum Said {
    /// The names of the columns.
    Head,
    /// Both ends of a connection.
    Connected(Box<Connected>),
    /// Bytes over an interval or all of the time.
    Row(Box<Row>),
    /// `Sent 272 datagrams`.
    Sent(Number),
    /// What the server counted follows.
    ServerReport,
    /// `2 datagrams received out-of-order` until this time.
    OutOfOrder(Number, Number),
    /// Further figures under the words before them.
    Figures(Vec<(String, f64)>),
    /// Something that went wrong.
    Warning(String),
}

/// Both ends of a connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Connected {
    pub(super) local: (String, u16),
    pub(super) remote: (String, u16),
    /// What stands in brackets behind them.
    pub(super) words: String,
    pub(super) figures: Vec<(String, f64)>,
    pub(super) at: Option<jiff::Timestamp>,
}

/// Bytes over a time.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) start_s: Number,
    pub(super) end_s: Number,
    pub(super) bytes: Option<Number>,
    pub(super) rate: Option<Number>,
    pub(super) columns: Columns,
}

/// A line cut behind its brackets.
#[derive(Clone, Debug)]
pub(super) struct Bracketed<'a> {
    /// What stands in them, `SUM` for every sum.
    pub(super) label: &'a str,
    /// iperf 2's star, or iperf 3's role: `TX-C`, `RX-C`, `TX-S`, `RX-S`.
    pub(super) star: bool,
    pub(super) role: Option<&'a str>,
    /// The number of streams of `[SUM-4]`.
    pub(super) summed: Option<f64>,
    pub(super) rest: &'a str,
}

/// The line's brackets; `None` when it has none.
pub(super) fn bracketed(text: &str) -> Option<Bracketed<'_>> {
    let text = text.trim_start();
    if let Some(rest) = text.strip_prefix("(null)") {
        return Some(Bracketed {
            label: "",
            star: false,
            role: None,
            summed: None,
            rest,
        });
    }
    let (inside, mut rest) = text.strip_prefix('[')?.split_once(']')?;
    let mut role = None;
    if let Some((word, after)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        role = Some(word);
        rest = after;
    }
    let inside = inside.trim();
    let star = inside.starts_with('*');
    let mut label = inside.trim_start_matches('*').trim();
    let mut summed = None;
    if let Some(number) = label.strip_prefix("SUM-") {
        summed = number.parse().ok();
        label = "SUM";
    }
    Some(Bracketed {
        label,
        star,
        role,
        summed,
        rest,
    })
}

/// What the rest of a bracketed line says; `None` when it cannot be read.
pub(super) fn said(line: &Bracketed<'_>, head: &str) -> Option<Said> {
    let text = line.rest.trim();
    if text.starts_with("Interval ") {
        return Some(Said::Head);
    }
    if let Some(rest) = text.strip_prefix("local ") {
        return connected(rest).map(|connected| Said::Connected(Box::new(connected)));
    }
    if text == "Server Report:" {
        return Some(Said::ServerReport);
    }
    if let Some(rest) = text.strip_prefix("Sent ") {
        let mut scan = Scan::new(rest);
        let sent = scan.number()?;
        return scan.then("datagrams").then_some(Said::Sent(sent));
    }
    if text.starts_with("WARNING") || text.contains("failed") {
        return Some(Said::Warning(text.to_owned()));
    }
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        return row(text, head);
    }
    let figures = named_numbers(text);
    (!figures.is_empty()).then_some(Said::Figures(figures))
}

/// `0.0000-3.0015 sec  4.12 GBytes  11.8 Gbits/sec  …`
fn row(text: &str, head: &str) -> Option<Said> {
    let mut scan = Scan::new(text);
    let start_s = scan.number()?;
    scan.eat("-").then_some(())?;
    let end_s = scan.number()?;
    scan.then("sec").then_some(())?;
    let mut ahead = scan;
    if let Some(number) = ahead.number()
        && ahead.then("datagrams received out-of-order")
    {
        return Some(Said::OutOfOrder(end_s, number));
    }
    if scan.rest.contains("-PDF:") {
        let columns = columns(scan.rest, head)?;
        return Some(Said::Figures(columns.more));
    }
    let bytes = scan.bytes()?;
    let rate = scan.rate()?;
    let columns = columns(scan.rest, head)?;
    Some(Said::Row(Box::new(Row {
        start_s,
        end_s,
        bytes: bytes.figure().map(|_| bytes),
        rate: rate.figure().map(|_| rate),
        columns,
    })))
}

/// `10.128.0.3 port 53504 connected with 104.155.145.79 port 5001 (…) on 2026-11-30 17:58:43 (UTC)`
fn connected(text: &str) -> Option<Connected> {
    let mut scan = Scan::new(text);
    let mut side = |words: &[&str]| -> Option<(String, u16)> {
        for word in words {
            scan.then(word).then_some(())?;
        }
        let address = scan.word()?.split('%').next()?.to_owned();
        scan.then("port").then_some(())?;
        Some((address, u16::try_from(scan.number()?.count()?).ok()?))
    };
    let local = side(&[])?;
    let with = ["connected with", "connected to", "connection with"]
        .into_iter()
        .find(|with| text.contains(with))?;
    let remote = side(&[with])?;
    let words = scan.rest.trim();
    let (words, at) = match words.rsplit_once(" on ") {
        Some((before, at)) => (before, timestamp(at)),
        None => (words, None),
    };
    // The version of the other end is no figure.
    let plain = words.split("(peer ").next().unwrap_or(words);
    let mut figures = named_numbers(plain);
    if let Some((_, after)) = words.split_once("(peer ") {
        figures.extend(named_numbers(
            after.split_once(')').map_or("", |(_, rest)| rest),
        ));
    }
    Some(Connected {
        local,
        remote,
        words: words.to_owned(),
        figures,
        at,
    })
}

/// `2026-11-30 17:58:43 (UTC)`; other zones are not told from one another by their letters.
fn timestamp(text: &str) -> Option<jiff::Timestamp> {
    let text = text.trim().strip_suffix("(UTC)")?.trim();
    format!("{}Z", text.replacen(' ', "T", 1)).parse().ok()
}
