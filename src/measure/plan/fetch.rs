//! The plan of one request (`curl -w`): its fields and their defaults.

use serde_json::{Map, Value};

use super::fields::{Fields, tidy};
use super::rate::{TIMEOUT, fill_tls, take_tls};
use super::{FetchPlan, FieldError, headers, target};

pub(super) fn from_json(object: &Map<String, Value>) -> Result<FetchPlan, Vec<FieldError>> {
    let mut fields = Fields::new(object);
    let url = target::take_single(&mut fields);
    let method = headers::take_method(&mut fields);
    let timeout_s = fields.number("timeout_s", &TIMEOUT).unwrap_or(30.0);
    let request_headers = headers::take_headers(&mut fields);
    let body = headers::take_body(&mut fields);
    let tls = take_tls(&mut fields);
    let errors = fields.finish("fetch");
    match url {
        Some(url) if errors.is_empty() => Ok(FetchPlan {
            url,
            method,
            timeout_s,
            headers: request_headers,
            body,
            tls,
        }),
        _ => Err(errors),
    }
}

pub(super) fn fill_json(plan: &FetchPlan, object: &mut Map<String, Value>) {
    object.insert("url".to_owned(), plan.url.as_str().into());
    headers::fill_request(&plan.method, &plan.headers, plan.body.as_deref(), object);
    object.insert("timeout_s".to_owned(), tidy(plan.timeout_s));
    fill_tls(&plan.tls, object);
}
