//! What is compared, as a list of parameter values.

use anyhow::{Context, Result};
use earmark::critic::Quality;
use earmark::{Params, TrainingSlate};
use serde_json::{Map, Value};

/// How a trained adapter answers a test question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inference {
    /// The best five by adapted relevance; no critic call.
    AdapterOnly,
    /// `T - 1` rounds with the critic, which sees the test question's labels.
    Explorer,
}

/// One line of a methods table.
#[derive(Debug, Clone, PartialEq)]
pub struct Method {
    /// Its name in result rows.
    pub name: String,
    /// Parameters of training and inference.
    pub params: Params,
    /// Whether anything is learned before the test.
    pub trains: bool,
    /// How it answers.
    pub inference: Inference,
    /// How often its simulated critic errs, in training and at test.
    pub quality: Quality,
}

/// The paper's parameters, with those that the JSON object `changes` names replaced.
///
/// # Errors
/// If it is not an object of parameters; the message names what is wrong.
pub fn paper_with(changes: &str) -> Result<Params> {
    let wrong = "the parameters are not a JSON object like {\"candidates\": 10}";
    let changes: Map<String, Value> = serde_json::from_str(changes).context(wrong)?;
    let mut all = serde_json::to_value(Params::paper())?;
    if let Value::Object(fields) = &mut all {
        fields.extend(changes);
    }
    serde_json::from_value(all).context(wrong)
}

/// The rows of Tables 2 and 3; `ear` holds what they have in common (learning rate, initialisation, ...).
pub fn paper(ear: &Params) -> Vec<Method> {
    let rl = Params { training_slate: TrainingSlate::Gumbel, rounds: 1, replay_size: 0, ..*ear };
    let buffer = Params { replay_size: ear.replay_size, ..rl };
    let explorer = Params { replay_size: 0, ..*ear };
    let quality = Quality::paper();
    let method =
        |name: &str, params, trains, inference| Method { name: name.to_owned(), params, trains, inference, quality };
    vec![
        method("only-retriever", *ear, false, Inference::AdapterOnly),
        method("rl-update", rl, true, Inference::AdapterOnly),
        method("explorer-in-training", explorer, true, Inference::AdapterOnly),
        method("buffer-in-training", buffer, true, Inference::AdapterOnly),
        method("ear", *ear, true, Inference::AdapterOnly),
        method("explorer-only", *ear, false, Inference::Explorer),
        method("ear-explorer", *ear, true, Inference::Explorer),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_changed_is_the_papers() {
        assert_eq!(paper_with("{\"candidates\": 10}").unwrap(), Params { candidates: 10, ..Params::paper() });
        for wrong in ["", "7", "{\"candidate\": 10}", "{\"candidates\": -1}"] {
            assert!(paper_with(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_ablations_differ_in_what_they_are_named_after() {
        let methods = paper(&Params::paper());
        let of = |name: &str| methods.iter().find(|method| method.name == name).unwrap();
        let calls = |name: &str| (of(name).params.rounds, of(name).params.replay_size);
        assert_eq!(calls("rl-update"), (1, 0));
        assert_eq!(calls("buffer-in-training"), (1, 4));
        assert_eq!(calls("explorer-in-training"), (4, 0));
        assert_eq!(of("ear").params, of("ear-explorer").params);
        assert_eq!(of("buffer-in-training").params.training_slate, TrainingSlate::Gumbel);
        assert!(methods.iter().all(|method| method.params.check().is_ok()));
    }
}
