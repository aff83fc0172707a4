//! Feedback memory: what earlier, similar questions found useful.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use super::trust;
use crate::{
    recall::{Hindsight, top_k},
    vector::dot,
};

/// Similarities of questions are raised to this power, so that only close ones speak.
const SHARPNESS: i32 = 6;
/// Similarities of memories are raised to this power.
const MEMORY_SHARPNESS: i32 = 4;
/// Weights up to this do not count.
const NEGLIGIBLE: f32 = 1e-6;
/// Telling slates from which on a critic is judged by what it said.
const JUDGED_FROM: usize = 20;
/// Past questions that speak about one query.
const SPEAKING: usize = 50;
/// Most that the sums of one candidate can reach.
const MOST: f32 = 2.0;

/// The labels of past questions, nearest question first where it matters. Bounded: the oldest leave.
#[derive(Debug, Clone, Default)]
pub struct Past {
    entries: VecDeque<Arc<PastQuestion>>,
    /// How far the labels of each entry are believed, in [0, 1].
    trust: Vec<f32>,
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
    /// How well the labels agree with the static order ([`agreement`](super::agreement)); `None` if they cannot tell.
    pub agreement: Option<f32>,
    /// Said outright by the caller: believed without a test.
    pub explicit: bool,
    /// Chance in (0, 1] that a useful memory was labelled useful; [`HIT_RATE`](super::HIT_RATE) unless it is known.
    pub hit_rate: f64,
}

/// One label of a past question.
#[derive(Debug, Clone, PartialEq)]
pub struct PastLabel {
    /// Key of the memory.
    pub key: i64,
    /// Whether it was useful.
    pub useful: bool,
    /// Features `[F]` of the candidate, as they were when it was shown.
    pub features: Vec<f32>,
}

impl Past {
    /// An empty past that keeps at most `limit` questions.
    pub fn new(limit: usize) -> Past {
        Past { entries: VecDeque::new(), trust: Vec::new(), limit }
    }

    /// Adds a question; the oldest leaves when the limit is reached.
    pub fn push(&mut self, question: PastQuestion) {
        if self.entries.len() >= self.limit {
            self.entries.pop_front();
        }
        self.entries.push_back(Arc::new(question));
        let told: Vec<Option<f32>> =
            self.entries.iter().map(|past| past.agreement.filter(|_| !past.explicit)).collect();
        self.trust = trust(&told);
        let believed = self.trust.iter_mut().zip(&self.entries).filter(|(_, past)| past.explicit);
        believed.for_each(|(weight, _)| *weight = 1.0);
    }

    /// The questions kept, oldest first, and how far their labels are believed.
    pub fn questions(&self) -> impl Iterator<Item = (&PastQuestion, f32)> {
        self.entries.iter().map(Arc::as_ref).zip(self.trust.iter().copied())
    }

    /// How far a critic's labels of now are believed, in [0, 1]: fully until there is something to judge it by.
    pub fn critic_trust(&self) -> f32 {
        let told = self.entries.iter().filter(|past| !past.explicit && past.agreement.is_some()).count();
        if told < JUDGED_FROM { 1.0 } else { self.trust.last().copied().unwrap_or(1.0) }
    }

    /// Whether any label is believed.
    pub fn is_believed(&self) -> bool {
        self.trust.iter().any(|trust| *trust > 0.0)
    }

    /// Number of questions kept.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The past questions that speak about a query: the most similar ones with their weight `max(0, cos)^6` times
    /// the trust in their labels.
    pub fn speaking(&self, query: &[f32]) -> Vec<(&PastQuestion, f32)> {
        let weigh =
            |(past, trust): (&Arc<PastQuestion>, &f32)| trust * dot(query, &past.query).max(0.0).powi(SHARPNESS);
        let weights: Vec<f32> = self.entries.iter().zip(&self.trust).map(weigh).collect();
        let order = top_k(&weights, SPEAKING).into_iter();
        order.filter(|&i| weights[i] > NEGLIGIBLE).map(|i| (self.entries[i].as_ref(), weights[i])).collect()
    }

    /// The `n` most similar past questions with their cosine, best first; ties: the later one first.
    pub fn nearest(&self, query: &[f32], n: usize) -> Vec<(&PastQuestion, f32)> {
        let mut all: Vec<_> = self.entries.iter().map(|past| (past.as_ref(), dot(query, &past.query))).collect();
        all.sort_by(|a, b| b.1.total_cmp(&a.1).then(b.0.sequence.cmp(&a.0.sequence)));
        all.truncate(n);
        all
    }
}

/// What the past says about a candidate with this key and unit vector. `speaking` comes from [`Past::speaking`];
/// `useful_vectors` holds the unit vectors of the memories that were useful then.
///
/// With `k` the weight of a past question: `useful` is the sum of `k` where the candidate was useful, `useless` where
/// it was shown in vain (both at most 2), and `like_useful` the largest `k max(0, cos)^4` to another memory that was
/// useful.
pub fn hindsight(
    speaking: &[(&PastQuestion, f32)],
    useful_vectors: &HashMap<i64, Vec<f32>>,
    key: i64,
    vector: &[f32],
) -> Hindsight {
    let mut found = Hindsight::default();
    for (past, weight) in speaking {
        for label in &past.labels {
            match (label.key == key, label.useful) {
                (true, true) => found.useful += weight,
                (true, false) => found.useless += weight,
                (false, false) => {}
                (false, true) => {
                    let cosine = useful_vectors.get(&label.key).map_or(0.0, |other| dot(vector, other));
                    found.like_useful = found.like_useful.max(weight * cosine.max(0.0).powi(MEMORY_SHARPNESS));
                }
            }
        }
    }
    Hindsight { useful: found.useful.min(MOST), useless: found.useless.min(MOST), ..found }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(sequence: i64, query: [f32; 2], labels: &[(i64, bool)]) -> PastQuestion {
        let label = |&(key, useful): &(i64, bool)| PastLabel { key, useful, features: Vec::new() };
        PastQuestion {
            sequence,
            query: query.to_vec(),
            labels: labels.iter().map(label).collect(),
            agreement: None,
            explicit: true,
            hit_rate: 1.0,
        }
    }

    fn past() -> Past {
        let mut past = Past::new(2);
        past.push(question(1, [0.0, 1.0], &[(9, true)]));
        past.push(question(2, [1.0, 0.0], &[(7, true), (8, false)]));
        past.push(question(3, [0.6, 0.8], &[(7, true)]));
        past
    }

    #[test]
    fn hindsight_by_hand() {
        let past = past();
        let query = [1.0, 0.0];
        let speaking = past.speaking(&query);
        let vectors = HashMap::from([(7, vec![1.0, 0.0])]);
        let say = |key, vector: [f32; 2]| hindsight(&speaking, &vectors, key, &vector);
        let seven = say(7, [1.0, 0.0]);
        assert!(
            (seven.useful - (1.0 + 0.6f32.powi(6))).abs() < 1e-6 && seven.useless == 0.0 && seven.like_useful == 0.0
        );
        let eight = say(8, [0.8, 0.6]);
        assert!((eight.useless - 1.0).abs() < 1e-6 && (eight.like_useful - 0.8f32.powi(4)).abs() < 1e-6);
        assert_eq!(say(10, [0.0, 1.0]), Hindsight::default());
    }

    #[test]
    fn the_oldest_leaves_and_the_nearest_come_first() {
        let past = past();
        assert_eq!(past.len(), 2);
        let nearest = past.nearest(&[0.0, 1.0], 5);
        assert_eq!(nearest.iter().map(|(p, _)| p.sequence).collect::<Vec<_>>(), [3, 2]);
    }
}
