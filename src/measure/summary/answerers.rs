//! What each backend or region answered, and where its time went.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::measure::sample::RequestSample;
use crate::measure::series::SplitMeans;
use crate::measure::stats::spread::{Spread, nanos};
use crate::measure::summary::ServedBy;
use crate::measure::summary::names::{Admitted, BySlot, Merge, Names, Slot};

/// Names with what stands under each.
#[derive(Clone, Debug, Default)]
pub(super) struct Answerers {
    pub(super) names: Names,
    by_slot: BySlot<Answerer>,
    nobody: Option<Arc<str>>,
}

/// Sums over the complete replies of one name, in ns.
#[derive(Clone, Debug, Default)]
struct Answerer {
    replies: u64,
    timed: u64,
    latency: Option<Box<Spread>>,
    lateness: u128,
    connect: u128,
    tls: u128,
    queue: u128,
    compute: u128,
    transfer: u128,
}

impl Answerers {
    /// The slot of a reply's name, and a slot that was given up for it.
    pub(super) fn slot(&mut self, name: Option<&Arc<str>>) -> (Slot, Option<Slot>) {
        let nobody = self.nobody.get_or_insert_with(|| Arc::from(""));
        match self.names.admit(name.unwrap_or(nobody)) {
            Admitted::At(slot) => (slot, None),
            Admitted::Instead(slot) => {
                self.by_slot.give_up(slot);
                (slot, Some(slot))
            }
        }
    }

    /// Adds one complete reply.
    pub(super) fn push(&mut self, slot: Slot, sample: &RequestSample) {
        let answerer = self.by_slot.at(slot);
        answerer.replies += 1;
        answerer
            .latency
            .get_or_insert_with(|| Box::new(Spread::fine()))
            .push(sample.latency());
        let wide = |part: Option<Duration>| part.map_or(0, |part| u128::from(nanos(part)));
        answerer.lateness += wide(sample.lateness());
        answerer.connect += wide(sample.connect);
        answerer.tls += wide(sample.tls);
        answerer.transfer += wide(transfer(sample));
        if let Some(timing) = sample.server_timing {
            answerer.timed += 1;
            answerer.queue += u128::from(nanos_of_ms(timing.queue_ms).unwrap_or(0));
            answerer.compute += u128::from(nanos_of_ms(timing.compute_ms).unwrap_or(0));
            answerer.compute += u128::from(nanos_of_ms(timing.encode_ms).unwrap_or(0));
        }
    }

    /// Adds the other's; the answer says where each of its slots went, the other list which of ours were given up.
    pub(super) fn merge(&mut self, other: &Self) -> (Vec<Slot>, Vec<Slot>) {
        let mut given_up = Vec::new();
        for name in other.names.known() {
            if let Admitted::Instead(slot) = self.names.admit(name) {
                self.by_slot.give_up(slot);
                given_up.push(slot);
            }
        }
        let mut slots = vec![0; crate::measure::summary::names::MAX_NAMES + 1];
        for (name, slot) in other.names.iter() {
            slots[slot] = self.names.slot(name);
        }
        self.by_slot.merge(&other.by_slot, &slots);
        (slots, given_up)
    }

    /// Figures by name; replies that name nobody are left out.
    pub(super) fn served_by(&self) -> BTreeMap<String, ServedBy> {
        self.each()
            .filter(|(name, _)| !name.is_empty())
            .map(|(name, answerer)| {
                let quantile = |share| answerer.latency.as_deref()?.quantile_ms(share);
                let figures = ServedBy {
                    replies: answerer.replies,
                    latency_p50_ms: quantile(0.5),
                    latency_p99_ms: quantile(0.99),
                };
                (name.to_owned(), figures)
            })
            .collect()
    }

    /// Mean parts of the latency by name; empty name where replies name nobody.
    pub(super) fn split(&self) -> BTreeMap<String, SplitMeans> {
        self.each()
            .map(|(name, answerer)| (name.to_owned(), answerer.split()))
            .collect()
    }

    fn each(&self) -> impl Iterator<Item = (&str, &Answerer)> {
        self.names
            .iter()
            .filter_map(|(name, slot)| Some((name, self.by_slot.find(slot)?)))
            .filter(|(_, answerer)| answerer.replies > 0)
    }
}

impl Answerer {
    /// Σ part / replies; what the server claims beyond what was measured is cut, so that the parts sum to the mean.
    fn split(&self) -> SplitMeans {
        let mean = |sum: u128| sum as f64 / self.replies as f64 / 1e6;
        let latency = self
            .latency
            .as_deref()
            .map_or(0.0, |spread| mean(spread.moments().sum()));
        let ours = [self.lateness, self.connect, self.tls, self.transfer].map(mean);
        let left = (latency - ours.iter().sum::<f64>()).max(0.0);
        let (queue, compute) = (mean(self.queue), mean(self.compute));
        let believed = if queue + compute > left {
            left / (queue + compute)
        } else {
            1.0
        };
        let (queue, compute) = (queue * believed, compute * believed);
        SplitMeans {
            replies: self.replies,
            lateness_ms: ours[0],
            connect_ms: ours[1],
            tls_ms: ours[2],
            queue_ms: (self.timed > 0).then_some(queue),
            compute_ms: (self.timed > 0).then_some(compute),
            transfer_ms: ours[3],
            rest_ms: (left - queue - compute).max(0.0),
        }
    }
}

impl Merge for Answerer {
    fn merge(&mut self, other: &Self) {
        self.replies += other.replies;
        self.timed += other.timed;
        if let Some(theirs) = &other.latency {
            self.latency
                .get_or_insert_with(|| Box::new(Spread::fine()))
                .merge(theirs);
        }
        self.lateness += other.lateness;
        self.connect += other.connect;
        self.tls += other.tls;
        self.queue += other.queue;
        self.compute += other.compute;
        self.transfer += other.transfer;
    }
}

/// End − first byte of the reply; `None` where no byte came.
pub(super) fn transfer(sample: &RequestSample) -> Option<Duration> {
    let first_byte = sample.first_byte?;
    Some(sample.service_time()?.saturating_sub(first_byte))
}

/// Whole nanoseconds of a time that a server states; `None` where it makes no sense.
pub(super) fn nanos_of_ms(ms: Option<f32>) -> Option<u64> {
    let seconds = f64::from(ms?) / 1000.0;
    Duration::try_from_secs_f64(seconds).ok().map(nanos)
}
