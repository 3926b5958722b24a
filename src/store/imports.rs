//! Reports of other tools: each a run that was over before it came here, with the text that it was read from.

use rusqlite::{OptionalExtension, Transaction, params};

use super::runs::{Finish, Inserted, NewRun, insert, write_finish};
use super::{Store, StoreError};
use crate::measure::import::Import;
use crate::measure::plan::Plan;
use crate::measure::run::{Origin, State};

/// Who imports, and what a person says of it.
#[derive(Clone, Debug, Default)]
pub struct Importer {
    /// Who.
    pub actor: String,
    /// The node that keeps it.
    pub node: String,
    /// A person's note.
    pub note: String,
    /// A person's tags.
    pub tags: Vec<String>,
}

impl Store {
    /// Keeps reports as runs, all or none; returns their ids in the order given.
    ///
    /// # Errors
    /// When they could not be written.
    pub async fn import_runs(
        &self,
        imports: Vec<Import>,
        by: Importer,
        at: jiff::Timestamp,
    ) -> Result<Vec<i64>, StoreError> {
        self.write("store the imported runs", move |transaction| {
            imports
                .iter()
                .map(|import| keep(transaction, import, &by, at))
                .collect()
        })
        .await
    }

    /// The text that an imported run was read from.
    ///
    /// # Errors
    /// When it could not be read.
    pub async fn imported_text(&self, id: i64) -> Result<Option<String>, StoreError> {
        self.read("read the imported text", move |connection| {
            let text: Option<Vec<u8>> = connection
                .prepare_cached("SELECT text FROM run_imports WHERE run = ?1")?
                .query_row([id], |row| row.get(0))
                .optional()?;
            Ok(text.map(|text| String::from_utf8_lossy(&text).into_owned()))
        })
        .await
    }
}

fn keep(
    transaction: &Transaction<'_>,
    import: &Import,
    by: &Importer,
    at: jiff::Timestamp,
) -> Result<i64, StoreError> {
    let new = NewRun {
        plan: Plan::Imported(import.plan.clone()),
        command: import.command.clone(),
        origin: Origin::Imported,
        actor: by.actor.clone(),
        node: by.node.clone(),
        note: by.note.clone(),
        tags: by.tags.clone(),
        objective: String::new(),
        form_token: None,
        member: None,
        created_at: at,
    };
    let (Inserted::New(id) | Inserted::Before(id)) = insert(transaction, &new)?;
    // Where the text says when it began and how long it took, that is when it was.
    let ended = import.started_at.and_then(|began| {
        let seconds = import
            .summary
            .number("duration_s")
            .or_else(|| import.summary.number("elapsed_s"))?;
        let length = jiff::SignedDuration::try_from_secs_f64(seconds).ok()?;
        began.checked_add(length).ok()
    });
    let finish = Finish {
        seconds: import.rows.clone(),
        summary: Some(crate::measure::summary::Summary::Imported(Box::new(
            import.summary.clone(),
        ))),
        series: import.series.clone(),
        checks: import.checks.clone(),
        title: Some(import.title.clone()),
        verdict: Some(import.verdict.clone()),
        ..Finish::bare(State::Imported, ended.unwrap_or(at), import.error.clone())
    };
    write_finish(transaction, id, &finish)?;
    if let Some(began) = import.started_at {
        transaction.execute(
            "UPDATE runs SET started_at_ms = ?2 WHERE id = ?1",
            params![id, began.as_millisecond()],
        )?;
    }
    transaction.execute(
        "INSERT INTO run_imports (run, text) VALUES (?1, ?2)",
        params![id, import.text.as_bytes()],
    )?;
    Ok(id)
}
