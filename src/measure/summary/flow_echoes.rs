//! Round trips of a ping or of the probe beside a throughput run, folded into bounded memory.

use crate::measure::flow::Echo;
use crate::measure::flow_series::{EchoBin, EchoPoint, FlowSeries, MOST_ECHOES};
use crate::measure::series::{BandMs, HistogramBucket};
use crate::measure::stats::spread::Spread;
use crate::measure::summary::flow_grid::{Cell, Grid};

/// Most buckets of the histogram.
const BUCKETS: u32 = 40;

/// All round trips so far.
#[derive(Clone, Debug)]
pub(super) struct Echoes {
    points: Vec<EchoPoint>,
    count: usize,
    /// Those sent before the run's start, by how long before.
    before: Grid<EchoCell>,
    steps: Grid<EchoCell>,
    /// Answered before the load, and beside it.
    pub(super) idle: Spread,
    pub(super) loaded: Spread,
}

impl Echoes {
    /// Steps begin with this width in s.
    pub(super) fn new(width_s: f64) -> Self {
        Self {
            points: Vec::new(),
            count: 0,
            before: Grid::new(width_s),
            steps: Grid::new(width_s),
            idle: Spread::fine(),
            loaded: Spread::fine(),
        }
    }

    /// Takes in an echo of a throughput run, whose idle ones were sent before its start.
    pub(super) fn push_beside(&mut self, echo: &Echo) {
        let at_s = echo.at.as_secs_f64();
        self.push_at(echo, if echo.loaded { at_s } else { -at_s });
    }

    /// Takes in an echo of a ping.
    pub(super) fn push(&mut self, echo: &Echo) {
        self.push_at(echo, echo.at.as_secs_f64());
    }

    fn push_at(&mut self, echo: &Echo, at_s: f64) {
        self.count += 1;
        if self.points.len() < MOST_ECHOES {
            self.points.push(EchoPoint {
                seq: echo.seq,
                at_s,
                rtt_ms: echo.rtt.map(|rtt| rtt.as_secs_f64() * 1e3),
                duplicates: echo.duplicates,
                loaded: echo.loaded,
            });
        }
        let mut cell = EchoCell {
            from_s: at_s,
            to_s: at_s,
            sent: 1,
            lost: u64::from(echo.rtt.is_none()),
            loaded: echo.loaded,
            answered: None,
        };
        if let Some(rtt) = echo.rtt {
            let spread = if echo.loaded {
                &mut self.loaded
            } else {
                &mut self.idle
            };
            spread.push(rtt);
            let mut one = Spread::coarse();
            one.push(rtt);
            cell.answered = Some(one);
        }
        if at_s < 0.0 {
            self.before.at(-at_s).absorb(cell);
        } else {
            self.steps.at(at_s).absorb(cell);
        }
    }

    /// Puts them into a series: one by one in the order of their numbers where they are few, else in steps.
    pub(super) fn write(&self, series: &mut FlowSeries) {
        if self.count <= MOST_ECHOES {
            series.echoes.clone_from(&self.points);
            series.echoes.sort_by_key(|echo| echo.seq);
        } else {
            let mut bins: Vec<EchoBin> = self.before.cells().map(EchoCell::bin).collect();
            bins.reverse();
            bins.extend(self.steps.cells().map(EchoCell::bin));
            series.echo_bins = bins;
        }
        let mut all = self.idle.clone();
        all.merge(&self.loaded);
        series.echo_histogram = histogram(&all);
    }
}

#[derive(Clone, Debug, Default)]
struct EchoCell {
    from_s: f64,
    to_s: f64,
    sent: u64,
    lost: u64,
    loaded: bool,
    answered: Option<Spread>,
}

impl EchoCell {
    fn bin(&self) -> EchoBin {
        EchoBin {
            from_s: self.from_s,
            to_s: self.to_s,
            sent: self.sent,
            lost: self.lost,
            loaded: self.loaded,
            rtt_ms: self.answered.as_ref().and_then(band),
        }
    }
}

impl Cell for EchoCell {
    fn absorb(&mut self, later: Self) {
        if self.sent == 0 {
            *self = later;
            return;
        }
        self.from_s = self.from_s.min(later.from_s);
        self.to_s = self.to_s.max(later.to_s);
        self.sent += later.sent;
        self.lost += later.lost;
        self.loaded = later.loaded;
        match (&mut self.answered, later.answered) {
            (Some(answered), Some(more)) => answered.merge(&more),
            (answered @ None, more) => *answered = more,
            (Some(_), None) => {}
        }
    }
}

fn band(spread: &Spread) -> Option<BandMs> {
    Some(BandMs {
        min: spread.min_ms()?,
        p5: spread.quantile_ms(0.05)?,
        p50: spread.quantile_ms(0.5)?,
        p95: spread.quantile_ms(0.95)?,
        p99: spread.quantile_ms(0.99)?,
        max: spread.max_ms()?,
    })
}

/// Buckets that touch, even by value, or by factor where the largest is more than 20 times the smallest.
fn histogram(all: &Spread) -> Vec<HistogramBucket> {
    let (Some(min), Some(max)) = (all.min_ms(), all.max_ms()) else {
        return Vec::new();
    };
    if max - min < 1e-6 {
        return vec![HistogramBucket {
            from_ms: min,
            to_ms: max,
            count: all.count(),
        }];
    }
    let by_factor = max > min * 20.0;
    let least = min.max(1e-4);
    let edge = |index: u32| {
        let share = f64::from(index) / f64::from(BUCKETS);
        if by_factor {
            least * (max / least).powf(share)
        } else {
            min + (max - min) * share
        }
    };
    let mut buckets: Vec<HistogramBucket> = (0..BUCKETS)
        .map(|index| HistogramBucket {
            from_ms: edge(index),
            to_ms: edge(index + 1),
            count: 0,
        })
        .collect();
    all.for_each_bucket(|value, count| {
        let place = buckets
            .iter()
            .position(|bucket| value <= bucket.to_ms)
            .unwrap_or(buckets.len() - 1);
        buckets[place].count += count;
    });
    buckets
}
