//! Figures as iperf 2 and 3 print them: transfers in powers of 1024, rates in powers of 1000, three digits.

/// How figures are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Units {
    /// The letter of `-f`; `None` = each figure in the unit that suits it.
    letter: Option<char>,
    tool: Tool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tool {
    /// `-f` holds for transfers and rates.
    Iperf2,
    /// `-f` holds for rates.
    Iperf3,
}

const PREFIXES: [&str; 5] = ["", "K", "M", "G", "T"];

impl Units {
    pub(super) const fn iperf2(letter: Option<char>) -> Self {
        let tool = Tool::Iperf2;
        Self { letter, tool }
    }

    pub(super) const fn iperf3(letter: Option<char>) -> Self {
        let tool = Tool::Iperf3;
        Self { letter, tool }
    }

    /// A volume, such as ` 137 KBytes`; four characters wide at least.
    pub(super) fn transfer(self, bytes: u64) -> String {
        let letter = self.letter.filter(|_| self.tool == Tool::Iperf2);
        let (number, prefix) = scaled(bytes as f64, 1024.0, letter);
        format!("{} {prefix}Bytes", self.digits(number))
    }

    /// A socket buffer, such as ` 208 KByte`.
    pub(super) fn buffer(self, bytes: u64) -> String {
        let (number, prefix) = scaled(bytes as f64, 1024.0, None);
        format!("{} {prefix}Byte", self.digits(number))
    }

    /// A rate, such as `1.07 Mbits/sec`, or `0.12 MBytes/sec` with a capital letter; four characters wide at least.
    pub(super) fn rate(self, bits_per_second: f64) -> String {
        let in_bytes = self
            .letter
            .is_some_and(|letter| letter.is_ascii_uppercase());
        if in_bytes {
            let (number, prefix) = scaled(bits_per_second / 8.0, 1024.0, self.letter);
            format!("{} {prefix}Bytes/sec", self.digits(number))
        } else {
            let (number, prefix) = scaled(bits_per_second, 1000.0, self.letter);
            format!("{} {prefix}bits/sec", self.digits(number))
        }
    }

    fn digits(self, number: f64) -> String {
        let decimals = match number {
            _ if number < 0.9995 && self.tool == Tool::Iperf2 => 3,
            _ if number < 9.995 => 2,
            _ if number < 99.95 => 1,
            _ => 0,
        };
        format!("{number:4.decimals$}")
    }
}

/// The number in the letter's unit, or in the largest one of which there is a whole; with that unit's prefix.
fn scaled(number: f64, base: f64, letter: Option<char>) -> (f64, &'static str) {
    // A figure that does not exist is never handed in; one that is not finite would make readers stumble.
    let number = if number.is_finite() {
        number.max(0.0)
    } else {
        0.0
    };
    let fixed = letter.and_then(|letter| {
        let letter = letter.to_ascii_uppercase().to_string();
        let bare = letter == "B";
        PREFIXES
            .iter()
            .position(|prefix| bare && prefix.is_empty() || *prefix == letter)
    });
    let power = fixed.unwrap_or_else(|| {
        let mut rest = number;
        let mut power = 0;
        while rest >= base && power + 1 < PREFIXES.len() {
            rest /= base;
            power += 1;
        }
        power
    });
    let mut scaled = number;
    for _ in 0..power {
        scaled /= base;
    }
    (scaled, PREFIXES[power])
}

/// A share in percent with two digits, as C's `%.2g` prints it, but never with an exponent: `0`, `0.035`, `2.2`, `12`, `100`.
pub(super) fn percent(percent: f64) -> String {
    if !percent.is_finite() || percent <= 0.0 {
        return "0".to_owned();
    }
    let decimals = [9.95, 0.995, 0.0995, 0.009_95, 0.000_995]
        .iter()
        .position(|edge| percent >= *edge)
        .unwrap_or(5);
    let text = format!("{percent:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Each as iperf 2.1.8 prints it (`byte_snprintf` in its `stdio.c`), tried with the program where it can be made to.
    #[test]
    fn rates_are_decimal_and_transfers_binary() {
        let units = Units::iperf2(None);
        for (bits, expected) in [
            (0.0, "0.000 bits/sec"),
            (0.9994, "0.999 bits/sec"),
            (0.9996, "1.00 bits/sec"),
            (999.4, " 999 bits/sec"),
            (999.6, "1000 bits/sec"),
            (1e3, "1.00 Kbits/sec"),
            (9_994.0, "9.99 Kbits/sec"),
            (9_996.0, "10.0 Kbits/sec"),
            (99_940.0, "99.9 Kbits/sec"),
            (99_960.0, " 100 Kbits/sec"),
            (999.4e3, " 999 Kbits/sec"),
            (999.6e3, "1000 Kbits/sec"),
            (1_048_576.0, "1.05 Mbits/sec"),
            (9.994e6, "9.99 Mbits/sec"),
            (9.996e6, "10.0 Mbits/sec"),
            (1e9, "1.00 Gbits/sec"),
            (1_073_741_824.0, "1.07 Gbits/sec"),
            (74.7e9, "74.7 Gbits/sec"),
            (1e12, "1.00 Tbits/sec"),
            (3e15, "3000 Tbits/sec"),
            (f64::NAN, "0.000 bits/sec"),
            (f64::INFINITY, "0.000 bits/sec"),
        ] {
            assert_eq!(units.rate(bits), expected, "{bits}");
        }
        for (bytes, expected) in [
            (0, "0.000 Bytes"),
            (60, "60.0 Bytes"),
            (1_023, "1023 Bytes"),
            (1_024, "1.00 KBytes"),
            (50_060, "48.9 KBytes"),
            (262_204, " 256 KBytes"),
            (1_023_590, "1000 KBytes"),
            (1_000_000_000, " 954 MBytes"),
            (1 << 30, "1.00 GBytes"),
            (280_246_616_064, " 261 GBytes"),
        ] {
            assert_eq!(units.transfer(bytes), expected, "{bytes}");
        }
        assert_eq!(units.buffer(212_992), " 208 KByte");
        assert_eq!(units.buffer(16_384), "16.0 KByte");
    }

    #[test]
    fn a_letter_fixes_the_unit() {
        for (letter, transfer, rate) in [
            ('b', "262204 Bytes", "5923573 bits/sec"),
            ('k', " 256 KBytes", "5924 Kbits/sec"),
            ('m', "0.250 MBytes", "5.92 Mbits/sec"),
            ('g', "0.000 GBytes", "0.006 Gbits/sec"),
            ('a', " 256 KBytes", "5.92 Mbits/sec"),
            ('B', "262204 Bytes", "740447 Bytes/sec"),
            ('K', " 256 KBytes", " 723 KBytes/sec"),
            ('M', "0.250 MBytes", "0.706 MBytes/sec"),
            ('G', "0.000 GBytes", "0.001 GBytes/sec"),
            ('A', " 256 KBytes", " 723 KBytes/sec"),
        ] {
            let units = Units::iperf2(Some(letter));
            assert_eq!(units.transfer(262_204), transfer, "{letter}");
            assert_eq!(units.rate(5_923_573.0), rate, "{letter}");
        }
        for (letter, rate) in [
            ('k', "1048 Kbits/sec"),
            ('K', " 128 KBytes/sec"),
            ('m', "1.05 Mbits/sec"),
            ('M', "0.12 MBytes/sec"),
            ('g', "0.00 Gbits/sec"),
            ('T', "0.00 TBytes/sec"),
        ] {
            let units = Units::iperf3(Some(letter));
            assert_eq!(units.transfer(131_072), " 128 KBytes", "{letter}");
            assert_eq!(units.rate(1_048_408.0), rate, "{letter}");
        }
        assert_eq!(Units::iperf3(None).transfer(0), "0.00 Bytes");
    }

    #[test]
    fn shares_have_two_digits() {
        for (share, expected) in [
            (0.0, "0"),
            (0.0119, "0.012"),
            (0.035, "0.035"),
            (0.07, "0.07"),
            (0.11, "0.11"),
            (2.174, "2.2"),
            (4.167, "4.2"),
            (9.96, "10"),
            (50.0, "50"),
            (99.7, "100"),
            (100.0, "100"),
            (f64::NAN, "0"),
        ] {
            assert_eq!(percent(share), expected, "{share}");
        }
    }

    proptest! {
        #[test]
        fn every_figure_reads_back_within_rounding(bits in 0.0_f64..1e15) {
            let text = Units::iperf2(None).rate(bits);
            let mut words = text.split_whitespace();
            let number: f64 = words.next().unwrap().parse().unwrap();
            let factor = match words.next().unwrap() {
                "bits/sec" => 1.0,
                "Kbits/sec" => 1e3,
                "Mbits/sec" => 1e6,
                "Gbits/sec" => 1e9,
                _ => 1e12,
            };
            prop_assert!((number * factor - bits).abs() <= bits * 0.006 + 0.0006, "{}", text);
        }
    }
}
