//! The query of the list of runs.

use axum::extract::Request;

use super::body;
use super::problem::{Answer, Problem};
use super::runs::fault;
use crate::measure::plan::Kind;
use crate::measure::run::State;
use crate::store::Filter;

/// Parameters of the list.
pub(super) const QUERY: [&str; 10] = [
    "kind", "state", "tag", "target", "text", "from", "until", "baseline", "limit", "before",
];

const DEFAULT_LIMIT: usize = 50;
const MAX_LIMIT: usize = 500;
const MAX_TEXT: usize = 200;

/// What part of the history is asked for.
pub(super) struct Page {
    pub(super) filter: Filter,
    pub(super) before: Option<i64>,
    pub(super) limit: usize,
}

/// Reads the query; an empty value means that the parameter is not given, as forms send it.
pub(super) fn read(request: &Request) -> Answer<Page> {
    let mut page = Page {
        filter: Filter::default(),
        before: None,
        limit: DEFAULT_LIMIT,
    };
    let mut errors = Vec::new();
    for (key, value) in body::query(request, &QUERY)? {
        if !value.is_empty()
            && let Err(message) = page.set(&key, value)
        {
            errors.push(fault(&key, message));
        }
    }
    if errors.is_empty() {
        Ok(page)
    } else {
        Err(Problem::invalid(errors))
    }
}

impl Page {
    fn set(&mut self, key: &str, value: String) -> Result<(), String> {
        let filter = &mut self.filter;
        match key {
            "kind" => {
                let kind = Kind::from_word(&value);
                filter.kind = Some(kind.ok_or("The kinds are rate, users and fetch.")?);
            }
            "state" => {
                let words =
                    || format!("The states are {}.", State::ALL.map(State::word).join(", "));
                filter.state = Some(State::from_word(&value).ok_or_else(words)?);
            }
            "baseline" => {
                let flag = value.parse().map_err(|_| "baseline is true or false.")?;
                filter.baseline = Some(flag);
            }
            "limit" => {
                self.limit = limit(&value, MAX_LIMIT)?;
            }
            "before" => {
                self.before = Some(before(&value, "a run")?);
            }
            "from" => filter.from = Some(time(&value)?),
            "until" => filter.until = Some(time(&value)?),
            _ if value.chars().count() > MAX_TEXT => {
                return Err(format!("At most {MAX_TEXT} characters are searched for."));
            }
            "tag" => filter.tag = Some(value),
            "target" => filter.target = Some(value),
            _ => filter.text = Some(value),
        }
        Ok(())
    }
}

/// The size of a page.
pub(super) fn limit(text: &str, most: usize) -> Result<usize, String> {
    let number = text.parse().ok();
    number
        .filter(|limit| (1..=most).contains(limit))
        .ok_or_else(|| format!("The limit is a whole number from 1 to {most}."))
}

/// The id before which a page begins.
pub(super) fn before(text: &str, of: &str) -> Result<i64, String> {
    let id = text.parse().ok().filter(|id: &i64| *id > 0);
    id.ok_or_else(|| format!("before is the id of {of}."))
}

fn time(text: &str) -> Result<jiff::Timestamp, String> {
    text.parse()
        .map_err(|_| "A time is written like 2026-01-31T12:00:00Z.".to_owned())
}
