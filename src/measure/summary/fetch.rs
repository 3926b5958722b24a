//! One request in its phases, in curl's words.

use std::time::Duration;

use crate::measure::sample::Ended;
use crate::measure::summary::FetchSummary;
use crate::measure::summary::http::HttpFold;

/// The phases of the only request; every figure is missing until it has ended.
pub(super) fn summary(fold: &HttpFold, ended: &Ended) -> FetchSummary {
    let addresses = ended.addresses.iter().map(ToString::to_string).collect();
    let lookup_ms = ended.lookup.map(ms);
    let Some(sample) = fold.first.as_deref() else {
        return FetchSummary {
            lookup_ms,
            addresses,
            ..FetchSummary::default()
        };
    };
    let reply = sample.outcome.is_reply();
    FetchSummary {
        lookup_ms,
        connect_ms: sample.connect.map(ms),
        tls_ms: sample.tls.map(ms),
        first_byte_ms: sample.first_byte.map(ms),
        total_ms: sample.service_time().filter(|_| reply).map(ms),
        status: sample.status,
        size_bytes: reply.then_some(sample.content_bytes),
        served_by: sample.served_by.as_deref().map(str::to_owned),
        region: sample.region.as_deref().map(str::to_owned),
        addresses,
        outcome: sample.outcome.key().to_owned(),
        detail: sample.detail.as_deref().map(str::to_owned),
        server_timing_ms: fold.server_timing_figures(),
    }
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}
