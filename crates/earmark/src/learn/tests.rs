//! Lessons, gradient and learner against hand-made numbers, central differences and each other.

use std::sync::Arc;

use ndarray::{Array1, Array2, NdFloat, array};

use super::cycle::{Trainee, adapter_only, explorer_assisted, train_query};
use super::gradient::{Gradient, dense_gradient, gradient, loss};
use super::lesson::{Lesson, Term};
use super::{Buffer, Experience, Learner};
use crate::critic::{Critic, Quality, Simulated};
use crate::error::{Error, Result};
use crate::params::{
    Initialisation, LogProbability, Optimizer, Params, Probability, ReplaySampling, ReplayUnobserved, Similarity,
    TrainingSlate,
};
use crate::random::{Random, Recorded, Seeded};
use crate::recall::{Adapter, Candidate, Closed, Label, Pool, Round, adapt_all};

const USEFUL: Option<Label> = Some(Label::Useful);
const USELESS: Option<Label> = Some(Label::NotUseful);

fn pool(candidates: usize, dimension: usize, random: &mut dyn Random) -> Arc<Pool> {
    let mut draw = |n| Array2::from_shape_fn((n, dimension), |_| random.uniform() as f32 - 0.4);
    let query = draw(1).into_raw_vec_and_offset().0;
    Arc::new(Pool::new(query, draw(candidates)).unwrap())
}

fn round(slate: &[usize], labels: &[Option<Label>]) -> Round {
    Round { slate: slate.iter().copied().map(Candidate).collect(), labels: labels.to_vec(), noise: Vec::new() }
}

fn closed(candidates: usize, rounds: Vec<Round>) -> Closed {
    Closed { pool: pool(candidates, 6, &mut Seeded::new(4)), rounds }
}

fn near(a: &[f32], b: &[f32]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-6)
}

#[test]
fn eq10_coefficients_by_hand() {
    // T = 2, s = 2, b = 0.5: a plus is worth 0.5/4 = 0.125, a minus -1.5/4 = -0.375; shares of one candidate add up.
    let rounds = vec![round(&[0, 2], &[USEFUL, USELESS]), round(&[2, 3], &[USELESS, USEFUL])];
    let lesson = Lesson::of_query(&closed(4, rounds), &Params::paper()).unwrap();
    assert_eq!(lesson.terms.len(), 1);
    assert!(near(&lesson.terms[0].coefficients, &[0.125, 0.0, -0.75, 0.125]));
    assert_eq!(lesson.weight, 1.0);
}

#[test]
fn eq10_loss_by_hand() {
    // Two equal candidates: p = 1/2 each, so the loss is -(0.5 - 1.5)/2 ln(1/2) = -0.346574.
    let pool = Arc::new(Pool::new(vec![1.0, 0.0], array![[1.0, 1.0], [1.0, 1.0]]).unwrap());
    let closed = Closed { pool, rounds: vec![round(&[0, 1], &[USEFUL, USELESS])] };
    let lesson = Lesson::of_query(&closed, &Params::paper()).unwrap();
    let loss = loss(&Adapter::zeros(2), &[lesson], Similarity::Cosine);
    assert!((loss + 0.346_573_6).abs() < 1e-6, "{loss}");
}

#[test]
fn eq10_partial_labels_share_the_round_among_the_judged() {
    let rounds = vec![round(&[0, 1, 2], &[USEFUL, None]), round(&[3], &[None])];
    let lesson = Lesson::of_query(&closed(4, rounds), &Params::paper()).unwrap();
    assert!(near(&lesson.terms[0].coefficients, &[0.5, 0.0, 0.0, 0.0]));
    assert!(Lesson::of_query(&closed(4, vec![round(&[3], &[None])]), &Params::paper()).is_none());
    assert!(Lesson::of_query(&closed(4, vec![round(&[9], &[USEFUL])]), &Params::paper()).is_none());
}

#[test]
fn plackett_luce_takes_earlier_picks_out() {
    // z = 0 for all three: ln(1/3) for the first pick, ln(1/2) for the second.
    let pool = Arc::new(Pool::new(vec![0.0, 1.0], Array2::from_elem((3, 2), 0.0)).unwrap());
    let closed = Closed { pool, rounds: vec![round(&[2, 0], &[USEFUL, USELESS])] };
    let params = Params { probability: Probability::PlackettLuce, ..Params::paper() };
    let lesson = Lesson::of_query(&closed, &params).unwrap();
    assert_eq!(lesson.terms[1].closed, [Candidate(2)]);
    let want = -(0.5 * (1.0f32 / 3.0).ln() - 1.5 * 0.5f32.ln()) / 2.0;
    assert!((loss(&Adapter::zeros(2), &[lesson], Similarity::Cosine) - want).abs() < 1e-6);
}

#[test]
fn perturbed_probabilities_see_the_noise() {
    // softmax((z + g) / 0.5) with z = 0 and g = (0, ln 3): 1 : 9.
    let pool = Arc::new(Pool::new(vec![0.0, 1.0], Array2::from_elem((2, 2), 0.0)).unwrap());
    let noisy = Round { noise: vec![0.0, 3.0f32.ln()], ..round(&[1], &[USEFUL]) };
    let params = Params { log_probability: LogProbability::Perturbed, ..Params::paper() };
    let lesson = Lesson::of_query(&Closed { pool, rounds: vec![noisy] }, &params).unwrap();
    let loss = loss(&Adapter::zeros(2), &[lesson], Similarity::Cosine);
    assert!((loss + 0.5 * 0.9f32.ln()).abs() < 1e-6, "{loss}");
}

#[test]
fn eq16_replayed_lessons_share_the_replay_weight() {
    // The slate is the noise's: u near 1 is large noise. Feedback +0.5 becomes +1; an unseen candidate -1 or nothing.
    let experience = Experience { pool: pool(3, 6, &mut Seeded::new(4)), feedback: vec![Some(0.5), None, Some(-1.0)] };
    let lesson = |replay_unobserved| {
        let params = Params { slate_size: 2, replay_unobserved, ..Params::paper() };
        let mut noise = Recorded::new(vec![0.999_99, 0.999_999_9, 0.1]);
        Lesson::of_replay(&experience, &[0.0; 3], 0.25, &params, &mut noise).unwrap()
    };
    let negative = lesson(ReplayUnobserved::Negative);
    assert!(near(&negative.terms[0].coefficients, &[0.25, -0.75, 0.0]));
    assert_eq!(negative.weight, 0.25);
    assert!(near(&lesson(ReplayUnobserved::Skip).terms[0].coefficients, &[0.5, 0.0, 0.0]));
}

#[test]
fn eq17_losses_add_up_with_their_weights() {
    let mut random = Seeded::new(9);
    let adapter = random_adapter(6, &mut random);
    let lessons = random_lessons(6, &mut random);
    let alone = |lesson: &Lesson| loss(&adapter, std::slice::from_ref(lesson), Similarity::Cosine);
    let whole = loss(&adapter, &lessons, Similarity::Cosine);
    assert!((whole - lessons.iter().map(alone).sum::<f32>()).abs() < 1e-6);
    let mut doubled = lessons[0].clone();
    doubled.weight *= 2.0;
    assert!((alone(&doubled) - 2.0 * alone(&lessons[0])).abs() < 1e-6);
}

#[test]
fn eq18_one_step_of_each_rule_by_hand() {
    // SGD moves by -η g; Adam's first step by -η g / (|g| + ε): one η against the sign of the gradient.
    let mut random = Seeded::new(9);
    let closed = closed(5, vec![round(&[3, 0, 1], &[USEFUL, USELESS, USELESS])]);
    let start = random_adapter(6, &mut random);
    let lesson = Lesson::of_query(&closed, &Params::paper()).unwrap();
    let (_, slope) = dense_gradient(&start, &[lesson], Similarity::Cosine);
    let mut moved = |optimizer| {
        let params = Params { optimizer, batch_size: 1, ..Params::paper() };
        let mut learner = Learner::from_adapter(&params, start.clone());
        assert_eq!(learner.learn(&closed, &[], &mut random).map(|update| update.step), Some(1));
        &learner.adapter().memory_weights - &start.memory_weights
    };
    let sgd = moved(Optimizer::Sgd);
    assert!(sgd.iter().zip(&slope).all(|(got, g)| (got + 1e-3 * g).abs() < 1e-7));
    let adam = moved(Optimizer::Adam);
    assert!(adam.iter().zip(&slope).all(|(got, g)| (got + 1e-3 * g / (g.abs() + 1e-8)).abs() < 1e-6));
}

fn random_adapter(dimension: usize, random: &mut dyn Random) -> Adapter {
    Adapter::initial(&Params { initialisation: Initialisation::Kaiming, ..Params::paper() }, dimension, random)
}

/// Lessons of every kind: full softmax, Plackett-Luce with noise, a zero memory, no candidate at all.
fn random_lessons(dimension: usize, random: &mut dyn Random) -> Vec<Lesson> {
    let plain = Params::paper();
    let sequential = Params {
        probability: Probability::PlackettLuce,
        log_probability: LogProbability::Perturbed,
        temperature: 0.7,
        ..plain
    };
    let mut lessons = Vec::new();
    for (params, weight) in [(plain, 1.0), (sequential, 0.25)] {
        let noise = (0..7).map(|_| random.uniform() as f32).collect();
        let rounds = vec![Round { noise, ..round(&[1, 4, 2], &[USEFUL, USELESS, USELESS]) }];
        let closed = Closed { pool: pool(7, dimension, random), rounds };
        lessons.extend(Lesson::of_query(&closed, &params).map(|lesson| Lesson { weight, ..lesson }));
    }
    let mut rows = pool(3, dimension, random).memories().clone();
    rows.row_mut(1).fill(0.0);
    let degenerate = Pool::new(vec![0.5; dimension], rows).unwrap();
    let term = Term { coefficients: vec![0.3, -0.4, 0.2], noise: vec![], closed: vec![], temperature: 1.0 };
    lessons.push(Lesson { pool: Arc::new(degenerate), terms: vec![term], weight: 0.5 });
    lessons.push(Lesson { pool: pool(0, dimension, random), terms: vec![], weight: 1.0 });
    lessons
}

fn gradient_at<F: NdFloat + From<f32>>(
    weights: &[Array2<F>; 2],
    lessons: &[Lesson],
    similarity: Similarity,
) -> Gradient<F> {
    let pools: Vec<&Pool> = lessons.iter().map(|lesson| &*lesson.pool).collect();
    let adapted = adapt_all(&weights[0], &weights[1], &pools, similarity, |w, x| &x + &x.dot(&w.t()));
    gradient(&lessons.iter().zip(&adapted).collect::<Vec<_>>(), weights[0].nrows())
}

/// Central differences of the loss in `f64`, in each entry of `W_q` and `W_m`.
fn differences(adapter: &Adapter, lessons: &[Lesson], similarity: Similarity) -> [Array2<f64>; 2] {
    let start = [&adapter.query_weights, &adapter.memory_weights].map(|weights| weights.mapv(f64::from));
    [0, 1].map(|side| {
        let loss_at = |place: (usize, usize), change: f64| {
            let mut weights = start.clone();
            weights[side][place] += change;
            gradient_at(&weights, lessons, similarity).loss
        };
        Array2::from_shape_fn(start[side].dim(), |at| (loss_at(at, 1e-5) - loss_at(at, -1e-5)) / 2e-5)
    })
}

/// Largest error of the gradient, computed in `F`, relative to its largest entry.
fn gradient_error<F: NdFloat + From<f32> + Into<f64>>(similarity: Similarity) -> f64 {
    let mut random = Seeded::new(21);
    let (adapter, lessons) = (random_adapter(9, &mut random), random_lessons(9, &mut random));
    let weights = [&adapter.query_weights, &adapter.memory_weights].map(|w| w.mapv(|x| -> F { x.into() }));
    let Gradient { query, memory, .. } = gradient_at(&weights, &lessons, similarity);
    let dense = [query, memory].map(|factors| factors.left.t().dot(&factors.right).mapv(|g| -> f64 { g.into() }));
    let differences = differences(&adapter, &lessons, similarity);
    let most = |values: Vec<f64>| values.into_iter().fold(0.0, |most: f64, x| most.max(x.abs()));
    let errors = differences.iter().flatten().zip(dense.iter().flatten()).map(|(a, b)| a - b);
    most(errors.collect()) / most(differences.iter().flatten().copied().collect())
}

#[test]
fn gradient_agrees_with_central_differences() {
    for similarity in [Similarity::Cosine, Similarity::Dot] {
        let (wide, narrow) = (gradient_error::<f64>(similarity), gradient_error::<f32>(similarity));
        assert!(wide < 1e-8, "{similarity:?} f64: {wide:e}");
        assert!(narrow < 1e-4, "{similarity:?} f32: {narrow:e}");
    }
}

/// Runs `queries` training queries over fixed pools and gives back the state.
fn trained(params: &Params, queries: usize, seed: u64) -> Trainee {
    let (mut random, mut noise) = (Seeded::new(seed), Seeded::new(seed + 1));
    let mut trainee = Trainee::new(params, 12, &mut random);
    let mut pools = Seeded::new(77);
    for _ in 0..queries {
        let pool = pool(9, 12, &mut pools);
        let gold = [Candidate(3), Candidate(6)];
        let mut critic = Simulated { gold: &gold, quality: Quality::paper(), random: &mut noise };
        train_query(&mut trainee, &pool, &mut critic, &mut random).unwrap();
    }
    trainee
}

#[test]
fn equal_seeds_give_equal_bits() {
    let bytes = |seed| trained(&Params::paper(), 10, seed).learner.to_bytes();
    assert_eq!(bytes(5), bytes(5));
    assert_ne!(bytes(5), bytes(6));
}

#[test]
fn a_state_that_was_saved_learns_on_as_if_it_had_not_been() {
    for optimizer in [Optimizer::Adam, Optimizer::Sgd] {
        let learner = trained(&Params { optimizer, ..Params::paper() }, 7, 1).learner;
        assert_eq!(learner.pending_queries(), 3);
        let mut again = Learner::from_bytes(&learner.to_bytes()).unwrap();
        assert_eq!(again, learner);
        let mut learner = learner;
        assert_eq!(again.flush(), learner.flush());
        assert_eq!(again.to_bytes(), learner.to_bytes());
    }
}

#[test]
fn damaged_state_is_refused() {
    let bytes = trained(&Params::paper(), 5, 1).learner.to_bytes();
    for place in [0, 9, 20, 300, bytes.len() / 2, bytes.len() - 1] {
        let mut damaged = bytes.clone();
        damaged[place] ^= 1;
        assert!(matches!(Learner::from_bytes(&damaged), Err(Error::Corrupt { .. })), "byte {place}");
    }
    for length in [0, 7, 31, 100, bytes.len() - 1] {
        assert!(matches!(Learner::from_bytes(&bytes[..length]), Err(Error::Corrupt { .. })), "{length} bytes");
    }
}

#[test]
fn every_ablation_is_a_value_and_stays_finite() {
    let paper = Params::paper();
    let kaiming = Initialisation::Kaiming;
    let rl = Params { rounds: 1, training_slate: TrainingSlate::Gumbel, replay_size: 0, ..paper };
    let variants = [
        rl,
        Params { log_probability: LogProbability::Perturbed, ..rl },
        Params { training_slate: TrainingSlate::TopScore, ..paper },
        Params { similarity: Similarity::Dot, initialisation: kaiming, ..paper },
        Params { replay_sampling: ReplaySampling::Random, replay_unobserved: ReplayUnobserved::Skip, ..paper },
        Params { replay_sampling: ReplaySampling::Reward, probability: Probability::PlackettLuce, ..paper },
        Params { candidates: 3, slate_size: 50, batch_size: 1, ..paper },
    ];
    for params in variants {
        assert!(params.check().is_ok());
        let trainee = trained(&params, 9, 2);
        assert_eq!(trainee.learner.steps(), 9 / params.batch_size as u64);
        assert_eq!(trainee.buffer.len(), if params.replay_size > 0 { 9 } else { 0 });
        let weights = &trainee.learner.adapter().memory_weights;
        assert!(weights.iter().all(|w| w.is_finite()) && weights.iter().any(|w| *w != 0.0), "{params:?}");
    }
}

#[test]
fn training_on_one_query_teaches_it() {
    let params = Params { batch_size: 1, learning_rate: 3e-3, ..Params::paper() };
    let (mut random, mut noise) = (Seeded::new(1), Seeded::new(2));
    let pool = pool(20, 32, &mut random);
    let mut trainee = Trainee::new(&params, 32, &mut random);
    let before = adapter_only(trainee.learner.adapter(), &pool, &params).candidates();
    let gold: Vec<Candidate> = (0..20).map(Candidate).filter(|c| !before.contains(c)).take(3).collect();
    let perfect = Quality { recall: 1.0, precision: 1.0, false_positive_rate: None };
    for _ in 0..40 {
        let mut critic = Simulated { gold: &gold, quality: perfect, random: &mut noise };
        train_query(&mut trainee, &pool, &mut critic, &mut random).unwrap();
    }
    let after = adapter_only(trainee.learner.adapter(), &pool, &params).candidates();
    assert!(gold.iter().all(|c| after.contains(c)), "{gold:?} not in {after:?}");
}

struct Silent;

impl Critic for Silent {
    fn judge(&mut self, _: &[Candidate]) -> Result<Vec<Option<Label>>> {
        Err(Error::invalid("critic", "does not answer"))
    }
}

#[test]
fn a_critic_that_fails_leaves_everything_as_it_was() {
    let mut trainee = trained(&Params::paper(), 3, 1);
    let before = trainee.learner.clone();
    let pool = pool(9, 12, &mut Seeded::new(1));
    assert!(train_query(&mut trainee, &pool, &mut Silent, &mut Seeded::new(1)).is_err());
    assert!(explorer_assisted(before.adapter(), &pool, &Params::paper(), &mut Silent).is_err());
    assert_eq!((trainee.learner, trainee.buffer.len()), (before, 3));
}

#[test]
fn replay_comes_from_earlier_queries_only() {
    let mut buffer = Buffer::default();
    let closed = closed(4, vec![round(&[0], &[USEFUL])]);
    assert!(buffer.select(closed.pool.query(), &Params::paper(), &mut Seeded::new(1)).is_empty());
    buffer.push(Experience::of(&closed));
    assert_eq!(buffer.select(closed.pool.query(), &Params::paper(), &mut Seeded::new(1)).len(), 1);
    let off = Params { replay_size: 0, ..Params::paper() };
    assert!(buffer.select(closed.pool.query(), &off, &mut Seeded::new(1)).is_empty());
}

#[test]
fn a_zero_vector_takes_no_gradient() {
    let lesson = random_lessons(6, &mut Seeded::new(3)).swap_remove(2);
    let zeros = [Array2::<f64>::zeros((6, 6)), Array2::zeros((6, 6))];
    let gradient = gradient_at(&zeros, &[lesson], Similarity::Cosine);
    assert_eq!(gradient.memory.left.row(1), Array1::<f64>::zeros(6));
    assert!(gradient.memory.left.iter().all(|x| x.is_finite()));
}
