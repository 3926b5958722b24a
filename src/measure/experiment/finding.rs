//! What an experiment shows, in a sentence, by rule; where no rule is sure, what was measured and no more.

use super::design::Spec;
use super::figure::{Figure, figure, figure_of_kind};
use super::paired::{Ratio, ratio};
use super::prove::{Answer, Proving};
use super::record::Point;
use super::settle::settled_at;
use super::sweep::{Knee, Level, knee, levels, median};
use crate::measure::plan::Plan;
use crate::measure::run::State;
use crate::measure::units;
use crate::measure::verdict::words::{self, counted, percent, rate};

/// Repeats from which on a series is told by its spread.
const MANY: usize = 10;

/// A finding: the title, and what it means.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Finding {
    /// At most 100 characters.
    pub title: String,
    /// What the figures mean, in one or two sentences.
    pub verdict: String,
}

/// What the runs so far show together.
pub fn finding(spec: &Spec, points: &[Point]) -> Finding {
    let Some(plan) = spec.arms().first().map(|arm| &arm.plan) else {
        return Finding::default();
    };
    let of = figure_of_kind(plan.kind());
    let ended: Vec<&Point> = points
        .iter()
        .filter(|point| point.state.is_final())
        .collect();
    let failed = ended
        .iter()
        .filter(|point| point.state == State::Failed)
        .count();
    if ended.is_empty() {
        return Finding {
            title: "No run has ended so far".to_owned(),
            verdict: String::new(),
        };
    }
    if failed == ended.len() {
        let why = ended.iter().find_map(|point| point.error.clone());
        return Finding {
            title: match failed {
                1 => "The one run failed".to_owned(),
                all => format!("All {} failed", counted(all as u64, "run", "runs")),
            },
            verdict: why.unwrap_or_default(),
        };
    }
    let mut found = match spec {
        Spec::Paired(_) => of_pair(of, ratio(points)),
        Spec::Prove(proving) => of_proof(proving, points),
        Spec::Varied(varied) if varied.vary.is_empty() => of_series(of, &ended),
        // What a search has found is told by the search.
        Spec::Capacity(_) => Finding::default(),
        Spec::Varied(varied) => {
            let one = (varied.vary.len() == 1).then(|| varied.vary[0].0.as_str());
            of_sweep(plan, of, one, &levels(points))
        }
    };
    if failed > 0 {
        let gap = format!(
            " {} failed and {} a gap.",
            counted(failed as u64, "run", "runs"),
            if failed == 1 { "is" } else { "are" }
        );
        found.verdict.push_str(&gap);
        found.verdict = found.verdict.trim_start().to_owned();
    }
    found
}

fn of_pair(of: Figure, ratio: Option<Ratio>) -> Finding {
    let name = of.name();
    let Some(ratio) = ratio else {
        return Finding {
            title: "No pair is complete".to_owned(),
            verdict: "A ratio takes the figures of both runs of a pair.".to_owned(),
        };
    };
    let pairs = counted(ratio.pairs.into(), "pair", "pairs");
    let times = |value: f64| units::significant(value);
    let (Some(low), Some(high)) = (ratio.low, ratio.high) else {
        return Finding {
            title: format!(
                "In the one pair b has {} times the {name} of a",
                times(ratio.b_to_a)
            ),
            verdict: "One pair has no interval: repeat it to tell a difference from chance."
                .to_owned(),
        };
    };
    let interval = format!("{} to {}", times(low), times(high));
    if ratio.differs() == Some(true) {
        let better = (ratio.b_to_a > 1.0) == of.more_is_better();
        Finding {
            title: format!("b has {} times the {name} of a", times(ratio.b_to_a)),
            verdict: format!(
                "Over {pairs} the ratio lies between {interval} (95 %), so b is {}, and by more than chance.",
                if better { "better" } else { "worse" }
            ),
        }
    } else {
        Finding {
            title: format!("No difference in {name} is shown: b has {interval} times that of a"),
            verdict: format!("Over {pairs} the interval (95 %) holds 1, so either may be ahead."),
        }
    }
}

fn of_proof(proving: &Proving, points: &[Point]) -> Finding {
    let Some(proof) = proving.proof(points) else {
        return Finding::default();
    };
    let cause = proof.cause.replace('_', " ");
    let times = |value: f64| units::significant(value);
    let measured = match proof.ratio {
        Some(Ratio {
            b_to_a,
            low: Some(low),
            high: Some(high),
            pairs,
        }) => format!(
            "Over {} it had {} times the {} ({} to {}, 95 %).",
            counted(pairs.into(), "pair", "pairs"),
            times(b_to_a),
            proof.figure,
            times(low),
            times(high)
        ),
        _ => "Too few pairs have figures.".to_owned(),
    };
    let title = match proof.answer {
        Answer::Confirmed => format!("Confirmed: run {} was limited by {cause}", proof.run),
        Answer::Refuted => format!("Refuted: run {} was not limited by {cause}", proof.run),
        Answer::Undecided => format!("Undecided whether run {} was limited by {cause}", proof.run),
    };
    Finding {
        title,
        verdict: format!(
            "If it were, then {}; b is the run with {}. {measured}",
            proof.expected, proof.change
        ),
    }
}

fn of_series(of: Figure, ended: &[&Point]) -> Finding {
    let medians: Vec<Option<f64>> = ended
        .iter()
        .map(|point| point.summary.as_ref().and_then(figure))
        .collect();
    let known: Vec<f64> = medians.iter().copied().flatten().collect();
    let (Some(first), Some(last)) = (known.first().copied(), known.last().copied()) else {
        return Finding {
            title: "No repeat has a figure".to_owned(),
            verdict: String::new(),
        };
    };
    let name = of.name();
    let repeats = counted(ended.len() as u64, "repeat", "repeats");
    let text = |value: f64| of.text(value);
    if known.len() == 1 {
        return Finding {
            title: format!("One repeat: {name} {}", text(first)),
            verdict: "One repeat says nothing about the next one.".to_owned(),
        };
    }
    let middle = median(known.clone()).unwrap_or(first);
    if ended.len() >= MANY {
        let mut sorted = known.clone();
        sorted.sort_by(f64::total_cmp);
        let (low, high) = (quantile(&sorted, 0.05), quantile(&sorted, 0.95));
        return Finding {
            title: format!(
                "{repeats}: {name} {} in the middle, 5–95 %: {} to {}",
                text(middle),
                text(low),
                text(high)
            ),
            verdict: match settled_at(&medians) {
                Some(1) => "No repeat differs by 10 % or more from the one before it.".to_owned(),
                Some(at) => format!("From repeat {at} on no repeat differs by 10 % or more from the one before it."),
                None => "It has not settled: the last repeat differs by 10 % or more from the one before it.".to_owned(),
            },
        };
    }
    match settled_at(&medians) {
        Some(1) => Finding {
            title: format!("Steady over {repeats}: {name} {}", text(middle)),
            verdict: "Each repeat is within 10 % of the one before it.".to_owned(),
        },
        Some(at) => Finding {
            title: format!(
                "Settled at repeat {at}: {name} {} → {}",
                text(first),
                text(last)
            ),
            verdict: format!(
                "From repeat {at} on each is within 10 % of the one before it; the repeats before that belong to the change."
            ),
        },
        None => Finding {
            title: format!(
                "Not settled after {repeats}: {name} {} → {}",
                text(first),
                text(last)
            ),
            verdict: "The last repeat still differs by 10 % or more from the one before it."
                .to_owned(),
        },
    }
}

/// The value below which this share of sorted values lies; nearest rank.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rank within the values"
    )]
    let rank = (share * sorted.len() as f64).ceil().max(1.0) as usize;
    sorted[rank.min(sorted.len()) - 1]
}

fn of_sweep(plan: &Plan, of: Figure, one: Option<&str>, levels: &[Level]) -> Finding {
    let measured: Vec<&Level> = levels.iter().filter(|l| !l.values.is_empty()).collect();
    if let (Plan::Rate(_), Some("rate")) = (plan, one) {
        return of_rates(plan, levels, &measured);
    }
    let best = |a: &&&Level, b: &&&Level| {
        let order = median(a.values.clone())
            .partial_cmp(&median(b.values.clone()))
            .unwrap_or(std::cmp::Ordering::Equal);
        if of.more_is_better() {
            order
        } else {
            order.reverse()
        }
    };
    let (Some(most), Some(least)) = (measured.iter().max_by(best), measured.iter().min_by(best))
    else {
        return Finding {
            title: "No value has a figure".to_owned(),
            verdict: String::new(),
        };
    };
    let value = |level: &Level| median(level.values.clone()).unwrap_or(0.0);
    let named = |level: &Level| match one {
        Some(field) => format!("{field} {}", level.label),
        None => level.label.clone(),
    };
    let title = format!(
        "{} is best: {} {}, {} at {}",
        named(most),
        of.name(),
        of.text(value(most)),
        of.text(value(least)),
        named(least)
    );
    let (high, low) = (value(most).max(value(least)), value(most).min(value(least)));
    Finding {
        title: if measured.len() == 1 {
            format!("{}: {} {}", named(most), of.name(), of.text(value(most)))
        } else {
            words::first_that_fits([title], "The figure of each value")
        },
        verdict: if low > 0.0 && measured.len() > 1 {
            format!(
                "Between the best and the worst value lies a factor of {}.",
                units::significant(high / low)
            )
        } else {
            String::new()
        },
    }
}

fn of_rates(plan: &Plan, levels: &[Level], measured: &[&Level]) -> Finding {
    let who = plan
        .urls()
        .first()
        .map_or_else(String::new, |url| words::host(url, "The target"));
    let rule =
        "Good means: the median at most twice that of the lowest rate, and no request failed.";
    if let Some(Knee {
        holds,
        fails,
        times,
        failed_share,
        ..
    }) = knee(levels)
    {
        let beyond = match times {
            Some(times) if times > 2.0 => {
                format!("the median is {} times as long", units::significant(times))
            }
            _ => format!("{} of the requests fail", percent(failed_share)),
        };
        let title = format!("{who} holds {}; at {} {beyond}", rate(holds), rate(fails));
        return Finding {
            title: words::first_that_fits([title], "Latency by offered rate"),
            verdict: format!(
                "Its capacity lies between {} and {}. {rule}",
                units::significant(holds),
                rate(fails)
            ),
        };
    }
    let (Some(lowest), Some(highest)) = (measured.first(), measured.last()) else {
        return Finding {
            title: "Latency by offered rate".to_owned(),
            verdict: String::new(),
        };
    };
    let all_good = highest.failed == 0
        && levels.len() == measured.len()
        && match (lowest.p50_ms, highest.p50_ms) {
            (Some(base), Some(top)) => top <= 2.0 * base,
            _ => false,
        };
    match (all_good, highest.p50_ms, highest.x) {
        (true, Some(top), Some(x)) if measured.len() > 1 => Finding {
            title: words::first_that_fits(
                [format!(
                    "{who} keeps up with {}: the median is {} there",
                    rate(x),
                    words::time(top)
                )],
                "Latency by offered rate",
            ),
            verdict: format!("No rate tried was too much, so its capacity is higher. {rule}"),
        },
        _ if lowest.failed > 0 => Finding {
            title: format!(
                "Even at the lowest rate {} of the requests fail",
                percent(lowest.failed_share().unwrap_or(0.0))
            ),
            verdict: "Try lower rates, or look at why they fail.".to_owned(),
        },
        _ => Finding {
            title: "Latency by offered rate".to_owned(),
            verdict: rule.to_owned(),
        },
    }
}
