//! iperf 3: the control connection of one test at a time, from the cookie to the results.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use super::desk::{Desk, Seat, Visit};
use super::iperf2_tcp::accept_with;
use super::iperf3_plan;
use super::iperf3_streams::{Arrival, Flows, Stream, our_results};
use super::line::Baseline;
use crate::measure::flow::Way;
use crate::net::{clock, listening};
use crate::wire::iperf3::{
    COOKIE_LENGTH, Params, Results, State, frame, framed_length, is_cookie, stream_id,
};

/// How long the client has for each message, and for all of it to come.
const MESSAGE: Duration = Duration::from_secs(8);
/// How long the client may take for its next data stream, and beyond its time.
const GRACE: Duration = Duration::from_secs(10);
/// How often a waiting thread looks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(100);
/// How long datagrams that are still queued at a test's end are waited for.
const QUEUED: Duration = Duration::from_secs(1);
/// How long a client that was turned away has to read it.
const DENIED: Duration = Duration::from_millis(500);
/// Who comes to the wrong port.
const IPERF2: &str = "Closed: it was an iperf 2 client, which has a port of its own.";
/// The longest omitted time, which is iperf's own limit too.
const LONGEST_OMIT: u64 = 600;
/// iperf's number for "too many parallel streams".
const TOO_MANY_STREAMS: u32 = 6;
/// iperf's number for "the message could not be received".
const BAD_PARAMETERS: u32 = 113;

/// What all connections of an iperf 3 receiver share.
pub(super) struct Hall {
    pub(super) desk: Arc<Desk>,
    pub(super) socket: Arc<UdpSocket>,
    pub(super) local: Option<SocketAddr>,
    current: Mutex<Option<Current>>,
    pub(super) flows: Mutex<Flows>,
    /// How often the UDP socket was found empty.
    pub(super) empty: AtomicU64,
}

/// The test in progress.
struct Current {
    cookie: [u8; COOKIE_LENGTH],
    arrivals: mpsc::SyncSender<Arrival>,
    open: bool,
}

/// Why a test ended before its results.
enum Early {
    /// The client's doing, or its absence.
    Client(String),
    /// This receiver's limit or end.
    Server(&'static str),
}

impl Hall {
    pub(super) fn new(desk: &Arc<Desk>, socket: UdpSocket) -> Arc<Self> {
        Arc::new(Self {
            desk: Arc::clone(desk),
            local: socket.local_addr().ok(),
            socket: Arc::new(socket),
            current: Mutex::default(),
            flows: Mutex::default(),
            empty: AtomicU64::new(0),
        })
    }

    fn current(&self) -> MutexGuard<'_, Option<Current>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn flows(&self) -> MutexGuard<'_, Flows> {
        self.flows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Accepts until the listener is shut.
pub(super) fn accept(hall: &Arc<Hall>, listener: &TcpListener) {
    let guests = Arc::clone(hall);
    accept_with(
        &hall.desk,
        listener,
        "iperf3",
        move |_, stream, from, visit| serve(&guests, stream, from, visit),
    );
}

fn serve(hall: &Arc<Hall>, mut stream: TcpStream, from: SocketAddr, visit: Visit) {
    // Without it a vanished client is noticed at its deadline only.
    let _ = listening::watch_over(&stream);
    // Two states in a row would wait for the client's delayed acknowledgement of the first.
    let _ = stream.set_nodelay(true);
    let cookie = match cookie(&hall.desk, &mut stream) {
        Ok(cookie) => cookie,
        Err(why) => {
            if let Some(why) = why {
                hall.desk.refuse(from.ip(), why);
            }
            if why == Some(IPERF2) {
                deny(&hall.desk, &mut stream);
            }
            return;
        }
    };
    let (sender, arrivals) = mpsc::sync_channel(usize::from(u8::MAX));
    {
        let mut current = hall.current();
        if let Some(test) = &*current {
            if test.cookie == cookie {
                if test.open {
                    // A stream that nobody waits for any more is closed.
                    let arrival = Arrival::Tcp(stream, from, visit.number);
                    let _ = test.arrivals.try_send(arrival);
                }
                return;
            }
            drop(current);
            // It reads this byte or is gone.
            let _ = stream.write_all(&[State::AccessDenied.byte()]);
            hall.desk
                .refuse(from.ip(), "Another iperf 3 test is running: one at a time.");
            return;
        }
        *current = Some(Current {
            cookie,
            arrivals: sender,
            open: false,
        });
    }
    let control = Control {
        hall,
        cookie,
        stream,
        from,
        arrivals,
    };
    control.serve(visit);
}

/// Says no in a way that is read: a connection that is closed with bytes unread takes the word with it.
fn deny(desk: &Desk, stream: &mut TcpStream) {
    let told = stream
        .write_all(&[State::AccessDenied.byte()])
        .and_then(|()| stream.shutdown(Shutdown::Write));
    let deadline = clock::now() + DENIED;
    let mut rest = [0; 4_096];
    while told.is_ok() && matches!(read(desk, stream, &mut rest, deadline), Ok(1..)) {}
}

/// Reads the 37 bytes that open every connection.
fn cookie(
    desk: &Desk,
    stream: &mut TcpStream,
) -> Result<[u8; COOKIE_LENGTH], Option<&'static str>> {
    let mut cookie = [0; COOKIE_LENGTH];
    let mut length = 0;
    let deadline = clock::now() + MESSAGE;
    while length < COOKIE_LENGTH {
        match read(desk, stream, &mut cookie[length..], deadline) {
            Ok(0) if length == 0 => return Err(None),
            Ok(0) => return Err(Some("Closed: it was no iperf 3 client.")),
            Ok(count) => length += count,
            Err(error) if error.kind() == ErrorKind::TimedOut => {
                return Err(Some("Closed: it connected and sent no cookie in 8 s."));
            }
            Err(_) => return Err(None),
        }
        let letters = &cookie[..length.min(COOKIE_LENGTH - 1)];
        if !letters.iter().all(u8::is_ascii_alphanumeric) {
            return Err(Some(match letters[0] {
                0 | b'@' | 0x80..=0xDF => IPERF2,
                0x16 => "Closed: it was a TLS client.",
                _ if letters.starts_with(b"SSH-") => "Closed: it was an SSH client.",
                _ if letters.contains(&b'/') => "Closed: it was an HTTP client.",
                _ => "Closed: it was no iperf 3 client.",
            }));
        }
    }
    if is_cookie(&cookie) {
        Ok(cookie)
    } else {
        Err(Some("Closed: it was no iperf 3 client."))
    }
}

/// Reads what there is, waiting until the deadline at the latest.
fn read(
    desk: &Desk,
    stream: &mut TcpStream,
    buffer: &mut [u8],
    deadline: Instant,
) -> io::Result<usize> {
    loop {
        let left = deadline.saturating_duration_since(clock::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        if desk.is_stopping() {
            return Err(ErrorKind::ConnectionAborted.into());
        }
        stream.set_read_timeout(Some(left.min(LOOK)))?;
        match stream.read(buffer) {
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            other => return other,
        }
    }
}

/// The control connection.
struct Control<'a> {
    hall: &'a Arc<Hall>,
    cookie: [u8; COOKIE_LENGTH],
    stream: TcpStream,
    from: SocketAddr,
    arrivals: mpsc::Receiver<Arrival>,
}

impl Control<'_> {
    fn serve(mut self, visit: Visit) {
        let admitted = self.parameters();
        let seat = admitted.and_then(|params| {
            let port = self.hall.local.map_or(0, |local| local.port());
            let longest = self.hall.desk.config.max_duration;
            let group = iperf3_plan::group(&params, self.from, port, longest);
            let both = if params.bidirectional { 2 } else { 1 };
            let streams = u32::try_from(params.streams * both).unwrap_or(u32::MAX);
            let seat = self.hall.desk.seat(self.from, &group, streams);
            if seat.is_err() {
                self.fail(TOO_MANY_STREAMS);
            }
            Some((params, seat.ok()?))
        });
        drop(visit);
        let Some((params, seat)) = seat else {
            return;
        };
        let Err(early) = self.test(&params, &seat) else {
            return;
        };
        let why = match early {
            Early::Client(why) => why,
            Early::Server(why) => {
                // It may be gone, which is as well.
                let _ = self.say(State::ServerTerminate);
                why.to_owned()
            }
        };
        self.free();
        seat.note(|end| {
            if end.remarks.is_empty() {
                end.remarks.push(why);
            }
        });
    }

    /// Lets the next test in.
    fn free(&self) {
        let mut current = self.hall.current();
        if current
            .as_ref()
            .is_some_and(|test| test.cookie == self.cookie)
        {
            self.hall.flows().clear();
            *current = None;
        }
    }

    fn say(&mut self, state: State) -> io::Result<()> {
        self.stream.write_all(&[state.byte()])
    }

    fn fail(&mut self, number: u32) {
        let mut bytes = vec![State::ServerError.byte()];
        bytes.extend(number.to_be_bytes());
        bytes.extend(0_u32.to_be_bytes());
        // It is closed either way.
        let _ = self.stream.write_all(&bytes);
    }

    /// Asks for the parameters and checks them.
    fn parameters(&mut self) -> Option<Params> {
        self.say(State::ParamExchange).ok()?;
        let text = match self.message() {
            Ok(text) => text,
            Err(why) => {
                let desk = &self.hall.desk;
                desk.refuse(self.from.ip(), &format!("Closed: its parameters {why}."));
                return None;
            }
        };
        let Some(mut params) = Params::parse(&text) else {
            let desk = &self.hall.desk;
            desk.refuse(
                self.from.ip(),
                "Closed: its parameters were no JSON object.",
            );
            self.fail(BAD_PARAMETERS);
            return None;
        };
        if params.streams > u64::from(self.hall.desk.config.max_streams) {
            let most = self.hall.desk.config.max_streams;
            let desk = &self.hall.desk;
            desk.refuse(
                self.from.ip(),
                &format!("This receiver serves {most} streams at most."),
            );
            self.fail(TOO_MANY_STREAMS);
            return None;
        }
        // Longer tests are cut, whatever was asked.
        let longest = self.hall.desk.config.max_duration.as_secs().max(1);
        params.time_s = params.time_s.min(longest.saturating_add(1));
        params.omit_s = params.omit_s.min(LONGEST_OMIT);
        Some(params)
    }

    /// Reads one JSON text with its length before it; all of it within one deadline.
    fn message(&mut self) -> Result<Vec<u8>, &'static str> {
        let deadline = clock::now() + MESSAGE;
        let mut four = [0; 4];
        self.exactly(&mut four, deadline)?;
        let length = framed_length(four).ok_or("were too long")?;
        // Memory grows with what really comes.
        let mut text = Vec::new();
        while text.len() < length {
            let mut part = [0; 4_096];
            let size = (length - text.len()).min(part.len());
            self.exactly(&mut part[..size], deadline)?;
            text.extend_from_slice(&part[..size]);
        }
        Ok(text)
    }

    fn exactly(&mut self, mut buffer: &mut [u8], deadline: Instant) -> Result<(), &'static str> {
        while !buffer.is_empty() {
            match read(&self.hall.desk, &mut self.stream, buffer, deadline) {
                Ok(0) => return Err("did not come to their end"),
                Ok(count) => buffer = &mut buffer[count..],
                Err(error) if error.kind() == ErrorKind::TimedOut => {
                    return Err("did not come in 8 s");
                }
                Err(_) => return Err("did not come to their end"),
            }
        }
        Ok(())
    }

    /// The test itself: streams, traffic, results.
    fn test(&mut self, params: &Params, seat: &Seat) -> Result<(), Early> {
        if let Some(test) = &mut *self.hall.current() {
            test.open = true;
            if params.udp {
                let arrivals = test.arrivals.clone();
                self.hall.flows().expect(self.from.ip(), params, arrivals);
            }
        }
        self.tell(State::CreateStreams)?;
        let streams = self.streams(params, seat)?;
        let start = clock::now();
        self.tell(State::TestStart)?;
        self.tell(State::TestRunning)?;
        let mut before = Vec::new();
        let ended = thread::scope(|scope| {
            for stream in &streams {
                let hall = self.hall;
                let work = move || stream.run(hall, params);
                if stream.has_work()
                    && let Err(error) = thread::Builder::new().spawn_scoped(scope, work)
                {
                    stream
                        .line
                        .fail(format!("No thread could be started: {error}."));
                }
            }
            let ended = self.wait(params, &streams, start, &mut before);
            let took = clock::now().saturating_duration_since(start);
            for stream in streams.iter().filter(|stream| stream.has_work()) {
                stream.line.stop(None);
            }
            if ended.is_ok() && !streams.iter().all(Stream::has_work) {
                self.take_queued();
            }
            for stream in &streams {
                stream.line.stop(None);
            }
            ended.map(|()| took)
        });
        for stream in &streams {
            stream.line.end();
        }
        self.hall.flows().clear();
        let took = ended?;
        self.results(params, &streams, &before, took)
    }

    /// Waits until the datagrams that came before the end was said are counted: the word overtakes them.
    fn take_queued(&self) {
        let deadline = clock::now() + QUEUED;
        let empty = || self.hall.empty.load(Ordering::Acquire);
        let before = empty();
        while empty() == before && clock::now() < deadline {
            thread::sleep(Duration::from_millis(2));
        }
    }

    fn tell(&mut self, state: State) -> Result<(), Early> {
        self.say(state)
            .map_err(|_| Early::Client("The client vanished.".to_owned()))
    }

    /// Waits for the data streams: first those on which the client sends, then those on which we do.
    fn streams(&mut self, params: &Params, seat: &Seat) -> Result<Vec<Stream>, Early> {
        let each = params.streams;
        let all = if params.bidirectional { each * 2 } else { each };
        let planned = Some(params.omit_s + params.time_s)
            .filter(|_| params.time_s > 0)
            .map(Duration::from_secs);
        let mut arrivals: Vec<Arrival> = Vec::new();
        let mut deadline = clock::now() + GRACE;
        while (arrivals.len() as u64) < all {
            if self.hall.desk.is_stopping() {
                return Err(Early::Server("The receiver was stopped."));
            }
            let Ok(arrival) = self.arrivals.recv_timeout(LOOK) else {
                let came = arrivals.len();
                if clock::now() >= deadline {
                    return Err(Early::Client(format!(
                        "Only {came} of {all} streams were opened."
                    )));
                }
                if self.is_gone() {
                    return Err(Early::Client("The client vanished.".to_owned()));
                }
                continue;
            };
            deadline = clock::now() + GRACE;
            if arrival.is_of(params) {
                arrivals.push(arrival);
            }
        }
        // The order in which they were accepted gives them their direction and number.
        arrivals.sort_by_key(Arrival::place);
        let opened = (0..).zip(arrivals).filter_map(|(place, arrival)| {
            let way = if params.bidirectional && place >= each || params.reverse {
                Way::Send
            } else {
                Way::Receive
            };
            let number = u32::try_from(place % each + 1).unwrap_or(u32::MAX);
            Stream::open(self.hall, params, seat, (number, way), planned, arrival)
        });
        let streams: Vec<Stream> = opened.collect();
        if streams.len() as u64 == all {
            Ok(streams)
        } else {
            Err(Early::Client("A stream was broken off at once.".to_owned()))
        }
    }

    /// Whether the client has closed the control connection.
    fn is_gone(&self) -> bool {
        let mut byte = [0];
        // A read with a timeout is what the socket is left with; it is short.
        matches!(self.stream.peek(&mut byte), Ok(0))
    }

    /// Waits for the client's word that the test is over.
    fn wait(
        &mut self,
        params: &Params,
        streams: &[Stream],
        start: Instant,
        before: &mut Vec<Baseline>,
    ) -> Result<(), Early> {
        let omit = Duration::from_secs(params.omit_s);
        let sending = if params.time_s > 0 {
            omit + Duration::from_secs(params.time_s) + GRACE
        } else {
            self.hall.desk.config.max_duration + GRACE
        };
        let deadline = start.checked_add(sending).unwrap_or(start);
        loop {
            let now = clock::now();
            let age = now.saturating_duration_since(start);
            if before.is_empty() && !omit.is_zero() && age >= omit {
                before.extend(streams.iter().map(|stream| stream.line.omit(now)));
            }
            if self.hall.desk.is_stopping() {
                return Err(Early::Server("The receiver was stopped."));
            }
            if streams.iter().any(|stream| stream.line.is_over()) {
                return Err(Early::Server("The test lasted too long."));
            }
            if now >= deadline {
                return Err(Early::Server(
                    "The client vanished: it did not end the test when its time was over.",
                ));
            }
            let pause = if before.is_empty() && omit > age {
                omit.saturating_sub(age).min(LOOK)
            } else {
                LOOK
            };
            let mut byte = [0];
            let read = self
                .stream
                .set_read_timeout(Some(pause.max(Duration::from_millis(1))))
                .and_then(|()| self.stream.read(&mut byte));
            match read {
                Ok(0) => {
                    return Err(Early::Client(
                        "The client vanished: it closed the control connection.".to_owned(),
                    ));
                }
                Ok(_) => match State::of(byte[0]) {
                    Some(State::TestEnd) => return Ok(()),
                    Some(State::ClientTerminate) => {
                        return Err(Early::Client("The client ended the test.".to_owned()));
                    }
                    // Nothing else is expected here, and nothing depends on it.
                    _ => {}
                },
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(error) => {
                    return Err(Early::Client(format!(
                        "The client vanished: the control connection failed ({error})."
                    )));
                }
            }
        }
    }

    /// Exchanges results: the client's first, then ours.
    fn results(
        &mut self,
        params: &Params,
        streams: &[Stream],
        before: &[Baseline],
        took: Duration,
    ) -> Result<(), Early> {
        self.tell(State::ExchangeResults)?;
        let text = self
            .message()
            .map_err(|why| Early::Client(format!("The client's results {why}.")))?;
        let none = Baseline::default();
        if let Some(theirs) = Results::parse(&text) {
            for (place, stream) in streams.iter().enumerate() {
                let id = stream_id(place as u64);
                if let Some(result) = theirs.streams.iter().find(|result| result.id == id) {
                    let before = before.get(place).unwrap_or(&none);
                    stream.learn(params, result, before);
                }
            }
        }
        let ours = our_results(params, streams, before, took);
        let mut bytes = frame(&ours.encode());
        bytes.push(State::DisplayResults.byte());
        self.stream
            .write_all(&bytes)
            .map_err(|_| Early::Client("The client did not take our results.".to_owned()))?;
        // Its next test may come at once.
        self.free();
        // It says that it is done, or closes, or resets: all the same now.
        let mut byte = [0];
        let _ = read(
            &self.hall.desk,
            &mut self.stream,
            &mut byte,
            clock::now() + MESSAGE,
        );
        Ok(())
    }
}

impl Drop for Control<'_> {
    fn drop(&mut self) {
        self.free();
    }
}
