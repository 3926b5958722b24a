//! The open-loop plan (httperf): its fields, their defaults and their limits.

use std::net::IpAddr;

use serde_json::{Map, Value, json};
use url::Host;

use super::fields::{Fields, LARGEST_EXACT, Range, plain, shown, tidy};
use super::{Caps, FieldError, Rate, RatePlan, Schedule, Tls, headers, target};
use crate::measure::schedule;

/// The seed of plans that name none: the same plan then draws the same gaps each time, as httperf does.
pub(super) const DEFAULT_SEED: u64 = 1;
const MAX_STEPS: usize = 1_000;

impl RatePlan {
    /// Connections in all; `None` for one connection after another bounded by time.
    pub fn planned_connections(&self) -> Option<u64> {
        match (&self.rate, self.num_conns) {
            (_, Some(connections)) => Some(connections),
            (Rate::Constant(rate), None) if *rate <= 0.0 => None,
            _ => Some(schedule::count(self)),
        }
    }

    /// Sending time in s: connections over rate, or the time that was given; `None` when one follows another.
    pub fn sending_s(&self) -> Option<f64> {
        match (&self.rate, self.num_conns, self.duration_s) {
            (Rate::Steps(steps), _, _) => Some(steps.iter().map(|(_, seconds)| seconds).sum()),
            (_, _, Some(duration)) => Some(duration),
            (Rate::Constant(rate), Some(connections), None) if *rate > 0.0 => {
                Some(connections as f64 / rate)
            }
            _ => None,
        }
    }

    /// The highest rate that it reaches, per s; 0 when one connection follows another.
    pub fn peak_rate(&self) -> f64 {
        match &self.rate {
            Rate::Constant(rate) => *rate,
            Rate::Steps(steps) => steps.iter().map(|(rate, _)| *rate).fold(0.0, f64::max),
        }
    }
}

pub(super) fn from_json(
    object: &Map<String, Value>,
    caps: &Caps,
) -> Result<RatePlan, Vec<FieldError>> {
    let mut fields = Fields::new(object);
    let urls = target::take_urls(&mut fields);
    let method = headers::take_method(&mut fields);
    let rate = take_rate(&mut fields, caps);
    let num_conns = fields.whole("num_conns", &connections(caps));
    let duration_s = fields.number("duration_s", &duration(caps));
    let num_calls = fields.whole(
        "num_calls",
        &Range {
            name: "Calls per connection",
            min: 1.0,
            max: 1_000_000.0,
            unit: "",
            set_by: None,
        },
    );
    let timeout_s = fields.number("timeout_s", &TIMEOUT).unwrap_or(120.0);
    let request_headers = headers::take_headers(&mut fields);
    let body = headers::take_body(&mut fields);
    let schedule = fields
        .word(
            "schedule",
            "The schedule",
            &[
                ("deterministic", Schedule::Deterministic),
                ("exponential", Schedule::Exponential),
            ],
        )
        .unwrap_or(Schedule::Deterministic);
    let seed = take_seed(&mut fields);
    let max_in_flight = fields.whole(
        "max_in_flight",
        &Range {
            name: "In flight at most",
            min: 1.0,
            max: 1_000_000.0,
            unit: "",
            set_by: None,
        },
    );
    let reuse = fields.flag("reuse", "reuse");
    let bind = take_bind(&mut fields, &urls);
    let tls = take_tls(&mut fields);
    let http = take_http(&mut fields);
    check_bound(object, &mut fields, rate.as_ref());

    let plan = RatePlan {
        urls,
        method,
        rate: rate.unwrap_or(Rate::Constant(0.0)),
        num_conns,
        duration_s,
        num_calls: narrow(num_calls, 1),
        timeout_s,
        headers: request_headers,
        body,
        schedule,
        seed,
        max_in_flight: narrow(max_in_flight, 10_000),
        reuse,
        bind,
        tls,
        http,
    };
    let mut errors = fields.finish("rate");
    if errors.is_empty() {
        errors.extend(check_size(&plan, caps));
    }
    if errors.is_empty() {
        Ok(plan)
    } else {
        Err(errors)
    }
}

/// The range of `timeout_s` in every kind of plan.
pub(super) const TIMEOUT: Range = Range {
    name: "Timeout",
    min: 0.001,
    max: 3_600.0,
    unit: " s",
    set_by: None,
};

/// The range of `duration_s` in every kind of plan.
pub(super) fn duration(caps: &Caps) -> Range {
    Range {
        name: "Duration",
        min: 0.001,
        max: caps.max_duration_s,
        unit: " s",
        set_by: Some("--max-duration"),
    }
}

fn connections(caps: &Caps) -> Range {
    Range {
        name: "Connections in all",
        min: 1.0,
        max: caps.max_connections as f64,
        unit: "",
        set_by: Some("--max-connections"),
    }
}

fn take_rate(fields: &mut Fields<'_>, caps: &Caps) -> Option<Rate> {
    let range = Range {
        name: "Rate",
        min: 0.0,
        max: caps.max_rate,
        unit: "/s",
        set_by: Some("--max-rate"),
    };
    let Some(value) = fields.take("rate") else {
        fields.refuse(
            "rate",
            "The rate is missing: set rate to connections per second (0 = one after another).",
        );
        return None;
    };
    let Some(list) = value.as_array() else {
        if !value.is_number() {
            fields.refuse(
                "rate",
                "Rate must be a number of connections per second, or steps such as [[5, 20], [10, 20]].",
            );
            return None;
        }
        // Minus zero is zero.
        return fields
            .checked_number("rate", value, &range)
            .map(|rate| Rate::Constant(rate + 0.0));
    };
    if !(1..=MAX_STEPS).contains(&list.len()) {
        fields.refuse(
            "rate",
            format!(
                "There can be 1 to {MAX_STEPS} steps of the rate; {} were given.",
                list.len()
            ),
        );
        return None;
    }
    let seconds_range = Range {
        name: "A step's duration",
        ..duration(caps)
    };
    let mut steps = Vec::with_capacity(list.len());
    for (index, step) in list.iter().enumerate() {
        let place = format!("rate[{index}]");
        let Some([rate, seconds]) = step.as_array().map(Vec::as_slice) else {
            fields.refuse(
                &place,
                "A step is a pair of rate per second and seconds, such as [5, 20].",
            );
            continue;
        };
        let rate = fields.checked_number(&place, rate, &range);
        let seconds = fields.checked_number(&place, seconds, &seconds_range);
        if let (Some(rate), Some(seconds)) = (rate, seconds) {
            steps.push((rate + 0.0, seconds));
        }
    }
    if steps.len() < list.len() {
        return None;
    }
    if steps.iter().all(|(rate, _)| *rate <= 0.0) {
        fields.refuse("rate", "At least one step must have a rate above 0.");
        return None;
    }
    Some(Rate::Steps(steps))
}

/// Steps bound themselves; every other rate needs exactly one of `num_conns` and `duration_s`.
fn check_bound(object: &Map<String, Value>, fields: &mut Fields<'_>, rate: Option<&Rate>) {
    let given = |key: &str| object.get(key).is_some_and(|value| !value.is_null());
    let (conns, time) = (given("num_conns"), given("duration_s"));
    match rate {
        Some(Rate::Steps(_)) => {
            for (key, set) in [("num_conns", conns), ("duration_s", time)] {
                if set {
                    fields.refuse(
                        key,
                        format!("Steps of the rate say themselves when to end: leave {key} out."),
                    );
                }
            }
        }
        _ if conns && time => {
            fields.refuse("duration_s", "Give num_conns or duration_s, not both.");
        }
        Some(Rate::Constant(_)) if !conns && !time => fields.refuse(
            "num_conns",
            "The run has no end: set num_conns (connections in all) or duration_s.",
        ),
        _ => {}
    }
}

/// What holds for several fields together: how many in all, and for how long.
fn check_size(plan: &RatePlan, caps: &Caps) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut refuse = |field: &str, message: String| {
        errors.push(FieldError {
            field: field.to_owned(),
            message,
        });
    };
    let rate_text = plain(plan.peak_rate());
    if let Some(sending) = plan.sending_s()
        && sending > caps.max_duration_s
    {
        let limit = plain(caps.max_duration_s);
        let sending = plain((sending * 10.0).round() / 10.0);
        if let Some(connections) = plan.num_conns {
            refuse(
                "num_conns",
                format!(
                    "{connections} connections at {rate_text}/s take {sending} s, above this server's limit of {limit} s (set by --max-duration): raise rate or lower num_conns."
                ),
            );
        } else {
            refuse(
                "rate",
                format!(
                    "All steps together take {sending} s, above this server's limit of {limit} s (set by --max-duration)."
                ),
            );
        }
        return errors;
    }
    let expected = schedule::expected_count(plan);
    if expected > 1.5 * caps.max_connections as f64 {
        refuse(
            count_field(plan),
            too_many(&plain(expected.round()), plan, caps),
        );
        return errors;
    }
    if let Some(connections) = plan.planned_connections() {
        let requests = connections.saturating_mul(u64::from(plan.num_calls));
        if requests > caps.max_connections {
            refuse(
                count_field(plan),
                too_many(&requests.to_string(), plan, caps),
            );
        }
    }
    errors
}

fn count_field(plan: &RatePlan) -> &'static str {
    if plan.num_calls > 1 {
        "num_calls"
    } else if plan.duration_s.is_some() {
        "duration_s"
    } else {
        "rate"
    }
}

fn too_many(requests: &str, plan: &RatePlan, caps: &Caps) -> String {
    let change = match (plan.num_calls > 1, plan.duration_s.is_some()) {
        (true, _) => "lower num_conns or num_calls",
        (false, true) => "lower rate or duration_s",
        (false, false) => "lower rate or its steps",
    };
    format!(
        "{requests} requests in all are above this server's limit of {} (set by --max-connections): {change}.",
        caps.max_connections
    )
}

fn take_bind(fields: &mut Fields<'_>, urls: &[super::WeightedUrl]) -> Option<IpAddr> {
    let text = fields.text("bind", "The address to send from")?;
    let Ok(address) = text.parse::<IpAddr>() else {
        fields.refuse(
            "bind",
            format!(
                "{} is not an IP address of this machine: set bind to one, such as 127.0.0.1.",
                shown(text)
            ),
        );
        return None;
    };
    if address.is_unspecified() || address.is_multicast() {
        fields.refuse(
            "bind",
            format!(
                "{address} is no address to send from: name one of this machine, or leave bind out."
            ),
        );
        return None;
    }
    let other_family = urls.iter().any(|one| match one.url.host() {
        Some(Host::Ipv4(_)) => address.is_ipv6(),
        Some(Host::Ipv6(_)) => address.is_ipv4(),
        _ => false,
    });
    if other_family {
        fields.refuse(
            "bind",
            format!("{address} cannot reach the target: one is IPv4 and the other IPv6."),
        );
        return None;
    }
    Some(address)
}

/// `seed`, up to 2^53, since some readers of JSON keep no larger number exactly.
pub(super) fn take_seed(fields: &mut Fields<'_>) -> u64 {
    fields
        .whole(
            "seed",
            &Range {
                name: "Seed",
                min: 0.0,
                max: LARGEST_EXACT,
                unit: "",
                set_by: None,
            },
        )
        .unwrap_or(DEFAULT_SEED)
}

/// `ca` and `insecure`: one or none of them.
pub(super) fn take_tls(fields: &mut Fields<'_>) -> Tls {
    let ca = fields.text("ca", "The certificate authority");
    let insecure = fields.flag("insecure", "insecure");
    if let Some(path) = ca {
        if path.is_empty() || path.len() > 4_096 || path.contains('\0') {
            fields.refuse(
                "ca",
                "ca must be the path of a PEM file on the machine that sends.",
            );
        } else if insecure {
            fields.refuse(
                "insecure",
                "ca checks the certificate and insecure does not: set one of them.",
            );
        }
    }
    Tls {
        ca: ca.map(str::to_owned),
        insecure,
    }
}

/// `http`: only 1.1 is spoken.
pub(super) fn take_http(fields: &mut Fields<'_>) -> String {
    if let Some(value) = fields.take("http")
        && value.as_str() != Some("1.1")
    {
        fields.refuse(
            "http",
            "Only HTTP/1.1 requests are sent here: set http to \"1.1\" or leave it out.",
        );
    }
    "1.1".to_owned()
}

/// Adds the TLS settings where they differ from the default.
pub(super) fn fill_tls(tls: &Tls, object: &mut Map<String, Value>) {
    if let Some(ca) = &tls.ca {
        object.insert("ca".to_owned(), ca.as_str().into());
    }
    object.insert("insecure".to_owned(), tls.insecure.into());
}

/// A number that its range has already bounded, in the plan's narrower type.
pub(super) fn narrow(number: Option<u64>, default: u32) -> u32 {
    number
        .and_then(|number| u32::try_from(number).ok())
        .unwrap_or(default)
}

pub(super) fn fill_json(plan: &RatePlan, object: &mut Map<String, Value>) {
    target::fill_urls(&plan.urls, object);
    headers::fill_request(&plan.method, &plan.headers, plan.body.as_deref(), object);
    let rate = match &plan.rate {
        Rate::Constant(rate) => tidy(*rate),
        Rate::Steps(steps) => steps
            .iter()
            .map(|(rate, seconds)| json!([tidy(*rate), tidy(*seconds)]))
            .collect::<Vec<_>>()
            .into(),
    };
    object.insert("rate".to_owned(), rate);
    if let Some(connections) = plan.num_conns {
        object.insert("num_conns".to_owned(), connections.into());
    }
    if let Some(seconds) = plan.duration_s {
        object.insert("duration_s".to_owned(), tidy(seconds));
    }
    object.insert("num_calls".to_owned(), plan.num_calls.into());
    object.insert("timeout_s".to_owned(), tidy(plan.timeout_s));
    let schedule = match plan.schedule {
        Schedule::Deterministic => "deterministic",
        Schedule::Exponential => "exponential",
    };
    object.insert("schedule".to_owned(), schedule.into());
    object.insert("seed".to_owned(), plan.seed.into());
    object.insert("max_in_flight".to_owned(), plan.max_in_flight.into());
    if plan.reuse {
        object.insert("reuse".to_owned(), true.into());
    }
    if let Some(address) = plan.bind {
        object.insert("bind".to_owned(), address.to_string().into());
    }
    fill_tls(&plan.tls, object);
    object.insert("http".to_owned(), plan.http.as_str().into());
}
