//! Do the figures of a test of streams agree: intervals with totals, streams with their sum, rates with bytes and
//! times, both ends with each other?

use super::agree::{Agreement, exact, product, quotient, sum};
use super::flow::{Draft, FlowRow, Of};
use super::flow_figures::{Totals, totals};
use super::scan::Number;
use crate::measure::flow::Way;
use crate::measure::run::{Check, Severity};
use crate::measure::units::{bits_per_second_text, grouped, volume_text};

/// The checks that apply.
pub(super) fn checks(draft: &Draft) -> Vec<Check> {
    let mut checks = Vec::new();
    checks.extend(sums(draft).check(
        "sums_agree",
        "Intervals add up to totals, and streams to their sums.",
    ));
    checks.extend(rates(draft).check(
        "rates_agree",
        "Each rate is its bytes over its time, as far as they are rounded.",
    ));
    checks.extend(ends(draft).check(
        "ends_agree",
        "What was received is no more than what was sent.",
    ));
    checks.extend(datagrams(draft).check(
        "counts_agree",
        "Lost datagrams, all datagrams and percentages agree.",
    ));
    if draft.rows.iter().any(|row| !row.total) {
        let complete = draft.rows.iter().any(|row| row.total);
        checks.push(Check {
            name: "complete".to_owned(),
            ok: Some(complete),
            severity: Severity::Warn,
            detail: if complete {
                "The text has intervals and totals.".to_owned()
            } else {
                "The text ends before the totals: it holds intervals alone.".to_owned()
            },
        });
    }
    checks
}

fn volume(number: Number) -> String {
    volume_text(number.value)
}

/// Intervals of each stream against its total, streams against sums of the same time.
fn sums(draft: &Draft) -> Agreement {
    let mut agreement = Agreement::default();
    for (index, stream) in draft.streams.iter().enumerate() {
        let of = Of::Stream(index);
        let Some(total) = own_total(draft, of, stream.way) else {
            continue;
        };
        intervals(
            draft,
            of,
            stream.way,
            total,
            &format!("stream {}", stream.label),
            &mut agreement,
        );
    }
    for way in [Some(Way::Send), Some(Way::Receive), None] {
        let Some(total) = own_total(draft, Of::Sum, way) else {
            continue;
        };
        intervals(draft, Of::Sum, way, total, "the sum", &mut agreement);
        // The last streams of a test in turn are not in the first one's sum.
        if draft.in_turn && way.is_none() {
            continue;
        }
        let parts: Vec<Number> = draft
            .streams
            .iter()
            .enumerate()
            .filter(|(_, stream)| way.is_none() || stream.way == way)
            .filter_map(|(index, stream)| own_total(draft, Of::Stream(index), stream.way)?.bytes)
            .collect();
        if parts.len() > 1
            && let Some(printed) = total.bytes
        {
            let added = sum(parts.iter().copied());
            agreement.same(added, printed, 0.0, || {
                format!(
                    "the {} streams add up to {}, their sum says {} (line {})",
                    parts.len(),
                    volume(added),
                    volume(printed),
                    total.line
                )
            });
        }
    }
    agreement
}

/// The total that stands beside intervals: the printing end's own.
fn own_total(draft: &Draft, of: Of, way: Option<Way>) -> Option<&FlowRow> {
    let Totals { sender, receiver } = totals(draft, of, way);
    if way == Some(Way::Receive) {
        receiver.or(sender)
    } else {
        sender.or(receiver)
    }
}

fn intervals(
    draft: &Draft,
    of: Of,
    way: Option<Way>,
    total: &FlowRow,
    whose: &str,
    agreement: &mut Agreement,
) {
    let rows: Vec<&FlowRow> = draft
        .rows_of((of, way))
        .filter(|row| !row.total && !row.omitted)
        .collect();
    let parts: Vec<Number> = rows.iter().filter_map(|row| row.bytes).collect();
    let covers_s: f64 = rows
        .iter()
        .map(|row| row.end_s.value - row.start_s.value)
        .sum();
    let Some(printed) = total.bytes else {
        return;
    };
    // A text that begins or ends in the middle has not all intervals.
    let whole = total.end_s.value - total.start_s.value;
    if parts.is_empty() || covers_s + 0.6 < whole {
        return;
    }
    let added = sum(parts.into_iter());
    // What was under way when the last interval ended belongs to the total alone.
    let late = (whole + total.end_s.half - covers_s).max(0.0);
    let tail = late / whole.max(1e-9) + 0.01;
    agreement.same(added, printed, tail, || {
        format!(
            "the intervals of {whose} add up to {}, its total says {} (line {})",
            volume(added),
            volume(printed),
            total.line
        )
    });
}

/// Each rate against bytes and time of its line.
fn rates(draft: &Draft) -> Agreement {
    let mut agreement = Agreement::default();
    for row in &draft.rows {
        let (Some(bytes), Some(rate)) = (row.bytes, row.rate) else {
            continue;
        };
        let length = Number {
            value: row.end_s.value - row.start_s.value,
            half: row.end_s.half + row.start_s.half,
        };
        // Too short a time is rounded away.
        if length.value < length.half * 20.0 || length.value < 0.05 {
            continue;
        }
        let Some(worked) = quotient(product(bytes, exact(8.0)), length) else {
            continue;
        };
        agreement.same(worked, rate, 0.005, || {
            format!(
                "line {} says {}, its bytes over its time are {}",
                row.line,
                bits_per_second_text(rate.value),
                bits_per_second_text(worked.value)
            )
        });
    }
    agreement
}

/// The receiver's bytes against the sender's.
fn ends(draft: &Draft) -> Agreement {
    let mut agreement = Agreement::default();
    let all = draft.streams.iter().enumerate().map(|(index, stream)| {
        (
            Of::Stream(index),
            stream.way,
            format!("stream {}", stream.label),
        )
    });
    let sums = [Way::Send, Way::Receive].map(|way| (Of::Sum, Some(way), "the sum".to_owned()));
    for (of, way, name) in all.chain(sums) {
        let Totals { sender, receiver } = totals(draft, of, way);
        let (Some(sent), Some(received)) = (
            sender.and_then(|row| row.bytes),
            receiver.and_then(|row| row.bytes),
        ) else {
            continue;
        };
        // The first datagrams' headers, and what was in flight at the end, are counted on one side only.
        let room = sent.half + received.half + sent.value * 0.005 + 8_192.0;
        agreement.holds(received.value <= sent.value + room, || {
            format!(
                "of {name} {} were sent and {} received",
                volume(sent),
                volume(received)
            )
        });
    }
    agreement
}

/// Lost, all and percent of each line; all against what was sent.
fn datagrams(draft: &Draft) -> Agreement {
    let mut agreement = Agreement::default();
    for row in &draft.rows {
        let Some((lost, all)) = row.lost else {
            continue;
        };
        agreement.holds(u64::try_from(lost).is_ok_and(|lost| lost <= all), || {
            format!(
                "line {} says that {lost} of {all} datagrams were lost",
                row.line
            )
        });
        if let Some(percent) = row
            .lost_percent
            .filter(|percent| percent.value.is_finite() && all > 0)
        {
            let worked = exact(lost as f64 / all as f64 * 100.0);
            agreement.same(worked, percent, 0.06, || {
                format!(
                    "line {} says {} %, {lost} of {all} are {:.2} %",
                    row.line, percent.value, worked.value
                )
            });
        }
        let Of::Stream(index) = row.of else {
            continue;
        };
        if let (Some(sent), true) = (
            draft.streams.get(index).and_then(|stream| stream.sent),
            row.total,
        ) {
            agreement.holds(all <= sent.saturating_add(2), || {
                format!(
                    "line {} says {} datagrams in all, {} were sent",
                    row.line,
                    grouped(all),
                    grouped(sent)
                )
            });
        }
    }
    agreement
}
