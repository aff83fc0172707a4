//! A query's exploration as a value: slate, labels, slate, ..., finish.

use std::sync::Arc;

use ndarray::Array2;
use serde::{Deserialize, Serialize};

use super::adapter::Adapter;
use super::explore::{Arm, greedy_slate, terms};
use super::pool::{Candidate, Label, Pool};
use super::slate::{Pick, Slate, gumbel_slate, top_slate};
use crate::params::{FinalSlate, Params, TrainingSlate};
use crate::random::Random;

/// A slate that was shown and what was said about it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Round {
    /// The candidates, in slate order.
    pub slate: Vec<Candidate>,
    /// One entry for each place of the slate; `None` where nobody judged.
    pub labels: Vec<Option<Label>>,
    /// The Gumbel noise `g [K]` behind a sampled slate; empty for others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub noise: Vec<f32>,
}

impl Round {
    /// Places with their labels, in slate order.
    pub fn picks(&self) -> impl Iterator<Item = (Candidate, Option<Label>)> {
        let labels = self.labels.iter().copied().chain(std::iter::repeat(None));
        self.slate.iter().copied().zip(labels)
    }

    /// Judged places with their labels, in slate order.
    pub fn judged(&self) -> impl Iterator<Item = (Candidate, Label)> {
        self.picks().filter_map(|(candidate, label)| Some((candidate, label?)))
    }
}

/// A query whose rounds are over: what learning needs, and nothing else.
#[derive(Debug, Clone, PartialEq)]
pub struct Closed {
    /// Query and candidates.
    pub pool: Arc<Pool>,
    /// The rounds, oldest first.
    pub rounds: Vec<Round>,
}

/// The exploration of one query (Algorithm 2): ask for a slate, hand in labels, repeat, finish.
///
/// It holds no critic: whoever shows the slate brings the labels, at once or a week later.
#[derive(Debug, Clone)]
pub struct Episode {
    params: Params,
    pool: Arc<Pool>,
    relevance: Vec<f32>,
    similarities: Array2<f32>,
    arms: Vec<Arm>,
    rounds: Vec<Round>,
    shown: Slate,
}

impl Episode {
    /// Starts with a query's candidates and the adapter of the day (Algorithm 1, line 2).
    pub fn new(pool: Arc<Pool>, adapter: &Adapter, params: &Params) -> Self {
        let adapted = adapter.adapt(&pool, params.similarity);
        Episode {
            params: *params,
            similarities: adapted.similarities(),
            arms: vec![Arm::default(); pool.len()],
            relevance: pool.informed(&adapted.relevance),
            pool,
            rounds: Vec::new(),
            shown: Slate::default(),
        }
    }

    /// Takes up an exploration from the rounds it has had, oldest first.
    pub fn resume(pool: Arc<Pool>, adapter: &Adapter, params: &Params, rounds: &[Round]) -> Self {
        let mut episode = Episode::new(pool, adapter, params);
        for round in rounds {
            episode.shown = episode.describe(&round.slate);
            episode.take(round.clone());
        }
        episode
    }

    /// The slate that the Explorer shows next, Eq. (8). Asking twice gives the same slate.
    pub fn next_slate(&self) -> Slate {
        greedy_slate(&self.relevance, &self.similarities, &self.arms, &self.params)
    }

    /// The slate to train on, by [`Params::training_slate`]; only `Gumbel` draws numbers, one a candidate.
    pub fn training_slate(&self, random: &mut dyn Random) -> Slate {
        match self.params.training_slate {
            TrainingSlate::Explorer => self.next_slate(),
            TrainingSlate::Gumbel => gumbel_slate(&self.relevance, self.params.slate_size, random),
            TrainingSlate::TopScore => top_slate(&self.relevance, self.params.slate_size),
        }
    }

    /// Takes in the labels of a slate, Eq. (9): one for each place, `None` where nobody judged.
    ///
    /// Missing labels count as `None`; labels beyond the slate and candidates outside the pool are ignored.
    pub fn observe(&mut self, slate: &Slate, labels: &[Option<Label>]) {
        let mut labels = labels.to_vec();
        labels.resize(slate.len(), None);
        self.shown = slate.clone();
        self.take(Round { slate: slate.candidates(), labels, noise: slate.noise.clone() });
    }

    /// The slate to serve, by [`Params::final_slate`].
    ///
    /// `LastRound` is the slate of round `T`: the next one until `T` rounds are over, then the last shown.
    pub fn finish(&self) -> Slate {
        match self.params.final_slate {
            FinalSlate::PosteriorBest => self.posterior_best(),
            FinalSlate::LastRound if self.rounds.len() < self.params.rounds => self.next_slate(),
            FinalSlate::LastRound => self.shown.clone(),
        }
    }

    /// Ends the exploration and keeps what learning needs.
    pub fn close(self) -> Closed {
        Closed { pool: self.pool, rounds: self.rounds }
    }

    /// The terms that a given slate has now, in its order; candidates outside the pool are left out.
    pub fn describe(&self, slate: &[Candidate]) -> Slate {
        let mut described = Slate::default();
        for candidate in slate.iter().copied().filter(|c| c.0 < self.pool.len()) {
            let terms =
                terms(candidate, &described.picks, &self.relevance, &self.similarities, &self.arms, &self.params);
            described.picks.push(Pick { candidate, terms });
        }
        described
    }

    /// `z [K]`, the relevance of each candidate under the adapter, with the pool's side information.
    pub fn relevance(&self) -> &[f32] {
        &self.relevance
    }

    /// What the rounds so far say about each candidate, `[K]`.
    pub fn arms(&self) -> &[Arm] {
        &self.arms
    }

    /// The rounds so far, oldest first.
    pub fn rounds(&self) -> &[Round] {
        &self.rounds
    }

    /// Query and candidates.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    fn take(&mut self, round: Round) {
        for (candidate, label) in round.judged() {
            if let Some(arm) = self.arms.get_mut(candidate.0) {
                arm.update(label);
            }
        }
        self.rounds.push(round);
    }

    fn posterior_best(&self) -> Slate {
        let mut order: Vec<usize> = (0..self.pool.len()).collect();
        let odds: Vec<f32> = self.arms.iter().map(|arm| log_odds(*arm, &self.params)).collect();
        let key = |i: usize| (odds[i], self.relevance[i]);
        order.sort_by(|a, b| {
            let (a, b) = (key(*a), key(*b));
            b.0.total_cmp(&a.0).then(b.1.total_cmp(&a.1))
        });
        order.truncate(self.params.slate_size);
        let pick = |i: usize| {
            let mut pick = self.describe(&[Candidate(i)]).picks[0];
            pick.terms.score = odds[i];
            pick
        };
        Slate { picks: order.into_iter().map(pick).collect(), noise: Vec::new() }
    }
}

/// Evidence that a candidate is useful, from a critic of known quality: each label adds the logarithm of its
/// likelihood ratio.
fn log_odds(arm: Arm, params: &Params) -> f32 {
    let (hit, fall_out) = (params.critic_recall, params.critic_false_positive_rate);
    let pulls = arm.pulls as f32;
    let positive = (pulls * (1.0 + arm.mean) / 2.0).round();
    positive * (hit / fall_out).ln() + (pulls - positive) * ((1.0 - hit) / (1.0 - fall_out)).ln()
}

#[cfg(test)]
mod tests {
    use ndarray::Array2;

    use super::*;
    use crate::random::{Random, Seeded};

    fn episode(params: &Params) -> Episode {
        let mut random = Seeded::new(11);
        let mut draw = |n| Array2::from_shape_fn((n, 8), |_| random.uniform() as f32 - 0.3);
        let query = draw(1).into_raw_vec_and_offset().0;
        Episode::new(Arc::new(Pool::new(query, draw(12)).unwrap()), &Adapter::zeros(8), params)
    }

    fn run(episode: &mut Episode, rounds: usize) {
        for _ in 0..rounds {
            let slate = episode.next_slate();
            let labels: Vec<_> = slate.candidates().iter().map(|c| Some(Label::from_useful(c.0 % 4 == 1))).collect();
            episode.observe(&slate, &labels);
        }
    }

    #[test]
    fn the_last_round_is_the_slate_of_round_t() {
        let (mut served, mut trained) = (episode(&Params::paper()), episode(&Params::paper()));
        run(&mut served, 3);
        run(&mut trained, 4);
        assert_eq!(served.finish(), trained.finish());
        assert_eq!(trained.finish().candidates(), trained.rounds()[3].slate);
    }

    #[test]
    fn a_resumed_episode_goes_on_as_if_it_had_never_stopped() {
        let mut whole = episode(&Params::paper());
        run(&mut whole, 3);
        let resumed = Episode::resume(whole.pool().clone(), &Adapter::zeros(8), &Params::paper(), whole.rounds());
        assert_eq!(resumed.next_slate(), whole.next_slate());
        assert_eq!(resumed.finish(), whole.finish());
        assert_eq!(resumed.close(), whole.close());
    }

    #[test]
    fn what_nobody_judged_changes_no_arm() {
        let mut episode = episode(&Params::paper());
        let slate = episode.next_slate();
        episode.observe(&slate, &[None, Some(Label::Useful)]);
        let judged: Vec<usize> = (0..12).filter(|i| episode.arms()[*i].pulls > 0).collect();
        assert_eq!(judged, [slate.picks[1].candidate.0]);
        assert_eq!(episode.rounds()[0].labels.len(), slate.len());
    }

    #[test]
    fn posterior_best_puts_the_confirmed_first_and_the_refused_last() {
        let params = Params { final_slate: FinalSlate::PosteriorBest, slate_size: 12, ..Params::paper() };
        let mut episode = episode(&params);
        let labels: Vec<_> = (0..12).map(|i| (i < 6).then(|| Label::from_useful(i == 2))).collect();
        let slate = episode.next_slate();
        episode.observe(&slate, &labels);
        let served = episode.finish();
        assert_eq!(served.picks[0].candidate, slate.picks[2].candidate);
        // ln(0.86 / 0.03) and ln(0.14 / 0.97).
        assert!((served.picks[0].terms.score - 3.3557).abs() < 1e-3);
        assert!((served.picks[11].terms.score + 1.9357).abs() < 1e-3);
        assert!(served.picks[1..7].windows(2).all(|w| w[0].terms.relevance >= w[1].terms.relevance));
    }

    #[test]
    fn no_candidate_gives_no_slate() {
        let pool = Arc::new(Pool::new(vec![1.0], Array2::zeros((0, 1))).unwrap());
        let episode = Episode::new(pool, &Adapter::zeros(1), &Params::paper());
        assert!(episode.next_slate().is_empty() && episode.finish().is_empty());
    }
}
