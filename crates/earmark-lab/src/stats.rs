//! Means, spreads and bootstrap intervals.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const RESAMPLES: usize = 10_000;

/// Mean; 0 for no values.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Sample standard deviation (n - 1); 0 for fewer than two values.
pub fn std(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return 0.0;
    }
    let center = mean(values);
    let squares: f64 = values.iter().map(|value| (value - center).powi(2)).sum();
    (squares / (values.len() - 1) as f64).sqrt()
}

/// A mean with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The mean itself.
    pub mean: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// 95 % percentile bootstrap of the mean over questions; the seed decides the resamples. All zeros for no values.
pub fn bootstrap(values: &[f64], seed: u64) -> Interval {
    if values.is_empty() {
        return Interval { mean: 0.0, low: 0.0, high: 0.0 };
    }
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut means: Vec<f64> = (0..RESAMPLES).map(|_| resampled_mean(values, &mut rng)).collect();
    means.sort_by(f64::total_cmp);
    Interval { mean: mean(values), low: means[RESAMPLES / 40], high: means[RESAMPLES - 1 - RESAMPLES / 40] }
}

/// 95 % interval of the mean of `ours - theirs`, question by question: excludes 0 where the two differ.
///
/// # Panics
/// If the two are not over the same questions.
pub fn paired_bootstrap(ours: &[f64], theirs: &[f64], seed: u64) -> Interval {
    assert_eq!(ours.len(), theirs.len(), "paired values of different questions");
    let differences: Vec<f64> = ours.iter().zip(theirs).map(|(a, b)| a - b).collect();
    bootstrap(&differences, seed)
}

fn resampled_mean(values: &[f64], rng: &mut ChaCha8Rng) -> f64 {
    let sum: f64 = (0..values.len()).map(|_| values[rng.random_range(0..values.len())]).sum();
    sum / values.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        assert_eq!(mean(&[1.0, 2.0, 6.0]), 3.0);
        assert!((std(&[1.0, 2.0, 6.0]) - 7.0f64.sqrt()).abs() < 1e-12);
        assert_eq!((mean(&[]), std(&[4.0])), (0.0, 0.0));
    }

    #[test]
    fn interval_of_a_coin_is_near_the_normal_one() {
        let coin: Vec<f64> = (0..400).map(|i| f64::from(i % 2)).collect();
        let interval = bootstrap(&coin, 1);
        assert_eq!(interval.mean, 0.5);
        assert!((interval.low - 0.451).abs() < 0.006 && (interval.high - 0.549).abs() < 0.006, "{interval:?}");
        assert_eq!(interval, bootstrap(&coin, 1));
    }

    #[test]
    fn pairing_sees_what_the_means_hide() {
        let theirs: Vec<f64> = (0..200).map(|i| f64::from(i % 2)).collect();
        let ours: Vec<f64> = theirs.iter().enumerate().map(|(i, v)| if i < 20 { 1.0 } else { *v }).collect();
        let gain = paired_bootstrap(&ours, &theirs, 1);
        assert!((gain.mean - 0.05).abs() < 1e-12 && gain.low > 0.0, "{gain:?}");
        assert!(bootstrap(&ours, 1).low < bootstrap(&theirs, 1).high);
        let none = paired_bootstrap(&theirs, &theirs, 1);
        assert_eq!((none.low, none.high), (0.0, 0.0));
        assert_eq!(bootstrap(&[], 1).mean, 0.0);
    }
}
