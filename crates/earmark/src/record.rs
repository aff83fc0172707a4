//! What crosses the library's border: memories, requests and answers, as plain data.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::filter::Filter;

/// Free-form key-value data of a memory.
pub type Metadata = serde_json::Map<String, serde_json::Value>;

/// A memory to be stored.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
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
    pub occurred_at: Option<Timestamp>,
    /// When it was stored.
    pub created_at: Timestamp,
}

/// What became of one [`NewMemory`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
