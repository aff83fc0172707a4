//! The only code that touches disk or a database: one folder and one SQLite database per namespace.
//!
//! - `memories`, `vectors`, `recalls`, `labels`, `learned` are the truth, kept in [`Store::DATABASE`].
//! - The word index and the filter attributes follow from it in the same transaction.
//! - Vector segments (memory-mapped files) are a cache: made from the database when missing or damaged,
//!   and caught up with when another process wrote.
//!
//! Any number of processes and threads may use one namespace at once. A call that stores something returns
//! when it is on the disk; [`Store::log_recall`], [`Store::add_round`], [`Store::save_learned`] and [`Store::expire`]
//! return before, and survive the death of the process.

mod attributes;
mod bank;
mod check;
mod database;
mod errors;
mod folder;
mod forget;
mod kept;
mod learned;
mod lexicon;
mod memories;
mod pack;
mod postings;
mod quantize;
mod raw;
mod recalls;
mod reembed;
mod rows;
mod schema;
mod scope;
mod search;
mod segment;
mod shortlist;
mod stamp;
mod tail;
mod types;
mod update;
mod words;

use std::path::{Path, PathBuf};
use std::sync::RwLock;

pub use folder::DataFolder;
pub use types::*;

use crate::error::Result;
use bank::Bank;
use database::Database;
use kept::KeptScopes;

/// One namespace on disk.
#[derive(Debug)]
pub struct Store {
    namespace: String,
    database: Database,
    vectors_folder: PathBuf,
    bank: RwLock<Bank>,
    kept_scopes: KeptScopes,
    /// The encoder that the caller said it uses.
    expected: RwLock<Option<EncoderStamp>>,
}

impl Store {
    /// File name of the database in the namespace's folder.
    pub const DATABASE: &'static str = "earmark.db";

    /// Opens the namespace `name` in `folder`, which must exist, and reads its vectors in.
    ///
    /// # Errors
    /// [`crate::Error::Corrupt`] for a damaged database, [`crate::Error::SchemaTooNew`] for one of a newer
    /// version, [`crate::Error::Io`] for what the disk refuses.
    pub fn open(name: &str, folder: &Path) -> Result<Self> {
        let store = Store {
            namespace: name.to_owned(),
            database: Database::open(&folder.join(Self::DATABASE))?,
            vectors_folder: folder.join("vectors"),
            bank: RwLock::default(),
            kept_scopes: KeptScopes::default(),
            expected: RwLock::default(),
        };
        store.database.read(|snapshot| store.bank(snapshot).map(drop))?;
        Ok(store)
    }

    /// Name of the namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }
}
