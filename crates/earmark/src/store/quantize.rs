//! Vectors as one signed byte per dimension, for the first pass of a search.

/// A vector `x` as codes `c` with `x_i ≈ scale * c_i`, `c_i` in -127..=127.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Codes {
    /// One per dimension.
    pub(crate) codes: Vec<i8>,
    /// Width of one step; 0 for a zero vector.
    pub(crate) scale: f32,
}

/// Rounds each dimension to 1/127 of the largest.
pub(crate) fn quantize(vector: &[f32]) -> Codes {
    let largest = vector.iter().fold(0.0f32, |largest, x| largest.max(x.abs()));
    let scale = largest / 127.0;
    let code = |x: &f32| if scale > 0.0 { (x / scale).round() as i8 } else { 0 };
    Codes { codes: vector.iter().map(code).collect(), scale }
}

/// How far the difference of two approximate scores of a `query` may be from the exact difference,
/// in all but a negligible share of cases.
///
/// Rounding errors are close to independent and uniform in ±scale/2, so one score (unit vectors) has a
/// standard deviation of `sqrt((scale_q² + scale_m²) / 12)`, and the difference of two scores √2 of that.
/// Six of them are kept. `widest` is the largest scale among the memories.
pub(crate) fn error_margin(query: &Codes, widest: f32) -> f32 {
    6.0 * ((query.scale.powi(2) + widest.powi(2)) / 6.0).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_by_hand() {
        let codes = quantize(&[1.0, -0.5, 0.0, 0.25]);
        assert_eq!(codes.codes, [127, -64, 0, 32]);
        assert_eq!(quantize(&[0.0; 3]), Codes { codes: vec![0; 3], scale: 0.0 });
    }
}
