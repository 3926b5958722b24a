//! The accept loop of all HTTP listeners: who may connect, for how long, and how it ends.
//!
//! One [`serve`] call owns a router and its listeners. Every connection is one task over hyper's HTTP/1 codec;
//! timers, caps and the end are ours, because silent and slow clients must never hold what others need.

mod activity;
mod connection;
mod heads;
mod listener;
mod registry;

use std::any::Any;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

pub use self::listener::{Listener, bind};
use self::registry::Registry;
use crate::net::clock;

/// The client's address, as an extension of every request (IPv4-mapped addresses as IPv4).
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub SocketAddr);

/// The address at which the connection was accepted, as an extension of every request.
#[derive(Clone, Copy, Debug)]
pub struct Local(pub SocketAddr);

/// Awaited before each accept: while it waits, new connections stay in the kernel's backlog.
///
/// What it gives is kept until the accepted connection has ended.
pub type Gate = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Place> + Send>> + Send + Sync>;

/// Whatever a [`Gate`] wants to be kept as long as the connection.
pub type Place = Box<dyn Any + Send>;

/// What a client may take.
#[derive(Clone, Copy, Debug)]
pub struct ServeLimits {
    /// From the first byte of a request to the end of its head.
    pub head: Duration,
    /// Without any byte: before the first request and between two.
    pub idle: Duration,
    /// Without taking any byte of a reply.
    pub stall: Duration,
    /// Connections of one address; `None` = no limit.
    pub per_address: Option<usize>,
    /// Connections in all.
    pub total: usize,
    /// How long a drain keeps accepting at least, so that a load balancer can read "not ready"; zero = not at all.
    pub linger: Duration,
    /// Whether the framing of every request is checked before the codec sees it.
    pub strict: bool,
}

impl ServeLimits {
    /// The dashboard's: a few people, and everybody who finds the port.
    pub const fn dashboard() -> Self {
        Self {
            head: Duration::from_secs(10),
            idle: Duration::from_secs(10),
            stall: Duration::from_secs(30),
            per_address: Some(64),
            total: 1024,
            linger: Duration::ZERO,
            strict: true,
        }
    }

    /// The workload's: load balancers keep idle connections for 600 s and are one address.
    pub const fn workload(total: usize) -> Self {
        Self {
            head: Duration::from_secs(10),
            idle: Duration::from_secs(650),
            stall: Duration::from_secs(30),
            per_address: None,
            total,
            linger: Duration::from_secs(1),
            // A load balancer stands before it: the two must never disagree where a request ends.
            strict: true,
        }
    }
}

/// Whether a listener serves or comes to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Serves.
    Serving,
    /// Finishes what is under way.
    Draining {
        /// Cuts off whatever is still open after this.
        limit: Duration,
    },
}

/// Serves the router on all listeners until the drain is over.
///
/// A drain with a `linger` keeps the listeners open as long as requests are under way; without, they close at once.
/// Event streams are cut [`EVENT_STREAM_GRACE`] after the drain began, since they have no end of their own.
///
/// # Errors
/// A listener that the runtime cannot take over.
pub async fn serve(
    listeners: Vec<Listener>,
    router: axum::Router,
    limits: ServeLimits,
    gate: Option<Gate>,
    phase: watch::Receiver<Phase>,
) -> io::Result<()> {
    let registry = Arc::new(Registry::new(limits));
    let shared = Arc::new(connection::Shared {
        router,
        limits,
        registry: Arc::clone(&registry),
        phase: phase.clone(),
    });
    let mut loops = JoinSet::new();
    for listener in listeners {
        let listener = TcpListener::from_std(listener.into_std())?;
        loops.spawn(accept_loop(
            listener,
            Arc::clone(&shared),
            gate.clone(),
            phase.clone(),
        ));
    }
    let Some(limit) = draining(phase).await else {
        return Ok(());
    };
    let began = clock::now();
    let end = began + limit;
    if limits.linger.is_zero() {
        loops.shutdown().await;
    } else {
        let open_until = (began + limits.linger).min(end);
        tokio::time::sleep_until(open_until.into()).await;
        let _ = tokio::time::timeout_at(end.into(), registry.until(Registry::is_quiet)).await;
        loops.shutdown().await;
    }
    registry.close_where(|activity| !activity.is_busy());
    let grace = (began + EVENT_STREAM_GRACE).min(end);
    if tokio::time::timeout_at(grace.into(), registry.until(Registry::is_empty))
        .await
        .is_err()
    {
        registry.close_where(|activity| !activity.is_busy() || activity.is_event_stream());
        let _ = tokio::time::timeout_at(end.into(), registry.until(Registry::is_empty)).await;
    }
    registry.close_where(|_| true);
    Ok(())
}

/// How long an event stream may go on once the drain began: enough for its last event.
pub const EVENT_STREAM_GRACE: Duration = Duration::from_secs(1);

/// Waits for the drain; `None` when nobody is left who could begin it.
async fn draining(mut phase: watch::Receiver<Phase>) -> Option<Duration> {
    let found = phase
        .wait_for(|phase| matches!(phase, Phase::Draining { .. }))
        .await
        .ok()?;
    match *found {
        Phase::Draining { limit } => Some(limit),
        Phase::Serving => None,
    }
}

async fn accept_loop(
    listener: TcpListener,
    shared: Arc<connection::Shared>,
    gate: Option<Gate>,
    phase: watch::Receiver<Phase>,
) {
    let mut complaint = Complaint::default();
    loop {
        let place = match &gate {
            // A drain must not wait behind a full queue: probes want their 503.
            Some(gate) => tokio::select! {
                place = gate() => Some(place),
                _ = draining(phase.clone()) => None,
            },
            None => None,
        };
        match listener.accept().await {
            Ok((stream, peer)) => admit(stream, peer, place, &shared),
            Err(error) if of_one_connection(&error) => {}
            Err(error) => {
                complaint.log(&error);
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// After an accept that failed for want of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

fn admit(
    stream: TcpStream,
    peer: SocketAddr,
    place: Option<Place>,
    shared: &Arc<connection::Shared>,
) {
    let Ok(local) = stream.local_addr() else {
        return;
    };
    let (peer, local) = (canonical(peer), canonical(local));
    // Small replies must not wait for the acknowledgement of earlier ones.
    let _ = stream.set_nodelay(true);
    match shared.registry.admit(peer.ip()) {
        Some(seat) => {
            let connection =
                connection::drive(stream, Peer(peer), Local(local), Arc::clone(shared), seat);
            tokio::spawn(async move {
                connection.await;
                drop(place);
            });
        }
        None => {
            let _ = stream.try_write(BUSY);
        }
    }
}

const BUSY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 40\r\n\r\nToo many connections are open right now\n";

fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        ip @ IpAddr::V4(_) => SocketAddr::new(ip, address.port()),
        IpAddr::V6(_) => address,
    }
}

/// Errors that concern the connection that was to be accepted, not the listener.
fn of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    )
}

/// Says at most once in ten seconds that connections cannot be accepted.
#[derive(Default)]
struct Complaint {
    last: Option<Instant>,
    silent: u64,
}

impl Complaint {
    fn log(&mut self, error: &io::Error) {
        let now = clock::now();
        let due = self
            .last
            .is_none_or(|last| now.duration_since(last) >= Duration::from_secs(10));
        if due {
            tracing::warn!(%error, since_last = self.silent, "a connection could not be accepted");
            self.last = Some(now);
            self.silent = 0;
        } else {
            self.silent += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_reply_to_one_too_many_states_its_length() {
        let text = std::str::from_utf8(super::BUSY).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(
            head.contains(&format!("Content-Length: {}", body.len())),
            "{}",
            body.len()
        );
    }
}
