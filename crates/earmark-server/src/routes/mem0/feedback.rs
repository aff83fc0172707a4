//! mem0's `feedback`, which names a memory. Here feedback is about a recall: the newest one that showed the memory.

use axum::{Extension, Json, extract::State};
use earmark::{Error, Namespace, Result, store::Row};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    access::Caller,
    app::{App, Missing},
    extract::{Body, Params},
    keys::Access,
    problem::Problem,
    requests::{Labels, Where},
    routes::{Answer, recalls},
};

/// How many of the newest recalls are looked through.
const LOOKED_THROUGH: usize = 1000;

/// What somebody thinks of a memory.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Opinion {
    memory_id: String,
    feedback: Option<String>,
    /// Is not kept.
    feedback_reason: Option<Value>,
}

impl Opinion {
    fn is_useful(&self) -> Result<bool> {
        match self.feedback.as_deref() {
            Some("POSITIVE") => Ok(true),
            Some("NEGATIVE" | "VERY_NEGATIVE") => Ok(false),
            None => Err(Error::invalid("feedback", "is missing; a label that was given is not taken back")),
            Some(other) => {
                let reason = format!("must be POSITIVE, NEGATIVE or VERY_NEGATIVE, received `{other}`");
                Err(Error::invalid("feedback", reason))
            }
        }
    }
}

/// Labels the memory in the newest recall that showed it, and closes that recall.
pub(super) async fn give(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Params(place): Params<Where>,
    Body(opinion): Body<Opinion>,
) -> Answer<Value> {
    let namespace = caller.enter(place.namespace.as_deref(), Access::Write)?;
    let useful = opinion.is_useful()?;
    let id = opinion.memory_id.clone();
    let recall_id = app.with(namespace, Missing::Refuse, move |memory| newest(memory, &id)).await?;
    let named = Some(vec![opinion.memory_id.clone()]);
    let labels = match useful {
        true => Labels { useful: named, ..Default::default() },
        false => Labels { not_useful: named, ..Default::default() },
    };
    let closed = recalls::close(&app, &caller, place.namespace.as_deref(), recall_id.clone(), labels).await;
    closed.map_err(one_at_a_time)?;
    Ok(Json(json!({
        "id": opinion.memory_id,
        "recall_id": recall_id,
        "feedback": opinion.feedback,
        "feedback_reason": opinion.feedback_reason,
    })))
}

/// The newest recall that showed the memory.
fn newest(memory: &Namespace, id: &str) -> Result<String> {
    let row = memory.store().rows(&[id])?.into_iter().next().flatten();
    let row = row.ok_or_else(|| Error::not_found("memory", id))?;
    let shows = |row: Row, recall: &earmark::store::StoredRecall| {
        recall.rounds.iter().any(|round| round.slate.iter().any(|entry| entry.row == row))
    };
    let recalls = memory.store().recalls(None, LOOKED_THROUGH)?;
    let found = recalls.into_iter().find(|recall| shows(row, recall));
    found.map(|recall| recall.log.id).ok_or_else(|| Error::Conflict {
        reason: format!(
            "no search that is still known showed memory `{id}`; feedback says whether a memory helped with a \
             question, so search for something first"
        ),
    })
}

/// mem0's clients label one memory a call; several of one search go together elsewhere.
fn one_at_a_time(problem: Problem) -> Problem {
    if problem.code != "conflict" {
        return problem;
    }
    let detail = format!("{}; POST /v1/recalls/ID/feedback takes labels for several memories at once", problem.detail);
    Problem { detail, ..problem }
}
