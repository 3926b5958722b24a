//! Failures in words: which kinds there were, and what the most frequent one means.

use crate::measure::outcome::Outcome;
use crate::measure::verdict::facts::Facts;
use crate::measure::verdict::words;

/// Failures by how often, most frequent first; without those cut off by a stop.
pub(super) fn kinds(facts: &Facts<'_>) -> Vec<(Outcome, u64)> {
    let mut kinds: Vec<_> = Outcome::ALL
        .into_iter()
        .filter(|outcome| !matches!(outcome, Outcome::Ok | Outcome::AbortedAtStop))
        .map(|outcome| (outcome, facts.of(outcome)))
        .filter(|(_, count)| *count > 0)
        .collect();
    // Timeouts are one kind to a reader, whatever they interrupted.
    let timeouts = kinds.iter().filter(|(outcome, _)| outcome.is_timeout());
    let total = timeouts.map(|(_, count)| count).sum();
    if let Some(&(most, _)) = kinds
        .iter()
        .filter(|(outcome, _)| outcome.is_timeout())
        .max_by_key(|(_, count)| *count)
    {
        kinds.retain(|(outcome, _)| !outcome.is_timeout());
        kinds.push((most, total));
    }
    kinds.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    kinds
}

/// The two most frequent kinds and how many others.
pub(super) fn listed(kinds: &[(Outcome, u64)]) -> String {
    let mut parts: Vec<_> = kinds
        .iter()
        .take(2)
        .map(|(outcome, count)| kind_words(*outcome, *count))
        .collect();
    let rest: u64 = kinds.iter().skip(2).map(|(_, count)| count).sum();
    if rest > 0 {
        parts.push(format!("{}\u{a0}others", words::count(rest)));
    }
    parts.join(", ")
}

/// A count of failures in words: `350 timeouts`.
pub(super) fn kind_words(outcome: Outcome, n: u64) -> String {
    let (one, several) = match outcome {
        Outcome::Ok => ("reply", "replies"),
        Outcome::Http4xx => ("4xx reply", "4xx replies"),
        Outcome::Http5xx => ("5xx reply", "5xx replies"),
        Outcome::HttpOther => ("reply of another status", "replies of another status"),
        Outcome::InvalidReply => ("invalid reply", "invalid replies"),
        Outcome::Truncated => ("reply cut off", "replies cut off"),
        Outcome::EmptyReply => ("empty reply", "empty replies"),
        Outcome::ResetBeforeReply => ("reset", "resets"),
        Outcome::ResetInBody => ("reset in the body", "resets in the body"),
        Outcome::ConnectRefused => ("refused", "refused"),
        Outcome::ConnectTimeout
        | Outcome::SendTimeout
        | Outcome::TtfbTimeout
        | Outcome::TotalTimeout => ("timeout", "timeouts"),
        Outcome::ConnectTimeoutKernel => (
            "connect given up by the kernel",
            "connects given up by the kernel",
        ),
        Outcome::Unreachable => ("unreachable", "unreachable"),
        Outcome::TlsFailed => ("failed TLS handshake", "failed TLS handshakes"),
        Outcome::DnsFailed => ("name without an address", "names without an address"),
        Outcome::FdExhausted => ("without a file descriptor", "without a file descriptor"),
        Outcome::FtabFull => ("without a free file", "without a free file"),
        Outcome::PortExhausted => ("without a local port", "without a local port"),
        Outcome::AbortedAtStop => ("cut off by the stop", "cut off by the stop"),
        Outcome::Other => ("other failure", "other failures"),
    };
    words::counted(n, one, several)
}

/// What the most frequent failure says and what can be done.
pub(super) fn advice(facts: &Facts<'_>, most: Outcome) -> String {
    let text = match most {
        Outcome::ConnectRefused => {
            "Nothing listens on that address and port, or a firewall refuses: start the server or correct the port."
        }
        Outcome::ConnectTimeout | Outcome::ConnectTimeoutKernel => {
            "No answer comes to the attempt to connect: a firewall drops it, the address is wrong, or the accept queue is full."
        }
        Outcome::SendTimeout | Outcome::TtfbTimeout | Outcome::TotalTimeout => {
            "The target takes connections but does not answer in time: it hangs, or has more to do than it can."
        }
        Outcome::Unreachable => "No network leads there: check the address and the routes.",
        Outcome::DnsFailed => "Check the spelling of the name and this machine's resolver.",
        Outcome::TlsFailed => {
            "The certificate is not trusted here or the port does not speak TLS: name its authority with ca, or use http."
        }
        Outcome::Http4xx => {
            "It answers, but not with what was asked for: check path, method and headers."
        }
        Outcome::Http5xx => {
            "It answers with errors of its own: it is refusing work or broken, and fast error pages say nothing about its speed."
        }
        Outcome::InvalidReply => {
            "Another protocol may be spoken on that port; the failures show the first bytes."
        }
        Outcome::Truncated | Outcome::ResetInBody => {
            "Replies end before their announced length, so they cannot be used; other tools count them as success."
        }
        Outcome::EmptyReply | Outcome::ResetBeforeReply => {
            "The connection ends before a reply begins: the server, or something in front of it, gives up on requests."
        }
        _ => "The failures name the error.",
    };
    let few = facts.failed() as f64 / (facts.tried().max(1) as f64) < 0.5;
    if few && matches!(most, Outcome::ConnectRefused) {
        return "Part of the connections find nobody listening: a server restarts, or one of several is down.".to_owned();
    }
    text.to_owned()
}
