//! A web server whose path picks how it misbehaves, on threads of its own, on a port of its own.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// The server; it ends with its owner.
pub struct Misbehave {
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    over: AtomicBool,
    connections: AtomicU64,
    requests: AtomicU64,
    begun: Instants,
    /// Until when `/stall` answers nobody.
    stalled_until: Mutex<Option<Instant>>,
    wake: Condvar,
}

#[derive(Default)]
struct Instants(Mutex<Vec<Instant>>);

impl Misbehave {
    pub fn start() -> Self {
        Self::on("127.0.0.1:0")
    }

    pub fn on(address: &str) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared::default());
        let server = Arc::clone(&shared);
        std::thread::spawn(move || {
            for socket in listener.incoming() {
                if server.over.load(Ordering::Relaxed) {
                    return;
                }
                let Ok(socket) = socket else { continue };
                server.connections.fetch_add(1, Ordering::Relaxed);
                let server = Arc::clone(&server);
                std::thread::Builder::new()
                    .stack_size(256 * 1024)
                    .spawn(move || serve(&socket, &server))
                    .unwrap();
            }
        });
        Self { address, shared }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Connections accepted so far.
    pub fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// Requests read so far.
    pub fn requests(&self) -> u64 {
        self.shared.requests.load(Ordering::Relaxed)
    }

    /// When requests came.
    pub fn arrivals(&self) -> Vec<Instant> {
        self.shared.begun.0.lock().unwrap().clone()
    }
}

impl Drop for Misbehave {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        self.shared.wake.notify_all();
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    /// Waits, but not longer than the server lives.
    fn pause(&self, time: Duration) {
        let end = Instant::now() + time;
        let mut held = self.stalled_until.lock().unwrap();
        while !self.over.load(Ordering::Relaxed) {
            let now = Instant::now();
            if now >= end {
                return;
            }
            held = self.wake.wait_timeout(held, end - now).unwrap().0;
        }
    }

    /// `/stall`: request number `at` starts a stall of `seconds`; every one inside it waits for its end.
    fn stall(&self, number: u64, at: u64, seconds: f64) {
        let until = {
            let mut until = self.stalled_until.lock().unwrap();
            if number >= at && until.is_none() {
                *until = Some(Instant::now() + Duration::from_secs_f64(seconds));
            }
            *until
        };
        if let Some(until) = until {
            self.pause(until.saturating_duration_since(Instant::now()));
        }
    }
}

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Served-By: misbehave\r\nServer-Timing: queue;dur=1.5, compute;dur=2\r\n\r\nhello";

/// Serves one connection, call after call.
#[expect(
    clippy::too_many_lines,
    reason = "a list of replies, one after another"
)]
fn serve(mut socket: &TcpStream, shared: &Shared) {
    let _ = socket.set_read_timeout(Some(Duration::from_secs(30)));
    let _ = socket.set_nodelay(true);
    let mut calls = 0;
    while let Some((method, path)) = request(socket) {
        calls += 1;
        shared.begun.0.lock().unwrap().push(Instant::now());
        let number = shared.requests.fetch_add(1, Ordering::Relaxed);
        let (path, query) = path.split_once('?').unwrap_or((&path, ""));
        let asked: BTreeMap<&str, f64> = query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .filter_map(|(key, value)| Some((key, value.parse().ok()?)))
            .collect();
        let seconds = asked.get("s").copied().unwrap_or(1.0);
        let pause = Duration::from_secs_f64(seconds);
        let plain =
            |head: &str| format!("HTTP/1.1 {head}\r\nContent-Length: 0\r\n\r\n").into_bytes();
        let (reply, goes_on): (Vec<u8>, bool) = match path {
            "/never" => {
                shared.pause(Duration::from_mins(1));
                return;
            }
            "/slow" => {
                shared.pause(pause);
                (OK.to_vec(), true)
            }
            "/stall" => {
                let at = asked.get("at").copied().unwrap_or(0.0);
                shared.stall(number, format!("{at}").parse().unwrap(), seconds);
                (OK.to_vec(), true)
            }
            "/trunc" => (
                b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n0123456789".to_vec(),
                false,
            ),
            "/garbage" => (b"SSH-2.0-OpenSSH_9.2p1\r\n".to_vec(), false),
            "/eof" => (Vec::new(), false),
            "/halfhdr" => (b"HTTP/1.1 200 OK\r\nContent-Le".to_vec(), false),
            "/untilclose" => (b"HTTP/1.1 200 OK\r\n\r\nhello".to_vec(), false),
            "/rst" => {
                reset(socket);
                return;
            }
            "/rstbody" => {
                let _ = socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n0123456789");
                // Time for the bytes to be read before the reset takes them away.
                shared.pause(Duration::from_millis(50));
                reset(socket);
                return;
            }
            "/truncchunk" => (
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\n0123".to_vec(),
                false,
            ),
            "/trailers" => (
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n".to_vec(),
                true,
            ),
            "/204" => (b"HTTP/1.1 204 No Content\r\n\r\n".to_vec(), true),
            "/304" => (
                b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n".to_vec(),
                true,
            ),
            "/headlen" => (
                b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n".to_vec(),
                true,
            ),
            "/100" => ([b"HTTP/1.1 100 Continue\r\n\r\n", OK].concat(), true),
            "/103" => (
                [b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", OK].concat(),
                true,
            ),
            "/100s" => (b"HTTP/1.1 100 Continue\r\n\r\n".repeat(20), false),
            "/101" => (b"HTTP/1.1 101 Switching Protocols\r\n\r\n".to_vec(), false),
            "/close" => (
                b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello".to_vec(),
                false,
            ),
            "/http10" => (
                b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello".to_vec(),
                false,
            ),
            "/silentclose" => {
                let after = asked.get("k").copied().unwrap_or(1.0);
                (OK.to_vec(), f64::from(calls) < after)
            }
            "/closeinanswer" if calls > 1 => (Vec::new(), false),
            "/resetinanswer" if calls > 1 => {
                reset(socket);
                return;
            }
            "/ok" | "/closeinanswer" | "/resetinanswer" => (OK.to_vec(), true),
            "/404" => (plain("404 Not Found"), true),
            "/500" => (plain("500 Internal Server Error"), true),
            "/600" => (plain("600 Odd"), true),
            "/301" => (
                b"HTTP/1.1 301 Moved\r\nLocation: /ok\r\nContent-Length: 0\r\n\r\n".to_vec(),
                true,
            ),
            "/loop" => (
                b"HTTP/1.1 302 Found\r\nLocation: /loop\r\nContent-Length: 0\r\n\r\n".to_vec(),
                true,
            ),
            "/trickle" => {
                for byte in OK {
                    if socket.write_all(&[*byte]).is_err() {
                        return;
                    }
                    shared.pause(pause);
                }
                (Vec::new(), true)
            }
            "/endless" => {
                let _ = socket.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
                flood(socket, shared);
                return;
            }
            "/chunkbomb" => {
                let _ = socket.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffff\r\n");
                flood(socket, shared);
                return;
            }
            "/twolengths" => (
                b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!".to_vec(),
                false,
            ),
            "/bigheader" => (
                format!("HTTP/1.1 200 OK\r\nX-Big: {}\r\n\r\n", "a".repeat(70_000)).into_bytes(),
                false,
            ),
            "/manyheaders" => (
                format!("HTTP/1.1 200 OK\r\n{}\r\n", "X: y\r\n".repeat(101)).into_bytes(),
                false,
            ),
            "/extra" => ([OK, b"HTTP/1.1 200 OK\r\n"].concat(), true),
            "/large" => {
                let head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n".to_vec();
                ([head, vec![b'x'; 1_000_000]].concat(), true)
            }
            other => panic!("no such misbehaviour: {other}"),
        };
        let reply = if method == "HEAD" {
            let end = reply.windows(4).position(|part| part == b"\r\n\r\n");
            &reply[..end.map_or(reply.len(), |at| at + 4)]
        } else {
            &reply[..]
        };
        if socket.write_all(reply).is_err() || !goes_on {
            break;
        }
    }
    let _ = socket.shutdown(Shutdown::Write);
}

/// Sends without end.
fn flood(mut socket: &TcpStream, shared: &Shared) {
    let piece = vec![b'x'; 256 * 1024];
    while !shared.over.load(Ordering::Relaxed) {
        if socket.write_all(&piece).is_err() {
            return;
        }
    }
}

/// Closes with a reset.
fn reset(socket: &TcpStream) {
    let socket = socket2::SockRef::from(socket);
    let _ = socket.set_linger(Some(Duration::ZERO));
}

/// Method and path of the next request; its content is read and forgotten.
fn request(mut socket: &TcpStream) -> Option<(String, String)> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if socket.read(&mut byte).ok()? == 0 {
            return None;
        }
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let length = head
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .and_then(|(_, value)| value.trim().parse::<usize>().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    socket.read_exact(&mut body).ok()?;
    let mut words = head.split_whitespace();
    Some((words.next()?.to_owned(), words.next()?.to_owned()))
}
