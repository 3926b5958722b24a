//! A CPU-bound web server to be measured: own port, own threads, no state shared with anything else.

pub mod mandelbrot;
mod picture;
mod pool;
mod routes;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::http::HeaderValue;
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::net::clock;
use crate::workload::mandelbrot::{Point, Work};
use crate::workload::picture::Canvas;
use crate::workload::pool::{Limits, Pool, Task, Turn};

/// In which order renders get the threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Discipline {
    /// A render keeps its thread until it is done.
    Fifo,
    /// All renders in service take turns on the threads, row by row.
    Shared,
}

/// What happens when the queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WhenFull {
    /// 503 with `Retry-After`, at once.
    Refuse,
    /// No connection is accepted until there is room: clients wait in the listen backlog and beyond it.
    StopAccepting,
}

/// How the workload serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadConfig {
    /// `X-Served-By` of every reply.
    pub name: String,
    /// `X-Region` of every reply.
    pub region: Option<String>,
    /// Render threads, at least 1.
    pub threads: usize,
    /// Renders begun and not ended at most, at least 1.
    pub in_service: usize,
    /// Who gets a thread.
    pub discipline: Discipline,
    /// Requests that wait for service at most.
    pub queue: usize,
    /// What happens beyond that.
    pub when_full: WhenFull,
    /// Length of the listen backlog.
    pub backlog: u32,
    /// Whether these are the source lab's settings.
    pub tutorial: bool,
}

impl WorkloadConfig {
    /// As many threads as this process has CPUs (its cgroup's quota respected), first come, first served, 512 waiting.
    pub fn new(name: impl Into<String>) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            name: name.into(),
            region: None,
            threads,
            in_service: threads,
            discipline: Discipline::Fifo,
            queue: 512,
            when_full: WhenFull::Refuse,
            backlog: 4096,
            tutorial: false,
        }
    }

    /// The source lab's server: 40 children share 2 CPUs behind a backlog of 5, and health checks wait with the rest.
    pub fn tutorial(name: impl Into<String>) -> Self {
        Self {
            threads: 2,
            in_service: 40,
            discipline: Discipline::Shared,
            queue: 0,
            when_full: WhenFull::StopAccepting,
            backlog: 5,
            tutorial: true,
            ..Self::new(name)
        }
    }
}

/// State and counters for pages and metrics.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WorkloadStatus {
    /// Render threads.
    pub threads: usize,
    /// Threads that render now.
    pub busy: usize,
    /// Renders begun and not ended, or next in line for a thread.
    pub in_service: usize,
    /// Requests that wait for service.
    pub queued: usize,
    /// Requests that may wait for service.
    pub queue: usize,
    /// Who gets a thread.
    pub discipline: Discipline,
    /// What happens when the queue is full.
    pub when_full: WhenFull,
    /// Pictures computed since the start.
    pub served: u64,
    /// Requests refused with 503 since the start.
    pub refused: u64,
    /// Renders not begun because their client had left.
    pub dropped: u64,
    /// Renders stopped half-way because their client left.
    pub cut_short: u64,
    /// Renders that ended in a panic and were answered with 500.
    pub panicked: u64,
    /// Whether a new connection would be accepted now.
    pub accepting: bool,
    /// Whether health checks are answered with 503 because the server is about to stop.
    pub draining: bool,
}

/// The server behind the workload port.
pub struct Workload {
    config: WorkloadConfig,
    pool: Pool<Render>,
    draining: AtomicBool,
    /// Places for connections, where accepting stops when they are taken.
    places: Option<Arc<Semaphore>>,
    served_by: HeaderValue,
    region: Option<HeaderValue>,
}

/// A connection's place; kept as long as the connection lives.
#[derive(Debug)]
pub struct Place {
    _permit: Option<OwnedSemaphorePermit>,
}

impl Workload {
    /// Starts the render threads.
    pub fn new(config: WorkloadConfig) -> Arc<Self> {
        let stops = config.when_full == WhenFull::StopAccepting;
        let limits = Limits {
            threads: config.threads.max(1),
            in_service: config.in_service.max(1),
            discipline: config.discipline,
            queue: (!stops).then_some(config.queue),
        };
        let places = limits.in_service.saturating_add(config.queue);
        Arc::new(Self {
            pool: Pool::new(limits),
            draining: AtomicBool::new(false),
            places: stops.then(|| Arc::new(Semaphore::new(places.min(Semaphore::MAX_PERMITS)))),
            served_by: header_value(&config.name),
            region: config.region.as_deref().map(header_value),
            config,
        })
    }

    /// The routes of the workload port.
    pub fn router(self: &Arc<Self>) -> axum::Router {
        routes::router(Arc::clone(self))
    }

    /// The settings in force.
    pub fn config(&self) -> &WorkloadConfig {
        &self.config
    }

    /// Waits until one more connection may be accepted; the place is free again when the returned value is dropped.
    ///
    /// Immediate unless the server stops accepting when it is full. Then each place is a connection, as each was a child
    /// process of the source lab's server, and replies close their connection, so that an idle one keeps nobody out.
    pub async fn ready_to_accept(&self) -> Place {
        let permit = match &self.places {
            // The semaphore is never closed.
            Some(places) => Arc::clone(places).acquire_owned().await.ok(),
            None => None,
        };
        Place { _permit: permit }
    }

    /// From now on health checks say 503; pictures are still served.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// The state now.
    pub fn status(&self) -> WorkloadStatus {
        let counts = self.pool.counts();
        WorkloadStatus {
            threads: self.config.threads.max(1),
            busy: counts.busy,
            in_service: counts.in_service,
            queued: counts.waiting,
            queue: self.config.queue,
            discipline: self.config.discipline,
            when_full: self.config.when_full,
            served: counts.served,
            refused: counts.refused,
            dropped: counts.dropped,
            cut_short: counts.cut_short,
            panicked: counts.panicked,
            accepting: self
                .places
                .as_ref()
                .is_none_or(|places| places.available_permits() > 0),
            draining: self.draining.load(Ordering::Relaxed),
        }
    }
}

/// Draws the picture of this work on the calling thread, as PNG; `standard` takes some tenths of a second.
pub fn picture(work: Work) -> Vec<u8> {
    let mut canvas = Canvas::new(work);
    let mut points = vec![Point::default(); work.width() as usize];
    for row in 0..work.height() {
        work.row(row, &mut points);
        canvas.row(&points);
    }
    canvas.png()
}

/// A header value of this text; what HTTP does not allow there becomes a dash.
fn header_value(text: &str) -> HeaderValue {
    let visible: String = text
        .chars()
        .map(|c| match c {
            ' '..='~' => c,
            _ => '-',
        })
        .collect();
    HeaderValue::from_str(visible.trim()).unwrap_or_else(|_| HeaderValue::from_static("-"))
}

/// One picture on its way through the pool: a row at each turn, and the encoding at the last.
struct Render {
    work: Work,
    canvas: Canvas,
    points: Vec<Point>,
    row: u32,
    iterations: u64,
    compute: Duration,
    encode: Duration,
    png: Vec<u8>,
}

impl Render {
    fn new(work: Work) -> Self {
        Self {
            work,
            canvas: Canvas::new(work),
            points: vec![Point::default(); work.width() as usize],
            row: 0,
            iterations: 0,
            compute: Duration::ZERO,
            encode: Duration::ZERO,
            png: Vec::new(),
        }
    }
}

impl Task for Render {
    fn turn(&mut self) -> Turn {
        let began = clock::now();
        if self.row < self.work.height() {
            self.iterations += self.work.row(self.row, &mut self.points);
            self.canvas.row(&self.points);
            self.row += 1;
            self.compute += clock::now().saturating_duration_since(began);
            Turn::More
        } else {
            self.png = self.canvas.png();
            self.encode = clock::now().saturating_duration_since(began);
            Turn::Done
        }
    }
}
