//! What is kept of a closed recall (Eq. 11-14) and what it is worth in replay (Eq. 20).

use std::sync::Arc;

use super::replay::{lowest_reward, most_similar, random_sample};
use crate::params::{Params, ReplaySampling};
use crate::random::Random;
use crate::recall::{Closed, Label, Pool};

/// A closed recall, as the buffer keeps it: raw vectors, so that every later adapter can be applied to them. Eq. (13).
#[derive(Debug, Clone, PartialEq)]
pub struct Experience {
    /// Query and candidates, before any adapter.
    pub pool: Arc<Pool>,
    /// `ȳ [K]` in [-1, 1]; `None` where a candidate was never judged.
    pub feedback: Vec<Option<f32>>,
}

impl Experience {
    /// Gathers the labels of all rounds.
    pub fn of(closed: &Closed) -> Self {
        Experience { pool: closed.pool.clone(), feedback: mean_feedback(closed) }
    }

    /// The candidates that were judged at least once: `O` of Eq. (11), as places.
    pub fn observed(&self) -> impl Iterator<Item = usize> {
        self.feedback.iter().enumerate().filter_map(|(i, mean)| mean.map(|_| i))
    }

    /// Mean of `ȳ` over the judged candidates; 0 if there is none. What reward replay orders by.
    pub fn reward(&self) -> f32 {
        let judged: Vec<f32> = self.feedback.iter().copied().flatten().collect();
        judged.iter().sum::<f32>() / judged.len().max(1) as f32
    }
}

/// `ȳ`: mean label of each candidate over the rounds that judged it, Eq. (12).
fn mean_feedback(closed: &Closed) -> Vec<Option<f32>> {
    let mut sums = vec![(0.0, 0u32); closed.pool.len()];
    for (candidate, label) in closed.rounds.iter().flat_map(|round| round.judged()) {
        if let Some((sum, count)) = sums.get_mut(candidate.0) {
            *sum += label.value();
            *count += 1;
        }
    }
    sums.into_iter().map(|(sum, count)| (count > 0).then(|| sum / count as f32)).collect()
}

/// The sign of mean feedback as a label, ties to `NotUseful`, Eq. (20).
pub(super) fn replay_label(mean: f32) -> Label {
    Label::from_useful(mean > 0.0)
}

/// The experiences so far, oldest first, Eq. (14). Without a limit: the caller bounds it where it must.
#[derive(Debug, Clone, Default)]
pub struct Buffer {
    experiences: Vec<Arc<Experience>>,
}

impl Buffer {
    /// Adds the newest experience.
    pub fn push(&mut self, experience: Experience) {
        self.experiences.push(Arc::new(experience));
    }

    /// The experiences to replay with a query (raw, `[d]`): at most [`Params::replay_size`], fewer while the buffer
    /// is young.
    pub fn select(&self, query: &[f32], params: &Params, random: &mut dyn Random) -> Vec<Arc<Experience>> {
        let n = params.replay_size;
        let places = match params.replay_sampling {
            ReplaySampling::Similarity => most_similar(query, self.experiences.iter().map(|e| e.pool.query()), n),
            ReplaySampling::Reward => lowest_reward(self.experiences.iter().map(|e| e.reward()), n),
            ReplaySampling::Random => random_sample(self.experiences.len(), n, random),
        };
        places.into_iter().map(|place| self.experiences[place].clone()).collect()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.experiences.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.experiences.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use ndarray::Array2;

    use super::*;
    use crate::recall::{Candidate, Round};

    fn round(rows: &[(usize, bool)]) -> Round {
        Round {
            slate: rows.iter().map(|(i, _)| Candidate(*i)).collect(),
            labels: rows.iter().map(|(_, useful)| Some(Label::from_useful(*useful))).collect(),
            noise: Vec::new(),
        }
    }

    fn closed(rounds: Vec<Round>) -> Closed {
        Closed { pool: Arc::new(Pool::new(vec![1.0], Array2::ones((4, 1))).unwrap()), rounds }
    }

    #[test]
    fn eq11_observed_are_the_judged() {
        let mut rounds = vec![round(&[(3, true), (1, false)])];
        rounds[0].labels[1] = None;
        assert_eq!(Experience::of(&closed(rounds)).observed().collect::<Vec<_>>(), [3]);
    }

    #[test]
    fn eq12_mean_over_the_rounds_that_showed_it() {
        let rounds = vec![round(&[(0, true), (2, true)]), round(&[(0, true)]), round(&[(0, false), (2, false)])];
        let experience = Experience::of(&closed(rounds));
        assert_eq!(experience.feedback, [Some(1.0 / 3.0), None, Some(0.0), None]);
        assert!((experience.reward() - 1.0 / 6.0).abs() < 1e-7);
    }

    #[test]
    fn eq13_an_experience_holds_the_raw_vectors() {
        let closed = closed(vec![round(&[(0, true)])]);
        assert!(Arc::ptr_eq(&Experience::of(&closed).pool, &closed.pool));
    }

    #[test]
    fn eq14_the_buffer_only_grows() {
        let mut buffer = Buffer::default();
        for n in 1..=3 {
            buffer.push(Experience::of(&closed(vec![])));
            assert_eq!(buffer.len(), n);
        }
    }

    #[test]
    fn eq20_ties_are_not_useful() {
        let labels = [0.5, 0.0, -1.0].map(replay_label);
        assert_eq!(labels, [Label::Useful, Label::NotUseful, Label::NotUseful]);
    }
}
