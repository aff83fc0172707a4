//! Chooses a learning rate on the training questions alone: a fifth of them is held out for it.

use anyhow::Result;
use earmark::Params;
use earmark::critic::Quality;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::plan::{Plan, ResultFolder};
use crate::candidates::Case;
use crate::data::Dataset;
use crate::methods::Inference;
use crate::metrics::Scores;
use crate::{rows, runner, stats};

const FILE: &str = "validation.jsonl";

/// How well one learning rate did on held-out training questions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Validation {
    /// The model's name.
    pub encoder: String,
    /// The learning rate.
    pub learning_rate: f32,
    /// Seed of the division.
    pub seed: u64,
    /// Held-out training questions.
    pub n: usize,
    /// Of the adapter alone, in 0..1.
    pub recall_at_5: f64,
}

/// All validations in a folder.
///
/// # Errors
/// If a line cannot be read.
pub fn read(folder: &ResultFolder) -> Result<Vec<Validation>> {
    rows::read(&folder.file(FILE))
}

/// The rate with the best mean Recall@5 over seeds, ties by the lower rate; a single rate is chosen as it is.
/// `None` if a rate or seed has not been validated.
pub fn choose(validations: &[Validation], encoder: &str, rates: &[f32], seeds: &[u64]) -> Option<f32> {
    if let [only] = rates {
        return Some(*only);
    }
    let mut best: Option<(f64, f32)> = None;
    for rate in rates {
        let value = mean(validations, encoder, *rate, seeds)?;
        let better = best.is_none_or(|(top, chosen)| value > top || (value == top && *rate < chosen));
        if better {
            best = Some((value, *rate));
        }
    }
    best.map(|(_, rate)| rate)
}

/// Mean Recall@5 of one rate over seeds, in 0..1; `None` if a seed has not been validated.
pub fn mean(validations: &[Validation], encoder: &str, rate: f32, seeds: &[u64]) -> Option<f64> {
    let of_seed = |seed: &u64| {
        let same = |v: &&Validation| v.encoder == encoder && v.learning_rate == rate && v.seed == *seed;
        validations.iter().find(same).map(|validation| validation.recall_at_5)
    };
    seeds.iter().map(of_seed).collect::<Option<Vec<f64>>>().map(|values| stats::mean(&values))
}

/// Validates every rate with every seed of the plan and adds the results to the folder.
///
/// # Errors
/// If the folder cannot be written.
pub fn validate(
    plan: &Plan,
    params: &Params,
    rates: &[f32],
    folder: &ResultFolder,
    dataset: &Dataset,
    encoder: &str,
    cases: &[Case],
) -> Result<()> {
    let pairs: Vec<(f32, u64)> = rates.iter().flat_map(|rate| plan.seeds.iter().map(|seed| (*rate, *seed))).collect();
    let one = |(learning_rate, seed): &(f32, u64)| {
        let params = Params { learning_rate: *learning_rate, ..*params };
        let (n, recall_at_5) = validate_one(plan, &params, dataset, cases, *seed)?;
        Ok(Validation { encoder: encoder.to_owned(), learning_rate: *learning_rate, seed: *seed, n, recall_at_5 })
    };
    let results = pairs.par_iter().map(one).collect::<Result<Vec<Validation>>>()?;
    rows::append(&folder.file(FILE), &results)
}

fn validate_one(plan: &Plan, params: &Params, dataset: &Dataset, cases: &[Case], seed: u64) -> Result<(usize, f64)> {
    let split = plan.divide(dataset, seed).held_out_from_training();
    let adapter = runner::train(params, cases, &split.train, Quality::paper(), seed, &mut |_, _| Ok(()))?;
    let inference = Inference::AdapterOnly;
    let tested = runner::test(&adapter, params, inference, cases, &split.test, Quality::paper(), seed)?;
    Ok((split.test.len(), Scores::mean(&tested.scores).recall_at_5))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_mean_over_seeds_is_chosen() {
        let validation = |learning_rate, seed, recall_at_5| Validation {
            encoder: "e".into(),
            learning_rate,
            seed,
            n: 10,
            recall_at_5,
        };
        let all = [
            validation(1e-4, 1, 0.4),
            validation(1e-4, 2, 0.4),
            validation(1e-3, 1, 0.6),
            validation(1e-3, 2, 0.1),
            validation(1e-2, 1, 0.4),
            validation(1e-2, 2, 0.4),
        ];
        assert_eq!(choose(&all, "e", &[1e-3, 1e-2, 1e-4], &[1, 2]), Some(1e-4));
        assert_eq!(choose(&all, "e", &[1e-3, 1e-4], &[1]), Some(1e-3));
        assert_eq!(choose(&all, "e", &[1e-3, 1e-4], &[1, 2, 3]), None);
        assert_eq!(choose(&all, "other", &[1e-3, 1e-4], &[1]), None);
        assert_eq!(choose(&[], "e", &[0.5], &[1]), Some(0.5));
    }
}
