//! The workload's place in the program: its settings, its thread, its gate; and small ones for first minutes.

use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::runtime;
use tokio::sync::{oneshot, watch};

use crate::config::{self, Config};
use crate::guard;
use crate::measure::first_minute::ServerLog;
use crate::minute::{OpenPictures, Pictures};
use crate::serve::{self, Gate, Listener, Phase, Place, ServeLimits};
use crate::workload::{Discipline, WhenFull, Workload, WorkloadConfig};

/// Descriptors that clients of the workload never get: dashboard, database, running tests.
const RESERVED_FILES: u64 = 1280;

/// The workload as the flags describe it.
pub(super) fn workload(config: &Config) -> Arc<Workload> {
    let settings = &config.workload_settings;
    Workload::new(WorkloadConfig {
        name: config.node.name.clone(),
        region: config.node.region.clone(),
        threads: settings.threads,
        in_service: settings.in_service,
        discipline: match settings.discipline {
            config::Discipline::Fifo => Discipline::Fifo,
            config::Discipline::Shared => Discipline::Shared,
        },
        queue: settings.queue,
        when_full: match settings.when_full {
            config::WhenFull::Refuse => WhenFull::Refuse,
            config::WhenFull::StopAccepting => WhenFull::StopAccepting,
        },
        backlog: settings.backlog,
        tutorial: settings.tutorial,
    })
}

/// Serves the workload from one thread of its own, so that a busy dashboard cannot slow it, nor it the dashboard.
///
/// What is returned resolves when its drain is over.
pub(super) fn serve(
    workload: &Arc<Workload>,
    listeners: Vec<Listener>,
    open_files: u64,
    phase: watch::Receiver<Phase>,
) -> io::Result<oneshot::Receiver<()>> {
    let (done, over) = oneshot::channel();
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let connections = open_files.saturating_sub(RESERVED_FILES).max(64);
    let limits = ServeLimits::workload(usize::try_from(connections).unwrap_or(usize::MAX));
    let router = guard::one_host(workload.router());
    let gate = gate(workload);
    thread::Builder::new()
        .name("workload".to_owned())
        .spawn(move || {
            if let Err(error) =
                runtime.block_on(serve::serve(listeners, router, limits, gate, phase))
            {
                tracing::error!(%error, "the workload cannot be served");
            }
            let _ = done.send(());
        })?;
    Ok(over)
}

/// Starts servers of pictures for first minutes: each on a free loopback port, with so many render threads.
pub(super) fn pictures(name: String) -> OpenPictures {
    Arc::new(move |threads| {
        let workload = Workload::new(WorkloadConfig {
            threads,
            in_service: threads,
            ..WorkloadConfig::new(name.clone())
        });
        let listener = serve::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), BACKLOG)?;
        let address = listener.address();
        let (phase, watched) = watch::channel(Phase::Serving);
        let _over = serve(
            &workload,
            vec![listener],
            RESERVED_FILES + PICTURE_CLIENTS,
            watched,
        )?;
        Ok(Box::new(PictureServer {
            workload,
            address,
            phase,
        }) as Box<dyn Pictures>)
    })
}

/// Connections that the kernel holds for a server of pictures before they are accepted.
const BACKLOG: u32 = 4096;
/// Connections to a server of pictures.
const PICTURE_CLIENTS: u64 = 2048;

/// A server of pictures; dropping it stops it.
struct PictureServer {
    workload: Arc<Workload>,
    address: SocketAddr,
    phase: watch::Sender<Phase>,
}

impl Pictures for PictureServer {
    fn address(&self) -> SocketAddr {
        self.address
    }

    fn log(&self) -> ServerLog {
        let status = self.workload.status();
        ServerLog {
            served: status.served,
            refused: status.refused,
            dropped: status.dropped + status.cut_short,
        }
    }
}

impl Drop for PictureServer {
    fn drop(&mut self) {
        self.phase.send_replace(Phase::Draining {
            limit: Duration::ZERO,
        });
    }
}

/// A server that stops accepting when it is full asks for a place before each connection.
fn gate(workload: &Arc<Workload>) -> Option<Gate> {
    if workload.config().when_full != WhenFull::StopAccepting {
        return None;
    }
    let workload = Arc::clone(workload);
    Some(Arc::new(
        move || -> Pin<Box<dyn Future<Output = Place> + Send>> {
            let workload = Arc::clone(&workload);
            Box::pin(async move { Box::new(workload.ready_to_accept().await) as Place })
        },
    ))
}
