//! Path probes without ICMP echo: datagrams to a port where nothing listens, answered by "port unreachable".

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::time::Duration;

use super::Probes;
use crate::net::clock;
use crate::net::icmp::{ProbeError, ProbeSocket};
use crate::net::sys::{self, Ready};
use crate::runner::echo::{Heard, LARGEST};
use crate::wire::icmp::{self, Trouble, Version};

/// The port that traceroute begins with, where nothing listens by custom.
const PORT: u16 = 33_434;
/// Messages that are read in one go.
const MOST: usize = 64;

/// Sends datagrams to one host and hears what is reported of them.
pub(super) struct Datagrams {
    socket: ProbeSocket,
    version: Version,
    address: IpAddr,
    payload: Vec<u8>,
    buffer: Vec<u8>,
    last: u16,
}

impl Datagrams {
    pub(super) fn open(address: SocketAddr) -> Result<Self, ProbeError> {
        let mut port = address;
        port.set_port(PORT);
        let socket = ProbeSocket::udp(port, None)?;
        socket.send_whole()?;
        Ok(Self {
            socket,
            version: Version::towards(address.ip()),
            address: address.ip(),
            payload: vec![0; LARGEST],
            buffer: vec![0; 2_048],
            last: 0,
        })
    }
}

impl Probes for Datagrams {
    fn send(&mut self, seq: u16, payload: usize) -> io::Result<()> {
        self.payload[..2].copy_from_slice(&seq.to_be_bytes());
        self.last = seq;
        self.socket.send(&self.payload[..payload.max(2)])
    }

    fn wait(&self, most: Duration) -> io::Result<()> {
        sys::wait_any(&[(self.socket.as_fd(), Ready::Read)], most).map(|_| ())
    }

    fn hear(&mut self, heard: &mut Vec<Heard>) -> io::Result<()> {
        for _ in 0..MOST {
            let Some(reported) = self.socket.receive_error(&mut self.buffer)? else {
                break;
            };
            let trouble = reported.icmp.and_then(|(kind, code)| {
                icmp::trouble(self.version, kind, code, reported.information)
            });
            // What this machine itself refuses is known from sending.
            let Some(trouble) = trouble else {
                continue;
            };
            let quoted = self.buffer[..reported.length].first_chunk();
            // Who quotes too little means the last: there is only one at a time.
            let seq = quoted.map_or(self.last, |seq| u16::from_be_bytes(*seq));
            let is_from_peer = reported.offender == Some(self.address);
            let is_about_size = matches!(trouble, Trouble::TooBig { .. } | Trouble::TimeExceeded);
            heard.push(if is_from_peer && !is_about_size {
                // Whatever the peer has against it, it has got it.
                Heard::Answer {
                    seq,
                    at: clock::now(),
                    took: None,
                    ttl: None,
                }
            } else {
                let who = reported
                    .offender
                    .map_or_else(|| "A router".to_owned(), |offender| offender.to_string());
                Heard::Trouble {
                    seq,
                    trouble: Some(trouble),
                    sentence: format!("{who} reports: {trouble}"),
                }
            });
        }
        for _ in 0..MOST {
            let Some(arrived) = self.socket.receive(&mut self.buffer)? else {
                break;
            };
            heard.push(Heard::Answer {
                seq: self.last,
                at: arrived.at,
                took: None,
                ttl: arrived.ttl,
            });
        }
        Ok(())
    }

    /// Hosts report unreachable ports once a second and not more often, after the first few.
    fn patience(&self) -> Duration {
        Duration::from_millis(1_200)
    }
}
