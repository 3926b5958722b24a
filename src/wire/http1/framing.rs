//! How a reply's content is framed and whether its connection may be used again (RFC 9112 sections 6 and 9).

/// Where the content of a reply ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// There is none.
    Empty,
    /// After this many bytes.
    Length(u64),
    /// Where the chunks end.
    Chunked,
    /// Where the connection ends.
    UntilClose,
}

/// Collects what the header lines say about framing.
#[derive(Debug, Default)]
pub(super) struct Lines {
    length: Option<u64>,
    codings: u32,
    /// Chunked was named; nothing may be named after it.
    chunked: bool,
    close: bool,
    keep: bool,
}

impl Lines {
    /// Looks at one header line; the error says why the head is invalid.
    pub(super) fn look(&mut self, name: &str, value: &[u8]) -> Result<(), &'static str> {
        if name.eq_ignore_ascii_case("content-length") {
            for part in value.split(|byte| *byte == b',') {
                let length = number(part.trim_ascii()).ok_or("invalid Content-Length")?;
                if self.length.is_some_and(|before| before != length) {
                    return Err("two different Content-Length values");
                }
                self.length = Some(length);
            }
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            for coding in value.split(|byte| *byte == b',') {
                let coding = coding.trim_ascii();
                if coding.is_empty() {
                    continue;
                }
                if self.chunked {
                    return Err("chunked is not the last transfer coding");
                }
                self.codings += 1;
                self.chunked = coding.eq_ignore_ascii_case(b"chunked");
            }
        } else if name.eq_ignore_ascii_case("connection") {
            for option in value.split(|byte| *byte == b',') {
                let option = option.trim_ascii();
                self.close |= option.eq_ignore_ascii_case(b"close");
                self.keep |= option.eq_ignore_ascii_case(b"keep-alive");
            }
        }
        Ok(())
    }

    /// The framing of the content, and whether the connection may be used again after it.
    pub(super) fn decide(&self, head_request: bool, status: u16, minor: u8) -> (Framing, bool) {
        let kept = !self.close && (minor >= 1 || self.keep);
        if head_request || status == 204 || status == 304 || (100..200).contains(&status) {
            return (Framing::Empty, kept);
        }
        if self.codings > 0 {
            if self.chunked {
                // With a length beside it, or in HTTP/1.0, the next reply's start cannot be trusted.
                return (
                    Framing::Chunked,
                    kept && self.length.is_none() && minor >= 1,
                );
            }
            return (Framing::UntilClose, false);
        }
        match self.length {
            Some(length) => (Framing::Length(length), kept),
            None => (Framing::UntilClose, false),
        }
    }
}

fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 19 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(
        digits
            .iter()
            .fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0')),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(lines: &[(&str, &str)], status: u16, minor: u8, expected: Option<(Framing, bool)>) {
        let mut collected = Lines::default();
        let valid = lines
            .iter()
            .all(|(name, value)| collected.look(name, value.as_bytes()).is_ok());
        let got = valid.then(|| collected.decide(false, status, minor));
        assert_eq!(got, expected, "{lines:?} {status} 1.{minor}");
    }

    #[test]
    fn framing_follows_the_order_of_the_rules() {
        use Framing::{Chunked, Empty, Length, UntilClose};
        check(&[("content-length", "5")], 200, 1, Some((Length(5), true)));
        check(
            &[("content-length", "5, 5")],
            200,
            1,
            Some((Length(5), true)),
        );
        check(
            &[("content-length", "5"), ("Content-Length", "5")],
            200,
            1,
            Some((Length(5), true)),
        );
        check(
            &[("content-length", "5"), ("Content-Length", "6")],
            200,
            1,
            None,
        );
        for bad in ["", "-1", "+1", "0x5", "5 5", "99999999999999999999", "5,"] {
            check(&[("content-length", bad)], 200, 1, None);
        }
        check(&[("content-length", "5")], 204, 1, Some((Empty, true)));
        check(&[("content-length", "5")], 304, 1, Some((Empty, true)));
        check(
            &[("transfer-encoding", "Chunked")],
            200,
            1,
            Some((Chunked, true)),
        );
        check(
            &[("transfer-encoding", "gzip, chunked")],
            200,
            1,
            Some((Chunked, true)),
        );
        check(
            &[("transfer-encoding", "gzip")],
            200,
            1,
            Some((UntilClose, false)),
        );
        check(&[("transfer-encoding", "chunked, gzip")], 200, 1, None);
        check(
            &[
                ("transfer-encoding", "chunked"),
                ("transfer-encoding", "chunked"),
            ],
            200,
            1,
            None,
        );
        check(
            &[("transfer-encoding", "chunked"), ("content-length", "3")],
            200,
            1,
            Some((Chunked, false)),
        );
        check(&[], 200, 1, Some((UntilClose, false)));
    }

    #[test]
    fn the_connection_is_kept_as_version_and_options_say() {
        use Framing::Length;
        let length = ("content-length", "0");
        check(
            &[length, ("connection", "close")],
            200,
            1,
            Some((Length(0), false)),
        );
        check(
            &[length, ("Connection", "x, Close")],
            200,
            1,
            Some((Length(0), false)),
        );
        check(&[length], 200, 0, Some((Length(0), false)));
        check(
            &[length, ("connection", "Keep-Alive")],
            200,
            0,
            Some((Length(0), true)),
        );
    }
}
