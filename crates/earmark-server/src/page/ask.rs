//! Asking, and saying what helped.

use askama::Template;
use axum::{
    Extension,
    extract::State,
    http::HeaderMap,
    response::{Html, IntoResponse},
};
use earmark::{Explore, Memory, Recalled, Scores};

use super::{
    Shown,
    frame::{Fields, Frame, Place, link, ranked_by},
    go, html, text, wants_part,
};
use crate::{
    access::Caller,
    app::{App, Missing},
    extract::{Id, Params},
    keys::Access,
    problem::Problem,
    requests::{Labels, Recall},
    routes::recalls::{ask as answer, close, next_slate},
};

/// Memories shown, unless told otherwise.
const TOP_K: usize = 5;

#[derive(Template)]
#[template(path = "ask.html")]
struct AskPage {
    frame: Frame,
    query: String,
    top_k: usize,
    explore: bool,
    has_critic: bool,
    memories: u64,
    slate: Option<String>,
}

/// One memory of a slate.
pub(super) struct Item {
    pub(super) rank: usize,
    pub(super) id: String,
    pub(super) content: String,
    pub(super) from: String,
    pub(super) score: String,
    pub(super) meaning: String,
    pub(super) words: String,
    pub(super) base_rank: usize,
    pub(super) explored: bool,
}

impl Item {
    pub(super) fn new(rank: usize, memory: &Memory, scores: &Scores, base_rank: usize) -> Item {
        Item {
            rank,
            id: memory.id.clone(),
            content: memory.content.clone(),
            from: from(memory),
            score: format!("{:.2}", scores.learned),
            meaning: format!("{:.2}", scores.dense),
            words: format!("{:.1}", scores.lexical),
            base_rank,
            explored: false,
        }
    }

    fn of(result: &Recalled) -> Item {
        Item {
            score: format!("{:.2}", result.score),
            explored: result.explored,
            ..Item::new(result.rank, &result.memory, &result.scores, result.base_rank)
        }
    }
}

/// Who said it, and when.
pub(super) fn from(memory: &Memory) -> String {
    let day = memory.occurred_at.map(|at| at.strftime("%Y-%m-%d").to_string());
    [memory.author.clone(), day].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// A slate with its thumbs.
#[derive(Template)]
#[template(path = "slate.html")]
pub(super) struct Slate {
    pub(super) recall_id: String,
    pub(super) namespace: String,
    pub(super) query: String,
    pub(super) round: usize,
    pub(super) ranked_by: String,
    pub(super) critic_calls: usize,
    pub(super) warning: String,
    pub(super) took: String,
    /// Empty on the page that explains.
    pub(super) explain_link: String,
    pub(super) items: Vec<Item>,
}

impl Slate {
    fn of(recall: &earmark::Recall, query: &str, round: usize) -> Slate {
        Slate {
            recall_id: recall.recall_id.clone(),
            namespace: recall.namespace.clone(),
            query: query.to_owned(),
            round,
            ranked_by: format!("Ranked by the {}", ranked_by(recall.learning_version)),
            critic_calls: recall.critic_calls,
            warning: recall.warning.clone().unwrap_or_default(),
            took: format!("{:.0}", recall.took_ms),
            explain_link: link(&format!("/ui/recalls/{}", recall.recall_id), &recall.namespace),
            items: recall.results.iter().map(Item::of).collect(),
        }
    }
}

#[derive(Template)]
#[template(path = "thanks.html")]
struct Thanks {
    namespace: String,
    query: String,
    explain_link: String,
    closed: bool,
    useful: usize,
    not_useful: usize,
    frozen: bool,
}

pub(super) async fn show(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Params(place): Params<Place>,
) -> Shown {
    let frame = Frame::of(&app, &caller, place.namespace.as_deref(), "/ui/ask").await?;
    page(&app, frame, String::new(), TOP_K, false, None).await
}

async fn page(app: &App, frame: Frame, query: String, top_k: usize, explore: bool, slate: Option<String>) -> Shown {
    let count = |memory: &earmark::Namespace| memory.store().count();
    let memories = app.with(frame.namespace.clone(), Missing::Refuse, count).await?;
    html(&AskPage { frame, query, top_k, explore, has_critic: app.critic().is_some(), memories, slate })
}

pub(super) async fn ask(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    fields: Fields,
) -> Shown {
    let query = fields.raw("query").to_owned();
    let top_k = fields.number("top_k")?;
    let explore = fields.raw("explore") == "auto";
    let body = Recall { query: query.clone(), top_k, explore: explore.then_some(Explore::Auto), ..Default::default() };
    let recall = answer(&app, &caller, fields.namespace(), body).await?;
    let slate = text(&Slate::of(&recall, &query, 1))?;
    if wants_part(&headers) {
        return Ok(Html(slate).into_response());
    }
    let frame = Frame::of(&app, &caller, fields.namespace(), "/ui/ask").await?;
    page(&app, frame, query, top_k.unwrap_or(TOP_K), explore, Some(slate)).await
}

/// The thumbs of a form.
fn thumbs(fields: &Fields) -> Labels {
    let named = |value| Some(fields.with_value("label.", value));
    Labels { useful: named("useful"), not_useful: named("not_useful"), ..Default::default() }
}

pub(super) async fn feedback(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Id(id): Id,
    headers: HeaderMap,
    fields: Fields,
) -> Shown {
    let namespace = caller.enter(fields.namespace(), Access::Write)?;
    let labels = thumbs(&fields);
    let count = |names: &Option<Vec<String>>| names.as_ref().map_or(0, Vec::len);
    let (useful, not_useful) = (count(&labels.useful), count(&labels.not_useful));
    let closed = useful + not_useful > 0 && close(&app, &caller, Some(&namespace), id.clone(), labels).await?.closed;
    let explain_link = link(&format!("/ui/recalls/{id}"), &namespace);
    if !wants_part(&headers) {
        return go(&explain_link);
    }
    let frozen = app.with(namespace.clone(), Missing::Refuse, |memory| memory.learning()).await?.frozen;
    html(&Thanks { query: fields.raw("query").to_owned(), namespace, explain_link, closed, useful, not_useful, frozen })
}

/// Not these, show others: what has no thumb did not help.
pub(super) async fn refine(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Id(id): Id,
    headers: HeaderMap,
    fields: Fields,
) -> Shown {
    let mut labels = thumbs(&fields);
    let useful = labels.useful.clone().unwrap_or_default();
    labels.not_useful = Some(fields.all("shown").into_iter().filter(|id| !useful.contains(id)).collect());
    let recall = next_slate(&app, &caller, fields.namespace(), id, labels).await?;
    if !wants_part(&headers) {
        return go(&link(&format!("/ui/recalls/{}", recall.recall_id), &recall.namespace));
    }
    let round = fields.number("round")?.unwrap_or(1usize);
    html(&Slate::of(&recall, fields.raw("query"), round.saturating_add(1)))
}

/// Whether the caller may do what needs `access` there.
pub(super) fn may(caller: &Caller, namespace: &str, access: Access) -> bool {
    let entered: Result<String, Problem> = caller.enter(Some(namespace), access);
    entered.is_ok()
}
