//! What a text of another tool tells of the test that it reports: only that, no default filled in.

use serde_json::{Map, Value};

use super::{Endpoint, Kind};

/// The key that marks a plan as told by a text; no plan that can be run has it.
const MARK: &str = "tool";

/// The plan of an imported run.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportedPlan {
    kind: Kind,
    /// By the names of the plan's own fields, `tool` first; what the text does not tell is not there.
    facts: Map<String, Value>,
}

impl ImportedPlan {
    /// A plan of which the tool alone is known.
    pub fn new(kind: Kind, tool: &str) -> Self {
        let mut facts = Map::new();
        facts.insert(MARK.to_owned(), tool.into());
        Self { kind, facts }
    }

    /// A stored one; `None` when this is the plan of a run of ours.
    pub fn from_json(value: &Value) -> Option<Self> {
        let mut facts = value.as_object()?.clone();
        facts.get(MARK)?;
        let kind = Kind::from_word(facts.remove("kind")?.as_str()?)?;
        Some(Self { kind, facts })
    }

    /// Its kind.
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// The tool that printed the text.
    pub fn tool(&self) -> &str {
        self.text(MARK).unwrap_or_default()
    }

    /// All that is known, in the order of the names.
    pub const fn facts(&self) -> &Map<String, Value> {
        &self.facts
    }

    /// A fact that is a text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.facts.get(name)?.as_str()
    }

    /// Notes a fact; one that is known already stays.
    pub fn note(&mut self, name: &str, value: impl Into<Value>) {
        self.facts
            .entry(name.to_owned())
            .or_insert_with(|| value.into());
    }

    /// Notes a fact, whatever was known before.
    pub fn set(&mut self, name: &str, value: impl Into<Value>) {
        self.facts.insert(name.to_owned(), value.into());
    }

    /// Puts the facts into the plan of the JSON API.
    pub(super) fn fill_json(&self, object: &mut Map<String, Value>) {
        for (name, value) in &self.facts {
            object.insert(name.clone(), value.clone());
        }
    }

    /// The first URL, where one is known.
    pub(super) fn url(&self) -> Option<&str> {
        self.text("url").or_else(|| {
            let first = self.facts.get("urls")?.get(0)?;
            first.as_str().or_else(|| first.get("url")?.as_str())
        })
    }

    /// Whom the test went to, where that is known.
    pub(super) fn endpoint(&self) -> Option<Endpoint> {
        if let Some(url) = self.url().and_then(|url| url::Url::parse(url).ok()) {
            return Some(Endpoint {
                host: url.host_str()?.trim_matches(['[', ']']).to_owned(),
                port: url.port_or_known_default(),
            });
        }
        let port = self.facts.get("port").and_then(Value::as_u64);
        Some(Endpoint {
            host: self.text("host")?.trim_matches(['[', ']']).to_owned(),
            port: port.and_then(|port| u16::try_from(port).ok()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::plan::{Caps, Plan};

    #[test]
    fn only_what_is_known_is_kept_and_it_cannot_be_run() {
        let mut plan = ImportedPlan::new(Kind::Throughput, "iperf");
        plan.note("host", "10.0.0.2");
        plan.note("port", 5001);
        plan.note("port", 9);
        let plan = Plan::Imported(plan);
        assert_eq!(plan.target(), "10.0.0.2:5001");
        let json = plan.to_json();
        assert_eq!(
            json,
            serde_json::json!({"kind": "throughput", "tool": "iperf", "host": "10.0.0.2", "port": 5001})
        );
        assert_eq!(
            ImportedPlan::from_json(&json).map(Plan::Imported),
            Some(plan)
        );
        assert!(Plan::from_json(&json, &Caps::default()).is_err());
        let own = serde_json::json!({"kind": "ping", "host": "::1"});
        assert_eq!(ImportedPlan::from_json(&own), None);
    }

    #[test]
    fn a_text_need_not_say_where_to() {
        let plan = Plan::Imported(ImportedPlan::new(Kind::Rate, "httperf"));
        assert_eq!((plan.target().as_str(), plan.endpoints().len()), ("", 0));
        let mut known = ImportedPlan::new(Kind::Rate, "httperf");
        known.note("url", "http://[::1]:8000/a");
        let plan = Plan::Imported(known);
        assert_eq!(plan.target(), "http://[::1]:8000/a");
        assert_eq!(plan.endpoints()[0].to_string(), "[::1]:8000");
    }
}
