//! The simulated critic of appendix A.2: right with a given precision and recall.

use super::Critic;
use crate::error::{Error, Result};
use crate::random::Random;
use crate::recall::{Candidate, Label};

/// How good a simulated critic is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quality {
    /// `r`: chance that a gold memory is labelled useful, in [0, 1].
    pub recall: f32,
    /// `p`: share of the memories labelled useful that are gold, in (0, 1].
    pub precision: f32,
    /// A fixed chance that another memory is labelled useful; `None` derives it from the precision (A.2).
    pub false_positive_rate: Option<f32>,
}

impl Quality {
    /// Precision 88 and recall 86 (4.4).
    pub const fn paper() -> Self {
        Quality { recall: 0.86, precision: 0.88, false_positive_rate: None }
    }

    /// Whether the numbers are in their ranges.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] that names the field.
    pub fn check(&self) -> Result<()> {
        let unit = |field: &str, value: f32| match (0.0..=1.0).contains(&value) {
            true => Ok(()),
            false => Err(Error::invalid(field, format!("is {value}, but must be in [0, 1]"))),
        };
        unit("recall", self.recall)?;
        unit("precision", self.precision)?;
        unit("false_positive_rate", self.false_positive_rate.unwrap_or(0.0))?;
        if self.precision > 0.0 { Ok(()) } else { Err(Error::invalid("precision", "is 0, but must be above 0")) }
    }
}

/// `p_fp = n r (1 - p) / (u p)` of A.2, at most 1: the chance of a wrong `Useful`.
///
/// `gold` is `n`, the gold memories inside the slate; `others` is `u`, the rest of it. Without either there is none.
pub fn false_positive_rate(gold: usize, others: usize, quality: &Quality) -> f32 {
    let Quality { recall, precision, .. } = *quality;
    let derived = gold as f32 * recall * (1.0 - precision) / (others as f32 * precision);
    let rate = quality.false_positive_rate.unwrap_or(derived);
    if others == 0 { 0.0 } else { rate.min(1.0) }
}

/// A critic that knows the gold memories of its query and errs at random.
pub struct Simulated<'a> {
    /// The gold candidates of the query.
    pub gold: &'a [Candidate],
    /// How often it errs.
    pub quality: Quality,
    /// One uniform is drawn for each place of a slate, in its order.
    pub random: &'a mut dyn Random,
}

impl Critic for Simulated<'_> {
    fn judge(&mut self, slate: &[Candidate]) -> Result<Vec<Option<Label>>> {
        let is_gold = |candidate: &Candidate| self.gold.contains(candidate);
        let gold = slate.iter().filter(|c| is_gold(c)).count();
        let wrong = false_positive_rate(gold, slate.len() - gold, &self.quality);
        let chance = |candidate: &Candidate| if is_gold(candidate) { self.quality.recall } else { wrong };
        let label = |c: &Candidate| Some(Label::from_useful(self.random.uniform() < f64::from(chance(c))));
        Ok(slate.iter().map(label).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Recorded, Seeded};

    #[test]
    fn a2_false_positive_rate_by_hand() {
        // 2 * 0.86 * 0.12 / (3 * 0.88) = 0.0782; n = 4: 0.4691.
        let rate = |n| false_positive_rate(n, 5 - n, &Quality::paper());
        for (n, want) in [(0, 0.0), (1, 0.0293), (2, 0.0782), (3, 0.1759), (4, 0.4691), (5, 0.0)] {
            assert!((rate(n) - want).abs() < 1e-4, "{n}: {}", rate(n));
        }
        let fixed = Quality { false_positive_rate: Some(0.03), ..Quality::paper() };
        assert_eq!(false_positive_rate(0, 5, &fixed), 0.03);
    }

    #[test]
    fn labels_follow_the_uniforms_in_slate_order() {
        let gold = [Candidate(7)];
        let mut random = Recorded::new(vec![0.02, 0.85, 0.5]);
        let mut critic = Simulated { gold: &gold, quality: Quality::paper(), random: &mut random };
        // One gold and two others: p_fp = 0.86 * 0.12 / (2 * 0.88) = 0.0586.
        let labels = critic.judge(&[Candidate(1), Candidate(7), Candidate(0)]).unwrap();
        assert_eq!(labels, [Label::Useful, Label::Useful, Label::NotUseful].map(Some));
    }

    #[test]
    fn a2_precision_and_recall_come_out_as_asked() {
        let (gold, mut random) = ([Candidate(0), Candidate(1)], Seeded::new(2));
        let mut critic = Simulated { gold: &gold, quality: Quality::paper(), random: &mut random };
        let (mut hits, mut named) = (0, 0);
        for _ in 0..20_000 {
            let labels = critic.judge(&[0, 1, 2, 3, 4].map(Candidate)).unwrap();
            let useful =
                |range: std::ops::Range<usize>| labels[range].iter().filter(|l| **l == Some(Label::Useful)).count();
            hits += useful(0..2);
            named += useful(0..5);
        }
        let (recall, precision) = (hits as f32 / 40_000.0, hits as f32 / named as f32);
        assert!((recall - 0.86).abs() < 0.01 && (precision - 0.88).abs() < 0.01, "{recall} {precision}");
    }
}
