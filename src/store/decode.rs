//! Values in columns and back: words, times, JSON.

use rusqlite::Row;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::StoreError;
use crate::measure::fold::Series;
use crate::measure::plan::{Caps, ImportedPlan, Kind, Plan};
use crate::measure::run::{Progress, Run, State};
use crate::measure::summary::Summary;

/// The columns that [`run`] reads, in its order; `r` is `runs`, `d` is `run_documents`.
pub(super) const RUN_COLUMNS: &str = "r.id, r.kind, r.state, r.origin, r.command, d.plan, r.node, \
     r.from_peer, r.experiment, d.point, r.repeat, r.created_at_ms, r.started_at_ms, \
     r.finished_at_ms, d.summary, d.checks, d.limits, r.title, r.verdict, d.objectives, \
     d.environment, r.error, r.note, r.baseline, r.actor, \
     (SELECT json_group_array(tag) FROM (SELECT tag FROM tags WHERE tags.run = r.id ORDER BY tag))";

/// A run from the columns of [`RUN_COLUMNS`].
pub(super) fn run(row: &Row<'_>) -> Result<Run, StoreError> {
    let kind: Kind = from_word("kind", &row.get::<_, String>(1)?)?;
    let state: State = from_word("state", &row.get::<_, String>(2)?)?;
    let done = if state == State::Finished || state == State::Imported {
        1.0
    } else {
        0.0
    };
    Ok(Run {
        id: row.get(0)?,
        kind,
        state,
        origin: from_word("origin", &row.get::<_, String>(3)?)?,
        command: row.get(4)?,
        plan: plan(&row.get::<_, String>(5)?)?,
        node: row.get(6)?,
        from: row.get(7)?,
        experiment: row.get(8)?,
        point: optional_json("point", row.get(9)?)?,
        repeat: row.get(10)?,
        created_at: time(row.get(11)?)?,
        started_at: row.get::<_, Option<i64>>(12)?.map(time).transpose()?,
        finished_at: row.get::<_, Option<i64>>(13)?.map(time).transpose()?,
        progress: Progress { done, eta_s: None },
        queue_place: None,
        summary: row
            .get::<_, Option<String>>(14)?
            .map(|text| summary(kind, state, &text))
            .transpose()?,
        checks: json("checks", &row.get::<_, String>(15)?)?,
        limits: json("limits", &row.get::<_, String>(16)?)?,
        title: row.get(17)?,
        verdict: row.get(18)?,
        objectives: json("objectives", &row.get::<_, String>(19)?)?,
        environment: environment(&row.get::<_, String>(20)?)?,
        error: row.get(21)?,
        note: row.get(22)?,
        baseline: row.get(23)?,
        actor: row.get(24)?,
        tags: json("tags", &row.get::<_, String>(25)?)?,
    })
}

/// The figures of a run of this kind.
pub(super) fn summary(kind: Kind, state: State, text: &str) -> Result<Summary, StoreError> {
    if state == State::Imported {
        return json("summary", text).map(Summary::Imported);
    }
    Ok(match kind {
        Kind::Rate => Summary::Rate(json("summary", text)?),
        Kind::Users => Summary::Users(json("summary", text)?),
        Kind::Fetch => Summary::Fetch(json("summary", text)?),
        Kind::Throughput => Summary::Throughput(json("summary", text)?),
        Kind::Ping => Summary::Ping(json("summary", text)?),
        Kind::Path => Summary::Path(json("summary", text)?),
    })
}

/// What the charts of a run of this kind are drawn from.
pub(super) fn series(kind: Kind, text: &str) -> Result<Series, StoreError> {
    Ok(if kind.is_http() {
        Series::Http(json("series", text)?)
    } else {
        Series::Flow(json("series", text)?)
    })
}

/// A plan that was valid when it was stored, whatever the limits are now.
pub(super) fn plan(text: &str) -> Result<Plan, StoreError> {
    let stored: serde_json::Value = json("plan", text)?;
    if let Some(plan) = ImportedPlan::from_json(&stored) {
        return Ok(Plan::Imported(plan));
    }
    let read = Plan::from_json(&stored, &Caps::NONE);
    let read = read.map(|plan| match plan {
        // A client that tested against a receiver need not have said how long: such a plan has neither bound.
        Plan::Throughput(mut plan)
            if stored.get("duration_s").is_none() && stored.get("bytes").is_none() =>
        {
            plan.duration_s = None;
            Plan::Throughput(plan)
        }
        plan => plan,
    });
    read.map_err(|errors| StoreError::Unreadable {
        what: format!(
            "plan: {}",
            errors.first().map_or("", |error| error.message.as_str())
        ),
    })
}

/// Empty until the run has started.
pub(super) fn environment(text: &str) -> Result<crate::measure::run::Environment, StoreError> {
    if text == "{}" {
        return Ok(crate::measure::run::Environment::default());
    }
    json("environment", text)
}

/// The word that stands for a value of an enum without fields.
pub(super) fn word<T: Serialize>(value: T) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => unreachable!("an enum without fields serialises as a word"),
    }
}

pub(super) fn from_word<T: DeserializeOwned>(what: &str, word: &str) -> Result<T, StoreError> {
    serde_json::from_value(serde_json::Value::from(word)).map_err(|error| unreadable(what, &error))
}

pub(super) fn json<T: DeserializeOwned>(what: &str, text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|error| unreadable(what, &error))
}

fn optional_json<T: DeserializeOwned>(
    what: &str,
    text: Option<String>,
) -> Result<Option<T>, StoreError> {
    text.map(|text| json(what, &text)).transpose()
}

/// JSON text of a value of ours; these have string keys only and cannot fail.
pub(super) fn to_json<T: Serialize + ?Sized>(value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| unreadable("a value", &error))
}

pub(super) fn time(milliseconds: i64) -> Result<jiff::Timestamp, StoreError> {
    jiff::Timestamp::from_millisecond(milliseconds).map_err(|error| unreadable("time", &error))
}

fn unreadable(what: &str, error: &dyn std::fmt::Display) -> StoreError {
    StoreError::Unreadable {
        what: format!("{what}: {error}"),
    }
}
