//! One run from its turn to its end, on the thread that runs.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::instrument::{Pinned, look_up};
use super::live::{Cause, Live};
use super::pump::Pump;
use super::{Core, now};
use crate::measure::fold::{Closed, End, Series};
use crate::measure::objective::Objectives;
use crate::measure::outcome::Outcome;
use crate::measure::plan::{Endpoint, Plan};
use crate::measure::run::{Environment, State};
use crate::measure::summary::Summary;
use crate::measure::summary::flow::ThroughputSummary;
use crate::measure::verdict;
use crate::store::{Finish, Peer};

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
        .block_on(core.store.peers())
        .map_err(|error| error.to_string())?;
    let allowed: Vec<IpAddr> = peers.iter().flat_map(Peer::addresses).collect();
    let mut found: Vec<(Endpoint, Pinned)> = Vec::new();
    let mut targets = Vec::new();
    for endpoint in plan.endpoints() {
        if let Some((_, pinned)) = found.iter().find(|(known, _)| *known == endpoint) {
            targets.push(pinned.clone());
            continue;
        }
        let (all, lookup) =
            core.runtime
                .block_on(look_up(&*settings.instrument, &plan, &endpoint))?;
        for address in &all {
            settings
                .rule
                .check(*address, &allowed)
                .map_err(|refusal| refusal.sentence)?;
        }
        let address = *all
            .first()
            .ok_or_else(|| format!("{} has no address.", endpoint.host))?;
        let pinned = Pinned {
            egress_cap: peers.iter().find_map(|peer| egress_cap(peer, address.ip())),
            address,
            all,
            lookup,
        };
        targets.push(pinned.clone());
        found.push((endpoint, pinned));
    }
    Ok(targets)
}

/// The cap that is documented for what this peer sends from this address.
pub(super) fn egress_cap(peer: &Peer, address: IpAddr) -> Option<(f64, String)> {
    let is = |text: &Option<String>| {
        let stated = text.as_ref().and_then(|text| text.parse::<IpAddr>().ok());
        stated.is_some_and(|stated| stated.to_canonical() == address.to_canonical())
    };
    let (cap, which) = if is(&peer.internal_address) {
        (peer.internal_cap_bits_per_second, "internal")
    } else if is(&peer.external_address) {
        (peer.external_cap_bits_per_second, "external")
    } else {
        return None;
    };
    cap.map(|cap| (cap, format!("the {which} cap of peer {}", peer.name)))
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
    match live.fold_up(&ended) {
        Some(folded) => {
            let mut finish = concluded(live, &ended, pump, folded, finished_at);
            finish.checks.extend(core.self_test_check(live, &finish));
            finish
        }
        None => Finish::bare(
            State::Failed,
            finished_at,
            Some("Nothing was measured.".into()),
        ),
    }
}

/// What a run that was folded up comes to, with what the pump still holds of it.
pub(super) fn concluded(
    live: &Live,
    end: &End,
    pump: Pump,
    (last, summary, series): (Vec<Closed>, Summary, Series),
    finished_at: jiff::Timestamp,
) -> Finish {
    let mut seconds = pump.rest();
    seconds.extend(last);
    let of = Concluding {
        plan: &live.plan(),
        environment: &live.environment(),
        objective: &live.objective,
        cause: live.cause(),
    };
    conclude(&of, end, (seconds, summary, series), finished_at)
}

/// What a run is judged by.
#[derive(Clone, Copy, Debug)]
pub struct Concluding<'r> {
    /// What it was to do.
    pub plan: &'r Plan,
    /// Where it ran.
    pub environment: &'r Environment,
    /// Stated objectives.
    pub objective: &'r str,
    /// Why it was stopped, if it was.
    pub cause: Option<Cause>,
}

/// The end of a run with these figures, judged.
pub fn conclude(
    of: &Concluding<'_>,
    end: &End,
    (seconds, mut summary, series): (Vec<Closed>, Summary, Series),
    finished_at: jiff::Timestamp,
) -> Finish {
    let judgement = verdict::settle(of.plan, &mut summary, &series, end, of.environment);
    let objectives = Objectives::parse(of.objective)
        .map(|objectives| objectives.judge(&summary))
        .unwrap_or_default();
    let (state, error) = state_of(of.cause, of.plan, end, &summary);
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
    ended: &End,
    summary: &Summary,
) -> (State, Option<String>) {
    let covered = ended.duration().as_secs_f64().round();
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
        None => match nothing_useful(summary, ended) {
            Some(sentence) => (State::Failed, Some(sentence)),
            None => (State::Finished, None),
        },
    }
}

/// Why nothing useful was measured: no request, byte or probe got through. `None` when at least one did.
fn nothing_useful(summary: &Summary, end: &End) -> Option<String> {
    match summary {
        Summary::Throughput(flow) => nothing_flowed(flow, end),
        Summary::Ping(ping) => (ping.received == 0).then(|| {
            let remark = remarks(end).unwrap_or_else(|| {
                "The host is down, or a firewall drops the probes; a probe by TCP may get through.".into()
            });
            format!("None of {} probes was answered. {remark}", ping.transmitted)
        }),
        Summary::Path(path) => path
            .path_mtu
            .is_none()
            .then(|| "No probe was answered, so the path's MTU is not known.".into()),
        Summary::Rate(_) | Summary::Users(_) | Summary::Fetch(_) => nothing_requested(summary),
        Summary::Imported(_) => None,
    }
}

/// Why no stream moved anything.
fn nothing_flowed(flow: &ThroughputSummary, end: &End) -> Option<String> {
    let moved = flow
        .streams
        .iter()
        .any(|stream| stream.failed.is_none() && stream.bytes > 0)
        || flow.bytes_received.is_some_and(|bytes| bytes > 0)
        || flow
            .bytes_sent
            .is_some_and(|bytes| bytes > 0 && flow.udp.is_some());
    let all_failed = !flow.streams.is_empty() && flow.streams.iter().all(|s| s.failed.is_some());
    if moved && !all_failed {
        return None;
    }
    let why = flow
        .streams
        .iter()
        .find_map(|stream| stream.failed.clone())
        .or_else(|| remarks(end))
        .unwrap_or_else(|| "Nothing was acknowledged.".into());
    Some(why)
}

/// What the runner remarked, as one text.
fn remarks(end: &End) -> Option<String> {
    match end {
        End::Flow(end) if !end.remarks.is_empty() => Some(end.remarks.join(" ")),
        _ => None,
    }
}

/// Why no request reached the target.
fn nothing_requested(summary: &Summary) -> Option<String> {
    let (counts, connected): (BTreeMap<&str, u64>, bool) = match summary {
        Summary::Rate(rate) => (borrow(&rate.outcomes), rate.connect_time_ms.count > 0),
        Summary::Users(users) => (borrow(&users.outcomes), users.connect_time_ms.count > 0),
        Summary::Fetch(fetch) => (
            BTreeMap::from([(fetch.outcome.as_str(), 1)]),
            fetch.connect_ms.is_some(),
        ),
        _ => return None,
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
            nothing_requested(&Summary::Fetch(Box::new(FetchSummary {
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
