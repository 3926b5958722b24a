//! The host names that the dashboard answers to.
//!
//! A page of another site can make a browser resolve that site's name to this machine; it is then same-origin with
//! us, and only the Host header tells (DNS rebinding).

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::{StatusCode, header};

use super::{GuardConfig, refuse, refuse_and_close};
use crate::serve::Local;

/// The host names that the dashboard answers to.
#[derive(Clone, Debug)]
pub struct Hosts {
    names: BTreeSet<String>,
    addresses: BTreeSet<IpAddr>,
    /// Bound to every address: the one at which a connection came in is then fine too.
    wildcard: bool,
    /// Origins beside that of the Host itself, as `scheme://host[:port]`.
    origins: BTreeSet<String>,
}

impl Hosts {
    /// Loopback names, the bound addresses, and what the flags add.
    pub fn new(
        bound: &[SocketAddr],
        allow_hosts: &[String],
        public_url: Option<&url::Url>,
    ) -> Self {
        let mut hosts = Self {
            names: BTreeSet::from(["localhost".to_owned()]),
            addresses: BTreeSet::from([
                IpAddr::V4(Ipv4Addr::LOCALHOST),
                IpAddr::V6(Ipv6Addr::LOCALHOST),
            ]),
            wildcard: bound.iter().any(|address| address.ip().is_unspecified()),
            origins: BTreeSet::new(),
        };
        hosts.addresses.extend(
            bound
                .iter()
                .map(|address| address.ip().to_canonical())
                .filter(|ip| !ip.is_unspecified()),
        );
        for host in allow_hosts {
            hosts.add(host);
        }
        if let Some(url) = public_url {
            hosts.add(url.host_str().unwrap_or_default());
            hosts.origins.insert(url.origin().ascii_serialization());
        }
        hosts
    }

    fn add(&mut self, host: &str) {
        match parse(host) {
            Some(Host::Name(name)) => {
                self.names.insert(name);
            }
            Some(Host::Address(ip)) => {
                self.addresses.insert(ip);
            }
            None => {}
        }
    }

    /// Whether a Host header with this value is answered; `local` is where the connection was accepted.
    pub fn allows(&self, host: &str, local: Option<IpAddr>) -> bool {
        match parse(host) {
            Some(Host::Name(name)) => self.names.contains(&name),
            Some(Host::Address(ip)) => {
                self.addresses.contains(&ip)
                    || self.wildcard && local.is_some_and(|local| local.to_canonical() == ip)
            }
            None => false,
        }
    }

    /// Whether this origin is ours in front of a proxy.
    pub(super) fn is_public_origin(&self, origin: &str) -> bool {
        self.origins.contains(origin)
    }
}

enum Host {
    /// In lower case.
    Name(String),
    Address(IpAddr),
}

/// `name`, `address` or `[address]`, each with or without a port; the port may be another one, as behind a tunnel.
fn parse(text: &str) -> Option<Host> {
    let (host, port) = if text.starts_with('[') {
        let end = text.find(']')? + 1;
        (&text[..end], &text[end..])
    } else {
        text.split_at(text.find(':').unwrap_or(text.len()))
    };
    if !port.is_empty() {
        let digits = port.strip_prefix(':')?;
        let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        if !plain || digits.parse::<u16>().ok()? == 0 {
            return None;
        }
    }
    if let Some(inside) = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
    {
        let ip: Ipv6Addr = inside.parse().ok()?;
        return Some(Host::Address(IpAddr::V6(ip).to_canonical()));
    }
    if let Ok(ip) = host.parse::<Ipv4Addr>() {
        return Some(Host::Address(ip.into()));
    }
    let is_name = !host.is_empty()
        && host
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'));
    is_name.then(|| Host::Name(host.to_ascii_lowercase()))
}

pub(super) async fn known(
    State(config): State<Arc<GuardConfig>>,
    request: Request,
    next: Next,
) -> Response {
    let path = request.uri().path();
    if path == "/healthz" {
        return next.run(request).await;
    }
    let headers = request.headers();
    let Some(host) = headers
        .get(header::HOST)
        .and_then(|host| host.to_str().ok())
    else {
        return refuse_and_close(
            StatusCode::BAD_REQUEST,
            "The request names no Host.",
            headers,
            path,
        );
    };
    let local = request
        .extensions()
        .get::<Local>()
        .map(|local| local.0.ip());
    if config.hosts.allows(host, local) {
        return next.run(request).await;
    }
    let shown: String = host.chars().take(100).collect();
    let name = match parse(host) {
        Some(Host::Name(name)) => name.chars().take(100).collect(),
        Some(Host::Address(ip)) => ip.to_string(),
        None => shown.clone(),
    };
    refuse(
        StatusCode::MISDIRECTED_REQUEST,
        &format!(
            "This server does not answer for host {shown}. Start it with --allow-host {name}."
        ),
        headers,
        path,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_hosts_are_answered() {
        let hosts = Hosts::new(
            &["127.0.0.1:8080".parse().unwrap()],
            &["bench.lan".to_owned(), "192.0.2.5".to_owned()],
            Some(&"https://tidemark.example/".parse().unwrap()),
        );
        let check = |host: &str, expected: bool| {
            assert_eq!(
                hosts.allows(host, Some([127, 0, 0, 1].into())),
                expected,
                "{host:?}"
            );
        };
        for host in [
            "127.0.0.1",
            "127.0.0.1:8080",
            "127.0.0.1:9090",
            "localhost",
            "localhost:8080",
            "LOCALHOST:8080",
            "[::1]",
            "[::1]:8080",
            "[0:0:0:0:0:0:0:1]:8080",
            "[::ffff:127.0.0.1]:8080",
            "bench.lan:8080",
            "Bench.Lan",
            "192.0.2.5:80",
            "tidemark.example",
        ] {
            check(host, true);
        }
        for host in [
            "",
            "evil.example",
            "evil.example:8080",
            "localhost.evil.example",
            "localhost.evil.example:8080",
            "127.0.0.1.nip.io",
            "127.0.0.1.nip.io:8080",
            "localhost.",
            "127.0.0.1.",
            "127.0.0.2",
            "127.1",
            "2130706433",
            "0x7f.0.0.1",
            "0.0.0.0:8080",
            "[::]:8080",
            "::1",
            "[::1",
            "[::1]8080",
            "[::1%lo]:8080",
            "localhost:",
            "localhost:0",
            "localhost:99999",
            "localhost:+80",
            "localhost:80:80",
            "localhost:8080@evil.example",
            "evil.example@localhost",
            "user:pw@localhost:8080",
            "localhost,evil.example",
            "localhost evil.example",
            "localhost/evil",
            "localhost%00.evil.example",
            "bench.lan.evil.example",
            "xbench.lan",
        ] {
            check(host, false);
        }
    }

    #[test]
    fn a_wildcard_bind_answers_at_the_address_of_the_connection() {
        let local = Some(IpAddr::from([192, 0, 2, 7]));
        let check = |bound: &str, host: &str, expected: bool| {
            let hosts = Hosts::new(&[bound.parse().unwrap()], &[], None);
            assert_eq!(hosts.allows(host, local), expected, "{bound} {host}");
        };
        check("0.0.0.0:8080", "192.0.2.7:8080", true);
        check("[::]:8080", "192.0.2.7", true);
        check("[::]:8080", "192.0.2.8", false);
        check("0.0.0.0:8080", "evil.example", false);
        check("0.0.0.0:8080", "0.0.0.0:8080", false);
        check("127.0.0.1:8080", "192.0.2.7", false);
    }
}
