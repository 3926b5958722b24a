//! The history: filters, newest first, page by page.

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use super::decode::{self, RUN_COLUMNS};
use super::{Store, StoreError};
use crate::measure::plan::Kind;
use crate::measure::run::{Run, State};

/// Which runs; an empty filter means all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    /// Of this kind.
    pub kind: Option<Kind>,
    /// In this state.
    pub state: Option<State>,
    /// With this tag.
    pub tag: Option<String>,
    /// To this target: a URL, `host:port`, or a host.
    pub target: Option<String>,
    /// With these characters anywhere in command, target, node, note, title or tags.
    pub text: Option<String>,
    /// Asked for at this time or later.
    pub from: Option<jiff::Timestamp>,
    /// Asked for before this time.
    pub until: Option<jiff::Timestamp>,
    /// Kept as a baseline, or not.
    pub baseline: Option<bool>,
    /// Of this experiment.
    pub experiment: Option<i64>,
}

impl Store {
    /// Runs that pass the filter, newest first, at most `limit`, only those with a smaller id than `before`.
    ///
    /// # Errors
    /// When they could not be read.
    pub async fn runs(
        &self,
        filter: Filter,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<Run>, StoreError> {
        self.read("read the history", move |connection| {
            let (ids, values) = page_query(&filter, before, limit);
            let mut statement = connection.prepare_cached(&format!(
                "SELECT {RUN_COLUMNS} FROM ({ids}) page CROSS JOIN runs r ON r.id = page.id
                 JOIN run_documents d ON d.run = r.id ORDER BY r.id DESC"
            ))?;
            let mut rows = statement.query(params_from_iter(values))?;
            let mut runs = Vec::new();
            while let Some(row) = rows.next()? {
                runs.push(decode::run(row)?);
            }
            Ok(runs)
        })
        .await
    }

    /// How many runs pass the filter.
    ///
    /// # Errors
    /// When they could not be counted.
    pub async fn count(&self, filter: Filter) -> Result<u64, StoreError> {
        self.read("count the history", move |connection| {
            let (ids, values) = page_query(&filter, None, usize::MAX);
            Ok(connection
                .prepare_cached(&format!("SELECT count(*) FROM ({ids})"))?
                .query_row(params_from_iter(values), |row| row.get(0))?)
        })
        .await
    }

    /// How many runs there are in each state that occurs.
    ///
    /// # Errors
    /// When they could not be counted.
    pub async fn count_by_state(&self) -> Result<Vec<(String, u64)>, StoreError> {
        self.read("count the history", |connection| {
            let mut statement =
                connection.prepare_cached("SELECT state, count(*) FROM runs GROUP BY state")?;
            let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
        .await
    }

    /// Every tag in use with how many runs carry it, most used first, at most 200.
    ///
    /// # Errors
    /// When they could not be read.
    pub async fn tags(&self) -> Result<Vec<(String, u64)>, StoreError> {
        self.read("read the tags", |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT tag, count(*) AS runs FROM tags GROUP BY tag ORDER BY runs DESC, tag LIMIT 200",
            )?;
            let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
        .await
    }

    /// How `SQLite` would look up a page of the history, one step a line.
    ///
    /// # Errors
    /// When it could not be asked.
    pub async fn explain_runs(
        &self,
        filter: Filter,
        before: Option<i64>,
    ) -> Result<Vec<String>, StoreError> {
        self.read("explain the history", move |connection| {
            let (ids, values) = page_query(&filter, before, 50);
            explain(connection, &ids, values)
        })
        .await
    }
}

fn explain(
    connection: &Connection,
    sql: &str,
    values: Vec<Value>,
) -> Result<Vec<String>, StoreError> {
    let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}"))?;
    let rows = statement.query_map(params_from_iter(values), |row| row.get("detail"))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The conditions of a query and the values that they name, in step.
#[derive(Default)]
struct Conditions {
    terms: Vec<String>,
    values: Vec<Value>,
}

impl Conditions {
    fn add(&mut self, term: impl Into<String>, values: impl IntoIterator<Item = Value>) {
        self.terms.push(term.into());
        self.values.extend(values);
    }
}

/// The ids of a page. One table leads and is walked from its newest entry, so that the page ends
/// after `limit` rows: the text index, else the tag's index, else an index of `runs`.
fn page_query(filter: &Filter, before: Option<i64>, limit: usize) -> (String, Vec<Value>) {
    let mut all = Conditions::default();
    let text = filter.text.as_deref().map(str::trim);
    let text = text.filter(|text| !text.is_empty());
    let indexed = text.filter(|text| text.chars().count() >= 3);
    let (from, id) = if let Some(text) = indexed {
        let phrase = format!("\"{}\"", text.replace('"', "\"\""));
        all.add("run_text MATCH ?", [Value::from(phrase)]);
        (
            "run_text CROSS JOIN runs ON runs.id = run_text.rowid",
            "run_text.rowid",
        )
    } else if let Some(tag) = &filter.tag {
        all.add("tags.tag = ?", [Value::from(tag.clone())]);
        ("tags CROSS JOIN runs ON runs.id = tags.run", "tags.run")
    } else {
        (leading_index(filter), "runs.id")
    };
    if let Some(before) = before {
        all.add(format!("{id} < ?"), [Value::from(before)]);
    }
    if indexed.is_some()
        && let Some(tag) = &filter.tag
    {
        all.add(
            "EXISTS (SELECT 1 FROM tags WHERE tags.tag = ? AND tags.run = runs.id)",
            [Value::from(tag.clone())],
        );
    }
    if let (None, Some(text)) = (indexed, text) {
        let escaped = text.replace('\\', "\\\\").replace('%', "\\%");
        let pattern = Value::from(format!("%{}%", escaped.replace('_', "\\_")));
        all.add(
            "concat_ws(char(10), runs.command, runs.target, runs.node, runs.note, runs.title) LIKE ? ESCAPE '\\'",
            [pattern],
        );
    }
    add_columns(&mut all, filter);
    for (time, sign) in [(filter.from, ">="), (filter.until, "<")] {
        if let Some(time) = time {
            let value = Value::from(time.as_millisecond());
            all.add(format!("runs.created_at_ms {sign} ?"), [value]);
        }
    }
    let Conditions { terms, mut values } = all;
    let mut sql = format!("SELECT {id} AS id FROM {from}");
    if !terms.is_empty() {
        sql.push_str(" WHERE ");
        sql.push_str(&terms.join(" AND "));
    }
    sql.push_str(" ORDER BY ");
    sql.push_str(id);
    sql.push_str(" DESC LIMIT ?");
    values.push(Value::from(i64::try_from(limit).unwrap_or(i64::MAX)));
    (sql, values)
}

fn add_columns(all: &mut Conditions, filter: &Filter) {
    if let Some(kind) = filter.kind {
        all.add("runs.kind = ?", [Value::from(kind.word().to_owned())]);
    }
    if let Some(state) = filter.state {
        all.add("runs.state = ?", [Value::from(state.word().to_owned())]);
    }
    if let Some(target) = &filter.target {
        let (column, value) = target_column(target);
        all.add(format!("runs.{column} = ?"), [Value::from(value)]);
    }
    if let Some(baseline) = filter.baseline {
        all.add(format!("runs.baseline = {}", u8::from(baseline)), []);
    }
    if let Some(experiment) = filter.experiment {
        all.add("runs.experiment = ?", [Value::from(experiment)]);
    }
}

/// A range of times is found by walking an index that holds the times, not the rows; a target has
/// an index of its own, and few rows behind it.
fn leading_index(filter: &Filter) -> &'static str {
    let timed = filter.from.is_some() || filter.until.is_some();
    if timed && filter.target.is_none() {
        "runs INDEXED BY runs_walk"
    } else {
        "runs"
    }
}

/// Which column a target's text means, and its value there.
fn target_column(text: &str) -> (&'static str, String) {
    let text = text.trim();
    if text.contains("://") {
        let url = url::Url::parse(text).map_or_else(|_| text.to_owned(), String::from);
        return ("target", url);
    }
    let bare = text.trim_matches(['[', ']']);
    if bare.parse::<std::net::IpAddr>().is_err()
        && let Some((_, port)) = text.rsplit_once(':')
        && port.parse::<u16>().is_ok()
    {
        return ("authority", text.to_ascii_lowercase());
    }
    ("host", bare.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_a_url_an_authority_or_a_host() {
        for (text, column, value) in [
            ("http://127.0.0.1:8000", "target", "http://127.0.0.1:8000/"),
            ("127.0.0.1:8000", "authority", "127.0.0.1:8000"),
            ("[::1]:8000", "authority", "[::1]:8000"),
            ("::1", "host", "::1"),
            ("[::1]", "host", "::1"),
            ("Example.org", "host", "example.org"),
        ] {
            assert_eq!(target_column(text), (column, value.to_owned()), "{text}");
        }
    }
}
