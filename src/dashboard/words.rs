//! How figures and times are written on the pages: one unit, three digits, no-break spaces, a dash for what was not measured.

use jiff::Timestamp;

use crate::measure::units;

/// Stands where nothing was measured.
pub const DASH: &str = "–";

/// A number and its unit, apart, so that a page can set the unit smaller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Measure {
    /// The number, or a dash.
    pub number: String,
    /// The unit; empty for bare counts.
    pub unit: &'static str,
}

impl Measure {
    /// What stands where nothing was measured.
    pub fn missing() -> Self {
        Self {
            number: DASH.to_owned(),
            unit: "",
        }
    }

    /// A bare count.
    pub fn count(count: u64) -> Self {
        Self {
            number: self::count(count),
            unit: "",
        }
    }

    /// Milliseconds, shown in µs, ms or s.
    pub fn ms(value: Option<f64>) -> Self {
        let Some(value) = value.filter(|value| value.is_finite()) else {
            return Self::missing();
        };
        let (number, unit) = if value >= 1000.0 {
            (digits(value / 1000.0), "s")
        } else if value >= 0.1 || value == 0.0 {
            (digits(value), "ms")
        } else {
            (digits(value * 1000.0), "µs")
        };
        Self { number, unit }
    }

    /// A rate of requests.
    pub fn per_s(value: Option<f64>) -> Self {
        match value.filter(|value| value.is_finite()) {
            Some(value) => Self {
                number: digits(value),
                unit: "req/s",
            },
            None => Self::missing(),
        }
    }

    /// A rate of bits with a decimal prefix.
    pub fn bits(value: Option<f64>) -> Self {
        let Some(value) = value.filter(|value| value.is_finite() && *value >= 0.0) else {
            return Self::missing();
        };
        let (factor, unit) = bits_unit(value);
        Self {
            number: digits(value / factor),
            unit,
        }
    }

    /// A volume with a decimal prefix.
    pub fn volume(bytes: Option<u64>) -> Self {
        let Some(bytes) = bytes.map(|bytes| bytes as f64) else {
            return Self::missing();
        };
        let (factor, unit) = [(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")]
            .into_iter()
            .find(|(factor, _)| bytes >= factor * 0.9995)
            .unwrap_or((1.0, "bytes"));
        Self {
            number: digits(bytes / factor),
            unit,
        }
    }

    /// A share from 0 to 1 in percent.
    pub fn share(value: Option<f64>) -> Self {
        match value.filter(|value| value.is_finite()) {
            Some(value) => Self {
                number: digits(value * 100.0),
                unit: "%",
            },
            None => Self::missing(),
        }
    }

    /// Number and unit with a no-break space between them.
    pub fn text(&self) -> String {
        if self.unit.is_empty() {
            self.number.clone()
        } else {
            format!("{}\u{a0}{}", self.number, self.unit)
        }
    }
}

/// Milliseconds in words, such as `412 ms`.
pub fn ms(value: Option<f64>) -> String {
    Measure::ms(value).text()
}

/// Requests per second in words, such as `10.7 req/s`.
pub fn per_s(value: Option<f64>) -> String {
    Measure::per_s(value).text()
}

/// A rate of bits in words, such as `74.9 Gbit/s`.
pub fn bits(value: Option<f64>) -> String {
    Measure::bits(value).text()
}

/// The unit that suits a rate of bits, and its factor.
pub fn bits_unit(value: f64) -> (f64, &'static str) {
    [
        (1e12, "Tbit/s"),
        (1e9, "Gbit/s"),
        (1e6, "Mbit/s"),
        (1e3, "kbit/s"),
    ]
    .into_iter()
    .find(|(factor, _)| value >= factor * 0.9995)
    .unwrap_or((1.0, "bit/s"))
}

/// A volume in both counts: `280.2 GB (261.0 GiB)`.
pub fn volume(bytes: u64) -> String {
    unbroken(&units::volume_text(bytes as f64)).replace("\u{a0}(", " (")
}

/// A volume in powers of 1024 alone: `261.0 GiB`; empty for less than 1000 bytes.
pub fn binary(bytes: u64) -> String {
    let text = volume(bytes);
    text.split_once('(').map_or_else(String::new, |(_, rest)| {
        rest.trim_end_matches(')').to_owned()
    })
}

/// A share from 0 to 1 in words, such as `99.9 %`.
pub fn share(value: f64) -> String {
    unbroken(&units::share_text(value))
}

/// The same text with spaces that do not break the line.
pub fn unbroken(text: &str) -> String {
    text.replace(' ', "\u{a0}")
}

/// A count with its digits in groups of three, from five digits up or always: `2 000`.
pub fn count(count: u64) -> String {
    group(&count.to_string())
}

/// Three significant digits, grouped, without an exponent.
pub fn digits(value: f64) -> String {
    let size = value.abs();
    let places = if size >= 99.95 || size == 0.0 {
        0
    } else if size >= 9.995 {
        1
    } else if size >= 0.0995 {
        2
    } else {
        3
    };
    let text = format!("{value:.places$}");
    match text.split_once('.') {
        Some((whole, part)) => format!("{}.{part}", group(whole)),
        None => group(&text),
    }
}

/// A number on a scale: as short as it may be.
pub fn digits_short(value: f64) -> String {
    let text = digits(value);
    match text.split_once('.') {
        Some((whole, part)) => match part.trim_end_matches('0') {
            "" => whole.to_owned(),
            part => format!("{whole}.{part}"),
        },
        None => text,
    }
}

/// A number as a person would type it: no needless zeros, no groups.
pub fn plain(value: f64) -> String {
    format!("{value}")
}

fn group(whole: &str) -> String {
    let (sign, figures) = match whole.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", whole),
    };
    let mut out = String::from(sign);
    for (index, figure) in figures.chars().enumerate() {
        if index > 0 && (figures.len() - index) % 3 == 0 {
            out.push('\u{202f}');
        }
        out.push(figure);
    }
    out
}

/// `part` of `whole` in percent; never `0 %` for something, never `100 %` for not quite all.
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return DASH.to_owned();
    }
    let share = part as f64 / whole as f64 * 100.0;
    let text = if part > 0 && share < 0.1 {
        "< 0.1".to_owned()
    } else if part < whole && share > 99.9 {
        "> 99.9".to_owned()
    } else if part == 0 || part == whole {
        format!("{share:.0}")
    } else {
        format!("{share:.1}")
    };
    format!("{}\u{a0}%", text.replace(' ', "\u{a0}"))
}

/// Seconds in words: `0.41 s`, `27 s`, `2 min 44 s`, `1 h 5 min`.
pub fn seconds(value: f64) -> String {
    if !value.is_finite() || value < 0.0 {
        return DASH.to_owned();
    }
    if value < 1.0 {
        return ms(Some(value * 1000.0));
    }
    if value < 120.0 {
        let text = format!("{value:.1}");
        return format!("{}\u{a0}s", text.strip_suffix(".0").unwrap_or(&text));
    }
    let whole = value.round();
    let (hours, rest) = ((whole / 3600.0).floor(), whole % 3600.0);
    let (minutes, left) = ((rest / 60.0).floor(), rest % 60.0);
    if hours > 0.0 && minutes == 0.0 {
        format!("{hours:.0}\u{a0}h")
    } else if hours == 0.0 && left == 0.0 {
        format!("{minutes:.0}\u{a0}min")
    } else if hours > 0.0 {
        format!("{hours:.0}\u{a0}h {minutes:.0}\u{a0}min")
    } else {
        format!("{minutes:.0}\u{a0}min {left:.0}\u{a0}s")
    }
}

/// Bytes in decimal units, such as `48 MB`.
pub fn bytes(value: f64) -> String {
    let (number, unit) = match value {
        v if v >= 1e9 => (v / 1e9, "GB"),
        v if v >= 1e6 => (v / 1e6, "MB"),
        v if v >= 1e3 => (v / 1e3, "kB"),
        v => (v, "bytes"),
    };
    if unit == "bytes" {
        format!("{number:.0}\u{a0}bytes")
    } else {
        format!("{}\u{a0}{unit}", digits(number))
    }
}

/// A wall-clock time for people: `2026-11-30 17:44:35 UTC`.
pub fn when(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S\u{a0}UTC").to_string()
}

/// The same for machines: RFC 3339 in UTC, whole milliseconds.
pub fn machine_time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

/// `1 run` or `3 runs`.
pub fn plural(number: u64, one: &str, many: &str) -> String {
    format!(
        "{}\u{a0}{}",
        count(number),
        if number == 1 { one } else { many }
    )
}

/// A piece of a sentence; names that came from outside stand in `<bdi>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The text, not escaped.
    pub text: String,
    /// Whether it is a name.
    pub name: bool,
}

/// Cuts a sentence at the names that it mentions; longer names win over shorter ones inside them.
pub fn pieces(sentence: &str, names: &[&str]) -> Vec<Piece> {
    let mut names: Vec<&str> = names
        .iter()
        .copied()
        .filter(|name| !name.is_empty())
        .collect();
    names.sort_by_key(|name| std::cmp::Reverse(name.len()));
    let mut out = Vec::new();
    let mut rest = sentence;
    while !rest.is_empty() {
        let next = names
            .iter()
            .filter_map(|name| rest.find(name).map(|at| (at, *name)))
            .min_by_key(|(at, name)| (*at, std::cmp::Reverse(name.len())));
        let Some((at, name)) = next else { break };
        if at > 0 {
            out.push(piece(&rest[..at], false));
        }
        out.push(piece(name, true));
        rest = &rest[at + name.len()..];
    }
    if !rest.is_empty() {
        out.push(piece(rest, false));
    }
    out
}

fn piece(text: &str, name: bool) -> Piece {
    Piece {
        text: text.to_owned(),
        name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits_and_one_unit() {
        let cases = [
            (0.0, "0 ms"),
            (0.000_5, "0.50 µs"),
            (0.05, "50.0 µs"),
            (0.26, "0.26 ms"),
            (9.999, "10.0 ms"),
            (412.3, "412 ms"),
            (1_234.0, "1.23 s"),
            (163_800.0, "164 s"),
        ];
        for (value, expected) in cases {
            assert_eq!(ms(Some(value)).replace('\u{a0}', " "), expected, "{value}");
        }
        assert_eq!(ms(None), DASH);
        assert_eq!(ms(Some(f64::NAN)), DASH);
        assert_eq!(per_s(Some(12_345.6)), "12\u{202f}346\u{a0}req/s");
    }

    #[test]
    fn rates_are_decimal_and_volumes_say_both_counts() {
        let plain = |text: String| text.replace('\u{a0}', " ");
        for (value, expected) in [
            (0.0, "0 bit/s"),
            (999.6, "1.00 kbit/s"),
            (1_048_576.0, "1.05 Mbit/s"),
            (74.91e9, "74.9 Gbit/s"),
            (1.2e12, "1.20 Tbit/s"),
        ] {
            assert_eq!(plain(bits(Some(value))), expected);
        }
        assert_eq!(bits(None), DASH);
        assert_eq!(bits(Some(f64::NAN)), DASH);
        let bytes = 261 << 30;
        assert_eq!(plain(volume(bytes)), "280.2 GB (261.0 GiB)");
        assert_eq!(plain(binary(bytes)), "261.0 GiB");
        assert_eq!(plain(Measure::volume(Some(bytes)).text()), "280 GB");
        assert_eq!(Measure::volume(None).text(), DASH);
        assert_eq!(
            (plain(volume(12)), binary(12)),
            ("12 B".to_owned(), String::new())
        );
    }

    #[test]
    fn a_share_is_never_rounded_to_nothing_or_all() {
        assert_eq!(percent(1, 100_000), "<\u{a0}0.1\u{a0}%");
        assert_eq!(percent(99_999, 100_000), ">\u{a0}99.9\u{a0}%");
        assert_eq!(percent(0, 10), "0\u{a0}%");
        assert_eq!(percent(10, 10), "100\u{a0}%");
        assert_eq!(percent(350, 2000), "17.5\u{a0}%");
        assert_eq!(percent(0, 0), DASH);
    }

    #[test]
    fn durations_read_as_people_say_them() {
        for (value, expected) in [
            (0.41, "410 ms"),
            (27.0, "27 s"),
            (153.8, "2 min 34 s"),
            (120.0, "2 min"),
            (3_600.0, "1 h"),
            (3_900.0, "1 h 5 min"),
            (f64::INFINITY, DASH),
        ] {
            assert_eq!(seconds(value).replace('\u{a0}', " "), expected);
        }
    }

    #[test]
    fn names_are_cut_out_of_sentences() {
        let cut = pieces("web-a3 beats web-a", &["web-a", "web-a3", ""]);
        assert_eq!(
            cut,
            [
                piece("web-a3", true),
                piece(" beats ", false),
                piece("web-a", true)
            ]
        );
        assert_eq!(pieces("", &["x"]), []);
    }

    #[test]
    fn times_are_utc_and_say_so() {
        let at: Timestamp = "2026-11-30T17:44:35.1239Z".parse().unwrap();
        assert_eq!(when(at), "2026-11-30 17:44:35\u{a0}UTC");
        assert_eq!(machine_time(at), "2026-11-30T17:44:35.123Z");
    }
}
