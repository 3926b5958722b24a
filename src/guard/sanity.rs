//! Requests that no honest client sends: refused before anything else looks at them.

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use http::{Method, StatusCode, Version, header};

use super::{refuse, refuse_and_close};

/// What the dashboard understands.
pub(super) const METHODS: &str = "GET, HEAD, POST, PATCH, DELETE";

/// Longest path and query, in bytes.
const LONGEST_URI: usize = 8 * 1024;

pub(super) async fn check(request: Request, next: Next) -> Response {
    let headers = request.headers();
    let uri = request.uri();
    let path = uri.path();
    let bad = |sentence| refuse_and_close(StatusCode::BAD_REQUEST, sentence, headers, path);
    let length = uri.path_and_query().map_or(0, |part| part.as_str().len());
    if length > LONGEST_URI {
        return refuse_and_close(
            StatusCode::URI_TOO_LONG,
            "This address is longer than 8 KiB.",
            headers,
            path,
        );
    }
    if !matches!(
        *request.method(),
        Method::GET | Method::HEAD | Method::POST | Method::PATCH | Method::DELETE
    ) {
        return refuse_and_close(
            StatusCode::METHOD_NOT_ALLOWED,
            "The dashboard understands GET, HEAD, POST, PATCH and DELETE.",
            headers,
            path,
        );
    }
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = match (hosts.next(), hosts.next()) {
        (Some(host), None) => Some(host),
        (None, _) if request.version() < Version::HTTP_11 => None,
        (None, _) => return bad("The request names no Host."),
        (Some(_), Some(_)) => return bad("The request names more than one Host."),
    };
    if let Some(authority) = uri.authority() {
        let same = host.is_some_and(|host| {
            host.as_bytes()
                .eq_ignore_ascii_case(authority.as_str().as_bytes())
        });
        if !same {
            return bad("The request's address and its Host differ.");
        }
    }
    if headers.contains_key(header::CONTENT_LENGTH)
        && headers.contains_key(header::TRANSFER_ENCODING)
    {
        return bad("The request states its length in two ways.");
    }
    if let Some(encoding) = headers.get(header::CONTENT_ENCODING)
        && !encoding.as_bytes().eq_ignore_ascii_case(b"identity")
    {
        return refuse(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "Compressed request bodies are not read; send it plain.",
            headers,
            path,
        );
    }
    next.run(request).await
}
