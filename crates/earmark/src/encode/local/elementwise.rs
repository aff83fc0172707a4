//! The functions between the products: GELU, softmax and layer normalisation, over rows.

use pulp::{Arch, Simd, WithSimd, bytemuck};

/// Applies `x * Phi(x)`, the GELU of BERT, in place.
pub(super) fn gelu(arch: Arch, values: &mut [f32]) {
    arch.dispatch(Gelu { values });
}

/// Softmax of the first `len` values of a row after adding `bias` (when there is one); the rest of the row
/// becomes about zero. The row is a whole number of vectors long, and so is the bias.
pub(super) fn softmax(arch: Arch, row: &mut [f32], len: usize, bias: Option<&[f32]>) {
    arch.dispatch(Softmax { row, len, bias });
}

/// Scales each row of `weight.len()` values, `stride` apart, to mean 0 and variance 1, then applies weight and bias.
pub(super) fn layer_norm(arch: Arch, values: &mut [f32], stride: usize, norm: &LayerNorm) {
    arch.dispatch(Normalize { values, stride, norm });
}

/// Learned scale and shift of a layer normalisation.
pub(super) struct LayerNorm {
    pub(super) weight: Vec<f32>,
    pub(super) bias: Vec<f32>,
    pub(super) epsilon: f32,
}

/// erf(x / sqrt 2) = x P(x²) / Q(x²) for |x| < 5.6, lowest power first; a rational minimax fit with a relative
/// error of 6e-8. Beyond, the function is 1 to the last bit of f32.
const ERF_P: [f32; 7] =
    [0.797_884_5, 7.192_926e-2, 9.022_199e-3, 3.396_25e-4, 6.383_957e-6, -4.306_374e-8, 2.154_827_4e-10];
const ERF_Q: [f32; 5] = [1.0, 0.256_815_7, 2.911_273e-2, 1.831_025_1e-3, 6.172_561e-5];
const ERF_LIMIT: f32 = 5.6;

struct Gelu<'a> {
    values: &'a mut [f32],
}

impl WithSimd for Gelu<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let whole = self.values.len() / S::F32_LANES * S::F32_LANES;
        let (head, tail) = self.values.split_at_mut(whole);
        for value in bytemuck::cast_slice_mut::<f32, S::f32s>(head) {
            *value = gelu_vector(simd, *value);
        }
        let last = gelu_vector(simd, simd.partial_load_f32s(tail));
        simd.partial_store_f32s(tail, last);
    }
}

#[inline(always)]
fn gelu_vector<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    let limit = simd.splat_f32s(ERF_LIMIT);
    let clamped = simd.max_f32s(simd.min_f32s(x, limit), simd.neg_f32s(limit));
    let square = simd.mul_f32s(clamped, clamped);
    let p = polynomial(simd, &ERF_P, square);
    let q = polynomial(simd, &ERF_Q, square);
    let erf = simd.div_f32s(simd.mul_f32s(clamped, p), q);
    let half = simd.mul_f32s(simd.splat_f32s(0.5), x);
    simd.mul_add_f32s(half, erf, half)
}

/// Horner's rule; lowest power first.
#[inline(always)]
fn polynomial<S: Simd>(simd: S, coefficients: &[f32], x: S::f32s) -> S::f32s {
    let mut sum = simd.splat_f32s(0.0);
    for coefficient in coefficients.iter().rev() {
        sum = simd.mul_add_f32s(sum, x, simd.splat_f32s(*coefficient));
    }
    sum
}

/// Taylor coefficients of exp; exact to f32 for |x| <= ln 2 / 2.
const EXP: [f32; 8] = [1.0, 1.0, 0.5, 1.0 / 6.0, 1.0 / 24.0, 1.0 / 120.0, 1.0 / 720.0, 1.0 / 5040.0];
/// ln 2 in two parts; the first has so few bits that its product with a small whole number is exact.
const LN2_HIGH: f32 = 0.693_359_4;
const LN2_LOW: f32 = -2.121_944_4e-4;
/// Adding it rounds a small number to a whole one, which then stands in the low bits: 1.5 * 2^23.
const ROUND: f32 = 12_582_912.0;

/// exp(x) for x <= 0; below -87 it stays at exp(-87).
#[inline(always)]
fn exp_vector<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    let x = simd.max_f32s(x, simd.splat_f32s(-87.0));
    let shifted = simd.mul_add_f32s(x, simd.splat_f32s(std::f32::consts::LOG2_E), simd.splat_f32s(ROUND));
    let power = simd.sub_f32s(shifted, simd.splat_f32s(ROUND));
    let rest = simd.mul_add_f32s(power, simd.splat_f32s(-LN2_HIGH), x);
    let rest = simd.mul_add_f32s(power, simd.splat_f32s(-LN2_LOW), rest);
    let bits = simd.wrapping_dyn_shl_u32s(simd.transmute_u32s_f32s(shifted), simd.splat_u32s(23));
    let scale = simd.transmute_f32s_u32s(simd.add_u32s(bits, simd.splat_u32s(127 << 23)));
    simd.mul_f32s(polynomial(simd, &EXP, rest), scale)
}

struct Softmax<'a> {
    row: &'a mut [f32],
    len: usize,
    bias: Option<&'a [f32]>,
}

impl WithSimd for Softmax<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Softmax { row, len, bias } = self;
        if let Some(bias) = bias {
            let bias: &[S::f32s] = bytemuck::cast_slice(&bias[..row.len()]);
            for (value, bias) in bytemuck::cast_slice_mut(row).iter_mut().zip(bias) {
                *value = simd.add_f32s(*value, *bias);
            }
        }
        row[len..].fill(f32::MIN);
        let vectors = bytemuck::cast_slice_mut::<f32, S::f32s>(row);
        let most = vectors.iter().fold(simd.splat_f32s(f32::MIN), |most, value| simd.max_f32s(most, *value));
        let most = simd.splat_f32s(simd.reduce_max_f32s(most));
        let mut sum = simd.splat_f32s(0.0);
        for value in vectors.iter_mut() {
            *value = exp_vector(simd, simd.sub_f32s(*value, most));
            sum = simd.add_f32s(sum, *value);
        }
        let scale = simd.splat_f32s(simd.reduce_sum_f32s(sum).recip());
        for value in vectors {
            *value = simd.mul_f32s(*value, scale);
        }
    }
}

struct Normalize<'a> {
    values: &'a mut [f32],
    stride: usize,
    norm: &'a LayerNorm,
}

impl WithSimd for Normalize<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let len = self.norm.weight.len();
        for row in self.values.chunks_mut(self.stride) {
            let row = &mut row[..len];
            let mean = sum_of(simd, row, |value| value) / len as f32;
            let means = simd.splat_f32s(mean);
            let spread = sum_of(simd, row, |value| {
                let distance = simd.sub_f32s(value, means);
                simd.mul_f32s(distance, distance)
            });
            // The tail of a row is padded with zeros, each of which added the square of the mean.
            let padding = (len.next_multiple_of(S::F32_LANES) - len) as f32 * mean * mean;
            let scale = 1.0 / ((spread - padding) / len as f32 + self.norm.epsilon).sqrt();
            scale_row(simd, row, mean, scale, self.norm);
        }
    }
}

/// Sum of `f` over a row, whose tail is padded with zeros to a whole vector.
#[inline(always)]
fn sum_of<S: Simd>(simd: S, row: &[f32], f: impl Fn(S::f32s) -> S::f32s) -> f32 {
    let whole = row.len() / S::F32_LANES * S::F32_LANES;
    let (head, tail) = row.split_at(whole);
    let mut sums = [simd.splat_f32s(0.0); 4];
    let (quads, rest) = bytemuck::cast_slice::<f32, S::f32s>(head).as_chunks::<4>();
    for quad in quads {
        for (sum, value) in sums.iter_mut().zip(quad) {
            *sum = simd.add_f32s(*sum, f(*value));
        }
    }
    for value in rest {
        sums[0] = simd.add_f32s(sums[0], f(*value));
    }
    if !tail.is_empty() {
        sums[1] = simd.add_f32s(sums[1], f(simd.partial_load_f32s(tail)));
    }
    simd.reduce_sum_f32s(simd.add_f32s(simd.add_f32s(sums[0], sums[1]), simd.add_f32s(sums[2], sums[3])))
}

/// `(x - mean) * scale * weight + bias`.
#[inline(always)]
fn scale_row<S: Simd>(simd: S, row: &mut [f32], mean: f32, scale: f32, norm: &LayerNorm) {
    let (means, scales) = (simd.splat_f32s(mean), simd.splat_f32s(scale));
    let parts = row.chunks_mut(S::F32_LANES).zip(norm.weight.chunks(S::F32_LANES)).zip(norm.bias.chunks(S::F32_LANES));
    for ((values, weight), bias) in parts {
        let unit = simd.mul_f32s(simd.sub_f32s(simd.partial_load_f32s(values), means), scales);
        let out = simd.mul_add_f32s(unit, simd.partial_load_f32s(weight), simd.partial_load_f32s(bias));
        simd.partial_store_f32s(values, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gelu_at_known_points() {
        // x * Phi(x), Phi from a table of the normal distribution.
        let inputs = [0.0f32, 1.0, -1.0, 2.0, -3.0, 10.0, -10.0, 0.5, 1e-4];
        let mut values = inputs;
        gelu(Arch::new(), &mut values);
        let expected =
            [0.0, 0.841_344_8, -0.158_655_25, 1.954_499_7, -0.004_049_694, 10.0, 0.0, 0.345_731_23, 5.000_399e-5];
        for ((x, value), expected) in inputs.iter().zip(values).zip(expected) {
            assert!((value - expected).abs() <= 1.2e-7 * x.abs(), "GELU({x}) = {value}, not {expected}");
        }
    }

    #[test]
    fn softmax_ignores_what_is_beyond_its_length() {
        let arch = Arch::new();
        let mut row = [9.0f32; 32];
        row[..3].copy_from_slice(&[0.0, std::f32::consts::LN_2, -200.0]);
        softmax(arch, &mut row, 3, None);
        for (value, expected) in row.iter().zip([1.0 / 3.0, 2.0 / 3.0, 0.0, 0.0]) {
            assert!((value - expected).abs() < 1e-7, "{row:?}");
        }
    }

    #[test]
    fn softmax_adds_its_bias() {
        let mut row = [0.0f32; 32];
        let mut bias = [0.0f32; 32];
        bias[1] = 3.0f32.ln();
        softmax(Arch::new(), &mut row, 2, Some(&bias));
        assert!((row[0] - 0.25).abs() < 1e-6 && (row[1] - 0.75).abs() < 1e-6, "{row:?}");
    }

    #[test]
    fn layer_norm_of_a_row_that_is_no_whole_vector() {
        // Mean 3, variance 2: (1 - 3) / sqrt 2 = -1.41421.
        let norm =
            LayerNorm { weight: vec![1.0, 1.0, 2.0, 1.0, 1.0], bias: vec![0.0, 0.0, 7.0, 0.0, 1.0], epsilon: 0.0 };
        let mut values = [1.0, 2.0, 3.0, 4.0, 5.0, -1.0, 1.0, 2.0, 3.0, 4.0, 5.0, -1.0];
        layer_norm(Arch::new(), &mut values, 6, &norm);
        let root = std::f32::consts::SQRT_2;
        let expected = [-root, -root / 2.0, 7.0, root / 2.0, root + 1.0, -1.0];
        for (value, expected) in values.iter().zip(expected.iter().chain(&expected)) {
            assert!((value - expected).abs() < 1e-6, "{values:?}");
        }
    }
}
