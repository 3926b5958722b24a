//! A fold made again from what was stored, for a run whose process ended before it did.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;

use crate::measure::outcome::Outcome;
use crate::measure::plan::Plan;
use crate::measure::rows;
use crate::measure::stats::spread::nanos;
use crate::measure::summary::HttpInterval;
use crate::measure::summary::counts::count_at;
use crate::measure::summary::http::HttpFold;
use crate::measure::summary::timeline::Mark;

impl HttpFold {
    /// The fold of a run's stored seconds; `rows` and `histograms` in the order of `intervals`.
    ///
    /// Requests whose rows were not kept were all answered with success: their latencies come from the
    /// histograms, their sizes, backends and phases are lost. Connections are known only by their connect
    /// times. A blob that cannot be read counts as far as it can.
    pub fn from_stored<B: AsRef<[u8]>>(
        plan: &Plan,
        rows: &[B],
        intervals: &[HttpInterval],
        histograms: &[B],
    ) -> Self {
        let mut fold = Self::new(plan);
        let mut replies: BTreeMap<u64, u64> = BTreeMap::new();
        let mut latencies: BTreeMap<u64, Histogram<u64>> = BTreeMap::new();
        for blob in rows {
            for sample in rows::decode(blob.as_ref()).map_while(Result::ok) {
                fold.request(&sample);
                fold.counts.connections += u64::from(sample.connect.is_some());
                if let Some(connect) = sample.connect {
                    fold.connect.push(connect);
                }
                if let Some(tls) = sample.tls {
                    fold.tls.push(tls);
                }
                let second = sample.ended.as_secs();
                *replies.entry(second).or_default() += u64::from(sample.outcome.is_reply());
                if sample.outcome.is_reply() || sample.outcome.is_timeout() {
                    let known = latencies.entry(second).or_insert_with(empty);
                    known.saturating_record((nanos(sample.latency()) + 500) / 1000);
                }
            }
        }
        for (index, interval) in intervals.iter().enumerate() {
            let second = second_of(interval);
            let kept = replies.get(&second).copied().unwrap_or(0);
            let missing = interval.replies.saturating_sub(kept);
            if missing > 0 {
                let blob = histograms.get(index).map_or(&[][..], AsRef::as_ref);
                fold.fill(interval, missing, blob, latencies.get(&second));
            }
        }
        fold.so_far.restore(intervals);
        fold
    }

    fn fill(
        &mut self,
        interval: &HttpInterval,
        mut missing: u64,
        blob: &[u8],
        known: Option<&Histogram<u64>>,
    ) {
        let Ok(stored) = Deserializer::new().deserialize::<u64, _>(&mut &*blob) else {
            return;
        };
        let ended = Duration::try_from_secs_f64(interval.start_s).unwrap_or_default();
        for step in stored.iter_recorded() {
            let micros = stored.median_equivalent(step.value_iterated_to());
            let known = known.map_or(0, |known| known.count_at(micros));
            let count = step.count_at_value().saturating_sub(known).min(missing);
            missing -= count;
            for _ in 0..count {
                self.success_without_row(ended, Duration::from_micros(micros));
            }
        }
    }

    fn success_without_row(&mut self, ended: Duration, latency: Duration) {
        self.counts.ended += 1;
        self.counts.written += 1;
        self.counts.replies += 1;
        self.outcomes[Outcome::Ok as usize] += 1;
        self.status.c2xx += 1;
        self.replied.push(latency);
        count_at(&mut self.five_seconds, ended.as_secs() / 5);
        self.timeline.push(&Mark {
            scheduled: ended.saturating_sub(latency),
            ended,
            outcome: Outcome::Ok,
            latency: Some(latency),
            lateness: None,
            served_by: None,
            region: None,
        });
    }
}

fn second_of(interval: &HttpInterval) -> u64 {
    Duration::try_from_secs_f64(interval.start_s + 1e-6).map_or(0, |start| start.as_secs())
}

fn empty() -> Histogram<u64> {
    let mut histogram = Histogram::new(3).expect("at most five digits");
    histogram.auto(true);
    // Grown to an hour at once, since `saturating_record` does not grow.
    let hour = 3_600_000_000;
    if histogram.record(hour).is_ok() {
        histogram.clear();
    }
    histogram
}
