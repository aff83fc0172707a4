//! What a slate is worth for one question. All values are in 0..1; `slate` is best first, `gold` is not empty
//! (questions without gold are dropped before, because "all of nothing" would count as found).

use serde::{Deserialize, Serialize};

/// How many memories the metrics look at.
pub const DEPTH: usize = 5;

/// The metrics of one question, or their mean over questions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Scores {
    /// Share of questions with all gold memories among the first five.
    pub recall_at_5: f64,
    /// Share of questions with any gold memory among the first five.
    pub hit_at_5: f64,
    /// Share of the gold memories that is among the first five.
    pub recall_fraction_at_5: f64,
    /// Discounted gain against the best possible order.
    pub ndcg_at_5: f64,
}

impl Scores {
    /// The four metrics of one slate.
    pub fn of(slate: &[usize], gold: &[usize]) -> Scores {
        Scores {
            recall_at_5: recall_at_5(slate, gold),
            hit_at_5: hit_at_5(slate, gold),
            recall_fraction_at_5: recall_fraction_at_5(slate, gold),
            ndcg_at_5: ndcg_at_5(slate, gold),
        }
    }

    /// The mean; zeros for no questions.
    pub fn mean(scores: &[Scores]) -> Scores {
        let mean = |metric: fn(&Scores) -> f64| scores.iter().map(metric).sum::<f64>() / scores.len().max(1) as f64;
        Scores {
            recall_at_5: mean(|score| score.recall_at_5),
            hit_at_5: mean(|score| score.hit_at_5),
            recall_fraction_at_5: mean(|score| score.recall_fraction_at_5),
            ndcg_at_5: mean(|score| score.ndcg_at_5),
        }
    }
}

/// 1 if every gold memory is among the first five, else 0: the paper's Recall@5.
pub fn recall_at_5(slate: &[usize], gold: &[usize]) -> f64 {
    f64::from(found(slate, gold) == gold.len())
}

/// 1 if any gold memory is among the first five, else 0: the paper's Hitrate@5.
pub fn hit_at_5(slate: &[usize], gold: &[usize]) -> f64 {
    f64::from(found(slate, gold) > 0)
}

/// The share of the gold memories among the first five: what LoCoMo's authors call recall.
pub fn recall_fraction_at_5(slate: &[usize], gold: &[usize]) -> f64 {
    found(slate, gold) as f64 / gold.len() as f64
}

/// Sum of 1 / log2(1 + place) over the gold memories in the first five, over the best such sum.
pub fn ndcg_at_5(slate: &[usize], gold: &[usize]) -> f64 {
    let discount = |place: usize| 1.0 / (place as f64 + 2.0).log2();
    let gain: f64 =
        first(slate).iter().enumerate().filter(|(_, row)| gold.contains(row)).map(|(i, _)| discount(i)).sum();
    let best: f64 = (0..gold.len().min(DEPTH)).map(discount).sum();
    gain / best
}

fn found(slate: &[usize], gold: &[usize]) -> usize {
    gold.iter().filter(|row| first(slate).contains(row)).count()
}

fn first(slate: &[usize]) -> &[usize] {
    &slate[..slate.len().min(DEPTH)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        // slate, gold, all, any, fraction, nDCG
        type Line<'a> = (&'a [usize], &'a [usize], f64, f64, f64, f64);
        let rows: [Line<'_>; 6] = [
            (&[7, 3, 9, 1, 2], &[3], 1.0, 1.0, 1.0, 0.630_929_753_6),
            (&[7, 3, 9, 1, 2], &[7, 9], 1.0, 1.0, 1.0, (1.0 + 0.5) / 1.630_929_753_6),
            (&[7, 3, 9, 1, 2], &[7, 8], 0.0, 1.0, 0.5, 1.0 / 1.630_929_753_6),
            (&[7, 3, 9, 1, 2], &[8], 0.0, 0.0, 0.0, 0.0),
            (&[7, 3, 9, 1, 2, 8], &[8], 0.0, 0.0, 0.0, 0.0),
            (&[1, 2, 3, 4, 5], &[1, 2, 3, 4, 5, 6], 0.0, 1.0, 5.0 / 6.0, 1.0),
        ];
        for (slate, gold, all, any, fraction, ndcg) in rows {
            let scores = Scores::of(slate, gold);
            assert_eq!((scores.recall_at_5, scores.hit_at_5, scores.recall_fraction_at_5), (all, any, fraction));
            assert!((scores.ndcg_at_5 - ndcg).abs() < 1e-9, "{slate:?} {gold:?}: {}", scores.ndcg_at_5);
        }
    }

    #[test]
    fn a_short_or_empty_slate_is_no_error() {
        assert_eq!(Scores::of(&[], &[1]), Scores::default());
        assert_eq!(recall_at_5(&[1], &[1]), 1.0);
    }

    #[test]
    fn mean_over_questions() {
        let scores = [Scores::of(&[1], &[1]), Scores::of(&[1], &[2])];
        assert_eq!(Scores::mean(&scores).recall_at_5, 0.5);
        assert_eq!(Scores::mean(&[]), Scores::default());
    }
}
