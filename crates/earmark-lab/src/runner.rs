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

/// A question that a critic is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// Index into the cases.
    pub case: usize,
    /// Queries that came before it.
    pub before: usize,
}

/// A critic of all questions: judges a slate of one of them, as [`Critic::judge`] does.
pub type Judge<'a> = dyn FnMut(Asked, &[Candidate]) -> earmark::Result<Vec<Option<Label>>> + 'a;

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
    let mut judge = simulated_in_training(cases, quality, seed);
    train_judged(params, cases, order, &mut judge, seed, seen)
}

/// The simulated critic of [`train_with`]: one stream of luck for all questions.
pub fn simulated_in_training<'a>(
    cases: &'a [Case],
    quality: &'a dyn Fn(usize) -> Quality,
    seed: u64,
) -> impl FnMut(Asked, &[Candidate]) -> earmark::Result<Vec<Option<Label>>> + 'a {
    let mut labels = Seeded::new(stream(seed, Stream::TrainingLabels));
    move |asked, slate| {
        let gold = &cases[asked.case].gold_candidates;
        Simulated { gold, quality: quality(asked.before), random: &mut labels }.judge(slate)
    }
}

/// As [`train`], with any critic.
///
/// # Errors
/// Those of `judge` and `seen`.
pub fn train_judged(
    params: &Params,
    cases: &[Case],
    order: &[usize],
    judge: &mut Judge<'_>,
    seed: u64,
    seen: &mut dyn FnMut(usize, &Adapter) -> Result<()>,
) -> Result<Adapter> {
    let dimension = cases.first().map_or(0, |case| case.pool.dimension());
    let mut random = Seeded::new(stream(seed, Stream::Training));
    let mut shuffle = ChaCha8Rng::seed_from_u64(stream(seed, Stream::Order));
    let mut trainee = Trainee::new(params, dimension, &mut random);
    let mut order = order.to_vec();
    seen(0, trainee.learner.adapter())?;
    for epoch in 0..params.epochs {
        if epoch > 0 {
            order.shuffle(&mut shuffle);
        }
        for (place, case) in order.iter().enumerate() {
            let asked = Asked { case: *case, before: epoch * order.len() + place };
            let mut critic = OfQuestion { asked, judge, calls: 0 };
            train_query(&mut trainee, &cases[*case].pool, &mut critic, &mut random)?;
            seen(asked.before + 1, trainee.learner.adapter())?;
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
    test_judged(adapter, params, inference, cases, test, &mut simulated_at_test(cases, quality, seed))
}

/// The simulated critic of [`test()`]: each question begins its own stream of luck.
pub fn simulated_at_test(
    cases: &[Case],
    quality: Quality,
    seed: u64,
) -> impl FnMut(Asked, &[Candidate]) -> earmark::Result<Vec<Option<Label>>> + '_ {
    let mut luck: Option<(Asked, Seeded)> = None;
    move |asked, slate| {
        let new = || (asked, Seeded::new(stream(seed, Stream::TestLabels(asked.case))));
        let (_, random) = match &mut luck {
            Some(one) if one.0 == asked => one,
            other => other.insert(new()),
        };
        Simulated { gold: &cases[asked.case].gold_candidates, quality, random }.judge(slate)
    }
}

/// As [`test()`], with any critic; with [`Inference::AdapterOnly`] it is not asked.
///
/// # Errors
/// Those of `judge`.
pub fn test_judged(
    adapter: &Adapter,
    params: &Params,
    inference: Inference,
    cases: &[Case],
    test: &[usize],
    judge: &mut Judge<'_>,
) -> Result<Tested> {
    let mut calls = 0;
    let mut scores = Vec::with_capacity(test.len());
    let mut slates = Vec::with_capacity(test.len());
    for (before, index) in test.iter().enumerate() {
        let case = &cases[*index];
        let mut critic = OfQuestion { asked: Asked { case: *index, before }, judge, calls: 0 };
        let slate = match inference {
            Inference::AdapterOnly => adapter_only(adapter, &case.pool, params),
            Inference::Explorer => explorer_assisted(adapter, &case.pool, params, &mut critic)?,
        };
        calls += critic.calls;
        let served = case.rows_of(&slate.candidates());
        scores.push(Scores::of(&served, &case.gold));
        slates.push(served);
    }
    Ok(Tested { critic_calls_per_query: calls as f64 / test.len().max(1) as f64, scores, slates })
}

/// A critic of one question; counts how often it is asked.
struct OfQuestion<'a, 'b> {
    asked: Asked,
    judge: &'a mut Judge<'b>,
    calls: usize,
}

impl Critic for OfQuestion<'_, '_> {
    fn judge(&mut self, slate: &[Candidate]) -> earmark::Result<Vec<Option<Label>>> {
        self.calls += 1;
        (self.judge)(self.asked, slate)
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
