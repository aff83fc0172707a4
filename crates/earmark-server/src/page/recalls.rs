//! The log of recalls, and one of them round by round.

use std::collections::HashMap;

use askama::Template;
use axum::{Extension, extract::State};
use earmark::{
    Error, ExplainedCandidate, ExplainedRound, Explanation, Memory, PastRecall,
    store::{RecallState, Row},
};
use serde::Deserialize;

use super::{
    Shown,
    ask::{Item, Slate, from, may},
    frame::{Frame, Place, door, minute, ranked_by, shortened},
    html,
    overview::closed_by,
    text,
};
use crate::{
    access::Caller,
    app::{App, Missing},
    extract::{Id, Params},
    keys::Access,
    problem::Problem,
};

/// Recalls in the list.
const LIMIT: usize = 50;
/// Candidates of one recall.
const CANDIDATES: usize = 12;

#[derive(Template)]
#[template(path = "recalls.html")]
struct RecallsPage {
    frame: Frame,
    state: String,
    states: [(&'static str, &'static str); 4],
    recalls: Vec<Line>,
    limit: usize,
}

struct Line {
    link: String,
    query: String,
    asked: String,
    state: &'static str,
    shown: usize,
    useful: usize,
    door: String,
    ranked_by: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Which {
    namespace: Option<String>,
    state: Option<String>,
}

pub(super) async fn list(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Params(which): Params<Which>,
) -> Shown {
    let frame = Frame::of(&app, &caller, which.namespace.as_deref(), "/ui/recalls").await?;
    let name = which.state.unwrap_or_default();
    let state = match name.as_str() {
        "" => None,
        "open" => Some(RecallState::Open),
        "closed" => Some(RecallState::Closed),
        "expired" => Some(RecallState::Expired),
        _ => return Err(Problem::invalid("state", "must be open, closed or expired")),
    };
    let found = app.with(frame.namespace.clone(), Missing::Refuse, move |memory| memory.recalls(state, LIMIT)).await?;
    let recalls = found.iter().map(|recall| line(&frame, recall)).collect();
    let states = [("", "all"), ("open", "open"), ("closed", "closed"), ("expired", "expired")];
    html(&RecallsPage { frame, state: name, states, recalls, limit: LIMIT })
}

fn line(frame: &Frame, recall: &PastRecall) -> Line {
    let useful = |round: &ExplainedRound| round.useful.len();
    Line {
        link: frame.link(&format!("/ui/recalls/{}", recall.recall_id)),
        query: match recall.query.as_str() {
            "" => "(expired)".to_owned(),
            query => shortened(query, 120),
        },
        asked: minute(recall.created_at),
        state: state_name(recall.state),
        shown: recall.rounds.iter().map(|round| round.slate.len()).sum(),
        useful: recall.rounds.iter().map(useful).sum(),
        door: closed_by(recall).filter(|_| recall.state == RecallState::Closed).map_or("", door).to_owned(),
        ranked_by: ranked_by(recall.learning_version),
    }
}

fn state_name(state: RecallState) -> &'static str {
    match state {
        RecallState::Open => "open",
        RecallState::Closed => "closed",
        RecallState::Expired => "expired",
    }
}

#[derive(Template)]
#[template(path = "recall.html")]
struct RecallPage {
    frame: Frame,
    recall_id: String,
    query: String,
    state: &'static str,
    asked: String,
    ranked_by: String,
    in_words: String,
    rounds: Vec<Round>,
    candidates: Vec<Candidate>,
    neighbours: Vec<Past>,
    can_write: bool,
    form: String,
}

struct Round {
    sources: String,
    items: Vec<Judged>,
}

struct Judged {
    content: String,
    from: String,
    label: &'static str,
}

struct Candidate {
    rank: usize,
    base_rank: usize,
    meaning: String,
    words: String,
    score: String,
    content: String,
    moved_by: String,
}

struct Past {
    similarity: String,
    query: String,
    useful: String,
}

pub(super) async fn show(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Id(id): Id,
    Params(place): Params<Place>,
) -> Shown {
    let frame = Frame::of(&app, &caller, place.namespace.as_deref(), "/ui/recalls").await?;
    let work = move |memory: &earmark::Namespace| {
        let logged = memory.logged(&id)?;
        let explained = match memory.explain(&id) {
            Ok(explained) => Some(explained),
            Err(Error::NotFound { .. }) => None,
            Err(error) => return Err(error),
        };
        let shown = shown(memory, &logged)?;
        Ok((logged, explained, shown))
    };
    let (logged, explained, shown) = app.with(frame.namespace.clone(), Missing::Refuse, work).await?;
    let form =
        explained.as_ref().map_or(Ok(String::new()), |explained| text(&slate(&frame, &logged, explained, &shown)))?;
    let candidates = explained.as_ref().map_or(&[][..], |explained| &explained.candidates);
    html(&RecallPage {
        recall_id: logged.recall_id.clone(),
        query: logged.query.clone(),
        state: state_name(logged.state),
        asked: minute(logged.created_at),
        ranked_by: ranked_by(logged.learning_version),
        in_words: explained.as_ref().map(|explained| explained.in_words.clone()).unwrap_or_default(),
        rounds: rounds(&logged, &shown),
        candidates: candidates.iter().take(CANDIDATES).map(candidate).collect(),
        neighbours: explained.as_ref().map(neighbours).unwrap_or_default(),
        can_write: may(&caller, &frame.namespace, Access::Write),
        form,
        frame,
    })
}

/// The memories of every slate, by id.
type Memories = HashMap<String, Memory>;

fn shown(memory: &earmark::Namespace, logged: &PastRecall) -> earmark::Result<Memories> {
    let ids: Vec<&str> = logged.rounds.iter().flat_map(|round| &round.slate).map(String::as_str).collect();
    let rows: Vec<Row> = memory.store().rows(&ids)?.into_iter().flatten().collect();
    Ok(memory.store().memories(&rows)?.into_iter().map(|(_, memory)| (memory.id.clone(), memory)).collect())
}

/// The last slate with its thumbs.
fn slate(frame: &Frame, logged: &PastRecall, explained: &Explanation, shown: &Memories) -> Slate {
    let last = logged.rounds.last().map_or(&[][..], |round| &round.slate);
    let known = |id: &String| {
        let candidate = explained.candidates.iter().find(|candidate| candidate.id == *id)?;
        Some((candidate, shown.get(id)?))
    };
    let items = last.iter().filter_map(known).enumerate();
    Slate {
        recall_id: logged.recall_id.clone(),
        namespace: frame.namespace.clone(),
        query: logged.query.clone(),
        round: logged.rounds.len(),
        ranked_by: format!("Ranked by the {}", ranked_by(logged.learning_version)),
        critic_calls: 0,
        warning: String::new(),
        took: String::new(),
        explain_link: String::new(),
        items: items.map(|(i, (c, memory))| Item::new(i + 1, memory, &c.scores, c.base_rank)).collect(),
    }
}

fn rounds(logged: &PastRecall, shown: &Memories) -> Vec<Round> {
    let round = |round: &ExplainedRound| {
        let label = |id: &String| match (round.useful.contains(id), round.not_useful.contains(id)) {
            (true, _) => "useful",
            (_, true) => "not useful",
            _ => "",
        };
        let judged = |id: &String| {
            let memory = shown.get(id)?;
            Some(Judged { content: shortened(&memory.content, 600), from: from(memory), label: label(id) })
        };
        let sources: Vec<&str> = round.sources.iter().map(|source| door(source)).collect();
        Round { sources: sources.join(", "), items: round.slate.iter().filter_map(judged).collect() }
    };
    logged.rounds.iter().map(round).collect()
}

fn candidate(candidate: &ExplainedCandidate) -> Candidate {
    Candidate {
        rank: candidate.rank,
        base_rank: candidate.base_rank,
        meaning: format!("{:.2}", candidate.scores.dense),
        words: format!("{:.1}", candidate.scores.lexical),
        score: format!("{:.2}", candidate.scores.learned),
        content: shortened(&candidate.content, 200),
        moved_by: candidate.moved_by.join(", "),
    }
}

fn neighbours(explained: &Explanation) -> Vec<Past> {
    let past = |neighbour: &earmark::Neighbour| Past {
        similarity: format!("{:.2}", neighbour.similarity),
        query: shortened(&neighbour.query, 160),
        useful: neighbour.useful.iter().map(|text| shortened(text, 120)).collect::<Vec<_>>().join(" · "),
    };
    explained.neighbours.iter().map(past).collect()
}
