//! Going over to another encoder: new vectors are laid beside the old ones, then one transaction turns to them.

use rusqlite::{Connection, params};

use super::database::{Attempt, add_meta, meta_number, meta_text, set_meta};
use super::memories::{insert_vector, unit, wrong_dimension};
use super::rows;
use super::{EncoderStamp, Reembedded, Row, Store, ToReembed, pack, stamp};
use crate::error::{Error, Result};

/// Old vectors deleted per transaction afterwards.
const CLEAN_STEP: i64 = 2_000;

impl Store {
    /// Starts, or goes on with, the move to the encoder `to`; until [`Store::finish_reembed`] the old vectors
    /// are served. A move to a third encoder that was under way is given up.
    ///
    /// # Errors
    /// [`Error::Conflict`] if `to` is the encoder of the namespace.
    pub fn begin_reembed(&self, to: &EncoderStamp) -> Result<()> {
        let clean = self.database.write(|transaction| {
            if stamp::read(transaction)?.as_ref() == Some(to) {
                let reason = format!("the namespace already holds vectors of `{}`", to.model);
                return Err(Error::Conflict { reason }.into());
            }
            let goes_on = target(transaction)?.as_ref() == Some(to);
            if !goes_on {
                // The next epoch is skipped, so that the vectors of the given-up move are never served.
                let next = meta_number(transaction, "next_epoch")?.max(meta_number(transaction, "epoch")?) + 1;
                set_meta(transaction, "next_epoch", next)?;
                set_meta(transaction, "next_model", &to.model)?;
                set_meta(transaction, "next_dimension", to.dimension as i64)?;
                transaction.execute("DELETE FROM next_queries", [])?;
            }
            Ok(!goes_on)
        })?;
        if clean { self.drop_old_vectors() } else { Ok(()) }
    }

    /// Up to `limit` memories and queries that the move still lacks; empty when it can be finished.
    ///
    /// # Errors
    /// [`Error::Conflict`] if no move is under way.
    pub fn reembed_missing(&self, limit: usize) -> Result<Vec<ToReembed>> {
        self.database.read(|snapshot| missing(snapshot, limit))
    }

    /// Keeps vectors of the new encoder; those of memories or recalls that are gone by now are dropped.
    ///
    /// # Errors
    /// [`Error::Conflict`] if no move is under way; [`Error::InvalidInput`] for a vector of the wrong length.
    pub fn put_reembedded(&self, batch: Vec<Reembedded>) -> Result<()> {
        let scaled = batch.into_iter().map(scale).collect::<Result<Vec<_>>>()?;
        self.database.write(|transaction| {
            let to = under_way(transaction)?;
            let epoch = meta_number(transaction, "next_epoch")?;
            scaled.iter().try_for_each(|item| put(transaction, item, &to, epoch))
        })
    }

    /// Turns to the new vectors, in one transaction together with the stamp.
    ///
    /// # Errors
    /// [`Error::Conflict`] if no move is under way, or if something was remembered since and still lacks a
    /// vector; go on with [`Store::reembed_missing`] then.
    pub fn finish_reembed(&self) -> Result<()> {
        let to = self.database.write(|transaction| {
            let to = under_way(transaction)?;
            if !missing(transaction, 1)?.is_empty() {
                let reason = "some memories or queries are not re-encoded yet; go on and finish again".to_owned();
                return Err(Error::Conflict { reason }.into());
            }
            turn(transaction, &to)?;
            Ok(to)
        })?;
        self.stamp_encoder(&to)?;
        self.database.read(|snapshot| self.bank(snapshot).map(drop))?;
        self.drop_old_vectors()?;
        self.remove_old_segments()
    }

    /// Deletes the vectors that are neither served nor on their way, a few at a time.
    pub(crate) fn drop_old_vectors(&self) -> Result<()> {
        let sql = "DELETE FROM vectors WHERE seq IN (SELECT seq FROM vectors WHERE epoch NOT IN (?1, ?2) LIMIT ?3)";
        loop {
            let deleted = self.database.write(|transaction| {
                let (now, next) = (meta_number(transaction, "epoch")?, meta_number(transaction, "next_epoch")?);
                Ok(transaction.prepare_cached(sql)?.execute([now, next, CLEAN_STEP])?)
            })?;
            if deleted == 0 {
                return Ok(());
            }
        }
    }
}

fn target(connection: &Connection) -> Attempt<Option<EncoderStamp>> {
    let dimension = meta_number(connection, "next_dimension")? as usize;
    Ok(meta_text(connection, "next_model")?.map(|model| EncoderStamp { model, dimension }))
}

fn under_way(connection: &Connection) -> Attempt<EncoderStamp> {
    let reason = || "no move to another encoder is under way".to_owned();
    Ok(target(connection)?.ok_or_else(|| Error::Conflict { reason: reason() })?)
}

fn missing(connection: &Connection, limit: usize) -> Attempt<Vec<ToReembed>> {
    under_way(connection)?;
    let epoch = meta_number(connection, "next_epoch")?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let sql = format!(
        "SELECT {} FROM memories m WHERE NOT EXISTS
         (SELECT 1 FROM vectors v WHERE v.row = m.row AND v.epoch = ?1) ORDER BY m.row LIMIT ?2",
        rows::COLUMNS
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let found = statement.query_map([epoch, limit], rows::memory)?;
    let memory = |(row, memory)| ToReembed::Memory(row, Box::new(memory));
    let mut missing = found.map(|found| found.map(memory)).collect::<rusqlite::Result<Vec<_>>>()?;
    let sql = "SELECT id, query FROM recalls WHERE query_vector IS NOT NULL
               AND number NOT IN (SELECT recall FROM next_queries) ORDER BY number LIMIT ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let query = |row: &rusqlite::Row<'_>| Ok(ToReembed::Query { recall_id: row.get(0)?, query: row.get(1)? });
    let found = statement.query_map([limit - missing.len() as i64], query)?;
    missing.extend(found.collect::<rusqlite::Result<Vec<_>>>()?);
    Ok(missing)
}

fn scale(item: Reembedded) -> Result<Reembedded> {
    Ok(match item {
        Reembedded::Memory(row, vector) => Reembedded::Memory(row, unit(vector, "vector")?),
        Reembedded::Query(id, vector) => Reembedded::Query(id, vector),
    })
}

fn put(connection: &Connection, item: &Reembedded, to: &EncoderStamp, epoch: i64) -> Attempt<()> {
    let (Reembedded::Memory(_, vector) | Reembedded::Query(_, vector)) = item;
    if vector.len() != to.dimension {
        return Err(wrong_dimension("vector", to.dimension, vector.len()).into());
    }
    match item {
        Reembedded::Memory(row, vector) => put_memory(connection, *row, vector, epoch),
        Reembedded::Query(id, vector) => {
            let sql = "INSERT OR REPLACE INTO next_queries SELECT number, ?2 FROM recalls
                       WHERE id = ?1 AND query_vector IS NOT NULL";
            connection.prepare_cached(sql)?.execute(params![id, pack::floats(vector)])?;
            Ok(())
        }
    }
}

fn put_memory(connection: &Connection, row: Row, vector: &[f32], epoch: i64) -> Attempt<()> {
    let known = connection.prepare_cached("SELECT 1 FROM memories WHERE row = ?1")?.exists([row.0])?;
    connection.prepare_cached("DELETE FROM vectors WHERE row = ?1 AND epoch = ?2")?.execute([row.0, epoch])?;
    if known { insert_vector(connection, row, epoch, vector) } else { Ok(()) }
}

fn turn(connection: &Connection, to: &EncoderStamp) -> Attempt<()> {
    connection.execute(
        "UPDATE recalls SET query_vector = (SELECT vector FROM next_queries WHERE recall = number)
         WHERE query_vector IS NOT NULL",
        [],
    )?;
    connection.execute("DELETE FROM next_queries", [])?;
    connection.execute("DELETE FROM dead_vectors", [])?;
    set_meta(connection, "epoch", meta_number(connection, "next_epoch")?)?;
    connection.execute("DELETE FROM meta WHERE key IN ('next_model', 'next_dimension')", [])?;
    stamp::write(connection, to)?;
    add_meta(connection, "generation", 1)?;
    Ok(())
}
