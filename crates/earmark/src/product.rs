//! The two matrix products of learning, as fast as one core allows.
//!
//! Both have one large side that is read where it is and one small side (the vectors of a few queries) that is laid out
//! in panels first. A tile of the result, six rows by one panel, stays in registers over the whole depth. A gradient is
//! handed over a few rows at a time while they are in the cache; as a whole it never exists. Each number is one sum in
//! the order of the depth, whatever its neighbours and however many threads.

use ndarray::Array2;
use pulp::{Arch, Simd, WithSimd, bytemuck};
use rayon::prelude::*;

use crate::threads::shared;

/// Rows of a tile: with two vectors each they fill the registers.
const TILE: usize = 6;
/// Vectors in a row of a panel.
const VECTORS: usize = 2;
/// Rows of the large side in one task.
const BLOCK: usize = 4 * TILE;
/// Floats in a cache line.
const LINE: usize = 16;

/// One tile of a product: `TILE` rows of one panel.
type Sums<S> = [[<S as Simd>::f32s; VECTORS]; TILE];

/// A matrix `[depth x columns]` cut into panels of a few columns, each stored row after row, padded with zeros.
struct Panels {
    values: Vec<f32>,
    /// Where the values start, so that no vector straddles two cache lines.
    start: usize,
    depth: usize,
    columns: usize,
    width: usize,
}

impl Panels {
    /// A row-major matrix as it is.
    fn of_rows(rows: &[f32], columns: usize, width: usize) -> Self {
        let mut panels = Panels::zeros(rows.len() / columns.max(1), columns, width);
        panels.fill(|panel, first, used| {
            for (line, row) in panel.chunks_exact_mut(width).zip(rows.chunks_exact(columns)) {
                line[..used].copy_from_slice(&row[first..][..used]);
            }
        });
        panels
    }

    /// The transpose of a row-major matrix with `depth` columns.
    fn of_transposed(rows: &[f32], depth: usize, width: usize) -> Self {
        let mut panels = Panels::zeros(depth, rows.len() / depth.max(1), width);
        panels.fill(|panel, first, used| {
            for (column, row) in rows.chunks_exact(depth).skip(first).take(used).enumerate() {
                panel[column..].iter_mut().step_by(width).zip(row).for_each(|(to, x)| *to = *x);
            }
        });
        panels
    }

    fn zeros(depth: usize, columns: usize, width: usize) -> Self {
        let values = vec![0.0; depth * columns.next_multiple_of(width) + LINE];
        let start = values.as_ptr().align_offset(LINE * size_of::<f32>()).min(LINE);
        Panels { values, start, depth, columns, width }
    }

    /// Calls `write` with each panel, its first column and how many it has.
    fn fill(&mut self, write: impl Fn(&mut [f32], usize, usize)) {
        let (width, columns, size) = (self.width, self.columns, self.depth * self.width);
        for (index, panel) in self.values[self.start..].chunks_exact_mut(size.max(1)).enumerate() {
            let first = index * width;
            if first < columns {
                write(panel, first, width.min(columns - first));
            }
        }
    }

    /// First column of each panel, in order.
    fn firsts(&self) -> impl Iterator<Item = usize> {
        (0..self.columns).step_by(self.width)
    }

    /// The panel from column `first` on.
    fn panel(&self, first: usize) -> &[f32] {
        &self.values[self.start + first * self.depth..][..self.depth * self.width]
    }

    /// How many columns the panel from `first` on really has.
    fn used(&self, first: usize) -> usize {
        self.width.min(self.columns - first)
    }
}

struct PanelWidth;

impl WithSimd for PanelWidth {
    type Output = usize;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> usize {
        VECTORS * S::F32_LANES
    }
}

/// `x + W x` for each row x of `rows [n x d]`, with W `[d x d]`.
pub(crate) fn residual(weights: &Array2<f32>, rows: Array2<f32>) -> Array2<f32> {
    let arch = Arch::new();
    let d = rows.ncols();
    let mut rows = if rows.is_standard_layout() { rows } else { rows.as_standard_layout().into_owned() };
    let weights = weights.as_standard_layout();
    let (Some(weights), Some(slice)) = (weights.as_slice(), rows.as_slice()) else { return rows };
    let panels = Panels::of_transposed(slice, d, arch.dispatch(PanelWidth));
    let block = |weights| arch.dispatch(Transformed { weights, panels: &panels });
    let blocks: Vec<Vec<f32>> = shared(|| weights.par_chunks((BLOCK * d).max(1)).map(block).collect());
    for (row, mut line) in rows.rows_mut().into_iter().enumerate() {
        let Some(line) = line.as_slice_mut() else { continue };
        for (line, block) in line.chunks_mut(BLOCK).zip(&blocks) {
            line.iter_mut().zip(&block[row * BLOCK..]).for_each(|(to, by)| *to += by);
        }
    }
    rows
}

/// At most `BLOCK` rows of W times every x: `[n x BLOCK]`.
struct Transformed<'a> {
    weights: &'a [f32],
    panels: &'a Panels,
}

impl WithSimd for Transformed<'_> {
    type Output = Vec<f32>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Vec<f32> {
        let Panels { depth, columns, .. } = *self.panels;
        let rows: Vec<&[f32]> = self.weights.chunks_exact(depth).collect();
        let mut out = vec![0.0; columns * BLOCK];
        for first in self.panels.firsts() {
            let panel = bytemuck::cast_slice(self.panels.panel(first));
            let lines = &mut out[first * BLOCK..][..self.panels.used(first) * BLOCK];
            for (at, tile) in rows.chunks(TILE).enumerate() {
                // Short of rows the last one is computed again and dropped by the reader.
                let sums = rows_by_panel::<S>(simd, std::array::from_fn(|row| tile[row.min(tile.len() - 1)]), panel);
                for (row, sums) in sums.iter().enumerate() {
                    let places = lines[at * TILE + row..].iter_mut().step_by(BLOCK);
                    places.zip(bytemuck::cast_slice(sums)).for_each(|(to, sum)| *to = *sum);
                }
            }
        }
        out
    }
}

/// Rows, read along the depth, times a panel.
#[inline(always)]
fn rows_by_panel<S: Simd>(simd: S, rows: [&[f32]; TILE], panel: &[S::f32s]) -> Sums<S> {
    let (panel, _) = panel.as_chunks::<VECTORS>();
    let rows = rows.map(|row| &row[..panel.len()]);
    let mut sums = [[simd.splat_f32s(0.0); VECTORS]; TILE];
    for depth in 0..panel.len() {
        for row in 0..TILE {
            let value = simd.splat_f32s(rows[row][depth]);
            for vector in 0..VECTORS {
                sums[row][vector] = simd.mul_add_e_f32s(value, panel[depth][vector], sums[row][vector]);
            }
        }
    }
    sums
}

/// Columns, `TILE` of them side by side at each depth, times a panel.
#[inline(always)]
fn columns_by_panel<S: Simd>(simd: S, columns: &[[f32; TILE]], panel: &[S::f32s]) -> Sums<S> {
    let (panel, _) = panel.as_chunks::<VECTORS>();
    let mut sums = [[simd.splat_f32s(0.0); VECTORS]; TILE];
    for (values, vectors) in columns.iter().zip(panel) {
        for row in 0..TILE {
            let value = simd.splat_f32s(values[row]);
            for vector in 0..VECTORS {
                sums[row][vector] = simd.mul_add_e_f32s(value, vectors[vector], sums[row][vector]);
            }
        }
    }
    sums
}

/// What to do with a few rows of a gradient while they are at hand.
pub(crate) trait Consume: Copy + Send + Sync {
    /// `weights` and each of `states` are the same rows, as long as `gradient`.
    fn consume<S: Simd>(self, simd: S, weights: &mut [f32], states: [&mut [f32]; 2], gradient: &[f32]);
}

/// Hands the gradient `leftᵀ right` (both `[n x d]`) rows by rows to `consumer`, with the same rows of the weights and
/// of `states`, all `[d x d]` row-major. A consumer without state gets empty slices.
pub(crate) fn consume_gradient(
    left: &Array2<f32>,
    right: &Array2<f32>,
    weights: &mut Array2<f32>,
    states: [&mut [f32]; 2],
    consumer: impl Consume,
) {
    let arch = Arch::new();
    let d = right.ncols();
    let (Some(left), Some(right), Some(weights)) = (left.as_slice(), right.as_slice(), weights.as_slice_mut()) else {
        return;
    };
    let left = Panels::of_rows(left, d, TILE);
    let right = Panels::of_rows(right, d, arch.dispatch(PanelWidth));
    let (block, [first, second]) = ((BLOCK * d).max(1), states);
    let work = |gradient: &mut Vec<f32>, (at, (weights, states)): (usize, (&mut [f32], [&mut [f32]; 2]))| {
        gradient.resize(weights.len(), 0.0);
        arch.dispatch(Block { at, weights, states, left: &left, right: &right, gradient, consumer });
    };
    shared(|| {
        if first.len() == weights.len() && second.len() == weights.len() {
            let states = first.par_chunks_mut(block).zip(second.par_chunks_mut(block)).map(|(a, b)| [a, b]);
            weights.par_chunks_mut(block).zip(states).enumerate().for_each_init(Vec::new, work);
        } else {
            let without = weights.par_chunks_mut(block).map(|weights| (weights, Default::default()));
            without.enumerate().for_each_init(Vec::new, work);
        }
    });
}

struct Block<'a, C> {
    at: usize,
    weights: &'a mut [f32],
    states: [&'a mut [f32]; 2],
    left: &'a Panels,
    right: &'a Panels,
    /// Room for the gradient of the block; every place is written.
    gradient: &'a mut [f32],
    consumer: C,
}

impl<C: Consume> WithSimd for Block<'_, C> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let d = self.right.columns;
        for column in self.right.firsts() {
            let panel = bytemuck::cast_slice(self.right.panel(column));
            let used = self.right.used(column);
            for (tile, rows) in self.gradient.chunks_mut(TILE * d).enumerate() {
                let values = self.left.panel(self.at * BLOCK + tile * TILE);
                let sums = columns_by_panel::<S>(simd, values.as_chunks().0, panel);
                for (row, sums) in rows.chunks_exact_mut(d).zip(&sums) {
                    store::<S>(&mut row[column..][..used], sums);
                }
            }
        }
        self.consumer.consume(simd, self.weights, self.states, self.gradient);
    }
}

/// Writes the first of `sums`; a whole panel in two stores.
#[inline(always)]
fn store<S: Simd>(to: &mut [f32], sums: &[S::f32s; VECTORS]) {
    match bytemuck::try_cast_slice_mut::<f32, S::f32s>(to) {
        Ok(vectors) if vectors.len() == VECTORS => vectors.copy_from_slice(sums),
        _ => to.copy_from_slice(&bytemuck::cast_slice(sums)[..to.len()]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Random, Seeded};

    fn draw(rows: usize, columns: usize, random: &mut Seeded) -> Array2<f32> {
        Array2::from_shape_fn((rows, columns), |_| random.uniform() as f32 - 0.5)
    }

    fn close(got: &Array2<f32>, want: &Array2<f32>) -> bool {
        got.dim() == want.dim() && got.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-5)
    }

    #[derive(Clone, Copy)]
    struct Add;

    impl Consume for Add {
        fn consume<S: Simd>(self, _: S, weights: &mut [f32], [first, second]: [&mut [f32]; 2], gradient: &[f32]) {
            weights.iter_mut().zip(gradient).for_each(|(w, g)| *w += g);
            first.iter_mut().zip(gradient).for_each(|(m, g)| *m -= g);
            second.iter_mut().for_each(|v| *v += 1.0);
        }
    }

    #[test]
    fn both_products_equal_the_plain_ones() {
        let mut random = Seeded::new(3);
        for (n, d) in [(0, 5), (1, 1), (3, 7), (20, 16), (33, 50), (100, 131)] {
            let (weights, left, right) = (draw(d, d, &mut random), draw(n, d, &mut random), draw(n, d, &mut random));
            assert!(close(&residual(&weights, right.clone()), &(&right + &right.dot(&weights.t()))), "{n} x {d}");
            let (mut sum, mut first, mut second) = (weights.clone(), vec![0.0; d * d], vec![0.0; d * d]);
            consume_gradient(&left, &right, &mut sum, [&mut first, &mut second], Add);
            let gradient = left.t().dot(&right);
            assert!(close(&sum, &(&weights + &gradient)), "{n} x {d}");
            assert!(first.iter().zip(&gradient).all(|(m, g)| (m + g).abs() < 1e-5), "{n} x {d}");
            assert!(second.iter().all(|v| *v == 1.0), "each place once: {n} x {d}");
            consume_gradient(&left, &right, &mut sum, Default::default(), Add);
            assert!(close(&sum, &(&weights + &gradient * 2.0)), "{n} x {d}");
        }
    }

    #[test]
    fn a_row_does_not_depend_on_its_neighbours() {
        let mut random = Seeded::new(4);
        let (weights, rows) = (draw(40, 40, &mut random), draw(37, 40, &mut random));
        let all = residual(&weights, rows.clone());
        for row in 0..37 {
            let alone = residual(&weights, rows.slice(ndarray::s![row..row + 1, ..]).to_owned());
            assert_eq!(alone.row(0), all.row(row));
        }
    }
}
