//! Connections to one database: one writer, one for the recall log, and readers that wait for nobody.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::functions::FunctionFlags;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Transaction, TransactionBehavior};

use super::errors::{corrupt, is_busy, sql_error};
use super::schema;
use crate::error::{Error, Result};
use crate::filter::{contains_folded, fold};

/// How long SQLite waits for another writer before one attempt fails.
pub(crate) const BUSY_TIMEOUT: Duration = Duration::from_secs(30);
/// Pages that a connection that writes keeps, in KiB.
const WRITER_CACHE: i64 = 16_000;
/// Pages that a reader keeps, in KiB: there are many readers, and the system keeps pages for all of them.
const READER_CACHE: i64 = 4_000;
/// Readers that are kept for later; a server with many requests at once opens more for a moment.
const IDLE_READERS: usize = 8;
/// Attempts to begin a write.
const ATTEMPTS: usize = 4;

/// An error inside a transaction: SQLite's, not yet in words, or one that is.
#[derive(Debug)]
pub(crate) enum Failure {
    Sql(rusqlite::Error),
    Told(Error),
}

/// What work inside a transaction returns.
pub(crate) type Attempt<T> = std::result::Result<T, Failure>;

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Failure::Sql(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Told(error)
    }
}

/// One database file.
#[derive(Debug)]
pub(crate) struct Database {
    path: PathBuf,
    writer: Mutex<Connection>,
    logger: Mutex<Option<Connection>>,
    readers: Mutex<Vec<Connection>>,
}

impl Database {
    /// Opens the database at `path`, with its tables.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let told = |failure| tell(path, failure);
        let mut writer = connect(path, "FULL", WRITER_CACHE).map_err(told)?;
        retry(|| schema::prepare(&mut writer, path)).map_err(told)?;
        Ok(Database {
            path: path.to_owned(),
            writer: Mutex::new(writer),
            logger: Mutex::new(None),
            readers: Mutex::new(Vec::new()),
        })
    }

    /// The file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Runs `work` in one transaction that is on the disk when this returns.
    pub(crate) fn write<T>(&self, work: impl FnOnce(&Transaction<'_>) -> Attempt<T>) -> Result<T> {
        let mut writer = lock(&self.writer);
        in_transaction(&mut writer, work).map_err(|failure| self.tell(failure))
    }

    /// Runs `work` in one transaction that survives the death of the process, but may be lost in a power cut.
    pub(crate) fn log<T>(&self, work: impl FnOnce(&Transaction<'_>) -> Attempt<T>) -> Result<T> {
        let mut logger = lock(&self.logger);
        let connection = match logger.take() {
            Some(connection) => connection,
            None => connect(&self.path, "NORMAL", WRITER_CACHE).map_err(|failure| self.tell(failure))?,
        };
        in_transaction(logger.insert(connection), work).map_err(|failure| self.tell(failure))
    }

    /// Runs `work` on one snapshot.
    pub(crate) fn read<T>(&self, work: impl FnOnce(&Transaction<'_>) -> Attempt<T>) -> Result<T> {
        let idle = lock(&self.readers).pop();
        let answer = self.read_with(idle, work).map_err(|failure| self.tell(failure))?;
        let mut readers = lock(&self.readers);
        if readers.len() < IDLE_READERS {
            readers.push(answer.0);
        }
        Ok(answer.1)
    }

    fn read_with<T>(
        &self,
        idle: Option<Connection>,
        work: impl FnOnce(&Transaction<'_>) -> Attempt<T>,
    ) -> Attempt<(Connection, T)> {
        let mut connection = match idle {
            Some(connection) => connection,
            None => connect(&self.path, "FULL", READER_CACHE)?,
        };
        let transaction = connection.transaction()?;
        let value = work(&transaction)?;
        transaction.finish()?;
        Ok((connection, value))
    }

    /// Runs `work` on the writer outside of a transaction, as `VACUUM` and checkpoints need it.
    pub(crate) fn outside<T>(&self, work: impl FnOnce(&Connection) -> Attempt<T>) -> Result<T> {
        work(&lock(&self.writer)).map_err(|failure| self.tell(failure))
    }

    /// An error in words.
    pub(crate) fn tell(&self, failure: Failure) -> Error {
        tell(&self.path, failure)
    }

    /// [`Error::Corrupt`] for this file.
    pub(crate) fn corrupt(&self, reason: impl Into<String>) -> Error {
        corrupt(&self.path, reason)
    }
}

fn tell(path: &Path, failure: Failure) -> Error {
    match failure {
        Failure::Sql(error) => sql_error(path, &error),
        Failure::Told(error) => error,
    }
}

/// A panic elsewhere leaves no half-written transaction, so a poisoned lock is as good as another.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn connect(path: &Path, synchronous: &str, cache: i64) -> Attempt<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    // Without it, statements with a range are planned anew for every value that is bound.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.set_prepared_statement_cache_capacity(128);
    // The change to WAL does not wait for others by itself.
    retry(|| Ok(connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?))?;
    connection.pragma_update(None, "synchronous", synchronous)?;
    connection.execute_batch(
        "PRAGMA foreign_keys = ON; PRAGMA secure_delete = ON; PRAGMA temp_store = MEMORY;
         PRAGMA journal_size_limit = 67108864;",
    )?;
    connection.pragma_update(None, "cache_size", -cache)?;
    add_functions(&connection)?;
    Ok(connection)
}

fn retry<T>(mut work: impl FnMut() -> Attempt<T>) -> Attempt<T> {
    for pause in 1..200 {
        match work() {
            Err(Failure::Sql(error)) if is_busy(&error) => std::thread::sleep(Duration::from_millis(pause)),
            other => return other,
        }
    }
    work()
}

fn in_transaction<T>(connection: &mut Connection, work: impl FnOnce(&Transaction<'_>) -> Attempt<T>) -> Attempt<T> {
    let transaction = begin(connection)?;
    let value = work(&transaction)?;
    transaction.commit()?;
    Ok(value)
}

fn begin(connection: &Connection) -> Attempt<Transaction<'_>> {
    let immediate = || Transaction::new_unchecked(connection, TransactionBehavior::Immediate);
    for _ in 1..ATTEMPTS {
        match immediate() {
            Err(error) if is_busy(&error) => (),
            other => return Ok(other?),
        }
    }
    Ok(immediate()?)
}

/// What SQLite's own functions do for ASCII alone, or only up to a NUL character.
fn add_functions(connection: &Connection) -> Attempt<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    let add = |name: &str, holds: fn(&str, &str) -> bool| {
        connection.create_scalar_function(name, 2, flags, move |arguments| {
            let text: Option<String> = arguments.get(0)?;
            let part: String = arguments.get(1)?;
            Ok(text.is_some_and(|text| holds(&text, &part)))
        })
    };
    add("text_contains", |text, part| text.contains(part))?;
    add("text_contains_folded", contains_folded)?;
    add("text_equals_folded", |text, other| fold(text) == fold(other))?;
    Ok(())
}

/// A number kept in `meta`; 0 if it was never set.
pub(crate) fn meta_number(connection: &Connection, key: &str) -> Attempt<i64> {
    let mut statement = connection.prepare_cached("SELECT value FROM meta WHERE key = ?1")?;
    Ok(statement.query_row([key], |row| row.get(0)).optional()?.unwrap_or(0))
}

/// A text kept in `meta`.
pub(crate) fn meta_text(connection: &Connection, key: &str) -> Attempt<Option<String>> {
    let mut statement = connection.prepare_cached("SELECT value FROM meta WHERE key = ?1")?;
    Ok(statement.query_row([key], |row| row.get(0)).optional()?)
}

/// Keeps a number or a text in `meta`.
pub(crate) fn set_meta(connection: &Connection, key: &str, value: impl rusqlite::ToSql) -> Attempt<()> {
    let sql = "INSERT INTO meta VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = excluded.value";
    connection.prepare_cached(sql)?.execute(rusqlite::params![key, value])?;
    Ok(())
}

/// Adds to a number kept in `meta` and returns the sum.
pub(crate) fn add_meta(connection: &Connection, key: &str, change: i64) -> Attempt<i64> {
    let sum = meta_number(connection, key)? + change;
    set_meta(connection, key, sum)?;
    Ok(sum)
}
