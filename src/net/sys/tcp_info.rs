//! What the kernel knows of a TCP connection (`TCP_INFO`, tcp(7), `struct tcp_info` of linux/tcp.h).

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// The kernel's figures of one connection; the sums count from its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Segment size for sending, in bytes.
    pub snd_mss: u32,
    /// Segments sent and not yet acknowledged.
    pub unacked: u32,
    /// Smoothed round-trip time.
    pub rtt: Duration,
    /// Smallest round-trip time; `None` where the kernel does not tell or has none yet.
    pub min_rtt: Option<Duration>,
    /// Congestion window, in segments.
    pub snd_cwnd: u32,
    /// Segments sent again.
    pub total_retrans: u32,
    /// Bytes sent again; `None` before Linux 4.19.
    pub bytes_retrans: Option<u64>,
    /// Bytes acknowledged, SYN and FIN counted; `None` before Linux 4.1.
    pub bytes_acked: Option<u64>,
    /// Time with data to send or unacknowledged; `None` before Linux 4.10, like the two below.
    pub busy: Option<Duration>,
    /// Part of it limited by the peer's window.
    pub rwnd_limited: Option<Duration>,
    /// Part of it limited by the send buffer.
    pub sndbuf_limited: Option<Duration>,
    /// Peer's window in bytes; `None` before Linux 5.4.
    pub snd_wnd: Option<u32>,
    /// Segments sent, those without data too.
    pub segs_out: Option<u32>,
}

/// As much as any kernel fills in, with room for fields to come.
const LENGTH: usize = 320;

/// Reads the figures of a TCP socket.
pub fn tcp_info(socket: &impl AsFd) -> io::Result<TcpInfo> {
    // Fields are found by their place, so that the kernel's length decides which of them exist.
    let mut bytes = [0_u8; LENGTH];
    let mut length = libc::socklen_t::try_from(LENGTH).unwrap_or(0);
    // SAFETY: the descriptor is open for the borrow's time, `bytes` is writable for `length` bytes, and the
    // kernel stores in `length` how many of them it filled in.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            bytes.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    let filled = usize::try_from(length).unwrap_or(0).min(LENGTH);
    Ok(read(&bytes[..filled]))
}

fn read(bytes: &[u8]) -> TcpInfo {
    let word = |at: usize| {
        let four = bytes.get(at..at + 4)?;
        Some(u32::from_ne_bytes(four.try_into().ok()?))
    };
    let long = |at: usize| {
        let eight = bytes.get(at..at + 8)?;
        Some(u64::from_ne_bytes(eight.try_into().ok()?))
    };
    let micros = |at| long(at).map(Duration::from_micros);
    TcpInfo {
        snd_mss: word(16).unwrap_or(0),
        unacked: word(24).unwrap_or(0),
        rtt: Duration::from_micros(u64::from(word(68).unwrap_or(0))),
        snd_cwnd: word(80).unwrap_or(0),
        total_retrans: word(100).unwrap_or(0),
        bytes_acked: long(120),
        // Without a sample the kernel says 2³² − 1.
        min_rtt: word(148)
            .filter(|micros| *micros != u32::MAX)
            .map(|micros| Duration::from_micros(u64::from(micros))),
        busy: micros(168),
        rwnd_limited: micros(176),
        sndbuf_limited: micros(184),
        bytes_retrans: long(208),
        snd_wnd: word(228),
        segs_out: word(136),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn acknowledged_bytes_of_a_connection_are_those_that_were_read() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut receiver, _) = listener.accept().unwrap();
        let before = tcp_info(&sender).unwrap().bytes_acked.unwrap();
        sender.write_all(&[7; 5_000]).unwrap();
        receiver.read_exact(&mut [0; 5_000]).unwrap();
        loop {
            let info = tcp_info(&sender).unwrap();
            if info.bytes_acked.unwrap() - before == 5_000 {
                assert!(info.snd_mss > 0 && info.snd_cwnd > 0 && info.rtt > Duration::ZERO);
                assert!(info.busy.is_some() && info.bytes_retrans == Some(0));
                break;
            }
        }
    }

    #[test]
    fn an_older_kernel_leaves_the_newer_fields_out() {
        assert_eq!(read(&[]), TcpInfo::default());
        let info = read(&[1; 168]);
        assert!(info.bytes_acked.is_some() && info.min_rtt.is_some());
        assert_eq!((info.busy, info.snd_wnd), (None, None));
        assert!(tcp_info(&std::net::UdpSocket::bind("127.0.0.1:0").unwrap()).is_err());
    }
}
