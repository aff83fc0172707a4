//! Vectors of a data set on disk, so that a second run encodes nothing.
//!
//! One append-only file per model: a header, then records of equal size: the key (blake3 of model, side and text),
//! the vector, and a checksum of both. A record that was cut or damaged is skipped, and its text encoded again.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use half::f16;

use super::map::Map;
use super::{Encoder, Side};
use crate::error::{Error, Result};

const MAGIC: &[u8; 8] = b"EARMARKV";
const VERSION: u32 = 1;
/// Magic, version, precision, dimension, and the first bytes of the model's hash.
const HEADER: usize = 64;
const KEY: usize = 32;
const CHECKSUM: usize = 8;
/// Texts that are encoded and written at once; what a crash can cost.
const PORTION: usize = 256;
/// Texts that are sorted by length together.
const WINDOW: usize = 16 * PORTION;

/// How vectors are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// As they are.
    F32,
    /// Rounded to half precision, in half of the space.
    F16,
}

impl Precision {
    fn size(self) -> usize {
        match self {
            Precision::F32 => 4,
            Precision::F16 => 2,
        }
    }
}

/// What identifies a text's vector.
type Key = [u8; KEY];

/// The cached vectors of one model.
pub struct EmbeddingCache {
    path: PathBuf,
    file: File,
    map: Map,
    index: HashMap<Key, usize>,
    /// Records of the file that have been looked at.
    seen: usize,
    model: String,
    dimension: usize,
    precision: Precision,
}

impl EmbeddingCache {
    /// Opens the file of the encoder's model in `folder`, or starts it.
    ///
    /// # Errors
    /// [`Error::Io`] when the folder cannot be written; [`Error::Corrupt`] when the file is none of this kind.
    pub fn open(folder: &Path, encoder: &dyn Encoder, precision: Precision) -> Result<Self> {
        std::fs::create_dir_all(folder).map_err(io(folder))?;
        let path = folder.join(file_name(encoder.model(), encoder.dimension(), precision));
        let mut options = OpenOptions::new();
        let mut file = options.read(true).write(true).create(true).truncate(false).open(&path).map_err(io(&path))?;
        let header = header(encoder.model(), encoder.dimension(), precision);
        start_file(&mut file, &header).map_err(io(&path))?;
        let map = Map::of(&file).map_err(io(&path))?;
        if map.get(..HEADER) != Some(&header) {
            let reason = "it is not a vector cache of this model; delete it, and its vectors are made again".into();
            return Err(Error::Corrupt { path, reason });
        }
        let (model, dimension) = (encoder.model().to_owned(), encoder.dimension());
        let mut cache = EmbeddingCache { path, file, map, index: HashMap::new(), seen: 0, model, dimension, precision };
        cache.read_new_records();
        Ok(cache)
    }

    /// Number of vectors.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether it holds no vector.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the vector of a text is there.
    pub fn contains(&self, text: &str, side: Side) -> bool {
        self.index.contains_key(&self.key(text, side))
    }

    /// The vector of a text, if it is there.
    pub fn get(&self, text: &str, side: Side) -> Option<Vec<f32>> {
        self.vector(&self.key(text, side))
    }

    /// Appends vectors; they are on disk when the call returns.
    ///
    /// # Errors
    /// [`Error::Io`] when the file cannot be written; what was there before stays.
    ///
    /// # Panics
    /// When a vector has another dimension than the encoder.
    pub fn insert(&mut self, texts: &[&str], side: Side, vectors: &[Vec<f32>]) -> Result<()> {
        let mut bytes = Vec::with_capacity(texts.len() * self.record());
        for (text, vector) in texts.iter().zip(vectors) {
            self.write_record(&mut bytes, &self.key(text, side), vector);
        }
        self.append(&bytes).map_err(io(&self.path))?;
        self.map = Map::of(&self.file).map_err(io(&self.path))?;
        self.read_new_records();
        Ok(())
    }

    fn key(&self, text: &str, side: Side) -> Key {
        let mut hasher = blake3::Hasher::new();
        hasher.update(self.model.as_bytes());
        hasher.update(if side == Side::Query { b"\0query\0" } else { b"\0memory\0" });
        hasher.update(text.as_bytes());
        *hasher.finalize().as_bytes()
    }

    /// Bytes of a record.
    fn record(&self) -> usize {
        KEY + self.dimension * self.precision.size() + CHECKSUM
    }

    fn write_record(&self, bytes: &mut Vec<u8>, key: &Key, vector: &[f32]) {
        assert_eq!(vector.len(), self.dimension, "a vector of another dimension");
        let start = bytes.len();
        bytes.extend(key);
        match self.precision {
            Precision::F32 => bytes.extend(vector.iter().flat_map(|value| value.to_le_bytes())),
            Precision::F16 => bytes.extend(vector.iter().flat_map(|value| f16::from_f32(*value).to_le_bytes())),
        }
        let checksum = checksum(&bytes[start..]);
        bytes.extend(checksum);
    }

    /// Writes behind the last whole record, over a cut one. The lock keeps other processes from the same place.
    fn append(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.file.lock()?;
        let result = self.append_locked(bytes);
        self.file.unlock()?;
        result
    }

    fn append_locked(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        let len = self.file.metadata()?.len() as usize;
        let end = HEADER + (len - HEADER) / self.record() * self.record();
        self.file.seek(SeekFrom::Start(end as u64))?;
        self.file.write_all(bytes)?;
        self.file.sync_data()
    }

    fn read_new_records(&mut self) {
        let record = self.record();
        for bytes in self.map.get(HEADER..).unwrap_or_default().chunks_exact(record).skip(self.seen) {
            let (content, sum) = bytes.split_at(record - CHECKSUM);
            if let (true, Some(key)) = (checksum(content) == sum, content.first_chunk()) {
                self.index.insert(*key, self.seen);
            }
            self.seen += 1;
        }
    }

    fn vector(&self, key: &Key) -> Option<Vec<f32>> {
        let start = HEADER + self.index.get(key)? * self.record() + KEY;
        let bytes = self.map.get(start..start + self.dimension * self.precision.size())?;
        Some(match self.precision {
            Precision::F32 => bytes.as_chunks().0.iter().map(|value| f32::from_le_bytes(*value)).collect(),
            Precision::F16 => bytes.as_chunks().0.iter().map(|value| f16::from_le_bytes(*value).to_f32()).collect(),
        })
    }
}

/// The vectors of all texts, in their order; only what the cache does not hold is encoded, longest texts first
/// within large portions, and written as it comes. `progress` is told how many of all texts are done.
///
/// # Errors
/// What the encoder or the file says; the portions that were written stay, and the next call goes on from there.
pub fn encode_all(
    encoder: &dyn Encoder,
    cache: &mut EmbeddingCache,
    texts: &[&str],
    side: Side,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Vec<Vec<f32>>> {
    let keys: Vec<Key> = texts.iter().map(|text| cache.key(text, side)).collect();
    let mut missing: HashMap<&Key, &str> = HashMap::new();
    let absent = keys.iter().zip(texts).filter(|(key, _)| !cache.index.contains_key(*key));
    let mut rest: Vec<&str> =
        absent.filter_map(|(key, text)| missing.insert(key, text).is_none().then_some(*text)).collect();
    let mut done = texts.len() - rest.len();
    progress(done, texts.len());
    for window in rest.chunks_mut(WINDOW) {
        window.sort_by_key(|text| std::cmp::Reverse(text.len()));
        for portion in window.chunks(PORTION) {
            let vectors = encoder.encode(portion, side)?;
            cache.insert(portion, side, &vectors)?;
            done += portion.len();
            progress(done, texts.len());
        }
    }
    let damaged =
        || Error::Corrupt { path: cache.path.clone(), reason: "a vector that was just written is gone".into() };
    keys.iter().map(|key| cache.vector(key).ok_or_else(damaged)).collect()
}

/// Writes the header of a new file. A file shorter than a header was cut while it was started.
fn start_file(file: &mut File, header: &[u8; HEADER]) -> std::io::Result<()> {
    file.lock()?;
    let result = match file.metadata()?.len() < HEADER as u64 {
        true => file.seek(SeekFrom::Start(0)).and_then(|_| file.write_all(header)),
        false => Ok(()),
    };
    file.unlock()?;
    result
}

fn header(model: &str, dimension: usize, precision: Precision) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    header[12..16].copy_from_slice(&(precision.size() as u32).to_le_bytes());
    header[16..24].copy_from_slice(&(dimension as u64).to_le_bytes());
    header[32..].copy_from_slice(blake3::hash(model.as_bytes()).as_bytes());
    header
}

fn file_name(model: &str, dimension: usize, precision: Precision) -> String {
    let plain: String =
        model.chars().map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' }).collect();
    let plain = plain.trim_start_matches('.');
    let hash = &blake3::hash(model.as_bytes()).to_hex()[..8];
    let suffix = if precision == Precision::F16 { "f16" } else { "f32" };
    format!("{}-{hash}-{dimension}.{suffix}", &plain[..plain.len().min(80)])
}

fn checksum(bytes: &[u8]) -> [u8; CHECKSUM] {
    let mut sum = [0; CHECKSUM];
    sum.copy_from_slice(&blake3::hash(bytes).as_bytes()[..CHECKSUM]);
    sum
}

fn io(path: &Path) -> impl Fn(std::io::Error) -> Error {
    let path = path.to_owned();
    move |error| Error::Io { path: path.clone(), reason: format!("{error}; the vector cache has to be writable") }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Counts what it encodes; the vector is made of the text's length.
    #[derive(Default)]
    struct Counting {
        encoded: AtomicUsize,
        fail_after: Option<usize>,
    }

    impl Encoder for Counting {
        fn model(&self) -> &str {
            "org/counting"
        }

        fn dimension(&self) -> usize {
            3
        }

        fn encode(&self, texts: &[&str], side: Side) -> Result<Vec<Vec<f32>>> {
            let before = self.encoded.fetch_add(texts.len(), Ordering::SeqCst);
            if self.fail_after.is_some_and(|most| before >= most) {
                return Err(Error::Encoder { model: "counting".into(), reason: "stopped".into() });
            }
            let sign = if side == Side::Query { -1.0 } else { 1.0 };
            Ok(texts.iter().map(|text| vec![text.len() as f32 + 0.1, sign, 0.5]).collect())
        }
    }

    fn texts(count: usize) -> Vec<String> {
        (0..count).map(|index| format!("{index} {}", "x".repeat(index * 37 % 100))).collect()
    }

    fn run(folder: &Path, encoder: &Counting, texts: &[String]) -> Result<Vec<Vec<f32>>> {
        let mut cache = EmbeddingCache::open(folder, encoder, Precision::F32)?;
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        encode_all(encoder, &mut cache, &texts, Side::Memory, &mut |_, _| {})
    }

    fn only_file(folder: &Path) -> PathBuf {
        std::fs::read_dir(folder).unwrap().next().unwrap().unwrap().path()
    }

    #[test]
    fn a_second_run_encodes_nothing() {
        let (folder, encoder, mut texts) = (tempfile::tempdir().unwrap(), Counting::default(), texts(700));
        texts.push(texts[5].clone());
        let first = run(folder.path(), &encoder, &texts).unwrap();
        assert_eq!(encoder.encoded.load(Ordering::SeqCst), 700);
        assert!(first.iter().zip(&texts).all(|(vector, text)| vector[0] == text.len() as f32 + 0.1));
        assert_eq!(run(folder.path(), &encoder, &texts).unwrap(), first);
        assert_eq!(encoder.encoded.load(Ordering::SeqCst), 700);
    }

    #[test]
    fn progress_starts_with_what_is_there_and_ends_complete() {
        let (folder, encoder, texts) = (tempfile::tempdir().unwrap(), Counting::default(), texts(300));
        run(folder.path(), &encoder, &texts[..100]).unwrap();
        let mut cache = EmbeddingCache::open(folder.path(), &encoder, Precision::F32).unwrap();
        let (texts, mut calls): (Vec<&str>, _) = (texts.iter().map(String::as_str).collect(), Vec::new());
        encode_all(&encoder, &mut cache, &texts, Side::Memory, &mut |done, total| calls.push((done, total))).unwrap();
        assert_eq!(calls, [(100, 300), (300, 300)]);
    }

    #[test]
    fn sides_are_apart() {
        let (folder, encoder) = (tempfile::tempdir().unwrap(), Counting::default());
        let mut cache = EmbeddingCache::open(folder.path(), &encoder, Precision::F16).unwrap();
        for (side, sign) in [(Side::Query, -1.0), (Side::Memory, 1.0)] {
            assert!(!cache.contains("a", side));
            let vectors = encode_all(&encoder, &mut cache, &["a"], side, &mut |_, _| {}).unwrap();
            assert!(cache.contains("a", side));
            assert_eq!(vectors, [[f16::from_f32(1.1).to_f32(), sign, 0.5]]);
        }
        assert_eq!(cache.len(), 2);
    }

    #[test]
    fn a_run_that_failed_goes_on() {
        let (folder, texts) = (tempfile::tempdir().unwrap(), texts(600));
        let failing = Counting { fail_after: Some(256), ..Counting::default() };
        assert!(run(folder.path(), &failing, &texts).is_err());
        let encoder = Counting::default();
        run(folder.path(), &encoder, &texts).unwrap();
        assert_eq!(encoder.encoded.load(Ordering::SeqCst), 600 - 256);
    }

    #[test]
    fn a_cut_tail_and_a_damaged_record_are_encoded_again() {
        let (folder, texts) = (tempfile::tempdir().unwrap(), texts(10));
        let first = run(folder.path(), &Counting::default(), &texts).unwrap();
        let path = only_file(folder.path());
        let mut bytes = std::fs::read(&path).unwrap();
        let whole = bytes.len();
        bytes.truncate(whole - 3);
        bytes[HEADER + KEY + 1] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        let encoder = Counting::default();
        assert_eq!(run(folder.path(), &encoder, &texts).unwrap(), first);
        assert_eq!(encoder.encoded.load(Ordering::SeqCst), 2);
        let record = (whole - HEADER) / 10;
        assert_eq!(std::fs::metadata(&path).unwrap().len() as usize, whole + record);
        assert_eq!(run(folder.path(), &encoder, &texts).unwrap(), first);
        assert_eq!(encoder.encoded.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn two_writers_lose_nothing() {
        let (folder, encoder) = (tempfile::tempdir().unwrap(), Counting::default());
        let mut one = EmbeddingCache::open(folder.path(), &encoder, Precision::F32).unwrap();
        let mut two = EmbeddingCache::open(folder.path(), &encoder, Precision::F32).unwrap();
        let insert = |cache: &mut EmbeddingCache, text: &str| {
            cache.insert(&[text], Side::Memory, &[vec![text.len() as f32, 0.0, 0.0]]).unwrap();
        };
        insert(&mut one, "a");
        insert(&mut two, "bb");
        insert(&mut one, "ccc");
        let cache = EmbeddingCache::open(folder.path(), &encoder, Precision::F32).unwrap();
        for text in ["a", "bb", "ccc"] {
            assert_eq!(cache.get(text, Side::Memory), Some(vec![text.len() as f32, 0.0, 0.0]));
            assert_eq!(one.get(text, Side::Memory), cache.get(text, Side::Memory));
        }
    }

    #[test]
    fn a_foreign_file_is_left_alone() {
        let (folder, encoder) = (tempfile::tempdir().unwrap(), Counting::default());
        run(folder.path(), &encoder, &texts(1)).unwrap();
        let path = only_file(folder.path());
        std::fs::write(&path, "p".repeat(100)).unwrap();
        let message = run(folder.path(), &encoder, &texts(1)).unwrap_err().to_string();
        assert!(message.contains("not a vector cache of this model"), "{message}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "p".repeat(100));
    }
}
