//! Figures as titles show them: never parted from their unit at the end of a line.

use url::Url;

use crate::measure::units;

/// Between a figure and its unit.
const NO_BREAK: &str = "\u{a0}";

/// Names longer than this are replaced in titles.
const LONGEST_NAME: usize = 32;

/// The longest title, in characters.
const LONGEST_TITLE: usize = 100;

/// A count, its digits grouped.
pub(in crate::measure) fn count(n: u64) -> String {
    units::grouped(n)
}

/// A count with the word for one or for several: `1 request`, `2 requests`.
pub(in crate::measure) fn counted(n: u64, one: &str, several: &str) -> String {
    let word = if n == 1 { one } else { several };
    format!("{}{NO_BREAK}{word}", count(n))
}

/// A time in ms with a fitting unit.
pub(in crate::measure) fn time(ms: f64) -> String {
    whole(&units::ms_text(ms))
}

/// A time in s with a fitting unit.
pub(in crate::measure) fn seconds(s: f64) -> String {
    whole(&units::seconds_text(s))
}

/// An instant of a run: tenths of a second only near its start.
pub(in crate::measure) fn instant(s: f64) -> String {
    let digits = if s >= 20.0 {
        s.round()
    } else {
        (s * 10.0).round() / 10.0
    };
    format!("{}{NO_BREAK}s", units::significant(digits))
}

/// A rate of requests.
pub(in crate::measure) fn rate(per_s: f64) -> String {
    format!("{}{NO_BREAK}req/s", units::significant(per_s))
}

/// A rate of bits.
pub(in crate::measure) fn bits(per_s: f64) -> String {
    whole(&units::bits_per_second_text(per_s))
}

/// A size in bytes with a decimal prefix.
pub(in crate::measure) fn bytes(n: u64) -> String {
    whole(&units::bytes_text(n as f64))
}

/// Names in a row: `1, 2 and 3`, cut after six.
pub(in crate::measure) fn listed(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] if names.len() <= 6 => format!("{} and {last}", first.join(", ")),
        _ => format!("{} and {} more", names[..5].join(", "), names.len() - 5),
    }
}

/// A share from 0 to 1 as a percentage; what is not quite all or quite nothing is not shown as that.
pub(in crate::measure) fn percent(share: f64) -> String {
    if share > 0.999 && share < 1.0 {
        format!(">{NO_BREAK}99.9{NO_BREAK}%")
    } else if share > 0.0 && share < 0.000_1 {
        format!("<{NO_BREAK}0.01{NO_BREAK}%")
    } else {
        whole(&units::share_text(share))
    }
}

fn whole(text: &str) -> String {
    text.replace(' ', NO_BREAK)
}

/// Host and port (where it is not the scheme's own) for a title; `fallback` for a name too long for one.
pub(in crate::measure) fn host(url: &Url, fallback: &str) -> String {
    let host = url.host_str().unwrap_or_default();
    let name = match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    };
    short(&name, fallback)
}

/// A name, or the fallback where it is empty or too long for a title.
pub(in crate::measure) fn short(name: &str, fallback: &str) -> String {
    if name.is_empty() || name.chars().count() > LONGEST_NAME || name.chars().any(char::is_control)
    {
        fallback.to_owned()
    } else {
        name.to_owned()
    }
}

/// The first of these that fits into a title.
pub(in crate::measure) fn first_that_fits(
    titles: impl IntoIterator<Item = String>,
    neutral: &str,
) -> String {
    titles
        .into_iter()
        .find(|title| title.chars().count() <= LONGEST_TITLE)
        .unwrap_or_else(|| neutral.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_keep_their_unit() {
        let plain = |text: String| text.replace(['\u{a0}', '\u{202f}'], " ");
        for (found, expected) in [
            (time(412.34), "412 ms"),
            (time(0.2604), "0.26 ms"),
            (time(1049.6), "1.05 s"),
            (time(10_000.0), "10 s"),
            (instant(74.2), "74 s"),
            (instant(4.0), "4 s"),
            (instant(12.44), "12.4 s"),
            (instant(0.0), "0 s"),
            (rate(13.0), "13 req/s"),
            (rate(9.706), "9.71 req/s"),
            (percent(0.175), "17.5 %"),
            (percent(0.9996), "> 99.9 %"),
            (percent(1.0), "100 %"),
            (percent(0.000_01), "< 0.01 %"),
            (count(2_000), "2 000"),
            (counted(1, "request", "requests"), "1 request"),
        ] {
            assert_eq!(plain(found), expected);
        }
        assert!(!seconds(90.0).contains(' ') && !counted(5, "a", "b").contains(' '));
    }

    #[test]
    fn the_schemes_own_port_is_not_named() {
        let url = |text: &str| Url::parse(text).unwrap();
        assert_eq!(host(&url("http://web-lb:80/x"), "the target"), "web-lb");
        assert_eq!(host(&url("http://[::1]:8000/"), "the target"), "[::1]:8000");
        let long = format!("http://{}.example/", "a".repeat(60));
        assert_eq!(host(&url(&long), "the target"), "the target");
    }
}
