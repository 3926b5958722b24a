//! What the pages and the API share.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use crate::store::Store;
use crate::supervisor::Supervisor;
use crate::workload::Workload;

/// Handles to everything that pages and API show or change; clones share them.
#[derive(Clone)]
pub struct AppState {
    /// The notebook.
    pub store: Store,
    /// The queue and the run in progress.
    pub supervisor: Supervisor,
    /// The workload of this process; `None` when it is off.
    pub workload: Option<Arc<Workload>>,
    /// What is known about this node.
    pub node: Arc<NodeFacts>,
    /// When the program started.
    pub started: Instant,
}

/// What this node is called and where it listens; fixed once it serves.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeFacts {
    /// Its name.
    pub name: String,
    /// Its region.
    pub region: Option<String>,
    /// Its zone.
    pub zone: Option<String>,
    /// Its machine type.
    pub machine_type: Option<String>,
    /// Its virtual CPUs.
    pub vcpus: Option<u32>,
    /// Its documented egress cap.
    pub egress_cap_bits_per_second: Option<f64>,
    /// Where the dashboard really listens.
    pub dashboard: Vec<SocketAddr>,
    /// Where the workload really listens; empty = off.
    pub workload: Vec<SocketAddr>,
    /// Networks that tests may go to beside loopback and peers.
    pub allow: Vec<String>,
    /// Which reply header names the backend.
    pub identity_header: String,
    /// Which reply header names the region.
    pub region_header: String,
}
