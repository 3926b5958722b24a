//! Numbers in the texts of tools: each with how far it is rounded, its unit, and the words that name it.

/// A printed number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Number {
    /// Its value; not finite where the tool printed `nan` or `inf`.
    pub(super) value: f64,
    /// Half a unit of its last digit: the true value lies within this.
    pub(super) half: f64,
}

impl Number {
    /// The value, where there is one.
    pub(super) fn figure(self) -> Option<f64> {
        self.value.is_finite().then_some(self.value)
    }

    /// The value as a count, where it is one.
    pub(super) fn count(self) -> Option<u64> {
        whole(self.value)
    }

    /// The same in another unit.
    pub(super) fn times(self, factor: f64) -> Self {
        Self {
            value: self.value * factor,
            half: self.half * factor,
        }
    }
}

/// A value that is not negative as the nearest whole number.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "between 0 and the largest value that is accepted"
)]
pub(super) fn whole(value: f64) -> Option<u64> {
    (0.0..=LARGEST)
        .contains(&value)
        .then(|| value.round() as u64)
}

/// Larger numbers are refused: no tool measures them.
pub(super) const LARGEST: f64 = 1e18;

/// What is left of a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scan<'a> {
    pub(super) rest: &'a str,
}

impl<'a> Scan<'a> {
    pub(super) const fn new(text: &'a str) -> Self {
        Self { rest: text }
    }

    /// Passes over blanks.
    pub(super) fn blanks(&mut self) {
        self.rest = self.rest.trim_start();
    }

    /// Takes exactly these characters; without them nothing.
    pub(super) fn eat(&mut self, text: &str) -> bool {
        self.rest
            .strip_prefix(text)
            .inspect(|rest| self.rest = rest)
            .is_some()
    }

    /// Takes blanks and then exactly these characters; without them nothing.
    pub(super) fn then(&mut self, text: &str) -> bool {
        let mut ahead = *self;
        ahead.blanks();
        let found = ahead.eat(text);
        if found {
            *self = ahead;
        }
        found
    }

    /// Takes a number after blanks: `1.03`, `1e+02`, `-nan`, `inf`; nothing where there is none or it is beyond use.
    pub(super) fn number(&mut self) -> Option<Number> {
        let mut ahead = *self;
        ahead.blanks();
        for (word, value) in [
            ("-nan", f64::NAN),
            ("nan", f64::NAN),
            ("inf", f64::INFINITY),
        ] {
            if ahead.eat(word) {
                *self = ahead;
                return Some(Number { value, half: 0.0 });
            }
        }
        let text = ahead.rest;
        let length = number_length(text)?;
        let value: f64 = text[..length].parse().ok()?;
        if value.abs() > LARGEST {
            return None;
        }
        ahead.rest = &text[length..];
        *self = ahead;
        let digits = &text[..length];
        let (mantissa, power) = digits
            .split_once(['e', 'E'])
            .map_or((digits, 0), |(mantissa, power)| {
                (mantissa, power.parse().unwrap_or(0))
            });
        let places = mantissa
            .split_once('.')
            .map_or(0, |(_, places)| i32::try_from(places.len()).unwrap_or(0));
        Some(Number {
            value,
            half: 0.5 * 10.0_f64.powi(power - places),
        })
    }

    /// Takes a word after blanks.
    pub(super) fn word(&mut self) -> Option<&'a str> {
        self.blanks();
        let end = self
            .rest
            .find(char::is_whitespace)
            .unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        (!word.is_empty()).then_some(word)
    }

    /// Takes a number and its unit of bytes: `1.03 GBytes`, `208 KByte`, `60.0 Bytes`.
    pub(super) fn bytes(&mut self) -> Option<Number> {
        let mut ahead = *self;
        let number = ahead.number()?;
        let unit = ahead.word()?;
        let prefix = unit
            .strip_suffix("Bytes")
            .or_else(|| unit.strip_suffix("Byte"))?;
        *self = ahead;
        Some(number.times(1024.0_f64.powi(power(prefix)?)))
    }

    /// Takes a rate in bit/s: `884 Mbits/sec`, `2390 MBytes/sec`.
    pub(super) fn rate(&mut self) -> Option<Number> {
        let mut ahead = *self;
        let number = ahead.number()?;
        let unit = ahead.word()?;
        let factor = match (
            unit.strip_suffix("bits/sec"),
            unit.strip_suffix("Bytes/sec"),
        ) {
            (Some(prefix), _) => 1000.0_f64.powi(power(prefix)?),
            (_, Some(prefix)) => 8.0 * 1024.0_f64.powi(power(prefix)?),
            _ => return None,
        };
        *self = ahead;
        Some(number.times(factor))
    }
}

/// Which power of 1000 or 1024 a prefix stands for.
fn power(prefix: &str) -> Option<i32> {
    let place = ["", "K", "M", "G", "T", "P"]
        .iter()
        .position(|known| *known == prefix)?;
    i32::try_from(place).ok()
}

/// How many bytes at the start are a number; `None` where it begins with none.
fn number_length(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let digits = |mut at: usize| {
        while bytes.get(at).is_some_and(u8::is_ascii_digit) {
            at += 1;
        }
        at
    };
    let start = usize::from(matches!(bytes.first(), Some(b'-' | b'+')));
    let mut end = digits(start);
    if end == start {
        return None;
    }
    if bytes.get(end) == Some(&b'.') && bytes.get(end + 1).is_some_and(u8::is_ascii_digit) {
        end = digits(end + 1);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let signed = end + 1 + usize::from(matches!(bytes.get(end + 1), Some(b'-' | b'+')));
        let power = digits(signed);
        if power > signed {
            end = power;
        }
    }
    Some(end)
}

/// The numbers of a line, each under the words before it: `TOS set to 0x0` gives nothing, `MSS size 536 bytes` gives
/// `mss_size`, `icwnd/mss/irtt=319/32741/28` gives three.
pub(super) fn named_numbers(line: &str) -> Vec<(String, f64)> {
    let mut found: Vec<(String, f64)> = Vec::new();
    let mut words: Vec<&str> = Vec::new();
    let bytes = line.as_bytes();
    let mut at = 0;
    // Where the names of a row like `a/b/c=1/2/3` are, and how many of its numbers were taken.
    let mut row: Option<(Vec<&str>, usize)> = None;
    while at < bytes.len() {
        let here = bytes[at];
        if here.is_ascii_digit()
            && let Some(length) = number_length(&line[at..])
        {
            let end = at + length;
            let hex = here == b'0' && bytes.get(end).is_some_and(|x| *x == b'x');
            if hex {
                at = end + 1;
                while bytes.get(at).is_some_and(u8::is_ascii_hexdigit) {
                    at += 1;
                }
                continue;
            }
            if let Ok(value) = line[at..end].parse::<f64>()
                && value <= LARGEST
            {
                let negative = at > 0
                    && bytes[at - 1] == b'-'
                    && (at < 2 || bytes[at - 2] == b' ' || bytes[at - 2] == b'=');
                let value = if negative { -value } else { value };
                let name = match &mut row {
                    Some((names, taken)) if *taken < names.len() => {
                        *taken += 1;
                        names[*taken - 1].to_owned()
                    }
                    // `4 flows` is named by what follows, `with pid 7` by what stands before.
                    _ if words.is_empty() => word_at(&line[end..]).to_owned(),
                    _ => words[words.len().saturating_sub(3)..].join("_"),
                };
                words.clear();
                found.push((unique(&found, &name), value));
            }
            at = end;
            if bytes.get(at) != Some(&b'/') {
                row = None;
            }
            continue;
        }
        if is_word(here) {
            let start = at;
            while at < bytes.len()
                && (is_word(bytes[at]) || bytes[at].is_ascii_digit() || bytes[at] == b'/')
            {
                at += 1;
            }
            let word = line[start..at].trim_end_matches('/');
            let names: Vec<&str> = word.split('/').collect();
            let opens =
                matches!(bytes.get(at), Some(b'=')) || matches!(bytes.get(at..at + 2), Some(b" ="));
            if names.len() > 1 && opens {
                row = Some((names, 0));
            } else {
                row = None;
                words.extend(names);
            }
            continue;
        }
        if matches!(here, b',' | b';') {
            words.clear();
        }
        at += 1;
    }
    found
}

/// The word with which a text begins, behind blanks.
fn word_at(text: &str) -> &str {
    let text = text.trim_start();
    let end = text
        .bytes()
        .position(|byte| !is_word(byte))
        .unwrap_or(text.len());
    &text[..end]
}

const fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte == b'%'
}

/// A name in small letters that is not taken yet.
fn unique(taken: &[(String, f64)], name: &str) -> String {
    let name: String = name
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_lowercase()
            } else {
                '_'
            }
        })
        .take(60)
        .collect();
    let name = name.trim_matches('_');
    let name = if name.is_empty() { "figure" } else { name };
    let is_free = |name: &str| taken.iter().all(|(known, _)| known != name);
    if is_free(name) {
        return name.to_owned();
    }
    (2..=taken.len() + 2)
        .map(|number| format!("{name}_{number}"))
        .find(|name| is_free(name))
        .unwrap_or_else(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_know_their_rounding() {
        for (text, value, half) in [
            ("1.03 ", 1.03, 0.005),
            (" 884", 884.0, 0.5),
            ("1e+02%", 100.0, 50.0),
            ("-0.000", 0.0, 0.0005),
            ("2147483605 ", 2_147_483_605.0, 0.5),
        ] {
            let number = Scan::new(text).number().unwrap();
            assert!((number.value - value).abs() < 1e-12, "{text}");
            assert!((number.half - half).abs() < 1e-12, "{text}");
        }
        for none in ["", "x", ".5", "-", "1e400", "9".repeat(400).as_str()] {
            assert_eq!(Scan::new(none).number(), None, "{none}");
        }
        assert_eq!(Scan::new("-nan bits").number().unwrap().figure(), None);
        assert_eq!(Scan::new("inf%").number().unwrap().count(), None);
    }

    #[test]
    fn units_are_the_tools_own() {
        let bytes = |text| Scan::new(text).bytes().map(|n| n.value);
        assert_eq!(bytes("1.00 KBytes"), Some(1024.0));
        assert_eq!(bytes(" 208 KByte (default)"), Some(212_992.0));
        assert_eq!(bytes("60.0 Bytes"), Some(60.0));
        assert_eq!(bytes("60.0 Lytes"), None);
        let rate = |text| Scan::new(text).rate().map(|n| n.value);
        assert_eq!(rate("74.9 Gbits/sec"), Some(74.9e9));
        assert_eq!(rate("1 MBytes/sec"), Some(8_388_608.0));
        assert_eq!(rate("5 sec"), None);
    }

    #[test]
    fn each_number_of_a_line_has_a_name() {
        let names = |line: &str| {
            named_numbers(line)
                .into_iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect::<Vec<_>>()
        };
        assert_eq!(names("MSS size 536 bytes"), ["mss_size=536"]);
        assert_eq!(
            names("(icwnd/mss/irtt=319/32741/28) (ct=0.07 ms)"),
            ["icwnd=319", "mss=32741", "irtt=28", "ct=0.07"]
        );
        assert_eq!(
            names("Clock sync check (ms): RTT/Half=(1.752/0.876)"),
            ["rtt=1.752", "half=0.876"]
        );
        assert_eq!(names("TOS set to 0x0 (Nagle on)"), [""; 0]);
        assert_eq!(names("a 1, a 2"), ["a=1", "a_2=2"]);
        assert_eq!(
            names("with pid 11172 (4 flows)"),
            ["with_pid=11172", "flows=4"]
        );
        assert_eq!(names("\u{0}é<b>7"), ["b=7"]);
    }
}
