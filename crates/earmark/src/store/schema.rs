//! The tables, and how a database of another age is met.

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};
use uuid::Uuid;

use super::database::Attempt;
use crate::error::Error;

/// Newest schema this program knows.
pub(crate) const VERSION: i64 = 1;

/// Everything is kept once in `memories`, `vectors`, `recalls`, `labels` and `learned`;
/// `attributes`, `terms`, `postings` and `documents` follow from `memories`.
const TABLES: &str = "
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;

CREATE TABLE memories (
  row INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  sameness BLOB NOT NULL UNIQUE,
  content TEXT NOT NULL,
  words TEXT,
  author TEXT,
  kind TEXT NOT NULL,
  metadata TEXT NOT NULL,
  tags TEXT NOT NULL,
  user_id TEXT,
  agent_id TEXT,
  session_id TEXT,
  occurred_at INTEGER,
  created_at INTEGER NOT NULL);
CREATE INDEX memories_user ON memories (user_id) WHERE user_id IS NOT NULL;
CREATE INDEX memories_agent ON memories (agent_id) WHERE agent_id IS NOT NULL;
CREATE INDEX memories_session ON memories (session_id, user_id, ifnull(occurred_at, created_at))
  WHERE session_id IS NOT NULL;
CREATE INDEX memories_occurred ON memories (occurred_at) WHERE occurred_at IS NOT NULL;
CREATE INDEX memories_created ON memories (created_at);
CREATE INDEX memories_author ON memories (author) WHERE author IS NOT NULL;
CREATE INDEX memories_kind ON memories (kind);

CREATE TABLE vectors (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  row INTEGER NOT NULL REFERENCES memories (row) ON DELETE CASCADE,
  epoch INTEGER NOT NULL,
  vector BLOB NOT NULL,
  UNIQUE (row, epoch));
CREATE TABLE dead_vectors (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  seq INTEGER NOT NULL,
  row INTEGER NOT NULL);

CREATE TABLE attributes (
  key TEXT NOT NULL,
  type INTEGER NOT NULL,
  value NOT NULL,
  row INTEGER NOT NULL REFERENCES memories (row) ON DELETE CASCADE,
  PRIMARY KEY (key, type, value, row)) WITHOUT ROWID;
CREATE INDEX attributes_row ON attributes (row, key, type, value);

CREATE TABLE terms (id INTEGER PRIMARY KEY, term TEXT NOT NULL UNIQUE, texts INTEGER NOT NULL);
CREATE TABLE postings (
  term INTEGER NOT NULL,
  base INTEGER NOT NULL,
  block BLOB NOT NULL,
  PRIMARY KEY (term, base)) WITHOUT ROWID;
CREATE TABLE documents (
  row INTEGER PRIMARY KEY REFERENCES memories (row) ON DELETE CASCADE,
  length INTEGER NOT NULL,
  terms BLOB NOT NULL);

CREATE TABLE recalls (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  state INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  closed_at INTEGER,
  sequence INTEGER UNIQUE,
  learning_version INTEGER,
  recipe TEXT,
  query TEXT,
  scope TEXT,
  query_vector BLOB,
  candidates BLOB);
CREATE INDEX recalls_state ON recalls (state, number);
CREATE INDEX recalls_open_since ON recalls (created_at) WHERE state = 0;
CREATE TABLE rounds (
  recall INTEGER NOT NULL REFERENCES recalls (number) ON DELETE CASCADE,
  round INTEGER NOT NULL,
  slate BLOB NOT NULL,
  PRIMARY KEY (recall, round)) WITHOUT ROWID;
CREATE TABLE labels (
  recall INTEGER NOT NULL REFERENCES recalls (number) ON DELETE CASCADE,
  round INTEGER NOT NULL,
  row INTEGER NOT NULL REFERENCES memories (row) ON DELETE CASCADE,
  useful INTEGER NOT NULL,
  source TEXT NOT NULL,
  PRIMARY KEY (recall, round, row)) WITHOUT ROWID;
CREATE INDEX labels_row ON labels (row);
CREATE TABLE next_queries (
  recall INTEGER PRIMARY KEY REFERENCES recalls (number) ON DELETE CASCADE,
  vector BLOB NOT NULL);

CREATE TABLE learned (
  version INTEGER PRIMARY KEY AUTOINCREMENT,
  parent INTEGER NOT NULL,
  through_sequence INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  summary TEXT NOT NULL,
  checksum BLOB NOT NULL,
  blob BLOB NOT NULL);
";

/// Makes the tables in an empty database; a database that has them is left alone.
pub(crate) fn prepare(connection: &mut Connection, path: &Path) -> Attempt<()> {
    if check_version(connection, path)? {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if !check_version(&transaction, path)? {
        transaction.execute_batch(TABLES)?;
        let identity = Uuid::now_v7().simple().to_string();
        let start =
            "INSERT INTO meta VALUES ('identity', ?1), ('generation', 1), ('epoch', 1), ('memories', 0), ('words', 0)";
        transaction.execute(start, [identity])?;
        transaction.pragma_update(None, "user_version", VERSION)?;
    }
    Ok(transaction.commit()?)
}

/// Whether the tables are there.
fn check_version(connection: &Connection, path: &Path) -> Attempt<bool> {
    let received: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if received > VERSION {
        return Err(Error::SchemaTooNew { path: path.to_owned(), expected: VERSION, received }.into());
    }
    Ok(received == VERSION)
}
