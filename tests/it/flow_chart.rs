//! Charts of throughput runs and pings: what they say, that nothing breaks them, and that they stay as they are.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use tidemark::chart::{self, Figure, Table, Theme};
use tidemark::measure::flow::Way;
use tidemark::measure::flow_series::{EchoBin, EchoPoint, FlowLine, FlowPoint, FlowSeries};
use tidemark::measure::run::State;
use tidemark::measure::series::{BandMs, HistogramBucket};

use crate::chart::{HOSTILE_NUMBERS, boxes, check_markup, golden, payloads, texts};
use crate::flow_chart_runs::{self as runs, Flowed, What};

const NAMES: [&str; 6] = [
    "throughput",
    "loss",
    "rtt",
    "streams",
    "retransmits",
    "ping",
];

fn every_run() -> &'static BTreeMap<&'static str, Flowed> {
    static RUNS: OnceLock<BTreeMap<&'static str, Flowed>> = OnceLock::new();
    RUNS.get_or_init(|| {
        BTreeMap::from([
            ("tier-1", runs::tier_1()),
            ("nothing", runs::single(0)),
            ("one", runs::single(1)),
            ("five", runs::single(5)),
            ("single", runs::single(30)),
            ("stopped", runs::stopped(State::Cancelled)),
            ("live", runs::stopped(State::Running)),
            ("both", runs::two_ways("both")),
            ("in-turn", runs::two_ways("in_turn")),
            ("udp-in", runs::udp("receive")),
            ("udp-out", runs::udp("send")),
            ("refused", runs::failed(1)),
            ("some-refused", runs::failed(8)),
            ("crowd", runs::crowd()),
            ("ping-none", runs::pings(0, 0)),
            ("ping-one", runs::pings(1, 0)),
            ("ping-dead", runs::pings(5, 1)),
            ("ping-four", runs::pings(4, 0)),
            ("ping-five", runs::pings(5, 0)),
            ("ping-100", runs::pings(100, 50)),
            ("ping-3000", runs::pings(3_000, 100)),
        ])
    })
}

fn figure(run: &str, name: &str) -> Figure {
    chart::flow_figure(&every_run()[run].input(), name).unwrap()
}

/// Everything that holds of every figure of every run.
fn check_figure(flowed: &Flowed, figure: &Figure) {
    let name = figure.name;
    assert!(NAMES.contains(&name));
    assert!(!figure.title.is_empty() && figure.title.chars().count() <= 100);
    assert!(!figure.title.ends_with('.'), "{}", figure.title);
    assert!(!figure.title.contains("NaN") && !figure.title.contains("inf"));
    assert!(figure.table.rows.len() <= Table::MOST_ROWS, "{name}");
    let columns = figure.table.head.len();
    assert!(figure.table.rows.iter().all(|row| row.len() == columns));
    assert_eq!(figure.phone.width, 400);
    assert_eq!(figure.desk.width, if figure.pair { 438 } else { 900 });
    let file = |theme| chart::flow_file(&flowed.input(), name, theme).unwrap();
    for markup in [
        figure.desk.inline().as_str().to_owned(),
        figure.phone.inline().as_str().to_owned(),
        file(Theme::Light),
        file(Theme::Dark),
    ] {
        check_markup(&markup);
        assert!(markup.len() < 60_000, "{name}: {} bytes", markup.len());
    }
    assert!(!file(Theme::Dark).contains("=\"var("));
}

#[test]
fn every_figure_of_every_flow_is_a_chart_or_a_sentence() {
    for (run, flowed) in every_run() {
        let figures = chart::flow_figures(&flowed.input());
        assert!(!figures.is_empty(), "{run}");
        for figure in figures {
            check_figure(flowed, &figure);
            let svg = figure.desk.inline();
            let marks = [
                "<path",
                "<circle",
                "fill=\"var(--s1)\"",
                "fill=\"var(--bad)\"",
            ];
            let has = marks.iter().any(|mark| svg.as_str().contains(mark));
            assert_eq!(figure.empty.is_none(), has, "{run} {}", figure.name);
        }
    }
}

#[test]
fn flow_titles_state_the_finding() {
    for (run, name, expected) in [
        (
            "tier-1",
            "throughput",
            "The sum holds 74.8 of the documented 75 Gbit/s; the streams are 2.10 to 12.6 Gbit/s",
        ),
        (
            "tier-1",
            "streams",
            "Stream 4 takes 6.0 × as much as stream 3",
        ),
        (
            "tier-1",
            "rtt",
            "The load costs 1.70 ms of queue: the round trip rises from 0.22 ms to 1.92 ms",
        ),
        ("single", "throughput", "The stream holds 950 Mbit/s"),
        (
            "stopped",
            "throughput",
            "Stopped after 12 s of 30 s; no data from 8 s to 10 s",
        ),
        ("live", "throughput", "Throughput so far"),
        (
            "both",
            "throughput",
            "6.61 Gbit/s sent, at the same time 3.70 Gbit/s received",
        ),
        (
            "in-turn",
            "throughput",
            "6.61 Gbit/s sent, then 3.70 Gbit/s received",
        ),
        ("some-refused", "streams", "7 of 8 streams failed"),
        ("ping-one", "ping", "The one probe took 2.14 ms"),
        ("ping-dead", "ping", "None of 5 probes was answered"),
        (
            "ping-100",
            "ping",
            "Round trip 0.40 ms median, 2 of 100 lost",
        ),
    ] {
        let title = figure(run, name).title.replace('\u{202f}', " ");
        assert_eq!(title, expected, "{run} {name}");
    }
}

#[test]
fn the_documented_cap_is_drawn_dashed_with_its_words() {
    let figure = figure("tier-1", "throughput");
    for drawing in [&figure.desk, &figure.phone] {
        let svg = drawing.inline();
        assert!(svg.as_str().contains("stroke-dasharray=\"6 4\""));
        let texts = texts(&svg).join(" ");
        for words in ["cap 75", "sum 74.8", "stream 4:", "stream 3:", "Gbit/s"] {
            assert!(texts.contains(words), "{words} in {texts}");
        }
    }
}

#[test]
fn the_right_charts_apply() {
    for (run, expected) in [
        (
            "tier-1",
            &["throughput", "rtt", "streams", "retransmits"][..],
        ),
        ("single", &["throughput", "rtt", "retransmits"]),
        ("udp-in", &["throughput", "loss", "rtt"]),
        ("udp-out", &["throughput", "rtt"]),
        ("ping-100", &["ping"]),
    ] {
        let found: Vec<&str> = chart::flow_figures(&every_run()[run].input())
            .iter()
            .map(|figure| figure.name)
            .collect();
        assert_eq!(found, expected, "{run}");
    }
    let tier_1 = every_run()["tier-1"].input();
    assert!(chart::flow_figure(&tier_1, "ping").is_none());
    assert!(chart::flow_figure(&tier_1, "backends").is_none());
}

#[test]
fn empty_flow_charts_say_why() {
    for (run, name, expected) in [
        (
            "refused",
            "throughput",
            "No samples: the stream failed (connection refused).",
        ),
        ("ping-dead", "ping", "No answer: all 5 probes were lost."),
        (
            "udp-out",
            "loss",
            "The receiver tells its loss only at the end: 210 of 85 000 datagrams.",
        ),
        (
            "udp-in",
            "retransmits",
            "This kernel or direction does not tell what was sent again.",
        ),
    ] {
        let empty = figure(run, name).empty.unwrap().replace('\u{202f}', " ");
        assert_eq!(empty, expected, "{run}");
    }
}

#[test]
fn gaps_stay_gaps_and_what_was_not_measured_is_hatched() {
    for (run, words) in [
        ("stopped", "stopped after 12 s"),
        ("live", "not yet measured"),
    ] {
        let figure = figure(run, "throughput");
        let svg = figure.desk.inline();
        assert!(svg.as_str().contains("-h-grid)"), "{run}");
        assert!(texts(&svg).contains(&words.to_owned()), "{:?}", texts(&svg));
        // The thick line of the sum is in two pieces, before and after the hole.
        let sum = svg
            .as_str()
            .split('<')
            .find(|element| element.starts_with("path") && element.contains("stroke-width=\"2.2\""))
            .unwrap();
        assert_eq!(sum.matches('M').count(), 2, "{sum}");
    }
}

#[test]
fn a_short_last_step_is_no_plunge_at_the_end_of_the_line() {
    // The steps up and down of the drawn line, whose path goes by differences from its first corner on.
    let steps = |flowed: &Flowed| -> Vec<f64> {
        let figure = chart::flow_figure(&flowed.input(), "throughput").unwrap();
        let svg = figure.desk.inline();
        let line = svg.as_str().split('<').find(|element| {
            element.starts_with("path") && element.contains("stroke-width=\"2.2\"")
        });
        let path = line.unwrap().split("d=\"").nth(1).unwrap();
        let path = path[..path.find('"').unwrap()].replace('-', " -");
        let numbers: Vec<f64> = path
            .split([' ', ',', 'M', 'l'])
            .filter(|number| !number.is_empty())
            .map(|number| number.parse().unwrap())
            .collect();
        numbers[2..].iter().skip(1).step_by(2).copied().collect()
    };
    let whole = runs::single(30);
    let mut with_stub = runs::single(30);
    let end = with_stub.series.sums[0].points.last().unwrap().to_s;
    let lines = with_stub.series.lines.iter_mut();
    for line in with_stub.series.sums.iter_mut().chain(lines) {
        line.points.push(FlowPoint {
            from_s: end,
            to_s: end + 0.04,
            bytes: 1_448,
            ..FlowPoint::default()
        });
    }
    for flowed in [&whole, &with_stub] {
        let steps = steps(flowed);
        assert_eq!(steps.len(), 29, "{steps:?}");
        assert!(steps.iter().all(|step| step.abs() < 10.0), "{steps:?}");
    }
    // The data table has it as it was measured.
    let figure = chart::flow_figure(&with_stub.input(), "throughput").unwrap();
    assert_eq!(figure.table.rows.len(), 31);
}

#[test]
fn bars_of_received_streams_have_the_colour_of_their_lines() {
    let flowed = runs::throughput(
        &serde_json::json!({"streams": 2, "direction": "receive", "duration_s": 10}),
        0..10,
        &|_, stream, _| f64::from(stream) * 1e9,
        |_| {},
    );
    for name in ["throughput", "streams"] {
        let figure = chart::flow_figure(&flowed.input(), name).unwrap();
        let svg = figure.desk.inline();
        assert!(svg.as_str().contains("var(--s3)"), "{name}");
        assert!(!svg.as_str().contains("var(--s1)"), "{name}");
    }
}

#[test]
fn no_text_of_a_flow_lies_on_another_or_leaves_the_drawing() {
    for (run, flowed) in every_run() {
        for figure in chart::flow_figures(&flowed.input()) {
            for drawing in [&figure.desk, &figure.phone] {
                let boxes = boxes(&drawing.inline(), 12.0);
                for (index, (words, a)) in boxes.iter().enumerate() {
                    let inside = a[0] >= -2.0
                        && a[1] >= 0.0
                        && a[2] <= f64::from(drawing.width) + 2.0
                        && a[3] <= f64::from(drawing.height);
                    assert!(inside, "{run} {}: {words:?} at {a:?} leaves", figure.name);
                    for (other, b) in &boxes[index + 1..] {
                        let apart = a[2] <= b[0] || b[2] <= a[0] || a[3] <= b[1] || b[3] <= a[1];
                        assert!(apart, "{run} {}: {words:?} lies on {other:?}", figure.name);
                    }
                }
            }
        }
    }
}

#[test]
fn forty_payloads_as_reasons_and_hosts_leave_every_flow_chart_well_formed() {
    for payload in payloads() {
        for of in [1, 8] {
            let mut flowed = runs::failed(of);
            if let What::Throughput(plan, summary) = &mut flowed.what {
                plan.host.clone_from(&payload);
                for stream in &mut summary.streams {
                    stream.failed = stream.failed.take().map(|_| payload.clone());
                    stream.direction.clone_from(&payload);
                }
            }
            for name in &NAMES[..5] {
                let figure = chart::flow_figure(&flowed.input(), name).unwrap();
                check_figure(&flowed, &figure);
            }
        }
    }
}

#[test]
fn hostile_numbers_leave_every_flow_chart_well_formed() {
    let mut dice = crate::chart_runs::Dice::new(9);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a roll from 0 to 1"
    )]
    let mut roll = move |below: usize| (dice.roll() * below as f64) as usize;
    for round in 0..300_u32 {
        let one = round.is_multiple_of(3).then(|| HOSTILE_NUMBERS[roll(12)]);
        let count = [0, 1, 2, 5, 40, 250][roll(6)];
        let state = State::ALL[roll(7)];
        let mut number = || one.unwrap_or(HOSTILE_NUMBERS[roll(12)]);
        let series = hostile(&mut number, count);
        for run in ["tier-1", "both", "udp-in", "ping-100"] {
            let what = match &every_run()[run].what {
                What::Throughput(plan, summary) => {
                    let mut summary = summary.clone();
                    summary.bits_per_second = Some(number());
                    summary.fastest_to_slowest = Some(number());
                    (summary.rtt_ms.idle.median, summary.rtt_ms.loaded.median) =
                        (Some(number()), Some(number()));
                    for stream in &mut summary.streams {
                        stream.bits_per_second = Some(number());
                    }
                    What::Throughput(plan.clone(), summary)
                }
                What::Ping(plan, summary) => {
                    let mut summary = summary.clone();
                    summary.rtt_ms.figures.median = Some(number());
                    summary.rtt_ms.figures.max = Some(number());
                    What::Ping(plan.clone(), summary)
                }
            };
            let flowed = Flowed {
                what,
                series: series.clone(),
                state,
            };
            for name in NAMES {
                if let Some(figure) = chart::flow_figure(&flowed.input(), name) {
                    check_figure(&flowed, &figure);
                }
            }
        }
    }
}

/// A series whose every number is one of the worst.
fn hostile(number: &mut dyn FnMut() -> f64, count: usize) -> FlowSeries {
    let mut points = || -> Vec<FlowPoint> {
        (0..count)
            .map(|index| FlowPoint {
                from_s: if index % 2 == 0 {
                    index as f64
                } else {
                    number()
                },
                to_s: number(),
                bytes: u64::MAX >> (index % 64),
                retransmits: Some(u64::MAX >> (index % 64)),
                lost: Some(i64::MIN >> (index % 64)),
                received: Some(u64::MAX),
                jitter_ms: Some(number()),
                ..FlowPoint::default()
            })
            .collect()
    };
    let line = |way, stream, points| FlowLine {
        way,
        stream,
        points,
    };
    let sums = vec![
        line(Way::Send, 0, points()),
        line(Way::Receive, 0, points()),
    ];
    let lines = (1..=16)
        .map(|stream| line(Way::Send, stream, points()))
        .collect();
    let mut band = || BandMs {
        min: number(),
        p5: number(),
        p50: number(),
        p95: number(),
        p99: number(),
        max: number(),
    };
    let echo_bins = (0..count)
        .map(|index| EchoBin {
            from_s: band().min,
            to_s: band().max,
            sent: u64::MAX >> (index % 64),
            lost: 1,
            loaded: index % 3 > 0,
            rtt_ms: Some(band()),
        })
        .collect();
    let echo_histogram = (0..count.min(40))
        .map(|index| HistogramBucket {
            from_ms: band().min,
            to_ms: band().max,
            count: u64::MAX >> (index % 64),
        })
        .collect();
    let echoes = (0..count)
        .map(|index| EchoPoint {
            seq: 1,
            at_s: band().min,
            rtt_ms: Some(band().max),
            duplicates: u32::MAX,
            loaded: index % 2 == 0,
        })
        .collect();
    FlowSeries {
        sums,
        lines,
        echoes,
        echo_bins,
        echo_histogram,
        load_start_s: Some(number()),
        omit_s: number(),
        covers_s: number(),
        planned_s: Some(number()),
        cap_bits_per_second: Some(number()),
        ..FlowSeries::default()
    }
}

#[test]
fn flow_charts_stay_as_they_are() {
    for (run, name) in [
        ("tier-1", "throughput"),
        ("tier-1", "streams"),
        ("tier-1", "rtt"),
        ("tier-1", "retransmits"),
        ("stopped", "throughput"),
        ("both", "throughput"),
        ("udp-in", "loss"),
        ("some-refused", "streams"),
        ("refused", "throughput"),
        ("ping-100", "ping"),
        ("ping-one", "ping"),
    ] {
        let light = chart::flow_file(&every_run()[run].input(), name, Theme::Light).unwrap();
        golden(&format!("{run}-{name}.svg"), &light);
    }
    let dark = chart::flow_file(&every_run()["ping-100"].input(), "ping", Theme::Dark).unwrap();
    golden("ping-100-ping-dark.svg", &dark);
    let phone = figure("tier-1", "throughput").phone.inline();
    golden("tier-1-throughput-phone.svg", phone.as_str());
}
