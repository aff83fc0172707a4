//! The learned state as bytes: everything that the next update depends on, with a checksum.
//!
//! Layout, little-endian: magic, format version, parameters as JSON, dimension, steps, weights, moments, waiting
//! lessons, and the BLAKE3 hash of all that.

use std::path::PathBuf;
use std::sync::Arc;

use ndarray::Array2;

use super::learner::Learner;
use super::lesson::{Lesson, Term};
use super::optimizer::Moments;
use crate::error::{Error, Result};
use crate::params::Params;
use crate::recall::{Adapted, Adapter, Candidate, Pool};

const MAGIC: &[u8; 8] = b"EARMARKL";
const FORMAT: u64 = 1;
const CHECKSUM: usize = blake3::OUT_LEN;

impl Learner {
    /// The whole state; [`Learner::from_bytes`] gives back an equal one.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut writer = Writer(MAGIC.to_vec());
        writer.number(FORMAT);
        writer.bytes(&serde_json::to_vec(&self.params).unwrap_or_default());
        writer.number(self.adapter.dimension() as u64);
        writer.number(self.steps);
        writer.matrix(&self.adapter.query_weights);
        writer.matrix(&self.adapter.memory_weights);
        writer.number(u64::from(self.moments.is_some()));
        for moments in self.moments.iter().flatten() {
            writer.matrix(&moments.first);
            writer.matrix(&moments.second);
        }
        writer.number(self.pending_queries as u64);
        writer.number(self.pending.len() as u64);
        self.pending.iter().for_each(|(lesson, adapted)| writer.lesson(lesson, adapted));
        writer.finish()
    }

    /// Reads what [`Learner::to_bytes`] wrote.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the bytes are cut, changed, of another kind or of a newer format; nothing is guessed.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader::open(bytes)?;
        let params: Params = serde_json::from_slice(reader.bytes()?).map_err(|e| corrupt(e.to_string()))?;
        let d = reader.count()?;
        let steps = reader.number()?;
        let adapter = Adapter { query_weights: reader.matrix(d, d)?, memory_weights: reader.matrix(d, d)? };
        let moments = match reader.number()? {
            0 => None,
            _ => Some([reader.moments(d)?, reader.moments(d)?]),
        };
        let pending_queries = reader.count()?;
        let pending = (0..reader.count()?).map(|_| reader.lesson(d)).collect::<Result<_>>()?;
        reader.end()?;
        Ok(Learner { params, adapter, moments, steps, pending, pending_queries })
    }
}

fn corrupt(reason: impl Into<String>) -> Error {
    Error::Corrupt { path: PathBuf::from("learned state"), reason: reason.into() }
}

struct Writer(Vec<u8>);

impl Writer {
    fn number(&mut self, number: u64) {
        self.0.extend(number.to_le_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend(bytes);
    }

    fn floats<'a>(&mut self, floats: impl IntoIterator<Item = &'a f32>) {
        self.0.extend(floats.into_iter().flat_map(|x| x.to_le_bytes()));
    }

    fn list(&mut self, floats: &[f32]) {
        self.number(floats.len() as u64);
        self.floats(floats);
    }

    fn matrix(&mut self, matrix: &Array2<f32>) {
        self.floats(matrix);
    }

    fn lesson(&mut self, lesson: &Lesson, adapted: &Adapted) {
        self.list(lesson.pool.query());
        self.number(lesson.pool.len() as u64);
        self.matrix(lesson.pool.memories());
        self.floats([&lesson.weight]);
        self.number(lesson.terms.len() as u64);
        lesson.terms.iter().for_each(|term| self.term(term));
        self.floats(&adapted.query);
        self.matrix(&adapted.memories);
        self.floats(&adapted.relevance);
        self.number(u64::from(adapted.scales.is_some()));
        if let Some((query, memories)) = &adapted.scales {
            self.floats([query]);
            self.floats(memories);
        }
    }

    fn term(&mut self, term: &Term) {
        self.list(&term.coefficients);
        self.list(&term.noise);
        self.number(term.closed.len() as u64);
        term.closed.iter().for_each(|candidate| self.number(candidate.0 as u64));
        self.floats([&term.temperature]);
    }

    fn finish(mut self) -> Vec<u8> {
        let checksum = blake3::hash(&self.0);
        self.0.extend(checksum.as_bytes());
        self.0
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn open(bytes: &'a [u8]) -> Result<Self> {
        let body = bytes.len().checked_sub(CHECKSUM).ok_or_else(|| corrupt("it is cut short"))?;
        let (body, checksum) = bytes.split_at(body);
        let mut reader = Reader(body);
        if reader.take(MAGIC.len())? != MAGIC {
            return Err(corrupt("it is not a learned state"));
        }
        if blake3::hash(body).as_bytes() != checksum {
            return Err(corrupt("its checksum does not match"));
        }
        match reader.number()? {
            FORMAT => Ok(reader),
            other => Err(corrupt(format!("it has format {other}, this program knows {FORMAT}; upgrade earmark"))),
        }
    }

    fn take(&mut self, n: usize) -> Result<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(n).ok_or_else(|| corrupt("it is cut short"))?;
        self.0 = tail;
        Ok(head)
    }

    fn number(&mut self) -> Result<u64> {
        let bytes = self.take(8)?;
        Ok(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn count(&mut self) -> Result<usize> {
        usize::try_from(self.number()?).map_err(|_| corrupt("a length is out of range"))
    }

    fn bytes(&mut self) -> Result<&'a [u8]> {
        let n = self.count()?;
        self.take(n)
    }

    fn floats(&mut self, n: usize) -> Result<Vec<f32>> {
        let size = n.checked_mul(4).ok_or_else(|| corrupt("a length is out of range"))?;
        let (words, _) = self.take(size)?.as_chunks::<4>();
        Ok(words.iter().map(|word| f32::from_le_bytes(*word)).collect())
    }

    fn float(&mut self) -> Result<f32> {
        Ok(self.floats(1)?[0])
    }

    fn list(&mut self) -> Result<Vec<f32>> {
        let n = self.count()?;
        self.floats(n)
    }

    fn matrix(&mut self, rows: usize, columns: usize) -> Result<Array2<f32>> {
        let n = rows.checked_mul(columns).ok_or_else(|| corrupt("a length is out of range"))?;
        Array2::from_shape_vec((rows, columns), self.floats(n)?).map_err(|e| corrupt(e.to_string()))
    }

    fn moments(&mut self, d: usize) -> Result<Moments> {
        Ok(Moments { first: self.matrix(d, d)?, second: self.matrix(d, d)? })
    }

    fn lesson(&mut self, d: usize) -> Result<(Lesson, Adapted)> {
        let query = self.list()?;
        let candidates = self.count()?;
        let pool = Pool::new(query, self.matrix(candidates, d)?)?;
        let weight = self.float()?;
        let terms = (0..self.count()?).map(|_| self.term()).collect::<Result<_>>()?;
        let adapted = self.adapted(candidates, d)?;
        Ok((Lesson { pool: Arc::new(pool), terms, weight }, adapted))
    }

    fn adapted(&mut self, candidates: usize, d: usize) -> Result<Adapted> {
        let query = self.floats(d)?.into();
        let memories = self.matrix(candidates, d)?;
        let relevance = self.floats(candidates)?.into();
        let scales = match self.number()? {
            0 => None,
            _ => Some((self.float()?, self.floats(candidates)?)),
        };
        Ok(Adapted { query, memories, relevance, scales })
    }

    fn term(&mut self) -> Result<Term> {
        let (coefficients, noise) = (self.list()?, self.list()?);
        let closed = (0..self.count()?).map(|_| Ok(Candidate(self.count()?))).collect::<Result<_>>()?;
        Ok(Term { coefficients, noise, closed, temperature: self.float()? })
    }

    fn end(&self) -> Result<()> {
        if self.0.is_empty() { Ok(()) } else { Err(corrupt("it has bytes after its end")) }
    }
}
