//! Trains and tests one method on one split.

use anyhow::Result;
use earmark::Params;
use earmark::critic::{Critic, Quality, Simulated};
use earmark::learn::cycle::{Trainee, adapter_only, explorer_assisted, train_query};
use earmark::random::Seeded;
use earmark::recall::{Adapter, Candidate, Label};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::candidates::Case;
use crate::methods::Inference;
use crate::metrics::Scores;

/// What a test gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Tested {
    /// One entry for each test question, in order.
    pub scores: Vec<Scores>,
    /// The bank rows that were served to each test question, best first.
    pub slates: Vec<Vec<usize>>,
    /// Mean over the test questions.
    pub critic_calls_per_query: f64,
}

/// Learns from `order` (indices into `cases`), [`Params::epochs`] times, with a simulated critic.
///
/// `seen` is told the number of queries and the adapter after every one, and once before the first.
/// The seed decides initialisation, noise and labels; later epochs are shuffled by it.
///
/// # Errors
/// Those of `seen`.
pub fn train(
    params: &Params,
    cases: &[Case],
    order: &[usize],
    quality: Quality,
    seed: u64,
    seen: &mut dyn FnMut(usize, &Adapter) -> Result<()>,
) -> Result<Adapter> {
    train_with(params, cases, order, &|_| quality, seed, seen)
}

/// As [`train`], with a critic whose quality may depend on how many queries came before.
///
/// # Errors
/// Those of `seen`.
pub fn train_with(
    params: &Params,
    cases: &[Case],
    order: &[usize],
    quality: &dyn Fn(usize) -> Quality,
    seed: u64,
    seen: &mut dyn FnMut(usize, &Adapter) -> Result<()>,
) -> Result<Adapter> {
    let dimension = cases.first().map_or(0, |case| case.pool.dimension());
    let mut random = Seeded::new(stream(seed, Stream::Training));
    let mut labels = Seeded::new(stream(seed, Stream::TrainingLabels));
    let mut shuffle = ChaCha8Rng::seed_from_u64(stream(seed, Stream::Order));
    let mut trainee = Trainee::new(params, dimension, &mut random);
    let mut order = order.to_vec();
    seen(0, trainee.learner.adapter())?;
    for epoch in 0..params.epochs {
        if epoch > 0 {
            order.shuffle(&mut shuffle);
        }
        for (place, index) in order.iter().enumerate() {
            let case = &cases[*index];
            let quality = quality(epoch * order.len() + place);
            let mut critic = Simulated { gold: &case.gold_candidates, quality, random: &mut labels };
            train_query(&mut trainee, &case.pool, &mut critic, &mut random)?;
            seen(epoch * order.len() + place + 1, trainee.learner.adapter())?;
        }
    }
    trainee.learner.flush();
    Ok(trainee.learner.adapter().clone())
}

/// Answers the questions `test` (indices into `cases`).
///
/// With [`Inference::Explorer`] the simulated critic reads the test questions' own labels. Its luck depends on
/// the seed and the question alone, so that methods meet the same critic.
///
/// # Errors
/// Those of the critic.
pub fn test(
    adapter: &Adapter,
    params: &Params,
    inference: Inference,
    cases: &[Case],
    test: &[usize],
    quality: Quality,
    seed: u64,
) -> Result<Tested> {
    let mut calls = 0;
    let mut scores = Vec::with_capacity(test.len());
    let mut slates = Vec::with_capacity(test.len());
    for index in test {
        let case = &cases[*index];
        let mut random = Seeded::new(stream(seed, Stream::TestLabels(*index)));
        let simulated = Simulated { gold: &case.gold_candidates, quality, random: &mut random };
        let mut critic = Counting { critic: simulated, calls: &mut calls };
        let slate = match inference {
            Inference::AdapterOnly => adapter_only(adapter, &case.pool, params),
            Inference::Explorer => explorer_assisted(adapter, &case.pool, params, &mut critic)?,
        };
        let served = case.rows_of(&slate.candidates());
        scores.push(Scores::of(&served, &case.gold));
        slates.push(served);
    }
    Ok(Tested { critic_calls_per_query: calls as f64 / test.len().max(1) as f64, scores, slates })
}

/// Counts what a critic is asked.
struct Counting<'a, C> {
    critic: C,
    calls: &'a mut usize,
}

impl<C: Critic> Critic for Counting<'_, C> {
    fn judge(&mut self, slate: &[Candidate]) -> earmark::Result<Vec<Option<Label>>> {
        *self.calls += 1;
        self.critic.judge(slate)
    }
}

/// What a stream of random numbers is for; each has its own, so that one more draw here moves nothing there.
enum Stream {
    Training,
    TrainingLabels,
    Order,
    TestLabels(usize),
}

fn stream(seed: u64, stream: Stream) -> u64 {
    let number = match stream {
        Stream::Training => 0,
        Stream::TrainingLabels => 1,
        Stream::Order => 2,
        Stream::TestLabels(question) => 3 + question as u64,
    };
    (seed << 32) | number
}
