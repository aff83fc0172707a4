//! The two matrix products of learning, as fast as one core allows.
//!
//! Both have one large side that is read where it is and one small side (the vectors of a few queries) that is laid out
//! in panels first. A tile of the result, six rows by one panel, stays in registers over the whole depth; whoever asks
//! for it can use it there, so that a gradient never has to be written to memory. Each number is one sum in the order
//! of the depth, whatever its neighbours and however many threads.

use ndarray::{Array2, ArrayView2};
use pulp::{Arch, Simd, WithSimd, bytemuck};
use rayon::prelude::*;

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

    /// Panels with their first columns, in order.
    fn iter(&self) -> impl Iterator<Item = (usize, &[f32])> {
        let size = self.depth * self.width;
        let panel = move |index: usize| &self.values[self.start + index * size..][..size];
        (0..self.columns.div_ceil(self.width)).map(move |index| (index * self.width, panel(index)))
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
pub(crate) fn residual(weights: &Array2<f32>, rows: ArrayView2<f32>) -> Array2<f32> {
    let arch = Arch::new();
    let (n, d) = rows.dim();
    let mut out = rows.as_standard_layout().into_owned();
    let weights = weights.as_standard_layout();
    let (Some(weights), Some(rows)) = (weights.as_slice(), out.as_slice()) else { return out };
    let panels = Panels::of_transposed(rows, d, arch.dispatch(PanelWidth));
    let block = |weights| arch.dispatch(Transformed { weights, panels: &panels });
    let blocks: Vec<Vec<f32>> = weights.par_chunks((BLOCK * d).max(1)).map(block).collect();
    for (row, mut line) in out.rows_mut().into_iter().enumerate() {
        let moved = blocks.iter().flat_map(|block| block[row..].iter().step_by(n));
        line.iter_mut().zip(moved).for_each(|(to, by)| *to += by);
    }
    out
}

/// A few rows of W times every x: `[rows x n]`.
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
        let mut out = vec![0.0; rows.len() * columns];
        for (first, panel) in self.panels.iter() {
            for (at, tile) in rows.chunks(TILE).enumerate() {
                let lines = std::array::from_fn(|row| tile[row.min(tile.len() - 1)]);
                let sums = rows_by_panel::<S>(simd, lines, bytemuck::cast_slice(panel));
                for (row, sums) in sums.iter().enumerate().take(tile.len()) {
                    let used = self.panels.used(first);
                    let line = &mut out[(at * TILE + row) * columns + first..][..used];
                    line.copy_from_slice(&bytemuck::cast_slice(sums)[..used]);
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

/// What to do with a piece of a row of a gradient while it is at hand.
pub(crate) trait Consume: Copy + Send + Sync {
    /// `weights` and each of `states` are the places in question, as long as `gradient`.
    fn consume<S: Simd>(self, simd: S, weights: &mut [f32], states: [&mut [f32]; 2], gradient: &[f32]);
}

/// Hands the gradient `leftᵀ right` (both `[n x d]`) piece by piece to `consumer`, with the matching pieces of the
/// weights and of `states`, all `[d x d]` row-major. A consumer without state gets empty pieces.
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
    let work = |(at, (weights, states)): (usize, (&mut [f32], [&mut [f32]; 2]))| {
        arch.dispatch(Block { at, weights, states, left: &left, right: &right, consumer });
    };
    if first.len() == weights.len() && second.len() == weights.len() {
        let states = first.par_chunks_mut(block).zip(second.par_chunks_mut(block)).map(|(a, b)| [a, b]);
        weights.par_chunks_mut(block).zip(states).enumerate().for_each(work);
    } else {
        weights.par_chunks_mut(block).map(|weights| (weights, Default::default())).enumerate().for_each(work);
    }
}

struct Block<'a, C> {
    at: usize,
    weights: &'a mut [f32],
    states: [&'a mut [f32]; 2],
    left: &'a Panels,
    right: &'a Panels,
    consumer: C,
}

impl<C: Consume> WithSimd for Block<'_, C> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let d = self.right.columns;
        let [first_state, second_state] = self.states;
        let rows = self.weights.len() / d.max(1);
        for (column, panel) in self.right.iter() {
            let used = self.right.used(column);
            for (tile, (row, values)) in self.left.iter().skip(self.at * BLOCK / TILE).take(rows.div_ceil(TILE)).enumerate() {
                let sums = columns_by_panel::<S>(simd, values.as_chunks().0, bytemuck::cast_slice(panel));
                for (index, sums) in sums.iter().enumerate().take(self.left.used(row)) {
                    let start = (tile * TILE + index) * d + column;
                    let place = start..start + used;
                    let states = [&mut *first_state, &mut *second_state].map(|s| s.get_mut(place.clone()).unwrap_or_default());
                    let gradient = &bytemuck::cast_slice(sums)[..used];
                    self.consumer.consume(simd, &mut self.weights[place.clone()], states, gradient);
                }
            }
        }
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
            assert!(close(&residual(&weights, right.view()), &(&right + &right.dot(&weights.t()))), "{n} x {d}");
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
        let all = residual(&weights, rows.view());
        for row in 0..37 {
            let alone = residual(&weights, rows.slice(ndarray::s![row..row + 1, ..]));
            assert_eq!(alone.row(0), all.row(row));
        }
    }
}
