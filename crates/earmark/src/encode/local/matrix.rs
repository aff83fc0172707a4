//! Matrices that are laid out once, when a model is loaded, for dense products from the right.
//!
//! A matrix is cut into panels of a few columns, each stored row after row, so that the inner loop of a product reads
//! it in one straight line.

use pulp::{Arch, Simd, WithSimd};

use super::bf16::Pairs;
use super::buffer::{Buffer, LINE};

/// Vectors in a row of a panel.
pub(super) const PANEL_VECTORS: usize = 2;
/// Columns of a panel of the longest vectors.
const LONGEST_PANEL: usize = PANEL_VECTORS * 16;
/// What a place of a matrix, and of the input of its products, holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// One value.
    Floats,
    /// Two values of consecutive depth, rounded.
    Pairs(Pairs),
}

impl Form {
    /// Pairs if this processor multiplies them and they are precise enough.
    pub(super) fn of(arch: Arch, full_precision: bool) -> Form {
        let lanes = arch.dispatch(PanelWidth) / PANEL_VECTORS;
        Pairs::detect(lanes).filter(|_| !full_precision).map_or(Form::Floats, Form::Pairs)
    }

    /// Places that `depth` values take.
    fn places(self, depth: usize) -> usize {
        match self {
            Form::Floats => depth,
            Form::Pairs(_) => depth.div_ceil(2),
        }
    }
}

/// A matrix `[depth x columns]` in panels.
pub(super) struct Matrix {
    pub(super) values: Buffer,
    pub(super) form: Form,
    /// In places.
    pub(super) depth: usize,
    pub(super) columns: usize,
    /// Columns of a panel.
    pub(super) width: usize,
}

impl Matrix {
    /// The transpose of `weights` `[columns x depth]`, row-major: the layout of a linear layer's checkpoint.
    pub(super) fn from_weights(arch: Arch, form: Form, weights: &[f32], columns: usize, depth: usize) -> Self {
        let mut matrix = Matrix::empty(arch, form);
        let rows = Rows { values: weights, stride: depth, count: columns };
        matrix.set_transposed(rows, depth, &mut Buffer::zeros(0));
        matrix
    }

    /// A matrix without values, to be set.
    pub(super) fn empty(arch: Arch, form: Form) -> Self {
        Matrix { values: Buffer::zeros(0), form, depth: 0, columns: 0, width: arch.dispatch(PanelWidth) }
    }

    /// The first `depth` values of each row as this matrix multiplies them; rounded ones stand in `packed`.
    pub(super) fn input<'a>(&self, rows: Rows<'a>, depth: usize, packed: &'a mut Buffer) -> Rows<'a> {
        let Form::Pairs(pairs) = self.form else { return rows };
        let stride = self.form.places(depth).next_multiple_of(LINE) + LINE;
        packed.resize(rows.count * stride);
        for (index, words) in packed.chunks_exact_mut(stride).enumerate() {
            pairs.pack(rows.row(index, depth), &mut words[..self.form.places(depth)]);
        }
        Rows { values: packed, stride, count: rows.count }
    }

    /// Number of columns, rounded up to whole panels.
    pub(super) fn padded_columns(&self) -> usize {
        self.columns.next_multiple_of(self.width)
    }

    /// Sets it to the transpose of the first `depth` values of each row; `packed` is room to work in.
    pub(super) fn set_transposed(&mut self, rows: Rows<'_>, depth: usize, packed: &mut Buffer) {
        let rows = self.input(rows, depth, packed);
        let depth = self.form.places(depth);
        self.resize(depth, rows.count);
        let width = self.width;
        for (index, panel) in self.values.chunks_exact_mut((depth * width).max(1)).enumerate() {
            for column in 0..width {
                match index * width + column {
                    row if row < rows.count => scatter(rows.row(row, depth), &mut panel[column..], width),
                    _ => panel[column..].iter_mut().step_by(width).for_each(|value| *value = 0.0),
                }
            }
        }
    }

    /// Sets it to the first `columns` values of each row.
    pub(super) fn set(&mut self, rows: Rows<'_>, columns: usize) {
        let (form, width, depth) = (self.form, self.width, self.form.places(rows.count));
        self.resize(depth, columns);
        for (index, panel) in self.values.chunks_exact_mut((depth * width).max(1)).enumerate() {
            let used = (columns - index * width).min(width);
            let values = |row: usize| &rows.row(row, columns)[index * width..][..used];
            for (place, line) in panel.chunks_exact_mut(width).enumerate() {
                match form {
                    Form::Floats => line[..used].copy_from_slice(values(place)),
                    Form::Pairs(pairs) if 2 * place + 1 < rows.count => {
                        pairs.join(values(2 * place), values(2 * place + 1), line);
                    }
                    Form::Pairs(pairs) => pairs.join(values(2 * place), &[0.0; LONGEST_PANEL][..used], line),
                }
                line[used..].fill(0.0);
            }
        }
    }

    fn resize(&mut self, depth: usize, columns: usize) {
        (self.depth, self.columns) = (depth, columns);
        self.values.resize(depth * self.padded_columns());
    }
}

/// Writes `values` into every `step`-th place of `target`.
fn scatter(values: &[f32], target: &mut [f32], step: usize) {
    for (slot, value) in target.iter_mut().step_by(step).zip(values) {
        *slot = *value;
    }
}

/// `count` rows, `stride` apart.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    pub(super) values: &'a [f32],
    pub(super) stride: usize,
    pub(super) count: usize,
}

impl<'a> Rows<'a> {
    #[inline(always)]
    pub(super) fn row(&self, index: usize, len: usize) -> &'a [f32] {
        &self.values[index * self.stride..][..len]
    }
}

struct PanelWidth;

impl WithSimd for PanelWidth {
    type Output = usize;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> usize {
        PANEL_VECTORS * S::F32_LANES
    }
}
