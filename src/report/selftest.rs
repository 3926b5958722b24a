//! A self-test as a table for people and as JSON for scripts.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::measure::selftest::{Bound, Delay, EXACT_MS, KeptSelfTest, SelfTest, Strength};
use crate::measure::summary::Distribution;
use crate::measure::units::{bits_per_second_text, grouped, ms_text};
use crate::measure::verdict::self_test_words;

/// One line of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelfTestRow {
    /// What was measured.
    pub what: String,
    /// What came out; a dash where nothing did.
    pub result: String,
    /// What shows it.
    pub evidence: String,
}

const DASH: &str = "–";

/// The table, in the order in which it was measured.
pub fn self_test_rows(test: &SelfTest) -> Vec<SelfTestRow> {
    let mut rows = vec![
        timer(test),
        strength("New connections", test.new_connections.as_ref()),
        strength("Kept connections", test.kept_connections.as_ref()),
    ];
    rows.extend(test.delays.iter().map(delay));
    rows.extend(tcp(test));
    rows
}

/// The sentence that stands beside reports, as a whole sentence.
pub fn self_test_sentence(test: &SelfTest) -> String {
    let words = self_test_words(test);
    let mut letters = words.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string());
    format!("{}{}.", first.unwrap_or_default(), letters.as_str())
}

/// The whole report as text.
pub fn self_test_text(kept: &KeptSelfTest) -> String {
    let rows = self_test_rows(&kept.figures);
    let width = |of: fn(&SelfTestRow) -> &str| {
        rows.iter()
            .map(|row| of(row).chars().count())
            .max()
            .unwrap_or(0)
    };
    let (what, result) = (width(|row| &row.what), width(|row| &row.result));
    let took = kept
        .finished_at
        .duration_since(kept.started_at)
        .as_secs_f64();
    let mut out = format!(
        "Self-test{} of {}, {}, {took:.1} s\n\n",
        if kept.figures.quick { " (quick)" } else { "" },
        kept.node,
        kept.started_at.strftime("%Y-%m-%d %H:%M:%S UTC"),
    );
    // Writing to a string does not fail.
    for row in &rows {
        let line = format!(
            "{:what$}  {:>result$}  {}",
            row.what, row.result, row.evidence
        );
        let _ = writeln!(out, "{}", line.trim_end());
    }
    for remark in &kept.figures.remarks {
        let _ = writeln!(out, "{remark}");
    }
    let _ = writeln!(out, "\n{}", self_test_sentence(&kept.figures));
    plain(&out)
}

/// Everything as JSON: what stands beside reports first, then every figure.
pub fn self_test_json(kept: &KeptSelfTest) -> Value {
    let test = &kept.figures;
    let mut record = json!({
        "id": kept.id,
        "node": kept.node,
        "started_at": kept.started_at,
        "finished_at": kept.finished_at,
        "sentence": plain(&self_test_sentence(test)),
        "exact_to_ms": test.exact_to_ms(),
        "new_connections_per_s": test.new_per_s(),
        "kept_connections_per_s": test.kept_per_s(),
        "loopback_bits_per_second": test.loopback_bits_per_second(),
    });
    if let (Value::Object(record), Ok(Value::Object(figures))) =
        (&mut record, serde_json::to_value(test))
    {
        record.extend(figures);
    }
    if let Some(delays) = record.get_mut("delays").and_then(Value::as_array_mut) {
        for (shown, delay) in delays.iter_mut().zip(&test.delays) {
            shown["error_ms"] = json!(delay.error_ms());
        }
    }
    record
}

fn timer(test: &SelfTest) -> SelfTestRow {
    let (result, evidence) = match &test.timer {
        None => (DASH.to_owned(), String::new()),
        Some(timer) => {
            let late = &timer.lateness_ms;
            (
                late.p99.map_or_else(|| DASH.to_owned(), ms_text),
                format!(
                    "of {} sends, {} a second, 99 in 100 are not later; half not later than {}, the latest {}",
                    grouped(late.count),
                    per_s(timer.rate_per_s),
                    shown(late.median),
                    shown(late.max)
                ),
            )
        }
    };
    SelfTestRow {
        what: "Timer on a perfect grid".to_owned(),
        result,
        evidence,
    }
}

fn strength(what: &str, strength: Option<&Strength>) -> SelfTestRow {
    let Some(strength) = strength else {
        return SelfTestRow {
            what: what.to_owned(),
            result: DASH.to_owned(),
            evidence: String::new(),
        };
    };
    let refused = strength
        .steps
        .iter()
        .filter(|step| !step.passed)
        .min_by(|a, b| a.rate_per_s.total_cmp(&b.rate_per_s));
    let evidence = match (strength.ended_by, strength.highest_per_s, refused) {
        (Bound::Generator, None, Some(step)) => {
            format!(
                "not even {}/s was sent on schedule: {}",
                per_s(step.rate_per_s),
                fault(step.lateness_p99_ms, step.failed)
            )
        }
        (Bound::Generator, Some(held), _) => {
            // The lowest rate above it that failed twice.
            let next = strength
                .steps
                .iter()
                .filter(|step| !step.passed && step.rate_per_s > held)
                .min_by(|a, b| a.rate_per_s.total_cmp(&b.rate_per_s));
            next.map_or_else(String::new, |step| {
                format!(
                    "all answered, and 99 in 100 sends within {}; at {}/s {}",
                    ms_text(EXACT_MS),
                    per_s(step.rate_per_s),
                    fault(step.lateness_p99_ms, step.failed)
                )
            })
        }
        (Bound::HighestTried, ..) => "no higher rate was tried".to_owned(),
        (Bound::Time, ..) => "the time was up before a higher rate had failed twice".to_owned(),
        (Bound::Generator, None, None) => String::new(),
    };
    SelfTestRow {
        what: what.to_owned(),
        result: strength
            .highest_per_s
            .map_or_else(|| DASH.to_owned(), |rate| format!("{}/s", per_s(rate))),
        evidence,
    }
}

/// What was wrong with a step.
fn fault(late: Option<f64>, failed: u64) -> String {
    match (failed, late) {
        (0, Some(late)) => format!("1 in 100 was {} late", ms_text(late)),
        (0, None) => "nothing was sent".to_owned(),
        (failed, _) => format!("{} were not answered", grouped(failed)),
    }
}

fn delay(delay: &Delay) -> SelfTestRow {
    SelfTestRow {
        what: format!("Known delay of {}", ms_text(delay.asked_ms)),
        result: shown(delay.measured_ms),
        evidence: match delay.error_ms() {
            Some(error) => format!(
                "the server's log says {}: {}{} off, median of {}",
                shown(delay.held_ms),
                if error < 0.0 { "−" } else { "+" },
                ms_text(error.abs()),
                grouped(delay.replies)
            ),
            None => "no reply".to_owned(),
        },
    }
}

fn tcp(test: &SelfTest) -> Vec<SelfTestRow> {
    let rate = test.loopback_bits_per_second();
    let mut rows = vec![SelfTestRow {
        what: "Loopback TCP, one stream".to_owned(),
        result: rate.map_or_else(|| DASH.to_owned(), bits_per_second_text),
        evidence: match rate {
            Some(_) => "sender and receiver on this machine".to_owned(),
            None => String::new(),
        },
    }];
    if let Some(tcp) = &test.tcp {
        rows.push(SelfTestRow {
            what: "Round trip beside it".to_owned(),
            result: shown(tcp.rtt_loaded_ms.median),
            evidence: format!(
                "median under load; {} before it{}",
                shown(tcp.rtt_idle_ms.median),
                tail(&tcp.rtt_loaded_ms)
            ),
        });
    }
    rows
}

fn tail(times: &Distribution) -> String {
    times
        .max
        .map_or_else(String::new, |max| format!(", at most {}", ms_text(max)))
}

fn shown(ms: Option<f64>) -> String {
    ms.map_or_else(|| DASH.to_owned(), ms_text)
}

fn per_s(rate: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "rates are not negative and far below the range"
    )]
    let rate = rate.round() as u64;
    grouped(rate)
}

/// Without the spaces that only pages need.
fn plain(text: &str) -> String {
    text.replace(['\u{a0}', '\u{202f}'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::selftest::StrengthStep;

    fn step(rate_per_s: f64, late: f64, passed: bool) -> StrengthStep {
        StrengthStep {
            rate_per_s,
            lateness_p99_ms: Some(late),
            failed: 0,
            passed,
        }
    }

    fn kept() -> KeptSelfTest {
        let at = |text: &str| text.parse().unwrap();
        KeptSelfTest {
            id: 3,
            node: "eu-a".to_owned(),
            started_at: at("2026-12-01T10:00:00Z"),
            finished_at: at("2026-12-01T10:00:24.5Z"),
            figures: SelfTest {
                new_connections: Some(Strength {
                    highest_per_s: Some(8_000.0),
                    ended_by: Bound::Generator,
                    steps: vec![
                        step(8_000.0, 0.4, true),
                        step(16_000.0, 7.0, false),
                        step(11_000.0, 1.9, false),
                    ],
                }),
                delays: vec![Delay {
                    asked_ms: 10.0,
                    held_ms: Some(10.05),
                    measured_ms: Some(10.17),
                    replies: 100,
                }],
                remarks: vec!["Loopback TCP: no thread".to_owned()],
                ..SelfTest::default()
            },
        }
    }

    #[test]
    fn the_table_says_what_shows_each_figure_and_what_is_missing() {
        let text = self_test_text(&kept());
        for words in [
            "Self-test of eu-a, 2026-12-01 10:00:00 UTC, 24.5 s",
            "at 11 000/s 1 in 100 was 1.9 ms late",
            "8 000/s",
            "the server's log says 10.1 ms: +0.12 ms off, median of 100",
            "Loopback TCP: no thread",
            "How exact this generator is was not measured; it is strong enough for 8 000 connections/s.",
        ] {
            assert!(text.contains(words), "{words:?} is missing in\n{text}");
        }
        assert!(
            text.lines()
                .any(|line| line.starts_with("Timer") && line.ends_with(DASH))
        );
    }

    #[test]
    fn the_json_has_null_for_what_was_not_measured() {
        let json = self_test_json(&kept());
        assert_eq!(json["exact_to_ms"], Value::Null);
        assert_eq!(json["new_connections_per_s"], 8_000.0);
        assert_eq!(json["new_connections"]["ended_by"], "generator");
        assert!((json["delays"][0]["error_ms"].as_f64().unwrap() - 0.12).abs() < 1e-9);
        assert_eq!(json["kept_connections"], Value::Null);
    }
}
