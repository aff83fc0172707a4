//! One question in progress, under either recipe.

use std::sync::Arc;

use super::{Adapter, Candidate, Episode, Label, Pool, PosteriorEpisode, Round, Slate, top_slate};
use crate::params::Params;

/// How the candidates of one question rank, before and after learning.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranking {
    /// Score `[K]` of the static ranking.
    pub base: Vec<f32>,
    /// Score `[K]` after learning.
    pub learned: Vec<f32>,
}

impl Ranking {
    /// Place of each candidate in the static ranking `[K]`, from 1; ties by the earlier candidate.
    pub fn base_ranks(&self) -> Vec<usize> {
        ranks(&self.base)
    }

    /// Place of each candidate in the learned ranking `[K]`, from 1.
    pub fn learned_ranks(&self) -> Vec<usize> {
        ranks(&self.learned)
    }
}

fn ranks(scores: &[f32]) -> Vec<usize> {
    let mut ranks = vec![0; scores.len()];
    for (rank, place) in super::top_k(scores, scores.len()).into_iter().enumerate() {
        ranks[place] = rank + 1;
    }
    ranks
}

/// One question in progress: slate, labels, next slate, and what is served. Holds no critic.
#[derive(Debug, Clone)]
pub enum Turn {
    /// The `paper` recipe.
    Ear(Box<Episode>),
    /// The `default` recipe.
    Posterior(Box<PosteriorEpisode>),
}

impl Turn {
    /// Begins under the `paper` recipe.
    pub fn ear(pool: Arc<Pool>, adapter: &Adapter, params: &Params) -> Turn {
        Turn::Ear(Box::new(Episode::new(pool, adapter, params)))
    }

    /// Begins under the `default` recipe, from learned log-odds `[K]`; `trust` in [0, 1] scales what a label is worth.
    pub fn posterior(pool: Arc<Pool>, log_odds: Vec<f32>, trust: f32, params: &Params) -> Turn {
        Turn::Posterior(Box::new(PosteriorEpisode::new(pool, log_odds, trust, params)))
    }

    /// The slate to have judged next.
    pub fn next_slate(&self, size: usize) -> Slate {
        match self {
            Turn::Ear(episode) => episode.next_slate(),
            Turn::Posterior(episode) => episode.next_slate(size),
        }
    }

    /// The slate to show a caller who labels by hand and wants to see others. What was judged is not shown again while
    /// anything else is left. Under `default` the likeliest that were not shown come first, since who sees them needs
    /// no critic to be asked about what lies below them; under `paper` those of [`Turn::next_slate`].
    pub fn next_unjudged(&self, size: usize) -> Slate {
        let (mut slate, shown) = match self {
            Turn::Ear(episode) => {
                let mut slate = episode.next_slate();
                let chosen = slate.candidates();
                let rest = top_slate(episode.relevance(), episode.relevance().len());
                slate.picks.extend(rest.picks.into_iter().filter(|pick| !chosen.contains(&pick.candidate)));
                (slate, Vec::new())
            }
            Turn::Posterior(episode) => {
                let shown = episode.rounds().iter().flat_map(|round| round.slate.clone());
                (episode.finish(episode.log_odds().len()), shown.collect())
            }
        };
        let judged = self.judged();
        slate.picks.sort_by_key(|pick| (judged.contains(&pick.candidate), shown.contains(&pick.candidate)));
        slate.picks.truncate(size);
        slate
    }

    /// Takes in the labels of a slate, one for each place; `None` where nobody judged.
    pub fn observe(&mut self, slate: &Slate, labels: &[Option<Label>]) {
        match self {
            Turn::Ear(episode) => episode.observe(slate, labels),
            Turn::Posterior(episode) => episode.observe(slate, labels),
        }
    }

    /// What is served: without any round the best by the learned ranking, else what exploring found.
    pub fn serve(&self, size: usize) -> Slate {
        match self {
            Turn::Ear(episode) if episode.rounds().is_empty() => top_slate(episode.relevance(), size),
            Turn::Ear(episode) => episode.finish(),
            Turn::Posterior(episode) => episode.finish(size),
        }
    }

    /// Chance, in [0, 1], that a slate holds at least one useful memory: `1 - prod (1 - sigmoid(log-odds))`. `None`
    /// under `paper`, whose scores are no odds.
    pub fn confidence(&self, slate: &Slate) -> Option<f32> {
        let Turn::Posterior(episode) = self else { return None };
        let log_odds = episode.log_odds();
        let none = slate.picks.iter().map(|pick| 1.0 / (1.0 + log_odds[pick.candidate.0].exp())).product::<f32>();
        Some(1.0 - none)
    }

    /// Whether another slate is expected to bring too little.
    pub fn is_settled(&self, size: usize) -> bool {
        match self {
            Turn::Ear(_) => false,
            Turn::Posterior(episode) => episode.is_settled(size),
        }
    }

    /// The rounds so far.
    pub fn rounds(&self) -> &[Round] {
        match self {
            Turn::Ear(episode) => episode.rounds(),
            Turn::Posterior(episode) => episode.rounds(),
        }
    }

    /// Candidates that some round has judged.
    pub fn judged(&self) -> Vec<Candidate> {
        self.rounds().iter().flat_map(|round| round.judged().map(|(c, _)| c)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::Array2;

    #[test]
    fn who_asks_for_others_sees_the_next_best() {
        let pool = Arc::new(Pool::new(vec![1.0, 0.0], Array2::zeros((5, 2))).unwrap());
        let mut turn = Turn::posterior(pool, vec![1.5, 1.0, 0.0, -1.0, -2.0], 1.0, &Params::default());
        turn.observe(&turn.serve(2), &[Some(Label::NotUseful), None]);
        let shown = |slate: Slate| slate.candidates().iter().map(|c| c.0).collect::<Vec<_>>();
        assert_eq!(shown(turn.next_unjudged(2)), [2, 3]);
        assert_eq!(shown(turn.next_unjudged(5)), [2, 3, 4, 1, 0], "shown, then judged come last");
        assert_eq!(shown(turn.next_slate(2)), [3, 4], "a critic is asked below what would be served");
    }
}
