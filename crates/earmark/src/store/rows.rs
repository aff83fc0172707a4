//! Memories as rows of a table: columns, times, and what makes two memories the same.

use jiff::Timestamp;
use rusqlite::types::Type;

use super::Row;
use crate::record::{Memory, NewMemory};

/// Columns in the order that [`memory`] reads, of the table named `m`.
pub(crate) const COLUMNS: &str = "m.row, m.id, m.content, m.author, m.kind, m.metadata, m.tags, \
     m.user_id, m.agent_id, m.session_id, m.occurred_at, m.created_at";

/// Reads [`COLUMNS`].
pub(crate) fn memory(row: &rusqlite::Row<'_>) -> rusqlite::Result<(Row, Memory)> {
    let memory = Memory {
        id: row.get(1)?,
        content: row.get(2)?,
        author: row.get(3)?,
        kind: row.get(4)?,
        metadata: json(row, 5)?,
        tags: json(row, 6)?,
        user_id: row.get(7)?,
        agent_id: row.get(8)?,
        session_id: row.get(9)?,
        occurred_at: optional_time(row, 10)?,
        created_at: time(row, 11)?,
    };
    Ok((Row(row.get(0)?), memory))
}

/// JSON kept in a text column.
pub(crate) fn json<T: serde::de::DeserializeOwned>(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<T> {
    let text = row.get_ref(column)?.as_str()?;
    let wrong = |error| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error));
    serde_json::from_str(text).map_err(wrong)
}

/// A time kept as microseconds.
pub(crate) fn time(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<Timestamp> {
    let wrong = |error| rusqlite::Error::FromSqlConversionFailure(column, Type::Integer, Box::new(error));
    Timestamp::from_microsecond(row.get(column)?).map_err(wrong)
}

/// As [`time`], where the column may be empty.
pub(crate) fn optional_time(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<Option<Timestamp>> {
    match row.get_ref(column)? {
        rusqlite::types::ValueRef::Null => Ok(None),
        _ => time(row, column).map(Some),
    }
}

/// The first whole microsecond at or after `at`: a stored time is at or after `at` exactly if it is at or after this.
pub(crate) fn microseconds_up(at: Timestamp) -> i64 {
    let nanoseconds = at.as_nanosecond();
    (nanoseconds.div_euclid(1_000) + i128::from(nanoseconds.rem_euclid(1_000) != 0)) as i64
}

/// What makes two memories one: content, author, the three scopes and the time.
pub(crate) fn sameness(memory: &NewMemory) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    let texts = [&memory.author, &memory.user_id, &memory.agent_id, &memory.session_id];
    add_text(&mut hasher, Some(&memory.content));
    texts.into_iter().for_each(|text| add_text(&mut hasher, text.as_deref()));
    let time = memory.occurred_at.map(|at| at.as_microsecond().to_string());
    add_text(&mut hasher, time.as_deref());
    *hasher.finalize().as_bytes()
}

/// With the length before it, so that no two lists of texts look alike.
fn add_text(hasher: &mut blake3::Hasher, text: Option<&str>) {
    let length = text.map_or(u64::MAX, |text| text.len() as u64);
    hasher.update(&length.to_le_bytes());
    hasher.update(text.unwrap_or_default().as_bytes());
}

/// The parts of a stored memory that [`sameness`] looks at.
pub(crate) fn as_new(memory: &Memory) -> NewMemory {
    NewMemory {
        content: memory.content.clone(),
        author: memory.author.clone(),
        user_id: memory.user_id.clone(),
        agent_id: memory.agent_id.clone(),
        session_id: memory.session_id.clone(),
        occurred_at: memory.occurred_at,
        ..NewMemory::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sameness_tells_fields_apart() {
        let with = |author: Option<&str>, user: Option<&str>| NewMemory {
            author: author.map(str::to_owned),
            user_id: user.map(str::to_owned),
            ..NewMemory::new("x")
        };
        assert_eq!(sameness(&with(Some("a"), None)), sameness(&with(Some("a"), None)));
        assert_ne!(sameness(&with(Some("a"), None)), sameness(&with(None, Some("a"))));
        assert_ne!(sameness(&with(Some(""), None)), sameness(&with(None, None)));
    }

    #[test]
    fn bounds_go_up_to_the_next_microsecond() {
        let at = |ns| Timestamp::from_nanosecond(ns).unwrap();
        assert_eq!(microseconds_up(at(1_000)), 1);
        assert_eq!(microseconds_up(at(1_001)), 2);
        assert_eq!(microseconds_up(at(-1_001)), -1);
    }
}
