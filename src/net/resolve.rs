//! From a host name to its addresses, once before a run.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::net::clock;

/// What a name led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// All addresses, in the system's order; at least one.
    pub addresses: Vec<SocketAddr>,
    /// How long it took.
    pub took: Duration,
}

/// Why a name led nowhere.
#[derive(Debug)]
pub enum ResolveError {
    /// The resolver said no.
    Failed {
        /// The name.
        host: String,
        /// The resolver's words.
        reason: String,
    },
    /// No answer within the limit.
    Timeout {
        /// The name.
        host: String,
    },
}

impl std::fmt::Display for ResolveError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Failed { host, reason } => {
                write!(f, "The name {host} could not be resolved: {reason}.")
            }
            Self::Timeout { host } => write!(
                f,
                "The name {host} could not be resolved within {} s.",
                LIMIT.as_secs()
            ),
        }
    }
}

impl std::error::Error for ResolveError {}

/// Longest wait for an answer.
const LIMIT: Duration = Duration::from_secs(5);
/// Lookups at once: the system's resolver blocks a thread for each.
static PLACES: Semaphore = Semaphore::const_new(4);

/// All addresses of `host` (a name or an address, IPv6 with or without brackets), each once.
pub async fn resolve(host: &str, port: u16) -> Result<Resolved, ResolveError> {
    let start = clock::now();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let failed = |reason: String| ResolveError::Failed {
        host: host.to_owned(),
        reason,
    };
    let lookup = async {
        // Never closed, so a place always comes.
        let _place = PLACES.acquire().await;
        tokio::net::lookup_host((bare, port)).await
    };
    let found = tokio::time::timeout(LIMIT, lookup)
        .await
        .map_err(|_| ResolveError::Timeout {
            host: host.to_owned(),
        })?
        .map_err(|error| failed(error.to_string()))?;
    let mut addresses: Vec<SocketAddr> = Vec::new();
    for address in found {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    if addresses.is_empty() {
        return Err(failed("it has no address".to_owned()));
    }
    Ok(Resolved {
        addresses,
        took: clock::now().saturating_duration_since(start),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn addresses_lead_to_themselves_and_unknown_names_to_a_sentence() {
        let found = resolve("[::1]", 80).await.unwrap();
        assert_eq!(found.addresses, ["[::1]:80".parse().unwrap()]);
        let error = resolve("no-such-name.invalid", 80).await.unwrap_err();
        assert!(error.to_string().contains("no-such-name.invalid"));
    }
}
