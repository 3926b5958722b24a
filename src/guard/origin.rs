//! Pages of other sites cannot make this browser's user change anything here (CSRF).

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::{HeaderMap, Method, StatusCode, header};

use super::host::Hosts;
use super::{GuardConfig, refuse};

pub(super) async fn same_site(
    State(config): State<Arc<GuardConfig>>,
    request: Request,
    next: Next,
) -> Response {
    let safe = matches!(*request.method(), Method::GET | Method::HEAD);
    if safe || is_own(request.headers(), &config.hosts) {
        return next.run(request).await;
    }
    refuse(
        StatusCode::FORBIDDEN,
        "This request came from a page of another site, so nothing was changed. Open this dashboard's own page and try again.",
        request.headers(),
        request.uri().path(),
    )
}

/// Whether a request that changes something comes from our own pages, or from no browser at all.
fn is_own(headers: &HeaderMap, hosts: &Hosts) -> bool {
    let site = headers.get("sec-fetch-site");
    let origin = headers.get(header::ORIGIN);
    if site.is_none() && origin.is_none() {
        // Browsers send at least one of the two; what sends neither, and no cookie, is a script.
        return !headers.contains_key(header::COOKIE);
    }
    let mut both = headers.get_all(header::ORIGIN).iter().skip(1).count() == 0
        && headers.get_all("sec-fetch-site").iter().skip(1).count() == 0;
    if let Some(site) = site {
        // `none`: the person's own doing, not a page's.
        both &= matches!(site.as_bytes(), b"same-origin" | b"none");
    }
    if let Some(origin) = origin {
        both &= origin
            .to_str()
            .is_ok_and(|origin| is_own_origin(origin, headers, hosts));
    }
    both
}

/// The origin's host and port must be those that the request itself was sent to, or the public URL's.
fn is_own_origin(origin: &str, headers: &HeaderMap, hosts: &Hosts) -> bool {
    if hosts.is_public_origin(origin) {
        return true;
    }
    let Some(host) = headers
        .get(header::HOST)
        .and_then(|host| host.to_str().ok())
    else {
        return false;
    };
    [("http://", ":80"), ("https://", ":443")]
        .into_iter()
        .any(|(scheme, default_port)| {
            origin.strip_prefix(scheme).is_some_and(|authority| {
                let bare = |text: &str| {
                    text.strip_suffix(default_port)
                        .unwrap_or(text)
                        .to_ascii_lowercase()
                };
                bare(authority) == bare(host)
            })
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_come_from_own_pages_or_from_scripts() {
        let hosts = Hosts::new(
            &["127.0.0.1:8080".parse().unwrap()],
            &[],
            Some(&"https://tidemark.example".parse().unwrap()),
        );
        let check = |given: &[(&'static str, &'static str)], expected: bool| {
            let mut headers = HeaderMap::new();
            headers.insert("host", "127.0.0.1:8080".parse().unwrap());
            for (name, value) in given {
                headers.append(*name, value.parse().unwrap());
            }
            assert_eq!(is_own(&headers, &hosts), expected, "{given:?}");
        };
        let own = "http://127.0.0.1:8080";
        check(&[], true);
        check(&[("cookie", "a=b")], false);
        check(&[("origin", own)], true);
        check(&[("origin", own), ("cookie", "a=b")], true);
        check(&[("origin", "https://127.0.0.1:8080")], true);
        check(&[("origin", "https://tidemark.example")], true);
        check(&[("sec-fetch-site", "same-origin")], true);
        check(&[("sec-fetch-site", "none")], true);
        check(&[("sec-fetch-site", "same-origin"), ("origin", own)], true);
        for origin in [
            "null",
            "",
            "http://127.0.0.1:8000",
            "http://127.0.0.1",
            "http://localhost:8080",
            "http://evil.example",
            "http://evil.example:8080",
            "http://127.0.0.1:8080.evil.example",
            "http://tidemark.example",
            "https://tidemark.example.evil.example",
            "ftp://127.0.0.1:8080",
            "127.0.0.1:8080",
            "http://127.0.0.1:8080/",
        ] {
            check(&[("origin", origin)], false);
            check(
                &[("origin", origin), ("sec-fetch-site", "same-origin")],
                false,
            );
        }
        for site in ["cross-site", "same-site", "", "SAME-ORIGIN?"] {
            check(&[("sec-fetch-site", site)], false);
            check(&[("sec-fetch-site", site), ("origin", own)], false);
        }
        check(&[("origin", own), ("origin", "http://evil.example")], false);
        check(
            &[
                ("sec-fetch-site", "same-origin"),
                ("sec-fetch-site", "cross-site"),
            ],
            false,
        );
    }
}
