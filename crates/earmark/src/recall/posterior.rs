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

/// Beliefs about the candidates of one question.
#[derive(Debug, Clone, PartialEq)]
pub struct Beliefs {
    log_odds: Vec<f32>,
    judged: Vec<bool>,
}

impl Beliefs {
    /// Starts from the log-odds `[K]` that the learned ranking gives.
    pub fn new(log_odds: Vec<f32>) -> Beliefs {
        let judged = vec![false; log_odds.len()];
        Beliefs { log_odds, judged }
    }

    /// Takes in labels (candidate, useful) of one round. `memories [K x d]` has unit rows.
    ///
    /// # Panics
    /// If a candidate is out of range.
    pub fn observe(
        &mut self,
        labels: &[(usize, bool)],
        rates: CriticRates,
        propagation: Propagation,
        memories: ArrayView2<f32>,
    ) {
        for &(candidate, useful) in labels {
            self.log_odds[candidate] += rates.evidence(useful);
            self.judged[candidate] = true;
        }
        for &(candidate, useful) in labels {
            let strength = if useful { propagation.useful } else { -propagation.not_useful };
            if strength == 0.0 {
                continue;
            }
            let similarity = memories.dot(&memories.row(candidate));
            for (i, log_odds) in self.log_odds.iter_mut().enumerate().filter(|(i, _)| !self.judged[*i]) {
                *log_odds += strength * (similarity[i] - propagation.threshold).max(0.0);
            }
        }
    }

    /// Log-odds `[K]` that each candidate is useful.
    pub fn log_odds(&self) -> &[f32] {
        &self.log_odds
    }

    /// The `size` candidates to ask about next: the likeliest that are not settled, best first.
    /// Settled is who was judged and stands clearly on one side (`|log-odds| >= settled`).
    pub fn next_slate(&self, size: usize, settled: f32) -> Vec<usize> {
        let open = |i: &usize| !self.judged[*i] || self.log_odds[*i].abs() < settled;
        self.best(size, (0..self.log_odds.len()).filter(open))
    }

    /// The `size` likeliest candidates, best first; ties by the earlier one. What is served.
    pub fn best_slate(&self, size: usize) -> Vec<usize> {
        self.best(size, 0..self.log_odds.len())
    }

    /// How many useful memories are expected in `slate` that nobody has judged yet.
    pub fn expected_finds(&self, slate: &[usize]) -> f32 {
        let unjudged = slate.iter().filter(|&&i| !self.judged[i]);
        unjudged.map(|&i| 1.0 / (1.0 + (-self.log_odds[i]).exp())).sum()
    }

    fn best(&self, size: usize, among: impl Iterator<Item = usize>) -> Vec<usize> {
        let mut order: Vec<usize> = among.collect();
        order.sort_by(|&a, &b| self.log_odds[b].total_cmp(&self.log_odds[a]).then(a.cmp(&b)));
        order.truncate(size);
        order
    }
}

/// The exploration of one question by posterior odds: ask for a slate, hand in labels, repeat, finish. The
/// counterpart of [`Episode`](super::Episode) with the same verbs.
#[derive(Debug, Clone, PartialEq)]
pub struct PosteriorEpisode {
    params: Params,
    pool: Arc<Pool>,
    unit_memories: Array2<f32>,
    beliefs: Beliefs,
    rounds: Vec<Round>,
}

impl PosteriorEpisode {
    /// Starts from the log-odds `[K]` of the learned ranking.
    pub fn new(pool: Arc<Pool>, log_odds: Vec<f32>, params: &Params) -> Self {
        let mut unit_memories = pool.memories().clone();
        for mut row in unit_memories.rows_mut() {
            row.as_slice_mut().into_iter().for_each(normalize);
        }
        PosteriorEpisode { params: *params, pool, unit_memories, beliefs: Beliefs::new(log_odds), rounds: Vec::new() }
    }

    /// The slate to show next: the likeliest candidates that are not settled.
    pub fn next_slate(&self, size: usize) -> Slate {
        self.slate(self.beliefs.next_slate(size, self.params.settled_log_odds))
    }

    /// Takes in the labels of a slate, one for each place; `None` where nobody judged.
    pub fn observe(&mut self, slate: &Slate, labels: &[Option<Label>]) {
        let round = Round { slate: slate.candidates(), labels: labels.to_vec(), noise: Vec::new() };
        let judged: Vec<(usize, bool)> = round.judged().map(|(c, label)| (c.0, label == Label::Useful)).collect();
        let (rates, spread) = (self.rates(), self.propagation());
        self.beliefs.observe(&judged, rates, spread, self.unit_memories.view());
        self.rounds.push(round);
    }

    /// The likeliest `size` candidates, best first: what is served.
    pub fn finish(&self, size: usize) -> Slate {
        self.slate(self.beliefs.best_slate(size))
    }

    /// Whether the next slate is expected to bring too little to be worth a call.
    pub fn is_settled(&self, size: usize) -> bool {
        let next = self.beliefs.next_slate(size, self.params.settled_log_odds);
        self.beliefs.expected_finds(&next) < self.params.stop_below
    }

    /// The rounds so far, oldest first.
    pub fn rounds(&self) -> &[Round] {
        &self.rounds
    }

    /// Log-odds `[K]` as they are now.
    pub fn log_odds(&self) -> &[f32] {
        self.beliefs.log_odds()
    }

    /// Query and candidates.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    fn slate(&self, places: Vec<usize>) -> Slate {
        let pick = |i: usize| Pick {
            candidate: Candidate(i),
            terms: Terms { relevance: self.beliefs.log_odds[i], score: self.beliefs.log_odds[i], ..Terms::default() },
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
    fn labels_move_the_judged_and_their_neighbours() {
        let memories = array![[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]];
        let mut beliefs = Beliefs::new(vec![0.0, -1.0, -0.5]);
        beliefs.observe(&[(0, true)], RATES, SPREAD, memories.view());
        let expected = [3.3557, -1.0 + 2.0 * 0.45, -0.5];
        assert!(beliefs.log_odds().iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-3), "{beliefs:?}");
        assert_eq!(beliefs.next_slate(2, 2.5), [1, 2]);
        assert_eq!(beliefs.best_slate(2), [0, 1]);
    }

    #[test]
    fn a_settled_slate_promises_nothing() {
        let mut beliefs = Beliefs::new(vec![0.0, 0.0]);
        assert_eq!(beliefs.expected_finds(&[0, 1]), 1.0);
        beliefs.observe(&[(0, false), (1, false)], RATES, SPREAD, array![[1.0, 0.0], [0.0, 1.0]].view());
        assert_eq!(beliefs.expected_finds(&beliefs.next_slate(2, 2.5)), 0.0);
    }
}
