//! The audit log: who changed or tried to change what. Rows are added, never changed; the oldest go beyond a limit.

use rusqlite::{Connection, params};

use super::decode::time;
use super::{Store, StoreError};

/// Rows that are kept.
const KEPT: i64 = 100_000;

/// One request that changed something, or was refused to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deed {
    /// Its number; 0 before it is stored.
    pub id: i64,
    /// When it was answered.
    pub at: jiff::Timestamp,
    /// By whom: `local`, or the right of the login.
    pub who: String,
    /// From where.
    pub address: String,
    /// What, in words.
    pub action: String,
    /// To what; empty where that says nothing.
    pub target: String,
    /// The status of the answer.
    pub status: u16,
}

impl Store {
    /// Adds a row.
    ///
    /// # Errors
    /// When it could not be written.
    pub async fn add_deed(&self, deed: Deed) -> Result<(), StoreError> {
        self.write("write the audit log", move |transaction| {
            transaction.execute(
                "INSERT INTO audit (at_ms, who, address, action, target, status) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                params![
                    deed.at.as_millisecond(),
                    deed.who,
                    deed.address,
                    deed.action,
                    deed.target,
                    deed.status
                ],
            )?;
            transaction.execute(
                "DELETE FROM audit WHERE id <= ?1",
                [transaction.last_insert_rowid() - KEPT],
            )?;
            Ok(())
        })
        .await
    }

    /// Rows before this number (all where `None`), newest first, at most `limit`.
    ///
    /// # Errors
    /// When they could not be read.
    pub async fn deeds(&self, before: Option<i64>, limit: usize) -> Result<Vec<Deed>, StoreError> {
        self.read("read the audit log", move |connection| {
            read(connection, before.unwrap_or(i64::MAX), limit)
        })
        .await
    }
}

fn read(connection: &Connection, before: i64, limit: usize) -> Result<Vec<Deed>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT id, at_ms, who, address, action, target, status FROM audit WHERE id < ?1 ORDER BY id DESC LIMIT ?2",
    )?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut rows = statement.query([before, limit])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(Deed {
            id: row.get(0)?,
            at: time(row.get(1)?)?,
            who: row.get(2)?,
            address: row.get(3)?,
            action: row.get(4)?,
            target: row.get(5)?,
            status: row.get(6)?,
        });
    }
    Ok(found)
}
