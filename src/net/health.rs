//! One health check: a GET over a connection of its own, and the status that comes back.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::net::clock;
use crate::net::connect;

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// The reply's status; `None` where there was no reply.
    pub status: Option<u16>,
    /// From the start to the reply's first line.
    pub took: Duration,
    /// Why there was no reply.
    pub failed: Option<String>,
}

/// Asks `/health-check` at this address, for as long as the patience lasts.
pub async fn health_check(address: SocketAddr, patience: Duration) -> Answered {
    let began = clock::now();
    let asked = tokio::time::timeout(patience, ask(address)).await;
    let took = clock::now().saturating_duration_since(began);
    let (status, failed) = match asked {
        Ok(Ok(Some(status))) => (Some(status), None),
        Ok(Ok(None)) => (None, Some("what came back is no HTTP reply".to_owned())),
        Ok(Err(error)) => (None, Some(connect::describe(&error))),
        Err(_) => (None, Some("no answer in time".to_owned())),
    };
    Answered {
        status,
        took,
        failed,
    }
}

async fn ask(address: SocketAddr) -> std::io::Result<Option<u16>> {
    let mut stream = TcpStream::connect(address).await?;
    let request =
        format!("GET /health-check HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut head = [0; 64];
    let mut filled = 0;
    while filled < head.len() && !head[..filled].contains(&b'\n') {
        let read = stream.read(&mut head[filled..]).await?;
        if read == 0 {
            break;
        }
        filled += read;
    }
    Ok(status_of(&head[..filled]))
}

/// The status in a reply's first line.
fn status_of(head: &[u8]) -> Option<u16> {
    let line = std::str::from_utf8(head).ok()?;
    let rest = line.strip_prefix("HTTP/1.")?.get(1..)?;
    let word = rest.strip_prefix(' ')?.split([' ', '\r', '\n']).next()?;
    word.parse()
        .ok()
        .filter(|status| (100..=599).contains(status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_first_line_with_a_status_is_one() {
        for (head, expected) in [
            ("HTTP/1.1 200 OK\r\n", Some(200)),
            ("HTTP/1.0 503\r\n", Some(503)),
            ("HTTP/1.1 99 X\r\n", None),
            ("HTTP/2 200\r\n", None),
            ("SSH-2.0-x\r\n", None),
            ("", None),
            ("HTTP/1.é", None),
        ] {
            assert_eq!(status_of(head.as_bytes()), expected, "{head:?}");
        }
    }
}
