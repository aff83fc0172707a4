//! What the `default` recipe has learned, and how one closed recall changes it.

use super::{Example, Gate, Past, PastLabel, PastQuestion, Prior, agreement, calibration, logit, refit};
use crate::recall::{PAST_FEATURES, STATIC_PRECISION, STATIC_WEIGHTS};

/// Closed recalls that are each followed by a whole fit; later ones take single steps.
const EAGER: i64 = 24;
/// Closed recalls from one step to the next, later on, while the past is short.
const STEP_EVERY: i64 = 8;
/// Of a long past this share is new from one step to the next.
const STEP_SHARE: i64 = 64;
/// Believed useful labels from which on a fit counts in full. What a fit knows is limited by the rarer kind of label: where
/// one memory in five that are shown is right, fits to a few slates rank below the static order.
const FULL_FROM: f64 = 40.0;
/// Chance that a useful memory is labelled useful. Answers do not cite all that is useful and critics overlook some, so
/// that silence says little about a memory that otherwise looks useful.
pub const HIT_RATE: f64 = 0.75;
/// Steps of a whole fit.
const WHOLE: usize = 25;

/// Weights of the features, and the gate that decides whether they rank.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranker {
    /// Weights `[F]` in force.
    pub weights: Vec<f64>,
    /// The last fit `[F]`, from which the next one goes on; the weights follow it in part at first, and are calibrated.
    fitted: Vec<f64>,
    /// Whether they rank.
    pub gate: Gate,
}

impl Default for Ranker {
    fn default() -> Self {
        Ranker { weights: STATIC_WEIGHTS.to_vec(), fitted: STATIC_WEIGHTS.to_vec(), gate: Gate::default() }
    }
}

/// Log-odds of the static order: what ranks without any feedback. Features `[F]`; those of past feedback are left out.
pub fn static_score(features: &[f32]) -> f64 {
    logit(&STATIC_WEIGHTS[..PAST_FEATURES], features)
}

/// How well labels agree with the static order ([`agreement`]); `None` where they cannot tell.
pub fn static_agreement(labels: &[PastLabel]) -> Option<f32> {
    agreement_with(&static_score, labels)
}

fn agreement_with(score: &dyn Fn(&[f32]) -> f64, labels: &[PastLabel]) -> Option<f32> {
    let usable = labels.iter().filter(|label| label.features.len() == STATIC_WEIGHTS.len());
    let (scores, useful): (Vec<f64>, Vec<bool>) = usable.map(|label| (score(&label.features), label.useful)).unzip();
    agreement(&scores, &useful)
}

/// What a fit learns from one past question.
fn examples((question, trust): (&PastQuestion, f32)) -> impl Iterator<Item = Example<'_>> {
    let usable = question.labels.iter().filter(|label| label.features.len() == STATIC_WEIGHTS.len());
    usable.map(move |label| Example {
        features: &label.features,
        useful: label.useful,
        hit_rate: question.hit_rate,
        weight: f64::from(trust),
    })
}

impl Ranker {
    /// Log-odds that a candidate with these features `[F]` is useful, by the order in force.
    pub fn score(&self, features: &[f32]) -> f64 {
        if self.gate.is_paused() { static_score(features) } else { logit(&self.weights, features) }
    }

    /// Takes in the `n`-th closed recall: both orders are compared on its labels before anything is learned from
    /// them, the past grows by it, and the weights follow all believed labels of the past: by a whole fit at first,
    /// later by single steps now and then, because one recall then moves little. The first fits count in part: after
    /// `n` believed useful labels, by `n / 40`. The constant, which ranks nothing, is then set by [`calibration`].
    pub fn learn(&mut self, past: &mut Past, question: PastQuestion, n: i64) {
        let learned = agreement_with(&|features| logit(&self.weights, features), &question.labels);
        if let (Some(fixed), Some(learned)) = (static_agreement(&question.labels), learned) {
            self.gate.observe(f64::from(fixed), f64::from(learned));
        }
        past.push(question);
        let step_every = (past.len() as i64 / STEP_SHARE).max(STEP_EVERY);
        if n <= EAGER {
            self.fit(past, WHOLE);
        } else if n % step_every == 0 {
            self.fit(past, 1);
        }
    }

    fn fit(&mut self, past: &Past, steps: usize) {
        let examples: Vec<Example> = past.questions().filter(|(_, trust)| *trust > 0.0).flat_map(examples).collect();
        let prior = Prior { mean: &STATIC_WEIGHTS, precision: &STATIC_PRECISION };
        self.fitted = refit(&prior, &examples, &self.fitted, steps);
        let believed: f64 = examples.iter().filter(|example| example.useful).map(|example| example.weight).sum();
        let share = (believed / FULL_FROM).min(1.0);
        let weights = STATIC_WEIGHTS.iter().zip(&self.fitted);
        self.weights = weights.map(|(fixed, fitted)| fixed + share * (fitted - fixed)).collect();
        self.weights[0] += calibration(&prior, &examples, &self.weights);
    }

    /// For the store.
    pub fn to_bytes(&self) -> Vec<u8> {
        let numbers = self.weights.iter().chain(&self.fitted).copied().chain(self.gate.to_numbers());
        numbers.flat_map(f64::to_le_bytes).collect()
    }

    /// What gave these bytes; `None` for those of another set of features.
    pub fn from_bytes(bytes: &[u8]) -> Option<Ranker> {
        let (chunks, rest) = bytes.as_chunks::<8>();
        let numbers: Vec<f64> = chunks.iter().map(|chunk| f64::from_le_bytes(*chunk)).collect();
        let (weights, numbers) = numbers.split_at_checked(STATIC_WEIGHTS.len())?;
        let (fitted, gate) = numbers.split_at_checked(STATIC_WEIGHTS.len())?;
        let gate = Gate::from_numbers(gate.try_into().ok()?);
        rest.is_empty().then(|| Ranker { weights: weights.to_vec(), fitted: fitted.to_vec(), gate })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recall::FEATURES;

    /// A closed recall whose useful memory has the third feature and the others do not.
    fn question(n: i64) -> PastQuestion {
        let label = |i: i64| {
            let mut features = vec![0.0; FEATURES];
            (features[0], features[2]) = (1.0, f32::from(u8::from(i == 2)));
            PastLabel { key: i, useful: i == 2, features }
        };
        let labels = (0..4).map(label).collect();
        PastQuestion { sequence: n, query: vec![1.0], labels, agreement: None, explicit: true, hit_rate: 1.0 }
    }

    #[test]
    fn single_steps_stay_close_to_whole_fits() {
        let (mut ranker, mut past) = (Ranker::default(), Past::new(500));
        (1..=200).for_each(|n| ranker.learn(&mut past, question(n), n));
        let mut whole = ranker.clone();
        whole.fit(&past, WHOLE);
        let apart = ranker.weights.iter().zip(&whole.weights).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(apart < 0.02, "{apart}");
        let found = question(0);
        assert!(ranker.score(&found.labels[2].features) > ranker.score(&found.labels[0].features) + 2.0);
        assert_eq!(static_score(&found.labels[2].features), static_score(&found.labels[0].features));
    }

    #[test]
    fn the_first_fits_count_in_part() {
        let (mut ranker, mut past) = (Ranker::default(), Past::new(500));
        (1..=15).for_each(|n| ranker.learn(&mut past, question(n), n));
        let examples: Vec<Example> = past.questions().flat_map(examples).collect();
        let prior = Prior { mean: &STATIC_WEIGHTS, precision: &STATIC_PRECISION };
        let whole = refit(&prior, &examples, &STATIC_WEIGHTS, WHOLE);
        // 15 of 40 useful labels.
        let expected = STATIC_WEIGHTS[2] + 0.375 * (whole[2] - STATIC_WEIGHTS[2]);
        assert!((ranker.weights[2] - expected).abs() < 1e-6, "{} {expected}", ranker.weights[2]);
    }

    #[test]
    fn a_paused_ranker_ranks_as_before_any_feedback() {
        let (mut ranker, mut past) = (Ranker::default(), Past::new(500));
        (1..=30).for_each(|n| ranker.learn(&mut past, question(n), n));
        ranker.gate = Gate::from_numbers([1.0; Gate::NUMBERS]);
        let features = &question(0).labels[2].features;
        assert_eq!(ranker.score(features), static_score(features));
        assert_eq!(Ranker::from_bytes(&ranker.to_bytes()), Some(ranker));
        assert_eq!(Ranker::from_bytes(&[0; 8]), None);
    }
}
