//! Intervals of streams and round trips, and what is common to the rows of every kind of run.

use rusqlite::{Connection, Transaction, params};

use super::samples::{append as append_seconds, read_intervals};
use super::{Store, StoreError};
use crate::measure::fold::{Closed, Interval};
use crate::measure::plan::Kind;
use crate::measure::run::Run;
use crate::measure::summary::flow::{EchoRow, FlowInterval};

impl Store {
    /// Adds what has closed to a running run; it is on disk when this returns.
    ///
    /// # Errors
    /// When it could not be written.
    pub async fn append(&self, id: i64, closed: Vec<Closed>) -> Result<(), StoreError> {
        self.write("store the run's intervals", move |transaction| {
            append(transaction, id, &closed)
        })
        .await
    }

    /// The rows of a run's `intervals.csv` in order, from the `skip`-th on, at most `limit`: seconds, intervals
    /// of streams, or round trips, by its kind.
    ///
    /// # Errors
    /// When they could not be read.
    pub async fn rows_of(
        &self,
        run: &Run,
        skip: usize,
        limit: usize,
    ) -> Result<Vec<Interval>, StoreError> {
        let (id, kind) = (run.id, run.kind);
        self.read("read the intervals", move |connection| {
            Ok(match kind {
                Kind::Rate | Kind::Users | Kind::Fetch => {
                    read_intervals(connection, id, skip, limit)?
                        .into_iter()
                        .map(Interval::Http)
                        .collect()
                }
                Kind::Throughput => read_flows(connection, id, skip, limit)?
                    .into_iter()
                    .map(Interval::Flow)
                    .collect(),
                Kind::Ping => read_echoes(connection, id, skip, limit)?
                    .into_iter()
                    .map(Interval::Echo)
                    .collect(),
                Kind::Path => Vec::new(),
            })
        })
        .await
    }

    /// Intervals of streams and of the sums in order, from the `skip`-th on, at most `limit`.
    ///
    /// # Errors
    /// When they could not be read.
    pub async fn flows(
        &self,
        id: i64,
        skip: usize,
        limit: usize,
    ) -> Result<Vec<FlowInterval>, StoreError> {
        self.read("read the intervals", move |connection| {
            read_flows(connection, id, skip, limit)
        })
        .await
    }

    /// Round trips in order, from the `skip`-th on, at most `limit`: of a ping, or of the probe beside a run.
    ///
    /// # Errors
    /// When they could not be read.
    pub async fn echoes(
        &self,
        id: i64,
        skip: usize,
        limit: usize,
    ) -> Result<Vec<EchoRow>, StoreError> {
        self.read("read the round trips", move |connection| {
            read_echoes(connection, id, skip, limit)
        })
        .await
    }
}

pub(super) fn append(
    transaction: &Transaction<'_>,
    id: i64,
    closed: &[Closed],
) -> Result<(), StoreError> {
    let mut seconds = Vec::new();
    let mut next: Option<i64> = None;
    for one in closed {
        match one {
            Closed::Second(second) => seconds.push(second.clone()),
            Closed::Flow(interval) => {
                let seq = match next {
                    Some(seq) => seq,
                    None => next_flow(transaction, id)?,
                };
                write_flow(transaction, id, seq, interval)?;
                next = Some(seq + 1);
            }
            Closed::Echo(echo) => write_echo(transaction, id, echo)?,
        }
    }
    append_seconds(transaction, id, &seconds)
}

fn next_flow(connection: &Connection, id: i64) -> Result<i64, StoreError> {
    Ok(connection
        .prepare_cached("SELECT coalesce(max(seq) + 1, 0) FROM run_flows WHERE run = ?1")?
        .query_row([id], |row| row.get(0))?)
}

fn write_flow(
    transaction: &Transaction<'_>,
    id: i64,
    seq: i64,
    interval: &FlowInterval,
) -> Result<(), StoreError> {
    transaction
        .prepare_cached(
            "INSERT OR REPLACE INTO run_flows (run, seq, stream, direction, start_s, end_s, bytes, bits_per_second,
                retransmits, rtt_ms, cwnd_bytes, lost, datagrams, jitter_ms)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
        )?
        .execute(params![
            id,
            seq,
            interval.stream,
            interval.direction,
            interval.start_s,
            interval.end_s,
            interval.bytes,
            interval.bits_per_second,
            interval.retransmits,
            interval.rtt_ms,
            interval.cwnd_bytes,
            interval.lost,
            interval.datagrams,
            interval.jitter_ms,
        ])?;
    Ok(())
}

fn write_echo(transaction: &Transaction<'_>, id: i64, echo: &EchoRow) -> Result<(), StoreError> {
    transaction
        .prepare_cached(
            "INSERT OR REPLACE INTO run_echoes (run, seq, sent_s, rtt_ms, ttl, duplicates, loaded)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .execute(params![
            id,
            echo.seq,
            echo.sent_s,
            echo.rtt_ms,
            echo.ttl,
            echo.duplicates,
            echo.loaded,
        ])?;
    Ok(())
}

/// They are numbered from 0 without a gap, so that a chunk far behind is found at once.
pub(super) fn read_flows(
    connection: &Connection,
    id: i64,
    skip: usize,
    limit: usize,
) -> Result<Vec<FlowInterval>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT run, stream, direction, start_s, end_s, bytes, bits_per_second, retransmits, rtt_ms, cwnd_bytes,
                lost, datagrams, jitter_ms
         FROM run_flows WHERE run = ?1 AND seq >= ?2 ORDER BY seq LIMIT ?3",
    )?;
    let rows = statement.query_map(params![id, signed(skip), signed(limit)], |row| {
        Ok(FlowInterval {
            run: row.get(0)?,
            stream: row.get(1)?,
            direction: row.get(2)?,
            start_s: row.get(3)?,
            end_s: row.get(4)?,
            bytes: row.get(5)?,
            bits_per_second: row.get(6)?,
            retransmits: row.get(7)?,
            rtt_ms: row.get(8)?,
            cwnd_bytes: row.get(9)?,
            lost: row.get(10)?,
            datagrams: row.get(11)?,
            jitter_ms: row.get(12)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(super) fn read_echoes(
    connection: &Connection,
    id: i64,
    skip: usize,
    limit: usize,
) -> Result<Vec<EchoRow>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT run, seq, sent_s, rtt_ms, ttl, duplicates, loaded
         FROM run_echoes WHERE run = ?1 ORDER BY seq LIMIT ?3 OFFSET ?2",
    )?;
    let rows = statement.query_map(params![id, signed(skip), signed(limit)], |row| {
        Ok(EchoRow {
            run: row.get(0)?,
            seq: row.get(1)?,
            sent_s: row.get(2)?,
            rtt_ms: row.get(3)?,
            ttl: row.get(4)?,
            duplicates: row.get(5)?,
            loaded: row.get(6)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn signed(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
