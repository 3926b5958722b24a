//! The belief strip: may these figures be believed? Failed checks first, those that do not apply last.

use crate::measure::run::{Check, Severity};

/// The strip between the finding and the figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Belief {
    /// Class of the strip: empty, `warn_` or `bad_`.
    pub class: &'static str,
    /// Class of the mark.
    pub mark_class: &'static str,
    /// The mark.
    pub mark: &'static str,
    /// Yes, with a reservation, or no.
    pub head: String,
    /// Why.
    pub text: String,
    /// Every check.
    pub checks: Vec<Line>,
}

/// One check as it stands in the strip.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Class of the mark.
    pub class: &'static str,
    /// The mark.
    pub mark: &'static str,
    /// What it is called.
    pub name: String,
    /// The evidence.
    pub detail: String,
}

/// The strip for these checks; `None` when there are none.
pub fn belief(checks: &[Check]) -> Option<Belief> {
    if checks.is_empty() {
        return None;
    }
    let mut sorted: Vec<&Check> = checks.iter().collect();
    sorted.sort_by_key(|check| rank(check));
    let failed: Vec<&&Check> = sorted.iter().filter(|check| rank(check) == 0).collect();
    let reserved: Vec<&&Check> = sorted.iter().filter(|check| rank(check) == 1).collect();
    let passed = checks.iter().filter(|check| check.ok == Some(true)).count();
    let (class, mark_class, mark, head, text) = if let Some(first) = failed.first() {
        let head = format!("No: {}", trouble(&first.name));
        ("bad_", "bad", "✕", head, sentence(&first.detail))
    } else if let Some(first) = reserved.first() {
        let head = match reserved.len() {
            1 => "With one reservation".to_owned(),
            more => format!("With {more} reservations"),
        };
        ("warn_", "warn", "!", head, sentence(&first.detail))
    } else {
        let text = match passed {
            1 => "The one check that applies passed.".to_owned(),
            all => format!("All {all} checks that apply passed."),
        };
        ("", "ok", "✓", "Yes, this can be believed".to_owned(), text)
    };
    Some(Belief {
        class,
        mark_class,
        mark,
        head,
        text,
        checks: sorted.into_iter().map(line).collect(),
    })
}

fn rank(check: &Check) -> u8 {
    match (check.ok, check.severity) {
        (Some(false), Severity::Fail) => 0,
        (Some(false), Severity::Warn) => 1,
        (Some(true), _) => 2,
        (None, _) => 3,
    }
}

fn line(check: &Check) -> Line {
    let (class, mark) = match rank(check) {
        0 => ("bad", "✕"),
        1 => ("warn", "!"),
        2 => ("ok", "✓"),
        _ => ("na", "–"),
    };
    Line {
        class,
        mark,
        name: name(check),
        detail: check.detail.clone(),
    }
}

fn name(check: &Check) -> String {
    let missed = check.ok == Some(false);
    match check.name.as_str() {
        "on_schedule" if missed => "Not on schedule",
        "on_schedule" => "On schedule",
        "generator_not_limited" if missed => "Generator was the limit",
        "generator_not_limited" => "Generator not the limit",
        "sums_agree" if missed => "Sums do not agree",
        "sums_agree" => "Sums agree",
        "rates_agree" if missed => "Rates do not agree",
        "rates_agree" => "Rates agree",
        "counts_agree" if missed => "Counts do not agree",
        "counts_agree" => "Counts agree",
        "order_agrees" if missed => "Averages out of range",
        "order_agrees" => "Averages within range",
        "times_agree" if missed => "Statistics do not agree",
        "times_agree" => "Statistics agree",
        "littles_law" if missed => "Little’s law does not hold",
        "littles_law" => "Little’s law holds",
        "lines_understood" => "Lines not understood",
        "ends_agree" => "Both ends agree",
        "clock_steady" if missed => "Clock stepped",
        "clock_steady" => "Clock steady",
        "streams_overlap" => "Streams overlap",
        "not_shared_host" if missed => "Not another machine",
        "not_shared_host" => "Another machine",
        "complete" if missed => "Not complete",
        "complete" => "Complete",
        "selftest" if missed => "Beyond the self-test",
        "selftest" => "By the self-test",
        other => return other.replace('_', " "),
    }
    .to_owned()
}

fn trouble(name: &str) -> String {
    match name {
        "on_schedule" => "requests were sent late",
        "generator_not_limited" => "the generator was the limit",
        "sums_agree" => "the sums do not agree",
        "rates_agree" => "its rates do not follow from its counts and times",
        "counts_agree" => "its counts do not add up",
        "order_agrees" => "an average is out of its range",
        "times_agree" => "its statistics are not those of its packets",
        "littles_law" => "rate, time and concurrency do not fit",
        "ends_agree" => "the two ends do not agree",
        "clock_steady" => "the clock stepped",
        "streams_overlap" => "the streams did not run together",
        "not_shared_host" => "target and generator share a machine",
        "complete" => "it is not complete",
        other => return other.replace('_', " "),
    }
    .to_owned()
}

/// With a capital letter and a full stop.
pub(super) fn sentence(text: &str) -> String {
    let mut letters = text.trim().chars();
    let Some(first) = letters.next() else {
        return String::new();
    };
    let mut out: String = first.to_uppercase().chain(letters).collect();
    if !out.ends_with(['.', '!', '?']) {
        out.push('.');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, ok: Option<bool>, severity: Severity) -> Check {
        Check {
            name: name.to_owned(),
            ok,
            severity,
            detail: format!("about {name}"),
        }
    }

    #[test]
    fn a_failed_check_makes_no_the_first_word_and_comes_first() {
        let strip = belief(&[
            check("sums_agree", Some(true), Severity::Fail),
            check("streams_overlap", None, Severity::Warn),
            check("not_shared_host", Some(false), Severity::Warn),
            check("on_schedule", Some(false), Severity::Fail),
        ])
        .unwrap();
        assert!(strip.head.starts_with("No:"));
        assert_eq!(strip.class, "bad_");
        let marks: Vec<&str> = strip.checks.iter().map(|line| line.mark).collect();
        assert_eq!(marks, ["✕", "!", "✓", "–"]);
    }

    #[test]
    fn a_warning_is_a_reservation_and_nothing_is_no_strip() {
        let strip = belief(&[check("not_shared_host", Some(false), Severity::Warn)]).unwrap();
        assert_eq!(strip.head, "With one reservation");
        assert_eq!(strip.text, "About not_shared_host.");
        assert_eq!(belief(&[]), None);
    }
}
