//! The whole method in one place (Algorithms 1 and 3), as the laboratory runs it.

use std::sync::Arc;

use super::experience::{Buffer, Experience};
use super::learner::{Learner, Update};
use crate::critic::Critic;
use crate::error::Result;
use crate::params::Params;
use crate::random::Random;
use crate::recall::{Adapter, Closed, Episode, Pool, Slate, top_slate};

/// What is carried from query to query: `φ` and the buffer.
#[derive(Debug, Clone)]
pub struct Trainee {
    /// The adapter in training.
    pub learner: Learner,
    /// The experiences so far.
    pub buffer: Buffer,
}

impl Trainee {
    /// Before the first query.
    pub fn new(params: &Params, dimension: usize, random: &mut dyn Random) -> Self {
        Trainee { learner: Learner::new(params, dimension, random), buffer: Buffer::default() }
    }
}

/// What one training query gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Trained {
    /// `S^(T)`, what is served (Algorithm 1, line 12).
    pub slate: Slate,
    /// The rounds behind it.
    pub closed: Closed,
    /// The update, if the batch was full.
    pub update: Option<Update>,
}

/// One training query: explore, learn from it and from similar past ones, remember it.
///
/// `pool` holds the `K` candidates of Eq. (1). Per query `random` is drawn in this order: the training slates'
/// noise, random replay, the replayed slates' noise.
///
/// # Errors
/// Those of the critic; then nothing is learned or remembered.
pub fn train_query(
    trainee: &mut Trainee,
    pool: &Arc<Pool>,
    critic: &mut dyn Critic,
    random: &mut dyn Random,
) -> Result<Trained> {
    let params = *trainee.learner.params();
    let mut episode = Episode::new(pool.clone(), trainee.learner.adapter(), &params);
    for _ in 0..params.rounds {
        let slate = episode.training_slate(random);
        let labels = critic.judge(&slate.candidates())?;
        episode.observe(&slate, &labels);
    }
    let slate = episode.finish();
    let closed = episode.close();
    let replayed = trainee.buffer.select(pool.query(), &params, random);
    let update = trainee.learner.learn(&closed, &replayed, random);
    if params.replay_size > 0 {
        trainee.buffer.push(Experience::of(&closed));
    }
    Ok(Trained { slate, closed, update })
}

/// Adapter-only inference: the best `s` by adapted relevance, best first; no critic call.
pub fn adapter_only(adapter: &Adapter, pool: &Pool, params: &Params) -> Slate {
    top_slate(&pool.informed(&adapter.adapt(pool, params.similarity).relevance), params.slate_size)
}

/// Explorer-assisted inference: `T - 1` rounds with the critic, then the final slate. Nothing is learned.
///
/// # Errors
/// Those of the critic.
pub fn explorer_assisted(
    adapter: &Adapter,
    pool: &Arc<Pool>,
    params: &Params,
    critic: &mut dyn Critic,
) -> Result<Slate> {
    let mut episode = Episode::new(pool.clone(), adapter, params);
    for _ in 1..params.rounds {
        let slate = episode.next_slate();
        let labels = critic.judge(&slate.candidates())?;
        episode.observe(&slate, &labels);
    }
    Ok(episode.finish())
}
