//! Dense products of rows with a [`Matrix`].
//!
//! The left-hand rows are read where they are, or rounded first where a place of the matrix holds a pair of bfloat16
//! instead of a float. Each output is one sum in the order of the depth, whatever the number of rows, so a row's
//! result does not depend on its neighbours.

use std::ops::Range;
use std::sync::atomic::{Ordering, compiler_fence};

use pulp::{Arch, NullaryFnOnce, Simd, WithSimd, bytemuck};

use super::bf16::Pairs;
use super::matrix::{Form, Matrix, PANEL_VECTORS, Rows};
use crate::vector::prefetch;

/// Values of a panel that stay in the first cache level while rows pass by.
const PANEL_BLOCK: usize = 6 * 1024;
/// Depth that is worked off before the next: a deeper input would leave too few rows in the second cache level.
const SLAB_DEPTH: usize = 384;
/// Values of the input that stay in the second cache level while all panels pass by.
const INPUT_BLOCK: usize = 64 * 1024;
/// Rows up to which the next panel is fetched from memory while one is worked off, because they are done with it
/// sooner than it comes. More rows wait for it too seldom to give up room in the cache.
const FEW_ROWS: usize = 96;

/// What a product is added to. A bias has as many values as the matrix has padded columns.
#[derive(Clone, Copy)]
pub(super) enum Start<'a> {
    /// Zero.
    Zero,
    /// The bias.
    Bias(&'a [f32]),
    /// The bias and what the output holds.
    Add(&'a [f32]),
}

/// `output = start + input * matrix`; the rows of `output` are `output_stride` apart.
///
/// # Panics
/// When a slice is too short for the shapes.
pub(super) fn multiply(
    arch: Arch,
    input: Rows<'_>,
    matrix: &Matrix,
    start: Start<'_>,
    output: &mut [f32],
    output_stride: usize,
) {
    arch.dispatch(Product { input, matrix, start, output, output_stride });
}

struct Product<'a> {
    input: Rows<'a>,
    matrix: &'a Matrix,
    start: Start<'a>,
    output: &'a mut [f32],
    output_stride: usize,
}

impl WithSimd for Product<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        // Two accumulators a row, two panel vectors and one input value have to fit the registers.
        let tile_rows = if S::REGISTER_COUNT >= 32 { 12 } else { 6 };
        for slab in blocks(self.matrix.depth, SLAB_DEPTH) {
            let rows = (INPUT_BLOCK / slab.len().max(1)).max(tile_rows) / tile_rows * tile_rows;
            for block in blocks(self.input.count, rows) {
                for panel in 0..self.matrix.padded_columns() / self.matrix.width {
                    self.panel(simd, panel, block.clone(), slab.clone(), tile_rows);
                }
            }
        }
    }
}

/// Cuts `0..len` into ranges of at most `most`, as equal as they can be.
#[inline(always)]
fn blocks(len: usize, most: usize) -> impl Iterator<Item = Range<usize>> {
    parts(len, len.div_ceil(most))
}

/// Cuts `0..len` into `count` ranges, as equal as they can be.
#[inline(always)]
fn parts(len: usize, count: usize) -> impl Iterator<Item = Range<usize>> {
    (0..count).map(move |index| index * len / count..(index + 1) * len / count)
}

/// Where a tile of the output stands.
struct Tile {
    row: usize,
    panel: usize,
    depth: Range<usize>,
    /// The part of the depth of which it has the next panel fetched.
    ahead: Range<usize>,
}

impl Product<'_> {
    /// Adds a slab of the depth of one panel to a block of rows.
    #[inline(always)]
    fn panel<S: Simd>(&mut self, simd: S, panel: usize, block: Range<usize>, slab: Range<usize>, tile_rows: usize) {
        for slice in blocks(slab.len(), PANEL_BLOCK / self.matrix.width) {
            let depth = slab.start + slice.start..slab.start + slice.end;
            let tiles = block.len().div_ceil(tile_rows);
            let fetched = if self.input.count <= FEW_ROWS { depth.len() } else { 0 };
            for (rows, ahead) in parts(block.len(), tiles).zip(parts(fetched, tiles)) {
                let ahead = depth.start + ahead.start..depth.start + ahead.end;
                let tile = Tile { row: block.start + rows.start, panel, depth: depth.clone(), ahead };
                self.tile_of(simd, rows.len(), tile);
            }
        }
    }

    #[inline(always)]
    fn tile_of<S: Simd>(&mut self, simd: S, rows: usize, tile: Tile) {
        match rows {
            1 => self.tile::<S, 1>(simd, tile),
            2 => self.tile::<S, 2>(simd, tile),
            3 => self.tile::<S, 3>(simd, tile),
            4 => self.tile::<S, 4>(simd, tile),
            5 => self.tile::<S, 5>(simd, tile),
            6 => self.tile::<S, 6>(simd, tile),
            _ if S::REGISTER_COUNT >= 32 => self.tall_tile_of(simd, rows, tile),
            _ => {}
        }
    }

    #[inline(always)]
    fn tall_tile_of<S: Simd>(&mut self, simd: S, rows: usize, tile: Tile) {
        match rows {
            7 => self.tile::<S, 7>(simd, tile),
            8 => self.tile::<S, 8>(simd, tile),
            9 => self.tile::<S, 9>(simd, tile),
            10 => self.tile::<S, 10>(simd, tile),
            11 => self.tile::<S, 11>(simd, tile),
            12 => self.tile::<S, 12>(simd, tile),
            _ => {}
        }
    }

    /// One tile of `R` rows and one panel: loads what it starts from, adds a slice of the depth, stores.
    ///
    /// Plain loops instead of closures: a closure may be compiled apart, without the vector instructions.
    #[inline(always)]
    fn tile<S: Simd, const R: usize>(&mut self, simd: S, tile: Tile) {
        let Tile { row, panel, depth, ahead } = tile;
        let Matrix { values, depth: whole, width, .. } = self.matrix;
        let place = |panel: usize, depth: &Range<usize>| {
            (panel * whole + depth.start) * width..(panel * whole + depth.end) * width
        };
        let slice = bytemuck::cast_slice(&values[place(panel, &depth)]);
        let next: &[S::f32s] = bytemuck::cast_slice(values.get(place(panel + 1, &ahead)).unwrap_or_default());
        let mut input: [&[f32]; R] = [&[]; R];
        for (index, slot) in input.iter_mut().enumerate() {
            *slot = &self.input.row(row + index, *whole)[depth.clone()];
        }
        let mut sums = self.load::<S, R>(simd, row, panel, depth.start == 0);
        match self.matrix.form {
            Form::Floats => Sum { simd, place: Floats, input: &input, panel: slice, next, sums: &mut sums }.call(),
            Form::Pairs(place) => place.run(Sum { simd, place, input: &input, panel: slice, next, sums: &mut sums }),
        }
        self.store::<S, R>(simd, row, panel, &sums);
    }

    #[inline(always)]
    fn load<S: Simd, const R: usize>(&self, simd: S, row: usize, panel: usize, first: bool) -> Sums<S, R> {
        let column = panel * self.matrix.width;
        let bias = match self.start {
            Start::Bias(bias) | Start::Add(bias) if first => load_pair(simd, &bias[column..], self.matrix.width),
            _ => [simd.splat_f32s(0.0); PANEL_VECTORS],
        };
        let mut sums = [bias; R];
        if first && !matches!(self.start, Start::Add(_)) {
            return sums;
        }
        for (index, sum) in sums.iter_mut().enumerate() {
            let at = (row + index) * self.output_stride + column;
            let old = load_pair(simd, &self.output[at..], self.used(column));
            *sum = [simd.add_f32s(old[0], bias[0]), simd.add_f32s(old[1], bias[1])];
        }
        sums
    }

    /// Columns of the matrix that the panel at this column really has.
    #[inline(always)]
    fn used(&self, column: usize) -> usize {
        (self.matrix.columns - column).min(self.matrix.width)
    }

    #[inline(always)]
    fn store<S: Simd, const R: usize>(&mut self, simd: S, row: usize, panel: usize, sums: &Sums<S, R>) {
        let column = panel * self.matrix.width;
        let used = self.used(column);
        for (index, sum) in sums.iter().enumerate() {
            let at = (row + index) * self.output_stride + column;
            store_pair(simd, &mut self.output[at..], used, *sum);
        }
    }
}

/// The running sums of a tile.
type Sums<S, const R: usize> = [[<S as Simd>::f32s; PANEL_VECTORS]; R];

/// The first `used` values, at most two vectors, then zeros.
#[inline(always)]
fn load_pair<S: Simd>(simd: S, values: &[f32], used: usize) -> [S::f32s; PANEL_VECTORS] {
    if used == PANEL_VECTORS * S::F32_LANES {
        let vectors: &[S::f32s] = bytemuck::cast_slice(&values[..PANEL_VECTORS * S::F32_LANES]);
        return [vectors[0], vectors[1]];
    }
    let (low, high) = values[..used].split_at(used.min(S::F32_LANES));
    [simd.partial_load_f32s(low), simd.partial_load_f32s(high)]
}

#[inline(always)]
fn store_pair<S: Simd>(simd: S, values: &mut [f32], used: usize, pair: [S::f32s; PANEL_VECTORS]) {
    if used == PANEL_VECTORS * S::F32_LANES {
        let vectors: &mut [S::f32s] = bytemuck::cast_slice_mut(&mut values[..PANEL_VECTORS * S::F32_LANES]);
        (vectors[0], vectors[1]) = (pair[0], pair[1]);
        return;
    }
    let (low, high) = values[..used].split_at_mut(used.min(S::F32_LANES));
    simd.partial_store_f32s(low, pair[0]);
    simd.partial_store_f32s(high, pair[1]);
}

/// What a place adds to a sum.
trait Place: Copy {
    fn add<S: Simd>(self, simd: S, input: S::f32s, panel: S::f32s, sum: S::f32s) -> S::f32s;
}

#[derive(Clone, Copy)]
struct Floats;

impl Place for Floats {
    #[inline(always)]
    fn add<S: Simd>(self, simd: S, input: S::f32s, panel: S::f32s, sum: S::f32s) -> S::f32s {
        simd.mul_add_f32s(input, panel, sum)
    }
}

impl Place for Pairs {
    #[inline(always)]
    fn add<S: Simd>(self, _: S, input: S::f32s, panel: S::f32s, sum: S::f32s) -> S::f32s {
        self.add_products::<S>(input, panel, sum)
    }
}

/// `sums[i] += sum over d of input[i][d] * panel[d]`; `next` is fetched meanwhile.
struct Sum<'a, S: Simd, P, const R: usize> {
    simd: S,
    place: P,
    input: &'a [&'a [f32]; R],
    panel: &'a [S::f32s],
    next: &'a [S::f32s],
    sums: &'a mut Sums<S, R>,
}

impl<S: Simd, P: Place, const R: usize> NullaryFnOnce for Sum<'_, S, P, R> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        match self.next {
            [] => accumulate::<S, P, R, false>(self),
            _ => accumulate::<S, P, R, true>(self),
        }
    }
}

/// With `FETCH`, the next vectors are fetched evenly over the loop, because the memory does not keep up with all of
/// them at once.
#[inline(always)]
fn accumulate<S: Simd, P: Place, const R: usize, const FETCH: bool>(sum: Sum<'_, S, P, R>) {
    let Sum { simd, place, input, panel, next, sums } = sum;
    let (panel, _) = panel.as_chunks::<PANEL_VECTORS>();
    let mut next = next.chunks_exact(PANEL_VECTORS);
    let step = panel.len() / next.len().max(1);
    let mut due = 0;
    // Slices of the same length as the loop let the compiler drop every bounds check in it.
    let mut rows: [&[f32]; R] = [&[]; R];
    for (row, input) in rows.iter_mut().zip(input) {
        *row = &input[..panel.len()];
    }
    let mut local = *sums;
    for depth in 0..panel.len() {
        if FETCH && depth == due {
            due += step;
            if let Some(vectors) = next.next() {
                prefetch(bytemuck::cast_slice(vectors));
            }
        }
        let [left, right] = panel[depth];
        for (sum, row) in local.iter_mut().zip(&rows) {
            let value = simd.splat_f32s(row[depth]);
            sum[0] = place.add(simd, value, left, sum[0]);
            sum[1] = place.add(simd, value, right, sum[1]);
            // Keeps the compiler from reading all rows first, for which the registers do not suffice.
            compiler_fence(Ordering::SeqCst);
        }
    }
    *sums = local;
}

#[cfg(test)]
mod tests {
    use super::super::buffer::Buffer;
    use super::*;

    /// A small deterministic matrix with values in -1..1.
    fn values(len: usize, seed: u32) -> Vec<f32> {
        let mut state = seed;
        (0..len)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 8) as f32 / (1 << 23) as f32 - 1.0
            })
            .collect()
    }

    /// The forms this processor has.
    fn forms(arch: Arch) -> Vec<Form> {
        let mut forms = vec![Form::Floats, Form::of(arch, false)];
        forms.dedup();
        forms
    }

    /// As a form holds it.
    fn held(form: Form, value: f32) -> f64 {
        match form {
            Form::Floats => f64::from(value),
            Form::Pairs(_) => half::bf16::from_f32(value).to_f64(),
        }
    }

    fn check(arch: Arch, form: Form, rows: usize, depth: usize, columns: usize) {
        let (a, w) = (values(rows * depth, 1), values(columns * depth, 2));
        let matrix = Matrix::from_weights(arch, form, &w, columns, depth);
        let mut bias = values(columns, 3);
        bias.resize(matrix.padded_columns(), 0.0);
        let old = values(rows * columns, 4);
        let mut packed = Buffer::zeros(0);
        let input = matrix.input(Rows { values: &a, stride: depth, count: rows }, depth, &mut packed);
        for (start, keep, add) in
            [(Start::Zero, 0.0, 0.0), (Start::Bias(&bias), 0.0, 1.0), (Start::Add(&bias), 1.0, 1.0)]
        {
            let mut out = old.clone();
            multiply(arch, input, &matrix, start, &mut out, columns);
            for (at, value) in out.iter().enumerate() {
                let (row, column) = (at / columns, at % columns);
                let dot: f64 =
                    (0..depth).map(|d| held(form, a[row * depth + d]) * held(form, w[column * depth + d])).sum();
                let expected = dot + f64::from(keep * old[at]) + f64::from(add * bias[column]);
                let place = format!("{form:?} [{rows}x{depth}x{columns}] {row},{column}");
                assert!((f64::from(*value) - expected).abs() < 1e-4, "{place}: {value} for {expected}");
            }
        }
    }

    #[test]
    fn product_equals_plain_sums() {
        let arch = Arch::new();
        let shapes = [(1, 1, 1), (2, 3, 5), (7, 32, 48), (13, 300, 33), (200, 70, 20), (29, 520, 64), (12, 1601, 31)];
        for form in forms(arch) {
            shapes.iter().for_each(|(rows, depth, columns)| check(arch, form, *rows, *depth, *columns));
        }
    }

    #[test]
    fn a_row_does_not_depend_on_its_neighbours() {
        let arch = Arch::new();
        let (a, w) = (values(29 * 70, 1), values(40 * 70, 2));
        let matrix = Matrix::from_weights(arch, Form::Floats, &w, 40, 70);
        let mut all = vec![0.0; 29 * 40];
        multiply(arch, Rows { values: &a, stride: 70, count: 29 }, &matrix, Start::Zero, &mut all, 40);
        for row in 0..29 {
            let mut one = vec![0.0; 40];
            let input = Rows { values: &a[row * 70..], stride: 70, count: 1 };
            multiply(arch, input, &matrix, Start::Zero, &mut one, 40);
            assert_eq!(one, all[row * 40..][..40]);
        }
    }

    #[test]
    fn plain_layout_equals_transposed_layout() {
        let arch = Arch::new();
        let (a, w) = (values(3 * 11, 1), values(11 * 21, 2));
        let transposed: Vec<f32> = (0..21 * 11).map(|at| w[at % 11 * 21 + at / 11]).collect();
        for form in forms(arch) {
            let mut plain = Matrix::empty(arch, form);
            plain.set(Rows { values: &w, stride: 21, count: 11 }, 21);
            let other = Matrix::from_weights(arch, form, &transposed, 21, 11);
            let mut packed = Buffer::zeros(0);
            let input = plain.input(Rows { values: &a, stride: 11, count: 3 }, 11, &mut packed);
            let (mut left, mut right) = (vec![0.0; 63], vec![0.0; 63]);
            multiply(arch, input, &plain, Start::Zero, &mut left, 21);
            multiply(arch, input, &other, Start::Zero, &mut right, 21);
            assert_eq!(left, right, "{form:?}");
        }
    }
}
