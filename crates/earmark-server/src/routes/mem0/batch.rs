//! mem0's `batch_update` and `batch_delete`.

use axum::{Extension, Json, extract::State};
use earmark::{Change, Error, Forget, Namespace, Result};
use serde::Deserialize;
use serde_json::{Value, json};

use super::bodies::Edit;
use crate::{
    access::Caller,
    app::{App, Missing},
    extract::{Body, Params},
    keys::Access,
    problem::Problem,
    requests::Where,
    routes::Answer,
};

/// Most memories of one call.
const MOST: usize = 1000;

/// Changes to several memories.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Updates {
    memories: Vec<Update>,
}

#[derive(Debug, Deserialize)]
struct Update {
    memory_id: String,
    #[serde(flatten)]
    edit: Edit,
}

impl Updates {
    fn read(self) -> Result<Vec<(String, Change)>> {
        check_count(self.memories.len())?;
        let change =
            |(i, one): (usize, Update)| Ok((one.memory_id, one.edit.change().map_err(|error| within(i, error))?));
        self.memories.into_iter().enumerate().map(change).collect()
    }
}

/// Changes memories one after the other; none if one of them is not there.
pub(super) async fn update(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Params(place): Params<Where>,
    Body(body): Body<Updates>,
) -> Answer<Value> {
    let namespace = caller.enter(place.namespace.as_deref(), Access::Write)?;
    let changes = body.read()?;
    let (done, stopped) = app.with(namespace, Missing::Refuse, move |memory| change_all(memory, &changes)).await?;
    match stopped {
        None => Ok(Json(json!({ "message": format!("Successfully updated {done} memories") }))),
        Some(error) => Err(after(done, Problem::from(within(done, error)))),
    }
}

/// How many were changed, and what stopped it before the end.
fn change_all(memory: &Namespace, changes: &[(String, Change)]) -> Result<(usize, Option<Error>)> {
    check_there(memory, changes.iter().map(|(id, _)| id.as_str()))?;
    for (done, (id, change)) in changes.iter().enumerate() {
        if let Err(error) = memory.update(id, change) {
            return Ok((done, Some(error)));
        }
    }
    Ok((changes.len(), None))
}

fn after(done: usize, problem: Problem) -> Problem {
    let detail = format!("{}; {done} before it were changed, those behind it were not", problem.detail);
    Problem { detail, ..problem }
}

/// Ids of memories.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Named {
    memories: Vec<One>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct One {
    memory_id: String,
}

/// Deletes all of the memories, or none if one of them is not there.
pub(super) async fn delete(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Params(place): Params<Where>,
    Body(body): Body<Named>,
) -> Answer<Value> {
    let namespace = caller.enter(place.namespace.as_deref(), Access::Write)?;
    check_count(body.memories.len())?;
    let ids: Vec<String> = body.memories.into_iter().map(|one| one.memory_id).collect();
    let work = move |memory: &Namespace| {
        check_there(memory, ids.iter().map(String::as_str))?;
        memory.forget(&Forget::Ids(ids))
    };
    let gone = app.with(namespace, Missing::Refuse, work).await?;
    Ok(Json(json!({ "message": format!("Successfully deleted {gone} memories") })))
}

fn check_count(count: usize) -> Result<()> {
    if (1..=MOST).contains(&count) {
        return Ok(());
    }
    Err(Error::invalid("memories", format!("must name between 1 and {MOST} memories, received {count}")))
}

fn check_there<'a>(memory: &Namespace, ids: impl Iterator<Item = &'a str>) -> Result<()> {
    let ids: Vec<&str> = ids.collect();
    let rows = memory.store().rows(&ids)?;
    match ids.iter().zip(&rows).find(|(_, row)| row.is_none()) {
        Some((id, _)) => Err(Error::not_found("memory", *id)),
        None => Ok(()),
    }
}

/// Names the item whose field cannot be used.
fn within(item: usize, error: Error) -> Error {
    match error {
        Error::InvalidInput { field, reason } => {
            Error::InvalidInput { field: format!("memories[{item}].{field}"), reason }
        }
        error => error,
    }
}
