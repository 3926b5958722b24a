//! Receivers: iperf 2 and iperf 3 clients measure against this node, and what they did becomes tests like our own.

mod desk;
mod iperf2_tcp;
mod iperf2_udp;
mod iperf3;
mod iperf3_plan;
mod iperf3_streams;
mod line;
mod opening;
mod send;
mod sequence;
mod udp_return;

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::measure::flow::{FlowBatch, FlowEnd};
use crate::measure::plan::throughput::{Dialect, ThroughputPlan};
use crate::net::listening;
use desk::Desk;
use iperf3::Hall;

/// How a receiver is set up.
#[derive(Clone)]
pub struct ReceiverConfig {
    /// Whose clients it serves.
    pub dialect: Dialect,
    /// Address and port, TCP and UDP; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Who may test against it; anyone else is closed without an answer.
    pub accept_from: Arc<dyn Fn(IpAddr) -> bool + Send + Sync>,
    /// Streams that it serves at once, in all and from one address.
    pub max_streams: u32,
    /// How long it serves a stream.
    pub max_duration: Duration,
    /// How often it tells what streams moved.
    pub interval: Duration,
    /// Name of this node, for its threads and logs.
    pub name: String,
}

/// How often a receiver tells what streams moved when nothing else was asked for.
pub const INTERVAL: Duration = Duration::from_secs(1);

/// What a receiver tells; for one test in the order begun, batches, ended.
#[derive(Clone, Debug)]
pub enum ReceiverEvent {
    /// A client began a test.
    TestBegun {
        /// Number of the test, from 1 at each start of the receiver.
        id: u64,
        /// The client.
        from: SocketAddr,
        /// The test as understood, seen from this node: a client that sends is `receive`. An old client
        /// does not say how long or how much: both are `None` then.
        plan: ThroughputPlan,
    },
    /// Streams that were opened, or figures of about an interval.
    Batch {
        /// The test.
        id: u64,
        /// Its streams' intervals.
        batch: FlowBatch,
    },
    /// The test is over.
    TestEnded {
        /// The test.
        id: u64,
        /// Its streams at their end, with this end's bytes.
        end: FlowEnd,
    },
    /// Something was turned away; the same from the same address is told once in 10 s.
    Refused {
        /// Where it came from.
        from: IpAddr,
        /// A sentence.
        why: String,
    },
}

/// What a receiver does and has done since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiverStatus {
    /// Tests in progress.
    pub running: u32,
    /// Streams in progress.
    pub streams: u32,
    /// Connections that have not said yet what they are.
    pub connections: u32,
    /// Tests begun.
    pub begun: u64,
    /// Tests ended.
    pub ended: u64,
    /// Connections and flows turned away.
    pub refused: u64,
    /// Payload bytes received, as far as told in batches.
    pub bytes_received: u64,
    /// Payload bytes sent to clients that asked for it, as far as told in batches.
    pub bytes_sent: u64,
    /// Datagrams that this machine's socket buffer dropped.
    pub dropped: u64,
}

/// A running receiver; dropping it stops it.
pub struct Receiver {
    desk: Arc<Desk>,
    listener: TcpListener,
    address: SocketAddr,
    threads: Vec<JoinHandle<()>>,
}

/// Stack of each thread: they only move bytes.
const STACK: usize = 256 << 10;

impl Receiver {
    /// Binds and serves; events come on a thread of the receiver's own, one after the other.
    pub fn start(
        config: ReceiverConfig,
        events: Arc<dyn Fn(ReceiverEvent) + Send + Sync>,
    ) -> io::Result<Self> {
        let (listener, socket) = listening::pair(config.listen)?;
        let address = listener.local_addr()?;
        let dialect = config.dialect;
        let desk = Desk::new(config);
        let mut receiver = Self {
            desk: Arc::clone(&desk),
            listener: listener.try_clone()?,
            address,
            threads: Vec::new(),
        };
        let teller = Arc::clone(&desk);
        receiver.thread("tell", move || teller.tell(&events))?;
        match dialect {
            Dialect::Iperf2 => {
                let door = Arc::clone(&desk);
                receiver.thread("tcp", move || iperf2_tcp::accept(&door, &listener))?;
                receiver.thread("udp", move || iperf2_udp::serve(&desk, socket))?;
            }
            Dialect::Iperf3 => {
                let hall = Hall::new(&desk, socket);
                let door = Arc::clone(&hall);
                receiver.thread("tcp", move || iperf3::accept(&door, &listener))?;
                receiver.thread("udp", move || iperf3_streams::serve_udp(&hall))?;
            }
        }
        Ok(receiver)
    }

    /// Where it listens.
    pub const fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// What it does and has done.
    pub fn status(&self) -> ReceiverStatus {
        self.desk.status()
    }

    /// Ends one test with what it has; no test of this number is no fault.
    pub fn end_test(&self, id: u64) {
        self.desk.end_test(id);
    }

    /// Ends all tests and gives the port back, within a second.
    pub fn stop(self) {
        drop(self);
    }

    fn thread(&mut self, name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let handle = spawn(name, work)?;
        self.threads.push(handle);
        Ok(())
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.desk.stop();
        listening::shut(&self.listener);
        for thread in self.threads.drain(..) {
            // A thread that panicked has nothing more to do.
            let _ = thread.join();
        }
    }
}

/// Starts a thread of a receiver.
fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    thread::Builder::new()
        .name(format!("receive-{name}"))
        .stack_size(STACK)
        .spawn(work)
}
