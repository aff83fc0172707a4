//! Every number and every choice of the method, in one flat struct.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// How two adapted vectors are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Similarity {
    /// Unit length after the adapter, Eq. (3).
    Cosine,
    /// Inner product of the adapted vectors as they are (Algorithm 3, line 1).
    Dot,
}

/// Which slate a finished episode serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinalSlate {
    /// The slate of round `T`, as printed; it still explores.
    LastRound,
    /// The candidates with the highest posterior log-odds of being useful; ties by relevance.
    PosteriorBest,
}

/// How a slate is chosen while training.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrainingSlate {
    /// The greedy slate of Eq. (8).
    Explorer,
    /// The best `s` of relevance plus Gumbel noise (the reranker with RL update).
    Gumbel,
    /// The best `s` by relevance.
    TopScore,
}

/// The rule that turns a gradient into a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Optimizer {
    /// Adam with bias correction.
    Adam,
    /// Plain gradient descent, Eq. (18) to the letter.
    Sgd,
}

/// What the adapter starts from.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Initialisation {
    /// All zeros: before any feedback the ranking is the retriever's.
    Zeros,
    /// Independent normal entries with mean 0.
    Normal {
        /// Standard deviation, at least 0.
        std: f32,
    },
    /// Uniform in `±1/sqrt(d)`, the usual start of a linear layer.
    Kaiming,
}

/// Which past experiences are replayed (Table 7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplaySampling {
    /// Those whose raw query is most similar to the current one, Eq. (15).
    Similarity,
    /// Those with the lowest mean feedback.
    Reward,
    /// Uniform, without replacement.
    Random,
}

/// What a replayed candidate is worth that nobody ever judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplayUnobserved {
    /// `-1`, as Eq. (20) gives for a mean of 0.
    Negative,
    /// Nothing: it is left out of the loss, as Eq. (13) suggests.
    Skip,
}

/// The distribution in the loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Probability {
    /// Softmax over all candidates for each pick, Eq. (4).
    FullSoftmax,
    /// Softmax over the candidates that earlier picks of the slate have left.
    PlackettLuce,
}

/// Whether the loss sees the noise that chose a Gumbel slate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogProbability {
    /// No: Eq. (4).
    Plain,
    /// Yes: softmax of (score + noise) / `gumbel_temperature`.
    Perturbed,
}

/// Which method ranks and learns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recipe {
    /// What measures best: hybrid candidates, a Bayesian reranker over features, exploration by posterior odds.
    Default,
    /// The EAR paper as printed: dense candidates, the residual adapter, the UCB Explorer, replay.
    Paper,
}

/// Everything that can be set about recall and learning. An ablation is a value of this struct.
///
/// Where a default says "paper" the number is printed there; "reading" marks a choice the paper leaves open.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Which method ranks and learns.
    pub recipe: Recipe,
    /// `K`: candidates that the retriever hands over, Eq. (1). At least 1; 20 (paper, 5.1).
    pub candidates: usize,
    /// `s`: memories in a slate. At least 1; 5 (paper, 4.4).
    pub slate_size: usize,
    /// `T`: rounds of an episode. At least 1; 4 (paper, 4.1).
    pub rounds: usize,
    /// How adapted vectors are compared, Eq. (3). Cosine (paper).
    pub similarity: Similarity,
    /// `λ_rel` of Eq. (7): weight of relevance. Finite; 0.4 (paper, A).
    pub relevance_weight: f32,
    /// `λ_div` of Eq. (7): weight of the redundancy penalty. Finite; 0.3 (paper, A).
    pub diversity_weight: f32,
    /// `λ_exp` of Eq. (7): weight of the upper confidence value. Finite; 0.3 (paper, A).
    pub exploration_weight: f32,
    /// `α` of Eq. (5): strength of the exploration bonus. At least 0; 0.5 (paper, A).
    pub exploration_strength: f32,
    /// Which slate is served at the end. Last round (paper, Algorithm 1, line 12).
    pub final_slate: FinalSlate,
    /// Chance that the critic labels a useful memory useful; used by `PosteriorBest` only. In (0, 1); 0.86 (paper, 4.4).
    pub critic_recall: f32,
    /// Chance that the critic labels a useless memory useful; used by `PosteriorBest` only. In (0, 1); 0.03 (reading of A.2).
    pub critic_false_positive_rate: f32,
    /// How slates are chosen while training. Explorer (paper); Gumbel gives the RL baseline.
    pub training_slate: TrainingSlate,
    /// What the adapter starts from. Zeros (reading).
    pub initialisation: Initialisation,
    /// The update rule of Eq. (18). Adam (reading: with plain descent at this rate nothing moves).
    pub optimizer: Optimizer,
    /// `η` of Eq. (18). At least 0 (0 freezes the adapter); 0.001 (paper, A.1).
    pub learning_rate: f32,
    /// Decay of Adam's first moment. In [0, 1); 0.9 (reading).
    pub adam_beta1: f32,
    /// Decay of Adam's second moment. In [0, 1); 0.999 (reading).
    pub adam_beta2: f32,
    /// Adam's `ε`, added to the root of the second moment. Above 0; 1e-8 (reading).
    pub adam_epsilon: f32,
    /// `b` of Eq. (10): baseline taken from each label. Finite; 0.5 (paper, A.1).
    pub baseline: f32,
    /// Queries whose losses are averaged into one update. At least 1; 4 (paper, A.1, read as queries per update).
    pub batch_size: usize,
    /// `B` of Eq. (15): experiences replayed with each query; 0 turns the buffer off; 4 (paper, A.1).
    pub replay_size: usize,
    /// `λ_rep` of Eq. (17): weight of the replay loss. At least 0; 1.0 (paper, A.1).
    pub replay_weight: f32,
    /// Which experiences are replayed. Similarity (paper, Table 7).
    pub replay_sampling: ReplaySampling,
    /// Reward of replayed candidates without a label. Negative (reading of Eq. 20).
    pub replay_unobserved: ReplayUnobserved,
    /// Temperature of perturbed probabilities; which candidates are drawn does not depend on it. Above 0; 0.5 (paper, A.1).
    pub gumbel_temperature: f32,
    /// The distribution in the loss. Full softmax (paper, Eq. 4 and 10).
    pub probability: Probability,
    /// Whether the loss sees the Gumbel noise. Plain (paper, Eq. 10).
    pub log_probability: LogProbability,
    /// Temperature of the softmax of Eq. (4). Above 0; 1 (paper: none).
    pub temperature: f32,
    /// Passes over the training queries. At least 1; 1 (paper; Fig. 4 gives the baseline 4).
    pub epochs: usize,
    /// `default` recipe: exploring stops when the next slate promises fewer useful memories. At least 0; 0.15.
    pub stop_below: f32,
    /// `default` recipe: log-odds that a useful label adds to similar candidates, per unit of cosine. At least 0; 1.
    pub spread_useful: f32,
    /// `default` recipe: log-odds that a useless label takes from similar candidates. At least 0; 0.25.
    pub spread_not_useful: f32,
    /// `default` recipe: cosine below which a label does not spread. In [-1, 1]; 0.35.
    pub spread_threshold: f32,
}

impl Default for Params {
    fn default() -> Self {
        Params { recipe: Recipe::Default, candidates: 75, final_slate: FinalSlate::PosteriorBest, ..Params::paper() }
    }
}

impl Params {
    /// The method as printed.
    pub const fn paper() -> Self {
        Params {
            recipe: Recipe::Paper,
            candidates: 20,
            slate_size: 5,
            rounds: 4,
            similarity: Similarity::Cosine,
            relevance_weight: 0.4,
            diversity_weight: 0.3,
            exploration_weight: 0.3,
            exploration_strength: 0.5,
            final_slate: FinalSlate::LastRound,
            critic_recall: 0.86,
            critic_false_positive_rate: 0.03,
            training_slate: TrainingSlate::Explorer,
            initialisation: Initialisation::Zeros,
            optimizer: Optimizer::Adam,
            learning_rate: 1e-3,
            adam_beta1: 0.9,
            adam_beta2: 0.999,
            adam_epsilon: 1e-8,
            baseline: 0.5,
            batch_size: 4,
            replay_size: 4,
            replay_weight: 1.0,
            replay_sampling: ReplaySampling::Similarity,
            replay_unobserved: ReplayUnobserved::Negative,
            gumbel_temperature: 0.5,
            probability: Probability::FullSoftmax,
            log_probability: LogProbability::Plain,
            temperature: 1.0,
            epochs: 1,
            stop_below: 0.15,
            spread_useful: 1.0,
            spread_not_useful: 0.25,
            spread_threshold: 0.35,
        }
    }

    /// Whether every field is in its range.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] that names the first field out of range and what it accepts.
    pub fn check(&self) -> Result<()> {
        self.check_counts()?;
        self.check_explorer()?;
        self.check_learner()
    }

    fn check_counts(&self) -> Result<()> {
        let counts = [
            ("candidates", self.candidates),
            ("slate_size", self.slate_size),
            ("rounds", self.rounds),
            ("batch_size", self.batch_size),
            ("epochs", self.epochs),
        ];
        counts.into_iter().try_for_each(|(field, value)| require(field, value as f32, value >= 1, "at least 1"))
    }

    fn check_explorer(&self) -> Result<()> {
        finite("relevance_weight", self.relevance_weight)?;
        finite("diversity_weight", self.diversity_weight)?;
        finite("exploration_weight", self.exploration_weight)?;
        not_negative("exploration_strength", self.exploration_strength)?;
        not_negative("stop_below", self.stop_below)?;
        not_negative("spread_useful", self.spread_useful)?;
        not_negative("spread_not_useful", self.spread_not_useful)?;
        finite("spread_threshold", self.spread_threshold)?;
        probability("critic_recall", self.critic_recall)?;
        probability("critic_false_positive_rate", self.critic_false_positive_rate)
    }

    fn check_learner(&self) -> Result<()> {
        if let Initialisation::Normal { std } = self.initialisation {
            not_negative("initialisation.normal.std", std)?;
        }
        not_negative("learning_rate", self.learning_rate)?;
        decay("adam_beta1", self.adam_beta1)?;
        decay("adam_beta2", self.adam_beta2)?;
        positive("adam_epsilon", self.adam_epsilon)?;
        finite("baseline", self.baseline)?;
        not_negative("replay_weight", self.replay_weight)?;
        positive("gumbel_temperature", self.gumbel_temperature)?;
        positive("temperature", self.temperature)
    }
}

fn require(field: &str, value: f32, holds: bool, accepted: &str) -> Result<()> {
    if holds { Ok(()) } else { Err(Error::invalid(field, format!("is {value}, but must be {accepted}"))) }
}

fn finite(field: &str, value: f32) -> Result<()> {
    require(field, value, value.is_finite(), "a finite number")
}

fn not_negative(field: &str, value: f32) -> Result<()> {
    require(field, value, value.is_finite() && value >= 0.0, "0 or more")
}

fn positive(field: &str, value: f32) -> Result<()> {
    require(field, value, value.is_finite() && value > 0.0, "above 0")
}

fn decay(field: &str, value: f32) -> Result<()> {
    require(field, value, (0.0..1.0).contains(&value), "at least 0 and below 1")
}

fn probability(field: &str, value: f32) -> Result<()> {
    require(field, value, value > 0.0 && value < 1.0, "between 0 and 1, both excluded")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_paper_is_within_its_own_ranges() {
        assert!(Params::paper().check().is_ok());
    }

    #[test]
    fn a_field_out_of_range_is_named() {
        let cases: [(&str, Params); 6] = [
            ("slate_size", Params { slate_size: 0, ..Params::paper() }),
            ("temperature", Params { temperature: 0.0, ..Params::paper() }),
            ("learning_rate", Params { learning_rate: f32::NAN, ..Params::paper() }),
            ("adam_beta2", Params { adam_beta2: 1.0, ..Params::paper() }),
            ("critic_recall", Params { critic_recall: 1.0, ..Params::paper() }),
            ("std", Params { initialisation: Initialisation::Normal { std: -1.0 }, ..Params::paper() }),
        ];
        for (field, params) in cases {
            let message = params.check().err().map(|e| e.to_string()).unwrap_or_default();
            assert!(message.contains(field), "{field}: {message}");
        }
    }

    #[test]
    fn survives_json_and_refuses_a_typo() {
        let params = Params { initialisation: Initialisation::Normal { std: 0.01 }, ..Params::paper() };
        let text = serde_json::to_string(&params).unwrap();
        assert_eq!(serde_json::from_str::<Params>(&text).unwrap(), params);
        assert_eq!(serde_json::from_str::<Params>(r#"{"rounds": 2}"#).unwrap().rounds, 2);
        assert!(serde_json::from_str::<Params>(r#"{"round": 2}"#).is_err());
    }
}
