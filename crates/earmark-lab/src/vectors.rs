//! The vectors of a data set: each text is encoded once, then read from a file.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use earmark::encode::{Encoder, Local, LocalOptions, Side};

/// Texts that are encoded and written together.
const BLOCK: usize = 256;

type Key = [u8; 32];

/// An encoder with a file of what it has encoded.
///
/// The file is a list of records, each the blake3 hash of side and text and the vector as little-endian `f32`;
/// a record that a crash cut off is written again.
pub struct Vectors {
    encoder: Box<dyn Encoder>,
    file: File,
    known: HashMap<Key, Vec<f32>>,
}

impl Vectors {
    /// Opens a model, by the name of a folder in `EARMARK_MODELS` (or `models`) or by its own path, with the
    /// vectors in `cache`.
    ///
    /// # Errors
    /// If there is no such model, it cannot be loaded, or the cache cannot be read.
    pub fn open(model: &str, cache: &Path) -> Result<Self> {
        let folder = folder_of(model)?;
        let encoder = Local::from_folder(model, &folder, &LocalOptions::default())?;
        Self::with(Box::new(encoder), cache)
    }

    /// The same with an encoder of one's own.
    ///
    /// # Errors
    /// If the cache cannot be read.
    pub fn with(encoder: Box<dyn Encoder>, cache: &Path) -> Result<Self> {
        let path = cache.join(format!("{}.vectors", encoder.model().replace('/', "_")));
        let here = || format!("vectors cannot be kept in {}", path.display());
        std::fs::create_dir_all(cache).with_context(here)?;
        let mut file = OpenOptions::new().create(true).append(true).read(true).open(&path).with_context(here)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).with_context(here)?;
        let size = size_of::<Key>() + 4 * encoder.dimension();
        let whole = bytes.len() - bytes.len() % size;
        file.set_len(whole as u64).with_context(here)?;
        let known = bytes[..whole].chunks_exact(size).filter_map(record).collect();
        Ok(Vectors { encoder, file, known })
    }

    /// One vector a text, in their order. Encodes what is not in the cache, the longest texts first, and tells
    /// `progress` how many of how many it has encoded.
    ///
    /// # Errors
    /// Those of the encoder and of the disk; what was encoded before is kept.
    pub fn encode(&mut self, texts: &[&str], side: Side, progress: impl Fn(usize, usize)) -> Result<Vec<Vec<f32>>> {
        let mut missing: Vec<&str> =
            texts.iter().copied().filter(|text| !self.known.contains_key(&key(text, side))).collect();
        missing.sort_by(|a, b| b.len().cmp(&a.len()).then(a.cmp(b)));
        missing.dedup();
        for (number, block) in missing.chunks(BLOCK).enumerate() {
            progress(number * BLOCK, missing.len());
            self.encode_block(block, side)?;
        }
        Ok(texts.iter().map(|text| self.known[&key(text, side)].clone()).collect())
    }

    fn encode_block(&mut self, texts: &[&str], side: Side) -> Result<()> {
        let vectors = self.encoder.encode(texts, side)?;
        let mut bytes = Vec::new();
        for (text, vector) in texts.iter().zip(vectors) {
            let key = key(text, side);
            bytes.extend_from_slice(&key);
            bytes.extend(vector.iter().flat_map(|number| number.to_le_bytes()));
            self.known.insert(key, vector);
        }
        self.file.write_all(&bytes).context("vectors cannot be written to the cache")
    }
}

fn folder_of(model: &str) -> Result<PathBuf> {
    let models = std::env::var_os("EARMARK_MODELS").map_or_else(|| PathBuf::from("models"), PathBuf::from);
    let tried = [PathBuf::from(model), models.join(model)];
    match tried.iter().find(|folder| folder.join("config.json").is_file()) {
        Some(folder) => Ok(folder.clone()),
        None => {
            bail!("no model in {} or {}; scripts/fetch-models.sh fetches some", tried[0].display(), tried[1].display())
        }
    }
}

fn key(text: &str, side: Side) -> Key {
    let mut hasher = blake3::Hasher::new();
    hasher.update(if side == Side::Query { b"query\0" } else { b"memory\0" });
    *hasher.update(text.as_bytes()).finalize().as_bytes()
}

fn record(bytes: &[u8]) -> Option<(Key, Vec<f32>)> {
    let (key, numbers) = bytes.split_first_chunk::<32>()?;
    let (numbers, _) = numbers.as_chunks::<4>();
    Some((*key, numbers.iter().map(|number| f32::from_le_bytes(*number)).collect()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    struct Lengths(Arc<AtomicUsize>);

    impl Encoder for Lengths {
        fn model(&self) -> &str {
            "test/lengths"
        }

        fn dimension(&self) -> usize {
            2
        }

        fn encode(&self, texts: &[&str], side: Side) -> earmark::Result<Vec<Vec<f32>>> {
            self.0.fetch_add(texts.len(), Ordering::Relaxed);
            let side = if side == Side::Query { 1.0 } else { 2.0 };
            Ok(texts.iter().map(|text| vec![text.len() as f32, side]).collect())
        }
    }

    #[test]
    fn each_text_is_encoded_once_even_after_a_torn_write() {
        let folder = tempfile::tempdir().unwrap();
        let encoded = Arc::new(AtomicUsize::new(0));
        let open = || Vectors::with(Box::new(Lengths(encoded.clone())), folder.path()).unwrap();
        let want = [[1.0, 2.0], [3.0, 2.0], [1.0, 2.0]].map(Vec::from);
        assert_eq!(open().encode(&["a", "abc", "a"], Side::Memory, |_, _| {}).unwrap(), want);
        assert_eq!(open().encode(&["a", "abc", "a"], Side::Memory, |_, _| {}).unwrap(), want);
        assert_eq!(encoded.load(Ordering::Relaxed), 2);
        assert_eq!(open().encode(&["a"], Side::Query, |_, _| {}).unwrap(), [vec![1.0, 1.0]]);

        let path = folder.path().join("test_lengths.vectors");
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 3]).unwrap();
        assert_eq!(open().encode(&["a"], Side::Query, |_, _| {}).unwrap(), [vec![1.0, 1.0]]);
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
    }
}
