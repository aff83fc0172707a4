//! A request id, a log line and a count for every request. Neither bodies nor query strings are logged.

use std::time::Instant;

use axum::{
    extract::{MatchedPath, Request, State},
    http::{HeaderName, HeaderValue},
    middleware::Next,
    response::Response,
};
use tracing::{Instrument, field, info, info_span};

use crate::{app::App, metrics::Metrics};

static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Names the request, times it, logs it.
pub(crate) async fn observe(State(app): State<App>, request: Request, next: Next) -> Response {
    let started = Instant::now();
    let id = request_id(&request);
    let method = request.method().to_string();
    // Paths hold ids and names; the log and the counts take the template.
    let route = request.extensions().get::<MatchedPath>().map_or("(none)".to_owned(), |path| path.as_str().to_owned());
    let span = info_span!("request", id = id.to_str().unwrap_or(""), method, route, caller = field::Empty);
    let under_way = UnderWay::begin(app.metrics());
    let mut response = next.run(request).instrument(span.clone()).await;
    drop(under_way);
    let took = started.elapsed();
    let status = response.status().as_u16();
    app.metrics().answered(&method, &route, status, took);
    span.in_scope(|| info!(status, took_ms = took.as_secs_f64() * 1e3, "answered"));
    response.headers_mut().insert(REQUEST_ID.clone(), id);
    response
}

/// Counts down also when the client leaves before the answer.
struct UnderWay<'a>(&'a Metrics);

impl<'a> UnderWay<'a> {
    fn begin(metrics: &'a Metrics) -> Self {
        metrics.in_flight(true);
        UnderWay(metrics)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.in_flight(false);
    }
}

/// The client's id where it is a plain short word, else a new one.
fn request_id(request: &Request) -> HeaderValue {
    let plain = |value: &&HeaderValue| {
        let bytes = value.as_bytes();
        (1..=64).contains(&bytes.len()) && bytes.iter().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b))
    };
    let given = request.headers().get(&REQUEST_ID).filter(plain).cloned();
    let new = || HeaderValue::from_str(&uuid::Uuid::now_v7().simple().to_string());
    given.unwrap_or_else(|| new().unwrap_or(HeaderValue::from_static("none")))
}
