//! Probes by ICMP echo.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::time::Duration;

use super::{Heard, Transport};
use crate::net::icmp::{IcmpKind, ProbeError, ProbeSocket};
use crate::net::sys::{self, Ready};
use crate::wire::icmp::{self, Message, Version};

/// Messages that are read in one go; more wait for the next.
const MOST: usize = 256;
/// More payload than any packet holds, in bytes.
pub(in crate::runner) const LARGEST: usize = 65_536;

/// Sends echo requests to one address and hears their replies.
pub(in crate::runner) struct IcmpEchoes {
    socket: ProbeSocket,
    kind: IcmpKind,
    version: Version,
    address: IpAddr,
    /// Tells our echoes on a raw socket; the kernel does it on the other.
    id: u16,
    payload: Vec<u8>,
    message: Vec<u8>,
    buffer: Vec<u8>,
}

impl IcmpEchoes {
    /// Echoes with this payload in bytes.
    pub(in crate::runner) fn open(
        address: SocketAddr,
        bind: Option<IpAddr>,
        payload: usize,
    ) -> Result<Self, ProbeError> {
        let (socket, kind) = ProbeSocket::icmp(address, bind)?;
        Ok(Self {
            socket,
            kind,
            version: Version::towards(address.ip()),
            address: address.ip(),
            id: (RandomState::new().build_hasher().finish() & 0xFFFF) as u16,
            // As ping fills it.
            payload: (0..=u8::MAX).cycle().take(payload).collect(),
            message: Vec::with_capacity(payload + icmp::ECHO_HEADER),
            buffer: vec![0; (payload + 128).max(2_048)],
        })
    }

    /// Echoes of any size that must not be cut into fragments.
    pub(in crate::runner) fn open_whole(address: SocketAddr) -> Result<Self, ProbeError> {
        let echoes = Self::open(address, None, LARGEST)?;
        echoes.socket.send_whole()?;
        Ok(echoes)
    }

    /// Sends an echo with so many bytes of the payload.
    pub(in crate::runner) fn send_sized(&mut self, seq: u16, payload: usize) -> io::Result<()> {
        let payload = &self.payload[..payload.min(self.payload.len())];
        icmp::write_request(self.version, self.id, seq, payload, &mut self.message);
        self.socket.send(&self.message)
    }

    /// The address that it sends from.
    pub(in crate::runner) fn local(&self) -> Option<SocketAddr> {
        self.socket.local()
    }

    fn is_ours(&self, id: u16) -> bool {
        self.kind == IcmpKind::Datagram || id == self.id
    }

    fn hear_errors(&mut self, heard: &mut Vec<Heard>) -> io::Result<()> {
        for _ in 0..MOST {
            let Some(reported) = self.socket.receive_error(&mut self.buffer)? else {
                break;
            };
            // What this machine itself refuses is known from sending.
            let Some((kind, code)) = reported.icmp else {
                continue;
            };
            let about = icmp::quoted_echo(self.version, &self.buffer[..reported.length]);
            let trouble = icmp::trouble(self.version, kind, code, reported.information);
            if let (Some((id, seq)), Some(trouble)) = (about, trouble)
                && self.is_ours(id)
            {
                let who = match reported.offender {
                    Some(offender) if offender != self.address => offender.to_string(),
                    Some(_) => "The host itself".to_owned(),
                    None => "A router".to_owned(),
                };
                heard.push(Heard::Trouble {
                    seq,
                    trouble: Some(trouble),
                    sentence: format!("{who} reports: {trouble}"),
                });
            }
        }
        Ok(())
    }
}

impl Transport for IcmpEchoes {
    fn send(&mut self, seq: u16) -> io::Result<()> {
        self.send_sized(seq, self.payload.len())
    }

    fn wait(&self, most: Duration) -> io::Result<()> {
        sys::wait_any(&[(self.socket.as_fd(), Ready::Read)], most).map(|_| ())
    }

    fn hear(&mut self, heard: &mut Vec<Heard>) -> io::Result<()> {
        self.hear_errors(heard)?;
        for _ in 0..MOST {
            let Some(arrived) = self.socket.receive(&mut self.buffer)? else {
                break;
            };
            let bytes = &self.buffer[..arrived.length];
            // Only raw IPv4 sockets give the IP header along.
            let message = if self.kind == IcmpKind::Raw && self.version == Version::V4 {
                icmp::read_packet(bytes).map(|packet| packet.message)
            } else {
                icmp::read(self.version, bytes)
            };
            if let Some(Message::Reply(echo)) = message
                && self.is_ours(echo.id)
            {
                heard.push(Heard::Answer {
                    seq: echo.seq,
                    at: arrived.at,
                    took: None,
                    ttl: arrived.ttl,
                });
            }
        }
        Ok(())
    }

    fn give_up(&mut self, _seq: u16) {}
}
