//! What a generator thread writes down, handed over a few times a second.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

use crate::measure::outcome::Outcome;
use crate::measure::sample::{Batch, ConnectionSample, RequestSample};
use crate::net::sys::CpuTimes;

/// How often batches are handed over.
pub(super) const PERIOD: Duration = Duration::from_millis(250);
/// Lost calls written into one batch at most: a connection may lose a million at once.
const LOST_PER_BATCH: u64 = 50_000;

/// What a thread sends to the caller.
pub(super) struct Message {
    pub(super) thread: usize,
    /// What it did since the message before.
    pub(super) part: Batch,
    /// With its last message: it is done.
    pub(super) totals: Option<Totals>,
}

/// What a thread knows once it is done.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    /// End of its last request.
    pub(super) last_end: Duration,
    /// Start of its last request.
    pub(super) last_start: Duration,
    /// Until when it offered load (a stopped run: until the stop).
    pub(super) offered_until: Duration,
    pub(super) burst_max: u32,
    pub(super) concurrent_max: u32,
    pub(super) in_flight_seconds: f64,
    pub(super) cpu: CpuTimes,
    /// Requests that its part of the plan came to.
    pub(super) planned: u64,
    pub(super) unsent: u64,
    pub(super) stopped: bool,
}

/// Counts that the limit of requests under way needs over all threads.
#[derive(Debug, Default)]
pub(super) struct Gauges {
    in_flight: AtomicU32,
    open: AtomicU32,
}

/// Calls that were lost with their connection and are still to be written down.
#[derive(Debug)]
struct Lost {
    sample: RequestSample,
    left: u64,
}

/// The book of one thread.
pub(super) struct Record {
    thread: usize,
    sender: Sender<Message>,
    batch: Batch,
    lost: VecDeque<Lost>,
    in_flight: u32,
    open: u32,
    gauges: Arc<Gauges>,
    pub(super) totals: Totals,
    last_detail: Option<Arc<str>>,
}

impl Record {
    pub(super) fn new(thread: usize, sender: Sender<Message>, gauges: Arc<Gauges>) -> Self {
        Self {
            thread,
            sender,
            batch: Batch::default(),
            lost: VecDeque::new(),
            in_flight: 0,
            open: 0,
            gauges,
            totals: Totals::default(),
            last_detail: None,
        }
    }

    /// Requests under way on all threads.
    pub(super) fn in_flight_everywhere(&self) -> u32 {
        self.gauges.in_flight.load(Ordering::Relaxed)
    }

    /// A request has begun.
    pub(super) fn begun(&mut self, now: Duration) {
        self.batch.sent += 1;
        self.in_flight += 1;
        self.gauges.in_flight.fetch_add(1, Ordering::Relaxed);
        self.totals.last_start = self.totals.last_start.max(now);
    }

    /// A request has ended.
    pub(super) fn ended(&mut self, sample: RequestSample) {
        self.in_flight -= 1;
        self.gauges.in_flight.fetch_sub(1, Ordering::Relaxed);
        self.totals.last_end = self.totals.last_end.max(sample.ended);
        let under_way = sample.service_time().unwrap_or_default();
        self.totals.in_flight_seconds += under_way.as_secs_f64();
        self.batch.requests.push(sample);
    }

    /// `count` further calls end as `like` did, without having begun.
    pub(super) fn lost(&mut self, like: &RequestSample, count: u64) {
        if count == 0 {
            return;
        }
        let sample = RequestSample {
            seq: like.seq + 1,
            started: None,
            connect: None,
            tls: None,
            wrote: None,
            first_byte: None,
            status: None,
            header_bytes: 0,
            content_bytes: 0,
            footer_bytes: 0,
            sent_bytes: 0,
            retried_stale: false,
            served_by: None,
            region: None,
            server_timing: None,
            ..like.clone()
        };
        self.lost.push_back(Lost {
            sample,
            left: count,
        });
    }

    /// `count` requests will never be begun.
    pub(super) fn unsent(&mut self, count: u64) {
        self.batch.unsent += count;
        self.totals.unsent += count;
    }

    /// A connection was begun.
    pub(super) fn opened(&mut self) {
        self.open += 1;
        let open = self.gauges.open.fetch_add(1, Ordering::Relaxed) + 1;
        self.totals.concurrent_max = self.totals.concurrent_max.max(open);
    }

    /// A connection is over.
    pub(super) fn closed(&mut self, sample: ConnectionSample) {
        self.open -= 1;
        self.gauges.open.fetch_sub(1, Ordering::Relaxed);
        self.batch.connections.push(sample);
    }

    /// The text as a sample's detail; repeated ones share their memory.
    pub(super) fn detail(&mut self, text: String) -> Arc<str> {
        if let Some(last) = self.last_detail.as_ref().filter(|last| ***last == *text) {
            return Arc::clone(last);
        }
        let detail: Arc<str> = if text.chars().count() > 120 {
            text.chars().take(120).collect::<String>().into()
        } else {
            text.into()
        };
        self.last_detail = Some(Arc::clone(&detail));
        detail
    }

    /// Hands over what happened until `now`.
    pub(super) fn hand_over(&mut self, now: Duration) {
        let part = self.part(now);
        self.send(part, None);
    }

    fn send(&self, part: Batch, totals: Option<Totals>) {
        // The caller only goes away when it panics; then nobody is left to tell.
        let _ = self.sender.send(Message {
            thread: self.thread,
            part,
            totals,
        });
    }

    fn part(&mut self, now: Duration) -> Batch {
        let mut room = LOST_PER_BATCH;
        while let Some(first) = self.lost.front_mut().filter(|_| room > 0) {
            let take = first.left.min(room);
            for _ in 0..take {
                self.batch.requests.push(first.sample.clone());
                first.sample.seq += 1;
            }
            room -= take;
            first.left -= take;
            if first.left == 0 {
                self.lost.pop_front();
            }
        }
        // Room for as much again, so that the next batch does not grow step by step.
        let next = Batch {
            requests: Vec::with_capacity(self.batch.requests.len()),
            connections: Vec::with_capacity(self.batch.connections.len()),
            ..Batch::default()
        };
        let mut batch = std::mem::replace(&mut self.batch, next);
        batch.until = now;
        batch.in_flight = self.in_flight;
        batch.open_connections = self.open;
        batch
    }

    /// Hands over the rest and says goodbye.
    pub(super) fn finish(mut self, now: Duration) {
        loop {
            let part = self.part(now);
            if self.lost.is_empty() {
                self.send(part, Some(self.totals));
                return;
            }
            self.send(part, None);
        }
    }
}

/// Whether it was connecting that failed, so that trying again at once would only burn CPU.
pub(super) const fn failed_to_connect(outcome: Outcome) -> bool {
    matches!(
        outcome,
        Outcome::ConnectRefused
            | Outcome::ConnectTimeoutKernel
            | Outcome::Unreachable
            | Outcome::FdExhausted
            | Outcome::FtabFull
            | Outcome::PortExhausted
            | Outcome::TlsFailed
            | Outcome::Other
    )
}
