//! The one fold of HTTP runs: requests and connections in, seconds, figures and series out, in bounded memory.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::measure::outcome::Outcome;
use crate::measure::plan::{Kind, Plan};
use crate::measure::sample::{Batch, ConnectionSample, Ended, RequestSample};
use crate::measure::series::{Dot, HttpSeries};
use crate::measure::stats::spread::Spread;
use crate::measure::summary::answerers::{Answerers, nanos_of_ms, transfer};
use crate::measure::summary::counts::{Counts, SoFar, count_at, count_status, merge_status};
use crate::measure::summary::seconds::Seconds;
use crate::measure::summary::texts::Texts;
use crate::measure::summary::timeline::{Mark, Timeline};
use crate::measure::summary::{
    Cpu, HttperfErrors, ServerTimingFigures, StatusClasses, Summary, curves, fetch, rate, users,
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
    pub(super) so_far: SoFar,
}

impl HttpFold {
    /// An empty fold for an HTTP run of this plan.
    pub fn new(plan: &Plan) -> Self {
        let (kind, planned_window_s) = match plan {
            Plan::Rate(plan) => (Kind::Rate, plan.sending_s()),
            Plan::Users(plan) => (Kind::Users, plan.duration_s),
            _ => (Kind::Fetch, None),
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
            _ => Summary::Fetch(Box::new(fetch::summary(self, ended))),
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

    /// The end of a run that was cut off: whatever has no outcome by then counts as unsent.
    pub fn cut_off(&self, planned: Option<u64>) -> Ended {
        Ended {
            unsent: planned.map_or(0, |planned| planned.saturating_sub(self.counts.ended)),
            stopped: true,
            ..self.so_far(planned)
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
