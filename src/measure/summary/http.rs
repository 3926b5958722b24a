//! The one fold of HTTP runs: requests and connections in, seconds, figures and series out, in bounded memory.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::measure::outcome::Outcome;
use crate::measure::plan::{Kind, Plan};
use crate::measure::sample::{Batch, ConnectionSample, Ended, RequestSample};
use crate::measure::series::{Dot, HttpSeries};
use crate::measure::stats::spread::Spread;
use crate::measure::summary::answerers::{Answerers, nanos_of_ms, transfer};
use crate::measure::summary::seconds::Seconds;
use crate::measure::summary::texts::Texts;
use crate::measure::summary::timeline::{Mark, Timeline};
use crate::measure::summary::{
    Cpu, HttpInterval, HttperfErrors, ServerTimingFigures, StatusClasses, Summary, curves, fetch,
    rate, users,
};

pub use crate::measure::summary::seconds::ClosedSecond;

/// A run of at most this many requests keeps a mark for each.
const MAX_DOTS: usize = 400;

/// Everything that reports of a rate, users or fetch run are made of.
///
/// Merging two folds equals having pushed all into one. Memory does not depend on how many requests there are.
#[derive(Clone, Debug)]
pub struct HttpFold {
    pub(super) kind: Kind,
    pub(super) planned_window_s: Option<f64>,
    pub(super) counts: Counts,
    pub(super) outcomes: [u64; Outcome::ALL.len()],
    /// Latency of complete replies.
    pub(super) replied: Spread,
    /// Latency (age) of timeouts.
    pub(super) timed_out: Spread,
    pub(super) service: Spread,
    pub(super) lateness: Spread,
    pub(super) connect: Spread,
    pub(super) tls: Spread,
    pub(super) response: Spread,
    pub(super) transfer: Spread,
    pub(super) connection_time: Spread,
    /// Queue, compute, encode.
    pub(super) server: Option<Box<[Spread; 3]>>,
    pub(super) status: StatusClasses,
    /// Replies that ended in each five seconds.
    pub(super) five_seconds: Vec<u64>,
    pub(super) backends: Answerers,
    pub(super) regions: Answerers,
    pub(super) texts: Texts,
    pub(super) timeline: Timeline,
    pub(super) seconds: Seconds,
    pub(super) dots: Vec<(u64, Dot)>,
    /// The first request, whole, for a run of one.
    pub(super) first: Option<Box<RequestSample>>,
    so_far: SoFar,
}

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
struct SoFar {
    until: Duration,
    sent: u64,
    unsent: u64,
    open_connections: u32,
    concurrent_max: u32,
    in_flight: u32,
    in_flight_seconds: f64,
}

impl HttpFold {
    /// An empty fold for a run of this plan.
    pub fn new(plan: &Plan) -> Self {
        let (kind, planned_window_s) = match plan {
            Plan::Rate(plan) => (Kind::Rate, plan.sending_s()),
            Plan::Users(plan) => (Kind::Users, plan.duration_s),
            Plan::Fetch(_) => (Kind::Fetch, None),
        };
        Self {
            kind,
            planned_window_s,
            counts: Counts::default(),
            outcomes: [0; Outcome::ALL.len()],
            replied: Spread::fine(),
            timed_out: Spread::fine(),
            service: Spread::fine(),
            lateness: Spread::fine(),
            connect: Spread::fine(),
            tls: Spread::fine(),
            response: Spread::fine(),
            transfer: Spread::fine(),
            connection_time: Spread::fine(),
            server: None,
            status: StatusClasses::default(),
            five_seconds: Vec::new(),
            backends: Answerers::default(),
            regions: Answerers::default(),
            texts: Texts::default(),
            timeline: Timeline::default(),
            seconds: Seconds::default(),
            dots: Vec::new(),
            first: None,
            so_far: SoFar::default(),
        }
    }

    /// Adds what ended since the batch before, and hands out the seconds that are complete now.
    pub fn push(&mut self, batch: &Batch) -> Vec<ClosedSecond> {
        for sample in &batch.requests {
            self.request(sample);
        }
        for connection in &batch.connections {
            self.connection(connection);
        }
        self.so_far.take(batch);
        self.seconds.advance(batch)
    }

    /// Hands out the seconds that are left, the last one up to where the run ended.
    pub fn finish_seconds(&mut self, until: Duration) -> Vec<ClosedSecond> {
        self.seconds.finish(until)
    }

    /// Adds all that the other has seen.
    pub fn merge(&mut self, other: Self) {
        self.counts.merge(&other.counts);
        for (mine, theirs) in self.outcomes.iter_mut().zip(other.outcomes) {
            *mine += theirs;
        }
        let mine = [
            &mut self.replied,
            &mut self.timed_out,
            &mut self.service,
            &mut self.lateness,
            &mut self.connect,
            &mut self.tls,
            &mut self.response,
            &mut self.transfer,
            &mut self.connection_time,
        ];
        let theirs = [
            &other.replied,
            &other.timed_out,
            &other.service,
            &other.lateness,
            &other.connect,
            &other.tls,
            &other.response,
            &other.transfer,
            &other.connection_time,
        ];
        for (mine, theirs) in mine.into_iter().zip(theirs) {
            mine.merge(theirs);
        }
        if let Some(theirs) = &other.server {
            let mine = self.server.get_or_insert_with(server_spreads);
            for (mine, theirs) in mine.iter_mut().zip(theirs.iter()) {
                mine.merge(theirs);
            }
        }
        merge_status(&mut self.status, &other.status);
        if self.five_seconds.len() < other.five_seconds.len() {
            self.five_seconds.resize(other.five_seconds.len(), 0);
        }
        for (mine, theirs) in self.five_seconds.iter_mut().zip(&other.five_seconds) {
            *mine += theirs;
        }
        let (backends, given_up) = self.backends.merge(&other.backends);
        for slot in given_up {
            self.timeline.give_up_backend(slot);
        }
        let (regions, given_up) = self.regions.merge(&other.regions);
        for slot in given_up {
            self.timeline.give_up_region(slot);
        }
        self.timeline.merge(other.timeline, &backends, &regions);
        self.texts.merge(&other.texts);
        self.seconds.merge(other.seconds);
        self.dots.extend(other.dots);
        // One more than is drawn stays, so that it is known that there were more.
        self.dots.truncate(MAX_DOTS + 1);
        self.first = match (self.first.take(), other.first) {
            (Some(mine), Some(theirs)) if theirs.seq < mine.seq => Some(theirs),
            (mine, theirs) => mine.or(theirs),
        };
        self.so_far.merge(&other.so_far);
    }

    /// How many requests have ended, rows kept or not.
    pub fn total_rows(&self) -> u64 {
        self.counts.ended
    }

    /// The figures, with what is known about the end.
    pub fn summary(&self, ended: &Ended) -> Summary {
        match self.kind {
            Kind::Rate => Summary::Rate(Box::new(rate::summary(self, ended))),
            Kind::Users => Summary::Users(Box::new(users::summary(self, ended))),
            Kind::Fetch => Summary::Fetch(Box::new(fetch::summary(self, ended))),
        }
    }

    /// What charts are drawn from.
    pub fn series(&self, ended: &Ended) -> HttpSeries {
        let (bins, bin_width_s) = self
            .timeline
            .bins(&self.backends.names, &self.regions.names);
        let few =
            self.counts.ended <= MAX_DOTS as u64 && self.dots.len() as u64 == self.counts.ended;
        HttpSeries {
            bins,
            bin_width_s,
            dots: few.then(|| {
                let mut dots = self.dots.clone();
                dots.sort_by(|a, b| a.1.at_s.total_cmp(&b.1.at_s).then(a.0.cmp(&b.0)));
                dots.into_iter().map(|(_, dot)| dot).collect()
            }),
            percentiles_all: curves::of_all(&self.replied, &self.timed_out, self.counts.ended),
            percentiles_replies: curves::of_replies(&self.replied),
            histogram: curves::histogram(&self.latency()),
            split: self.backends.split(),
            no_reply: self.counts.ended - self.counts.replies,
            covers_s: ended.duration.as_secs_f64(),
            planned_s: self.planned_window_s,
        }
    }

    /// An end made of what is known while the run still runs (or when its end was lost).
    pub fn so_far(&self, planned: Option<u64>) -> Ended {
        let so_far = &self.so_far;
        let window = self
            .planned_window_s
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
            .unwrap_or(so_far.until);
        Ended {
            duration: so_far.until,
            send_window: window.min(so_far.until),
            planned,
            unsent: so_far.unsent,
            concurrent_max: so_far.concurrent_max,
            in_flight_seconds: so_far.in_flight_seconds,
            ..Ended::default()
        }
    }

    /// Requests begun until now.
    pub fn begun(&self) -> u64 {
        self.so_far.sent
    }

    /// Requests under way at the end of the last batch.
    pub fn in_flight(&self) -> u32 {
        self.so_far.in_flight
    }

    /// Takes over from stored seconds how far the run had come.
    pub(super) fn restore_progress(&mut self, intervals: &[HttpInterval]) {
        let length = |interval: &HttpInterval| interval.end_s - interval.start_s;
        let until = intervals.iter().map(|i| i.end_s).fold(0.0, f64::max);
        self.so_far.until = Duration::try_from_secs_f64(until).unwrap_or_default();
        self.so_far.sent = intervals.iter().map(|i| i.requests).sum();
        self.so_far.in_flight_seconds = intervals
            .iter()
            .map(|interval| interval.in_flight as f64 * length(interval))
            .sum();
    }

    pub(super) fn request(&mut self, sample: &RequestSample) {
        let outcome = sample.outcome;
        let reply = outcome.is_reply();
        let latency = (reply || outcome.is_timeout()).then(|| sample.latency());
        if self.counts.ended <= MAX_DOTS as u64 {
            self.remember(sample);
        }
        self.counts.request(sample);
        self.outcomes[outcome as usize] += 1;
        if let Some(latency) = latency {
            let spread = if reply {
                &mut self.replied
            } else {
                &mut self.timed_out
            };
            spread.push(latency);
            if let Some(service) = sample.service_time() {
                self.service.push(service);
            }
        }
        if let Some(lateness) = sample.lateness() {
            self.lateness.push(lateness);
        }
        if let Some((wrote, first_byte)) = sample.wrote.zip(sample.first_byte) {
            self.response.push(first_byte.saturating_sub(wrote));
        }
        if outcome != Outcome::Ok {
            self.texts.push(outcome, sample.detail.as_ref());
        }
        let (mut backend, mut region) = (None, None);
        if reply {
            if let Some(transfer) = transfer(sample) {
                self.transfer.push(transfer);
            }
            count_status(&mut self.status, sample.status);
            count_at(&mut self.five_seconds, sample.ended.as_secs() / 5);
            backend = Some(self.backend(sample));
            region = Some(self.region(sample));
            self.server_timing(sample);
        }
        self.timeline.push(&Mark {
            scheduled: sample.scheduled,
            ended: sample.ended,
            outcome,
            latency,
            lateness: sample.lateness(),
            served_by: backend,
            region,
        });
        self.seconds.push(sample, latency);
    }

    fn remember(&mut self, sample: &RequestSample) {
        if self
            .first
            .as_ref()
            .is_none_or(|first| sample.seq < first.seq)
        {
            self.first = Some(Box::new(sample.clone()));
        }
        let dot = Dot {
            at_s: sample.scheduled.as_secs_f64(),
            latency_ms: sample.latency().as_secs_f64() * 1000.0,
            outcome: sample.outcome,
        };
        self.dots.push((sample.seq, dot));
    }

    fn backend(&mut self, sample: &RequestSample) -> usize {
        let (slot, given_up) = self.backends.slot(sample.served_by.as_ref());
        if let Some(slot) = given_up {
            self.timeline.give_up_backend(slot);
        }
        self.backends.push(slot, sample);
        slot
    }

    fn region(&mut self, sample: &RequestSample) -> usize {
        let (slot, given_up) = self.regions.slot(sample.region.as_ref());
        if let Some(slot) = given_up {
            self.timeline.give_up_region(slot);
        }
        self.regions.push(slot, sample);
        slot
    }

    fn server_timing(&mut self, sample: &RequestSample) {
        let Some(timing) = sample.server_timing else {
            return;
        };
        let spreads = self.server.get_or_insert_with(server_spreads);
        let parts = [timing.queue_ms, timing.compute_ms, timing.encode_ms];
        for (spread, part) in spreads.iter_mut().zip(parts) {
            if let Some(nanos) = nanos_of_ms(part) {
                spread.push_nanos(nanos, 1);
            }
        }
    }

    fn connection(&mut self, connection: &ConnectionSample) {
        self.counts.connections += 1;
        if let Some(connect) = connection.connect {
            self.connect.push(connect);
        }
        if let Some(tls) = connection.tls {
            self.tls.push(tls);
        }
        if connection.replies > 0 {
            self.counts.connections_with_reply += 1;
            self.counts.replies_on_connections += u64::from(connection.replies);
            let lifetime = connection.ended.saturating_sub(connection.started);
            self.connection_time.push(lifetime);
        }
    }

    /// Latency of replies and timeouts together.
    pub(super) fn latency(&self) -> Spread {
        let mut all = self.replied.clone();
        all.merge(&self.timed_out);
        all
    }

    pub(super) fn of(&self, outcome: Outcome) -> u64 {
        self.outcomes[outcome as usize]
    }

    /// Connections begun, those still open included.
    pub(super) fn connections(&self) -> u64 {
        self.counts.connections + u64::from(self.so_far.open_connections)
    }

    pub(super) fn outcomes(&self) -> BTreeMap<String, u64> {
        Outcome::ALL
            .into_iter()
            .map(|outcome| (outcome.key().to_owned(), self.of(outcome)))
            .collect()
    }

    pub(super) fn server_timing_figures(&self) -> Option<ServerTimingFigures> {
        let [queue, compute, encode] = &**self.server.as_ref()?;
        Some(ServerTimingFigures {
            queue: queue.avg_p99(),
            compute: compute.avg_p99(),
            encode: encode.avg_p99(),
        })
    }

    /// httperf's eight names; a request cut off when the run was stopped is none of them.
    pub(super) fn errors(&self) -> HttperfErrors {
        let sum = |outcomes: &[Outcome]| outcomes.iter().map(|o| self.of(*o)).sum();
        let mut errors = HttperfErrors {
            total: 0,
            client_timo: sum(&[
                Outcome::ConnectTimeout,
                Outcome::SendTimeout,
                Outcome::TtfbTimeout,
                Outcome::TotalTimeout,
            ]),
            socket_timo: self.of(Outcome::ConnectTimeoutKernel),
            connrefused: self.of(Outcome::ConnectRefused),
            connreset: sum(&[
                Outcome::ResetBeforeReply,
                Outcome::ResetInBody,
                Outcome::EmptyReply,
                Outcome::Truncated,
            ]),
            fd_unavail: self.of(Outcome::FdExhausted),
            addrunavail: self.of(Outcome::PortExhausted),
            ftab_full: self.of(Outcome::FtabFull),
            other: sum(&[
                Outcome::InvalidReply,
                Outcome::Unreachable,
                Outcome::TlsFailed,
                Outcome::DnsFailed,
                Outcome::Other,
            ]),
        };
        errors.total = errors.client_timo
            + errors.socket_timo
            + errors.connrefused
            + errors.connreset
            + errors.fd_unavail
            + errors.addrunavail
            + errors.ftab_full
            + errors.other;
        errors
    }
}

impl Counts {
    fn request(&mut self, sample: &RequestSample) {
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

    fn merge(&mut self, other: &Self) {
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
    fn take(&mut self, batch: &Batch) {
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

    fn merge(&mut self, other: &Self) {
        self.until = self.until.max(other.until);
        self.sent += other.sent;
        self.unsent += other.unsent;
        self.in_flight += other.in_flight;
        self.open_connections += other.open_connections;
        self.concurrent_max += other.concurrent_max;
        self.in_flight_seconds += other.in_flight_seconds;
    }
}

/// CPU time over the run's duration.
pub(super) fn cpu(ended: &Ended) -> Cpu {
    let (user_s, system_s) = (ended.cpu_user.as_secs_f64(), ended.cpu_system.as_secs_f64());
    Cpu {
        user_s,
        system_s,
        percent: over(user_s + system_s, ended.duration.as_secs_f64()).map(|share| share * 100.0),
    }
}

/// a / b; `None` where there is nothing to divide by.
pub(super) fn over(a: f64, b: f64) -> Option<f64> {
    (b > 0.0).then(|| a / b)
}

/// A mean of a count over a count; `None` over nothing.
pub(super) fn mean(sum: u64, count: u64) -> Option<f64> {
    over(sum as f64, count as f64)
}

fn server_spreads() -> Box<[Spread; 3]> {
    Box::new([Spread::fine(), Spread::fine(), Spread::fine()])
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

fn merge_status(mine: &mut StatusClasses, theirs: &StatusClasses) {
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
