//! Arithmetic on plain slices, and a hint to the processor.

/// Inner product; the summation order is fixed, so equal inputs give equal bits.
///
/// # Panics
/// If the lengths differ.
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len(), "vectors of different dimension");
    const LANES: usize = 16;
    let mut lanes = [0.0f32; LANES];
    let (a_head, a_tail) = a.as_chunks::<LANES>();
    let (b_head, b_tail) = b.as_chunks::<LANES>();
    for (x, y) in a_head.iter().zip(b_head) {
        for lane in 0..LANES {
            lanes[lane] += x[lane] * y[lane];
        }
    }
    let tail: f32 = a_tail.iter().zip(b_tail).map(|(x, y)| x * y).sum();
    lanes.iter().sum::<f32>() + tail
}

/// Euclidean length.
pub fn norm(a: &[f32]) -> f32 {
    dot(a, a).sqrt()
}

/// Scales `a` to unit length in place; a zero (or non-finite) vector becomes all zeros.
pub fn normalize(a: &mut [f32]) {
    let length = norm(a);
    let scale = if length.is_finite() && length > 0.0 { 1.0 / length } else { 0.0 };
    for x in a.iter_mut() {
        *x = if scale == 0.0 { 0.0 } else { *x * scale };
    }
}

/// Cosine of the angle between `a` and `b`, in `[-1, 1]`; 0 if one of them is zero.
pub fn cosine(a: &[f32], b: &[f32]) -> f32 {
    let scale = norm(a) * norm(b);
    if scale > 0.0 { (dot(a, b) / scale).clamp(-1.0, 1.0) } else { 0.0 }
}

/// Bytes that the processor fetches together.
const LINE: usize = 64;

/// Has the processor fetch `bytes`, which will be read soon.
#[inline(always)]
#[allow(unsafe_code)]
pub(crate) fn prefetch(bytes: &[i8]) {
    #[cfg(target_arch = "x86_64")]
    for line in bytes.chunks(LINE) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: fetching reads nothing that the program could see.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dot_by_hand() {
        let a: Vec<f32> = (1..=18).map(|i| i as f32).collect();
        assert_eq!(dot(&a, &a), 2109.0); // 18 * 19 * 37 / 6
    }

    #[test]
    fn zero_vectors_stay_finite() {
        let mut zero = [0.0; 4];
        normalize(&mut zero);
        assert_eq!(zero, [0.0; 4]);
        assert_eq!(cosine(&zero, &[1.0, 0.0, 0.0, 0.0]), 0.0);
    }
}
