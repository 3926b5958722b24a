//! A closed-loop run, in siege's words.

use crate::measure::outcome::Outcome;
use crate::measure::sample::Ended;
use crate::measure::summary::UsersSummary;
use crate::measure::summary::http::{HttpFold, cpu, mean, over};

pub(super) fn summary(fold: &HttpFold, ended: &Ended) -> UsersSummary {
    let elapsed_s = ended.duration.as_secs_f64();
    let counts = &fold.counts;
    let transactions = fold.of(Outcome::Ok);
    // A request cut off because the run was stopped says nothing about the server.
    let tried = counts.ended - fold.of(Outcome::AbortedAtStop);
    let latency = fold.latency();
    let (failures, failures_not_listed) = fold.texts.listed();
    UsersSummary {
        planned: ended.planned,
        unsent: ended.unsent,
        transactions,
        outcomes: fold.outcomes(),
        stale_keepalive_retried: counts.retried,
        availability_percent: mean(transactions, tried).map(|share| share * 100.0),
        elapsed_s,
        data_transferred_bytes: counts.content_received,
        latency_ms: latency.distribution(),
        censored: fold.timed_out.count(),
        transaction_rate_per_s: over(transactions as f64, elapsed_s),
        throughput_bytes_per_s: over(counts.content_received as f64, elapsed_s),
        concurrency: over(ended.in_flight_seconds, elapsed_s),
        successful: transactions,
        failed: tried - transactions,
        longest_s: latency.max_ms().map(|ms| ms / 1000.0),
        shortest_s: latency.min_ms().map(|ms| ms / 1000.0),
        connect_time_ms: fold.connect.distribution(),
        tls_time_ms: fold.tls.distribution(),
        reply_response_ms: fold.response.distribution(),
        reply_transfer_ms: fold.transfer.distribution(),
        connections: fold.connections(),
        status: fold.status.clone(),
        errors: fold.errors(),
        cpu: cpu(ended),
        server_timing_ms: fold.server_timing_figures(),
        served_by: fold.backends.served_by(),
        regions: fold.regions.served_by(),
        failures,
        failures_not_listed,
    }
}
