//! `/v1/recall` and `/v1/recalls`: ask, say what helped, look back.

use std::time::Duration;

use axum::{Extension, Json, extract::State};
use earmark::{Explanation, Explore, FeedbackReport, Namespace, PastRecall, store::RecallState};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{Answer, Problems};
use crate::{
    access::Caller,
    app::{App, Missing},
    extract::{Body, Id, Params},
    keys::Access,
    problem::Problem,
    requests::{Labels, Recall, Where, one_namespace},
};

/// Longest time for a recall that calls the critic.
const EXPLORING: Duration = Duration::from_secs(600);
/// Recalls in one answer, unless told otherwise.
const RECALLS: usize = 50;
/// Most recalls in one answer.
const MAX_RECALLS: usize = 1000;

/// Recall
///
/// The memories that answer a question, best first. `previous` closes the recall before on the way, and `explore` lets
/// the server's critic judge slates; both take a key that may write. A critic that fails costs no answer: `warning` says
/// so.
#[utoipa::path(post, path = "/v1/recall", tag = "recalls", operation_id = "recall", params(Where),
    request_body = Recall, responses((status = 200, body = earmark::Recall), Problems))]
pub(crate) async fn recall(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Params(place): Params<Where>,
    Body(body): Body<Recall>,
) -> Answer<earmark::Recall> {
    let named = one_namespace(&place.namespace, &body.namespace)?.map(str::to_owned);
    Ok(Json(ask(&app, &caller, named.as_deref(), body).await?))
}

/// Answers a question, wherever it came in.
pub(crate) async fn ask(
    app: &App,
    caller: &Caller,
    named: Option<&str>,
    body: Recall,
) -> Result<earmark::Recall, Problem> {
    let closes = body.previous.is_some();
    let explores = body.explore.is_some_and(|explore| explore != Explore::Off);
    let namespace = caller.enter(named, if closes || explores { Access::Write } else { Access::Read })?;
    if app.config().log_content {
        tracing::info!(query = body.query, "recall");
    }
    let place = namespace.clone();
    let critic = app.critic().filter(|_| explores).cloned();
    let limit = if explores { EXPLORING } else { app.config().timeout };
    let work = move |memory: &Namespace| {
        let request = body.request(memory)?;
        match critic {
            Some(critic) => memory.recall_judged(&request, &mut |question, shown| {
                critic.judge(question, shown).inspect_err(|error| tracing::warn!(%error, "the critic failed"))
            }),
            None => memory.recall(&request),
        }
    };
    let recall = app.with_for(limit, namespace, Missing::Refuse, work).await?;
    app.metrics().recalled();
    if closes {
        app.metrics().closed("next_recall");
        app.learn_soon(&place);
    }
    Ok(recall)
}

/// Give feedback
///
/// Says which of the memories that a recall showed helped: by id or number, or by an answer with `[n]` citations. The
/// recall is closed, and learned from after this is answered.
#[utoipa::path(post, path = "/v1/recalls/{id}/feedback", tag = "recalls", operation_id = "feedback",
    params(("id" = String, Path, description = "The recall's id"), Where),
    request_body = Labels, responses((status = 200, body = FeedbackReport), Problems))]
pub(crate) async fn feedback(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Id(id): Id,
    Params(place): Params<Where>,
    Body(body): Body<Labels>,
) -> Answer<FeedbackReport> {
    let named = one_namespace(&place.namespace, &body.namespace)?.map(str::to_owned);
    Ok(Json(close(&app, &caller, named.as_deref(), id, body).await?))
}

/// Takes feedback, wherever it came in, and has it learned from afterwards.
pub(crate) async fn close(
    app: &App,
    caller: &Caller,
    named: Option<&str>,
    recall_id: String,
    body: Labels,
) -> Result<FeedbackReport, Problem> {
    let namespace = caller.enter(named, Access::Write)?;
    let door = if body.answer.is_some() { "answer" } else { "explicit" };
    let place = namespace.clone();
    let report = app
        .with(namespace, Missing::Refuse, move |memory| {
            let feedback = body.feedback(memory, &recall_id)?;
            memory.feedback(&recall_id, &feedback)
        })
        .await?;
    if report.closed && !report.repeated {
        app.metrics().closed(door);
        app.learn_soon(&place);
    }
    Ok(report)
}

/// Refine
///
/// Takes labels for what a recall showed and answers with its next slate: not those, show me others. The recall stays
/// open.
#[utoipa::path(post, path = "/v1/recalls/{id}/refine", tag = "recalls", operation_id = "refine",
    params(("id" = String, Path, description = "The recall's id"), Where),
    request_body = Labels, responses((status = 200, body = earmark::Recall), Problems))]
pub(crate) async fn refine(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Id(id): Id,
    Params(place): Params<Where>,
    Body(body): Body<Labels>,
) -> Answer<earmark::Recall> {
    let named = one_namespace(&place.namespace, &body.namespace)?.map(str::to_owned);
    Ok(Json(next_slate(&app, &caller, named.as_deref(), id, body).await?))
}

/// Refines a recall, wherever that came in.
pub(crate) async fn next_slate(
    app: &App,
    caller: &Caller,
    named: Option<&str>,
    recall_id: String,
    body: Labels,
) -> Result<earmark::Recall, Problem> {
    let namespace = caller.enter(named, Access::Write)?;
    app.with(namespace, Missing::Refuse, move |memory| {
        let feedback = body.feedback(memory, &recall_id)?;
        memory.refine(&recall_id, &feedback)
    })
    .await
}

/// Recalls, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Recalls {
    recalls: Vec<PastRecall>,
}

/// Which recalls.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct WhichRecalls {
    /// The namespace; `default` if not given.
    namespace: Option<String>,
    /// Only recalls of this state.
    state: Option<RecallState>,
    /// At most this many; 50 if not given, 1000 at most.
    limit: Option<usize>,
}

/// List recalls
///
/// The newest first, with what they showed and how it was labelled.
#[utoipa::path(get, path = "/v1/recalls", tag = "recalls", operation_id = "list_recalls", params(WhichRecalls),
    responses((status = 200, body = Recalls), Problems))]
pub(crate) async fn list(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Params(which): Params<WhichRecalls>,
) -> Answer<Recalls> {
    let namespace = caller.enter(which.namespace.as_deref(), Access::Read)?;
    let limit = which.limit.unwrap_or(RECALLS);
    if !(1..=MAX_RECALLS).contains(&limit) {
        return Err(Problem::invalid("limit", format!("is {limit}, but must be between 1 and {MAX_RECALLS}")));
    }
    let recalls = app.with(namespace, Missing::Refuse, move |memory| memory.recalls(which.state, limit)).await?;
    Ok(Json(Recalls { recalls }))
}

/// One recall
#[utoipa::path(get, path = "/v1/recalls/{id}", tag = "recalls", operation_id = "get_recall",
    params(("id" = String, Path, description = "The recall's id"), Where),
    responses((status = 200, body = PastRecall), Problems))]
pub(crate) async fn get(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Id(id): Id,
    Params(place): Params<Where>,
) -> Answer<PastRecall> {
    let namespace = caller.enter(place.namespace.as_deref(), Access::Read)?;
    Ok(Json(app.with(namespace, Missing::Refuse, move |memory| memory.logged(&id)).await?))
}

/// Explain a recall
///
/// The terms of each score, the rank before and after learning, labels, and similar questions of the past.
#[utoipa::path(get, path = "/v1/recalls/{id}/explain", tag = "recalls", operation_id = "explain",
    params(("id" = String, Path, description = "The recall's id"), Where),
    responses((status = 200, body = Explanation), Problems))]
pub(crate) async fn explain(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Id(id): Id,
    Params(place): Params<Where>,
) -> Answer<Explanation> {
    let namespace = caller.enter(place.namespace.as_deref(), Access::Read)?;
    Ok(Json(app.with(namespace, Missing::Refuse, move |memory| memory.explain(&id)).await?))
}
