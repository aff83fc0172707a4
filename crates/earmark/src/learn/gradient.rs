//! The one place with calculus: the loss of a list of lessons and its slope in both weight matrices.
//!
//! For a term `-Σ c_i ln p_i` the slope in the logits is `(p Σc - c) / temperature`. From there the normalisation of
//! Eq. (3) is passed by hand, and what is left is a sum of outer products, kept as two thin factors so that the
//! `d x d` gradient never exists as a whole. Everything is generic, so that the tests can run it in `f64`.

use ndarray::{Array1, Array2, ArrayView1, ArrayViewMut2, Axis, NdFloat, s};

use super::lesson::{Lesson, Term};
use crate::params::Similarity;
use crate::recall::{Adapter, adapted_rows, cosine_rows};

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

/// Loss (already weighted) and gradient of `lessons` at the weights `W_q`, `W_m` `[d x d]`.
pub(super) fn gradient<F: NdFloat + From<f32>>(
    query_weights: &Array2<F>,
    memory_weights: &Array2<F>,
    lessons: &[Lesson],
    similarity: Similarity,
) -> Gradient<F> {
    let (queries, memories) = stack(lessons, query_weights.ncols());
    let mut query_side = adapted_rows(query_weights.view(), queries.view());
    let mut memory_side = adapted_rows(memory_weights.view(), memories.view());
    let inverse = match similarity {
        Similarity::Cosine => Some((cosine_rows(&mut query_side), cosine_rows(&mut memory_side))),
        Similarity::Dot => None,
    };
    let (mut loss, mut row) = (F::zero(), 0);
    for (at, lesson) in lessons.iter().enumerate() {
        let rows = row..row + lesson.pool.len();
        let lengths = inverse.as_ref().map(|(q, m)| (q[at], &m[rows.clone()]));
        let mut block = memory_side.slice_mut(s![rows.clone(), ..]);
        let query = query_side.row(at).to_owned();
        let relevance = block.dot(&query);
        let (value, slope) = lesson_slope(lesson, &relevance);
        loss += value;
        query_side.row_mut(at).assign(&query_slope(&query, &block, &relevance, &slope, lengths.map(|l| l.0)));
        memory_slopes(&query, &mut block, &relevance, &slope, lengths.map(|l| l.1));
        row = rows.end;
    }
    let memory = Factors { left: memory_side, right: memories };
    Gradient { loss, query: Factors { left: query_side, right: queries }, memory }
}

/// Raw queries `[L x d]` and raw memories `[n x d]` of all lessons, in order.
fn stack<F: NdFloat + From<f32>>(lessons: &[Lesson], dimension: usize) -> (Array2<F>, Array2<F>) {
    let rows = lessons.iter().map(|lesson| lesson.pool.len()).sum();
    let mut queries = Array2::zeros((lessons.len(), dimension));
    let mut memories = Array2::zeros((rows, dimension));
    let mut row = 0;
    for (at, lesson) in lessons.iter().enumerate() {
        queries.row_mut(at).assign(&ArrayView1::from(lesson.pool.query()).mapv(|x| x.into()));
        let end = row + lesson.pool.len();
        memories.slice_mut(s![row..end, ..]).zip_mut_with(lesson.pool.memories(), |to, from| *to = (*from).into());
        row = end;
    }
    (queries, memories)
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
fn query_slope<F: NdFloat>(
    query: &Array1<F>,
    memories: &ArrayViewMut2<F>,
    relevance: &Array1<F>,
    slope: &Array1<F>,
    inverse: Option<F>,
) -> Array1<F> {
    let pull = memories.t().dot(slope);
    match inverse {
        Some(inverse) => (pull - query * slope.dot(relevance)) * inverse,
        None => pull,
    }
}

/// Slope in each `(I + W_m) m_i`, in place of `m̃_i`: `a_i (q̃ - z_i m̃_i) / |.|` under cosine, `a_i q̃` under dot.
fn memory_slopes<F: NdFloat>(
    query: &Array1<F>,
    memories: &mut ArrayViewMut2<F>,
    relevance: &Array1<F>,
    slope: &Array1<F>,
    inverse: Option<&[F]>,
) {
    for (i, mut row) in memories.axis_iter_mut(Axis(0)).enumerate() {
        let (scale, along) = match inverse {
            Some(inverse) => (slope[i] * inverse[i], relevance[i]),
            None => (slope[i], F::zero()),
        };
        row.zip_mut_with(query, |m, q| *m = scale * (*q - along * *m));
    }
}

/// The weighted loss of `lessons` under an adapter: Eq. (17) for one query's lessons.
pub fn loss(adapter: &Adapter, lessons: &[Lesson], similarity: Similarity) -> f32 {
    gradient(&adapter.query_weights, &adapter.memory_weights, lessons, similarity).loss
}

/// The gradient of [`loss`] in `(W_q, W_m)`, each `[d x d]`: for inspection; training never forms it.
pub fn dense_gradient(adapter: &Adapter, lessons: &[Lesson], similarity: Similarity) -> (Array2<f32>, Array2<f32>) {
    let gradient = gradient(&adapter.query_weights, &adapter.memory_weights, lessons, similarity);
    let dense = |factors: Factors<f32>| factors.left.t().dot(&factors.right);
    (dense(gradient.query), dense(gradient.memory))
}
