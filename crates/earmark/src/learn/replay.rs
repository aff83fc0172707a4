//! Which past experiences are replayed (Eq. 15, Table 7). Each function gives places in the list it was handed.

use crate::random::{Random, sample};
use crate::recall::top_k;
use crate::vector::cosine;

/// The `n` past queries most similar (cosine of raw vectors) to `query`, best first, ties by older. Eq. (15).
pub fn most_similar<'a>(query: &[f32], past: impl Iterator<Item = &'a [f32]>, n: usize) -> Vec<usize> {
    let scores: Vec<f32> = past.map(|other| cosine(query, other)).collect();
    top_k(&scores, n)
}

/// The `n` experiences with the lowest reward, lowest first, ties by older.
pub fn lowest_reward(rewards: impl Iterator<Item = f32>, n: usize) -> Vec<usize> {
    let scores: Vec<f32> = rewards.map(|reward| -reward).collect();
    top_k(&scores, n)
}

/// `n` of `len` experiences, uniform, without replacement; draws `min(n, len)` uniforms.
pub fn random_sample(len: usize, n: usize, random: &mut dyn Random) -> Vec<usize> {
    sample(len, n, random)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eq15_most_similar_by_hand() {
        let past: [&[f32]; 4] = [&[1.0, 1.0], &[0.0, 1.0], &[5.0, 0.0], &[-1.0, 0.0]];
        assert_eq!(most_similar(&[2.0, 0.0], past.into_iter(), 2), [2, 0]);
        assert_eq!(most_similar(&[2.0, 0.0], past.into_iter(), 9), [2, 0, 1, 3]);
        assert!(most_similar(&[2.0, 0.0], [].into_iter(), 4).is_empty());
    }

    #[test]
    fn lowest_reward_comes_first() {
        assert_eq!(lowest_reward([0.5, -1.0, 0.0, -1.0].into_iter(), 3), [1, 3, 2]);
    }
}
