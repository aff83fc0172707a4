//! The Explorer (Eq. 5-9, Algorithm 2): which candidates to show next.

use ndarray::Array2;
use serde::{Deserialize, Serialize};

use super::pool::{Candidate, Label, descending};
use super::slate::{Pick, Slate, Terms};
use crate::params::Params;

/// What the rounds so far say about one candidate.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Arm {
    /// `N`: how often it was judged.
    pub pulls: u32,
    /// `μ̂`: mean of its labels, in [-1, 1]; 0 before the first.
    pub mean: f32,
}

impl Arm {
    /// Takes one label in, Eq. (9).
    pub fn update(&mut self, label: Label) {
        self.pulls += 1;
        self.mean += (label.value() - self.mean) / self.pulls as f32;
    }
}

/// Upper confidence value `U` of a candidate, Eq. (5): `μ̂ + α sqrt(ln(1 + Σ N) / (1 + N))`.
///
/// `total` is `Σ N` over all candidates: judged places, not rounds.
pub fn ucb(arm: Arm, total: u32, exploration_strength: f32) -> f32 {
    arm.mean + exploration_strength * ((1.0 + total as f32).ln() / (1.0 + arm.pulls as f32)).sqrt()
}

/// Redundancy `D` of a candidate, Eq. (6): its highest similarity to an earlier pick, 0 for the first place.
///
/// `similarities` is `m̃_i · m̃_l` `[K x K]`.
pub fn redundancy(candidate: Candidate, picks: &[Pick], similarities: &Array2<f32>) -> f32 {
    let to = |pick: &Pick| similarities[[candidate.0, pick.candidate.0]];
    picks.iter().map(to).reduce(f32::max).unwrap_or(0.0)
}

/// Score `A` of a candidate, Eq. (7): `λ_rel z - λ_div D + λ_exp U`.
pub fn score(relevance: f32, redundancy: f32, uncertainty: f32, params: &Params) -> f32 {
    params.relevance_weight * relevance - params.diversity_weight * redundancy + params.exploration_weight * uncertainty
}

/// A greedy slate, Eq. (8): place by place the candidate with the highest score among those left; ties by lower place.
///
/// `relevance` is z `[K]`, `similarities` `[K x K]`, `arms` `[K]`. Fewer than `s` candidates give a shorter slate.
pub fn greedy_slate(relevance: &[f32], similarities: &Array2<f32>, arms: &[Arm], params: &Params) -> Slate {
    let mut slate = Slate::default();
    let mut left: Vec<Candidate> = (0..relevance.len()).map(Candidate).collect();
    while slate.len() < params.slate_size && !left.is_empty() {
        let describe = |c: &Candidate| terms(*c, &slate.picks, relevance, similarities, arms, params);
        let all: Vec<Terms> = left.iter().map(describe).collect();
        let best = (1..all.len()).fold(
            0,
            |best, at| {
                if descending(all[at].score, all[best].score).is_lt() { at } else { best }
            },
        );
        slate.picks.push(Pick { candidate: left.remove(best), terms: all[best] });
    }
    slate
}

/// The terms of a candidate given the picks before it.
pub(super) fn terms(
    candidate: Candidate,
    before: &[Pick],
    relevance: &[f32],
    similarities: &Array2<f32>,
    arms: &[Arm],
    params: &Params,
) -> Terms {
    let total = arms.iter().map(|arm| arm.pulls).sum();
    let relevance = relevance[candidate.0];
    let redundancy = redundancy(candidate, before, similarities);
    let uncertainty = ucb(arms[candidate.0], total, params.exploration_strength);
    Terms { relevance, redundancy, uncertainty, score: score(relevance, redundancy, uncertainty, params) }
}

#[cfg(test)]
mod tests {
    use ndarray::array;

    use super::*;

    fn close(a: f32, b: f32) -> bool {
        (a - b).abs() < 1e-6
    }

    #[test]
    fn eq05_ucb_by_hand() {
        // The root covers the whole quotient: 0.5 * sqrt(ln 16 / 4) = 0.5 * 0.832555 = 0.416277.
        let arm = Arm { pulls: 3, mean: -0.25 };
        assert!(close(ucb(arm, 15, 0.5), -0.25 + 0.416_277_3));
        assert_eq!(ucb(Arm::default(), 0, 0.5), 0.0);
        assert_eq!(ucb(arm, 15, 0.0), -0.25);
    }

    #[test]
    fn eq06_redundancy_is_the_highest_similarity_to_the_picks() {
        let similarities = array![[1.0, 0.2, -0.4], [0.2, 1.0, -0.6], [-0.4, -0.6, 1.0]];
        let pick = |i| Pick { candidate: Candidate(i), terms: Terms::default() };
        assert_eq!(redundancy(Candidate(2), &[], &similarities), 0.0);
        // Below zero it stays: the maximum is over the picks alone.
        assert_eq!(redundancy(Candidate(2), &[pick(0), pick(1)], &similarities), -0.4);
    }

    #[test]
    fn eq07_score_by_hand() {
        // 0.4 * 0.5 - 0.3 * 0.2 + 0.3 * 1.0 = 0.44.
        assert!(close(score(0.5, 0.2, 1.0, &Params::paper()), 0.44));
    }

    #[test]
    fn eq08_greedy_slate_avoids_the_twin() {
        // 0 comes first; 1 is its twin (0.4*0.89 - 0.3*1.0 = 0.056); 2 is not (0.4*0.5 = 0.2).
        let similarities = array![[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
        let params = Params { slate_size: 2, ..Params::paper() };
        let slate = greedy_slate(&[0.9, 0.89, 0.5], &similarities, &[Arm::default(); 3], &params);
        assert_eq!(slate.candidates(), [Candidate(0), Candidate(2)]);
        assert!(close(slate.picks[1].terms.score, 0.2));
        let all = greedy_slate(&[0.5; 3], &Array2::zeros((3, 3)), &[Arm::default(); 3], &Params::paper());
        assert_eq!(all.candidates(), [0, 1, 2].map(Candidate));
    }

    #[test]
    fn eq09_running_mean_by_hand() {
        let mut arm = Arm::default();
        for label in [Label::Useful, Label::NotUseful, Label::Useful, Label::Useful] {
            arm.update(label);
        }
        assert_eq!(arm.pulls, 4);
        assert!(close(arm.mean, 0.5));
    }
}
