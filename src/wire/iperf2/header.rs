//! The header with which an iperf 2 client opens a TCP stream and marks every UDP datagram.

use std::time::Duration;

use super::{half, put, word};
use crate::wire::own::Own;

/// Bits of the first word.
pub mod flag {
    /// `-d` or `-r`, and everything that 2.0.5 sends.
    pub const VERSION1: u32 = 0x8000_0000;
    /// The extended header follows.
    pub const EXTEND: u32 = 0x4000_0000;
    /// UDP settings follow.
    pub const UDP_TESTS: u32 = 0x2000_0000;
    /// A permit key follows the header.
    pub const KEY_CHECK: u32 = 0x1000_0000;
    /// UDP ids are 64 bits wide.
    pub const SEQNO_64: u32 = 0x0800_0000;
    /// `-R` or `--full-duplex`; 2.0.14a sets it always.
    pub const VERSION2: u32 = 0x0400_0000;
    /// `-X`: the client waits for the ack.
    pub const PEER_DETECT: u32 = 0x0200_0000;
    /// The header's length stands in the low bits.
    pub const LENGTH: u32 = 0x0001_0000;
    /// With `VERSION1`: `-d`; without: `-r`.
    pub const RUN_NOW: u32 = 0x0000_0001;
}

/// Bits of the upper flags.
pub mod upper {
    /// No final datagrams are sent or expected.
    pub const NO_UDP_FIN: u16 = 0x0008;
    /// `--trip-times`.
    pub const TRIP_TIME: u16 = 0x0010;
    /// The rate field counts datagrams, not bits.
    pub const RATE_IS_PACKETS: u16 = 0x0080;
    /// A bandwidth was asked for.
    pub const BANDWIDTH_SET: u16 = 0x0100;
    /// `-R`.
    pub const REVERSE: u16 = 0x0400;
    /// `--full-duplex`.
    pub const FULL_DUPLEX: u16 = 0x0800;
}

/// The longest header that is believed; longer ones are payload that looks like one.
const LONGEST: usize = 256;
/// More parallel streams than this are not believed.
const MOST_STREAMS: u32 = 0x1_0000;
/// Length of the plain header of 2.1.8.
pub const PLAIN_LENGTH: usize = 60;

/// How much a client means to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// For a time (`-t`), in steps of 10 ms.
    Time(Duration),
    /// So many bytes (`-n`).
    Bytes(u64),
}

/// Who sends, as the header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The client sends.
    Plain,
    /// The server sends on the same socket (`-R`).
    Reverse,
    /// Both send on the same socket (`--full-duplex`).
    FullDuplex,
    /// The server opens a second flow at once (`-d`).
    Dual,
    /// The server opens a second flow after the first has ended (`-r`).
    Tradeoff,
}

/// What the header says; fields that an older client does not send are `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientHeader {
    /// The first word.
    pub flags: u32,
    /// Parallel streams of the test (`-P`), the same in each stream's header.
    pub streams: u32,
    /// Port on which the client listens for `-d` and `-r`.
    pub port: u16,
    /// Block length, 0 where none was given.
    pub block_bytes: u32,
    /// How much it means to send.
    pub amount: Amount,
    /// Upper flags; 0 from clients that do not have them.
    pub upper: u16,
    /// Version words, from 2.0.10 on.
    pub version: Option<(u32, u32)>,
    /// What only our own clients ask; `None` from all others.
    pub own: Option<Own>,
    /// Type of service (`-S`).
    pub tos: u16,
    /// Rate asked for (`-b`) in bit/s, or in datagrams per second with its flag; 0 where none was.
    pub rate: u64,
    /// When the client started, in seconds and microseconds of its wall clock (`--trip-times`).
    pub start: Option<(u32, u32)>,
    /// Permit key, where one follows.
    pub key: Option<Vec<u8>>,
}

/// What the first bytes of a stream are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// At least this many bytes are needed to tell.
    NeedMore(usize),
    /// Payload from the first byte on: an old client, or `-C`.
    NoHeader,
    /// A header of this many bytes, key included; its bytes count as payload too.
    Header(ClientHeader, usize),
}

impl ClientHeader {
    /// The header that 2.1.8 sends for a plain test.
    pub fn plain(streams: u32, port: u16, amount: Amount) -> Self {
        Self {
            flags: flag::EXTEND | flag::LENGTH,
            streams,
            port,
            block_bytes: 0,
            amount,
            upper: 0,
            version: Some((0x0002_0001, 0x0008_0003)),
            own: None,
            tos: 0,
            rate: 0,
            start: None,
            key: None,
        }
    }

    /// The same with who sends set, as 2.1.8 writes it.
    #[must_use]
    pub fn with_mode(mut self, mode: Mode) -> Self {
        match mode {
            Mode::Plain => {}
            Mode::Reverse => {
                self.flags |= flag::VERSION2;
                self.upper |= upper::REVERSE;
            }
            Mode::FullDuplex => {
                self.flags |= flag::VERSION2;
                self.upper |= upper::FULL_DUPLEX;
            }
            Mode::Dual => self.flags |= flag::VERSION1 | flag::RUN_NOW,
            Mode::Tradeoff => self.flags |= flag::VERSION1,
        }
        self
    }

    /// Reads the first bytes of a TCP stream.
    pub fn parse_tcp(bytes: &[u8]) -> Parsed {
        Self::parse(bytes, 0)
    }

    /// Reads a datagram's header, which stands after `offset` bytes of datagram header
    /// (16, or 12 in 2.0.5); its stated length counts from byte 0 of the datagram.
    pub fn parse_udp(datagram: &[u8], offset: usize) -> Option<Self> {
        let flags = word(datagram, offset)?;
        // Payload digits at this place have neither of these bits.
        if flags & (flag::VERSION1 | flag::EXTEND) == 0 {
            return None;
        }
        let body = datagram.get(offset..)?;
        let (header, _) = Self::fields(body, flags, Self::unmarked_length(flags))?;
        Some(header)
    }

    fn unmarked_length(flags: u32) -> usize {
        let mut length = 0;
        if flags & (flag::VERSION1 | flag::EXTEND) != 0 {
            length += 24;
        }
        if flags & (flag::VERSION2 | flag::EXTEND) != 0 {
            length += 36;
        }
        length
    }

    fn parse(bytes: &[u8], offset: usize) -> Parsed {
        let Some(flags) = word(bytes, offset) else {
            // Digits and zeros are told from a header by the first byte that is there.
            return match bytes.get(offset) {
                Some(0 | b'0'..=b'9') => Parsed::NoHeader,
                _ => Parsed::NeedMore(offset + 4),
            };
        };
        if flags & (flag::VERSION1 | flag::EXTEND | flag::VERSION2) == 0 {
            return Parsed::NoHeader;
        }
        let marked = flags & flag::LENGTH != 0;
        let length = if marked {
            ((flags & 0x1FE) >> 1) as usize
        } else {
            Self::unmarked_length(flags)
        };
        let legacy = matches!(flags, 0x8000_0000 | 0x8000_0001)
            || flags & !(flag::VERSION1 | flag::RUN_NOW | flag::PEER_DETECT) == flag::EXTEND;
        if marked && !(24..=LONGEST).contains(&length) || !marked && !legacy {
            return Parsed::NoHeader;
        }
        // Streams and port tell a header from text that happens to have the bits.
        let (Some(streams), Some(port)) = (word(bytes, offset + 4), word(bytes, offset + 8)) else {
            return Parsed::NeedMore(offset + 12);
        };
        let unmarked_extended = !marked && flags & flag::EXTEND != 0;
        if !unmarked_extended && (streams == 0 || streams > MOST_STREAMS || port > 0xFFFF) {
            return Parsed::NoHeader;
        }
        if bytes.len() < length {
            return Parsed::NeedMore(length);
        }
        // 2.0.13 with `-X` fills only the extension, whose type and length it states.
        let extension = (word(bytes, offset + 24), word(bytes, offset + 28));
        if unmarked_extended && extension != (Some(1), Some(0x1C)) {
            return Parsed::NoHeader;
        }
        let Some((mut header, _)) = Self::fields(&bytes[offset..], flags, length) else {
            return Parsed::NeedMore(length.max(24));
        };
        let mut whole = length;
        if flags & flag::KEY_CHECK != 0 {
            // The stated length covers the two bytes of the key's length, not the key.
            let Some(key_bytes) = length.checked_sub(2).and_then(|at| half(bytes, at)) else {
                return Parsed::NoHeader;
            };
            if usize::from(key_bytes) > LONGEST {
                return Parsed::NoHeader;
            }
            whole += usize::from(key_bytes);
            let Some(key) = bytes.get(length..whole) else {
                return Parsed::NeedMore(whole);
            };
            header.key = Some(key.to_vec());
        }
        Parsed::Header(header, whole)
    }

    /// The fields that lie within `length` bytes from the first word.
    fn fields(body: &[u8], flags: u32, length: usize) -> Option<(Self, usize)> {
        // Clients without the length bit leave digits in the fields that they do not use.
        let marked = flags & flag::LENGTH != 0;
        let filled = marked || flags & flag::EXTEND == 0;
        let number = |at| if filled { word(body, at) } else { Some(0) };
        let streams = number(4)?.max(1);
        let port = u16::try_from(number(8)? & 0xFFFF).ok()?;
        let amount = number(20)?.cast_signed();
        let amount = if amount < 0 {
            Amount::Time(Duration::from_millis(u64::from(amount.unsigned_abs()) * 10))
        } else {
            Amount::Bytes(u64::from(amount.unsigned_abs()))
        };
        let long = length >= PLAIN_LENGTH;
        let upper = if long && marked { half(body, 32)? } else { 0 };
        let version = if long {
            Some((word(body, 36)?, word(body, 40)?))
        } else {
            None
        };
        let rate = if long && marked {
            u64::from(word(body, 48)?) | u64::from(word(body, 52)? >> 8) << 32
        } else {
            0
        };
        let start = if marked && length >= 80 && upper & self::upper::TRIP_TIME != 0 {
            Some((word(body, 64)?, word(body, 68)?))
        } else {
            None
        };
        let header = Self {
            flags,
            streams,
            port,
            block_bytes: number(12)?,
            amount,
            upper,
            version,
            own: if long && marked {
                Own::read(half(body, 44)?)
            } else {
                None
            },
            tos: if long && marked { half(body, 46)? } else { 0 },
            rate,
            start,
            key: None,
        };
        Some((header, length))
    }

    /// Who sends.
    pub fn mode(&self) -> Mode {
        if self.upper & upper::REVERSE != 0 {
            Mode::Reverse
        } else if self.upper & upper::FULL_DUPLEX != 0 {
            Mode::FullDuplex
        } else if self.flags & flag::VERSION1 == 0 {
            Mode::Plain
        } else if self.flags & flag::RUN_NOW != 0 {
            Mode::Dual
        } else {
            Mode::Tradeoff
        }
    }

    /// Whether a server answers this TCP header with an ack (2.1.8's rule): anyone else would take it for payload.
    /// Our own clients want it wherever they send.
    pub fn wants_ack(&self) -> bool {
        self.flags & flag::PEER_DETECT != 0
            || self.own.is_some() && self.mode() != Mode::Reverse
            || self.flags & flag::EXTEND != 0 && self.flags & flag::VERSION2 == 0
    }

    /// Whether the client stamps its blocks with its clock.
    pub fn trip_times(&self) -> bool {
        self.upper & upper::TRIP_TIME != 0
    }

    /// The bytes of a TCP header.
    pub fn encode_tcp(&self) -> Vec<u8> {
        let mut length = if self.start.is_some() {
            80
        } else {
            PLAIN_LENGTH
        };
        if self.key.is_some() {
            length += 2;
        }
        let mut bytes = vec![0; length];
        self.write(&mut bytes, length);
        if let Some(key) = &self.key {
            let size = u16::try_from(key.len()).unwrap_or(u16::MAX);
            bytes[length - 2..].copy_from_slice(&size.to_be_bytes());
            bytes.extend_from_slice(&key[..usize::from(size)]);
        }
        bytes
    }

    /// Writes the header into a datagram behind its 16 bytes; the datagram must have at least 76.
    pub fn write_udp(&self, datagram: &mut [u8]) {
        let length = 16 + PLAIN_LENGTH;
        self.write(&mut datagram[16..], length);
    }

    fn write(&self, body: &mut [u8], stated_length: usize) {
        let length = u32::try_from(stated_length).unwrap_or(0) << 1;
        put(body, 0, self.flags & !0x1FE | length);
        put(body, 4, self.streams);
        put(body, 8, u32::from(self.port));
        put(body, 12, self.block_bytes);
        put(body, 16, 0);
        let amount = match self.amount {
            Amount::Time(time) => {
                let steps = i32::try_from(time.as_millis() / 10).unwrap_or(i32::MAX);
                (-steps).cast_unsigned()
            }
            Amount::Bytes(bytes) => {
                u32::try_from(bytes).map_or(0x7FFF_FFFF, |bytes| bytes.min(0x7FFF_FFFF))
            }
        };
        put(body, 20, amount);
        put(body, 24, 0);
        put(body, 28, 0);
        put(body, 32, u32::from(self.upper) << 16);
        let (version_upper, version_lower) = self.version.unwrap_or_default();
        put(body, 36, version_upper);
        put(body, 40, version_lower);
        let own = self.own.map_or(0, Own::word);
        put(body, 44, u32::from(own) << 16 | u32::from(self.tos));
        put(body, 48, (self.rate & 0xFFFF_FFFF) as u32);
        put(body, 52, ((self.rate >> 32) as u32) << 8);
        put(body, 56, 0);
        if let Some((seconds, micros)) = self.start
            && body.len() >= 80
        {
            put(body, 60, 0);
            put(body, 64, seconds);
            put(body, 68, micros);
            put(body, 72, 0);
            put(body, 76, 0);
        }
    }
}
