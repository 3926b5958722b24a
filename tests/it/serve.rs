//! The accept loop: silent, slow, greedy and many clients, and the end.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::sse::{Event, Sse};
use axum::routing::{get, post};
use tidemark::serve::{Gate, Peer, Place, ServeLimits};
use tokio::sync::Semaphore;

use crate::support::raw::{Raw, exchange, status_of};
use crate::support::server::Server;

const LONG: Duration = Duration::from_mins(10);
const SHORT: Duration = Duration::from_millis(40);

/// Timers that never ring in a test.
fn patient() -> ServeLimits {
    ServeLimits {
        head: LONG,
        idle: LONG,
        stall: LONG,
        ..ServeLimits::dashboard()
    }
}

fn hello() -> Router {
    Router::new()
        .route(
            "/",
            get(async |axum::Extension(peer): axum::Extension<Peer>| peer.0.to_string()),
        )
        .route("/echo", post(async |body: String| body))
        .route("/panic", get(async || -> String { panic!("on purpose") }))
}

const GET: &str = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";

#[test]
fn a_kept_connection_answers_again_and_knows_its_peer() {
    let server = Server::start(hello(), patient(), None);
    let mut client = Raw::connect(server.address);
    for _ in 0..3 {
        let reply = client.send(GET).reply();
        assert_eq!(reply.status(), 200);
        assert_eq!(reply.body, client.0.local_addr().unwrap().to_string());
    }
    let reply = client
        .send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nabcde")
        .reply();
    assert_eq!(reply.body, "abcde");
    assert_eq!(client.send(GET).reply().status(), 200);
}

#[test]
fn a_thousand_pipelined_requests_are_answered_in_order() {
    let router = Router::new().route(
        "/{n}",
        get(async |axum::extract::Path(n): axum::extract::Path<u32>| n.to_string()),
    );
    let server = Server::start(router, patient(), None);
    let mut client = Raw::connect(server.address);
    let mut sender = client.0.try_clone().unwrap();
    let writer = std::thread::spawn(move || {
        for n in 0..1000 {
            write!(sender, "GET /{n} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        }
    });
    for n in 0..1000 {
        assert_eq!(client.reply().body, n.to_string());
    }
    writer.join().unwrap();
}

#[test]
fn silent_clients_are_closed() {
    let limits = ServeLimits {
        idle: SHORT,
        ..patient()
    };
    let server = Server::start(hello(), limits, None);
    let mut never = Raw::connect(server.address);
    assert_eq!(never.until_closed(), "");
    let mut once = Raw::connect(server.address);
    once.send(GET);
    assert_eq!(status_of(&once.until_closed()), 200);
}

#[test]
fn half_a_head_is_closed_though_idle_connections_are_kept() {
    let limits = ServeLimits {
        head: SHORT,
        strict: false,
        ..patient()
    };
    let server = Server::start(hello(), limits, None);
    let mut kept = Raw::connect(server.address);
    assert_eq!(kept.send(GET).reply().status(), 200);
    let mut silent = Raw::connect(server.address);
    let mut half = Raw::connect(server.address);
    half.send("GET / HTTP/1.1\r\nHos");
    assert_eq!(half.until_closed(), "");
    let mut second = Raw::connect(server.address);
    second.send(GET).reply();
    second.send("GET /");
    assert_eq!(second.until_closed(), "");
    // Both outlived the timer that closed the others.
    assert_eq!(kept.send(GET).reply().status(), 200);
    assert_eq!(silent.send(GET).reply().status(), 200);
}

#[test]
fn a_client_that_takes_no_bytes_is_closed() {
    let router = Router::new().route(
        "/",
        get(async || {
            Body::from_stream(futures_util::stream::repeat_with(|| {
                Ok::<_, std::io::Error>(vec![b'x'; 64 * 1024])
            }))
        }),
    );
    let limits = ServeLimits {
        stall: SHORT,
        ..patient()
    };
    let server = Server::start(router, limits, None);
    let mut client = Raw::connect(server.address);
    client.send(GET);
    // Reading begins only after the server gave up; what is in the pipes still comes.
    while client.0.peek(&mut [0]).is_ok_and(|count| count == 0) {}
    std::thread::spawn({
        let mut stream = client.0.try_clone().unwrap();
        move || {
            // A write fails once the server has closed.
            while stream.write_all(b"\r\n").is_ok() {
                std::thread::yield_now();
            }
        }
    })
    .join()
    .unwrap();
}

#[test]
fn one_address_has_its_share_and_its_oldest_idle_connection_goes_first() {
    let limits = ServeLimits {
        per_address: Some(2),
        ..patient()
    };
    let server = Server::start(hello(), limits, None);
    let mut first = Raw::connect(server.address);
    first.send(GET).reply();
    let mut second = Raw::connect(server.address);
    second.send(GET).reply();
    let mut third = Raw::connect(server.address);
    assert_eq!(third.send(GET).reply().status(), 200);
    assert_eq!(first.until_closed(), "");
    assert_eq!(second.send(GET).reply().status(), 200);
}

#[test]
fn a_server_whose_connections_are_all_busy_says_so() {
    let gate = Arc::new(Semaphore::new(0));
    let waiting = Arc::clone(&gate);
    let router = Router::new().route(
        "/",
        get(move || {
            let gate = Arc::clone(&waiting);
            async move {
                gate.acquire().await.unwrap().forget();
                "done"
            }
        }),
    );
    let limits = ServeLimits {
        per_address: None,
        total: 1,
        ..patient()
    };
    let server = Server::start(router, limits, None);
    let mut busy = Raw::connect(server.address);
    busy.send(GET);
    // Until the first request is being answered, the second connection takes the first one's place.
    let refused = loop {
        let mut other = Raw::connect(server.address);
        other.0.set_nonblocking(false).unwrap();
        other
            .0
            .set_read_timeout(Some(Duration::from_millis(50)))
            .unwrap();
        let mut text = [0; 512];
        match other.0.read(&mut text) {
            Ok(count) if count > 0 => break String::from_utf8_lossy(&text[..count]).into_owned(),
            _ => {
                drop(other);
                busy = Raw::connect(server.address);
                busy.send(GET);
            }
        }
    };
    assert_eq!(status_of(&refused), 503);
    assert!(refused.contains("Retry-After: 1"), "{refused}");
    gate.add_permits(100);
    assert_eq!(busy.reply().body, "done");
}

#[test]
fn a_gate_keeps_connections_waiting_and_its_place_lasts_as_long_as_the_connection() {
    let places = Arc::new(Semaphore::new(1));
    let asked = Arc::new(AtomicUsize::new(0));
    let gate: Gate = {
        let (places, asked) = (Arc::clone(&places), Arc::clone(&asked));
        Arc::new(move || {
            let places = Arc::clone(&places);
            asked.fetch_add(1, Ordering::SeqCst);
            Box::pin(async move { Box::new(places.acquire_owned().await.unwrap()) as Place })
        })
    };
    let server = Server::start(hello(), patient(), Some(gate));
    let mut first = Raw::connect(server.address);
    first.send(GET).reply();
    let mut second = Raw::connect(server.address);
    second.send(GET);
    while asked.load(Ordering::SeqCst) < 2 {
        std::thread::yield_now();
    }
    assert_eq!(first.send(GET).reply().status(), 200);
    assert_eq!(places.available_permits(), 0);
    drop(first);
    assert_eq!(second.reply().status(), 200);
}

#[test]
fn a_panic_ends_its_own_connection_only() {
    let server = Server::start(hello(), patient(), None);
    let text = exchange(server.address, "GET /panic HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!(text, "");
    assert_eq!(Raw::connect(server.address).send(GET).reply().status(), 200);
}

#[test]
fn a_drain_finishes_what_is_under_way_and_nothing_else() {
    let gate = Arc::new(Semaphore::new(0));
    let begun = Arc::new(Semaphore::new(0));
    let (waiting, entered) = (Arc::clone(&gate), Arc::clone(&begun));
    let router = hello()
        .route(
            "/slow",
            get(move || {
                let (gate, begun) = (Arc::clone(&waiting), Arc::clone(&entered));
                async move {
                    begun.add_permits(1);
                    gate.acquire().await.unwrap().forget();
                    "done"
                }
            }),
        )
        .route(
            "/events",
            get(async || {
                use futures_util::StreamExt;
                let first = futures_util::stream::once(async {
                    Ok::<_, std::convert::Infallible>(Event::default().data("first"))
                });
                Sse::new(first.chain(futures_util::stream::pending()))
            }),
        );
    let mut server = Server::start(router, patient(), None);
    let mut idle: Vec<Raw> = (0..5).map(|_| Raw::connect(server.address)).collect();
    for client in idle.iter_mut().take(3) {
        client.send(GET).reply();
    }
    idle[4].send("GET / HT");
    let mut events: Vec<Raw> = (0..5).map(|_| Raw::connect(server.address)).collect();
    for client in &mut events {
        client.send("GET /events HTTP/1.1\r\nHost: x\r\n\r\n");
        let mut text = String::new();
        while !text.contains("first") {
            let mut chunk = [0; 512];
            let count = client.0.read(&mut chunk).unwrap();
            text.push_str(&String::from_utf8_lossy(&chunk[..count]));
        }
    }
    let mut slow = Raw::connect(server.address);
    slow.send("GET /slow HTTP/1.1\r\nHost: x\r\n\r\n");
    while begun.available_permits() == 0 {
        std::thread::yield_now();
    }
    server.drain(LONG);
    for client in &mut idle {
        assert_eq!(client.until_closed(), "");
    }
    for client in &mut events {
        client.until_closed();
    }
    gate.add_permits(1);
    let reply = slow.until_closed();
    assert!(reply.ends_with("done"), "{reply}");
    assert!(
        reply.to_lowercase().contains("connection: close"),
        "{reply}"
    );
    server.wait();
}

#[test]
fn a_drain_is_over_at_its_limit_whatever_is_under_way() {
    let router = Router::new().route("/", get(std::future::pending::<String>));
    let mut server = Server::start(router, patient(), None);
    let mut stuck = Raw::connect(server.address);
    stuck.send(GET);
    server.drain(SHORT);
    server.wait();
    assert_eq!(stuck.until_closed(), "");
}

#[test]
fn a_lingering_drain_still_answers_probes() {
    let gate = Arc::new(Semaphore::new(0));
    let begun = Arc::new(Semaphore::new(0));
    let (waiting, entered) = (Arc::clone(&gate), Arc::clone(&begun));
    let router = hello().route(
        "/slow",
        get(move || {
            let (gate, begun) = (Arc::clone(&waiting), Arc::clone(&entered));
            async move {
                begun.add_permits(1);
                gate.acquire().await.unwrap().forget();
                "done"
            }
        }),
    );
    let limits = ServeLimits {
        linger: Duration::from_millis(1),
        ..patient()
    };
    let mut server = Server::start(router, limits, None);
    let mut slow = Raw::connect(server.address);
    slow.send("GET /slow HTTP/1.1\r\nHost: x\r\n\r\n");
    while begun.available_permits() == 0 {
        std::thread::yield_now();
    }
    server.drain(LONG);
    let probe = exchange(server.address, GET);
    assert_eq!(status_of(&probe), 200);
    gate.add_permits(1);
    assert!(slow.until_closed().ends_with("done"));
    server.wait();
}
