//! The metrics of each kind of question, and of each memory store where a bank has more than one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::data::{Dataset, Question};
use crate::metrics::{self, DEPTH};
use crate::stats;

/// What the questions of one kind got.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TypeScores {
    /// The source's kind of question.
    pub question_type: String,
    /// Questions of that kind.
    pub n: usize,
    /// Share of them with all gold memories in the first five.
    pub recall_at_5: f64,
    /// One entry for each store, by name; empty where a bank has one store only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stores: Vec<StoreScores>,
}

/// What one store gave to the questions of a kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoreScores {
    /// The memories' kind, for example `episodic`.
    pub store: String,
    /// Questions with a gold memory in this store.
    pub n: usize,
    /// Share of those with all gold memories of this store in the first five.
    pub recall_at_5: f64,
    /// Memories of this store in the first five, mean over all questions of the kind.
    pub served: f64,
}

/// The metrics of each kind, kinds in alphabetical order. `slates` holds the bank rows served to each question of
/// `test` (indices into the data set's questions), best first. Empty where no question has a kind.
pub fn by_type(dataset: &Dataset, test: &[usize], slates: &[Vec<usize>]) -> Vec<TypeScores> {
    let mut types: BTreeMap<&str, Vec<(&Question, &[usize])>> = BTreeMap::new();
    for (index, slate) in test.iter().zip(slates) {
        let question = &dataset.questions[*index];
        if let Some(kind) = question.category.as_deref() {
            types.entry(kind).or_default().push((question, slate));
        }
    }
    types.into_iter().map(|(kind, asked)| type_scores(dataset, kind, &asked)).collect()
}

fn type_scores(dataset: &Dataset, kind: &str, asked: &[(&Question, &[usize])]) -> TypeScores {
    let found: Vec<f64> = asked.iter().map(|(question, slate)| metrics::recall_at_5(slate, &question.gold)).collect();
    let names = store_names(dataset);
    let stores = if names.len() < 2 { Vec::new() } else { names };
    TypeScores {
        question_type: kind.to_owned(),
        n: asked.len(),
        recall_at_5: stats::mean(&found),
        stores: stores.into_iter().map(|store| store_scores(dataset, store, asked)).collect(),
    }
}

fn store_scores(dataset: &Dataset, store: &str, asked: &[(&Question, &[usize])]) -> StoreScores {
    let (mut found, mut served) = (Vec::new(), Vec::new());
    for (question, slate) in asked {
        let memories = &dataset.banks[question.bank].memories;
        let of_store = |row: &&usize| memories[**row].kind.as_deref() == Some(store);
        served.push(slate.iter().take(DEPTH).filter(of_store).count() as f64);
        let gold: Vec<usize> = question.gold.iter().filter(of_store).copied().collect();
        if !gold.is_empty() {
            found.push(metrics::recall_at_5(slate, &gold));
        }
    }
    StoreScores {
        store: store.to_owned(),
        n: found.len(),
        recall_at_5: stats::mean(&found),
        served: stats::mean(&served),
    }
}

/// The kinds of memories of the first bank, by name.
fn store_names(dataset: &Dataset) -> Vec<&str> {
    let memories = dataset.banks.first().map_or(&[][..], |bank| &bank.memories);
    let mut names: Vec<&str> = memories.iter().filter_map(|memory| memory.kind.as_deref()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Bank, LabMemory};

    fn memory(kind: &str) -> LabMemory {
        LabMemory {
            id: String::new(),
            text: "x".into(),
            caption: None,
            author: None,
            session: None,
            date: None,
            occurred_at: None,
            kind: Some(kind.into()),
        }
    }

    fn question(category: &str, gold: &[usize]) -> Question {
        Question {
            id: String::new(),
            bank: 0,
            text: String::new(),
            gold: gold.to_vec(),
            answer: None,
            category: Some(category.into()),
            date: None,
            conversation: String::new(),
        }
    }

    #[test]
    fn each_store_counts_its_own_gold_and_its_places() {
        let memories = ["episodic", "episodic", "semantic", "semantic"].map(memory).to_vec();
        let dataset = Dataset {
            name: String::new(),
            banks: vec![Bank { name: String::new(), memories }],
            questions: vec![question("b", &[0, 2]), question("a", &[1]), question("b", &[3])],
        };
        let slates = [vec![0, 1, 3], vec![1], vec![2, 3]];
        let types = by_type(&dataset, &[0, 1, 2], &slates);
        assert_eq!(types.iter().map(|t| t.question_type.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!((types[1].n, types[1].recall_at_5), (2, 0.5));
        let [episodic, semantic] = &types[1].stores[..] else { panic!("{types:?}") };
        assert_eq!((episodic.n, episodic.recall_at_5, episodic.served), (1, 1.0, 1.0));
        assert_eq!((semantic.n, semantic.recall_at_5, semantic.served), (2, 0.5, 1.5));
    }

    #[test]
    fn one_store_is_not_split() {
        let dataset = Dataset {
            name: String::new(),
            banks: vec![Bank { name: String::new(), memories: vec![memory("episodic")] }],
            questions: vec![question("a", &[0])],
        };
        assert!(by_type(&dataset, &[0], &[vec![0]])[0].stores.is_empty());
    }
}
