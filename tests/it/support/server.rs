//! A router behind the accept loop, in this process, with limits of the test's own.

use std::net::SocketAddr;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tidemark::serve::{self, Gate, Phase, ServeLimits};
use tokio::sync::watch;

/// A server on a free port and a thread of its own; dropping it ends both.
pub struct Server {
    pub address: SocketAddr,
    phase: watch::Sender<Phase>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub fn start(router: axum::Router, limits: ServeLimits, gate: Option<Gate>) -> Self {
        let listener = serve::bind("127.0.0.1:0".parse().unwrap(), 128).unwrap();
        let address = listener.address();
        let (phase, receiver) = watch::channel(Phase::Serving);
        let thread = thread::spawn(move || {
            tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap()
                .block_on(serve::serve(vec![listener], router, limits, gate, receiver))
                .unwrap();
        });
        Self {
            address,
            phase,
            thread: Some(thread),
        }
    }

    /// Begins the drain.
    pub fn drain(&self, limit: Duration) {
        self.phase.send_replace(Phase::Draining { limit });
    }

    /// Waits until the drain is over.
    pub fn wait(&mut self) {
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.drain(Duration::ZERO);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
