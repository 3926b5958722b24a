//! Between the launch form's text and a plan's JSON, both ways; every fault is found at once.

use serde_json::{Map, Value, json};

use crate::dashboard::fields::Values;
use crate::dashboard::launch::fields;
use crate::dashboard::words;
use crate::measure::plan::Kind;
use crate::measure::units;

/// Fields that hold one number.
const NUMBERS: [&str; 21] = [
    "repeat",
    "port",
    "streams",
    "interval_s",
    "tos",
    "omit_s",
    "ip_version",
    "count",
    "expect_mtu",
    "num_conns",
    "duration_s",
    "num_calls",
    "timeout_s",
    "max_in_flight",
    "seed",
    "concurrent",
    "reps",
    "delay_s",
    "rate",
    "weight",
    "mss_bytes",
];

/// Fields that hold a size, which may be written as iperf's users do.
const SIZES: [&str; 4] = ["bytes", "length_bytes", "window_bytes", "size_bytes"];

/// Whether a field holds a size.
pub fn is_size(name: &str) -> bool {
    SIZES.contains(&name)
}

/// The plan's JSON that these values mean, and the faults that only the form can have.
pub fn plan_json(kind: Kind, values: &Values) -> (Value, Vec<(String, String)>) {
    let mut plan = Map::new();
    let mut errors = Vec::new();
    plan.insert("kind".to_owned(), kind_word(kind).into());
    let fields = [
        fields::target(kind),
        fields::amount(kind),
        fields::advanced(kind),
    ]
    .concat();
    for field in fields {
        let name = field.name;
        let text = values.get(name).map_or("", String::as_str);
        let read = match name {
            "url" | "more_urls" => continue,
            "keep_alive" | "insecure" | "offload" => Ok(Some(Value::from(text == "on"))),
            _ if text.is_empty() => continue,
            _ => value_of(name, text),
        };
        match read {
            Ok(Some(value)) => {
                plan.insert(name.to_owned(), value);
            }
            Ok(None) => {}
            Err(message) => errors.push((name.to_owned(), message)),
        }
    }
    if !kind.is_http() {
        return (Value::Object(plan), errors);
    }
    match urls(values) {
        Ok((name, value)) => {
            plan.insert(name.to_owned(), value);
        }
        Err((name, message)) => errors.push((name.to_owned(), message)),
    }
    (Value::Object(plan), errors)
}

/// The value that a text means for a field of this name; `None` where it means none.
///
/// # Errors
/// What such a field takes.
pub fn value_of(name: &str, text: &str) -> Result<Option<Value>, String> {
    match name {
        _ if text.is_empty() => Ok(None),
        "rate" => rate(text),
        "bandwidth_bits_per_second" => {
            units::parse_bits_per_second(text).map(|rate| Some(rate.into()))
        }
        "headers" => headers(text),
        _ if is_size(name) => size(text).map(|bytes| Some(bytes.into())),
        _ if name.ends_with("_s") => duration(text),
        _ if NUMBERS.contains(&name) => number(text),
        _ => Ok(Some(text.into())),
    }
}

/// The word of this kind in plans and addresses.
pub const fn kind_word(kind: Kind) -> &'static str {
    kind.word()
}

/// The kind with this word.
pub fn kind_of(word: &str) -> Option<Kind> {
    Kind::from_word(word)
}

/// The form's values for this plan.
pub fn values_of(plan: &Value) -> (Option<Kind>, Values) {
    let mut values = Values::new();
    let Some(plan) = plan.as_object() else {
        return (None, values);
    };
    let kind = plan.get("kind").and_then(Value::as_str).and_then(kind_of);
    for (name, value) in plan {
        match (name.as_str(), value) {
            ("kind", _) | (_, Value::Null) => {}
            ("urls", Value::Array(urls)) => {
                let lines: Vec<String> = urls.iter().map(url_line).collect();
                if let [first, rest @ ..] = lines.as_slice() {
                    let first = if rest.is_empty() {
                        first.strip_suffix(" 1").unwrap_or(first)
                    } else {
                        first
                    };
                    values.insert("url".to_owned(), first.trim_end_matches(" 1").to_owned());
                    if !rest.is_empty() {
                        values.insert(
                            "more_urls".to_owned(),
                            rest.iter()
                                .map(|line| line.trim_end_matches(" 1"))
                                .collect::<Vec<_>>()
                                .join("\n"),
                        );
                    }
                }
            }
            ("rate", Value::Array(steps)) => {
                let steps: Vec<String> = steps
                    .iter()
                    .map(|step| format!("{}:{}", text_of(&step[0]), text_of(&step[1])))
                    .collect();
                values.insert("rate".to_owned(), steps.join(" "));
            }
            ("headers", Value::Object(headers)) => {
                let lines: Vec<String> = headers
                    .iter()
                    .map(|(name, value)| format!("{name}: {}", text_of(value)))
                    .collect();
                values.insert("headers".to_owned(), lines.join("\n"));
            }
            (_, Value::Bool(on)) => {
                if *on {
                    values.insert(name.clone(), "on".to_owned());
                }
            }
            (name, value) if is_size(name) => {
                let factors = [(1_u64 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")];
                values.insert(name.to_owned(), short(value, &factors));
            }
            ("bandwidth_bits_per_second", value) => {
                let factors = [(1_000_000_000, "G"), (1_000_000, "M"), (1_000, "K")];
                values.insert(name.clone(), short(value, &factors));
            }
            (_, value) => {
                values.insert(name.clone(), text_of(value));
            }
        }
    }
    (kind, values)
}

fn url_line(url: &Value) -> String {
    match url {
        Value::String(url) => url.clone(),
        other => format!("{} {}", text_of(&other["url"]), text_of(&other["weight"])),
    }
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.as_f64().map_or_else(String::new, words::plain),
        _ => String::new(),
    }
}

/// A whole number with the largest letter that keeps it whole.
fn short(value: &Value, factors: &[(u64, &str)]) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is whole and not negative"
    )]
    let whole = value.as_u64().or_else(|| {
        let number = value.as_f64()?;
        (number.fract() == 0.0 && (0.0..1e15).contains(&number)).then_some(number as u64)
    });
    whole
        .filter(|number| *number > 0)
        .and_then(|number| {
            let (factor, letter) = factors
                .iter()
                .find(|(factor, _)| number.is_multiple_of(*factor))?;
            Some(format!("{}{letter}", number / factor))
        })
        .unwrap_or_else(|| text_of(value))
}

/// A size in bytes: `131072`, `128K`, `1M` or `1 MiB`, with the word `bytes` after it or not.
pub fn size(text: &str) -> Result<u64, String> {
    let bare = ["bytes", "byte"]
        .iter()
        .find_map(|word| text.trim().strip_suffix(word))
        .unwrap_or(text)
        .trim();
    if let Ok(Some(Value::Number(number))) = number(bare)
        && let Some(bytes) = number.as_u64()
    {
        return Ok(bytes);
    }
    let bytes = units::parse_size_bytes(bare)
        .map_err(|_| "A size in bytes, such as 131072, 128K or 1M".to_owned())?;
    if bytes.fract() != 0.0 || bytes > 1e15 {
        return Err("A whole number of bytes, such as 131072, 128K or 1M".to_owned());
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "whole, not negative and not above 1e15"
    )]
    Ok(bytes as u64)
}

/// Seconds, or a time with its unit, such as `500ms` or `5m`.
fn duration(text: &str) -> Result<Option<Value>, String> {
    if text.ends_with(|last: char| last.is_alphabetic()) {
        return units::parse_duration_s(text).map(|seconds| Some(seconds.into()));
    }
    number(text)
}

fn number(text: &str) -> Result<Option<Value>, String> {
    let cleaned: String = text
        .chars()
        .filter(|letter| !matches!(letter, ' ' | '\u{a0}' | '\u{202f}' | '\u{2009}'))
        .collect();
    if let Ok(whole) = cleaned.parse::<u64>() {
        return Ok(Some(whole.into()));
    }
    match cleaned.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(Some(value.into())),
        _ if cleaned.contains(',') => Err("A number with a point, such as 0.5".to_owned()),
        _ => Err("A number, such as 10".to_owned()),
    }
}

fn rate(text: &str) -> Result<Option<Value>, String> {
    if !text.contains(':') {
        return number(text);
    }
    let mut steps = Vec::new();
    for step in text.split([' ', ',', '\n']).filter(|step| !step.is_empty()) {
        let pair = step
            .split_once(':')
            .and_then(|(rate, seconds)| Some((number(rate).ok()??, number(seconds).ok()??)))
            .ok_or_else(|| {
                format!("Steps are rate:seconds, such as 5:20 10:20; {step:?} is not")
            })?;
        steps.push(json!([pair.0, pair.1]));
    }
    Ok(Some(Value::Array(steps)))
}

fn headers(text: &str) -> Result<Option<Value>, String> {
    let mut out = Map::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (name, value) = line
            .split_once(':')
            .ok_or_else(|| format!("A header is Name: value; {line:?} is not"))?;
        if out
            .insert(name.trim().to_owned(), value.trim().into())
            .is_some()
        {
            return Err(format!("{} stands twice", name.trim()));
        }
    }
    Ok((!out.is_empty()).then_some(Value::Object(out)))
}

/// `url`, or `urls` with weights where there are several.
fn urls(values: &Values) -> Result<(&'static str, Value), (&'static str, String)> {
    let first = values.get("url").map_or("", String::as_str);
    let more = values.get("more_urls").map_or("", String::as_str);
    let (url, weight) = weighted(first).map_err(|message| ("url", message))?;
    if url.is_empty() {
        return Err(("url", "An http or https address".to_owned()));
    }
    if more.is_empty() && weight == 1 {
        return Ok(("url", url.into()));
    }
    let mut out = vec![json!({"url": url, "weight": weight})];
    for line in more.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (url, weight) = weighted(line).map_err(|message| ("more_urls", message))?;
        out.push(json!({"url": url, "weight": weight}));
    }
    Ok(("urls", Value::Array(out)))
}

fn weighted(line: &str) -> Result<(String, u64), String> {
    match line.rsplit_once(' ') {
        None => Ok((line.to_owned(), 1)),
        Some((url, weight)) => weight
            .parse()
            .map(|weight| (url.trim().to_owned(), weight))
            .map_err(|_| {
                format!("After the address only a whole weight may follow, not {weight:?}")
            }),
    }
}

/// Which field of the form shows a fault of this field of the plan.
pub fn field_for(plan_field: &str, values: &Values) -> String {
    let stem = plan_field
        .split(['.', '['])
        .find(|part| !part.is_empty() && *part != "plan")
        .unwrap_or_default();
    match stem {
        "urls" if values.get("more_urls").is_some_and(|more| !more.is_empty()) => "more_urls",
        "urls" => "url",
        "objectives" => "objective",
        other => other,
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(pairs: &[(&str, &str)]) -> Values {
        pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn a_form_becomes_a_plan_and_a_plan_the_same_form() {
        let form = values(&[
            ("url", "http://127.0.0.1:8000/"),
            ("rate", "5:20 10:20"),
            ("timeout_s", "0.5"),
            ("headers", "X-A: 1\nX-B: 2"),
            ("more_urls", "http://127.0.0.1:8000/?work=light 3"),
            ("insecure", "on"),
        ]);
        let (plan, errors) = plan_json(Kind::Rate, &form);
        assert_eq!(errors, []);
        assert_eq!(plan["rate"], json!([[5, 20], [10, 20]]));
        assert_eq!(plan["urls"][1]["weight"], 3);
        assert_eq!(plan["headers"], json!({"X-A": "1", "X-B": "2"}));
        assert_eq!(values_of(&plan), (Some(Kind::Rate), form));
    }

    #[test]
    fn every_fault_is_found_at_once_and_named_by_its_field() {
        let form = values(&[
            ("rate", "fast"),
            ("num_conns", "1,5"),
            ("headers", "nonsense"),
            ("url", ""),
        ]);
        let (_, errors) = plan_json(Kind::Rate, &form);
        let names: Vec<&str> = errors.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["rate", "num_conns", "headers", "url"]);
    }

    #[test]
    fn sizes_rates_and_times_are_written_as_iperfs_users_do() {
        for (text, expected) in [
            ("131072", 131_072),
            ("128K", 131_072),
            ("1M", 1 << 20),
            ("1M bytes", 1 << 20),
            ("1.5K", 1_536),
            ("1 000 000", 1_000_000),
            ("500 bytes", 500),
        ] {
            assert_eq!(size(text), Ok(expected), "{text}");
        }
        for bad in ["", "fast", "-1", "1.3", "1e999G", "5 Mbit"] {
            assert!(size(bad).is_err(), "{bad}");
        }
        let form = values(&[
            ("host", "10.0.0.2"),
            ("length_bytes", "128K"),
            ("window_bytes", "4M"),
            ("bandwidth_bits_per_second", "100M"),
            ("duration_s", "2m"),
        ]);
        let (plan, errors) = plan_json(Kind::Throughput, &form);
        assert_eq!(errors, []);
        assert_eq!(plan["length_bytes"], 131_072);
        assert_eq!(plan["bandwidth_bits_per_second"], 1e8);
        assert_eq!(plan["duration_s"], 120.0);
        let (_, again) = values_of(&plan);
        assert_eq!(again["length_bytes"], "128K");
        assert_eq!(again["window_bytes"], "4M");
        assert_eq!(again["bandwidth_bits_per_second"], "100M");
        assert_eq!(again["duration_s"], "120");
    }

    #[test]
    fn numbers_may_be_grouped_but_not_infinite() {
        assert_eq!(number("2 000"), Ok(Some(2000.into())));
        for bad in ["inf", "NaN", "1e999", "", "0x10"] {
            assert!(number(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn faults_of_the_plan_find_their_field() {
        let none = Values::new();
        assert_eq!(field_for("urls[0].url", &none), "url");
        assert_eq!(field_for("plan.rate", &none), "rate");
        assert_eq!(
            field_for("urls", &values(&[("more_urls", "x")])),
            "more_urls"
        );
    }
}
