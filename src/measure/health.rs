//! Health checks over time: when a server was up, when it was down, and for how long.

use serde::Serialize;

/// One check.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HealthCheck {
    /// When.
    pub at: jiff::Timestamp,
    /// Whether a 200 came back.
    pub up: bool,
    /// The reply's status; `None` where there was no reply.
    pub status: Option<u16>,
    /// From the start to the reply, or to giving up.
    pub took_ms: f64,
    /// What came back instead of a reply.
    pub failed: Option<String>,
}

impl HealthCheck {
    /// What came of it, in a few words.
    pub fn says(&self) -> String {
        match (self.up, self.status, &self.failed) {
            (true, ..) => "up".to_owned(),
            (false, Some(status), _) => format!("answers {status}"),
            (false, None, Some(why)) => why.clone(),
            (false, None, None) => "no reply".to_owned(),
        }
    }
}

/// A time in which all checks came to the same.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// First check of it, in s since the first of all.
    pub from_s: f64,
    /// The check after it, or the last of all.
    pub to_s: f64,
    /// Whether the server was up.
    pub up: bool,
}

/// The spans of a server's checks, oldest first; `origin` is the 0 of their times.
pub fn spans<'a>(
    checks: impl IntoIterator<Item = &'a HealthCheck>,
    origin: jiff::Timestamp,
) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for check in checks {
        let at_s = check.at.duration_since(origin).as_secs_f64();
        if let Some(last) = spans.last_mut() {
            last.to_s = at_s;
            if last.up == check.up {
                continue;
            }
        }
        spans.push(Span {
            from_s: at_s,
            to_s: at_s,
            up: check.up,
        });
    }
    spans
}

/// How long it was down in all, in s.
pub fn down_s(spans: &[Span]) -> f64 {
    spans
        .iter()
        .filter(|span| !span.up)
        .map(|span| span.to_s - span.from_s)
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_become_spans_that_touch() {
        let origin: jiff::Timestamp = "2026-12-01T10:00:00Z".parse().unwrap();
        let checks: Vec<HealthCheck> = [true, true, false, false, true]
            .into_iter()
            .enumerate()
            .map(|(second, up)| HealthCheck {
                at: origin + std::time::Duration::from_secs(second as u64),
                up,
                status: up.then_some(200),
                took_ms: 1.0,
                failed: None,
            })
            .collect();
        let spans = spans(&checks, origin);
        let told: Vec<_> = spans
            .iter()
            .map(|span| (span.from_s, span.to_s, span.up))
            .collect();
        assert_eq!(
            told,
            [(0.0, 2.0, true), (2.0, 4.0, false), (4.0, 4.0, true)]
        );
        assert!((down_s(&spans) - 2.0).abs() < 1e-9);
        assert!(super::spans(&[], origin).is_empty());
    }
}
