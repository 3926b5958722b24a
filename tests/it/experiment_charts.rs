//! Charts of experiments: what they say, that nothing breaks them, and that they stay as they are.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tidemark::chart::{self, ExperimentChartInput, Figure, Theme};
use tidemark::measure::experiment::{Experiment, Spec};
use tidemark::measure::fold::Series;
use tidemark::measure::series::{BandMs, Bin, HttpSeries, PercentilePoint};
use tidemark::measure::summary::Summary;

use crate::chart::{HOSTILE_NUMBERS, check_markup, golden};
use crate::support::experiments::{self, Made};

/// An experiment that can lend a chart its input.
struct Drawn {
    experiment: Experiment,
    spec: Spec,
    series: BTreeMap<i64, Series>,
}

impl Drawn {
    fn new((asked, made): (Value, Vec<Made>)) -> Self {
        let (experiment, spec) = experiments::experiment(&asked, &made);
        let series = chart::wanted_series(&experiment, &spec)
            .into_iter()
            .filter_map(|run| {
                let point = experiment.points.iter().find(|point| point.run == run)?;
                let Some(Summary::Rate(rate)) = &point.summary else {
                    return None;
                };
                let climb = rate.offered_per_s? > 5.5;
                Some((run, series(rate.latency_ms.p50?, climb)))
            })
            .collect();
        Self {
            experiment,
            spec,
            series,
        }
    }

    fn input(&self) -> ExperimentChartInput<'_> {
        ExperimentChartInput {
            experiment: &self.experiment,
            spec: &self.spec,
            series: &self.series,
        }
    }

    fn figures(&self) -> Vec<Figure> {
        chart::experiment_figures(&self.input())
    }

    fn figure(&self, name: &str) -> Figure {
        chart::experiment_figure(&self.input(), name).unwrap_or_else(|| panic!("no {name}"))
    }
}

/// What was kept of each request of a run with this median: flat, or climbing from a fifth of it.
fn series(median: f64, climb: bool) -> Series {
    let at = |share: f64| PercentilePoint {
        share,
        latency_ms: Some(median * (0.6 + 0.8 * share)),
        censored: false,
    };
    let shares = [0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99];
    let bins = (0..20_u8).map(|step| {
        let share = f64::from(step) / 19.0;
        let p50 = if climb {
            median * (0.2 + 1.6 * share)
        } else {
            median
        };
        Bin {
            start_s: f64::from(step) * 5.0,
            requests: 25,
            replies: 25,
            latency_ms: Some(BandMs {
                min: p50 * 0.8,
                p5: p50 * 0.85,
                p50,
                p95: p50 * 1.2,
                p99: p50 * 1.3,
                max: p50 * 1.4,
            }),
            ..Bin::default()
        }
    });
    Series::Http(HttpSeries {
        bins: bins.collect(),
        bin_width_s: 5.0,
        percentiles_replies: shares.map(at).to_vec(),
        covers_s: 100.0,
        ..HttpSeries::default()
    })
}

fn throughput_sweep(caps: bool) -> (Value, Vec<Made>) {
    let asked = json!({
        "base": {"kind": "throughput", "host": "10.0.0.2"}, "vary": {"streams": [1, 4, 8, 16]}, "repeat": 3,
    });
    let made = [0.52, 0.96, 0.98, 0.97]
        .into_iter()
        .flat_map(|share| [1.0, 0.99, 0.97].map(|noise| share * noise * 16e9))
        .map(|rate| Ok(experiments::throughput(rate, caps.then_some(16e9))));
    (asked, made.collect())
}

fn pair(factor: f64) -> (Value, Vec<Made>) {
    let plan = |host: &str| json!({"kind": "throughput", "host": host});
    let asked = json!({"paired": {"a": plan("10.0.0.2"), "b": plan("192.0.2.2")}, "repeat": 5});
    let made = (0..5_u8).flat_map(|pair| {
        let a = 2e9 * (1.0 + f64::from(pair % 3) * 0.02);
        [a, a * factor * (1.0 + f64::from(pair % 2) * 0.01)]
            .map(|rate| Ok(experiments::throughput(rate, None)))
    });
    (asked, made.collect())
}

fn pings(repeats: usize) -> (Value, Vec<Made>) {
    let asked = json!({
        "base": {"kind": "ping", "host": "127.0.0.1", "count": 2, "interval_s": 0.1}, "repeat": repeats,
    });
    let made = (0..repeats).map(|repeat| {
        if repeat % 97 == 96 {
            Err("None of 2 probes was answered.")
        } else {
            Ok(experiments::ping(0.3 + (repeat * 37 % 23) as f64 * 0.004))
        }
    });
    (asked, made.collect())
}

/// The first run of them alone, or none.
fn first_of((asked, mut made): (Value, Vec<Made>), runs: usize) -> (Value, Vec<Made>) {
    made.truncate(runs);
    (asked, made)
}

fn with_gap((asked, mut made): (Value, Vec<Made>), place: usize) -> (Value, Vec<Made>) {
    made[place] = Err("All 500 requests ended as connect_refused.");
    (asked, made)
}

fn every() -> BTreeMap<&'static str, Drawn> {
    let all_failed = |(asked, made): (Value, Vec<Made>)| {
        let made = made
            .iter()
            .map(|_| Err("Nothing answered <b>here</b>."))
            .collect();
        (asked, made)
    };
    [
        ("sweep", experiments::lab_sweep()),
        ("sweep-gap", with_gap(experiments::lab_sweep(), 1)),
        ("sweep-one", first_of(experiments::lab_sweep(), 1)),
        ("sweep-none", first_of(experiments::lab_sweep(), 0)),
        ("sweep-failed", all_failed(experiments::lab_sweep())),
        ("series", experiments::lab_series()),
        ("series-gap", with_gap(experiments::lab_series(), 2)),
        ("series-one", first_of(experiments::lab_series(), 1)),
        ("series-failed", all_failed(experiments::lab_series())),
        ("streams", throughput_sweep(true)),
        ("streams-free", throughput_sweep(false)),
        ("streams-gap", with_gap(throughput_sweep(true), 0)),
        ("pair", pair(0.5)),
        ("pair-same", pair(1.0)),
        ("pair-one", first_of(pair(0.5), 2)),
        ("pair-half", first_of(pair(0.5), 1)),
        ("pair-gap", with_gap(pair(0.5), 3)),
        ("pings-30", pings(30)),
        ("pings-100", pings(100)),
        ("pings-1000", pings(1_000)),
    ]
    .into_iter()
    .map(|(name, made)| (name, Drawn::new(made)))
    .collect()
}

fn plain(text: &str) -> String {
    text.replace(['\u{a0}', '\u{202f}'], " ")
}

#[test]
fn every_chart_of_every_experiment_is_whole_and_small() {
    for (name, drawn) in every() {
        let figures = drawn.figures();
        assert!(!figures.is_empty(), "{name}");
        for figure in figures {
            let of = format!("{name}/{}", figure.name);
            assert!(
                !figure.title.is_empty() && figure.title.chars().count() <= 100,
                "{of}: {}",
                figure.title
            );
            assert!(figure.table.rows.len() <= chart::Table::MOST_ROWS, "{of}");
            for row in &figure.table.rows {
                assert_eq!(row.len(), figure.table.head.len(), "{of}");
            }
            let file = |theme| chart::experiment_file(&drawn.input(), figure.name, theme).unwrap();
            for markup in [
                figure.desk.inline().as_str().to_owned(),
                figure.phone.inline().as_str().to_owned(),
                file(Theme::Light),
                file(Theme::Dark),
            ] {
                check_markup(&markup);
                assert!(markup.len() < 60_000, "{of}: {}", markup.len());
            }
            assert!(!file(Theme::Dark).contains("var("), "{of}");
        }
    }
}

#[test]
fn each_kind_of_experiment_has_its_charts() {
    let all = every();
    let names = |name: &str| -> Vec<&str> { all[name].figures().iter().map(|f| f.name).collect() };
    assert_eq!(
        names("sweep"),
        [
            "latency-vs-rate",
            "offered-vs-achieved",
            "drift",
            "lateness"
        ]
    );
    assert_eq!(names("series"), ["series"]);
    assert_eq!(names("streams"), ["bars"]);
    assert_eq!(names("pair"), ["paired"]);
    assert_eq!(names("pings-30"), ["series", "run-chart"]);
    assert_eq!(names("pings-1000"), ["run-chart"]);
    assert!(chart::experiment_figure(&all["sweep"].input(), "paired").is_none());
    assert!(chart::experiment_figure(&all["sweep"].input(), "nonsense").is_none());
}

#[test]
fn titles_state_the_finding() {
    let all = every();
    for (of, name, words) in [
        (
            "sweep",
            "latency-vs-rate",
            "Latency holds up to 5 req/s; at 7 req/s the median is 22.4 × as long",
        ),
        (
            "sweep",
            "offered-vs-achieved",
            "Of 7.0 a second offered it answers 5.3; it never answers more than 5.3",
        ),
        (
            "sweep",
            "drift",
            "At 7 req/s requests wait longer and longer",
        ),
        ("sweep", "lateness", "The generator was on time"),
        (
            "series",
            "series",
            "Settled at repeat 4: median 7.35 s → 669 ms",
        ),
        ("series-one", "series", "One repeat: median 7.35 s"),
        (
            "streams",
            "bars",
            "15.5 Gbit/s at streams 8, 97 % of the documented cap",
        ),
        (
            "streams-free",
            "bars",
            "15.5 Gbit/s at streams 8, 8.21 Gbit/s at streams 1",
        ),
        (
            "pair",
            "paired",
            "b has 0.50 × the throughput of a (95 %: 0.50 to 0.5",
        ),
        ("pair-same", "paired", "No difference is shown"),
        (
            "pair-one",
            "paired",
            "One pair: b has 0.50 × the throughput of a",
        ),
        ("pings-100", "run-chart", "99 repeats: median"),
    ] {
        let title = plain(&all[of].figure(name).title);
        assert!(title.starts_with(words), "{of}/{name}: {title}");
    }
}

#[test]
fn what_was_not_measured_is_a_sentence_or_a_cross_and_never_zero() {
    let all = every();
    for (of, words) in [
        ("sweep-none", "No run has ended yet."),
        ("sweep-failed", "No run has figures: Nothing answered"),
        ("series-failed", "No run has figures"),
    ] {
        for figure in all[of].figures() {
            let empty = figure
                .empty
                .unwrap_or_else(|| panic!("{of}/{}", figure.name));
            assert!(empty.starts_with(words), "{of}/{}: {empty}", figure.name);
        }
    }
    let gap = all["sweep-gap"].figure("latency-vs-rate");
    assert_eq!(gap.table.rows[1][2], "", "no median");
    assert!(
        gap.desk.inline().as_str().contains("stroke=\"var(--bad)\""),
        "a cross"
    );
    let gap = all["series-gap"].figure("series");
    assert_eq!(gap.table.rows[2][4], "failed");
    // Two of the three runs of the first value are left; the average is theirs.
    let gap = all["streams-gap"].figure("bars");
    assert_eq!(gap.table.rows[0][1], "2");
}

#[test]
fn hostile_figures_break_nothing() {
    for number in HOSTILE_NUMBERS {
        for (of, (asked, mut made)) in [
            ("sweep", experiments::lab_sweep()),
            ("series", experiments::lab_series()),
            ("pair", pair(0.5)),
            ("streams", throughput_sweep(true)),
        ] {
            let Ok(summary) = &mut made[0] else { continue };
            match summary {
                Summary::Rate(rate) => {
                    rate.latency_ms.median = Some(number);
                    rate.latency_ms.p50 = Some(number);
                    rate.latency_ms.p99 = Some(-number);
                    rate.latency_ms.max = Some(number);
                    rate.lateness_ms.p99 = Some(number);
                    rate.achieved_per_s = Some(number);
                }
                Summary::Throughput(flow) => {
                    flow.bits_per_second = Some(number);
                    flow.egress_cap_bits_per_second = Some(number);
                }
                _ => {}
            }
            for figure in Drawn::new((asked, made)).figures() {
                check_markup(figure.desk.inline().as_str());
                check_markup(figure.phone.inline().as_str());
                assert!(!figure.title.contains("NaN"), "{of}: {}", figure.title);
            }
        }
    }
}

#[test]
fn the_drawings_stay_as_they_are() {
    let all = every();
    for (of, name) in [
        ("sweep", "latency-vs-rate"),
        ("sweep", "offered-vs-achieved"),
        ("sweep", "drift"),
        ("series", "series"),
        ("streams", "bars"),
        ("pair", "paired"),
        ("pings-100", "run-chart"),
    ] {
        let figure = all[of].figure(name);
        golden(
            &format!("experiment-{of}-{name}.svg"),
            figure.desk.inline().as_str(),
        );
    }
    let phone = all["sweep"].figure("latency-vs-rate").phone;
    golden(
        "experiment-sweep-latency-vs-rate-phone.svg",
        phone.inline().as_str(),
    );
    let dark = chart::experiment_file(&all["series"].input(), "series", Theme::Dark).unwrap();
    golden("experiment-series-series-dark.svg", &dark);
}
