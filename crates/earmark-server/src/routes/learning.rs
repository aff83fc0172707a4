//! `/v1/learning`: what was learned, and its verbs.

use axum::{Extension, Json, extract::State};
use earmark::{LearningStatus, Namespace};
use serde::Deserialize;
use utoipa::ToSchema;

use super::{Answer, Problems};
use crate::{
    access::Caller,
    app::{App, Missing},
    extract::{Body, OptionalBody, Params},
    keys::Access,
    requests::{Where, WhereBody, one_namespace},
};

/// What was learned
#[utoipa::path(get, path = "/v1/learning", tag = "learning", operation_id = "learning_status", params(Where),
    responses((status = 200, body = LearningStatus), Problems))]
pub(crate) async fn status(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Params(place): Params<Where>,
) -> Answer<LearningStatus> {
    let namespace = caller.enter(place.namespace.as_deref(), Access::Read)?;
    Ok(Json(app.with(namespace, Missing::Refuse, |memory| memory.learning()).await?))
}

/// Does what an operator asks and answers with the status after it.
async fn steer(
    app: App,
    caller: Caller,
    named: Option<&str>,
    verb: impl FnOnce(&Namespace) -> earmark::Result<i64> + Send + 'static,
) -> Answer<LearningStatus> {
    let namespace = caller.enter(named, Access::Admin)?;
    let work = move |memory: &Namespace| verb(memory).and_then(|_| memory.learning());
    Ok(Json(app.with_long(namespace, Missing::Refuse, work).await?))
}

/// Freeze learning
///
/// Feedback is collected, but the ranking stays as it is.
#[utoipa::path(post, path = "/v1/learning/freeze", tag = "learning", operation_id = "freeze_learning", params(Where),
    request_body(content = Option<WhereBody>), responses((status = 200, body = LearningStatus), Problems))]
pub(crate) async fn freeze(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Params(place): Params<Where>,
    OptionalBody(body): OptionalBody<WhereBody>,
) -> Answer<LearningStatus> {
    steer(app, caller, one_namespace(&place.namespace, &body.namespace)?, |memory| memory.freeze(true)).await
}

/// Learn again
#[utoipa::path(post, path = "/v1/learning/unfreeze", tag = "learning", operation_id = "unfreeze_learning", params(Where),
    request_body(content = Option<WhereBody>), responses((status = 200, body = LearningStatus), Problems))]
pub(crate) async fn unfreeze(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Params(place): Params<Where>,
    OptionalBody(body): OptionalBody<WhereBody>,
) -> Answer<LearningStatus> {
    steer(app, caller, one_namespace(&place.namespace, &body.namespace)?, |memory| memory.freeze(false)).await
}

/// The version to go back to.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rollback {
    /// The namespace; `default` if not given.
    namespace: Option<String>,
    /// As the status lists it; 0 is the static ranking.
    version: i64,
}

/// Go back to an earlier version
///
/// It stays in force: learning is frozen.
#[utoipa::path(post, path = "/v1/learning/rollback", tag = "learning", operation_id = "rollback_learning", params(Where),
    request_body = Rollback, responses((status = 200, body = LearningStatus), Problems))]
pub(crate) async fn rollback(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Params(place): Params<Where>,
    Body(body): Body<Rollback>,
) -> Answer<LearningStatus> {
    let named = one_namespace(&place.namespace, &body.namespace)?;
    steer(app, caller, named, move |memory| memory.rollback(body.version)).await
}

/// Forget what was learned
///
/// Memories and recalls stay.
#[utoipa::path(post, path = "/v1/learning/reset", tag = "learning", operation_id = "reset_learning", params(Where),
    request_body(content = Option<WhereBody>), responses((status = 200, body = LearningStatus), Problems))]
pub(crate) async fn reset(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Params(place): Params<Where>,
    OptionalBody(body): OptionalBody<WhereBody>,
) -> Answer<LearningStatus> {
    steer(app, caller, one_namespace(&place.namespace, &body.namespace)?, |memory| memory.reset()).await
}

/// Learn everything again
///
/// From every closed recall, from the start. Answers when it is done.
#[utoipa::path(post, path = "/v1/learning/train", tag = "learning", operation_id = "train", params(Where),
    request_body(content = Option<WhereBody>), responses((status = 200, body = LearningStatus), Problems))]
pub(crate) async fn train(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Params(place): Params<Where>,
    OptionalBody(body): OptionalBody<WhereBody>,
) -> Answer<LearningStatus> {
    steer(app, caller, one_namespace(&place.namespace, &body.namespace)?, |memory| memory.train()).await
}
