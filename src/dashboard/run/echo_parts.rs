//! Ping and path reports: key figures, the table of packets, the sizes that were tried, and this machine's interfaces.

use crate::dashboard::run::flow_rail;
use crate::dashboard::run::keys::{Key, key};
use crate::dashboard::run::table::{self, More, Row, Table};
use crate::dashboard::words::{self, DASH, Measure};
use crate::measure::plan::PingPlan;
use crate::measure::summary::flow::{EchoRow, PathSummary, PingSummary};

/// Packets that the page lists; the file has all.
pub const LISTED: usize = 100;

/// IP and TCP headers without options: IPv4, IPv6.
const HEADERS: (u32, u32) = (40, 60);

/// The key figures of a ping.
pub(super) fn ping_keys(summary: &PingSummary, echoes: &[EchoRow]) -> Vec<Key> {
    let figures = &summary.rtt_ms.figures;
    let lost = summary.transmitted.saturating_sub(summary.received);
    let mut loss = key(
        "Loss",
        Measure::share(summary.loss_percent.map(|percent| percent / 100.0)),
        format!(
            "{} sent, {} received",
            words::count(summary.transmitted),
            words::count(summary.received)
        ),
    );
    loss.hot = lost > 0;
    let answers = words::plural(summary.received, "answer", "answers");
    // Only where all packets are at hand the slowest is among them.
    let slowest = echoes
        .iter()
        .filter(|_| echoes.len() as u64 >= summary.transmitted)
        .filter_map(|echo| Some((echo.rtt_ms?, echo.seq)))
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, seq)| seq);
    let max_sub = match slowest {
        Some(1) if summary.received > 1 => "packet 1, the first".to_owned(),
        Some(seq) => format!("packet {seq}"),
        None => String::new(),
    };
    let mut ttl = key(
        "TTL",
        summary
            .ttl
            .map_or_else(Measure::missing, |ttl| Measure::count(ttl.into())),
        match summary.duplicates {
            0 => "of the last answer; no duplicate".to_owned(),
            more => format!(
                "of the last answer; {}",
                words::plural(more, "duplicate", "duplicates")
            ),
        },
    );
    if summary.ttl.is_none() {
        ttl.sub = match summary.duplicates {
            0 if summary.method == "tcp" => "not told by TCP".to_owned(),
            0 => "not told; no duplicate".to_owned(),
            more => words::plural(more, "duplicate", "duplicates"),
        };
    }
    ttl.hot = summary.duplicates > 0;
    vec![
        loss,
        key("Min", Measure::ms(figures.min), String::new()),
        key("Avg", Measure::ms(figures.avg), format!("of {answers}")),
        key("Max", Measure::ms(figures.max), max_sub),
        key(
            "Mdev",
            Measure::ms(summary.rtt_ms.mdev),
            "mean deviation, as ping prints it".to_owned(),
        ),
        ttl,
    ]
}

/// The packets one by one: the first [`LISTED`].
pub(super) fn packets(
    plan: &PingPlan,
    summary: &PingSummary,
    echoes: &[EchoRow],
    live: bool,
) -> Option<Table> {
    if echoes.is_empty() {
        return None;
    }
    let shown = &echoes[..echoes.len().min(LISTED)];
    let all = summary.transmitted.max(echoes.len() as u64);
    let mut table = Table {
        id: "packets",
        head: "Packet by packet".to_owned(),
        lead: match plan.port {
            Some(port) => format!(
                "TCP connects to port {port}, one every {}; without an answer within {} a packet is lost.",
                words::seconds(plan.interval_s),
                words::seconds(plan.timeout_s)
            ),
            None => format!(
                "ICMP echoes with {} of payload, one every {}; without an answer within {} a packet is lost.",
                words::bytes(f64::from(plan.size_bytes)),
                words::seconds(plan.interval_s),
                words::seconds(plan.timeout_s)
            ),
        },
        columns: vec![
            table::words_in("packet"),
            table::numbers("sent at"),
            table::numbers("round trip"),
            table::numbers("ttl"),
            table::words_in("remark"),
        ],
        rows: shown
            .iter()
            .map(|echo| packet(echo, summary, shown.len()))
            .collect(),
        more: (!live && all > shown.len() as u64).then(|| More {
            text: format!(
                "The first {} of {}; all are in",
                shown.len(),
                words::count(all)
            ),
            file: "intervals.csv",
        }),
    };
    table.drop_empty_columns();
    Some(table)
}

fn packet(echo: &EchoRow, summary: &PingSummary, of: usize) -> Row {
    let mut remarks = Vec::new();
    let median = summary.rtt_ms.figures.median;
    if echo.rtt_ms.is_none() {
        remarks.push("no answer".to_owned());
    }
    if echo.seq == 1
        && of > 2
        && let (Some(rtt), Some(median)) = (echo.rtt_ms, median)
        && rtt > median * 2.0
    {
        remarks.push(format!(
            "the first, {}\u{a0}× the median: address look-up and path set-up are in it",
            words::digits(rtt / median)
        ));
    }
    if echo.duplicates > 0 {
        let more = words::plural(echo.duplicates.into(), "more time", "more times");
        remarks.push(format!("answered {more}"));
    }
    Row {
        sum: false,
        bad: echo.rtt_ms.is_none(),
        cells: vec![
            echo.seq.to_string(),
            format!("{:.3}\u{a0}s", echo.sent_s),
            match echo.rtt_ms {
                Some(rtt) => words::ms(Some(rtt)),
                None => "lost".to_owned(),
            },
            echo.ttl
                .map_or_else(|| DASH.to_owned(), |ttl| ttl.to_string()),
            remarks.join("; "),
        ],
    }
}

/// The key figures of a path check.
pub(super) fn path_keys(summary: &PathSummary) -> Vec<Key> {
    let size = |mtu: Option<u32>| Measure {
        number: mtu.map_or_else(|| DASH.to_owned(), |mtu| words::count(mtu.into())),
        unit: if mtu.is_some() { "bytes" } else { "" },
    };
    let mut path = key(
        "Path MTU",
        size(summary.path_mtu),
        match (summary.ok, summary.path_mtu) {
            (_, None) => "no probe was answered".to_owned(),
            (Some(true), _) => "as expected".to_owned(),
            (Some(false), _) => "not as expected".to_owned(),
            (None, _) => "largest packet that gets through".to_owned(),
        },
    );
    path.hot = summary.ok == Some(false) || summary.path_mtu.is_none();
    let ipv6 = summary
        .address
        .as_ref()
        .is_some_and(|address| address.contains(':'));
    let headers = if ipv6 { HEADERS.1 } else { HEADERS.0 };
    let mut hole = key(
        "Black hole",
        Measure {
            number: match summary.black_hole {
                Some(true) => "yes".to_owned(),
                Some(false) => "no".to_owned(),
                None => DASH.to_owned(),
            },
            unit: "",
        },
        match summary.black_hole {
            Some(true) => "larger packets vanish without a word".to_owned(),
            Some(false) => "larger packets are refused by name".to_owned(),
            None => "not told apart".to_owned(),
        },
    );
    hole.hot = summary.black_hole == Some(true);
    vec![
        path,
        key(
            "Expected",
            size(summary.expected_mtu),
            if summary.expected_mtu.is_some() {
                String::new()
            } else {
                "nothing was stated".to_owned()
            },
        ),
        key(
            "Interface MTU",
            size(summary.interface_mtu),
            summary.interface.clone().unwrap_or_default(),
        ),
        key(
            "Largest segment",
            size(summary.path_mtu.map(|mtu| mtu.saturating_sub(headers))),
            format!("TCP payload: MTU − {headers}"),
        ),
        hole,
        key(
            "Sizes tried",
            Measure::count(summary.probes.len() as u64),
            "with don’t-fragment set".to_owned(),
        ),
    ]
}

/// The sizes that were tried, and this machine's interfaces.
pub(super) fn path_tables(summary: &PathSummary) -> Vec<Table> {
    let mut tables = Vec::new();
    if !summary.probes.is_empty() {
        let mut sizes = Table {
            id: "sizes",
            head: "Sizes that were tried".to_owned(),
            lead: match flow_rail::path_method(summary) {
                Some(how) => format!("Whole IP packets with don’t-fragment set: {how}."),
                None => "Whole IP packets with don’t-fragment set.".to_owned(),
            },
            columns: vec![
                table::words_in("probe of"),
                table::words_in("result"),
                table::numbers("round trip"),
                table::numbers("MTU that was named"),
            ],
            rows: summary
                .probes
                .iter()
                .map(|probe| Row {
                    sum: false,
                    bad: probe.result != "answered",
                    cells: vec![
                        format!("{}\u{a0}bytes", words::count(probe.size_bytes.into())),
                        match probe.result.as_str() {
                            "answered" => "✓ answered".to_owned(),
                            "too_big" => "✕ too big, and somebody says so".to_owned(),
                            "no_answer" => "✕ no answer".to_owned(),
                            other => other.to_owned(),
                        },
                        words::ms(probe.rtt_ms),
                        table::count(probe.named_mtu.map(u64::from)),
                    ],
                })
                .collect(),
            more: None,
        };
        sizes.drop_empty_columns();
        tables.push(sizes);
    }
    if !summary.interfaces.is_empty() {
        tables.push(Table {
            id: "interfaces",
            head: "Interfaces of this machine".to_owned(),
            lead: match &summary.interface {
                Some(name) => format!("Packets to this peer leave by {name}."),
                None => String::new(),
            },
            columns: vec![
                table::words_in("name"),
                table::numbers("MTU"),
                table::addresses("addresses"),
                table::words_in(""),
            ],
            rows: summary
                .interfaces
                .iter()
                .map(|one| {
                    let used = summary.interface.as_ref() == Some(&one.name);
                    Row {
                        cells: vec![
                            one.name.clone(),
                            table::count(one.mtu.map(u64::from)),
                            if one.addresses.is_empty() {
                                DASH.to_owned()
                            } else {
                                one.addresses.join(", ")
                            },
                            if used { "towards this peer" } else { "" }.to_owned(),
                        ],
                        ..Row::default()
                    }
                })
                .collect(),
            more: None,
        });
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::summary::Distribution;
    use crate::measure::summary::flow::PingDistribution;

    fn echoes(rtts: &[Option<f64>]) -> Vec<EchoRow> {
        (1..)
            .zip(rtts)
            .map(|(seq, rtt_ms)| EchoRow {
                run: 1,
                seq,
                sent_s: f64::from(seq - 1),
                rtt_ms: *rtt_ms,
                ttl: rtt_ms.map(|_| 64),
                duplicates: u32::from(seq == 3),
                loaded: false,
            })
            .collect()
    }

    fn ping() -> (PingPlan, PingSummary, Vec<EchoRow>) {
        let echoes = echoes(&[Some(2.5), Some(0.4), Some(0.5), None, Some(0.4)]);
        let summary = PingSummary {
            transmitted: 5,
            received: 4,
            loss_percent: Some(20.0),
            duplicates: 1,
            rtt_ms: PingDistribution {
                figures: Distribution {
                    min: Some(0.4),
                    avg: Some(0.95),
                    max: Some(2.5),
                    median: Some(0.45),
                    count: 4,
                    ..Distribution::default()
                },
                mdev: Some(0.9),
            },
            ttl: Some(64),
            method: "icmp".to_owned(),
            ..PingSummary::default()
        };
        let caps = crate::measure::plan::Caps::default();
        let json = serde_json::json!({"kind": "ping", "host": "127.0.0.1"});
        match crate::measure::plan::Plan::from_json(&json, &caps) {
            Ok(crate::measure::plan::Plan::Ping(plan)) => (plan, summary, echoes),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_slow_first_packet_the_lost_and_the_doubled_one_are_remarked() {
        let (plan, summary, echoes) = ping();
        let table = packets(&plan, &summary, &echoes, false).unwrap();
        assert_eq!(table.rows.len(), 5);
        assert!(table.rows[0].cells[4].starts_with("the first, 5.56"));
        assert!(table.rows[3].bad);
        assert_eq!(table.rows[3].cells[2], "lost");
        assert!(table.rows[2].cells[4].contains("1\u{a0}more time"));
        let keys = ping_keys(&summary, &echoes);
        assert_eq!(keys.len(), 6);
        assert!(keys[0].hot);
        assert_eq!(keys[3].sub, "packet 1, the first");
    }

    #[test]
    fn a_ping_without_answers_has_dashes_and_no_zero() {
        let (_, mut summary, _) = ping();
        summary.received = 0;
        summary.loss_percent = Some(100.0);
        summary.rtt_ms = PingDistribution::default();
        summary.ttl = None;
        let keys = ping_keys(&summary, &[]);
        for key in &keys[1..] {
            assert_eq!(key.value.number, DASH, "{key:?}");
        }
    }

    #[test]
    fn only_the_first_hundred_packets_are_listed() {
        let (plan, mut summary, _) = ping();
        summary.transmitted = 250;
        let many = echoes(&[Some(0.4); 100]);
        let table = packets(&plan, &summary, &many, false).unwrap();
        assert_eq!(table.rows.len(), 100);
        assert_eq!(table.more.unwrap().file, "intervals.csv");
    }

    #[test]
    fn a_black_hole_is_said_and_the_interface_towards_the_peer_is_marked() {
        let summary: PathSummary = serde_json::from_value(serde_json::json!({
            "interface": "eth0", "interface_mtu": 8896, "path_mtu": 1460, "expected_mtu": 8896, "ok": false,
            "black_hole": true, "address": "10.0.0.2",
            "probes": [
                {"size_bytes": 8896, "result": "no_answer", "rtt_ms": null, "named_mtu": null},
                {"size_bytes": 1460, "result": "answered", "rtt_ms": 0.3, "named_mtu": null},
            ],
            "interfaces": [{"name": "eth0", "mtu": 8896, "addresses": ["10.0.0.1"]}],
        }))
        .unwrap();
        let keys = path_keys(&summary);
        assert!(keys[0].hot && keys[4].hot);
        assert_eq!(keys[3].value.number, "1\u{202f}420");
        let tables = path_tables(&summary);
        assert_eq!(tables.len(), 2);
        assert!(tables[0].rows[0].bad && !tables[0].rows[1].bad);
        assert_eq!(tables[0].columns.len(), 3, "nobody named an MTU");
        assert_eq!(tables[1].rows[0].cells[3], "towards this peer");
    }
}
