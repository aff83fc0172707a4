//! Self-attention within one text.

use pulp::Arch;

use super::buffer::{Buffer, LINE};
use super::checkpoint::{Checkpoint, Result};
use super::elementwise::softmax;
use super::matrix::{Form, Matrix, Rows};
use super::product::{Start, multiply};

/// Working space of one thread.
pub(super) struct Space {
    keys: Matrix,
    values: Matrix,
    scores: Buffer,
    packed: Buffer,
}

impl Space {
    pub(super) fn new(arch: Arch, form: Form) -> Self {
        let (keys, values) = (Matrix::empty(arch, form), Matrix::empty(arch, form));
        Space { keys, values, scores: Buffer::zeros(0), packed: Buffer::zeros(0) }
    }
}

/// Sizes of the rows that attention reads and writes.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    /// Width of a hidden row.
    pub(super) hidden: usize,
    /// Number of heads.
    pub(super) heads: usize,
    /// Distance of the rows of queries, keys and values.
    pub(super) qkv_stride: usize,
    /// Distance of the rows of the output.
    pub(super) output_stride: usize,
}

/// Attention of the `count` tokens of one text: `qkv` holds scaled queries, keys and values `[count x 3 hidden]`,
/// `output` takes `[count x hidden]`.
pub(super) fn attend(
    arch: Arch,
    sizes: Sizes,
    relative: Option<&RelativeBias>,
    qkv: &[f32],
    count: usize,
    output: &mut [f32],
    space: &mut Space,
) {
    let Sizes { hidden, heads, qkv_stride, output_stride } = sizes;
    let size = hidden / heads;
    let part = |at: usize| Rows { values: &qkv[at..], stride: qkv_stride, count };
    for head in 0..heads {
        let Space { keys, values, scores, packed } = &mut *space;
        keys.set_transposed(part(hidden + head * size), size, packed);
        values.set(part(2 * hidden + head * size), size);
        let width = keys.padded_columns();
        scores.resize(count * width);
        let queries = keys.input(part(head * size), size, packed);
        multiply(arch, queries, keys, Start::Zero, scores, width);
        for (token, row) in scores.chunks_exact_mut(width).enumerate() {
            softmax(arch, row, count, relative.map(|bias| bias.row(head, token, width)));
        }
        let weights = values.input(Rows { values: scores, stride: width, count }, count, packed);
        multiply(arch, weights, values, Start::Zero, &mut output[head * size..], output_stride);
    }
}

/// MPNet's learned bias of each head on the distance of two tokens, spread out over all distances.
pub(super) struct RelativeBias {
    heads: Vec<Vec<f32>>,
    longest: usize,
}

/// Distances from here on share the last bucket of their side.
const FARTHEST: f32 = 128.0;
/// Rows of scores are padded by fewer floats than this.
const PADDING: usize = 4 * LINE;

impl RelativeBias {
    /// Reads `encoder.relative_attention_bias.weight` `[buckets x heads]` for texts of up to `longest` tokens.
    pub(super) fn read(file: &Checkpoint, name: &str, buckets: usize, heads: usize, longest: usize) -> Result<Self> {
        let table = file.read(name, &[buckets, heads])?;
        let distances = 1 - longest as i64..longest as i64;
        let places: Vec<usize> = distances.map(|distance| bucket(distance, buckets)).collect();
        let spread = |head: usize| {
            let known = places.iter().map(|place| table[place * heads + head]);
            known.chain(std::iter::repeat_n(0.0, PADDING)).collect()
        };
        Ok(RelativeBias { heads: (0..heads).map(spread).collect(), longest })
    }

    /// The bias on each token, seen from `token`.
    fn row(&self, head: usize, token: usize, width: usize) -> &[f32] {
        &self.heads[head][self.longest - 1 - token..][..width]
    }
}

/// Bucket of a distance (other token minus this one): half of the buckets for each side, and of these half for
/// exact distances, the rest in logarithmic steps up to [`FARTHEST`].
fn bucket(distance: i64, buckets: usize) -> usize {
    let (side, exact) = (buckets / 2, buckets / 4);
    let first = if distance > 0 { side } else { 0 };
    let far = distance.unsigned_abs() as usize;
    if far < exact {
        return first + far;
    }
    let step = (far as f32 / exact as f32).ln() / (FARTHEST / exact as f32).ln() * (side - exact) as f32;
    first + (exact + step as usize).min(side - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_of_distances() {
        let expected =
            [(0, 0), (-1, 1), (-7, 7), (-8, 8), (-11, 8), (-12, 9), (-127, 15), (-400, 15), (1, 17), (400, 31)];
        for (distance, expected) in expected {
            assert_eq!(bucket(distance, 32), expected, "{distance}");
        }
    }

    #[test]
    fn equal_keys_give_the_mean_of_the_values() {
        // Two tokens, one head of size 2: queries and keys are zero, values (1, 2) and (3, 4).
        let qkv = [0.0, 0.0, 0.0, 0.0, 1.0, 2.0, 0.0, 0.0, 0.0, 0.0, 3.0, 4.0];
        let sizes = Sizes { hidden: 2, heads: 1, qkv_stride: 6, output_stride: 2 };
        let (arch, mut output) = (Arch::new(), [0.0; 4]);
        attend(arch, sizes, None, &qkv, 2, &mut output, &mut Space::new(arch, Form::Floats));
        assert_eq!(output, [2.0, 3.0, 2.0, 3.0]);
    }
}
