//! The answer of a server to a TCP header: 28 bytes, or 52 when the client asked for trip times.

use super::{put, word};
use crate::wire::own::Own;

/// Length of the plain ack.
pub const LENGTH: usize = 28;
/// Length of the ack with clock stamps.
pub const LONG_LENGTH: usize = 52;

/// Seconds and microseconds of a wall clock.
pub type Stamp = (u32, u32);

/// The plain ack, with the version that 2.1.8 sends.
pub fn encode() -> [u8; LENGTH] {
    let mut bytes = [0; LENGTH];
    begin(&mut bytes);
    bytes
}

/// The ack for a client that stamps its blocks: its own start, when it was accepted, when this is sent.
pub fn encode_with_stamps(start: Stamp, accepted: Stamp, sent: Stamp) -> [u8; LONG_LENGTH] {
    let mut bytes = [0; LONG_LENGTH];
    begin(&mut bytes);
    for (at, (seconds, micros)) in [(28, start), (36, accepted), (44, sent)] {
        put(&mut bytes, at, seconds);
        put(&mut bytes, at + 4, micros);
    }
    bytes
}

/// Marks an ack as that of one of our own receivers, with what it does.
pub fn mark(bytes: &mut [u8], own: Own) {
    put(bytes, OWN_AT, u32::from(own.word()));
}

/// What one of our own receivers does; `None` of all others, who leave these bytes 0.
pub fn own(bytes: &[u8]) -> Option<Own> {
    recognise(bytes)?;
    let word = word(bytes, OWN_AT)?;
    u16::try_from(word).ok().and_then(Own::read)
}

/// A reserved word.
const OWN_AT: usize = 20;

fn begin(bytes: &mut [u8]) {
    let length = u32::try_from(bytes.len()).unwrap_or(0);
    put(bytes, 0, 2);
    put(bytes, 4, length);
    put(bytes, 12, 0x0002_0001);
    put(bytes, 16, 0x0008_0003);
}

/// Whether these bytes begin with an ack: its length (28 or 52), or `None`.
pub fn recognise(bytes: &[u8]) -> Option<usize> {
    let length = word(bytes, 4)? as usize;
    (word(bytes, 0)? == 2 && matches!(length, LENGTH | LONG_LENGTH)).then_some(length)
}

/// The version words of an ack, which tell the server's generation.
pub fn version(bytes: &[u8]) -> Option<(u32, u32)> {
    recognise(bytes)?;
    Some((word(bytes, 12)?, word(bytes, 16)?))
}
