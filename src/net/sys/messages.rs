//! Single datagrams with what the kernel says of them: time to live, arrival, and reported errors (ip(7)).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd};
use std::ptr;
use std::time::Duration;

/// Room for control messages, in words of 8 bytes.
const CONTROL: usize = 64;

/// A datagram that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Bytes that were written into the buffer.
    pub length: usize,
    /// Time to live or hop limit, where the kernel tells.
    pub ttl: Option<u8>,
    /// When the kernel took it, in ns of the wall clock; `None` where it does not say.
    pub arrived_nanos: Option<i128>,
}

/// An error that the network or this kernel reported for something that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reported {
    /// Bytes of the packet in question that were written into the buffer: of ICMP from its header on, of UDP its
    /// payload.
    pub length: usize,
    /// Number of the system's error.
    pub errno: i32,
    /// ICMP type and code; `None` where this kernel itself refused to send.
    pub icmp: Option<(u8, u8)>,
    /// The MTU, where the error is about size.
    pub information: u32,
    /// Who reported it.
    pub offender: Option<IpAddr>,
}

/// What a socket is to be told and how it sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Telling {
    /// The time to live of what comes (`IP_RECVTTL`, `IPV6_RECVHOPLIMIT`).
    Ttl,
    /// When it came (`SO_TIMESTAMPNS`).
    Arrival,
    /// Reported errors, for [`receive_error`] (`IP_RECVERR`, `IPV6_RECVERR`).
    Errors,
    /// Nothing is cut into fragments, and sizes are not held below what was once reported
    /// (`IP_PMTUDISC_PROBE`, `IPV6_PMTUDISC_PROBE` with `IPV6_DONTFRAG`).
    WholePackets,
}

/// Asks for one of these.
pub fn tell(socket: &impl AsFd, is_ipv4: bool, what: Telling) -> io::Result<()> {
    let options: &[(libc::c_int, libc::c_int, libc::c_int)] = match (what, is_ipv4) {
        (Telling::Ttl, true) => &[(libc::IPPROTO_IP, libc::IP_RECVTTL, 1)],
        (Telling::Ttl, false) => &[(libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT, 1)],
        (Telling::Arrival, _) => &[(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)],
        (Telling::Errors, true) => &[(libc::IPPROTO_IP, libc::IP_RECVERR, 1)],
        (Telling::Errors, false) => &[(libc::IPPROTO_IPV6, libc::IPV6_RECVERR, 1)],
        (Telling::WholePackets, true) => &[(
            libc::IPPROTO_IP,
            libc::IP_MTU_DISCOVER,
            libc::IP_PMTUDISC_PROBE,
        )],
        (Telling::WholePackets, false) => &[
            (
                libc::IPPROTO_IPV6,
                libc::IPV6_MTU_DISCOVER,
                libc::IPV6_PMTUDISC_PROBE,
            ),
            (libc::IPPROTO_IPV6, libc::IPV6_DONTFRAG, 1),
        ],
    };
    for (level, name, value) in options {
        // SAFETY: the descriptor is open for the borrow's time, `value` is an int of the stated length.
        let result = unsafe {
            libc::setsockopt(
                socket.as_fd().as_raw_fd(),
                *level,
                *name,
                ptr::from_ref(value).cast(),
                libc::socklen_t::try_from(size_of::<libc::c_int>()).unwrap_or(4),
            )
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// The next datagram without waiting; `None` when none is there.
pub fn receive_arrival(socket: &impl AsFd, buffer: &mut [u8]) -> io::Result<Option<Arrival>> {
    let mut arrival = Arrival {
        length: 0,
        ttl: None,
        arrived_nanos: None,
    };
    let length = receive(
        socket,
        buffer,
        libc::MSG_DONTWAIT,
        |level, kind, data| match (level, kind) {
            (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                arrival.ttl = read::<libc::c_int>(data).and_then(|ttl| u8::try_from(ttl).ok());
            }
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                arrival.arrived_nanos = read::<libc::timespec>(data)
                    .map(|time| i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec));
            }
            _ => {}
        },
    )?;
    Ok(length.map(|length| Arrival { length, ..arrival }))
}

/// The next reported error without waiting; `None` when none is there.
pub fn receive_error(socket: &impl AsFd, buffer: &mut [u8]) -> io::Result<Option<Reported>> {
    let mut reported = None;
    let flags = libc::MSG_DONTWAIT | libc::MSG_ERRQUEUE;
    let length = receive(socket, buffer, flags, |level, kind, data| {
        if !matches!(
            (level, kind),
            (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR)
        ) {
            return;
        }
        let Some(error) = read::<libc::sock_extended_err>(data) else {
            return;
        };
        let from_icmp = matches!(
            error.ee_origin,
            libc::SO_EE_ORIGIN_ICMP | libc::SO_EE_ORIGIN_ICMP6
        );
        reported = Some(Reported {
            length: 0,
            errno: i32::try_from(error.ee_errno).unwrap_or(0),
            icmp: from_icmp.then_some((error.ee_type, error.ee_code)),
            information: error.ee_info,
            // The address of who reported it follows the struct (SO_EE_OFFENDER).
            offender: offender(&data[size_of::<libc::sock_extended_err>()..]),
        });
    })?;
    Ok(length
        .zip(reported)
        .map(|(length, reported)| Reported { length, ..reported }))
}

/// Receives one message and shows its control messages; `None` when none is there.
fn receive(
    socket: &impl AsFd,
    buffer: &mut [u8],
    flags: libc::c_int,
    mut show: impl FnMut(libc::c_int, libc::c_int, &[u8]),
) -> io::Result<Option<usize>> {
    let mut control = [0_u64; CONTROL];
    let mut vector = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // SAFETY: all zeros is a valid value of this plain struct of numbers and pointers.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut vector;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = CONTROL * 8;
    // SAFETY: every pointer leads to memory of the stated length that lives through the call.
    let count = unsafe { libc::recvmsg(socket.as_fd().as_raw_fd(), &raw mut header, flags) };
    let Ok(count) = usize::try_from(count) else {
        let error = io::Error::last_os_error();
        return match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
            _ => Err(error),
        };
    };
    // SAFETY: the kernel filled in `msg_controllen` bytes of well-formed control messages, which these macros
    // walk; each message's data has the length that its header states.
    unsafe {
        let mut message = libc::CMSG_FIRSTHDR(&raw const header);
        while !message.is_null() {
            let data = libc::CMSG_DATA(message);
            let before = data as usize - message as usize;
            let length = ((*message).cmsg_len as usize).saturating_sub(before);
            show(
                (*message).cmsg_level,
                (*message).cmsg_type,
                std::slice::from_raw_parts(data, length),
            );
            message = libc::CMSG_NXTHDR(&raw const header, message);
        }
    }
    Ok(Some(count))
}

/// Plain structs of numbers that the kernel hands over in control messages.
trait Plain: Copy {}
impl Plain for libc::c_int {}
impl Plain for libc::timespec {}
impl Plain for libc::sock_extended_err {}
impl Plain for libc::sockaddr_in {}
impl Plain for libc::sockaddr_in6 {}

fn read<T: Plain>(data: &[u8]) -> Option<T> {
    (data.len() >= size_of::<T>()).then(|| {
        // SAFETY: `data` is long enough, every bit pattern is a valid `Plain`, and the read need not be aligned.
        unsafe { ptr::read_unaligned(data.as_ptr().cast::<T>()) }
    })
}

fn offender(data: &[u8]) -> Option<IpAddr> {
    let family: [u8; 2] = *data.first_chunk()?;
    match libc::c_int::from(u16::from_ne_bytes(family)) {
        libc::AF_INET => {
            let name = read::<libc::sockaddr_in>(data)?;
            Some(Ipv4Addr::from(u32::from_be(name.sin_addr.s_addr)).into())
        }
        libc::AF_INET6 => {
            let name = read::<libc::sockaddr_in6>(data)?;
            Some(IpAddr::from(Ipv6Addr::from(name.sin6_addr.s6_addr)).to_canonical())
        }
        _ => None,
    }
}

/// Waits until one of the descriptors is ready to read or (where so marked) to write or has an error, to the
/// microsecond; says which are.
pub fn wait_any(
    waiting: &[(std::os::fd::BorrowedFd<'_>, super::Ready)],
    most: Duration,
) -> io::Result<Vec<bool>> {
    let mut entries: Vec<libc::pollfd> = waiting
        .iter()
        .map(|(descriptor, ready)| libc::pollfd {
            fd: descriptor.as_raw_fd(),
            events: match ready {
                super::Ready::Read => libc::POLLIN,
                super::Ready::Write => libc::POLLOUT,
            },
            revents: 0,
        })
        .collect();
    let time = libc::timespec {
        tv_sec: libc::time_t::try_from(most.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: libc::c_long::from(most.subsec_nanos().cast_signed()),
    };
    // SAFETY: `entries` holds that many valid entries; it and `time` outlive the call, which changes no signals.
    let result = unsafe {
        libc::ppoll(
            entries.as_mut_ptr(),
            libc::nfds_t::try_from(entries.len()).unwrap_or(0),
            &raw const time,
            ptr::null(),
        )
    };
    if result < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
        return Ok(vec![false; entries.len()]);
    }
    Ok(entries.iter().map(|entry| entry.revents != 0).collect())
}

/// The group that this process acts as, which `net.ipv4.ping_group_range` is about.
pub fn group_id() -> u32 {
    // SAFETY: the call takes nothing, returns a plain number and cannot fail.
    unsafe { libc::getegid() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn datagrams_tell_their_ttl_and_arrival_and_refusals_who_refused() {
        for (here, is_ipv4) in [("127.0.0.1:0", true), ("[::1]:0", false)] {
            let receiver = UdpSocket::bind(here).unwrap();
            for what in [Telling::Ttl, Telling::Arrival] {
                tell(&receiver, is_ipv4, what).unwrap();
            }
            let sender = UdpSocket::bind(here).unwrap();
            sender.connect(receiver.local_addr().unwrap()).unwrap();
            for what in [Telling::Errors, Telling::WholePackets] {
                tell(&sender, is_ipv4, what).unwrap();
            }
            let mut buffer = [0; 100];
            assert_eq!(receive_arrival(&receiver, &mut buffer).unwrap(), None);
            assert_eq!(receive_error(&sender, &mut buffer).unwrap(), None);
            sender.send(&[7; 33]).unwrap();
            let ready = [(receiver.as_fd(), super::super::Ready::Read)];
            while !wait_any(&ready, Duration::from_secs(10)).unwrap()[0] {}
            let arrival = receive_arrival(&receiver, &mut buffer).unwrap().unwrap();
            assert_eq!((arrival.length, arrival.ttl), (33, Some(64)));
            assert!(arrival.arrived_nanos.is_some());
            drop(receiver);
            sender.send(&[9; 44]).unwrap();
            let ready = [(sender.as_fd(), super::super::Ready::Read)];
            while !wait_any(&ready, Duration::from_secs(10)).unwrap()[0] {}
            let reported = receive_error(&sender, &mut buffer).unwrap().unwrap();
            assert_eq!((reported.errno, reported.length), (libc::ECONNREFUSED, 44));
            assert_eq!(reported.offender, Some(sender.peer_addr().unwrap().ip()));
            let port_unreachable = if is_ipv4 { (3, 3) } else { (1, 4) };
            assert_eq!(reported.icmp, Some(port_unreachable));
            assert_eq!(&buffer[..44], &[9; 44]);
        }
    }
}
