//! The page: what was recalled, why, and whether it is getting better, in a browser.
//!
//! HTML made here, htmx for parts of it, no script or style inside of it, and everything works without scripts too.
//! Nothing changes by `GET`; what changes something has to come from the page itself.

mod ask;
mod assets;
mod frame;
mod learning;
mod memories;
mod overview;
mod recalls;
mod settings;
mod sign_in;

use askama::Template;
use axum::{
    Router,
    body::Body,
    extract::Request,
    http::{HeaderName, HeaderValue, Method, StatusCode, header},
    middleware::{Next, from_fn, from_fn_with_state},
    response::{Html, IntoResponse, Redirect, Response},
    routing::{get, post},
};
use http_body_util::BodyExt;
use serde_json::Value;

use crate::{app::App, problem::Problem};

/// An answer of a page's handler; a problem becomes HTML on its way out.
type Shown = Result<Response, Problem>;

/// What a page may load and do. There is no inline script or style to allow.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
    form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Everything under `/` and `/ui`.
pub(crate) fn routes(app: &App) -> Router {
    let pages = Router::new()
        .route("/", get(overview::show))
        .route("/ui/curve", get(overview::curve))
        .route("/ui/ask", get(ask::show).post(ask::ask))
        .route("/ui/recalls", get(recalls::list))
        .route("/ui/recalls/{id}", get(recalls::show))
        .route("/ui/recalls/{id}/feedback", post(ask::feedback))
        .route("/ui/recalls/{id}/refine", post(ask::refine))
        .route("/ui/memories", get(memories::list).post(memories::remember))
        .route("/ui/memories/{id}", get(memories::show).post(memories::change))
        .route("/ui/memories/{id}/forget", post(memories::forget))
        .route("/ui/learning", get(learning::show))
        .route("/ui/learning/{verb}", post(learning::steer))
        .route("/ui/settings", get(settings::show))
        .route("/ui/keys/{id}/revoke", post(settings::revoke))
        .layer(from_fn_with_state(app.clone(), sign_in::identify));
    Router::new()
        .route("/ui/sign-in", get(sign_in::show).post(sign_in::sign_in))
        .route("/ui/sign-out", post(sign_in::sign_out))
        .route("/ui/static/{file}", get(assets::file))
        .merge(pages)
        .with_state(app.clone())
        .layer(from_fn(only_from_here))
        .layer(from_fn(dress))
}

/// What changes something has to be sent by this page: a browser says so, in one header or the other. That an
/// `Origin` is this server's is checked for every route.
async fn only_from_here(request: Request, next: Next) -> Shown {
    let headers = request.headers();
    let site = headers.get("sec-fetch-site").map(|site| site == "same-origin");
    let from_here = site.unwrap_or(headers.contains_key(header::ORIGIN));
    if [Method::GET, Method::HEAD].contains(request.method()) || from_here {
        return Ok(next.run(request).await);
    }
    Err(Problem::forbidden("this has to be sent by the page itself; programs use the API under /v1"))
}

/// Whether htmx asks, which takes parts of a page.
fn wants_part(headers: &axum::http::HeaderMap) -> bool {
    headers.contains_key("hx-request")
}

/// Gives every answer its headers, and turns a problem into HTML.
async fn dress(request: Request, next: Next) -> Response {
    let part = wants_part(request.headers());
    let mut response = next.run(request).await;
    if response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == "application/problem+json") {
        response = as_html(response, part).await;
    }
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

#[derive(Template)]
#[template(path = "problem.html")]
struct ProblemPage {
    title: String,
    detail: String,
    whole: bool,
}

async fn as_html(response: Response, part: bool) -> Response {
    let status = response.status();
    let bytes = response.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let problem: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let text = |key: &str| problem[key].as_str().unwrap_or_default().to_owned();
    let page = ProblemPage { title: text("title"), detail: text("detail"), whole: !part };
    let html = page.render().map(Body::from).unwrap_or_default();
    (status, [(header::CONTENT_TYPE, "text/html; charset=utf-8")], html).into_response()
}

/// A template as an answer.
fn html(template: &impl Template) -> Shown {
    Ok(Html(text(template)?).into_response())
}

/// A template as text.
fn text(template: &impl Template) -> Result<String, Problem> {
    template.render().map_err(|error| {
        tracing::error!(%error, "a page could not be made");
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the page could not be made")
    })
}

/// After a change: the page that shows it.
fn go(to: &str) -> Shown {
    Ok(Redirect::to(to).into_response())
}
