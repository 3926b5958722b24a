//! Registered peers: the other machines that tests may go to.

use rusqlite::{Connection, OptionalExtension, params};
use serde::{Deserialize, Serialize};

use super::decode::{json, to_json};
use super::{Store, StoreError};

/// Another machine, as it was registered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Peer {
    /// What it is called; unique, whatever the case of its letters.
    pub name: String,
    /// Its address inside the network.
    pub internal_address: Option<String>,
    /// Its address from outside.
    pub external_address: Option<String>,
    /// Where it listens.
    pub ports: Ports,
    /// Region.
    pub region: Option<String>,
    /// Zone.
    pub zone: Option<String>,
    /// Machine type.
    pub machine_type: Option<String>,
    /// Virtual CPUs.
    pub vcpus: Option<u32>,
    /// Memory.
    pub memory_bytes: Option<u64>,
    /// Documented cap between internal addresses.
    pub internal_cap_bits_per_second: Option<f64>,
    /// Documented cap towards external addresses.
    pub external_cap_bits_per_second: Option<f64>,
    /// Network tier.
    pub egress_tier: Option<String>,
    /// Price of the machine.
    pub price_per_hour: Option<f64>,
    /// A person's tags.
    pub tags: Vec<String>,
    /// Where its metrics can be read.
    pub metrics_url: Option<String>,
    /// Whether somebody said that its public addresses may be tested.
    pub confirm_public: bool,
}

/// Where a peer listens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ports {
    /// The iperf 2 receiver.
    pub throughput: u16,
    /// The workload.
    pub workload: u16,
    /// The dashboard.
    pub dashboard: u16,
}

impl Default for Ports {
    fn default() -> Self {
        Self {
            throughput: 5001,
            workload: 8000,
            dashboard: 8080,
        }
    }
}

/// What became of a change to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// Done.
    Done,
    /// There is none of this name.
    Missing,
    /// Its new name is another peer's.
    NameTaken,
}

impl Peer {
    /// Its name with its addresses: `b (10.0.0.2, 192.0.2.7)`.
    pub fn title(&self) -> String {
        let addresses = self.addresses();
        let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        format!("{} ({})", self.name, addresses.join(", "))
    }

    /// Every address that a test to this peer may go to.
    pub fn addresses(&self) -> Vec<std::net::IpAddr> {
        [&self.internal_address, &self.external_address]
            .into_iter()
            .flatten()
            .filter_map(|address| address.parse().ok())
            .collect()
    }
}

impl Store {
    /// Registers a peer; `false` when the name is taken.
    ///
    /// # Errors
    /// When it could not be written.
    pub async fn insert_peer(
        &self,
        peer: Peer,
        created_at: jiff::Timestamp,
        confirmed_by: Option<String>,
    ) -> Result<bool, StoreError> {
        self.write("store the peer", move |transaction| {
            let added = transaction.execute(
                "INSERT OR IGNORE INTO peers (name, record, created_at_ms, confirmed_by) VALUES (?1, ?2, ?3, ?4)",
                params![peer.name, to_json(&peer)?, created_at.as_millisecond(), confirmed_by],
            )?;
            Ok(added > 0)
        })
        .await
    }

    /// Puts another record in the place of the peer of this name.
    ///
    /// # Errors
    /// When it could not be written.
    pub async fn replace_peer(
        &self,
        name: String,
        peer: Peer,
        confirmed_by: Option<String>,
    ) -> Result<Removal, StoreError> {
        self.write("change the peer", move |transaction| {
            if read_peer(transaction, &name)?.is_none() {
                return Ok(Removal::Missing);
            }
            if !name.eq_ignore_ascii_case(&peer.name)
                && read_peer(transaction, &peer.name)?.is_some()
            {
                return Ok(Removal::NameTaken);
            }
            transaction.execute(
                "UPDATE peers SET name = ?2, record = ?3, confirmed_by = coalesce(?4, confirmed_by) WHERE name = ?1",
                params![name, peer.name, to_json(&peer)?, confirmed_by],
            )?;
            Ok(Removal::Done)
        })
        .await
    }

    /// Forgets a peer.
    ///
    /// # Errors
    /// When it could not be written.
    pub async fn delete_peer(&self, name: String) -> Result<Removal, StoreError> {
        self.write("delete the peer", move |transaction| {
            let found = transaction.execute("DELETE FROM peers WHERE name = ?1", [name])?;
            Ok(if found > 0 {
                Removal::Done
            } else {
                Removal::Missing
            })
        })
        .await
    }

    /// The peer of this name.
    ///
    /// # Errors
    /// When it could not be read.
    pub async fn peer(&self, name: String) -> Result<Option<Peer>, StoreError> {
        self.read("read the peer", move |connection| {
            read_peer(connection, &name)
        })
        .await
    }

    /// All peers, by name.
    ///
    /// # Errors
    /// When they could not be read.
    pub async fn peers(&self) -> Result<Vec<Peer>, StoreError> {
        self.read("read the peers", |connection| {
            let mut statement =
                connection.prepare_cached("SELECT record FROM peers ORDER BY name")?;
            let mut rows = statement.query([])?;
            let mut peers = Vec::new();
            while let Some(row) = rows.next()? {
                peers.push(json("peer", &row.get::<_, String>(0)?)?);
            }
            Ok(peers)
        })
        .await
    }
}

fn read_peer(connection: &Connection, name: &str) -> Result<Option<Peer>, StoreError> {
    let record: Option<String> = connection
        .prepare_cached("SELECT record FROM peers WHERE name = ?1")?
        .query_row([name], |row| row.get(0))
        .optional()?;
    record.map(|text| json("peer", &text)).transpose()
}
