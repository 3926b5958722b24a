//! What speaks for or against the values of the launch form without forbidding them, and what they were read as.

use crate::dashboard::fields::{FieldView, Values};
use crate::dashboard::launch::form;
use crate::dashboard::peers;
use crate::dashboard::words;
use crate::measure::objective::Objectives;
use crate::measure::plan::Plan;
use crate::measure::plan::throughput::{Dialect, ThroughputPlan};
use crate::measure::units;
use crate::store::Peer;

/// Writes a remark to each field that deserves one.
pub(super) fn remark<'a>(
    fields: impl Iterator<Item = &'a mut FieldView>,
    plan: Option<&Plan>,
    values: &Values,
    registered: &[Peer],
) {
    for field in fields.filter(|field| field.error.is_none()) {
        say_back(field, plan);
        match field.name {
            "url" => {
                let host = plan.and_then(|plan| {
                    plan.urls()
                        .first()
                        .and_then(|url| url.host_str().map(str::to_owned))
                });
                whose(field, &host.unwrap_or_default(), registered);
            }
            "host" => {
                let host = field.value.clone();
                whose(field, &host, registered);
            }
            "port" => {
                if let Some(Plan::Throughput(plan)) = plan {
                    field.warn = port(plan, registered).unwrap_or_default();
                }
            }
            "objective" => {
                field.warn = plan
                    .and_then(|plan| too_few(values, plan))
                    .unwrap_or_default();
            }
            _ => {}
        }
    }
}

/// The value as it was read, where it has a suffix or is long.
fn say_back(field: &mut FieldView, plan: Option<&Plan>) {
    let text = field.value.as_str();
    if form::is_size(field.name) {
        if let Ok(bytes) = form::size(text)
            && bytes >= 1_000
        {
            field.good = if bytes >= 1_000_000 {
                format!("{} bytes, {}", words::count(bytes), words::volume(bytes))
            } else {
                format!("{} bytes", words::count(bytes))
            };
        }
    } else if field.name == "bandwidth_bits_per_second"
        && let Ok(each) = units::parse_bits_per_second(text)
    {
        field.good = words::bits(Some(each));
        if let Some(Plan::Throughput(plan)) = plan
            && plan.streams > 1
        {
            let all = each * f64::from(plan.streams);
            field.good = format!(
                "{} each, {} together",
                words::bits(Some(each)),
                words::bits(Some(all))
            );
        }
    } else if field.name.ends_with("_s")
        && text.ends_with(|last: char| last.is_alphabetic())
        && let Ok(seconds) = units::parse_duration_s(text)
    {
        field.good = words::seconds(seconds);
    }
    if !field.good.is_empty() {
        field.good.push('.');
    }
}

/// Says whose address it is; the long way round is a warning.
fn whose(field: &mut FieldView, host: &str, registered: &[Peer]) {
    let Some(known) = peers::known(registered, host) else {
        return;
    };
    let name = &known.peer.name;
    match &known.peer.internal_address {
        Some(internal) if known.round_about => {
            field.warn = format!(
                "This is the external address of {name}; between two machines of one network its internal one, {internal}, is the one to test."
            );
        }
        _ => field.good = format!("allowed: registered peer {name}, {} address.", known.which),
    }
}

/// A port that does not go with the peer or the dialect.
fn port(plan: &ThroughputPlan, registered: &[Peer]) -> Option<String> {
    let (other, usual) = match plan.dialect {
        Dialect::Iperf2 => (5201, 5001),
        Dialect::Iperf3 => (5001, 5201),
    };
    if plan.port == other {
        let tool = match plan.dialect {
            Dialect::Iperf2 => "iperf 3",
            Dialect::Iperf3 => "iperf 2",
        };
        return Some(format!(
            "{other} is usually {tool}; this dialect listens on {usual} as it comes."
        ));
    }
    let peer = peers::known(registered, &plan.host)?.peer;
    let registered = peer.ports.throughput;
    (plan.dialect == Dialect::Iperf2 && registered != plan.port)
        .then(|| format!("{} is registered with iperf port {registered}.", peer.name))
}

/// Says when a plan is too small to prove a share of errors: without one error in n requests, the share is below 3/n
/// with 95 % confidence.
fn too_few(values: &Values, plan: &Plan) -> Option<String> {
    let text = values.get("objective").filter(|text| !text.is_empty())?;
    Objectives::parse(text).ok()?;
    let share: f64 = text
        .split(',')
        .filter_map(|rule| rule.trim().strip_prefix("errors"))
        .filter_map(|rule| rule.trim().strip_prefix('<'))
        .find_map(|limit| {
            let limit = limit.trim_start_matches('=').trim();
            limit.strip_suffix('%')?.trim().parse::<f64>().ok()
        })
        .map(|percent| percent / 100.0)
        .filter(|share| *share > 0.0)?;
    let planned = plan.planned_requests()?;
    let needed = (3.0 / share).ceil();
    (needed > planned as f64).then(|| {
        format!(
            "{} are too few to prove it: it takes {} without an error.",
            words::plural(planned, "request", "requests"),
            words::digits(needed)
        )
    })
}
