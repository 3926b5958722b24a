//! After a crash: runs that were waiting or running are closed with what they had.

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::flows::{read_echoes, read_flows};
use super::runs::{Finish, write_finish};
use super::samples::{read_blobs, read_intervals};
use super::{StoreError, decode};
use crate::measure::flow::{FlowBatch, FlowEnd};
use crate::measure::fold::{End, Fold, echo};
use crate::measure::objective::Objectives;
use crate::measure::plan::{Endpoint, Plan};
use crate::measure::run::State;
use crate::measure::sample::Ended;
use crate::measure::summary::http::HttpFold;
use crate::measure::summary::ping::PingFold;
use crate::measure::summary::throughput::ThroughputFold;
use crate::measure::verdict;

/// Marks every run that the process before left open as `interrupted`.
pub(super) fn close_open_runs(connection: &mut Connection) -> Result<(), StoreError> {
    let open: Vec<(i64, String, i64)> = {
        let mut statement = connection.prepare(
            "SELECT id, state, coalesce(started_at_ms, created_at_ms) FROM runs
             WHERE state IN ('running', 'queued') ORDER BY id",
        )?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        rows.collect::<Result<_, _>>()?
    };
    for (id, state, began_ms) in open {
        let transaction = Transaction::new(connection, TransactionBehavior::Immediate)?;
        let finish = if state == "queued" {
            Finish::bare(
                State::Interrupted,
                decode::time(began_ms)?,
                Some("Stopped by a crash before it began; nothing was sent.".into()),
            )
        } else {
            partial(&transaction, id, began_ms)?
        };
        write_finish(&transaction, id, &finish)?;
        transaction.commit()?;
        tracing::warn!(
            run = id,
            "a run was left open by a crash and is now interrupted"
        );
    }
    Ok(())
}

/// The end of a run that was sending: what its stored seconds add up to.
fn partial(connection: &Connection, id: i64, began_ms: i64) -> Result<Finish, StoreError> {
    let (plan, environment, objective): (String, String, String) = connection.query_row(
        "SELECT plan, environment, objective FROM run_documents WHERE run = ?1",
        [id],
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
    )?;
    let plan = decode::plan(&plan)?;
    let environment = decode::environment(&environment)?;
    let rebuilt = rebuild(connection, id, &plan)?;
    let covered_s = rebuilt.as_ref().map_or(0.0, |(_, _, covered_s)| *covered_s);
    #[expect(clippy::cast_possible_truncation, reason = "a run lasts days at most")]
    let ended_ms = began_ms + (covered_s * 1000.0).round() as i64;
    let sentence = crash_sentence(covered_s, plan.expected_duration_s());
    let mut finish = Finish::bare(State::Interrupted, decode::time(ended_ms)?, Some(sentence));
    if let Some((fold, end, _)) = rebuilt
        && let Some(mut summary) = fold.summary(&end)
    {
        let series = fold.series(&end);
        let judgement = verdict::settle(&plan, &mut summary, &series, &end, &environment);
        finish.checks = judgement.checks;
        finish.limits = judgement.limits;
        finish.title = Some(judgement.title);
        finish.verdict = Some(judgement.verdict);
        finish.objectives = Objectives::parse(&objective)
            .map(|objectives| objectives.judge(&summary))
            .unwrap_or_default();
        finish.summary = Some(summary);
        finish.series = Some(series);
    }
    Ok(finish)
}

/// The run as far as its stored rows tell, with how many seconds they cover; `None` where there is none.
fn rebuild(
    connection: &Connection,
    id: i64,
    plan: &Plan,
) -> Result<Option<(Fold, End, f64)>, StoreError> {
    let same_host = plan.endpoints().iter().all(is_loopback);
    let flow_end = |end: FlowEnd| FlowEnd {
        stopped: true,
        same_host,
        ..end
    };
    Ok(match plan {
        Plan::Rate(_) | Plan::Users(_) | Plan::Fetch(_) => {
            let intervals = read_intervals(connection, id, 0, usize::MAX)?;
            let Some(last) = intervals.last() else {
                return Ok(None);
            };
            let rows = read_blobs(connection, "rows", id)?;
            let histograms = read_blobs(connection, "histogram", id)?;
            let fold = HttpFold::from_stored(plan, &rows, &intervals, &histograms);
            let ended = Ended {
                same_host,
                ..fold.cut_off(plan.planned_requests())
            };
            Some((Fold::Http(Box::new(fold)), End::Http(ended), last.end_s))
        }
        Plan::Throughput(plan) => {
            let rows = read_flows(connection, id, 0, usize::MAX)?;
            let Some(last) = rows.last() else {
                return Ok(None);
            };
            let mut fold = ThroughputFold::from_stored(plan, &rows);
            fold.push(&probes(connection, id, last.end_s)?);
            let end = flow_end(fold.so_far());
            Some((Fold::Throughput(Box::new(fold)), End::Flow(end), last.end_s))
        }
        Plan::Ping(plan) => {
            let probes = probes(connection, id, 0.0)?;
            let Some(last) = probes.echoes.last() else {
                return Ok(None);
            };
            let covered_s = last.at.as_secs_f64();
            let mut fold = PingFold::new(plan);
            fold.push(&probes);
            let end = flow_end(fold.so_far());
            Some((Fold::Ping(Box::new(fold)), End::Flow(end), covered_s))
        }
        Plan::Path(_) | Plan::Imported(_) => None,
    })
}

/// The stored round trips as one batch.
fn probes(connection: &Connection, id: i64, until_s: f64) -> Result<FlowBatch, StoreError> {
    let rows = read_echoes(connection, id, 0, usize::MAX)?;
    Ok(FlowBatch {
        until: std::time::Duration::try_from_secs_f64(until_s).unwrap_or_default(),
        echoes: rows.iter().map(echo).collect(),
        ..FlowBatch::default()
    })
}

/// Whether an address of this machine alone is asked; what a name meant before the crash is not known.
fn is_loopback(endpoint: &Endpoint) -> bool {
    match endpoint.host.parse::<std::net::IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => endpoint.host == "localhost",
    }
}

/// What a person reads: how far the figures reach.
fn crash_sentence(covered_s: f64, planned_s: Option<f64>) -> String {
    let covered = covered_s.round();
    match planned_s {
        Some(planned) => format!(
            "Stopped by a crash after {covered:.0} of {:.0} s; figures cover {covered:.0} s",
            planned.round().max(covered)
        ),
        None => format!("Stopped by a crash after {covered:.0} s; figures cover {covered:.0} s"),
    }
}
