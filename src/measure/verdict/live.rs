//! The headline of a run that still runs.

use crate::measure::outcome::Outcome;
use crate::measure::plan::Plan;
use crate::measure::run::Progress;
use crate::measure::sample::Ended;
use crate::measure::summary::Summary;
use crate::measure::verdict::facts::{Facts, Load};
use crate::measure::verdict::{flow_titles, words};

/// How far the run is, its rate, and what stands out: `59 % of 45 s, 7.3 req/s so far: the queue is growing`.
pub fn live_title(plan: &Plan, summary: &Summary, progress: &Progress) -> String {
    let done = progress.done.clamp(0.0, 1.0);
    let done = format!("{:.0}\u{a0}%", (done * 100.0).floor());
    let of = match (plan.expected_duration_s(), plan.planned_requests()) {
        (Some(whole), _) => format!("{done} of {}", words::seconds(whole)),
        (None, Some(whole)) => {
            format!("{done} of {}", words::counted(whole, "request", "requests"))
        }
        (None, None) => done,
    };
    let begun = match summary {
        Summary::Fetch(_) => return "Waiting for the reply".to_owned(),
        Summary::Throughput(summary) => {
            return match plan {
                Plan::Throughput(plan) => flow_titles::live(plan, summary),
                _ => of,
            };
        }
        Summary::Ping(ping) => {
            return format!(
                "{of}: {} of {} answered",
                words::count(ping.received),
                words::count(ping.transmitted)
            );
        }
        Summary::Path(_) => return "Probing the path".to_owned(),
        Summary::Imported(_) => return of,
        Summary::Rate(rate) => rate
            .offered_per_s
            .map(|offered| offered * rate.send_window_s),
        Summary::Users(_) => None,
    };
    let ended = Ended::default();
    let facts = Facts::new(plan, summary, &ended);
    let Some(achieved) = facts.achieved.filter(|_| facts.all() > 0) else {
        return format!("{of}: no request has ended yet");
    };
    format!(
        "{of}, {} so far: {}",
        words::rate(achieved),
        standing(&facts, begun)
    )
}

fn standing(facts: &Facts<'_>, begun: Option<f64>) -> String {
    let (failed, tried) = (facts.failed(), facts.tried());
    if facts.of(Outcome::Ok) == 0 && failed > 0 {
        return "every request has failed".to_owned();
    }
    if facts.held_back() > 0 {
        return "the generator cannot send all".to_owned();
    }
    if begun.is_some_and(|begun| queue_grows(facts, begun)) {
        return "the queue is growing".to_owned();
    }
    if failed > 0 {
        return format!("{} of {} failed", words::count(failed), words::count(tried));
    }
    match facts.latency.median {
        Some(median) => format!("median {}", words::time(median)),
        None => "no reply yet".to_owned(),
    }
}

/// More is under way than the latency so far explains (Little's law), or a tenth of all that was begun.
fn queue_grows(facts: &Facts<'_>, begun: f64) -> bool {
    if !matches!(facts.load, Load::Open { .. }) {
        return false;
    }
    let in_flight = begun - facts.all() as f64;
    let (Some(offered), Some(achieved)) = (facts.offered, facts.achieved) else {
        return false;
    };
    if in_flight < 5.0 || achieved > 0.9 * offered {
        return false;
    }
    let explained = offered * facts.latency.avg.unwrap_or(0.0) / 1000.0;
    in_flight > 1.3 * explained + 3.0 || in_flight > 0.2 * begun
}
