//! UDP sockets of throughput tests, waiting never longer than [`TURN`].

use std::net::{SocketAddr, UdpSocket};

use socket2::{Domain, Protocol, Socket, Type};

use super::sys;
use super::tcp_flow::{FlowOptions, OpenError, TURN, apply, near, refused, sending_from};

/// Receive buffer that is asked for where the plan asks for none, in bytes: a receiver that is held up for a
/// moment must not lose what came meanwhile.
const ROOMY: usize = 8 << 20;

/// Opens a socket that sends to and receives from `address` only; refusals of its host then show as errors.
pub fn open(address: SocketAddr, options: &FlowOptions) -> Result<UdpSocket, OpenError> {
    let socket = bind(near(address, options), options)?;
    socket.connect(address).map_err(OpenError::Connect)?;
    Ok(socket)
}

/// Opens a socket for datagrams that the peer sends to us; port 0 = one of the system's choice.
pub fn bind(near: SocketAddr, options: &FlowOptions) -> Result<UdpSocket, OpenError> {
    let socket = Socket::new(Domain::for_address(near), Type::DGRAM, Some(Protocol::UDP))
        .map_err(OpenError::Connect)?;
    apply(&socket, near, options)?;
    if options.window_bytes.is_none() {
        // As much as the system allows.
        let _ = sys::raise_receive_buffer(&socket, ROOMY);
    }
    socket
        .bind(&near.into())
        .map_err(|source| refused(sending_from(near), source))?;
    socket
        .set_read_timeout(Some(TURN))
        .and_then(|()| socket.set_write_timeout(Some(TURN)))
        .map_err(OpenError::Connect)?;
    Ok(socket.into())
}
