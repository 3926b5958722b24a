//! How much a request may hold, and for how long.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::{StatusCode, header};
use http_body::{Frame, SizeHint};
use http_body_util::Limited;

use super::{BODY_LIMIT, GuardConfig, IMPORT_LIMIT, refuse, refuse_and_close};

/// Refuses a body that says it is too long, and ends one that turns out to be.
pub(super) async fn limit_body(request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let limit = if path == "/api/import" {
        IMPORT_LIMIT
    } else if path == "/runs/import" {
        // The same text, and the rest of its form.
        IMPORT_LIMIT + BODY_LIMIT
    } else {
        BODY_LIMIT
    };
    let stated = request
        .headers()
        .get(header::CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok())
        .and_then(|length| length.parse::<u64>().ok());
    if stated.is_some_and(|length| length > limit as u64) {
        return refuse_and_close(
            StatusCode::PAYLOAD_TOO_LARGE,
            &format!("The request body is larger than {} KiB.", limit / 1024),
            request.headers(),
            path,
        );
    }
    next.run(request.map(|body| Body::new(Limited::new(body, limit))))
        .await
}

/// Ends a handler that does not begin its reply in time, and says whether it waited for the body.
pub(super) async fn bound(
    State(config): State<Arc<GuardConfig>>,
    request: Request,
    next: Next,
) -> Response {
    let whole = Arc::new(AtomicBool::new(false));
    let seconds = config.handler_limit.as_secs_f64();
    let (headers, path) = (request.headers().clone(), request.uri().path().to_owned());
    let request = request.map(|body| {
        whole.store(http_body::Body::is_end_stream(&body), Relaxed);
        Body::new(Noted {
            body,
            whole: Arc::clone(&whole),
        })
    });
    match tokio::time::timeout(config.handler_limit, next.run(request)).await {
        Ok(response) => response,
        Err(_) if whole.load(Relaxed) => refuse(
            StatusCode::SERVICE_UNAVAILABLE,
            &format!("The answer took longer than {seconds} s; try again in a moment."),
            &headers,
            &path,
        ),
        Err(_) => refuse_and_close(
            StatusCode::REQUEST_TIMEOUT,
            &format!("The request body did not arrive within {seconds} s."),
            &headers,
            &path,
        ),
    }
}

/// A body that notes when it has been read to its end.
struct Noted {
    body: Body,
    whole: Arc<AtomicBool>,
}

impl http_body::Body for Noted {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::BoxError>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if matches!(frame, Poll::Ready(None)) || self.body.is_end_stream() {
            self.whole.store(true, Relaxed);
        }
        // Wrapped once only, so that extractors still see when it was the limit that ended the body.
        frame.map_err(axum::Error::into_inner)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
