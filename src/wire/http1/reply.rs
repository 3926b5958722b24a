//! One reply out of bytes that come in pieces of any size; content is counted, never kept.

use std::mem::MaybeUninit;
use std::sync::Arc;

use super::chunked::{Chunk, Chunked};
use super::framing::{Framing, Lines};
use super::names::{Names, Said, Timing};

/// Largest head, interim ones apart, in bytes.
pub const HEAD_LIMIT: usize = 64 * 1024;
/// Largest content, in bytes; a longer one ends the request.
pub const CONTENT_LIMIT: u64 = 64 * 1024 * 1024;
/// Most header or trailer lines.
pub(super) const LINES_LIMIT: usize = 100;
/// Most interim replies before the final one.
const INTERIM_LIMIT: u8 = 10;

/// What a piece led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The reply is not complete; the whole piece was read.
    More,
    /// The reply ended after this many bytes of the piece.
    Done(usize),
    /// These bytes are no valid HTTP/1.x reply; why.
    Invalid(&'static str),
    /// The content is longer than [`CONTENT_LIMIT`].
    TooBig,
}

/// What it means that the connection ended now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The reply is complete: it was to last until the connection ends.
    Complete,
    /// No byte of a reply had come.
    Nothing,
    /// Inside the head.
    InHead,
    /// Inside the content, of which this much was announced (`None`: in chunks).
    InContent(Option<u64>),
}

#[derive(Clone, Debug)]
enum State {
    Head,
    Length { left: u64 },
    Chunked(Chunked),
    UntilClose,
    Done,
}

/// Reads one reply; [`Decoder::reset`] makes it ready for the next.
#[derive(Clone, Debug)]
pub struct Decoder {
    state: State,
    /// The head so far, where it came in more than one piece; else empty.
    partial: Vec<u8>,
    head_request: bool,
    interim: u8,
    announced: Option<u64>,
    status: Option<u16>,
    header_bytes: u32,
    content_bytes: u64,
    footer_bytes: u32,
    keep_alive: bool,
    seen: bool,
    said: Said,
}

impl Decoder {
    /// A reader for the reply to a request, which may have been a `HEAD`.
    pub fn new(method: &str) -> Self {
        Self {
            state: State::Head,
            partial: Vec::new(),
            head_request: method == "HEAD",
            interim: 0,
            announced: None,
            status: None,
            header_bytes: 0,
            content_bytes: 0,
            footer_bytes: 0,
            keep_alive: false,
            seen: false,
            said: Said::default(),
        }
    }

    /// Makes it ready for the next reply; memory is used again.
    pub fn reset(&mut self) {
        self.state = State::Head;
        self.partial.clear();
        self.interim = 0;
        self.announced = None;
        self.status = None;
        self.header_bytes = 0;
        self.content_bytes = 0;
        self.footer_bytes = 0;
        self.keep_alive = false;
        self.seen = false;
        self.said = Said::default();
    }

    /// Reads a piece. After anything but [`Step::More`] the reply is over.
    pub fn read(&mut self, bytes: &[u8], names: &mut Names) -> Step {
        let mut used = 0;
        self.seen |= !bytes.is_empty();
        loop {
            let rest = &bytes[used..];
            match &mut self.state {
                State::Head => match self.read_head(rest, names) {
                    Ok(Some(taken)) => used += taken,
                    Ok(None) => return Step::More,
                    Err(step) => return step,
                },
                State::Length { left } => {
                    let taken = (rest.len() as u64).min(*left);
                    *left -= taken;
                    self.content_bytes += taken;
                    used += usize::try_from(taken).unwrap_or(usize::MAX);
                    if *left > 0 {
                        return Step::More;
                    }
                    self.state = State::Done;
                }
                State::Chunked(chunked) => {
                    let step = chunked.read(rest);
                    self.content_bytes = chunked.content;
                    self.footer_bytes = chunked.trailer;
                    match step {
                        _ if self.content_bytes > CONTENT_LIMIT => return Step::TooBig,
                        Chunk::More => return Step::More,
                        Chunk::Invalid(reason) => return Step::Invalid(reason),
                        Chunk::End(taken) => {
                            used += taken;
                            self.state = State::Done;
                        }
                    }
                }
                State::UntilClose => {
                    self.content_bytes += rest.len() as u64;
                    return if self.content_bytes > CONTENT_LIMIT {
                        Step::TooBig
                    } else {
                        Step::More
                    };
                }
                State::Done => return Step::Done(used),
            }
        }
    }

    /// What it means that the connection ended in order now.
    pub fn end(&self) -> Cut {
        match &self.state {
            State::Head if !self.seen => Cut::Nothing,
            State::Head => Cut::InHead,
            State::Length { .. } | State::Chunked(_) => Cut::InContent(self.announced),
            State::UntilClose | State::Done => Cut::Complete,
        }
    }

    /// Whether a byte of the reply has come.
    pub const fn seen(&self) -> bool {
        self.seen
    }

    /// Whether the final head is complete.
    pub const fn in_content(&self) -> bool {
        !matches!(self.state, State::Head)
    }

    /// Status of the final reply.
    pub const fn status(&self) -> Option<u16> {
        self.status
    }

    /// Bytes of all heads, interim ones with it.
    pub const fn header_bytes(&self) -> u32 {
        self.header_bytes
    }

    /// Content bytes so far, chunk framing not counted.
    pub const fn content_bytes(&self) -> u64 {
        self.content_bytes
    }

    /// Trailer bytes.
    pub const fn footer_bytes(&self) -> u32 {
        self.footer_bytes
    }

    /// Whether the reply allows the connection to be used again.
    pub const fn keep_alive(&self) -> bool {
        self.keep_alive
    }

    /// Backend, region and times that the final head names.
    pub fn take_said(&mut self) -> (Option<Arc<str>>, Option<Arc<str>>, Option<Timing>) {
        let said = std::mem::take(&mut self.said);
        (said.served_by, said.region, said.timing)
    }

    /// Reads on in the head: bytes taken once one head is complete, `None` when it is not.
    fn read_head(&mut self, bytes: &[u8], names: &mut Names) -> Result<Option<usize>, Step> {
        let before = self.partial.len();
        let end = if before == 0 {
            head_end(bytes, 0)
        } else {
            self.partial.extend_from_slice(bytes);
            head_end(&self.partial, before)
        };
        let head = if before == 0 { bytes } else { &self.partial };
        let start = &head[..head.len().min(START.len())];
        if *start != START[..start.len()] {
            return Err(Step::Invalid("not an HTTP/1.x reply"));
        }
        if end.unwrap_or(head.len()) > HEAD_LIMIT {
            return Err(Step::Invalid("head larger than 64 KiB"));
        }
        let Some(end) = end else {
            if before == 0 {
                self.partial.extend_from_slice(bytes);
            }
            return Ok(None);
        };
        if before == 0 {
            self.parse(&bytes[..end], names)?;
        } else {
            let head = std::mem::take(&mut self.partial);
            self.parse(&head[..end], names)?;
            self.partial = head;
            self.partial.clear();
        }
        Ok(Some(end - before))
    }

    /// Understands one complete head.
    fn parse(&mut self, head: &[u8], names: &mut Names) -> Result<(), Step> {
        let mut lines = [const { MaybeUninit::uninit() }; LINES_LIMIT];
        let mut parsed = httparse::Response::new(&mut []);
        let complete = httparse::ParserConfig::default()
            .allow_obsolete_multiline_headers_in_responses(true)
            .parse_response_with_uninit_headers(&mut parsed, head, &mut lines);
        match complete {
            Ok(httparse::Status::Complete(length)) if length == head.len() => {}
            Err(httparse::Error::TooManyHeaders) => {
                return Err(Step::Invalid("more than 100 header lines"));
            }
            Ok(_) | Err(_) => return Err(Step::Invalid("malformed head")),
        }
        self.header_bytes = self
            .header_bytes
            .saturating_add(u32::try_from(head.len()).unwrap_or(u32::MAX));
        let status = parsed.code.unwrap_or(0);
        if status == 101 {
            return Err(Step::Invalid(
                "switches to a protocol that was not asked for",
            ));
        }
        if (100..200).contains(&status) {
            self.interim += 1;
            if self.interim > INTERIM_LIMIT {
                return Err(Step::Invalid("more than 10 interim replies"));
            }
            return Ok(());
        }
        let mut framing = Lines::default();
        for line in parsed.headers.iter() {
            framing.look(line.name, line.value).map_err(Step::Invalid)?;
            names.look(line.name, line.value, &mut self.said);
        }
        let minor = parsed.version.unwrap_or(0);
        let (framing, keep_alive) = framing.decide(self.head_request, status, minor);
        self.status = Some(status);
        self.keep_alive = keep_alive;
        self.state = match framing {
            Framing::Empty => State::Done,
            Framing::Length(length) => {
                self.announced = Some(length);
                if length > CONTENT_LIMIT {
                    return Err(Step::TooBig);
                }
                State::Length { left: length }
            }
            Framing::Chunked => State::Chunked(Chunked::new()),
            Framing::UntilClose => State::UntilClose,
        };
        Ok(())
    }
}

/// What every reply of ours begins with.
const START: &[u8] = b"HTTP/1.";

/// Where the empty line after a head ends, looking only at what came after `known` bytes.
fn head_end(head: &[u8], known: usize) -> Option<usize> {
    let mut from = known.saturating_sub(2);
    loop {
        let feed = from + head[from..].iter().position(|byte| *byte == b'\n')?;
        match head[feed + 1..] {
            [b'\n', ..] => return Some(feed + 2),
            [b'\r', b'\n', ..] => return Some(feed + 3),
            _ => from = feed + 1,
        }
    }
}

#[cfg(test)]
mod tests;
