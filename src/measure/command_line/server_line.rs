//! A line that starts a receiver, `iperf -s` or `iperf3 -s`, as what the built-in one is to do.

use std::net::IpAddr;

use crate::measure::plan::throughput::Dialect;

/// A receiver as such a line asks for it.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerLine {
    /// Whose clients it serves.
    pub dialect: Dialect,
    /// Whether the line says `-u`; the built-in receiver serves TCP and UDP on its port at once.
    pub udp: bool,
    /// Port to listen on.
    pub port: u16,
    /// Address to listen on; `None` = every one.
    pub bind: Option<IpAddr>,
    /// Whether it listens on IPv6 too (`-V`); iperf 3 does so by itself.
    pub ipv6: bool,
    /// Length of a printed interval in s; `None` = totals alone.
    pub interval_s: Option<f64>,
    /// Tests of iperf 3 (`-1`) or connections of iperf 2 (`-P`) after which it ends; `None` = it serves until it is
    /// stopped.
    pub tests: Option<u64>,
    /// Whether it is to go on in the background (`-D`).
    pub background: bool,
    /// Seconds after which it ends (iperf 2 `-t`).
    pub listen_s: Option<f64>,
}

impl ServerLine {
    /// What the tool does when nothing more is said.
    pub(super) const fn new(dialect: Dialect) -> Self {
        let (port, interval_s) = match dialect {
            Dialect::Iperf2 => (5001, None),
            Dialect::Iperf3 => (5201, Some(1.0)),
        };
        Self {
            dialect,
            udp: false,
            port,
            bind: None,
            ipv6: matches!(dialect, Dialect::Iperf3),
            interval_s,
            tests: None,
            background: false,
            listen_s: None,
        }
    }

    /// The sentence for where a test is asked for.
    pub(super) fn sentence(&self) -> String {
        let (tool, flag) = match self.dialect {
            Dialect::Iperf2 => ("iperf", "--receiver"),
            Dialect::Iperf3 => ("iperf3", "--receiver3"),
        };
        format!(
            "This line starts no test, it waits for one: start the built-in receiver of this node (its port is set by {flag}; this line asks for {}), or run tidemark run {tool} -s in a shell.",
            self.port
        )
    }
}
