//! The numbers of a tool's text, found without the parser under test, and where they are in what was read.

use std::collections::BTreeSet;

use serde_json::Value;
use tidemark::measure::fold::Closed;
use tidemark::measure::plan::Plan;
use tidemark::report::import::Import;

/// A number of the text.
#[derive(Clone, Debug, PartialEq)]
pub struct Printed {
    pub line: usize,
    pub text: String,
    /// What it can be in units of ours, each with half of its last digit.
    pub may_be: Vec<(f64, f64)>,
    /// Whether it is a port, which may stand in an address.
    pub port: bool,
}

/// Every number of the text that is a figure: no address, name, version, date or command line.
pub fn numbers(text: &str) -> Vec<Printed> {
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line_number = index + 1;
        let trimmed = line.trim();
        let skipped = ["$ ", "httperf --", "rc=", "exit ", "** SIEGE"];
        if skipped.iter().any(|begins| trimmed.starts_with(begins)) {
            continue;
        }
        let cells: Vec<&str> = trimmed.split(',').collect();
        if cells.len() >= 9 && cells[0].len() == 14 && cells[0].bytes().all(|b| b.is_ascii_digit())
        {
            for place in [2, 4, 7, 8, 9, 10, 11, 12, 13] {
                if let Some(cell) = cells.get(place).filter(|cell| !cell.is_empty()) {
                    let mut one = tokens(line_number, cell);
                    for number in &mut one {
                        number.port = place < 5;
                    }
                    found.extend(one);
                }
            }
            let times = cells[6].replace('-', " ");
            found.extend(tokens(line_number, &times));
            continue;
        }
        found.extend(tokens(line_number, &without_names(trimmed)));
    }
    found
}

/// The line without what looks like a number and is none.
fn without_names(line: &str) -> String {
    // The colours of a terminal.
    let mut parts = line.split('\u{1b}');
    let first = parts.next().unwrap_or_default().to_owned();
    let mut line = parts.fold(first, |line, part| {
        line + part.split_once('m').map_or("", |(_, rest)| rest)
    });
    if line.starts_with('[') || line.starts_with("(null)") {
        while let Some(rest) = line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            line = rest.1.to_owned();
        }
    }
    if let Some((before, _)) = line.split_once(" on 20") {
        line = before.to_owned();
    }
    if let Some((before, rest)) = line.split_once("(peer ") {
        line = format!(
            "{before}{}",
            rest.split_once(')').map_or("", |(_, rest)| rest)
        );
    }
    if let Some((before, _)) = line.split_once(" (test #") {
        line = before.to_owned();
    }
    let words = line.split(' ').map(|word| {
        let bare = word.trim_matches(['(', ')', ',', ':', '-']);
        let address = bare.split('%').next().unwrap_or(bare);
        let is_name = address.parse::<std::net::IpAddr>().is_ok()
            || bare.starts_with("0x")
            || word.contains("::1(");
        if is_name { "" } else { word }
    });
    let line: Vec<&str> = words.collect();
    let mut line = line.join(" ");
    for class in ["1xx=", "2xx=", "3xx=", "4xx=", "5xx="] {
        line = line.replace(class, "xx=");
    }
    line.replace("HTTP/1.1", "")
        .replace("HTTP/1.0", "")
        .replace("BB8(f)", "")
        .replace("(3WHS)", "")
        .replace("*10^6 bps", " Mbps")
        .replace(" - - ", " ")
}

const UNITS: [(&str, &[f64]); 26] = [
    ("TBytes", &[1_099_511_627_776.0]),
    ("GBytes/sec", &[8.0 * 1_073_741_824.0]),
    ("MBytes/sec", &[8.0 * 1_048_576.0]),
    ("KBytes/sec", &[8.0 * 1024.0]),
    ("GBytes", &[1_073_741_824.0]),
    ("MBytes", &[1_048_576.0]),
    ("MByte", &[1_048_576.0]),
    ("KBytes", &[1024.0]),
    ("KByte", &[1024.0]),
    ("Bytes", &[1.0]),
    ("Byte", &[1.0]),
    ("Tbits/sec", &[1e12]),
    ("Gbits/sec", &[1e9]),
    ("Mbits/sec", &[1e6]),
    ("Kbits/sec", &[1e3]),
    ("bits/sec", &[1.0]),
    ("Mbps", &[1e6]),
    ("MB/sec", &[1_048_576.0]),
    ("MB", &[1_048_576.0]),
    ("KB/s", &[1024.0]),
    ("K/", &[1024.0]),
    ("us", &[1.0, 1e-3]),
    ("secs", &[1.0, 1e3]),
    ("ms", &[1.0, 1e-3]),
    ("Mbit/s", &[1e6, 1.0]),
    ("(", &[1.0, 1e-3]),
];

fn tokens(line: usize, text: &str) -> Vec<Printed> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let starts =
            bytes[at].is_ascii_digit() && (at == 0 || !bytes[at - 1].is_ascii_alphanumeric());
        if !starts {
            at += 1;
            continue;
        }
        let start = at;
        while at < bytes.len()
            && (bytes[at].is_ascii_digit()
                || (bytes[at] == b'.' && bytes.get(at + 1).is_some_and(u8::is_ascii_digit)))
        {
            at += 1;
        }
        if bytes.get(at) == Some(&b'e') && bytes.get(at + 1) == Some(&b'+') {
            at += 2;
            while at < bytes.len() && bytes[at].is_ascii_digit() {
                at += 1;
            }
        }
        let digits = &text[start..at];
        let Ok(value) = digits.parse::<f64>() else {
            continue; // An address or a version in the middle of words.
        };
        let places = digits
            .split_once('.')
            .map_or(0, |(_, places)| i32::try_from(places.len()).unwrap());
        let half = if digits.contains('e') {
            50.0
        } else {
            0.5 * 10_f64.powi(-places)
        };
        let rest = text[at..].trim_start();
        let unit = UNITS.iter().find(|(unit, _)| rest.starts_with(unit));
        let factors = unit.map_or(&[1.0][..], |(_, factors)| factors);
        let mut may_be: Vec<(f64, f64)> = factors
            .iter()
            .map(|factor| (value * factor, half * factor))
            .collect();
        // A round-trip time in µs between other columns.
        may_be.push((value / 1e3, half / 1e3));
        may_be.push((value, half));
        if at > 1 && bytes[start.saturating_sub(1)] == b'-' && start > 1 && bytes[start - 2] == b' '
        {
            may_be.push((-value, half));
        }
        found.push(Printed {
            line,
            text: text[start.saturating_sub(12)..(at + 12).min(text.len())].to_owned(),
            may_be,
            port: text[..start].trim_end().ends_with("port"),
        });
    }
    found
}

/// Every number that was read, and every text.
pub struct Read {
    numbers: Vec<f64>,
    texts: BTreeSet<String>,
}

impl Read {
    pub fn of(imports: &[Import]) -> Self {
        let mut read = Self {
            numbers: Vec::new(),
            texts: BTreeSet::new(),
        };
        for import in imports {
            read.walk(&serde_json::to_value(&import.summary).unwrap());
            read.walk(&Plan::Imported(import.plan.clone()).to_json());
            for row in &import.rows {
                match row {
                    Closed::Flow(row) => read.walk(&serde_json::to_value(row).unwrap()),
                    Closed::Echo(row) => read.walk(&serde_json::to_value(row).unwrap()),
                    Closed::Second(_) => {}
                }
            }
        }
        read.numbers.sort_by(f64::total_cmp);
        read
    }

    fn walk(&mut self, value: &Value) {
        match value {
            Value::Number(number) => self.numbers.push(number.as_f64().unwrap()),
            Value::String(text) => {
                self.texts.insert(text.clone());
            }
            Value::Array(parts) => parts.iter().for_each(|part| self.walk(part)),
            Value::Object(parts) => parts.values().for_each(|part| self.walk(part)),
            _ => {}
        }
    }

    /// Whether this number of the text is among what was read.
    pub fn holds(&self, printed: &Printed) -> bool {
        let near = |(value, half): &(f64, f64)| {
            // What is kept is the printed figure itself, not one that would be rounded to it.
            let room = (half * 0.02).max(value.abs() * 1e-9).max(1e-9)
                + if *half >= 5.0 { 0.51 } else { 0.0 };
            let from = self.numbers.partition_point(|known| *known < value - room);
            self.numbers
                .get(from)
                .is_some_and(|known| *known <= value + room)
        };
        if printed.may_be.iter().any(near) {
            return true;
        }
        let value = printed.may_be.last().unwrap().0;
        printed.port
            && self
                .texts
                .iter()
                .any(|text| text.ends_with(&format!(":{value}")))
    }
}
