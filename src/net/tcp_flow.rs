//! TCP sockets of throughput tests: opened with all their options, waiting never longer than [`TURN`].

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, Type};

use super::clock;
use super::connect::describe;
use super::sys::{self, Ready};

/// The longest that one read or write waits, so that a stop and the end of a test are seen in time.
pub const TURN: Duration = Duration::from_millis(100);

/// Options of a test's sockets; `None` = the system's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowOptions {
    /// Local address to send from.
    pub bind: Option<IpAddr>,
    /// Local port to send from.
    pub port: Option<u16>,
    /// Socket buffers, in bytes.
    pub window_bytes: Option<u64>,
    /// Maximum segment size (TCP).
    pub mss_bytes: Option<u32>,
    /// Type of service byte.
    pub tos: Option<u8>,
    /// Congestion control (TCP).
    pub congestion: Option<String>,
}

/// Why a flow could not be opened.
#[derive(Debug)]
pub enum OpenError {
    /// The system refuses an option.
    Option {
        /// Which, in words.
        what: String,
        /// Why.
        source: io::Error,
    },
    /// The connection failed.
    Connect(io::Error),
    /// No answer within the limit.
    NoAnswer(Duration),
    /// The run was stopped meanwhile.
    Stopped,
}

impl std::fmt::Display for OpenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Option { what, source } => {
                write!(f, "this system refuses {what} ({})", describe(source))
            }
            Self::Connect(source) => match source.raw_os_error() {
                Some(libc::ECONNREFUSED) => {
                    f.write_str("refused: nothing listens there (connection refused)")
                }
                _ => write!(f, "connecting failed ({})", describe(source)),
            },
            Self::NoAnswer(limit) => write!(
                f,
                "no answer within {} s: the host is down or a firewall drops the packets",
                limit.as_secs_f64()
            ),
            Self::Stopped => f.write_str("stopped before it was connected"),
        }
    }
}

impl std::error::Error for OpenError {}

/// Opens a connection with these options; gives up after `limit`, or soon after `stopped` says so.
pub fn open(
    address: SocketAddr,
    options: &FlowOptions,
    limit: Duration,
    stopped: &dyn Fn() -> bool,
) -> Result<TcpStream, OpenError> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM.nonblocking(),
        Some(Protocol::TCP),
    )
    .map_err(OpenError::Connect)?;
    apply(&socket, address, options)?;
    if let Some(mss) = options.mss_bytes {
        socket
            .set_tcp_mss(mss)
            .map_err(|source| refused(format!("a segment size of {mss} bytes"), source))?;
    }
    if let Some(name) = &options.congestion {
        socket
            .set_tcp_congestion(name.as_bytes())
            .map_err(|source| refused(format!("the congestion control {name}"), source))?;
    }
    if options.port.is_some() {
        // Connections that ended there a moment ago, to other peers, do no harm.
        socket.set_reuse_address(true).map_err(OpenError::Connect)?;
    } else if options.bind.is_some() {
        sys::bind_without_port(&socket).map_err(OpenError::Connect)?;
    }
    if options.bind.is_some() || options.port.is_some() {
        let near = near(address, options);
        socket
            .bind(&near.into())
            .map_err(|source| refused(sending_from(near), source))?;
    }
    match socket.connect(&address.into()) {
        Ok(()) => {}
        Err(error) if options.port.is_some() && error.kind() == io::ErrorKind::AddrNotAvailable => {
            let what = format!(
                "{} to this peer again so soon: the connection before rests for a minute",
                sending_from(near(address, options))
            );
            return Err(refused(what, error));
        }
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {
            wait_for_connection(&socket, limit, stopped)?;
        }
        Err(error) => return Err(OpenError::Connect(error)),
    }
    settle(&socket).map_err(OpenError::Connect)?;
    Ok(socket.into())
}

/// Where a flow to `address` is sent from: what is not asked for is left to the system.
pub(super) fn near(address: SocketAddr, options: &FlowOptions) -> SocketAddr {
    let any: IpAddr = if address.is_ipv4() {
        [0, 0, 0, 0].into()
    } else {
        [0_u16; 8].into()
    };
    SocketAddr::new(options.bind.unwrap_or(any), options.port.unwrap_or(0))
}

/// Says what was to be bound, without what was left to the system.
pub(super) fn sending_from(near: SocketAddr) -> String {
    match (near.ip().is_unspecified(), near.port()) {
        (_, 0) => format!("sending from {}", near.ip()),
        (true, port) => format!("sending from port {port}"),
        (false, _) => format!("sending from {near}"),
    }
}

fn wait_for_connection(
    socket: &Socket,
    limit: Duration,
    stopped: &dyn Fn() -> bool,
) -> Result<(), OpenError> {
    let end = clock::now() + limit;
    while !sys::wait(socket, Ready::Write, TURN / 2).map_err(OpenError::Connect)? {
        if stopped() {
            return Err(OpenError::Stopped);
        }
        if clock::now() >= end {
            return Err(OpenError::NoAnswer(limit));
        }
    }
    // Writable means decided, not connected.
    match socket.take_error() {
        Ok(None) => Ok(()),
        Ok(Some(error)) | Err(error) => Err(OpenError::Connect(error)),
    }
}

/// From now on reads and writes wait, but not long.
fn settle(socket: &Socket) -> io::Result<()> {
    socket.set_nonblocking(false)?;
    socket.set_read_timeout(Some(TURN))?;
    socket.set_write_timeout(Some(TURN))
}

/// Buffers and type of service, for TCP and UDP alike.
pub(super) fn apply(
    socket: &Socket,
    address: SocketAddr,
    options: &FlowOptions,
) -> Result<(), OpenError> {
    if let Some(window) = options.window_bytes {
        let window = usize::try_from(window).unwrap_or(usize::MAX);
        // Too much is not refused but cut; what was given is read back later.
        socket
            .set_send_buffer_size(window)
            .and_then(|()| socket.set_recv_buffer_size(window))
            .map_err(|source| refused(format!("socket buffers of {window} bytes"), source))?;
    }
    if let Some(tos) = options.tos {
        let set = if address.is_ipv4() {
            socket.set_tos_v4(u32::from(tos))
        } else {
            socket.set_tclass_v6(u32::from(tos))
        };
        set.map_err(|source| refused(format!("the type of service {tos}"), source))?;
    }
    Ok(())
}

pub(super) fn refused(what: String, source: io::Error) -> OpenError {
    OpenError::Option { what, source }
}

/// A listener for connections that the peer opens back to us, on a port of the system's choice.
pub fn listen(near: SocketAddr, options: &FlowOptions) -> Result<TcpListener, OpenError> {
    let socket = Socket::new(Domain::for_address(near), Type::STREAM, Some(Protocol::TCP))
        .map_err(OpenError::Connect)?;
    apply(&socket, near, options)?;
    socket
        .bind(&SocketAddr::new(near.ip(), 0).into())
        .and_then(|()| socket.listen(256))
        .and_then(|()| socket.set_nonblocking(true))
        .map_err(OpenError::Connect)?;
    Ok(socket.into())
}

/// The next connection from `peer`, if one is there within `most`; others are closed.
pub fn accept(
    listener: &TcpListener,
    peer: IpAddr,
    most: Duration,
) -> io::Result<Option<TcpStream>> {
    if !sys::wait(listener, Ready::Read, most)? {
        return Ok(None);
    }
    match listener.accept() {
        Ok((stream, from)) if from.ip() == peer => {
            settle(&Socket::from(stream.try_clone()?))?;
            Ok(Some(stream))
        }
        Ok(_) => Ok(None),
        // Gone again, or not there: the next may be.
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::WouldBlock
                    | io::ErrorKind::ConnectionAborted
                    | io::ErrorKind::Interrupted
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Send and receive buffer as the kernel counts them, in bytes.
///
/// Linux doubles what is asked for to cover its own bookkeeping, so half of it is what holds data.
pub fn buffers(socket: &impl std::os::fd::AsFd) -> (Option<u64>, Option<u64>) {
    let socket = SockRef::from(socket);
    let half = |size: io::Result<usize>| size.ok().and_then(|size| u64::try_from(size / 2).ok());
    (
        half(socket.send_buffer_size()),
        half(socket.recv_buffer_size()),
    )
}

/// The congestion control in use.
pub fn congestion(socket: &TcpStream) -> Option<String> {
    let name = SockRef::from(socket).tcp_congestion().ok()?;
    let name: Vec<u8> = name.into_iter().take_while(|byte| *byte != 0).collect();
    String::from_utf8(name).ok().filter(|name| !name.is_empty())
}

/// Has the socket's close cut the connection off instead of sending what is left.
pub fn cut_off(socket: &TcpStream) {
    let _ = SockRef::from(socket).set_linger(Some(Duration::ZERO));
}

/// Translators and firewalls have been seen to forget a connection that is silent for 10 s.
const KEEP_ALIVE: Duration = Duration::from_secs(4);

/// Has a connection that is silent for long keep its place in what stands between the ends.
pub fn keep_alive(socket: &TcpStream) {
    let often = socket2::TcpKeepalive::new()
        .with_time(KEEP_ALIVE)
        .with_interval(KEEP_ALIVE);
    let _ = SockRef::from(socket).set_tcp_keepalive(&often);
}
