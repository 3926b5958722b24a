//! Errors as `application/problem+json` (RFC 9457): a status, a sentence, and the fields at fault.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

use crate::measure::plan::FieldError;
use crate::store::StoreError;
use crate::supervisor::{LaunchError, PeerError, SelfTestRefused};

/// What went wrong with one call.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    status: StatusCode,
    detail: String,
    errors: Vec<FieldError>,
    more: More,
}

/// What some problems say beside their sentence.
#[derive(Clone, Debug)]
enum More {
    Nothing,
    /// The methods that the path has.
    Allow(String),
    /// It is worth trying again soon.
    RetryAfter,
    /// The address that would be allowed if it were registered as a peer.
    Registrable(String),
}

pub(super) type Answer<T> = Result<T, Problem>;

impl Problem {
    pub(super) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self {
            status,
            detail: detail.into(),
            errors: Vec::new(),
            more: More::Nothing,
        }
    }

    /// The body is not what its type says.
    pub(super) fn malformed(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    /// Fields are at fault; the detail is the first one's message.
    pub(super) fn invalid(errors: Vec<FieldError>) -> Self {
        let detail = errors.first().map_or_else(
            || "The request is invalid.".to_owned(),
            |error| error.message.clone(),
        );
        Self {
            errors,
            ..Self::new(StatusCode::UNPROCESSABLE_ENTITY, detail)
        }
    }

    pub(super) fn field(field: &str, message: impl Into<String>) -> Self {
        Self::invalid(vec![FieldError {
            field: field.to_owned(),
            message: message.into(),
        }])
    }

    pub(super) fn no_run(id: &str) -> Self {
        let shown: String = id.chars().take(32).collect();
        Self::new(StatusCode::NOT_FOUND, format!("There is no run {shown}."))
    }

    pub(super) fn no_experiment(id: &str) -> Self {
        let shown: String = id.chars().take(32).collect();
        Self::new(
            StatusCode::NOT_FOUND,
            format!("There is no experiment {shown}."),
        )
    }

    pub(super) fn no_peer(name: &str) -> Self {
        let shown: String = name.chars().take(64).collect();
        Self::new(
            StatusCode::NOT_FOUND,
            format!("There is no peer called {shown}."),
        )
    }

    pub(super) fn conflict(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, detail)
    }

    /// The method is not one of those that the path has.
    pub(super) fn method(allowed: String) -> Self {
        let detail = format!("This path answers {allowed}.");
        Self {
            more: More::Allow(allowed),
            ..Self::new(StatusCode::METHOD_NOT_ALLOWED, detail)
        }
    }

    pub(super) fn busy(detail: impl Into<String>) -> Self {
        Self {
            more: More::RetryAfter,
            ..Self::new(StatusCode::SERVICE_UNAVAILABLE, detail)
        }
    }

    /// A refused change to the peer of this name.
    pub(super) fn of_peer(error: PeerError, name: &str) -> Self {
        match error {
            PeerError::Invalid(errors) => Self::invalid(errors),
            PeerError::Missing => Self::no_peer(name),
            PeerError::NameTaken => Self::conflict("Another peer has this name already."),
            PeerError::Storage(error) => error.into(),
        }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        tracing::warn!(%error, "a call failed at the database");
        match error {
            StoreError::Disk { .. } => {
                Self::new(StatusCode::INSUFFICIENT_STORAGE, error.to_string())
            }
            StoreError::Locked { .. } | StoreError::Closed => Self::busy(error.to_string()),
            _ => Self::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
        }
    }
}

impl From<LaunchError> for Problem {
    fn from(error: LaunchError) -> Self {
        Self::of_launch(error, None)
    }
}

impl Problem {
    /// A refused launch; a target that tests must not go to is the fault of the field that names it in the plan, or of
    /// the one that holds the plan.
    pub(super) fn of_launch(error: LaunchError, holder: Option<&str>) -> Self {
        let detail = error.to_string();
        match error {
            LaunchError::Refused {
                field,
                sentence,
                registrable,
            } => Self {
                more: registrable.map_or(More::Nothing, More::Registrable),
                ..Self::field(holder.unwrap_or(field), sentence)
            },
            LaunchError::Invalid(errors) => Self::invalid(errors),
            LaunchError::QueueFull | LaunchError::TooManyExperiments | LaunchError::Draining => {
                Self::busy(detail)
            }
            LaunchError::DiskFull(_) => Self::new(StatusCode::INSUFFICIENT_STORAGE, detail),
            LaunchError::Storage(_) => Self::new(StatusCode::INTERNAL_SERVER_ERROR, detail),
        }
    }
}

impl From<SelfTestRefused> for Problem {
    fn from(refused: SelfTestRefused) -> Self {
        match refused {
            SelfTestRefused::Busy => Self::conflict(refused.to_string()),
            SelfTestRefused::QueueFull | SelfTestRefused::Draining => {
                Self::busy(refused.to_string())
            }
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut body = Map::new();
        body.insert("type".into(), "about:blank".into());
        let title = self.status.canonical_reason().unwrap_or("Error");
        body.insert("title".into(), title.into());
        body.insert("status".into(), self.status.as_u16().into());
        body.insert("detail".into(), self.detail.into());
        if !self.errors.is_empty() {
            body.insert("errors".into(), json!(self.errors));
        }
        if let More::Registrable(host) = &self.more {
            body.insert("registrable".into(), host.as_str().into());
        }
        let kind = HeaderValue::from_static("application/problem+json");
        let text = Value::Object(body).to_string();
        let mut response = (self.status, [(header::CONTENT_TYPE, kind)], text).into_response();
        let (name, value) = match self.more {
            More::Nothing | More::Registrable(_) => return response,
            More::Allow(methods) => (header::ALLOW, methods),
            More::RetryAfter => (header::RETRY_AFTER, "5".to_owned()),
        };
        if let Ok(value) = HeaderValue::try_from(value) {
            response.headers_mut().insert(name, value);
        }
        response
    }
}
