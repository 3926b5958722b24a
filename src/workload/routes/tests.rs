//! The routes called directly, without a socket.

use axum::body::to_bytes;
use futures_util::FutureExt;
use tokio::task::JoinHandle;
use tower::ServiceExt;

use super::*;
use crate::workload::{Discipline, WhenFull, WorkloadConfig, WorkloadStatus};

struct Reply {
    status: u16,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Reply {
    fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }

    fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

fn config() -> WorkloadConfig {
    WorkloadConfig {
        threads: 1,
        in_service: 1,
        ..WorkloadConfig::new("web-a1")
    }
}

fn request(method: &str, target: &str) -> Request {
    Request::builder()
        .method(method)
        .uri(target)
        .header("host", "127.0.0.1")
        .body(Body::empty())
        .unwrap()
}

async fn send(workload: &Arc<Workload>, request: Request) -> Reply {
    let response = workload.router().oneshot(request).await.unwrap();
    Reply {
        status: response.status().as_u16(),
        headers: response.headers().clone(),
        body: to_bytes(response.into_body(), usize::MAX)
            .await
            .unwrap()
            .to_vec(),
    }
}

async fn get(workload: &Arc<Workload>, target: &str) -> Reply {
    send(workload, request("GET", target)).await
}

/// Requests that render for a long time, until they are aborted.
async fn occupy(workload: &Arc<Workload>, count: usize) -> Vec<JoinHandle<Reply>> {
    let mut tasks = Vec::new();
    for number in 1..=count {
        let own = Arc::clone(workload);
        tasks.push(tokio::spawn(async move {
            // All inside the set, so that every point takes all iterations.
            get(
                &own,
                "/?width=4000&height=1000&max_iter=1000&span=0.001&re=0",
            )
            .await
        }));
        until(workload, |status| {
            status.in_service + status.queued == number
        })
        .await;
    }
    tasks
}

async fn until(workload: &Workload, condition: impl Fn(&WorkloadStatus) -> bool) {
    while !condition(&workload.status()) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_picture_carries_its_count_and_where_its_time_went() {
    let workload = Workload::new(WorkloadConfig {
        region: Some("eu-1".into()),
        ..config()
    });
    let mut asked = request("GET", "/?work=light");
    asked
        .headers_mut()
        .insert("x-request-id", "a-1".parse().unwrap());
    let reply = send(&workload, asked).await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("content-type"), "image/png");
    assert_eq!(reply.header("cache-control"), "no-store");
    assert_eq!(reply.header("x-served-by"), "web-a1");
    assert_eq!(reply.header("x-region"), "eu-1");
    assert_eq!(reply.header("x-iterations"), "448896");
    assert_eq!(reply.header("x-request-id"), "a-1");
    let phases: Vec<&str> = reply
        .header("server-timing")
        .split(", ")
        .map(|part| part.split(";dur=").next().unwrap())
        .collect();
    assert_eq!(phases, ["queue", "compute", "encode"]);
    assert!(reply.body.starts_with(b"\x89PNG\r\n\x1a\n"));
    assert_eq!(workload.status().served, 1);
}

#[tokio::test]
async fn standard_is_what_a_plain_request_gets() {
    let workload = Workload::new(config());
    for target in ["/", "/?work=standard&cache-buster=7"] {
        let reply = get(&workload, target).await;
        assert_eq!(reply.header("x-iterations"), "247134810", "{target}");
    }
}

#[tokio::test]
async fn what_cannot_be_drawn_is_refused_with_a_sentence() {
    let workload = Workload::new(config());
    let check = async |query: &str, part: &str| {
        let reply = get(&workload, &format!("/?{query}")).await;
        assert_eq!(reply.status, 400, "{query}");
        assert!(reply.text().contains(part), "{}", reply.text());
    };
    check("work=huge", "it must be light, standard or heavy").await;
    check("width=5000", "width is 5000; it must be from 1 to 4000.").await;
    check(
        "height=-1",
        "height is \"-1\"; it must be a whole number from 1 to 4000.",
    )
    .await;
    check(
        "max_iter=99999999999",
        "max_iter is \"99999999999\"; it must be a whole number from 1 to 100000.",
    )
    .await;
    check("max_iter=0", "max_iter is 0; it must be from 1 to 100000.").await;
    check("re=NaN", "re is NaN; it must be from -4 to 4.").await;
    check(
        "span=x%0d%0ay",
        r#"span is "x\r\ny"; it must be a number from 0.0000000000001 to 16."#,
    )
    .await;
    check("max_iter=100000", "at most 4000000000 iterations").await;
    assert_eq!(workload.status().served, 0);
}

#[test]
fn one_side_alone_keeps_the_shape() {
    let check = |query: &str, size: (u32, u32)| {
        let work = asked(query).unwrap();
        assert_eq!((work.width(), work.height()), size, "{query}");
    };
    check("width=500", (500, 400));
    check("height=400", (500, 400));
    check("width=1", (1, 1));
    check("width=30&height=70", (30, 70));
    check("work=light&max_iter=7", (125, 100));
}

#[tokio::test]
async fn probes_are_answered_without_computing() {
    let workload = Workload::new(config());
    let tasks = occupy(&workload, 1).await;
    let head = send(&workload, request("HEAD", "/")).await;
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(head.header("content-type"), "image/png");
    assert_eq!(head.header("content-length"), "", "the length is not known");
    for target in ["/", "/health-check", "*"] {
        let options = send(&workload, request("OPTIONS", target)).await;
        assert_eq!(options.status, 200, "{target}");
        assert_eq!(options.header("allow"), "GET, HEAD, OPTIONS", "{target}");
    }
    let mut old = request("GET", "/");
    *old.version_mut() = Version::HTTP_10;
    old.headers_mut().remove("host");
    let old = send(&workload, old).await;
    assert_eq!(old.status, 200);
    assert!(old.text().contains("taken for a probe"));
    assert_eq!(workload.status().served, 0);
    for task in tasks {
        task.abort();
    }
}

#[tokio::test]
async fn a_proxy_that_speaks_http_1_0_and_names_the_host_gets_the_picture() {
    let workload = Workload::new(config());
    let mut old = request("GET", "/?work=light");
    *old.version_mut() = Version::HTTP_10;
    let reply = send(&workload, old).await;
    assert_eq!(reply.header("x-iterations"), "448896");
}

#[tokio::test]
async fn other_paths_and_methods_are_refused() {
    let workload = Workload::new(config());
    assert_eq!(get(&workload, "/picture").await.status, 404);
    for target in ["/", "/health-check"] {
        let reply = send(&workload, request("POST", target)).await;
        assert_eq!(reply.status, 405, "{target}");
        assert_eq!(reply.header("allow"), "GET, HEAD, OPTIONS", "{target}");
    }
}

#[tokio::test]
async fn a_full_queue_refuses_pictures_while_health_checks_stay_fine() {
    let workload = Workload::new(WorkloadConfig {
        threads: 2,
        in_service: 2,
        queue: 1,
        ..config()
    });
    let tasks = occupy(&workload, 3).await;
    until(&workload, |status| status.busy == 2).await;
    let refused = get(&workload, "/").await;
    assert_eq!(refused.status, 503);
    assert_eq!(refused.header("retry-after"), "1");
    assert_eq!(refused.text().lines().count(), 1);
    let health = get(&workload, "/health-check").await;
    assert_eq!((health.status, health.body.len()), (200, 0));
    assert_eq!(workload.status().refused, 1);
    for task in tasks {
        task.abort();
    }
}

#[tokio::test]
async fn renders_of_clients_that_left_are_dropped_or_cut_short() {
    let workload = Workload::new(config());
    let mut tasks = occupy(&workload, 2).await;
    until(&workload, |status| status.busy == 1).await;
    tasks.pop().unwrap().abort();
    until(&workload, |status| status.dropped == 1).await;
    tasks.pop().unwrap().abort();
    until(&workload, |status| status.cut_short == 1).await;
    assert_eq!(get(&workload, "/?work=light").await.status, 200);
    let status = workload.status();
    assert_eq!((status.served, status.in_service, status.queued), (1, 0, 0));
}

#[tokio::test]
async fn while_draining_health_checks_fail_and_pictures_are_still_served() {
    let workload = Workload::new(config());
    workload.drain();
    assert_eq!(get(&workload, "/health-check").await.status, 503);
    assert_eq!(get(&workload, "/?work=light").await.status, 200);
    assert!(workload.status().draining);
}

#[tokio::test]
async fn a_server_that_stops_accepting_has_a_place_for_each_connection() {
    let workload = Workload::new(WorkloadConfig {
        threads: 1,
        in_service: 2,
        discipline: Discipline::Shared,
        queue: 0,
        when_full: WhenFull::StopAccepting,
        ..config()
    });
    let first = workload.ready_to_accept().await;
    let _second = workload.ready_to_accept().await;
    assert!(!workload.status().accepting);
    assert!(workload.ready_to_accept().now_or_never().is_none());
    drop(first);
    assert!(workload.status().accepting);
    let reply = get(&workload, "/health-check").await;
    assert_eq!(reply.header("connection"), "close");
}

#[tokio::test]
async fn the_tutorial_server_takes_forty_connections() {
    let config = WorkloadConfig::tutorial("lab");
    assert_eq!((config.threads, config.backlog), (2, 5));
    let workload = Workload::new(config);
    let places: Vec<_> = (0..40)
        .map(|_| workload.ready_to_accept().now_or_never().unwrap())
        .collect();
    assert!(workload.ready_to_accept().now_or_never().is_none());
    drop(places);
}

#[tokio::test]
async fn a_strange_request_id_is_not_repeated() {
    let workload = Workload::new(config());
    for id in ["", "a b", &"x".repeat(129)] {
        let mut asked = request("GET", "/health-check");
        asked
            .headers_mut()
            .insert("x-request-id", id.parse().unwrap());
        let reply = send(&workload, asked).await;
        assert!(!reply.headers.contains_key("x-request-id"), "{id}");
    }
}
