//! Streamable HTTP at `/mcp` (the usual namespace) and `/mcp/{namespace}`. There are no sessions: each request brings
//! its key and its namespace, and is answered by itself.

use std::sync::Arc;

use axum::{
    Extension, Router,
    body::Body,
    extract::{Request, State},
    response::{IntoResponse, Response},
    routing::any,
};
use rmcp::transport::streamable_http_server::{
    StreamableHttpServerConfig, StreamableHttpService, session::never::NeverSessionManager,
};
use tower::ServiceExt;

use super::{Place, Tools};
use crate::{access::Caller, app::App, extract::Id, keys::Access, problem::Problem};

type Service = StreamableHttpService<Tools, NeverSessionManager>;

/// The two routes.
pub(crate) fn routes(app: &App) -> Router<App> {
    let tools = Tools { app: app.clone(), place: None };
    // Host and Origin are checked before any route.
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_max_request_body_bytes(app.config().max_body_bytes)
        .disable_allowed_hosts();
    let service: Service =
        StreamableHttpService::new(move || Ok(tools.clone()), Arc::new(NeverSessionManager::default()), config);
    Router::new().route("/mcp", any(usual)).route("/mcp/{namespace}", any(named)).layer(Extension(service))
}

async fn usual(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Extension(service): Extension<Service>,
    request: Request,
) -> Result<Response, Problem> {
    answer(&app, caller, None, service, request).await
}

async fn named(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Extension(service): Extension<Service>,
    Id(namespace): Id,
    request: Request,
) -> Result<Response, Problem> {
    answer(&app, caller, Some(&namespace), service, request).await
}

async fn answer(
    app: &App,
    caller: Caller,
    named: Option<&str>,
    service: Service,
    mut request: Request,
) -> Result<Response, Problem> {
    let namespace = caller.enter(named, Access::Read)?;
    request.extensions_mut().insert(Place { caller, namespace });
    let answered = tokio::time::timeout(2 * app.config().timeout, service.oneshot(request)).await;
    match answered {
        Ok(Ok(response)) => Ok(response.map(Body::new).into_response()),
        Ok(Err(never)) => match never {},
        Err(_) => Err(crate::app::too_slow()),
    }
}
