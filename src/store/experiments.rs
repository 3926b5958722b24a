//! Experiments: asked for, started, ended, listed, deleted; their runs are runs like any other.

use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};
use serde_json::{Map, Value};

use super::decode::{self, from_word, json, time, to_json};
use super::runs::Inserted;
use super::{Store, StoreError};
use crate::measure::experiment::{Experiment, ExperimentKind, ExperimentState, Key, Point};
use crate::measure::run::{Check, Progress, State};

/// An experiment as it is asked for.
#[derive(Clone, Debug)]
pub struct NewExperiment {
    /// Its kind.
    pub kind: ExperimentKind,
    /// The first target.
    pub target: String,
    /// What it is to do, as the API takes it.
    pub spec: Value,
    /// Stated objectives of each run, as written; empty = none.
    pub objective: String,
    /// A person's note.
    pub note: String,
    /// A person's tags.
    pub tags: Vec<String>,
    /// Who asks.
    pub actor: String,
    /// Marks one sending of a form: a second experiment with the same one is the first again.
    pub form_token: Option<String>,
    /// When it was asked for.
    pub created_at: jiff::Timestamp,
}

/// How an experiment ended.
#[derive(Clone, Debug)]
pub struct ExperimentEnd {
    /// A final state.
    pub state: ExperimentState,
    /// When.
    pub finished_at: jiff::Timestamp,
    /// The finding.
    pub title: Option<String>,
    /// What the figures mean.
    pub verdict: Option<String>,
    /// Why it failed or stopped.
    pub error: Option<String>,
}

/// Which experiments; an empty filter means all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExperimentFilter {
    /// Of this kind.
    pub kind: Option<ExperimentKind>,
    /// In this state.
    pub state: Option<ExperimentState>,
}

const COLUMNS: &str = "id, kind, state, spec, target, created_at_ms, started_at_ms, \
     finished_at_ms, found, title, verdict, error, note, tags, objective, actor";

impl Store {
    /// Puts an experiment into the notebook as `queued`.
    ///
    /// # Errors
    /// When it could not be written.
    pub async fn insert_experiment(&self, new: NewExperiment) -> Result<Inserted, StoreError> {
        self.write("store the experiment", move |transaction| {
            insert(transaction, &new)
        })
        .await
    }

    /// The experiment that the form with this token made.
    ///
    /// # Errors
    /// When it could not be read.
    pub async fn experiment_of_token(&self, token: String) -> Result<Option<i64>, StoreError> {
        self.read("read the experiment", move |connection| {
            by_token(connection, &token)
        })
        .await
    }

    /// Marks an experiment as running; one that ran before a restart keeps its start.
    ///
    /// # Errors
    /// When it could not be written.
    pub async fn start_experiment(&self, id: i64, at: jiff::Timestamp) -> Result<(), StoreError> {
        self.write("start the experiment", move |transaction| {
            transaction.execute(
                "UPDATE experiments SET state = 'running', started_at_ms = coalesce(started_at_ms, ?2) WHERE id = ?1",
                params![id, at.as_millisecond()],
            )?;
            Ok(())
        })
        .await
    }

    /// Keeps what a search has found so far.
    ///
    /// # Errors
    /// When it could not be written.
    pub async fn keep_found(&self, id: i64, found: Value) -> Result<(), StoreError> {
        self.write("keep what was found", move |transaction| {
            transaction.execute(
                "UPDATE experiments SET found = ?2 WHERE id = ?1",
                params![id, to_json(&found)?],
            )?;
            Ok(())
        })
        .await
    }

    /// Writes an experiment's end.
    ///
    /// # Errors
    /// When it could not be written.
    pub async fn finish_experiment(&self, id: i64, end: ExperimentEnd) -> Result<(), StoreError> {
        self.write("finish the experiment", move |transaction| {
            transaction.execute(
                "UPDATE experiments SET state = ?2, finished_at_ms = ?3, title = ?4, verdict = ?5, error = ?6 WHERE id = ?1",
                params![
                    id,
                    end.state.word(),
                    end.finished_at.as_millisecond(),
                    end.title,
                    end.verdict,
                    end.error,
                ],
            )?;
            Ok(())
        })
        .await
    }

    /// One experiment with its runs as they are stored.
    ///
    /// # Errors
    /// When it could not be read.
    pub async fn experiment(&self, id: i64) -> Result<Option<Experiment>, StoreError> {
        self.read("read the experiment", move |connection| {
            let mut statement = connection
                .prepare_cached(&format!("SELECT {COLUMNS} FROM experiments WHERE id = ?1"))?;
            let mut rows = statement.query([id])?;
            let Some(mut experiment) = rows.next()?.map(decoded).transpose()? else {
                return Ok(None);
            };
            let points = points(connection, id, 0, true)?;
            experiment.take_points(points);
            Ok(Some(experiment))
        })
        .await
    }

    /// Experiments that pass the filter, newest first, at most `limit`, only those with a smaller id than `before`;
    /// their points carry no figures.
    ///
    /// # Errors
    /// When they could not be read.
    pub async fn experiments(
        &self,
        filter: ExperimentFilter,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<Experiment>, StoreError> {
        self.read("read the experiments", move |connection| {
            let mut statement = connection.prepare_cached(&format!(
                "SELECT {COLUMNS} FROM experiments
                 WHERE (?1 IS NULL OR kind = ?1) AND (?2 IS NULL OR state = ?2) AND (?3 IS NULL OR id < ?3)
                 ORDER BY id DESC LIMIT ?4"
            ))?;
            let mut rows = statement.query(params![
                filter.kind.map(ExperimentKind::word),
                filter.state.map(ExperimentState::word),
                before,
                i64::try_from(limit).unwrap_or(i64::MAX),
            ])?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                found.push(decoded(row)?);
            }
            for experiment in &mut found {
                let points = points(connection, experiment.id, 0, false)?;
                experiment.take_points(points);
            }
            Ok(found)
        })
        .await
    }

    /// How many experiments there are.
    ///
    /// # Errors
    /// When they could not be counted.
    pub async fn count_experiments(&self, filter: ExperimentFilter) -> Result<u64, StoreError> {
        self.read("count the experiments", move |connection| {
            Ok(connection
                .prepare_cached(
                    "SELECT count(*) FROM experiments
                     WHERE (?1 IS NULL OR kind = ?1) AND (?2 IS NULL OR state = ?2)",
                )?
                .query_row(
                    params![
                        filter.kind.map(ExperimentKind::word),
                        filter.state.map(ExperimentState::word)
                    ],
                    |row| row.get(0),
                )?)
        })
        .await
    }

    /// The runs of an experiment that have ended, of those with a greater id than `after`, with their figures.
    ///
    /// # Errors
    /// When they could not be read.
    pub async fn points_after(&self, id: i64, after: i64) -> Result<Vec<Point>, StoreError> {
        self.read("read the experiment's runs", move |connection| {
            let mut points = points(connection, id, after, true)?;
            points.retain(|point| point.state.is_final());
            Ok(points)
        })
        .await
    }

    /// What the ended runs of an experiment are found by, oldest first.
    ///
    /// # Errors
    /// When they could not be read.
    pub async fn keys_of_runs(&self, id: i64) -> Result<Vec<(Key, i64)>, StoreError> {
        self.read("read the experiment's runs", move |connection| {
            let points = points(connection, id, 0, false)?;
            Ok(points
                .into_iter()
                .filter(|point| point.state.is_final() && point.state != State::Interrupted)
                .map(|point| ((point.point.to_string(), point.repeat), point.run))
                .collect())
        })
        .await
    }

    /// The experiments that wait or run, oldest first.
    ///
    /// # Errors
    /// When they could not be read.
    pub async fn open_experiments(&self) -> Result<Vec<i64>, StoreError> {
        self.read("read the experiments", |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT id FROM experiments WHERE state IN ('queued', 'running') ORDER BY id",
            )?;
            let rows = statement.query_map([], |row| row.get(0))?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
        .await
    }

    /// Deletes an experiment that has ended, with all its runs; `false` when there is none that has.
    ///
    /// # Errors
    /// When it could not be written.
    pub async fn delete_experiment(&self, id: i64) -> Result<bool, StoreError> {
        self.write("delete the experiment", move |transaction| {
            let found = transaction.execute(
                "DELETE FROM experiments WHERE id = ?1 AND state NOT IN ('queued', 'running')",
                [id],
            )?;
            if found > 0 {
                transaction.execute(
                    "DELETE FROM run_text WHERE rowid IN (SELECT id FROM runs WHERE experiment = ?1)",
                    [id],
                )?;
                transaction.execute("DELETE FROM runs WHERE experiment = ?1", [id])?;
            }
            Ok(found > 0)
        })
        .await
    }
}

fn insert(transaction: &Transaction<'_>, new: &NewExperiment) -> Result<Inserted, StoreError> {
    if let Some(token) = &new.form_token
        && let Some(id) = by_token(transaction, token)?
    {
        return Ok(Inserted::Before(id));
    }
    transaction.execute(
        "INSERT INTO experiments (kind, state, actor, target, spec, objective, note, tags, created_at_ms, form_token)
         VALUES (?1, 'queued', ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        params![
            new.kind.word(),
            new.actor,
            new.target,
            to_json(&new.spec)?,
            new.objective,
            new.note,
            to_json(&new.tags)?,
            new.created_at.as_millisecond(),
            new.form_token,
        ],
    )?;
    Ok(Inserted::New(transaction.last_insert_rowid()))
}

fn by_token(connection: &Connection, token: &str) -> Result<Option<i64>, StoreError> {
    Ok(connection
        .prepare_cached("SELECT id FROM experiments WHERE form_token = ?1")?
        .query_row([token], |row| row.get(0))
        .optional()?)
}

/// An experiment from the columns of [`COLUMNS`], before it has its points.
fn decoded(row: &Row<'_>) -> Result<Experiment, StoreError> {
    let moment = |column: usize| -> Result<Option<jiff::Timestamp>, StoreError> {
        row.get::<_, Option<i64>>(column)?.map(time).transpose()
    };
    Ok(Experiment {
        id: row.get(0)?,
        kind: from_word("kind", &row.get::<_, String>(1)?)?,
        state: from_word("state", &row.get::<_, String>(2)?)?,
        spec: json("spec", &row.get::<_, String>(3)?)?,
        target: row.get(4)?,
        created_at: time(row.get(5)?)?,
        started_at: moment(6)?,
        finished_at: moment(7)?,
        progress: Progress::default(),
        runs_planned: None,
        runs_done: 0,
        estimate: None,
        points: Vec::new(),
        settled_at: None,
        ratio: None,
        proof: None,
        capacity: row
            .get::<_, Option<String>>(8)?
            .map(|text| json("found", &text))
            .transpose()?,
        title: row.get(9)?,
        verdict: row.get(10)?,
        error: row.get(11)?,
        note: row.get(12)?,
        tags: json("tags", &row.get::<_, String>(13)?)?,
        objective: row.get(14)?,
        actor: row.get(15)?,
    })
}

/// The runs of an experiment with a greater id than `after`, oldest first.
fn points(
    connection: &Connection,
    id: i64,
    after: i64,
    with_figures: bool,
) -> Result<Vec<Point>, StoreError> {
    let summary = if with_figures { "d.summary" } else { "NULL" };
    let checks = if with_figures { "d.checks" } else { "'[]'" };
    let mut statement = connection.prepare_cached(&format!(
        "SELECT r.id, r.kind, r.state, d.point, r.repeat, {summary}, r.error, r.started_at_ms,
                {checks}
         FROM runs r JOIN run_documents d ON d.run = r.id
         WHERE r.experiment = ?1 AND r.id > ?2 ORDER BY r.id"
    ))?;
    let mut rows = statement.query([id, after])?;
    let mut points = Vec::new();
    while let Some(row) = rows.next()? {
        let kind = from_word("kind", &row.get::<_, String>(1)?)?;
        let mut doubts: Vec<Check> = json("checks", &row.get::<_, String>(8)?)?;
        doubts.retain(|check| check.ok == Some(false));
        let state = from_word("state", &row.get::<_, String>(2)?)?;
        points.push(Point {
            run: row.get(0)?,
            state,
            point: match row.get::<_, Option<String>>(3)? {
                Some(text) => json("point", &text)?,
                None => Value::Object(Map::new()),
            },
            repeat: row.get::<_, Option<u32>>(4)?.unwrap_or(1),
            summary: row
                .get::<_, Option<String>>(5)?
                .map(|text| decode::summary(kind, state, &text))
                .transpose()?,
            error: row.get(6)?,
            started_at: row.get::<_, Option<i64>>(7)?.map(time).transpose()?,
            doubts,
        });
    }
    Ok(points)
}
