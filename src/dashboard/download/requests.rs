//! The kept requests of a run as a stream: read from the notebook in chunks, written in pieces of about 64 KiB.

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use serde_json::json;
use tokio::sync::mpsc;

use crate::dashboard::download;
use crate::dashboard::error::Trouble;
use crate::measure::rows;
use crate::measure::run::Run;
use crate::measure::sample::RequestSample;
use crate::measure::summary::Summary;
use crate::report::csv::{self, Options};
use crate::state::AppState;
use crate::store::SampleChunk;

/// Bytes in one piece.
const PIECE: usize = 64 << 10;

/// How the rows are written.
#[derive(Clone, Copy, Debug)]
pub enum Form {
    /// RFC 4180.
    Csv(Options),
    /// One object with the rows in it.
    Json,
}

/// A piece of the body, or the fault that breaks it off.
type Piece = Result<Bytes, std::io::Error>;

/// A body that is written while it is sent; the sender fails once the client is gone.
pub fn channel() -> (mpsc::Sender<Piece>, Body) {
    let (sender, receiver) = mpsc::channel::<Piece>(2);
    let stream = futures_util::stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|piece| (piece, receiver))
    });
    (sender, Body::from_stream(stream))
}

/// `requests.csv` or `requests.json` of this run.
pub async fn stream(state: &AppState, run: &Run, form: Form) -> Result<Response, Trouble> {
    let id = run.id;
    let first = state
        .store
        .rows(id, 0)
        .await
        .map_err(|error| Trouble::storage(&error))?;
    let kept = state
        .store
        .rows_count(id)
        .await
        .map_err(|error| Trouble::storage(&error))?;
    let total = ended(run).max(kept);
    let (sender, body) = channel();
    let store = state.store.clone();
    tokio::spawn(async move {
        let mut chunk = first;
        let mut text = match form {
            Form::Csv(options) => csv::requests_header(options),
            Form::Json => {
                format!("{{\"run\":{id},\"total_rows\":{total},\"kept_rows\":{kept},\"rows\":[")
            }
        };
        let mut begun = false;
        loop {
            let next = chunk.next;
            let pipe = sender.clone();
            let written =
                tokio::task::spawn_blocking(move || write(&pipe, id, form, &chunk, text, begun))
                    .await;
            match written {
                Ok(Some(rest)) => (text, begun) = rest,
                Ok(None) => return,
                Err(error) => {
                    let _ = sender.send(Err(std::io::Error::other(error))).await;
                    return;
                }
            }
            let Some(from) = next else { break };
            match store.rows(id, from).await {
                Ok(more) => chunk = more,
                Err(error) => {
                    let _ = sender.send(Err(std::io::Error::other(error))).await;
                    return;
                }
            }
        }
        if matches!(form, Form::Json) {
            text.push_str("]}\n");
        }
        let _ = sender.send(Ok(text.into())).await;
    });
    let (name, kind) = match form {
        Form::Csv(_) => ("requests.csv", download::CSV),
        Form::Json => ("requests.json", download::JSON),
    };
    let mut answer = download::attached(id, name, kind, body);
    download::total(&mut answer, total);
    Ok(answer)
}

/// Writes one chunk; gives back what is not yet a whole piece, or `None` once nobody reads.
fn write(
    pipe: &mpsc::Sender<Piece>,
    id: i64,
    form: Form,
    chunk: &SampleChunk,
    mut text: String,
    mut begun: bool,
) -> Option<(String, bool)> {
    for sample in chunk.rows.iter().flat_map(|blob| rows::decode(blob)) {
        let sample = match sample {
            Ok(sample) => sample,
            Err(error) => {
                // A short file would look whole; a broken one does not.
                let fault = std::io::Error::other(format!("{error:?}"));
                let _ = pipe.blocking_send(Err(fault));
                return None;
            }
        };
        match form {
            Form::Csv(options) => text.push_str(&csv::requests_row(id, &sample, options)),
            Form::Json => {
                if begun {
                    text.push(',');
                }
                text.push_str(&object(id, &sample));
            }
        }
        begun = true;
        if text.len() >= PIECE {
            let piece = std::mem::replace(&mut text, String::with_capacity(PIECE + 512));
            pipe.blocking_send(Ok(piece.into())).ok()?;
        }
    }
    Some((text, begun))
}

/// A row as JSON, under the names of the CSV's columns.
fn object(id: i64, sample: &RequestSample) -> String {
    let ms = |time: std::time::Duration| time.as_nanos() as f64 / 1e6;
    let seconds = |time: std::time::Duration| time.as_nanos() as f64 / 1e9;
    json!({
        "run": id,
        "seq": sample.seq,
        "scheduled_s": seconds(sample.scheduled),
        "started_s": sample.started.map(seconds),
        "lateness_ms": sample.lateness().map(ms),
        "connect_ms": sample.connect.map(ms),
        "first_byte_ms": sample.first_byte.map(ms),
        "service_time_ms": sample.service_time().map(ms),
        "latency_ms": ms(sample.latency()),
        "status": sample.status,
        "bytes": sample.content_bytes,
        "outcome": sample.outcome.key(),
        "served_by": sample.served_by.as_deref(),
        "region": sample.region.as_deref(),
    })
    .to_string()
}

/// How many requests there were, kept or not.
fn ended(run: &Run) -> u64 {
    match &run.summary {
        Some(Summary::Rate(figures)) => figures.outcomes.values().sum(),
        Some(Summary::Users(figures)) => figures.outcomes.values().sum(),
        Some(Summary::Fetch(_)) => 1,
        _ => 0,
    }
}
