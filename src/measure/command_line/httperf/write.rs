//! A plan as the nearest httperf line.

use url::Host;

use super::super::{number, push_option};
use crate::measure::plan::{Plan, Rate, RatePlan, Schedule};

/// The nearest httperf line, what it cannot say, and the plan that sends the same where the line words it otherwise.
pub(in super::super) fn write(plan: &RatePlan) -> (String, Vec<String>, Option<Plan>) {
    let mut differs = Vec::new();
    let mut same = None;
    let mut words = vec!["httperf".to_owned()];
    if let Some(first) = plan.urls.first() {
        let url = &first.url;
        let host = match url.host() {
            Some(Host::Ipv6(address)) => {
                differs.push("httperf 0.9.0 itself reaches IPv4 addresses only.".to_owned());
                address.to_string()
            }
            Some(host) => host.to_string(),
            None => String::new(),
        };
        push_option(&mut words, "--server", &host);
        push_option(
            &mut words,
            "--port",
            &url.port_or_known_default().unwrap_or(80).to_string(),
        );
        let path = match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        };
        push_option(&mut words, "--uri", &path);
        if url.scheme() == "https" {
            words.push("--ssl".to_owned());
            if plan.tls.ca.is_none() && !plan.tls.insecure {
                differs.push("httperf itself does not check the certificate.".to_owned());
            }
        }
    }
    write_pace(plan, &mut words, &mut differs, &mut same);
    if plan.num_calls != 1 {
        push_option(&mut words, "--num-calls", &plan.num_calls.to_string());
    }
    push_option(&mut words, "--timeout", &number(plan.timeout_s));
    if plan.method != "GET" {
        push_option(&mut words, "--method", &plan.method);
    }
    if !plan.headers.is_empty() {
        let lines: Vec<String> = plan
            .headers
            .iter()
            .map(|(name, value)| format!("{name}: {}\\n", value.replace('\\', "\\\\")))
            .collect();
        push_option(&mut words, "--add-header", &lines.concat());
    }
    if let Some(address) = plan.bind {
        push_option(&mut words, "--myaddr", &address.to_string());
    }
    if let Some(ca) = &plan.tls.ca {
        push_option(&mut words, "--ssl-ca-file", ca);
    }
    if plan.tls.insecure {
        words.push("--ssl-verify=no".to_owned());
    }
    if plan.bind.is_some() || plan.tls.ca.is_some() || plan.tls.insecure {
        differs
            .push("Its options need httperf built from its current source, not 0.9.0.".to_owned());
    }
    if plan.urls.len() > 1 {
        differs.push("httperf asks for one URL; this plan has several.".to_owned());
    }
    if plan.body.is_some() {
        differs.push("httperf sends no request body outside sessions.".to_owned());
    }
    if plan.max_in_flight != 10_000 {
        differs.push(format!(
            "httperf has no limit of requests in flight; this plan has {}.",
            plan.max_in_flight
        ));
    }
    if plan.seed != 1 {
        differs.push(format!(
            "httperf has no --seed; this plan has {}.",
            plan.seed
        ));
    }
    (words.join(" "), differs, same)
}

fn write_pace(
    plan: &RatePlan,
    words: &mut Vec<String>,
    differs: &mut Vec<String>,
    same: &mut Option<Plan>,
) {
    let gap = |rate: f64| number(1.0 / rate);
    match (&plan.rate, plan.schedule) {
        (Rate::Steps(steps), schedule) => {
            let pairs: Vec<String> = steps
                .iter()
                .map(|(rate, seconds)| {
                    let gap = if *rate > 0.0 {
                        gap(*rate)
                    } else {
                        "0".to_owned()
                    };
                    format!("{gap},{}", number(*seconds))
                })
                .collect();
            push_option(words, "--period", &format!("v{}", pairs.join(",")));
            push_option(
                words,
                "--num-conns",
                &plan.planned_connections().unwrap_or(1).to_string(),
            );
            differs.push("Steps need httperf built from its current source, not 0.9.0.".to_owned());
            if schedule == Schedule::Exponential {
                differs.push("httperf has no random gaps with steps.".to_owned());
            }
            return;
        }
        (Rate::Constant(rate), _) if *rate <= 0.0 => {}
        (Rate::Constant(rate), Schedule::Exponential) => {
            push_option(words, "--period", &format!("e{}", gap(*rate)));
        }
        (Rate::Constant(rate), Schedule::Deterministic) => {
            push_option(words, "--rate", &number(*rate));
        }
    }
    if let Some(connections) = plan.planned_connections() {
        push_option(words, "--num-conns", &connections.to_string());
        if plan.duration_s.is_some() {
            *same = Some(Plan::Rate(RatePlan {
                num_conns: Some(connections),
                duration_s: None,
                ..plan.clone()
            }));
        }
    } else {
        push_option(words, "--runtime", &number(plan.duration_s.unwrap_or(1.0)));
        differs
            .push("--runtime needs httperf built from its current source, not 0.9.0.".to_owned());
    }
}
