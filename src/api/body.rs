//! Bodies and queries, read strictly: one JSON object, no key twice, no key that nobody knows.

use std::fmt;

use axum::body::to_bytes;
use axum::extract::Request;
use axum::http::{StatusCode, header};
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::problem::{Answer, Problem};
use crate::measure::plan::FieldError;

/// Largest body.
const MAX_BODY: usize = 64 << 10;

/// The JSON object of a request.
pub(super) async fn read(request: Request) -> Answer<Map<String, Value>> {
    let headers = request.headers();
    if headers.contains_key(header::CONTENT_ENCODING) {
        return Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "Bodies are read as they are: send this one without Content-Encoding.",
        ));
    }
    let kind = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split(';').next())
        .unwrap_or_default();
    if !kind.trim().eq_ignore_ascii_case("application/json") {
        return Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "Send the body with Content-Type: application/json.",
        ));
    }
    let bytes = to_bytes(request.into_body(), MAX_BODY).await.map_err(|_| {
        Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "The body is longer than 64 KiB, or ended early.",
        )
    })?;
    parse(&bytes)
}

fn parse(bytes: &[u8]) -> Answer<Map<String, Value>> {
    let strict: Strict = serde_json::from_slice(bytes).map_err(|error| {
        let text = error.to_string();
        match text.strip_prefix(DUPLICATE) {
            Some(rest) => {
                let key = rest.rsplit_once(" at line ").map_or(rest, |(key, _)| key);
                Problem::field(key, format!("The key {key} occurs twice."))
            }
            None if text.starts_with("number out of range") => Problem::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                format!("The body holds a number that is too large: {text}."),
            ),
            None => Problem::malformed(format!("The body is not valid JSON: {text}.")),
        }
    })?;
    match strict.0 {
        Value::Object(object) => Ok(object),
        _ => Err(Problem::malformed("The body must be a JSON object.")),
    }
}

/// One fault for each key of the object that is not known.
pub(super) fn unknown(object: &Map<String, Value>, known: &[&str]) -> Vec<FieldError> {
    object
        .keys()
        .filter(|key| !known.contains(&key.as_str()))
        .map(|key| {
            let shown: String = key.chars().take(64).collect();
            FieldError {
                message: format!(
                    "There is no field called {shown} here; known: {}.",
                    known.join(", ")
                ),
                field: shown,
            }
        })
        .collect()
}

/// The parameters of a query, decoded; each at most once and each known.
pub(super) fn query(request: &Request, known: &[&str]) -> Answer<Vec<(String, String)>> {
    let mut pairs: Vec<(String, String)> = Vec::new();
    let mut errors = Vec::new();
    let text = request.uri().query().unwrap_or_default();
    for (key, value) in url::form_urlencoded::parse(text.as_bytes()) {
        let message = if !known.contains(&key.as_ref()) {
            let list = known.join(", ");
            format!("There is no such parameter here; known: {list}.")
        } else if pairs.iter().any(|(before, _)| *before == key) {
            "This parameter is given twice.".to_owned()
        } else {
            pairs.push((key.into_owned(), value.into_owned()));
            continue;
        };
        errors.push(FieldError {
            field: key.chars().take(64).collect(),
            message,
        });
    }
    if errors.is_empty() {
        Ok(pairs)
    } else {
        Err(Problem::invalid(errors))
    }
}

const DUPLICATE: &str = "duplicate key ";

/// A JSON value in which no object has a key twice.
struct Strict(Value);

impl<'de> serde::Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Strict)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(Strict(value)) = seq.next_element()? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some((key, Strict(value))) = map.next_entry::<String, Strict>()? {
            if object.contains_key(&key) {
                let shown: String = key.chars().take(64).collect();
                return Err(A::Error::custom(format!("{DUPLICATE}{shown}")));
            }
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_read_and_everything_else_is_refused() {
        assert_eq!(parse(br#"{"a": [1, {"b": null}]}"#).unwrap().len(), 1);
        for bad in [
            "",
            "{",
            "[]",
            "1",
            "null",
            r#"{"a": 1, "a": 2}"#,
            r#"{"x": {"a": 1, "a": 2}}"#,
            r#"{"a": 1e309}"#,
            r#"{"a": NaN}"#,
            r#"{"a": "\u"}"#,
            r#"{"a": "\ud800"}"#,
            "\u{feff}{}",
        ] {
            assert!(parse(bad.as_bytes()).is_err(), "{bad}");
        }
        assert!(parse(b"{\"a\": \"\xff\"}").is_err());
        assert!(parse("[".repeat(10_000).as_bytes()).is_err());
    }
}
