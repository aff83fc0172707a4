//! `/memories` and `/search` in the shapes of mem0's server, so that its clients can be pointed here.
//!
//! What steers mem0's language model (`infer`, `prompt` and so on) has no meaning here and is passed over.

use axum::{Extension, Json, extract::State};
use earmark::{Error, Memory, NewMemory, RecallRequest, messages};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::{Answer, Problems, memories::forget_id};
use crate::{
    access::Caller,
    app::{App, Missing},
    extract::{Body, Id, Params},
    keys::Access,
    requests::{Owner, Where, Which},
};

/// Memories of a list, unless told otherwise.
const LIMIT: usize = 100;

/// mem0's `add`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "some fields are known only to be passed over")]
pub(crate) struct Add {
    /// Chat messages, or one text.
    #[schema(value_type = Object)]
    messages: Value,
    user_id: Option<String>,
    agent_id: Option<String>,
    run_id: Option<String>,
    #[schema(value_type = Option<Object>)]
    metadata: Option<earmark::Metadata>,
    /// Passed over: nothing is inferred, texts are kept as they are.
    #[schema(value_type = Option<bool>)]
    infer: Option<Value>,
    /// Passed over.
    #[schema(value_type = Option<String>)]
    memory_type: Option<Value>,
    /// Passed over.
    #[schema(value_type = Option<String>)]
    prompt: Option<Value>,
    /// Passed over.
    #[schema(value_type = Option<bool>)]
    async_mode: Option<Value>,
    /// Passed over.
    #[schema(value_type = Option<String>)]
    output_format: Option<Value>,
    /// Passed over.
    #[schema(value_type = Option<String>)]
    version: Option<Value>,
}

/// mem0's `search`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "some fields are known only to be passed over")]
pub(crate) struct Search {
    query: String,
    user_id: Option<String>,
    agent_id: Option<String>,
    run_id: Option<String>,
    #[schema(value_type = Option<Object>)]
    filters: Option<Value>,
    #[serde(alias = "top_k")]
    limit: Option<usize>,
    /// Passed over.
    #[schema(value_type = Option<bool>)]
    rerank: Option<Value>,
    /// Passed over.
    #[schema(value_type = Option<String>)]
    version: Option<Value>,
    /// Passed over.
    #[schema(value_type = Option<String>)]
    output_format: Option<Value>,
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
    let items = read_add(body)?;
    let texts: Vec<String> = items.iter().map(|item| item.content.clone()).collect();
    let stored = app.with(namespace, Missing::Create, move |memory| memory.remember(&items)).await?;
    app.metrics().remembered(stored.iter().filter(|one| one.created).count());
    let result = |(one, text): (&earmark::Remembered, &String)| json!({ "id": one.id, "memory": text, "event": if one.created { "ADD" } else { "NONE" } });
    Ok(Json(Results { results: stored.iter().zip(&texts).map(result).collect() }))
}

fn read_add(body: Add) -> earmark::Result<Vec<NewMemory>> {
    let scope = Owner { user_id: body.user_id, agent_id: body.agent_id, session_id: body.run_id };
    let scope = scope.scope(&None, &None, &None)?;
    let mut items = match &body.messages {
        Value::String(text) => vec![NewMemory::new(text)],
        message @ Value::Object(_) => messages(&json!([message]))?,
        list => messages(list)?,
    };
    if items.is_empty() {
        return Err(Error::invalid("messages", "hold no text to remember"));
    }
    for item in &mut items {
        item.user_id.clone_from(&scope.user_id);
        item.agent_id.clone_from(&scope.agent_id);
        item.session_id.clone_from(&scope.session_id);
        item.metadata.extend(body.metadata.clone().unwrap_or_default());
    }
    Ok(items)
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
    let limit = which.limit.unwrap_or(LIMIT).min(1000);
    let found = app.with(namespace, Missing::Refuse, move |memory| memory.list(&scope, limit)).await?;
    Ok(Json(Results { results: found.iter().map(as_mem0).collect() }))
}

/// mem0: search
#[utoipa::path(post, path = "/search", tag = "mem0", operation_id = "mem0_search", params(Where),
    request_body = Search, responses((status = 200, body = Results), Problems))]
pub(crate) async fn search(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Params(place): Params<Where>,
    Body(body): Body<Search>,
) -> Answer<Results> {
    let namespace = caller.enter(place.namespace.as_deref(), Access::Read)?;
    let owner = Owner { user_id: body.user_id, agent_id: body.agent_id, session_id: body.run_id };
    let scope = owner.scope(&None, &None, &body.filters)?;
    let request = RecallRequest { top_k: body.limit, scope, ..RecallRequest::new(body.query) };
    let recall = app.with(namespace, Missing::Refuse, move |memory| memory.recall(&request)).await?;
    app.metrics().recalled();
    let result = |found: &earmark::Recalled| {
        let mut value = as_mem0(&found.memory);
        value["score"] = json!(found.score);
        value["recall_id"] = json!(recall.recall_id);
        value
    };
    Ok(Json(Results { results: recall.results.iter().map(result).collect() }))
}

/// mem0: delete a memory
#[utoipa::path(delete, path = "/memories/{id}", tag = "mem0", operation_id = "mem0_delete",
    params(("id" = String, Path, description = "The memory's id"), Where),
    responses((status = 200, body = Done), Problems))]
pub(crate) async fn delete(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Id(id): Id,
    Params(place): Params<Where>,
) -> Answer<Done> {
    let namespace = caller.enter(place.namespace.as_deref(), Access::Write)?;
    app.with(namespace, Missing::Refuse, move |memory| forget_id(memory, id)).await?;
    Ok(Json(Done { message: "Memory deleted successfully!" }))
}

fn as_mem0(memory: &Memory) -> Value {
    json!({
        "id": memory.id,
        "memory": memory.content,
        "user_id": memory.user_id,
        "agent_id": memory.agent_id,
        "run_id": memory.session_id,
        "metadata": memory.metadata,
        "created_at": memory.created_at,
        "updated_at": memory.created_at,
    })
}
