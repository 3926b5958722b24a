//! ICMP for IPv4 (RFC 792) and IPv6 (RFC 4443): echo requests and replies, and what routers and hosts report.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Which of the two protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// ICMP, on IPv4.
    V4,
    /// `ICMPv6`, on IPv6.
    V6,
}

impl Version {
    /// The one that goes to this address.
    pub const fn towards(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }

    /// Bytes of an IP header without options.
    pub const fn ip_header(self) -> usize {
        match self {
            Self::V4 => 20,
            Self::V6 => 40,
        }
    }

    /// The number of the protocol in the IP header.
    pub const fn protocol(self) -> u8 {
        match self {
            Self::V4 => 1,
            Self::V6 => 58,
        }
    }

    /// Types of an echo request and of its reply.
    const fn echo_types(self) -> (u8, u8) {
        match self {
            Self::V4 => (8, 0),
            Self::V6 => (128, 129),
        }
    }
}

/// Bytes of an echo's header, which stand before its payload.
pub const ECHO_HEADER: usize = 8;

/// An echo request or reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo<'a> {
    /// Tells one program's echoes from another's.
    pub id: u16,
    /// Tells one echo from another.
    pub seq: u16,
    /// Comes back as it was sent.
    pub payload: &'a [u8],
}

/// One message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// Asks for a reply.
    Request(Echo<'a>),
    /// The reply.
    Reply(Echo<'a>),
    /// A packet did not get through.
    Report {
        /// Why.
        trouble: Trouble,
        /// The packet, as much of it as could be read.
        about: Option<Quoted>,
    },
    /// Any other message.
    Other,
}

/// Why a packet did not get through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It is larger than the next hop takes and may not be cut ("fragmentation needed", "packet too big").
    TooBig {
        /// What the next hop takes, in bytes; `None` where an old router does not say.
        mtu: Option<u32>,
    },
    /// No route to its network.
    Network,
    /// Its host is not there.
    Host,
    /// Its host does not speak the protocol.
    Protocol,
    /// Nothing listens on its port.
    Port,
    /// A rule forbids it.
    Prohibited,
    /// It met too many routers (a loop, or a small time to live), or a part of it came too late.
    TimeExceeded,
    /// Something else.
    Other {
        /// ICMP type.
        kind: u8,
        /// ICMP code.
        code: u8,
    },
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooBig { mtu: Some(mtu) } => {
                write!(f, "packet too big, the next hop takes {mtu} bytes")
            }
            Self::TooBig { mtu: None } => f.write_str("packet too big"),
            Self::Network => f.write_str("network unreachable"),
            Self::Host => f.write_str("host unreachable"),
            Self::Protocol => f.write_str("protocol unreachable"),
            Self::Port => f.write_str("port unreachable"),
            Self::Prohibited => f.write_str("forbidden by a rule"),
            Self::TimeExceeded => f.write_str("time to live exceeded"),
            Self::Other { kind, code } => write!(f, "ICMP type {kind}, code {code}"),
        }
    }
}

/// The packet that a report is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quoted {
    /// Protocol number in its IP header; extension headers of IPv6 are not followed.
    pub protocol: u8,
    /// Who sent it.
    pub source: IpAddr,
    /// Where it was to go.
    pub destination: IpAddr,
    /// Id and sequence number, if it is an echo request.
    pub echo: Option<(u16, u16)>,
    /// Source and destination port, if it is TCP or UDP.
    pub ports: Option<(u16, u16)>,
}

/// A whole packet as a raw IPv4 socket gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Who sent it.
    pub source: Ipv4Addr,
    /// Its remaining time to live.
    pub ttl: u8,
    /// What it carries.
    pub message: Message<'a>,
}

/// Writes an echo request into `message`. The checksum of IPv6 covers addresses that only the kernel knows, which
/// fills it in on every socket; that of IPv4 is complete.
pub fn write_request(version: Version, id: u16, seq: u16, payload: &[u8], message: &mut Vec<u8>) {
    message.clear();
    message.extend([version.echo_types().0, 0, 0, 0]);
    message.extend(id.to_be_bytes());
    message.extend(seq.to_be_bytes());
    message.extend(payload);
    if version == Version::V4 {
        let sum = checksum(message);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
    }
}

/// The Internet checksum (RFC 1071); 0 over a message that carries its own.
pub fn checksum(bytes: &[u8]) -> u16 {
    !fold(sum(bytes))
}

/// The checksum of an `ICMPv6` message, which covers a pseudo header (RFC 8200, 8.1); 0 over one that carries its own.
pub fn checksum_v6(source: Ipv6Addr, destination: Ipv6Addr, message: &[u8]) -> u16 {
    let length = message.len() as u64;
    let header = sum(&source.octets())
        + sum(&destination.octets())
        + u64::from(Version::V6.protocol())
        + (length >> 16)
        + (length & 0xFFFF);
    !fold(header + sum(message))
}

fn sum(bytes: &[u8]) -> u64 {
    bytes
        .chunks(2)
        .map(|pair| u64::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u64::from(*low)))
        .sum()
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xFFFF {
        sum = (sum >> 16) + (sum & 0xFFFF);
    }
    (sum & 0xFFFF) as u16
}

/// Reads a message without its IP header, as datagram sockets and raw IPv6 sockets give it; the kernel has checked
/// it. `None` when it is cut short.
pub fn read(version: Version, bytes: &[u8]) -> Option<Message<'_>> {
    let (kind, code) = (*bytes.first()?, *bytes.get(1)?);
    let information = word(bytes, 4)?;
    let echo = || Echo {
        id: (information >> 16) as u16,
        seq: (information & 0xFFFF) as u16,
        payload: &bytes[ECHO_HEADER..],
    };
    let (request, reply) = version.echo_types();
    Some(if kind == request && code == 0 {
        Message::Request(echo())
    } else if kind == reply && code == 0 {
        Message::Reply(echo())
    } else if let Some(trouble) = trouble(version, kind, code, information) {
        Message::Report {
            trouble,
            about: quoted(version, &bytes[ECHO_HEADER..]),
        }
    } else {
        Message::Other
    })
}

/// Reads an IPv4 packet with its header, as a raw socket gives it. `None` when it is not ICMP, a fragment, cut
/// short, or its checksum is wrong: the kernel has not looked at it yet.
pub fn read_packet(bytes: &[u8]) -> Option<Packet<'_>> {
    let header = HeaderV4::read(bytes)?;
    let message = bytes.get(header.length..header.total)?;
    if header.protocol != Version::V4.protocol() || header.is_fragment || checksum(message) != 0 {
        return None;
    }
    Some(Packet {
        source: header.source,
        ttl: header.ttl,
        message: read(Version::V4, message)?,
    })
}

/// What a report's type and code mean; `information` is its second word, or what the kernel made of it (the MTU).
/// `None` for messages that are no report.
pub fn trouble(version: Version, kind: u8, code: u8, information: u32) -> Option<Trouble> {
    let named = |mtu: u32| Trouble::TooBig {
        mtu: (mtu > 0).then_some(mtu),
    };
    Some(match (version, kind, code) {
        (Version::V4, 3, 0 | 6 | 11) | (Version::V6, 1, 0) => Trouble::Network,
        (Version::V4, 3, 1 | 7 | 8 | 12) | (Version::V6, 1, 2 | 3) => Trouble::Host,
        (Version::V4, 3, 2) | (Version::V6, 4, 1) => Trouble::Protocol,
        (Version::V4, 3, 3) | (Version::V6, 1, 4) => Trouble::Port,
        // Only the lower half is the MTU (RFC 1191, 4).
        (Version::V4, 3, 4) => named(information & 0xFFFF),
        (Version::V6, 2, _) => named(information),
        (Version::V4, 3, 9 | 10 | 13) | (Version::V6, 1, 1 | 5 | 6) => Trouble::Prohibited,
        (Version::V4, 11, _) | (Version::V6, 3, _) => Trouble::TimeExceeded,
        (Version::V4, 3 | 4 | 12, _) | (Version::V6, 1 | 4, _) => Trouble::Other { kind, code },
        _ => return None,
    })
}

/// Id and sequence number of an echo request that a report quotes, from its ICMP header on.
pub fn quoted_echo(version: Version, bytes: &[u8]) -> Option<(u16, u16)> {
    let information = word(bytes, 4)?;
    (bytes[0] == version.echo_types().0)
        .then_some(((information >> 16) as u16, (information & 0xFFFF) as u16))
}

fn quoted(version: Version, bytes: &[u8]) -> Option<Quoted> {
    let (protocol, source, destination, rest) = match version {
        Version::V4 => {
            let header = HeaderV4::read(bytes)?;
            (
                header.protocol,
                header.source.into(),
                header.destination.into(),
                bytes.get(header.length..)?,
            )
        }
        Version::V6 => {
            let header: &[u8; 40] = bytes.first_chunk()?;
            if header[0] >> 4 != 6 {
                return None;
            }
            let address = |from: usize| -> Option<IpAddr> {
                let octets: [u8; 16] = header[from..from + 16].try_into().ok()?;
                Some(Ipv6Addr::from(octets).into())
            };
            (header[6], address(8)?, address(24)?, &bytes[40..])
        }
    };
    let ports = word(rest, 0).map(|ports| ((ports >> 16) as u16, (ports & 0xFFFF) as u16));
    Some(Quoted {
        protocol,
        source,
        destination,
        echo: quoted_echo(version, rest).filter(|_| protocol == version.protocol()),
        ports: ports.filter(|_| matches!(protocol, 6 | 17)),
    })
}

struct HeaderV4 {
    length: usize,
    total: usize,
    ttl: u8,
    protocol: u8,
    is_fragment: bool,
    source: Ipv4Addr,
    destination: Ipv4Addr,
}

impl HeaderV4 {
    fn read(bytes: &[u8]) -> Option<Self> {
        let header: &[u8; 20] = bytes.first_chunk()?;
        let length = usize::from(header[0] & 0x0F) * 4;
        let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
        let offset = u16::from_be_bytes([header[6], header[7]]);
        (header[0] >> 4 == 4 && length >= 20 && total >= length).then(|| Self {
            length,
            total,
            ttl: header[8],
            protocol: header[9],
            // More fragments follow, or this is not the first.
            is_fragment: offset & 0x3FFF != 0,
            source: Ipv4Addr::new(header[12], header[13], header[14], header[15]),
            destination: Ipv4Addr::new(header[16], header[17], header[18], header[19]),
        })
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at + 4)?;
    Some(u32::from_be_bytes(four.try_into().ok()?))
}

#[cfg(test)]
mod tests;
