//! The HTTP engine against servers that misbehave: every outcome by its name, every request counted, every run ended.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidemark::measure::outcome::Outcome;
use tidemark::runner::{Stop, preflight};

use crate::support::load::{Done, finish, go, go_to, job, plan};
use crate::support::misbehave::Misbehave;

const MS: Duration = Duration::from_millis(1);

/// An open-loop run of `server`'s `path` with further fields.
fn rate(server: &Misbehave, path: &str, fields: &Value) -> Done {
    go(&with(
        &json!({"kind": "rate", "url": server.url(path), "timeout_s": 5}),
        fields,
    ))
}

/// A closed-loop run of `server`'s `path` with further fields.
fn users(server: &Misbehave, path: &str, fields: &Value) -> Done {
    let done = go(&with(
        &json!({"kind": "users", "url": server.url(path), "timeout_s": 5}),
        fields,
    ));
    for one in done.requests.iter().filter(|one| one.started.is_some()) {
        let started = one.started.unwrap();
        assert_eq!(one.scheduled, started, "its latency is its service time");
    }
    done
}

fn with(base: &Value, fields: &Value) -> Value {
    let mut value = base.clone();
    for (key, field) in fields.as_object().unwrap() {
        value[key] = field.clone();
    }
    value
}

/// An address at which nobody listens.
fn nobody() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}/", listener.local_addr().unwrap())
}

#[test]
fn every_misbehaviour_has_its_outcome() {
    let server = Misbehave::start();
    for (path, outcome) in [
        ("/ok", Outcome::Ok),
        ("/untilclose", Outcome::Ok),
        ("/trailers", Outcome::Ok),
        ("/204", Outcome::Ok),
        ("/304", Outcome::Ok),
        ("/100", Outcome::Ok),
        ("/103", Outcome::Ok),
        ("/close", Outcome::Ok),
        ("/http10", Outcome::Ok),
        ("/301", Outcome::Ok),
        ("/loop", Outcome::Ok),
        ("/extra", Outcome::Ok),
        ("/large", Outcome::Ok),
        ("/404", Outcome::Http4xx),
        ("/500", Outcome::Http5xx),
        ("/600", Outcome::HttpOther),
        ("/garbage", Outcome::InvalidReply),
        ("/100s", Outcome::InvalidReply),
        ("/101", Outcome::InvalidReply),
        ("/twolengths", Outcome::InvalidReply),
        ("/bigheader", Outcome::InvalidReply),
        ("/manyheaders", Outcome::InvalidReply),
        ("/trunc", Outcome::Truncated),
        ("/truncchunk", Outcome::Truncated),
        ("/halfhdr", Outcome::Truncated),
        ("/eof", Outcome::EmptyReply),
        ("/rst", Outcome::ResetBeforeReply),
        ("/rstbody", Outcome::ResetInBody),
    ] {
        println!("{path}");
        rate(&server, path, &json!({"rate": 100, "num_conns": 3})).all(outcome);
        let kept = json!({"concurrent": 2, "reps": 2, "keep_alive": true});
        users(&server, path, &kept).all(outcome);
        let single = json!({"concurrent": 2, "reps": 2});
        users(&server, path, &single).all(outcome);
        go(&json!({"kind": "fetch", "url": server.url(path)})).all(outcome);
    }
}

#[test]
fn timeouts_stay_in_the_figures_at_their_age() {
    let server = Misbehave::start();
    let done = go(&json!({
        "kind": "rate", "rate": 50, "num_conns": 10, "timeout_s": 0.3, "seed": 7,
        "urls": [{"url": server.url("/ok"), "weight": 4}, {"url": server.url("/never"), "weight": 1}],
    }));
    let never = done.outcomes().get("ttfb_timeout").copied().unwrap_or(0);
    assert!(never > 0 && never < 10, "{:?}", done.outcomes());
    assert_eq!(done.outcomes().get("ok").copied().unwrap_or(0) + never, 10);
    assert!(done.quantile(0.95) >= 300 * MS);
    let figures = done.json();
    assert!(figures["latency_ms"]["p95"].as_f64().unwrap() >= 299.0);
    assert_eq!(figures["censored"], never);
}

#[test]
fn replies_over_a_short_time_make_a_rate() {
    let server = Misbehave::start();
    let done = rate(&server, "/ok", &json!({"rate": 20, "num_conns": 3}));
    let figures = done.all(Outcome::Ok).json();
    assert!(figures["reply_rate_per_s"]["avg"].as_f64().unwrap() > 0.0);
    let latency = &figures["latency_ms"];
    assert!(latency["median"].as_f64().unwrap() >= latency["min"].as_f64().unwrap());
    assert!(latency["median"].as_f64().unwrap() <= latency["max"].as_f64().unwrap());
}

#[test]
fn offered_load_counts_over_the_send_window_and_draining_stands_apart() {
    let server = Misbehave::start();
    let done = rate(
        &server,
        "/slow?s=0.6",
        &json!({"rate": 40, "num_conns": 20}),
    );
    done.all(Outcome::Ok);
    assert_eq!(done.ended.send_window, 500 * MS);
    assert!(done.ended.duration >= 1_075 * MS);
    let figures = done.json();
    assert!((figures["offered_per_s"].as_f64().unwrap() - 40.0).abs() < 0.1);
}

#[test]
fn a_cut_reply_says_how_much_of_it_came() {
    let server = Misbehave::start();
    let done = rate(&server, "/trunc", &json!({"rate": 100, "num_conns": 2}));
    let sample = &done.all(Outcome::Truncated).requests[0];
    assert_eq!(sample.detail.as_deref(), Some("10 of 100 bytes"));
    assert_eq!((sample.status, sample.content_bytes), (Some(200), 10));
}

#[test]
fn what_is_not_http_shows_its_first_bytes() {
    let server = Misbehave::start();
    let done = rate(&server, "/garbage", &json!({"rate": 100, "num_conns": 2}));
    let sample = &done.all(Outcome::InvalidReply).requests[0];
    assert!(sample.detail.as_deref().unwrap().contains("SSH-2.0"));
    assert_eq!(sample.status, None);
}

#[test]
fn a_redirect_is_one_result_and_leads_nowhere() {
    let server = Misbehave::start();
    let target = Misbehave::start();
    let done = rate(&server, "/301", &json!({"rate": 100, "num_conns": 6}));
    done.all(Outcome::Ok);
    assert_eq!(server.requests(), 6);
    assert_eq!(target.connections(), 0);
    assert!(done.requests.iter().all(|one| one.status == Some(301)));
}

#[test]
fn users_whose_requests_hang_are_still_concurrent() {
    let server = Misbehave::start();
    let fields = json!({"concurrent": 4, "reps": 1, "timeout_s": 0.4});
    let done = users(&server, "/never", &fields);
    done.all(Outcome::TtfbTimeout);
    let concurrency = done.ended.in_flight_seconds / done.ended.duration.as_secs_f64();
    assert!((3.0..=4.0).contains(&concurrency), "{concurrency}");
}

#[test]
fn refused_connections_end_as_refused_without_burning_cpu() {
    let url = nobody();
    let done =
        go(&json!({"kind": "rate", "url": url, "rate": 100, "num_conns": 5, "num_calls": 3}));
    done.all(Outcome::ConnectRefused);
    let begun = done.requests.iter().filter(|one| one.started.is_some());
    assert_eq!(
        begun.count(),
        5,
        "calls lost with their connection never began"
    );
    assert!(done.connections.iter().all(|one| one.connect.is_none()));
    let done = go(&json!({"kind": "users", "url": url, "concurrent": 2, "duration_s": 0.3}));
    done.all(Outcome::ConnectRefused);
    assert!(done.requests.len() < 100, "{}", done.requests.len());
}

#[test]
fn a_run_by_time_stops_sending_on_time_and_drains() {
    let server = Misbehave::start();
    let fields = json!({"concurrent": 3, "duration_s": 1, "keep_alive": true});
    let done = users(&server, "/slow?s=0.7", &fields);
    done.all(Outcome::Ok);
    assert_eq!(done.ended.send_window, 1_000 * MS);
    assert_eq!(done.ended.planned, None);
    assert!(
        done.requests
            .iter()
            .all(|one| one.started.unwrap() < 1_000 * MS)
    );
    assert!(
        done.ended.duration > 1_200 * MS,
        "the last reply was waited for"
    );
}

#[test]
fn a_closed_loop_hides_what_an_open_one_shows() {
    let server = Misbehave::start();
    let slow = json!({"concurrent": 1, "duration_s": 0.9, "keep_alive": true});
    let closed = users(&server, "/slow?s=0.3", &slow);
    assert!((3..=4).contains(&closed.requests.len()));
    let open = rate(
        &server,
        "/slow?s=0.3",
        &json!({"rate": 10, "duration_s": 0.9}),
    );
    assert_eq!(open.requests.len(), 9);
    assert!(open.ended.concurrent_max >= 3);
}

#[test]
fn a_stalled_server_does_not_slow_the_offered_rate() {
    let server = Misbehave::start();
    let done = rate(
        &server,
        "/stall?at=400&s=1",
        &json!({"rate": 100, "num_conns": 1000, "timeout_s": 20}),
    );
    done.all(Outcome::Ok);
    assert_eq!(done.ended.send_window, 10_000 * MS);
    let late = done
        .requests
        .iter()
        .filter(|one| one.latency() > 100 * MS)
        .count();
    assert!((80..=130).contains(&late), "{late}");
    assert!(done.quantile(0.99) >= 850 * MS, "{:?}", done.quantile(0.99));
    assert!(done.quantile(1.0) >= 950 * MS);
    let starts = done.requests.iter().map(|one| one.started.unwrap());
    let second = |at: u64| starts.clone().filter(|start| start.as_secs() == at).count();
    let busiest = (0..10).map(second).max().unwrap();
    assert!(busiest <= 130, "no burst makes up for the stall: {busiest}");
}

#[test]
fn service_time_and_latency_part_when_calls_queue() {
    let server = Misbehave::start();
    // Calls of one connection go one after another; each is due when the one before it ended.
    let done = rate(
        &server,
        "/slow?s=0.05",
        &json!({"rate": 10, "num_conns": 2, "num_calls": 3}),
    );
    done.all(Outcome::Ok);
    for one in &done.requests {
        assert!(one.service_time().unwrap() >= 50 * MS);
        assert_eq!(one.seq % 3 == 0, one.connect.is_some());
    }
    assert_eq!(done.connections.len(), 2);
    assert!(done.connections.iter().all(|one| one.replies == 3));
}

#[test]
fn the_rate_is_one_total_over_all_threads() {
    let server = Misbehave::start();
    let value = json!({"kind": "rate", "url": server.url("/ok"), "rate": 200, "duration_s": 1});
    let mut several = job(plan(&value));
    several.threads = Some(4);
    let done = finish(&several, &Stop::new());
    done.all(Outcome::Ok);
    assert_eq!(done.ended.threads, 4);
    assert_eq!(done.requests.len(), 200);
    let mut planned: Vec<Duration> = done.requests.iter().map(|one| one.scheduled).collect();
    planned.sort_unstable();
    for (index, at) in planned.iter().enumerate() {
        let expected = Duration::from_secs_f64(f64::from(u32::try_from(index).unwrap()) / 200.0);
        assert!(at.abs_diff(expected) < Duration::from_micros(1));
    }
}

#[test]
fn beyond_the_limit_in_flight_requests_are_counted_and_never_wait() {
    let server = Misbehave::start();
    let done = rate(
        &server,
        "/slow?s=0.5",
        &json!({"rate": 10, "num_conns": 10, "num_calls": 2, "max_in_flight": 2}),
    );
    done.all(Outcome::Ok);
    assert!(done.ended.unsent > 0);
    assert_eq!(done.ended.planned, Some(20));
    assert_eq!(done.requests.len() as u64 + done.ended.unsent, 20);
    assert!(done.ended.concurrent_max <= 2);
    assert_eq!(done.json()["unsent"], done.ended.unsent);
}

#[test]
fn a_rate_out_of_reach_leaves_most_of_it_unsent() {
    let server = Misbehave::start();
    let fields = json!({"rate": 5000, "duration_s": 0.2, "max_in_flight": 4});
    let done = rate(&server, "/slow?s=0.1", &fields);
    assert_eq!(done.ended.planned, Some(1000));
    assert!(done.ended.unsent > 900, "{}", done.ended.unsent);
}

#[test]
fn a_silent_server_ends_as_a_timeout() {
    let server = Misbehave::start();
    for fields in [
        json!({"rate": 50, "num_conns": 5, "timeout_s": 0.2}),
        json!({"rate": 0, "num_conns": 2, "timeout_s": 0.2}),
        json!({"rate": 50, "num_conns": 2, "timeout_s": 0.2, "reuse": true}),
    ] {
        let done = rate(&server, "/never", &fields);
        done.all(Outcome::TtfbTimeout);
        assert!(done.requests.iter().all(|one| one.latency() >= 200 * MS));
        let detail = done.requests[0].detail.as_deref();
        assert_eq!(detail, Some("no reply after 0.2 s"));
    }
}

#[test]
fn a_trickled_reply_ends_at_its_deadline_however_often_a_byte_comes() {
    let server = Misbehave::start();
    let fields = json!({"rate": 50, "num_conns": 3, "timeout_s": 0.4});
    let done = rate(&server, "/trickle?s=0.05", &fields);
    done.all(Outcome::TotalTimeout);
    assert!(done.requests.iter().all(|one| one.first_byte.is_some()));
}

#[test]
fn endless_replies_stop_at_their_limit() {
    let server = Misbehave::start();
    for path in ["/endless", "/chunkbomb"] {
        let done = rate(
            &server,
            path,
            &json!({"rate": 0, "num_conns": 1, "timeout_s": 50}),
        );
        let sample = &done.all(Outcome::Other).requests[0];
        assert_eq!(sample.detail.as_deref(), Some("body too big"));
        assert!(sample.content_bytes <= 65 * 1024 * 1024);
    }
}

#[test]
fn replies_to_head_have_no_content_to_wait_for() {
    let server = Misbehave::start();
    for path in ["/headlen", "/ok", "/204", "/304"] {
        let done = rate(
            &server,
            path,
            &json!({"rate": 100, "num_conns": 1, "num_calls": 3, "method": "HEAD"}),
        );
        done.all(Outcome::Ok);
        assert_eq!(done.connections.len(), 1);
        assert!(done.requests.iter().all(|one| one.content_bytes == 0));
    }
}

#[test]
fn stopping_ends_at_once_with_everything_counted() {
    let server = Misbehave::start();
    for value in [
        json!({"kind": "rate", "rate": 20, "num_conns": 1000, "num_calls": 2}),
        json!({"kind": "rate", "rate": 0, "num_conns": 10}),
        json!({"kind": "users", "concurrent": 5, "reps": 100}),
        json!({"kind": "users", "concurrent": 5, "duration_s": 500, "delay_s": 100}),
        json!({"kind": "fetch"}),
    ] {
        let before = server.requests();
        let value = with(&value, &json!({"url": server.url("/slow?s=5")}));
        let stop = Stop::new();
        let stopper = stop.clone();
        let running = job(plan(&value));
        let (done, took) = std::thread::scope(|scope| {
            let server = &server;
            let stopped = scope.spawn(move || {
                while server.requests() == before {
                    std::thread::yield_now();
                }
                stopper.stop();
                Instant::now()
            });
            let done = finish(&running, &stop);
            (done, stopped.join().unwrap().elapsed())
        });
        assert!(done.ended.stopped);
        done.all(Outcome::AbortedAtStop);
        assert!(took < 1_000 * MS, "{took:?}");
        if let Some(planned) = done.ended.planned {
            assert_eq!(done.requests.len() as u64 + done.ended.unsent, planned);
            assert!(done.requests.len() < 100);
        }
    }
}

#[test]
fn a_stop_before_the_start_sends_next_to_nothing() {
    let server = Misbehave::start();
    let stop = Stop::new();
    stop.stop();
    let value = json!({"kind": "rate", "url": server.url("/ok"), "rate": 10, "num_conns": 50});
    let done = finish(&job(plan(&value)), &stop);
    assert!(done.ended.stopped);
    assert_eq!(done.requests.len() as u64 + done.ended.unsent, 50);
}

#[test]
fn an_announced_close_costs_a_connection_and_no_error() {
    let server = Misbehave::start();
    for path in ["/close", "/http10"] {
        let done = rate(
            &server,
            path,
            &json!({"rate": 50, "num_conns": 2, "num_calls": 5}),
        );
        done.all(Outcome::Ok);
        assert_eq!(done.connections.len(), 10);
        assert!(done.requests.iter().all(|one| !one.retried_stale));
    }
}

#[test]
fn a_silently_closed_connection_is_tried_once_more_without_an_error() {
    let server = Misbehave::start();
    for round in 0..20 {
        let done = rate(
            &server,
            "/silentclose?k=2",
            &json!({"rate": 50, "num_conns": 2, "num_calls": 5}),
        );
        done.all(Outcome::Ok);
        let retried = done.requests.iter().filter(|one| one.retried_stale).count();
        assert_eq!(retried, 4, "round {round}");
        assert_eq!(done.json()["stale_keepalive_retried"], 4);
    }
    let kept = json!({"concurrent": 2, "reps": 5, "keep_alive": true, "delay_s": 0.02});
    let done = users(&server, "/silentclose?k=2", &kept);
    done.all(Outcome::Ok);
}

#[test]
fn a_server_that_closes_in_answer_to_a_request_has_failed() {
    let server = Misbehave::start();
    // What may not be repeated is not: the peer's system took the request before it closed.
    let fields = json!({"rate": 50, "num_conns": 2, "num_calls": 4, "method": "POST", "body": "x"});
    let done = rate(&server, "/closeinanswer", &fields);
    assert_eq!(done.outcomes().get("ok"), Some(&2), "{:?}", done.outcomes());
    assert_eq!(done.outcomes().get("empty_reply"), Some(&6));
    assert!(done.requests.iter().all(|one| !one.retried_stale));
    let done = rate(&server, "/resetinanswer", &fields);
    assert_eq!(done.outcomes().get("reset_before_reply"), Some(&6));
    // What may be repeated is, once.
    let fields = json!({"rate": 50, "num_conns": 2, "num_calls": 4});
    let done = rate(&server, "/closeinanswer", &fields);
    done.all(Outcome::Ok);
    let retried = done.requests.iter().filter(|one| one.retried_stale).count();
    assert_eq!(retried, 6);
}

#[test]
fn connections_of_a_pool_are_used_again() {
    let server = Misbehave::start();
    let done = rate(
        &server,
        "/ok",
        &json!({"rate": 200, "num_conns": 60, "reuse": true}),
    );
    done.all(Outcome::Ok);
    assert!(server.connections() < 40, "{}", server.connections());
    assert_eq!(done.requests.len(), 60);
}

#[test]
fn a_connection_that_nobody_accepts_has_no_reply_and_a_connect_time() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let done =
        go(&json!({"kind": "rate", "url": url, "rate": 50, "num_conns": 3, "timeout_s": 0.2}));
    done.all(Outcome::TtfbTimeout);
    assert!(done.requests.iter().all(|one| one.connect.is_some()));
}

#[test]
fn addresses_of_nobody_are_told_apart() {
    let done = go(
        &json!({"kind": "rate", "url": "http://[::1]:9/", "rate": 50, "num_conns": 2, "timeout_s": 2}),
    );
    done.all(Outcome::ConnectRefused);
    let refused = tidemark::runner::run(
        &job(plan(
            &json!({"kind": "rate", "url": "http://127.0.0.1:9/", "rate": 1, "num_conns": 1, "bind": "192.0.2.1"}),
        )),
        &Stop::new(),
        &mut |_| {},
    );
    assert!(refused.unwrap_err().to_string().contains("192.0.2.1"));
}

#[test]
fn ipv6_and_a_bound_address_work() {
    let server = Misbehave::on("[::1]:0");
    rate(&server, "/ok", &json!({"rate": 50, "num_conns": 3})).all(Outcome::Ok);
    let server = Misbehave::start();
    let fields = json!({"rate": 50, "num_conns": 3, "bind": "127.0.0.9"});
    rate(&server, "/ok", &fields).all(Outcome::Ok);
}

#[test]
fn backends_and_times_are_read_from_replies() {
    let server = Misbehave::start();
    let done = rate(&server, "/ok", &json!({"rate": 50, "num_conns": 2}));
    let sample = &done.requests[0];
    assert_eq!(sample.served_by.as_deref(), Some("misbehave"));
    assert_eq!(sample.server_timing.unwrap().queue_ms, Some(1.5));
    assert_eq!(sample.server_timing.unwrap().encode_ms, None);
    let value = json!({"kind": "rate", "url": server.url("/ok"), "rate": 50, "num_conns": 1});
    let mut by_address = job(plan(&value));
    by_address.identity = tidemark::runner::Naming::Address;
    let done = finish(&by_address, &Stop::new());
    let expected = server.address.to_string();
    assert_eq!(done.requests[0].served_by.as_deref(), Some(&*expected));
}

#[test]
fn large_requests_are_written_whole() {
    let server = Misbehave::start();
    let body = "x".repeat(1_000_000);
    let done = rate(
        &server,
        "/ok",
        &json!({"rate": 20, "num_conns": 2, "num_calls": 2, "method": "POST", "body": body}),
    );
    done.all(Outcome::Ok);
    assert!(done.requests.iter().all(|one| one.sent_bytes > 1_000_000));
}

#[test]
fn a_fetch_tells_its_phases() {
    let server = Misbehave::start();
    let done = go_to(
        &json!({"kind": "fetch", "url": "http://some.name.invalid/slow?s=0.1"}),
        server.address,
    );
    let sample = &done.all(Outcome::Ok).requests[0];
    assert!(sample.connect.unwrap() <= sample.wrote.unwrap());
    assert!(sample.first_byte.unwrap() >= 100 * MS);
    assert_eq!(sample.content_bytes, 5);
    assert_eq!(done.ended.planned, Some(1));
}

#[test]
fn at_one_per_second_requests_are_on_time() {
    let server = Misbehave::start();
    let done = rate(&server, "/ok", &json!({"rate": 10, "num_conns": 10}));
    let mut lateness: Vec<Duration> = done
        .requests
        .iter()
        .map(|one| one.lateness().unwrap())
        .collect();
    lateness.sort_unstable();
    // The median, since other tests share the cores with this one.
    assert!(lateness[5] < 5 * MS, "{lateness:?}");
}

#[test]
fn preflight_says_what_this_machine_lacks() {
    let many = json!({"kind": "rate", "url": "http://192.0.2.7/", "rate": 2000, "duration_s": 60, "max_in_flight": 1_000_000, "timeout_s": 600});
    let warnings = preflight(&job(plan(&many)));
    assert!(
        warnings.iter().any(|text| text.contains("local ports")),
        "{warnings:?}"
    );
    let few = json!({"kind": "rate", "url": "http://127.0.0.1/", "rate": 5, "num_conns": 50});
    assert_eq!(preflight(&job(plan(&few))), Vec::<String>::new());
}
