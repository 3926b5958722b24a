//! Reports of other tools, posted as they were printed.

use axum::Json;
use axum::body::to_bytes;
use axum::extract::{Request, State as Shared};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::body;
use super::problem::{Answer, Problem};
use super::{Api, actor};
use crate::report::import;
use crate::store::Importer;

/// `POST /api/import`
pub(super) async fn import(Shared(api): Shared<Api>, request: Request) -> Answer<Response> {
    let mut by = Importer {
        actor: actor(&request),
        ..Importer::default()
    };
    for (name, value) in body::query(&request, &["note", "tags"])? {
        if name == "note" {
            by.note = value;
        } else {
            let tags = value
                .split(',')
                .map(str::trim)
                .filter(|tag| !tag.is_empty());
            by.tags = tags.map(str::to_owned).collect();
        }
    }
    if request.headers().contains_key(header::CONTENT_ENCODING) {
        return Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "The text is read as it is: send it without Content-Encoding.",
        ));
    }
    let bytes = to_bytes(request.into_body(), import::LONGEST)
        .await
        .map_err(|_| {
            Problem::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "The text is longer than 8 MiB, or ended early.",
            )
        })?;
    let imports = read(bytes.to_vec()).await?;
    let runs = api.state.supervisor.import(imports, by).await?;
    let Some(first) = runs.first() else {
        return Err(Problem::malformed("The text holds no report."));
    };
    let location = format!("/api/runs/{}", first.id);
    let ids: Vec<i64> = runs.iter().map(|run| run.id).collect();
    let mut answer = serde_json::to_value(first).unwrap_or_default();
    if let Value::Object(run) = &mut answer {
        run.insert("imported_runs".to_owned(), json!(ids));
    }
    Ok((
        StatusCode::CREATED,
        [(header::LOCATION, location)],
        Json(answer),
    )
        .into_response())
}

/// The reports of a text; reading takes CPU, so it is done beside the other calls.
async fn read(bytes: Vec<u8>) -> Answer<Vec<import::Import>> {
    let reading = tokio::task::spawn_blocking(move || {
        import::text_of(bytes)
            .and_then(|text| import::read(&text))
            .map_err(|error| Problem::field("text", error.message))
    });
    reading.await.unwrap_or_else(|_| {
        Err(Problem::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "Reading the text broke off.",
        ))
    })
}
