//! An open-loop run, in httperf's words.

use crate::measure::outcome::Outcome;
use crate::measure::sample::Ended;
use crate::measure::stats::moments::Moments;
use crate::measure::summary::http::{HttpFold, cpu, mean, over};
use crate::measure::summary::{RateSummary, ReplyRate, ReplySize};

/// The length of httperf's samples of the reply rate, in s.
const SAMPLE_S: f64 = 5.0;

pub(super) fn summary(fold: &HttpFold, ended: &Ended) -> RateSummary {
    let duration_s = ended.duration.as_secs_f64();
    let send_window_s = ended.send_window.as_secs_f64();
    let counts = &fold.counts;
    let ok = fold.of(Outcome::Ok);
    let latency = fold.latency();
    let bytes = counts.bytes_sent + counts.bytes_received;
    let (failures, failures_not_listed) = fold.texts.listed();
    RateSummary {
        planned: ended.planned.unwrap_or(counts.ended + ended.unsent),
        unsent: ended.unsent,
        connections: fold.connections(),
        requests: counts.written,
        replies: counts.replies,
        outcomes: fold.outcomes(),
        stale_keepalive_retried: counts.retried,
        send_window_s,
        duration_s,
        offered_per_s: over(fold.begun() as f64, send_window_s),
        // The last reply may come before the last gap is over: that is no more than was offered.
        achieved_per_s: over(ok as f64, duration_s.max(send_window_s)),
        latency_ms: latency.distribution(),
        censored: fold.timed_out.count(),
        service_time_ms: fold.service.distribution(),
        lateness_ms: fold.lateness.distribution(),
        connection_rate_per_s: over(fold.connections() as f64, duration_s),
        request_rate_per_s: over(counts.written as f64, duration_s),
        reply_rate_per_s: reply_rate(&fold.five_seconds, counts.replies, duration_s),
        connection_time_ms: fold.connection_time.distribution(),
        connect_time_ms: fold.connect.distribution(),
        tls_time_ms: fold.tls.distribution(),
        connection_length_replies: mean(
            counts.replies_on_connections,
            counts.connections_with_reply,
        ),
        concurrent_max: u64::from(ended.concurrent_max),
        connect_burst_length: u64::from(ended.burst_max),
        request_size_bytes: mean(counts.bytes_sent, counts.written),
        reply_response_ms: fold.response.distribution(),
        reply_transfer_ms: fold.transfer.distribution(),
        reply_size_bytes: ReplySize {
            header: mean(counts.reply_header, counts.replies),
            content: mean(counts.reply_content, counts.replies),
            footer: mean(counts.reply_footer, counts.replies),
            total: mean(
                counts.reply_header + counts.reply_content + counts.reply_footer,
                counts.replies,
            ),
        },
        status: fold.status.clone(),
        net_io_bytes_per_s: over(bytes as f64, duration_s),
        errors: fold.errors(),
        cpu: cpu(ended),
        server_timing_ms: fold.server_timing_figures(),
        served_by: fold.backends.served_by(),
        regions: fold.regions.served_by(),
        failures,
        failures_not_listed,
    }
}

/// Samples over five seconds each; a rest of less than half of that is part of the sample before it, so that
/// no reply is left out. avg = replies / duration.
fn reply_rate(five_seconds: &[u64], replies: u64, duration_s: f64) -> ReplyRate {
    if duration_s <= 0.0 {
        return ReplyRate::default();
    }
    let full = (duration_s / SAMPLE_S).floor();
    let rest = duration_s - full * SAMPLE_S;
    let samples = if rest >= SAMPLE_S / 2.0 || full < 1.0 {
        full + 1.0
    } else {
        full
    };
    let mut moments = Moments::default();
    let (mut min, mut max) = (f64::INFINITY, 0.0_f64);
    let mut counted = 0;
    let mut index = 0.0;
    let mut windows = five_seconds.iter();
    while index < samples {
        let is_last = index + 1.0 >= samples;
        let count = if is_last {
            replies.saturating_sub(counted)
        } else {
            windows.next().copied().unwrap_or(0)
        };
        counted += count;
        let length = if is_last {
            duration_s - index * SAMPLE_S
        } else {
            SAMPLE_S
        };
        let rate = count as f64 / length;
        moments.push(in_nanos(rate));
        (min, max) = (min.min(rate), max.max(rate));
        index += 1.0;
    }
    ReplyRate {
        min: Some(min),
        avg: Some(replies as f64 / duration_s),
        max: Some(max),
        stddev: moments.stddev().map(|stddev| stddev / 1e9),
        samples: moments.count(),
    }
}

/// A rate with nine decimals as a whole number.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "rates are finite and not negative"
)]
fn in_nanos(rate: f64) -> u64 {
    (rate * 1e9).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_run_is_one_sample_of_replies_over_its_duration() {
        let rate = reply_rate(&[3], 3, 0.15);
        assert_eq!(rate.samples, 1);
        assert_eq!(
            (rate.min, rate.avg, rate.max),
            (Some(20.0), Some(20.0), Some(20.0))
        );
        assert_eq!(rate.stddev, None);
    }

    #[test]
    fn the_last_partial_window_is_counted() {
        // 50, 50 and 30 in 5, 5 and 3 s; then a rest of 1 s that joins the window before it.
        let rate = reply_rate(&[50, 50, 30], 130, 13.0);
        assert_eq!(
            (rate.samples, rate.min, rate.max),
            (3, Some(10.0), Some(10.0))
        );
        let joined = reply_rate(&[50, 50, 8], 108, 11.0);
        assert_eq!(joined.samples, 2);
        assert!((joined.min.unwrap() - 58.0 / 6.0).abs() < 1e-9);
        // (10 − 9.6667)² · 2 / 4 under the root.
        assert!((joined.stddev.unwrap() - 0.235_702).abs() < 1e-5);
    }

    #[test]
    fn no_time_has_no_rate() {
        assert_eq!(reply_rate(&[], 0, 0.0), ReplyRate::default());
    }
}
