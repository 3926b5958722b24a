//! iperf 2 on the wire, from 2.0.5 to 2.2: what a client sends first, its datagrams, and what a server answers.
//!
//! Layouts and constants were read in iperf's `include/payloads.h` and checked against captures of real
//! binaries (`tests/it/fixtures/iperf`). Everything is big endian.

pub mod ack;
pub mod datagram;
pub mod header;
pub mod report;

/// The 32-bit word at `at`; `None` where the bytes end before it does.
pub(crate) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_be_bytes(four.try_into().ok()?))
}

/// The 16-bit word at `at`.
pub(crate) fn half(bytes: &[u8], at: usize) -> Option<u16> {
    let two = bytes.get(at..at.checked_add(2)?)?;
    Some(u16::from_be_bytes(two.try_into().ok()?))
}

/// Overwrites the four bytes at `at`, which must exist.
pub(crate) fn put(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}
