//! A Bayesian logistic regression over a few features: the learner of the `default` recipe.

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
    pub features: &'a [f64],
    /// Whether it was useful.
    pub useful: bool,
    /// How much it counts, for example 1.
    pub weight: f64,
}

/// Probability that a candidate with these features is useful: `1 / (1 + exp(-w.x))`.
pub fn probability(weights: &[f64], features: &[f64]) -> f64 {
    sigmoid(logit(weights, features))
}

/// Log-odds `w.x` that a candidate with these features is useful.
pub fn logit(weights: &[f64], features: &[f64]) -> f64 {
    weights.iter().zip(features).map(|(w, x)| w * x).sum()
}

/// Weights `[F]` that maximise the posterior: prior times the likelihood of the labels.
///
/// Newton's method with step halving (undamped Newton diverges on separable labels), begun at `start`;
/// deterministic, and without examples exactly the prior's mean when begun there.
///
/// # Panics
/// If the lengths of prior, start and features differ.
pub fn fit(prior: &Prior, examples: &[Example], start: &[f64]) -> Vec<f64> {
    refit(prior, examples, start, 25)
}

/// As [`fit`], with at most `steps` Newton steps.
///
/// # Panics
/// As [`fit`].
pub fn refit(prior: &Prior, examples: &[Example], start: &[f64], steps: usize) -> Vec<f64> {
    const GOOD_ENOUGH: f64 = 1e-8;
    let mut weights = start.to_vec();
    for _ in 0..steps {
        let (step, loss) = newton_step(prior, examples, &weights);
        let Some((next, next_loss)) = halve_until_better(prior, examples, &weights, &step, loss) else { break };
        weights = next;
        if loss - next_loss < GOOD_ENOUGH * (1.0 + next_loss.abs()) {
            break;
        }
    }
    weights
}

/// `sum weight * ln(1 + exp(-y w.x)) + 1/2 sum precision (w - mean)^2`.
fn negative_log_posterior(prior: &Prior, examples: &[Example], weights: &[f64]) -> f64 {
    let misfit: f64 =
        examples.iter().map(|e| e.weight * chance_and_misfit(logit(weights, e.features), e.useful).1).sum();
    misfit + distance(prior, weights)
}

/// `1/2 sum precision (w - mean)^2`.
fn distance(prior: &Prior, weights: &[f64]) -> f64 {
    let terms = weights.iter().zip(prior.mean).zip(prior.precision);
    0.5 * terms.map(|((w, mean), precision)| precision * (w - mean).powi(2)).sum::<f64>()
}

/// Newton's step at `weights`, and [`negative_log_posterior`] there.
fn newton_step(prior: &Prior, examples: &[Example], weights: &[f64]) -> (Vec<f64>, f64) {
    /// Examples whose curvature is summed at once: few enough for the cache.
    const TOGETHER: usize = 256;
    let n = weights.len();
    let mut hessian = Array2::from_diag(&ArrayView1::from(prior.precision));
    let mut gradient: Vec<f64> = (0..n).map(|i| prior.precision[i] * (weights[i] - prior.mean[i])).collect();
    let mut loss = distance(prior, weights);
    let mut scaled = Array2::zeros((TOGETHER, n));
    for part in examples.chunks(TOGETHER) {
        for (example, mut row) in part.iter().zip(scaled.rows_mut()) {
            let (p, misfit) = chance_and_misfit(logit(weights, example.features), example.useful);
            loss += example.weight * misfit;
            let slope = example.weight * (p - f64::from(example.useful));
            let root = (example.weight * p * (1.0 - p)).sqrt();
            for (i, &x) in example.features[..n].iter().enumerate() {
                gradient[i] += slope * x;
                row[i] = root * x;
            }
        }
        let rows = scaled.slice(s![..part.len(), ..]);
        general_mat_mul(1.0, &rows.t(), &rows, 1.0, &mut hessian);
    }
    let (mut hessian, _) = hessian.into_raw_vec_and_offset();
    (solve_symmetric(&mut hessian, gradient), loss)
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

/// `p = 1 / (1 + exp(-z))` and the misfit of a label, `-ln p` if useful and `-ln(1 - p)` if not, without overflow.
fn chance_and_misfit(z: f64, useful: bool) -> (f64, f64) {
    let small = (-z.abs()).exp();
    let p = if z < 0.0 { small } else { 1.0 } / (1.0 + small);
    let against = if useful { -z } else { z };
    (p, against.max(0.0) + small.ln_1p())
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
        let w = fit(&prior, &[Example { features: &[1.0], useful: true, weight: 1.0 }], prior.mean)[0];
        assert!((w - 0.401_058_13).abs() < 1e-6, "{w}");
        assert!((w - (1.0 - sigmoid(w))).abs() < 1e-7);
    }

    #[test]
    fn gradient_vanishes_at_the_fit() {
        let rows: Vec<[f64; 3]> =
            (0..40).map(|i| [1.0, (i as f64 * 0.7).sin(), (i as f64 * 1.3).cos() * 3.0]).collect();
        let examples: Vec<Example> =
            rows.iter().enumerate().map(|(i, r)| Example { features: r, useful: i % 3 == 0, weight: 1.0 }).collect();
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
        let examples = vec![Example { features: &row, useful: true, weight: 1.0 }; 500];
        let w = fit(&prior, &examples, prior.mean)[0];
        assert!(w.is_finite() && w > 0.0 && w < 100.0, "{w}");
    }
}
