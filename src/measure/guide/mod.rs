//! Guides: the experiments of the source labs as checklists, the labs' own figures, and where somebody's differ from them.

mod network;
mod recovery;
mod servers;
mod source;
mod steps;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::measure::experiment::{Experiment, ExperimentKind};
use crate::measure::flow_series::EchoPoint;
use crate::measure::plan::Kind;
use crate::measure::run::Run;
use crate::measure::units;

pub use recovery::{Recovery, recovery};
pub use servers::REGIONAL_SWEEP;

/// Two figures are alike when neither is more than this share larger than the other.
pub const ALIKE: f64 = 0.25;

/// The guides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Guide {
    /// Round trips to another machine.
    ConnectionTest,
    /// Throughput by the number of cores.
    CoreCount,
    /// The internal address against the external one.
    InternalExternal,
    /// Jumbo frames and sixteen streams.
    Tier1,
    /// What one server holds.
    Capacity,
    /// What a region of three holds.
    RegionalOverload,
    /// Two regions, the second one takes what the first has no room for.
    GlobalOverflow,
    /// A region that dies or drains.
    RegionFailure,
}

/// One experiment of a guide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its word in tags.
    pub word: &'static str,
    /// What it does.
    pub does: &'static str,
    /// What it is for.
    pub why: &'static str,
    /// What it starts.
    pub start: Start,
}

/// What a step starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// One run.
    Run(Kind),
    /// An experiment.
    Experiment(ExperimentKind),
}

impl Guide {
    /// Every guide, in the order of the labs.
    pub const ALL: [Self; 8] = [
        Self::ConnectionTest,
        Self::CoreCount,
        Self::InternalExternal,
        Self::Tier1,
        Self::Capacity,
        Self::RegionalOverload,
        Self::GlobalOverflow,
        Self::RegionFailure,
    ];

    /// Its word in addresses.
    pub const fn slug(self) -> &'static str {
        match self {
            Self::ConnectionTest => "connection-test",
            Self::CoreCount => "core-count",
            Self::InternalExternal => "internal-external",
            Self::Tier1 => "tier-1",
            Self::Capacity => "capacity",
            Self::RegionalOverload => "regional-overload",
            Self::GlobalOverflow => "global-overflow",
            Self::RegionFailure => "region-failure",
        }
    }

    /// The guide with this word.
    pub fn from_slug(slug: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|guide| guide.slug() == slug)
    }

    /// What it is called.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ConnectionTest => "Connection test",
            Self::CoreCount => "Core count",
            Self::InternalExternal => "Internal against external",
            Self::Tier1 => "Tier_1 bandwidth",
            Self::Capacity => "Single-machine capacity",
            Self::RegionalOverload => "Regional overload",
            Self::GlobalOverflow => "Global overflow",
            Self::RegionFailure => "Region failure",
        }
    }

    /// What it answers.
    pub const fn question(self) -> &'static str {
        match self {
            Self::ConnectionTest => "Does the way to the other machine work, and how long is it?",
            Self::CoreCount => {
                "How much can a machine send, and do more streams or cores change it?"
            }
            Self::InternalExternal => "What does it cost to go by the external address?",
            Self::Tier1 => "Does the fast network reach what it is documented to?",
            Self::Capacity => "How many requests a second does one server hold?",
            Self::RegionalOverload => "What happens when a whole region has too much to do?",
            Self::GlobalOverflow => "Does a second region take what the first has no room for?",
            Self::RegionFailure => "How many requests does a dying region cost, and for how long?",
        }
    }

    /// Whether it needs the load-balanced lab.
    pub const fn needs_lab(self) -> bool {
        matches!(
            self,
            Self::RegionalOverload | Self::GlobalOverflow | Self::RegionFailure
        )
    }

    /// Where the figures of the lab come from.
    pub const fn source(self) -> &'static str {
        match self {
            Self::ConnectionTest | Self::CoreCount | Self::InternalExternal => source::CORES,
            Self::Tier1 => source::TIER,
            Self::Capacity | Self::RegionalOverload | Self::GlobalOverflow => source::SERVERS,
            Self::RegionFailure => source::NONE,
        }
    }

    /// The tag of all that belongs to it.
    pub fn tag(self) -> String {
        format!("guide:{}", self.slug())
    }

    /// The tag of one of its steps.
    pub fn step_tag(self, step: &str) -> String {
        format!("guide:{}/{step}", self.slug())
    }

    /// The guide that a tag of either kind belongs to.
    pub fn of_tag(tag: &str) -> Option<Self> {
        let slug = tag.strip_prefix("guide:")?;
        Self::from_slug(slug.split('/').next().unwrap_or(slug))
    }

    /// A second chart, where these have what it needs.
    pub fn second(self, found: &Evidence) -> Option<Beside> {
        match self {
            Self::GlobalOverflow => servers::both(found),
            _ => None,
        }
    }

    /// The lab's figures beside these.
    pub fn beside(self, found: &Evidence) -> Beside {
        match self {
            Self::ConnectionTest => network::connection(found),
            Self::CoreCount => network::cores(found),
            Self::InternalExternal => network::ways(found),
            Self::Tier1 => network::tier(found),
            Self::Capacity => servers::capacity(found),
            Self::RegionalOverload => servers::regional(found),
            Self::GlobalOverflow => servers::overflow(found),
            Self::RegionFailure => servers::failure(found),
        }
    }
}

/// What the notebook has of a guide: only what finished.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// Runs by step, newest first.
    pub runs: BTreeMap<&'static str, Vec<Run>>,
    /// The newest experiment by step, with its figures.
    pub experiments: BTreeMap<&'static str, Experiment>,
    /// Round trips of the newest run of a step.
    pub echoes: BTreeMap<&'static str, Vec<EchoPoint>>,
    /// How long the failures of the newest run of a step lasted.
    pub recoveries: BTreeMap<&'static str, Recovery>,
}

impl Evidence {
    /// Answers per second of one server when there is always work, as a search or a closed loop of the guide found it.
    pub fn ceiling(&self) -> Option<f64> {
        servers::ceiling(self)
    }

    fn run(&self, step: &str) -> Option<&Run> {
        self.runs.get(step)?.first()
    }
}

/// One place in the chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Spot {
    /// What it is called where places have names; else empty.
    pub label: String,
    /// Its place.
    pub x: f64,
    /// Its value.
    pub y: f64,
}

/// How places are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Manner {
    /// A line through numbers.
    #[default]
    Line,
    /// A bar for each name.
    Bars,
}

/// The lab's figures and the own ones in the same measure.
#[derive(Clone, Debug, PartialEq)]
pub struct Beside {
    /// The finding.
    pub title: String,
    /// What is drawn, and how it was made comparable.
    pub what: &'static str,
    /// Name of the level axis.
    pub x_name: &'static str,
    /// Name of the upright axis, with its unit.
    pub y_name: &'static str,
    /// How.
    pub manner: Manner,
    /// What the two sides are called where they are not the source lab and yours.
    pub names: (&'static str, &'static str),
    /// Of the lab.
    pub lab: Vec<Spot>,
    /// The own ones; empty until something was measured.
    pub own: Vec<Spot>,
    /// The table.
    pub rows: Vec<Difference>,
}

impl Default for Beside {
    fn default() -> Self {
        Self {
            title: String::new(),
            what: "",
            x_name: "",
            y_name: "",
            manner: Manner::Line,
            names: ("source lab", "yours"),
            lab: Vec::new(),
            own: Vec::new(),
            rows: Vec::new(),
        }
    }
}

/// How a figure stands to the lab's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stands {
    /// As there.
    Alike,
    /// Otherwise.
    Differs,
    /// Not measured yet, or the lab says nothing.
    Open,
}

/// One line of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// What is compared.
    pub figure: &'static str,
    /// The lab's; empty where it has none.
    pub lab: String,
    /// The own one; empty where it was not measured.
    pub own: String,
    /// How they stand.
    pub stands: Stands,
    /// What may be the reason where they differ, else what it means.
    pub says: String,
}

/// A line of figures that are alike within [`ALIKE`].
fn compared(
    figure: &'static str,
    lab: f64,
    own: Option<f64>,
    text: impl Fn(f64) -> String,
    otherwise: &str,
) -> Difference {
    let own = own.filter(|own| own.is_finite());
    let stands = match own {
        None => Stands::Open,
        Some(own) if near(lab, own) => Stands::Alike,
        Some(_) => Stands::Differs,
    };
    Difference {
        figure,
        lab: text(lab),
        own: own.map(&text).unwrap_or_default(),
        stands,
        says: match (stands, own) {
            (Stands::Differs, Some(own)) if own > 0.0 && lab > 0.0 => {
                let (word, factor) = if own > lab {
                    ("more than there", own / lab)
                } else {
                    ("less than there", lab / own)
                };
                format!("{} times {word}. {otherwise}", units::significant(factor))
            }
            (Stands::Differs, _) => otherwise.to_owned(),
            (Stands::Alike, _) => "as there".to_owned(),
            (Stands::Open, _) => "not measured yet".to_owned(),
        },
    }
}

/// A line whose own figure has no counterpart in the lab.
fn alone(figure: &'static str, own: Option<String>, says: &str) -> Difference {
    Difference {
        figure,
        lab: String::new(),
        stands: Stands::Open,
        says: if own.is_some() {
            says.to_owned()
        } else {
            "not measured yet".to_owned()
        },
        own: own.unwrap_or_default(),
    }
}

/// Whether neither is more than [`ALIKE`] larger than the other.
fn near(a: f64, b: f64) -> bool {
    let (least, most) = (a.min(b), a.max(b));
    most <= least * (1.0 + ALIKE) || (most - least).abs() < 1e-9
}

/// What the table comes to, in a few words.
fn told(rows: &[Difference], open: &str) -> String {
    let of = |stands: Stands| rows.iter().filter(|row| row.stands == stands).count();
    let (alike, differs) = (of(Stands::Alike), of(Stands::Differs));
    match (alike, differs) {
        (0, 0) => open.to_owned(),
        (1, 0) => "The one figure that both have is as in the source lab".to_owned(),
        (0, 1) => "The one figure that both have is not as in the source lab".to_owned(),
        (n, 0) => format!("All {n} figures are as in the source lab"),
        (0, n) => format!("None of the {n} figures is as in the source lab"),
        _ => format!(
            "{alike} of {} figures are as in the source lab, {differs} not",
            alike + differs
        ),
    }
}

fn spot(x: f64, y: f64) -> Spot {
    Spot {
        label: String::new(),
        x,
        y,
    }
}

fn bar(label: impl Into<String>, y: f64) -> Spot {
    Spot {
        label: label.into(),
        x: 0.0,
        y,
    }
}

fn times_text(value: f64) -> String {
    format!("{}\u{a0}×", units::significant(value))
}

fn share_text(value: f64) -> String {
    units::share_text(value).replace(' ', "\u{a0}")
}
