//! Socket options and counters that no safe crate offers.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

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

/// Has a TCP socket hold back the last step of its handshake for up to 200 ms (`TCP_DEFER_ACCEPT`, tcp(7)): until
/// then the peer's kernel has answered and its program knows of nothing.
pub fn hold_back_ack(socket: &impl AsFd) -> io::Result<()> {
    let seconds: libc::c_int = 1;
    let length = libc::socklen_t::try_from(size_of::<libc::c_int>()).unwrap_or(4);
    // SAFETY: the descriptor is open for the borrow's time, `seconds` is an int of the stated length.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_DEFER_ACCEPT,
            (&raw const seconds).cast(),
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

/// What to wait for on a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ready {
    /// Bytes, the end, or an error are there.
    Read,
    /// There is room to write, or a connection is up or has failed.
    Write,
}

/// Waits until the descriptor is ready, at most so long (1 ms at least); false when it is not.
pub fn wait(socket: &impl AsFd, ready: Ready, most: Duration) -> io::Result<bool> {
    let mut entry = libc::pollfd {
        fd: socket.as_fd().as_raw_fd(),
        events: match ready {
            Ready::Read => libc::POLLIN,
            Ready::Write => libc::POLLOUT,
        },
        revents: 0,
    };
    let millis = libc::c_int::try_from(most.as_millis()).unwrap_or(libc::c_int::MAX);
    // SAFETY: `entry` is one valid entry and outlives the call.
    let result = unsafe { libc::poll(&raw mut entry, 1, millis.max(1)) };
    if result >= 0 {
        return Ok(result > 0);
    }
    let error = io::Error::last_os_error();
    if error.kind() == io::ErrorKind::Interrupted {
        return Ok(false);
    }
    Err(error)
}

/// Reads what is there without waiting, whatever mode the socket is in; 0 is the end of a TCP stream.
pub fn receive_now(socket: &impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the descriptor is open for the borrow's time and `buffer` is writable for its length.
    let count = unsafe {
        libc::recv(
            socket.as_fd().as_raw_fd(),
            buffer.as_mut_ptr().cast(),
            buffer.len(),
            libc::MSG_DONTWAIT,
        )
    };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

/// Has the kernel throw away what a TCP socket received, at most `most` bytes (`MSG_TRUNC`, tcp(7)), and says
/// how much; 0 is the end. Waits as the socket's mode says.
pub fn receive_discarding(socket: &impl AsFd, most: usize) -> io::Result<usize> {
    // SAFETY: with MSG_TRUNC a TCP socket writes nothing, so the null buffer is never used.
    let count = unsafe {
        libc::recv(
            socket.as_fd().as_raw_fd(),
            std::ptr::null_mut(),
            most,
            libc::MSG_TRUNC,
        )
    };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn bytes_are_waited_for_read_at_once_and_thrown_away() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (receiver, _) = listener.accept().unwrap();
        assert!(!wait(&receiver, Ready::Read, Duration::ZERO).unwrap());
        assert!(wait(&sender, Ready::Write, Duration::ZERO).unwrap());
        let mut buffer = [0; 4];
        let empty = receive_now(&receiver, &mut buffer).unwrap_err();
        assert_eq!(empty.kind(), io::ErrorKind::WouldBlock);
        sender.write_all(b"abcdefghij").unwrap();
        assert!(wait(&receiver, Ready::Read, Duration::from_secs(10)).unwrap());
        assert_eq!(receive_now(&receiver, &mut buffer).unwrap(), 4);
        assert_eq!(&buffer, b"abcd");
        assert_eq!(receive_discarding(&receiver, 1_000).unwrap(), 6);
        drop(sender);
        assert_eq!(receive_discarding(&receiver, 1_000).unwrap(), 0);
    }
}
