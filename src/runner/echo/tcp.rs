//! Probes by TCP connects: an open port answers with SYN/ACK, a closed one with RST, and both are round trips.
//!
//! An open port is only half connected to: its program must not be woken for a connection that ends at once.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::time::Duration;

use super::{Heard, Transport};
use crate::measure::outcome::Outcome;
use crate::net::clock;
use crate::net::connect::{self, connect_outcome, describe};
use crate::net::sys::{self, Ready, TcpInfo};

/// Connects to one port.
pub(in crate::runner) struct Connects {
    address: SocketAddr,
    bind: Option<IpAddr>,
    pending: Vec<(u16, mio::net::TcpStream)>,
    /// Decided while it was begun, as local ones are.
    decided: Vec<Heard>,
    is_seen: bool,
}

impl Connects {
    pub(in crate::runner) const fn new(address: SocketAddr, bind: Option<IpAddr>) -> Self {
        Self {
            address,
            bind,
            pending: Vec::new(),
            decided: Vec::new(),
            is_seen: false,
        }
    }
}

impl Transport for Connects {
    fn send(&mut self, seq: u16) -> io::Result<()> {
        match connect::half_open(self.address, self.bind) {
            Ok(stream) => self.pending.push((seq, stream)),
            Err(error) => match outcome(seq, &error) {
                Some(heard) => self.decided.push(heard),
                None => return Err(error),
            },
        }
        Ok(())
    }

    fn wait(&self, most: Duration) -> io::Result<()> {
        let most = if self.decided.is_empty() {
            most
        } else {
            Duration::ZERO
        };
        let waiting: Vec<_> = self
            .pending
            .iter()
            .map(|(_, stream)| (stream.as_fd(), Ready::Write))
            .collect();
        sys::wait_any(&waiting, most).map(|_| ())
    }

    fn hear(&mut self, heard: &mut Vec<Heard>) -> io::Result<()> {
        heard.append(&mut self.decided);
        let waiting: Vec<_> = self
            .pending
            .iter()
            .map(|(_, stream)| (stream.as_fd(), Ready::Write))
            .collect();
        if waiting.is_empty() {
            return Ok(());
        }
        let ready = sys::wait_any(&waiting, Duration::ZERO)?;
        let mut left = Vec::with_capacity(self.pending.len());
        for ((seq, stream), ready) in std::mem::take(&mut self.pending).into_iter().zip(ready) {
            if !ready {
                left.push((seq, stream));
                continue;
            }
            match stream.take_error() {
                Ok(None) => {
                    heard.push(Heard::Answer {
                        seq,
                        at: clock::now(),
                        took: handshake(&stream),
                        ttl: None,
                    });
                    self.is_seen |= connect::let_go(stream);
                }
                Ok(Some(error)) | Err(error) => {
                    let failed = || Heard::Trouble {
                        seq,
                        trouble: None,
                        sentence: format!("Connecting failed ({})", describe(&error)),
                    };
                    heard.push(outcome(seq, &error).unwrap_or_else(failed));
                }
            }
        }
        self.pending = left;
        Ok(())
    }

    fn is_seen(&self) -> bool {
        self.is_seen
    }

    fn give_up(&mut self, seq: u16) {
        self.pending.retain(|(pending, _)| *pending != seq);
    }
}

/// What the network said; `None` for troubles of this machine.
fn outcome(seq: u16, error: &io::Error) -> Option<Heard> {
    match connect_outcome(error) {
        Outcome::ConnectRefused => Some(Heard::Answer {
            seq,
            at: clock::now(),
            took: None,
            ttl: None,
        }),
        Outcome::Unreachable => Some(Heard::Trouble {
            seq,
            trouble: None,
            sentence: format!("The network reports {}", describe(error)),
        }),
        _ => None,
    }
}

/// How long the kernel says that the handshake took, unless it had to ask twice.
fn handshake(stream: &mio::net::TcpStream) -> Option<Duration> {
    let TcpInfo {
        rtt, total_retrans, ..
    } = sys::tcp_info(stream).ok()?;
    (total_retrans == 0 && !rtt.is_zero()).then_some(rtt)
}
