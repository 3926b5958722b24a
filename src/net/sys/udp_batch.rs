//! Many datagrams with one system call: `sendmmsg`, `recvmmsg`, segmentation offload both ways (udp(7)).

use std::io;
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

use socket2::SockAddr;

/// Datagrams that one call of [`Outlet::send`] takes at most.
pub const SEND_BATCH: usize = 64;

/// Where datagrams go.
#[derive(Clone, Debug)]
pub struct Outlet<'a> {
    socket: BorrowedFd<'a>,
    /// `None` for a connected socket.
    to: Option<SockAddr>,
    /// Has the kernel cut what one call sends into datagrams of this length (`UDP_SEGMENT`).
    segment: Option<u16>,
}

impl<'a> Outlet<'a> {
    /// To where the socket is connected to.
    pub fn connected(socket: &'a impl AsFd, segment: Option<u16>) -> Self {
        Self {
            socket: socket.as_fd(),
            to: None,
            segment,
        }
    }

    /// To an address.
    pub fn towards(socket: &'a impl AsFd, to: SocketAddr, segment: Option<u16>) -> Self {
        Self {
            socket: socket.as_fd(),
            to: Some(to.into()),
            segment,
        }
    }

    /// Sends the first `count` datagrams of `length` bytes each in `buffer`, and says how many were taken; waits as
    /// the socket's mode says.
    pub fn send(&self, buffer: &[u8], length: usize, count: usize) -> io::Result<usize> {
        let length = length.max(1);
        let count = count.min(SEND_BATCH).min(buffer.len() / length);
        match self.segment {
            Some(segment) if count > 1 => {
                let sent = self.train(&buffer[..count * length], segment)?;
                Ok(sent / length)
            }
            _ => self.batch(buffer, length, count),
        }
    }

    /// A message of no bytes to this outlet's address.
    fn message(&self) -> libc::msghdr {
        // SAFETY: all zeros are a valid message header: no name, no pieces, no control data.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        if let Some(to) = &self.to {
            message.msg_name = to.as_ptr().cast_mut().cast();
            message.msg_namelen = to.len();
        }
        message
    }

    fn batch(&self, buffer: &[u8], length: usize, count: usize) -> io::Result<usize> {
        let mut pieces = [const { MaybeUninit::<libc::iovec>::zeroed() }; SEND_BATCH];
        let mut messages = [const { MaybeUninit::<libc::mmsghdr>::zeroed() }; SEND_BATCH];
        let mut used = 0;
        for (datagram, (piece, message)) in buffer
            .chunks_exact(length)
            .zip(pieces.iter_mut().zip(&mut messages))
            .take(count)
        {
            let piece = piece.write(libc::iovec {
                iov_base: datagram.as_ptr().cast_mut().cast(),
                iov_len: datagram.len(),
            });
            let mut header = self.message();
            header.msg_iov = piece;
            header.msg_iovlen = 1;
            message.write(libc::mmsghdr {
                msg_hdr: header,
                msg_len: 0,
            });
            used += 1;
        }
        // SAFETY: the first `used` messages are filled in and point to pieces on this stack frame, to `self.to` and
        // through the pieces to `buffer`, all of which the kernel only reads and which outlive the call.
        let sent = unsafe {
            libc::sendmmsg(
                self.socket.as_raw_fd(),
                messages.as_mut_ptr().cast(),
                used,
                0,
            )
        };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }

    fn train(&self, bytes: &[u8], segment: u16) -> io::Result<usize> {
        let mut piece = libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        };
        let mut control: Control = [0; 16];
        let mut message = self.message();
        message.msg_iov = &raw mut piece;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        // SAFETY: the macros compute lengths; the control data has room for one entry of two bytes, is aligned for
        // its header, and the first entry's place lies inside it.
        unsafe {
            message.msg_controllen = libc::CMSG_SPACE(2) as _;
            let entry = libc::CMSG_FIRSTHDR(&raw const message);
            (*entry).cmsg_level = libc::SOL_UDP;
            (*entry).cmsg_type = libc::UDP_SEGMENT;
            (*entry).cmsg_len = libc::CMSG_LEN(2) as _;
            libc::CMSG_DATA(entry)
                .cast::<u16>()
                .write_unaligned(segment);
        }
        // SAFETY: the message points to the piece, the control data and `self.to`, and the piece to `bytes`; the
        // kernel only reads them and all outlive the call.
        let sent = unsafe { libc::sendmsg(self.socket.as_raw_fd(), &raw const message, 0) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }
}

/// Whether the kernel can cut trains into datagrams (`UDP_SEGMENT`, Linux 4.18).
pub fn segments(socket: &impl AsFd) -> io::Result<()> {
    set(socket, libc::SOL_UDP, libc::UDP_SEGMENT, 0)
}

/// Asks for a receive buffer beyond the system's limit where this process may (`SO_RCVBUFFORCE`), else up to it.
pub fn raise_receive_buffer(socket: &impl AsFd, bytes: usize) -> io::Result<()> {
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    set(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, bytes)
        .or_else(|_| set(socket, libc::SOL_SOCKET, libc::SO_RCVBUF, bytes))
}

fn set(
    socket: &impl AsFd,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    let length = libc::socklen_t::try_from(size_of::<libc::c_int>()).unwrap_or(4);
    // SAFETY: the descriptor is open for the borrow's time, `value` is an int of the stated length.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            length,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// One datagram that came.
#[derive(Clone, Copy, Debug)]
pub struct Arrived<'a> {
    /// Its content, as much as the batch has room for.
    pub bytes: &'a [u8],
    /// How many bytes it had.
    pub length: usize,
    /// Where it came from.
    pub from: Option<SocketAddr>,
    /// When the kernel got it, as time of the wall clock since 1970.
    pub at: Option<Duration>,
    /// How many datagrams this socket's full buffer has cost so far.
    pub dropped: Option<u32>,
}

/// Control data of one message; the alignment is that of its headers.
type Control = [u64; 16];

/// Room for several datagrams, used again and again.
#[derive(Debug)]
pub struct ReceiveBatch {
    buffer: Vec<u8>,
    size: usize,
    names: Vec<libc::sockaddr_storage>,
    controls: Vec<Control>,
    /// Whether the kernel may join datagrams (`UDP_GRO`).
    joined: bool,
}

impl ReceiveBatch {
    /// Room for `count` datagrams of `size` bytes; of longer ones the rest is left out.
    pub fn new(count: usize, size: usize) -> Self {
        // SAFETY: all zeros are a valid socket address of no family.
        let name: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
        Self {
            buffer: vec![0; count * size],
            size,
            names: vec![name; count],
            controls: vec![[0; 16]; count],
            joined: false,
        }
    }

    /// Has the kernel stamp what comes and count what it drops; what it cannot do shows as `None` later.
    pub fn prepare(socket: &impl AsFd) {
        let _ = set(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1);
        let _ = set(socket, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1);
    }

    /// Has the kernel hand over several datagrams of a flow as one; this batch then needs room for 65,535 bytes.
    pub fn join(&mut self, socket: &impl AsFd) -> io::Result<()> {
        set(socket, libc::SOL_UDP, libc::UDP_GRO, 1)?;
        self.joined = true;
        Ok(())
    }

    /// Has the kernel hand over each datagram by itself again.
    pub fn part(socket: &impl AsFd) {
        // Where it cannot join them it cannot have been told to.
        let _ = set(socket, libc::SOL_UDP, libc::UDP_GRO, 0);
    }

    /// Waits for a datagram as the socket's mode says, takes what else is there, and shows each to `each`.
    pub fn receive(
        &mut self,
        socket: &impl AsFd,
        mut each: impl FnMut(Arrived<'_>),
    ) -> io::Result<usize> {
        let mut pieces: Vec<libc::iovec> = self
            .buffer
            .chunks_exact_mut(self.size)
            .map(|room| libc::iovec {
                iov_base: room.as_mut_ptr().cast(),
                iov_len: room.len(),
            })
            .collect();
        let mut messages: Vec<libc::mmsghdr> = Vec::with_capacity(pieces.len());
        for ((piece, name), control) in pieces
            .iter_mut()
            .zip(&mut self.names)
            .zip(&mut self.controls)
        {
            // SAFETY: all zeros are a valid message header: no name, no control data.
            let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
            message.msg_hdr.msg_iov = piece;
            message.msg_hdr.msg_iovlen = 1;
            message.msg_hdr.msg_name = std::ptr::from_mut(name).cast();
            message.msg_hdr.msg_namelen = length_of::<libc::sockaddr_storage>();
            message.msg_hdr.msg_control = control.as_mut_ptr().cast();
            // The type of this field is not the same in every C library.
            #[allow(
                clippy::useless_conversion,
                reason = "the conversion is needed elsewhere"
            )]
            {
                message.msg_hdr.msg_controllen = size_of::<Control>().try_into().unwrap_or(0);
            }
            messages.push(message);
        }
        // SAFETY: every message points to its own room for content, name and control data, with their true
        // lengths; all of it outlives the call and nothing else refers to it meanwhile.
        let got = unsafe {
            libc::recvmmsg(
                socket.as_fd().as_raw_fd(),
                messages.as_mut_ptr(),
                libc::c_uint::try_from(messages.len()).unwrap_or(0),
                // The flag's type differs between C libraries.
                (libc::MSG_WAITFORONE | libc::MSG_TRUNC) as _,
                std::ptr::null_mut(),
            )
        };
        let Ok(got) = usize::try_from(got) else {
            return Err(io::Error::last_os_error());
        };
        let mut datagrams = 0;
        let rooms = self.buffer.chunks_exact(self.size);
        for ((message, room), name) in messages.iter().zip(rooms).zip(&self.names).take(got) {
            let length = usize::try_from(message.msg_len).unwrap_or(0);
            let kept = &room[..length.min(room.len())];
            let told = told(&message.msg_hdr);
            let from = address(name);
            let mut each = |bytes, length| {
                datagrams += 1;
                each(Arrived {
                    bytes,
                    length,
                    from,
                    at: told.at,
                    dropped: told.dropped,
                });
            };
            match told.segment.filter(|_| self.joined) {
                Some(segment) => kept
                    .chunks(segment)
                    .for_each(|bytes| each(bytes, bytes.len())),
                None => each(kept, length),
            }
        }
        Ok(datagrams)
    }
}

fn length_of<T>() -> libc::socklen_t {
    libc::socklen_t::try_from(size_of::<T>()).unwrap_or(0)
}

/// What came beside a message.
#[derive(Default)]
struct Told {
    at: Option<Duration>,
    dropped: Option<u32>,
    segment: Option<usize>,
}

fn told(header: &libc::msghdr) -> Told {
    let mut told = Told::default();
    // SAFETY: the kernel has filled in the control data of this header and its length, and its memory lives as
    // long as the header is borrowed.
    let mut entry = unsafe { libc::CMSG_FIRSTHDR(header) };
    // SAFETY: the pointer is null at the end or that of an entry inside the control data.
    while let Some(head) = unsafe { entry.as_ref() } {
        // SAFETY: the entry is inside the control data, so its content is too.
        let data = unsafe { libc::CMSG_DATA(entry) };
        match (head.cmsg_level, head.cmsg_type) {
            (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS) => {
                // SAFETY: the kernel writes a timespec for this type; it may not be aligned.
                let time = unsafe { data.cast::<libc::timespec>().read_unaligned() };
                told.at = u64::try_from(time.tv_sec)
                    .ok()
                    .zip(u32::try_from(time.tv_nsec).ok())
                    .map(|(seconds, nanos)| Duration::new(seconds, nanos));
            }
            (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => {
                // SAFETY: the kernel writes 32 bits for this type; they may not be aligned.
                told.dropped = Some(unsafe { data.cast::<u32>().read_unaligned() });
            }
            (libc::SOL_UDP, libc::UDP_GRO) => {
                // SAFETY: the kernel writes an int for this type; it may not be aligned.
                let size = unsafe { data.cast::<libc::c_int>().read_unaligned() };
                told.segment = usize::try_from(size).ok().filter(|size| *size > 0);
            }
            _ => {}
        }
        // SAFETY: header and entry belong together, and the kernel's lengths lead from one entry to the next.
        entry = unsafe { libc::CMSG_NXTHDR(header, entry) };
    }
    told
}

fn address(name: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match i32::from(name.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says that this is an IPv4 address, for which there is room and alignment.
            let found = unsafe { &*std::ptr::from_ref(name).cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from_bits(u32::from_be(found.sin_addr.s_addr));
            Some(SocketAddrV4::new(ip, u16::from_be(found.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: the family says that this is an IPv6 address, for which there is room and alignment.
            let found = unsafe { &*std::ptr::from_ref(name).cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(found.sin6_addr.s6_addr);
            let port = u16::from_be(found.sin6_port);
            Some(SocketAddrV6::new(ip, port, found.sin6_flowinfo, found.sin6_scope_id).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    fn pair(address: &str) -> (UdpSocket, UdpSocket) {
        let receiver = UdpSocket::bind(address).unwrap();
        let sender = UdpSocket::bind(address).unwrap();
        sender.connect(receiver.local_addr().unwrap()).unwrap();
        (sender, receiver)
    }

    fn check(address: &str, offload: bool, connected: bool) {
        let (sender, receiver) = pair(address);
        let to = receiver.local_addr().unwrap();
        ReceiveBatch::prepare(&receiver);
        let mut batch = ReceiveBatch::new(8, 65_535);
        let buffer: Vec<u8> = (0..40_u8).collect();
        if offload && let Err(error) = batch.join(&receiver).and(segments(&sender)) {
            println!("skipped: segmentation offload of this kernel ({error})");
            return;
        }
        let segment = offload.then_some(10);
        let outlet = if connected {
            Outlet::connected(&sender, segment)
        } else {
            Outlet::towards(&sender, to, segment)
        };
        assert_eq!(outlet.send(&buffer, 10, 4).unwrap(), 4);
        let mut got = Vec::new();
        while got.len() < 4 {
            batch
                .receive(&receiver, |arrived| {
                    assert_eq!(arrived.from, sender.local_addr().ok());
                    assert!(arrived.at.is_some());
                    assert_eq!(arrived.length, arrived.bytes.len());
                    got.push(arrived.bytes.to_vec());
                })
                .unwrap();
        }
        assert_eq!(got.concat(), buffer);
        assert!(got.iter().all(|datagram| datagram.len() == 10));
    }

    #[test]
    fn batches_arrive_whole_with_their_sender() {
        for connected in [true, false] {
            check("127.0.0.1:0", false, connected);
            check("[::1]:0", false, connected);
            check("127.0.0.1:0", true, connected);
            check("[::1]:0", true, connected);
        }
    }

    #[test]
    fn datagrams_of_every_size_are_counted_by_their_real_length() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let (sender, receiver) = pair(address);
            let sizes = [0, 1, 11, 12, 1_470, 8_972, 9_217, 65_507];
            for size in sizes {
                sender.send(&vec![7; size]).unwrap();
            }
            let mut batch = ReceiveBatch::new(3, 9_216);
            let mut seen = Vec::new();
            while seen.len() < sizes.len() {
                batch
                    .receive(&receiver, |arrived| {
                        assert_eq!(arrived.bytes.len(), arrived.length.min(9_216));
                        assert!(arrived.bytes.iter().all(|byte| *byte == 7));
                        seen.push(arrived.length);
                    })
                    .unwrap();
            }
            assert_eq!(seen, sizes);
        }
    }
}
