//! Registering peers: which records are kept, and who said that a public address may be tested.

use std::net::IpAddr;

use serde_json::{Map, Value};

use super::texts::{check_name, check_tags};
use super::{Supervisor, now};
use crate::guard::target::TargetRule;
use crate::measure::plan::FieldError;
use crate::store::{Peer, Ports, Removal, StoreError};

/// Why a peer was not changed.
#[derive(Debug)]
pub enum PeerError {
    /// Fields are at fault.
    Invalid(Vec<FieldError>),
    /// There is none of this name.
    Missing,
    /// Another has this name.
    NameTaken,
    /// The notebook cannot be used.
    Storage(StoreError),
}

impl From<StoreError> for PeerError {
    fn from(error: StoreError) -> Self {
        Self::Storage(error)
    }
}

impl Supervisor {
    /// Registers a peer; `actor` is who confirms a public address.
    ///
    /// # Errors
    /// When the record is refused or cannot be stored.
    pub async fn register_peer(&self, record: &Value, actor: &str) -> Result<Peer, PeerError> {
        let peer = read_peer(record, None).map_err(PeerError::Invalid)?;
        let store = &self.core.store;
        if store
            .insert_peer(peer.clone(), now(), confirmation(&peer, actor))
            .await?
        {
            tracing::info!(
                peer = peer.name,
                actor,
                public = peer.confirm_public,
                "peer registered"
            );
            Ok(peer)
        } else {
            Err(PeerError::NameTaken)
        }
    }

    /// Changes the fields of a peer that the record names.
    ///
    /// # Errors
    /// When there is none, or the record is refused or cannot be stored.
    pub async fn change_peer(
        &self,
        name: &str,
        record: &Value,
        actor: &str,
    ) -> Result<Peer, PeerError> {
        let store = &self.core.store;
        let before = store
            .peer(name.to_owned())
            .await?
            .ok_or(PeerError::Missing)?;
        let peer = read_peer(record, Some(&before)).map_err(PeerError::Invalid)?;
        let confirmed = confirmation(&peer, actor);
        match store
            .replace_peer(name.to_owned(), peer.clone(), confirmed)
            .await?
        {
            Removal::Done => Ok(peer),
            Removal::Missing => Err(PeerError::Missing),
            Removal::NameTaken => Err(PeerError::NameTaken),
        }
    }
}

fn confirmation(peer: &Peer, actor: &str) -> Option<String> {
    peer.confirm_public.then(|| actor.to_owned())
}

/// Reads a peer from JSON, all faults at once; fields that are not named keep the values of `before`.
///
/// # Errors
/// One entry for each field that is at fault; never empty.
pub fn read_peer(record: &Value, before: Option<&Peer>) -> Result<Peer, Vec<FieldError>> {
    let Some(object) = record.as_object() else {
        return Err(vec![FieldError {
            field: String::new(),
            message: "A peer is a JSON object, such as {\"name\": \"west\", \"internal_address\": \"10.0.0.2\"}.".into(),
        }]);
    };
    let mut fields = Fields {
        object,
        errors: Vec::new(),
    };
    let mut peer = before.cloned().unwrap_or_default();
    fields.refuse_unknown();
    fields.name(&mut peer.name, before.is_some());
    fields.address("internal_address", &mut peer.internal_address);
    fields.address("external_address", &mut peer.external_address);
    fields.ports(&mut peer.ports);
    fields.text("region", &mut peer.region);
    fields.text("zone", &mut peer.zone);
    fields.text("machine_type", &mut peer.machine_type);
    fields.text("egress_tier", &mut peer.egress_tier);
    fields.whole("vcpus", 1..=65_536, &mut peer.vcpus);
    fields.whole("memory_bytes", 1..=1 << 53, &mut peer.memory_bytes);
    fields.number(
        "internal_cap_bits_per_second",
        1.0..=1e15,
        &mut peer.internal_cap_bits_per_second,
    );
    fields.number(
        "external_cap_bits_per_second",
        1.0..=1e15,
        &mut peer.external_cap_bits_per_second,
    );
    fields.number("price_per_hour", 0.0..=1e6, &mut peer.price_per_hour);
    fields.tags(&mut peer.tags);
    fields.url(&mut peer.metrics_url);
    fields.confirm(&mut peer);
    if fields.errors.is_empty() {
        Ok(peer)
    } else {
        Err(fields.errors)
    }
}

const KNOWN: [&str; 16] = [
    "name",
    "internal_address",
    "external_address",
    "ports",
    "region",
    "zone",
    "machine_type",
    "vcpus",
    "memory_bytes",
    "internal_cap_bits_per_second",
    "external_cap_bits_per_second",
    "egress_tier",
    "price_per_hour",
    "tags",
    "metrics_url",
    "confirm_public",
];

struct Fields<'a> {
    object: &'a Map<String, Value>,
    errors: Vec<FieldError>,
}

impl<'a> Fields<'a> {
    fn fault(&mut self, field: &str, message: impl Into<String>) {
        self.errors.push(FieldError {
            field: field.to_owned(),
            message: message.into(),
        });
    }

    /// The value of a field that is there; `null` clears an optional one.
    fn given(&self, key: &str) -> Option<&'a Value> {
        self.object.get(key)
    }

    fn refuse_unknown(&mut self) {
        for key in self.object.keys() {
            if key == "token" {
                self.fault(
                    "token",
                    "Tokens of peers are not kept by this version: leave token out.",
                );
            } else if !KNOWN.contains(&key.as_str()) {
                let shown: String = key.chars().take(64).collect();
                self.fault(&shown, format!("A peer has no field called {shown}."));
            }
        }
    }

    fn name(&mut self, name: &mut String, may_be_absent: bool) {
        match self.given("name") {
            None if may_be_absent => {}
            None => self.fault("name", "A peer needs a name."),
            Some(Value::String(text)) => match check_name("A name", text) {
                Some(message) => self.fault("name", message),
                None => name.clone_from(text),
            },
            Some(_) => self.fault("name", "The name must be a text."),
        }
    }

    fn address(&mut self, key: &str, slot: &mut Option<String>) {
        match self.given(key) {
            None => {}
            Some(Value::Null) => *slot = None,
            Some(Value::String(text)) => {
                let Ok(address) = text.parse::<IpAddr>() else {
                    let shown: String = text.chars().take(64).collect();
                    let message = format!(
                        "'{shown}' is not an IP address, written in full, such as 192.0.2.7 or 2001:db8::7."
                    );
                    return self.fault(key, message);
                };
                match TargetRule::check_always(address) {
                    Ok(()) => *slot = Some(address.to_canonical().to_string()),
                    Err(refusal) => self.fault(key, refusal.sentence),
                }
            }
            Some(_) => self.fault(key, "An address must be a text, such as \"192.0.2.7\"."),
        }
    }

    fn ports(&mut self, ports: &mut Ports) {
        let object = match self.given("ports") {
            None => return,
            Some(Value::Object(object)) => object,
            Some(_) => {
                self.fault(
                    "ports",
                    "Ports must be an object, such as {\"workload\": 8000}.",
                );
                return;
            }
        };
        for (key, value) in object {
            let slot = match key.as_str() {
                "throughput" => &mut ports.throughput,
                "workload" => &mut ports.workload,
                "dashboard" => &mut ports.dashboard,
                _ => {
                    let shown: String = key.chars().take(64).collect();
                    self.fault(
                        &format!("ports.{shown}"),
                        format!("There is no port called {shown}: throughput, workload and dashboard are."),
                    );
                    continue;
                }
            };
            match value.as_u64().and_then(|port| u16::try_from(port).ok()) {
                Some(port) if port > 0 => *slot = port,
                _ => self.fault(
                    &format!("ports.{key}"),
                    "A port is a whole number from 1 to 65535.",
                ),
            }
        }
    }

    fn text(&mut self, key: &str, slot: &mut Option<String>) {
        match self.given(key) {
            None => {}
            Some(Value::Null) => *slot = None,
            Some(Value::String(text)) => match check_name(key, text) {
                Some(message) => self.fault(key, message),
                None => *slot = Some(text.clone()),
            },
            Some(_) => self.fault(key, format!("{key} must be a text.")),
        }
    }

    fn whole<T: TryFrom<u64>>(
        &mut self,
        key: &str,
        range: std::ops::RangeInclusive<u64>,
        slot: &mut Option<T>,
    ) {
        match self.given(key) {
            None => {}
            Some(Value::Null) => *slot = None,
            Some(value) => match value.as_u64().filter(|number| range.contains(number)) {
                Some(number) => *slot = T::try_from(number).ok(),
                None => self.fault(
                    key,
                    format!(
                        "{key} must be a whole number from {} to {}.",
                        range.start(),
                        range.end()
                    ),
                ),
            },
        }
    }

    fn number(&mut self, key: &str, range: std::ops::RangeInclusive<f64>, slot: &mut Option<f64>) {
        match self.given(key) {
            None => {}
            Some(Value::Null) => *slot = None,
            Some(value) => match value.as_f64().filter(|number| range.contains(number)) {
                Some(number) => *slot = Some(number),
                None => self.fault(
                    key,
                    format!(
                        "{key} must be a number from {} to {}.",
                        range.start(),
                        range.end()
                    ),
                ),
            },
        }
    }

    fn tags(&mut self, slot: &mut Vec<String>) {
        let Some(value) = self.given("tags") else {
            return;
        };
        match serde_json::from_value::<Vec<String>>(value.clone()) {
            Ok(tags) => {
                let errors = check_tags(&tags);
                self.errors.extend(errors);
                *slot = tags;
            }
            Err(_) => self.fault("tags", "Tags must be a list of texts."),
        }
    }

    fn url(&mut self, slot: &mut Option<String>) {
        match self.given("metrics_url") {
            None => {}
            Some(Value::Null) => *slot = None,
            Some(value) => {
                let url = value
                    .as_str()
                    .filter(|text| text.len() <= 2_048)
                    .and_then(|text| url::Url::parse(text).ok())
                    .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
                match url {
                    Some(url) => *slot = Some(url.into()),
                    None => self.fault("metrics_url", "metrics_url must be an http or https URL."),
                }
            }
        }
    }

    fn confirm(&mut self, peer: &mut Peer) {
        match self.given("confirm_public") {
            None => {}
            Some(Value::Bool(confirmed)) => peer.confirm_public = *confirmed,
            Some(_) => self.fault("confirm_public", "confirm_public must be true or false."),
        }
        if peer.internal_address.is_none() && peer.external_address.is_none() {
            if self.errors.is_empty() {
                self.fault(
                    "internal_address",
                    "A peer needs an internal or an external address.",
                );
            }
            return;
        }
        let public = peer
            .addresses()
            .into_iter()
            .find(|address| is_public(*address));
        if let (Some(address), false) = (public, peer.confirm_public) {
            self.fault(
                "confirm_public",
                format!("{address} is a public address: set confirm_public to true if you may test this host."),
            );
        }
    }
}

/// Whether an address may belong to somebody else: neither loopback nor private (RFC 1918, 6598, 4193).
pub fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(ip) => {
            let shared = ip.octets()[0] == 100 && ip.octets()[1] & 0xC0 == 64;
            !(ip.is_loopback() || ip.is_private() || shared)
        }
        IpAddr::V6(ip) => !(ip.is_loopback() || ip.is_unique_local()),
    }
}
