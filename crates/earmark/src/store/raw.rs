//! The store's one place with `unsafe`: files as memory, numbers within them, and one inner product.
#![allow(unsafe_code)]

use std::fs::File;
use std::path::Path;

use memmap2::{Advice, Mmap};
use simsimd::SpatialSimilarity;

use super::errors::io_error;
use crate::error::Result;

/// A whole file as read-only memory.
#[derive(Debug)]
pub(crate) struct MappedFile {
    map: Mmap,
}

/// Plain numbers for which any bits are a value.
pub(crate) trait Plain: Copy + 'static {}
impl Plain for i8 {}
impl Plain for u32 {}
impl Plain for i64 {}
impl Plain for f32 {}

impl MappedFile {
    /// Maps the file at `path`.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|e| io_error(path, &e))?;
        // SAFETY: segment files are written under another name, renamed, and never shortened or written
        // again, but for zeros over an entry that is deleted; any bits are a value of the types read here,
        // so a foreign change can give a wrong number (which checksums find), not an invalid one.
        let map = unsafe { Mmap::map(&file) }.map_err(|e| io_error(path, &e))?;
        let _ = map.advise(Advice::WillNeed);
        Ok(MappedFile { map })
    }

    /// The file's bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.map
    }

    /// `count` numbers from byte `offset`; `None` if they do not lie aligned within the file.
    pub(crate) fn numbers<T: Plain>(&self, offset: usize, count: usize) -> Option<&[T]> {
        let length = count.checked_mul(size_of::<T>())?;
        let bytes = self.map.get(offset..offset.checked_add(length)?)?;
        // SAFETY: `Plain` types have no invalid bits; `align_to` puts unaligned parts before and after.
        let (before, numbers, after) = unsafe { bytes.align_to::<T>() };
        (before.is_empty() && after.is_empty()).then_some(numbers)
    }
}

/// Inner product of two code vectors of one length, each code in -127..=127; the length is a few thousand at most.
#[inline]
pub(crate) fn dot_codes(a: &[i8], b: &[i8]) -> i32 {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512vnni") {
            // SAFETY: the processor has AVX-512 VNNI, and with it AVX-512F.
            return unsafe { dot_codes_vnni(a, b) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has AVX2.
            return unsafe { dot_codes_avx2(a, b) };
        }
    }
    i8::dot(a, b).unwrap_or(0.0) as i32
}

/// Leaves a scan waiting for the memory alone, where the library's product takes a quarter longer. The instruction
/// multiplies unsigned by signed bytes: b is shifted up by 128, and 128 times the sum of a taken off.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vnni")]
fn dot_codes_vnni(a: &[i8], b: &[i8]) -> i32 {
    use std::arch::x86_64::*;
    let (a_blocks, a_rest) = a.as_chunks::<64>();
    let (b_blocks, b_rest) = b.as_chunks::<64>();
    let shift = _mm512_set1_epi8(-128);
    let (mut sum, mut shifted) = (_mm512_setzero_si512(), _mm512_setzero_si512());
    for (a, b) in a_blocks.iter().zip(b_blocks) {
        // SAFETY: each block has 64 bytes, and the loads need no alignment.
        let (a, b) = unsafe { (_mm512_loadu_si512(a.as_ptr().cast()), _mm512_loadu_si512(b.as_ptr().cast())) };
        sum = _mm512_dpbusd_epi32(sum, _mm512_xor_si512(b, shift), a);
        shifted = _mm512_dpbusd_epi32(shifted, shift, a);
    }
    let rest: i32 = a_rest.iter().zip(b_rest).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum();
    _mm512_reduce_add_epi32(_mm512_sub_epi32(sum, shifted)) + rest
}

/// About twice as fast as widening to 16 bits first, which is what the library does without VNNI.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn dot_codes_avx2(a: &[i8], b: &[i8]) -> i32 {
    use std::arch::x86_64::*;
    let (a_blocks, a_rest) = a.as_chunks::<32>();
    let (b_blocks, b_rest) = b.as_chunks::<32>();
    let ones = _mm256_set1_epi16(1);
    let mut sum = _mm256_setzero_si256();
    for (a, b) in a_blocks.iter().zip(b_blocks) {
        // SAFETY: each block has 32 bytes, and the loads need no alignment.
        let (a, b) = unsafe { (_mm256_loadu_si256(a.as_ptr().cast()), _mm256_loadu_si256(b.as_ptr().cast())) };
        // |b| times a with the sign of b; pairs are at most 2 * 127 * 127, which 16 bits hold.
        let pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(b), _mm256_sign_epi8(a, b));
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, ones));
    }
    let mut lanes = [0i32; 8];
    // SAFETY: `lanes` has the 32 bytes that are written, and the store needs no alignment.
    unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), sum) };
    let rest: i32 = a_rest.iter().zip(b_rest).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum();
    lanes.iter().sum::<i32>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dot_codes_is_the_sum_of_products() {
        for length in [0, 1, 31, 32, 33, 63, 64, 65, 96, 384, 1_000] {
            let a: Vec<i8> = (0..length).map(|i| (i * 37 % 255 - 127) as i8).collect();
            let b: Vec<i8> = (0..length).map(|i| (i * 91 % 255 - 127) as i8).collect();
            let expected: i32 = a.iter().zip(&b).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum();
            assert_eq!(dot_codes(&a, &b), expected, "length {length}");
            let extreme = vec![-127i8; length as usize];
            assert_eq!(dot_codes(&extreme, &extreme), 127 * 127 * length);
        }
    }
}
