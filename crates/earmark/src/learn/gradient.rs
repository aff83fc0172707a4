//! The one place with calculus: the loss of a list of lessons and its slope in both weight matrices.
//!
//! For a term `-Σ c_i ln p_i` the slope in the logits is `(p Σc - c) / temperature`. From there the normalisation of
//! Eq. (3) is passed by hand, and what is left is a sum of outer products, kept as two thin factors so that the
//! `d x d` gradient never exists as a whole. Everything is generic, so that the tests can run it in `f64`.

use ndarray::{Array1, Array2, ArrayViewMut2, NdFloat, Zip, s};

use super::lesson::{Lesson, Term};
use crate::params::Similarity;
use crate::recall::{Adapted, Adapter, Pool, stack};

/// A `d x d` gradient as `leftᵀ right`, both `[n x d]`.
pub(super) struct Factors<F> {
    pub(super) left: Array2<F>,
    pub(super) right: Array2<F>,
}

/// Loss and gradient of a list of lessons.
pub(super) struct Gradient<F> {
    pub(super) loss: F,
    pub(super) query: Factors<F>,
    pub(super) memory: Factors<F>,
}

/// Loss (already weighted) and gradient of lessons that were adapted by the weights in question.
pub(super) fn gradient<F: NdFloat + From<f32>>(lessons: &[(&Lesson, &Adapted<F>)], dimension: usize) -> Gradient<F> {
    let pools: Vec<&Pool> = lessons.iter().map(|(lesson, _)| &*lesson.pool).collect();
    let (queries, memories) = stack(&pools, dimension);
    let (mut query_side, mut memory_side) = (Array2::zeros(queries.dim()), Array2::zeros(memories.dim()));
    let (mut loss, mut row) = (F::zero(), 0);
    for (at, (lesson, adapted)) in lessons.iter().enumerate() {
        let rows = row..row + lesson.pool.len();
        let (value, slope) = lesson_slope(lesson, &adapted.relevance);
        loss += value;
        query_side.row_mut(at).assign(&query_slope(adapted, &slope));
        memory_slopes(adapted, &slope, memory_side.slice_mut(s![rows.clone(), ..]));
        row = rows.end;
    }
    let memory = Factors { left: memory_side, right: memories };
    Gradient { loss, query: Factors { left: query_side, right: queries }, memory }
}

/// Weighted loss of a lesson and its slope `[K]` in the logits z.
fn lesson_slope<F: NdFloat + From<f32>>(lesson: &Lesson, relevance: &Array1<F>) -> (F, Array1<F>) {
    let mut slope = Array1::zeros(relevance.len());
    let loss = lesson.terms.iter().map(|term| term_slope(term, relevance, &mut slope));
    let loss = loss.fold(F::zero(), |sum, value| sum + value);
    let weight: F = lesson.weight.into();
    (loss * weight, slope * weight)
}

/// Loss of a term; adds its slope `(p Σc - c) / temperature` to `slope`.
fn term_slope<F: NdFloat + From<f32>>(term: &Term, relevance: &Array1<F>, slope: &mut Array1<F>) -> F {
    let open: Vec<usize> = (0..relevance.len()).filter(|i| term.closed.iter().all(|c| c.0 != *i)).collect();
    let temperature: F = term.temperature.into();
    let noise = |i: usize| term.noise.get(i).map_or(F::zero(), |g| (*g).into());
    let logits: Vec<F> = open.iter().map(|i| (relevance[*i] + noise(*i)) / temperature).collect();
    let highest = logits.iter().copied().fold(F::neg_infinity(), F::max);
    let total = logits.iter().fold(F::zero(), |sum, logit| sum + (*logit - highest).exp());
    let log_total = highest + total.ln();
    let worth = |i: usize| -> F { term.coefficients[i].into() };
    let all = open.iter().fold(F::zero(), |sum, i| sum + worth(*i));
    let mut loss = F::zero();
    for (i, logit) in open.iter().zip(&logits) {
        let log_p = *logit - log_total;
        loss -= worth(*i) * log_p;
        slope[*i] += (log_p.exp() * all - worth(*i)) / temperature;
    }
    loss
}

/// Slope in `(I + W_q) q`: `(Σ a_i m̃_i - (Σ a_i z_i) q̃) / |.|` under cosine, `Σ a_i m̃_i` under dot.
fn query_slope<F: NdFloat>(adapted: &Adapted<F>, slope: &Array1<F>) -> Array1<F> {
    let pull = adapted.memories.t().dot(slope);
    match &adapted.scales {
        Some((scale, _)) => (pull - &adapted.query * slope.dot(&adapted.relevance)) * *scale,
        None => pull,
    }
}

/// Slope `[K x d]` in each `(I + W_m) m_i`: `a_i (q̃ - z_i m̃_i) / |.|` under cosine, `a_i q̃` under dot.
fn memory_slopes<F: NdFloat>(adapted: &Adapted<F>, slope: &Array1<F>, mut out: ArrayViewMut2<F>) {
    for (i, mut row) in out.rows_mut().into_iter().enumerate() {
        let (scale, along) = match &adapted.scales {
            Some((_, scales)) => (slope[i] * scales[i], adapted.relevance[i]),
            None => (slope[i], F::zero()),
        };
        Zip::from(&mut row)
            .and(&adapted.query)
            .and(adapted.memories.row(i))
            .for_each(|out, q, m| *out = scale * (*q - along * *m));
    }
}

/// The weighted loss of `lessons` under an adapter: Eq. (17) for one query's lessons.
pub fn loss(adapter: &Adapter, lessons: &[Lesson], similarity: Similarity) -> f32 {
    adapt_and_differentiate(adapter, lessons, similarity).loss
}

/// The gradient of [`loss`] in `(W_q, W_m)`, each `[d x d]`: for inspection; training never forms it.
pub fn dense_gradient(adapter: &Adapter, lessons: &[Lesson], similarity: Similarity) -> (Array2<f32>, Array2<f32>) {
    let gradient = adapt_and_differentiate(adapter, lessons, similarity);
    let dense = |factors: Factors<f32>| factors.left.t().dot(&factors.right);
    (dense(gradient.query), dense(gradient.memory))
}

fn adapt_and_differentiate(adapter: &Adapter, lessons: &[Lesson], similarity: Similarity) -> Gradient<f32> {
    let pools: Vec<&Pool> = lessons.iter().map(|lesson| &*lesson.pool).collect();
    let adapted = adapter.adapt_all(&pools, similarity);
    gradient(&lessons.iter().zip(&adapted).collect::<Vec<_>>(), adapter.dimension())
}
