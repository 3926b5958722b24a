//! Connections of a thread: opening, writing, reading, waiting for the server to close.

use std::io;
use std::time::Duration;

use mio::Token;

use super::Worker;
use crate::measure::outcome::Outcome;
use crate::measure::sample::ConnectionSample;
use crate::net::connect::{connect_outcome, describe, is_reset};
use crate::net::stream::{Got, Stream};
use crate::net::sys;
use crate::runner::load::Reuse;
use crate::wire::http1::{Cut, Decoder, Step};

/// How long the server may take to close a connection first after its last reply. Closing first ourselves would
/// keep the local port waiting for a minute (`TIME_WAIT`), which bounds new connections to about 470/s.
const LINGER: Duration = Duration::from_millis(200);
/// Idle connections kept at most, per origin and thread.
const POOL: usize = 4_096;

/// Where a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Not in use.
    Free,
    /// TCP is not up yet.
    Connecting,
    /// TCP is up, TLS is not.
    Handshake,
    /// The request is not completely written.
    Sending,
    /// The reply is not complete.
    Waiting,
    /// Between two calls.
    Idle,
    /// Done; the server is to close.
    Lingering,
}

/// How a peer ended a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Orderly,
    Reset,
}

/// One connection, its buffers used again by the next in its place.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts about a socket, not states"
)]
pub(super) struct Connection {
    pub(super) stream: Option<Stream>,
    /// Tells events of the one before in this place apart.
    generation: u32,
    pub(super) stage: Stage,
    pub(super) session: Option<u32>,
    pub(super) origin: u32,
    pub(super) decoder: Decoder,
    pub(super) opened: Duration,
    pub(super) connect: Option<Duration>,
    pub(super) tls: Option<Duration>,
    pub(super) replies: u32,
    pub(super) written: usize,
    /// The request goes in the form that says it is the last.
    last: bool,
    /// Since the call's start.
    pub(super) wrote: Option<Duration>,
    pub(super) first_byte: Option<Duration>,
    registered: bool,
    /// Writing met a reset: an end that follows is one too.
    pub(super) reset: bool,
    /// The peer is known to have closed.
    pub(super) closed: bool,
}

impl Connection {
    fn new(method: &str) -> Self {
        Self {
            stream: None,
            generation: 0,
            stage: Stage::Free,
            session: None,
            origin: 0,
            decoder: Decoder::new(method),
            opened: Duration::ZERO,
            connect: None,
            tls: None,
            replies: 0,
            written: 0,
            last: false,
            wrote: None,
            first_byte: None,
            registered: false,
            reset: false,
            closed: false,
        }
    }

    /// What it means that the call's time is up now.
    pub(super) const fn timeout_outcome(&self) -> Outcome {
        match self.stage {
            Stage::Connecting | Stage::Handshake => Outcome::ConnectTimeout,
            Stage::Sending => Outcome::SendTimeout,
            _ if self.decoder.seen() => Outcome::TotalTimeout,
            _ => Outcome::TtfbTimeout,
        }
    }
}

impl Worker<'_> {
    /// Opens a connection for the session's call and sends as soon as it is up.
    pub(super) fn connect(&mut self, session: u32) {
        let site = &self.spec.sites[self.sessions[session as usize].url];
        let opened = self.epoch.elapsed();
        self.burst += 1;
        self.record.opened();
        let index = self.free_connections.pop().unwrap_or_else(|| {
            self.connections.push(Connection::new(&self.spec.method));
            u32::try_from(self.connections.len() - 1).unwrap_or(u32::MAX)
        });
        let connection = &mut self.connections[index as usize];
        connection.session = Some(session);
        connection.origin = site.origin;
        connection.opened = opened;
        connection.connect = None;
        connection.tls = None;
        connection.replies = 0;
        connection.registered = false;
        connection.closed = false;
        connection.stage = Stage::Connecting;
        connection.stream = None;
        self.sessions[session as usize].connection = Some(index);
        self.prepare(index);
        match Stream::open(site.address, self.spec.bind, site.tls.as_ref()) {
            Ok(stream) => self.connections[index as usize].stream = Some(stream),
            Err(error) => {
                self.fail(index, connect_outcome(&error), describe(&error));
                return;
            }
        }
        if site.tls.is_none() {
            // On a fast path the connection is up by now; then nothing waits for the poll.
            self.write_request(index);
            if !self.is_active(index, session) {
                return;
            }
        }
        self.register(index);
    }

    /// Makes the connection ready for the session's next request.
    fn prepare(&mut self, index: u32) {
        let connection = &mut self.connections[index as usize];
        connection.decoder.reset();
        connection.written = 0;
        connection.wrote = None;
        connection.first_byte = None;
        connection.reset = false;
        if let Some(session) = connection.session {
            let last = self.is_last(session);
            self.connections[index as usize].last = last;
        }
    }

    /// Sends the session's call over its connection, which is idle.
    pub(super) fn send_on(&mut self, index: u32) {
        self.prepare(index);
        self.connections[index as usize].stage = Stage::Sending;
        self.write_request(index);
    }

    fn is_active(&self, index: u32, session: u32) -> bool {
        let connection = &self.connections[index as usize];
        connection.session == Some(session)
            && matches!(
                connection.stage,
                Stage::Connecting | Stage::Handshake | Stage::Sending | Stage::Waiting
            )
            && connection.stream.is_some()
            && !connection.registered
    }

    fn token(&self, index: u32) -> Token {
        let generation = self.connections[index as usize].generation as usize;
        Token((generation & 0x7fff_ffff) << 32 | index as usize)
    }

    /// Has the poll report the connection; writing only where there is something to write.
    fn register(&mut self, index: u32) {
        let token = self.token(index);
        let connection = &mut self.connections[index as usize];
        let write = connection.stage != Stage::Waiting;
        let Some(stream) = &mut connection.stream else {
            return;
        };
        let result = stream.register(self.poll.registry(), token, write);
        connection.registered = true;
        if let Err(error) = result {
            self.fail(index, connect_outcome(&error), describe(&error));
        }
    }

    /// Something happened on a connection.
    pub(super) fn on_event(&mut self, token: Token, readable: bool, closed: bool) {
        let index = u32::try_from(token.0 & 0xffff_ffff).unwrap_or(u32::MAX);
        let generation = token.0 >> 32;
        let Some(connection) = self.connections.get_mut(index as usize) else {
            return;
        };
        if (connection.generation & 0x7fff_ffff) as usize != generation {
            return;
        }
        connection.closed |= closed;
        match connection.stage {
            Stage::Connecting => {
                if self.tcp_is_up(index) {
                    self.write_request(index);
                }
            }
            Stage::Handshake => self.shake_hands(index),
            Stage::Sending => {
                self.write_request(index);
                if readable && self.connections[index as usize].stage == Stage::Sending {
                    self.read_reply(index);
                }
            }
            Stage::Waiting => {
                if self.connections[index as usize]
                    .stream
                    .as_ref()
                    .is_some_and(Stream::wants_write)
                {
                    self.write_request(index);
                }
                if readable {
                    self.read_reply(index);
                }
            }
            Stage::Idle if readable => self.end_idle(index),
            Stage::Lingering if closed => {
                self.lingering.remove(index);
                self.drop_connection(index);
            }
            Stage::Free | Stage::Idle | Stage::Lingering => {}
        }
    }

    /// Whether a plain connection may try to write; with TLS, begins the handshake once TCP is up.
    fn tcp_is_up(&mut self, index: u32) -> bool {
        let now = self.epoch.elapsed();
        let connection = &mut self.connections[index as usize];
        let Some(stream) = &connection.stream else {
            return false;
        };
        if !stream.is_tls() {
            return true;
        }
        if let Err(error) = stream.connect_error() {
            self.fail(index, connect_outcome(&error), describe(&error));
        } else if stream.is_up() {
            connection.connect = Some(now.saturating_sub(connection.opened));
            connection.stage = Stage::Handshake;
            self.shake_hands(index);
        }
        false
    }

    fn shake_hands(&mut self, index: u32) {
        let connection = &mut self.connections[index as usize];
        let Some(stream) = &mut connection.stream else {
            return;
        };
        match stream.handshake() {
            Ok(false) => {}
            Ok(true) => {
                let up = connection.opened + connection.connect.unwrap_or_default();
                connection.tls = Some(self.epoch.elapsed().saturating_sub(up));
                connection.stage = Stage::Sending;
                self.write_request(index);
            }
            Err(error) => self.fail(index, Outcome::TlsFailed, describe(&error)),
        }
    }

    /// Writes on; a connection that is not up yet says so by not taking anything.
    fn write_request(&mut self, index: u32) {
        let connection = &mut self.connections[index as usize];
        let (Some(session), Some(stream)) = (connection.session, &mut connection.stream) else {
            return;
        };
        let site = &self.spec.sites[self.sessions[session as usize].url];
        let request = if connection.last {
            &site.last
        } else {
            &site.kept
        };
        // Before the write: on loopback it does half of the server's work.
        let mut connected = None;
        if connection.stage == Stage::Connecting {
            connected = Some(self.epoch.elapsed());
        }
        loop {
            match stream.write(&request[connection.written..]) {
                Ok(taken) => {
                    connection.written += taken;
                    if let Some(at) = connected.take() {
                        connection.connect = Some(at.saturating_sub(connection.opened));
                        connection.stage = Stage::Sending;
                    }
                    if connection.written == request.len() {
                        if connection.wrote.is_none() {
                            let started = self.sessions[session as usize].started;
                            connection.wrote = Some(self.epoch.elapsed().saturating_sub(started));
                        }
                        connection.stage = Stage::Waiting;
                        return;
                    }
                    if taken == 0 {
                        return;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if connection.stage != Stage::Connecting && connection.registered {
                        self.watch_writing(index);
                    }
                    return;
                }
                Err(error) if connection.stage == Stage::Connecting => {
                    self.fail(index, connect_outcome(&error), describe(&error));
                    return;
                }
                // The server may have answered before it closed: what came is worth reading.
                Err(_) => {
                    connection.reset = true;
                    connection.stage = Stage::Waiting;
                    self.read_reply(index);
                    return;
                }
            }
        }
    }

    fn watch_writing(&mut self, index: u32) {
        let token = self.token(index);
        let connection = &mut self.connections[index as usize];
        if let Some(stream) = &mut connection.stream
            && let Err(error) = stream.also_writable(self.poll.registry(), token)
        {
            self.fail(index, Outcome::Other, describe(&error));
        }
    }

    /// Reads until there is nothing more or the reply is complete.
    fn read_reply(&mut self, index: u32) {
        loop {
            let connection = &mut self.connections[index as usize];
            let (Some(session), Some(stream)) = (connection.session, &mut connection.stream) else {
                return;
            };
            match stream.read(&mut self.buffer) {
                Ok(Got::Nothing) => return,
                Ok(Got::Bytes { count, drained }) => {
                    let now = self.epoch.elapsed();
                    if connection.first_byte.is_none() {
                        let started = self.sessions[session as usize].started;
                        connection.first_byte = Some(now.saturating_sub(started));
                    }
                    let piece = &self.buffer[..count];
                    match connection.decoder.read(piece, &mut self.names) {
                        Step::More if drained && !connection.closed => return,
                        Step::More => {}
                        Step::Done(used) => {
                            self.reply_complete(index, now, used < count);
                            return;
                        }
                        Step::Invalid(reason) => {
                            let shown = shown(piece);
                            self.fail(index, Outcome::InvalidReply, format!("{reason}: {shown}"));
                            return;
                        }
                        Step::TooBig => {
                            self.fail(index, Outcome::Other, "body too big".to_owned());
                            return;
                        }
                    }
                }
                Ok(Got::End) => {
                    self.peer_ended(index);
                    return;
                }
                Err(error) => {
                    self.peer_reset(index, &error);
                    return;
                }
            }
        }
    }

    /// The peer closed in order.
    fn peer_ended(&mut self, index: u32) {
        let connection = &mut self.connections[index as usize];
        connection.closed = true;
        let got = connection.decoder.content_bytes();
        match connection.decoder.end() {
            Cut::Complete => {
                let now = self.epoch.elapsed();
                self.reply_complete(index, now, false);
            }
            Cut::Nothing if self.retry_stale(index, Ending::Orderly) => {}
            Cut::Nothing if self.connections[index as usize].reset => {
                let text = "reset while the request was written".to_owned();
                self.fail(index, Outcome::ResetBeforeReply, text);
            }
            Cut::Nothing => {
                let text = "closed without a reply".to_owned();
                self.fail(index, Outcome::EmptyReply, text);
            }
            Cut::InHead => {
                let text = "closed inside the head of the reply".to_owned();
                self.fail(index, Outcome::Truncated, text);
            }
            Cut::InContent(Some(announced)) => {
                let text = format!("{got} of {announced} bytes");
                self.fail(index, Outcome::Truncated, text);
            }
            Cut::InContent(None) => {
                let text = format!("closed inside the chunks after {got} bytes");
                self.fail(index, Outcome::Truncated, text);
            }
        }
    }

    /// Reading met an error.
    fn peer_reset(&mut self, index: u32, error: &io::Error) {
        let decoder = &self.connections[index as usize].decoder;
        let (seen, content) = (decoder.seen(), decoder.in_content());
        if error.kind() == io::ErrorKind::InvalidData {
            self.fail(index, Outcome::TlsFailed, describe(error));
        } else if !is_reset(error) {
            let outcome = match connect_outcome(error) {
                // The kernel gave up waiting for acknowledgements.
                Outcome::ConnectTimeoutKernel => Outcome::Other,
                outcome => outcome,
            };
            self.fail(index, outcome, describe(error));
        } else if content {
            self.fail(index, Outcome::ResetInBody, describe(error));
        } else if seen || !self.retry_stale(index, Ending::Reset) {
            self.fail(index, Outcome::ResetBeforeReply, describe(error));
        }
    }

    /// Sends the call once more when its kept connection turned out to be closed before a byte of the reply
    /// (RFC 9112 section 9.3.1): a method that may be repeated once, any other only when it cannot have been taken.
    /// An orderly end acknowledges what the peer's system took before it, so nothing acknowledged means just that.
    fn retry_stale(&mut self, index: u32, ending: Ending) -> bool {
        let connection = &self.connections[index as usize];
        let (Some(session), Some(stream)) = (connection.session, &connection.stream) else {
            return false;
        };
        if connection.replies == 0 || self.sessions[session as usize].retried {
            return false;
        }
        let untaken = connection.written == 0
            || ending == Ending::Orderly
                && sys::unacknowledged_bytes(stream).is_ok_and(|left| left >= connection.written);
        if !self.spec.idempotent && !untaken {
            return false;
        }
        self.drop_connection(index);
        self.sessions[session as usize].retried = true;
        let now = self.epoch.elapsed();
        self.timeouts
            .add(session, now.saturating_add(self.spec.timeout));
        self.connect(session);
        true
    }

    /// An idle connection has something to say: it is closed, or says what nobody asked for.
    fn end_idle(&mut self, index: u32) {
        let connection = &mut self.connections[index as usize];
        if let Some(stream) = &mut connection.stream
            && matches!(stream.read(&mut self.buffer), Ok(Got::Nothing))
        {
            return;
        }
        if let Some(session) = connection.session {
            self.sessions[session as usize].stale = true;
        } else {
            let origin = connection.origin as usize;
            self.idle[origin].retain(|other| *other != index);
        }
        self.drop_connection(index);
    }

    /// A session takes over an idle connection.
    pub(super) fn adopt(&mut self, index: u32, session: u32) {
        self.connections[index as usize].session = Some(session);
        self.sessions[session as usize].connection = Some(index);
    }

    /// The session is done with its connection, whose last reply is complete.
    pub(super) fn leave(&mut self, index: u32) {
        let connection = &mut self.connections[index as usize];
        connection.session = None;
        let origin = connection.origin as usize;
        if connection.stage == Stage::Idle
            && self.reuse == Reuse::Pool
            && self.idle[origin].len() < POOL
        {
            self.idle[origin].push(index);
        } else {
            self.drop_connection(index);
        }
    }

    /// The last reply is complete: waits a little for the server to close first.
    pub(super) fn linger(&mut self, index: u32, now: Duration) {
        self.note_closed(index, now);
        let connection = &mut self.connections[index as usize];
        if let Some(session) = connection.session.take() {
            self.sessions[session as usize].connection = None;
        }
        // One that says it stays open would never close first.
        if connection.closed || connection.decoder.keep_alive() {
            self.free(index);
        } else {
            connection.stage = Stage::Lingering;
            self.lingering.add(index, now + LINGER);
        }
    }

    /// Closes the connection now.
    pub(super) fn drop_connection(&mut self, index: u32) {
        let connection = &mut self.connections[index as usize];
        let noted = matches!(connection.stage, Stage::Free | Stage::Lingering);
        if let Some(session) = connection.session.take() {
            self.sessions[session as usize].connection = None;
        }
        if !noted {
            let now = self.epoch.elapsed();
            self.note_closed(index, now);
        }
        self.free(index);
    }

    fn note_closed(&mut self, index: u32, now: Duration) {
        let connection = &self.connections[index as usize];
        self.record.closed(ConnectionSample {
            started: connection.opened,
            ended: now,
            connect: connection.connect,
            tls: connection.tls,
            replies: connection.replies,
        });
    }

    fn free(&mut self, index: u32) {
        let connection = &mut self.connections[index as usize];
        connection.stage = Stage::Free;
        connection.stream = None;
        connection.generation = connection.generation.wrapping_add(1);
        self.free_connections.push(index);
    }

    /// Closes everything at the end of the run.
    pub(super) fn close_all(&mut self) {
        for index in 0..u32::try_from(self.connections.len()).unwrap_or(u32::MAX) {
            if self.connections[index as usize].stage != Stage::Free {
                self.drop_connection(index);
            }
        }
    }
}

/// The first bytes of something, fit to be read.
fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(40)]).into_owned();
    format!("{text:?}")
}
