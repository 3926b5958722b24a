//! Light, dark, or as the browser asks: a cookie, set by a plain form.

use axum::Form;
use axum::extract::rejection::FormRejection;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Redirect, Response};

use crate::dashboard::context::Visit;
use crate::dashboard::frame::Theme;
use crate::dashboard::launch;

/// Answers `POST /theme` and goes back to where the person was.
pub async fn set(
    visit: Visit,
    form: Result<Form<Vec<(String, String)>>, FormRejection>,
) -> Response {
    let values = match launch::read(form) {
        Ok(values) => values,
        Err(trouble) => return trouble.answer(visit.frame()),
    };
    let theme = Theme::from_word(values.get("theme").map_or("", String::as_str));
    let back = values.get("back").map_or("/", String::as_str);
    let mut answer = Redirect::to(local(back)).into_response();
    let cookie = match theme {
        Theme::System => "theme=; Path=/; Max-Age=0; SameSite=Strict; HttpOnly",
        Theme::Dark => "theme=dark; Path=/; Max-Age=31536000; SameSite=Strict; HttpOnly",
        Theme::Light => "theme=light; Path=/; Max-Age=31536000; SameSite=Strict; HttpOnly",
    };
    answer
        .headers_mut()
        .insert(header::SET_COOKIE, HeaderValue::from_static(cookie));
    answer
}

/// Only a path on this server is gone back to.
pub(super) fn local(back: &str) -> &str {
    let plain = back.starts_with('/')
        && !back.starts_with("//")
        && back.len() < 2000
        && back
            .bytes()
            .all(|byte| (b'!'..=b'~').contains(&byte) && byte != b'\\');
    if plain { back } else { "/" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_sent_to_another_server() {
        assert_eq!(local("/runs?tag=a%20b"), "/runs?tag=a%20b");
        for back in [
            "//evil.example",
            "/\\evil.example",
            "https://evil.example",
            "",
            "/a\r\nX: y",
        ] {
            assert_eq!(local(back), "/", "{back:?}");
        }
    }
}
