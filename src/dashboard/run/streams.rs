//! The streams of a throughput run as a table, with the sum of each direction as iperf's `[SUM]`.

use crate::dashboard::run::flow_words;
use crate::dashboard::run::table::{self, More, Row, Table};
use crate::dashboard::words;
use crate::measure::plan::throughput::ThroughputPlan;
use crate::measure::summary::flow::{StreamFigures, ThroughputSummary};

/// Most streams that the page lists.
const MOST: usize = 64;

/// The table; `None` before any stream is known.
pub(super) fn streams(
    plan: &ThroughputPlan,
    summary: &ThroughputSummary,
    live: bool,
) -> Option<Table> {
    if summary.streams.is_empty() {
        return None;
    }
    let two_ways = !summary.directions.is_empty();
    let all_failed = summary.streams.iter().all(|stream| stream.failed.is_some());
    let mut reasons: Vec<&String> = summary
        .streams
        .iter()
        .filter_map(|stream| stream.failed.as_ref())
        .collect();
    reasons.dedup();
    // The page has said that one reason already.
    if all_failed && reasons.len() == 1 && !live {
        return None;
    }
    let (listed, left_out) = listed(&summary.streams);
    let peer = one_peer(&summary.streams);
    let fastest = summary
        .streams
        .iter()
        .filter_map(|stream| stream.bits_per_second)
        .fold(0.0, f64::max);
    let mut rows: Vec<Row> = listed
        .iter()
        .map(|stream| row(stream, fastest, two_ways, peer.is_none()))
        .collect();
    for (way, part) in flow_words::ways(plan, summary) {
        rows.push(sum(part, way, two_ways));
    }
    if all_failed {
        rows.retain(|row| !row.sum);
    }
    let mut columns = vec![table::words_in("stream")];
    if two_ways {
        columns.push(table::words_in("direction"));
    }
    columns.extend([
        table::addresses("local"),
        table::addresses("remote"),
        table::numbers("bytes"),
        table::numbers("rate"),
        table::numbers("of the fastest"),
        table::numbers("lost"),
        table::numbers("jitter"),
        table::numbers("out of order"),
        table::numbers("sent again"),
        table::numbers("RTT at the end"),
        table::words_in("failed"),
    ]);
    let mut table = Table {
        id: "streams-table",
        head: if live {
            "Streams so far".to_owned()
        } else {
            "Streams".to_owned()
        },
        lead: lead(plan, summary, peer),
        columns,
        rows,
        more: (left_out > 0).then(|| More {
            text: format!(
                "{} between them are not listed; each is in",
                words::plural(left_out as u64, "stream", "streams")
            ),
            file: "summary.json",
        }),
    };
    table.drop_empty_columns();
    Some(table)
}

/// At most [`MOST`] of them by number: where there are more, the failed ones, the slowest and the fastest.
fn listed(streams: &[StreamFigures]) -> (Vec<&StreamFigures>, usize) {
    let mut kept: Vec<&StreamFigures> = streams.iter().collect();
    if kept.len() > MOST {
        let rate = |stream: &StreamFigures| stream.bits_per_second.unwrap_or(0.0);
        kept.sort_by(|a, b| {
            let by_failure = b.failed.is_some().cmp(&a.failed.is_some());
            by_failure.then(rate(a).total_cmp(&rate(b)))
        });
        kept.drain(MOST / 2..kept.len() - MOST / 2);
        kept.sort_by(|a, b| (&b.direction, a.id).cmp(&(&a.direction, b.id)));
    }
    let left_out = streams.len() - kept.len();
    (kept, left_out)
}

fn row(stream: &StreamFigures, fastest: f64, two_ways: bool, peers_differ: bool) -> Row {
    let failed = stream.failed.is_some();
    let counted = |text: String| {
        // What a failed stream moved is in no sum.
        if failed { words::DASH.to_owned() } else { text }
    };
    let mut cells = vec![stream.id.to_string()];
    if two_ways {
        cells.push(stream.direction.clone());
    }
    cells.extend([
        table::text(stream.local.as_ref()),
        if peers_differ {
            table::text(stream.remote.as_ref())
        } else {
            String::new()
        },
        counted(words::volume(stream.bytes)),
        words::bits(stream.bits_per_second),
        stream
            .bits_per_second
            .filter(|_| fastest > 0.0)
            .map_or_else(
                || words::DASH.to_owned(),
                |rate| words::share(rate / fastest),
            ),
    ]);
    let datagrams = stream.datagrams.clone().unwrap_or_default();
    cells.extend([
        lost(datagrams.lost, datagrams.received),
        words::ms(datagrams.jitter_ms),
        table::count(datagrams.out_of_order),
        table::count(stream.retransmits),
        words::ms(stream.rtt_ms),
        stream.failed.clone().unwrap_or_default(),
    ]);
    Row {
        sum: false,
        bad: failed,
        cells,
    }
}

fn sum(part: &ThroughputSummary, way: &str, two_ways: bool) -> Row {
    let bytes: u64 = part
        .streams
        .iter()
        .filter(|stream| stream.failed.is_none())
        .map(|stream| stream.bytes)
        .sum();
    let known = part
        .streams
        .iter()
        .any(|stream| stream.failed.is_none() && stream.bytes > 0);
    let mut cells = vec!["[SUM]".to_owned()];
    if two_ways {
        cells.push(way.to_owned());
    }
    cells.extend([
        String::new(),
        String::new(),
        if known {
            words::volume(bytes)
        } else {
            words::DASH.to_owned()
        },
        words::bits(part.bits_per_second.or(part.bits_per_second_whole)),
        String::new(),
    ]);
    let datagrams = part.udp.clone().unwrap_or_default();
    cells.extend([
        lost(datagrams.datagrams_lost, datagrams.datagrams_received),
        words::ms(datagrams.jitter_ms),
        table::count(datagrams.datagrams_out_of_order),
        table::count(part.retransmits),
        String::new(),
        String::new(),
    ]);
    Row {
        sum: true,
        bad: false,
        cells,
    }
}

/// Datagrams that did not come, of all that should have.
fn lost(lost: Option<u64>, received: Option<u64>) -> String {
    lost.zip(received).map_or_else(
        || words::DASH.to_owned(),
        |(lost, received)| {
            let all = lost.saturating_add(received);
            format!("{} of {}", words::count(lost), words::count(all))
        },
    )
}

/// The other end, where it is the same for all streams.
fn one_peer(streams: &[StreamFigures]) -> Option<&str> {
    let first = streams.first()?.remote.as_deref()?;
    streams
        .iter()
        .all(|stream| stream.remote.as_deref() == Some(first))
        .then_some(first)
}

fn lead(plan: &ThroughputPlan, summary: &ThroughputSummary, peer: Option<&str>) -> String {
    let mut parts = vec![
        "Each stream over its own time; the sum over the time in which all of them were active."
            .to_owned(),
    ];
    parts.extend(peer.map(|peer| format!("The other end is {peer}.")));
    if summary.directions.is_empty() && summary.streams.len() > 1 {
        parts.extend(flow_words::spread(summary));
    }
    parts.extend(flow_words::short_cuts(plan).map(|how| format!("{how}.")));
    parts.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dashboard::run::fixture;
    use crate::measure::summary::Summary;
    use crate::measure::summary::flow::{StreamDatagrams, UdpFigures};

    fn summary(run: &crate::measure::run::Run) -> &ThroughputSummary {
        match run.summary.as_ref().unwrap() {
            Summary::Throughput(summary) => summary,
            other => panic!("{other:?}"),
        }
    }

    fn plan(run: &crate::measure::run::Run) -> &ThroughputPlan {
        match &run.plan {
            crate::measure::plan::Plan::Throughput(plan) => plan,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_stream_has_its_line_and_the_sum_comes_last() {
        let (run, _) = fixture::throughput(&serde_json::json!({"streams": 16}));
        let table = streams(plan(&run), summary(&run), false).unwrap();
        assert_eq!(table.rows.len(), 17);
        assert_eq!(table.rows[16].cells[0], "[SUM]");
        assert!(table.rows[..16].iter().all(|row| !row.sum && !row.bad));
        let names: Vec<&str> = table.columns.iter().map(|column| column.name).collect();
        for absent in ["failed", "direction", "remote"] {
            assert!(!names.contains(&absent), "{absent}");
        }
        assert!(table.lead.contains("The other end is 10.128.0.10:5001."));
    }

    #[test]
    fn two_directions_have_two_sums_and_a_failed_stream_counts_in_none() {
        let (mut run, _) =
            fixture::throughput(&serde_json::json!({"streams": 2, "direction": "both"}));
        if let Some(Summary::Throughput(summary)) = &mut run.summary {
            summary.streams[0].failed = Some("Connection refused".to_owned());
            summary.streams[0].bits_per_second = None;
        }
        let table = streams(plan(&run), summary(&run), false).unwrap();
        assert_eq!(table.rows.iter().filter(|row| row.sum).count(), 2);
        assert!(table.rows[0].bad);
        assert!(
            table.rows[0]
                .cells
                .contains(&"Connection refused".to_owned())
        );
        assert!(table.rows[0].cells.contains(&words::DASH.to_owned()));
    }

    #[test]
    fn each_stream_of_datagrams_says_what_it_lost_and_how_much_it_wavered() {
        let (mut run, _) =
            fixture::throughput(&serde_json::json!({"streams": 2, "protocol": "udp"}));
        if let Some(Summary::Throughput(summary)) = &mut run.summary {
            for (stream, lost) in summary.streams.iter_mut().zip([0, 21]) {
                stream.retransmits = None;
                stream.datagrams = Some(StreamDatagrams {
                    received: Some(2_103 - lost),
                    lost: Some(lost),
                    jitter_ms: Some(0.02),
                    ..StreamDatagrams::default()
                });
            }
            summary.udp = Some(UdpFigures {
                datagrams_received: Some(4_185),
                datagrams_lost: Some(21),
                ..UdpFigures::default()
            });
        }
        let table = streams(plan(&run), summary(&run), false).unwrap();
        let column = |wanted: &str| {
            let names: Vec<&str> = table.columns.iter().map(|column| column.name).collect();
            let place = names.iter().position(|name| *name == wanted);
            let place = place.unwrap_or_else(|| panic!("{wanted}: {names:?}"));
            let cells = table.rows.iter().map(|row| row.cells[place].clone());
            cells.collect::<Vec<String>>()
        };
        assert_eq!(
            column("lost"),
            [
                "0 of 2\u{202f}103",
                "21 of 2\u{202f}103",
                "21 of 4\u{202f}206"
            ]
        );
        assert_eq!(column("jitter")[2], words::DASH, "nobody told the mean");
        assert!(
            table
                .columns
                .iter()
                .all(|column| column.name != "out of order")
        );
    }

    #[test]
    fn of_very_many_the_failed_slowest_and_fastest_are_listed() {
        let many: Vec<StreamFigures> = (1..=256)
            .map(|id| StreamFigures {
                id,
                direction: "send".to_owned(),
                bits_per_second: Some(f64::from(id)),
                failed: (id == 100).then(|| "reset".to_owned()),
                ..StreamFigures::default()
            })
            .collect();
        let (kept, left_out) = listed(&many);
        assert_eq!((kept.len(), left_out), (64, 192));
        for id in [1, 100, 256] {
            assert!(kept.iter().any(|stream| stream.id == id), "{id}");
        }
    }
}
