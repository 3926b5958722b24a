//! How one planned request ended: exclusive kinds that, with the unsent ones, sum to what was planned.

use serde::{Deserialize, Serialize};

/// How one planned request ended; exactly one holds for each request that was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Outcome {
    /// A complete reply with a 2xx or 3xx status; redirects are never followed.
    Ok,
    /// A complete reply with a 4xx status.
    #[serde(rename = "http_4xx")]
    Http4xx,
    /// A complete reply with a 5xx status.
    #[serde(rename = "http_5xx")]
    Http5xx,
    /// A complete reply with a status outside 200 to 599.
    HttpOther,
    /// Bytes came that are not HTTP/1.x, or that break its framing rules (RFC 9112).
    InvalidReply,
    /// The connection was closed in order inside the head, or inside a body whose end was announced.
    Truncated,
    /// The connection was closed in order before the first byte of the reply.
    EmptyReply,
    /// The connection was reset before the first byte of the reply, or inside its head.
    ResetBeforeReply,
    /// The connection was reset inside the body.
    ResetInBody,
    /// The peer refused the connection (`ECONNREFUSED`).
    ConnectRefused,
    /// Our own timeout fired before the connection was up.
    ConnectTimeout,
    /// The kernel gave up connecting (`ETIMEDOUT`).
    ConnectTimeoutKernel,
    /// No route to the host or network.
    Unreachable,
    /// The TLS handshake failed.
    TlsFailed,
    /// The name could not be resolved.
    DnsFailed,
    /// Our own timeout fired before the request was completely written.
    SendTimeout,
    /// Our own timeout fired before the first byte of the reply.
    TtfbTimeout,
    /// Our own timeout fired after the first byte and before the end of the reply.
    TotalTimeout,
    /// This process has no file descriptor left (`EMFILE`).
    FdExhausted,
    /// This machine has no file descriptor left (`ENFILE`).
    FtabFull,
    /// No local port is left for this target (`EADDRNOTAVAIL`).
    PortExhausted,
    /// The run was stopped while the request was under way.
    AbortedAtStop,
    /// Anything else; the sample's detail names the error.
    Other,
}

impl Outcome {
    /// Every outcome, in the order in which reports list them.
    pub const ALL: [Self; 23] = [
        Self::Ok,
        Self::Http4xx,
        Self::Http5xx,
        Self::HttpOther,
        Self::InvalidReply,
        Self::Truncated,
        Self::EmptyReply,
        Self::ResetBeforeReply,
        Self::ResetInBody,
        Self::ConnectRefused,
        Self::ConnectTimeout,
        Self::ConnectTimeoutKernel,
        Self::Unreachable,
        Self::TlsFailed,
        Self::DnsFailed,
        Self::SendTimeout,
        Self::TtfbTimeout,
        Self::TotalTimeout,
        Self::FdExhausted,
        Self::FtabFull,
        Self::PortExhausted,
        Self::AbortedAtStop,
        Self::Other,
    ];

    /// The outcome of a complete reply with this status.
    pub const fn of_status(status: u16) -> Self {
        match status {
            200..=399 => Self::Ok,
            400..=499 => Self::Http4xx,
            500..=599 => Self::Http5xx,
            _ => Self::HttpOther,
        }
    }

    /// The key in JSON and CSV, such as `connect_refused`.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Http4xx => "http_4xx",
            Self::Http5xx => "http_5xx",
            Self::HttpOther => "http_other",
            Self::InvalidReply => "invalid_reply",
            Self::Truncated => "truncated",
            Self::EmptyReply => "empty_reply",
            Self::ResetBeforeReply => "reset_before_reply",
            Self::ResetInBody => "reset_in_body",
            Self::ConnectRefused => "connect_refused",
            Self::ConnectTimeout => "connect_timeout",
            Self::ConnectTimeoutKernel => "connect_timeout_kernel",
            Self::Unreachable => "unreachable",
            Self::TlsFailed => "tls_failed",
            Self::DnsFailed => "dns_failed",
            Self::SendTimeout => "send_timeout",
            Self::TtfbTimeout => "ttfb_timeout",
            Self::TotalTimeout => "total_timeout",
            Self::FdExhausted => "fd_exhausted",
            Self::FtabFull => "ftab_full",
            Self::PortExhausted => "port_exhausted",
            Self::AbortedAtStop => "aborted_at_stop",
            Self::Other => "other",
        }
    }

    /// The outcome with this number, as stored in compact rows; `None` for an unknown number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Whether our own timeout ended the request: its latency is censored at its age.
    pub const fn is_timeout(self) -> bool {
        matches!(
            self,
            Self::ConnectTimeout | Self::SendTimeout | Self::TtfbTimeout | Self::TotalTimeout
        )
    }

    /// Whether a complete, valid HTTP reply came, whatever its status.
    pub const fn is_reply(self) -> bool {
        matches!(
            self,
            Self::Ok | Self::Http4xx | Self::Http5xx | Self::HttpOther
        )
    }

    /// Whether this machine, not the target, was the reason.
    pub const fn is_generator_limit(self) -> bool {
        matches!(
            self,
            Self::FdExhausted | Self::FtabFull | Self::PortExhausted
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_agree_with_serde_and_numbers_round_trip() {
        for (index, outcome) in Outcome::ALL.into_iter().enumerate() {
            assert_eq!(
                serde_json::to_value(outcome).unwrap(),
                serde_json::Value::from(outcome.key())
            );
            assert_eq!(outcome as usize, index);
            assert_eq!(
                Outcome::from_number(u8::try_from(index).unwrap()),
                Some(outcome)
            );
        }
        assert_eq!(Outcome::from_number(23), None);
    }
}
