//! The picture on the home page, drawn once by the workload's own code.

use axum::extract::State as Shared;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::state::AppState;

/// Where the page finds it.
pub const PATH: &str = "/static/mandelbrot.png";

/// Answers `GET /static/mandelbrot.png`.
pub async fn serve(Shared(state): Shared<AppState>) -> Response {
    match state.picture().await {
        Some(png) => (
            [
                (header::CONTENT_TYPE, "image/png"),
                (header::CACHE_CONTROL, "public, max-age=86400"),
            ],
            png,
        )
            .into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}
