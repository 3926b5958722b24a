//! Charts: what they say of real-looking runs, that nothing breaks them, and that they stay as they are.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "small made-up numbers"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::OnceLock;

use tidemark::chart::{self, Figure, Svg, Table, Theme};
use tidemark::measure::outcome::Outcome;
use tidemark::measure::run::State;
use tidemark::measure::series::{
    BandMs, Bin, Dot, HistogramBucket, HttpSeries, PercentilePoint, SplitMeans,
};
use tidemark::measure::summary::{Distribution, RateSummary, Summary};

use crate::chart_runs::{self as runs, Drawn, Made};

const NAMES: [&str; 6] = [
    "latency-over-time",
    "latency-percentiles",
    "latency-split",
    "backends",
    "replies-over-time",
    "latency-histogram",
];

/// All that a chart may consist of.
const ELEMENTS: [&str; 12] = [
    "svg", "title", "desc", "defs", "pattern", "g", "rect", "line", "path", "circle", "text",
    "tspan",
];

fn every_run() -> &'static BTreeMap<&'static str, Drawn> {
    static RUNS: OnceLock<BTreeMap<&'static str, Drawn>> = OnceLock::new();
    RUNS.get_or_init(|| {
        BTreeMap::from([
            ("overload", runs::overload()),
            ("stall", runs::stall(200.0)),
            ("million", runs::stall(20_000.0)),
            ("refused", runs::refused()),
            ("one", runs::steady(1)),
            ("two", runs::steady(2)),
            ("five", runs::steady(5)),
            ("four-hundred", runs::steady(400)),
            ("four-hundred-and-one", runs::steady(401)),
            ("nothing", runs::steady(0)),
            ("stopped", runs::stopped(State::Cancelled)),
            ("live", runs::stopped(State::Running)),
            ("users", runs::users()),
            ("fetch", runs::fetch()),
            ("crowd", runs::crowd()),
            ("dead", runs::dead()),
        ])
    })
}

fn figure(run: &str, name: &str) -> Figure {
    chart::figure(&every_run()[run].input(), name).unwrap()
}

/// Every form in which a figure leaves the program.
fn markups(drawn: &Drawn, figure: &Figure) -> Vec<String> {
    let file = |theme| chart::file(&drawn.input(), figure.name, theme).unwrap();
    vec![
        figure.desk.inline().as_str().to_owned(),
        figure.phone.inline().as_str().to_owned(),
        file(Theme::Light),
        file(Theme::Dark),
    ]
}

/// Parses the markup and holds it against everything that a chart must be.
pub fn check_markup(markup: &str) {
    let document = roxmltree::Document::parse(markup)
        .unwrap_or_else(|error| panic!("not XML: {error}\n{markup}"));
    let mut ids = BTreeSet::new();
    for node in document.descendants().filter(roxmltree::Node::is_element) {
        let name = node.tag_name().name();
        assert!(ELEMENTS.contains(&name), "<{name}> in a chart");
        for attribute in node.attributes() {
            let (key, value) = (attribute.name(), attribute.value());
            assert!(
                !key.starts_with("on") && !["href", "style", "src"].contains(&key),
                "{key} on <{name}>"
            );
            for bad in ["NaN", "inf", "javascript:", "data:", "http"] {
                assert!(!value.contains(bad), "{key}={value:?} on <{name}>");
            }
            if key == "id" {
                assert!(ids.insert(value.to_owned()), "id {value} twice");
            }
        }
        let number = |key: &str| -> Option<f64> { node.attribute(key)?.parse().ok() };
        for length in ["width", "height", "r"] {
            assert!(
                number(length).is_none_or(|length| length >= 0.0),
                "{length} of <{name}>"
            );
        }
    }
    let root = document.root_element();
    assert_eq!(root.attribute("role"), Some("img"));
    let labels: Vec<&str> = root
        .attribute("aria-labelledby")
        .unwrap()
        .split(' ')
        .collect();
    assert!(labels.len() == 2 && labels.iter().all(|label| ids.contains(*label)));
}

/// Everything that holds of every figure of every run.
fn check_figure(drawn: &Drawn, figure: &Figure) {
    let name = figure.name;
    assert!(NAMES.contains(&name));
    assert!(!figure.title.is_empty() && figure.title.chars().count() <= 100);
    assert!(
        !figure.title.ends_with('.') && !figure.title.contains("NaN"),
        "{}",
        figure.title
    );
    assert!(figure.table.rows.len() <= Table::MOST_ROWS);
    let columns = figure.table.head.len();
    assert!(figure.table.rows.iter().all(|row| row.len() == columns));
    assert_eq!(figure.phone.width, 400);
    assert_eq!(figure.desk.width, if figure.pair { 438 } else { 900 });
    for markup in markups(drawn, figure) {
        check_markup(&markup);
        assert!(markup.len() < 24_000, "{name}: {} bytes", markup.len());
    }
    let file = chart::file(&drawn.input(), name, Theme::Dark).unwrap();
    let document = roxmltree::Document::parse(&file).unwrap();
    let attributes = document.descendants().flat_map(|node| node.attributes());
    assert!(
        attributes
            .into_iter()
            .all(|attribute| !attribute.value().contains("var("))
    );
}

pub fn texts(svg: &Svg) -> Vec<String> {
    let document = roxmltree::Document::parse(svg.as_str()).unwrap();
    document
        .descendants()
        .filter(|node| node.has_tag_name("text"))
        .map(|node| {
            node.descendants()
                .filter_map(|part| part.text().filter(|_| part.is_text()))
                .collect::<String>()
                .replace('\u{202f}', " ")
        })
        .collect()
}

#[test]
fn every_figure_of_every_run_is_a_chart_or_a_sentence() {
    for (run, drawn) in every_run() {
        for figure in chart::figures(&drawn.input()) {
            check_figure(drawn, &figure);
            let marks = [
                "<path",
                "<circle",
                "fill=\"var(--s1)\"",
                "url(#",
                "var(--sky)",
            ];
            let drawn_marks = marks
                .iter()
                .any(|mark| figure.desk.inline().as_str().contains(mark));
            assert_eq!(figure.empty.is_none(), drawn_marks, "{run} {}", figure.name);
        }
    }
}

#[test]
fn titles_state_the_finding() {
    for (run, name, expected) in [
        (
            "overload",
            "latency-over-time",
            "From 68 s on every third request runs into the timeout",
        ),
        (
            "overload",
            "latency-percentiles",
            "Over the replies alone, the run looks twice as good as it was",
        ),
        (
            "overload",
            "latency-split",
            "The time goes into waiting at web-a3, not into the network",
        ),
        (
            "overload",
            "backends",
            "web-a3 stops answering; web-a1 and web-a2 never notice",
        ),
        (
            "overload",
            "replies-over-time",
            "81 % of the 13.0 requests offered per second are answered",
        ),
        (
            "stall",
            "latency-over-time",
            "A stall from 20 s to 22 s: up to 2 s instead of 2.11 ms",
        ),
        (
            "refused",
            "latency-over-time",
            "None of the 20 requests was answered",
        ),
        (
            "stopped",
            "latency-over-time",
            "Stopped after 12.4 s of 30 s; no reply from 5 s to 7 s",
        ),
        ("live", "latency-over-time", "Latency so far"),
        ("one", "latency-over-time", "The one request took 37.2 ms"),
        (
            "fetch",
            "latency-split",
            "73 % of 332 ms is waiting for the first byte",
        ),
    ] {
        assert_eq!(
            figure(run, name).title.replace('\u{202f}', " "),
            expected,
            "{run}"
        );
    }
}

#[test]
fn an_objective_and_the_timeout_are_drawn_with_their_words() {
    let figure = figure("overload", "latency-over-time");
    for drawing in [&figure.desk, &figure.phone] {
        let texts = texts(&drawing.inline());
        for words in ["p95 < 1 s", "p95 10 s", "372 timeouts", "10 s", "500 ms"] {
            assert!(
                texts.iter().any(|text| text.starts_with(words)),
                "{words} in {texts:?}"
            );
        }
    }
}

#[test]
fn what_was_not_measured_is_hatched_and_said() {
    for (run, words) in [
        ("stopped", "stopped after 12.4 s"),
        ("live", "not yet measured"),
    ] {
        for figure in chart::live(&every_run()[run].input()) {
            for drawing in [&figure.desk, &figure.phone] {
                let svg = drawing.inline();
                assert!(svg.as_str().contains("-h-grid)"), "{run} {}", figure.name);
                assert!(
                    texts(&svg).contains(&words.to_owned()),
                    "{run} {}",
                    figure.name
                );
            }
        }
    }
    assert!(
        !figure("overload", "latency-over-time")
            .desk
            .inline()
            .as_str()
            .contains("h-grid")
    );
}

#[test]
fn up_to_four_hundred_requests_are_dots_and_more_are_bands() {
    let dots = figure("four-hundred", "latency-over-time").desk.inline();
    assert_eq!(dots.as_str().matches("h0").count(), 400);
    let band = figure("four-hundred-and-one", "latency-over-time")
        .desk
        .inline();
    assert!(band.as_str().contains("opacity=\"0.17\"") && !band.as_str().contains("h0"));
    let one = figure("one", "latency-over-time").desk.inline();
    assert!(one.as_str().matches("h0").count() == 1 && texts(&one).contains(&"37.2 ms".to_owned()));
}

#[test]
fn a_percentile_curve_ends_where_its_requests_end() {
    for (run, last, absent) in [
        ("four-hundred", "99 %", "99.9 %"),
        ("million", "99.999 %", "99.9999 %"),
    ] {
        let texts = texts(&figure(run, "latency-percentiles").desk.inline());
        assert!(
            texts.contains(&last.to_owned()) && !texts.contains(&absent.to_owned()),
            "{texts:?}"
        );
    }
}

#[test]
fn empty_charts_say_why() {
    for (run, name, expected) in [
        (
            "refused",
            "latency-over-time",
            "No samples: all 20 requests were refused. See Outcomes.",
        ),
        (
            "refused",
            "latency-histogram",
            "No samples: all 20 requests were refused. See Outcomes.",
        ),
        (
            "one",
            "latency-percentiles",
            "1 request: 37.2 ms. One value has no distribution.",
        ),
        (
            "stall",
            "backends",
            "No reply names its backend (X-Served-By).",
        ),
    ] {
        let empty = figure(run, name).empty.unwrap().replace('\u{202f}', " ");
        assert_eq!(empty, expected, "{run}");
    }
    assert!(figure("nothing", "replies-over-time").empty.is_some());
}

/// Texts of one drawing as boxes, from the letters' usual widths.
pub fn boxes(svg: &Svg, size: f64) -> Vec<(String, [f64; 4])> {
    let document = roxmltree::Document::parse(svg.as_str()).unwrap();
    let place = |node: &roxmltree::Node<'_, '_>, key: &str| -> f64 {
        node.attribute(key).unwrap().parse().unwrap()
    };
    document
        .descendants()
        .filter(|node| node.has_tag_name("text"))
        .map(|node| {
            let words: String = node
                .descendants()
                .filter_map(|part| part.text().filter(|_| part.is_text()))
                .collect();
            let wide = words
                .chars()
                .map(|letter| {
                    if ".,:' il".contains(letter) {
                        0.28
                    } else if letter == '\u{202f}' {
                        0.2
                    } else {
                        0.52
                    }
                })
                .sum::<f64>()
                * size;
            let (x, y) = (place(&node, "x"), place(&node, "y"));
            let left = match node.attribute("text-anchor") {
                Some("middle") => x - wide / 2.0,
                Some("end") => x - wide,
                _ => x,
            };
            (words, [left, y - 0.7 * size, left + wide, y + 0.2 * size])
        })
        .collect()
}

#[test]
fn no_text_lies_on_another_or_leaves_the_drawing() {
    for (run, drawn) in every_run() {
        for figure in chart::figures(&drawn.input()) {
            for drawing in [&figure.desk, &figure.phone] {
                let boxes = boxes(&drawing.inline(), 12.0);
                for (index, (words, a)) in boxes.iter().enumerate() {
                    let inside = a[0] >= -2.0
                        && a[1] >= 0.0
                        && a[2] <= f64::from(drawing.width) + 2.0
                        && a[3] <= f64::from(drawing.height);
                    assert!(
                        inside,
                        "{run} {}: {words:?} at {a:?} leaves the drawing",
                        figure.name
                    );
                    for (other, b) in &boxes[index + 1..] {
                        let apart = a[2] <= b[0] || b[2] <= a[0] || a[3] <= b[1] || b[3] <= a[1];
                        assert!(apart, "{run} {}: {words:?} lies on {other:?}", figure.name);
                    }
                }
            }
        }
    }
}

pub const HOSTILE_NUMBERS: [f64; 12] = [
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    0.0,
    -0.0,
    -1.0,
    5.0,
    5.000_000_000_001,
    1e300,
    -1e300,
    f64::MIN_POSITIVE,
    f64::MAX,
];

pub fn payloads() -> Vec<String> {
    let mut payloads: Vec<String> = [
        "<script>alert(1)</script>",
        "\"><script>alert(1)</script>",
        "'><img src=x onerror=alert(1)>",
        "</text><script>alert(1)</script>",
        "</svg><svg onload=alert(1)>",
        "]]><script>alert(1)</script>",
        "<![CDATA[<script>]]>",
        "<!--",
        "-->",
        "&lt;script&gt;",
        "&#60;script&#62;",
        "&amp;amp;",
        "&",
        "&nosuch;",
        "<?xml version=\"1.0\"?>",
        "<!DOCTYPE svg [<!ENTITY x SYSTEM \"file:///etc/passwd\">]>",
        "javascript:alert(1)",
        "=\"var(--s1)\"",
        "\" fill=\"var(--s1)\" onclick=\"alert(1)",
        "url(#h-bad)",
        "=\"url(#h-bad)\"",
        " class=\"strong\"",
        "\u{0}",
        "a\u{1}b\u{8}c",
        "\u{1b}[2J\u{1b}[31m",
        "line\nbreak\r\nhere",
        "tab\there",
        "\u{202e}gnp.exe",
        "\u{200b}\u{feff}",
        "\u{2028}\u{2029}",
        "\u{fffe}\u{ffff}",
        "𝒽𝑒𝓁𝓁𝑜 🏴‍☠️",
        "Zürich-東京",
        "مرحبا",
        "{{7*7}}",
        "${7*7}",
        "%3Cscript%3E",
        "<foreignObject><body onload=alert(1)>",
        "<style>*{display:none}</style>",
        "<a href=\"javascript:alert(1)\">x</a>",
    ]
    .map(str::to_owned)
    .to_vec();
    payloads.push("<b>".repeat(2000));
    payloads
}

#[test]
fn forty_payloads_as_names_leave_every_chart_well_formed() {
    for payload in payloads() {
        for crowd in [1, 12] {
            let made: Vec<Made> = (0..600)
                .map(|index| Made {
                    by: Some(
                        format!(
                            "{}{payload}",
                            if crowd == 1 {
                                String::new()
                            } else {
                                (index % crowd).to_string()
                            }
                        )
                        .into(),
                    ),
                    compute_ms: 20.0,
                    queue_ms: 10.0,
                    ..Made::ok(f64::from(index) / 20.0, 40.0 + f64::from(index % 7))
                })
                .collect();
            let mut drawn = runs::folded(&runs::rate_plan(20.0, 600), &made, State::Finished, 30.1);
            drawn.objectives = vec![
                runs::objective(&payload),
                runs::objective(&format!("{payload}<500ms")),
                runs::objective("p99<45ms"),
            ];
            for figure in chart::figures(&drawn.input()) {
                check_figure(&drawn, &figure);
            }
        }
    }
}

#[test]
fn hostile_numbers_leave_every_chart_well_formed() {
    let mut dice = runs::Dice::new(7);
    for round in 0..400 {
        let drawn = hostile(&mut dice, round);
        for name in NAMES {
            let figure = chart::figure(&drawn.input(), name).unwrap();
            check_figure(&drawn, &figure);
        }
    }
}

/// A run whose every number is one of the worst.
#[expect(clippy::too_many_lines, reason = "one field after another")]
fn hostile(dice: &mut runs::Dice, round: usize) -> Drawn {
    let mut roll = |below: usize| (dice.roll() * below as f64) as usize;
    // Every third round all numbers are the same one.
    let one = (round.is_multiple_of(3)).then(|| HOSTILE_NUMBERS[roll(12)]);
    let count = [0, 1, 2, 5, 40, 250][roll(6)];
    let states = State::ALL[roll(7)];
    let mut number = || one.unwrap_or(HOSTILE_NUMBERS[roll(12)]);
    let mut band = || BandMs {
        min: number(),
        p5: number(),
        p50: number(),
        p95: number(),
        p99: number(),
        max: number(),
    };
    let bins: Vec<Bin> = (0..count)
        .map(|index| Bin {
            start_s: if round.is_multiple_of(2) {
                index as f64
            } else {
                band().min
            },
            requests: 3,
            replies: 2,
            outcomes: BTreeMap::from([(Outcome::Ok, 2), (Outcome::TtfbTimeout, 1)]),
            served_by: BTreeMap::from([("a".to_owned(), 1), ("b".to_owned(), u64::MAX >> 20)]),
            latency_ms: Some(band()),
            ended_replies: 2,
            ended_errors: 1,
            ended_lost: 1,
            ..Bin::default()
        })
        .collect();
    let dots = (0..count)
        .map(|_| {
            let band = band();
            Dot {
                at_s: band.min,
                latency_ms: band.p50,
                outcome: Outcome::ALL[count % 23],
            }
        })
        .collect();
    let percentiles: Vec<PercentilePoint> = (0..count)
        .map(|_| {
            let band = band();
            PercentilePoint {
                share: band.min,
                latency_ms: Some(band.p50),
                censored: band.p5 > 0.0,
            }
        })
        .collect();
    let histogram = (0..count.min(60))
        .map(|_| {
            let band = band();
            HistogramBucket {
                from_ms: band.min,
                to_ms: band.p50,
                count: 7,
            }
        })
        .collect();
    let means = band();
    let split = SplitMeans {
        replies: 5,
        lateness_ms: means.min,
        connect_ms: means.p5,
        tls_ms: means.p50,
        queue_ms: Some(means.p95),
        compute_ms: Some(means.p99),
        transfer_ms: means.max,
        rest_ms: means.min,
    };
    let figures = band();
    let latency = Distribution {
        median: Some(figures.p50),
        p50: Some(figures.p50),
        p90: Some(figures.p95),
        p95: Some(figures.p95),
        p99: Some(figures.p99),
        max: Some(figures.max),
        ..Distribution::default()
    };
    let ends = band();
    let few = round.is_multiple_of(4);
    let outcomes = BTreeMap::from([
        ("ok".to_owned(), if few { 3 } else { 900 }),
        ("ttfb_timeout".to_owned(), (round % 5) as u64),
    ]);
    let mut drawn = runs::steady(1);
    drawn.state = states;
    drawn.summary = Summary::Rate(Box::new(RateSummary {
        outcomes,
        latency_ms: latency,
        ..RateSummary::default()
    }));
    drawn.series = HttpSeries {
        bins,
        bin_width_s: ends.min,
        dots: few.then_some(dots),
        percentiles_all: percentiles.clone(),
        percentiles_replies: percentiles,
        histogram,
        split: BTreeMap::from([("a".to_owned(), split.clone()), (String::new(), split)]),
        no_reply: 1,
        covers_s: ends.p50,
        planned_s: Some(ends.max),
    };
    drawn
}

#[test]
fn charts_stay_as_they_are() {
    for (run, name) in [
        ("overload", "latency-over-time"),
        ("overload", "latency-percentiles"),
        ("overload", "latency-split"),
        ("overload", "backends"),
        ("overload", "replies-over-time"),
        ("overload", "latency-histogram"),
        ("stopped", "latency-over-time"),
        ("four-hundred", "latency-over-time"),
        ("refused", "latency-over-time"),
        ("fetch", "latency-split"),
    ] {
        let light = chart::file(&every_run()[run].input(), name, Theme::Light).unwrap();
        golden(&format!("{run}-{name}.svg"), &light);
    }
    let dark = chart::file(&every_run()["overload"].input(), "backends", Theme::Dark).unwrap();
    golden("overload-backends-dark.svg", &dark);
    let phone = figure("overload", "latency-over-time").phone.inline();
    golden("overload-latency-over-time-phone.svg", phone.as_str());
}

pub fn golden(name: &str, actual: &str) {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests/it/golden/chart", name]
        .iter()
        .collect();
    // One element a line, so that a difference can be read.
    let actual = format!("{}\n", actual.trim_end().replace("><", ">\n<"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &actual).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    let line = actual
        .lines()
        .zip(expected.lines())
        .position(|(a, b)| a != b);
    assert!(
        actual == expected,
        "{name} differs from line {:?} on; UPDATE_GOLDEN=1 rewrites it if the change is meant",
        line.map(|line| line + 1)
    );
}
