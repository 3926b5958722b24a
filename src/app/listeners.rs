//! Every listening socket of the program, and the line that announces them.

use std::io::{self, Write};
use std::net::SocketAddr;

use super::Failure;
use super::data::plain;
use crate::config::Config;
use crate::serve::{self, Listener};

/// Every listening socket.
pub(super) struct Listeners {
    pub(super) dashboard: Vec<Listener>,
    pub(super) workload: Vec<Listener>,
}

/// Connections to the dashboard that the kernel holds before they are accepted.
const DASHBOARD_BACKLOG: u32 = 4096;

impl Listeners {
    pub(super) fn bind(config: &Config) -> Result<Self, Failure> {
        let backlog = config.workload_settings.backlog;
        Ok(Self {
            dashboard: bind("--dashboard", &config.dashboard, DASHBOARD_BACKLOG)?,
            workload: bind("--workload", &config.workload, backlog)?,
        })
    }

    /// The line that announces them, still without the receivers.
    pub(super) fn ready_line(&self) -> String {
        let shown = |listeners: &[Listener]| match listeners {
            [] => "off".to_owned(),
            _ => addresses(listeners)
                .iter()
                .map(|address| format!("http://{address}/"))
                .collect::<Vec<_>>()
                .join(","),
        };
        format!(
            "tidemark ready dashboard={} workload={}",
            shown(&self.dashboard),
            shown(&self.workload)
        )
    }
}

/// The line with the receivers' addresses at its end.
pub(super) fn with_receivers(
    ready: &str,
    receiver: &[SocketAddr],
    receiver3: &[SocketAddr],
) -> String {
    let plain = |addresses: &[SocketAddr]| match addresses {
        [] => "off".to_owned(),
        _ => addresses
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(","),
    };
    format!(
        "{ready} receiver={} receiver3={}",
        plain(receiver),
        plain(receiver3)
    )
}

/// The addresses really bound.
pub(super) fn addresses(listeners: &[Listener]) -> Vec<SocketAddr> {
    listeners.iter().map(Listener::address).collect()
}

fn bind(flag: &str, addresses: &[SocketAddr], backlog: u32) -> Result<Vec<Listener>, Failure> {
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
        .collect()
}

/// Says on standard output that everything is bound; a closed standard output is no reason to stop.
pub(super) fn announce(line: &str) {
    let mut output = io::stdout().lock();
    let _ = writeln!(output, "{line}").and_then(|()| output.flush());
}
