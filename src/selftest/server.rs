//! The truth that the generator is held against: a small server that answers at once, or holds a reply for a known time.
//!
//! `GET /D` is answered D ms after its last byte was read. It keeps a log of how long each reply was really held,
//! because its own thread may be late as well.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use mio::net::{TcpListener, TcpStream};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};

use crate::net::clock::Epoch;
use crate::net::sys::Timer;

/// A running server on a free loopback port; dropping it stops it.
pub(super) struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    stopped: AtomicBool,
    /// By delay in ms: how long each reply was held, in ms.
    held: Mutex<BTreeMap<u32, Vec<f64>>>,
}

/// Longest head of a request; the generator's own is far shorter.
const LONGEST: usize = 4_096;
/// Replies of one delay that are logged.
const LOGGED: usize = 10_000;
const EVENTS: usize = 256;
/// Time for the thread to be ready before its clock's epoch.
const LEAD: Duration = Duration::from_millis(2);

const LISTENER: Token = Token(usize::MAX);
const TIMER: Token = Token(usize::MAX - 1);
const WAKER: Token = Token(usize::MAX - 2);

const KEPT: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const LAST: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";

impl Server {
    /// Binds and serves from a thread of its own.
    pub(super) fn start() -> io::Result<Self> {
        let mut listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0).into())?;
        let address = listener.local_addr()?;
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKER)?;
        let epoch = Epoch::after(LEAD);
        let timer = Timer::new(|| epoch.lead())?;
        poll.registry()
            .register(&mut listener, LISTENER, Interest::READABLE)?;
        poll.registry()
            .register(&mut SourceFd(&timer.as_raw_fd()), TIMER, Interest::READABLE)?;
        let shared = Arc::new(Shared::default());
        let room = Room {
            shared: Arc::clone(&shared),
            poll,
            listener,
            timer,
            epoch,
            connections: Vec::new(),
            free: Vec::new(),
            next: 0,
            held: BinaryHeap::new(),
        };
        let thread = std::thread::Builder::new()
            .name("known-delay".to_owned())
            .spawn(move || room.serve())?;
        Ok(Self {
            address,
            shared,
            waker,
            thread: Some(thread),
        })
    }

    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes the log of this delay: for how long each reply was held, in ms.
    pub(super) fn take_held(&self, delay_ms: u32) -> Vec<f64> {
        self.shared.held().remove(&delay_ms).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::Release);
        // Its next event ends it, should the waking fail.
        let _ = self.waker.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn held(&self) -> MutexGuard<'_, BTreeMap<u32, Vec<f64>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection, and what came on it so far.
struct Connection {
    /// Tells it from an earlier one in the same place.
    id: u64,
    stream: TcpStream,
    head: Vec<u8>,
}

/// A request, read whole.
struct Asked {
    delay_ms: u32,
    /// The client wants the connection closed afterwards.
    last: bool,
}

/// A reply that is not due yet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Held {
    due: Duration,
    place: usize,
    id: u64,
    read_at: Duration,
    delay_ms: u32,
    last: bool,
}

/// The server's thread.
struct Room {
    shared: Arc<Shared>,
    poll: Poll,
    listener: TcpListener,
    timer: Timer,
    epoch: Epoch,
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    next: u64,
    held: BinaryHeap<Reverse<Held>>,
}

impl Room {
    fn serve(mut self) {
        let mut events = Events::with_capacity(EVENTS);
        while !self.shared.stopped.load(Ordering::Acquire) {
            match self.poll.poll(&mut events, None) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // Its clients see refused connections, and the step fails.
                Err(_) => return,
            }
            for event in &events {
                match event.token() {
                    LISTENER => self.accept(),
                    TIMER | WAKER => {}
                    Token(place) => self.read(place),
                }
            }
            self.answer_due();
        }
    }

    fn accept(&mut self) {
        while let Ok((mut stream, _)) = self.listener.accept() {
            let place = self.free.pop().unwrap_or(self.connections.len());
            let registered =
                self.poll
                    .registry()
                    .register(&mut stream, Token(place), Interest::READABLE);
            if place == self.connections.len() {
                self.connections.push(None);
            }
            if registered.is_err() {
                self.free.push(place);
                continue;
            }
            // Small replies must not wait for an acknowledgement.
            let _ = stream.set_nodelay(true);
            self.next += 1;
            self.connections[place] = Some(Connection {
                id: self.next,
                stream,
                head: Vec::new(),
            });
            self.read(place);
        }
    }

    fn read(&mut self, place: usize) {
        let mut buffer = [0; 1_024];
        loop {
            let Some(connection) = self.connections.get_mut(place).and_then(Option::as_mut) else {
                return;
            };
            match connection.stream.read(&mut buffer) {
                Ok(0) => return self.close(place),
                Ok(count) => {
                    connection.head.extend_from_slice(&buffer[..count]);
                    if connection.head.len() > LONGEST {
                        return self.close(place);
                    }
                    if connection.head.ends_with(b"\r\n\r\n") {
                        match asked(&connection.head) {
                            Some(asked) => self.take(place, &asked),
                            None => return self.close(place),
                        }
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return self.close(place),
            }
        }
    }

    /// A whole request has come.
    fn take(&mut self, place: usize, asked: &Asked) {
        let read_at = self.epoch.elapsed();
        let Some(connection) = self.connections[place].as_mut() else {
            return;
        };
        connection.head.clear();
        if asked.delay_ms == 0 {
            return self.answer(place, asked.last);
        }
        let held = Held {
            due: read_at + Duration::from_millis(asked.delay_ms.into()),
            place,
            id: connection.id,
            read_at,
            delay_ms: asked.delay_ms,
            last: asked.last,
        };
        self.held.push(Reverse(held));
    }

    fn answer(&mut self, place: usize, last: bool) {
        let Some(connection) = self.connections[place].as_mut() else {
            return;
        };
        let reply = if last { LAST } else { KEPT };
        // So few bytes fit into the buffer of any connection that is alive.
        let sent = connection.stream.write(reply).unwrap_or(0);
        if last || sent < reply.len() {
            self.close(place);
        }
    }

    /// Answers what is due, and sets the timer for the next.
    fn answer_due(&mut self) {
        loop {
            let Some(Reverse(next)) = self.held.peek().copied() else {
                return;
            };
            let now = self.epoch.elapsed();
            if next.due > now {
                // Without a timer the reply goes with the next event, late: its log says so.
                let _ = self.timer.set(next.due);
                return;
            }
            self.held.pop();
            let alive = self.connections[next.place]
                .as_ref()
                .is_some_and(|connection| connection.id == next.id);
            if !alive {
                continue;
            }
            let took = self.epoch.elapsed().saturating_sub(next.read_at);
            let mut held = self.shared.held();
            let log = held.entry(next.delay_ms).or_default();
            if log.len() < LOGGED {
                log.push(took.as_secs_f64() * 1_000.0);
            }
            drop(held);
            self.answer(next.place, next.last);
        }
    }

    fn close(&mut self, place: usize) {
        if self.connections[place].take().is_some() {
            self.free.push(place);
        }
    }
}

/// Reads what is needed of `GET /D HTTP/1.1` and its headers; `None` for anything else.
fn asked(head: &[u8]) -> Option<Asked> {
    let text = std::str::from_utf8(head).ok()?;
    let mut lines = text.split("\r\n");
    let path = lines.next()?.strip_prefix("GET /")?.split(' ').next()?;
    Some(Asked {
        delay_ms: path.parse().ok().filter(|delay| *delay <= 10_000)?,
        last: lines.any(|line| {
            line.split_once(':').is_some_and(|(name, value)| {
                name.eq_ignore_ascii_case("connection")
                    && value.trim().eq_ignore_ascii_case("close")
            })
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_says_its_delay_and_whether_it_is_the_last() {
        let of = |head: &str| asked(head.as_bytes()).map(|asked| (asked.delay_ms, asked.last));
        assert_eq!(of("GET /0 HTTP/1.1\r\nHost: a\r\n\r\n"), Some((0, false)));
        assert_eq!(
            of("GET /100 HTTP/1.1\r\nConnection: close\r\nHost: a\r\n\r\n"),
            Some((100, true))
        );
        for bad in [
            "GET /x HTTP/1.1\r\n\r\n",
            "POST /1 HTTP/1.1\r\n\r\n",
            "\r\n\r\n",
            "GET /99999 H",
        ] {
            assert_eq!(of(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_reply_is_never_early_and_its_log_says_how_long_it_was_held() {
        let server = Server::start().unwrap();
        let mut stream = std::net::TcpStream::connect(server.address()).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        for delay in [0, 5, 20] {
            let before = std::time::Instant::now();
            write!(stream, "GET /{delay} HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
            let mut reply = vec![0; KEPT.len()];
            stream.read_exact(&mut reply).unwrap();
            assert_eq!(reply, KEPT);
            assert!(before.elapsed() >= Duration::from_millis(delay));
        }
        assert_eq!(server.take_held(0).len(), 0);
        for delay in [5_u32, 20] {
            let held = server.take_held(delay);
            assert_eq!(held.len(), 1);
            assert!(held[0] >= f64::from(delay));
        }
        write!(stream, "GET /0 HTTP/1.1\r\nConnection: close\r\n\r\n").unwrap();
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
        assert_eq!(rest, LAST);
    }
}
