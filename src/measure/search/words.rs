//! What a search has found, in a sentence for the head of its page and one for what follows from it.

use super::Arrival;
use super::judge::{quantile, time};
use super::result::{Capacity, Label, LimitedBy};
use crate::measure::units::{bits_per_second_text, significant};

/// The finding in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Headline {
    /// One sentence without a full stop.
    pub title: String,
    /// What follows from it.
    pub meaning: String,
}

/// The words for what `target` was found to hold when requests come like this.
pub fn headline(capacity: &Capacity, target: &str, arrival: Arrival) -> Headline {
    if let Some(error) = &capacity.error {
        return Headline {
            title: format!("Nothing was found about {target}"),
            meaning: error.clone(),
        };
    }
    Headline {
        title: title(capacity, target, arrival),
        meaning: meaning(capacity, arrival),
    }
}

/// A rate with its unit.
fn rate(capacity: &Capacity, per_s: f64) -> String {
    if capacity.loss_share.is_some() {
        bits_per_second_text(per_s)
    } else {
        format!("{} req/s", significant(per_s))
    }
}

fn title(capacity: &Capacity, target: &str, arrival: Arrival) -> String {
    let Some(lower) = capacity.lower_per_s else {
        return match (capacity.limited_by, capacity.upper_per_s) {
            (Some(LimitedBy::Generator), _) => {
                format!("This machine was the limit: nothing is known about {target}")
            }
            (_, Some(upper)) => format!("{target} does not hold even {}", rate(capacity, upper)),
            _ if capacity.labels.contains(&Label::ServerChanged) => {
                format!("{target} changed while it was measured")
            }
            _ => format!("No rate was found that {target} holds"),
        };
    };
    let held = rate(capacity, lower);
    match capacity.limited_by {
        Some(LimitedBy::Generator) => {
            return format!("{target} holds at least {held}: this machine cannot offer more");
        }
        Some(LimitedBy::MaxRate) => {
            return format!("{target} holds at least {held}: no higher rate was allowed");
        }
        Some(LimitedBy::Budget) if capacity.upper_per_s.is_none() => {
            return format!("{target} holds at least {held}: the time was over");
        }
        _ => {}
    }
    let even = arrival == Arrival::Deterministic && capacity.loss_share.is_none();
    match capacity.suggested_max_rate_per_instance {
        Some(setting) if even => format!(
            "{target} holds {held} when requests come evenly; set {} in the balancer, because they will not",
            significant(setting)
        ),
        Some(setting) => format!(
            "{target} holds {held} with random arrivals; set {} in the balancer",
            significant(setting)
        ),
        None => format!("{target} holds {held}"),
    }
}

fn meaning(capacity: &Capacity, arrival: Arrival) -> String {
    let mut sentences = Vec::new();
    if let Some(share) = capacity.loss_share {
        if let (Some(upper), Some(_)) = (capacity.upper_per_s, capacity.lower_per_s) {
            sentences.push(format!(
                "At {} more than {} of the datagrams are lost.",
                rate(capacity, upper),
                crate::measure::units::share_text(share)
            ));
        }
        return sentences.join(" ");
    }
    if let Some(ceiling) = capacity.ceiling_per_s {
        sentences.push(format!(
            "Beyond {} a second the queue grows without end.",
            significant(ceiling)
        ));
    }
    if let (Some(resource), Some(LimitedBy::Generator)) = (&capacity.resource, capacity.limited_by)
    {
        sentences.push(format!("On this machine {resource}."));
    }
    if let (Some(bound), Some(share), Some(q), Some(goal)) = (
        capacity.poisson_lower_per_s,
        capacity.suggested_share,
        capacity.quantile,
        capacity.goal_ms,
    ) {
        let missed = if arrival == Arrival::Deterministic {
            format!(
                "With random arrivals the goal is already missed above {}, so",
                significant(bound)
            )
        } else {
            format!("Up to {} the goal held;", significant(bound))
        };
        sentences.push(format!(
            "{missed} {share} of that is the setting that keeps {} within {}.",
            quantile(q),
            time(goal / 1e3)
        ));
    }
    for label in &capacity.labels {
        sentences.push(
            match label {
                Label::Spread => {
                    "Even unloaded, some requests take far longer than others, so the bounds are wider."
                }
                Label::Noisy => "Between the bounds the same rate passed and failed by turns.",
                Label::ErrorsAtAnyLoad => "Some requests fail however low the rate: that is no matter of capacity.",
                Label::ServerChanged => "The target did not stay what it was, so the search began anew.",
                Label::Degrades => "With too much offered it answers fewer than it can: keep it below its bound.",
                Label::SharedHost => "Target and generator share this machine's cores.",
            }
            .to_owned(),
        );
    }
    sentences.join(" ")
}
