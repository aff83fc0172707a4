//! From a factored gradient to a step (Eq. 18), one pass over the weights.

use ndarray::linalg::general_mat_mul;
use ndarray::parallel::prelude::*;
use ndarray::{Array2, ArrayView2, ArrayViewMut2, Axis};

use super::gradient::Factors;
use crate::params::{Optimizer, Params};

/// Adam's running means for one weight matrix, each `[d x d]`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Moments {
    pub(super) first: Array2<f32>,
    pub(super) second: Array2<f32>,
}

impl Moments {
    pub(super) fn zeros(dimension: usize) -> Self {
        let zeros = || Array2::zeros((dimension, dimension));
        Moments { first: zeros(), second: zeros() }
    }
}

/// The constants of one step.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rule {
    optimizer: Optimizer,
    rate: f32,
    beta1: f32,
    beta2: f32,
    epsilon: f32,
    /// `1 / sqrt(1 - beta2^n)`.
    root_correction: f32,
}

impl Rule {
    /// The rule of step `step`, counted from 1.
    pub(super) fn new(params: &Params, step: u64) -> Self {
        let correction = |beta: f32| 1.0 - f64::from(beta).powf(step as f64);
        let rate = match params.optimizer {
            Optimizer::Adam => f64::from(params.learning_rate) / correction(params.adam_beta1),
            Optimizer::Sgd => f64::from(params.learning_rate),
        };
        Rule {
            optimizer: params.optimizer,
            rate: rate as f32,
            beta1: params.adam_beta1,
            beta2: params.adam_beta2,
            epsilon: params.adam_epsilon,
            root_correction: (1.0 / correction(params.adam_beta2).sqrt()) as f32,
        }
    }

    /// Moves the weights one step. `moments` may be `None` for plain descent only.
    pub(super) fn apply(self, weights: &mut Array2<f32>, moments: Option<&mut Moments>, gradient: &Factors<f32>) {
        match (self.optimizer, moments) {
            (Optimizer::Adam, Some(moments)) => self.adam(weights, moments, gradient),
            _ => self.descend(weights, gradient),
        }
    }

    fn descend(self, weights: &mut Array2<f32>, gradient: &Factors<f32>) {
        weights
            .axis_chunks_iter_mut(Axis(0), ROWS)
            .into_par_iter()
            .zip(gradient.left.axis_chunks_iter(Axis(1), ROWS))
            .for_each(|(mut weights, left)| {
                general_mat_mul(-self.rate, &left.t(), &gradient.right, 1.0, &mut weights);
            });
    }

    /// Tile by tile: the gradient of a few rows, then Adam on them while they are in the cache.
    fn adam(self, weights: &mut Array2<f32>, moments: &mut Moments, gradient: &Factors<f32>) {
        weights
            .axis_chunks_iter_mut(Axis(0), ROWS)
            .into_par_iter()
            .zip(moments.first.axis_chunks_iter_mut(Axis(0), ROWS))
            .zip(moments.second.axis_chunks_iter_mut(Axis(0), ROWS))
            .zip(gradient.left.axis_chunks_iter(Axis(1), ROWS))
            .for_each(|(((weights, first), second), left)| {
                self.adam_tile(tile(left, &gradient.right), weights, first, second);
            });
    }

    fn adam_tile(
        self,
        gradient: Array2<f32>,
        mut weights: ArrayViewMut2<f32>,
        mut first: ArrayViewMut2<f32>,
        mut second: ArrayViewMut2<f32>,
    ) {
        let (Some(w), Some(m), Some(v), Some(g)) =
            (weights.as_slice_mut(), first.as_slice_mut(), second.as_slice_mut(), gradient.as_slice())
        else {
            return;
        };
        for (((w, m), v), g) in w.iter_mut().zip(m).zip(v).zip(g) {
            *m = self.beta1 * *m + (1.0 - self.beta1) * g;
            *v = self.beta2 * *v + (1.0 - self.beta2) * (g * g);
            *w -= self.rate * *m / (v.sqrt() * self.root_correction + self.epsilon);
        }
    }
}

/// Rows of the weights in one tile; also what keeps the bits independent of the thread count.
const ROWS: usize = 64;

/// Rows of the gradient: `leftᵀ right`, with `left [n x rows]` a slice of columns.
fn tile(left: ArrayView2<f32>, right: &Array2<f32>) -> Array2<f32> {
    let mut out = Array2::zeros((left.ncols(), right.ncols()));
    general_mat_mul(1.0, &left.t(), right, 0.0, &mut out);
    out
}
