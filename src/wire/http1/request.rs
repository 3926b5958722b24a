//! The bytes of a request, made once per URL before a run.

use std::collections::BTreeMap;
use std::fmt::Write;

use url::{Host, Url};

/// What the request says about the connection after its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connection {
    /// More requests may follow.
    KeepAlive,
    /// This is the last request: the server is to close, so that its side keeps the waiting port.
    Close,
}

/// A request to be put into bytes.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Such as `GET`.
    pub method: &'a str,
    /// Absolute URL; user information and fragment are not sent.
    pub url: &'a Url,
    /// `1.1` or `1.0`.
    pub version: &'a str,
    /// Further headers; they replace ours of the same name.
    pub headers: &'a BTreeMap<String, String>,
    /// Content.
    pub body: Option<&'a str>,
}

impl Request<'_> {
    /// The request as it goes over the wire (RFC 9112 section 3).
    pub fn encode(&self, connection: Connection) -> Vec<u8> {
        let given = |name: &str| {
            self.headers
                .keys()
                .any(|key| key.eq_ignore_ascii_case(name))
        };
        let mut head = String::with_capacity(256);
        let _ = write!(head, "{} {}", self.method, self.url.path());
        if let Some(query) = self.url.query() {
            let _ = write!(head, "?{query}");
        }
        let _ = write!(head, " HTTP/{}\r\n", self.version);
        if !given("host") {
            let _ = write!(head, "Host: {}\r\n", host_field(self.url));
        }
        if !given("user-agent") {
            let _ = write!(
                head,
                "User-Agent: tidemark/{}\r\n",
                env!("CARGO_PKG_VERSION")
            );
        }
        if !given("accept") {
            head.push_str("Accept: */*\r\n");
        }
        for (name, value) in self.headers {
            // A line break would start another header or request; plans refuse it, this makes sure.
            let value = value.replace(['\r', '\n'], " ");
            let _ = write!(head, "{name}: {value}\r\n");
        }
        if !given("connection") {
            match (self.version, connection) {
                ("1.0", Connection::KeepAlive) => head.push_str("Connection: keep-alive\r\n"),
                ("1.0", Connection::Close) | (_, Connection::KeepAlive) => {}
                (_, Connection::Close) => head.push_str("Connection: close\r\n"),
            }
        }
        let expects_content = matches!(self.method, "POST" | "PUT" | "PATCH");
        if !given("content-length")
            && !given("transfer-encoding")
            && (self.body.is_some() || expects_content)
        {
            let length = self.body.map_or(0, str::len);
            let _ = write!(head, "Content-Length: {length}\r\n");
        }
        head.push_str("\r\n");
        if let Some(body) = self.body {
            head.push_str(body);
        }
        head.into_bytes()
    }
}

/// The value of `Host`: brackets around IPv6, the port unless it is the scheme's own.
fn host_field(url: &Url) -> String {
    let host = match url.host() {
        Some(Host::Domain(name)) => name.to_owned(),
        Some(Host::Ipv4(address)) => address.to_string(),
        Some(Host::Ipv6(address)) => format!("[{address}]"),
        None => String::new(),
    };
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(
        url: &str,
        method: &str,
        headers: &[(&str, &str)],
        body: Option<&str>,
        connection: Connection,
        expected: &str,
    ) {
        let url = Url::parse(url).unwrap();
        let headers = headers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let request = Request {
            method,
            url: &url,
            version: "1.1",
            headers: &headers,
            body,
        };
        let text = String::from_utf8(request.encode(connection)).unwrap();
        let ours = format!("User-Agent: tidemark/{}\r\n", env!("CARGO_PKG_VERSION"));
        assert_eq!(text.replace(&ours, ""), expected);
    }

    #[test]
    fn host_carries_the_port_unless_it_is_the_usual_one() {
        check(
            "http://[::1]:8000/a?b=c#d",
            "GET",
            &[],
            None,
            Connection::KeepAlive,
            "GET /a?b=c HTTP/1.1\r\nHost: [::1]:8000\r\nAccept: */*\r\n\r\n",
        );
        check(
            "https://example.org:443/",
            "HEAD",
            &[],
            None,
            Connection::Close,
            "HEAD / HTTP/1.1\r\nHost: example.org\r\nAccept: */*\r\nConnection: close\r\n\r\n",
        );
    }

    #[test]
    fn given_headers_replace_ours_and_cannot_start_another_one() {
        check(
            "http://h/",
            "POST",
            &[
                ("accept", "text/css"),
                ("HOST", "other"),
                ("x", "1\r\ny: 2"),
            ],
            Some("abc"),
            Connection::KeepAlive,
            "POST / HTTP/1.1\r\nHOST: other\r\naccept: text/css\r\nx: 1  y: 2\r\nContent-Length: 3\r\n\r\nabc",
        );
    }

    #[test]
    fn the_old_version_has_to_ask_for_keeping_the_connection() {
        let url = Url::parse("http://h/").unwrap();
        let headers = BTreeMap::new();
        let request = Request {
            method: "GET",
            url: &url,
            version: "1.0",
            headers: &headers,
            body: None,
        };
        let kept = String::from_utf8(request.encode(Connection::KeepAlive)).unwrap();
        assert!(kept.contains("Connection: keep-alive\r\n"));
        let last = String::from_utf8(request.encode(Connection::Close)).unwrap();
        assert!(!last.contains("Connection"));
    }
}
