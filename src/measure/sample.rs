//! What the runners hand over: requests, connections and batches of them; all instants count from the run's start.

use std::sync::Arc;
use std::time::Duration;

use crate::measure::outcome::Outcome;

/// One planned request, complete: when it should have gone, when it went, and how it ended.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestSample {
    /// Position in the plan, from 0.
    pub seq: u64,
    /// Which of the plan's URLs it asked for.
    pub url: u16,
    /// When the schedule wanted it sent (closed loop: when its user was ready).
    pub scheduled: Duration,
    /// When it was really begun (connect, or first write on a kept connection);
    /// `None` when it was lost before that with its connection.
    pub started: Option<Duration>,
    /// How long the TCP connect took; `None` on a kept connection or when it never came up.
    pub connect: Option<Duration>,
    /// How long the TLS handshake took; `None` without TLS, on a kept connection, or when it failed.
    pub tls: Option<Duration>,
    /// From `started` to the last byte of the request written.
    pub wrote: Option<Duration>,
    /// From `started` to the first byte of the reply.
    pub first_byte: Option<Duration>,
    /// When it ended: last byte of the reply, or the moment at which it failed.
    pub ended: Duration,
    /// Status code of the final reply's status line, whether or not the body was complete.
    pub status: Option<u16>,
    /// Bytes of the reply's head, with interim replies.
    pub header_bytes: u32,
    /// Bytes of the reply's content, chunk framing not counted.
    pub content_bytes: u64,
    /// Bytes of the reply's trailer section.
    pub footer_bytes: u32,
    /// Bytes of the request written.
    pub sent_bytes: u32,
    /// How it ended.
    pub outcome: Outcome,
    /// Whether it was sent a second time after a kept connection turned out to be closed.
    pub retried_stale: bool,
    /// Which backend answered (the identity header's value).
    pub served_by: Option<Arc<str>>,
    /// Which region answered (the region header's value).
    pub region: Option<Arc<str>>,
    /// `Server-Timing` of the reply.
    pub server_timing: Option<ServerTiming>,
    /// For failures: the error's name or the first bytes that came, at most 120 characters.
    pub detail: Option<Arc<str>>,
}

impl RequestSample {
    /// End − planned start: the latency that objectives, charts and CSV mean.
    pub fn latency(&self) -> Duration {
        self.ended.saturating_sub(self.scheduled)
    }

    /// End − actual start; `None` when it was never begun.
    pub fn service_time(&self) -> Option<Duration> {
        self.started
            .map(|started| self.ended.saturating_sub(started))
    }

    /// Actual start − planned start; `None` when it was never begun.
    pub fn lateness(&self) -> Option<Duration> {
        self.started
            .map(|started| started.saturating_sub(self.scheduled))
    }
}

/// Milliseconds that the server says it spent; each `None` where the reply does not carry it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ServerTiming {
    /// Waiting for a thread.
    pub queue_ms: Option<f32>,
    /// Computing the picture.
    pub compute_ms: Option<f32>,
    /// Encoding it.
    pub encode_ms: Option<f32>,
}

/// One connection from its first connect call to its end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConnectionSample {
    /// When connect was called.
    pub started: Duration,
    /// When the connection was closed or given up.
    pub ended: Duration,
    /// How long the TCP connect took; `None` when it never came up.
    pub connect: Option<Duration>,
    /// How long the TLS handshake took.
    pub tls: Option<Duration>,
    /// Complete replies received on it.
    pub replies: u32,
}

/// What all generator threads together produced since the batch before.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Up to which instant, since the run's start, this batch is complete.
    pub until: Duration,
    /// Requests that ended, in the order in which they ended on their thread.
    pub requests: Vec<RequestSample>,
    /// Connections that ended.
    pub connections: Vec<ConnectionSample>,
    /// Requests begun since the batch before (the offered load really sent).
    pub sent: u64,
    /// Requests that were due and not sent because too many were in flight, since the batch before.
    pub unsent: u64,
    /// Requests under way at `until`.
    pub in_flight: u32,
    /// Connections open at `until`.
    pub open_connections: u32,
}

/// What is known only once the last request has ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ended {
    /// From the run's start to the end of the last request.
    pub duration: Duration,
    /// From the first planned send to the last planned send plus one gap: the time over which the load was offered.
    pub send_window: Duration,
    /// Requests planned in all (connections × calls); `None` for a run by time in a closed loop.
    pub planned: Option<u64>,
    /// Requests planned and never begun.
    pub unsent: u64,
    /// Most connects begun in one pass of a generator thread.
    pub burst_max: u32,
    /// Most connections open at once.
    pub concurrent_max: u32,
    /// Integral of requests in flight over time, in request-seconds.
    pub in_flight_seconds: f64,
    /// User CPU time of the generator threads.
    pub cpu_user: Duration,
    /// System CPU time of the generator threads.
    pub cpu_system: Duration,
    /// CPU time of the busiest generator thread.
    pub cpu_busiest: Duration,
    /// Generator threads used.
    pub threads: u32,
    /// How far the wall clock stepped against the steady clock during the run, in seconds (signed).
    pub clock_step_s: f64,
    /// Whether a person or a shutdown ended it before its plan did.
    pub stopped: bool,
    /// Whether every address of the target belongs to this machine.
    pub same_host: bool,
    /// How long resolving the first URL's name took; `None` for an address.
    pub lookup: Option<Duration>,
    /// Addresses of the target that requests were sent to.
    pub addresses: Vec<std::net::SocketAddr>,
}
