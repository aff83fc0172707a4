//! Reading requests strictly: what is misspelt, too long or no JSON is refused in words, not passed over.

use axum::{
    body::{Body as HttpBody, Bytes},
    extract::{FromRequest, FromRequestParts, Path, Query, Request},
    http::{HeaderMap, StatusCode, header, request::Parts},
};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::{app::App, problem::Problem};

/// A JSON body.
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<App> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        check_type(request.headers(), &JSON)?;
        let bytes = read(request, app).await?;
        if bytes.is_empty() {
            return Err(Problem::invalid("", "the body is empty; send a JSON object"));
        }
        Ok(Body(from_json(&bytes)?))
    }
}

/// A JSON body that may be left out.
pub(crate) struct OptionalBody<T>(pub(crate) T);

impl<T: DeserializeOwned + Default> FromRequest<App> for OptionalBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let headers = request.headers().clone();
        let bytes = read(request, app).await?;
        if bytes.is_empty() {
            return Ok(OptionalBody(T::default()));
        }
        check_type(&headers, &JSON)?;
        Ok(OptionalBody(from_json(&bytes)?))
    }
}

/// JSON lines, as they are.
pub(crate) struct Lines(pub(crate) Bytes);

impl FromRequest<App> for Lines {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        check_type(request.headers(), &LINES)?;
        Ok(Lines(read(request, app).await?))
    }
}

/// The query string.
pub(crate) struct Params<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let read = Query::try_from_uri(&parts.uri);
        let refused = |e: axum::extract::rejection::QueryRejection| {
            Problem::invalid("", format!("the query string cannot be read: {}", inner(&e)))
        };
        read.map(|Query(value)| Params(value)).map_err(refused)
    }
}

/// A part of the path, or several.
pub(crate) struct Id<T = String>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Id<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let read = Path::<T>::from_request_parts(parts, state).await;
        read.map(|Path(id)| Id(id)).map_err(|e| Problem::invalid("", format!("the path cannot be read: {}", inner(&e))))
    }
}

/// The cause under a rejection, which is what its reader can do something about.
fn inner(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

const JSON: [&str; 1] = ["application/json"];
const LINES: [&str; 5] = [
    "application/json",
    "application/jsonl",
    "application/x-ndjson",
    "application/x-jsonlines",
    "application/octet-stream",
];

/// A form or plain text is what a web page of elsewhere may send unasked; JSON is not.
fn check_type(headers: &HeaderMap, accepted: &[&str]) -> Result<(), Problem> {
    let Some(given) = headers.get(header::CONTENT_TYPE) else { return Ok(()) };
    let given = given.to_str().unwrap_or("");
    let name = given.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
    if accepted.contains(&name.as_str()) || name.ends_with("+json") {
        return Ok(());
    }
    let detail = format!("send `content-type: {}`", accepted[accepted.len().min(3) - 1]);
    Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", detail))
}

/// The body, within the limits of size and time.
pub(crate) async fn read(request: Request, app: &App) -> Result<Bytes, Problem> {
    let config = app.config();
    let too_large = || {
        let detail = format!("the body has more than {} bytes; send it in parts", config.max_body_bytes);
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail)
    };
    let declared = request.headers().get(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse::<u64>().ok());
    if declared.is_some_and(|length| length > config.max_body_bytes as u64) {
        return Err(too_large());
    }
    let body: Limited<HttpBody> = Limited::new(request.into_body(), config.max_body_bytes);
    match timeout(config.timeout, body.collect()).await {
        Err(_) => Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "timeout", "the body came too slowly")),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(Problem::invalid("", "the body broke off")),
        Ok(Ok(body)) => Ok(body.to_bytes()),
    }
}

/// Reads JSON and names the field that does not fit.
pub(crate) fn from_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    // A list would be read as the fields in their order.
    if bytes.trim_ascii_start().first() == Some(&b'[') {
        return Err(Problem::invalid("", "the body is a list; send a JSON object"));
    }
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|e| misfit(&e))?;
    reader.end().map_err(|e| Problem::invalid("", format!("the body is not one JSON value: {e}")))?;
    Ok(value)
}

pub(crate) fn misfit(error: &serde_path_to_error::Error<serde_json::Error>) -> Problem {
    let (path, reason) = (error.path().to_string(), error.inner());
    if reason.is_data() {
        let reason = reason.to_string();
        // The field says better where it is than line and column do.
        let reason = reason.rsplit_once(" at line ").map_or(&*reason, |(reason, _)| reason);
        let field = if path == "." { String::new() } else { path };
        let reason = match field.as_str() {
            "" => format!("the arguments cannot be used: {reason}"),
            _ => format!("cannot be used: {reason}"),
        };
        return Problem::invalid(field, reason);
    }
    Problem::invalid("", format!("the body is not JSON: {reason}"))
}
