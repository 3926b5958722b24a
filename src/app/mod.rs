//! The composition root: opens, binds, announces, serves, and stops in order.

pub(crate) mod data;
pub mod logs;

use std::future::Future;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::thread;

use tokio::runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{oneshot, watch};

use self::data::{DataFolder, plain};
use crate::config::{self, Config};
use crate::guard::{self, GuardConfig};
use crate::net::sys;
use crate::serve::{self, Listener, Phase, ServeLimits};
use crate::workload::{self, Workload, WorkloadConfig};

/// Why the program ends without having served.
#[derive(Debug)]
pub struct Failure {
    /// One sentence that names what to change.
    pub sentence: String,
    /// The exit status.
    pub status: u8,
}

impl Failure {
    /// Something about this machine: exit status 1.
    pub fn other(sentence: String) -> Self {
        Self {
            sentence,
            status: 1,
        }
    }

    /// Something about the configuration: exit status 2.
    pub fn configuration(sentence: String) -> Self {
        Self {
            sentence,
            status: 2,
        }
    }
}

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
/// Whatever keeps it from starting.
pub fn serve(config: &Config) -> Result<(), Failure> {
    let open_files = sys::raise_open_files().unwrap_or(1024);
    sys::ignore_sigxfsz();
    sys::private_files();
    let folder = DataFolder::open(&config.data)?;
    let listeners = Listeners::bind(config)?;
    if config.receivers {
        tracing::info!(
            "receiver and receiver3 are off: iperf receivers are not built into this version"
        );
    }
    if config.nats.is_some() {
        tracing::warn!("--nats has no effect: fleets are not built into this version");
    }
    let ready = listeners.ready_line();
    let (phase_sender, phase) = watch::channel(Phase::Serving);
    let drain = config.drain;
    let main_runtime = runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("dashboard")
        .enable_all()
        .build()
        .map_err(|error| Failure::other(format!("no thread could be started ({error}).")))?;
    let bound: Vec<SocketAddr> = listeners.dashboard.iter().map(Listener::address).collect();
    let guard = GuardConfig::new(&bound, &config.allow_hosts, config.public_url.as_ref());
    let dashboard = serve::serve(
        listeners.dashboard,
        guard::secure(dashboard_router(), guard),
        ServeLimits::dashboard(),
        None,
        phase.clone(),
    );
    let workload = Workload::new(workload_config(config));
    let served = serve_workload(&workload, listeners.workload, open_files, phase)?;
    main_runtime.block_on(async {
        let mut signals = Signals::new()
            .map_err(|error| Failure::other(format!("signals cannot be received ({error}).")))?;
        let dashboard = tokio::spawn(dashboard);
        announce(&ready);
        signals.first().await;
        tracing::info!("stopping");
        workload.drain();
        phase_sender.send_replace(Phase::Draining { limit: drain });
        tokio::select! {
            _ = async { tokio::join!(dashboard, served) } => {}
            () = signals.first() => std::process::exit(1),
        }
        Ok(())
    })?;
    main_runtime.shutdown_background();
    drop(folder);
    Ok(())
}

fn dashboard_router() -> axum::Router {
    axum::Router::new().route("/healthz", axum::routing::get(async || "ok"))
}

/// The workload's HTTP side lives on one thread of its own, so that a busy dashboard cannot slow it nor it the
/// dashboard; the receiver says when its drain is over.
fn serve_workload(
    workload: &Arc<Workload>,
    listeners: Vec<Listener>,
    open_files: u64,
    phase: watch::Receiver<Phase>,
) -> Result<oneshot::Receiver<()>, Failure> {
    let (done, over) = oneshot::channel();
    let no_thread =
        |error: io::Error| Failure::other(format!("no thread could be started ({error})."));
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(no_thread)?;
    let connections =
        usize::try_from(open_files.saturating_sub(RESERVED_FILES).max(64)).unwrap_or(usize::MAX);
    let router = workload.router();
    let gate = (workload.config().when_full == workload::WhenFull::StopAccepting).then(|| {
        let workload = Arc::clone(workload);
        Arc::new(move || {
            let workload = Arc::clone(&workload);
            let place: PlaceFuture =
                Box::pin(async move { Box::new(workload.ready_to_accept().await) as serve::Place });
            place
        }) as serve::Gate
    });
    thread::Builder::new()
        .name("workload".to_owned())
        .spawn(move || {
            let limits = ServeLimits::workload(connections);
            let end = runtime.block_on(serve::serve(listeners, router, limits, gate, phase));
            if let Err(error) = end {
                tracing::error!(%error, "the workload cannot be served");
            }
            let _ = done.send(());
        })
        .map_err(no_thread)?;
    Ok(over)
}

type PlaceFuture = Pin<Box<dyn Future<Output = serve::Place> + Send>>;

/// Descriptors that clients of the workload never get: dashboard, database, running tests.
const RESERVED_FILES: u64 = 1280;

fn workload_config(config: &Config) -> WorkloadConfig {
    let settings = &config.workload_settings;
    WorkloadConfig {
        name: config.node.name.clone(),
        region: config.node.region.clone(),
        threads: settings.threads,
        in_service: settings.in_service,
        discipline: match settings.discipline {
            config::Discipline::Fifo => workload::Discipline::Fifo,
            config::Discipline::Shared => workload::Discipline::Shared,
        },
        queue: settings.queue,
        when_full: match settings.when_full {
            config::WhenFull::Refuse => workload::WhenFull::Refuse,
            config::WhenFull::StopAccepting => workload::WhenFull::StopAccepting,
        },
        backlog: settings.backlog,
        tutorial: settings.tutorial,
    }
}

/// Every listening socket.
struct Listeners {
    dashboard: Vec<Listener>,
    workload: Vec<Listener>,
}

impl Listeners {
    fn bind(config: &Config) -> Result<Self, Failure> {
        let bind = |flag: &str, addresses: &[SocketAddr], backlog: u32| {
            addresses
                .iter()
                .map(|address| {
                    serve::bind(*address, backlog).map_err(|error| {
                        Failure::other(format!(
                            "{flag} {address} cannot be bound ({}): choose another with {flag}.",
                            plain(&error)
                        ))
                    })
                })
                .collect::<Result<Vec<_>, _>>()
        };
        Ok(Self {
            dashboard: bind("--dashboard", &config.dashboard, DASHBOARD_BACKLOG)?,
            workload: bind(
                "--workload",
                &config.workload,
                config.workload_settings.backlog,
            )?,
        })
    }

    fn ready_line(&self) -> String {
        let shown = |listeners: &[Listener]| match listeners {
            [] => "off".to_owned(),
            _ => listeners
                .iter()
                .map(|listener| format!("http://{}/", listener.address()))
                .collect::<Vec<_>>()
                .join(","),
        };
        format!(
            "tidemark ready dashboard={} workload={} receiver=off receiver3=off",
            shown(&self.dashboard),
            shown(&self.workload)
        )
    }
}

const DASHBOARD_BACKLOG: u32 = 4096;

/// Says on standard output that everything is bound; a closed standard output is no reason to stop.
fn announce(line: &str) {
    let mut output = io::stdout().lock();
    let _ = writeln!(output, "{line}").and_then(|()| output.flush());
}

struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// The next one.
    async fn first(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
