//! Words and numbers in charts: cleaned, escaped, measured, and printed with their units.

/// Space inside a number and between a number and its unit: narrow, and never broken.
pub(crate) const NARROW: char = '\u{202f}';

/// A name from outside, fit for XML and for a label: no control, direction or illegal characters, at most 64 glyphs.
pub fn clean(text: &str) -> String {
    shorten(text, 64)
}

/// A name for places that are tighter still.
pub(crate) fn shorten(text: &str, glyphs: usize) -> String {
    let mut kept: Vec<char> = text
        .chars()
        .map(|letter| if letter.is_whitespace() { ' ' } else { letter })
        .filter(|letter| is_drawable(*letter))
        .take(glyphs + 1)
        .collect();
    if kept.len() > glyphs {
        kept.truncate(glyphs.saturating_sub(1));
        kept.push('…');
    }
    kept.into_iter().collect()
}

/// Whether XML allows the character and it shows as itself: not a control, a direction mark, a joiner or an unassigned end of a plane.
fn is_drawable(letter: char) -> bool {
    !letter.is_control()
        && !matches!(letter as u32,
            0xfff0..=0xffff | 0x200b..=0x200f | 0x2028..=0x202e | 0x2060..=0x206f | 0xfeff | 0xe0000..=0xe0fff)
        && (letter as u32) & 0xfffe != 0xfffe
}

/// Text inside an element or an attribute. Control characters are dropped here once more, so that nothing can break the XML.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            NARROW => out.push(NARROW),
            letter if is_drawable(letter) => out.push(letter),
            _ => {}
        }
    }
    out
}

/// Estimated width in px of text at this font size; a little too wide rather than too narrow.
pub(crate) fn width(text: &str, size: f64) -> f64 {
    let ems: f64 = text
        .chars()
        .map(|letter| match letter {
            'i' | 'j' | 'l' | 't' | 'f' | 'r' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' | ' '
            | '(' | ')' | '[' | ']' | '-' | '/' => 0.32,
            NARROW => 0.22,
            'm' | 'w' | 'M' | 'W' | '@' | '%' | '…' | '≥' | '✕' => 0.92,
            'A'..='Z' | '&' => 0.70,
            letter if (letter as u32) < 0x1100 => 0.575,
            _ => 1.05,
        })
        .sum();
    ems * size
}

/// Breaks text into lines of at most this width.
pub(crate) fn wrap(text: &str, size: f64, most: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if width(line, size) + width(word, size) + size * 0.3 <= most => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// A count with its digits in groups.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + 8);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(NARROW);
        }
        out.push(digit);
    }
    out
}

/// A number with its noun: `1 request`, `20 requests`.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    let end = if number == 1 { "" } else { "s" };
    format!("{} {noun}{end}", count(number))
}

/// Three significant digits, without zeros at the end of a whole number.
pub(crate) fn figure(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    let size = value.abs();
    if size >= 999.5 {
        let whole = count(whole(size));
        return if value < 0.0 {
            format!("−{whole}")
        } else {
            whole
        };
    }
    let decimals = if size >= 99.95 {
        0
    } else if size >= 9.995 {
        1
    } else {
        2
    };
    let text = format!("{value:.decimals$}");
    match text.split_once('.') {
        Some((whole, rest)) if rest.bytes().all(|digit| digit == b'0') => whole.to_owned(),
        _ => text,
    }
}

/// A time given in ms, in the unit that suits it.
pub(crate) fn ms(value: f64) -> String {
    if !value.is_finite() {
        "–".to_owned()
    } else if value >= 999.5 {
        format!("{}{NARROW}s", figure(value / 1000.0))
    } else if value >= 0.0995 || value == 0.0 {
        format!("{}{NARROW}ms", figure(value))
    } else {
        format!("{}{NARROW}µs", figure(value * 1000.0))
    }
}

/// A time given in s.
pub(crate) fn seconds(value: f64) -> String {
    if value >= 1.0 {
        let text = format!("{value:.1}");
        let text = text.strip_suffix(".0").unwrap_or(&text);
        format!("{text}{NARROW}s")
    } else {
        ms(value * 1000.0)
    }
}

/// A rate per second.
pub(crate) fn rate(value: f64) -> String {
    if value.is_finite() && (1.0..99.95).contains(&value) {
        format!("{value:.1}")
    } else {
        figure(value)
    }
}

/// A share as per cent; never "100 %" for less than all, nor "0 %" for more than none.
pub(crate) fn percent(share: f64) -> String {
    let value = share * 100.0;
    if !value.is_finite() {
        return "–".to_owned();
    }
    let text = if value > 99.5 && value < 100.0 {
        format!("{:.2}", value.min(99.99))
    } else if value >= 9.95 || value == 0.0 {
        format!("{value:.0}")
    } else if value >= 0.1 {
        format!("{value:.1}")
    } else {
        "< 0.1".to_owned()
    };
    format!("{text}{NARROW}%")
}

/// A float that is a count, as one.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to what a u64 holds exactly in a float"
)]
pub(crate) fn whole(value: f64) -> u64 {
    if value.is_finite() {
        value.round().clamp(0.0, 9e15) as u64
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_carry_their_units_and_group_their_digits() {
        let plain = |text: String| text.replace(NARROW, " ");
        for (value, expected) in [
            (0.0, "0 ms"),
            (0.0421, "42.1 µs"),
            (0.26, "0.26 ms"),
            (412.4, "412 ms"),
            (999.7, "1 s"),
            (1340.0, "1.34 s"),
            (10_000.0, "10 s"),
            (f64::NAN, "–"),
        ] {
            assert_eq!(plain(ms(value)), expected, "{value}");
        }
        assert_eq!(plain(count(1_000_000)), "1 000 000");
        assert_eq!(plain(percent(0.175)), "18 %");
        assert_eq!(plain(percent(0.999_99)), "99.99 %");
        assert_eq!(plain(rate(13.0)), "13.0");
        assert_eq!(plain(seconds(12.4)), "12.4 s");
    }

    #[test]
    fn names_lose_what_xml_forbids_and_are_cut() {
        assert_eq!(clean("a\u{0}b\u{1b}[2J\u{202e}c\u{fffe}"), "ab[2Jc");
        assert_eq!(clean(&"x".repeat(100)).chars().count(), 64);
        assert_eq!(clean("Zürich-東京"), "Zürich-東京");
        assert_eq!(escape("a\u{1}<&\">'"), "a&lt;&amp;&quot;&gt;&#39;");
    }
}
