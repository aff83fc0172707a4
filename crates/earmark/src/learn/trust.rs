//! How far the labels of closed recalls can be trusted: a critic that knows something agrees with the static order
//! of the memories it is shown more often than chance; labels that do not are not learned from.

/// Agreement of labels without information is 0.5; up to this much nothing is believed.
const CHANCE: f32 = 0.57;
/// From this agreement on everything is believed.
const SURE: f32 = 0.65;
/// Slates' worth of prior belief that there is no information.
const PSEUDO: f32 = 10.0;
/// Consecutive recalls that are judged together, so that a critic that turns bad is noticed.
const BLOCK: usize = 50;

/// Share of the pairs (useful, not useful) of one slate that `scores` order rightly, ties counting half; `None` if
/// all labels are the same, which says nothing.
pub fn agreement(scores: &[f64], useful: &[bool]) -> Option<f32> {
    let side = |wanted: bool| scores.iter().zip(useful).filter(move |(_, u)| **u == wanted).map(|(s, _)| *s);
    let pairs = side(true).count() * side(false).count();
    let won = |a: f64, b: f64| {
        if a > b {
            1.0
        } else if a == b {
            0.5
        } else {
            0.0
        }
    };
    let right: f32 = side(true).flat_map(|a| side(false).map(move |b| won(a, b))).sum();
    (pairs > 0).then(|| right / pairs as f32)
}

/// Weight in [0, 1] of each recall's labels, from the agreements of all, oldest first: the mean agreement of its
/// block, shrunk towards that of the block before, but never more than all together deserve; squared.
pub fn trust(agreements: &[Option<f32>]) -> Vec<f32> {
    let whole = belief(CHANCE, agreements).1;
    let mut before = CHANCE;
    let mut weights = Vec::with_capacity(agreements.len());
    for block in agreements.chunks(BLOCK) {
        let (mean, believed) = belief(before, block);
        before = mean;
        let weight = believed.min(whole);
        weights.extend(std::iter::repeat_n(weight * weight, block.len()));
    }
    weights
}

/// Shrunk mean agreement, and what it is worth in [0, 1].
fn belief(before: f32, agreements: &[Option<f32>]) -> (f32, f32) {
    let told: Vec<f32> = agreements.iter().flatten().copied().collect();
    let mean = (PSEUDO * before + told.iter().sum::<f32>()) / (PSEUDO + told.len() as f32);
    (mean, ((mean - CHANCE) / (SURE - CHANCE)).clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agreement_by_hand() {
        // Pairs: 3 > 1 right, 3 > 2 right, 1 > 1 tie, 1 > 2 wrong: 2.5 of 4.
        let scores = [3.0, 1.0, 1.0, 2.0];
        assert_eq!(agreement(&scores, &[true, true, false, false]), Some(0.625));
        assert_eq!(agreement(&scores, &[true; 4]), None);
        assert_eq!(agreement(&[], &[]), None);
    }

    #[test]
    fn trust_by_hand() {
        assert_eq!(trust(&[None, None]), [0.0, 0.0]);
        // (10 * 0.57 + 1) / 11 = 0.60909; (0.03909 / 0.08)^2 = 0.23877.
        assert!((trust(&[Some(1.0)])[0] - 0.238_77).abs() < 1e-4);
        assert_eq!(trust(&[Some(0.9); 60]), [1.0; 60]);
        assert_eq!(trust(&[Some(0.5); 200]), [0.0; 200]);
    }

    #[test]
    fn a_critic_that_turns_bad_loses_trust_and_the_good_past_keeps_its_own() {
        let mut agreements = vec![Some(0.9); 200];
        agreements.extend(vec![Some(0.3); 100]);
        let weights = trust(&agreements);
        assert_eq!((weights[0], weights[299]), (1.0, 0.0));
    }
}
