//! `/v1/memories`: remember, look at, change, forget.

use axum::{Extension, Json, extract::State};
use earmark::{Forget, Memory, Remembered, store::Row};
use serde::Serialize;
use utoipa::ToSchema;

use super::{Answer, Problems};
use crate::{
    access::Caller,
    app::{App, Missing},
    extract::{Body, Id, Params},
    keys::Access,
    problem::Problem,
    requests::{Edit, Remember, Where, Which, one_namespace},
};

/// Memories in one page, unless told otherwise.
const PAGE: usize = 50;
/// Most memories in one page.
const MAX_PAGE: usize = 1000;

/// What became of each memory, in order.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Stored {
    pub(crate) namespace: String,
    pub(crate) memories: Vec<Remembered>,
}

/// A page of memories, oldest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Page {
    memories: Vec<Memory>,
    /// `cursor` of the next page; `null` after the last.
    next: Option<String>,
}

/// How many memories are gone.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Forgotten {
    forgotten: usize,
}

/// Remember
///
/// Stores one text, several, or chat messages, all or none. The same content, author, scopes and time twice is one
/// memory, so that sending again is safe. A namespace that is not there is made.
#[utoipa::path(post, path = "/v1/memories", tag = "memories", operation_id = "remember", params(Where),
    request_body = Remember, responses((status = 200, body = Stored), Problems))]
pub(crate) async fn remember(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Params(place): Params<Where>,
    Body(body): Body<Remember>,
) -> Answer<Stored> {
    let named = one_namespace(&place.namespace, &body.namespace)?.map(str::to_owned);
    Ok(Json(store(&app, &caller, named.as_deref(), body).await?))
}

/// Stores memories, wherever they came in.
pub(crate) async fn store(app: &App, caller: &Caller, named: Option<&str>, body: Remember) -> Result<Stored, Problem> {
    let namespace = caller.enter(named, Access::Write)?;
    let items = body.items()?;
    if app.config().log_content {
        items.iter().for_each(|item| tracing::info!(content = item.content, "remember"));
    }
    let memories = app.with(namespace.clone(), Missing::Create, move |memory| memory.remember(&items)).await?;
    app.metrics().remembered(memories.iter().filter(|one| one.created).count());
    Ok(Stored { namespace, memories })
}

/// List memories
///
/// Oldest first, page by page.
#[utoipa::path(get, path = "/v1/memories", tag = "memories", operation_id = "list_memories", params(Which),
    responses((status = 200, body = Page), Problems))]
pub(crate) async fn list(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Params(which): Params<Which>,
) -> Answer<Page> {
    let namespace = caller.enter(which.namespace.as_deref(), Access::Read)?;
    let limit = which.limit.unwrap_or(PAGE);
    if !(1..=MAX_PAGE).contains(&limit) {
        return Err(Problem::invalid("limit", format!("is {limit}, but must be between 1 and {MAX_PAGE}")));
    }
    let after = which.cursor.as_deref().map(read_cursor).transpose()?;
    let scope = which.scope()?;
    let found = app.with(namespace, Missing::Refuse, move |memory| memory.store().list(&scope, after, limit)).await?;
    let next = (found.len() == limit).then(|| found.last().map(|(row, _)| row.0.to_string())).flatten();
    Ok(Json(Page { memories: found.into_iter().map(|(_, memory)| memory).collect(), next }))
}

fn read_cursor(text: &str) -> Result<Row, Problem> {
    text.parse().map(Row).map_err(|_| Problem::invalid("cursor", "must be the `next` of an earlier page"))
}

/// Forget memories
///
/// Everything in the scope that the query string names, which must restrict something. Gone from text, vectors,
/// words, recalls and experiences.
#[utoipa::path(delete, path = "/v1/memories", tag = "memories", operation_id = "forget_memories", params(Which),
    responses((status = 200, body = Forgotten), Problems))]
pub(crate) async fn forget(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Params(which): Params<Which>,
) -> Answer<Forgotten> {
    let namespace = caller.enter(which.namespace.as_deref(), Access::Write)?;
    if which.limit.is_some() || which.cursor.is_some() {
        return Err(Problem::invalid("limit", "and `cursor` restrict pages, not what is forgotten; leave them out"));
    }
    let what = Forget::Scope(which.scope()?);
    let forgotten = app.with(namespace, Missing::Refuse, move |memory| memory.forget(&what)).await?;
    Ok(Json(Forgotten { forgotten }))
}

/// One memory
#[utoipa::path(get, path = "/v1/memories/{id}", tag = "memories", operation_id = "get_memory",
    params(("id" = String, Path, description = "The memory's id"), Where),
    responses((status = 200, body = Memory), Problems))]
pub(crate) async fn get(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Id(id): Id,
    Params(place): Params<Where>,
) -> Answer<Memory> {
    let namespace = caller.enter(place.namespace.as_deref(), Access::Read)?;
    Ok(Json(app.with(namespace, Missing::Refuse, move |memory| memory.get(&id)).await?))
}

/// Change a memory
///
/// A field that is not there stays; `null` takes author and time away.
#[utoipa::path(patch, path = "/v1/memories/{id}", tag = "memories", operation_id = "change_memory",
    params(("id" = String, Path, description = "The memory's id"), Where),
    request_body = Edit, responses((status = 200, body = Memory), Problems))]
pub(crate) async fn change(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Id(id): Id,
    Params(place): Params<Where>,
    Body(body): Body<Edit>,
) -> Answer<Memory> {
    let namespace = caller.enter(one_namespace(&place.namespace, &body.namespace)?, Access::Write)?;
    let change = body.change()?;
    Ok(Json(app.with(namespace, Missing::Refuse, move |memory| memory.update(&id, &change)).await?))
}

/// Forget one memory
#[utoipa::path(delete, path = "/v1/memories/{id}", tag = "memories", operation_id = "forget_memory",
    params(("id" = String, Path, description = "The memory's id"), Where),
    responses((status = 200, body = Forgotten), Problems))]
pub(crate) async fn forget_one(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Id(id): Id,
    Params(place): Params<Where>,
) -> Answer<Forgotten> {
    let namespace = caller.enter(place.namespace.as_deref(), Access::Write)?;
    let forgotten = app.with(namespace, Missing::Refuse, move |memory| forget_id(memory, id)).await?;
    Ok(Json(Forgotten { forgotten }))
}

/// Forgets one memory, which must be there.
pub(crate) fn forget_id(memory: &earmark::Namespace, id: String) -> earmark::Result<usize> {
    match memory.forget(&Forget::Ids(vec![id.clone()]))? {
        0 => Err(earmark::Error::not_found("memory", id)),
        count => Ok(count),
    }
}
