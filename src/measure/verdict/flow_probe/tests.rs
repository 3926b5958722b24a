//! What pings and path checks come to say.

use std::time::Duration;

use super::*;
use crate::measure::flow::{Echo, FlowBatch};
use crate::measure::summary::flow::PathProbe;
use crate::measure::summary::ping::PingFold;

fn ping(rtts_ms: &[Option<f64>]) -> Judgement {
    let plan = PingPlan {
        host: "10.0.0.2".to_owned(),
        count: u32::try_from(rtts_ms.len()).unwrap(),
        interval_s: 1.0,
        size_bytes: 56,
        timeout_s: 1.0,
        method: PingMethod::Icmp,
        port: None,
    };
    let mut fold = PingFold::new(&plan);
    fold.push(&FlowBatch {
        echoes: (1..)
            .zip(rtts_ms)
            .map(|(seq, rtt)| Echo {
                seq,
                at: Duration::from_secs(seq.into()),
                rtt: rtt.map(|ms| Duration::from_secs_f64(ms / 1e3)),
                ttl: Some(64),
                duplicates: 0,
                loaded: false,
            })
            .collect(),
        ..FlowBatch::default()
    });
    let end = fold.so_far();
    judge_ping(
        &plan,
        &fold.summary(&end),
        &fold.series(&end),
        &end,
        &Environment::default(),
    )
}

fn plain(text: &str) -> String {
    text.replace(['\u{a0}', '\u{202f}'], " ")
}

#[test]
fn a_ping_says_what_it_found() {
    for (rtts, title, verdict) in [
        (&[][..], "No probe was sent", "before the first"),
        (
            &[None],
            "10.0.0.2 does not answer the one probe",
            "firewalls drop ICMP",
        ),
        (
            &[None; 5],
            "10.0.0.2 answers none of 5 probes",
            "firewalls drop ICMP",
        ),
        (&[Some(0.34)], "10.0.0.2 answers in 0.34 ms", "So few"),
        (
            &[Some(1.0), Some(2.0)],
            "10.0.0.2 answers 2 probes in 1 ms to 2 ms",
            "So few",
        ),
        (
            &[Some(2.0), Some(2.0), Some(2.0), Some(2.0), Some(2.0)],
            "10.0.0.2 answers all 5 probes: median 2 ms, slowest 2 ms",
            "nothing queues",
        ),
        (
            &[Some(20.0), Some(2.0), Some(2.0), Some(2.0), Some(2.0)],
            "10.0.0.2 answers all 5 probes: median 2 ms, slowest 20 ms",
            "The first took 20 ms",
        ),
        (
            &[Some(2.0), None, Some(2.0), Some(2.0), Some(2.0)],
            "10.0.0.2: 1 of 5 lost, the median round trip is 2 ms",
            "So much loss",
        ),
    ] {
        let judgement = ping(rtts);
        assert_eq!(plain(&judgement.title), title);
        assert!(
            plain(&judgement.verdict).contains(verdict),
            "{}",
            judgement.verdict
        );
        assert_eq!(judgement.checks.len(), 8);
        assert!(judgement.checks.iter().all(|check| check.ok != Some(false)));
    }
    let lost = ping(&[Some(2.0), None, None, None]);
    assert_eq!(
        (lost.limits[0].cause.as_str(), lost.limits[0].share),
        ("loss", 0.75)
    );
    assert_eq!(ping(&[None, None]).limits[0].cause, "failed");
}

fn path(found: Option<u32>, expected: Option<u32>, own: u32, black_hole: bool) -> Judgement {
    let plan = PathPlan {
        host: "10.0.0.2".to_owned(),
        expect_mtu: expected,
    };
    let probe = |size_bytes, result: &str| PathProbe {
        size_bytes,
        result: result.to_owned(),
        ..PathProbe::default()
    };
    let mut probes = Vec::new();
    if let Some(found) = found {
        probes.push(probe(found, "answered"));
        probes.push(probe(
            found + 1,
            if black_hole { "no_answer" } else { "too_big" },
        ));
    }
    let summary = PathSummary {
        interface: Some("ens4".to_owned()),
        interface_mtu: Some(own),
        path_mtu: found,
        expected_mtu: expected,
        black_hole: Some(black_hole),
        probes,
        ..PathSummary::default()
    };
    judge_path(&plan, &summary)
}

#[test]
fn a_path_is_equal_smaller_or_a_black_hole() {
    for (judgement, title, verdict, cause) in [
        (
            path(Some(8896), Some(8896), 8896, false),
            "The path to 10.0.0.2 carries 8 896 bytes, as expected",
            "agree",
            None,
        ),
        (
            path(Some(1460), Some(8896), 1460, false),
            "The path to 10.0.0.2 carries 1 460 bytes, less than the 8 896 expected",
            "set the MTU of ens4 to 8 896",
            Some("path_mtu"),
        ),
        (
            path(Some(1460), Some(8896), 8896, false),
            "The path to 10.0.0.2 carries 1 460 bytes, less than the 8 896 expected",
            "A hop on the way is smaller",
            Some("path_mtu"),
        ),
        (
            path(Some(1460), Some(1500), 1500, true),
            "Packets above 1 460 bytes vanish on the way to 10.0.0.2; 1 500 were expected",
            "A black hole",
            Some("black_hole"),
        ),
        (
            path(Some(1460), None, 1500, false),
            "The path to 10.0.0.2 carries 1 460 bytes, the interface 1 500",
            "and says so",
            Some("path_mtu"),
        ),
        (
            path(Some(1500), None, 1500, false),
            "The path to 10.0.0.2 carries 1 500 bytes",
            "as much as",
            None,
        ),
        (
            path(None, Some(1500), 1500, false),
            "No probe reached 10.0.0.2, so its path MTU is unknown",
            "Nothing answered",
            Some("failed"),
        ),
    ] {
        assert_eq!(plain(&judgement.title), title);
        assert!(
            plain(&judgement.verdict).contains(verdict),
            "{}",
            judgement.verdict
        );
        let found = judgement.limits.first().map(|limit| limit.cause.as_str());
        assert_eq!(found, cause, "{title}");
        assert_eq!(judgement.checks.len(), 8);
    }
}
