//! Single flag values: text → typed value, or a sentence that says what would be understood.

use std::net::{Ipv4Addr, SocketAddr};

/// One value of a listen flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listen {
    /// No listener.
    Off,
    /// A listener at this address; port 0 = any free port, `[::]` = IPv6 and IPv4.
    At(SocketAddr),
}

/// Which part of a reply names the backend or its region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameSource {
    /// This header.
    Header(String),
    /// This cookie.
    Cookie(String),
    /// The address that answered.
    Address,
}

/// Reads `off`, `ADDRESS:PORT`, `[ADDRESS]:PORT` or `localhost:PORT`.
pub fn listen(text: &str) -> Result<Listen, String> {
    let text = text.trim();
    if text == "off" {
        return Ok(Listen::Off);
    }
    if let Some(port) = text.strip_prefix("localhost:")
        && let Ok(port) = port.parse()
    {
        return Ok(Listen::At((Ipv4Addr::LOCALHOST, port).into()));
    }
    text.parse().map(Listen::At).map_err(|_| {
        "an address with a port such as 127.0.0.1:8080 or [::]:8080, or `off`, is needed".to_owned()
    })
}

/// Reads a whole number of at least 1.
pub fn count(text: &str) -> Result<u64, String> {
    text.trim()
        .parse()
        .ok()
        .filter(|number| *number >= 1)
        .ok_or_else(|| "a whole number of at least 1 is needed".to_owned())
}

/// Reads seconds, bare or with `s`, `m` or `h`.
pub fn seconds(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let (number, factor) = match text.as_bytes().last() {
        Some(b's') => (&text[..text.len() - 1], 1.0),
        Some(b'm') => (&text[..text.len() - 1], 60.0),
        Some(b'h') => (&text[..text.len() - 1], 3600.0),
        _ => (text, 1.0),
    };
    positive(number)
        .map(|number| number * factor)
        .ok_or_else(|| "seconds above 0 are needed, such as 3600 or 1h".to_owned())
}

/// Reads bits per second with a decimal `K`, `M`, `G` or `T`.
pub fn bits_per_second(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let (number, factor) = match text.as_bytes().last().map(u8::to_ascii_uppercase) {
        Some(b'K') => (&text[..text.len() - 1], 1e3),
        Some(b'M') => (&text[..text.len() - 1], 1e6),
        Some(b'G') => (&text[..text.len() - 1], 1e9),
        Some(b'T') => (&text[..text.len() - 1], 1e12),
        _ => (text, 1.0),
    };
    positive(number)
        .map(|number| number * factor)
        .ok_or_else(|| "bits per second are needed, such as 10G or 500M".to_owned())
}

/// Reads a header name, `cookie:NAME` or `address`.
pub fn name_source(text: &str) -> Result<NameSource, String> {
    let text = text.trim();
    if text == "address" {
        return Ok(NameSource::Address);
    }
    let (name, source): (&str, fn(String) -> NameSource) = match text.strip_prefix("cookie:") {
        Some(name) => (name, NameSource::Cookie),
        None => (text, NameSource::Header),
    };
    if http::HeaderName::from_bytes(name.as_bytes()).is_err() {
        return Err("a header name, cookie:NAME or `address` is needed".to_owned());
    }
    Ok(source(name.to_owned()))
}

fn positive(text: &str) -> Option<f64> {
    text.trim()
        .parse()
        .ok()
        .filter(|number: &f64| number.is_finite() && *number > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listen_addresses() {
        let check = |text: &str, expected: Option<Listen>| {
            assert_eq!(listen(text).ok(), expected, "{text}");
        };
        check("off", Some(Listen::Off));
        check(
            "127.0.0.1:0",
            Some(Listen::At("127.0.0.1:0".parse().unwrap())),
        );
        check("[::]:8080", Some(Listen::At("[::]:8080".parse().unwrap())));
        check(
            "localhost:80",
            Some(Listen::At("127.0.0.1:80".parse().unwrap())),
        );
        for text in [
            "",
            ":80",
            "8080",
            "127.0.0.1",
            "::1:80",
            "example.com:80",
            "127.0.0.1:70000",
        ] {
            check(text, None);
        }
    }

    #[test]
    fn numbers_with_units() {
        assert_eq!(seconds("90"), Ok(90.0));
        assert_eq!(seconds("1.5h"), Ok(5400.0));
        assert_eq!(bits_per_second("10G"), Ok(1e10));
        assert_eq!(bits_per_second("500"), Ok(500.0));
        for text in ["", "0", "-1", "NaN", "inf", "1d", "s"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_names_a_backend() {
        assert_eq!(name_source("address"), Ok(NameSource::Address));
        assert_eq!(
            name_source("cookie:SRV"),
            Ok(NameSource::Cookie("SRV".to_owned()))
        );
        assert_eq!(name_source("Via"), Ok(NameSource::Header("Via".to_owned())));
        assert!(name_source("a b").is_err());
        assert!(name_source("cookie:").is_err());
    }
}
