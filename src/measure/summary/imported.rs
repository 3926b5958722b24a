//! The figures of a run that another tool's text tells: the keys of a run of ours of the same kind, and null for
//! each that the text does not hold.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::flow::{PathSummary, PingSummary, ThroughputSummary};
use super::{FetchSummary, RateSummary, UsersSummary};
use crate::measure::plan::Kind;

/// An imported run's figures, in JSON an object as that of a run of this program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Imported {
    figures: Map<String, Value>,
}

/// What a list shows of an imported run; `None` for what its text does not hold.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Head {
    /// Requests or probes: planned, else made.
    pub planned: Option<u64>,
    /// Those that were answered well.
    pub ok: Option<u64>,
    /// Those that were not.
    pub failed: Option<u64>,
    /// Good answers per second.
    pub achieved_per_s: Option<f64>,
    /// Median latency or round trip in ms.
    pub latency_p50_ms: Option<f64>,
    /// 99th percentile of it in ms.
    pub latency_p99_ms: Option<f64>,
}

impl Imported {
    /// All keys of a run of this kind, and not one figure.
    pub fn new(kind: Kind) -> Self {
        let all = match kind {
            Kind::Rate => serde_json::to_value(RateSummary::default()),
            Kind::Users => serde_json::to_value(UsersSummary::default()),
            Kind::Fetch => serde_json::to_value(FetchSummary::default()),
            Kind::Throughput => serde_json::to_value(ThroughputSummary::default()),
            Kind::Ping => serde_json::to_value(PingSummary::default()),
            Kind::Path => serde_json::to_value(PathSummary::default()),
        };
        // Summaries have text keys only and cannot fail.
        let mut figures = match all {
            Ok(Value::Object(figures)) => figures,
            _ => Map::new(),
        };
        figures.values_mut().for_each(forget);
        Self { figures }
    }

    /// All figures.
    pub const fn figures(&self) -> &Map<String, Value> {
        &self.figures
    }

    /// What stands at this place, such as `connection_time_ms.median`; `None` when that is null or not there.
    pub fn at(&self, place: &str) -> Option<&Value> {
        let mut names = place.split('.');
        let mut value = self.figures.get(names.next()?)?;
        for name in names {
            value = value.get(name)?;
        }
        (!value.is_null()).then_some(value)
    }

    /// The figure at this place.
    pub fn number(&self, place: &str) -> Option<f64> {
        self.at(place)?.as_f64()
    }

    /// The count at this place.
    pub fn count(&self, place: &str) -> Option<u64> {
        self.at(place)?.as_u64()
    }

    /// The text at this place.
    pub fn text(&self, place: &str) -> Option<&str> {
        self.at(place)?.as_str()
    }

    /// Puts a value at this place; the objects on the way are made where they are not there.
    pub fn set(&mut self, place: &str, value: impl Into<Value>) {
        let mut object = &mut self.figures;
        let mut rest = place;
        while let Some((name, below)) = rest.split_once('.') {
            let next = object.entry(name.to_owned()).or_insert(Value::Null);
            if !next.is_object() {
                *next = Value::Object(Map::new());
            }
            let Value::Object(next) = next else {
                return; // It was made one just now.
            };
            object = next;
            rest = below;
        }
        object.insert(rest.to_owned(), value.into());
    }

    /// The figures that lists of runs have columns for.
    pub fn head(&self) -> Head {
        let sum = |names: &[&str]| {
            let counts: Vec<u64> = names.iter().filter_map(|name| self.count(name)).collect();
            (!counts.is_empty()).then(|| counts.iter().fold(0, |a: u64, b| a.saturating_add(*b)))
        };
        Head {
            planned: self
                .count("planned")
                .or_else(|| self.count("transmitted"))
                .or_else(|| self.count("requests"))
                .or_else(|| sum(&["transactions", "failed"])),
            ok: self
                .count("received")
                .or_else(|| self.count("successful"))
                .or_else(|| sum(&["status.2xx", "status.3xx"])),
            failed: self
                .count("errors.total")
                .or_else(|| self.count("failed"))
                .or_else(|| {
                    self.count("transmitted")?
                        .checked_sub(self.count("received")?)
                }),
            achieved_per_s: self
                .number("achieved_per_s")
                .or_else(|| self.number("transaction_rate_per_s")),
            latency_p50_ms: self
                .number("latency_ms.p50")
                .or_else(|| self.number("rtt_ms.p50")),
            latency_p99_ms: self
                .number("latency_ms.p99")
                .or_else(|| self.number("rtt_ms.p99")),
        }
    }

    /// As the figures of a throughput run of ours, to draw charts of what is there: what the text does not hold is
    /// as in a run in which nothing happened, so no figure may be shown from this that [`Imported::at`] does not have.
    pub fn as_throughput(&self) -> Option<ThroughputSummary> {
        let value = complete(
            serde_json::to_value(ThroughputSummary::default()).ok()?,
            self,
        );
        let mut summary: ThroughputSummary = serde_json::from_value(value).ok()?;
        // A flattened part is read as there even when all of it is null.
        if self.at("datagrams_lost").is_none() && self.at("datagrams_sent").is_none() {
            summary.udp = None;
        }
        Some(summary)
    }

    /// As the figures of a ping of ours; see [`Imported::as_throughput`].
    pub fn as_ping(&self) -> Option<PingSummary> {
        let value = complete(serde_json::to_value(PingSummary::default()).ok()?, self);
        serde_json::from_value(value).ok()
    }
}

/// The value with each figure that the text holds.
fn complete(mut all: Value, imported: &Imported) -> Value {
    for (name, value) in &imported.figures {
        fill(&mut all, name, value);
    }
    all
}

fn fill(into: &mut Value, name: &str, value: &Value) {
    let Value::Object(object) = into else {
        return;
    };
    match value {
        Value::Null => {}
        Value::Object(parts)
            if object.get(name).is_some_and(Value::is_object) && name != "directions" =>
        {
            if let Some(below) = object.get_mut(name) {
                for (name, value) in parts {
                    fill(below, name, value);
                }
            }
        }
        Value::Object(parts) if name == "directions" => {
            let ways = parts.iter().filter_map(|(way, part)| {
                let figures = part.as_object()?.clone();
                let part = Imported { figures }.as_throughput()?;
                Some((way.clone(), serde_json::to_value(part).ok()?))
            });
            object.insert(name.to_owned(), Value::Object(ways.collect()));
        }
        Value::Array(streams) if name == "streams" => {
            let streams = streams.iter().map(|stream| {
                let blank = super::flow::StreamFigures::default();
                let mut whole = serde_json::to_value(blank).unwrap_or_default();
                for (name, value) in stream.as_object().into_iter().flatten() {
                    if name != "datagrams" {
                        fill(&mut whole, name, value);
                    }
                }
                whole
            });
            object.insert(name.to_owned(), Value::Array(streams.collect()));
        }
        value => {
            object.insert(name.to_owned(), value.clone());
        }
    }
}

/// Makes every figure below null; maps and lists stay, empty as they are.
fn forget(value: &mut Value) {
    match value {
        Value::Object(parts) => parts.values_mut().for_each(forget),
        Value::Array(_) => {}
        other => *other = Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_nothing_is_known_of_has_all_keys_and_no_figure() {
        for kind in Kind::ALL {
            let imported = Imported::new(kind);
            assert!(imported.figures().len() >= 5, "{kind:?}");
            let text = serde_json::to_string(&imported).unwrap();
            assert!(
                !text.contains(|c: char| c.is_ascii_digit() && text.contains(":0")),
                "{text}"
            );
        }
        assert_eq!(Imported::new(Kind::Rate).at("errors.total"), None);
    }

    #[test]
    fn places_are_made_where_they_are_not_there() {
        let mut imported = Imported::new(Kind::Rate);
        imported.set("connection_time_ms.median", 377.5);
        imported.set("outcomes.ok", 5);
        imported.set("tool", "httperf");
        assert_eq!(imported.number("connection_time_ms.median"), Some(377.5));
        assert_eq!(imported.count("outcomes.ok"), Some(5));
        assert_eq!(imported.text("tool"), Some("httperf"));
        assert_eq!(imported.number("connection_time_ms.avg"), None);
        assert_eq!(imported.number("connection_time_ms.median.more"), None);
    }

    #[test]
    fn charts_are_drawn_from_what_is_there() {
        let mut imported = Imported::new(Kind::Throughput);
        imported.set("bits_per_second", 74.9e9);
        imported.set("tool", "iperf");
        imported.set(
            "streams",
            serde_json::json!([{"id": 3, "direction": "send", "bytes": 7, "bits_per_second": 5.0, "label": "[  3]"}]),
        );
        let drawn = imported.as_throughput().unwrap();
        assert_eq!(drawn.bits_per_second, Some(74.9e9));
        assert_eq!((drawn.streams[0].id, drawn.streams[0].bytes), (3, 7));
        assert_eq!(drawn.udp, None);
        let mut ping = Imported::new(Kind::Ping);
        ping.set("transmitted", 5);
        ping.set("rtt_ms.avg", 0.5);
        let drawn = ping.as_ping().unwrap();
        assert_eq!(
            (drawn.transmitted, drawn.rtt_ms.figures.avg),
            (5, Some(0.5))
        );
    }
}
