//! The server's report at the end of a UDP flow, in the three layouts that clients expect.

use std::time::Duration;

use super::datagram::Generation;
use super::header::flag;
use super::{ack, put, word};
use crate::wire::own::Own;

/// Length of the report of 2.0.14 and later.
pub const LENGTH: usize = 128;

/// A word of the datagram's head, which answers leave 0.
const OWN_AT: usize = 12;

/// What the receiver counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdpReport {
    /// Payload bytes received.
    pub bytes: u64,
    /// From the first datagram to the last.
    pub duration: Duration,
    /// Datagrams that never came.
    pub lost: u64,
    /// Datagrams that came after one with a higher id.
    pub out_of_order: u64,
    /// Highest id seen: what the sender sent.
    pub datagrams: u64,
    /// Smoothed variation of the transit time (RFC 1889, A.8).
    pub jitter: Duration,
}

impl UdpReport {
    /// The answer to the last datagram of a flow, in the layout of that client's generation.
    pub fn encode(&self, generation: Generation, last_datagram: &[u8]) -> Vec<u8> {
        let low = |value: u64| (value & 0xFFFF_FFFF) as u32;
        let high = |value: u64| (value >> 32) as u32;
        let (base, jitter_at, size) = match generation {
            Generation::New => (16, 48, LENGTH),
            Generation::Middle => (16, 52, last_datagram.len().max(60)),
            Generation::Old => (12, 44, last_datagram.len().max(52)),
        };
        let mut bytes = vec![0; size];
        if generation == Generation::New {
            put(&mut bytes, base, flag::VERSION1 | flag::SEQNO_64);
            put(&mut bytes, 56 + 52, 0);
            put(&mut bytes, 112, 1);
            put(&mut bytes, 116, high(self.lost));
            put(&mut bytes, 120, high(self.out_of_order));
            put(&mut bytes, 124, high(self.datagrams));
        } else {
            // Older servers echo the datagram that they answer, with the report over it.
            bytes[..last_datagram.len()].copy_from_slice(last_datagram);
            put(&mut bytes, base, flag::VERSION1);
        }
        put(&mut bytes, base + 4, high(self.bytes));
        put(&mut bytes, base + 8, low(self.bytes));
        put(&mut bytes, base + 12, low(self.duration.as_secs()));
        put(&mut bytes, base + 16, self.duration.subsec_micros());
        put(&mut bytes, base + 20, low(self.lost));
        put(&mut bytes, base + 24, low(self.out_of_order));
        put(&mut bytes, base + 28, low(self.datagrams));
        if generation == Generation::Middle {
            put(&mut bytes, base + 32, high(self.datagrams));
        }
        put(&mut bytes, jitter_at, low(self.jitter.as_secs()));
        put(&mut bytes, jitter_at + 4, self.jitter.subsec_micros());
        bytes
    }

    /// Reads a report of any generation; `None` for an early ack and for anything else.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        if ack::recognise(bytes).is_some() && bytes.len() <= ack::LONG_LENGTH {
            return None;
        }
        let marked = |at| word(bytes, at).is_some_and(|flags| flags & flag::VERSION1 != 0);
        let base = if marked(16) {
            16
        } else if marked(12) {
            12
        } else {
            return None;
        };
        let wide = base == 16 && word(bytes, 16)? & flag::SEQNO_64 != 0;
        let jitter_at = if base == 16 && !wide {
            base + 36
        } else {
            base + 32
        };
        let upper = |at| {
            if wide {
                word(bytes, at).unwrap_or(0)
            } else {
                0
            }
        };
        let join = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
        Some(Self {
            bytes: join(word(bytes, base + 4)?, word(bytes, base + 8)?),
            duration: stamp(word(bytes, base + 12)?, word(bytes, base + 16)?),
            lost: join(upper(116), word(bytes, base + 20)?),
            out_of_order: join(upper(120), word(bytes, base + 24)?),
            datagrams: join(upper(124), word(bytes, base + 28)?),
            jitter: stamp(word(bytes, jitter_at)?, word(bytes, jitter_at + 4)?),
        })
    }

    /// Marks a report of the newest layout as that of one of our own receivers.
    pub fn mark(bytes: &mut [u8], own: Own) {
        if bytes.len() == LENGTH {
            put(bytes, OWN_AT, u32::from(own.word()));
        }
    }

    /// What one of our own receivers did; `None` of all others, who leave these bytes 0.
    pub fn own(bytes: &[u8]) -> Option<Own> {
        let word = word(bytes, OWN_AT).filter(|_| bytes.len() == LENGTH)?;
        u16::try_from(word).ok().and_then(Own::read)
    }

    /// Whether the report can be about a flow of which so much was sent in that time.
    pub fn is_plausible(&self, sent_bytes: u64, sent_datagrams: u64, elapsed: Duration) -> bool {
        self.bytes <= sent_bytes
            // The last datagram is sent more than once, each with a higher id.
            && self.datagrams <= sent_datagrams.saturating_add(1_000)
            && self.lost <= self.datagrams
            && self.duration <= elapsed + Duration::from_secs(5)
    }
}

fn stamp(seconds: u32, micros: u32) -> Duration {
    Duration::from_secs(u64::from(seconds)) + Duration::from_micros(u64::from(micros))
}
