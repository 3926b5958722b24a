//! Reading datagrams many at once, each with its arrival time and what the socket had to drop (recvmmsg).

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::os::fd::AsRawFd;
use std::ptr;

/// Datagrams that are read with one call.
const BATCH: usize = 64;
/// The same for the kernel.
const CALL: libc::c_uint = 64;
/// Bytes that are kept of one datagram; a longer one is cut but its length is known.
const KEPT: usize = 9_216;
/// Room for the control messages of one datagram, in words of 8 bytes.
const CONTROL: usize = 16;

/// Memory for one call's datagrams.
pub struct DatagramBatch {
    bytes: Vec<u8>,
    names: Vec<libc::sockaddr_storage>,
    controls: Vec<[u64; CONTROL]>,
    heads: Vec<Head>,
}

#[derive(Clone, Copy)]
struct Head {
    from: SocketAddr,
    length: usize,
    arrived_micros: Option<i64>,
    dropped: Option<u32>,
}

/// One datagram as it came.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// Who sent it, as the kernel spells it.
    pub from: SocketAddr,
    /// Its bytes, cut at 9,216.
    pub bytes: &'a [u8],
    /// How many bytes it had.
    pub length: usize,
    /// When the kernel took it, in microseconds of the wall clock; `None` where it does not say.
    pub arrived_micros: Option<i64>,
    /// Datagrams that this socket has dropped so far, modulo 2³²; `None` where none were.
    pub dropped: Option<u32>,
}

impl Default for DatagramBatch {
    fn default() -> Self {
        Self::new()
    }
}

impl DatagramBatch {
    /// Memory for up to 64 datagrams.
    pub fn new() -> Self {
        // SAFETY: all zeros is a valid `sockaddr_storage` (family 0, no address).
        let name: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
        Self {
            bytes: vec![0; BATCH * KEPT],
            names: vec![name; BATCH],
            controls: vec![[0; CONTROL]; BATCH],
            heads: Vec::with_capacity(BATCH),
        }
    }

    /// Waits for a datagram, as long as the socket's read timeout says, and takes those that are there with it.
    pub fn receive(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        self.heads.clear();
        // SAFETY: all zeros is a valid value of these plain structs of numbers and pointers.
        let (mut vectors, mut messages): ([libc::iovec; BATCH], [libc::mmsghdr; BATCH]) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        for (index, message) in messages.iter_mut().enumerate() {
            vectors[index].iov_base = self.bytes[index * KEPT..].as_mut_ptr().cast();
            vectors[index].iov_len = KEPT;
            message.msg_hdr.msg_name = ptr::from_mut(&mut self.names[index]).cast();
            message.msg_hdr.msg_namelen = length_of::<libc::sockaddr_storage>();
            message.msg_hdr.msg_iov = &raw mut vectors[index];
            message.msg_hdr.msg_iovlen = 1;
            message.msg_hdr.msg_control = self.controls[index].as_mut_ptr().cast();
            message.msg_hdr.msg_controllen = CONTROL * 8;
        }
        // SAFETY: every pointer leads to memory of the stated length that `self` and this function keep alive
        // and unmoved through the call; `MSG_TRUNC` only makes the kernel state lengths, it writes no further.
        let count = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                messages.as_mut_ptr(),
                CALL,
                libc::MSG_WAITFORONE | libc::MSG_TRUNC,
                ptr::null_mut(),
            )
        };
        let Ok(count) = usize::try_from(count) else {
            return Err(io::Error::last_os_error());
        };
        for (name, message) in self.names.iter().zip(&messages).take(count) {
            let (arrived_micros, dropped) = control(&message.msg_hdr);
            let Some(from) = address(name) else {
                continue;
            };
            self.heads.push(Head {
                from,
                length: message.msg_len as usize,
                arrived_micros,
                dropped,
            });
        }
        Ok(self.heads.len())
    }

    /// The datagrams of the last call.
    pub fn iter(&self) -> impl Iterator<Item = Datagram<'_>> {
        self.heads.iter().enumerate().map(|(index, head)| Datagram {
            from: head.from,
            bytes: &self.bytes[index * KEPT..index * KEPT + head.length.min(KEPT)],
            length: head.length,
            arrived_micros: head.arrived_micros,
            dropped: head.dropped,
        })
    }
}

/// Asks the kernel to stamp arriving datagrams and to tell what it drops.
pub fn stamp_and_count_drops(socket: &UdpSocket) -> io::Result<()> {
    for option in [libc::SO_TIMESTAMPNS, libc::SO_RXQ_OVFL] {
        let on: libc::c_int = 1;
        // SAFETY: the descriptor is open for the borrow's time, `on` is an int of the stated length.
        let result = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                option,
                (&raw const on).cast(),
                length_of::<libc::c_int>(),
            )
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Arrival time and drops from the control messages.
fn control(header: &libc::msghdr) -> (Option<i64>, Option<u32>) {
    let (mut arrived, mut dropped) = (None, None);
    // SAFETY: the kernel filled in `msg_controllen` bytes of well-formed control messages, which these
    // macros walk; data is read unaligned and only where the message is long enough.
    unsafe {
        let mut message = libc::CMSG_FIRSTHDR(header);
        while !message.is_null() {
            let data = libc::CMSG_DATA(message);
            let length = (*message).cmsg_len as usize;
            let holds = |size: usize| length >= size + (data as usize - message as usize);
            match ((*message).cmsg_level, (*message).cmsg_type) {
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) if holds(size_of::<libc::timespec>()) => {
                    let time = ptr::read_unaligned(data.cast::<libc::timespec>());
                    arrived = Some(time.tv_sec * 1_000_000 + time.tv_nsec / 1_000);
                }
                (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) if holds(size_of::<u32>()) => {
                    dropped = Some(ptr::read_unaligned(data.cast::<u32>()));
                }
                _ => {}
            }
            message = libc::CMSG_NXTHDR(header, message);
        }
    }
    (arrived, dropped)
}

fn address(name: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match libc::c_int::from(name.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says which struct the kernel wrote; storage is large and aligned enough.
            let name = unsafe { &*ptr::from_ref(name).cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(u32::from_be(name.sin_addr.s_addr));
            Some(SocketAddr::new(ip.into(), u16::from_be(name.sin_port)))
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let name = unsafe { &*ptr::from_ref(name).cast::<libc::sockaddr_in6>() };
            Some(SocketAddr::V6(SocketAddrV6::new(
                Ipv6Addr::from(name.sin6_addr.s6_addr),
                u16::from_be(name.sin6_port),
                name.sin6_flowinfo,
                name.sin6_scope_id,
            )))
        }
        _ => None,
    }
}

fn length_of<T>() -> libc::socklen_t {
    libc::socklen_t::try_from(size_of::<T>()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_of_every_size_are_counted_by_their_real_length() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let receiver = UdpSocket::bind(address).expect("a socket");
            stamp_and_count_drops(&receiver).expect("options");
            let sender = UdpSocket::bind(address).expect("a socket");
            let sizes = [0, 1, 11, 12, 1_470, 8_972, 9_217, 65_507];
            for size in sizes {
                sender
                    .send_to(&vec![7; size], receiver.local_addr().expect("an address"))
                    .expect("sent");
            }
            let mut batch = DatagramBatch::new();
            let mut seen = Vec::new();
            while seen.len() < sizes.len() {
                batch.receive(&receiver).expect("datagrams");
                for datagram in batch.iter() {
                    assert_eq!(Ok(datagram.from), sender.local_addr().map_err(|_| ()));
                    assert_eq!(datagram.bytes.len(), datagram.length.min(KEPT));
                    assert!(datagram.bytes.iter().all(|byte| *byte == 7));
                    assert!(datagram.arrived_micros.is_some_and(|at| at > 0));
                    seen.push(datagram.length);
                }
            }
            assert_eq!(seen, sizes);
        }
    }
}
