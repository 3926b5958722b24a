//! The description of the API (OpenAPI 3.1), made from the same table as the router.

use axum::Json;
use axum::extract::State as Shared;
use serde_json::{Map, Value, json};

use super::{Api, Call};

/// `GET /api/openapi.json`
pub(super) async fn show(Shared(api): Shared<Api>) -> Json<Value> {
    Json(Value::clone(&api.description))
}

/// The description of these calls.
pub(super) fn describe(calls: &[Call]) -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for call in calls {
        let path = paths.entry(call.path).or_insert_with(|| json!({}));
        path[call.method.to_lowercase()] = operation(call);
    }
    let schemas: Value = serde_json::from_str(include_str!("schemas.json")).unwrap_or_default();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Tidemark",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "Measures web servers and keeps what it found.",
            "description": "Errors are problem+json (RFC 9457). Times are RFC 3339 UTC; durations, sizes and rates carry their unit in the key.",
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        // Without a token where the dashboard asks for none.
        "security": [{"token": []}, {}],
    })
}

/// Bodies that say nothing that has no default.
const MAY_BE_LEFT_OUT: [&str; 2] = ["NewSelfTest", "NewFirstMinute"];

fn operation(call: &Call) -> Value {
    let mut parameters: Vec<Value> = call
        .path
        .split('/')
        .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
        .map(|name| {
            let kind = if name == "id" { "integer" } else { "string" };
            json!({"name": name, "in": "path", "required": true, "schema": {"type": kind}})
        })
        .collect();
    for (name, meaning) in call.query {
        let kind = match *name {
            "limit" | "before" => "integer",
            "baseline" => "boolean",
            _ => "string",
        };
        parameters.push(
            json!({"name": name, "in": "query", "description": meaning, "schema": {"type": kind}}),
        );
    }
    if call.path.ends_with("}/events") {
        parameters.push(json!({
            "name": "Last-Event-ID", "in": "header", "schema": {"type": "integer"},
            "description": "The last event that was seen; the stream goes on after it.",
        }));
    }
    let (status, media, schema) = call.reply;
    let mut responses = Map::new();
    let mut reply = json!({ "description": title(status) });
    if !media.is_empty() {
        let content = schema.map_or_else(|| json!({}), |name| json!({"schema": reference(name)}));
        reply["content"] = json!({ media: content });
    }
    if status == 201 {
        reply["headers"] =
            json!({"Location": {"schema": {"type": "string"}, "description": "Where it is."}});
    }
    responses.insert(status.to_string(), reply);
    for fault in call.faults {
        let mut response = json!({ "description": title(*fault) });
        if *fault >= 400 {
            response["content"] =
                json!({"application/problem+json": {"schema": reference("Problem")}});
        }
        responses.insert(fault.to_string(), response);
    }
    let mut operation = json!({
        "operationId": operation_id(call),
        "summary": call.summary,
        "parameters": parameters,
        "responses": responses,
    });
    if let Some(name) = call.body {
        let media = if name == "ImportedText" {
            "text/plain"
        } else {
            "application/json"
        };
        operation["requestBody"] = json!({
            "required": !MAY_BE_LEFT_OUT.contains(&name),
            "content": {media: {"schema": reference(name)}},
        });
    }
    operation
}

fn reference(schema: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{schema}")})
}

/// `GET /api/runs/{id}/events` → `get_runs_id_events`.
fn operation_id(call: &Call) -> String {
    let words = call.path.trim_start_matches("/api").split(['/', '.']);
    let words: Vec<&str> = words
        .map(|word| word.trim_matches(['{', '}']))
        .filter(|word| !word.is_empty())
        .collect();
    format!("{}_{}", call.method.to_lowercase(), words.join("_"))
}

fn title(status: u16) -> &'static str {
    axum::http::StatusCode::from_u16(status)
        .ok()
        .and_then(|status| status.canonical_reason())
        .unwrap_or("Reply")
}
