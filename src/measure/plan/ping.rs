//! The round-trip plan (ping): its fields, their defaults and their limits.

use serde_json::{Map, Value, json};

use super::fields::{Fields, Range, tidy};
use super::{Caps, FieldError, host};

/// How a round trip is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PingMethod {
    /// ICMP echo.
    Icmp,
    /// A TCP connect, which is answered by an open or a closed port alike.
    Tcp,
}

/// A round-trip plan.
#[derive(Clone, Debug, PartialEq)]
pub struct PingPlan {
    /// Name or address of the peer.
    pub host: String,
    /// Probes in all.
    pub count: u32,
    /// From one probe to the next, in s.
    pub interval_s: f64,
    /// Payload of a probe in bytes; ICMP only.
    pub size_bytes: u32,
    /// How long the answer to a probe is waited for, in s.
    pub timeout_s: f64,
    /// How a round trip is made.
    pub method: PingMethod,
    /// Port of TCP probes.
    pub port: Option<u16>,
}

/// Reads the plan from its JSON object: defaults filled in, unknown fields refused, all errors at once.
///
/// # Errors
///
/// One entry for each field that is at fault; never empty.
pub fn from_json(object: &Map<String, Value>, caps: &Caps) -> Result<PingPlan, Vec<FieldError>> {
    let mut fields = Fields::new(object);
    let host = host::take(&mut fields);
    let range = |name, min, max, unit| Range {
        name,
        min,
        max,
        unit,
        set_by: None,
    };
    let count = fields
        .whole("count", &range("The count", 1.0, 1_000_000.0, ""))
        .unwrap_or(5);
    let interval_s = fields
        .number("interval_s", &range("The interval", 0.01, 3_600.0, " s"))
        .unwrap_or(1.0);
    let size_bytes = fields.whole("size_bytes", &range("The size", 0.0, 65_507.0, " bytes"));
    let timeout_s = fields
        .number("timeout_s", &range("The timeout", 0.01, 60.0, " s"))
        .unwrap_or(1.0);
    let method = fields
        .word(
            "method",
            "The method",
            &[("icmp", PingMethod::Icmp), ("tcp", PingMethod::Tcp)],
        )
        .unwrap_or(PingMethod::Icmp);
    let port = host::take_port(&mut fields);
    match (method, port) {
        (PingMethod::Tcp, None) => fields.refuse(
            "port",
            "TCP probes need a port: set port, such as 80; an open one and a closed one both answer.",
        ),
        (PingMethod::Icmp, Some(_)) => {
            fields.refuse("port", "ICMP has no ports: leave port out, or set method to tcp.");
        }
        _ => {}
    }
    if method == PingMethod::Tcp && size_bytes.is_some() {
        fields.refuse(
            "size_bytes",
            "A TCP connect carries no payload: leave size_bytes out.",
        );
    }
    let sending = count as f64 * interval_s;
    if sending > caps.max_duration_s {
        fields.refuse(
            "count",
            format!(
                "{count} probes every {interval_s} s take longer than this server's limit of {} s (set by --max-duration).",
                caps.max_duration_s
            ),
        );
    }
    let errors = fields.finish("ping");
    match host {
        Some(host) if errors.is_empty() => Ok(PingPlan {
            host,
            count: u32::try_from(count).unwrap_or(5),
            interval_s,
            size_bytes: size_bytes
                .and_then(|size| u32::try_from(size).ok())
                .unwrap_or(56),
            timeout_s,
            method,
            port,
        }),
        _ => Err(errors),
    }
}

/// Writes the plan's fields, defaults included, as [`from_json`] reads them.
pub fn fill_json(plan: &PingPlan, object: &mut Map<String, Value>) {
    let mut put = |key: &str, value: Value| {
        object.insert(key.to_owned(), value);
    };
    put("host", json!(plan.host));
    put("count", json!(plan.count));
    put("interval_s", tidy(plan.interval_s));
    if plan.method == PingMethod::Icmp {
        put("size_bytes", json!(plan.size_bytes));
    }
    put("timeout_s", tidy(plan.timeout_s));
    put("method", json!(plan.method.word()));
    if let Some(port) = plan.port {
        put("port", json!(port));
    }
}

impl PingMethod {
    /// The word in JSON and CSV.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Icmp => "icmp",
            Self::Tcp => "tcp",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: &Value) -> Result<PingPlan, Vec<FieldError>> {
        from_json(value.as_object().expect("an object"), &Caps::default())
    }

    fn refused(value: &Value, field: &str) {
        let errors = read(value).expect_err(&value.to_string());
        assert!(
            errors.iter().any(|error| error.field == field),
            "{value}: {errors:?}"
        );
    }

    fn round_trips(value: &Value) -> PingPlan {
        let plan = read(value).expect("a good plan");
        let mut object = Map::new();
        fill_json(&plan, &mut object);
        assert_eq!(from_json(&object, &Caps::default()), Ok(plan.clone()));
        plan
    }

    #[test]
    fn defaults_are_pings() {
        let plan = round_trips(&json!({"host": "127.0.0.1"}));
        assert_eq!(
            (plan.count, plan.size_bytes, plan.method),
            (5, 56, PingMethod::Icmp)
        );
        round_trips(
            &json!({"host": "h", "method": "tcp", "port": 80, "count": 3, "interval_s": 0.2}),
        );
    }

    #[test]
    fn what_cannot_be_is_refused_on_its_field() {
        for (value, field) in [
            (json!({"count": 5}), "host"),
            (json!({"host": "h", "count": 0}), "count"),
            (
                json!({"host": "h", "count": 1_000_000, "interval_s": 1}),
                "count",
            ),
            (json!({"host": "h", "method": "tcp"}), "port"),
            (json!({"host": "h", "port": 80}), "port"),
            (json!({"host": "h", "size_bytes": 65_508}), "size_bytes"),
            (json!({"host": "h", "timeout_s": 0}), "timeout_s"),
        ] {
            refused(&value, field);
        }
    }
}
