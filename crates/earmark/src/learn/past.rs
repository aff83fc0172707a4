//! Feedback memory: what earlier, similar questions found useful.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use crate::vector::dot;

/// Similarities are raised to this power, so that only close questions speak.
const SHARPNESS: i32 = 6;

/// The labels of past questions, nearest question first where it matters. Bounded: the oldest leave.
#[derive(Debug, Clone, Default)]
pub struct Past {
    entries: VecDeque<Arc<PastQuestion>>,
    limit: usize,
}

/// One closed recall.
#[derive(Debug, Clone, PartialEq)]
pub struct PastQuestion {
    /// Its place in the log of experiences.
    pub sequence: i64,
    /// Unit vector `[d]` of the question, before any adapter.
    pub query: Vec<f32>,
    /// What was said about its candidates.
    pub labels: Vec<PastLabel>,
}

/// One label of a past question.
#[derive(Debug, Clone, PartialEq)]
pub struct PastLabel {
    /// Key of the memory.
    pub key: i64,
    /// Whether it was useful.
    pub useful: bool,
    /// Features `[F]` of the candidate, as they were when it was shown.
    pub features: Vec<f64>,
}

impl Past {
    /// An empty past that keeps at most `limit` questions.
    pub fn new(limit: usize) -> Past {
        Past { entries: VecDeque::new(), limit }
    }

    /// Adds a question; the oldest leaves when the limit is reached.
    pub fn push(&mut self, question: PastQuestion) {
        if self.entries.len() >= self.limit {
            self.entries.pop_front();
        }
        self.entries.push_back(Arc::new(question));
    }

    /// The questions kept, oldest first.
    pub fn questions(&self) -> impl Iterator<Item = &PastQuestion> {
        self.entries.iter().map(Arc::as_ref)
    }

    /// Number of questions kept.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// For each memory of `keys`: the sum over past questions of `max(0, cos)^6`, plus where it was useful,
    /// minus where it was not; 0 for a memory that was never labelled. `query` has unit norm.
    pub fn support(&self, query: &[f32], keys: &[i64]) -> Vec<f32> {
        let mut sums: HashMap<i64, f32> = keys.iter().map(|&key| (key, 0.0)).collect();
        for past in &self.entries {
            let weight = dot(query, &past.query).max(0.0).powi(SHARPNESS);
            for label in &past.labels {
                if let Some(sum) = sums.get_mut(&label.key) {
                    *sum += if label.useful { weight } else { -weight };
                }
            }
        }
        keys.iter().map(|key| sums[key]).collect()
    }

    /// The `n` most similar past questions with their cosine, best first; ties: the later one first.
    pub fn nearest(&self, query: &[f32], n: usize) -> Vec<(&PastQuestion, f32)> {
        let mut all: Vec<_> = self.entries.iter().map(|past| (past.as_ref(), dot(query, &past.query))).collect();
        all.sort_by(|a, b| b.1.total_cmp(&a.1).then(b.0.sequence.cmp(&a.0.sequence)));
        all.truncate(n);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(sequence: i64, query: [f32; 2], labels: &[(i64, bool)]) -> PastQuestion {
        let label = |&(key, useful): &(i64, bool)| PastLabel { key, useful, features: Vec::new() };
        PastQuestion { sequence, query: query.to_vec(), labels: labels.iter().map(label).collect() }
    }

    fn past() -> Past {
        let mut past = Past::new(2);
        past.push(question(1, [0.0, 1.0], &[(9, true)]));
        past.push(question(2, [1.0, 0.0], &[(7, true), (8, false)]));
        past.push(question(3, [0.6, 0.8], &[(7, true)]));
        past
    }

    #[test]
    fn support_by_hand() {
        let past = past();
        let support = past.support(&[1.0, 0.0], &[7, 8, 9, 10]);
        assert!((support[0] - (1.0 + 0.6f32.powi(6))).abs() < 1e-6);
        assert_eq!(&support[1..], [-1.0, 0.0, 0.0]);
    }

    #[test]
    fn the_oldest_leaves_and_the_nearest_come_first() {
        let past = past();
        assert_eq!(past.len(), 2);
        let nearest = past.nearest(&[0.0, 1.0], 5);
        assert_eq!(nearest.iter().map(|(p, _)| p.sequence).collect::<Vec<_>>(), [3, 2]);
    }
}
