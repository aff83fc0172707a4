//! `/v1/namespaces`: list, look at, make, remove.

use axum::{Extension, Json, extract::State};
use earmark::{Error, Overview};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Answer, Problems};
use crate::{
    access::Caller,
    app::{App, Missing},
    extract::{Body, Id},
    keys::Access,
};

/// Names of namespaces, sorted.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Namespaces {
    namespaces: Vec<String>,
}

/// A namespace to make.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewNamespace {
    /// 1 to 128 bytes.
    name: String,
}

/// The namespace that is gone.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Removed {
    removed: String,
}

/// List namespaces
///
/// Those that the key opens.
#[utoipa::path(get, path = "/v1/namespaces", tag = "namespaces", operation_id = "list_namespaces",
    responses((status = 200, body = Namespaces), Problems))]
pub(crate) async fn list(State(app): State<App>, Extension(caller): Extension<Caller>) -> Answer<Namespaces> {
    let mut namespaces = app.run(|earmark| earmark.namespaces()).await?;
    namespaces.retain(|name| caller.sees(name));
    Ok(Json(Namespaces { namespaces }))
}

/// Make a namespace
///
/// One that is there already is left as it is.
#[utoipa::path(post, path = "/v1/namespaces", tag = "namespaces", operation_id = "make_namespace",
    request_body = NewNamespace, responses((status = 200, body = Overview), Problems))]
pub(crate) async fn make(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Body(body): Body<NewNamespace>,
) -> Answer<Overview> {
    let namespace = caller.enter(Some(&body.name), Access::Admin)?;
    Ok(Json(app.with(namespace, Missing::Create, |memory| memory.overview()).await?))
}

/// A namespace in numbers
#[utoipa::path(get, path = "/v1/namespaces/{name}", tag = "namespaces", operation_id = "get_namespace",
    params(("name" = String, Path, description = "The namespace")),
    responses((status = 200, body = Overview), Problems))]
pub(crate) async fn get(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Id(name): Id,
) -> Answer<Overview> {
    let namespace = caller.enter(Some(&name), Access::Read)?;
    Ok(Json(app.with(namespace, Missing::Refuse, |memory| memory.overview()).await?))
}

/// Remove a namespace
///
/// With everything in it.
#[utoipa::path(delete, path = "/v1/namespaces/{name}", tag = "namespaces", operation_id = "remove_namespace",
    params(("name" = String, Path, description = "The namespace")),
    responses((status = 200, body = Removed), Problems))]
pub(crate) async fn remove(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Id(name): Id,
) -> Answer<Removed> {
    let removed = caller.enter(Some(&name), Access::Admin)?;
    app.run(move |earmark| match earmark.remove_namespace(&name)? {
        true => Ok(()),
        false => Err(Error::not_found("namespace", name)),
    })
    .await?;
    Ok(Json(Removed { removed }))
}
