//! Forgetting: one transaction that reaches everything a memory is in, and then the bytes on the disk.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use rusqlite::{Connection, params};

use super::database::{Attempt, add_meta};
use super::memories::row_of;
use super::recalls::{self, RecallNumber};
use super::update::bury_vectors;
use super::{Row, Store, What, lexicon, pack, scope};
use crate::error::Result;

/// How long the clearing of the log waits for readers of old pages.
const PATIENCE: Duration = Duration::from_secs(1);

impl Store {
    /// Forgets memories and returns how many there were. One transaction takes them out of the texts, the
    /// vectors, the word index, the attributes, and out of the candidates, slates and labels of every recall;
    /// a closed recall without labels left is no experience any more. Freed bytes are overwritten.
    ///
    /// # Errors
    /// Those of the disk; then nothing is forgotten.
    pub fn forget(&self, what: What<'_>) -> Result<usize> {
        let count = self.database.write(|transaction| {
            let rows = rows_of(transaction, what)?;
            forget_rows(transaction, &rows)?;
            Ok(rows.len())
        })?;
        if count > 0 {
            self.clear_traces()?;
        }
        Ok(count)
    }

    /// Wipes deleted vectors from the segments, and deleted pages from the log of the database. A reader that
    /// still needs those pages keeps them until it is done; the next write then covers them.
    fn clear_traces(&self) -> Result<()> {
        self.database.read(|snapshot| self.bank(snapshot).map(drop))?;
        self.database.outside(|writer| {
            writer.busy_timeout(PATIENCE)?;
            let cleared = writer.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
            writer.busy_timeout(super::database::BUSY_TIMEOUT)?;
            // The memories are gone; that old pages are in use is no failure.
            let _ = cleared;
            Ok(())
        })
    }
}

fn rows_of(connection: &Connection, what: What<'_>) -> Attempt<Vec<Row>> {
    match what {
        What::Scope(scope) => scope::list_all(connection, scope),
        What::Ids(ids) => {
            let rows = ids.iter().map(|id| row_of(connection, id)).collect::<Attempt<Vec<_>>>()?;
            Ok(rows.into_iter().flatten().collect::<BTreeSet<Row>>().into_iter().collect())
        }
    }
}

fn forget_rows(connection: &Connection, rows: &[Row]) -> Attempt<()> {
    if rows.is_empty() {
        return Ok(());
    }
    lexicon::remove(connection, rows)?;
    let touched = labelled_recalls(connection, rows)?;
    for row in rows {
        bury_vectors(connection, *row)?;
        connection.prepare_cached("DELETE FROM memories WHERE row = ?1")?.execute([row.0])?;
    }
    add_meta(connection, "memories", -(rows.len() as i64))?;
    let gone: HashSet<Row> = rows.iter().copied().collect();
    forget_candidates(connection, &gone)?;
    forget_slates(connection, &gone)?;
    touched.into_iter().try_for_each(|recall| recalls::expire_if_empty(connection, recall))
}

fn labelled_recalls(connection: &Connection, rows: &[Row]) -> Attempt<BTreeSet<RecallNumber>> {
    let mut statement = connection.prepare_cached("SELECT DISTINCT recall FROM labels WHERE row = ?1")?;
    let mut recalls = BTreeSet::new();
    for row in rows {
        let found = statement.query_map([row.0], |found| found.get(0).map(RecallNumber))?;
        recalls.extend(found.collect::<rusqlite::Result<Vec<_>>>()?);
    }
    Ok(recalls)
}

fn forget_candidates(connection: &Connection, gone: &HashSet<Row>) -> Attempt<()> {
    let sql = "SELECT number, candidates FROM recalls WHERE candidates IS NOT NULL";
    let mut changed = Vec::new();
    let mut statement = connection.prepare_cached(sql)?;
    let mut found = statement.query([])?;
    while let Some(recall) = found.next()? {
        let bytes = recall.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
        let mut candidates = pack::unpack_candidates(bytes);
        let before = candidates.len();
        candidates.retain(|candidate| !gone.contains(&candidate.row));
        if candidates.len() < before {
            changed.push((recall.get::<_, i64>(0)?, pack::candidates(&candidates)));
        }
    }
    for (number, candidates) in changed {
        let sql = "UPDATE recalls SET candidates = ?2 WHERE number = ?1";
        connection.prepare_cached(sql)?.execute(params![number, candidates])?;
    }
    Ok(())
}

fn forget_slates(connection: &Connection, gone: &HashSet<Row>) -> Attempt<()> {
    let mut changed = Vec::new();
    let mut statement = connection.prepare_cached("SELECT recall, round, slate FROM rounds")?;
    let mut found = statement.query([])?;
    while let Some(round) = found.next()? {
        let mut slate = pack::unpack_slate(round.get_ref(2)?.as_blob().map_err(rusqlite::Error::from)?);
        let before = slate.len();
        slate.retain(|entry| !gone.contains(&entry.row));
        if slate.len() < before {
            changed.push((round.get::<_, i64>(0)?, round.get::<_, i64>(1)?, pack::slate(&slate)));
        }
    }
    for (recall, round, slate) in changed {
        let sql = "UPDATE rounds SET slate = ?3 WHERE recall = ?1 AND round = ?2";
        connection.prepare_cached(sql)?.execute(params![recall, round, slate])?;
    }
    Ok(())
}
