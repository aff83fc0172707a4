//! The routes of mem0's server, under `/memories` and `/search`, and of its hosted API, which its clients call, so that
//! both kinds of programs can be pointed here.
//!
//! mem0 knows no namespaces: they come from the key (or the query string).

mod batch;
mod bodies;
mod entities;
mod feedback;

use axum::{
    Extension, Json, Router,
    extract::State,
    routing::{delete, get, post, put},
};
use earmark::{Change, Forget, Memory, RecallRequest, Scope};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};

use super::{Answer, Problems, memories::forget_id};
use crate::{
    access::Caller,
    app::{App, Missing},
    extract::{Body, Id, Params},
    keys::Access,
    problem::Problem,
    requests::{Where, Which},
};
use bodies::{Add, Edit, List, Search, owner_filter};

/// Memories of a list, unless told otherwise.
const LIMIT: usize = 100;
/// Most memories of a list.
const MAX_LIMIT: usize = 1000;

/// The paths of mem0's clients, old and new, in front of the same handlers.
pub(crate) fn clients() -> Router<App> {
    let one = || get(self::get_one).put(change).delete(forget_one);
    Router::new()
        .route("/v1/ping/", get(ping))
        .route("/v3/memories/add/", post(add))
        .route("/v3/memories/search/", post(search))
        .route("/v2/memories/search/", post(search))
        .route("/v1/memories/search/", post(search))
        .route("/v3/memories/", post(page))
        .route("/v2/memories/", post(page))
        .route("/v1/memories/", delete(forget).post(add).get(list))
        .route("/v1/memories/{id}/", one())
        .route("/v1/memories/{id}/history/", get(history))
        .route("/v1/batch/", put(batch::update).delete(batch::delete))
        .route("/v1/entities/", get(entities::list))
        .route("/v2/entities/{kind}/{name}/", delete(entities::delete))
        .route("/v1/feedback/", post(feedback::give))
}

/// mem0's list.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Results {
    #[schema(value_type = Vec<Object>)]
    results: Vec<Value>,
}

/// mem0's word for a thing done.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Done {
    message: &'static str,
}

/// What mem0's clients ask when they are made; they do not start without an organisation and a project. A wrong key was
/// refused before.
async fn ping(Extension(caller): Extension<Caller>, Params(place): Params<Where>) -> Answer<Value> {
    let namespace = caller.enter(place.namespace.as_deref(), Access::Read)?;
    Ok(Json(json!({ "status": "ok", "org_id": "earmark", "project_id": namespace, "user_email": null })))
}

/// mem0: add memories
#[utoipa::path(post, path = "/memories", tag = "mem0", operation_id = "mem0_add", params(Where),
    request_body = Add, responses((status = 200, body = Results), Problems))]
pub(crate) async fn add(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Params(place): Params<Where>,
    Body(body): Body<Add>,
) -> Answer<Results> {
    let namespace = caller.enter(place.namespace.as_deref(), Access::Write)?;
    let items = body.items()?;
    let texts: Vec<String> = items.iter().map(|item| item.content.clone()).collect();
    let stored = app.with(namespace, Missing::Create, move |memory| memory.remember(&items)).await?;
    app.metrics().remembered(stored.iter().filter(|one| one.created).count());
    let event = |created: bool| if created { "ADD" } else { "NONE" };
    let result = |(one, text): (&earmark::Remembered, &String)| json!({ "id": one.id, "memory": text, "event": event(one.created) });
    Ok(Json(Results { results: stored.iter().zip(&texts).map(result).collect() }))
}

/// mem0: list memories
#[utoipa::path(get, path = "/memories", tag = "mem0", operation_id = "mem0_list", params(Which),
    responses((status = 200, body = Results), Problems))]
pub(crate) async fn list(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Params(which): Params<Which>,
) -> Answer<Results> {
    let namespace = caller.enter(which.namespace.as_deref(), Access::Read)?;
    let scope = which.scope()?;
    let limit = which.limit.unwrap_or(LIMIT).min(MAX_LIMIT);
    let found = app.with(namespace, Missing::Create, move |memory| memory.list(&scope, limit)).await?;
    Ok(Json(Results { results: found.iter().map(as_mem0).collect() }))
}

/// Which page, from 1.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Pages {
    namespace: Option<String>,
    page: Option<usize>,
    page_size: Option<usize>,
}

/// A page of the memories that a filter accepts, oldest first.
async fn page(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Params(pages): Params<Pages>,
    Body(body): Body<List>,
) -> Answer<Value> {
    let namespace = caller.enter(pages.namespace.as_deref(), Access::Read)?;
    let (page, size) = (pages.page.unwrap_or(1), pages.page_size.unwrap_or(LIMIT));
    if page == 0 || !(1..=MAX_LIMIT).contains(&size) {
        return Err(Problem::invalid("page", format!("is counted from 1, and `page_size` goes to {MAX_LIMIT}")));
    }
    let scope = body.scope()?;
    let look = move |memory: &earmark::Namespace| {
        let found = memory.list(&scope, page.saturating_mul(size))?;
        Ok((memory.count(&scope)?, found))
    };
    let (count, found) = app.with(namespace, Missing::Create, look).await?;
    let place = |page: usize| format!("/v3/memories/?page={page}&page_size={size}");
    let before = (page - 1).saturating_mul(size);
    let results: Vec<Value> = found.iter().skip(before).map(as_mem0).collect();
    let next = (before + results.len() < count && !results.is_empty()).then(|| place(page + 1));
    Ok(Json(json!({
        "count": count,
        "next": next,
        "previous": (page > 1).then(|| place(page - 1)),
        "results": results,
    })))
}

/// mem0: search
///
/// Best first. `score` is the similarity in meaning, as mem0's is; the order also knows words and feedback. `recall_id`
/// is what feedback can be given to.
#[utoipa::path(post, path = "/search", tag = "mem0", operation_id = "mem0_search", params(Where),
    request_body = Search, responses((status = 200, body = Results), Problems))]
pub(crate) async fn search(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Params(place): Params<Where>,
    Body(body): Body<Search>,
) -> Answer<Results> {
    let namespace = caller.enter(place.namespace.as_deref(), Access::Read)?;
    let (scope, least) = (body.scope()?, body.threshold.unwrap_or(0.0));
    let request = RecallRequest { top_k: body.limit, scope, ..RecallRequest::new(body.query) };
    let recall = app.with(namespace, Missing::Create, move |memory| memory.recall(&request)).await?;
    app.metrics().recalled();
    let result = |found: &earmark::Recalled| {
        let score = found.scores.dense.clamp(0.0, 1.0);
        let mut value = as_mem0(&found.memory);
        value["score"] = json!(score);
        value["recall_id"] = json!(recall.recall_id);
        (score >= least).then_some(value)
    };
    Ok(Json(Results { results: recall.results.iter().filter_map(result).collect() }))
}

/// mem0: one memory
#[utoipa::path(get, path = "/memories/{id}", tag = "mem0", operation_id = "mem0_get",
    params(("id" = String, Path, description = "The memory's id"), Where),
    responses((status = 200, body = Object), Problems))]
pub(crate) async fn get_one(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Id(id): Id,
    Params(place): Params<Where>,
) -> Answer<Value> {
    Ok(Json(as_mem0(&look_up(&app, &caller, place, id).await?)))
}

async fn look_up(app: &App, caller: &Caller, place: Where, id: String) -> Result<Memory, Problem> {
    let namespace = caller.enter(place.namespace.as_deref(), Access::Read)?;
    app.with(namespace, Missing::Refuse, move |memory| memory.get(&id)).await
}

/// mem0: change a memory
#[utoipa::path(put, path = "/memories/{id}", tag = "mem0", operation_id = "mem0_update",
    params(("id" = String, Path, description = "The memory's id"), Where),
    request_body = Edit, responses((status = 200, body = Object), Problems))]
pub(crate) async fn change(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Id(id): Id,
    Params(place): Params<Where>,
    Body(body): Body<Edit>,
) -> Answer<Value> {
    let namespace = caller.enter(place.namespace.as_deref(), Access::Write)?;
    let change: Change = body.change()?;
    let changed = app.with(namespace, Missing::Refuse, move |memory| memory.update(&id, &change)).await?;
    Ok(Json(as_mem0(&changed)))
}

/// mem0: the history of a memory
///
/// What it says now, as one entry: what a memory said before it was changed is not kept.
#[utoipa::path(get, path = "/memories/{id}/history", tag = "mem0", operation_id = "mem0_history",
    params(("id" = String, Path, description = "The memory's id"), Where),
    responses((status = 200, body = Vec<Object>), Problems))]
pub(crate) async fn history(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Id(id): Id,
    Params(place): Params<Where>,
) -> Answer<Vec<Value>> {
    let memory = look_up(&app, &caller, place, id).await?;
    Ok(Json(vec![json!({
        "id": memory.id,
        "memory_id": memory.id,
        "old_memory": null,
        "new_memory": memory.content,
        "event": "ADD",
        "user_id": memory.user_id,
        "metadata": memory.metadata,
        "created_at": memory.created_at,
        "updated_at": memory.created_at,
    })]))
}

/// mem0: delete a memory
#[utoipa::path(delete, path = "/memories/{id}", tag = "mem0", operation_id = "mem0_delete",
    params(("id" = String, Path, description = "The memory's id"), Where),
    responses((status = 200, body = Done), Problems))]
pub(crate) async fn forget_one(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Id(id): Id,
    Params(place): Params<WhichOne>,
) -> Answer<Done> {
    let namespace = caller.enter(place.namespace.as_deref(), Access::Write)?;
    app.with(namespace, Missing::Refuse, move |memory| forget_id(memory, id)).await?;
    Ok(Json(Done { message: "Memory deleted successfully!" }))
}

/// Names the namespace; nothing is linked here, so `delete_linked` changes nothing.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct WhichOne {
    namespace: Option<String>,
    delete_linked: Option<String>,
}

/// Whose memories.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Whose {
    /// The namespace; `default` if not given.
    namespace: Option<String>,
    /// Of this user.
    user_id: Option<String>,
    /// Of this agent.
    agent_id: Option<String>,
    /// Of this application.
    app_id: Option<String>,
    /// Of this conversation.
    run_id: Option<String>,
}

/// mem0: delete memories
///
/// All of a user, agent, application or conversation, of which at least one is named.
#[utoipa::path(delete, path = "/memories", tag = "mem0", operation_id = "mem0_delete_all", params(Whose),
    responses((status = 200, body = Done), Problems))]
pub(crate) async fn forget(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Params(whose): Params<Whose>,
) -> Answer<Done> {
    let namespace = caller.enter(whose.namespace.as_deref(), Access::Write)?;
    let filter = owner_filter(&whose.user_id, &whose.agent_id, &whose.app_id, &whose.run_id)?;
    let what = Forget::Scope(Scope { filter, ..Default::default() });
    app.with(namespace, Missing::Create, move |memory| memory.forget(&what)).await?;
    Ok(Json(Done { message: "Memories deleted successfully!" }))
}

fn as_mem0(memory: &Memory) -> Value {
    json!({
        "id": memory.id,
        "memory": memory.content,
        "user_id": memory.user_id,
        "agent_id": memory.agent_id,
        "app_id": memory.metadata.get(bodies::APP),
        "run_id": memory.session_id,
        "actor_id": memory.author,
        "metadata": memory.metadata,
        "categories": memory.tags,
        "created_at": memory.created_at,
        "updated_at": memory.created_at,
    })
}
