//! How calls end: the sample that is written down, and what becomes of the connection.

use std::sync::Arc;
use std::time::Duration;

use super::Worker;
use super::connections::Stage;
use crate::measure::outcome::Outcome;
use crate::measure::sample::{RequestSample, ServerTiming};
use crate::runner::load::{AfterFailure, Reuse};

impl Worker<'_> {
    /// The reply is complete at `now`; `extra` when bytes followed that nobody asked for.
    pub(super) fn reply_complete(&mut self, index: u32, now: Duration, extra: bool) {
        let connection = &self.connections[index as usize];
        let Some(session) = connection.session else {
            return;
        };
        let status = connection.decoder.status().unwrap_or(0);
        let kept = connection.decoder.keep_alive();
        let whole = connection.stage == Stage::Waiting && !connection.reset;
        let usable = kept && whole && !extra && !connection.closed;
        let closed_silently = kept && connection.closed;
        let sample = self.sample(session, Some(index), Outcome::of_status(status), None, now);
        self.timeouts.remove(session);
        self.record.ended(sample);
        let connection = &mut self.connections[index as usize];
        connection.replies += 1;
        connection.stage = Stage::Idle;
        let more = match self.reuse {
            Reuse::Never => false,
            Reuse::InSession => !self.is_last(session),
            Reuse::Pool => true,
        };
        if !more || !usable {
            self.sessions[session as usize].stale = more && closed_silently;
            self.linger(index, now);
        }
        self.after_reply(session, now);
    }

    /// The call on this connection failed.
    pub(super) fn fail(&mut self, index: u32, outcome: Outcome, detail: String) {
        let Some(session) = self.connections[index as usize].session else {
            self.drop_connection(index);
            return;
        };
        let now = self.epoch.elapsed();
        let detail = self.record.detail(detail);
        let sample = self.sample(session, Some(index), outcome, Some(detail), now);
        if self.load.after_failure() == AfterFailure::Lose {
            let state = &self.sessions[session as usize];
            let left = state.calls - state.call - 1;
            self.record.lost(&sample, left);
        }
        self.timeouts.remove(session);
        self.record.ended(sample);
        self.drop_connection(index);
        self.after_failure(session, outcome, now);
    }

    /// The run is stopped while the session's call is under way.
    pub(super) fn give_up(&mut self, session: u32) {
        let now = self.epoch.elapsed();
        let connection = self.sessions[session as usize].connection;
        let sample = self.sample(session, connection, Outcome::AbortedAtStop, None, now);
        self.sessions[session as usize].under_way = false;
        self.timeouts.remove(session);
        self.record.ended(sample);
        if let Some(connection) = connection {
            self.drop_connection(connection);
        }
    }

    /// The call under way, as it stands at `ended`.
    fn sample(
        &mut self,
        session: u32,
        connection: Option<u32>,
        outcome: Outcome,
        detail: Option<Arc<str>>,
        ended: Duration,
    ) -> RequestSample {
        let state = &self.sessions[session as usize];
        let mut sample = RequestSample {
            seq: state.seq,
            url: u16::try_from(state.url).unwrap_or(u16::MAX),
            scheduled: state.scheduled,
            started: Some(state.started),
            connect: None,
            tls: None,
            wrote: None,
            first_byte: None,
            ended,
            status: None,
            header_bytes: 0,
            content_bytes: 0,
            footer_bytes: 0,
            sent_bytes: 0,
            outcome,
            retried_stale: state.retried,
            served_by: None,
            region: None,
            server_timing: None,
            detail,
        };
        let Some(connection) = connection else {
            return sample;
        };
        let connection = &mut self.connections[connection as usize];
        if connection.replies == 0 {
            sample.connect = connection.connect;
            sample.tls = connection.tls;
        }
        sample.wrote = connection.wrote;
        sample.first_byte = connection.first_byte;
        let decoder = &mut connection.decoder;
        sample.status = decoder.status();
        sample.header_bytes = decoder.header_bytes();
        sample.content_bytes = decoder.content_bytes();
        sample.footer_bytes = decoder.footer_bytes();
        sample.sent_bytes = u32::try_from(connection.written).unwrap_or(u32::MAX);
        let (served_by, region, timing) = decoder.take_said();
        sample.served_by = served_by;
        sample.region = region;
        sample.server_timing = timing.map(|timing| ServerTiming {
            queue_ms: timing.queue_ms,
            compute_ms: timing.compute_ms,
            encode_ms: timing.encode_ms,
        });
        if sample.status.is_some() {
            let (identity, region) = self.names.by_address();
            let name = &self.spec.sites[state.url].address_name;
            if identity {
                sample.served_by = Some(Arc::clone(name));
            }
            if region {
                sample.region = Some(Arc::clone(name));
            }
        }
        sample
    }
}
