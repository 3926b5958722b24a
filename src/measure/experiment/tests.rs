//! Experiments: what is taken and refused, in which order runs come, and what they show together.

use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;
use crate::measure::plan::{Caps, FieldError};
use crate::measure::run::State;
use crate::measure::summary::{Distribution, RateSummary, Summary};

fn read(value: &Value) -> Result<Spec, Vec<FieldError>> {
    Spec::from_json(value.as_object().unwrap(), &Caps::default())
}

fn rate() -> Value {
    json!({"kind": "rate", "url": "http://127.0.0.1:8000/", "rate": 5, "num_conns": 100})
}

/// The experiment must be refused on this field with these words, in whole sentences.
fn refused(value: &Value, field: &str, words: &str) {
    let errors = read(value).expect_err(&value.to_string());
    assert!(
        errors
            .iter()
            .any(|error| error.field == field && error.message.contains(words)),
        "{value}: {errors:?} lack {words:?} on {field}"
    );
    for error in errors {
        assert!(error.message.ends_with('.'), "{}", error.message);
    }
}

/// The runs in order, as point and repeat in words.
fn runs(spec: &Spec) -> Vec<String> {
    let mut driver = spec.driver();
    let mut out = Vec::new();
    loop {
        match driver.next(None) {
            Next::Run(step) => {
                let arm = Arm {
                    point: step.point,
                    plan: step.plan,
                };
                out.push(format!("{}#{}", arm.label(), step.repeat));
            }
            Next::Pause(pause) => out.push(format!("pause {}", pause.as_secs_f64())),
            Next::Done => return out,
        }
    }
}

#[test]
fn values_run_in_the_order_asked_for() {
    let mut sweep = json!({"base": rate(), "vary": {"rate": [4, 7]}, "repeat": 2});
    let spec = read(&sweep).unwrap();
    assert_eq!(spec.kind(), ExperimentKind::Sweep);
    assert_eq!(
        runs(&spec),
        ["rate 4#1", "rate 4#2", "rate 7#1", "rate 7#2"]
    );
    sweep["order"] = "interleaved".into();
    sweep["pause_s"] = 0.5.into();
    assert_eq!(
        runs(&read(&sweep).unwrap()),
        [
            "rate 4#1",
            "pause 0.5",
            "rate 7#1",
            "pause 0.5",
            "rate 4#2",
            "pause 0.5",
            "rate 7#2"
        ]
    );
    let series = read(&json!({"base": rate(), "repeat": 3})).unwrap();
    assert_eq!(series.kind(), ExperimentKind::Series);
    assert_eq!(runs(&series), ["#1", "#2", "#3"]);
    let pair = read(&json!({"paired": {"a": rate(), "b": rate()}, "repeat": 2})).unwrap();
    assert_eq!(pair.kind(), ExperimentKind::Paired);
    assert_eq!(runs(&pair), ["a#1", "b#1", "a#2", "b#2"]);
}

#[test]
fn a_line_is_a_base_and_two_fields_are_combined() {
    let spec = read(&json!({
        "base": "iperf -c 127.0.0.1 -t 1",
        "vary": {"streams": [1, 4], "window_bytes": [65_536, 131_072]},
    }))
    .unwrap();
    let labels: Vec<String> = spec.arms().iter().map(Arm::label).collect();
    assert_eq!(
        labels,
        [
            "streams 1, window_bytes 65536",
            "streams 1, window_bytes 131072",
            "streams 4, window_bytes 65536",
            "streams 4, window_bytes 131072",
        ]
    );
    assert_eq!(spec.arms()[2].plan.to_json()["streams"], 4);
    assert_eq!(spec.target(), "127.0.0.1:5001");
}

#[test]
fn a_varied_field_may_be_missing_in_the_base_and_replaces_its_rivals() {
    let spec = read(&json!({
        "base": {"kind": "rate", "url": "http://127.0.0.1:8000/", "num_conns": 100},
        "vary": {"rate": [4, 5]},
    }))
    .unwrap();
    assert_eq!(spec.arms()[1].plan.to_json()["rate"], 5);
    let spec = read(&json!({"base": rate(), "vary": {"duration_s": [1, 2]}})).unwrap();
    assert_eq!(spec.arms()[0].plan.to_json()["duration_s"], 1);
    assert_eq!(spec.arms()[0].plan.to_json().get("num_conns"), None);
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn what_cannot_be_is_refused_on_its_field() {
    let base = rate();
    for (value, field, words) in [
        (json!({}), "base", "base is missing"),
        (json!({"base": base, "paired": {}}), "paired", "either base"),
        (json!({"base": 5}), "base", "must be a plan, or a line"),
        (json!({"base": "httperf --nonsense"}), "base", "--nonsense"),
        (
            json!({"base": {"kind": "rate", "rate": 1, "num_conns": 1}}),
            "base.url",
            "URL",
        ),
        (
            json!({"base": base, "vary": {}}),
            "vary",
            "one or two fields",
        ),
        (
            json!({"base": base, "vary": [4, 5]}),
            "vary",
            "one or two fields",
        ),
        (
            json!({"base": base, "vary": {"rate": 4}}),
            "vary.rate",
            "are a list",
        ),
        (
            json!({"base": base, "vary": {"rate": []}}),
            "vary.rate",
            "are a list",
        ),
        (
            json!({"base": base, "vary": {"rate": [4, 4.0]}}),
            "vary.rate",
            "4 stands twice",
        ),
        (
            json!({"base": base, "vary": {"rate": [[4, 5]]}}),
            "vary.rate",
            "a number, a text",
        ),
        (
            json!({"base": base, "vary": {"ratee": [4]}}),
            "vary.ratee",
            "has no field ratee",
        ),
        (
            json!({"base": base, "vary": {"kind": ["users"]}}),
            "vary.kind",
            "cannot be varied",
        ),
        (
            json!({"base": base, "vary": {"rate": [4, 200_000]}}),
            "vary.rate",
            "With rate 200000",
        ),
        (
            json!({"base": base, "vary": {"rate": [1], "seed": [1], "num_calls": [1]}}),
            "vary",
            "At most two",
        ),
        (
            json!({"base": base, "vary": {"rate": (1..=101).collect::<Vec<_>>()}}),
            "vary",
            "101 combinations",
        ),
        (json!({"base": base, "repeat": 0}), "repeat", "from 1 to"),
        (
            json!({"base": base, "repeat": 1.5}),
            "repeat",
            "whole number",
        ),
        (
            json!({"base": base, "vary": {"rate": [1, 2]}, "repeat": 6000}),
            "repeat",
            "12000 runs",
        ),
        (json!({"base": base, "pause_s": -1}), "pause_s", "from 0 to"),
        (
            json!({"base": base, "pause_s": 3600, "repeat": 200}),
            "repeat",
            "days",
        ),
        (
            json!({"base": base, "order": "random"}),
            "order",
            "interleaved",
        ),
        (
            json!({"base": base, "repeats": 3}),
            "repeats",
            "has no field repeats",
        ),
        (json!({"paired": {"a": base}}), "paired.b", "missing"),
        (
            json!({"paired": {"a": base, "b": base, "c": base}}),
            "paired.c",
            "no plan c",
        ),
        (
            json!({"paired": {"a": base, "b": base}, "vary": {"rate": [1]}}),
            "vary",
            "not varied",
        ),
        (
            json!({"paired": {"a": base, "b": base}, "order": "given"}),
            "order",
            "take turns",
        ),
        (
            json!({"paired": {"a": base, "b": {"kind": "ping", "host": "127.0.0.1"}}}),
            "paired.b",
            "of one kind",
        ),
        (
            json!({"paired": {"a": base, "b": {"kind": "rate", "url": "http://h/", "rate": -1, "num_conns": 1}}}),
            "paired.b.rate",
            "at least",
        ),
    ] {
        refused(&value, field, words);
    }
}

#[test]
fn the_estimate_adds_up_what_can_be_told() {
    // 100 connections at 4 and at 10 a second, twice, with three pauses of 2 s.
    let spec = read(&json!({"base": rate(), "vary": {"rate": [4, 10]}, "repeat": 2, "pause_s": 2}))
        .unwrap();
    let found = estimate(&spec);
    assert_eq!((found.runs, found.runs_of_unknown_length), (4, 0));
    assert_eq!(found.requests_at_most, Some(400));
    assert_eq!(found.bytes, None);
    let sending: f64 = spec
        .arms()
        .iter()
        .map(|arm| arm.plan.expected_duration_s().unwrap() * 2.0)
        .sum();
    assert!((found.time_s - sending - 6.0).abs() < 1e-9);
    let udp = json!({"kind": "throughput", "host": "h", "protocol": "udp",
        "bandwidth_bits_per_second": 8e6, "duration_s": 5});
    let found = estimate(&read(&json!({"base": udp, "repeat": 3})).unwrap());
    assert_eq!((found.bytes, found.requests_at_most), (Some(15e6), None));
    let users = json!({"kind": "users", "url": "http://h/", "concurrent": 4, "reps": 20});
    let found = estimate(&read(&json!({"base": users, "repeat": 3})).unwrap());
    assert_eq!(
        (found.runs_of_unknown_length, found.requests_at_most),
        (3, Some(240))
    );
}

#[test]
fn a_series_settles_where_its_medians_stay() {
    let all = |values: &[f64]| -> Vec<Option<f64>> { values.iter().copied().map(Some).collect() };
    for (medians, expected) in [
        // The five medians of the source lab, in ms.
        (all(&[7351.0, 3623.0, 705.0, 667.0, 669.0]), Some(4)),
        (all(&[5.0]), None),
        (all(&[]), None),
        (all(&[5.0, 5.4]), Some(1)),
        (all(&[5.0, 5.5]), None),
        (all(&[5.0, 9.0, 9.1]), Some(3)),
        (all(&[0.0, 0.0]), Some(1)),
        (all(&[5.0, 5.1, 9.0]), None),
        (vec![Some(5.0), None, Some(5.0), Some(5.1)], Some(4)),
        (vec![Some(5.0), Some(5.0), None], None),
        (vec![None, Some(5.0), Some(5.0)], Some(3)),
    ] {
        assert_eq!(settled_at(&medians), expected, "{medians:?}");
    }
}

#[test]
fn a_ratio_has_the_interval_of_its_logarithms() {
    assert_eq!(ratio_of_pairs(&[]), None);
    let one = ratio_of_pairs(&[(2.0, 4.0)]).unwrap();
    assert_eq!((one.b_to_a, one.low, one.differs()), (2.0, None, None));
    // ln 2 and ln 8: mean ln 4, s = ln 4 / √2, so half = 12.706 · ln 4 / 2.
    let two = ratio_of_pairs(&[(1.0, 2.0), (1.0, 8.0)]).unwrap();
    assert!((two.b_to_a - 4.0).abs() < 1e-9);
    let half = 12.706 * 4.0_f64.ln() / 2.0;
    assert!((two.high.unwrap().ln() - (4.0_f64.ln() + half)).abs() < 1e-9);
    assert_eq!(two.differs(), Some(false));
    let close = ratio_of_pairs(&[(10.0, 5.0), (10.2, 5.1), (9.8, 4.95)]).unwrap();
    assert_eq!(close.differs(), Some(true));
    let odd = ratio_of_pairs(&[(0.0, 5.0), (f64::NAN, 1.0), (1.0, f64::INFINITY)]);
    assert_eq!(odd, None);
}

/// A run that ended with this median, of 100 requests of which some failed.
pub(super) fn point(point: Value, repeat: u32, median_ms: f64, failed: u64) -> Point {
    let mut rate = RateSummary {
        planned: 100,
        latency_ms: Distribution {
            median: Some(median_ms),
            p50: Some(median_ms),
            max: Some(median_ms * 2.0),
            count: 100 - failed,
            ..Distribution::default()
        },
        ..RateSummary::default()
    };
    rate.outcomes.insert("ok".to_owned(), 100 - failed);
    rate.outcomes.insert("http_5xx".to_owned(), failed);
    Point {
        point,
        repeat,
        run: i64::from(repeat),
        state: State::Finished,
        summary: Some(Summary::Rate(Box::new(rate))),
        error: None,
        started_at: None,
        doubts: Vec::new(),
    }
}

fn sweep_of(medians: &[(f64, f64, u64)]) -> Vec<Point> {
    medians
        .iter()
        .map(|(rate, median, failed)| point(json!({"rate": rate}), 1, *median, *failed))
        .collect()
}

fn plain(text: &str) -> String {
    text.replace(['\u{a0}', '\u{202f}'], " ")
}

#[test]
fn a_sweep_says_where_it_bends() {
    let spec = read(&json!({"base": rate(), "vary": {"rate": [4, 5, 7, 10]}})).unwrap();
    // The medians of the source lab.
    let points = sweep_of(&[
        (4.0, 378.0, 0),
        (5.0, 384.0, 0),
        (7.0, 8482.0, 0),
        (10.0, 21_000.0, 0),
    ]);
    let found = knee(&levels(&points)).unwrap();
    assert_eq!((found.holds, found.fails), (5.0, 7.0));
    assert_eq!(
        plain(&finding(&spec, &points).title),
        "127.0.0.1:8000 holds 5 req/s; at 7 req/s the median is 22.4 times as long"
    );
    let failing = sweep_of(&[(4.0, 378.0, 0), (5.0, 384.0, 12)]);
    assert_eq!(
        plain(&finding(&spec, &failing).title),
        "127.0.0.1:8000 holds 4 req/s; at 5 req/s 12 % of the requests fail"
    );
    let flat = sweep_of(&[(4.0, 378.0, 0), (10.0, 384.0, 0)]);
    assert_eq!(knee(&levels(&flat)), None);
    assert!(finding(&spec, &flat).title.contains("keeps up with"));
    // In whatever order they ran.
    let mut turned = points.clone();
    turned.reverse();
    assert_eq!(levels(&turned), levels(&points));
}

#[test]
fn a_failed_run_is_a_gap_and_not_a_figure() {
    let spec = read(&json!({"base": rate(), "vary": {"rate": [4, 5, 7]}})).unwrap();
    let mut points = sweep_of(&[(4.0, 378.0, 0), (5.0, 1.0, 100), (7.0, 380.0, 0)]);
    points[1].state = State::Failed;
    points[1].error = Some("All 100 requests ended as connect_refused.".to_owned());
    let levels = levels(&points);
    assert_eq!((levels[1].p50_ms, levels[1].values.len()), (None, 0));
    assert_eq!(levels[1].failed_share(), Some(1.0));
    assert!(
        levels[1]
            .reason
            .as_deref()
            .unwrap()
            .contains("connect_refused")
    );
    let found = finding(&spec, &points);
    assert!(plain(&found.verdict).ends_with("1 run failed and is a gap."));
    for point in &mut points {
        point.state = State::Failed;
    }
    assert_eq!(plain(&finding(&spec, &points).title), "All 3 runs failed");
}

#[test]
fn a_series_and_a_pair_say_what_they_show() {
    let series = read(&json!({"base": rate(), "repeat": 5})).unwrap();
    let repeats = |medians: &[f64]| -> Vec<Point> {
        (1..)
            .zip(medians)
            .map(|(repeat, median)| point(json!({}), repeat, *median, 0))
            .collect()
    };
    let title = |medians: &[f64]| plain(&finding(&series, &repeats(medians)).title);
    assert_eq!(
        title(&[7351.0, 3623.0, 705.0, 667.0, 669.0]),
        "Settled at repeat 4: median latency 7.35 s → 669 ms"
    );
    assert_eq!(
        title(&[5.0, 5.1, 5.0]),
        "Steady over 3 repeats: median latency 5 ms"
    );
    assert!(title(&[5.0, 9.0]).starts_with("Not settled after 2 repeats"));
    assert!(title(&[5.0]).starts_with("One repeat"));
    assert!(title(&[5.0; 100]).starts_with("100 repeats: median latency 5 ms in the middle"));

    let spec = read(&json!({"paired": {"a": rate(), "b": rate()}, "repeat": 3})).unwrap();
    let pairs = |b: f64| -> Vec<Point> {
        (1..=3)
            .flat_map(|repeat| {
                let a = 100.0 + f64::from(repeat);
                [
                    point(json!({"arm": "a"}), repeat, a, 0),
                    point(
                        json!({"arm": "b"}),
                        repeat,
                        a * b + f64::from(repeat % 2),
                        0,
                    ),
                ]
            })
            .collect()
    };
    let found = finding(&spec, &pairs(2.0));
    assert_eq!(found.title, "b has 2.01 times the median latency of a");
    assert!(found.verdict.contains("worse"), "{}", found.verdict);
    assert!(
        finding(&spec, &pairs(0.995))
            .title
            .starts_with("No difference")
    );
}

proptest! {
    #[test]
    fn each_point_runs_as_often_as_asked_and_no_key_comes_twice(
        values in proptest::collection::btree_set(1_u32..500, 1..12),
        repeat in 1_u32..6,
        interleaved: bool,
    ) {
        let values: Vec<u32> = values.into_iter().collect();
        let order = if interleaved { "interleaved" } else { "given" };
        let spec = read(&json!({
            "base": rate(), "vary": {"rate": values}, "repeat": repeat, "order": order,
        })).unwrap();
        let mut driver = spec.driver();
        let mut keys = std::collections::BTreeSet::new();
        while let Next::Run(step) = driver.next(None) {
            prop_assert!(step.repeat >= 1 && step.repeat <= repeat);
            prop_assert!(keys.insert(step.key()));
        }
        prop_assert_eq!(keys.len(), values.len() * repeat as usize);
        prop_assert_eq!(driver.planned(), Some(keys.len()));
        prop_assert_eq!(driver.next(None), Next::Done);
    }

    #[test]
    fn what_is_written_is_read_again(
        values in proptest::collection::btree_set(1_u32..500, 0..5),
        repeat in 1_u32..50,
        pause in 0_u32..100,
    ) {
        let mut asked = Map::new();
        asked.insert("base".to_owned(), rate());
        if !values.is_empty() {
            let values: Vec<u32> = values.into_iter().collect();
            asked.insert("vary".to_owned(), json!({ "rate": values }));
        }
        asked.insert("repeat".to_owned(), repeat.into());
        asked.insert("pause_s".to_owned(), pause.into());
        let spec = read(&Value::Object(asked)).unwrap();
        prop_assert_eq!(read(&spec.to_json()).unwrap(), spec);
    }

    #[test]
    fn the_ratio_turns_round_with_the_pair(
        pairs in proptest::collection::vec((0.1_f64..1e6, 0.1_f64..1e6), 2..40),
    ) {
        let forward = ratio_of_pairs(&pairs).unwrap();
        let turned: Vec<(f64, f64)> = pairs.iter().map(|(a, b)| (*b, *a)).collect();
        let back = ratio_of_pairs(&turned).unwrap();
        prop_assert!((forward.b_to_a * back.b_to_a - 1.0).abs() < 1e-9);
        prop_assert!(forward.low.unwrap() <= forward.b_to_a && forward.b_to_a <= forward.high.unwrap());
        prop_assert!((forward.low.unwrap() * back.high.unwrap() - 1.0).abs() < 1e-6);
    }

    #[test]
    fn a_settled_series_stays_settled_when_it_repeats_its_last(
        medians in proptest::collection::vec(1.0_f64..100.0, 2..20),
    ) {
        let mut medians: Vec<Option<f64>> = medians.into_iter().map(Some).collect();
        let before = settled_at(&medians);
        medians.push(*medians.last().unwrap());
        let after = settled_at(&medians);
        prop_assert!(after.is_some());
        if before.is_some() {
            prop_assert_eq!(before, after);
        }
    }
}

#[test]
fn a_driver_says_how_long_to_pause() {
    let spec = read(&json!({"base": rate(), "repeat": 2, "pause_s": 0.25})).unwrap();
    let mut driver = spec.driver();
    assert!(matches!(driver.next(None), Next::Run(_)));
    assert_eq!(driver.next(None), Next::Pause(Duration::from_millis(250)));
    assert!(matches!(driver.next(None), Next::Run(_)));
    assert_eq!(driver.next(None), Next::Done);
}
