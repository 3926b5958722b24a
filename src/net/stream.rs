//! A connection that reads and writes without waiting, with or without TLS.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

use crate::net::connect::connect;

/// What a handshake needs to know.
#[derive(Clone, Debug)]
pub struct TlsTarget {
    /// Whom to trust.
    pub config: Arc<ClientConfig>,
    /// Whom to expect.
    pub name: ServerName<'static>,
}

/// How a read ended.
#[derive(Debug)]
pub enum Got {
    /// This many bytes. `drained` when no more can be there now.
    Bytes {
        /// How many.
        count: usize,
        /// Whether the socket is known to be empty.
        drained: bool,
    },
    /// Nothing now; the poll will tell.
    Nothing,
    /// The peer has closed in order.
    End,
}

/// One connection to a target.
#[derive(Debug)]
pub struct Stream {
    socket: TcpStream,
    tls: Option<Box<ClientConnection>>,
}

impl Stream {
    /// Begins to connect; with `tls` the handshake follows by itself while reading and writing.
    pub fn open(
        address: SocketAddr,
        bind: Option<IpAddr>,
        tls: Option<&TlsTarget>,
    ) -> io::Result<Self> {
        let tls = match tls {
            Some(target) => {
                let session =
                    ClientConnection::new(Arc::clone(&target.config), target.name.clone())
                        .map_err(io::Error::other)?;
                Some(Box::new(session))
            }
            None => None,
        };
        Ok(Self {
            socket: connect(address, bind)?,
            tls,
        })
    }

    /// Has the poll report `token` when the connection can be read (and, if asked, written), edge-triggered.
    pub fn register(&mut self, registry: &Registry, token: Token, write: bool) -> io::Result<()> {
        registry.register(&mut self.socket, token, interest(write))
    }

    /// Has the poll report both reading and writing from now on.
    pub fn also_writable(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        registry.reregister(&mut self.socket, token, interest(true))
    }

    /// Whether TLS is used.
    pub const fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// The error that connecting ended with, if it did.
    pub fn connect_error(&self) -> io::Result<()> {
        match self.socket.take_error()? {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Whether the TCP connection is up.
    pub fn is_up(&self) -> bool {
        self.socket.peer_addr().is_ok()
    }

    /// Moves the handshake on; true once it is complete (at once without TLS).
    ///
    /// An error of the kind `InvalidData` comes from TLS itself.
    pub fn handshake(&mut self) -> io::Result<bool> {
        let Some(tls) = &mut self.tls else {
            return Ok(true);
        };
        loop {
            while tls.wants_write() {
                match tls.write_tls(&mut self.socket) {
                    Ok(_) => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                    Err(error) => return Err(error),
                }
            }
            if !tls.is_handshaking() {
                return Ok(true);
            }
            match tls.read_tls(&mut self.socket) {
                Ok(0) => {
                    return Err(io::Error::new(
                        io::ErrorKind::UnexpectedEof,
                        "closed during the handshake",
                    ));
                }
                Ok(_) => {
                    if let Err(error) = tls.process_new_packets() {
                        // The alert that says why is worth an attempt.
                        let _ = tls.write_tls(&mut self.socket);
                        return Err(io::Error::new(io::ErrorKind::InvalidData, error));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }

    /// Writes what fits now and says how much of `bytes` was taken.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else {
            return self.socket.write(bytes);
        };
        let taken = if bytes.is_empty() {
            0
        } else {
            tls.writer().write(bytes)?
        };
        while tls.wants_write() {
            match tls.write_tls(&mut self.socket) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && taken > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(taken)
    }

    /// Whether bytes that were taken are still to go out.
    pub fn wants_write(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Reads what is there, at most `buffer`.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<Got> {
        let Some(tls) = &mut self.tls else {
            return match self.socket.read(buffer) {
                Ok(0) => Ok(Got::End),
                Ok(count) => Ok(Got::Bytes {
                    count,
                    drained: count < buffer.len(),
                }),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Got::Nothing),
                Err(error) => Err(error),
            };
        };
        loop {
            match tls.reader().read(buffer) {
                Ok(0) => return Ok(Got::End),
                Ok(count) => {
                    return Ok(Got::Bytes {
                        count,
                        drained: false,
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // Ended without the closing message of TLS: the framing of HTTP says whether that cut something off.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(Got::End),
                Err(error) => return Err(error),
            }
            match tls.read_tls(&mut self.socket) {
                Ok(_) => {
                    tls.process_new_packets()
                        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Got::Nothing),
                Err(error) => return Err(error),
            }
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn interest(write: bool) -> Interest {
    if write {
        Interest::READABLE | Interest::WRITABLE
    } else {
        Interest::READABLE
    }
}
