//! What crosses the library's border: memories, requests and answers, as plain data.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::filter::Filter;

/// Free-form key-value data of a memory.
pub type Metadata = serde_json::Map<String, serde_json::Value>;

/// A memory to be stored.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct NewMemory {
    /// The text, kept verbatim; any language, any length, not blank.
    pub content: String,
    /// Speaker or role; it is part of the text that is encoded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// `episodic` (default), `semantic`, or the caller's own word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Free-form data, reachable by filters.
    #[serde(skip_serializing_if = "Metadata::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub metadata: Metadata,
    /// Labels, reachable by filters as the list `tags`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Whom the memory is about or belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    /// The agent that wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// The conversation it is a turn of; `run_id` is read too.
    #[serde(alias = "run_id", skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// When it happened (as against when it was stored).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub occurred_at: Option<Timestamp>,
}

impl NewMemory {
    /// A memory with nothing but its text.
    pub fn new(content: impl Into<String>) -> Self {
        NewMemory { content: content.into(), ..Default::default() }
    }
}

/// A stored memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Memory {
    /// `m_` and a UUID v7: sorts by creation.
    pub id: String,
    /// The text, as it came.
    pub content: String,
    /// Speaker or role.
    pub author: Option<String>,
    /// `episodic`, `semantic`, or the caller's own word.
    pub kind: String,
    /// Free-form data.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub metadata: Metadata,
    /// Labels.
    pub tags: Vec<String>,
    /// Whom it is about or belongs to.
    pub user_id: Option<String>,
    /// The agent that wrote it.
    pub agent_id: Option<String>,
    /// The conversation it is a turn of.
    pub session_id: Option<String>,
    /// When it happened.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub occurred_at: Option<Timestamp>,
    /// When it was stored.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: Timestamp,
}

impl Memory {
    /// The memory as line `n` of a prompt: `[n] (day) author: text`, day and author where known.
    pub(crate) fn numbered(&self, n: usize) -> String {
        let day = self.occurred_at.map(|at| at.strftime("(%Y-%m-%d) ").to_string()).unwrap_or_default();
        let author = self.author.as_deref().map(|author| format!("{author}: ")).unwrap_or_default();
        format!("[{n}] {day}{author}{}", self.content)
    }
}

/// What became of one [`NewMemory`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Remembered {
    /// Id of the memory.
    pub id: String,
    /// `false`: the same content, author, scopes and time were stored before, and this is that memory.
    pub created: bool,
}

/// Restricts which memories a call may touch. All parts must hold.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Scope {
    /// Only memories of this user.
    pub user_id: Option<String>,
    /// Only memories of this agent.
    pub agent_id: Option<String>,
    /// Only memories of this conversation.
    pub session_id: Option<String>,
    /// Only memories with `occurred_at` at or after this instant.
    pub after: Option<Timestamp>,
    /// Only memories with `occurred_at` before this instant.
    pub before: Option<Timestamp>,
    /// Only memories that the filter accepts.
    pub filter: Option<Filter>,
}

impl Scope {
    /// Whether every memory passes.
    pub fn is_everything(&self) -> bool {
        *self == Scope::default()
    }
}

/// Whether the engine spends critic calls to explore the candidates of one question.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Explore {
    /// Answer from what was learned; no critic call.
    #[default]
    Off,
    /// Let the critic judge slates until the budget is spent.
    On,
    /// As `on`, but stop, or do not start, when little is left to find.
    Auto,
}

/// What became of an earlier recall, told along with the next one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Previous {
    /// The earlier recall.
    pub recall_id: String,
    /// Ids of its memories that were used.
    pub used: Vec<String>,
    /// The answer that was given, with its `[n]` citations.
    pub answer: Option<String>,
}

/// A question to the memory.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RecallRequest {
    /// The question, not blank.
    pub query: String,
    /// How many memories at most, 1 to 100; 5 if not given.
    pub top_k: Option<usize>,
    /// Stop adding memories once their text has about this many tokens (four bytes each).
    pub max_tokens: Option<usize>,
    /// Which memories may answer.
    pub scope: Scope,
    /// Whether to spend critic calls.
    pub explore: Explore,
    /// Most critic calls for this question, up to 50; the recipe's own number if not given.
    pub max_critic_calls: Option<usize>,
    /// Closes an earlier recall on the way.
    pub previous: Option<Previous>,
    /// The vector of the query `[d]`, if the caller has it already.
    pub query_vector: Option<Vec<f32>>,
    /// Answer nothing rather than something of which no memory fits with at least this chance, in [0, 1]. Where the
    /// chance cannot be told (see [`Recall::confidence`]) the memories are answered.
    pub min_confidence: Option<f32>,
}

impl RecallRequest {
    /// A question with nothing but its text.
    pub fn new(query: impl Into<String>) -> Self {
        RecallRequest { query: query.into(), ..Default::default() }
    }
}

/// The terms that a score is made of.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Scores {
    /// Cosine of query and memory, before learning.
    pub dense: f32,
    /// BM25 of the words that both share; 0 if none.
    pub lexical: f32,
    /// Score of the static ranking.
    pub base: f32,
    /// Score after learning.
    pub learned: f32,
}

/// One recalled memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Recalled {
    /// Place in the answer, from 1; the `[n]` of the context.
    pub rank: usize,
    /// Score that the answer is sorted by; higher is better; comparable within one answer.
    pub score: f32,
    /// What the score is made of.
    pub scores: Scores,
    /// Place in the static ranking, from 1.
    pub base_rank: usize,
    /// Whether exploration, not relevance alone, put it here.
    pub explored: bool,
    /// The memory.
    #[serde(flatten)]
    pub memory: Memory,
}

/// The answer to a [`RecallRequest`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Recall {
    /// Names this recall in `feedback`, `refine` and `explain`.
    pub recall_id: String,
    /// Where it was asked.
    pub namespace: String,
    /// Version of the learned state that ranked it; 0 is the static ranking.
    pub learning_version: i64,
    /// Best first.
    pub results: Vec<Recalled>,
    /// The results as numbered text for a prompt: `[1] ...` a line.
    pub context: String,
    /// Whether nothing fitting was found: no memory at all, or less confidence than was asked for.
    pub abstained: bool,
    /// Estimated chance, in [0, 1], that at least one of the memories is useful; the more feedback, the better it
    /// fits. `None` where it cannot be told: in a namespace of under 50 memories until something was learned, and under
    /// the `paper` recipe, whose scores are no odds.
    pub confidence: Option<f32>,
    /// Calls of the critic that were spent.
    pub critic_calls: usize,
    /// Why the critic was not asked further, where it failed or said nothing readable; the memories are the best ones
    /// all the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
    /// Wall time.
    pub took_ms: f64,
}

/// What silence about a shown memory means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Uncited {
    /// It was not useful.
    Negative,
    /// Nothing.
    Ignore,
}

/// What was useful in the slate of one recall.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Feedback {
    /// Ids of shown memories that helped.
    pub useful: Vec<String>,
    /// Ids of shown memories that did not.
    pub not_useful: Vec<String>,
    /// An answer with `[n]` citations to read the labels from.
    pub answer: Option<String>,
    /// How to read silence; by default negative for a completely cited `answer`, else ignored.
    pub uncited: Option<Uncited>,
}

/// What a feedback call did.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FeedbackReport {
    /// The recall.
    pub recall_id: String,
    /// Ids labelled useful.
    pub useful: Vec<String>,
    /// Ids labelled not useful.
    pub not_useful: Vec<String>,
    /// Numbers cited in the answer that no place of the slate has.
    pub unknown_citations: Vec<usize>,
    /// Whether the recall is closed now and learned from; `false` if no label could be read.
    pub closed: bool,
    /// Whether the same feedback had been given before; then nothing changed.
    pub repeated: bool,
    /// Version of the learned state after this call.
    pub learning_version: i64,
}
