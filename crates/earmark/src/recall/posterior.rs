//! The Explorer of the `default` recipe: log-odds per candidate, moved by what the critic says.

use std::sync::Arc;

use super::{Candidate, Label, Pick, Pool, Round, Slate, Terms};
use crate::{params::Params, vector::normalize};
use ndarray::{Array2, ArrayView2};

/// How far a critic can be trusted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CriticRates {
    /// Share of useful memories that it calls useful, in (0, 1).
    pub recall: f32,
    /// Share of useless memories that it calls useful, in (0, 1).
    pub false_positive: f32,
}

impl CriticRates {
    /// What a label adds to the log-odds: `ln(R / f)` for useful, `ln((1 - R) / (1 - f))` for not useful.
    pub fn evidence(&self, useful: bool) -> f32 {
        if useful {
            (self.recall / self.false_positive).ln()
        } else {
            ((1.0 - self.recall) / (1.0 - self.false_positive)).ln()
        }
    }
}

/// How a label spreads to similar candidates that were not judged.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Propagation {
    /// Log-odds added per unit of similarity above the threshold to a useful memory; at least 0.
    pub useful: f32,
    /// The same, taken away, for similarity to a useless one; at least 0.
    pub not_useful: f32,
    /// Cosine below which nothing spreads.
    pub threshold: f32,
}

/// Beliefs about the candidates of one question: log-odds `s = prior + evidence`, and for candidates that nobody
/// judged what has spread to them.
#[derive(Debug, Clone, PartialEq)]
pub struct Beliefs {
    prior: Vec<f32>,
    evidence: Vec<f32>,
    spread: Vec<f32>,
    judged: Vec<bool>,
}

impl Beliefs {
    /// Starts from the log-odds `[K]` that the learned ranking gives.
    pub fn new(log_odds: Vec<f32>) -> Beliefs {
        let n = log_odds.len();
        Beliefs { prior: log_odds, evidence: vec![0.0; n], spread: vec![0.0; n], judged: vec![false; n] }
    }

    /// Takes in labels (candidate, useful) of one round; `trust` in [0, 1] scales what each is worth.
    /// `memories [K x d]` has unit rows.
    ///
    /// # Panics
    /// If a candidate is out of range.
    pub fn observe(
        &mut self,
        labels: &[(usize, bool)],
        trust: f32,
        rates: CriticRates,
        propagation: Propagation,
        memories: ArrayView2<f32>,
    ) {
        for &(candidate, useful) in labels {
            self.evidence[candidate] += trust * rates.evidence(useful);
            self.judged[candidate] = true;
            let strength = trust * if useful { propagation.useful } else { -propagation.not_useful };
            let similarity = memories.dot(&memories.row(candidate));
            for (spread, cosine) in self.spread.iter_mut().zip(&similarity) {
                *spread += strength * (cosine - propagation.threshold).max(0.0);
            }
        }
    }

    /// Log-odds `[K]` that each candidate is useful.
    pub fn log_odds(&self) -> Vec<f32> {
        let one = |i: usize| self.prior[i] + self.evidence[i] + if self.judged[i] { 0.0 } else { self.spread[i] };
        (0..self.prior.len()).map(one).collect()
    }

    /// The `size` candidates to ask about next: the likeliest below the cut that nobody judged, best first. What
    /// would be served anyway is not asked about: only a useful memory below the cut changes the answer. A judged
    /// candidate that looks useless takes no place above the cut.
    pub fn next_slate(&self, size: usize) -> Vec<usize> {
        let log_odds = self.log_odds();
        let order = best(&log_odds, log_odds.len());
        let holds_place = |i: &usize| !self.judged[*i] || log_odds[*i] > 0.0;
        let served: Vec<usize> = order.iter().copied().filter(holds_place).take(size).collect();
        order.into_iter().filter(|i| !self.judged[*i] && !served.contains(i)).take(size).collect()
    }

    /// The likeliest `size` candidates, best first; ties by the earlier one. What is served.
    pub fn best_slate(&self, size: usize) -> Vec<usize> {
        best(&self.log_odds(), size)
    }

    /// How many useful memories are expected in `slate`.
    pub fn expected_finds(&self, slate: &[usize]) -> f32 {
        let log_odds = self.log_odds();
        slate.iter().map(|&i| 1.0 / (1.0 + (-log_odds[i]).exp())).sum()
    }
}

fn best(log_odds: &[f32], size: usize) -> Vec<usize> {
    super::top_k(log_odds, size)
}

/// The exploration of one question by posterior odds: ask for a slate, hand in labels, repeat, finish. The
/// counterpart of [`Episode`](super::Episode) with the same verbs.
#[derive(Debug, Clone, PartialEq)]
pub struct PosteriorEpisode {
    params: Params,
    pool: Arc<Pool>,
    trust: f32,
    beliefs: Beliefs,
    rounds: Vec<Round>,
}

impl PosteriorEpisode {
    /// Starts from the log-odds `[K]` of the learned ranking. `trust` in [0, 1] scales what a label is worth.
    pub fn new(pool: Arc<Pool>, log_odds: Vec<f32>, trust: f32, params: &Params) -> Self {
        PosteriorEpisode { params: *params, pool, trust, beliefs: Beliefs::new(log_odds), rounds: Vec::new() }
    }

    /// The slate to have judged next: the likeliest candidates below the cut that nobody judged.
    pub fn next_slate(&self, size: usize) -> Slate {
        self.slate(self.beliefs.next_slate(size))
    }

    /// Takes in the labels of a slate, one for each place; `None` where nobody judged.
    pub fn observe(&mut self, slate: &Slate, labels: &[Option<Label>]) {
        let round = Round { slate: slate.candidates(), labels: labels.to_vec(), noise: Vec::new() };
        let judged: Vec<(usize, bool)> = round.judged().map(|(c, label)| (c.0, label == Label::Useful)).collect();
        let (rates, spread) = (self.rates(), self.propagation());
        self.beliefs.observe(&judged, self.trust, rates, spread, unit_rows(self.pool.memories()).view());
        self.rounds.push(round);
    }

    /// The likeliest `size` candidates, best first: what is served.
    pub fn finish(&self, size: usize) -> Slate {
        self.slate(self.beliefs.best_slate(size))
    }

    /// Whether the next slate is expected to bring too little to be worth a call.
    pub fn is_settled(&self, size: usize) -> bool {
        let next = self.beliefs.next_slate(size);
        self.beliefs.expected_finds(&next) < self.params.stop_below
    }

    /// The rounds so far, oldest first.
    pub fn rounds(&self) -> &[Round] {
        &self.rounds
    }

    /// Log-odds `[K]` as they are now.
    pub fn log_odds(&self) -> Vec<f32> {
        self.beliefs.log_odds()
    }

    /// Query and candidates.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    fn slate(&self, places: Vec<usize>) -> Slate {
        let log_odds = self.beliefs.log_odds();
        let pick = |i: usize| Pick {
            candidate: Candidate(i),
            terms: Terms { relevance: self.beliefs.prior[i], score: log_odds[i], ..Terms::default() },
        };
        Slate { picks: places.into_iter().map(pick).collect(), noise: Vec::new() }
    }

    fn rates(&self) -> CriticRates {
        CriticRates { recall: self.params.critic_recall, false_positive: self.params.critic_false_positive_rate }
    }

    fn propagation(&self) -> Propagation {
        Propagation {
            useful: self.params.spread_useful,
            not_useful: self.params.spread_not_useful,
            threshold: self.params.spread_threshold,
        }
    }
}

fn unit_rows(memories: &Array2<f32>) -> Array2<f32> {
    let mut unit = memories.clone();
    unit.rows_mut().into_iter().for_each(|mut row| row.as_slice_mut().into_iter().for_each(normalize));
    unit
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::array;

    const RATES: CriticRates = CriticRates { recall: 0.86, false_positive: 0.03 };
    const SPREAD: Propagation = Propagation { useful: 2.0, not_useful: 1.0, threshold: 0.35 };

    #[test]
    fn evidence_by_hand() {
        assert!((RATES.evidence(true) - 3.3557).abs() < 1e-3); // ln(0.86 / 0.03)
        assert!((RATES.evidence(false) + 1.9356).abs() < 1e-3); // ln(0.14 / 0.97)
    }

    #[test]
    fn labels_move_the_judged_and_spread_to_the_similar() {
        let memories = array![[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]];
        let mut beliefs = Beliefs::new(vec![0.0, -1.0, -0.5]);
        beliefs.observe(&[(0, true)], 1.0, RATES, SPREAD, memories.view());
        let expected = [3.3557, -1.0 + 2.0 * 0.45, -0.5];
        assert!(beliefs.log_odds().iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-3), "{beliefs:?}");
        assert_eq!(beliefs.best_slate(2), [0, 1]);
        beliefs.observe(&[(1, false)], 1.0, RATES, SPREAD, memories.view());
        assert!((beliefs.log_odds()[1] - (-1.0 - 1.9356)).abs() < 1e-3, "judged: what spread no longer counts");
    }

    #[test]
    fn asks_below_the_cut_and_a_useless_memory_holds_no_place() {
        let memories = Array2::zeros((5, 2));
        let mut beliefs = Beliefs::new(vec![5.0, 4.0, 3.0, 2.0, 1.0]);
        assert_eq!(beliefs.next_slate(2), [2, 3]);
        beliefs.observe(&[(2, false), (3, false)], 1.0, RATES, SPREAD, memories.view());
        // 3 - 1.9 > 0 keeps no place among the best two; 4 is all that is left to ask about.
        assert_eq!(beliefs.next_slate(2), [4]);
        let mut one = Beliefs::new(vec![-1.0, -2.0]);
        one.observe(&[(0, false)], 1.0, RATES, SPREAD, Array2::zeros((2, 2)).view());
        assert!(one.next_slate(1).is_empty(), "the unjudged one would be served anyway");
    }

    #[test]
    fn little_is_expected_where_odds_are_low() {
        let beliefs = Beliefs::new(vec![0.0, 0.0, -50.0]);
        assert_eq!(beliefs.expected_finds(&[0, 1]), 1.0);
        assert!(beliefs.expected_finds(&[2]) < 1e-6);
        assert_eq!(beliefs.expected_finds(&[]), 0.0);
    }
}
