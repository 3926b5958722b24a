//! CSV as RFC 4180 has it: CRLF, one header row, missing = empty, and no text that a spreadsheet would run.

use jiff::Timestamp;

use crate::measure::run::Run;
use crate::measure::sample::RequestSample;
use crate::measure::summary::{HttpInterval, Summary};
use crate::report::flat::flatten;

/// One cell; only texts are quoted against formulas, and only what was measured is written.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Not measured, or does not apply.
    Missing,
    /// A whole number.
    Count(u64),
    /// An identifier of this notebook.
    Id(i64),
    /// A figure; empty unless finite.
    Figure(f64),
    /// `true` or `false`.
    Flag(bool),
    /// An instant, UTC.
    Time(Timestamp),
    /// Anything that people, peers or servers wrote.
    Text(String),
}

/// What separates cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delimiter {
    /// As RFC 4180 has it.
    #[default]
    Comma,
    /// For spreadsheets of countries that write the decimal comma (`?delim=semicolon`).
    Semicolon,
}

/// How a file is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// `?excel=1`: a byte order mark before the header, and times with a space in place of `T` and without `Z`.
    pub excel: bool,
    /// What separates cells.
    pub delimiter: Delimiter,
}

impl Options {
    /// The header row, with the byte order mark where one is wanted.
    pub fn header<S: AsRef<str>>(self, names: &[S]) -> String {
        let cells: Vec<Cell> = names
            .iter()
            .map(|name| Cell::Text(name.as_ref().to_owned()))
            .collect();
        let mark = if self.excel { "\u{feff}" } else { "" };
        format!("{mark}{}", self.row(&cells))
    }

    /// One row with its line end.
    pub fn row(self, cells: &[Cell]) -> String {
        let mut writer = ::csv::WriterBuilder::new()
            .terminator(::csv::Terminator::CRLF)
            .delimiter(match self.delimiter {
                Delimiter::Comma => b',',
                Delimiter::Semicolon => b';',
            })
            .from_writer(Vec::new());
        // Writing to memory does not fail, and what goes in is UTF-8.
        let _ = writer.write_record(cells.iter().map(|cell| self.cell(cell)));
        let bytes = writer.into_inner().unwrap_or_default();
        String::from_utf8(bytes).unwrap_or_default()
    }

    fn cell(self, cell: &Cell) -> String {
        match cell {
            Cell::Count(count) => count.to_string(),
            Cell::Id(id) => id.to_string(),
            Cell::Figure(figure) if figure.is_finite() => figure.to_string(),
            Cell::Missing | Cell::Figure(_) => String::new(),
            Cell::Flag(flag) => flag.to_string(),
            Cell::Time(time) if self.excel => time.strftime("%Y-%m-%d %H:%M:%S%.3f").to_string(),
            Cell::Time(time) => time.to_string(),
            Cell::Text(text) => defused(text),
        }
    }
}

/// The text with an apostrophe before it where a spreadsheet would take it for a formula.
fn defused(text: &str) -> String {
    let formula = text.starts_with([
        '=', '+', '-', '@', '\t', '\r', '\n', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}',
    ]);
    if formula {
        format!("'{text}")
    } else {
        text.to_owned()
    }
}

/// `summary.csv`: one run in one row, its figures flattened.
pub fn summary_csv(run: &Run, options: Options) -> String {
    let mut names: Vec<String> = Vec::new();
    let mut cells = Vec::new();
    let mut put = |name: &str, cell: Cell| {
        names.push(name.to_owned());
        cells.push(cell);
    };
    put("id", Cell::Id(run.id));
    put("kind", Cell::Text(run.kind.word().to_owned()));
    put("command", Cell::Text(run.command.clone()));
    put("state", Cell::Text(run.state.word().to_owned()));
    put("created_at", Cell::Time(run.created_at));
    put("started_at", time(run.started_at));
    put("finished_at", time(run.finished_at));
    for (name, cell) in run.summary.iter().flat_map(flatten) {
        put(&name, cell);
    }
    options.header(&names) + &options.row(&cells)
}

const INTERVALS: [&str; 12] = [
    "run",
    "start_s",
    "end_s",
    "requests",
    "replies",
    "errors",
    "reply_rate_per_s",
    "latency_avg_ms",
    "latency_p50_ms",
    "latency_p99_ms",
    "latency_max_ms",
    "in_flight",
];

/// Header of `intervals.csv` of an HTTP run.
pub fn intervals_header(options: Options) -> String {
    options.header(&INTERVALS)
}

/// One second of `intervals.csv`.
pub fn intervals_row(interval: &HttpInterval, options: Options) -> String {
    options.row(&[
        Cell::Id(interval.run),
        Cell::Figure(interval.start_s),
        Cell::Figure(interval.end_s),
        Cell::Count(interval.requests),
        Cell::Count(interval.replies),
        Cell::Count(interval.errors),
        Cell::Figure(interval.reply_rate_per_s),
        figure(interval.latency_avg_ms),
        figure(interval.latency_p50_ms),
        figure(interval.latency_p99_ms),
        figure(interval.latency_max_ms),
        Cell::Count(interval.in_flight),
    ])
}

const REQUESTS: [&str; 14] = [
    "run",
    "seq",
    "scheduled_s",
    "started_s",
    "lateness_ms",
    "connect_ms",
    "first_byte_ms",
    "service_time_ms",
    "latency_ms",
    "status",
    "bytes",
    "outcome",
    "served_by",
    "region",
];

/// Header of `requests.csv`.
pub fn requests_header(options: Options) -> String {
    options.header(&REQUESTS)
}

/// One request of `requests.csv`.
pub fn requests_row(run: i64, request: &RequestSample, options: Options) -> String {
    let ms = |time: Option<std::time::Duration>| {
        time.map_or(Cell::Missing, |time| Cell::Figure(nanos(time) / 1e6))
    };
    let seconds = |time: std::time::Duration| Cell::Figure(nanos(time) / 1e9);
    let text = |text: &Option<std::sync::Arc<str>>| {
        text.as_deref()
            .map_or(Cell::Missing, |text| Cell::Text(text.to_owned()))
    };
    options.row(&[
        Cell::Id(run),
        Cell::Count(request.seq),
        seconds(request.scheduled),
        request.started.map_or(Cell::Missing, seconds),
        ms(request.lateness()),
        ms(request.connect),
        ms(request.first_byte),
        ms(request.service_time()),
        ms(Some(request.latency())),
        request
            .status
            .map_or(Cell::Missing, |status| Cell::Count(u64::from(status))),
        Cell::Count(request.content_bytes),
        Cell::Text(request.outcome.key().to_owned()),
        text(&request.served_by),
        text(&request.region),
    ])
}

/// Whole nanoseconds divided once give the shortest decimals: 0.37 s, not 0.36999999.
fn nanos(time: std::time::Duration) -> f64 {
    time.as_nanos() as f64
}

const RUNS: [&str; 23] = [
    "id",
    "kind",
    "state",
    "origin",
    "command",
    "node",
    "experiment",
    "repeat",
    "created_at",
    "started_at",
    "finished_at",
    "planned",
    "ok",
    "failed",
    "achieved_per_s",
    "latency_ms_p50",
    "latency_ms_p99",
    "title",
    "note",
    "tags",
    "baseline",
    "error",
    "bits_per_second",
];

/// `runs.csv`: the history, one run in a row.
pub fn runs_csv<'a>(runs: impl IntoIterator<Item = &'a Run>, options: Options) -> String {
    let mut text = options.header(&RUNS);
    for run in runs {
        text.push_str(&runs_row(run, options));
    }
    text
}

/// One run of `runs.csv`.
pub fn runs_row(run: &Run, options: Options) -> String {
    let [planned, ok, failed, achieved, p50, p99] = headline(run.summary.as_ref());
    let origin = serde_json::to_value(run.origin).unwrap_or_default();
    options.row(&[
        Cell::Id(run.id),
        Cell::Text(run.kind.word().to_owned()),
        Cell::Text(run.state.word().to_owned()),
        Cell::Text(origin.as_str().unwrap_or_default().to_owned()),
        Cell::Text(run.command.clone()),
        Cell::Text(run.node.clone()),
        run.experiment.map_or(Cell::Missing, Cell::Id),
        run.repeat
            .map_or(Cell::Missing, |repeat| Cell::Count(u64::from(repeat))),
        Cell::Time(run.created_at),
        time(run.started_at),
        time(run.finished_at),
        planned,
        ok,
        failed,
        achieved,
        p50,
        p99,
        optional_text(run.title.as_ref()),
        Cell::Text(run.note.clone()),
        Cell::Text(run.tags.join(" ")),
        Cell::Flag(run.baseline),
        optional_text(run.error.as_ref()),
        match &run.summary {
            Some(Summary::Throughput(summary)) => figure(summary.bits_per_second),
            Some(Summary::Imported(summary)) => figure(summary.number("bits_per_second")),
            _ => Cell::Missing,
        },
    ])
}

/// Planned, ok, failed, achieved per s, median and 99th percentile of the latency in ms.
fn headline(summary: Option<&Summary>) -> [Cell; 6] {
    match summary {
        Some(Summary::Rate(summary)) => {
            let ok = summary.outcomes.get("ok").copied().unwrap_or(0);
            [
                Cell::Count(summary.planned),
                Cell::Count(ok),
                Cell::Count(summary.planned.saturating_sub(ok)),
                figure(summary.achieved_per_s),
                figure(summary.latency_ms.p50),
                figure(summary.latency_ms.p99),
            ]
        }
        Some(Summary::Users(summary)) => [
            summary.planned.map_or(Cell::Missing, Cell::Count),
            Cell::Count(summary.successful),
            Cell::Count(summary.failed),
            figure(summary.transaction_rate_per_s),
            figure(summary.latency_ms.p50),
            figure(summary.latency_ms.p99),
        ],
        Some(Summary::Fetch(summary)) => [
            Cell::Count(1),
            Cell::Count(u64::from(summary.outcome == "ok")),
            Cell::Count(u64::from(summary.outcome != "ok")),
            Cell::Missing,
            figure(summary.total_ms),
            Cell::Missing,
        ],
        Some(Summary::Ping(ping)) => [
            Cell::Count(ping.transmitted),
            Cell::Count(ping.received),
            Cell::Count(ping.transmitted.saturating_sub(ping.received)),
            Cell::Missing,
            figure(ping.rtt_ms.figures.p50),
            figure(ping.rtt_ms.figures.p99),
        ],
        Some(Summary::Imported(summary)) => {
            let head = summary.head();
            let count = |count: Option<u64>| count.map_or(Cell::Missing, Cell::Count);
            [
                count(head.planned),
                count(head.ok),
                count(head.failed),
                figure(head.achieved_per_s),
                figure(head.latency_p50_ms),
                figure(head.latency_p99_ms),
            ]
        }
        Some(Summary::Throughput(_) | Summary::Path(_)) | None => {
            std::array::from_fn(|_| Cell::Missing)
        }
    }
}

fn figure(figure: Option<f64>) -> Cell {
    figure.map_or(Cell::Missing, Cell::Figure)
}

fn time(time: Option<Timestamp>) -> Cell {
    time.map_or(Cell::Missing, Cell::Time)
}

fn optional_text(text: Option<&String>) -> Cell {
    text.map_or(Cell::Missing, |text| Cell::Text(text.clone()))
}
