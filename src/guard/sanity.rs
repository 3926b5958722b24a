//! Requests that no honest client sends: refused before anything else looks at them.

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use http::{HeaderValue, Method, StatusCode, Version, header};

use super::{refuse, refuse_and_close};

/// What the dashboard understands.
pub(super) const METHODS: &str = "GET, HEAD, POST, PATCH, DELETE";

/// Longest path and query, in bytes.
const LONGEST_URI: usize = 8 * 1024;

/// The one Host of a request; only before HTTP/1.1 it may be missing (RFC 9112, 3.2).
fn one_host(request: &Request) -> Result<Option<&HeaderValue>, &'static str> {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(host), None) => Ok(Some(host)),
        (None, _) if request.version() < Version::HTTP_11 => Ok(None),
        (None, _) => Err("The request names no Host."),
        (Some(_), Some(_)) => Err("The request names more than one Host."),
    }
}

/// For the workload, which answers whatever name it is asked for, but one name only.
pub(super) async fn check_host(request: Request, next: Next) -> Response {
    match one_host(&request) {
        Ok(_) => next.run(request).await,
        Err(sentence) => refuse_and_close(
            StatusCode::BAD_REQUEST,
            sentence,
            request.headers(),
            request.uri().path(),
        ),
    }
}

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
    let host = match one_host(&request) {
        Ok(host) => host,
        Err(sentence) => return bad(sentence),
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

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use tower::ServiceExt;

    use super::*;

    #[tokio::test]
    async fn the_workload_answers_any_host_but_exactly_one() {
        let router = super::super::one_host(axum::Router::new().fallback(|| async { "ok" }));
        for (version, hosts, status) in [
            (Version::HTTP_11, &["a.example"][..], 200),
            (Version::HTTP_11, &[], 400),
            (Version::HTTP_11, &["a", "a"], 400),
            (Version::HTTP_10, &[], 200),
            (Version::HTTP_10, &["a", "b"], 400),
        ] {
            let mut request = Request::builder().version(version);
            for host in hosts {
                request = request.header(header::HOST, *host);
            }
            let request = request.body(Body::empty()).unwrap();
            let response = router.clone().oneshot(request).await.unwrap();
            assert_eq!(response.status(), status, "{version:?} {hosts:?}");
            let closes = response.headers().contains_key(header::CONNECTION);
            assert_eq!(closes, status == 400);
        }
    }
}
