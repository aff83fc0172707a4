//! The candidates of a query and what can be said about them.

use std::cmp::Ordering;

use ndarray::{Array1, Array2};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// A place among the candidates of one query, from 0; best first as the retriever ordered them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Candidate(pub usize);

/// What a critic says about a memory: `y` in {-1, +1}.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Label {
    /// `+1`: it helped to answer the query.
    Useful,
    /// `-1`: it did not.
    NotUseful,
}

impl Label {
    /// `Useful` where `useful` holds.
    pub fn from_useful(useful: bool) -> Self {
        if useful { Label::Useful } else { Label::NotUseful }
    }

    /// `+1` or `-1`.
    pub fn value(self) -> f32 {
        match self {
            Label::Useful => 1.0,
            Label::NotUseful => -1.0,
        }
    }
}

/// A query and its candidates as the frozen encoder gave them, before any adapter.
#[derive(Debug, Clone, PartialEq)]
pub struct Pool {
    query: Vec<f32>,
    memories: Array2<f32>,
    side: Vec<f32>,
}

impl Pool {
    /// `query` is q `[d]`; `memories` is m `[K x d]`, best first. `K` may be 0.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] if the dimensions differ or a number is not finite.
    pub fn new(query: Vec<f32>, memories: Array2<f32>) -> Result<Self> {
        if memories.nrows() > 0 && memories.ncols() != query.len() {
            let reason = format!("has dimension {}, but the query has {}", memories.ncols(), query.len());
            return Err(Error::invalid("memories", reason));
        }
        if !query.iter().chain(&memories).all(|x| x.is_finite()) {
            return Err(Error::invalid("vectors", "hold a number that is not finite; encode the text again"));
        }
        let memories = memories.as_standard_layout().into_owned();
        Ok(Pool { query, memories, side: Vec::new() })
    }

    /// The same from one vector for each candidate.
    ///
    /// # Errors
    /// As [`Pool::new`].
    pub fn from_rows<V: AsRef<[f32]>>(query: &[f32], memories: &[V]) -> Result<Self> {
        let dimension = query.len();
        if let Some(odd) = memories.iter().find(|m| m.as_ref().len() != dimension) {
            let reason = format!("has dimension {}, but the query has {dimension}", odd.as_ref().len());
            return Err(Error::invalid("memories", reason));
        }
        let rows = Array2::from_shape_fn((memories.len(), dimension), |(i, j)| memories[i].as_ref()[j]);
        Pool::new(query.to_vec(), rows)
    }

    /// The same with side information about the candidates, `[K]`: it is added to their relevance where candidates
    /// are chosen, by the Explorer and when serving, and not in the loss (B.6). Empty for none.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] if there are not as many numbers as candidates, or one is not finite.
    pub fn with_side(self, side: Vec<f32>) -> Result<Self> {
        if ![0, self.len()].contains(&side.len()) || !side.iter().all(|x| x.is_finite()) {
            let reason = format!("has to be {} finite numbers, one for each candidate", self.len());
            return Err(Error::invalid("side", reason));
        }
        Ok(Pool { side, ..self })
    }

    /// What [`with_side`](Pool::with_side) was given.
    pub fn side(&self) -> &[f32] {
        &self.side
    }

    /// Relevance with the side information, `[K]`.
    pub(crate) fn informed(&self, relevance: &Array1<f32>) -> Vec<f32> {
        let side = self.side.iter().copied().chain(std::iter::repeat(0.0));
        relevance.iter().zip(side).map(|(relevance, side)| relevance + side).collect()
    }

    /// q `[d]`.
    pub fn query(&self) -> &[f32] {
        &self.query
    }

    /// m `[K x d]`, row-major.
    pub fn memories(&self) -> &Array2<f32> {
        &self.memories
    }

    /// `K`.
    pub fn len(&self) -> usize {
        self.memories.nrows()
    }

    /// Whether there is no candidate.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// `d`.
    pub fn dimension(&self) -> usize {
        self.query.len()
    }
}

/// Places of the `k` highest `scores`, best first; ties by lower place; NaN comes last. Eq. (1).
pub fn top_k(scores: &[f32], k: usize) -> Vec<usize> {
    let mut places: Vec<usize> = (0..scores.len()).collect();
    let better = |a: &usize, b: &usize| descending(scores[*a], scores[*b]).then(a.cmp(b));
    if k < places.len() && k > 0 {
        places.select_nth_unstable_by(k - 1, better);
    }
    places.truncate(k);
    places.sort_unstable_by(better);
    places
}

pub(super) fn descending(a: f32, b: f32) -> Ordering {
    let key = |x: f32| if x.is_nan() { f32::NEG_INFINITY } else { x + 0.0 };
    key(b).total_cmp(&key(a))
}

/// Mean utility of each query's slate, averaged over the queries: the objective `J` of Eq. (2).
///
/// `utilities` holds one list for each query; an empty slate counts 0, no query gives 0.
pub fn mean_utility<V: AsRef<[f32]>>(utilities: &[V]) -> f32 {
    let mean = |slate: &[f32]| slate.iter().sum::<f32>() / slate.len().max(1) as f32;
    utilities.iter().map(|slate| mean(slate.as_ref())).sum::<f32>() / utilities.len().max(1) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eq01_top_k_best_first_ties_by_lower_place() {
        let scores = [0.1, 0.9, f32::NAN, 0.9, 0.5];
        assert_eq!(top_k(&scores, 3), [1, 3, 4]);
        assert_eq!(top_k(&scores, 9), [1, 3, 4, 0, 2]);
        assert!(top_k(&scores, 0).is_empty() && top_k(&[], 3).is_empty());
        assert_eq!(top_k(&[-0.0, 0.0], 2), [0, 1]);
    }

    #[test]
    fn eq02_mean_utility_by_hand() {
        // (1 - 1)/2 = 0 and (1 + 1 - 1 + 1)/4 = 0.5 average to 0.25.
        assert_eq!(mean_utility(&[vec![1.0, -1.0], vec![1.0, 1.0, -1.0, 1.0]]), 0.25);
        assert_eq!(mean_utility::<Vec<f32>>(&[]), 0.0);
    }

    #[test]
    fn a_pool_refuses_what_does_not_fit() {
        assert!(Pool::from_rows(&[1.0, 0.0], &[vec![1.0]]).is_err());
        assert!(Pool::from_rows(&[1.0, f32::NAN], &[vec![1.0, 0.0]]).is_err());
        assert!(Pool::from_rows::<Vec<f32>>(&[1.0], &[]).unwrap().is_empty());
        let pool = || Pool::from_rows(&[1.0], &[[1.0], [2.0]]).unwrap();
        for (side, fits) in
            [(vec![], true), (vec![0.5, -1.0], true), (vec![0.5], false), (vec![0.5, f32::INFINITY], false)]
        {
            assert_eq!(pool().with_side(side).is_ok(), fits);
        }
    }

    #[test]
    fn side_information_moves_what_is_chosen() {
        use std::sync::Arc;

        use crate::learn::cycle::adapter_only;
        use crate::recall::{Adapter, Episode};
        use crate::{Params, Similarity};

        let params = Params { slate_size: 1, similarity: Similarity::Dot, ..Params::paper() };
        let best = |side: Vec<f32>| {
            let pool = Arc::new(Pool::from_rows(&[1.0], &[[1.0], [0.5]]).unwrap().with_side(side).unwrap());
            let adapter = Adapter::zeros(1);
            let shown = Episode::new(pool.clone(), &adapter, &params).next_slate().candidates()[0].0;
            (adapter_only(&adapter, &pool, &params).candidates()[0].0, shown)
        };
        assert_eq!((best(vec![]), best(vec![0.0, 0.4])), ((0, 0), (0, 0)));
        assert_eq!(best(vec![0.0, 0.6]), (1, 1));
    }
}
