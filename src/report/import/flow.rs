//! What was read of a test of streams, whichever form it was printed in, before it is made into figures.

use std::collections::HashMap;

use super::iperf_row::Whose;
use super::scan::Number;
use super::{Further, ImportError, Line, shown};
use crate::measure::flow::Way;
use crate::measure::plan::{ImportedPlan, Kind};

/// Most connections of one report.
const MOST_STREAMS: usize = 10_000;
/// Lines whose further figures are kept; the report's text has all.
const MOST_FURTHER: usize = 2_000;
/// Lines that are told when they are not understood.
const MOST_UNKNOWN: usize = 20;

/// A test of streams, as far as it is read.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    pub(super) plan: ImportedPlan,
    pub(super) command: String,
    /// The end that printed the text.
    pub(super) is_server: bool,
    pub(super) is_udp: bool,
    /// Whether the directions ran one after the other.
    pub(super) in_turn: bool,
    pub(super) streams: Vec<Stream>,
    /// The stream that a label means now.
    by_label: HashMap<(String, Way), usize>,
    pub(super) rows: Vec<FlowRow>,
    /// The rows of each stream or sum in each direction, once all are there.
    pub(super) by: HashMap<Key, Vec<usize>>,
    /// Streams that send and that receive.
    ways: [usize; 2],
    /// Datagrams sent, as told for the sum.
    pub(super) sent: Option<(usize, u64)>,
    pub(super) window_got: Option<u64>,
    pub(super) window_asked: Option<u64>,
    pub(super) congestion: Option<String>,
    pub(super) version: Option<String>,
    pub(super) peer: Option<String>,
    /// CPU use in percent of one core, where it is told: user, system, both.
    pub(super) cpu: Option<[Option<f64>; 3]>,
    pub(super) started_at: Option<jiff::Timestamp>,
    pub(super) errors: Vec<String>,
    pub(super) warnings: Vec<String>,
    pub(super) further: Vec<Further>,
    pub(super) further_left_out: u64,
    pub(super) unknown: Unknown,
}

/// Lines that are none of the tool's.
#[derive(Clone, Debug, Default)]
pub(super) struct Unknown {
    pub(super) first: Vec<(usize, String)>,
    pub(super) count: usize,
}

/// One connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Stream {
    /// What the tool calls it.
    pub(super) label: String,
    /// Its number in tables and charts.
    pub(super) number: u32,
    pub(super) way: Option<Way>,
    pub(super) local: Option<String>,
    pub(super) remote: Option<String>,
    pub(super) sent: Option<u64>,
    pub(super) failed: Option<String>,
    pub(super) connect_ms: Option<f64>,
}

/// A stream or sum, and its direction.
pub(super) type Key = (Of, Option<Way>);

/// Of whom a row tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Of {
    Stream(usize),
    Sum,
}

/// One row of figures.
#[derive(Clone, Debug)]
pub(super) struct FlowRow {
    pub(super) line: usize,
    pub(super) of: Of,
    /// `None` = a sum of both directions.
    pub(super) way: Option<Way>,
    pub(super) start_s: Number,
    pub(super) end_s: Number,
    pub(super) bytes: Option<Number>,
    pub(super) rate: Option<Number>,
    pub(super) retransmits: Option<u64>,
    pub(super) rtt_ms: Option<f64>,
    pub(super) cwnd_bytes: Option<u64>,
    pub(super) jitter_ms: Option<f64>,
    pub(super) lost: Option<(i64, u64)>,
    pub(super) lost_percent: Option<Number>,
    pub(super) datagrams: Option<u64>,
    pub(super) out_of_order: Option<u64>,
    /// Whose count it is, where it says; `Some` marks a total.
    pub(super) whose: Option<Whose>,
    /// A total although it does not say whose: decided when all rows are there.
    pub(super) total: bool,
    pub(super) omitted: bool,
}

impl FlowRow {
    /// A row of which only the time is known.
    pub(super) const fn new(
        line: usize,
        of: Of,
        way: Option<Way>,
        start_s: Number,
        end_s: Number,
    ) -> Self {
        Self {
            line,
            of,
            way,
            start_s,
            end_s,
            bytes: None,
            rate: None,
            retransmits: None,
            rtt_ms: None,
            cwnd_bytes: None,
            jitter_ms: None,
            lost: None,
            lost_percent: None,
            datagrams: None,
            out_of_order: None,
            whose: None,
            total: false,
            omitted: false,
        }
    }
}

impl Unknown {
    /// Notes a line.
    pub(super) fn note(&mut self, line: Line<'_>) {
        self.count += 1;
        if self.first.len() < MOST_UNKNOWN {
            self.first.push((line.number, shown(line.text)));
        }
    }
}

impl Draft {
    pub(super) fn new(tool: &str) -> Self {
        Self {
            plan: ImportedPlan::new(Kind::Throughput, tool),
            command: String::new(),
            is_server: false,
            is_udp: false,
            in_turn: false,
            streams: Vec::new(),
            by_label: HashMap::new(),
            rows: Vec::new(),
            by: HashMap::new(),
            ways: [0; 2],
            sent: None,
            window_got: None,
            window_asked: None,
            congestion: None,
            version: None,
            peer: None,
            cpu: None,
            started_at: None,
            errors: Vec::new(),
            warnings: Vec::new(),
            further: Vec::new(),
            further_left_out: 0,
            unknown: Unknown::default(),
        }
    }

    /// The way of a stream of which nothing else is said.
    pub(super) const fn plain_way(&self) -> Way {
        if self.is_server {
            Way::Receive
        } else {
            Way::Send
        }
    }

    /// Keeps figures that have no place of their own.
    pub(super) fn keep(&mut self, line: usize, of: &str, figures: Vec<(String, f64)>) {
        if figures.is_empty() {
            return;
        }
        if self.further.len() < MOST_FURTHER {
            self.further.push(Further::new(line, of, figures));
        } else {
            self.further_left_out += 1;
        }
    }

    /// A new stream with this label.
    pub(super) fn connect(
        &mut self,
        line: Line<'_>,
        label: &str,
        way: Way,
    ) -> Result<usize, ImportError> {
        if self.streams.len() >= MOST_STREAMS {
            return Err(ImportError::at(
                line,
                &format!("is one connection too many: at most {MOST_STREAMS} are read"),
            ));
        }
        let index = self.streams.len();
        let taken = |number: u32| {
            self.streams
                .iter()
                .any(|stream| stream.number == number && stream.way == Some(way))
        };
        let number = label
            .parse()
            .ok()
            .filter(|number| (1..100_000).contains(number) && index < 1_000 && !taken(*number))
            .unwrap_or_else(|| {
                let largest = self.streams.iter().map(|stream| stream.number).max();
                largest.unwrap_or(0).saturating_add(1)
            });
        self.streams.push(Stream {
            label: label.to_owned(),
            number,
            way: Some(way),
            ..Stream::default()
        });
        self.by_label.insert((label.to_owned(), way), index);
        self.ways[usize::from(way == Way::Receive)] += 1;
        Ok(index)
    }

    /// The one way that all streams have; `None` where there are both.
    pub(super) const fn only_way(&self) -> Option<Way> {
        match self.ways {
            [0, 0] => Some(self.plain_way()),
            [_, 0] => Some(Way::Send),
            [0, _] => Some(Way::Receive),
            _ => None,
        }
    }

    /// The rows of this stream or sum in this direction.
    pub(super) fn rows_of(&self, key: Key) -> impl Iterator<Item = &FlowRow> {
        self.by
            .get(&key)
            .into_iter()
            .flatten()
            .map(|row| &self.rows[*row])
    }

    /// The stream that this label means; a new one where none was connected.
    pub(super) fn stream(
        &mut self,
        line: Line<'_>,
        label: &str,
        way: Way,
    ) -> Result<usize, ImportError> {
        if let Some(index) = self.by_label.get(&(label.to_owned(), way)) {
            return Ok(*index);
        }
        // The other way of a connection that carries both.
        let other = self.labelled(label, way);
        let index = self.connect(line, label, way)?;
        if let Some(other) = other {
            let (local, remote) = (
                self.streams[other].local.clone(),
                self.streams[other].remote.clone(),
            );
            (self.streams[index].local, self.streams[index].remote) = (local, remote);
        }
        Ok(index)
    }

    /// The stream with this label, whichever way it goes.
    pub(super) fn labelled(&self, label: &str, first: Way) -> Option<usize> {
        let other = match first {
            Way::Send => Way::Receive,
            Way::Receive => Way::Send,
        };
        [first, other]
            .into_iter()
            .find_map(|way| self.by_label.get(&(label.to_owned(), way)).copied())
    }
}
