//! How one plan of a pair compares with the other: the ratio of their figures, with an interval.

use std::collections::BTreeMap;

use serde::Serialize;

use super::figure::figure;
use super::record::Point;
use crate::measure::summary::Summary;

/// b over a.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// Geometric mean of b / a over the pairs.
    pub b_to_a: f64,
    /// Lower end of its 95 % interval; `None` below two pairs.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// Pairs of which both runs have a figure.
    pub pairs: u32,
}

impl Ratio {
    /// Whether the interval leaves 1 out; `None` where there is no interval.
    pub fn differs(&self) -> Option<bool> {
        let (low, high) = (self.low?, self.high?);
        Some(low > 1.0 || high < 1.0)
    }
}

/// The ratio over the pairs of a paired experiment; a pair is a and b of the same repeat.
pub fn ratio(points: &[Point]) -> Option<Ratio> {
    ratio_by(points, figure)
}

/// The same for another figure of the runs.
pub(super) fn ratio_by(
    points: &[Point],
    figure: impl Fn(&Summary) -> Option<f64>,
) -> Option<Ratio> {
    let mut pairs: BTreeMap<u32, [Option<f64>; 2]> = BTreeMap::new();
    for point in points {
        let place = match point.point["arm"].as_str() {
            Some("a") => 0,
            Some("b") => 1,
            _ => continue,
        };
        pairs.entry(point.repeat).or_default()[place] = point.summary.as_ref().and_then(&figure);
    }
    let both: Vec<(f64, f64)> = pairs
        .into_values()
        .filter_map(|[a, b]| Some((a?, b?)))
        .collect();
    ratio_of_pairs(&both)
}

/// The ratio b / a over pairs (a, b): geometric mean e^m, interval e^(m ± t·s/√n), where m and s are mean and sample
/// standard deviation of ln(b/a), and t is Student's 97.5 % quantile for n − 1. Pairs with a figure that is not above
/// 0 have no ratio and are left out.
pub fn ratio_of_pairs(pairs: &[(f64, f64)]) -> Option<Ratio> {
    let logs: Vec<f64> = pairs
        .iter()
        .filter(|(a, b)| *a > 0.0 && *b > 0.0)
        .map(|(a, b)| (b / a).ln())
        .filter(|log| log.is_finite())
        .collect();
    if logs.is_empty() {
        return None;
    }
    let n = logs.len() as f64;
    let mean = logs.iter().sum::<f64>() / n;
    let interval = (logs.len() > 1).then(|| {
        let squares: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
        let half = student(logs.len() - 1) * (squares / (n - 1.0) / n).sqrt();
        ((mean - half).exp(), (mean + half).exp())
    });
    Some(Ratio {
        b_to_a: mean.exp(),
        low: interval.map(|(low, _)| low),
        high: interval.map(|(_, high)| high),
        pairs: u32::try_from(logs.len()).unwrap_or(u32::MAX),
    })
}

/// Student's 97.5 % quantile by degrees of freedom, 1 first.
const STUDENT: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

/// Student's 97.5 % quantile; beyond 30 degrees z + (z³ + z)/(4·ν) with z = 1.96, within 0.1 % there.
fn student(degrees: usize) -> f64 {
    const Z: f64 = 1.959_964;
    match degrees.checked_sub(1).and_then(|place| STUDENT.get(place)) {
        Some(quantile) => *quantile,
        None => Z + (Z.powi(3) + Z) / (4.0 * degrees as f64),
    }
}
