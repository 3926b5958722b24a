//! The chunked transfer coding, read in pieces of any size (RFC 9112 section 7.1).

use super::reply::HEAD_LIMIT;

/// Where the reader stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// In the digits of a chunk's size.
    Size,
    /// In a chunk's extension, which means nothing to us.
    Extension,
    /// Behind the CR of a size line.
    SizeLineFeed,
    /// In a chunk's data with this much to come.
    Data(u64),
    /// Behind a chunk's data, before its CR.
    DataReturn,
    /// Behind the CR of a chunk's data.
    DataLineFeed,
    /// At the start of a trailer line.
    LineStart,
    /// In a trailer line.
    Line,
    /// Behind the CR of a trailer line that holds something.
    LineFeed,
    /// Behind the CR of the empty line that ends it all.
    LastLineFeed,
}

/// Reads a chunked content and only counts it.
#[derive(Clone, Debug)]
pub(super) struct Chunked {
    at: At,
    size: u64,
    digits: u8,
    /// Bytes of the size line so far.
    line: usize,
    trailer_lines: usize,
    /// Content bytes so far.
    pub(super) content: u64,
    /// Trailer bytes so far, the empty line that ends it not counted.
    pub(super) trailer: u32,
}

/// What a piece led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chunk {
    /// More is needed; the whole piece was read.
    More,
    /// The content ended after this many bytes of the piece.
    End(usize),
    /// This cannot be.
    Invalid(&'static str),
}

impl Chunked {
    pub(super) const fn new() -> Self {
        Self {
            at: At::Size,
            size: 0,
            digits: 0,
            line: 0,
            trailer_lines: 0,
            content: 0,
            trailer: 0,
        }
    }

    pub(super) fn read(&mut self, bytes: &[u8]) -> Chunk {
        let mut next = 0;
        while let Some(&byte) = bytes.get(next) {
            if let At::Data(left) = self.at {
                let here = (bytes.len() - next) as u64;
                let taken = here.min(left);
                self.content = self.content.saturating_add(taken);
                next += usize::try_from(taken).unwrap_or(usize::MAX);
                self.at = if taken == left {
                    At::DataReturn
                } else {
                    At::Data(left - taken)
                };
                continue;
            }
            next += 1;
            match self.step(byte) {
                Ok(false) => {}
                Ok(true) => return Chunk::End(next),
                Err(reason) => return Chunk::Invalid(reason),
            }
        }
        Chunk::More
    }

    /// Takes one byte outside of data; true when it was the last one.
    fn step(&mut self, byte: u8) -> Result<bool, &'static str> {
        self.at = match (self.at, byte) {
            (At::Size, digit) if digit.is_ascii_hexdigit() => {
                if self.digits == 15 {
                    return Err("chunk size too large");
                }
                self.digits += 1;
                let value = char::from(digit).to_digit(16).unwrap_or(0);
                self.size = self.size * 16 + u64::from(value);
                At::Size
            }
            (At::Size, b';' | b' ' | b'\t') if self.digits > 0 => At::Extension,
            (At::Size | At::Extension, b'\r') if self.digits > 0 => At::SizeLineFeed,
            (At::Extension, b'\n') | (At::Size, _) => return Err("invalid chunk size"),
            (At::Extension, _) => {
                self.line += 1;
                if self.line > LINE_LIMIT {
                    return Err("chunk extension too long");
                }
                At::Extension
            }
            (At::SizeLineFeed, b'\n') => {
                let size = std::mem::take(&mut self.size);
                self.digits = 0;
                self.line = 0;
                if size == 0 {
                    At::LineStart
                } else {
                    At::Data(size)
                }
            }
            (At::DataReturn, b'\r') => At::DataLineFeed,
            (At::DataLineFeed, b'\n') => At::Size,
            (At::LineStart, b'\r') => At::LastLineFeed,
            (At::LastLineFeed, b'\n') => return Ok(true),
            (At::LineStart | At::Line, b'\n') => return Err("invalid trailer"),
            (At::LineStart | At::Line, other) => self.trailer_byte(other)?,
            (At::LineFeed, b'\n') => {
                self.trailer += 1;
                self.trailer_lines += 1;
                if self.trailer_lines > super::reply::LINES_LIMIT {
                    return Err("too many trailer lines");
                }
                At::LineStart
            }
            (At::DataReturn | At::DataLineFeed, _) => return Err("chunk longer than its size"),
            (At::SizeLineFeed | At::LineFeed | At::LastLineFeed | At::Data(_), _) => {
                return Err("line feed missing in chunk framing");
            }
        };
        Ok(false)
    }

    fn trailer_byte(&mut self, byte: u8) -> Result<At, &'static str> {
        self.trailer += 1;
        if self.trailer as usize > HEAD_LIMIT {
            return Err("trailer too large");
        }
        Ok(if byte == b'\r' {
            At::LineFeed
        } else {
            At::Line
        })
    }
}

/// Longest chunk extension, in bytes.
const LINE_LIMIT: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &str, expected: Chunk, content: u64, trailer: u32) {
        let mut whole = Chunked::new();
        assert_eq!(whole.read(bytes.as_bytes()), expected, "{bytes:?}");
        if !matches!(expected, Chunk::Invalid(_)) {
            assert_eq!(
                (whole.content, whole.trailer),
                (content, trailer),
                "{bytes:?}"
            );
        }
    }

    #[test]
    fn chunks_extensions_and_trailers_are_told_apart() {
        check("5\r\nhello\r\n0\r\n\r\n", Chunk::End(15), 5, 0);
        check(
            "5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\nrest",
            Chunk::End(25),
            5,
            6,
        );
        check("00a \r\n0123456789\r\n", Chunk::More, 10, 0);
        check("5\r\nhel", Chunk::More, 3, 0);
    }

    #[test]
    fn broken_chunks_are_named() {
        for bytes in [
            "\r\n",
            "g\r\n",
            "-1\r\n",
            "0x5\r\n",
            "5\nhello",
            "5\r\nhello!\r\n",
            "1000000000000000\r\n",
            "0\r\n\n",
            "5\rx",
        ] {
            let mut chunked = Chunked::new();
            assert!(
                matches!(chunked.read(bytes.as_bytes()), Chunk::Invalid(_)),
                "{bytes:?}"
            );
        }
    }
}
