//! The learned state and the step that changes it.

use std::sync::Arc;

use super::experience::Experience;
use super::gradient::{Gradient, gradient};
use super::lesson::Lesson;
use super::optimizer::{Moments, Rule};
use crate::params::{Optimizer, Params};
use crate::random::Random;
use crate::recall::{Adapted, Adapter, Closed, Pool};

/// An adapter in training: weights, optimiser state and the queries that wait for the batch to fill.
///
/// Equal calls with equal random numbers give equal bits.
#[derive(Debug, Clone, PartialEq)]
pub struct Learner {
    pub(super) params: Params,
    pub(super) adapter: Adapter,
    pub(super) moments: Option<[Moments; 2]>,
    pub(super) steps: u64,
    /// Lessons of the queries that wait, adapted by the weights as they are.
    pub(super) pending: Vec<(Lesson, Adapted)>,
    pub(super) pending_queries: usize,
}

/// What an update did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Update {
    /// Which update it was, from 1.
    pub step: u64,
    /// Mean of Eq. (17) over the queries of the batch, before the update.
    pub loss: f32,
}

impl Learner {
    /// A learner before its first query.
    pub fn new(params: &Params, dimension: usize, random: &mut dyn Random) -> Self {
        Learner::from_adapter(params, Adapter::initial(params, dimension, random))
    }

    /// A learner that starts from given weights.
    pub fn from_adapter(params: &Params, adapter: Adapter) -> Self {
        let adapter = Adapter {
            query_weights: adapter.query_weights.as_standard_layout().into_owned(),
            memory_weights: adapter.memory_weights.as_standard_layout().into_owned(),
        };
        Learner { params: *params, adapter, moments: None, steps: 0, pending: Vec::new(), pending_queries: 0 }
    }

    /// The same state under other parameters, from the next query on.
    pub fn with_params(mut self, params: &Params) -> Self {
        self.params = *params;
        self
    }

    /// The parameters in force.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// The weights as they are.
    pub fn adapter(&self) -> &Adapter {
        &self.adapter
    }

    /// How many updates there have been.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Queries that wait for the batch to fill; below [`Params::batch_size`].
    pub fn pending_queries(&self) -> usize {
        self.pending_queries
    }

    /// Takes in a closed recall and the experiences replayed with it (Eq. 10, 16, 17); every
    /// [`Params::batch_size`] queries it updates the weights (Eq. 18) and says so.
    ///
    /// Draws one uniform for each candidate of each replayed experience, in order. A recall without a single label
    /// teaches nothing and is not counted.
    ///
    /// # Panics
    /// If a pool has another dimension than the adapter.
    pub fn learn(&mut self, closed: &Closed, replayed: &[Arc<Experience>], random: &mut dyn Random) -> Option<Update> {
        let current = Lesson::of_query(closed, &self.params)?;
        let pools: Vec<&Pool> =
            std::iter::once(&closed.pool).chain(replayed.iter().map(|e| &e.pool)).map(|p| &**p).collect();
        let mut adapted = self.adapter.adapt_all(&pools, self.params.similarity).into_iter();
        self.pending.extend(adapted.next().map(|adapted| (current, adapted)));
        let weight = self.params.replay_weight / replayed.len().max(1) as f32;
        for (experience, adapted) in replayed.iter().zip(adapted) {
            let relevance = adapted.relevance.to_vec();
            let lesson = Lesson::of_replay(experience, &relevance, weight, &self.params, random);
            self.pending.extend(lesson.map(|lesson| (lesson, adapted)));
        }
        self.pending_queries += 1;
        if self.pending_queries < self.params.batch_size { None } else { self.flush() }
    }

    /// Updates with the queries that wait, however few; `None` if there is none.
    pub fn flush(&mut self) -> Option<Update> {
        if self.pending_queries == 0 {
            return None;
        }
        let mut lessons = std::mem::take(&mut self.pending);
        let share = 1.0 / std::mem::take(&mut self.pending_queries) as f32;
        lessons.iter_mut().for_each(|(lesson, _)| lesson.weight *= share);
        let lessons: Vec<_> = lessons.iter().map(|(lesson, adapted)| (lesson, adapted)).collect();
        Some(self.step(gradient(&lessons, self.adapter.dimension())))
    }

    /// One update, Eq. (18).
    fn step(&mut self, gradient: Gradient<f32>) -> Update {
        let dimension = self.adapter.dimension();
        self.steps += 1;
        let rule = Rule::new(&self.params, self.steps);
        if self.params.optimizer == Optimizer::Adam && self.moments.is_none() {
            self.moments = Some([Moments::zeros(dimension), Moments::zeros(dimension)]);
        }
        let (query_moments, memory_moments) = self.moments.as_mut().map(|[q, m]| (q, m)).unzip();
        rule.apply(&mut self.adapter.query_weights, query_moments, &gradient.query);
        rule.apply(&mut self.adapter.memory_weights, memory_moments, &gradient.memory);
        Update { step: self.steps, loss: gradient.loss }
    }
}
