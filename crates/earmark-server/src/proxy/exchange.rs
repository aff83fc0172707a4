//! What follows an answer: its citations close the recall, and what was said is remembered.

use std::sync::Arc;

use earmark::{
    Feedback, Filter, Namespace, NewMemory, Result, Scope, Uncited,
    filter::{Field, Scalar, Test},
    store::Row,
};
use jiff::Timestamp;

use super::{
    Proxy, Recalled, Remember,
    conversation::{Conversation, Turn},
    listen::Answer,
    lock,
    worth::{adds, tells},
};
use crate::app::Missing;

/// Memories that a turn is compared with before it is remembered as new.
const COMPARED: usize = 32;

/// One call, for what follows its answer.
pub(super) struct Exchange {
    pub(super) proxy: Proxy,
    pub(super) namespace: String,
    pub(super) conversation: Conversation,
    pub(super) recalled: Option<Arc<Recalled>>,
}

impl Exchange {
    /// Closes the recall by the answer's citations and remembers the turns; `None` is an answer that broke off. One that
    /// a limit cut may have cited more, and says half of something.
    pub(super) async fn follow(self, answer: Option<Answer>) {
        let Some(Answer { text: answer, cut }) = answer else { return };
        let items = self.worth_keeping(Some(&*answer).filter(|_| !cut));
        let recall_id = self.recalled.as_ref().map(|recalled| recalled.recall_id.clone());
        let said = answer.clone();
        let work = move |memory: &Namespace| {
            let closed = recall_id.filter(|_| !said.trim().is_empty()).map(|id| close(memory, &id, said, cut));
            Ok((closed.unwrap_or(false), remember(memory, items)?))
        };
        let app = self.proxy.app();
        match app.with(self.namespace.clone(), Missing::Create, work).await {
            Err(problem) => tracing::warn!(problem.detail, "what followed an answer could not be kept"),
            Ok((closed, created)) => {
                app.metrics().remembered(created);
                self.mark_known(answer);
                if closed {
                    lock(&self.proxy.0.waiting).remove(&self.conversation.key(&self.namespace));
                    app.metrics().closed("answer");
                    app.learn_soon(&self.namespace);
                }
            }
        }
    }

    /// What new turns tell, the answer last.
    fn worth_keeping(&self, answer: Option<&str>) -> Vec<NewMemory> {
        let wanted = self.proxy.0.config.remember;
        if wanted == Remember::None {
            return Vec::new();
        }
        let both = wanted == Remember::Both;
        let question = self.conversation.question.as_deref().unwrap_or("");
        let context = self.recalled.as_ref().map_or("", |recalled| &recalled.context);
        let turns = self.new_turns().into_iter().filter(|turn| turn.is_user || both);
        let told = turns.filter_map(|turn| {
            // An answer from before this proxy rests on what is not known any more.
            let told = if turn.is_user { tells(&turn.content) } else { adds(&turn.content, question, "") };
            Some(self.item(&turn.author, told?, turn.occurred_at))
        });
        let answer = answer.filter(|_| both).and_then(|answer| adds(answer, question, context));
        told.chain(answer.map(|answer| self.item("assistant", answer, None))).collect()
    }

    fn new_turns(&self) -> Vec<&Turn> {
        let known = lock(&self.proxy.0.known);
        let key = |turn: &Turn| self.conversation.turn_key(&self.namespace, &turn.author, &turn.content);
        self.conversation.turns.iter().filter(|turn| known.get(&key(turn)).is_none()).collect()
    }

    fn item(&self, author: &str, content: String, occurred_at: Option<Timestamp>) -> NewMemory {
        NewMemory {
            author: Some(author.to_owned()),
            user_id: self.conversation.user_id.clone(),
            session_id: self.conversation.session_id.clone(),
            occurred_at: Some(occurred_at.unwrap_or_else(Timestamp::now)),
            ..NewMemory::new(content)
        }
    }

    /// A client sends all turns of its conversation with each call; none is looked at twice.
    fn mark_known(&self, answer: String) {
        let answer = Turn { author: "assistant".to_owned(), content: answer, is_user: false, occurred_at: None };
        let mut known = lock(&self.proxy.0.known);
        for turn in self.conversation.turns.iter().chain([&answer]) {
            known.put(self.conversation.turn_key(&self.namespace, &turn.author, &turn.content), ());
        }
    }
}

/// Stores what is not there yet, and says how much that was.
fn remember(memory: &Namespace, items: Vec<NewMemory>) -> Result<usize> {
    let mut fresh = Vec::new();
    for item in items {
        if !said_before(memory, &item)? {
            fresh.push(item);
        }
    }
    let stored = if fresh.is_empty() { Vec::new() } else { memory.remember(&fresh)? };
    Ok(stored.iter().filter(|one| one.created).count())
}

/// Whether the same person told the same user just this before, at any time. No index holds whole texts, so it is
/// looked for where it would be: among the memories that have the most of its words.
fn said_before(memory: &Namespace, item: &NewMemory) -> Result<bool> {
    let hits = memory.store().search_words(&item.content, COMPARED, &same_speaker(item))?.hits;
    let rows: Vec<Row> = hits.iter().map(|hit| hit.row).collect();
    Ok(memory.store().memories(&rows)?.iter().any(|(_, one)| one.content == item.content))
}

/// What the speaker of `item` told the same user in the same session.
fn same_speaker(item: &NewMemory) -> Scope {
    let is = |field: Field, text: &Option<String>| match text {
        Some(text) => Filter::Field(field, Test::OneOf(vec![Scalar::Text(text.clone())])),
        None => Filter::Not(Box::new(Filter::Field(field, Test::Exists))),
    };
    let filter = Filter::All(vec![
        is(Field::Author, &item.author),
        is(Field::UserId, &item.user_id),
        is(Field::SessionId, &item.session_id),
    ]);
    Scope { filter: Some(filter), ..Default::default() }
}

/// Whether the answer's citations closed the recall. What closed it before, or a memory that is gone, is no failure.
fn close(memory: &Namespace, recall_id: &str, answer: String, cut: bool) -> bool {
    let uncited = cut.then_some(Uncited::Ignore);
    let feedback = Feedback { answer: Some(answer), uncited, ..Default::default() };
    match memory.feedback(recall_id, &feedback) {
        Ok(report) => report.closed && !report.repeated,
        Err(error) => {
            tracing::warn!(%error, "an answer could not be fed back");
            false
        }
    }
}
