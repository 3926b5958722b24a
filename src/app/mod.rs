//! The composition root: opens, binds, announces, serves, and stops in order.

mod audit;
mod backend;
pub(crate) mod data;
mod listeners;
mod login;
pub mod logs;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::routing::get;
use tokio::runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use self::data::DataFolder;
use self::listeners::{Listeners, addresses, announce};
use crate::api;
use crate::config::Config;
use crate::config::parse::NameSource;
use crate::dashboard;
use crate::guard::target::TargetRule;
use crate::guard::{self, GuardConfig};
use crate::measure::plan::throughput::Dialect;
use crate::minute::Minute;
use crate::net::{clock, sys};
use crate::runner::Naming;
use crate::serve::{self, Phase, ServeLimits};
use crate::state::{AppState, NodeFacts};
use crate::store::Store;
use crate::supervisor::{Network, ReceiverSettings, Settings, Supervisor};

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
    pub fn other(sentence: impl Into<String>) -> Self {
        Self {
            sentence: sentence.into(),
            status: 1,
        }
    }

    /// Something about the configuration: exit status 2.
    pub fn configuration(sentence: impl Into<String>) -> Self {
        Self {
            sentence: sentence.into(),
            status: 2,
        }
    }

    fn no_thread(error: &io::Error) -> Self {
        Self::other(format!("no thread could be started ({error})."))
    }
}

/// Serves until SIGTERM or SIGINT, then ends in order; a second signal ends at once.
///
/// # Errors
/// Whatever keeps it from starting.
pub fn serve(config: &Config) -> Result<(), Failure> {
    let started = clock::now();
    let open_files = sys::raise_open_files().unwrap_or(1024);
    sys::ignore_sigxfsz();
    sys::private_files();
    let _folder = DataFolder::open(&config.data)?;
    let listeners = Listeners::bind(config)?;
    let store = Store::open(&config.data).map_err(|error| Failure::other(error.to_string()))?;
    let access = login::access(config, &addresses(&listeners.dashboard))?;
    say_what_is_off(config);

    // Pages and API have two threads; renders, the workload's HTTP and running tests have their own.
    let pages = runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("dashboard")
        .enable_all()
        .build()
        .map_err(|error| Failure::no_thread(&error))?;
    let facts = node_facts(config, &listeners);
    let (drain, phase) = watch::channel(Phase::Serving);
    let ready = listeners.ready_line();
    let workload = (!listeners.workload.is_empty()).then(|| backend::workload(config));
    let workload_over = workload
        .as_ref()
        .map(|workload| backend::serve(workload, listeners.workload, open_files, phase.clone()))
        .transpose()
        .map_err(|error| Failure::no_thread(&error))?;

    let ended = pages.block_on(async {
        let mut signals = Signals::new().map_err(|error| Failure::no_thread(&error))?;
        let supervisor = Supervisor::start(store.clone(), settings(config, &facts.dashboard))
            .map_err(|error| Failure::no_thread(&error))?;
        let mut receivers = [Vec::new(), Vec::new()];
        for (place, (dialect, flag)) in [
            (Dialect::Iperf2, &config.receiver),
            (Dialect::Iperf3, &config.receiver3),
        ]
        .into_iter()
        .enumerate()
        {
            if !flag.is_empty() {
                let started = supervisor.start_receiver(dialect).await;
                receivers[place] = started
                    .map_err(|error| Failure::other(error.to_string()))?
                    .addresses;
            }
        }
        let ready = listeners::with_receivers(&ready, &receivers[0], &receivers[1]);
        let mut guard = GuardConfig::new(
            &facts.dashboard,
            &config.allow_hosts,
            config.public_url.as_ref(),
        );
        guard.access = access;
        let state = AppState {
            store: store.clone(),
            supervisor: supervisor.clone(),
            minute: Minute::new(
                supervisor.clone(),
                store.clone(),
                backend::pictures(config.node.name.clone()),
            ),
            workload: workload.clone(),
            access: Arc::clone(&guard.access),
            node: Arc::new(facts),
            started,
        };
        let dashboard_over = tokio::spawn(serve::serve(
            listeners.dashboard,
            audit::around(guard::secure(router(state), guard), store.clone()),
            ServeLimits::dashboard(),
            None,
            phase,
        ));
        stop_tests_when_told(supervisor.clone()).map_err(|error| Failure::no_thread(&error))?;
        supervisor.taken_up().await;
        announce(&ready);

        signals.next().await;
        tracing::info!("stopping");
        if let Some(workload) = &workload {
            workload.drain();
        }
        drain.send_replace(Phase::Draining {
            limit: config.drain,
        });
        let in_order = async {
            let run_over = supervisor.shutdown();
            let workload_over = async {
                if let Some(over) = workload_over {
                    let _ = over.await;
                }
            };
            let (_, (), ()) = tokio::join!(dashboard_over, run_over, workload_over);
            store.close().await;
        };
        tokio::select! {
            () = in_order => Ok(()),
            () = signals.next() => Err(Failure::other(
                "ended at once by a second signal; what was under way is lost.",
            )),
        }
    });
    // A name that is still being resolved must not hold up the end.
    pages.shutdown_background();
    ended
}

/// SIGUSR1 stops every test, and nothing else.
fn stop_tests_when_told(supervisor: Supervisor) -> io::Result<()> {
    let mut told = signal(SignalKind::user_defined1())?;
    tokio::spawn(async move {
        while told.recv().await.is_some() {
            tracing::warn!("SIGUSR1: every test is stopped");
            supervisor.cancel_all().await;
        }
    });
    Ok(())
}

/// Pages, downloads, API, and the health of this port.
fn router(state: AppState) -> Router {
    Router::new()
        .route("/healthz", get(async || "ok"))
        .merge(api::router(state.clone()))
        .merge(dashboard::router(state))
}

fn say_what_is_off(config: &Config) {
    if config.nats.is_some() {
        tracing::warn!("--nats has no effect: fleets are not built into this version");
    }
}

fn settings(config: &Config, dashboard: &[SocketAddr]) -> Settings {
    Settings {
        caps: *config.caps(),
        node: config.node.name.clone(),
        rule: TargetRule::new(config.allow.clone(), dashboard.to_vec()),
        instrument: Box::new(Network {
            identity: naming(&config.limits.identity),
            region: naming(&config.limits.region),
            egress_cap_bits_per_second: config.node.egress_cap_bits_per_second,
        }),
        receivers: ReceiverSettings {
            iperf2: config.receiver.clone(),
            iperf3: config.receiver3.clone(),
            accept_from: config.accept_from.clone(),
            max_streams: config.receiver_max_streams,
            max_duration: config.receiver_max_duration,
            egress_cap_bits_per_second: config.node.egress_cap_bits_per_second,
        },
    }
}

/// What names a backend, as the runner reads it.
pub(crate) fn naming(source: &NameSource) -> Naming {
    match source {
        NameSource::Header(name) => Naming::Header(name.clone()),
        NameSource::Cookie(name) => Naming::Cookie(name.clone()),
        NameSource::Address => Naming::Address,
    }
}

fn node_facts(config: &Config, listeners: &Listeners) -> NodeFacts {
    let shown = |source: &NameSource| match source {
        NameSource::Header(name) => name.clone(),
        NameSource::Cookie(name) => format!("cookie:{name}"),
        NameSource::Address => "address".to_owned(),
    };
    NodeFacts {
        name: config.node.name.clone(),
        region: config.node.region.clone(),
        zone: config.node.zone.clone(),
        machine_type: config.node.machine_type.clone(),
        vcpus: Some(config.node.vcpus),
        egress_cap_bits_per_second: config.node.egress_cap_bits_per_second,
        dashboard: addresses(&listeners.dashboard),
        workload: addresses(&listeners.workload),
        allow: config.allow.iter().map(ToString::to_string).collect(),
        identity_header: shown(&config.limits.identity),
        region_header: shown(&config.limits.region),
    }
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
