//! Socket options and counters that no safe crate offers.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Lets a later `bind` to port 0 leave the choice of the port to `connect`
/// (`IP_BIND_ADDRESS_NO_PORT`, ip(7)): each target then has all local ports.
pub fn bind_without_port(socket: &impl AsFd) -> io::Result<()> {
    let on: libc::c_int = 1;
    let length = libc::socklen_t::try_from(size_of::<libc::c_int>()).unwrap_or(4);
    // SAFETY: the descriptor is open for the borrow's time, `on` is an int of the stated length.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_BIND_ADDRESS_NO_PORT,
            (&raw const on).cast(),
            length,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Bytes written to a TCP socket that the peer's kernel has not acknowledged (`SIOCOUTQ`, tcp(7)).
pub fn unacknowledged_bytes(socket: &impl AsFd) -> io::Result<usize> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the descriptor is open for the borrow's time and `bytes` is the int that is filled in.
    let result = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if result == 0 {
        Ok(usize::try_from(bytes).unwrap_or(0))
    } else {
        Err(io::Error::last_os_error())
    }
}
