//! What is concluded from runs: titles, checks, limits and httperf's figures, for courses whose truth is known.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tidemark::measure::outcome::Outcome;
use tidemark::measure::plan::Plan;
use tidemark::measure::run::{Check, Environment, Progress, Severity};
use tidemark::measure::sample::{Ended, RequestSample, ServerTiming};
use tidemark::measure::series::HttpSeries;
use tidemark::measure::summary::Summary;
use tidemark::measure::summary::http::HttpFold;
use tidemark::measure::verdict::httperf::httperf_view;
use tidemark::measure::verdict::{Judgement, judge, live_title};

use crate::fold::{batches, ended, fold_of, ms, plan, rate_plan, request};

/// Even arrivals at a first-in first-out server of equal slots; a request that would take longer than the timeout is given up.
fn queue(rate: f64, n: u32, slots: usize, service_ms: f64, timeout_ms: f64) -> Vec<RequestSample> {
    let mut free = vec![0.0_f64; slots];
    (0..n)
        .map(|i| {
            let at = f64::from(i) * 1000.0 / rate;
            let slot = (0..slots)
                .min_by(|a, b| free[*a].total_cmp(&free[*b]))
                .unwrap();
            let end = free[slot].max(at) + service_ms;
            free[slot] = end;
            let took = end - at;
            if took > timeout_ms {
                request(i.into(), at, timeout_ms, Outcome::TtfbTimeout)
            } else {
                request(i.into(), at, took, Outcome::Ok)
            }
        })
        .collect()
}

struct Judged {
    judgement: Judgement,
    summary: Summary,
}

fn judged(plan: &Plan, samples: &[RequestSample], end: &Ended) -> Judged {
    let (fold, _) = fold_of(plan, samples);
    let (summary, series) = (fold.summary(end), fold.series(end));
    let environment = Environment {
        cpus: Some(4),
        ..Environment::default()
    };
    let judgement = judge(plan, &summary, &series, end, &environment);
    println!("{}\n  {}", judgement.title, judgement.verdict);
    for check in &judgement.checks {
        println!("  {:?} {}: {}", check.ok, check.name, check.detail);
    }
    for limit in &judgement.limits {
        println!("  {:.3} {}: {}", limit.share, limit.cause, limit.evidence);
    }
    assert!(judgement.title.chars().count() <= 100);
    assert!(!judgement.verdict.is_empty() && !judgement.verdict.contains("NaN"));
    assert!(judgement.verdict.matches(". ").count() <= 1);
    assert_eq!(judgement.checks.len(), 8);
    Judged { judgement, summary }
}

fn rate_run(rate: f64, samples: &[RequestSample]) -> Judged {
    let n = samples.len() as u64;
    let end = ended(samples, n as f64 / rate);
    judged(&rate_plan(rate, n), samples, &end)
}

/// With plain spaces, as a person reads it.
fn plain(text: &str) -> String {
    text.replace(['\u{a0}', '\u{202f}'], " ")
}

fn check(judged: &Judged, name: &str) -> Check {
    let found = judged
        .judgement
        .checks
        .iter()
        .find(|check| check.name == name);
    found.unwrap().clone()
}

fn title_is(judged: &Judged, expected: &str) {
    assert_eq!(plain(&judged.judgement.title), expected);
}

fn detail_is(judged: &Judged, name: &str, ok: Option<bool>, expected: &str) {
    let check = check(judged, name);
    assert_eq!((check.ok, plain(&check.detail)), (ok, expected.to_owned()));
}

fn first_cause(judged: &Judged) -> &str {
    &judged.judgement.limits[0].cause
}

#[test]
fn a_target_that_keeps_up() {
    let run = rate_run(13.0, &queue(13.0, 200, 6, 400.0, 1e9));
    title_is(
        &run,
        "127.0.0.1:8000 keeps up with 13 req/s: median 400 ms, p99 400 ms",
    );
    detail_is(
        &run,
        "on_schedule",
        Some(true),
        "99 % of sends within 0 ms of their time",
    );
    detail_is(
        &run,
        "sums_agree",
        Some(true),
        "200 replies + 0 unsent = 200",
    );
    detail_is(
        &run,
        "complete",
        Some(true),
        "all 200 planned requests have an outcome",
    );
    detail_is(
        &run,
        "not_shared_host",
        Some(true),
        "target and generator share no core",
    );
    assert_eq!(check(&run, "ends_agree").ok, None);
    assert_eq!(check(&run, "streams_overlap").ok, None);
}

#[test]
fn an_overloaded_target_is_told_by_its_growing_wait() {
    let run = rate_run(20.0, &queue(20.0, 200, 1, 100.0, 1e9));
    title_is(
        &run,
        "127.0.0.1:8000 is overloaded at 20 req/s: it answers 10 req/s in time, the wait grows to 10.1 s",
    );
    assert!(plain(&run.judgement.verdict).contains("below about 10 req/s"));
    assert_eq!(check(&run, "sums_agree").ok, Some(true));
}

#[test]
fn an_overload_that_ends_in_timeouts() {
    let samples = queue(200.0, 2000, 1, 100.0, 1000.0);
    let plan = plan(
        &json!({"kind": "rate", "url": "http://127.0.0.1:8000/", "rate": 200, "num_conns": 2000, "timeout_s": 1}),
    );
    let run = judged(&plan, &samples, &ended(&samples, 10.0));
    title_is(
        &run,
        "127.0.0.1:8000 is overloaded at 200 req/s: from 0.1 s on it answers nobody",
    );
    assert!(run.judgement.verdict.contains("clients that have left"));
    assert_eq!(first_cause(&run), "timeouts");
    detail_is(
        &run,
        "sums_agree",
        Some(true),
        "10 replies + 1 990 timeouts + 0 unsent = 2 000",
    );
}

#[test]
fn one_backend_of_three_falls_behind_and_the_median_hides_it() {
    // web-a3 serves 3.8 of the 4.33 requests a second that it gets; the timeout is 10 s.
    let names: Vec<Arc<str>> = (1..=3).map(|i| Arc::from(format!("web-a{i}"))).collect();
    let mut free = 0.0_f64;
    let samples: Vec<_> = (0..2000_u32)
        .map(|i| {
            let at = f64::from(i) * 1000.0 / 13.0;
            let name = &names[i as usize % 3];
            let (took, queued) = if i % 3 == 2 {
                let start = free.max(at);
                free = start + 263.0;
                (free - at, start - at)
            } else {
                (240.0, 0.0)
            };
            if took > 10_000.0 {
                return request(i.into(), at, 10_000.0, Outcome::TotalTimeout);
            }
            let mut sample = request(i.into(), at, took, Outcome::Ok);
            sample.connect = Some(ms(0.3));
            sample.first_byte = Some(ms(took - 0.5));
            sample.served_by = Some(Arc::clone(name));
            #[expect(clippy::cast_possible_truncation, reason = "a header's precision")]
            let queue_ms = Some(queued as f32);
            sample.server_timing = Some(ServerTiming {
                queue_ms,
                compute_ms: Some(225.0),
                encode_ms: Some(10.0),
            });
            sample
        })
        .collect();
    let plan = plan(
        &json!({"kind": "rate", "url": "http://web-lb/", "rate": 13, "num_conns": 2000, "timeout_s": 10}),
    );
    let run = judged(&plan, &samples, &ended(&samples, 2000.0 / 13.0));
    let title = plain(&run.judgement.title);
    assert!(
        title.starts_with("web-a3 is overloaded at 13 req/s: from "),
        "{title}"
    );
    assert!(
        title.ends_with(" on it answers nobody, yet the median stays at 240 ms"),
        "{title}"
    );
    assert_eq!(first_cause(&run), "target_queue");

    let Summary::Rate(summary) = &run.summary else {
        panic!()
    };
    let view = httperf_view(summary);
    for item in &view.differs {
        println!(
            "{} | {} | {} | {}",
            item.label, item.httperf, item.truth, item.why
        );
    }
    let labels: Vec<_> = view
        .differs
        .iter()
        .map(|item| item.label.as_str())
        .collect();
    assert!(labels.contains(&"Connection rate") && labels.contains(&"Connection time: avg"));
    assert!(view.connection_time_ms.avg < summary.latency_ms.avg);
    let median = view
        .differs
        .iter()
        .find(|item| item.label.ends_with("median"))
        .unwrap();
    assert!(
        plain(&median.truth).contains("10 s or more"),
        "{}",
        median.truth
    );
}

#[test]
fn a_second_without_answers_is_named_although_everything_was_answered() {
    // 20 a second, 30 ms each; from 4 s to 5 s nobody is answered.
    let samples: Vec<_> = (0..200_u32)
        .map(|i| {
            let at = f64::from(i) * 50.0;
            let took = if (3980.0..5000.0).contains(&at) {
                5030.0 - at
            } else {
                30.0
            };
            request(i.into(), at, took, Outcome::Ok)
        })
        .collect();
    let run = rate_run(20.0, &samples);
    title_is(
        &run,
        "127.0.0.1:8000 answers nobody for 1 s, from 4 s on; the longest wait is 1.03 s",
    );
}

#[test]
fn a_target_that_dies_in_the_middle() {
    let samples: Vec<_> = (0..200_u32)
        .map(|i| {
            let outcome = if i < 120 {
                Outcome::Ok
            } else {
                Outcome::ConnectRefused
            };
            request(i.into(), f64::from(i) * 50.0, 10.0, outcome)
        })
        .collect();
    let run = rate_run(20.0, &samples);
    title_is(
        &run,
        "From 6 s on 127.0.0.1:8000 answers nobody: 80 of 200 requests failed",
    );
}

#[test]
fn all_of_one_kind_is_said_with_its_kind() {
    let all = |outcome: Outcome, took: f64| -> Vec<_> {
        (0..20_u32)
            .map(|i| request(i.into(), f64::from(i) * 50.0, took, outcome))
            .collect()
    };
    let end = |samples: &[RequestSample]| ended(samples, 1.0);
    let plan = plan(
        &json!({"kind": "rate", "url": "http://127.0.0.1:9/", "rate": 20, "num_conns": 20, "timeout_s": 0.3}),
    );
    for (outcome, took, expected) in [
        (
            Outcome::ConnectRefused,
            0.1,
            "All 20 requests to 127.0.0.1:9 were refused",
        ),
        (
            Outcome::TtfbTimeout,
            300.0,
            "All 20 requests to 127.0.0.1:9 timed out after 300 ms",
        ),
        (
            Outcome::ConnectTimeout,
            300.0,
            "All 20 requests to 127.0.0.1:9 got no connection within 300 ms",
        ),
        (
            Outcome::Http4xx,
            3.0,
            "All 20 requests to 127.0.0.1:9 were answered with 4xx",
        ),
        (
            Outcome::InvalidReply,
            3.0,
            "What 127.0.0.1:9 answers is not HTTP",
        ),
        (
            Outcome::EmptyReply,
            3.0,
            "127.0.0.1:9 closes every connection without a reply",
        ),
        (
            Outcome::PortExhausted,
            0.1,
            "The generator was the limit: 20 of 20 requests found no local port",
        ),
    ] {
        let samples = all(outcome, took);
        title_is(&judged(&plan, &samples, &end(&samples)), expected);
    }
    let refused = all(Outcome::ConnectRefused, 0.1);
    let run = judged(&plan, &refused, &end(&refused));
    detail_is(
        &run,
        "sums_agree",
        Some(true),
        "0 replies + 20 other ends + 0 unsent = 20",
    );
    assert_eq!(first_cause(&run), "refused");
    let ports = all(Outcome::PortExhausted, 0.1);
    let run = judged(&plan, &ports, &end(&ports));
    assert_eq!(check(&run, "generator_not_limited").ok, Some(false));
    assert_eq!(first_cause(&run), "local_ports");
    let Summary::Rate(summary) = &run.summary else {
        panic!()
    };
    assert!(
        httperf_view(summary)
            .differs
            .iter()
            .any(|item| item.httperf == "addrunavail 0 … other 20")
    );
}

#[test]
fn some_failures_are_counted_by_kind() {
    let samples: Vec<_> = (0..400_u32)
        .map(|i| {
            let outcome = match i % 40 {
                7 | 17 | 27 => Outcome::Http5xx,
                33 => Outcome::ResetBeforeReply,
                _ => Outcome::Ok,
            };
            request(i.into(), f64::from(i) * 25.0, 12.0, outcome)
        })
        .collect();
    let run = rate_run(40.0, &samples);
    title_is(
        &run,
        "10 % of 400 requests to 127.0.0.1:8000 failed: 30 5xx replies, 10 resets",
    );
    assert_eq!(
        run.judgement
            .limits
            .iter()
            .find(|l| l.cause == "server_errors")
            .map(|l| l.share),
        Some(0.075)
    );
}

#[test]
fn a_few_failures_do_not_hide_the_finding() {
    let mut samples = queue(40.0, 400, 4, 12.0, 1e9);
    samples[77].outcome = Outcome::TotalTimeout;
    let run = rate_run(40.0, &samples);
    title_is(
        &run,
        "127.0.0.1:8000 keeps up with 40 req/s: median 12 ms, p99 12 ms; 1 of 400 failed",
    );
}

#[test]
fn a_generator_that_could_not_send_is_the_finding() {
    let samples = queue(2000.0, 4, 4, 1000.0, 1e9);
    let end = Ended {
        planned: Some(5000),
        unsent: 4996,
        ..ended(&samples, 1.0)
    };
    let plan = plan(
        &json!({"kind": "rate", "url": "http://127.0.0.1:8000/", "rate": 5000, "num_conns": 5000, "max_in_flight": 4}),
    );
    let run = judged(&plan, &samples, &end);
    title_is(
        &run,
        "The generator was the limit: 4 996 of 5 000 requests were not sent",
    );
    detail_is(
        &run,
        "generator_not_limited",
        Some(false),
        "4 996 requests not sent (4 in flight allowed)",
    );
    detail_is(
        &run,
        "sums_agree",
        Some(true),
        "4 replies + 4 996 unsent = 5 000",
    );
    assert_eq!(first_cause(&run), "generator");
}

#[test]
fn late_sends_turn_the_check_red_and_the_title_says_so() {
    let mut samples = queue(100.0, 300, 8, 20.0, 1e9);
    for sample in samples.iter_mut().skip(50).step_by(2) {
        sample.started = sample.started.map(|at| at + Duration::from_millis(30));
        sample.ended += Duration::from_millis(30);
    }
    let run = rate_run(100.0, &samples);
    title_is(
        &run,
        "The generator was the limit: 1 % of sends were 30 ms late or more",
    );
    let on_schedule = check(&run, "on_schedule");
    assert_eq!(on_schedule.ok, Some(false));
    assert_eq!(
        plain(&on_schedule.detail),
        "1 % of sends were 30 ms late or more, 2 ms is allowed"
    );
}

#[test]
fn a_few_late_sends_are_a_reservation_and_no_verdict_on_the_run() {
    let mut samples = queue(100.0, 300, 8, 20.0, 1e9);
    for sample in samples.iter_mut().skip(50).step_by(50) {
        sample.started = sample.started.map(|at| at + Duration::from_millis(30));
        sample.ended += Duration::from_millis(30);
    }
    let run = rate_run(100.0, &samples);
    let on_schedule = check(&run, "on_schedule");
    assert_eq!(on_schedule.ok, Some(false));
    assert_eq!(on_schedule.severity, Severity::Warn);
    assert!(
        !run.judgement.title.contains("generator"),
        "{}",
        run.judgement.title
    );
}

#[test]
fn a_busy_generator_thread_is_the_limit() {
    let samples = queue(100.0, 300, 8, 20.0, 1e9);
    let end = Ended {
        cpu_busiest: Duration::from_millis(2900),
        ..ended(&samples, 3.0)
    };
    let run = judged(&rate_plan(100.0, 300), &samples, &end);
    assert_eq!(check(&run, "generator_not_limited").ok, Some(false));
    assert!(
        run.judgement
            .title
            .starts_with("The generator was the limit: its busiest thread")
    );
}

#[test]
fn a_shared_machine_is_a_warning_beside_the_finding() {
    let samples = queue(10.0, 50, 8, 20.0, 1e9);
    let end = Ended {
        same_host: true,
        ..ended(&samples, 5.0)
    };
    let plan =
        plan(&json!({"kind": "rate", "url": "http://127.0.0.1:8000/", "rate": 0, "num_conns": 50}));
    let run = judged(&plan, &samples, &end);
    detail_is(
        &run,
        "not_shared_host",
        Some(false),
        "target and generator share the 4 cores of this machine",
    );
    assert!(
        run.judgement
            .verdict
            .ends_with("Target and generator share this machine, so each slows the other.")
    );
    detail_is(
        &run,
        "on_schedule",
        None,
        "does not apply: each request follows the one before",
    );
    title_is(
        &run,
        "One after another, 127.0.0.1:8000 answers 10 req/s: median 20 ms, slowest 20 ms",
    );
}

#[test]
fn one_request_and_none() {
    let one = [request(0, 0.0, 412.0, Outcome::Ok)];
    let run = rate_run(1.0, &one);
    title_is(&run, "127.0.0.1:8000 answers in 412 ms");
    detail_is(
        &run,
        "on_schedule",
        Some(true),
        "every send within 0 ms of its time",
    );
    detail_is(
        &run,
        "complete",
        Some(true),
        "the one planned request has an outcome",
    );

    let end = Ended {
        planned: Some(0),
        ..Ended::default()
    };
    let none = judged(&rate_plan(1.0, 1), &[], &end);
    title_is(&none, "No request was sent: the plan holds none");
    let stopped = Ended {
        planned: Some(1),
        unsent: 1,
        stopped: true,
        ..Ended::default()
    };
    title_is(
        &judged(&rate_plan(1.0, 1), &[], &stopped),
        "Stopped before any request was sent",
    );
}

#[test]
fn a_stopped_run_says_how_far_it_came() {
    let mut samples = queue(10.0, 124, 8, 20.0, 1e9);
    samples[123].outcome = Outcome::AbortedAtStop;
    let end = Ended {
        planned: Some(300),
        unsent: 176,
        stopped: true,
        ..ended(&samples, 12.4)
    };
    let run = judged(&rate_plan(10.0, 300), &samples, &end);
    detail_is(
        &run,
        "complete",
        Some(false),
        "stopped after 12.3 s of 30 s; 124 of 300 requests have an outcome",
    );
    assert_eq!(check(&run, "generator_not_limited").ok, Some(true));
    title_is(
        &run,
        "127.0.0.1:8000 keeps up with 10 req/s: median 20 ms, p99 20 ms",
    );
}

#[test]
fn few_requests_are_no_rate_and_rising_latency_is_not_keeping_up() {
    title_is(
        &rate_run(10.0, &queue(10.0, 12, 8, 20.0, 1e9)),
        "127.0.0.1:8000 answers all 12 requests: median 20 ms, slowest 20 ms",
    );
    // Served at 9.4 a second of 10: not yet a shortfall of 5 % over the whole duration for a longer drain.
    let run = rate_run(10.0, &queue(10.0, 100, 1, 105.6, 1e9));
    let title = plain(&run.judgement.title);
    assert!(
        title.contains("overloaded at 10 req/s") || title.contains("ever later"),
        "{title}"
    );
    let steps =
        plan(&json!({"kind": "rate", "url": "http://127.0.0.1:8000/", "rate": [[5, 4], [10, 4]]}));
    let mut samples = queue(5.0, 20, 8, 20.0, 1e9);
    samples.extend(queue(10.0, 40, 8, 20.0, 1e9).into_iter().map(|mut sample| {
        let late = Duration::from_secs(4);
        sample.seq += 20;
        sample.scheduled += late;
        sample.started = sample.started.map(|at| at + late);
        sample.ended += late;
        sample
    }));
    let run = judged(&steps, &samples, &ended(&samples, 8.0));
    title_is(
        &run,
        "127.0.0.1:8000 keeps up with up to 10 req/s: median 20 ms, slowest 20 ms",
    );
}

#[test]
fn users_in_a_closed_loop() {
    let samples: Vec<_> = (0..500_u32)
        .map(|i| request(i.into(), f64::from(i / 25) * 240.0, 240.0, Outcome::Ok))
        .collect();
    let plan =
        plan(&json!({"kind": "users", "url": "http://10.0.0.2/", "concurrent": 25, "reps": 20}));
    let run = judged(&plan, &samples, &ended(&samples, 4.8));
    title_is(
        &run,
        "25 users get 104 req/s from 10.0.0.2: median 240 ms, p99 240 ms",
    );
    detail_is(
        &run,
        "on_schedule",
        None,
        "does not apply: a user sends when the user is ready",
    );
}

#[test]
fn sums_that_do_not_agree_are_red() {
    let samples = queue(10.0, 20, 8, 20.0, 1e9);
    let end = Ended {
        planned: Some(25),
        ..ended(&samples, 2.0)
    };
    let run = judged(&rate_plan(10.0, 25), &samples, &end);
    detail_is(
        &run,
        "sums_agree",
        Some(false),
        "20 replies + 0 unsent are not the 25 that were planned",
    );

    // A stored or imported summary whose classes do not sum: 500 replies, 100 of them with a status.
    let end = ended(&samples, 2.0);
    let plan = rate_plan(10.0, 20);
    let (fold, _) = fold_of(&plan, &samples);
    let Summary::Rate(mut summary) = fold.summary(&end) else {
        panic!()
    };
    summary.status.c2xx = 4;
    let judgement = judge(
        &plan,
        &Summary::Rate(summary),
        &HttpSeries::default(),
        &end,
        &Environment::default(),
    );
    let sums = &judgement.checks[2];
    assert_eq!(
        (sums.ok, plain(&sums.detail)),
        (
            Some(false),
            "4 replies have a status, 20 were counted".to_owned()
        )
    );
}

#[test]
fn littles_law_is_checked() {
    let samples = queue(10.0, 100, 8, 200.0, 1e9);
    let end = Ended {
        in_flight_seconds: 70.0,
        ..ended(&samples, 10.0)
    };
    let run = judged(&rate_plan(10.0, 100), &samples, &end);
    detail_is(
        &run,
        "sums_agree",
        Some(false),
        "all latencies sum to 20 s, but what was in flight to 70 s",
    );
}

#[test]
fn a_fetch_names_its_longest_phase() {
    let plan = plan(&json!({"kind": "fetch", "url": "http://127.0.0.1:8000/"}));
    let run = judged(
        &plan,
        &[request(0, 0.0, 412.0, Outcome::Ok)],
        &Ended::default(),
    );
    title_is(&run, "127.0.0.1:8000 answers 200 in 412 ms");
    assert_eq!(
        plain(&run.judgement.verdict),
        "Most of it, 330 ms, is waiting for the first byte."
    );
    let mut refused = request(0, 0.0, 1.0, Outcome::ConnectRefused);
    refused.detail = Some(Arc::from("Connection refused"));
    let run = judged(&plan, &[refused], &Ended::default());
    title_is(
        &run,
        "127.0.0.1:8000 gave no complete reply: connect refused",
    );
}

#[test]
fn a_long_name_never_breaks_a_title() {
    let url = format!("http://{}.example:8000/", "long".repeat(15));
    let plan = plan(&json!({"kind": "rate", "url": url, "rate": 20, "num_conns": 200}));
    let samples = queue(20.0, 200, 1, 100.0, 1e9);
    let run = judged(&plan, &samples, &ended(&samples, 10.0));
    assert!(run.judgement.title.starts_with("The target is overloaded"));
}

#[test]
fn a_running_run_says_what_stands_out() {
    let live = |samples: &[RequestSample], done: f64, rate: f64, until_s: u64| {
        let plan = rate_plan(rate, 315);
        let mut fold = HttpFold::new(&plan);
        for batch in batches(samples)
            .into_iter()
            .take_while(|b| b.until <= Duration::from_secs(until_s))
        {
            fold.push(&batch);
        }
        let summary = fold.summary(&fold.so_far(plan.planned_requests()));
        plain(&live_title(
            &plan,
            &summary,
            &Progress { done, eta_s: None },
        ))
    };
    let growing = queue(7.0, 315, 1, 200.0, 1e9);
    let title = live(&growing, 0.595, 7.0, 26);
    assert_eq!(
        title,
        "59 % of 45 s, 4.96 req/s so far: the queue is growing"
    );
    let fine = queue(7.0, 315, 4, 200.0, 1e9);
    assert!(live(&fine, 0.5, 7.0, 22).ends_with("req/s so far: median 200 ms"));
    assert_eq!(
        live(&fine, 0.0, 7.0, 0),
        "0 % of 45 s: no request has ended yet"
    );
    let refused: Vec<_> = (0..315_u32)
        .map(|i| request(i.into(), f64::from(i) * 142.0, 1.0, Outcome::ConnectRefused))
        .collect();
    assert!(live(&refused, 0.1, 7.0, 5).ends_with("every request has failed"));
}

#[test]
fn httperf_is_left_alone_where_it_is_right() {
    let samples = queue(10.0, 100, 8, 50.3, 1e9);
    let end = Ended {
        cpu_user: Duration::from_secs(9),
        ..ended(&samples, 10.0)
    };
    let plan = rate_plan(10.0, 100);
    let (fold, _) = fold_of(&plan, &samples);
    let Summary::Rate(summary) = fold.summary(&end) else {
        panic!()
    };
    assert_eq!(httperf_view(&summary).differs, []);
}

#[test]
fn httperf_prints_no_rate_for_a_short_run_and_a_median_below_the_minimum() {
    let samples: Vec<_> = [0.6, 0.8, 0.9]
        .into_iter()
        .zip(0_u32..)
        .map(|(took, i)| request(i.into(), f64::from(i) * 50.0, took, Outcome::Ok))
        .collect();
    let plan = rate_plan(20.0, 3);
    let (fold, _) = fold_of(&plan, &samples);
    let Summary::Rate(summary) = fold.summary(&ended(&samples, 0.15)) else {
        panic!()
    };
    let view = httperf_view(&summary);
    assert_eq!(view.connection_time_ms.median, Some(0.5));
    let labels: Vec<_> = view
        .differs
        .iter()
        .map(|item| item.label.as_str())
        .collect();
    assert!(
        labels.contains(&"Connection time: median") && labels.contains(&"Reply rate"),
        "{labels:?}"
    );
}
