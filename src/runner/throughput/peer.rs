//! Who answers: what the first bytes of a peer say of it, in sentences.

use crate::wire::iperf2::ack;
use crate::wire::iperf3::State;
use crate::wire::own::Own;

/// What our own receivers are called.
pub(super) const OURS: &str = "tidemark";

/// What a peer speaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Speaks {
    /// Too little has come to tell.
    Unknown,
    /// iperf 2, or our own receiver in its place.
    Iperf2(Ack),
    /// iperf 3, or what looks like its first state.
    Iperf3,
    /// The ten digits over and over: an iperf payload.
    Payload,
    /// Something else, in words.
    Other(String),
}

/// What an iperf 2 server says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ack {
    /// As people write it: `iperf 2.1.8`, `tidemark`.
    pub(super) name: String,
    /// What it does of what we asked; `None` from iperf.
    pub(super) own: Option<Own>,
    /// Bytes of the ack.
    pub(super) length: usize,
}

/// Bytes that are enough to tell.
pub(super) const ENOUGH: usize = 64;

/// Tells from the first bytes that a peer sent.
pub(super) fn recognise(bytes: &[u8]) -> Speaks {
    let Some(first) = bytes.first() else {
        return Speaks::Unknown;
    };
    if let Some((upper, lower)) = ack::version(bytes) {
        return match ack::recognise(bytes) {
            Some(length) if bytes.len() >= length => {
                let own = ack::own(bytes);
                let name = own.map_or_else(|| iperf2_name(upper, lower), |_| OURS.to_owned());
                Speaks::Iperf2(Ack { name, own, length })
            }
            _ => Speaks::Unknown,
        };
    }
    let ack_begins = bytes.len() < ack::LENGTH
        && [0, 0, 0, 2, 0, 0, 0].starts_with(&bytes[..bytes.len().min(7)]);
    if ack_begins {
        return Speaks::Unknown;
    }
    if bytes.iter().take(10).all(u8::is_ascii_digit) {
        return Speaks::Payload;
    }
    let is_first_state = matches!(
        State::of(*first),
        Some(State::ParamExchange | State::AccessDenied)
    );
    // It finds no parameters next, and says so or not.
    let goes_on = bytes.get(1).is_none_or(|next| State::of(*next).is_some());
    if is_first_state && goes_on {
        return Speaks::Iperf3;
    }
    if bytes.starts_with(b"HTTP/") {
        return Speaks::Other("a web server (HTTP) answers".into());
    }
    if bytes.starts_with(b"SSH-") {
        return Speaks::Other("an SSH server answers".into());
    }
    if [&b"HTTP/"[..], b"SSH-"]
        .iter()
        .any(|start| start.starts_with(bytes))
    {
        return Speaks::Unknown;
    }
    let shown: String = bytes
        .iter()
        .take(24)
        .map(|byte| {
            if byte.is_ascii_graphic() || *byte == b' ' {
                char::from(*byte)
            } else {
                '.'
            }
        })
        .collect();
    Speaks::Other(format!(
        "the peer answers something that is not iperf (“{shown}”)"
    ))
}

/// The server's version as people write it: `iperf 2.1.8`.
pub(super) fn iperf2_name(upper: u32, lower: u32) -> String {
    format!("iperf {}.{}.{}", upper >> 16, upper & 0xFFFF, lower >> 16)
}

/// Why an iperf 2 test cannot go on with such a peer; `None` when it can.
pub(super) fn not_iperf2(speaks: &Speaks, port: u16) -> Option<String> {
    match speaks {
        Speaks::Iperf3 => Some(format!(
            "an iperf 3 server answers on port {port}: set dialect to iperf3, or start iperf -s there"
        )),
        Speaks::Other(what) => Some(format!(
            "{what} on port {port}: name the port of an iperf server, usually 5001"
        )),
        Speaks::Unknown | Speaks::Iperf2(_) | Speaks::Payload => None,
    }
}

/// Why an iperf 3 test cannot go on with a peer that answered the cookie with these bytes.
pub(super) fn not_iperf3(bytes: &[u8], port: u16) -> String {
    match recognise(bytes) {
        Speaks::Iperf2(_) | Speaks::Payload => format!(
            "an iperf 2 server answers on port {port}: set dialect to iperf2, or start iperf3 -s there"
        ),
        Speaks::Other(what) => {
            format!("{what} on port {port}: name the port of an iperf 3 server, usually 5201")
        }
        Speaks::Unknown if bytes.first() == Some(&0) => format!(
            "an iperf 2 server answers on port {port}: set dialect to iperf2, or start iperf3 -s there"
        ),
        Speaks::Unknown | Speaks::Iperf3 => {
            format!("what answers on port {port} does not keep to iperf 3's protocol")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bytes_tell_who_answers() {
        let mut whole = ack::encode();
        for cut in 0..whole.len() {
            assert_eq!(recognise(&whole[..cut]), Speaks::Unknown, "{cut}");
        }
        let acked = |bytes: &[u8]| match recognise(bytes) {
            Speaks::Iperf2(ack) => (ack.name, ack.own, ack.length),
            other => panic!("{other:?}"),
        };
        assert_eq!(acked(&whole), ("iperf 2.1.8".to_owned(), None, 28));
        let own = Own {
            discard: true,
            ..Own::default()
        };
        ack::mark(&mut whole, own);
        assert_eq!(acked(&whole), ("tidemark".to_owned(), Some(own), 28));
        assert_eq!(iperf2_name(0x0002_0001, 0x0008_0003), "iperf 2.1.8");
        assert_eq!(iperf2_name(0x0002_0000, 0x000d_0000), "iperf 2.0.13");
        assert_eq!(recognise(b"0123"), Speaks::Payload);
        assert_eq!(recognise(&[9]), Speaks::Iperf3);
        assert_eq!(recognise(&[0xFF]), Speaks::Iperf3);
        assert_eq!(
            recognise(&[9, 0xFE, 0, 0, 0, 113, 0, 0, 0, 0]),
            Speaks::Iperf3
        );
        assert_eq!(recognise(b"HT"), Speaks::Unknown);
        let said = |bytes: &[u8]| not_iperf2(&recognise(bytes), 80).unwrap();
        assert!(said(b"HTTP/1.1 400 Bad Request").contains("web server"));
        assert!(said(b"SSH-2.0-x").contains("SSH"));
        assert!(said(b"220 mail\r\n\x1b").contains("“220 mail..."));
        assert!(not_iperf3(&whole[..1], 5001).contains("iperf 2 server"));
        assert!(not_iperf3(b"SSH-2.0-x", 22).contains("SSH"));
    }
}
