//! What both ends of a throughput run counted, side by side, a table for each direction.

use crate::dashboard::run::flow_words;
use crate::dashboard::run::table::{self, Row, Table};
use crate::dashboard::words::{self, DASH};
use crate::measure::plan::throughput::{Protocol, ThroughputPlan};
use crate::measure::summary::flow::{ThroughputSummary, UdpFigures};

/// The tables; empty while it runs, when the other end has not told anything yet.
pub(super) fn ends(plan: &ThroughputPlan, summary: &ThroughputSummary, node: &str) -> Vec<Table> {
    let two_ways = !summary.directions.is_empty();
    flow_words::ways(plan, summary)
        .into_iter()
        .map(|(way, part)| {
            let peer = match &summary.peer {
                Some(what) => format!("{}, {what}", plan.host),
                None => plan.host.clone(),
            };
            let (sender, receiver) = if way == "send" {
                (node.to_owned(), peer)
            } else {
                (peer, node.to_owned())
            };
            Table {
                id: if way == "send" {
                    "ends-send"
                } else {
                    "ends-receive"
                },
                head: match (two_ways, way) {
                    (false, _) => "What both ends counted".to_owned(),
                    (true, "send") => "What both ends counted: sending".to_owned(),
                    (true, _) => "What both ends counted: receiving".to_owned(),
                },
                lead: format!("Sender: {sender}. Receiver: {receiver}."),
                columns: vec![
                    table::words_in(""),
                    table::numbers("sender"),
                    table::numbers("receiver"),
                    table::words_in(""),
                ],
                rows: rows(plan, way, part),
                more: None,
            }
        })
        .collect()
}

fn rows(plan: &ThroughputPlan, way: &str, part: &ThroughputSummary) -> Vec<Row> {
    let none = || DASH.to_owned();
    let volume = |bytes: Option<u64>| bytes.map_or_else(none, words::volume);
    let exact =
        |bytes: Option<u64>| bytes.map_or_else(none, |bytes| words::plural(bytes, "byte", "bytes"));
    let rate = |bytes: Option<u64>| {
        let seconds = part.duration_s;
        words::bits(
            bytes
                .filter(|_| seconds > 0.0)
                .map(|bytes| bytes as f64 * 8.0 / seconds),
        )
    };
    let mut rows = vec![
        row(
            "bytes",
            exact(part.bytes_sent),
            exact(part.bytes_received),
            difference(plan, part),
        ),
        row(
            "volume",
            volume(part.bytes_sent),
            volume(part.bytes_received),
            flow_words::short_cuts(plan).unwrap_or_default(),
        ),
    ];
    if plan.protocol == Protocol::Tcp {
        let note = if part.bytes_acknowledged.is_some() {
            "by the receiver’s kernel".to_owned()
        } else {
            String::new()
        };
        rows.push(row(
            "acknowledged",
            exact(part.bytes_acknowledged),
            none(),
            note,
        ));
    }
    rows.push(row(
        "rate while all streams were active",
        none(),
        words::bits(part.bits_per_second),
        "the headline".to_owned(),
    ));
    rows.push(row(
        "rate over the whole span",
        rate(part.bytes_sent),
        words::bits(part.bits_per_second_whole),
        format!(
            "latest end − earliest start: {}",
            words::seconds(part.duration_s)
        ),
    ));
    if let Some(udp) = &part.udp {
        rows.extend(datagrams(plan, udp));
    } else {
        rows.push(row(
            "segments sent again",
            table::count(part.retransmits),
            none(),
            String::new(),
        ));
    }
    rows.extend(of_this_end(way, part));
    rows.retain(|row| row.cells[1] != DASH || row.cells[2] != DASH);
    rows
}

/// What only this end knows, in its own column.
fn of_this_end(way: &str, part: &ThroughputSummary) -> [Row; 2] {
    let none = || DASH.to_owned();
    let here = |text: String| {
        if way == "send" {
            (text, none())
        } else {
            (none(), text)
        }
    };
    let window = &part.window_bytes;
    let size = |bytes: Option<u64>| bytes.map(|bytes| words::bytes(bytes as f64));
    let (sender, receiver) = here(if window.asked.or(window.got).is_some() {
        format!(
            "{}, got {}",
            size(window.asked).unwrap_or_else(|| "the system’s".to_owned()),
            size(window.got).unwrap_or_else(none)
        )
    } else {
        none()
    });
    let buffer = row("socket buffer asked", sender, receiver, shortfall(part));
    let cpu = &part.cpu;
    let (sender, receiver) = here(if cpu.user_s + cpu.system_s > 0.0 {
        format!(
            "{} user, {} system",
            words::seconds(cpu.user_s),
            words::seconds(cpu.system_s)
        )
    } else {
        none()
    });
    let cpu = row("CPU time", sender, receiver, "of this process".to_owned());
    [buffer, cpu]
}

/// Whether the two counts are equal, and by how much they are not.
fn difference(plan: &ThroughputPlan, part: &ThroughputSummary) -> String {
    match (part.bytes_sent, part.bytes_received) {
        (Some(sent), Some(received)) if sent == received => "equal to the byte".to_owned(),
        (Some(sent), Some(received)) => {
            let apart = words::plural(sent.abs_diff(received), "byte", "bytes");
            match plan.protocol {
                Protocol::Udp => format!("{apart} apart: lost on the way, or not yet there"),
                Protocol::Tcp if sent > received => {
                    format!("{apart} were on their way at the end, or left out by the receiver")
                }
                Protocol::Tcp => format!("{apart} apart"),
            }
        }
        (_, None) => "the receiver does not tell".to_owned(),
        (None, _) => "the sender does not tell".to_owned(),
    }
}

fn datagrams(plan: &ThroughputPlan, udp: &UdpFigures) -> Vec<Row> {
    let none = || DASH.to_owned();
    let of_receiver = |name: &str, value: Option<u64>, note: &str| {
        row(name, none(), table::count(value), note.to_owned())
    };
    vec![
        row(
            "datagrams",
            table::count(udp.datagrams_sent),
            table::count(udp.datagrams_received),
            format!(
                "of {} of payload",
                words::plural(plan.length_bytes.into(), "byte", "bytes")
            ),
        ),
        row(
            "lost",
            none(),
            table::count(udp.datagrams_lost),
            udp.lost_percent
                .map_or_else(String::new, |percent| words::share(percent / 100.0)),
        ),
        of_receiver("out of order", udp.datagrams_out_of_order, ""),
        of_receiver("came twice", udp.datagrams_duplicated, ""),
        row(
            "jitter",
            none(),
            words::ms(udp.jitter_ms),
            "RFC 1889, mean of the streams".to_owned(),
        ),
        of_receiver(
            "dropped by its socket",
            udp.dropped_by_receiver,
            "its program did not read in time",
        ),
    ]
}

/// A buffer that was asked for and not given.
fn shortfall(part: &ThroughputSummary) -> String {
    match (part.window_bytes.asked, part.window_bytes.got) {
        (Some(asked), Some(got)) if got < asked => {
            "less than asked: raise net.core.wmem_max and net.core.rmem_max".to_owned()
        }
        _ => String::new(),
    }
}

fn row(name: &str, sender: String, receiver: String, note: String) -> Row {
    Row {
        cells: vec![name.to_owned(), sender, receiver, note],
        ..Row::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dashboard::run::fixture;
    use crate::measure::plan::Plan;
    use crate::measure::summary::Summary;
    use serde_json::json;

    fn tables(plan: &serde_json::Value, change: impl FnOnce(&mut ThroughputSummary)) -> Vec<Table> {
        let (mut run, _) = fixture::throughput(plan);
        let (Plan::Throughput(plan), Some(Summary::Throughput(summary))) =
            (&run.plan, &mut run.summary)
        else {
            panic!("{run:?}");
        };
        change(summary);
        ends(plan, summary, "eu-a")
    }

    fn of<'a>(table: &'a Table, name: &str) -> &'a [String] {
        let row = table.rows.iter().find(|row| row.cells[0] == name);
        &row.unwrap_or_else(|| panic!("{name}: {table:?}")).cells
    }

    #[test]
    fn equal_counts_are_said_to_be_equal_to_the_byte() {
        let tables = tables(&json!({}), |_| {});
        let bytes = of(&tables[0], "bytes");
        assert_eq!(bytes[1], bytes[2]);
        assert_eq!(bytes[3], "equal to the byte");
        assert!(tables[0].lead.starts_with("Sender: eu-a."));
        assert!(tables[0].rows.iter().all(|row| row.cells.len() == 4));
    }

    #[test]
    fn the_receiving_end_stands_in_its_own_column() {
        let tables = tables(&json!({"direction": "both"}), |_| {});
        assert_eq!(tables.len(), 2);
        assert!(tables[1].lead.ends_with("Receiver: eu-a."));
        assert_eq!(of(&tables[1], "CPU time")[1], DASH);
    }

    #[test]
    fn a_buffer_that_was_not_given_names_the_setting() {
        let tables = tables(&json!({}), |summary| {
            summary.window_bytes.asked = Some(4_000_000);
            summary.window_bytes.got = Some(416_000);
        });
        let window = of(&tables[0], "socket buffer asked");
        assert!(window[1].contains("got 416"), "{window:?}");
        assert!(window[3].contains("net.core.wmem_max"), "{window:?}");
    }
}
