//! Signing in with a key, where keys are asked for. The cookie holds the key and opens pages only, never the API.

use askama::Template;
use axum::{
    extract::{Request, State},
    http::{HeaderMap, Method, header},
    middleware::Next,
    response::{IntoResponse, Redirect, Response},
};

use super::{Shown, frame::Fields, html};
use crate::{
    access::{Caller, known, presented},
    app::App,
    problem::Problem,
};

const COOKIE: &str = "earmark_key";

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignIn {
    refused: bool,
}

pub(super) async fn show() -> Shown {
    html(&SignIn { refused: false })
}

pub(super) async fn sign_in(State(app): State<App>, fields: Fields) -> Shown {
    let key = fields.text("key").unwrap_or_default();
    if app.keys().find(&key)?.is_none() {
        return html(&SignIn { refused: true });
    }
    Ok(with_cookie(&format!("{COOKIE}={key}; Path=/; HttpOnly; SameSite=Strict"), "/"))
}

pub(super) async fn sign_out() -> Shown {
    Ok(with_cookie(&format!("{COOKIE}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict"), "/ui/sign-in"))
}

fn with_cookie(cookie: &str, to: &str) -> Response {
    ([(header::SET_COOKIE, cookie)], Redirect::to(to)).into_response()
}

/// Puts the [`Caller`] into the request; who needs a key and brings none is sent to the sign-in page.
pub(super) async fn identify(State(app): State<App>, mut request: Request, next: Next) -> Shown {
    match caller(&app, request.headers()) {
        Ok(caller) => {
            tracing::Span::current().record("caller", caller.name());
            request.extensions_mut().insert(caller);
            Ok(next.run(request).await)
        }
        Err(_) if request.method() == Method::GET => Ok(Redirect::to("/ui/sign-in").into_response()),
        Err(problem) => Err(problem),
    }
}

fn caller(app: &App, headers: &HeaderMap) -> Result<Caller, Problem> {
    const NEEDED: &str = "sign in first";
    if let Some(key) = presented(headers) {
        return known(app, Some(key), NEEDED);
    }
    let by_cookie = cookie(headers).map(|key| known(app, Some(key), NEEDED));
    match by_cookie {
        Some(Ok(caller)) => Ok(caller),
        // A key of yesterday's server is as good as none.
        _ => known(app, None, NEEDED),
    }
}

fn cookie(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == COOKIE).map(|(_, value)| value)
}
