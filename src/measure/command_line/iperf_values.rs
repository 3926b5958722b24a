//! Values as iperf 2 and iperf 3 write them: sizes, rates, types of service, and addresses.

use std::net::Ipv6Addr;

use crate::measure::units::{bits_per_second_text, parse_number};

/// Whose suffixes a number has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Suffixes {
    /// `k`, `m`, `g` are powers of 1000 and `K`, `M`, `G` of 1024 (iperf 2, everywhere).
    ByCase,
    /// Powers of 1024 in either case (iperf 3, bytes).
    Binary,
    /// Powers of 1000 in either case (iperf 3, rates).
    Decimal,
}

/// A count of bytes with a suffix; a fraction of a byte is dropped, as these tools do.
pub(super) fn bytes(text: &str, suffixes: Suffixes) -> Option<u64> {
    let (number, rest) = scaled(text, suffixes)?;
    let named = matches!(rest, "" | "B" | "b" | "iB" | "Byte" | "Bytes");
    let fits = (0.0..=LARGEST_EXACT).contains(&number);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and 2^53"
    )]
    (named && fits).then_some(number as u64)
}

/// A rate in bit/s with a suffix.
pub(super) fn rate(text: &str, suffixes: Suffixes) -> Option<f64> {
    let (number, rest) = scaled(text, suffixes)?;
    let named = matches!(rest, "" | "b" | "bps" | "bit" | "bits" | "bit/s" | "bits/s");
    (named && number >= 0.0 && number.is_finite()).then_some(number)
}

/// Largest count that is kept exactly: 2^53.
const LARGEST_EXACT: f64 = 9_007_199_254_740_992.0;

/// The number with its suffix worked in, and what stands behind the suffix.
fn scaled(text: &str, suffixes: Suffixes) -> Option<(f64, &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    let number = parse_number(number).ok()?;
    let mut letters = rest.chars();
    let power = match letters.next() {
        Some('k' | 'K') => 1,
        Some('m' | 'M') => 2,
        Some('g' | 'G') => 3,
        Some('t' | 'T') if suffixes != Suffixes::ByCase => 4,
        _ => return Some((number, rest)),
    };
    let lower = rest.starts_with(|c: char| c.is_ascii_lowercase());
    let base: f64 = match suffixes {
        Suffixes::Decimal => 1000.0,
        Suffixes::ByCase if lower => 1000.0,
        Suffixes::Binary | Suffixes::ByCase => 1024.0,
    };
    Some((number * base.powi(power), letters.as_str()))
}

/// A rate in words, with a remark where iperf 2 means another one than most people who write it.
pub(super) fn rate_meaning(text: &str, rate: f64, suffixes: Suffixes) -> String {
    let each = format!("{} for each stream", bits_per_second_text(rate));
    let binary = suffixes == Suffixes::ByCase && text.contains(['K', 'M', 'G']);
    if binary {
        format!("{each} (iperf 2 counts K, M and G in powers of 1024; k, m and g in thousands)")
    } else {
        each
    }
}

/// The shortest size that reads back to these bytes.
pub(super) fn write_bytes(bytes: u64) -> String {
    for (power, suffix) in [(30, "G"), (20, "M"), (10, "K")] {
        let unit = 1_u64 << power;
        if bytes >= unit && bytes.is_multiple_of(unit) {
            return format!("{}{suffix}", bytes / unit);
        }
    }
    bytes.to_string()
}

/// The shortest rate that reads back to this one, in iperf 2 and iperf 3 alike: `m` is a million in both.
pub(super) fn write_rate(rate: f64) -> String {
    for (unit, suffix) in [(1e9, "g"), (1e6, "m"), (1e3, "k")] {
        let number = rate / unit;
        if number >= 1.0 && number.fract() == 0.0 && (number * unit).to_bits() == rate.to_bits() {
            return format!("{number}{suffix}");
        }
    }
    super::number(rate)
}

/// A type of service byte: decimal, octal (`052`), hexadecimal (`0x34`), or a name of iperf's list.
pub(super) fn tos(text: &str) -> Option<u8> {
    byte(text).or_else(|| {
        let word = text.to_ascii_lowercase();
        let byte = match word.as_str() {
            "lowdelay" => 0x10,
            "throughput" => 0x08,
            "reliability" => 0x04,
            "ac_be" => 0,
            "ac_bk" => 0x20,
            "ac_vi" => 0x80,
            "ac_vo" => 0xB8,
            _ => class(&word)? << 2,
        };
        Some(byte)
    })
}

/// A differentiated services code point, 0 to 63 or by name, as the byte it stands in.
pub(super) fn dscp(text: &str) -> Option<u8> {
    let class = byte(text).or_else(|| class(&text.to_ascii_lowercase()))?;
    (class < 64).then_some(class << 2)
}

fn byte(text: &str) -> Option<u8> {
    if let Some(digits) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        return u8::from_str_radix(digits, 16).ok();
    }
    match text.strip_prefix('0') {
        Some(digits) if !digits.is_empty() => u8::from_str_radix(digits, 8).ok(),
        _ => text.parse().ok(),
    }
}

/// Code points of RFC 2474 (`cs`), 2597 (`af`) and 3246 (`ef`).
fn class(word: &str) -> Option<u8> {
    if word == "ef" {
        return Some(46);
    }
    if let Some(two) = word.strip_prefix("af").filter(|two| two.len() == 2) {
        let (class, drop) = (digit(two, 0)?, digit(two, 1)?);
        let known = (1..=4).contains(&class) && (1..=3).contains(&drop);
        return known.then_some(class * 8 + drop * 2);
    }
    let class = word.strip_prefix("cs").filter(|one| one.len() == 1)?;
    digit(class, 0).filter(|class| *class < 8).map(|c| c * 8)
}

fn digit(text: &str, at: usize) -> Option<u8> {
    text.as_bytes()
        .get(at)
        .filter(|byte| byte.is_ascii_digit())
        .map(|byte| byte - b'0')
}

/// What stands behind `-c`: a host, without brackets.
///
/// # Errors
///
/// A sentence where it names more than a host.
pub(super) fn client_host(text: &str) -> Result<String, String> {
    let bare = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(text);
    if bare.contains("://") {
        return Err(format!(
            "-c takes a host name or an address, not a URL such as {}.",
            super::cut(text)
        ));
    }
    if let Some((host, port)) = bare.split_once(':')
        && !port.is_empty()
        && port.bytes().all(|byte| byte.is_ascii_digit())
        && !host.is_empty()
    {
        return Err(format!(
            "-c takes a host alone: write -c {} -p {port}.",
            super::cut(host)
        ));
    }
    if let Some((host, device)) = bare.split_once('%') {
        let link_local = host
            .parse::<Ipv6Addr>()
            .is_ok_and(|address| address.segments()[0] & 0xFFC0 == 0xFE80);
        if !link_local {
            return Err(format!(
                "Binding to the device {} is not supported: give an address of it with -B instead.",
                super::cut(device)
            ));
        }
    }
    Ok(bare.to_owned())
}

/// What stands behind `-B`: an address of this machine.
///
/// # Errors
///
/// A sentence where it names a device too.
pub(super) fn bind_place(text: &str) -> Result<(String, Option<u16>), String> {
    if text.contains('%') {
        return Err(
            "-B with a device (%) is not supported: give an address of it alone.".to_owned(),
        );
    }
    let (address, port) = match text.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((address, port)) => (address, port.strip_prefix(':')),
            None => (text, None),
        },
        None if text.matches(':').count() == 1 => match text.split_once(':') {
            Some((address, port)) => (address, Some(port)),
            None => (text, None),
        },
        None => (text, None),
    };
    let port = match port.map(str::parse) {
        None => None,
        Some(Ok(port)) if port > 0 => Some(port),
        Some(_) => {
            return Err(format!(
                "-B {text}: a source port is a whole number from 1 to 65535, such as 10.0.0.1:6001."
            ));
        }
    };
    Ok((address.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_are_read_as_each_tool_reads_them() {
        use Suffixes::{Binary, ByCase, Decimal};
        for (text, suffixes, expected) in [
            ("100M", ByCase, Some(104_857_600)),
            ("100m", ByCase, Some(100_000_000)),
            ("256k", ByCase, Some(256_000)),
            ("10k", ByCase, Some(10_000)),
            ("1.5K", ByCase, Some(1_536)),
            ("1400", ByCase, Some(1_400)),
            ("100m", Binary, Some(104_857_600)),
            ("256K", Binary, Some(262_144)),
            ("2G", Decimal, Some(2_000_000_000)),
            ("1T", Binary, Some(1 << 40)),
            ("1T", ByCase, None),
            ("128KB", ByCase, Some(131_072)),
            ("1000pps", ByCase, None),
            ("-5", ByCase, None),
            ("", Binary, None),
            ("1e3", Binary, None),
            ("K", Binary, None),
        ] {
            assert_eq!(bytes(text, suffixes), expected, "{text} {suffixes:?}");
        }
        assert_eq!(rate("100M", ByCase), Some(104_857_600.0));
        assert_eq!(rate("100m", ByCase), Some(1e8));
        assert_eq!(rate("100K", ByCase), Some(102_400.0));
        assert_eq!(rate("1G", Decimal), Some(1e9));
        assert_eq!(rate("10Mbps", Decimal), Some(1e7));
        assert_eq!(rate("10m/20", Decimal), None);
        assert_eq!(rate("10m,2m", ByCase), None);
    }

    #[test]
    fn types_of_service_have_names_and_bases() {
        for (text, expected) in [
            ("0x20", Some(0x20)),
            ("052", Some(42)),
            ("8", Some(8)),
            ("0", Some(0)),
            ("ef", Some(0xB8)),
            ("EF", Some(0xB8)),
            ("af11", Some(0x28)),
            ("af43", Some(0x98)),
            ("cs7", Some(0xE0)),
            ("lowdelay", Some(0x10)),
            ("ac_vi", Some(0x80)),
            ("af44", None),
            ("af1", None),
            ("cs8", None),
            ("256", None),
            ("0x100", None),
            ("éf", None),
            ("", None),
        ] {
            assert_eq!(tos(text), expected, "{text}");
        }
        assert_eq!(dscp("46"), Some(0xB8));
        assert_eq!(dscp("ef"), Some(0xB8));
        assert_eq!(dscp("64"), None);
    }

    #[test]
    fn hosts_and_addresses_are_taken_alone() {
        assert_eq!(client_host("[::1]"), Ok("::1".to_owned()));
        assert_eq!(client_host("fe80::1%eth0"), Ok("fe80::1%eth0".to_owned()));
        for (text, words) in [
            ("h:5001", "-c h -p 5001"),
            ("127.0.0.1%lo", "device lo"),
            ("http://h/", "not a URL"),
        ] {
            assert!(client_host(text).unwrap_err().contains(words), "{text}");
        }
        for (text, address, port) in [
            ("10.0.0.1", "10.0.0.1", None),
            ("10.0.0.1:6001", "10.0.0.1", Some(6001)),
            ("[fd00::1]", "fd00::1", None),
            ("[fd00::1]:6001", "fd00::1", Some(6001)),
            ("fd00::1", "fd00::1", None),
        ] {
            assert_eq!(bind_place(text), Ok((address.to_owned(), port)), "{text}");
        }
        for text in ["10.0.0.1:x", "[::1]:0", "10.0.0.1:70000", "10.0.0.1%eth0"] {
            assert!(bind_place(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(size in 1_u64..1 << 50, whole in 1_u64..1_000_000, power in 0_i32..8) {
            for suffixes in [Suffixes::ByCase, Suffixes::Binary] {
                prop_assert_eq!(bytes(&write_bytes(size), suffixes), Some(size));
            }
            let bits = whole as f64 * 10_f64.powi(power);
            for suffixes in [Suffixes::ByCase, Suffixes::Decimal] {
                prop_assert_eq!(rate(&write_rate(bits), suffixes), Some(bits));
            }
        }
    }
}
