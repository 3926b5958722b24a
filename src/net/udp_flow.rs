//! UDP sockets of throughput tests, waiting never longer than [`TURN`].

use std::net::{SocketAddr, UdpSocket};

use socket2::{Domain, Protocol, Socket, Type};

use super::sys;
use super::tcp_flow::{FlowOptions, OpenError, TURN, apply, refused};

/// Receive buffer that is asked for where the plan asks for none, in bytes: a receiver that is held up for a
/// moment must not lose what came meanwhile.
const ROOMY: usize = 8 << 20;

/// Opens a socket that sends to and receives from `address` only; refusals of its host then show as errors.
pub fn open(address: SocketAddr, options: &FlowOptions) -> Result<UdpSocket, OpenError> {
    let any = if address.is_ipv4() {
        SocketAddr::from(([0, 0, 0, 0], 0))
    } else {
        SocketAddr::from(([0_u16; 8], 0))
    };
    let near = options.bind.map_or(any, |bind| SocketAddr::new(bind, 0));
    let socket = bind(near, options)?;
    socket.connect(address).map_err(OpenError::Connect)?;
    Ok(socket)
}

/// Opens a socket for datagrams that the peer sends to us, on a port of the system's choice.
pub fn bind(near: SocketAddr, options: &FlowOptions) -> Result<UdpSocket, OpenError> {
    let socket = Socket::new(Domain::for_address(near), Type::DGRAM, Some(Protocol::UDP))
        .map_err(OpenError::Connect)?;
    apply(&socket, near, options)?;
    if options.window_bytes.is_none() {
        // As much as the system allows.
        let _ = sys::raise_receive_buffer(&socket, ROOMY);
    }
    socket
        .bind(&SocketAddr::new(near.ip(), 0).into())
        .map_err(|source| refused(format!("sending from {}", near.ip()), source))?;
    socket
        .set_read_timeout(Some(TURN))
        .and_then(|()| socket.set_write_timeout(Some(TURN)))
        .map_err(OpenError::Connect)?;
    Ok(socket.into())
}
