//! Pairs of bfloat16: two floats, each rounded to its upper 16 bits, in the 32 bits of one. A processor with
//! AVX-512 BF16 multiplies such pairs and adds both products to a float in one instruction.
#![allow(unsafe_code)]

use pulp::{NullaryFnOnce, Simd};

/// Proof that this processor has the instruction, in vectors of 16 floats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pairs(());

impl Pairs {
    /// `None` if this processor does without, or `lanes` is another number of floats in a vector than 16.
    pub(super) fn detect(lanes: usize) -> Option<Pairs> {
        #[cfg(target_arch = "x86_64")]
        if lanes == 16 && is_x86_feature_detected!("avx512bf16") {
            return Some(Pairs(()));
        }
        let _ = lanes;
        None
    }

    /// Runs `work`, compiled for processors with the instruction; its `call` has to be inlined.
    pub(super) fn run<W: NullaryFnOnce>(self, work: W) -> W::Output {
        #[cfg(target_arch = "x86_64")]
        {
            #[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512bf16")]
            fn compiled<W: NullaryFnOnce>(work: W) -> W::Output {
                work.call()
            }
            // SAFETY: the processor has the instruction, and vectors of 16 floats, which only come with the others.
            unsafe { compiled(work) }
        }
        #[cfg(not(target_arch = "x86_64"))]
        work.call()
    }

    /// Rounds `values` into pairs, the first in the lower half of a word; an odd last one is paired with zero.
    pub(super) fn pack(self, values: &[f32], words: &mut [f32]) {
        let (pairs, last) = values.as_chunks::<2>();
        let (words, rest) = words.split_at_mut(pairs.len());
        self.run(Fill { words, pairs: pairs.iter().map(|[low, high]| (*low, *high)) });
        for (word, value) in rest.iter_mut().zip(last) {
            *word = pair(*value, 0.0);
        }
    }

    /// Rounds each two values of `low` and `high` into a pair.
    pub(super) fn join(self, low: &[f32], high: &[f32], words: &mut [f32]) {
        self.run(Fill { words, pairs: low.iter().copied().zip(high.iter().copied()) });
    }

    /// `sum + low(a) low(b) + high(a) high(b)` of each lane.
    #[inline(always)]
    pub(super) fn add_products<S: Simd>(self, a: S::f32s, b: S::f32s, sum: S::f32s) -> S::f32s {
        assert_eq!(S::F32_LANES, 16, "vectors of another length");
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{__m512, __m512bh, _mm512_dpbf16_ps};
            use std::mem::transmute_copy;
            // SAFETY: the processor has the instruction; all types are 16 floats of any bits.
            unsafe {
                let (a, b): (__m512bh, __m512bh) = (transmute_copy(&a), transmute_copy(&b));
                transmute_copy(&_mm512_dpbf16_ps(transmute_copy::<_, __m512>(&sum), a, b))
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            let _ = (a, b, sum);
            unreachable!("no processor of this kind has the instruction")
        }
    }
}

struct Fill<'a, I> {
    words: &'a mut [f32],
    pairs: I,
}

impl<I: Iterator<Item = (f32, f32)>> NullaryFnOnce for Fill<'_, I> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for (word, (low, high)) in self.words.iter_mut().zip(self.pairs) {
            *word = pair(low, high);
        }
    }
}

#[inline(always)]
fn pair(low: f32, high: f32) -> f32 {
    f32::from_bits(round(high) << 16 | round(low))
}

/// Without a branch for what is not a number, which stays that.
#[inline(always)]
fn round(value: f32) -> u32 {
    let bits = value.to_bits();
    let nearest = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
    if value.is_nan() { 0x7fc0 } else { nearest }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_as_the_library_does() {
        // Halfway to even, up and down; the largest float goes to infinity.
        let half = 0.5f32.powi(8);
        let values = [1.0, -2.5, 1.0 + half, 1.0 + 3.0 * half, 1.004, f32::MAX, f32::INFINITY, 0.0, -0.0, 1e-40, 0.1];
        for value in values {
            assert_eq!(round(value) as u16, half::bf16::from_f32(value).to_bits(), "{value}");
        }
        assert!(half::bf16::from_bits(round(f32::NAN) as u16).is_nan());
    }

    #[test]
    fn pairs_stand_in_one_word() {
        let Some(pairs) = Pairs::detect(16) else { return };
        let mut words = [9.0; 2];
        pairs.pack(&[1.0, 2.0, 3.0], &mut words);
        assert_eq!(words.map(f32::to_bits), [0x4000_3f80, 0x0000_4040]);
        pairs.join(&[1.0, 3.0], &[2.0, 1.0], &mut words);
        assert_eq!(words.map(f32::to_bits), [0x4000_3f80, 0x3f80_4040]);
    }
}
