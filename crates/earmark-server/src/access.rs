//! Who calls, and what they may reach.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    http::{HeaderMap, StatusCode, header},
    middleware::Next,
    response::Response,
};

use crate::{
    app::App,
    keys::{Access, Key},
    problem::Problem,
};

/// Who calls.
#[derive(Debug, Clone)]
pub enum Caller {
    /// Somebody on this machine, where no key is asked for.
    Local,
    /// The holder of a key.
    Holder(Arc<Key>),
}

impl Caller {
    /// The namespace meant by `named`, if the caller may do what needs `access` there.
    ///
    /// # Errors
    /// 403, in the same words whether or not there is such a namespace.
    pub fn enter(&self, named: Option<&str>, access: Access) -> Result<String, Problem> {
        let Caller::Holder(key) = self else { return Ok(named.unwrap_or("default").to_owned()) };
        let namespace = named.unwrap_or_else(|| key.usual_namespace());
        if !key.opens(namespace) {
            return Err(Problem::forbidden("this key does not open that namespace"));
        }
        if key.access < access {
            return Err(Problem::forbidden(format!("this key may not do that; it takes `{}` access", word(access))));
        }
        Ok(namespace.to_owned())
    }

    /// Whether the caller may know of the namespace.
    pub fn sees(&self, namespace: &str) -> bool {
        match self {
            Caller::Local => true,
            Caller::Holder(key) => key.opens(namespace),
        }
    }

    /// For the log.
    pub(crate) fn name(&self) -> &str {
        match self {
            Caller::Local => "local",
            Caller::Holder(key) => &key.id,
        }
    }
}

/// A level as it is written.
pub(crate) fn word(access: Access) -> &'static str {
    match access {
        Access::Read => "read",
        Access::Write => "write",
        Access::Admin => "admin",
    }
}

/// Paths that tell nothing and need no key.
const OPEN: [&str; 4] = ["/healthz", "/readyz", "/openapi.json", "/docs"];

/// Puts the [`Caller`] into the request, or refuses it.
pub(crate) async fn identify(State(app): State<App>, mut request: Request, next: Next) -> Result<Response, Problem> {
    if OPEN.contains(&request.uri().path()) {
        return Ok(next.run(request).await);
    }
    let caller = caller(&app, request.headers())?;
    tracing::Span::current().record("caller", caller.name());
    request.extensions_mut().insert(caller);
    Ok(next.run(request).await)
}

fn caller(app: &App, headers: &HeaderMap) -> Result<Caller, Problem> {
    known(app, presented(headers), "a key is needed: send `Authorization: Bearer KEY`")
}

/// Who presents this key; `needed` is said where there has to be one.
pub(crate) fn known(app: &App, key: Option<&str>, needed: &str) -> Result<Caller, Problem> {
    match key {
        None if app.config().needs_key() => Err(unauthorized(needed)),
        None => Ok(Caller::Local),
        Some(text) => {
            let found = app.keys().find(text)?;
            found.map(Caller::Holder).ok_or_else(|| unauthorized("this key is not known, or was revoked"))
        }
    }
}

/// As [`identify`] where `Authorization` is somebody else's: the key is in `x-earmark-key`.
pub(crate) async fn identify_beside(
    State(app): State<App>,
    mut request: Request,
    next: Next,
) -> Result<Response, Problem> {
    if OPEN.contains(&request.uri().path()) {
        return Ok(next.run(request).await);
    }
    let key = request.headers().get("x-earmark-key").map(|value| value.to_str().unwrap_or(""));
    let caller = known(&app, key, "a key is needed: send it as `x-earmark-key`")?;
    tracing::Span::current().record("caller", caller.name());
    request.extensions_mut().insert(caller);
    Ok(next.run(request).await)
}

/// The key in `Authorization: Bearer` (or `Token`, as mem0's clients say), or in `x-api-key`.
pub(crate) fn presented(headers: &HeaderMap) -> Option<&str> {
    if let Some(value) = headers.get(header::AUTHORIZATION) {
        // What cannot be read is a wrong key, not none.
        let value = value.to_str().unwrap_or("");
        let key = value
            .split_once(' ')
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer") || scheme.eq_ignore_ascii_case("token"));
        return Some(key.map_or("", |(_, key)| key.trim()));
    }
    headers.get("x-api-key").map(|value| value.to_str().unwrap_or(""))
}

fn unauthorized(detail: &str) -> Problem {
    Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail)
}
