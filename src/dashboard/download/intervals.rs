//! `intervals.csv` and `intervals.json` of a run as a stream: read from the notebook in chunks, never all at once.

use axum::response::Response;

use crate::dashboard::download;
use crate::dashboard::download::requests::{Form, channel};
use crate::dashboard::error::Trouble;
use crate::measure::fold::Interval;
use crate::measure::run::Run;
use crate::measure::summary::Summary;
use crate::report;
use crate::state::AppState;

/// Rows read at a time.
const ROWS_AT_A_TIME: usize = 1_000;

/// The rows of this run, as many as there are now.
pub(super) async fn stream(state: &AppState, run: &Run, form: Form) -> Result<Response, Trouble> {
    if let Some(Summary::Path(summary)) = &run.summary {
        let text = match form {
            Form::Csv(options) => report::intervals_csv(run, &[], options).unwrap_or_default(),
            Form::Json => {
                let rows = serde_json::json!(summary.probes);
                format!("{}{rows}}}\n", json_head(run.id, summary.probes.len()))
            }
        };
        return Ok(answer(run.id, form, text, summary.probes.len()));
    }
    let id = run.id;
    let read = |error| Trouble::storage(&error);
    let count = state.store.intervals_count(id).await.map_err(read)?;
    let total = usize::try_from(count).unwrap_or(usize::MAX);
    let store = state.store.clone();
    let first = store
        .rows_of(run, 0, total.min(ROWS_AT_A_TIME))
        .await
        .map_err(read)?;
    let mut text = match form {
        Form::Csv(options) => {
            report::intervals_csv(run, &first, options).ok_or_else(|| download::no_figures(run))?
        }
        Form::Json => format!("{}[{}", json_head(id, total), written(&first, form, 0)?),
    };
    let (sender, body) = channel();
    let run = run.clone();
    tokio::spawn(async move {
        let mut seen = first.len();
        let fault = loop {
            if sender
                .send(Ok(std::mem::take(&mut text).into()))
                .await
                .is_err()
            {
                return;
            }
            if seen >= total {
                break None;
            }
            let next = ROWS_AT_A_TIME.min(total - seen);
            text = match store.rows_of(&run, seen, next).await {
                // Deleted meanwhile: a short file would look whole.
                Ok(rows) if rows.is_empty() => break Some("rows are missing".to_owned()),
                Ok(rows) => match written(&rows, form, seen) {
                    Ok(more) => {
                        seen += rows.len();
                        more
                    }
                    Err(_) => break Some("a row cannot be written".to_owned()),
                },
                Err(error) => break Some(error.to_string()),
            };
        };
        let _ = match (fault, form) {
            (Some(fault), _) => sender.send(Err(std::io::Error::other(fault))).await,
            (None, Form::Json) => sender.send(Ok("]}\n".into())).await,
            (None, Form::Csv(_)) => Ok(()),
        };
    });
    Ok(answer(id, form, body, total))
}

fn json_head(id: i64, total: usize) -> String {
    format!("{{\"run\":{id},\"total_rows\":{total},\"rows\":")
}

/// Rows after the first `before` ones.
fn written(rows: &[Interval], form: Form, before: usize) -> Result<String, Trouble> {
    match form {
        Form::Csv(options) => Ok(rows
            .iter()
            .map(|row| report::intervals_row(row, options))
            .collect()),
        Form::Json => {
            let mut text = String::new();
            for (place, row) in rows.iter().enumerate() {
                if before + place > 0 {
                    text.push(',');
                }
                let object =
                    serde_json::to_string(row).map_err(|error| Trouble::storage(&error))?;
                text.push_str(&object);
            }
            Ok(text)
        }
    }
}

fn answer(id: i64, form: Form, body: impl Into<axum::body::Body>, total: usize) -> Response {
    let (name, kind) = match form {
        Form::Csv(_) => ("intervals.csv", download::CSV),
        Form::Json => ("intervals.json", download::JSON),
    };
    let mut answer = download::attached(id, name, kind, body);
    download::total(&mut answer, total as u64);
    answer
}
