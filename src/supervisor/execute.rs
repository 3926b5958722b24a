//! One run from its turn to its end, on the thread that runs.

use std::collections::BTreeMap;

use super::instrument::Pinned;
use super::live::{Cause, Live};
use super::pump::Pump;
use super::{Core, now};
use crate::measure::objective::Objectives;
use crate::measure::outcome::Outcome;
use crate::measure::plan::Plan;
use crate::measure::run::State;
use crate::measure::sample::Ended;
use crate::measure::summary::Summary;
use crate::measure::verdict;
use crate::store::Finish;

/// Runs it, whatever comes; afterwards it is stored with a final state.
pub(super) fn execute(core: &Core, live: &Live) {
    let finish = match prepare(core, live) {
        Ok(targets) => measure(core, live, targets),
        Err(sentence) => Finish::bare(State::Failed, now(), Some(sentence)),
    };
    core.runtime.block_on(core.write_end(live, finish));
}

/// Looks every host up anew and pins each URL to one address that tests may go to.
fn prepare(core: &Core, live: &Live) -> Result<Vec<Pinned>, String> {
    let plan = live.plan();
    let settings = &core.settings;
    let peers = core
        .runtime
        .block_on(core.peer_addresses())
        .map_err(|error| error.to_string())?;
    let mut found: BTreeMap<(String, u16), Pinned> = BTreeMap::new();
    let mut targets = Vec::new();
    for url in plan.urls() {
        let host = url.host_str().unwrap_or_default();
        let port = url.port_or_known_default().unwrap_or(80);
        let key = (host.to_owned(), port);
        if !found.contains_key(&key) {
            let (all, lookup) = core.runtime.block_on(
                settings
                    .instrument
                    .resolve(host.trim_matches(['[', ']']), port),
            )?;
            for address in &all {
                settings
                    .rule
                    .check(*address, &peers)
                    .map_err(|refusal| refusal.sentence)?;
            }
            let address = *all
                .first()
                .ok_or_else(|| format!("{host} has no address."))?;
            let pinned = Pinned {
                url: url.clone(),
                address,
                all,
                lookup,
            };
            found.insert(key.clone(), pinned);
        }
        targets.push(Pinned {
            url: url.clone(),
            ..found[&key].clone()
        });
    }
    Ok(targets)
}

/// Sends, folds and stores; the figures of whatever came.
fn measure(core: &Core, live: &Live, targets: Vec<Pinned>) -> Finish {
    let plan = live.plan();
    let settings = &core.settings;
    let towards = targets.first().map(|pinned| pinned.address.ip());
    let environment = settings.instrument.environment(towards);
    let started_at = now();
    let stored = core.runtime.block_on(core.store.start_run(
        live.id,
        started_at,
        environment.clone(),
    ));
    if let Err(error) = stored {
        return Finish::bare(State::Failed, now(), Some(error.to_string()));
    }
    live.begin(started_at, environment);
    let mut pump = Pump::new(core.runtime.clone(), core.store.clone(), live.id);
    let result = settings
        .instrument
        .run(&plan, targets, &live.stop, &mut |batch| {
            if !pump.offer(live.push(&batch)) {
                live.ask_to_stop(Cause::Disk);
            }
        });
    let finished_at = now();
    let ended = match result {
        Ok(ended) => ended,
        Err(sentence) => return Finish::bare(State::Failed, finished_at, Some(sentence)),
    };
    let Some((last, summary, series)) = live.fold_up(&ended) else {
        return Finish::bare(
            State::Failed,
            finished_at,
            Some("Nothing was measured.".into()),
        );
    };
    let mut seconds = pump.rest();
    seconds.extend(last);
    let judgement = verdict::judge(&plan, &summary, &series, &ended, &live.environment());
    let objectives = Objectives::parse(&live.objective)
        .map(|objectives| objectives.judge(&summary))
        .unwrap_or_default();
    let (state, error) = state_of(live.cause(), &plan, &ended, &summary);
    Finish {
        state,
        finished_at,
        seconds,
        checks: judgement.checks,
        limits: judgement.limits,
        title: Some(judgement.title),
        verdict: Some(judgement.verdict),
        objectives,
        error,
        summary: Some(summary),
        series: Some(series),
    }
}

fn state_of(
    cause: Option<Cause>,
    plan: &Plan,
    ended: &Ended,
    summary: &Summary,
) -> (State, Option<String>) {
    let covered = ended.duration.as_secs_f64().round();
    let reach = match plan.expected_duration_s() {
        Some(planned) => format!(
            "after {covered:.0} of {:.0} s; figures cover {covered:.0} s.",
            planned.round().max(covered)
        ),
        None => format!("after {covered:.0} s; figures cover {covered:.0} s."),
    };
    match cause {
        Some(Cause::Cancel) => (State::Cancelled, Some(format!("Cancelled {reach}"))),
        Some(Cause::Shutdown) => (
            State::Interrupted,
            Some(format!("Stopped by a shutdown {reach}")),
        ),
        Some(Cause::Disk) => (
            State::Interrupted,
            Some(format!(
                "Stopped because results could not be stored (disk full or database locked) {reach}"
            )),
        ),
        None => match nothing_useful(summary) {
            Some(sentence) => (State::Failed, Some(sentence)),
            None => (State::Finished, None),
        },
    }
}

/// Why nothing useful was measured: no request reached the target. `None` when at least one did.
fn nothing_useful(summary: &Summary) -> Option<String> {
    let (counts, connected): (BTreeMap<&str, u64>, bool) = match summary {
        Summary::Rate(rate) => (borrow(&rate.outcomes), rate.connect_time_ms.count > 0),
        Summary::Users(users) => (borrow(&users.outcomes), users.connect_time_ms.count > 0),
        Summary::Fetch(fetch) => (
            BTreeMap::from([(fetch.outcome.as_str(), 1)]),
            fetch.connect_ms.is_some(),
        ),
    };
    let tried: u64 = counts.values().sum();
    if tried == 0 {
        return Some("Nothing was sent.".into());
    }
    let lost = |outcome: &Outcome| {
        let count = counts.get(outcome.key()).copied().unwrap_or(0);
        (count, *outcome)
    };
    let never_arrived: Vec<(u64, Outcome)> = Outcome::ALL
        .iter()
        .filter(|o| is_unreached(**o))
        // What has no name of its own may also be a reply without end.
        .filter(|o| **o != Outcome::Other || !connected)
        .map(lost)
        .collect();
    let unreached: u64 = never_arrived.iter().map(|(count, _)| count).sum();
    if unreached < tried {
        return None;
    }
    let (count, worst) = never_arrived.into_iter().max_by_key(|(count, _)| *count)?;
    let share = if count == tried {
        match tried {
            1 => "The request".to_owned(),
            _ => format!("All {tried} requests"),
        }
    } else {
        format!("{count} of {tried} requests")
    };
    Some(format!(
        "No request reached the target. {share} ended as {}: {}.",
        worst.key(),
        meaning(worst)
    ))
}

fn borrow(outcomes: &BTreeMap<String, u64>) -> BTreeMap<&str, u64> {
    outcomes
        .iter()
        .map(|(key, count)| (key.as_str(), *count))
        .collect()
}

/// Whether a request that ended like this was never seen by the target's server.
fn is_unreached(outcome: Outcome) -> bool {
    matches!(
        outcome,
        Outcome::ConnectRefused
            | Outcome::ConnectTimeout
            | Outcome::ConnectTimeoutKernel
            | Outcome::Unreachable
            | Outcome::TlsFailed
            | Outcome::DnsFailed
            | Outcome::FdExhausted
            | Outcome::FtabFull
            | Outcome::PortExhausted
            | Outcome::AbortedAtStop
            | Outcome::Other
    )
}

fn meaning(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::ConnectRefused => "nothing listens on that port",
        Outcome::ConnectTimeout | Outcome::ConnectTimeoutKernel => {
            "no answer to the connection attempt; a firewall may drop it"
        }
        Outcome::Unreachable => "there is no route to that address",
        Outcome::TlsFailed => "the TLS handshake failed",
        Outcome::DnsFailed => "the name could not be resolved",
        Outcome::FdExhausted => "this process has no file descriptor left",
        Outcome::FtabFull => "this machine has no file descriptor left",
        Outcome::PortExhausted => "this machine has no local port left",
        Outcome::AbortedAtStop => "the run was stopped",
        _ => "an error that has no name of its own",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::summary::FetchSummary;

    #[test]
    fn a_reply_without_end_has_reached_the_target() {
        let ended = |outcome: Outcome, connect_ms| {
            nothing_useful(&Summary::Fetch(Box::new(FetchSummary {
                outcome: outcome.key().to_owned(),
                connect_ms,
                ..FetchSummary::default()
            })))
        };
        assert_eq!(ended(Outcome::Other, Some(0.1)), None);
        assert_eq!(ended(Outcome::Truncated, Some(0.1)), None);
        assert!(ended(Outcome::Other, None).is_some());
        assert!(ended(Outcome::TlsFailed, Some(0.1)).is_some());
    }
}
