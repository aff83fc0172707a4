//! What is answered instead of a result, and the one mapping from the library's errors to it.

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use earmark::{Error, ErrorKind};
use serde::Serialize;
use utoipa::ToSchema;

/// An error as `application/problem+json` (RFC 9457).
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Problem {
    /// Always `about:blank`: the status and `code` say what kind it is.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// The status in words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// For programs: `invalid`, `unauthorized`, `forbidden`, `not_found`, `conflict`, `too_large`, `busy`, `timeout`,
    /// `upstream`, `storage` and the like.
    pub code: &'static str,
    /// What is wrong and what to do.
    pub detail: String,
    /// The argument that cannot be used, as the caller spells it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
}

impl Problem {
    /// A problem of this status.
    pub fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Problem {
        let title = status.canonical_reason().unwrap_or("Error").to_owned();
        Problem { kind: "about:blank", title, status: status.as_u16(), code, detail: detail.into(), field: None }
    }

    /// The caller's argument `field` cannot be used (400).
    pub fn invalid(field: impl Into<String>, reason: impl std::fmt::Display) -> Problem {
        let field = field.into();
        let detail = if field.is_empty() { reason.to_string() } else { format!("`{field}` {reason}") };
        Problem {
            field: (!field.is_empty()).then_some(field),
            ..Problem::new(StatusCode::BAD_REQUEST, "invalid", detail)
        }
    }

    /// The caller may not do this (403).
    pub fn forbidden(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::FORBIDDEN, "forbidden", detail)
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Problem {
        let detail = error.to_string();
        match (error.kind(), error) {
            (_, Error::InvalidInput { field, reason }) if field == "filter" => Problem::invalid("filters", reason),
            (_, Error::InvalidInput { field, reason }) => Problem::invalid(field, reason),
            (_, Error::InvalidFilter { .. }) => Problem {
                field: Some("filters".to_owned()),
                ..Problem::new(StatusCode::BAD_REQUEST, "invalid", detail)
            },
            (ErrorKind::NotFound, _) => Problem::new(StatusCode::NOT_FOUND, "not_found", detail),
            (ErrorKind::Conflict, _) => Problem::new(StatusCode::CONFLICT, "conflict", detail),
            (ErrorKind::Upstream, error) => upstream(&error),
            (_, error) => storage(&error),
        }
    }
}

/// Addresses of endpoints stay in the log.
fn upstream(error: &Error) -> Problem {
    tracing::error!(%error, "an encoder or endpoint failed");
    let detail = match error {
        Error::Remote { reason, .. } => format!("an endpoint that the server uses failed: {reason}"),
        other => other.to_string(),
    };
    Problem::new(StatusCode::BAD_GATEWAY, "upstream", detail)
}

/// Paths stay in the log.
fn storage(error: &Error) -> Problem {
    tracing::error!(%error, "storage failed");
    let detail = "the storage failed; the server's log says why, under this answer's x-request-id";
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "storage", detail)
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
