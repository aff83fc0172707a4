//! The newest vectors, which are in no segment yet.

use std::collections::{HashMap, HashSet};

use super::segment::Entries;

/// The newest vectors, in order of arrival.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    pub(crate) rows: Vec<i64>,
    pub(crate) seqs: Vec<i64>,
    pub(crate) scales: Vec<f32>,
    pub(crate) codes: Vec<i8>,
    pub(crate) vectors: Vec<f32>,
    pub(crate) dead: HashSet<u32>,
    pub(crate) place_of: HashMap<i64, u32>,
}

impl Tail {
    /// As a search walks over them.
    pub(crate) fn entries(&self, dimension: usize) -> Entries<'_> {
        let Tail { rows, seqs, scales, codes, vectors, .. } = self;
        Entries { dimension, rows, seqs, scales, codes, vectors }
    }

    /// Adds one vector.
    pub(crate) fn push(&mut self, seq: i64, row: i64, vector: &[f32], codes: &[i8], scale: f32) {
        self.place_of.insert(row, self.rows.len() as u32);
        self.rows.push(row);
        self.seqs.push(seq);
        self.scales.push(scale);
        self.codes.extend(codes);
        self.vectors.extend(vector);
    }

    /// Deletes one vector, and its numbers at once.
    pub(crate) fn bury(&mut self, at: usize) {
        let dimension = self.vectors.len() / self.rows.len();
        self.dead.insert(at as u32);
        self.vectors[at * dimension..(at + 1) * dimension].fill(0.0);
        self.codes[at * dimension..(at + 1) * dimension].fill(0);
        if self.place_of.get(&self.rows[at]) == Some(&(at as u32)) {
            self.place_of.remove(&self.rows[at]);
        }
    }
}
