//! `curl -w`: the format string and its variables, as curl 7.88 expands them.

use crate::measure::outcome::Outcome;
use crate::measure::plan::{FetchPlan, Plan};
use crate::measure::run::Run;
use crate::measure::summary::FetchSummary;

/// The phases one below the other: what `report.txt` of a fetch holds.
pub const FETCH_REPORT: &str = "url:                 %{url_effective}\n\
    remote address:      %{remote_ip}:%{remote_port}\n\
    http code:           %{http_code}\n\
    size:                %{size_download} bytes\n\
    time_namelookup:     %{time_namelookup} s\n\
    time_connect:        %{time_connect} s\n\
    time_appconnect:     %{time_appconnect} s\n\
    time_pretransfer:    %{time_pretransfer} s\n\
    time_starttransfer:  %{time_starttransfer} s\n\
    time_total:          %{time_total} s\n";

/// What a format string became.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expanded {
    /// The text to print.
    pub text: String,
    /// Names of variables that are not known; curl prints nothing in their place and a line on standard error.
    pub unknown: Vec<String>,
}

/// The report of one fetch as text.
pub fn fetch_text(run: &Run, summary: &FetchSummary) -> String {
    let Plan::Fetch(plan) = &run.plan else {
        return String::new();
    };
    let mut text = expand(FETCH_REPORT, plan, summary).text;
    if let Some(detail) = &summary.detail {
        text.push_str("outcome:             ");
        text.push_str(&summary.outcome);
        text.push_str(": ");
        text.push_str(detail);
        text.push('\n');
    }
    if let Some(verdict) = &run.verdict {
        text.push_str("verdict:             ");
        text.push_str(verdict);
        text.push('\n');
    }
    text
}

/// Expands `%{variable}`, `%%`, `\n`, `\r` and `\t`; everything else stands for itself.
pub fn expand(format: &str, plan: &FetchPlan, summary: &FetchSummary) -> Expanded {
    let mut expanded = Expanded::default();
    let mut rest = format;
    while let Some(at) = rest.find(['%', '\\']) {
        expanded.text.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(after) = rest.strip_prefix("%%") {
            expanded.text.push('%');
            rest = after;
        } else if let Some((name, after)) = rest
            .strip_prefix("%{")
            .and_then(|after| after.split_once('}'))
        {
            match variable(name, plan, summary) {
                Some(value) => expanded.text.push_str(&value),
                None => expanded.unknown.push(name.to_owned()),
            }
            rest = after;
        } else if let Some((escape, after)) = rest
            .strip_prefix('\\')
            .and_then(|after| after.chars().next().map(|c| (c, &after[c.len_utf8()..])))
        {
            match escape {
                'n' => expanded.text.push('\n'),
                'r' => expanded.text.push('\r'),
                't' => expanded.text.push('\t'),
                other => expanded.text.extend(['\\', other]),
            }
            rest = after;
        } else {
            // A lone % or a backslash at the end.
            expanded.text.push_str(&rest[..1]);
            rest = &rest[1..];
        }
    }
    expanded.text.push_str(rest);
    expanded
}

fn variable(name: &str, plan: &FetchPlan, summary: &FetchSummary) -> Option<String> {
    let seconds = |ms: Option<f64>| format!("{:.6}", ms.unwrap_or(0.0) / 1000.0);
    let whole = |value: f64| format!("{value:.0}");
    let peer = summary
        .addresses
        .first()
        .and_then(|address| address.parse::<std::net::SocketAddr>().ok());
    let peer_ip = peer.map(|peer| peer.ip()).or_else(|| {
        let first = summary.addresses.first()?;
        first.parse().ok()
    });
    let phases = Phases::of(summary);
    let connected = summary.connect_ms.is_some();
    let size = summary.size_bytes.unwrap_or(0);
    Some(match name {
        "time_namelookup" => seconds(summary.lookup_ms),
        "time_connect" => seconds(phases.connect),
        "time_appconnect" => seconds(phases.appconnect),
        "time_pretransfer" => seconds(phases.pretransfer),
        "time_starttransfer" => seconds(phases.first_byte),
        "time_total" => seconds(phases.total),
        "time_redirect" => seconds(None),
        "http_code" | "response_code" => format!("{:03}", summary.status.unwrap_or(0)),
        "http_connect" => "000".to_owned(),
        "size_download" => size.to_string(),
        "size_upload" => plan.body.as_ref().map_or(0, String::len).to_string(),
        "speed_download" => match phases.total {
            Some(total) if total > 0.0 => whole(size as f64 / total * 1000.0),
            _ => whole(0.0),
        },
        "remote_ip" if connected => peer_ip.map(|ip| ip.to_string()).unwrap_or_default(),
        "remote_port" if connected => plan
            .url
            .port_or_known_default()
            .unwrap_or_default()
            .to_string(),
        "remote_ip" | "redirect_url" => String::new(),
        "url_effective" | "url" => plan.url.to_string(),
        "num_connects" => u8::from(connected).to_string(),
        "method" => plan.method.clone(),
        "scheme" => plan.url.scheme().to_uppercase(),
        "http_version" if summary.status.is_some() => "1.1".to_owned(),
        "remote_port" | "http_version" | "num_redirects" | "ssl_verify_result" => "0".to_owned(),
        "exitcode" => exit_code(&summary.outcome).to_string(),
        "errormsg" => summary.detail.clone().unwrap_or_default(),
        _ => return None,
    })
}

/// curl's times in ms: each counts from the start of the whole, the lookup included, which our figures leave apart.
struct Phases {
    connect: Option<f64>,
    appconnect: Option<f64>,
    pretransfer: Option<f64>,
    first_byte: Option<f64>,
    total: Option<f64>,
}

impl Phases {
    fn of(summary: &FetchSummary) -> Self {
        let from_the_start = |ms: f64| summary.lookup_ms.unwrap_or(0.0) + ms;
        let connect = summary.connect_ms.map(from_the_start);
        let appconnect = connect
            .zip(summary.tls_ms)
            .map(|(before, tls)| before + tls);
        Self {
            connect,
            appconnect,
            pretransfer: appconnect.or(connect),
            first_byte: summary.first_byte_ms.map(from_the_start),
            total: summary.total_ms.map(from_the_start),
        }
    }
}

/// curl's exit status for an outcome's key (curl(1), EXIT CODES).
fn exit_code(outcome: &str) -> u8 {
    let found = Outcome::ALL.into_iter().find(|o| o.key() == outcome);
    match found {
        Some(Outcome::DnsFailed) => 6,
        Some(
            Outcome::ConnectRefused
            | Outcome::Unreachable
            | Outcome::PortExhausted
            | Outcome::FdExhausted
            | Outcome::FtabFull,
        ) => 7,
        Some(Outcome::InvalidReply) => 1,
        Some(Outcome::Truncated) => 18,
        Some(
            Outcome::ConnectTimeout
            | Outcome::ConnectTimeoutKernel
            | Outcome::SendTimeout
            | Outcome::TtfbTimeout
            | Outcome::TotalTimeout,
        ) => 28,
        Some(Outcome::TlsFailed) => 35,
        Some(Outcome::AbortedAtStop) => 42,
        Some(Outcome::EmptyReply) => 52,
        Some(Outcome::ResetBeforeReply | Outcome::ResetInBody) => 56,
        Some(Outcome::Ok | Outcome::Http4xx | Outcome::Http5xx | Outcome::HttpOther) => 0,
        Some(Outcome::Other) | None => 2,
    }
}
