//! What goes into the store and comes out of it, as plain data.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::words::Scores;
use crate::lexical::{Collection, Moments, WordScore};
use crate::record::{Metadata, NewMemory, Scope};

/// Number of a memory within its namespace: given in order of arrival, never given twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Row(pub i64);

/// The encoder whose vectors a namespace holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EncoderStamp {
    /// Name of the model, with whatever tells two versions of it apart.
    pub model: String,
    /// Length of its vectors.
    pub dimension: usize,
}

/// One memory to store.
#[derive(Debug, Clone, PartialEq)]
pub struct Insert {
    /// The memory.
    pub memory: NewMemory,
    /// Its vector `[d]`; the store scales it to unit length.
    pub vector: Vec<f32>,
    /// The text that the word index sees.
    pub words: String,
}

/// New text of a memory, with what follows from it.
#[derive(Debug, Clone, PartialEq)]
pub struct NewContent {
    /// The text.
    pub content: String,
    /// Its vector `[d]`.
    pub vector: Vec<f32>,
    /// The text that the word index sees.
    pub words: String,
}

/// Changes to a memory; `None` leaves a part as it is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Patch {
    /// New text, vector and words.
    pub content: Option<NewContent>,
    /// New author; `Some(None)` removes it.
    pub author: Option<Option<String>>,
    /// New kind.
    pub kind: Option<String>,
    /// New metadata, in place of all of the old.
    pub metadata: Option<Metadata>,
    /// New tags, in place of all of the old.
    pub tags: Option<Vec<String>>,
    /// New time; `Some(None)` removes it.
    pub occurred_at: Option<Option<Timestamp>>,
}

/// What to forget.
#[derive(Debug, Clone, Copy)]
pub enum What<'a> {
    /// The memories with these ids; unknown ids are passed over.
    Ids(&'a [String]),
    /// Every memory of the scope; the empty scope is everything.
    Scope(&'a Scope),
}

/// One search result.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hit {
    /// The memory.
    pub row: Row,
    /// Cosine, or BM25 score.
    pub score: f32,
}

/// Result of a search by words.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WordHits {
    /// The best, best first.
    pub hits: Vec<Hit>,
    /// BM25 over all memories of the namespace.
    pub moments: Moments,
    /// The same for [`WordScore::rare`].
    pub rare_moments: Moments,
    /// What each scored word makes up of the query, by its idf; with the words that are not scored they sum to 1.
    /// [`coverage`](crate::lexical::coverage) reads them.
    pub weights: Vec<f32>,
    /// Numbers of the word index.
    pub collection: Collection,
    pub(crate) scores: Scores,
}

impl WordHits {
    /// What the shared words are worth for any memory of the namespace, at no cost.
    pub fn score(&self, row: Row) -> WordScore {
        self.scores.of(row)
    }
}

/// The memories around one in its session, nearest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Neighbours {
    /// Those before it.
    pub before: Vec<Row>,
    /// Those after it.
    pub after: Vec<Row>,
}

/// One candidate of a recall.
#[derive(Debug, Clone, PartialEq)]
pub struct CandidateLog {
    /// The memory.
    pub row: Row,
    /// Numbers the ranking saw; the same count for all candidates of a recall.
    pub features: Vec<f32>,
}

/// One place of a slate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlateEntry {
    /// The memory shown there.
    pub row: Row,
    /// Whether it was shown to learn, and not for its rank.
    pub explored: bool,
}

/// A recall as it is answered; the first slate is round 0.
#[derive(Debug, Clone, PartialEq)]
pub struct RecallLog {
    /// Id given to the caller.
    pub id: String,
    /// The query as it came.
    pub query: String,
    /// Raw vector of the query, before any adapter.
    pub query_vector: Vec<f32>,
    /// The scope of the recall, as JSON of the caller's making.
    pub scope_json: String,
    /// Learned state that ranked it.
    pub learning_version: i64,
    /// Name of the recipe.
    pub recipe: String,
    /// What was ranked, in the order of ranking.
    pub candidates: Vec<CandidateLog>,
    /// What was shown.
    pub slate: Vec<SlateEntry>,
    /// When.
    pub created_at: Timestamp,
}

/// Whether a recall still takes feedback.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum RecallState {
    /// It takes feedback.
    Open,
    /// Feedback closed it: it is an experience.
    Closed,
    /// It waited too long, or what it was about is forgotten; only its id is left.
    Expired,
}

/// A judgement about one memory of a slate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// The memory.
    pub row: Row,
    /// Whether it helped.
    pub useful: bool,
    /// Who says so (`citation`, `user`, `critic`, ...).
    pub source: String,
}

/// One slate of a recall with its labels so far.
#[derive(Debug, Clone, PartialEq)]
pub struct Round {
    /// What was shown, in order.
    pub slate: Vec<SlateEntry>,
    /// Labels, in order of row.
    pub labels: Vec<Label>,
}

/// A recall as it is kept. Forgotten memories are in none of its lists.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredRecall {
    /// What was logged; of an expired recall only `id` and `created_at` are left.
    pub log: RecallLog,
    /// All rounds; the first has the slate of the log.
    pub rounds: Vec<Round>,
    /// Whether it still takes feedback.
    pub state: RecallState,
    /// When it was closed or expired.
    pub closed_at: Option<Timestamp>,
    /// Place among the experiences, from 1; `None` while not closed.
    pub sequence: Option<i64>,
}

/// How much a namespace holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Memories.
    pub memories: u64,
    /// Recalls of any state.
    pub recalls: u64,
    /// Recalls that wait for feedback.
    pub open: u64,
    /// Experiences.
    pub closed: u64,
    /// Recalls that were let go.
    pub expired: u64,
    /// Labels "useful", by source.
    pub positive_by_source: std::collections::BTreeMap<String, u64>,
    /// Labels "not useful", by source.
    pub negative_by_source: std::collections::BTreeMap<String, u64>,
}

/// A learned state to keep.
#[derive(Debug, Clone, PartialEq)]
pub struct Learned {
    /// Version it was learned from; 0 is "nothing learned".
    pub parent: i64,
    /// Last experience that went into it.
    pub through_sequence: i64,
    /// The state, in the learner's own form.
    pub blob: Vec<u8>,
    /// For people: sizes, scores, reasons.
    pub summary: serde_json::Value,
}

/// A learned state that is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredLearned {
    /// Its version, from 1.
    pub version: i64,
    /// The state.
    pub learned: Learned,
    /// When it was kept.
    pub created_at: Timestamp,
}

/// Bytes on disk of one namespace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct DiskUsage {
    /// The database with its log.
    pub database_bytes: u64,
    /// The vector segments, which can be rebuilt.
    pub segments_bytes: u64,
}

/// Something whose vector the new encoder has not made yet.
#[derive(Debug, Clone, PartialEq)]
pub enum ToReembed {
    /// A memory, to be encoded as at `remember`.
    Memory(Row, Box<crate::record::Memory>),
    /// The query of a recall.
    Query {
        /// The recall.
        recall_id: String,
        /// Its text.
        query: String,
    },
}

/// A vector of the new encoder.
#[derive(Debug, Clone, PartialEq)]
pub enum Reembedded {
    /// Of a memory.
    Memory(Row, Vec<f32>),
    /// Of the query of a recall.
    Query(String, Vec<f32>),
}
