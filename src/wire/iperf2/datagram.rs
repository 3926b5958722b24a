//! Datagrams: their ids in three generations, their send time, and how the last one is marked.

use super::header::{ClientHeader, flag};
use super::{put, word};

/// Generations that differ in their ids and in the report that they expect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// 2.0.5 and clones: 32-bit ids from 0, the end as two's complement, report at offset 12.
    Old,
    /// 2.0.10 to 2.0.13: 32-bit ids from 0, the end with the sign bit set, report at offset 16 with its jitter 4 bytes later.
    Middle,
    /// 2.0.14 and later: 64-bit ids from 1, report at offset 16.
    New,
}

/// The smallest datagram that carries an id and a send time.
pub const SMALLEST: usize = 12;

/// The first 16 bytes of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramHead {
    /// Lower 32 bits of the id.
    pub low: u32,
    /// Seconds of the sender's wall clock.
    pub seconds: u32,
    /// Microseconds of it.
    pub micros: u32,
    /// Upper 32 bits of the id; something else in old generations, 0 where the datagram is shorter.
    pub high: u32,
}

/// What a datagram says of its place in the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Id {
    /// Data with this id.
    Data(u64),
    /// The last datagram, which counts as data with this id.
    End(u64),
}

impl DatagramHead {
    /// Reads the head; `None` for a datagram too short to be one.
    pub fn parse(datagram: &[u8]) -> Option<Self> {
        Some(Self {
            low: word(datagram, 0)?,
            seconds: word(datagram, 4)?,
            micros: word(datagram, 8)?,
            high: word(datagram, 12).unwrap_or(0),
        })
    }

    /// Writes the head with a 64-bit id into a datagram of at least 16 bytes; negative ids mark the end.
    pub fn write(datagram: &mut [u8], id: i64, seconds: u32, micros: u32) {
        let id = id.cast_unsigned();
        put(datagram, 0, (id & 0xFFFF_FFFF) as u32);
        put(datagram, 4, seconds);
        put(datagram, 8, micros);
        put(datagram, 12, (id >> 32) as u32);
    }

    /// Writes the end of a flow as 2.0.10 to 2.0.13 expect it: the id with the sign bit set.
    pub fn write_sign_bit_end(datagram: &mut [u8], id: u32, seconds: u32, micros: u32) {
        put(datagram, 0, id | 0x8000_0000);
        put(datagram, 4, seconds);
        put(datagram, 8, micros);
        put(datagram, 12, 0);
    }

    /// Send time in microseconds of the sender's wall clock; the difference of two is what counts.
    pub fn sent_micros(&self) -> i64 {
        i64::from(self.seconds) * 1_000_000 + i64::from(self.micros)
    }

    /// Place in the flow; `last` is the highest id seen so far.
    pub fn id(&self, generation: Generation, last: Option<u64>) -> Id {
        if generation == Generation::New {
            let id = (u64::from(self.high) << 32 | u64::from(self.low)).cast_signed();
            return if id < 0 {
                Id::End(id.unsigned_abs())
            } else {
                Id::Data(id.unsigned_abs())
            };
        }
        let low = self.low.cast_signed();
        if low >= 0 {
            return Id::Data(u64::from(self.low));
        }
        // Two spellings of the end are about; the one nearer to what must come next is meant.
        let complement = u64::from(low.unsigned_abs());
        let sign_bit = u64::from(self.low & 0x7FFF_FFFF);
        let next = last.map_or(0, |last| last + 1);
        Id::End(if complement.abs_diff(next) <= sign_bit.abs_diff(next) {
            complement
        } else {
            sign_bit
        })
    }
}

/// The client header in a datagram of a flow whose generation is not known yet, with that generation.
pub fn recognise(datagram: &[u8]) -> (Generation, Option<ClientHeader>) {
    if let Some(header) = ClientHeader::parse_udp(datagram, 16) {
        if header.flags & flag::SEQNO_64 != 0 {
            return (Generation::New, Some(header));
        }
        // 2.0.13 without options leaves digits or zeros here; only a marked header is believed.
        if header.flags & flag::EXTEND != 0 && header.streams <= 0x1_0000 {
            return (Generation::Middle, Some(header));
        }
    }
    let first_is_zero = word(datagram, 0) == Some(0);
    match word(datagram, 12) {
        Some(0x8000_0000 | 0x8000_0001) if first_is_zero => {
            (Generation::Old, ClientHeader::parse_udp(datagram, 12))
        }
        Some(0) if first_is_zero => (Generation::Old, None),
        _ => (Generation::Middle, None),
    }
}
