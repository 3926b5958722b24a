//! Axes of our own: linear from safe ranges, logarithmic with 1-2-5 ticks, and nines; each with its ticks and their labels.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged};

use crate::chart::text::{self, NARROW};

/// One axis: how values become places.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Axis {
    /// Evenly spaced.
    Linear(f64, f64),
    /// Evenly spaced by factor; both ends above 0.
    Log(f64, f64),
    /// Shares of 1, spaced by −log10(1 − share), up to the share given.
    Nines(f64),
}

impl Axis {
    /// Latency in ms: linear from 0, or logarithmic when the largest is more than 20 times the smallest.
    pub(crate) fn latency(values: impl Iterator<Item = f64>) -> Self {
        let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
        for value in values.filter(|value| value.is_finite() && *value > 0.0) {
            least = least.min(value.clamp(1e-3, 1e9));
            most = most.max(value.clamp(1e-3, 1e9));
        }
        if most <= 0.0 {
            return Self::Linear(0.0, 1.0);
        }
        if most / least > 20.0 {
            Self::Log(least * 0.72, most * 1.25)
        } else {
            Self::Linear(0.0, most * 1.12)
        }
    }

    /// From 0 to a little above the largest value.
    pub(crate) fn from_zero(most: f64) -> Self {
        let (from, to) = safe_range(0.0, most);
        Self::Linear(from, to)
    }

    /// Whether the axis is logarithmic.
    pub(crate) const fn is_log(self) -> bool {
        matches!(self, Self::Log(..))
    }

    /// Place of a value, 0 to 1; what lies outside sticks to the end.
    pub(crate) fn place(self, value: f64) -> f64 {
        let place = match self {
            Self::Linear(from, to) => (value - from) / (to - from),
            Self::Log(from, to) => (value.max(from * 1e-9) / from).ln() / (to / from).ln(),
            Self::Nines(to) => nines(value) / nines(to),
        };
        if place.is_finite() {
            place.clamp(0.0, 1.0)
        } else {
            0.0
        }
    }

    /// At most this many ticks of time in ms, with units.
    pub(crate) fn latency_ticks(self, most: usize) -> Vec<(f64, String)> {
        self.values(most)
            .into_iter()
            .map(|value| (value, tick_ms(value, self)))
            .collect()
    }

    /// At most this many ticks of a bare number.
    pub(crate) fn number_ticks(self, most: usize) -> Vec<(f64, String)> {
        self.values(most)
            .into_iter()
            .map(|value| (value, text::figure(value)))
            .collect()
    }

    /// At most this many ticks of a span of time in s, at steps that clocks like.
    pub(crate) fn clock_ticks(self, most: usize) -> Vec<(f64, String)> {
        let Self::Linear(_, to) = self else {
            return self.latency_ticks(most);
        };
        let step = CLOCK_STEPS
            .into_iter()
            .find(|step| to / step <= most as f64)
            .unwrap_or(to / most as f64);
        let unit: (f64, &str) = if to > 14_400.0 && step >= 3600.0 {
            (3600.0, "h")
        } else if to > 600.0 && step >= 60.0 {
            (60.0, "min")
        } else if step < 0.1 {
            (0.001, "ms")
        } else {
            (1.0, "s")
        };
        multiples(step, 0.0, to)
            .map(|value| {
                let number = text::figure(value / unit.0);
                (value, format!("{number}{NARROW}{}", unit.1))
            })
            .collect()
    }

    /// Ticks of a share: 0, 50, 90, 99, 99.9 … % as far as the axis goes.
    pub(crate) fn share_ticks(self) -> Vec<(f64, String)> {
        let Self::Nines(to) = self else {
            return Vec::new();
        };
        [
            (0.0, "0"),
            (0.5, "50"),
            (0.9, "90"),
            (0.99, "99"),
            (0.999, "99.9"),
            (0.9999, "99.99"),
            (0.999_99, "99.999"),
        ]
        .into_iter()
        .filter(|(share, _)| *share <= to)
        .map(|(share, word)| (share, format!("{word}{NARROW}%")))
        .collect()
    }

    fn values(self, most: usize) -> Vec<f64> {
        match self {
            Self::Linear(from, to) => {
                multiples(nice_step((to - from) / most as f64), from, to).collect()
            }
            Self::Log(from, to) => log_values(from, to, most),
            Self::Nines(_) => Vec::new(),
        }
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    #[expect(
        clippy::cast_possible_truncation,
        reason = "a place inside the drawing"
    )]
    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        limit.0 + (f64::from(limit.1 - limit.0) * self.place(*value)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        self.values(hint.max_num_points())
    }

    fn range(&self) -> Range<f64> {
        match *self {
            Self::Linear(from, to) | Self::Log(from, to) => from..to,
            Self::Nines(to) => 0.0..to,
        }
    }
}

/// Steps that clocks like, in s.
const CLOCK_STEPS: [f64; 26] = [
    0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0,
    120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0, 14400.0, 43200.0, 86400.0,
];

/// A finite range that has a width, whatever came in.
pub(crate) fn safe_range(from: f64, to: f64) -> (f64, f64) {
    let tame = |value: f64| {
        if value.is_finite() {
            value.clamp(-1e15, 1e15)
        } else {
            0.0
        }
    };
    let (from, to) = (tame(from).min(tame(to)), tame(from).max(tame(to)));
    if to - from > from.abs().max(to.abs()) * 1e-9 {
        (from, to)
    } else {
        (from, from + 1.0_f64.max(from.abs() * 0.1))
    }
}

/// −log10(1 − share): 0 at none, 1 at 90 %, 2 at 99 %.
fn nines(share: f64) -> f64 {
    -(1.0 - share.clamp(0.0, 1.0 - 1e-9)).log10()
}

/// The smallest of 1, 2, 5 times a power of ten that is not below.
fn nice_step(least: f64) -> f64 {
    let power = 10_f64.powf(least.max(1e-12).log10().floor());
    [1.0, 2.0, 5.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| *step >= least * 0.999_999)
        .unwrap_or(10.0 * power)
}

fn multiples(step: f64, from: f64, to: f64) -> impl Iterator<Item = f64> {
    let first = (from / step).ceil();
    (0..40)
        .map(move |index| (first + f64::from(index)) * step)
        .take_while(move |value| *value <= to + step * 1e-9)
}

/// 1-2-5 values inside; fewer factors when there would be too many, finer ones inside one decade.
fn log_values(from: f64, to: f64, most: usize) -> Vec<f64> {
    let low = from.log10().floor();
    for factors in [&[1.0, 2.0, 5.0][..], &[1.0, 3.0], &[1.0]] {
        let values: Vec<f64> = (0..40)
            .map(|index| 10_f64.powf(low + f64::from(index)))
            .take_while(|power| *power <= to)
            .flat_map(|power| factors.iter().map(move |factor| factor * power))
            .filter(|value| (from..=to).contains(value))
            .collect();
        if values.len() < 2 {
            break;
        }
        if values.len() <= most {
            return values;
        }
        if factors.len() == 1 {
            return values.into_iter().step_by(2).collect();
        }
    }
    multiples(nice_step((to - from) / most as f64), from, to).collect()
}

/// A tick of time: exact, in the unit that suits the value (log) or the axis (linear).
fn tick_ms(value: f64, axis: Axis) -> String {
    let scale = match axis {
        Axis::Linear(_, to) => to,
        _ => value,
    };
    let (number, unit) = if scale >= 1000.0 {
        (value / 1000.0, "s")
    } else if scale >= 1.0 {
        (value, "ms")
    } else {
        (value * 1000.0, "µs")
    };
    format!("{}{NARROW}{unit}", text::figure(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_ranges_become_safe_ones() {
        let hostile = [
            0.0,
            -1.0,
            5.0,
            5.0 + 1e-12,
            1e300,
            -1e300,
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::MIN_POSITIVE,
        ];
        for from in hostile {
            for to in hostile {
                let (low, high) = safe_range(from, to);
                assert!(low.is_finite() && high.is_finite() && low < high);
                for axis in [
                    Axis::Linear(low, high),
                    Axis::latency([from, to].into_iter()),
                    Axis::from_zero(to),
                ] {
                    assert!((0.0..=1.0).contains(&axis.place(from)));
                    let ticks = axis.latency_ticks(6).len();
                    assert!((1..=40).contains(&ticks), "{axis:?}: {ticks}");
                    axis.clock_ticks(6);
                }
            }
        }
    }

    #[test]
    fn ticks_stand_at_round_values_with_units() {
        let words = |ticks: Vec<(f64, String)>| -> Vec<String> {
            ticks
                .into_iter()
                .map(|(_, word)| word.replace(NARROW, " "))
                .collect()
        };
        assert_eq!(
            words(Axis::Log(300.0, 12_500.0).latency_ticks(6)),
            ["500 ms", "1 s", "2 s", "5 s", "10 s"]
        );
        assert!(Axis::Log(370.0, 490.0).latency_ticks(6).len() >= 2);
        assert_eq!(
            words(Axis::Linear(0.0, 154.0).clock_ticks(6)),
            ["0 s", "30 s", "60 s", "90 s", "120 s", "150 s"]
        );
        assert_eq!(
            words(Axis::from_zero(13.0).number_ticks(4)),
            ["0", "5", "10"]
        );
        assert_eq!(
            words(Axis::Nines(0.9995).share_ticks()),
            ["0 %", "50 %", "90 %", "99 %", "99.9 %"]
        );
    }
}
