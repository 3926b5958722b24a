//! Folds round trips into the figures of a ping.

use crate::measure::flow::{FlowBatch, FlowEnd};
use crate::measure::flow_series::FlowSeries;
use crate::measure::plan::ping::PingPlan;
use crate::measure::summary::flow::{PingDistribution, PingSummary};
use crate::measure::summary::flow_echoes::Echoes;

/// All round trips of one ping so far; a slow first one counts like every other.
#[derive(Clone, Debug)]
pub struct PingFold {
    plan: PingPlan,
    echoes: Echoes,
    transmitted: u64,
    received: u64,
    duplicates: u64,
    ttl: Option<u8>,
    first_s: Option<f64>,
    last_s: f64,
    until_s: f64,
}

impl PingFold {
    /// Nothing measured yet.
    pub fn new(plan: &PingPlan) -> Self {
        Self {
            plan: plan.clone(),
            echoes: Echoes::new(plan.interval_s),
            transmitted: 0,
            received: 0,
            duplicates: 0,
            ttl: None,
            first_s: None,
            last_s: 0.0,
            until_s: 0.0,
        }
    }

    /// Takes in what the runner hands over.
    pub fn push(&mut self, batch: &FlowBatch) {
        self.until_s = self.until_s.max(batch.until.as_secs_f64());
        for echo in &batch.echoes {
            self.echoes.push(echo);
            let at = echo.at.as_secs_f64();
            self.first_s = Some(self.first_s.map_or(at, |first| first.min(at)));
            self.transmitted += 1;
            self.duplicates += u64::from(echo.duplicates);
            let mut end = at;
            if let Some(rtt) = echo.rtt {
                self.received += 1;
                self.ttl = echo.ttl.or(self.ttl);
                end += rtt.as_secs_f64();
            }
            self.last_s = self.last_s.max(end);
        }
    }

    /// What it comes to.
    pub fn summary(&self, end: &FlowEnd) -> PingSummary {
        // No load runs beside a ping, so whatever the runner says of it, all round trips count.
        let mut all = self.echoes.idle.clone();
        all.merge(&self.echoes.loaded);
        let moments = all.moments();
        let n = moments.count() as f64;
        // Over n, not n − 1: √(Σx²/n − (Σx/n)²).
        let mdev = match moments.stddev() {
            Some(stddev) => Some(stddev * ((n - 1.0) / n).sqrt() / 1e6),
            None => (moments.count() == 1).then_some(0.0),
        };
        let lost = self.transmitted - self.received;
        PingSummary {
            transmitted: self.transmitted,
            received: self.received,
            loss_percent: (self.transmitted > 0)
                .then(|| lost as f64 / self.transmitted as f64 * 100.0),
            duplicates: self.duplicates + end.late_duplicates,
            rtt_ms: PingDistribution {
                figures: all.distribution(),
                mdev,
            },
            ttl: self.ttl,
            method: self.plan.method.word().to_owned(),
            address: end
                .streams
                .first()
                .and_then(|stream| stream.remote)
                .map(|remote| remote.ip().to_string()),
            duration_s: self.first_s.map_or(0.0, |first| self.last_s - first),
        }
    }

    /// What the charts show.
    pub fn series(&self, end: &FlowEnd) -> FlowSeries {
        let mut series = FlowSeries {
            covers_s: self
                .until_s
                .max(self.last_s)
                .max(end.duration.as_secs_f64()),
            planned_s: Some(f64::from(self.plan.count.saturating_sub(1)) * self.plan.interval_s),
            ..FlowSeries::default()
        };
        self.echoes.write(&mut series);
        series
    }

    /// An end made from what is known so far, for figures of a ping that still runs.
    pub fn so_far(&self) -> FlowEnd {
        FlowEnd {
            duration: std::time::Duration::try_from_secs_f64(self.until_s).unwrap_or_default(),
            ..FlowEnd::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::flow::Echo;
    use crate::measure::plan::ping::PingMethod;
    use std::time::Duration;

    fn folded(rtts_ms: &[Option<f64>]) -> (PingSummary, FlowSeries) {
        let plan = PingPlan {
            host: "10.0.0.2".to_owned(),
            count: u32::try_from(rtts_ms.len()).unwrap(),
            interval_s: 1.0,
            size_bytes: 56,
            timeout_s: 1.0,
            method: PingMethod::Icmp,
            port: None,
        };
        let mut fold = PingFold::new(&plan);
        for (seq, rtt) in (1..).zip(rtts_ms) {
            fold.push(&FlowBatch {
                until: Duration::from_secs(u64::from(seq)),
                echoes: vec![Echo {
                    seq,
                    at: Duration::from_secs(u64::from(seq) - 1),
                    rtt: rtt.map(|ms| Duration::from_secs_f64(ms / 1e3)),
                    ttl: Some(64),
                    duplicates: u32::from(seq == 2),
                    loaded: false,
                }],
                ..FlowBatch::default()
            });
        }
        let end = fold.so_far();
        (fold.summary(&end), fold.series(&end))
    }

    #[test]
    fn a_slow_first_packet_counts_and_mdev_is_pings() {
        // Mean 2, squares 16 + 1 + 1 + 4·… : 4, 1, 1 → mean 2, mean of squares 6, √(6 − 4) = √2.
        let (summary, series) = folded(&[Some(4.0), Some(1.0), None, Some(1.0)]);
        assert_eq!((summary.transmitted, summary.received), (4, 3));
        assert_eq!(summary.loss_percent, Some(25.0));
        assert_eq!(summary.duplicates, 1);
        assert_eq!(summary.rtt_ms.figures.max, Some(4.0));
        assert_eq!(summary.rtt_ms.figures.avg, Some(2.0));
        let mdev = summary.rtt_ms.mdev.unwrap();
        assert!((mdev - 2.0_f64.sqrt()).abs() < 1e-6, "{mdev}");
        assert!((summary.duration_s - 3.001).abs() < 1e-9);
        assert_eq!(summary.ttl, Some(64));
        assert_eq!(series.echoes.len(), 4);
        assert_eq!(series.echoes[2].rtt_ms, None);
        let counted: u64 = series
            .echo_histogram
            .iter()
            .map(|bucket| bucket.count)
            .sum();
        assert_eq!(counted, 3);
    }

    #[test]
    fn nothing_and_one_have_no_invented_figures() {
        let (summary, series) = folded(&[]);
        assert_eq!((summary.loss_percent, summary.rtt_ms.mdev), (None, None));
        assert!(series.echo_histogram.is_empty());
        let (summary, _) = folded(&[Some(0.5)]);
        assert_eq!(summary.rtt_ms.mdev, Some(0.0));
        assert_eq!(summary.rtt_ms.figures.stddev, None);
        let (summary, _) = folded(&[None, None]);
        assert_eq!(summary.loss_percent, Some(100.0));
        assert_eq!(summary.rtt_ms.figures.median, None);
    }

    #[test]
    fn many_round_trips_become_steps() {
        let (summary, series) = folded(&vec![Some(1.0); 1_500]);
        assert_eq!(summary.received, 1_500);
        assert!(series.echoes.is_empty());
        assert!((2..=250).contains(&series.echo_bins.len()));
        let sent: u64 = series.echo_bins.iter().map(|bin| bin.sent).sum();
        assert_eq!(sent, 1_500);
    }
}
