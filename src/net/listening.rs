//! Sockets that take part in tests which others start: listening, watching over a peer, connecting back.

use std::io;
use std::net::{Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};

use crate::net::sys;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 1_024;
/// Receive buffer asked for: several milliseconds at the highest rates.
const UDP_BUFFER: usize = 8 << 20;
/// How often a thread that waits for datagrams looks at the time.
const UDP_PATIENCE: Duration = Duration::from_millis(200);
/// A peer that has answered nothing for so long is gone.
const VANISHED: Duration = Duration::from_secs(9);

/// A TCP and a UDP socket that listen on the same port.
pub fn pair(address: SocketAddr) -> io::Result<(TcpListener, UdpSocket)> {
    let mut tries = 0;
    loop {
        let listener = tcp(address)?;
        match udp(listener.local_addr()?) {
            Ok(socket) => return Ok((listener, socket)),
            // A free port was asked for; the one that TCP got is taken in UDP.
            Err(_) if address.port() == 0 && tries < 16 => tries += 1,
            Err(error) => return Err(error),
        }
    }
}

fn tcp(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    both_families(&socket, address)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

fn udp(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::DGRAM,
        Some(Protocol::UDP),
    )?;
    both_families(&socket, address)?;
    socket.bind(&address.into())?;
    sys::raise_receive_buffer(&socket, UDP_BUFFER)?;
    socket.set_read_timeout(Some(UDP_PATIENCE))?;
    sys::ReceiveBatch::prepare(&socket);
    Ok(socket.into())
}

fn both_families(socket: &Socket, address: SocketAddr) -> io::Result<()> {
    if address.ip() == Ipv6Addr::UNSPECIFIED {
        socket.set_only_v6(false)?;
    }
    Ok(())
}

/// Whether an address could not be bound because this machine has no IPv6.
pub fn is_without_v6(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AddrNotAvailable
        || error.raw_os_error() == Some(libc::EAFNOSUPPORT)
}

/// Makes a blocked `accept` on this socket return with an error, now and ever after.
pub fn shut(listener: &TcpListener) {
    // On Linux this wakes the waiting thread; whatever it says, nothing more is to be accepted.
    let _ = SockRef::from(listener).shutdown(Shutdown::Both);
}

/// Has the kernel find out within 10 s that the peer is gone, whichever side sends.
pub fn watch_over(stream: &TcpStream) -> io::Result<()> {
    let socket = SockRef::from(stream);
    let probes = TcpKeepalive::new()
        .with_time(Duration::from_secs(3))
        .with_interval(Duration::from_secs(2))
        .with_retries(3);
    socket.set_tcp_keepalive(&probes)?;
    socket.set_tcp_user_timeout(Some(VANISHED))
}

/// Closes with a reset instead of an end.
pub fn reset(stream: TcpStream) {
    // Without it the close is an ordinary one, which is all that can be done.
    let _ = SockRef::from(&stream).set_linger(Some(Duration::ZERO));
    drop(stream);
}

/// What a client may ask of the sockets that serve it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wishes {
    /// Socket buffer in bytes.
    pub window_bytes: Option<u64>,
    /// Congestion control.
    pub congestion: Option<String>,
    /// No Nagle delay.
    pub no_delay: bool,
    /// Type of service.
    pub tos: Option<u8>,
}

/// Sets what was wished as far as the kernel allows, and says what it did not.
pub fn grant(stream: &TcpStream, wishes: &Wishes) -> Vec<String> {
    let socket = SockRef::from(stream);
    let mut refused = Vec::new();
    if let Some(window) = wishes
        .window_bytes
        .and_then(|size| usize::try_from(size).ok())
    {
        let set = socket
            .set_recv_buffer_size(window)
            .and_then(|()| socket.set_send_buffer_size(window));
        if set.is_err() {
            refused.push(format!(
                "A socket buffer of {window} bytes could not be set."
            ));
        }
    }
    if let Some(name) = &wishes.congestion
        && socket.set_tcp_congestion(name.as_bytes()).is_err()
    {
        refused.push(format!("This machine has no congestion control {name}."));
    }
    if wishes.no_delay {
        // It only matters for small blocks.
        let _ = socket.set_tcp_nodelay(true);
    }
    if let Some(tos) = wishes.tos {
        // IPv6 has its own field, which no client asks for.
        let _ = socket.set_tos_v4(u32::from(tos));
    }
    refused
}

/// Congestion control of a connection.
pub fn congestion(stream: &TcpStream) -> Option<String> {
    let name = SockRef::from(stream).tcp_congestion().ok()?;
    let name: Vec<u8> = name.into_iter().take_while(|byte| *byte != 0).collect();
    String::from_utf8(name).ok()
}

/// Connects to a client that asked for it.
pub fn connect_back(address: SocketAddr, patience: Duration) -> io::Result<TcpStream> {
    TcpStream::connect_timeout(&address, patience)
}

/// A UDP socket of its own towards a client that asked for it.
pub fn udp_towards(address: SocketAddr) -> io::Result<UdpSocket> {
    let any: SocketAddr = if address.is_ipv4() {
        ([0, 0, 0, 0], 0).into()
    } else {
        ([0_u16; 8], 0).into()
    };
    let socket = UdpSocket::bind(any)?;
    socket.connect(address)?;
    socket.set_read_timeout(Some(UDP_PATIENCE))?;
    Ok(socket)
}

/// The buffer of a UDP socket in bytes, as the kernel states it.
pub fn receive_buffer(socket: &UdpSocket) -> Option<u64> {
    let size = SockRef::from(socket).recv_buffer_size().ok()?;
    u64::try_from(size).ok()
}
