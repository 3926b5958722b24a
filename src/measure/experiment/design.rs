//! What an experiment is asked to do: valid, bounded, and taken apart into the plans that will run.

use serde_json::{Map, Value, json};

use super::capacity::CapacitySpec;
use super::driver::{Driver, Planned};
use super::prove::Proving;
use super::record::ExperimentKind;
use crate::measure::plan::Plan;

/// In which order the repeats of several values run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// All repeats of the first value, then all of the second: 4 4 5 5 7 7.
    #[default]
    Given,
    /// Each value once, then all again: 4 5 7 4 5 7.
    Interleaved,
}

impl Order {
    /// The word in JSON and forms.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Given => "given",
            Self::Interleaved => "interleaved",
        }
    }

    /// The order with this word.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Given, Self::Interleaved]
            .into_iter()
            .find(|order| order.word() == word)
    }
}

/// One plan of an experiment with what tells it from the others.
#[derive(Clone, Debug, PartialEq)]
pub struct Arm {
    /// What was varied: `{"rate": 7}`, `{"arm": "a"}`; empty in a series.
    pub point: Map<String, Value>,
    /// What runs.
    pub plan: Plan,
}

/// A plan with one or two of its fields varied, or none in a series.
#[derive(Clone, Debug, PartialEq)]
pub struct Varied {
    /// The plan as it was given: its JSON, or a tool's line.
    pub base: Value,
    /// Each varied field with its values, in the order given; none in a series.
    pub vary: Vec<(String, Vec<Value>)>,
    /// How often each value runs.
    pub repeat: u32,
    /// Between the end of a run and the start of the next, in s.
    pub pause_s: f64,
    /// In which order repeats run.
    pub order: Order,
    /// Every combination of the values; the first field changes slowest.
    pub arms: Vec<Arm>,
}

/// Two plans that take turns: a b a b.
#[derive(Clone, Debug, PartialEq)]
pub struct Paired {
    /// The first plan as it was given.
    pub a: Value,
    /// The second one.
    pub b: Value,
    /// How many pairs run.
    pub repeat: u32,
    /// Between the end of a run and the start of the next, in s.
    pub pause_s: f64,
    /// The two.
    pub arms: Vec<Arm>,
}

/// What an experiment is asked to do; one that exists is valid and bounded in time and count.
#[derive(Clone, Debug, PartialEq)]
pub enum Spec {
    /// A sweep, or a series where nothing is varied.
    Varied(Varied),
    /// Two plans in turn.
    Paired(Paired),
    /// A run and its counter-run in turn.
    Prove(Proving),
    /// The highest rate that holds.
    Capacity(Box<CapacitySpec>),
}

impl Spec {
    /// Its kind.
    pub const fn kind(&self) -> ExperimentKind {
        match self {
            Self::Varied(varied) if varied.vary.is_empty() => ExperimentKind::Series,
            Self::Varied(_) => ExperimentKind::Sweep,
            Self::Paired(_) => ExperimentKind::Paired,
            Self::Prove(_) => ExperimentKind::Prove,
            Self::Capacity(_) => ExperimentKind::Capacity,
        }
    }

    /// The plans that run, in the order of their first runs; at least one.
    pub fn arms(&self) -> &[Arm] {
        match self {
            Self::Varied(varied) => &varied.arms,
            Self::Paired(paired) => &paired.arms,
            Self::Prove(proving) => &proving.pair.arms,
            Self::Capacity(capacity) => std::slice::from_ref(capacity.arm()),
        }
    }

    /// How often each plan runs.
    pub const fn repeat(&self) -> u32 {
        match self {
            Self::Varied(varied) => varied.repeat,
            Self::Paired(paired) => paired.repeat,
            Self::Prove(proving) => proving.pair.repeat,
            Self::Capacity(_) => 1,
        }
    }

    /// Between the end of a run and the start of the next, in s.
    pub const fn pause_s(&self) -> f64 {
        match self {
            Self::Varied(varied) => varied.pause_s,
            Self::Paired(paired) => paired.pause_s,
            Self::Prove(proving) => proving.pair.pause_s,
            Self::Capacity(_) => 0.0,
        }
    }

    /// In which order repeats run; a pair always takes turns.
    pub const fn order(&self) -> Order {
        match self {
            Self::Varied(varied) => varied.order,
            Self::Paired(_) | Self::Prove(_) => Order::Interleaved,
            Self::Capacity(_) => Order::Given,
        }
    }

    /// The varied fields, in the order given; none in a series and a pair. A search varies the rate.
    pub fn fields(&self) -> Vec<&str> {
        match self {
            Self::Varied(varied) => varied.vary.iter().map(|(name, _)| name.as_str()).collect(),
            Self::Paired(_) | Self::Prove(_) => Vec::new(),
            Self::Capacity(_) => vec!["rate"],
        }
    }

    /// How many runs there will be; of a search, which decides as it goes, just its first.
    pub fn runs(&self) -> usize {
        self.arms().len() * self.repeat() as usize
    }

    /// The first target, for lists and titles.
    pub fn target(&self) -> String {
        self.arms()
            .first()
            .map(|arm| arm.plan.target())
            .unwrap_or_default()
    }

    /// The run with this number, 0 = first: which plan, and which repeat, 1 = first.
    pub(super) fn place(&self, number: usize) -> Option<(usize, u32)> {
        if number >= self.runs() {
            return None;
        }
        let (arms, repeat) = (self.arms().len(), self.repeat() as usize);
        let (arm, before) = match self.order() {
            Order::Given => (number / repeat, number % repeat),
            Order::Interleaved => (number % arms, number / arms),
        };
        Some((arm, u32::try_from(before).unwrap_or(u32::MAX - 1) + 1))
    }

    /// What decides run by run.
    pub fn driver(&self) -> Box<dyn Driver> {
        match self {
            Self::Varied(_) | Self::Paired(_) | Self::Prove(_) => {
                Box::new(Planned::new(self.clone()))
            }
            Self::Capacity(capacity) => capacity.driver(),
        }
    }

    /// As the JSON API takes and shows it.
    pub fn to_json(&self) -> Value {
        match self {
            Self::Varied(varied) => {
                let mut object = Map::new();
                object.insert("base".to_owned(), varied.base.clone());
                if !varied.vary.is_empty() {
                    let vary: Map<String, Value> = varied
                        .vary
                        .iter()
                        .map(|(name, values)| (name.clone(), values.clone().into()))
                        .collect();
                    object.insert("vary".to_owned(), vary.into());
                }
                object.insert("repeat".to_owned(), varied.repeat.into());
                object.insert("pause_s".to_owned(), varied.pause_s.into());
                object.insert("order".to_owned(), varied.order.word().into());
                Value::Object(object)
            }
            Self::Paired(paired) => json!({
                "paired": {"a": paired.a, "b": paired.b},
                "repeat": paired.repeat,
                "pause_s": paired.pause_s,
            }),
            Self::Prove(proving) => proving.to_json(),
            Self::Capacity(capacity) => capacity.to_json(),
        }
    }
}

impl Arm {
    /// What tells it from the others, in words: `rate 7`, `streams 4, window_bytes 65536`, `a`; empty in a series.
    pub fn label(&self) -> String {
        label_of(&self.point)
    }
}

/// A point in words.
pub fn label_of(point: &Map<String, Value>) -> String {
    let words: Vec<String> = point
        .iter()
        .map(|(name, value)| match value {
            Value::String(text) if name == "arm" => text.clone(),
            value => format!("{name} {}", plain(value)),
        })
        .collect();
    words.join(", ")
}

/// A varied value as a person writes it.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number
            .as_f64()
            .map_or_else(|| number.to_string(), |n| n.to_string()),
        other => other.to_string(),
    }
}
