//! What the dashboard refuses, on real sockets: malformed requests, foreign hosts and origins, too much, too slow.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::routing::{any, get, post};
use tidemark::guard::{GuardConfig, secure};
use tidemark::serve::ServeLimits;

use crate::support::raw::{Raw, exchange, status_of};
use crate::support::server::Server;

fn guarded(limit: Duration) -> Server {
    let bound: [SocketAddr; 1] = ["127.0.0.1:8080".parse().unwrap()];
    let mut config = GuardConfig::new(&bound, &["bench.lan".to_owned()], None);
    config.handler_limit = limit;
    let router = Router::new()
        .route("/", any(async || "page"))
        .route("/healthz", get(async || "ok"))
        .route("/body", post(async |body: Bytes| body.len().to_string()))
        .route(
            "/api/import",
            post(async |body: Bytes| body.len().to_string()),
        )
        .route("/unread", post(async || "unread"))
        .route("/stuck", get(std::future::pending::<String>))
        .route("/panic", get(async || -> String { panic!("on purpose") }));
    Server::start(secure(router, config), ServeLimits::dashboard(), None)
}

const PATIENT: Duration = Duration::from_mins(10);

#[test]
fn malformed_requests_get_one_refusal_and_a_closed_connection() {
    let server = guarded(PATIENT);
    let long_path = format!(
        "GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "a".repeat(9000)
    );
    let many_headers = format!(
        "GET / HTTP/1.1\r\nHost: localhost\r\n{}\r\n",
        "X: y\r\n".repeat(150)
    );
    let long_header = format!(
        "GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n",
        "a".repeat(30_000)
    );
    let body = "\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let start = "POST / HTTP/1.1\r\nHost: localhost\r\n";
    let with = |headers: &str| format!("{start}{headers}{body}");
    let corpus: Vec<(String, u16)> = vec![
        ("GET / HTTP/1.1\r\n\r\n".into(), 400),
        (
            "GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n".into(),
            400,
        ),
        (
            "GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n".into(),
            400,
        ),
        (
            "GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\n\r\n".into(),
            400,
        ),
        (
            "GET http://localhost:1/ HTTP/1.1\r\nHost: localhost\r\n\r\n".into(),
            400,
        ),
        (with("Content-Length: 5\r\nTransfer-Encoding: chunked"), 400),
        (with("Transfer-Encoding: chunked\r\nContent-Length: 5"), 400),
        (with("Content-Length: 5\r\nContent-Length: 5"), 400),
        (with("Content-Length: 5\r\nContent-Length: 6"), 400),
        (with("Content-Length: 5, 5"), 400),
        (with("Content-Length: +5"), 400),
        (with("Content-Length: -5"), 400),
        (with("Content-Length: 0x5"), 400),
        (with("Content-Length: 99999999999999999999999"), 400),
        (with("Content-Length:"), 400),
        (
            with("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"),
            400,
        ),
        (with("Transfer-Encoding: gzip, chunked"), 400),
        (with("Transfer-Encoding: xchunked"), 400),
        (with("Transfer-Encoding : chunked"), 400),
        (with("X: a\r\n folded"), 400),
        (
            "POST / HTTP/1.0\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
                .into(),
            400,
        ),
        ("GET / HTTP/1.1\nHost: localhost\n\n".into(), 400),
        ("GET / HTTP/1.1\r\nHost: local\0host\r\n\r\n".into(), 400),
        (
            "\u{16}\u{3}\u{1}\u{2}\0\u{1}\0\u{1}\u{fc}\u{3}\u{3}\r\n\r\n".into(),
            400,
        ),
        ("GET / HTTP/9.9\r\nHost: localhost\r\n\r\n".into(), 400),
        ("TRACE / HTTP/1.1\r\nHost: localhost\r\n\r\n".into(), 405),
        ("OPTIONS / HTTP/1.1\r\nHost: localhost\r\n\r\n".into(), 405),
        ("BREW / HTTP/1.1\r\nHost: localhost\r\n\r\n".into(), 405),
        (long_path, 414),
        (many_headers, 431),
        (long_header, 431),
    ];
    for (request, expected) in corpus {
        let text = exchange(server.address, &request);
        let shown = &request[..request.len().min(120)];
        assert_eq!(status_of(&text), expected, "{shown:?}: {text}");
        assert_eq!(text.matches("HTTP/1.1 ").count(), 1, "{shown:?}: {text}");
    }
}

#[test]
fn a_malformed_request_behind_a_good_one_is_refused_after_it() {
    let server = guarded(PATIENT);
    let text = exchange(
        server.address,
        "GET / HTTP/1.1\r\nHost: localhost\r\n\r\nPOST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc",
    );
    assert_eq!(text.matches("HTTP/1.1 200").count(), 1, "{text}");
    assert_eq!(text.matches("HTTP/1.1 400").count(), 1, "{text}");
}

#[test]
fn http_2_is_not_spoken() {
    let server = guarded(PATIENT);
    let text = exchange(server.address, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    assert!(text.is_empty() || status_of(&text) == 400, "{text}");
}

#[test]
fn a_chunked_body_is_read_and_its_connection_closed() {
    let server = guarded(PATIENT);
    let text = exchange(
        server.address,
        "POST /body HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    );
    assert_eq!(status_of(&text), 200);
    assert!(text.ends_with("\r\n\r\n3"), "{text}");
}

#[test]
fn unknown_hosts_are_told_the_flag_and_health_answers_anyway() {
    let server = guarded(PATIENT);
    let ask = |path: &str, host: &str| {
        Raw::connect(server.address)
            .send(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"))
            .reply()
    };
    for host in [
        "localhost",
        "LOCALHOST:8080",
        "127.0.0.1:1",
        "[::1]:80",
        "bench.lan",
    ] {
        assert_eq!(ask("/", host).status(), 200, "{host}");
    }
    for host in [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.nip.io",
        "localhost.",
    ] {
        let reply = ask("/", host);
        assert_eq!(reply.status(), 421, "{host}");
        assert_eq!(
            reply.body.trim(),
            format!(
                "This server does not answer for host {host}. Start it with --allow-host {host}."
            )
        );
        let health = ask("/healthz", host);
        assert_eq!((health.status(), health.body.as_str()), (200, "ok"));
    }
    let problem = ask("/api/runs", "evil.example");
    assert_eq!(
        problem.header("content-type"),
        Some("application/problem+json")
    );
    assert!(problem.body.contains("--allow-host"), "{}", problem.body);
    assert_eq!(
        status_of(&exchange(server.address, "GET / HTTP/1.0\r\n\r\n")),
        400
    );
    assert_eq!(
        status_of(&exchange(server.address, "GET /healthz HTTP/1.0\r\n\r\n")),
        200
    );
}

#[test]
fn pages_of_other_sites_change_nothing() {
    let server = guarded(PATIENT);
    let check = |method: &str, headers: &str, expected: u16| {
        let reply = Raw::connect(server.address)
            .send(format!(
                "{method} / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nContent-Length: 0\r\n{headers}\r\n"
            ))
            .reply();
        assert_eq!(reply.status(), expected, "{method} {headers}");
    };
    for method in ["POST", "PATCH", "DELETE"] {
        check(method, "", 200);
        check(method, "Origin: http://127.0.0.1:8080\r\n", 200);
        check(
            method,
            "Sec-Fetch-Site: same-origin\r\nCookie: a=b\r\n",
            200,
        );
        check(method, "Cookie: a=b\r\n", 403);
        check(method, "Origin: null\r\n", 403);
        check(method, "Origin: http://127.0.0.1:8000\r\n", 403);
        check(method, "Origin: http://evil.example\r\n", 403);
        check(method, "Sec-Fetch-Site: cross-site\r\n", 403);
        check(method, "Sec-Fetch-Site: same-site\r\n", 403);
    }
    check("GET", "Sec-Fetch-Site: cross-site\r\nOrigin: null\r\n", 200);
}

#[test]
fn too_much_and_compressed_bodies_are_refused() {
    let server = guarded(PATIENT);
    let post = |path: &str, headers: &str, body: &[u8]| {
        let mut client = Raw::connect(server.address);
        client.send(format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n"
        ));
        client.send(body);
        client.until_closed()
    };
    let length = |count: usize| format!("Content-Length: {count}\r\n");
    let full = vec![b'x'; 64 * 1024];
    assert_eq!(status_of(&post("/body", &length(full.len()), &full)), 200);
    assert_eq!(
        status_of(&post("/body", &length(full.len() + 1), &full)),
        413
    );
    assert_eq!(
        status_of(&post("/body", "Content-Length: 99999999999\r\n", b"")),
        413
    );
    assert_eq!(
        status_of(&post(
            "/api/import",
            &length(full.len() + 1),
            &[&full[..], b"x"].concat()
        )),
        200
    );
    let mut chunked = Vec::new();
    for _ in 0..5 {
        chunked.extend_from_slice(b"8000\r\n");
        chunked.extend_from_slice(&full[..0x8000]);
        chunked.extend_from_slice(b"\r\n");
    }
    chunked.extend_from_slice(b"0\r\n\r\n");
    assert_eq!(
        status_of(&post("/body", "Transfer-Encoding: chunked\r\n", &chunked)),
        413
    );
    assert_eq!(
        status_of(&post(
            "/body",
            "Content-Encoding: gzip\r\nContent-Length: 3\r\n",
            b"abc"
        )),
        415
    );
    assert_eq!(
        status_of(&post(
            "/body",
            "Content-Encoding: identity\r\nContent-Length: 3\r\n",
            b"abc"
        )),
        200
    );
}

#[test]
fn a_slow_body_and_a_slow_handler_are_ended_apart() {
    let server = guarded(Duration::from_millis(40));
    let text = exchange(
        server.address,
        "POST /body HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nabc",
    );
    assert_eq!(status_of(&text), 408);
    let reply = Raw::connect(server.address)
        .send("GET /stuck HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .reply();
    assert_eq!(reply.status(), 503);
}

#[test]
fn every_reply_tells_browsers_the_rules_and_a_panic_is_one_reply() {
    let server = guarded(PATIENT);
    for (path, host, status) in [
        ("/", "localhost", 200),
        ("/nowhere", "localhost", 404),
        ("/", "evil.example", 421),
        ("/panic", "localhost", 500),
    ] {
        let reply = Raw::connect(server.address)
            .send(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"))
            .reply();
        assert_eq!(reply.status(), status);
        assert_eq!(
            reply.header("content-security-policy"),
            Some(
                "default-src 'none'; style-src 'self'; img-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
            )
        );
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(reply.header("referrer-policy"), Some("same-origin"));
        assert_eq!(reply.header("cache-control"), Some("no-store"));
    }
}
