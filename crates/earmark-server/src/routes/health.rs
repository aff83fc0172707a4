//! `/healthz`, `/readyz`, `/metrics`.

use axum::{Json, extract::State, http::header, response::IntoResponse};
use serde::Serialize;
use utoipa::ToSchema;

use super::{Answer, Problems};
use crate::{app::App, metrics::critic_text};

/// How the server is.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Health {
    status: &'static str,
    version: &'static str,
}

/// Whether the process runs
#[utoipa::path(get, path = "/healthz", tag = "server", operation_id = "health",
    responses((status = 200, body = Health)))]
pub(crate) async fn health() -> Json<Health> {
    Json(Health { status: "ok", version: env!("CARGO_PKG_VERSION") })
}

/// Whether it can answer
///
/// The data folder is there and the encoder is loaded.
#[utoipa::path(get, path = "/readyz", tag = "server", operation_id = "ready",
    responses((status = 200, body = Health), Problems))]
pub(crate) async fn ready(State(app): State<App>) -> Answer<Health> {
    app.run(|earmark| earmark.encoder().and_then(|_| earmark.namespaces())).await?;
    Ok(Json(Health { status: "ready", version: env!("CARGO_PKG_VERSION") }))
}

/// What the server counts
///
/// In Prometheus' text format; nothing in it tells a namespace, a key or a text.
#[utoipa::path(get, path = "/metrics", tag = "server", operation_id = "metrics",
    responses((status = 200, body = String, content_type = "text/plain"), Problems))]
pub(crate) async fn metrics(State(app): State<App>) -> impl IntoResponse {
    let critic = app.critic().map(|critic| critic.counts()).map(|(calls, failures)| critic_text(calls, failures));
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], app.metrics().text() + critic.as_deref().unwrap_or(""))
}
