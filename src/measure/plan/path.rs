//! The path plan: the MTU of the interface and of the way to a peer.

use serde_json::{Map, Value, json};

use super::fields::{Fields, Range};
use super::{FieldError, host};

/// A path plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathPlan {
    /// Name or address of the peer.
    pub host: String,
    /// The MTU that the path should have, in bytes.
    pub expect_mtu: Option<u32>,
}

/// Reads the plan from its JSON object: defaults filled in, unknown fields refused, all errors at once.
///
/// # Errors
///
/// One entry for each field that is at fault; never empty.
pub fn from_json(object: &Map<String, Value>) -> Result<PathPlan, Vec<FieldError>> {
    let mut fields = Fields::new(object);
    let host = host::take(&mut fields);
    let expect_mtu = fields.whole(
        "expect_mtu",
        &Range {
            name: "The expected MTU",
            min: 68.0,
            max: 65_536.0,
            unit: " bytes",
            set_by: None,
        },
    );
    let errors = fields.finish("path");
    match host {
        Some(host) if errors.is_empty() => Ok(PathPlan {
            host,
            expect_mtu: expect_mtu.and_then(|mtu| u32::try_from(mtu).ok()),
        }),
        _ => Err(errors),
    }
}

/// Writes the plan's fields, defaults included, as [`from_json`] reads them.
pub fn fill_json(plan: &PathPlan, object: &mut Map<String, Value>) {
    object.insert("host".to_owned(), json!(plan.host));
    if let Some(mtu) = plan.expect_mtu {
        object.insert("expect_mtu".to_owned(), json!(mtu));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: &Value) -> Result<PathPlan, Vec<FieldError>> {
        from_json(value.as_object().expect("an object"))
    }

    fn refused(value: &Value, field: &str) {
        let errors = read(value).expect_err(&value.to_string());
        assert!(
            errors.iter().any(|error| error.field == field),
            "{value}: {errors:?}"
        );
    }

    fn round_trips(value: &Value) -> PathPlan {
        let plan = read(value).expect("a good plan");
        let mut object = Map::new();
        fill_json(&plan, &mut object);
        assert_eq!(from_json(&object), Ok(plan.clone()));
        plan
    }

    #[test]
    fn host_and_expectation_are_all_there_is() {
        assert_eq!(round_trips(&json!({"host": "127.0.0.1"})).expect_mtu, None);
        assert_eq!(
            round_trips(&json!({"host": "::1", "expect_mtu": 8896})).expect_mtu,
            Some(8896)
        );
        refused(&json!({"host": "h", "expect_mtu": 60}), "expect_mtu");
        refused(&json!({"host": "0x7f.1"}), "host");
    }
}
