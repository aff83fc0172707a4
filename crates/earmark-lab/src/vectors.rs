//! The vectors of a data set: each text is encoded once, then read from the cache.

use std::path::Path;

use anyhow::Result;
use earmark::encode::{EmbeddingCache, Encoder, LocalOptions, Precision, Side, encode_all, open_local};

/// An encoder with the file of what it has encoded.
pub struct Vectors {
    encoder: Box<dyn Encoder>,
    cache: EmbeddingCache,
}

impl Vectors {
    /// Opens a model by name or folder, with the vectors in the folder `cache`.
    ///
    /// # Errors
    /// If the model cannot be found or loaded, or the cache cannot be used; the message says what helps.
    pub fn open(model: &str, cache: &Path) -> Result<Self> {
        let encoder = open_local(model, &LocalOptions::default())?;
        let cache = EmbeddingCache::open(cache, encoder.as_ref(), Precision::F32)?;
        Ok(Vectors { encoder, cache })
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
        Ok(encode_all(self.encoder.as_ref(), &mut self.cache, texts, side, progress)?)
    }
}
