//! Checks of an imported text: do its figures agree with each other, as far as they are rounded?

use super::scan::Number;
use crate::measure::run::{Check, Severity};
use std::fmt::Write;

/// A check under way: what was compared, and where it did not agree.
#[derive(Clone, Debug, Default)]
pub(super) struct Agreement {
    compared: usize,
    faults: Vec<String>,
    more: usize,
}

/// Contradictions that one check tells.
const MOST_FAULTS: usize = 6;

impl Agreement {
    /// Two figures that must be one, within the rounding of both and this share of the larger.
    pub(super) fn same(
        &mut self,
        a: Number,
        b: Number,
        share: f64,
        words: impl FnOnce() -> String,
    ) {
        let room = a.half + b.half + a.value.abs().max(b.value.abs()) * share;
        self.holds((a.value - b.value).abs() <= room * (1.0 + 1e-9), words);
    }

    /// A condition that must hold.
    pub(super) fn holds(&mut self, holds: bool, words: impl FnOnce() -> String) {
        self.compared += 1;
        if holds {
            return;
        }
        if self.faults.len() < MOST_FAULTS {
            self.faults.push(words());
        } else {
            self.more += 1;
        }
    }

    /// The check of this name; `None` where there was nothing to compare.
    pub(super) fn check(self, name: &str, agreed: &str) -> Option<Check> {
        if self.compared == 0 {
            return None;
        }
        let ok = self.faults.is_empty();
        let mut detail = if ok {
            agreed.to_owned()
        } else {
            self.faults.join("; ")
        };
        if self.more > 0 {
            // Writing to a string does not fail.
            let _ = write!(detail, "; and {} more", self.more);
        }
        Some(Check {
            name: name.to_owned(),
            ok: Some(ok),
            severity: Severity::Fail,
            detail,
        })
    }
}

/// A number that is exact.
pub(super) const fn exact(value: f64) -> Number {
    Number { value, half: 0.0 }
}

/// The quotient of two numbers and how far it can be off; `None` where there is none.
pub(super) fn quotient(a: Number, b: Number) -> Option<Number> {
    let value = a.value / b.value;
    let room = b.value.abs() - b.half;
    (value.is_finite() && room > 0.0).then(|| Number {
        value,
        half: (a.half + value.abs() * b.half) / room,
    })
}

/// The product of two numbers and how far it can be off.
pub(super) fn product(a: Number, b: Number) -> Number {
    Number {
        value: a.value * b.value,
        half: a.half * b.value.abs() + b.half * a.value.abs() + a.half * b.half,
    }
}

/// The sum of numbers and how far it can be off.
pub(super) fn sum(numbers: impl Iterator<Item = Number>) -> Number {
    numbers.fold(exact(0.0), |a, b| Number {
        value: a.value + b.value,
        half: a.half + b.half,
    })
}
