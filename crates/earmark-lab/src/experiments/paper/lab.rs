//! Questions and candidates, found once for all experiments of a command.

use std::cell::RefCell;
use std::rc::Rc;

use anyhow::{Context, Result};
use earmark::encode::Side;

use crate::candidates::{self, Case};
use crate::data::{Dataset, Stores};
use crate::rerank::{self, Score};
use crate::text::MemoryText;

/// What is searched with what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Name of the set.
    pub set: String,
    /// Its memory stores; other sets than LoCoMo have dialogues only.
    pub stores: Stores,
    /// Name or folder of the encoder.
    pub encoder: String,
    /// What text of a memory is encoded.
    pub memory_text: MemoryText,
}

impl Setting {
    /// The encoder's name, without its folder.
    pub fn encoder_name(&self) -> String {
        self.encoder.trim_end_matches('/').rsplit('/').next().unwrap_or(&self.encoder).to_owned()
    }

    /// What the set is called in result rows.
    pub fn dataset_name(&self) -> String {
        match self.stores {
            Stores::Dialogues => self.set.clone(),
            Stores::Observations => format!("{}-observations", self.set),
            Stores::Both => format!("{}-both", self.set),
        }
    }
}

/// Encodes texts of one side for a setting.
pub type EncodeFor<'a> = dyn Fn(&Setting, &[&str], Side) -> Result<Vec<Vec<f32>>> + 'a;

/// Loads what a setting names.
pub type Load<'a> = dyn Fn(&Setting) -> Result<Dataset> + 'a;

/// Where data and vectors come from.
pub struct Source<'a> {
    /// The questions with gold of a setting, with their banks.
    pub load: Box<Load<'a>>,
    /// Vectors of texts, from a cache where there is one.
    pub encode: Box<EncodeFor<'a>>,
    /// The same, always computed: what a live query costs.
    pub encode_live: Box<EncodeFor<'a>>,
    /// What orders the candidates anew, for Table 10.
    pub reranker: Option<Reranking<'a>>,
}

/// A reranker and what it reads.
pub struct Reranking<'a> {
    /// Candidates of each question that it orders, at least.
    pub depth: usize,
    /// Its scores.
    pub score: Box<Score<'a>>,
}

/// Few values by key.
type Known<K, V> = RefCell<Vec<(K, Rc<V>)>>;

/// What was found so far.
pub struct Lab<'a> {
    source: Source<'a>,
    datasets: Known<Setting, Dataset>,
    cases: Known<(Setting, usize), Vec<Case>>,
    reranked: Known<(Setting, usize), Vec<Case>>,
}

impl<'a> Lab<'a> {
    /// Nothing is loaded yet.
    pub fn new(source: Source<'a>) -> Self {
        Lab { source, datasets: RefCell::default(), cases: RefCell::default(), reranked: RefCell::default() }
    }

    /// The questions of a setting.
    ///
    /// # Errors
    /// Those of loading.
    pub fn dataset(&self, setting: &Setting) -> Result<Rc<Dataset>> {
        found(&self.datasets, setting, || {
            let mut dataset = (self.source.load)(setting)?;
            dataset.name = setting.dataset_name();
            Ok(dataset)
        })
    }

    /// The `k` candidates of each question: balanced over the stores where there are several.
    ///
    /// # Errors
    /// Those of loading and encoding.
    pub fn cases(&self, setting: &Setting, k: usize) -> Result<Rc<Vec<Case>>> {
        found(&self.cases, &(setting.clone(), k), || {
            let dataset = self.dataset(setting)?;
            let find = if setting.stores == Stores::Both { candidates::find_balanced } else { candidates::find };
            find(&dataset, setting.memory_text, k, &mut |texts, side| self.encode(setting, texts, side))
        })
    }

    /// The first `k` candidates of each question in the order of the reranker.
    ///
    /// # Errors
    /// As [`Lab::cases`], those of the reranker, or if there is none.
    pub fn reranked_cases(&self, setting: &Setting, k: usize) -> Result<Rc<Vec<Case>>> {
        let reranker = self.source.reranker.as_ref().context("this experiment needs a reranker")?;
        found(&self.reranked, &(setting.clone(), k), || {
            let cases = self.cases(setting, k.max(reranker.depth))?;
            rerank::rerank(&*self.dataset(setting)?, setting.memory_text, &cases, k, &*reranker.score)
        })
    }

    /// Vectors of texts, from the cache where they are there.
    ///
    /// # Errors
    /// Those of encoding.
    pub fn encode(&self, setting: &Setting, texts: &[&str], side: Side) -> Result<Vec<Vec<f32>>> {
        (self.source.encode)(setting, texts, side)
    }

    /// Vectors of texts, computed now.
    ///
    /// # Errors
    /// Those of encoding.
    pub fn encode_live(&self, setting: &Setting, texts: &[&str], side: Side) -> Result<Vec<Vec<f32>>> {
        (self.source.encode_live)(setting, texts, side)
    }
}

fn found<K: PartialEq + Clone, V>(known: &Known<K, V>, key: &K, find: impl FnOnce() -> Result<V>) -> Result<Rc<V>> {
    let known_already = known.borrow().iter().find(|(one, _)| one == key).map(|(_, value)| value.clone());
    if let Some(value) = known_already {
        return Ok(value);
    }
    let value = Rc::new(find()?);
    known.borrow_mut().push((key.clone(), value.clone()));
    Ok(value)
}
