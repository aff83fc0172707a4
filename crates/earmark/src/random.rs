//! Every random number of the library, as a stream of uniforms that the caller owns.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// A stream of independent uniform numbers.
pub trait Random {
    /// The next number, strictly between 0 and 1.
    fn uniform(&mut self) -> f64;
}

/// A reproducible stream: the same seed gives the same numbers on every machine.
#[derive(Debug, Clone)]
pub struct Seeded(ChaCha8Rng);

impl Seeded {
    /// The stream of `seed`.
    pub fn new(seed: u64) -> Self {
        Seeded(ChaCha8Rng::seed_from_u64(seed))
    }
}

impl Random for Seeded {
    fn uniform(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }
}

/// A stream read from a list, to repeat what another program drew.
#[derive(Debug, Clone)]
pub struct Recorded {
    numbers: Vec<f64>,
    position: usize,
}

impl Recorded {
    /// The numbers in their order, each strictly between 0 and 1.
    pub fn new(numbers: Vec<f64>) -> Self {
        Recorded { numbers, position: 0 }
    }

    /// How many numbers have been drawn.
    pub fn drawn(&self) -> usize {
        self.position
    }
}

impl Random for Recorded {
    /// # Panics
    /// If the list is used up.
    fn uniform(&mut self) -> f64 {
        self.position += 1;
        self.numbers[self.position - 1]
    }
}

/// Gumbel noise `g = -ln(-ln u)` of Eq. (19).
pub fn gumbel(uniform: f64) -> f32 {
    -(-uniform.ln()).ln() as f32
}

/// A number with mean 0 and variance 1, by the transform of Box and Muller; draws two uniforms.
pub fn normal(random: &mut dyn Random) -> f32 {
    let radius = (-2.0 * random.uniform().ln()).sqrt();
    (radius * (std::f64::consts::TAU * random.uniform()).cos()) as f32
}

/// A whole number in `0..n`; draws one uniform.
///
/// # Panics
/// If `n` is 0.
pub fn below(n: usize, random: &mut dyn Random) -> usize {
    assert!(n > 0, "there is no number below 0");
    ((random.uniform() * n as f64) as usize).min(n - 1)
}

/// The first `k` places of a random permutation of `0..n`; draws `min(k, n)` uniforms.
pub fn sample(n: usize, k: usize, random: &mut dyn Random) -> Vec<usize> {
    let mut places: Vec<usize> = (0..n).collect();
    for at in 0..k.min(n) {
        places.swap(at, at + below(n - at, random));
    }
    places.truncate(k);
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_give_equal_streams() {
        let draw = |seed| (0..5).map(|_| 0).scan(Seeded::new(seed), |r, _| Some(r.uniform())).collect::<Vec<_>>();
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        assert!(draw(7).iter().all(|u| *u > 0.0 && *u < 1.0));
    }

    #[test]
    fn sample_by_hand() {
        // 0.5 of 4 places is place 2; then 0.99 of the 3 left is the last one.
        assert_eq!(sample(4, 2, &mut Recorded::new(vec![0.5, 0.99])), [2, 3]);
        assert_eq!(sample(2, 5, &mut Recorded::new(vec![0.1, 0.1])), [0, 1]);
        assert!(sample(0, 3, &mut Recorded::new(vec![])).is_empty());
    }

    #[test]
    fn normal_has_its_moments() {
        let mut random = Seeded::new(1);
        let draws: Vec<f32> = (0..20_000).map(|_| normal(&mut random)).collect();
        let mean = draws.iter().sum::<f32>() / 20_000.0;
        let variance = draws.iter().map(|x| x * x).sum::<f32>() / 20_000.0;
        assert!(mean.abs() < 0.03 && (variance - 1.0).abs() < 0.03, "{mean} {variance}");
    }
}
