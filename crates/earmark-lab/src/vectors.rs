//! The vectors of a data set: each text is encoded once, then read from the cache.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Result;
use earmark::encode::{EmbeddingCache, Encoder, Precision, Side, encode_all};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::data::Dataset;
use crate::encoders;
use crate::text::MemoryText;

/// An encoder with the file of what it has encoded.
pub struct Vectors {
    encoder: Box<dyn Encoder>,
    cache: EmbeddingCache,
    most_characters: usize,
}

/// Of a text of the set `name`, only so many first characters are encoded. The turns of LongMemEval have up to
/// 76,560; 1,000 are about as many tokens as MiniLM's window holds, where sentence-transformers cuts as well.
pub fn most_characters(name: &str) -> usize {
    if name == "longmemeval" { 1_000 } else { usize::MAX }
}

impl Vectors {
    /// Opens a model by name or folder, with the vectors in the folder `cache`, for texts of `dataset`.
    ///
    /// # Errors
    /// If the model cannot be found or loaded, or the cache cannot be used; the message says what helps.
    pub fn open(model: &str, cache: &Path, dataset: &str) -> Result<Self> {
        let encoder = encoders::open(model)?;
        let cache = EmbeddingCache::open(cache, encoder.as_ref(), Precision::F32)?;
        Ok(Vectors { encoder, cache, most_characters: most_characters(dataset) })
    }

    /// Whether the vectors of a bank's memories are all in the cache.
    fn holds(&self, dataset: &Dataset, bank: usize, text: MemoryText) -> bool {
        let known = |text: String| self.cache.contains(cut(&text, self.most_characters), Side::Memory);
        dataset.banks[bank].memories.iter().all(|memory| known(text.of(memory)))
    }

    /// Drops the memories and questions of banks that are not encoded yet; returns how many of how many banks
    /// with questions are ready.
    /// Results of a part are those of a random part (see [`bank_order`]).
    pub fn keep_ready(&self, dataset: &mut Dataset, text: MemoryText) -> (usize, usize) {
        let ready: Vec<bool> = (0..dataset.banks.len()).map(|bank| self.holds(dataset, bank, text)).collect();
        let asked = bank_order(dataset);
        let count = asked.iter().filter(|bank| ready[**bank]).count();
        dataset.questions.retain(|question| ready[question.bank]);
        let others = dataset.banks.iter_mut().zip(&ready).filter(|(_, ready)| !**ready);
        others.for_each(|(bank, _)| bank.memories.clear());
        (count, asked.len())
    }

    /// One vector a text, in their order; `progress` is told how many of how many texts are done.
    ///
    /// # Errors
    /// Those of the encoder and of the disk; what was encoded before is kept.
    pub fn encode(
        &mut self,
        texts: &[&str],
        side: Side,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Vec<Vec<f32>>> {
        let texts: Vec<&str> = texts.iter().map(|text| cut(text, self.most_characters)).collect();
        Ok(encode_all(self.encoder.as_ref(), &mut self.cache, &texts, side, progress)?)
    }
}

/// The order in which banks with questions are encoded: shuffled once and for all, so that a part is a random part.
pub fn bank_order(dataset: &Dataset) -> Vec<usize> {
    let banks: BTreeSet<usize> = dataset.questions.iter().map(|question| question.bank).collect();
    let mut banks: Vec<usize> = banks.into_iter().collect();
    banks.shuffle(&mut ChaCha8Rng::seed_from_u64(0));
    banks
}

fn cut(text: &str, most_characters: usize) -> &str {
    text.char_indices().nth(most_characters).map_or(text, |(end, _)| &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_between_characters() {
        for (most, expected) in [(0, ""), (2, "aé"), (3, "aéb"), (9, "aéb")] {
            assert_eq!(cut("aéb", most), expected);
        }
    }
}
