//! The façade as a caller sees it: traps that memories fall into, each with the right behaviour.

mod explore;
mod feedback;
mod filter;
mod forget;
mod learning;
mod namespaces;
mod recall;
mod remember;

use std::sync::Arc;

use earmark::encode::{Encoder, Side};
use earmark::{Earmark, Namespace, NewMemory, Params, Recall, RecallRequest, Recipe, Result, Settings};

/// A bag of hashed words: deterministic, and similar where words are shared.
struct Words {
    dimension: usize,
}

/// Enough that few words share a place.
pub(crate) const WIDE: usize = 8192;
/// Few enough for the adapter of the `paper` recipe.
const NARROW: usize = 256;

impl Encoder for Words {
    fn model(&self) -> &str {
        "bag-of-words"
    }

    fn dimension(&self) -> usize {
        self.dimension
    }

    fn encode(&self, texts: &[&str], _side: Side) -> Result<Vec<Vec<f32>>> {
        Ok(texts.iter().map(|text| bag(text, self.dimension)).collect())
    }
}

pub(crate) fn bag(text: &str, dimension: usize) -> Vec<f32> {
    let mut vector = vec![0.0; dimension];
    for word in text.to_lowercase().split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty()) {
        let hash = word.bytes().fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
        vector[(hash >> 32) as usize % dimension] += 1.0;
    }
    vector
}

pub(crate) struct Home {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) settings: Settings,
}

impl Home {
    pub(crate) fn new() -> Home {
        Home { folder: tempfile::tempdir().unwrap(), settings: Settings::default() }
    }

    pub(crate) fn paper() -> Home {
        let settings = Settings { params: Params::paper(), ..Default::default() };
        Home { settings, ..Home::new() }
    }

    pub(crate) fn open(&self) -> Earmark {
        let dimension = if self.settings.params.recipe == Recipe::Paper { NARROW } else { WIDE };
        Earmark::open(self.folder.path(), self.settings.clone(), move || Ok(Arc::new(Words { dimension }))).unwrap()
    }

    pub(crate) fn namespace(&self) -> Arc<Namespace> {
        self.open().namespace("default").unwrap()
    }

    /// A namespace whose folder lives as long as the process (tests of one namespace need no more).
    pub(crate) fn open_default(self) -> Arc<Namespace> {
        let namespace = self.namespace();
        std::mem::forget(self.folder);
        namespace
    }
}

pub(crate) fn store(namespace: &Namespace, texts: &[&str]) -> Vec<String> {
    let items: Vec<NewMemory> = texts.iter().map(|text| NewMemory::new(*text)).collect();
    namespace.remember(&items).unwrap().into_iter().map(|r| r.id).collect()
}

pub(crate) fn ask(namespace: &Namespace, query: &str, top_k: usize) -> Recall {
    namespace.recall(&RecallRequest { top_k: Some(top_k), ..RecallRequest::new(query) }).unwrap()
}

pub(crate) fn contents(recall: &Recall) -> Vec<&str> {
    recall.results.iter().map(|r| r.memory.content.as_str()).collect()
}

pub(crate) fn first(recall: &Recall) -> &str {
    contents(recall).first().copied().unwrap_or("")
}

pub(crate) const UNRELATED: [&str; 20] = [
    "Marta planted tomatoes along the south wall.",
    "The choir rehearses in the old cinema.",
    "Two swans nested near our canoe landing.",
    "Grandpa keeps his chess trophies in a biscuit tin.",
    "A yellow kite got stuck in the poplar.",
    "Nobody remembered to water the ferns.",
    "Their dog sleeps under the piano.",
    "Paul bakes rye bread every other morning.",
    "The museum lends out stereoscopes.",
    "We painted the hallway a pale blue.",
    "Lena collects stamps with lighthouses.",
    "The tram bell rings twice at the corner.",
    "Omar repaired the bicycle chain himself.",
    "Fresh snow covered the vineyard.",
    "The neighbours play dominoes after dinner.",
    "Her suitcase has a broken wheel.",
    "They whistle while folding laundry.",
    "An owl lives in the church tower.",
    "Karin swims in the lake until October.",
    "The clock in the kitchen runs slow.",
];
