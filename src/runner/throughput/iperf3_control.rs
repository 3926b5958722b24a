//! The control connection to an iperf 3 server: states one way and the other, and the two JSON texts.

use std::io::{self, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use super::peer;
use super::tcp::is_turn;
use crate::net::clock::{self, Epoch};
use crate::net::connect::describe;
use crate::net::sys::{self, Ready};
use crate::net::tcp_flow;
use crate::runner::Stop;
use crate::wire::iperf3::{State, cookie, frame, framed_length};

/// A server that does not answer for so long does not speak iperf 3.
const FIRST_ANSWER_LIMIT: Duration = Duration::from_secs(8);
/// A server under way is waited for so long.
const ANSWER_LIMIT: Duration = Duration::from_secs(15);
/// What is done meanwhile is done at least so often.
const TURN: Duration = Duration::from_millis(20);

/// The connection.
pub(super) struct Control<'s> {
    socket: Arc<TcpStream>,
    stop: &'s Stop,
    port: u16,
    /// What came and was not read yet.
    pending: Vec<u8>,
    /// How the connection ended: what came before is read all the same.
    ended: Option<String>,
}

impl<'s> Control<'s> {
    /// Introduces us with a cookie, which it returns: the streams carry the same.
    pub(super) fn begin(
        socket: Arc<TcpStream>,
        stop: &'s Stop,
        port: u16,
    ) -> Result<(Self, Vec<u8>), String> {
        let _ = socket.set_nodelay(true);
        tcp_flow::keep_alive(&socket);
        let cookie = cookie(&random()).to_vec();
        let mut control = Self {
            socket,
            stop,
            port,
            pending: Vec::new(),
            ended: None,
        };
        // A busy server says so and closes before it has read anything.
        if let Err(why) = control.write(&cookie)
            && control.pending.is_empty()
        {
            return Err(why);
        }
        match control.byte(FIRST_ANSWER_LIMIT, &mut || ()) {
            Ok(None) => Err(format!(
                "the peer took the connection but did not answer within {} s: an iperf 2 server does so (set dialect to iperf2 then), and an iperf 3 server that waits for somebody else",
                FIRST_ANSWER_LIMIT.as_secs()
            )),
            Err(why) if control.ended.is_some() => Err(format!(
                "{why} instead of answering: is it an iperf 3 server? An iperf 2 server may do so (set dialect to iperf2 then)"
            )),
            Err(why) => Err(why),
            Ok(Some(byte)) => match State::of(byte) {
                Some(State::ParamExchange) => Ok((control, cookie)),
                Some(State::AccessDenied) => Err(
                    "the iperf 3 server is busy with another test: it takes one at a time".into(),
                ),
                Some(State::ServerError) => Err(control.server_error()),
                _ => {
                    // The rest of the answer tells more.
                    let mut first = vec![byte];
                    while first.len() < 8 {
                        match control.byte(TURN * 10, &mut || ()) {
                            Ok(Some(next)) => first.push(next),
                            _ => break,
                        }
                    }
                    first.append(&mut control.pending);
                    Err(peer::not_iperf3(&first, control.port))
                }
            },
        }
    }

    /// Waits for this state; `meanwhile` is called while nothing comes.
    pub(super) fn expect(
        &mut self,
        wanted: State,
        meanwhile: &mut dyn FnMut(),
    ) -> Result<(), String> {
        let Some(byte) = self.byte(ANSWER_LIMIT, meanwhile)? else {
            return Err(format!(
                "the iperf 3 server did not answer within {} s",
                ANSWER_LIMIT.as_secs()
            ));
        };
        match State::of(byte) {
            Some(state) if state == wanted => Ok(()),
            Some(state) => Err(self.ended_by(state)),
            None => Err(format!(
                "what answers on port {} does not keep to iperf 3's protocol",
                self.port
            )),
        }
    }

    /// Why the server ended the test, if it has said something while the streams run.
    pub(super) fn interrupted(&mut self) -> Option<String> {
        self.read_now();
        if self.pending.is_empty() {
            let how = self.ended.as_ref()?;
            return Some(format!("the iperf 3 server is gone: {how}"));
        }
        let state = State::of(self.pending.remove(0));
        Some(match state {
            Some(state) => self.ended_by(state),
            None => "the iperf 3 server sent an unknown state".into(),
        })
    }

    fn ended_by(&mut self, state: State) -> String {
        match state {
            State::ServerTerminate => "the iperf 3 server ended the test".into(),
            State::AccessDenied => "the iperf 3 server is busy with another test".into(),
            State::ServerError => self.server_error(),
            other => format!("the iperf 3 server answered out of turn ({other:?})"),
        }
    }

    /// Two numbers follow: iperf's own and the system's.
    fn server_error(&mut self) -> String {
        let mut words = [0; 8];
        for byte in &mut words {
            match self.byte(TURN * 25, &mut || ()) {
                Ok(Some(next)) => *byte = next,
                _ => return "the iperf 3 server gave up with an error".into(),
            }
        }
        let word = |at: usize| {
            i32::from_be_bytes([words[at], words[at + 1], words[at + 2], words[at + 3]])
        };
        let system = word(4);
        let reason = if system == 0 {
            String::new()
        } else {
            format!(", {}", describe(&io::Error::from_raw_os_error(system)))
        };
        format!("the iperf 3 server gave up (its error {}{reason})", word(0))
    }

    pub(super) fn send(&mut self, state: State) -> Result<(), String> {
        self.tell(&[state.byte()])
    }

    pub(super) fn send_json(&mut self, json: &[u8]) -> Result<(), String> {
        self.tell(&frame(json))
    }

    /// Writes; where that fails, what the server said before it left explains most.
    fn tell(&mut self, bytes: &[u8]) -> Result<(), String> {
        let Err(why) = self.write(bytes) else {
            return Ok(());
        };
        match self.pending.first().copied().and_then(State::of) {
            Some(state @ (State::ServerTerminate | State::AccessDenied | State::ServerError)) => {
                self.pending.remove(0);
                Err(self.ended_by(state))
            }
            _ => Err(why),
        }
    }

    /// Reads a JSON text with its length before it.
    pub(super) fn json(&mut self, meanwhile: &mut dyn FnMut()) -> Result<Vec<u8>, String> {
        let head = self.exactly(4, meanwhile)?;
        let length = head
            .try_into()
            .ok()
            .and_then(framed_length)
            .ok_or("the iperf 3 server announced results of a size that nobody has")?;
        self.exactly(length, meanwhile)
    }

    fn exactly(&mut self, count: usize, meanwhile: &mut dyn FnMut()) -> Result<Vec<u8>, String> {
        let end = clock::now() + ANSWER_LIMIT;
        while self.pending.len() < count {
            if clock::now() >= end || !self.more(meanwhile)? {
                return Err("the iperf 3 server's results did not come whole".into());
            }
        }
        let rest = self.pending.split_off(count);
        Ok(std::mem::replace(&mut self.pending, rest))
    }

    /// The next byte; `None` when none comes in time.
    fn byte(&mut self, limit: Duration, meanwhile: &mut dyn FnMut()) -> Result<Option<u8>, String> {
        let end = clock::now() + limit;
        while self.pending.is_empty() {
            if clock::now() >= end {
                return Ok(None);
            }
            if !self.more(meanwhile)? {
                let how = self.ended.clone();
                return Err(how.unwrap_or_else(|| CLOSED.into()));
            }
        }
        Ok(Some(self.pending.remove(0)))
    }

    /// Waits a turn for more; false when none can come any more.
    fn more(&mut self, meanwhile: &mut dyn FnMut()) -> Result<bool, String> {
        if self.stop.is_stopped() {
            return Err("stopped".into());
        }
        let before = self.pending.len();
        if self.ended.is_none() {
            // An error shows when reading.
            let _ = sys::wait(&*self.socket, Ready::Read, TURN);
            self.read_now();
        }
        meanwhile();
        Ok(self.ended.is_none() || self.pending.len() > before)
    }

    /// Takes what is there; a reset ends the connection, but not before what came ahead of it.
    fn read_now(&mut self) {
        let mut buffer = [0; 4_096];
        while self.ended.is_none() {
            match sys::receive_now(&*self.socket, &mut buffer) {
                Ok(0) => self.ended = Some(CLOSED.into()),
                Ok(count) => self.pending.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => self.ended = Some(failed(&error)),
            }
        }
    }

    /// Writes everything; where that fails, what the peer said before is in `pending`.
    fn write(&mut self, mut bytes: &[u8]) -> Result<(), String> {
        let end = clock::now() + ANSWER_LIMIT;
        while !bytes.is_empty() {
            match (&mut &*self.socket).write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if is_turn(&error) && clock::now() < end && !self.stop.is_stopped() => {}
                Err(error) => {
                    self.read_now();
                    return Err(failed(&error));
                }
            }
        }
        Ok(())
    }
}

/// How a connection ended that nobody broke.
const CLOSED: &str = "the peer closed the connection";

fn failed(error: &io::Error) -> String {
    format!("the connection failed ({})", describe(error))
}

/// Bytes that differ from run to run; the cookie only tells tests apart.
fn random() -> [u8; 36] {
    let mut bytes = [0; 36];
    // The hasher's keys are random, and each one is new.
    for (piece, number) in bytes.chunks_mut(8).zip(0_u64..) {
        let state = std::hash::RandomState::new();
        let hash =
            std::hash::BuildHasher::hash_one(&state, (number, Epoch::after(Duration::ZERO).lead()));
        piece.copy_from_slice(&hash.to_ne_bytes()[..piece.len()]);
    }
    bytes
}
