//! Plans as a person writes them: what is taken, what is refused, and in which words.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Caps, FieldError, Kind, Plan};

fn read(value: &Value) -> Result<Plan, Vec<FieldError>> {
    Plan::from_json(value, &Caps::default())
}

fn rate_with(changes: &Value) -> Value {
    let base =
        json!({"kind": "rate", "url": "http://127.0.0.1:8000/", "rate": 5, "num_conns": 100});
    merged(base, changes)
}

fn users_with(changes: &Value) -> Value {
    merged(
        json!({"kind": "users", "url": "http://127.0.0.1:8000/", "reps": 20}),
        changes,
    )
}

fn merged(mut base: Value, changes: &Value) -> Value {
    for (key, value) in changes.as_object().expect("an object of changes") {
        base[key] = value.clone();
    }
    base
}

/// The plan must be refused on this field, and nowhere else, with these words.
fn refused(plan: &Value, field: &str, words: &str) {
    let errors = read(plan).expect_err(&plan.to_string());
    assert!(
        errors
            .iter()
            .any(|error| error.field == field && error.message.contains(words)),
        "{plan}: {errors:?} lack {words:?} on {field}"
    );
    assert_eq!(errors.len(), 1, "{plan}: {errors:?}");
    for error in errors {
        assert!(error.message.ends_with('.'), "{}", error.message);
    }
}

#[test]
fn defaults_are_those_of_the_tools() {
    assert_eq!(
        read(&rate_with(&json!({}))).unwrap().to_json(),
        json!({
            "kind": "rate", "url": "http://127.0.0.1:8000/", "method": "GET", "rate": 5, "num_conns": 100,
            "num_calls": 1, "timeout_s": 120, "schedule": "deterministic", "seed": 1, "max_in_flight": 10_000,
            "insecure": false, "http": "1.1"
        })
    );
    assert_eq!(
        read(&users_with(&json!({}))).unwrap().to_json(),
        json!({
            "kind": "users", "url": "http://127.0.0.1:8000/", "method": "GET", "concurrent": 25, "reps": 20,
            "delay_s": 0, "order": "in_turn", "timeout_s": 30, "keep_alive": false, "seed": 1,
            "insecure": false, "http": "1.1"
        })
    );
    assert_eq!(
        read(&json!({"kind": "fetch", "url": "https://h"}))
            .unwrap()
            .to_json(),
        json!({"kind": "fetch", "url": "https://h/", "method": "GET", "timeout_s": 30, "insecure": false})
    );
}

#[test]
fn every_way_to_say_a_rate_is_read() {
    for changes in [
        json!({"rate": 2.5}),
        json!({"rate": 0}),
        json!({"rate": 0, "num_conns": null, "duration_s": 3}),
        json!({"rate": 7, "num_conns": null, "duration_s": 2.5}),
        json!({"rate": [[5, 20], [10, 20.5]], "num_conns": null}),
        json!({"rate": [[0, 1], [10, 20]], "num_conns": null}),
        json!({"num_conns": 5.0}),
    ] {
        read(&rate_with(&changes)).unwrap_or_else(|errors| panic!("{changes}: {errors:?}"));
    }
}

#[test]
fn kinds_that_do_not_exist_are_refused_in_one_sentence() {
    refused(
        &json!({"kind": "flood"}),
        "kind",
        "no kind of plan called flood",
    );
    refused(&json!({"kind": 5}), "kind", "is a word");
    refused(&json!({"url": "http://h/"}), "kind", "is missing");
    refused(&json!([]), "kind", "JSON object");
    refused(&json!(null), "kind", "JSON object");
}

#[test]
fn limits_name_the_flag_that_sets_them() {
    refused(
        &rate_with(&json!({"rate": 200_000})),
        "rate",
        "Rate 200000/s is above this server's limit of 100000/s (set by --max-rate).",
    );
    refused(
        &rate_with(&json!({"num_conns": null, "duration_s": 86_401})),
        "duration_s",
        "Duration 86401 s is above this server's limit of 86400 s (set by --max-duration).",
    );
    refused(
        &rate_with(&json!({"num_conns": 10_000_001})),
        "num_conns",
        "(set by --max-connections)",
    );
    refused(
        &users_with(&json!({"concurrent": 10_001})),
        "concurrent",
        "Users 10001 is above this server's limit of 10000 (set by --max-users).",
    );
}

#[test]
fn limits_hold_for_fields_together() {
    refused(
        &rate_with(&json!({"rate": 0.001, "num_conns": 500})),
        "num_conns",
        "500 connections at 0.001/s take 500000 s",
    );
    refused(
        &rate_with(&json!({"rate": 1e-300, "num_conns": 1})),
        "num_conns",
        "--max-duration",
    );
    refused(
        &rate_with(&json!({"rate": 100_000, "num_conns": null, "duration_s": 86_400})),
        "duration_s",
        "8640000000 requests in all",
    );
    refused(
        &rate_with(&json!({"rate": 100_000, "num_conns": null, "duration_s": 101})),
        "duration_s",
        "10100000 requests in all",
    );
    refused(
        &rate_with(&json!({"rate": 100_000, "num_conns": 1_000_000, "num_calls": 11})),
        "num_calls",
        "11000000 requests in all",
    );
    refused(
        &rate_with(&json!({"rate": [[1, 80_000], [1, 80_000]], "num_conns": null})),
        "rate",
        "All steps together take 160000 s",
    );
    refused(
        &users_with(&json!({"concurrent": 10_000, "reps": 1_001})),
        "reps",
        "10010000 requests in all",
    );
}

#[test]
fn a_run_has_exactly_one_end() {
    refused(
        &rate_with(&json!({"num_conns": null})),
        "num_conns",
        "no end",
    );
    refused(
        &rate_with(&json!({"duration_s": 5})),
        "duration_s",
        "not both",
    );
    refused(
        &rate_with(&json!({"rate": [[5, 20]]})),
        "num_conns",
        "leave num_conns out",
    );
    refused(
        &rate_with(&json!({"rate": [[5, 20]], "num_conns": null, "duration_s": 5})),
        "duration_s",
        "leave duration_s out",
    );
    refused(&users_with(&json!({"reps": null})), "reps", "no end");
    refused(
        &users_with(&json!({"duration_s": 5})),
        "duration_s",
        "not both",
    );
}

#[test]
fn nonsense_is_refused_and_never_taken_for_something_else() {
    for (key, value) in [
        ("rate", json!(-1)),
        ("rate", json!("5")),
        ("rate", json!(true)),
        ("rate", json!([])),
        ("rate", json!({})),
        ("rate", json!(1e300)),
        ("num_conns", json!(0)),
        ("num_conns", json!(-1)),
        ("num_conns", json!(1.5)),
        ("num_conns", json!(9_223_372_036_854_775_808_u64)),
        ("num_conns", json!(u64::MAX)),
        ("num_conns", json!(1e308)),
        ("num_conns", json!("")),
        ("num_calls", json!(0)),
        ("num_calls", json!(1_000_001)),
        ("timeout_s", json!(0)),
        ("timeout_s", json!(-5)),
        ("timeout_s", json!(3601)),
        ("timeout_s", json!("on")),
        ("seed", json!(-1)),
        ("seed", json!(1e17)),
        ("max_in_flight", json!(0)),
        ("max_in_flight", json!(5_000_000)),
        ("schedule", json!("poisson")),
        ("schedule", json!(1)),
        ("method", json!("")),
        ("method", json!("GET /x")),
        ("method", json!("G\r\nT")),
        ("method", json!("connect")),
        ("method", json!(5)),
        ("method", json!("A".repeat(33))),
        ("body", json!(5)),
        ("body", json!("x".repeat((1 << 20) + 1))),
        ("bind", json!("localhost")),
        ("bind", json!("0.0.0.0")),
        ("bind", json!("224.0.0.1")),
        ("bind", json!("::1")),
        ("bind", json!(1)),
        ("ca", json!("")),
        ("ca", json!(true)),
        ("insecure", json!("true")),
        ("http", json!("1.0")),
        ("http", json!("2")),
        ("http", json!(1.1)),
        ("headers", json!([])),
        ("headers", json!("A: b")),
        ("url", json!(5)),
        ("url", json!("http://127.1/")),
        ("url", json!("http://2852039166/")),
        ("url", json!("x".repeat(1_000_000))),
    ] {
        refused(&rate_with(&json!({key: value})), key, "");
    }
    for (key, value) in [
        ("concurrent", json!(0)),
        ("concurrent", json!(2.5)),
        ("reps", json!(0)),
        ("delay_s", json!(-0.5)),
        ("delay_s", json!(1e9)),
        ("order", json!("shuffle")),
        ("keep_alive", json!(1)),
    ] {
        refused(&users_with(&json!({key: value})), key, "");
    }
    for step in [
        json!(5),
        json!([5]),
        json!([5, 20, 1]),
        json!([5, 0]),
        json!([-1, 5]),
        json!(["5", 5]),
        json!([200_000, 1]),
    ] {
        refused(
            &rate_with(&json!({"rate": [[1, 1], step], "num_conns": null})),
            "rate[1]",
            "",
        );
    }
    refused(
        &rate_with(&json!({"rate": [[0, 5]], "num_conns": null})),
        "rate",
        "above 0",
    );
    refused(
        &rate_with(&json!({"ca": "/ca.pem", "insecure": true})),
        "insecure",
        "one of them",
    );
}

#[test]
fn headers_keep_to_their_grammar() {
    let good = rate_with(
        &json!({"headers": {"Host": "web.example:8080", "connection": "close", "X-A": "  b c\t", "X-Empty": ""}}),
    );
    assert_eq!(
        read(&good).unwrap().to_json()["headers"],
        json!({"Host": "web.example:8080", "X-A": "b c", "X-Empty": "", "connection": "close"})
    );
    for (name, value) in [
        ("X", json!("a\r\nB: c")),
        ("X", json!("a\nb")),
        ("X", json!("a\u{0}b")),
        ("X", json!("ü")),
        ("X", json!(5)),
        ("X", json!("y".repeat(8_193))),
        ("X:", json!("a")),
        ("X Y", json!("a")),
        ("Content-Length", json!("5")),
        ("transfer-encoding", json!("chunked")),
        ("Trailer", json!("X")),
        ("Upgrade", json!("websocket")),
        ("Host", json!("")),
        ("Host", json!("a, b")),
        ("Connection", json!("upgrade")),
    ] {
        refused(
            &rate_with(&json!({"headers": {name: value}})),
            &format!("headers.{name}"),
            "",
        );
    }
    refused(
        &rate_with(&json!({"headers": {"Accept": "a", "accept": "b"}})),
        "headers.accept",
        "set twice",
    );
}

#[test]
fn urls_have_weights_and_exclude_url() {
    let two =
        json!({"url": null, "urls": [{"url": "http://a", "weight": 3}, {"url": "http://b/x"}]});
    let plan = read(&rate_with(&two)).unwrap();
    assert_eq!(
        plan.to_json()["urls"],
        json!([{"url": "http://a/", "weight": 3}, {"url": "http://b/x", "weight": 1}])
    );
    assert_eq!(plan.target(), "http://a/");
    let one = json!({"url": null, "urls": [{"url": "http://a", "weight": 1}]});
    assert_eq!(
        read(&rate_with(&one)).unwrap().to_json()["url"],
        "http://a/"
    );
    refused(&rate_with(&json!({"urls": []})), "urls", "not both");
    refused(&rate_with(&json!({"url": null})), "url", "is missing");
    for (list, field) in [
        (json!([]), "urls"),
        (json!("http://a"), "urls"),
        (json!(["http://a"]), "urls[0]"),
        (json!([{"weight": 1}]), "urls[0]"),
        (json!([{"url": "http://a"}, {"url": "ftp://a"}]), "urls[1]"),
        (json!([{"url": "http://a", "weight": 0}]), "urls[0]"),
        (json!([{"url": "http://a", "weight": 1.5}]), "urls[0]"),
        (json!([{"url": "http://a", "wieght": 1}]), "urls[0]"),
    ] {
        refused(&rate_with(&json!({"url": null, "urls": list})), field, "");
    }
}

#[test]
fn all_faults_come_at_once_and_unknown_fields_by_name() {
    let errors = read(&json!({
        "kind": "rate", "url": "http://0x7f.1/", "rate": -1, "num_conns": 0, "timeout_s": 0,
        "threads": 4, "headers": {"Content-Length": "5"}
    }))
    .unwrap_err();
    let fields: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
    assert_eq!(
        fields,
        [
            "url",
            "rate",
            "num_conns",
            "timeout_s",
            "headers.Content-Length",
            "threads"
        ]
    );
    assert!(
        errors[5]
            .message
            .starts_with("A rate plan has no field threads; it has url, urls, method, rate,"),
        "{}",
        errors[5].message
    );
}

#[test]
fn cost_is_known_before_the_start() {
    let plan = read(&rate_with(
        &json!({"rate": 13, "num_conns": 2000, "timeout_s": 10}),
    ))
    .unwrap();
    let cost = plan.cost();
    assert_eq!(cost.requests_at_most, Some(2000));
    assert_eq!(cost.in_flight_if_all_hang, 130);
    assert!((cost.sending_s.unwrap() - 153.846).abs() < 0.001);
    assert!((cost.last_reply_by_s.unwrap() - 163.846).abs() < 0.001);

    let capped = json!({"rate": 5000, "num_conns": 50_000, "max_in_flight": 300});
    let cost = read(&rate_with(&capped)).unwrap().cost();
    assert_eq!(cost.in_flight_if_all_hang, 300);

    let sequential = read(&rate_with(&json!({"rate": 0}))).unwrap();
    assert_eq!(sequential.cost().in_flight_if_all_hang, 1);
    assert_eq!(sequential.expected_duration_s(), None);
    assert_eq!(sequential.planned_requests(), Some(100));

    let users = read(&users_with(&json!({"concurrent": 4}))).unwrap();
    assert_eq!(users.planned_requests(), Some(80));
    assert_eq!(users.cost().in_flight_if_all_hang, 4);
}

#[test]
fn every_plan_has_a_latest_end() {
    let caps = Caps::default();
    let end = |plan: &Value| read(plan).unwrap().latest_end_s(&caps);
    let close = |one: f64, other: f64| assert!((one - other).abs() < 1e-9, "{one} {other}");
    close(end(&rate_with(&json!({"timeout_s": 10}))), 30.0);
    close(
        end(&rate_with(&json!({"timeout_s": 10, "num_calls": 3}))),
        50.0,
    );
    close(end(&rate_with(&json!({"rate": 0}))), 86_520.0);
    close(end(&rate_with(&json!({"num_calls": 100_000}))), 86_520.0);
    close(end(&users_with(&json!({}))), 86_430.0);
    close(
        end(&users_with(&json!({"reps": null, "duration_s": 5}))),
        35.0,
    );
}

#[test]
fn a_thousand_unknown_fields_make_no_thousand_sentences() {
    let mut plan = rate_with(&json!({}));
    for number in 0..1_000 {
        plan[format!("x{number}")] = json!(1);
    }
    assert_eq!(read(&plan).unwrap_err().len(), 20);
}

#[test]
fn kinds_have_words() {
    for kind in Kind::ALL {
        assert_eq!(Kind::from_word(kind.word()), Some(kind));
        assert_eq!(serde_json::to_value(kind).unwrap(), json!(kind.word()));
    }
    assert_eq!(Kind::from_word("flood"), None);
}

/// Any JSON at all, with names of fields among its keys.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
        Just(json!("http://h/")),
    ];
    leaf.prop_recursive(3, 24, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec(("[a-z_]{1,8}", inner), 0..4)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

/// Plans of every kind that [`Plan::from_json`] takes, for properties here and elsewhere.
pub(crate) fn any_plan() -> impl Strategy<Value = Plan> {
    let url = prop_oneof![
        Just("http://127.0.0.1:8000/".to_owned()),
        Just("https://web-lb.example/a/b?c=d&e=%20'x'".to_owned()),
        Just("http://[::1]:8080/?work=heavy".to_owned()),
        "http://[a-z]{1,8}(\\.[a-z]{1,5})?(:[1-9][0-9]{0,3})?/[a-z0-9/$;!*'()~|{}\"<>%?&=-]{0,12}",
    ];
    let urls = prop_oneof![
        4 => url.clone().prop_map(|url| json!({"url": url})),
        1 => prop::collection::vec((url, 1..9_u32), 1..4).prop_map(|list| {
            let list: Vec<Value> = list.into_iter().map(|(url, weight)| json!({"url": url, "weight": weight})).collect();
            json!({"urls": list})
        }),
    ];
    let request = (
        prop_oneof![3 => Just(Value::Null), 1 => "[A-Z]{1,8}".prop_filter("CONNECT is refused", |m| m != "CONNECT").prop_map(Value::from)],
        prop_oneof![2 => Just(json!({})), 1 => prop::collection::btree_map("X-[A-Z]{1,4}", "[ -~]{0,12}", 0..3)
            .prop_map(|headers| json!(headers)), 1 => Just(json!({"User-Agent": "it's \\n \"me\"", "Host": "other", "Content-Type": "text/x"}))],
        prop_oneof![4 => Just(Value::Null), 1 => "\\PC{0,12}".prop_map(Value::from), 1 => Just(json!("a=1&b=$2\n'x'"))],
        prop_oneof![3 => Just(Value::Null), 1 => (0.001..3600.0_f64).prop_map(Value::from), 1 => (1..3600_u32).prop_map(Value::from)],
        prop_oneof![4 => Just(json!({})), 1 => Just(json!({"insecure": true})), 1 => Just(json!({"ca": "/etc/ca dir/x.pem"}))],
    )
        .prop_map(|(method, headers, body, timeout, tls)| {
            merged(json!({"method": method, "headers": headers, "body": body, "timeout_s": timeout}), &tls)
        });
    let seed = prop_oneof![3 => Just(Value::Null), 1 => any::<u32>().prop_map(Value::from)];
    let rate = prop_oneof![
        (0.1..1000.0_f64, 1..5000_u64).prop_map(|(rate, n)| json!({"rate": rate, "num_conns": n})),
        (1..1000_u32, 1..5000_u64).prop_map(|(rate, n)| json!({"rate": rate, "num_conns": n})),
        (1..1000_u32, 1..50_u32).prop_map(|(rate, s)| json!({"rate": rate, "duration_s": s})),
        (1..50_u64).prop_map(|n| json!({"rate": 0, "num_conns": n})),
        Just(json!({"rate": 0, "duration_s": 2.5})),
        prop::collection::vec((0..50_u32, 1..20_u32), 1..4)
            .prop_map(|steps| json!({"rate": steps, "num_conns": null}))
            .prop_filter("a rate above 0", |v| v["rate"]
                .as_array()
                .is_some_and(|l| l.iter().any(|s| s[0] != 0))),
    ];
    let more = (
        prop_oneof![3 => Just(1_u32), 1 => 1..20_u32],
        any::<bool>(),
        prop_oneof![4 => Just(Value::Null), 1 => (1..100_000_u32).prop_map(Value::from)],
        any::<bool>(),
    )
        .prop_map(|(calls, exponential, in_flight, flag)| {
            let schedule = if exponential {
                "exponential"
            } else {
                "deterministic"
            };
            (
                json!({"num_calls": calls, "schedule": schedule, "max_in_flight": in_flight}),
                flag,
            )
        });
    let users = (
        1..300_u32,
        prop_oneof![
            (1..500_u32).prop_map(|n| json!({"reps": n})),
            (1..5000_u32).prop_map(|n| json!({"duration_s": n})),
            (0.5..50.0_f64).prop_map(|n| json!({"duration_s": n})),
        ],
        prop_oneof![2 => Just(json!(0)), 1 => (0.0..9.0_f64).prop_map(Value::from), 1 => (0..9_u32).prop_map(Value::from)],
    );
    (0..3_usize, urls, request, seed, rate, more, users).prop_map(
        |(kind, urls, request, seed, rate, (more, flag), (concurrent, end, delay))| {
            let value = match kind {
                0 => {
                    let value = merged(merged(merged(urls, &request), &rate), &more);
                    merged(value, &json!({"kind": "rate", "seed": seed}))
                }
                1 => {
                    let order = if flag { "random" } else { "in_turn" };
                    let own = json!({"kind": "users", "seed": seed, "concurrent": concurrent, "delay_s": delay, "order": order, "keep_alive": flag});
                    merged(merged(merged(urls, &request), &end), &own)
                }
                _ => {
                    let first = urls.get("url").cloned().unwrap_or_else(|| urls["urls"][0]["url"].clone());
                    merged(request, &json!({"kind": "fetch", "url": first}))
                }
            };
            read(&value).unwrap_or_else(|errors| panic!("{value}: {errors:?}"))
        },
    )
}

proptest! {
    #[test]
    fn a_plan_reads_its_own_json(plan in any_plan()) {
        let json = plan.to_json();
        prop_assert_eq!(&serde_json::to_value(&plan).unwrap(), &json);
        let again = read(&json).map_err(|errors| TestCaseError::fail(format!("{json}: {errors:?}")))?;
        prop_assert_eq!(&again, &plan);
        let text: Value = serde_json::from_str(&json.to_string()).unwrap();
        prop_assert_eq!(read(&text).unwrap(), plan);
    }

    #[test]
    fn no_json_makes_it_panic_and_each_refusal_is_a_sentence(
        pairs in prop::collection::vec((prop::sample::select(vec![
            "url", "urls", "method", "rate", "num_conns", "duration_s", "num_calls", "timeout_s", "headers", "body",
            "schedule", "seed", "max_in_flight", "bind", "ca", "insecure", "http", "concurrent", "reps", "delay_s",
            "order", "keep_alive", "\u{202e}x\n",
        ]), any_json()), 0..8),
        kind in prop::sample::select(vec!["rate", "users", "fetch"]),
    ) {
        let mut object: serde_json::Map<String, Value> =
            pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        object.insert("kind".to_owned(), kind.into());
        match read(&Value::Object(object)) {
            Ok(plan) => {
                prop_assert!(plan.cost().in_flight_if_all_hang >= 1);
            }
            Err(errors) => {
                prop_assert!(!errors.is_empty());
                for error in errors {
                    prop_assert!(error.message.ends_with('.'), "{}", error.message);
                    prop_assert!(!error.message.contains(['\n', '\r', '\u{202e}']), "{}", error.message);
                }
            }
        }
    }
}
