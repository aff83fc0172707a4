//! A Bayesian logistic regression over a few features, from labels that miss some of what is useful: the learner of
//! the `default` recipe.

use ndarray::{Array2, ArrayView1, linalg::general_mat_mul, s};

/// Prior knowledge of the weights: a Gaussian with this mean and a diagonal precision.
#[derive(Debug, Clone, PartialEq)]
pub struct Prior<'a> {
    /// Weights `[F]` of the static ranking.
    pub mean: &'a [f64],
    /// Inverse variances `[F]`, all positive; large means "do not move".
    pub precision: &'a [f64],
}

/// One labelled candidate of a closed recall.
#[derive(Debug, Clone, PartialEq)]
pub struct Example<'a> {
    /// Its features `[F]`.
    pub features: &'a [f32],
    /// Whether it was labelled useful.
    pub useful: bool,
    /// Chance that a useful candidate is labelled useful, in (0, 1]: below 1 a label "not useful" may be a miss.
    pub hit_rate: f64,
    /// How much it counts, for example 1.
    pub weight: f64,
}

/// Probability that a candidate with these features is useful: `1 / (1 + exp(-w.x))`.
pub fn probability(weights: &[f64], features: &[f32]) -> f64 {
    sigmoid(logit(weights, features))
}

/// Log-odds `w.x` that a candidate with these features is useful; the longer of the two is cut.
pub fn logit(weights: &[f64], features: &[f32]) -> f64 {
    let shared = weights.len().min(features.len());
    let (weights, weights_left) = weights[..shared].as_chunks::<8>();
    let (features, features_left) = features[..shared].as_chunks::<8>();
    // Eight sums at once, because one would wait for itself.
    let mut sums = [0.0; 8];
    for (weights, features) in weights.iter().zip(features) {
        for i in 0..8 {
            sums[i] += weights[i] * f64::from(features[i]);
        }
    }
    let left = weights_left.iter().zip(features_left).map(|(w, x)| w * f64::from(*x));
    sums.iter().sum::<f64>() + left.sum::<f64>()
}

/// Weights `[F]` that maximise the posterior: prior times the likelihood of the labels, where a candidate is labelled
/// useful with the chance `hit_rate / (1 + exp(-w.x))`.
///
/// Fisher scoring (Newton's method with the expected curvature) with step halving, because whole steps diverge on
/// separable labels; begun at `start`; deterministic, and without examples exactly the prior's mean when begun there.
///
/// # Panics
/// If the lengths of prior, start and features differ.
pub fn fit(prior: &Prior, examples: &[Example], start: &[f64]) -> Vec<f64> {
    refit(prior, examples, start, 25)
}

/// As [`fit`], with at most `steps` steps.
///
/// # Panics
/// As [`fit`].
pub fn refit(prior: &Prior, examples: &[Example], start: &[f64], steps: usize) -> Vec<f64> {
    const GOOD_ENOUGH: f64 = 1e-8;
    let mut weights = start.to_vec();
    for _ in 0..steps {
        let (step, loss) = scoring_step(prior, examples, &weights);
        let Some((next, next_loss)) = halve_until_better(prior, examples, &weights, &step, loss) else { break };
        weights = next;
        if loss - next_loss < GOOD_ENOUGH * (1.0 + next_loss.abs()) {
            break;
        }
    }
    weights
}

/// `sum weight * misfit + 1/2 sum precision (w - mean)^2`.
fn negative_log_posterior(prior: &Prior, examples: &[Example], weights: &[f64]) -> f64 {
    let misfit: f64 = examples.iter().map(|e| e.weight * Fit::of(e, weights).misfit).sum();
    misfit + distance(prior, weights)
}

/// `1/2 sum precision (w - mean)^2`.
fn distance(prior: &Prior, weights: &[f64]) -> f64 {
    let terms = weights.iter().zip(prior.mean).zip(prior.precision);
    0.5 * terms.map(|((w, mean), precision)| precision * (w - mean).powi(2)).sum::<f64>()
}

/// Of many examples a stretch of this many stands for some more: few enough for the cache.
const TOGETHER: usize = 256;

/// How many stretches one stands for, so that about 2,500 examples are left.
fn every_of(examples: &[Example]) -> usize {
    const LEFT: usize = 2_500;
    (examples.len() / LEFT).max(1)
}

/// The step at `weights`, and [`negative_log_posterior`] there. Of many examples a part gives the curvature for all:
/// stretches of them, because every so many-th could always be the same place of a slate.
fn scoring_step(prior: &Prior, examples: &[Example], weights: &[f64]) -> (Vec<f64>, f64) {
    let (n, every) = (weights.len(), every_of(examples));
    let mut hessian = Array2::from_diag(&ArrayView1::from(prior.precision));
    let mut gradient: Vec<f64> = (0..n).map(|i| prior.precision[i] * (weights[i] - prior.mean[i])).collect();
    let mut loss = distance(prior, weights);
    let mut scaled = Array2::zeros((TOGETHER, n));
    for part in examples.chunks(TOGETHER * every) {
        let curved = part.len().min(TOGETHER);
        let stands_for = part.len() as f64 / curved as f64;
        for (place, example) in part.iter().enumerate() {
            let fit = Fit::of(example, weights);
            let features = &example.features[..n];
            loss += example.weight * fit.misfit;
            gradient.iter_mut().zip(features).for_each(|(g, x)| *g += example.weight * fit.slope * f64::from(*x));
            if place < curved {
                let root = (stands_for * example.weight * fit.curvature).sqrt();
                scaled.row_mut(place).iter_mut().zip(features).for_each(|(entry, x)| *entry = root * f64::from(*x));
            }
        }
        let rows = scaled.slice(s![..curved, ..]);
        general_mat_mul(1.0, &rows.t(), &rows, 1.0, &mut hessian);
    }
    let (mut hessian, _) = hessian.into_raw_vec_and_offset();
    (solve_symmetric(&mut hessian, gradient), loss)
}

/// What to add to the first weight, that of the feature which is 1 everywhere, so that as many labels "useful" are
/// expected as there are: the maximum over `b` of the posterior of `sigmoid(w.x + b)`, as if nothing was ever missed.
/// It ranks nothing, but makes a chance mean what is seen. Of many examples stretches are looked at.
pub fn calibration(prior: &Prior, examples: &[Example], weights: &[f64]) -> f64 {
    const STEPS: usize = 20;
    const GOOD_ENOUGH: f64 = 1e-6;
    let every = every_of(examples);
    let stretches = examples.chunks(TOGETHER * every).flat_map(|part| part.iter().take(TOGETHER));
    let log_odds: Vec<(f64, &Example)> = stretches.map(|e| (logit(weights, e.features), e)).collect();
    let precision = prior.precision[0] / every as f64;
    let mut shift = 0.0;
    for _ in 0..STEPS {
        let from_prior = precision * (weights[0] + shift - prior.mean[0]);
        let (slope, curvature) = log_odds.iter().fold((from_prior, precision), |(slope, curvature), (z, e)| {
            let p = sigmoid(z + shift);
            (slope + e.weight * (p - f64::from(u8::from(e.useful))), curvature + e.weight * p * (1.0 - p))
        });
        // Whole steps may leap from one flat side to the other.
        let step = (slope / curvature).clamp(-1.0, 1.0);
        shift -= step;
        if step.abs() < GOOD_ENOUGH {
            break;
        }
    }
    shift
}

fn halve_until_better(
    prior: &Prior,
    examples: &[Example],
    weights: &[f64],
    step: &[f64],
    loss: f64,
) -> Option<(Vec<f64>, f64)> {
    const HALVINGS: i32 = 12;
    (0..HALVINGS).find_map(|halvings| {
        let scale = 0.5f64.powi(halvings);
        let next: Vec<f64> = weights.iter().zip(step).map(|(w, s)| w - scale * s).collect();
        let next_loss = negative_log_posterior(prior, examples, &next);
        (next_loss < loss).then_some((next, next_loss))
    })
}

/// Solves `A x = b` for a positive definite `A [n x n]` given by its lower triangle (Cholesky, in place).
fn solve_symmetric(a: &mut [f64], mut b: Vec<f64>) -> Vec<f64> {
    let n = b.len();
    for i in 0..n {
        for j in 0..=i {
            let dot: f64 = (0..j).map(|k| a[i * n + k] * a[j * n + k]).sum();
            let rest = a[i * n + j] - dot;
            a[i * n + j] = if i == j { rest.max(f64::MIN_POSITIVE).sqrt() } else { rest / a[j * n + j] };
        }
    }
    for i in 0..n {
        let dot: f64 = (0..i).map(|k| a[i * n + k] * b[k]).sum();
        b[i] = (b[i] - dot) / a[i * n + i];
    }
    for i in (0..n).rev() {
        let dot: f64 = (i + 1..n).map(|k| a[k * n + i] * b[k]).sum();
        b[i] = (b[i] - dot) / a[i * n + i];
    }
    b
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// How a label fits the log-odds `z = w.x`. With `s = 1 / (1 + exp(-z))` and the hit rate `h` it is "useful" with the
/// chance `h s`.
struct Fit {
    /// `-ln(h s)` if useful and `-ln(1 - h s)` if not.
    misfit: f64,
    /// Derivative of the misfit by `z`: `s - 1` if useful, `h s (1 - s) / (1 - h s)` if not.
    slope: f64,
    /// Second derivative that is expected of such a label, `h s (1 - s)^2 / (1 - h s)`.
    curvature: f64,
}

impl Fit {
    fn of(example: &Example, weights: &[f64]) -> Fit {
        let (z, h) = (logit(weights, example.features), example.hit_rate);
        let small = (-z.abs()).exp();
        let (s, rest) = if z < 0.0 { (small, 1.0) } else { (1.0, small) };
        let (s, rest) = (s / (1.0 + small), rest / (1.0 + small));
        // 1 - h s, and (1 - s) / (1 - h s): nothing cancels where a useful candidate is never missed.
        let silent = (1.0 - h) + h * rest;
        let share = if h < 1.0 { rest / silent } else { 1.0 };
        let curvature = h * s * rest * share;
        if example.useful {
            Fit { misfit: (-z).max(0.0) + small.ln_1p() - h.ln(), slope: -rest, curvature }
        } else {
            let misfit = if h < 1.0 { -silent.ln() } else { z.max(0.0) + small.ln_1p() };
            Fit { misfit, slope: h * s * share, curvature }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_examples_the_prior_stands() {
        let prior = Prior { mean: &[1.0, 4.0], precision: &[1.0, 1.0] };
        assert_eq!(fit(&prior, &[], prior.mean), [1.0, 4.0]);
    }

    #[test]
    fn one_example_by_hand() {
        // w = sigmoid(-w) for one useful example with x = 1, mean 0, precision 1: w = 0.40105813...
        let prior = Prior { mean: &[0.0], precision: &[1.0] };
        let w = fit(&prior, &[Example { features: &[1.0], useful: true, hit_rate: 1.0, weight: 1.0 }], prior.mean)[0];
        assert!((w - 0.401_058_13).abs() < 1e-6, "{w}");
        assert!((w - (1.0 - sigmoid(w))).abs() < 1e-7);
    }

    #[test]
    fn calibration_by_hand() {
        let example = |useful| Example { features: &[1.0], useful, hit_rate: 0.5, weight: 1.0 };
        let examples = [example(true), example(true), example(true), example(false)];
        // Three of four are useful, whatever may have been missed: odds of 3, from log-odds of 2.
        let free = Prior { mean: &[0.0], precision: &[1e-9] };
        assert!((calibration(&free, &examples, &[2.0]) - (3f64.ln() - 2.0)).abs() < 1e-6);
        // So are stretches of a long past.
        let long: Vec<Example> = examples.iter().cycle().take(8_000).cloned().collect();
        assert!((calibration(&free, &long, &[2.0]) - (3f64.ln() - 2.0)).abs() < 1e-6);
        // Under a prior the pulls of both sides are equal: 2 w = 3 - 4 sigmoid(w).
        let prior = Prior { mean: &[0.0], precision: &[2.0] };
        let w = -5.0 + calibration(&prior, &examples, &[-5.0]);
        assert!((2.0 * w - (3.0 - 4.0 * sigmoid(w))).abs() < 1e-6, "{w}");
        assert_eq!(calibration(&prior, &[], &[0.0]), 0.0);
    }

    #[test]
    fn misses_by_hand() {
        // z = ln 3: s = 3/4. Labelled useful with the chance 0.8 * 3/4 = 0.6.
        let example = |useful| Example { features: &[1.0], useful, hit_rate: 0.8, weight: 1.0 };
        let [hit, miss] = [true, false].map(|useful| Fit::of(&example(useful), &[3f64.ln()]));
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
        near(hit.misfit, -0.6f64.ln());
        near(miss.misfit, -0.4f64.ln());
        near(hit.slope, -0.25);
        near(miss.slope, 0.6 * 0.25 / 0.4);
        // What is expected of the squared slope: 0.6 * 0.25^2 + 0.4 * 0.375^2.
        near(hit.curvature, 0.6 * 0.062_5 + 0.4 * 0.140_625);
        near(miss.curvature, hit.curvature);
        let far = Fit::of(&Example { hit_rate: 1.0, ..example(false) }, &[1e4]);
        assert_eq!([far.misfit, far.slope, far.curvature], [1e4, 1.0, 0.0]);
    }

    #[test]
    fn slopes_follow_central_differences() {
        for (z, hit_rate, useful) in [(-4.0, 0.86, false), (0.3, 0.86, true), (2.0, 0.5, false), (7.0, 1.0, false)] {
            let at = |z: f64| Fit::of(&Example { features: &[1.0], useful, hit_rate, weight: 1.0 }, &[z]);
            let difference = (at(z + 1e-5).misfit - at(z - 1e-5).misfit) / 2e-5;
            assert!((difference - at(z).slope).abs() < 1e-8 * (1.0 + difference.abs()), "{z} {difference}");
        }
    }

    #[test]
    fn part_of_many_examples_gives_the_curvature() {
        let rows: Vec<[f32; 2]> = (0..9_000).map(|i| [1.0, (i as f32).sin()]).collect();
        let examples: Vec<Example> = rows
            .iter()
            .enumerate()
            .map(|(i, r)| Example { features: r, useful: i % 4 == 0, hit_rate: 0.86, weight: 1.0 })
            .collect();
        let prior = Prior { mean: &[0.0, 0.0], precision: &[1.0, 1.0] };
        let one = refit(&prior, &examples, prior.mean, 1);
        let whole = fit(&prior, &examples, prior.mean);
        let few = &examples[..2_000];
        assert!(one.iter().zip(&whole).all(|(a, b)| (a - b).abs() < 0.1), "{one:?} {whole:?}");
        assert!(fit(&prior, few, prior.mean).iter().zip(&whole).all(|(a, b)| (a - b).abs() < 0.1));
    }

    #[test]
    fn gradient_vanishes_at_the_fit() {
        let rows: Vec<[f32; 3]> =
            (0..40).map(|i| [1.0, (i as f32 * 0.7).sin(), (i as f32 * 1.3).cos() * 3.0]).collect();
        let examples: Vec<Example> = rows
            .iter()
            .enumerate()
            .map(|(i, r)| Example { features: r, useful: i % 3 == 0, hit_rate: 0.8, weight: 1.0 })
            .collect();
        let prior = Prior { mean: &[0.0, 1.0, -1.0], precision: &[0.5, 2.0, 1.0] };
        let w = fit(&prior, &examples, prior.mean);
        for i in 0..3 {
            let mut up = w.clone();
            let mut down = w.clone();
            up[i] += 1e-5;
            down[i] -= 1e-5;
            let slope = (negative_log_posterior(&prior, &examples, &up)
                - negative_log_posterior(&prior, &examples, &down))
                / 2e-5;
            assert!(slope.abs() < 1e-3, "d/dw{i} = {slope}");
        }
    }

    #[test]
    fn separable_labels_do_not_diverge() {
        let prior = Prior { mean: &[0.0], precision: &[1e-3] };
        let row = [30.0];
        let examples = vec![Example { features: &row, useful: true, hit_rate: 1.0, weight: 1.0 }; 500];
        let w = fit(&prior, &examples, prior.mean)[0];
        assert!(w.is_finite() && w > 0.0 && w < 100.0, "{w}");
    }
}
