//! First minutes: each is a document that names its runs.

use rusqlite::{OptionalExtension, params};

use super::decode::{json, to_json};
use super::{Store, StoreError};
use crate::measure::first_minute::FirstMinute;

impl Store {
    /// Keeps a first minute that has begun, and gives it its number.
    ///
    /// # Errors
    /// When it could not be written.
    pub async fn insert_first_minute(&self, minute: FirstMinute) -> Result<i64, StoreError> {
        self.write("store the first minute", move |transaction| {
            transaction.execute(
                "INSERT INTO first_minutes (started_at_ms, document) VALUES (?1, ?2)",
                params![minute.started_at.as_millisecond(), to_json(&minute)?],
            )?;
            Ok(transaction.last_insert_rowid())
        })
        .await
    }

    /// Writes where a first minute stands.
    ///
    /// # Errors
    /// When it could not be written.
    pub async fn change_first_minute(
        &self,
        id: i64,
        minute: FirstMinute,
    ) -> Result<(), StoreError> {
        self.write("store the first minute", move |transaction| {
            transaction.execute(
                "UPDATE first_minutes SET document = ?2 WHERE id = ?1",
                params![id, to_json(&minute)?],
            )?;
            Ok(())
        })
        .await
    }

    /// The last first minute.
    ///
    /// # Errors
    /// When it could not be read.
    pub async fn last_first_minute(&self) -> Result<Option<FirstMinute>, StoreError> {
        self.read("read the first minute", |connection| {
            let stored: Option<String> = connection
                .prepare_cached("SELECT document FROM first_minutes ORDER BY id DESC LIMIT 1")?
                .query_row([], |row| row.get(0))
                .optional()?;
            stored
                .map(|document| json("first minute", &document))
                .transpose()
        })
        .await
    }
}
