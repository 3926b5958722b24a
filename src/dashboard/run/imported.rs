//! The report of an imported run: what the text holds, and nothing else.

use serde_json::{Map, Value, json};

use crate::chart::{self, Figure, FlowChartInput, FlowRun};
use crate::dashboard::run::keys::{Key, key};
use crate::dashboard::run::rail::{Fact, fact};
use crate::dashboard::run::table::{More, Row, Table, numbers, words_in};
use crate::dashboard::words::{self, DASH, Measure};
use crate::measure::flow_series::FlowSeries;
use crate::measure::plan::{Caps, ImportedPlan, Kind, PingPlan, Plan, ThroughputPlan};
use crate::measure::run::Run;
use crate::measure::summary::flow::{PingSummary, ThroughputSummary};
use crate::measure::summary::{Imported, Summary};

/// Rows of a table on the page; the files have all.
const MOST_ROWS: usize = 250;

/// What the text tells of the test.
pub fn plan(plan: &ImportedPlan) -> Vec<Fact> {
    let mut out = vec![fact("printed by", plan.tool(), false)];
    for (name, value) in plan.facts() {
        if name == "tool" {
            continue;
        }
        let value = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        out.push(fact(&name.replace('_', " "), &value, false));
    }
    out
}

/// Where the text was read, since it tells nothing of the machine.
pub fn environment(run: &Run) -> Vec<Fact> {
    vec![
        fact("imported by", &run.node, false),
        fact("on", &words::when(run.created_at), false),
        fact("machine", "the text does not tell", false),
    ]
}

/// How many requests or probes it tells of.
pub fn size(figures: &Imported) -> Option<String> {
    let planned = figures.head().planned?;
    Some(format!("n = {}", words::count(planned)))
}

/// The key figures that the text has.
pub fn keys(kind: Kind, figures: &Imported) -> Vec<Key> {
    let ms = |place: &str| Measure::ms(figures.number(place));
    let seconds = |place: &str| Measure::ms(figures.number(place).map(|seconds| seconds * 1e3));
    let share = |place: &str| Measure::share(figures.number(place).map(|percent| percent / 100.0));
    let count = |place: &str| {
        figures
            .count(place)
            .map_or_else(Measure::missing, Measure::count)
    };
    let per_s = |place: &str, of: &str| (Measure::per_s(figures.number(place)), of.to_owned());
    let list: Vec<(&str, Measure, String)> = match kind {
        Kind::Throughput => {
            let whose = if figures.at("receiver_bits_per_second").is_some() {
                "as the receiver counted"
            } else if figures.at("directions.send").is_some() {
                "both directions"
            } else {
                "as the sender counted"
            };
            let way = |way: &str| {
                Measure::bits(figures.number(&format!("directions.{way}.bits_per_second")))
            };
            let streams = figures
                .at("streams")
                .and_then(Value::as_array)
                .map_or(0, Vec::len);
            vec![
                (
                    "Throughput",
                    Measure::bits(figures.number("bits_per_second")),
                    whose.to_owned(),
                ),
                ("Sent", way("send"), String::new()),
                ("Received", way("receive"), String::new()),
                ("Streams", Measure::count(streams as u64), String::new()),
                (
                    "Fastest to slowest",
                    ratio(figures.number("fastest_to_slowest")),
                    "streams".to_owned(),
                ),
                ("Sent again", count("retransmits"), "segments".to_owned()),
                ("Lost", share("lost_percent"), "of the datagrams".to_owned()),
                ("Jitter", ms("jitter_ms"), String::new()),
                ("Took", seconds("duration_s"), String::new()),
            ]
        }
        Kind::Rate => {
            let (rate, of) = per_s("connection_rate_per_s", "connections");
            vec![
                (
                    "Connection time",
                    ms("connection_time_ms.median"),
                    "median".to_owned(),
                ),
                (
                    "Average",
                    ms("connection_time_ms.avg"),
                    "connection time".to_owned(),
                ),
                (
                    "Longest",
                    ms("connection_time_ms.max"),
                    "connection time".to_owned(),
                ),
                ("Rate", rate, of),
                ("Replies", count("replies"), String::new()),
                ("Errors", count("errors.total"), String::new()),
            ]
        }
        Kind::Users => {
            let (rate, of) = per_s("transaction_rate_per_s", "transactions");
            vec![
                ("Rate", rate, of),
                ("Response time", ms("latency_ms.avg"), "average".to_owned()),
                ("Longest", seconds("longest_s"), "transaction".to_owned()),
                ("Availability", share("availability_percent"), String::new()),
                ("Transactions", count("transactions"), String::new()),
                ("Failed", count("failed"), String::new()),
            ]
        }
        _ => vec![
            ("Average", ms("rtt_ms.avg"), "round trip".to_owned()),
            ("Shortest", ms("rtt_ms.min"), String::new()),
            ("Longest", ms("rtt_ms.max"), String::new()),
            ("Deviation", ms("rtt_ms.mdev"), "mdev".to_owned()),
            (
                "Lost",
                share("loss_percent"),
                format!(
                    "of {}",
                    words::count(figures.count("transmitted").unwrap_or(0))
                ),
            ),
        ],
    };
    list.into_iter()
        .filter(|(_, value, _)| value.number != DASH)
        .take(6)
        .map(|(name, value, sub)| key(name, value, sub))
        .collect()
}

fn ratio(value: Option<f64>) -> Measure {
    value.map_or_else(Measure::missing, |value| Measure {
        number: words::digits(value),
        unit: "",
    })
}

/// Totals as they were printed, every figure by its name, and those that have no name of ours.
pub fn tables(figures: &Imported) -> Vec<Table> {
    [
        totals(figures),
        Some(every_figure(figures)),
        further(figures),
    ]
    .into_iter()
    .flatten()
    .filter(|table| !table.rows.is_empty())
    .collect()
}

fn totals(figures: &Imported) -> Option<Table> {
    let rows = figures.at("totals")?.as_array()?;
    let cell = |row: &Value, name: &str, show: fn(f64) -> String| {
        row[name].as_f64().map_or_else(|| DASH.to_owned(), show)
    };
    let word = |row: &Value, name: &str| row[name].as_str().unwrap_or(DASH).to_owned();
    let mut table = Table {
        id: "totals",
        head: "Totals as they were printed".to_owned(),
        columns: vec![
            words_in("stream"),
            words_in("direction"),
            words_in("counted by"),
            numbers("from, s"),
            numbers("to, s"),
            numbers("bytes"),
            numbers("rate"),
            numbers("sent again"),
            numbers("jitter, ms"),
            numbers("lost"),
            numbers("datagrams"),
        ],
        more: (rows.len() > MOST_ROWS).then(|| More {
            text: format!(
                "{} more totals are in",
                words::count((rows.len() - MOST_ROWS) as u64)
            ),
            file: "summary.json",
        }),
        ..Table::default()
    };
    let whole: fn(f64) -> String = words::plain;
    table.rows = rows
        .iter()
        .take(MOST_ROWS)
        .map(|row| Row {
            sum: row["stream"].as_str() == Some("SUM"),
            cells: vec![
                word(row, "stream"),
                word(row, "direction"),
                word(row, "counted_by"),
                cell(row, "start_s", whole),
                cell(row, "end_s", whole),
                row["bytes"]
                    .as_u64()
                    .map_or_else(|| DASH.to_owned(), words::count),
                words::bits(row["bits_per_second"].as_f64()),
                cell(row, "retransmits", whole),
                cell(row, "jitter_ms", whole),
                cell(row, "lost", whole),
                cell(row, "datagrams", whole),
            ],
            ..Row::default()
        })
        .collect();
    table.drop_empty_columns();
    Some(table)
}

fn every_figure(figures: &Imported) -> Table {
    let mut rows = Vec::new();
    walk("", figures.figures(), &mut rows);
    Table {
        id: "figures",
        head: "Every figure of the text, by its name in the API".to_owned(),
        lead: "What the text does not hold is not here.".to_owned(),
        columns: vec![words_in("figure"), numbers("value")],
        rows,
        ..Table::default()
    }
}

/// Scalars alone; lists have tables of their own.
fn walk(path: &str, parts: &Map<String, Value>, rows: &mut Vec<Row>) {
    for (name, value) in parts {
        let name = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}.{name}")
        };
        let text = match value {
            Value::Object(below) => {
                walk(&name, below, rows);
                continue;
            }
            Value::Number(number) => number
                .as_u64()
                .map(words::count)
                .or_else(|| number.as_f64().map(words::plain)),
            Value::String(text) => Some(text.clone()),
            Value::Bool(flag) => Some(flag.to_string()),
            Value::Null | Value::Array(_) => None,
        };
        if let Some(text) = text
            && rows.len() < MOST_ROWS
        {
            rows.push(Row {
                cells: vec![name, text],
                ..Row::default()
            });
        }
    }
}

fn further(figures: &Imported) -> Option<Table> {
    let lines = figures.at("further")?.as_array()?;
    let left_out = figures.count("further_left_out").unwrap_or(0);
    let more = lines.len().saturating_sub(MOST_ROWS) as u64;
    let rows = lines
        .iter()
        .take(MOST_ROWS)
        .map(|line| {
            let figures = line["figures"].as_object().into_iter().flatten();
            let figures: Vec<String> = figures
                .filter_map(|(name, value)| {
                    Some(format!("{name}\u{a0}{}", words::plain(value.as_f64()?)))
                })
                .collect();
            Row {
                cells: vec![
                    line["line"].to_string(),
                    line["of"].as_str().unwrap_or_default().to_owned(),
                    figures.join(", "),
                ],
                ..Row::default()
            }
        })
        .collect();
    Some(Table {
        id: "further",
        head: "Figures for which a run of ours has no name".to_owned(),
        lead: "As the tool calls them, with the line of the text.".to_owned(),
        columns: vec![numbers("line"), words_in("of"), words_in("figures")],
        rows,
        more: (more + left_out > 0).then(|| More {
            text: format!(
                "{} more lines like these are in",
                words::count(more + left_out)
            ),
            file: if left_out > 0 {
                "report.txt"
            } else {
                "summary.json"
            },
        }),
    })
}

/// The figure of a list, and what it is.
pub fn headline(figures: &Imported) -> (String, String) {
    let of = |value: String, what: &str| (value, what.to_owned());
    if let Some(rate) = figures.number("bits_per_second") {
        return match figures.number("lost_percent") {
            Some(lost) => (
                words::bits(Some(rate)),
                format!("{} lost", words::share(lost / 100.0)),
            ),
            None => of(words::bits(Some(rate)), ""),
        };
    }
    let way = |way: &str| figures.number(&format!("directions.{way}.bits_per_second"));
    if let (Some(send), Some(receive)) = (way("send"), way("receive")) {
        let both = format!(
            "{}, {}",
            words::bits(Some(send)),
            words::bits(Some(receive))
        );
        return of(both, "send, receive");
    }
    if let Some(rate) = figures.number("transaction_rate_per_s") {
        return of(Measure::per_s(Some(rate)).text(), "transactions");
    }
    for (place, what) in [
        ("connection_time_ms.median", "median connection time"),
        ("rtt_ms.avg", "average round trip"),
    ] {
        if let Some(ms) = figures.number(place) {
            return of(words::ms(Some(ms)), what);
        }
    }
    of(DASH.to_owned(), "")
}

/// A test of streams or a ping in the shape that charts are drawn from.
enum Shape {
    Throughput(Box<(ThroughputPlan, ThroughputSummary)>),
    Ping(Box<(PingPlan, PingSummary)>),
}

impl Shape {
    fn of(run: &Run) -> Option<Self> {
        let (Plan::Imported(told), Some(Summary::Imported(figures))) = (&run.plan, &run.summary)
        else {
            return None;
        };
        let mut object = Map::new();
        object.insert("kind".to_owned(), json!(told.kind().word()));
        object.insert("host".to_owned(), json!("127.0.0.1"));
        let known: &[&str] = match told.kind() {
            Kind::Throughput => &["port", "protocol", "streams", "direction", "dialect"],
            _ => &[],
        };
        for name in known {
            if let Some(value) = told.facts().get(*name) {
                object.insert((*name).to_owned(), value.clone());
            }
        }
        let any = Caps {
            max_rate: f64::MAX,
            max_users: u32::MAX,
            max_streams: u32::MAX,
            max_duration_s: f64::MAX,
            max_connections: 1 << 53,
        };
        let host = told.text("host").unwrap_or_default().to_owned();
        match Plan::from_json(&Value::Object(object), &any).ok()? {
            Plan::Throughput(mut plan) => {
                plan.host = host;
                // What the text does not say is drawn nowhere.
                plan.bandwidth_bits_per_second = None;
                Some(Self::Throughput(Box::new((plan, figures.as_throughput()?))))
            }
            Plan::Ping(mut plan) => {
                plan.host = host;
                Some(Self::Ping(Box::new((plan, figures.as_ping()?))))
            }
            _ => None,
        }
    }

    fn input<'a>(&'a self, run: &Run, series: &'a FlowSeries) -> FlowChartInput<'a> {
        FlowChartInput {
            run: match self {
                Self::Throughput(parts) => FlowRun::Throughput(&parts.0, &parts.1),
                Self::Ping(parts) => FlowRun::Ping(&parts.0, &parts.1),
            },
            series,
            state: run.state,
            when: run.started_at,
        }
    }
}

/// The charts of what is over time.
pub fn charts(run: &Run, series: &FlowSeries) -> Vec<Figure> {
    Shape::of(run)
        .map(|shape| chart::flow_figures(&shape.input(run, series)))
        .unwrap_or_default()
}

/// One of them as a file.
pub fn chart_file(
    run: &Run,
    series: &FlowSeries,
    name: &str,
    theme: chart::Theme,
) -> Option<String> {
    let shape = Shape::of(run)?;
    chart::flow_file(&shape.input(run, series), name, theme)
}
