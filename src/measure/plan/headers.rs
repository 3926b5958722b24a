//! The method, headers and body of a request: their grammar (RFC 9110) and what is decided for `Host` and `Connection`.
//!
//! A plan may set `Host` and `Connection`, as users of httperf's `--add-header` do: its value then replaces
//! the one that would be sent otherwise. `Content-Length`, `Transfer-Encoding` and `Trailer` follow from the body,
//! and `Upgrade` would leave HTTP: these are refused.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::fields::{Fields, shown};

const MAX_HEADERS: usize = 64;
const MAX_HEADER_VALUE: usize = 8_192;
const MAX_BODY: usize = 1 << 20;

/// Which of the headers that are sent by default a plan replaces: `(Host, Connection, User-Agent)`.
pub fn default_headers_replaced(headers: &BTreeMap<String, String>) -> (bool, bool, bool) {
    let has = |wanted: &str| headers.keys().any(|name| name.eq_ignore_ascii_case(wanted));
    (has("host"), has("connection"), has("user-agent"))
}

/// `method`; `GET` when absent.
pub(super) fn take_method(fields: &mut Fields<'_>) -> String {
    let method = fields.text("method", "Method").unwrap_or("GET");
    if !is_token(method) || method.len() > 32 {
        fields.refuse(
            "method",
            format!(
                "The method {} is not a word such as GET, HEAD or POST.",
                shown(method)
            ),
        );
    } else if method.eq_ignore_ascii_case("CONNECT") {
        fields.refuse(
            "method",
            "CONNECT opens a tunnel, which is not measured here: choose another method.",
        );
    }
    method.to_owned()
}

/// `headers`: an object of names and values.
pub(super) fn take_headers(fields: &mut Fields<'_>) -> BTreeMap<String, String> {
    let mut headers = BTreeMap::new();
    let Some(value) = fields.take("headers") else {
        return headers;
    };
    let Some(object) = value.as_object() else {
        fields.refuse(
            "headers",
            "Headers must be an object of names and values, such as {\"Accept\": \"*/*\"}.",
        );
        return headers;
    };
    if object.len() > MAX_HEADERS {
        fields.refuse(
            "headers",
            format!("At most {MAX_HEADERS} headers can be set."),
        );
        return headers;
    }
    for (name, value) in object {
        let field = format!("headers.{}", shown(name));
        let Some(value) = value.as_str() else {
            fields.refuse(
                &field,
                format!("The header {} must have a text as its value.", shown(name)),
            );
            continue;
        };
        let value = value.trim_matches([' ', '\t']);
        if let Some(message) = header_refusal(name, value) {
            fields.refuse(&field, message);
        } else if headers
            .keys()
            .any(|other: &String| other.eq_ignore_ascii_case(name))
        {
            fields.refuse(&field, format!("The header {} is set twice.", shown(name)));
        } else {
            headers.insert(name.clone(), value.to_owned());
        }
    }
    headers
}

/// `body`, at most 1 MiB.
pub(super) fn take_body(fields: &mut Fields<'_>) -> Option<String> {
    let body = fields.text("body", "The body")?;
    if body.len() > MAX_BODY {
        fields.refuse("body", "The body is larger than 1 MiB.");
        return None;
    }
    Some(body.to_owned())
}

/// A sentence when this header cannot be sent.
fn header_refusal(name: &str, value: &str) -> Option<String> {
    if !is_token(name) || name.len() > 100 {
        return Some(format!(
            "{} is not a header name: letters, digits and hyphens, without a colon.",
            shown(name)
        ));
    }
    if value.len() > MAX_HEADER_VALUE {
        return Some(format!(
            "The value of {name} is longer than {MAX_HEADER_VALUE} characters."
        ));
    }
    if !value
        .bytes()
        .all(|byte| matches!(byte, b' '..=b'~' | b'\t'))
    {
        return Some(format!(
            "The value of {name} holds a line break, a control character or a character outside ASCII."
        ));
    }
    match name.to_ascii_lowercase().as_str() {
        "content-length" | "transfer-encoding" | "trailer" => Some(format!(
            "{name} follows from the body and cannot be set: leave it out."
        )),
        "upgrade" => Some(
            "Upgrade would leave HTTP/1.1, which is all that is measured here: leave it out."
                .to_owned(),
        ),
        "host" if value.is_empty() || value.contains([' ', '\t', ',', '/', '@']) => {
            Some("Host must be one host name or address, with a port where needed.".to_owned())
        }
        "connection"
            if !value.eq_ignore_ascii_case("close")
                && !value.eq_ignore_ascii_case("keep-alive") =>
        {
            Some("Connection can be close or keep-alive.".to_owned())
        }
        _ => None,
    }
}

/// A token of RFC 9110 section 5.6.2.
pub(super) fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

/// Adds `method`, `headers` and `body`; headers and body only where there are any.
pub(super) fn fill_request(
    method: &str,
    headers: &BTreeMap<String, String>,
    body: Option<&str>,
    object: &mut Map<String, Value>,
) {
    object.insert("method".to_owned(), method.into());
    if !headers.is_empty() {
        let headers: Map<String, Value> = headers
            .iter()
            .map(|(name, value)| (name.clone(), value.as_str().into()))
            .collect();
        object.insert("headers".to_owned(), headers.into());
    }
    if let Some(body) = body {
        object.insert("body".to_owned(), body.into());
    }
}
