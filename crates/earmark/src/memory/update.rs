//! `update`: a memory is corrected in place.

use jiff::Timestamp;

use super::{
    Namespace,
    remember::{check_content, encoded_text, lexical_text},
};
use crate::{
    encode::Side,
    error::Result,
    record::{Memory, Metadata},
    store::{NewContent, Patch},
};

/// Changes to a memory; `None` leaves a part as it is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Change {
    /// New text, not blank.
    pub content: Option<String>,
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

impl Change {
    /// Whether what is encoded or indexed by words changes.
    fn touches_text(&self) -> bool {
        self.content.is_some() || self.author.is_some() || self.occurred_at.is_some()
    }
}

impl Namespace {
    /// Changes the memory `id` and returns it as it is then; its id and `created_at` stay. Vector and words follow
    /// the text; recalls that showed the memory keep their labels.
    ///
    /// # Errors
    /// [`Error::NotFound`](crate::Error::NotFound); [`Error::InvalidInput`](crate::Error::InvalidInput) for blank
    /// content; [`Error::Conflict`](crate::Error::Conflict) if it would be the same as another memory; encoder and
    /// storage errors. Nothing is changed then.
    pub fn update(&self, id: &str, change: &Change) -> Result<Memory> {
        let old = self.get(id)?;
        if let Some(content) = &change.content {
            check_content("content", content)?;
        }
        let content = if change.touches_text() { Some(self.new_content(&old, change)?) } else { None };
        let patch = Patch {
            content,
            author: change.author.clone(),
            kind: change.kind.clone(),
            metadata: change.metadata.clone(),
            tags: change.tags.clone(),
            occurred_at: change.occurred_at,
        };
        self.store.update(id, patch)
    }

    fn new_content(&self, old: &Memory, change: &Change) -> Result<NewContent> {
        let content = change.content.clone().unwrap_or_else(|| old.content.clone());
        let author = change.author.clone().unwrap_or_else(|| old.author.clone());
        let occurred_at = change.occurred_at.unwrap_or(old.occurred_at);
        let vector = self.encode(&[encoded_text(author.as_deref(), &content)], Side::Memory)?.swap_remove(0);
        let words = lexical_text(author.as_deref(), occurred_at, &content);
        Ok(NewContent { content, vector, words })
    }
}
