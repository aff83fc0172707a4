//! `remember`: texts become memories.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::Namespace;
use crate::{
    encode::Side,
    error::{Error, Result},
    record::{Metadata, NewMemory, Remembered},
    store::Insert,
    time::parse_instant,
};

/// Longest content in bytes; longer is refused, never cut.
pub const MAX_CONTENT_BYTES: usize = 16 << 20;
/// Most memories in one call.
pub const MAX_ITEMS: usize = 10_000;

impl Namespace {
    /// Stores `items`, all or none, and returns one [`Remembered`] each, in order. What is stored already
    /// (same content, author, scopes and time) is returned as it is, and nothing is encoded for it.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] names the position of a blank or overlong item; encoder and storage errors.
    /// Nothing is stored then.
    pub fn remember(&self, items: &[NewMemory]) -> Result<Vec<Remembered>> {
        check(items)?;
        let known = self.store.existing(items)?;
        let fresh: Vec<&NewMemory> =
            items.iter().zip(&known).filter(|(_, id)| id.is_none()).map(|(item, _)| item).collect();
        let mut inserted = self.insert(&fresh)?.into_iter();
        let result = known.into_iter().map(|id| match id {
            Some(id) => Some(Remembered { id, created: false }),
            None => inserted.next(),
        });
        Ok(result.flatten().collect())
    }

    fn insert(&self, items: &[&NewMemory]) -> Result<Vec<Remembered>> {
        if items.is_empty() {
            return Ok(Vec::new());
        }
        let texts: Vec<String> = items.iter().map(|item| encoded_text(item.author.as_deref(), &item.content)).collect();
        let vectors = self.encode(&texts, Side::Memory)?;
        let rows = items.iter().zip(vectors).map(|(&item, vector)| Insert {
            memory: item.clone(),
            vector,
            words: lexical_text(item.author.as_deref(), item.occurred_at, &item.content),
        });
        self.store.insert(rows.collect())
    }
}

/// The text that is encoded: it carries the author, which decides a great deal in conversations.
pub(crate) fn encoded_text(author: Option<&str>, content: &str) -> String {
    match author {
        Some(author) if !author.trim().is_empty() => format!("{author}: {content}"),
        _ => content.to_owned(),
    }
}

/// The text of the word index: author and content, and the date in words ("8 May 2023"), so that a question can name it.
pub(crate) fn lexical_text(author: Option<&str>, occurred_at: Option<Timestamp>, content: &str) -> String {
    let date = occurred_at.map(|at| at.strftime("%-d %B %Y ").to_string()).unwrap_or_default();
    format!("{date}{}", encoded_text(author, content))
}

fn check(items: &[NewMemory]) -> Result<()> {
    if items.is_empty() {
        return Err(Error::invalid("content", "is missing: give at least one text to remember"));
    }
    if items.len() > MAX_ITEMS {
        let reason = format!("has {} memories; send at most {MAX_ITEMS} in one call", items.len());
        return Err(Error::invalid("items", reason));
    }
    let single = items.len() == 1;
    items.iter().enumerate().try_for_each(|(i, item)| {
        check_content(&if single { "content".to_owned() } else { format!("items[{i}].content") }, &item.content)
    })
}

/// Refuses what is blank or far too long.
pub(crate) fn check_content(field: &str, content: &str) -> Result<()> {
    let invisible =
        |c: char| c.is_whitespace() || c.is_control() || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}');
    if content.chars().all(invisible) {
        return Err(Error::invalid(field, "is blank: there is nothing to remember"));
    }
    if content.len() > MAX_CONTENT_BYTES {
        let reason = format!("has {} bytes; the limit is {MAX_CONTENT_BYTES}", content.len());
        return Err(Error::invalid(field, reason));
    }
    Ok(())
}

/// One chat message in the form that chat APIs use.
#[derive(Debug, Clone, Default, Deserialize)]
struct Message {
    role: Option<String>,
    name: Option<String>,
    content: Value,
    timestamp: Option<Value>,
}

/// Reads chat messages `[{role, name?, content, timestamp?}]`; one message is one memory. Content in parts is
/// joined from its text parts; messages without text (tool calls, images) are left out.
///
/// # Errors
/// [`Error::InvalidInput`] that names the message.
pub fn messages(value: &Value) -> Result<Vec<NewMemory>> {
    let list = value.as_array().ok_or_else(|| Error::invalid("messages", "must be a list of {role, content}"))?;
    let read = list.iter().enumerate().map(|(i, message)| read_message(i, message));
    Ok(read.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
}

fn read_message(i: usize, value: &Value) -> Result<Option<NewMemory>> {
    let message: Message = serde_json::from_value(value.clone())
        .map_err(|e| Error::invalid(format!("messages[{i}]"), format!("is not a message: {e}")))?;
    let Some(content) = text_of(&message.content) else { return Ok(None) };
    let occurred_at = message.timestamp.as_ref().filter(|t| !t.is_null());
    let occurred_at = occurred_at.map(|t| parse_instant(&format!("messages[{i}].timestamp"), t)).transpose()?;
    let mut metadata = Metadata::new();
    if let (Some(role), Some(_)) = (&message.role, &message.name) {
        metadata.insert("role".into(), role.clone().into());
    }
    Ok(Some(NewMemory { content, author: message.name.or(message.role), metadata, occurred_at, ..Default::default() }))
}

/// The text of a message: a string, or the `text` parts of a list joined by line breaks.
fn text_of(content: &Value) -> Option<String> {
    let text = match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts = parts.iter().filter_map(|p| p.as_str().or_else(|| p.get("text")?.as_str()));
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => return None,
    };
    (!text.trim().is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn messages_of_every_shape() {
        let read = messages(&json!([
            {"role": "user", "name": "Ana", "content": "I moved.", "timestamp": 1798761600},
            {"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "image_url"}, {"type": "text", "text": "two"}]},
            {"role": "assistant", "content": null, "tool_calls": []},
        ]))
        .unwrap();
        assert_eq!(read.len(), 2);
        assert_eq!(read[0].author.as_deref(), Some("Ana"));
        assert_eq!(read[0].metadata["role"], "user");
        assert_eq!(read[0].occurred_at.unwrap().to_string(), "2027-01-01T00:00:00Z");
        assert_eq!(read[1].content, "one\ntwo");
    }

    #[test]
    fn blank_content_names_its_place() {
        let items = [NewMemory::new("good"), NewMemory::new(" \n\u{200b}")];
        let error = check(&items).unwrap_err().to_string();
        assert!(error.contains("items[1].content"), "{error}");
        assert!(check(&[NewMemory::new("…"), NewMemory::new("🫥")]).is_ok());
    }

    #[test]
    fn texts_carry_author_and_date() {
        let at = "2023-05-08T13:56:00Z".parse().ok();
        assert_eq!(lexical_text(Some("Ana"), at, "Hello"), "8 May 2023 Ana: Hello");
        assert_eq!(encoded_text(None, "Hello"), "Hello");
    }
}
