//! What is shown: picks with the terms that chose them.

use serde::{Deserialize, Serialize};

use super::pool::{Candidate, top_k};
use crate::random::{Random, gumbel};

/// The parts of a candidate's score at the moment it was picked, Eq. (7).
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Terms {
    /// `z`: similarity of the adapted query and memory, Eq. (4).
    pub relevance: f32,
    /// `D`: highest similarity to an earlier pick of the slate, Eq. (6).
    pub redundancy: f32,
    /// `U`: mean feedback plus exploration bonus, Eq. (5).
    pub uncertainty: f32,
    /// `A`: what the pick was ordered by, Eq. (7); for other slates their own score.
    pub score: f32,
}

/// One place of a slate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Pick {
    /// Which candidate.
    pub candidate: Candidate,
    /// Why.
    pub terms: Terms,
}

/// The memories shown in one round, in the order in which they were picked.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Slate {
    /// At most `s` picks, none twice.
    pub picks: Vec<Pick>,
    /// The Gumbel noise `g [K]` behind a sampled slate; empty for others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub noise: Vec<f32>,
}

impl Slate {
    /// The candidates, in slate order.
    pub fn candidates(&self) -> Vec<Candidate> {
        self.picks.iter().map(|pick| pick.candidate).collect()
    }

    /// How many are shown.
    pub fn len(&self) -> usize {
        self.picks.len()
    }

    /// Whether nothing is shown.
    pub fn is_empty(&self) -> bool {
        self.picks.is_empty()
    }

    pub(super) fn ranked(relevance: &[f32], scores: &[f32], size: usize) -> Self {
        let pick = |i: usize| Pick {
            candidate: Candidate(i),
            terms: Terms { relevance: relevance[i], score: scores[i], ..Terms::default() },
        };
        Slate { picks: top_k(scores, size).into_iter().map(pick).collect(), noise: Vec::new() }
    }
}

/// The `size` candidates with the highest relevance, best first, ties by lower place: adapter-only inference.
pub fn top_slate(relevance: &[f32], size: usize) -> Slate {
    Slate::ranked(relevance, relevance, size)
}

/// A slate sampled without replacement: the best `size` of relevance plus Gumbel noise, Eq. (19).
///
/// Draws one uniform for each candidate, in order.
pub fn gumbel_slate(relevance: &[f32], size: usize, random: &mut dyn Random) -> Slate {
    let noise: Vec<f32> = relevance.iter().map(|_| gumbel(random.uniform())).collect();
    let perturbed: Vec<f32> = relevance.iter().zip(&noise).map(|(z, g)| z + g).collect();
    Slate { noise, ..Slate::ranked(relevance, &perturbed, size) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Recorded, Seeded};

    fn places(slate: &Slate) -> Vec<usize> {
        slate.candidates().iter().map(|c| c.0).collect()
    }

    #[test]
    fn top_slate_is_best_first() {
        assert_eq!(places(&top_slate(&[0.1, 0.3, 0.3, 0.2], 3)), [1, 2, 3]);
        assert!(top_slate(&[], 5).is_empty());
    }

    #[test]
    fn eq19_gumbel_noise_by_hand() {
        // u = e^-1 gives g = -ln 1 = 0; u = e^(-1/e) gives g = -ln(1/e) = 1.
        let (zero, one) = ((-1.0f64).exp(), (-(-1.0f64).exp()).exp());
        let slate = gumbel_slate(&[0.5, 0.0, 0.7], 2, &mut Recorded::new(vec![zero, one, zero]));
        assert_eq!(places(&slate), [1, 2]);
        assert!((slate.picks[0].terms.score - 1.0).abs() < 1e-6 && slate.noise[0].abs() < 1e-6);
        assert_eq!(slate.picks[0].terms.relevance, 0.0);
    }

    #[test]
    fn eq19_first_pick_follows_the_softmax() {
        // z = ln 1, ln 3: the second candidate comes first in three of four draws.
        let (mut random, z) = (Seeded::new(5), [0.0, 3.0f32.ln()]);
        let hits = (0..8000).filter(|_| gumbel_slate(&z, 1, &mut random).picks[0].candidate.0 == 1).count();
        assert!((hits as f32 / 8000.0 - 0.75).abs() < 0.02, "{hits}");
    }
}
