//! The store from outside: what it keeps, what it finds, and what it survives.

mod cases;
mod crash;
mod damage;
mod forget;
mod oracle;
mod processes;
mod recalls;
mod reembed;

use earmark::store::{CandidateLog, DataFolder, EncoderStamp, Insert, RecallLog, Row, SlateEntry, Store};
use earmark::{Filter, Memory, Metadata, NewMemory, Scope};
use tempfile::TempDir;

pub(crate) const DIMENSION: usize = 8;

/// A namespace in a folder of its own.
pub(crate) struct Fresh {
    pub(crate) folder: TempDir,
    pub(crate) store: Store,
}

impl Fresh {
    pub(crate) fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let store = open(folder.path());
        Fresh { folder, store }
    }

    pub(crate) fn namespace_folder(&self) -> std::path::PathBuf {
        self.folder.path().join("namespaces/test")
    }
}

pub(crate) fn open(folder: &std::path::Path) -> Store {
    try_open(folder).unwrap()
}

pub(crate) fn try_open(folder: &std::path::Path) -> earmark::Result<Store> {
    let store = DataFolder::open(folder)?.open_namespace("test", true)?;
    store.stamp_encoder(&stamp("hash"))?;
    Ok(store)
}

pub(crate) fn stamp(model: &str) -> EncoderStamp {
    EncoderStamp { model: model.to_owned(), dimension: DIMENSION }
}

/// A vector that depends on the text alone.
pub(crate) fn encode(text: &str) -> Vec<f32> {
    let hash = blake3::hash(text.as_bytes());
    hash.as_bytes()[..DIMENSION].iter().map(|byte| f32::from(*byte) - 127.5).collect()
}

pub(crate) fn item(memory: NewMemory) -> Insert {
    Insert { vector: encode(&memory.content), words: memory.content.clone(), memory }
}

pub(crate) fn remember(store: &Store, memory: NewMemory) -> String {
    store.insert(vec![item(memory)]).unwrap().remove(0).id
}

pub(crate) fn remember_text(store: &Store, text: &str) -> String {
    remember(store, NewMemory::new(text))
}

pub(crate) fn metadata(json: serde_json::Value) -> Metadata {
    json.as_object().unwrap().clone()
}

pub(crate) fn scope(filter: serde_json::Value) -> Scope {
    Scope { filter: Some(Filter::parse(&filter).unwrap()), ..Scope::default() }
}

pub(crate) fn all(store: &Store) -> Vec<(Row, Memory)> {
    store.list(&Scope::default(), None, usize::MAX).unwrap()
}

/// A recall of the first rows, as the library logs it.
pub(crate) fn log(id: &str, rows: &[Row]) -> RecallLog {
    RecallLog {
        id: id.to_owned(),
        query: "where?".to_owned(),
        query_vector: encode("where?"),
        scope_json: "{}".to_owned(),
        learning_version: 0,
        recipe: "default".to_owned(),
        candidates: rows.iter().map(|row| CandidateLog { row: *row, features: vec![0.25, row.0 as f32] }).collect(),
        slate: rows.iter().take(2).map(|row| SlateEntry { row: *row, explored: row.0 % 2 == 0 }).collect(),
        created_at: jiff::Timestamp::from_microsecond(jiff::Timestamp::now().as_microsecond()).unwrap(),
    }
}

pub(crate) fn assert_whole(store: &Store) {
    assert_eq!(store.check().unwrap(), Vec::<String>::new());
}
