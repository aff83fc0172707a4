//! All routes and what stands before them. The router is a value: tests call it without a socket.

use std::any::Any;

use axum::response::IntoResponse;
use axum::{Router, http::StatusCode, middleware::from_fn_with_state, response::Response};
use tower_http::catch_panic::CatchPanicLayer;
use utoipa::{
    Modify, OpenApi,
    openapi::{
        OpenApi as Document,
        security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme},
    },
};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    access::identify,
    app::App,
    guard::refuse_foreign,
    mcp,
    observe::observe,
    page,
    problem::Problem,
    routes::{docs, health, learning, mem0, memories, namespaces, recalls, transfer},
};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Earmark",
        description = "A long-term memory for LLM agents whose recall learns from feedback. Every route takes the \
                       namespace as the query parameter `namespace`, or in the JSON body; a route without one works \
                       on `default` (or on the only namespace of the key). Errors are application/problem+json.",
        license(name = "Apache-2.0 OR MIT")
    ),
    modifiers(&Keys)
)]
struct Api;

/// Keys are asked for where the server listens beyond loopback.
struct Keys;

impl Modify for Keys {
    fn modify(&self, document: &mut Document) {
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("key", SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer)));
        let none = SecurityRequirement::default();
        document.security = Some(vec![none, SecurityRequirement::new::<_, [String; 0], String>("key", [])]);
    }
}

/// The routes with their OpenAPI document.
fn api() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(Api::openapi())
        .routes(routes!(memories::remember, memories::list, memories::forget))
        .routes(routes!(memories::get, memories::change, memories::forget_one))
        .routes(routes!(recalls::recall))
        .routes(routes!(recalls::list))
        .routes(routes!(recalls::get))
        .routes(routes!(recalls::feedback))
        .routes(routes!(recalls::refine))
        .routes(routes!(recalls::explain))
        .routes(routes!(learning::status))
        .routes(routes!(learning::freeze))
        .routes(routes!(learning::unfreeze))
        .routes(routes!(learning::rollback))
        .routes(routes!(learning::reset))
        .routes(routes!(learning::train))
        .routes(routes!(namespaces::list, namespaces::make))
        .routes(routes!(namespaces::get, namespaces::remove))
        .routes(routes!(transfer::import))
        .routes(routes!(transfer::export))
        .routes(routes!(mem0::add, mem0::list, mem0::forget))
        .routes(routes!(mem0::search))
        .routes(routes!(mem0::get_one, mem0::change, mem0::forget_one))
        .routes(routes!(mem0::history))
        .routes(routes!(health::health))
        .routes(routes!(health::ready))
        .routes(routes!(health::metrics))
}

/// The OpenAPI 3.1 document.
pub fn document() -> Document {
    api().into_openapi()
}

/// Everything the server answers.
pub fn router(app: &App) -> Router {
    let (routes, document) = api().split_for_parts();
    Router::new()
        .merge(routes)
        .merge(mem0::clients())
        .merge(mcp::http::routes(app))
        .with_state(app.clone())
        .merge(docs::routes(&document))
        .fallback(nothing_here)
        .method_not_allowed_fallback(not_so)
        .layer(from_fn_with_state(app.clone(), identify))
        .merge(page::routes(app))
        .layer(from_fn_with_state(app.clone(), refuse_foreign))
        .layer(CatchPanicLayer::custom(broke))
        .layer(from_fn_with_state(app.clone(), observe))
}

pub(crate) async fn nothing_here() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "not_found", "there is nothing at this path; GET /docs lists what there is")
}

pub(crate) async fn not_so() -> Problem {
    let detail = "this path does not take that method; GET /docs lists what it takes";
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail)
}

pub(crate) fn broke(panic: Box<dyn Any + Send + 'static>) -> Response {
    let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    tracing::error!(panic = text.unwrap_or("no text"), "a handler broke off");
    let detail = "the call broke off; the server's log says why";
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail).into_response()
}
