//! Who answered: the reply headers that name backend and region, and what the server says it spent.

use std::sync::Arc;

/// Milliseconds that the server says it spent; each `None` where the reply does not carry it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Timing {
    /// Waiting for a thread.
    pub queue_ms: Option<f32>,
    /// Computing.
    pub compute_ms: Option<f32>,
    /// Encoding.
    pub encode_ms: Option<f32>,
}

/// Where a name is found in a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Naming {
    /// In this header.
    Header(String),
    /// In the cookie of this name that the reply sets.
    Cookie(String),
    /// Nowhere in it: the address that answered is the name.
    Address,
}

/// Reads the names out of replies; repeated ones share their memory.
#[derive(Debug)]
pub struct Names {
    identity: Naming,
    region: Naming,
    last_identity: Option<Arc<str>>,
    last_region: Option<Arc<str>>,
}

/// What one head said.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Said {
    pub(super) served_by: Option<Arc<str>>,
    pub(super) region: Option<Arc<str>>,
    pub(super) timing: Option<Timing>,
}

impl Names {
    /// Reads backend names by `identity` and region names by `region`.
    pub const fn new(identity: Naming, region: Naming) -> Self {
        Self {
            identity,
            region,
            last_identity: None,
            last_region: None,
        }
    }

    /// Whether backends are to be named by their address.
    pub fn by_address(&self) -> (bool, bool) {
        (
            self.identity == Naming::Address,
            self.region == Naming::Address,
        )
    }

    /// Looks at one header line.
    pub(super) fn look(&mut self, name: &str, value: &[u8], said: &mut Said) {
        if let Some(value) = found(&self.identity, name, value) {
            said.served_by = shared(&mut self.last_identity, value);
        }
        if let Some(value) = found(&self.region, name, value) {
            said.region = shared(&mut self.last_region, value);
        }
        if name.eq_ignore_ascii_case("server-timing") {
            let mut timing = said.timing.unwrap_or_default();
            read_timing(value, &mut timing);
            said.timing = (timing != Timing::default()).then_some(timing);
        }
    }
}

fn found<'v>(naming: &Naming, name: &str, value: &'v [u8]) -> Option<&'v [u8]> {
    match naming {
        Naming::Header(wanted) => name.eq_ignore_ascii_case(wanted).then_some(value),
        Naming::Cookie(wanted) if name.eq_ignore_ascii_case("set-cookie") => {
            let pair = value.split(|byte| *byte == b';').next()?;
            let at = pair.iter().position(|byte| *byte == b'=')?;
            (pair[..at].trim_ascii() == wanted.as_bytes()).then(|| pair[at + 1..].trim_ascii())
        }
        Naming::Cookie(_) | Naming::Address => None,
    }
}

/// The value as shared text, at most 100 characters; the last one again where it is the same.
fn shared(last: &mut Option<Arc<str>>, value: &[u8]) -> Option<Arc<str>> {
    let value = value.trim_ascii();
    if value.is_empty() {
        return None;
    }
    if let Some(last) = last.as_ref().filter(|last| last.as_bytes() == value) {
        return Some(Arc::clone(last));
    }
    let text: String = String::from_utf8_lossy(value)
        .chars()
        .filter(|c| !c.is_control())
        .take(100)
        .collect();
    let text: Arc<str> = text.into();
    *last = Some(Arc::clone(&text));
    Some(text)
}

/// Reads `queue;dur=1.5, compute;dur=2;desc="x", …` (W3C Server Timing).
fn read_timing(value: &[u8], timing: &mut Timing) {
    let Ok(text) = std::str::from_utf8(value) else {
        return;
    };
    for metric in text.split(',') {
        let mut parts = metric.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let slot = match name {
            "queue" => &mut timing.queue_ms,
            "compute" => &mut timing.compute_ms,
            "encode" => &mut timing.encode_ms,
            _ => continue,
        };
        for part in parts {
            let Some((key, number)) = part.split_once('=') else {
                continue;
            };
            let number = number.trim().trim_matches('"').parse::<f32>().ok();
            if key.trim().eq_ignore_ascii_case("dur") {
                *slot = number.filter(|ms| ms.is_finite() && *ms >= 0.0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(identity: Naming, lines: &[(&str, &str)]) -> Said {
        let mut names = Names::new(identity, Naming::Header("X-Region".into()));
        let mut said = Said::default();
        for (name, value) in lines {
            names.look(name, value.as_bytes(), &mut said);
        }
        said
    }

    #[test]
    fn a_backend_is_named_by_header_or_cookie() {
        let by_header = said(
            Naming::Header("X-Served-By".into()),
            &[("x-served-by", " a "), ("X-REGION", "eu")],
        );
        assert_eq!(by_header.served_by.as_deref(), Some("a"));
        assert_eq!(by_header.region.as_deref(), Some("eu"));
        let by_cookie = said(
            Naming::Cookie("SRV".into()),
            &[("Set-Cookie", "other=1"), ("Set-Cookie", "SRV=b; Path=/")],
        );
        assert_eq!(by_cookie.served_by.as_deref(), Some("b"));
    }

    #[test]
    fn server_timing_reads_three_phases_and_nothing_else() {
        let read = said(
            Naming::Address,
            &[(
                "Server-Timing",
                "queue;dur=0.5, compute;desc=\"x\";dur=12, total;dur=9, encode;dur=-1",
            )],
        );
        let timing = read.timing.unwrap();
        assert_eq!(timing.queue_ms, Some(0.5));
        assert_eq!(timing.compute_ms, Some(12.0));
        assert_eq!(timing.encode_ms, None);
        assert_eq!(
            said(Naming::Address, &[("Server-Timing", "x, ;=")]).timing,
            None
        );
    }

    #[test]
    fn repeated_names_share_their_memory() {
        let mut names = Names::new(Naming::Header("s".into()), Naming::Address);
        let mut first = Said::default();
        names.look("S", b"node", &mut first);
        let mut second = Said::default();
        names.look("S", b"node", &mut second);
        assert!(Arc::ptr_eq(
            &first.served_by.unwrap(),
            &second.served_by.unwrap()
        ));
    }
}
