//! Recalls from their answer to their feedback: logged open, closed into experiences, or let go.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use super::bank::Mark;
use super::database::{Attempt, Failure, add_meta, meta_number};
use super::memories;
use super::rows::{optional_time, time};
use super::{Counts, Label, RecallLog, RecallState, Round, Row, SlateEntry, Store, StoredRecall, pack};
use crate::error::{Error, Result};

/// Number of a recall in the database, in order of logging.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RecallNumber(pub(crate) i64);

const COLUMNS: &str = "number, id, state, created_at, closed_at, sequence, learning_version, recipe, query, scope, \
     query_vector, candidates";

impl Store {
    /// Keeps a recall, before it is answered; it is open then. It survives the death of the process at once,
    /// a power cut only after the next write of another kind. Memories that are gone by now are left out.
    ///
    /// # Errors
    /// [`Error::Conflict`] if the id is taken; [`Error::InvalidInput`] for candidates of unequal width.
    pub fn log_recall(&self, log: &RecallLog) -> Result<()> {
        check_widths(log)?;
        let rows = log.candidates.iter().map(|c| c.row).chain(log.slate.iter().map(|entry| entry.row));
        let rows: HashSet<Row> = rows.collect();
        self.database.log(|transaction| insert(transaction, log, &self.living(transaction, rows)?))
    }

    /// Those of `rows` that are there. Most are known from the bank; the database is asked for the others, and for all
    /// while the bank is being loaded: nobody waits for that inside of a transaction.
    fn living(&self, connection: &Connection, rows: HashSet<Row>) -> Attempt<HashSet<Row>> {
        let now = Mark::read(connection)?;
        let bank = self.bank.try_read().ok().filter(|bank| bank.mark().covers(&now));
        let known = |row: &Row| bank.as_ref().is_some_and(|bank| bank.find(*row).is_some());
        let (mut there, others): (HashSet<Row>, HashSet<Row>) = rows.into_iter().partition(known);
        drop(bank);
        there.extend(memories::living(connection, others.into_iter())?);
        Ok(there)
    }

    /// The recall with this id, of any state.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn recall(&self, id: &str) -> Result<Option<StoredRecall>> {
        let condition = "WHERE id = ?1";
        Ok(self.database.read(|snapshot| select(snapshot, condition, &[&id]))?.pop())
    }

    /// Up to `limit` recalls, newest first, of one state or of any.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn recalls(&self, state: Option<RecallState>, limit: usize) -> Result<Vec<StoredRecall>> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.database.read(|snapshot| match state {
            Some(state) => {
                let condition = "WHERE state = ?1 ORDER BY number DESC LIMIT ?2";
                select(snapshot, condition, &[&number_of(state), &limit])
            }
            None => select(snapshot, "ORDER BY number DESC LIMIT ?1", &[&limit]),
        })
    }

    /// Up to `limit` open recalls that were asked before `asked_before`, oldest first, from the one after the recall
    /// with id `after` on.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn open_recalls(
        &self,
        asked_before: Timestamp,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<StoredRecall>> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let condition = "WHERE state = 0 AND created_at < ?1
            AND number > coalesce((SELECT number FROM recalls WHERE id = ?2), 0) ORDER BY number LIMIT ?3";
        let before = asked_before.as_microsecond();
        self.database.read(|snapshot| select(snapshot, condition, &[&before, &after, &limit]))
    }

    /// Adds a slate to an open recall and returns its round (0 is the first slate).
    ///
    /// # Errors
    /// [`Error::NotFound`] for an unknown or expired recall, [`Error::Conflict`] for a closed one,
    /// [`Error::InvalidInput`] for a memory that is no candidate of the recall.
    pub fn add_round(&self, recall_id: &str, slate: &[SlateEntry]) -> Result<usize> {
        self.database.log(|transaction| {
            let number = open_recall(transaction, recall_id)?;
            check_rows(transaction, number, slate.iter().map(|entry| entry.row), "slate")?;
            let sql = "SELECT count(*) FROM rounds WHERE recall = ?1";
            let round: i64 = transaction.prepare_cached(sql)?.query_row([number.0], |row| row.get(0))?;
            insert_round(transaction, number, round, slate)?;
            Ok(round as usize)
        })
    }

    /// Adds labels to a round of an open recall; a second label of one memory takes the place of the first.
    ///
    /// # Errors
    /// As [`Store::add_round`], and [`Error::InvalidInput`] for a round that is not there.
    pub fn add_labels(&self, recall_id: &str, round: usize, labels: &[Label]) -> Result<()> {
        self.database.write(|transaction| {
            let number = open_recall(transaction, recall_id)?;
            insert_labels(transaction, number, round, labels)
        })
    }

    /// Closes an open recall with (more) labels, each with its round, and returns its place among the
    /// experiences: 1, 2, 3, ...; a place is never given twice.
    ///
    /// # Errors
    /// As [`Store::add_labels`].
    pub fn close_recall(&self, recall_id: &str, labels: &[(usize, Label)]) -> Result<i64> {
        self.database.write(|transaction| {
            let number = open_recall(transaction, recall_id)?;
            for (round, label) in labels {
                insert_labels(transaction, number, *round, std::slice::from_ref(label))?;
            }
            let sequence = add_meta(transaction, "experiences", 1)?;
            let sql = "UPDATE recalls SET state = 1, closed_at = ?2, sequence = ?3 WHERE number = ?1";
            let now = Timestamp::now().as_microsecond();
            transaction.prepare_cached(sql)?.execute(params![number.0, now, sequence])?;
            Ok(sequence)
        })
    }

    /// Lets go of open recalls that are older than `max_age`, and of all but the newest `max_open`; returns how many.
    /// Only their ids stay, so that late feedback gets a clear answer.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn expire(&self, max_open: usize, max_age: Duration) -> Result<usize> {
        let age = i64::try_from(max_age.as_micros()).unwrap_or(i64::MAX);
        let oldest = Timestamp::now().as_microsecond().saturating_sub(age);
        let keep = i64::try_from(max_open).unwrap_or(i64::MAX);
        let find = |connection: &Connection| -> Attempt<Vec<i64>> {
            // Left to itself SQLite reads every open recall to learn its age.
            let sql = "SELECT number FROM recalls INDEXED BY recalls_open_since WHERE state = 0 AND created_at < ?1
                       UNION SELECT number FROM
                       (SELECT number FROM recalls INDEXED BY recalls_state WHERE state = 0
                        ORDER BY number DESC LIMIT -1 OFFSET ?2)";
            let mut statement = connection.prepare_cached(sql)?;
            let found = statement.query_map([oldest, keep], |row| row.get(0))?;
            Ok(found.collect::<rusqlite::Result<_>>()?)
        };
        if self.database.read(|snapshot| find(snapshot))?.is_empty() {
            return Ok(0);
        }
        self.database.log(|transaction| {
            let numbers = find(transaction)?;
            numbers.iter().try_for_each(|number| expire(transaction, RecallNumber(*number)))?;
            Ok(numbers.len())
        })
    }

    /// Up to `limit` closed recalls from place `from_sequence` on, in order.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn experiences(&self, from_sequence: i64, limit: usize) -> Result<Vec<StoredRecall>> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let condition = "WHERE sequence >= ?1 ORDER BY sequence LIMIT ?2";
        self.database.read(|snapshot| select(snapshot, condition, &[&from_sequence, &limit]))
    }

    /// The place and the raw query vector of every experience, in order.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn experience_queries(&self) -> Result<Vec<(i64, Vec<f32>)>> {
        self.database.read(|snapshot| {
            let sql = "SELECT sequence, query_vector FROM recalls WHERE sequence IS NOT NULL ORDER BY sequence";
            let mut statement = snapshot.prepare_cached(sql)?;
            let query = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, pack::unpack_floats(row.get_ref(1)?.as_blob()?)));
            let found = statement.query_map([], query)?;
            Ok(found.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// How much there is of everything.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn counts(&self) -> Result<Counts> {
        self.database.read(|snapshot| {
            let of = |state| -> Attempt<u64> {
                let sql = "SELECT count(*) FROM recalls WHERE state = ?1";
                let count: i64 = snapshot.prepare_cached(sql)?.query_row([number_of(state)], |row| row.get(0))?;
                Ok(count as u64)
            };
            let (open, closed, expired) = (of(RecallState::Open)?, of(RecallState::Closed)?, of(RecallState::Expired)?);
            Ok(Counts {
                memories: meta_number(snapshot, "memories")?.max(0) as u64,
                recalls: open + closed + expired,
                open,
                closed,
                expired,
                positive_by_source: labels_by_source(snapshot, true)?,
                negative_by_source: labels_by_source(snapshot, false)?,
            })
        })
    }
}

fn check_widths(log: &RecallLog) -> Result<()> {
    let mut widths = log.candidates.iter().map(|candidate| candidate.features.len());
    let first = widths.next().unwrap_or(0);
    if widths.any(|width| width != first) {
        return Err(Error::invalid("candidates", "must all have the same number of features"));
    }
    Ok(())
}

fn insert(connection: &Connection, log: &RecallLog, living: &HashSet<Row>) -> Attempt<()> {
    let candidates: Vec<_> = log.candidates.iter().filter(|c| living.contains(&c.row)).cloned().collect();
    let slate: Vec<_> = log.slate.iter().filter(|entry| living.contains(&entry.row)).copied().collect();
    let sql = "INSERT INTO recalls
        (id, state, created_at, learning_version, recipe, query, scope, query_vector, candidates)
        VALUES (?1, 0, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    let values = params![
        log.id,
        log.created_at.as_microsecond(),
        log.learning_version,
        log.recipe,
        log.query,
        log.scope_json,
        pack::floats(&log.query_vector),
        pack::candidates(&candidates),
    ];
    connection.prepare_cached(sql)?.execute(values).map_err(|error| taken(error, &log.id))?;
    insert_round(connection, RecallNumber(connection.last_insert_rowid()), 0, &slate)
}

fn taken(error: rusqlite::Error, id: &str) -> Failure {
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::ConstraintViolation) => {
            Error::Conflict { reason: format!("there is a recall `{id}` already") }.into()
        }
        _ => error.into(),
    }
}

fn insert_round(connection: &Connection, recall: RecallNumber, round: i64, slate: &[SlateEntry]) -> Attempt<()> {
    let sql = "INSERT INTO rounds (recall, round, slate) VALUES (?1, ?2, ?3)";
    connection.prepare_cached(sql)?.execute(params![recall.0, round, pack::slate(slate)])?;
    Ok(())
}

fn insert_labels(connection: &Connection, recall: RecallNumber, round: usize, labels: &[Label]) -> Attempt<()> {
    let known = "SELECT 1 FROM rounds WHERE recall = ?1 AND round = ?2";
    if !connection.prepare_cached(known)?.exists(params![recall.0, round as i64])? {
        return Err(Error::invalid("round", format!("{round} is not a round of this recall")).into());
    }
    check_rows(connection, recall, labels.iter().map(|label| label.row), "labels")?;
    let sql = "INSERT OR REPLACE INTO labels (recall, round, row, useful, source) VALUES (?1, ?2, ?3, ?4, ?5)";
    let mut statement = connection.prepare_cached(sql)?;
    for label in labels {
        statement.execute(params![recall.0, round as i64, label.row.0, label.useful, label.source])?;
    }
    Ok(())
}

/// Every row must be a candidate of the recall, and with that a memory that is there.
fn check_rows(
    connection: &Connection,
    recall: RecallNumber,
    rows: impl Iterator<Item = Row>,
    field: &str,
) -> Attempt<()> {
    let mut statement = connection.prepare_cached("SELECT candidates FROM recalls WHERE number = ?1")?;
    let candidates = statement.query_row([recall.0], |row| Ok(pack::unpack_candidates(row.get_ref(0)?.as_blob()?)))?;
    let candidates: HashSet<Row> = candidates.into_iter().map(|candidate| candidate.row).collect();
    match rows.into_iter().find(|row| !candidates.contains(row)) {
        Some(row) => {
            Err(Error::invalid(field, format!("names memory {}, which is not part of this recall", row.0)).into())
        }
        None => Ok(()),
    }
}

/// The number of an open recall, or why there is none.
fn open_recall(connection: &Connection, id: &str) -> Attempt<RecallNumber> {
    let sql = "SELECT number, state, closed_at FROM recalls WHERE id = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement.query_row([id], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?, optional_time(row, 2)?)));
    let when = |at: Option<Timestamp>| at.map(|at| format!(" at {at:.0}")).unwrap_or_default();
    match found.optional()? {
        Some((number, 0, _)) => Ok(RecallNumber(number)),
        Some((_, 1, at)) => {
            let reason = format!("recall `{id}` was closed by feedback{}; each recall takes feedback once", when(at));
            Err(Error::Conflict { reason }.into())
        }
        Some((_, _, at)) => {
            let hint = format!(" (it expired{} without feedback; recall again)", when(at));
            Err(Error::NotFound { what: "recall", id: id.to_owned(), hint }.into())
        }
        None => Err(Error::not_found("recall", id).into()),
    }
}

fn number_of(state: RecallState) -> i64 {
    match state {
        RecallState::Open => 0,
        RecallState::Closed => 1,
        RecallState::Expired => 2,
    }
}

fn expire(connection: &Connection, recall: RecallNumber) -> Attempt<()> {
    let sql = "UPDATE recalls SET state = 2, closed_at = ?2, sequence = NULL, learning_version = NULL, recipe = NULL,
               query = NULL, scope = NULL, query_vector = NULL, candidates = NULL WHERE number = ?1";
    connection.prepare_cached(sql)?.execute([recall.0, Timestamp::now().as_microsecond()])?;
    for sql in [
        "DELETE FROM rounds WHERE recall = ?1",
        "DELETE FROM labels WHERE recall = ?1",
        "DELETE FROM next_queries WHERE recall = ?1",
    ] {
        connection.prepare_cached(sql)?.execute([recall.0])?;
    }
    Ok(())
}

/// A closed recall whose last label went with a forgotten memory teaches nothing any more.
pub(crate) fn expire_if_empty(connection: &Connection, recall: RecallNumber) -> Attempt<()> {
    let sql = "SELECT 1 FROM recalls WHERE number = ?1 AND state = 1
               AND NOT EXISTS (SELECT 1 FROM labels WHERE recall = ?1)";
    if connection.prepare_cached(sql)?.exists([recall.0])? {
        expire(connection, recall)?;
    }
    Ok(())
}

fn select(connection: &Connection, condition: &str, values: &[&dyn rusqlite::ToSql]) -> Attempt<Vec<StoredRecall>> {
    let mut statement = connection.prepare_cached(&format!("SELECT {COLUMNS} FROM recalls {condition}"))?;
    let found = statement.query_map(values, |row| Ok((RecallNumber(row.get(0)?), stored(row)?)))?;
    let mut recalls = Vec::new();
    for found in found {
        let (number, mut recall) = found?;
        recall.rounds = rounds(connection, number)?;
        recall.log.slate = recall.rounds.first().map(|round| round.slate.clone()).unwrap_or_default();
        recalls.push(recall);
    }
    Ok(recalls)
}

fn stored(row: &rusqlite::Row<'_>) -> rusqlite::Result<StoredRecall> {
    let text = |column| Ok::<String, rusqlite::Error>(row.get::<_, Option<String>>(column)?.unwrap_or_default());
    let blob = |column| Ok::<&[u8], rusqlite::Error>(row.get_ref(column)?.as_blob_or_null()?.unwrap_or_default());
    let log = RecallLog {
        id: row.get(1)?,
        created_at: time(row, 3)?,
        learning_version: row.get::<_, Option<i64>>(6)?.unwrap_or(0),
        recipe: text(7)?,
        query: text(8)?,
        scope_json: text(9)?,
        query_vector: pack::unpack_floats(blob(10)?),
        candidates: pack::unpack_candidates(blob(11)?),
        slate: Vec::new(),
    };
    let state = match row.get(2)? {
        0 => RecallState::Open,
        1 => RecallState::Closed,
        _ => RecallState::Expired,
    };
    Ok(StoredRecall { log, rounds: Vec::new(), state, closed_at: optional_time(row, 4)?, sequence: row.get(5)? })
}

fn rounds(connection: &Connection, recall: RecallNumber) -> Attempt<Vec<Round>> {
    let mut statement = connection.prepare_cached("SELECT slate FROM rounds WHERE recall = ?1 ORDER BY round")?;
    let round = |row: &rusqlite::Row<'_>| {
        Ok(Round { slate: pack::unpack_slate(row.get_ref(0)?.as_blob()?), labels: Vec::new() })
    };
    let mut rounds = statement.query_map([recall.0], round)?.collect::<rusqlite::Result<Vec<_>>>()?;
    let sql = "SELECT round, row, useful, source FROM labels WHERE recall = ?1 ORDER BY round, row";
    let mut statement = connection.prepare_cached(sql)?;
    let mut found = statement.query([recall.0])?;
    while let Some(row) = found.next()? {
        if let Some(round) = rounds.get_mut(row.get::<_, i64>(0)? as usize) {
            round.labels.push(Label { row: Row(row.get(1)?), useful: row.get(2)?, source: row.get(3)? });
        }
    }
    Ok(rounds)
}

fn labels_by_source(connection: &Connection, useful: bool) -> Attempt<BTreeMap<String, u64>> {
    let sql = "SELECT source, count(*) FROM labels WHERE useful = ?1 GROUP BY source";
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement.query_map([useful], |row| Ok((row.get(0)?, row.get::<_, i64>(1)? as u64)))?;
    Ok(found.collect::<rusqlite::Result<_>>()?)
}
