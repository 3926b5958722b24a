//! Opening TCP connections without waiting, and what the kernel's errors mean.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, Type};

use crate::measure::outcome::Outcome;
use crate::net::sys;

/// Begins a connection to `address`, from `bind` where one is given; it is not up yet.
pub fn connect(address: SocketAddr, bind: Option<IpAddr>) -> io::Result<mio::net::TcpStream> {
    begin(address, bind, |_| Ok(()))
}

/// Begins half a connection: the peer's kernel answers, and its program knows of nothing, provided that
/// [`let_go`] follows soon after the answer.
///
/// A program that is woken for a connection which then ends at once may not survive it: `iperf -s` 2.1.8 does not.
pub fn half_open(address: SocketAddr, bind: Option<IpAddr>) -> io::Result<mio::net::TcpStream> {
    begin(address, bind, |socket| {
        sys::hold_back_ack(socket)?;
        socket.set_linger(Some(Duration::ZERO))
    })
}

/// Ends half a connection that was answered; true if it took so long that the peer's program may have seen it.
pub fn let_go(stream: mio::net::TcpStream) -> bool {
    let seen = sys::tcp_info(&stream).map_or(true, |info| {
        info.segs_out
            .is_none_or(|sent| sent > info.total_retrans + 1)
    });
    if seen {
        // It ends as connections do, without a reset.
        let _ = SockRef::from(&stream).set_linger(None);
    }
    drop(stream);
    seen
}

fn begin(
    address: SocketAddr,
    bind: Option<IpAddr>,
    prepare: impl FnOnce(&Socket) -> io::Result<()>,
) -> io::Result<mio::net::TcpStream> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM.nonblocking(),
        Some(Protocol::TCP),
    )?;
    if let Some(bind) = bind {
        sys::bind_without_port(&socket)?;
        socket.bind(&SocketAddr::new(bind, 0).into())?;
    }
    prepare(&socket)?;
    match socket.connect(&address.into()) {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {}
        Err(error) => return Err(error),
    }
    Ok(mio::net::TcpStream::from_std(socket.into()))
}

/// Whether `bind` is an address of this machine.
pub fn is_own_address(bind: IpAddr) -> bool {
    std::net::UdpSocket::bind(SocketAddr::new(bind, 0)).is_ok()
}

/// Whether packets to `address` stay on this machine: the kernel would send them from that very address.
pub fn is_local(address: SocketAddr) -> bool {
    if address.ip().is_loopback() {
        return true;
    }
    let any: SocketAddr = if address.is_ipv4() {
        ([0, 0, 0, 0], 0).into()
    } else {
        ([0_u16; 8], 0).into()
    };
    std::net::UdpSocket::bind(any)
        .and_then(|socket| {
            socket.connect(address)?;
            socket.local_addr()
        })
        .is_ok_and(|local| local.ip() == address.ip())
}

/// How many local ports connections may start from; `None` where the system does not say.
pub fn local_ports() -> Option<u32> {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    let mut ends = text.split_whitespace().map(str::parse::<u32>);
    let (first, last) = (ends.next()?.ok()?, ends.next()?.ok()?);
    Some(last.checked_sub(first)? + 1)
}

/// What an error while connecting means.
pub fn connect_outcome(error: &io::Error) -> Outcome {
    match error.raw_os_error() {
        Some(libc::ECONNREFUSED) => Outcome::ConnectRefused,
        Some(libc::ETIMEDOUT) => Outcome::ConnectTimeoutKernel,
        Some(libc::EHOSTUNREACH | libc::ENETUNREACH | libc::EHOSTDOWN | libc::ENETDOWN) => {
            Outcome::Unreachable
        }
        Some(libc::EMFILE) => Outcome::FdExhausted,
        Some(libc::ENFILE) => Outcome::FtabFull,
        Some(libc::EADDRNOTAVAIL | libc::EADDRINUSE) => Outcome::PortExhausted,
        Some(libc::ECONNRESET | libc::EPIPE) => Outcome::ResetBeforeReply,
        _ => Outcome::Other,
    }
}

/// Whether the peer broke the connection off.
pub fn is_reset(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ECONNRESET | libc::EPIPE | libc::ECONNABORTED)
    )
}

/// Whether the peer's host says that nothing listens there.
pub fn is_refused(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ECONNREFUSED)
}

/// Whether the kernel gave up waiting for an answer.
pub fn is_timed_out(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ETIMEDOUT)
}

/// Whether the system has no room for another packet at the moment.
pub fn is_out_of_buffers(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENOBUFS)
}

/// Whether the packet is larger than this machine sends whole.
pub fn is_too_large(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EMSGSIZE)
}

/// The error in words, its system name first, such as `EADDRNOTAVAIL: Cannot assign requested address`.
pub fn describe(error: &io::Error) -> String {
    let Some(number) = error.raw_os_error() else {
        return error.to_string();
    };
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    match NAMES.iter().find(|(known, _)| *known == number) {
        Some((_, name)) => format!("{name}: {text}"),
        None => format!("errno {number}: {text}"),
    }
}

const NAMES: [(i32, &str); 19] = [
    (libc::EACCES, "EACCES"),
    (libc::EADDRINUSE, "EADDRINUSE"),
    (libc::EADDRNOTAVAIL, "EADDRNOTAVAIL"),
    (libc::EAFNOSUPPORT, "EAFNOSUPPORT"),
    (libc::ECONNABORTED, "ECONNABORTED"),
    (libc::ECONNREFUSED, "ECONNREFUSED"),
    (libc::ECONNRESET, "ECONNRESET"),
    (libc::EHOSTUNREACH, "EHOSTUNREACH"),
    (libc::EINVAL, "EINVAL"),
    (libc::EMFILE, "EMFILE"),
    (libc::EMSGSIZE, "EMSGSIZE"),
    (libc::ENETUNREACH, "ENETUNREACH"),
    (libc::ENFILE, "ENFILE"),
    (libc::ENOBUFS, "ENOBUFS"),
    (libc::ENOMEM, "ENOMEM"),
    (libc::EPERM, "EPERM"),
    (libc::EPIPE, "EPIPE"),
    (libc::EPROTO, "EPROTO"),
    (libc::ETIMEDOUT, "ETIMEDOUT"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_kernel_have_their_outcome_and_name() {
        let outcome = |number| connect_outcome(&io::Error::from_raw_os_error(number));
        assert_eq!(outcome(libc::EADDRNOTAVAIL), Outcome::PortExhausted);
        assert_eq!(outcome(libc::EMFILE), Outcome::FdExhausted);
        assert_eq!(outcome(libc::ENETUNREACH), Outcome::Unreachable);
        assert_eq!(outcome(libc::EINVAL), Outcome::Other);
        let text = describe(&io::Error::from_raw_os_error(libc::ECONNREFUSED));
        assert_eq!(text, "ECONNREFUSED: Connection refused");
    }

    #[test]
    fn loopback_is_local_and_an_address_of_nobody_is_not_ours() {
        assert!(is_local(([127, 0, 0, 1], 80).into()));
        assert!(is_own_address([127, 0, 0, 1].into()));
        assert!(!is_own_address([192, 0, 2, 1].into()));
    }
    #[test]
    fn half_a_connection_is_answered_and_the_program_does_not_know() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        listener.set_nonblocking(true).unwrap();
        for _ in 0..10 {
            let stream = half_open(address, None).unwrap();
            while !sys::wait(&stream, sys::Ready::Write, Duration::from_secs(1)).unwrap() {}
            assert!(stream.take_error().unwrap().is_none());
            // Only a thread that was held up for long lets the last step go out.
            assert!(let_go(stream) || listener.accept().is_err());
            while listener.accept().is_ok() {}
        }
    }
}
