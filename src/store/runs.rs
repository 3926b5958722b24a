//! One run: asked for, started, ended, annotated, deleted.

use rusqlite::{Connection, OptionalExtension, Transaction, params};
use serde_json::{Map, Value};

use super::decode::{self, RUN_COLUMNS, to_json, word};
use super::flows;
use super::{Store, StoreError};
use crate::measure::fold::{Closed, Series};
use crate::measure::plan::Plan;
use crate::measure::run::{Check, Environment, Limit, ObjectiveResult, Origin, Run, State};
use crate::measure::summary::Summary;

/// A run as it is asked for.
#[derive(Clone, Debug)]
pub struct NewRun {
    /// What it is to do.
    pub plan: Plan,
    /// The command line that would repeat it.
    pub command: String,
    /// Who caused it.
    pub origin: Origin,
    /// Who started it.
    pub actor: String,
    /// The node that runs it.
    pub node: String,
    /// A person's note.
    pub note: String,
    /// A person's tags.
    pub tags: Vec<String>,
    /// Stated objectives, as written; empty = none.
    pub objective: String,
    /// Marks one sending of a form: a second run with the same one is the first again.
    pub form_token: Option<String>,
    /// The experiment that it belongs to.
    pub member: Option<Member>,
    /// When it was asked for.
    pub created_at: jiff::Timestamp,
}

/// A run's place in an experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// The experiment.
    pub experiment: i64,
    /// What was varied.
    pub point: Map<String, Value>,
    /// Which repeat of that, from 1.
    pub repeat: u32,
}

/// What became of a [`NewRun`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// It has this id now.
    New(i64),
    /// The form was sent before and made this run.
    Before(i64),
}

/// How a run ended.
#[derive(Clone, Debug)]
pub struct Finish {
    /// A final state.
    pub state: State,
    /// When it ended.
    pub finished_at: jiff::Timestamp,
    /// Its last seconds, intervals or round trips, not stored before.
    pub seconds: Vec<Closed>,
    /// The figures; `None` when there are none.
    pub summary: Option<Summary>,
    /// What the charts are drawn from.
    pub series: Option<Series>,
    /// Whether the figures may be believed.
    pub checks: Vec<Check>,
    /// What held it back.
    pub limits: Vec<Limit>,
    /// The finding.
    pub title: Option<String>,
    /// What the figures mean.
    pub verdict: Option<String>,
    /// Stated objectives and whether they were met.
    pub objectives: Vec<ObjectiveResult>,
    /// Why it failed or stopped.
    pub error: Option<String>,
}

impl Finish {
    /// An end without figures.
    pub fn bare(state: State, finished_at: jiff::Timestamp, error: Option<String>) -> Self {
        Self {
            state,
            finished_at,
            seconds: Vec::new(),
            summary: None,
            series: None,
            checks: Vec::new(),
            limits: Vec::new(),
            title: None,
            verdict: None,
            objectives: Vec::new(),
            error,
        }
    }

    /// Makes the run one that ended like this.
    pub fn write(&self, run: &mut Run) {
        run.state = self.state;
        run.queue_place = None;
        run.finished_at = Some(self.finished_at);
        if self.state == State::Finished {
            run.progress.done = 1.0;
        }
        run.progress.eta_s = None;
        run.error.clone_from(&self.error);
        self.write_figures(run);
    }

    /// Gives the run its figures and what they mean.
    pub fn write_figures(&self, run: &mut Run) {
        run.summary.clone_from(&self.summary);
        run.checks.clone_from(&self.checks);
        run.limits.clone_from(&self.limits);
        run.title.clone_from(&self.title);
        run.verdict.clone_from(&self.verdict);
        run.objectives.clone_from(&self.objectives);
    }
}

/// What a person may change about a run; `None` = leave it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patch {
    /// The note.
    pub note: Option<String>,
    /// All tags.
    pub tags: Option<Vec<String>>,
    /// Whether others are compared with it.
    pub baseline: Option<bool>,
}

impl Store {
    /// Puts a run into the notebook as `queued`; it is on disk when this returns.
    ///
    /// # Errors
    /// When it could not be written.
    pub async fn insert_run(&self, new: NewRun) -> Result<Inserted, StoreError> {
        self.write("store the run", move |transaction| {
            insert(transaction, &new)
        })
        .await
    }

    /// The run that the form with this token made.
    ///
    /// # Errors
    /// When it could not be read.
    pub async fn run_of_token(&self, token: String) -> Result<Option<i64>, StoreError> {
        self.read("read the run", move |connection| {
            by_token(connection, &token)
        })
        .await
    }

    /// Marks a run as running from now on, on a machine in this state.
    ///
    /// # Errors
    /// When it could not be written.
    pub async fn start_run(
        &self,
        id: i64,
        started_at: jiff::Timestamp,
        environment: Environment,
    ) -> Result<(), StoreError> {
        self.write("start the run", move |transaction| {
            transaction.execute(
                "UPDATE runs SET state = 'running', started_at_ms = ?2 WHERE id = ?1",
                params![id, started_at.as_millisecond()],
            )?;
            transaction.execute(
                "UPDATE run_documents SET environment = ?2 WHERE run = ?1",
                params![id, to_json(&environment)?],
            )?;
            Ok(())
        })
        .await
    }

    /// Writes a run's end: its last seconds, its figures and its state, all or nothing.
    ///
    /// # Errors
    /// When it could not be written.
    pub async fn finish_run(&self, id: i64, finish: Finish) -> Result<(), StoreError> {
        self.write("finish the run", move |transaction| {
            write_finish(transaction, id, &finish)
        })
        .await
    }

    /// One run, whole.
    ///
    /// # Errors
    /// When it could not be read.
    pub async fn run(&self, id: i64) -> Result<Option<Run>, StoreError> {
        self.read("read the run", move |connection| read_run(connection, id))
            .await
    }

    /// What the charts of an ended run are drawn from.
    ///
    /// # Errors
    /// When it could not be read.
    pub async fn series(&self, id: i64) -> Result<Option<Series>, StoreError> {
        self.read("read the series", move |connection| {
            let stored: Option<(String, Option<Vec<u8>>)> = connection
                .prepare_cached(
                    "SELECT r.kind, d.series FROM runs r JOIN run_documents d ON d.run = r.id WHERE r.id = ?1",
                )?
                .query_row([id], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()?;
            let Some((kind, Some(bytes))) = stored else {
                return Ok(None);
            };
            let kind = decode::from_word("kind", &kind)?;
            decode::series(kind, &String::from_utf8_lossy(&bytes)).map(Some)
        })
        .await
    }

    /// Changes note, tags or baseline; `false` when there is no such run.
    ///
    /// # Errors
    /// When it could not be written.
    pub async fn patch_run(&self, id: i64, patch: Patch) -> Result<bool, StoreError> {
        self.write("change the run", move |transaction| {
            let found = transaction.execute(
                "UPDATE runs SET note = coalesce(?2, note), baseline = coalesce(?3, baseline) WHERE id = ?1",
                params![id, patch.note, patch.baseline],
            )?;
            if found == 0 {
                return Ok(false);
            }
            if let Some(tags) = &patch.tags {
                transaction.execute("DELETE FROM tags WHERE run = ?1", [id])?;
                insert_tags(transaction, id, tags)?;
            }
            index_text(transaction, id)?;
            Ok(true)
        })
        .await
    }

    /// Deletes a run that has ended, with all its samples; `false` when there is none that has.
    ///
    /// # Errors
    /// When it could not be written.
    pub async fn delete_run(&self, id: i64) -> Result<bool, StoreError> {
        self.write("delete the run", move |transaction| {
            let found = transaction.execute(
                "DELETE FROM runs WHERE id = ?1 AND state NOT IN ('queued', 'running')",
                [id],
            )?;
            if found > 0 {
                transaction.execute("DELETE FROM run_text WHERE rowid = ?1", [id])?;
            }
            Ok(found > 0)
        })
        .await
    }
}

pub(super) fn read_run(connection: &Connection, id: i64) -> Result<Option<Run>, StoreError> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {RUN_COLUMNS} FROM runs r JOIN run_documents d ON d.run = r.id WHERE r.id = ?1"
    ))?;
    let mut rows = statement.query([id])?;
    rows.next()?.map(decode::run).transpose()
}

pub(super) fn insert(transaction: &Transaction<'_>, new: &NewRun) -> Result<Inserted, StoreError> {
    if let Some(token) = &new.form_token
        && let Some(id) = by_token(transaction, token)?
    {
        return Ok(Inserted::Before(id));
    }
    let member = new.member.as_ref();
    let target = new.plan.target();
    let endpoints = new.plan.endpoints();
    let first = endpoints.first();
    let host = first.map_or("", |endpoint| endpoint.host.as_str());
    let authority = first.map(ToString::to_string).unwrap_or_default();
    transaction.execute(
        "INSERT INTO runs (kind, state, origin, actor, node, target, authority, host, created_at_ms, form_token, command, note, experiment, repeat)
         VALUES (?1, 'queued', ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
        params![
            new.plan.kind().word(),
            word(new.origin),
            new.actor,
            new.node,
            target,
            authority,
            host,
            new.created_at.as_millisecond(),
            new.form_token,
            new.command,
            new.note,
            member.map(|member| member.experiment),
            member.map(|member| member.repeat),
        ],
    )?;
    let id = transaction.last_insert_rowid();
    transaction.execute(
        "INSERT INTO run_documents (run, plan, objective, point) VALUES (?1, ?2, ?3, ?4)",
        params![
            id,
            to_json(&new.plan)?,
            new.objective,
            member.map(|member| to_json(&member.point)).transpose()?,
        ],
    )?;
    insert_tags(transaction, id, &new.tags)?;
    index_text(transaction, id)?;
    Ok(Inserted::New(id))
}

fn by_token(connection: &Connection, token: &str) -> Result<Option<i64>, StoreError> {
    Ok(connection
        .prepare_cached("SELECT id FROM runs WHERE form_token = ?1")?
        .query_row([token], |row| row.get(0))
        .optional()?)
}

fn insert_tags(transaction: &Transaction<'_>, id: i64, tags: &[String]) -> Result<(), StoreError> {
    for tag in tags {
        transaction.execute(
            "INSERT OR IGNORE INTO tags (tag, run) VALUES (?1, ?2)",
            params![tag, id],
        )?;
    }
    Ok(())
}

/// Renews what a search finds this run by.
fn index_text(transaction: &Transaction<'_>, id: i64) -> Result<(), StoreError> {
    transaction.execute(
        "INSERT OR REPLACE INTO run_text (rowid, words)
         SELECT id, concat_ws(char(10), command, target, node, note, title,
                (SELECT group_concat(tag, char(10)) FROM tags WHERE run = runs.id))
         FROM runs WHERE id = ?1",
        [id],
    )?;
    Ok(())
}

pub(super) fn write_finish(
    transaction: &Transaction<'_>,
    id: i64,
    finish: &Finish,
) -> Result<(), StoreError> {
    flows::append(transaction, id, &finish.seconds)?;
    let head = Headline::of(finish.summary.as_ref());
    transaction.execute(
        "UPDATE runs SET state = ?2, finished_at_ms = ?3, title = ?4, verdict = ?5, error = ?6,
                requests = ?7, errors = ?8, achieved_per_s = ?9, latency_p50_ms = ?10, latency_p99_ms = ?11,
                bits_per_second = ?12
         WHERE id = ?1",
        params![
            id,
            finish.state.word(),
            finish.finished_at.as_millisecond(),
            finish.title,
            finish.verdict,
            finish.error,
            head.requests,
            head.errors,
            head.achieved_per_s,
            head.latency_p50_ms,
            head.latency_p99_ms,
            head.bits_per_second,
        ],
    )?;
    transaction.execute(
        "UPDATE run_documents SET checks = ?2, limits = ?3, objectives = ?4, summary = ?5, series = ?6 WHERE run = ?1",
        params![
            id,
            to_json(&finish.checks)?,
            to_json(&finish.limits)?,
            to_json(&finish.objectives)?,
            finish.summary.as_ref().map(to_json).transpose()?,
            finish
                .series
                .as_ref()
                .map(|series| to_json(series).map(String::into_bytes))
                .transpose()?,
        ],
    )?;
    index_text(transaction, id)
}

/// The figures that the history shows, sorts and filters by.
#[derive(Default)]
struct Headline {
    requests: Option<u64>,
    errors: Option<u64>,
    achieved_per_s: Option<f64>,
    latency_p50_ms: Option<f64>,
    latency_p99_ms: Option<f64>,
    bits_per_second: Option<f64>,
}

impl Headline {
    fn of(summary: Option<&Summary>) -> Self {
        match summary {
            None | Some(Summary::Path(_)) => Self::default(),
            Some(Summary::Rate(rate)) => {
                let tried: u64 = rate.outcomes.values().sum();
                let ok = rate.outcomes.get("ok").copied().unwrap_or(0);
                Self {
                    requests: Some(tried),
                    errors: Some(tried - ok),
                    achieved_per_s: rate.achieved_per_s,
                    latency_p50_ms: rate.latency_ms.p50,
                    latency_p99_ms: rate.latency_ms.p99,
                    ..Self::default()
                }
            }
            Some(Summary::Users(users)) => Self {
                requests: Some(users.outcomes.values().sum()),
                errors: Some(users.failed),
                achieved_per_s: users.transaction_rate_per_s,
                latency_p50_ms: users.latency_ms.p50,
                latency_p99_ms: users.latency_ms.p99,
                ..Self::default()
            },
            Some(Summary::Fetch(fetch)) => Self {
                requests: Some(1),
                errors: Some(u64::from(fetch.outcome != "ok")),
                achieved_per_s: None,
                latency_p50_ms: fetch.total_ms,
                latency_p99_ms: fetch.total_ms,
                ..Self::default()
            },
            Some(Summary::Throughput(flow)) => Self {
                bits_per_second: flow.bits_per_second,
                errors: Some(flow.streams.iter().filter(|s| s.failed.is_some()).count() as u64),
                latency_p50_ms: flow.rtt_ms.loaded.p50,
                latency_p99_ms: flow.rtt_ms.loaded.p99,
                ..Self::default()
            },
            Some(Summary::Imported(imported)) => {
                let head = imported.head();
                Self {
                    requests: head.planned,
                    errors: head.failed,
                    achieved_per_s: head.achieved_per_s,
                    latency_p50_ms: head.latency_p50_ms,
                    latency_p99_ms: head.latency_p99_ms,
                    bits_per_second: imported.number("bits_per_second"),
                }
            }
            Some(Summary::Ping(ping)) => Self {
                requests: Some(ping.transmitted),
                errors: Some(ping.transmitted - ping.received),
                latency_p50_ms: ping.rtt_ms.figures.p50,
                latency_p99_ms: ping.rtt_ms.figures.p99,
                ..Self::default()
            },
        }
    }
}
