//! What follows from a capacity for the load balancer in front: settings as text that gcloud, HAProxy and nginx take.

use std::fmt::Write as _;

use super::allowed::Allowed;
use crate::measure::search::Capacity;
use crate::measure::units::{ms_text, significant};

/// The load balancers that settings are written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Balancer {
    /// Google Cloud's backend services, as commands for a shell.
    Gcloud,
    /// A whole configuration of HAProxy.
    Haproxy,
    /// A whole configuration of nginx.
    Nginx,
}

impl Balancer {
    /// Every one.
    pub const ALL: [Self; 3] = [Self::Gcloud, Self::Haproxy, Self::Nginx];

    /// The word in addresses.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Gcloud => "gcloud",
            Self::Haproxy => "haproxy",
            Self::Nginx => "nginx",
        }
    }

    /// The name that people know.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gcloud => "Google Cloud",
            Self::Haproxy => "HAProxy",
            Self::Nginx => "nginx",
        }
    }

    /// The one with this word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.word() == word)
    }
}

/// One server behind the balancer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Backend {
    /// What it is called.
    pub name: String,
    /// Its address or host name.
    pub address: String,
    /// The port of its web server.
    pub port: u16,
    /// Its zone, where that is known.
    pub zone: Option<String>,
    /// What it may send at most in bit/s, where that is documented.
    pub cap_bits_per_second: Option<f64>,
    /// Requests a second that it is allowed, where no search found what it holds.
    pub allowed: Option<Allowed>,
}

/// What every server is allowed together; `None` unless each one's rate is known.
fn allowed(backends: &[Backend]) -> Option<f64> {
    backends
        .iter()
        .map(|one| Some(one.allowed.as_ref()?.per_s))
        .sum()
}

/// What an instance holds, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Held {
    /// Requests per second to send to each instance.
    pub rate_per_s: f64,
    /// The part of the bound with random arrivals that this is.
    pub share: f64,
    /// That bound.
    pub bound_per_s: f64,
    /// Answers per second when there is always work.
    pub ceiling_per_s: Option<f64>,
    /// Unloaded mean time of a request in s.
    pub mean_s: f64,
    /// The goal: the quantile and the most that it may be, in ms.
    pub goal: (f64, f64),
}

impl Held {
    /// Of a capacity; `None` where no rate was found that an instance holds with random arrivals.
    pub fn of(capacity: &Capacity) -> Option<Self> {
        Some(Self {
            rate_per_s: capacity.suggested_max_rate_per_instance?,
            share: capacity.suggested_share?,
            bound_per_s: capacity.poisson_lower_per_s?,
            ceiling_per_s: capacity.ceiling_per_s,
            mean_s: capacity.baseline_mean_ms? / 1e3,
            goal: (capacity.quantile?, capacity.goal_ms?),
        })
    }

    /// Requests at once that keep the server busy: ceiling × unloaded time (Little's law), one at least.
    fn slots(&self) -> u64 {
        let rate = self.ceiling_per_s.unwrap_or(self.bound_per_s);
        // What is whole but for a measuring error of 2 % stays whole.
        whole((rate * self.mean_s - 0.02).ceil()).max(1)
    }
}

/// The settings as text.
///
/// # Errors
/// A sentence where there is nothing to write settings of.
pub fn balancer_text(
    balancer: Balancer,
    source: &str,
    held: Option<&Held>,
    backends: &[Backend],
) -> Result<String, String> {
    if backends.is_empty() {
        return Err("There is no server to put behind a balancer.".to_owned());
    }
    let capped = backends
        .iter()
        .any(|one| one.cap_bits_per_second.is_some() || one.allowed.is_some());
    if held.is_none() && !capped {
        return Err(
            "No rate is known that an instance holds with random arrivals, and no peer has a cap: there is nothing to set."
                .to_owned(),
        );
    }
    let mut text = head(source, held, backends);
    match balancer {
        Balancer::Gcloud => gcloud(&mut text, held, backends),
        Balancer::Haproxy => haproxy(&mut text, held, backends),
        Balancer::Nginx => nginx(&mut text, held, backends),
    }
    Ok(text)
}

/// Where the figures come from and what margin they keep, as comments.
fn head(source: &str, held: Option<&Held>, backends: &[Backend]) -> String {
    let mut text = String::new();
    line(&mut text, &format!("# {}", comment(source)));
    if let Some(held) = held {
        line(
            &mut text,
            &format!(
                "# Each instance: {} requests a second = {} x {}, the highest rate that held with random arrivals,",
                held.rate_per_s,
                held.share,
                plain(held.bound_per_s)
            ),
        );
        line(
            &mut text,
            &format!(
                "# rounded down to a tenth. The goal was p{} within {}.",
                plain(held.goal.0 * 100.0),
                ms_text(held.goal.1)
            ),
        );
        let why = if held.share < 0.85 {
            "a fifth is kept back, since few requests were judged and the bound is uncertain"
        } else {
            "a tenth is kept back, since the bound is known to about that and traffic comes in bursts"
        };
        line(&mut text, &format!("# Margin: {why}."));
    } else if backends.iter().any(|one| one.allowed.is_some()) {
        for (index, backend) in backends.iter().enumerate() {
            let name = unique(&label(&backend.name, "web"), index, backends.len());
            let says = match &backend.allowed {
                Some(allowed) => format!(
                    "{} requests a second = {}",
                    allowed.per_s,
                    comment(&allowed.why)
                ),
                None => "nothing is known, so no rate is set for any".to_owned(),
            };
            line(&mut text, &format!("# {name}: {says}."));
        }
        line(
            &mut text,
            "# Margin: a cap counts headers and acknowledgements too, replies come in bursts, and a server's CPU may give out",
        );
        line(
            &mut text,
            "# long before its network: nothing here was measured. A capacity search finds what an instance holds.",
        );
    }
    if backends.iter().any(|one| one.cap_bits_per_second.is_some()) {
        line(
            &mut text,
            "# Shares between instances follow what each may send at most (its documented egress cap).",
        );
    }
    text
}

/// Each backend's rate over the largest, or its cap; 1 where it has none.
fn shares(backends: &[Backend]) -> Vec<f64> {
    if allowed(backends).is_some() {
        let rate = |one: &Backend| one.allowed.as_ref().map_or(0.0, |allowed| allowed.per_s);
        let most = backends.iter().map(rate).fold(0.0, f64::max);
        return backends
            .iter()
            .map(|one| (rate(one) / most).max(0.01))
            .collect();
    }
    let most = backends
        .iter()
        .filter_map(|one| one.cap_bits_per_second)
        .fold(0.0, f64::max);
    backends
        .iter()
        .map(|one| match one.cap_bits_per_second {
            Some(cap) if most > 0.0 => (cap / most).max(0.01),
            _ => 1.0,
        })
        .collect()
}

fn gcloud(text: &mut String, held: Option<&Held>, backends: &[Backend]) {
    let port = backends.first().map_or(80, |one| one.port);
    line(
        text,
        "# Set the names of your own service and instance groups here.",
    );
    line(text, "SERVICE=web-backend");
    line(text, "SCOPE=--global");
    for (index, backend) in backends.iter().enumerate() {
        let number = index + 1;
        let zone = backend
            .zone
            .as_deref()
            .map_or("us-central1-a".to_owned(), |zone| {
                label(zone, "us-central1-a")
            });
        line(
            text,
            &format!("GROUP_{number}={}", label(&backend.name, "web")),
        );
        line(text, &format!("ZONE_{number}={zone}"));
    }
    line(text, "");
    line(
        text,
        "# The check asks outside the queue of work: a full server is not a dead one.",
    );
    line(
        text,
        "gcloud compute health-checks create http \"$SERVICE-check\" \\",
    );
    line(
        text,
        &format!("  --port={port} --request-path=/health-check \\"),
    );
    line(
        text,
        "  --check-interval=5s --timeout=5s --healthy-threshold=2 --unhealthy-threshold=3",
    );
    line(
        text,
        "gcloud compute backend-services update \"$SERVICE\" \"$SCOPE\" \\",
    );
    line(text, "  --health-checks=\"$SERVICE-check\"");
    // Rates of their own say already how much each group gets.
    let own = held.is_none() && allowed(backends).is_some();
    for (index, (backend, share)) in backends.iter().zip(shares(backends)).enumerate() {
        let number = index + 1;
        line(text, "");
        line(
            text,
            "# The capacity scaler takes a part of the instances out: 0.5 lets half the rate through, 0 drains.",
        );
        line(
            text,
            "gcloud compute backend-services update-backend \"$SERVICE\" \"$SCOPE\" \\",
        );
        line(
            text,
            &format!(
                "  --instance-group=\"$GROUP_{number}\" --instance-group-zone=\"$ZONE_{number}\" \\"
            ),
        );
        let rate = match (held, &backend.allowed) {
            (Some(held), _) => Some(held.rate_per_s),
            (None, Some(allowed)) if own => Some(allowed.per_s),
            (None, _) => None,
        };
        if let Some(rate) = rate {
            line(
                text,
                &format!("  --balancing-mode=RATE --max-rate-per-instance={rate} \\"),
            );
        }
        let share = if own { 1.0 } else { share };
        line(text, &format!("  --capacity-scaler={}", hundredths(share)));
    }
}

fn haproxy(text: &mut String, held: Option<&Held>, backends: &[Backend]) {
    line(text, "global");
    line(text, "    maxconn 10000");
    line(text, "");
    line(text, "defaults");
    line(text, "    mode http");
    line(text, "    timeout connect 5s");
    line(text, "    timeout client 60s");
    let server = held.map_or(60.0, |held| (20.0 * held.mean_s).max(60.0));
    line(
        text,
        &format!("    timeout server {}ms", whole(server * 1e3)),
    );
    if let Some(held) = held {
        line(
            text,
            "    # Who has waited as long as the goal allows gets a 503 instead of a late answer.",
        );
        line(
            text,
            &format!("    timeout queue {}ms", whole(held.goal.1.ceil()).max(1)),
        );
    }
    line(text, "");
    line(text, "frontend web");
    line(text, "    bind :80");
    let all = match held {
        Some(held) => Some(held.rate_per_s * backends.len() as f64),
        None => allowed(backends),
    };
    if let Some(all) = all {
        let per_ten = whole((10.0 * all + 1e-9).floor()).max(1);
        let sum = match held {
            Some(held) => format!("10 x {} x {} instances", held.rate_per_s, backends.len()),
            None => "10 x the sum of the rates above".to_owned(),
        };
        line(
            text,
            &format!(
                "    # Variant 1, by rate: at most {per_ten} requests in 10 s = {sum}; the rest get a 429."
            ),
        );
        if held.is_some() {
            line(
                text,
                "    # Leave these three lines out to limit by maxconn alone.",
            );
        }
        line(
            text,
            "    stick-table type string len 8 size 1 expire 20s store http_req_rate(10s)",
        );
        line(text, "    http-request track-sc0 str(all)");
        line(
            text,
            &format!(
                "    http-request deny deny_status 429 if {{ sc_http_req_rate(0) gt {per_ten} }}"
            ),
        );
    }
    line(text, "    default_backend instances");
    line(text, "");
    line(text, "backend instances");
    line(text, "    balance leastconn");
    line(text, "    option httpchk GET /health-check");
    if let Some(held) = held {
        line(
            text,
            &format!(
                "    # Variant 2, by maxconn: {} x {} s = {} at once keep a server busy; more would only wait inside it.",
                plain(held.ceiling_per_s.unwrap_or(held.bound_per_s)),
                plain(held.mean_s),
                held.slots()
            ),
        );
        line(
            text,
            "    # Here they wait in this queue, which any free server empties.",
        );
    }
    for (index, (backend, share)) in backends.iter().zip(shares(backends)).enumerate() {
        let limit = held.map_or_else(String::new, |held| format!(" maxconn {}", held.slots()));
        line(
            text,
            &format!(
                "    server {} {}:{}{limit} weight {} check",
                unique(&label(&backend.name, "web"), index, backends.len()),
                host(&backend.address),
                backend.port,
                whole((100.0 * share).round()).clamp(1, 100)
            ),
        );
    }
}

fn nginx(text: &mut String, held: Option<&Held>, backends: &[Backend]) {
    line(text, "events {");
    line(text, "    worker_connections 4096;");
    line(text, "}");
    line(text, "");
    line(text, "http {");
    let mut burst = 0;
    let all = match held {
        Some(held) => Some(held.rate_per_s * backends.len() as f64),
        None => allowed(backends),
    };
    if let Some(all) = all {
        let per_minute = whole((60.0 * all + 1e-9).floor()).max(1);
        let sum = if let Some(held) = held {
            burst = held.slots().saturating_mul(backends.len() as u64);
            format!("60 x {} x {} instances", held.rate_per_s, backends.len())
        } else {
            // What comes in a second may wait.
            burst = whole(all.ceil()).max(1);
            "60 x the sum of the rates above".to_owned()
        };
        line(text, &format!("    # {per_minute} a minute = {sum}."));
        line(
            text,
            &format!("    limit_req_zone $server_name zone=web:1m rate={per_minute}r/m;"),
        );
        line(text, "    limit_req_status 429;");
        line(text, "");
    }
    line(text, "    upstream instances {");
    line(text, "        zone instances 64k;");
    line(text, "        least_conn;");
    if let Some(held) = held {
        line(
            text,
            &format!(
                "        # max_conns: {} x {} s = {} at once keep a server busy; a request beyond gets a 502.",
                plain(held.ceiling_per_s.unwrap_or(held.bound_per_s)),
                plain(held.mean_s),
                held.slots()
            ),
        );
    }
    for (backend, share) in backends.iter().zip(shares(backends)) {
        // Twice as many: without a queue of its own, nginx must let some wait inside the server.
        let limit = held.map_or_else(String::new, |held| {
            format!(" max_conns={}", 2 * held.slots())
        });
        line(
            text,
            &format!(
                "        server {}:{}{limit} weight={} max_fails=3 fail_timeout=10s;",
                host(&backend.address),
                backend.port,
                whole((100.0 * share).round()).clamp(1, 100)
            ),
        );
    }
    line(text, "    }");
    line(text, "");
    line(text, "    server {");
    line(text, "        listen 80;");
    line(text, "        server_name web;");
    line(text, "        location / {");
    if burst > 0 {
        line(
            text,
            &format!(
                "            # Up to {burst} wait here and go on evenly spaced, which a server holds better than bursts."
            ),
        );
        line(
            text,
            &format!("            limit_req zone=web burst={burst};"),
        );
    }
    line(text, "            proxy_pass http://instances;");
    line(text, "        }");
    line(text, "    }");
    line(text, "}");
}

fn line(text: &mut String, content: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{content}");
}

/// Text that cannot leave its comment.
fn comment(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(300)
        .collect()
}

/// A name of letters, digits and hyphens; `otherwise` where nothing is left of it.
fn label(name: &str, otherwise: &str) -> String {
    let safe: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .take(60)
        .collect();
    let safe = safe.trim_matches('-');
    if safe.is_empty() {
        otherwise.to_owned()
    } else {
        safe.to_owned()
    }
}

/// The name, with a number where there are several.
fn unique(name: &str, index: usize, of: usize) -> String {
    if of > 1 {
        format!("{name}-{}", index + 1)
    } else {
        name.to_owned()
    }
}

/// An address as it stands before a port; only characters that hosts have.
fn host(address: &str) -> String {
    let safe: String = address
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '_'))
        .take(253)
        .collect();
    if safe.contains(':') {
        format!("[{safe}]")
    } else {
        safe
    }
}

/// A figure in ASCII without groups.
pub(super) fn plain(number: f64) -> String {
    significant(number).replace('\u{202f}', "")
}

/// A share with two decimals, without trailing zeros but one: `1.0`, `0.5`, `0.33`.
fn hundredths(share: f64) -> String {
    let rounded = (share * 100.0).round() / 100.0;
    if rounded.fract() == 0.0 {
        format!("{rounded:.1}")
    } else {
        rounded.to_string()
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "rates, times and shares are not negative; a float too large saturates"
)]
fn whole(number: f64) -> u64 {
    number as u64
}
