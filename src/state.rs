//! What the pages and the API share.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use bytes::Bytes;

use crate::guard::Access;
use crate::minute::Minute;
use crate::net::sys;
use crate::store::Store;
use crate::supervisor::Supervisor;
use crate::workload::mandelbrot::Work;
use crate::workload::{Workload, picture};

/// Handles to everything that pages and API show or change; clones share them.
#[derive(Clone)]
pub struct AppState {
    /// The notebook.
    pub store: Store,
    /// The queue and the run in progress.
    pub supervisor: Supervisor,
    /// The first minute: a handful of runs that show what this machine is good for.
    pub minute: Minute,
    /// The workload of this process; `None` when it is off.
    pub workload: Option<Arc<Workload>>,
    /// Who is logged in.
    pub access: Arc<Access>,
    /// What is known about this node.
    pub node: Arc<NodeFacts>,
    /// When the program started.
    pub started: Instant,
}

impl AppState {
    /// The workload's picture, drawn small and once for the pages; `None` when drawing it failed.
    pub async fn picture(&self) -> Option<Bytes> {
        static PICTURE: OnceLock<Bytes> = OnceLock::new();
        if let Some(png) = PICTURE.get() {
            return Some(png.clone());
        }
        tokio::task::spawn_blocking(|| {
            // A fourth of the points of the standard work and few iterations: some 10 ms of one core.
            let work = Work::new((500, 400), 200, (-0.75, 0.0), 2.5).unwrap_or(Work::LIGHT);
            PICTURE.get_or_init(|| picture(work).into()).clone()
        })
        .await
        .ok()
    }

    /// How the workload works its requests off, in words; empty when it is off.
    pub fn workload_words(&self) -> String {
        let Some(workload) = &self.workload else {
            return String::new();
        };
        let status = workload.status();
        format!(
            "{} at once, queue of {}; {} served so far",
            match workload.config().in_service {
                1 => "1 picture".to_owned(),
                more => format!("{more} pictures"),
            },
            status.queue,
            status.served
        )
    }

    /// Files that this process may have open; `None` where the system does not say.
    pub fn open_files(&self) -> Option<u64> {
        sys::open_files().ok()
    }
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
