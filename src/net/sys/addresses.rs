//! The addresses of this machine's interfaces.

use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ptr;

/// Every address with the name of its interface, and every interface once more without (`None`).
pub fn interface_addresses() -> io::Result<Vec<(String, Option<IpAddr>)>> {
    let mut first: *mut libc::ifaddrs = ptr::null_mut();
    // SAFETY: `first` is writable; on success it holds a list that is freed below and not used afterwards.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut found = Vec::new();
    let mut next = first;
    // SAFETY: each entry of the list is valid until the list is freed, or the pointer is null at its end.
    while let Some(entry) = unsafe { next.as_ref() } {
        next = entry.ifa_next;
        if entry.ifa_name.is_null() {
            continue;
        }
        // SAFETY: the name of an entry is a C string that lives as long as the list.
        let name = unsafe { CStr::from_ptr(entry.ifa_name) };
        found.push((
            name.to_string_lossy().into_owned(),
            address(entry.ifa_addr.cast_const()),
        ));
    }
    // SAFETY: the list came from `getifaddrs` and nothing refers to it any more.
    unsafe { libc::freeifaddrs(first) };
    Ok(found)
}

fn address(pointer: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: the pointer is null or that of a socket address, which begins with its family.
    let family = i32::from(unsafe { pointer.as_ref() }?.sa_family);
    match family {
        libc::AF_INET => {
            // SAFETY: the family says that this is an IPv4 socket address; it may not be aligned for one.
            let address = unsafe { pointer.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(IpAddr::V4(Ipv4Addr::from_bits(u32::from_be(
                address.sin_addr.s_addr,
            ))))
        }
        libc::AF_INET6 => {
            // SAFETY: the family says that this is an IPv6 socket address; it may not be aligned for one.
            let address = unsafe { pointer.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(IpAddr::V6(Ipv6Addr::from(address.sin6_addr.s6_addr)))
        }
        _ => None,
    }
}
