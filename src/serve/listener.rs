//! A bound listening socket.

use std::io;
use std::net::SocketAddr;

use socket2::{Domain, Protocol, Socket, Type};

/// A bound listening socket.
#[derive(Debug)]
pub struct Listener {
    socket: std::net::TcpListener,
    address: SocketAddr,
}

impl Listener {
    /// The address really bound.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn into_std(self) -> std::net::TcpListener {
        self.socket
    }
}

/// Binds and listens; `[::]` takes IPv6 and IPv4, port 0 any free port.
///
/// The backlog is ours to choose: with the usual 128, a burst would make the server under test drop connection
/// requests, and the connect times measured against it would be ours and not its.
///
/// # Errors
/// What the system says: the address is taken, not here, or not permitted.
pub fn bind(address: SocketAddr, backlog: u32) -> io::Result<Listener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM.nonblocking(),
        Some(Protocol::TCP),
    )?;
    // A restart must not wait for the last connections of its predecessor.
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(!address.ip().is_unspecified())?;
    }
    socket.bind(&address.into())?;
    socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
    let socket: std::net::TcpListener = socket.into();
    let address = socket.local_addr()?;
    Ok(Listener { socket, address })
}
