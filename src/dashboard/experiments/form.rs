//! Between the text of the experiment form and what the API takes, both ways.

use serde_json::{Map, Value};

use crate::dashboard::fields::{Field, Input, Values};
use crate::dashboard::launch::form as plan_form;
use crate::measure::command_line;
use crate::measure::experiment::ExperimentKind;
use crate::measure::plan::{Caps, Kind, Plan};

const fn field(
    name: &'static str,
    label: &'static str,
    hint: &'static str,
    class: &'static str,
) -> Field {
    Field {
        name,
        label,
        hint,
        unit: "",
        class,
        input: Input::Text("text"),
        mono: false,
        list: "",
    }
}

const BASE: Field = Field {
    input: Input::Area,
    ..field(
        "base",
        "What runs",
        "A line of httperf, siege, curl, iperf, iperf3, ping or tracepath, or a plan as JSON",
        "c6",
    )
};
const A: Field = Field {
    label: "Plan a",
    ..BASE
};
const B: Field = Field {
    input: Input::Area,
    ..field(
        "b",
        "Plan b",
        "Of the same kind; the two take turns, so that what drifts meanwhile meets both",
        "c6",
    )
};
const VARY: Field = Field {
    mono: true,
    list: "fields",
    ..field(
        "vary",
        "Field that varies",
        "As plans call it, such as rate or streams",
        "c3",
    )
};
const VALUES: Field = field(
    "values",
    "Its values",
    "With spaces between: 4 5 7 10",
    "c3",
);
const VARY2: Field = Field {
    mono: true,
    list: "fields",
    ..field("vary2", "Second field", "May be left empty", "c3")
};
const VALUES2: Field = field("values2", "Its values", "Every combination runs", "c3");
const REPEAT: Field = Field {
    input: Input::Text("numeric"),
    ..field("repeat", "Repeats", "How often each runs", "c2")
};
const PAUSE: Field = Field {
    unit: "s",
    input: Input::Text("decimal"),
    ..field(
        "pause_s",
        "Pause between runs",
        "From the end of one to the start of the next",
        "c2",
    )
};
const STEP: Field = Field {
    unit: "s",
    input: Input::Text("decimal"),
    ..field(
        "step_s",
        "A step lasts",
        "Empty: 20 s. Shorter ones judge fewer requests",
        "c3",
    )
};
const BUDGET: Field = Field {
    unit: "s",
    input: Input::Text("decimal"),
    ..field(
        "budget_s",
        "All of it at most",
        "Empty: as the unloaded time asks for",
        "c3",
    )
};
const QUANTILE: Field = Field {
    input: Input::Select(&[
        ("", "auto: by how many requests a step has"),
        ("0.5", "p50"),
        ("0.9", "p90"),
        ("0.95", "p95"),
        ("0.99", "p99"),
        ("0.999", "p99.9"),
    ]),
    ..field("quantile", "Latency is judged at", "", "c3")
};
const GOAL_MS: Field = Field {
    unit: "ms",
    input: Input::Text("decimal"),
    ..field(
        "latency_ms",
        "It must stay below",
        "Empty: derived from the unloaded time",
        "c3",
    )
};
const GOAL_ERRORS: Field = Field {
    input: Input::Text("decimal"),
    ..field(
        "error_share",
        "Share that may fail",
        "0.01 is 1 %. Empty: none of up to 3000 requests, 0.1 % of more",
        "c3",
    )
};
const GOAL_LOSS: Field = Field {
    input: Input::Text("decimal"),
    ..field(
        "loss_share",
        "Share of datagrams that may be lost",
        "With a UDP throughput plan alone",
        "c3",
    )
};
const WIDTH: Field = Field {
    input: Input::Text("decimal"),
    ..field(
        "width",
        "The bounds come this close",
        "0.05 is 5 %, which empty means too",
        "c3",
    )
};
const MAX_RATE: Field = Field {
    unit: "/s",
    input: Input::Text("decimal"),
    ..field(
        "max_rate",
        "No faster than",
        "Empty: as far as this node may go",
        "c3",
    )
};
const ARRIVAL: Field = Field {
    input: Input::Select(&[("", "evenly"), ("exponential", "at random (Poisson)")]),
    ..field("arrival", "Requests of the search come", "", "c3")
};
/// The fields of a search that are numbers, each with the object that it stands in.
const SEARCH: [(&str, &str); 8] = [
    ("step_s", ""),
    ("budget_s", ""),
    ("width", ""),
    ("max_rate", ""),
    ("quantile", "goal"),
    ("latency_ms", "goal"),
    ("error_share", "goal"),
    ("loss_share", "goal"),
];

fn is_of_search(name: &str) -> bool {
    name == "arrival" || SEARCH.iter().any(|(known, _)| *known == name)
}

const ORDER: Field = Field {
    input: Input::Select(&[
        ("given", "given: 4 4 5 5"),
        ("interleaved", "interleaved: 4 5 4 5"),
    ]),
    ..field(
        "order",
        "Order",
        "Interleaved spreads what drifts over all values",
        "c2",
    )
};
const OBJECTIVE: Field = Field {
    mono: true,
    ..field(
        "objective",
        "Objectives of each run",
        "Such as p99<500ms, errors<0.1%",
        "c3",
    )
};
const TAGS: Field = field(
    "tags",
    "Tags",
    "Separated by commas; each run gets them too",
    "c3",
);
const NOTE: Field = Field {
    input: Input::Area,
    ..field("note", "Note", "What you want to find out", "c6")
};

/// The fields of this kind: what runs, what varies, how often, and for later.
pub fn fields(kind: ExperimentKind) -> [(&'static str, Vec<Field>); 3] {
    let what = match kind {
        ExperimentKind::Sweep => vec![BASE, VARY, VALUES, VARY2, VALUES2],
        ExperimentKind::Series | ExperimentKind::Capacity => vec![BASE],
        ExperimentKind::Paired | ExperimentKind::Prove => vec![A, B],
    };
    let how = match kind {
        ExperimentKind::Sweep => vec![REPEAT, PAUSE, ORDER],
        ExperimentKind::Series | ExperimentKind::Paired | ExperimentKind::Prove => {
            vec![REPEAT, PAUSE]
        }
        // A search decides the rest itself.
        ExperimentKind::Capacity => vec![
            QUANTILE,
            GOAL_MS,
            GOAL_ERRORS,
            GOAL_LOSS,
            WIDTH,
            STEP,
            BUDGET,
            MAX_RATE,
            ARRIVAL,
        ],
    };
    [
        ("What runs", what),
        ("How often", how),
        ("What would be good enough?", vec![OBJECTIVE, TAGS, NOTE]),
    ]
}

/// Fields of a plan that are worth varying, for the list of choices.
pub const fn worth_varying(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Rate => &[
            "rate",
            "num_conns",
            "duration_s",
            "num_calls",
            "schedule",
            "url",
        ],
        Kind::Users => &[
            "concurrent",
            "reps",
            "duration_s",
            "delay_s",
            "keep_alive",
            "url",
        ],
        Kind::Fetch => &["url", "method"],
        Kind::Throughput => &[
            "streams",
            "window_bytes",
            "length_bytes",
            "bandwidth_bits_per_second",
            "direction",
            "congestion",
            "host",
            "receive",
        ],
        Kind::Ping => &["size_bytes", "interval_s", "count", "method", "host"],
        Kind::Path => &["host"],
    }
}

/// What is often asked of a plan of this kind, in one click: kind of experiment, field and values, repeats, word.
pub const fn often(
    kind: Kind,
) -> &'static [(
    ExperimentKind,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
)] {
    use ExperimentKind::{Series, Sweep};
    match kind {
        Kind::Rate => &[
            (Sweep, "rate", "4 5 7 10", "1", "4, 5, 7, 10 a second"),
            (Series, "", "", "5", "5 times, until it settles"),
        ],
        Kind::Users => &[
            (Sweep, "concurrent", "1 2 4 8 16", "1", "1 to 16 users"),
            (Series, "", "", "5", "5 times, until it settles"),
        ],
        Kind::Throughput => &[
            (Sweep, "streams", "1 4 8 16", "1", "1, 4, 8, 16 streams"),
            (Series, "", "", "100", "100 times"),
        ],
        Kind::Ping => &[
            (
                Sweep,
                "size_bytes",
                "56 512 1024 1400",
                "1",
                "sizes from 56 to 1400 bytes",
            ),
            (Series, "", "", "100", "100 times"),
        ],
        Kind::Fetch | Kind::Path => &[(Series, "", "", "5", "5 times")],
    }
}

/// What an empty form begins with, around this line.
pub fn defaults(kind: ExperimentKind) -> Values {
    let repeat = match kind {
        ExperimentKind::Sweep | ExperimentKind::Capacity => "1",
        ExperimentKind::Series | ExperimentKind::Paired | ExperimentKind::Prove => "5",
    };
    [
        ("repeat", repeat),
        (
            "pause_s",
            if matches!(kind, ExperimentKind::Sweep) {
                "2"
            } else {
                "0"
            },
        ),
        ("order", "given"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into()
}

/// What the form asks for, and the faults that only a form can have.
pub fn asked(kind: ExperimentKind, values: &Values) -> (Map<String, Value>, Vec<(String, String)>) {
    let text = |name: &str| values.get(name).map_or("", String::as_str).trim();
    let mut asked = Map::new();
    let mut faults = Vec::new();
    let base = |text: &str| -> Value {
        if text.is_empty() {
            Value::Null
        } else {
            text.into()
        }
    };
    if kind == ExperimentKind::Capacity {
        let mut search = Map::from_iter([("base".to_owned(), base(text("base")))]);
        let mut goal = Map::new();
        for (name, within) in SEARCH {
            let value = match text(name) {
                written if name.ends_with("_s") => plan_form::value_of(name, written),
                "" => Ok(None),
                written => written
                    .parse::<f64>()
                    .map(|number| Some(number.into()))
                    .map_err(|_| format!("“{written}” is no number.")),
            };
            match value {
                Ok(Some(value)) if within == "goal" => {
                    goal.insert(name.to_owned(), value);
                }
                Ok(Some(value)) => {
                    search.insert(name.to_owned(), value);
                }
                Ok(None) => {}
                Err(message) => faults.push((name.to_owned(), message)),
            }
        }
        if !goal.is_empty() {
            search.insert("goal".to_owned(), goal.into());
        }
        if !text("arrival").is_empty() {
            search.insert("arrival".to_owned(), text("arrival").into());
        }
        asked.insert("capacity".to_owned(), search.into());
        return (asked, faults);
    }
    if kind == ExperimentKind::Paired {
        let pair = [("a", base(text("base"))), ("b", base(text("b")))]
            .map(|(name, plan)| (name.to_owned(), plan));
        asked.insert(
            "paired".to_owned(),
            Value::Object(pair.into_iter().collect()),
        );
    } else {
        asked.insert("base".to_owned(), base(text("base")));
    }
    if kind == ExperimentKind::Sweep {
        let mut vary = Map::new();
        for (field, list) in [("vary", "values"), ("vary2", "values2")] {
            let (name, line) = (text(field), text(list));
            match (name.is_empty(), line.is_empty()) {
                (true, true) if field == "vary" => {
                    faults.push((
                        field.to_owned(),
                        "Name the field that varies, such as rate.".to_owned(),
                    ));
                }
                (true, true) => {}
                (true, false) => {
                    faults.push((
                        field.to_owned(),
                        "Name the field that these values are of.".to_owned(),
                    ));
                }
                (false, _) if vary.contains_key(name) => {
                    faults.push((field.to_owned(), format!("{name} varies already.")));
                }
                (false, _) => match values_of(name, line) {
                    Ok(list) => {
                        vary.insert(name.to_owned(), Value::Array(list));
                    }
                    Err(message) => faults.push((list.to_owned(), message)),
                },
            }
        }
        asked.insert("vary".to_owned(), Value::Object(vary));
        asked.insert("order".to_owned(), text("order").into());
    }
    for name in ["repeat", "pause_s"] {
        match plan_form::value_of(name, text(name)) {
            Ok(Some(value)) => {
                asked.insert(name.to_owned(), value);
            }
            Ok(None) => {}
            Err(message) => faults.push((name.to_owned(), message)),
        }
    }
    (asked, faults)
}

/// The values in a line, each as its field takes it: numbers, sizes, rates, times, words.
fn values_of(field: &str, line: &str) -> Result<Vec<Value>, String> {
    let mut out = Vec::new();
    for word in line
        .split([' ', ',', ';', '\n', '\t'])
        .filter(|word| !word.is_empty())
    {
        let value = match word {
            "true" | "on" => Value::from(true),
            "false" | "off" => Value::from(false),
            word => match plan_form::value_of(field, word) {
                Ok(Some(value)) => value,
                Ok(None) => continue,
                Err(message) => return Err(format!("{word}: {message}.")),
            },
        };
        out.push(value);
    }
    Ok(out)
}

/// The kind of form with this word: what proves a cause is, asked for again, two plans in turn.
pub fn kind_of(word: &str) -> Option<ExperimentKind> {
    match ExperimentKind::from_word(word)? {
        ExperimentKind::Prove => Some(ExperimentKind::Paired),
        kind => Some(kind),
    }
}

/// The form's values of an experiment.
pub fn values(kind: ExperimentKind, asked: &Value) -> Values {
    let mut values = defaults(kind);
    let plan = |value: &Value| match value {
        Value::String(line) => line.clone(),
        Value::Null => String::new(),
        plan => plan.to_string(),
    };
    let mut put = |name: &str, value: String| {
        values.insert(name.to_owned(), value);
    };
    if kind == ExperimentKind::Capacity {
        put("base", plan(&asked["capacity"]["base"]));
        for (name, within) in SEARCH {
            let place = match within {
                "" => &asked["capacity"][name],
                within => &asked["capacity"][within][name],
            };
            if let Some(number) = place.as_f64() {
                put(name, number.to_string());
            }
        }
        if asked["capacity"]["arrival"] == "exponential" {
            put("arrival", "exponential".to_owned());
        }
    } else if kind == ExperimentKind::Paired {
        let pair = asked.get("paired").or_else(|| asked.get("prove"));
        let arm = |name: &str| pair.map_or_else(String::new, |pair| plan(&pair[name]));
        put("base", arm("a"));
        put("b", arm("b"));
    } else {
        put("base", plan(&asked["base"]));
    }
    if let Some(vary) = asked["vary"].as_object() {
        for ((field, list), (name, given)) in [("vary", "values"), ("vary2", "values2")]
            .into_iter()
            .zip(vary)
        {
            put(field, name.clone());
            let words: Vec<String> = given
                .as_array()
                .into_iter()
                .flatten()
                .map(|value| match value {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                })
                .collect();
            put(list, words.join(" "));
        }
    }
    for name in ["repeat", "pause_s"] {
        if let Some(number) = asked[name].as_f64() {
            put(name, number.to_string());
        }
    }
    if let Some(order) = asked["order"].as_str() {
        put("order", order.to_owned());
    }
    values
}

/// The line that repeats a plan: the tool's own, or its JSON where that line does not say everything.
pub fn line_of(plan: &Plan) -> String {
    let line = command_line::write(plan);
    let again = command_line::plan_of(&line)
        .ok()
        .and_then(|json| Plan::from_json(&json, &Caps::NONE).ok());
    if again.as_ref() == Some(plan) {
        line
    } else {
        plan.to_json().to_string()
    }
}

/// Which field of the form shows a fault of this field of the experiment.
pub fn field_for(field: &str, values: &Values) -> String {
    let is_second = |name: &str| values.get("vary2").is_some_and(|second| second == name);
    match field.split('.').collect::<Vec<_>>().as_slice() {
        ["vary", name, ..] if is_second(name) => "values2",
        ["vary", _, ..] => "values",
        ["paired", "b", ..] => "b",
        ["capacity", name] | ["capacity", "goal", name] if is_of_search(name) => name,
        ["base" | "paired" | "capacity", ..] => "base",
        [other, ..] => other,
        [] => "",
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn values_from(pairs: &[(&str, &str)]) -> Values {
        pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn a_form_becomes_what_the_api_takes_and_back() {
        let form = values_from(&[
            ("base", "iperf -c 127.0.0.1 -t 1"),
            ("vary", "window_bytes"),
            ("values", "64K, 128K"),
            ("vary2", "streams"),
            ("values2", "1 4"),
            ("repeat", "2"),
            ("pause_s", "500ms"),
            ("order", "interleaved"),
        ]);
        let (asked, faults) = asked(ExperimentKind::Sweep, &form);
        assert_eq!(faults, []);
        assert_eq!(
            Value::Object(asked.clone()),
            json!({
                "base": "iperf -c 127.0.0.1 -t 1",
                "vary": {"window_bytes": [65_536, 131_072], "streams": [1, 4]},
                "order": "interleaved", "repeat": 2, "pause_s": 0.5
            })
        );
        let again = values(ExperimentKind::Sweep, &Value::Object(asked));
        assert_eq!(again["values"], "65536 131072");
        assert_eq!(
            (again["repeat"].as_str(), again["order"].as_str()),
            ("2", "interleaved")
        );
    }

    #[test]
    fn what_only_a_form_can_get_wrong_is_said_at_its_field() {
        for (pairs, field) in [
            (&[("values", "1 2")][..], "vary"),
            (&[][..], "vary"),
            (&[("vary", "num_conns"), ("values", "few")], "values"),
            (
                &[
                    ("vary", "rate"),
                    ("values", "1"),
                    ("vary2", "rate"),
                    ("values2", "2"),
                ],
                "vary2",
            ),
            (
                &[("vary", "rate"), ("values", "1"), ("repeat", "often")],
                "repeat",
            ),
        ] {
            let (_, faults) = asked(ExperimentKind::Sweep, &values_from(pairs));
            assert!(
                faults.iter().any(|(name, _)| name == field),
                "{pairs:?}: {faults:?}"
            );
        }
        let second = values_from(&[("vary2", "streams")]);
        assert_eq!(field_for("vary.streams", &second), "values2");
        assert_eq!(field_for("vary.rate", &second), "values");
        assert_eq!(field_for("paired.b.rate", &second), "b");
        assert_eq!(field_for("base.url", &second), "base");
    }
}
