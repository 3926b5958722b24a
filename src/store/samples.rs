//! The seconds of a run and the requests behind them.

use rusqlite::{Connection, Transaction, params};

use super::{Store, StoreError};
use crate::measure::summary::HttpInterval;
use crate::measure::summary::http::ClosedSecond;

/// Some seconds of kept requests, at most about 1 MiB of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SampleChunk {
    /// Compact rows, one blob a second, in order.
    pub rows: Vec<Vec<u8>>,
    /// Where the next chunk begins; `None` after the last.
    pub next: Option<i64>,
}

/// Bytes of compact rows after which a chunk ends.
const CHUNK_BYTES: usize = 1 << 20;

const INTERVAL_COLUMNS: &str = "run, start_s, end_s, requests, replies, errors, reply_rate_per_s, \
     latency_avg_ms, latency_p50_ms, latency_p99_ms, latency_max_ms, in_flight";

impl Store {
    /// An HTTP run's seconds in order, from the `skip`-th on, at most `limit`.
    ///
    /// # Errors
    /// When they could not be read.
    pub async fn intervals(
        &self,
        id: i64,
        skip: usize,
        limit: usize,
    ) -> Result<Vec<HttpInterval>, StoreError> {
        self.read("read the intervals", move |connection| {
            read_intervals(connection, id, skip, limit)
        })
        .await
    }

    /// How many rows of `intervals.csv` a run has in store.
    ///
    /// # Errors
    /// When they could not be counted.
    pub async fn intervals_count(&self, id: i64) -> Result<u64, StoreError> {
        self.read("count the intervals", move |connection| {
            Ok(connection
                .prepare_cached(
                    "SELECT (SELECT count(*) FROM run_seconds WHERE run = r.id)
                          + (SELECT count(*) FROM run_flows WHERE run = r.id)
                          + CASE r.kind WHEN 'ping' THEN (SELECT count(*) FROM run_echoes WHERE run = r.id) ELSE 0 END
                     FROM runs r WHERE r.id = ?1
                     UNION ALL SELECT 0 LIMIT 1",
                )?
                .query_row([id], |row| row.get(0))?)
        })
        .await
    }

    /// The next chunk of kept requests; `from` is 0 at first and then the chunk's `next`.
    ///
    /// # Errors
    /// When they could not be read.
    pub async fn rows(&self, id: i64, from: i64) -> Result<SampleChunk, StoreError> {
        self.read("read the requests", move |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT second, rows FROM run_samples WHERE run = ?1 AND second >= ?2 ORDER BY second",
            )?;
            let mut found = statement.query(params![id, from])?;
            let mut chunk = SampleChunk::default();
            let mut bytes = 0;
            while let Some(row) = found.next()? {
                if bytes >= CHUNK_BYTES {
                    chunk.next = Some(row.get(0)?);
                    break;
                }
                let rows: Vec<u8> = row.get(1)?;
                bytes += rows.len();
                chunk.rows.push(rows);
            }
            Ok(chunk)
        })
        .await
    }

    /// How many requests of a run are kept as rows.
    ///
    /// # Errors
    /// When it could not be read.
    pub async fn rows_count(&self, id: i64) -> Result<u64, StoreError> {
        self.read("count the requests", move |connection| {
            Ok(connection
                .prepare_cached(
                    "SELECT coalesce(sum(rows_count), 0) FROM run_samples WHERE run = ?1",
                )?
                .query_row([id], |row| row.get(0))?)
        })
        .await
    }

    /// Every second's histogram of a run, in order.
    ///
    /// # Errors
    /// When they could not be read.
    pub async fn histograms(&self, id: i64) -> Result<Vec<Vec<u8>>, StoreError> {
        self.read("read the histograms", move |connection| {
            read_blobs(connection, "histogram", id)
        })
        .await
    }
}

pub(super) fn append(
    transaction: &Transaction<'_>,
    id: i64,
    seconds: &[ClosedSecond],
) -> Result<(), StoreError> {
    let mut row = transaction.prepare_cached(
        "INSERT OR REPLACE INTO run_seconds (second, run, start_s, end_s, requests, replies, errors, reply_rate_per_s,
            latency_avg_ms, latency_p50_ms, latency_p99_ms, latency_max_ms, in_flight)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
    )?;
    let mut samples = transaction.prepare_cached(
        "INSERT OR REPLACE INTO run_samples (run, second, rows_count, histogram, rows) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    for closed in seconds {
        let interval = &closed.interval;
        #[expect(clippy::cast_possible_truncation, reason = "a run lasts days at most")]
        let second = interval.start_s.floor() as i64;
        row.execute(params![
            second,
            id,
            interval.start_s,
            interval.end_s,
            interval.requests,
            interval.replies,
            interval.errors,
            interval.reply_rate_per_s,
            interval.latency_avg_ms,
            interval.latency_p50_ms,
            interval.latency_p99_ms,
            interval.latency_max_ms,
            interval.in_flight,
        ])?;
        samples.execute(params![
            id,
            second,
            closed.rows_count,
            closed.histogram,
            closed.rows
        ])?;
    }
    Ok(())
}

pub(super) fn read_intervals(
    connection: &Connection,
    id: i64,
    skip: usize,
    limit: usize,
) -> Result<Vec<HttpInterval>, StoreError> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {INTERVAL_COLUMNS} FROM run_seconds WHERE run = ?1 ORDER BY second LIMIT ?3 OFFSET ?2"
    ))?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let skip = i64::try_from(skip).unwrap_or(i64::MAX);
    let rows = statement.query_map(params![id, skip, limit], |row| {
        Ok(HttpInterval {
            run: row.get(0)?,
            start_s: row.get(1)?,
            end_s: row.get(2)?,
            requests: row.get(3)?,
            replies: row.get(4)?,
            errors: row.get(5)?,
            reply_rate_per_s: row.get(6)?,
            latency_avg_ms: row.get(7)?,
            latency_p50_ms: row.get(8)?,
            latency_p99_ms: row.get(9)?,
            latency_max_ms: row.get(10)?,
            in_flight: row.get(11)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// One blob of each second: the column `rows` or `histogram`.
pub(super) fn read_blobs(
    connection: &Connection,
    column: &'static str,
    id: i64,
) -> Result<Vec<Vec<u8>>, StoreError> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {column} FROM run_samples WHERE run = ?1 ORDER BY second"
    ))?;
    let rows = statement.query_map([id], |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}
