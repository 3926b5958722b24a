//! The monitor: polls the health checks of registered peers for as long as somebody wants it; kept in memory.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::{Supervisor, now};
use crate::guard::target::TargetRule;
use crate::measure::health::HealthCheck;
use crate::net::health::health_check;
use crate::store::Peer;

/// Servers that are watched at most.
pub const MOST_WATCHED: usize = 64;
/// Checks of each that are kept.
const KEPT: usize = 1_000;
/// How long a check may take at most.
const PATIENCE: Duration = Duration::from_secs(2);

/// The interval's bounds in s.
pub const INTERVAL_S: std::ops::RangeInclusive<f64> = 0.5..=3600.0;

/// A server to ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// What it is called.
    pub name: String,
    /// Its region, where that is known.
    pub region: Option<String>,
    /// Where it is asked.
    pub address: SocketAddr,
}

impl Server {
    /// The workload of a peer, at its internal address where it has one.
    pub fn of(peer: &Peer) -> Option<Self> {
        let address = *peer.addresses().first()?;
        Some(Self {
            name: peer.name.clone(),
            region: peer.region.clone(),
            address: SocketAddr::new(address, peer.ports.workload),
        })
    }
}

/// A server with what its checks came to.
#[derive(Clone, Debug)]
pub struct Watched {
    /// Which.
    pub server: Server,
    /// Its checks, oldest first.
    pub checks: VecDeque<HealthCheck>,
}

/// The monitor as its page shows it.
#[derive(Clone, Debug)]
pub struct MonitorView {
    /// Whether it goes on.
    pub running: bool,
    /// Seconds between two checks of a server.
    pub interval_s: f64,
    /// When it began.
    pub since: jiff::Timestamp,
    /// The servers.
    pub watched: Vec<Watched>,
}

/// The monitor that runs, or the last one.
pub(super) struct Monitor {
    stop: watch::Sender<bool>,
    seen: Arc<Mutex<MonitorView>>,
}

impl Supervisor {
    /// Asks each of these servers once, all at the same time.
    pub async fn ask_health(&self, servers: &[Server]) -> Vec<HealthCheck> {
        let asked = servers
            .iter()
            .map(|server| ask(&self.core.settings.rule, server.address));
        futures_util::future::join_all(asked).await
    }

    /// Watches these servers, in the place of what was watched before.
    ///
    /// # Errors
    /// A sentence where that cannot be.
    pub fn start_monitor(&self, servers: Vec<Server>, interval_s: f64) -> Result<(), String> {
        if !INTERVAL_S.contains(&interval_s) {
            return Err(format!(
                "The time between two checks is from {} to {} s.",
                INTERVAL_S.start(),
                INTERVAL_S.end()
            ));
        }
        if servers.is_empty() {
            return Err("No server is registered that could be watched: register it on the Peers page first.".to_owned());
        }
        if servers.len() > MOST_WATCHED {
            return Err(format!(
                "{} servers are named, and {MOST_WATCHED} is the most: name fewer.",
                servers.len()
            ));
        }
        let rule = &self.core.settings.rule;
        for server in &servers {
            rule.check(server.address, &[server.address.ip()])
                .map_err(|refusal| refusal.sentence)?;
        }
        let seen = Arc::new(Mutex::new(MonitorView {
            running: true,
            interval_s,
            since: now(),
            watched: servers
                .iter()
                .map(|server| Watched {
                    server: server.clone(),
                    checks: VecDeque::new(),
                })
                .collect(),
        }));
        let (stop, stopped) = watch::channel(false);
        let before = self.core.monitor().replace(Monitor {
            stop,
            seen: Arc::clone(&seen),
        });
        if let Some(before) = before {
            before.stop.send_replace(true);
        }
        let supervisor = self.clone();
        tokio::spawn(async move {
            watch_over(&supervisor, servers, interval_s, &seen, stopped).await;
            view(&seen).running = false;
        });
        Ok(())
    }

    /// Stops the monitor; what it saw stays.
    pub fn stop_monitor(&self) {
        if let Some(monitor) = self.core.monitor().as_ref() {
            monitor.stop.send_replace(true);
            view(&monitor.seen).running = false;
        }
    }

    /// The monitor that runs, or the last one since the program started.
    pub fn monitor(&self) -> Option<MonitorView> {
        let monitor = self.core.monitor();
        Some(view(&monitor.as_ref()?.seen).clone())
    }
}

fn view(seen: &Mutex<MonitorView>) -> std::sync::MutexGuard<'_, MonitorView> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn watch_over(
    supervisor: &Supervisor,
    servers: Vec<Server>,
    interval_s: f64,
    seen: &Mutex<MonitorView>,
    mut stopped: watch::Receiver<bool>,
) {
    let mut closing = supervisor.core.closing.subscribe();
    let mut turn = tokio::time::interval(Duration::from_secs_f64(interval_s));
    turn.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = turn.tick() => {}
            _ = stopped.wait_for(|stop| *stop) => return,
            _ = closing.wait_for(|closing| *closing) => return,
        }
        let checks = supervisor.ask_health(&servers).await;
        let mut view = view(seen);
        for (watched, check) in view.watched.iter_mut().zip(checks) {
            watched.checks.push_back(check);
            if watched.checks.len() > KEPT {
                watched.checks.pop_front();
            }
        }
    }
}

async fn ask(rule: &TargetRule, address: SocketAddr) -> HealthCheck {
    let at = now();
    if let Err(refusal) = rule.check(address, &[address.ip()]) {
        return HealthCheck {
            at,
            up: false,
            status: None,
            took_ms: 0.0,
            failed: Some(refusal.sentence),
        };
    }
    let answered = health_check(address, PATIENCE).await;
    HealthCheck {
        at,
        up: answered.status == Some(200),
        status: answered.status,
        took_ms: crate::measure::units::ms(answered.took),
        failed: answered.failed,
    }
}
