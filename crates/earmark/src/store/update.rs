//! Changing a memory in place.

use rusqlite::{Connection, params};

use super::attributes;
use super::database::{Attempt, Failure, add_meta, meta_number};
use super::kept::CHANGES;
use super::lexicon::{self, Document};
use super::memories::{check_content, find, floor_time, insert_vector, to_json, unit, wrong_dimension};
use super::rows::{as_new, sameness};
use super::{NewContent, Patch, Row, Store};
use crate::error::{Error, Result};
use crate::record::Memory;

impl Store {
    /// Changes the memory `id` and returns it as it is then. Its row, id and `created_at` stay.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::InvalidInput`] as at [`Store::insert`]; [`Error::Conflict`] if it
    /// would be the same as another memory.
    pub fn update(&self, id: &str, patch: Patch) -> Result<Memory> {
        let content = patch.content.clone().map(prepare).transpose()?;
        self.database.write(|transaction| {
            let (row, memory) = find(transaction, id)?.ok_or_else(|| Error::not_found("memory", id))?;
            let changed = apply(memory, patch);
            write_memory(transaction, row, &changed)?;
            add_meta(transaction, CHANGES, 1)?;
            if let Some(content) = &content {
                let dimension = self.check_encoder(transaction)?;
                write_content(transaction, row, &changed, content, dimension)?;
            }
            Ok(changed)
        })
    }
}

fn prepare(mut content: NewContent) -> Result<(NewContent, Document)> {
    check_content(&content.content, "content")?;
    content.vector = unit(content.vector, "vector")?;
    let document = Document::new(&content.words);
    Ok((content, document))
}

fn apply(memory: Memory, patch: Patch) -> Memory {
    Memory {
        content: patch.content.map_or(memory.content, |content| content.content),
        author: patch.author.unwrap_or(memory.author),
        kind: patch.kind.unwrap_or(memory.kind),
        metadata: patch.metadata.unwrap_or(memory.metadata),
        tags: patch.tags.unwrap_or(memory.tags),
        occurred_at: patch.occurred_at.map_or(memory.occurred_at, |at| at.map(floor_time)),
        ..memory
    }
}

fn write_memory(connection: &Connection, row: Row, memory: &Memory) -> Attempt<()> {
    let sql = "UPDATE memories SET sameness = ?2, content = ?3, author = ?4, kind = ?5, metadata = ?6, tags = ?7,
               occurred_at = ?8 WHERE row = ?1";
    let key = sameness(&as_new(memory));
    let time = memory.occurred_at.map(|at| at.as_microsecond());
    let (metadata, tags) = (to_json(&memory.metadata), to_json(&memory.tags));
    let values = params![row.0, key, memory.content, memory.author, memory.kind, metadata, tags, time];
    connection.prepare_cached(sql)?.execute(values).map_err(|error| same_as_another(error, &memory.id))?;
    attributes::remove(connection, row)?;
    attributes::insert(connection, row, &attributes::attributes(&memory.metadata, &memory.tags)?)
}

fn same_as_another(error: rusqlite::Error, id: &str) -> Failure {
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::ConstraintViolation) => {
            let reason = format!("memory `{id}` would be the same as another one; forget one of them instead");
            Error::Conflict { reason }.into()
        }
        _ => error.into(),
    }
}

fn write_content(
    connection: &Connection,
    row: Row,
    memory: &Memory,
    (content, document): &(NewContent, Document),
    dimension: usize,
) -> Attempt<()> {
    if content.vector.len() != dimension {
        return Err(wrong_dimension("vector", dimension, content.vector.len()).into());
    }
    let words = (content.words != memory.content).then_some(&content.words);
    connection.prepare_cached("UPDATE memories SET words = ?2 WHERE row = ?1")?.execute(params![row.0, words])?;
    lexicon::remove(connection, &[row])?;
    lexicon::add(connection, &[(row, document.clone())])?;
    bury_vectors(connection, row)?;
    insert_vector(connection, row, meta_number(connection, "epoch")?, &content.vector)
}

/// Removes all vectors of `row`, and says so to whoever has them in memory.
pub(crate) fn bury_vectors(connection: &Connection, row: Row) -> Attempt<()> {
    let sql = "INSERT INTO dead_vectors (seq, row) SELECT seq, row FROM vectors WHERE row = ?1";
    connection.prepare_cached(sql)?.execute([row.0])?;
    connection.prepare_cached("DELETE FROM vectors WHERE row = ?1")?.execute([row.0])?;
    Ok(())
}
