//! Vectors, candidates and slates as little-endian bytes.

use super::{CandidateLog, Row, SlateEntry};

/// `f32` values as bytes.
pub(crate) fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// The `f32` values of `bytes`; a rest of fewer than four bytes is dropped.
pub(crate) fn unpack_floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|x| f32::from_le_bytes(*x)).collect()
}

/// Candidates as one table: number of features (u32), then per candidate the row (i64) and its features (f32).
pub(crate) fn candidates(candidates: &[CandidateLog]) -> Vec<u8> {
    let width = candidates.first().map_or(0, |candidate| candidate.features.len());
    let mut bytes = Vec::with_capacity(4 + candidates.len() * (8 + 4 * width));
    bytes.extend((width as u32).to_le_bytes());
    for candidate in candidates {
        bytes.extend(candidate.row.0.to_le_bytes());
        bytes.extend(floats(&candidate.features));
    }
    bytes
}

/// Inverse of [`candidates`].
pub(crate) fn unpack_candidates(bytes: &[u8]) -> Vec<CandidateLog> {
    let Some((width, rest)) = bytes.split_first_chunk::<4>() else { return Vec::new() };
    let stride = 8 + 4 * u32::from_le_bytes(*width) as usize;
    let candidate = |entry: &[u8]| {
        let (row, features) = entry.split_first_chunk::<8>()?;
        Some(CandidateLog { row: Row(i64::from_le_bytes(*row)), features: unpack_floats(features) })
    };
    rest.chunks_exact(stride).filter_map(candidate).collect()
}

/// A slate: per place the row (i64) and one byte, 1 if the place was explored.
pub(crate) fn slate(slate: &[SlateEntry]) -> Vec<u8> {
    slate.iter().flat_map(|entry| entry.row.0.to_le_bytes().into_iter().chain([u8::from(entry.explored)])).collect()
}

/// Inverse of [`slate`].
pub(crate) fn unpack_slate(bytes: &[u8]) -> Vec<SlateEntry> {
    let entry = |bytes: &[u8; 9]| {
        let (row, explored) = bytes.split_first_chunk::<8>()?;
        Some(SlateEntry { row: Row(i64::from_le_bytes(*row)), explored: explored == [1] })
    };
    bytes.as_chunks::<9>().0.iter().filter_map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_tables_come_back() {
        let table: Vec<CandidateLog> =
            (0..5).map(|i| CandidateLog { row: Row(i * 1_000_000_007), features: vec![i as f32, -0.5] }).collect();
        assert_eq!(unpack_candidates(&candidates(&table)), table);
        assert_eq!(unpack_candidates(&[]), []);
        let places = [SlateEntry { row: Row(9), explored: true }, SlateEntry { row: Row(-3), explored: false }];
        assert_eq!(unpack_slate(&slate(&places)), places);
    }
}
