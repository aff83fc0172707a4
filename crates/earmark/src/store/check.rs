//! Looking after a namespace: what is wrong with it, making anew what can be made anew, and its size.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::Path;

use rusqlite::Connection;

use super::attributes;
use super::database::{Attempt, add_meta, meta_number, set_meta};
use super::lexicon::{self, Document};
use super::{DiskUsage, Row, Store, rows};
use crate::error::Result;

/// Texts indexed at once while rebuilding.
const REBUILD_STEP: usize = 5_000;

impl Store {
    /// What is wrong, a sentence each; empty if nothing is. Reads everything.
    ///
    /// # Errors
    /// Those of the disk, where they keep the check from being made.
    pub fn check(&self) -> Result<Vec<String>> {
        let mut wrong = self.database.read(|snapshot| {
            let mut wrong = check_database(snapshot)?;
            if wrong.is_empty() {
                wrong.extend(check_counts(snapshot)?);
                wrong.extend(check_words(snapshot)?);
            }
            Ok(wrong)
        })?;
        if wrong.is_empty() {
            wrong.extend(self.database.read(|snapshot| self.check_vectors(snapshot))?);
        }
        Ok(wrong)
    }

    /// Makes the attributes, the word index, the counts and the vector segments anew from the memories.
    ///
    /// # Errors
    /// Those of the disk; then everything is as before.
    pub fn rebuild_derived(&self) -> Result<()> {
        self.database.write(|transaction| {
            for table in ["attributes", "terms", "postings", "documents"] {
                transaction.execute(&format!("DELETE FROM {table}"), [])?;
            }
            set_meta(transaction, "words", 0)?;
            let memories: i64 = transaction.query_row("SELECT count(*) FROM memories", [], |row| row.get(0))?;
            set_meta(transaction, "memories", memories)?;
            index_all(transaction)?;
            start_generation(transaction)
        })?;
        self.remove_old_segments()
    }

    /// Gives unused space back to the disk: vacuums the database and writes the segments without deleted entries.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn compact(&self) -> Result<()> {
        self.drop_old_vectors()?;
        self.database.write(|transaction| start_generation(transaction))?;
        self.database.outside(|writer| Ok(writer.execute_batch("VACUUM; PRAGMA wal_checkpoint(TRUNCATE);")?))?;
        self.database.read(|snapshot| self.bank(snapshot).map(drop))?;
        self.remove_old_segments()
    }

    /// Bytes on the disk.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn disk_usage(&self) -> Result<DiskUsage> {
        let size = |path: &Path| fs::metadata(path).map_or(0, |data| data.len());
        let database = self.database.path();
        let with = |suffix: &str| database.with_file_name(format!("{}{suffix}", Store::DATABASE));
        let segments = folders(&self.vectors_folder).into_iter().flat_map(|(_, folder)| files(&folder));
        Ok(DiskUsage {
            database_bytes: size(database) + size(&with("-wal")) + size(&with("-shm")),
            segments_bytes: segments.map(|path| size(&path)).sum(),
        })
    }

    /// Removes the segments of generations that are over.
    pub(crate) fn remove_old_segments(&self) -> Result<()> {
        let generation = self.database.read(|snapshot| meta_number(snapshot, "generation"))?;
        for (_, folder) in folders(&self.vectors_folder).into_iter().filter(|(number, _)| *number < generation) {
            // What stays behind is removed the next time.
            let _ = fs::remove_dir_all(folder);
        }
        Ok(())
    }

    fn check_vectors(&self, snapshot: &Connection) -> Attempt<Vec<String>> {
        let bank = self.bank(snapshot)?;
        let damage = |(path, count): (&Path, usize)| format!("{}: {count} damaged vectors", path.display());
        let mut wrong: Vec<String> = bank.damage().into_iter().map(damage).collect();
        let mut statement = snapshot.prepare("SELECT row FROM memories")?;
        let stored = statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<HashSet<i64>>>()?;
        let served = bank.living();
        if served != stored {
            let (more, less) = (served.difference(&stored).count(), stored.difference(&served).count());
            wrong.push(format!("the vector segments have {more} vectors too many and {less} too few"));
        }
        Ok(wrong)
    }
}

/// All segments are void from here on; whoever has them in memory loads anew.
fn start_generation(connection: &Connection) -> Attempt<()> {
    connection.execute("DELETE FROM dead_vectors", [])?;
    add_meta(connection, "generation", 1)?;
    Ok(())
}

fn index_all(connection: &Connection) -> Attempt<()> {
    let sql = format!("SELECT {}, ifnull(m.words, m.content) FROM memories m ORDER BY m.row", rows::COLUMNS);
    let mut statement = connection.prepare(&sql)?;
    let mut found = statement.query([])?;
    let mut documents: Vec<(Row, Document)> = Vec::new();
    while let Some(row) = found.next()? {
        let (number, memory) = rows::memory(row)?;
        attributes::insert(connection, number, &attributes::attributes(&memory.metadata, &memory.tags)?)?;
        documents.push((number, Document::new(row.get_ref(12)?.as_str().map_err(rusqlite::Error::from)?)));
        if documents.len() == REBUILD_STEP {
            lexicon::add(connection, &std::mem::take(&mut documents))?;
        }
    }
    lexicon::add(connection, &documents)
}

fn check_database(connection: &Connection) -> Attempt<Vec<String>> {
    let mut statement = connection.prepare("PRAGMA integrity_check(20)")?;
    let found = statement.query_map([], |row| row.get::<_, String>(0))?.collect::<rusqlite::Result<Vec<_>>>()?;
    let mut wrong: Vec<String> = found.into_iter().filter(|line| line != "ok").collect();
    let mut statement = connection.prepare("PRAGMA foreign_key_check")?;
    let orphans = statement.query_map([], |row| row.get::<_, String>(0))?.collect::<rusqlite::Result<Vec<_>>>()?;
    let mut by_table = BTreeMap::new();
    orphans.into_iter().for_each(|table| *by_table.entry(table).or_insert(0) += 1);
    wrong.extend(by_table.into_iter().map(|(table, count)| format!("table {table}: {count} rows without owner")));
    Ok(wrong)
}

/// Pairs of numbers that must be equal, each with what it means if they are not.
fn check_counts(connection: &Connection) -> Attempt<Vec<String>> {
    let checks = [
        (
            "the count of memories is wrong",
            "SELECT (SELECT count(*) FROM memories), (SELECT value FROM meta WHERE key = 'memories')",
        ),
        (
            "the count of words is wrong",
            "SELECT (SELECT total(length) FROM documents), (SELECT value FROM meta WHERE key = 'words')",
        ),
        (
            "memories are missing in the word index",
            "SELECT (SELECT count(*) FROM memories), (SELECT count(*) FROM documents)",
        ),
        (
            "memories without a vector",
            "SELECT (SELECT count(*) FROM memories),
             (SELECT count(*) FROM vectors WHERE epoch = (SELECT value FROM meta WHERE key = 'epoch'))",
        ),
        (
            "closed recalls without a place",
            "SELECT (SELECT count(*) FROM recalls WHERE state = 1), (SELECT count(sequence) FROM recalls)",
        ),
        (
            "recalls without a slate",
            "SELECT (SELECT count(*) FROM recalls WHERE state < 2), (SELECT count(*) FROM rounds WHERE round = 0)",
        ),
    ];
    let mut wrong = Vec::new();
    for (meaning, sql) in checks {
        let pair: (f64, f64) = connection.query_row(sql, [], |row| Ok((number(row, 0)?, number(row, 1)?)))?;
        if pair.0 != pair.1 {
            wrong.push(format!("{meaning}: {} instead of {}", pair.1, pair.0));
        }
    }
    Ok(wrong)
}

/// A number that may be kept as a whole or not.
fn number(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<f64> {
    match row.get_ref(column)? {
        rusqlite::types::ValueRef::Integer(whole) => Ok(whole as f64),
        rusqlite::types::ValueRef::Real(real) => Ok(real),
        _ => Ok(0.0),
    }
}

/// The word index holds each word of each text once: by word and by text it must be the same list.
fn check_words(connection: &Connection) -> Attempt<Vec<String>> {
    let mut wrong = Vec::new();
    let mut by_word = 0u64;
    let mut statement = connection.prepare("SELECT id, texts FROM terms")?;
    let terms = statement.query_map([], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?)))?;
    for term in terms.collect::<rusqlite::Result<Vec<(i64, i64)>>>()? {
        let mut texts = 0;
        let whole = lexicon::for_each_posting(connection, term.0, |posting| {
            texts += 1;
            by_word ^= entry_hash(term.0, posting.row, posting.frequency);
        })?;
        if !whole || texts != term.1 {
            wrong.push(format!("word {} of the index has {texts} texts instead of {}", term.0, term.1));
        }
    }
    let mut by_text = 0u64;
    let mut statement = connection.prepare("SELECT row FROM documents")?;
    for row in statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<Vec<i64>>>()? {
        let terms = lexicon::document(connection, Row(row))?.map(|(_, terms)| terms).unwrap_or_default();
        terms.iter().for_each(|(term, frequency)| by_text ^= entry_hash(*term, row, *frequency));
    }
    if by_word != by_text {
        wrong.push("the word index does not fit its texts".to_owned());
    }
    Ok(wrong)
}

/// Equal lists of entries have equal sums of this, in any order.
fn entry_hash(term: i64, row: i64, frequency: u32) -> u64 {
    let mut bytes = [0; 20];
    bytes[..8].copy_from_slice(&term.to_le_bytes());
    bytes[8..16].copy_from_slice(&row.to_le_bytes());
    bytes[16..].copy_from_slice(&frequency.to_le_bytes());
    let hash = *blake3::hash(&bytes).as_bytes();
    u64::from_le_bytes(std::array::from_fn(|i| hash[i]))
}

/// Folders of generations, with their numbers.
fn folders(folder: &Path) -> Vec<(i64, std::path::PathBuf)> {
    let named = |path: std::path::PathBuf| Some((path.file_name()?.to_str()?.parse().ok()?, path));
    files(folder).into_iter().filter_map(named).collect()
}

fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    fs::read_dir(folder).map(|entries| entries.flatten().map(|entry| entry.path()).collect()).unwrap_or_default()
}
