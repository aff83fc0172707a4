//! Memories in and out as JSON lines.

use std::io::Write;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Namespace, remember::check_content};
use crate::{
    error::{Error, Result},
    record::{NewMemory, Scope},
    time::parse_instant,
};

/// What an import did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Imported {
    /// Memories stored.
    pub created: usize,
    /// Memories that were stored before.
    pub existing: usize,
    /// Lines that hold no memory, with the reason.
    pub refused: Vec<Refused>,
}

/// A line that was not imported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Refused {
    /// Line number from 1.
    pub line: usize,
    /// Why, in words.
    pub reason: String,
}

impl Namespace {
    /// Writes every memory as one JSON object a line, oldest first, and returns how many.
    ///
    /// # Errors
    /// Storage errors, and [`Error::Io`] if `out` cannot be written.
    pub fn export(&self, out: &mut dyn Write) -> Result<usize> {
        const PAGE: usize = 1000;
        let (mut count, mut after) = (0, None);
        loop {
            let page = self.store.list(&Scope::default(), after, PAGE)?;
            for (row, memory) in &page {
                let line = serde_json::to_string(memory).map_err(|e| Error::invalid("export", e.to_string()))?;
                writeln!(out, "{line}").map_err(|e| Error::Io { path: "output".into(), reason: e.to_string() })?;
                after = Some(*row);
            }
            count += page.len();
            if page.len() < PAGE {
                return Ok(count);
            }
        }
    }

    /// Stores the memories of JSON lines (the form that [`Namespace::export`] writes, or any object with `content`);
    /// good lines are stored, others reported. `progress` hears of the memories done so far and of all.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] if the text is not UTF-8; encoder and storage errors, after which the lines before
    /// stay stored and importing again continues.
    pub fn import(&self, bytes: &[u8], progress: &mut dyn FnMut(usize, usize)) -> Result<Imported> {
        let (items, refused) = read_lines(bytes)?;
        self.import_items(&items, refused, progress)
    }

    /// Stores memories that another reader made, in portions.
    ///
    /// # Errors
    /// As [`Namespace::import`].
    pub fn import_items(
        &self,
        items: &[NewMemory],
        refused: Vec<Refused>,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Imported> {
        const PORTION: usize = 256;
        let mut report = Imported { refused, ..Default::default() };
        for (i, portion) in items.chunks(PORTION).enumerate() {
            let remembered = self.remember(portion)?;
            let created = remembered.iter().filter(|r| r.created).count();
            report.created += created;
            report.existing += remembered.len() - created;
            progress(i * PORTION + portion.len(), items.len());
        }
        Ok(report)
    }
}

/// Reads JSON lines; a byte order mark, blank lines and any line end are fine.
fn read_lines(bytes: &[u8]) -> Result<(Vec<NewMemory>, Vec<Refused>)> {
    let text = decode(bytes)?;
    let (mut items, mut refused) = (Vec::new(), Vec::new());
    for (i, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        match read_line(line) {
            Ok(item) => items.push(item),
            Err(reason) => refused.push(Refused { line: i + 1, reason }),
        }
    }
    Ok((items, refused))
}

fn decode(bytes: &[u8]) -> Result<&str> {
    if bytes.starts_with(&[0xFF, 0xFE]) || bytes.starts_with(&[0xFE, 0xFF]) {
        return Err(Error::invalid("input", "is encoded as UTF-16; save it as UTF-8 and import it again"));
    }
    let bytes = bytes.strip_prefix(&[0xEF, 0xBB, 0xBF]).unwrap_or(bytes);
    std::str::from_utf8(bytes).map_err(|e| {
        let line = 1 + bytes[..e.valid_up_to()].iter().filter(|&&b| b == b'\n').count();
        Error::invalid("input", format!("is not UTF-8 text (first bad byte on line {line}); nothing was imported"))
    })
}

fn read_line(line: &str) -> std::result::Result<NewMemory, String> {
    let value: Value = serde_json::from_str(line).map_err(|e| format!("is not JSON: {e}"))?;
    let Value::Object(fields) = value else { return Err("is not a JSON object".to_owned()) };
    let memory = read_memory(fields).map_err(|e| e.to_string())?;
    check_content("content", &memory.content).map_err(|e| e.to_string())?;
    Ok(memory)
}

/// Reads one memory; `memory` and `text` stand for `content`, times are read leniently, and what only a store
/// gives (`id`, `created_at`) is passed over.
fn read_memory(mut fields: Map<String, Value>) -> Result<NewMemory> {
    for given in ["id", "created_at"] {
        fields.shift_remove(given);
    }
    fields.retain(|_, value| !value.is_null());
    for alias in ["memory", "text"] {
        if !fields.contains_key("content")
            && let Some(content) = fields.shift_remove(alias)
        {
            fields.insert("content".into(), content);
        }
    }
    if !fields.contains_key("content") {
        return Err(Error::invalid("content", "is missing"));
    }
    if let Some(at) = fields.shift_remove("occurred_at") {
        let instant = parse_instant("occurred_at", &at)?;
        fields.insert("occurred_at".into(), instant.to_string().into());
    }
    serde_json::from_value(Value::Object(fields)).map_err(|e| Error::invalid("memory", format!("cannot be read: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_order_mark_and_bad_lines() {
        let mut bytes = vec![0xEF, 0xBB, 0xBF];
        bytes.extend(b"{\"content\":\"first apple\"}\r\n\r\n{\"content\":\"second pear\"}\n{\"content\":\n");
        bytes.extend(b"{\"kind\":\"entity\"}\n{\"content\":\"third plum\"}");
        let (items, refused) = read_lines(&bytes).unwrap();
        let contents: Vec<_> = items.iter().map(|i| i.content.as_str()).collect();
        assert_eq!(contents, ["first apple", "second pear", "third plum"]);
        assert_eq!(refused.iter().map(|r| r.line).collect::<Vec<_>>(), [4, 5]);
    }

    #[test]
    fn utf16_and_broken_text_are_told_apart() {
        let utf16: Vec<u8> = "\u{feff}{}".encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert!(read_lines(&utf16).unwrap_err().to_string().contains("UTF-16"));
        assert!(read_lines(b"{}\n\xff").unwrap_err().to_string().contains("line 2"));
    }

    #[test]
    fn misspelt_fields_are_named() {
        let error = read_line(r#"{"content":"x","occured_at":"2027-01-01"}"#).unwrap_err();
        assert!(error.contains("occured_at"), "{error}");
        let exported = r#"{"id":"m_1","content":"x","author":null,"kind":"episodic","metadata":{},"tags":[],
            "user_id":null,"agent_id":null,"session_id":null,"occurred_at":"2027-01-01","created_at":"2027-01-01"}"#;
        assert_eq!(
            read_line(&exported.replace('\n', "")).unwrap().occurred_at.unwrap().to_string(),
            "2027-01-01T00:00:00Z"
        );
    }
}
