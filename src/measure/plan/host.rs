//! A peer named by its host alone, with its port and the local address to send from.

use std::net::{IpAddr, Ipv6Addr};

use super::fields::{Fields, Range, shown};
use super::target::check_host;

/// Reads a host: an IPv4 address, an IPv6 address (link-local ones with their zone), or a name.
///
/// # Errors
///
/// A sentence that says what to change.
pub fn parse_host(text: &str) -> Result<(), String> {
    let bare = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(text);
    if !bare.contains(':') {
        return check_host(bare)
            .map(drop)
            .map_err(|sentence| sentence.replace("The URL names no host", "The host is empty"));
    }
    let (address, zone) = bare.split_once('%').unwrap_or((bare, ""));
    let Ok(address) = address.parse::<Ipv6Addr>() else {
        return Err(format!("{} is not an IPv6 address.", shown(text)));
    };
    let link_local = address.segments()[0] & 0xFFC0 == 0xFE80;
    if link_local && zone.is_empty() {
        return Err(format!(
            "{address} is a link-local address: add its interface, such as {address}%eth0."
        ));
    }
    let good_zone = zone.len() <= 15
        && zone
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'));
    if bare.contains('%') && (!link_local || zone.is_empty() || !good_zone) {
        return Err(format!(
            "{} has a zone that is no interface name of a link-local address.",
            shown(text)
        ));
    }
    Ok(())
}

/// `host`, without the brackets that people copy from URLs.
pub(super) fn take(fields: &mut Fields<'_>) -> Option<String> {
    if fields.take("host").is_none() {
        fields.refuse(
            "host",
            "The host is missing: name the peer, such as 127.0.0.1.",
        );
        return None;
    }
    let text = fields.text("host", "The host")?;
    match parse_host(text) {
        Ok(()) => Some(text.trim_matches(['[', ']']).to_owned()),
        Err(sentence) => {
            fields.refuse("host", sentence);
            None
        }
    }
}

/// `port`.
pub(super) fn take_port(fields: &mut Fields<'_>) -> Option<u16> {
    let port = fields.whole(
        "port",
        &Range {
            name: "The port",
            min: 1.0,
            max: 65_535.0,
            unit: "",
            set_by: None,
        },
    )?;
    u16::try_from(port).ok()
}

/// `bind`, an address of this machine.
pub(super) fn take_bind(fields: &mut Fields<'_>) -> Option<IpAddr> {
    let text = fields.text("bind", "The address to send from")?;
    let Ok(address) = text.parse::<IpAddr>() else {
        fields.refuse(
            "bind",
            format!(
                "{} is not an IP address of this machine: set bind to one, such as 127.0.0.1.",
                shown(text)
            ),
        );
        return None;
    };
    if address.is_unspecified() || address.is_multicast() {
        fields.refuse(
            "bind",
            format!(
                "{address} is no address to send from: name one of this machine, or leave bind out."
            ),
        );
        return None;
    }
    Some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_read_strictly() {
        for good in [
            "127.0.0.1",
            "::1",
            "[::1]",
            "fe80::1%eth0",
            "web-a.example",
            "localhost",
        ] {
            assert_eq!(parse_host(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            "127.1",
            "0x7f.1",
            "2852039166",
            "fe80::1",
            "::1%lo",
            "fe80::1%e th",
            "a b",
            "http://x",
            "-x",
            "[::1",
        ] {
            assert!(parse_host(bad).is_err(), "{bad}");
        }
    }
}
