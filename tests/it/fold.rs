//! Requests in, figures out: known answers worked by hand, and properties of merging.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::json;
use tidemark::measure::outcome::Outcome;
use tidemark::measure::plan::{Caps, Plan};
use tidemark::measure::rows;
use tidemark::measure::sample::{Batch, ConnectionSample, Ended, RequestSample, ServerTiming};
use tidemark::measure::series::HttpSeries;
use tidemark::measure::summary::http::{ClosedSecond, HttpFold};
use tidemark::measure::summary::{RateSummary, Summary, UsersSummary};

pub fn plan(value: &serde_json::Value) -> Plan {
    Plan::from_json(value, &Caps::default()).unwrap()
}

pub fn rate_plan(rate: f64, num_conns: u64) -> Plan {
    plan(
        &json!({"kind": "rate", "url": "http://127.0.0.1:8000/", "rate": rate, "num_conns": num_conns}),
    )
}

pub fn ms(millis: f64) -> Duration {
    Duration::from_secs_f64(millis / 1000.0)
}

/// A request due at this instant that took so long from its start, begun on time.
pub fn request(seq: u64, at_ms: f64, took_ms: f64, outcome: Outcome) -> RequestSample {
    let reply = outcome.is_reply();
    let status = match outcome {
        Outcome::Ok => Some(200),
        Outcome::Http4xx => Some(404),
        Outcome::Http5xx => Some(503),
        _ => None,
    };
    RequestSample {
        seq,
        url: 0,
        scheduled: ms(at_ms),
        started: Some(ms(at_ms)),
        connect: reply.then(|| ms(took_ms * 0.1)),
        tls: None,
        wrote: reply.then(|| ms(took_ms * 0.2)),
        first_byte: reply.then(|| ms(took_ms * 0.9)),
        ended: ms(at_ms + took_ms),
        status,
        header_bytes: if reply { 100 } else { 0 },
        content_bytes: if reply { 1000 } else { 0 },
        footer_bytes: 0,
        sent_bytes: 80,
        outcome,
        retried_stale: false,
        served_by: None,
        region: None,
        server_timing: None,
        detail: None,
    }
}

/// What a runner says at the end of a run of these requests.
pub fn ended(samples: &[RequestSample], window_s: f64) -> Ended {
    Ended {
        duration: samples.iter().map(|s| s.ended).max().unwrap_or_default(),
        send_window: Duration::from_secs_f64(window_s),
        planned: Some(samples.len() as u64),
        in_flight_seconds: samples
            .iter()
            .filter_map(RequestSample::service_time)
            .map(|time| time.as_secs_f64())
            .sum(),
        threads: 1,
        ..Ended::default()
    }
}

/// Batches of 250 ms, as a runner hands them over.
pub fn batches(samples: &[RequestSample]) -> Vec<Batch> {
    let end = samples.iter().map(|s| s.ended).max().unwrap_or_default();
    let mut from = Duration::ZERO;
    let mut batches = Vec::new();
    loop {
        let until = from + Duration::from_millis(250);
        let within = |at: Duration| at < until && (at >= from);
        let requests: Vec<_> = samples
            .iter()
            .filter(|s| within(s.ended))
            .cloned()
            .collect();
        let connections = requests
            .iter()
            .map(|sample| ConnectionSample {
                started: sample.started.unwrap_or(sample.scheduled),
                ended: sample.ended,
                connect: sample.connect,
                tls: sample.tls,
                replies: u32::from(sample.outcome.is_reply()),
            })
            .collect();
        let begun = samples.iter().filter(|s| s.started.is_some_and(within));
        let in_flight = samples
            .iter()
            .filter(|s| s.started.is_some_and(|at| at < until) && s.ended >= until);
        batches.push(Batch {
            until,
            requests,
            connections,
            sent: begun.count() as u64,
            unsent: 0,
            in_flight: u32::try_from(in_flight.count()).unwrap(),
            open_connections: 0,
        });
        if until > end {
            return batches;
        }
        from = until;
    }
}

pub fn fold_of(plan: &Plan, samples: &[RequestSample]) -> (HttpFold, Vec<ClosedSecond>) {
    let mut fold = HttpFold::new(plan);
    let mut seconds = Vec::new();
    for batch in batches(samples) {
        seconds.extend(fold.push(&batch));
    }
    let end = samples.iter().map(|s| s.ended).max().unwrap_or_default();
    seconds.extend(fold.finish_seconds(end));
    (fold, seconds)
}

fn rate_of(summary: Summary) -> RateSummary {
    match summary {
        Summary::Rate(summary) => *summary,
        other => panic!("not a rate summary: {other:?}"),
    }
}

fn users_of(summary: Summary) -> UsersSummary {
    match summary {
        Summary::Users(summary) => *summary,
        other => panic!("not a users summary: {other:?}"),
    }
}

fn rate_run(rate: f64, samples: &[RequestSample]) -> (RateSummary, HttpSeries) {
    let plan = rate_plan(rate, samples.len() as u64);
    let (fold, _) = fold_of(&plan, samples);
    let end = ended(samples, samples.len() as f64 / rate);
    (rate_of(fold.summary(&end)), fold.series(&end))
}

fn near(found: Option<f64>, expected: f64) {
    let found = found.expect("a figure");
    assert!(
        (found / expected - 1.0).abs() < 0.001,
        "{found} instead of {expected}"
    );
}

#[test]
fn timeouts_are_inside_the_percentiles_and_beside_them() {
    // Nine replies of 1 ms and one that never comes, given up after 300 ms.
    let samples: Vec<_> = (0..10_u32)
        .map(|i| {
            let (took, outcome) = if i == 4 {
                (300.0, Outcome::TtfbTimeout)
            } else {
                (1.0, Outcome::Ok)
            };
            request(i.into(), f64::from(i) * 100.0, took, outcome)
        })
        .collect();
    let (summary, series) = rate_run(10.0, &samples);
    near(summary.latency_ms.p95, 300.0);
    near(summary.latency_ms.p90, 1.0);
    near(summary.latency_ms.avg, 30.9);
    assert_eq!(summary.censored, 1);
    assert_eq!(summary.outcomes["ttfb_timeout"], 1);
    assert_eq!(summary.errors.client_timo, 1);
    assert_eq!(summary.latency_ms.count, 10);
    // httperf's figure knows only the nine.
    near(summary.connection_time_ms.max, 1.0);
    assert_eq!(series.no_reply, 1);
    assert!(
        series
            .percentiles_all
            .iter()
            .all(|p| !p.censored || p.latency_ms > Some(299.0))
    );
}

#[test]
fn a_run_of_three_replies_has_a_reply_rate_and_figures_inside_its_extremes() {
    let samples: Vec<_> = [0.6, 0.8, 0.9]
        .into_iter()
        .zip(0_u32..)
        .map(|(took, i)| request(i.into(), f64::from(i) * 50.0, took, Outcome::Ok))
        .collect();
    let (summary, _) = rate_run(20.0, &samples);
    near(summary.connection_time_ms.median, 0.8);
    assert_eq!(summary.reply_rate_per_s.samples, 1);
    near(summary.reply_rate_per_s.avg, 3.0 / 0.1009);
    near(summary.reply_rate_per_s.min, 3.0 / 0.1009);
    let latency = summary.latency_ms;
    for figure in [
        latency.p50,
        latency.p90,
        latency.p99,
        latency.p99_9,
        latency.avg,
    ] {
        assert!(figure >= latency.min && figure <= latency.max);
    }
}

#[test]
fn the_drain_does_not_lower_the_offered_rate() {
    // 20 requests at 20 a second to a server that takes 100 ms for each, one after another.
    let samples: Vec<_> = (0..20_u32)
        .map(|i| {
            let (at, end) = (f64::from(i) * 50.0, f64::from(i + 1) * 100.0);
            request(i.into(), at, end - at, Outcome::Ok)
        })
        .collect();
    let (summary, series) = rate_run(20.0, &samples);
    near(summary.offered_per_s, 20.0);
    near(summary.achieved_per_s, 10.0);
    near(Some(summary.duration_s), 2.0);
    near(Some(summary.send_window_s), 1.0);
    near(summary.latency_ms.max, 1050.0);
    assert_eq!(series.dots.as_ref().map(Vec::len), Some(20));
    assert_eq!(series.planned_s, Some(1.0));
}

#[test]
fn refused_requests_have_no_latency_and_no_figure_is_nan() {
    let samples: Vec<_> = (0..20_u32)
        .map(|i| {
            let mut sample = request(i.into(), f64::from(i) * 50.0, 0.1, Outcome::ConnectRefused);
            sample.detail = Some(Arc::from("Connection refused (os error 111)"));
            sample
        })
        .collect();
    let (summary, series) = rate_run(20.0, &samples);
    assert_eq!(summary.latency_ms.avg, None);
    assert_eq!(summary.latency_ms.count, 0);
    assert_eq!(summary.replies, 0);
    assert_eq!(summary.reply_size_bytes.total, None);
    assert_eq!(summary.errors.connrefused, 20);
    assert_eq!(summary.failures.len(), 1);
    assert_eq!(
        (summary.failures[0].count, summary.failures_not_listed),
        (20, 0)
    );
    assert!(series.histogram.is_empty() && series.percentiles_replies.is_empty());
    assert!(
        series
            .percentiles_all
            .iter()
            .all(|point| point.latency_ms.is_none())
    );
    let text = serde_json::to_string(&summary).unwrap();
    assert!(!text.contains("NaN") && text.contains("\"avg\":null"));
}

#[test]
fn every_outcome_is_a_key_and_all_of_them_and_the_unsent_sum_to_the_plan() {
    let samples: Vec<_> = Outcome::ALL
        .into_iter()
        .zip(0_u32..)
        .map(|(outcome, i)| request(i.into(), f64::from(i) * 10.0, 5.0, outcome))
        .collect();
    let plan = rate_plan(100.0, 30);
    let (fold, _) = fold_of(&plan, &samples);
    let end = Ended {
        planned: Some(30),
        unsent: 7,
        ..ended(&samples, 0.3)
    };
    let summary = rate_of(fold.summary(&end));
    assert_eq!(summary.outcomes.len(), 23);
    assert_eq!(
        summary.outcomes.values().sum::<u64>() + summary.unsent,
        summary.planned
    );
    assert_eq!(summary.errors.client_timo, 4);
    assert_eq!(summary.errors.socket_timo, 1);
    assert_eq!(summary.errors.connreset, 4);
    assert_eq!(summary.errors.addrunavail, 1);
    assert_eq!(summary.errors.fd_unavail, 1);
    assert_eq!(summary.errors.ftab_full, 1);
    assert_eq!(summary.errors.other, 5);
    // All but the four replies and the request that was cut off.
    assert_eq!(summary.errors.total, 18);
    let status = &summary.status;
    assert_eq!((status.c2xx, status.c4xx, status.c5xx), (1, 1, 1));
    assert_eq!(summary.replies, 4);
}

#[test]
fn fast_error_pages_do_not_pull_the_failures_out_of_sight() {
    let samples: Vec<_> = (0..100_u32)
        .map(|i| {
            let (took, outcome) = if i % 2 == 0 {
                (1.0, Outcome::Http5xx)
            } else {
                (200.0, Outcome::Ok)
            };
            request(i.into(), f64::from(i) * 20.0, took, outcome)
        })
        .collect();
    let (summary, _) = rate_run(50.0, &samples);
    // Error pages are replies, but not what was asked for.
    assert_eq!(
        (
            summary.replies,
            summary.outcomes["ok"],
            summary.outcomes["http_5xx"]
        ),
        (100, 50, 50)
    );
    near(summary.achieved_per_s, 50.0 / 2.18);
    near(summary.reply_rate_per_s.avg, 100.0 / 2.18);
}

#[test]
fn each_phase_is_averaged_over_its_own_requests() {
    let samples: Vec<_> = (0..4_u32)
        .map(|i| {
            let mut sample = request(i.into(), f64::from(i) * 200.0, 100.0, Outcome::Ok);
            if i > 0 {
                sample.connect = None; // A kept connection.
            }
            sample
        })
        .collect();
    let (summary, _) = rate_run(5.0, &samples);
    let connect = summary.connect_time_ms;
    near(connect.avg, 10.0);
    assert_eq!(connect.count, 1);
    near(summary.reply_response_ms.avg, 70.0);
    near(summary.reply_transfer_ms.avg, 10.0);
    assert_eq!(summary.tls_time_ms.count, 0);
    assert_eq!(summary.tls_time_ms.avg, None);
}

#[test]
fn six_requests_have_six_values_and_a_curve_that_ends_at_five_sixths() {
    let samples: Vec<_> = (0..6_u32)
        .map(|i| {
            request(
                i.into(),
                f64::from(i) * 100.0,
                f64::from(i + 1) * 10.0,
                Outcome::Ok,
            )
        })
        .collect();
    let (summary, series) = rate_run(10.0, &samples);
    assert_eq!(summary.latency_ms.count, 6);
    near(summary.latency_ms.p99, 60.0);
    let last = series.percentiles_all.last().unwrap();
    near(Some(last.share), 5.0 / 6.0);
}

#[test]
fn hanging_users_are_concurrent_too() {
    // Four users, nothing ever comes, each gives up after 5 s.
    let samples: Vec<_> = (0..8_u32)
        .map(|i| {
            request(
                i.into(),
                f64::from(i / 4) * 5000.0,
                5000.0,
                Outcome::TtfbTimeout,
            )
        })
        .collect();
    let plan = plan(
        &json!({"kind": "users", "url": "http://127.0.0.1:8000/", "concurrent": 4, "reps": 2}),
    );
    let (fold, _) = fold_of(&plan, &samples);
    let summary = users_of(fold.summary(&ended(&samples, 10.0)));
    near(summary.concurrency, 4.0);
    near(summary.longest_s, 5.0);
    assert_eq!((summary.transactions, summary.failed), (0, 8));
    assert_eq!(summary.availability_percent, Some(0.0));
    assert_eq!(summary.transaction_rate_per_s, Some(0.0));
}

#[test]
fn availability_is_a_share_of_what_was_tried_and_404_is_not_available() {
    let mut samples: Vec<_> = (0..8_u32)
        .map(|i| request(i.into(), f64::from(i) * 100.0, 50.0, Outcome::Ok))
        .collect();
    samples[1].outcome = Outcome::Http4xx;
    samples[2].outcome = Outcome::ConnectRefused;
    samples[7].outcome = Outcome::AbortedAtStop;
    let plan = plan(
        &json!({"kind": "users", "url": "http://127.0.0.1:8000/", "concurrent": 1, "duration_s": 1}),
    );
    let (fold, _) = fold_of(&plan, &samples);
    let summary = users_of(fold.summary(&Ended {
        planned: None,
        ..ended(&samples, 1.0)
    }));
    near(summary.availability_percent, 500.0 / 7.0);
    assert_eq!(
        (summary.successful, summary.failed, summary.planned),
        (5, 2, None)
    );
}

#[test]
fn one_fetched_url_has_its_phases() {
    let plan = plan(&json!({"kind": "fetch", "url": "http://127.0.0.1:8000/"}));
    let (fold, _) = fold_of(&plan, &[request(0, 0.0, 40.0, Outcome::Ok)]);
    let end = Ended {
        lookup: Some(ms(2.0)),
        addresses: vec!["127.0.0.1:8000".parse().unwrap()],
        ..Ended::default()
    };
    let Summary::Fetch(summary) = fold.summary(&end) else {
        panic!()
    };
    near(summary.connect_ms, 4.0);
    near(summary.first_byte_ms, 36.0);
    near(summary.total_ms, 40.0);
    near(summary.lookup_ms, 2.0);
    assert_eq!(
        (summary.status, summary.size_bytes),
        (Some(200), Some(1000))
    );
    assert_eq!(summary.addresses, ["127.0.0.1:8000"]);
}

#[test]
fn seconds_sum_to_the_run_and_the_last_one_ends_with_it() {
    let samples: Vec<_> = (0..70_u32)
        .map(|i| {
            let outcome = if i % 10 == 9 {
                Outcome::ResetInBody
            } else {
                Outcome::Ok
            };
            request(i.into(), f64::from(i) * 50.0, 130.0, outcome)
        })
        .collect();
    let (fold, seconds) = fold_of(&rate_plan(20.0, 70), &samples);
    assert_eq!(seconds.len(), 4);
    let intervals: Vec<_> = seconds.iter().map(|second| &second.interval).collect();
    assert_eq!(intervals.iter().map(|i| i.requests).sum::<u64>(), 70);
    assert_eq!(intervals.iter().map(|i| i.replies).sum::<u64>(), 63);
    assert_eq!(intervals.iter().map(|i| i.errors).sum::<u64>(), 7);
    assert_eq!(intervals[1].requests, 20);
    assert_eq!((intervals[1].start_s, intervals[1].end_s), (1.0, 2.0));
    near(Some(intervals[3].end_s), 3.58);
    near(intervals[1].latency_avg_ms, 130.0);
    near(intervals[1].latency_p99_ms, 130.0);
    // Those begun at 0.90 and 0.95 s.
    assert_eq!(intervals[0].in_flight, 2);
    assert_eq!(fold.total_rows(), 70);
    let rows: u64 = seconds.iter().map(|second| second.rows_count).sum();
    assert_eq!(rows, 70);
    let read: usize = seconds
        .iter()
        .map(|s| rows::decode(&s.rows).map(Result::unwrap).count())
        .sum();
    assert_eq!(read, 70);
}

#[test]
fn backends_are_told_apart_and_their_parts_sum_to_their_mean_latency() {
    let names: [Arc<str>; 2] = [Arc::from("web-a"), Arc::from("web-b")];
    let samples: Vec<_> = (0..40_u32)
        .map(|i| {
            let slow = i % 2 == 1;
            let took = if slow { 400.0 } else { 100.0 };
            let mut sample = request(i.into(), f64::from(i) * 50.0, took, Outcome::Ok);
            sample.started = Some(sample.scheduled + ms(1.0));
            sample.ended += ms(1.0);
            sample.served_by = Some(Arc::clone(&names[usize::from(slow)]));
            sample.server_timing = Some(ServerTiming {
                queue_ms: Some(if slow { 250.0 } else { 0.0 }),
                compute_ms: Some(60.0),
                encode_ms: Some(5.0),
            });
            sample
        })
        .collect();
    let (summary, series) = rate_run(20.0, &samples);
    assert_eq!(summary.served_by["web-b"].replies, 20);
    let p50 = summary.served_by["web-b"].latency_p50_ms.unwrap();
    assert!((p50 / 401.0 - 1.0).abs() < 0.01);
    assert_eq!(summary.regions.len(), 0);
    let timing = summary.server_timing_ms.unwrap();
    near(timing.queue.avg, 125.0);
    let split = &series.split["web-b"];
    near(split.queue_ms, 250.0);
    near(split.compute_ms, 65.0);
    near(Some(split.lateness_ms), 1.0);
    near(Some(split.transfer_ms), 40.0);
    near(Some(split.connect_ms), 40.0);
    let parts = split.lateness_ms
        + split.connect_ms
        + split.tls_ms
        + split.transfer_ms
        + split.queue_ms.unwrap()
        + split.compute_ms.unwrap()
        + split.rest_ms;
    near(Some(parts), 401.0);
    assert_eq!(
        series
            .bins
            .iter()
            .filter_map(|bin| bin.served_by.get("web-a"))
            .sum::<u64>(),
        20
    );
}

#[test]
fn memory_and_series_stay_bounded_however_many_requests_and_texts() {
    let mut fold = HttpFold::new(&rate_plan(10_000.0, 100_000));
    let name = |i: u64| Some(Arc::from(format!("backend-{i}")));
    let mut batch = Batch {
        until: Duration::from_secs(11),
        ..Batch::default()
    };
    for seq in 0..100_000_u32 {
        let failed = seq % 2 == 0;
        let outcome = if failed {
            Outcome::InvalidReply
        } else {
            Outcome::Ok
        };
        let mut sample = request(seq.into(), f64::from(seq) / 10.0, 3.0, outcome);
        sample.served_by = if failed {
            None
        } else {
            name(u64::from(seq) % 5000)
        };
        sample.detail = failed.then(|| Arc::from(format!("text {seq}")));
        batch.requests.push(sample);
    }
    fold.push(&batch);
    let end = fold.so_far(Some(100_000));
    let summary = rate_of(fold.summary(&end));
    assert_eq!(summary.served_by.len(), 65);
    assert_eq!(
        summary.served_by.values().map(|by| by.replies).sum::<u64>(),
        50_000
    );
    assert_eq!(summary.failures.len(), 20);
    let listed: u64 = summary.failures.iter().map(|text| text.count).sum();
    assert_eq!(listed + summary.failures_not_listed, 50_000);
    let series = fold.series(&end);
    assert!(series.bins.len() <= 250 && series.histogram.len() <= 60);
    assert!(series.dots.is_none());
    assert!(serde_json::to_string(&summary).unwrap().len() < 20_000);
}

#[test]
fn an_interrupted_run_is_rebuilt_from_its_seconds() {
    let samples: Vec<_> = (0..300_u32)
        .map(|i| {
            let outcome = if i % 50 == 7 {
                Outcome::TotalTimeout
            } else {
                Outcome::Ok
            };
            request(
                i.into(),
                f64::from(i) * 20.0,
                f64::from(20 + i % 13),
                outcome,
            )
        })
        .collect();
    let plan = rate_plan(50.0, 300);
    let (fold, seconds) = fold_of(&plan, &samples);
    let rows: Vec<_> = seconds.iter().map(|second| second.rows.clone()).collect();
    let histograms: Vec<_> = seconds
        .iter()
        .map(|second| second.histogram.clone())
        .collect();
    let intervals: Vec<_> = seconds
        .iter()
        .map(|second| second.interval.clone())
        .collect();
    let end = fold.cut_off(Some(310));
    assert_eq!((end.unsent, end.stopped), (10, true));
    let whole = rate_of(fold.summary(&end));

    let again = HttpFold::from_stored(&plan, &rows, &intervals, &histograms);
    let kept = rate_of(again.summary(&end));
    assert_eq!(kept.outcomes, whole.outcomes);
    assert_eq!(kept.latency_ms, whole.latency_ms);
    assert_eq!(again.series(&end).bins, fold.series(&end).bins);

    // Rows that were not kept come back from the histograms.
    let none: Vec<Vec<u8>> = vec![Vec::new(); rows.len()];
    let rough = HttpFold::from_stored(&plan, &none, &intervals, &histograms);
    let rough = rate_of(rough.summary(&end));
    assert_eq!(rough.outcomes["ok"], whole.outcomes["ok"]);
    near(rough.latency_ms.p50, whole.latency_ms.p50.unwrap());
}

fn samples() -> impl Strategy<Value = Vec<RequestSample>> {
    let one = (
        0_u64..20_000,
        0_u64..9_000_000,
        0_usize..23,
        0_u8..70,
        any::<bool>(),
    );
    prop::collection::vec(one, 0..120).prop_map(|all| {
        all.into_iter()
            .zip(0..)
            .map(|((at, micros, outcome, name, timed), seq)| {
                let outcome = Outcome::ALL[outcome];
                let mut sample = request(seq, at as f64, micros as f64 / 1000.0, outcome);
                sample.served_by = (name > 0).then(|| Arc::from(format!("n{name}")));
                sample.region = (name % 3 > 0).then(|| Arc::from(format!("r{}", name % 3)));
                sample.detail = (outcome != Outcome::Ok).then(|| Arc::from(format!("why {name}")));
                sample.server_timing = timed.then_some(ServerTiming {
                    queue_ms: Some(f32::from(name)),
                    compute_ms: None,
                    encode_ms: Some(0.5),
                });
                sample
            })
            .collect()
    })
}

fn figures(plan: &Plan, parts: &[&[RequestSample]], end: &Ended) -> (Summary, HttpSeries) {
    let batch = |samples: &[RequestSample]| Batch {
        until: Duration::from_mins(1),
        requests: samples.to_vec(),
        sent: samples.len() as u64,
        ..Batch::default()
    };
    let mut folds = parts.iter().map(|samples| {
        let mut fold = HttpFold::new(plan);
        fold.push(&batch(samples));
        fold
    });
    let mut first = folds.next().unwrap();
    folds.for_each(|fold| first.merge(fold));
    (first.summary(end), first.series(end))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn merged_folds_equal_one_fold_of_all_in_any_order(
        all in samples(), seed in any::<u64>(), users in any::<bool>()
    ) {
        let plan = if users {
            plan(&json!({"kind": "users", "url": "http://127.0.0.1:8000/", "concurrent": 4, "duration_s": 20}))
        } else {
            rate_plan(10.0, 200)
        };
        let end = ended(&all, 20.0);
        let whole = figures(&plan, &[&all], &end);
        let mut mixed = all.clone();
        mixed.sort_by_key(|s| s.seq.wrapping_mul(seed | 1));
        let cut = if mixed.is_empty() { 0 } else { usize::try_from(seed % mixed.len() as u64).unwrap() };
        let (left, right) = mixed.split_at(cut);
        prop_assert_eq!(&figures(&plan, &[left, right], &end), &whole);
        prop_assert_eq!(&figures(&plan, &[right, left], &end), &whole);
    }

    #[test]
    fn outcomes_bins_and_curves_count_each_request_once(all in samples()) {
        let (summary, series) = figures(&rate_plan(10.0, 200), &[&all], &ended(&all, 20.0));
        let summary = rate_of(summary);
        prop_assert_eq!(summary.outcomes.values().sum::<u64>(), all.len() as u64);
        prop_assert_eq!(series.bins.iter().map(|b| b.requests).sum::<u64>(), all.len() as u64);
        prop_assert_eq!(series.bins.iter().map(|b| b.ended_replies).sum::<u64>(), summary.replies);
        prop_assert_eq!(series.histogram.iter().map(|b| b.count).sum::<u64>(), summary.latency_ms.count);
        prop_assert_eq!(series.dots.map(|d| d.len()), Some(all.len()));
        for split in series.split.values() {
            prop_assert!(split.rest_ms >= 0.0);
        }
    }

    #[test]
    fn rows_survive_encoding(all in samples()) {
        let bytes = rows::encode(&all);
        let read: Vec<_> = rows::decode(&bytes).map(Result::unwrap).collect();
        prop_assert_eq!(read.len(), all.len());
        let close = |a: Option<Duration>, b: Option<Duration>| match (a, b) {
            (Some(a), Some(b)) => a.abs_diff(b) <= Duration::from_nanos(50),
            (a, b) => a == b,
        };
        for (read, written) in read.iter().zip(&all) {
            prop_assert!(close(read.started, written.started));
            prop_assert!(close(read.first_byte, written.first_byte));
            prop_assert!(close(Some(read.ended), Some(written.ended)));
            prop_assert_eq!(&read.served_by, &written.served_by);
            prop_assert_eq!(&read.detail, &written.detail);
            prop_assert_eq!(read.server_timing, written.server_timing);
            prop_assert_eq!((read.seq, read.outcome, read.status), (written.seq, written.outcome, written.status));
            prop_assert_eq!(read.content_bytes, written.content_bytes);
        }
    }

    #[test]
    fn any_bytes_decode_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut bytes = bytes;
        rows::decode(&bytes).for_each(drop);
        if let Some(first) = bytes.first_mut() {
            *first = 1;
        }
        rows::decode(&bytes).for_each(drop);
    }
}

#[test]
fn rows_cut_or_flipped_anywhere_end_in_an_error_or_fewer_rows() {
    let mut sample = request(7, 1234.5, 20.0, Outcome::Truncated);
    sample.served_by = Some(Arc::from("web-ä"));
    sample.detail = Some(Arc::from("10 of 100 bytes"));
    let bytes = rows::encode(&[sample.clone(), sample]);
    for cut in 0..bytes.len() {
        assert!(rows::decode(&bytes[..cut]).flatten().count() < 2);
    }
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut bytes = bytes.clone();
            bytes[at] ^= 1 << bit;
            assert!(rows::decode(&bytes).count() <= bytes.len());
        }
    }
    assert_eq!(
        rows::decode(&[9]).next(),
        Some(Err(rows::RowsError::Version(9)))
    );
}
