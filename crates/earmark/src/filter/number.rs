//! JSON numbers that compare exactly, whole or not.

use std::cmp::Ordering;

/// A number as JSON has it; `1` and `1.0` are equal, and so are no two different integers.
#[derive(Debug, Clone, Copy)]
pub enum Number {
    /// A whole number that fits 64 bits.
    Whole(i64),
    /// Anything else; never NaN.
    Real(f64),
}

impl Number {
    /// From JSON; whole numbers beyond 64 bits become the nearest real.
    pub fn from_json(number: &serde_json::Number) -> Self {
        match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => Number::Whole(whole),
            (None, real) => Number::Real(real.unwrap_or(0.0)),
        }
    }

    /// Total order over both kinds.
    pub fn compare(self, other: Self) -> Ordering {
        match (self, other) {
            (Number::Whole(a), Number::Whole(b)) => a.cmp(&b),
            (Number::Real(a), Number::Real(b)) => a.partial_cmp(&b).unwrap_or(Ordering::Equal),
            (Number::Whole(a), Number::Real(b)) => compare_mixed(a, b),
            (Number::Real(a), Number::Whole(b)) => compare_mixed(b, a).reverse(),
        }
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.compare(*other) == Ordering::Equal
    }
}

/// Compares without rounding the integer: first the whole parts, then what is after the point.
fn compare_mixed(whole: i64, real: f64) -> Ordering {
    const BEYOND: f64 = 9_223_372_036_854_775_808.0;
    if real >= BEYOND {
        return Ordering::Less;
    }
    if real < -BEYOND {
        return Ordering::Greater;
    }
    let truncated = real as i64;
    whole.cmp(&truncated).then_with(|| 0.0_f64.partial_cmp(&real.fract()).unwrap_or(Ordering::Equal))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_and_real_compare_exactly() {
        assert_eq!(Number::Whole(1), Number::Real(1.0));
        assert_ne!(Number::Whole(9_007_199_254_740_993), Number::Real(9_007_199_254_740_992.0));
        assert_eq!(Number::Whole(i64::MAX).compare(Number::Real(9.3e18)), Ordering::Less);
        assert_eq!(Number::Whole(-2).compare(Number::Real(-2.5)), Ordering::Greater);
        assert_eq!(Number::Real(2.5).compare(Number::Whole(2)), Ordering::Greater);
    }
}
