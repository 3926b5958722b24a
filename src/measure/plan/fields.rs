//! Reads the fields of one JSON object and collects everything that is wrong with them.

use serde_json::{Map, Value};

use super::FieldError;

/// The fields of one object, as far as they have been asked for.
pub(super) struct Fields<'a> {
    object: &'a Map<String, Value>,
    known: Vec<&'static str>,
    errors: Vec<FieldError>,
}

/// Largest whole number that every reader of JSON keeps exactly: 2^53.
pub(super) const LARGEST_EXACT: f64 = 9_007_199_254_740_992.0;
/// Most unknown fields that are named one by one.
const MAX_UNKNOWN: usize = 20;

/// A field's name in sentences with the range that its number may have.
pub(super) struct Range {
    /// What a sentence calls it, such as `Timeout`.
    pub(super) name: &'static str,
    /// Smallest value allowed.
    pub(super) min: f64,
    /// Largest value allowed.
    pub(super) max: f64,
    /// Written after the number, such as ` s`; empty for a bare count.
    pub(super) unit: &'static str,
    /// The flag of the program that sets `max`; `None` where nothing can change it.
    pub(super) set_by: Option<&'static str>,
}

impl<'a> Fields<'a> {
    /// Starts with the keys of `object`; `kind` is known already.
    pub(super) fn new(object: &'a Map<String, Value>) -> Self {
        Self {
            object,
            known: vec!["kind"],
            errors: Vec::new(),
        }
    }

    /// The value of a field; `None` when it is absent or null.
    pub(super) fn take(&mut self, key: &'static str) -> Option<&'a Value> {
        self.known.push(key);
        self.object.get(key).filter(|value| !value.is_null())
    }

    /// A number within its range; `None` when it is absent or was refused.
    pub(super) fn number(&mut self, key: &'static str, range: &Range) -> Option<f64> {
        let value = self.take(key)?;
        self.checked_number(key, value, range)
    }

    /// A number within its range, from a value that stands anywhere inside a field.
    pub(super) fn checked_number(
        &mut self,
        field: &str,
        value: &Value,
        range: &Range,
    ) -> Option<f64> {
        let Some(number) = value.as_f64().filter(|number| number.is_finite()) else {
            self.refuse(field, format!("{} must be a number.", range.name));
            return None;
        };
        match range.refusal(number) {
            Some(message) => {
                self.refuse(field, message);
                None
            }
            None => Some(number),
        }
    }

    /// A whole number within its range; `5.0` counts as whole.
    pub(super) fn whole(&mut self, key: &'static str, range: &Range) -> Option<u64> {
        let value = self.take(key)?;
        self.checked_whole(key, value, range)
    }

    /// A whole number within its range, from a value that stands anywhere inside a field.
    pub(super) fn checked_whole(
        &mut self,
        field: &str,
        value: &Value,
        range: &Range,
    ) -> Option<u64> {
        let number = self.checked_number(field, value, range)?;
        if let Some(exact) = value.as_u64() {
            return Some(exact);
        }
        if number.fract() != 0.0 {
            self.refuse(
                field,
                format!(
                    "{} must be a whole number; {}{} was given.",
                    range.name,
                    plain(number),
                    range.unit
                ),
            );
            return None;
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "every range of a whole number lies within 0 and 2^53"
        )]
        Some(number as u64)
    }

    /// A text; `None` when it is absent or was refused.
    pub(super) fn text(&mut self, key: &'static str, name: &str) -> Option<&'a str> {
        let value = self.take(key)?;
        let text = value.as_str();
        if text.is_none() {
            self.refuse(key, format!("{name} must be a text in quotation marks."));
        }
        text
    }

    /// A yes or no; `false` when it is absent or was refused.
    pub(super) fn flag(&mut self, key: &'static str, name: &str) -> bool {
        match self.take(key) {
            None => false,
            Some(Value::Bool(flag)) => *flag,
            Some(_) => {
                self.refuse(key, format!("{name} must be true or false."));
                false
            }
        }
    }

    /// One word of a list; the first is the default.
    pub(super) fn word<T: Copy>(
        &mut self,
        key: &'static str,
        name: &str,
        words: &[(&str, T)],
    ) -> Option<T> {
        let default = words.first().map(|(_, value)| *value);
        let Some(given) = self.take(key) else {
            return default;
        };
        let found = given
            .as_str()
            .and_then(|given| words.iter().find(|(word, _)| *word == given));
        if found.is_none() {
            let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            self.refuse(key, format!("{name} must be {}.", known.join(" or ")));
        }
        found.map(|(_, value)| *value)
    }

    /// Notes that a field is at fault.
    pub(super) fn refuse(&mut self, field: &str, message: impl Into<String>) {
        self.errors.push(FieldError {
            field: field.to_owned(),
            message: message.into(),
        });
    }

    /// Everything that is wrong, fields that nobody asked for included.
    pub(super) fn finish(mut self, kind: &str) -> Vec<FieldError> {
        let known = self.known.clone();
        let unknown = self
            .object
            .keys()
            .filter(|key| !known.contains(&key.as_str()))
            .take(MAX_UNKNOWN);
        for key in unknown {
            let names: Vec<&str> = known.iter().copied().filter(|n| *n != "kind").collect();
            self.refuse(
                &shown(key),
                format!(
                    "A {kind} plan has no field {}; it has {}.",
                    shown(key),
                    names.join(", ")
                ),
            );
        }
        self.errors
    }
}

impl Range {
    /// A sentence when `number` lies outside the range.
    pub(super) fn refusal(&self, number: f64) -> Option<String> {
        let Self {
            name, unit, set_by, ..
        } = self;
        let given = plain(number);
        if number < self.min {
            return Some(format!(
                "{name} must be at least {}{unit}; {given}{unit} was given.",
                plain(self.min)
            ));
        }
        if number > self.max {
            let max = plain(self.max);
            return Some(match set_by {
                Some(flag) => format!(
                    "{name} {given}{unit} is above this server's limit of {max}{unit} (set by {flag})."
                ),
                None => format!("{name} {given}{unit} is above the limit of {max}{unit}."),
            });
        }
        None
    }
}

/// A number as a person would write it; very large and very small ones with an exponent.
pub(super) fn plain(number: f64) -> String {
    let size = number.abs();
    if number != 0.0 && !(1e-6..1e16).contains(&size) {
        format!("{number:e}")
    } else {
        number.to_string()
    }
}

/// A whole number of s, connections or the like without a decimal point where it needs none.
pub(crate) fn tidy(number: f64) -> Value {
    if number.fract() == 0.0 && (0.0..LARGEST_EXACT).contains(&number) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "whole and between 0 and 2^53"
        )]
        return Value::from(number as u64);
    }
    Value::from(number)
}

/// A stranger's text, short and printable enough for a sentence.
pub(super) fn shown(text: &str) -> String {
    let mut short: String = text
        .chars()
        .take(60)
        .map(|c| if is_printable(c) { c } else { '\u{fffd}' })
        .collect();
    if text.chars().nth(60).is_some() {
        short.push('…');
    }
    if short.is_empty() {
        short.push_str("(empty)");
    }
    short
}

/// Neither a control character nor one that turns the direction of the text around it.
fn is_printable(c: char) -> bool {
    !c.is_control()
        && !matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}
