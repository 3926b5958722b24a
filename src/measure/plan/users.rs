//! The closed-loop plan (siege): its fields, their defaults and their limits.

use serde_json::{Map, Value};

use super::fields::{Fields, Range, tidy};
use super::rate::{TIMEOUT, duration, fill_tls, narrow, take_http, take_seed, take_tls};
use super::{Caps, FieldError, Order, UsersPlan, headers, target};

pub(super) fn from_json(
    object: &Map<String, Value>,
    caps: &Caps,
) -> Result<UsersPlan, Vec<FieldError>> {
    let mut fields = Fields::new(object);
    let urls = target::take_urls(&mut fields);
    let method = headers::take_method(&mut fields);
    let concurrent = fields.whole(
        "concurrent",
        &Range {
            name: "Users",
            min: 1.0,
            max: f64::from(caps.max_users),
            unit: "",
            set_by: Some("--max-users"),
        },
    );
    let reps = fields.whole(
        "reps",
        &Range {
            name: "Repetitions",
            min: 1.0,
            max: caps.max_connections as f64,
            unit: "",
            set_by: Some("--max-connections"),
        },
    );
    let duration_s = fields.number("duration_s", &duration(caps));
    let delay_s = fields.number(
        "delay_s",
        &Range {
            name: "Delay",
            min: 0.0,
            max: 3_600.0,
            unit: " s",
            set_by: None,
        },
    );
    let ramp_s = fields.number(
        "ramp_s",
        &Range {
            name: "The time over which users begin",
            min: 0.0,
            max: 3_600.0,
            unit: " s",
            set_by: None,
        },
    );
    let order = fields
        .word(
            "order",
            "The order",
            &[("in_turn", Order::InTurn), ("random", Order::Random)],
        )
        .unwrap_or(Order::InTurn);
    let timeout_s = fields.number("timeout_s", &TIMEOUT).unwrap_or(30.0);
    let request_headers = headers::take_headers(&mut fields);
    let body = headers::take_body(&mut fields);
    let keep_alive = fields.flag("keep_alive", "keep_alive");
    let seed = take_seed(&mut fields);
    let tls = take_tls(&mut fields);
    let http = take_http(&mut fields);
    let given = |key: &str| object.get(key).is_some_and(|value| !value.is_null());
    match (given("reps"), given("duration_s")) {
        (true, true) => fields.refuse("duration_s", "Give reps or duration_s, not both."),
        (false, false) => fields.refuse(
            "reps",
            "The run has no end: set reps (requests of each user) or duration_s.",
        ),
        _ => {}
    }
    let concurrent = narrow(concurrent, 25.min(caps.max_users.max(1)));
    if let Some(reps) = reps {
        let requests = reps.saturating_mul(u64::from(concurrent));
        if requests > caps.max_connections {
            fields.refuse("reps", format!("{requests} requests in all are above this server's limit of {} (set by --max-connections): lower reps or concurrent.", caps.max_connections));
        }
    }

    let plan = UsersPlan {
        urls,
        method,
        concurrent,
        reps,
        duration_s,
        delay_s: delay_s.unwrap_or(0.0) + 0.0,
        ramp_s,
        order,
        timeout_s,
        headers: request_headers,
        body,
        keep_alive,
        seed,
        tls,
        http,
    };
    let errors = fields.finish("users");
    if errors.is_empty() {
        Ok(plan)
    } else {
        Err(errors)
    }
}

pub(super) fn fill_json(plan: &UsersPlan, object: &mut Map<String, Value>) {
    target::fill_urls(&plan.urls, object);
    headers::fill_request(&plan.method, &plan.headers, plan.body.as_deref(), object);
    object.insert("concurrent".to_owned(), plan.concurrent.into());
    if let Some(reps) = plan.reps {
        object.insert("reps".to_owned(), reps.into());
    }
    if let Some(seconds) = plan.duration_s {
        object.insert("duration_s".to_owned(), tidy(seconds));
    }
    object.insert("delay_s".to_owned(), tidy(plan.delay_s));
    if let Some(seconds) = plan.ramp_s {
        object.insert("ramp_s".to_owned(), tidy(seconds));
    }
    let order = match plan.order {
        Order::InTurn => "in_turn",
        Order::Random => "random",
    };
    object.insert("order".to_owned(), order.into());
    object.insert("timeout_s".to_owned(), tidy(plan.timeout_s));
    object.insert("keep_alive".to_owned(), plan.keep_alive.into());
    object.insert("seed".to_owned(), plan.seed.into());
    fill_tls(&plan.tls, object);
    object.insert("http".to_owned(), plan.http.as_str().into());
}
