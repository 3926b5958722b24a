//! Durations, sizes, rates and shares: read as people write them, printed as reports show them.

use std::time::Duration;

/// Between groups of three digits: a narrow space that does not break the line.
const GROUP: char = '\u{202f}';

/// Milliseconds, fractions kept.
pub fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1_000.0
}

/// Reads a plain finite number such as `7`, `2.5` or `1e3`; no unit, no groups.
///
/// # Errors
///
/// A sentence.
pub fn parse_number(text: &str) -> Result<f64, String> {
    let trimmed = text.trim();
    let starts_well = trimmed
        .trim_start_matches(['-', '+'])
        .starts_with(|c: char| c.is_ascii_digit() || c == '.');
    trimmed
        .parse()
        .ok()
        .filter(|number: &f64| starts_well && number.is_finite())
        .ok_or_else(|| format!("{} is not a number.", quoted(text)))
}

/// Reads a duration with its unit, such as `500ms`, `1.5s`, `10m` or `2h`, into seconds.
///
/// # Errors
///
/// A sentence.
pub fn parse_duration_s(text: &str) -> Result<f64, String> {
    let (number, unit) = number_and_unit(text)?;
    let seconds: f64 = match unit.to_ascii_lowercase().as_str() {
        "ns" => 1e-9,
        "us" | "µs" | "μs" => 1e-6,
        "ms" => 1e-3,
        "s" | "sec" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3_600.0,
        "d" => 86_400.0,
        _ => {
            return Err(format!(
                "{} is not a duration: write one such as 500ms, 1.5s or 10m.",
                quoted(text)
            ));
        }
    };
    // Division keeps 500 ms exactly 0.5 s, where a product with 0.001 would not.
    let duration = if seconds < 1.0 {
        number / (1.0 / seconds).round()
    } else {
        number * seconds
    };
    Some(duration)
        .filter(|duration| duration.is_finite())
        .ok_or_else(|| format!("{} is too long a duration.", quoted(text)))
}

/// Reads a share such as `0.1%` or `0.001`, from 0 to 1.
///
/// # Errors
///
/// A sentence.
pub fn parse_share(text: &str) -> Result<f64, String> {
    let (number, unit) = number_and_unit(text)?;
    let share = match unit {
        "%" => number / 100.0,
        "" => number,
        _ => f64::NAN,
    };
    if (0.0..=1.0).contains(&share) {
        Ok(share)
    } else {
        Err(format!(
            "{} is not a share: write one from 0% to 100%, such as 0.1%.",
            quoted(text)
        ))
    }
}

/// Reads a size as iperf does: `K`, `M` and `G` are powers of 1024, a bare number is bytes.
///
/// # Errors
///
/// A sentence.
pub fn parse_size_bytes(text: &str) -> Result<f64, String> {
    let (number, unit) = number_and_unit(text)?;
    let factor = match unit.trim_end_matches("iB").trim_end_matches('B') {
        "" => 1.0,
        "k" | "K" => 1024.0,
        "m" | "M" => 1024.0 * 1024.0,
        "g" | "G" => 1024.0 * 1024.0 * 1024.0,
        _ => f64::NAN,
    };
    Some(number * factor)
        .filter(|bytes| bytes.is_finite() && *bytes >= 0.0)
        .ok_or_else(|| {
            format!(
                "{} is not a size: write one such as 128K or 1M.",
                quoted(text)
            )
        })
}

/// Reads a rate in bit/s: `K`, `M` and `G` are powers of 1000, with or without `bit/s`.
///
/// # Errors
///
/// A sentence.
pub fn parse_bits_per_second(text: &str) -> Result<f64, String> {
    let (number, unit) = number_and_unit(text)?;
    let factor = match unit.trim_end_matches("bit/s") {
        "" => 1.0,
        "k" | "K" => 1e3,
        "m" | "M" => 1e6,
        "g" | "G" => 1e9,
        "t" | "T" => 1e12,
        _ => f64::NAN,
    };
    Some(number * factor)
        .filter(|rate| rate.is_finite() && *rate >= 0.0)
        .ok_or_else(|| {
            format!(
                "{} is not a rate: write one such as 954Mbit/s.",
                quoted(text)
            )
        })
}

fn number_and_unit(text: &str) -> Result<(f64, &str), String> {
    let trimmed = text.trim();
    let end = trimmed
        .char_indices()
        .find(|(index, c)| {
            !(c.is_ascii_digit() || *c == '.' || (*index == 0 && matches!(c, '+' | '-')))
        })
        .map_or(trimmed.len(), |(index, _)| index);
    let (number, unit) = trimmed.split_at(end);
    let number = parse_number(number).map_err(|_| format!("{} is not a number.", quoted(text)))?;
    Ok((number, unit.trim()))
}

/// A stranger's text, cut and in quotation marks.
fn quoted(text: &str) -> String {
    let short: String = text.chars().filter(|c| !c.is_control()).take(40).collect();
    format!("“{short}”")
}

/// A count with groups of three digits: `10 000` with a narrow space.
pub fn grouped(count: u64) -> String {
    group(&count.to_string())
}

fn group(digits: &str) -> String {
    if digits.len() < 4 {
        return digits.to_owned();
    }
    let mut text = String::with_capacity(digits.len() * 2);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(GROUP);
        }
        text.push(digit);
    }
    text
}

/// A number with three significant digits and grouped thousands: `0.38`, `5.54`, `382`, `11 000`.
pub fn significant(number: f64) -> String {
    if !number.is_finite() {
        return "–".to_owned();
    }
    let size = number.abs();
    let decimals = if size >= 99.95 || size == 0.0 {
        0
    } else if size >= 9.995 {
        1
    } else if size >= 0.9995 {
        2
    } else if size >= 0.09995 {
        3
    } else if size >= 0.009_995 {
        4
    } else {
        5
    };
    let text = format!("{size:.decimals$}");
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let fraction = fraction.trim_end_matches('0');
    let sign = if number < 0.0 && text.bytes().any(|byte| (b'1'..=b'9').contains(&byte)) {
        "−"
    } else {
        ""
    };
    let dot = if fraction.is_empty() { "" } else { "." };
    format!("{sign}{}{dot}{fraction}", group(whole))
}

/// Milliseconds in the unit that suits them: `0.38 ms`, `382 ms`, `1.5 s`, `2 min 34 s`.
pub fn ms_text(milliseconds: f64) -> String {
    if milliseconds.abs() < 1e-2 && milliseconds != 0.0 {
        return format!("{} µs", significant(milliseconds * 1e3));
    }
    if milliseconds.abs() < 999.5 {
        return format!("{} ms", significant(milliseconds));
    }
    seconds_text(milliseconds / 1e3)
}

/// Seconds in the unit that suits them: `382 ms`, `1.5 s`, `154 s`, `1 h 5 min`.
pub fn seconds_text(seconds: f64) -> String {
    if !seconds.is_finite() {
        return "–".to_owned();
    }
    if seconds.abs() < 0.9995 && seconds != 0.0 {
        return ms_text(seconds * 1e3);
    }
    if seconds.abs() < 599.5 {
        return format!("{} s", significant(seconds));
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative; a float too large saturates, and no plan is that long"
    )]
    let whole = seconds.abs().round() as u64;
    let sign = if seconds < 0.0 { "−" } else { "" };
    let (hours, minutes, rest) = (whole / 3_600, whole % 3_600 / 60, whole % 60);
    match (hours, minutes, rest) {
        (0, minutes, 0) => format!("{sign}{minutes} min"),
        (0, minutes, rest) => format!("{sign}{minutes} min {rest} s"),
        (hours, 0, _) => format!("{sign}{hours} h"),
        (hours, minutes, _) => format!("{sign}{hours} h {minutes} min"),
    }
}

/// A rate per second: `5.54/s`.
pub fn per_s_text(rate: f64) -> String {
    format!("{}/s", significant(rate))
}

/// A share as a percentage: `0.1 %`.
pub fn share_text(share: f64) -> String {
    format!("{} %", significant(share * 100.0))
}

/// A rate in bit/s with a decimal prefix: `74.7 Gbit/s`.
pub fn bits_per_second_text(rate: f64) -> String {
    let (number, prefix) = decimal_prefix(rate);
    format!("{} {prefix}bit/s", significant(number))
}

/// A volume with a decimal prefix: `48 MB`.
pub fn bytes_text(bytes: f64) -> String {
    let (number, prefix) = decimal_prefix(bytes);
    format!("{} {prefix}B", significant(number))
}

/// A volume in both counts: `280.2 GB (261.0 GiB)`; small ones in bytes alone.
pub fn volume_text(bytes: f64) -> String {
    let (number, prefix) = decimal_prefix(bytes);
    let power = match prefix {
        "k" => 1024_f64,
        "M" => 1024_f64.powi(2),
        "G" => 1024_f64.powi(3),
        "T" => 1024_f64.powi(4),
        _ => return bytes_text(bytes),
    };
    let binary = if prefix == "k" { "K" } else { prefix };
    format!("{number:.1} {prefix}B ({:.1} {binary}iB)", bytes / power)
}

fn decimal_prefix(number: f64) -> (f64, &'static str) {
    [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")]
        .into_iter()
        .find(|(factor, _)| number.abs() >= factor * 0.9995)
        .map_or((number, ""), |(factor, prefix)| (number / factor, prefix))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_are_read_in_seconds() {
        for (text, expected) in [
            ("500ms", 0.5),
            ("1.5s", 1.5),
            (" 10 m ", 600.0),
            ("2h", 7_200.0),
            ("250us", 0.000_25),
            ("250 µs", 0.000_25),
            ("0.1ms", 0.0001),
            ("3ms", 0.003),
            ("1d", 86_400.0),
        ] {
            let seconds = parse_duration_s(text).unwrap();
            assert!((seconds - expected).abs() < 1e-15, "{text}: {seconds}");
        }
        for text in [
            "", "5", "ms", "1.5.5s", "1e3s", "s5", "5x", "NaNs", "infs", "--5s",
        ] {
            assert!(parse_duration_s(text).unwrap_err().ends_with('.'), "{text}");
        }
    }

    #[test]
    fn shares_sizes_and_rates_are_read() {
        assert_eq!(parse_share("0.1%"), Ok(0.001));
        assert_eq!(parse_share("0.25"), Ok(0.25));
        assert_eq!(parse_share("100 %"), Ok(1.0));
        for text in ["101%", "-1%", "2", "x", "5ms"] {
            assert!(parse_share(text).is_err(), "{text}");
        }
        assert_eq!(parse_size_bytes("128K"), Ok(131_072.0));
        assert_eq!(parse_size_bytes("1MiB"), Ok(1_048_576.0));
        assert_eq!(parse_size_bytes("1470"), Ok(1_470.0));
        assert_eq!(parse_bits_per_second("100m"), Ok(1e8));
        assert_eq!(parse_bits_per_second("1.5 Gbit/s"), Ok(1.5e9));
        assert!(parse_bits_per_second("1 GB").is_err());
        for text in [
            "", "inf", "NaN", "nan", "1e999", "0x10", "1,5", "infinity", "- 5",
        ] {
            assert!(parse_number(text).is_err(), "{text}");
        }
        assert_eq!(parse_number(" -2.5e1 "), Ok(-25.0));
        assert_eq!(parse_number(".5"), Ok(0.5));
    }

    #[test]
    fn numbers_are_printed_with_three_digits_and_groups() {
        for (number, expected) in [
            (0.0, "0"),
            (0.384, "0.384"),
            (5.537, "5.54"),
            (5.0, "5"),
            (9.996, "10"),
            (99.96, "100"),
            (382.4, "382"),
            (999.6, "1\u{202f}000"),
            (11_000.0, "11\u{202f}000"),
            (1_234_567.0, "1\u{202f}234\u{202f}567"),
            (-2.5, "−2.5"),
            (-0.000_000_1, "0"),
            (f64::NAN, "–"),
            (f64::INFINITY, "–"),
        ] {
            assert_eq!(significant(number), expected);
        }
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(10_000), "10\u{202f}000");
    }

    #[test]
    fn times_choose_their_unit() {
        for (milliseconds, expected) in [
            (0.0, "0 ms"),
            (0.0031, "3.1 µs"),
            (0.38, "0.38 ms"),
            (382.0, "382 ms"),
            (1_500.0, "1.5 s"),
            (153_846.0, "154 s"),
            (754_000.0, "12 min 34 s"),
            (3_900_000.0, "1 h 5 min"),
            (86_400_000.0, "24 h"),
        ] {
            assert_eq!(ms_text(milliseconds), expected);
        }
        assert_eq!(seconds_text(0.5), "500 ms");
        assert_eq!(per_s_text(5.537), "5.54/s");
        assert_eq!(share_text(0.001), "0.1 %");
    }

    #[test]
    fn volumes_and_rates_keep_decimal_and_binary_apart() {
        let bytes = 261.0 * 1024_f64.powi(3);
        assert_eq!(volume_text(bytes), "280.2 GB (261.0 GiB)");
        assert_eq!(bits_per_second_text(bytes * 8.0 / 30.0), "74.7 Gbit/s");
        assert_eq!(bytes_text(48e6), "48 MB");
        assert_eq!(bytes_text(999.6), "1 kB");
        assert_eq!(volume_text(12.0), "12 B");
        assert_eq!(volume_text(2048.0), "2.0 kB (2.0 KiB)");
    }

    proptest! {
        #[test]
        fn no_text_or_number_makes_it_panic(text in "\\PC*", number: f64, count: u64) {
            for result in [parse_number(&text), parse_duration_s(&text), parse_share(&text),
                parse_size_bytes(&text), parse_bits_per_second(&text)] {
                prop_assert!(result.is_err() || result.is_ok_and(f64::is_finite));
            }
            for text in [significant(number), ms_text(number), seconds_text(number), bytes_text(number),
                volume_text(number), bits_per_second_text(number), share_text(number)] {
                prop_assert!(!text.contains("NaN"), "{}", text);
            }
            let back: u64 = grouped(count).replace(GROUP, "").parse().unwrap();
            prop_assert_eq!(back, count);
        }
    }
}
