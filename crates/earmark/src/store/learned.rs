//! Learned state by version, and small settings.

use jiff::Timestamp;
use rusqlite::{OptionalExtension, params};

use super::database::{meta_text, set_meta};
use super::memories::to_json;
use super::rows::{json, time};
use super::{Learned, Store, StoredLearned};
use crate::error::Result;

/// Versions that are kept.
const KEPT: i64 = 32;

impl Store {
    /// The setting that names the version in force; 0 is the static ranking.
    pub const ACTIVE_LEARNED: &'static str = "learning.active";

    /// Keeps a learned state as a new version (1, 2, 3, ...), puts it in force and returns it; of older ones the
    /// newest 32 stay. It survives the death of the process at once, a power cut only after the next write of another
    /// kind: what it was learned from is on the disk, so it is learned again.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn save_learned(&self, learned: &Learned) -> Result<i64> {
        let checksum = *blake3::hash(&learned.blob).as_bytes();
        self.database.log(|transaction| {
            let sql = "INSERT INTO learned (parent, through_sequence, created_at, summary, checksum, blob)
                       VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
            let now = Timestamp::now().as_microsecond();
            let summary = to_json(&learned.summary);
            let values = params![learned.parent, learned.through_sequence, now, summary, checksum, learned.blob];
            transaction.prepare_cached(sql)?.execute(values)?;
            let version = transaction.last_insert_rowid();
            transaction.prepare_cached("DELETE FROM learned WHERE version <= ?1")?.execute([version - KEPT])?;
            set_meta(transaction, &setting_key(Store::ACTIVE_LEARNED), version.to_string())?;
            Ok(version)
        })
    }

    /// A version of the learned state, or the newest.
    ///
    /// # Errors
    /// [`crate::Error::Corrupt`] if it is not as it was written.
    pub fn learned(&self, version: Option<i64>) -> Result<Option<StoredLearned>> {
        let found = self.database.read(|snapshot| {
            let sql = "SELECT version, parent, through_sequence, created_at, summary, checksum, blob FROM learned
                       WHERE ?1 IS NULL OR version = ?1 ORDER BY version DESC LIMIT 1";
            let mut statement = snapshot.prepare_cached(sql)?;
            Ok(statement.query_row([version], |row| Ok((stored(row)?, row.get::<_, Vec<u8>>(5)?))).optional()?)
        })?;
        match found {
            Some((stored, checksum)) if blake3::hash(&stored.learned.blob).as_bytes() != checksum.as_slice() => {
                Err(self.database.corrupt(format!("learned version {} has a wrong checksum", stored.version)))
            }
            found => Ok(found.map(|(stored, _)| stored)),
        }
    }

    /// All versions that are kept, newest first, without their blobs (`blob` is empty).
    ///
    /// # Errors
    /// Those of the disk.
    pub fn learned_versions(&self) -> Result<Vec<StoredLearned>> {
        self.database.read(|snapshot| {
            let sql = "SELECT version, parent, through_sequence, created_at, summary, checksum, x'' FROM learned
                       ORDER BY version DESC";
            let mut statement = snapshot.prepare_cached(sql)?;
            let found = statement.query_map([], stored)?;
            Ok(found.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// A setting of the namespace.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn setting(&self, key: &str) -> Result<Option<String>> {
        self.database.read(|snapshot| meta_text(snapshot, &setting_key(key)))
    }

    /// Keeps a setting of the namespace.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn set_setting(&self, key: &str, value: &str) -> Result<()> {
        self.database.write(|transaction| set_meta(transaction, &setting_key(key), value))
    }
}

/// Settings of callers do not meet the store's own numbers.
fn setting_key(key: &str) -> String {
    format!("setting.{key}")
}

fn stored(row: &rusqlite::Row<'_>) -> rusqlite::Result<StoredLearned> {
    let learned =
        Learned { parent: row.get(1)?, through_sequence: row.get(2)?, summary: json(row, 4)?, blob: row.get(6)? };
    Ok(StoredLearned { version: row.get(0)?, created_at: time(row, 3)?, learned })
}
