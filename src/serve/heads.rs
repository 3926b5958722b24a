//! Checks how each request is framed, on the bytes themselves.
//!
//! hyper follows RFC 9112 where `Content-Length` meets `Transfer-Encoding` and drops what it does not use, so a
//! router never sees that they met. Two servers that disagree about such a request are how requests are smuggled;
//! these are refused here (400, then closed).

use httparse::{EMPTY_HEADER, Request, Status};

/// Follows the request heads in a byte stream.
#[derive(Debug, Default)]
pub(super) struct Heads {
    state: State,
    /// The head so far, when it came in pieces.
    pending: Vec<u8>,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Head,
    /// Inside a body with this many bytes to go.
    Body(u64),
    /// The connection closes after this request, or the codec will refuse what is here: nothing more to check.
    Through,
}

/// What is to be done with the bytes just read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Judged {
    /// They may pass.
    Pass,
    /// They may pass; the connection has to close after the reply.
    LastRequest,
    /// Only this many may pass; the request after them is refused.
    Refuse(usize),
}

/// Why a head is refused; the kind matters to tests and logs only.
type Fault = &'static str;

impl Heads {
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Judged {
        let mut judged = Judged::Pass;
        let mut at = 0;
        while at < bytes.len() {
            match &mut self.state {
                State::Through => break,
                State::Body(left) => {
                    let here = (bytes.len() - at) as u64;
                    let taken = here.min(*left);
                    *left -= taken;
                    at += usize::try_from(taken).unwrap_or(bytes.len());
                    if *left == 0 {
                        self.state = State::Head;
                    }
                }
                State::Head => {
                    let before = self.pending.len();
                    self.pending.extend_from_slice(&bytes[at..]);
                    // A head ends with a line; without a new one, parsing again cannot find more.
                    if !bytes[at..].contains(&b'\n') {
                        if self.pending.len() > LONGEST_HEAD {
                            self.state = State::Through;
                        }
                        break;
                    }
                    let mut headers = [EMPTY_HEADER; 100];
                    let mut request = Request::new(&mut headers);
                    match request.parse(&self.pending) {
                        Ok(Status::Complete(length)) => {
                            match framing(&request, &self.pending[..length]) {
                                Err(fault) => {
                                    tracing::debug!(fault, "a request was refused");
                                    self.state = State::Through;
                                    return Judged::Refuse(at);
                                }
                                Ok(Framing::Chunked) => {
                                    self.state = State::Through;
                                    judged = Judged::LastRequest;
                                }
                                Ok(Framing::Length(0)) => {}
                                Ok(Framing::Length(left)) => self.state = State::Body(left),
                            }
                            self.pending.clear();
                            at += length - before;
                        }
                        Ok(Status::Partial) => {
                            if self.pending.len() > LONGEST_HEAD {
                                self.state = State::Through;
                            }
                            break;
                        }
                        // The codec finds the same fault and answers it.
                        Err(_) => {
                            self.state = State::Through;
                            break;
                        }
                    }
                }
            }
        }
        judged
    }
}

/// A head longer than the codec takes.
const LONGEST_HEAD: usize = 32 * 1024;

enum Framing {
    Length(u64),
    Chunked,
}

fn framing(request: &Request<'_, '_>, head: &[u8]) -> Result<Framing, Fault> {
    let named = |name: &'static str| {
        request
            .headers
            .iter()
            .filter(move |header| header.name.eq_ignore_ascii_case(name))
            .map(|header| header.value)
    };
    if head
        .iter()
        .zip(std::iter::once(&b' ').chain(head))
        .any(|(byte, before)| *byte == b'\n' && *before != b'\r')
    {
        return Err("a line ends without a carriage return");
    }
    let mut lengths = named("content-length");
    let mut encodings = named("transfer-encoding");
    match (lengths.next(), encodings.next()) {
        (Some(_), Some(_)) => Err("both Content-Length and Transfer-Encoding"),
        (Some(length), None) => {
            if lengths.next().is_some() {
                return Err("more than one Content-Length");
            }
            if length.is_empty() || !length.iter().all(u8::is_ascii_digit) {
                return Err("a Content-Length that is no number");
            }
            std::str::from_utf8(length)
                .ok()
                .and_then(|text| text.parse().ok())
                .map(Framing::Length)
                .ok_or("a Content-Length beyond all numbers")
        }
        (None, Some(encoding)) => {
            if encodings.next().is_some() || !encoding.eq_ignore_ascii_case(b"chunked") {
                return Err("a Transfer-Encoding other than chunked");
            }
            if request.version != Some(1) {
                return Err("Transfer-Encoding before HTTP/1.1");
            }
            Ok(Framing::Chunked)
        }
        (None, None) => Ok(Framing::Length(0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &str, expected: &Judged) {
        assert_eq!(
            Heads::default().feed(bytes.as_bytes()),
            *expected,
            "{bytes:?}"
        );
        // The same in pieces of one byte: what passes must be the same.
        let mut heads = Heads::default();
        let mut last = Judged::Pass;
        for byte in bytes.as_bytes() {
            match heads.feed(&[*byte]) {
                Judged::Pass => {}
                other => last = other,
            }
        }
        match (expected, last) {
            (Judged::Refuse(_), Judged::Refuse(0)) => {}
            (expected, last) => assert_eq!(last, *expected, "{bytes:?} byte by byte"),
        }
    }

    #[test]
    fn requests_framed_in_one_way_pass() {
        check("GET / HTTP/1.1\r\nHost: a\r\n\r\n", &Judged::Pass);
        check(
            "GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n",
            &Judged::Pass,
        );
        check(
            "POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\n\r\n",
            &Judged::Pass,
        );
        check(
            "POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\na\nb",
            &Judged::Pass,
        );
        check(
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            &Judged::LastRequest,
        );
    }

    #[test]
    fn ambiguous_requests_are_refused_where_they_begin() {
        let first = "GET / HTTP/1.1\r\n\r\n";
        for headers in [
            "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n",
            "Content-Length: 3\r\nContent-Length: 3\r\n",
            "Content-Length: 3\r\nContent-Length: 4\r\n",
            "Content-Length: +3\r\n",
            "Content-Length: 3, 3\r\n",
            "Content-Length: -1\r\n",
            "Content-Length: 0x3\r\n",
            "Content-Length:\r\n",
            "Content-Length: 99999999999999999999\r\n",
            "Transfer-Encoding: gzip, chunked\r\n",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: xchunked\r\n",
            "Transfer-Encoding: identity\r\n",
            "Host: a\nX: y\r\n",
        ] {
            check(
                &format!("POST / HTTP/1.1\r\n{headers}\r\n"),
                &Judged::Refuse(0),
            );
            check(
                &format!("{first}POST / HTTP/1.1\r\n{headers}\r\n"),
                &Judged::Refuse(first.len()),
            );
        }
        check(
            "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
            &Judged::Refuse(0),
        );
    }
}
