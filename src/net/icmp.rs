//! Sockets for probes whose answers the kernel stamps and whose errors it tells: ICMP where permitted, else UDP.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};

use super::clock;
use super::connect::describe;
use super::sys::{self, Reported, Telling};

/// How this process may send ICMP echoes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IcmpKind {
    /// By a datagram socket, which needs no privilege but a group in `net.ipv4.ping_group_range`.
    Datagram,
    /// By a raw socket, which needs `CAP_NET_RAW`.
    Raw,
}

impl IcmpKind {
    /// The word in JSON.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Datagram => "datagram",
            Self::Raw => "raw",
        }
    }
}

/// Why there is no such socket.
#[derive(Debug)]
pub enum ProbeError {
    /// This process may not send ICMP.
    NotPermitted {
        /// The group that it acts as.
        group: u32,
    },
    /// There is no way to the address, or this machine refuses to send there.
    Unreachable {
        /// Where it was to go.
        address: IpAddr,
        /// What the system says.
        source: io::Error,
    },
    /// The address to send from is not one of this machine.
    Bind(IpAddr),
    /// The system gave no socket, or refused an option.
    System(io::Error),
}

impl std::fmt::Display for ProbeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotPermitted { group } => write!(
                f,
                "This process may not send ICMP echoes: include its group in the range (sysctl -w \
                 net.ipv4.ping_group_range=\"{group} {group}\"), or give the program CAP_NET_RAW; or measure TCP \
                 connects instead: set method to tcp and name a port."
            ),
            Self::Unreachable { address, source } => match source.raw_os_error() {
                Some(libc::ENETUNREACH | libc::EHOSTUNREACH) => write!(
                    f,
                    "There is no route from this machine to {address} ({}).",
                    describe(source)
                ),
                _ => write!(
                    f,
                    "This machine refuses to send to {address} ({}).",
                    describe(source)
                ),
            },
            Self::Bind(address) => write!(
                f,
                "{address} is not an address of this machine: set bind to one that is."
            ),
            Self::System(source) => {
                write!(
                    f,
                    "The system gave no socket for probes ({}).",
                    describe(source)
                )
            }
        }
    }
}

impl std::error::Error for ProbeError {}

/// Whether this process may send ICMP echoes, and how; otherwise the sentence that says what to change.
pub fn icmp_allowed() -> Result<IcmpKind, String> {
    open_icmp(true)
        .map(|(_, kind)| kind)
        .map_err(|error| error.to_string())
}

/// How often a call is made again whose error may be that of an earlier message.
const TRIES: usize = 4;

/// A socket that sends to, and hears from, one address only.
#[derive(Debug)]
pub struct ProbeSocket {
    socket: Socket,
    is_ipv4: bool,
}

/// Something that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// Bytes that were written into the buffer.
    pub length: usize,
    /// Its time to live or hop limit, where the kernel tells.
    pub ttl: Option<u8>,
    /// When the kernel took it, where it tells; else now.
    pub at: Instant,
}

impl ProbeSocket {
    /// A socket for ICMP messages to and from `address`, whose port does not matter: a datagram socket if this
    /// process may have one, else a raw one.
    pub fn icmp(address: SocketAddr, bind: Option<IpAddr>) -> Result<(Self, IcmpKind), ProbeError> {
        let (socket, kind) = open_icmp(address.is_ipv4())?;
        let mut address = address;
        address.set_port(0);
        Ok((Self::prepared(socket, address, bind)?, kind))
    }

    /// A socket for datagrams to one port of `address`.
    pub fn udp(address: SocketAddr, bind: Option<IpAddr>) -> Result<Self, ProbeError> {
        let socket = Socket::new(
            Domain::for_address(address),
            Type::DGRAM,
            Some(Protocol::UDP),
        )
        .map_err(ProbeError::System)?;
        Self::prepared(socket, address, bind)
    }

    fn prepared(
        socket: Socket,
        address: SocketAddr,
        bind: Option<IpAddr>,
    ) -> Result<Self, ProbeError> {
        let is_ipv4 = address.is_ipv4();
        for what in [Telling::Ttl, Telling::Arrival, Telling::Errors] {
            sys::tell(&socket, is_ipv4, what).map_err(ProbeError::System)?;
        }
        if let Some(bind) = bind {
            socket
                .bind(&SocketAddr::new(bind, 0).into())
                .map_err(|_| ProbeError::Bind(bind))?;
        }
        socket
            .connect(&address.into())
            .map_err(|source| ProbeError::Unreachable {
                address: address.ip(),
                source,
            })?;
        socket.set_nonblocking(true).map_err(ProbeError::System)?;
        Ok(Self { socket, is_ipv4 })
    }

    /// From now on nothing is cut into fragments, whatever size was once reported to fit.
    pub fn send_whole(&self) -> Result<(), ProbeError> {
        sys::tell(&self.socket, self.is_ipv4, Telling::WholePackets).map_err(ProbeError::System)
    }

    /// The address that it sends from; the port of a datagram socket for ICMP is the id of its echoes.
    pub fn local(&self) -> Option<SocketAddr> {
        self.socket.local_addr().ok()?.as_socket()
    }

    /// Sends one message. An error that was reported for an earlier one is not this one's: it is passed over.
    pub fn send(&self, message: &[u8]) -> io::Result<()> {
        let mut last = None;
        for _ in 0..TRIES {
            match self.socket.send(message) {
                Ok(_) => return Ok(()),
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| io::ErrorKind::Interrupted.into()))
    }

    /// The next message, if one is there.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<Arrived>> {
        // An error that waits here as well is in the queue of errors, where it is read with all that it tells.
        let mut arrival = sys::receive_arrival(&self.socket, buffer);
        for _ in 0..TRIES {
            if arrival.is_ok() {
                break;
            }
            arrival = sys::receive_arrival(&self.socket, buffer);
        }
        let Some(arrival) = arrival? else {
            return Ok(None);
        };
        Ok(Some(Arrived {
            length: arrival.length,
            ttl: arrival.ttl,
            at: instant(arrival.arrived_nanos),
        }))
    }

    /// The next error that was reported for something sent, if one is there; as much of that as there is comes
    /// into the buffer.
    pub fn receive_error(&self, buffer: &mut [u8]) -> io::Result<Option<Reported>> {
        sys::receive_error(&self.socket, buffer)
    }
}

impl AsFd for ProbeSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn open_icmp(is_ipv4: bool) -> Result<(Socket, IcmpKind), ProbeError> {
    let (domain, protocol) = if is_ipv4 {
        (Domain::IPV4, Protocol::ICMPV4)
    } else {
        (Domain::IPV6, Protocol::ICMPV6)
    };
    if let Ok(socket) = Socket::new(domain, Type::DGRAM, Some(protocol)) {
        return Ok((socket, IcmpKind::Datagram));
    }
    match Socket::new(domain, Type::RAW, Some(protocol)) {
        Ok(socket) => Ok((socket, IcmpKind::Raw)),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EPERM | libc::EACCES)) => {
            Err(ProbeError::NotPermitted {
                group: sys::group_id(),
            })
        }
        Err(error) => Err(ProbeError::System(error)),
    }
}

/// The kernel stamps with the wall clock, which may step: only how long ago that was is taken from it.
fn instant(stamp_nanos: Option<i128>) -> Instant {
    /// Older stamps are of a clock that was set.
    const OLDEST: Duration = Duration::from_mins(1);
    let now = clock::now();
    let age = stamp_nanos
        .and_then(|stamp| u64::try_from(clock::wall().as_nanosecond() - stamp).ok())
        .map(Duration::from_nanos)
        .filter(|age| *age < OLDEST);
    age.and_then(|age| now.checked_sub(age)).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_refusal_names_both_settings_and_offers_tcp() {
        let text = ProbeError::NotPermitted { group: 65_532 }.to_string();
        for word in [
            "net.ipv4.ping_group_range=\"65532 65532\"",
            "CAP_NET_RAW",
            "method to tcp",
        ] {
            assert!(text.contains(word), "{text}");
        }
    }

    #[test]
    fn a_stamp_that_cannot_be_is_not_believed() {
        let before = clock::now();
        let year = 365 * 86_400 * 1_000_000_000_i128;
        let wall = clock::wall().as_nanosecond();
        for stamp in [None, Some(wall + year), Some(wall - year)] {
            assert!(instant(stamp) >= before);
        }
        assert!(instant(Some(wall - 1_000_000_000)) < clock::now());
    }
}
