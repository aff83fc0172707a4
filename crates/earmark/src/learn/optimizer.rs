//! From a factored gradient to a step (Eq. 18), one pass over the weights.

use ndarray::Array2;
use pulp::Simd;

use super::gradient::Factors;
use crate::params::{Optimizer, Params};
use crate::product::{Consume, consume_gradient};

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
        let Factors { left, right } = gradient;
        let moments = moments.and_then(|m| Some([m.first.as_slice_mut()?, m.second.as_slice_mut()?]));
        match (self.optimizer, moments) {
            (Optimizer::Adam, Some(moments)) => consume_gradient(left, right, weights, moments, Adam(self)),
            _ => consume_gradient(left, right, weights, Default::default(), Descent(self)),
        }
    }
}

#[derive(Clone, Copy)]
struct Descent(Rule);

impl Consume for Descent {
    #[inline(always)]
    fn consume<S: Simd>(self, _: S, weights: &mut [f32], _: [&mut [f32]; 2], gradient: &[f32]) {
        weights.iter_mut().zip(gradient).for_each(|(w, g)| *w -= self.0.rate * g);
    }
}

#[derive(Clone, Copy)]
struct Adam(Rule);

impl Consume for Adam {
    #[inline(always)]
    fn consume<S: Simd>(self, _: S, weights: &mut [f32], [first, second]: [&mut [f32]; 2], gradient: &[f32]) {
        let rule = self.0;
        for (((w, m), v), g) in weights.iter_mut().zip(first).zip(second).zip(gradient) {
            *m = rule.beta1 * *m + (1.0 - rule.beta1) * g;
            *v = rule.beta2 * *v + (1.0 - rule.beta2) * (g * g);
            *w -= rule.rate * *m / (v.sqrt() * rule.root_correction + rule.epsilon);
        }
    }
}
