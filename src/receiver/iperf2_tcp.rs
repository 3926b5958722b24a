//! iperf 2 over TCP: each connection on a thread of its own, from its first byte to its close.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::desk::{Desk, Seat, Visit};
use super::line::Line;
use super::opening::{self, Opening};
use super::{send, spawn};
use crate::measure::flow::Way;
use crate::measure::plan::throughput::Receive;
use crate::net::{clock, listening, sys};
use crate::wire::iperf2::ack;
use crate::wire::iperf2::header::{Amount, ClientHeader, Mode};

/// How long a client has to say what it is.
const HEADER: Duration = Duration::from_secs(5);
/// How often a thread that waits for a client looks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(200);
/// Bytes read to tell what a client is; the longest header with its key is shorter.
const OPENING: usize = 1_024;
/// Bytes read at once.
const READ: usize = 1 << 20;
/// How long a client may take to listen for the return direction.
pub(super) const RETURN: Duration = Duration::from_secs(8);
/// How long a client may take to close after the last byte.
const CLOSE: Duration = Duration::from_secs(10);

/// Accepts until the listener is shut; no client ever keeps another one waiting here.
pub(super) fn accept(desk: &Arc<Desk>, listener: &TcpListener) {
    accept_with(desk, listener, "iperf2", |desk, stream, from, visit| {
        serve(&desk, stream, from, visit);
    });
}

/// The accept loop of every receiver: a thread for each connection that is let in.
pub(super) fn accept_with(
    desk: &Arc<Desk>,
    listener: &TcpListener,
    name: &str,
    serve: impl Fn(Arc<Desk>, TcpStream, SocketAddr, Visit) + Send + Sync + Clone + 'static,
) {
    loop {
        let accepted = listener.accept();
        if desk.is_stopping() {
            return;
        }
        let Ok((stream, from)) = accepted else {
            // Out of descriptors, or the client is gone already.
            thread::sleep(Duration::from_millis(20));
            continue;
        };
        let Some(visit) = desk.admit(from) else {
            continue;
        };
        let (serve, own) = (serve.clone(), Arc::clone(desk));
        if let Err(error) = spawn(name, move || serve(own, stream, from, visit)) {
            desk.refuse(from.ip(), &format!("No thread could be started: {error}."));
        }
    }
}

/// One connection as it is served.
struct Guest {
    stream: TcpStream,
    from: SocketAddr,
    local: Option<SocketAddr>,
    seat: Seat,
    amount: Option<Amount>,
    rate: f64,
    planned: Option<Duration>,
    /// Whether the client is ours and wants that the kernel throws away what it sends.
    discard: bool,
}

fn serve(desk: &Arc<Desk>, mut stream: TcpStream, from: SocketAddr, visit: Visit) {
    let accepted = clock::wall();
    // Without it a vanished client is noticed by its silence only.
    let _ = listening::watch_over(&stream);
    let mut first = [0; OPENING];
    let (opening, length) = match open(desk, &mut stream, &mut first) {
        Ok(opened) => opened,
        Err(why) => {
            if let Some(why) = why {
                desk.refuse(from.ip(), why);
            }
            return;
        }
    };
    let header = match opening {
        Opening::Headed(header, _) => Some(*header),
        Opening::Foreign(what) => {
            desk.refuse(from.ip(), &format!("Closed: it was {what}."));
            return;
        }
        Opening::Plain | Opening::More => None,
    };
    if header.as_ref().is_some_and(|header| header.key.is_some()) {
        desk.refuse(
            from.ip(),
            "Closed: the client sent a permit key, and this receiver has none.",
        );
        listening::reset(stream);
        return;
    }
    let local = stream.local_addr().ok();
    let port = local.map_or(desk.config.listen.port(), |local| local.port());
    let longest = desk.config.max_duration;
    let group = opening::group(header.as_ref(), from, port, None, longest);
    let Ok(seat) = desk.seat(from, &group, 1) else {
        return;
    };
    drop(visit);
    if let Some(header) = &header
        && acknowledge(&mut stream, header, accepted).is_err()
    {
        return;
    }
    // Reading without a limit of time from here on: the desk watches over the line.
    let _ = stream.set_read_timeout(None);
    let amount = header.as_ref().map(|header| header.amount);
    let guest = Guest {
        stream,
        from,
        local,
        seat,
        amount,
        rate: group.plan.bandwidth_bits_per_second.unwrap_or(0.0),
        planned: group.plan.duration_s.map(Duration::from_secs_f64),
        discard: group.plan.receive == Receive::Discard,
    };
    let mode = header.as_ref().map_or(Mode::Plain, ClientHeader::mode);
    let port = header.as_ref().map_or(0, |header| header.port);
    match mode {
        Mode::Plain => guest.take(length),
        Mode::Reverse => guest.give(),
        Mode::FullDuplex => guest.both(length),
        Mode::Dual => guest.and_back(length, port),
        Mode::Tradeoff => guest.then_back(length, port),
    }
}

/// Reads until it is clear what the client is. `Err` where it is to be closed: with the reason, or without
/// one where it only tried whether it can connect.
fn open(
    desk: &Desk,
    stream: &mut TcpStream,
    first: &mut [u8; OPENING],
) -> Result<(Opening, usize), Option<&'static str>> {
    let deadline = clock::now() + HEADER;
    let mut length = 0;
    loop {
        let left = deadline.saturating_duration_since(clock::now());
        if left.is_zero() {
            return Err(Some(if length == 0 {
                "Closed: it connected and said nothing for 5 s."
            } else {
                "Closed: it began a header and did not finish it in 5 s."
            }));
        }
        if desk.is_stopping() {
            return Err(None);
        }
        // A socket without a timeout would be no worse than a silent client.
        let _ = stream.set_read_timeout(Some(left.min(LOOK)));
        let ended = match stream.read(&mut first[length..]) {
            Ok(0) if length == 0 => return Err(None),
            Ok(0) => true,
            Ok(count) => {
                length += count;
                false
            }
            Err(error) if is_pause(&error) => continue,
            Err(_) => return Err(None),
        };
        let opening = opening::read(&first[..length], ended || length == OPENING);
        if opening != Opening::More {
            return Ok((opening, length));
        }
        if ended || length == OPENING {
            return Ok((
                Opening::Foreign("something that is no iperf 2 client"),
                length,
            ));
        }
    }
}

fn is_pause(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
    )
}

/// Answers a header that wants it; anyone else would take the answer for payload.
fn acknowledge(
    stream: &mut TcpStream,
    header: &ClientHeader,
    accepted: jiff::Timestamp,
) -> io::Result<()> {
    if !header.wants_ack() {
        return Ok(());
    }
    let mut bytes = match header.start {
        Some(start) => {
            ack::encode_with_stamps(start, stamp(accepted), stamp(clock::wall())).to_vec()
        }
        None => ack::encode().to_vec(),
    };
    if let Some(own) = header.own {
        // What it asked for is what is done.
        ack::mark(&mut bytes, own);
    }
    stream.write_all(&bytes)
}

/// Seconds and microseconds as iperf writes them, 32 bits each.
pub(super) fn stamp(time: jiff::Timestamp) -> (u32, u32) {
    let micros = time.as_microsecond();
    let seconds = micros.div_euclid(1_000_000).rem_euclid(1 << 32);
    (
        u32::try_from(seconds).unwrap_or(0),
        u32::try_from(micros.rem_euclid(1_000_000)).unwrap_or(0),
    )
}

impl Guest {
    fn line(&self, way: Way) -> Arc<Line> {
        self.seat.line(
            (self.seat.stream, way),
            (self.local, self.from),
            self.planned,
            Some(&self.stream),
            None,
        )
    }

    /// The client sends; `already` bytes of it are read.
    fn take(self, already: usize) {
        let line = self.line(Way::Receive);
        line.moved(already, 0);
        let Self {
            mut stream,
            seat,
            discard,
            ..
        } = self;
        receive(&mut stream, &line, discard);
        line.end();
        // The client waits for this close, and the test's end for nothing else.
        drop(stream);
        drop(seat);
    }

    /// We send (`-R`).
    fn give(mut self) {
        let line = self.line(Way::Send);
        send::stream(&mut self.stream, &line, self.amount, self.rate, send::BLOCK);
        finish_sending(&mut self.stream);
        line.end();
    }

    /// Both send on this connection (`--full-duplex`).
    fn both(self, already: usize) {
        let out = self.line(Way::Send);
        let back = self.line(Way::Receive);
        back.moved(already, 0);
        let mut stream = self.stream;
        thread::scope(|scope| {
            if let Ok(mut sender) = stream.try_clone() {
                let out = &out;
                let (amount, rate) = (self.amount, self.rate);
                scope.spawn(move || {
                    send::stream(&mut sender, out, amount, rate, send::BLOCK);
                    // The client learns from it that this direction is over.
                    let _ = sender.shutdown(Shutdown::Write);
                });
            }
            receive(&mut stream, &back, self.discard);
        });
        out.end();
        back.end();
        drop(stream);
        drop(self.seat);
    }

    /// The client sends here while we send to a port of its own (`-d`).
    fn and_back(self, already: usize, port: u16) {
        let line = self.line(Way::Receive);
        line.moved(already, 0);
        let Self {
            mut stream,
            from,
            seat,
            amount,
            rate,
            planned,
            discard,
            ..
        } = self;
        thread::scope(|scope| {
            scope.spawn(|| return_flow(&seat, from, port, amount, rate, planned));
            receive(&mut stream, &line, discard);
            line.end();
            drop(stream);
        });
    }

    /// First the client sends, then we do, to a port of its own (`-r`).
    fn then_back(self, already: usize, port: u16) {
        let line = self.line(Way::Receive);
        line.moved(already, 0);
        let Self {
            mut stream,
            from,
            seat,
            amount,
            rate,
            planned,
            discard,
            ..
        } = self;
        receive(&mut stream, &line, discard);
        line.end();
        drop(stream);
        if !line.is_over() {
            return_flow(&seat, from, port, amount, rate, planned);
        }
    }
}

/// Counts what comes until the client ends it; with `discard` the kernel throws it away.
pub(super) fn receive(stream: &mut TcpStream, line: &Line, discard: bool) {
    let mut buffer = vec![0; if discard { 0 } else { READ }];
    loop {
        let got = if discard {
            sys::receive_discarding(stream, READ)
        } else {
            stream.read(&mut buffer)
        };
        match got {
            Ok(0) => return,
            Ok(count) => line.moved(count, 0),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => {
                line.broke(&error);
                return;
            }
        }
        if line.is_over() {
            return;
        }
    }
}

/// Tells the client that this was all, and waits until it has read it.
fn finish_sending(stream: &mut TcpStream) {
    // If the client is gone there is nothing to tell.
    let _ = stream.shutdown(Shutdown::Write);
    let _ = stream.set_read_timeout(Some(LOOK));
    let deadline = clock::now() + CLOSE;
    let mut rest = [0; 4_096];
    while clock::now() < deadline {
        match stream.read(&mut rest) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if is_pause(&error) => {}
            Err(_) => return,
        }
    }
}

/// Connects to the port on which the client listens, and sends what it asked for, without a header.
fn return_flow(
    seat: &Seat,
    from: SocketAddr,
    port: u16,
    amount: Option<Amount>,
    rate: f64,
    planned: Option<Duration>,
) {
    let mut to = from;
    to.set_port(port);
    let mut connected = connect(seat, to);
    let local = connected
        .as_ref()
        .ok()
        .and_then(|stream| stream.local_addr().ok());
    let line = seat.line(
        (seat.stream, Way::Send),
        (local, to),
        planned,
        connected.as_ref().ok(),
        None,
    );
    match &mut connected {
        Ok(stream) => {
            // As for every connection: without it only silence tells.
            let _ = listening::watch_over(stream);
            send::stream(stream, &line, amount, rate, send::BLOCK);
            finish_sending(stream);
            line.end();
        }
        Err(error) => line.fail(format!(
            "The client's port {port} for the return direction could not be reached ({error}): a firewall or address translation may be in the way."
        )),
    }
}

/// The client may need a moment before it listens.
fn connect(seat: &Seat, to: SocketAddr) -> io::Result<TcpStream> {
    let deadline = clock::now() + RETURN;
    loop {
        let left = deadline.saturating_duration_since(clock::now());
        match listening::connect_back(to, left.max(LOOK)) {
            Ok(stream) => return Ok(stream),
            Err(error)
                if error.kind() == ErrorKind::ConnectionRefused
                    && !left.is_zero()
                    && !seat.desk.is_stopping() =>
            {
                thread::sleep(Duration::from_millis(20));
            }
            Err(error) => return Err(error),
        }
    }
}
