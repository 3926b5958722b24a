//! After a crash: runs that were waiting or running are closed with what they had.

use rusqlite::{Connection, Transaction, TransactionBehavior};
use url::{Host, Url};

use super::runs::{Finish, write_finish};
use super::samples::{read_blobs, read_intervals};
use super::{StoreError, decode};
use crate::measure::objective::Objectives;
use crate::measure::run::State;
use crate::measure::sample::Ended;
use crate::measure::summary::http::HttpFold;
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
    let intervals = read_intervals(connection, id, 0, usize::MAX)?;
    let covered_s = intervals.last().map_or(0.0, |last| last.end_s);
    #[expect(clippy::cast_possible_truncation, reason = "a run lasts days at most")]
    let ended_ms = began_ms + (covered_s * 1000.0).round() as i64;
    let sentence = crash_sentence(covered_s, plan.expected_duration_s());
    let mut finish = Finish::bare(State::Interrupted, decode::time(ended_ms)?, Some(sentence));
    if !intervals.is_empty() {
        let rows = read_blobs(connection, "rows", id)?;
        let histograms = read_blobs(connection, "histogram", id)?;
        let fold = HttpFold::from_stored(&plan, &rows, &intervals, &histograms);
        let ended = Ended {
            same_host: plan.urls().into_iter().all(is_loopback),
            ..fold.cut_off(plan.planned_requests())
        };
        let (summary, series) = (fold.summary(&ended), fold.series(&ended));
        let judgement = verdict::judge(&plan, &summary, &series, &ended, &environment);
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

/// Whether an address of this machine alone is asked; what a name meant before the crash is not known.
fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
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
