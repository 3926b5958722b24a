//! Self-tests: every one is kept, the last one counts.

use rusqlite::{Connection, Row, params};

use super::decode::{json, time, to_json};
use super::{Store, StoreError};
use crate::measure::selftest::{KeptSelfTest, SelfTest};

impl Store {
    /// Keeps a self-test that has ended.
    ///
    /// # Errors
    /// When it could not be written.
    pub async fn insert_self_test(
        &self,
        node: String,
        started_at: jiff::Timestamp,
        finished_at: jiff::Timestamp,
        figures: SelfTest,
    ) -> Result<KeptSelfTest, StoreError> {
        self.write("store the self-test", move |transaction| {
            transaction.execute(
                "INSERT INTO selftests (node, started_at_ms, finished_at_ms, figures) VALUES (?1, ?2, ?3, ?4)",
                params![
                    node,
                    started_at.as_millisecond(),
                    finished_at.as_millisecond(),
                    to_json(&figures)?
                ],
            )?;
            Ok(KeptSelfTest {
                id: transaction.last_insert_rowid(),
                node: node.clone(),
                // As it reads back: whole milliseconds.
                started_at: time(started_at.as_millisecond())?,
                finished_at: time(finished_at.as_millisecond())?,
                figures: figures.clone(),
            })
        })
        .await
    }

    /// The last self-tests, newest first, at most `limit`.
    ///
    /// # Errors
    /// When they could not be read.
    pub async fn self_tests(&self, limit: usize) -> Result<Vec<KeptSelfTest>, StoreError> {
        self.read("read the self-tests", move |connection| {
            read(connection, limit)
        })
        .await
    }

    /// The last self-test of this node.
    ///
    /// # Errors
    /// When it could not be read.
    pub async fn last_self_test(&self) -> Result<Option<KeptSelfTest>, StoreError> {
        Ok(self.self_tests(1).await?.pop())
    }
}

fn read(connection: &Connection, limit: usize) -> Result<Vec<KeptSelfTest>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT id, node, started_at_ms, finished_at_ms, figures FROM selftests ORDER BY id DESC LIMIT ?1",
    )?;
    let mut rows = statement.query([i64::try_from(limit).unwrap_or(i64::MAX)])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(kept(row)?);
    }
    Ok(found)
}

fn kept(row: &Row<'_>) -> Result<KeptSelfTest, StoreError> {
    Ok(KeptSelfTest {
        id: row.get(0)?,
        node: row.get(1)?,
        started_at: time(row.get(2)?)?,
        finished_at: time(row.get(3)?)?,
        figures: json("self-test", &row.get::<_, String>(4)?)?,
    })
}
