//! The residual adapter and the distribution it gives (Eq. 3-4).

use ndarray::{Array1, Array2, ArrayView1, ArrayViewMut1, NdFloat, s};

use super::pool::Pool;
use crate::params::{Initialisation, Params, Similarity};
use crate::product::residual;
use crate::random::{Random, normal};

/// `φ = {W_q, W_m}`: what is learned.
#[derive(Debug, Clone, PartialEq)]
pub struct Adapter {
    /// `W_q [d x d]`, row-major.
    pub query_weights: Array2<f32>,
    /// `W_m [d x d]`, row-major.
    pub memory_weights: Array2<f32>,
}

impl Adapter {
    /// The adapter that changes nothing.
    pub fn zeros(dimension: usize) -> Self {
        let zeros = || Array2::zeros((dimension, dimension));
        Adapter { query_weights: zeros(), memory_weights: zeros() }
    }

    /// The adapter that training starts from; `W_q` is drawn before `W_m`, each row by row.
    pub fn initial(params: &Params, dimension: usize, random: &mut dyn Random) -> Self {
        let mut adapter = Adapter::zeros(dimension);
        for weights in [&mut adapter.query_weights, &mut adapter.memory_weights] {
            initialise(weights, params.initialisation, random);
        }
        adapter
    }

    /// `d`.
    pub fn dimension(&self) -> usize {
        self.query_weights.nrows()
    }

    /// Carries a query and its candidates into the learned space, Eq. (3), and scores them, Eq. (4).
    ///
    /// # Panics
    /// If the pool has another dimension.
    pub fn adapt(&self, pool: &Pool, similarity: Similarity) -> Adapted {
        let mut all = self.adapt_all(&[pool], similarity);
        all.swap_remove(0)
    }

    /// [`adapt`](Adapter::adapt) for several pools, in their order, with one product over all their rows.
    ///
    /// # Panics
    /// If a pool has another dimension.
    pub fn adapt_all(&self, pools: &[&Pool], similarity: Similarity) -> Vec<Adapted> {
        adapt_all(&self.query_weights, &self.memory_weights, pools, similarity, residual)
    }
}

fn initialise(weights: &mut Array2<f32>, initialisation: Initialisation, random: &mut dyn Random) {
    let bound = 1.0 / (weights.ncols().max(1) as f32).sqrt();
    match initialisation {
        Initialisation::Zeros => {}
        Initialisation::Normal { std } => weights.iter_mut().for_each(|w| *w = std * normal(random)),
        Initialisation::Kaiming => {
            weights.iter_mut().for_each(|w| *w = (2.0 * random.uniform() as f32 - 1.0) * bound);
        }
    }
}

/// A query and its candidates in the learned space.
#[derive(Debug, Clone, PartialEq)]
pub struct Adapted<F = f32> {
    /// `q̃ [d]`; unit length under [`Similarity::Cosine`].
    pub query: Array1<F>,
    /// `m̃ [K x d]`, row-major; unit rows under [`Similarity::Cosine`].
    pub memories: Array2<F>,
    /// `z [K]`, the logits of Eq. (4).
    pub relevance: Array1<F>,
    /// What the query and each memory `[K]` were multiplied by to get unit length; `None` under [`Similarity::Dot`].
    pub scales: Option<(F, Vec<F>)>,
}

impl<F: NdFloat> Adapted<F> {
    /// `m̃_i · m̃_l` of each pair `[K x K]`: what Eq. (6) looks up.
    pub fn similarities(&self) -> Array2<F> {
        self.memories.dot(&self.memories.t())
    }

    fn new(mut query: Array1<F>, mut memories: Array2<F>, similarity: Similarity) -> Self {
        let scales = (similarity == Similarity::Cosine).then(|| {
            let scale = unit(query.view_mut());
            (scale, memories.rows_mut().into_iter().map(unit).collect())
        });
        let relevance = memories.dot(&query);
        Adapted { query, memories, relevance, scales }
    }
}

/// [`Adapter::adapt_all`] for weights of any float; `residual` gives `x + W x` for each row x.
pub(crate) fn adapt_all<F: NdFloat + From<f32>>(
    query_weights: &Array2<F>,
    memory_weights: &Array2<F>,
    pools: &[&Pool],
    similarity: Similarity,
    residual: impl Fn(&Array2<F>, Array2<F>) -> Array2<F>,
) -> Vec<Adapted<F>> {
    let (queries, memories) = stack(pools, query_weights.nrows());
    let queries = residual(query_weights, queries);
    let memories = residual(memory_weights, memories);
    let mut row = 0;
    let take = |(at, pool): (usize, &&Pool)| {
        let block = memories.slice(s![row..row + pool.len(), ..]).to_owned();
        row += pool.len();
        Adapted::new(queries.row(at).to_owned(), block, similarity)
    };
    pools.iter().enumerate().map(take).collect()
}

/// Raw queries `[L x d]` and raw memories `[n x d]` of all pools, in order.
///
/// # Panics
/// If a pool has another dimension.
pub(crate) fn stack<F: NdFloat + From<f32>>(pools: &[&Pool], dimension: usize) -> (Array2<F>, Array2<F>) {
    assert!(pools.iter().all(|pool| pool.dimension() == dimension), "adapter and vectors of different dimension");
    let rows = pools.iter().map(|pool| pool.len()).sum();
    let mut queries = Array2::zeros((pools.len(), dimension));
    let mut memories = Array2::zeros((rows, dimension));
    let mut row = 0;
    for (at, pool) in pools.iter().enumerate() {
        queries.row_mut(at).zip_mut_with(&ArrayView1::from(pool.query()), |to, from| *to = (*from).into());
        let mut block = memories.slice_mut(s![row..row + pool.len(), ..]);
        block.zip_mut_with(pool.memories(), |to, from| *to = (*from).into());
        row += pool.len();
    }
    (queries, memories)
}

/// Scales a row to unit length and returns the factor: the denominators of Eq. (3).
///
/// A zero (or non-finite) row becomes zeros, its factor 0.
fn unit<F: NdFloat>(mut row: ArrayViewMut1<F>) -> F {
    let length = row.dot(&row).sqrt();
    let scale = if length.is_finite() && length > F::zero() { F::one() / length } else { F::zero() };
    row.mapv_inplace(|x| if scale == F::zero() { F::zero() } else { x * scale });
    scale
}

/// `p [K]`: softmax of the logits at a temperature, Eq. (4). No candidate gives no probability.
pub fn probabilities(relevance: &[f32], temperature: f32) -> Vec<f32> {
    let highest = relevance.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let powers: Vec<f32> = relevance.iter().map(|z| ((z - highest) / temperature).exp()).collect();
    let total: f32 = powers.iter().sum();
    powers.iter().map(|power| power / total).collect()
}

#[cfg(test)]
mod tests {
    use ndarray::array;

    use super::*;
    use crate::random::Seeded;

    fn small() -> (Adapter, Pool) {
        let adapter =
            Adapter { query_weights: array![[0.0, 1.0], [0.0, 0.0]], memory_weights: array![[0.0, 0.0], [2.0, 0.0]] };
        (adapter, Pool::new(vec![2.0, 1.0], array![[1.0, 2.0], [0.0, 0.0]]).unwrap())
    }

    #[test]
    fn eq03_residual_then_unit_length() {
        let (adapter, pool) = small();
        // (I + W_q) q = (2 + 1, 1) = (3, 1); (I + W_m) m = (1, 2 + 2) = (1, 4).
        let dot = adapter.adapt(&pool, Similarity::Dot);
        assert_eq!(dot.query, array![3.0, 1.0]);
        assert_eq!(dot.memories, array![[1.0, 4.0], [0.0, 0.0]]);
        assert_eq!(dot.relevance, array![7.0, 0.0]);
        let cosine = adapter.adapt(&pool, Similarity::Cosine);
        assert!((cosine.relevance[0] - 7.0 / 170.0f32.sqrt()).abs() < 1e-6);
        assert_eq!(cosine.relevance[1], 0.0);
    }

    #[test]
    fn eq04_softmax_by_hand() {
        // e^0 : e^ln 3 = 1 : 3; at temperature 0.5 it is 1 : 9.
        let z = [0.0, 3.0f32.ln()];
        let close = |p: Vec<f32>, want: [f32; 2]| p.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-6);
        assert!(close(probabilities(&z, 1.0), [0.25, 0.75]));
        assert!(close(probabilities(&z, 0.5), [0.1, 0.9]));
        assert!(probabilities(&[], 1.0).is_empty());
    }

    #[test]
    fn initial_weights_follow_the_choice() {
        let start = |initialisation| {
            Adapter::initial(&Params { initialisation, ..Params::paper() }, 64, &mut Seeded::new(1)).memory_weights
        };
        assert!(start(Initialisation::Zeros).iter().all(|w| *w == 0.0));
        let kaiming = start(Initialisation::Kaiming);
        assert!(kaiming.iter().all(|w| w.abs() < 0.125) && kaiming.iter().any(|w| w.abs() > 0.12));
        let normal = start(Initialisation::Normal { std: 0.01 });
        let std = normal.std(0.0);
        assert!((std - 0.01).abs() < 0.0005, "{std}");
    }
}
