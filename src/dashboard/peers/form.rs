//! The form of a peer: its fields, and the record that they mean.

use serde_json::{Map, Value, json};

use crate::dashboard::fields::{Field, Input, Values};
use crate::dashboard::launch;
use crate::dashboard::words;
use crate::measure::plan::FieldError;
use crate::store::Peer;
use crate::supervisor::is_public;

/// The record of a peer with one address and nothing else.
pub fn minimal(name: &str, address: &str, confirmed: bool) -> Value {
    let which = if address.parse().is_ok_and(is_public) {
        "external_address"
    } else {
        "internal_address"
    };
    json!({"name": name, which: address, "confirm_public": confirmed})
}

/// The form with this address filled in; empty for none.
pub(super) fn values_for(address: &str) -> Values {
    let Value::Object(record) = minimal(address, address, false) else {
        return Values::new();
    };
    record
        .into_iter()
        .filter_map(|(name, value)| Some((name, value.as_str()?.to_owned())))
        .filter(|(_, value)| !value.is_empty())
        .collect()
}

/// The form of this peer.
pub(super) fn values_of(peer: &Peer) -> Values {
    let gigabits = |bits: Option<f64>| bits.map(|bits| words::plain(bits / 1e9));
    [
        ("name", Some(peer.name.clone())),
        ("internal_address", peer.internal_address.clone()),
        ("external_address", peer.external_address.clone()),
        ("workload_port", Some(peer.ports.workload.to_string())),
        ("throughput_port", Some(peer.ports.throughput.to_string())),
        ("dashboard_port", Some(peer.ports.dashboard.to_string())),
        ("region", peer.region.clone()),
        ("zone", peer.zone.clone()),
        ("machine_type", peer.machine_type.clone()),
        ("vcpus", peer.vcpus.map(|cpus| cpus.to_string())),
        (
            "memory",
            peer.memory_bytes
                .map(|bytes| words::plain(bytes as f64 / GIB)),
        ),
        ("egress_tier", peer.egress_tier.clone()),
        ("price_per_hour", peer.price_per_hour.map(words::plain)),
        ("metrics_url", peer.metrics_url.clone()),
        ("internal_cap", gigabits(peer.internal_cap_bits_per_second)),
        ("external_cap", gigabits(peer.external_cap_bits_per_second)),
        ("tags", Some(peer.tags.join(", "))),
        (
            "confirm_public",
            peer.confirm_public.then(|| "on".to_owned()),
        ),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name.to_owned(), value?)))
    .collect()
}

/// The record that these values mean, and the faults that only a form can have; an emptied field is `null`.
pub(super) fn record(values: &Values) -> (Value, Vec<(String, String)>) {
    let mut record = Map::new();
    let mut faults = Vec::new();
    let text = |name: &str| values.get(name).map_or("", String::as_str);
    record.insert("name".to_owned(), text("name").into());
    for name in ["internal_address", "external_address"] {
        let address = text(name).trim_matches(['[', ']']);
        record.insert(name.to_owned(), optional(address));
    }
    for name in [
        "region",
        "zone",
        "machine_type",
        "egress_tier",
        "metrics_url",
    ] {
        record.insert(name.to_owned(), optional(text(name)));
    }
    let mut whole = |name: &str| match text(name) {
        "" => Value::Null,
        value => value.parse::<u64>().map_or_else(
            |_| {
                faults.push((name.to_owned(), "A whole number, such as 4".to_owned()));
                Value::Null
            },
            Value::from,
        ),
    };
    record.insert("vcpus".to_owned(), whole("vcpus"));
    let mut ports = Map::new();
    for (field, port) in PORTS {
        match whole(field) {
            Value::Null => {}
            number => {
                ports.insert(port.to_owned(), number);
            }
        }
    }
    record.insert("ports".to_owned(), ports.into());
    let mut number = |field: &str, factor: f64| match text(field) {
        "" => None,
        value => value
            .parse::<f64>()
            .ok()
            .filter(|number| number.is_finite())
            .map(|number| number * factor)
            .or_else(|| {
                faults.push((field.to_owned(), "A number, such as 1.5".to_owned()));
                None
            }),
    };
    for (field, name) in CAPS {
        record.insert(name.to_owned(), number(field, 1e9).into());
    }
    record.insert(
        "price_per_hour".to_owned(),
        number("price_per_hour", 1.0).into(),
    );
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a number that is too large or negative saturates, and is then refused by its range"
    )]
    let memory = number("memory", GIB).map(|bytes| bytes.round() as u64);
    record.insert("memory_bytes".to_owned(), memory.into());
    record.insert("tags".to_owned(), launch::tags(text("tags")).into());
    record.insert(
        "confirm_public".to_owned(),
        (text("confirm_public") == "on").into(),
    );
    (record.into(), faults)
}

/// The record's faults under the names of the form's fields.
pub(super) fn faults(errors: Vec<FieldError>) -> Vec<(String, String)> {
    errors
        .into_iter()
        .map(|error| {
            let port = PORTS
                .iter()
                .find(|(_, port)| error.field == format!("ports.{port}"));
            let other = CAPS
                .iter()
                .chain(&[("memory", "memory_bytes")])
                .find(|(_, name)| error.field == *name);
            let field = port
                .or(other)
                .map_or(error.field.as_str(), |(field, _)| field);
            let message = if field == "confirm_public" {
                "Confirm this: one of the addresses is public".to_owned()
            } else {
                error.message
            };
            (field.to_owned(), message)
        })
        .collect()
}

fn optional(text: &str) -> Value {
    if text.is_empty() {
        Value::Null
    } else {
        text.into()
    }
}

/// Bytes of a GiB.
const GIB: f64 = 1_073_741_824.0;

/// The form's fields for ports, and the ports of the record.
const PORTS: [(&str, &str); 3] = [
    ("workload_port", "workload"),
    ("throughput_port", "throughput"),
    ("dashboard_port", "dashboard"),
];

/// The form's fields for caps, and the caps of the record.
const CAPS: [(&str, &str); 2] = [
    ("internal_cap", "internal_cap_bits_per_second"),
    ("external_cap", "external_cap_bits_per_second"),
];

const fn field(
    name: &'static str,
    label: &'static str,
    hint: &'static str,
    unit: &'static str,
    mode: &'static str,
) -> Field {
    Field {
        name,
        label,
        hint,
        unit,
        class: "c2 h",
        input: Input::Text(mode),
        mono: false,
        list: "",
    }
}

/// Its name and addresses.
pub(super) const NAMES: [Field; 7] = [
    field("name", "Name", "1 to 64 characters", "", "text"),
    Field {
        mono: true,
        ..field(
            "internal_address",
            "Internal address",
            "IPv4 or IPv6, inside the network",
            "",
            "text",
        )
    },
    Field {
        mono: true,
        ..field(
            "external_address",
            "External address",
            "IPv4 or IPv6, from outside",
            "",
            "text",
        )
    },
    field(
        "throughput_port",
        "iperf port",
        "iperf 2, TCP and UDP; usually 5001",
        "",
        "numeric",
    ),
    field(
        "workload_port",
        "Workload port",
        "where its web server listens",
        "",
        "numeric",
    ),
    field(
        "dashboard_port",
        "Dashboard port",
        "usually 8080",
        "",
        "numeric",
    ),
    Field {
        class: "c4",
        input: Input::Check,
        ..field(
            "confirm_public",
            "I may test this host",
            "needed for a public address; kept with the time and who said so",
            "",
            "",
        )
    },
];

/// What kind of machine it is.
pub(super) const MACHINE: [Field; 11] = [
    field("region", "Region", "such as europe-west1", "", "text"),
    field("zone", "Zone", "such as europe-west1-b", "", "text"),
    field(
        "machine_type",
        "Machine type",
        "such as e2-standard-4",
        "",
        "text",
    ),
    field(
        "vcpus",
        "vCPUs",
        "as the provider counts them",
        "",
        "numeric",
    ),
    field(
        "memory",
        "Memory",
        "counted by 1024: 1 GiB = 2³⁰ bytes",
        "GiB",
        "decimal",
    ),
    field(
        "price_per_hour",
        "Price",
        "in your currency, for Gbit/s per price",
        "per hour",
        "decimal",
    ),
    field(
        "egress_tier",
        "Egress tier",
        "such as DEFAULT or TIER_1",
        "",
        "text",
    ),
    field(
        "internal_cap",
        "Documented cap, internal",
        "decimal: 10⁹ bit/s",
        "Gbit/s",
        "decimal",
    ),
    field(
        "external_cap",
        "Documented cap, external",
        "decimal: 10⁹ bit/s",
        "Gbit/s",
        "decimal",
    ),
    Field {
        class: "c4",
        mono: true,
        ..field(
            "metrics_url",
            "Metrics",
            "where its metrics can be read, http or https",
            "",
            "url",
        )
    },
    field("tags", "Tags", "separated by commas", "", "text"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::supervisor::read_peer;

    #[test]
    fn a_public_address_needs_consent() {
        let errors = read_peer(&minimal("web", "203.0.113.9", false), None).unwrap_err();
        assert_eq!(faults(errors)[0].0, "confirm_public");
        let peer = read_peer(&minimal("web", "203.0.113.9", true), None).unwrap();
        assert_eq!(peer.external_address.as_deref(), Some("203.0.113.9"));
    }

    #[test]
    fn a_peer_survives_its_form() {
        let mut values = Values::new();
        for (name, value) in [
            ("name", "web"),
            ("internal_address", "10.0.0.2"),
            ("internal_cap", "1.5"),
            ("vcpus", "4"),
            ("memory", "16"),
            ("price_per_hour", "0.19"),
            ("egress_tier", "TIER_1"),
            ("metrics_url", "http://10.0.0.2:9100/metrics"),
            ("workload_port", "81"),
            ("tags", "a, b"),
        ] {
            values.insert(name.to_owned(), value.to_owned());
        }
        let (json, faults) = record(&values);
        assert_eq!(faults, []);
        let peer = read_peer(&json, None).unwrap();
        assert_eq!(peer.internal_cap_bits_per_second, Some(1.5e9));
        assert_eq!(peer.ports.workload, 81);
        assert_eq!(peer.memory_bytes, Some(16 << 30));
        assert_eq!(peer.price_per_hour, Some(0.19));
        let (again, _) = record(&values_of(&peer));
        assert_eq!(read_peer(&again, Some(&peer)).unwrap(), peer);
    }

    #[test]
    fn faults_stand_under_the_names_of_the_form() {
        let error = |field: &str| FieldError {
            field: field.to_owned(),
            message: "no".to_owned(),
        };
        let named = faults(vec![
            error("ports.workload"),
            error("internal_cap_bits_per_second"),
            error("name"),
        ]);
        let names: Vec<&str> = named.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["workload_port", "internal_cap", "name"]);
    }
}
