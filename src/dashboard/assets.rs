//! The style sheet, the script and the mark, compiled in and named by their content, so that browsers may keep them for a year.

use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

/// The one style sheet.
pub const STYLE: &str = include_str!("../../static/app.css");
/// The one script.
const SCRIPT: &str = include_str!("../../static/live.js");
/// The mark in the browser's tab.
const MARK: &str = include_str!("../../static/favicon.svg");

/// Where the pages find the style sheet.
pub fn style_path() -> String {
    path("app", STYLE, "css")
}

/// Where the pages find the script.
pub fn script_path() -> String {
    path("live", SCRIPT, "js")
}

/// Where the pages find the mark.
pub fn mark_path() -> String {
    path("favicon", MARK, "svg")
}

/// Answers `GET /static/{name}`: only the present names exist.
pub async fn serve(Path(name): Path<String>) -> Response {
    let asked = format!("/static/{name}");
    let found = [
        (style_path(), STYLE, "text/css; charset=utf-8"),
        (script_path(), SCRIPT, "text/javascript; charset=utf-8"),
        (mark_path(), MARK, "image/svg+xml"),
    ]
    .into_iter()
    .find(|(path, ..)| *path == asked);
    match found {
        Some((_, text, kind)) => (
            [
                (header::CONTENT_TYPE, kind),
                (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
            ],
            text,
        )
            .into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

fn path(stem: &str, text: &str, ending: &str) -> String {
    format!("/static/{stem}-{:016x}.{ending}", hash(text.as_bytes()))
}

/// FNV-1a, 64 bits: names contents, secures nothing.
pub fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn present_names_are_served_for_a_year_and_others_do_not_exist() {
        let name = style_path().strip_prefix("/static/").unwrap().to_owned();
        let answer = serve(Path(name)).await;
        assert_eq!(answer.status(), StatusCode::OK);
        assert!(
            answer.headers()[header::CACHE_CONTROL]
                .to_str()
                .unwrap()
                .contains("immutable")
        );
        for name in ["app.css", "../Cargo.toml", "app-0.css"] {
            assert_eq!(
                serve(Path(name.to_owned())).await.status(),
                StatusCode::NOT_FOUND
            );
        }
    }

    #[test]
    fn both_dark_blocks_of_the_style_sheet_are_equal() {
        let roles = |from: &str| {
            let start = STYLE.find(from).unwrap() + from.len();
            let end = start + STYLE[start..].find('}').unwrap();
            STYLE[start..end].to_owned()
        };
        assert_eq!(
            roles("[data-theme=dark],[data-theme=dark] .band{"),
            roles(":root:not([data-theme]),:root:not([data-theme]) .band{")
        );
    }
}
