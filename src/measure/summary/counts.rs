//! Plain counts of a fold, and how far its run has come.

use std::time::Duration;

use crate::measure::sample::{Batch, RequestSample};
use crate::measure::summary::{HttpInterval, StatusClasses};

/// Sums over all requests and connections.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    pub(super) ended: u64,
    pub(super) written: u64,
    pub(super) replies: u64,
    pub(super) retried: u64,
    pub(super) bytes_sent: u64,
    pub(super) bytes_received: u64,
    pub(super) content_received: u64,
    pub(super) reply_header: u64,
    pub(super) reply_content: u64,
    pub(super) reply_footer: u64,
    pub(super) connections: u64,
    pub(super) connections_with_reply: u64,
    pub(super) replies_on_connections: u64,
}

/// What stands in for the end of a run that still runs.
#[derive(Clone, Debug, Default)]
pub(super) struct SoFar {
    pub(super) until: Duration,
    pub(super) sent: u64,
    pub(super) unsent: u64,
    pub(super) open_connections: u32,
    pub(super) concurrent_max: u32,
    pub(super) in_flight: u32,
    pub(super) in_flight_seconds: f64,
}

impl Counts {
    pub(super) fn request(&mut self, sample: &RequestSample) {
        let (header, footer) = (sample.header_bytes, sample.footer_bytes);
        self.ended += 1;
        self.written += u64::from(sample.wrote.is_some());
        self.retried += u64::from(sample.retried_stale);
        self.bytes_sent += u64::from(sample.sent_bytes);
        self.bytes_received += u64::from(header) + sample.content_bytes + u64::from(footer);
        self.content_received += sample.content_bytes;
        if sample.outcome.is_reply() {
            self.replies += 1;
            self.reply_header += u64::from(header);
            self.reply_content += sample.content_bytes;
            self.reply_footer += u64::from(footer);
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.ended += other.ended;
        self.written += other.written;
        self.replies += other.replies;
        self.retried += other.retried;
        self.bytes_sent += other.bytes_sent;
        self.bytes_received += other.bytes_received;
        self.content_received += other.content_received;
        self.reply_header += other.reply_header;
        self.reply_content += other.reply_content;
        self.reply_footer += other.reply_footer;
        self.connections += other.connections;
        self.connections_with_reply += other.connections_with_reply;
        self.replies_on_connections += other.replies_on_connections;
    }
}

impl SoFar {
    /// Takes over from stored seconds how far the run had come.
    pub(super) fn restore(&mut self, intervals: &[HttpInterval]) {
        let length = |interval: &HttpInterval| interval.end_s - interval.start_s;
        let until = intervals.iter().map(|i| i.end_s).fold(0.0, f64::max);
        self.until = Duration::try_from_secs_f64(until).unwrap_or_default();
        self.sent = intervals.iter().map(|i| i.requests).sum();
        self.in_flight_seconds = intervals
            .iter()
            .map(|interval| interval.in_flight as f64 * length(interval))
            .sum();
    }

    pub(super) fn take(&mut self, batch: &Batch) {
        let gap = batch.until.saturating_sub(self.until).as_secs_f64();
        let mean = f64::midpoint(f64::from(self.in_flight), f64::from(batch.in_flight));
        self.in_flight_seconds += gap * mean;
        self.until = self.until.max(batch.until);
        self.sent += batch.sent;
        self.unsent += batch.unsent;
        self.in_flight = batch.in_flight;
        self.open_connections = batch.open_connections;
        self.concurrent_max = self.concurrent_max.max(batch.open_connections);
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.until = self.until.max(other.until);
        self.sent += other.sent;
        self.unsent += other.unsent;
        self.in_flight += other.in_flight;
        self.open_connections += other.open_connections;
        self.concurrent_max += other.concurrent_max;
        self.in_flight_seconds += other.in_flight_seconds;
    }
}

pub(super) fn count_status(classes: &mut StatusClasses, status: Option<u16>) {
    match status {
        Some(100..=199) => classes.c1xx += 1,
        Some(200..=299) => classes.c2xx += 1,
        Some(300..=399) => classes.c3xx += 1,
        Some(400..=499) => classes.c4xx += 1,
        Some(500..=599) => classes.c5xx += 1,
        _ => {}
    }
}

pub(super) fn merge_status(mine: &mut StatusClasses, theirs: &StatusClasses) {
    mine.c1xx += theirs.c1xx;
    mine.c2xx += theirs.c2xx;
    mine.c3xx += theirs.c3xx;
    mine.c4xx += theirs.c4xx;
    mine.c5xx += theirs.c5xx;
}

pub(super) fn count_at(counts: &mut Vec<u64>, index: u64) {
    // A run lasts a day at most; what claims to end later counts as the last of its windows.
    let index = usize::try_from(index).unwrap_or(usize::MAX).min(1 << 17);
    if index >= counts.len() {
        counts.resize(index + 1, 0);
    }
    counts[index] += 1;
}
