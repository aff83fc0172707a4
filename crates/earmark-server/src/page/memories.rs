//! Memories: search, write, edit, forget.

use askama::Template;
use axum::{
    Extension,
    extract::State,
    http::HeaderMap,
    response::{Html, IntoResponse},
};
use earmark::{Change, Memory, NewMemory, Scope, parse_instant, store::Row};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Shown,
    ask::may,
    frame::{Fields, Frame, Place, encoded, link, minute, shortened},
    go, html, text, wants_part,
};
use crate::{
    access::Caller,
    app::{App, Missing},
    extract::{Id, Params},
    keys::Access,
    problem::Problem,
    requests::Owner,
    routes::memories::forget_id,
};

/// Memories in one page.
const PAGE: usize = 50;

/// What is searched for; blank parts do not count.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Search {
    namespace: Option<String>,
    q: String,
    author: String,
    user_id: String,
    filters: String,
    cursor: Option<i64>,
    /// What was just written.
    saved: Option<String>,
}

impl Search {
    fn is_blank(&self) -> bool {
        [&self.q, &self.author, &self.user_id, &self.filters].iter().all(|text| text.trim().is_empty())
    }

    fn scope(&self) -> Result<Scope, Problem> {
        let mut parts: Vec<Value> = Vec::new();
        if !self.q.trim().is_empty() {
            parts.push(json!({ "content": { "icontains": self.q.trim() } }));
        }
        if !self.author.trim().is_empty() {
            parts.push(json!({ "author": { "eq": self.author.trim() } }));
        }
        if !self.filters.trim().is_empty() {
            let read = serde_json::from_str(&self.filters);
            parts.push(read.map_err(|e| Problem::invalid("filters", format!("is not JSON: {e}")))?);
        }
        let user_id = Some(self.user_id.trim().to_owned()).filter(|user| !user.is_empty());
        let filters = (!parts.is_empty()).then(|| json!({ "AND": parts }));
        Ok(Owner { user_id, ..Default::default() }.scope(&None, &None, &filters)?)
    }

    /// The same search, of what is older than `row`.
    fn next(&self, namespace: &str, row: Row) -> String {
        let parts = [
            ("namespace", namespace),
            ("q", &self.q),
            ("author", &self.author),
            ("user_id", &self.user_id),
            ("filters", &self.filters),
        ];
        let parts: Vec<String> = parts.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
        format!("/ui/memories?{}&cursor={}", parts.join("&"), row.0)
    }
}

#[derive(Template)]
#[template(path = "memories.html")]
struct MemoriesPage {
    frame: Frame,
    q: String,
    author: String,
    user_id: String,
    filters: String,
    list: String,
    can_write: bool,
    saved: Option<String>,
}

#[derive(Template)]
#[template(path = "list.html")]
struct List {
    memories: Vec<Line>,
    next: Option<String>,
    searched: bool,
    ask_link: String,
}

struct Line {
    link: String,
    content: String,
    author: String,
    when: String,
    tags: String,
    user: String,
}

pub(super) async fn list(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    Params(search): Params<Search>,
) -> Shown {
    let frame = Frame::of(&app, &caller, search.namespace.as_deref(), "/ui/memories").await?;
    let (scope, before) = (search.scope()?, search.cursor.map(Row));
    let work = move |memory: &earmark::Namespace| memory.store().list_newest(&scope, before, PAGE);
    let found = app.with(frame.namespace.clone(), Missing::Refuse, work).await?;
    let next = found.last().filter(|_| found.len() == PAGE).map(|(row, _)| search.next(&frame.namespace, *row));
    let list = text(&List {
        memories: found.iter().map(|(_, memory)| line(&frame, memory)).collect(),
        next,
        searched: !search.is_blank(),
        ask_link: frame.link("/ui/ask"),
    })?;
    if wants_part(&headers) {
        return Ok(Html(list).into_response());
    }
    let can_write = may(&caller, &frame.namespace, Access::Write);
    let Search { q, author, user_id, filters, saved, .. } = search;
    let saved = saved.map(|id| frame.link(&format!("/ui/memories/{}", encoded(&id))));
    html(&MemoriesPage { frame, q, author, user_id, filters, list, can_write, saved })
}

fn line(frame: &Frame, memory: &Memory) -> Line {
    Line {
        link: frame.link(&format!("/ui/memories/{}", memory.id)),
        content: shortened(&memory.content, 240),
        author: memory.author.clone().unwrap_or_default(),
        when: minute(memory.occurred_at.unwrap_or(memory.created_at)),
        tags: memory.tags.join(", "),
        user: memory.user_id.clone().unwrap_or_default(),
    }
}

pub(super) async fn remember(State(app): State<App>, Extension(caller): Extension<Caller>, fields: Fields) -> Shown {
    let namespace = caller.enter(fields.namespace(), Access::Write)?;
    let item = NewMemory {
        author: fields.text("author"),
        tags: tags(&fields),
        occurred_at: instant(&fields)?,
        ..NewMemory::new(fields.raw("content"))
    };
    let stored = app.with(namespace.clone(), Missing::Create, move |memory| memory.remember(&[item])).await?;
    app.metrics().remembered(stored.iter().filter(|one| one.created).count());
    let written = stored.first().map_or("", |one| &one.id);
    go(&with_saved(&link("/ui/memories", &namespace), written))
}

/// The address of a page that says that something was saved.
fn with_saved(place: &str, what: &str) -> String {
    let separator = if place.contains('?') { '&' } else { '?' };
    format!("{place}{separator}saved={what}")
}

fn tags(fields: &Fields) -> Vec<String> {
    fields.raw("tags").split(',').map(str::trim).filter(|tag| !tag.is_empty()).map(str::to_owned).collect()
}

fn instant(fields: &Fields) -> Result<Option<jiff::Timestamp>, Problem> {
    let read = |text| parse_instant("occurred_at", &Value::String(text));
    Ok(fields.text("occurred_at").map(read).transpose()?)
}

#[derive(Template)]
#[template(path = "memory.html")]
struct MemoryPage {
    frame: Frame,
    id: String,
    content: String,
    author: String,
    kind: String,
    tags: String,
    occurred_at: String,
    facts: Vec<(&'static str, String)>,
    can_write: bool,
    saved: bool,
}

pub(super) async fn show(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Id(id): Id,
    Params(place): Params<Place>,
) -> Shown {
    let frame = Frame::of(&app, &caller, place.namespace.as_deref(), "/ui/memories").await?;
    let memory = app.with(frame.namespace.clone(), Missing::Refuse, move |memory| memory.get(&id)).await?;
    let can_write = may(&caller, &frame.namespace, Access::Write);
    let facts = facts(&memory);
    html(&MemoryPage {
        frame,
        id: memory.id,
        content: memory.content,
        author: memory.author.unwrap_or_default(),
        kind: memory.kind,
        tags: memory.tags.join(", "),
        occurred_at: memory.occurred_at.map(|at| at.to_string()).unwrap_or_default(),
        facts,
        can_write,
        saved: place.saved.is_some(),
    })
}

fn facts(memory: &Memory) -> Vec<(&'static str, String)> {
    let named = |name, value: &Option<String>| value.clone().map(|value| (name, value));
    let metadata = serde_json::to_string(&memory.metadata).ok().filter(|_| !memory.metadata.is_empty());
    let facts = [
        Some(("Id", memory.id.clone())),
        Some(("Stored", minute(memory.created_at))),
        named("User", &memory.user_id),
        named("Agent", &memory.agent_id),
        named("Session", &memory.session_id),
        metadata.map(|metadata| ("Metadata", metadata)),
    ];
    facts.into_iter().flatten().collect()
}

pub(super) async fn change(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Id(id): Id,
    fields: Fields,
) -> Shown {
    let namespace = caller.enter(fields.namespace(), Access::Write)?;
    let change = Change {
        content: Some(fields.raw("content").to_owned()),
        author: Some(fields.text("author")),
        kind: fields.text("kind"),
        metadata: None,
        tags: Some(tags(&fields)),
        occurred_at: Some(instant(&fields)?),
    };
    let changed = app.with(namespace.clone(), Missing::Refuse, move |memory| memory.update(&id, &change)).await?;
    let place = link(&format!("/ui/memories/{}", changed.id), &namespace);
    go(&with_saved(&place, "1"))
}

pub(super) async fn forget(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Id(id): Id,
    fields: Fields,
) -> Shown {
    let namespace = caller.enter(fields.namespace(), Access::Write)?;
    app.with(namespace.clone(), Missing::Refuse, move |memory| forget_id(memory, id)).await?;
    go(&link("/ui/memories", &namespace))
}
