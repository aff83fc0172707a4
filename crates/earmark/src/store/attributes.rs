//! Metadata and tags as rows that filters can look up.

use rusqlite::{Connection, params, types::Value as Sql};
use serde_json::Value;

use super::Row;
use super::database::Attempt;
use crate::error::{Error, Result};
use crate::filter::{Number, flatten};
use crate::record::Metadata;

/// Key of the tags; metadata keys have [`METADATA`] before them.
pub(crate) const TAGS: &str = "tags";
/// Before the path of every metadata value.
pub(crate) const METADATA: &str = "metadata.";
/// Nesting that filters reach into.
const MAX_DEPTH: usize = 16;
/// Values of one memory.
const MAX_ATTRIBUTES: usize = 4_096;

/// Type of a stored value; the elements of a list have [`ELEMENT`] added.
pub(crate) const BOOL: i64 = 1;
pub(crate) const NUMBER: i64 = 2;
pub(crate) const TEXT: i64 = 3;
/// That there is a list or an object, whatever is in it.
const COLLECTION: i64 = 4;
pub(crate) const ELEMENT: i64 = 10;

/// One value that filters can find.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Attribute {
    key: String,
    kind: i64,
    value: Sql,
}

/// All attributes of a memory.
///
/// # Errors
/// [`Error::InvalidInput`] if there are more than 4,096.
pub(crate) fn attributes(metadata: &Metadata, tags: &[String]) -> Result<Vec<Attribute>> {
    let mut found = Vec::new();
    for (path, value) in flatten(metadata, MAX_DEPTH) {
        push(&mut found, format!("{METADATA}{path}"), value);
    }
    if !tags.is_empty() {
        push(&mut found, TAGS.to_owned(), &Value::from(tags.to_vec()));
    }
    if found.len() > MAX_ATTRIBUTES {
        let reason = format!("has {} values; the limit is {MAX_ATTRIBUTES}", found.len());
        return Err(Error::invalid("metadata", reason));
    }
    Ok(found)
}

fn push(found: &mut Vec<Attribute>, key: String, value: &Value) {
    match value {
        Value::Null => (),
        Value::Array(elements) => {
            let scalars = elements.iter().filter_map(scalar);
            found.extend(scalars.map(|(kind, value)| Attribute { key: key.clone(), kind: kind + ELEMENT, value }));
            found.push(Attribute { key, kind: COLLECTION, value: Sql::Integer(0) });
        }
        Value::Object(_) => found.push(Attribute { key, kind: COLLECTION, value: Sql::Integer(0) }),
        other => found.extend(scalar(other).map(|(kind, value)| Attribute { key, kind, value })),
    }
}

fn scalar(value: &Value) -> Option<(i64, Sql)> {
    match value {
        Value::Bool(value) => Some((BOOL, Sql::Integer(i64::from(*value)))),
        Value::Number(value) => Some((NUMBER, number(Number::from_json(value)))),
        Value::String(value) => Some((TEXT, Sql::Text(value.clone()))),
        _ => None,
    }
}

/// A number as SQLite compares it: exactly, whole or not.
pub(crate) fn number(number: Number) -> Sql {
    match number {
        Number::Whole(whole) => Sql::Integer(whole),
        Number::Real(real) => Sql::Real(real),
    }
}

/// Keeps the attributes of `row`; a value that a list has twice is kept once.
pub(crate) fn insert(connection: &Connection, row: Row, attributes: &[Attribute]) -> Attempt<()> {
    let sql = "INSERT OR IGNORE INTO attributes (key, type, value, row) VALUES (?1, ?2, ?3, ?4)";
    let mut statement = connection.prepare_cached(sql)?;
    for attribute in attributes {
        statement.execute(params![attribute.key, attribute.kind, attribute.value, row.0])?;
    }
    Ok(())
}

/// Drops the attributes of `row`.
pub(crate) fn remove(connection: &Connection, row: Row) -> Attempt<()> {
    connection.prepare_cached("DELETE FROM attributes WHERE row = ?1")?.execute([row.0])?;
    Ok(())
}
