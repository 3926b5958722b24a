//! The caller's side of a run: parts of all threads put together, and the figures of the whole.

use std::sync::mpsc::Receiver;
use std::time::Duration;

use crate::measure::plan::Plan;
use crate::measure::sample::{Batch, Ended};
use crate::runner::load;
use crate::runner::record::{Message, Totals};

/// Puts together what threads hand over until all are done.
pub(super) fn collect(
    receiver: &Receiver<Message>,
    threads: usize,
    sink: &mut dyn FnMut(Batch),
) -> Vec<Totals> {
    let mut done: Vec<Option<Totals>> = vec![None; threads];
    let mut until = vec![Duration::ZERO; threads];
    let mut gauges = vec![(0, 0); threads];
    let mut heard = vec![false; threads];
    let mut merged = Batch::default();
    let mut latest = Duration::ZERO;
    // A thread that is gone without a word ends the loop: the figures of the others still hold.
    while let Ok(Message {
        thread,
        part,
        totals,
    }) = receiver.recv()
    {
        until[thread] = part.until;
        gauges[thread] = (part.in_flight, part.open_connections);
        heard[thread] = true;
        done[thread] = totals;
        add(&mut merged, part);
        if done.iter().all(Option::is_some) {
            break;
        }
        if heard.iter().all(|heard| *heard) {
            let mut batch = std::mem::take(&mut merged);
            // A thread that is done will produce nothing more, so it holds nobody up.
            let working = until.iter().zip(&done).filter(|(_, done)| done.is_none());
            let earliest = working.map(|(until, _)| *until).min().unwrap_or_default();
            latest = latest.max(earliest);
            batch.until = latest;
            batch.in_flight = gauges.iter().map(|gauge| gauge.0).sum();
            batch.open_connections = gauges.iter().map(|gauge| gauge.1).sum();
            sink(batch);
            for (heard, done) in heard.iter_mut().zip(&done) {
                *heard = done.is_some();
            }
        }
    }
    merged.until = merged.until.max(latest);
    merged.in_flight = 0;
    merged.open_connections = 0;
    sink(merged);
    done.into_iter().flatten().collect()
}

fn add(merged: &mut Batch, part: Batch) {
    if merged.requests.is_empty() {
        merged.requests = part.requests;
    } else {
        merged.requests.extend(part.requests);
    }
    if merged.connections.is_empty() {
        merged.connections = part.connections;
    } else {
        merged.connections.extend(part.connections);
    }
    merged.until = merged.until.max(part.until);
    merged.sent += part.sent;
    merged.unsent += part.unsent;
}

/// The figures of the whole run, without what only the caller knows.
pub(super) fn ended(plan: &Plan, totals: &[Totals]) -> Ended {
    let longest = |figure: fn(&Totals) -> Duration| totals.iter().map(figure).max();
    let stopped = totals.iter().any(|one| one.stopped);
    let last_end = longest(|one| one.last_end).unwrap_or_default();
    let offered_until = longest(|one| one.offered_until).unwrap_or_default();
    let mut send_window = load::send_window(plan).unwrap_or(last_end);
    if stopped {
        send_window = send_window.min(offered_until);
    }
    let by_time = matches!(plan, Plan::Users(users) if users.reps.is_none());
    let both = |one: &Totals| one.cpu.user + one.cpu.system;
    Ended {
        duration: last_end,
        send_window,
        planned: (!by_time).then(|| totals.iter().map(|one| one.planned).sum()),
        unsent: totals.iter().map(|one| one.unsent).sum(),
        burst_max: totals.iter().map(|one| one.burst_max).max().unwrap_or(0),
        concurrent_max: totals
            .iter()
            .map(|one| one.concurrent_max)
            .max()
            .unwrap_or(0),
        in_flight_seconds: totals.iter().map(|one| one.in_flight_seconds).sum(),
        cpu_user: totals.iter().map(|one| one.cpu.user).sum(),
        cpu_system: totals.iter().map(|one| one.cpu.system).sum(),
        cpu_busiest: totals.iter().map(both).max().unwrap_or_default(),
        threads: u32::try_from(totals.len()).unwrap_or(u32::MAX),
        stopped,
        ..Ended::default()
    }
}
