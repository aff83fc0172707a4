//! The HTTP routes: read the request, call the library, answer. No logic of their own.

pub(crate) mod docs;
pub(crate) mod health;
pub(crate) mod learning;
pub(crate) mod mem0;
pub(crate) mod memories;
pub(crate) mod namespaces;
pub(crate) mod recalls;
pub(crate) mod transfer;

use crate::problem::Problem;

/// The answer of a handler.
pub(crate) type Answer<T> = Result<axum::Json<T>, Problem>;

/// What a handler can answer instead, for the OpenAPI document.
#[derive(utoipa::IntoResponses)]
#[allow(dead_code)]
pub(crate) enum Problems {
    /// The request cannot be used as it is; `field` names the part.
    #[response(status = 400, content_type = "application/problem+json")]
    Invalid(#[to_schema] Problem),
    /// A key is needed, or this one is not known.
    #[response(status = 401, content_type = "application/problem+json")]
    Unauthorized(#[to_schema] Problem),
    /// This key may not do that, or the request comes from another site.
    #[response(status = 403, content_type = "application/problem+json")]
    Forbidden(#[to_schema] Problem),
    /// There is no such thing in this namespace.
    #[response(status = 404, content_type = "application/problem+json")]
    NotFound(#[to_schema] Problem),
    /// It contradicts what is stored.
    #[response(status = 409, content_type = "application/problem+json")]
    Conflict(#[to_schema] Problem),
    /// The body is too large.
    #[response(status = 413, content_type = "application/problem+json")]
    TooLarge(#[to_schema] Problem),
    /// The body is not of a type that is read here.
    #[response(status = 415, content_type = "application/problem+json")]
    Unreadable(#[to_schema] Problem),
    /// An encoder or an endpoint failed.
    #[response(status = 502, content_type = "application/problem+json")]
    Upstream(#[to_schema] Problem),
    /// Too much is going on.
    #[response(status = 503, content_type = "application/problem+json")]
    Busy(#[to_schema] Problem),
}
