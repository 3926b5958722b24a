//! Requests as compact rows: a few dozen bytes each, in blobs that decode alone and never panic.

use std::sync::Arc;
use std::time::Duration;

use crate::measure::outcome::Outcome;
use crate::measure::sample::{RequestSample, ServerTiming};

/// First byte of every blob.
const VERSION: u8 = 1;

/// Times are kept in steps of 100 ns.
const TICK_NANOS: u64 = 100;

/// Why a blob could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowsError {
    /// It ends inside a value.
    Short,
    /// It was written by another version.
    Version(u8),
    /// A value is outside what can be.
    Value(&'static str),
}

impl std::fmt::Display for RowsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Short => f.write_str("the rows end inside a value"),
            Self::Version(found) => write!(f, "the rows have version {found}, not {VERSION}"),
            Self::Value(what) => write!(f, "the rows hold an impossible {what}"),
        }
    }
}

impl std::error::Error for RowsError {}

/// Writes rows one after another.
///
/// Layout: version; then for each row a byte of flags, sequence and planned start as differences to the
/// row before, the other instants as differences to the planned start, counts, and text references. A text is
/// written where it first occurs and referred to by number afterwards. All numbers are LEB128.
#[derive(Clone, Debug, Default)]
pub struct Encoder {
    bytes: Vec<u8>,
    texts: Vec<Arc<str>>,
    rows: u64,
    last_seq: u64,
    last_scheduled: u64,
}

/// Texts are looked up one by one; beyond this many each is written out again.
const MAX_TEXTS: usize = 256;

impl Encoder {
    /// Adds one row.
    pub fn push(&mut self, sample: &RequestSample) {
        if self.bytes.is_empty() {
            self.bytes.push(VERSION);
        }
        self.rows += 1;
        let scheduled = ticks(sample.scheduled);
        self.signed(sample.seq.wrapping_sub(self.last_seq));
        self.signed(scheduled.wrapping_sub(self.last_scheduled));
        self.last_seq = sample.seq;
        self.last_scheduled = scheduled;
        let timing = sample.server_timing;
        let flags = u8::from(sample.retried_stale) | u8::from(timing.is_some()) << 1;
        self.bytes.push(sample.outcome as u8);
        self.bytes.push(flags);
        // Signed: a clock that is read twice may show a start just before the plan.
        self.signed(ticks(sample.ended).wrapping_sub(scheduled));
        let started = sample.started.map(|at| ticks(at).wrapping_sub(scheduled));
        self.optional(started.map(zigzag));
        for phase in [sample.connect, sample.tls, sample.wrote, sample.first_byte] {
            self.optional(phase.map(ticks));
        }
        self.optional(sample.status.map(u64::from));
        self.number(u64::from(sample.url));
        self.number(u64::from(sample.header_bytes));
        self.number(sample.content_bytes);
        self.number(u64::from(sample.footer_bytes));
        self.number(u64::from(sample.sent_bytes));
        for text in [&sample.served_by, &sample.region, &sample.detail] {
            self.text(text.as_ref());
        }
        if let Some(timing) = timing {
            for part in [timing.queue_ms, timing.compute_ms, timing.encode_ms] {
                self.optional(part.map(|ms| u64::from(ms.to_bits())));
            }
        }
    }

    /// How many rows there are.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The blob; empty where no row was added.
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }

    /// Adds all rows of the other.
    pub fn append(&mut self, other: &Self) {
        for sample in decode(&other.bytes).map_while(Result::ok) {
            self.push(&sample);
        }
    }

    fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value.to_le_bytes()[0] | 0x80);
            value >>= 7;
        }
        self.bytes.push(value.to_le_bytes()[0]);
    }

    fn signed(&mut self, difference: u64) {
        self.number(zigzag(difference));
    }

    /// 0 = none, else the value plus one; the largest value counts as the one below.
    fn optional(&mut self, value: Option<u64>) {
        self.number(value.map_or(0, |value| value.saturating_add(1)));
    }

    /// 0 = none, 1 = a new text follows, else its number plus two.
    fn text(&mut self, text: Option<&Arc<str>>) {
        let Some(text) = text else {
            self.number(0);
            return;
        };
        let known = self
            .texts
            .iter()
            .position(|known| Arc::ptr_eq(known, text) || known == text);
        if let Some(index) = known {
            self.number(index as u64 + 2);
            return;
        }
        self.number(1);
        self.number(text.len() as u64);
        self.bytes.extend_from_slice(text.as_bytes());
        if self.texts.len() < MAX_TEXTS {
            self.texts.push(Arc::clone(text));
        }
    }
}

/// One blob of these rows.
pub fn encode(samples: &[RequestSample]) -> Vec<u8> {
    let mut encoder = Encoder::default();
    for sample in samples {
        encoder.push(sample);
    }
    encoder.finish()
}

/// Reads the rows of one blob, in the order in which they were written; ends after the first error.
pub fn decode(bytes: &[u8]) -> Rows<'_> {
    Rows {
        rest: bytes,
        texts: Vec::new(),
        last_seq: 0,
        last_scheduled: 0,
        begun: false,
    }
}

/// Rows of one blob as samples, with instants to 0.1 µs.
#[derive(Clone, Debug)]
pub struct Rows<'a> {
    rest: &'a [u8],
    texts: Vec<Arc<str>>,
    last_seq: u64,
    last_scheduled: u64,
    begun: bool,
}

impl Iterator for Rows<'_> {
    type Item = Result<RequestSample, RowsError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let row = self.row();
        if row.is_err() {
            self.rest = &[];
        }
        Some(row)
    }
}

impl Rows<'_> {
    fn row(&mut self) -> Result<RequestSample, RowsError> {
        if !self.begun {
            self.begun = true;
            let version = self.byte()?;
            if version != VERSION {
                return Err(RowsError::Version(version));
            }
        }
        let seq = self.last_seq.wrapping_add(self.signed()?);
        let scheduled = self.last_scheduled.wrapping_add(self.signed()?);
        self.last_seq = seq;
        self.last_scheduled = scheduled;
        let outcome = Outcome::from_number(self.byte()?).ok_or(RowsError::Value("outcome"))?;
        let flags = self.byte()?;
        let ended = scheduled.wrapping_add(self.signed()?);
        let started = self
            .optional()?
            .map(|difference| scheduled.wrapping_add(unzigzag(difference)));
        Ok(RequestSample {
            seq,
            scheduled: duration(scheduled),
            started: started.map(duration),
            connect: self.optional()?.map(duration),
            tls: self.optional()?.map(duration),
            wrote: self.optional()?.map(duration),
            first_byte: self.optional()?.map(duration),
            ended: duration(ended),
            status: match self.optional()? {
                Some(status) => {
                    Some(u16::try_from(status).map_err(|_| RowsError::Value("status"))?)
                }
                None => None,
            },
            url: u16::try_from(self.number()?).map_err(|_| RowsError::Value("URL"))?,
            header_bytes: self.small("size of a head")?,
            content_bytes: self.number()?,
            footer_bytes: self.small("size of a trailer")?,
            sent_bytes: self.small("size of a request")?,
            outcome,
            retried_stale: flags & 1 != 0,
            served_by: self.text()?,
            region: self.text()?,
            detail: self.text()?,
            server_timing: if flags & 2 == 0 {
                None
            } else {
                Some(ServerTiming {
                    queue_ms: self.milliseconds()?,
                    compute_ms: self.milliseconds()?,
                    encode_ms: self.milliseconds()?,
                })
            },
        })
    }

    fn byte(&mut self) -> Result<u8, RowsError> {
        let (&first, rest) = self.rest.split_first().ok_or(RowsError::Short)?;
        self.rest = rest;
        Ok(first)
    }

    fn number(&mut self) -> Result<u64, RowsError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(RowsError::Value("number"))
    }

    fn signed(&mut self) -> Result<u64, RowsError> {
        self.number().map(unzigzag)
    }

    fn optional(&mut self) -> Result<Option<u64>, RowsError> {
        Ok(self.number()?.checked_sub(1))
    }

    fn small(&mut self, what: &'static str) -> Result<u32, RowsError> {
        u32::try_from(self.number()?).map_err(|_| RowsError::Value(what))
    }

    fn milliseconds(&mut self) -> Result<Option<f32>, RowsError> {
        let Some(bits) = self.optional()? else {
            return Ok(None);
        };
        let bits = u32::try_from(bits).map_err(|_| RowsError::Value("time"))?;
        Ok(Some(f32::from_bits(bits)).filter(|ms| ms.is_finite()))
    }

    fn text(&mut self) -> Result<Option<Arc<str>>, RowsError> {
        let index = match self.number()? {
            0 => return Ok(None),
            1 => return self.new_text().map(Some),
            number => usize::try_from(number - 2).map_err(|_| RowsError::Value("text"))?,
        };
        let text = self.texts.get(index).ok_or(RowsError::Value("text"))?;
        Ok(Some(Arc::clone(text)))
    }

    fn new_text(&mut self) -> Result<Arc<str>, RowsError> {
        let length = usize::try_from(self.number()?).map_err(|_| RowsError::Short)?;
        let (text, rest) = self.rest.split_at_checked(length).ok_or(RowsError::Short)?;
        self.rest = rest;
        let text = std::str::from_utf8(text).map_err(|_| RowsError::Value("text"))?;
        let text: Arc<str> = Arc::from(text);
        if self.texts.len() < MAX_TEXTS {
            self.texts.push(Arc::clone(&text));
        }
        Ok(text)
    }
}

fn ticks(duration: Duration) -> u64 {
    let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    nanos.saturating_add(TICK_NANOS / 2) / TICK_NANOS
}

fn duration(ticks: u64) -> Duration {
    Duration::from_nanos(ticks.saturating_mul(TICK_NANOS))
}

/// Small differences of either sign become small numbers.
fn zigzag(difference: u64) -> u64 {
    let signed = difference.cast_signed();
    (signed << 1 ^ signed >> 63).cast_unsigned()
}

fn unzigzag(number: u64) -> u64 {
    number >> 1 ^ (number & 1).wrapping_neg()
}
