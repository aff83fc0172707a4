//! mem0's `users` and `delete_users`: whose memories there are.

use std::collections::BTreeMap;

use axum::{Extension, Json, extract::State};
use earmark::{Error, Filter, Forget, Memory, Namespace, Result, Scope};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Done, bodies::APP};
use crate::{
    access::Caller,
    app::{App, Missing},
    extract::{Id, Params},
    keys::Access,
    requests::Where,
    routes::Answer,
};

/// Memories that are looked at in one go.
const CHUNK: usize = 1000;
/// mem0's word for each kind of owner, and the field that holds it.
const KINDS: [(&str, &str); 4] = [("user", "user_id"), ("agent", "agent_id"), ("app", APP), ("run", "run_id")];

/// How many memories an owner has, and since when.
struct Tally {
    memories: usize,
    first: Timestamp,
    last: Timestamp,
}

/// The owners by kind and name.
type Owners = BTreeMap<(&'static str, String), Tally>;

/// Everybody who has memories here. All memories are read for it.
pub(super) async fn list(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Params(place): Params<Where>,
) -> Answer<Value> {
    let namespace = caller.enter(place.namespace.as_deref(), Access::Read)?;
    let owners = app.with(namespace, Missing::Create, owners).await?;
    let entity = |((kind, name), tally): (&(&str, String), &Tally)| {
        json!({
            "id": name,
            "name": name,
            "type": kind,
            "total_memories": tally.memories,
            "created_at": tally.first,
            "updated_at": tally.last,
        })
    };
    let results: Vec<Value> = owners.iter().map(entity).collect();
    Ok(Json(json!({ "count": results.len(), "next": null, "previous": null, "results": results })))
}

fn owners(memory: &Namespace) -> Result<Owners> {
    let (mut owners, mut after) = (Owners::new(), None);
    loop {
        let found = memory.store().list(&Scope::default(), after, CHUNK)?;
        let Some((last, _)) = found.last() else { return Ok(owners) };
        after = Some(*last);
        found.iter().for_each(|(_, memory)| count(&mut owners, memory));
    }
}

fn count(owners: &mut Owners, memory: &Memory) {
    let app = memory.metadata.get(APP).and_then(Value::as_str);
    let ids = [memory.user_id.as_deref(), memory.agent_id.as_deref(), app, memory.session_id.as_deref()];
    for ((kind, _), id) in KINDS.into_iter().zip(ids) {
        let Some(id) = id else { continue };
        let at = memory.created_at;
        let tally = owners.entry((kind, id.to_owned())).or_insert(Tally { memories: 0, first: at, last: at });
        tally.memories += 1;
        tally.first = tally.first.min(at);
        tally.last = tally.last.max(at);
    }
}

/// Forgets what somebody has. Nobody of that name is no failure: what two own goes with the first of them.
pub(super) async fn delete(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Id((kind, name)): Id<(String, String)>,
    Params(place): Params<Where>,
) -> Answer<Done> {
    let namespace = caller.enter(place.namespace.as_deref(), Access::Write)?;
    let Some((_, field)) = KINDS.into_iter().find(|(known, _)| *known == kind) else {
        let known = KINDS.map(|(kind, _)| kind).join(", ");
        return Err(Error::invalid("", format!("there are no entities of type `{kind}`, only: {known}")).into());
    };
    let filter = Some(Filter::parse(&json!({ field: name }))?);
    let what = Forget::Scope(Scope { filter, ..Default::default() });
    app.with(namespace, Missing::Create, move |memory| memory.forget(&what)).await?;
    Ok(Json(Done { message: "Entity deleted successfully!" }))
}
