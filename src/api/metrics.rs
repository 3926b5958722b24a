//! The workload, the runs and the process in the Prometheus text format.

use std::fmt::{Display, Write};

use axum::extract::State as Shared;
use axum::http::header;
use axum::response::{IntoResponse, Response};

use super::problem::Answer;
use super::{Api, events};
use crate::measure::run::State;
use crate::net::{clock, sys};
use crate::supervisor::QUEUE_PLACES;
use crate::workload::WorkloadStatus;

/// `GET /metrics`
pub(super) async fn metrics(Shared(api): Shared<Api>) -> Answer<Response> {
    let mut page = Page(String::new());
    if let Some(workload) = &api.state.workload {
        page.workload(&workload.status());
    }
    let stored = api.state.store.count_by_state().await?;
    page.head("tidemark_runs", "gauge", "Runs in the notebook by state.");
    for state in State::ALL.map(State::word) {
        let count = stored.iter().find(|(word, _)| word == state);
        let count = count.map_or(0, |(_, count)| *count);
        page.line("tidemark_runs", &format!("{{state=\"{state}\"}}"), count);
    }
    let open = api.state.supervisor.open_runs();
    let waiting = open.iter().filter(|run| run.queue_place.is_some()).count();
    let streams = events::MAX_STREAMS - api.streams.available_permits();
    for (name, help, value) in [
        (
            "tidemark_queue_waiting",
            "Runs that wait for their turn.",
            waiting,
        ),
        ("tidemark_queue_places", "Runs that may wait.", QUEUE_PLACES),
        (
            "tidemark_event_streams",
            "Live views that are open.",
            streams,
        ),
    ] {
        page.one(name, "gauge", help, value);
    }
    page.process(&api);
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, kind)], page.0).into_response())
}

struct Page(String);

impl Page {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    fn line(&mut self, name: &str, labels: &str, value: impl Display) {
        let _ = writeln!(self.0, "{name}{labels} {value}");
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.head(name, kind, help);
        self.line(name, "", value);
    }

    fn workload(&mut self, status: &WorkloadStatus) {
        for (name, help, value) in [
            ("threads", "Renders that run at once.", status.threads),
            ("busy", "Renders that run now.", status.busy),
            (
                "in_service",
                "Renders that may be begun and not finished.",
                status.in_service,
            ),
            ("queued", "Requests that wait for a render.", status.queued),
            ("queue_places", "Requests that may wait.", status.queue),
            (
                "accepting",
                "1 while new connections are accepted.",
                usize::from(status.accepting),
            ),
            (
                "draining",
                "1 when it is about to stop.",
                usize::from(status.draining),
            ),
        ] {
            self.one(&format!("tidemark_workload_{name}"), "gauge", help, value);
        }
        for (name, help, value) in [
            ("served", "Pictures sent.", status.served),
            (
                "refused",
                "Requests answered 503 because the queue was full.",
                status.refused,
            ),
            (
                "dropped",
                "Renders not begun because the client was gone.",
                status.dropped,
            ),
        ] {
            self.one(
                &format!("tidemark_workload_{name}_total"),
                "counter",
                help,
                value,
            );
        }
    }

    fn process(&mut self, api: &Api) {
        let cpu = sys::process_cpu();
        let seconds = (cpu.user + cpu.system).as_secs_f64();
        self.one(
            "process_cpu_seconds_total",
            "counter",
            "User and system CPU time.",
            seconds,
        );
        if let Some(bytes) = resident_bytes() {
            self.one(
                "process_resident_memory_bytes",
                "gauge",
                "Memory in use.",
                bytes,
            );
        }
        if let Ok(entries) = std::fs::read_dir("/proc/self/fd") {
            self.one(
                "process_open_fds",
                "gauge",
                "Open file descriptors.",
                entries.count(),
            );
        }
        if let Ok(limit) = sys::open_files() {
            self.one(
                "process_max_fds",
                "gauge",
                "File descriptors that may be open.",
                limit,
            );
        }
        let up = clock::now().saturating_duration_since(api.state.started);
        let started = clock::wall().as_millisecond() as f64 / 1000.0 - up.as_secs_f64();
        self.one(
            "process_start_time_seconds",
            "gauge",
            "Start in Unix time.",
            started,
        );
        self.head("tidemark_build_info", "gauge", "The version that runs.");
        let version = concat!("{version=\"", env!("CARGO_PKG_VERSION"), "\"}");
        self.line("tidemark_build_info", version, 1);
    }
}

/// `VmRSS` of this process; `None` where the system does not tell.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}
