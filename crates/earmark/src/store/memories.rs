//! Memories: storing, reading, listing.

use std::collections::HashSet;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Statement, params};
use uuid::Uuid;

use super::attributes::{self, Attribute};
use super::database::{Attempt, add_meta, meta_number};
use super::lexicon::{self, Document};
use super::rows::{COLUMNS, memory, sameness};
use super::scope::{Condition, accepts};
use super::{Insert, Neighbours, Row, Store, pack};
use crate::error::{Error, Result};
use crate::record::{Memory, NewMemory, Remembered, Scope};
use crate::vector;

/// A memory that has been looked over, ready to be written.
struct Prepared {
    memory: NewMemory,
    sameness: [u8; 32],
    vector: Vec<f32>,
    document: Document,
    words: Option<String>,
    attributes: Vec<Attribute>,
}

impl Store {
    /// Stores memories in one transaction that is on the disk when this returns; one entry per item, in order.
    /// A memory with the content, author, scopes and time of a stored one is that one (`created` is false).
    /// Times are kept to the microsecond.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for blank content, a vector of another length than the encoder's or with
    /// numbers that are not finite, or metadata of more than 4,096 values; [`Error::EncoderMismatch`] if the
    /// namespace went over to another encoder; nothing is stored then.
    pub fn insert(&self, items: Vec<Insert>) -> Result<Vec<Remembered>> {
        let prepare = |(i, item)| prepare(item, &format!("items[{i}]."));
        let prepared = items.into_iter().enumerate().map(prepare).collect::<Result<Vec<_>>>()?;
        self.database.write(|transaction| {
            let dimension = self.check_encoder(transaction)?;
            check_dimensions(&prepared, dimension)?;
            insert_all(transaction, prepared)
        })
    }

    /// For each item the id of the stored memory that it would be, if there is one.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn existing(&self, items: &[NewMemory]) -> Result<Vec<Option<String>>> {
        let keys: Vec<[u8; 32]> = items.iter().map(|item| sameness(&to_microseconds(item.clone()))).collect();
        self.database.read(|snapshot| keys.iter().map(|key| id_of(snapshot, key)).collect())
    }

    /// The memory with this id.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn get(&self, id: &str) -> Result<Option<Memory>> {
        self.database.read(|snapshot| Ok(find(snapshot, id)?.map(|(_, memory)| memory)))
    }

    /// The memories of these rows, in the order asked for; rows that are gone are left out.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn memories(&self, rows: &[Row]) -> Result<Vec<(Row, Memory)>> {
        let sql = format!("SELECT {COLUMNS} FROM memories m WHERE m.row = ?1");
        self.database.read(|snapshot| {
            let mut statement = snapshot.prepare_cached(&sql)?;
            let found = rows.iter().map(|row| Ok(statement.query_row([row.0], memory).optional()?));
            Ok(found.collect::<Attempt<Vec<_>>>()?.into_iter().flatten().collect())
        })
    }

    /// The rows of these ids, in order; `None` for an id that is not there.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn rows(&self, ids: &[&str]) -> Result<Vec<Option<Row>>> {
        self.database.read(|snapshot| ids.iter().map(|id| row_of(snapshot, id)).collect())
    }

    /// Up to `limit` memories of the scope in row order, those after row `after`.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn list(&self, scope: &Scope, after: Option<Row>, limit: usize) -> Result<Vec<(Row, Memory)>> {
        self.page(scope, "m.row > ? ORDER BY m.row", after.map_or(i64::MIN, |row| row.0), limit)
    }

    /// As [`Store::list`], the newest first; `before` is the last row of the page before.
    ///
    /// # Errors
    /// As [`Store::list`].
    pub fn list_newest(&self, scope: &Scope, before: Option<Row>, limit: usize) -> Result<Vec<(Row, Memory)>> {
        self.page(scope, "m.row < ? ORDER BY m.row DESC", before.map_or(i64::MAX, |row| row.0), limit)
    }

    fn page(&self, scope: &Scope, order: &str, bound: i64, limit: usize) -> Result<Vec<(Row, Memory)>> {
        let condition = Condition::of_scope(scope);
        let sql = format!("SELECT {COLUMNS} FROM memories m WHERE {} AND {order} LIMIT ?", condition.sql);
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.database.read(|snapshot| {
            let values = condition.with([bound.into(), limit.into()]);
            let mut statement = snapshot.prepare(&sql)?;
            let found = statement.query_map(rusqlite::params_from_iter(values), memory)?;
            Ok(found.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Number of memories.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn count(&self) -> Result<u64> {
        self.database.read(|snapshot| Ok(meta_number(snapshot, "memories")?.max(0) as u64))
    }

    /// Which of `rows` the scope accepts, in order.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn within(&self, scope: &Scope, rows: &[Row]) -> Result<Vec<bool>> {
        self.database.read(|snapshot| accepts(snapshot, scope, rows))
    }

    /// Of each memory up to `reach` others before it and as many after it in its session (same `session_id` and
    /// `user_id`, by `occurred_at`, or `created_at` without it, then by row), nearest first; none without a session.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn neighbours(&self, memories: &[(Row, Memory)], reach: usize) -> Result<Vec<Neighbours>> {
        self.database.read(|snapshot| {
            let mut before = snapshot.prepare_cached(BEFORE)?;
            let mut after = snapshot.prepare_cached(AFTER)?;
            let both = |(row, memory): &(Row, Memory)| {
                let Some(session) = &memory.session_id else { return Ok(Neighbours::default()) };
                let at = memory.occurred_at.unwrap_or(memory.created_at).as_microsecond();
                let find = |side: &mut Statement<'_>| {
                    let values = params![session, memory.user_id, at, row.0, reach as i64];
                    side.query_map(values, |found| found.get(0).map(Row))?.collect::<rusqlite::Result<_>>()
                };
                Ok(Neighbours { before: find(&mut before)?, after: find(&mut after)? })
            };
            memories.iter().map(both).collect()
        })
    }
}

// The first comparison of times says nothing new, but the index can follow it.
const BEFORE: &str = "
SELECT row FROM memories
WHERE session_id = ?1 AND user_id IS ?2
  AND ifnull(occurred_at, created_at) <= ?3 AND (ifnull(occurred_at, created_at), row) < (?3, ?4)
ORDER BY ifnull(occurred_at, created_at) DESC, row DESC LIMIT ?5";
const AFTER: &str = "
SELECT row FROM memories
WHERE session_id = ?1 AND user_id IS ?2
  AND ifnull(occurred_at, created_at) >= ?3 AND (ifnull(occurred_at, created_at), row) > (?3, ?4)
ORDER BY ifnull(occurred_at, created_at), row LIMIT ?5";

fn prepare(item: Insert, place: &str) -> Result<Prepared> {
    let memory = to_microseconds(item.memory);
    check_content(&memory.content, &format!("{place}content"))?;
    let attributes = attributes::attributes(&memory.metadata, &memory.tags).map_err(|error| at(error, place))?;
    Ok(Prepared {
        sameness: sameness(&memory),
        vector: unit(item.vector, &format!("{place}vector"))?,
        document: Document::new(&item.words),
        words: (item.words != memory.content).then_some(item.words),
        attributes,
        memory,
    })
}

fn at(error: Error, place: &str) -> Error {
    match error {
        Error::InvalidInput { field, reason } => Error::invalid(format!("{place}{field}"), reason),
        other => other,
    }
}

/// Blank text says nothing and would match anything.
pub(crate) fn check_content(content: &str, field: &str) -> Result<()> {
    if content.chars().all(|c| c.is_whitespace() || matches!(c, '\u{200b}' | '\u{feff}')) {
        return Err(Error::invalid(field, "is blank; a memory needs text"));
    }
    Ok(())
}

/// `vector` at unit length.
pub(crate) fn unit(mut vector: Vec<f32>, field: &str) -> Result<Vec<f32>> {
    if vector.is_empty() || vector.iter().any(|x| !x.is_finite()) {
        return Err(Error::invalid(field, "must hold finite numbers"));
    }
    vector::normalize(&mut vector);
    Ok(vector)
}

fn to_microseconds(mut memory: NewMemory) -> NewMemory {
    memory.occurred_at = memory.occurred_at.map(floor_time);
    memory
}

/// The time as it is kept.
pub(crate) fn floor_time(at: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(at)
}

fn check_dimensions(prepared: &[Prepared], dimension: usize) -> Result<()> {
    match prepared.iter().position(|item| item.vector.len() != dimension) {
        Some(i) => Err(wrong_dimension(&format!("items[{i}].vector"), dimension, prepared[i].vector.len())),
        None => Ok(()),
    }
}

/// A vector of the wrong length.
pub(crate) fn wrong_dimension(field: &str, expected: usize, received: usize) -> Error {
    Error::invalid(field, format!("has {received} dimensions, the namespace's encoder has {expected}"))
}

fn insert_all(connection: &Connection, prepared: Vec<Prepared>) -> Attempt<Vec<Remembered>> {
    let epoch = meta_number(connection, "epoch")?;
    let (mut answers, mut documents) = (Vec::with_capacity(prepared.len()), Vec::new());
    for item in prepared {
        let id = format!("m_{}", Uuid::now_v7().simple());
        match insert_memory(connection, &id, &item)? {
            Some(row) => {
                insert_vector(connection, row, epoch, &item.vector)?;
                attributes::insert(connection, row, &item.attributes)?;
                documents.push((row, item.document));
                answers.push(Remembered { id, created: true });
            }
            None => {
                let id = id_of(connection, &item.sameness)?.unwrap_or_default();
                answers.push(Remembered { id, created: false });
            }
        }
    }
    lexicon::add(connection, &documents)?;
    add_meta(connection, "memories", documents.len() as i64)?;
    Ok(answers)
}

/// The new row; `None` if the memory is there.
fn insert_memory(connection: &Connection, id: &str, item: &Prepared) -> Attempt<Option<Row>> {
    let sql = "INSERT INTO memories
        (id, sameness, content, words, author, kind, metadata, tags, user_id, agent_id, session_id, occurred_at, created_at)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
        ON CONFLICT (sameness) DO NOTHING RETURNING row";
    let memory = &item.memory;
    let values = params![
        id,
        item.sameness,
        memory.content,
        item.words,
        memory.author,
        memory.kind.as_deref().unwrap_or("episodic"),
        to_json(&memory.metadata),
        to_json(&memory.tags),
        memory.user_id,
        memory.agent_id,
        memory.session_id,
        memory.occurred_at.map(|at| at.as_microsecond()),
        Timestamp::now().as_microsecond(),
    ];
    Ok(connection.prepare_cached(sql)?.query_row(values, |row| row.get(0)).optional()?.map(Row))
}

/// JSON text of a value that cannot fail to have one.
pub(crate) fn to_json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// Keeps the vector of `row` for `epoch`.
pub(crate) fn insert_vector(connection: &Connection, row: Row, epoch: i64, vector: &[f32]) -> Attempt<()> {
    let sql = "INSERT INTO vectors (row, epoch, vector) VALUES (?1, ?2, ?3)";
    connection.prepare_cached(sql)?.execute(params![row.0, epoch, pack::floats(vector)])?;
    Ok(())
}

fn id_of(connection: &Connection, sameness: &[u8; 32]) -> Attempt<Option<String>> {
    let mut statement = connection.prepare_cached("SELECT id FROM memories WHERE sameness = ?1")?;
    Ok(statement.query_row([sameness], |row| row.get(0)).optional()?)
}

/// The row of an id.
pub(crate) fn row_of(connection: &Connection, id: &str) -> Attempt<Option<Row>> {
    let mut statement = connection.prepare_cached("SELECT row FROM memories WHERE id = ?1")?;
    Ok(statement.query_row([id], |row| row.get(0)).optional()?.map(Row))
}

/// The memory of an id.
pub(crate) fn find(connection: &Connection, id: &str) -> Attempt<Option<(Row, Memory)>> {
    let sql = format!("SELECT {COLUMNS} FROM memories m WHERE m.id = ?1");
    Ok(connection.prepare_cached(&sql)?.query_row([id], memory).optional()?)
}

/// Those of `rows` that are there.
pub(crate) fn living(connection: &Connection, rows: impl Iterator<Item = Row>) -> Attempt<HashSet<Row>> {
    let mut statement = connection.prepare_cached("SELECT 1 FROM memories WHERE row = ?1")?;
    let mut living = HashSet::new();
    for row in rows {
        if statement.exists([row.0])? {
            living.insert(row);
        }
    }
    Ok(living)
}
