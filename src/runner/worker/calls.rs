//! Sessions and their calls: beginning, going on, losing, giving up.

use std::cmp::Reverse;
use std::time::Duration;

use super::{Session, Worker};
use crate::measure::outcome::Outcome;
use crate::runner::load::{AfterFailure, Due, Reuse};
use crate::runner::record::failed_to_connect;

/// A user whose connection could not be made waits this long: trying at once would only burn CPU.
const GENTLE: Duration = Duration::from_millis(10);
/// How deep calls may nest that end while they are sent.
const DEPTH: u32 = 4;

impl Worker<'_> {
    pub(super) fn begin_session(&mut self, due: Due) {
        let session = Session {
            number: due.number,
            calls: due.calls,
            pauses: due.pauses,
            choice: due.choice,
            live: true,
            ..Session::default()
        };
        let index = if let Some(index) = self.free_sessions.pop() {
            self.sessions[index as usize] = session;
            index
        } else {
            self.sessions.push(session);
            u32::try_from(self.sessions.len() - 1).unwrap_or(u32::MAX)
        };
        self.active += 1;
        if due.calls != u64::MAX {
            self.record.totals.planned += due.calls;
        }
        self.next_call(index, due.at);
    }

    /// Begins the session's next call, which was due at `scheduled`; ends the session when there is none.
    pub(super) fn next_call(&mut self, index: u32, scheduled: Duration) {
        let now = self.epoch.elapsed();
        let over = self.load.closes_at().is_some_and(|at| now >= at);
        let session = &mut self.sessions[index as usize];
        if session.call >= session.calls || over {
            self.end_session(index, false);
            return;
        }
        let seq = self.load.seq(session.number, session.call);
        session.seq = seq;
        session.url = match &session.choice {
            Some(choice) => choice.at(session.call),
            // Where URLs have different origins, a connection asks for one of them only.
            None if self.spec.sites.len() == 1 => 0,
            None if self.spec.one_origin || session.calls == u64::MAX => self.choice.at(seq),
            None => self.choice.at(session.number),
        };
        // Without a plan of instants none can be missed: that the loop turned late is no latency of the target.
        session.scheduled = if self.load.is_paced_by_replies() {
            now
        } else {
            scheduled
        };
        session.started = now;
        session.retried = std::mem::take(&mut session.stale);
        session.under_way = true;
        self.record.begun(now);
        self.timeouts
            .add(index, now.saturating_add(self.spec.timeout));
        self.send_call(index);
    }

    /// Sends the call under way over the session's connection, an idle one, or a new one.
    pub(super) fn send_call(&mut self, index: u32) {
        let session = &self.sessions[index as usize];
        let origin = self.spec.sites[session.url].origin;
        if let Some(connection) = session.connection {
            if self.connections[connection as usize].origin == origin {
                self.send_on(connection);
                return;
            }
            self.drop_connection(connection);
        }
        if let Some(connection) = self.idle[origin as usize].pop() {
            self.adopt(connection, index);
            self.send_on(connection);
            return;
        }
        self.connect(index);
    }

    /// Whether the call under way is its connection's last.
    pub(super) fn is_last(&self, index: u32) -> bool {
        let session = &self.sessions[index as usize];
        match self.reuse {
            Reuse::Never => true,
            Reuse::Pool => false,
            Reuse::InSession => session.call + 1 >= session.calls,
        }
    }

    /// A call ended with a reply at `now`; the session goes on.
    pub(super) fn after_reply(&mut self, index: u32, now: Duration) {
        let session = &mut self.sessions[index as usize];
        session.under_way = false;
        session.call += 1;
        let pause = session.pauses.as_mut().and_then(Iterator::next);
        let connected = session.connection.is_some();
        let over = session.call >= session.calls;
        match pause.filter(|pause| !pause.is_zero()) {
            Some(pause) if !over => self.pause(index, now + pause),
            // Calls that end while they are sent nest; beyond a few they go on in the next pass.
            None if !connected && !over && self.depth >= DEPTH => self.pause(index, now),
            _ => {
                self.depth += 1;
                self.next_call(index, now);
                self.depth -= 1;
            }
        }
    }

    /// The session's next call is due at `until`, or never when the run closes before.
    fn pause(&mut self, index: u32, until: Duration) {
        let until = self.load.closes_at().map_or(until, |at| until.min(at));
        self.pausing.push(Reverse((until, index)));
    }

    /// A call failed at `now`, and its connection with it.
    pub(super) fn after_failure(&mut self, index: u32, outcome: Outcome, now: Duration) {
        let connecting = failed_to_connect(outcome);
        let session = &mut self.sessions[index as usize];
        session.under_way = false;
        session.call += 1;
        match self.load.after_failure() {
            AfterFailure::Lose => self.end_session(index, connecting),
            AfterFailure::GoOn => {
                let pause = session.pauses.as_mut().and_then(Iterator::next);
                let least = if connecting { GENTLE } else { Duration::ZERO };
                let pause = pause.unwrap_or_default().max(least);
                self.pause(index, now + pause);
            }
        }
    }

    /// The session is over; its connection, if it still has one, may serve another.
    pub(super) fn end_session(&mut self, index: u32, gently: bool) {
        if let Some(connection) = self.sessions[index as usize].connection.take() {
            self.leave(connection);
        }
        self.sessions[index as usize].live = false;
        self.free_sessions.push(index);
        self.active -= 1;
        let now = self.epoch.elapsed();
        self.load.session_ended(now, gently);
    }

    /// The call's time is up.
    pub(super) fn time_out(&mut self, index: u32) {
        let session = &self.sessions[index as usize];
        let Some(connection) = session.connection else {
            return;
        };
        let outcome = self.connections[connection as usize].timeout_outcome();
        let limit = self.spec.timeout.as_secs_f64();
        let what = match outcome {
            Outcome::ConnectTimeout => "not connected",
            Outcome::SendTimeout => "request not taken",
            Outcome::TtfbTimeout => "no reply",
            _ => "reply not complete",
        };
        self.fail(connection, outcome, format!("{what} after {limit} s"));
    }

    /// Nothing further is begun; what is under way goes on to its end.
    pub(super) fn end_sending(&mut self, now: Duration) {
        if self.sending_over.is_some() || self.load.is_over() {
            return;
        }
        self.sending_over = Some(now);
        let unsent = self.load.give_up();
        // One after another until there are enough: nobody planned the rest.
        if !self.load.is_paced_by_replies() {
            self.record.totals.stopped = true;
            self.record.totals.planned += unsent;
            self.record.unsent(unsent);
        }
    }

    /// The run was stopped: gives up what is under way and counts what was never begun.
    pub(super) fn abort(&mut self) {
        self.record.totals.stopped = true;
        for index in 0..u32::try_from(self.sessions.len()).unwrap_or(u32::MAX) {
            let session = &mut self.sessions[index as usize];
            if !session.live {
                continue;
            }
            let begun = u64::from(session.under_way);
            if session.calls != u64::MAX {
                let unsent = session.calls.saturating_sub(session.call + begun);
                session.calls = session.call + begun;
                self.record.unsent(unsent);
            }
            if self.sessions[index as usize].under_way {
                self.give_up(index);
            }
        }
        self.pausing.clear();
        self.active = 0;
        let unsent = self.load.give_up();
        self.record.totals.planned += unsent;
        self.record.unsent(unsent);
    }
}
