//! A client that sends exactly the bytes it is given.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Long enough that only a server that never answers reaches it.
const PATIENCE: Duration = Duration::from_secs(20);

/// One connection.
pub struct Raw(pub TcpStream);

impl Raw {
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Self(stream)
    }

    /// Sends; a server that has closed already is no error here.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        let _ = self.0.write_all(bytes.as_ref());
        self
    }

    /// Everything until the server closes; panics when it does not.
    pub fn until_closed(&mut self) -> String {
        let mut all = Vec::new();
        let mut chunk = [0; 16 * 1024];
        loop {
            match self.0.read(&mut chunk) {
                Ok(0) => break,
                Ok(count) => all.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break,
                Err(error) => panic!(
                    "not closed ({error}); got {}",
                    String::from_utf8_lossy(&all)
                ),
            }
        }
        String::from_utf8_lossy(&all).into_owned()
    }

    /// One reply with a stated length; the connection stays open.
    pub fn reply(&mut self) -> Reply {
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            assert_eq!(
                self.0.read(&mut byte).unwrap(),
                1,
                "closed in the head: {}",
                String::from_utf8_lossy(&head)
            );
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).unwrap();
        let length = header_of(&head, "content-length").map_or(0, |text| text.parse().unwrap());
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).unwrap();
        Reply {
            head,
            body: String::from_utf8_lossy(&body).into_owned(),
        }
    }
}

/// A reply as it came.
#[derive(Debug)]
pub struct Reply {
    pub head: String,
    pub body: String,
}

impl Reply {
    pub fn status(&self) -> u16 {
        status_of(&self.head)
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        header_of(&self.head, name)
    }
}

/// The status in a reply's text; panics when there is no reply.
pub fn status_of(reply: &str) -> u16 {
    reply
        .strip_prefix("HTTP/1.")
        .and_then(|rest| rest.get(2..5))
        .and_then(|digits| digits.parse().ok())
        .unwrap_or_else(|| panic!("no reply but {reply:?}"))
}

fn header_of<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| {
        let (found, value) = line.split_once(':')?;
        found.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

/// Sends bytes on a connection of their own and gives what came until the server closed.
pub fn exchange(address: SocketAddr, bytes: impl AsRef<[u8]>) -> String {
    Raw::connect(address).send(bytes).until_closed()
}

/// One call of the JSON API, and what it answered.
pub fn json(
    address: SocketAddr,
    method: &str,
    path: &str,
    body: Option<&serde_json::Value>,
) -> serde_json::Value {
    let (kind, body) = match body {
        Some(body) => ("Content-Type: application/json\r\n", body.to_string()),
        None => ("", String::new()),
    };
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\n{kind}Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let reply = Raw::connect(address).send(request).reply();
    serde_json::from_str(&reply.body).unwrap_or_else(|error| panic!("{error}: {}", reply.body))
}
